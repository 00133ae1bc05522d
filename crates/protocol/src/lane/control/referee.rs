//! Decides whether loss is the medium's or ours.
//!
//! Loss that does not change with our rate is the medium's and is ignored. When loss rises above what is known of
//! the medium, the referee *tries*: it lowers the rate by the excess for a moment. If the loss goes, it was ours (a
//! policer or a buffer too short to show in the delay): the lower rate becomes a ceiling, tested upward rarely and
//! ever more rarely. If the loss stays, it is the medium's and the old rate returns.

use crate::lane::losses::Losses;
use wavelane_base::{Instant, Rate, Span};

/// Excess below this is never acted on.
const EXCESS_MIN: f64 = 0.02;
/// Excess of the quickly smoothed share from which on a full queue is taken to overflow.
const OVERFLOW_MIN: f64 = 0.12;
/// And it must exceed this many standard deviations.
const SIGMAS: f64 = 4.0;
/// Packets a judgement needs.
const JUDGED_MIN: u64 = 250;
/// On a slow lane so many do, after this long.
const JUDGED_SLOW: u64 = 20;
const JUDGE_SPAN_SLOW: Span = Span::from_secs(2);
/// A share this far above the medium's, with a delivered rate that stands still, ends startup.
const PLATEAU_EXCESS: f64 = 0.05;
/// A tally is begun anew at the latest after this many.
const JUDGED_MAX: u64 = 1000;
/// The rate of a trial downward lies this share below what the excess says.
const DOWN_MARGIN: (u64, u64) = (96, 100);
/// A trial upward raises the rate by this.
const UP_STEP: (u64, u64) = (109, 100);
/// A test lasts two round trips, and this at least: a policer's bucket must run dry.
const UP_SPAN_MIN: Span = Span::from_millis(200);
/// So many tests passed in a row lift the ceiling.
const PASSES: u32 = 3;
/// The first test of a ceiling comes after this, or after [`UP_WAIT_RTTS`] if that is longer.
const UP_WAIT_FIRST: Span = Span::from_secs(1);
const UP_WAIT_RTTS: u64 = 6;
/// The wait doubles with every failure, up to this: between tests at most this passes.
const UP_WAIT_MAX: Span = Span::from_secs(16);
/// Judgements are made at least this far apart.
const JUDGE_SPAN_MIN: Span = Span::from_millis(50);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    /// Watching.
    Calm,
    /// The rate was lowered to see whether the loss goes.
    Down { before: Rate, loss: f64 },
    /// The ceiling is exceeded to see whether the loss comes.
    Up { until: Instant },
}

/// What the controller must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ruling {
    /// Use this rate from now on, and judge packets sent from now on.
    SetRate(Rate),
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Referee {
    /// Share of single losses that is the medium's, once known.
    medium: Option<f64>,
    stage: Stage,
    ceiling: Option<Rate>,
    next_up: Instant,
    /// Times the ceiling was confirmed, in a row.
    fails: u32,
    /// Tests of the ceiling that found no new loss, in a row.
    passed: u32,
}

impl Referee {
    pub(crate) fn new() -> Self {
        Self { medium: None, stage: Stage::Calm, ceiling: None, next_up: Instant::ZERO, fails: 0, passed: 0 }
    }

    /// The rate above which loss was found to be ours.
    pub(crate) fn ceiling(&self) -> Option<Rate> {
        self.ceiling
    }
    /// Share of single losses that is the medium's, as far as known.
    pub(crate) fn medium(&self) -> f64 {
        self.medium.unwrap_or(0.0)
    }
    /// Ends a trial without a ruling, and lifts the ceiling: somebody else's queue was on trial.
    pub(crate) fn adjourn(&mut self) {
        self.stage = Stage::Calm;
        self.ceiling = None;
    }
    /// Thousandths of what was served that must have been dropped before the queue, where that is beyond doubt.
    pub(crate) fn overflow(&self, losses: &Losses) -> u64 {
        let medium = self.medium.unwrap_or(0.0);
        let excess = losses.single_share() - medium;
        if excess < OVERFLOW_MIN { 0 } else { (excess / (1.0 - medium).max(0.01) * 1000.0).clamp(0.0, 900.0) as u64 }
    }
    /// What the link must have carried for `delivered` to arrive: nothing but the medium's loss is added, so drops
    /// before the queue never raise a rate.
    pub(crate) fn carried(&self, delivered: Rate) -> Rate {
        let kept = (1.0 - self.medium.unwrap_or(0.0)).clamp(0.05, 1.0);
        delivered.scale(1000, (kept * 1000.0) as u64)
    }
    /// Whether `share` is clearly more than the medium loses.
    pub(crate) fn exceeds(&self, share: f64) -> bool {
        share > self.medium.unwrap_or(0.0) + PLATEAU_EXCESS
    }
    /// Whether a trial is under way.
    pub(crate) fn trying(&self) -> bool {
        self.stage != Stage::Calm
    }
    /// What the rate may be raised to beyond the ceiling while it is tested.
    pub(crate) fn pacing_gain(&self) -> (u64, u64) {
        if matches!(self.stage, Stage::Up { .. }) { UP_STEP } else { (1, 1) }
    }

