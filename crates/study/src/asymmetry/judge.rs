//! Rows of the experiments.

use super::seen::{Seen, StackSeen, larger, smaller};
use super::{BULK, OURS};
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use crate::experiments::Judge;
use crate::plan::About;
use serde_json::{Value, json};

/// IP bits of a full packet over its payload, as TCP with timestamps carries it, and our payload over TCP's.
const FULL_OVER_PAYLOAD: f64 = 1_500.0 / 1_448.0;
const OF_TCP: f64 = 1_437.0 / 1_448.0;
/// What is measured over time counts from this second on.
const FROM_S: f64 = 5.0;

/// The judge of that word in the plan.
pub(super) fn of(word: &str, about: About) -> Judge<Seen> {
    let rows: fn(&About, &[Seen]) -> Vec<Row> = match word {
        "thin" => thin,
        "steps" => steps,
        "choice" => choice,
        "bond" => bond,
        "again" => again,
        "profile" => profile,
        other => panic!("no judge is called {other}"),
    };
    Box::new(move |seen| rows(&about, seen))
}

/// The median echo of a plain TCP that waits for nothing.
fn unloaded(idle: Option<&Seen>, until: f64) -> Vec<f64> {
    idle.and_then(|idle| idle.stack("tcp-cubic")).map(|s| s.echo(50, FROM_S, until)).unwrap_or_default()
}

/// Thin ways back. What is compared with us has rows where it could use the link at all.
fn thin(about: &About, seen: &[Seen]) -> Vec<Row> {
    /// Seconds of the transfer that count at most, its start among them, and the fewest echoes whose 95th percentile is meaningful.
    const COUNTED_S: f64 = 120.0;
    const ECHOES_MIN: f64 = 150.0;
    let (out, until) = (about.number("out"), about.number("seconds"));
    let mut case = vec![("out_bps", json!(about.whole("out"))), ("back_bps", json!(about.whole("back")))];
    case.extend(about.has("tag").then(|| ("back_queue", json!(about.word("narrow")))));
    let (loaded, idle) = (&seen[0], seen.get(1));
    let unloaded = unloaded(idle, until);
    let mut rows = Vec::new();
    for stack in loaded.words() {
        let (head, ours) = (loaded.head(&case, stack), stack == OURS);
        let mut add = |metric: &str, unit: &str, values: &[f64], bound: Option<f64>, aim: Aim| {
            rows.push(head.row(metric, unit, values).bound_by(bound).judged(ours.then_some(aim)));
        };
        let share = Aim::AtLeast(about.number("share"));
        let Some(found) = loaded.stack(stack) else {
            add("limit_share", "ratio", &[], None, share);
            continue;
        };
        let goodput = found.goodput(0.0, until.min(COUNTED_S));
        let of_limit: Vec<f64> = goodput.iter().map(|bps| bps * FULL_OVER_PAYLOAD / out).collect();
        add("limit_share", "ratio", &of_limit, Some(OF_TCP), share);
        if idle.is_some() {
            let times = joined(&found.echo(95, FROM_S, until), &unloaded, |p95, p50| p95 / p50);
            add("echo_p95_over_unloaded", "ratio", &times, Some(1.0), Aim::AtMost(about.number("times")));
            let count = found.echo_count(FROM_S, until) as f64;
            add("echoes", "echoes", &[count], None, Aim::AtLeast(ECHOES_MIN));
        }
        // What returns beside the echo.
        let back = found.offered("air", "reverse");
        if let Some(most) = about.given("per-mb") {
            let megabytes = found.bulk(|f| Some(f.bytes as f64 / 1e6));
            let values = joined(&back, &megabytes, |back, mb| back / mb);
            add("back_bytes_per_delivered_mb", "B", &values, None, Aim::AtMost(most));
        } else if let Some(alone) = idle.and_then(|idle| idle.stack(stack)).filter(|_| !back.is_empty()) {
            let whole = about.number("back") / 8.0 * until;
            let values = joined(&back, &alone.offered("air", "reverse"), |back, echoes| (back - echoes) / whole);
            add("back_share_beside_echo", "ratio", &values, None, Aim::AtMost(about.number("back-share")));
        }
    }
    rows
}

