//! Runs a scenario on a backend, over stacks and seeds, and writes the Record.

use crate::backend::{Backend, BackendError, CaptureExtent, Progress, RunContext, StackRaw, Treatment};
use crate::draft::Draft;
use crate::figures;
use crate::judge;
use crate::record::{ClauseNote, Omitted, RUN_FORMAT, RunDocument, StackResult, Verdict, label, series_csv};
use core::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use wavelane_base::Seed;
use wavelane_base::text::ShownPath;
use wavelane_scenario::{Family, Flow, Scenario, Stack, StackOption};

/// Most seeds of one run.
pub const REPEAT_MAX: u32 = wavelane_scenario::REPEATS_MAX;
/// Largest seed: that of a number in a scenario's file.
pub const SEED_MAX: u64 = i64::MAX as u64;
/// Most workers.
pub const JOBS_MAX: usize = 256;

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The scenario file's stem, the document's `scenario`.
    pub name: String,
    /// How many seeds, counting up from the scenario's.
    pub repeat: u32,
    /// How many runs at once.
    pub jobs: usize,
    /// The Record's directory.
    pub out: PathBuf,
    /// The command that repeats this run.
    pub rerun: String,
    /// What is captured, if one seed is run.
    pub captures: CaptureExtent,
}

/// What the caller adds to a run: it owns the clock, the terminal and the report.
pub struct RunHooks<'a> {
    /// Told how far it is; called from worker threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Told how many runs of a larger whole are over; called from worker threads.
    pub count: &'a (dyn Fn(Count) + Sync),
    /// Set on Ctrl-C.
    pub cancelled: &'a AtomicBool,
    /// The content of `environment.json`: wall-clock and host facts. Called once, at the end.
    pub environment: &'a (dyn Fn() -> serde_json::Value + Sync),
    /// Writes `report.html` and plots into the finished directory.
    pub render: &'a (dyn Fn(&Path) -> Result<(), String> + Sync),
}

impl<'a> RunHooks<'a> {
    /// The same without the count, for runs that are parts of something which does its own counting.
    #[must_use]
    pub fn without_count(&self) -> RunHooks<'a> {
        RunHooks {
            progress: self.progress,
            count: &|_| (),
            cancelled: self.cancelled,
            environment: self.environment,
            render: self.render,
        }
    }
}

/// How many runs of a larger whole, such as a study, are over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Count {
    /// What they are, such as `draws`.
    pub what: &'static str,
    /// Those that are over, with those taken over from before.
    pub done: usize,
    /// All of them.
    pub of: usize,
    /// Share of the work of all that were not taken over, 0 to 1, as far as their cost can be told beforehand.
    pub share: f64,
}

/// Why there is no Record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Ctrl-C; nothing is left behind.
    #[error("cancelled; no record was written")]
    Cancelled,
    /// The backend cannot honour the scenario, or none of its stacks.
    #[error("{0}")]
    Refused(String),
    /// The Record cannot be written.
    #[error("cannot write {}: {why}; use --out with a writable folder that has free space", path.shown())]
    Unwritable {
        /// The file or directory.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// A stack could not be run.
    #[error("stack {stack}, seed {seed}: {error}")]
    Stack {
        /// Which.
        stack: Stack,
        /// Its seed.
        seed: u64,
        /// Why.
        error: BackendError,
    },
}

pub(crate) fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> RunError + '_ {
    move |e| RunError::Unwritable { path: path.to_owned(), why: e.to_string() }
}

/// The stacks to run, those left out, and what else is not as written.
pub(crate) type Reviewed = (Vec<Stack>, Vec<Omitted>, Vec<ClauseNote>);

/// Why a stack would give the figures of one before it: nothing in the scenario depends on which of the two it is.
fn repeated(scenario: &Scenario, stack: Stack, before: &[Stack]) -> Option<String> {
    let plain = |stack: &Stack| match (stack.family, stack.option) {
        (Family::Tcp | Family::Udp, StackOption::None) => Some(false),
        (Family::Tcp, StackOption::Rts) => Some(true),
        _ => None,
    };
    let of_its_own = |flow: &Flow| flow.app.is_datagrams() || flow.control.is_some();
    if scenario.flows.is_empty() || !scenario.flows.iter().all(of_its_own) {
        return None;
    }
    let same = before.iter().find(|other| plain(other).is_some() && plain(other) == plain(&stack))?;
    Some(format!(
        "every flow sends datagrams or has a `control` of its own, so it would repeat {same}: take one of them out"
    ))
}

