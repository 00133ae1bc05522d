//! Damaged captures: whatever the bytes, no panic, no endless loop, and what came before the damage is kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use proptest::prelude::*;
use std::io::Write;
use wavelane_measure::pcapng::{LINKTYPE_RAW, put_head, put_packet};

fn segment(way: bool, seq: u32, ack: u32, flags: u8, data: usize) -> Vec<u8> {
    let (from, to) = if way { (1, 2) } else { (2, 1) };
    let mut p = vec![0x45, 0];
    p.extend((40 + data as u16).to_be_bytes());
    p.extend([0, 42, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    p.extend([0, 80, 0, 80]);
    p.extend(seq.to_be_bytes());
    p.extend(ack.to_be_bytes());
    p.extend([0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    p.extend((0..data as u32).map(|i| ((seq + i).wrapping_mul(2_654_435_761) >> 24) as u8));
    p
}

/// A handshake, a few segments of which one is sent twice, and the end.
fn packets() -> Vec<Vec<u8>> {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let mut all =
        vec![segment(true, 99, 0, SYN, 0), segment(false, 499, 100, SYN | ACK, 0), segment(true, 100, 500, ACK, 0)];
    for i in 0..20 {
        all.push(segment(true, 100 + i * 50, 500, ACK, 50));
        if i == 7 {
            all.push(segment(true, 100 + i * 50, 500, ACK, 50));
        }
        all.push(segment(false, 500, 150 + i * 50, ACK, 0));
    }
    all.push(segment(true, 1_100, 500, FIN | ACK, 0));
    all.push(segment(false, 500, 1_101, FIN | ACK, 0));
    all
}

pub(super) fn pcapng() -> Vec<u8> {
    let mut file = Vec::new();
    put_head(&mut file, LINKTYPE_RAW, "test", 0);
    for (i, packet) in packets().iter().enumerate() {
        put_packet(&mut file, 1_000_000_000 + i as u64 * 1_000_000, None, packet, packet.len());
    }
    file
}

fn pcap(nanoseconds: bool, big: bool) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let magic = if nanoseconds { 0xA1B2_3C4D_u32 } else { 0xA1B2_C3D4 };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut file = [word(magic), version, word(0), word(0), word(65_535), word(101)].concat();
    let scale = if nanoseconds { 1_000_000 } else { 1_000 };
    for (i, packet) in packets().iter().enumerate() {
        let length = word(packet.len() as u32);
        file.extend([word(1), word(i as u32 * scale), length, length].concat());
        file.extend(packet);
    }
    file
}

fn read(file: &[u8]) -> Result<Trace, CaptureError> {
    analyse(file, |_| true)
}

fn gzip(file: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(file).unwrap();
    out.finish().unwrap()
}

fn zstd(file: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(file, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn every_format_and_compression_gives_the_same_figures() {
    let truth = json(&read(&pcapng()).unwrap(), "x");
    let c = &truth["connections"][0];
    assert_eq!(c["a2b"]["unique_bytes_sent"], 1_000);
    assert_eq!(c["a2b"]["rexmt_data_pkts"], 1);
    assert_eq!(c["complete"], "yes");
    for file in [pcap(false, false), pcap(true, false), pcap(false, true), pcap(true, true), pcapng()] {
        for file in [gzip(&file), zstd(&file), file] {
            assert_eq!(json(&read(&file).unwrap(), "x"), truth);
        }
    }
}

#[test]
fn a_truncated_capture_yields_its_whole_packets() {
    for whole in [pcapng(), pcap(false, false)] {
        let all = read(&whole).unwrap();
        assert_eq!(all.ending.damage, None);
        let mut last = 0;
        for length in 0..whole.len() {
            let Ok(trace) = read(&whole[..length]) else { continue };
            assert!(trace.packets >= last && trace.packets <= all.packets, "{length}");
            last = trace.packets;
        }
        assert_eq!(last + 1, all.packets);
    }
}

#[test]
fn a_truncated_compressed_capture_yields_its_packets() {
    let mut file = Vec::new();
    put_head(&mut file, LINKTYPE_RAW, "test", 0);
    for i in 0..3_000 {
        put_packet(&mut file, i * 1_000_000, None, &segment(true, i as u32 * 500, 1, 16, 500), 540);
    }
    let whole = gzip(&file);
    let trace = read(&whole[..whole.len() * 2 / 3]).unwrap();
    assert!(trace.packets > 500 && trace.packets < 3_000, "{}", trace.packets);
    assert!(trace.ending.damage.is_some());
    // One that fits whole into the reader's buffer.
    let whole = gzip(&pcapng());
    let trace = read(&whole[..whole.len() * 3 / 4]).unwrap();
    assert!(trace.packets > 0 && trace.packets < packets().len() as u64 && trace.ending.damage.is_some());
    let whole = zstd(&file);
    // The Zstandard decoder hands nothing out of a window that it cannot complete.
    if let Ok(trace) = read(&whole[..whole.len() * 2 / 3]) {
        assert!(trace.packets < 3_000 && trace.ending.damage.is_some());
    }
}

/// Heads of 24 octets, as some systems write them under the magic of all, and a second file behind the first.
#[test]
fn a_capture_of_which_most_lies_behind_damage_is_told_from_one_whose_end_is_missing() {
    let file = |head: &[u8], times: usize| {
        let mut whole = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
        for n in 0..times as u32 {
            let packet = segment(true, n * 1_400, 1, 16, 1_400);
            let len = packet.len() as u32;
            whole.extend([n, 0, len, len].map(u32::to_le_bytes).concat());
            whole.extend(head);
            whole.extend(packet);
        }
        whole
    };
    let (plain, longer) = (file(&[], 100), file(&[0; 8], 100));
    let trace = read(&plain).unwrap();
    assert!(trace.packets == 100 && trace.ending.lost == 0 && !trace.ending.is_mostly_lost());
    assert!(!read(&plain[..plain.len() - 700]).unwrap().ending.is_mostly_lost());
    let trace = read(&longer).unwrap();
    assert!(trace.packets < 10 && trace.ending.is_mostly_lost(), "{:?}", trace.ending);
    let trace = read(&[&plain[..], &plain, &plain].concat()).unwrap();
    assert!(trace.ending.is_mostly_lost() && trace.ending.lost <= 2 * plain.len() as u64, "{:?}", trace.ending);
}

/// However small the file is, what lies behind the damage is judged by what was read before it.
#[test]
fn a_small_capture_of_which_most_lies_behind_damage_is_told_from_one_whose_end_is_missing() {
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let half = pcapng().len() / 2;
    let member = gzip(&pcapng()[..half / 2]);
    let blocks = |file: &[u8]| {
        let mut starts = vec![0];
        while let Some(length) = file.get(starts[starts.len() - 1] + 4..).and_then(|rest| rest.first_chunk()) {
            starts.push(starts[starts.len() - 1] + u32::from_le_bytes(*length) as usize);
        }
        starts
    };
    let starts = blocks(&pcapng());
    // Of pcap a head of 24 octets, then packets of 16 and 40 or 90: the third begins at 136.
    const THIRD: usize = 24 + 2 * 56;
    let alike = |file: &mut Vec<u8>, places: &[usize]| places.iter().for_each(|at| file[*at] ^= 0x40);
    let kinds: [(&str, Vec<u8>, Change<'_>, bool); 15] = [
        ("cut off in pcap", pcap(false, false), &|file| file.truncate(file.len() - 7), false),
        ("cut off in the first of its packets but one", pcap(false, true), &|file| file.truncate(THIRD + 20), false),
        ("cut off in a head", pcap(true, false), &|file| file.truncate(THIRD + 9), false),
        ("cut off in pcapng", pcapng(), &|file| file.truncate(starts[4] + 50), false),
        ("a length of pcap", pcap(false, false), &|file| file[THIRD + 9] ^= 0x40, true),
        ("a length of pcap, of the other order", pcap(false, true), &|file| file[THIRD + 10] ^= 0x40, true),
        ("the length of a block", pcapng(), &|file| file[starts[4] + 5] ^= 0x40, true),
        ("the second length of a block", pcapng(), &|file| file[starts[5] - 4] ^= 1, true),
        ("a packet without lengths", pcap(false, false), &|file| file[THIRD + 8..THIRD + 16].fill(0), true),
        ("all lengths of a packet alike", pcap(false, false), &|file| alike(file, &[THIRD + 9, THIRD + 13]), true),
        (
            "all lengths of a block alike",
            pcapng(),
            &|file| alike(file, &[starts[4] + 5, starts[4] + 21, starts[4] + 25]),
            true,
        ),
        ("near the end", pcapng(), &|file| file[starts[starts.len() - 4] + 5] ^= 0x40, false),
        ("two files behind one", pcap(false, false).repeat(3), &|_| {}, true),
        (
            "gzip, at its second member",
            [&member[..], &gzip(&pcapng()[half / 2..])].concat(),
            &|file| file[member.len() + 2] ^= 0xFF,
            true,
        ),
        ("gzip that is cut off", gzip(&pcapng()), &|file| file.truncate(file.len() * 3 / 4), false),
    ];
    for (kind, mut file, change, lost) in kinds {
        change(&mut file);
        let ending = read(&file).unwrap().ending;
        assert!(ending.damage.is_some(), "{kind}");
        assert_eq!(ending.is_mostly_lost(), lost, "{kind}: {ending:?}");
    }
    // The last packet's lengths are gone: it is not counted as a packet of no octets.
    let (whole, mut file) = (pcap(false, false), pcap(false, false));
    let last = file.len() - 56;
    file[last + 8..last + 16].fill(0);
    let (whole, trace) = (read(&whole).unwrap(), read(&file).unwrap());
    assert_eq!((trace.packets + 1, trace.ending.damage.is_some()), (whole.packets, true));
    // Behind keys of which each has a block, which are no part of what was captured.
    let (mut head, file) = (Vec::new(), pcapng());
    put_head(&mut head, LINKTYPE_RAW, "test", 0);
    let keys = [&10_u32.to_le_bytes()[..], &1_020_u32.to_le_bytes(), &[0; 1_008], &1_020_u32.to_le_bytes()].concat();
    let mut behind = [&head[..], &keys.repeat(40), &file[head.len()..]].concat();
    let at = behind.len() - file.len() + starts[4];
    behind[at + 5] ^= 0x40;
    let ending = read(&behind).unwrap().ending;
    assert!(ending.is_mostly_lost() && ending.lost < ending.octets, "{ending:?}");
    // A frame that does not begin as one.
    let frames = [zstd(&file[..half / 2]), vec![0; 8], zstd(&file[half / 2..])].concat();
    assert!(read(&frames).unwrap().ending.is_mostly_lost());
}

#[test]
fn every_frame_of_a_zstandard_file_is_read() {
    let file = pcapng();
    let (one, two) = file.split_at(file.len() / 2);
    let skippable = [&[0x53, 0x2A, 0x4D, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
    let frames = [&skippable[..], &zstd(one), &skippable, &zstd(two)].concat();
    let trace = read(&frames).unwrap();
    assert_eq!((trace.packets, trace.ending.damage), (packets().len() as u64, None));
    let trace = read(&frames[..frames.len() - 3]).unwrap();
    assert!(trace.packets > 0 && trace.packets < packets().len() as u64 && trace.ending.damage.is_some());
}

#[test]
fn one_flipped_bit_of_a_zstandard_file_is_damage() {
    let whole = zstd(&pcapng());
    assert_eq!(read(&whole).unwrap().ending.damage, None);
    for at in [whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        assert!(read(&flipped).map_or(true, |trace| trace.ending.damage.is_some()), "{at}");
    }
}

#[test]
fn zeros_behind_a_gzip_file_are_no_rest_of_it() {
    let file = pcapng();
    let (one, two) = file.split_at(file.len() / 2);
    let (one, two) = (gzip(one), gzip(two));
    let trace = read(&[&one[..], &two, &[0; 100_000]].concat()).unwrap();
    assert_eq!((trace.packets, trace.ending.damage), (packets().len() as u64, None));
    // What else follows is, and so are zeros in a member's place.
    for damaged in [[&one[..], &[0; 9], &two], [&one, &two, b"more"], [&one, &two[..two.len() - 9], &[0; 5_000]]] {
        assert!(read(&damaged.concat()).unwrap().ending.damage.is_some());
    }
}

#[test]
fn packet_blocks_of_old_files_are_read() {
    let truth = json(&read(&pcapng()).unwrap(), "x");
    for big in [false, true] {
        let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let block = |kind: u32, body: &[u8]| {
            let padded = body.len().next_multiple_of(4);
            let length = word(padded as u32 + 12);
            [&word(kind)[..], &length, body, &vec![0; padded - body.len()], &length].concat()
        };
        let mut file = block(0x0A0D_0D0A, &[&word(0x1A2B_3C4D)[..], &half(1), &half(0), &[255; 8]].concat());
        file.extend(block(1, &[&half(LINKTYPE_RAW)[..], &half(0), &word(0)].concat()));
        for (i, packet) in packets().iter().enumerate() {
            let length = word(packet.len() as u32);
            let head =
                [&half(0)[..], &half(0), &word(0), &word(1_000_000 + i as u32 * 1_000), &length, &length].concat();
            file.extend(block(2, &[&head, &packet[..]].concat()));
        }
        assert_eq!(json(&read(&file).unwrap(), "x"), truth);
    }
    assert_eq!(super::capture::old_packet(&[0; 19], false), None);
}

#[test]
fn packets_of_an_interface_that_is_not_described_are_counted() {
    let (mut head, mut file) = (Vec::new(), pcapng());
    put_head(&mut head, LINKTYPE_RAW, "test", 0);
    file[head.len() + 8] = 7;
    let trace = read(&file).unwrap();
    assert_eq!((trace.packets, trace.unreadable()), (packets().len() as u64, 1));
}

#[test]
fn other_files_are_refused_with_a_remedy() {
    for (file, word) in [(&b""[..], "cut off"), (b"hello, this is text", "tcpdump"), (b"\xD4\xC3", "cut off")] {
        let why = read(file).err().unwrap().to_string();
        assert!(why.contains(word), "{why}");
    }
    let mut other = pcap(false, false);
    other[20] = 147; // IEEE 802.11
    assert!(matches!(read(&other), Err(CaptureError::LinkType(147))));
    let mut old = pcap(false, false);
    old[6] = 2;
    assert!(matches!(read(&old), Err(CaptureError::Old)));
}

#[test]
fn a_block_larger_than_any_packet_ends_the_reading() {
    let mut file = pcap(false, false);
    file.extend([0; 8]);
    file.extend((1_u32 << 30).to_le_bytes());
    file.extend((1_u32 << 30).to_le_bytes());
    file.extend(vec![0; 2 << 20]);
    let trace = read(&file).unwrap();
    assert_eq!(trace.packets, packets().len() as u64);
    assert!(trace.ending.damage.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn flipped_bytes_never_panic(
        next_generation in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..20)
    ) {
        let mut file = if next_generation { pcapng() } else { pcap(true, false) };
        for (at, by) in flips {
            let at = at.index(file.len());
            file[at] ^= by;
        }
        if let Ok(trace) = read(&file) {
            prop_assert!(json(&trace, "x").is_object());
            prop_assert!(!table(&trace).is_empty() && !long_table(&trace).contains("inf"));
            let _ = (csv(&trace), hosts_table(&trace));
            let _ = points(&file[..], &[0, 1], |_| true);
        }
    }
}
