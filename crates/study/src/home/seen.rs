//! What a run of a home shows: round trips over time, goodput, times of pages; one value per seed.

use super::{COPY, COPY_AT_S};
use std::path::Path;
use wavelane_measure::{mean, quantile, ranked_ms};
use wavelane_run::{RunDocument, Series as Stored, StackResult};

/// Round trips: when each was asked for, in seconds, and its milliseconds; one without answer is lost.
pub(crate) type Series = Vec<(f64, Option<f64>)>;

/// A run of several seeds.
pub(crate) struct Seen {
    stack: StackResult,
    /// Per seed: series by flow.
    pings: Vec<Vec<(String, Series)>>,
    /// Per seed: bytes of the copy by time in seconds.
    copies: Vec<Vec<(f64, u64)>>,
}

/// Reads what a Record holds; nothing if its stack was not run or its series are gone.
pub(crate) fn seen(document: &RunDocument) -> Option<Seen> {
    let stack = document.stacks.first()?.clone();
    let record = Path::new(&document.record);
    let (mut pings, mut copies) = (Vec::new(), Vec::new());
    let mut seeds: Vec<u64> = stack.flows.iter().map(|flow| flow.seed).collect();
    seeds.dedup();
    for seed in seeds {
        let mut of_seed = Vec::new();
        for figures in stack.flows.iter().filter(|flow| flow.seed == seed) {
            if figures.app != "ping" && figures.flow != COPY {
                continue;
            }
            match document.series(record, &stack.stack, figures).ok()? {
                Stored::Probes(list) => {
                    let point = |(at, rtt): (u64, Option<u64>)| (at as f64 / 1e9, rtt.map(|ns| ns as f64 / 1e6));
                    of_seed.push((figures.flow.clone(), list.into_iter().map(point).collect()));
                }
                Stored::Arrivals(list) => copies.push(list.into_iter().map(|(at, n)| (at as f64 / 1e9, n)).collect()),
                Stored::Fetches(_) => {}
            }
        }
        pings.push(of_seed);
    }
    Some(Seen { stack, pings, copies })
}

/// Nearest rank; what is lost ranks last.
pub(crate) fn percentile(series: &[(f64, Option<f64>)], per_mille: u64) -> Option<f64> {
    quantile(&ranked_ms(series.iter().map(|(_, rtt)| *rtt)), per_mille, 1_000)
}

