//! Two TCP senders, each with a congestion control of its own, over one bottleneck.

use crate::common::{address, direction, secs};
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_measure::jain;
use wavelane_protocol::gateway::PeerId;
use wavelane_protocol::tcp::{Config, CongestionControl};
use wavelane_sim::{Engine, FlowSpec, NodeClock, Plug, Work};

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

#[test]
fn explore() {
    use CongestionControl::{Bbr, Bbr3, Cubic, NewReno};
    for queue in [20_000, 50_000, 100_000, 200_000, 400_000] {
        for pair in [[Bbr3, Bbr3], [Bbr, Bbr], [Bbr3, Bbr], [Bbr3, Cubic], [Bbr, Cubic], [Bbr3, NewReno], [Bbr, NewReno], [Cubic, Bbr3], [Cubic, Bbr], [NewReno, Bbr3], [NewReno, Bbr]] {
            let got = [1, 2].map(|seed| shares(pair, queue, seed));
            println!("{queue} {pair:?}: {got:.2?} {:.3?}", got.map(|got| jain(&got).unwrap()));
        }
    }
}
