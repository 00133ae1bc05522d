//! How often the peer should acknowledge: so often that an ack tells something new, and rarer while acks queue on their way
//! back.

use super::receiver::DEFAULT_DELAY;
use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// Acks are thought to queue when all of this many in a row were late.
const LATE_RUN: usize = 8;
/// By more than this, and more than a quarter of the round trip.
const LATE: Span = Span::from_millis(30);
/// Late by this much at the start, the acks are thinned to a third at once.
const VERY_LATE: Span = Span::from_millis(120);
const PACKETS: u64 = 2;
const PACKET: u64 = 1500;
const PACKETS_MAX: u64 = 128;
/// As many packets share an ack as the lane carries in this time: an ack per two packets of 250 Mbit/s would be 6 Mbit/s, more
/// than many an asymmetric link has for the way back. Rarer acks show the queue under jitter too late.
const APART: Span = Span::from_millis(1);
/// And in this part of a round trip, for the window holds no more than one.
const APART_RTT_PART: u64 = 16;
const DELAY_MAX: Span = Span::from_millis(80);
/// Acks that are late by the same, within this share or [`SAME`], though so many wishes thinned them, do not queue: a
/// queue would have grown or shrunk. The way back has become longer.
const SAME_SHARE: (u64, u64) = (1, 16);
const SAME: Span = Span::from_millis(2);
const SAME_WISHES: u32 = 2;
/// The lowest delay of the way back is looked for this far back, so that drift does not add up.
const LOWEST_WINDOW: Span = Span::from_secs(30);

/// The current wish.
#[derive(Debug)]
pub(super) struct Wish {
    packets: u64,
    /// What the lane's pace alone asks for, a power of two.
    by_pace: u64,
    delay: Span,
    unsent: bool,
    changed: Instant,
    recent: VecDeque<i64>,
    /// Lowest of this window and of the one before.
    lowest: [Option<i64>; 2],
    window_start: Instant,
    /// How late acks were at the last change, and how many changes made no difference.
    late: Span,
    useless: u32,
}

impl Wish {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            packets: PACKETS,
            by_pace: PACKETS,
            delay: DEFAULT_DELAY,
            unsent: false,
            changed: now,
            recent: VecDeque::new(),
            lowest: [None; 2],
            window_start: now,
            late: Span::ZERO,
            useless: 0,
        }
    }

    /// One ack took `back_ns`, of unknown origin, to come back.
    pub(super) fn sample(&mut self, now: Instant, rtt: Span, back_ns: i64) {
        if now.since(self.window_start) > LOWEST_WINDOW {
            self.lowest = [None, self.lowest[0]];
            self.window_start = now;
        }
        self.lowest[0] = Some(self.lowest[0].map_or(back_ns, |l| l.min(back_ns)));
        self.recent.push_back(back_ns);
        if self.recent.len() > LATE_RUN {
            self.recent.pop_front();
        }
        let lowest = self.lowest.iter().flatten().min().copied().unwrap_or(back_ns);
        let least = self.recent.iter().min().copied().unwrap_or(back_ns);
        let late = Span::from_nanos((least - lowest).max(0) as u64);
        let may = self.packets < PACKETS_MAX && now.since(self.changed) > rtt;
        if self.recent.len() == LATE_RUN && may && late > LATE.max(rtt.scale(1, 4)) {
            let moved = late.max(self.late).saturating_sub(late.min(self.late));
            self.useless = if moved <= SAME.max(late.scale(SAME_SHARE.0, SAME_SHARE.1)) { self.useless + 1 } else { 0 };
            self.late = late;
            if self.useless >= SAME_WISHES {
                *self = Self { unsent: true, lowest: [Some(least), None], ..Self::new(now) };
                return;
            }
            // The start feeds a thin way back far past the mark, and every further step would take a round trip as long as
            // the queue. Later such jumps overshoot: acks too rare cost rate.
            let steps = if late > VERY_LATE && self.packets == PACKETS { 3 } else { 2 };
            self.packets = (self.packets * steps).min(PACKETS_MAX);
            self.delay = self.delay.times(steps).min(DELAY_MAX);
            self.changed = now;
            self.unsent = true;
            self.recent.clear();
        }
    }

    /// The lane sends at this pace.
    pub(super) fn pace(&mut self, pacing: Rate, rtt_min: Span) {
        let apart = APART.min(rtt_min.scale(1, APART_RTT_PART));
        let packets = (pacing.octets_in(apart).get() / PACKET).clamp(PACKETS, PACKETS_MAX);
        // Told anew only when it is twice or less than half of what was told.
        if packets >= 2 * self.by_pace || packets < self.by_pace {
            let by_pace = 1 << packets.ilog2();
            self.unsent |= by_pace.max(self.packets) != self.by_pace.max(self.packets);
            self.by_pace = by_pace;
        }
    }
    /// The neighbour moved: the way back is another one. Who was told to acknowledge rarely still does, so it is told anew.
    pub(super) fn path_changed(&mut self, now: Instant) {
        let fresh = Self::new(now);
        *self = Self { unsent: self.unsent || self.told() != fresh.told(), ..fresh };
    }
    fn told(&self) -> (u64, Span) {
        (self.packets.max(self.by_pace), self.delay)
    }
    /// How far apart acks of a lane of this rate are because they queued on their way back; those that its pace made rare are
    /// [`APART`], which is next to nothing.
    pub(super) fn apart(&self, rate: Rate) -> Span {
        rate.time_for(Octets::new(self.packets * PACKET)).min(self.delay)
    }
    /// What to tell the peer, if it does not know.
    pub(super) fn pending(&self) -> Option<(u64, Span)> {
        self.unsent.then(|| self.told())
    }
    /// The frame left.
    pub(super) fn sent(&mut self) {
        self.unsent = false;
    }
    /// The frame was lost.
    pub(super) fn lost(&mut self) {
        self.unsent = true;
    }
    /// The longest an ack may be withheld.
    pub(super) fn delay(&self) -> Span {
        self.delay
    }
}
