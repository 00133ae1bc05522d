//! A new configuration while flows run.
use super::*;
use crate::ReloadError;
use wavelane_base::{Carrier, LinkAcks, Radio, Rate};

const RADIO: Radio = Radio { rate: Rate::from_bps(54_000_000), cell: 0, acks: LinkAcks::Each };

fn other(n: u8) -> PeerConfig {
    let mut peer = config(1, n, "192.0.2.77:4780".parse().unwrap()).peers.remove(0);
    peer.lanes[0].address = None;
    peer
}

/// Sends `bytes` from A to B in flow (`ours`, `theirs`) and returns what arrived, reloading A with `next` half-way.
fn send_through(pair: &mut Pair, (ours, theirs): (FlowId, FlowId), bytes: &[u8], next: Option<Config>) -> Vec<u8> {
    let (mut at, mut got, mut next) = (0, Vec::new(), next);
    let limit = Span::from_secs(60);
    pair.run(limit, |pair| {
        let now = pair.now;
        at += pair.nodes[0].write(now, ours, &bytes[at..]);
        let mut buf = [0; 4096];
        while let ReadOutcome::Data(n) = pair.nodes[1].read(now, theirs, &mut buf) {
            got.extend_from_slice(&buf[..n]);
        }
        if got.len() * 2 > bytes.len()
            && let Some(config) = next.take()
        {
            pair.nodes[0].reload(now, config).unwrap();
        }
        got.len() == bytes.len()
    });
    assert!(next.is_none(), "reloaded on the way");
    got
}

