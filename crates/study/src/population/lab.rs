//! Members of the population between real kernels and the shipped gateways: whether the laboratory agrees with the
//! simulator, draw by draw.

use super::draw::Draw;
use super::judge::case_of;
use super::store::{Seen, Store};
use super::{BBR, ID, LAB, OURS, STACKS};
use crate::cells::{self, Aim, Cell, Take};
use crate::document::{Row, StudyDocument};
use crate::{Setup, StudyError, StudyOptions};
use std::ops::RangeInclusive;
use wavelane_base::Seed;
use wavelane_run::{Backend, RunDocument, RunHooks, Verdict};

/// What is run unless stacks are named. BBR fills links that CUBIC does not, so that it shows more.
const BOTH: [&str; 2] = [OURS, BBR];
/// How many members unless they are named: the edition's first that fit.
const DRAWS: usize = 10;
/// Fastest direction the laboratory keeps time for, in bit/s.
const RATE_MAX: u64 = 100_000_000;
/// Longest member: it costs real time.
const LASTS_MAX_MS: u64 = 60_000;
/// Most bytes on path and in queue: Linux gives a connection's receiver 6 MiB and its sender 4 MiB (tcp_rmem, tcp_wmem),
/// of which about half are payload, while the simulated TCPs have all they can use.
const HELD_MAX: f64 = 2e6;
/// The aim: the laboratory's goodput is within this share of the simulator's.
const WITHIN: f64 = 0.1;
/// The rows' metrics.
pub(super) const METRIC: &str = "lab_over_sim";
const CLAIM: &str = "lab_agreement_share";

/// Why the lab cannot impose a draw as the simulator does; nothing if it can.
fn unfit(draw: &Draw) -> Option<String> {
    if draw.radio.is_some() {
        return Some("a radio cell is a model of the simulator".into());
    }
    let rate = draw.down.rate.max(draw.up.rate);
    let held = |way: &&super::draw::Way| way.rate as f64 * draw.rtt_ms / 8e3 + way.queue as f64;
    let held = draw.loaded().iter().map(held).fold(0.0, f64::max);
    if rate > RATE_MAX {
        return Some(format!("{} Mbit/s, more than {}", rate as f64 / 1e6, RATE_MAX / 1_000_000));
    }
    if draw.lasts_ms > LASTS_MAX_MS {
        return Some(format!("lasts {} s, longer than {}", draw.lasts_ms / 1_000, LASTS_MAX_MS / 1_000));
    }
    (held > HELD_MAX)
        .then(|| format!("path and queue hold {:.1} MB, and a kernel's TCP fills {:.1}", held / 1e6, HELD_MAX / 1e6))
}

/// Runs members in the simulator and in the laboratory, and judges their agreement.
pub(super) fn run(
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
    store: &Store,
    numbers: RangeInclusive<u64>,
) -> Result<StudyDocument, StudyError> {
    let named = |stack: &&&str| match options.stacks.is_empty() {
        true => BOTH.contains(stack),
        false => options.stacks.iter().any(|one| one == **stack),
    };
    let stacks: Vec<&'static str> = STACKS.iter().filter(named).copied().collect();
    let (mut draws, mut rows) = (Vec::new(), Vec::new());
    for draw in numbers.map(|number| super::draw::draw(options.seed, number)) {
        match unfit(&draw) {
            None => draws.push(draw),
            Some(why) if options.draws.is_some() => {
                let why = format!("not run, the lab cannot impose it: {why}");
                rows.push(Row { case: case_of(&draw), why, ..Row::new(ID, LAB, OURS, METRIC, "ratio") });
            }
            Some(_) => {}
        }
        if options.draws.is_none() && draws.len() == DRAWS {
            break;
        }
    }
    rows.iter().for_each(options.row);
    let make = || -> Box<dyn Backend> { Box::new(wavelane_lab::LabBackend) };
    let rows_of = |draw: &Draw, take: Take<'_>| {
        let (text, name) = (draw.scenario(&stacks), format!("lab-{:06}", draw.number));
        let own = Some((Seed(draw.dice), replay(draw)));
        let cell = Cell { own, ..Cell::new(ID, &name, &text, 1) };
        let Some(document) = take(&cell)? else { return Ok(None) };
        let simulated = simulated(store, draw, &stacks, hooks)?;
        Ok(Some(simulated.iter().map(|seen| one(draw, seen, &document)).collect()))
    };
    rows.extend(cells::rows_of_all(&draws, 1, &Setup { make: &make, options, hooks }, rows_of)?);
    let mut all: Vec<Row> = stacks.iter().map(|stack| claim(stack, &rows)).collect();
    all.iter().for_each(options.row);
    all.extend(rows);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, all))
}

