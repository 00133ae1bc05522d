//! Arbitrary bytes as a flow of parcels: every step goes forward, or parsing ends.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_wire::parcel::Parcel;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Ok(Some(parcel)) = Parcel::parse(rest) {
        rest = &rest[parcel.wire_len()..];
    }
});
