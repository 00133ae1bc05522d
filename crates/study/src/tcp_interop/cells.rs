//! Goodput over lossy links and fairness on one bottleneck: the kernel in the laboratory, ours in its place, and ours in
//! the simulator, all with the same dice.

use super::bulk::tell;
use super::{Control, ID, LINK, Seeds, Watch, Who, failure, fight, judge_ratio, link, losing, row};
use crate::document::Row;
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{StudyError, StudyOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use wavelane_base::{Instant, Octets, Seed, Span};
use wavelane_lab::duel::{Duel, Load};
use wavelane_measure::{Timing, goodput, jain, mean_ci95};
use wavelane_run::{Backend, BackendError, RunContext, Verdict};
use wavelane_scenario::Scenario;

/// The links' rate: more than Reno and CUBIC reach under any of the losses.
const MBIT: u64 = 50;
/// (per mille of loss, round trip in ms) of the cells.
const CELLS: [(u32, u64); 6] = [(1, 20), (10, 20), (50, 20), (1, 100), (10, 100), (50, 100)];
/// More of BBR's: from 16 % of loss on Linux's takes it for a policer's, and keeps to the rate that passed.
const CELLS_BBR: [(u32, u64); 2] = [(200, 20), (200, 100)];
/// Flows on the shared bottleneck, which loses nothing by chance.
const SHARERS: [usize; 4] = [2, 4, 8, 16];
const SHARED_RTT_MS: u64 = 20;
/// How long each run lasts, and how many seeds the laboratory has, by edition.
const SECONDS: [u64; 2] = [14, 60];
const SEEDS: [u64; 2] = [4, 12];
/// BBR's differ by a few per cent from seed to seed, Reno's and CUBIC's by half.
const SEEDS_BBR: [u64; 2] = [2, 4];
/// The simulator's are cheap.
const SIM_SEEDS: [u64; 2] = [8, 24];
/// Runs at once; each says if it came too late.
const WORKERS: usize = 12;
/// BBR's fill the link whatever it loses, and its rate follows its acknowledgements' times: twelve at once overload the
/// machine and measure that.
const WORKERS_BBR: usize = 2;
/// How far ours may be from the kernel.
const WITHIN: f64 = 0.15;
const WITHIN_BBR: f64 = 0.2;
/// Jain's index of ours may be less than the kernel's by this.
const JAIN_WITHIN: f64 = 0.1;

fn cells(control: Control) -> impl Iterator<Item = (u32, u64)> {
    CELLS.into_iter().chain(CELLS_BBR.into_iter().filter(move |_| control == Control::Bbr))
}

/// Where and by whom a cell is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Kernel,
    OursLab,
    OursSim,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Task {
    place: Place,
    control: Control,
    per_mille: u32,
    rtt_ms: u64,
    flows: usize,
    seed: Seed,
    seconds: u64,
}

/// Goodputs of the flows in bit/s, and why they do not count.
#[derive(Serialize, Deserialize)]
struct Seen {
    goodputs: Vec<f64>,
    inconclusive: Option<String>,
}

pub(super) fn rows(options: &StudyOptions, full: bool, watch: Watch<'_>) -> Result<Vec<Row>, StudyError> {
    let edition = usize::from(full);
    let (seconds, sim_seeds) = (SECONDS[edition], SIM_SEEDS[edition]);
    let mut tasks = Vec::new();
    for seed in (0..sim_seeds).map(|i| Seed(options.seed.0 + i)) {
        for control in Control::ALL {
            let seeds = if control == Control::Bbr { SEEDS_BBR[edition] } else { SEEDS[edition] };
            let lab = [Place::Kernel, Place::OursLab].into_iter().filter(|_| seed.0 < options.seed.0 + seeds);
            for place in lab.chain([Place::OursSim]) {
                for (per_mille, rtt_ms) in cells(control) {
                    tasks.push(Task { place, control, per_mille, rtt_ms, flows: 1, seed, seconds });
                }
                // Of the shared bottleneck's cells the quick edition takes the ends, and everywhere as many seeds as
                // the laboratory has.
                let shares = seed.0 < options.seed.0 + seeds;
                for flows in SHARERS.into_iter().filter(|n| shares && (full || *n == 2 || *n == 16)) {
                    tasks.push(Task { place, control, per_mille: 0, rtt_ms: SHARED_RTT_MS, flows, seed, seconds });
                }
            }
        }
    }
    let (light, heavy): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|task: &Task| task.control != Control::Bbr);
    let mut all: Vec<(Task, Seen)> = Vec::new();
    let kept = Kept::open(options, ID);
    for (tasks, workers) in [(light, WORKERS), (heavy, WORKERS_BBR)] {
        let runner = Runner { what: "runs", workers: options.jobs.unwrap_or(workers), hooks: watch };
        let cost = |task: &Task| if task.place == Place::OursSim { 0.1 } else { task.seconds as f64 };
        let work = |task: &Task| {
            let note = format!("{:?}, {} per mille, {} ms", task.place, task.per_mille, task.rtt_ms);
            tell(watch, task.control, task.seed, &note);
            measure(task, options, watch)
        };
        let seen = runner.run_kept(&kept, &tasks, cost, |task| format!("{task:?}"), work)?;
        all.extend(tasks.into_iter().zip(seen));
    }
    let mut rows = Vec::new();
    for control in Control::ALL {
        for (per_mille, rtt_ms) in cells(control) {
            rows.extend(cell(&all, control, per_mille, rtt_ms));
        }
        for flows in SHARERS {
            rows.extend(shared(&all, control, flows));
        }
    }
    Ok(rows)
}