    /// During startup, rounds only teach what the medium loses.
    pub(crate) fn learn(&mut self, losses: &mut Losses, now: Instant) {
        let (judged, lost) = losses.tally();
        if judged < 30 {
            return;
        }
        let share = lost as f64 / judged as f64;
        self.medium = Some(self.medium.map_or(share, |m| m.min(share)));
        losses.reset_tally(now);
    }

    /// Startup ended because the delivered rate stood still while loss grew.
    pub(crate) fn plateau(&mut self, now: Instant, rtt: Span, rate: Rate) -> Rate {
        let rate = rate.scale(DOWN_MARGIN.0, DOWN_MARGIN.1);
        self.set_ceiling(now, rtt, rate);
        rate
    }

    fn set_ceiling(&mut self, now: Instant, rtt: Span, rate: Rate) {
        self.ceiling = Some(rate);
        self.passed = 0;
        self.back_off(now, rtt);
        self.stage = Stage::Calm;
    }

    fn back_off(&mut self, now: Instant, rtt: Span) {
        let wait = UP_WAIT_FIRST.max(rtt.times(UP_WAIT_RTTS)).times(1 << self.fails.min(8));
        self.next_up = now + wait.min(UP_WAIT_MAX);
        self.fails += 1;
    }

    /// Judges the tally if it says enough. `full`: a queue shows that the link is
    /// the limit, so its loss is not a policer's.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        rtt: Span,
        rate: Rate,
        full: bool,
        losses: &mut Losses,
    ) -> Option<Ruling> {
        if self.stage == Stage::Calm && self.ceiling.is_some() && now >= self.next_up {
            self.stage = Stage::Up { until: now + rtt.times(2).max(UP_SPAN_MIN) };
            losses.reset_tally(now);
            return None;
        }
        let (judged, lost) = losses.tally();
        // Packets sent since the tally began need a round trip to be judged at all.
        let span = now.since(losses.tally_from()).saturating_sub(rtt);
        let enough = judged >= JUDGED_MIN || (judged >= JUDGED_SLOW && span >= JUDGE_SPAN_SLOW);
        if !enough || span < JUDGE_SPAN_MIN {
            return None;
        }
        let share = lost as f64 / judged as f64;
        let medium = *self.medium.get_or_insert(share);
        // Half of each: the medium's share is itself an estimate.
        let likely = f64::midpoint(medium, share).max(0.5 / judged as f64);
        let excess = share - medium;
        let ours = excess > EXCESS_MIN + SIGMAS * (likely * (1.0 - likely) / judged as f64).sqrt();
        match self.stage {
            Stage::Calm if ours => {
                self.stage = Stage::Down { before: rate, loss: share };
                losses.reset_tally(now);
                let keep = ((1.0 - excess / (1.0 - medium)).max(0.3) * 1000.0) as u64;
                Some(Ruling::SetRate(rate.scale(keep, 1000).scale(DOWN_MARGIN.0, DOWN_MARGIN.1)))
            }
            Stage::Calm => {
                let weight = if share < medium { 0.5 } else { 0.125 };
                // Only where something else limits us is loss the medium's without a trial.
                if (full && self.ceiling.is_none()) || share < medium {
                    self.medium = Some(medium + excess * weight);
                }
                if judged >= JUDGED_MAX || full {
                    losses.reset_tally(now);
                }
                None
            }
            Stage::Down { before, loss } => {
                losses.reset_tally(now);
                if share < medium + (loss - medium) / 2.0 {
                    self.set_ceiling(now, rtt, rate);
                    None
                } else {
                    self.stage = Stage::Calm;
                    self.medium = Some(share);
                    Some(Ruling::SetRate(before))
                }
            }
            Stage::Up { until } => {
                if now < until + rtt {
                    return None;
                }
                losses.reset_tally(now);
                self.stage = Stage::Calm;
                self.end_test(now, rtt, ours);
                None
            }
        }
    }

    fn end_test(&mut self, now: Instant, rtt: Span, ours: bool) {
        let Some(ceiling) = self.ceiling else { return };
        if ours {
            self.passed = 0;
            self.back_off(now, rtt);
            return;
        }
        self.passed += 1;
        self.ceiling = Some(ceiling.scale(UP_STEP.0, UP_STEP.1));
        self.next_up = now + rtt.max(JUDGE_SPAN_MIN);
        if self.passed >= PASSES {
            self.ceiling = None;
            self.fails = 0;
        }
    }

    /// The queue shows that the link is the limit: no ceiling is needed.
    pub(crate) fn queue_seen(&mut self) {
        if matches!(self.stage, Stage::Up { .. }) {
            self.ceiling = None;
            self.stage = Stage::Calm;
        }
    }

    /// The path changed.
    pub(crate) fn forget(&mut self) {
        *self = Self::new();
    }
}
