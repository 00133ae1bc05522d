//! How peers are reached: the source address, after a move, and through NAT whose idle mappings expire.
use super::*;
use std::net::IpAddr;

const KEEPALIVE: Span = Span::from_secs(25);

/// A pair whose A sends keepalives, and whose B does not know A's address.
fn calling() -> Pair {
    let mut pair = Pair::new();
    let now = pair.now;
    let build = |config: Config, me: u8| Gateway::new(now, config, 1, Seed(u64::from(me)).entropy("reach")).unwrap();
    let (mut a, mut b) = (config(1, 2, B), config(2, 1, A));
    a.peers[0].keepalive = Some(KEEPALIVE);
    b.peers[0].lanes[0].address = None;
    pair.nodes = [build(a, 1), build(b, 2)];
    pair
}

#[test]
fn a_quiet_link_is_kept_open_and_its_session_too() {
    let mut pair = calling();
    pair.run(Span::from_secs(1), |_| false);
    let (mut quietest, mut heard) = (Span::ZERO, pair.now);
    let sent =
        |pair: &Pair| pair.nodes[0].status(pair.now).counters.iter().find(|c| c.0 == "datagrams_sent").unwrap().1;
    let mut before = sent(&pair);
    let start = before;
    // Longer than a session's lifetime.
    pair.run(Span::from_secs(600), |pair| {
        let now = sent(pair);
        if now > before {
            quietest = quietest.max(pair.now.since(heard));
            before = now;
            heard = pair.now;
        }
        assert!(pair.nodes[1].net.peers.can_seal(pair.now, 0), "the called side can speak at any time: {:?}", pair.now);
        false
    });
    assert!(quietest <= KEEPALIVE + Span::from_secs(1), "{quietest:?}");
    // One ping per interval, and little else: an ack of the answer, and a new session every two minutes.
    assert!((before - start) <= 600 / 25 * 3, "{}", before - start);
    // Its peer's end is detected on a quiet link.
    pair.loss = Ratio::new(1, 1).unwrap();
    assert!(pair.run(KEEPALIVE + Span::from_secs(5), |pair| pair.saw(0, |e| matches!(e, GatewayEvent::PeerSilent(_)))));
}

#[test]
fn without_keepalive_a_quiet_link_is_silent() {
    let mut pair = Pair::new();
    pair.run(Span::from_secs(300), |_| false);
    let sent = pair.nodes[0].status(pair.now).counters;
    pair.run(Span::from_secs(300), |_| false);
    assert_eq!(pair.nodes[0].status(pair.now).counters, sent);
}

#[test]
fn a_peer_is_called_at_a_new_or_changed_address() {
    let mut pair = calling();
    let mut a = config(1, 2, B);
    a.peers[0].lanes[0].address = None;
    pair.nodes[0] = Gateway::new(pair.now, a, 1, Seed(3).entropy("nowhere")).unwrap();
    assert!(!pair.run(Span::from_secs(60), |pair| !pair.pipe.is_empty()), "nobody is called");
    pair.nodes[0].relocate(pair.now, PeerId(0), 0, B);
    assert!(pair.run(Span::from_secs(5), |pair| pair.saw(0, |e| matches!(e, GatewayEvent::PeerUp(_)))));
    // It is called at its new address although it was heard at the old one.
    let new: Address = "198.51.100.9:4780".parse().unwrap();
    pair.nodes[0].relocate(pair.now, PeerId(0), 0, new);
    assert_eq!(pair.nodes[0].peer_address(PeerId(0)), Some(new));
    assert_eq!(pair.nodes[0].config().peers[0].lanes[0].address, Some(new), "a reload begins from there");
}

#[test]
fn answers_leave_from_the_called_address() {
    let mut pair = calling();
    let asked: IpAddr = "203.0.113.5".parse().unwrap();
    let (now, mut buf) = (pair.now, [0; 2048]);
    let mut answers = 0;
    for _ in 0..4 {
        while let Some(out) = pair.nodes[0].poll_transmit(now, PortId(0), &mut buf, 1) {
            assert_eq!(out.from, None, "whom we call, the system finds the way to");
            let meta = FrameMeta { rx_time: now, from: Some(A), at: Some(asked), ..FrameMeta::default() };
            pair.nodes[1].handle_frame(now, PortId(0), &mut buf[..out.len], meta);
        }
        while let Some(out) = pair.nodes[1].poll_transmit(now, PortId(0), &mut buf, 1) {
            assert_eq!((out.to, out.from), (Some(A), Some(asked)));
            answers += 1;
            let meta = FrameMeta { rx_time: now, from: Some(B), ..FrameMeta::default() };
            pair.nodes[0].handle_frame(now, PortId(0), &mut buf[..out.len], meta);
        }
    }
    assert!(answers >= 1 && pair.nodes[1].net.peers.can_seal(now, 0));
    // The called side's own data is sent from there too.
    pair.nodes[1].open(now, PeerId(0), CLIENT, SERVER).unwrap();
    let out = pair.nodes[1].poll_transmit(now, PortId(0), &mut buf, 1).unwrap();
    assert_eq!((out.to, out.from), (Some(A), Some(asked)));
}

#[test]
fn a_name_that_leads_to_another_host_is_another_path() {
    let mut pair = Pair::new();
    let (ours, _) = pair.connect();
    pair.nodes[0].write(pair.now, ours, &[1; 10_000]);
    pair.run(Span::from_secs(1), |_| false);
    let rtt_min = |pair: &Pair| pair.nodes[0].status(pair.now).peers[0].rtt_min;
    assert_eq!(rtt_min(&pair), Some(DELAY.times(2)));
    pair.nodes[0].relocate(pair.now, PeerId(0), 0, at(2, 4781));
    assert!(rtt_min(&pair).is_some(), "another port of the same host");
    pair.nodes[0].relocate(pair.now, PeerId(0), 0, "198.51.100.7:4780".parse().unwrap());
    assert_eq!(rtt_min(&pair), None);
}

#[test]
fn a_peer_that_moves_to_the_other_ip_version_gets_packets_of_the_same_length() {
    let mut pair = calling();
    pair.run(Span::from_secs(1), |_| false);
    let now = pair.now;
    let four = pair.nodes[1].net.peers.link(0).datagram_max(0);
    let mut length = |from: &str| {
        pair.nodes[1].net.peers.heard_from(now, PeerId(0), 0, from.parse().unwrap(), 100, true);
        pair.nodes[1].net.peers.link(0).datagram_max(0)
    };
    let base = 1_200;
    assert!(four >= base - 28);
    assert_eq!(length("[2001:db8::7]:4780"), base - 48, "the search starts anew");
    assert_eq!(length("192.0.2.77:4780"), base - 28);
}

#[test]
fn a_handshake_proves_an_address_to_the_lane_by_whose_port_it_came() {
    let mut c = config(2, 1, A);
    c.peers[0].lanes = (0..2).map(|port| LaneConfig::new(PortId(port), None)).collect();
    let now = Instant::from_secs(1);
    let mut hub = Gateway::new(now, c, 1, Seed(4).entropy("hub")).unwrap();
    let (peer, epoch, round_trip) = (0, 1, DELAY);
    let session = wavelane_transport::session::Established {
        peer,
        epoch,
        restarted: false,
        fresh: true,
        confirm: false,
        from: Some(A),
        round_trip,
        proven: true,
    };
    hub.net.peers.established_from(now, &session, PortId(1));
    let knows = |lane: usize| hub.net.peers.proved(PeerId(0), lane, A);
    assert_eq!([knows(0), knows(1)], [false, true]);
}
