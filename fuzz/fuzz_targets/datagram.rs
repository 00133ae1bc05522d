//! Arbitrary bytes as a datagram of any kind.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_wire::datagram::{CookieReply, DataHeader, Handshake, InitPayload, ResponsePayload};

fuzz_target!(|input: &[u8]| {
    if let Ok(header) = DataHeader::parse(input) {
        assert_eq!(header.to_bytes()[..], input[..header.to_bytes().len()]);
    }
    if let Ok(reply) = CookieReply::parse(input) {
        assert_eq!(&reply.to_bytes()[..], input);
    }
    let _ = Handshake::parse(input);
    let _ = InitPayload::parse(input);
    let _ = ResponsePayload::parse(input);
});