/// Steps of rate and delay.
fn steps(about: &About, seen: &[Seen]) -> Vec<Row> {
    let until = about.number("seconds");
    let unloaded = unloaded(seen.get(1), until);
    let mut rows = Vec::new();
    for stack in seen[0].words() {
        let (head, found) = (seen[0].head(&[("steps_every_s", json!(15))], stack), seen[0].stack(stack));
        let share = found.map(|s| s.bulk(|f| Some(f.link_share? * FULL_OVER_PAYLOAD))).unwrap_or_default();
        let p95 = found.map(|s| s.echo(95, FROM_S, until)).unwrap_or_default();
        let times = joined(&p95, &unloaded, |p95, p50| p95 / p50);
        let aims = [Aim::AtLeast(0.9), Aim::AtMost(2.0)].map(|aim| (stack == OURS).then_some(aim));
        rows.push(head.row("limit_share", "ratio", &share).bound_by(OF_TCP).judged(aims[0]));
        rows.push(head.row("echo_p95_over_unloaded", "ratio", &times).bound_by(1.0).judged(aims[1]));
    }
    rows
}

/// S0-E14: out by a radio that fades, by a modem, or by both as each policy chooses. The default has the guarantee; the others stand beside it.
fn choice(_: &About, seen: &[Seen]) -> Vec<Row> {
    const PHASE_S: f64 = 120.0;
    /// The handshake, which is no part of the choice, is left out.
    const FROM_S: f64 = 1.0;
    /// How long an answer takes back over the radio, which is the same in every run: its delay, and its 300 octets with about 86 of headers
    /// and tag at 2 Mbit/s.
    const BACK_MS: f64 = 5.0 + 386.0 * 8e3 / 2e6;
    let mut rows = Vec::new();
    for (phase, delivers) in [100, 30, 100].into_iter().enumerate() {
        let row = |way: &str, metric: &str, unit: &str, values: &[f64]| {
            let case =
                [("phase", json!(phase + 1)), ("radio_delivers_percent", json!(delivers)), ("out_by", json!(way))];
            Head { id: "S0-E14".into(), ..seen[0].head(&case, OURS) }.row(metric, unit, values)
        };
        let from = phase as f64 * PHASE_S;
        let mean = |seen: &Seen| -> Vec<f64> {
            let all = seen.stack(OURS).map(|s| s.echo_mean(from + FROM_S, from + PHASE_S)).unwrap_or_default();
            all.into_iter().map(|ms| ms - BACK_MS).collect()
        };
        let better = smaller(&mean(&seen[0]), &mean(&seen[1]));
        for (way, seen) in ["radio", "modem", "bond", "pinned", "delivery-1998"].into_iter().zip(seen) {
            let delays = mean(seen);
            rows.push(row(way, "out_mean_ms", "ms", &delays));
            if !["radio", "modem"].contains(&way) {
                let of_better = joined(&delays, &better, |a, b| a / b);
                let aim = (way == "bond").then_some(Aim::AtMost(1.1));
                rows.push(row(way, "out_mean_of_better_fixed", "ratio", &of_better).judged(aim));
            }
        }
    }
    rows
}

/// The runs over two lanes.
const WHICH: [&str; 3] = ["both", "first alone", "second alone"];

/// Goodput and echo of both lanes and of each alone, per seed.
struct Compared<'a> {
    seen: &'a [Seen],
    case: &'a [(&'static str, Value)],
    /// What stands over both and over each alone.
    stacks: [&'a str; 3],
    goodput: [Vec<f64>; 3],
    echo: [Vec<f64>; 3],
}

