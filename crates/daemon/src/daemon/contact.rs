//! The state of each peer: since when it answers or does not, why not, and what of that was logged.

use super::{Daemon, GREETING_PATIENCE};
use crate::changes::{Allowance, Changes};
use crate::config::far_end;
use crate::decisions::{Event, Reached};
use crate::diagnosis::Cause;
use crate::hook::Change;
use crate::keys;
use crate::names::News;
use crate::peer_addresses::PeerAddress;
use crate::system::medium;
use wavelane_base::{Address, Instant, Span};
use wavelane_gateway::PeerId;

/// For how long a message about a wrong key, from a peer or a caller, explains a peer's silence.
const EVIDENCE_FRESH: Span = Span::from_secs(300);
/// For how long a host's message that nothing listens there explains its silence: the kernel sends few such messages, and
/// our handshakes use them up, so that a later examination may get none.
const REFUSAL_FRESH: Span = Span::from_secs(60);
/// Unknown callers' keys that were logged and are not logged again.
pub(super) const CALLERS_KEPT: usize = 16;
/// A caller that called in this time still calls: it repeats its handshake more often.
const CALLS_FRESH: Span = Span::from_secs(60);

/// What is known of a peer besides what the gateway knows.
#[derive(Clone)]
pub(super) struct Contact {
    pub(super) up: bool,
    /// What was logged of that.
    said: Changes,
    /// Bounds the other lines that it can cause.
    lines: Allowance,
    /// The same of its lanes out, in the file's order.
    pub(super) lanes: Vec<Changes>,
    /// The same of lanes without a table, in the order of the status.
    pub(super) answering: Vec<Changes>,
    /// Since when it is up, or is not.
    pub(super) since: Instant,
    /// It has answered since our start, under the key that the file has.
    met: bool,
    /// Its silence was examined since then.
    doubted: bool,
    /// Why it does not answer, as far as that was found out; already logged.
    pub(super) cause: Option<Cause>,
    /// What the peer, or somebody in its place, reported as the cause, and when.
    evidence: Option<(Instant, Cause)>,
    /// When its host last said that nothing listens, and where.
    refused: Option<(Instant, Address)>,
}

impl Contact {
    /// If one more line may be logged that the peer can cause as often as it likes, how many before were not.
    pub(super) fn may_tell(&mut self, now: Instant) -> Option<u64> {
        self.lines.take(now)
    }
    pub(super) fn new(now: Instant) -> Self {
        let (said, lanes) = (Changes::new(now, false), Vec::new());
        Self {
            up: false,
            said,
            lines: Allowance::new(now),
            lanes,
            answering: Vec::new(),
            since: now,
            met: false,
            doubted: false,
            cause: None,
            evidence: None,
            refused: None,
        }
    }
    /// The peer begins or ceases to answer: earlier findings are dropped, what was logged stays.
    pub(super) fn turn(&mut self, now: Instant, up: bool) {
        let (said, lanes, answering) =
            (self.said.clone(), std::mem::take(&mut self.lanes), std::mem::take(&mut self.answering));
        *self = Self { up, met: self.met || up, said, lanes, answering, ..Self::new(now) };
    }
    /// Whether its state is to be logged, and how many changes were not. A peer whose networks are or were refused is always logged.
    fn told(&mut self, now: Instant, was_down: bool) -> Option<u64> {
        if was_down { Some(self.said.say(self.up)) } else { self.said.turn(now, self.up) }
    }
    /// When its silence is first examined.
    pub(super) fn doubt_at(&self) -> Option<Instant> {
        (!self.up && !self.doubted).then(|| self.since + GREETING_PATIENCE)
    }
    /// The conclusion from an examination of `address` that found `cause`, and from what was heard before.
    fn weigh(&mut self, now: Instant, address: Address, cause: Cause) -> Cause {
        let heard = self.refused.filter(|(at, place)| *place == address && now.since(*at) < REFUSAL_FRESH);
        self.refused = match cause {
            Cause::NothingListens => Some((now, address)),
            // Silence does not contradict what was heard.
            Cause::Silent => heard,
            _ => None,
        };
        if self.refused.is_some() { Cause::NothingListens } else { cause }
    }
}

