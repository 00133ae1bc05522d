//! A neighbour that dies while packets are in flight to it, or wait for it.

use super::*;
use crate::neighbours::DOWN_AFTER;
use crate::packets::ICMP_BURST;
use wavelane_base::Rate;
use wavelane_wire::ip::checksum;
use wavelane_wire::packet::Packet;

/// The rate of the far side's lane, and the offered rate.
const LANE: Rate = Rate::from_bps(1_000_000);
/// The longest time, as part of a second, between the last sign of life and the first unanswered question: RTT, timer and ack
/// delay.
const NOTICED: Span = Span::from_millis(500);

/// Two gateways with the packet service and an established session, the first one's lane at a fixed rate.
fn tunnel() -> Pair {
    let mut pair = Pair::new();
    let node = |me: u8, peer: u8, address| {
        let mut config = config(me, peer, address);
        config.packets = Some(PacketConfig { address4: Some("10.9.0.1".parse().unwrap()), ..PacketConfig::default() });
        config.peers[0].routes = vec!["10.0.0.0/8".parse().unwrap()];
        config.peers[0].lanes[0].controller = Controller::Fixed(LANE);
        Gateway::new(pair.now, config, 1, Seed(u64::from(me)).entropy("tunnel")).unwrap()
    };
    pair.nodes = [node(1, 2, B), node(2, 1, A)];
    let up = |pair: &mut Pair| (0..2).all(|side| pair.saw(side, |e| *e == GatewayEvent::PeerUp(PeerId(0))));
    assert!(pair.run(Span::from_secs(5), up));
    pair.run(Span::from_secs(1), |_| false);
    pair
}

/// A UDP packet of `flow`, marked with `serial`.
fn udp(flow: u8, serial: u32, octets: usize) -> Vec<u8> {
    let [high, low] = (octets as u16).to_be_bytes();
    let mut out = vec![0x45, 0, high, low, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 5, 10, 0, 3, 2];
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend([9, flow, 9, 9, 0, 0, 0, 0]);
    out.extend(serial.to_be_bytes());
    out.resize(octets, 0);
    out
}

/// Flow and serial of a packet of [`udp`].
fn name(packet: &[u8]) -> (u8, u32) {
    (packet[21], u32::from_be_bytes(packet[28..32].try_into().unwrap()))
}

/// What the inside of `side` receives: names of packets, or names of quoted packets with the ICMP error's type and code.
fn given(pair: &mut Pair, side: usize) -> Vec<((u8, u8), (u8, u32))> {
    let mut buf = [0; 2048];
    let mut out = Vec::new();
    while let Some(len) = pair.nodes[side].poll_packet(pair.now, &mut buf) {
        let view = Packet::parse(&buf[..len]).unwrap();
        let upper = view.upper();
        out.push(match view.protocol {
            1 => ((upper[0], upper[1]), name(&upper[8..])),
            _ => ((0, 0), name(&buf[..len])),
        });
    }
    out
}

fn count(pair: &Pair, name: &str) -> u64 {
    let counters = pair.nodes[0].status(pair.now).counters;
    counters.iter().find(|c| c.0 == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

#[test]
fn packets_in_flight_when_a_peer_goes_down_are_answered() {
    let mut pair = tunnel();
    (0..2).for_each(|n| pair.nodes[0].handle_packet(pair.now, &udp(1, n, 100)));
    pair.run(Span::from_millis(200), |_| false);
    assert_eq!(given(&mut pair, 1), [((0, 0), (1, 0)), ((0, 0), (1, 1))], "these arrive");
    // These are sent, then the peer dies.
    pair.loss = Ratio::ONE;
    for (flow, serial) in [(1, 2), (1, 3), (2, 0)] {
        pair.nodes[0].handle_packet(pair.now, &udp(flow, serial, 100));
    }
    pair.drain();
    assert_eq!(count(&pair, "packets_sent"), 5);
    pair.run(DOWN_AFTER.saturating_sub(Span::from_millis(1)), |_| false);
    assert_eq!(given(&mut pair, 0), [], "an outage that packets may outlive is not reported");
    pair.run(NOTICED, |_| false);
    let unreachable = (3, 1);
    assert_eq!(given(&mut pair, 0), [(unreachable, (1, 2)), (unreachable, (2, 0)), (unreachable, (1, 3))]);
    assert_eq!((count(&pair, "dropped_packets_peer_down"), count(&pair, "packets_unrepaired")), (3, 3));
    assert_eq!(pair.nodes[0].status(pair.now).packets_buffered, 0);
    // None of them arrives later, and the lane works again.
    pair.loss = Ratio::ZERO;
    let up = pair.events[0].len();
    assert!(pair.run(Span::from_secs(30), |pair| pair.events[0].len() > up), "not found again");
    pair.nodes[0].handle_packet(pair.now, &udp(1, 4, 100));
    pair.run(Span::from_secs(1), |_| false);
    assert_eq!((given(&mut pair, 0), given(&mut pair, 1)), (vec![], vec![((0, 0), (1, 4))]));
}

#[test]
fn a_dropped_queue_answers_every_flow_within_the_icmp_limit() {
    let mut pair = tunnel();
    // One flow at twice the lane's rate, until CoDel drops from it.
    let (mut serial, mut arrived) = (0, 0);
    while count(&pair, "dropped_packets_queue_delay") < 20 {
        pair.nodes[0].handle_packet(pair.now, &udp(1, serial, 1_000));
        serial += 1;
        pair.run(Span::from_millis(4), |_| false);
        arrived += given(&mut pair, 1).len() as u64;
        assert!(serial < 5_000, "CoDel drops nothing");
    }
    (0..100).for_each(|n| pair.nodes[0].handle_packet(pair.now, &udp(1, serial + n, 1_000)));
    (2..42).for_each(|flow| pair.nodes[0].handle_packet(pair.now, &udp(flow, 0, 1_000)));
    pair.loss = Ratio::ONE;
    pair.run(DOWN_AFTER + NOTICED, |_| false);
    arrived += given(&mut pair, 1).len() as u64;
    let told = given(&mut pair, 0);
    assert!(told.iter().all(|(kind, _)| *kind == (3, 1)), "{told:?}");
    assert_eq!(told.len() as u64, ICMP_BURST);
    assert!((1..42).all(|flow| told[..41].iter().any(|(_, name)| name.0 == flow)), "one of each flow first: {told:?}");
    let given_up = count(&pair, "dropped_packets_peer_down");
    assert!(given_up > 2 * ICMP_BURST, "{given_up}");
    assert_eq!(count(&pair, "icmp_errors_suppressed"), given_up - ICMP_BURST);
    // Every packet arrived, or was dropped by the queue while it was served, or was given up. For a few that arrived the ack was
    // lost: at most those of one RTT and one ack delay.
    let dropped = ["dropped_packets_queue_delay", "dropped_packets_queue_age"].map(|name| count(&pair, name));
    let known = arrived + dropped.iter().sum::<u64>() + given_up;
    let twice = known.checked_sub(count(&pair, "packets_from_inside"));
    assert!(twice.is_some_and(|twice| twice <= 6), "{twice:?} of {known}");
    assert_eq!(pair.nodes[0].status(pair.now).packets_buffered, 0);
}
