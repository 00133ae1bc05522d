//! Beside others on one drop-tail bottleneck: is Wavelane fair, and does it get its part?
//!
//! Two downloads meet in a channel of 20 Mbit/s and 50 ms of round trip between two routers. One comes through a pair of
//! gateways; the other is a plain TCP flow of a stated congestion control, or comes through a second pair. The same file
//! under the rival's own stack says what the rival gets beside its own kind.

use crate::cells::{Aim, Cell, Head, judge, unproven, values};
use crate::document::{Edition, Row, StudyDocument};
use crate::{MakeBackend, StudyError, StudyOptions};
use serde_json::{Map, Value, json};
use wavelane_scenario::{RunDocument, RunHooks, StackResult, Verdict};

/// The study's id.
pub(crate) const ID: &str = "link-sharing";
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

/// The flow through the first pair of gateways, and the other.
const OURS: &str = "ours";
const OTHER: &str = "other";

/// Seconds per run and seeds.
const EDITIONS: [(u32, u32); 2] = [(15, 1), (60, 3)];

/// Nodes and channels up to and beyond the bottleneck, the same in every cell, and our flow.
fn shared_text(title: &str, seconds: u32, stacks: &str, queue: f64, nodes: &str) -> String {
    let octets = (queue * BDP).round();
    let mut text = format!(
        r#"title = "{title}"
duration = "{seconds} s"
stacks = [{stacks}]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
here = "router"
there = "router"
{nodes}
[channels.narrow]
kind = "cable"
between = ["here", "there"]
forward = {{ rate = "20 Mbit/s", delay = "25 ms", queue = "{octets} B" }}
reverse = "same"
[flows.{OURS}]
app = "download"
from = "client"
to = "server"
"#
    );
    for (name, a, b) in
        [("lan_a", "client", "a"), ("a_here", "a", "here"), ("there_b", "there", "b"), ("lan_b", "b", "server")]
    {
        text += &veth(name, a, b);
    }
    text
}

fn veth(name: &str, a: &str, b: &str) -> String {
    format!("[channels.{name}]\npreset = \"ethernet\"\nbetween = [\"{a}\", \"{b}\"]\n")
}

/// Our link beside a plain flow; under the rival's own stack both are plain.
fn beside_tcp(seconds: u32, queue: (f64, &str), rival: &str) -> String {
    let title = format!("A link beside one {rival} flow, queue {} BDP", queue.1);
    let nodes = "sink = \"endpoint\"\nsource = \"endpoint\"";
    let mut text = shared_text(&title, seconds, &format!("\"tcp-{rival}\", \"wavelane\""), queue.0, nodes);
    text += &veth("sink_here", "sink", "here");
    text += &veth("there_src", "there", "source");
    text + &format!("[flows.{OTHER}]\napp = \"download\"\nfrom = \"sink\"\nto = \"source\"\ncontrol = \"{rival}\"\n")
}

/// Two links of ours.
fn beside_ours(seconds: u32, queue: (f64, &str)) -> String {
    let title = format!("Two links, queue {} BDP", queue.1);
    let nodes = "sink = \"endpoint\"\nsource = \"endpoint\"\nc = \"gateway\"\nd = \"gateway\"";
    let mut text = shared_text(&title, seconds, "\"wavelane\"", queue.0, nodes);
    for (name, a, b) in
        [("lan_c", "sink", "c"), ("c_here", "c", "here"), ("there_d", "there", "d"), ("lan_d", "d", "source")]
    {
        text += &veth(name, a, b);
    }
    text + &format!("[flows.{OTHER}]\napp = \"download\"\nfrom = \"sink\"\nto = \"source\"\n")
}

