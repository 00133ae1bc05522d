//! Arbitrary bytes as an IPv4 or IPv6 packet with TCP inside.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../shared/tcp_packet.rs"]
mod packet;

fuzz_target!(|input: &[u8]| packet::parse(input));
