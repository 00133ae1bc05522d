//! Pure analysis: samples in, statistics out.
//!
//! No clock, no file, no randomness: the same samples give the same figures on every machine. A figure that cannot be
//! computed is `None`, which a record writes as `null`; never zero, never infinite.
#![forbid(unsafe_code)]

mod autorate;
mod clocks;
mod goodput;
mod grade;
pub mod pcapng;
mod probes;
mod quantiles;
mod responsiveness;
mod stats;
mod table;

pub use autorate::{Autorate, AutorateCause, AutorateTerms, RISE_DEFAULT, SILENCE as AUTORATE_SILENCE};
pub use clocks::{ClockLine, Exchange};
pub use goodput::{Timing, WARM_UP, goodput};
pub use grade::{GRADE_SCALE, LOSS_RULE, best_at_loss, bloat_ratio, grade, is_worse, letter};
pub use probes::{LOST_RANK_MS, LOST_RANKS_ABOVE, Probes, ranked_ms};
pub use quantiles::Quantiles;
pub use responsiveness::{
    Confidence, RPM_DRAFT, RPM_INTERVAL_S, RPM_INTERVALS, Rpm, RpmInterval, rpm, rpm_bound, rpm_class, trimmed_mean,
};
pub use stats::{jain, mean, mean_ci95, percentile, quantile, sample_deviation, student_t_975};
pub use table::{Cells, Column, Table, csv_field};
