//! The world most tests need: two gateways, one bad link, programs at both ends.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::{Address, Instant, Octets, PortId, Rate, Ratio, Seed, Span};
pub(crate) use wavelane_channel::cable::{Cause, Direction};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, Parameter, PerUnit, QueueLimit};
use wavelane_gateway::{Config, LaneConfig, PeerConfig, PeerId};
use wavelane_run::{Backend, RunContext, StackRaw};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::{ChannelId, Engine, FlowIndex, FlowSpec, NodeClock, NodeId, Plug, SimBackend, Work};
use wavelane_transport::session::public_key;

/// Two gateways joined by one cable. The client sits at `a`, the server at `b`, so downloads use `reverse`.
pub(crate) struct Pair {
    pub(crate) engine: Engine,
    pub(crate) a: NodeId,
    pub(crate) b: NodeId,
    pub(crate) air: ChannelId,
    flows: u16,
}

/// One stack of a scenario through the backend.
pub(crate) fn run_scenario(scenario: &Scenario, stack: Stack, seed: u64) -> StackRaw {
    let mut context = RunContext {
        out: Path::new("."),
        label: "test".to_owned(),
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut |_| {},
        cancelled: &AtomicBool::new(false),
    };
    SimBackend.run_stack(scenario, stack, Seed(seed), &mut context).unwrap()
}

pub(crate) fn address(text: &str) -> Address {
    text.parse().unwrap()
}

pub(crate) fn server() -> SocketAddr {
    "10.1.0.10:80".parse().unwrap()
}

pub(crate) fn secs(s: u64) -> Instant {
    Instant::from_secs(s)
}

