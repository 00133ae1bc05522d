//! What one proxy carries where only the machine limits it, on either engine, beside plain forwarding and HAProxy in transparent mode.
//!
//! Each stands alone on the first of two nodes between a client and a server. Rounds alternate, and medians count.

use crate::cells::Aim;
use crate::document::{Edition, Row, StudyDocument};
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{Setup, StudyError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use wavelane_base::Span;
use wavelane_lab::{Bench, CapacityCase, ProxyKind, TransferDirection, can_proxy};
use wavelane_measure::percentile;
use wavelane_run::{BackendError, RunError, RunHooks, Verdict};

/// The study's id.
pub(crate) const ID: &str = "proxy";
const PLAIN: &str = "plain";
const OURS: &str = "wavelaned";
const OWN_TCP: &str = "wavelaned-userspace";
const PEER: &str = "haproxy";
const PEER_SPLICED: &str = "haproxy-splice";
const KINDS: [(&str, ProxyKind); 5] = [
    (PLAIN, ProxyKind::Plain),
    (OURS, ProxyKind::Ours),
    (OWN_TCP, ProxyKind::Userspace),
    (PEER, ProxyKind::Haproxy { splice: false }),
    (PEER_SPLICED, ProxyKind::Haproxy { splice: true }),
];
const FLOWS: [usize; 2] = [1, 8];
const WAYS: [(&str, TransferDirection); 2] = [("up", TransferDirection::Up), ("down", TransferDirection::Down)];
/// Clients that open connections at once.
const OPENERS: usize = 8;
const ECHOES: usize = 2_000;
const IDLE: usize = 1_000;
/// What the engine on our own TCP carries at least, in bit/s, and holds at most for a connection that does nothing.
const OWN_TCP_LEAST: f64 = 1e9;
const OWN_TCP_IDLE: f64 = 8_000.0;
/// A process that used less in a second of transfer was not on the way: a dead one forwards plainly and looks fast.
const CPU_LEAST: f64 = 0.01;

/// One kind's figures of one round.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Figures {
    /// By flows and way, in bit/s.
    goodputs: Vec<f64>,
    /// Of the program, in seconds per 10^9 bytes, likewise; none where there is no program.
    costs: Vec<Option<f64>>,
    opens_per_s: f64,
    echo_p50_ms: f64,
    echo_p99_ms: f64,
    /// Of the process, for a connection that does nothing.
    idle_bytes: Option<f64>,
    /// Why it was not measured.
    missing: Option<String>,
}

struct Task {
    round: usize,
    word: &'static str,
    kind: ProxyKind,
}

/// Measures every kind and judges.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let (rounds, seconds) = if options.edition == Edition::Full { (5, 5) } else { (3, 1) };
    for kind in [ProxyKind::Plain, ProxyKind::Ours, ProxyKind::Userspace] {
        can_proxy(kind).map_err(RunError::Refused)?;
    }
    let of = |round| KINDS.map(|(word, kind)| Task { round, word, kind });
    let tasks: Vec<Task> = (0..rounds).flat_map(of).collect();
    let kept = Kept::open(options, ID);
    let key = |task: &Task| format!("{} {}", task.word, task.round);
    let out = options.out.join(ID);
    let work = |task: &Task| measure(task, Span::from_secs(seconds), &out, hooks);
    let runner = Runner { what: "runs", workers: 1, hooks };
    let found = runner.run_kept(&kept, &tasks, |_| 1.0, key, work)?;
    let found: Vec<(&str, Figures)> = tasks.iter().map(|task| task.word).zip(found).collect();
    let rows = judged(&found, options.edition);
    rows.iter().for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

fn measure(task: &Task, time: Span, out: &Path, hooks: &RunHooks<'_>) -> Result<Figures, StudyError> {
    if let Err(why) = can_proxy(task.kind) {
        return Ok(Figures { missing: Some(why), ..Figures::default() });
    }
    match figures(task.kind, time, out, hooks) {
        Ok(figures) => Ok(figures),
        Err(BackendError::Cancelled) => Err(RunError::Cancelled.into()),
        Err(why) => Ok(Figures { missing: Some(why.to_string()), ..Figures::default() }),
    }
}

