//! Values for people: three digits in the unit that suits them.

/// Decimals that make three digits.
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

/// With so many decimals, without zeros at the end of a fraction.
fn digits(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Larger and smaller units of a base unit, the largest first: from which value on, and what one of it is.
fn scales(unit: &str) -> &'static [(f64, f64, &'static str)] {
    match unit {
        "bit/s" => &[(1e9, 1e9, "Gbit/s"), (1e6, 1e6, "Mbit/s"), (1e3, 1e3, "kbit/s")],
        "ms" => &[(10_000.0, 1e3, "s"), (0.1, 1.0, "ms"), (0.0, 1e-3, "us")],
        "s" => &[(0.1, 1.0, "s"), (0.0, 1e-3, "ms")],
        "B" | "bytes" => &[(1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB")],
        _ => &[],
    }
}

/// What `unit` is called and divided by for a value of this size.
pub(crate) fn unit_for(value: f64, unit: &str) -> (f64, String) {
    let found = scales(unit).iter().find(|(from, _, _)| value.abs() >= *from && value != 0.0);
    found.map_or_else(|| (1.0, unit.to_owned()), |(_, by, name)| (*by, (*name).to_owned()))
}

/// `3.53 Gbit/s`, `18.2 ± 0.4 Mbit/s`, `97 ms`; numbers without a unit stand alone.
pub fn human(value: f64, half: Option<f64>, unit: &str) -> String {
    let (by, name) = unit_for(value, unit);
    // An interval is as exact as its value.
    let decimals = decimals(value / by);
    let half = half.map_or(String::new(), |half| format!(" \u{b1} {}", digits(half / by, decimals)));
    let name = if matches!(name.as_str(), "" | "ratio" | "1") { String::new() } else { format!(" {name}") };
    format!("{}{half}{name}", digits(value / by, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_the_unit_that_suits_them() {
        for (value, half, unit, text) in [
            (3_534_000_000.0, None, "bit/s", "3.53 Gbit/s"),
            (18_190_000.0, Some(400_000.0), "bit/s", "18.2 \u{b1} 0.4 Mbit/s"),
            (30_200.0, None, "bit/s", "30.2 kbit/s"),
            (97.4, Some(1.26), "ms", "97.4 \u{b1} 1.3 ms"),
            (4_760_000.0, Some(2_740.0), "bit/s", "4.76 \u{b1} 0 Mbit/s"),
            (12_345.0, None, "ms", "12.3 s"),
            (0.8671, Some(0.01), "ratio", "0.867 \u{b1} 0.01"),
            (0.0, None, "ms", "0 ms"),
            (250.0, None, "frames", "250 frames"),
        ] {
            assert_eq!(human(value, half, unit), text);
        }
    }
}
