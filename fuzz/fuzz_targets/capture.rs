//! Arbitrary bytes as a capture file, and as a result file of another tool.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/capture.rs"]
mod capture;

fuzz_target!(|input: &[u8]| capture::check(input));
