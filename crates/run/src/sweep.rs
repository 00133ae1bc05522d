//! A scenario at many values: every combination becomes a Record, existing Records are taken over, and all figures
//! come into one table.

use crate::backend::Backend;
use crate::draft::{check_writable, refuse_foreign};
use crate::drive::{Count, JOBS_MAX, RunError, RunHooks, RunOptions, run};
use crate::extend::{extend, first_of, more_of, remove_more, rest};
use crate::failing::{FailedCheck, failed};
use crate::figures::FlowFigures;
use crate::kept::{Found, folder, found, kept, make_room, seal_of, write_seal};
use crate::record::{RunDocument, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use wavelane_base::text::ShownPath;
use wavelane_measure::{Cells, Column, Table};
use wavelane_scenario::{Axis, Cell, Scenario, in_base_units};

/// How to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The scenario file's stem.
    pub name: String,
    /// Seeds of each combination.
    pub repeat: u32,
    /// How many runs at once.
    pub jobs: usize,
    /// Where everything goes.
    pub out: PathBuf,
    /// The command that repeats one cell, without its values.
    pub rerun: String,
    /// Whether Records of other seeds or of another backend are replaced.
    pub replace: bool,
    /// Told why cells that were run before are run again, a line per reason.
    pub note: fn(&str),
}

/// One combination and what it gave.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepCell {
    /// The values, one per axis.
    pub values: Vec<String>,
    /// Its Record, seen from the sweep's directory.
    pub record: PathBuf,
    /// The document of the sweep's seeds; the Record may have more.
    pub document: RunDocument,
    /// The checks that fail.
    pub failed: Vec<FailedCheck>,
}

/// The format's name and version in `sweep.json`.
pub const SWEEP_FORMAT: &str = "wavelane-sweep/1";

/// What `--json` prints of a sweep, and `sweep.json` holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SweepDocument {
    /// The format's name and version.
    #[schemars(extend("const" = SWEEP_FORMAT))]
    pub format: String,
    /// The scenario's file.
    pub scenario: String,
    /// `sim` or `lab`.
    #[schemars(extend("enum" = ["sim", "lab"]))]
    pub backend: String,
    /// Seeds of each combination.
    #[schemars(extend("minimum" = 1, "maximum" = crate::drive::REPEAT_MAX))]
    pub repeat: u32,
    /// What varies, the slowest first.
    #[schemars(extend("minItems" = 1))]
    pub axes: Vec<SweepAxis>,
    /// Every combination.
    #[schemars(extend("minItems" = 1))]
    pub cells: Vec<SweepRecord>,
    /// The total over all combinations, by which the command ends.
    pub verdict: Verdict,
    /// The table of all figures.
    pub csv: String,
    /// The same with types.
    pub parquet: String,
}

/// A key that varies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SweepAxis {
    /// As in `--set`.
    pub key: String,
    /// As in `--set`.
    #[schemars(extend("minItems" = 1))]
    pub values: Vec<String>,
}

/// One combination.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SweepRecord {
    /// The values, one per axis.
    #[schemars(extend("minItems" = 1))]
    pub values: Vec<String>,
    /// Its Record, seen from the sweep's directory.
    pub record: String,
    /// The total over its checks.
    pub verdict: Verdict,
}

/// Refuses a directory that holds something else.
fn check_place(out: &Path) -> Result<(), RunError> {
    let filled = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    if filled && !out.join("cells").is_dir() {
        let why = "exists and is not a sweep: choose another --out or remove it";
        return Err(RunError::Refused(format!("{} {why}", out.shown())));
    }
    check_writable(out)
}

/// A cell that has no Record yet, or the seeds that its Record lacks, for whoever runs it elsewhere. The Record that comes back is the
/// one that [`sweep`] would have written, except for `environment.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shard {
    /// Which of the cells.
    pub shard: usize,
    /// This program's version.
    pub version: &'static str,
    /// The commit that it was built of, if that is known.
    pub commit: Option<&'static str>,
    /// The resolved scenario.
    pub scenario: String,
    /// The scenario file's stem.
    pub name: String,
    /// Seeds.
    pub repeat: u32,
    /// The command that repeats it.
    pub rerun: String,
    /// Where the Record belongs.
    pub record: String,
}

/// What is yet to be run: cells that have no Record, and the seeds that are missing in those of fewer.
pub fn shards(
    backend: &dyn Backend,
    axes: &[Axis],
    cells: &[Cell],
    options: &SweepOptions,
) -> Result<Vec<Shard>, RunError> {
    check_place(&options.out)?;
    let found = found(backend, axes, cells, options)?;
    let mut left: Vec<(usize, Scenario, u32, PathBuf)> = Vec::new();
    for (number, (cell, found)) in cells.iter().zip(&found).enumerate() {
        let place = options.out.join(folder(axes, cell));
        if let Some((scenario, missing, place)) = lacking(backend, place, &cell.scenario, options.repeat, found)? {
            left.push((number, scenario, missing, place));
        }
    }
    make_room(left.iter().map(|(_, _, _, record)| record.clone()))?;
    let shard = |(number, scenario, repeat, record): (usize, Scenario, u32, PathBuf)| Shard {
        shard: number,
        version: env!("CARGO_PKG_VERSION"),
        commit: crate::commit(),
        scenario: scenario.to_toml(),
        name: options.name.clone(),
        repeat,
        rerun: rerun(axes, &cells[number], options),
        record: record.display().to_string(),
    };
    Ok(left.into_iter().map(shard).collect())
}

