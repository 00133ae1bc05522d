//! The configuration of a Bluetooth link.

use crate::cable::SPAN_MAX;
use crate::pair::PAIR_QUEUE_MAX;
use wavelane_base::{Ratio, Span};

/// A slot (Bluetooth Core 1.1, Part B, section 2.2).
pub const SLOT: Span = Span::from_micros(625);
/// Bytes around each IP packet: L2CAP header 4, BNEP with both Ethernet addresses 15 (BNEP 1.0, section 2.4.1).
pub const OVERHEAD: usize = 19;

/// Which baseband packets carry data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Packets {
    /// Without error correction.
    #[default]
    Dh,
    /// With the (15, 10) Hamming code.
    Dm,
    /// The sender follows the receiver's wish: coded packets while the quality is bad (channel quality driven data rate).
    Cqddr,
}

/// How the master shares slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduler {
    /// Either side takes the slots that its data needs, one if it has none.
    #[default]
    Asymmetric,
    /// The slave is given as many slots as the longest packet in every turn, whatever it has to send.
    Symmetric,
    /// Changes between the two, first asymmetric, after exponential times with these means.
    Wandering {
        /// Mean time asymmetric.
        asymmetric: Span,
        /// Mean time symmetric.
        symmetric: Span,
    },
}

/// Independent bit errors at a rate that alternates: exponential times, beginning with good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quality {
    /// Mean time with good quality.
    pub good: Span,
    /// Mean time with bad quality.
    pub bad: Span,
    /// Bit error ratio while it is good.
    pub in_good: Ratio,
    /// Bit error ratio while it is bad.
    pub in_bad: Ratio,
}

/// A master, port 0, and its only active slave, port 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BluetoothConfig {
    /// Which packets carry data.
    pub packets: Packets,
    /// Most slots of a packet: 1, 3 or 5.
    pub slots: u8,
    /// How slots are shared.
    pub scheduler: Scheduler,
    /// Longest time between two polls of a slave that has nothing to send.
    pub poll: Span,
    /// Frames that wait at either end, without the one being sent.
    pub queue: usize,
    /// Bit errors; `None` has none.
    pub quality: Option<Quality>,
}

impl Default for BluetoothConfig {
    /// DH5, polled every 40 slots (the default T_poll of Part C, section 3.21), 50 frames.
    fn default() -> Self {
        Self {
            packets: Packets::Dh,
            slots: 5,
            scheduler: Scheduler::Asymmetric,
            poll: SLOT.times(40),
            queue: 50,
            quality: None,
        }
    }
}

/// Why a Bluetooth link cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BluetoothError {
    /// There are packets of 1, 3 and 5 slots.
    #[error("packets of {0} slots do not exist: choose 1, 3 or 5")]
    Slots(u8),
    /// A time of nothing, or beyond [`SPAN_MAX`].
    #[error("{what} of {value} lies outside 1.25 ms to {SPAN_MAX}: choose one inside")]
    Time {
        /// Which.
        what: &'static str,
        /// What was asked for.
        value: Span,
    },
    /// More than [`PAIR_QUEUE_MAX`] frames.
    #[error("a queue of {0} packets is longer than {PAIR_QUEUE_MAX}: choose a shorter one")]
    Queue(usize),
}

impl BluetoothConfig {
    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), BluetoothError> {
        if ![1, 3, 5].contains(&self.slots) {
            return Err(BluetoothError::Slots(self.slots));
        }
        if self.queue > PAIR_QUEUE_MAX {
            return Err(BluetoothError::Queue(self.queue));
        }
        let mut times = vec![("poll", self.poll)];
        if let Scheduler::Wandering { asymmetric, symmetric } = self.scheduler {
            times.extend([("time asymmetric", asymmetric), ("time symmetric", symmetric)]);
        }
        if let Some(quality) = self.quality {
            times.extend([("time with good quality", quality.good), ("time with bad quality", quality.bad)]);
        }
        match times.into_iter().find(|(_, t)| *t < SLOT.times(2) || *t > SPAN_MAX) {
            Some((what, value)) => Err(BluetoothError::Time { what, value }),
            None => Ok(()),
        }
    }
}
