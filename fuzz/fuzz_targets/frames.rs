//! Arbitrary bytes as a decrypted payload: parsing ends, and what parses is written and parsed again.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_wire::Writer;
use wavelane_wire::frame::{Frame, Frames};

fuzz_target!(|input: &[u8]| {
    let Ok(parsed) = Frames::new(input).collect::<Result<Vec<_>, _>>() else { return };
    if parsed.iter().any(|frame| matches!(frame, Frame::Unknown { .. })) {
        return;
    }
    let mut buf = vec![0; input.len() * 4 + 64];
    let mut w = Writer::new(&mut buf);
    parsed.iter().for_each(|frame| frame.emit(&mut w).expect("four times the input is room enough"));
    let len = w.len();
    let again: Result<Vec<_>, _> = Frames::new(&buf[..len]).collect();
    assert_eq!(again.as_ref(), Ok(&parsed));
});
