//! A measurement's record: `probe.json`, curves, a page that explains itself.

use crate::Failure;
use core::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wavelane_probe::document::{PhaseFigures, ProbeDocument, goodput_curve, points};
use wavelane_probe::nq::HttpPlan;
use wavelane_probe::plan::{Kind, Length, Measurement, Plan};
use wavelane_report::{Page, PageChart, PageCurve, PageTable, render_page};
use wavelane_run::shell;

/// Characters of a target in its record's name.
const NAME_MAX: usize = 80;
/// Records of one target that are told apart by their number.
const RECORDS_MAX: u32 = 100_000;

/// The file by which a probe's record is known.
const MARK: &str = "probe.json";

/// Where the record will be.
pub(crate) struct Place {
    path: PathBuf,
    /// Whether this program made the folder, to keep its number from others.
    reserved: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.reserved {
            // A folder that holds the record stays.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Where the record will be; refused before anything is measured if something else is there.
pub(crate) fn place(target: &str, out: Option<&Path>) -> Result<Place, Failure> {
    let Some(place) = out else { return free(Path::new("records"), target) };
    wavelane_run::recover(place, MARK, foreign).map_err(Failure::refused)?;
    let empty = place.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if place.exists() && !empty && !place.join(MARK).exists() {
        return Err(Failure::refused(format!(
            "{} exists and is no probe's record: choose another place with --out",
            place.display()
        )));
    }
    refuse_foreign(place)?;
    wavelane_run::check_writable(place).map_err(Failure::refused)?;
    let path = wavelane_run::resolved(place).map_err(Failure::refused)?;
    // The record is written beside its place first.
    let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    wavelane_run::check_writable(beside).map_err(Failure::refused)?;
    Ok(Place { path, reserved: false })
}

/// The first entry of a record's directory that no probe writes.
fn foreign(place: &Path) -> Option<PathBuf> {
    let ours = |folder: &str, name: &str| match folder {
        "" => [MARK, "environment.json", "report.html"].contains(&name),
        "series" => ["probes.csv", "goodput.csv", "requests.csv"].contains(&name),
        _ => name.ends_with(".svg") || name.ends_with(".png"),
    };
    wavelane_run::strangers(place, &["series", "plots"], ours)
}

/// Refuses a directory that holds what no probe wrote: a new record there would take its place.
fn refuse_foreign(place: &Path) -> Result<(), Failure> {
    let Some(found) = foreign(place) else { return Ok(()) };
    let (place, found) = (place.display(), found.display());
    Err(Failure::refused(format!(
        "{place} holds {found}, which no probe wrote and a new record would remove: move it away, or choose another --out"
    )))
}

/// Writes the record and names it in the document.
pub(crate) fn keep(
    document: &mut ProbeDocument,
    measured: &Measurement,
    rerun: &str,
    place: &Place,
) -> Result<(), Failure> {
    let place = place.path.as_path();
    document.record = place.display().to_string();
    let draft = wavelane_run::draft_of(place);
    write(&draft, document, measured, rerun).map_err(|why| {
        let _ = std::fs::remove_dir_all(&draft);
        let place = place.display();
        Failure::refused(format!("cannot write {place}: {why}; use --out with a writable folder that has free space"))
    })?;
    wavelane_run::put_in_place(&draft, place, foreign).map_err(Failure::refused)
}

/// The first number that is free, kept from others that look for one at the same time.
fn free(records: &Path, target: &str) -> Result<Place, Failure> {
    let unwritable = |path: &Path, e: std::io::Error| {
        let path = path.display();
        Failure::refused(format!("cannot write {path}: {e}; use --out with a writable folder that has free space"))
    };
    let name: String =
        target.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(NAME_MAX).collect();
    std::fs::create_dir_all(records).map_err(|e| unwritable(records, e))?;
    for number in 1..RECORDS_MAX {
        let path = records.join(format!("probe-{name}-{number}"));
        // A killed program may have left this number without its folder; what cannot be put back is of another number then.
        if !path.exists() && wavelane_run::recover(&path, MARK, foreign).is_err() {
            continue;
        }
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(Place { path, reserved: true }),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(unwritable(&path, e)),
        }
    }
    Err(Failure::refused("there are too many records of this target: choose a place with --out"))
}

fn write(dir: &Path, document: &ProbeDocument, measured: &Measurement, rerun: &str) -> Result<(), String> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), std::fs::create_dir_all).map_err(|e| e.to_string())?;
    std::fs::create_dir(dir).and_then(|()| std::fs::create_dir(dir.join("series"))).map_err(|e| e.to_string())?;
    let put = |name: &str, text: String| std::fs::write(dir.join(name), text).map_err(|e| format!("{name}: {e}"));
    put("probe.json", document.to_json())?;
    let facts = serde_json::to_string_pretty(&wavelane_run::host_facts()).map_err(|e| e.to_string())?;
    put("environment.json", facts + "\n")?;
    put("series/probes.csv", probes_csv(measured))?;
    put("series/goodput.csv", goodput_csv(measured))?;
    put("series/requests.csv", requests_csv(measured))?;
    render_page(dir, &page(document, measured, rerun)).map(drop).map_err(|e| e.to_string())
}

