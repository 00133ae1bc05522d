//! A packet that may hold another, as it is and with both checksums put right: what comes out is a packet, goes in again, and is cut to packets.

use std::net::Ipv4Addr;
use wavelane_wire::ip::checksum;
use wavelane_wire::ipip::{open, unmerge, wrap};

pub(crate) fn drive(input: &[u8]) {
    judge(input);
    let mut mended = input.to_vec();
    if sum_up(&mut mended, 0).and_then(|inner| sum_up(&mut mended, inner)).is_some() {
        judge(&mended);
    }
}

fn judge(input: &[u8]) {
    let mut packet = input.to_vec();
    let Ok(opened) = open(&mut packet) else { return };
    let (peer, inner) = (opened.peer, opened.packet.to_vec());
    assert!(checksum(&[&inner[..header_len(&inner)]]) == 0, "a header that is one");
    let mut pieces = 0;
    unmerge(opened.packet, |piece| {
        pieces += 1;
        let mut buf = vec![0; piece.len() + 20];
        let Ok(len) = wrap(piece, (Ipv4Addr::LOCALHOST, peer), &mut buf) else {
            return assert!(piece.len() > 65_515, "all that fits goes in");
        };
        let again = open(&mut buf[..len]).expect("what came out goes in and comes out");
        assert_eq!(again.packet, piece);
    });
    assert!(pieces >= 1 && pieces <= 1 + inner.len() / 1_220, "{pieces} pieces");
}

fn header_len(packet: &[u8]) -> usize {
    usize::from(packet[0] & 15) * 4
}

/// Puts the checksum right of the header that begins there, and says where it ends.
fn sum_up(packet: &mut [u8], from: usize) -> Option<usize> {
    let header = from + usize::from(packet.get(from)? & 15) * 4;
    let part = packet.get_mut(from..header).filter(|part| part.len() >= 20)?;
    part[10..12].fill(0);
    let sum = checksum(&[part]);
    part[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(header)
}
