//! Bufferbloat as a letter grade and as a ratio. Loss bounds the letter: delays are known of answered probes only.

use crate::stats::mean;

/// The scale of [`letter`]; others use other edges, so a letter never stands without it.
pub const GRADE_SCALE: &str = "DSLReports bufferbloat";

/// Upper limit of each letter, in milliseconds of mean rise; from the last on it is F. There is no E.
const EDGES: [(f64, &str); 5] = [(5.0, "A+"), (30.0, "A"), (60.0, "B"), (200.0, "C"), (400.0, "D")];

/// The letter of a rise of the round trip in milliseconds.
pub fn letter(rise_ms: f64) -> &'static str {
    EDGES.iter().find(|(edge, _)| rise_ms < *edge).map_or("F", |(_, letter)| letter)
}

/// The letter of a connection: that of the mean of the mean rises while it downloads and while it uploads. Missing values
/// are excluded; `None` if both are missing.
pub fn grade(rise_down_ms: Option<f64>, rise_up_ms: Option<f64>) -> Option<&'static str> {
    let rises: Vec<f64> = rise_down_ms.into_iter().chain(rise_up_ms).collect();
    mean(&rises).map(letter)
}

/// From which share of lost packets on a letter is the best that a connection can get. Voice bears less than 3 % (ITU-T G.1010,
/// table I.1); a stream of small packets falls apart long before every fifth is lost.
const LOSS_EDGES: [(f64, &str); 4] = [(0.2, "F"), (0.1, "D"), (0.03, "C"), (0.01, "B")];
/// `LOSS_EDGES` in words.
pub const LOSS_RULE: &str = "no better than B from 1 % of loss on, C from 3, D from 10, F from 20";

/// The best letter at this share of lost packets; `None` if any is possible.
pub fn best_at_loss(share: f64) -> Option<&'static str> {
    LOSS_EDGES.iter().find(|(edge, _)| share >= *edge).map(|(_, letter)| *letter)
}

/// Whether a letter is worse than another.
pub fn is_worse(letter: &str, than: &str) -> bool {
    let rank = |l: &str| EDGES.iter().position(|(_, edge)| *edge == l).unwrap_or(EDGES.len());
    rank(letter) > rank(than)
}

/// Bytes in flight over the path's capacity without a queue, `rate x unloaded round trip` (as `bbperf` has it): 1 without a
/// queue, 10 if nine tenths of the bytes in flight are queued.
pub fn bloat_ratio(in_flight_bytes: f64, goodput_bps: f64, idle_rtt_ms: f64) -> Option<f64> {
    let holds = goodput_bps / 8.0 * idle_rtt_ms / 1_000.0;
    let ratio = in_flight_bytes / holds;
    (holds > 0.0 && ratio.is_finite() && ratio >= 0.0).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_change_exactly_at_their_edges() {
        let edges = [(5.0, "A+", "A"), (30.0, "A", "B"), (60.0, "B", "C"), (200.0, "C", "D"), (400.0, "D", "F")];
        for (edge, below, from) in edges {
            assert_eq!((letter(f64::next_down(edge)), letter(edge)), (below, from), "{edge} ms");
        }
        // By noise the loaded path may measure faster than the idle one.
        assert_eq!((letter(-3.0), letter(0.0), letter(1e9)), ("A+", "A+", "F"));
    }

    #[test]
    fn a_connection_is_graded_by_both_directions() {
        assert_eq!(grade(Some(2.0), Some(58.0)), Some("B"));
        assert_eq!(grade(None, Some(58.0)), Some("B"));
        assert_eq!(grade(Some(2.0), None), Some("A+"));
        assert_eq!(grade(None, None), None);
    }

    #[test]
    fn loss_bounds_the_letter() {
        for (edge, below, from) in
            [(0.01, None, "B"), (0.03, Some("B"), "C"), (0.1, Some("C"), "D"), (0.2, Some("D"), "F")]
        {
            assert_eq!((best_at_loss(f64::next_down(edge)), best_at_loss(edge)), (below, Some(from)), "{edge}");
        }
        assert_eq!((best_at_loss(0.0), best_at_loss(1.0)), (None, Some("F")));
        let order = ["A+", "A", "B", "C", "D", "F"];
        for (i, one) in order.iter().enumerate() {
            for (j, other) in order.iter().enumerate() {
                assert_eq!(is_worse(one, other), i > j, "{one} {other}");
            }
        }
    }

    #[test]
    fn the_ratio_of_a_full_buffer() {
        // 10 Mbit/s and 20 ms hold 25 kB; with 375 kB queued, 300 ms, sixteen times as much is under way.
        assert_eq!(bloat_ratio(400_000.0, 10e6, 20.0), Some(16.0));
        assert_eq!(bloat_ratio(25_000.0, 10e6, 20.0), Some(1.0));
        assert_eq!(bloat_ratio(1.0, 0.0, 20.0), None);
        assert_eq!(bloat_ratio(1.0, 1e6, 0.0), None);
        assert_eq!(bloat_ratio(f64::NAN, 1e6, 1.0), None);
    }
}
