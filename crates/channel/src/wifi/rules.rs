//! Differences of the standard, ns-3, ns-2 and Bianchi's model: one switch each, and named sets of them.

use super::{Phy, PhyRate};
use wavelane_base::Span;
use wavelane_base::maths::power;

/// The switches. Each field says what it decides; [`Rules::standard`], [`Rules::ns3_3_44`], [`Rules::ns2_2001`],
/// [`Rules::bianchi_2000`] and [`Rules::wavelan_1995`] are the named sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The name of the set, for records.
    pub name: &'static str,
    /// Bytes of MAC header, FCS and LLC/SNAP around each frame handed in.
    pub overhead: usize,
    /// Whether data frames are acknowledged. If not, each is sent once, sets no NAV and causes no EIFS.
    pub acknowledges: bool,
    /// The contention window of the backoff after a station's own frame, if it is not CWmin.
    pub after_own: Option<u32>,
    /// The range of the backoff draw.
    pub draw: Draw,
    /// Channel access for a first frame when the medium is idle and no backoff is pending.
    pub first_access: FirstAccess,
    /// The response timeout.
    pub timeout: Timeout,
    /// When a station resumes slot counting after a response timeout.
    pub after_timeout: AfterTimeout,
    /// What makes a station wait EIFS.
    pub eifs: Eifs,
    /// When a frame is dropped.
    pub retry: Retry,
    /// Whether the slot in which another station starts sending is counted in a backoff.
    pub busy_slot: BusySlot,
    /// The effect of dropping a frame on the contention window.
    pub after_drop: AfterDrop,
    /// A station that heard an RTS and then nothing resets its NAV (10.3.2.4).
    pub nav_reset: bool,
    /// Time from a frame's first bit to its detection; `None` is the PHY's aCCATime.
    pub cca: Option<Span>,
    /// The outcome of a reception that overlaps with one other frame of the same strength.
    pub overlap: Overlap,
    /// For how long frames that are only sensed keep the medium busy while several are on the air.
    pub sensed: Sensed,
    /// Basic rates: those at which responses may be sent, in units of 500 kbit/s.
    pub basic: &'static [u8],
}

/// The outcome of a reception that overlaps with one other frame of the same strength, after its preamble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// It is lost.
    Lost,
    /// At 6 Mbit/s OFDM it is lost with a probability that grows with the bytes overlapped, else always, from the packet
    /// error tables of ns-3 (`TableBasedErrorRateModel`, from link simulations of IEEE 802.11-14/0803) at 0 dB.
    Tables,
}

impl Overlap {
    /// The probability that a frame at `rate` survives such an overlap of `octets` of it.
    pub(super) fn survival(self, rate: PhyRate, octets: f64) -> f64 {
        // Packet error rates of BPSK 1/2 at 0 dB for two lengths; the first applies below the limit.
        const SHORT: (f64, f64) = (32.0, 0.0344);
        const LONG: (f64, f64) = (1458.0, 0.8185);
        const LIMIT: f64 = 400.0;
        if self == Self::Lost || !rate.is_slowest_ofdm() {
            return 0.0;
        }
        let (length, error) = if octets < LIMIT { SHORT } else { LONG };
        power(1.0 - error, octets / length)
    }
}

/// How long frames that are sensed but too weak to be received or to interfere keep the medium busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sensed {
    /// To the end of the last one.
    ToTheLast,
    /// One that begins during another frame, only as long as two of them, or one that is strong, are on the air (ns-3:
    /// `PhyEntity::SwitchMaybeToCcaBusy` looks at the lower threshold only if the sum is not above the higher one, as that
    /// of two frames of -85 dBm is above -82). A station re-evaluates when a reception ends or another begins.
    WhileTogether,
}

/// The range of the backoff draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// Uniformly from 0 to CW, both included (10.3.3).
    ZeroToCw,
    /// Uniformly from 0 to CW - 1 (ns-2: `Random::random() % cw`).
    BelowCw,
}

/// Channel access for a first frame when the medium is idle and no backoff is pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstAccess {
    /// Sends once the medium has been idle for DIFS, at once if it has (10.3.4.2).
    AfterDifs,
    /// Waits DIFS from now and a back-off (ns-2).
    DifsAndBackoff,
}

/// The response timeout, after the end of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// SIFS + slot + preamble of the response; then failed, unless a reception has begun, whose end is awaited (10.3.2.9).
    Preamble,
    /// SIFS + slot, with ideal knowledge of whether the response has begun, as assumed by models without timeouts.
    Foreknown,
    /// SIFS + the whole response + twice 2 us of propagation, whatever is received (ns-2).
    WholeAnswer,
}

/// When a station resumes slot counting after a response timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterTimeout {
    /// At the timeout, if the medium has been idle for DIFS by then (10.3.4.3).
    AtOnce,
    /// A DIFS after the timeout (ns-3).
    Difs,
}

