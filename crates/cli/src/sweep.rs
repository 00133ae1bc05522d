//! `wavelane sweep`.

use crate::cluster::Cluster;
use crate::progress::Meter;
use crate::report::show_page;
use crate::run::{Place, failure, jobs};
use crate::{Failure, Outcome, exit_of, interrupt, print};
use clap::Args;
use std::path::PathBuf;
use wavelane_base::text::ShownPath;
use wavelane_report::Swept;
use wavelane_run::{Count, Progress, REPEAT_MAX, RunError, RunHooks, SweepOptions, shell};
use wavelane_scenario::{Axis, Setting, Sweep};

const EXAMPLES: &str = include_str!("examples/sweep.txt");

/// Arguments of `wavelane sweep`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SweepArgs {
    /// The scenario file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Vary KEY over these values, beside or instead of the file's [sweep]; may be repeated.
    #[arg(long = "sweep", value_name = "KEY=A,B,C", value_parser = Axis::read)]
    axes: Vec<Axis>,
    /// Put VALUE in the place of the file's in every run; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::read)]
    settings: Vec<Setting>,
    /// Where to run it.
    #[arg(long, value_enum, value_name = "PLACE", default_value = "sim")]
    on: Place,
    /// The first seed of every combination, instead of the file's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run N seeds of each combination, counting up [default: the file's sweep.repeats, or 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEAT_MAX)))]
    repeat: Option<u32>,
    /// Runs at once [default: one per processor in sim, 1 in lab].
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Have a cluster run the combinations, for the simulator only: the address of a Dask scheduler, or slurm://N for N jobs of
    /// Slurm. Needs the Python package `wavelane[cluster]` here, and `wavelane` of the same version and Dask's on the workers.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    on_cluster: Option<String>,
    /// The Python that the Dask client runs in.
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "on_cluster")]
    python: PathBuf,
    /// Where everything goes. What is there already is not run again: of a larger --repeat only the missing seeds are run, and of a smaller
    /// one the records keep all. Records of another --seed or --on are refused.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace records of another --seed or --on.
    #[arg(long)]
    replace: bool,
    /// Print one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
    /// Show the report in the desktop's browser (xdg-open).
    #[arg(long)]
    open: bool,
}