fn measure(task: &Task, options: &StudyOptions, watch: Watch<'_>) -> Result<Seen, StudyError> {
    let queue = MBIT * task.rtt_ms * 125;
    match task.place {
        Place::OursSim => simulate(task, queue, options, watch),
        place => {
            let cable = losing(link(MBIT, Span::from_millis(task.rtt_ms), queue), task.per_mille);
            let load = Load::Time(Span::from_secs(task.seconds));
            let (name, seed, limit) = (LINK.to_owned(), task.seed, Span::from_secs(task.seconds));
            let (flows, ipv6, capture) = (task.flows, false, None);
            let duel = Duel { name, seed, cable, flows, load, limit, ipv6, window: None, capture };
            let sender = if place == Place::Kernel { Who::Kernel } else { Who::Ours };
            let end = fight(&duel, [sender, Who::Kernel], task.control, watch.cancelled)?;
            let goodputs =
                end.flows.iter().map(|flow| after_warm_up(&flow.arrivals, flow.first_ns, task.seconds)).collect();
            Ok(Seen { goodputs, inconclusive: end.inconclusive })
        }
    }
}

/// As the scenario's figures count flows of a fixed time: after a warm-up from the first byte.
fn after_warm_up(arrivals: &[(u64, u64)], first_ns: Option<u64>, seconds: u64) -> f64 {
    let (asked, first) = (Instant::ZERO, Instant::from_nanos(first_ns.unwrap_or(0)));
    let arrivals = arrivals.iter().map(|&(at, octets)| (Instant::from_nanos(at), Octets::new(octets)));
    goodput(arrivals, Timing::Fixed { asked, first, stop: Instant::from_secs(seconds) }).unwrap_or(0.0)
}

/// The same link and flows as a scenario. The simulator wants endpoints behind gateways, which only forward under a TCP
/// stack; the wires to them add 0.2 ms of round trip.
fn scenario(task: &Task, queue: u64) -> String {
    let Task { control, per_mille, rtt_ms, flows, seed, seconds, .. } = task;
    let mut text = format!(
        "title = \"cell\"\nseed = {}\nduration = \"{seconds} s\"\nstacks = [\"{}\"]\n\
         [nodes]\nsnd = \"endpoint\"\na = \"gateway\"\nb = \"gateway\"\nrcv = \"endpoint\"\n\
         [channels.one]\npreset = \"ethernet\"\nbetween = [\"snd\", \"a\"]\n\
         [channels.two]\npreset = \"ethernet\"\nbetween = [\"b\", \"rcv\"]\n\
         [channels.{LINK}]\nkind = \"cable\"\nbetween = [\"a\", \"b\"]\n\
         [channels.{LINK}.forward]\nrate = \"{MBIT} Mbit/s\"\ndelay = \"{} us\"\nqueue = \"{queue} B\"\n\
         loss = {{ kind = \"random\", p = \"{per_mille}/1000\" }}\n\
         [channels.{LINK}.reverse]\nrate = \"{MBIT} Mbit/s\"\ndelay = \"{} us\"\nqueue = \"{queue} B\"\n",
        seed.0,
        control.stack().word(),
        rtt_ms * 500,
        rtt_ms * 500,
    );
    for i in 0..*flows {
        text += &format!("[flows.f{i}]\napp = \"upload\"\nfrom = \"snd\"\nto = \"rcv\"\n");
    }
    text
}

fn simulate(task: &Task, queue: u64, options: &StudyOptions, watch: Watch<'_>) -> Result<Seen, StudyError> {
    let scenario = Scenario::parse(&scenario(task, queue), Path::new("."))?;
    let stack = task.control.stack();
    let mut quiet = |_| {};
    let mut context = RunContext {
        out: &options.out,
        label: stack.word().into(),
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut quiet,
        cancelled: watch.cancelled,
    };
    let raw = wavelane_sim::SimBackend.run_stack(&scenario, stack, task.seed, &mut context);
    let raw = raw.map_err(|error: BackendError| failure(task.control, task.seed, error))?;
    let flows = raw.flows.iter();
    let goodputs = flows.map(|flow| after_warm_up(&flow.arrivals, flow.first_byte_ns, task.seconds)).collect();
    Ok(Seen { goodputs, inconclusive: raw.inconclusive })
}

