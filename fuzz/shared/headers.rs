//! Two packets, the second made of the first by the input, as they are and with both checksums put right: what is told of one by the other
//! is that packet or nothing. And a frame of the input's at whatever headers there are.

use super::tcp_packet::mend;
use wavelane_wire::frame::{CompressedFrame, Frame, Frames};
use wavelane_wire::packet::Headers;

/// The first octet says how long the first packet is.
pub(crate) fn drive(input: &[u8]) {
    let Some((&len, rest)) = input.split_first() else { return };
    let (base, rest) = rest.split_at(usize::from(len).min(rest.len()));
    let mut base = base.to_vec();
    let _ = mend(&mut base);
    let Some(headers) = Headers::of(&base) else { return };
    let mut next = base.clone();
    for pair in rest.chunks_exact(2) {
        let at = usize::from(pair[0]) % next.len();
        next[at] ^= pair[1];
    }
    judge(&headers, &next);
    if mend(&mut next).is_some() {
        judge(&headers, &next);
    }
    for frame in Frames::new(rest).flatten() {
        if let Frame::Compressed(CompressedFrame { changes, payload, .. }) = frame
            && let Some(packet) = headers.apply(&changes, payload)
        {
            judge(&headers, &packet);
        }
    }
}

fn judge(headers: &Headers, packet: &[u8]) {
    if let Some((changes, len)) = headers.changes_to(packet) {
        assert_eq!(headers.apply(&changes, &packet[len..]).as_deref(), Some(packet));
        assert!(Headers::of(packet).is_some(), "what was told can be told by");
    }
}
