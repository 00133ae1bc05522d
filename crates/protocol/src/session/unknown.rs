//! Word of what is not known: a caller's key, and sessions of an earlier life.

use super::handshake::{Place, ReplyOut};
use super::peer::Peer;
use super::{
    DropReason, Incoming, REPLIES_MAX, SESSION_KEPT_MIN, SessionEvent, Sessions, UNKNOWN_SESSIONS_FOR,
    UNKNOWN_SESSIONS_PER_SECOND_MAX,
};
use wavelane_base::{Instant, Span};
use wavelane_wire::datagram::{UnknownKey, UnknownSession, WORD_NONCE_LEN};

impl Sessions {
    /// The peer says that it does not know our key.
    pub(super) fn handle_unknown_key(&mut self, now: Instant, datagram: &[u8]) -> Incoming {
        let Ok(word) = UnknownKey::parse(datagram) else { return Incoming::Dropped(DropReason::Malformed) };
        let asked = self.peer_of(word.receiver).and_then(|peer| {
            let p = &self.peers[peer];
            let initiation = p.initiation.as_ref().filter(|i| i.index == word.receiver)?;
            Some((peer, p.mac.unknown_key_is_right(&word, &initiation.mac1)))
        });
        match asked {
            None => Incoming::Dropped(DropReason::UnknownSession),
            Some((_, false)) => Incoming::Dropped(DropReason::Forged),
            Some((peer, true)) => {
                self.notice(now, SessionEvent::OwnKeyUnknown { peer });
                Incoming::Handled
            }
        }
    }

    /// The peer says that it does not know the session that we use. Other peers may have chosen the same index for theirs; one that
    /// was replaced meanwhile may be forgotten.
    pub(super) fn handle_unknown_session(&mut self, now: Instant, datagram: &[u8]) -> Incoming {
        let Ok(word) = UnknownSession::parse(datagram) else { return Incoming::Dropped(DropReason::Malformed) };
        let uses = |p: &Peer| p.current.as_ref().is_some_and(|s| s.peer_index == word.receiver);
        let mut users = (0..self.peers.len()).filter(|peer| uses(&self.peers[*peer])).peekable();
        if users.peek().is_none() {
            return Incoming::Dropped(DropReason::UnknownSession);
        }
        let Some(peer) = users.find(|peer| self.peers[*peer].mac.unknown_session_is_right(&word)) else {
            return Incoming::Dropped(DropReason::Forged);
        };
        let p = &mut self.peers[peer];
        if p.current.as_ref().is_some_and(|s| s.age(now) >= SESSION_KEPT_MIN) {
            p.suspected.get_or_insert(now);
            self.advance(now, peer);
        }
        Incoming::Handled
    }

    /// Data came for a session that is not known here: soon after a start its sender most often does not know of that.
    pub(super) fn say_session_unknown(&mut self, now: Instant, place: Place, receiver: u32) {
        if now.since(self.started) >= UNKNOWN_SESSIONS_FOR {
            return;
        }
        if now.since(self.words_second) >= Span::from_secs(1) {
            self.words_second = now;
            self.words.clear();
        }
        // The other half is for cookies.
        let room = self.replies.len() < REPLIES_MAX / 2 && self.words.len() < UNKNOWN_SESSIONS_PER_SECOND_MAX;
        if room && self.words.insert(receiver) {
            let mut nonce = [0; WORD_NONCE_LEN];
            self.entropy.fill(&mut nonce);
            let word = self.mac.unknown_session(receiver, nonce);
            self.replies.push_back(ReplyOut { port: place.0, to: place.1, bytes: word.to_bytes().into() });
        }
    }
}
