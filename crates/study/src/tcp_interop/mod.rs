//! Our TCP against the Linux kernel's: bulk transfers between both, counters, goodput over lossy links, fairness, and
//! the demo scenario in the simulator beside the laboratory.
//!
//! Everything runs over [`wavelane_channel::Cable`] with the same dice: in real time between kernels and hosts of ours
//! ([`wavelane_lab::duel`]), and in virtual time through the simulator.

mod bulk;
mod cells;
mod counts;
mod demo;
#[cfg(test)]
mod tests;

use crate::document::{Edition, Row, StudyDocument};
use crate::observe::unwritable;
use crate::ours::Ours;
use crate::{Setup, StudyError};
use serde_json::{Map, Value};
use std::sync::atomic::AtomicBool;
use wavelane_base::{Octets, Rate, Ratio, Seed, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, QueueLimit};
use wavelane_lab::duel::{self, Duel, DuelEnd, Side};
use wavelane_measure::mean_ci95;
use wavelane_measure::{sample_deviation, student_t_975};
use wavelane_run::{BackendError, RunError, RunHooks, Verdict};
use wavelane_scenario::{Stack, TcpKind};
use wavelane_tcp::{Config, CongestionControl};

/// The study's id.
pub(crate) const ID: &str = "tcp-interop";
/// What can be run alone; "reordering" is the three that follow it.
pub(crate) const PARTS: [&str; 8] =
    ["captures", "loss", "reordering", "late", "late-slow", "very-late", "goodput", "demo"];
/// The link's name, from which its dice follow, in every backend.
const LINK: &str = "air";

/// Runs all parts and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    std::fs::create_dir_all(&options.out).map_err(unwritable(&options.out))?;
    let watch = hooks;
    let full = options.edition == Edition::Full;
    let mut rows = Vec::new();
    if options.wants("captures") {
        rows.extend(bulk::captured(options, watch)?);
    }
    for trouble in bulk::Trouble::ALL.into_iter().filter(|trouble| trouble.parts().iter().any(|p| options.wants(p))) {
        rows.extend(bulk::rows(options, full, trouble, watch)?);
    }
    if options.wants("goodput") {
        rows.extend(cells::rows(options, full, watch)?);
    }
    if options.wants("demo") {
        rows.extend(demo::rows(options, full, watch)?);
    }
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

/// The hooks for progress and cancelling.
type Watch<'a> = &'a RunHooks<'a>;

/// A congestion control that both TCPs have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Control {
    Reno,
    Cubic,
    Bbr,
}

impl Control {
    const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Bbr];

    /// The kernel's word.
    fn word(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
    fn stack(self) -> Stack {
        let kind = match self {
            Self::Reno => TcpKind::Reno,
            Self::Cubic => TcpKind::Cubic,
            Self::Bbr => TcpKind::Bbr,
        };
        Stack::tcp(kind)
    }
    /// Our profile of it: Linux's, without Nagle, and with a receive window of `window` at the most.
    fn config(self, window: Option<u32>) -> Config {
        let control = match self {
            Self::Reno => CongestionControl::NewReno,
            Self::Cubic => CongestionControl::Cubic,
            Self::Bbr => CongestionControl::Bbr,
        };
        let linux = Config::linux(control);
        let receive_buffer = window.map_or(linux.receive_buffer, |window| window as usize);
        Config { nagle: false, receive_buffer, ..linux }
    }
}

/// Who is at an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Kernel,
    Ours,
}

impl Who {
    fn word(self) -> &'static str {
        match self {
            Self::Kernel => "linux",
            Self::Ours => "ours",
        }
    }
}

/// A link with the same rate, delay and queue both ways.
fn link(mbit: u64, round_trip: Span, queue: u64) -> CableConfig {
    CableConfig::symmetric(DirectionConfig {
        rate: Some(Rate::from_bps(mbit * 1_000_000)),
        delay: round_trip.scale(1, 2),
        queue: QueueLimit::Octets(Octets::new(queue)),
        ..DirectionConfig::default()
    })
}

/// `link` with random losses towards the receiver, in tenths of a per cent.
fn losing(mut link: CableConfig, per_mille: u32) -> CableConfig {
    let p = Ratio::new(per_mille, 1_000).expect("at most the whole");
    link.forward.loss = LossConfig::Random { p };
    link
}

