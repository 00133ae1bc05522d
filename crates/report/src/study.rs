//! The page of a study: its verdict, its pictures, its rows.

use crate::axis::Axis;
use crate::dots::Spread;
use crate::drawn::{Drawn, write_report};
use crate::html::head;
use crate::plot::{Curve, Look, Plot, escape, style_of};
use crate::units::half_width;
use crate::{ReportError, raster};
use core::fmt::Write;
use std::path::{Path, PathBuf};
use wavelane_run::Verdict;

/// A chart over the study's cells.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Its file name.
    pub name: &'static str,
    /// Title for display.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x_label: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
    /// Whether the horizontal axis is logarithmic.
    pub x_log: bool,
    /// Points without lines between them.
    pub dots: bool,
    /// A bar from zero to each point; adjacent curves differ a little in x.
    pub bars: bool,
    /// Name and points of each curve; `wavelane`'s is the solid one.
    pub curves: Curves,
    /// A target value, drawn as a level.
    pub aim: Option<(f64, String)>,
}

/// Points of curves by name.
pub type Curves = Vec<(String, Vec<(f64, f64)>)>;

impl Chart {
    /// Lines over linear axes.
    pub fn new(name: &'static str, title: impl Into<String>, [x_label, y_label]: [&str; 2], curves: Curves) -> Self {
        let (title, x_label, y_label) = (title.into(), x_label.to_owned(), y_label.to_owned());
        let (log, x_log, dots, bars, aim) = (false, false, false, false, None);
        Self { name, title, x_label, y_label, log, x_log, dots, bars, curves, aim }
    }
}

/// Points by curve, in the order of first appearance.
pub fn gathered(points: impl IntoIterator<Item = (String, f64, f64)>) -> Curves {
    let mut curves = Curves::new();
    for (name, x, y) in points {
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y)),
            None => curves.push((name, vec![(x, y)])),
        }
    }
    curves
}

/// A published table compared with our values.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// Title for display.
    pub title: String,
    /// What to look for, in one sentence.
    pub see: String,
    /// Column heads, the one of the labels first.
    pub heads: Vec<String>,
    /// Label and cells of each row.
    pub rows: Vec<(String, Vec<Beside>)>,
}

/// The published value and ours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// The source's value.
    pub theirs: Option<f64>,
    /// Our value.
    pub ours: Option<f64>,
    /// Its 95 % half-width.
    pub half: Option<f64>,
}

/// Shades of agreement: the maximum factor and the colour.
const SHADES: [(f64, &str); 3] = [(1.25, "#d9f0e1"), (2.0, "#fff3cd"), (f64::INFINITY, "#f8d7da")];

impl Beside {
    fn html(&self) -> String {
        let number = |v: f64| format!("{v:.*}", decimals(v));
        // Where nothing was published only our value is shown.
        let theirs = self.theirs.map_or_else(String::new, |theirs| number(theirs) + " ");
        let half = match (self.half, self.ours) {
            (Some(half), Some(ours)) => {
                half_width(half, decimals(ours)).map_or(String::new(), |half| format!(" \u{b1} {half}"))
            }
            _ => String::new(),
        };
        let shade = self.theirs.zip(self.ours).and_then(|(theirs, ours)| {
            // Zero agrees with zero, and with nothing else.
            let factor = if theirs == ours { 1.0 } else { (theirs / ours).max(ours / theirs) };
            SHADES.iter().find(|(most, _)| factor <= *most).map(|(_, colour)| format!(" style=\"background:{colour}\""))
        });
        let ours = self.ours.map_or_else(|| "-".to_owned(), number);
        format!(
            "<td class=\"n{}\"{}>{theirs}<b>{ours}</b>{half}</td>",
            if shade.is_some() { " shade" } else { "" },
            shade.unwrap_or_default()
        )
    }
}

/// Three digits, at most two of them after the decimal point.
fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    }
}

