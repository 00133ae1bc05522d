//! One neighbour, sans-IO: how sealed datagrams travel to it and back, whatever they carry.
//!
//! Reading order: [`link`] (the content of one datagram), then the parts of a link: [`session`] (keys), [`lane`] (packet numbers, acks,
//! controller) and [`fec`] (repair symbols). [`seal`] works between the two edges of a flow instead. The content comes from a [`Service`],
//! of which nothing here knows more than that trait says.
#![forbid(unsafe_code)]

mod budget;
pub mod fec;
pub mod lane;
pub mod link;
pub mod seal;
mod service;
pub mod session;

pub use budget::{LOSSY, RepairBudget};
pub use lane::Controller;
pub use link::{Choice, VERY_THIN};
pub use service::{Bulk, Carries, Digest, Fill, NextBulk, PathView, Service};
