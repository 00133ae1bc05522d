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
/// And it must exceed this many standard deviations.
const SIGMAS: f64 = 3.0;
/// Packets a judgement needs.
const JUDGED_MIN: u64 = 100;
/// The rate of a trial downward lies this share below what the excess says.
const DOWN_MARGIN: (u64, u64) = (96, 100);
/// A trial upward raises the rate by this.
const UP_STEP: (u64, u64) = (109, 100);
/// The first test of a ceiling comes after this, or after [`UP_WAIT_RTTS`] if that is longer.
const UP_WAIT_FIRST: Span = Span::from_secs(1);
const UP_WAIT_RTTS: u64 = 6;
/// Between tests of a ceiling at most this passes.
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
    up_wait: Span,
    /// Tests of the ceiling that found no new loss, in a row.
    passed: u32,
}

impl Referee {
    pub(crate) fn new() -> Self {
        Self {
            medium: None,
            stage: Stage::Calm,
            ceiling: None,
            next_up: Instant::ZERO,
            up_wait: UP_WAIT_FIRST,
            passed: 0,
        }
    }

    /// The rate above which loss was found to be ours.
    pub(crate) fn ceiling(&self) -> Option<Rate> {
        self.ceiling
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
        self.up_wait = UP_WAIT_FIRST.max(rtt.times(UP_WAIT_RTTS));
        self.next_up = now + self.up_wait;
        self.passed = 0;
        self.stage = Stage::Calm;
    }

    /// Judges the tally if it says enough. `steady`: the rate did not rise lately.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        rtt: Span,
        rate: Rate,
        steady: bool,
        losses: &mut Losses,
    ) -> Option<Ruling> {
        if self.stage == Stage::Calm && self.ceiling.is_some() && now >= self.next_up {
            self.stage = Stage::Up { until: now + rtt.max(JUDGE_SPAN_MIN) };
            losses.reset_tally(now);
            return None;
        }
        let (judged, lost) = losses.tally();
        // Packets sent since the tally began need a round trip to be judged at all.
        let span = now.since(losses.tally_from()).saturating_sub(rtt);
        if judged < JUDGED_MIN || span < JUDGE_SPAN_MIN {
            return None;
        }
        let share = lost as f64 / judged as f64;
        let medium = *self.medium.get_or_insert(share);
        let likely = medium.max(0.5 / judged as f64);
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
                // A rising rate must not teach its own loss to be the medium's.
                if steady || share < medium {
                    self.medium = Some(medium + excess * weight);
                }
                losses.reset_tally(now);
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
            self.up_wait = self.up_wait.times(2).min(UP_WAIT_MAX);
        } else {
            self.passed += 1;
            self.ceiling = Some(ceiling.scale(UP_STEP.0, UP_STEP.1));
            self.up_wait = rtt.max(JUDGE_SPAN_MIN);
            if self.passed >= 3 {
                self.ceiling = None;
            }
        }
        self.next_up = now + self.up_wait;
    }

    /// The queue shows that the link is the limit: no ceiling is needed.
    pub(crate) fn queue_seen(&mut self) {
        if self.stage == Stage::Calm {
            self.ceiling = None;
        }
    }

    /// The path changed.
    pub(crate) fn forget(&mut self) {
        *self = Self::new();
    }
}