fn figures(kind: ProxyKind, time: Span, out: &Path, hooks: &RunHooks<'_>) -> Result<Figures, BackendError> {
    let mut bench = Bench::start_proxy(kind, out, hooks.cancelled)?;
    // First, while nothing that transfers allocated can be used again.
    let idle_bytes = bench.idle(IDLE, hooks.cancelled)?;
    let mut found = Figures { idle_bytes, ..Figures::default() };
    for flows in FLOWS {
        for (_, way) in WAYS {
            let case = CapacityCase { flows, way, warm_up: Span::from_millis(300), time };
            let capacity = bench.measure(case, hooks.cancelled)?;
            if kind != ProxyKind::Plain && capacity.programs.is_none_or(|cpu| cpu < CPU_LEAST) {
                found.missing = Some("the program used no processor time: it was not on the way".into());
            }
            found.goodputs.push(capacity.goodput().as_bps() as f64);
            found.costs.push(capacity.per_gb(capacity.programs));
        }
    }
    let (opened, took) = bench.opens(OPENERS, time, hooks.cancelled)?;
    found.opens_per_s = opened as f64 / took.as_secs_f64();
    let echoes = bench.echoes(ECHOES, hooks.cancelled)?;
    found.echo_p50_ms = percentile(&echoes, 50).unwrap_or(f64::NAN);
    found.echo_p99_ms = percentile(&echoes, 99).unwrap_or(f64::NAN);
    bench.stop();
    Ok(found)
}

/// Medians of a kind's rounds.
struct Medians<'a>(&'a [(&'a str, Figures)]);

impl Medians<'_> {
    fn of(&self, word: &str, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let whole = self.0.iter().filter(|(of, figures)| *of == word && figures.missing.is_none());
        let mut values: Vec<f64> = whole.filter_map(|(_, figures)| of(figures)).collect();
        values.sort_by(f64::total_cmp);
        percentile(&values, 50)
    }
    /// Of HAProxy the better of both.
    fn best(&self, word: &str, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let words: &[&str] = if word == PEER { &[PEER, PEER_SPLICED] } else { std::slice::from_ref(&word) };
        words.iter().filter_map(|word| self.of(word, &of)).reduce(f64::max)
    }
    fn least(&self, words: &[&str], of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        words.iter().filter_map(|word| self.of(word, &of)).reduce(f64::min)
    }
    fn missing(&self, word: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| *of == word).and_then(|(_, figures)| figures.missing.as_deref())
    }
}

fn row(case: &[(&str, Value)], stack: &str, (metric, unit): (&str, &str), value: Option<f64>) -> Row {
    let mut row = Row::new(ID, "lab", stack, metric, unit);
    row.case = case.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    Row { value, n: u64::from(value.is_some()), ..row }
}

