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
    use super::shard::{shard, tasks};

    use super::error;
    use super::watch::interruptible;
    use pyo3::prelude::*;
    use std::path::{Path, PathBuf};
    use wavelane_report::{COMPARED_MAX, Compared, Comparison, Swept};
    use wavelane_run::{
        Backend, RunDocument, RunError, RunHooks, RunOptions, Series, SweepOptions, host_facts, refusal, rerun,
        scenario_name, shell,
    };
    use wavelane_scenario::{Axis, SETTINGS_MAX, Scenario, Seed, Setting, Sweep};
    use wavelane_sim::SimBackend;

    /// The heads of two columns, and both.
    type Columns = ([&'static str; 2], Vec<u64>, Vec<Option<u64>>);

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        wavelane_run::built_of(env!("WAVELANE_COMMIT"));
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("COMMIT", wavelane_run::commit())?;
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

    /// Runs a sweep in the simulator and writes what the command writes to `out`; returns its document.
    #[pyfunction]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python function, each with its own meaning")]
    fn sweep(
        py: Python<'_>,
        path: PathBuf,
        axes: Vec<String>,
        settings: Vec<String>,
        seed: Option<u64>,
        repeat: Option<u32>,
        jobs: Option<usize>,
        out: PathBuf,
        replace: bool,
    ) -> PyResult<String> {
        let mut plan = Sweep::load(&path).map_err(error)?;
        for axis in &axes {
            plan.set(Axis::read(axis).map_err(error)?);
        }
        if plan.axes.is_empty() {
            let file = path.display();
            return Err(error(format!(
                "{file}: nothing varies: add [sweep] to the file, or name keys and values in `axes`"
            )));
        }
        let mut settings = settings.iter().map(|s| Setting::read(s)).collect::<Result<Vec<_>, _>>().map_err(error)?;
        let named = settings.clone();
        settings.extend(seed.map(|seed| Setting { key: "seed".into(), value: seed.to_string() }));
        let cells = plan.cells(&path, &settings).map_err(error)?;
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(why) = cells.iter().find_map(|cell| refusal(&SimBackend, &cell.scenario, &path, &written)) {
            return Err(error(why));
        }
        let repeat = repeat.or(plan.repeats).unwrap_or(1);
        let first = cells.first().map_or(1, |cell| cell.scenario.seed.0);
        let run = rerun(&path, SimBackend.name(), first, &named, repeat);
        let varied =
            plan.axes.iter().map(|a| format!(" --sweep {}", shell(&format!("{}={}", a.key, a.values.join(",")))));
        let again = format!(
            "{}{} --out {}",
            run.replacen("wavelane run", "wavelane sweep", 1),
            varied.collect::<String>(),
            shell(&out.to_string_lossy())
        );
        let options = SweepOptions {
            name: scenario_name(&path),
            repeat,
            jobs: jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            out: out.clone(),
            rerun: run,
            replace,
            note: |_| (),
        };
        let result = interruptible(
            py,
            || Ok(false),
            |cancelled| {
                let hooks = RunHooks {
                    progress: &|_| (),
                    count: &|_| (),
                    cancelled,
                    environment: &host_facts,
                    render: &|_| Ok(()),
                };
                wavelane_run::sweep(&|| Box::new(SimBackend), &plan.axes, &cells, &options, &hooks)
            },
        )?;
        let done = result.map_err(error)?;
        let title = cells.first().map_or("", |cell| cell.scenario.title.as_str());
        let swept = Swept {
            out: &out,
            scenario: &path.display().to_string(),
            title: if title.is_empty() { &options.name } else { title },
            backend: SimBackend.name(),
            repeat,
            axes: &plan.axes,
            cells: &done,
            rerun: &again,
        };
        py.detach(|| swept.write()).map(|(document, _)| document).map_err(error)
    }

    /// Compares Records with the first, or the stacks of one: the document that `wavelane compare --json` prints.
    #[pyfunction]
    fn compare(py: Python<'_>, records: Vec<PathBuf>) -> PyResult<String> {
        let load = |record: &PathBuf| {
            let document = RunDocument::load(record).map_err(error)?;
            let scenario = Scenario::load_recorded(record).map_err(error)?;
            document.check_against(record, &scenario).map_err(error)?;
            Ok(Compared { record: record.clone(), document, scenario, stack: None })
        };
        py.detach(|| {
            let mut all = records.iter().map(load).collect::<PyResult<Vec<_>>>()?;
            if let [_] = all.as_slice() {
                all = all.into_iter().flat_map(Compared::by_stack).collect();
            }
            match all.len() {
                0 | 1 => Err(error("compare takes two records or more, or one of several stacks")),
                n if n > COMPARED_MAX => {
                    Err(error(format!("{n} records or stacks: compare at most {COMPARED_MAX} at once")))
                }
                _ => Ok(Comparison::of(&all).to_json()),
            }
        })
    }

    /// Mean and half of its 95 % interval; `None` of nothing, without a half of one value.
    #[pyfunction]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands a list over")]
    fn mean_ci95(values: Vec<f64>) -> Option<(f64, Option<f64>)> {
        wavelane_report::mean_ci95(&values)
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
