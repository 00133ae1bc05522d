//! Two TCP senders, each with a congestion control of its own, over one bottleneck.

use crate::common::{direction, secs};
use crate::swarm::cases;
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_gateway::PeerId;
use wavelane_measure::jain;
use wavelane_sim::{Engine, FlowSpec, NodeClock, Plug, Work};
use wavelane_tcp::CongestionControl::{Bbr, Bbr3, Cubic, NewReno};
use wavelane_tcp::{Config, CongestionControl};

/// Goodputs in Mbit/s between 20 and 80 s over 20 Mbit/s and 40 ms with `queue` bytes; the second starts 5 s later.
fn shares(controls: [CongestionControl; 2], queue: u64, seed: u64) -> [f64; 2] {
    let mut engine = Engine::new(Seed(seed));
    let (left, right) = (engine.add_router("left"), engine.add_router("right"));
    let plug = |node| Plug { node, address: None };
    let bottleneck =
        engine.connect("air", CableConfig::symmetric(direction(20, 20, queue)), plug(left), plug(right)).unwrap();
    let mut flows = Vec::new();
    for (place, control) in controls.into_iter().enumerate() {
        let clock = NodeClock::new(Span::from_millis(place as u64 * 77), 0).unwrap();
        let ip = |side: u8| Ipv4Addr::new(10, side, place as u8, 10);
        let config = Config { nagle: false, ..Config::linux(control) };
        let a = engine.add_host(&format!("a{place}"), ip(0), clock, config.clone());
        let b = engine.add_host(&format!("b{place}"), ip(1), clock, config);
        let fast = || CableConfig::symmetric(direction(1000, 0, 1_000_000));
        let wire_a = engine.connect(&format!("wire a{place}"), fast(), plug(a), plug(left)).unwrap();
        let wire_b = engine.connect(&format!("wire b{place}"), fast(), plug(right), plug(b)).unwrap();
        for (node, to, channel) in [
            (a, ip(1), wire_a),
            (b, ip(0), wire_b),
            (left, ip(0), wire_a),
            (left, ip(1), bottleneck),
            (right, ip(0), bottleneck),
            (right, ip(1), wire_b),
        ] {
            engine.route(node, to, channel);
        }
        let target = SocketAddr::from((ip(1), 80));
        engine.listen(b, target);
        flows.push(engine.add_flow(FlowSpec {
            node: a,
            peer: PeerId(0),
            source: SocketAddr::from((ip(0), 40_000)),
            target,
            work: Work::Upload(None),
            start: secs(5 * place as u64),
            stop: None,
            source_rate: None,
            reader_pause: None,
        }));
    }
    engine.run_until(secs(80));
    [0, 1].map(|place| engine.log(flows[place]).goodput_between(secs(20), secs(80)).as_bps() as f64 / 1e6)
}

/// Two of a kind divide any buffer evenly: 0.2, 1 and 4 times the product of 20 Mbit/s and 40 ms.
#[test]
fn two_flows_of_version_3_share_evenly() {
    for queue in [20_000, 100_000, 400_000] {
        let shares = shares([Bbr3, Bbr3], queue, 1);
        let jain = jain(&shares).unwrap();
        println!("{queue} B: {shares:.2?} Mbit/s, Jain {jain:.3}");
        assert!(jain >= 0.9, "{queue} B: {shares:.2?} Mbit/s, Jain {jain:.3}");
        assert!(shares.iter().sum::<f64>() > 0.85 * 20.0, "{queue} B: {shares:.2?}");
    }
}

/// What version 3 is for (draft-ietf-ccwg-bbr-06, section 3.1): where the buffer is shallow, version 1 drives CUBIC and Reno
/// out, and version 3 leaves them more, whoever comes first. With deeper buffers the two differ little, and not always in
/// this order; `docs/decisions/0025-bbr-v3.md` has the figures.
#[test]
fn version_3_leaves_cubic_and_reno_more_of_a_shallow_buffer() {
    for &queue in cases(&[20_000, 50_000], 1) {
        for rival in [Cubic, NewReno] {
            let [three, one] = [Bbr3, Bbr].map(|bbr| shares([bbr, rival], queue, 1));
            println!("{queue} B, {rival:?}: version 3 {three:.2?}, version 1 {one:.2?} Mbit/s");
            assert!(three[1] > one[1], "{queue} B, {rival:?}: version 3 {three:.2?}, version 1 {one:.2?}");
            assert!(jain(&three) > jain(&one), "{queue} B, {rival:?}: version 3 {three:.2?}, version 1 {one:.2?}");
        }
        let late = shares([Cubic, Bbr3], queue, 1);
        assert!(late[0] > shares([Cubic, Bbr], queue, 1)[0], "{queue} B: CUBIC first, {late:.2?}");
    }
}
