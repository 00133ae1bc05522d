//! Chains of gateways: flows that pass relays.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

mod claims;
mod deaths;
mod ends;
mod overheard;
mod sealed;

use super::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wavelane_base::{
    Address, Chance, FlowId, FrameMeta, Instant, IpPrefix, LinkAcks, Machine, Octets, PortId, Radio, Rate, Ratio,
    ReadOutcome, Seed, Span, Streams,
};
use wavelane_wire::frame::Passage;

/// One way, each hop.
const DELAY: Span = Span::from_millis(10);
/// Of each hop and direction.
const RATE: Rate = Rate::from_bps(20_000_000);
/// Capacity of a hop's buffer.
const QUEUE: Span = Span::from_millis(100);
const CLIENT: &str = "10.0.0.2:40000";

/// Instead of a port: what arrives was for the node before, which port 0 leads to.
const OVERHEARD: u16 = u16::MAX;

/// The network behind node `n`.
fn behind(n: usize) -> IpPrefix {
    format!("10.{n}.0.0/16").parse().unwrap()
}

fn server(n: usize) -> SocketAddr {
    format!("10.{n}.0.9:80").parse().unwrap()
}

/// The lane address of `node` towards its neighbour on side 0 (before it) or 1 (after it).
fn lane(node: usize, side: u16) -> Address {
    format!("192.0.2.{}:{}", node + 1, 4780 + side).parse().unwrap()
}

/// Node `me` of a chain of `count`: port 0 leads back, port 1 on.
fn config(me: usize, count: usize, pool: u64) -> Config {
    let peer = |other: usize, port: u16, routes: Vec<IpPrefix>| PeerConfig {
        name: format!("node-{other}"),
        public_key: wavelane_transport::session::public_key(&[other as u8 + 1; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(port), Some(lane(other, 1 - port)))],
        choice: crate::Choice::Bond,
        keepalive: None,
        allow_sources: None,
        allow_targets: vec!["10.0.0.0/8".parse().unwrap()],
        routes,
    };
    let mut peers = Vec::new();
    if me > 0 {
        peers.push(peer(me - 1, 0, (0..me).map(behind).collect()));
    }
    if me + 1 < count {
        peers.push(peer(me + 1, 1, (me + 1..count).map(behind).collect()));
    }
    Config { private_key: [me as u8 + 1; 32], peers, pool: Octets::new(pool), ..Config::default() }
}

/// Node `n` in the other nodes' configuration.
fn edge(n: usize) -> EdgeConfig {
    let public_key = wavelane_transport::session::public_key(&[n as u8 + 1; 32]);
    EdgeConfig { name: format!("node-{n}"), public_key, routes: vec![behind(n)] }
}

/// One application's side of a conversation: what it sends, what it has read.
#[derive(Default)]
struct Talk {
    flow: Option<FlowId>,
    data: Vec<u8>,
    written: usize,
    shut: bool,
    heard: Vec<u8>,
    end: bool,
    /// Does not read before this.
    reads_from: Instant,
    fate: Option<GatewayEvent>,
}

impl Talk {
    fn says(data: Vec<u8>) -> Self {
        Self { data, ..Self::default() }
    }
    fn act(&mut self, now: Instant, node: &mut Gateway) {
        let Some(flow) = self.flow.filter(|_| self.fate.is_none()) else { return };
        self.written += node.write(now, flow, &self.data[self.written..]);
        if self.written == self.data.len() && !self.shut {
            node.shutdown(now, flow);
            self.shut = true;
        }
        let mut buf = [0; 4096];
        while now >= self.reads_from && !self.end {
            match node.read(now, flow, &mut buf) {
                ReadOutcome::Data(n) => self.heard.extend(&buf[..n]),
                ReadOutcome::End => self.end = true,
                ReadOutcome::Blocked | ReadOutcome::Reset => break,
            }
        }
    }
}

/// A datagram in flight: destination node and port, and source address.
type Frame = (usize, u16, Address, Vec<u8>);

