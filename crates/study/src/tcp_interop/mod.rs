//! Our TCP against the Linux kernel's: bulk transfers between both, counters, goodput over lossy links, fairness, and
//! the demo scenario in the simulator beside the laboratory.
//!
//! Everything runs over [`wavelane_channel::Cable`] with the same dice: in real time between kernels and hosts of ours
//! ([`wavelane_lab::duel`]), and in virtual time through the simulator.

mod bulk;
mod cells;
mod demo;
mod pool;
#[cfg(test)]
mod tests;

use crate::document::{Edition, Row, StudyDocument};
use crate::ours::Ours;
use crate::{MakeBackend, StudyError, StudyOptions};
use serde_json::{Map, Value};
use std::sync::atomic::AtomicBool;
use wavelane_base::{Octets, Rate, Ratio, Seed, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, QueueLimit};
use wavelane_lab::duel::{self, Duel, DuelEnd, Side};
use wavelane_protocol::tcp::{Config, CongestionControl};
use wavelane_scenario::{BackendError, Progress, RunError, RunHooks, Stack, TcpKind, Verdict};

/// The study's id.
pub(crate) const ID: &str = "tcp-interop";
/// The link's name, from which its dice follow, in every backend.
const LINK: &str = "air";

/// Runs all parts and judges them.
pub(crate) fn run(
    _make: &MakeBackend<'_>,
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<StudyDocument, StudyError> {
    std::fs::create_dir_all(&options.out)
        .map_err(|e| RunError::Unwritable { path: options.out.clone(), why: e.to_string() })?;
    let watch = Watch { progress: hooks.progress, cancelled: hooks.cancelled };
    let full = options.edition == Edition::Full;
    let mut rows = bulk::rows(options, full, watch)?;
    rows.extend(cells::rows(options, full, watch)?);
    rows.extend(demo::rows(options, full, watch)?);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

/// The part of the hooks that threads may share.
#[derive(Clone, Copy)]
struct Watch<'a> {
    progress: &'a (dyn Fn(Progress) + Sync),
    cancelled: &'a AtomicBool,
}

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
        Stack::Tcp { kind, rts: false }
    }
    /// Our profile of it: Linux's, without Nagle.
    fn config(self) -> Config {
        let control = match self {
            Self::Reno => CongestionControl::NewReno,
            Self::Cubic => CongestionControl::Cubic,
            Self::Bbr => CongestionControl::Bbr,
        };
        Config { nagle: false, ..Config::linux(control) }
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
        Who::Ours => Side::Guest(Ours::new(control.config(), duel.seed, ["sender", "receiver"][place])),
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
    Row {
        id: ID.into(),
        case: case.as_object().cloned().unwrap_or_else(Map::new),
        backend: backend.into(),
        stack: stack.into(),
        metric: metric.into(),
        unit: unit.into(),
        value: None,
        ci95: None,
        n: 0,
        published: None,
        bound: None,
        verdict: Verdict::Info,
        why: String::new(),
    }
}

/// Judges `ratio` of ours over the kernel's: within `within` of 1. A mean outside it whose 95 % interval reaches in
/// proves nothing yet.
fn judge_ratio(row: &mut Row, ratios: &[f64], within: f64) {
    let Some((mean, half)) = wavelane_scenario::figures::mean_ci95(ratios) else {
        row.verdict = Verdict::Inconclusive;
        row.why = "no run gave the figure".into();
        return;
    };
    (row.value, row.ci95, row.n) = (Some(mean), half, ratios.len() as u64);
    let away = (mean - 1.0).abs();
    row.verdict = if away <= within {
        Verdict::Pass
    } else if away - half.unwrap_or(0.0) <= within {
        Verdict::Inconclusive
    } else {
        Verdict::Fail
    };
    row.why = format!("{mean:.3}, wanted within {within} of 1");
}
