//! The lanes out of a link.

mod ask;
mod order;
mod out;
mod pick;
mod worth;

use super::choice::{Choice, Delivery};
use super::guard::{PATIENCE_MEDIA, is_bursty};
use super::{LANES_MAX, LaneOptions};
use crate::{PathView, RepairBudget};
use out::Lane;
use wavelane_base::{Entropy, Instant, Rate, Span};

/// All lanes out; a lane's number is its place.
#[derive(Debug)]
pub(super) struct Lanes<L> {
    all: Vec<Lane<L>>,
    /// Those that are not closed, ordered by arrival time of a packet sent now, or by the policy.
    order: Vec<usize>,
    /// The same order, ignoring which lanes carry small packets.
    bulk_order: Vec<usize>,
    choice: Choice,
    delivery: Delivery,
}

impl<L> Lanes<L> {
    pub(super) fn new(
        now: Instant,
        options: &[LaneOptions],
        choice: Choice,
        sent_max: usize,
        mut dice: Entropy,
    ) -> Self {
        let others: Vec<Entropy> = (1..options.len()).map(|_| dice.split()).collect();
        let dice = others.into_iter().chain([dice]);
        let lanes = options.iter().zip(dice).enumerate().take(LANES_MAX);
        let all: Vec<Lane<L>> =
            lanes.map(|(id, (options, dice))| Lane::new(now, id as u8, options, sent_max, dice)).collect();
        assert!(!all.is_empty(), "a link has a lane out");
        let order: Vec<usize> = (0..all.len()).collect();
        let mut lanes = Self { all, bulk_order: order.clone(), order, choice, delivery: Delivery::new(now) };
        lanes.sort(now, false);
        lanes
    }

    /// Changes how the lanes are used; `options` lists the numbers of the configured lanes, in configuration order, then others.
    pub(super) fn set_options(&mut self, now: Instant, choice: Choice, options: &[(usize, LaneOptions)]) {
        let leading = |lanes: &Self| lanes.all.iter().position(|lane| lane.place == 0);
        let before = (self.choice, leading(self));
        for (number, lane) in self.all.iter_mut().enumerate() {
            lane.place = LANES_MAX + number;
        }
        for (place, (number, options)) in options.iter().enumerate() {
            let lane = &mut self.all[*number];
            lane.place = place;
            lane.set_costs(options.metered);
            lane.bulk = options.bulk;
            lane.small = options.small;
            lane.sender.set_start_rate(options.start_rate);
        }
        self.choice = choice;
        if (choice, leading(self)) != before {
            self.delivery = Delivery::new(now);
        }
        self.sort(now, true);
    }

    /// Sets which lanes cost something at the neighbour's end, as a mask. Returns whether that changed anything.
    pub(super) fn set_told(&mut self, mask: u8) -> bool {
        let mut changed = false;
        for (number, lane) in self.all.iter_mut().enumerate() {
            changed |= lane.set_told(mask & 1 << number != 0);
        }
        changed
    }

    /// Whether a lane can be removed: only if another is left.
    pub(super) fn can_close(&self, lane: usize) -> bool {
        self.order.len() > 1 && self.order.contains(&lane)
    }

    /// Removes a lane. The packets in flight on it have to be taken back before.
    pub(super) fn close(&mut self, now: Instant, lane: usize) {
        self.all[lane].close(now);
        self.order.retain(|other| *other != lane);
        if let [alone] = self.order[..] {
            let alone = &mut self.all[alone];
            alone.failed = false;
            alone.spare = false;
            alone.sender.rest(None);
            alone.sender.probe_rarely(false);
            alone.sender.probe_eagerly(now, false);
        }
        self.sort(now, true);
    }

    /// Restores a lane that was removed.
    pub(super) fn open_again(&mut self, now: Instant, lane: usize, options: &LaneOptions) {
        self.all[lane].open_again(now, options);
        self.order.push(lane);
        self.sort(now, true);
    }

