//! Decides whether loss is the medium's or caused by our own rate.
//!
//! Loss that does not follow our rate is the medium's and is ignored. When loss rises above what is known of the medium, a
//! [`Trial`] alternates between this rate and a lower one. If loss follows the rate, pair after pair (a policer, or a buffer
//! too short to show in the delay), what arrived becomes a ceiling. The ceiling stands on evidence only: it is tested
//! upward, and it falls when loss comes back below it.

#[cfg(test)]
mod tests;
mod trial;

use crate::lane::losses::Losses;
use crate::lane::sent::Resolved;
use trial::{Trial, Verdict};
use wavelane_base::{Instant, Rate, Span};

/// Excess below this is never acted on.
const EXCESS_MIN: f64 = 0.02;
/// Excess of the quickly smoothed share from which on a full queue is taken to overflow.
const OVERFLOW_MIN: f64 = 0.12;
/// And it must exceed this many standard deviations.
const SIGMAS: f64 = 4.0;
/// Packets a suspicion needs.
const JUDGED_MIN: u64 = 250;
/// Packets that teach startup something.
const LEARNT_MIN: u64 = 30;
/// On a slow lane so many do, after this long.
const JUDGED_SLOW: u64 = 20;
const JUDGE_SPAN_SLOW: Span = Span::from_secs(2);
/// Suspicions arise at least this far apart.
const JUDGE_SPAN_MIN: Span = Span::from_millis(50);
/// A tally is begun anew at the latest after this many.
const JUDGED_MAX: u64 = 1000;
/// Long runs are left out of the tally, because few policers make them; from this excess on,
/// over this time, they count.
const HEAVY_EXCESS: f64 = 0.25;
const HEAVY_SPAN: Span = Span::from_secs(1);
/// A share this far above the medium's, with a delivered rate that stands still, ends startup.
const PLATEAU_EXCESS: f64 = 0.05;
/// The lower rate of a trial lies this share below what the excess says, and is no lower than the other.
const LOW_MARGIN: f64 = 0.96;
const LOW_MIN: f64 = 0.1;
/// The ceiling is this share of what arrived.
const CEILING_SHARE: (u64, u64) = (98, 100);
/// A test of the ceiling raises the rate by this.
const UP_STEP: (u64, u64) = (120, 100);
/// So many tests passed in a row lift the ceiling.
const PASSES: u32 = 3;
/// The first test of a ceiling comes after this, or after so many round trips if that is longer; the wait doubles with
/// every test that confirms the ceiling, up to eight times the first.
const TEST_WAIT: Span = Span::from_secs(1);
const TEST_WAIT_RTTS: u64 = 6;
const TEST_WAIT_DOUBLINGS: u32 = 3;
/// After a trial that found the medium, the next comes after [`TEST_WAIT`], doubled with every such trial, so often at most.
const TRIAL_WAIT_DOUBLINGS: u32 = 3;
/// So many pairs must agree that a ceiling still holds, and that loss is ours; the latter more if we recently sent faster
/// without excess loss.
const TEST_AGREE: u32 = 1;
const LOSS_AGREE: u32 = 4;
const LOSS_AGREE_BELOW: u32 = 6;
/// Below this part of the rate that came through cleanly, no loss is ours: a stall of the link cut the rate, and a trial would
/// hold it there.
const CLEAN_PART: (u64, u64) = (1, 3);
/// The rate that came through cleanly is remembered for this long.
const CLEAN_FOR: Span = Span::from_secs(30);

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Cause {
    /// Share of losses that is the medium's, once known.
    medium: Option<f64>,
    /// Whether it was seen at a lower rate, or beside a queue. Until then it may be a policer's that was there from the start.
    proven: bool,
    trial: Option<(Subject, Trial)>,
    ceiling: Option<Rate>,
    /// No trial begins before.
    next_trial: Instant,
    next_test: Instant,
    /// Trials that found the medium, in a row; tests that confirmed the ceiling; tests that did not.
    acquitted: u32,
    confirmed: u32,
    passed: u32,
    /// The highest rate that came through without excess loss recently.
    clean: Option<(Instant, Rate)>,
}

