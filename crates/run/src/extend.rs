//! A Record with another number of seeds than it has: the missing ones are run into a Record beside it, and both become one. If
//! a Record has more seeds than are wanted, the first ones are taken; it keeps all.

use crate::backend::Backend;
use crate::draft::{Draft, foreign};
use crate::drive::{REPEAT_MAX, RunError, RunHooks, RunOptions, document, finish, remark_of, review, run, unwritable};
use crate::kept::{Found, kept, make_room, seal_of, write_seal};
use crate::record::{RunDocument, StackResult, label};
use crate::whole::is_replaced;
use std::path::{Path, PathBuf};
use wavelane_base::Seed;
use wavelane_base::text::ShownPath;
use wavelane_scenario::{Scenario, Stack};

/// Largest `log.txt` that is read back.
const LOG_MAX: u64 = 64 << 20;

/// Where the Record of the seeds lies that another one lacks, until both are one.
pub(crate) fn more_of(record: &Path) -> PathBuf {
    let mut name = record.as_os_str().to_owned();
    name.push(".more");
    name.into()
}

/// The scenario as the seeds after the first `have` run it.
pub(crate) fn rest(scenario: &Scenario, have: u32) -> Scenario {
    Scenario { seed: Seed(scenario.seed.0.saturating_add(u64::from(have))), ..scenario.clone() }
}

/// Removes what [`more_of`] names once the Record has all its seeds; what is beside that gets its place. Other Records stay:
/// they took time, and a larger number of seeds takes them over.
pub(crate) fn remove_more(record: &Path) {
    let more = more_of(record);
    // A program may have been killed in between.
    move_up(&more);
    while remove_covered(record, &more) {
        move_up(&more);
    }
}

/// Moves the Record beside a place without one to that place, and so on: its seeds follow those of the Record before it.
fn move_up(place: &Path) {
    let from = more_of(place);
    let is_free = place.symlink_metadata().is_err() && !is_replaced(place);
    if !is_free || !from.join("record.json").exists() || std::fs::rename(&from, place).is_err() {
        return;
    }
    let _ = std::fs::rename(seal_of(&from), seal_of(place));
    move_up(&from);
}

/// Removes the Record `more` if `record` has all its seeds.
fn remove_covered(record: &Path, more: &Path) -> bool {
    if !more.exists() || foreign(more).is_some() {
        return false;
    }
    let read = |at: &Path| {
        let (document, scenario) = (RunDocument::load(at).ok()?, Scenario::load_recorded(at).ok()?);
        let seeds = (scenario.seed.0, scenario.seed.0.saturating_add(u64::from(document.repeat)));
        Some((Scenario { seed: Seed(0), ..scenario }, seeds))
    };
    let Some(((all, has), (part, seeds))) = read(record).zip(read(more)) else { return false };
    let is_covered = all == part && has.0 <= seeds.0 && seeds.1 <= has.1;
    if !is_covered || std::fs::remove_dir_all(more).is_err() {
        return false;
    }
    let _ = std::fs::remove_file(seal_of(more));
    true
}

/// Makes the Record at `options.out`, which holds `earlier`, one of at least `options.repeat` seeds. Only those that neither it nor
/// the Record beside it has are run, and all of both are kept.
pub(crate) fn extend(
    make: &(dyn Fn() -> Box<dyn Backend> + Sync),
    scenario: &Scenario,
    options: &RunOptions,
    hooks: &RunHooks<'_>,
    earlier: &RunDocument,
) -> Result<(), RunError> {
    let backend = make();
    let (after, missing) = (rest(scenario, earlier.repeat), options.repeat - earlier.repeat);
    let more = more_of(&options.out);
    let beside = RunOptions { repeat: missing, out: more.clone(), ..options.clone() };
    let found = kept(backend.as_ref(), &more, &after, missing).unwrap_or(Found::Nothing);
    match &found {
        Found::Nothing => {
            make_room(std::iter::once(more.clone()))?;
            run(make, &after, &beside, hooks)?;
            write_seal(&more);
        }
        Found::Part(fewer) if found.lacks(missing) => {
            extend(make, &after, &beside, hooks, fewer)?;
            write_seal(&more);
        }
        Found::Whole(_) | Found::Part(_) => {}
    }
    let document = RunDocument::load(&more).map_err(|e| RunError::Refused(e.to_string()))?;
    let repeat = (earlier.repeat + document.repeat).min(REPEAT_MAX);
    let both = RunOptions {
        repeat,
        rerun: options.rerun.replacen(&repeated(options.repeat), &repeated(repeat), 1),
        ..options.clone()
    };
    let from = [(options.out.clone(), earlier.clone()), (more, document)];
    // The seal of the Record until now: the next one has its own.
    let _ = std::fs::remove_file(seal_of(&options.out));
    join(backend.as_ref(), scenario, &both, hooks, &from)?;
    remove_more(&options.out);
    Ok(())
}

/// How a command says its number of seeds.
fn repeated(repeat: u32) -> String {
    format!("--repeat {repeat}")
}

