//! Sealed datagrams in captures: opened with their key, left alone without it, and never a panic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::trace::capture::packets as read_back;
use proptest::prelude::*;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use wavelane_measure::pcapng::{LINKTYPE_PDU, LINKTYPE_RAW, PDU_TAGS, put_head, put_packet};
use wavelane_wire::datagram::{DataHeader, Suite, kind};
use wavelane_wire::ip::{Ip, checksum};
use wavelane_wire::keylog::LoggedKey;

const FRAMES: &[u8] = b"frames of a datagram";

fn sealed(key: &LoggedKey, number: u64) -> Vec<u8> {
    let algorithm = if key.suite == Suite::Aes256Gcm { &AES_256_GCM } else { &CHACHA20_POLY1305 };
    let sealing = LessSafeKey::new(UnboundKey::new(algorithm, &key.key).unwrap());
    let header = DataHeader { lane: 3, receiver: key.receiver, number };
    let mut body = FRAMES.to_vec();
    let nonce = Nonce::assume_unique_for_key(header.nonce());
    sealing.seal_in_place_append_tag(nonce, Aad::from(header.to_bytes()), &mut body).unwrap();
    [&header.to_bytes()[..], &body].concat()
}

fn udp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let mut ip = if v6 {
        let mut ip = vec![0x60, 0, 0, 0, length[0], length[1], 17, 64];
        ip.extend([7; 32]);
        ip
    } else {
        let total = (28 + payload.len() as u16).to_be_bytes();
        let mut ip = vec![0x45, 2, total[0], total[1], 0, 1, 0x40, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum(&[&ip]).to_be_bytes();
        ip[10..12].copy_from_slice(&sum);
        ip
    };
    ip.extend([0x12, 0xac, 0x12, 0xac, length[0], length[1], 0, 0]);
    ip.extend(payload);
    ip
}

fn capture(packets: &[Vec<u8>], snaplen: usize) -> Vec<u8> {
    capture_of(LINKTYPE_RAW, packets, snaplen)
}

fn capture_of(kind: u16, packets: &[Vec<u8>], snaplen: usize) -> Vec<u8> {
    let mut file = Vec::new();
    put_head(&mut file, kind, "test", 0);
    for packet in packets {
        put_packet(&mut file, 1_000_000_000, None, &packet[..packet.len().min(snaplen)], packet.len());
    }
    file
}

fn key(suite: Suite, receiver: u32) -> LoggedKey {
    LoggedKey { receiver, suite, key: [receiver as u8; 32] }
}

fn keys(list: &[LoggedKey]) -> Keys {
    let log: String = list.iter().map(|key| format!("{key}\n")).collect();
    Keys::read(format!("# a log\n\n{log}{log}").as_bytes()).unwrap()
}

fn opened(file: &[u8], keys: &Keys) -> (Opened, Vec<Vec<u8>>) {
    let mut out = Vec::new();
    let sum = decrypt(file, keys, &mut out, |_| true).unwrap();
    let mut packets = Vec::new();
    read_back(&out[..], |packet| {
        packets.push(packet.bytes.to_vec());
        true
    })
    .unwrap();
    (sum, packets)
}

#[test]
fn both_ciphers_and_ip_versions_are_decrypted() {
    for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
        for v6 in [false, true] {
            let key = key(suite, 5);
            let datagram = sealed(&key, 77);
            let (sum, packets) = opened(&capture(&[udp(v6, &datagram)], 9_000), &keys(&[key]));
            assert_eq!((sum.packets, sum.opened, sum.without_key), (1, 1, 0));
            let ip = Ip::parse(&packets[0]).unwrap();
            let expected = [&[kind::OPENED], &datagram[1..12], FRAMES].concat();
            assert_eq!(ip.payload[8..], expected);
            let length = (ip.payload.len() as u16).to_be_bytes();
            let addresses = if v6 { &packets[0][8..40] } else { &packets[0][12..20] };
            assert_eq!(ip.payload[4..6], length);
            assert_eq!(checksum(&[addresses, &[0, 17], &length, ip.payload]), 0);
        }
    }
}