fn probes_csv(measured: &Measurement) -> String {
    let mut text = String::from("at_s,phase,dscp,rtt_ms,owd_up_ms,owd_down_ms,reached\n");
    let cell = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.6}"));
    for p in points(measured) {
        let _ = writeln!(
            text,
            "{:.6},{},{},{},{},{},{}",
            p.at_s,
            p.kind.word(),
            p.dscp,
            cell(p.rtt_ms),
            cell(p.up_ms),
            cell(p.down_ms),
            p.reached
        );
    }
    text
}

fn goodput_csv(measured: &Measurement) -> String {
    let mut text = String::from("until_s,down_bps,up_bps\n");
    for (at, down, up) in goodput_curve(measured) {
        let _ = writeln!(text, "{at:.2},{down:.0},{up:.0}");
    }
    text
}

/// Short connections, and questions inside those that carry load.
fn requests_csv(measured: &Measurement) -> String {
    let mut text = String::from("at_s,phase,connection,connect_ms,tls_ms,request_ms\n");
    let Some(start) = measured.stages.first().map(|stage| stage.from) else { return text };
    for stage in &measured.stages {
        let phase = stage.kind.word();
        for s in &stage.smalls {
            let tls = s.tls.map_or(String::new(), |tls| format!("{:.6}", ms(tls)));
            let (at, connect, request) = (s.begun.since(start).as_secs_f64(), ms(s.connect), ms(s.request));
            let _ = writeln!(text, "{at:.6},{phase},short,{connect:.6},{tls},{request:.6}");
        }
        for s in &stage.selfs {
            let _ = writeln!(
                text,
                "{:.6},{phase},loaded,,,{:.6}",
                s.asked.since(start).as_secs_f64(),
                ms(s.back.since(s.asked))
            );
        }
    }
    text
}

fn ms(span: Length) -> f64 {
    span.as_secs_f64() * 1e3
}

fn said(kind: Kind) -> &'static str {
    match kind {
        Kind::Idle => "before",
        Kind::Down => "download",
        Kind::Up => "upload",
        Kind::Both => "both",
        Kind::Rest => "in between",
        Kind::After => "after",
    }
}

fn page(document: &ProbeDocument, measured: &Measurement, rerun: &str) -> Page {
    let all = points(measured);
    let kinds = [Kind::Idle, Kind::Down, Kind::Up, Kind::Both, Kind::Rest, Kind::After];
    let curve = |kind: Kind| {
        let of = || all.iter().filter(move |p| p.kind == kind && p.dscp == 0);
        PageCurve {
            name: said(kind).into(),
            points: of().filter_map(|p| Some((p.at_s, p.rtt_ms?))).collect(),
            marks: of().filter(|p| p.rtt_ms.is_none()).map(|p| p.at_s).collect(),
        }
    };
    let default = || all.iter().filter(|p| p.dscp == 0);
    let lost = |there: bool| default().filter(|p| p.rtt_ms.is_none() && p.reached != there).map(|p| p.at_s).collect();
    let ways = vec![
        PageCurve {
            name: "way there (up)".into(),
            points: default().filter_map(|p| Some((p.at_s, p.up_ms?))).collect(),
            marks: lost(true),
        },
        PageCurve {
            name: "way back (down)".into(),
            points: default().filter_map(|p| Some((p.at_s, p.down_ms?))).collect(),
            marks: lost(false),
        },
    ];
    let rates = goodput_curve(measured);
    let rate = |name: &str, pick: fn(&(f64, f64, f64)) -> f64| PageCurve {
        name: name.into(),
        points: rates.iter().map(|r| (r.0, pick(r) / 1e6)).collect(),
        marks: Vec::new(),
    };
    let over = "time of sending (s)";
    let chart = |name, title: &str, y: &str, curves| PageChart {
        name,
        title: title.into(),
        x_label: over.into(),
        y_label: y.into(),
        x_log: false,
        curves,
        marks_mean: "lost",
    };
    let shares: Vec<PageCurve> = kinds[..4].iter().filter_map(|kind| share(&all, *kind)).collect();
    let charts = vec![
        chart("latency", "Round trip before, during and after load", "round trip (ms)", kinds.map(curve).to_vec()),
        chart("oneway", "Each way by itself, clocks' difference removed", "delay (ms)", ways),
        chart("goodput", "What receivers got", "Mbit/s", vec![rate("download", |r| r.1), rate("upload", |r| r.2)]),
        PageChart {
            name: "shares",
            title: "Share of probes answered within a time".into(),
            x_label: "round trip (ms)".into(),
            y_label: "share (%)".into(),
            x_log: true,
            curves: shares,
            marks_mean: "",
        },
    ];
    let headline = match (document.grade, document.rpm) {
        (Some(letter), Some(rpm)) => format!("{letter} on the {} scale, {rpm:.0} RPM", document.grade_scale),
        (Some(letter), None) => format!("{letter} on the {} scale", document.grade_scale),
        _ => "Not measured under load".into(),
    };
    // Without datagrams nothing is known of one way.
    let charts =
        charts.into_iter().filter(|chart| chart.curves.iter().any(|c| !c.points.is_empty() || !c.marks.is_empty()));
    Page {
        title: format!("Latency under load to {}", document.target),
        headline,
        sentences: document.explained.iter().map(|e| e.sentence.clone()).collect(),
        charts: charts.collect(),
        tables: tables(document),
        rerun: rerun.to_owned(),
    }
}