type All = [(Task, Seen)];

/// Goodputs of a cell by seed, in the seeds' order.
fn goodputs(all: &All, place: Place, control: Control, per_mille: u32, rtt_ms: u64) -> Vec<f64> {
    let of = |task: &Task| {
        (task.place, task.control, task.per_mille, task.rtt_ms, task.flows) == (place, control, per_mille, rtt_ms, 1)
    };
    all.iter().filter(|(task, _)| of(task)).map(|(_, seen)| seen.goodputs[0]).collect()
}

fn cell(all: &All, control: Control, per_mille: u32, rtt_ms: u64) -> Vec<Row> {
    let case = json!({ "loss": f64::from(per_mille) / 1e3, "rtt_ms": rtt_ms, "mbit": MBIT });
    let busy = all.iter().find_map(|(task, seen)| {
        let this = (task.control, task.per_mille, task.rtt_ms, task.flows) == (control, per_mille, rtt_ms, 1);
        seen.inconclusive.as_ref().filter(|_| this)
    });
    let theirs = goodputs(all, Place::Kernel, control, per_mille, rtt_ms);
    let mut rows = vec![absolute("lab", "linux", control, &case, &theirs)];
    for (place, backend, seeds) in [(Place::OursLab, "lab", Seeds::Same), (Place::OursSim, "sim", Seeds::Own)] {
        let ours = goodputs(all, place, control, per_mille, rtt_ms);
        rows.push(absolute(backend, "ours", control, &case, &ours));
        let mut ratio = row(backend, control.word(), "goodput over the kernel's", "ratio", case.clone());
        let within = if control == Control::Bbr { WITHIN_BBR } else { WITHIN };
        judge_ratio(&mut ratio, &ours, &theirs, seeds, within);
        ratio.why = format!("{} % loss, {rtt_ms} ms, {backend}: {}", f64::from(per_mille) / 10.0, ratio.why);
        if let Some(why) = busy.filter(|_| ratio.verdict == Verdict::Fail) {
            ratio.verdict = Verdict::Inconclusive;
            ratio.why += &format!("; {why}");
        }
        rows.push(ratio);
    }
    rows
}

fn absolute(backend: &str, who: &str, control: Control, case: &Value, values: &[f64]) -> Row {
    let mut row = row(backend, control.word(), &format!("goodput_bps of {who}"), "bit/s", case.clone());
    row.n = values.len() as u64;
    if let Some((mean, half)) = mean_ci95(values) {
        row.value = Some(mean);
        row.ci95 = half;
        row.why = format!("{:.2} Mbit/s", mean / 1e6);
    }
    row
}

/// Jain's index of flows that share a bottleneck, means over the seeds.
fn shared(all: &All, control: Control, flows: usize) -> Vec<Row> {
    let of = |place: Place| -> Vec<f64> {
        let these = |t: &Task| (t.place, t.control, t.flows) == (place, control, flows) && flows > 1;
        all.iter().filter(|(task, _)| these(task)).filter_map(|(_, seen)| jain(&seen.goodputs)).collect()
    };
    let theirs = of(Place::Kernel);
    let Some((their_mean, their_half)) = mean_ci95(&theirs) else { return Vec::new() };
    let mut rows = Vec::new();
    for (place, backend) in [(Place::OursLab, "lab"), (Place::OursSim, "sim")] {
        let ours = of(place);
        let Some((mean, half)) = mean_ci95(&ours) else { continue };
        let case = json!({ "flows": flows, "rtt_ms": SHARED_RTT_MS, "mbit": MBIT, "linux": theirs, "ours": ours });
        let mut row = row(backend, control.word(), "jain", "index", case);
        row.value = Some(mean);
        row.ci95 = half;
        row.n = ours.len() as u64;
        row.bound = Some(their_mean);
        let (less, chance) = (their_mean - mean, half.unwrap_or(0.0).hypot(their_half.unwrap_or(0.0)));
        row.verdict = match less {
            _ if less <= JAIN_WITHIN => Verdict::Pass,
            _ if less - chance <= JAIN_WITHIN => Verdict::Inconclusive,
            _ => Verdict::Fail,
        };
        row.why = format!(
            "{flows} flows, {backend}: {mean:.3} against the kernel's {their_mean:.3} ({} seeds), wanted no less than 0.1 below",
            ours.len()
        );
        rows.push(row);
    }
    rows
}
