//! Replays `fuzz/corpus`: every committed input, every prefix of it, and every input with one byte replaced, through
//! every parser of untrusted bytes. Nothing may panic, and what parses must survive a round trip.

#[path = "../../../../fuzz/shared/headers.rs"]
mod headers;
#[path = "../../../../fuzz/shared/ipip.rs"]
mod ipip;
#[path = "../../../../fuzz/shared/packet.rs"]
mod packet;
#[path = "../../../../fuzz/shared/tcp_packet.rs"]
mod tcp_packet;

use std::path::{Path, PathBuf};
use wavelane_wire::datagram::{
    CookieReply, DATA_HEADER_LEN, DataHeader, Handshake, InitPayload, ResponsePayload, open_octets,
};
use wavelane_wire::frame::Frames;
use wavelane_wire::ip::Udp4;
use wavelane_wire::parcel::Parcel;
use wavelane_wire::{DecodeError, Writer};

/// The corpus of one target, in order of name.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{} holds only {} inputs", folder.display(), files.len());
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).expect("a readable file"))).collect()
}

/// Calls `parse` with `input`, its prefixes, and variants that differ in one byte.
fn torment(input: &[u8], parse: fn(&[u8])) {
    parse(input);
    for end in 0..input.len() {
        parse(&input[..end]);
    }
    let mut variant = input.to_vec();
    for at in 0..input.len() {
        for value in [0x00, 0x7f, 0x80, 0xff, input[at] ^ 1, input[at].wrapping_add(1)] {
            variant[at] = value;
            parse(&variant);
        }
        variant[at] = input[at];
    }
}

fn frames(input: &[u8]) {
    assert!(Frames::new(input).count() <= input.len(), "more frames than bytes");
    let parsed: Result<Vec<_>, DecodeError> = Frames::new(input).collect();
    let Ok(parsed) = parsed else { return };
    // Unknown frames are skipped, so they cannot be written again.
    if parsed.iter().any(|frame| matches!(frame, wavelane_wire::frame::Frame::Unknown { .. })) {
        return;
    }
    let mut buf = vec![0; input.len() * 4 + 64];
    let mut w = Writer::new(&mut buf);
    for frame in &parsed {
        frame.emit(&mut w).expect("four times the input is room enough");
    }
    let len = w.len();
    let again: Result<Vec<_>, DecodeError> = Frames::new(&buf[..len]).collect();
    assert_eq!(again.as_ref(), Ok(&parsed), "what was parsed is written and parsed again");
}

fn datagram(input: &[u8]) {
    if let Ok(header) = DataHeader::parse(input) {
        assert_eq!(&header.to_bytes_of(input[0])[..], &input[..DATA_HEADER_LEN]);
    }
    if let Ok(open) = open_octets(input) {
        assert!(DataHeader::parse(input).is_ok() && open.start >= DATA_HEADER_LEN && open.end < input.len());
    }
    if let Ok(reply) = CookieReply::parse(input) {
        assert_eq!(&reply.to_bytes()[..], input);
    }
    if let Ok(handshake) = Handshake::parse(input) {
        assert!(handshake.before_mac1.len() < handshake.before_mac2.len());
    }
    let _ = InitPayload::parse(input);
    let _ = ResponsePayload::parse(input);
}

fn ipv4_udp(input: &[u8]) {
    let Ok(packet) = Udp4::parse(input) else { return };
    let mut buf = vec![0; packet.payload.len() + 28];
    let len = packet.emit(&mut buf).expect("a parsed packet fits");
    assert_eq!(Udp4::parse(&buf[..len]), Ok(packet));
}

#[test]
fn frames_replay() {
    for (file, input) in corpus("frames") {
        println!("{}", file.display());
        torment(&input, frames);
    }
}

#[test]
fn datagrams_replay() {
    for (file, input) in corpus("datagram") {
        println!("{}", file.display());
        torment(&input, datagram);
    }
}

#[test]
fn ipv4_udp_packets_replay() {
    for (file, input) in corpus("ipv4_udp") {
        println!("{}", file.display());
        torment(&input, ipv4_udp);
    }
}

#[test]
fn ipv4_tcp_packets_replay() {
    for (file, input) in corpus("ipv4_tcp") {
        println!("{}", file.display());
        torment(&input, tcp_packet::parse);
    }
}

#[test]
fn packets_in_packets_replay() {
    for (file, input) in corpus("ipip") {
        println!("{}", file.display());
        torment(&input, ipip::drive);
    }
}

#[test]
fn packets_told_by_headers_replay() {
    for (file, input) in corpus("headers") {
        println!("{}", file.display());
        torment(&input, headers::drive);
    }
}

fn parcels(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some(parcel)) = Parcel::parse(rest) {
        rest = &rest[parcel.wire_len()..];
    }
}

#[test]
fn parcels_replay() {
    for (file, input) in corpus("parcel") {
        println!("{}", file.display());
        torment(&input, parcels);
    }
}

#[test]
fn packets_replay() {
    for (file, input) in corpus("packet") {
        println!("{}", file.display());
        torment(&input, packet::drive);
    }
}
