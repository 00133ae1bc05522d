//! Two gateways joined by a small pipe: the owner's view. The swarm in `wavelane-sim` covers more.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use super::*;
use std::collections::VecDeque;
use std::net::SocketAddr;
use wavelane_base::{
    Address, FlowId, FrameMeta, Instant, Machine, Octets, PortId, Ratio, ReadOutcome, Seed, Span, Streams, Wakeup,
};
use wavelane_wire::datagram::UDP4_OVERHEAD;

const DELAY: Span = Span::from_millis(10);
impl Gateway {
    /// Settles a link that the test has changed.
    pub(crate) fn settle_peer(&mut self, now: Instant, peer: PeerId) {
        self.net.peers.touch(peer);
        self.settle(now);
    }
}

pub(super) const A: Address = at(1, 4780);
pub(super) const B: Address = at(2, 4780);
/// An allowed target behind B.
/// A port of a gateway.
pub(super) const fn at(node: u8, port: u16) -> Address {
    Address::Ip(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, node)), port))
}

pub(super) const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 3, 2)), 80);
pub(super) const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 2)), 40_000);

fn config(me: u8, peer: u8, address: Address) -> Config {
    let everything = vec!["10.0.0.0/8".parse().unwrap()];
    Config {
        private_key: [me; 32],
        peers: vec![PeerConfig {
            name: format!("peer-{peer}"),
            public_key: wavelane_transport::session::public_key(&[peer; 32]),
            preshared_key: None,
            lanes: vec![LaneConfig::new(PortId(0), Some(address))],
            choice: crate::Choice::Bond,
            keepalive: None,
            allow_sources: Some(everything.clone()),
            allow_targets: everything,
            routes: Vec::new(),
        }],
        ..Config::default()
    }
}

pub(super) fn gateway(now: Instant, me: u8, peer: u8, address: Address, epoch: u64) -> Gateway {
    let entropy = Seed(u64::from(me)).entropy(&format!("gateway {me} boot {epoch}"));
    Gateway::new(now, config(me, peer, address), epoch, entropy).unwrap()
}

/// Both gateways, the datagrams between them, and what they reported.
struct Pair {
    now: Instant,
    nodes: [Gateway; 2],
    pipe: VecDeque<(Instant, usize, Vec<u8>)>,
    events: [Vec<GatewayEvent>; 2],
    loss: Ratio,
    chance: wavelane_base::Chance,
    largest: usize,
    /// IP packets larger than this are dropped.
    path_mtu: usize,
}

impl Pair {
    fn new() -> Self {
        let now = Instant::from_secs(1);
        Self {
            now,
            nodes: [gateway(now, 1, 2, B, 1), gateway(now, 2, 1, A, 1)],
            pipe: VecDeque::new(),
            events: [Vec::new(), Vec::new()],
            loss: Ratio::ZERO,
            chance: Seed(1).chance("pair / loss"),
            largest: 0,
            path_mtu: usize::MAX,
        }
    }

    fn drain(&mut self) {
        let mut buf = [0; 2048];
        for side in 0..2 {
            while let Some(out) = self.nodes[side].poll_transmit(self.now, PortId(0), &mut buf, 1) {
                self.largest = self.largest.max(out.len);
                if !self.chance.happens(self.loss) && out.len + UDP4_OVERHEAD <= self.path_mtu {
                    self.pipe.push_back((self.now + DELAY, 1 - side, buf[..out.len].to_vec()));
                }
            }
            while let Some(event) = self.nodes[side].poll_event() {
                self.events[side].push(event);
            }
        }
    }

