//! `wavelane import`: other tools' result files as records, their recordings of links as files for scenarios.

use crate::record_place::{RecordKind, place};
use crate::{Failure, Outcome, print};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_measure::{csv_field, mean, percentile};
use wavelane_probe::formats::{IRTT_PING, Results, SeriesData, Tool, read_results};
use wavelane_report::{Page, PageChart, PageCurve, PageTable, Table, render_page};
use wavelane_run::shell;
use wavelane_scenario::trace_folder::{self, Columns};

const EXAMPLES: &str = include_str!("examples/import.txt");

/// Arguments of `wavelane import`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// A file of flent's (.flent or .flent.gz), iperf3's (-J, --json-stream) or irtt's (-o), also packed with gzip.
    #[arg(value_name = "FILE", required_unless_present = "links")]
    file: Option<PathBuf>,
    /// Convert the recordings below this folder: Mahimahi's (.down, .up), LeoReplayer's (bw_N.txt, delay_N.txt), tables of seconds (.csv;
    /// NAME.down.csv with a head of seconds and a unit is one already).
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "json"], requires = "out")]
    links: Option<PathBuf>,
    /// The column with the time in tables of seconds: a number of seconds, or a date and time.
    #[arg(long, value_name = "COLUMN", requires_all = ["links", "unit"])]
    time: Option<String>,
    /// The column with the rate down.
    #[arg(long, value_name = "COLUMN", requires = "time")]
    down: Option<String>,
    /// The column with the rate up.
    #[arg(long, value_name = "COLUMN", requires = "time")]
    up: Option<String>,
    /// What these columns count: bit/s, kbit/s, Mbit/s or Gbit/s.
    #[arg(long, value_name = "UNIT", requires = "time")]
    unit: Option<String>,
    /// The record's directory, in which an earlier import is replaced; with --links the folder for the recordings, in which files of the same
    /// names are replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// The document's format.
const FORMAT: &str = "wavelane-import/1";
/// The kind of record that an import writes.
const IMPORTS: RecordKind = RecordKind {
    document: "import.json",
    by: "import",
    ours: |folder, name| match folder {
        "" => ["import.json", "report.html"].contains(&name),
        "series" => name == "values.csv",
        _ => name.ends_with(".svg") || name.ends_with(".png"),
    },
};
/// Pictures, one per unit, and curves of one.
const CHARTS: [&str; 8] =
    ["values-1", "values-2", "values-3", "values-4", "values-5", "values-6", "values-7", "values-8"];
const CURVES_MAX: usize = 8;

/// Reads a file and writes its record.
pub(crate) fn import(args: &ImportArgs) -> Outcome {
    if let (Some(folder), Some(out)) = (&args.links, &args.out) {
        let columns = args.time.clone().map(|time| Columns {
            time,
            rates: [args.down.clone(), args.up.clone()],
            unit: args.unit.clone().unwrap_or_default(),
        });
        let made = trace_folder::import(folder, out, columns.as_ref()).map_err(Failure::refused)?;
        let list: String = made.iter().map(|path| format!("{}\n", path.shown())).collect();
        print(&list)?;
        return Ok(0);
    }
    let path = args.file.clone().unwrap_or_default();
    let refused = |why: &dyn std::fmt::Display| Failure::refused(format!("{}: {why}", path.shown()));
    let file = File::open(&path).map_err(|e| refused(&e))?;
    let results = read_results(file).map_err(|e| refused(&e))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let place = place(&name, args.out.as_deref(), &IMPORTS)?;
    let document = document(&path, &results, place.path());
    place.keep(|draft| write(draft, &path, &results, &document))?;
    for note in &results.repaired {
        say!("wavelane: {}: {note}", path.shown());
    }
    let text = || format!("{}\nreport {}/report.html\n", table_text(&results), place.path().shown());
    print(&if args.json { pretty(&document) } else { text() })?;
    Ok(0)
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).expect("strings and numbers have a JSON form") + "\n"
}

/// What is said of a series: how many values, how many are missing, and figures of those that are there.
struct Figures {
    points: usize,
    missing: usize,
    mean: Option<f64>,
    /// Least, median, 95th and 99th percentile, most.
    ranks: [Option<f64>; 5],
}

