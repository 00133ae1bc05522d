//! Every row of ns-3's reference values beside ours.
#![allow(clippy::unwrap_used, reason = "tests")]

use wavelane_base::Seed;
use wavelane_study::ns3::measure::{Compared, compare};
use wavelane_study::ns3::reference::{Reference, all};

/// Compares the cells whose words contain `which`.
fn rows(which: &dyn Fn(&Reference) -> bool) -> Vec<(String, Compared)> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    for cell in all().unwrap().iter().filter(|cell| which(cell)) {
        for compared in compare(cell, Seed(1), jobs).unwrap() {
            let theirs = &compared.theirs;
            let row = format!(
                "| {} | {} | {} | {} +- {} | {:.4} +- {:.4} | {:+.2} | {} | {} |",
                cell.scenario,
                cell.params,
                theirs.metric,
                theirs.mean,
                theirs.ci95,
                compared.ours.0,
                compared.ours.1,
                compared.off() * 100.0,
                compared.runs,
                compared.holds().map_or("", |holds| if holds { "pass" } else { "FAIL" }),
            );
            println!("{row}");
            rows.push((row, compared));
        }
    }
    rows
}

#[test]
fn everything() {
    let filter = std::env::var("WAVELANE_NS3_ROWS").unwrap_or_default();
    rows(&|cell| format!("{} {}", cell.scenario, cell.params).contains(&filter));
}
