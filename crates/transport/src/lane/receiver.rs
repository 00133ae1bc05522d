//! The receiving end of a lane: which packets arrived, and when to acknowledge them.

use std::collections::VecDeque;
use wavelane_base::{Ecn, Instant, Span, Wakeup};
use wavelane_wire::frame::{LaneAck, RANGES_MAX, Ranges};

/// Ranges kept; older ones are forgotten, and their packets count as never received.
const RANGES_KEPT: usize = RANGES_MAX;
/// Packets per ack unless the sender wishes otherwise.
const DEFAULT_PACKETS: u64 = 2;
/// Longest delay of an ack unless the sender wishes otherwise.
pub(super) const DEFAULT_DELAY: Span = Span::from_millis(5);
/// Longest delay a sender may wish for.
const DELAY_MAX: Span = Span::from_secs(1);
/// Most packets per ack a sender may wish for.
const PACKETS_MAX: u64 = 1024;
/// An ack that is urgent because of gaps or marks still keeps this share of the wished delay (as a divisor) from the one before.
const URGENT_SHARE: u64 = 4;
/// If acks are wished further apart than this, the return path is slow: there gaps are reported no sooner than the rest.
const THIN_DELAY: Span = Span::from_millis(80);
/// If acks are wished further apart than this, the return path is so thin that they ride with any datagram ...
pub(crate) const RIDING_DELAY: Span = Span::from_millis(25);
/// ... once this part of that time has passed since the last one.
const RIDING_PART: u64 = 4;
/// An ack repeats what arrived within this time, because earlier acks may be lost (a fade takes all of them at once) ...
const REPEATED: Span = Span::from_millis(200);
/// ... with this precision ...
const MARK_EVERY: Span = Span::from_millis(25);
/// ... and at least this many ranges.
const REPEATED_RANGES: usize = 4;
/// An ack that is due only by packet count waits at most this part of the round trip for data to ride with.
const PATIENT_PART: u64 = 8;

/// A stream of at least this many packets, each within [`PAUSE`] of the one before, is acknowledged once more when it pauses: the last ack
/// may be lost, or we may have moved unknowingly, and the sender would keep using the old address.
const STREAM_PACKETS: u32 = 16;
const PAUSE: Span = Span::from_millis(50);

/// Generates lane acks for one lane of the neighbour.
#[derive(Clone, Debug)]
pub struct LaneReceiver {
    lane: u8,
    /// Newest first, disjoint, not adjacent.
    ranges: VecDeque<(u64, u64)>,
    largest_at: Instant,
    ecn: [u64; 3],
    /// Eliciting packets since the last ack.
    pending: u64,
    /// When the ack must be sent at the latest.
    deadline: Option<Instant>,
    /// The deadline has passed and the ack was not yet taken.
    due: bool,
    /// The ack is due because of a gap or a mark, or at the sender's request.
    urgent: bool,
    /// Enough packets for an ack have arrived.
    counted: bool,
    last_ack: Option<Instant>,
    packets: u64,
    delay: Span,
    /// Eliciting packets in a row without a pause, and when the newest arrived.
    run: u32,
    run_at: Instant,
    /// When a pause ends a stream.
    pause_at: Option<Instant>,
    /// The largest number at times [`MARK_EVERY`] apart, over the last [`REPEATED`].
    marks: VecDeque<(Instant, u64)>,
    /// The lowest number that arrived since the last ack, and since the one before.
    lowest: [u64; 2],
}

impl LaneReceiver {
    /// A receiver for the neighbour's lane `lane`.
    pub fn new(lane: u8) -> Self {
        Self {
            lane,
            ranges: VecDeque::new(),
            largest_at: Instant::ZERO,
            ecn: [0; 3],
            pending: 0,
            deadline: None,
            due: false,
            urgent: false,
            counted: false,
            last_ack: None,
            packets: DEFAULT_PACKETS,
            delay: DEFAULT_DELAY,
            run: 0,
            run_at: Instant::ZERO,
            pause_at: None,
            marks: VecDeque::new(),
            lowest: [u64::MAX; 2],
        }
    }

