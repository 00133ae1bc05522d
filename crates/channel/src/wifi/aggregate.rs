//! Several data frames in one transmission (A-MPDU, 9.7) and the block acknowledgement that answers them (10.24).
//!
//! Every frame of the aggregate is received, acknowledged and retried individually. The receiver delivers frames of one
//! sender and category in order: frames after a missing one are held until it arrives or is given up.

use super::access::Ending;
use super::station::{OnAir, Queued};
use super::{ACK_OCTETS, AGGREGATE_OCTETS_VHT, Phy, RTS_OCTETS, Retry, Wifi};
use std::sync::Arc;
use wavelane_base::{Instant, Span};

/// Size limits of an aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregate {
    /// Most frames.
    pub frames: u8,
    /// Most bytes, including delimiters and padding.
    pub octets: usize,
}

/// Most frames of an aggregate, and of the window of a compressed block acknowledgement (9.3.1.9.3).
pub const AGGREGATE_FRAMES: u8 = 64;
/// The largest aggregate that an HT station can announce to receive (9.4.2.56.3).
pub const AGGREGATE_OCTETS: usize = 65_535;
/// The smallest that it can.
pub const AGGREGATE_OCTETS_MIN: usize = 8_191;
/// aPPDUMaxTime of HT-mixed format (Table 19-25) and of VHT (Table 21-29).
const TIME_MAX: Span = Span::from_micros(5_484);
/// Most frames taken out of a shared managed queue for sorting by receiver: two full aggregates, as drivers hold.
const SORTED: usize = 2 * AGGREGATE_FRAMES as usize;
/// Size of the delimiter before each frame of an aggregate, and the alignment to which all frames but the last are padded
/// (9.7.1).
const DELIMITER: usize = 4;
/// A compressed block acknowledgement: control, duration, two addresses, BA control, starting sequence, bitmap, FCS.
pub const BLOCK_ACK_OCTETS: usize = 32;

impl Aggregate {
    /// The most that a compressed block acknowledgement can cover.
    pub const LARGEST: Self = Self { frames: AGGREGATE_FRAMES, octets: AGGREGATE_OCTETS };
    /// The same for 802.11ac.
    pub const LARGEST_VHT: Self = Self { frames: AGGREGATE_FRAMES, octets: AGGREGATE_OCTETS_VHT };

    /// The largest of a physical layer.
    pub const fn largest(phy: Phy) -> Self {
        if let Phy::Vht { .. } = phy { Self::LARGEST_VHT } else { Self::LARGEST }
    }
}

/// Bytes before a frame sent alone: VHT sends it as an aggregate of one (10.13.7, S-MPDU).
pub(super) const fn lone_octets(phy: Phy) -> usize {
    if let Phy::Vht { .. } = phy { DELIMITER } else { 0 }
}

/// Bytes of the response to a transmission of `frames` frames.
pub(super) const fn answer_octets(frames: u8) -> usize {
    if frames > 1 { BLOCK_ACK_OCTETS } else { ACK_OCTETS }
}

/// The length of an aggregate after adding a frame.
const fn grown(length: usize, frame: usize) -> usize {
    length.next_multiple_of(DELIMITER) + DELIMITER + frame
}

/// An aggregate is guarded if it is this many times as long as RTS and CTS: they are an eighth of it then, at most. Policy.
const WORTH_AN_RTS: u64 = 8;

