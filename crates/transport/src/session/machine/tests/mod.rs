//! Sessions between two or more nodes of a small world.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod age;
mod bytes;
mod handshake;
mod laws;
mod recall;
mod strangers;

use super::super::mac::mac2;
use super::super::world::{Node, PORT, World, address, config, entropy, private_key, way};
use super::super::*;
use proptest::prelude::*;
use wavelane_base::{Entropy, FrameMeta, Instant, Machine, Seed, Transmit, Wakeup};
use wavelane_wire::datagram::{DATA_HEADER_LEN, HANDSHAKE_MAX, MAC_LEN, Suite, TAG_LEN, kind, open_octets};

const MS50: Span = Span::from_millis(50);

/// An established pair, and a genuine datagram of each kind to start from.
fn established(seed: u64) -> (World, Vec<Vec<u8>>) {
    let mut w = World::with([config(0, 1), config(1, 1)], MS50, seed);
    w.want(0);
    w.run(Span::from_secs(1));
    w.send(0, b"something");
    w.run(Span::from_millis(60));
    let kinds = w.sent.iter().map(|s| s.2.clone()).collect();
    (w, kinds)
}