/// The distribution of a phase's round trips, lost ones counted in the whole.
fn share(all: &[wavelane_probe::document::Point], kind: Kind) -> Option<PageCurve> {
    let of: Vec<Option<f64>> = all.iter().filter(|p| p.kind == kind && p.dscp == 0).map(|p| p.rtt_ms).collect();
    let mut answered: Vec<f64> = of.iter().filter_map(|rtt| *rtt).filter(|rtt| *rtt > 0.0).collect();
    answered.sort_by(f64::total_cmp);
    let n = of.len() as f64;
    let points: Vec<(f64, f64)> =
        answered.iter().enumerate().map(|(i, rtt)| (*rtt, (i + 1) as f64 / n * 100.0)).collect();
    (!points.is_empty()).then(|| PageCurve { name: said(kind).into(), points, marks: Vec::new() })
}

const HEADS: [&str; 12] = [
    "phase",
    "Mbit/s",
    "p50 (ms)",
    "p95 (ms)",
    "p99 (ms)",
    "self p50 (ms)",
    "way there p50",
    "way back p50",
    "lost there",
    "lost back",
    "overtaken",
    "RPM",
];

fn cells(p: &PhaseFigures) -> Vec<String> {
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
    let share = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:.2} %", v * 100.0));
    vec![
        p.phase.to_owned(),
        p.goodput_bps.map_or("-".into(), |bps| format!("{:.2}", bps / 1e6)),
        ms(p.foreign_p50_ms),
        ms(p.foreign_p95_ms),
        ms(p.foreign_p99_ms),
        ms(p.self_p50_ms),
        ms(p.owd_up_p50_ms),
        ms(p.owd_down_p50_ms),
        share(p.loss_up),
        share(p.loss_down),
        p.reordered.to_string(),
        p.rpm.map_or("-".into(), |rpm| format!("{rpm:.0}")),
    ]
}

fn words(heads: &[&str]) -> Vec<String> {
    heads.iter().map(|head| (*head).to_owned()).collect()
}

