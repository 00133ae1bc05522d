//! The one place that picks among the lanes out: [`Lanes::offer`].

use super::out::{Lane, QUICK_PACKET, SHAKY_LOSS};
use super::{Choice, Lanes};
use crate::lane::Room;
use wavelane_base::{Class, Instant, Span};

/// A lane with less than this share of the fastest lane's rate takes no bulk: its gain is smaller than the cost of its late bytes at the
/// receiver.
const BULK_SHARE_MIN: u64 = 20;
/// A packet in flight on another lane is retransmitted on the first if it arrives this much sooner, or a quarter of the delay if more.
const SOONER: Span = Span::from_millis(20);

/// Permission for one datagram to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::link) struct Offer {
    /// By which lane.
    pub(in crate::link) lane: usize,
    /// The least urgent class it may carry.
    pub(in crate::link) class: Class,
    /// How large it may be.
    pub(in crate::link) datagram_max: usize,
}

impl<L> Lanes<L> {
    /// Which lane takes the next datagram if its most urgent content is of class `wanted` and data has waited without a pause for `busy`,
    /// the least urgent class it may carry, and its maximum size. `None` if nothing may leave now.
    pub(in crate::link) fn offer(&self, now: Instant, wanted: Class, busy: Span) -> Option<Offer> {
        let open = |lane: usize, class: Class| match self.all[lane].sender.room(now, class) {
            Room::Open { datagram_max } => Some(Offer { lane, class, datagram_max }),
            Room::Closed => None,
        };
        if wanted == Class::Bulk && self.are_several() {
            return self.offer_bulk(now, busy);
        }
        // Urgent content waits for the lane on which it arrives soonest, which soon has room; bulk fills up that datagram only if the lane
        // serves bulk.
        let first = self.first();
        let bulk = !self.are_several() || self.serves_bulk(now, first, self.fastest());
        let classes = [Class::Bulk, Class::Micro, Class::Control];
        let mut takes = classes.into_iter().filter(|class| bulk || *class != Class::Bulk);
        takes.find_map(|class| open(first, class).filter(|_| class >= wanted))
    }

    /// The rate of the fastest lane that works.
    fn fastest(&self) -> u64 {
        let used = self.open().filter(|(_, lane)| !lane.failed && !lane.spare && !lane.useless && lane.bulk);
        used.map(|(_, lane)| lane.path.rate.as_bps()).max().unwrap_or(0)
    }

    /// Whether a lane takes bulk at `now`, if the fastest lane has rate `fastest`.
    fn serves_bulk(&self, now: Instant, lane: usize, fastest: u64) -> bool {
        let out = &self.all[lane];
        if out.spare || !out.bulk || self.choice != Choice::Bond {
            return !out.spare && lane == self.bulk_first();
        }
        let fast = out.path.rate.as_bps().saturating_mul(BULK_SHARE_MIN) >= fastest;
        let first = self.bulk_first();
        let known = |i: usize| i == first || self.all[i].sender.is_gauged();
        let serves = out.works()
            && !out.useless
            && known(lane)
            && now >= out.late_until
            && (fast || out.path.packet_time <= QUICK_PACKET);
        // Or no lane is better.
        let better = |(i, other): (usize, &Lane<L>)| {
            i != lane
                && other.works()
                && !other.useless
                && known(i)
                && other.bulk
                && !other.spare
                && now >= other.late_until
        };
        serves || lane == first && !self.all.iter().enumerate().any(better)
    }

    /// The first lane with room on which bulk arrives before the first lane could have taken all that is likely to come: a sender that was
    /// busy for some time is assumed to stay so for as long again. A short transfer uses the first lane alone.
    fn offer_bulk(&self, now: Instant, busy: Span) -> Option<Offer> {
        let fastest = self.fastest();
        let mut lead = None;
        for lane in self.bulk_order.iter().copied().filter(|lane| self.serves_bulk(now, *lane, fastest)) {
            let out = &self.all[lane];
            // A lane that takes no bulk is no reference for the delay of bulk.
            let (lead, until) = *lead.get_or_insert((lane, out.delay() + busy));
            if out.delay() > until {
                return None;
            }
            let trusted = out.is_trusted() || self.choice != Choice::Bond || lane == lead && out.is_quick();
            if let (true, Room::Open { datagram_max }) = (trusted, out.sender.room(now, Class::Bulk)) {
                return Some(Offer { lane, class: Class::Bulk, datagram_max });
            }
        }
        None
    }

    /// Whether packets in flight on other lanes may be retransmitted on this lane now.
    pub(in crate::link) fn may_repeat(&self, now: Instant, lane: usize) -> bool {
        self.are_several()
            && self.choice == Choice::Bond
            && lane == self.bulk_first()
            && self.all[lane].works()
            && self.all[lane].bulk
            && self.all[lane].sender.room(now, Class::Bulk) != Room::Closed
    }

    /// The first lane, if it is likely to lose small packets and others might carry them.
    pub(in crate::link) fn shaky(&self, now: Instant, lane: usize) -> Option<&Lane<L>> {
        let first = &self.all[lane];
        let shaky =
            self.are_several() && self.choice == Choice::Bond && lane == self.first() && now < first.shaky_until;
        shaky.then_some(first).filter(|first| first.measured)
    }

    /// The other lanes that may carry copies of small exchanges, soonest first. Only lanes whose traffic is free are used.
    pub(in crate::link) fn seconds(&self) -> impl Iterator<Item = usize> {
        let second =
            |lane: &Lane<L>| lane.works() && lane.sender.is_gauged() && lane.small && !lane.metered && !lane.spare;
        self.order.iter().copied().skip(1).filter(move |lane| second(&self.all[*lane]))
    }

    /// Gives up a packet in flight on a lane that would arrive sooner on the first. Returns whether there is one.
    pub(in crate::link) fn give_up_late(&mut self, now: Instant, lane: usize) -> bool {
        let way = self[self.bulk_first()].delay();
        let arrives = now + way + SOONER.max(way.scale(1, 4));
        let out = &mut self.all[lane];
        // The delay of a lane with few samples is unknown.
        let takes = out.sender.is_gauged().then(|| out.delay());
        let since = |left: Instant| takes.is_none_or(|takes| left + takes > arrives);
        if out.failed {
            return false;
        }
        // On a lossy lane, what is not acknowledged in time is most likely lost: nothing later may come there to show that.
        let path = &out.path;
        let patience = path.rtt + path.rtt_var.times(4) + path.ack_delay;
        let overdue = Instant::ZERO + now.since(Instant::ZERO).saturating_sub(patience);
        let lossy = path.loss_outward >= SHAKY_LOSS;
        out.sender.give_up_later(since, |record| record.carries)
            || lossy && out.sender.give_up_overdue(overdue, |record| record.carries)
    }
}
