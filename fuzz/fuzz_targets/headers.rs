//! Arbitrary bytes as two packets, one told by the other.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/headers.rs"]
mod headers;
#[path = "../shared/tcp_packet.rs"]
#[expect(dead_code, reason = "the other target's half")]
mod tcp_packet;

fuzz_target!(|input: &[u8]| headers::drive(input));
