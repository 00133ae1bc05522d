//! A hostile peer: arbitrary segments near the window, time, and an owner that writes, reads and ends as it likes.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/tcp_machine.rs"]
mod machine;

fuzz_target!(|input: &[u8]| machine::drive(input));
