//! Decides whether loss is the medium's or caused by our own rate.
//!
//! Loss that does not follow our rate is the medium's and is ignored. When loss rises above the medium's known share, a [`Trial`]
//! alternates between this rate and a lower one. If loss follows the rate, pair after pair (a policer, or a buffer too short to show in the
//! delay), the rate that arrived becomes a ceiling. The ceiling needs continuing evidence: it is tested upward, and it falls when loss
//! returns below it.

#[cfg(test)]
mod tests;
mod trial;

use crate::lane::losses::Losses;
use crate::lane::sent::Resolved;
use trial::{Trial, Verdict};
use wavelane_base::{Instant, Rate, Span};

/// Excess loss below this has no effect.
const EXCESS_MIN: f64 = 0.02;
/// Excess of the quickly smoothed share from which a full queue is assumed to overflow.
const OVERFLOW_MIN: f64 = 0.12;
/// The excess must also exceed this many standard deviations.
const SIGMAS: f64 = 4.0;
/// Packets needed for a suspicion.
const JUDGED_MIN: u64 = 250;
/// Packets needed to learn the medium's share in startup.
const LEARNT_MIN: u64 = 30;
/// On a slow lane this many are enough, after this time.
const JUDGED_SLOW: u64 = 20;
const JUDGE_SPAN_SLOW: Span = Span::from_secs(2);
/// The shortest interval between suspicions.
const JUDGE_SPAN_MIN: Span = Span::from_millis(50);
/// A tally restarts at the latest after this many packets.
const JUDGED_MAX: u64 = 1000;
/// Long runs are left out of the tally, because few policers cause them; they count if the excess is at least this, over this time.
const HEAVY_EXCESS: f64 = 0.25;
const HEAVY_SPAN: Span = Span::from_secs(1);
/// A share this far above the medium's, at a constant delivered rate, ends startup.
const PLATEAU_EXCESS: f64 = 0.05;
/// The lower rate of a trial is this share of the rate that the excess suggests, and no lower than the other.
const LOW_MARGIN: f64 = 0.96;
const LOW_MIN: f64 = 0.1;
/// The ceiling is this share of the arrival rate.
const CEILING_SHARE: (u64, u64) = (98, 100);
/// A test of the ceiling raises the rate by this factor.
const UP_STEP: (u64, u64) = (120, 100);
/// This many tests passed in a row remove the ceiling.
const PASSES: u32 = 3;
/// The first test of a ceiling comes after this time, or after this many round trips if that is longer; the wait doubles with every test
/// that confirms the ceiling, up to eight times the first.
const TEST_WAIT: Span = Span::from_secs(1);
const TEST_WAIT_RTTS: u64 = 6;
const TEST_WAIT_DOUBLINGS: u32 = 3;
/// After a trial that found the medium, the next comes after [`TEST_WAIT`], doubled with every such trial, at most this often.
const TRIAL_WAIT_DOUBLINGS: u32 = 3;
/// Number of agreeing pairs that confirm a ceiling, and that attribute loss to us; the latter is higher if we recently sent faster without
/// excess loss.
const TEST_AGREE: u32 = 1;
const LOSS_AGREE: u32 = 4;
const LOSS_AGREE_BELOW: u32 = 6;
/// Below this part of the rate delivered without excess loss, no loss is attributed to us: a stall of the link cut the rate, and a trial
/// would hold it there.
const CLEAN_PART: (u64, u64) = (1, 3);
/// The rate delivered without excess loss is kept for this long.
const CLEAN_FOR: Span = Span::from_secs(30);

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Cause {
    /// The medium's share of loss, once known.
    medium: Option<f64>,
    /// Whether it was seen at a lower rate, or with a queue. Until then it may be that of a policer present from the start.
    proven: bool,
    trial: Option<(Subject, Trial)>,
    ceiling: Option<Rate>,
    /// No trial begins before this.
    next_trial: Instant,
    next_test: Instant,
    /// Trials that found the medium, in a row; tests that confirmed the ceiling; tests that did not.
    acquitted: u32,
    confirmed: u32,
    passed: u32,
    /// The highest recent rate without excess loss.
    clean: Option<(Instant, Rate)>,
}

/// The subject of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    /// Loss that rose.
    Loss,
    /// A ceiling.
    Ceiling,
}

impl Cause {
    pub(crate) fn new() -> Self {
        Self {
            medium: None,
            proven: false,
            trial: None,
            ceiling: None,
            next_trial: Instant::ZERO,
            next_test: Instant::ZERO,
            acquitted: 0,
            confirmed: 0,
            passed: 0,
            clean: None,
        }
    }