/// What makes a station wait EIFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eifs {
    /// A reception that ended in error. Frames that begin together start no reception.
    Reception,
    /// Any collision or error; the whole EIFS passes before the DIFS (ns-2, which sets the NAV to it).
    Collision,
}

/// When a frame is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// After this many failures of the frame or its RTS together (ns-3 `FrameRetryLimit`).
    PerFrame(u32),
    /// Failures of an RTS and of frames without one count as short, of frames after an RTS as long; a CTS clears the
    /// short count (10.3.4.4).
    ShortLong {
        /// dot11ShortRetryLimit.
        short: u32,
        /// dot11LongRetryLimit.
        long: u32,
    },
}

/// Whether the slot in which another station starts sending is counted in a backoff.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusySlot {
    /// No: only idle slots count (10.3.4.3).
    Frozen,
    /// Yes, as in Bianchi's Markov chain (IEEE JSAC 18, 2000), in which every step is a slot.
    Counts,
}

/// The effect of dropping a frame on the contention window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterDrop {
    /// It is CWmin for the next frame (10.3.3).
    Smallest,
    /// None: it grows with the station's consecutive failures, of any frame. The failure after this many resets it to CWmin
    /// and the count to 0 (ns-3 `Txop::UpdateFailedCw`, after 10.23.2.2 of 802.11-2020).
    CountsOn(u32),
}

/// MAC header 24, FCS 4 (9.2.4, 9.3.2) and LLC/SNAP 8 (RFC 1042).
const OVERHEAD: usize = 24 + 4 + 8;
/// Two addresses, type and FCS.
const OVERHEAD_ETHERNET: usize = 14 + 4;
/// ns-2 counts four addresses and no LLC/SNAP.
const OVERHEAD_NS2: usize = 34;

impl Rules {
    /// IEEE Std 802.11-2016, with the mandatory OFDM rates (17.3.1) and 1 and 2 Mbit/s as basic rates.
    pub const fn standard() -> Self {
        Self {
            name: "standard",
            overhead: OVERHEAD,
            acknowledges: true,
            after_own: None,
            draw: Draw::ZeroToCw,
            first_access: FirstAccess::AfterDifs,
            timeout: Timeout::Preamble,
            after_timeout: AfterTimeout::AtOnce,
            eifs: Eifs::Reception,
            retry: Retry::ShortLong { short: 7, long: 4 },
            busy_slot: BusySlot::Frozen,
            after_drop: AfterDrop::Smallest,
            nav_reset: true,
            cca: None,
            overlap: Overlap::Lost,
            sensed: Sensed::ToTheLast,
            basic: &[2, 4, 12, 24, 48],
        }
    }
    /// ns-3 3.44, non-QoS ad hoc stations.
    pub const fn ns3_3_44() -> Self {
        Self {
            name: "ns3-3.44",
            after_timeout: AfterTimeout::Difs,
            retry: Retry::PerFrame(7),
            after_drop: AfterDrop::CountsOn(7),
            // Preamble detection takes 4 us with every modulation; until then the medium counts as idle.
            cca: Some(Span::from_micros(4)),
            overlap: Overlap::Tables,
            sensed: Sensed::WhileTogether,
            // Ad hoc stations treat every mandatory rate as basic.
            basic: &[2, 4, 11, 22, 12, 24, 48],
            ..Self::standard()
        }
    }
    /// The CMU 802.11 code of ns-2, as still in release 2.35 (`mac/mac-802_11.cc`).
    pub const fn ns2_2001() -> Self {
        Self {
            name: "ns2-2001",
            overhead: OVERHEAD_NS2,
            draw: Draw::BelowCw,
            first_access: FirstAccess::DifsAndBackoff,
            timeout: Timeout::WholeAnswer,
            eifs: Eifs::Collision,
            nav_reset: false,
            cca: Some(Span::ZERO),
            // By default, control frames are sent at the interface's bandwidth (`basicRate_`).
            basic: &[2, 4, 11, 22, 12, 18, 24, 36, 48, 72, 96, 108],
            ..Self::standard()
        }
    }
    /// What the saturation model of Bianchi (IEEE JSAC 18, 2000) with a retry limit assumes.
    pub const fn bianchi_2000() -> Self {
        Self {
            name: "bianchi-2000",
            timeout: Timeout::Foreknown,
            busy_slot: BusySlot::Counts,
            retry: Retry::PerFrame(7),
            cca: Some(Span::ZERO),
            ..Self::standard()
        }
    }
    /// The cards before 802.11, with Ethernet framing: CSMA/CA, no acknowledgements. A station that finds the medium busy
    /// draws a backoff from 0 to 31 slots, after its own frame from 0 to 15.
    pub const fn wavelan_1995() -> Self {
        Self {
            name: "wavelan-1995",
            overhead: OVERHEAD_ETHERNET,
            acknowledges: false,
            after_own: Some(15),
            nav_reset: false,
            basic: &[4],
            ..Self::standard()
        }
    }
    pub(super) fn cca(&self, phy: Phy) -> Span {
        self.cca.unwrap_or(phy.cca())
    }
}
