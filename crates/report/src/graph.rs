//! A graph of many points, thinned to what its width can resolve, as SVG and PNG.

use crate::ReportError;
use crate::axis::Axis;
use crate::plot::{Curve, Look, OPENING, Plot, WIDE};
use crate::raster::Rasteriser;
use std::path::{Path, PathBuf};

/// Number of columns that a graph's width can resolve.
const COLUMNS: f64 = 1_200.0;

/// How a series is drawn; its colour is fixed, so that the same kind of series looks the same in all graphs.
#[derive(Clone, PartialEq, Debug)]
pub enum Mark {
    /// Vertical strokes: x, low, high.
    Strokes(Vec<(f64, f64, f64)>),
    /// A line through points in order of x.
    Line(Vec<(f64, f64)>),
    /// A line that keeps its value until the next point.
    Steps(Vec<(f64, f64)>),
    /// Single marks.
    Dots(Vec<(f64, f64)>),
}

/// One series of a graph.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphSeries {
    /// Its legend.
    pub name: String,
    /// Colour and dash, from 0.
    pub style: usize,
    /// Its points.
    pub mark: Mark,
}

/// A graph on linear axes that begin at zero.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// Title above the graph.
    pub title: String,
    /// Label of the horizontal axis, with the unit.
    pub x_label: String,
    /// Label of the vertical axis, with the unit.
    pub y_label: String,
    /// Series without points are omitted.
    pub series: Vec<GraphSeries>,
}

impl Mark {
    fn is_empty(&self) -> bool {
        match self {
            Self::Strokes(s) => s.is_empty(),
            Self::Line(p) | Self::Steps(p) | Self::Dots(p) => p.is_empty(),
        }
    }
    /// The greatest x and y.
    fn most(&self) -> (f64, f64) {
        let most = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        match self {
            Self::Strokes(s) => s.iter().map(|s| (s.0, s.2)).fold((0.0, 0.0), most),
            Self::Line(p) | Self::Steps(p) | Self::Dots(p) => p.iter().copied().fold((0.0, 0.0), most),
        }
    }
    fn pieces(&self, width: f64) -> Vec<Vec<(f64, f64)>> {
        match self {
            Self::Strokes(strokes) => thin_strokes(strokes, width),
            Self::Line(points) => vec![thin_line(points, width)],
            Self::Steps(points) => vec![thin_line(&steps(points), width)],
            Self::Dots(points) => thin_dots(points, width).into_iter().map(|p| vec![p]).collect(),
        }
    }
}

fn column(x: f64, width: f64) -> i64 {
    if width > 0.0 { (x / width * COLUMNS) as i64 } else { 0 }
}

/// Merges touching or overlapping strokes of one column.
fn thin_strokes(strokes: &[(f64, f64, f64)], width: f64) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    for &(x, low, high) in strokes {
        match pieces.last_mut().map(Vec::as_mut_slice) {
            Some([bottom, top]) if column(bottom.0, width) == column(x, width) && low <= top.1 && high >= bottom.1 => {
                bottom.1 = bottom.1.min(low);
                top.1 = top.1.max(high);
            }
            _ => pieces.push(vec![(x, low), (x, high)]),
        }
    }
    pieces
}

/// The first, smallest, largest and last point of each column.
fn thin_line(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for run in points.chunk_by(|a, b| column(a.0, width) == column(b.0, width)) {
        if run.len() <= 4 {
            kept.extend_from_slice(run);
            continue;
        }
        let at = |better: fn(f64, f64) -> bool| {
            (1..run.len()).fold(0, |best, i| if better(run[i].1, run[best].1) { i } else { best })
        };
        let mut chosen = [0, at(|a, b| a < b), at(|a, b| a > b), run.len() - 1];
        chosen.sort_unstable();
        let mut last = None;
        for i in chosen {
            if last != Some(i) {
                kept.push(run[i]);
            }
            last = Some(i);
        }
    }
    kept
}

/// At most one dot per column and hundredth of the height.
fn thin_dots(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let height = points.iter().fold(0.0_f64, |most, p| most.max(p.1));
    let mut taken = std::collections::BTreeSet::new();
    let cell = |p: &(f64, f64)| (column(p.0, width), (p.1 / height.max(f64::MIN_POSITIVE) * 100.0) as i64);
    points.iter().filter(|p| taken.insert(cell(p))).copied().collect()
}

fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out = Vec::with_capacity(points.len() * 2);
    for (i, &(x, y)) in points.iter().enumerate() {
        if i > 0 {
            out.push((x, points[i - 1].1));
        }
        out.push((x, y));
    }
    out
}

impl Graph {
    fn plot(&self) -> Plot {
        let shown: Vec<&GraphSeries> = self.series.iter().filter(|s| !s.mark.is_empty()).collect();
        let most =
            shown.iter().map(|s| s.mark.most()).fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1)));
        let curve = |s: &&GraphSeries| Curve {
            name: s.name.clone(),
            look: Look::of(s.style),
            band: Vec::new(),
            pieces: s.mark.pieces(most.0),
            marks: Vec::new(),
        };
        Plot {
            title: self.title.clone(),
            x_label: self.x_label.clone(),
            y_label: self.y_label.clone(),
            x: Axis::exact(most.0),
            y: Axis::linear(most.1 * 1.02),
            curves: shown.iter().map(curve).collect(),
            keys: Vec::new(),
            level: None,
            points: false,
            bars: false,
            marks_mean: "",
        }
    }
    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.mark.is_empty())
    }
}

