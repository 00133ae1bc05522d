//! Gateway capacity: how much two gateways carry when nothing but the machine limits them, and what it costs.
//!
//! Per stack, number of flows and direction: goodput, and processor time per 10^9 bytes, the whole machine's less what
//! plain forwarding of the same traffic takes, beside the programs' own. Claims: at least [`AIM`] in every cell, and
//! ahead of each peer in every cell.

use crate::document::{Edition, Row, StudyDocument};
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{Setup, StudyError};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::atomic::Ordering;
use wavelane_base::{Rate, Span};
use wavelane_lab::{Bench, Capacity, CapacityCase, TransferDirection, can_measure};
use wavelane_measure::mean_ci95;
use wavelane_run::{BackendError, Progress, RunError, RunHooks, Verdict};
use wavelane_scenario::Stack;

/// The study's id.
pub(crate) const ID: &str = "gateway-capacity";
/// What the gateways must carry on two processors shared with both ends.
const AIM: Rate = Rate::from_bps(1_500_000_000);
/// The baseline: the kernel forwards.
const PLAIN: &str = "tcp-cubic";
const OURS: &str = "wavelane";
/// The same, and flows sealed from edge to edge besides.
const SEALED: &str = "wavelane-sealed";
/// What sealing may leave at least.
const SEALED_SHARE: f64 = 0.75;
/// Clients that open connections at once: few, whose rate is that of waking so many programs in turn, and enough that work is never lacking.
const OPENERS: [usize; 2] = [8, 64];
/// The fastest tunnel of others: WireGuard's own program in user space.
const RIVAL: &str = "wireguard-go";
/// How far ahead of it at least in every cell, and in the median of them.
const RIVAL_LEAST: f64 = 1.3;
const RIVAL_MEDIAN: f64 = 1.5;
/// In the order in which they are measured.
const STACKS: [&str; 7] = [PLAIN, OURS, SEALED, "kcptun", "kcptun-fast3", "boringtun-cubic", RIVAL];
const FLOWS: [usize; 2] = [1, 8];
const WAYS: [TransferDirection; 2] = [TransferDirection::Up, TransferDirection::Down];

/// Runs per cell, and how long each warms up and counts.
struct Plan {
    runs: usize,
    warm_up: Span,
    time: Span,
}

impl Plan {
    fn of(edition: Edition) -> Self {
        match edition {
            Edition::Quick => Self { runs: 1, warm_up: Span::from_secs(1), time: Span::from_secs(4) },
            Edition::Full => Self { runs: 3, warm_up: Span::from_secs(2), time: Span::from_secs(10) },
        }
    }
}

/// One stack, number of flows and direction.
struct Cell {
    stack: &'static str,
    flows: usize,
    way: TransferDirection,
    runs: Vec<Capacity>,
    /// Why there is no value, or no reliable one.
    missing: Option<String>,
    /// Whether that is because the program is not installed: the quick edition does without it.
    absent: bool,
}

/// Measures every cell and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let plan = Plan::of(options.edition);
    let kept = Kept::open(options, ID);
    // A stack's cells share one topology.
    let work = |name: &&'static str| {
        let stack = stack_of(name);
        let cells = match can_measure(stack) {
            Ok(()) => measure(name, stack, &plan, &options.out.join(ID), hooks)?,
            // Without our own programs or privileges nothing can be said at all.
            Err(why) if *name == OURS || *name == PLAIN => return Err(RunError::Refused(why).into()),
            Err(why) => {
                let absent = options.edition == Edition::Quick;
                (empty(name, &why).map(|cell| Cell { absent, ..cell }).collect(), None)
            }
        };
        let (cells, opens) = cells;
        // What is missing is measured again.
        Ok(match in_figures(&cells) {
            Some(figures) => {
                let (figures, opens) = kept.put(name, (figures, opens));
                (of_figures(name, figures), Some(*name).zip(opens))
            }
            None => (cells, Some(*name).zip(opens)),
        })
    };
    let found = |name: &&'static str| {
        let (figures, opens) = kept.get(name)?;
        Some((of_figures(name, figures), Some(*name).zip(opens)))
    };
    let runner = Runner { what: "stacks", workers: 1, hooks };
    let (cells, opens): (Vec<_>, Vec<_>) = runner.run(&STACKS, |_| 1.0, found, work)?.into_iter().unzip();
    let cells: Vec<Cell> = cells.into_iter().flatten().collect();
    let opens: Vec<Opens> = opens.into_iter().flatten().collect();
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, judge(&cells, &opens)))
}