/// The document of the first `options.repeat` seeds of a Record that has more.
pub(crate) fn first_of(
    backend: &dyn Backend,
    scenario: &Scenario,
    options: &RunOptions,
    record: &RunDocument,
) -> Result<RunDocument, RunError> {
    let (stacks, omitted, clauses) = review(backend, scenario)?;
    let results = results(&stacks, scenario, options, &[record])?;
    let document = document(scenario, options, backend.name(), (results, omitted, clauses));
    // As it would be read back from a Record of these seeds alone, to the last digit.
    serde_json::from_str(&document.to_json()).map_err(|e| RunError::Refused(e.to_string()))
}

/// The seeds of a run of `options`.
fn seeds(scenario: &Scenario, options: &RunOptions) -> impl Iterator<Item = u64> + use<> {
    let first = scenario.seed.0;
    (0..u64::from(options.repeat)).map(move |i| first + i)
}

/// The results of each stack with the seeds of `options`, which some of the documents have.
fn results(
    stacks: &[Stack],
    scenario: &Scenario,
    options: &RunOptions,
    documents: &[&RunDocument],
) -> Result<Vec<StackResult>, RunError> {
    let part = |stack: &str, seed: u64| {
        documents.iter().flat_map(|d| &d.stacks).filter(|s| s.stack == stack).find_map(|s| s.of_seed(seed))
    };
    let all = |stack: &Stack| {
        let parts: Option<Vec<StackResult>> = seeds(scenario, options).map(|seed| part(stack.word(), seed)).collect();
        parts.map(|parts| StackResult::of_all(stack.word(), parts))
    };
    stacks.iter().map(all).collect::<Option<Vec<_>>>().ok_or_else(|| {
        RunError::Refused(format!("{} lacks the results of a seed: remove it to run them", options.out.shown()))
    })
}

/// One Record of the seeds of several.
fn join(
    backend: &dyn Backend,
    scenario: &Scenario,
    options: &RunOptions,
    hooks: &RunHooks<'_>,
    from: &[(PathBuf, RunDocument)],
) -> Result<(), RunError> {
    let (stacks, omitted, clauses) = review(backend, scenario)?;
    let documents: Vec<&RunDocument> = from.iter().map(|(_, document)| document).collect();
    let results = results(&stacks, scenario, options, &documents)?;
    let draft = Draft::begin(&options.out)?;
    draft.write("scenario.toml", scenario.to_toml().as_bytes())?;
    let wanted = |seed: u64| seeds(scenario, options).any(|s| s == seed);
    for (record, document) in from {
        for folder in ["series", "pcap", "logs"] {
            bring(record, document, folder, &draft, options.repeat, &wanted)?;
        }
    }
    let logs: Vec<String> = from
        .iter()
        .map(|(record, _)| wavelane_scenario::read_regular(&record.join("log.txt"), LOG_MAX).unwrap_or_default())
        .collect();
    let of_run = |(stack, seed): (&str, u64)| {
        let about = remark_of(stack, seed);
        logs.iter().flat_map(|log| log.lines()).filter(move |line| line.starts_with(&about)).map(str::to_owned)
    };
    let remarks: Vec<String> = stacks
        .iter()
        .flat_map(|stack| seeds(scenario, options).map(|seed| (stack.word(), seed)))
        .flat_map(of_run)
        .collect();
    let document = document(scenario, options, backend.name(), (results, omitted, clauses));
    finish(draft, &document, &remarks, hooks)
}

/// Brings the files of the wanted seeds from a folder of a Record into the draft of one of `repeat` seeds.
fn bring(
    record: &Path,
    document: &RunDocument,
    folder: &str,
    draft: &Draft,
    repeat: u32,
    wanted: &dyn Fn(u64) -> bool,
) -> Result<(), RunError> {
    for entry in std::fs::read_dir(record.join(folder)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((stack, seed, rest)) = run_of(&name, document) else { continue };
        if !wanted(seed) {
            continue;
        }
        let to = draft.temporary.join(folder).join(format!("{}-{rest}", label(stack, seed, repeat)));
        let parent = draft.temporary.join(folder);
        std::fs::create_dir_all(&parent).map_err(unwritable(&parent))?;
        // The earlier Record stays whole until the draft takes its place.
        let linked = std::fs::hard_link(entry.path(), &to);
        linked.or_else(|_| std::fs::copy(entry.path(), &to).map(drop)).map_err(unwritable(&to))?;
    }
    Ok(())
}

/// The run that a file of a Record is of, and what its name says after that.
fn run_of<'a>(name: &'a str, document: &'a RunDocument) -> Option<(&'a str, u64, &'a str)> {
    let of = |stack: &'a StackResult| {
        let rest = name.strip_prefix(stack.stack.as_str())?.strip_prefix('-')?;
        if document.repeat == 1 {
            return Some((stack.stack.as_str(), document.seed, rest));
        }
        let (seed, rest) = rest.split_once('-')?;
        Some((stack.stack.as_str(), seed.parse().ok()?, rest))
    };
    // Of `tcp-bbr3-page.csv`, not `tcp` with the flow `bbr3-page`.
    document.stacks.iter().filter_map(of).max_by_key(|(stack, _, _)| stack.len())
}
