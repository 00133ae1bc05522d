//! The cells' results, beside the document's numbers and claims.

use super::cell::{Cell, Figures, Profile, SWITCHES, Traffic};
use super::physics::exchange_us;
use super::quoted::{self, COLUMNS, Column, SIZES, TABLE_2, VOICE_WINDOWS, WINDOWS};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::{Map, Value, json};
use wavelane_run::Verdict;

/// A cell with the figures of its runs.
pub(super) struct Found {
    pub(super) cell: Cell,
    pub(super) runs: Vec<Figures>,
}

impl Found {
    /// A figure of each run that has it.
    pub(super) fn values(&self, figure: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.get(figure).copied()).collect()
    }
    pub(super) fn mean(&self, figure: &str) -> Option<f64> {
        wavelane_measure::mean(&self.values(figure))
    }
    /// A row about this cell.
    pub(super) fn row(&self, id: &'static str, metric: &str, (figure, unit): (&str, &str)) -> Row {
        let Cell { profile, reading, size, window, column, nodes, .. } = &self.cell;
        let mut case = case(*profile);
        case.insert("reading".into(), json!(reading.word));
        case.insert("nodes".into(), json!(nodes));
        case.insert("size_bytes".into(), json!(size));
        case.insert("window".into(), json!(window));
        case.insert("column".into(), json!(column.word()));
        let head = Head { id: id.into(), backend: "sim".into(), case, stack: self.cell.stack() };
        head.row(metric, unit, &self.values(figure))
    }
}

fn case(profile: Profile) -> Map<String, Value> {
    Map::from_iter([("profile".to_owned(), json!(profile.word()))])
}

/// A row across cells of a profile.
pub(super) fn across(id: &'static str, profile: Profile, metric: &str, unit: &str, values: &[f64]) -> Row {
    let head = Head { id: id.into(), backend: "sim".into(), case: case(profile), stack: profile.stack().into() };
    head.row(metric, unit, values)
}

/// A count of cases in which something holds, judged by how many must; without cases there is no verdict.
fn count(id: &'static str, profile: Profile, metric: &str, cases: &[bool], least: usize) -> Row {
    let holds = cases.iter().filter(|holds| **holds).count();
    let value = if cases.is_empty() { Vec::new() } else { vec![holds as f64] };
    let mut row = across(id, profile, metric, &format!("of {}", cases.len()), &value);
    row.n = cases.len() as u64;
    row = row.judged(Aim::AtLeast(least as f64));
    if row.value.is_some() {
        row.why = format!("holds in {holds}, wanted at least {least}");
    }
    row
}

/// As [`Row::between`], in other words.
fn within(row: &mut Row, least: f64, most: f64) {
    let [lower, upper] = [Aim::AtLeast(least), Aim::AtMost(most)].map(|aim| row.clone().judged(aim));
    let verdict = Verdict::total([lower.verdict, upper.verdict]);
    row.why = row.value.map_or(lower.why, |v| {
        let straddles = if verdict == Verdict::Inconclusive { ", and the 95 % interval straddles a limit" } else { "" };
        format!("{v:.3}, wanted {least} to {most}{straddles}")
    });
    row.verdict = verdict;
}

pub(super) fn geometric(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    wavelane_measure::mean(&logs).map(f64::exp)
}

/// The cells of one profile and reading.
pub(super) struct Cells<'a> {
    pub(super) found: Vec<&'a Found>,
    profile: Profile,
}