/// Runs the edition's cells and judges them.
pub(crate) fn run(
    make: &MakeBackend<'_>,
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<StudyDocument, StudyError> {
    let (seconds, repeat) = EDITIONS[usize::from(options.edition == Edition::Full)];
    let mut rows = Vec::new();
    let mut cell = |name: &str, text: &str, judge: &dyn Fn(&RunDocument) -> Vec<Row>| -> Result<(), StudyError> {
        let (_, document) = Cell { study: ID, name, text, repeat, own: None }.run(make, options, hooks)?;
        let found = judge(&document);
        found.iter().for_each(options.row);
        rows.extend(found);
        Ok(())
    };
    for queue in QUEUES {
        for rival in RIVALS {
            let name = format!("{rival}-{}-bdp", queue.1);
            cell(&name, &beside_tcp(seconds, queue, rival), &|d| against_tcp(d, queue.1, rival))?;
        }
        cell(&format!("two-{}-bdp", queue.1), &beside_ours(seconds, queue), &|d| two_links(d, queue.1))?;
    }
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

fn head(document: &RunDocument, stack: &str, queue: &str, beside: &str) -> Head {
    let case = [("queue_bdp", json!(queue)), ("beside", json!(beside))];
    let case = case.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<String, Value>>();
    Head { id: ID, backend: document.backend.clone(), case, stack: stack.into() }
}

fn goodputs(stack: &StackResult, flow: &str) -> Vec<f64> {
    values(stack, flow, |f| f.goodput_bps)
}

fn joined(a: &[f64], b: &[f64], by: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    if a.len() != b.len() { Vec::new() } else { a.iter().zip(b).map(|(a, b)| by(*a, *b)).collect() }
}

fn goodput_row(head: &Head, metric: &str, values: &[f64], why: &str) -> Row {
    let mut row = head.row(metric, "bit/s", values);
    row.bound = Some(LIMIT_BPS);
    row.why = why.into();
    row
}

fn not_run(document: &RunDocument, head: &Head) -> Vec<Row> {
    let mut row = head.row("share", "share", &[]);
    row.verdict = Verdict::Inconclusive;
    let whys: Vec<&str> = document.omitted.iter().map(|o| o.why.as_str()).collect();
    row.why = format!("not run: {}", whys.join("; "));
    vec![row]
}

fn against_tcp(document: &RunDocument, queue: &str, rival: &str) -> Vec<Row> {
    let plain = format!("tcp-{rival}");
    let head = |stack: &str| head(document, stack, queue, &plain);
    let of = |word: &str| document.stacks.iter().find(|s| s.stack == word);
    let (Some(own), Some(mixed)) = (of(&plain), of("wavelane")) else {
        return not_run(document, &head("wavelane"));
    };
    let (ours, other) = (goodputs(mixed, OURS), goodputs(mixed, OTHER));
    let kind = joined(&goodputs(own, OURS), &goodputs(own, OTHER), |a, b| (a + b) / 2.0);
    let mut rows = vec![
        goodput_row(&head(&plain), "own_kind_goodput_bps", &kind, "mean of two such flows beside each other"),
        goodput_row(&head("wavelane"), "goodput_bps", &ours, "ours"),
        goodput_row(&head(&plain), "goodput_bps", &other, "the rival beside ours"),
    ];
    let shares = joined(&ours, &other, |a, b| a / (a + b));
    let mut share = head("wavelane").row("share", "share", &shares);
    judge(&mut share, Aim::AtLeast(SHARE_AIM[0]));
    if share.verdict == Verdict::Pass {
        judge(&mut share, Aim::AtMost(SHARE_AIM[1]));
    }
    share.why = format!("{}; the aim is {} to {}", share.why, SHARE_AIM[0], SHARE_AIM[1]);
    let mut kept = head(&plain).row("kept_share", "share", &joined(&other, &kind, |a, b| a / b));
    judge(&mut kept, Aim::AtLeast(KEPT_AIM));
    kept.why = format!("{}, of what it gets beside its own kind", kept.why);
    rows.extend([share, kept]);
    rows.iter_mut().for_each(|row| unproven(row, &[own, mixed]));
    rows
}

fn two_links(document: &RunDocument, queue: &str) -> Vec<Row> {
    let head = head(document, "wavelane", queue, "wavelane");
    let Some(stack) = document.stacks.iter().find(|s| s.stack == "wavelane") else {
        return not_run(document, &head);
    };
    let (one, two) = (goodputs(stack, OURS), goodputs(stack, OTHER));
    // Jain, Chiu and Hawe 1984: (sum)^2 / (n x sum of squares).
    let jain = joined(&one, &two, |a, b| (a + b) * (a + b) / (2.0 * (a * a + b * b)));
    let mut fair = head.row("jain", "index", &jain);
    judge(&mut fair, Aim::AtLeast(JAIN_AIM));
    fair.bound = Some(1.0);
    let mut rows = vec![
        goodput_row(&head, "goodput_bps", &one, "the first link"),
        goodput_row(&head, "goodput_bps", &two, "the second link"),
        fair,
    ];
    rows.iter_mut().for_each(|row| unproven(row, &[stack]));
    rows
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
