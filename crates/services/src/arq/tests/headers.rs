//! Packets told by earlier ones' headers.

use super::*;
use std::net::SocketAddr;
use wavelane_base::Ecn;
use wavelane_wire::frame::CompressedFrame;
use wavelane_wire::packet::Headers;
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket, Timestamps};

const ACK: Treatment = Treatment { repair: Repair::Arq, order: Ordering::Free, only_newest: true };

/// An acknowledgement of a download, the `serial`-th of its flow; every seventh has blocks of SACK, every ninth another window.
fn ack(flow: u64, serial: u64) -> Vec<u8> {
    let serial = serial as u32;
    let window = if serial.is_multiple_of(9) { 400 } else { 501 };
    let mut header =
        TcpHeader { seq: 7, ack: serial.wrapping_mul(2_896), flags: Flags::ACK, window, ..TcpHeader::default() };
    header.options.timestamps = Some(Timestamps { value: 1_000 + serial * 12, echo: 9 + serial * 12 });
    if serial.is_multiple_of(7) {
        header.options.sack.push(header.ack.wrapping_add(1_448), header.ack.wrapping_add(4_344));
    }
    let end = |host: u8, port: u64| -> SocketAddr {
        let v6: SocketAddr = (std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()), port as u16).into();
        if flow.is_multiple_of(2) { v6 } else { SocketAddr::from(([10, 0, 0, host], port as u16)) }
    };
    let packet = TcpPacket { source: end(1, 5_000), target: end(2, flow), ecn: Ecn::NotEct, header, payload: b"" };
    let mut buf = [0; 200];
    let len = packet.emit(&mut buf).unwrap();
    buf[..len].to_vec()
}

fn world(seed: u64, loss: u64, unruly: u64) -> World {
    let mut world = World::new(seed, loss, unruly);
    world.compresses = true;
    let slow = Times { packet_time: Span::from_millis(5), ..world.sender.path };
    world.sender.set_path(slow);
    world
}

/// Sends `count` acknowledgements of each of `flows`, and checks that every packet that came is one of them, whole.
fn run(world: &mut World, flows: u64, count: u64) {
    for serial in 0..count {
        for flow in 0..flows {
            world.sender.start(world.now, ack(flow, serial), flow, ACK);
            world.transmit();
        }
        world.run_until(world.now + Span::from_millis(12));
    }
    world.run_until(world.now + Span::from_secs(5));
    let sent: std::collections::BTreeSet<_> =
        (0..flows).flat_map(|flow| (0..count).map(move |serial| ack(flow, serial))).collect();
    assert!(world.raw.iter().all(|packet| sent.contains(packet)), "a wrong packet");
}

#[test]
fn an_acknowledgement_takes_eighteen_octets() {
    let mut world = world(1, 0, 0);
    run(&mut world, 1, 1_000);
    let counters = world.sender.counters();
    assert_eq!((world.raw.len(), world.receiver.counters().dropped_headers), (1_000, 0));
    // All but those of the first round, and one each four seconds.
    assert!(counters.compressed > 985, "{counters:?}");
    let plain = world.raw.iter().map(|packet| packet.len() as u64 + 8).sum::<u64>();
    let each = (plain - counters.compressed_octets) as f64 / 1_000.0;
    assert!(each < 19.0, "{each} octets each, with SACK in every seventh");
}

#[test]
fn loss_and_reordering_make_no_wrong_packet_and_drop_none() {
    for (seed, loss, unruly) in [(1, 20, 0), (2, 5, 30), (3, 0, 50), (4, 50, 50)] {
        let mut world = world(seed, loss, unruly);
        run(&mut world, 5, 600);
        let (sender, receiver) = (world.sender.counters(), world.receiver.counters());
        // What a newer one replaces is not sent again, so some of the lost ones stay so.
        assert!(receiver.dropped_headers == 0, "{loss} % {unruly} %: {receiver:?}");
        assert!(sender.compressed * 2 > sender.sent, "{loss} % {unruly} %: {sender:?}");
    }
}

/// More flows than both ends keep headers of: nothing is gained any more, and nothing is lost.
#[test]
fn a_thousand_flows_stay_within_bounds() {
    let mut world = world(5, 3, 0);
    run(&mut world, 1_000, 5);
    assert_eq!(world.receiver.counters().dropped_headers, 0);
}

#[test]
fn headers_that_are_not_there_are_counted_and_do_not_stay_away() {
    let mut world = world(6, 0, 0);
    run(&mut world, 1, 20);
    // The other end loses what it kept, against all rules.
    world.receiver.headers = crate::arq::headers::KeptHeaders::default();
    let before = world.raw.len();
    run(&mut world, 1, 1_000);
    assert!(world.receiver.counters().dropped_headers > 0);
    let got = world.raw.len() - before;
    assert!(got > 600, "{got} after at most four seconds, 12 ms each");
}

#[test]
fn a_neighbour_that_forgot_is_told_whole_packets_first() {
    let mut world = world(7, 0, 0);
    run(&mut world, 2, 20);
    world.sender.restart();
    world.receiver.restart();
    run(&mut world, 2, 20);
    assert_eq!((world.raw.len(), world.receiver.counters().dropped_headers), (80, 0));
}

proptest! {
    #[test]
    fn what_is_told_is_the_packet_or_nothing(
        flow in 1u64..3, old in 0u64..5_000, new in 0u64..5_000, at in 0usize..100, flip in 0u8..255, cut in 0usize..100,
    ) {
        let (base, mut packet) = (ack(flow, old), ack(flow, new));
        let headers = Headers::of(&base).unwrap();
        prop_assert!(headers.changes_to(&packet).is_some());
        let at = at % packet.len();
        packet[at] ^= flip;
        packet.truncate(packet.len().max(cut));
        if let Some((changes, len)) = headers.changes_to(&packet) {
            prop_assert_eq!(headers.apply(&changes, &packet[len..]), Some(packet));
        }
    }
}

/// A timer's retransmission may overtake the first transmission, which said that the packet is to be kept.
#[test]
fn a_packet_is_kept_also_where_its_retransmission_came_first() {
    let mut world = world(1, 0, 0);
    let (now, first, second) = (world.now, ack(1, 1), ack(1, 2));
    let frame = |keep| PacketFrame { number: 5, order: None, piece: None, keep, bytes: &first };
    world.receiver.handle(now, &frame(false));
    world.receiver.handle(now, &frame(true));
    assert_eq!(world.receiver.counters().duplicates, 1);
    let (changes, len) = Headers::of(&first).unwrap().changes_to(&second).unwrap();
    let told = CompressedFrame { base: 5, ahead: 1, keep: false, order: None, changes, payload: &second[len..] };
    world.receiver.handle_compressed(now, &told);
    assert_eq!(world.receiver.counters().dropped_headers, 0);
}
