//! What the Python package `wavelane` calls: running a scenario in the simulator and reading a Record. The package under
//! `python/` has the names and types that people use.

mod names;
mod shard;
mod watch;

use pyo3::prelude::*;

pyo3::create_exception!(
    _wavelane,
    Error,
    pyo3::exceptions::PyException,
    "What the simulator refuses or cannot do: one line with the cause and what to do, as the command says it, in Python's names."
);

/// An error with the command's text in Python's names.
pub(crate) fn error(cause: impl std::fmt::Display) -> PyErr {
    Error::new_err(names::in_python(&cause.to_string()))
}

#[pymodule]
mod _wavelane {
    #[pymodule_export]
    use super::Error;
    #[pymodule_export]
    use super::shard::shard;

    use super::error;
    use super::watch::interruptible;
    use pyo3::prelude::*;
    use std::path::{Path, PathBuf};
    use wavelane_run::{
        Backend, RunDocument, RunError, RunHooks, RunOptions, Series, host_facts, refusal, rerun, scenario_name,
    };
    use wavelane_scenario::{SETTINGS_MAX, Scenario, Seed, Setting};
    use wavelane_sim::SimBackend;

    /// The heads of two columns, and both.
    type Columns = ([&'static str; 2], Vec<u64>, Vec<Option<u64>>);

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        wavelane_run::built_of(env!("WAVELANE_COMMIT"));
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("REPEAT_MAX", wavelane_run::REPEAT_MAX)?;
        module.add("SEED_MAX", wavelane_run::SEED_MAX)?;
        module.add("JOBS_MAX", wavelane_run::JOBS_MAX)
    }

    /// Runs a scenario in the simulator and writes its Record to `out`. With `text`, `path` is a name for what it says.
    #[pyfunction]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python function, each with its own meaning")]
    fn run(
        py: Python<'_>,
        path: PathBuf,
        text: Option<String>,
        settings: Vec<String>,
        seed: Option<u64>,
        repeat: u32,
        jobs: Option<usize>,
        out: PathBuf,
        full: bool,
        replace: bool,
    ) -> PyResult<()> {
        if settings.len() > SETTINGS_MAX {
            return Err(error(format!(
                "`set` has {} keys, at most {SETTINGS_MAX}: put the rest into the file",
                settings.len()
            )));
        }
        let settings = settings.iter().map(|s| Setting::read(s)).collect::<Result<Vec<_>, _>>().map_err(error)?;
        let mut scenario = match &text {
            Some(text) => Scenario::parse_with(text, Path::new("."), &settings),
            None => Scenario::load_with(&path, &settings),
        }
        .map_err(error)?;
        if let Some(seed) = seed {
            scenario.seed = Seed(seed);
        }
        let written = text.unwrap_or_else(|| std::fs::read_to_string(&path).unwrap_or_default());
        if let Some(why) = refusal(&SimBackend, &scenario, &path, &written) {
            return Err(error(why));
        }
        if full && !replace {
            wavelane_run::refuse_other_seeds(&out, SimBackend.name(), scenario.seed.0, repeat).map_err(error)?;
        }
        let options = RunOptions {
            name: scenario_name(&path),
            repeat,
            jobs: jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            out,
            rerun: rerun(&path, SimBackend.name(), scenario.seed.0, &settings, repeat),
            captures: if full { wavelane_run::CaptureExtent::Headers } else { wavelane_run::CaptureExtent::Off },
        };
        let draw = |record: &Path| match full {
            true => wavelane_report::render(record).map(drop).map_err(|e| e.to_string()),
            false => Ok(()),
        };
        let result = interruptible(
            py,
            || Ok(false),
            |cancelled| {
                let hooks =
                    RunHooks { progress: &|_| (), count: &|_| (), cancelled, environment: &host_facts, render: &draw };
                wavelane_run::run(&|| Box::new(SimBackend), &scenario, &options, &hooks).map(drop)
            },
        )?;
        result.map_err(|e: RunError| error(e))
    }

    /// The first entry of a Record's directory that no run writes.
    #[pyfunction]
    fn foreign(record: PathBuf) -> Option<PathBuf> {
        wavelane_run::foreign(&record)
    }

    /// The JSON document of a Record as it stands there, checked: written again, a figure's last digit might differ.
    #[pyfunction]
    fn document(record: PathBuf) -> PyResult<String> {
        RunDocument::load(&record).map_err(error)?;
        std::fs::read_to_string(record.join("record.json")).map_err(error)
    }

    /// The two columns of a flow's series with their heads.
    #[pyfunction]
    fn series(py: Python<'_>, record: PathBuf, stack: &str, flow: &str, seed: u64) -> PyResult<Columns> {
        py.detach(|| {
            let document = RunDocument::load(&record).map_err(error)?;
            let found = document.stacks.iter().find(|s| s.stack == stack);
            let figures = found.and_then(|s| s.flows.iter().find(|f| f.flow == flow && f.seed == seed));
            let none = || {
                let stacks: Vec<&str> = document.stacks.iter().map(|s| s.stack.as_str()).collect();
                let of = document.stacks.iter().flat_map(|s| &s.flows);
                let flows: std::collections::BTreeSet<&str> = of.map(|f| f.flow.as_str()).collect();
                let flows: Vec<&str> = flows.into_iter().collect();
                let last = document.seed + u64::from(document.repeat) - 1;
                error(format!(
                    "{} has no flow '{flow}' of {stack}, seed {seed}: its flows are {}, its stacks {}, its seeds {} to {last}",
                    record.display(),
                    flows.join(", "),
                    stacks.join(", "),
                    document.seed
                ))
            };
            Ok(match document.series(&record, stack, figures.ok_or_else(none)?).map_err(error)? {
                Series::Arrivals(pairs) => {
                    let (at, octets) = pairs.into_iter().map(|(at, octets)| (at, Some(octets))).unzip();
                    (["t_ns", "bytes"], at, octets)
                }
                Series::Probes(pairs) => {
                    let (at, took) = pairs.into_iter().unzip();
                    (["sent_ns", "rtt_ns"], at, took)
                }
                Series::Fetches(pairs) => {
                    let (at, took) = pairs.into_iter().unzip();
                    (["connect_ns", "total_ns"], at, took)
                }
            })
        })
    }

    /// The table that `wavelane run` prints.
    #[pyfunction]
    fn summary(record: PathBuf) -> PyResult<String> {
        let document = RunDocument::load(&record).map_err(error)?;
        let scenario = Scenario::load_recorded(&record).map_err(error)?;
        let table = wavelane_report::summary_text(&document, &scenario);
        Ok(format!("{table}\nverdict {}\n", document.verdict.word()))
    }

    /// Draws `report.html` and its pictures into a Record.
    #[pyfunction]
    fn report(py: Python<'_>, record: PathBuf) -> PyResult<PathBuf> {
        py.detach(|| wavelane_report::render(&record)).map_err(error)?;
        Ok(record.join("report.html"))
    }
}
