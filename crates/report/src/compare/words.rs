//! A comparison in words and tables.

use super::{Compared, Comparison, Difference, Estimate, FIGURES, Figure};
use crate::table::Table;
use wavelane_run::{RunDocument, Verdict};

/// Maximum number of findings in the sentence above the tables, which contain all.
pub(crate) const FINDINGS_MAX: usize = 6;

/// Message for two records without a flow of the same name under the same stack.
const NOTHING: &str = "nothing to compare: no stack has a flow of the same name in both";

/// `A` is the first.
pub(crate) fn letter(record: usize) -> &'static str {
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ".get(record..=record).unwrap_or("?")
}

/// Description of a record, in addition to its name.
pub(super) fn about(r: &Compared) -> String {
    let RunDocument { backend, seed, repeat, verdict, stacks, .. } = &r.document;
    let seeds = if *repeat == 1 { format!("seed {seed}") } else { format!("{repeat} seeds from {seed}") };
    // The other stacks of the record prove what they show.
    let doubted: Vec<&str> = stacks.iter().filter(|s| s.inconclusive.is_some()).map(|s| s.stack.as_str()).collect();
    let doubt = match (doubted.len(), verdict) {
        (0, Verdict::Inconclusive) => ": its checks prove nothing".to_owned(),
        (0, _) => String::new(),
        (n, _) => format!(": {} {} nothing", doubted.join(", "), if n == 1 { "proves" } else { "prove" }),
    };
    format!("on {backend}, {seeds}, {}{doubt}", verdict.word())
}

pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Formats a value with this many additional decimals.
pub(crate) fn finer(value: f64, more: usize) -> String {
    let text = number(value);
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len()) + more;
    format!("{value:.decimals$}")
}

/// Maximum number of decimals added to make the ends of an interval differ.
pub(crate) const FINER_MAX: usize = 4;

pub(super) fn estimate(e: Estimate, scale: f64, sign: bool) -> String {
    let one = |value: f64, more: usize| {
        let text = finer(value / scale, more);
        if sign && value > 0.0 { format!("+{text}") } else { text }
    };
    match e.interval {
        // All runs are equal: there is no uncertainty.
        Some((low, high)) if low < high => {
            let apart = |more: &usize| one(low, *more) != one(high, *more);
            let more = (0..FINER_MAX).find(apart).unwrap_or(FINER_MAX);
            format!("{} ({} to {})", one(e.value, more), one(low, more), one(high, more))
        }
        _ => one(e.value, 0),
    }
}

/// A figure without its unit.
pub(crate) fn figure_of(d: &Difference) -> &'static str {
    FIGURES[d.figure].head.rsplit_once(' ').map_or("", |(figure, _)| figure)
}

impl Comparison {
    /// A mean, and its number of runs if those are not all.
    fn mean(&self, d: &Difference, side: usize) -> String {
        if FIGURES[d.figure].is_counted() {
            let runs = d.runs[side];
            return format!("{:.0} of {runs}", d.means[side] * runs as f64);
        }
        let all = self.repeats[[0, d.record][side]];
        let part = if d.runs[side] < all { format!(" ({} of {all})", d.runs[side]) } else { String::new() };
        number(d.means[side] / FIGURES[d.figure].scale) + &part
    }
    /// Whether a figure of this flow covers only some runs.
    fn is_partial(&self, d: &Difference) -> bool {
        d.runs[0] < self.repeats[0] || d.runs[1] < self.repeats[d.record]
    }

    pub(super) fn table(&self, record: usize) -> Table {
        let mut heads = vec!["stack", "flow", "figure", "A", letter(record), "difference", "ratio"];
        let singles = self.singles(record).next().is_some();
        if singles {
            heads.push("the one run among the others");
        }
        let mut table = Table::new(3, &heads);
        for d in self.differences.iter().filter(|d| d.record == record) {
            let Figure { head, scale, .. } = FIGURES[d.figure];
            let counted = FIGURES[d.figure].is_counted();
            // Shown only where informative.
            if [("completed", 1.0), ("lost_share", 0.0)].contains(&(FIGURES[d.figure].key, d.means[0]))
                && d.means[0] == d.means[1]
            {
                continue;
            }
            let mut row = vec![
                d.stack.clone(),
                d.flow.clone(),
                head.to_owned(),
                self.mean(d, 0),
                self.mean(d, 1),
                estimate(d.difference, scale, true) + if counted { " %" } else { "" },
                d.ratio.map_or("-".into(), |ratio| estimate(ratio, 1.0, false)),
            ];
            if singles {
                // The counts show it.
                row.push(
                    d.single
                        .filter(|_| !counted)
                        .map_or("-".into(), |single| single.words(d.means[single.side], scale)),
                );
            }
            table.push(row);
        }
        table
    }

    /// The title of a record's table.
    pub(super) fn title(&self, record: usize) -> String {
        format!("{} against A: {} against {}", letter(record), self.names[record], self.names[0])
    }