    /// The rate above which loss was found to be ours.
    pub(crate) fn ceiling(&self) -> Option<Rate> {
        self.ceiling
    }
    /// The medium's share of loss, as far as known.
    pub(crate) fn medium(&self) -> f64 {
        self.medium.unwrap_or(0.0)
    }
    /// Ends a trial without a verdict, and removes the ceiling: the loss was caused by another flow.
    pub(crate) fn adjourn(&mut self) {
        self.trial = None;
        self.ceiling = None;
    }
    /// Thousandths of the served rate that must have been dropped before the queue, if that is certain.
    pub(crate) fn overflow(&self, losses: &Losses) -> u64 {
        let medium = self.medium();
        let excess = losses.single_share() - medium;
        if excess < OVERFLOW_MIN { 0 } else { (excess / (1.0 - medium).max(0.01) * 1000.0).clamp(0.0, 900.0) as u64 }
    }
    /// The rate that the link must have carried for `delivered` to arrive: only the medium's loss is added, so drops before the queue never
    /// raise a rate.
    pub(crate) fn carried(&self, delivered: Rate) -> Rate {
        let kept = (1.0 - self.medium()).clamp(0.05, 1.0);
        delivered.scale(1000, (kept * 1000.0) as u64)
    }
    /// Whether `share` is clearly more than the medium loses.
    pub(crate) fn exceeds(&self, share: f64) -> bool {
        share > self.medium() + PLATEAU_EXCESS
    }
    /// Whether a trial is in progress.
    pub(crate) fn trying(&self) -> bool {
        self.trial.is_some()
    }
    /// The part of the rate at which to send now.
    pub(crate) fn pacing_gain(&self) -> (u64, u64) {
        self.trial.as_ref().map_or((1, 1), |(_, trial)| trial.gain())
    }

    /// A packet's fate became known.
    pub(crate) fn resolved(&mut self, packet: &Resolved) {
        if let Some((_, trial)) = self.trial.as_mut().filter(|_| !packet.mtu_probe) {
            trial.resolved(packet);
        }
    }

    /// Attributes the recent loss to the medium: more arrived than ever.
    pub(crate) fn learn(&mut self, losses: &mut Losses, now: Instant) {
        let (judged, lost) = losses.tally();
        if judged >= LEARNT_MIN {
            let share = lost as f64 / judged as f64;
            self.medium = Some(self.medium.map_or(share, |m| m.min(share)));
            losses.reset_tally(now);
        }
    }

    /// Handles an ack.
    pub(crate) fn judge(&mut self, ack: &Judged, losses: &mut Losses) {
        let now = ack.now;
        if let Some((subject, trial)) = &mut self.trial {
            trial.advance(now);
            let subject = *subject;
            if let Some(verdict) = trial.judge(ack.settled, ack.sent, ack.queue) {
                self.trial = None;
                losses.reset_tally(now);
                self.decide(subject, verdict, ack);
            }
            return;
        }
        if let Some(ceiling) = self.ceiling.filter(|_| now >= self.next_test && !ack.limited) {
            let expected = 1.0 - UP_STEP.1 as f64 / UP_STEP.0 as f64;
            let trial = Trial::new(now, ack.rtt, ceiling, [(1, 1), UP_STEP], expected, TEST_AGREE);
            self.trial = Some((Subject::Ceiling, trial));
            return;
        }
        self.watch(ack, losses);
    }

    /// Checks whether loss rose above the medium's share.
    fn watch(&mut self, ack: &Judged, losses: &mut Losses) {
        let (now, full) = (ack.now, ack.full);
        let (judged, lost) = losses.tally();
        // Packets sent since the tally began need a round trip until their fate is known.
        let span = now.since(losses.tally_from()).saturating_sub(ack.rtt);
        let all = losses.tally_with_bursts().0;
        let enough = all >= JUDGED_MIN || (all >= JUDGED_SLOW && span >= JUDGE_SPAN_SLOW);
        if !enough || span < JUDGE_SPAN_MIN {
            return;
        }
        let judged = judged.max(1);
        let share = lost as f64 / judged as f64;
        let medium = if self.proven { self.medium() } else { 0.0 };
        // The mean of both: the medium's share is itself an estimate.
        let likely = f64::midpoint(medium, share).max(0.5 / judged as f64);
        let mut excess = share - medium;
        let mut ours = excess > EXCESS_MIN + SIGMAS * (likely * (1.0 - likely) / judged as f64).sqrt();
        let all_lost = losses.tally_with_bursts().1;
        let heavy = all_lost as f64 / all as f64 - medium;
        if heavy > HEAVY_EXCESS && span >= HEAVY_SPAN {
            ours = true;
            excess = heavy;
        }
        let clean = self.clean.filter(|clean| now.since(clean.0) < CLEAN_FOR).map(|clean| clean.1);
        let cut = clean.is_some_and(|clean| clean.scale(CLEAN_PART.0, CLEAN_PART.1) > ack.rate);
        if ours && now >= self.next_trial && !ack.limited && !ack.swings && !cut {
            let keep = ((1.0 - excess / (1.0 - medium)).max(LOW_MIN) * LOW_MARGIN * 1000.0) as u64;
            let below = clean.is_some_and(|clean| clean.scale(9, 10) > ack.rate.scale(keep, 1000));
            let agree = if below { LOSS_AGREE_BELOW } else { LOSS_AGREE };
            let trial = Trial::new(now, ack.rtt, ack.rate, [(keep, 1000), (1, 1)], excess, agree);
            self.trial = Some((Subject::Loss, trial));
            losses.reset_tally(now);
            return;
        }
        if !ours {
            self.note_clean(now, ack.rate);
        }
        // Without a trial, loss counts as the medium's only if something else limits us.
        let medium = self.medium();
        if (full && self.ceiling.is_none()) || share < medium {
            let weight = if share < medium { 0.5 } else { 0.125 };
            self.medium = Some(medium + (share - medium) * weight);
            self.proven |= full;
        }
        if judged >= JUDGED_MAX || full {
            losses.reset_tally(now);
        }
    }

