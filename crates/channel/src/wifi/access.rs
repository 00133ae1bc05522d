//! The distributed coordination function of one station: when it sends, what it answers, when it gives up.

use super::station::{Failures, Kind, OnAir, Plan, Queued, Waiting};
use super::timers::Rank;
use super::{
    ACK_OCTETS, AfterDrop, AfterTimeout, Cause, Draw, Event, FRAME_MAX, FirstAccess, PhyRate, RTS_OCTETS, Retry,
    Timeout, Wifi,
};
use wavelane_base::{Ecn, Instant, Span};

/// Twice DSSS_MaxPropagationDelay of ns-2.
const NS2_PROPAGATION: Span = Span::from_micros(4);

impl Wifi {
    /// A frame joins the queue of a station, which begins to contend if it was idle.
    pub(super) fn enqueue(&mut self, station: usize, to: usize, bytes: &[u8], ecn: Ecn) {
        let cause = if bytes.len() > FRAME_MAX {
            Some(Cause::TooLong)
        } else if self.stations[station].queue.len() >= self.queue {
            Some(Cause::QueueFull)
        } else {
            None
        };
        if let Some(cause) = cause {
            self.stations[station].tally.refused += 1;
            self.report(Event::Dropped { at: self.now, from: station, to, cause, octets: bytes.len() });
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        let this = &mut self.stations[station];
        let number = this.next_number;
        this.next_number += 1;
        this.queue.push_back(Queued { to, number, ecn, bytes: copy });
        let contends = this.queue.len() > 1 || this.counter.is_some();
        let in_class = this.class.is_some_and(|class| this.joined && self.classes[class].ring.has(station));
        // A back-off left over from the frame before goes on; it is not begun again.
        if !contends && !in_class {
            self.leave(station);
            self.first_access(station);
            self.resume(station);
        }
    }
    fn first_access(&mut self, station: usize) {
        let now = self.now;
        self.freeze(station, now, true);
        if self.ears[station].is_taken(now) {
            self.stations[station].counter = Some(self.draw(station));
        } else if self.rules.first_access == FirstAccess::AfterDifs {
            self.stations[station].counter = Some(0);
            self.ears[station].hold = now;
        } else {
            self.stations[station].counter = Some(self.draw(station));
            self.ears[station].hold = now + self.difs;
        }
    }
    fn draw(&mut self, station: usize) -> u32 {
        let window = u64::from(self.stations[station].window);
        let range = match self.rules.draw {
            Draw::ZeroToCw => window + 1,
            Draw::BelowCw => window,
        };
        self.dice.below(range) as u32
    }

    /// Back-offs of an ear expire: all who have a frame send it.
    pub(super) fn access(&mut self, ear: usize) {
        match ear.checked_sub(self.stations.len()) {
            None => {
                self.stations[ear].counter = None;
                self.starting.push(ear);
            }
            Some(class) => {
                let ring = &mut self.classes[class].ring;
                if let Some(least) = ring.least() {
                    while let Some(station) = ring.pop(least) {
                        self.starting.push(station);
                    }
                }
            }
        }
        while let Some(station) = self.starting.pop() {
            if !self.stations[station].queue.is_empty() {
                self.start(station);
            }
        }
        self.arm(ear);
        if self.ears[ear].is_busy() {
            self.freeze(ear, self.now + self.hearing.window, false);
        }
    }

    /// Sends the first frame of the queue, or an RTS for it.
    fn start(&mut self, station: usize) {
        let Some(head) = self.stations[station].queue.front() else { return };
        let (to, octets) = (head.to, head.bytes.len() + self.rules.overhead);
        if octets <= self.rts_threshold {
            return self.send_data(station);
        }
        let cts = self.answer_to(self.rts_rate);
        let ack = self.answer_to(self.data_rate);
        let after =
            self.sifs.times(3) + cts.airtime(ACK_OCTETS) + self.data_rate.airtime(octets) + ack.airtime(ACK_OCTETS);
        let after = whole_microseconds(after);
        self.stations[station].tally.rts_sent += 1;
        let frame = OnAir { kind: Kind::Rts, to, octets: RTS_OCTETS, body: Instant::ZERO, after };
        self.send(station, frame, self.rts_rate);
    }
    fn send_data(&mut self, station: usize) {
        let Some(head) = self.stations[station].queue.front() else { return };
        let (to, octets) = (head.to, head.bytes.len() + self.rules.overhead);
        let after = self.sifs + self.answer_to(self.data_rate).airtime(ACK_OCTETS);
        self.stations[station].tally.data_sent += 1;
        self.send(station, OnAir { kind: Kind::Data, to, octets, body: Instant::ZERO, after }, self.data_rate);
    }
    /// The rate of the answer to a frame sent at `rate`.
    fn answer_to(&self, rate: PhyRate) -> PhyRate {
        self.answer_rate.unwrap_or_else(|| rate.answered_at(self.rules.basic))
    }

    /// The station's own frame has ended: what it waits for now.
    pub(super) fn sent(&mut self, station: usize, kind: Kind) {
        let (waiting, rate) = match kind {
            Kind::Rts => (Waiting::Cts, self.answer_to(self.rts_rate)),
            Kind::Data => (Waiting::Ack, self.answer_to(self.data_rate)),
            Kind::Cts | Kind::Ack => return,
        };
        let patience = match self.rules.timeout {
            Timeout::Preamble => self.sifs + self.slot + rate.preamble(),
            Timeout::Foreknown => self.sifs + self.slot,
            Timeout::WholeAnswer => self.sifs + rate.airtime(ACK_OCTETS) + NS2_PROPAGATION,
        };
        self.stations[station].waiting = waiting;
        self.plan(station, Plan::Timeout, patience);
    }
    fn plan(&mut self, station: usize, plan: Plan, after: Span) {
        self.stations[station].plan = plan;
        self.timers.set(station, self.now + after, Rank::Station);
    }

    /// The station's deadline has come.
    pub(super) fn act(&mut self, station: usize) {
        match core::mem::replace(&mut self.stations[station].plan, Plan::Nothing) {
            Plan::Nothing => {}
            Plan::End => self.finish(station),
            Plan::Ack { to } => self.answer(station, Kind::Ack, to, Span::ZERO, self.data_rate),
            Plan::Cts { to, after } => self.answer(station, Kind::Cts, to, after, self.rts_rate),
            Plan::Data => self.send_data(station),
            Plan::Timeout => {
                // Once a reception has begun the wait ends with it.
                let begun = match self.rules.timeout {
                    Timeout::Preamble => self.ears[station].is_receiving(self.now, self.data_rate.preamble()),
                    Timeout::Foreknown => self.ears[station].is_locked(),
                    Timeout::WholeAnswer => false,
                };
                if begun {
                    return;
                }
                self.fail(station);
                self.resume(station);
            }
        }
    }
    fn answer(&mut self, station: usize, kind: Kind, to: usize, after: Span, to_rate: PhyRate) {
        let frame = OnAir { kind, to, octets: ACK_OCTETS, body: Instant::ZERO, after };
        self.stations[station].tally.answers_sent += 1;
        self.send(station, frame, self.answer_to(to_rate));
    }

    /// A frame for this station has come in whole. True if it is the answer waited for.
    pub(super) fn receive(&mut self, station: usize, sender: usize, frame: &OnAir) -> bool {
        let this = &self.stations[station];
        let expected = this.queue.front().is_some_and(|head| head.to == sender);
        match frame.kind {
            Kind::Ack if this.waiting == Waiting::Ack && expected => {
                self.succeed(station);
                return true;
            }
            Kind::Cts if this.waiting == Waiting::Cts && expected => {
                self.stations[station].waiting = Waiting::Nothing;
                if let Retry::ShortLong { .. } = self.rules.retry {
                    self.stations[station].failures.short = 0;
                }
                self.plan(station, Plan::Data, self.sifs);
                return true;
            }
            Kind::Ack | Kind::Cts => return false,
            Kind::Rts | Kind::Data => {}
        }
        if this.waiting != Waiting::Nothing {
            self.fail(station);
        }
        if frame.kind == Kind::Data {
            self.deliver(station, sender);
            self.plan(station, Plan::Ack { to: sender }, self.sifs);
        } else if self.ears[station].nav <= self.now {
            let cts = self.answer_to(self.rts_rate).airtime(ACK_OCTETS);
            let after = frame.after.saturating_sub(self.sifs + cts);
            self.plan(station, Plan::Cts { to: sender, after }, self.sifs);
        }
        false
    }

    /// The first frame of the queue has been acknowledged.
    fn succeed(&mut self, station: usize) {
        let this = &mut self.stations[station];
        this.tally.acknowledged += 1;
        this.window = self.windows.0;
        this.in_a_row = 0;
        self.close(station, None);
        self.timers.clear(station);
        self.stations[station].counter = Some(self.draw(station));
    }
    /// The answer waited for has not come.
    pub(super) fn fail(&mut self, station: usize) {
        let hold = match self.rules.after_timeout {
            AfterTimeout::AtOnce => self.now,
            AfterTimeout::Difs => self.now + self.difs,
        };
        self.ears[station].hold = hold;
        let this = &mut self.stations[station];
        let long = this.queue.front().is_some_and(|head| head.bytes.len() + self.rules.overhead > self.rts_threshold);
        let of_data = this.waiting == Waiting::Ack;
        if of_data {
            this.tally.ack_missing += 1;
        } else {
            this.tally.cts_missing += 1;
        }
        let spent = match self.rules.retry {
            Retry::PerFrame(limit) => {
                this.failures.short += 1;
                this.failures.short >= limit
            }
            Retry::ShortLong { long: limit, .. } if of_data && long => {
                this.failures.long += 1;
                this.failures.long >= limit
            }
            Retry::ShortLong { short: limit, .. } => {
                this.failures.short += 1;
                this.failures.short >= limit
            }
        };
        let (least, most) = self.windows;
        this.window = match self.rules.after_drop {
            AfterDrop::Smallest if spent => least,
            AfterDrop::CountsOn(limit) if this.in_a_row >= limit => least,
            _ => (2 * this.window + 1).min(most),
        };
        this.in_a_row = match self.rules.after_drop {
            AfterDrop::CountsOn(limit) if this.in_a_row < limit => this.in_a_row + 1,
            _ => 0,
        };
        if spent {
            this.tally.given_up += 1;
            self.close(station, Some(Cause::RetryLimit));
        } else {
            this.waiting = Waiting::Nothing;
            this.plan = Plan::Nothing;
        }
        self.timers.clear(station);
        self.stations[station].counter = Some(self.draw(station));
    }
    /// Done with the first frame of the queue, for better or worse.
    fn close(&mut self, station: usize, cause: Option<Cause>) {
        let this = &mut self.stations[station];
        this.failures = Failures::default();
        this.waiting = Waiting::Nothing;
        this.plan = Plan::Nothing;
        let Some(head) = this.queue.pop_front() else { return };
        let (at, octets) = (self.now, head.bytes.len());
        self.report(match cause {
            None => Event::Acknowledged { at, from: station, to: head.to, octets },
            Some(cause) => Event::Dropped { at, from: station, to: head.to, cause, octets },
        });
        self.spare.push(head.bytes);
    }
}

/// A Duration field counts whole microseconds, rounded up (9.2.5.2).
fn whole_microseconds(span: Span) -> Span {
    Span::from_micros(span.as_nanos().div_ceil(1_000))
}