/// Sorts the scenario's stacks into those to run and those omitted; refuses what the backend refuses.
pub(crate) fn review(backend: &dyn Backend, scenario: &Scenario) -> Result<Reviewed, RunError> {
    let review = backend.review(scenario);
    if let Some((clause, why)) = review.refusal() {
        return Err(RunError::Refused(format!("{} cannot run this scenario: {clause}: {why}", backend.name())));
    }
    let (mut run, mut omitted) = (Vec::new(), Vec::new());
    let mut notes: Vec<ClauseNote> = Vec::new();
    for &stack in &scenario.stacks {
        let treatment = review.treatment_of(stack);
        let repeated = repeated(scenario, stack, &run).filter(|_| treatment == Treatment::Imposed);
        match repeated.map_or(treatment, Treatment::Omitted) {
            Treatment::Imposed => run.push(stack),
            Treatment::Approximated(why) => {
                run.push(stack);
                let treatment = "approximated".into();
                notes.push(ClauseNote { clause: format!("stack {stack}"), treatment, why });
            }
            Treatment::Omitted(why) | Treatment::Refused(why) => {
                omitted.push(Omitted { stack: stack.word().to_owned(), why });
            }
        }
    }
    for clause in review.clauses {
        let (treatment, why) = match clause.treatment {
            Treatment::Approximated(why) => ("approximated", why),
            Treatment::Omitted(why) => ("omitted", why),
            Treatment::Imposed | Treatment::Refused(_) => continue,
        };
        notes.push(ClauseNote { clause: clause.clause, treatment: treatment.into(), why });
    }
    if run.is_empty() {
        let whys: Vec<String> = omitted.iter().map(|o| format!("{}: {}", o.stack, o.why)).collect();
        return Err(RunError::Refused(format!("{} can run none of the stacks: {}", backend.name(), whys.join("; "))));
    }
    Ok((run, omitted, notes))
}

/// The seeds of a run, counting up.
fn seeds(first: Seed, repeat: u32) -> Result<Vec<Seed>, RunError> {
    let last = first.0.checked_add(u64::from(repeat) - 1).filter(|last| *last <= SEED_MAX);
    let too_large = || {
        let why = format!("a seed is at most {SEED_MAX}, and {repeat} count up from {}: choose a smaller one", first.0);
        RunError::Refused(why)
    };
    Ok((first.0..=last.ok_or_else(too_large)?).map(Seed).collect())
}

/// Runs everything and writes the Record; the document's verdict is the run's.
///
/// `make` makes a backend per worker. The draft of the Record lies beside its final place and replaces an earlier
/// Record there only when it is whole.
pub fn run(
    make: &(dyn Fn() -> Box<dyn Backend> + Sync),
    scenario: &Scenario,
    options: &RunOptions,
    hooks: &RunHooks<'_>,
) -> Result<RunDocument, RunError> {
    let backend = make();
    let (stacks, omitted, clauses) = review(backend.as_ref(), scenario)?;
    let repeat = options.repeat.clamp(1, REPEAT_MAX);
    let seeds = seeds(scenario.seed, repeat)?;
    let draft = Draft::begin(&options.out)?;
    draft.write("scenario.toml", scenario.to_toml().as_bytes())?;
    let tasks: Vec<(Stack, Seed)> = stacks.iter().flat_map(|s| seeds.iter().map(move |seed| (*s, *seed))).collect();
    let raws = run_all(make, scenario, &tasks, &draft.temporary, &RunOptions { repeat, ..options.clone() }, hooks)?;

    let results = stack_results(scenario, &stacks, &tasks, &raws);
    let document = document(scenario, options, backend.name(), (results, omitted, clauses));
    for ((stack, seed), raw) in tasks.iter().zip(&raws) {
        for flow in &raw.flows {
            let bulk = scenario.flow(&flow.flow).is_some_and(|f| f.app.is_bulk());
            let name = format!("series/{}-{}.csv", label(stack.word(), seed.0, repeat), flow.flow);
            draft.write(&name, series_csv(flow, bulk).as_bytes())?;
        }
    }
    let remarks: Vec<String> = tasks.iter().zip(&raws).flat_map(|(task, raw)| remarks(*task, raw)).collect();
    finish(draft, &document, &remarks, hooks)?;
    Ok(document)
}

/// The document of a run of these results, with its checks judged.
pub(crate) fn document(
    scenario: &Scenario,
    options: &RunOptions,
    backend: &str,
    (stacks, omitted, clauses): (Vec<StackResult>, Vec<Omitted>, Vec<ClauseNote>),
) -> RunDocument {
    let checks = judge::checks(scenario, &stacks, &omitted);
    let unproven = stacks.iter().filter(|r| r.inconclusive.is_some()).map(|_| Verdict::Inconclusive);
    RunDocument {
        format: RUN_FORMAT.into(),
        scenario: options.name.clone(),
        title: scenario.title.clone(),
        backend: backend.into(),
        seed: scenario.seed.0,
        repeat: options.repeat.clamp(1, REPEAT_MAX),
        verdict: Verdict::total(checks.iter().map(|c| c.verdict).chain(unproven)),
        omitted,
        clauses,
        stacks,
        checks,
        rerun: options.rerun.clone(),
        record: options.out.display().to_string(),
    }
}