/// Runs every combination, and writes the table and the page.
pub(crate) fn sweep(args: &SweepArgs) -> Outcome {
    let mut plan = Sweep::load(&args.file).map_err(Failure::refused)?;
    let mut named = Sweep::default();
    for (number, axis) in args.axes.iter().enumerate() {
        named.set(axis.clone());
        // It took the place of one that was named before.
        if named.axes.len() == number {
            let why = format!("--sweep names {} twice: name all its values in one list", axis.key);
            return Err(Failure::refused(why));
        }
        plan.set(axis.clone());
    }
    if plan.axes.is_empty() {
        let why = "nothing varies: add [sweep] to the file, or --sweep KEY=A,B,C";
        return Err(Failure::refused(format!("{}: {why}", args.file.shown())));
    }
    let mut settings = args.settings.clone();
    settings.extend(args.seed.map(|seed| Setting { key: "seed".into(), value: seed.to_string() }));
    let cells = plan.cells(&args.file, &settings).map_err(Failure::refused)?;
    for cell in &cells {
        if let Some((clause, why)) = args.on.make().review(&cell.scenario).refusal() {
            let (at, place) = (cell.values.join(", "), args.on.word());
            return Err(Failure::refused(format!("at {at}: {place} cannot run this scenario: {clause}: {why}")));
        }
    }
    if args.on_cluster.is_some() && args.on != Place::Sim {
        return Err(Failure::refused("a cluster runs the simulator only: leave out --on lab, or --on-cluster"));
    }
    let repeat = args.repeat.or(plan.repeats).unwrap_or(1);
    let name = args.file.file_stem().map_or_else(|| "scenario".into(), |s| s.to_string_lossy().into_owned());
    let (file, place) = (shell(&args.file.to_string_lossy()), args.on.word());
    let seed = cells.first().map_or(1, |c| c.scenario.seed.0);
    let mut rerun = format!("{file} --on {place} --seed {seed} --repeat {repeat}");
    for Setting { key, value } in &args.settings {
        rerun += &format!(" --set {}", shell(&format!("{key}={value}")));
    }
    let axes: String =
        plan.axes.iter().map(|a| format!(" --sweep {}", shell(&format!("{}={}", a.key, a.values.join(","))))).collect();
    let again = format!("wavelane sweep {rerun}{axes} --out {}", shell(&args.out.to_string_lossy()));

    let cancelled = interrupt::flag()?;
    let meter = Meter::new();
    // The first count is of the combinations whose records are there.
    let kept = std::sync::OnceLock::new();
    let count = |c: Count| {
        kept.get_or_init(|| c.done);
        meter.count(&c);
    };
    let show = |p: Progress| meter.show(&p);
    let hooks = RunHooks {
        progress: &show,
        count: &count,
        cancelled: &cancelled,
        environment: &wavelane_run::host_facts,
        // No page per combination; `wavelane report` draws one on demand.
        render: &|_| Ok(()),
    };
    let mut options = SweepOptions {
        name,
        repeat,
        jobs: args.jobs.unwrap_or_else(|| args.on.jobs()),
        out: args.out.clone(),
        rerun: format!("wavelane run {rerun}"),
        replace: args.replace,
        note: |line| say!("{line}"),
    };
    if let Some(address) = &args.on_cluster {
        let shards =
            wavelane_run::shards(args.on.make().as_ref(), &plan.axes, &cells, &options).map_err(|e| failure(&e))?;
        let mut over = 0;
        let mut tell = |more: usize| {
            over += more;
            let (done, share) = (cells.len() - shards.len() + over, over as f64 / shards.len().max(1) as f64);
            meter.count(&Count { what: "combinations", done, of: cells.len(), share });
            Ok(())
        };
        let _ = tell(0);
        let cluster = Cluster { python: args.python.clone(), address: address.clone() };
        let pieces: Vec<String> = shards.iter().map(|s| serde_json::to_string(s).unwrap_or_default()).collect();
        let done = cluster.run(&pieces, &cancelled, &mut |_, _| tell(1));
        meter.finish();
        done.map_err(|e| match e {
            RunError::Cancelled => Failure::interrupted("cancelled; the same command goes on with what is there"),
            e => failure(&e),
        })?;
        // It was said before the cluster began.
        options.note = |_| ();
    }
    // What a cluster ran is there by now, and taken over.
    let result = wavelane_run::sweep(&|| args.on.make(), &plan.axes, &cells, &options, &hooks);
    meter.finish();
    let done = result.map_err(|e| match e {
        RunError::Cancelled => {
            Failure::interrupted(format!("cancelled; the same command goes on with what is in {}", args.out.shown()))
        }
        e => failure(&e),
    })?;
    let title = &cells[0].scenario.title;
    let swept = Swept {
        out: &args.out,
        scenario: &args.file.display().to_string(),
        title: if title.is_empty() { &options.name } else { title },
        backend: args.on.word(),
        repeat,
        axes: &plan.axes,
        cells: &done,
        rerun: &again,
    };
    let (document, page) = swept.write().map_err(Failure::refused)?;
    if args.json {
        print(&document)?;
    } else {
        let (csv, cells) = (args.out.join("sweep.csv"), done.len());
        // A cluster's records came in this very run.
        let before = match kept.get() {
            Some(kept) if *kept > 0 && args.on_cluster.is_none() => format!(", {kept} of them kept from before"),
            _ => String::new(),
        };
        let (csv, page) = (csv.shown(), page.shown());
        let combinations = if cells == 1 { "1 combination".into() } else { format!("{cells} combinations") };
        let seeds = if repeat == 1 { "1 seed".into() } else { format!("{repeat} seeds") };
        let doubts: String = wavelane_report::sweep_doubts(&done).iter().map(|said| format!("{said}\n")).collect();
        let verdict = swept.verdict().word();
        print(&format!("{combinations} of {seeds}{before}\n{doubts}verdict {verdict}\ntable {csv}\nreport {page}\n"))?;
    }
    if args.open {
        show_page(&page)?;
    }
    Ok(exit_of(swept.verdict()))
}
