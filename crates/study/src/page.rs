//! A study's document as a page: which pictures of which rows.

use crate::document::{Edition, Row, StudyDocument};
use crate::words::{name, title};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wavelane_measure::mean;
use wavelane_report::{
    Chart, CommonUnit, Curves, ReportError, Spread, SpreadRow, StudyPage, gathered, human, render_study,
};
use wavelane_run::Verdict;

/// Writes `report.html` and its pictures into `folder`.
pub fn report(folder: &Path, document: &StudyDocument) -> Result<PathBuf, ReportError> {
    let edition = if document.edition == Edition::Full { "full" } else { "quick" };
    let draws = document.draws.as_ref().map(|draws| format!(" --draws {draws}")).unwrap_or_default();
    let parts: String = document.parts.iter().map(|part| format!(" --part {part}")).collect();
    let some = document.parts.iter().map(|part| format!(", part {part}"));
    let of: String = some.chain(document.draws.iter().map(|draws| format!(", draws {draws}"))).collect();
    let shown: Vec<&Row> = match document.study.as_str() {
        crate::population::ID => crate::population::page::shown(document),
        crate::petrovic::ID => crate::petrovic::shown(document),
        crate::traces::ID => crate::traces::page::shown(document),
        _ => document.rows.iter().collect(),
    };
    let mut charts = charts(folder, document);
    // A part of a study may have rows that none of its charts shows.
    charts.retain(Chart::shows_something);
    let drawn = if charts.is_empty() { spreads(document) } else { Vec::new() };
    let (same, drawn): (Vec<Spread>, Vec<Spread>) = drawn.into_iter().partition(|spread| flat(spread).is_some());
    let page = StudyPage {
        title: format!("Study {} ({edition} edition, seed {}{of})", document.study, document.seed),
        verdict: document.verdict,
        sentences: sentences(document).into_iter().chain(same.iter().filter_map(flat)).collect(),
        spreads: drawn,
        grids: if document.study == crate::petrovic::ID { crate::petrovic::grids(document) } else { Vec::new() },
        charts,
        rows: rows(&shown),
        rerun: format!("wavelane study run {} --{edition} --seed {}{parts}{draws}", document.study, document.seed),
    };
    render_study(folder, &page)
}

/// The tables' rows, each metric's values in one unit where they are not too far apart.
fn rows(shown: &[&Row]) -> Vec<(Verdict, [String; 7])> {
    let mut units: BTreeMap<(&str, &str), Option<CommonUnit>> = BTreeMap::new();
    for row in shown {
        let of = |other: &&&Row| other.metric == row.metric && other.unit == row.unit;
        let values = || shown.iter().filter(of).flat_map(|row| [row.value, row.bound]).flatten();
        units.entry((&row.metric, &row.unit)).or_insert_with(|| CommonUnit::of(values(), &row.unit));
    }
    let of = |row: &&Row| {
        let unit = units.get(&(row.metric.as_str(), row.unit.as_str())).and_then(Option::as_ref);
        (row.verdict, cells(row, unit))
    };
    shown.iter().map(of).collect()
}

fn cells(row: &Row, unit: Option<&CommonUnit>) -> [String; 7] {
    let words = |v, half| match unit {
        Some(unit) => unit.words(v, half),
        None => human(v, half, &row.unit),
    };
    [
        row.stack.clone(),
        of_experiment(row, row.case_words()),
        row.metric.clone(),
        row.value.map_or("-".into(), |v| words(v, row.ci95)),
        row.published.map(|v| words(v, None)).unwrap_or_default(),
        row.bound.map(|v| words(v, None)).unwrap_or_default(),
        row.reason().to_owned(),
    ]
}

/// With the experiment's id before it, where it has one of its own.
fn of_experiment(row: &Row, case: String) -> String {
    if crate::STUDIES.iter().any(|study| study.id == row.id) {
        case
    } else {
        format!("{} {case}", row.id).trim_end().to_owned()
    }
}

/// Most claims that are said at the top; the table has them all.
const SAID_MAX: usize = 8;

