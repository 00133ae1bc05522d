#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::fixtures::{Folder, options};

#[test]
fn results_are_found_again_by_their_task() {
    let folder = Folder::new("kept");
    let options = options(&folder.0);
    let first = Kept::open(&options, "x");
    assert_eq!(first.get::<f64>("a"), None);
    let written: f64 = first.put("a", 0.1 + 0.2);
    assert_eq!(first.put("b", vec![1_u64, 2]), [1, 2]);
    let again = Kept::open(&options, "x");
    assert_eq!(again.get::<f64>("a").map(f64::to_bits), Some(written.to_bits()));
    assert_eq!(again.get::<Vec<u64>>("b"), Some(vec![1, 2]));
    // Of another seed, and as another kind of value.
    assert_eq!(again.get::<Vec<u64>>("a"), None);
    let other = StudyOptions { seed: wavelane_base::Seed(2), ..options.clone() };
    assert_eq!(Kept::open(&other, "x").get::<f64>("a"), None);
}

#[test]
fn a_line_that_was_cut_off_costs_itself_alone() {
    let folder = Folder::new("kept-cut");
    let options = options(&folder.0);
    Kept::open(&options, "x").put("a", 1_u64);
    let path = folder.0.join("x/kept.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    Kept::open(&options, "x").put("b", 2_u64);
    let again = Kept::open(&options, "x");
    assert_eq!((again.get::<u64>("a"), again.get::<u64>("b")), (Some(1), Some(2)));
}

#[test]
fn a_study_that_ended_starts_afresh() {
    let folder = Folder::new("kept-over");
    let options = options(&folder.0);
    Kept::open(&options, "x").put("a", 1_u64);
    std::fs::write(folder.0.join("x.json"), "{}").unwrap();
    assert_eq!(Kept::open(&options, "x").get::<u64>("a"), None);
}