/// What a trial is about.
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
    /// Share of losses that is the medium's, as far as known.
    pub(crate) fn medium(&self) -> f64 {
        self.medium.unwrap_or(0.0)
    }
    /// Ends a trial without a verdict, and lifts the ceiling: the loss was another flow's doing.
    pub(crate) fn adjourn(&mut self) {
        self.trial = None;
        self.ceiling = None;
    }
    /// Thousandths of what was served that must have been dropped before the queue, where that is beyond doubt.
    pub(crate) fn overflow(&self, losses: &Losses) -> u64 {
        let medium = self.medium();
        let excess = losses.single_share() - medium;
        if excess < OVERFLOW_MIN { 0 } else { (excess / (1.0 - medium).max(0.01) * 1000.0).clamp(0.0, 900.0) as u64 }
    }
    /// What the link must have carried for `delivered` to arrive: nothing but the medium's loss is added, so drops
    /// before the queue never raise a rate.
    pub(crate) fn carried(&self, delivered: Rate) -> Rate {
        let kept = (1.0 - self.medium()).clamp(0.05, 1.0);
        delivered.scale(1000, (kept * 1000.0) as u64)
    }
    /// Whether `share` is clearly more than the medium loses.
    pub(crate) fn exceeds(&self, share: f64) -> bool {
        share > self.medium() + PLATEAU_EXCESS
    }
    /// Whether a trial is under way.
    pub(crate) fn trying(&self) -> bool {
        self.trial.is_some()
    }
    /// Part of the rate at which to send now.
    pub(crate) fn pacing_gain(&self) -> (u64, u64) {
        self.trial.as_ref().map_or((1, 1), |(_, trial)| trial.gain())
    }

    /// A packet's fate became known.
    pub(crate) fn resolved(&mut self, packet: &Resolved) {
        if let Some((_, trial)) = self.trial.as_mut().filter(|_| !packet.mtu_probe) {
            trial.resolved(packet);
        }
    }

    /// What was lost recently is the medium's: more arrived than ever.
    pub(crate) fn learn(&mut self, losses: &mut Losses, now: Instant) {
        let (judged, lost) = losses.tally();
        if judged >= LEARNT_MIN {
            let share = lost as f64 / judged as f64;
            self.medium = Some(self.medium.map_or(share, |m| m.min(share)));
            losses.reset_tally(now);
        }
    }

    /// An ack has come.
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

    /// Looks whether loss rose above the medium's.
    fn watch(&mut self, ack: &Judged, losses: &mut Losses) {
        let (now, full) = (ack.now, ack.full);
        let (judged, lost) = losses.tally();
        // Packets sent since the tally began need a round trip to be judged at all.
        let span = now.since(losses.tally_from()).saturating_sub(ack.rtt);
        let all = losses.tally_with_bursts().0;
        let enough = all >= JUDGED_MIN || (all >= JUDGED_SLOW && span >= JUDGE_SPAN_SLOW);
        if !enough || span < JUDGE_SPAN_MIN {
            return;
        }
        let judged = judged.max(1);
        let share = lost as f64 / judged as f64;
        let medium = if self.proven { self.medium() } else { 0.0 };
        // Half of each: the medium's share is itself an estimate.
        let likely = f64::midpoint(medium, share).max(0.5 / judged as f64);
        let mut excess = share - medium;
        let mut ours = excess > EXCESS_MIN + SIGMAS * (likely * (1.0 - likely) / judged as f64).sqrt();
        let all_lost = losses.tally_with_bursts().1;
        let heavy = all_lost as f64 / all as f64 - medium;
        if heavy > HEAVY_EXCESS && span >= HEAVY_SPAN {
            (ours, excess) = (true, heavy);
        }
        let clean = self.clean.filter(|clean| now.since(clean.0) < CLEAN_FOR).map(|clean| clean.1);
        let cut = clean.is_some_and(|clean| clean.scale(CLEAN_PART.0, CLEAN_PART.1) > ack.rate);
        if ours && now >= self.next_trial && !ack.limited && !cut {
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
        // Only where something else limits us is loss the medium's without a trial.
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
                (self.acquitted, self.confirmed, self.passed) = (0, 0, 0);
                self.next_test = now + self.wait(ack.rtt, 0);
            }
            (Subject::Loss, Verdict::Medium(share)) => {
                self.proven = true;
                self.next_test = now;
                // What is lost at the lower rate is not caused by the higher one.
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

/// What an ack tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) now: Instant,
    pub(crate) rtt: Span,
    /// The lane's rate.
    pub(crate) rate: Rate,
    /// Of packets sent until then the fate is known.
    pub(crate) settled: Instant,
    /// When the newest packet was sent, and what it waited in queues.
    pub(crate) sent: Instant,
    pub(crate) queue: Span,
    /// The queue shows that the link is the limit.
    pub(crate) full: bool,
    /// The application had less to send.
    pub(crate) limited: bool,
}