    /// The ratios of a record, those of counts of runs left out, and those of them that differ from 1 according to their intervals, the
    /// largest differences first.
    fn ratios(&self, record: usize) -> (usize, Vec<(&Difference, Estimate)>) {
        let of_record = self.differences.iter().filter(|d| d.record == record && !FIGURES[d.figure].is_counted());
        let ratios: Vec<_> = of_record.filter_map(|d| Some((d, d.ratio?, d.ratio?.interval?))).collect();
        let all = ratios.len();
        let is_apart = |(_, _, (low, high)): &(_, _, (f64, f64))| *low > 1.0 || *high < 1.0;
        let mut apart: Vec<_> = ratios.into_iter().filter(is_apart).map(|(d, ratio, _)| (d, ratio)).collect();
        apart.sort_by(|(_, a), (_, b)| b.value.ln().abs().total_cmp(&a.value.ln().abs()));
        (all, apart)
    }

    /// One sentence: whether anything differs, and what the most; `None` without intervals and ranges.
    pub(super) fn headline(&self) -> Option<String> {
        let told = |record: &usize| self.singles(*record).next().is_some() || self.ratios(*record).0 > 0;
        let records: Vec<usize> = (1..self.names.len()).filter(told).collect();
        if let [record] = records[..] {
            let other = letter(record);
            if let Some((_, single)) = self.singles(record).next() {
                return Some(self.headline_of_one(record, single));
            }
            let (all, apart) = self.ratios(record);
            return Some(match apart.first() {
                None => format!("{other} against A: no ratio differs from 1 beyond its interval."),
                Some((d, ratio)) => {
                    let most = format!("{} {} {} x {}", d.stack, d.flow, figure_of(d), number(ratio.value));
                    format!("{other} against A: {} of {all} ratios differ from 1, the furthest {most}.", apart.len())
                }
            });
        }
        let differs = |record: &&usize| {
            self.singles(**record).any(|(_, single)| !single.inside) || !self.ratios(**record).1.is_empty()
        };
        let apart = records.iter().filter(differs).count();
        (!records.is_empty()).then(|| match apart {
            0 => format!("None of {} records differs from A beyond intervals or ranges.", records.len()),
            n => format!("{n} of {} records differ from A beyond intervals or ranges.", records.len()),
        })
    }

    /// What differs from 1 according to the intervals; `None` without intervals.
    pub(super) fn findings(&self, record: usize) -> Option<String> {
        if let Some((_, single)) = self.singles(record).next() {
            return Some(self.finding_of_one(record, single));
        }
        let (all, apart) = self.ratios(record);
        let say = |(d, ratio): &(&Difference, Estimate)| {
            let part = if self.is_partial(d) { ", of some runs only" } else { "" };
            format!("{} {}: {} x {}{part}", d.stack, d.flow, figure_of(d), estimate(*ratio, 1.0, false))
        };
        // The sentence has space for only a few.
        let said: Vec<String> = apart.iter().take(FINDINGS_MAX).map(say).collect();
        let beyond = match apart.len() {
            0..=FINDINGS_MAX => String::new(),
            n => format!("; and {} more", n - FINDINGS_MAX),
        };
        let other = letter(record);
        (all > 0).then(|| match said.is_empty() {
            true => format!("{other} against A: no ratio differs from 1 beyond its interval."),
            false => format!("{other} against A: {}{beyond}.", said.join("; ")),
        })
    }

    /// How to interpret the intervals.
    pub(super) fn how(&self) -> String {
        let of_one = self.how_of_one();
        let intervals = self.differences.iter().any(|d| d.difference.interval.is_some());
        match of_one {
            Some(of_one) if intervals => format!("{} {of_one}", self.how_of_intervals()),
            Some(of_one) => of_one,
            None => self.how_of_intervals().to_owned(),
        }
    }

    fn how_of_intervals(&self) -> &'static str {
        let with = || self.differences.iter().filter(|d| d.difference.interval.is_some());
        let with_runs = self.differences.iter().any(|d| d.runs.iter().all(|runs| *runs > 1));
        let (paired, apart) = (with().any(|d| d.by_seed), with().any(|d| !d.by_seed));
        match (paired, apart) {
            (false, false) if with_runs => "Of a count of runs there is no interval.",
            (false, false) => "An interval takes two runs of each: run them with --repeat.",
            (true, false) => {
                "In brackets 95 % intervals; runs of the same seed are compared with each other, ratios are geometric means."
            }
            (false, true) => "In brackets 95 % intervals of the means (Welch's t; ratios on a logarithmic scale).",
            (true, true) => {
                "In brackets 95 % intervals; runs of the same seed are compared with each other where most seeds are common (ratios are geometric means), else means (Welch's t)."
            }
        }
    }

    /// Tables for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for record in 1..self.names.len() {
            let table = self.table(record);
            out += &self.title(record);
            out.push('\n');
            out += &if table.rows.is_empty() { NOTHING.to_owned() + "\n" } else { table.text() };
            if let Some((_, single)) = self.singles(record).next() {
                out += &format!("{}\n", self.finding_of_one(record, single));
            }
            out.push('\n');
        }
        out + &self.how() + "\n"
    }
}
