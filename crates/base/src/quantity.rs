//! Quantities as text, parsed strictly and exactly: `"20 Mbit/s"`, `"50 ms"`, `"250 kB"`, `"1/20"`.
//!
//! A number is decimal digits with at most one point, then a space, then a unit with its exact case. A value that cannot be represented
//! exactly in the base unit (bit/s, ns, byte) is rejected instead of rounded.

use crate::{Octets, Rate, Ratio, Span};

/// A unit and its size in base units.
type Unit = (&'static str, u64);

const RATE_UNITS: &[Unit] = &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
const SPAN_UNITS: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const OCTET_UNITS: &[Unit] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Why a text is not the expected quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// The text in the file.
    pub text: String,
    /// The expected quantity, with its article.
    pub expected: &'static str,
    /// A valid example.
    pub example: &'static str,
    /// Details, beginning with `: `; or empty.
    pub detail: String,
}

impl core::fmt::Display for UnitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { text, expected, example, detail } = self;
        write!(f, "'{text}' is not {expected}, such as \"{example}\"{detail}")
    }
}

impl core::error::Error for UnitError {}

/// A quantity that can be written in a file.
pub trait Quantity: Sized {
    /// Its name, with its article.
    const EXPECTED: &'static str;
    /// An example.
    const EXAMPLE: &'static str;
    /// Parses it, or says what is wrong beyond "not a ...".
    fn read(text: &str) -> Result<Self, String>;
    /// Writes it so that `read` gives the same value.
    fn write(&self) -> String;
    /// What a text of it looks like, as a regular expression of JSON schema.
    fn pattern() -> String;
    /// Parses it with a full error.
    fn parse(text: &str) -> Result<Self, UnitError> {
        Self::read(text).map_err(|detail| UnitError {
            text: text.to_owned(),
            expected: Self::EXPECTED,
            example: Self::EXAMPLE,
            detail: if detail.is_empty() { detail } else { format!(": {detail}") },
        })
    }
}

/// Splits `"1.5 Mbit/s"` into its digits and unit.
fn split(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.is_empty() {
        return Err(String::new());
    }
    match rest.strip_prefix(' ') {
        Some(unit) if !unit.is_empty() && !unit.contains(char::is_whitespace) => Ok((number, unit)),
        _ if rest.trim().is_empty() => Err("the unit is missing".into()),
        _ => Err("write a number, one space and a unit".into()),
    }
}

/// `number` (decimal) times `scale`, exactly.
fn exactly(number: &str, scale: u64) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
        return Err("the number is malformed".into());
    }
    let too_large = || "the number is too large".to_owned();
    let fraction = fraction.trim_end_matches('0');
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let divisor = u32::try_from(fraction.len()).ok().and_then(|n| 10u128.checked_pow(n)).ok_or_else(too_large)?;
    let product = digits.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    if product % divisor != 0 {
        return Err("it has more decimals than can be kept exactly".into());
    }
    u64::try_from(product / divisor).map_err(|_| too_large())
}

fn read_scaled(text: &str, units: &[Unit]) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    match units.iter().find(|(name, _)| *name == unit) {
        Some(&(_, scale)) => exactly(number, scale),
        None => {
            let list: Vec<&str> = units.iter().map(|u| u.0).collect();
            Err(format!("unit '{unit}' is none of {}", list.join(", ")))
        }
    }
}

fn pattern_scaled(units: &[Unit]) -> String {
    let units: Vec<&str> = units.iter().map(|unit| unit.0).collect();
    format!("^[0-9]+([.][0-9]+)? ({})$", units.join("|"))
}

/// The value in the largest of `units` that gives a whole number.
fn write_scaled(value: u64, units: &[Unit]) -> String {
    let fitting = units.iter().filter(|u| value != 0 && value.is_multiple_of(u.1)).max_by_key(|u| u.1);
    let (name, scale) = fitting.copied().unwrap_or(units[0]);
    format!("{} {name}", value / scale)
}

impl Quantity for Rate {
    const EXPECTED: &'static str = "a rate";
    const EXAMPLE: &'static str = "20 Mbit/s";
    fn pattern() -> String {
        pattern_scaled(RATE_UNITS)
    }
    fn read(text: &str) -> Result<Self, String> {
        read_scaled(text, RATE_UNITS).map(Self::from_bps)
    }
    fn write(&self) -> String {
        write_scaled(self.as_bps(), RATE_UNITS)
    }
}

impl Quantity for Span {
    const EXPECTED: &'static str = "a time";
    const EXAMPLE: &'static str = "50 ms";
    fn pattern() -> String {
        pattern_scaled(SPAN_UNITS)
    }
    fn read(text: &str) -> Result<Self, String> {
        read_scaled(text, SPAN_UNITS).map(Self::from_nanos)
    }
    fn write(&self) -> String {
        // Minutes and hours are read but not written: "90 s" is easier to compare than "1.5 min".
        write_scaled(self.as_nanos(), &SPAN_UNITS[..4])
    }
}

impl Quantity for Octets {
    const EXPECTED: &'static str = "a size";
    const EXAMPLE: &'static str = "250 kB";
    fn pattern() -> String {
        pattern_scaled(OCTET_UNITS)
    }
    fn read(text: &str) -> Result<Self, String> {
        read_scaled(text, OCTET_UNITS).map(Self::new)
    }
    fn write(&self) -> String {
        write_scaled(self.get(), OCTET_UNITS)
    }
}

impl Quantity for Ratio {
    const EXPECTED: &'static str = "a share between 0 and 1";
    const EXAMPLE: &'static str = "1/20";
    fn pattern() -> String {
        "^([0-9]+/[0-9]+|[0-9]+([.][0-9]+)?)$".into()
    }
    fn read(text: &str) -> Result<Self, String> {
        let outside = || "it lies outside 0 to 1".to_owned();
        if let Some((num, den)) = text.split_once('/') {
            let (Ok(num), Ok(den)) = (num.parse::<u32>(), den.parse::<u32>()) else {
                return Err(String::new());
            };
            return Self::new(num, den).ok_or_else(outside);
        }
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(String::new());
        }
        const DECIMALS: u32 = 1_000_000_000;
        let num = exactly(text, u64::from(DECIMALS))?;
        let num = u32::try_from(num).map_err(|_| outside())?;
        let common = gcd(num, DECIMALS);
        Self::new(num / common, DECIMALS / common).ok_or_else(outside)
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
#[path = "quantity_tests.rs"]
mod tests;
