//! Which lanes work, in which order they are taken, and which carry nothing now.

use super::out::Lane;
use super::worth::LOSS_GOOD;
use super::{Choice, Lanes};
use crate::link::choice::PROBE_EVERY;
use wavelane_base::{Instant, Span};

/// A lane that failed is assumed likely to fail again for this long.
const SHAKY_FAILED_FOR: Span = Span::from_secs(60);
/// Unanswered tail probes after which a lane counts as failed while others work.
const FAILED_AFTER_PROBES: u32 = 2;
/// ... or more, on a lane so lossy that the probes and the packets they follow may all be lost with more than this probability ...
const FAILED_SURE: f64 = 0.05;
/// ... but never after more than this.
const FAILED_AFTER_PROBES_MAX: u32 = 6;
/// A lane under trial takes no more bulk if bulk arrives on it this much later than on the first: the reader would stall for that long each
/// time, or for more packets of a slow lane than it expects anyway ...
const LATE_MAX: Span = Span::from_millis(500);
const LATE_PACKETS: u64 = 8;
/// ... and is tried again after this time ...
const LATE_FOR: Span = Span::from_secs(60);
/// ... until it has delivered this much, so that its rate is known.
const TRIED_OCTETS: u64 = 64_000;
/// A failed metered lane is probed no more often than this while others work.
const PROBE_METERED_EVERY: Span = Span::from_secs(5);

/// Unanswered tail probes after which a lane with this loss counts as failed.
fn failed_after(loss: f64) -> u32 {
    let mut lost = loss * loss * loss;
    let mut probes = FAILED_AFTER_PROBES;
    while lost > FAILED_SURE && probes < FAILED_AFTER_PROBES_MAX {
        lost *= loss;
        probes += 1;
    }
    probes
}

impl<L> Lanes<L> {
    /// Time has passed, or acks arrived: updates which lanes work, and their order.
    pub(in crate::link) fn sort(&mut self, now: Instant, in_use: bool) {
        if !self.are_several() {
            return;
        }
        let failed_before = self.all.iter().filter(|lane| lane.failed).count();
        let bond = self.choice == Choice::Bond;
        for lane in &mut self.all {
            // Other policies decide by the share delivered, or not at all.
            let probes = if bond { failed_after(lane.path.loss_outward) } else { FAILED_AFTER_PROBES };
            let fails = lane.sender.unanswered_probes() >= probes;
            if fails && !lane.failed {
                lane.shaky_until = now + SHAKY_FAILED_FOR;
            }
            lane.failed = lane.unplugged || fails;
        }
        // The neighbour sends the acks of all lanes by one, the soonest.
        let works = self.all.iter().filter(|lane| lane.measured && lane.works());
        let back = works.map(|lane| lane.rtt_min.min(lane.path.rtt).scale(1, 2)).min().unwrap_or(Span::ZERO);
        self.all.iter_mut().for_each(|lane| lane.back = back);
        self.find_useless(bond);
        let round = self.open().map(|(_, lane)| lane.path.rtt).max().unwrap_or(Span::ZERO);
        if self.choice == Choice::Delivery1998 {
            let failed = |first: bool| self.open().filter(|(_, l)| (l.place == 0) == first).all(|(_, l)| l.failed);
            let failed = [failed(true), failed(false)];
            self.delivery.decide(now, failed, round);
        }
        // A lane whose socket buffer is full still counts as working.
        let unmetered = bond && self.all.iter().any(|lane| lane.measured && !lane.failed && !lane.metered);
        self.order.sort_unstable();
        let all = &self.all;
        // If none works they take turns: possibly only the acks are lost, and each side waits for the other's.
        let turn = |lane: &Lane<L>| lane.failed.then_some(lane.acks_at);
        let rank = |i: usize, delay: Span| {
            let lane = &all[i];
            let (place, delay) = match self.choice {
                Choice::Bond => (0, delay),
                Choice::Pinned => (lane.place, Span::ZERO),
                Choice::PinnedFallback => (0, Span::ZERO),
                Choice::Delivery1998 => (usize::from((lane.place == 0) != self.delivery.first), delay),
            };
            let costs = unmetered && lane.metered;
            // A lane that answers small packets quickly may need a second for a full one.
            let unknown = if bond { u8::from(!lane.measured) + u8::from(!lane.sender.is_gauged()) } else { 0 };
            (place, costs, (lane.blocked, lane.failed, turn(lane), unknown, bond && lane.metered, delay), lane.place)
        };
        let takes_small = |lane: &Lane<L>| {
            lane.small && !lane.closed && (self.choice == Choice::Pinned || !lane.failed && !lane.blocked)
        };
        let any_takes_small = all.iter().any(takes_small);
        self.bulk_order.clone_from(&self.order);
        self.bulk_order.sort_by_key(|i| (all[*i].useless, rank(*i, all[*i].delay())));
        // Small packets do not wait for a full one's time, which is known only roughly where none are sent.
        self.order.sort_by_key(|i| {
            let last = (any_takes_small && !all[*i].small, all[*i].useless);
            (last, rank(*i, all[*i].delay_of_small()))
        });
        self.set_apart(unmetered, in_use);
        // Last, for a lane that no longer rests may have a probe due.
        self.all.iter_mut().for_each(|lane| lane.sender.probe_eagerly(now, bond));
        if self.all.iter().filter(|lane| lane.failed).count() > failed_before {
            // If another lane still works, an answer there proves that the neighbour is up.
            let first = self.first();
            self.all[first].ping = true;
        }
        let first = &self.all[self.bulk_first()];
        let latest = first.delay() + LATE_MAX.max(first.path.packet_time.times(LATE_PACKETS));
        let tried = |lane: &&mut Lane<L>| lane.measured && lane.sender.delivered_bytes() < TRIED_OCTETS;
        for lane in self.all.iter_mut().filter(tried).filter(|lane| lane.delay() > latest) {
            lane.late_until = now + LATE_FOR;
        }
    }

