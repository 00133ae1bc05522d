//! The one place that picks among the lanes out: [`Lanes::offer`].

use super::out::{Lane, QUICK_PACKET};
use super::{Choice, Lanes};
use crate::lane::Room;
use wavelane_base::{Class, Instant, Octets, Span};

/// A lane that carries less than this share of what the fastest one carries takes no bulk: what it would add is less than
/// what its bytes, which arrive late, cost at the other end.
const BULK_SHARE_MIN: u64 = 20;
/// What is on its way by another lane is repeated by the first if it arrives so much sooner, or by a quarter of the way if that is more.
const SOONER: Span = Span::from_millis(20);
/// Octets of a small exchange, with what is around it.
const SMALL_OCTETS: u64 = 300;

/// A datagram may leave.
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
    /// Which lane takes the next datagram if something of class `wanted` leads it and something has waited without a pause
    /// for `busy`, how urgent what it carries has to be, and how large it may be. `None` if nothing may leave now.
    pub(in crate::link) fn offer(&self, now: Instant, wanted: Class, busy: Span) -> Option<Offer> {
        let open = |lane: usize, class: Class| match self.all[lane].sender.room(now, class) {
            Room::Open { datagram_max } => Some(Offer { lane, class, datagram_max }),
            Room::Closed => None,
        };
        if wanted == Class::Bulk && self.are_several() {
            return self.offer_bulk(now, busy);
        }
        // What is urgent waits for the lane by which it arrives soonest, which takes it before long; what fills that datagram up
        // has to be worth that lane's while.
        let first = self.first();
        let bulk = !self.are_several() || self.serves_bulk(now, first, self.fastest());
        let classes = [Class::Bulk, Class::Micro, Class::Control];
        let mut takes = classes.into_iter().filter(|class| bulk || *class != Class::Bulk);
        takes.find_map(|class| open(first, class).filter(|_| class >= wanted))
    }

    /// The rate of the fastest lane that works.
    fn fastest(&self) -> u64 {
        let used = self.open().filter(|(_, lane)| !lane.failed && !lane.spare && lane.bulk);
        used.map(|(_, lane)| lane.path.rate.as_bps()).max().unwrap_or(0)
    }

    /// Whether a lane takes bulk at `now` beside one of the rate `fastest`.
    fn serves_bulk(&self, now: Instant, lane: usize, fastest: u64) -> bool {
        let out = &self.all[lane];
        if out.spare || !out.bulk || self.choice != Choice::Bond {
            return !out.spare && lane == self.bulk_first();
        }
        let fast = out.path.rate.as_bps().saturating_mul(BULK_SHARE_MIN) >= fastest;
        let first = self.bulk_first();
        let known = |i: usize| i == first || self.all[i].sender.is_gauged();
        let serves =
            out.works() && known(lane) && now >= out.late_until && (fast || out.path.packet_time <= QUICK_PACKET);
        // Or there is nothing better.
        let better = |(i, other): (usize, &Lane<L>)| {
            i != lane && other.works() && known(i) && other.bulk && !other.spare && now >= other.late_until
        };
        serves || lane == first && !self.all.iter().enumerate().any(better)
    }

    /// The first lane with room on which bulk arrives before the first one could have taken all that is likely to come: who
    /// has had something to send for so long has for as long again. A short transfer leaves by the first lane alone.
    fn offer_bulk(&self, now: Instant, busy: Span) -> Option<Offer> {
        let fastest = self.fastest();
        let mut lead = None;
        for lane in self.bulk_order.iter().copied().filter(|lane| self.serves_bulk(now, *lane, fastest)) {
            let out = &self.all[lane];
            // One that takes no bulk says nothing of what bulk would gain.
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

    /// Whether what others carry may be repeated by this lane now.
    pub(in crate::link) fn may_repeat(&self, now: Instant, lane: usize) -> bool {
        self.are_several()
            && self.choice == Choice::Bond
            && lane == self.bulk_first()
            && self.all[lane].works()
            && self.all[lane].bulk
            && self.all[lane].sender.room(now, Class::Bulk) != Room::Closed
    }

    /// The lane that is taken first, if it is likely to lose what is small and others might carry it.
    pub(in crate::link) fn shaky(&self, now: Instant, lane: usize) -> Option<&Lane<L>> {
        let first = &self.all[lane];
        let shaky =
            self.are_several() && self.choice == Choice::Bond && lane == self.first() && now < first.shaky_until;
        shaky.then_some(first).filter(|first| first.measured)
    }

    /// The other lanes by which copies of small exchanges may go, the soonest first. What they cost has to be worth nothing.
    pub(in crate::link) fn seconds(&self) -> impl Iterator<Item = usize> {
        let second =
            |lane: &Lane<L>| lane.works() && lane.sender.is_gauged() && lane.small && !lane.metered && !lane.spare;
        self.order.iter().copied().skip(1).filter(move |lane| second(&self.all[*lane]))
    }

    /// How long a small packet takes by a lane if it leaves now.
    pub(in crate::link) fn delay_of_small(&self, lane: usize) -> Span {
        let lane = &self.all[lane];
        let small = lane.path.rate.time_for(Octets::new(SMALL_OCTETS)).min(lane.path.packet_time);
        lane.delay().saturating_sub(lane.path.packet_time) + small
    }

    /// Gives a packet up that is on its way by a lane and would arrive sooner by the first. Whether there is one.
    pub(in crate::link) fn give_up_late(&mut self, now: Instant, lane: usize) -> bool {
        let way = self[self.bulk_first()].delay();
        let arrives = now + way + SOONER.max(way.scale(1, 4));
        let out = &mut self.all[lane];
        // How long one takes of which little is known nobody knows.
        let takes = out.sender.is_gauged().then(|| out.delay());
        let since = |left: Instant| takes.is_none_or(|takes| left + takes > arrives);
        !out.failed && out.sender.give_up_later(since, |record| record.carries)
    }
}
