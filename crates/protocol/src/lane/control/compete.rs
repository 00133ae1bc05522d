//! Competing with a flow that keeps the queue full: when to begin, how, and when to stop.
//!
//! A queue that stands although we drained, while we are served much less than before, is either a longer way or
//! somebody else's. If it grows even while we drain, or stands a second time within [`SUSPECT_FOR`], it is an elastic
//! flow's (a TCP's), beside which a short queue cannot be had and steering by
//! delay only means giving way. The lane then behaves as one CUBIC flow, and every few seconds sends less for a
//! moment: alone, that empties the queue, and steering by delay resumes. `docs/decisions/0010-delay-controller.md`
//! has the reasons.

use super::AckSample;
use super::cubic::Cubic;
use crate::lane::losses::Losses;
use wavelane_base::{Instant, Octets, Rate, Span};

/// A second standing queue within this time of the first is a competitor's.
const SUSPECT_FOR: Span = Span::from_secs(10);
/// After competing, this long one standing queue is enough.
const PROBATION: Span = Span::from_secs(15);
/// Between tests, or [`TEST_RTTS`] if that is longer.
const TEST_EVERY: Span = Span::from_secs(4);
const TEST_RTTS: u64 = 12;
/// A test sends at this share of the rate.
const TEST_GAIN: (u64, u64) = (3, 10);
/// Alone, the queue is empty after 1 / (1 - gain) = 1.4 times its own length. Two lanes empty it together: the second
/// joins when the queue has shrunk by [`DIP_SHARE`] and a round trip has passed. A test lasts so many times the queue,
/// and half a round trip.
const TEST_LENGTH: (u64, u64) = (25, 10);
const TEST_MIN: Span = Span::from_millis(40);
/// A queue that shrinks to this share within a round trip or two has lost a sender, for a moment at least.
const DIP_SHARE: (u64, u64) = (88, 100);
/// So many tests in a row must be passed, because a competitor that has just been cut lets one pass, and the second
/// comes this long after the first.
const PASSES: u32 = 2;
const AGAIN_AFTER: Span = Span::from_millis(500);
const AGAIN_RTTS: u64 = 4;
/// This part of the queue before the test is as good as none: the delay of an empty one was seen a while ago.
const NEAR_SHARE: u64 = 8;
/// After so many failed tests in a row the base itself is doubted.
const FAILS_MAX: u32 = 8;
/// A queue that stays empty by itself for so many round trips needs no test.
const EMPTY_RTTS: u64 = 6;
/// One who is served this share of the most he ever was has the link to himself, after so many round trips.
const ALONE_SHARE: (u64, u64) = (95, 100);
const FILLED_RTTS: u64 = 4;
const FILLED_MIN: Span = Span::from_millis(500);
/// The highest service rate is remembered for this long, and longer while there is a competitor.
const BEST_FOR: Span = Span::from_secs(60);
/// Who still has more than this share of it was not pushed aside.
const PUSHED: (u64, u64) = (3, 4);
/// One flow's aggressiveness may be too little: beside a sender that hardly minds loss (BBR) a CUBIC flow gets a tenth of
/// the link. Who is served less than [`TOO_LITTLE`] of his best for [`WEIGH_EVERY`] (or [`WEIGH_RTTS`]) counts as twice
/// as many flows, who is served more than [`ENOUGH`] as one less. The most is what a browser opens to one server: every one
/// of them still gives way to loss, so many such lanes share the link as many flows do.
const WEIGHT_MAX: u32 = 6;
const TOO_LITTLE: (u64, u64) = (1, 4);
const ENOUGH: (u64, u64) = (2, 5);
const WEIGH_EVERY: Span = Span::from_secs(1);
const WEIGH_RTTS: u64 = 8;
/// On a lossy medium, losses beyond its share and so many standard deviations are the queue's.
const SIGMAS: f64 = 3.0;
/// Where the medium loses in bursts, so many losses may be the head of one not yet recognised as such.
const BURST_HEAD: f64 = 8.0;
/// A tally of losses is begun anew after so many packets.
const TALLY_MAX: u64 = 1000;

