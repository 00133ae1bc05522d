//! Arbitrary bytes as a datagram of any kind.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_wire::datagram::{CookieReply, DATA_HEADER_LEN, DataHeader, Handshake, InitPayload, ResponsePayload, open_octets};

fuzz_target!(|input: &[u8]| {
    if let Ok(header) = DataHeader::parse(input) {
        assert_eq!(header.to_bytes_of(input[0])[..], input[..DATA_HEADER_LEN]);
    }
    if let Ok(open) = open_octets(input) {
        assert!(DataHeader::parse(input).is_ok() && open.start >= DATA_HEADER_LEN && open.end < input.len());
    }
    if let Ok(reply) = CookieReply::parse(input) {
        assert_eq!(&reply.to_bytes()[..], input);
    }
    let _ = Handshake::parse(input);
    let _ = InitPayload::parse(input);
    let _ = ResponsePayload::parse(input);
});
