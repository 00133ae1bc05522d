//! ns-3 as the peer of the simulator: the same cells in both.

pub mod cases;
pub mod peer;