/// What a study's page shows.
#[derive(Clone, PartialEq, Debug)]
pub struct StudyPage {
    /// The study's id and edition.
    pub title: String,
    /// The overall verdict.
    pub verdict: Verdict,
    /// The results, in sentences.
    pub sentences: Vec<String>,
    /// Published tables.
    pub grids: Vec<Grid>,
    /// Pictures.
    pub charts: Vec<Chart>,
    /// Pictures of metrics over cases.
    pub spreads: Vec<Spread>,
    /// Verdict and cells of each row.
    pub rows: Vec<(Verdict, [String; 7])>,
    /// The command that repeats it.
    pub rerun: String,
}

/// Heads of the cells.
const HEADS: [&str; 7] = ["stack", "case", "metric", "value", "published", "bound", "why"];

impl Chart {
    /// Whether it shows more than a number: a line needs two points apart, marks and bars need two of them.
    pub fn shows_something(&self) -> bool {
        match self.dots || self.bars {
            true => self.curves.iter().map(|(_, points)| points.len()).sum::<usize>() > 1,
            false => self.curves.iter().any(|(_, points)| points.iter().any(|p| p.0 != points[0].0)),
        }
    }

    fn plot(&self) -> Plot {
        let names: Vec<&str> = self.curves.iter().map(|(name, _)| name.as_str()).collect();
        // Bars have no dashes.
        let looks = match self.bars {
            true => names.iter().map(|name| Look::of(style_of(names.iter().copied(), name))).collect(),
            false => Look::by_name(&names),
        };
        let curve = |(name, points): &(String, Vec<(f64, f64)>), look: Look| Curve {
            name: name.clone(),
            look,
            band: Vec::new(),
            pieces: match (self.dots, self.bars) {
                (true, _) => points.iter().map(|p| vec![*p]).collect(),
                (_, true) => points.iter().map(|(x, y)| vec![(*x, 0.0), (*x, *y)]).collect(),
                _ => vec![points.clone()],
            },
            marks: Vec::new(),
        };
        let points = || self.curves.iter().flat_map(|(_, points)| points.iter().copied());
        let aim = self.aim.as_ref().map(|(level, _)| *level);
        let (right, top) =
            (points().map(|p| p.0).fold(0.0, f64::max), points().map(|p| p.1).chain(aim).fold(0.0, f64::max));
        Plot {
            title: self.title.clone(),
            x_label: self.x_label.clone(),
            y_label: self.y_label.clone(),
            x: if self.x_log { Axis::logarithmic(points().map(|p| p.0)) } else { Axis::exact(right) },
            y: if self.log { Axis::logarithmic(points().map(|p| p.1).chain(aim)) } else { Axis::above(top) },
            curves: self.curves.iter().zip(looks).map(|(own, look)| curve(own, look)).collect(),
            keys: Vec::new(),
            level: self.aim.clone(),
            points: self.dots,
            bars: self.bars,
            marks_mean: "",
        }
    }
}

/// Writes `report.html` and `plots/*.svg`, `plots/*.png` into `folder`; returns the page's path.
pub fn render_study(folder: &Path, study: &StudyPage) -> Result<PathBuf, ReportError> {
    let (plots, rasteriser) = (folder.join("plots"), raster::Rasteriser::new());
    let mut drawn = Vec::new();
    for (place, chart) in study.charts.iter().enumerate() {
        // One of the same curves is there already.
        let is_there = study.charts[..place].iter().any(|other| other.curves == chart.curves);
        if is_there || !chart.shows_something() {
            continue;
        }
        let plot = chart.plot();
        drawn.push(Drawn::new(|layout| plot.svg(layout)).write(&plots, chart.name, &rasteriser)?);
    }
    let order = Spread::order(&study.spreads);
    for spread in study.spreads.iter().filter(|spread| !spread.rows.is_empty()) {
        drawn.push(Drawn::new(|layout| spread.svg(layout, &order)).write(&plots, &spread.name, &rasteriser)?);
    }
    write_report(folder, &page(study, &drawn))
}