    /// An authenticated packet arrived. `rx_time` is when the port received it; `eliciting` is whether any of its frames is; `ack_now`
    /// whether it carried an ack wish that says "now".
    pub fn received(&mut self, now: Instant, rx_time: Instant, number: u64, ecn: Ecn, eliciting: bool, ack_now: bool) {
        let before = self.ranges.front().map(|r| r.1);
        if !self.insert(number) {
            return;
        }
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ecn[0] += 1,
            Ecn::Ect1 => self.ecn[1] += 1,
            Ecn::Ce => self.ecn[2] += 1,
        }
        let newest = before.is_none_or(|largest| number > largest);
        if newest {
            self.largest_at = rx_time.min(now);
            self.mark(now, number);
        }
        self.lowest[0] = self.lowest[0].min(number);
        if !eliciting {
            return;
        }
        self.pending += 1;
        let pause = PAUSE.max(self.delay.times(2));
        self.run = if now.since(self.run_at) <= pause { self.run.saturating_add(1) } else { 1 };
        self.run_at = now;
        self.pause_at = (self.run >= STREAM_PACKETS).then_some(now + pause);
        let gap = before.is_some_and(|largest| number != largest + 1);
        if ack_now {
            self.due = true;
            self.urgent = true;
        } else if self.pending >= self.packets {
            self.due = true;
            self.counted = true;
        } else if gap || ecn == Ecn::Ce || before.is_none() {
            let apart = if self.delay > THIN_DELAY { self.delay } else { self.delay.scale(1, URGENT_SHARE) };
            let earliest = self.last_ack.map_or(now, |at| at + apart);
            self.urgent = true;
            self.ask_by(now, earliest);
        } else {
            self.ask_by(now, now + self.delay);
        }
    }

    fn mark(&mut self, now: Instant, largest: u64) {
        if self.marks.back().is_none_or(|mark| now.since(mark.0) >= MARK_EVERY) {
            self.marks.push_back((now, largest));
            // One older mark is kept as the state before the period.
            while self.marks.get(1).is_some_and(|mark| now.since(mark.0) > REPEATED) {
                self.marks.pop_front();
            }
        }
    }

    fn ask_by(&mut self, now: Instant, at: Instant) {
        if at <= now {
            self.due = true;
        } else {
            self.deadline = Some(self.deadline.map_or(at, |d| d.min(at)));
        }
    }

    /// Adds `number`; false if it was present already or is older than everything kept.
    fn insert(&mut self, number: u64) -> bool {
        let place = self.ranges.iter().position(|r| r.0 <= number.saturating_add(1));
        let Some(i) = place else {
            if self.ranges.len() >= RANGES_KEPT {
                return false;
            }
            self.ranges.push_back((number, number));
            return true;
        };
        let (first, last) = self.ranges[i];
        if (first..=last).contains(&number) {
            return false;
        }
        if number.checked_add(1) == Some(first) {
            self.ranges[i].0 = number;
            // It may close the gap to the next older range.
            if let Some(&(older_first, older_last)) = self.ranges.get(i + 1)
                && older_last.checked_add(1) == Some(number)
            {
                self.ranges[i].0 = older_first;
                self.ranges.remove(i + 1);
            }
        } else if last.checked_add(1) == Some(number) {
            self.ranges[i].1 = number;
        } else {
            self.ranges.insert(i, (number, number));
            self.ranges.truncate(RANGES_KEPT);
        }
        true
    }

    /// The sender wishes an ack at least every `packets` packets and every `delay`. Values are clamped.
    pub fn wish(&mut self, packets: u64, delay: Span) {
        self.packets = packets.clamp(1, PACKETS_MAX);
        self.delay = delay.clamp(Span::from_millis(1), DELAY_MAX);
    }

    /// The sender removed the lane; its next packet would have had the number `next`. Its wish is reset, unless the lane is back already.
    pub fn gone(&mut self, next: u64) {
        if self.ranges.front().is_none_or(|newest| newest.1 < next) {
            self.wish(DEFAULT_PACKETS, DEFAULT_DELAY);
        }
    }

    /// Time has passed. Harmless before the deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            self.due = true;
        }
        if self.pause_at.is_some_and(|at| at <= now) {
            self.pause_at = None;
            self.pending = self.pending.max(1);
            self.due = true;
        }
    }

    /// Whether an ack should be sent even if nothing else is.
    pub fn ack_due(&self, now: Instant) -> bool {
        self.due || self.deadline.is_some_and(|at| at <= now)
    }

    /// The longest ack delay that the sender wishes for.
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// Whether an ack rides with a datagram that is sent anyway, although it is not due: sent alone it would cost a thin path several times
    /// as much.
    pub fn rides(&self, now: Instant) -> bool {
        let since = |at| now.since(at) >= self.delay.scale(1, RIDING_PART);
        self.delay > RIDING_DELAY && self.pending > 0 && self.last_ack.is_none_or(since)
    }

    /// How long the ack may wait for a packet that is sent soon anyway: `longest` if only time has passed, and an eighth of the round trip
    /// if enough packets arrived.
    pub fn ack_patience(&self, longest: Span, rtt: Span) -> Span {
        match (self.urgent, self.counted) {
            (true, _) => Span::ZERO,
            (false, true) => longest.min(rtt.scale(1, PATIENT_PART)),
            (false, false) => longest,
        }
    }

    /// The ack to send now, newest ranges first and at most `ranges_max` of them, or `None` if nothing eliciting arrived since the last one
    /// and no stream has just paused. May be taken before it is due, if a packet is sent anyway.
    pub fn take_ack(&mut self, now: Instant, ranges_max: usize) -> Option<LaneAck> {
        if self.pending == 0 || ranges_max == 0 {
            return None;
        }
        self.pending = 0;
        self.due = false;
        self.urgent = false;
        self.counted = false;
        self.deadline = None;
        self.last_ack = Some(now);
        let lowest = self.lowest[0].min(self.lowest[1]).min(self.marks.front().map_or(0, |mark| mark.1));
        self.lowest = [u64::MAX, self.lowest[0]];
        let lately = self.ranges.iter().enumerate().take_while(|(i, r)| *i < REPEATED_RANGES || r.1 >= lowest);
        Some(LaneAck {
            lane: self.lane,
            ranges: Ranges(lately.take(ranges_max.min(RANGES_MAX)).map(|(_, r)| *r).collect()),
            ack_delay_us: now.since(self.largest_at).as_micros(),
            arrival_us: self.largest_at.as_micros(),
            ecn: self.ecn,
        })
    }

    /// When [`Self::handle_timeout`] has to be called.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        if self.due {
            return None;
        }
        let pause = self.pause_at.map(|at| Wakeup { at, cause: "a stream pauses" });
        Wakeup::earliest(self.deadline.map(|at| Wakeup { at, cause: "lane ack" }), pause)
    }
}
