#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_scenario::Scenario;

fn options(edition: Edition, out: &Path) -> StudyOptions {
    StudyOptions {
        edition,
        seed: Seed(1),
        jobs: Some(1),
        out: out.to_owned(),
        parts: Vec::new(),
        draws: None,
        stacks: Vec::new(),
        reuse: Vec::new(),
        row: |_| {},
    }
}

#[test]
fn every_cell_is_a_scenario_with_a_name_of_its_own() {
    let all = cells(&options(Edition::Full, Path::new(".")));
    // Two profiles of 80, 32 and 30 cells, 30 calls more, 10 numbers of nodes and Table 1 for each other reading.
    assert_eq!(all.len(), 2 * (80 + 32 + 30) + 30 + 10 + 80 * SWITCHES.len());
    let names: BTreeSet<String> = all.iter().map(Cell::name).collect();
    assert_eq!(names.len(), all.len());
    for cell in &all {
        let scenario = Scenario::parse(&cell.text(), Path::new(".")).unwrap();
        assert_eq!(scenario.stacks[0].word(), cell.stack());
        assert_eq!(scenario.to_toml().contains("fec = "), cell.column.fec && cell.reading.word != "no errors");
    }
    // Each reading changes something.
    let texts: BTreeSet<String> =
        all.iter().map(|cell| cell.text().lines().skip(1).collect::<Vec<_>>().join("\n")).collect();
    let same = all.len() - texts.len();
    // Coding has no say without it, an RTS limit without RTS, nor the cells of E7 that stand elsewhere too.
    assert!(same < 400, "{same}");
}

#[test]
fn what_is_kept_is_found_and_the_same_seed_gives_the_same() {
    let folder = std::env::temp_dir().join(format!("wavelane-petrovic-{}", std::process::id()));
    let (store, never) = (Store::open(folder.clone(), 7).unwrap(), AtomicBool::new(false));
    let (window, column) = (1, COLUMNS[1]);
    for (traffic, size, figure) in [
        (Traffic::Bulk, 1000, "total_kbps"),
        (Traffic::Web, 1000, "response_mean_s"),
        (Traffic::Voice, 200, "loss_percent"),
    ] {
        let (profile, nodes) = (Profile::Y2001, Cell::nodes_of(traffic));
        let cell =
            Cell { traffic, profile, reading: profile.reading(), nodes, size, window, column, seconds: 20, seeds: 2 };
        assert!(store.find(&cell).is_none());
        let runs = store.run(&cell, &never).unwrap();
        assert_eq!(store.find(&cell).as_ref(), Some(&runs));
        assert_eq!(store.run(&cell, &never).unwrap(), runs);
        assert!(runs.len() == 2 && runs[0] != runs[1] && runs.iter().all(|run| run.contains_key(figure)), "{runs:?}");
        assert!(store.find(&Cell { seeds: 3, ..cell }).is_none(), "too few runs");
        let text = std::fs::read_to_string(folder.join(format!("{}.toml", cell.name()))).unwrap();
        assert_eq!(text, cell.text());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