/// Writes what every Record has beside its series, and puts it in place.
pub(crate) fn finish(
    draft: Draft,
    document: &RunDocument,
    remarks: &[String],
    hooks: &RunHooks<'_>,
) -> Result<(), RunError> {
    draft.write("log.txt", log(document, remarks).as_bytes())?;
    let environment = serde_json::to_string_pretty(&(hooks.environment)()).unwrap_or_default() + "\n";
    draft.write("environment.json", environment.as_bytes())?;
    draft.write("record.json", document.to_json().as_bytes())?;
    let report = Path::new(&document.record).join("report.html");
    (hooks.render)(&draft.temporary).map_err(|why| RunError::Unwritable { path: report, why })?;
    if hooks.cancelled.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled);
    }
    draft.keep()
}

/// Runs the tasks on `jobs` workers; results stand in the tasks' order. The first error stops the rest.
fn run_all(
    make: &(dyn Fn() -> Box<dyn Backend> + Sync),
    scenario: &Scenario,
    tasks: &[(Stack, Seed)],
    out: &Path,
    options: &RunOptions,
    hooks: &RunHooks<'_>,
) -> Result<Vec<StackRaw>, RunError> {
    let repeat = options.repeat;
    let captures = if repeat == 1 { options.captures } else { CaptureExtent::Off };
    let (next, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    if tasks.len() > 1 {
        (hooks.count)(Count { what: "runs", done: 0, of: tasks.len(), share: 0.0 });
    }
    let results: Mutex<Vec<Option<StackRaw>>> = Mutex::new(tasks.iter().map(|_| None).collect());
    let failed: Mutex<Option<RunError>> = Mutex::new(None);
    let lock_failed = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let worker = || {
        let mut backend = make();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(stack, seed)) = tasks.get(index) else { return };
            if lock_failed().is_some() {
                return;
            }
            let mut progress = |p: Progress| (hooks.progress)(p);
            let label = label(stack.word(), seed.0, repeat);
            let mut context = RunContext { out, label, captures, progress: &mut progress, cancelled: hooks.cancelled };
            match backend.run_stack(scenario, stack, seed, &mut context) {
                Ok(raw) => {
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(raw);
                    let done = over.fetch_add(1, Ordering::Relaxed) + 1;
                    if tasks.len() > 1 {
                        let share = done as f64 / tasks.len() as f64;
                        (hooks.count)(Count { what: "runs", done, of: tasks.len(), share });
                    }
                }
                Err(error) => {
                    let error = match error {
                        BackendError::Cancelled => RunError::Cancelled,
                        error => RunError::Stack { stack, seed: seed.0, error },
                    };
                    lock_failed().get_or_insert(error);
                    return;
                }
            }
        }
    };
    let workers = options.jobs.clamp(1, JOBS_MAX).min(tasks.len());
    if workers == 1 {
        worker();
    } else {
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    }
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let results: Option<Vec<StackRaw>> =
        results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    results.ok_or(RunError::Cancelled)
}

fn stack_results(
    scenario: &Scenario,
    stacks: &[Stack],
    tasks: &[(Stack, Seed)],
    raws: &[StackRaw],
) -> Vec<StackResult> {
    let part = |seed: Seed, raw: &StackRaw| StackResult {
        flows: figures::of_run(scenario, raw, seed),
        ways: raw.ways.iter().map(|w| figures::of_way(w, seed)).collect(),
        radios: raw.radios.iter().map(|r| figures::of_radio(r, seed)).collect(),
        lines: raw.lines.iter().map(|l| figures::of_line(l, seed)).collect(),
        kernels: raw.kernels.iter().map(|k| figures::of_kernel(k, seed)).collect(),
        packets: raw.packets.iter().map(|p| figures::of_packets(p, seed)).collect(),
        runs: vec![figures::RunTotals::of(raw, seed)],
        ..StackResult::default()
    };
    let of_stack = |stack: &Stack| {
        let runs = tasks.iter().zip(raws).filter(|((s, _), _)| s == stack);
        StackResult::of_all(stack.word(), runs.map(|((_, seed), raw)| part(*seed, raw)).collect())
    };
    stacks.iter().map(of_stack).collect()
}

/// Before each remark of a run in the log.
pub(crate) fn remark_of(stack: &str, seed: u64) -> String {
    format!("{stack} seed {seed}: ")
}

/// What the log says of one run.
fn remarks((stack, seed): (Stack, Seed), raw: &StackRaw) -> Vec<String> {
    let about = remark_of(stack.word(), seed.0);
    let late = raw.inconclusive.iter().map(|why| format!("{about}inconclusive: {why}"));
    raw.notes.iter().map(|note| format!("{about}{note}")).chain(late).collect()
}

/// The log: what was left out or changed, the backend's remarks, and the verdicts.
fn log(document: &RunDocument, remarks: &[String]) -> String {
    let mut out = format!("{}\n", document.rerun);
    for o in &document.omitted {
        let _ = writeln!(out, "omitted stack {}: {}", o.stack, o.why);
    }
    for c in &document.clauses {
        let _ = writeln!(out, "{} {}: {}", c.treatment, c.clause, c.why);
    }
    for remark in remarks {
        let _ = writeln!(out, "{remark}");
    }
    for c in &document.checks {
        let _ = writeln!(out, "check {}: {}: {}", c.check, c.verdict.word(), c.why);
    }
    let _ = writeln!(out, "verdict: {}", document.verdict.word());
    out
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
