//! See `shared/hostile_peer.rs`.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/hostile_peer.rs"]
mod peer;

fuzz_target!(|input: &[u8]| {
    peer::feed(input);
});