    /// Runs until `done` or for `limit`; returns whether it was done.
    fn run(&mut self, limit: Span, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.drain();
            if done(self) {
                self.drain();
                return true;
            }
            let deadlines = self.nodes.iter().filter_map(|node| node.poll_timeout().map(|w| w.at));
            let next = deadlines.chain(self.pipe.front().map(|f| f.0)).min().unwrap_or(end);
            if next >= end {
                self.now = end;
                return false;
            }
            self.now = next.max(self.now);
            while self.pipe.front().is_some_and(|f| f.0 <= self.now) {
                let (_, to, mut bytes) = self.pipe.pop_front().unwrap();
                let from = Some(if to == 0 { B } else { A });
                let meta = FrameMeta { rx_time: self.now, from, ..FrameMeta::default() };
                self.nodes[to].handle_frame(self.now, PortId(0), &mut bytes, meta);
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
    }

    fn saw(&self, side: usize, want: impl Fn(&GatewayEvent) -> bool) -> bool {
        self.events[side].iter().any(want)
    }

    /// Opens a flow from A to `target` and returns A's name for it.
    fn open(&mut self, target: SocketAddr) -> FlowId {
        self.nodes[0].open(self.now, PeerId(0), CLIENT, target).unwrap()
    }

    /// Opens a flow to the server and accepts it there: (A's name, B's name).
    fn connect(&mut self) -> (FlowId, FlowId) {
        let ours = self.open(SERVER);
        let mut theirs = None;
        let accepted = self.run(Span::from_secs(10), |pair| {
            if theirs.is_none()
                && let Some(GatewayEvent::Incoming { flow, .. }) =
                    pair.events[1].iter().find(|e| matches!(e, GatewayEvent::Incoming { .. })).cloned()
            {
                theirs = Some(flow);
                pair.nodes[1].accept(pair.now, flow);
            }
            pair.saw(0, |e| *e == GatewayEvent::Accepted(ours))
        });
        assert!(accepted, "not accepted: {:?}", self.events);
        (ours, theirs.unwrap())
    }

    fn read_all(&mut self, side: usize, flow: FlowId, into: &mut Vec<u8>) -> ReadOutcome {
        let mut buf = [0; 4096];
        loop {
            match self.nodes[side].read(self.now, flow, &mut buf) {
                ReadOutcome::Data(n) => into.extend(&buf[..n]),
                other => return other,
            }
        }
    }
}

#[test]
fn peers_connect_before_any_flow_despite_lost_handshakes() {
    let mut pair = Pair::new();
    pair.loss = Ratio::ONE;
    assert!(!pair.run(Span::from_secs(3), |pair| pair.saw(0, |e| matches!(e, GatewayEvent::PeerUp(_)))));
    pair.loss = Ratio::ZERO;
    let both = |pair: &mut Pair| (0..2).all(|side| pair.saw(side, |e| *e == GatewayEvent::PeerUp(PeerId(0))));
    assert!(pair.run(Span::from_secs(30), both), "{:?}", pair.events);
}

#[test]
fn a_flow_is_opened_carries_bytes_both_ways_and_closes() {
    let mut pair = Pair::new();
    let (ours, theirs) = pair.connect();
    assert_eq!(pair.nodes[0].write(pair.now, ours, b"question"), 8);
    pair.nodes[0].shutdown(pair.now, ours);
    let mut heard = Vec::new();
    assert!(pair.run(Span::from_secs(1), |p| p.read_all(1, theirs, &mut heard) == ReadOutcome::End));
    assert_eq!(heard, b"question");
    assert_eq!(pair.nodes[1].write(pair.now, theirs, b"answer"), 6);
    pair.nodes[1].shutdown(pair.now, theirs);
    let mut back = Vec::new();
    assert!(pair.run(Span::from_secs(1), |p| p.read_all(0, ours, &mut back) == ReadOutcome::End));
    assert_eq!(back, b"answer");
    let closed = |p: &mut Pair| {
        p.saw(0, |e| *e == GatewayEvent::Closed(ours)) && p.saw(1, |e| *e == GatewayEvent::Closed(theirs))
    };
    assert!(pair.run(Span::from_secs(2), closed), "{:?}", pair.events);
    assert_eq!(pair.nodes[0].status(pair.now).flows, 0);
}

#[test]
fn bulk_arrives_intact_within_the_path_mtu() {
    let mut pair = Pair::new();
    pair.loss = Ratio::new(1, 10).unwrap();
    let (ours, theirs) = pair.connect();
    let data: Vec<u8> = (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut written, mut heard, mut ended) = (0, Vec::new(), false);
    let done = pair.run(Span::from_secs(60), |p| {
        written += p.nodes[0].write(p.now, ours, &data[written..]);
        if written == data.len() && !ended {
            p.nodes[0].shutdown(p.now, ours);
            ended = true;
        }
        p.read_all(1, theirs, &mut heard) == ReadOutcome::End
    });
    assert!(done, "{} of {} octets after 60 s", heard.len(), data.len());
    assert!(heard == data);
    assert!(pair.largest + UDP4_OVERHEAD <= pair.nodes[0].config().mtu_max);
}

#[test]
fn refusals_and_forbidden_targets_say_why() {
    let mut pair = Pair::new();
    let refused = pair.open(SERVER);
    let forbidden = pair.open("203.0.113.1:80".parse().unwrap());
    let done = pair.run(Span::from_secs(5), |p| {
        let incoming = p.events[1].iter().find_map(|e| match e {
            GatewayEvent::Incoming { flow, target, .. } => Some((*flow, *target)),
            _ => None,
        });
        if let Some((flow, target)) = incoming {
            assert_eq!(target, SERVER, "a forbidden target must not reach the owner");
            p.nodes[1].refuse(p.now, flow, Reason::Unreachable);
            p.events[1].retain(|e| !matches!(e, GatewayEvent::Incoming { .. }));
        }
        p.saw(0, |e| *e == GatewayEvent::Refused(refused, Reason::Unreachable))
            && p.saw(0, |e| *e == GatewayEvent::Refused(forbidden, Reason::Prohibited))
    });
    assert!(done, "{:?}", pair.events);
    let status = pair.nodes[1].status(pair.now);
    let count = status.counters.iter().find(|c| c.0 == "dropped_target_not_allowed").unwrap().1;
    assert_eq!(count, 1);
}

#[test]
fn a_peer_that_lost_its_memory_resets_flows_and_never_ends_them() {
    let mut pair = Pair::new();
    let (ours, _) = pair.connect();
    pair.nodes[0].write(pair.now, ours, b"half a ques");
    pair.run(Span::from_secs(1), |_| false);
    pair.nodes[1] = gateway(pair.now, 2, 1, A, 2);
    pair.nodes[0].write(pair.now, ours, b"tion");
    let reset = |p: &mut Pair| p.saw(0, |e| *e == GatewayEvent::Reset(ours, Reason::Restarted));
    assert!(pair.run(Span::from_secs(10), reset), "{:?}", pair.events);
    assert_eq!(pair.nodes[0].read(pair.now, ours, &mut [0; 10]), ReadOutcome::Reset);
    // And the link works again.
    pair.events = [Vec::new(), Vec::new()];
    pair.connect();
}

#[path = "batch_tests.rs"]
mod batches;

#[path = "idle_tests.rs"]
mod idle;
#[path = "laws_tests.rs"]
mod laws;
#[path = "path_mtu_tests.rs"]
mod path_mtu;
#[path = "refusal_tests.rs"]
mod refusals;

#[path = "reload_tests.rs"]
mod reload;

#[path = "reach_tests.rs"]
mod reach;

#[path = "down_tests.rs"]
mod down;
