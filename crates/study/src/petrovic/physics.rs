//! Where the document contradicts itself or physics: its number, that of physics, and ours, side by side.

use super::cell::{Profile, Traffic};
use super::judge::{Cells, Found, across, geometric};
use super::quoted::{self, COLUMNS, Column, TABLE_2, TABLE_2_TOTALS, VOICE_WINDOWS};
use crate::document::Row;
use serde_json::json;
use wavelane_run::Verdict;

/// RTS and CTS before a frame, both at 2 Mbit/s, with their SIFS, in microseconds.
const RTS_CTS_US: f64 = (192.0 + 80.0 + 10.0) + (192.0 + 56.0 + 10.0);
/// How far from the closed form a cell without errors may lie.
const NEAR: f64 = 0.1;
/// Readings of the code of rate 0.71, in the order of their residual errors.
const CODES: [&str; 3] = ["default", "residual 9.8e-5", "residual 1.6e-6"];

/// A packet of `octets` with 40 bytes of headers, alone on the cell: preamble, 34 bytes around it, SIFS, ACK, DIFS and half
/// a window of 31 slots, in microseconds.
pub(super) fn exchange_us(octets: u32) -> f64 {
    192.0 + 4.0 * f64::from(34 + 40 + octets) + 10.0 + 192.0 + 56.0 + 50.0 + 15.0 * 20.0
}

/// What RTS/CTS leaves of the throughput by its airtime alone: data and their acknowledgements have both.
fn airtime_ratio(octets: u32) -> f64 {
    let plain = exchange_us(octets) + exchange_us(0);
    plain / (plain + 2.0 * RTS_CTS_US)
}

/// Ratios of two columns over the cells that were run of both: ours, the document's, and by `bound`.
fn ratios(cells: &Cells<'_>, over: Column, under: Column, bound: impl Fn(u32) -> f64) -> [Option<f64>; 3] {
    let all: Vec<[f64; 3]> = cells
        .found
        .iter()
        .filter(|f| f.cell.column == over)
        .filter_map(|f| {
            let (size, window) = (f.cell.size, f.cell.window);
            let ours = |c| cells.mean(size, window, c, "total_kbps");
            let theirs = |c| quoted::bulk_kbps(size, window, c);
            Some([ours(over)? / ours(under)?, theirs(over)? / theirs(under)?, bound(size)])
        })
        .collect();
    [0, 1, 2].map(|i| geometric(all.iter().map(|row| row[i])))
}

/// V8: what coding gives without RTS/CTS, by code.
fn codes(all: &[Found]) -> Vec<Row> {
    let row = |word: &&str| {
        let cells = Cells::new(all, Profile::Y2001, word, Traffic::Bulk);
        let [ours, theirs, _] = ratios(&cells, COLUMNS[1], COLUMNS[3], |_| 1.0);
        let mut row = across("S1-V8", Profile::Y2001, "coding_gain_without_rts", "ratio", &[ours?]);
        row.case.insert("reading".into(), json!(word));
        row.published = theirs;
        row.why = "three codes of rate 0.71 leave 5.7e-4, 9.8e-5 and 1.6e-6 of the bits wrong: the document's gain is \
                   that of the shortest; longer ones help more"
            .into();
        Some(row)
    };
    CODES.iter().filter_map(row).collect()
}

/// V9: what RTS/CTS leaves of the throughput; without errors the airtime judges.
fn handshakes(all: &[Found]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (profile, reading) in [(Profile::Y2001, "default"), (Profile::Modern, "default"), (Profile::Y2001, "no errors")]
    {
        let cells = Cells::new(all, profile, reading, Traffic::Bulk);
        for fec in [true, false] {
            let (over, under) = (Column { rts: true, fec }, Column { rts: false, fec });
            let [Some(ours), theirs, bound] = ratios(&cells, over, under, airtime_ratio) else { continue };
            let mut row = across("S1-V9", profile, "rts_over_none", "ratio", &[ours]);
            row.case.insert("reading".into(), json!(reading));
            row.case.insert("column".into(), json!(over.word()));
            row.published = theirs;
            row.bound = bound;
            let holds = bound.is_some_and(|bound| (ours / bound - 1.0).abs() <= NEAR);
            row.why = if reading == "no errors" {
                row.verdict = if holds { Verdict::Pass } else { Verdict::Fail };
                "without errors the handshake costs its airtime, wanted within 10 % of it".into()
            } else {
                "beyond its airtime the handshake costs by what follows a lost one, which is fitted in 2001".into()
            };
            rows.push(row);
        }
    }
    rows
}

