//! How often the peer should acknowledge: as often as an ack carries new information, and less often while acks queue on the return path.

use super::receiver::DEFAULT_DELAY;
use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// Acks are assumed to queue if this many in a row were late ...
const LATE_RUN: usize = 8;
/// ... by more than this, and by more than a quarter of the round trip.
const LATE: Span = Span::from_millis(30);
/// If the acks are this late at the start, they are thinned to a third at once.
const VERY_LATE: Span = Span::from_millis(120);
const PACKETS: u64 = 2;
const PACKET: u64 = 1500;
const PACKETS_MAX: u64 = 128;
/// As many packets share an ack as the lane carries in this time: an ack per two packets of 250 Mbit/s would be 6 Mbit/s, more than many an
/// asymmetric link has for the return path. With rarer acks, jitter delays the detection of a queue too much.
const APART: Span = Span::from_millis(1);
/// And no more than in this part of a round trip, because the window holds only one.
const APART_RTT_PART: u64 = 16;
const DELAY_MAX: Span = Span::from_millis(80);
/// If acks stay equally late, within this share or [`SAME`], although this many wishes thinned them, they do not queue: a queue would have
/// grown or shrunk. The return path has become longer.
const SAME_SHARE: (u64, u64) = (1, 16);
const SAME: Span = Span::from_millis(2);
const SAME_WISHES: u32 = 2;
/// If acks keep growing late by at least this part of the elapsed time, the return path's rate can be measured ...
const GROWTH_PART: u64 = 8;
/// ... and by this part if they are later than [`VERY_LATE`] at the start, where each further ack makes it worse, so few acks suffice.
const GROWTH_FAST_PART: u64 = 2;
const FAST_RUN: usize = 3;
/// On a return path that acks fill they take this share of its rate (as a divisor): the rest is for traffic that cannot be thinned.
const RETURN_SHARE: u64 = 5;
/// Octets of an ack, with a receipt and all encapsulation.
const ACK_OCTETS: u64 = 100;
/// If a few hundred octets took this long to be answered, acks are thinned before any is late, to this many per round trip: acks for a
/// train of full packets would fill a return path of 1,200 bit/s for ten seconds before it is detected.
const SLOW_RTT: Span = Span::from_secs(1);
const SLOW_RTT_PART: u64 = 4;
/// However thin the return path, acks are no further apart than this, because losses have to be reported ...
const THIN_MAX: Span = Span::from_secs(1);
/// ... and no more packets share one: the most that a receiver grants.
const THIN_PACKETS_MAX: u64 = 1024;
/// Acks of a radio lane: each costs the medium as much as a data packet. Further apart than [`super::RIDING_DELAY`], so that receipts and
/// acks travel together.
const SELDOM: (u64, Span) = (64, Span::from_millis(40));
/// The lowest delay of the return path is taken over this time, so that drift does not add up.
const LOWEST_WINDOW: Span = Span::from_secs(30);

/// One ack's return path.
#[derive(Clone, Copy, Debug)]
struct Back {
    at: Instant,
    /// Its delay, relative to an unknown origin.
    took_ns: i64,
    /// What had arrived on that lane until then.
    came: Came,
}

/// What was received from the neighbour on one of its lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Came {
    /// The neighbour's lane.
    pub lane: u8,
    /// Octets on the medium so far.
    pub octets: u64,
}

