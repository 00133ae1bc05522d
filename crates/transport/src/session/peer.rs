//! One neighbour's keys, numbers and timers.

use super::calls::{Calls, FirstAnswer};
use super::keys::Session;
use super::mac::{Cookie, MacKeys};
use super::window::Window;
use super::{
    ANSWERED_WAIT, CALLED_WAIT, COOKIE_LIFETIME, INIT_LIFETIME, LANES_MAX, NO_ANSWER_REPEAT, NO_ANSWER_TRIES,
    OLD_SESSIONS_MAX, OUTAGE_TRIES, OUTAGE_TRIES_END, Origin, PeerKeys, REJECT_AFTER, REJECT_AFTER_PACKETS,
    REKEY_AFTER, REKEY_AFTER_PACKETS, REKEY_RESPONDER_EXTRA, RETRY_FIRST, RETRY_MAX, RETRY_SLOW,
    SILENCE_BEFORE_HANDSHAKE, Way,
};
use snow::HandshakeState;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wavelane_base::{Address, Instant, PortId, Span, Wakeup};
use wavelane_wire::datagram::MAC_LEN;

/// Our first message, not answered yet. It is retransmitted unchanged, so an answer to any copy completes it, however long the round trip
/// is.
pub(super) struct Initiation {
    pub(super) noise: HandshakeState,
    pub(super) index: u32,
    /// The message including its first mac.
    pub(super) message: Vec<u8>,
    pub(super) mac1: [u8; MAC_LEN],
    pub(super) born: Instant,
    /// The ways on which a copy is to be sent as soon as their ports have room.
    pub(super) due: BTreeSet<usize>,
    /// Whether a copy of this round was sent.
    pub(super) tried: bool,
    pub(super) calls: Calls,
    /// The way on which a copy was sent first.
    pub(super) sent_by: Option<usize>,
    /// Copies were sent on several ways: it is unknown which of them reached the peer.
    pub(super) sent_wide: bool,
}

/// Most destinations for which copies of an answer may wait: those of the peer's own copies, and as many of others'.
const DUE_MAX: usize = 2 * LANES_MAX;

/// The peer's first message, answered. Data under the keys will show that the peer has them.
pub(super) struct Answered {
    pub(super) session: Session,
    /// The answer including its first mac; each copy of the first message gets a copy of it.
    pub(super) message: Vec<u8>,
    pub(super) mac1: [u8; MAC_LEN],
    /// The first mac of the message that was answered.
    pub(super) init_mac1: [u8; MAC_LEN],
    /// The destinations of copies, sent as soon as the ports have room, at most [`DUE_MAX`].
    pub(super) due: Vec<(PortId, Origin)>,
    /// The sources of the first message so far, at most [`LANES_MAX`].
    pub(super) asked_from: Vec<(PortId, Option<Address>)>,
    /// The way on which its next repetition is answered.
    pub(super) turn: usize,
    /// Its last destination.
    pub(super) sent_to: Option<Address>,
    /// It was sent to several destinations: it is unknown which copy reached the peer.
    pub(super) sent_wide: bool,
}

impl Answered {
    /// A copy of the first message arrived. Answers that wait for other copies are still sent: one of them may be the peer's, and this one
    /// made by an eavesdropper.
    pub(super) fn ask_again(&mut self, places: Vec<(PortId, Origin)>) {
        self.due.retain(|waiting| !places.contains(waiting));
        self.due.extend(places);
        let surplus = self.due.len().saturating_sub(DUE_MAX);
        self.due.drain(..surplus);
    }
}

/// An address that only our owner remembers. It may be another host's by now, so it gets a few calls and no data.
#[derive(Clone, Copy)]
pub(super) struct Recalled {
    pub(super) address: Address,
    /// Calls left to this address.
    pub(super) calls: u32,
}

/// One way to reach the peer.
pub(super) struct WayOut {
    /// `None` if it was removed.
    pub(super) port: Option<PortId>,
    pub(super) one_way: bool,
    /// Its configured destination. Every second unanswered call goes there, so that two neighbours who both moved, and know only each
    /// other's old addresses, meet again once one of them is back home.
    pub(super) home: Option<Address>,
    /// Its current destination.
    pub(super) address: Option<Address>,
    /// Which of our addresses the peer sends to, according to its newest datagram.
    pub(super) local: Option<IpAddr>,
}

