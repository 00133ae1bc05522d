//! A page of a measurement: sentences, curves over time, tables.

use crate::axis::Axis;
use crate::drawn::{Drawn, write_report};
use crate::html::head;
use crate::plot::{Curve, Look, Plot, escape};
use crate::{ReportError, raster};
use core::fmt::Write;
use std::path::{Path, PathBuf};
use wavelane_run::Verdict;

/// Maximum number of points drawn per curve; for longer ones each stretch shows its smallest and largest.
const POINTS_MAX: usize = 2_000;
/// Points further apart than this share of the axis are not connected.
const GAP_SHARE: f64 = 0.03;

/// A curve.
#[derive(Clone, PartialEq, Debug)]
pub struct PageCurve {
    /// Its legend.
    pub name: String,
    /// Its points, in order of x.
    pub points: Vec<(f64, f64)>,
    /// Positions of losses.
    pub marks: Vec<f64>,
}

/// Curves on the same axes.
#[derive(Clone, PartialEq, Debug)]
pub struct PageChart {
    /// Its file name.
    pub name: &'static str,
    /// Title for display.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x_label: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    pub x_log: bool,
    /// Curves.
    pub curves: Vec<PageCurve>,
    /// Meaning of the marks.
    pub marks_mean: &'static str,
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct PageTable {
    /// Its title.
    pub title: String,
    /// Column heads; the first column is text.
    pub heads: Vec<String>,
    /// Rows with the same number of cells.
    pub rows: Vec<Vec<String>>,
}

/// A page.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// The main result, in large type.
    pub headline: String,
    /// A grade, in large letters above the sentence.
    pub grade: Option<String>,
    /// The result of its checks, if any.
    pub verdict: Option<Verdict>,
    /// Sentences below it.
    pub sentences: Vec<String>,
    /// Pictures.
    pub charts: Vec<PageChart>,
    /// Tables.
    pub tables: Vec<PageTable>,
    /// The command that repeats it.
    pub rerun: String,
}

/// Keeps the smallest and the largest of each stretch.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let mut kept = Vec::new();
    for stretch in points.chunks(points.len().div_ceil(POINTS_MAX / 2)) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        if let (Some(least), Some(most)) = (stretch.iter().min_by(by), stretch.iter().max_by(by)) {
            let (first, second) = if least.0 <= most.0 { (least, most) } else { (most, least) };
            kept.extend([*first, *second]);
        }
    }
    kept
}

/// Splits a curve where nothing was measured.
fn pieces(points: &[(f64, f64)], gap: f64) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    for point in points {
        match pieces.last_mut() {
            Some(piece) if piece.last().is_none_or(|last| point.0 - last.0 <= gap) => piece.push(*point),
            _ => pieces.push(vec![*point]),
        }
    }
    pieces
}

impl PageChart {
    fn plot(&self) -> Plot {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let right = points().map(|p| p.0).chain(self.curves.iter().flat_map(|c| c.marks.iter().copied()));
        let right = right.fold(0.0, f64::max);
        let of_y = |end: fn(f64, f64) -> f64| points().map(|p| p.1).fold(0.0, end);
        let gap = if self.x_log { f64::INFINITY } else { right * GAP_SHARE };
        let curve = |(style, curve): (usize, &PageCurve)| Curve {
            name: curve.name.clone(),
            look: Look::of(style),
            band: Vec::new(),
            pieces: pieces(&thinned(&curve.points), gap),
            marks: curve.marks.clone(),
        };
        Plot {
            title: self.title.clone(),
            x_label: self.x_label.clone(),
            y_label: self.y_label.clone(),
            x: if self.x_log { Axis::logarithmic(points().map(|p| p.0)) } else { Axis::exact(right) },
            y: Axis::holding(of_y(f64::min) * 1.04, of_y(f64::max) * 1.04),
            curves: self.curves.iter().enumerate().map(curve).collect(),
            keys: Vec::new(),
            level: None,
            points: false,
            bars: false,
            marks_mean: self.marks_mean,
        }
    }
}

