//! The source document's forward error correction: a code of rate 0.71, used while the channel is bad.

use super::{BitErrors, ConfigError};
use crate::loss::all_survive;
use wavelane_base::{Ratio, Span};

/// Bounds of the length of a Reed-Solomon code, in symbols.
pub const RS_LENGTHS: core::ops::RangeInclusive<u16> = 7..=255;
/// A code has at least one bit of information in this many.
const RATE_LEAST: u64 = 4;
/// Maximum age of the channel state used by a sender.
pub const FEEDBACK_MAX: Span = Span::from_millis(20);

/// Forward error correction that a sender uses while its estimate of the channel to the receiver is the bad state. Broadcast
/// frames are never coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fec {
    /// The code.
    pub code: FecCode,
    /// Which frames are coded.
    pub frames: FecFrames,
    /// Age of the channel state known to the sender; zero is the document's "known at once".
    pub feedback: Span,
}

/// The cost and strength of the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FecCode {
    /// As the document says: bits sent in the bad state are in error with this probability after decoding, independently,
    /// and the airtime grows by the inverse of the rate.
    Residual {
        /// Bit error probability in the bad state after decoding.
        ber: Ratio,
        /// Bits before coding over bits after.
        rate: Ratio,
    },
    /// A Reed-Solomon code of `length` symbols, `data` of them information, one after the other without interleaving; a
    /// symbol has log2(`length` + 1) bits. A block with at most (length - data) / 2 symbols in error is corrected, any other
    /// one makes the frame fail. The last block is shortened.
    ReedSolomon {
        /// Symbols of a block.
        length: u16,
        /// Of these, information.
        data: u16,
    },
}

/// Which frames are coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FecFrames {
    /// Data frames alone.
    Data,
    /// Data, RTS, CTS and ACK. Durations and timeouts then allow for coded responses.
    All,
}

impl FecCode {
    /// Residual error of RS(31,22) at a bit error rate of 1/100: 5.7e-4 at rate 0.71.
    pub const RESIDUAL_31_22: Self = Self::residual(57);
    /// Residual error of RS(63,45): 9.8e-5.
    pub const RESIDUAL_63_45: Self = Self::residual_e6(98);
    /// Residual error of RS(255,181): 1.6e-6.
    pub const RESIDUAL_255_181: Self = Self::residual_e7(16);
    /// RS(31,22), symbols of 5 bits, corrects 4.
    pub const RS_31_22: Self = Self::ReedSolomon { length: 31, data: 22 };
    /// RS(63,45), symbols of 6 bits, corrects 9.
    pub const RS_63_45: Self = Self::ReedSolomon { length: 63, data: 45 };
    /// RS(255,181), symbols of 8 bits, corrects 37.
    pub const RS_255_181: Self = Self::ReedSolomon { length: 255, data: 181 };

    const fn documented(ber: Option<Ratio>) -> Self {
        match (ber, Ratio::new(71, 100)) {
            (Some(ber), Some(rate)) => Self::Residual { ber, rate },
            _ => unreachable!(),
        }
    }
    const fn residual(e5: u32) -> Self {
        Self::documented(Ratio::new(e5, 100_000))
    }
    const fn residual_e6(e6: u32) -> Self {
        Self::documented(Ratio::new(e6, 1_000_000))
    }
    const fn residual_e7(e7: u32) -> Self {
        Self::documented(Ratio::new(e7, 10_000_000))
    }
    /// Bytes on the air for `octets` of frame.
    pub fn coded(self, octets: usize) -> usize {
        match self {
            Self::Residual { rate, .. } => (octets * rate.den() as usize).div_ceil(rate.num() as usize),
            Self::ReedSolomon { length, data } => {
                let (symbols, blocks) = split(octets, data, symbol_bits(length));
                let parity = blocks * usize::from(length - data);
                ((symbols + parity) * symbol_bits(length)).div_ceil(8)
            }
        }
    }
    pub(super) fn check(self) -> Result<(), ConfigError> {
        match self {
            // With a code rate below 1/4, frames would last longer than the burst history is kept.
            Self::Residual { rate, .. } if u64::from(rate.num()) * RATE_LEAST < u64::from(rate.den()) => {
                Err(ConfigError::CodeRate(rate))
            }
            Self::ReedSolomon { length, data }
                if !RS_LENGTHS.contains(&length)
                    || !(length + 1).is_power_of_two()
                    || data == 0
                    || data >= length
                    || (length - data) < 2
                    || u64::from(data) * RATE_LEAST < u64::from(length) =>
            {
                Err(ConfigError::Code { length, data })
            }
            _ => Ok(()),
        }
    }
}

fn symbol_bits(length: u16) -> usize {
    (length + 1).ilog2() as usize
}
/// Information symbols of a frame, and the blocks they fill.
fn split(octets: usize, data: u16, bits: usize) -> (usize, usize) {
    let symbols = (octets * 8).div_ceil(bits);
    (symbols, symbols.div_ceil(usize::from(data)))
}

/// A code for one bit error process, with precomputed probabilities.
#[derive(Debug)]
pub(super) struct Decoder {
    code: FecCode,
    in_good: Ratio,
    /// For a Reed-Solomon code: the probability of exactly i errors among j symbols sent in the bad state, at `j * width + i`.
    exactly_bad: Vec<f64>,
    /// The probability of at most i errors among j symbols sent in the good state.
    at_most_good: Vec<f64>,
    /// One more than the number of errors that the code corrects.
    width: usize,
}

