//! Runs a cell of the reference over enough seeds and takes the same figures as ns-3's programs do.

use super::reference::{Cell, Figure, Reference, WARM_UP_S};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wavelane_base::{Seed, Span};
use wavelane_measure::mean_ci95;
use wavelane_run::{Backend, BackendError, RadioRaw, RunContext, StackRaw};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::SimBackend;
use wavelane_study::ns3::cases::{Case, Noise};

/// The upper 95 % bound on the mean of a Poisson count of which none was seen (Hanley and Lippman-Hand, JAMA 249, 1983).
const RULE_OF_THREE: f64 = 3.0;
/// Runs at first, and at most.
const SEEDS: (usize, usize) = (6, 96);

/// How a figure is judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Bound {
    /// Within this share of ns-3's mean, our half width below it. Where ns-3's own half width is larger than that, the
    /// two intervals must meet.
    Share(f64),
    /// Within this share or within both intervals together.
    ShareOrInterval(f64),
    /// Not at all.
    Reported,
}

/// A figure of ns-3 beside ours.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Compared {
    /// ns-3's.
    pub(super) theirs: Figure,
    /// Its half width, or if it counted none, what the rate may have been all the same.
    pub(super) theirs_half: f64,
    /// Our mean and half width, the same.
    pub(super) ours: (f64, f64),
    /// How it is judged.
    pub(super) bound: Bound,
    /// Our runs.
    pub(super) runs: usize,
}

impl Compared {
    /// Ours over theirs less one.
    pub(super) fn off(&self) -> f64 {
        if self.theirs.mean == 0.0 { self.ours.0 } else { self.ours.0 / self.theirs.mean - 1.0 }
    }
    /// Whether the bound is kept; `None` if there is none.
    pub(super) fn holds(&self) -> Option<bool> {
        let (ours, half) = self.ours;
        let apart = (ours - self.theirs.mean).abs();
        match self.bound {
            Bound::Share(share) => {
                let limit = share * self.theirs.mean;
                // Where ns-3's own interval is wider than the bound, the two intervals must meet.
                let apart_enough = if self.theirs_half > limit { limit.max(half + self.theirs_half) } else { limit };
                Some(apart <= apart_enough && half <= limit)
            }
            Bound::ShareOrInterval(share) => {
                Some(apart <= (share * self.theirs.mean).max(half + self.theirs_half) + 1e-9)
            }
            Bound::Reported => None,
        }
    }
}

/// How each figure of a cell is judged.
pub(super) fn bound(cell: &Cell, metric: &str) -> Bound {
    let total = match cell {
        // Answers of a whole aggregate come in during it in ns-3, and at its end here (docs/models/ns3.md).
        Cell::Aggregates(of) if of.ac && of.tcp => return Bound::Reported,
        Cell::Of(Case::Bulk { rts: true, .. } | Case::Chain { sense: 0 | 1, .. } | Case::Grid { .. }) => {
            return Bound::Reported;
        }
        Cell::Of(Case::Bulk { noise: Noise::None, .. } | Case::Chain { .. } | Case::Saturation { .. }) => 0.02,
        Cell::Of(Case::Bulk { .. }) | Cell::Aggregates(_) => 0.05,
    };
    match metric {
        "total_kbps" | "total_mbps" | "p_coll" => Bound::Share(total),
        "mac_tx_per_s" | "mac_drops_per_s" | "ack_missing_per_s" | "attempts_per_s" | "retry_drops_per_s" => {
            Bound::ShareOrInterval(0.1)
        }
        _ => Bound::Reported,
    }
}

/// Seconds that a run is measured for.
fn measured_s(cell: &Cell) -> u64 {
    match cell {
        Cell::Of(Case::Bulk { .. }) => 100,
        Cell::Of(_) => 20,
        // Up to 50,000 frames a second, and intervals below 1 %.
        Cell::Aggregates(_) => 2,
    }
}

/// Compares one cell, over as many seeds as its narrowest bound needs.
pub(super) fn compare(reference: &Reference, first: Seed, jobs: usize) -> Result<Vec<Compared>, BackendError> {
    let seconds = measured_s(&reference.case);
    let scenario = Scenario::parse(&reference.case.text(WARM_UP_S + seconds), Path::new("."))
        .map_err(|why| BackendError::Failed(why.to_string()))?;
    let mut runs: Vec<BTreeMap<&'static str, f64>> = Vec::new();
    loop {
        let next = if runs.is_empty() { SEEDS.0 } else { runs.len().min(SEEDS.1 - runs.len()) };
        runs.extend(run_some(&scenario, first.0 + runs.len() as u64, next, jobs)?);
        let compared = figures(reference, &runs);
        let wide = |c: &Compared| match c.bound {
            Bound::Share(share) => c.ours.1 > 0.5 * share * c.theirs.mean,
            _ => false,
        };
        if runs.len() >= SEEDS.1 || !compared.iter().any(wide) {
            return Ok(compared);
        }
    }
}

