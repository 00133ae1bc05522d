//! Two lanes at once: never slower than the better one alone, and as much as both where they lose nothing.

use super::net::{Lane, Way, bulk, echo, scenario};
use super::seen::{Seen, larger, smaller};
use super::{ID, LAB, OURS, Task};
use crate::cells::{Aim, joined};
use crate::document::{Edition, Row};
use serde_json::{Value, json};
use wavelane_run::Verdict;

/// Figures count from this second on.
pub(super) const FROM_S: f64 = 5.0;
/// The least share that both lanes carry of what the better carries alone, and of their rates together.
const OF_BEST: f64 = 0.98;
const OF_SUM: f64 = 0.85;
/// What stands beside us over both lanes and, where there is time for that, over each.
#[derive(Clone, Copy)]
pub(super) struct Beside {
    both: &'static str,
    alone: Option<&'static str>,
}
/// An echo beside it takes at most this factor and this many ms more than on the calmer lane alone.
const ECHO_TIMES: f64 = 1.1;
const ECHO_MORE_MS: f64 = 5.0;

struct Pair {
    name: &'static str,
    words: &'static str,
    lanes: [Way; 2],
    /// Nothing but queues loses packets.
    clean: bool,
}

fn pairs(seconds: u64) -> Vec<Pair> {
    let twenty = || Way::new(20_000_000, 10, "100 kB");
    let flaps: Vec<(u64, u64)> = (0..seconds / 10).map(|n| (n * 10 + 5, 5)).collect();
    let pair = |name, words, second: Way, clean| Pair { name, words, lanes: [twenty(), second], clean };
    vec![
        pair("equal", "20 + 20 Mbit/s", twenty(), true),
        pair("lossy", "20 Mbit/s + 5 Mbit/s with 5 % loss", Way::new(5_000_000, 10, "50 kB").losing(50), false),
        pair("slow", "20 Mbit/s + 30 kbit/s", Way::new(30_000, 50, "10 kB"), false),
        pair("far", "20 Mbit/s over 20 ms + 20 Mbit/s over 300 ms", Way::new(20_000_000, 150, "500 kB"), true),
        pair("flapping", "20 Mbit/s + 20 Mbit/s up for 5 s and down for 5 s", twenty().without(&flaps), false),
    ]
}

/// The three runs of a pair of lanes: both, and each alone, with what stands beside us on both and on each.
pub(super) fn runs(
    name: &str,
    words: &str,
    seconds: u64,
    lanes: &[Way; 2],
    beside: Option<Beside>,
) -> Vec<(String, String)> {
    let [one, two] = lanes.clone().map(Lane::Both);
    let cases = [
        ("both", vec![("one", one.clone()), ("two", two.clone())]),
        ("one", vec![("one", one)]),
        ("two", vec![("two", two)]),
    ];
    let text = |which: &str, lanes: &[(&str, Lane)]| {
        let other = beside.and_then(|b| if lanes.len() > 1 { Some(b.both) } else { b.alone });
        let stacks: Vec<&str> = [OURS].into_iter().chain(other).collect();
        scenario(&format!("{words}: {which}"), seconds, &stacks, lanes) + &bulk(None) + &echo(64, 100)
    };
    cases.into_iter().map(|(which, lanes)| (format!("{name}-{which}"), text(which, &lanes))).collect()
}

/// The runs of a pair.
const WHICH: [&str; 3] = ["both", "first alone", "second alone"];

/// Goodput of both and of the better one, and the echo of both and of the calmer one, per seed.
pub(super) struct Compared {
    pub(super) goodput: [Vec<f64>; 3],
    pub(super) echo: [Vec<f64>; 3],
}

impl Compared {
    pub(super) fn new(seen: &[Seen], seconds: u64) -> Self {
        Self::of(seen, seconds, [OURS; 3])
    }
    /// Of one stack over both, and of those over each alone.
    fn of(seen: &[Seen], seconds: u64, stacks: [&str; 3]) -> Self {
        let until = seconds as f64;
        let of = |run: usize| seen[run].stack(stacks[run]);
        Self {
            goodput: [0, 1, 2].map(|run| of(run).map(|s| s.goodput(FROM_S, until)).unwrap_or_default()),
            echo: [0, 1, 2].map(|run| of(run).map(|s| s.echo(95, FROM_S, until)).unwrap_or_default()),
        }
    }
    pub(super) fn of_best(&self) -> Vec<f64> {
        joined(&self.goodput[0], &larger(&self.goodput[1], &self.goodput[2]), |both, best| both / best)
    }
    /// The echo over what is allowed.
    fn echo_of_allowed(&self) -> Vec<f64> {
        let calmer = smaller(&self.echo[1], &self.echo[2]);
        joined(&self.echo[0], &calmer, |both, calm| both / (calm * ECHO_TIMES + ECHO_MORE_MS))
    }
    /// Each run's own figures, not judged.
    pub(super) fn plain(&self, seen: &Seen, case: &[(&str, Value)]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (run, which) in WHICH.into_iter().enumerate() {
            let head = seen.head(ID, case, OURS).and("lanes", which);
            rows.push(head.row("goodput_bps", "bit/s", &self.goodput[run]));
            rows.push(head.row("echo_p95_ms", "ms", &self.echo[run]));
        }
        rows
    }
    /// The guarantee.
    pub(super) fn judged(&self, seen: &Seen, case: &[(&str, Value)]) -> [Row; 2] {
        let head = seen.head(ID, case, OURS).and("lanes", "both");
        let best = head.row("goodput_of_best_lane", "ratio", &self.of_best()).judged(Aim::AtLeast(OF_BEST));
        let echo = head.row("echo_p95_of_allowed", "ratio", &self.echo_of_allowed()).judged(Aim::AtMost(1.0));
        [best, echo]
    }
}