impl WayOut {
    pub(super) fn new(way: Way) -> Self {
        Self { port: Some(way.port), one_way: way.one_way, home: way.address, address: way.address, local: None }
    }
}

pub(super) struct Peer {
    pub(super) keys: PeerKeys,
    pub(super) ways: Vec<WayOut>,
    /// Its first way's destination before our start, while nothing newer is known.
    pub(super) recalled: Option<Recalled>,
    pub(super) mac: MacKeys,
    /// Its cookie for us, and when it was received.
    pub(super) cookie: Option<(Instant, Cookie)>,
    pub(super) wanted: bool,
    pub(super) suspected: Option<Instant>,
    /// The boot epoch of the current or last sessions.
    pub(super) epoch: Option<u64>,
    /// The newest (epoch, counter) of its first messages.
    pub(super) newest_init: Option<(u64, u64)>,
    pub(super) initiation: Option<Box<Initiation>>,
    /// The last one that grew too old unanswered: its index, and when it was made.
    pub(super) outlived: Option<(u32, Instant)>,
    /// First messages sent without an answer.
    pub(super) tries: u32,
    /// The time until the answer to our last handshake that did not wait for the end of an outage.
    pub(super) round_trip: Option<Span>,
    /// The first answer to that handshake.
    pub(super) first_answer: Option<Box<FirstAnswer>>,
    /// No first message is sent before this.
    pub(super) next_try: Instant,
    pub(super) answered: Option<Box<Answered>>,
    /// Seals and opens datagrams.
    pub(super) current: Option<Session>,
    /// Open late datagrams; newest first.
    pub(super) old: Vec<Session>,
    /// Since when we have sealed datagrams without receiving anything authenticated.
    pub(super) unanswered_since: Option<Instant>,
    windows: [Option<Box<Window>>; LANES_MAX],
    /// Per lane, the lowest number that may be sealed next.
    seal_next: [u64; LANES_MAX],
}

impl Peer {
    pub(super) fn new(keys: PeerKeys) -> Self {
        Self {
            mac: MacKeys::new(&keys.public_key),
            ways: keys.ways.iter().copied().map(WayOut::new).collect(),
            recalled: None,
            keys,
            cookie: None,
            wanted: false,
            round_trip: None,
            first_answer: None,
            suspected: None,
            epoch: None,
            newest_init: None,
            initiation: None,
            outlived: None,
            tries: 0,
            next_try: Instant::ZERO,
            answered: None,
            current: None,
            old: Vec::new(),
            unanswered_since: None,
            windows: [const { None }; LANES_MAX],
            seal_next: [0; LANES_MAX],
        }
    }

    /// The destination of the next first message sent on `way`.
    pub(super) fn call_address(&self, way: usize) -> Option<Address> {
        let roams = self.tries % 2 == 1;
        let recalled = self.recalled.filter(|r| way == 0 && r.calls > 0).map(|r| r.address);
        let way = self.ways.get(way)?;
        way.home.filter(|_| roams).or(way.address).or(recalled)
    }

    /// The ways with an address to call.
    pub(super) fn callable(&self) -> impl Iterator<Item = usize> {
        (0..self.ways.len()).filter(|way| self.call_address(*way).is_some())
    }

    /// Whether there is an address to call.
    pub(super) fn can_be_called(&self) -> bool {
        self.callable().next().is_some()
    }

    /// Whether the destination of any way is known.
    pub(super) fn has_address(&self) -> bool {
        self.ways.iter().any(|way| way.address.is_some())
    }

    /// The outbound way that is the reverse of what arrived on `port` from `from`, if there is one.
    pub(super) fn way_back(&self, port: PortId, from: Option<Address>) -> Option<usize> {
        let by_port = |way: &WayOut| way.port == Some(port) && !way.one_way;
        let there = |way: &WayOut| by_port(way) && from.is_some() && (way.address == from || way.home == from);
        self.ways.iter().position(there).or_else(|| self.ways.iter().position(by_port))
    }

    /// The destinations of an answer to `place`: back to it, or, if nothing is sent on that port, every way.
    pub(super) fn places_back(&self, place: (PortId, Origin)) -> Vec<(PortId, Origin)> {
        if self.ways.is_empty() || self.ways.iter().any(|way| way.port == Some(place.0) && !way.one_way) {
            return vec![place];
        }
        let known = self.ways.iter().filter(|way| way.address.is_some());
        known.filter_map(|way| Some((way.port?, Origin { from: way.address, at: way.local }))).collect()
    }