    /// Decides which lanes lose too much to take bulk beside the others. What pings show decides when one is tried again.
    fn find_useless(&mut self, bond: bool) {
        let good = |lane: &Lane<L>| {
            lane.works() && !lane.closed && lane.bulk && !lane.metered && lane.path.loss_outward < LOSS_GOOD
        };
        let any_good = bond && self.all.iter().any(good);
        self.all.iter_mut().for_each(|lane| lane.useless = any_good && lane.is_worthless());
    }

    /// Decides which lanes carry nothing now, and how rarely those are probed.
    fn set_apart(&mut self, unmetered: bool, in_use: bool) {
        let first = self.first();
        let bulk = self.bulk_order.iter().copied().find(|lane| self.all[*lane].bulk);
        // A lane that takes no bulk does not replace one that does.
        let bulk_unmetered = self.all.iter().any(|lane| !lane.metered && lane.bulk && lane.works());
        for (i, lane) in self.all.iter_mut().enumerate().filter(|(_, lane)| !lane.closed) {
            lane.spare = match self.choice {
                Choice::Bond => unmetered && lane.metered && i != first && (bulk_unmetered || !lane.bulk),
                Choice::Pinned | Choice::PinnedFallback | Choice::Delivery1998 => i != first && Some(i) != bulk,
            };
            // A metered lane is declared failed soon, so that this is known before it is needed, and then probed rarely.
            let apart = if lane.metered && lane.failed { PROBE_METERED_EVERY } else { PROBE_EVERY };
            lane.sender.rest(lane.spare.then_some(apart));
            if !lane.spare {
                lane.sender.probe_rarely(lane.failed && !in_use);
            }
        }
    }

    /// Records the fate of a packet sent on a lane.
    pub(in crate::link) fn note_fate(&mut self, now: Instant, lane: usize, delivered: bool) {
        if self.all[lane].place == 0 && self.choice == Choice::Delivery1998 {
            self.delivery.note(now, delivered);
        }
    }

    /// Acks were sent on a lane.
    pub(in crate::link) fn note_acks(&mut self, now: Instant, lane: usize, in_use: bool) {
        self.all[lane].acks_at = now;
        if self.all[lane].failed {
            self.sort(now, in_use);
        }
    }

    /// Whether silence after a packet on a lane says anything about the neighbour: no answer is expected on a failed lane.
    pub(in crate::link) fn counts(&self, lane: usize) -> bool {
        !self.all[lane].failed || self.open().all(|(_, lane)| lane.failed)
    }

    /// Whether a tail probe on a lane may carry data: not if it is spare, nor if it has failed while others work.
    pub(in crate::link) fn tail_carries(&self, lane: usize) -> bool {
        let out = &self.all[lane];
        !out.spare && !out.useless && (self.choice != Choice::Bond || self.counts(lane))
    }

    /// Moves the packets in flight on failed lanes to the others, once; does nothing if all have failed.
    pub(in crate::link) fn give_up_failed(&mut self) {
        if self.open().filter(|(_, lane)| !lane.spare).all(|(_, lane)| lane.failed) {
            return;
        }
        self.all.iter_mut().filter(|lane| lane.failed).for_each(|lane| lane.sender.give_up_records());
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILED_AFTER_PROBES_MAX, failed_after};

    /// What is in flight and each probe are lost by chance with the loss to the power of their number.
    #[test]
    fn a_lossy_lane_gets_more_probes_before_it_fails() {
        for (loss, probes) in [
            (0.0, 2),
            (0.2, 2),
            (0.36, 2),
            (0.4, 3),
            (0.5, 4),
            (0.7, FAILED_AFTER_PROBES_MAX),
            (1.0, FAILED_AFTER_PROBES_MAX),
        ] {
            assert_eq!(failed_after(loss), probes, "{loss}");
        }
    }
}
