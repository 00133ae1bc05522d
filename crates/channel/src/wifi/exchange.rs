//! The exchange of frames once a station has the medium: RTS, CTS, data, ACK, and what follows within a TXOP.

use super::access::Ending;
use super::station::{Kind, OnAir, Plan, Waiting};
use super::timers::Rank;
use super::{ACK_OCTETS, PhyRate, RTS_OCTETS, Retry, Timeout, Wifi};
use wavelane_base::{Instant, Span};

/// Twice DSSS_MaxPropagationDelay of ns-2.
const NS2_PROPAGATION: Span = Span::from_micros(4);

impl Wifi {
    /// Sends the first frame of a category, or an RTS for it.
    pub(super) fn start(&mut self, station: usize, turn: usize) {
        let index = station * self.kinds + turn;
        self.stations[station].turn = turn;
        self.stations[station].txop_end = self.now + self.contenders[index].txop;
        let Some(head) = self.contenders[index].queue.front() else { return };
        let (to, octets) = (head.to, head.bytes.len() + self.overhead);
        if octets <= self.rts_threshold || to == station {
            return self.send_data(station);
        }
        let cts = self.answer_to(self.rts_rate);
        let after = self.sifs.times(2) + cts.airtime(ACK_OCTETS) + self.exchange_of(station, 0);
        let after = whole_microseconds(after);
        self.stations[station].tally.rts_sent += 1;
        let frame = OnAir { kind: Kind::Rts, to, octets: RTS_OCTETS, after, ..OnAir::NOTHING };
        self.send(station, frame, self.rts_rate);
    }
    fn send_data(&mut self, station: usize) {
        let Some(head) = self.contenders[self.turn_of(station)].queue.front() else { return };
        let (to, octets, no_ack) = (head.to, head.bytes.len() + self.overhead, head.no_ack);
        let rate = self.rate_to(station, to);
        let ack = if no_ack { Span::ZERO } else { self.sifs + self.answer_to(rate).airtime(ACK_OCTETS) };
        let end = self.now + rate.airtime(octets) + ack;
        // The Duration field covers the next exchange of the TXOP as well (9.2.5.2, single protection).
        let after = if self.next_fits(station, 1, end) { ack + self.sifs + self.exchange_of(station, 1) } else { ack };
        self.stations[station].tally.data_sent += 1;
        self.send(station, OnAir { kind: Kind::Data, to, octets, no_ack, after, ..OnAir::NOTHING }, rate);
    }
    /// How long the data frame at `place` in the queue of the station's turn takes, with its ACK.
    fn exchange_of(&self, station: usize, place: usize) -> Span {
        let Some(frame) = self.contenders[self.turn_of(station)].queue.get(place) else { return Span::ZERO };
        let rate = self.rate_to(station, frame.to);
        let data = rate.airtime(frame.bytes.len() + self.overhead);
        if frame.no_ack { data } else { data + self.sifs + self.answer_to(rate).airtime(ACK_OCTETS) }
    }
    /// Whether the frame at `place` may follow at SIFS after `end` in the same TXOP.
    pub(super) fn next_fits(&self, station: usize, place: usize, end: Instant) -> bool {
        let this = &self.contenders[self.turn_of(station)];
        this.txop > Span::ZERO
            && this.queue.get(place).is_some_and(|frame| frame.txop)
            && end + self.sifs + self.exchange_of(station, place) <= self.stations[station].txop_end
    }
    /// The rate of data frames of `station` to `to`.
    fn rate_to(&self, station: usize, to: usize) -> PhyRate {
        if to == station { self.broadcast_rate } else { self.data_rate }
    }
    /// The rate of the answer to a frame sent at `rate`.
    fn answer_to(&self, rate: PhyRate) -> PhyRate {
        self.answer_rate.unwrap_or_else(|| rate.answered_at(self.rules.basic))
    }

    /// The station's own frame has ended: what it waits for now.
    pub(super) fn sent(&mut self, station: usize, frame: &OnAir) {
        let (waiting, rate) = match frame.kind {
            Kind::Rts => (Waiting::Cts, self.answer_to(self.rts_rate)),
            Kind::Data if frame.no_ack => return self.succeed(station, Ending::Unanswered),
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
    pub(super) fn plan(&mut self, station: usize, plan: Plan, after: Span) {
        self.stations[station].plan = plan;
        self.timers.set(station, self.now + after, Rank::Station);
    }

    /// The station's deadline has come.
    pub(super) fn act(&mut self, station: usize) {
        match core::mem::replace(&mut self.stations[station].plan, Plan::Nothing) {
            Plan::Nothing => {}
            Plan::End => self.finish(station),
            Plan::Ack { to, after } => self.answer(station, Kind::Ack, to, after, self.data_rate),
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
        let frame = OnAir { kind, to, octets: ACK_OCTETS, after, ..OnAir::NOTHING };
        self.stations[station].tally.answers_sent += 1;
        self.send(station, frame, self.answer_to(to_rate));
    }

    /// A frame for this station has come in whole. True if it is the answer waited for.
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
            self.deliver(station, sender);
            if !frame.no_ack {
                let ack = self.answer_to(self.data_rate).airtime(ACK_OCTETS);
                let after = frame.after.saturating_sub(self.sifs + ack);
                self.plan(station, Plan::Ack { to: sender, after }, self.sifs);
            }
        } else if self.ears[station].nav <= self.now {
            let cts = self.answer_to(self.rts_rate).airtime(ACK_OCTETS);
            let after = frame.after.saturating_sub(self.sifs + cts);
            self.plan(station, Plan::Cts { to: sender, after }, self.sifs);
        }
        false
    }
}

/// A Duration field counts whole microseconds, rounded up (9.2.5.2).
fn whole_microseconds(span: Span) -> Span {
    Span::from_micros(span.as_nanos().div_ceil(1_000))
}