impl Figures {
    fn of(series: &SeriesData) -> Self {
        let mut values: Vec<f64> = series.points.iter().filter_map(|p| p.1).collect();
        values.sort_unstable_by(f64::total_cmp);
        let ranks = [0, 50, 95, 99, 100].map(|percent| percentile(&values, percent));
        let (points, there) = (series.points.len(), values.len());
        Self { points, missing: points - there, mean: mean(&values), ranks }
    }
}

fn document(file: &Path, results: &Results, record: &Path) -> Value {
    let one = |series: &SeriesData| {
        let Figures { points, missing, mean, ranks: [min, p50, p95, p99, max] } = Figures::of(series);
        json!({ "name": series.name, "units": series.units, "points": points, "missing": missing, "mean": mean,
                "min": min, "p50": p50, "p95": p95, "p99": p99, "max": max })
    };
    json!({
        "format": FORMAT, "tool": results.tool.word(), "file": file.display().to_string(), "title": results.title,
        "start_unix_s": results.start_unix_s, "totals": results.totals, "repaired": results.repaired,
        "series": results.series.iter().map(one).collect::<Vec<_>>(), "record": record.display().to_string(),
    })
}

fn write(dir: &Path, file: &Path, results: &Results, document: &Value) -> Result<(), String> {
    let put = |name: &str, text: String| std::fs::write(dir.join(name), text).map_err(|e| format!("{name}: {e}"));
    put("import.json", pretty(document))?;
    std::fs::create_dir(dir.join("series")).map_err(|e| format!("series: {e}"))?;
    let values = File::create(dir.join("series/values.csv")).and_then(|file| write_values(results, file));
    values.map_err(|e| format!("series/values.csv: {e}"))?;
    render_page(dir, &page(file, results)).map(drop).map_err(|e| e.to_string())
}

/// Writes a row per value as it goes: the rows repeat the names and would take more memory than the file that was read.
fn write_values(results: &Results, out: impl io::Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    writeln!(out, "series,units,at_s,value")?;
    for series in &results.series {
        let (name, units) = (csv_field(&series.name), csv_field(&series.units));
        for (at, value) in &series.points {
            let value = value.map_or(String::new(), |v| v.to_string());
            writeln!(out, "{name},{units},{at},{value}")?;
        }
    }
    out.flush()
}

/// Whether there is anything to draw.
fn has_values(series: &SeriesData) -> bool {
    series.points.iter().any(|point| point.1.is_some())
}

/// Series of the same unit on one picture.
fn charts(results: &Results) -> Vec<PageChart> {
    let mut by_unit: BTreeMap<&str, Vec<&SeriesData>> = BTreeMap::new();
    for series in results.series.iter().filter(|series| has_values(series)) {
        by_unit.entry(&series.units).or_default().push(series);
    }
    // Only of a round trip that is missing is it known that it was lost; the delays of its ways are not there either.
    let is_loss = |series: &SeriesData| results.tool == Tool::Irtt && series.name == IRTT_PING;
    let curve = |series: &SeriesData| PageCurve {
        name: series.name.clone(),
        points: series.points.iter().filter_map(|&(at, value)| Some((at, value?))).collect(),
        marks: series.points.iter().filter(|p| p.1.is_none() && is_loss(series)).map(|p| p.0).collect(),
    };
    let chart = |(name, (units, all)): (&&'static str, (&str, Vec<&SeriesData>))| PageChart {
        name,
        title: if units.is_empty() { "Values".to_owned() } else { format!("Values in {units}") },
        x_label: "time since the beginning (s)".to_owned(),
        y_label: units.to_owned(),
        x_log: false,
        curves: all.into_iter().take(CURVES_MAX).map(curve).collect(),
        marks_mean: "lost",
    };
    CHARTS.iter().zip(by_unit).map(chart).collect()
}

const HEADS: [&str; 10] = ["series", "unit", "values", "missing", "mean", "min", "p50", "p95", "p99", "max"];

fn rows(results: &Results) -> Vec<Vec<String>> {
    let figure = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
    let row = |series: &SeriesData| {
        let found = Figures::of(series);
        let mut row = vec![series.name.clone(), series.units.clone()];
        row.extend([(found.points - found.missing).to_string(), found.missing.to_string(), figure(found.mean)]);
        row.extend(found.ranks.map(figure));
        row
    };
    results.series.iter().map(row).collect()
}