    /// The destinations of an answer to another copy of the first message. A copy from a new source came on another way and is answered
    /// there. A copy from a known source means that the answer was lost, and that possibly nothing arrives on the way back: all ways are
    /// used in turn.
    pub(super) fn places_again(&mut self, place: (PortId, Origin)) -> Vec<(PortId, Origin)> {
        let (places, back) = (self.places_back(place), self.way_back(place.0, place.1.from));
        let (Some(answered), Some(back)) = (&mut self.answered, back) else { return places };
        let from = (place.0, place.1.from);
        if !answered.asked_from.contains(&from) && answered.asked_from.len() < LANES_MAX {
            answered.asked_from.push(from);
            return places;
        }
        let turns = (0..self.ways.len()).map(|step| (answered.turn + step) % self.ways.len());
        let leads = |way: &usize| *way == back || self.ways[*way].address.is_some();
        let Some(way) = turns.into_iter().find(leads) else { return places };
        answered.turn = way + 1;
        if way == back {
            return places;
        }
        let way = &self.ways[way];
        way.port.map_or(places, |port| vec![(port, Origin { from: way.address, at: way.local })])
    }

    /// When we have to start a handshake; `None` if there is no reason.
    pub(super) fn initiation_at(&self) -> Option<Instant> {
        if !self.wanted || !self.can_be_called() {
            return None;
        }
        let mut at = match &self.current {
            None => Instant::ZERO,
            Some(s) if s.sealed >= REKEY_AFTER_PACKETS => Instant::ZERO,
            Some(s) => {
                let patience = if s.initiator { REKEY_AFTER } else { REKEY_AFTER + REKEY_RESPONDER_EXTRA };
                let silent = self.unanswered_since.map(|t| t + SILENCE_BEFORE_HANDSHAKE);
                [silent, self.suspected].into_iter().flatten().fold(s.established + patience, Instant::min)
            }
        };
        if let Some(answered) = &self.answered {
            at = at.max(answered.session.established + ANSWERED_WAIT);
        }
        Some(at.max(self.next_try))
    }

    /// When an unanswered first message is retransmitted. While the peer calls too, its confirmation of our answer serves as well, and the
    /// copies would delay it on a slow path.
    pub(super) fn repeat_at(&self) -> Instant {
        let answered = self.answered.as_ref().filter(|_| self.tries > 0);
        answered.map_or(self.next_try, |a| self.next_try.max(a.session.established + CALLED_WAIT))
    }

    /// The wait between two calls, before shortening, if the peer was reached before and so many are unanswered that an outage is the
    /// reason: the time that an answer took.
    pub(super) fn outage_wait(&self) -> Option<Span> {
        let answered_in = self.round_trip.filter(|_| (OUTAGE_TRIES..OUTAGE_TRIES_END).contains(&self.tries))?;
        Some(answered_in.clamp(RETRY_FIRST, RETRY_MAX))
    }

    /// The wait after a call that follows `tries` others: doubling up to a cap, or the outage wait. Shortened by up to a quarter so that
    /// many nodes do not call in step.
    pub(super) fn wait(&self, draw: u64) -> Span {
        let shortened = |full: Span| full.saturating_sub(full.scale(draw % 1024, 4 * 1024));
        if let Some(wait) = self.outage_wait() {
            return shortened(wait);
        }
        // Copies sent before the answer can arrive fill a slow path with further answers.
        let least = self.round_trip.filter(|took| *took >= RETRY_MAX).map_or(Span::ZERO, |took| took.min(RETRY_SLOW));
        shortened(RETRY_FIRST.times(1 << self.tries.min(8)).min(RETRY_MAX)).max(least)
    }

    /// Whether the call that follows `tries` others triggers a notice: the fifth, and then about one a minute.
    pub(super) fn is_worth_notice(&self) -> bool {
        let in_outage = self.outage_wait().map_or(1, |wait| RETRY_MAX.as_nanos().div_ceil(wait.as_nanos()));
        let beyond = self.tries.checked_sub(NO_ANSWER_TRIES);
        beyond.is_some_and(|beyond| u64::from(beyond).is_multiple_of(u64::from(NO_ANSWER_REPEAT) * in_outage))
    }

