//! `wavelane compare` of measurements that `wavelane probe` kept: how the network felt before and after.

use crate::{Failure, Outcome, print};
use core::fmt::Write;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_probe::document::FORMAT;
use wavelane_report::Table;

/// Most measurements that are compared at once.
const COMPARED_MAX: usize = 20;
/// The file of a measurement.
const DOCUMENT: &str = "probe.json";
/// A longer file is none that a probe wrote.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// Phases of a longer list are not read: a probe has four.
const PHASES_MAX: usize = 16;

/// Figures of a phase: key, head, divisor.
const FIGURES: [(&str, &str, f64); 9] = [
    ("goodput_down_bps", "goodput down Mbit/s", 1e6),
    ("goodput_up_bps", "goodput up Mbit/s", 1e6),
    ("foreign_p50_ms", "echo p50 ms", 1.0),
    ("foreign_p95_ms", "echo p95 ms", 1.0),
    ("rise_ms", "rise over idle ms", 1.0),
    ("self_p95_ms", "request inside the load p95 ms", 1.0),
    ("unanswered_share", "unanswered %", 0.01),
    ("loss_down", "loss down %", 0.01),
    ("loss_up", "loss up %", 0.01),
];

/// Whether a directory holds a measurement and no run's record.
pub(crate) fn is_measurement(dir: &Path) -> bool {
    dir.join(DOCUMENT).is_file() && !dir.join("record.json").exists()
}

/// A measurement that was kept.
struct Kept {
    name: String,
    document: Value,
}

/// One figure of both; `None` where a probe was lost, or there was no such load.
struct Row {
    phase: String,
    key: &'static str,
    head: &'static str,
    scale: f64,
    both: [Option<f64>; 2],
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let [first, other] = [self.both[0]?, self.both[1]?];
        (first > 0.0 && other > 0.0).then(|| other / first)
    }
}

fn load(dir: &Path) -> Result<Kept, Failure> {
    let path = dir.join(DOCUMENT);
    let refused = |why: String| Failure::refused(format!("{}: {why}", path.shown()));
    let mut text = String::new();
    let file = std::fs::File::open(&path).map_err(|e| refused(format!("cannot be read: {e}")))?;
    file.take(DOCUMENT_BYTES_MAX + 1).read_to_string(&mut text).map_err(|e| refused(format!("cannot be read: {e}")))?;
    if text.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(refused(format!("is longer than {DOCUMENT_BYTES_MAX} bytes, so no probe wrote it")));
    }
    let document: Value =
        serde_json::from_str(&text).map_err(|e| refused(format!("is damaged: {e}; measure again")))?;
    if document["format"] != FORMAT {
        return Err(refused(format!("is not of the format {FORMAT}; measure again with this version")));
    }
    Ok(Kept { name: dir.display().to_string(), document })
}

impl Kept {
    fn text(&self, key: &str) -> &str {
        self.document[key].as_str().unwrap_or("-")
    }
    fn phases(&self) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.document["phases"].as_array().map_or(&[][..], Vec::as_slice);
        all.iter().take(PHASES_MAX).filter_map(|phase| Some((phase["phase"].as_str()?, phase)))
    }
    fn about(&self) -> String {
        let rpm = self.document["rpm"].as_f64().map_or("no RPM".into(), |rpm| format!("{rpm:.0} RPM"));
        let stopped = if self.document["interrupted"] == true { ", stopped early" } else { "" };
        format!("probe of {}, grade {}, {rpm}{stopped}", self.text("target"), self.text("grade"))
    }
}

/// What differs in how both were measured, so that grade and RPM are of different things.
fn unlike(first: &Kept, other: &Kept) -> Vec<String> {
    let phases = |kept: &Kept| kept.phases().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(", ");
    let seconds = |kept: &Kept| {
        kept.phases().filter_map(|(_, phase)| phase["seconds"].as_f64()).map(f64::round).fold(0.0, f64::max).to_string()
    };
    let stopped = |kept: &Kept| (kept.document["interrupted"] == true).to_string();
    let text = |key: &'static str| move |kept: &Kept| kept.text(key).to_owned();
    let differs = |what: &str, of: &dyn Fn(&Kept) -> String| {
        let (a, b) = (of(first), of(other));
        (a != b).then(|| format!("{what}: {a} and {b}"))
    };
    let all = [
        differs("target", &text("target")),
        differs("protocol", &text("protocol")),
        differs("phases", &phases),
        differs("seconds", &seconds),
        differs("stopped early", &stopped),
    ];
    all.into_iter().flatten().collect()
}