impl<'a> Cells<'a> {
    pub(super) fn new(all: &'a [Found], profile: Profile, reading: &str, traffic: Traffic) -> Self {
        let nodes = Cell::nodes_of(traffic);
        let ours = |f: &&Found| {
            let cell = &f.cell;
            cell.profile == profile && cell.reading.word == reading && cell.traffic == traffic && cell.nodes == nodes
        };
        Self { found: all.iter().filter(ours).collect(), profile }
    }
    pub(super) fn get(&self, size: u32, window: u32, column: Column) -> Option<&'a Found> {
        let here = |f: &&&Found| (f.cell.size, f.cell.window, f.cell.column) == (size, window, column);
        self.found.iter().find(here).copied()
    }
    pub(super) fn mean(&self, size: u32, window: u32, column: Column, figure: &str) -> Option<f64> {
        self.get(size, window, column)?.mean(figure)
    }
    /// Neighbouring sizes of the same window and column: whether the larger has more.
    pub(super) fn size_pairs(&self) -> Vec<bool> {
        let of = |pair: &[u32]| {
            WINDOWS
                .iter()
                .flat_map(|w| COLUMNS.iter().map(|c| (*w, *c)))
                .filter_map(|(w, c)| {
                    let kbps = |size| self.mean(size, w, c, "total_kbps");
                    Some(kbps(pair[1])? > kbps(pair[0])?)
                })
                .collect::<Vec<_>>()
        };
        SIZES.windows(2).flat_map(of).collect()
    }
    pub(super) fn window_pairs(&self) -> Vec<bool> {
        let of = |size: u32| {
            COLUMNS.iter().filter_map(move |c| {
                let kbps = |window| self.mean(size, window, *c, "total_kbps");
                Some(kbps(10)? > kbps(1)?)
            })
        };
        SIZES.into_iter().flat_map(of).collect()
    }
    /// Per size and window, with and without coding, a figure with RTS/CTS and without.
    pub(super) fn rts_pairs(&self, sizes: &[u32], figure: &str) -> Vec<(f64, f64)> {
        let mut pairs = Vec::new();
        for &size in sizes {
            for window in WINDOWS {
                for fec in [true, false] {
                    let of = |rts| self.mean(size, window, Column { rts, fec }, figure);
                    pairs.extend(of(true).zip(of(false)));
                }
            }
        }
        pairs
    }
    /// Per window, with and without RTS/CTS, throughput with coding and without.
    pub(super) fn fec_pairs(&self, size: u32) -> Vec<(f64, f64)> {
        let mut pairs = Vec::new();
        for window in WINDOWS {
            for rts in [true, false] {
                let of = |fec| self.mean(size, window, Column { rts, fec }, "total_kbps");
                pairs.extend(of(true).zip(of(false)));
            }
        }
        pairs
    }
    /// Geometric mean over a column of model over document, per run.
    fn column_ratio(&self, column: Column) -> Vec<f64> {
        let cells: Vec<(&Found, f64)> = self
            .found
            .iter()
            .filter(|f| f.cell.column == column)
            .filter_map(|f| Some((*f, quoted::bulk_kbps(f.cell.size, f.cell.window, column)?)))
            .collect();
        let runs = cells.iter().map(|(f, _)| f.runs.len()).min().unwrap_or(0);
        let of_run = |run: usize| {
            geometric(cells.iter().filter_map(|(f, theirs)| Some(f.runs[run].get("total_kbps")? / theirs)))
        };
        (0..runs).filter_map(of_run).collect()
    }
}

/// A cell's row with the document's value.
fn beside(found: &Found, id: &'static str, metric: &str, figure: (&str, &str), theirs: Option<f64>) -> Row {
    let mut row = found.row(id, metric, figure).published_as(theirs);
    if let (Some(ours), Some(theirs)) = (row.value, theirs.filter(|t| *t > 0.0)) {
        row.why = format!("{:.2} times the document's {theirs}", ours / theirs);
    }
    row
}

/// Whether a row's value lies within a factor of the document's.
fn near(row: &Row, factor: f64) -> Option<bool> {
    let ratio = row.value? / row.published?;
    Some(ratio <= factor && ratio >= 1.0 / factor)
}

