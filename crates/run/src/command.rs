//! The commands that repeat a run, and what is refused before it starts, in the same words for every caller.

use crate::backend::Backend;
use core::fmt::Write;
use std::path::Path;
use wavelane_base::text::ShownPath;
use wavelane_scenario::{Scenario, Setting, line_of_clause};

/// A word for a shell, quoted if it must be.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The name of a scenario's runs: the file's stem.
pub fn scenario_name(file: &Path) -> String {
    file.file_stem().map_or_else(|| "scenario".into(), |s| s.to_string_lossy().into_owned())
}

/// The command that repeats a run.
pub fn rerun(file: &Path, place: &str, seed: u64, settings: &[Setting], repeat: u32) -> String {
    let mut line = format!("wavelane run {} --on {place} --seed {seed}", shell(&file.to_string_lossy()));
    for Setting { key, value } in settings {
        let _ = write!(line, " --set {}", shell(&format!("{key}={value}")));
    }
    if repeat > 1 {
        let _ = write!(line, " --repeat {repeat}");
    }
    line
}

/// Why the place cannot honour a scenario, with the line of its `text` that asks for it.
pub fn refusal(backend: &dyn Backend, scenario: &Scenario, file: &Path, text: &str) -> Option<String> {
    let review = backend.review(scenario);
    let (clause, why) = review.refusal()?;
    let line = line_of_clause(text, clause).map(|line| format!("{line}:")).unwrap_or_default();
    Some(format!("{}:{line} {} cannot run this scenario: {clause}: {why}", file.shown(), backend.name()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_run_is_repeated_by_a_line_that_a_shell_takes_as_it_is() {
        let set = [Setting { key: "air.forward.rate".into(), value: "5 Mbit/s".into() }];
        let line = rerun(Path::new("it's.toml"), "sim", 7, &set, 3);
        let words = r"wavelane run 'it'\''s.toml' --on sim --seed 7 --set 'air.forward.rate=5 Mbit/s' --repeat 3";
        assert_eq!(line, words);
        assert_eq!(rerun(Path::new("a.toml"), "lab", 1, &[], 1), "wavelane run a.toml --on lab --seed 1");
    }

    #[test]
    fn a_scenario_is_named_after_its_file() {
        assert_eq!(scenario_name(Path::new("scenarios/demo.toml")), "demo");
        assert_eq!(scenario_name(Path::new("..")), "scenario");
    }
}
