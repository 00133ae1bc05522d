//! A small SVG writer for line plots: axes with units, grid, legend; colours and dashes remain distinguishable in print. Every picture has
//! a version for a wide page and for a telephone; a page's style sheet may recolour it by its classes.

use crate::axis::Axis;
use crate::legend::Key;
use core::fmt::Write;
use std::collections::BTreeSet;
use wavelane_base::text::moves;

const TITLE_Y: f64 = 28.0;
pub(crate) const LEGEND_ROW: f64 = 20.0;
/// Character width as a fraction of the font size, generously: DejaVu Sans averages 0.6 em.
const CHAR: f64 = 0.63;
const FONT: &str = "DejaVu Sans, Verdana, sans-serif";
/// A legend with more rows is placed below the axes, so that the picture begins below its title.
const ROWS_ABOVE: f64 = 3.0;
/// Distance from the lower end of the area below the axes to the first row of a legend there.
const LEGEND_BELOW: f64 = 12.0;
/// Font size of the legend and of the axis labels.
pub(crate) const WORDS: u32 = 13;
/// Font size of the ticks.
const TICKS: u32 = 12;

/// Opacity of the area of a curve's repeats, and the number of areas in one picture up to which it applies.
const BAND_OPACITY: f64 = 0.16;
const BANDS_FULL: f64 = 3.0;

/// Okabe and Ito's palette (2008), distinguishable with every common colour blindness; yellow is omitted as too pale.
pub(crate) const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];
/// Dashes, so that lines also differ in black and white.
pub(crate) const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "14 4"];

/// Size of a picture, and position of its axes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    /// From the top to the bottom of the axes.
    pub(crate) height: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
    pub(crate) title: u32,
}

/// For a desktop page, for files and for print.
pub(crate) const WIDE: Layout =
    Layout { width: 960.0, height: 292.0, left: 78.0, right: 24.0, bottom: 58.0, title: 17 };
/// For a page of 400 pixels.
pub(crate) const NARROW: Layout =
    Layout { width: 400.0, height: 260.0, left: 62.0, right: 10.0, bottom: 54.0, title: 15 };

/// Look of a curve: a colour, a dash and the shape of its points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    pub(crate) colour: usize,
    pub(crate) dash: usize,
}

impl Look {
    /// The look of the `i`-th curve; 35 differ. The first is solid.
    pub(crate) fn of(i: usize) -> Self {
        Self { colour: i % COLOURS.len(), dash: (i + i / (COLOURS.len() * DASHES.len())) % DASHES.len() }
    }
    /// The look of the `flow`-th flow of the `stack`-th stack: colours distinguish stacks, dashes flows.
    pub(crate) fn of_flow(stack: usize, flow: usize) -> Self {
        if flow == 0 {
            Self::of(stack)
        } else {
            Self { colour: stack % COLOURS.len(), dash: (stack + flow) % DASHES.len() }
        }
    }
    /// The look of each curve by its name. Names such as `W 8, ours` and `W 8, document` are members of a group: members of a group share a
    /// colour and differ in their dashes.
    pub(crate) fn by_name(names: &[&str]) -> Vec<Self> {
        let halves: Option<Vec<(&str, &str)>> = names.iter().map(|name| name.split_once(", ")).collect();
        let distinct = |all: &mut dyn Iterator<Item = &'_ str>| {
            let mut found: Vec<String> = Vec::new();
            all.for_each(|name| {
                if !found.iter().any(|known| known == name) {
                    found.push(name.to_owned());
                }
            });
            found
        };
        let halves = halves.unwrap_or_default();
        let groups = distinct(&mut halves.iter().map(|(group, _)| *group));
        let members = distinct(&mut halves.iter().map(|(_, member)| *member));
        let told = halves.len() >= 2 && groups.len() < names.len() && members.len() <= DASHES.len();
        if !told || groups.len() > COLOURS.len() {
            return names.iter().map(|name| Self::of(style_of(names.iter().copied(), name))).collect();
        }
        let look = |(group, member): &(&str, &str)| Self {
            colour: style_of(groups.iter().map(String::as_str), group) % COLOURS.len(),
            dash: members.iter().position(|m| m == member).unwrap_or(0),
        };
        halves.iter().map(look).collect()
    }
    /// This colour with the `dash`-th dash; the first is solid.
    pub(crate) fn with_dash(self, dash: usize) -> Self {
        Self { colour: self.colour, dash: dash % DASHES.len() }
    }
}

/// One curve.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Curve {
    /// Its legend.
    pub(crate) name: String,
    pub(crate) look: Look,
    /// Pieces without gaps, in data units.
    pub(crate) pieces: Vec<Vec<(f64, f64)>>,
    /// The outline of the area that contains all repeats or flows, in data units; empty for one.
    pub(crate) band: Vec<(f64, f64)>,
    /// Marks on the top edge (lost probes), in x units.
    pub(crate) marks: Vec<f64>,
}

