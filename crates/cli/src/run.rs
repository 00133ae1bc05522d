//! `wavelane run`.

use crate::progress::Meter;
use crate::report::show_page;
use crate::{Failure, Outcome, exit_of, interrupt, print};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_run::{
    Backend, Count, JOBS_MAX, Progress, REPEAT_MAX, RunDocument, RunError, RunHooks, RunOptions, Verdict, host_facts,
    rerun, scenario_name,
};
use wavelane_scenario::{SETTINGS_MAX, Scenario, Seed, Setting};

/// Where scenarios run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Place {
    /// In virtual time, deterministic.
    Sim,
    /// Between real Linux kernels' TCP in network namespaces, in real time; needs root.
    Lab,
}

impl Place {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Lab => "lab",
        }
    }
    pub(crate) fn make(self) -> Box<dyn Backend> {
        match self {
            Self::Sim => Box::new(wavelane_sim::SimBackend),
            Self::Lab => Box::new(wavelane_lab::LabBackend),
        }
    }
    /// Runs at once unless told: the lab measures real time, which runs beside each other would disturb.
    pub(crate) fn jobs(self) -> usize {
        match self {
            Self::Sim => std::thread::available_parallelism().map_or(1, usize::from),
            Self::Lab => 1,
        }
    }
}

const EXAMPLES: &str = include_str!("examples/run.txt");

/// Arguments of `wavelane run`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The scenario file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to run it.
    #[arg(long, value_enum, value_name = "PLACE", default_value = "sim")]
    on: Place,
    /// The random seed, instead of the file's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Put VALUE in the place of the file's, such as air.forward.rate="5 Mbit/s"; may be repeated. `channels.`, `flows.` and
    /// `checks.` may be left out.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::read)]
    settings: Vec<Setting>,
    /// Run N seeds, counting up.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEAT_MAX)))]
    repeat: u32,
    /// Runs at once [default: one per processor in sim, 1 in lab].
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// The record's directory; an earlier record of the same seeds or fewer is replaced, one of others refused.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace a record of other seeds or of another place.
    #[arg(long)]
    replace: bool,
    /// Print the run as one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
    /// Capture whole packets between gateways, and write the keys that open them for `wavelane trace --keys` to
    /// pcap/STACK-keys.txt.
    #[arg(long, conflicts_with = "repeat")]
    keys: bool,
    /// Show the report in the desktop's browser (xdg-open).
    #[arg(long)]
    open: bool,
}

/// A number of workers.
pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    let wrong = || format!("use a whole number from 1 to {JOBS_MAX}");
    text.parse().ok().filter(|n| (1..=JOBS_MAX).contains(n)).ok_or_else(wrong)
}

/// Draws the report into a record.
pub(crate) fn render(record: &Path) -> Result<(), String> {
    wavelane_report::render(record).map(drop).map_err(|e| e.to_string())
}

/// The error of a run with its exit code.
pub(crate) fn failure(error: &RunError) -> Failure {
    match error {
        RunError::Cancelled => Failure::interrupted(error),
        _ => Failure::refused(error),
    }
}

/// A scenario with these settings, and this seed in the place of its own.
pub(crate) fn loaded(file: &Path, settings: &[Setting], seed: Option<u64>) -> Result<Scenario, Failure> {
    if settings.len() > SETTINGS_MAX {
        return Err(Failure::refused(format!("--set stands {} times, at most {SETTINGS_MAX}", settings.len())));
    }
    let mut scenario = Scenario::load_with(file, settings).map_err(Failure::refused)?;
    scenario.seed = seed.map_or(scenario.seed, Seed);
    Ok(scenario)
}

/// Runs a scenario.
pub(crate) fn run(args: &RunArgs) -> Outcome {
    let scenario = loaded(&args.file, &args.settings, args.seed)?;
    let text = std::fs::read_to_string(&args.file).unwrap_or_default();
    if let Some(why) = wavelane_run::refusal(args.on.make().as_ref(), &scenario, &args.file, &text) {
        return Err(Failure::refused(why));
    }
    let name = scenario_name(&args.file);
    let place = args.on.word();
    let out = args.out.clone().unwrap_or_else(|| format!("records/{name}-{place}-{}", scenario.seed.0).into());
    if !args.replace {
        wavelane_run::refuse_other_seeds(&out, place, scenario.seed.0, args.repeat).map_err(Failure::refused)?;
    }
    let mut rerun = rerun(&args.file, place, scenario.seed.0, &args.settings, args.repeat);
    if args.keys {
        rerun.push_str(" --keys");
    }
    let jobs = args.jobs.unwrap_or_else(|| args.on.jobs());
    let captures = if args.keys { wavelane_run::CaptureExtent::Whole } else { wavelane_run::CaptureExtent::Headers };
    let options = RunOptions { captures, name, repeat: args.repeat, jobs, out: out.clone(), rerun: rerun.clone() };
    if !args.json {
        say!("seed {}; to repeat: {rerun}", scenario.seed.0);
    }
    for warning in crate::check::warnings(&text, &scenario) {
        say!("{warning}");
    }

    let cancelled = interrupt::flag()?;
    let meter = Meter::new();
    let show = |p: Progress| meter.show(&p);
    let hooks = RunHooks {
        progress: &show,
        count: &|c: Count| meter.count(&c),
        cancelled: &cancelled,
        environment: &host_facts,
        render: &render,
    };
    let result = wavelane_run::run(&|| args.on.make(), &scenario, &options, &hooks);
    meter.finish();
    let document = result.map_err(|e| {
        let failure = failure(&e);
        if matches!(e, RunError::Stack { .. }) {
            say!("to repeat: {rerun}");
        }
        failure
    })?;
    let code = finish(&document, &scenario, &out, args.json)?;
    if args.open {
        show_page(&out.join("report.html"))?;
    }
    Ok(code)
}

/// Prints the document or the table, and the replay command if the run did not pass.
fn finish(document: &RunDocument, scenario: &Scenario, out: &Path, json: bool) -> Outcome {
    match document.verdict {
        Verdict::Pass => {}
        Verdict::Info => say!("verdict info: nothing was judged, for the scenario has no checks"),
        Verdict::Fail | Verdict::Inconclusive => {
            say!("verdict {}; to repeat: {}", document.verdict.word(), document.rerun);
        }
    }
    if json {
        print(&document.to_json())?;
    } else {
        let table = wavelane_report::summary_text(document, scenario);
        print(&format!("{table}\nverdict {}\nreport {}\n", document.verdict.word(), out.join("report.html").shown()))?;
    }
    Ok(exit_of(document.verdict))
}
