//! Arbitrary frames at the repair decoder: no panic, and whatever comes out was the length it says.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_transport::fec::{Decoder, SOURCES_MAX};
use wavelane_wire::frame::{Frame, Frames};

fuzz_target!(|input: &[u8]| {
    let mut decoder = Decoder::default();
    let mut recovered = 0;
    for (number, piece) in (0u64..).zip(input.chunks(48)) {
        match Frames::new(piece).next() {
            Some(Ok(Frame::Protected)) => {
                decoder.source(number, piece);
            }
            Some(Ok(Frame::Repair(r))) => decoder.repair(r.key, r.first, r.mask, r.symbol),
            _ => {}
        }
        while let Some((_, datagram)) = decoder.poll_recovered() {
            assert!(datagram.len() <= 48);
            recovered += 1;
        }
    }
    assert!(recovered <= input.len().div_ceil(48) * SOURCES_MAX);
});