#[derive(Clone, Copy, Debug)]
struct Test {
    since: Instant,
    until: Instant,
    queue: Span,
    rate: Rate,
}

/// One spell of competing.
#[derive(Debug)]
struct Flow {
    cubic: Cubic,
    /// Forward delay of the empty queue.
    floor: i64,
    /// Share of single losses that is the medium's, and whether it loses in bursts.
    medium: f64,
    bursts: bool,
    test: Option<Test>,
    next_test: Instant,
    last_test: Instant,
    dips: Dips,
    failed: u32,
    passed: u32,
    empty_since: Option<Instant>,
    filled_since: Option<Instant>,
    weight: Weight,
}

/// What follows from an ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Compete,
    /// The queue is ours again and empty: steer by delay from this rate.
    Alone(Rate),
    /// The same, but the queue is still this long, or its base moved.
    Drain(Rate, Span),
}

/// What is known when a spell begins.
pub(crate) struct Situation {
    pub(crate) rate: Rate,
    pub(crate) medium: f64,
    pub(crate) floor: i64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Compete {
    /// Until when one more standing queue is a competitor's, and the base from before the first.
    suspect: Option<(Instant, i64)>,
    best: Option<(Instant, Rate)>,
    flow: Option<Flow>,
}

impl Compete {
    /// Notes what the link served us.
    pub(crate) fn note_served(&mut self, now: Instant, rate: Rate) {
        note_best(&mut self.best, now, rate);
    }

    /// A drain left a queue standing above `base`, and we had been served `rate` before; `grew`: the queue is longer
    /// than when it was noticed, which no longer way explains. If that makes it a competitor's: the forward delay of an
    /// empty one.
    pub(crate) fn standing_queue(&mut self, now: Instant, base: i64, rate: Rate, grew: bool) -> Option<i64> {
        if rate > self.best().scale(PUSHED.0, PUSHED.1) {
            return None;
        }
        let before = self.suspect.filter(|s| now < s.0).map(|s| s.1.min(base));
        let floor = before.unwrap_or(base);
        self.suspect = Some((now + SUSPECT_FOR, floor));
        self.refresh_best(now);
        (before.is_some() || grew).then_some(floor)
    }

    /// Whether a competitor was there lately.
    pub(crate) fn wary(&self, now: Instant) -> bool {
        self.suspect.is_some_and(|s| now < s.0)
    }

    /// While there is somebody else the best is not seen, but holds.
    fn refresh_best(&mut self, now: Instant) {
        if let Some(best) = &mut self.best {
            best.0 = now;
        }
    }

    /// The highest rate served lately.
    pub(crate) fn best(&self) -> Rate {
        self.best.map_or(Rate::from_bps(0), |b| b.1)
    }

    pub(crate) fn begin(&mut self, sample: &AckSample, losses: &mut Losses, situation: &Situation) {
        // Half of the link is the share of one of two flows; up to there growth costs nobody his.
        let half = self.best.map_or(situation.rate, |b| b.1.max(situation.rate)).scale(1, 2);
        self.flow = Some(Flow {
            cubic: Cubic::returning(situation.rate, half, sample.rtt),
            floor: situation.floor,
            medium: situation.medium,
            bursts: losses.longest_burst(sample.now) > Span::ZERO,
            test: None,
            next_test: sample.now + test_every(sample.rtt),
            last_test: sample.now,
            dips: Dips::default(),
            failed: 0,
            passed: 0,
            empty_since: None,
            filled_since: None,
            weight: Weight::new(sample.now),
        });
        losses.reset_tally(sample.now);
    }

    /// Forgets the spell, if any.
    pub(crate) fn end(&mut self) {
        self.flow = None;
    }

