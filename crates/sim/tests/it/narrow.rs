//! Lanes over a carrier without IP whose packets are short: nothing assumes that 576 octets pass.

use crate::common::{direction, gateway_config, secs, server};
use std::net::SocketAddr;
use wavelane_base::{Address, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_gateway::PeerId;
use wavelane_sim::{Engine, FlowEnd, FlowSpec, NodeClock, Plug, Work, carrier_of};

#[test]
fn a_download_crosses_a_line_of_256_octets() {
    let mut engine = Engine::new(Seed(1));
    let [at_a, at_b] = [Address::Line(1), Address::Line(2)];
    let carrier = carrier_of(at_a);
    assert_eq!((carrier.mtu_floor, carrier.mtu_max), (64, 256));
    let mut node = |name: &str, me, other, to, offset| {
        let mut config = gateway_config(me, other, to);
        config.peers[0].lanes[0].carrier = carrier;
        engine.add_gateway(name, NodeClock::new(Span::from_millis(offset), 20).unwrap(), config).unwrap()
    };
    let (a, b) = (node("a", 1, 2, at_b, 1), node("b", 2, 1, at_a, 2));
    let cable = CableConfig::symmetric(direction(1, 20, 20_000));
    let plug = |node, address| Plug { node, address: Some(address) };
    let line = engine.connect("line", cable, plug(a, at_a), plug(b, at_b)).unwrap();
    engine.listen(b, server());
    let flow = engine.add_flow(FlowSpec {
        node: a,
        peer: PeerId(0),
        source: SocketAddr::from(([10, 0, 0, 10], 40_000)),
        target: server(),
        work: Work::Download(Some(200_000)),
        start: secs(1),
        stop: None,
        source_rate: None,
        reader_pause: None,
    });
    let longest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = std::rc::Rc::clone(&longest);
    engine.set_tap(Box::new(move |crossing| seen.set(seen.get().max(crossing.packet.len()))));
    engine.run_until(secs(20));
    let log = engine.log(flow);
    assert_eq!((log.end.map(|(_, how)| how), log.damage, log.octets), (Some(FlowEnd::Complete), None, 200_000));
    assert_eq!((longest.get(), engine.dropped(a).len(), engine.dropped(b).len()), (256, 0, 0));
    assert!(engine.cable(line).counters(crate::common::Direction::Reverse).delivered.frames > 800);
}
