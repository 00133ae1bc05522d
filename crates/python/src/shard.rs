//! One combination of a sweep, on whatever machine: from the text of a scenario to the files of its Record.

use crate::error;
use crate::watch::interruptible;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use wavelane_run::{RunHooks, RunOptions, host_facts};
use wavelane_scenario::Scenario;
use wavelane_sim::SimBackend;

/// Runs the scenario `text` into the directory `out`, unless `stop()` becomes true. Its document says that it lies at `record`,
/// where it will be moved.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keywords of the Python function, each with its own meaning")]
pub(crate) fn shard(
    py: Python<'_>,
    text: &str,
    name: String,
    repeat: u32,
    jobs: usize,
    rerun: String,
    out: PathBuf,
    record: String,
    stop: Option<Py<PyAny>>,
) -> PyResult<()> {
    let scenario = Scenario::parse(text, Path::new(".")).map_err(error)?;
    let options =
        RunOptions { name, repeat, jobs, out: out.clone(), rerun, captures: wavelane_run::CaptureExtent::Off };
    let unwanted = || match &stop {
        Some(stop) => stop.call0(py)?.is_truthy(py),
        None => Ok(false),
    };
    let result = interruptible(py, unwanted, |cancelled| {
        let nothing: &(dyn Fn(&Path) -> Result<(), String> + Sync) = &|_| Ok(());
        let hooks =
            RunHooks { progress: &|_| (), count: &|_| (), cancelled, environment: &host_facts, render: nothing };
        wavelane_run::run(&|| Box::new(SimBackend), &scenario, &options, &hooks)
    })?;
    let mut document = result.map_err(error)?;
    document.record = record;
    std::fs::write(out.join("record.json"), document.to_json()).map_err(error)
}
