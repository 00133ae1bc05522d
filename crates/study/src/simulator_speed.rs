//! How many seconds the simulator simulates in a second of processor time, beside both packaged builds of ns-3 on the
//! same cells in the same run, and whether its memory grows with simulated time.
//!
//! Ours is the shipped program, started like any user starts it: its processor time counts everything from start to
//! Record. ns-3's counts its event loop alone, as its program measures it.

use crate::child;
use crate::document::{Edition, Row, StudyDocument};
use crate::kept::Kept;
use crate::ns3::cases::{Case, Noise, Saturated};
use crate::ns3::peer::{Build, INSTALL, Programs};
use crate::runner::Runner;
use crate::{Setup, StudyError, StudyOptions};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use wavelane_base::text::ShownPath;
use wavelane_measure::mean_ci95;
use wavelane_run::{RunError, RunHooks, Verdict};

/// The study's id.
pub(crate) const ID: &str = "simulator-speed";
/// The demanded multiple of the speed of the faster working build of ns-3.
const AIM: f64 = 20.0;
/// Most memory after four times the simulated time, as a multiple of that after once.
const FLAT: f64 = 1.1;
/// Runs of each, by edition.
const RUNS: [u64; 2] = [1, 5];

/// The exit code of a program of ours that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// What a cell is.
enum Load {
    /// One that programs of ours run in ns-3 too.
    Reference(Case),
    /// Ten readers of pages (`true`), or seven calls and a bulk flow, as in the study `petrovic`.
    People(bool),
}

impl Load {
    fn text(&self, seconds: u64) -> String {
        match self {
            Self::Reference(case) => case.text(seconds),
            Self::People(web) => crate::petrovic::speed_cell(*web, seconds),
        }
    }
}

/// One cell, with ns-3's program and arguments for it.
struct Contest {
    name: &'static str,
    load: Load,
    seconds: u64,
    program: &'static str,
    arguments: Vec<&'static str>,
    builds: &'static [Build],
}

/// One cell a line: name, seconds that ours simulates (a processor second or so), ns-3's program, its arguments, and the builds that do
/// not crash on it. Debian's 3.37 crashes in TcpRateLinux without SACK.
const CONTESTS: &str = include_str!("contests.txt");

/// The cells' loads, in the table's order.
fn loads() -> [Load; 8] {
    let saturated = |senders| Load::Reference(Case::Saturation { phy: Saturated::A, senders, rts: false });
    let (stations, noise) = (5, Noise::Link);
    [
        saturated(20),
        saturated(50),
        saturated(200),
        Load::Reference(Case::Bulk {
            stations,
            segment: 1000,
            window: 5,
            rts: false,
            noise,
            rto_min_ms: 1000,
            retry: 7,
        }),
        Load::Reference(Case::Chain { nodes: 20, hops: 5, sense: 2, mbit: 54, window: 32, segment: 1460, rts: false }),
        Load::Reference(Case::Grid { columns: 5, rows: 4, flows: 5, sense: 2 }),
        Load::People(true),
        Load::People(false),
    ]
}

fn contests() -> Vec<Contest> {
    let contest = |(line, load): (&'static str, Load)| {
        let words: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, seconds, program, arguments, builds] = words[..] else { panic!("five columns: {line}") };
        let builds: &[Build] = match builds {
            "both" => &[Build::Debian, Build::Wheel],
            "wheel" => &[Build::Wheel],
            _ => &[],
        };
        let arguments = arguments.split_whitespace().collect();
        Contest { name, load, seconds: seconds.parse().expect("seconds"), program, arguments, builds }
    };
    CONTESTS.lines().zip(loads()).map(contest).collect()
}

/// What a run of ours cost.
struct Cost {
    cpu_s: f64,
    rss_mb: f64,
}

/// One measurement, of a cell by its place in the list.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Task {
    /// Ours, from start to Record.
    Ours(usize),
    /// A build of ns-3.
    Theirs(usize, Build),
    /// Our memory after once and after four times the time.
    Memory(usize),
}

fn tasks(contests: &[Contest]) -> Vec<Task> {
    let of_cell = |(place, contest): (usize, &Contest)| {
        let theirs = contest.builds.iter().map(move |build| Task::Theirs(place, *build));
        std::iter::once(Task::Ours(place)).chain(theirs).collect::<Vec<_>>()
    };
    let mut all: Vec<Task> = contests.iter().enumerate().flat_map(of_cell).collect();
    all.extend(contests.iter().position(|c| c.program == "seed_bulk").map(Task::Memory));
    all
}

