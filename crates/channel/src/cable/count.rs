//! Counters of one direction, with which conservation of frames and bytes can be checked.

use wavelane_base::Span;

/// Frames, and the bytes in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Number of frames.
    pub frames: u64,
    /// Their bytes.
    pub octets: u64,
}

/// Why a frame did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// Longer than [`super::FRAME_MAX`], than [`super::DirectionConfig::mtu`], or than the delivery buffer.
    Oversize,
    /// More than the policer's tokens.
    Policer,
    /// The queue was full.
    Queue,
    /// Dropped by the queue's AQM to control the delay.
    Delay,
    /// It entered service during an outage.
    Outage,
    /// Lost by the loss model.
    Loss,
    /// More in flight than [`super::FLIGHT_BOUND`] or [`super::FRAMES_BOUND`].
    Flight,
}

/// Counters of one direction since the start.
///
/// At any moment `offered + copied = delivered + sum of drops + held`, in frames and in bytes; see
/// [`Counters::balances`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Handed in at the near port.
    pub offered: Tally,
    /// Left the serialiser, whether lost afterwards or not.
    pub serialised: Tally,
    /// Came out of the far port, copies included.
    pub delivered: Tally,
    /// Additional frames made by duplication.
    pub copied: Tally,
    /// Frames in which a bit was flipped (their copies carry the same error and are not counted again).
    pub corrupted: Tally,
    /// Frames delayed by the reordering model.
    pub reordered: Tally,
    /// Frames that the queue's discipline marked instead of dropping them.
    pub marked: u64,
    /// Peak queue length, frames and bytes separately, without the frame in service.
    pub queue_peak: Tally,
    /// Total queueing delay of all frames that entered service.
    pub queue_delay_total: Span,
    /// Longest queueing delay of a frame.
    pub queue_delay_max: Span,
    dropped: [Tally; Cause::ALL.len()],
}

/// What one direction holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Waiting for the serialiser, without the frame in service.
    pub waiting: Tally,
    /// In service: one frame or none.
    pub in_service: Tally,
    /// Between serialiser and far port, including frames that are due and not yet fetched.
    pub in_flight: Tally,
}

impl Cause {
    /// All causes, in the order in which they apply to a frame.
    pub const ALL: [Self; 7] =
        [Self::Oversize, Self::Policer, Self::Queue, Self::Delay, Self::Outage, Self::Loss, Self::Flight];
}

impl Tally {
    /// Counts one frame of `octets` bytes.
    pub(crate) fn add(&mut self, octets: usize) {
        self.frames += 1;
        self.octets += octets as u64;
    }
    /// Subtracts one frame of `octets` bytes.
    pub(crate) fn take(&mut self, octets: usize) {
        self.frames -= 1;
        self.octets -= octets as u64;
    }
}

impl core::ops::Add for Tally {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { frames: self.frames + other.frames, octets: self.octets + other.octets }
    }
}

impl Counters {
    /// Frames dropped for `cause`.
    pub fn dropped(&self, cause: Cause) -> Tally {
        self.dropped[cause as usize]
    }
    /// Frames dropped for any cause.
    pub fn dropped_total(&self) -> Tally {
        self.dropped.iter().fold(Tally::default(), |sum, &tally| sum + tally)
    }
    /// Conservation: everything offered or copied was delivered, dropped or is held.
    pub fn balances(&self, held: Holding) -> bool {
        self.offered + self.copied == self.delivered + self.dropped_total() + held.total()
    }
    pub(crate) fn drop_one(&mut self, cause: Cause, octets: usize) {
        self.dropped[cause as usize].add(octets);
    }
}

impl Holding {
    /// Everything held.
    pub fn total(&self) -> Tally {
        self.waiting + self.in_service + self.in_flight
    }
}
