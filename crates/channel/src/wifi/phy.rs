//! The physical layers: rates, frame durations and interframe spaces.
//!
//! Numbers are those of IEEE Std 802.11-2016: clause 15 (DSSS), 16 (HR/DSSS), 17 (OFDM), 18 (ERP), 19 (HT), 21 (VHT).

use super::vht::{self, Width};
use core::fmt;
use wavelane_base::{Rate, Span};

/// A physical layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phy {
    /// 1 and 2 Mbit/s at 2.4 GHz (802.11-1997), long preamble.
    Dsss,
    /// 802.11b: 1, 2, 5.5 and 11 Mbit/s.
    HrDsss {
        /// 96 us of preamble and header where the rate allows it (all but 1 Mbit/s), instead of 192 us.
        short_preamble: bool,
    },
    /// 802.11a: 6 to 54 Mbit/s at 5 GHz, 20 MHz wide.
    Ofdm,
    /// 802.11g without 802.11b stations: 6 to 54 Mbit/s at 2.4 GHz, with 6 us of signal extension.
    ErpOfdm {
        /// Slots of 9 us instead of 20 us.
        short_slot: bool,
    },
    /// 802.11n at 5 GHz, 20 MHz wide, one spatial stream, mixed format: MCS 0 to 7.
    Ht {
        /// Guard intervals of 400 ns instead of 800 ns.
        short_guard: bool,
    },
    /// 802.11ac at 5 GHz: MCS 0 to 9, at 20 MHz to 8.
    Vht {
        /// Of the channel.
        width: Width,
        /// Spatial streams, 1 or 2; senders with rate control use fewer too.
        streams: u8,
        /// Guard intervals of 400 ns instead of 800 ns.
        short_guard: bool,
    },
    /// The 2 Mbit/s cards before 802.11 (915 MHz and 2.4 GHz); see [`Phy::wavelan`].
    WaveLan {
        /// Modem overhead per frame: what it sends before the frame's own bytes, and turnaround times.
        lead: Span,
    },
}

/// A rate that its physical layer has; made by [`Phy::rate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhyRate {
    phy: Phy,
    /// In units of 250 kbit/s, with the long guard interval: the data bits of an OFDM symbol.
    quarters: u16,
}

/// A rate that a physical layer does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} Mbit/s is not a rate of {phy}: choose one of {} Mbit/s", .rate.as_bps() as f64 / 1e6, Listed(.phy.rates()))]
pub struct RateError {
    /// What was asked for.
    pub rate: Rate,
    /// Of which layer.
    pub phy: Phy,
}

/// Long preamble and header of DSSS: 144 + 48 bits at 1 Mbit/s (15.2.2, 16.2.2.2).
const DSSS_LONG_US: u64 = 192;
/// Short preamble and header of HR/DSSS: 72 bits at 1 Mbit/s and 48 at 2 Mbit/s (16.2.2.3).
const DSSS_SHORT_US: u64 = 96;
/// Training 16 us and SIGNAL 4 us of OFDM (17.4.3).
const OFDM_PREAMBLE_US: u64 = 20;
/// One OFDM symbol at 20 MHz (17.4.3).
const OFDM_SYMBOL_US: u64 = 4;
/// SERVICE and tail bits of an OFDM frame (17.4.3).
const OFDM_EXTRA_BITS: u64 = 16 + 6;
/// Legacy training and SIGNAL 20 us, HT-SIG 8 us, HT-STF 4 us and one HT-LTF 4 us (19.3.2, Table 19-6).
const HT_PREAMBLE_US: u64 = 36;
/// Non-HT reference rates of MCS 0 to 9, in units of 250 kbit/s (10.7.10): same modulation, next code rate below; of 256-QAM
/// the fastest.
const REFERENCE: [u16; 10] = [24, 48, 72, 96, 144, 192, 216, 216, 216, 216];
/// aSignalExtension of ERP-OFDM (18.5.4).
const SIGNAL_EXTENSION_US: u64 = 6;

/// Slots and inter-frame space of WaveLAN before 802.11, as lecture notes on its MAC give them.
const WAVELAN_SLOT_US: u64 = 23;
const WAVELAN_WIFS_US: u64 = 60;
/// Overhead of a WaveLAN frame without modem lead: interframe space and 7.5 slots.
pub const WAVELAN_WAITS: Span = Span::from_nanos((WAVELAN_WIFS_US * 2 + WAVELAN_SLOT_US * 15) * 500);

