//! Factors of checks.

use wavelane_base::UnitError;

/// A positive factor such as `"1.2"` or `"1/2"`, for checks.
pub(crate) fn parse_factor(text: &str) -> Result<f64, UnitError> {
    let number = |t: &str| {
        let plain = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        t.parse::<f64>().ok().filter(|v| plain && v.is_finite())
    };
    let value = match text.split_once('/') {
        Some((num, den)) => number(num).zip(number(den)).map(|(n, d)| n / d),
        None => number(text),
    };
    value.filter(|v| v.is_finite() && *v > 0.0).ok_or_else(|| UnitError {
        text: text.to_owned(),
        expected: "a factor above 0",
        example: "1.2",
        detail: String::new(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::parse_factor;

    #[test]
    fn factors_are_numbers_or_fractions_above_zero() {
        assert!((parse_factor("1/2").unwrap() - 0.5).abs() < 1e-12);
        for wrong in ["0", "inf", "", "-1", "1/0", "1.2x", "1/2/3"] {
            let why = parse_factor(wrong).unwrap_err().to_string();
            assert_eq!(why, format!("'{wrong}' is not a factor above 0, such as \"1.2\""));
        }
    }
}
