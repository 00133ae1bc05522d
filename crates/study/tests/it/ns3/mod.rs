//! Every row of ns-3's reference values beside ours; `docs/results/ns3.md` reprints them.
//!
//! `WAVELANE_BLESS=1 cargo test -p wavelane-study --test it ns3 -- --include-ignored` writes the page anew, which is only
//! right together with a reviewed change of a model.

mod measure;
mod reference;

use measure::{Bound, Compared, bound, compare};
use reference::{Cell, Reference, all};
use std::path::PathBuf;
use wavelane_base::Seed;

fn row(cell: &Reference, compared: &Compared) -> String {
    let (theirs, (mean, half)) = (&compared.theirs, compared.ours);
    let is_count = theirs.counted_s(1.0).is_some();
    // Of what was never seen, what it may be all the same.
    let theirs_text = match is_count && theirs.mean == 0.0 {
        true => format!("0, < {:.3}", compared.theirs_half),
        false => format!("{} +- {}", theirs.mean, theirs.ci95),
    };
    let ours_text = match is_count && mean == 0.0 {
        true => format!("0, < {half:.3}"),
        false => format!("{mean:.4} +- {half:.4}"),
    };
    let word = match compared.holds() {
        Some(true) => "pass",
        Some(false) => "**no**",
        None => "",
    };
    format!(
        "| {} | {} | {} | {theirs_text} | {ours_text} | {:+.1} | {} | {word} |",
        cell.scenario,
        cell.params,
        theirs.metric,
        compared.off() * 100.0,
        compared.runs
    )
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/ns3.md")
}

/// The table between the marks of `name`, for each cell that `which` picks.
fn table(name: &str, which: impl Fn(&Reference) -> bool) -> Vec<(Reference, Vec<Compared>)> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let cells: Vec<(Reference, Vec<Compared>)> = all()
        .unwrap()
        .into_iter()
        .filter(|cell| which(cell))
        .map(|cell| {
            let compared = compare(&cell, Seed(1), jobs).unwrap();
            (cell, compared)
        })
        .collect();
    let rows: Vec<String> = cells.iter().flat_map(|(cell, compared)| compared.iter().map(|c| row(cell, c))).collect();
    for row in &rows {
        println!("{row}");
    }
    let text = std::fs::read_to_string(page()).unwrap();
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (head, rest) = text.split_once(&begin).unwrap();
    let (old, tail) = rest.split_once(&end).unwrap();
    let columns = "| cell | parameters | figure | ns-3, 95 % | ours, 95 % | off, % | runs | |\n|---|---|---|---|---|---|---|---|\n";
    let new = format!("{columns}{}\n", rows.join("\n"));
    if std::env::var_os("WAVELANE_BLESS").is_some() {
        std::fs::write(page(), format!("{head}{begin}{new}{end}{tail}")).unwrap();
    } else {
        assert_eq!(old, new, "docs/results/ns3.md holds other values");
    }
    cells
}

/// Whether any of a cell's figures is judged.
fn is_judged(cell: &Reference) -> bool {
    !is_aggregates(cell) && cell.figures.iter().any(|figure| bound(&cell.case, &figure.metric) != Bound::Reported)
}

fn is_aggregates(cell: &Reference) -> bool {
    matches!(cell.case, Cell::Aggregates(_))
}

fn all_hold(cells: &[(Reference, Vec<Compared>)]) {
    for (cell, compared) in cells {
        for c in compared {
            assert_ne!(c.holds(), Some(false), "{}", row(cell, c));
        }
    }
}

/// One cell in so many of those judged, seven in all.
#[test]
fn seven_judged_cells_are_as_reprinted() {
    const CELLS: usize = 7;
    let judged: Vec<Reference> = all().unwrap().into_iter().filter(is_judged).collect();
    let text = std::fs::read_to_string(page()).unwrap();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    for cell in judged.iter().step_by(judged.len().div_ceil(CELLS)) {
        for compared in compare(cell, Seed(1), jobs).unwrap() {
            let row = row(cell, &compared);
            assert_ne!(compared.holds(), Some(false), "{row}");
            assert!(text.contains(&row), "docs/results/ns3.md holds other values than {row}");
        }
    }
}

#[test]
#[ignore = "make test-all: every judged cell"]
fn judged_rows_keep_their_bounds() {
    let cells = table("judged", is_judged);
    assert!(cells.len() >= 30, "only {} cells are judged", cells.len());
    all_hold(&cells);
}

/// 802.11n and 802.11ac: datagrams of one station and of five, and a TCP flow.
#[test]
#[ignore = "make test-all: every cell with aggregates"]
fn aggregates_keep_their_bounds() {
    let cells = table("aggregates", is_aggregates);
    assert!(cells.len() >= 6, "only {} cells", cells.len());
    all_hold(&cells);
}

/// Apart, because they cost as much again and nobody judges them.
#[test]
#[ignore = "rows that are reported and not judged; run with --ignored"]
fn reported_rows_are_as_reprinted() {
    table("reported", |cell| !is_judged(cell) && !is_aggregates(cell));
}
