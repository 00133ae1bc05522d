//! Responsiveness under working conditions in round trips per minute: draft-ietf-ippm-responsiveness-09. Drafts before it
//! compute something else from the same samples, so a score always stands beside [`RPM_DRAFT`].

use crate::stats::{mean, sample_deviation};

/// The draft by which scores are computed.
pub const RPM_DRAFT: &str = "draft-ietf-ippm-responsiveness-09";
/// Number of last intervals used (MAD, moving average distance).
pub const RPM_INTERVALS: usize = 4;
/// The draft's interval (ID) in seconds.
pub const RPM_INTERVAL_S: f64 = 5.0;
/// The worst twentieth of the samples is excluded (TMP, 95 %).
const TRIMMED_ONE_IN: usize = 20;
/// Averages that deviate by less than this share are stable (SDT).
const STABLE_SHARE: f64 = 0.05;
const MS_PER_MINUTE: f64 = 60_000.0;

/// Samples of one interval, in milliseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RpmInterval {
    /// TCP handshakes of new connections (`tcp_f`).
    pub tcp_ms: Vec<f64>,
    /// TLS handshakes of new connections, each over its number of round trips (`tls_f`); empty without TLS.
    pub tls_ms: Vec<f64>,
    /// Requests on new connections (`http_f`).
    pub request_ms: Vec<f64>,
    /// Requests on connections that carry load (`http_l`).
    pub loaded_ms: Vec<f64>,
    /// Goodput of the load, in bits per second.
    pub goodput_bps: f64,
}

/// The confidence of a score.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confidence {
    /// Fewer than [`RPM_INTERVALS`] intervals.
    Low,
    /// Enough intervals, but goodput or score still moved.
    Medium,
    /// Both were stable.
    High,
}

impl Confidence {
    /// The draft's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rpm {
    /// Round trips per minute: the mean of the next two.
    pub rpm: f64,
    /// By connections that carry nothing else.
    pub foreign: f64,
    /// By connections that carry load.
    pub loaded: f64,
    /// Its confidence.
    pub confidence: Confidence,
}

/// The mean without the worst twentieth, rounded down to whole samples; `None` without samples.
pub fn trimmed_mean(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    mean(&sorted[..sorted.len() - sorted.len() / TRIMMED_ONE_IN])
}

/// The score of the last [`RPM_INTERVALS`] intervals. `None` if they hold no sample of one kind (without TLS, of that kind).
pub fn rpm(intervals: &[RpmInterval]) -> Option<Rpm> {
    let (foreign, loaded) = parts(last(intervals))?;
    let confidence = match intervals.len() {
        0..RPM_INTERVALS => Confidence::Low,
        _ if stable(intervals) => Confidence::High,
        _ => Confidence::Medium,
    };
    Some(Rpm { rpm: (foreign + loaded) / 2.0, foreign, loaded, confidence })
}

/// The most that a score can be where `ranked_ms` are the round trips of packets beside the load, lost ones ranked by
/// [`crate::ranked_ms`]. The draft has samples only of what was answered; with more than its excluded twentieth lost, the rest says little.
/// `None` if no more than that was lost.
pub fn rpm_bound(ranked_ms: &[f64], lost: usize) -> Option<f64> {
    let told = lost > ranked_ms.len() / TRIMMED_ONE_IN;
    trimmed_mean(ranked_ms).filter(|_| told).map(|ms| MS_PER_MINUTE / ms)
}

fn last<T>(of: &[T]) -> &[T] {
    &of[of.len().saturating_sub(RPM_INTERVALS)..]
}

fn parts(intervals: &[RpmInterval]) -> Option<(f64, f64)> {
    let all = |pick: fn(&RpmInterval) -> &Vec<f64>| {
        let samples: Vec<f64> = intervals.iter().flat_map(|i| pick(i).iter().copied()).collect();
        trimmed_mean(&samples)
    };
    let (tcp, request, loaded) = (all(|i| &i.tcp_ms)?, all(|i| &i.request_ms)?, all(|i| &i.loaded_ms)?);
    // Without TLS its term is left out: zero would count as an instant round trip.
    let kinds: Vec<f64> = [tcp, request].into_iter().chain(all(|i| &i.tls_ms)).collect();
    let scores = (MS_PER_MINUTE / mean(&kinds)?, MS_PER_MINUTE / loaded);
    (scores.0.is_finite() && scores.1.is_finite()).then_some(scores)
}

/// Whether the last averages of goodput and the last scores all lie close together.
fn stable(intervals: &[RpmInterval]) -> bool {
    let upto = |end: usize| last(&intervals[..end]);
    let ends = || (1..=intervals.len()).skip(intervals.len().saturating_sub(RPM_INTERVALS));
    let goodput = |end| mean(&upto(end).iter().map(|i| i.goodput_bps).collect::<Vec<f64>>());
    let score = |end| parts(upto(end)).map(|(foreign, loaded)| (foreign + loaded) / 2.0);
    let close = |values: Option<Vec<f64>>| {
        let Some(values) = values else { return false };
        let (Some(deviation), Some(now)) = (sample_deviation(&values), values.last()) else { return false };
        deviation < STABLE_SHARE * now
    };
    close(ends().map(goodput).collect()) && close(ends().map(score).collect())
}

