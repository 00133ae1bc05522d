#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bbr3;
mod close;
mod compression;
mod data;
mod guess;
mod handshake;
mod hostile;
mod hosts;
mod knobs;
mod laws;
mod marks;
mod offload;
mod outage;
mod pipe;
mod pmtu;
mod recovery;
mod script;
mod segments;
mod throughput;
mod timers;
mod undo;
mod world;

use super::*;
use wavelane_base::{Instant, Span};

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}
