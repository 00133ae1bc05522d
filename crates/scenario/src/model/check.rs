//! What must hold of the figures.

use super::Stack;

/// Something that must hold of the figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The stack it is about.
    pub stack: Stack,
    /// The flow whose figure is judged.
    pub flow: String,
    /// Which figure.
    pub metric: Metric,
    /// Least or most.
    pub side: Side,
    /// Compared with what.
    pub bound: Bound,
}

/// Whether a bound is a floor or a ceiling.
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
        /// Only those stacks count whose goodput reaches this share of the judged stack's goodput.
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
