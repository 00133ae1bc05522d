//! Competing with a flow that keeps the queue full: when to begin, how, and when to stop.
//!
//! A queue that remains after a drain, at a much lower service rate than before, means a longer path or another flow. If it grows even
//! during the drain, or remains a second time within [`SUSPECT_FOR`], it belongs to an elastic flow (a TCP), beside which delay-based
//! control would starve. The lane then behaves as one CUBIC flow, and every few seconds sends less for a moment: if it is alone, that
//! empties the queue, and delay-based control resumes. `docs/decisions/0010-delay-controller.md` gives the reasons.

mod alone;
#[cfg(test)]
mod tests;
mod weight;

use super::AckSample;
use super::cubic::Cubic;
use crate::lane::losses::Losses;
use alone::{Dips, Test, test_every};
use wavelane_base::{Instant, Rate, Span};
use weight::Weight;

/// A second standing queue within this time of the first is a competitor's.
const SUSPECT_FOR: Span = Span::from_secs(10);
/// For this long after competing one standing queue is enough.
const PROBATION: Span = Span::from_secs(15);
/// A test sends at this share of the rate.
const TEST_GAIN: (u64, u64) = (3, 10);
/// After this many failed tests in a row the base itself is in doubt.
const FAILS_MAX: u32 = 8;
/// A service rate of this share of the best, for some time, means that the lane is alone on the link.
const ALONE_SHARE: (u64, u64) = (95, 100);
/// The highest service rate is kept for this long, and longer while there is a competitor.
const BEST_FOR: Span = Span::from_secs(60);
/// A lane above this share of the best rate has not lost its part of the link to a competitor.
const PUSHED: (u64, u64) = (3, 4);
/// On a lossy medium, losses beyond its share by this many standard deviations are attributed to the queue.
const SIGMAS: f64 = 3.0;
/// If the medium loses in bursts, this many losses may be the start of a burst not yet recognised.
const BURST_HEAD: f64 = 8.0;
/// A tally of losses restarts after this many packets.
const TALLY_MAX: u64 = 1000;

/// One period of competing.
#[derive(Debug)]
struct Flow {
    cubic: Cubic,
    /// Forward delay of the empty queue.
    floor: i64,
    /// The medium's share of single losses, and whether it loses in bursts.
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

/// The result of an ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Compete,
    /// The queue is ours again and empty: resume delay-based control at this rate.
    Alone(Rate),
    /// The same, but the queue is still this long, or its base moved.
    Drain(Rate, Span),
}

/// The state when a period begins.
pub(crate) struct Situation {
    pub(crate) rate: Rate,
    pub(crate) medium: f64,
    pub(crate) floor: i64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Compete {
    /// Until when one more standing queue counts as a competitor's, and the base from before the first.
    suspect: Option<(Instant, i64)>,
    best: Option<(Instant, Rate)>,
    flow: Option<Flow>,
}

impl Compete {
    /// Records the rate that the link served us.
    pub(crate) fn note_served(&mut self, now: Instant, rate: Rate) {
        note_best(&mut self.best, now, rate);
    }

    /// A drain left a queue standing above `base`, at a previous rate of `rate`; `grew`: the queue is longer than when it was noticed,
    /// which a longer path does not explain. If this means a competitor: returns the forward delay of an empty queue.
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

    /// Whether there was a competitor recently.
    pub(crate) fn wary(&self, now: Instant) -> bool {
        self.suspect.is_some_and(|s| now < s.0)
    }

    /// While there is a competitor the best rate is not measured, but kept.
    fn refresh_best(&mut self, now: Instant) {
        if let Some(best) = &mut self.best {
            best.0 = now;
        }
    }

    /// The highest rate served recently.
    pub(crate) fn best(&self) -> Rate {
        self.best.map_or(Rate::from_bps(0), |b| b.1)
    }

    pub(crate) fn begin(&mut self, sample: &AckSample, losses: &mut Losses, situation: &Situation) {
        // Half of the link is the fair share of one of two flows; growth up to there takes nothing from the other's share.
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

    /// Ends the period, if any.
    pub(crate) fn end(&mut self) {
        self.flow = None;
    }

    /// Handles one ack. `delay`: the lowest of the last few forward delays; `near`: a shorter queue counts as empty; `served`: the rate of
    /// arrival.
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
            // If the base itself is in doubt, the next delays seen define it.
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

/// The shortest of `least`, twice, four times that ... that is at least `rtts` round trips: lanes with similar round trips get the same
/// value.
fn stepped(least: Span, rtt: Span, rtts: u64) -> Span {
    let mut span = least;
    while span < rtt.times(rtts) {
        span = span.times(2);
    }
    span
}

impl Flow {
    /// Whether more was lost than the medium explains.
    fn convicts(&self, losses: &Losses) -> bool {
        let (judged, lost) = losses.tally();
        let head = if self.bursts { BURST_HEAD } else { 0.0 };
        let expected = self.medium * judged as f64;
        let usual = if self.medium > 0.0 { expected + SIGMAS * expected.sqrt() + 1.0 } else { 0.0 };
        lost as f64 > usual + head
    }
}
