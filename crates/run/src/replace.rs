//! Which Records a new one takes the place of: one whose seeds it has too. A Record of others, or of another place, took time that the new
//! one does not give back.

use crate::drive::RunError;
use crate::record::RunDocument;
use std::path::Path;
use wavelane_base::text::ShownPath;

/// What a user is told to do about it.
const REMEDY: &str = "add --replace to have it replaced, or choose another --out";

/// `seed 7`, or `seeds 7 to 11`.
fn seeds(first: u64, repeat: u32) -> String {
    match repeat {
        0 | 1 => format!("seed {first}"),
        _ => format!("seeds {first} to {}", first.saturating_add(u64::from(repeat) - 1)),
    }
}

/// What a Record is of, if one of `repeat` seeds from `first` on, run by `backend`, would lose some of it.
pub(crate) fn lost(document: &RunDocument, backend: &str, first: u64, repeat: u32) -> Option<String> {
    let end = |first: u64, repeat: u32| first.saturating_add(u64::from(repeat));
    let has = first <= document.seed && end(document.seed, document.repeat) <= end(first, repeat);
    (!has || document.backend != backend)
        .then(|| format!("of {} in {}", seeds(document.seed, document.repeat), document.backend))
}

/// Refuses a place whose Record has seeds that one of `repeat` seeds from `first` on would not have, or is of another backend.
pub fn refuse_other_seeds(out: &Path, backend: &str, first: u64, repeat: u32) -> Result<(), RunError> {
    // What cannot be read is reported by the run.
    let Ok(document) = RunDocument::load(out) else { return Ok(()) };
    match lost(&document, backend, first, repeat) {
        None => Ok(()),
        Some(of) => Err(RunError::Refused(format!(
            "{} holds a record {of}, in whose place one of {} in {backend} would come: {REMEDY}",
            out.shown(),
            seeds(first, repeat)
        ))),
    }
}

/// Refuses the Records of a sweep's combinations that are of other seeds: how many, the first one, and what it is of.
pub(crate) fn refuse_cells(count: usize, first: &Path, of: &str) -> RunError {
    let are =
        if count == 1 { "1 combination has a record".into() } else { format!("{count} combinations have records") };
    RunError::Refused(format!("{are} of other seeds or of another place ({}: {of}): {REMEDY}", first.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_replaced_by_one_that_has_its_seeds() {
        let document = RunDocument {
            format: crate::RUN_FORMAT.into(),
            scenario: "hop".into(),
            title: String::new(),
            backend: "sim".into(),
            seed: 7,
            repeat: 3,
            verdict: crate::Verdict::Pass,
            omitted: Vec::new(),
            clauses: Vec::new(),
            stacks: Vec::new(),
            checks: Vec::new(),
            rerun: String::new(),
            record: String::new(),
        };
        for (first, repeat, backend, of) in [
            (7, 3, "sim", None),
            (6, 5, "sim", None),
            (7, 2, "sim", Some("of seeds 7 to 9 in sim")),
            (8, 3, "sim", Some("of seeds 7 to 9 in sim")),
            (1, 3, "sim", Some("of seeds 7 to 9 in sim")),
            (7, 3, "lab", Some("of seeds 7 to 9 in sim")),
        ] {
            assert_eq!(lost(&document, backend, first, repeat).as_deref(), of, "{first} {repeat} {backend}");
        }
        let one = RunDocument { repeat: 1, ..document };
        assert_eq!(lost(&one, "sim", 8, 1).as_deref(), Some("of seed 7 in sim"));
        // The end of the numbers is no overflow.
        assert_eq!(lost(&RunDocument { seed: u64::MAX, ..one }, "sim", u64::MAX, 1), None);
    }
}
