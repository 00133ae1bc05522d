//! Values with their intervals, one line per case: results of a study without a common axis for its cases.

use crate::axis::Axis;
use crate::plot::{COLOURS, Canvas, FRAME, GREY, GRID, Layout, Look, colour, horizontal, mark, style_of, width_of};
use crate::sweep_looks::distinct;
use crate::units::{CommonUnit, human, unit_for};

/// Font size of labels.
const SIZE: u32 = 12;
/// Use a logarithmic axis from this ratio of the largest to the smallest value.
const LOG_FROM: f64 = 30.0;

/// One metric over several cases.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// Its file name.
    pub name: String,
    /// Title for display.
    pub title: String,
    /// The values' unit.
    pub unit: String,
    /// Names of what is compared in each case; `wavelane` has the first look.
    pub series: Vec<String>,
    /// Cases.
    pub rows: Vec<SpreadRow>,
}

/// One case.
#[derive(Clone, PartialEq, Debug)]
pub struct SpreadRow {
    /// Label for display.
    pub label: String,
    /// Series, value and 95 % half-width.
    pub points: Vec<(usize, f64, Option<f64>)>,
    /// What it is measured by: the value asked for, or the limit that nothing exceeds.
    pub bound: Option<f64>,
}

impl Spread {
    fn axis(&self, by: f64) -> Axis {
        let ends = |p: &(usize, f64, Option<f64>)| [p.1, p.1 - p.2.unwrap_or(0.0), p.1 + p.2.unwrap_or(0.0)];
        let bounds = self.rows.iter().filter_map(|row| row.bound);
        let all: Vec<f64> =
            self.rows.iter().flat_map(|row| row.points.iter().flat_map(ends)).chain(bounds).map(|v| v / by).collect();
        let values = || self.rows.iter().flat_map(|row| row.points.iter().map(|p| p.1 / by));
        let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(l, m), v| (l.min(v), m.max(v)));
        if least > 0.0 && most / least >= LOG_FROM {
            return Axis::logarithmic(all.into_iter().filter(|v| *v >= least / 2.0));
        }
        Axis::above(all.into_iter().fold(0.0, f64::max))
    }

    /// The series of all pictures of a page, so that each has the same look in all of them, if there are enough colours; else none.
    pub(crate) fn order(all: &[Self]) -> Vec<&str> {
        let order = distinct(all.iter().flat_map(|spread| &spread.series).map(String::as_str));
        // The first look is reserved for `wavelane`, even where that is not a series.
        let looks = 1 + order.iter().filter(|name| **name != "wavelane").count();
        if looks <= COLOURS.len() { order } else { Vec::new() }
    }

    /// The whole SVG document; looks follow the series' places in `order`, if it has any.
    pub(crate) fn svg(&self, page: Layout, order: &[&str]) -> String {
        let narrow = page.width < 500.0;
        let longest = self.rows.iter().map(|row| width_of(&row.label, SIZE)).fold(0.0, f64::max);
        let left = if narrow { 14.0 } else { (longest + 20.0).clamp(page.left, page.width * 0.5) };
        let slot = (8.0 + 13.0 * self.series.len() as f64).clamp(22.0, 74.0) + if narrow { 16.0 } else { 0.0 };
        let height = slot * self.rows.len() as f64;
        let mut canvas = Canvas::new(Layout { left, height, right: page.right + 40.0, ..page });
        let most = self.rows.iter().flat_map(|row| &row.points).map(|p| p.1.abs()).fold(0.0, f64::max);
        // One unit for the axis and all values, unless they are too far apart.
        let values = || self.rows.iter().flat_map(|row| &row.points).map(|p| p.1);
        let common = CommonUnit::of(values(), &self.unit);
        let (by, unit) = match &common {
            Some(common) => (common.by, common.name.clone()),
            None => unit_for(most, &self.unit),
        };
        let axis = self.axis(by);
        canvas.layout.left = 14.0;
        let title = canvas.title(&self.title);
        canvas.layout.left = left;
        canvas.top = self.legend(&mut canvas, title + 26.0, order) + 14.0;
        horizontal(&mut canvas, &axis, &unit);
        let (right, top) = (canvas.right(), canvas.top);
        let place = |value: f64| left + axis.share(value / by) * (right - left);
        for (number, row) in self.rows.iter().enumerate() {
            let above = top + slot * number as f64;
            canvas.line((left, above), (right, above), GRID);
            let first = if narrow { above + 22.0 } else { above + 6.0 };
            let lane = (above + slot - 4.0 - first) / row.points.len().max(1) as f64;
            match narrow {
                true => canvas.text(left + 2.0, above + 13.0, SIZE, "start", &cut(&row.label, page.width - 24.0)),
                false => canvas.text(left - 8.0, above + slot / 2.0 + 4.0, SIZE, "end", &cut(&row.label, left - 12.0)),
            }
            if let Some(bound) = row.bound {
                let x = place(bound);
                canvas.line(
                    (x, first - 3.0),
                    (x, above + slot - 2.0),
                    &format!("{GREY} stroke-width=\"1.4\" stroke-dasharray=\"3 2\""),
                );
            }
            for (lane_number, (series, value, half)) in row.points.iter().enumerate() {
                let y = first + lane * (lane_number as f64 + 0.5);
                let look = self.look(*series, order);
                let n = look.colour;
                if let Some(half) = half {
                    let line = format!("class=\"s{n}\" stroke=\"{}\" stroke-width=\"1.6\"", colour(n));
                    canvas.line((place(value - half), y), (place(value + half), y), &line);
                }
                canvas.out.push_str(&mark(look, (place(*value), y), 3.4));
                let words = match &common {
                    Some(common) => common.number(*value, None),
                    None => human(*value, None, &self.unit),
                };
                let beside = place(value + half.unwrap_or(0.0)) + 7.0;
                if beside + width_of(&words, SIZE - 2) < page.width {
                    canvas.text(beside, y + 3.5, SIZE - 2, "start", &words);
                }
            }
        }
        canvas.line((left, top), (left, canvas.bottom()), FRAME);
        canvas.svg()
    }

    fn look(&self, series: usize, order: &[&str]) -> Look {
        let name = &self.series[series];
        Look::of(match order {
            [] => style_of(self.series.iter().map(String::as_str), name),
            order => style_of(order.iter().copied(), name),
        })
    }

    /// Draws the legend and returns the height of its last line.
    fn legend(&self, canvas: &mut Canvas, top: f64, order: &[&str]) -> f64 {
        let (mut x, mut y) = (14.0, top);
        let bounded = self.rows.iter().any(|row| row.bound.is_some());
        let names = self.series.iter().enumerate().map(|(i, name)| (Some(i), name.as_str()));
        for (series, name) in names.chain(bounded.then_some((None, "asked for or bound"))) {
            let width = 34.0 + width_of(name, SIZE);
            if x > 14.0 && x + width > canvas.layout.width - 8.0 {
                x = 14.0;
                y += 20.0;
            }
            match series {
                Some(series) => canvas.out.push_str(&mark(self.look(series, order), (x + 6.0, y - 4.0), 3.6)),
                None => canvas.line(
                    (x + 6.0, y - 11.0),
                    (x + 6.0, y + 3.0),
                    &format!("{GREY} stroke-width=\"1.4\" stroke-dasharray=\"3 2\""),
                ),
            }
            canvas.text(x + 16.0, y, SIZE, "start", name);
            x += width;
        }
        y
    }
}