impl<'a> Compared<'a> {
    fn new(about: &About, seen: &'a [Seen], case: &'a [(&'static str, Value)], stacks: [&'a str; 3]) -> Self {
        let until = about.number("seconds");
        let of = |run: usize, figure: &dyn Fn(&StackSeen) -> Vec<f64>| {
            seen[run].stack(stacks[run]).map(figure).unwrap_or_default()
        };
        let goodput = [0, 1, 2].map(|run| of(run, &|s| s.goodput(FROM_S, until)));
        Self { seen, case, stacks, goodput, echo: [0, 1, 2].map(|run| of(run, &|s| s.echo(95, FROM_S, until))) }
    }
    fn head(&self, run: usize) -> Head {
        self.seen[run].head(self.case, self.stacks[run]).and("lanes", WHICH[run])
    }
    /// Each run's own figures, not judged.
    fn plain(&self, run: usize) -> [Row; 2] {
        let head = self.head(run);
        [head.row("goodput_bps", "bit/s", &self.goodput[run]), head.row("echo_p95_ms", "ms", &self.echo[run])]
    }
    /// Both lanes over the better one.
    fn of_best(&self) -> Row {
        let best = larger(&self.goodput[1], &self.goodput[2]);
        self.head(0).row("goodput_of_best_lane", "ratio", &joined(&self.goodput[0], &best, |both, best| both / best))
    }
    /// The guarantee: never slower than the better lane alone; an echo takes at most a tenth and 5 ms more than on the calmer lane.
    fn judged(&self) -> [Row; 2] {
        let calmer = smaller(&self.echo[1], &self.echo[2]);
        let of_allowed = joined(&self.echo[0], &calmer, |both, calm| both / (calm * 1.1 + 5.0));
        let echo = self.head(0).row("echo_p95_of_allowed", "ratio", &of_allowed);
        [self.of_best().judged(Aim::AtLeast(0.98)), echo.judged(Aim::AtMost(1.0))]
    }
}

/// Two lanes: both, and each alone; beside them the kernel's results, as far as it can and that was asked.
fn bond(about: &About, seen: &[Seen]) -> Vec<Row> {
    let case = [("pair", json!(about.word("words")))];
    let ours = Compared::new(about, seen, &case, [OURS; 3]);
    let mut rows: Vec<Row> = (0..3).flat_map(|run| ours.plain(run)).chain(ours.judged()).collect();
    if about.has("both") {
        let (both, alone) = (about.word("both"), about.word("alone"));
        let theirs = Compared::new(about, seen, &case, [both, alone, alone]);
        let mut beside: Vec<Row> =
            (0..if about.has("alone") { 3 } else { 1 }).flat_map(|run| theirs.plain(run)).collect();
        beside.extend(about.has("alone").then(|| theirs.of_best()));
        // Every row that stays empty says why.
        for row in &mut beside {
            let lanes = row.case.get("lanes").and_then(Value::as_str).unwrap_or_default();
            let run = WHICH.iter().position(|which| *which == lanes).unwrap_or_default();
            if seen[run].stack(&row.stack).is_none() {
                let why = seen[run].omission(&row.stack).unwrap_or("it is missing from the run");
                let why = format!(
                    "not run: {why} (`wavelane check scenarios/FILE`, with {} among the stacks of FILE, tells whether it can)",
                    row.stack
                );
                *row = row.clone().inconclusive(why);
            }
        }
        rows.extend(beside);
    }
    if let Some(sum) = about.given("sum") {
        let share: Vec<f64> = ours.goodput[0].iter().map(|bps| bps / sum).collect();
        let row = ours.head(0).row("goodput_of_sum", "ratio", &share);
        rows.push(row.bound_by(1_437.0 / 1_500.0).judged(Aim::AtLeast(0.85)));
    }
    rows
}

/// A profile of the report on reordering, with its figures.
fn profile(about: &About, seen: &[Seen]) -> Vec<Row> {
    let case = [("profile", json!(about.word("profile")))];
    let compared = Compared::new(about, seen, &case, [OURS; 3]);
    let mut rows: Vec<Row> = (0..3).flat_map(|run| compared.plain(run)).chain(compared.judged()).collect();
    let [alone, best] = ["alone", "best"].map(|which| about.number(which));
    rows[0].published = Some(best * 1e6);
    rows[6].published = Some(best / alone);
    rows
}

/// What a flow survives, and how soon data flows again: from a second on, or with a pause of at most so long between two. The limit is one and a
/// half round trips and as much more as the lanes need; it must hold in every run, not only on average.
fn again(about: &About, seen: &[Seen]) -> Vec<Row> {
    let case = match about.has("reserve") {
        true => vec![("metered reserve", json!(about.word("reserve")))],
        false => vec![("out", json!(about.word("out"))), ("lasts_s", json!(about.whole("lasts")))],
    };
    let (head, found) = (seen[0].head(&case, OURS), seen[0].stack(OURS));
    let survives = |s: &StackSeen| s.bulk(|f| Some(f64::from(u8::from(f.completed && f.intact == Some(true)))));
    let whole = head.row("completed", "share", &found.map(survives).unwrap_or_default()).judged(Aim::AtLeast(1.0));
    let from = about.number("from");
    let (metric, values) = match about.given("until") {
        Some(until) => ("longest_pause_ms", found.map(|s| s.longest_pause(from, until))),
        None => ("data_again_ms", found.map(|s| s.first_after(from))),
    };
    let values = values.unwrap_or_default();
    let runs = found.map_or(0, |s| s.result.flows.iter().filter(|flow| flow.flow == BULK).count());
    let mut again = head.row(metric, "ms", &values);
    // Only if each run has one.
    again.value = values.iter().copied().reduce(f64::max).filter(|_| values.len() == runs);
    again.ci95 = None;
    vec![whole, again.judged(Aim::AtMost(1.5 * about.number("rtt") + about.number("more")))]
}