impl Phy {
    /// WaveLAN before 802.11 with `overhead` per back-to-back frame besides its bytes at 2 Mbit/s: interframe space, a mean
    /// backoff of 7.5 slots, and the modem's lead, which is the remainder. Sources give a total of 0.7 to
    /// 1.0 ms; less than 233 us leaves no lead.
    pub const fn wavelan(overhead: Span) -> Self {
        Self::WaveLan { lead: Span::from_nanos(overhead.as_nanos().saturating_sub(WAVELAN_WAITS.as_nanos())) }
    }
    /// The overhead given to [`Phy::wavelan`], raised to its minimum; `None` for 802.11.
    pub fn wavelan_overhead(self) -> Option<Span> {
        match self {
            Self::WaveLan { lead } => Some(lead + WAVELAN_WAITS),
            _ => None,
        }
    }
    /// Its rates, in units of 250 kbit/s and with the long guard interval, slowest first; for 802.11n and 802.11ac by MCS.
    pub const fn rates(self) -> &'static [u16] {
        match self {
            Self::WaveLan { .. } => &[8],
            Self::Dsss => &[4, 8],
            Self::HrDsss { .. } => &[4, 8, 22, 44],
            Self::Ofdm | Self::ErpOfdm { .. } => &[24, 36, 48, 72, 96, 144, 192, 216],
            Self::Ht { .. } => &[26, 52, 78, 104, 156, 208, 234, 260],
            Self::Vht { width, streams, .. } => vht::symbol_bits(width, streams),
        }
    }
    /// `rate` as one of its rates.
    pub fn rate(self, rate: Rate) -> Result<PhyRate, RateError> {
        let mut rates = self.rates().iter().map(|quarters| PhyRate { phy: self, quarters: *quarters });
        rates.find(|known| known.rate() == rate).ok_or(RateError { rate, phy: self })
    }
    /// Whether it is 802.11n or 802.11ac, which have MCS rates and aggregation.
    pub const fn is_by_mcs(self) -> bool {
        matches!(self, Self::Ht { .. } | Self::Vht { .. })
    }
    /// Its highest MCS; `None` of layers without.
    pub fn mcs_max(self) -> Option<u8> {
        self.is_by_mcs().then(|| self.rates().len() as u8 - 1)
    }
    /// The rate of an MCS; `None` of layers without, and above [`Self::mcs_max`].
    pub fn mcs_rate(self, mcs: u8) -> Option<Rate> {
        let quarters = *self.rates().get(usize::from(mcs)).filter(|_| self.is_by_mcs())?;
        Some(PhyRate { phy: self, quarters }.rate())
    }
    /// The MCS of a rate.
    pub fn mcs_of(self, rate: Rate) -> Option<u8> {
        (0..=self.mcs_max()?).find(|mcs| self.mcs_rate(*mcs) == Some(rate))
    }
    /// The rates available to rate control, slowest first, including those of fewer streams.
    pub(super) fn choices(self) -> Vec<PhyRate> {
        let all = |phy: Self| phy.rates().iter().map(move |quarters| PhyRate { phy, quarters: *quarters });
        let Self::Vht { width, streams, short_guard } = self else { return all(self).collect() };
        let layer = |streams| Self::Vht { width, streams, short_guard };
        let mut rates: Vec<PhyRate> = (1..=streams).flat_map(|streams| all(layer(streams))).collect();
        rates.sort_by_key(|rate| rate.quarters);
        rates
    }
    /// The layer of control frames: that of the stations before 802.11n.
    pub const fn legacy(self) -> Self {
        match self {
            Self::Ht { .. } | Self::Vht { .. } => Self::Ofdm,
            other => other,
        }
    }
    /// The supported rates among `basic` (in units of 500 kbit/s), in units of 250 kbit/s.
    fn known(self, basic: &[u8]) -> impl Iterator<Item = u16> {
        basic.iter().map(|half| 2 * u16::from(*half)).filter(move |quarters| self.rates().contains(quarters))
    }
    /// The slowest supported rate of `basic`, or its own slowest.
    pub(super) fn slowest_of(self, basic: &[u8]) -> PhyRate {
        self.known(basic).min().map_or(self.slowest(), |quarters| PhyRate { phy: self, quarters })
    }
    /// Its slowest rate, used for the ACK time in EIFS (10.3.2.3.7).
    pub const fn slowest(self) -> PhyRate {
        PhyRate { phy: self.legacy(), quarters: self.legacy().rates()[0] }
    }
    /// aSlotTime (15.3.3, 16.3.3, 17.4.4, 18.5.4).
    pub const fn slot(self) -> Span {
        Span::from_micros(match self {
            Self::Ofdm | Self::Ht { .. } | Self::Vht { .. } | Self::ErpOfdm { short_slot: true } => 9,
            Self::Dsss | Self::HrDsss { .. } | Self::ErpOfdm { short_slot: false } => 20,
            Self::WaveLan { .. } => WAVELAN_SLOT_US,
        })
    }
    /// aSIFSTime (15.3.3, 16.3.3, 17.4.4, 18.5.4).
    pub const fn sifs(self) -> Span {
        Span::from_micros(match self {
            Self::Ofdm | Self::Ht { .. } | Self::Vht { .. } => 16,
            Self::Dsss | Self::HrDsss { .. } | Self::ErpOfdm { .. } => 10,
            // There are no responses.
            Self::WaveLan { .. } => 0,
        })
    }
    /// DIFS = SIFS + 2 slots (10.3.7); WaveLAN's inter-frame space.
    pub fn difs(self) -> Span {
        match self {
            Self::WaveLan { .. } => Span::from_micros(WAVELAN_WIFS_US),
            _ => self.sifs() + self.slot().times(2),
        }
    }
    /// EIFS = SIFS + DIFS + the time of an ACK at the slowest rate with the long preamble (10.3.2.3.7); WaveLAN has no EIFS.
    pub fn eifs(self) -> Span {
        match self {
            Self::WaveLan { .. } => self.difs(),
            _ => self.sifs() + self.difs() + self.slowest().airtime(ACK_OCTETS),
        }
    }
    /// aCWmin (15.3.3, 16.3.3, 17.4.4, 18.5.4).
    pub const fn cw_min(self) -> u32 {
        match self {
            Self::Dsss | Self::HrDsss { .. } | Self::WaveLan { .. } => 31,
            Self::Ofdm | Self::ErpOfdm { .. } | Self::Ht { .. } | Self::Vht { .. } => 15,
        }
    }
    /// aCCATime: time on the air within which others must have detected a frame.
    pub const fn cca(self) -> Span {
        Span::from_micros(match self {
            Self::Dsss | Self::HrDsss { .. } | Self::WaveLan { .. } => 15,
            Self::Ofdm | Self::ErpOfdm { .. } | Self::Ht { .. } | Self::Vht { .. } => 4,
        })
    }
}