/// A chain, with a client program at the first node and servers at the last.
struct Chain {
    now: Instant,
    nodes: Vec<Option<Gateway>>,
    epochs: Vec<u64>,
    pool: u64,
    /// Which nodes seal.
    seals: Vec<bool>,
    pipe: BTreeMap<(Instant, u64), Frame>,
    /// When each hop's transmitter is free: (from, port).
    free: BTreeMap<(usize, u16), Instant>,
    sent: u64,
    loss: Ratio,
    chance: Chance,
    clients: Vec<Talk>,
    servers: Vec<Talk>,
    /// Lanes are radios, and what the first node sends to the second is overheard by the third with this probability.
    overhears: Option<Ratio>,
    /// What the next servers send, in order of incoming flows.
    answers: Vec<Vec<u8>>,
    incoming: usize,
    /// The reason with which every incoming flow is refused, if any.
    refuses: Option<Reason>,
}

impl Chain {
    fn new(count: usize, seed: u64) -> Self {
        let mut chain = Self {
            now: Instant::from_secs(1),
            nodes: (0..count).map(|_| None).collect(),
            epochs: vec![0; count],
            pool: 8 << 20,
            seals: vec![false; count],
            pipe: BTreeMap::new(),
            free: BTreeMap::new(),
            sent: 0,
            loss: Ratio::ZERO,
            chance: Seed(seed).chance("chain / loss"),
            clients: Vec::new(),
            servers: Vec::new(),
            answers: Vec::new(),
            incoming: 0,
            refuses: None,
            overhears: None,
        };
        (0..count).for_each(|node| chain.boot(node));
        chain
    }

    /// Starts a node without any state.
    fn boot(&mut self, node: usize) {
        self.epochs[node] += 1;
        let epoch = self.epochs[node];
        let entropy = Seed(7).entropy(&format!("node {node} boot {epoch}"));
        let mut config = config(node, self.nodes.len(), self.pool);
        config.seal = self.seals[node];
        if self.overhears.is_some() {
            config.overhear = true;
            let lanes = config.peers.iter_mut().flat_map(|peer| &mut peer.lanes);
            lanes.for_each(|lane| lane.carrier.radio = Some(Radio { rate: RATE, cell: 0, acks: LinkAcks::Never }));
        }
        config.edges = (0..self.nodes.len()).filter(|other| *other != node).map(edge).collect();
        self.nodes[node] = Some(Gateway::new(self.now, config, epoch, entropy).unwrap());
    }

    fn node(&mut self, node: usize) -> &mut Gateway {
        self.nodes[node].as_mut().unwrap()
    }

    /// Opens a flow from the first node to a server behind the last, with the data that each sends.
    fn talk(&mut self, question: Vec<u8>, answer: Vec<u8>) -> usize {
        let (now, target) = (self.now, server(self.nodes.len() - 1));
        let mut client = Talk::says(question);
        client.flow = Some(self.node(0).open(now, PeerId(0), CLIENT.parse().unwrap(), target).unwrap());
        self.clients.push(client);
        self.answers.push(answer);
        self.clients.len() - 1
    }

    fn events(&mut self, node: usize) {
        let now = self.now;
        while let Some(event) = self.nodes[node].as_mut().and_then(Gateway::poll_event) {
            let (flow, fate) = match event {
                GatewayEvent::Incoming { flow, .. } if self.refuses.is_some() => {
                    self.incoming += 1;
                    let why = self.refuses.unwrap();
                    self.node(node).refuse(now, flow, why);
                    continue;
                }
                GatewayEvent::Incoming { flow, .. } => {
                    let mut talk = Talk::says(self.answers[self.incoming].clone());
                    self.incoming += 1;
                    talk.flow = Some(flow);
                    self.node(node).accept(now, flow);
                    self.servers.push(talk);
                    continue;
                }
                GatewayEvent::Closed(flow) | GatewayEvent::Refused(flow, _) | GatewayEvent::Reset(flow, _) => {
                    (flow, event)
                }
                _ => continue,
            };
            let talks = if node == 0 { &mut self.clients } else { &mut self.servers };
            let talk = talks.iter_mut().find(|talk| talk.flow == Some(flow)).unwrap();
            assert!(talk.fate.is_none(), "{:?} and then {fate:?}", talk.fate);
            talk.fate = Some(fate);
        }
    }

