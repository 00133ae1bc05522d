use crate::vj::{Compressor, Decompressor, VjKind};
use proptest::prelude::*;
use std::net::SocketAddr;
use wavelane_base::{Ecn, Seed};
use wavelane_wire::ip::checksum;
use wavelane_wire::tcp::{Flags, Options, TcpHeader, emit};

/// A packet of a connection, which its port names.
#[derive(Clone, Copy, Debug)]
struct Packet {
    port: u16,
    seq: u32,
    ack: u32,
    window: u16,
    urgent: u16,
    flags: Flags,
    id: u16,
    data: usize,
}

const ACK: Packet =
    Packet { port: 1025, seq: 7, ack: 1000, window: 8192, urgent: 0, flags: Flags::ACK, id: 1, data: 0 };

fn packet(p: Packet) -> Vec<u8> {
    let (source, target): (SocketAddr, SocketAddr) =
        (format!("192.168.1.2:{}", p.port).parse().expect("well-formed"), "10.0.0.1:80".parse().expect("well-formed"));
    let header = TcpHeader {
        seq: p.seq,
        ack: p.ack,
        flags: p.flags,
        window: p.window,
        urgent: p.urgent,
        options: Options::default(),
    };
    let mut octets = vec![0; 40 + p.data];
    let data = vec![0x5a; p.data];
    emit(source, target, Ecn::NotEct, &header, [&data, &[]], &mut octets).expect("well-formed");
    octets[4..6].copy_from_slice(&p.id.to_be_bytes());
    octets[10..12].fill(0);
    let sum = checksum(&[&octets[..20]]);
    octets[10..12].copy_from_slice(&sum.to_be_bytes());
    octets
}

/// Both ends of a line that loses nothing unless told.
struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Ends {
    fn new(slots: usize) -> Self {
        Self { compressor: Compressor::new(slots, true, true), decompressor: Decompressor::new(slots) }
    }
    fn send(&mut self, packet: &[u8]) -> (VjKind, Vec<u8>) {
        let mut out = Vec::new();
        let kind = self.compressor.compress(packet, &mut out);
        assert!(out.len() <= packet.len(), "never longer");
        (kind, out)
    }
    fn receive(&mut self, kind: VjKind, mut octets: Vec<u8>) -> Option<Vec<u8>> {
        match kind {
            VjKind::Ip => Some(octets),
            VjKind::Full => self.decompressor.full(&mut octets).then_some(octets),
            VjKind::Compressed => {
                let mut whole = Vec::new();
                self.decompressor.compressed(&octets, &mut whole).then_some(whole)
            }
        }
    }
    /// The octets that a packet took, which must arrive as it was.
    fn pass(&mut self, p: Packet) -> (VjKind, usize) {
        let sent = packet(p);
        let (kind, octets) = self.send(&sent);
        let len = octets.len();
        assert_eq!(self.receive(kind, octets), Some(sent), "{p:?}");
        (kind, len)
    }
}

/// What slirp on 64 bits needs: an octet more, of packets with data alone.
#[test]
fn a_slot_is_named_beside_data_where_that_is_wanted() {
    for (omits_slot_of_data, of_data, of_ack) in [(true, 3, 6), (false, 4, 6)] {
        let mut ends = Ends { compressor: Compressor::new(16, true, omits_slot_of_data), ..Ends::new(16) };
        ends.pass(ACK);
        let ack = Packet { ack: 2460, id: 2, ..ACK };
        assert_eq!(ends.pass(ack), (VjKind::Compressed, of_ack));
        assert_eq!(ends.pass(Packet { data: 100, id: 3, ..ack }), (VjKind::Compressed, of_data + 100));
    }
}

