//! The cells of a sweep that were run before: which Records are taken over, and why others are not.

use crate::backend::Backend;
use crate::draft::{recover_record, refuse_foreign};
use crate::drive::{REPEAT_MAX, RunError, review, unwritable};
use crate::record::{RunDocument, Verdict};
use crate::replace::{lost, refuse_cells};
use crate::sweep::SweepOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_scenario::{Axis, Cell, Scenario};

/// Longest readable part of a cell's folder name; a number after it tells cells apart.
const NAME_MAX: usize = 80;
/// Largest `scenario.toml` of a Record that is read back.
const SCENARIO_MAX: u64 = 16 << 20;
/// Largest file with the number of a Record.
const SEAL_MAX: u64 = 64;

/// FNV-1a, 64 bit.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The folder of a cell: its values, and a number of them that does not depend on the other cells, so that a sweep can grow.
pub(crate) fn folder(axes: &[Axis], cell: &Cell) -> PathBuf {
    let pair = |(axis, value): (&Axis, &String)| format!("{}={value}", axis.key);
    let words: Vec<String> = axes.iter().zip(&cell.values).map(pair).collect();
    let hash = fnv(words.join("\n").bytes());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=.".contains(c) { c } else { '-' };
    let short = |word: &String| {
        word.rsplit_once('=')
            .map_or(word.clone(), |(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key)))
    };
    let name: String =
        words.iter().map(short).collect::<Vec<_>>().join(",").chars().map(plain).take(NAME_MAX).collect();
    Path::new("cells").join(format!("{name}-{hash:016x}"))
}

/// Beside a Record, the number of its `record.json`: a Record that was edited is not taken over.
pub(crate) fn seal_of(record: &Path) -> PathBuf {
    let mut name = record.as_os_str().to_owned();
    name.push(".sum");
    name.into()
}

/// What `seal_of` holds for the Record as it is.
fn seal(record: &Path) -> Option<String> {
    Some(format!("{:016x}\n", fnv(std::fs::read(record.join("record.json")).ok()?)))
}

/// Seals the Record. A Record without a seal is accepted if it agrees with its scenario.
pub(crate) fn write_seal(record: &Path) {
    let Some(seal) = seal(record) else { return };
    let path = seal_of(record);
    // Whatever is there, a link too, is not written to.
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::File::create_new(&path).and_then(|mut file| file.write_all(seal.as_bytes()));
}

/// Whether a Record is not the one that was sealed. One from a cluster, or from a version without seals, has no seal yet.
fn is_edited(record: &Path) -> bool {
    let sealed = wavelane_scenario::read_regular(&seal_of(record), SEAL_MAX).ok();
    sealed.is_some_and(|sealed| Some(sealed) != seal(record))
}

/// What is at the place of a cell's Record.
pub(crate) enum Found {
    /// No Record.
    Nothing,
    /// The Record that is wanted.
    Whole(RunDocument),
    /// One of another number of seeds, counting up from the same.
    Part(RunDocument),
}

impl Found {
    /// Whether some of `repeat` seeds are yet to be run.
    pub(crate) fn lacks(&self, repeat: u32) -> bool {
        match self {
            Self::Nothing => true,
            Self::Whole(_) => false,
            Self::Part(document) => document.repeat < repeat,
        }
    }
}

/// The Record of an earlier run of the scenario, or why it is not taken over.
pub(crate) fn kept(
    backend: &dyn Backend,
    record: &Path,
    scenario: &Scenario,
    repeat: u32,
) -> Result<Found, &'static str> {
    // What cannot be put back is reported when the Record is run again.
    let _ = recover_record(record);
    if !record.exists() {
        return Ok(Found::Nothing);
    }
    if !record.join("record.json").exists() {
        return Err("there is no record.json");
    }
    let document = RunDocument::load(record).map_err(|_| "record.json cannot be read")?;
    let text = wavelane_scenario::read_regular(&record.join("scenario.toml"), SCENARIO_MAX).unwrap_or_default();
    if text != scenario.to_toml() || document.backend != backend.name() {
        return Err("the record is of another scenario");
    }
    let has_runs = document.stacks.iter().all(|stack| stack.runs.len() == document.repeat as usize);
    if document.repeat != repeat && !has_runs {
        return Err(
            "the record is of another --repeat and of a version of Wavelane whose records have no sums of each \
                    seed (runs), without which figures of a whole stack cannot be computed for more seeds",
        );
    }
    if is_edited(record) || !agrees(backend, &document, scenario) {
        return Err("record.json was changed since it was written");
    }
    Ok(if document.repeat == repeat { Found::Whole(document) } else { Found::Part(document) })
}

