//! Handshakes: starting them, answering them, completing them.

use super::calls::{Calls, FirstAnswer};
use super::keys::{Outcome, Session};
use super::mac::{Admission, mac2};
use super::noise;
use super::peer::{Answered, Initiation, Peer};
use super::{
    DropReason, Established, HandshakeOut, INIT_LIFETIME, Incoming, OUTAGE_TRIES, Origin, REJECT_AFTER, REPLIES_MAX,
    SessionEvent, Sessions,
};
use wavelane_base::{Address, Instant, PortId};
use wavelane_wire::datagram::{
    CookieReply, HANDSHAKE_MAX, Handshake, InitPayload, MAC_LEN, ResponsePayload, Suite, UnknownKey, WIRE_VERSION,
    capability, kind,
};

/// A reply to a stranger that waits for room on its port.
pub(super) struct ReplyOut {
    port: PortId,
    pub(super) to: Origin,
    bytes: Vec<u8>,
}

/// Where a datagram came from.
type Place = (PortId, Origin);

/// The pre-shared key mixed in for a peer without one.
pub(crate) const NO_PRESHARED_KEY: [u8; 32] = [0; 32];

impl Sessions {
    /// Starts, retransmits or drops the peer's handshake according to its deadlines.
    pub(super) fn advance(&mut self, now: Instant, peer: usize) {
        let p = &mut self.peers[peer];
        if p.expire(now) {
            self.report(SessionEvent::Expired { peer });
        }
        let p = &mut self.peers[peer];
        let call = p.wanted && now >= p.repeat_at();
        let ways: Vec<usize> = p.callable().filter(|_| call).collect();
        if let Some(initiation) = &mut p.initiation {
            initiation.tried &= ways.is_empty();
            initiation.due.extend(ways);
        } else if p.initiation_at().is_some_and(|at| at <= now) {
            self.start_initiation(now, peer);
        }
        if self.peers[peer].initiation.as_ref().is_some_and(|i| !i.due.is_empty()) {
            self.due.insert(peer);
        }
    }

    pub(super) fn start_initiation(&mut self, now: Instant, peer: usize) {
        let index = self.new_index(peer);
        self.init_counter += 1;
        let payload = InitPayload {
            version: WIRE_VERSION,
            capabilities: self.capabilities(),
            epoch: self.boot_epoch,
            counter: self.init_counter,
        };
        let p = &mut self.peers[peer];
        let preshared = p.keys.preshared_key.unwrap_or(NO_PRESHARED_KEY);
        let mut noise =
            noise::initiator(&mut self.entropy, &self.statics, &p.keys.public_key, &preshared, &noise::prologue(index));
        let mut out = [0; HANDSHAKE_MAX];
        let len = noise.write_message(&payload.to_bytes(), &mut out).expect("the first message fits its buffer");
        let mut message = [&[kind::HANDSHAKE_INIT, WIRE_VERSION][..], &index.to_be_bytes(), &out[..len]].concat();
        let mac1 = p.mac.mac1(&message);
        message.extend(mac1);
        let due = p.callable().collect();
        p.initiation = Some(Box::new(Initiation {
            noise,
            index,
            message,
            mac1,
            born: now,
            due,
            tried: false,
            calls: Calls::default(),
            sent_by: None,
            sent_wide: false,
        }));
    }

    fn capabilities(&self) -> u32 {
        let aes = if self.aes { capability::AES } else { 0 };
        let overhear = if self.overhear { capability::OVERHEAR } else { 0 };
        aes | overhear | if self.compress { capability::COMPRESS } else { 0 }
    }

    /// An unused index of ours, from which the peer can be derived (see `Sessions::peer_of`).
    fn new_index(&mut self, peer: usize) -> u32 {
        let peers = self.peers.len() as u64;
        let choices = (u64::from(u32::MAX) + 1) / peers;
        loop {
            // At most four slots of each peer are in use, so this ends at once.
            let index = ((self.entropy.next_u64() % choices) * peers + peer as u64) as u32;
            if !self.peers.iter().any(|p| p.uses(index)) {
                return index;
            }
        }
    }