pub(crate) fn millis(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// One direction with a rate, a one-way delay and a queue in bytes.
pub(crate) fn direction(mbit: u64, delay_ms: u64, queue: u64) -> DirectionConfig {
    DirectionConfig {
        rate: Some(Rate::from_bps(mbit * 1_000_000)),
        delay: Span::from_millis(delay_ms),
        queue: QueueLimit::Octets(Octets::new(queue)),
        ..DirectionConfig::default()
    }
}

/// The demo's link without its loss: 20 Mbit/s, 50 ms each way, 250 kB of queue.
pub(crate) fn clean_demo() -> CableConfig {
    CableConfig::symmetric(direction(20, 50, 250_000))
}

pub(crate) fn random_loss(numerator: u32, denominator: u32) -> LossConfig {
    LossConfig::Random { p: Ratio::new(numerator, denominator).unwrap() }
}

/// The demo's bursts.
pub(crate) fn bursts() -> LossConfig {
    LossConfig::GilbertElliott {
        good: Span::from_millis(570),
        bad: Span::from_millis(30),
        in_good: Ratio::ZERO,
        in_bad: Ratio::ONE,
        per: PerUnit::Packet,
    }
}

pub(crate) fn with_loss(mut config: CableConfig, loss: &LossConfig) -> CableConfig {
    config.forward.loss = loss.clone();
    config.reverse.loss = loss.clone();
    config
}

/// A gateway's configuration as `init` writes it: no rate, loss or delay is told.
pub(crate) fn gateway_config(me: u8, peer: u8, peer_address: Address) -> Config {
    Config {
        private_key: [me; 32],
        peers: vec![PeerConfig {
            name: format!("peer {peer}"),
            public_key: public_key(&[peer; 32]),
            preshared_key: None,
            lanes: vec![LaneConfig::new(PortId(0), Some(peer_address))],
            choice: wavelane_gateway::Choice::Bond,
            keepalive: None,
            allow_sources: None,
            allow_targets: vec!["10.0.0.0/8".parse().unwrap()],
            routes: Vec::new(),
        }],
        ..Config::default()
    }
}

impl Pair {
    pub(crate) fn new(seed: u64, cable: CableConfig) -> Self {
        // Clocks that disagree are the normal case; a test that wants perfect ones says so.
        let clocks =
            [NodeClock::new(Span::from_secs(1_000), 20).unwrap(), NodeClock::new(Span::from_millis(7), -20).unwrap()];
        Self::with_clocks(seed, cable, clocks)
    }

    pub(crate) fn with_clocks(seed: u64, cable: CableConfig, clocks: [NodeClock; 2]) -> Self {
        Self::tuned(seed, cable, clocks, |_| {})
    }

    /// Both gateways are set up as `tune` says.
    pub(crate) fn tuned(seed: u64, cable: CableConfig, clocks: [NodeClock; 2], tune: impl Fn(&mut Config)) -> Self {
        let tuned = |mut config: Config| {
            tune(&mut config);
            config
        };
        let mut engine = Engine::new(Seed(seed));
        let (at_a, at_b) = (address("192.0.2.1:51820"), address("192.0.2.2:51820"));
        let a = engine.add_gateway("a", clocks[0], tuned(gateway_config(1, 2, at_b))).unwrap();
        let b = engine.add_gateway("b", clocks[1], tuned(gateway_config(2, 1, at_a))).unwrap();
        let (near, far) = (Plug { node: a, address: Some(at_a) }, Plug { node: b, address: Some(at_b) });
        let air = engine.connect("air", cable, near, far).unwrap();
        engine.listen(b, server());
        Self { engine, a, b, air, flows: 0 }
    }

    pub(crate) fn spec(&mut self, work: Work, start: Instant) -> FlowSpec {
        self.flows += 1;
        FlowSpec {
            node: self.a,
            peer: PeerId(0),
            source: SocketAddr::from(([10, 0, 0, 10], 40_000 + self.flows)),
            target: server(),
            work,
            start,
            stop: None,
            source_rate: None,
            reader_pause: None,
        }
    }

    pub(crate) fn add(&mut self, work: Work, start: Instant) -> FlowIndex {
        let spec = self.spec(work, start);
        self.engine.add_flow(spec)
    }

    pub(crate) fn download(&mut self, size: u64) -> FlowIndex {
        self.add(Work::Download(Some(size)), Instant::ZERO)
    }

    pub(crate) fn echo(&mut self, during: FlowIndex) -> FlowIndex {
        let every = Span::from_millis(100);
        self.add(Work::Echo { every, random: false, size: 64, during: Some(during) }, Instant::ZERO)
    }

    /// Runs until every flow has ended; fails at `limit`.
    pub(crate) fn finish(&mut self, limit: Instant) {
        let unfinished = |e: &Engine| (0..e.flow_count()).any(|f| e.log(FlowIndex(f)).end.is_none());
        let done = self.engine.run_while(limit, Span::from_millis(100), unfinished);
        let states: Vec<_> = (0..self.engine.flow_count())
            .map(|f| self.engine.log(FlowIndex(f)))
            .map(|log| (log.octets, log.end, log.last_byte))
            .collect();
        assert!(done, "at {limit:?} flows still run: {states:?}; a: {:?}", self.engine.status(self.a));
    }

    pub(crate) fn assert_complete(&self, flow: FlowIndex) {
        let log = self.engine.log(flow);
        assert!(log.is_complete(), "flow {flow:?}: end {:?}, damage {:?}, {} bytes", log.end, log.damage, log.octets);
        assert_eq!(log.server_resets, 0, "flow {flow:?}: its server saw a reset");
    }

    pub(crate) fn set(&mut self, direction: Direction, parameter: Parameter) {
        self.engine.set(self.air, direction, parameter).unwrap();
    }

    pub(crate) fn set_both(&mut self, parameter: &Parameter) {
        for direction in Direction::BOTH {
            self.set(direction, parameter.clone());
        }
    }

    /// Both directions lose everything during `[from, to)`.
    pub(crate) fn outage(&mut self, from: Instant, to: Instant) {
        self.set_both(&Parameter::Outages(vec![(from, to)]));
    }

    /// Goodput of `flow` between two moments, in Mbit/s.
    pub(crate) fn mbit(&self, flow: FlowIndex, from: Instant, to: Instant) -> f64 {
        self.engine.log(flow).goodput_between(from, to).as_bps() as f64 / 1e6
    }

    /// How long a packet that arrives now at a direction's queue waits.
    pub(crate) fn queue_delay(&self, direction: Direction) -> Span {
        let cable = self.engine.cable(self.air);
        let held = cable.holding(direction);
        let octets = held.waiting.octets + held.in_service.octets;
        cable.config(direction).rate.map_or(Span::ZERO, |rate| rate.time_for(Octets::new(octets)))
    }
}
