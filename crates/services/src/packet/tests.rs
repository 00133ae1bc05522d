//! The service alone: the laws, with scripted fates.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use super::*;
use wavelane_base::laws::{Script, Stimulus, check, check_memory};
use wavelane_base::{FrameMeta, Machine, PortId, Rate, Transmit};
use wavelane_transport::RepairBudget;
use wavelane_wire::Writer;
use wavelane_wire::frame::{Frame, Frames};
use wavelane_wire::ip::checksum;

fn config() -> PacketsConfig {
    PacketsConfig {
        tries: crate::arq::Tries::Evidence,
        packet_max: 9_000,
        pool: 1 << 20,
        discipline: Discipline::FqCoDel,
        repairs: Repairs::default(),
        key: [3, 5],
    }
}

fn path() -> Times {
    Times {
        rtt: Some(Span::from_millis(40)),
        rtt_var: Span::from_millis(2),
        ack_delay: Span::from_millis(5),
        packet_time: Span::from_micros(500),
        loss: 0.1,
        burst: Span::from_millis(3),
        symbols: Span::ZERO,
    }
}

fn udp(port: u16, len: usize) -> IpPacket {
    let total = ((28 + len) as u16).to_be_bytes();
    let mut out = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1];
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(port.to_be_bytes());
    out.extend([0x13, 0x88]);
    out.extend(((8 + len) as u16).to_be_bytes());
    out.resize(28 + len, 0);
    IpPacket::take(out).unwrap()
}

/// A datagram of 1,200 octets with nothing in it yet.
fn datagram<'a, 'w>(
    w: &'a mut Writer<'w>,
    pieces: &'a mut Vec<Piece>,
    budget: &'a mut RepairBudget,
) -> Datagram<'a, 'w> {
    Datagram {
        full: 1_200,
        fresh: w.is_empty(),
        w,
        pieces,
        carries: Carries::All,
        compresses: false,
        wrote_media: false,
        budget,
    }
}

/// The service behind a port that takes one datagram per 2 ms, whose every seventh datagram is lost.
struct Driven {
    packets: Packets,
    budget: RepairBudget,
    open_at: Instant,
    sent: u64,
    fates: std::collections::VecDeque<(Instant, Vec<Piece>, bool)>,
}

impl Machine for Driven {
    type Event = Vec<u8>;
    fn handle_frame(&mut self, now: Instant, _port: PortId, frame: &mut [u8], _meta: FrameMeta) {
        for frame in Frames::new(frame).flatten() {
            if let Frame::Packet(frame) = frame {
                self.packets.handle_frame(now, &frame);
            }
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, pieces, arrived)) = self.fates.pop_front_if(|fate| fate.0 <= now) {
            for piece in pieces {
                if arrived { self.packets.delivered(piece) } else { self.packets.lost(now, piece) }
            }
        }
        self.packets.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, _port: PortId, buf: &mut [u8], _max: usize) -> Option<Transmit> {
        if now < self.open_at || self.packets.wants().is_none() {
            return None;
        }
        let (mut w, mut pieces) = (Writer::new(&mut buf[..1_200]), Vec::new());
        self.packets.fill_small(now, &mut datagram(&mut w, &mut pieces, &mut self.budget));
        self.packets.fill(now, &mut datagram(&mut w, &mut pieces, &mut self.budget));
        let len = w.len();
        if len == 0 {
            return None;
        }
        self.sent += 1;
        self.open_at = now + Span::from_millis(2);
        self.fates.push_back((now + Span::from_millis(45), pieces, !self.sent.is_multiple_of(7)));
        Some(Transmit { len, ..Transmit::default() })
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        let fate = self.fates.front().map(|fate| Wakeup { at: fate.0, cause: "fate" });
        let waits = self.packets.wants().map(|_| Wakeup { at: self.open_at, cause: "port" });
        Wakeup::earliest(Wakeup::earliest(fate, waits), self.packets.poll_timeout(true))
    }
    fn poll_event(&mut self) -> Option<Vec<u8>> {
        self.packets.poll()
    }
}

fn driven() -> Driven {
    let mut packets = Packets::new(config());
    packets.set_path(path());
    let mut budget = RepairBudget::default();
    budget.set_path(Rate::from_bps(5_000_000), Span::from_millis(100), path().loss);
    Driven { packets, budget, open_at: Instant::ZERO, sent: 0, fates: std::collections::VecDeque::new() }
}