    fn note_clean(&mut self, now: Instant, rate: Rate) {
        match &mut self.clean {
            Some((at, best)) if rate < *best && now.since(*at) < CLEAN_FOR => {}
            clean => *clean = Some((now, rate)),
        }
    }

    fn wait(&self, rtt: Span, doublings: u32) -> Span {
        TEST_WAIT.max(rtt.times(TEST_WAIT_RTTS)).times(1 << doublings)
    }

    fn decide(&mut self, subject: Subject, verdict: Verdict, ack: &Judged) {
        let now = ack.now;
        match (subject, verdict) {
            (Subject::Loss, Verdict::Ours { arrived, low }) => {
                self.proven = true;
                self.medium = Some(self.medium().min(low));
                self.ceiling = Some(self.carried(arrived).scale(CEILING_SHARE.0, CEILING_SHARE.1));
                self.acquitted = 0;
                self.confirmed = 0;
                self.passed = 0;
                self.next_test = now + self.wait(ack.rtt, 0);
            }
            (Subject::Loss, Verdict::Medium(share)) => {
                self.proven = true;
                self.next_test = now;
                // Loss at the lower rate is not caused by the higher one.
                self.medium = Some(f64::midpoint(self.medium(), share));
                self.next_trial = now + self.wait(ack.rtt, self.acquitted.min(TRIAL_WAIT_DOUBLINGS));
                self.acquitted += 1;
            }
            (_, Verdict::Void) => self.abort(now, ack.rtt),
            (Subject::Ceiling, Verdict::Ours { arrived, low }) => {
                self.medium = Some(self.medium().min(low));
                let found = self.carried(arrived).scale(CEILING_SHARE.0, CEILING_SHARE.1);
                self.ceiling = Some(found);
                self.passed = 0;
                self.confirmed += 1;
                self.next_test = now + self.wait(ack.rtt, self.confirmed.min(TEST_WAIT_DOUBLINGS));
            }
            (Subject::Ceiling, Verdict::Medium(share)) => {
                self.medium = Some(f64::midpoint(self.medium(), share));
                self.passed += 1;
                self.confirmed = 0;
                self.ceiling = self.ceiling.map(|c| c.scale(UP_STEP.0, UP_STEP.1)).filter(|_| self.passed < PASSES);
                self.next_test = now;
            }
        }
    }

    /// The queue shows that the link is the limit: no ceiling is needed.
    pub(crate) fn queue_seen(&mut self) {
        if matches!(self.trial, Some((Subject::Ceiling, _))) {
            self.adjourn();
        }
    }

    /// Ends a trial without a verdict; the next comes after a while.
    pub(crate) fn abort(&mut self, now: Instant, rtt: Span) {
        self.trial = None;
        self.next_trial = now + self.wait(rtt, 0);
        self.next_test = self.next_trial;
    }

    /// The path changed.
    pub(crate) fn forget(&mut self) {
        *self = Self::new();
    }
}

/// What an ack reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) now: Instant,
    pub(crate) rtt: Span,
    /// The lane's rate.
    pub(crate) rate: Rate,
    /// The fate of packets sent until then is known.
    pub(crate) settled: Instant,
    /// When the newest packet was sent, and its queueing delay.
    pub(crate) sent: Instant,
    pub(crate) queue: Span,
    /// The queue shows that the link is the limit.
    pub(crate) full: bool,
    /// The application had less to send.
    pub(crate) limited: bool,
    /// The link's own rate varies: slots of a trial cannot be compared.
    pub(crate) swings: bool,
}
