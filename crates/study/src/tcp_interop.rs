//! Our TCP against the Linux kernel's.
#![allow(dead_code, unused_imports)]
use crate::ours::Ours;
use wavelane_base::{Octets, Rate, Ratio, Seed, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig};
use wavelane_lab::duel::{self, Duel, Load, Side};

#[cfg(test)]
#[path = "tcp_interop_tests.rs"]
mod tests;