#[test]
fn headers_take_what_rfc_1144_says() {
    let mut ends = Ends::new(16);
    assert_eq!(ends.pass(ACK), (VjKind::Full, 40));
    // Bulk acknowledgements: mask, checksum, and three octets for a delta above 255.
    let ack = Packet { ack: 2460, id: 2, ..ACK };
    assert_eq!(ends.pass(ack), (VjKind::Compressed, 6));
    // Data one way and an echo take the special masks: three octets each.
    let data = Packet { data: 100, id: 3, flags: Flags::ACK.with(Flags::PSH), ..ack };
    assert_eq!(ends.pass(data), (VjKind::Compressed, 3 + 100), "data after an acknowledgement");
    let data = Packet { seq: data.seq + 100, id: 4, ..data };
    assert_eq!(ends.pass(data), (VjKind::Compressed, 3 + 100));
    let echo = Packet { seq: data.seq + 100, ack: data.ack + 100, id: 5, data: 1, ..data };
    assert_eq!(ends.pass(echo), (VjKind::Compressed, 3 + 1));
    // The same again is a retransmission, or an answer to one: full.
    assert_eq!(ends.pass(Packet { id: 6, ..echo }).0, VjKind::Full);
    let pure = Packet { data: 0, seq: echo.seq + 1, id: 7, ..echo };
    ends.pass(pure);
    assert_eq!(ends.pass(Packet { id: 8, ..pure }).0, VjKind::Full, "a duplicate acknowledgement");
    // A window's change, an urgent segment, an identification that jumps.
    assert_eq!(ends.pass(Packet { window: 8000, id: 9, ..pure }), (VjKind::Compressed, 3 + 3), "minus 192 modulo 2^16");
    let urgent = Packet { window: 8000, id: 10, seq: pure.seq, flags: Flags::ACK.with(Flags::URG), urgent: 5, ..pure };
    assert_eq!(ends.pass(urgent), (VjKind::Compressed, 3 + 1));
    assert_eq!(
        ends.pass(Packet { urgent: 6, ack: urgent.ack + 1, id: 500, ..urgent }),
        (VjKind::Compressed, 3 + 1 + 1 + 3)
    );
    // Back: a sequence number that goes back, and control segments.
    assert_eq!(ends.pass(Packet { id: 501, ..pure }).0, VjKind::Full);
    for flags in [Flags::SYN, Flags::FIN.with(Flags::ACK), Flags::RST] {
        assert_eq!(ends.pass(Packet { flags, ..pure }).0, VjKind::Ip);
    }
    // ECN's flags are no part of RFC 1144: their change must not be lost.
    assert_eq!(
        ends.pass(Packet { flags: Flags::ACK.with(Flags::ECE), ack: pure.ack + 9, id: 502, ..pure }).0,
        VjKind::Full
    );
}

#[test]
fn what_is_no_tcp_goes_as_it_is() {
    let mut ends = Ends::new(16);
    let whole = packet(ACK);
    let mut variants = vec![whole[..30].to_vec(), Vec::new()];
    for (at, value) in [(0, 0x65), (6, 0x20), (7, 1), (9, 17), (10, whole[10] ^ 1), (3, 41)] {
        let mut variant = whole.clone();
        variant[at] = value;
        variants.push(variant);
    }
    for variant in variants {
        assert_eq!(ends.send(&variant), (VjKind::Ip, variant));
    }
}

#[test]
fn the_oldest_slot_is_taken_and_named() {
    let mut ends = Ends::new(2);
    let of = |port, id, ack| Packet { port, id, ack, ..ACK };
    ends.pass(of(1, 1, 1));
    ends.pass(of(2, 1, 1));
    assert_eq!(ends.pass(of(2, 2, 2)), (VjKind::Compressed, 4));
    assert_eq!(ends.pass(of(1, 2, 2)), (VjKind::Compressed, 5), "the slot is named when it changes");
    assert_eq!(ends.pass(of(3, 1, 1)).0, VjKind::Full);
    assert_eq!(ends.pass(of(1, 3, 3)).0, VjKind::Compressed);
    assert_eq!(ends.pass(of(2, 3, 3)).0, VjKind::Full, "it was the oldest");
}