/// S1-E1 and S1-E2 of one profile.
pub(super) fn bulk(all: &[Found], profile: Profile) -> Vec<Row> {
    let cells = Cells::new(all, profile, "default", Traffic::Bulk);
    if cells.found.is_empty() {
        return Vec::new();
    }
    let of = |f: &&Found| {
        let theirs = quoted::bulk_kbps(f.cell.size, f.cell.window, f.cell.column);
        beside(f, "S1-E1", "total_kbps", ("total_kbps", "kbit/s"), theirs)
    };
    let mut rows: Vec<Row> = cells.found.iter().map(of).collect();
    let near: Vec<bool> = rows.iter().filter_map(|row| near(row, 2.0)).collect();
    let fitted = "; the reading is fitted to the document";
    let old = profile == Profile::Y2001;
    for column in COLUMNS {
        let mut row = across("S1-E1", profile, "column_ratio", "model/document", &cells.column_ratio(column));
        row.case.insert("column".into(), json!(column.word()));
        if old {
            within(&mut row, 0.8, 1.5);
            row.why += fitted;
        }
        rows.push(row);
    }
    let whole = near.len() == SIZES.len() * WINDOWS.len() * COLUMNS.len();
    let mut row = count("S1-E1", profile, "cells_within_factor_2", &near, 70);
    if !old || !whole {
        row.verdict = Verdict::Info;
    }
    rows.push(row);
    let (sizes, windows) = (cells.size_pairs(), cells.window_pairs());
    // The demand on all cells, in proportion for a part of them.
    let share = |cases: &[bool], least: usize, of: usize| (cases.len() * least).div_ceil(of);
    rows.push(count("S1-E1", profile, "larger_size_more", &sizes, share(&sizes, 58, 64)));
    rows.push(count("S1-E1", profile, "window_10_more_than_1", &windows, share(&windows, 16, 20)));
    let rts = |sizes: &[u32], slack: f64| -> Vec<bool> {
        cells.rts_pairs(sizes, "total_kbps").into_iter().map(|(with, without)| with < slack * without).collect()
    };
    rows.push(if old {
        let pairs = rts(&SIZES, 1.0);
        count("S1-E1", profile, "rts_less", &pairs, share(&pairs, 38, 40))
    } else {
        let pairs = rts(&SIZES[..4], 1.05);
        count("S1-E1", profile, "rts_less_or_5_percent_to_1000_bytes", &pairs, pairs.len())
    });
    rows.extend(fairness(&cells));
    rows
}

fn fairness(cells: &Cells<'_>) -> Vec<Row> {
    let profile = cells.profile;
    let indices = |rts: bool, figure: &str| -> Vec<f64> {
        cells.found.iter().filter(|f| f.cell.column.rts == rts).filter_map(|f| f.mean(figure)).collect()
    };
    let mut rows = Vec::new();
    for (size, window, column, nodes) in TABLE_2 {
        let Some(found) = cells.get(size, window, column) else { continue };
        let mut row = beside(found, "S1-E2", "jain", ("jain", "index"), wavelane_measure::jain(&nodes));
        let least = found.values("jain_worst_10s").into_iter().min_by(f64::total_cmp).unwrap_or(1.0);
        row.why += &format!(", which is a selected worst case; our least fair 10 s have {least:.2}");
        rows.push(row);
        let mut ranked = nodes;
        ranked.sort_by(|a, b| b.total_cmp(a));
        for (place, theirs) in ranked.into_iter().enumerate() {
            let name = format!("rank{}_kbps", place + 1);
            rows.push(beside(found, "S1-E2", &name, (&name, "kbit/s"), Some(theirs)));
        }
    }
    let per_run = |rts: bool| -> Vec<f64> {
        let found: Vec<_> = cells.found.iter().filter(|f| f.cell.column.rts == rts).collect();
        let runs = found.iter().map(|f| f.runs.len()).min().unwrap_or(0);
        (0..runs)
            .filter_map(|run| {
                let values: Vec<f64> = found.iter().filter_map(|f| f.runs[run].get("jain").copied()).collect();
                wavelane_measure::mean(&values)
            })
            .collect()
    };
    let (with, without) = (per_run(true), per_run(false));
    let lost: Vec<f64> = without.iter().zip(&with).map(|(without, with)| without - with).collect();
    let aims = [Aim::Above(0.0), Aim::Below(0.8)].map(|aim| (profile == Profile::Y2001).then_some(aim));
    let mut row = across("S1-E2", profile, "jain_without_less_with_rts", "index", &lost).judged(aims[0]);
    // Of all runs of all cells, not of their means.
    let runs = cells.found.iter().filter(|f| f.cell.column.rts).flat_map(|f| f.values("jain_worst_10s"));
    let worst: Vec<f64> = runs.min_by(f64::total_cmp).into_iter().collect();
    let least = across("S1-E2", profile, "jain_worst_10s_with_rts", "index", &worst).judged(aims[1]);
    let mean = |rts| wavelane_measure::mean(&indices(rts, "jain")).unwrap_or(0.0);
    row.why += &format!("; mean {:.3} without and {:.3} with RTS/CTS", mean(false), mean(true));
    rows.extend([row, least]);
    rows
}

