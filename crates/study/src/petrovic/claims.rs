//! The document's claims, by its own tables and by ours. They are reported, not judged: S1-E1 to S1-E5 judge.

use super::cell::{Profile, Traffic};
use super::judge::{Cells, Found, across};
use super::quoted::{COLUMNS, Column, SIZES, VOICE_SIZES, VOICE_WINDOWS, WINDOWS};
use crate::document::Row;

/// A claim: its id, what is measured, ours, the document's, and its words.
type Claim = (&'static str, &'static str, Option<f64>, Option<f64>, &'static str);

/// The share of cases in which something holds; nothing of none.
fn share(cases: &[bool]) -> Option<f64> {
    (!cases.is_empty()).then(|| cases.iter().filter(|holds| **holds).count() as f64 / cases.len() as f64)
}

fn of_bulk(cells: &Cells<'_>) -> Vec<Claim> {
    let fec = |size, more: bool| -> Option<f64> {
        let pairs = cells.fec_pairs(size).into_iter().map(|(with, without)| (with > without) == more);
        share(&pairs.collect::<Vec<_>>())
    };
    let rts = cells.rts_pairs(&SIZES, "total_kbps").into_iter().map(|(with, without)| with < without);
    let starved = |rts: bool| -> f64 {
        cells.found.iter().filter(|f| f.cell.column.rts == rts).flat_map(|f| f.values("starved_10s")).sum()
    };
    let (with, without) = (starved(true), starved(false));
    let starved = "starved nodes (below a tenth of the mean for 10 s) have RTS/CTS, as all four rows of Table 2";
    vec![
        ("S1-C1", "larger_size_more", share(&cells.size_pairs()), Some(59.0 / 64.0), "larger packets carry more"),
        ("S1-C1", "window_10_more_than_1", share(&cells.window_pairs()), Some(0.9), "larger windows carry more"),
        ("S1-C2", "fec_less_at_100_bytes", fec(100, false), Some(0.625), "coding costs small packets throughput"),
        ("S1-C3", "fec_more_at_2000_bytes", fec(2000, true), Some(0.625), "coding helps large packets"),
        ("S1-C4", "rts_less", share(&rts.collect::<Vec<_>>()), Some(39.0 / 40.0), "RTS/CTS costs throughput"),
        ("S1-C6", "starved_with_rts", Some(with / (with + without)).filter(|v| v.is_finite()), Some(1.0), starved),
    ]
}

fn of_web(cells: &Cells<'_>) -> Vec<Claim> {
    let best = |size: u32, window: u32| -> Option<bool> {
        let of = |column: Column| cells.mean(size, window, column, "response_mean_s");
        let ours = of(COLUMNS[1])?;
        Some([COLUMNS[0], COLUMNS[2], COLUMNS[3]].into_iter().filter_map(of).all(|other| ours <= other))
    };
    let both = [100, 1000].into_iter().flat_map(|size| WINDOWS.into_iter().filter_map(move |w| best(size, w)));
    let words = "responses are best with coding and without RTS/CTS";
    vec![("S1-C5", "coding_without_rts_best", share(&both.collect::<Vec<_>>()), Some(0.625), words)]
}

fn of_voice(cells: &Cells<'_>) -> Vec<Claim> {
    let column = Column { rts: false, fec: true };
    let loss = |size, window| cells.mean(size, window, column, "loss_percent");
    let smallest = |window: &u32| -> Option<bool> {
        let ours = loss(200, *window)?;
        // Where nothing is lost no size is best.
        Some(VOICE_SIZES[1..].iter().filter_map(|size| loss(*size, *window)).all(|other| ours < other))
    };
    let smallest: Vec<bool> = VOICE_WINDOWS.iter().filter_map(smallest).collect();
    let large: Vec<f64> = VOICE_WINDOWS.iter().filter_map(|w| loss(1000, *w)).collect();
    let mos = |window| cells.mean(200, window, column, "mos");
    let bulk = |window| cells.mean(800, window, column, "bulk_kbps");
    let (c7, c8) = ("voice is best in small packets", "seven calls are almost impossible above 800 B");
    let c9 = "1 to 2 % of loss is harmless: score of 200 B";
    let (behind, beside) = (large.as_slice(), bulk(1).zip(bulk(32)).map(|(small, large)| small / large));
    vec![
        ("S1-C7", "voice_best_at_200_bytes", share(&smallest), Some(1.0 / 6.0), c7),
        ("S1-C8", "loss_percent_at_1000_bytes", wavelane_measure::mean(behind), Some(7.68), c8),
        ("S1-C9", "mos_at_w32", mos(32), None, c9),
        ("S1-C9", "mos_at_w1", mos(1), None, c9),
        ("S1-C10", "bulk_w1_over_w32", beside, None, "a small window costs bulk throughput beside calls of 800 B"),
    ]
}

/// A row for each claim that was measured.
pub(super) fn rows(all: &[Found], profile: Profile) -> Vec<Row> {
    let cells = |reading, traffic| Cells::new(all, profile, reading, traffic);
    let claims = [
        of_bulk(&cells("default", Traffic::Bulk)),
        of_web(&cells("default", Traffic::Web)),
        of_voice(&cells(super::VOICE_READING, Traffic::Voice)),
    ];
    let row = |(id, metric, ours, theirs, words): Claim| {
        let unit = match metric {
            _ if metric.starts_with("mos") => "MOS",
            _ if metric.starts_with("loss") => "%",
            _ => "share",
        };
        let mut row = across(id, profile, metric, unit, &ours.into_iter().collect::<Vec<_>>()).published_as(theirs);
        let number = |value: Option<f64>| value.map_or("no figure".to_owned(), |v| format!("{v:.3}"));
        row.why = format!("claim: {words}; ours {}, the document's tables {}", number(ours), number(theirs));
        row
    };
    claims.concat().into_iter().map(row).filter(|row| row.value.is_some()).collect()
}
