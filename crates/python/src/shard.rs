//! What a worker does, on whatever machine: a combination of a sweep, from the text of a scenario to the files of its Record, or tasks
//! of a study.

use crate::error;
use crate::watch::interruptible;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use wavelane_run::{RunError, RunHooks, RunOptions, host_facts};
use wavelane_scenario::Scenario;
use wavelane_sim::SimBackend;
use wavelane_study::StudyError;

fn unwanted(py: Python<'_>, stop: Option<&Py<PyAny>>) -> PyResult<bool> {
    stop.map_or(Ok(false), |stop| stop.call0(py)?.is_truthy(py))
}

/// Does tasks of a study, a JSON list, unless `stop()` becomes true; the list of what they gave.
#[pyfunction]
pub(crate) fn tasks(py: Python<'_>, study: &str, tasks: &str, stop: Option<Py<PyAny>>) -> PyResult<String> {
    let tasks: Vec<serde_json::Value> = serde_json::from_str(tasks).map_err(error)?;
    let result = interruptible(
        py,
        || unwanted(py, stop.as_ref()),
        |cancelled| {
            let each = |task| match cancelled.load(Ordering::Relaxed) {
                true => Err(StudyError::Run(RunError::Cancelled)),
                false => wavelane_study::work(study, task, cancelled),
            };
            tasks.into_iter().map(each).collect::<Result<Vec<_>, _>>()
        },
    )?;
    Ok(serde_json::Value::from(result.map_err(error)?).to_string())
}

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
    let result = interruptible(
        py,
        || unwanted(py, stop.as_ref()),
        |cancelled| {
            let nothing: &(dyn Fn(&Path) -> Result<(), String> + Sync) = &|_| Ok(());
            let hooks =
                RunHooks { progress: &|_| (), count: &|_| (), cancelled, environment: &host_facts, render: nothing };
            wavelane_run::run(&|| Box::new(SimBackend), &scenario, &options, &hooks)
        },
    )?;
    let mut document = result.map_err(error)?;
    document.record = record;
    std::fs::write(out.join("record.json"), document.to_json()).map_err(error)
}