/// The label, shortened with dots if it does not fit.
fn cut(label: &str, most: f64) -> String {
    if width_of(label, SIZE) <= most {
        return label.to_owned();
    }
    let kept = (most / width_of("m", SIZE)) as usize;
    let start: String = label.chars().take(kept.saturating_sub(1)).collect();
    format!("{start}\u{2026}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{NARROW, WIDE};

    #[test]
    fn a_series_has_one_look_in_all_pictures_of_a_page() {
        let of = |series: &[&str]| Spread {
            name: "x".into(),
            title: "x".into(),
            unit: String::new(),
            series: series.iter().map(|s| (*s).to_owned()).collect(),
            rows: Vec::new(),
        };
        let all =
            [of(&["wavelane", "tcp-cubic", "tcp-bbr"]), of(&["wavelane", "tcp-bbr", "tcp-cubic"]), of(&["tcp-bbr"])];
        let order = Spread::order(&all);
        assert_eq!([all[0].look(2, &order), all[1].look(1, &order), all[2].look(0, &order)], [Look::of(2); 3]);
        assert_eq!(all[1].look(0, &order), Look::of(0));
        // With more series than colours each picture has its own looks.
        let many: Vec<String> = (0..COLOURS.len()).map(|n| format!("tcp-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(Spread::order(&[of(&many)]).is_empty() && Spread::order(&[of(&many[1..])]).len() == COLOURS.len() - 1);
        assert_eq!(all[2].look(0, &[]), Look::of(2));
    }

    #[test]
    fn every_value_has_its_mark_its_interval_and_its_words() {
        let spread = Spread {
            name: "goodput".into(),
            title: "goodput_bps".into(),
            unit: "bit/s".into(),
            series: vec!["tcp-cubic".into(), "wavelane".into()],
            rows: vec![
                SpreadRow {
                    label: "loss none".into(),
                    points: vec![(0, 18.1e6, Some(0.2e6)), (1, 18.4e6, None)],
                    bound: Some(20e6),
                },
                SpreadRow { label: "a case whose name is <long>".into(), points: vec![(1, 9.0e6, None)], bound: None },
            ],
        };
        for layout in [WIDE, NARROW] {
            let svg = spread.svg(layout, &[]);
            // The marks of the legend and of the values.
            assert_eq!(
                svg.matches("<circle").count()
                    + svg.matches("<rect class=\"f").count()
                    + svg.matches("<rect x").count(),
                5,
                "{svg}"
            );
            // The unit is the axis's.
            for words in [">18.1<", ">18.4<", ">9<", ">Mbit/s<", "&lt;long&gt;", "asked for"] {
                assert!(svg.contains(words), "{words}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
