//! A trial of whether loss follows our rate: time slots at a higher and at a lower rate, compared pair by pair.
//!
//! An event after a single rate change need not be caused by it: a fade that ends while the rate is lowered looks like congestion that
//! ended. So the two rates alternate, in an order that matches no trend and no period of the medium, until the pairs agree or clearly do
//! not.

use crate::lane::LARGE_MIN;
use crate::lane::control::PACKET;
use crate::lane::sent::Resolved;
use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// A slot lasts at least this long: a policer's bucket must run empty in it.
const SLOT_MIN: Span = Span::from_millis(200);
/// And at least half a round trip, up to this: the round trip may include a queue of acks that soon empties.
const SLOT_MAX: Span = Span::from_secs(1);
/// And as long as this many full packets take at the lower rate.
const SLOT_PACKETS: u64 = 12;
/// Most slots that await their packets' fates; a trial that needs more is undecided.
pub(super) const SLOTS_MAX: usize = 48;
/// Fewest pairs needed to find that loss does not follow our rate, unless it stays.
const PAIRS_MIN: u32 = 2;
/// For each pair that disagrees, this many more must agree before loss is attributed to us.
const AGREE_PER_ODD: u32 = 3;
/// A pair agrees if its difference is this share of the expected one.
const AGREE_SHARE: f64 = 0.25;
/// The higher rate after a pair that agreed, as a multiple of the lower one.
const HIGH_ENOUGH: (u64, u64) = (12, 10);
/// In a pair the higher rate must have been higher by at least this part of the planned difference.
const VOLUME_SHARE: f64 = 0.5;
/// The mean difference decides at this share of the expected one, once its standard deviation is below the other constant.
const DECIDE_SHARE: f64 = 0.5;
const DECIDE_SIGMA: f64 = 0.25;
/// The link is the limit if the queue responds to the higher rate with this part of the mean response of a full link.
const QUEUE_ANSWERS: f64 = 0.25;
/// Loss is attributed to us only if the difference exceeds chance by this many standard deviations.
const SIGMAS: f64 = 4.0;

/// One period of constant rate.
#[derive(Clone, Copy, Debug)]
struct Slot {
    from: Instant,
    until: Instant,
    high: bool,
    sent: Sent,
    /// Sum and number of the queueing delays of packets sent within it.
    queue: Span,
    seen: u64,
}

/// Packets sent whose fate is known. Shares are of bytes, because a policer lets small packets pass; their confidence follows from the
/// number of packets.
#[derive(Clone, Copy, Default, Debug)]
struct Sent {
    packets: u64,
    bytes: u64,
    lost_bytes: u64,
}

