//! Which frames a medium loses: independently, in bursts, or from a trace.

mod gilbert_elliott;
mod process;

use wavelane_base::{Instant, Ratio, Span};

pub use gilbert_elliott::{GilbertElliott, Share};
pub(crate) use process::{LossProcess, Sending, all_survive};

/// Half-open intervals `[start, stop)` of the channel's clock, sorted and disjoint.
pub type Windows = Vec<(Instant, Instant)>;

/// Shortest mean dwell time of a Gilbert-Elliott state; bounds the work per simulated second.
pub const DWELL_MIN: Span = Span::from_micros(1);
/// Longest mean dwell time of a Gilbert-Elliott state: a year.
pub const DWELL_MAX: Span = Span::from_secs(365 * 86_400);
/// Most intervals or indices a trace may hold.
pub const TRACE_BOUND: usize = 1 << 24;

/// A loss model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LossConfig {
    /// Nothing is lost.
    #[default]
    None,
    /// Each frame, in arrival order, with probability `p`.
    Random {
        /// Probability per frame.
        p: Ratio,
    },
    /// Two states that alternate in time, independent of the traffic, starting in good at time zero.
    GilbertElliott {
        /// Mean dwell time in the good state; dwell times are exponential.
        good: Span,
        /// Mean dwell time in the bad state.
        bad: Span,
        /// Loss probability in the good state, per packet or per bit.
        in_good: Ratio,
        /// Loss probability in the bad state, per packet or per bit.
        in_bad: Ratio,
        /// The unit of the two probabilities.
        per: PerUnit,
    },
    /// A recorded trace.
    Trace(LossTrace),
}

/// The unit of a loss probability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PerUnit {
    /// A frame is lost with the probability of the state in which its last bit is sent.
    #[default]
    Packet,
    /// A frame is lost if any of its bits is hit; each bit counts with the state in which it is sent.
    Bit,
}

/// A recorded loss pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LossTrace {
    /// A frame is lost if its last bit is sent inside one of these intervals.
    Intervals(Windows),
    /// Numbers of the lost frames, counted from 0 in order of arrival at the port; strictly rising.
    Frames(Vec<u64>),
}

/// Why a loss model is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LossError {
    /// A dwell time outside [`DWELL_MIN`] to [`DWELL_MAX`].
    #[error(
        "mean {state} time of {value} is outside {DWELL_MIN} to {DWELL_MAX}: for a state that never ends use random loss"
    )]
    Dwell {
        /// Which state.
        state: &'static str,
        /// What was asked for.
        value: Span,
    },
    /// An interval that ends before it starts, or overlaps the one before.
    #[error(
        "interval {index} ({start} to {stop} after the start) is empty or begins before the one before it ends: sort and merge them"
    )]
    Window {
        /// Its place in the list, from 0.
        index: usize,
        /// Its start.
        start: Span,
        /// Its end.
        stop: Span,
    },
    /// Frame numbers that do not rise.
    #[error("frame number {number} at place {index} does not rise: sort the list and remove repeats")]
    FrameOrder {
        /// Its place in the list, from 0.
        index: usize,
        /// The number.
        number: u64,
    },
    /// A list beyond [`TRACE_BOUND`].
    #[error("{len} entries are more than {TRACE_BOUND}: split the recording")]
    TraceTooLong {
        /// Entries given.
        len: usize,
    },
}

/// Rejects windows that are empty, unsorted or overlapping, or too many.
pub(crate) fn check_windows(windows: &[(Instant, Instant)]) -> Result<(), LossError> {
    if windows.len() > TRACE_BOUND {
        return Err(LossError::TraceTooLong { len: windows.len() });
    }
    let mut free_from = Instant::ZERO;
    for (index, &(start, stop)) in windows.iter().enumerate() {
        if start >= stop || start < free_from {
            let (start, stop) = (start.since(Instant::ZERO), stop.since(Instant::ZERO));
            return Err(LossError::Window { index, start, stop });
        }
        free_from = stop;
    }
    Ok(())
}

/// Whether `at` lies in one of `windows`, which are sorted and disjoint.
pub(crate) fn in_windows(windows: &[(Instant, Instant)], at: Instant) -> bool {
    let begun = windows.partition_point(|&(start, _)| start <= at);
    begun > 0 && at < windows[begun - 1].1
}

impl LossConfig {
    /// Rejects invalid configurations.
    pub fn check(&self) -> Result<(), LossError> {
        match self {
            Self::None | Self::Random { .. } => Ok(()),
            Self::GilbertElliott { good, bad, .. } => {
                for (state, value) in [("good", *good), ("bad", *bad)] {
                    if !(DWELL_MIN..=DWELL_MAX).contains(&value) {
                        return Err(LossError::Dwell { state, value });
                    }
                }
                Ok(())
            }
            Self::Trace(LossTrace::Intervals(windows)) => check_windows(windows),
            Self::Trace(LossTrace::Frames(frames)) => {
                if frames.len() > TRACE_BOUND {
                    return Err(LossError::TraceTooLong { len: frames.len() });
                }
                match frames.windows(2).position(|pair| pair[0] >= pair[1]) {
                    Some(i) => Err(LossError::FrameOrder { index: i + 1, number: frames[i + 1] }),
                    None => Ok(()),
                }
            }
        }
    }
}
