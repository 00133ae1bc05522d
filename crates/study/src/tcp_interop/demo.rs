//! `scenarios/demo.toml` in the simulator, over our TCP, beside the laboratory, over the kernel's.

use super::bulk::tell;
use super::{Control, ID, Seeds, Watch, failure, judge_ratio, row};
use crate::document::Row;
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{StudyError, StudyOptions};
use serde_json::json;
use std::path::Path;
use wavelane_base::Seed;
use wavelane_measure::mean_ci95;
use wavelane_run::{Backend, RunContext, figures};
use wavelane_scenario::Scenario;

const SCENARIO: &str = include_str!("../../../../scenarios/demo.toml");
/// The scenario's bulk flow.
const BULK: &str = "page";
/// The scenario's stacks that both kinds of TCP have.
const STACKS: [Control; 2] = [Control::Cubic, Control::Bbr];
/// Seeds in the laboratory by edition. CUBIC's goodput varies by half from seed to seed, so a quick look at it proves
/// little; BBR's by a tenth.
const LAB_SEEDS: [u64; 2] = [4, 64];
const LAB_SEEDS_BBR: [u64; 2] = [4, 16];
/// Seeds in the simulator, where a run takes milliseconds.
const SIM_SEEDS: u64 = 400;
/// Runs at once. CUBIC's and BBR's 2 and 17 Mbit/s leave the processors idle for most of the time.
const WORKERS: usize = 4;
/// How far the simulator may be from the laboratory.
const WITHIN: f64 = 0.1;

pub(super) fn rows(options: &StudyOptions, full: bool, watch: Watch<'_>) -> Result<Vec<Row>, StudyError> {
    let scenario = Scenario::parse(SCENARIO, Path::new("."))?;
    let mut tasks = Vec::new();
    let edition = usize::from(full);
    let lab = [(Control::Cubic, true, LAB_SEEDS[edition]), (Control::Bbr, true, LAB_SEEDS_BBR[edition])];
    for (control, lab, seeds) in lab.into_iter().chain(STACKS.map(|control| (control, false, SIM_SEEDS))) {
        tasks.extend((0..seeds).map(|i| (control, Seed(options.seed.0 + i), lab)));
    }
    let runner = Runner { what: "runs", workers: options.jobs.unwrap_or(WORKERS), hooks: watch };
    // A run in the laboratory takes its time, one in the simulator almost none.
    let cost = |(_, _, lab): &(Control, Seed, bool)| if *lab { 45.0 } else { 0.1 };
    let key = |(control, seed, lab): &(Control, Seed, bool)| format!("demo {control:?} {seed:?} lab {lab}");
    let seen = runner.run_kept(&Kept::open(options, ID), &tasks, cost, key, |(control, seed, lab)| {
        let stack = control.stack();
        tell(watch, *control, *seed, if *lab { "the demo in the laboratory" } else { "the demo in the simulator" });
        let out = options.out.join(format!("demo-{}-{}", stack.word(), seed.0));
        let mut quiet = |_| {};
        let label = format!("{}-{}", stack.word(), seed.0);
        let mut context = RunContext {
            out: &out,
            label,
            captures: wavelane_run::CaptureExtent::Off,
            progress: &mut quiet,
            cancelled: watch.cancelled,
        };
        let raw = if *lab {
            wavelane_lab::LabBackend.run_stack(&scenario, stack, *seed, &mut context)
        } else {
            wavelane_sim::SimBackend.run_stack(&scenario, stack, *seed, &mut context)
        };
        let raw = raw.map_err(|error| failure(*control, *seed, error))?;
        let goodput = figures::of_run(&scenario, &raw, *seed).into_iter().find(|flow| flow.flow == BULK);
        Ok(goodput.and_then(|flow| flow.goodput_bps).unwrap_or(0.0))
    })?;
    let mut rows = Vec::new();
    for control in STACKS {
        let of = |lab: bool| -> Vec<f64> {
            let runs = tasks.iter().zip(&seen).filter(|((c, _, l), _)| (*c, *l) == (control, lab));
            runs.map(|(_, goodput)| *goodput).collect()
        };
        let (sim, lab) = (of(false), of(true));
        let case = json!({ "scenario": "demo", "sim_bps": sim, "lab_bps": lab });
        let mut row = row("sim", control.stack().word(), "goodput over the laboratory's", "ratio", case);
        judge_ratio(&mut row, &sim, &lab, Seeds::Own, WITHIN);
        let mean = |values: &[f64]| mean_ci95(values).map_or(0.0, |(mean, _)| mean / 1e6);
        row.why = format!("demo: {:.2} against {:.2} Mbit/s in the laboratory; {}", mean(&sim), mean(&lab), row.why);
        rows.push(row);
    }
    Ok(rows)
}