impl Sent {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost_bytes += other.lost_bytes;
    }
    fn lost_share(&self) -> f64 {
        self.lost_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// The result of the trial.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Verdict {
    /// Loss follows our rate.
    Ours {
        /// The rate that arrived while we sent at the higher rate.
        arrived: Rate,
        /// Share lost at the lower rate: the medium's, unless the lower rate was also above what the link carries.
        low: f64,
    },
    /// It does not; the share lost at the lower rate.
    Medium(f64),
    /// The application had less to send than the trial needs.
    Void,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Trial {
    /// The lower and the higher rate, as parts of the lane's.
    gains: [(u64, u64); 2],
    /// The expected difference between the shares of loss if loss is ours.
    expected: f64,
    /// How many pairs must agree.
    agree: u32,
    length: Span,
    /// Slots begun so far; determines the order.
    begun: u32,
    slots: VecDeque<Slot>,
    /// Sums over the pairs judged, at the lower and the higher rate.
    sums: [Sent; 2],
    high_span: Span,
    pairs: u32,
    odd: u32,
    /// Pairs in which the higher rate was not used.
    void: u32,
    /// Octets on the medium of the largest packet so far, at least [`LARGE_MIN`].
    largest: u64,
    /// Sums over the pairs of the mean queueing delay, at the lower and the higher rate.
    queues: [Span; 2],
}

impl Trial {
    /// Begins with the slot that contains `now`. `rate` is the lane's, and `gains` are parts of it.
    pub(super) fn new(now: Instant, rtt: Span, rate: Rate, gains: [(u64, u64); 2], expected: f64, agree: u32) -> Self {
        let lower = rate.scale(gains[0].0, gains[0].1);
        let packets = lower.time_for(Octets::new(SLOT_PACKETS * PACKET));
        let mut trial = Self {
            gains,
            expected,
            agree,
            length: rtt.scale(1, 2).clamp(SLOT_MIN, SLOT_MAX).max(packets),
            begun: 0,
            slots: VecDeque::new(),
            sums: [Sent::default(); 2],
            high_span: Span::ZERO,
            pairs: 0,
            odd: 0,
            void: 0,
            largest: u64::from(LARGE_MIN),
            queues: [Span::ZERO; 2],
        };
        trial.begin_slot(now);
        trial
    }

    fn begin_slot(&mut self, now: Instant) {
        // The Thue-Morse sequence: one slot of each pair is high, and no trend or period favours either.
        let high = self.begun.count_ones() % 2 == 1;
        self.begun += 1;
        self.slots.push_back(Slot {
            from: now,
            until: now + self.length,
            high,
            sent: Sent::default(),
            queue: Span::ZERO,
            seen: 0,
        });
    }

    /// Starts the next slot, if this one is over.
    pub(super) fn advance(&mut self, now: Instant) {
        if self.slots.len() < SLOTS_MAX && self.slots.back().is_none_or(|slot| now >= slot.until) {
            self.begin_slot(now);
        }
    }

    /// The part of the lane's rate at which to send now.
    pub(super) fn gain(&self) -> (u64, u64) {
        self.gains[usize::from(self.slots.back().is_some_and(|slot| slot.high))]
    }

    /// A packet's fate became known.
    pub(super) fn resolved(&mut self, packet: &Resolved) {
        let slot = self.slots.iter_mut().rev().find(|slot| packet.sent_at >= slot.from);
        if let Some(slot) = slot.filter(|slot| packet.sent_at < slot.until) {
            let bytes = u64::from(packet.bytes);
            // Packets smaller than half a full one say little, and a full one is as large as the path MTU lets it be.
            self.largest = self.largest.max(bytes);
            slot.sent.packets += u64::from(2 * bytes >= self.largest);
            slot.sent.bytes += bytes;
            slot.sent.lost_bytes += if packet.lost { bytes } else { 0 };
        }
    }

    /// Judges the pairs whose packets' fates are known: all sent until `settled`. `queue` is the queueing delay of a packet sent at `sent`.
    pub(super) fn judge(&mut self, settled: Instant, sent: Instant, queue: Span) -> Option<Verdict> {
        if let Some(slot) = self.slots.iter_mut().rev().find(|slot| sent >= slot.from && sent < slot.until) {
            slot.queue += queue;
            slot.seen += 1;
        }
        while let (Some(first), Some(second)) = (self.slots.front().copied(), self.slots.get(1).copied())
            && settled >= second.until
        {
            self.slots.drain(..2);
            self.add_pair(if first.high { [second, first] } else { [first, second] });
            if let Some(verdict) = self.verdict() {
                return Some(verdict);
            }
        }
        None
    }

    fn add_pair(&mut self, pair: [Slot; 2]) {
        // A slot in which the application sent less than the rate allows proves nothing.
        let [low, high] = pair.map(|slot| slot.sent);
        let wanted = (self.gains[1].0 * self.gains[0].1) as f64 / (self.gains[1].1 * self.gains[0].0) as f64;
        if (high.bytes as f64 / low.bytes.max(1) as f64) - 1.0 < VOLUME_SHARE * (wanted - 1.0) {
            self.void += 1;
            return;
        }
        self.pairs += 1;
        let odd = high.lost_share() - low.lost_share() < AGREE_SHARE * self.expected(&low, &high);
        self.odd += u32::from(odd);
        if !odd {
            // From here on a rate slightly above the lower one proves as much, and loses less.
            let less = (self.gains[0].0 * HIGH_ENOUGH.0, self.gains[0].1 * HIGH_ENOUGH.1);
            if less.0 * self.gains[1].1 < self.gains[1].0 * less.1 {
                self.gains[1] = less;
            }
        }
        self.sums[0].add(&low);
        self.sums[1].add(&high);
        for (sum, slot) in self.queues.iter_mut().zip(&pair) {
            *sum += slot.queue.scale(1, slot.seen.max(1));
        }
        self.high_span += pair[1].until.since(pair[1].from);
    }

    /// The difference between the shares if loss is ours: the expected one, or, if even the lower rate is above what the link carries, the
    /// additional loss.
    fn expected(&self, low: &Sent, high: &Sent) -> f64 {
        let ratio = high.bytes as f64 / low.bytes.max(1) as f64;
        self.expected.min((1.0 - high.lost_share()) * (ratio - 1.0))
    }

    fn verdict(&self) -> Option<Verdict> {
        if self.void > self.agree {
            return Some(Verdict::Void);
        }
        let [low, high] = &self.sums;
        if low.packets == 0 || high.packets == 0 {
            return None;
        }
        let both = (low.lost_bytes + high.lost_bytes) as f64 / (low.bytes + high.bytes) as f64;
        let likely = both.max(0.5 / high.packets as f64);
        let spread = |n: u64| likely * (1.0 - likely) / n as f64;
        let sigma = (spread(low.packets) + spread(high.packets)).sqrt();
        let difference = high.lost_share() - low.lost_share();
        let expected = self.expected(low, high);
        let agreed = self.pairs - self.odd >= self.agree + AGREE_PER_ODD * self.odd;
        let certain = difference >= SIGMAS * sigma && difference >= DECIDE_SHARE * expected;
        // If the queue responds, the link is the limit, and its drops are not a policer's.
        let answer = self.queues[1].saturating_sub(self.queues[0]).as_secs_f64();
        let ratio = high.bytes as f64 / low.bytes.max(1) as f64;
        let limited = answer > QUEUE_ANSWERS * (ratio - 1.0) * 0.5 * self.high_span.as_secs_f64();
        if agreed && certain && !limited {
            let arrived = Rate::of(Octets::new(high.bytes - high.lost_bytes), self.high_span);
            return Some(Verdict::Ours { arrived, low: low.lost_share() });
        }
        // After a lower rate a policer's bucket lets more pass: without lasting loss, one pair is not enough.
        let stayed = low.lost_share() >= DECIDE_SHARE * expected;
        let told = sigma <= DECIDE_SIGMA * expected && (self.pairs >= PAIRS_MIN || stayed);
        let unlike = told && difference < DECIDE_SHARE * expected;
        let exhausted = self.pairs >= 6 * self.agree;
        (unlike || exhausted).then_some(Verdict::Medium(low.lost_share()))
    }
}