/// The connections per second that so many clients, [`OPENERS`], open and end.
type Opened = [f64; OPENERS.len()];
/// The same across a stack.
type Opens = (&'static str, Opened);

/// Stacks of which these are counted: where a flow costs a handshake, and where not.
const OPENING: [&str; 2] = [OURS, SEALED];

fn stack_of(name: &str) -> Stack {
    let word = if name == SEALED { OURS } else { name };
    Stack::from_word(word).expect("the list above names stacks")
}

/// A measurement as it is kept: bytes, nanoseconds, and the two processor times.
type Figures = (u64, u64, Option<f64>, Option<f64>);

/// The runs of a stack's cells, if all are there.
fn in_figures(cells: &[Cell]) -> Option<Vec<Vec<Figures>>> {
    let figures = |c: &Capacity| (c.octets, c.time.as_nanos(), c.busy, c.programs);
    let whole = cells.iter().all(|cell| cell.missing.is_none());
    whole.then(|| cells.iter().map(|cell| cell.runs.iter().map(figures).collect()).collect())
}

fn of_figures(stack: &'static str, kept: Vec<Vec<Figures>>) -> Vec<Cell> {
    let capacity = |(octets, ns, busy, programs)| Capacity { octets, time: Span::from_nanos(ns), busy, programs };
    let filled = |(cell, runs): (Cell, Vec<Figures>)| Cell {
        runs: runs.into_iter().map(capacity).collect(),
        missing: None,
        ..cell
    };
    empty(stack, "").zip(kept).map(filled).collect()
}

fn empty<'a>(stack: &'static str, why: &'a str) -> impl Iterator<Item = Cell> + 'a {
    let missing = Some(why.to_owned());
    FLOWS.into_iter().flat_map(|flows| WAYS.map(|way| (flows, way))).map(move |(flows, way)| Cell {
        stack,
        flows,
        way,
        runs: Vec::new(),
        missing: missing.clone(),
        absent: false,
    })
}

/// All cells of one stack, on one topology.
fn measure(
    name: &'static str,
    stack: Stack,
    plan: &Plan,
    out: &Path,
    hooks: &RunHooks<'_>,
) -> Result<(Vec<Cell>, Option<Opened>), StudyError> {
    let failed = |error: BackendError| match error {
        BackendError::Cancelled => Err(RunError::Cancelled),
        other => Ok(other.to_string()),
    };
    let mut bench = match Bench::start(stack, name == SEALED, out, hooks.cancelled) {
        Ok(bench) => bench,
        Err(error) => {
            let why = failed(error)?;
            return Ok((empty(name, &why).collect(), None));
        }
    };
    let mut cells: Vec<Cell> = empty(name, "").collect();
    let each = plan.warm_up + plan.time;
    let of = each.times((cells.len() * plan.runs) as u64);
    let mut done = 0;
    for cell in &mut cells {
        cell.missing = None;
        let case = CapacityCase { flows: cell.flows, way: cell.way, warm_up: plan.warm_up, time: plan.time };
        for _ in 0..plan.runs {
            if hooks.cancelled.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.into());
            }
            let note = format!("{} flows {}", cell.flows, word(cell.way));
            (hooks.progress)(Progress { stack, seed: wavelane_base::Seed(0), at: each.times(done), of, note });
            match bench.measure(case, hooks.cancelled) {
                Ok(capacity) => cell.runs.push(capacity),
                Err(error) => cell.missing = Some(failed(error)?),
            }
            done += 1;
        }
    }
    let mut opens = None;
    if OPENING.contains(&name) {
        let mut opened = Opened::default();
        let found = OPENERS.iter().zip(&mut opened).try_for_each(|(clients, rate)| {
            let (count, time) = bench.opens(*clients, plan.time, hooks.cancelled)?;
            *rate = count as f64 / time.as_secs_f64();
            Ok::<(), BackendError>(())
        });
        opens = match found {
            Ok(()) => Some(opened),
            // The rows are missing then, and say so.
            Err(error) => failed(error).map(|_| None)?,
        };
    }
    let notes = bench.stop();
    if !notes.is_empty() {
        let note = notes.join("; ");
        (hooks.progress)(Progress { stack, seed: wavelane_base::Seed(0), at: of, of, note });
    }
    Ok((cells, opens))
}