fn page(file: &Path, results: &Results) -> Page {
    let tool = results.tool.word();
    let words = |heads: &[&str]| heads.iter().map(|head| (*head).to_owned()).collect();
    let mut tables = vec![PageTable { title: "Series".into(), heads: words(&HEADS), rows: rows(results) }];
    if !results.totals.is_empty() {
        let rows = results.totals.iter().map(|(name, value)| vec![name.clone(), value.to_string()]).collect();
        tables.push(PageTable { title: "Of the whole test".into(), heads: words(&["figure", "value"]), rows });
    }
    let mut sentences = vec![format!("Measured by {tool}; read from {}.", file.shown())];
    sentences.extend(results.repaired.iter().map(|note| format!("Repaired: {note}.")));
    let charts = charts(results);
    let curves: usize = charts.iter().map(|chart| chart.curves.len()).sum();
    let (all, with_values) = (results.series.len(), results.series.iter().filter(|s| has_values(s)).count());
    if with_values < all {
        sentences.push(format!("{} of {all} series have no value and are not drawn.", all - with_values));
    }
    if curves < with_values {
        sentences.push(format!(
            "{curves} of {with_values} series are drawn: {CURVES_MAX} of a unit, and {} units. The others are in series/values.csv.",
            CHARTS.len()
        ));
    }
    Page {
        title: format!("{tool}: {}", if results.title.is_empty() { "a result file" } else { &results.title }),
        headline: format!("{} series", results.series.len()),
        grade: None,
        verdict: None,
        sentences,
        charts,
        tables,
        rerun: format!("wavelane import {}", shell(&file.display().to_string())),
    }
}

fn table_text(results: &Results) -> String {
    let mut table = Table::new(2, &HEADS);
    rows(results).into_iter().for_each(|row| table.push(row));
    table.text()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn results(tool: Tool, series: Vec<SeriesData>) -> Results {
        Results {
            tool,
            title: String::new(),
            start_unix_s: None,
            series,
            totals: BTreeMap::new(),
            repaired: Vec::new(),
        }
    }

    fn series(name: &str, units: &str, points: Vec<(f64, Option<f64>)>) -> SeriesData {
        SeriesData { name: name.to_owned(), units: units.to_owned(), points }
    }

    #[test]
    fn series_without_values_take_no_picture_from_others() {
        let mut all: Vec<SeriesData> =
            (0..CHARTS.len()).map(|i| series("empty", &format!("a{i}"), vec![(0.0, None)])).collect();
        all.push(series("full", "b", vec![(0.0, Some(1.0))]));
        let page = super::page(Path::new("x"), &results(Tool::Flent, all));
        assert_eq!(page.charts.iter().map(|c| c.y_label.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(page.sentences[1..], ["8 of 9 series have no value and are not drawn."]);
        let many = (0..=CURVES_MAX).map(|_| series("full", "b", vec![(0.0, Some(1.0))])).collect();
        assert!(
            super::page(Path::new("x"), &results(Tool::Flent, many)).sentences[1]
                .starts_with("8 of 9 series are drawn")
        );
    }

    #[test]
    fn a_loss_is_marked_once() {
        let points = || vec![(0.0, Some(1.0)), (1.0, None)];
        let marks = |tool| {
            let all = vec![series(IRTT_PING, "ms", points()), series("OWD up", "ms", points())];
            let charts = charts(&results(tool, all));
            charts[0].curves.iter().map(|curve| curve.marks.clone()).collect::<Vec<_>>()
        };
        assert_eq!(marks(Tool::Irtt), [vec![1.0], vec![]]);
        assert_eq!(marks(Tool::Flent), [Vec::<f64>::new(), vec![]], "flent's missing values need not be lost");
    }

    #[test]
    fn values_are_written_as_they_come() {
        /// Counts what comes, and how much at once at most.
        #[derive(Default)]
        struct Counter {
            all: usize,
            most: usize,
        }
        impl Write for &mut Counter {
            fn write(&mut self, part: &[u8]) -> io::Result<usize> {
                self.all += part.len();
                self.most = self.most.max(part.len());
                Ok(part.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let points = (0..20_000).map(|i| (f64::from(i), Some(1.0))).collect();
        let mut counter = Counter::default();
        write_values(&results(Tool::Flent, vec![series(&"n".repeat(200), "ms", points)]), &mut counter).unwrap();
        assert!(counter.all > 4_000_000 && counter.most < 100_000, "{} octets at once", counter.most);
    }
}
