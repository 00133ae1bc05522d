//! Hop's mechanisms over several hops, each in the scenario that it was made for, with it and without it.
//!
//! The scenarios are those of the block-switching work of 2009 (`S2-...`), in the simulator, on cables and in radio cells, and some between
//! kernels: `plan.toml` has them, and here is what makes rows of them.

mod judge;
mod overhearing;
mod radio;

use crate::cells;
use crate::document::{Edition, StudyDocument};
use crate::experiments::{self, Experiment, LAB};
use crate::plan;
use crate::{Setup, StudyError};
use std::path::Path;
use wavelane_run::{CaptureExtent, RunDocument, Series, StackResult};

/// The study's id.
pub(crate) const ID: &str = "hop-mechanisms";
/// Its parts: one mechanism each, and some of them between kernels.
pub(crate) const PARTS: [&str; 8] =
    ["backpressure", "vtx", "micro-blocks", "chain", "sealed", "withholding", "overhearing", LAB];

/// Its runs by name and scenario.
type Task = Experiment<(String, String), Option<Seen>>;

/// A run of several seeds.
struct Seen {
    stack: StackResult,
    /// Per bulk flow: its seed, and bytes by time in seconds.
    arrivals: Vec<(u64, Vec<(f64, u64)>)>,
}

/// Reads what a Record holds; nothing if its stack was not run or its series are gone.
fn seen(document: &RunDocument) -> Option<Seen> {
    let stack = document.stacks.first()?.clone();
    let record = Path::new(&document.record);
    let mut arrivals = Vec::new();
    for figures in stack.flows.iter().filter(|flow| flow.app != "echo") {
        if let Series::Arrivals(list) = document.series(record, &stack.stack, figures).ok()? {
            let points = list.into_iter().map(|(at, octets)| (at as f64 / 1e9, octets)).collect();
            arrivals.push((figures.seed, points));
        }
    }
    Some(Seen { stack, arrivals })
}

impl Seen {
    /// Bits per second of all bulk flows together from second `from` to second `until`, per seed.
    fn goodput(&self, from: f64, until: f64) -> Vec<f64> {
        let mut seeds: Vec<u64> = self.arrivals.iter().map(|(seed, _)| *seed).collect();
        seeds.dedup();
        let of = |seed: u64| {
            let flows = self.arrivals.iter().filter(|(of, _)| *of == seed);
            let points = flows.flat_map(|(_, points)| points).filter(|(at, _)| (from..until).contains(at));
            points.map(|(_, octets)| *octets as f64 * 8.0).sum::<f64>() / (until - from)
        };
        seeds.into_iter().map(of).collect()
    }
    /// Jain's index of the bulk flows' shares in that time, per seed.
    fn jain(&self, from: f64, until: f64) -> Vec<f64> {
        let mut seeds: Vec<u64> = self.arrivals.iter().map(|(seed, _)| *seed).collect();
        seeds.dedup();
        let of = |seed: u64| {
            let within = |points: &[(f64, u64)]| {
                let points = points.iter().filter(|(at, _)| (from..until).contains(at));
                points.map(|(_, octets)| *octets as f64).sum::<f64>()
            };
            let flows = self.arrivals.iter().filter(|(of, _)| *of == seed).map(|(_, points)| within(points));
            let (count, sum, squares) =
                flows.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
            if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 }
        };
        seeds.into_iter().map(of).collect()
    }
    /// A figure of a flow per seed.
    fn figure(&self, flow: &str, figure: impl Fn(&wavelane_run::figures::FlowFigures) -> Option<f64>) -> Vec<f64> {
        cells::values(&self.stack, flow, figure)
    }
}

/// The experiments of an edition.
fn tasks(edition: Edition) -> Vec<Task> {
    plan::experiments(include_str!("plan.toml"), edition, &PARTS, judge::of)
}

/// Runs the edition's experiments on all processors and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    experiments::run(ID, CaptureExtent::Headers, tasks(setup.options.edition).into_iter(), seen, setup)
}

#[cfg(test)]
mod tests;