/// The current wish.
#[derive(Debug)]
pub(super) struct Wish {
    packets: u64,
    /// Lower bounds: packets per ack and interval.
    least: (u64, Span),
    /// Packets per ack according to the lane's pacing rate alone, a power of two.
    by_pace: u64,
    delay: Span,
    /// The ack interval of the full lane that the return path can carry; zero unless acks filled it.
    thin: Span,
    /// The neighbour's lane on which those acks came.
    thin_way: u8,
    /// `thin` is a guess from a long round trip.
    suspected: bool,
    /// More packets than are sent in that interval, so that the time limit applies: a power of two.
    thin_packets: u64,
    unsent: bool,
    changed: Instant,
    /// Recent acks.
    recent: VecDeque<Back>,
    /// Lowest delay of this window and of the one before.
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
            least: (0, Span::ZERO),
            by_pace: PACKETS,
            delay: DEFAULT_DELAY,
            thin: Span::ZERO,
            thin_way: 0,
            suspected: false,
            thin_packets: 0,
            unsent: false,
            changed: now,
            recent: VecDeque::new(),
            lowest: [None; 2],
            window_start: now,
            late: Span::ZERO,
            useless: 0,
        }
    }

    /// The wish of a radio lane.
    pub(super) fn seldom(now: Instant) -> Self {
        Self { least: SELDOM, unsent: true, ..Self::new(now) }
    }

    /// One ack took `took_ns`, of unknown origin, on the lane that has carried `came` so far. The lane sends at `pacing`.
    pub(super) fn sample(&mut self, now: Instant, rtt: Span, took_ns: i64, came: Came, pacing: Rate) {
        if now.since(self.window_start) > LOWEST_WINDOW {
            self.lowest = [None, self.lowest[0]];
            self.window_start = now;
        }
        self.lowest[0] = Some(self.lowest[0].map_or(took_ns, |l| l.min(took_ns)));
        self.recent.push_back(Back { at: now, took_ns, came });
        if self.recent.len() > LATE_RUN {
            self.recent.pop_front();
        }
        if self.thin > Span::ZERO && !self.suspected && self.comes_elsewhere() {
            self.thin = Span::ZERO;
            self.thin_packets = 0;
            self.unsent = true;
            self.lowest = [Some(took_ns), None];
            self.recent.clear();
            return;
        }
        let lowest = self.lowest.iter().flatten().min().copied().unwrap_or(took_ns);
        let least = self.recent.iter().map(|back| back.took_ns).min().unwrap_or(took_ns);
        let late = Span::from_nanos((least - lowest).max(0) as u64);
        let newest = Span::from_nanos((took_ns - lowest).max(0) as u64);
        let fresh = self.thin == Span::ZERO || self.suspected;
        let fast = newest > VERY_LATE.max(rtt.scale(1, 4)) && self.recent.len() >= FAST_RUN && fresh;
        let part = if self.suspected { GROWTH_PART } else { GROWTH_FAST_PART };
        let first = self.recent.len().saturating_sub(FAST_RUN);
        let carries = if fast && self.grows_steadily(first, part) { self.carries(first, part) } else { None };
        if carries.is_some_and(|carries| self.thin_to(now, carries, pacing, late)) {
            return;
        }
        let full = self.recent.len() == LATE_RUN && now.since(self.changed) > rtt && late > LATE.max(rtt.scale(1, 4));
        let carries = if full { self.carries(0, GROWTH_PART) } else { None };
        let thinned = carries.is_some_and(|carries| self.thin_to(now, carries, pacing, late));
        if full && !thinned && self.thin == Span::ZERO {
            self.double(now, late, least);
        }
    }

    /// Whether acks now come back on another lane than the thin one.
    fn comes_elsewhere(&self) -> bool {
        self.recent.len() == LATE_RUN && self.recent.iter().all(|back| back.came.lane != self.thin_way)
    }

    /// Whether each ack from number `first` on is later than the one before, by one part in `part` of the time between: a longer path adds
    /// its delay at once.
    fn grows_steadily(&self, first: usize, part: u64) -> bool {
        let later = |(from, to): (&Back, &Back)| {
            let grown = Span::from_nanos((to.took_ns - from.took_ns).max(0) as u64);
            grown.times(part) >= to.at.since(from.at)
        };
        self.recent.iter().skip(first).zip(self.recent.iter().skip(first + 1)).all(later)
    }

    /// The rate of the return path, if acks from number `first` of the recent ones on grew late by one part in `part` of the time elapsed:
    /// then it was busy all the time with what arrived.
    fn carries(&self, first: usize, part: u64) -> Option<Rate> {
        let (from, to) = (self.recent.get(first)?, self.recent.back()?);
        let took = to.at.since(from.at);
        let grown = Span::from_nanos((to.took_ns - from.took_ns).max(0) as u64);
        let same = from.came.lane == to.came.lane && to.came.octets > from.came.octets;
        let grows = grown > SAME && grown.times(part) >= took;
        (same && grows).then(|| Rate::of(Octets::new(to.came.octets - from.came.octets), took))
    }

    /// The return path carries no more than that. Returns whether this increases the ack interval.
    fn thin_to(&mut self, now: Instant, carries: Rate, pacing: Rate, late: Span) -> bool {
        let thin = carries.time_for(Octets::new(ACK_OCTETS * RETURN_SHARE)).min(THIN_MAX);
        if thin <= self.delay() {
            return false;
        }
        self.thin = thin;
        self.changed = now;
        self.late = late;
        self.unsent = true;
        self.suspected = false;
        self.thin_way = self.recent.back().map_or(0, |back| back.came.lane);
        self.recent.clear();
        self.fit_thin(pacing);
        true
    }

    /// Acks are late, but the lateness does not show the return path's rate.
    fn double(&mut self, now: Instant, late: Span, least: i64) {
        if self.packets >= PACKETS_MAX {
            return;
        }
        let moved = late.max(self.late).saturating_sub(late.min(self.late));
        self.useless = if moved <= SAME.max(late.scale(SAME_SHARE.0, SAME_SHARE.1)) { self.useless + 1 } else { 0 };
        self.late = late;
        if self.useless >= SAME_WISHES {
            *self = Self { unsent: true, lowest: [Some(least), None], least: self.least, ..Self::new(now) };
            return;
        }
        // The start overloads a slow return path, and every further step would take a round trip as long as the queue. Later on such large
        // steps overshoot: acks that are too rare cost rate.
        let steps = if late > VERY_LATE && self.packets == PACKETS { 3 } else { 2 };
        self.packets = (self.packets * steps).min(PACKETS_MAX);
        self.delay = self.delay.times(steps).min(DELAY_MAX);
        self.changed = now;
        self.unsent = true;
        self.recent.clear();
    }

    fn fit_thin(&mut self, pacing: Rate) {
        let packets = (2 * pacing.octets_in(self.thin).get() / PACKET).clamp(PACKETS, THIN_PACKETS_MAX);
        if self.thin > Span::ZERO && (packets >= 2 * self.thin_packets || packets < self.thin_packets) {
            let fitting = 1 << packets.ilog2();
            self.unsent |= fitting != self.thin_packets;
            self.thin_packets = fitting;
        }
    }

    /// The lane's pacing rate is this.
    pub(super) fn pace(&mut self, pacing: Rate, rtt_min: Span) {
        let apart = APART.min(rtt_min.scale(1, APART_RTT_PART));
        let packets = (pacing.octets_in(apart).get() / PACKET).clamp(PACKETS, PACKETS_MAX);
        // Changed only if it is at least twice the last value, or below it.
        if packets >= 2 * self.by_pace || packets < self.by_pace {
            let by_pace = 1 << packets.ilog2();
            self.unsent |= by_pace.max(self.packets) != self.by_pace.max(self.packets);
            self.by_pace = by_pace;
        }
        self.fit_thin(pacing);
    }
    /// The neighbour moved: the return path has changed. The receiver still follows the old wish, so it is sent a new one.
    pub(super) fn path_changed(&mut self, now: Instant) {
        let mut fresh = Self { least: self.least, ..Self::new(now) };
        fresh.follow(self);
        *self = fresh;
    }
    /// Replaces `before`: the wish is sent unless it is the same.
    pub(super) fn follow(&mut self, before: &Self) {
        self.unsent |= before.unsent || self.told() != before.told();
    }
    /// Packets per ack, and the longest delay.
    pub(super) fn told(&self) -> (u64, Span) {
        (self.packets.max(self.by_pace).max(self.thin_packets).max(self.least.0), self.delay())
    }
    /// The interval between acks of a lane of this rate because they queued on the return path; thinning by pacing rate only adds
    /// [`APART`], which is negligible.
    pub(super) fn apart(&self, rate: Rate) -> Span {
        rate.time_for(Octets::new(self.packets.max(self.thin_packets) * PACKET)).min(self.delay())
    }
    /// The ack interval that the return path's rate imposes.
    pub(super) fn thin(&self) -> Span {
        self.thin
    }
    /// A handshake, or the first packet after it, was answered after `rtt`: the return path may be so thin that a few acks fill it. A
    /// packet that comes back sooner cancels this: the handshake had been retransmitted.
    pub(super) fn suspect(&mut self, now: Instant, rtt: Span) {
        if rtt < SLOW_RTT && self.suspected {
            self.thin = Span::ZERO;
            self.thin_packets = 0;
            self.suspected = false;
            self.unsent = true;
        } else if rtt >= SLOW_RTT && self.thin == Span::ZERO {
            self.thin = rtt.scale(1, SLOW_RTT_PART).min(THIN_MAX);
            self.changed = now;
            self.unsent = true;
            self.thin_packets = THIN_PACKETS_MAX;
            self.suspected = true;
        }
    }
    /// The wish to send to the peer, if it does not have it yet.
    pub(super) fn pending(&self) -> Option<(u64, Span)> {
        self.unsent.then(|| self.told())
    }
    /// The frame was sent.
    pub(super) fn sent(&mut self) {
        self.unsent = false;
    }
    /// The frame was lost.
    pub(super) fn lost(&mut self) {
        self.unsent = true;
    }
    /// The longest ack delay.
    pub(super) fn delay(&self) -> Span {
        self.delay.max(self.thin).max(self.least.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACING: Rate = Rate::from_bps(2_000_000);

    /// Acks of 90 octets that leave 10 ms apart and take 75 ms each on a return path of 9,600 bit/s, by lane 0.
    fn queued(wish: &mut Wish, acks: u64) -> Instant {
        let mut now = Instant::from_secs(1);
        for n in 0..acks {
            now = Instant::from_secs(1) + Span::from_millis(75).times(n);
            let took = Span::from_millis(125 + 65 * n);
            wish.sample(now, took, took.as_nanos() as i64, Came { lane: 0, octets: 90 * n }, PACING);
        }
        now
    }

    #[test]
    fn a_queue_of_acks_gives_the_return_rate() {
        let mut wish = Wish::new(Instant::ZERO);
        queued(&mut wish, 8);
        let (packets, delay) = wish.pending().expect("a wish to tell");
        // Five acks of 100 octets at 9,600 bit/s.
        assert!((416..=417).contains(&delay.as_millis()), "{delay}");
        // 69 packets leave meanwhile, and time comes first.
        assert_eq!(packets, 128);
        wish.sent();
        // Acks that come soon by another lane say that this way is not taken any more.
        for n in 0..8 {
            let now = Instant::from_secs(9) + Span::from_millis(10).times(n);
            wish.sample(now, Span::from_millis(100), 50_000_000, Came { lane: 1, octets: 90 * n }, PACING);
        }
        assert_eq!(wish.pending(), Some((PACKETS, DEFAULT_DELAY)));
    }

    #[test]
    fn acks_that_are_late_by_the_same_do_not_tell_it() {
        let mut wish = Wish::new(Instant::ZERO);
        for n in 0..40 {
            let (now, late) = (Instant::from_secs(1) + Span::from_millis(50).times(n), if n < 8 { 0 } else { 200 });
            let took = Span::from_millis(50 + late);
            wish.sample(now, took, took.as_nanos() as i64, Came { lane: 0, octets: 90 * n }, PACING);
        }
        assert_eq!(wish.thin(), Span::ZERO);
    }

    #[test]
    fn a_quick_packet_overrules_a_slow_handshake() {
        let mut wish = Wish::new(Instant::ZERO);
        wish.suspect(Instant::ZERO, Span::from_millis(1_200));
        assert_eq!(wish.pending(), Some((THIN_PACKETS_MAX, Span::from_millis(300))));
        wish.suspect(Instant::ZERO, Span::from_millis(1_100));
        assert_eq!(wish.delay(), Span::from_millis(300));
        wish.suspect(Instant::ZERO, Span::from_millis(100));
        assert_eq!(wish.pending(), Some((PACKETS, DEFAULT_DELAY)));
    }
}
