//! The configuration of a cellular bearer.

use crate::cable::SPAN_MAX;
use crate::pair::PAIR_QUEUE_MAX;
use wavelane_base::{Rate, Ratio, Span};

/// Most transmissions of one block.
pub const TRIES_MAX: u32 = 1_000;
/// Smallest and largest block.
pub const BLOCK_MIN: usize = 10;
/// See [`BLOCK_MIN`].
pub const BLOCK_MAX: usize = 65_535;

/// One direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BearerConfig {
    /// The fastest rate, counting blocks.
    pub rate: Rate,
    /// The slowest.
    pub slowest: Rate,
    /// How long a rate holds; each is uniform between the two.
    pub hold: Span,
    /// One way, between the radio and the far port.
    pub delay: Span,
    /// Frames that wait, without the one being sent.
    pub queue: usize,
    /// Bytes of a block, the unit that is repeated.
    pub block: usize,
    /// Chance that a transmission of a block fails.
    pub block_loss: Ratio,
    /// From a failed transmission to the next of the same block.
    pub round: Span,
    /// Most transmissions of a block; then the frame is given up.
    pub tries: u32,
}

/// When nothing is sent in either direction; frames wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gaps {
    /// From one to the next: the mean of exponential times, or exactly.
    pub every: Span,
    /// How long: the mean of exponential times, or exactly.
    pub lasts: Span,
}

/// The idle terminal must be given a channel first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promotion {
    /// How long nothing was sent in either direction.
    pub idle: Span,
    /// How long it takes.
    pub takes: Span,
}

/// Network, port 0, and terminal, port 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CellularConfig {
    /// To the terminal.
    pub forward: BearerConfig,
    /// From the terminal.
    pub reverse: BearerConfig,
    /// Delay before the first frame after an idle time.
    pub promotion: Option<Promotion>,
    /// Stalls at random times and of random length, such as of a cell reselection.
    pub spikes: Option<Gaps>,
    /// Stalls at fixed times and of fixed length.
    pub handover: Option<Gaps>,
}

impl Default for BearerConfig {
    /// 1 Mbit/s without loss, 20 ms.
    fn default() -> Self {
        let rate = Rate::from_bps(1_000_000);
        Self {
            rate,
            slowest: rate,
            hold: Span::from_secs(1),
            delay: Span::from_millis(20),
            queue: 100,
            block: 1_500,
            block_loss: Ratio::ZERO,
            round: Span::from_millis(20),
            tries: 10,
        }
    }
}

/// Why a bearer cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CellularError {
    /// A rate of nothing, or slowest above fastest.
    #[error("rates from {} to {} bit/s: the slowest must be above 0 and at most the rate", .0.as_bps(), .1.as_bps())]
    Rates(Rate, Rate),
    /// A time of nothing, or beyond [`SPAN_MAX`].
    #[error("{what} of {value} must lie above 0 and at most {SPAN_MAX}: choose one inside")]
    Time {
        /// Which.
        what: &'static str,
        /// What was asked for.
        value: Span,
    },
    /// A block outside the bounds.
    #[error("blocks of {0} B lie outside {BLOCK_MIN} to {BLOCK_MAX} B: choose a size inside")]
    Block(usize),
    /// Too few or too many transmissions.
    #[error("{0} tries lie outside 1 to {TRIES_MAX}: choose a number inside")]
    Tries(u32),
    /// Blocks that never arrive.
    #[error("every block is lost: choose a smaller block-loss")]
    AllLost,
    /// More than [`PAIR_QUEUE_MAX`] frames.
    #[error("a queue of {0} packets is longer than {PAIR_QUEUE_MAX}: choose a shorter one")]
    Queue(usize),
}

impl BearerConfig {
    fn check(&self) -> Result<(), CellularError> {
        if self.slowest.as_bps() == 0 || self.slowest > self.rate {
            return Err(CellularError::Rates(self.slowest, self.rate));
        }
        if !(BLOCK_MIN..=BLOCK_MAX).contains(&self.block) {
            return Err(CellularError::Block(self.block));
        }
        if !(1..=TRIES_MAX).contains(&self.tries) {
            return Err(CellularError::Tries(self.tries));
        }
        if self.block_loss.num() >= self.block_loss.den() {
            return Err(CellularError::AllLost);
        }
        if self.queue > PAIR_QUEUE_MAX {
            return Err(CellularError::Queue(self.queue));
        }
        times(&[("hold", self.hold), ("round", self.round)])?;
        if self.delay > SPAN_MAX {
            return Err(CellularError::Time { what: "delay", value: self.delay });
        }
        Ok(())
    }
}

fn times(all: &[(&'static str, Span)]) -> Result<(), CellularError> {
    match all.iter().find(|(_, t)| *t == Span::ZERO || *t > SPAN_MAX) {
        Some((what, value)) => Err(CellularError::Time { what, value: *value }),
        None => Ok(()),
    }
}

impl CellularConfig {
    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), CellularError> {
        self.forward.check()?;
        self.reverse.check()?;
        if let Some(promotion) = self.promotion {
            times(&[("idle", promotion.idle), ("promotion", promotion.takes)])?;
        }
        for gaps in [self.spikes, self.handover].into_iter().flatten() {
            times(&[("time between gaps", gaps.every), ("gap", gaps.lasts)])?;
        }
        Ok(())
    }
}