/// What came out: how many rows hold, what is claimed across the cases, and what fails.
fn sentences(document: &StudyDocument) -> Vec<String> {
    let judged: Vec<&Row> = document.rows.iter().filter(|row| row.verdict != Verdict::Info).collect();
    let count = |verdict| judged.iter().filter(|row| row.verdict == verdict).count();
    let mut said = vec![match judged.len() {
        0 => format!("Nothing was judged; {} values are reported.", document.rows.len()),
        all => {
            let (failed, open) = (count(Verdict::Fail), count(Verdict::Inconclusive));
            let rest: Vec<String> = [(failed, "fail"), (open, "are inconclusive")]
                .into_iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}"))
                .collect();
            let rest = if rest.is_empty() { String::new() } else { format!(", {}", rest.join(", ")) };
            format!("Of {all} judged rows {} pass{rest}.", count(Verdict::Pass))
        }
    }];
    // Where nothing is judged, such as of a few draws of a population, claims over all cases still say what came out.
    let all: Vec<&Row> = if judged.is_empty() { document.rows.iter().collect() } else { judged.clone() };
    let claims = all.iter().filter(|row| row.case.is_empty() || row.verdict == Verdict::Fail);
    let mut claims: Vec<&&Row> = claims.collect();
    if claims.is_empty() {
        // Nothing is claimed across the cases: those that were judged say what came out.
        claims = judged.iter().collect();
    }
    // Failures first, then claims over all cases.
    claims.sort_by_key(|row| (row.verdict != Verdict::Fail, !row.case.is_empty()));
    let say = |row: &&&Row| {
        let case = if row.case.is_empty() { String::new() } else { format!(" ({})", row.case_words()) };
        let value = row.value.map_or("none".into(), |v| human(v, row.ci95, &row.unit));
        let verdict = if row.verdict == Verdict::Info { String::new() } else { format!("{}: ", row.verdict.word()) };
        let what = of_experiment(row, String::new());
        let what = if what.is_empty() { name(&row.metric) } else { format!("{what}, {}", name(&row.metric)) };
        let why = if row.reason().is_empty() { String::new() } else { format!("; {}", row.reason()) };
        format!("{verdict}{what}, {}{case}: {value}{why}", row.stack)
    };
    said.extend(claims.iter().take(SAID_MAX).map(say));
    if claims.len() > SAID_MAX {
        said.push(format!("{} more stand in the tables below.", claims.len() - SAID_MAX));
    }
    said
}

/// Most pictures of metrics, and most cases of one; what has more is for tables.
const SPREADS_MAX: usize = 6;
const CASES_MAX: usize = 40;

/// A picture per metric with values in several cases or of several stacks.
fn spreads(document: &StudyDocument) -> Vec<Spread> {
    let several = document.rows.iter().any(|row| row.backend != document.rows[0].backend);
    let mut all: Vec<Spread> = Vec::new();
    for row in document.rows.iter() {
        let Some(value) = row.value.filter(|v| v.is_finite()) else { continue };
        let at = all.iter().position(|s| s.title == row.metric && s.unit == row.unit).unwrap_or_else(|| {
            let (title, unit) = (row.metric.clone(), row.unit.clone());
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let name = format!("{}-{}", row.metric.chars().map(plain).collect::<String>(), all.len());
            all.push(Spread { name, title, unit, series: Vec::new(), rows: Vec::new() });
            all.len() - 1
        });
        let spread = &mut all[at];
        let series = spread.series.iter().position(|s| *s == row.stack).unwrap_or_else(|| {
            spread.series.push(row.stack.clone());
            spread.series.len() - 1
        });
        let words = if row.case.is_empty() { "all cases".to_owned() } else { row.case_words() };
        let label = if several { format!("{words}, {}", row.backend) } else { words };
        let place = spread.rows.iter().position(|r| r.label == label).unwrap_or_else(|| {
            spread.rows.push(SpreadRow { label, points: Vec::new(), bound: None });
            spread.rows.len() - 1
        });
        spread.rows[place].points.push((series, value, row.ci95));
        spread.rows[place].bound = spread.rows[place].bound.or(row.bound);
    }
    let marks = |s: &Spread| s.rows.iter().map(|r| r.points.len()).sum::<usize>();
    all.retain(|s| (2..=CASES_MAX).contains(&marks(s)));
    for place in (1..all.len()).rev() {
        if all[..place].iter().any(|earlier| earlier.rows == all[place].rows && earlier.unit == all[place].unit) {
            all.remove(place);
        }
    }
    all.truncate(SPREADS_MAX);
    all.iter_mut().filter(|spread| is_measured_by_one(spread)).for_each(|spread| {
        spread.rows.iter_mut().for_each(|row| row.bound = None);
    });
    all.iter_mut().for_each(|spread| spread.title = title(&spread.title));
    all
}

/// Whether the only bound of a ratio or a share is 1: what it is a share of, which its title says, and no value that is asked for.
fn is_measured_by_one(spread: &Spread) -> bool {
    ["ratio", "share", "index"].contains(&spread.unit.as_str())
        && spread.rows.iter().filter_map(|row| row.bound).all(|bound| bound == 1.0)
}