/// What is yet to be run of `repeat` seeds: the scenario from the first missing one on, how many, and where their Record belongs.
fn lacking(
    backend: &dyn Backend,
    place: PathBuf,
    scenario: &Scenario,
    repeat: u32,
    found: &Found,
) -> Result<Option<(Scenario, u32, PathBuf)>, RunError> {
    match found {
        Found::Nothing => Ok(Some((scenario.clone(), repeat, place))),
        Found::Part(earlier) if found.lacks(repeat) => {
            refuse_foreign(&place)?;
            let (more, scenario, missing) = (more_of(&place), rest(scenario, earlier.repeat), repeat - earlier.repeat);
            let beside = kept(backend, &more, &scenario, missing).unwrap_or(Found::Nothing);
            lacking(backend, more, &scenario, missing, &beside)
        }
        Found::Whole(_) | Found::Part(_) => Ok(None),
    }
}

/// The command that repeats a cell.
fn rerun(axes: &[Axis], cell: &Cell, options: &SweepOptions) -> String {
    let sets = axes.iter().zip(&cell.values).map(|(a, v)| format!(" --set '{}={}'", a.key, v.replace('\'', "'\\''")));
    options.rerun.clone() + &sets.collect::<String>()
}

/// Runs every cell that has no Record yet, and of those with fewer seeds the missing ones; results stand in the cells' order. The
/// first error stops the rest, and what is over by then is kept.
pub fn sweep(
    make: &(dyn Fn() -> Box<dyn Backend> + Sync),
    axes: &[Axis],
    cells: &[Cell],
    options: &SweepOptions,
    hooks: &RunHooks<'_>,
) -> Result<Vec<SweepCell>, RunError> {
    check_place(&options.out)?;
    let backend = make();
    let place = |cell: &Cell| options.out.join(folder(axes, cell));
    let found = found(backend.as_ref(), axes, cells, options)?;
    let left: Vec<usize> = (0..cells.len()).filter(|i| found[*i].lacks(options.repeat)).collect();
    for i in &left {
        if matches!(found[*i], Found::Part(_)) {
            refuse_foreign(&place(&cells[*i]))?;
        }
    }
    let empty = left.iter().filter(|i| matches!(found[**i], Found::Nothing));
    make_room(empty.map(|i| place(&cells[*i])))?;
    let (next, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tell = |over: usize| {
        let share = if left.is_empty() { 1.0 } else { over as f64 / left.len() as f64 };
        (hooks.count)(Count { what: "combinations", done: cells.len() - left.len() + over, of: cells.len(), share });
    };
    tell(0);
    // Combinations are counted, not runs.
    let quiet = hooks.without_count();
    let workers = options.jobs.clamp(1, JOBS_MAX).min(left.len().max(1));
    let of_cell = |cell: &Cell| RunOptions {
        name: options.name.clone(),
        repeat: options.repeat,
        // With few cells on many processors, their seeds share the rest.
        jobs: (options.jobs / workers).max(1),
        out: place(cell),
        rerun: rerun(axes, cell, options),
        captures: crate::CaptureExtent::Off,
    };
    // The sweep's seeds of a Record.
    let wanted = |cell: &Cell, document: RunDocument| match document.repeat > options.repeat {
        true => first_of(make().as_ref(), &cell.scenario, &of_cell(cell), &document),
        false => Ok(document),
    };
    let whole = |(found, cell): (&Found, &Cell)| match found {
        Found::Whole(document) => Ok(Some(document.clone())),
        Found::Part(document) if !found.lacks(options.repeat) => wanted(cell, document.clone()).map(Some),
        Found::Nothing | Found::Part(_) => Ok(None),
    };
    let there = found.iter().zip(cells).map(whole).collect::<Result<Vec<_>, _>>()?;
    let results: Mutex<Vec<Option<RunDocument>>> = Mutex::new(there);
    let stopped: Mutex<Option<RunError>> = Mutex::new(None);
    let worker = || {
        while let Some(&index) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stopped.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                return;
            }
            let cell = &cells[index];
            let run_options = of_cell(cell);
            let made = match &found[index] {
                Found::Part(earlier) => extend(make, &cell.scenario, &run_options, &quiet, earlier),
                Found::Nothing | Found::Whole(_) => run(make, &cell.scenario, &run_options, &quiet).map(drop),
            };
            // Read back, as a later sweep will: the last digit of a figure must not depend on who ran it.
            let read = || RunDocument::load(&run_options.out).map_err(|e| RunError::Refused(e.to_string()));
            let document = made.and_then(|()| read()).and_then(|document| wanted(cell, document));
            match document {
                Ok(document) => {
                    write_seal(&run_options.out);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(document);
                    tell(over.fetch_add(1, Ordering::Relaxed) + 1);
                }
                Err(error) => {
                    stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    if let Some(error) = stopped.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    for record in cells.iter().map(place) {
        if !seal_of(&record).exists() {
            write_seal(&record);
        }
        remove_more(&record);
    }
    let all = results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().zip(cells);
    let cell = |(document, cell): (Option<RunDocument>, &Cell)| {
        let document = document?;
        let failed = failed(&cell.scenario, &document);
        Some(SweepCell { values: cell.values.clone(), record: folder(axes, cell), document, failed })
    };
    all.map(cell).collect::<Option<Vec<_>>>().ok_or(RunError::Cancelled)
}

/// Every figure of a flow that is a number or a yes or no, with its key; those of pages, calls and fetches after a dot.
pub fn flow_metrics(flow: &FlowFigures) -> Vec<(String, f64)> {
    fn leaves(value: &Value, key: &str, found: &mut Vec<(String, f64)>) {
        match value {
            Value::Bool(yes) => found.push((key.to_owned(), f64::from(u8::from(*yes)))),
            Value::Number(n) => found.extend(n.as_f64().map(|n| (key.to_owned(), n))),
            Value::Object(inner) => {
                inner.iter().for_each(|(more, value)| leaves(value, &format!("{key}.{more}"), found));
            }
            Value::Null | Value::String(_) | Value::Array(_) => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(Value::Object(all)) = serde_json::to_value(flow) {
        all.iter().filter(|(key, _)| *key != "seed").for_each(|(key, value)| leaves(value, key, &mut found));
    }
    found
}

/// An axis's column: its values as numbers in the base unit if all are, with the unit in the head, else as they are written.
fn axis_column(axis: &Axis, of: impl Iterator<Item = usize>) -> Column {
    let numbers: Option<Vec<(f64, &str)>> = axis.values.iter().map(|v| in_base_units(v)).collect();
    match numbers {
        Some(all) if all.iter().all(|(_, unit)| *unit == all[0].1) => {
            let unit = all[0].1;
            let name = if unit.is_empty() { axis.key.clone() } else { format!("{}_{unit}", axis.key) };
            Column { name, cells: Cells::Numbers(of.map(|at| Some(all[at].0)).collect()) }
        }
        _ => {
            Column { name: axis.key.clone(), cells: Cells::Texts(of.map(|at| Some(axis.values[at].clone())).collect()) }
        }
    }
}

/// One figure, and the cell that it belongs to.
struct Row<'a> {
    cell: &'a SweepCell,
    stack: &'a str,
    flow: Option<&'a FlowFigures>,
    metric: String,
    value: f64,
}

fn rows(cells: &[SweepCell]) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for cell in cells {
        for stack in &cell.document.stacks {
            let name = stack.stack.as_str();
            for flow in &stack.flows {
                let row = |(metric, value)| Row { cell, stack: name, flow: Some(flow), metric, value };
                rows.extend(flow_metrics(flow).into_iter().map(row));
            }
            let whole = [
                ("wire_bytes_per_delivered_byte", stack.wire_bytes_per_delivered_byte),
                ("repair_share", stack.repair_share),
                ("cpu_s_per_gb", stack.cpu_s_per_gb),
                ("machine_s_per_gb", stack.machine_s_per_gb),
            ];
            let row = |(metric, value): (&str, Option<f64>)| {
                Some(Row { cell, stack: name, flow: None, metric: metric.to_owned(), value: value? })
            };
            rows.extend(whole.into_iter().filter_map(row));
        }
    }
    rows
}

/// One tidy table: a row per value, a column per variable. Figures of a whole stack, over all its seeds, have no flow and no
/// seed.
pub fn sweep_table(axes: &[Axis], cells: &[SweepCell]) -> Table {
    let rows = rows(cells);
    let at = |axis: &Axis, number: usize, row: &Row<'_>| {
        axis.values.iter().position(|v| *v == row.cell.values[number]).unwrap_or(0)
    };
    let axis = |(number, axis): (usize, &Axis)| axis_column(axis, rows.iter().map(|row| at(axis, number, row)));
    let mut columns: Vec<Column> = axes.iter().enumerate().map(axis).collect();
    let text = |of: &dyn Fn(&Row<'_>) -> Option<String>| Cells::Texts(rows.iter().map(of).collect());
    let fixed = [
        ("backend", text(&|row| Some(row.cell.document.backend.clone()))),
        ("stack", text(&|row| Some(row.stack.to_owned()))),
        ("seed", Cells::Counts(rows.iter().map(|row| Some(row.flow?.seed)).collect())),
        ("flow", text(&|row| Some(row.flow?.flow.clone()))),
        ("app", text(&|row| Some(row.flow?.app.clone()))),
        ("metric", text(&|row| Some(row.metric.clone()))),
        ("value", Cells::Numbers(rows.iter().map(|row| Some(row.value)).collect())),
        ("verdict", text(&|row| Some(row.cell.document.verdict.word().to_owned()))),
    ];
    columns.extend(fixed.into_iter().map(|(name, cells)| Column { name: name.to_owned(), cells }));
    Table::new(columns)
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
