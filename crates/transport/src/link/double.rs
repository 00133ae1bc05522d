//! Small exchanges sent on two lanes at once, if the one on which they arrive soonest may lose them.
//!
//! A copy takes a share of the second lane, so it pays off only if it arrives sooner than a retransmit on the first would. Duplicates are
//! dropped by the service: frames identify what they carry.

use super::lanes::Lanes;
use super::{Draft, Link, SentDatagram};
use crate::Service;
use crate::lane::Room;
use std::collections::VecDeque;
use wavelane_base::{Class, Instant, Span};
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};

/// Most copies that wait for their lane; one more replaces the oldest.
const WAITING_MAX: usize = 8;
/// A copy that waited longer arrives no sooner than a retransmit.
const WAIT_MAX: Span = Span::from_millis(50);
/// Copies take no more than this share of their lane beside bulk (as a divisor) ...
const SHARE_BUSY: u64 = 20;
/// ... and this share without bulk.
const SHARE_IDLE: u64 = 2;
/// Octets that may be saved up and sent in one burst.
const SAVED_MAX: u64 = 3_000;
/// A lane with more in flight carries bulk.
const BUSY_OCTETS: u64 = 6_000;

#[derive(Debug)]
struct Copy {
    lane: usize,
    at: Instant,
    bytes: Vec<u8>,
}

/// Copies, and their budget.
#[derive(Debug)]
pub(super) struct Double {
    waiting: VecDeque<Copy>,
    /// Octets that may be sent now.
    saved: u64,
    saved_at: Instant,
}

impl Double {
    pub(super) fn new(now: Instant) -> Self {
        Self { waiting: VecDeque::new(), saved: SAVED_MAX, saved_at: now }
    }

    /// Pays for a copy of `octets` if the budget allows it; the budget grows at rate `share`.
    fn pay(&mut self, now: Instant, octets: u64, share: wavelane_base::Rate) -> bool {
        let earned = share.octets_in(now.since(self.saved_at)).get();
        if earned > 0 {
            self.saved = (self.saved + earned).min(SAVED_MAX);
            self.saved_at = now;
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

    /// The next copy for a lane that has not waited too long and is no longer than `room`.
    fn take(&mut self, now: Instant, lane: usize, room: usize) -> Option<Vec<u8>> {
        self.waiting.retain(|copy| now.since(copy.at) <= WAIT_MAX);
        let place = self.waiting.iter().position(|copy| copy.lane == lane && copy.bytes.len() <= room)?;
        self.waiting.remove(place).map(|copy| copy.bytes)
    }
}

impl<L> Lanes<L> {
    /// The lane that carries a copy of small datagrams sent on `lane`.
    pub(super) fn second(&self, now: Instant, lane: usize) -> Option<usize> {
        let first = self.shaky(now, lane)?;
        // A retransmit is sent once the ack is overdue.
        let path = &first.path;
        let repeated = path.rtt + path.rtt_var.times(4) + path.ack_delay + first.delay_of_small();
        self.seconds().find(|other| self[*other].delay_of_small() < repeated)
    }
}

impl<S: Service> Link<S> {
    /// The lane that carries a copy of the next small datagram of `at`, if any.
    pub(super) fn doubles(&self, now: Instant, at: usize) -> Option<usize> {
        let second = self.lanes.second(now, at)?;
        self.service.micro_waits(now).then_some(second)
    }

    /// Queues a copy of a datagram's contents for another lane, if the budget allows it.
    pub(super) fn put_double(&mut self, now: Instant, lane: usize, bytes: &[u8]) {
        let second = &self.lanes[lane];
        let share = if second.sender.in_flight() > BUSY_OCTETS { SHARE_BUSY } else { SHARE_IDLE };
        let octets = bytes.len() + DATA_HEADER_LEN + TAG_LEN + second.overhead();
        if self.double.pay(now, octets as u64, second.path.rate.scale(1, share)) {
            self.double.put(Copy { lane, at: now, bytes: bytes.to_vec() });
        }
    }

    /// A copy that waits for this lane. Its fate matters only to the lane's estimators: the load belongs to the original.
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
