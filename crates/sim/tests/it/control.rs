//! The controller on changing, shallow, policed and shared links, and on clocks that drift.

use crate::common::{Cause, Direction, Pair, address, clean_demo, direction, gateway_config, millis, secs, server};
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Instant, Octets, Rate, Seed, Span};
use wavelane_channel::{CableConfig, DirectionConfig, Parameter, Policer};
use wavelane_gateway::PeerId;
use wavelane_sim::{ChannelId, Engine, FlowIndex, FlowSpec, NodeClock, Plug, Work};

/// Downloads use the cable's reverse direction.
const DATA: Direction = Direction::Reverse;

/// A download that never ends, from the start.
fn endless(pair: &mut Pair) -> FlowIndex {
    pair.add(Work::Download(None), Instant::ZERO)
}

fn mbit(rate: u64) -> Parameter {
    Parameter::Rate(Some(Rate::from_bps(rate * 1_000_000)))
}

/// The smallest queueing delay in each window of 200 ms between two moments: what stands, not what passes.
fn standing_queue(pair: &mut Pair, from: Instant, to: Instant) -> Span {
    let mut worst = Span::ZERO;
    let mut window_end = from;
    while window_end < to {
        let mut least = Span::MAX;
        for _ in 0..40 {
            window_end += Span::from_millis(5);
            pair.engine.run_until(window_end);
            least = least.min(pair.queue_delay(DATA));
        }
        worst = worst.max(least);
    }
    worst
}

#[test]
fn a_rate_step_down_and_up_is_followed() {
    let mut pair = Pair::new(21, clean_demo());
    let down = endless(&mut pair);
    pair.engine.run_until(secs(5));
    pair.set(DATA, mbit(2));
    pair.engine.run_until(secs(6));
    let standing = standing_queue(&mut pair, secs(6), secs(15));
    assert!(standing <= Span::from_millis(100), "1 s after the step down {standing} of queue stand");
    let slow = pair.mbit(down, secs(8), secs(15));
    assert!((0.8 * 2.0..=2.0).contains(&slow), "{slow:.2} of 2 Mbit/s");
    pair.set(DATA, mbit(20));
    pair.engine.run_until(secs(22));
    let fast = pair.mbit(down, secs(18), secs(22));
    assert!((0.8 * 20.0..=20.0).contains(&fast), "3 s after the step up {fast:.2} of 20 Mbit/s");
}

#[test]
fn a_longer_path_is_not_taken_for_a_queue() {
    let mut pair = Pair::new(22, clean_demo());
    let down = endless(&mut pair);
    pair.engine.run_until(secs(5));
    pair.set(DATA, Parameter::Delay(Span::from_millis(80)));
    pair.engine.run_until(secs(20));
    let after = pair.mbit(down, secs(5), secs(20));
    assert!(after >= 0.8 * 20.0, "{after:.2} of 20 Mbit/s after 30 ms more of base delay");
}

#[test]
fn jitter_is_not_taken_for_a_queue() {
    let mut pair = Pair::new(23, clean_demo());
    pair.set_both(&Parameter::Jitter(Span::from_millis(20)));
    let down = endless(&mut pair);
    pair.engine.run_until(secs(18));
    let goodput = pair.mbit(down, secs(3), secs(18));
    assert!(goodput >= 0.8 * 20.0, "{goodput:.2} of 20 Mbit/s under 20 ms of jitter");
}

/// Share of the packets offered towards the client that the bottleneck threw away.
fn dropped_share(pair: &Pair) -> f64 {
    let counters = pair.engine.cable(pair.air).counters(DATA);
    let dropped = counters.dropped(Cause::Queue).frames + counters.dropped(Cause::Policer).frames;
    dropped as f64 / counters.offered.frames as f64
}

#[test]
fn a_10_ms_queue_drops_at_most_5_percent() {
    let mut pair = Pair::new(24, CableConfig::symmetric(direction(20, 50, 25_000)));
    let down = endless(&mut pair);
    pair.engine.run_until(secs(20));
    let (share, goodput) = (dropped_share(&pair), pair.mbit(down, secs(5), secs(20)));
    assert!(share <= 0.05, "{:.2} % dropped", share * 100.0);
    assert!(goodput >= 0.5 * 20.0, "{goodput:.2} of 20 Mbit/s: few drops because little was sent");
}

#[test]
fn a_bare_policer_drops_at_most_5_percent() {
    let policer = Some(Policer { rate: Rate::from_bps(20_000_000), burst: Octets::new(25_000) });
    let config = DirectionConfig { rate: None, policer, ..direction(20, 50, 0) };
    let mut pair = Pair::new(25, CableConfig::symmetric(config));
    let down = endless(&mut pair);
    pair.engine.run_until(secs(20));
    let (share, goodput) = (dropped_share(&pair), pair.mbit(down, secs(5), secs(20)));
    assert!(share <= 0.05, "{:.2} % dropped", share * 100.0);
    assert!(goodput >= 0.5 * 20.0, "{goodput:.2} of 20 Mbit/s: few drops because little was sent");
}

