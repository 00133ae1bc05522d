//! Counts of ours against the kernel's: retransmissions and timeouts over the same seeds.

use super::bulk::{Counted, Trouble};
use super::{Control, row};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::mean_ci95;
use wavelane_run::Verdict;

/// Counts of retransmissions may differ by this share, or by this many per transfer where there are few.
const COUNT_WITHIN: f64 = 0.1;
const COUNT_BY: f64 = 3.0;
/// Below this many per transfer, chance is Poisson's whatever the seeds happen to show.
const FEW: f64 = 20.0;

/// Ours against the kernel's over the same seeds: retransmissions and timeouts.
pub(super) fn compare(control: Control, trouble: Trouble, how: &str, ours: &[Counted], linux: &[Counted]) -> [Row; 2] {
    let busy = ours.iter().chain(linux).find_map(|c| c.inconclusive.as_ref());
    let one = |metric: &str, of: fn(&Counted) -> u64| {
        let list = |seen: &[Counted]| -> Vec<f64> { seen.iter().map(|c| of(c) as f64).collect() };
        let (ours, linux) = (list(ours), list(linux));
        let case = json!({ "trouble": trouble.word(), "against": how, "linux": linux, "ours": ours });
        let mut row = row("lab", control.word(), metric, "ratio", case);
        judge(&mut row, &ours, &linux);
        if let Some(why) = busy {
            row.why += &format!("; {why}");
            if row.verdict == Verdict::Fail {
                row.verdict = Verdict::Inconclusive;
            }
        }
        row.why = format!("{}, {how}: {}", trouble.word(), row.why);
        row
    };
    [one("retransmits over the kernel's", |c| c.retransmits), one("timeouts over the kernel's", |c| c.timeouts)]
}

/// Judges `ours` against what `linux` did, by seed.
fn judge(row: &mut Row, ours: &[f64], linux: &[f64]) {
    let Some((a, b, half)) = difference(ours, linux) else { return };
    row.value = (b > 0.0).then(|| a / b);
    row.n = ours.len() as u64;
    row.ci95 = (b > 0.0).then(|| half / b);
    let (away, most) = ((a - b).abs(), (COUNT_WITHIN * b).max(COUNT_BY));
    row.verdict = match away {
        _ if away <= most => Verdict::Pass,
        _ if away - half <= most => Verdict::Inconclusive,
        _ => Verdict::Fail,
    };
    row.why = format!(
        "{a:.1} of ours against {b:.1} per transfer, {:+.1} ± {half:.1}, wanted within 10 % or {COUNT_BY:.0}",
        a - b
    );
}

/// Means of two lists of counts with the same seeds, and the 95 % half-width of the means' difference: Student's t on the
/// differences seed by seed, for both met the same dice; where there are few, Poisson's if that is wider.
fn difference(ours: &[f64], linux: &[f64]) -> Option<(f64, f64, f64)> {
    let differences: Vec<f64> = ours.iter().zip(linux).map(|(a, b)| a - b).collect();
    let (_, half) = mean_ci95(&differences)?;
    let (a, b) = (mean_ci95(ours)?.0, mean_ci95(linux)?.0);
    let poisson = if a.min(b) < FEW { 1.96 * ((a + b) / differences.len() as f64).sqrt() } else { 0.0 };
    Some((a, b, half.unwrap_or(0.0).max(poisson)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ours: &[f64], linux: &[f64]) -> Verdict {
        let mut row = row("lab", "reno", "retransmits", "ratio", json!({}));
        judge(&mut row, ours, linux);
        row.verdict
    }

    #[test]
    fn counts_are_judged_by_their_difference_and_by_chance() {
        assert_eq!(judged(&[100.0, 110.0], &[101.0, 112.0]), Verdict::Pass);
        assert_eq!(judged(&[100.0, 110.0], &[150.0, 160.0]), Verdict::Fail);
        assert_eq!(judged(&[100.0, 190.0], &[170.0, 180.0]), Verdict::Inconclusive, "-70 and +10: any difference");
        assert_eq!(judged(&[2.0, 4.0], &[5.0, 6.0]), Verdict::Pass, "three per transfer are chance");
    }
}
