//! Channel access, and the effect of success and failure on the next backoff.

use super::station::{Failures, Plan, Queued, Station, Waiting};
use super::{AfterDrop, AfterTimeout, Cause, Draw, FRAME_MAX, FirstAccess, Handling, Retry, Wifi, WifiEvent};
use std::sync::Arc;
use wavelane_base::FrameMeta;

impl Wifi {
    /// Adds a frame to a queue of a station, which starts contending if it was idle.
    pub(super) fn enqueue(&mut self, (station, to): (usize, usize), bytes: &[u8], meta: FrameMeta, handling: Handling) {
        let index = self.contender(station, handling.category);
        let cause = if bytes.len() > FRAME_MAX {
            Some(Cause::TooLong)
        } else if self.contenders[index].stage.is_none()
            && self.contenders[index].queue.len() >= self.contenders[index].limit
        {
            Some(Cause::QueueFull)
        } else {
            None
        };
        if let Some(cause) = cause {
            self.stations[station].tally.refused += 1;
            self.contenders[index].tally.refused += 1;
            self.report(WifiEvent::Dropped { at: self.now, from: station, to, cause, octets: bytes.len() });
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        let own = Arc::get_mut(&mut copy).expect("a spare buffer is nobody else's");
        own.clear();
        own.extend_from_slice(bytes);
        let no_ack = handling.no_ack || to == station || !self.rules.acknowledges;
        let mut frame = Queued::new(to, &meta, Handling { no_ack, ..handling }, copy);
        if self.contenders[index].stage.is_some() {
            let serves = !self.contenders[index].queue.is_empty();
            self.stage(station, index, frame);
            self.draw_next(station, index);
            if serves || self.contenders[index].queue.is_empty() {
                return;
            }
        } else {
            frame.number = self.stations[station].take_number();
            self.contenders[index].queue.push_back(frame);
        }
        let this = &self.contenders[index];
        let contends = this.queue.len() > 1 || this.counter.is_some();
        let level = this.level;
        let Station { class, joined, .. } = &self.stations[station];
        let in_class = class.is_some_and(|class| *joined && self.classes[class].wheels[level].has(index));
        // A remaining backoff from the previous frame continues; no new one is drawn.
        if !contends && !in_class {
            self.leave(station);
            self.first_access(station, index);
            self.resume(station);
        }
    }
    fn first_access(&mut self, station: usize, index: usize) {
        let now = self.now;
        if self.ears[station].is_taken(now) {
            self.contenders[index].counter = Some(self.draw(index));
        } else if self.rules.first_access == FirstAccess::AfterDifs {
            self.contenders[index].counter = Some(0);
            self.contenders[index].hold = now;
        } else {
            self.contenders[index].counter = Some(self.draw(index));
            self.contenders[index].hold = now + self.difs;
        }
    }
    fn draw(&mut self, index: usize) -> u32 {
        let window = u64::from(self.contenders[index].window);
        let range = match self.rules.draw {
            Draw::ZeroToCw => window + 1,
            Draw::BelowCw => window,
        };
        self.dice.below(range) as u32
    }

    /// Backoffs of an ear expire: all contenders with a frame send it.
    pub(super) fn access(&mut self, ear: usize) {
        let base = self.ears[ear].base;
        match ear.checked_sub(self.stations.len()) {
            None => {
                for index in self.kinds_of(ear) {
                    if self.expiry_of(&self.contenders[index], base).is_some_and(|at| at <= self.now) {
                        self.contenders[index].counter = None;
                        self.starting.push(index);
                    }
                }
            }
            Some(class) => {
                for level in 0..self.aifs_extra.len() {
                    let Some(least) = self.classes[class].wheels[level].least() else { continue };
                    if base + self.aifs_extra[level] + self.slots(least) <= self.now {
                        while let Some(index) = self.classes[class].wheels[level].pop(least) {
                            self.starting.push(index);
                        }
                    }
                }
            }
        }
        if self.kinds > 1 {
            // The highest category of a station first, in whatever order they were found.
            self.starting.sort_unstable();
        }
        while let Some(index) = self.starting.pop() {
            if self.contenders[index].queue.is_empty() {
                continue;
            }
            let station = index / self.kinds;
            if self.stations[station].plan == Plan::End {
                self.give_way(station, index);
            } else {
                self.start(station, index - station * self.kinds);
            }
        }
        self.arm(ear);
        if self.ears[ear].is_busy() {
            self.freeze(ear, self.now + self.hearing.window, false);
        }
    }

    /// A category loses an internal collision with a higher one of its station (10.22.2.4).
    fn give_way(&mut self, station: usize, index: usize) {
        self.leave(station);
        self.stations[station].tally.internal_collisions += 1;
        self.contenders[index].tally.gave_way += 1;
        // The slot that begins now is not part of the backoff drawn below.
        self.contenders[index].hold = self.now + self.slot;
        self.contenders[index].failures.short += 1;
        let limit = match self.rules.retry {
            Retry::PerFrame(limit) | Retry::ShortLong { short: limit, .. } => limit,
        };
        let spent = self.contenders[index].failures.short >= limit;
        self.widen(index, spent);
        if spent {
            self.close(station, index, 0, Ending::GivenUp);
        }
        self.contenders[index].counter = Some(self.draw_of(station, index));
    }
    /// A backoff from the station's own random stream, so that the order of stations at one instant does not matter.
    pub(super) fn draw_of(&mut self, station: usize, index: usize) -> u32 {
        let range = u64::from(self.contenders[index].window) + u64::from(self.rules.draw == Draw::ZeroToCw);
        self.inner_dice[station].below(range) as u32
    }

    /// The current contender's transmission succeeded, at least in part.
    pub(super) fn succeed(&mut self, station: usize, ending: Ending) {
        self.charge(station);
        let index = self.turn_of(station);
        let this = &mut self.contenders[index];
        this.window = this.windows.0;
        this.in_a_row = 0;
        self.stations[station].waiting = Waiting::Nothing;
        self.stations[station].plan = Plan::Nothing;
        if self.stations[station].riding > 0 {
            self.settle(station, true);
        } else {
            self.close(station, index, 0, ending);
        }
        self.timers.clear(station);
        self.look(station);
        if self.next_fits(station, 0, self.now) {
            self.plan(station, Plan::Data, self.sifs);
        } else {
            self.contenders[index].window = self.rules.after_own.unwrap_or(self.contenders[index].window);
            self.contenders[index].counter = Some(self.draw(index));
            self.contenders[index].window = self.contenders[index].windows.0;
        }
    }
    /// The awaited response did not arrive.
    pub(super) fn fail(&mut self, station: usize) {
        self.charge(station);
        let hold = match self.rules.after_timeout {
            AfterTimeout::AtOnce => self.now,
            AfterTimeout::Difs => self.now + self.difs,
        };
        for index in self.kinds_of(station) {
            self.contenders[index].hold = hold;
        }
        let index = self.turn_of(station);
        let of_data = self.stations[station].waiting == Waiting::Ack;
        let tally = &mut self.stations[station].tally;
        if of_data {
            tally.ack_missing += 1;
            self.contenders[index].tally.ack_missing += 1;
        } else {
            tally.cts_missing += 1;
        }
        let long = self.follows_rts(station);
        // Of a guarded aggregate each frame has been tried: the receiver may be gone.
        let rode = self.stations[station].riding > 0 && (of_data || self.is_guarded(station));
        let this = &mut self.contenders[index];
        let (count, limit) = match self.rules.retry {
            Retry::PerFrame(limit) => (&mut this.failures.short, limit),
            Retry::ShortLong { long: limit, .. } if of_data && long => (&mut this.failures.long, limit),
            Retry::ShortLong { short: limit, .. } => (&mut this.failures.short, limit),
        };
        let spent = if rode {
            self.settle(station, false)
        } else {
            *count += 1;
            let spent = *count >= limit;
            if self.stations[station].riding > 0 {
                self.dissolve(station);
            }
            if spent {
                self.close(station, index, 0, Ending::GivenUp);
            }
            spent
        };
        self.widen(index, spent);
        self.stations[station].waiting = Waiting::Nothing;
        self.stations[station].plan = Plan::Nothing;
        self.timers.clear(station);
        self.contenders[index].counter = Some(self.draw(index));
    }
    /// The effect of a failure on the contention window; `spent` if it was the frame's last.
    fn widen(&mut self, index: usize, spent: bool) {
        let this = &mut self.contenders[index];
        let (least, most) = this.windows;
        this.window = match self.rules.after_drop {
            AfterDrop::Smallest if spent => least,
            AfterDrop::CountsOn(limit) if this.in_a_row >= limit => least,
            _ => (2 * this.window + 1).min(most),
        };
        this.in_a_row = match self.rules.after_drop {
            AfterDrop::CountsOn(limit) if this.in_a_row < limit => this.in_a_row + 1,
            _ => 0,
        };
    }
    /// Completes a frame of a queue, successfully or not.
    pub(super) fn close(&mut self, station: usize, index: usize, place: usize, ending: Ending) {
        let this = &mut self.contenders[index];
        this.failures = Failures::default();
        this.tally.given_up += u64::from(ending == Ending::GivenUp);
        let Some(head) = this.queue.remove(place) else { return };
        let (at, from, to, octets) = (self.now, station, head.to, head.bytes.len());
        let pledged = head.pledged;
        let tally = &mut self.stations[station].tally;
        let (count, event) = match ending {
            Ending::Acknowledged => (&mut tally.acknowledged, WifiEvent::Acknowledged { at, from, to, octets }),
            Ending::Unanswered => (&mut tally.unacknowledged, WifiEvent::Sent { at, from, to, octets }),
            Ending::GivenUp => {
                (&mut tally.given_up, WifiEvent::Dropped { at, from, to, cause: Cause::RetryLimit, octets })
            }
        };
        *count += 1;
        self.report(event);
        if ending == Ending::Acknowledged && self.aggregate.is_some() && !head.handed {
            self.hold_back(index, head);
        } else {
            self.recycle(head.bytes);
        }
        if ending == Ending::GivenUp && self.aggregate.is_some() {
            self.hand_out(to, station, index);
        }
        self.complete(station, index, to, pledged);
    }
    /// The contender of a station's current exchange.
    pub(super) fn turn_of(&self, station: usize) -> usize {
        station * self.kinds + self.stations[station].turn
    }
}

/// The outcome of a frame at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Acknowledged,
    /// Sent without acknowledgement.
    Unanswered,
    GivenUp,
}
