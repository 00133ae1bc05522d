//! In the simulator: many links, five rivals, both orders of arrival, half of the links kept for judging.

use super::text::Bottleneck;
use super::{ID, OTHER, OURS, PARTS, not_run};
use crate::cells::{Aim, Cell, Head, documents};
use crate::document::{Edition, Row};
use crate::{Setup, StudyError};
use serde_json::json;
use std::path::Path;
use wavelane_measure::{jain, mean};
use wavelane_run::{RunDocument, Series, StackResult};

const RATES_MBIT: [u32; 3] = [5, 20, 100];
const RTTS_MS: [u32; 3] = [20, 50, 100];
/// Queues in bandwidth-delay products, with their words.
const QUEUES: [(f64, &str); 3] = [(0.25, "0.25"), (1.0, "1"), (4.0, "4")];
/// The shortest queue, in octets: 8 packets. In a shorter one not even CUBIC shares with itself.
const QUEUE_LEAST: u64 = 8 * 1_500;
/// The rivals' congestion controls.
const RIVALS: [&str; 4] = ["cubic", "reno", "bbr", "bbr3"];
/// The later flow starts this many seconds later.
const LATER: u32 = 5;

/// The aim: our share of both goodputs, or what CUBIC takes from that rival and a little more, if that is more.
const SHARE_AIM: f64 = 0.60;
const SHARE_MARGIN: f64 = 0.05;
/// What we should get at least; reported.
const SHARE_LEAST: f64 = 0.25;
/// The aim: what a rival keeps of what it gets beside its own kind.
const KEPT_AIM: f64 = 0.6;
/// The aim: Jain's index of two links of ours.
const JAIN_AIM: f64 = 0.9;
/// The aim: in this share of the judged cells.
const CELLS_AIM: f64 = 0.90;
const JAIN_CELLS_AIM: f64 = 0.95;

/// How much of it is run.
struct Extent {
    seeds: u32,
    /// Goodput counts from here to the run's end, in seconds.
    from: u32,
    until: u32,
    /// Links faster than this are left out.
    fastest_mbit: u32,
    /// Links that are not judged are run too.
    all: bool,
}

const QUICK: Extent = Extent { seeds: 1, from: 20, until: 60, fastest_mbit: 20, all: false };
const FULL: Extent = Extent { seeds: 10, from: 30, until: 150, fastest_mbit: 100, all: true };

/// One bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Link {
    mbit: u32,
    rtt_ms: u32,
    queue: (f64, &'static str),
    /// Kept for judging: nothing may be tuned on it.
    judged: bool,
}

/// Every link; judged is every second one, so that each rate, round trip and queue is on both sides.
fn links() -> Vec<Link> {
    let mut links = Vec::new();
    for mbit in RATES_MBIT {
        for rtt_ms in RTTS_MS {
            for queue in QUEUES {
                links.push(Link { mbit, rtt_ms, queue, judged: links.len() % 2 == 1 });
            }
        }
    }
    links
}

impl Link {
    fn bottleneck(&self, seconds: u32, starts: [u32; 2]) -> Bottleneck {
        let bdp = f64::from(self.mbit) * 125.0 * f64::from(self.rtt_ms);
        let queue = ((self.queue.0 * bdp).round() as u64).max(QUEUE_LEAST);
        // Packets of one size, clocked by their acknowledgements, can find the queue full whenever the other flow's find
        // room, for ever (Floyd and Jacobson 1992, "traffic phase effects"). Random delays of up to one packet's time, as
        // hosts have, end it; `docs/decisions/0028-sharing-in-the-simulator.md` has figures.
        let jitter_us = 12_000 / self.mbit;
        Bottleneck { mbit: self.mbit, rtt_ms: self.rtt_ms, queue, jitter_us, seconds, starts }
    }
    fn name(&self) -> String {
        format!("{}-mbit-{}-ms-{}-bdp", self.mbit, self.rtt_ms, self.queue.1)
    }
    fn head(&self, stack: &str, beside: &str) -> Head {
        let case = [
            ("rate", json!(format!("{} Mbit/s", self.mbit))),
            ("rtt", json!(format!("{} ms", self.rtt_ms))),
            ("queue_bdp", json!(self.queue.1)),
            ("beside", json!(beside)),
            ("link", json!(if self.judged { "judged" } else { "free" })),
        ];
        Head::new(ID, PARTS[0], &case, stack)
    }
}

/// A link and the rival beside us on it; `None` is another link of ours.
struct Task {
    link: Link,
    rival: Option<&'static str>,
    /// When our flow and the other begin.
    starts: [u32; 2],
}