/// S1-E3 and S1-E4 of one profile.
pub(super) fn web(all: &[Found], profile: Profile) -> Vec<Row> {
    let cells = Cells::new(all, profile, "default", Traffic::Web);
    if cells.found.is_empty() {
        return Vec::new();
    }
    let old = profile == Profile::Y2001;
    let mut rows = Vec::new();
    let response = "response_mean_s";
    for (size, id, factor) in [(100, "S1-E3", 2.5), (1000, "S1-E4", 2.0)] {
        let mut near_cells = Vec::new();
        for found in cells.found.iter().filter(|f| f.cell.size == size) {
            let theirs = quoted::response_s(size, found.cell.window, found.cell.column);
            let row = beside(found, id, response, (response, "s"), theirs);
            near_cells.extend(near(&row, factor));
            rows.push(row);
            rows.push(found.row(id, "response_p50_s", ("response_p50_s", "s")));
            rows.push(found.row(id, "objects", ("objects", "per run")));
        }
        let pairs = cells.rts_pairs(&[size], response);
        if old {
            rows.push(count(id, profile, &format!("cells_within_factor_{factor}"), &near_cells, near_cells.len()));
        }
        let holds: Vec<bool> = match (old, size) {
            (true, 100) => pairs.iter().map(|(with, without)| with > without).collect(),
            (true, _) => pairs.iter().map(|(with, without)| (1.5..=8.0).contains(&(with / without))).collect(),
            _ => pairs.iter().map(|(with, without)| *with >= 0.95 * without).collect(),
        };
        let metric = match (old, size) {
            (true, 100) => "rts_slower",
            (true, _) => "rts_slower_1.5_to_8_times",
            _ => "rts_not_faster",
        };
        let mut row = count(id, profile, metric, &holds, holds.len());
        let ratios: Vec<String> = pairs.iter().map(|(with, without)| format!("{:.1}", with / without)).collect();
        row.why += &format!("; ratios {}", ratios.join(" "));
        rows.push(row);
    }
    if old {
        rows.extend(at_1000_bytes(&cells));
    }
    rows
}