fn noise(n: u32) -> Vec<u8> {
    (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn neighbours_come_and_change_places_while_a_flow_goes_on() {
    let mut pair = Pair::new();
    let flow = pair.connect();
    pair.loss = Ratio::new(1, 20).unwrap();
    let mut wanted = config(1, 2, B);
    wanted.peers.insert(0, other(3));
    wanted.peers.push(other(4));
    wanted.flows_max = 10;
    let sent = noise(400_000);
    assert!(send_through(&mut pair, flow, &sent, Some(wanted.clone())) == sent);
    // B is the second now; a new flow there works, and its limits are the new ones.
    let limit = Span::from_secs(10);
    let second = pair.nodes[0].open(pair.now, PeerId(1), CLIENT, SERVER).unwrap();
    assert!(
        pair.run(limit, |pair| pair
            .saw(1, |e| matches!(e, GatewayEvent::Incoming { source, .. } if *source == CLIENT)))
    );
    for _ in 0..6 {
        pair.nodes[0].open(pair.now, PeerId(1), CLIENT, SERVER).unwrap();
    }
    let full = pair.nodes[0].open(pair.now, PeerId(1), CLIENT, SERVER);
    // One place each is guaranteed to the two others.
    assert_eq!(full, Err(OpenError::TableFull(8)));
    pair.nodes[0].reset(pair.now, second);
    let names: Vec<String> = pair.nodes[0].status(pair.now).peers.into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["peer-3", "peer-2", "peer-4"]);
    assert!(pair.nodes[0].status(pair.now).peers[1].up);
    // Reloaded back, with others removed: the flow is still open.
    let sent = noise(100_000);
    assert!(send_through(&mut pair, flow, &sent, Some(config(1, 2, B))) == sent);
    assert!(
        !pair.saw(0, |e| matches!(e, GatewayEvent::Reset(..) | GatewayEvent::PeerRestarted(_))),
        "{:?}",
        pair.events[0]
    );
}

#[test]
fn a_removed_peer_may_return_under_the_same_epoch() {
    let mut pair = Pair::new();
    let (ours, theirs) = pair.connect();
    let sent = noise(50_000);
    assert!(send_through(&mut pair, (ours, theirs), &sent, None) == sent);
    let lonely = Config { peers: vec![other(3)], ..config(1, 2, B) };
    pair.nodes[0].reload(pair.now, lonely).unwrap();
    assert!(pair.run(Span::from_secs(1), |pair| pair.saw(0, |e| *e == GatewayEvent::Reset(ours, Reason::Aborted))));
    let now = pair.now;
    assert_eq!(pair.nodes[0].read(now, ours, &mut [0; 8]), ReadOutcome::Reset);
    assert_eq!(pair.nodes[0].status(now).flows, 0);
    // B is a stranger meanwhile.
    pair.run(Span::from_secs(3), |_| false);
    pair.events = [Vec::new(), Vec::new()];
    pair.nodes[0].reload(pair.now, config(1, 2, B)).unwrap();
    let flow = pair.connect();
    assert!(send_through(&mut pair, flow, &sent, None) == sent);
    assert!(!pair.saw(1, |e| matches!(e, GatewayEvent::PeerRestarted(_))), "same epoch: {:?}", pair.events[1]);
}

#[test]
fn unchangeable_keys_are_refused_and_nothing_changes() {
    let mut pair = Pair::new();
    let flow = pair.connect();
    let fixed = |change: fn(&mut Config)| {
        let mut wanted = config(1, 2, B);
        change(&mut wanted);
        wanted
    };
    let cases = [
        (fixed(|c| c.private_key = [7; 32]), "private key"),
        (fixed(|c| c.mtu_max = 1_400), "mtu_max"),
        (fixed(|c| c.packets = Some(PacketConfig::default())), "packet service"),
        (fixed(|c| c.peers[0].lanes[0].controller = Controller::Cubic), "controller of peer 'peer-2'"),
        (fixed(|c| c.peers[0].lanes[0].carrier.radio = Some(RADIO)), "`radio` or `rate` of a lane of peer 'peer-2'"),
        (fixed(|c| c.peers[0].preshared_key = Some([1; 32])), "preshared key"),
        (fixed(|c| c.peers.push(c.peers[0].clone())), "same public key"),
        (fixed(|c| c.flows_max = 0), "flows_max"),
    ];
    for (wanted, part) in cases {
        let why = pair.nodes[0].reload(pair.now, wanted).unwrap_err().to_string();
        assert!(why.contains(part) && !why.contains('\n'), "{why}");
    }
    let sent = noise(20_000);
    assert!(send_through(&mut pair, flow, &sent, None) == sent);
}

#[test]
fn radios_keep_their_rate_and_may_change_places() {
    let mut pair = Pair::new();
    let with = |radios: &[(u16, Option<u64>)]| {
        let mut wanted = config(1, 2, B);
        let plain = wanted.peers[0].lanes.remove(0);
        wanted.peers[0].lanes.extend(radios.iter().map(|(port, rate)| {
            let radio = rate.map(|rate| Radio { rate: Rate::from_bps(rate), ..RADIO });
            LaneConfig { port: PortId(*port), carrier: Carrier { radio, ..plain.carrier }, ..plain }
        }));
        wanted
    };
    let (slow, fast) = (Some(6_000_000), Some(54_000_000));
    let now = pair.now;
    let mut reload = |radios: &[(u16, Option<u64>)]| pair.nodes[0].reload(now, with(radios));
    reload(&[(0, None), (1, slow)]).expect("a radio is added");
    reload(&[(1, slow), (0, None)]).expect("the same in another order");
    reload(&[(1, slow)]).expect("the first of the file goes");
    for changed in [(2, fast), (2, None)] {
        let why = reload(&[changed]).expect_err("the lane would go on at 6 Mbit/s").to_string();
        assert!(why.starts_with("`radio` or `rate` of a lane of peer 'peer-2' cannot change"), "{why}");
    }
}

#[test]
fn neighbours_that_went_are_remembered_within_a_bound() {
    let now = Instant::from_secs(1);
    let mut node = gateway(now, 1, 2, B, 1);
    let with = |n: u32| {
        let mut wanted = config(1, 2, B);
        wanted.peers[0].public_key = core::array::from_fn(|i| n.to_be_bytes()[i % 4]);
        wanted
    };
    for n in 0..super::super::RETIRED_MAX as u32 {
        node.reload(now, with(n)).unwrap();
    }
    assert_eq!(node.reload(now, with(1 << 20)), Err(ReloadError::Retired));
    // A returning neighbour makes room for a removed one.
    node.reload(now, with(3)).unwrap();
}