#[test]
fn a_lost_packet_costs_packets_but_gives_no_wrong_one() {
    for told in [false, true] {
        let mut ends = Ends::new(16);
        ends.pass(ACK);
        let lost = packet(Packet { ack: 2460, id: 2, ..ACK });
        ends.send(&lost);
        if told {
            ends.decompressor.line_error();
        }
        let (kind, octets) = ends.send(&packet(Packet { ack: 5380, id: 3, ..ACK }));
        assert_eq!(ends.receive(kind, octets), None);
        // The sender's retransmission, or the acknowledgement repeated: full headers.
        assert_eq!(ends.pass(Packet { ack: 5380, id: 4, ..ACK }).0, VjKind::Full);
        assert_eq!(ends.pass(Packet { ack: 8300, id: 5, ..ACK }).0, VjKind::Compressed);
    }
}

#[test]
fn slots_that_do_not_exist_or_hold_nothing_are_refused() {
    let mut ends = Ends::new(4);
    let (_, full) = ends.send(&packet(ACK));
    let (_, next) = ends.send(&packet(Packet { ack: 2000, id: 2, ..ACK }));
    assert_eq!(ends.receive(VjKind::Compressed, next.clone()), None, "before any full header");
    for slot in [4, 255] {
        let mut wrong = full.clone();
        wrong[9] = slot;
        assert_eq!(ends.receive(VjKind::Full, wrong), None);
    }
    assert!(ends.receive(VjKind::Full, full).is_some());
    for slot in [1, 3, 4, 255] {
        let mut named = next.clone();
        named[0] |= 0x40;
        named.insert(1, slot);
        assert_eq!(ends.receive(VjKind::Compressed, named), None);
    }
    assert_eq!(ends.receive(VjKind::Compressed, next.clone()), None, "tossing, until a slot is named");
    let mut named = next;
    named[0] |= 0x40;
    named.insert(1, 0);
    assert!(ends.receive(VjKind::Compressed, named).is_some());
    assert_eq!(ends.receive(VjKind::Compressed, vec![0x2f]), None, "cut short");
    assert_eq!(ends.receive(VjKind::Full, vec![0x45; 9]), None);
}

prop_compose! {
    fn step()(port in 1_u16..6, what in 0..9, by in prop_oneof![0_u32..4, 1400..1500_u32, 65_000..70_000_u32], data in prop_oneof![Just(0), 1_usize..200])
        -> (u16, i32, u32, usize) {
        (port, what, by, data)
    }
}

proptest! {
    #[test]
    fn any_walk_of_any_connections_arrives_unchanged(steps in prop::collection::vec(step(), 1..200), slots in 1_usize..8) {
        let mut ends = Ends::new(slots);
        let mut state: Vec<Packet> = (0..6).map(|port| Packet { port, ..ACK }).collect();
        for (port, what, by, data) in steps {
            let p = &mut state[usize::from(port)];
            p.id = p.id.wrapping_add(if what == 0 { by as u16 } else { 1 });
            match what {
                1 => p.ack = p.ack.wrapping_add(by),
                2 => p.seq = p.seq.wrapping_add(by),
                3 => p.window = p.window.wrapping_add(by as u16),
                4 => p.flags = Flags(p.flags.0 ^ Flags::PSH.0),
                5 => (p.flags, p.urgent) = (Flags(p.flags.0 ^ Flags::URG.0), by as u16),
                6 => p.seq = p.seq.wrapping_add(p.data as u32),
                7 => (p.seq, p.ack) = (p.seq.wrapping_add(p.data as u32), p.ack.wrapping_add(p.data as u32)),
                8 => (p.seq, p.ack, p.window) = (p.seq.wrapping_add(by), p.ack.wrapping_add(by), p.window ^ 1),
                _ => {}
            }
            if p.flags.has(Flags::URG) { p.urgent ^= 1; }
            p.data = data;
            ends.pass(*p);
        }
    }

    #[test]
    fn any_octets_are_refused_or_a_packet(octets in prop::collection::vec(any::<u8>(), 0..80), seed in any::<u64>()) {
        let mut ends = Ends::new(3);
        ends.pass(ACK);
        let mut dice = Seed(seed).chance("kind");
        let kind = if dice.below(3) == 0 { VjKind::Full } else { VjKind::Compressed };
        if let Some(whole) = ends.receive(kind, octets) {
            prop_assert_eq!(checksum(&[&whole[..20]]), 0);
            prop_assert_eq!(usize::from(u16::from_be_bytes([whole[2], whole[3]])), whole.len());
        }
    }
}