impl Task {
    /// Stacks in the order: the rival beside its own kind, CUBIC beside the rival, we beside it.
    fn stacks(rival: &str) -> Vec<String> {
        let own = format!("tcp-{rival}");
        let cubic = (rival != "cubic").then(|| "tcp-cubic".to_owned());
        [Some(own), cubic, Some("wavelane".to_owned())].into_iter().flatten().collect()
    }
    fn text(&self, seconds: u32) -> String {
        let Link { mbit, rtt_ms, queue, .. } = self.link;
        let bottleneck = self.link.bottleneck(seconds, self.starts);
        let on = format!("on {mbit} Mbit/s, {rtt_ms} ms, queue {} BDP", queue.1);
        match self.rival {
            Some(rival) => {
                let stacks = Self::stacks(rival);
                let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
                bottleneck.beside_tcp(&format!("A link beside one {rival} flow {on}"), &stacks, rival)
            }
            None => bottleneck.beside_ours(&format!("Two links {on}")),
        }
    }
    fn name(&self) -> String {
        let order = if self.starts[0] == 0 { "first" } else { "later" };
        format!("sim-{}-{}-{order}", self.link.name(), self.rival.unwrap_or("wavelane"))
    }
    /// The tasks of the links that `extent` runs.
    fn all(extent: &Extent) -> Vec<Self> {
        let runs = |link: &Link| link.mbit <= extent.fastest_mbit && (extent.all || link.judged);
        let rivals = || RIVALS.into_iter().map(Some).chain([None]);
        let orders = |rival: Option<&str>| -> &[[u32; 2]] {
            // Two of a kind are the same in either order.
            if rival.is_some() { &[[0, LATER], [LATER, 0]] } else { &[[0, LATER]] }
        };
        let tasks = links().into_iter().filter(runs).flat_map(|link| {
            rivals()
                .flat_map(move |rival| orders(rival).iter().map(move |starts| Self { link, rival, starts: *starts }))
        });
        tasks.collect()
    }
}

/// Goodputs of both flows by stack and seed, in Mbit/s.
type Measured = Vec<(String, Vec<[f64; 2]>)>;

/// Both flows' goodputs over the time that counts, from the Record's series.
fn measured(document: &RunDocument, extent: &Extent) -> Option<Measured> {
    let record = Path::new(&document.record);
    let (from, until) = (u64::from(extent.from) * 1_000_000_000, u64::from(extent.until) * 1_000_000_000);
    let mbit = |stack: &StackResult, flow: &str| -> Option<Vec<f64>> {
        let of_flow = stack.flows.iter().filter(|figures| figures.flow == flow);
        let goodput = of_flow.map(|figures| match document.series(record, &stack.stack, figures).ok()? {
            Series::Arrivals(list) => {
                let octets: u64 = list.iter().filter(|(at, _)| (from..until).contains(at)).map(|(_, n)| n).sum();
                Some(octets as f64 * 8e3 / (until - from) as f64)
            }
            _ => None,
        });
        goodput.collect()
    };
    let of_stack = |stack: &StackResult| {
        let pairs = mbit(stack, OURS)?.into_iter().zip(mbit(stack, OTHER)?).map(|(ours, other)| [ours, other]);
        Some((stack.stack.clone(), pairs.collect()))
    };
    document.stacks.iter().map(of_stack).collect()
}

/// The result of a cell: per seed, both orders averaged.
#[derive(Debug, Default)]
struct Outcome {
    shares: Vec<f64>,
    kept: Vec<f64>,
    /// What CUBIC takes in our place.
    cubic: Vec<f64>,
}

fn outcome(rival: &str, orders: &[Measured]) -> Option<Outcome> {
    let of = |word: &str| -> Option<Vec<&Vec<[f64; 2]>>> {
        orders.iter().map(|order| Some(&order.iter().find(|(stack, _)| stack == word)?.1)).collect()
    };
    let (own, cubic, mixed) = (of(&format!("tcp-{rival}"))?, of("tcp-cubic")?, of("wavelane")?);
    let per_seed = |of: &[&Vec<[f64; 2]>], figure: &dyn Fn([f64; 2]) -> f64| -> Vec<f64> {
        let seeds = of.iter().map(|pairs| pairs.len()).min().unwrap_or(0);
        (0..seeds).filter_map(|seed| mean(&of.iter().map(|pairs| figure(pairs[seed])).collect::<Vec<_>>())).collect()
    };
    let share = |[ours, other]: [f64; 2]| ours / (ours + other);
    let beside_its_kind = per_seed(&own, &|[a, b]| (a + b) / 2.0);
    let beside_us = per_seed(&mixed, &|[_, other]| other);
    let kept = beside_us.iter().zip(&beside_its_kind).map(|(beside, kind)| beside / kind).collect();
    Some(Outcome { shares: per_seed(&mixed, &share), kept, cubic: per_seed(&cubic, &share) })
}

/// Whether a cell keeps the aims: our share, what the rival keeps; and whether we get our part.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Held {
    share: bool,
    kept: bool,
    part: bool,
}

