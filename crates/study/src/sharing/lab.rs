//! In the laboratory: 20 Mbit/s and 50 ms, three queues.

use super::text::Bottleneck;
use super::{ID, OTHER, OURS, not_run};
use crate::cells::{self, Aim, Cell, Head, Take, unproven, values};
use crate::document::{Edition, Row};
use crate::{Setup, StudyError};
use serde_json::json;
use wavelane_measure::jain;
use wavelane_run::{RunDocument, StackResult};

/// Bytes of one bandwidth-delay product: 20 Mbit/s x 50 ms.
const BDP: f64 = 125_000.0;
/// Queues of the bottleneck in BDP, with their words.
const QUEUES: [(f64, &str); 3] = [(0.25, "0.25"), (1.0, "1"), (4.0, "4")];
/// The rivals' congestion controls.
const RIVALS: [&str; 2] = ["cubic", "bbr"];
/// The aim: our share of both goodputs.
const SHARE_AIM: [f64; 2] = [0.25, 0.60];
/// The aim: what a rival keeps of what it gets beside its own kind.
const KEPT_AIM: f64 = 0.6;
/// The aim: Jain's index of two links of ours.
const JAIN_AIM: f64 = 0.9;
/// Application bytes at most: 1448 of every 1500 (see link-efficiency).
const LIMIT_BPS: f64 = 20e6 * 1448.0 / 1500.0;

/// Seconds per run and seeds.
const EDITIONS: [(u32, u32); 2] = [(15, 1), (60, 3)];

fn bottleneck(seconds: u32, queue: f64) -> Bottleneck {
    Bottleneck { mbit: 20, rtt_ms: 50, queue: (queue * BDP).round() as u64, jitter_us: 0, seconds, starts: [0, 0] }
}

/// Our link beside a plain flow; under the rival's own stack both are plain.
fn beside_tcp(seconds: u32, queue: (f64, &str), rival: &str) -> String {
    let title = format!("A link beside one {rival} flow, queue {} BDP", queue.1);
    bottleneck(seconds, queue.0).beside_tcp(&title, &[&format!("tcp-{rival}"), "wavelane"], rival)
}

/// Two links of ours.
fn beside_ours(seconds: u32, queue: (f64, &str)) -> String {
    bottleneck(seconds, queue.0).beside_ours(&format!("Two links, queue {} BDP", queue.1))
}

/// Runs the edition's cells and judges them.
pub(super) fn run(setup: &Setup<'_>) -> Result<Vec<Row>, StudyError> {
    let Setup { options, .. } = *setup;
    let (seconds, repeat) = EDITIONS[usize::from(options.edition == Edition::Full)];
    let rows_of = |task: &Task, take: Take<'_>| {
        let (name, text) = (task.name(), task.text(seconds));
        let document = take(&Cell::new(ID, &name, &text, repeat))?;
        let judged = |document: RunDocument| match task.rival {
            Some(rival) => against_tcp(&document, task.queue.1, rival),
            None => two_links(&document, task.queue.1),
        };
        Ok(document.map(judged))
    };
    cells::rows_of_all(&Task::all(), 1, setup, rows_of)
}

/// A queue, and the rival beside us at it; `None` is another link of ours.
struct Task {
    queue: (f64, &'static str),
    rival: Option<&'static str>,
}

impl Task {
    fn all() -> Vec<Self> {
        let at = |queue| RIVALS.into_iter().map(Some).chain([None]).map(move |rival| Self { queue, rival });
        QUEUES.into_iter().flat_map(at).collect()
    }
    fn name(&self) -> String {
        format!("{}-{}-bdp", self.rival.unwrap_or("two"), self.queue.1)
    }
    fn text(&self, seconds: u32) -> String {
        match self.rival {
            Some(rival) => beside_tcp(seconds, self.queue, rival),
            None => beside_ours(seconds, self.queue),
        }
    }
}

fn head(document: &RunDocument, stack: &str, queue: &str, beside: &str) -> Head {
    Head::new(ID, &document.backend, &[("queue_bdp", json!(queue)), ("beside", json!(beside))], stack)
}

fn goodputs(stack: &StackResult, flow: &str) -> Vec<f64> {
    values(stack, flow, |f| f.goodput_bps)
}

fn joined(a: &[f64], b: &[f64], by: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    if a.len() != b.len() { Vec::new() } else { a.iter().zip(b).map(|(a, b)| by(*a, *b)).collect() }
}

fn goodput_row(head: &Head, metric: &str, values: &[f64], why: &str) -> Row {
    let mut row = head.row(metric, "bit/s", values).bound_by(LIMIT_BPS);
    row.why = why.into();
    row
}

fn against_tcp(document: &RunDocument, queue: &str, rival: &str) -> Vec<Row> {
    let plain = format!("tcp-{rival}");
    let head = |stack: &str| head(document, stack, queue, &plain);
    let of = |word: &str| document.stacks.iter().find(|s| s.stack == word);
    let (Some(own), Some(mixed)) = (of(&plain), of("wavelane")) else {
        return vec![not_run(document, &head("wavelane"))];
    };
    let (ours, other) = (goodputs(mixed, OURS), goodputs(mixed, OTHER));
    let kind = joined(&goodputs(own, OURS), &goodputs(own, OTHER), |a, b| (a + b) / 2.0);
    let mut rows = vec![
        goodput_row(&head(&plain), "own_kind_goodput_bps", &kind, "mean of two such flows beside each other"),
        goodput_row(&head("wavelane"), "goodput_bps", &ours, "ours"),
        goodput_row(&head(&plain), "goodput_bps", &other, "the rival beside ours"),
    ];
    let shares = joined(&ours, &other, |a, b| a / (a + b));
    let share = head("wavelane").row("share", "share", &shares).between(SHARE_AIM[0], SHARE_AIM[1]);
    let mut kept =
        head(&plain).row("kept_share", "share", &joined(&other, &kind, |a, b| a / b)).judged(Aim::AtLeast(KEPT_AIM));
    kept.why = format!("{}, of what it gets beside its own kind", kept.why);
    rows.extend([share, kept]);
    rows.iter_mut().for_each(|row| unproven(row, &[own, mixed]));
    rows
}

fn two_links(document: &RunDocument, queue: &str) -> Vec<Row> {
    let head = head(document, "wavelane", queue, "wavelane");
    let Some(stack) = document.stacks.iter().find(|s| s.stack == "wavelane") else {
        return vec![not_run(document, &head)];
    };
    let (one, two) = (goodputs(stack, OURS), goodputs(stack, OTHER));
    let fair = head.row("jain", "index", &joined(&one, &two, |a, b| jain(&[a, b]).unwrap_or(f64::NAN)));
    let fair = fair.judged(Aim::AtLeast(JAIN_AIM)).bound_by(1.0);
    let mut rows = vec![
        goodput_row(&head, "goodput_bps", &one, "the first link"),
        goodput_row(&head, "goodput_bps", &two, "the second link"),
        fair,
    ];
    rows.iter_mut().for_each(|row| unproven(row, &[stack]));
    rows
}

#[cfg(test)]
#[path = "lab_tests.rs"]
mod tests;