    fn drain(&mut self) {
        let mut buf = [0; 2048];
        let last = self.nodes.len() - 1;
        for node in 0..=last {
            loop {
                self.events(node);
                let talks = match node {
                    0 => &mut self.clients,
                    n if n == last => &mut self.servers,
                    _ => break,
                };
                let Some(gateway) = &mut self.nodes[node] else { break };
                let before: usize = talks.iter().map(|t| t.written + t.heard.len() + usize::from(t.end)).sum();
                talks.iter_mut().for_each(|talk| talk.act(self.now, gateway));
                if before == talks.iter().map(|t| t.written + t.heard.len() + usize::from(t.end)).sum::<usize>() {
                    break;
                }
            }
            for port in 0..2 {
                let Some(gateway) = &mut self.nodes[node] else { break };
                while let Some(out) = gateway.poll_transmit(self.now, PortId(port), &mut buf, 1) {
                    self.sent += 1;
                    let to = if port == 0 { node.wrapping_sub(1) } else { node + 1 };
                    let free = self.free.entry((node, port)).or_default();
                    let starts = self.now.max(*free);
                    if starts.since(self.now) > QUEUE {
                        continue;
                    }
                    *free = starts + RATE.time_for(Octets::new(out.len as u64));
                    if (node, port) == (0, 1) && self.overhears.is_some_and(|p| self.chance.happens(p)) {
                        let frame = (2, OVERHEARD, lane(node, port), buf[..out.len].to_vec());
                        self.pipe.insert((*free + DELAY, self.sent | 1 << 63), frame);
                    }
                    if to <= last && !self.chance.happens(self.loss) {
                        let frame = (to, 1 - port, lane(node, port), buf[..out.len].to_vec());
                        self.pipe.insert((*free + DELAY, self.sent), frame);
                    }
                }
            }
            self.events(node);
        }
    }

    fn run(&mut self, limit: Span, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.drain();
            if done(self) {
                return true;
            }
            let deadlines = self.nodes.iter().flatten().filter_map(|node| node.poll_timeout().map(|w| w.at));
            let waits = self.clients.iter().chain(&self.servers).map(|t| t.reads_from).filter(|at| *at > self.now);
            let frames = self.pipe.first_key_value().map(|(key, _)| key.0);
            let next = deadlines.chain(waits).chain(frames).min().unwrap_or(end);
            if next >= end {
                self.now = end;
                return false;
            }
            self.now = next.max(self.now);
            while self.pipe.first_key_value().is_some_and(|(key, _)| key.0 <= self.now) {
                let (_, (to, port, from, mut bytes)) = self.pipe.pop_first().unwrap();
                let meta = FrameMeta { rx_time: self.now, from: Some(from), ..FrameMeta::default() };
                if let (Some(node), OVERHEARD) = (&mut self.nodes[to], port) {
                    node.overhear(self.now, PortId(0), 0, &bytes);
                } else if let Some(node) = &mut self.nodes[to] {
                    node.handle_frame(self.now, PortId(port), &mut bytes, meta);
                }
            }
            let now = self.now;
            self.nodes.iter_mut().flatten().for_each(|node| node.handle_timeout(now));
        }
    }

    fn all_closed(&mut self) -> bool {
        let closed = |talk: &Talk| matches!(talk.fate, Some(GatewayEvent::Closed(_)));
        self.servers.len() == self.clients.len() && self.clients.iter().all(closed) && self.servers.iter().all(closed)
    }

    /// Every byte arrived, in order and once, and no state remains.
    fn check_complete(&mut self) {
        let fates: Vec<_> = self.clients.iter().chain(&self.servers).map(|t| (&t.fate, t.heard.len())).collect();
        assert!(fates.iter().all(|f| matches!(f.0, Some(GatewayEvent::Closed(_)))), "{fates:?}");
        for (client, server) in self.clients.iter().zip(&self.servers) {
            assert!(client.data == server.heard, "{} of {} octets", server.heard.len(), client.data.len());
            assert!(server.data == client.heard, "{} of {} octets", client.heard.len(), server.data.len());
        }
        self.run(Span::from_secs(5), |_| false);
        for node in self.nodes.iter().flatten() {
            let status = node.status(self.now);
            assert_eq!((status.flows, status.flows_relayed, status.buffered), (0, 0, 0), "{:?}", status.counters);
        }
    }

    fn count(&self, node: usize, name: &str) -> u64 {
        let status = self.nodes[node].as_ref().unwrap().status(self.now);
        status.counters.iter().find(|c| c.0 == name).unwrap().1
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut chance = Seed(seed).chance("noise");
    (0..len).map(|_| chance.next_u64() as u8).collect()
}

