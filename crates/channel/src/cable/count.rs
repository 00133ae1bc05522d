//! What happened in one direction, so that anybody can check that no byte appeared or vanished unaccounted.

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
    /// Longer than [`super::FRAME_MAX`], or than the buffer it was to be delivered into.
    Oversize,
    /// More than the policer's bucket held.
    Policer,
    /// No room to wait.
    Queue,
    /// The queue's discipline, to hold its delay down.
    Delay,
    /// It entered service during an outage.
    Outage,
    /// The loss model took it.
    Loss,
    /// More in flight than [`super::FLIGHT_BOUND`] or [`super::FRAMES_BOUND`].
    Flight,
}

/// What one direction has done since the start.
///
/// At any moment `offered + copied = delivered + sum of drops + held`, in frames and in bytes; see
/// [`Counters::balances`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Handed in at the near port.
    pub offered: Tally,
    /// Left the serialiser, lost afterwards or not: what used airtime.
    pub serialised: Tally,
    /// Came out of the far port, copies included.
    pub delivered: Tally,
    /// Additional frames made by duplication.
    pub copied: Tally,
    /// Frames in which a bit was flipped (their copies carry the same error and are not counted again).
    pub corrupted: Tally,
    /// Frames held back on purpose.
    pub reordered: Tally,
    /// Frames that the queue's discipline marked instead of dropping them.
    pub marked: u64,
    /// The most that ever waited, frames and bytes each at their own worst moment, without the one in service.
    pub queue_peak: Tally,
    /// Sum over all frames that entered service of the time they waited.
    pub queue_delay_total: Span,
    /// The longest any frame waited before it entered service.
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
    /// Every cause, in the order a frame meets them.
    pub const ALL: [Self; 7] =
        [Self::Oversize, Self::Policer, Self::Queue, Self::Delay, Self::Outage, Self::Loss, Self::Flight];
}

impl Tally {
    /// Counts one frame of `octets` bytes.
    pub(crate) fn add(&mut self, octets: usize) {
        self.frames += 1;
        self.octets += octets as u64;
    }
    /// Takes one frame of `octets` bytes away.
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
    /// Whether everything that came in, or was copied, went out, was dropped or is held: conservation.
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