/// aCWmax of all PHYs (15.3.3, 16.3.3, 17.4.4, 18.5.4).
pub const CW_MAX: u32 = 1023;
/// An ACK or CTS: control, duration, one address, FCS (9.3.1.3, 9.3.1.4).
pub const ACK_OCTETS: usize = 14;
/// An RTS: control, duration, two addresses, FCS (9.3.1.2).
pub const RTS_OCTETS: usize = 20;

impl PhyRate {
    /// Whether it is 6 Mbit/s OFDM.
    pub(super) const fn is_slowest_ofdm(self) -> bool {
        matches!(self.phy, Phy::Ofdm | Phy::ErpOfdm { .. }) && self.quarters == 24
    }
    /// Bits per second.
    pub const fn rate(self) -> Rate {
        // Ten symbols with the short guard interval last as long as nine with the long one (19.5, 21.5).
        let symbols = if self.has_short_guard() { 10 } else { 9 };
        Rate::from_bps(self.quarters as u64 * 250_000 * symbols / 9)
    }
    const fn has_short_guard(self) -> bool {
        matches!(self.phy, Phy::Ht { short_guard: true } | Phy::Vht { short_guard: true, .. })
    }
    /// Its MCS, if it has one.
    pub(super) fn mcs(self) -> Option<usize> {
        let place = self.phy.rates().iter().position(|quarters| *quarters == self.quarters);
        place.filter(|_| self.phy.is_by_mcs())
    }
    /// The width and the streams over which its power is divided.
    pub(super) const fn spread(self) -> Option<(Width, u8)> {
        match self.phy {
            Phy::Vht { width, streams, .. } => Some((width, streams)),
            _ => None,
        }
    }
    /// In units of 500 kbit/s, as in the Supported Rates element (9.4.2.3); saturating at the largest value.
    pub(super) fn half_mbps(self) -> u8 {
        u8::try_from(self.quarters / 2).unwrap_or(u8::MAX)
    }
    /// Preamble and header before the first bit of the frame's own bytes; also how long a receiver takes to report
    /// the start of a reception (aRxPHYStartDelay).
    pub const fn preamble(self) -> Span {
        Span::from_micros(match self.phy {
            Phy::WaveLan { lead } => return lead,
            Phy::Dsss => DSSS_LONG_US,
            // 1 Mbit/s has the long form only (16.2.2.3).
            Phy::HrDsss { short_preamble } if short_preamble && self.quarters > 4 => DSSS_SHORT_US,
            Phy::HrDsss { .. } => DSSS_LONG_US,
            Phy::Ofdm | Phy::ErpOfdm { .. } => OFDM_PREAMBLE_US,
            Phy::Ht { .. } => HT_PREAMBLE_US,
            Phy::Vht { streams, .. } => vht::preamble_us(streams),
        })
    }
    /// Time on the air before the response to a frame at this rate is reported by its receiver (aRxPHYStartDelay).
    pub const fn start_delay(self) -> Span {
        match self.phy {
            // Responses are in 802.11a format.
            Phy::Ht { .. } | Phy::Vht { .. } => Span::from_micros(OFDM_PREAMBLE_US),
            _ => self.preamble(),
        }
    }
    /// TXTIME of a PSDU of `octets` (15.3.4, 16.3.4, 17.4.3, 18.5.3, 19.4.3, 21.4.3).
    pub const fn airtime(self, octets: usize) -> Span {
        let (bits, quarters) = (octets as u64 * 8, self.quarters as u64);
        let symbols = (OFDM_EXTRA_BITS + bits).div_ceil(quarters);
        let after_preamble = match self.phy {
            // The header states the length in whole microseconds, rounded up (16.2.3.5).
            Phy::Dsss | Phy::HrDsss { .. } | Phy::WaveLan { .. } => (bits * 4).div_ceil(quarters),
            Phy::Ofdm => OFDM_SYMBOL_US * symbols,
            Phy::Ht { short_guard } => long_symbols(symbols, short_guard) * OFDM_SYMBOL_US,
            Phy::Vht { short_guard, .. } => {
                long_symbols(vht::symbols(octets as u64, quarters), short_guard) * OFDM_SYMBOL_US
            }
            Phy::ErpOfdm { .. } => OFDM_SYMBOL_US * symbols + SIGNAL_EXTENSION_US,
        };
        Span::from_nanos(self.preamble().as_nanos() + after_preamble * 1_000)
    }
    /// The fastest of `basic` (in units of 500 kbit/s) not above this rate, for the response to a frame sent at it
    /// (10.7.6.5.2); the slowest rate if there is none.
    pub fn answered_at(self, basic: &[u8]) -> Self {
        let known = self.reference();
        let fit = known.phy.known(basic).filter(|quarters| *quarters <= known.quarters).max();
        fit.map_or(known.phy.slowest(), |quarters| Self { quarters, ..known })
    }
    /// Its non-HT reference rate (10.7.10).
    fn reference(self) -> Self {
        self.mcs().map_or(self, |mcs| Self { phy: Phy::Ofdm, quarters: REFERENCE[mcs] })
    }
}