impl Daemon {
    /// Peers that call us do not know yet that we have lost their sessions: they are called at their last address.
    pub(super) fn recall_peers(&mut self) {
        for (i, peer) in self.config.peers.iter().enumerate() {
            if let Some(place) = self.peer_addresses.place(peer, self.config.listen) {
                self.gateway.recall(self.now, PeerId(i), place.address, place.local);
            }
        }
    }
    /// Has the host's rules looked at for the devices by which peers are reached.
    pub(super) fn tell_where_peers_are(&mut self) {
        let (now, gateway) = (self.now, &self.gateway);
        let hosts = || gateway.addresses().filter_map(|at| Some(at.ip()?.ip().to_canonical())).collect();
        self.kernel.iter_mut().for_each(|kernel| kernel.reach(now, hosts));
    }
    /// Stores the peers' addresses for the next start.
    pub(super) fn note_peer_addresses(&mut self) {
        for (i, peer) in self.config.peers.iter().enumerate() {
            if let Some((address, local)) = self.gateway.proven_place(self.now, PeerId(i)) {
                self.peer_addresses.note(peer, PeerAddress { address, local });
            }
        }
        if let Some(remark) = self.peer_addresses.tick(self.now) {
            self.say(&remark);
        }
    }
    pub(super) fn peer_up(&mut self, peer: PeerId) {
        let now = self.now;
        self.names.up(peer.0);
        let was_down = self.is_down(peer.0);
        if let Some(contact) = self.peers.get_mut(peer.0) {
            contact.turn(now, true);
            self.tell_hook(peer.0, None, true);
            let contact = &mut self.peers[peer.0];
            if let Some(unsaid) = contact.told(now, was_down) {
                self.say(&format!("peer '{}' is up{}", self.peer_name(peer).to_owned(), Changes::unsaid(unsaid)));
            }
        }
        self.decide(Event::Peer(peer.0, Reached::Up));
        self.note_peer_addresses();
    }
    /// The peer was silent for too long: applications must not wait for it.
    pub(super) fn peer_down(&mut self, peer: PeerId) {
        let now = self.now;
        let Some(contact) = self.peers.get_mut(peer.0) else { return };
        if contact.up {
            contact.turn(now, false);
        }
        contact.said.say(false);
        self.decide(Event::Peer(peer.0, Reached::Down));
    }
    /// Tells the operator's program that a peer, or one of its lanes, answers or does not.
    pub(super) fn tell_hook(&self, peer: usize, lane: Option<String>, up: bool) {
        if let (Some(hook), Some(peer)) = (&self.hook, self.config.peers.get(peer)) {
            hook.tell(Change { peer: peer.name.clone(), lane, up });
        }
    }
    pub(super) fn peer_silent(&mut self, peer: PeerId) {
        let now = self.now;
        if let Some(contact) = self.peers.get_mut(peer.0).filter(|c| c.up) {
            contact.turn(now, false);
            self.tell_hook(peer.0, None, false);
            let contact = &mut self.peers[peer.0];
            if let Some(unsaid) = contact.told(now, false) {
                self.warn(&format!(
                    "peer '{}' is silent: nothing comes from it any more{}",
                    self.peer_name(peer).to_owned(),
                    Changes::unsaid(unsaid)
                ));
            }
        }
        self.doubt(peer.0);
    }
    /// Examines peers that did not answer in time.
    pub(super) fn doubt_silent_peers(&mut self) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].doubt_at().is_some_and(|at| at <= self.now) {
                self.doubt(peer);
            }
        }
    }
    /// The peer does not answer: finds out why, and logs it once.
    pub(super) fn doubt(&mut self, peer: usize) {
        let now = self.now;
        let Some(contact) = self.peers.get_mut(peer).filter(|c| !c.up) else { return };
        contact.doubted = true;
        self.names.silent(now, peer);
        if let Some((_, cause)) = contact.evidence.clone().filter(|(at, _)| now.since(*at) < EVIDENCE_FRESH) {
            return self.blame(peer, cause);
        }
        if let Some(why) = self.why_no_lane(peer) {
            return self.blame(peer, Cause::NoLane(why));
        }
        if let Some(why) = self.silent_ports(peer) {
            return self.blame(peer, Cause::SilentLine(why));
        }
        // A name without an address was logged before, and a peer that calls us has no address to examine.
        let Some(address) = self.address_of(peer) else { return };
        let (mark, device) = self.way_to(peer, address);
        let asked = medium::to_examine(address);
        if !asked.is_some_and(|at| self.examiner.examine(at, mark.or(self.mark), device)) {
            self.found(peer, address, Cause::Silent);
        }
    }
    pub(super) fn hear_of_examinations(&mut self) {
        for (address, cause) in self.examiner.take() {
            let address = Address::Ip(address);
            for peer in 0..self.peers.len() {
                let told = self.peers[peer].evidence.is_some();
                if self.address_of(peer) == Some(address) && !told && self.peers[peer].doubted {
                    self.found(peer, address, cause.clone());
                }
            }
        }
    }
    fn found(&mut self, peer: usize, address: Address, cause: Cause) {
        let now = self.now;
        if let Some(contact) = self.peers.get_mut(peer) {
            let met = contact.met;
            let cause = match contact.weigh(now, address, cause) {
                Cause::Silent => {
                    let otherwise = if met { Cause::Cut } else { Cause::Silent };
                    self.brought_by(peer).map_or(otherwise, Cause::NothingComes)
                }
                other => other,
            };
            self.blame(peer, cause);
        }
    }
    /// The peer, or somebody in its place, reported why it does not answer.
    pub(super) fn tell(&mut self, peer: usize, cause: Cause) {
        let now = self.now;
        if let Some(contact) = self.peers.get_mut(peer) {
            contact.evidence = Some((now, cause.clone()));
            self.blame(peer, cause);
        }
    }
    fn blame(&mut self, peer: usize, cause: Cause) {
        let Some(contact) = self.peers.get_mut(peer).filter(|c| !c.up && c.cause.as_ref() != Some(&cause)) else {
            return;
        };
        contact.cause = Some(cause.clone());
        let text = self.cause_text(peer, &cause);
        self.warn(&format!("peer '{}' does not answer: {text}", self.peer_name(PeerId(peer)).to_owned()));
    }
    /// Why a peer does not answer: of what this host sees itself, as it is now; else as far as it was found out.
    pub(super) fn cause_now(&self, peer: usize) -> Option<Cause> {
        let contact = self.peers.get(peer).filter(|contact| !contact.up)?;
        let cause = contact.cause.clone()?;
        if !matches!(cause, Cause::NoLane(_) | Cause::SilentLine(_) | Cause::Silent | Cause::Cut) {
            return Some(cause);
        }
        let lanes = self.why_no_lane(peer).map(Cause::NoLane);
        let seen = lanes.or_else(|| self.silent_ports(peer).map(Cause::SilentLine));
        let unseen = if contact.met { Cause::Cut } else { Cause::Silent };
        Some(seen.unwrap_or(match cause {
            Cause::NoLane(_) | Cause::SilentLine(_) => unseen,
            other => other,
        }))
    }
    /// An address as people know it: of a line that has no other, its port.
    pub(super) fn shown(&self, address: Address) -> String {
        let ports = self.config.lane_sockets().into_iter().filter_map(|socket| socket.line.and(socket.device));
        let port = ports.into_iter().find(|port| far_end(port) == address);
        port.unwrap_or_else(|| address.to_string())
    }
    /// The cause in words, for the log and for `status`.
    pub(super) fn cause_text(&self, peer: usize, cause: &Cause) -> String {
        let written = self.config.peers.get(peer).and_then(|p| p.address.clone()).or_else(|| self.written_of(peer));
        // A peer that calls us may have been called at its address from before the start.
        let recalled = || Some(self.peer_addresses.place(self.config.peers.get(peer)?, self.config.listen)?.address);
        let found = self.address_of(peer).or_else(recalled).map(|at| self.shown(at));
        let place = match (written, found) {
            (Some(name), Some(found)) if name != found => format!("{name} ({found})"),
            (Some(name), _) => name,
            (None, found) => found.unwrap_or_else(|| "an unknown address".into()),
        };
        cause.text(&place, &keys::to_base64(&keys::public_key(&self.config.private_key)))
    }
    /// Where the peer is called, or else where it was last heard.
    fn address_of(&self, peer: usize) -> Option<Address> {
        let configured = self.config.peers.get(peer)?.address.is_some();
        let named = self.names.addresses().get(peer).and_then(|lanes| lanes.first().copied().flatten());
        if configured { named } else { self.gateway.peer_address(PeerId(peer)) }
    }
    /// A caller's key belongs to no configured peer.
    pub(super) fn unknown_caller(&mut self, public_key: [u8; 32], from: Option<Address>) {
        let is_there = |peer: &usize| self.address_of(*peer).zip(from).is_some_and(|(a, b)| a.host() == b.host());
        if let Some(peer) = (0..self.peers.len()).filter(|p| !self.peers[*p].up).find(is_there) {
            return self.tell(peer, Cause::KeyHere(public_key));
        }
        let from = from.map_or("an unknown address".into(), |a| self.shown(a));
        let key = keys::to_base64(&public_key);
        let text = format!("{from} calls with the key {key}, which no [[peer]] has: add it there, or correct its key");
        if let Some((_, at, said)) = self.callers.iter_mut().find(|(known, ..)| *known == public_key) {
            *at = self.now;
            *said = text;
            return;
        }
        self.warn(&text);
        self.callers.push_back((public_key, self.now, text));
        if self.callers.len() > CALLERS_KEPT {
            self.callers.pop_front();
        }
    }
    /// Who called lately with a key that no peer has.
    pub(super) fn unknown_callers(&self) -> Vec<String> {
        let fresh = self.callers.iter().filter(|(_, at, _)| self.now.since(*at) < CALLS_FRESH);
        let has = |key: &[u8; 32]| self.config.peers.iter().any(|p| p.public_key == *key);
        fresh.filter(|(key, ..)| !has(key)).map(|(.., said)| said.clone()).collect()
    }
    /// Logs states of peers that were not logged when they changed.
    pub(super) fn tell_of_peers(&mut self) {
        for peer in 0..self.peers.len() {
            let contact = &mut self.peers[peer];
            let (up, told) = (contact.up, contact.told(self.now, false));
            if let Some(unsaid) = told {
                let (level, state) = if up { ("", "up") } else { ("warning: ", "silent") };
                let name = self.peer_name(PeerId(peer)).to_owned();
                self.say(&format!("{level}peer '{name}' is {state}{}", Changes::unsaid(unsaid)));
            }
        }
    }
    /// Looks up again the names of lanes by which nothing comes back, for peers that answer.
    pub(super) fn look_at_lanes(&mut self) {
        let (gateway, peers) = (&self.gateway, &self.peers);
        let failed =
            |peer: usize, lane| peers.get(peer).filter(|c| c.up).map(|_| gateway.lane_failed(PeerId(peer), lane));
        self.names.look_at_lanes(self.now, failed);
    }
    pub(super) fn hear_of_names(&mut self) {
        for (peer, lane, news) in self.names.take(self.now) {
            let places = self.config.peers.get(peer).map(|p| p.places(self.config.listen)).unwrap_or_default();
            let name = places.get(lane).and_then(|(name, _)| name.clone()).unwrap_or_default();
            let whose = format!("peer '{}'", self.peer_name(PeerId(peer)));
            match news {
                News::At(address) => {
                    self.say(&format!("{whose}: {name} is {address}"));
                    self.gateway.relocate(self.now, PeerId(peer), lane, address);
                }
                // It may answer by another lane.
                News::Nowhere(why) if places.len() > 1 => self.warn(&format!("{whose}: no address for {name}: {why}")),
                News::Nowhere(why) => self.blame(peer, Cause::Nameless(why)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_unreachable_explains_silence_for_a_minute() {
        let (here, there) = (Address::Ip(([192, 0, 2, 7], 4780).into()), Address::Ip(([192, 0, 2, 8], 4780).into()));
        let mut contact = Contact::new(Instant::ZERO);
        let mut weigh = |s, address, cause: &Cause| contact.weigh(Instant::from_secs(s), address, cause.clone());
        let (refused, silent) = (Cause::NothingListens, Cause::Silent);
        let unreachable = Cause::Unreachable("no route to host".into());
        assert_eq!(weigh(5, here, &silent), silent);
        assert_eq!(weigh(6, here, &refused), refused);
        assert_eq!(weigh(15, here, &silent), refused);
        assert_eq!(weigh(65, here, &silent), refused);
        assert_eq!(weigh(66, here, &silent), silent);
        assert_eq!(weigh(70, here, &refused), refused);
        assert_eq!(weigh(71, here, &unreachable), unreachable);
        assert_eq!(weigh(72, here, &silent), silent);
        assert_eq!(weigh(80, here, &refused), refused);
        assert_eq!(weigh(81, there, &silent), silent, "another host");
    }
}