fn simulated(store: &Store, draw: &Draw, stacks: &[&str], hooks: &RunHooks<'_>) -> Result<Vec<Seen>, StudyError> {
    let text = draw.scenario(&STACKS);
    store.write_scenario(draw, &text)?;
    let mut found = Vec::new();
    for stack in stacks {
        let seen = match store.find(draw, &text, stack, draw.dice) {
            Some(seen) => seen,
            None => store.keyed(Seen::simulate(draw, &text, stack, draw.dice, hooks.cancelled)?, &text),
        };
        store.keep(draw, std::slice::from_ref(&seen))?;
        found.push(seen);
    }
    Ok(found)
}

fn replay(draw: &Draw) -> String {
    let n = draw.number;
    format!("wavelane study run {ID} --part {LAB} --seed {} --draws {n}..{n}", draw.family.0)
}

/// The laboratory's goodput of a stack over the simulator's. With bodies both ways the one that differs more counts: in
/// a sum one would make up for the other.
fn one(draw: &Draw, seen: &Seen, document: &RunDocument) -> Row {
    let mut row = Row { case: case_of(draw), ..Row::new(ID, LAB, &seen.stack, METRIC, "ratio") };
    let Some(found) = document.stacks.iter().find(|s| s.stack == seen.stack) else {
        let why = document.omitted.iter().find(|o| o.stack == seen.stack).map_or("it is missing", |o| &o.why);
        row.verdict = Verdict::Inconclusive;
        row.why = format!("not run: {why}");
        return row;
    };
    let of = |name: &str| found.flows.iter().find(|f| f.flow == name).and_then(|f| f.goodput_bps);
    let lab: Vec<Option<f64>> = draw.bodies().iter().map(|(_, name)| of(name)).collect();
    let ratios = lab.iter().zip(&seen.goodputs_bps).map(|(lab, sim)| Some((*lab)? / sim).filter(|r| r.is_finite()));
    let ratios: Option<Vec<f64>> = ratios.collect();
    let off = |ratio: &f64| (ratio - 1.0).abs();
    row.value = ratios.and_then(|all| all.into_iter().max_by(|a, b| off(a).total_cmp(&off(b))));
    row.n = u64::from(row.value.is_some());
    row.verdict = match row.value {
        None => Verdict::Inconclusive,
        Some(ratio) if off(&ratio) <= WITHIN => Verdict::Pass,
        Some(_) => Verdict::Fail,
    };
    let mbit =
        |all: &mut dyn Iterator<Item = f64>| all.map(|bps| format!("{:.3}", bps / 1e6)).collect::<Vec<_>>().join(" + ");
    let echo = |p95: Option<f64>| p95.map_or("-".into(), |ms| format!("{ms:.0}"));
    let p95 = found.flows.iter().find(|f| f.flow == super::text::ECHO).and_then(|f| f.rtt_p95_ms);
    let wire = |w: Option<f64>| w.map_or("-".into(), |w| format!("{w:.2}"));
    row.why = format!(
        "{} beside {} Mbit/s in the simulator, within {WITHIN} wanted; echo p95 {} beside {} ms; wire {} beside {}; {}; {}",
        mbit(&mut lab.iter().map(|bps| bps.unwrap_or(0.0))),
        mbit(&mut seen.goodputs_bps.iter().copied()),
        echo(p95),
        echo(seen.rtt_p95_ms),
        wire(found.wire_bytes_per_delivered_byte),
        wire(seen.wire_bytes_per_delivered_byte),
        draw.words(),
        replay(draw),
    );
    if let Some(why) = &found.inconclusive {
        row.verdict = Verdict::Inconclusive;
        row.why = format!("{why}; {}", row.why);
    }
    row
}

/// How many members of a stack agree, of those whose runs prove something.
fn claim(stack: &str, rows: &[Row]) -> Row {
    let own = || rows.iter().filter(|row| row.stack == stack && row.metric == METRIC);
    let count = |verdict: Verdict| own().filter(|row| row.verdict == verdict).count();
    let (agree, differ, open) = (count(Verdict::Pass), count(Verdict::Fail), count(Verdict::Inconclusive));
    let judged = agree + differ;
    let share = (judged > 0).then(|| agree as f64 / judged as f64);
    let mut row = Row { value: share, n: judged as u64, ..Row::new(ID, LAB, stack, CLAIM, "share") };
    row = row.bound_by(1.0).judged(Aim::AtLeast(1.0));
    row.why = format!("{}; {agree} draws within {WITHIN} of the simulator, {differ} not, {open} inconclusive", row.why);
    if differ == 0 && open > 0 {
        row.verdict = Verdict::Inconclusive;
    }
    row
}

#[cfg(test)]
#[path = "lab_tests.rs"]
mod tests;
