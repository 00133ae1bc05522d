//! Exports a measurement as a flent file.

use crate::document::{goodput_curve, points};
use crate::formats::{FlentMeta, SeriesData, write_flent};
use crate::plan::{Measurement, StageKind};
use std::io::{self, Write};
use wavelane_base::Instant;
use wavelane_host::clock::{since_boot, wall_nanos};

/// Seconds between the points that flent draws, as in its own measurements.
const STEP_S: f64 = 0.2;
/// A flent test whose series and plots match a measurement in both directions.
const TEST: &str = "tcp_bidirectional";
/// The name by which its plots find round trips, regardless of the packets.
const PING: &str = "Ping (ms) ICMP";

/// Writes a `.flent.gz`: goodput in both directions, RTTs and, where measured, one-way delays.
pub fn flent(m: &Measurement, target: &str, out: impl Write) -> io::Result<()> {
    let start = m.stages.first().map_or(Instant::ZERO, |stage| stage.from);
    let end = m.stages.last().map_or(start, |stage| stage.to);
    let length = |kind| m.stages.iter().find(|s| s.kind == kind).map_or(0.0, |s| s.to.since(s.from).as_secs_f64());
    let delay_s = length(StageKind::Idle).round();
    let length_s = (end.since(start).as_secs_f64().ceil() - 2.0 * delay_s).max(0.0);
    let meta = FlentMeta {
        test: TEST.to_owned(),
        title: format!("wavelane probe {target}"),
        host: target.to_owned(),
        local_host: String::new(),
        length_s: length_s as u32,
        delay_s: delay_s as u32,
        step_s: STEP_S,
        start_unix_s: wall_nanos().saturating_sub(since_boot().since(start).as_nanos()) as f64 / 1e9,
    };
    write_flent(out, &meta, &series(m))
}

fn series(m: &Measurement) -> Vec<SeriesData> {
    let one = |name: &str, units: &str, points| SeriesData { name: name.to_owned(), units: units.to_owned(), points };
    let (rates, all) = (goodput_curve(m), points(m));
    let rate = |pick: fn(&(f64, f64, f64)) -> f64| rates.iter().map(|r| (r.0, Some(pick(r) / 1e6))).collect();
    let usual = || all.iter().filter(|p| p.dscp == 0);
    let mut series = vec![
        one("TCP download", "Mbits/s", rate(|r| r.1)),
        one("TCP upload", "Mbits/s", rate(|r| r.2)),
        one(PING, "ms", usual().map(|p| (p.at_s, p.rtt_ms)).collect()),
    ];
    if all.iter().any(|p| p.up_ms.is_some()) {
        series.push(one("OWD up", "ms", usual().map(|p| (p.at_s, p.up_ms)).collect()));
        series.push(one("OWD down", "ms", usual().map(|p| (p.at_s, p.down_ms)).collect()));
    }
    series
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::figures::tests::{QUIET, measured};
    use crate::formats::{Tool, read_results};

    #[test]
    fn the_file_has_what_was_measured() {
        let mut m = measured(&[QUIET, QUIET]);
        m.stages[1].kind = StageKind::After;
        let mut file = Vec::new();
        flent(&m, "192.0.2.7", &mut file).unwrap();
        let read = read_results(&file[..]).unwrap();
        assert_eq!((read.tool, read.title.as_str()), (Tool::Flent, "wavelane probe 192.0.2.7"));
        assert_eq!(read.totals["total_length_s"], 10.0);
        let at = |name: &str| read.series(name).unwrap().points[20];
        assert_eq!(at(PING), (4.0, Some(10.0)));
        assert!((at("OWD up").1.unwrap() - 5.0).abs() < 0.1, "{:?}", at("OWD up"));
        assert_eq!(at("TCP upload").1, Some(0.0));
    }
}