/// 4,000 packets per second of as many flows are offered to a port that takes 500 datagrams.
#[test]
fn a_flooded_service_stays_within_its_memory() {
    let offer: fn(&mut Driven, Instant) = |driven, now| {
        let port = (now.as_micros() / 250 % 60_000) as u16;
        driven.packets.push(now, udp(port, 1_300));
    };
    let step = |n: u64| (Instant::from_micros(n * 250), Stimulus::Command(offer));
    let script = Script { steps: (1..12_000).map(step).collect(), ports: vec![PortId(0)], end: Instant::from_secs(5) };
    // A sent, unacknowledged packet counts in the pool; the tables grow by doubling.
    let limit = 3 * config().pool as u64;
    check_memory(driven, &script, limit, |work| allocation_counter::measure(work).bytes_max);
}

#[test]
fn the_laws_hold_under_overload_and_loss() {
    let mut steps: Vec<(Instant, Stimulus<Driven>)> = Vec::new();
    for n in 0..600u64 {
        let at = Instant::from_micros(1_000_000 + n * 700);
        let command: fn(&mut Driven, Instant) = match n % 4 {
            0 => |m, now| m.packets.push(now, udp(53, 60)),
            1 => |m, now| m.packets.push(now, udp(7_000, 1_100)),
            2 => |m, now| m.packets.push(now, udp(7_001, 2_900)),
            _ => |m, now| m.packets.push(now, udp(7_002, 500)),
        };
        steps.push((at, Stimulus::Command(command)));
    }
    check(driven, &Script { steps, ports: vec![PortId(0)], end: Instant::from_secs(10) });
}

#[test]
fn several_small_packets_share_a_datagram_and_pass_large_ones() {
    let mut packets = Packets::new(config());
    let now = Instant::from_secs(1);
    (0..20).for_each(|_| packets.push(now, udp(7_000, 1_000)));
    let (mut buf, mut pieces) = ([0; 1_200], Vec::new());
    let mut budget = RepairBudget::default();
    packets.fill(now, &mut datagram(&mut Writer::new(&mut buf), &mut pieces, &mut budget));
    assert_eq!((pieces.len(), packets.wants()), (1, Some(Class::Bulk)));
    (0..3).for_each(|n| packets.push(now, udp(9_000 + n, 60)));
    assert_eq!((packets.wants(), packets.bulk_waits()), (Some(Class::Micro), true), "the large ones go on waiting");
    pieces.clear();
    let mut w = Writer::new(&mut buf);
    packets.fill_small(now, &mut datagram(&mut w, &mut pieces, &mut budget));
    assert_eq!(pieces.len(), 3, "all three in one datagram of {} octets", w.len());
    assert!(w.len() < 3 * 110);
    let mut small = Packets::new(config());
    (0..3).for_each(|n| small.push(now, udp(9_000 + n, 60)));
    assert_eq!((small.wants(), small.bulk_waits()), (Some(Class::Micro), false));
    small.push(now, udp(9_000, 1_000));
    assert!(!small.bulk_waits(), "within its flow's first turn");
    small.push(now, udp(9_000, 1_000));
    assert!(small.bulk_waits());
}

#[test]
fn packets_older_than_an_outage_are_dropped() {
    let mut packets = Packets::new(config());
    (0..10).for_each(|_| packets.push(Instant::from_secs(1), udp(7_000, 500)));
    packets.push(Instant::from_secs(5), udp(7_000, 500));
    let (mut buf, mut pieces) = ([0; 1_200], Vec::new());
    let mut budget = RepairBudget::default();
    packets.fill(Instant::from_secs(5), &mut datagram(&mut Writer::new(&mut buf), &mut pieces, &mut budget));
    let counters = packets.counters();
    assert_eq!(pieces.len(), 1);
    assert_eq!(counters.dropped_old + counters.queue.dropped_delay, 10, "{counters:?}");
}

#[test]
fn everything_together_stays_within_the_pool() {
    let mut machine = driven();
    let mut buf = vec![0; 2_000];
    for ms in 0..3_000u64 {
        let now = Instant::from_millis(1_000 + ms);
        machine.handle_timeout(now);
        (0..20).for_each(|n| machine.packets.push(now, udp(7_000 + n, 1_300)));
        while machine.poll_transmit(now, PortId(0), &mut buf, 1).is_some() {}
        assert!(machine.packets.octets() <= config().pool, "{} octets", machine.packets.octets());
    }
    assert!(machine.packets.counters().queue.dropped_full > 0);
}
