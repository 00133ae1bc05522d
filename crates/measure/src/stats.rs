//! Means, spreads, confidence and fairness.

/// Arithmetic mean; `None` without samples, or if one of them is not finite.
pub fn mean(samples: &[f64]) -> Option<f64> {
    let finite = samples.iter().all(|x| x.is_finite());
    (!samples.is_empty() && finite).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Sample standard deviation, with `n - 1` below; `None` below two samples, or if one of them is not finite.
pub fn sample_deviation(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt())
}

/// The mean and the half-width of its 95 % confidence interval, `t(0.975, n - 1) * s / sqrt(n)`, which needs two samples.
///
/// It holds for independent, roughly normal samples: one figure per run of a repeated scenario, not the samples
/// within one run.
pub fn mean_ci95(samples: &[f64]) -> Option<(f64, Option<f64>)> {
    let mean = mean(samples)?;
    let freedom = u32::try_from(samples.len() - 1).ok()?;
    let half =
        student_t_975(freedom).zip(sample_deviation(samples)).map(|(t, s)| t * s / (samples.len() as f64).sqrt());
    Some((mean, half))
}

/// The nearest-rank quantile of values in ascending order: the one of rank `ceil(n * numerator / denominator)`, at least
/// the first; `None` without values.
pub fn quantile(sorted: &[f64], numerator: u64, denominator: u64) -> Option<f64> {
    let rank = (sorted.len() as u64 * numerator).div_ceil(denominator).max(1);
    sorted.get(usize::try_from(rank).ok()? - 1).copied()
}

/// The nearest-rank percentile of values in ascending order.
pub fn percentile(sorted: &[f64], percent: u64) -> Option<f64> {
    quantile(sorted, percent, 100)
}

/// `t(0.975)` for 1 to 30 degrees of freedom, from the finite sums for the distribution function in Abramowitz and
/// Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
const T_975: [f64; 30] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157, 2.228_139,
    2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905, 2.109_816, 2.100_922, 2.093_024, 2.085_963,
    2.079_614, 2.073_873, 2.068_658, 2.063_899, 2.059_539, 2.055_529, 2.051_831, 2.048_407, 2.045_230, 2.042_272,
];

/// The 0.975 point of the standard normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;

/// The 0.975 point of Student's t with `freedom` degrees of freedom; `None` at zero.
///
/// Above 30 by the expansion of Abramowitz and Stegun 26.7.5, which is right to 0.000 002 there.
pub fn student_t_975(freedom: u32) -> Option<f64> {
    if freedom == 0 {
        return None;
    }
    if let Some(t) = T_975.get(freedom as usize - 1) {
        return Some(*t);
    }
    let (z, v) = (Z_975, f64::from(freedom));
    let (z3, z5, z7) = (z * z * z, z * z * z * z * z, z * z * z * z * z * z * z);
    let first = (z3 + z) / (4.0 * v);
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v);
    let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v * v * v);
    Some(z + first + second + third)
}