/// The draft's class of a score.
pub fn rpm_class(rpm: f64) -> &'static str {
    match rpm {
        r if r < 300.0 => "poor",
        r if r < 1_000.0 => "fair",
        r if r < 6_000.0 => "good",
        _ => "excellent",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    fn interval(tcp: f64, tls: Option<f64>, request: f64, loaded: f64, goodput_bps: f64) -> RpmInterval {
        let tls_ms = tls.into_iter().flat_map(|t| vec![t; 20]).collect();
        RpmInterval {
            tcp_ms: vec![tcp; 20],
            tls_ms,
            request_ms: vec![request; 20],
            loaded_ms: vec![loaded; 20],
            goodput_bps,
        }
    }

    #[test]
    fn fixed_delays_give_the_closed_form() {
        // Foreign 60 ms and loaded 20 ms: (1000 + 3000) / 2; draft 03 gave 1500 for the same.
        let score = rpm(&vec![interval(60.0, Some(60.0), 60.0, 20.0, 1e7); 4]).unwrap();
        assert!((score.rpm - 2_000.0).abs() < 1e-9 && score.confidence == Confidence::High, "{score:?}");
        // Without TLS the mean is over two kinds: 60000 / 40, and 60000 / 100.
        let score = rpm(&[interval(20.0, None, 60.0, 100.0, 1e7)]).unwrap();
        assert!((score.foreign - 1_500.0).abs() < 1e-9 && (score.loaded - 600.0).abs() < 1e-9);
        assert!((score.rpm - 1_050.0).abs() < 1e-9 && score.confidence == Confidence::Low);
    }

    #[test]
    fn jitter_around_a_delay_stays_within_a_hundredth() {
        // Saw-teeth of +-20 % about the delay: without the worst twentieth they reach from 80 to 118 %, 99 % in the mean.
        let saw = |centre: f64| (0..205).map(|i| centre * (0.8 + 0.4 * f64::from(i % 41) / 40.0)).collect::<Vec<f64>>();
        let one = RpmInterval {
            tcp_ms: saw(50.0),
            tls_ms: Vec::new(),
            request_ms: saw(50.0),
            loaded_ms: saw(120.0),
            goodput_bps: 1e7,
        };
        let score = rpm(&vec![one; 6]).unwrap();
        let truth = (60_000.0 / 50.0 + 60_000.0 / 120.0) / 2.0 / 0.99;
        assert!((score.rpm / truth - 1.0).abs() < 0.002, "{score:?} against {truth}");
    }

    #[test]
    fn the_worst_twentieth_is_left_out_and_no_more() {
        let mut samples = vec![10.0; 19];
        samples.push(1e9);
        assert_eq!(trimmed_mean(&samples), Some(10.0));
        samples.pop();
        samples[3] = 29.0;
        assert_eq!(trimmed_mean(&samples), Some(11.0), "a twentieth of nineteen is no whole sample");
        assert_eq!(trimmed_mean(&[]), None);
    }

    #[test]
    fn confidence_follows_the_number_of_intervals_and_their_spread() {
        let at = |loaded, goodput| interval(20.0, None, 20.0, loaded, goodput);
        let grows: Vec<_> = (1..=8).map(|i| at(20.0, f64::from(i) * 1e6)).collect();
        let worsens: Vec<_> = (1..=8).map(|i| at(20.0 * f64::from(i), 1e7)).collect();
        assert_eq!(rpm(&grows[..3]).unwrap().confidence, Confidence::Low);
        assert_eq!(rpm(&grows).unwrap().confidence, Confidence::Medium);
        assert_eq!(rpm(&worsens).unwrap().confidence, Confidence::Medium);
        assert_eq!(rpm(&vec![at(20.0, 1e7); 4]).unwrap().confidence, Confidence::High);
    }

    #[test]
    fn a_kind_without_samples_gives_no_score() {
        let mut without = interval(20.0, None, 20.0, 20.0, 1e7);
        without.loaded_ms.clear();
        assert_eq!(rpm(&[without]), None);
        assert_eq!(rpm(&[]), None);
        assert_eq!(rpm(&[interval(0.0, None, 0.0, 0.0, 1e7)]), None, "no time at all is no rate");
    }

    #[test]
    fn losses_beyond_the_excluded_twentieth_bound_a_score() {
        let at = |lost: usize| {
            let delays = (0..100).map(|i| (i >= lost).then_some(20.0));
            rpm_bound(&crate::ranked_ms(delays), lost)
        };
        assert_eq!((at(0), at(5)), (None, None));
        assert!(at(6).unwrap() < 60_000.0 / 20.0 && at(6) > at(20));
        // Of 95 that count, 45 take 5 s.
        assert!((at(50).unwrap() - 60_000.0 / (45.0 * 5_000.0 + 50.0 * 20.0) * 95.0).abs() < 1e-9);
        assert_eq!(at(100), Some(12.0));
    }

    #[test]
    fn classes_begin_at_200_60_and_10_ms() {
        let words = [299.9, 300.0, 999.9, 1_000.0, 5_999.9, 6_000.0].map(rpm_class);
        assert_eq!(words, ["poor", "fair", "fair", "good", "good", "excellent"]);
    }
}
