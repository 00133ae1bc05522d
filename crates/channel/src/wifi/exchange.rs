//! The frame exchange once a station has gained the medium: RTS, CTS, data, ACK, and further frames of the TXOP.

use super::access::Ending;
use super::aggregate::answer_octets;
use super::station::{Kind, OnAir, Plan, Waiting};
use super::timers::Rank;
use super::{ACK_OCTETS, FecFrames, PhyRate, RTS_OCTETS, Retry, Timeout, Wifi};
use wavelane_base::{Instant, Span};

/// Twice DSSS_MaxPropagationDelay of ns-2.
const NS2_PROPAGATION: Span = Span::from_micros(4);

impl Wifi {
    /// Sends the first frame of a category, or an RTS for it.
    pub(super) fn start(&mut self, station: usize, turn: usize) {
        let index = station * self.kinds + turn;
        self.stations[station].turn = turn;
        self.stations[station].began = self.now;
        self.stations[station].txop_end = self.now + self.contenders[index].txop;
        self.look(station);
        self.compose(station, index);
        let Some(head) = self.contenders[index].queue.front() else { return };
        let to = head.to;
        if !self.follows_rts(station) || to == station {
            // With aggregates a block ACK serves as many frames: what was composed stays as it is.
            let guards = self.aggregate.is_none() && to != station;
            if let Some(head) = self.contenders[index].queue.front_mut().filter(|head| head.guarded && guards) {
                head.no_ack = !self.rules.acknowledges;
            }
            return self.send_data(station);
        }
        let after = self.sifs.times(2) + self.answer_time(self.rts_rate, ACK_OCTETS) + self.exchange_of(station, 0);
        let after = whole_microseconds(after);
        self.stations[station].tally.rts_sent += 1;
        let coded = self.codes_answers() && self.stations[station].coded;
        let frame = OnAir { kind: Kind::Rts, to, octets: RTS_OCTETS, after, coded, ..OnAir::NOTHING };
        self.send(station, frame, self.rts_rate);
    }
    fn send_data(&mut self, station: usize) {
        let index = self.turn_of(station);
        let Some(head) = self.contenders[index].queue.front_mut() else { return };
        let retry = core::mem::replace(&mut head.tried, true);
        let (to, no_ack, guarded) = (head.to, head.no_ack, head.guarded);
        let (octets, frames) = (self.psdu(station), self.stations[station].riding.max(1));
        let (rate, coded) = (self.rate_to(station, to), self.stations[station].coded && to != station);
        let ack = if no_ack { Span::ZERO } else { self.sifs + self.answer_time(rate, answer_octets(frames)) };
        let end = self.now + rate.airtime(self.on_air(octets, coded)) + ack;
        // The Duration field covers the next exchange of the TXOP as well (9.2.5.2, single protection).
        let covered = if guarded { usize::MAX } else { 1 };
        let after = ack + self.followed(station, end, covered);
        self.stations[station].tally.data_sent += u64::from(frames);
        self.contenders[index].tally.data_sent += u64::from(frames);
        let frame = OnAir { kind: Kind::Data, to, octets, frames, no_ack, coded, retry, after, ..OnAir::NOTHING };
        self.send(station, frame, rate);
    }
    /// The time for what follows the first frame of the queue after `end` in the same TXOP, at most `frames` of them.
    fn followed(&self, station: usize, end: Instant, frames: usize) -> Span {
        let (mut at, mut place) = (end, 1);
        while place <= frames && self.next_fits(station, place, at) {
            at += self.sifs + self.exchange_of(station, place);
            place += 1;
        }
        at.since(end)
    }
    /// The time for the data frame at `place` in the queue of the station's current contender, with its ACK.
    fn exchange_of(&self, station: usize, place: usize) -> Span {
        let Some(frame) = self.contenders[self.turn_of(station)].queue.get(place) else { return Span::ZERO };
        let rate = self.rate_to(station, frame.to);
        let coded = self.stations[station].coded && frame.to != station;
        let frames = self.stations[station].riding;
        let octets = if frames > 1 { self.psdu(station) } else { self.alone(station, frame) };
        let data = rate.airtime(self.on_air(octets, coded));
        if frame.no_ack { data } else { data + self.sifs + self.answer_time(rate, answer_octets(frames)) }
    }
    /// Decides whether the first data frame in the queue of the station's current contender is coded.
    pub(super) fn look(&mut self, station: usize) {
        if self.fec.is_none() {
            return;
        }
        let head = self.contenders[self.turn_of(station)].queue.front();
        let Some(to) = head.map(|head| head.to).filter(|to| *to != station) else { return };
        self.stations[station].coded = self.coding(station, to);
    }
    /// Whether a frame from `station` to `to` is coded if it starts now.
    fn coding(&mut self, station: usize, to: usize) -> bool {
        self.errors.as_mut().is_some_and(|errors| errors.coding(station, to, self.now))
    }
    /// Bytes on the air for a frame of `octets`.
    pub(super) fn on_air(&self, octets: usize, coded: bool) -> usize {
        self.fec.filter(|_| coded).map_or(octets, |fec| fec.code.coded(octets))
    }
    fn codes_answers(&self) -> bool {
        self.fec.is_some_and(|fec| fec.frames == FecFrames::All)
    }
    /// Maximum airtime of the response to a frame sent at `rate`.
    pub(super) fn answer_time(&self, rate: PhyRate, octets: usize) -> Span {
        self.answer_to(rate).airtime(self.on_air(octets, self.codes_answers()))
    }
    /// Whether the frame at `place` may follow at SIFS after `end` in the same TXOP.
    pub(super) fn next_fits(&self, station: usize, place: usize, end: Instant) -> bool {
        let this = &self.contenders[self.turn_of(station)];
        this.txop > Span::ZERO
            && self.aggregate.is_none()
            && this.queue.get(place).is_some_and(|frame| frame.txop)
            && end + self.sifs + self.exchange_of(station, place) <= self.stations[station].txop_end
    }
    /// The rate of unicast data frames in the current exchange, or the last one.
    pub(super) fn rate_chosen(&self, station: usize) -> PhyRate {
        self.stations[station].chosen.unwrap_or(self.data_rate)
    }
    /// The rate of data frames from `station` to `to`.
    pub(super) fn rate_to(&self, station: usize, to: usize) -> PhyRate {
        if to == station { self.broadcast_rate } else { self.rate_chosen(station) }
    }
    /// The expected rate of a frame from `station` to `to`: rate control's best.
    pub(super) fn usual_rate(&self, station: usize, to: usize) -> PhyRate {
        let Some(controls) = self.controls.as_deref().filter(|_| to != station) else {
            return if to == station { self.broadcast_rate } else { self.data_rate };
        };
        controls.best(station * self.stations.len() + to)
    }
    /// The rate of the response to a frame sent at `rate`.
    pub(super) fn answer_to(&self, rate: PhyRate) -> PhyRate {
        self.answer_rate.unwrap_or_else(|| rate.answered_at(self.rules.basic))
    }

