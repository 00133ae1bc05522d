//! flent's data file, version 4 (flent's documentation, "Data file format").

use super::{FormatError, Results, SeriesData, Tool, number, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The written version.
pub const FLENT_VERSION: u64 = 4;
/// The oldest readable version: earlier ones store times and series elsewhere.
const VERSION_MIN: u64 = 3;

pub(super) fn read(json: &Value) -> Result<Results, FormatError> {
    let missing = |what| FormatError::Missing { tool: "flent", what };
    let version = json.get("version").and_then(Value::as_u64).ok_or(missing("version"))?;
    if !(VERSION_MIN..=FLENT_VERSION).contains(&version) {
        return Err(FormatError::Version(version));
    }
    let times: Vec<f64> =
        json["x_values"].as_array().ok_or(missing("x_values"))?.iter().filter_map(Value::as_f64).collect();
    let named = json["results"].as_object().ok_or(missing("results"))?;
    let metadata = &json["metadata"];
    let units = |name: &str| text(&metadata["SERIES_META"][name], "UNITS");
    let mut series = Vec::new();
    for (name, values) in named {
        let values = values.as_array().ok_or(missing("results"))?;
        let points = times.iter().copied().zip(values.iter().map(Value::as_f64)).collect();
        series.push(SeriesData { name: name.clone(), units: units(name), points });
    }
    let start_unix_s = metadata.get("T0").and_then(Value::as_str).and_then(unix_s);
    let mut totals = BTreeMap::new();
    for key in ["LENGTH", "TOTAL_LENGTH", "STEP_SIZE"] {
        if let Some(n) = number(metadata, key) {
            totals.insert(format!("{}_s", key.to_lowercase()), n);
        }
    }
    Ok(Results {
        tool: Tool::Flent,
        title: text(metadata, "TITLE"),
        start_unix_s,
        series,
        totals,
        repaired: Vec::new(),
    })
}

/// Seconds since 1970 of `2026-11-23T17:13:08.778139Z`; `None` for anything else.
fn unix_s(iso: &str) -> Option<f64> {
    let (date, time) = iso.strip_suffix('Z')?.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let second: f64 = parts.next()?.parse().ok()?;
    let sane = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let sane = sane && (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..61.0).contains(&second);
    sane.then(|| (days(year, month, day) * 86_400 + hour * 3_600 + minute * 60) as f64 + second)
}

/// Days since 1970 of a date in the Gregorian calendar, counted in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469
}

/// The reverse of [`unix_s`], to the microsecond.
fn iso(unix_s: f64) -> String {
    let micros = (unix_s.max(0.0) * 1e6).round() as i64;
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // From the first year that may contain the day, at most two steps.
    let mut year = 1970 + day / 366;
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|&m| days(year, m, 1) <= day).unwrap_or(1);
    let date = day - days(year, month, 1) + 1;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

/// What flent shows about a test.
#[derive(Clone, PartialEq, Debug)]
pub struct FlentMeta {
    /// The test whose plots flent offers, such as `rrul` or `tcp_upload`.
    pub test: String,
    /// Free text.
    pub title: String,
    /// The remote host.
    pub host: String,
    /// The local host.
    pub local_host: String,
    /// Seconds of load, and of idle time before and after it.
    pub length_s: u32,
    /// See `length_s`.
    pub delay_s: u32,
    /// Seconds between the points.
    pub step_s: f64,
    /// Start of the test, seconds since 1970.
    pub start_unix_s: f64,
}

/// The interpolated value of a series at `at`; `None` outside, or within a step of a missing value.
fn resampled(points: &[(f64, Option<f64>)], at: f64, step_s: f64) -> Option<f64> {
    let after = points.partition_point(|p| p.0 < at);
    let next = points.get(after)?;
    if next.0 == at {
        return next.1;
    }
    let before = points.get(after.checked_sub(1)?)?;
    let (low, high) = (before.1?, next.1?);
    // Points that are far apart have no measurement in between.
    if next.0 - before.0 > 5.0 * step_s.max(f64::MIN_POSITIVE) {
        return None;
    }
    Some(low + (high - low) * (at - before.0) / (next.0 - before.0))
}

