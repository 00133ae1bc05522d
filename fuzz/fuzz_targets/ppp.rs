//! A peer of the PPP automaton: control packets, octets and time.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/serial.rs"]
#[expect(dead_code, reason = "the other target's half")]
mod serial;

fuzz_target!(|input: &[u8]| {
    serial::ppp(input);
});
