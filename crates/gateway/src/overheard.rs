//! Open octets overheard on a shared medium, until a neighbour names them by their digest.
//!
//! Anyone may have sent them. They are used only where a neighbour names them, in its session and by a digest of its own, so a forged
//! one costs the room that it takes: a part of its sender's.

use super::PeerId;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span};
use wavelane_services::hop::OPEN_MIN;
use wavelane_transport::Digest;
use wavelane_transport::session::digest_of;

/// The part of the cache's budget that overheard octets may take besides.
pub(super) const PART: u64 = 4;
/// Senders heard at once.
const SENDERS_MAX: usize = 16;
/// Of that part a sender of which octets were named may take this fraction: a block of 1 MB waits at a relay that holds one.
const OF_USE: u64 = 2;
/// And any other, so that all of them together leave half.
const OF_NONE: u64 = 2 * SENDERS_MAX as u64;
/// A sender makes room for another if nothing of it was heard for so long, or nothing of use since it came so long ago: whoever invents names holds
/// the room for a moment.
const USELESS_FOR: Span = Span::from_secs(1);
/// Octets are kept this long: a relay sends a block of 1 MB on at 2 Mbit/s in less.
const KEPT_FOR: Span = Span::from_secs(5);
/// Most datagrams of a sender remembered, named ones included: as many as fit in the default of what it may keep, five times over.
const ORDER_MAX: usize = 1 << 13;
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
    /// When each was heard, oldest first; some were named since.
    order: VecDeque<(Instant, Digest)>,
}

/// Octets that were heard.
#[derive(Debug)]
struct Heard {
    sender: u64,
    /// The neighbour that was to receive them. No other may name them: it would take them from this one's flows.
    peer: PeerId,
    octets: Vec<u8>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    /// By the medium's name for the sender, at most [`SENDERS_MAX`].
    senders: BTreeMap<u64, Sender>,
    octets: BTreeMap<Digest, Heard>,
    /// Of all senders, with bookkeeping.
    held: u64,
    /// Open octets kept.
    kept: u64,
    /// Datagrams for which there was no room.
    crowded: u64,
    /// Digests named by neighbours whose octets were not, or no longer, here.
    missed: u64,
}

impl Overheard {
    /// Octets kept now, with bookkeeping.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("overheard_kept_octets", self.kept),
            ("dropped_overheard_crowded", self.crowded),
            ("overheard_missed", self.missed),
        ]
    }

    /// Keeps octets for a neighbour, within `budget` for all. Returns their digest if they are new and were kept.
    pub(super) fn keep(
        &mut self,
        now: Instant,
        budget: u64,
        peer: PeerId,
        sender: u64,
        octets: &[u8],
    ) -> Option<Digest> {
        let size = octets.len() as u64 + DATAGRAM_OCTETS;
        if (octets.len() as u64) < OPEN_MIN || !self.admit(now, sender) {
            return None;
        }
        let digest = digest_of(octets);
        if self.octets.contains_key(&digest) {
            return None;
        }
        self.expire(now, sender);
        let useful = self.senders.get(&sender).is_some_and(|of| of.useful);
        let part = budget / if useful { OF_USE } else { OF_NONE };
        // What a neighbour was told of is kept for it; of a sender of no use yet the newest is more likely to be of some.
        while !useful && self.of(sender) + size > part && self.drop_oldest(sender) {}
        if self.held + size > budget {
            // Senders that fell silent left theirs behind.
            let senders: Vec<u64> = self.senders.keys().copied().collect();
            senders.into_iter().for_each(|other| self.expire(now, other));
        }
        if self.of(sender) + size > part || self.held + size > budget {
            self.crowded += 1;
            return None;
        }
        let of = self.senders.get_mut(&sender)?;
        of.octets += size;
        of.order.push_back((now, digest));
        self.held += size;
        self.octets.insert(digest, Heard { sender, peer, octets: octets.to_vec() });
        self.kept += octets.len() as u64;
        Some(digest)
    }

    /// Takes octets out that a neighbour names.
    pub(super) fn take(&mut self, peer: PeerId, digest: &Digest, len: u64) -> Option<Vec<u8>> {
        if self.octets.get(digest).is_none_or(|heard| heard.peer != peer || heard.octets.len() as u64 != len) {
            self.missed += 1;
            return None;
        }
        let Heard { sender, octets, .. } = self.remove(digest)?;
        if let Some(of) = self.senders.get_mut(&sender) {
            of.useful = true;
        }
        Some(octets)
    }

    /// Whether a sender is listed, or takes the place of one that is of no use.
    fn admit(&mut self, now: Instant, sender: u64) -> bool {
        if !self.senders.contains_key(&sender) && self.senders.len() >= SENDERS_MAX {
            let since = |other: &Sender| if other.useful { other.at } else { other.since };
            let oldest = self.senders.iter().min_by_key(|(_, other)| since(other));
            let Some(goes) = oldest.filter(|(_, other)| now.since(since(other)) >= USELESS_FOR).map(|(name, _)| *name)
            else {
                self.crowded += 1;
                return false;
            };
            while self.drop_oldest(goes) {}
            self.senders.remove(&goes);
        }
        let new = || Sender { since: now, at: now, useful: false, octets: 0, order: VecDeque::new() };
        self.senders.entry(sender).or_insert_with(new).at = now;
        true
    }

    fn of(&self, sender: u64) -> u64 {
        self.senders.get(&sender).map_or(0, |of| of.octets)
    }

    /// Octets that nobody named in time go, and the record of those that somebody did.
    fn expire(&mut self, now: Instant, sender: u64) {
        let first = |this: &Self| this.senders.get(&sender).and_then(|of| of.order.front().copied());
        while let Some((at, digest)) = first(self) {
            let many = self.senders.get(&sender).is_some_and(|of| of.order.len() >= ORDER_MAX);
            if !many && now.since(at) < KEPT_FOR && self.octets.contains_key(&digest) {
                break;
            }
            self.drop_oldest(sender);
        }
    }

    /// Returns whether there was one.
    fn drop_oldest(&mut self, sender: u64) -> bool {
        let oldest = self.senders.get_mut(&sender).and_then(|of| of.order.pop_front());
        if let Some((_, digest)) = oldest {
            // Another sender may have sent the same since this one's were named.
            if self.octets.get(&digest).is_some_and(|heard| heard.sender == sender) {
                self.remove(&digest);
            }
        }
        oldest.is_some()
    }

    fn remove(&mut self, digest: &Digest) -> Option<Heard> {
        let heard = self.octets.remove(digest)?;
        let size = heard.octets.len() as u64 + DATAGRAM_OCTETS;
        self.held -= size;
        if let Some(of) = self.senders.get_mut(&heard.sender) {
            of.octets -= size;
        }
        Some(heard)
    }

    /// Peers were renumbered. What they name and is gone they send.
    pub(super) fn forget(&mut self) {
        self.senders = Default::default();
        self.octets = Default::default();
        self.held = Default::default();
    }
}

#[cfg(test)]
#[path = "overheard_tests.rs"]
mod tests;