fn page(study: &StudyPage, drawn: &[Drawn]) -> String {
    let verdict = study.verdict.word();
    let mut out = head(&study.title);
    let _ = writeln!(out, "<p>Verdict: <span class=\"v {verdict}\">{verdict}</span>.</p>\n<ul>");
    for sentence in &study.sentences {
        let _ = writeln!(out, "<li>{}</li>", escape(sentence));
    }
    out.push_str("</ul>\n");
    study.grids.iter().for_each(|grid| write_grid(&mut out, grid));
    drawn.iter().for_each(|picture| out.push_str(&picture.html()));
    let judged: Vec<_> = study.rows.iter().filter(|(v, _)| *v != Verdict::Info).collect();
    let told: Vec<_> = study.rows.iter().filter(|(v, _)| *v == Verdict::Info).collect();
    for (title, rows) in [("Judged", judged), ("Reported", told)] {
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "<h2>{title}</h2>\n<div class=\"t\"><table class=\"rows\">\n<thead><tr><th class=\"l\">verdict</th>"
        );
        for head in HEADS {
            let _ = write!(out, "<th class=\"l\">{head}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (verdict, [cells @ .., why]) in rows {
            let word = verdict.word();
            let _ = write!(out, "<tr><td class=\"l v {word}\">{word}</td>");
            for (head, cell) in HEADS.iter().zip(cells) {
                // Cases wrap, but not word by word on a narrow screen; long metric names may break, so that the reason next to them is on
                // the page.
                let class = match *head {
                    "case" => "l case",
                    "metric" => "l metric",
                    "bound" | "published" => "l n bound",
                    _ => "l n",
                };
                let _ = write!(out, "<td class=\"{class}\">{}</td>", escape(cell).replace('_', "_<wbr>"));
            }
            let _ = writeln!(out, "<td class=\"l why\">{}</td></tr>", escape(why));
        }
        out.push_str("</tbody>\n</table></div>\n");
    }
    let _ = writeln!(out, "<h2>Repeat it</h2>\n<pre>{}</pre>\n</body>\n</html>", escape(&study.rerun));
    out
}

