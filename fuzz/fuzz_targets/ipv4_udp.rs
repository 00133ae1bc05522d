//! Arbitrary bytes as an IPv4 packet with UDP inside.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_wire::ip::Udp4;

fuzz_target!(|input: &[u8]| {
    let _ = Udp4::parse(input);
});
