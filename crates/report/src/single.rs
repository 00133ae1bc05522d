//! Comparison of a record of one run with one of several: what can be concluded, and what cannot.

use crate::compare::{Comparison, Difference, FINDINGS_MAX, FINER_MAX, figure_of, finer, letter, number};

/// Position of a single run among several others, which is all that can be concluded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Single {
    /// Which record has one run: 0 is the first, 1 the other.
    pub side: usize,
    /// Number of runs of the other record.
    pub runs: usize,
    /// Their minimum and maximum.
    pub range: (f64, f64),
    /// Whether the single run's value is within that range.
    pub inside: bool,
    /// The single run's seed and the others' value for it, if they include that seed.
    pub same_seed: Option<(u64, f64)>,
}

impl Single {
    /// Describes the position of the single `value`, as precisely as needed to see it.
    pub(crate) fn words(self, value: f64, scale: f64) -> String {
        let ((low, high), word) = (self.range, if self.inside { "inside" } else { "outside" });
        let at = |v: f64, more: usize| finer(v / scale, more);
        let told = |more: &usize| {
            let differ = |a: f64, b: f64| a == b || at(a, *more) != at(b, *more);
            differ(low, high) && (self.inside || (differ(value, low) && differ(value, high)))
        };
        let more = (0..FINER_MAX).find(told).unwrap_or(FINER_MAX);
        let value = if more > 0 { format!("{} ", at(value, more)) } else { String::new() };
        let same = self.same_seed.map(|(seed, v)| format!(", seed {seed}: {}", at(v, more))).unwrap_or_default();
        match low == high {
            true => format!("{value}{word}, all {} are {}{same}", self.runs, at(low, more)),
            false => format!("{value}{word} {} to {}{same}", at(low, more), at(high, more)),
        }
    }
}

impl Comparison {
    /// How many figures of a single run may be outside those of the others, and which are.
    fn outside(&self, record: usize) -> (usize, Vec<&Difference>) {
        // Nothing can be outside where a figure is the same in every run.
        let all = self.singles(record).filter(|(_, s)| s.range.0 < s.range.1 || !s.inside).count();
        (all, self.singles(record).filter(|(_, s)| !s.inside).map(|(d, _)| d).collect())
    }

    /// The same in a short sentence.
    pub(crate) fn headline_of_one(&self, record: usize, single: Single) -> String {
        let (all, outside) = self.outside(record);
        let one = ["A", letter(record)][single.side];
        let (n, runs) = (outside.len(), single.runs);
        format!(
            "{} against A: {n} of {all} figures of the one run of {one} lie beyond all {runs} others.",
            letter(record)
        )
    }

    /// Describes the position of the only run of one record among those of the other.
    pub(crate) fn finding_of_one(&self, record: usize, single: Single) -> String {
        let names = ["A", letter(record)];
        let (one, several, runs) = (names[single.side], names[1 - single.side], single.runs);
        let (all, outside) = self.outside(record);
        let said: Vec<String> = outside
            .iter()
            .map(|d| {
                let figure = figure_of(d);
                let ratio = d.ratio.map(|ratio| format!(" x {}", number(ratio.value))).unwrap_or_default();
                format!("{} {}: {figure}{ratio}", d.stack, d.flow)
            })
            .collect();
        let beyond = match said.len() {
            0..=FINDINGS_MAX => String::new(),
            n => format!("; and {} more", n - FINDINGS_MAX),
        };
        let head = format!("{} against A: {one} has one run and {several} has {runs}", letter(record));
        match said.is_empty() {
            true => format!("{head}; every figure of the one lies among those of the {runs}, so no difference shows."),
            false => {
                let (n, said) = (said.len(), said[..said.len().min(FINDINGS_MAX)].join("; "));
                let chance = all as f64 * 2.0 / (runs as f64 + 1.0);
                format!(
                    "{head}; {n} of {all} figures of the one lie beyond all {runs} (about {chance:.0} would by chance): {said}{beyond}."
                )
            }
        }
    }

    /// What can and cannot be concluded from single runs compared with several.
    pub(crate) fn how_of_one(&self) -> Option<String> {
        let (_, single) = (1..self.names.len()).find_map(|record| self.singles(record).next())?;
        let chance = 200.0 / (single.runs as f64 + 1.0);
        Some(format!(
            "Whether means differ cannot be said of a record with one run, nor how far. Where nothing differs, one run lies beyond all {} others \
             by chance in {chance:.0} % of comparisons, of each figure.{} Run both with the same --repeat for intervals.",
            single.runs,
            match single.same_seed {
                Some((seed, _)) => format!(" They have its seed, {seed}, too: with that value chance has less to do."),
                None => String::new(),
            }
        ))
    }
}
