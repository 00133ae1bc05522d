//! Which lanes cost money: what a sender pays for its lane, the neighbour pays for the way back as well, and each side chooses by which lane
//! it sends. So each is told of the other's metered lanes.

use super::{LANES_MAX, Link};
use crate::Service;
use wavelane_base::Instant;
use wavelane_wire::Writer;
use wavelane_wire::frame::Frame;

/// What was told, on either side. A mask has a bit for each lane by number.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Our metered lanes as the neighbour was told last, and how often that changed. Nothing is said where none is metered.
    said: u8,
    order: u8,
    /// The datagram that said so was lost.
    again: bool,
    /// The neighbour's metered lanes, and the number of what said so.
    heard: u8,
    heard_order: Option<u8>,
    /// Our lane back by the path of each of the neighbour's.
    backs: [Option<usize>; LANES_MAX],
}

fn bit(lane: usize) -> u8 {
    1 << lane
}

impl Costs {
    /// What was sent under this number arrived, or is lost.
    pub(super) fn settle(&mut self, order: Option<u8>, delivered: bool) {
        self.again |= !delivered && order == Some(self.order);
    }

    /// The neighbour says which of its lanes are metered.
    pub(super) fn hear(&mut self, lanes: u8, order: u8) {
        // Numbers count modulo 256 (RFC 1982): one that is behind was overtaken.
        if self.heard_order.is_none_or(|last| order.wrapping_sub(last).cast_signed() > 0) {
            self.heard = lanes;
            self.heard_order = Some(order);
        }
    }

    /// A lane of the neighbour's is the other direction of one of ours.
    pub(super) fn pair(&mut self, theirs: u8, ours: usize) {
        if let Some(back) = self.backs.get_mut(usize::from(theirs)) {
            *back = Some(ours);
        }
    }

    /// A lane of the neighbour's is gone, and so is what it said of it.
    pub(super) fn gone(&mut self, theirs: u8) {
        if let Some(back) = self.backs.get_mut(usize::from(theirs)) {
            *back = None;
            self.heard &= !bit(usize::from(theirs));
        }
    }

    /// A lane of ours leads elsewhere from now on.
    pub(super) fn moved(&mut self, ours: usize) {
        self.backs.iter_mut().filter(|back| **back == Some(ours)).for_each(|back| *back = None);
    }

    /// Our lanes that are the way back of a metered one of the neighbour's.
    fn told(&self) -> u8 {
        let metered = self.backs.iter().enumerate().filter(|(theirs, _)| self.heard & bit(*theirs) != 0);
        metered.filter_map(|(_, back)| *back).fold(0, |mask, ours| mask | bit(ours))
    }
}

impl<S: Service> Link<S> {
    /// Our lanes whose sending costs us something, as a mask.
    fn own_costs(&self) -> u8 {
        let ours = self.lanes.iter().enumerate().filter(|(_, lane)| lane.costs && !lane.is_closed());
        ours.fold(0, |mask, (number, _)| mask | bit(number))
    }

    /// Whether the neighbour has to be told of our metered lanes.
    pub(super) fn costs_wait(&self) -> bool {
        self.costs.again || self.own_costs() != self.costs.said
    }

    /// Appends that. Returns under which number.
    pub(super) fn put_costs(&mut self, w: &mut Writer<'_>) -> Option<u8> {
        if !self.costs_wait() {
            return None;
        }
        let lanes = self.own_costs();
        let order = self.costs.order.wrapping_add(u8::from(lanes != self.costs.said));
        (Frame::Metered { lanes, order }).emit(w).ok()?;
        self.costs.said = lanes;
        self.costs.order = order;
        self.costs.again = false;
        Some(order)
    }

    /// Applies what the neighbour said to our lanes.
    pub(super) fn heed_costs(&mut self, now: Instant) {
        let told = self.costs.told();
        if self.lanes.set_told(told) {
            self.lanes.sort(now, self.liveness.is_in_use(now));
        }
    }

    /// Whether a lane's traffic costs money, here or at the neighbour's end.
    pub fn lane_is_metered(&self, lane: usize) -> bool {
        self.lanes[lane].is_metered()
    }

    /// Whether only the neighbour says so.
    pub fn lane_is_metered_there(&self, lane: usize) -> bool {
        self.lanes[lane].is_metered() && !self.lanes[lane].costs
    }
}

#[cfg(test)]
mod tests {
    use super::Costs;

    #[test]
    fn what_was_overtaken_is_not_heeded_and_a_lane_that_is_gone_costs_nothing() {
        let mut costs = Costs::default();
        costs.pair(1, 0);
        costs.pair(2, 3);
        assert_eq!(costs.told(), 0);
        costs.hear(0b110, 255);
        assert_eq!(costs.told(), 0b1001);
        costs.hear(0b010, 0);
        assert_eq!(costs.told(), 0b0001, "the number went round");
        costs.hear(0b110, 254);
        assert_eq!(costs.told(), 0b0001, "late");
        costs.pair(1, 2);
        assert_eq!(costs.told(), 0b0100, "another path");
        costs.moved(2);
        assert_eq!(costs.told(), 0);
        costs.pair(1, 2);
        costs.gone(1);
        costs.pair(1, 2);
        assert_eq!(costs.told(), 0);
        costs.hear(0xff, 1);
        costs.pair(200, 1);
        costs.gone(200);
        assert_eq!(costs.told(), 0b1100, "what has no lane is of no effect");
    }
}