#[test]
fn flows_pass_two_relays_intact_under_loss() {
    let mut chain = Chain::new(4, 1);
    chain.loss = Ratio::new(1, 20).unwrap();
    chain.talk(noise(1, 1_000_000), noise(2, 300_000));
    chain.talk(b"hello".to_vec(), Vec::new());
    chain.talk(Vec::new(), b"banner".to_vec());
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
    assert_eq!(chain.count(1, "flows_relayed"), 3);
    assert_eq!(chain.count(0, "flows_resumed"), 0);
}

#[test]
fn the_first_bytes_cross_a_relay_long_before_the_last_have_left() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 2_000_000), Vec::new());
    assert!(chain.run(Span::from_secs(10), |c| c.servers.first().is_some_and(|s| !s.heard.is_empty())));
    assert!(chain.clients[0].written < 1_000_000, "cut-through, not store and forward");
}

#[test]
fn a_stopped_reader_does_not_block_the_other_direction() {
    let mut chain = Chain::new(3, 1);
    chain.pool = 2 << 20;
    (0..3).for_each(|node| chain.boot(node));
    chain.talk(noise(1, 3_000_000), noise(2, 3_000_000));
    chain.clients[0].reads_from = chain.now + Span::from_secs(600);
    // 3 MB exceed what the chain can hold.
    let all_heard = |c: &mut Chain| c.servers.first().is_some_and(|s| s.end);
    assert!(chain.run(Span::from_secs(60), all_heard), "{}", chain.servers[0].heard.len());
    assert!(chain.servers[0].written < 3_000_000, "the silent reader holds its own direction");
    for node in chain.nodes.iter().flatten() {
        assert!(node.status(chain.now).buffered <= 2 << 20);
    }
    chain.clients[0].reads_from = chain.now;
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
}

#[test]
fn resuming_a_flow_requires_its_token() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 3_000_000), noise(2, 10));
    chain.run(Span::from_millis(300), |_| false);
    let (now, target) = (chain.now, server(2));
    let stolen = Passage { hops: 1, received: Some(0), ..Passage::default() };
    let relay = chain.nodes[1].as_mut().unwrap();
    let name = relay.net.peers.blocks(PeerId(1)).open(now, CLIENT.parse().unwrap(), target, Some(stolen)).unwrap();
    chain.run(Span::from_secs(2), |_| false);
    let relay = chain.nodes[1].as_mut().unwrap();
    assert_eq!(
        relay.net.peers.blocks(PeerId(1)).read(chain.now, name, &mut [0; 10]),
        ReadOutcome::Reset,
        "it was refused"
    );
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
}

#[test]
fn a_next_hop_that_always_refuses_is_asked_a_bounded_number_of_times() {
    let mut chain = Chain::new(3, 1);
    chain.refuses = Some(Reason::Corrupted);
    let (now, target) = (chain.now, server(2));
    let asked = Passage { token: [1; 16], hops: 1, ..Passage::default() };
    let name =
        chain.node(0).net.peers.blocks(PeerId(0)).open(now, CLIENT.parse().unwrap(), target, Some(asked)).unwrap();
    chain.run(Span::from_secs(10), |_| false);
    let now = chain.now;
    assert_eq!(chain.node(0).net.peers.blocks(PeerId(0)).read(now, name, &mut [0; 10]), ReadOutcome::Reset);
    assert!((1..=16).contains(&chain.incoming), "{}", chain.incoming);
}

#[test]
fn a_way_longer_than_the_hop_limit_is_refused_as_a_loop() {
    let mut chain = Chain::new(3, 1);
    let (now, target) = (chain.now, server(2));
    let worn = Passage { token: [1; 16], hops: HOPS_MAX, ..Passage::default() };
    let name =
        chain.node(0).net.peers.blocks(PeerId(0)).open(now, CLIENT.parse().unwrap(), target, Some(worn)).unwrap();
    chain.run(Span::from_secs(2), |_| false);
    let now = chain.now;
    assert_eq!(chain.node(0).net.peers.blocks(PeerId(0)).read(now, name, &mut [0; 10]), ReadOutcome::Reset);
    assert_eq!((chain.count(1, "refused_relay_loop"), chain.incoming), (1, 0));
}