#[test]
fn a_super_packet_becomes_its_datagrams() {
    let key = key(Suite::Aes256Gcm, 9);
    let three = [sealed(&key, 1), sealed(&key, 2), sealed(&key, 3)].concat();
    let (sum, packets) = opened(&capture(&[udp(false, &three)], 9_000), &keys(&[key]));
    assert_eq!((sum.packets, sum.opened, packets.len()), (1, 3, 3));
    let numbers: Vec<u8> = packets.iter().map(|packet| packet[28 + 11]).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_datagram_that_comes_through_a_home_agent_is_decrypted() {
    let key = key(Suite::Aes256Gcm, 1);
    let plain = udp(false, &sealed(&key, 77));
    let mut outer = plain[..20].to_vec();
    outer[2..4].copy_from_slice(&(20 + plain.len() as u16).to_be_bytes());
    outer[9] = 4;
    let (_, wanted) = opened(&capture(std::slice::from_ref(&plain), 9_000), &keys(&[key]));
    let (sum, packets) = opened(&capture(&[[outer, plain].concat()], 9_000), &keys(&[key]));
    assert_eq!((sum.packets, sum.opened), (1, 1));
    assert_eq!(packets, wanted);
}

#[test]
fn datagrams_of_serial_lanes_are_decrypted_behind_their_tags() {
    let (known, other) = (key(Suite::Aes256Gcm, 1), key(Suite::Aes256Gcm, 2));
    let tagged = |datagram: &[u8]| [&PDU_TAGS[..], datagram].concat();
    let all = [
        tagged(&sealed(&known, 77)),
        tagged(&sealed(&other, 1)),
        tagged(&[1; 60]),
        b"\0\x0c\0\x04http\0\0\0\0".to_vec(),
    ];
    let (sum, packets) = opened(&capture_of(LINKTYPE_PDU, &all, 9_000), &keys(&[known]));
    assert_eq!((sum.packets, sum.opened, sum.without_key, sum.not_ip), (4, 1, 1, 1));
    let expected = [&PDU_TAGS[..], &[kind::OPENED], &sealed(&known, 77)[1..12], FRAMES].concat();
    assert_eq!(packets, [expected, all[1].clone(), all[2].clone()]);
    let (sum, packets) = opened(&capture_of(LINKTYPE_PDU, &all[..1], 40), &keys(&[known]));
    assert_eq!((sum.opened, sum.cut_off, packets[0].len()), (0, 1, 40));
    // Figures of TCP are of other captures.
    let read = analyse(&capture_of(LINKTYPE_PDU, &all, 9_000)[..], |_| true).unwrap();
    assert_eq!(read.unread.get(&Unread::Protocol), Some(&4));
}

#[test]
fn undecryptable_packets_are_kept_and_counted() {
    let (known, other) = (key(Suite::Aes256Gcm, 1), key(Suite::Aes256Gcm, 2));
    let forged = LoggedKey { receiver: 1, ..other };
    let all = [udp(false, &sealed(&other, 1)), udp(false, &sealed(&forged, 1)), udp(false, &[1; 60]), vec![0x45; 30]];
    let (sum, packets) = opened(&capture(&all, 9_000), &keys(&[known]));
    assert_eq!((sum.packets, sum.opened, sum.without_key, sum.cut_off), (4, 0, 2, 0));
    assert_eq!(packets, all);
    let (sum, packets) = opened(&capture(&[udp(false, &sealed(&known, 1))], 40), &keys(&[known]));
    assert_eq!((sum.opened, sum.cut_off), (0, 1));
    assert_eq!(packets[0].len(), 40);
}

#[test]
fn a_key_log_is_read_or_its_line_is_named() {
    let line = key(Suite::Aes256Gcm, 1).to_string();
    assert!(matches!(Keys::read("# only words\n".as_bytes()), Err(KeysError::Empty)));
    let wrong = Keys::read("\n\nnonsense\n".as_bytes());
    assert!(matches!(wrong, Err(KeysError::Line(3, _))));
    // A line that was cut off, and the next written behind it, cost that line alone.
    let cut = format!("{}{line}\n{line}\n", &line[..54]);
    assert!(Keys::read(cut.as_bytes()).is_ok());
    let other = format!("{line}\n{}", "nonsense\n".repeat(super::decrypt::BAD_LINES_MAX + 1));
    assert!(matches!(Keys::read(other.as_bytes()), Err(KeysError::Line(66, _))));
    let endless = vec![b'a'; 1 << 20];
    assert!(matches!(Keys::read(&endless[..]), Err(KeysError::Line(65, _))));
    assert!(matches!(Keys::read(&[0xff, 0xfe, b'\n'][..]), Err(KeysError::Io(_))));
}

#[test]
fn a_full_disk_is_said() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let key = key(Suite::Aes256Gcm, 1);
    let ended = decrypt(&capture(&[udp(false, &sealed(&key, 1))], 9_000)[..], &keys(&[key]), &mut Full, |_| true);
    assert!(matches!(ended, Err(DecryptError::Write(_))));
}

proptest! {
    #[test]
    fn no_packet_makes_it_panic(
        v6: bool,
        at in 0..90_usize,
        byte: u8,
        cut in 0..90_usize,
        payload in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let known = key(Suite::Aes256Gcm, 1);
        let mut damaged = udp(v6, &sealed(&known, 1));
        if let Some(place) = damaged.get_mut(at) {
            *place = byte;
        }
        let random = udp(v6, &[&[kind::DATA, 3, 0, 0, 0, 1][..], &payload].concat());
        let (sum, _) = opened(&capture(&[damaged, random, payload], cut), &keys(&[known]));
        prop_assert_eq!(sum.packets, 3);
    }
}