/// Runs one duel.
fn fight(duel: &Duel, who: [Who; 2], control: Control, cancelled: &AtomicBool) -> Result<DuelEnd<Ours>, StudyError> {
    let side = |place: usize| match who[place] {
        Who::Kernel => Side::Kernel(control.word()),
        Who::Ours => Side::EndHost(Ours::new(control.config(duel.window), duel.seed, ["sender", "receiver"][place])),
    };
    duel::run(duel, [side(0), side(1)], cancelled).map_err(|error| failure(control, duel.seed, error.into()))
}

fn failure(control: Control, seed: Seed, error: BackendError) -> StudyError {
    match error {
        BackendError::Cancelled => RunError::Cancelled.into(),
        error => RunError::Stack { stack: control.stack(), seed: seed.0, error }.into(),
    }
}

/// A row about `stack` with its cell.
fn row(backend: &str, stack: &str, metric: &str, unit: &str, case: Value) -> Row {
    let case = case.as_object().cloned().unwrap_or_else(Map::new);
    Row { case, ..Row::new(ID, backend, stack, metric, unit) }
}

/// Whether two lists of figures are of the same seeds, one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seeds {
    /// Both met the same dice, so what a seed did to both does not count as chance.
    Same,
    Own,
}

/// Judges the ratio of the means, ours over theirs: within `within` of 1. One outside it whose 95 % interval reaches in
/// proves nothing yet. The mean of the ratios by seed would be too large wherever theirs varies much.
fn judge_ratio(row: &mut Row, ours: &[f64], theirs: &[f64], seeds: Seeds, within: f64) {
    let means = mean_ci95(ours).zip(mean_ci95(theirs)).filter(|(_, (theirs, _))| *theirs > 0.0);
    let Some(((a, _), (b, _))) = means else {
        row.verdict = Verdict::Inconclusive;
        row.why = "no run gave the figure".into();
        return;
    };
    // A run without the figure leaves a list that can no longer be told by seed.
    let half = match seeds {
        Seeds::Same if ours.len() == theirs.len() => paired_half(ours, theirs),
        _ => ratio_half(ours, theirs),
    };
    let ratio = a / b;
    row.value = Some(ratio);
    row.ci95 = half;
    row.n = ours.len() as u64;
    let away = (ratio - 1.0).abs();
    row.verdict = if away <= within {
        Verdict::Pass
    } else if away - half.unwrap_or(0.0) <= within {
        Verdict::Inconclusive
    } else {
        Verdict::Fail
    };
    let (n, m, half) = (ours.len(), theirs.len(), half.map_or(String::new(), |half| format!(" ± {half:.3}")));
    row.why = format!("{ratio:.3}{half} ({n} runs over {m}), wanted within {within} of 1");
}

/// The 95 % half-width of the ratio of two means over the same seeds: Student's t on what each pair is off the ratio
/// (the ratio estimator of sampling theory: Cochran, Sampling Techniques, 3rd ed., section 6.3).
fn paired_half(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let (a, b) = (mean_ci95(ours)?.0, mean_ci95(theirs)?.0);
    let off: Vec<f64> = ours.iter().zip(theirs).map(|(x, y)| x - a / b * y).collect();
    let n = off.len() as f64;
    Some(student_t_975(off.len() as u32 - 1)? * sample_deviation(&off)? / n.sqrt() / b)
}

/// The 95 % half-width of the ratio of two independent means by propagation of errors, with Welch's degrees of freedom.
fn ratio_half(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let relative = |values: &[f64]| -> Option<(f64, f64)> {
        let (n, mean) = (values.len() as f64, mean_ci95(values)?.0);
        let error = sample_deviation(values)? / n.sqrt() / mean;
        Some((error * error, n - 1.0))
    };
    let ((a, n), (b, m)) = (relative(ours)?, relative(theirs)?);
    if a + b == 0.0 {
        return Some(0.0);
    }
    let freedom = (a + b) * (a + b) / (a * a / n + b * b / m);
    let ratio = mean_ci95(ours)?.0 / mean_ci95(theirs)?.0;
    Some(student_t_975(freedom.floor().max(1.0) as u32)? * ratio * (a + b).sqrt())
}
