//! Unit texts of the configuration file: a number, a space, a unit.

use wavelane_base::{Octets, Rate, Span};

const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];
const TIMES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const RATES: [(&str, u64); 4] = [("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];

/// Splits `"20 Mbit/s"` and scales it exactly; at most three decimals.
fn scaled(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    let wrong = || {
        let known: Vec<&str> = units.iter().map(|(u, _)| *u).collect();
        format!("'{text}' needs a number, a space and one of {}, such as \"{example}\"", known.join(", "))
    };
    let (number, unit) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let &(_, scale) = units.iter().find(|(u, _)| *u == unit.trim()).ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 3 || !part.bytes().all(|b| b.is_ascii_digit()) || whole.is_empty() {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let thousandths: u64 = format!("{part:0<3}").parse().map_err(|_| wrong())?;
    let total = u128::from(whole) * 1_000 + u128::from(thousandths);
    u64::try_from(total * u128::from(scale) / 1_000).map_err(|_| wrong())
}

/// A size such as `"64 MiB"`.
pub(crate) fn octets(text: &str) -> Result<Octets, String> {
    scaled(text, &SIZES, "64 MiB").map(Octets::new)
}

/// A time such as `"50 ms"`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    scaled(text, &TIMES, "50 ms").map(Span::from_nanos)
}

/// A rate such as `"20 Mbit/s"`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    scaled(text, &RATES, "20 Mbit/s").map(Rate::from_bps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_scale_exactly_and_unknown_ones_are_refused() {
        assert_eq!(octets("64 MiB"), Ok(Octets::new(64 << 20)));
        assert_eq!(octets("1.5 kB"), Ok(Octets::new(1_500)));
        assert_eq!(span("0.25 ms"), Ok(Span::from_micros(250)));
        assert_eq!(rate("20 Mbit/s"), Ok(Rate::from_bps(20_000_000)));
        for wrong in ["64MiB", "64 MB/s", "-1 kB", "", "x kB", ".5 kB", "1.2345 kB", "99999999999999999999 GB"] {
            assert!(octets(wrong).is_err(), "{wrong}");
        }
        assert!(rate("20 MB/s").expect_err("bytes are not bits").contains("Mbit/s"));
    }
}
