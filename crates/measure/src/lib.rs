//! Pure analysis: samples in, statistics out.
//!
//! No clock, no file, no dice: the same samples give the same figures on every machine. A figure that cannot be
//! computed is `None`, which a record writes as `null`; never zero, never infinite.
#![forbid(unsafe_code)]

mod goodput;
pub mod pcapng;
mod probes;
mod quantiles;
mod stats;

pub use goodput::{Arrival, Bin, Timing, WARM_UP, goodput, throughput_series};
pub use probes::{CdfPoint, LOST_RANKS_ABOVE, Probes};
pub use quantiles::Quantiles;
pub use stats::{Interval, jain, mean, mean_with_ci95, sample_deviation, student_t_975};