/// V10: how much more voice loses in 1000 than in 800 bytes, up to a window of 16, in per cent of the datagrams.
fn step(all: &[Found], profile: Profile) -> Option<Row> {
    let column = Column { rts: false, fec: true };
    let cells = Cells::new(all, profile, super::VOICE_READING, Traffic::Voice);
    let windows = || VOICE_WINDOWS.into_iter().filter(|w| *w <= 16);
    let mean = |of: &dyn Fn(u32) -> Option<f64>| wavelane_measure::mean(&windows().filter_map(of).collect::<Vec<_>>());
    let loss = |size: u32| mean(&|w| cells.mean(size, w, column, "loss_percent"));
    let theirs = |size: u32| mean(&|w| quoted::voice_loss_percent(size, w));
    let (small, large) = (loss(800)?, loss(1000)?);
    let published = theirs(1000)? - theirs(800)?;
    let frame_loss = |size: f64| 1.0 - (1.0 - 1.6e-6_f64).powi((8.0 * (size + 62.0)) as i32);
    let bound = small * (frame_loss(1000.0) / frame_loss(800.0) - 1.0);
    let mut row = across("S1-V10", profile, "loss_1000_less_800_bytes", "%", &[large - small])
        .published_as(published)
        .bound_by(bound);
    let physics = (large - small - bound).abs() < (large - small - published).abs();
    row.verdict = if physics { Verdict::Pass } else { Verdict::Fail };
    row.why = format!(
        "{small:.3} and {large:.3} % lost; bit errors make {bound:.3} % of difference, the document's step is \
         {published:.1} %: wanted nearer to the former"
    );
    Some(row)
}

/// V11: totals of Table 2 that are not the sum of their nodes.
fn totals(all: &[Found]) -> Vec<Row> {
    let cells = Cells::new(all, Profile::Y2001, "default", Traffic::Bulk);
    let row = |((size, window, column, nodes), total): (&(u32, u32, Column, [f64; 5]), &f64)| {
        let sum: f64 = nodes.iter().sum();
        let ours = cells.mean(*size, *window, *column, "total_kbps").filter(|_| (sum - total).abs() > 0.5)?;
        let mut row = across("S1-V11", Profile::Y2001, "table_2_total_kbps", "kbit/s", &[ours]);
        row.case.insert("size_bytes".into(), json!(size));
        row.case.insert("column".into(), json!(column.word()));
        row.published = Some(*total);
        row.bound = Some(sum);
        row.why = format!("the document's total is {total}, its five nodes sum to {sum:.2}");
        Some(row)
    };
    TABLE_2.iter().zip(&TABLE_2_TOTALS).filter_map(row).collect()
}

/// Every contradiction of which cells were run.
pub(super) fn rows(all: &[Found]) -> Vec<Row> {
    let mut rows = codes(all);
    rows.extend(handshakes(all));
    rows.extend(Profile::BOTH.into_iter().filter_map(|profile| step(all, profile)));
    rows.extend(totals(all));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The closed forms against figures computed apart.
    #[test]
    fn airtime_of_the_handshake() {
        for (octets, ratio) in [(100, 0.71), (200, 0.74), (500, 0.80), (1000, 0.85), (2000, 0.90)] {
            assert!((airtime_ratio(octets) - ratio).abs() < 0.01, "{octets}: {}", airtime_ratio(octets));
        }
        for (octets, kbps) in [(100, 306.0), (1000, 1288.0), (2000, 1567.0)] {
            let ours = f64::from(octets) * 8e3 / (exchange_us(octets) + exchange_us(0));
            assert!((ours / kbps - 1.0_f64).abs() < 0.02, "{octets}: {ours}");
        }
    }
}
