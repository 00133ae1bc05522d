//! What the results in a study's directory are of: edition, first seed, parts and draws.

use crate::document::Edition;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Largest document of a study, or line file, that is read for it.
const READ_MAX: u64 = 256 << 20;

/// What is read of `ID.json`.
#[derive(Deserialize)]
struct Ended {
    edition: Edition,
    seed: u64,
}

/// Which part of a study is in `ID.json`: all unless it says otherwise.
#[derive(Deserialize, Default)]
struct Chosen {
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    draws: Option<String>,
}

/// What is read of a line of `kept.jsonl`.
#[derive(Deserialize)]
struct Kept {
    mark: String,
}

/// What is read of a cell's `record.json`.
#[derive(Deserialize)]
struct Cell {
    rerun: String,
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    serde_json::from_str(&wavelane_scenario::read_regular(path, READ_MAX).ok()?).ok()
}

/// Of a study that ended, else of what an interrupted one kept.
pub(crate) fn results_in(out: &Path, id: &str) -> Option<(Edition, u64)> {
    let ended = || read::<Ended>(&out.join(format!("{id}.json"))).map(|ended| (ended.edition, ended.seed));
    ended().or_else(|| of_lines(&out.join(id).join("kept.jsonl"))).or_else(|| of_cells(&out.join(id), id))
}

/// What of a study that ended in `out` would have no rows any more if these parts and draws (`A..B`) came in its place.
pub(crate) fn rows_lost(out: &Path, id: &str, parts: &[String], draws: Option<&RangeInclusive<u64>>) -> Option<String> {
    let there: Chosen = read(&out.join(format!("{id}.json")))?;
    let part = there.parts.iter().find(|part| !parts.contains(part));
    let other_part = match (part, parts) {
        (_, []) => None,
        (None, _) if there.parts.is_empty() => Some("of every part".to_owned()),
        (part, _) => part.map(|part| format!("of part {part}")),
    };
    let within = |inner: &str, outer: &RangeInclusive<u64>| {
        let ends = inner.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        ends.is_some_and(|(from, to)| outer.contains(&from) && outer.contains(&to))
    };
    let other_draws = || match (&there.draws, draws) {
        (_, None) => None,
        (None, Some(_)) => Some("of every draw".to_owned()),
        (Some(inner), Some(outer)) => (!within(inner, outer)).then(|| format!("of draws {inner}")),
    };
    other_part.or_else(other_draws)
}

/// A mark ends with edition and seed.
fn of_lines(path: &Path) -> Option<(Edition, u64)> {
    let text = wavelane_scenario::read_regular(path, READ_MAX).ok()?;
    let line = text.lines().find_map(|line| serde_json::from_str::<Kept>(line).ok())?;
    let mut words = line.mark.rsplit(' ');
    let seed = words.next()?.parse().ok()?;
    let word = words.next()?;
    Some(([Edition::Quick, Edition::Full].into_iter().find(|edition| format!("{edition:?}") == word)?, seed))
}

/// Cells name the command of the study, unless they have seeds of their own.
fn of_cells(folder: &Path, id: &str) -> Option<(Edition, u64)> {
    let mut records: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path().join("record.json")).collect();
    records.sort();
    records.iter().find_map(|record| of_command(&read::<Cell>(record)?.rerun, id))
}

fn of_command(command: &str, id: &str) -> Option<(Edition, u64)> {
    let rest = command.strip_prefix(&format!("wavelane study run {id} --"))?;
    let (word, seed) = rest.split_once(" --seed ")?;
    let edition = [Edition::Quick, Edition::Full].into_iter().find(|edition| edition.word() == word)?;
    Some((edition, seed.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::fixtures::{Folder, options};
    use crate::kept::Kept as Lines;
    use wavelane_base::Seed;

    #[test]
    fn what_is_there_says_what_it_is_of() {
        let folder = Folder::new("earlier");
        assert_eq!(results_in(&folder.0, "gettys"), None);
        std::fs::create_dir_all(folder.0.join("gettys/b-cell")).unwrap();
        let record = folder.0.join("gettys/b-cell/record.json");
        for (command, of) in [
            ("wavelane run x.toml --seed 3", None),
            ("wavelane study run gettys --quick --seed 4", Some((Edition::Quick, 4))),
            ("wavelane study run gettys --full --seed 2", Some((Edition::Full, 2))),
            ("wavelane study run gettys-2 --full --seed 2", None),
        ] {
            std::fs::write(&record, serde_json::json!({ "rerun": command }).to_string()).unwrap();
            assert_eq!(results_in(&folder.0, "gettys"), of, "{command}");
        }
        // Lines, as the study itself writes them.
        let options = crate::StudyOptions { seed: Seed(9), edition: Edition::Full, ..options(&folder.0) };
        Lines::open(&options, "gettys").put("key", 1);
        assert_eq!(results_in(&folder.0, "gettys"), Some((Edition::Full, 9)));
        let document =
            r#"{"format": "wavelane-study/1", "study": "gettys", "edition": "quick", "seed": 5, "rows": []}"#;
        std::fs::write(folder.0.join("gettys.json"), document).unwrap();
        assert_eq!(results_in(&folder.0, "gettys"), Some((Edition::Quick, 5)));
    }

    #[test]
    fn another_choice_loses_rows_unless_it_holds_the_first() {
        let folder = Folder::new("choice");
        let lost = |there: &str, parts: &[&str], draws: Option<(u64, u64)>| {
            std::fs::write(folder.0.join("s.json"), there).unwrap();
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            rows_lost(&folder.0, "s", &parts, draws.map(|(from, to)| from..=to).as_ref())
        };
        assert_eq!(rows_lost(&folder.0, "other", &["a".into()], None), None);
        assert_eq!(lost("{}", &[], None), None);
        assert_eq!(lost("{}", &["a"], None).unwrap(), "of every part");
        let some = r#"{"parts": ["a", "b"], "draws": "10..20"}"#;
        assert_eq!(lost(some, &["b"], None).unwrap(), "of part a");
        assert_eq!((lost(some, &["b", "a", "c"], None), lost(some, &[], None)), (None, None));
        assert_eq!(lost(some, &[], Some((10, 19))).unwrap(), "of draws 10..20");
        assert_eq!(lost(some, &[], Some((1, 20))), None);
        assert_eq!(lost(r#"{"parts": []}"#, &[], Some((1, 20))).unwrap(), "of every draw");
    }
}
