//! Captures made by hand: what other tools are known to misread.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use wavelane_measure::pcapng::{put_head, put_packet};

fn made(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../testing/captures/made/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn read(file: &[u8]) -> Trace {
    analyse(file, |_| true).unwrap()
}

/// The records of a little-endian capture with nanoseconds.
fn records(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    let mut rest = &file[24..];
    while rest.len() >= 16 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (ns, kept) = (word(0) as u64 * 1_000_000_000 + word(4) as u64, word(8));
        all.push((ns, rest[16..16 + kept].to_vec()));
        rest = &rest[16 + kept..];
    }
    all
}

fn written(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    put_head(&mut file, 1, "test", 0);
    packets.iter().for_each(|(ns, packet)| put_packet(&mut file, *ns, None, packet, packet.len()));
    file
}

/// Every segment once: of two copies the first.
fn once() -> Vec<(u64, Vec<u8>)> {
    records(&made("same-v4.pcap")).into_iter().step_by(2).collect()
}

/// A capture with every packet again up to `after_ns` later, at a TTL less by `hops`, in the order of times. The queue
/// between the ports grows by 5 ms a packet.
fn twice(of: &[(u64, Vec<u8>)], after_ns: u64, hops: u8) -> Vec<u8> {
    let again = of.iter().enumerate().map(|(i, (ns, packet))| {
        let mut packet = packet.clone();
        packet[14 + 8] -= hops;
        (ns + after_ns.min(3_000 + i as u64 * 5_000_000), packet)
    });
    let mut all: Vec<_> = of.iter().cloned().chain(again).collect();
    all.sort_by_key(|(ns, _)| *ns);
    written(&all)
}

#[test]
fn copies_at_a_second_port_are_no_retransmissions() {
    let whole = once();
    let plain = read(&written(&whole));
    let repairs = |trace: &Trace| [0, 1].map(|way| trace.connections[0].halves[way].repairs.counts);
    let figures = |trace: &Trace| {
        let of = |way: usize| {
            let c = &trace.connections[0].halves[way].counts;
            (c.packets, c.again_packets, c.unique_octets, c.duplicate_acks)
        };
        [of(0), of(1)]
    };
    assert_eq!((plain.connections.len(), plain.copies), (1, 0));
    let file = made("same-v4.pcap");
    let (half, all) = (whole.len() as u64, read(&file));
    assert_eq!((all.packets, all.copies), (2 * half, half));
    assert_eq!((repairs(&all), figures(&all)), (repairs(&plain), figures(&plain)));
    assert!(table(&all).contains(&format!("{half} copies of segments")), "{}", table(&all));
    // A router's ports: the TTL differs, and with a queue between them many segments lie between the two.
    for (after_ns, hops) in [(20_000, 1), (300_000_000, 1), (4_000_000, 0)] {
        let trace = read(&twice(&whole, after_ns, hops));
        assert_eq!(trace.connections.len(), 1);
        assert_eq!((trace.copies, figures(&trace)), (half, figures(&plain)), "after {after_ns} ns, {hops} hops");
    }
}

#[test]
fn retransmissions_beside_copies_stay_retransmissions() {
    let mut whole = once();
    // A lost segment is sent again 200 ms later, with an identification of its own, and both pass both ports.
    let at = whole.iter().position(|(_, packet)| packet.len() > 1_000).unwrap();
    let (ns, mut again) = whole[at].clone();
    again[14 + 4..14 + 6].copy_from_slice(&0x9999_u16.to_be_bytes());
    whole.push((ns + 200_000_000, again));
    whole.sort_by_key(|(ns, _)| *ns);
    for (after_ns, hops) in [(3_000, 0), (20_000, 1), (30_000_000, 1)] {
        let trace = read(&twice(&whole, after_ns, hops));
        let again: u64 = trace.connections[0].halves.iter().map(|h| h.counts.again_packets).sum();
        assert_eq!((trace.copies, again), (whole.len() as u64, 1), "after {after_ns} ns, {hops} hops");
    }
}

#[test]
fn sessions_labels_and_tags_are_read() {
    for name in ["pppoe.pcap", "mpls.pcap", "sll2-tag-behind.pcap"] {
        let trace = read(&made(name));
        assert_eq!((trace.connections.len(), trace.unreadable()), (1, 0), "{name}");
        assert!(!trace.is_mostly_unread());
    }
}