fn write_grid(out: &mut String, grid: &Grid) {
    let _ = write!(out, "<h2>{}</h2>\n<div class=\"t\"><table>\n<thead><tr>", escape(&grid.title));
    for (place, head) in grid.heads.iter().enumerate() {
        let class = if place == 0 { " class=\"l\"" } else { "" };
        let _ = write!(out, "<th{class}>{}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (label, cells) in &grid.rows {
        let cells: String = cells.iter().map(Beside::html).collect();
        let _ = writeln!(out, "<tr><td class=\"l n\">{}</td>{cells}</tr>", escape(label));
    }
    let has_theirs = grid.rows.iter().any(|(_, cells)| cells.iter().any(|cell| cell.theirs.is_some()));
    let legend = if has_theirs { legend() } else { String::new() };
    let _ = writeln!(out, "</tbody>\n</table></div>\n<p class=\"note\">{}{legend}</p>", escape(&grid.see));
}

/// Explains the contents of a cell and the meaning of its shade.
fn legend() -> String {
    let shade = |(most, colour): &(f64, &str)| {
        let words = if most.is_finite() { format!("within {most} times") } else { "further apart".to_owned() };
        format!("<span class=\"shade\" style=\"background:{colour}\">{words}</span>")
    };
    let shades: Vec<String> = SHADES.iter().map(shade).collect();
    format!(" Theirs, then <b>ours</b>: {}.", shades.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn shades_grow_with_the_difference() {
        let shade = |theirs, ours| Beside { theirs: Some(theirs), ours: Some(ours), half: None }.html();
        for (theirs, ours, colour) in
            [(1.0, 1.2, 0), (0.0, 0.0, 0), (1.0, 0.6, 1), (1.0, 3.0, 2), (0.4, 0.0, 2), (0.0, 0.4, 2)]
        {
            assert!(shade(theirs, ours).contains(SHADES[colour].1), "{theirs} {ours}: {}", shade(theirs, ours));
        }
    }

    #[test]
    fn curves_of_a_group_share_its_colour() {
        let looks = Look::by_name(&["W 1, ours", "W 1, document", "W 8, ours", "W 8, document"]);
        assert!(looks[0].colour == looks[1].colour && looks[2].colour == looks[3].colour, "{looks:?}");
        assert!(looks[0].colour != looks[2].colour && looks[0] != looks[1] && looks[2] != looks[3], "{looks:?}");
        let plain = ["tcp-bbr", "wavelane", "cake, 10 Mbit/s"];
        let looks = Look::by_name(&plain);
        assert!(looks[0].colour != looks[1].colour && looks[1] == Look::of(0), "{looks:?}");
    }

    #[test]
    fn a_page_holds_its_rows_and_a_picture_per_chart_with_points() {
        let chart = |name, points: Vec<(f64, f64)>| Chart {
            name,
            title: "Share".into(),
            x_label: "loss (%)".into(),
            y_label: "share".into(),
            log: false,
            x_log: false,
            dots: false,
            bars: false,
            curves: vec![("wavelane".into(), points)],
            aim: Some((0.9, "aim 0.9".into())),
        };
        let cell = |text: &str| [text; 7].map(str::to_owned);
        let study = StudyPage {
            title: "link-x <quick>".into(),
            verdict: Verdict::Fail,
            sentences: vec!["1 of 2 rows < all.".into()],
            spreads: Vec::new(),
            grids: vec![Grid {
                title: "Table <1>".into(),
                see: "Ours is higher.".into(),
                heads: vec!["size".into(), "NR".into()],
                rows: vec![("100 B".into(), vec![Beside { theirs: Some(97.7), ours: Some(171.84), half: Some(3.0) }])],
            }],
            charts: vec![
                chart("one", vec![(0.0, 0.95), (5.0, 0.8)]),
                chart("none", vec![]),
                chart("point", vec![(5.0, 0.8)]),
                chart("step", vec![(5.0, 0.0), (5.0, 1.0)]),
                chart("again", vec![(0.0, 0.95), (5.0, 0.8)]),
            ],
            rows: vec![(Verdict::Fail, cell("0.8 < 0.9")), (Verdict::Info, cell("told"))],
            rerun: "wavelane study run link-x".into(),
        };
        let folder = std::env::temp_dir().join(format!("wavelane-study-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = render_study(&folder, &study).unwrap();
        let html = std::fs::read_to_string(path).unwrap();
        assert!(html.contains("link-x &lt;quick&gt;") && html.contains("0.8 &lt; 0.9") && html.contains("told"));
        assert!(html.contains("Table &lt;1&gt;") && html.contains("#fff3cd\">97.7 <b>172</b> \u{b1} 3</td>"));
        assert!(html.contains("<li>1 of 2 rows &lt; all.</li>"));
        assert_eq!(html.matches("<svg").count(), 2, "for a wide page and a narrow one");
        assert!(html.contains("aim 0.9") && html.contains("class=\"l v fail\""));
        assert!(std::fs::metadata(folder.join("plots/one.png")).unwrap().len() > 2_000);
        for name in ["none", "point", "step", "again"] {
            assert!(!folder.join(format!("plots/{name}.png")).exists(), "{name}");
        }
        assert!(html.contains("<h2>Judged</h2>") && html.contains("<h2>Reported</h2>"));
        let own = Beside { theirs: None, ours: Some(0.5), half: None };
        let grids = vec![Grid { rows: vec![("a".into(), vec![own])], ..study.grids[0].clone() }];
        let path = render_study(&folder, &StudyPage { grids, ..study.clone() }).unwrap();
        let alone = std::fs::read_to_string(path).unwrap();
        assert!(alone.contains("<td class=\"n\"><b>0.50</b></td>"), "{alone}");
        assert!(html.contains("Theirs, then") && !alone.contains("Theirs, then"), "nothing is compared");
        let rows = vec![(Verdict::Fail, cell("x"))];
        let path = render_study(&folder, &StudyPage { rows, ..study }).unwrap();
        assert!(!std::fs::read_to_string(path).unwrap().contains("<h2>Reported</h2>"), "a table of nothing");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