fn figures(reference: &Reference, runs: &[BTreeMap<&'static str, f64>]) -> Vec<Compared> {
    let of = |figure: &Figure| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(figure.metric.as_str()).copied()).collect();
        let (mean, half) = mean_ci95(&values)?;
        let or_bound = |mean: f64, half: f64, runs: f64, measured_s: f64| match figure.counted_s(measured_s) {
            Some(seconds) if mean == 0.0 => RULE_OF_THREE / (runs * seconds),
            _ => half,
        };
        let ours_s = measured_s(&reference.case) as f64;
        Some(Compared {
            theirs: figure.clone(),
            theirs_half: or_bound(figure.mean, figure.ci95, f64::from(figure.runs), reference.measured_s),
            ours: (mean, or_bound(mean, half.unwrap_or(0.0), values.len() as f64, ours_s)),
            bound: bound(&reference.case, &figure.metric),
            runs: values.len(),
        })
    };
    reference.figures.iter().filter_map(of).collect()
}

/// Runs `count` seeds from `first` on by `jobs` threads; the results stand in the seeds' order.
fn run_some(
    scenario: &Scenario,
    first: u64,
    count: usize,
    jobs: usize,
) -> Result<Vec<BTreeMap<&'static str, f64>>, BackendError> {
    let next = AtomicU64::new(0);
    let results = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count as u64 {
                return;
            }
            let result = run_one(scenario, Seed(first + place));
            if let Ok(mut results) = results.lock() {
                results.insert(place, result);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..jobs).for_each(|_| drop(scope.spawn(worker)));
        worker();
    });
    results.into_inner().unwrap_or_default().into_values().collect()
}

fn run_one(scenario: &Scenario, seed: Seed) -> Result<BTreeMap<&'static str, f64>, BackendError> {
    let stack = scenario.stacks.first().copied().unwrap_or(Stack::UDP);
    let mut context = RunContext {
        out: Path::new("."),
        label: String::new(),
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut |_| {},
        cancelled: &AtomicBool::new(false),
    };
    let raw = SimBackend.run_stack(scenario, stack, seed, &mut context)?;
    Ok(measure(scenario, &raw))
}

/// The figures of one run, by their names in the reference.
fn measure(scenario: &Scenario, raw: &StackRaw) -> BTreeMap<&'static str, f64> {
    let (from, until) = (WARM_UP_S * 1_000_000_000, scenario.duration.as_nanos());
    let kbps: Vec<f64> = raw
        .flows
        .iter()
        .map(|flow| {
            let counted = flow.arrivals.iter().filter(|(at, _)| (from..until).contains(at));
            let octets: u64 = counted.map(|(_, octets)| octets).sum();
            octets as f64 * 8e6 / (until - from) as f64
        })
        .collect();
    let total: f64 = kbps.iter().sum();
    let squares: f64 = kbps.iter().map(|k| k * k).sum();
    let fair = if squares > 0.0 { total * total / (kbps.len() as f64 * squares) } else { 0.0 };
    let mut figures = BTreeMap::from([
        ("total_kbps", total),
        ("total_mbps", total / 1e3),
        ("jain", fair),
        ("min_flow_kbps", kbps.iter().copied().fold(f64::INFINITY, f64::min)),
        ("max_flow_kbps", kbps.iter().copied().fold(0.0, f64::max)),
    ]);
    for radio in &raw.radios {
        figures.extend(of_radio(radio));
    }
    figures
}

fn of_radio(radio: &RadioRaw) -> Vec<(&'static str, f64)> {
    let per_s = |count: u64| count as f64 / radio.span.max(Span::from_nanos(1)).as_secs_f64();
    vec![
        ("mac_tx_per_s", per_s(radio.frames)),
        ("mac_drops_per_s", per_s(radio.given_up)),
        ("ack_missing_per_s", per_s(radio.ack_missing)),
        ("cts_missing_per_s", per_s(radio.cts_missing)),
        ("attempts_per_s", per_s(radio.data)),
        ("retry_drops_per_s", per_s(radio.given_up)),
        ("p_coll", radio.ack_missing as f64 / radio.data.max(1) as f64),
    ]
}