/// What Table 4 is judged by beside its cells.
fn at_1000_bytes(cells: &Cells<'_>) -> Vec<Row> {
    let (id, profile, response) = ("S1-E4", cells.profile, "response_mean_s");
    let of = |size, window, fec| cells.mean(size, window, Column { rts: false, fec }, response);
    let mut flat = Vec::new();
    for fec in [true, false] {
        let values: Vec<f64> = WINDOWS.iter().filter_map(|w| of(1000, *w, fec)).collect();
        let mean = wavelane_measure::mean(&values).unwrap_or(0.0);
        flat.extend(values.iter().map(|v| (0.5..=1.5).contains(&(v / mean))));
    }
    let helps: Vec<bool> = [5, 10].iter().filter_map(|w| Some(of(1000, *w, true)? < of(1000, *w, false)?)).collect();
    let ratios = COLUMNS
        .iter()
        .flat_map(|c| WINDOWS.iter().map(|w| (*c, *w)))
        .filter_map(|(c, w)| Some(cells.mean(100, w, c, response)? / cells.mean(1000, w, c, response)?));
    let ratio = geometric(ratios);
    let mut longer =
        across(id, profile, "response_100_over_1000_bytes", "ratio", &ratio.into_iter().collect::<Vec<_>>());
    within(&mut longer, 2.0, 4.0);
    vec![
        count(id, profile, "flat_over_window_without_rts", &flat, flat.len()),
        count(id, profile, "fec_helps_at_windows_5_and_10", &helps, helps.len()),
        longer,
    ]
}

/// S1-E5 and S1-E6 of one profile and reading; judged is coding that works.
pub(super) fn voice(all: &[Found], profile: Profile, reading: &str, judged: bool) -> Vec<Row> {
    let cells = Cells::new(all, profile, reading, Traffic::Voice);
    let column = Column { rts: false, fec: true };
    let mut rows = Vec::new();
    for found in &cells.found {
        let theirs = quoted::voice_loss_percent(found.cell.size, found.cell.window);
        rows.push(beside(found, "S1-E5", "loss_percent", ("loss_percent", "%"), theirs));
        for (figure, unit) in [
            ("late_percent", "%"),
            ("delay_p50_ms", "ms"),
            ("delay_p95_ms", "ms"),
            ("delay_p99_ms", "ms"),
            ("jitter_ms", "ms"),
            ("mos", "MOS"),
            ("bulk_kbps", "kbit/s"),
        ] {
            rows.push(found.row("S1-E6", figure, (figure, unit)));
        }
    }
    if !judged || cells.found.is_empty() {
        return rows;
    }
    let loss = |size, window| cells.mean(size, window, column, "loss_percent");
    let values = |size, window| cells.get(size, window, column).map(|f| f.values("loss_percent")).unwrap_or_default();
    let grown: Vec<f64> = values(200, 32).iter().zip(values(200, 1)).map(|(most, least)| most - least).collect();
    let grows = across("S1-E5", profile, "loss_200_bytes_w32_less_w1", "%", &grown).judged(Aim::Above(0.0));
    let most = across("S1-E5", profile, "loss_200_bytes_w32", "%", &values(200, 32)).judged(Aim::Below(3.0));
    let middle = |windows: &[u32]| -> Vec<f64> {
        let pairs = windows.iter().flat_map(|w| [500, 600, 800].map(|size| (size, *w)));
        pairs.filter_map(|(size, window)| loss(size, window)).collect()
    };
    let small: Vec<bool> = middle(&VOICE_WINDOWS).iter().map(|loss| *loss < 1.0).collect();
    let wide = [8, 16, 32];
    let ours = wavelane_measure::mean(&middle(&wide));
    let theirs: Vec<f64> = wide.iter().filter_map(|w| loss(200, *w)).collect();
    let gap: Vec<f64> =
        wavelane_measure::mean(&theirs).zip(ours).map(|(small, middle)| small - middle).into_iter().collect();
    let gap = across("S1-E5", profile, "loss_200_less_500_to_800_bytes_from_w8", "%", &gap).judged(Aim::Above(0.0));
    let few = count("S1-E5", profile, "cells_500_to_800_bytes_below_1_percent", &small, small.len());
    for mut row in [grows, most, few, gap] {
        row.case.insert("reading".into(), json!(reading));
        rows.push(row);
    }
    rows
}

