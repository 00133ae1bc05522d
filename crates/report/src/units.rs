//! Values for display: three digits in a suitable unit.

/// Number of decimals that gives three digits.
fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.01 => 4,
        _ => 5,
    }
}

/// Formats with this many decimals, without trailing zeros.
fn digits(value: f64, decimals: usize) -> String {
    without_zeros(format!("{value:.decimals$}"))
}

fn without_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Multiples and fractions of a base unit, the largest first: the value from which it is used, and its size.
fn scales(unit: &str) -> &'static [(f64, f64, &'static str)] {
    match unit {
        "bit/s" => &[(1e9, 1e9, "Gbit/s"), (1e6, 1e6, "Mbit/s"), (1e3, 1e3, "kbit/s")],
        "ms" => &[(10_000.0, 1e3, "s"), (0.1, 1.0, "ms"), (0.0, 1e-3, "us")],
        "s" => &[(0.1, 1.0, "s"), (0.0, 1e-3, "ms")],
        "B" | "bytes" => &[(1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB")],
        _ => &[],
    }
}

/// Whether a unit only says what kind of number it is: a metric's name says that already.
fn is_number(unit: &str) -> bool {
    matches!(unit, "" | "1" | "ratio" | "share" | "index")
}

/// The name and divisor of `unit` for a value of this size.
pub(crate) fn unit_for(value: f64, unit: &str) -> (f64, String) {
    let found = scales(unit).iter().find(|(from, _, _)| value.abs() >= *from && value != 0.0);
    found.map_or_else(|| (1.0, unit.to_owned()), |(_, by, name)| (*by, (*name).to_owned()))
}

/// Maximum additional decimals for a half-width smaller than the value's last digit; a smaller half-width is omitted.
const FINER_MAX: usize = 2;

/// A half-width with this many decimals, or as many as its first digit needs; `None` for zero, where all values are equal.
pub(crate) fn half_width(half: f64, decimals: usize) -> Option<String> {
    let first = |half: f64| (-half.log10()).floor().max(0.0) as usize + 1;
    let text = format!("{half:.decimals$}");
    match text.parse::<f64>() {
        _ if half <= 0.0 || !half.is_finite() => None,
        Ok(0.0) if first(half) > decimals + FINER_MAX => None,
        Ok(0.0) => Some(digits(half, first(half))),
        _ => Some(text),
    }
}

/// A mean with this many decimals, and its half-width.
pub(crate) fn with_half(mean: f64, half: Option<f64>, decimals: usize) -> String {
    let half = half.and_then(|half| half_width(half, decimals)).map_or(String::new(), |half| format!(" ±{half}"));
    format!("{mean:.decimals$}{half}")
}

/// A value with its half-width in another unit, without that unit's name: three digits of the value.
pub(crate) fn scaled(value: f64, half: Option<f64>, by: f64) -> String {
    let decimals = decimals(value / by);
    let half = half.and_then(|half| half_width(half / by, decimals));
    let half = half.map_or(String::new(), |half| format!(" \u{b1} {}", without_zeros(half)));
    digits(value / by, decimals) + &half
}

/// Values further apart than this factor have no common unit.
const IN_COMMON_MAX: f64 = 1e4;

/// One unit for all values of a column or a metric.
#[derive(Clone, PartialEq, Debug)]
pub struct CommonUnit {
    /// Its size in the base unit.
    pub(crate) by: f64,
    /// Its name; empty for numbers without a unit.
    pub name: String,
}

impl CommonUnit {
    /// The unit that suits the median value; `None` if the values are too far apart.
    pub fn of(values: impl Iterator<Item = f64>, unit: &str) -> Option<Self> {
        let mut sizes: Vec<f64> = values.map(f64::abs).filter(|v| *v > 0.0 && v.is_finite()).collect();
        sizes.sort_by(f64::total_cmp);
        let (by, name) = unit_for(sizes.get(sizes.len() / 2).copied().unwrap_or(0.0), unit);
        let far = sizes.first().zip(sizes.last()).is_some_and(|(least, most)| most / least > IN_COMMON_MAX);
        let name = if is_number(&name) { String::new() } else { name };
        (!far).then_some(Self { by, name })
    }

    /// Only the number, with its half-width.
    pub fn number(&self, value: f64, half: Option<f64>) -> String {
        scaled(value, half, self.by)
    }

    /// With the unit.
    pub fn words(&self, value: f64, half: Option<f64>) -> String {
        format!("{} {}", self.number(value, half), self.name).trim_end().to_owned()
    }
}

/// `3.53 Gbit/s`, `18.2 ± 0.4 Mbit/s`, `97 ms`; numbers without a unit have no suffix.
pub fn human(value: f64, half: Option<f64>, unit: &str) -> String {
    let (by, name) = unit_for(value, unit);
    let name = if is_number(&name) { String::new() } else { format!(" {name}") };
    scaled(value, half, by) + &name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_unit() {
        let of = |values: &[f64]| CommonUnit::of(values.iter().copied(), "bit/s");
        let unit = of(&[980_000.0, 4.7e6, 18.2e6]).expect("near enough");
        assert_eq!((unit.name.as_str(), unit.number(980_000.0, None)), ("Mbit/s", "0.98".to_owned()));
        assert_eq!(unit.words(18.2e6, Some(400_000.0)), "18.2 \u{b1} 0.4 Mbit/s");
        assert_eq!(of(&[1e3, 1e9]), None);
        assert_eq!(CommonUnit::of([0.5].into_iter(), "ratio").expect("one value").words(0.5, None), "0.5");
    }

    #[test]
    fn values_stand_in_the_unit_that_suits_them() {
        for (value, half, unit, text) in [
            (3_534_000_000.0, None, "bit/s", "3.53 Gbit/s"),
            (18_190_000.0, Some(400_000.0), "bit/s", "18.2 \u{b1} 0.4 Mbit/s"),
            (30_200.0, None, "bit/s", "30.2 kbit/s"),
            (97.4, Some(1.26), "ms", "97.4 \u{b1} 1.3 ms"),
            (4_760_000.0, Some(2_740.0), "bit/s", "4.76 \u{b1} 0.003 Mbit/s"),
            (101.0, Some(0.04), "ms", "101 \u{b1} 0.04 ms"),
            (101.0, Some(0.0), "ms", "101 ms"),
            (17_300_000.0, Some(0.5), "bit/s", "17.3 Mbit/s"),
            (12_345.0, None, "ms", "12.3 s"),
            (0.8671, Some(0.01), "ratio", "0.867 \u{b1} 0.01"),
            (0.0, None, "ms", "0 ms"),
            (0.9, None, "share", "0.9"),
            (0.583, None, "index", "0.583"),
            (250.0, None, "frames", "250 frames"),
        ] {
            assert_eq!(human(value, half, unit), text);
        }
    }
}