fn judged(found: &[(&str, Figures)], edition: Edition) -> Vec<Row> {
    let all = Medians(found);
    let mut rows = Vec::new();
    // Against HAProxy: not judged where it is not installed, in the quick edition.
    let absent = all.missing(PEER).or(all.missing(PEER_SPLICED));
    let beside = |rows: &mut Vec<Row>, mut row: Row, aim: Aim| {
        match absent {
            Some(why) if row.value.is_none() => {
                row.why = why.to_owned();
                row.verdict = if edition == Edition::Full { Verdict::Inconclusive } else { Verdict::Info };
            }
            _ => row = row.judged(aim),
        }
        rows.push(row);
    };
    let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    for (at, (flows, (word, _))) in FLOWS.iter().flat_map(|flows| WAYS.map(|way| (*flows, way))).enumerate() {
        let case = [("flows", json!(flows)), ("way", json!(word))];
        let of = |figures: &Figures| figures.goodputs.get(at).copied();
        for stack in [PLAIN, OURS, PEER] {
            rows.push(row(&case, stack, ("goodput_bps", "bit/s"), all.best(stack, of)));
        }
        rows.push(
            row(&case, OWN_TCP, ("goodput_bps", "bit/s"), all.of(OWN_TCP, of)).judged(Aim::AtLeast(OWN_TCP_LEAST)),
        );
        let over = ratio(all.of(OWN_TCP, of), all.of(OURS, of));
        rows.push(row(&case, OWN_TCP, ("goodput_over_kernel", "ratio"), over));
        let over = ratio(all.best(OURS, of), all.best(PEER, of));
        beside(&mut rows, row(&case, OURS, ("goodput_over_haproxy", "ratio"), over), Aim::AtLeast(1.2));
        let cost = |figures: &Figures| figures.costs.get(at).copied().flatten();
        let theirs = all.least(&[PEER, PEER_SPLICED], cost);
        for (stack, cost) in [(OURS, all.of(OURS, cost)), (OWN_TCP, all.of(OWN_TCP, cost)), (PEER, theirs)] {
            rows.push(row(&case, stack, ("cpu_own_s_per_gb", "s/GB"), cost));
        }
        let over = ratio(all.of(OURS, cost), theirs);
        beside(&mut rows, row(&case, OURS, ("cpu_over_haproxy", "ratio"), over), Aim::AtMost(1.0));
    }
    let opens = |figures: &Figures| Some(figures.opens_per_s);
    for stack in [PLAIN, OURS, OWN_TCP, PEER] {
        rows.push(row(&[], stack, ("opens_per_s", "1/s"), all.best(stack, opens)));
    }
    let over = ratio(all.best(OURS, opens), all.best(PEER, opens));
    beside(&mut rows, row(&[], OURS, ("opens_over_haproxy", "ratio"), over), Aim::AtLeast(0.7));
    // What each adds to plain forwarding.
    let added = |word: &str, of: fn(&Figures) -> f64| {
        all.of(word, |figures| Some(of(figures))).zip(all.of(PLAIN, |figures| Some(of(figures)))).map(|(a, b)| a - b)
    };
    let p50 = |word: &str| added(word, |figures| figures.echo_p50_ms);
    let theirs = [PEER, PEER_SPLICED].into_iter().filter_map(p50).reduce(f64::min);
    rows.push(row(&[], PEER, ("idle_echo_added_p50_ms", "ms"), theirs));
    let mine = row(&[], OURS, ("idle_echo_added_p50_ms", "ms"), p50(OURS).filter(|_| theirs.is_some()));
    beside(&mut rows, Row { bound: theirs, ..mine }, Aim::AtMost(theirs.unwrap_or(f64::NAN)));
    rows.push(
        row(&[], OURS, ("idle_echo_added_p99_ms", "ms"), added(OURS, |figures| figures.echo_p99_ms))
            .judged(Aim::AtMost(1.0)),
    );
    let idle = |word: &str| all.of(word, |figures| figures.idle_bytes);
    rows.push(row(&[], OWN_TCP, ("idle_echo_added_p50_ms", "ms"), p50(OWN_TCP)));
    rows.push(row(&[], OWN_TCP, ("idle_connection_bytes", "B"), idle(OWN_TCP)).judged(Aim::AtMost(OWN_TCP_IDLE)));
    let theirs = all.least(&[PEER, PEER_SPLICED], |figures| figures.idle_bytes);
    rows.push(row(&[], PEER, ("idle_connection_bytes", "B"), theirs));
    let mine = row(&[], OURS, ("idle_connection_bytes", "B"), idle(OURS).filter(|_| theirs.is_some()));
    beside(&mut rows, Row { bound: theirs, ..mine }, Aim::AtMost(theirs.unwrap_or(f64::NAN)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &'static str, scale: f64) -> (&'static str, Figures) {
        let figures = Figures {
            goodputs: vec![1e9 * scale; 4],
            costs: vec![Some(1.0 / scale); 4],
            opens_per_s: 100.0 * scale,
            echo_p50_ms: 0.1 / scale,
            echo_p99_ms: 0.2,
            idle_bytes: Some(1_000.0 / scale),
            missing: None,
        };
        (word, figures)
    }

    /// A peer that is not there makes nothing pass or fail; one that is decides.
    #[test]
    fn rows_against_a_peer_need_it() {
        let absent = |word| {
            (word, Figures { missing: Some("install HAProxy (apt install haproxy)".into()), ..Figures::default() })
        };
        let found = [of(PLAIN, 3.0), of(OURS, 2.0), of(OWN_TCP, 1.2), absent(PEER), absent(PEER_SPLICED)];
        let against =
            |rows: &[Row]| rows.iter().filter(|r| r.metric.ends_with("_over_haproxy")).cloned().collect::<Vec<_>>();
        for (edition, verdict) in [(Edition::Quick, Verdict::Info), (Edition::Full, Verdict::Inconclusive)] {
            let rows = against(&judged(&found, edition));
            assert!(
                rows.len() == 9 && rows.iter().all(|row| row.verdict == verdict && row.why.contains("apt install"))
            );
        }
        let found = [of(PLAIN, 3.0), of(OURS, 2.0), of(OWN_TCP, 1.2), of(PEER, 1.0), of(PEER_SPLICED, 1.5)];
        let rows = judged(&found, Edition::Quick);
        assert!(against(&rows).iter().all(|row| row.verdict == Verdict::Pass), "better than the better of both");
        assert!(rows.iter().all(|row| row.verdict != Verdict::Fail && row.verdict != Verdict::Inconclusive));
        let slow = [of(PLAIN, 3.0), of(OURS, 1.0), of(OWN_TCP, 0.5), of(PEER, 1.0), of(PEER_SPLICED, 1.5)];
        assert!(judged(&slow, Edition::Quick).iter().filter(|row| row.verdict == Verdict::Fail).count() >= 10);
    }
}