/// Spearman's rank correlation of the answered values with time.
fn spearman(series: &[(f64, Option<f64>)]) -> Option<f64> {
    let values: Vec<f64> = series.iter().filter_map(|(_, rtt)| *rtt).collect();
    let n = values.len() as f64;
    if n < 3.0 {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut squares = 0.0;
    for (rank, index) in order.iter().enumerate() {
        squares += (rank as f64 - *index as f64).powi(2);
    }
    Some(1.0 - 6.0 * squares / (n * (n * n - 1.0)))
}

impl Seen {
    /// The run's stack, for what makes it inconclusive.
    pub(crate) fn stack(&self) -> &StackResult {
        &self.stack
    }
    /// The pings of a flow with the first seed.
    pub(crate) fn first(&self, flow: &str) -> Option<&Series> {
        self.pings.first()?.iter().find(|(name, _)| name == flow).map(|(_, series)| series)
    }
    /// Per seed: a figure of a flow's pings within these seconds; a seed without it is left out.
    fn each(&self, flow: &str, from: f64, to: f64, figure: impl Fn(&[(f64, Option<f64>)]) -> Option<f64>) -> Vec<f64> {
        let of_seed = |all: &Vec<(String, Series)>| {
            let (_, series) = all.iter().find(|(name, _)| name == flow)?;
            let part: Vec<_> = series.iter().filter(|(at, _)| (from..to).contains(at)).copied().collect();
            figure(&part)
        };
        self.pings.iter().filter_map(of_seed).collect()
    }
    /// Per seed: a percentile of a flow's round trips before the copy.
    pub(crate) fn idle(&self, flow: &str, per_mille: u64) -> Vec<f64> {
        self.each(flow, 0.0, COPY_AT_S as f64 - 1.0, |part| percentile(part, per_mille))
    }
    /// Per seed: the mean of a flow's round trips before the copy, or from so many seconds after its start; what is lost
    /// counts as [`wavelane_measure::LOST_RANK_MS`] at least.
    pub(crate) fn means(&self, flow: &str, idle: bool, settle_s: u64) -> Vec<f64> {
        let (from, to) = match idle {
            true => (0.0, COPY_AT_S as f64 - 1.0),
            false => ((COPY_AT_S + settle_s) as f64, f64::MAX),
        };
        self.each(flow, from, to, |part| mean(&ranked_ms(part.iter().map(|(_, ms)| *ms))))
    }
    /// Per seed: a percentile from `settle_s` seconds after the copy's start to the end.
    pub(crate) fn loaded(&self, flow: &str, settle_s: u64, per_mille: u64) -> Vec<f64> {
        self.each(flow, (COPY_AT_S + settle_s) as f64, f64::MAX, |part| percentile(part, per_mille))
    }
    /// Per seed: the 95th percentile of the round trips that were answered, from so many seconds after the copy's start:
    /// where a drop-tail queue is full, at the top of TCP's sawtooth.
    pub(crate) fn top(&self, flow: &str, settle_s: u64) -> Vec<f64> {
        self.each(flow, (COPY_AT_S + settle_s) as f64, f64::MAX, |part| {
            let answered: Vec<_> = part.iter().filter(|(_, rtt)| rtt.is_some()).copied().collect();
            percentile(&answered, 950)
        })
    }
    /// Per seed: the share of pings lost while the copy ran.
    pub(crate) fn loss(&self, flow: &str) -> Vec<f64> {
        self.each(flow, COPY_AT_S as f64, f64::MAX, |part| {
            let lost = part.iter().filter(|(_, rtt)| rtt.is_none()).count();
            (!part.is_empty()).then(|| lost as f64 / part.len() as f64)
        })
    }
    /// Per seed: the longest answered round trip.
    pub(crate) fn peak(&self, flow: &str) -> Vec<f64> {
        self.each(flow, COPY_AT_S as f64, f64::MAX, |part| part.iter().filter_map(|(_, rtt)| *rtt).reduce(f64::max))
    }
    /// Per seed: how steadily the round trips rise over the first seconds of the copy.
    pub(crate) fn rise(&self, flow: &str, seconds: u64) -> Vec<f64> {
        self.each(flow, COPY_AT_S as f64, (COPY_AT_S + seconds) as f64, spearman)
    }
    /// Per seed: seconds until the round trips reach four fifths of their final median, that of the last ten seconds.
    pub(crate) fn time_to_80(&self, flow: &str, end_s: u64) -> Vec<f64> {
        let tail = end_s.saturating_sub(10) as f64;
        self.each(flow, COPY_AT_S as f64, f64::MAX, |part| {
            let last: Vec<_> = part.iter().filter(|(at, _)| *at >= tail).copied().collect();
            let wanted = 0.8 * percentile(&last, 500)?;
            let (at, _) = part.iter().find(|(_, rtt)| rtt.is_some_and(|ms| ms >= wanted))?;
            Some(at - COPY_AT_S as f64)
        })
    }
    /// Per seed: bits per second of the copy from `settle_s` seconds after its start to the run's end.
    pub(crate) fn goodput(&self, settle_s: u64, end_s: u64) -> Vec<f64> {
        let from = (COPY_AT_S + settle_s) as f64;
        let of_seed = |copy: &Vec<(f64, u64)>| {
            let octets: u64 = copy.iter().filter(|(at, _)| (from..end_s as f64).contains(at)).map(|(_, n)| n).sum();
            octets as f64 * 8.0 / (end_s as f64 - from)
        };
        self.copies.iter().map(of_seed).collect()
    }
    /// Per seed: how long the pages whose place `which` names took, in milliseconds; their mean. A page that did not end
    /// makes its seed count as `limit_ms`.
    pub(crate) fn pages(&self, which: core::ops::Range<usize>, limit_ms: f64) -> Vec<f64> {
        let names: Vec<String> = which.map(|i| format!("page{i}")).collect();
        let mut seeds: Vec<u64> = self.stack.flows.iter().map(|flow| flow.seed).collect();
        seeds.dedup();
        let of_seed = |seed: &u64| {
            let own = self.stack.flows.iter().filter(|f| f.seed == *seed && names.contains(&f.flow));
            let times: Vec<f64> = own.map(|f| f.duration_ms.unwrap_or(limit_ms)).collect();
            mean(&times)
        };
        seeds.iter().filter_map(of_seed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_rises() {
        let rising: Series = (0..50).map(|i| (f64::from(i), Some(f64::from(i * i)))).collect();
        assert_eq!(spearman(&rising), Some(1.0));
        let falling: Series = (0..50).map(|i| (f64::from(i), Some(-f64::from(i)))).collect();
        assert_eq!(spearman(&falling), Some(-1.0));
        assert_eq!(spearman(&rising[..2]), None);
        assert_eq!((percentile(&rising, 500), percentile(&rising, 1_000)), (Some(576.0), Some(2_401.0)));
        let lost = [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))];
        assert_eq!((percentile(&lost, 500), percentile(&lost, 990)), (Some(3.0), Some(wavelane_measure::LOST_RANK_MS)));
        assert_eq!(percentile(&[], 500), None);
    }
}