    /// Whether one more reply to a stranger may wait for room on a port. Each port is counted separately.
    fn takes_reply(&self, port: PortId) -> bool {
        self.replies.iter().filter(|reply| reply.port == port).count() < REPLIES_MAX
    }

    /// Handles a first message or an answer.
    pub(super) fn handle_handshake(&mut self, now: Instant, place: Place, datagram: &[u8]) -> Incoming {
        let Ok(message) = Handshake::parse(datagram) else { return Incoming::Dropped(DropReason::Malformed) };
        if !self.mac.mac1_is_right(message.before_mac1, &message.mac1) {
            return Incoming::Dropped(DropReason::Mac);
        }
        match self.guard.admit(now, &mut self.entropy, (place.0, place.1.from), message.before_mac2, &message.mac2) {
            Admission::Admit => {}
            Admission::Refuse => return Incoming::Dropped(DropReason::Overload),
            Admission::AskForCookie if !self.takes_reply(place.0) => {
                return Incoming::Dropped(DropReason::Overload);
            }
            Admission::AskForCookie => {
                let reply = self.guard.reply(
                    &mut self.entropy,
                    &self.mac,
                    (place.0, place.1.from),
                    message.sender,
                    &message.mac1,
                );
                self.replies.push_back(ReplyOut { port: place.0, to: place.1, bytes: reply.to_bytes().into() });
                return Incoming::Dropped(DropReason::CookieNeeded);
            }
        }
        if message.version != WIRE_VERSION {
            self.notice(now, SessionEvent::OtherVersion { version: message.version, from: place.1.from });
            return Incoming::Dropped(DropReason::Version);
        }
        let done = match message.receiver {
            None => self.handle_init(now, place, &message),
            Some(receiver) => self.handle_response(now, place, &message, receiver),
        };
        // A failed handshake may require a new one at once.
        self.handle_timeout(now);
        done.unwrap_or_else(Incoming::Dropped)
    }

    fn handle_init(&mut self, now: Instant, place: Place, message: &Handshake<'_>) -> Result<Incoming, DropReason> {
        if let Some(peer) = self.peers.iter().position(|p| {
            p.answered.as_ref().is_some_and(|a| a.init_mac1 == message.mac1 && a.session.age(now) < REJECT_AFTER)
        }) {
            // The same message again: our answer was lost, or the network duplicated it. No key is computed for it.
            let places = self.peers[peer].places_again(place);
            if let Some(answered) = &mut self.peers[peer].answered {
                // A repetition suggests that our answers do not arrive: it does not postpone our own calls.
                answered.ask_again(places);
            }
            self.due.insert(peer);
            return Ok(Incoming::Handled);
        }
        let mut noise = noise::responder(&mut self.entropy, &self.statics, &noise::prologue(message.sender));
        let mut payload = [0; HANDSHAKE_MAX];
        let len = noise.read_message(message.noise, &mut payload).map_err(|_| DropReason::Forged)?;
        let public_key: [u8; 32] =
            noise.get_remote_static().and_then(|k| k.try_into().ok()).ok_or(DropReason::Forged)?;
        let Some(peer) = self.peers.iter().position(|p| p.keys.public_key == public_key) else {
            // The caller has proven that the key is its own, and its operator looks for the error. Strangers who do not know our key get no
            // reply, and these get one rarely.
            let told = self.notice(now, SessionEvent::UnknownPeer { public_key, from: place.1.from });
            if told && self.takes_reply(place.0) {
                let word = self.mac.unknown_key(message.sender, &message.mac1);
                self.replies.push_back(ReplyOut { port: place.0, to: place.1, bytes: word.to_bytes().into() });
            }
            return Err(DropReason::UnknownPeer);
        };
        let init = InitPayload::parse(&payload[..len]).map_err(|_| DropReason::Malformed)?;
        if init.version != message.version {
            return Err(DropReason::Version);
        }
        if let Some(known) = self.peers[peer].newest_init
            && (init.epoch, init.counter) <= known
        {
            if init.epoch < known.0 {
                self.notice(now, SessionEvent::EpochWentBack { peer, epoch: init.epoch, known: known.0 });
            }
            return Err(DropReason::NotNewer);
        }
        self.answer(now, peer, place, message, init, noise);
        Ok(Incoming::Handled)
    }

