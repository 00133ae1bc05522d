//! See `shared/probe.rs`.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/probe.rs"]
mod machine;

fuzz_target!(|input: &[u8]| {
    machine::feed(input);
});