/// S1-E7: other numbers of nodes.
pub(super) fn nodes(all: &[Found]) -> Vec<Row> {
    let other = |f: &&Found| f.cell.traffic != Traffic::Voice && f.cell.reading.word == "nodes";
    let row = |f: &Found| match f.cell.traffic {
        Traffic::Bulk => vec![f.row("S1-E7", "total_kbps", ("total_kbps", "kbit/s"))],
        _ => vec![
            f.row("S1-E7", "response_mean_s", ("response_mean_s", "s")),
            f.row("S1-E7", "response_p50_s", ("response_p50_s", "s")),
        ],
    };
    all.iter().filter(other).flat_map(row).collect()
}

/// How far each reading moves each column of Table 1: its cells over those of the default reading.
pub(super) fn sensitivity(all: &[Found]) -> Vec<Row> {
    let profile = Profile::Y2001;
    let usual = Cells::new(all, profile, "default", Traffic::Bulk);
    let mut rows = Vec::new();
    for (word, _) in &SWITCHES {
        let other = Cells::new(all, profile, word, Traffic::Bulk);
        if other.found.is_empty() {
            continue;
        }
        for column in COLUMNS {
            let cells: Vec<&&Found> = other.found.iter().filter(|f| f.cell.column == column).collect();
            let runs = cells.iter().map(|f| f.runs.len()).min().unwrap_or(0);
            let over = |run: usize, reference: &dyn Fn(&Found, usize) -> Option<f64>| {
                geometric(cells.iter().filter_map(|f| Some(f.runs[run].get("total_kbps")? / reference(f, run)?)))
            };
            // Run by run: the same seed drew the same errors.
            let default = |f: &Found, run: usize| {
                usual.get(f.cell.size, f.cell.window, column)?.runs.get(run)?.get("total_kbps").copied()
            };
            let document = |f: &Found, _: usize| quoted::bulk_kbps(f.cell.size, f.cell.window, column);
            for (metric, unit, reference) in [
                ("over_default_reading", "ratio", &default as &dyn Fn(&Found, usize) -> Option<f64>),
                ("column_ratio", "model/document", &document),
            ] {
                let values: Vec<f64> = (0..runs).filter_map(|run| over(run, reference)).collect();
                let mut row = across("S1-E1", profile, metric, unit, &values);
                row.case.insert("reading".into(), json!(word));
                row.case.insert("column".into(), json!(column.word()));
                rows.push(row);
            }
        }
        if *word == "no errors" {
            rows.extend(closed_form(&other));
        }
    }
    rows
}

/// Without errors the base station sends one exchange after the other: the closed form of DCF with one contender, whose
/// acknowledgements share the air.
fn closed_form(cells: &Cells<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in cells.found.iter().filter(|f| f.cell.window == 10 && !f.cell.column.fec && !f.cell.column.rts) {
        let mut row = found.row("S1-E1", "error_free_kbps", ("total_kbps", "kbit/s"));
        let bound = f64::from(8 * found.cell.size) * 1e3 / (exchange_us(found.cell.size) + exchange_us(0));
        row.bound = Some(bound);
        let ratio = row.value.unwrap_or(0.0) / bound;
        row.verdict = if (ratio - 1.0).abs() <= 0.1 { Verdict::Pass } else { Verdict::Fail };
        row.why = format!(
            "{ratio:.3} of the closed form, wanted within 10 %: stations that count down together gain, collisions lose"
        );
        rows.push(row);
    }
    rows
}

/// All rows, in the order of the experiments.
pub(super) fn rows(all: &[Found]) -> Vec<Row> {
    let mut rows = Vec::new();
    for profile in Profile::BOTH {
        rows.extend(bulk(all, profile));
        rows.extend(web(all, profile));
        rows.extend(voice(all, profile, super::VOICE_READING, true));
        rows.extend(super::claims::rows(all, profile));
    }
    rows.extend(voice(all, Profile::Y2001, "default", false));
    rows.extend(super::today::rows(all));
    rows.extend(nodes(all));
    rows.extend(sensitivity(all));
    rows.extend(super::physics::rows(all));
    rows
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