/// What a measurement gave, by run: seconds per processor second, or MB; or why there is none.
type Measured = Result<Vec<f64>, String>;

/// Runs everything, one after the other, and judges it.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let runs = RUNS[usize::from(options.edition == Edition::Full)];
    let contests = contests();
    let tasks = tasks(&contests);
    let kept = Kept::open(options, ID);
    let key = |task: &Task| match task {
        Task::Ours(place) => format!("ours, {}", contests[*place].name),
        Task::Theirs(place, build) => format!("{build:?}, {}", contests[*place].name),
        Task::Memory(place) => format!("memory, {}", contests[*place].name),
    };
    let programs: OnceLock<Result<Programs, String>> = OnceLock::new();
    let work = |task: &Task| -> Result<Measured, StudyError> {
        let measured = match task {
            Task::Ours(place) => {
                let contest = &contests[*place];
                let speed =
                    |run| Ok(contest.seconds as f64 / ours(contest, contest.seconds, options, run, hooks)?.cpu_s);
                Ok((0..runs).map(speed).collect::<Result<Vec<_>, StudyError>>()?)
            }
            Task::Theirs(place, build) => {
                let programs = programs.get_or_init(|| Programs::prepare(hooks.cancelled));
                let speeds = theirs(programs, &contests[*place], *build, runs, hooks);
                check_cancelled(hooks)?;
                speeds
            }
            Task::Memory(place) => {
                let contest = &contests[*place];
                let rss = |seconds| Ok(ours(contest, seconds, options, 0, hooks)?.rss_mb);
                Ok([500, 2_000].into_iter().map(rss).collect::<Result<Vec<_>, StudyError>>()?)
            }
        };
        // What is missing is measured again.
        Ok(measured.map(|values| kept.put(&key(task), values)))
    };
    let found = |task: &Task| kept.get(&key(task)).map(Ok);
    let runner = Runner { what: "measurements", workers: 1, hooks };
    let measured = runner.run(&tasks, |_| 1.0, found, work)?;
    let found: Vec<(Task, Measured)> = tasks.into_iter().zip(measured).collect();
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows(&contests, &found, options.edition)))
}

/// All rows: of each cell ours, theirs and the ratio, then the memory's.
fn rows(contests: &[Contest], measured: &[(Task, Measured)], edition: Edition) -> Vec<Row> {
    let of = |task: Task| measured.iter().find(|(of, _)| *of == task).and_then(|(_, values)| values.as_ref().ok());
    let mut rows = Vec::new();
    for (place, contest) in contests.iter().enumerate() {
        let ours = of(Task::Ours(place)).cloned().unwrap_or_default();
        rows.push(speed_row(contest, "wavelane", &ours, "from start to Record, one process"));
        let mut fastest: Option<f64> = None;
        for (task, speeds) in measured {
            let Task::Theirs(_, build) = task else { continue };
            if *task != Task::Theirs(place, *build) {
                continue;
            }
            match speeds {
                Ok(speeds) => {
                    let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
                    fastest = Some(fastest.map_or(mean, |f| f.max(mean)));
                    let why = "its event loop alone, without start and set-up";
                    rows.push(speed_row(contest, build.stack(), speeds, why));
                }
                Err(why) => rows.push(missing_row(contest, *build, edition, why)),
            }
        }
        if let Some(fastest) = fastest {
            rows.push(ratio_row(contest, &ours, fastest));
        }
        if let Some([once, four]) = of(Task::Memory(place)).map(Vec::as_slice) {
            rows.push(memory_row(contest, *once, *four));
        }
    }
    rows
}

fn check_cancelled(hooks: &RunHooks<'_>) -> Result<(), StudyError> {
    if hooks.cancelled.load(Ordering::Relaxed) { Err(RunError::Cancelled.into()) } else { Ok(()) }
}

