//! 802.11ac (VHT): its rates and times, IEEE Std 802.11-2016, clause 21.

use core::fmt;

/// Channel width of 802.11ac.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 20 MHz.
    Mhz20,
    /// 40 MHz.
    Mhz40,
    /// 80 MHz.
    Mhz80,
}

/// Most spatial streams that are modelled.
pub const STREAMS_MAX: u8 = 2;
/// The largest aggregate that a VHT station can announce to receive: a Maximum A-MPDU Length Exponent of 7 (9.4.2.158.2).
pub const AGGREGATE_OCTETS_VHT: usize = 1_048_575;
/// SERVICE bits, and tail bits of each encoder (21.3.10.2, 21.3.10.4).
const SERVICE_BITS: u64 = 16;
const TAIL_BITS: u64 = 6;
/// Data bits per symbol from which two encoders are used: MCS 7 of 80 MHz and two streams (N_ES of Table 21-47).
const TWO_ENCODERS: u64 = 2_340;
/// L-STF, L-LTF and L-SIG 20 us, VHT-SIG-A 8 us, VHT-STF and VHT-SIG-B 4 us each (21.3.2, Table 21-5).
const PREAMBLE_US: u64 = 36;
/// A VHT-LTF, one for each stream up to two (Table 21-13).
const LONG_TRAINING_US: u64 = 4;

/// Data bits of a symbol by MCS (Tables 21-30, 21-31, 21-38, 21-39, 21-46, 21-47). MCS 9 of 20 MHz has no whole number of
/// bits with one or two streams, and is not allowed.
pub(super) const fn symbol_bits(width: Width, streams: u8) -> &'static [u16] {
    match (width, streams) {
        (Width::Mhz20, 1) => &[26, 52, 78, 104, 156, 208, 234, 260, 312],
        (Width::Mhz20, _) => &[52, 104, 156, 208, 312, 416, 468, 520, 624],
        (Width::Mhz40, 1) => &[54, 108, 162, 216, 324, 432, 486, 540, 648, 720],
        (Width::Mhz40, _) => &[108, 216, 324, 432, 648, 864, 972, 1080, 1296, 1440],
        (Width::Mhz80, 1) => &[117, 234, 351, 468, 702, 936, 1053, 1170, 1404, 1560],
        (Width::Mhz80, _) => &[234, 468, 702, 936, 1404, 1872, 2106, 2340, 2808, 3120],
    }
}

/// Preamble and headers before the first symbol of data, in microseconds.
pub(super) const fn preamble_us(streams: u8) -> u64 {
    PREAMBLE_US + LONG_TRAINING_US * streams as u64
}

/// Symbols of a PSDU of `octets` (21.4.3).
pub(super) const fn symbols(octets: u64, bits: u64) -> u64 {
    let encoders = if bits >= TWO_ENCODERS { 2 } else { 1 };
    (SERVICE_BITS + TAIL_BITS * encoders + 8 * octets).div_ceil(bits)
}

impl Width {
    /// In MHz.
    pub const fn mhz(self) -> u16 {
        match self {
            Self::Mhz20 => 20,
            Self::Mhz40 => 40,
            Self::Mhz80 => 80,
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MHz", self.mhz())
    }
}
