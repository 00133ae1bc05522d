//! A measurement's record: `probe.json`, curves, a page that explains itself.

use crate::Failure;
use crate::record_place::{Place, RecordKind};
use core::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use wavelane_probe::document::{PhaseFigures, ProbeDocument, goodput_curve, points};
use wavelane_probe::export;
use wavelane_probe::nq::HttpPlan;
use wavelane_probe::plan::{Length, Measurement, Plan, StageKind};
use wavelane_report::{Page, PageChart, PageCurve, PageTable, render_page};
use wavelane_run::shell;

/// The kind of record that a probe writes.
pub(crate) const PROBES: RecordKind = RecordKind {
    document: "probe.json",
    by: "probe",
    ours: |folder, name| match folder {
        "" => ["probe.json", "environment.json", "report.html", "probe.flent.gz"].contains(&name),
        "series" => ["probes.csv", "goodput.csv", "requests.csv"].contains(&name),
        _ => name.ends_with(".svg") || name.ends_with(".png"),
    },
};

/// Writes the record and names it in the document.
pub(crate) fn keep(
    document: &mut ProbeDocument,
    measured: &Measurement,
    rerun: &str,
    place: &Place,
) -> Result<(), Failure> {
    document.record = place.path().display().to_string();
    let kept = place.keep(|draft| write(draft, document, measured, rerun));
    if kept.is_err() {
        // Nobody is led to a report that is not there.
        document.record.clear();
    }
    kept
}

fn write(dir: &Path, document: &ProbeDocument, measured: &Measurement, rerun: &str) -> Result<(), String> {
    std::fs::create_dir(dir.join("series")).map_err(|e| e.to_string())?;
    let put = |name: &str, text: String| std::fs::write(dir.join(name), text).map_err(|e| format!("{name}: {e}"));
    put("probe.json", document.to_json())?;
    let facts = serde_json::to_string_pretty(&wavelane_run::host_facts()).map_err(|e| e.to_string())?;
    put("environment.json", facts + "\n")?;
    put("series/probes.csv", probes_csv(measured))?;
    put("series/goodput.csv", goodput_csv(measured))?;
    put("series/requests.csv", requests_csv(measured))?;
    let file = std::fs::File::create(dir.join("probe.flent.gz"));
    let written = file.and_then(|file| export::flent(measured, &document.target, std::io::BufWriter::new(file)));
    written.map_err(|e| format!("probe.flent.gz: {e}"))?;
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

fn said(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Idle => "before",
        StageKind::Down => "download",
        StageKind::Up => "upload",
        StageKind::Both => "both",
        StageKind::Rest => "in between",
        StageKind::After => "after",
    }
}

fn page(document: &ProbeDocument, measured: &Measurement, rerun: &str) -> Page {
    let all = points(measured);
    let kinds = [StageKind::Idle, StageKind::Down, StageKind::Up, StageKind::Both, StageKind::Rest, StageKind::After];
    let curve = |kind: StageKind| {
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
        (None, _) if document.grade_bound.is_some() => "No grade: a transfer did not come about".into(),
        _ => "Not measured under load".into(),
    };
    // Without datagrams nothing is known of one way.
    let charts =
        charts.into_iter().filter(|chart| chart.curves.iter().any(|c| !c.points.is_empty() || !c.marks.is_empty()));
    Page {
        title: format!("Latency under load to {}", document.target),
        headline,
        grade: document.grade.map(str::to_owned),
        verdict: None,
        sentences: document.explained.iter().map(|e| e.sentence.clone()).collect(),
        charts: charts.collect(),
        tables: tables(document),
        rerun: rerun.to_owned(),
    }
}

/// The distribution of a phase's round trips, lost ones counted in the whole.
fn share(all: &[wavelane_probe::document::Point], kind: StageKind) -> Option<PageCurve> {
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
    for at in document.queue_at.iter().chain(&document.queue_at_other) {
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
    stages: &[(StageKind, Length)],
    streams: usize,
    congestion: &str,
    hops: bool,
    vantage: &Option<(String, SocketAddr)>,
) -> String {
    let mut line = format!("wavelane probe {}", shell(target));
    let loads: Vec<&(StageKind, Length)> = stages.iter().filter(|(kind, _)| kind.ways() != (false, false)).collect();
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
