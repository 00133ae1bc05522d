//! Lanes that are added and removed while the link is up.
//!
//! A lane that is removed keeps its number, and its packet numbers continue if another takes its place: no nonce is used twice, and the
//! neighbour's replay window stays valid. The neighbour is told, so that it sends nothing to where the lane led.

use super::{Choice, LANES_MAX, LaneOptions, Link};
use crate::Service;
use wavelane_base::{Entropy, Instant};
use wavelane_wire::Writer;
use wavelane_wire::frame::Frame;

/// Which lanes have gone, on either side.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// Our removed lanes that the neighbour has to be told of, as a bit mask.
    to_tell: u8,
    /// Our removed lanes whose report is in flight.
    telling: u8,
    /// The neighbour's removed lanes, by number: the next packet number of each. Not taken yet.
    heard: [Option<u64>; LANES_MAX],
}

fn bit(lane: usize) -> u8 {
    1 << lane
}

impl Going {
    pub(super) fn waits(&self) -> bool {
        self.to_tell != 0
    }
    fn is_back(&mut self, lane: usize) {
        self.to_tell &= !bit(lane);
        self.telling &= !bit(lane);
    }
    /// The neighbour acknowledged the report of these.
    pub(super) fn told(&mut self, lanes: u8) {
        self.telling &= !lanes;
    }
    /// The report of these was lost.
    pub(super) fn not_told(&mut self, lanes: u8) {
        // A lane that was restored meanwhile need not be reported.
        self.to_tell |= lanes & self.telling;
    }
    /// The neighbour reports that one of its lanes is gone.
    pub(super) fn heard(&mut self, lane: u8, next: u64) {
        if let Some(heard) = self.heard.get_mut(usize::from(lane)) {
            *heard = Some(next);
        }
    }
}

impl<S: Service> Link<S> {
    /// Changes how the lanes are used; `lanes` holds the numbers of the configured lanes, in configuration order, then others.
    pub fn set_choice(&mut self, now: Instant, choice: Choice, lanes: &[(usize, LaneOptions)]) {
        self.lanes.set_options(now, choice, lanes);
    }

    /// Adds a lane out, which gets the next number.
    ///
    /// # Panics
    /// If there are [`LANES_MAX`].
    pub fn add_lane(&mut self, now: Instant, options: &LaneOptions, dice: Entropy) {
        self.lanes.add(now, options, self.sent_max, dice);
    }

    /// Removes a lane out: other lanes carry what it had in flight. The last lane cannot be removed.
    pub fn close_lane(&mut self, now: Instant, lane: usize) {
        if !self.lanes.can_close(lane) {
            return;
        }
        self.lanes[lane].sender.give_up_records();
        self.settle_lane(now, lane);
        let parked: Vec<S::Load> = self.lanes[lane].guard.take_parked().collect();
        parked.into_iter().for_each(|load| self.service.lost(now, load));
        self.lanes.close(now, lane);
        self.going.to_tell |= bit(lane);
        self.costs.moved(lane);
        self.heed_costs(now);
        self.settle(now);
    }

    /// Restores a lane that was removed, possibly over another path.
    pub fn open_lane(&mut self, now: Instant, lane: usize, options: &LaneOptions) {
        if self.lanes[lane].is_closed() {
            self.lanes.open_again(now, lane, options);
            self.going.is_back(lane);
        }
    }

    /// Whether a lane was removed.
    pub fn is_closed(&self, lane: usize) -> bool {
        self.lanes[lane].is_closed()
    }

    /// The next lane that the neighbour reported as gone, with its next packet number.
    pub fn poll_gone(&mut self) -> Option<(u8, u64)> {
        let lane = self.going.heard.iter().position(Option::is_some)?;
        self.going.heard[lane].take().map(|next| (lane as u8, next))
    }

    /// Appends reports of removed lanes. Returns which ones, as a bit mask.
    pub(super) fn put_gone(&mut self, w: &mut Writer<'_>) -> u8 {
        let mut told = 0;
        for lane in (0..self.lanes.len()).filter(|lane| self.going.to_tell & bit(*lane) != 0) {
            let next = self.lanes[lane].sender.next_number();
            if (Frame::LaneGone { lane: lane as u8, next }).emit(w).is_err() {
                break;
            }
            told |= bit(lane);
        }
        self.going.to_tell &= !told;
        self.going.telling |= told;
        told
    }
}