/// What a picture of one value in every case would show, in a sentence.
fn flat(spread: &Spread) -> Option<String> {
    let mut points = spread.rows.iter().flat_map(|row| &row.points);
    let first = points.next()?;
    let alike = spread.rows.iter().flat_map(|row| &row.points).all(|p| p.1 == first.1 && p.2.unwrap_or(0.0) == 0.0);
    alike.then(|| format!("{}: {} in every case.", spread.title, human(first.1, None, &spread.unit)))
}

/// The charts a study of this name has.
fn charts(folder: &Path, document: &StudyDocument) -> Vec<Chart> {
    match document.study.as_str() {
        crate::efficiency::ID => {
            let log = "ms, log scale";
            let [echo, age] =
                ["Echo beside the download, 95th percentile", "Age of the download's bytes, 95th percentile"];
            let share = "Share of what the link can deliver";
            vec![
                over_loss(document, "limit_share", share, "share of rate x (1 - p)", 0.9, false),
                over_loss(document, "rtt_p95_ms", echo, log, 150.0, true),
                over_loss(document, "age_p95_ms", age, log, 0.0, true),
            ]
        }
        crate::sharing::ID => vec![over_queue(document, "sim"), over_queue(document, "lab")],
        crate::population::ID => crate::population::page::charts(document),
        crate::gettys::ID => crate::gettys::page::charts(folder, document),
        crate::petrovic::ID => crate::petrovic::charts(document),
        crate::maggs::ID => crate::maggs::page::charts(document),
        crate::traces::ID => crate::traces::page::charts(folder, document),
        crate::dungs::ID => crate::dungs::charts(folder, document),
        _ => Vec::new(),
    }
}

/// A metric of every stack over random loss in per cent; an aim of zero is none.
fn over_loss(document: &StudyDocument, metric: &'static str, title: &str, unit: &str, aim: f64, log: bool) -> Chart {
    let percent = |row: &Row| match row.case.get("loss")?.as_str()? {
        "none" => Some(0.0),
        words => words.strip_prefix("random ")?.strip_suffix(" %")?.parse::<f64>().ok(),
    };
    let plain = |row: &&Row| row.metric == metric && row.case.len() == 1;
    let point = |row: &Row| Some((row.stack.clone(), percent(row)?, row.value?));
    let points = curves(document.rows.iter().filter(plain).filter_map(point));
    let aim = (aim > 0.0).then(|| (aim, format!("aim {aim}")));
    Chart { log, aim, ..Chart::new(metric, title, ["random loss, both ways (%)", unit], points) }
}

/// Our share, and what the rivals keep, over the queue; means over the links of one backend.
fn over_queue(document: &StudyDocument, backend: &str) -> Chart {
    let words = |row: &Row| match row.metric.as_str() {
        "share" if row.stack == "wavelane" => Some(format!("our share beside {}", row.case.get("beside")?.as_str()?)),
        "kept_share" => Some(format!("kept by {}", row.stack)),
        "jain" => Some("Jain's index of two links".to_owned()),
        _ => None,
    };
    let queue = |row: &Row| row.case.get("queue_bdp")?.as_str()?.parse::<f64>().ok();
    let rows = || document.rows.iter().filter(|row| row.backend == backend);
    let point = |row: &Row| {
        let (name, at) = (words(row)?, queue(row)?);
        let same = |other: &&Row| words(other).as_ref() == Some(&name) && queue(other) == Some(at);
        let values: Vec<f64> = rows().filter(same).filter_map(|row| row.value).collect();
        Some((name.clone(), at, mean(&values)?))
    };
    let (name, place) = if backend == "lab" { ("shares", "laboratory") } else { ("shares-sim", "simulator") };
    let title = format!("Beside others on one drop-tail bottleneck, in the {place}");
    let labels = ["queue (bandwidth-delay products)", "share or index"];
    Chart::new(name, title, labels, curves(rows().filter_map(point)))
}