/// Refuses what no graph of ours is. A picture has no mark of its own: it is ours beside a drawing that is.
fn check_own(drawing: &Path) -> Result<(), (PathBuf, std::io::Error)> {
    wavelane_run::check_own(drawing, |head| head.starts_with(OPENING.as_bytes())).map_err(|e| (drawing.into(), e))?;
    let picture = drawing.with_extension("png");
    let is_ours = |head: &[u8]| drawing.exists() && head.starts_with(b"\x89PNG");
    wavelane_run::check_own(&picture, is_ours).map_err(|e| (picture, e))
}

/// Writes `NAME.svg` and `NAME.png` of each graph into a directory, which is created if necessary. What others put there under such a
/// name is refused, and then nothing is written. `go_on` is called before each graph with
/// the number already drawn; once it returns false, nothing is written and the result is false.
pub fn draw_graphs(
    directory: &Path,
    graphs: &[(String, Graph)],
    go_on: &dyn Fn(usize) -> bool,
) -> Result<bool, ReportError> {
    let unwritable = |path: &Path, e: std::io::Error| ReportError::Unwritable { path: path.into(), why: e.to_string() };
    let rasteriser = Rasteriser::new();
    let mut files = Vec::new();
    for (done, (name, graph)) in graphs.iter().enumerate() {
        if !go_on(done) {
            return Ok(false);
        }
        let svg = graph.plot().svg(WIDE);
        let png = rasteriser.png(&svg).map_err(|why| ReportError::Picture { picture: name.clone(), why })?;
        files.push((format!("{name}.svg"), svg.into_bytes()));
        files.extend(png.map(|png| (format!("{name}.png"), png)));
    }
    std::fs::create_dir_all(directory).map_err(|e| unwritable(directory, e))?;
    for (name, _) in graphs {
        check_own(&directory.join(format!("{name}.svg"))).map_err(|(path, e)| unwritable(&path, e))?;
    }
    for (name, content) in files {
        let path = directory.join(name);
        wavelane_run::write_whole(&path, content).map_err(|e| unwritable(&path, e))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_graphs_leave_nothing() {
        let graph = Graph {
            title: "t".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            series: vec![GraphSeries { name: "s".into(), style: 0, mark: Mark::Dots(vec![(0.0, 1.0), (1.0, 2.0)]) }],
        };
        let graphs: Vec<(String, Graph)> = (0..3).map(|i| (i.to_string(), graph.clone())).collect();
        let folder = std::env::temp_dir().join(format!("wavelane-graphs-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        assert!(!draw_graphs(&folder, &graphs, &|done| done < 2).expect("drawn"));
        assert!(!folder.exists());
        assert!(draw_graphs(&folder, &graphs, &|_| true).expect("drawn"));
        assert_eq!(std::fs::read_dir(&folder).expect("made").count(), 6);
        assert!(draw_graphs(&folder, &graphs, &|_| true).expect("our own give way"));
        // What is another's stays, and nothing is written beside it.
        let gone = ["0.svg", "0.png"];
        for (name, of_others) in [("1.png", "dear diary"), ("1.svg", "<svg>a plan</svg>")] {
            std::fs::write(folder.join(name), of_others).expect("written");
            gone.iter().for_each(|name| std::fs::remove_file(folder.join(name)).expect("removed"));
            let why = draw_graphs(&folder, &graphs, &|_| true).expect_err("refused").to_string();
            assert!(why.contains(name) && why.contains("something else"), "{why}");
            assert_eq!(std::fs::read_to_string(folder.join(name)).expect("there"), of_others);
            assert!(!folder.join(gone[0]).exists());
            ["1.svg", "1.png"].iter().for_each(|name| std::fs::remove_file(folder.join(name)).expect("removed"));
            assert!(draw_graphs(&folder, &graphs, &|_| true).expect("drawn"));
        }
        std::fs::remove_file(folder.join("2.svg")).expect("removed");
        assert!(draw_graphs(&folder, &graphs, &|_| true).is_err(), "a picture without its drawing may be anybody's");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn thinning_keeps_extremes_and_every_column() {
        let points: Vec<(f64, f64)> = (0..100_000)
            .map(|i| (f64::from(i) / 1e3, if i == 54_321 { 9.0 } else { f64::from(i % 7) / 7.0 }))
            .collect();
        let thin = thin_line(&points, 100.0);
        assert!(thin.len() < 5 * COLUMNS as usize);
        assert!(thin.iter().any(|p| p.1 == 9.0));
        assert!(thin.windows(2).all(|w| w[0].0 <= w[1].0));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[points.len() - 1]));
    }

    #[test]
    fn strokes_of_one_column_join_only_where_they_touch() {
        let strokes = [(0.0, 0.0, 1.0), (0.001, 1.0, 2.0), (0.002, 5.0, 6.0), (50.0, 6.0, 7.0)];
        let pieces = thin_strokes(&strokes, 100.0);
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[0], [(0.0, 0.0), (0.0, 2.0)]);
    }

    #[test]
    fn a_graph_is_drawn_with_its_legend() {
        let series = |name: &str, style, mark| GraphSeries { name: name.to_owned(), style, mark };
        let graph = Graph {
            title: "t".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            series: vec![
                series("strokes", 0, Mark::Strokes(vec![(0.0, 0.0, 1.0)])),
                series("steps", 1, Mark::Steps(vec![(0.0, 1.0), (2.0, 3.0)])),
                series("dots", 2, Mark::Dots(vec![(1.0, 1.0)])),
                series("nothing", 3, Mark::Line(vec![])),
            ],
        };
        let svg = graph.plot().svg(WIDE);
        assert!(svg.contains(">strokes<") && svg.contains(">dots<") && !svg.contains(">nothing<"));
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(Rasteriser::new().png(&svg).is_ok_and(|png| png.is_some_and(|png| png.starts_with(b"\x89PNG"))));
    }
}