    /// The lanes that are not closed, with their numbers.
    fn open(&self) -> impl Iterator<Item = (usize, &Lane<L>)> {
        self.all.iter().enumerate().filter(|(_, lane)| !lane.closed)
    }

    /// Whether there is more than one open lane.
    pub(super) fn are_several(&self) -> bool {
        self.order.len() > 1
    }

    /// Whether there are several open lanes, and a packet is known to be short on each: acks that are asked for at once cost a slow one too
    /// much.
    pub(super) fn are_several_quick(&self) -> bool {
        self.are_several() && self.open().all(|(_, lane)| lane.is_quick())
    }

    /// One more lane.
    pub(super) fn add(&mut self, now: Instant, options: &LaneOptions, sent_max: usize, dice: Entropy) {
        assert!(self.all.len() < LANES_MAX, "lanes are numbered below {LANES_MAX}");
        self.order.push(self.all.len());
        let mut lane = Lane::new(now, self.all.len() as u8, options, sent_max, dice);
        lane.ping = true;
        lane.place = LANES_MAX + self.all.len();
        self.all.push(lane);
        self.sort(now, true);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get_mut(&mut self, lane: u8) -> Option<&mut Lane<L>> {
        self.all.get_mut(usize::from(lane))
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, Lane<L>> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Lane<L>> {
        self.all.iter_mut()
    }

    /// The lane on which a packet sent now arrives soonest; it carries acks and urgent packets.
    pub(super) fn first(&self) -> usize {
        self.order[0]
    }

    /// The lane on which bulk arrives soonest.
    fn bulk_first(&self) -> usize {
        self.bulk_order.iter().copied().find(|lane| self.all[*lane].bulk).unwrap_or(self.first())
    }

    /// Whether any lane has a measured path.
    pub(super) fn is_measured(&self) -> bool {
        self.all.iter().any(|lane| lane.measured)
    }

    /// The path state of that lane.
    pub(super) fn best(&self) -> &PathView {
        &self[self.first()].path
    }

    /// Sets `budget` and the paths that services see, highest rate first.
    pub(super) fn views(&mut self, budget: &mut RepairBudget, views: &mut Vec<PathView>) {
        views.clear();
        if self.all.iter().all(|lane| !lane.measured) {
            return;
        }
        let any_used = self.all.iter().any(|lane| lane.measured && !lane.spare && !lane.useless);
        let works = |lane: &&mut Lane<L>| lane.measured && !(any_used && (lane.spare || lane.useless));
        let all_failed = self.all.iter().all(|lane| lane.failed || !lane.measured || any_used && lane.spare);
        let used = self.all.iter_mut().filter(works).filter(|lane| all_failed || !lane.failed);
        let mut used: Vec<&mut Lane<L>> = used.collect();
        used.sort_by_key(|lane| core::cmp::Reverse(lane.path.rate.as_bps()));
        let rate = Rate::from_bps(used.iter().map(|lane| lane.path.rate.as_bps()).sum());
        let (rtt, loss) = used
            .iter()
            .fold((Span::ZERO, 0.0_f64), |(rtt, loss), lane| (rtt.max(lane.path.rtt), loss.max(lane.path.loss)));
        budget.set_path(rate, rtt, loss);
        for lane in used {
            let symbols = budget.is_lossy() && !is_bursty(lane.path.burst);
            lane.path.symbols = if symbols { PATIENCE_MEDIA } else { Span::ZERO };
            views.push(lane.path);
        }
    }
}

impl<L> core::ops::Index<usize> for Lanes<L> {
    type Output = Lane<L>;
    fn index(&self, lane: usize) -> &Lane<L> {
        &self.all[lane]
    }
}

impl<L> core::ops::IndexMut<usize> for Lanes<L> {
    fn index_mut(&mut self, lane: usize) -> &mut Lane<L> {
        &mut self.all[lane]
    }
}
