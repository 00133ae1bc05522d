//! Where the standard, ns-3, ns-2 and Bianchi's model differ: one switch each, and named sets of them.

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
    /// Whether data frames are acknowledged. Without, each is sent once, sets no NAV and causes no EIFS.
    pub acknowledges: bool,
    /// The window of the back-off after a station's own frame, if it is not CWmin.
    pub after_own: Option<u32>,
    /// From what a back-off is drawn.
    pub draw: Draw,
    /// What a station does whose first frame finds the medium idle and no back-off pending.
    pub first_access: FirstAccess,
    /// How long a missing answer is waited for.
    pub timeout: Timeout,
    /// When a station whose answer is missing counts slots again.
    pub after_timeout: AfterTimeout,
    /// What makes a station wait EIFS.
    pub eifs: Eifs,
    /// When a frame is given up.
    pub retry: Retry,
    /// Whether the slot in which somebody else begins to send counts as one of a back-off.
    pub busy_slot: BusySlot,
    /// What giving a frame up does to the contention window.
    pub after_drop: AfterDrop,
    /// A station that heard an RTS and then nothing resets its NAV (10.3.2.4).
    pub nav_reset: bool,
    /// How long after its first bit a frame is noticed; `None` is the PHY's aCCATime.
    pub cca: Option<Span>,
    /// What becomes of a reception while which one other frame of the same strength is on the air.
    pub overlap: Overlap,
    /// For how long frames that are only sensed keep the medium busy while several are on the air.
    pub sensed: Sensed,
    /// The rates at which answers may be sent, in units of 500 kbit/s.
    pub basic: &'static [u8],
}

/// What becomes of a reception while which one other frame of the same strength is on the air, after its preamble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// It is lost.
    Lost,
    /// At 6 Mbit/s OFDM it is lost with a chance that grows with the bytes hit, else always: what the packet error
    /// tables of ns-3 (`TableBasedErrorRateModel`, from link simulations of IEEE 802.11-14/0803) say of 0 dB.
    Tables,
}

impl Overlap {
    /// The chance that a frame at `rate` survives such an overlap of `octets` of it.
    pub(super) fn survival(self, rate: PhyRate, octets: f64) -> f64 {
        // Packet error rates of BPSK 1/2 at 0 dB for two lengths; the first counts below the limit.
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

/// For how long frames that are sensed and too weak to be received or to do harm keep the medium busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sensed {
    /// To the end of the last one.
    ToTheLast,
    /// One that begins during another frame, only as long as two of them, or one that is strong, are on the air (ns-3:
    /// `PhyEntity::SwitchMaybeToCcaBusy` looks at the lower threshold only if the sum is not above the higher one, as
    /// that of two frames of -85 dBm is above -82). A station looks again when a reception ends, or another begins.
    WhileTogether,
}

/// From what a back-off is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// Uniformly from 0 to CW, both included (10.3.3).
    ZeroToCw,
    /// Uniformly from 0 to CW - 1 (ns-2: `Random::random() % cw`).
    BelowCw,
}

/// What a station does whose first frame finds the medium idle and no back-off pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstAccess {
    /// Sends once the medium has been idle for DIFS, at once if it has (10.3.4.2).
    AfterDifs,
    /// Waits DIFS from now and a back-off (ns-2).
    DifsAndBackoff,
}

/// How long a missing answer is waited for, after the end of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// SIFS + slot + preamble of the answer; then failed, unless a reception has begun, which is awaited (10.3.2.9).
    Preamble,
    /// SIFS + slot, by when it is known whether the answer has begun; what a model without time-outs assumes.
    Foreknown,
    /// SIFS + the whole answer + twice 2 us of propagation, whatever is received (ns-2).
    WholeAnswer,
}

/// When a station whose answer is missing counts slots again.
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
    /// A reception that had begun and ended in error. Frames that begin together begin no reception.
    Reception,
    /// Any collision or error; the whole EIFS passes before the DIFS (ns-2, which sets the NAV to it).
    Collision,
}

/// When a frame is given up.
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

/// Whether the slot in which somebody else begins to send counts as one of a back-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusySlot {
    /// No: only idle slots count (10.3.4.3).
    Frozen,
    /// Yes, as in the chain of Bianchi (IEEE JSAC 18, 2000), in which every step is a slot.
    Counts,
}

/// What giving a frame up does to the contention window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterDrop {
    /// It is CWmin for the next frame (10.3.3).
    Smallest,
    /// Nothing: it grows with the station's failures since its last success, whichever frame they were of. The failure
    /// after this many makes it CWmin and the count 0 (ns-3 `Txop::UpdateFailedCw`, after 10.23.2.2 of 802.11-2020).
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
            // Its preamble detection takes 4 us with every modulation; until then the medium counts as idle.
            cca: Some(Span::from_micros(4)),
            overlap: Overlap::Tables,
            sensed: Sensed::WhileTogether,
            // Ad hoc stations treat every mandatory rate as basic.
            basic: &[2, 4, 11, 22, 12, 24, 48],
            ..Self::standard()
        }
    }
    /// The CMU 802.11 code of ns-2, as its release 2.35 still has it (`mac/mac-802_11.cc`).
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
            // Unless told otherwise its control frames go at the bandwidth of the interface (`basicRate_`).
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
    /// The cards before 802.11, with Ethernet's framing: CSMA/CA, no acknowledgements. A station that finds the medium
    /// busy draws from 0 to 31 slots, after its own frame from 0 to 15.
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
