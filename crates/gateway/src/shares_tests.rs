//! A hub with two peers: whatever one of them does with its flows, the other keeps its share.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use super::*;
use std::collections::BTreeMap;
use wavelane_base::{
    Address, FlowId, FrameMeta, Instant, IpPrefix, Machine, Octets, PortId, Rate, ReadOutcome, Seed, Span, Streams,
};
use wavelane_wire::frame::{FlowName, Passage};

const DELAY: Span = Span::from_millis(10);
const RATE: Rate = Rate::from_bps(20_000_000);
const POOL: u64 = 64 << 20;

/// The address that node `n` sends to over `port`.
fn lane(node: usize, port: u16) -> Address {
    format!("192.0.2.{}:{}", node + 1, 4780 + port).parse().unwrap()
}

fn node(me: usize, flows_max: usize) -> Gateway {
    let everything: Vec<IpPrefix> = vec!["10.0.0.0/8".parse().unwrap()];
    let peer = |other: usize, port: u16, address| PeerConfig {
        name: format!("node-{other}"),
        public_key: wavelane_transport::session::public_key(&[other as u8 + 1; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(port), Some(address))],
        choice: crate::Choice::Bond,
        keepalive: None,
        allow_sources: Some(everything.clone()),
        allow_targets: everything.clone(),
        routes: Vec::new(),
    };
    let peers = match me {
        0 => vec![peer(1, 0, lane(1, 0)), peer(2, 1, lane(2, 0))],
        n => vec![peer(0, 0, lane(0, n as u16 - 1))],
    };
    let config =
        Config { private_key: [me as u8 + 1; 32], peers, pool: Octets::new(POOL), flows_max, ..Config::default() };
    Gateway::new(Instant::from_secs(1), config, 1, Seed(me as u64).entropy("hub")).unwrap()
}

/// A datagram in flight: destination node and port, and source address.
type Frame = (usize, u16, Address, Vec<u8>);

/// The hub is node 0. Nodes 1 and 2 open flows to it; it writes to each as much as it takes.
struct Hub {
    now: Instant,
    nodes: Vec<Gateway>,
    pipe: BTreeMap<(Instant, u64), Frame>,
    free: BTreeMap<(usize, u16), Instant>,
    sent: u64,
    /// Per node: flows refused and reset.
    lost: [usize; 3],
    /// The flow that node 2 reads.
    reads: Option<FlowId>,
    read: u64,
    block: Vec<u8>,
    /// The requests that the hub received.
    asked: usize,
}

impl Hub {
    fn new() -> Self {
        Self {
            now: Instant::from_secs(1),
            nodes: vec![node(0, 4_096), node(1, 20_000), node(2, 4_096)],
            pipe: BTreeMap::new(),
            free: BTreeMap::new(),
            sent: 0,
            lost: [0; 3],
            reads: None,
            read: 0,
            block: vec![7; 64 << 10],
            asked: 0,
        }
    }
    fn open(&mut self, node: usize) -> Option<FlowId> {
        let (source, target) = ("10.1.0.2:40000".parse().unwrap(), "10.3.0.2:80".parse().unwrap());
        self.nodes[node].open(self.now, PeerId(0), source, target).ok()
    }
    /// Node 1 asks for a flow with a hand-made request.
    fn claim(&mut self, token: u64, hops: u8, received: Option<u64>) -> FlowName {
        let (source, target) = ("10.1.0.2:40000".parse().unwrap(), "10.3.0.2:80".parse().unwrap());
        let mut passage = Passage { hops, received, ..Passage::default() };
        passage.token[..8].copy_from_slice(&token.to_be_bytes());
        let name = self.nodes[1].net.peers.blocks(PeerId(0)).open(self.now, source, target, Some(passage)).unwrap();
        self.nodes[1].settle_peer(self.now, PeerId(0));
        name
    }
    fn events(&mut self) {
        let now = self.now;
        for at in 0..3 {
            while let Some(event) = self.nodes[at].poll_event() {
                match event {
                    GatewayEvent::Incoming { flow, .. } => {
                        self.asked += usize::from(at == 0);
                        self.nodes[at].accept(now, flow);
                        while self.nodes[at].write(now, flow, &self.block) > 0 {}
                    }
                    GatewayEvent::Ending(flow) => self.nodes[at].reset(now, flow),
                    GatewayEvent::Writable(flow) if at == 0 => while self.nodes[0].write(now, flow, &self.block) > 0 {},
                    GatewayEvent::Refused(..) | GatewayEvent::Reset(..) => self.lost[at] += 1,
                    // Applications of node 1 send too; the hub's do not read it.
                    GatewayEvent::Accepted(flow) if at == 1 => {
                        self.nodes[1].write(now, flow, &self.block);
                    }
                    _ => {}
                }
            }
        }
        while let Some(flow) = self.reads
            && let ReadOutcome::Data(n) = self.nodes[2].read(now, flow, &mut [0; 16 << 10])
        {
            self.read += n as u64;
        }
    }
    fn transmit(&mut self) {
        let mut buf = [0; 2048];
        for (from, port, to) in [(0, 0, 1), (0, 1, 2), (1, 0, 0), (2, 0, 0)] {
            while self.free.get(&(from, port)).is_none_or(|at| *at <= self.now) {
                let out = self.nodes[from].poll_transmit(self.now, PortId(port), &mut buf, 1);
                let Some(out) = out else { break };
                let free = self.now + RATE.time_for(Octets::new(out.len as u64 + 28));
                self.free.insert((from, port), free);
                self.sent += 1;
                let to_port = if to == 0 { from as u16 - 1 } else { 0 };
                let datagram = (to, to_port, lane(from, port), buf[..out.len].to_vec());
                self.pipe.insert((free + DELAY, self.sent), datagram);
            }
        }
    }
    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.events();
            self.transmit();
            self.events();
            let timers = self.nodes.iter().filter_map(|n| n.poll_timeout().map(|w| w.at));
            let lanes = self.free.values().copied().filter(|at| *at > self.now);
            let arrivals = self.pipe.first_key_value().map(|((at, _), _)| *at);
            let next = timers.chain(lanes).chain(arrivals).min().unwrap_or(end);
            self.now = next.max(self.now + Span::from_nanos(1)).min(end);
            while let Some(entry) = self.pipe.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, port, from, mut bytes) = entry.remove();
                let meta = FrameMeta { rx_time: self.now, from: Some(from), ..FrameMeta::default() };
                self.nodes[to].handle_frame(self.now, PortId(port), &mut bytes, meta);
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
    }
    /// Octets that a download of node 2 transfers in `span`.
    fn download(&mut self, span: Span) -> u64 {
        self.reads = self.open(2);
        assert!(self.reads.is_some());
        self.run(span);
        self.read
    }
    fn counter(&self, node: usize, name: &str) -> u64 {
        self.nodes[node].status(self.now).counters.iter().find(|c| c.0 == name).map_or(0, |c| c.1)
    }
}

