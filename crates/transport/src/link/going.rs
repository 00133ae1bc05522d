//! Lanes that come and go while the link stands.
//!
//! A lane that goes keeps its number, and its packet numbers go on should another take its place: no nonce is used twice, and the
//! neighbour's replay window stays right. The neighbour is told, so that it sends nothing to where the lane led.

use super::{Choice, LANES_MAX, LaneOptions, Link};
use crate::Service;
use wavelane_base::{Entropy, Instant};
use wavelane_wire::Writer;
use wavelane_wire::frame::Frame;

/// Which lanes have gone, on either side.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// Ours of which the neighbour is to be told, a bit each.
    to_tell: u8,
    /// Ours of which it is being told: the word is on its way.
    telling: u8,
    /// The neighbour's, by their numbers: from which packet number on. Nobody took it yet.
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
    /// The neighbour knows of these.
    pub(super) fn told(&mut self, lanes: u8) {
        self.telling &= !lanes;
    }
    /// Word of these was lost.
    pub(super) fn not_told(&mut self, lanes: u8) {
        // Of one that is back meanwhile nobody has to be told.
        self.to_tell |= lanes & self.telling;
    }
    /// The neighbour says that one of its lanes has gone.
    pub(super) fn heard(&mut self, lane: u8, next: u64) {
        if let Some(heard) = self.heard.get_mut(usize::from(lane)) {
            *heard = Some(next);
        }
    }
}

impl<S: Service> Link<S> {
    /// How the lanes are used from now on: the numbers of those that the configuration has, in its order.
    pub fn set_choice(&mut self, now: Instant, choice: Choice, lanes: &[(usize, LaneOptions)]) {
        self.lanes.set_options(now, choice, lanes);
    }

    /// One more lane out, whose number is the next.
    ///
    /// # Panics
    /// If there are [`LANES_MAX`].
    pub fn add_lane(&mut self, now: Instant, options: &LaneOptions, dice: Entropy) {
        self.lanes.add(now, options, self.sent_max, dice);
    }

    /// A lane out is taken away: others carry what it had on its way. The only one stays.
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
        self.settle(now);
    }

    /// A lane that was taken away is there again, as another way perhaps.
    pub fn open_lane(&mut self, now: Instant, lane: usize, options: &LaneOptions) {
        if self.lanes[lane].is_closed() {
            self.lanes.open_again(now, lane, options);
            self.going.is_back(lane);
        }
    }

    /// Whether a lane was taken away.
    pub fn is_closed(&self, lane: usize) -> bool {
        self.lanes[lane].is_closed()
    }

    /// The next lane of the neighbour's of which it said that it is gone, and from which packet number on.
    pub fn poll_gone(&mut self) -> Option<(u8, u64)> {
        let lane = self.going.heard.iter().position(Option::is_some)?;
        self.going.heard[lane].take().map(|next| (lane as u8, next))
    }

    /// Appends word of the lanes that have gone. Returns of which, a bit each.
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
