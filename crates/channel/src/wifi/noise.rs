//! Frames lost to thermal noise: from the SNR, modulation and code.
//!
//! BPSK, QPSK, 16-, 64- and 256-QAM in white noise, soft decisions, and the union bound over error events with the distance
//! spectra of the code (133, 171) and its punctured forms (Haccoun and Begin, IEEE Trans. Comm. 37, 1989).

use super::{Phy, PhyRate, WifiConfig};
use wavelane_base::maths::{exponential, power};
use wavelane_base::{Chance, Seed};

/// Weights of error events by distance, from the free distance on, and the information bits per puncturing period.
struct Code {
    free: u32,
    weights: &'static [f64],
    period: f64,
}

const HALF: Code = Code { free: 10, weights: &[36.0, 0.0, 211.0, 0.0, 1404.0, 0.0, 11_633.0], period: 1.0 };
const TWO_THIRDS: Code = Code { free: 6, weights: &[3.0, 70.0, 285.0, 1276.0, 6160.0, 27_128.0], period: 2.0 };
const THREE_QUARTERS: Code = Code { free: 5, weights: &[42.0, 201.0, 1492.0, 10_469.0, 62_935.0], period: 3.0 };
const FIVE_SIXTHS: Code = Code { free: 4, weights: &[92.0, 528.0, 8694.0, 79_453.0], period: 5.0 };

/// Bits of a symbol.
#[derive(Clone, Copy)]
enum Symbol {
    Bpsk,
    Qpsk,
    Qam16,
    Qam64,
    Qam256,
}

/// Modulations and codes of MCS 0 to 9, then the one that only 802.11a has, 9 Mbit/s.
const KINDS: [(Symbol, &Code); 11] = [
    (Symbol::Bpsk, &HALF),
    (Symbol::Qpsk, &HALF),
    (Symbol::Qpsk, &THREE_QUARTERS),
    (Symbol::Qam16, &HALF),
    (Symbol::Qam16, &THREE_QUARTERS),
    (Symbol::Qam64, &TWO_THIRDS),
    (Symbol::Qam64, &THREE_QUARTERS),
    (Symbol::Qam64, &FIVE_SIXTHS),
    (Symbol::Qam256, &THREE_QUARTERS),
    (Symbol::Qam256, &FIVE_SIXTHS),
    (Symbol::Bpsk, &THREE_QUARTERS),
];

/// The complementary error function (Abramowitz and Stegun 7.1.26: within 1.5e-7, and 2 % up to 6).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (sum * exponential(-x * x)).max(0.0)
}

/// The square of half the minimum symbol distance over the noise variance (K_MOD of Tables 17-11, 21-14).
fn distance(symbol: Symbol, snr: f64) -> f64 {
    match symbol {
        Symbol::Bpsk => snr,
        Symbol::Qpsk => snr / 2.0,
        Symbol::Qam16 => snr / 10.0,
        Symbol::Qam64 => snr / 42.0,
        Symbol::Qam256 => snr / 170.0,
    }
}

/// The probability of a bit error after decoding: the union bound over error events by distance.
fn coded_errors(code: &Code, distance: f64) -> f64 {
    let event = |d: u32| 0.5 * erfc((f64::from(d) * distance).sqrt());
    let terms = code.weights.iter().zip(code.free..).map(|(weight, d)| weight * event(d));
    (terms.sum::<f64>() / code.period).min(0.5)
}

/// The probability that a bit of a frame at `kind` survives, from the SNR in dB and the divisor of the sender's power.
fn survival(kind: usize, snr_db: i16, division: f64) -> f64 {
    let (symbol, code) = KINDS[kind];
    1.0 - coded_errors(code, distance(symbol, power(10.0, f64::from(snr_db) / 10.0) / division))
}

/// Divisors of the sender's power: none; by the width, with one stream; with two.
fn divisions(phy: Phy) -> Vec<f64> {
    let Phy::Vht { width, streams, .. } = phy else { return vec![1.0] };
    let wide = f64::from(width.mhz()) / 20.0;
    std::iter::once(1.0).chain((1..=streams).map(|streams| wide * f64::from(streams))).collect()
}

/// The index of a rate in [`KINDS`].
fn kind_of(rate: PhyRate) -> usize {
    rate.mcs().unwrap_or(match rate.half_mbps() {
        12 => 0,
        18 => 10,
        24 => 1,
        36 => 2,
        48 => 3,
        72 => 4,
        96 => 5,
        _ => 6,
    })
}

/// The effect of noise on each pair's frames, and the random stream.
#[derive(Debug)]
pub(super) struct Noise {
    stations: usize,
    /// Number of power divisors.
    divisions: usize,
    /// Survival of a bit, by sender, listener, division and kind.
    bits: Vec<[f64; KINDS.len()]>,
    chance: Chance,
}

impl Noise {
    /// `level_db` is on the scale of the reach map's signals, for 20 MHz.
    pub(super) fn new(seed: Seed, name: &str, config: &WifiConfig, level_db: i16) -> Self {
        let divisions = divisions(config.phy);
        let of = |signal: i16| {
            let each = |division: &f64| core::array::from_fn(|kind| survival(kind, signal - level_db, *division));
            divisions.iter().map(each).collect::<Vec<_>>()
        };
        Self {
            stations: config.reach.stations(),
            divisions: divisions.len(),
            bits: config.reach.pairs().flat_map(|pair| of(pair.signal_db)).collect(),
            chance: seed.chance(&format!("{name} / noise")),
        }
    }
    /// Whether `octets` sent at `rate` survive.
    pub(super) fn spares(&mut self, sender: usize, listener: usize, rate: PhyRate, octets: usize) -> bool {
        let pair = sender * self.stations + listener;
        let division = rate.spread().map_or(0, |(_, streams)| usize::from(streams));
        let bit = self.bits[pair * self.divisions + division][kind_of(rate)];
        self.chance.unit() < power(bit, octets as f64 * 8.0)
    }
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