/// Two gateway pairs, one bottleneck between two routers; the second pair starts five seconds later.
fn shared_bottleneck(seed: u64) -> (Engine, ChannelId, [FlowIndex; 2]) {
    let mut engine = Engine::new(Seed(seed));
    let (left, right) = (engine.add_router("left"), engine.add_router("right"));
    let plug = |node| Plug { node, address: None };
    let bottleneck = engine.connect("air", clean_demo(), plug(left), plug(right)).unwrap();
    let mut flows = Vec::new();
    for pair in 1..=2u8 {
        let (at_a, at_b) = (address(&format!("192.0.2.{pair}:51820")), address(&format!("198.51.100.{pair}:51820")));
        let (key_a, key_b) = (pair, pair + 100);
        let clock = NodeClock::new(Span::from_secs(u64::from(pair)), i32::from(pair) * 10).unwrap();
        let a = engine.add_gateway(&format!("a{pair}"), clock, gateway_config(key_a, key_b, at_b)).unwrap();
        let b = engine.add_gateway(&format!("b{pair}"), clock, gateway_config(key_b, key_a, at_a)).unwrap();
        let fast = || CableConfig::symmetric(direction(1000, 0, 1_000_000));
        let near = Plug { node: a, address: Some(at_a) };
        let wire_a = engine.connect(&format!("wire a{pair}"), fast(), near, plug(left)).unwrap();
        let far = Plug { node: b, address: Some(at_b) };
        let wire_b = engine.connect(&format!("wire b{pair}"), fast(), plug(right), far).unwrap();
        let (ip_a, ip_b) = (Ipv4Addr::new(192, 0, 2, pair), Ipv4Addr::new(198, 51, 100, pair));
        engine.route(left, ip_a, wire_a);
        engine.route(left, ip_b, bottleneck);
        engine.route(right, ip_a, bottleneck);
        engine.route(right, ip_b, wire_b);
        engine.listen(b, server());
        flows.push(engine.add_flow(FlowSpec {
            node: a,
            peer: PeerId(0),
            source: SocketAddr::from(([10, 0, 0, pair], 40_000)),
            target: server(),
            work: Work::Download(None),
            start: secs(5 * (u64::from(pair) - 1)),
            stop: None,
            source_rate: None,
            reader_pause: None,
        }));
    }
    (engine, bottleneck, [flows[0], flows[1]])
}

#[test]
fn two_links_share_a_bottleneck_fairly() {
    for seed in [26, 27] {
        let (mut engine, bottleneck, flows) = shared_bottleneck(seed);
        engine.run_until(secs(60));
        let shares = flows.map(|f| engine.log(f).goodput_between(secs(20), secs(60)).as_bps() as f64 / 1e6);
        let (sum, squares) = (shares[0] + shares[1], shares[0].powi(2) + shares[1].powi(2));
        let jain = sum * sum / (2.0 * squares);
        assert!(jain >= 0.9, "seed {seed}: {shares:.2?} Mbit/s, Jain {jain:.3}");
        assert!(sum >= 0.8 * 20.0, "seed {seed}: together only {sum:.2} of 20 Mbit/s");
        let counters = engine.cable(bottleneck).counters(DATA);
        assert!(counters.dropped(Cause::Queue).frames * 20 <= counters.offered.frames, "more than 5 % dropped");
    }
}

/// (goodput in bit/s, packets the link dropped, longest wait in its queue after the first 10 s were over).
fn ten_minutes(drift_ppm: [i32; 2]) -> (f64, u64, Span) {
    let clocks = drift_ppm.map(|ppm| NodeClock::new(Span::from_secs(3), ppm).unwrap());
    let mut pair = Pair::with_clocks(28, CableConfig::symmetric(direction(4, 50, 50_000)), clocks);
    let down = endless(&mut pair);
    let mut worst = Span::ZERO;
    for ms in (10_000..=600_000).step_by(50) {
        pair.engine.run_until(millis(ms));
        worst = worst.max(pair.queue_delay(DATA));
    }
    let counters = pair.engine.cable(pair.air).counters(DATA);
    let goodput = pair.engine.log(down).goodput_between(secs(10), secs(600)).as_bps() as f64;
    (goodput, counters.dropped_total().frames, worst)
}

#[test]
fn fifty_ppm_of_drift_over_ten_minutes_change_nothing() {
    let (still, still_dropped, still_queue) = ten_minutes([0, 0]);
    for drift in [[50, 0], [-50, 0]] {
        let (drifting, dropped, queue) = ten_minutes(drift);
        let ratio = drifting / still;
        assert!((ratio - 1.0).abs() <= 0.01, "{drift:?} ppm: {drifting:.0} instead of {still:.0} bit/s");
        assert!(dropped <= still_dropped + 5, "{drift:?} ppm: {dropped} instead of {still_dropped} packets dropped");
        // 50 ppm over ten minutes are 30 ms: a controller that takes drift for delay would let a queue grow by that.
        assert!(queue <= still_queue + Span::from_millis(15), "{drift:?} ppm: queue {queue} instead of {still_queue}");
    }
}
