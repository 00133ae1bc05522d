#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::super::packet::tests::{ip4, tcp_of};
use super::super::packet::{Frame, read};
use super::*;

fn ether(between: &[u8]) -> Vec<u8> {
    [&[0; 12][..], between, &ip4()].concat()
}

/// Linux's cooked headers with this protocol, and what follows them.
fn sll(kind: [u8; 2], between: &[u8]) -> Vec<u8> {
    [&[0; 14][..], &kind, between, &ip4()].concat()
}
fn sll2(kind: [u8; 2], between: &[u8]) -> Vec<u8> {
    [&kind[..], &[0; 18], between, &ip4()].concat()
}

/// An 802.11 data frame with these first octets, `header` in all, and SNAP.
fn air(control: u8, flags: u8, header: usize) -> Vec<u8> {
    let mut frame = vec![0; header];
    frame[0] = control;
    frame[1] = flags;
    [&frame[..], &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0], &ip4()].concat()
}

#[test]
fn every_link_type_and_layer_leads_to_the_same_segment() {
    let plain = tcp_of(LinkType::Raw, &ip4());
    let aggregate = {
        let mut frame = air(0x88, 1, 26 + 14);
        frame[24] = 0x80;
        frame
    };
    let behind_radiotap = |header: &[u8], frame: Vec<u8>| [header, &frame].concat();
    let pseudowire = [&[0x88, 0x47, 0, 6, 0x41, 0x40, 0, 0, 0, 0][..], &[0; 12], &[8, 0]].concat();
    let provider = [&[0x88, 0xE7, 0, 0, 0, 1][..], &[0; 12], &[8, 0]].concat();
    for (i, (link, frame)) in [
        (LinkType::Ethernet, ether(&[8, 0])),
        (LinkType::Ethernet, ether(&[0x81, 0, 0, 5, 8, 0])),
        (LinkType::Ethernet, ether(&[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 8, 0])),
        (LinkType::Ethernet, ether(&[0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, 65, 0, 0x21])),
        (LinkType::Ethernet, ether(&[0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, 64, 0x21])),
        (LinkType::Ethernet, ether(&[0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, 65, 0, 0x21])),
        (LinkType::Ethernet, ether(&[0x88, 0x47, 0, 6, 0x41, 0x40])),
        (LinkType::Ethernet, ether(&[0x88, 0x48, 0, 6, 0x40, 0x40, 0, 7, 0x41, 0x40])),
        (LinkType::Ethernet, ether(&pseudowire)),
        (LinkType::Ethernet, ether(&provider)),
        (LinkType::Ethernet, ether(&[0, 71, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0])),
        (LinkType::Null, [&[2, 0, 0, 0], &ip4()[..]].concat()),
        (LinkType::Loop, [&[0, 0, 0, 2], &ip4()[..]].concat()),
        (LinkType::Sll, sll([8, 0], &[])),
        (LinkType::Sll, sll([0x81, 0], &[0, 5, 8, 0])),
        (LinkType::Sll2, sll2([8, 0], &[])),
        (LinkType::Sll2, sll2([0x81, 0], &[0, 5, 8, 0])),
        (LinkType::Sll2, sll2([0x88, 0x64], &[0x11, 0, 0x12, 0x34, 0, 65, 0, 0x21])),
        (LinkType::Sll2, sll2([0, 4], &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0])),
        (LinkType::Ppp, [&[0xFF, 3, 0, 0x21], &ip4()[..]].concat()),
        (LinkType::Ppp, [&[0x21], &ip4()[..]].concat()),
        (LinkType::PppoE, [&[0x11, 0, 0, 1, 0, 65, 0, 0x21], &ip4()[..]].concat()),
        (LinkType::Hdlc, [&[0x0F, 0, 8, 0], &ip4()[..]].concat()),
        (LinkType::Mpls, [&[0, 6, 0x41, 0x40], &ip4()[..]].concat()),
        (LinkType::Wifi, air(0x08, 1, 24)),
        (LinkType::Wifi, air(0x88, 2, 26)),
        (LinkType::Wifi, air(0x88, 0x82, 30)),
        (LinkType::Wifi, air(0x88, 3, 32)),
        (LinkType::Wifi, aggregate),
        (LinkType::Radiotap, behind_radiotap(&[0, 0, 8, 0, 0, 0, 0, 0], air(0x08, 1, 24))),
        // Time and flags, which say that the header is padded.
        (
            LinkType::Radiotap,
            behind_radiotap(&[0, 0, 17, 0, 3, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 0x20], air(0x88, 1, 28)),
        ),
        // Two words of fields.
        (LinkType::Radiotap, behind_radiotap(&[0, 0, 13, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 0x10], air(0x88, 1, 26))),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(tcp_of(link, &frame), plain, "{i}: {link:?}");
    }
}

#[test]
fn every_other_frame_has_its_cause() {
    let bad_fcs = [&[0, 0, 9, 0, 2, 0, 0, 0, 0x40], &air(0x08, 1, 24)[..]].concat();
    for (link, frame, cause) in [
        (LinkType::Ethernet, ether(&[8, 6]), Unread::NoPacket),
        (LinkType::Ethernet, ether(&[0x88, 0x63]), Unread::NoPacket),
        (LinkType::Ethernet, ether(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 9, 0xC0, 0x21]), Unread::NoPacket),
        (LinkType::Ethernet, ether(&[0, 38, 0x42, 0x42, 3]), Unread::NoPacket),
        (LinkType::Ethernet, ether(&[0x88, 0xE5]), Unread::Protocol),
        (LinkType::Ethernet, vec![0; 13], Unread::Damaged),
        (LinkType::Ethernet, ether(&[0x81, 0])[..15].to_vec(), Unread::Damaged),
        (LinkType::Ethernet, ether(&[0x81, 0, 0, 1].repeat(40)), Unread::Protocol),
        (LinkType::Sll2, sll2([0, 1], &[]), Unread::Protocol),
        (LinkType::Mpls, [0, 6, 0x40, 0x40].repeat(40), Unread::Protocol),
        (LinkType::Wifi, air(0xD4, 0, 24), Unread::NoPacket),
        (LinkType::Wifi, air(0x48, 0, 24), Unread::NoPacket),
        (LinkType::Wifi, air(0x88, 0x41, 26), Unread::Encrypted),
        (LinkType::Radiotap, bad_fcs, Unread::Damaged),
        (LinkType::Raw, vec![0x55; 60], Unread::Damaged),
    ] {
        assert_eq!(read(link, &frame, 2_000), Frame::Unread(cause), "{link:?} {:02x?}", &frame[..frame.len().min(24)]);
    }
}
