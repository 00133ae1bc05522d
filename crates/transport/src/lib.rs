//! One neighbour, sans-IO: how sealed datagrams travel to it and back, whatever they carry.
//!
//! Reading order: [`link`] (what one datagram takes), then what a link is made of: [`session`] (keys), [`lane`] (packet
//! numbers, acks, controller) and [`fec`] (repair symbols). [`seal`] is between the two edges of a flow instead. What a link carries is a [`Service`]'s, of which nothing here
//! knows more than that trait says.
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
pub use service::{Carries, Fill, NextBulk, PathView, Service};
