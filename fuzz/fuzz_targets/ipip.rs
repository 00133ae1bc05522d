//! Arbitrary bytes as a packet that holds another.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/ipip.rs"]
mod ipip;

fuzz_target!(|input: &[u8]| ipip::drive(input));