impl Wifi {
    /// Selects the frames of the category's next transmission: the first of its queue, and as many later ones for the same
    /// station as fit. Frames without acknowledgement are sent alone, unmarked.
    pub(super) fn compose(&mut self, station: usize, index: usize) {
        let Some(limit) = self.aggregate else { return };
        let sample = self.choose_rate(station, index);
        let Some(head) = self.contenders[index].queue.front() else { return };
        let rate = self.rate_chosen(station);
        if head.no_ack {
            return;
        }
        let (to, overhead, txop) = (head.to, self.overhead, self.contenders[index].txop);
        let answer = self.sifs + self.answer_to(rate).airtime(BLOCK_ACK_OCTETS);
        let longest = if txop > Span::ZERO { TIME_MAX.min(txop.saturating_sub(answer)) } else { TIME_MAX };
        let held = self.contenders[index].held.iter().filter(|frame| frame.to == to).count();
        // The window of the block acknowledgement begins with the oldest frame that is missing.
        let most = usize::from(if sample { 1 } else { limit.frames })
            .min(usize::from(AGGREGATE_FRAMES).saturating_sub(held))
            .max(1);
        let fits =
            |frames: usize, length: usize| frames <= most && length <= limit.octets && rate.airtime(length) <= longest;
        self.gather(station, index, to, fits);
        let this = &mut self.contenders[index];
        let (mut length, mut frames) = (0, 0);
        // Frames without acknowledgement keep their position among the others.
        let until_alone =
            this.queue.iter_mut().take_while(|frame| !frame.no_ack || frame.to != to && frame.to != station);
        for frame in until_alone.filter(|frame| frame.to == to && !frame.no_ack) {
            let next = grown(length, frame.bytes.len() + overhead);
            if frames > 0 && !fits(frames + 1, next) {
                break;
            }
            length = next;
            frames += 1;
            frame.riding = true;
            frame.intact = true;
        }
        self.stations[station].riding = frames as u8;
    }
    /// Takes frames out of a managed queue while they fit the aggregate for `to`, assuming the next frame to be as long as
    /// the last, and while there is room to sort. With a ring behind it, the aggregate is formed from the ring.
    fn gather(&mut self, station: usize, index: usize, to: usize, fits: impl Fn(usize, usize) -> bool) {
        if self.contenders[index].stage.as_ref().is_none_or(|stage| stage.has_ring()) {
            return;
        }
        let overhead = self.overhead;
        let add = |(frames, length, _): (usize, usize, usize), frame: &Queued| {
            let octets = frame.bytes.len() + overhead;
            (frames + 1, grown(length, octets), octets)
        };
        let mine = self.contenders[index].queue.iter().filter(|frame| frame.to == to);
        let mut so_far = mine.fold((0, 0, 0), add);
        while fits(so_far.0 + 1, grown(so_far.1, so_far.2)) && self.contenders[index].queue.len() < SORTED {
            if !self.pull(station, index, Some(to)) {
                return;
            }
            if let Some(frame) = self.contenders[index].queue.back().filter(|frame| frame.to == to) {
                so_far = add(so_far, frame);
            }
        }
    }
    /// Lets rate control, if any, choose the rate of the next transmission; returns whether it is a sample.
    fn choose_rate(&mut self, station: usize, index: usize) -> bool {
        let Some(controls) = &mut self.controls else { return false };
        let Some(head) = self.contenders[index].queue.front().filter(|head| head.to != station) else { return false };
        let control = &mut controls.of[station * self.stations.len() + head.to];
        control.update(self.now, controls.fixed, &controls.frames);
        let (rate, sample) = control.choose(head.tries, &mut controls.dice);
        self.stations[station].chosen = Some(controls.rates[rate]);
        sample && !head.no_ack
    }
    /// Reports the result of the exchange to rate control.
    fn note_rate(&mut self, station: usize, to: usize, frames: u64, successes: u64) {
        let stations = self.stations.len();
        let (Some(controls), Some(chosen)) = (&mut self.controls, self.stations[station].chosen) else { return };
        if let Some(rate) = controls.rates.iter().position(|rate| *rate == chosen) {
            controls.of[station * stations + to].note(rate, frames, successes);
        }
    }
    /// Bytes of a frame sent alone. Broadcast frames are in 802.11a format.
    pub(super) fn alone(&self, station: usize, frame: &Queued) -> usize {
        frame.bytes.len() + self.overhead + if frame.to == station { 0 } else { self.lone }
    }
    /// Bytes of the next transmission of the station's current contender: the aggregate, or the single frame.
    pub(super) fn psdu(&self, station: usize) -> usize {
        let this = &self.contenders[self.turn_of(station)];
        match self.stations[station].riding {
            0 | 1 => this.queue.front().map_or(0, |head| self.alone(station, head)),
            _ => this.riders().fold(0, |length, frame| grown(length, frame.bytes.len() + self.overhead)),
        }
    }
    /// Whether an RTS goes before the transmission that was composed.
    pub(super) fn follows_rts(&self, station: usize) -> bool {
        self.psdu(station) > self.rts_threshold || self.is_guarded(station)
    }
    /// Whether it is a guarded aggregate that is worth an RTS.
    pub(super) fn is_guarded(&self, station: usize) -> bool {
        let Some(rider) = self.contenders[self.turn_of(station)].riders().find(|frame| frame.guarded) else {
            return false;
        };
        let data = self.rate_to(station, rider.to).airtime(self.psdu(station));
        self.stations[station].riding > 1 && data >= self.worth_an_rts
    }
    /// How long the data lasts that a handshake is worth.
    pub(super) fn worth_an_rts(&self) -> Span {
        let answer = self.answer_time(self.rts_rate, ACK_OCTETS);
        (self.rts_rate.airtime(RTS_OCTETS) + answer + self.sifs.times(2)).times(WORTH_AN_RTS)
    }
    /// Whether an ear receives any part of an aggregate without collision. For its receiver each frame is evaluated and
    /// marked; for others one intact frame suffices.
    pub(super) fn hears_part(&mut self, ear: usize, sender: usize, frame: &OnAir) -> bool {
        let index = self.turn_of(sender);
        let (whole, overhead) = (self.now.since(frame.body), self.overhead);
        let (mut offset, mut any) = (0, false);
        for place in 0..self.contenders[index].queue.len() {
            let rider = &self.contenders[index].queue[place];
            if !rider.riding {
                continue;
            }
            let (begin, octets) = (offset, rider.bytes.len() + overhead);
            offset = grown(offset, octets);
            let at = |octets: usize| frame.body + whole.scale(octets as u64, frame.octets as u64);
            let span: (Instant, Instant) = (at(begin), at(offset.min(frame.octets)));
            let spared = self.survives(sender, ear, (octets, false), span);
            any |= spared;
            if ear == frame.to {
                self.contenders[index].queue[place].intact = spared;
                self.stations[ear].tally.note_errors(false, spared);
            } else if any {
                return true;
            }
        }
        any
    }
    /// The receiver has heard a transmission of `sender`: records the intact frames, and delivers those in order.
    pub(super) fn take_block(&mut self, station: usize, sender: usize) {
        let index = self.turn_of(sender);
        let Self { contenders, stations, .. } = self;
        let contender = &mut contenders[index];
        for frame in contender.queue.iter_mut().filter(|frame| frame.riding && frame.intact) {
            let tally = &mut stations[station].tally;
            if frame.arrived {
                tally.duplicates += 1;
                continue;
            }
            frame.arrived = true;
            tally.received += 1;
            tally.received_octets += frame.bytes.len() as u64;
            contender.tally.delivered += 1;
            contender.tally.delivered_octets += frame.bytes.len() as u64;
        }
        self.hand_out(station, sender, index);
    }
    /// Delivers, in order, the held frames of a contender before the first missing one.
    pub(super) fn hand_out(&mut self, station: usize, sender: usize, index: usize) {
        let missing = self.contenders[index].queue.iter().find(|frame| frame.to == station && !frame.arrived);
        let end = missing.map_or(u64::MAX, |frame| frame.number);
        let mut place = 0;
        loop {
            let this = &self.contenders[index];
            let waits = |frame: &Queued| frame.to == station && frame.arrived && !frame.handed;
            while this.queue.get(place).is_some_and(|frame| !waits(frame)) {
                place += 1;
            }
            let held = this.held.iter().position(|frame| frame.to == station && frame.number < end);
            let queued = this.queue.get(place).filter(|frame| frame.number < end);
            match (held, queued) {
                (Some(at), queued) if queued.is_none_or(|frame| this.held[at].number < frame.number) => {
                    let Some(frame) = self.contenders[index].held.remove(at) else { return };
                    self.put_ready(station, sender, frame.ecn, frame.bytes);
                }
                (_, Some(_)) => {
                    let frame = &mut self.contenders[index].queue[place];
                    frame.handed = true;
                    let (ecn, bytes) = (frame.ecn, Arc::clone(&frame.bytes));
                    self.put_ready(station, sender, ecn, bytes);
                }
                _ => return,
            }
        }
    }
    /// Keeps an acknowledged frame for its receiver, among others of its contender by number.
    pub(super) fn hold_back(&mut self, index: usize, frame: Queued) {
        let held = &mut self.contenders[index].held;
        let place = held.iter().rposition(|other| other.number < frame.number).map_or(0, |before| before + 1);
        held.insert(place, frame);
    }
    /// The response to a transmission of acknowledged frames has arrived (`answered`) or not: each frame is completed, or
    /// kept for a retry. Returns whether the first of them was given up.
    pub(super) fn settle(&mut self, station: usize, answered: bool) -> bool {
        let index = self.turn_of(station);
        let limit = match self.rules.retry {
            Retry::PerFrame(limit) => limit,
            Retry::ShortLong { long, .. } if self.follows_rts(station) => long,
            Retry::ShortLong { short, .. } => short,
        };
        let (mut first, mut gave_up) = (true, false);
        let (mut place, mut receiver, mut frames, mut successes) = (0, station, 0, 0);
        while place < self.contenders[index].queue.len() {
            let frame = &mut self.contenders[index].queue[place];
            if !core::mem::replace(&mut frame.riding, false) {
                place += 1;
                continue;
            }
            let done = answered && frame.arrived;
            receiver = frame.to;
            frames += 1;
            successes += u64::from(done);
            frame.tries += u32::from(!done);
            let spent = !done && frame.tries >= limit;
            gave_up |= spent && first;
            first = false;
            if done || spent {
                self.close(station, index, place, if done { Ending::Acknowledged } else { Ending::GivenUp });
            } else {
                place += 1;
            }
        }
        self.stations[station].riding = 0;
        self.note_rate(station, receiver, frames, successes);
        gave_up
    }
    /// The selected transmission is cancelled.
    pub(super) fn dissolve(&mut self, station: usize) {
        let index = self.turn_of(station);
        self.contenders[index].queue.iter_mut().for_each(|frame| frame.riding = false);
        self.stations[station].riding = 0;
    }
}