#[test]
fn ten_thousand_stalled_flows_leave_the_other_peer_its_share() {
    let time = Span::from_secs(8);
    let mut hub = Hub::new();
    hub.run(Span::from_secs(20));
    let alone = hub.download(time);
    let mut hub = Hub::new();
    for _ in 0..20 {
        for _ in 0..500 {
            hub.open(1).unwrap();
        }
        hub.run(Span::from_secs(1));
    }
    let status = hub.nodes[0].status(hub.now);
    // A quarter of the 4,096 places is guaranteed to the other.
    assert_eq!(status.flows, 3_072, "{} refused", hub.lost[1]);
    assert_eq!(hub.lost[1] as u64, hub.counter(0, "hop_refused_table_full") + hub.counter(0, "refused_flow_rate"));
    let floors = 3_072 * 2 * 4_096;
    assert!(status.buffered <= POOL * 3 / 4 + floors, "{} bytes of a pool of {POOL}", status.buffered);
    assert!(status.buffered >= 8 << 20, "the test must fill the pool: {} bytes", status.buffered);
    let beside = hub.download(time);
    println!("{beside} octets beside 10,000 flows, {alone} alone; {} bytes held", status.buffered);
    assert!(beside * 10 >= alone * 9, "{beside} octets beside 10,000 flows, {alone} alone");
}

#[test]
fn released_flows_are_free_for_another_peer() {
    let mut hub = Hub::new();
    hub.run(Span::from_secs(3));
    let theirs: Vec<FlowId> = (0..4_000).filter_map(|_| hub.open(1)).collect();
    hub.run(Span::from_secs(8));
    assert_eq!(hub.nodes[0].status(hub.now).flows, 3_072);
    for flow in theirs {
        hub.nodes[1].reset(hub.now, flow);
    }
    hub.run(Span::from_secs(8));
    assert_eq!(hub.nodes[0].status(hub.now).flows, 0);
    let opened = (0..4_000).filter_map(|_| hub.open(2)).count();
    assert_eq!(opened, 4_000);
    hub.run(Span::from_secs(8));
    assert_eq!(hub.nodes[0].status(hub.now).flows, 3_072);
}

#[test]
fn only_a_flow_that_is_known_is_taken_up_again_without_a_turn() {
    let mut hub = Hub::new();
    hub.run(Span::from_secs(3));
    for token in 0..2_000 {
        hub.claim(token, token as u8 % 3, Some(0));
    }
    hub.run(Span::from_secs(4));
    assert_eq!((hub.asked, hub.nodes[0].status(hub.now).flows), (0, 0));
}

#[test]
fn lost_flows_count_in_their_peers_share() {
    let mut hub = Hub::new();
    hub.run(Span::from_secs(3));
    for round in 0..8 {
        let names: Vec<FlowName> = (0..1_000).map(|n| hub.claim(round * 1_000 + n, 1, None)).collect();
        hub.run(Span::from_secs(4));
        for name in names {
            hub.nodes[1].net.peers.blocks(PeerId(0)).reset(name, Reason::Restarted);
        }
        hub.nodes[1].settle_peer(hub.now, PeerId(0));
        hub.run(Span::from_secs(4));
    }
    let kept = hub.nodes[0].status(hub.now).flows_lost_way;
    // All but the other's guarantee.
    assert_eq!(kept, 3_072, "of {} asked for", hub.asked);
    let opened = (0..1_500).filter_map(|_| hub.open(2)).count();
    hub.run(Span::from_secs(4));
    assert_eq!((opened, hub.lost[2]), (1_500, 1_500 - 1_024));
}