/// Writes series as a `.flent.gz`: resampled to common times, and as measured.
pub fn write_flent(out: impl Write, meta: &FlentMeta, series: &[SeriesData]) -> io::Result<()> {
    let total_s = f64::from(meta.length_s) + 2.0 * f64::from(meta.delay_s);
    let times: Vec<f64> = (0..=(total_s / meta.step_s) as u32).map(|i| f64::from(i) * meta.step_s).collect();
    let (mut results, mut raw, mut about) = (Map::new(), Map::new(), Map::new());
    for (i, s) in series.iter().enumerate() {
        let values: Vec<Option<f64>> = times.iter().map(|&at| resampled(&s.points, at, meta.step_s)).collect();
        results.insert(s.name.clone(), json!(values));
        let measured = s.points.iter().filter_map(|&(at, value)| Some((at, value?)));
        let measured: Vec<Value> =
            measured.map(|(at, value)| json!({"t": meta.start_unix_s + at, "val": value})).collect();
        let values = || s.points.iter().filter_map(|p| p.1);
        let n = values().count();
        let mean = (n > 0).then(|| values().sum::<f64>() / n as f64);
        let least = values().reduce(f64::min);
        let most = values().reduce(f64::max);
        about.insert(
            s.name.clone(),
            json!({"UNITS": s.units, "IDX": i, "MEAN_VALUE": mean, "MIN_VALUE": least, "MAX_VALUE": most}),
        );
        raw.insert(s.name.clone(), Value::Array(measured));
    }
    let time = iso(meta.start_unix_s);
    let document = json!({
        "version": FLENT_VERSION,
        "metadata": {
            "NAME": meta.test, "TITLE": meta.title, "HOST": meta.host, "HOSTS": [meta.host],
            "LOCAL_HOST": meta.local_host, "LENGTH": meta.length_s, "TOTAL_LENGTH": total_s,
            "STEP_SIZE": meta.step_s, "TIME": time, "T0": time, "NOTE": null, "IP_VERSION": 4,
            "DATA_FILENAME": format!("{}.flent.gz", meta.test), "TEST_PARAMETERS": {}, "FAILED_RUNNERS": 0,
            "REMOTE_METADATA": {}, "SERIES_META": about,
            "BATCH_NAME": null, "BATCH_TITLE": null, "BATCH_TIME": null, "BATCH_UUID": null,
        },
        "x_values": times, "results": results, "raw_values": raw,
    });
    let mut packed = GzEncoder::new(out, Compression::default());
    serde_json::to_writer(&mut packed, &document)?;
    packed.finish()?.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, unix) in [
            ("1970-01-01T00:00:00.000000Z", 0.0),
            ("2000-02-29T12:00:00.500000Z", 951_825_600.5),
            ("2026-11-23T17:13:08.000000Z", 1_795_453_988.0),
            ("2100-03-01T00:00:00.000000Z", 4_107_542_400.0),
        ] {
            assert_eq!(unix_s(text), Some(unix), "{text}");
            assert_eq!(iso(unix), text);
        }
        for day in (0..60_000).step_by(17) {
            let unix = f64::from(day) * 86_400.0;
            assert_eq!(unix_s(&iso(unix)), Some(unix));
        }
        for text in ["", "Z", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "x-y-zT::Z", "2026-01-01T00:00:nanZ"] {
            assert_eq!(unix_s(text), None, "{text}");
        }
    }

    #[test]
    fn values_in_between_need_neighbours_that_were_measured() {
        let points = [(0.0, Some(1.0)), (1.0, Some(3.0)), (2.0, None), (3.0, Some(5.0)), (60.0, Some(9.0))];
        let at = |t| resampled(&points, t, 0.5);
        assert_eq!(
            (at(0.5), at(1.0), at(1.5), at(2.5), at(30.0), at(61.0)),
            (Some(2.0), Some(3.0), None, None, None, None)
        );
    }
}