fn tables(document: &ProbeDocument) -> Vec<PageTable> {
    let rows = document.phases.iter().chain(&document.after).map(cells).collect();
    let mut tables = vec![PageTable { title: "Phases".into(), heads: words(&HEADS), rows }];
    let classes: Vec<Vec<String>> = document
        .phases
        .iter()
        .flat_map(|p| p.classes.iter().map(move |c| (p, c)))
        .map(|(p, c)| {
            let ms = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
            let lost = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:.2} %", v * 100.0));
            vec![
                p.phase.to_owned(),
                c.dscp.to_string(),
                ms(c.foreign_p50_ms),
                ms(c.foreign_p95_ms),
                ms(c.foreign_p99_ms),
                lost(c.loss_up),
                lost(c.loss_down),
            ]
        })
        .collect();
    if !classes.is_empty() {
        let heads = words(&["phase", "code point", "p50 (ms)", "p95 (ms)", "p99 (ms)", "lost there", "lost back"]);
        tables.push(PageTable { title: "Further code points".into(), heads, rows: classes });
    }
    if let Some(at) = &document.queue_at {
        let rows = at.rises.iter().map(|r| {
            let ms = |v: f64| format!("{v:.1}");
            vec![r.hop.to_string(), r.address.clone(), ms(r.idle_ms), ms(r.loaded_ms), ms(r.loaded_ms - r.idle_ms)]
        });
        let heads = words(&["hop", "address", "idle (ms)", "under load (ms)", "rise (ms)"]);
        tables.push(PageTable { title: format!("Hops, load {}", at.direction), heads, rows: rows.collect() });
    }
    if let Some(vantage) = &document.vantage {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let rows = vantage.phases.iter().map(|p| vec![p.phase.to_owned(), ms(p.p50_ms), ms(p.p95_ms), ms(p.rise_ms)]);
        let heads = words(&["phase", "p50 (ms)", "p95 (ms)", "rise (ms)"]);
        tables.push(PageTable { title: format!("Second vantage: {}", vantage.target), heads, rows: rows.collect() });
    }
    tables
}

/// The command that measures a server of ours so again.
pub(crate) fn rerun(target: &str, plan: &Plan) -> String {
    let mut line = common(target, &plan.stages, plan.streams, &plan.congestion, plan.hops, &plan.vantage);
    let _ = write!(line, " --interval {} --size {}", plan.interval.as_millis(), plan.size);
    for dscp in &plan.dscps {
        let _ = write!(line, " --dscp {dscp}");
    }
    line
}

/// The same for an HTTP server.
pub(crate) fn rerun_http(target: &str, plan: &HttpPlan, ca: Option<&Path>) -> String {
    let mut line = common(target, &plan.stages, plan.streams, &plan.congestion, plan.hops, &plan.vantage);
    line.push_str(" --against networkquality");
    if let Some(file) = ca {
        let _ = write!(line, " --ca {}", shell(&file.display().to_string()));
    }
    line
}

fn common(
    target: &str,
    stages: &[(Kind, Length)],
    streams: usize,
    congestion: &str,
    hops: bool,
    vantage: &Option<(String, SocketAddr)>,
) -> String {
    let mut line = format!("wavelane probe {}", shell(target));
    let loads: Vec<&(Kind, Length)> = stages.iter().filter(|(kind, _)| kind.ways() != (false, false)).collect();
    let words: Vec<&str> = loads.iter().map(|(kind, _)| kind.word()).collect();
    let whole = |span: &Length| span.as_millis() / 1_000;
    let _ = write!(line, " --phases {}", words.join(","));
    if let Some((_, length)) = loads.first() {
        let _ = write!(line, " --seconds {}", whole(length));
    }
    if let Some((_, length)) = stages.first() {
        let _ = write!(line, " --idle-seconds {}", whole(length));
    }
    let _ = write!(line, " --streams {streams}");
    if !congestion.is_empty() {
        let _ = write!(line, " --congestion {congestion}");
    }
    if !hops {
        line.push_str(" --no-hops");
    }
    if let Some((name, _)) = vantage {
        let _ = write!(line, " --vantage {}", shell(name));
    }
    line
}

/// The phases as lines for a terminal.
pub(crate) fn phase_table(document: &ProbeDocument) -> String {
    let heads = words(&HEADS);
    let rows: Vec<Vec<String>> =
        [heads].into_iter().chain(document.phases.iter().chain(&document.after).map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if i == 0 { write!(line, "{cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn two_probes_of_one_target_have_a_number_each() {
        let records = std::env::temp_dir().join(format!("wavelane-numbers-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&records);
        let at_once: Vec<_> = std::thread::scope(|scope| {
            let one = || free(&records, "192.0.2.7:1").ok().unwrap();
            let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let name = |place: &Place| place.path.file_name().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = at_once.iter().map(name).collect();
        names.sort();
        let wanted: Vec<String> = (1..=8).map(|n| format!("probe-192.0.2.7-1-{n}")).collect();
        assert_eq!(names, wanted);
        // One measured, the others did not.
        std::fs::write(at_once[0].path.join("probe.json"), "{}").unwrap();
        let kept = at_once[0].path.clone();
        drop(at_once);
        assert_eq!(std::fs::read_dir(&records).unwrap().flatten().map(|e| e.path()).collect::<Vec<_>>(), [kept]);
        std::fs::remove_dir_all(&records).unwrap();
    }
}