impl Decoder {
    pub(super) fn new(code: FecCode, errors: &BitErrors) -> Self {
        let mut this =
            Self { code, in_good: errors.in_good, exactly_bad: Vec::new(), at_most_good: Vec::new(), width: 0 };
        if let FecCode::ReedSolomon { length, data } = code {
            this.width = usize::from(length - data) / 2 + 1;
            let symbol_error = |ber| 1.0 - all_survive(ber, symbol_bits(length) as u64);
            this.exactly_bad = binomials(usize::from(length), this.width, symbol_error(errors.in_bad));
            this.at_most_good = binomials(usize::from(length), this.width, symbol_error(errors.in_good));
            for row in this.at_most_good.chunks_mut(this.width) {
                for i in 1..row.len() {
                    row[i] += row[i - 1];
                }
            }
        }
        this
    }
    /// The probability that a coded frame of `octets` is received. `bad_share(a, b)` is the fraction of time in the bad
    /// state between the fractions a and b of the frame's airtime.
    pub(super) fn survival(&self, octets: usize, mut bad_share: impl FnMut(f64, f64) -> f64) -> f64 {
        match self.code {
            FecCode::Residual { ber, .. } => {
                let bits = octets as u64 * 8;
                let bad = ((bits as f64 * bad_share(0.0, 1.0)).round() as u64).min(bits);
                all_survive(self.in_good, bits - bad) * all_survive(ber, bad)
            }
            FecCode::ReedSolomon { length, data } => {
                let (symbols, blocks) = split(octets, data, symbol_bits(length));
                let (data, parity) = (usize::from(data), usize::from(length - data));
                let all = (symbols + blocks * parity) as f64;
                let (mut begun, mut product) = (0, 1.0);
                for block in 0..blocks {
                    let size = (symbols - block * data).min(data) + parity;
                    let share = bad_share(begun as f64 / all, (begun + size) as f64 / all);
                    let bad = ((size as f64 * share).round() as usize).min(size);
                    product *= self.mended(bad, size - bad);
                    begun += size;
                }
                product
            }
        }
    }
    /// The probability that a block is corrected, given its numbers of symbols sent in the bad and in the good state.
    fn mended(&self, bad: usize, good: usize) -> f64 {
        let row = |table: &'_ [f64], j: usize, i: usize| table[j * self.width + i];
        (0..self.width)
            .map(|i| row(&self.exactly_bad, bad, i) * row(&self.at_most_good, good, self.width - 1 - i))
            .sum()
    }
}

/// The probability of exactly i errors among j symbols, for j up to `length` and i below `width`, at `j * width + i`.
fn binomials(length: usize, width: usize, p: f64) -> Vec<f64> {
    let mut table = vec![0.0; (length + 1) * width];
    table[0] = 1.0;
    for j in 1..=length {
        for i in 0..width {
            let before = table[(j - 1) * width + i] * (1.0 - p);
            let one_less = if i > 0 { table[(j - 1) * width + i - 1] * p } else { 0.0 };
            table[j * width + i] = before + one_less;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may fail")]
    use super::super::ErrorsPer;
    use super::*;

    /// The table of block failures at a bit error rate of 1/100, computed independently of this code.
    #[test]
    fn block_failures_follow_the_binomial() {
        let errors = BitErrors {
            good: Span::from_millis(100),
            bad: Span::from_millis(33),
            in_good: Ratio::ZERO,
            in_bad: Ratio::new(1, 100).unwrap(),
            per: ErrorsPer::Cell,
        };
        for (length, data, fails) in
            [(255, 181, 7.9e-5), (255, 183, 1.7e-4), (127, 91, 9.8e-4), (63, 45, 3.5e-3), (31, 22, 1.7e-2)]
        {
            let code = FecCode::ReedSolomon { length, data };
            code.check().unwrap();
            let decoder = Decoder::new(code, &errors);
            let failed = 1.0 - decoder.mended(usize::from(length), 0);
            assert!((failed / fails - 1.0).abs() < 0.04, "RS({length},{data}): {failed}");
            assert_eq!(decoder.mended(0, usize::from(length)), 1.0);
        }
        // Frame loss with all of it in the bad state.
        let loss = |code, octets| 1.0 - Decoder::new(code, &errors).survival(octets, |_, _| 1.0);
        for (code, octets, expected) in [
            (FecCode::RS_31_22, 134, 0.15),
            (FecCode::RS_31_22, 1_034, 0.72),
            (FecCode::RS_63_45, 534, 0.054),
            (FecCode::RS_63_45, 2_034, 0.19),
            (FecCode::RS_255_181, 2_034, 8.8e-4),
        ] {
            let got = loss(code, octets);
            assert!((got / expected - 1.0).abs() < 0.07, "{code:?} {octets}: {got}");
        }
        // Half a frame in the good state: only the other half is at risk.
        let half = Decoder::new(FecCode::RS_31_22, &errors).survival(1_034, |_, to| f64::from(to > 0.5));
        assert!((half / (1.0 - loss(FecCode::RS_31_22, 1_034)).sqrt() - 1.0).abs() < 0.05, "{half}");
    }

    #[test]
    fn coded_frames_are_longer_by_the_inverse_of_the_rate() {
        for code in [FecCode::RESIDUAL_31_22, FecCode::RS_31_22, FecCode::RS_63_45, FecCode::RS_255_181] {
            for octets in [181, 550, 1_536, 2_332] {
                let ratio = code.coded(octets) as f64 / octets as f64;
                assert!((1.39..1.55).contains(&ratio), "{code:?} {octets} {ratio}");
            }
        }
        assert_eq!(FecCode::RESIDUAL_31_22.coded(71), 100);
        assert_eq!(FecCode::RS_255_181.coded(181), 255);
        assert_eq!(FecCode::RS_255_181.coded(100), 174);
    }
}