/// A plot of several curves on the same axes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
    /// Meaning of colours and dashes; empty where the legend names every curve.
    pub(crate) keys: Vec<Key>,
    /// A dashed grey level with its label, such as the link's rate.
    pub(crate) level: Option<(f64, String)>,
    /// Points with a faint line between them, instead of a line.
    pub(crate) points: bool,
    /// Broad strokes without dashes.
    pub(crate) bars: bool,
    /// Meaning of the marks, if there are any.
    pub(crate) marks_mean: &'static str,
}

/// Text escaped for XML, which has no place for most controls and no number for them either (XML 1.0, section 2.2).
pub(crate) fn escape(text: &str) -> String {
    let is_bad = |c: char| (moves(c) && c != '\n' && c != '\t') || matches!(c, '\u{fffe}' | '\u{ffff}');
    let clean: String = text.chars().map(|c| if is_bad(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Stacks whose look's number is the same on every page, by that number: a reader of two pages takes a colour for the same stack.
const OWN: [&str; 5] = ["wavelane", "tcp-cubic", "tcp-bbr", "tcp-reno", "tcp-bbr3"];

/// The look's number of a stack among `stacks`: 0, the solid one, is always `wavelane`'s. Beside stacks of [`OWN`] others take the colours
/// that none of those has, and theirs last.
pub(crate) fn style_of<'a>(stacks: impl Iterator<Item = &'a str>, stack: &str) -> usize {
    let own = |name: &str| OWN.iter().position(|known| *known == name);
    if let Some(number) = own(stack) {
        return number;
    }
    let (known, others): (Vec<&str>, Vec<&str>) = stacks.partition(|name| own(name).is_some());
    let place = others.iter().position(|name| *name == stack).unwrap_or(0);
    let rivals: Vec<usize> = known.iter().filter_map(|name| own(name)).filter(|number| *number > 0).collect();
    let first = if rivals.is_empty() { 1..1 } else { OWN.len()..COLOURS.len() };
    let rest = (1..).filter(|number| !rivals.contains(number) && !first.contains(number));
    first.clone().chain(rest).nth(place).unwrap_or(0)
}

/// The colour of a style, also used in tables.
pub(crate) fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// Approximate width of a text.
pub(crate) fn width_of(text: &str, size: u32) -> f64 {
    CHAR * f64::from(size) * text.chars().count() as f64
}

/// Splits a text at spaces into lines that fit.
fn lines(text: &str, size: u32, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + f64::from(size) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The drawing so far.
pub(crate) struct Canvas {
    pub(crate) out: String,
    pub(crate) layout: Layout,
    pub(crate) top: f64,
    /// The height of the area below the axes and their labels.
    pub(crate) below: f64,
}

impl Canvas {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { out: String::new(), layout, top: 0.0, below: 0.0 }
    }
    pub(crate) fn text(&mut self, x: f64, y: f64, size: u32, anchor: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(self.out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>");
    }
    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.layout.height
    }
    pub(crate) fn right(&self) -> f64 {
        self.layout.width - self.layout.right
    }
    /// Writes the title and returns its end.
    pub(crate) fn title(&mut self, title: &str) -> f64 {
        let Layout { left, title: size, .. } = self.layout;
        // A title that does not fit next to the ticks begins at the edge.
        let left = if width_of(title, size) > self.right() - left { 8.0 } else { left };
        let mut y = TITLE_Y;
        for (i, line) in lines(title, size, self.right() - left).iter().enumerate() {
            y = TITLE_Y + i as f64 * f64::from(size + 3);
            self.text(left, y, size, "start", line);
        }
        y
    }
    /// The whole SVG document.
    pub(crate) fn svg(self) -> String {
        let (width, height) = (self.layout.width, self.bottom() + self.layout.bottom + self.below);
        format!(
            "{OPENING} viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"{FONT}\" fill=\"#111\">\n\
             <rect class=\"bg\" width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n{}</svg>\n",
            self.out
        )
    }
}

/// How every drawing begins, by which it is known.
pub(crate) const OPENING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\"";
/// Thin grey lines behind curves.
pub(crate) const GRID: &str = "class=\"grid\" stroke=\"#ddd\" stroke-width=\"1\"";
/// Axes.
pub(crate) const FRAME: &str = "class=\"axis\" stroke=\"#333\" stroke-width=\"1.2\"";
/// Levels and other lines that are not curves.
pub(crate) const GREY: &str = "class=\"grey\" stroke=\"#555\"";

/// A horizontal axis at the bottom: grid, ticks with labels that do not overlap, and its label.
pub(crate) fn horizontal(canvas: &mut Canvas, axis: &Axis, label: &str) {
    let (left, right, top, bottom) = (canvas.layout.left, canvas.right(), canvas.top, canvas.bottom());
    let ticks = axis.ticks();
    // Place, half width and words of each label.
    let mut shown: Vec<(f64, f64, &str)> = Vec::new();
    for (i, (value, words)) in ticks.iter().enumerate() {
        let x = left + axis.share(*value) * (right - left);
        let half = width_of(words, TICKS) / 2.0;
        canvas.line((x, top), (x, bottom), GRID);
        // The last one is moved into the picture, and goes before those beside it.
        let at = x.min(canvas.layout.width - half - 2.0);
        let overlaps = |shown: &[(f64, f64, &str)]| shown.last().is_some_and(|s| at - half <= s.0 + s.1 + 4.0);
        while i + 1 == ticks.len() && overlaps(&shown) {
            shown.pop();
        }
        if !overlaps(&shown) {
            shown.push((at, half, words));
        }
    }
    for (at, _, words) in shown {
        canvas.text(at, bottom + 18.0, TICKS, "middle", words);
    }
    canvas.line((left, bottom), (right, bottom), FRAME);
    let room = canvas.layout.width - 16.0;
    let size = if width_of(label, WORDS) > room { WORDS - 2 } else { WORDS };
    let rows = if width_of(label, size) > room { lines(label, size, room) } else { vec![label.to_owned()] };
    let first = if rows.len() > 1 { 34.0 } else { 42.0 };
    for (i, row) in rows.iter().enumerate() {
        let half = width_of(row, size) / 2.0;
        let middle = ((left + right) / 2.0).min(canvas.layout.width - 4.0 - half).max(4.0 + half);
        canvas.text(middle, bottom + first + i as f64 * f64::from(size + 2), size, "middle", row);
    }
}

impl Plot {
    /// Position of a value on the canvas.
    fn place(&self, canvas: &Canvas, (x, y): (f64, f64)) -> (f64, f64) {
        let width = canvas.right() - canvas.layout.left;
        let height = canvas.bottom() - canvas.top;
        (canvas.layout.left + self.x.share(x) * width, canvas.bottom() - self.y.share(y) * height)
    }

    /// Rescales the vertical axis to another unit.
    pub(crate) fn scale_y(&mut self, by: f64) {
        for curve in &mut self.curves {
            let points = curve.pieces.iter_mut().flatten().chain(&mut curve.band);
            points.for_each(|point| point.1 *= by);
        }
        self.y = Axis { low: self.y.low * by, high: self.y.high * by, ..self.y };
        if let Some((value, _)) = &mut self.level {
            *value *= by;
        }
    }

    /// Adds another plot's curves on these axes, which are extended to contain them.
    pub(crate) fn lay_over(&mut self, other: Self) {
        self.x = self.x.cover(other.x);
        self.y = self.y.cover(other.y);
        self.curves.extend(other.curves);
        if self.level != other.level {
            self.level = None;
        }
    }

    /// The whole SVG document.
    pub(crate) fn svg(&self, layout: Layout) -> String {
        let mut canvas = Canvas::new(layout);
        let title = canvas.title(&self.title);
        let (items, rows) = self.legend(&canvas);
        if rows <= ROWS_ABOVE {
            canvas.top = title + 22.0 + rows * LEGEND_ROW;
            self.draw_legend(&mut canvas, &items, title + 26.0);
        } else {
            canvas.top = title + 16.0;
            canvas.below = rows * LEGEND_ROW;
            let first = canvas.bottom() + canvas.layout.bottom + LEGEND_BELOW;
            self.draw_legend(&mut canvas, &items, first);
        }
        self.axes(&mut canvas);
        // Below every line, and the fainter the more areas overlap.
        let bands: Vec<&Curve> = self.curves.iter().filter(|c| !c.band.is_empty()).collect();
        let opacity = (BAND_OPACITY * BANDS_FULL / bands.len() as f64).min(BAND_OPACITY);
        for curve in bands {
            self.band(&mut canvas, curve, opacity);
        }
        if let Some((value, words)) = &self.level {
            let (_, y) = self.place(&canvas, (0.0, *value));
            canvas.line(
                (layout.left, y),
                (canvas.right(), y),
                &format!("{GREY} stroke-width=\"1\" stroke-dasharray=\"3 3\""),
            );
            canvas.text(canvas.right() - 4.0, y - 5.0, TICKS, "end", words);
        }
        for (i, curve) in self.curves.iter().enumerate() {
            self.curve(&mut canvas, i, curve);
        }
        canvas.svg()
    }

    fn axes(&self, canvas: &mut Canvas) {
        let (left, right) = (canvas.layout.left, canvas.right());
        let mut free = f64::INFINITY;
        for (value, label) in self.y.ticks() {
            let (_, y) = self.place(canvas, (0.0, value));
            canvas.line((left, y), (right, y), GRID);
            if y + 6.0 < free {
                canvas.text(left - 8.0, y + 4.0, TICKS, "end", &label);
                free = y - 7.0;
            }
        }
        horizontal(canvas, &self.x, &self.x_label);
        let (top, bottom) = (canvas.top, canvas.bottom());
        canvas.line((left, top), (left, bottom), FRAME);
        let (x, y) = (if canvas.layout.width < 500.0 { 14.0 } else { 22.0 }, (top + bottom) / 2.0);
        let label = escape(&self.y_label);
        let _ = writeln!(
            canvas.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{WORDS}\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\">{label}</text>"
        );
    }

    pub(crate) fn stroke(&self, look: Look) -> String {
        stroke(look, self.points, self.bars)
    }

    fn places(&self, canvas: &Canvas, points: &[(f64, f64)]) -> String {
        let places = points.iter().map(|p| {
            let (x, y) = self.place(canvas, *p);
            format!("{x:.1},{y:.1}")
        });
        places.collect::<Vec<_>>().join(" ")
    }

    fn band(&self, canvas: &mut Canvas, curve: &Curve, opacity: f64) {
        let points = self.places(canvas, &curve.band);
        let Look { colour: n, .. } = curve.look;
        let fill = colour(n);
        let _ = writeln!(
            canvas.out,
            "<polygon class=\"f{n}\" points=\"{points}\" fill=\"{fill}\" fill-opacity=\"{opacity:.2}\"/>"
        );
    }

    fn curve(&self, canvas: &mut Canvas, i: usize, curve: &Curve) {
        let look = curve.look;
        for piece in &curve.pieces {
            let points = self.places(canvas, piece);
            let line = self.stroke(look);
            let _ =
                writeln!(canvas.out, "<polyline points=\"{points}\" fill=\"none\" stroke-linejoin=\"round\" {line}/>");
            if self.points || piece.len() == 1 {
                for point in piece {
                    let place = self.place(canvas, *point);
                    canvas.out.push_str(&mark(look, place, 2.2));
                }
            }
        }
        // Each curve's marks have their own row below the top edge.
        let y = canvas.top + 2.0 + 9.0 * i as f64;
        let mut marked = BTreeSet::new();
        for mark in &curve.marks {
            let (x, _) = self.place(canvas, (*mark, 0.0));
            // Several marks in one pixel look like one.
            if !marked.insert(x.round() as i64) {
                continue;
            }
            let n = look.colour;
            let line = format!("class=\"s{n}\" stroke=\"{}\" stroke-width=\"1.6\"", colour(n));
            canvas.line((x, y), (x, y + 7.0), &line);
        }
    }
}

pub(crate) fn stroke(look: Look, faint: bool, broad: bool) -> String {
    let n = look.colour;
    let line = format!("class=\"s{n}\" stroke=\"{}\"", colour(n));
    if broad {
        return format!("{line} stroke-width=\"9\"");
    }
    if faint {
        return format!("{line} stroke-width=\"0.9\" stroke-opacity=\"0.4\"");
    }
    let dash = DASHES[look.dash];
    let dashes = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
    format!("{line} stroke-width=\"2\"{dashes}")
}

/// A dot, square, triangle or diamond of radius `r`.
pub(crate) fn mark(look: Look, place: (f64, f64), r: f64) -> String {
    let n = look.colour;
    mark_in(&format!("class=\"f{n}\" fill=\"{}\"", colour(n)), look, place, r)
}

/// The same with the given fill.
pub(crate) fn mark_in(fill: &str, look: Look, (x, y): (f64, f64), r: f64) -> String {
    match look.dash % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" {fill}/>\n"),
        1 => {
            let d = 2.0 * r;
            let (x, y) = (x - r, y - r);
            format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{d:.1}\" height=\"{d:.1}\" {fill}/>\n")
        }
        shape => {
            // Triangle, or diamond with a fourth corner.
            let (top, low, tip) = (y - 1.2 * r, if shape == 2 { y + r } else { y }, y + 1.2 * r);
            let corner = if shape == 2 { String::new() } else { format!(" {x:.1},{tip:.1}") };
            let (left, right) = (x - 1.2 * r, x + 1.2 * r);
            format!("<polygon points=\"{x:.1},{top:.1} {right:.1},{low:.1}{corner} {left:.1},{low:.1}\" {fill}/>\n")
        }
    }
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;