fn word(way: TransferDirection) -> &'static str {
    match way {
        TransferDirection::Up => "up",
        TransferDirection::Down => "down",
    }
}

fn judge(cells: &[Cell], opens: &[Opens]) -> Vec<Row> {
    let mut rows: Vec<Row> = cells.iter().flat_map(|cell| measured(cell, cells)).collect();
    rows.extend(OPENING.iter().flat_map(|stack| (0..OPENERS.len()).map(move |place| opening(stack, place, opens))));
    rows.push(fast_enough(cells));
    rows.push(least_ratio(cells, SEALED, OURS, SEALED_SHARE));
    let rivals = STACKS.iter().filter(|s| ![OURS, SEALED, PLAIN].contains(s));
    rows.extend(rivals.map(|rival| least_ratio(cells, OURS, rival, if *rival == RIVAL { RIVAL_LEAST } else { 1.0 })));
    rows.push(median_ratio(cells));
    rows
}

/// Connections per second, not judged.
fn opening(stack: &'static str, place: usize, opens: &[Opens]) -> Row {
    let mut row = Row::new(ID, "lab", stack, "opens_per_s", "1/s");
    row.case.insert("clients".into(), json!(OPENERS[place]));
    row.value = opens.iter().find(|(of, _)| *of == stack).map(|(_, opened)| opened[place]);
    row.n = u64::from(row.value.is_some());
    row.why = "connections that were opened at both ends and ended in order".into();
    if row.value.is_none() {
        row.verdict = Verdict::Inconclusive;
    }
    row
}

/// A cell's rows: goodput and the two costs.
fn measured(cell: &Cell, cells: &[Cell]) -> Vec<Row> {
    let plain = find(cells, PLAIN, cell).and_then(|plain| mean(plain, |c| c.per_gb(c.busy)));
    let goodput = values(cell, |c| Some(c.goodput().as_bps() as f64));
    let beyond = values(cell, |c| Some(c.per_gb(c.busy)? - plain?));
    let own = values(cell, |c| c.per_gb(c.programs));
    let figures = [
        ("goodput_bps", "bit/s", goodput, "bytes that the receiving applications read"),
        ("cpu_s_per_gb", "s/GB", beyond, "the whole machine, less plain forwarding of the same traffic"),
        ("cpu_own_s_per_gb", "s/GB", own, "user and system time of the programs between the ends"),
    ];
    let made = figures.into_iter().map(|(metric, unit, values, about)| {
        let mut row = Row::new(ID, "lab", cell.stack, metric, unit);
        row.case = case(cell);
        row.n = values.len() as u64;
        if let Some((mean, half)) = mean_ci95(&values) {
            row.value = Some(mean);
            row.ci95 = half;
        }
        row.why = about.into();
        if let Some(why) = &cell.missing {
            row.verdict = if cell.absent { Verdict::Info } else { Verdict::Inconclusive };
            row.why.clone_from(why);
        }
        row
    });
    // Plain forwarding has no programs, and costs nothing beyond itself.
    made.take(if cell.stack == PLAIN { 1 } else { 3 }).collect()
}

