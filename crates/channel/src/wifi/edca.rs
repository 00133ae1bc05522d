//! Enhanced distributed channel access (10.22.2): four access categories that contend separately.

use super::{BusySlot, Phy};
use wavelane_base::{Class, Span, Transmit};

/// How many access categories there are.
pub const CATEGORIES: usize = 4;
/// The largest TXOP limit that an EDCA Parameter Set element can hold: 65,535 units of 32 us (9.4.2.29).
pub const TXOP_MAX: Span = Span::from_micros(65_535 * 32);
/// The range of AIFSN of a station that is no access point (9.4.2.29).
pub const AIFSN: core::ops::RangeInclusive<u8> = 2..=15;

/// An access category, from the lowest priority to the highest (10.2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Category {
    /// AC_BK.
    Background,
    /// AC_BE.
    #[default]
    BestEffort,
    /// AC_VI.
    Video,
    /// AC_VO.
    Voice,
}

impl Category {
    /// All categories, lowest priority first.
    pub const ALL: [Self; CATEGORIES] = [Self::Background, Self::BestEffort, Self::Video, Self::Voice];
    /// Its user priority in the QoS Control field (10.2.4.2, Table 10-1).
    pub const fn priority(self) -> u8 {
        match self {
            Self::Background => 1,
            Self::BestEffort => 0,
            Self::Video => 5,
            Self::Voice => 6,
        }
    }
}

/// Channel access parameters of one category.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// AIFS = SIFS + this many slots.
    pub aifsn: u8,
    /// Smallest contention window.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// TXOP limit; zero is one exchange.
    pub txop: Span,
}

/// The four categories of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edca {
    /// By [`Category`], lowest priority first.
    pub access: [Access; CATEGORIES],
    /// Whether the slot in which another station starts sending is counted in a backoff. It is in EDCA, which counts at the
    /// beginning of a slot (10.22.2.4), unlike DCF, which counts at its end.
    pub busy_slot: BusySlot,
}

impl Edca {
    /// The default parameters (Table 9-137 of 802.11-2016, Table 9-155 of 802.11-2020).
    pub fn standard(phy: Phy) -> Self {
        let (min, max) = (phy.cw_min(), super::CW_MAX);
        let limits = match phy {
            Phy::Ofdm | Phy::ErpOfdm { .. } | Phy::Ht { .. } | Phy::Vht { .. } => [2_528, 2_528, 4_096, 2_080],
            _ => [3_264, 3_264, 6_016, 3_264],
        };
        // (aCWmin + 1) / 2 - 1 and (aCWmin + 1) / 4 - 1, of a power of two less one.
        let (video, voice) = (min >> 1, min >> 2);
        let of = |aifsn, cw_min, cw_max, txop| Access { aifsn, cw_min, cw_max, txop: Span::from_micros(txop) };
        Self {
            access: [
                of(7, min, max, limits[0]),
                of(3, min, max, limits[1]),
                of(2, video, min, limits[2]),
                of(2, voice, video, limits[3]),
            ],
            busy_slot: BusySlot::Counts,
        }
    }
}

/// How one frame is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handling {
    /// Its category; without EDCA all are the same.
    pub category: Category,
    /// No acknowledgement: it is sent once (10.22.2.5 with EDCA; without, what drivers do for frames injected with
    /// radiotap's "no ACK" flag).
    pub no_ack: bool,
    /// If not acknowledged, it is after all where it gains the medium: a collision of a burst then costs its first frame, and widens the
    /// contention window. The Duration field covers what waits of the burst (802.11-2007, 7.2.1.1). A long aggregate with it follows an RTS.
    pub guarded: bool,
    /// It may follow the frame before it within one TXOP, if the limit has room.
    pub txop: bool,
}

/// What [`wavelane_base::Machine::handle_frame`] uses: best effort, acknowledged, within the TXOP if there is room.
impl Default for Handling {
    fn default() -> Self {
        Self { category: Category::BestEffort, no_ack: false, guarded: false, txop: true }
    }
}

/// Maps a node's service classes: control is voice, micro is video, bulk is best effort.
impl From<&Transmit> for Handling {
    fn from(transmit: &Transmit) -> Self {
        let category = match transmit.class {
            Class::Control => Category::Voice,
            Class::Micro => Category::Video,
            Class::Bulk => Category::BestEffort,
        };
        Self { category, no_ack: transmit.no_ack, guarded: transmit.guarded, txop: transmit.txop }
    }
}