    /// The peer's next deadline.
    pub(super) fn wakeup(&self) -> Option<Wakeup> {
        let expiry = self.sessions().map(|s| s.established + REJECT_AFTER).min();
        let mut next = expiry.map(|at| Wakeup { at, cause: "session keys run out" });
        let handshake = match &self.initiation {
            None => self.initiation_at().map(|at| Wakeup { at, cause: "handshake is called for" }),
            Some(i) => {
                let gone = Wakeup { at: i.born + INIT_LIFETIME, cause: "unanswered handshake is made anew" };
                let calls = (i.due.is_empty() || i.tried) && self.wanted && self.can_be_called();
                let again = calls.then_some(Wakeup { at: self.repeat_at(), cause: "handshake is sent again" });
                Wakeup::earliest(again, Some(gone))
            }
        };
        next = Wakeup::earliest(next, handshake);
        next
    }

    /// Every session whose keys open datagrams.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.current.iter().chain(self.answered.iter().map(|a| &a.session)).chain(&self.old)
    }

    /// Whether one of its slots uses this index of ours.
    pub(super) fn uses(&self, index: u32) -> bool {
        self.initiation.as_ref().is_some_and(|i| i.index == index) || self.sessions().any(|s| s.index == index)
    }

    /// Drops expired state. True if the last session that could seal is gone.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let dead = |s: &Session| s.age(now) >= REJECT_AFTER;
        self.old.retain(|s| !dead(s));
        if self.answered.as_ref().is_some_and(|a| dead(&a.session)) {
            self.answered = None;
        }
        if let Some(old) = self.initiation.take_if(|i| now.since(i.born) >= INIT_LIFETIME) {
            self.outlived = Some((old.index, old.born));
        }
        let gone = self.current.as_ref().is_some_and(dead);
        if gone {
            self.current = None;
            self.unanswered_since = None;
            self.suspected = None;
        }
        gone
    }

    /// The cookie to show, while it is valid.
    pub(super) fn cookie(&self, now: Instant) -> Option<Cookie> {
        self.cookie.filter(|(at, _)| now.since(*at) < COOKIE_LIFETIME).map(|(_, cookie)| cookie)
    }

    pub(super) fn can_seal(&self, now: Instant) -> bool {
        self.current.as_ref().is_some_and(|s| s.age(now) < REJECT_AFTER && s.sealed < REJECT_AFTER_PACKETS)
    }

    /// Marks `number` of `lane` as sealed.
    ///
    /// # Panics
    /// If it was sealed before: a nonce used twice under one key reveals the plaintexts.
    pub(super) fn take_number(&mut self, lane: u8, number: u64) {
        let next = &mut self.seal_next[usize::from(lane)];
        assert!(number >= *next, "lane {lane} must seal growing numbers: {number} after {}", *next - 1);
        *next = number + 1;
    }

    /// Whether `number` of `lane` was not seen under the current epoch.
    pub(super) fn is_new(&self, lane: u8, number: u64) -> bool {
        self.windows[usize::from(lane)].as_ref().is_none_or(|w| w.is_new(number))
    }

    /// Marks an authenticated `number` as seen; true if it is its lane's highest.
    pub(super) fn commit(&mut self, lane: u8, number: u64) -> bool {
        self.windows[usize::from(lane)].get_or_insert_with(|| Box::new(Window::new())).commit(number)
    }

    /// Makes the current session an old one, or, if the peer lost its state, drops everything of the old epoch. Returns (restarted, fresh).
    pub(super) fn turn_over(&mut self, epoch: u64) -> (bool, bool) {
        let restarted = self.epoch.is_some_and(|e| e != epoch);
        let fresh = self.current.is_none() || restarted;
        let before = self.current.take();
        if restarted {
            self.old.clear();
            self.windows = [const { None }; LANES_MAX];
        } else if let Some(before) = before {
            self.make_old(before);
        }
        if self.newest_init.is_none_or(|(known, _)| known != epoch) {
            self.newest_init = Some((epoch, 0));
        }
        self.epoch = Some(epoch);
        self.initiation = None;
        self.tries = 0;
        self.recalled = None;
        self.suspected = None;
        self.unanswered_since = None;
        (restarted, fresh)
    }

    pub(super) fn make_old(&mut self, session: Session) {
        self.old.insert(0, session);
        self.old.truncate(OLD_SESSIONS_MAX);
    }
}