fn case(cell: &Cell) -> Map<String, Value> {
    let pairs = [("flows", json!(cell.flows)), ("direction", json!(word(cell.way)))];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn values(cell: &Cell, of: impl Fn(&Capacity) -> Option<f64>) -> Vec<f64> {
    cell.runs.iter().filter_map(of).collect()
}

fn mean(cell: &Cell, of: impl Fn(&Capacity) -> Option<f64>) -> Option<f64> {
    mean_ci95(&values(cell, of)).map(|(mean, _)| mean)
}

fn goodput(cell: &Cell) -> Option<f64> {
    mean(cell, |c| Some(c.goodput().as_bps() as f64)).filter(|_| cell.missing.is_none())
}

/// The cell of `stack` with the same traffic as `like`.
fn find<'a>(cells: &'a [Cell], stack: &str, like: &Cell) -> Option<&'a Cell> {
    cells.iter().find(|c| c.stack == stack && (c.flows, c.way) == (like.flows, like.way))
}

/// Our slowest cell against the aim.
fn fast_enough(cells: &[Cell]) -> Row {
    let mut row = Row::new(ID, "lab", OURS, "least goodput_bps", "bit/s");
    let all: Option<Vec<f64>> = cells.iter().filter(|c| c.stack == OURS).map(goodput).collect();
    let least = all.filter(|all| !all.is_empty()).map(|all| (all.len(), all.into_iter().fold(f64::INFINITY, f64::min)));
    let Some((n, least)) = least else { return lacking(row, "a cell of ours lacks its goodput") };
    let aim = AIM.as_bps() as f64;
    row.value = Some(least);
    row.n = n as u64;
    row.verdict = if least >= aim { Verdict::Pass } else { Verdict::Fail };
    row.why = format!("{:.2} Gbit/s in the slowest cell, wanted at least {:.2}", least / 1e9, aim / 1e9);
    row
}

/// A stack's goodput over another's, in one of the cells; it is to be `aim` at least.
fn judged_ratio(
    cells: &[Cell],
    (stack, other): (&str, &str),
    (metric, place): (&str, &str),
    of: impl Fn(Vec<f64>) -> f64,
    aim: f64,
) -> Row {
    let row = Row::new(ID, "lab", stack, &format!("{metric} goodput_bps over {other}"), "ratio");
    let ratios = match ratios(cells, stack, other) {
        Ok(ratios) => ratios,
        Err((why, verdict)) => return Row { verdict, why, ..row },
    };
    let (n, value) = (ratios.len() as u64, of(ratios));
    let verdict = if value >= aim { Verdict::Pass } else { Verdict::Fail };
    Row { value: Some(value), n, verdict, why: format!("{value:.3} in {place}, wanted at least {aim}"), ..row }
}

fn least_ratio(cells: &[Cell], stack: &str, other: &str, aim: f64) -> Row {
    let least = |ratios: Vec<f64>| ratios.into_iter().fold(f64::INFINITY, f64::min);
    judged_ratio(cells, (stack, other), ("least_ratio", "the cell where it is least"), least, aim)
}

/// Our goodput over that of WireGuard's own program, in the median cell.
fn median_ratio(cells: &[Cell]) -> Row {
    let median = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        f64::midpoint(ratios[(ratios.len() - 1) / 2], ratios[ratios.len() / 2])
    };
    judged_ratio(cells, (OURS, RIVAL), ("median_ratio", "the median of the cells"), median, RIVAL_MEDIAN)
}

/// A stack's goodput over another's in each cell; at least one, all finite. Else why not, and what that makes of a row.
fn ratios(cells: &[Cell], stack: &str, other: &str) -> Result<Vec<f64>, (String, Verdict)> {
    let lacking = |name: &str| cells.iter().find(|c| c.stack == name && c.missing.is_some());
    if let Some(cell) = lacking(stack).or(lacking(other)) {
        let verdict = if cell.absent { Verdict::Info } else { Verdict::Inconclusive };
        return Err((cell.missing.clone().unwrap_or_default(), verdict));
    }
    let ours = cells.iter().filter(|c| c.stack == stack);
    let ratios: Option<Vec<f64>> = ours.map(|c| Some(goodput(c)? / goodput(find(cells, other, c)?)?)).collect();
    ratios
        .filter(|all| !all.is_empty() && all.iter().all(|r| r.is_finite()))
        .ok_or_else(|| ("a cell lacks its goodput".into(), Verdict::Inconclusive))
}

fn lacking(mut row: Row, why: &str) -> Row {
    row.verdict = Verdict::Inconclusive;
    why.clone_into(&mut row.why);
    row
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
