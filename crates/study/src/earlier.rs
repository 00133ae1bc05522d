//! Which edition and first seed the results in a study's directory are of.

use crate::document::Edition;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Largest document of a study, or line file, that is read for it.
const READ_MAX: u64 = 256 << 20;

/// What is read of `ID.json`.
#[derive(Deserialize)]
struct Ended {
    edition: Edition,
    seed: u64,
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
}
