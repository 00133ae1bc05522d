//! Conditions on the figures.

use super::Stack;

/// A condition on a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The stack whose figure is checked.
    pub stack: Stack,
    /// The flow whose figure is checked.
    pub flow: String,
    /// The figure.
    pub metric: Metric,
    /// Minimum or maximum.
    pub side: Side,
    /// The value to compare with.
    pub bound: Bound,
}

/// Whether a bound is a minimum or a maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The figure must not be smaller.
    AtLeast,
    /// The figure must not be larger.
    AtMost,
}

/// What a figure is compared with.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    /// A number in the metric's own unit.
    Value(f64),
    /// Other stacks' figure of the same flow.
    Than {
        /// The stacks, each of which is compared.
        stacks: Vec<Stack>,
        /// Factor on their figure.
        times: f64,
        /// Only stacks are compared whose goodput reaches this share of the checked stack's goodput.
        if_goodput_at_least: Option<f64>,
    },
}

/// A figure a check can name; the words are the keys of the JSON document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Receiver's bits per second.
    GoodputBps,
    /// connect() to last byte.
    DurationMs,
    /// Median echo delay.
    RttP50Ms,
    /// 95th percentile of echo delay.
    RttP95Ms,
    /// 99th percentile of echo delay.
    RttP99Ms,
    /// 95th percentile of the age of a download's bytes.
    AgeP95Ms,
    /// Echo probes without answer.
    Lost,
    /// Application bytes received.
    Bytes,
    /// 1 if the flow completed, else 0.
    Completed,
    /// 1 if the hash matched, else 0.
    Intact,
    /// IP bytes offered to the bad channel over bytes delivered; of the stack, not of one flow.
    WireBytesPerDeliveredByte,
    /// Repair bytes over first transmissions; of the stack, not of one flow.
    RepairShare,
}