/// Duration of `symbols` in units of 4 us: with the short guard interval a symbol has 3.6 us, and the total is rounded up to
/// 4 us (19.4.3, 21.4.3).
const fn long_symbols(symbols: u64, short_guard: bool) -> u64 {
    if short_guard { (symbols * 9).div_ceil(10) } else { symbols }
}

impl fmt::Display for Phy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Vht { width, streams, short_guard } = self {
            let plural = if *streams == 1 { "" } else { "s" };
            let guard = if *short_guard { ", short guard" } else { "" };
            return write!(f, "802.11ac ({width}, {streams} stream{plural}{guard})");
        }
        f.write_str(match self {
            Self::WaveLan { .. } => "WaveLAN",
            Self::Dsss => "DSSS",
            Self::HrDsss { short_preamble: false } => "802.11b",
            Self::HrDsss { short_preamble: true } => "802.11b (short preamble)",
            Self::Ofdm => "802.11a",
            Self::ErpOfdm { short_slot: false } => "802.11g",
            Self::ErpOfdm { short_slot: true } => "802.11g (short slot)",
            Self::Ht { short_guard: false } => "802.11n",
            Self::Ht { short_guard: true } => "802.11n (short guard)",
            Self::Vht { .. } => "802.11ac",
        })
    }
}

/// Rates in units of 250 kbit/s as a list in Mbit/s.
struct Listed(&'static [u16]);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, quarters) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", f64::from(*quarters) / 4.0)?;
        }
        Ok(())
    }
}
