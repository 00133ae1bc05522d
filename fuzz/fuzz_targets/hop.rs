//! See `shared/hop.rs`.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/hop.rs"]
mod machine;

fuzz_target!(|input: &[u8]| {
    machine::feed(input);
});