fn held(outcome: &Outcome) -> Option<Held> {
    let (share, kept, cubic) = (mean(&outcome.shares)?, mean(&outcome.kept)?, mean(&outcome.cubic)?);
    Some(Held {
        share: share <= SHARE_AIM.max(cubic + SHARE_MARGIN),
        kept: kept >= KEPT_AIM,
        part: share >= SHARE_LEAST.min(cubic - SHARE_MARGIN),
    })
}

/// The rows of one link beside one TCP.
fn rows_beside(link: &Link, rival: &str, outcome: &Outcome) -> Vec<Row> {
    let plain = format!("tcp-{rival}");
    let words = |holds: bool| if holds { "holds" } else { "does not hold" };
    let held = held(outcome);
    let mut share = link.head("wavelane", &plain).row("share", "share", &outcome.shares);
    let mut kept = link.head(&plain, &plain).row("kept_share", "share", &outcome.kept);
    let mut cubic = link.head("tcp-cubic", &plain).row("share", "share", &outcome.cubic);
    cubic.why = "what CUBIC takes in our place".into();
    if let (Some(held), Some(theirs)) = (held, cubic.value) {
        let most = SHARE_AIM.max(theirs + SHARE_MARGIN);
        share.why = format!("at most {most:.2} {}; our part {}", words(held.share), words(held.part));
        kept.why = format!("at least {KEPT_AIM} of what it gets beside its own kind {}", words(held.kept));
    }
    vec![share, kept, cubic]
}

/// In how many of the judged cells an aim holds.
fn over_cells(metric: &str, cells: &[bool], aim: Option<f64>) -> Row {
    let head = Head::new(ID, PARTS[0], &[], "wavelane");
    let share = cells.iter().filter(|holds| **holds).count() as f64 / cells.len() as f64;
    let row = Row {
        n: cells.len() as u64,
        ..head.row(metric, "share of cells", &if cells.is_empty() { Vec::new() } else { vec![share] })
    };
    if let Some(aim) = aim { row.judged(Aim::AtLeast(aim)) } else { row }
}

/// Runs the edition's links.
pub(super) fn run(setup: &Setup<'_>) -> Result<Vec<Row>, StudyError> {
    let Setup { options, .. } = *setup;
    let extent = if options.edition == Edition::Full { FULL } else { QUICK };
    let (mut rows, mut helds, mut jains) = (Vec::new(), Vec::new(), Vec::new());
    let mut orders: Vec<Measured> = Vec::new();
    let tasks = Task::all(&extent);
    let files: Vec<(String, String)> = tasks.iter().map(|task| (task.name(), task.text(extent.until))).collect();
    let repeat = extent.seeds;
    let cells: Vec<Cell<'_>> = files.iter().map(|(name, text)| Cell::new(ID, name, text, repeat)).collect();
    let documents = documents(&cells, "runs", options.workers(), setup)?;
    for (task, document) in tasks.into_iter().zip(documents) {
        let beside = task.rival.map_or("wavelane".to_owned(), |rival| format!("tcp-{rival}"));
        let Some(measured) = measured(&document, &extent) else {
            rows.push(not_run(&document, &task.link.head("wavelane", &beside)));
            continue;
        };
        let found = match task.rival {
            None => {
                let both = measured.first().map(|(_, pairs)| pairs.as_slice()).unwrap_or_default();
                let each: Vec<f64> = both.iter().filter_map(|pair| jain(pair)).collect();
                if let Some(index) = mean(&each).filter(|_| task.link.judged) {
                    jains.push(index >= JAIN_AIM);
                }
                vec![task.link.head("wavelane", &beside).row("jain", "index", &each)]
            }
            Some(_) if task.starts[0] == 0 => {
                orders = vec![measured];
                continue;
            }
            Some(rival) => {
                orders.push(measured);
                let outcome = outcome(rival, &orders).unwrap_or_default();
                helds.extend(held(&outcome).filter(|_| task.link.judged));
                rows_beside(&task.link, rival, &outcome)
            }
        };
        found.iter().for_each(options.row);
        rows.extend(found);
    }
    let cells = |holds: fn(&Held) -> bool| helds.iter().map(holds).collect::<Vec<_>>();
    let totals = [
        over_cells("cells_fair", &cells(|held| held.share && held.kept), Some(CELLS_AIM)),
        over_cells("cells_with_share", &cells(|held| held.share), None),
        over_cells("cells_with_kept_share", &cells(|held| held.kept), None),
        over_cells("cells_with_our_part", &cells(|held| held.part), None),
        over_cells("cells_with_jain", &jains, Some(JAIN_CELLS_AIM)),
    ];
    totals.iter().for_each(options.row);
    rows.extend(totals);
    Ok(rows)
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
