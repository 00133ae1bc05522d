//! Arbitrary messages of ARP and neighbour discovery, and time, at a proxy that claims addresses.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/neighbors.rs"]
mod neighbors;

fuzz_target!(|input: &[u8]| neighbors::drive(input));
