//! What losses, failed phases and missing answers leave of a grade and of a score: both are computed from answers alone.

use crate::document::PhaseFigures;
use crate::figures::{Window, ms};
use crate::load::PING_EVERY;
use crate::plan::{Beside, Measurement, Stage, StageKind};
use crate::train::Sample;
use wavelane_base::{Instant, Span};
use wavelane_measure::{
    Confidence, LOST_RANK_MS, LOST_RANKS_ABOVE, Rpm, RpmInterval, best_at_loss, is_worse, ranked_ms, rpm_bound,
};

/// Handshakes beside the load, and pings inside it, are made this often.
const ASKED_EVERY: Span = PING_EVERY;

/// Small packets of a phase: the round trips of the answered ones, and how many were not.
pub(crate) struct Smalls {
    pub(crate) answered: Vec<Span>,
    pub(crate) lost: u64,
}

impl Smalls {
    /// Of datagrams; what sockets dropped is not the network's loss.
    pub(crate) fn of_datagrams(m: &Measurement, samples: &[Sample], answered: Vec<Span>) -> Self {
        let lost = (samples.len() - answered.len()) as u64;
        Self { answered, lost: lost.saturating_sub(m.socket_drops.server.saturating_add(m.socket_drops.own)) }
    }

    /// Of handshakes: those that failed, or those that would have been begun in silences too long for an answer.
    pub(crate) fn of_handshakes(stage: &Stage, window: Window) -> Self {
        let within = stage.smalls.iter().filter(|s| window.holds(s.begun));
        let done = within.clone().map(|s| s.begun + s.connect);
        let loaded = stage.kind.ways() != (false, false);
        let lost = if loaded { stage.failures.0.max(silent(done, window)) } else { 0 };
        Self { answered: within.map(|s| s.connect).collect(), lost }
    }

    /// The share of them without an answer.
    pub(crate) fn lost_share(&self) -> f64 {
        let all = self.answered.len() as u64 + self.lost;
        if all == 0 { 0.0 } else { self.lost as f64 / all as f64 }
    }

    /// The most that a score can be beside them.
    fn rpm_bound(&self) -> Option<f64> {
        let lost = std::iter::repeat_n(None, usize::try_from(self.lost).unwrap_or(usize::MAX).min(MISSING_MAX));
        let all = ranked_ms(self.answered.iter().map(|rtt| Some(ms(*rtt))).chain(lost));
        rpm_bound(&all, all.len() - self.answered.len())
    }
}

/// Missing answers that are counted: those of a day.
const MISSING_MAX: usize = 1_000_000;

/// Questions that silences swallowed, at one each [`ASKED_EVERY`].
fn silent(answers: impl Iterator<Item = Instant>, window: Window) -> u64 {
    let mut ends: Vec<Instant> = answers.filter(|at| *at < window.to).chain([window.from, window.to]).collect();
    ends.sort_unstable();
    let gaps = ends.windows(2).map(|w| w[1].since(w[0])).filter(|gap| *gap > LOST_RANKS_ABOVE);
    gaps.map(|gap| gap.as_nanos() / ASKED_EVERY.as_nanos()).sum()
}

/// Adds questions inside the load that had no answer, each as one that took [`LOST_RANK_MS`].
pub(crate) fn add_missing(stage: &Stage, window: Window, intervals: &mut [RpmInterval]) {
    // When they were asked is unknown: the last interval is in every score.
    let missing = usize::try_from(stage.unanswered.0).unwrap_or(usize::MAX).min(MISSING_MAX);
    // Where there is no answer at all, they may not have been asked: HTTP/1.1 has none.
    let silent = if stage.selfs.is_empty() { 0 } else { silent(stage.selfs.iter().map(|s| s.back), window) };
    let missing = missing.max(usize::try_from(silent).unwrap_or(usize::MAX).min(MISSING_MAX));
    if let Some(last) = intervals.last_mut() {
        last.loaded_ms.extend(std::iter::repeat_n(LOST_RANK_MS, missing));
    }
}

/// The score, no better than the small packets beside the load allow; and whether they bound it. Where nothing has a score, such as
/// a transfer that never began, they alone say how good it can be.
pub(crate) fn score(score: Option<Rpm>, smalls: &Smalls) -> Option<(Rpm, bool)> {
    let most = smalls.rpm_bound().filter(|most| score.is_none_or(|score| *most < score.rpm));
    match (most, score) {
        (Some(rpm), Some(score)) => Some((Rpm { rpm, ..score }, true)),
        (Some(rpm), None) => Some((Rpm { rpm, foreign: rpm, loaded: rpm, confidence: Confidence::Low }, true)),
        (None, score) => score.map(|score| (score, false)),
    }
}

/// The phase of load without a score beside phases that have one: the worst is then unknown.
pub(crate) fn unscored(phases: &[PhaseFigures]) -> Option<&PhaseFigures> {
    let some_have = phases.iter().any(|p| p.rpm.is_some());
    phases.iter().find(|p| some_have && loads(p) && p.rpm.is_none())
}

fn loads(p: &PhaseFigures) -> bool {
    [StageKind::Down, StageKind::Up, StageKind::Both].iter().any(|kind| kind.word() == p.phase)
}

/// A letter after what was lost, and why it is no better: `None` if the delays alone gave it.
pub(crate) struct Graded {
    pub(crate) letter: Option<&'static str>,
    pub(crate) bound: Option<String>,
}

/// The letter that `by_delay` leaves with these phases.
pub(crate) fn grade(by_delay: Option<&'static str>, phases: &[PhaseFigures], after: Option<&PhaseFigures>) -> Graded {
    if !phases.iter().any(loads) {
        return Graded { letter: None, bound: None };
    }
    let worst = phases.iter().chain(after).max_by(|a, b| a.unanswered_share.total_cmp(&b.unanswered_share));
    let most = worst.and_then(|p| Some((best_at_loss(p.unanswered_share)?, p)));
    if let Some((best, p)) = most
        && by_delay.is_none_or(|letter| is_worse(best, letter))
    {
        let bound = format!("{} {:.1} % of all small packets had no answer", when(p.phase), p.unanswered_share * 100.0);
        return Graded { letter: Some(best), bound: Some(bound) };
    }
    // A direction that carries nothing is not one in which nothing waits.
    let void = phases.iter().find(|p| loads(p) && p.is_void());
    match void {
        Some(p) => Graded { letter: None, bound: Some(format!("{} nothing was transferred", when(p.phase))) },
        None => Graded { letter: by_delay, bound: None },
    }
}

pub(crate) fn when(phase: &str) -> &'static str {
    match phase {
        "idle" => "before the load",
        "down" => "in the download",
        "up" => "in the upload",
        "both" => "in the download and upload at once",
        _ => "after the load",
    }
}

/// Small packets beside the load, of the kind that was measured.
pub(crate) fn smalls(m: &Measurement, stage: &Stage, window: Window, samples: &[Sample]) -> Smalls {
    match m.beside {
        Beside::Datagrams => {
            Smalls::of_datagrams(m, samples, samples.iter().filter_map(crate::figures::round_trip).collect())
        }
        Beside::Connections(_) => Smalls::of_handshakes(stage, window),
    }
}