#[test]
fn a_syn_that_is_stored_last_belongs_to_its_connection() {
    let trace = read(&made("syn-last.pcap"));
    let [c] = &trace.connections[..] else { panic!("{} connections", trace.connections.len()) };
    assert_eq!(c.completeness(), Completeness::Complete);
    let late: u64 = c.halves.iter().map(|h| h.repairs.counts.reordered + h.counts.again_packets).sum();
    assert_eq!(late, 0);
    // The same of other packets' order: by times they are one connection, and its first packet is the SYN.
    let mut all = records(&made("syn-last.pcap"));
    all.sort_by_key(|(ns, _)| *ns);
    assert_eq!(c.first_ns, all[0].0);
    // A SYN that is later than the end begins another one.
    let (ns, syn) = all[0].clone();
    let end = all.last().unwrap().0;
    all.push((end + ns % 7 + 1_000_000_000, {
        let mut other = syn;
        other[14 + 20 + 7] ^= 0x55;
        other
    }));
    assert_eq!(read(&written(&all)).connections.len(), 2);
}

#[test]
fn data_within_a_window_offered_before_it_shrank_is_counted() {
    let trace = read(&made("shrunk.pcap"));
    let half = &trace.connections[0].halves[1];
    assert_eq!((half.counts.data_octets, half.counts.unique_octets, half.counts.zero_window_probes), (5_000, 5_000, 0));
}

#[test]
fn blocks_of_any_size_are_passed_over() {
    let block = |kind: u32, body: usize| {
        let length = (body as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &vec![7; body], &length].concat()
    };
    let packets = once();
    let whole = written(&packets);
    // Between two blocks, behind the half.
    let mut at = 0;
    while at < whole.len() / 2 {
        at += u32::from_le_bytes(whole[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    for (kind, body, lost) in [(10, 3 << 20, 0), (10, (1 << 20) - 12, 0), (0x0BAD, 2 << 20, 0), (6, 2 << 20, 1)] {
        let file = [&whole[..at], &block(kind, body), &whole[at..]].concat();
        let trace = read(&file);
        let Ending { octets, damage, lost: behind, .. } = &trace.ending;
        assert_eq!((*octets, damage, *behind), (file.len() as u64, &None, 0), "type {kind}, {body} octets");
        assert_eq!((trace.packets, trace.unreadable()), (packets.len() as u64 + lost, lost));
        // Cut off within it, or with another length at its end.
        let cut = read(&file[..at + body / 2]);
        assert!(cut.ending.damage.is_some() && cut.packets > 0, "{:?}", cut.ending);
        let mut wrong = file.clone();
        wrong[at + body + 8] ^= 4;
        assert!(read(&wrong).ending.damage.is_some());
    }
}

#[test]
fn what_is_not_read_is_counted_by_cause_and_most_of_it_is_no_success() {
    let packets = once();
    let typed = |kind: [u8; 2]| {
        let mut other = packets.clone();
        other.iter_mut().for_each(|(_, packet)| packet[12..14].copy_from_slice(&kind));
        other
    };
    let n = packets.len() as u64;
    let mixed = |others: Vec<(u64, Vec<u8>)>| read(&written(&[packets.clone(), others].concat()));
    let tunnel = read(&written(&typed([0x88, 0xE5])));
    assert!(tunnel.is_mostly_unread() && tunnel.unread == BTreeMap::from([(Unread::Protocol, n)]));
    assert!(table(&tunnel).contains(&format!("not read: {n} of another protocol than IP")), "{}", table(&tunnel));
    let arp = read(&written(&typed([8, 6])));
    assert!(!arp.is_mostly_unread() && arp.unread == BTreeMap::from([(Unread::NoPacket, n)]));
    let mut gre = packets.clone();
    gre.iter_mut().for_each(|(_, packet)| packet[14 + 9] = 47);
    let gre = read(&written(&gre));
    assert!(gre.is_mostly_unread() && gre.unread == BTreeMap::from([(Unread::Protocol, n)]));
    let half = mixed(typed([0x88, 0xE5]));
    assert!(!half.is_mostly_unread() && half.unreadable() == n);
    assert_eq!(json(&half, "f")["unread"]["protocol"], n);
    // A capture that kept 40 octets of each: within the header of TCP.
    let mut cut = packets.clone();
    cut.iter_mut().for_each(|(_, packet)| packet.truncate(40));
    let both = mixed(cut.clone());
    let cut = read(&written(&cut));
    assert!(cut.is_mostly_unread() && (cut.short, cut.unreadable()) == (n, 0), "{}", cut.short);
    assert!(!both.is_mostly_unread() && both.short == n);
}