/// The figures that either has, in the order of the first's phases.
fn rows(first: &Kept, other: &Kept) -> Vec<Row> {
    let rpm = [first, other].map(|kept| kept.document["rpm"].as_f64());
    let mut rows =
        vec![Row { phase: "worst".into(), key: "rpm", head: "round trips per minute", scale: 1.0, both: rpm }];
    for (name, phase) in first.phases() {
        let Some((_, same)) = other.phases().find(|(of, _)| *of == name) else { continue };
        rows.extend(FIGURES.iter().map(|(key, head, scale)| {
            let both = [phase, same].map(|of| of[*key].as_f64());
            Row { phase: name.to_owned(), key, head, scale: *scale, both }
        }));
    }
    rows.retain(|row| row.both.iter().any(Option::is_some));
    rows
}

fn table(letter: &'static str, rows: &[Row]) -> Table {
    let mut table = Table::new(2, &["phase", "figure", "A", letter, "difference", "ratio"]);
    for row in rows {
        let cell = |value: Option<f64>| value.map_or("-".into(), |v| format!("{:.2}", v / row.scale));
        let difference = row.both[0].zip(row.both[1]).map(|(a, b)| (b - a) / row.scale);
        table.push(vec![
            row.phase.clone(),
            row.head.into(),
            cell(row.both[0]),
            cell(row.both[1]),
            difference.map_or("-".into(), |d| format!("{d:+.2}")),
            row.ratio().map_or("-".into(), |ratio| format!("{ratio:.3}")),
        ]);
    }
    table
}

/// Compares measurements with the first.
pub(crate) fn compare(dirs: &[PathBuf], json: bool) -> Outcome {
    if !(2..=COMPARED_MAX).contains(&dirs.len()) {
        return Err(Failure::refused(format!(
            "{} measurements: compare two to {COMPARED_MAX}, the earlier first",
            dirs.len()
        )));
    }
    let kept: Vec<Kept> = dirs.iter().map(|dir| load(dir)).collect::<Result<_, _>>()?;
    let [first, others @ ..] = kept.as_slice() else { return Ok(0) };
    if json {
        let of = |other: &Kept, row: &Row| {
            json!({
                "record": other.name, "phase": row.phase, "metric": row.key,
                "first": row.both[0], "other": row.both[1],
                "difference": row.both[0].zip(row.both[1]).map(|(a, b)| b - a), "ratio": row.ratio(),
            })
        };
        let all =
            others.iter().flat_map(|other| rows(first, other).iter().map(|row| of(other, row)).collect::<Vec<_>>());
        let document = json!({
            "format": "wavelane-compare-probes/1", "first": first.name,
            "grades": kept.iter().map(|kept| kept.document["grade"].clone()).collect::<Vec<_>>(),
            "differences": all.collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).expect("text keys and finite numbers only");
        print(&(text + "\n"))?;
        return Ok(0);
    }
    let letters: [&'static str; COMPARED_MAX] =
        ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S", "T"];
    let mut out = String::new();
    for (letter, kept) in letters.iter().zip(&kept) {
        let _ = writeln!(out, "{letter} {}: {}", kept.name, kept.about());
    }
    for (letter, other) in letters.iter().skip(1).zip(others) {
        let differs = unlike(first, other);
        if !differs.is_empty() {
            say!(
                "warning: {} was not measured as {}, compare with care: {}",
                other.name,
                first.name,
                differs.join("; ")
            );
        }
        let (before, after) = (first.text("grade"), other.text("grade"));
        let _ = writeln!(out, "\n{letter} against A: grade {before} became {after}");
        out += &table(letter, &rows(first, other)).text();
    }
    out.push_str("\nOne measurement of each: whether more than chance differs, only repeated ones tell.\n");
    print(&out)?;
    Ok(0)
}
