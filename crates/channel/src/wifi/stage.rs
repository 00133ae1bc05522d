//! A station's queue before transmission: a managed queue, or one per receiver with airtime fairness.
//!
//! Without a ring a frame leaves it only for the current or next transmission: an aggregate is formed when it is sent. With
//! a ring it leaves as soon as the ring has room and airtime queue limits permit.

use super::queues::StationQueue;
use super::station::Queued;
use super::{Cause, Wifi, WifiEvent};
use crate::cable::managed;
use std::collections::VecDeque;
use wavelane_base::{Chance, Ecn, Instant, Span};
use wavelane_queue::{Account, Aql, Loss, Queue};

/// Airtime quantum of a receiver (`IEEE80211_DEFAULT_AIRTIME_WEIGHT` of Linux).
const QUANTUM: Span = Span::from_micros(256);

impl wavelane_queue::Queued for Queued {
    fn octets(&self) -> usize {
        self.bytes.len()
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    /// Unknown in a cell; none of its disciplines uses it.
    fn heeds_drops(&self) -> bool {
        true
    }
    fn mark(&mut self) -> bool {
        let can = self.ecn != Ecn::NotEct;
        if can {
            self.ecn = Ecn::Ce;
        }
        can
    }
    fn hosts(&self) -> (u64, u64) {
        self.hosts
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn is_scalable(&self) -> bool {
        matches!(self.ecn, Ecn::Ect1 | Ecn::Ce)
    }
}

/// The managed queue of a contender.
#[derive(Debug)]
pub(super) struct Stage {
    /// One in total, or with airtime fairness one per receiver.
    queues: Vec<Queue<Queued>>,
    turns: Option<Turns>,
    /// Size in frames of the driver's ring behind it, from which aggregates are formed; 0 is none.
    ring: usize,
}

/// Deficit round robin by airtime, with previously idle receivers first (Hoiland-Jorgensen and others, "Ending the Anomaly",
/// USENIX ATC 2017, algorithm 3).
#[derive(Debug)]
struct Turns {
    /// Deficit of each receiver, in nanoseconds.
    credit: Vec<i64>,
    listed: Vec<bool>,
    fresh: VecDeque<usize>,
    old: VecDeque<usize>,
}

/// Whether airtime queue limits permit another frame for a receiver; `None` if there are none.
type May<'a> = Option<&'a dyn Fn(usize) -> bool>;

impl Turns {
    /// Receivers on the round-robin lists.
    fn listed(&self) -> impl Iterator<Item = usize> {
        (0..self.listed.len()).filter(|to| self.listed[*to])
    }
}

impl Stage {
    /// An empty one in a cell of `stations` stations.
    pub(super) fn new(config: &StationQueue, stations: usize, chance: &Chance) -> Self {
        let queue = || managed(config.discipline, config.limit, chance.clone());
        let count = if config.airtime { stations } else { 1 };
        let turns = config.airtime.then(|| Turns {
            credit: vec![0; stations],
            listed: vec![false; stations],
            fresh: VecDeque::with_capacity(stations),
            old: VecDeque::with_capacity(stations),
        });
        Self { queues: (0..count).map(|_| queue()).collect(), turns, ring: config.ring as usize }
    }
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(Queue::len).sum()
    }
    fn queue_of(&self, to: usize) -> usize {
        if self.turns.is_some() { to } else { 0 }
    }
    fn push(&mut self, now: Instant, frame: Queued, lost: wavelane_queue::Lost<'_, Queued>) {
        let to = frame.to;
        let queue = self.queue_of(to);
        self.queues[queue].push_noting(now, frame, lost);
        if let Some(turns) = &mut self.turns
            && !core::mem::replace(&mut turns.listed[to], true)
        {
            turns.credit[to] = QUANTUM.as_nanos() as i64;
            turns.fresh.push_back(to);
        }
    }
    /// The next frame for any receiver that `may` permits.
    fn pop(&mut self, now: Instant, may: May<'_>, lost: wavelane_queue::Lost<'_, Queued>) -> Option<Queued> {
        let Some(turns) = &mut self.turns else { return Some(self.queues[0].pop_noting(now, lost)?.item) };
        loop {
            if may.is_some_and(|may| !turns.listed().any(may)) {
                return None;
            }
            let is_fresh = !turns.fresh.is_empty();
            let list = if is_fresh { &mut turns.fresh } else { &mut turns.old };
            let to = *list.front()?;
            let is_spent = turns.credit[to] <= 0;
            if is_spent {
                turns.credit[to] += QUANTUM.as_nanos() as i64;
            }
            if is_spent || may.is_some_and(|may| !may(to)) {
                list.pop_front();
                turns.old.push_back(to);
                continue;
            }
            if let Some(popped) = self.queues[to].pop_noting(now, lost) {
                return Some(popped.item);
            }
            list.pop_front();
            // A new receiver whose queue empties moves to the old list, or it could starve the others one frame at a time.
            if is_fresh && !turns.old.is_empty() {
                turns.old.push_back(to);
            } else {
                turns.listed[to] = false;
            }
        }
    }
    /// The next frame that may join an aggregate for `to`; from a shared queue, the next one for any receiver.
    fn pop_for(&mut self, to: usize, now: Instant, lost: wavelane_queue::Lost<'_, Queued>) -> Option<Queued> {
        let queue = self.queue_of(to);
        Some(self.queues[queue].pop_noting(now, lost)?.item)
    }
    /// Charges the airtime of a transmission to `to`.
    pub(super) fn charge(&mut self, to: usize, airtime: Span) {
        if let Some(turns) = &mut self.turns {
            turns.credit[to] -= airtime.as_nanos() as i64;
        }
    }
    /// Size in frames of the ring behind it, 0 for none.
    pub(super) fn ring(&self) -> usize {
        self.ring
    }
    /// Whether there is a ring behind it.
    pub(super) fn has_ring(&self) -> bool {
        self.ring > 0
    }
    pub(super) fn marked(&self) -> u64 {
        self.queues.iter().map(|queue| queue.counters().marked).sum()
    }
}

/// The airtime account of a station's contender and receiver; for broadcast the receiver is the station itself.
fn account(kinds: usize, station: usize, index: usize, to: usize) -> Account {
    if to == station { Account::Everybody } else { Account::Queue(to * kinds + index % kinds) }
}

/// Frames that a managed queue dropped.
type Shed = Vec<(Queued, Loss)>;

impl Wifi {
    /// A frame joins the managed queue of a contender.
    pub(super) fn stage(&mut self, station: usize, index: usize, frame: Queued) {
        let mut shed = Shed::new();
        if let Some(stage) = &mut self.contenders[index].stage {
            stage.push(self.now, frame, &mut |frame, loss| shed.push((frame, loss)));
        }
        self.shed(station, index, shed);
    }
    /// Moves the next frame of a managed queue into contention if none contends, or fills the ring behind it.
    pub(super) fn draw_next(&mut self, station: usize, index: usize) {
        let Some(stage) = &self.contenders[index].stage else { return };
        let room = stage.ring.max(1);
        while self.contenders[index].queue.len() < room && self.pull(station, index, None) {}
    }
    /// A frame has left a queue of a station, acknowledged or not: its airtime is no longer pending, and others may be
    /// released.
    pub(super) fn complete(&mut self, station: usize, index: usize, to: usize, pledged: Span) {
        if self.stations[station].aql.is_none() {
            return self.draw_next(station, index);
        }
        let account = account(self.kinds, station, index, to);
        if let Some(aql) = &mut self.stations[station].aql {
            aql.complete(account, pledged);
        }
        // The total pending airtime fell, so a category limited by the threshold may release frames as well, or one whose
        // broadcast frames waited for those of another. The former contends already, with the frames in its ring. The latter
        // had none there, so it begins now, after a busy medium: with a backoff.
        for other in self.kinds_of(station) {
            let was_idle = self.contenders[other].queue.is_empty() && self.contenders[other].counter.is_none();
            self.draw_next(station, other);
            if other != index && was_idle && !self.contenders[other].queue.is_empty() {
                self.contenders[other].counter = Some(self.draw_of(station, other));
            }
        }
    }
    /// The airtime that AQL counts for a frame of a station (`ieee80211_calc_expected_tx_airtime` of Linux): its airtime at
    /// the receiver's current rate, plus a share of an aggregate's preamble that depends on that rate. Responses, interframe
    /// spaces and retries are not included.
    fn expected(&self, station: usize, frame: &Queued) -> Span {
        /// The airtime of [`FRAME`] above which this many frames are assumed to share a preamble.
        const SHARING: [(Span, u64); 4] = [
            (Span::from_micros(400), 2),
            (Span::from_micros(250), 4),
            (Span::from_micros(150), 8),
            (Span::from_micros(70), 16),
        ];
        const SHARING_MOST: u64 = 32;
        const FRAME: usize = 1_024;
        let rate = self.usual_rate(station, frame.to);
        let (octets, preamble) = (self.alone(station, frame), rate.preamble());
        if self.aggregate.is_none() || frame.no_ack {
            return rate.airtime(octets);
        }
        let usual = rate.airtime(FRAME).saturating_sub(preamble);
        let sharing = SHARING.iter().find(|(above, _)| usual > *above).map_or(SHARING_MOST, |(_, frames)| *frames);
        rate.airtime(octets).saturating_sub(preamble) + preamble.scale(1, sharing)
    }
    /// Takes a frame out of a managed queue, for one receiver or any; returns whether there was one.
    pub(super) fn pull(&mut self, station: usize, index: usize, to: Option<usize>) -> bool {
        let (now, mut shed) = (self.now, Shed::new());
        let kinds = self.kinds;
        let aql: Option<&Aql> = self.stations[station].aql.as_deref();
        let may = |to: usize| aql.is_none_or(|aql| aql.may_release(account(kinds, station, index, to)));
        let may: May<'_> = if aql.is_some() { Some(&may) } else { None };
        let Some(stage) = &mut self.contenders[index].stage else { return false };
        let mut lost = |frame, loss| shed.push((frame, loss));
        let popped = match to {
            Some(to) => stage.pop_for(to, now, &mut lost),
            None => stage.pop(now, may, &mut lost),
        };
        let found = popped.is_some();
        if let Some(mut frame) = popped {
            if self.stations[station].aql.is_some() {
                frame.pledged = self.expected(station, &frame);
                if let Some(aql) = &mut self.stations[station].aql {
                    aql.release(account(kinds, station, index, frame.to), frame.pledged);
                }
            }
            // Sequence numbers follow the order on the air.
            frame.number = self.stations[station].take_number();
            self.contenders[index].queue.push_back(frame);
        }
        self.shed(station, index, shed);
        found
    }
    fn shed(&mut self, station: usize, index: usize, shed: Shed) {
        for (frame, loss) in shed {
            let full = loss == Loss::Full;
            let tally = &mut self.stations[station].tally;
            tally.refused += u64::from(full);
            tally.dropped_delay += u64::from(!full);
            let tally = &mut self.contenders[index].tally;
            tally.refused += u64::from(full);
            tally.dropped_delay += u64::from(!full);
            let cause = if full { Cause::QueueFull } else { Cause::Delay };
            let (at, octets) = (self.now, frame.bytes.len());
            self.report(WifiEvent::Dropped { at, from: station, to: frame.to, cause, octets });
            self.recycle(frame.bytes);
        }
    }
    /// The current exchange of a station is over: charges its receiver the airtime since the start plus the access overhead,
    /// DIFS and the mean backoff. Without the overhead, receivers at high rates would gain from their larger number of
    /// exchanges.
    pub(super) fn charge(&mut self, station: usize) {
        let (index, since) = (self.turn_of(station), self.stations[station].began);
        self.stations[station].began = self.now;
        let (difs, slot) = (self.difs, self.slot);
        let this = &mut self.contenders[index];
        let access = difs + slot.times(u64::from(this.windows.0)).scale(1, 2);
        if let (Some(stage), Some(head)) = (&mut this.stage, this.queue.front()) {
            stage.charge(head.to, self.now.since(since) + access);
        }
    }
}
