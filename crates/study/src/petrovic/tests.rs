#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use wavelane_scenario::Scenario;

#[test]
fn every_cell_is_a_scenario_with_a_name_of_its_own() {
    let all = cells(Edition::Full, |_| true);
    // Two profiles of 80, 32 and 30 cells, 30 calls more, 10 numbers of nodes and Table 1 for each other reading; for each
    // of two stacks of today 36 bulk flows, 16 readers, 18 calls.
    assert_eq!(all.len(), 2 * (80 + 32 + 30) + 30 + 10 + 80 * SWITCHES.len() + 2 * (36 + 16 + 18));
    let names: BTreeSet<String> = all.iter().map(Cell::name).collect();
    assert_eq!(names.len(), all.len());
    for cell in &all {
        let scenario = Scenario::parse(&cell.text(), Path::new(".")).unwrap();
        assert_eq!(scenario.stacks[0].word(), cell.stack());
        let coded = if cell.profile.is_today() { "mcs = \"adaptive\"" } else { "fec = " };
        assert_eq!(scenario.to_toml().contains(coded), cell.column.fec && cell.reading.word != "no errors");
    }
    // Each reading changes something.
    let texts: BTreeSet<String> =
        all.iter().map(|cell| cell.text().lines().skip(1).collect::<Vec<_>>().join("\n")).collect();
    let same = all.len() - texts.len();
    // Coding has no say without it, an RTS limit without RTS, nor the cells of E7 that stand elsewhere too.
    assert!(same < 400, "{same}");
}

#[test]
fn kept_cells_are_found_and_seeds_repeat() {
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
        let runs = store.keep(&cell, cell.run(7, &never).unwrap()).unwrap();
        assert_eq!(store.find(&cell).as_ref(), Some(&runs));
        assert_eq!(cell.run(7, &never).unwrap(), runs);
        assert!(runs.len() == 2 && runs[0] != runs[1] && runs.iter().all(|run| run.contains_key(figure)), "{runs:?}");
        assert!(store.find(&Cell { seeds: 3, ..cell }).is_none(), "too few runs");
        let text = std::fs::read_to_string(folder.join(format!("{}.toml", cell.name()))).unwrap();
        assert_eq!(text, cell.text());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Cells of today as the given figures have them: what is said of each claim follows from them alone.
#[test]
fn every_claim_has_a_sentence_from_its_cells() {
    let of = |figure: &dyn Fn(&Cell) -> Vec<(&'static str, f64)>| {
        let found = |cell: &Cell| {
            let run: Figures = figure(cell).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            Found { cell: *cell, runs: vec![run.clone(), run] }
        };
        let all: Vec<Found> = today::cells(true).iter().map(found).collect();
        today::rows(&all)
    };
    let holds = |cell: &Cell| {
        let (rts, fec) = (f64::from(u8::from(cell.column.rts)), cell.column.fec);
        let coding = if fec { f64::from(cell.size) / 500.0 } else { 1.0 };
        let kbps = f64::from(cell.size) * f64::from(cell.window).sqrt() * coding * (1.0 - 0.2 * rts);
        let drop_tail = if cell.reading.word == today::DROP_TAIL { 90.0 } else { 0.0 };
        vec![
            ("total_kbps", kbps),
            ("starved_10s", 3.0 * rts),
            ("response_mean_s", 1.0 + rts + f64::from(u8::from(!fec))),
            ("objects", 100.0),
            ("loss_percent", f64::from(cell.size) / 130.0),
            ("mos", 4.4 - f64::from(cell.size) / 500.0),
            ("delay_p95_ms", 10.0 + drop_tail),
            ("bulk_kbps", 100.0 * f64::from(cell.window).sqrt()),
        ]
    };
    let said = |rows: &[crate::document::Row], id: &str| -> Vec<String> {
        let claims = rows.iter().filter(|row| row.id == id && row.case.contains_key("claim"));
        claims.map(|row| format!("{} {}", row.stack, row.why)).collect()
    };
    let rows = of(&holds);
    for (id, count) in
        [("C1", 4), ("C2", 2), ("C3", 2), ("C4", 2), ("C5", 2), ("C6", 2), ("C7", 2), ("C8", 2), ("C9", 2)]
    {
        let sentences = said(&rows, &format!("S1-{id}"));
        assert_eq!(sentences.len(), count, "{id}");
        assert!(sentences.iter().all(|s| s.contains("still holds")), "{sentences:?}");
    }
    assert!(said(&rows, "S1-C10").iter().all(|s| s.contains("still holds")));
    let find =
        |rows: &[crate::document::Row], metric: &str| rows.iter().find(|row| row.metric == metric).unwrap().value;
    assert!((find(&rows, "rts_over_none").unwrap() - 0.8).abs() < 1e-9);
    assert!((find(&rows, "coding_at_100_bytes").unwrap() - 0.2).abs() < 1e-9);
    assert!((find(&rows, "coding_at_2000_bytes").unwrap() - 4.0).abs() < 1e-9);
    assert_eq!(find(&rows, "delay_p95_with_drop_tail"), Some(100.0));
    assert_eq!(find(&rows, "response_over_best_other"), Some(0.5));
    // The other way round none holds.
    let rows = of(&|cell| {
        let flat = |name: &str, value: f64| match name {
            "mos" => 2.0 + f64::from(cell.size) / 1000.0,
            "loss_percent" => 2.0,
            "starved_10s" => 1.0,
            "bulk_kbps" => 100.0,
            _ => 1e6 / value,
        };
        holds(cell).into_iter().map(|(name, value)| (name, flat(name, value))).collect()
    });
    for id in ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C9", "C10"] {
        let sentences = said(&rows, &format!("S1-{id}"));
        assert!(sentences.iter().all(|s| s.contains("no longer holds")), "{id} {sentences:?}");
    }
    assert!(today::rows(&[]).is_empty());
}

/// A part without a picture of its own would leave the page without any.
#[test]
fn every_number_of_nodes_is_in_a_picture() {
    let run = |cell: &Cell| {
        let figures = [("total_kbps", 700.0 / f64::from(cell.nodes)), ("response_mean_s", f64::from(cell.nodes))];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Figures>()
    };
    let cells = cells(Edition::Quick, |part| part == "nodes");
    let found: Vec<Found> = cells.iter().map(|cell| Found { cell: *cell, runs: vec![run(cell)] }).collect();
    let document = StudyDocument::new(ID, Edition::Quick, 1, judge::rows(&found));
    let charts = super::page::charts(&document);
    let shown = |name: &str| charts.iter().find(|chart| chart.name == name).unwrap();
    assert_eq!(shown("throughput-nodes").title, "Throughput by number of nodes. 700 kbit/s with 1, 35 kbit/s with 20.");
    assert!(shown("response-nodes").curves[0].1.len() >= 5);
}
