//! Arbitrary bytes as an IPv4 packet with TCP inside.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_wire::tcp::TcpPacket;

fuzz_target!(|input: &[u8]| {
    let _ = TcpPacket::parse(input);
});