    /// Takes in one ack. `delay`: forward delay, lowest of the last few; `near`: a shorter queue is none; `served`: what
    /// arrives.
    pub(crate) fn on_ack(
        &mut self,
        sample: &AckSample,
        losses: &mut Losses,
        delay: i64,
        near: Span,
        served: Option<Rate>,
    ) -> Verdict {
        let Some(flow) = self.flow.as_mut() else { return Verdict::Alone(served.unwrap_or(self.best())) };
        flow.floor = flow.floor.min(delay);
        let queue = Span::from_nanos((delay - flow.floor) as u64);
        flow.join(sample, queue, near);
        let lost_sent = sample.lost_sent.filter(|_| flow.convicts(losses));
        if lost_sent.is_some() {
            flow.dips.ours(sample);
        }
        if lost_sent.is_some() || losses.tally().0 > TALLY_MAX {
            losses.reset_tally(sample.now);
        }
        let rate = served.unwrap_or(flow.cubic.rate());
        note_best(&mut self.best, sample.now, rate);
        let best = self.best.map_or(rate, |b| b.1);
        flow.cubic.set_weight(flow.weight.on_ack(sample, best, flow.test.is_some()));
        flow.cubic.on_ack(&AckSample { lost_sent, ..*sample });
        let filled = self.best.is_some_and(|b| rate >= b.1.scale(ALONE_SHARE.0, ALONE_SHARE.1));
        let alone =
            flow.fills(sample, filled) || flow.empty(sample, queue, near) || flow.test(sample, queue, near, rate);
        if alone {
            let before = flow.test.map_or(rate, |t| t.rate);
            // Where the base itself is doubted, what is seen next is the base.
            let doubted = flow.failed >= FAILS_MAX || flow.filled_since.is_some();
            self.suspect = (!doubted).then_some((sample.now + PROBATION, flow.floor));
            self.flow = None;
            self.refresh_best(sample.now);
            return if doubted { Verdict::Drain(before, queue) } else { Verdict::Alone(before) };
        }
        Verdict::Compete
    }

    /// Pacing rate and window, while competing.
    pub(crate) fn outputs(&self) -> Option<(Rate, u64)> {
        let flow = self.flow.as_ref()?;
        let pacing = flow.test.map_or(flow.cubic.pacing(), |t| t.rate.scale(TEST_GAIN.0, TEST_GAIN.1));
        Some((pacing, flow.cubic.window()))
    }
}

fn note_best(best: &mut Option<(Instant, Rate)>, now: Instant, rate: Rate) {
    match best {
        Some((at, best)) if rate < *best && now.since(*at) < BEST_FOR => {}
        _ => *best = Some((now, rate)),
    }
}

/// The shortest of `least`, twice, four times that ... that is at least `rtts` round trips: lanes whose round trips
/// are about the same shall come to the same.
fn stepped(least: Span, rtt: Span, rtts: u64) -> Span {
    let mut span = least;
    while span < rtt.times(rtts) {
        span = span.times(2);
    }
    span
}

fn test_every(rtt: Span) -> Span {
    stepped(TEST_EVERY, rtt, TEST_RTTS)
}

/// As how many flows we compete.
#[derive(Debug)]
struct Weight {
    flows: u32,
    since: Instant,
    delivered: u64,
}

impl Weight {
    fn new(now: Instant) -> Self {
        Self { flows: 1, since: now, delivered: 0 }
    }

    fn on_ack(&mut self, sample: &AckSample, best: Rate, testing: bool) -> u32 {
        self.delivered += sample.delivered;
        let span = sample.now.since(self.since);
        // What is served in a test says nothing: it is our own doing.
        if testing {
            (self.since, self.delivered) = (sample.now, 0);
        } else if span >= stepped(WEIGH_EVERY, sample.rtt, WEIGH_RTTS) {
            let served = Rate::of(Octets::new(self.delivered), span);
            if served < best.scale(TOO_LITTLE.0, TOO_LITTLE.1) {
                self.flows = (self.flows * 2).min(WEIGHT_MAX);
            } else if served > best.scale(ENOUGH.0, ENOUGH.1) {
                self.flows = (self.flows - 1).max(1);
            }
            (self.since, self.delivered) = (sample.now, 0);
        }
        self.flows
    }
}

/// Notices when the queue becomes shorter without our doing.
#[derive(Debug, Default)]
struct Dips {
    /// Longest queue of this round trip and of the one before.
    high: [Span; 2],
    turn: Instant,
    /// Until then shorter queues are our own doing.
    deaf_until: Instant,
}

impl Dips {
    fn ours(&mut self, sample: &AckSample) {
        self.deaf_until = sample.now + sample.rtt.times(2);
    }