    /// The station's own frame has ended: sets what it waits for.
    pub(super) fn sent(&mut self, station: usize, frame: &OnAir) {
        let (waiting, rate) = match frame.kind {
            Kind::Rts => (Waiting::Cts, self.answer_to(self.rts_rate)),
            Kind::Data if frame.no_ack => return self.succeed(station, Ending::Unanswered),
            Kind::Data => (Waiting::Ack, self.answer_to(self.rate_chosen(station))),
            Kind::Cts | Kind::Ack => return,
        };
        let patience = match self.rules.timeout {
            Timeout::Preamble => self.sifs + self.slot + rate.preamble(),
            Timeout::Foreknown => self.sifs + self.slot,
            Timeout::WholeAnswer => {
                self.sifs + rate.airtime(self.on_air(ACK_OCTETS, self.codes_answers())) + NS2_PROPAGATION
            }
        };
        self.stations[station].waiting = waiting;
        self.plan(station, Plan::Timeout, patience);
    }
    pub(super) fn plan(&mut self, station: usize, plan: Plan, after: Span) {
        self.stations[station].plan = plan;
        self.timers.set(station, self.now + after, Rank::Station);
    }

    /// The station's deadline expired.
    pub(super) fn act(&mut self, station: usize) {
        match core::mem::replace(&mut self.stations[station].plan, Plan::Nothing) {
            Plan::Nothing => {}
            Plan::End => self.finish(station),
            Plan::Ack { to, octets, after } => {
                self.answer(station, (Kind::Ack, octets), to, after, self.rate_chosen(to))
            }
            Plan::Cts { to, after } => self.answer(station, (Kind::Cts, ACK_OCTETS), to, after, self.rts_rate),
            Plan::Data => self.send_data(station),
            Plan::Timeout => {
                // Once a reception has begun, the wait lasts until its end.
                let begun = match self.rules.timeout {
                    Timeout::Preamble => self.ears[station].is_receiving(self.now, self.data_rate.start_delay()),
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
    fn answer(&mut self, station: usize, (kind, octets): (Kind, usize), to: usize, after: Span, to_rate: PhyRate) {
        let coded = self.codes_answers() && self.coding(station, to);
        let frame = OnAir { kind, to, octets, after, coded, ..OnAir::NOTHING };
        self.stations[station].tally.answers_sent += 1;
        self.send(station, frame, self.answer_to(to_rate));
    }

    /// A frame for this station was received. True if it is the awaited response.
    pub(super) fn receive(&mut self, station: usize, sender: usize, frame: &OnAir) -> bool {
        let this = &self.stations[station];
        let head = self.contenders[self.turn_of(station)].queue.front();
        let expected = head.is_some_and(|head| head.to == sender);
        match frame.kind {
            Kind::Ack if this.waiting == Waiting::Ack && expected => {
                self.succeed(station, Ending::Acknowledged);
                return true;
            }
            Kind::Cts if this.waiting == Waiting::Cts && expected => {
                self.stations[station].waiting = Waiting::Nothing;
                if let Retry::ShortLong { .. } = self.rules.retry {
                    let index = self.turn_of(station);
                    self.contenders[index].failures.short = 0;
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
            if self.stations[sender].riding > 0 {
                self.take_block(station, sender);
            } else {
                self.deliver(station, sender);
            }
            if !frame.no_ack {
                let octets = answer_octets(frame.frames);
                let after = frame.after.saturating_sub(self.sifs + self.answer_time(self.rate_chosen(sender), octets));
                self.plan(station, Plan::Ack { to: sender, octets, after }, self.sifs);
            }
        } else if self.ears[station].nav <= self.now {
            let after = frame.after.saturating_sub(self.sifs + self.answer_time(self.rts_rate, ACK_OCTETS));
            self.plan(station, Plan::Cts { to: sender, after }, self.sifs);
        }
        false
    }
}

/// A Duration field counts whole microseconds, rounded up (9.2.5.2).
fn whole_microseconds(span: Span) -> Span {
    Span::from_micros(span.as_nanos().div_ceil(1_000))
}
