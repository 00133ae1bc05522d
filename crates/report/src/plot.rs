//! A small SVG writer for line plots: axes with units, grid, legend, colours and dashes told apart in print too.

use crate::axis::Axis;
use core::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 58.0;
const TITLE_Y: f64 = 28.0;
const LEGEND_Y: f64 = 54.0;
const LEGEND_ROW: f64 = 20.0;
/// Width of a character of the 13 px legend, generously: DejaVu Sans averages 0.6 em.
const CHAR: f64 = 8.2;
const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

/// Okabe and Ito's palette (2008), distinguishable with every common colour blindness; yellow left out: too pale.
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];
/// Dashes, so that lines differ in black and white too.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// One curve.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Curve {
    /// Its legend.
    pub(crate) name: String,
    /// Which colour, dash and mark it has; see [`style_of`].
    pub(crate) style: usize,
    /// Pieces drawn without a gap, in data units.
    pub(crate) pieces: Vec<Vec<(f64, f64)>>,
    /// Marks on the upper edge (lost probes), in x units.
    pub(crate) marks: Vec<f64>,
}

/// A plot of several curves on common axes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
    /// A dashed grey level with its words, such as the link's rate.
    pub(crate) level: Option<(f64, String)>,
    /// Points with a faint line between them, instead of a line.
    pub(crate) points: bool,
    /// Broad strokes without dashes.
    pub(crate) bars: bool,
    /// What the marks mean, if there are any.
    pub(crate) marks_mean: &'static str,
}

/// Text safe inside XML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The style of the `i`-th of `stacks`: style 0, the solid one, is always `wavelane`'s.
pub(crate) fn style_of<'a>(stacks: impl Iterator<Item = &'a str>, stack: &str) -> usize {
    let others: Vec<&str> = stacks.filter(|s| *s != "wavelane").collect();
    others.iter().position(|s| *s == stack).map_or(0, |i| i + 1)
}

/// The colour of a style, also used in tables.
pub(crate) fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

struct Canvas {
    out: String,
    top: f64,
}

impl Canvas {
    fn text(&mut self, x: f64, y: f64, size: u32, anchor: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }
    fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(self.out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>");
    }
    fn bottom(&self) -> f64 {
        self.top + HEIGHT - 70.0 - BOTTOM
    }
}

impl Plot {
    /// Position of a value on the canvas.
    fn place(&self, canvas: &Canvas, (x, y): (f64, f64)) -> (f64, f64) {
        let width = WIDTH - LEFT - RIGHT;
        let height = canvas.bottom() - canvas.top;
        (LEFT + self.x.share(x) * width, canvas.bottom() - self.y.share(y) * height)
    }