    fn see(&mut self, sample: &AckSample, queue: Span) -> bool {
        if sample.now.since(self.turn) > sample.rtt {
            self.turn = sample.now;
            self.high = [queue, self.high[0]];
        }
        self.high[0] = self.high[0].max(queue);
        let dip = queue < self.high[0].max(self.high[1]).scale(DIP_SHARE.0, DIP_SHARE.1);
        if sample.now < self.deaf_until || !dip {
            return false;
        }
        self.ours(sample);
        true
    }
}

impl Flow {
    /// Two lanes that both compete keep each other's queue full, and neither would find itself alone. A queue that
    /// becomes shorter without our doing may be the other's test: join it.
    fn join(&mut self, sample: &AckSample, queue: Span, near: Span) {
        if self.test.is_some() {
            self.dips.ours(sample);
        } else if self.dips.see(sample, queue) && queue > near {
            let spaced = sample.now.since(self.last_test) >= test_every(sample.rtt).scale(1, 2);
            if spaced || self.passed > 0 {
                self.next_test = sample.now;
            }
        }
    }

    /// Whether more was lost than the medium takes.
    fn convicts(&self, losses: &Losses) -> bool {
        let (judged, lost) = losses.tally();
        let head = if self.bursts { BURST_HEAD } else { 0.0 };
        let expected = self.medium * judged as f64;
        let usual = if self.medium > 0.0 { expected + SIGMAS * expected.sqrt() + 1.0 } else { 0.0 };
        lost as f64 > usual + head
    }