    /// If both sides initiate, the one with the lower public key leads.
    fn leads(&self, peer: usize) -> bool {
        self.public_key < self.peers[peer].keys.public_key
    }

    fn answer(
        &mut self,
        now: Instant,
        peer: usize,
        place: Place,
        message: &Handshake<'_>,
        init: InitPayload,
        mut noise: snow::HandshakeState,
    ) {
        let index = self.new_index(peer);
        let both_aes = self.aes && init.capabilities & capability::AES != 0;
        let suite = if both_aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 };
        let payload = ResponsePayload {
            version: WIRE_VERSION,
            capabilities: self.capabilities(),
            epoch: self.boot_epoch,
            sender: index,
            suite,
        };
        let leads = self.leads(peer);
        let p = &mut self.peers[peer];
        noise
            .set_psk(2, &p.keys.preshared_key.unwrap_or(NO_PRESHARED_KEY))
            .expect("the pattern has a pre-shared key at 2");
        let mut out = [0; HANDSHAKE_MAX];
        let len = noise.write_message(&payload.to_bytes(), &mut out).expect("the answer fits its buffer");
        let head = [kind::HANDSHAKE_RESPONSE, WIRE_VERSION];
        let mut bytes = [&head[..], &index.to_be_bytes(), &message.sender.to_be_bytes(), &out[..len]].concat();
        let mac1 = p.mac.mac1(&bytes);
        bytes.extend(mac1);
        let outcome = Outcome {
            index,
            peer_index: message.sender,
            initiator: false,
            epoch: init.epoch,
            suite,
            overhears: self.overhear && init.capabilities & capability::OVERHEAR != 0,
            compresses: self.compress && init.capabilities & capability::COMPRESS != 0,
            split: noise.dangerously_get_raw_split(),
        };
        self.keys.note(&outcome);
        p.newest_init = Some((init.epoch, init.counter));
        p.answered = Some(Box::new(Answered {
            session: Session::new(now, outcome),
            message: bytes,
            mac1,
            init_mac1: message.mac1,
            due: p.places_back(place),
            asked_from: vec![(place.0, place.1.from)],
            turn: p.way_back(place.0, place.1.from).map_or(0, |way| way + 1),
            sent_to: None,
            sent_wide: false,
        }));
        if !leads {
            // Both sides initiated: the peer's handshake continues, ours does not.
            p.initiation = None;
        }
        self.due.insert(peer);
    }

    fn handle_response(
        &mut self,
        now: Instant,
        place: Place,
        message: &Handshake<'_>,
        receiver: u32,
    ) -> Result<Incoming, DropReason> {
        let Some(peer) = self.peer_of(receiver) else {
            let outlived = |p: &Peer| p.outlived.filter(|(index, _)| *index == receiver);
            let found = self.peers.iter().enumerate().find_map(|(peer, p)| Some((peer, outlived(p)?.1)));
            if let Some((peer, born)) = found {
                self.notice(now, SessionEvent::AnswerLate { peer, took: now.since(born) });
            }
            return Err(DropReason::UnknownSession);
        };
        let p = &mut self.peers[peer];
        // This answer makes a recalled address the peer's, so only an answer from that address may do so.
        if !p.has_address() && place.1.from != p.recalled.map(|r| r.address) {
            return Err(DropReason::UnknownSession);
        }
        if let Some(answer) = &mut p.first_answer
            && answer.again(receiver, &message.mac1, place)
        {
            p.round_trip = Some(answer.round_trip());
        }
        let initiation = p.initiation.as_mut();
        let initiation = initiation
            .filter(|i| i.index == receiver && now.since(i.born) < INIT_LIFETIME)
            .ok_or(DropReason::UnknownSession)?;
        let mut payload = [0; HANDSHAKE_MAX];
        let Ok(len) = initiation.noise.read_message(message.noise, &mut payload) else {
            self.notice(now, SessionEvent::AnswerUnreadable { peer, from: place.1.from });
            return Err(DropReason::Forged);
        };
        let split = initiation.noise.dangerously_get_raw_split();
        let round_trip = now.since(initiation.born);
        let (sent_wide, calls) = (initiation.sent_wide, core::mem::take(&mut initiation.calls));
        // From here on the handshake is used up, whatever the answer says.
        self.peers[peer].initiation = None;
        let answer = ResponsePayload::parse(&payload[..len]).map_err(|_| DropReason::Malformed)?;
        let honest = answer.sender == message.sender && (self.aes || answer.suite != Suite::Aes256Gcm);
        if answer.version != message.version || !honest {
            return Err(DropReason::Malformed);
        }
        let outcome = Outcome {
            index: receiver,
            peer_index: message.sender,
            initiator: true,
            epoch: answer.epoch,
            suite: answer.suite,
            overhears: self.overhear && answer.capabilities & capability::OVERHEAR != 0,
            compresses: self.compress && answer.capabilities & capability::COMPRESS != 0,
            split,
        };
        self.keys.note(&outcome);
        let leads = self.leads(peer);
        let p = &mut self.peers[peer];
        let after_outage = p.tries >= OUTAGE_TRIES;
        let recalled = p.recalled.map(|recalled| recalled.address);
        let (restarted, fresh) = p.turn_over(answer.epoch);
        // A handshake of the peer's that we answered: superseded if ours leads, void if the peer restarted since.
        match p.answered.take() {
            Some(a) if a.session.epoch == answer.epoch && leads => p.make_old(a.session),
            Some(a) if a.session.epoch >= answer.epoch => p.answered = Some(a),
            _ => {}
        }
        p.current = Some(Session::new(now, outcome));
        if !after_outage || p.round_trip.is_none() {
            let answer = FirstAnswer::new(now, receiver, message.mac1, place, calls);
            p.round_trip = Some(answer.round_trip());
            p.first_answer = Some(Box::new(answer));
        }
        let Origin { from, at } = place.1;
        let mut proven = false;
        if let Some(back) = p.way_back(place.0, from) {
            let way = &mut p.ways[back];
            way.local = at;
            // Nothing was sent to the source of an answer on a way without a destination: anyone with the peer's key may claim to be there.
            way.address = way.address.or(recalled.filter(|address| back == 0 && from == Some(*address)));
            proven = from.is_some() && (from == way.address && !sent_wide || from == way.home);
            if from.is_some() && from == way.home {
                // It answers from its configured address: that becomes its address.
                way.address = from;
            }
        }
        let epoch = answer.epoch;
        let session = Established { peer, epoch, restarted, fresh, confirm: true, from, round_trip, proven };
        Ok(Incoming::Established(session))
    }

    /// The first data under the keys of our answer: the session is established.
    pub(super) fn confirm_answered(&mut self, now: Instant, peer: usize, from: Option<Address>) -> Option<Established> {
        let p = &mut self.peers[peer];
        let answered = p.answered.take()?;
        let epoch = answered.session.epoch;
        let round_trip = answered.session.age(now);
        let proven = from.is_some() && from == answered.sent_to && !answered.sent_wide;
        let (restarted, fresh) = p.turn_over(epoch);
        p.current = Some(answered.session);
        Some(Established { peer, epoch, restarted, fresh, confirm: false, from, round_trip, proven })
    }

    pub(super) fn handle_cookie_reply(&mut self, now: Instant, datagram: &[u8]) -> Incoming {
        let Ok(reply) = CookieReply::parse(datagram) else { return Incoming::Dropped(DropReason::Malformed) };
        let Some(peer) = self.peer_of(reply.receiver) else { return Incoming::Dropped(DropReason::UnknownSession) };
        let p = &mut self.peers[peer];
        let asked = p.initiation.as_ref().filter(|i| i.index == reply.receiver).map(|i| i.mac1);
        let answered = p.answered.as_ref().filter(|a| a.session.index == reply.receiver).map(|a| a.mac1);
        let Some(mac1) = asked.or(answered) else { return Incoming::Dropped(DropReason::UnknownSession) };
        match p.mac.open_cookie(&reply, &mac1) {
            Some(cookie) => {
                p.cookie = Some((now, cookie));
                Incoming::Handled
            }
            None => Incoming::Dropped(DropReason::Forged),
        }
    }

    /// The peer reports that it does not know our key.
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

    /// Whether a handshake message may be waiting for [`Sessions::poll_handshake`] of this port.
    pub fn handshake_waits(&self, port: PortId) -> bool {
        self.replies.iter().any(|r| r.port == port)
            || self.due.iter().any(|peer| self.peers[*peer].has_message_for(port))
    }

    /// The next handshake datagram for `port`, if any. `buf` holds at least [`HANDSHAKE_MAX`] bytes; with less nothing is written.
    /// Handshakes are few: send them before anything else on the port.
    pub fn poll_handshake(&mut self, now: Instant, port: PortId, buf: &mut [u8]) -> Option<HandshakeOut> {
        if buf.len() < HANDSHAKE_MAX {
            return None;
        }
        if let Some(i) = self.replies.iter().position(|r| r.port == port) {
            let reply = self.replies.remove(i)?;
            let len = reply.bytes.len();
            buf[..len].copy_from_slice(&reply.bytes);
            return Some(HandshakeOut { len, to: reply.to.from, from: reply.to.at, peer: None });
        }
        let mut after = 0;
        while let Some(&peer) = self.due.range(after..).next() {
            after = peer + 1;
            let out = self.poll_answer(now, peer, port, buf).or_else(|| self.poll_init(now, peer, port, buf));
            if !self.peers[peer].has_message() {
                self.due.remove(&peer);
            }
            if out.is_some() {
                return out;
            }
        }
        None
    }

    fn poll_answer(&mut self, now: Instant, peer: usize, port: PortId, buf: &mut [u8]) -> Option<HandshakeOut> {
        let p = &mut self.peers[peer];
        let cookie = p.cookie(now);
        let answered = p.answered.as_mut()?;
        let place = answered.due.iter().position(|(via, _)| *via == port)?;
        let (_, to) = answered.due.remove(place);
        answered.sent_wide |= answered.sent_to.is_some() && answered.sent_to != to.from;
        answered.sent_to = to.from;
        let len = finish(&answered.message, cookie, buf);
        Some(HandshakeOut { len, to: to.from, from: to.at, peer: Some(peer) })
    }

    fn poll_init(&mut self, now: Instant, peer: usize, port: PortId, buf: &mut [u8]) -> Option<HandshakeOut> {
        let p = &mut self.peers[peer];
        let due = p.initiation.as_ref()?.due.iter();
        let way = due.copied().find(|way| p.ways.get(*way).is_some_and(|way| way.port == Some(port)))?;
        let address = p.call_address(way)?;
        // For a configured address the system chooses the best source, and another if that fails. At any other address the peer was heard
        // from, and may hear us only from the address that it called.
        let from = p.ways[way].local.filter(|_| p.ways[way].home != Some(address));
        let (cookie, has_address) = (p.cookie(now), p.has_address());
        let initiation = p.initiation.as_mut()?;
        initiation.due.remove(&way);
        initiation.sent_wide |= *initiation.sent_by.get_or_insert(way) != way;
        let len = finish(&initiation.message, cookie, buf);
        if let Some(recalled) = p.recalled.as_mut().filter(|_| !has_address) {
            recalled.calls = recalled.calls.saturating_sub(1);
        }
        if core::mem::replace(&mut initiation.tried, true) {
            // Another copy of the same try.
            return Some(HandshakeOut { len, to: Some(address), from, peer: Some(peer) });
        }
        initiation.calls.note(now);
        p.next_try = now + p.wait(self.entropy.next_u64());
        let (tries, notice) = (p.tries, p.is_worth_notice());
        p.tries = tries.saturating_add(1);
        if notice {
            self.report(SessionEvent::NoAnswer { peer, address, tries });
        }
        Some(HandshakeOut { len, to: Some(address), from, peer: Some(peer) })
    }
}

/// Writes a message and its second mac: with the cookie, or zeros.
fn finish(message: &[u8], cookie: Option<[u8; MAC_LEN]>, buf: &mut [u8]) -> usize {
    let (head, tail) = buf.split_at_mut(message.len());
    head.copy_from_slice(message);
    tail[..MAC_LEN].copy_from_slice(&cookie.map_or([0; MAC_LEN], |c| mac2(&c, message)));
    message.len() + MAC_LEN
}