/// Points by curve, in the order of first appearance; a point that two rows name stands once.
fn curves(points: impl Iterator<Item = (String, f64, f64)>) -> Curves {
    let mut seen: Vec<(String, f64, f64)> = Vec::new();
    for point in points {
        if !seen.contains(&point) {
            seen.push(point);
        }
    }
    gathered(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, stack: &str, value: f64, verdict: Verdict) -> Row {
        let mut row = Row::new("x", "lab", stack, "goodput_bps", "bit/s");
        if !case.is_empty() {
            row.case.insert("loss".into(), case.into());
        }
        Row { value: Some(value), verdict, why: "the reason".into(), ..row }
    }

    #[test]
    fn a_study_page_has_its_finding_and_charts() {
        let rows = vec![
            row("none", "wavelane", 18.4e6, Verdict::Pass),
            row("none", "tcp-bbr", 18.1e6, Verdict::Info),
            row("5 %", "wavelane", 9.0e6, Verdict::Fail),
            row("", "wavelane", 3_534e6, Verdict::Pass),
        ];
        let document = StudyDocument::new("x", Edition::Quick, 1, rows);
        let said = sentences(&document);
        assert_eq!(said[0], "Of 3 judged rows 2 pass, 1 fail.");
        assert_eq!(said[1], "fail: x, Goodput, wavelane (loss 5 %): 9 Mbit/s; the reason");
        assert_eq!(said[2], "pass: x, Goodput, wavelane: 3.53 Gbit/s; the reason");
        assert_eq!(said.len(), 3);
        let judged = vec![row("none", "wavelane", 18.4e6, Verdict::Pass), row("none", "tcp-bbr", 1.0, Verdict::Info)];
        let only = sentences(&StudyDocument::new("x", Edition::Quick, 1, judged));
        assert_eq!(only[1..], ["pass: x, Goodput, wavelane (loss none): 18.4 Mbit/s; the reason"]);
        let told = vec![row("none", "wavelane", 18.4e6, Verdict::Info), row("", "wavelane", 9.0e6, Verdict::Info)];
        let told = sentences(&StudyDocument::new("x", Edition::Quick, 1, told));
        assert_eq!(told, ["Nothing was judged; 2 values are reported.", "x, Goodput, wavelane: 9 Mbit/s; the reason"]);
        let drawn = spreads(&document);
        assert_eq!(drawn.len(), 1);
        assert_eq!(drawn[0].series, ["wavelane", "tcp-bbr"]);
        let labels: Vec<&str> = drawn[0].rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(labels, ["loss none", "loss 5 %", "all cases"]);
        assert_eq!(drawn[0].rows[0].points, [(0, 18.4e6, None), (1, 18.1e6, None)]);
        assert_eq!(flat(&drawn[0]), None);
        // A limit is drawn, the whole that a ratio is of is not, and what is the same again is not drawn twice.
        let ratio = |metric: &str, case: &str, value: f64, bound: f64| Row {
            metric: metric.into(),
            unit: "ratio".into(),
            bound: Some(bound),
            ..row(case, "wavelane", value, Verdict::Info)
        };
        let twice: Vec<Row> = [("of_one", 1.0), ("of_limit", 0.9), ("of_same", 1.0)]
            .into_iter()
            .flat_map(|(metric, bound)| [("none", 0.5), ("5 %", 0.6)].map(|(c, v)| ratio(metric, c, v, bound)))
            .collect();
        let drawn = spreads(&StudyDocument::new("x", Edition::Quick, 1, twice));
        let bounds: Vec<_> = drawn.iter().map(|s| (s.title.as_str(), s.rows[0].bound)).collect();
        assert_eq!(bounds, [("Of one", None), ("Of limit", Some(0.9))]);
        let alike = ["none", "5 %"].map(|case| row(case, "wavelane", 9.0e6, Verdict::Info)).to_vec();
        let alike = spreads(&StudyDocument::new("x", Edition::Quick, 1, alike));
        assert_eq!(flat(&alike[0]).as_deref(), Some("Goodput (goodput_bps): 9 Mbit/s in every case."));
    }

    #[test]
    fn a_metrics_values_have_one_unit() {
        let all = [("none", 18.4e6), ("5 %", 980e3)].map(|(case, v)| row(case, "wavelane", v, Verdict::Info));
        let cells: Vec<String> =
            rows(&all.iter().collect::<Vec<_>>()).into_iter().map(|(_, cells)| cells[3].clone()).collect();
        assert_eq!(cells, ["18.4 Mbit/s", "0.98 Mbit/s"]);
    }

    #[test]
    fn a_reason_leaves_out_the_value() {
        let of =
            |why: &str| Row { why: why.into(), ..row("none", "wavelane", 0.75, Verdict::Fail) }.reason().to_owned();
        assert_eq!(of("0.750, wanted 0.8 to 1.5"), "wanted 0.8 to 1.5");
        assert_eq!(of("not run: no bbr"), "not run: no bbr");
    }

    #[test]
    fn points_gather_by_curve_once_each() {
        let points = [("a", 0.0, 1.0), ("b", 0.0, 2.0), ("a", 1.0, 3.0), ("a", 1.0, 3.0)];
        let found = curves(points.into_iter().map(|(n, x, y)| (n.to_owned(), x, y)));
        assert_eq!(found, [("a".to_owned(), vec![(0.0, 1.0), (1.0, 3.0)]), ("b".to_owned(), vec![(0.0, 2.0)])]);
    }
}
