//! Results of study tasks that leave no Record: a line each, so that an interrupted study resumes where it stopped.

use crate::StudyOptions;
use crate::cells::fingerprint;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Largest file that is read back.
const KEPT_MAX: u64 = 256 << 20;

/// One line.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The program, edition and first seed.
    mark: String,
    /// The task.
    key: String,
    result: Value,
}

/// Results by task.
pub(crate) struct Kept {
    path: PathBuf,
    mark: String,
    found: BTreeMap<String, Value>,
    /// Whether the file's last line was cut off. Held while a line is written.
    cut: Mutex<bool>,
}

impl Kept {
    /// Reads what the same program left in the study's folder. A study that ended starts afresh.
    pub(crate) fn open(options: &StudyOptions, study: &str) -> Self {
        let path = options.out.join(study).join("kept.jsonl");
        let mark = format!("{} {:?} {}", fingerprint(), options.edition, options.seed.0);
        if options.out.join(format!("{study}.json")).exists() {
            let _ = std::fs::remove_file(&path);
        }
        let text = wavelane_scenario::read_regular(&path, KEPT_MAX).unwrap_or_default();
        let cut = !text.is_empty() && !text.ends_with('\n');
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let found = lines.filter(|line| line.mark == mark).map(|line| (line.key, line.result)).collect();
        Self { path, mark, found, cut: Mutex::new(cut) }
    }

    /// The task's earlier result.
    pub(crate) fn get<R: DeserializeOwned>(&self, key: &str) -> Option<R> {
        serde_json::from_value(self.found.get(key)?.clone()).ok()
    }

    /// Keeps the task's result, and returns it as a later run would read it: the last digit of a figure must not depend
    /// on whether the study was interrupted. What cannot be kept is run again, which costs time and nothing else.
    pub(crate) fn put<R: Serialize + DeserializeOwned>(&self, key: &str, result: R) -> R {
        let (mark, key) = (self.mark.clone(), key.to_owned());
        let line = serde_json::to_value(&result).and_then(|result| serde_json::to_string(&Line { mark, key, result }));
        let Ok(line) = line else { return result };
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        // What was cut off must not spoil the next line.
        let line = if std::mem::take(&mut *cut) { format!("\n{line}\n") } else { format!("{line}\n") };
        let folder = self.path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let open = || std::fs::OpenOptions::new().create(true).append(true).open(&self.path);
        let _ = folder.and_then(|()| open()).and_then(|mut file| file.write_all(line.as_bytes()));
        let read = serde_json::from_str::<Line>(line.trim()).and_then(|line| serde_json::from_value(line.result));
        read.unwrap_or(result)
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