    /// Whether the queue has been empty for long by itself.
    fn empty(&mut self, sample: &AckSample, queue: Span, near: Span) -> bool {
        if queue > near || self.test.is_some() {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert(sample.now);
        sample.now.since(since) > sample.rtt.times(EMPTY_RTTS)
    }

    /// Whether the whole link has been ours for long, whatever the queue: its base may have moved.
    fn fills(&mut self, sample: &AckSample, filled: bool) -> bool {
        if !filled {
            self.filled_since = None;
            return false;
        }
        let since = *self.filled_since.get_or_insert(sample.now);
        sample.now.since(since) > sample.rtt.times(FILLED_RTTS).max(FILLED_MIN)
    }

    /// Runs the tests. Whether one found us alone.
    fn test(&mut self, sample: &AckSample, queue: Span, near: Span, rate: Rate) -> bool {
        let now = sample.now;
        let Some(sent_at) = sample.newest.map(|n| n.sent_at) else { return false };
        let Some(test) = self.test else {
            if now >= self.next_test {
                let until = now + TEST_MIN.max(queue.scale(TEST_LENGTH.0, TEST_LENGTH.1)) + sample.rtt.scale(1, 2);
                self.last_test = now;
                self.test = Some(Test { since: now, until, queue, rate });
            }
            return false;
        };
        if sent_at < test.since {
            return false;
        }
        if queue <= near.max(test.queue.scale(1, NEAR_SHARE)) {
            self.passed += 1;
            if self.passed < PASSES {
                self.test = None;
                self.next_test = now + stepped(AGAIN_AFTER, sample.rtt, AGAIN_RTTS);
            }
            return self.passed >= PASSES;
        }
        if sent_at >= test.until {
            self.test = None;
            self.failed += 1;
            self.passed = 0;
            self.next_test = test.since + test_every(sample.rtt);
            return self.failed >= FAILS_MAX;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::sent::Resolved;

    /// Reductions of a flow whose every `each`-th of 20,000 packets is lost, on a medium known to lose 5 %.
    fn cuts(each: u64) -> u32 {
        let mut losses = Losses::default();
        let flow = Flow {
            cubic: Cubic::new(),
            floor: 0,
            medium: 0.05,
            bursts: false,
            test: None,
            next_test: Instant::ZERO,
            last_test: Instant::ZERO,
            dips: Dips::default(),
            failed: 0,
            passed: 0,
            empty_since: None,
            filled_since: None,
            weight: Weight::new(Instant::ZERO),
        };
        let mut cuts = 0;
        for number in 0..20_000 {
            let sent_at = Instant::from_micros(number * 600);
            let lost = number % each == 0;
            let end = 1500 * (number + 1);
            losses.resolved(
                sent_at,
                &Resolved {
                    number,
                    sent_at,
                    bytes: 1500,
                    end,
                    eliciting: true,
                    app_limited: false,
                    mtu_probe: false,
                    lost,
                    gap_before: None,
                    gap_after: None,
                },
            );
            let cut = lost && flow.convicts(&losses);
            cuts += u32::from(cut);
            if cut || losses.tally().0 > TALLY_MAX {
                losses.reset_tally(sent_at);
            }
        }
        cuts
    }

    #[test]
    fn the_mediums_loss_is_no_signal_and_more_is() {
        assert_eq!(cuts(20), 0);
        assert!((50..1_000).contains(&cuts(5)), "{}", cuts(5));
    }

    #[test]
    fn who_gets_too_little_counts_as_more_flows_and_who_gets_enough_as_fewer() {
        let best = Rate::from_bps(20_000_000);
        let mut weight = Weight::new(Instant::ZERO);
        let mut now = 0;
        // Acks every 10 ms for a second of weighing at a rate in Mbit/s.
        let mut second = |mbit: u64, testing: bool| {
            let mut flows = 0;
            for _ in 0..100 {
                now += 10;
                let sample = AckSample {
                    now: Instant::from_millis(now),
                    newest: None,
                    delivered: mbit * 1_000_000 / 8 / 100,
                    lost_sent: None,
                    waited: Span::ZERO,
                    latest_rtt: None,
                    rtt: Span::from_millis(100),
                    rtt_min: Span::from_millis(50),
                };
                flows = weight.on_ack(&sample, best, testing);
            }
            flows
        };
        let grown: Vec<u32> = (0..4).map(|_| second(2, false)).collect();
        assert_eq!(grown, [2, 4, WEIGHT_MAX, WEIGHT_MAX]);
        assert_eq!(second(1, true), WEIGHT_MAX, "what is served in a test says nothing");
        assert_eq!([second(7, false), second(7, false)], [WEIGHT_MAX; 2], "neither too little nor enough");
        let shrunk: Vec<u32> = (0..6).map(|_| second(9, false)).collect();
        assert_eq!(shrunk, [5, 4, 3, 2, 1, 1]);
    }

    #[test]
    fn one_standing_queue_may_be_the_way_two_are_a_competitor() {
        let second = Instant::from_secs;
        let full = Rate::from_bps(20_000_000);
        let pushed = Rate::from_bps(5_000_000);
        let mut compete = Compete::default();
        compete.note_served(second(1), full);
        assert_eq!(compete.standing_queue(second(2), 100, full, true), None, "served as before: the way is longer");
        assert_eq!(compete.standing_queue(second(3), 100, pushed, false), None);
        assert_eq!(compete.standing_queue(second(20), 300, pushed, false), None, "the first is long ago");
        assert_eq!(compete.standing_queue(second(22), 400, pushed, false), Some(300));
        let mut compete = Compete::default();
        compete.note_served(second(1), full);
        assert_eq!(compete.standing_queue(second(2), 100, pushed, true), Some(100), "grew while we drained");
    }
}