/// Writes `report.html` and `plots/*.svg`, `plots/*.png` into `folder`; returns the page's path.
pub fn render_page(folder: &Path, page: &Page) -> Result<PathBuf, ReportError> {
    let rasteriser = raster::Rasteriser::new();
    let mut drawn = Vec::new();
    for chart in page.charts.iter().filter(|chart| chart.curves.iter().any(|curve| !curve.points.is_empty())) {
        let plot = chart.plot();
        drawn.push(Drawn::new(|layout| plot.svg(layout)).write(&folder.join("plots"), chart.name, &rasteriser)?);
    }
    write_page(folder, page, &drawn, First::Pictures)
}

/// Which part comes first on the page. The first of the pictures then stands before the sentences.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum First {
    Pictures,
    Tables,
}

/// Writes `report.html` with pictures that are already drawn.
pub(crate) fn write_page(folder: &Path, page: &Page, drawn: &[Drawn], first: First) -> Result<PathBuf, ReportError> {
    write_report(folder, &text(page, drawn, first))
}

fn text(page: &Page, drawn: &[Drawn], first: First) -> String {
    let mut out = head(&page.title);
    if let Some(grade) = &page.grade {
        let _ = writeln!(out, "<p class=\"grade\">{}</p>", escape(grade));
    }
    let _ = writeln!(out, "<p class=\"v\">{}</p>", escape(&page.headline));
    if let Some(verdict) = page.verdict.map(Verdict::word) {
        let _ = writeln!(out, "<p>Verdict: <span class=\"v {verdict}\">{verdict}</span>.</p>");
    }
    let (before, after) = drawn.split_at(if first == First::Pictures { drawn.len().min(1) } else { 0 });
    let html = |drawn: &[Drawn]| drawn.iter().map(Drawn::html).collect::<String>();
    out += &html(before);
    out.push_str("<ul>\n");
    for sentence in &page.sentences {
        let _ = writeln!(out, "<li>{}</li>", escape(sentence));
    }
    out.push_str("</ul>\n");
    out += &match first {
        First::Pictures => html(after) + &tables(page),
        First::Tables => tables(page) + &html(after),
    };
    let _ = writeln!(out, "<h2>Repeat it</h2>\n<pre>{}</pre>\n</body>\n</html>", escape(&page.rerun));
    out
}