/// The kernel's results with both lanes beside those with the better one, as far as it can and that was asked.
fn peer_rows(seen: &[Seen], seconds: u64, case: &[(&str, Value)], beside: Beside) -> Vec<Row> {
    let alone = beside.alone.unwrap_or_default();
    let stacks = [beside.both, alone, alone];
    let compared = Compared::of(seen, seconds, stacks);
    let mut rows = Vec::new();
    let asked = if beside.alone.is_some() { 3 } else { 1 };
    for (run, which) in WHICH.into_iter().enumerate().take(asked) {
        let head = seen[run].head(ID, case, stacks[run]).and("lanes", which);
        rows.push(head.row("goodput_bps", "bit/s", &compared.goodput[run]));
        rows.push(head.row("echo_p95_ms", "ms", &compared.echo[run]));
    }
    if beside.alone.is_some() {
        let head = seen[0].head(ID, case, beside.both).and("lanes", "both");
        rows.push(head.row("goodput_of_best_lane", "ratio", &compared.of_best()));
    }
    // Every row that stays empty says why.
    for (run, which) in WHICH.into_iter().enumerate() {
        if seen.get(run).is_some_and(|seen| seen.stack(stacks[run]).is_none()) {
            let why = seen[run].omission(stacks[run]).unwrap_or("it is missing from the run");
            let why = format!(
                "not run: {why} (`wavelane check scenarios/FILE`, with {} among the stacks of FILE, tells whether it can)",
                stacks[run]
            );
            let empty = |row: &&mut Row| row.case.get("lanes") == Some(&json!(which)) && row.stack == stacks[run];
            for row in rows.iter_mut().filter(empty) {
                row.verdict = Verdict::Inconclusive;
                row.why = why.clone();
            }
        }
    }
    rows
}

/// The pairs between kernels: a lossy one, and in the full edition all.
pub(super) fn lab_tasks(edition: Edition) -> Vec<Task> {
    let (seconds, wanted, alone): (u64, &[&str], _) = match edition {
        Edition::Full => (40, &["equal", "lossy", "slow", "far", "flapping"], Some("tcp-bbr")),
        Edition::Quick => (15, &["lossy"], None),
    };
    let beside = Some(Beside { both: "mptcp", alone });
    let chosen = pairs(seconds).into_iter().filter(|pair| wanted.contains(&pair.name));
    chosen.map(|pair| task(LAB, pair, seconds, 1, beside)).collect()
}

pub(super) fn tasks(edition: Edition) -> Vec<Task> {
    let seconds = if edition == Edition::Full { 60 } else { 30 };
    pairs(seconds).into_iter().map(|pair| task("bond", pair, seconds, 3, None)).collect()
}

fn task(part: &'static str, pair: Pair, seconds: u64, seeds: u32, beside: Option<Beside>) -> Task {
    let folder = if part == LAB { "lab-bond" } else { part };
    let runs = runs(&format!("{folder}-{}", pair.name), pair.words, seconds, &pair.lanes, beside);
    let sum = pair.lanes.iter().map(|way| way.bps as f64).sum::<f64>();
    let judge_all = move |seen: &[Seen]| {
        let case = [("pair", json!(pair.words))];
        let compared = Compared::new(seen, seconds);
        let mut rows = compared.plain(&seen[0], &case);
        rows.extend(compared.judged(&seen[0], &case));
        if let Some(beside) = beside {
            rows.extend(peer_rows(seen, seconds, &case, beside));
        }
        if pair.clean {
            let share: Vec<f64> = compared.goodput[0].iter().map(|bps| bps / sum).collect();
            rows.push(
                seen[0]
                    .head(ID, &case, OURS)
                    .and("lanes", "both")
                    .row("goodput_of_sum", "ratio", &share)
                    .bound_by(1_437.0 / 1_500.0)
                    .judged(Aim::AtLeast(OF_SUM)),
            );
        }
        rows
    };
    Task::new(part, runs, judge_all).seeds(seeds)
}
