//! What a cell's Record holds, read once: what arrived when, and how long echoes took.

use super::{BULK, ECHO, ID, OURS};
use crate::cells::{Head, joined};
use serde_json::Value;
use std::path::Path;
use wavelane_measure::{percentile, ranked_ms};
use wavelane_run::figures::FlowFigures;
use wavelane_run::{Omitted, RunDocument, Series, StackResult};

/// One stack's run of one seed.
struct Run {
    /// When bytes of the bulk flow arrived, in s, and how many.
    arrivals: Vec<(f64, u64)>,
    /// When echoes were due, in s, and how long they took, in ms.
    echoes: Vec<(f64, Option<f64>)>,
}

/// One stack's results in a cell.
pub(super) struct StackSeen {
    pub(super) result: StackResult,
    /// By seed.
    runs: Vec<Run>,
}

/// A cell of several stacks and seeds.
pub(super) struct Seen {
    backend: String,
    stacks: Vec<StackSeen>,
    /// Stacks that could not run, and why.
    omitted: Vec<Omitted>,
}

impl Seen {
    /// Reads a Record; what it lacks is missing from every figure.
    pub(super) fn of(document: &RunDocument) -> Self {
        let record = Path::new(&document.record);
        let of_stack = |result: &StackResult| {
            let mut seeds: Vec<u64> = result.flows.iter().map(|flow| flow.seed).collect();
            seeds.dedup();
            let series = |flow: &str, seed: u64| {
                let figures = result.flows.iter().find(|f| f.flow == flow && f.seed == seed)?;
                document.series(record, &result.stack, figures).ok()
            };
            let run = |seed: u64| {
                let s = |ns: u64| ns as f64 / 1e9;
                let ms = |ns: u64| ns as f64 / 1e6;
                let arrivals = match series(BULK, seed) {
                    Some(Series::Arrivals(list)) => list.into_iter().map(|(at, octets)| (s(at), octets)).collect(),
                    _ => Vec::new(),
                };
                let echoes = match series(ECHO, seed) {
                    Some(Series::Probes(list)) => list.into_iter().map(|(at, rtt)| (s(at), rtt.map(ms))).collect(),
                    _ => Vec::new(),
                };
                Run { arrivals, echoes }
            };
            StackSeen { result: result.clone(), runs: seeds.into_iter().map(run).collect() }
        };
        Self {
            backend: document.backend.clone(),
            stacks: document.stacks.iter().map(of_stack).collect(),
            omitted: document.omitted.clone(),
        }
    }

    /// What all rows of one stack in this cell share.
    pub(super) fn head(&self, case: &[(&'static str, Value)], stack: &str) -> Head {
        Head::new(ID, &self.backend, case, stack)
    }

    /// Our word, and those of the other stacks that were run.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        let others = self.stacks.iter().map(|seen| seen.result.stack.as_str()).filter(|word| *word != OURS);
        std::iter::once(OURS).chain(others)
    }

    /// A stack's results.
    pub(super) fn stack(&self, word: &str) -> Option<&StackSeen> {
        self.stacks.iter().find(|seen| seen.result.stack == word)
    }

    /// Why a stack did not run, if it did not.
    pub(super) fn omission(&self, word: &str) -> Option<&str> {
        self.omitted.iter().find(|omitted| omitted.stack == word).map(|omitted| omitted.why.as_str())
    }

    #[cfg(test)]
    pub(super) fn nothing() -> Self {
        Self { backend: "sim".into(), stacks: Vec::new(), omitted: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn without(stack: &str, why: &str) -> Self {
        let omitted = vec![Omitted { stack: stack.into(), why: why.into() }];
        Self { backend: "lab".into(), stacks: Vec::new(), omitted }
    }
}

impl StackSeen {
    /// Bits per second of the bulk flow from second `from` to second `until`, per seed.
    pub(super) fn goodput(&self, from: f64, until: f64) -> Vec<f64> {
        let of = |run: &Run| {
            let points = run.arrivals.iter().filter(|(at, _)| (from..until).contains(at));
            points.map(|(_, octets)| *octets as f64 * 8.0).sum::<f64>() / (until - from)
        };
        self.runs.iter().map(of).collect()
    }

    /// Delays of the echoes due from second `from` to second `until`, sorted, per seed; one without answer ranks last.
    fn echoes(&self, from: f64, until: f64) -> Vec<Vec<f64>> {
        let of =
            |run: &Run| ranked_ms(run.echoes.iter().filter(|(at, _)| (from..until).contains(at)).map(|(_, ms)| *ms));
        self.runs.iter().map(of).collect()
    }

    /// A percentile of them.
    pub(super) fn echo(&self, percent: u64, from: f64, until: f64) -> Vec<f64> {
        self.echoes(from, until).iter().filter_map(|all| percentile(all, percent)).collect()
    }

    /// Their mean.
    pub(super) fn echo_mean(&self, from: f64, until: f64) -> Vec<f64> {
        let all = self.echoes(from, until).into_iter().filter(|all| !all.is_empty());
        all.map(|all| all.iter().sum::<f64>() / all.len() as f64).collect()
    }

    /// How many there are in the run with the fewest.
    pub(super) fn echo_count(&self, from: f64, until: f64) -> usize {
        self.echoes(from, until).iter().map(Vec::len).min().unwrap_or(0)
    }

    /// When the first bytes arrive after second `from`, in ms from then, per seed; nothing of a run in which none do.
    pub(super) fn first_after(&self, from: f64) -> Vec<f64> {
        let first = |run: &Run| run.arrivals.iter().map(|(at, _)| *at).find(|at| *at > from);
        self.runs.iter().filter_map(|run| Some((first(run)? - from) * 1e3)).collect()
    }

    /// The longest time in which nothing arrives between two seconds, in ms, per seed.
    pub(super) fn longest_pause(&self, from: f64, until: f64) -> Vec<f64> {
        let of = |run: &Run| {
            let within = run.arrivals.iter().map(|(at, _)| *at).filter(|at| (from..until).contains(at));
            let ends = within.chain([until]);
            ends.fold((from, 0.0_f64), |(last, longest), at| (at, longest.max(at - last))).1 * 1e3
        };
        self.runs.iter().map(of).collect()
    }

    /// IP bytes offered to one direction of a channel, per seed.
    pub(super) fn offered(&self, channel: &str, way: &str) -> Vec<f64> {
        let ways = self.result.ways.iter().filter(|w| w.channel == channel && w.way == way);
        ways.map(|w| w.offered_bytes as f64).collect()
    }

    /// A figure of the bulk flow per seed.
    pub(super) fn bulk(&self, figure: impl Fn(&FlowFigures) -> Option<f64>) -> Vec<f64> {
        crate::cells::values(&self.result, BULK, figure)
    }
}

/// The larger of two per seed.
pub(super) fn larger(a: &[f64], b: &[f64]) -> Vec<f64> {
    joined(a, b, f64::max)
}

/// The smaller.
pub(super) fn smaller(a: &[f64], b: &[f64]) -> Vec<f64> {
    joined(a, b, f64::min)
}
