//! Functions of real numbers that give the same bits on every machine. The standard library's come from the platform and
//! differ in the last place (`f64::ln`, "Unspecified precision"); pure rooms may not use them.

/// The natural logarithm.
pub fn log_e(x: f64) -> f64 {
    libm::log(x)
}

/// Euler's number to the power of `x`.
pub fn exponential(x: f64) -> f64 {
    libm::exp(x)
}

/// `base` to the power of `exponent`.
pub fn power(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

/// The cube root.
pub fn cube_root(x: f64) -> f64 {
    libm::cbrt(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits that every other machine must produce too, whether correctly rounded or not.
    #[test]
    fn they_are_the_same_bits_everywhere() {
        assert_eq!(log_e(2.0).to_bits(), core::f64::consts::LN_2.to_bits());
        assert_eq!(log_e(0.1).to_bits(), 0xc002_6bb1_bbb5_5515);
        assert_eq!(exponential(1.0).to_bits(), core::f64::consts::E.to_bits() + 1);
        assert_eq!(power(2.0, 0.5).to_bits(), core::f64::consts::SQRT_2.to_bits());
        assert_eq!(power(0.9, 3.0).to_bits(), 0x3fe7_53f7_ced9_1688);
        assert_eq!(cube_root(27.0).to_bits(), 3.0f64.to_bits());
    }
}
