//! Open octets overheard on a shared medium, until a neighbour names them by their digest.
//!
//! Anyone may have sent them. They are used only where a neighbour names them, in its session and by a digest of its own, so a forged
//! one costs the room that it takes: a part of its sender's.

use super::relay::Side;
use super::{Gateway, PeerId};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, PortId, Span};
use wavelane_services::hop::OPEN_MIN;
use wavelane_transport::Digest;
use wavelane_transport::session::digest_of;
use wavelane_wire::datagram::open_octets;

/// The part of the cache's budget that overheard octets may take besides.
const PART: u64 = 4;
/// Senders heard at once, each with an equal part of that: one that floods the medium leaves the others theirs.
const SENDERS_MAX: usize = 16;
/// A sender makes room for another if nothing of it was heard for so long, or nothing of use since it came so long ago: whoever invents names holds
/// the room for a moment.
const USELESS_FOR: Span = Span::from_secs(1);
/// Bookkeeping charged for each datagram.
const DATAGRAM_OCTETS: u64 = 128;

/// What was heard of one sender.
#[derive(Debug)]
struct Sender {
    /// When it came, and when it was heard last.
    since: Instant,
    at: Instant,
    /// A neighbour has named octets of it.
    useful: bool,
    octets: u64,
    /// Oldest first.
    order: VecDeque<Digest>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    /// By the medium's name for the sender, at most [`SENDERS_MAX`].
    senders: BTreeMap<u64, Sender>,
    /// With their senders.
    octets: BTreeMap<Digest, (u64, Vec<u8>)>,
    /// Open octets kept.
    pub(super) kept: u64,
    /// Datagrams of senders for which there was no room.
    pub(super) crowded: u64,
    /// Digests named by neighbours whose octets were not, or no longer, here.
    pub(super) missed: u64,
}

impl Overheard {
    /// Octets kept now, with bookkeeping.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.senders.values().map(|sender| sender.octets).sum()
    }
    /// Keeps octets, within `budget` for all. Returns their digest if they are new.
    fn keep(&mut self, now: Instant, budget: u64, sender: u64, octets: &[u8]) -> Option<Digest> {
        let size = octets.len() as u64 + DATAGRAM_OCTETS;
        if (octets.len() as u64) < OPEN_MIN {
            return None;
        }
        let part = budget / SENDERS_MAX as u64;
        if size > part {
            return None;
        }
        if !self.senders.contains_key(&sender) && self.senders.len() >= SENDERS_MAX {
            let since = |other: &Sender| if other.useful { other.at } else { other.since };
            let oldest = self.senders.iter().min_by_key(|(_, other)| since(other));
            let Some(goes) = oldest.filter(|(_, other)| now.since(since(other)) >= USELESS_FOR).map(|(name, _)| *name)
            else {
                self.crowded += 1;
                return None;
            };
            let gone = self.senders.remove(&goes).map(|sender| sender.order).unwrap_or_default();
            gone.iter().for_each(|digest| _ = self.octets.remove(digest));
        }
        let digest = digest_of(octets);
        let new = || Sender { since: now, at: now, useful: false, octets: 0, order: VecDeque::new() };
        let of = self.senders.entry(sender).or_insert_with(new);
        of.at = now;
        if self.octets.contains_key(&digest) {
            return None;
        }
        while of.octets + size > part {
            let Some(oldest) = of.order.pop_front() else { break };
            if let Some((_, gone)) = self.octets.remove(&oldest) {
                of.octets -= gone.len() as u64 + DATAGRAM_OCTETS;
            }
        }
        of.octets += size;
        of.order.push_back(digest);
        self.octets.insert(digest, (sender, octets.to_vec()));
        self.kept += octets.len() as u64;
        Some(digest)
    }
}

impl Gateway {
    /// A datagram was overheard: the station that `port` leads to was to receive it from `sender`, by whatever name the medium has for that.
    /// Nothing in it is authentic. Only for media that hand up what is for others.
    pub fn overhear(&mut self, now: Instant, port: PortId, sender: u64, datagram: &[u8]) {
        let Ok(open) = open_octets(datagram) else { return };
        let leads =
            |peer: &usize| (0..self.sessions.ways(*peer)).any(|way| self.sessions.port(*peer, way) == Some(port));
        let Some(peer) = (0..self.links.len()).find(leads).filter(|_| self.config.overhear) else { return };
        if !self.sessions.overhears(peer) || !self.links[peer].service.blocks.has_sealed_flows() {
            return;
        }
        let budget = self.config.cache.get() / PART;
        if let Some(digest) = self.overheard.keep(now, budget, sender, &datagram[open]) {
            self.blocks(PeerId(peer)).note_heard(now, sender, &digest);
            self.settle(now, PeerId(peer));
        }
    }

    /// A neighbour names octets that we reported.
    pub(super) fn take_by_digest(&mut self, now: Instant, side: Side, (offset, len): (u64, u64), digest: &Digest) {
        let found = self.overheard.octets.get(digest).filter(|(_, octets)| octets.len() as u64 == len);
        match found {
            Some((sender, octets)) => {
                // Not through `blocks()`: the octets are borrowed at the same time.
                self.links[side.0.0].service.blocks.take_overheard(now, side.1, offset, octets);
                if let Some(sender) = self.overheard.senders.get_mut(sender) {
                    sender.useful = true;
                }
            }
            // Its receipts show that they are missing, and the neighbour sends them.
            None => self.overheard.missed += 1,
        }
        self.dirty.insert(side.0);
    }

    /// What is forwarded from `from` to `to` came openly: whoever is behind `to` may have overheard it.
    pub(super) fn pass_digest(&mut self, now: Instant, to: Side, bytes: (u64, u64), digest: Digest) {
        // A relay that changes what it forwards does not have the bytes of the digest.
        if self.sessions.overhears(to.0.0) && self.faults.meddler.is_none() {
            self.blocks(to.0).know_digest(now, to.1, bytes, digest);
        }
    }
}

#[cfg(test)]
#[path = "overheard_tests.rs"]
mod tests;
