//! A Record with another number of seeds than it has: the missing ones are run into a Record beside it and both become one, and
//! those beyond the number are left out.

use crate::backend::Backend;
use crate::draft::{Draft, foreign};
use crate::drive::{RunError, RunHooks, RunOptions, document, finish, remark_of, review, run, unwritable};
use crate::kept::{Found, kept, make_room, seal_of, write_seal};
use crate::record::{RunDocument, StackResult, label};
use std::path::{Path, PathBuf};
use wavelane_base::Seed;
use wavelane_scenario::Scenario;

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

/// Removes what [`more_of`] names, unless somebody put a file there.
pub(crate) fn remove_more(record: &Path) {
    let more = more_of(record);
    if more.exists() && foreign(&more).is_none() {
        let _ = std::fs::remove_dir_all(&more);
    }
    let _ = std::fs::remove_file(seal_of(&more));
}

/// Makes the Record at `options.out`, which holds `earlier`, one of `options.repeat` seeds. Only those that it lacks are run.
pub(crate) fn extend(
    make: &(dyn Fn() -> Box<dyn Backend> + Sync),
    scenario: &Scenario,
    options: &RunOptions,
    hooks: &RunHooks<'_>,
    earlier: &RunDocument,
) -> Result<RunDocument, RunError> {
    let backend = make();
    let mut from = vec![(options.out.clone(), earlier.clone())];
    if earlier.repeat < options.repeat {
        let (scenario, missing) = (rest(scenario, earlier.repeat), options.repeat - earlier.repeat);
        let more = more_of(&options.out);
        let found = kept(backend.as_ref(), &more, &scenario, missing);
        let document = match found {
            Ok(Found::Whole(document)) => document,
            _ => {
                make_room(std::iter::once(more.clone()))?;
                let options = RunOptions { repeat: missing, out: more.clone(), ..options.clone() };
                run(make, &scenario, &options, hooks)?;
                write_seal(&more);
                RunDocument::load(&more).map_err(|e| RunError::Refused(e.to_string()))?
            }
        };
        from.push((more, document));
    }
    // Of the Record that it is until now: the next one has its own.
    let _ = std::fs::remove_file(seal_of(&options.out));
    let document = join(backend.as_ref(), scenario, options, hooks, &from)?;
    remove_more(&options.out);
    Ok(document)
}

/// One Record of the seeds of several.
fn join(
    backend: &dyn Backend,
    scenario: &Scenario,
    options: &RunOptions,
    hooks: &RunHooks<'_>,
    from: &[(PathBuf, RunDocument)],
) -> Result<RunDocument, RunError> {
    let (stacks, omitted, clauses) = review(backend, scenario)?;
    let seeds = || (0..u64::from(options.repeat)).map(|i| scenario.seed.0 + i);
    let part = |stack: &str, seed: u64| {
        from.iter().flat_map(|(_, d)| &d.stacks).filter(|s| s.stack == stack).find_map(|s| s.of_seed(seed))
    };
    let all = |stack: &str| {
        let parts: Option<Vec<StackResult>> = seeds().map(|seed| part(stack, seed)).collect();
        parts.map(|parts| StackResult::of_all(stack, parts))
    };
    let results: Option<Vec<StackResult>> = stacks.iter().map(|stack| all(stack.word())).collect();
    let results = results.ok_or_else(|| {
        RunError::Refused(format!("{} lacks the results of a seed: remove it to run them", options.out.display()))
    })?;
    let draft = Draft::begin(&options.out)?;
    draft.write("scenario.toml", scenario.to_toml().as_bytes())?;
    let wanted = |seed: u64| seeds().any(|s| s == seed);
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
    let remarks: Vec<String> =
        stacks.iter().flat_map(|stack| seeds().map(|seed| (stack.word(), seed))).flat_map(of_run).collect();
    let document = document(scenario, options, backend.name(), (results, omitted, clauses));
    finish(draft, &document, &remarks, hooks)?;
    Ok(document)
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