/// Starts this program on the cell and reads what it cost from the Record.
fn ours(
    contest: &Contest,
    seconds: u64,
    options: &StudyOptions,
    run: u64,
    hooks: &RunHooks<'_>,
) -> Result<Cost, StudyError> {
    let name: String = contest.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = options.out.join(ID);
    let failed = |why: String| RunError::Refused(format!("{}: {why}", contest.name));
    std::fs::create_dir_all(&folder).map_err(|e| failed(format!("cannot make {}: {e}", folder.shown())))?;
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, contest.load.text(seconds)).map_err(|e| failed(e.to_string()))?;
    let record = folder.join(format!("{name}-{seconds}"));
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(&program);
    command
        .arg("run")
        .arg(&file)
        .args(["--on", "sim", "--jobs", "1", "--json", "--seed", &(options.seed.0 + run).to_string(), "--out"])
        .arg(&record);
    let output = child::output(&mut command, hooks.cancelled)
        .map_err(|e| failed(format!("cannot start {}: {e}", program.shown())))?;
    // Ctrl-C reaches it too, and may be seen there first.
    let Some(output) = output.filter(|output| output.status.code() != Some(INTERRUPTED)) else {
        return Err(RunError::Cancelled.into());
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.lines().last().unwrap_or("it failed").to_owned()).into());
    }
    cost_of(&record).ok_or_else(|| failed("its record states no cost".into()).into())
}

/// What `environment.json` of a Record says.
fn cost_of(record: &Path) -> Option<Cost> {
    let text = std::fs::read_to_string(record.join("environment.json")).ok()?;
    let facts: Value = serde_json::from_str(&text).ok()?;
    let number = |key: &str| facts.get(key)?.as_f64().filter(|n| *n > 0.0);
    Some(Cost { cpu_s: number("cpu_s")?, rss_mb: number("rss_peak_kb")? / 1024.0 })
}

fn theirs(
    programs: &Result<Programs, String>,
    contest: &Contest,
    build: Build,
    runs: u64,
    hooks: &RunHooks<'_>,
) -> Measured {
    let programs = programs.as_ref().map_err(Clone::clone)?;
    if !programs.has(contest.program, build) {
        return Err("this build of ns-3 is not installed".into());
    }
    let mut speeds = Vec::new();
    for run in 1..=runs {
        let mut arguments: Vec<String> = contest.arguments.iter().map(|a| (*a).to_owned()).collect();
        arguments.push(format!("--run={run}"));
        let outcome = programs.run(contest.program, build, &arguments, hooks.cancelled)?;
        speeds.push(outcome.simulated_s / outcome.cpu_s);
    }
    Ok(speeds)
}

fn row(contest: &str, stack: &str, metric: &str, unit: &str) -> Row {
    let mut case = Map::new();
    case.insert("cell".into(), json!(contest));
    Row { case, ..Row::new(ID, "sim", stack, metric, unit) }
}

fn speed_row(contest: &Contest, stack: &str, speeds: &[f64], why: &str) -> Row {
    let (mean, half) = mean_ci95(speeds).map_or((None, None), |(mean, half)| (Some(mean), half));
    Row {
        value: mean,
        ci95: half,
        n: speeds.len() as u64,
        why: format!("{}: {why}", contest.name),
        ..row(contest.name, stack, "sim_s_per_cpu_s", "s/s")
    }
}

/// A peer that is not there is left out; with `--full` the study proves nothing without it.
fn missing_row(contest: &Contest, build: Build, edition: Edition, why: &str) -> Row {
    let verdict = if edition == Edition::Full { Verdict::Inconclusive } else { Verdict::Info };
    Row {
        verdict,
        why: format!("{}: omitted ({why}): {INSTALL}", contest.name),
        ..row(contest.name, build.stack(), "sim_s_per_cpu_s", "s/s")
    }
}

fn ratio_row(contest: &Contest, ours: &[f64], fastest: f64) -> Row {
    let ratios: Vec<f64> = ours.iter().map(|speed| speed / fastest).collect();
    let (mean, half) = mean_ci95(&ratios).unwrap_or((0.0, None));
    let verdict = if mean >= AIM { Verdict::Pass } else { Verdict::Fail };
    Row {
        value: Some(mean),
        ci95: half,
        n: ratios.len() as u64,
        bound: Some(AIM),
        verdict,
        why: format!("{}: {mean:.1} times the faster working build, asked for {AIM}", contest.name),
        ..row(contest.name, "wavelane", "ratio_to_ns3", "ratio")
    }
}

/// Peak memory at one and at four times the simulated time, in MB.
fn memory_row(contest: &Contest, once: f64, four: f64) -> Row {
    let ratio = four / once;
    Row {
        value: Some(ratio),
        n: 1,
        bound: Some(FLAT),
        verdict: if ratio <= FLAT { Verdict::Pass } else { Verdict::Fail },
        why: format!("peak memory {once:.1} MB after 500 s, {four:.1} MB after 2000 s"),
        ..row(contest.name, "wavelane", "rss_ratio_4t", "ratio")
    }
}

#[cfg(test)]
#[path = "simulator_speed_tests.rs"]
mod tests;