/// Jain's fairness index `(sum x)^2 / (n * sum x^2)`: 1 if all get the same, `1/n` if one gets everything.
///
/// R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984. `None` without shares, if all
/// are zero, or if one is negative or not finite.
pub fn jain(shares: &[f64]) -> Option<f64> {
    if shares.iter().any(|x| !x.is_finite() || *x < 0.0) {
        return None;
    }
    let largest = shares.iter().fold(0.0, |a: f64, &b| a.max(b));
    if largest == 0.0 {
        return None;
    }
    // Scaled by the largest, so that no square overflows; the index does not depend on the scale.
    let sum: f64 = shares.iter().map(|x| x / largest).sum();
    let squares: f64 = shares.iter().map(|x| (x / largest) * (x / largest)).sum();
    Some(sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    /// Upper critical values at 0.025, as printed in the NIST/SEMATECH e-Handbook of Statistical Methods,
    /// section 1.3.6.7.2: 1 to 30 degrees of freedom.
    const NIST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    /// The same table further down: degrees of freedom and value.
    const NIST_LARGE: [(u32, f64); 4] = [(40, 2.021), (60, 2.000), (80, 1.990), (100, 1.984)];

    #[test]
    fn student_t_agrees_with_the_published_table() {
        for (i, published) in NIST.iter().enumerate() {
            let t = student_t_975(i as u32 + 1).unwrap();
            assert!((t - published).abs() < 0.000_51, "{} degrees of freedom: {t} against {published}", i + 1);
        }
        for (freedom, published) in NIST_LARGE {
            let t = student_t_975(freedom).unwrap();
            assert!((t - published).abs() < 0.000_51, "{freedom} degrees of freedom: {t} against {published}");
        }
        assert!(student_t_975(0).is_none());
        assert!((student_t_975(u32::MAX).unwrap() - 1.959_964).abs() < 1e-6);
    }

    #[test]
    fn student_t_falls_with_every_degree_of_freedom_across_the_seam() {
        let points: Vec<f64> = (1..200).map(|f| student_t_975(f).unwrap()).collect();
        assert!(points.windows(2).all(|w| w[1] < w[0]));
    }

    #[test]
    fn the_interval_of_a_worked_example() {
        // 2, 4, 4, 6: mean 4, deviation sqrt(8/3), half-width 3.182446 * 1.632993 / 2 = 2.598457 by hand.
        let (mean, half) = mean_ci95(&[2.0, 4.0, 4.0, 6.0]).unwrap();
        assert!(mean == 4.0 && (half.unwrap() - 2.598_457).abs() < 1e-6);
        assert_eq!(mean_ci95(&[3.0]), Some((3.0, None)));
        assert_eq!(mean_ci95(&[]), None);
        assert_eq!(mean_ci95(&[1.0, f64::NAN]), None);
        assert_eq!(mean_ci95(&[5.0; 9]), Some((5.0, Some(0.0))));
    }

    #[test]
    fn quantiles_are_nearest_rank() {
        // Wikipedia, "Percentile", nearest-rank method, worked example 2.
        let sorted = [15.0, 20.0, 35.0, 40.0, 50.0];
        let found = [5, 30, 40, 50, 100, 0].map(|percent| percentile(&sorted, percent).unwrap());
        assert_eq!(found, [15.0, 20.0, 20.0, 35.0, 50.0, 15.0]);
        assert_eq!((quantile(&sorted, 999, 1_000), percentile(&[], 50)), (Some(50.0), None));
    }

    #[test]
    fn jain_of_published_allocations() {
        // Goodput per node in kbit/s, Petrovic and Aboelaze, Table 2; indices worked out by hand from it.
        for (shares, index) in [
            ([7.05, 20.54, 15.09, 0.0, 13.6], 0.7164),
            ([53.29, 71.1, 56.16, 89.42, 1.18], 0.7720),
            ([1.25, 157.11, 0.63, 117.29, 214.5], 0.5704),
        ] {
            assert!((jain(&shares).unwrap() - index).abs() < 0.000_05);
        }
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[9.0, 0.0, 0.0, 0.0]), Some(0.25));
        // Jain, Chiu and Hawe, section 3: if k of n share equally and the rest get nothing, the index is k / n.
        assert!((jain(&[7.0, 7.0, 7.0, 0.0, 0.0]).unwrap() - 0.6).abs() < 1e-12);
    }

    #[test]
    fn jain_does_not_depend_on_the_unit_and_refuses_nonsense() {
        let (bits, gigabits) = ([2e200, 1e200], [2.0, 1.0]);
        assert_eq!(jain(&bits), jain(&gigabits));
        for nonsense in [&[] as &[f64], &[0.0, 0.0], &[1.0, -1.0], &[1.0, f64::INFINITY]] {
            assert_eq!(jain(nonsense), None, "{nonsense:?}");
        }
    }
}
