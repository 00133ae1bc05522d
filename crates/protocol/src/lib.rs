//! Every protocol machine of Wavelane, sans-IO: the same code runs in the simulator, the lab and the daemon.
//!
//! Reading order: [`gateway`] (what a node's owner sees), [`link`] (one neighbour), then the parts a link is made
//! of: [`session`] (keys), [`lane`] (packet numbers, acks, controller), [`hop`] (the block service), [`packet`] (the
//! packet service: [`queue`] and [`arq`]), [`fec`] (repair symbols). [`tcp`] stands apart: the end host's TCP.
#![forbid(unsafe_code)]

pub mod arq;
pub mod fec;
pub mod gateway;
pub mod hop;
pub mod lane;
pub mod link;
pub mod packet;
pub mod queue;
pub mod session;
pub mod tcp;
