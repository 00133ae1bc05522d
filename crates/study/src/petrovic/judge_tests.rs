#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::petrovic::cell::Cell;

/// Runs of every cell of Table 1 in which each column is `factor` times the document, and the two runs differ little.
fn table_1(profile: Profile, factor: impl Fn(Column) -> f64) -> Vec<Found> {
    let mut all = Vec::new();
    for size in SIZES {
        for window in WINDOWS {
            for column in COLUMNS {
                let (traffic, reading) = (Traffic::Bulk, profile.reading());
                let cell = Cell { traffic, profile, reading, nodes: 5, size, window, column, seconds: 60, seeds: 2 };
                let kbps = quoted::bulk_kbps(size, window, column).unwrap() * factor(column);
                let jain = if column.rts { 0.8 } else { 0.9 };
                let run = |times: f64| {
                    let pairs = [
                        ("total_kbps", kbps * times),
                        ("jain", jain),
                        ("jain_worst_10s", jain - 0.1),
                        ("starved_10s", 1.0),
                    ];
                    pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect::<Figures>()
                };
                all.push(Found { cell, runs: vec![run(0.999), run(1.001)] });
            }
        }
    }
    all
}

fn verdict(rows: &[Row], metric: &str) -> (Verdict, Option<f64>) {
    let row = rows.iter().find(|row| row.metric == metric).unwrap_or_else(|| panic!("no {metric}"));
    (row.verdict, row.value)
}

/// The document's own tables keep what they are judged by, and give the counts that are said of them.
#[test]
fn the_documents_own_numbers_pass() {
    let all = table_1(Profile::Y2001, |_| 1.0);
    let rows = bulk(&all, Profile::Y2001);
    assert_eq!(verdict(&rows, "cells_within_factor_2"), (Verdict::Pass, Some(80.0)));
    assert_eq!(verdict(&rows, "larger_size_more"), (Verdict::Pass, Some(59.0)));
    assert_eq!(verdict(&rows, "window_10_more_than_1"), (Verdict::Pass, Some(18.0)));
    assert_eq!(verdict(&rows, "rts_less"), (Verdict::Pass, Some(39.0)));
    assert_eq!(verdict(&rows, "jain_without_less_with_rts").0, Verdict::Pass);
    assert_eq!(verdict(&rows, "jain_worst_10s_with_rts").0, Verdict::Pass);
    assert!(rows.iter().filter(|r| r.metric == "column_ratio").all(|r| r.verdict == Verdict::Pass));
    let claims = crate::petrovic::claims::rows(&all, Profile::Y2001);
    for (metric, share) in [("fec_less_at_100_bytes", 0.625), ("fec_more_at_2000_bytes", 0.625), ("rts_less", 0.975)] {
        let row = claims.iter().find(|row| row.metric == metric).unwrap();
        assert_eq!((row.value, row.published, row.verdict), (Some(share), Some(share), Verdict::Info), "{metric}");
    }
}

#[test]
fn a_column_at_the_limit_is_inconclusive_and_beyond_it_fails() {
    let rows = bulk(&table_1(Profile::Y2001, |c| if c.rts { 1.5 } else { 3.0 }), Profile::Y2001);
    let columns: Vec<Verdict> = rows.iter().filter(|r| r.metric == "column_ratio").map(|r| r.verdict).collect();
    assert_eq!(columns, [Verdict::Inconclusive, Verdict::Fail, Verdict::Inconclusive, Verdict::Fail]);
    assert_eq!(verdict(&rows, "cells_within_factor_2").0, Verdict::Fail);
    // With more than 5 % above those without, the modern profile is refuted too.
    let modern = bulk(&table_1(Profile::Modern, |c| if c.rts { 4.0 } else { 1.0 }), Profile::Modern);
    assert_eq!(verdict(&modern, "rts_less_or_5_percent_to_1000_bytes").0, Verdict::Fail);
    assert!(modern.iter().filter(|r| r.metric == "column_ratio").all(|r| r.verdict == Verdict::Info));
}

#[test]
fn missing_cells_are_not_judged() {
    assert!(rows(&[]).is_empty(), "nothing was asked for");
}
