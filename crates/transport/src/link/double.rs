//! Small exchanges by two lanes at once, where the one by which they arrive soonest may lose them.
//!
//! A copy takes a share of the second lane, so it pays where that lane is there sooner than a repeat by the first would be. What of a
//! datagram was carried twice is dropped by whoever carries it: frames say what they are about.

use super::lanes::Lanes;
use super::{Draft, Link, SentDatagram};
use crate::Service;
use crate::lane::Room;
use std::collections::VecDeque;
use wavelane_base::{Class, Instant, Span};
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};

/// Copies that wait for their lane; the oldest is left out for one more.
const WAITING_MAX: usize = 8;
/// One that waited longer comes no sooner than a repeat.
const WAIT_MAX: Span = Span::from_millis(50);
/// Copies take no more than this share of their lane beside bulk ...
const SHARE_BUSY: u64 = 20;
/// ... and this one where nothing else fills it.
const SHARE_IDLE: u64 = 2;
/// So many octets may leave at once that were saved up.
const SAVED_MAX: u64 = 3_000;
/// A lane with more in flight carries bulk.
const BUSY_OCTETS: u64 = 6_000;

#[derive(Debug)]
struct Copy {
    lane: usize,
    at: Instant,
    bytes: Vec<u8>,
}

/// Copies, and what they may cost.
#[derive(Debug)]
pub(super) struct Double {
    waiting: VecDeque<Copy>,
    /// Octets that may leave.
    saved: u64,
    saved_at: Instant,
}

impl Double {
    pub(super) fn new(now: Instant) -> Self {
        Self { waiting: VecDeque::new(), saved: SAVED_MAX, saved_at: now }
    }

    /// Pays for a copy of `octets` if that can be paid, by a lane of which `share` octets a second are to be had.
    fn pay(&mut self, now: Instant, octets: u64, share: wavelane_base::Rate) -> bool {
        let earned = share.octets_in(now.since(self.saved_at)).get();
        if earned > 0 {
            (self.saved, self.saved_at) = ((self.saved + earned).min(SAVED_MAX), now);
        }
        let pays = self.saved >= octets;
        self.saved -= if pays { octets } else { 0 };
        pays
    }

    fn put(&mut self, copy: Copy) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(copy);
    }

    /// The next copy for a lane that is not too late and no longer than `room`.
    fn take(&mut self, now: Instant, lane: usize, room: usize) -> Option<Vec<u8>> {
        self.waiting.retain(|copy| now.since(copy.at) <= WAIT_MAX);
        let place = self.waiting.iter().position(|copy| copy.lane == lane && copy.bytes.len() <= room)?;
        self.waiting.remove(place).map(|copy| copy.bytes)
    }
}

impl<L> Lanes<L> {
    /// The lane by which what is small and leaves by `lane` goes as well.
    pub(super) fn second(&self, now: Instant, lane: usize) -> Option<usize> {
        let first = self.shaky(now, lane)?;
        // A repeat leaves once the ack is overdue.
        let path = &first.path;
        let repeated = path.rtt + path.rtt_var.times(4) + path.ack_delay + self.delay_of_small(lane);
        self.seconds().find(|other| self.delay_of_small(*other) < repeated)
    }
}

impl<S: Service> Link<S> {
    /// By which lane the next small datagram of `at` goes as well, if by any.
    pub(super) fn doubles(&self, now: Instant, at: usize) -> Option<usize> {
        let second = self.lanes.second(now, at)?;
        self.service.micro_waits(now).then_some(second)
    }

    /// What a datagram carried goes by another lane as well, if that can be paid.
    pub(super) fn put_double(&mut self, now: Instant, lane: usize, bytes: &[u8]) {
        let second = &self.lanes[lane];
        let share = if second.sender.in_flight() > BUSY_OCTETS { SHARE_BUSY } else { SHARE_IDLE };
        let octets = bytes.len() + DATA_HEADER_LEN + TAG_LEN + second.overhead();
        if self.double.pay(now, octets as u64, second.path.rate.scale(1, share)) {
            self.double.put(Copy { lane, at: now, bytes: bytes.to_vec() });
        }
    }

    /// A copy that waits for this lane. Its fate matters to the lane alone: what it carries was given to another.
    pub(super) fn compose_double(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<Draft> {
        if self.double.waiting.is_empty() {
            return None;
        }
        let Room::Open { datagram_max } = self.lanes[at].sender.room(now, Class::Micro) else { return None };
        let room = datagram_max.min(buf.len()).checked_sub(DATA_HEADER_LEN + TAG_LEN)?;
        let bytes = self.double.take(now, at, room)?;
        buf.get_mut(DATA_HEADER_LEN..)?.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        self.counters.doubled += 1;
        self.counters.doubled_octets += bytes.len() as u64;
        Some(self.send(now, at, bytes.len(), Class::Micro, true, true, SentDatagram::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_base::Rate;

    #[test]
    fn copies_cost_no_more_than_their_share() {
        let mut double = Double::new(Instant::ZERO);
        let share = Rate::from_bps(80_000);
        let paid = (0..10_000).filter(|ms| double.pay(Instant::ZERO + Span::from_millis(*ms), 100, share)).count();
        // 10 s of 10 kB a second, and what was saved up.
        assert!((1_020..=1_030).contains(&paid), "{paid}");
    }

    #[test]
    fn few_copies_wait_and_none_for_long() {
        let mut double = Double::new(Instant::ZERO);
        for n in 0..100 {
            double.put(Copy { lane: 1, at: Instant::ZERO, bytes: vec![n; 10] });
        }
        assert_eq!(double.waiting.len(), WAITING_MAX);
        assert_eq!(double.take(Instant::ZERO, 0, 100), None);
        assert_eq!(double.take(Instant::ZERO, 1, 9), None);
        assert_eq!(double.take(Instant::ZERO, 1, 10), Some(vec![92; 10]));
        assert_eq!(double.take(Instant::ZERO + WAIT_MAX + Span::from_nanos(1), 1, 10), None);
        assert!(double.waiting.is_empty());
    }
}