    /// The whole SVG document.
    pub(crate) fn svg(&self) -> String {
        let mut canvas = Canvas { out: String::new(), top: 0.0 };
        canvas.text(LEFT, TITLE_Y, 17, "start", &self.title);
        let rows = self.legend(&mut canvas);
        canvas.top = LEGEND_Y + rows * LEGEND_ROW - 4.0;
        self.axes(&mut canvas);
        if let Some((value, words)) = &self.level {
            let (_, y) = self.place(&canvas, (0.0, *value));
            canvas.line((LEFT, y), (WIDTH - RIGHT, y), "stroke=\"#555\" stroke-width=\"1\" stroke-dasharray=\"3 3\"");
            canvas.text(WIDTH - RIGHT - 4.0, y - 5.0, 12, "end", words);
        }
        for (i, curve) in self.curves.iter().enumerate() {
            self.curve(&mut canvas, i, curve);
        }
        let height = canvas.bottom() + BOTTOM;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" font-family=\"{FONT}\" fill=\"#111\">\n\
             <rect width=\"{WIDTH:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n{}</svg>\n",
            canvas.out
        )
    }

    /// Draws the legend in rows that fit and returns how many rows it took.
    fn legend(&self, canvas: &mut Canvas) -> f64 {
        let (mut x, mut row) = (LEFT, 0.0);
        let mut advance = |width: f64| {
            if x > LEFT && x + width > WIDTH - RIGHT {
                x = LEFT;
                row += 1.0;
            }
            let at = (x, LEGEND_Y + row * LEGEND_ROW);
            x += width;
            at
        };
        let mut items = Vec::new();
        for curve in &self.curves {
            let i = curve.style;
            let width = 58.0 + CHAR * curve.name.chars().count() as f64;
            items.push((advance(width), Some(i), curve.name.as_str()));
        }
        if self.curves.iter().any(|c| !c.marks.is_empty()) {
            items.push((advance(40.0 + CHAR * self.marks_mean.chars().count() as f64), None, self.marks_mean));
        }
        for ((x, y), index, name) in items {
            match index {
                Some(i) => {
                    canvas.line((x, y - 4.0), (x + 32.0, y - 4.0), &self.stroke(i));
                    if self.points {
                        canvas.out.push_str(&mark(i, (x + 16.0, y - 4.0), 3.2));
                    }
                    canvas.text(x + 39.0, y, 13, "start", name);
                }
                None => {
                    canvas.line((x + 6.0, y - 10.0), (x + 6.0, y + 2.0), "stroke=\"#555\" stroke-width=\"1.6\"");
                    canvas.text(x + 14.0, y, 13, "start", name);
                }
            }
        }
        row + 1.0
    }

    fn axes(&self, canvas: &mut Canvas) {
        let (top, bottom) = (canvas.top, canvas.bottom());
        let grid = "stroke=\"#ddd\" stroke-width=\"1\"";
        for (value, label) in self.y.ticks() {
            let (_, y) = self.place(canvas, (0.0, value));
            canvas.line((LEFT, y), (WIDTH - RIGHT, y), grid);
            canvas.text(LEFT - 8.0, y + 4.0, 12, "end", &label);
        }
        for (value, label) in self.x.ticks() {
            let (x, _) = self.place(canvas, (value, 0.0));
            canvas.line((x, top), (x, bottom), grid);
            canvas.text(x, bottom + 18.0, 12, "middle", &label);
        }
        let frame = "stroke=\"#333\" stroke-width=\"1.2\"";
        canvas.line((LEFT, top), (LEFT, bottom), frame);
        canvas.line((LEFT, bottom), (WIDTH - RIGHT, bottom), frame);
        canvas.text((LEFT + WIDTH - RIGHT) / 2.0, bottom + 42.0, 13, "middle", &self.x_label);
        let (x, y) = (22.0, (top + bottom) / 2.0);
        let label = escape(&self.y_label);
        let _ = writeln!(
            canvas.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"13\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\">{label}</text>"
        );
    }

    fn stroke(&self, style: usize) -> String {
        stroke(style, self.points, self.bars)
    }
    fn curve(&self, canvas: &mut Canvas, i: usize, curve: &Curve) {
        let style = curve.style;
        for piece in &curve.pieces {
            let places: Vec<String> = piece
                .iter()
                .map(|p| {
                    let (x, y) = self.place(canvas, *p);
                    format!("{x:.1},{y:.1}")
                })
                .collect();
            let points = places.join(" ");
            let line = self.stroke(style);
            let _ =
                writeln!(canvas.out, "<polyline points=\"{points}\" fill=\"none\" stroke-linejoin=\"round\" {line}/>");
            if self.points || piece.len() == 1 {
                for point in piece {
                    let place = self.place(canvas, *point);
                    canvas.out.push_str(&mark(style, place, 2.2));
                }
            }
        }
        // Each curve's marks have a row of their own below the upper edge.
        let y = canvas.top + 2.0 + 9.0 * i as f64;
        for mark in &curve.marks {
            let (x, _) = self.place(canvas, (*mark, 0.0));
            let line = format!("stroke=\"{}\" stroke-width=\"1.6\"", colour(style));
            canvas.line((x, y), (x, y + 7.0), &line);
        }
    }
}

fn stroke(style: usize, faint: bool, broad: bool) -> String {
    if broad {
        return format!("stroke=\"{}\" stroke-width=\"9\"", colour(style));
    }
    if faint {
        return format!("stroke=\"{}\" stroke-width=\"0.9\" stroke-opacity=\"0.4\"", colour(style));
    }
    let dash = DASHES[style % DASHES.len()];
    let dashes = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
    format!("stroke=\"{}\" stroke-width=\"2\"{dashes}", colour(style))
}

/// A dot, square, triangle or diamond of radius `r`.
fn mark(style: usize, (x, y): (f64, f64), r: f64) -> String {
    let fill = colour(style);
    match style % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"{fill}\"/>\n"),
        1 => {
            let d = 2.0 * r;
            let (x, y) = (x - r, y - r);
            format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{d:.1}\" height=\"{d:.1}\" fill=\"{fill}\"/>\n")
        }
        shape => {
            // Triangle, or diamond with a fourth corner.
            let (top, low, tip) = (y - 1.2 * r, if shape == 2 { y + r } else { y }, y + 1.2 * r);
            let corner = if shape == 2 { String::new() } else { format!(" {x:.1},{tip:.1}") };
            let (left, right) = (x - 1.2 * r, x + 1.2 * r);
            format!(
                "<polygon points=\"{x:.1},{top:.1} {right:.1},{low:.1}{corner} {left:.1},{low:.1}\" fill=\"{fill}\"/>\n"
            )
        }
    }
}
