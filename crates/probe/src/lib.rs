//! Instruments: connections from capture files, and the result files of other tools.
#![forbid(unsafe_code)]

pub mod formats;
pub mod trace;