/// Whether the document is of this scenario's stacks, flows and checks, and of as many seeds as it says.
fn agrees(backend: &dyn Backend, document: &RunDocument, scenario: &Scenario) -> bool {
    let Ok((stacks, omitted, _)) = review(backend, scenario) else { return false };
    let stacks = document.stacks.iter().map(|s| s.stack.as_str()).eq(stacks.iter().map(|s| s.word()));
    let omitted = document.omitted.iter().map(|o| &o.stack).eq(omitted.iter().map(|o| &o.stack));
    let checks = document.checks.iter().map(|c| &c.check).eq(scenario.checks.iter().map(|c| &c.name));
    let count = u64::from(document.repeat.min(REPEAT_MAX));
    let seeds: BTreeSet<u64> = (0..count).map(|i| scenario.seed.0.saturating_add(i)).collect();
    let flows = document.stacks.iter().all(|stack| {
        let found: BTreeSet<u64> = stack.flows.iter().map(|f| f.seed).collect();
        // An inconclusive run may have no flows.
        let whole = found == seeds || (stack.inconclusive.is_some() && found.is_subset(&seeds));
        let runs = stack.runs.is_empty() || stack.runs.iter().map(|r| r.seed).eq(seeds.iter().copied());
        whole && runs && stack.flows.iter().all(|f| scenario.flow(&f.flow).is_some())
    });
    let judged = Verdict::total(document.checks.iter().map(|c| c.verdict));
    let unproven = document.stacks.iter().any(|s| s.inconclusive.is_some());
    let verdict = document.verdict == judged || unproven;
    let titled = document.title == scenario.title && document.seed == scenario.seed.0;
    titled && stacks && omitted && checks && flows && verdict
}

fn combinations(count: usize) -> String {
    if count == 1 { "1 combination is".into() } else { format!("{count} combinations are") }
}

/// Refuses Records of other seeds or of another backend, unless they are to be replaced. Of the same first seed more and fewer seeds are
/// both taken over.
fn refuse_others(backend: &dyn Backend, axes: &[Axis], cells: &[Cell], options: &SweepOptions) -> Result<(), RunError> {
    let other = |cell: &Cell| {
        let record = options.out.join(folder(axes, cell));
        let document = RunDocument::load(&record).ok()?;
        let of = lost(&document, backend.name(), cell.scenario.seed.0, document.repeat)?;
        Some((record, of))
    };
    let others: Vec<(PathBuf, String)> = cells.iter().filter_map(other).collect();
    match others.first() {
        Some((first, of)) if !options.replace => Err(refuse_cells(others.len(), first, of)),
        _ => Ok(()),
    }
}

/// What exists of each cell. Says why Records are not taken over, and which get other seeds.
pub(crate) fn found(
    backend: &dyn Backend,
    axes: &[Axis],
    cells: &[Cell],
    options: &SweepOptions,
) -> Result<Vec<Found>, RunError> {
    refuse_others(backend, axes, cells, options)?;
    let mut again: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    let mut one = |cell: &Cell| {
        let at = folder(axes, cell);
        kept(backend, &options.out.join(&at), &cell.scenario, options.repeat).unwrap_or_else(|why| {
            again.entry(why).or_default().push(at);
            Found::Nothing
        })
    };
    let found: Vec<Found> = cells.iter().map(&mut one).collect();
    for (why, at) in again {
        let (count, first) = (combinations(at.len()), options.out.join(&at[0]));
        (options.note)(&format!("{count} run again and replaced, for {why} (first: {})", first.shown()));
    }
    let of = |found: &Found| if let Found::Part(document) = found { Some(document.repeat) } else { None };
    let (fewer, more) = found.iter().filter_map(of).partition::<Vec<u32>, _>(|have| *have < options.repeat);
    if !fewer.is_empty() {
        (options.note)(&format!("{} there with fewer seeds: only the missing ones are run", combinations(fewer.len())));
    }
    if !more.is_empty() {
        let (count, repeat) = (combinations(more.len()), options.repeat);
        let which = if repeat == 1 { "the first one counts".into() } else { format!("the first {repeat} count") };
        (options.note)(&format!("{count} there with more seeds than --repeat {repeat}: {which}, the records keep all"));
    }
    Ok(found)
}

/// Makes room for the Records of the cells that are run. In a folder without a Record the files of a run are removed; files of others are
/// refused, here and where there is a Record. An edited Record is removed at once: without its seal an interrupted sweep would accept it.
pub(crate) fn make_room(records: impl Iterator<Item = PathBuf>) -> Result<(), RunError> {
    for record in records.filter(|record| record.exists()) {
        refuse_foreign(&record)?;
        if !record.join("record.json").exists() || is_edited(&record) {
            std::fs::remove_dir_all(&record).map_err(unwritable(&record))?;
        }
        let _ = std::fs::remove_file(seal_of(&record));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_seal_is_not_written_through_a_link() {
        let dir = std::env::temp_dir().join(format!("wavelane-seal-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let (record, other) = (dir.join("record"), dir.join("other"));
        std::fs::create_dir_all(&record).unwrap();
        std::fs::write(record.join("record.json"), "{}").unwrap();
        std::fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, seal_of(&record)).unwrap();
        write_seal(&record);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "untouched");
        assert!(!is_edited(&record) && seal_of(&record).symlink_metadata().unwrap().is_file());
        std::fs::write(record.join("record.json"), "{ }").unwrap();
        assert!(is_edited(&record));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
