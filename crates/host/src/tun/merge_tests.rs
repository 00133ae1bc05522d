#![allow(clippy::unwrap_used, reason = "tests")]
use super::super::header::FIN;
use super::super::split::split;
use super::super::testing::Shape;
use super::*;
use proptest::prelude::*;

type Written = Vec<(VnetHeader, Vec<u8>)>;

fn shape(port: u16, six: bool) -> Shape {
    Shape { six, port, identification: 65_530, dont_fragment: true, option_words: 3 }
}

/// Pushes everything and flushes; returns what was written.
fn merged(packets: &[Vec<u8>]) -> Written {
    let (mut merger, mut out) = (Merger::default(), Written::new());
    let mut write = |about, bytes: &[u8]| out.push((about, bytes.to_vec()));
    for p in packets {
        merger.push(p, &mut write);
        assert!(merger.trains.len() <= TRAINS_MAX);
    }
    merger.flush(&mut write);
    out
}

fn split_again(written: Written) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for (about, mut bytes) in written {
        split(about, &mut bytes, &mut Vec::new(), &mut |p| out.push(p.to_vec())).unwrap();
    }
    out
}

/// The packet as it may be told apart: where fragmentation is forbidden, identification means nothing.
fn known_by(packet: &[u8]) -> Vec<u8> {
    let mut p = packet.to_vec();
    if p[0] >> 4 == 4 && p[6] & 0x40 != 0 {
        p[4..6].fill(0);
        p[10..12].fill(0);
    }
    p
}

fn flow_of(packet: &[u8]) -> (u8, u8, Vec<u8>) {
    let at = if packet[0] >> 4 == 6 { 40 } else { 20 };
    let protocol = if at == 40 { packet[6] } else { packet[9] };
    (packet[0] >> 4, protocol, packet[at..at + 2].to_vec())
}

#[test]
fn consecutive_segments_merge_up_to_a_short_or_pushed_one() {
    for six in [false, true] {
        let flow = shape(1, six);
        let segment = |i: usize, flags, len: usize| {
            flow.nth(i).tcp((u32::MAX - 3_000).wrapping_add(i as u32 * 1_000), flags, &vec![i as u8; len])
        };
        let mut packets: Vec<Vec<u8>> = (0..10).map(|i| segment(i, ACK, 1_000)).collect();
        packets.push(segment(10, ACK, 999));
        packets.push(segment(11, ACK, 1_000));
        packets.push(segment(12, ACK | PSH, 1_000));
        packets.push(segment(13, ACK, 1_000));
        packets.push(segment(14, ACK | FIN, 1_000));
        let written = merged(&packets);
        let sizes: Vec<usize> = written
            .iter()
            .map(|(a, b)| (b.len() - packets[0].len() + 1_000) / usize::from(a.gso_size.max(1)).max(1))
            .collect();
        assert_eq!(written.len(), 4, "{sizes:?}");
        assert_eq!(written[0].0.gso_size, 1_000);
        let again = split_again(written);
        assert!(again == packets, "six: {six}");
    }
}

#[test]
fn segments_with_other_headers_are_not_merged() {
    let flow = Shape { dont_fragment: false, option_words: 0, ..shape(1, false) };
    let first = flow.tcp(1_000, ACK, &[1; 100]);
    let next = flow.nth(1).tcp(1_100, ACK, &[2; 100]);
    assert_eq!(merged(&[first.clone(), next.clone()]).len(), 1);
    let mut damaged = next.clone();
    damaged[60] ^= 1;
    let mut other_window = next.clone();
    other_window[34] ^= 1;
    Layout::of(&next).unwrap().finish_transport(&mut other_window);
    let gap = flow.nth(1).tcp(1_101, ACK, &[2; 100]);
    let odd_identification = flow.nth(2).tcp(1_100, ACK, &[2; 100]);
    let longer = flow.nth(1).tcp(1_100, ACK, &[2; 101]);
    let empty = flow.nth(1).tcp(1_100, ACK, &[]);
    let marked = {
        let mut p = next.clone();
        p[1] = 3;
        Layout::of(&next).unwrap().finish_ip(&mut p, None);
        p
    };
    for other in [damaged, other_window, gap, odd_identification, longer, empty, marked] {
        let written = merged(&[first.clone(), other.clone()]);
        let bytes: Vec<Vec<u8>> = written
            .into_iter()
            .map(|(about, b)| {
                assert_eq!(about, VnetHeader::default());
                b
            })
            .collect();
        assert_eq!(bytes, [first.clone(), other]);
    }
}

#[test]
fn a_super_packet_stays_within_its_bounds() {
    let flow = shape(1, false);
    let packets: Vec<Vec<u8>> = (0..200).map(|i| flow.nth(i).tcp(i as u32 * 1_400, ACK, &[0; 1_400])).collect();
    let written = merged(&packets);
    assert!(written.iter().all(|(_, b)| b.len() <= LENGTH_MAX));
    let small: Vec<Vec<u8>> = (0..200).map(|i| flow.nth(i).tcp(i as u32, ACK, &[0])).collect();
    let counts: Vec<usize> = merged(&small).iter().map(|(_, b)| b.len() - 52).collect();
    assert_eq!(counts, [SEGMENTS_MAX, SEGMENTS_MAX, SEGMENTS_MAX, 8]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merged_and_split_packets_keep_each_flows_order(
        steps in prop::collection::vec((0u16..12, any::<bool>(), 0usize..4, 1usize..1_400, 0u8..10), 1..150),
    ) {
        let mut next = std::collections::BTreeMap::<(u16, bool), (u32, usize)>::new();
        let mut packets = Vec::new();
        for (port, six, burst, len, kind) in steps {
            for _ in 0..=burst {
                let (sequence, i) = next.entry((port, six)).or_insert((u32::MAX - 5_000, 0));
                let shape = Shape { dont_fragment: port % 2 == 0, ..shape(port, six) }.nth(*i);
                packets.push(match kind {
                    0 => shape.udp(&vec![9; len]),
                    1 => shape.tcp(*sequence, ACK | PSH, &vec![8; len]),
                    2 => shape.tcp(sequence.wrapping_add(1), ACK, &vec![7; len]),
                    _ => shape.tcp(*sequence, ACK, &vec![*i as u8; len]),
                });
                *sequence = sequence.wrapping_add(len as u32);
                *i += 1;
            }
        }
        let again = split_again(merged(&packets));
        prop_assert_eq!(again.len(), packets.len());
        let by_flow = |all: &[Vec<u8>]| {
            let mut flows = std::collections::BTreeMap::<_, Vec<Vec<u8>>>::new();
            for p in all {
                flows.entry(flow_of(p)).or_default().push(known_by(p));
            }
            flows
        };
        prop_assert!(by_flow(&again) == by_flow(&packets));
    }

    #[test]
    fn nonsense_passes_unchanged_and_never_panics(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20)) {
        let written: Vec<Vec<u8>> = merged(&packets).into_iter().map(|(_, b)| b).collect();
        let (mut a, mut b) = (written, packets);
        a.sort();
        b.sort();
        prop_assert_eq!(a, b);
    }
}