fn tables(page: &Page) -> String {
    let mut out = String::new();
    for table in &page.tables {
        // Text columns are left-aligned: the first, and those with a cell that begins with a letter.
        let words: Vec<bool> = (0..table.heads.len())
            .map(|i| {
                let lettered = |row: &Vec<String>| row.get(i).is_some_and(|cell| cell.starts_with(char::is_alphabetic));
                i == 0 || table.rows.iter().any(lettered)
            })
            .collect();
        let _ = writeln!(out, "<h2>{}</h2>\n<div class=\"t\"><table>\n<thead><tr>", escape(&table.title));
        for (i, head) in table.heads.iter().enumerate() {
            let class = if words[i] { " class=\"l\"" } else { "" };
            let _ = write!(out, "<th{class}>{}</th>", escape(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            out.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let class = if words.get(i).is_some_and(|w| *w) { "l n" } else { "n" };
                let _ = write!(out, "<td class=\"{class}\">{}</td>", escape(cell));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_table_of_very_many_rows_takes_time_for_each_once() {
        // Looked at once per cell, a column of numbers would take 60,000 times 60,000 looks.
        let rows = (0..60_000).map(|i| vec!["series".to_owned(), i.to_string(), "-".to_owned()]).collect();
        let heads = ["name", "n", "more"].map(str::to_owned).to_vec();
        let table = PageTable { title: "Series".into(), heads, rows };
        let page = Page {
            title: String::new(),
            headline: String::new(),
            grade: None,
            verdict: None,
            sentences: Vec::new(),
            charts: Vec::new(),
            tables: vec![table],
            rerun: String::new(),
        };
        let text = tables(&page);
        assert_eq!(text.matches("<td class=\"n\">-</td>").count(), 60_000);
        assert_eq!(text.matches("<td class=\"l n\">series</td>").count(), 60_000);
    }

    #[test]
    fn names_that_xml_forbids_are_drawn() {
        let name = "a\u{1b}[31m\u{0}b\u{202e}c\u{ffff}<&\u{8}";
        let curve = PageCurve { name: name.into(), points: vec![(0.0, 1.0), (1.0, 2.0)], marks: vec![0.5] };
        let chart = PageChart {
            name: "values-1",
            title: name.into(),
            x_label: name.into(),
            y_label: name.into(),
            x_log: false,
            curves: vec![curve],
            marks_mean: "lost",
        };
        let plot = chart.plot();
        let svg = plot.svg(crate::plot::WIDE);
        assert!(raster::Rasteriser::new().png(&svg).is_ok(), "{svg}");
        assert!(!svg.contains(['\u{1b}', '\u{0}', '\u{202e}', '\u{ffff}']) && svg.contains("&lt;&amp;"));
    }

    #[test]
    fn long_curves_keep_their_extremes_and_gaps_stay_gaps() {
        let mut points: Vec<(f64, f64)> = (0..90_000).map(|i| (f64::from(i), 1.0)).collect();
        points[44_444].1 = 900.0;
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(44_444.0, 900.0)), "{}", thin.len());
        assert_eq!(pieces(&[(0.0, 1.0), (1.0, 1.0), (9.0, 1.0)], 2.0).len(), 2);
    }

    fn chart(curves: Vec<PageCurve>) -> PageChart {
        PageChart {
            name: "one",
            title: "Delay".into(),
            x_label: "s".into(),
            y_label: "ms".into(),
            x_log: false,
            curves,
            marks_mean: "lost",
        }
    }

    #[test]
    fn marks_are_one_a_pixel() {
        let curve = |marks: Vec<f64>| PageCurve { name: "x".into(), points: vec![(0.0, 1.0), (2_000.0, 1.0)], marks };
        let svg = |marks| chart(vec![curve(marks)]).plot().svg(crate::plot::WIDE);
        let lines = |svg: &str| svg.matches("<line").count();
        let none = svg(vec![]);
        let many = svg((0..200_000).map(|i| f64::from(i) / 100.0).collect());
        let drawn = lines(&many) - lines(&none);
        assert!((700..=960).contains(&drawn), "{drawn}");
        // Far apart, so each is drawn.
        let few = svg(vec![10.0, 1_000.0, 1_990.0]);
        assert_eq!(lines(&few) - lines(&svg(vec![10.0])), 2);
    }

    #[test]
    fn the_axis_begins_at_the_least_value_if_that_is_negative() {
        let curve = |points| PageCurve { name: "up".into(), points, marks: vec![] };
        let plot = chart(vec![curve(vec![(0.0, -2_995.0), (1.0, -2_950.0), (2.0, 12.0)])]).plot();
        assert!(plot.y.low <= -2_995.0 && plot.y.high >= 12.0 && plot.y.low > -4_000.0, "{:?}", plot.y);
        assert!(plot.y.share(-2_995.0) < plot.y.share(-2_950.0), "not drawn flat");
        assert_eq!(chart(vec![curve(vec![(0.0, 4.0), (1.0, 12.0)])]).plot().y, Axis::linear(12.0 * 1.04));
    }

    #[test]
    fn a_page_has_its_sentences_and_charts() {
        let curve = |points| PageCurve { name: "down".into(), points, marks: vec![0.5] };
        let chart = |name, points| PageChart {
            name,
            title: "Delay".into(),
            x_label: "s".into(),
            y_label: "ms".into(),
            x_log: false,
            curves: vec![curve(points)],
            marks_mean: "lost",
        };
        let page = Page {
            title: "probe of <home>".into(),
            headline: "Grade D".into(),
            grade: Some("D".into()),
            verdict: None,
            sentences: vec!["One & two.".into()],
            charts: vec![chart("one", vec![(0.0, 1.0), (1.0, 3.0)]), chart("none", vec![])],
            tables: vec![PageTable {
                title: "t".into(),
                heads: vec!["a".into(), "b".into()],
                rows: vec![vec!["x".into(), "7".into()]],
            }],
            rerun: "wavelane probe home".into(),
        };
        let folder = std::env::temp_dir().join(format!("wavelane-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let html = std::fs::read_to_string(render_page(&folder, &page).unwrap()).unwrap();
        assert!(html.contains("probe of &lt;home&gt;") && html.contains("One &amp; two.") && html.contains(">7<"));
        assert_eq!(html.matches("<svg").count(), 2, "for a wide page and a narrow one");
        let at = |text: &str| html.find(text).unwrap();
        assert!(at("<p class=\"grade\">D</p>") < at("<svg") && at("<svg") < at("<li>One"), "grade, curve, sentences");
        assert!(std::fs::metadata(folder.join("plots/one.png")).unwrap().len() > 2_000);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
