//! Arbitrary bytes as an IP packet that passes through.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/packet.rs"]
mod packet;

fuzz_target!(|input: &[u8]| packet::drive(input));
