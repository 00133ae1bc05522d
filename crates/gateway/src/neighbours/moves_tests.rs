//! Two gateways over a link of 20 Mbit/s whose one end changes its address.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use crate::tests::{A, B, CLIENT, SERVER, at, gateway};
use crate::{Gateway, GatewayEvent, PeerId};
use std::collections::VecDeque;
use wavelane_base::{Address, FrameMeta, Instant, Machine, PortId, Rate, ReadOutcome, Span, Streams};

const RATE: Rate = Rate::from_bps(20_000_000);
const DELAY: Span = Span::from_millis(25);
/// Capacity of the bottleneck's queue.
const QUEUE: Span = Span::from_millis(100);

/// A sends to B, whose datagrams come from the address that `place` returns; if `strict`, what is sent to another address is
/// lost.
struct Moving {
    now: Instant,
    nodes: [Gateway; 2],
    pipe: VecDeque<(Instant, usize, Vec<u8>, Option<Address>)>,
    free: [Instant; 2],
    place: fn(Instant) -> Address,
    strict: bool,
    /// Octets that A sent, by whether to B's first host.
    sent: [u64; 2],
    read: u64,
    flow: Option<wavelane_base::FlowId>,
}

impl Moving {
    fn new(place: fn(Instant) -> Address, strict: bool) -> Self {
        let now = Instant::from_secs(1);
        Self {
            now,
            nodes: [gateway(now, 1, 2, B, 1), gateway(now, 2, 1, A, 1)],
            pipe: VecDeque::new(),
            free: [now; 2],
            place,
            strict,
            sent: [0; 2],
            read: 0,
            flow: None,
        }
    }

    fn drain(&mut self) {
        let mut buf = [0; 2048];
        for side in 0..2 {
            while let Some(out) = self.nodes[side].poll_transmit(self.now, PortId(0), &mut buf, 1) {
                let start = self.free[side].max(self.now);
                if side == 0 {
                    self.sent[usize::from(out.to.unwrap().ip() != B.ip())] += out.len as u64;
                }
                if start.since(self.now) < QUEUE {
                    self.free[side] = start + RATE.time_for(wavelane_base::Octets::new(out.len as u64 + 28));
                    self.pipe.push_back((self.free[side] + DELAY, 1 - side, buf[..out.len].to_vec(), out.to));
                }
            }
        }
        while let Some(event) = self.nodes[1].poll_event() {
            match event {
                GatewayEvent::Incoming { flow, .. } => self.nodes[1].accept(self.now, flow),
                GatewayEvent::Readable(flow) => {
                    while let ReadOutcome::Data(n) = self.nodes[1].read(self.now, flow, &mut [0; 4096]) {
                        self.read += n as u64;
                    }
                }
                _ => {}
            }
        }
        while self.nodes[0].poll_event().is_some() {}
        if let Some(flow) = self.flow {
            while self.nodes[0].write(self.now, flow, &[7; 8192]) > 0 {}
        }
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            self.drain();
            // Each direction is in order, both together are not.
            let next = self.pipe.iter().map(|f| f.0).min();
            let deadlines = self.nodes.iter().filter_map(|node| node.poll_timeout().map(|w| w.at));
            let next = deadlines.chain(next).min().unwrap_or(end);
            assert!(next > self.now || self.pipe.iter().any(|f| f.0 <= self.now), "a stale deadline");
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next;
            while let Some(place) = self.pipe.iter().position(|f| f.0 <= self.now) {
                let (_, side, mut bytes, to) = self.pipe.remove(place).unwrap();
                let here = (self.place)(self.now);
                if side == 1 && self.strict && to != Some(here) {
                    continue;
                }
                let from = Some(if side == 0 { here } else { A });
                let meta = FrameMeta { rx_time: self.now, from, ..FrameMeta::default() };
                self.nodes[side].handle_frame(self.now, PortId(0), &mut bytes, meta);
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
    }

    fn open(&mut self) {
        self.run(Span::from_millis(500));
        self.flow = Some(self.nodes[0].open(self.now, PeerId(0), CLIENT, SERVER).unwrap());
    }

    fn counter(&self, node: usize, name: &str) -> u64 {
        self.nodes[node].status(self.now).counters.iter().find(|c| c.0 == name).unwrap().1
    }
}

fn at_home(_: Instant) -> Address {
    B
}

fn two_ports(now: Instant) -> Address {
    at(2, 4780 + (now.as_nanos() / 20_000_000 % 2) as u16)
}

fn two_hosts(now: Instant) -> Address {
    if two_ports(now) == B { B } else { "198.51.100.7:4780".parse().unwrap() }
}

/// The other host for two seconds of four.
fn two_hosts_slowly(now: Instant) -> Address {
    if (now.as_nanos() / 2_000_000_000).is_multiple_of(2) { B } else { "198.51.100.7:4780".parse().unwrap() }
}

/// Octets delivered in ten seconds, and octets retransmitted.
fn ten_seconds(place: fn(Instant) -> Address) -> (u64, u64) {
    let mut moving = Moving::new(place, false);
    moving.open();
    moving.run(Span::from_secs(10));
    (moving.read, moving.counter(0, "repair_octets"))
}

#[test]
fn alternating_proven_addresses_are_cheap() {
    let (alone, repeats) = ten_seconds(at_home);
    assert!(alone > 20_000_000, "{alone}");
    for place in [two_ports, two_hosts, two_hosts_slowly] {
        let (read, again) = ten_seconds(place);
        assert!(read * 20 > alone * 19, "{read} octets of {alone}");
        assert!(again < repeats + 100_000, "{again} octets were sent again, {repeats} without a move");
    }
}

#[test]
fn a_moved_peer_is_followed_and_proves_its_address() {
    fn moves(now: Instant) -> Address {
        if now < Instant::from_secs(5) { B } else { "198.51.100.7:9".parse().unwrap() }
    }
    let mut moving = Moving::new(moves, true);
    moving.open();
    moving.run(Span::from_millis(3_500));
    let before = moving.read;
    moving.run(Span::from_secs(1));
    assert!(moving.read > before + 1_500_000, "{} octets in the second of the move", moving.read - before);
    let before = moving.read;
    moving.run(Span::from_secs(2));
    assert!(moving.read > before + 4_000_000, "{} octets in two seconds behind it", moving.read - before);
    assert_eq!(moving.counter(0, "addresses_unproven"), 0);
}

#[test]
fn an_unanswered_challenge_limits_to_three_times_received() {
    // From the fifth second on B's datagrams carry the source address of an uninvolved host.
    fn lies(now: Instant) -> Address {
        if now < Instant::from_secs(5) { B } else { "198.51.100.7:9".parse().unwrap() }
    }
    let mut moving = Moving::new(lies, false);
    moving.open();
    moving.run(Span::from_millis(3_500));
    // What A sends there is lost, and B, which spoofs the address, acknowledges nothing that it did not receive.
    let received = moving.counter(0, "datagrams_received");
    let mut octets = 0;
    let spoofed: Address = lies(Instant::from_secs(9));
    for _ in 0..4_000 {
        // Only B's datagrams are delivered, from the spoofed address; A's to that address are dropped.
        moving.drain();
        moving.now += Span::from_millis(1);
        while let Some(place) = moving.pipe.iter().position(|f| f.0 <= moving.now) {
            let (_, side, mut bytes, to) = moving.pipe.remove(place).unwrap();
            let (from, swallowed) = if side == 0 { (spoofed, false) } else { (A, to == Some(spoofed)) };
            if swallowed {
                continue;
            }
            octets += if side == 0 { bytes.len() as u64 } else { 0 };
            let meta = FrameMeta { rx_time: moving.now, from: Some(from), ..FrameMeta::default() };
            moving.nodes[side].handle_frame(moving.now, PortId(0), &mut bytes, meta);
        }
        moving.nodes.iter_mut().for_each(|node| node.handle_timeout(moving.now));
    }
    assert!(moving.counter(0, "datagrams_received") > received, "it went on calling");
    assert!(moving.sent[1] > 0 && moving.sent[1] <= 3 * octets, "{} octets for {octets}", moving.sent[1]);
    assert!(moving.counter(0, "addresses_unproven") > 0, "the proven address counts again");
}

#[test]
fn challenges_that_nobody_acknowledges_fill_no_memory() {
    use wavelane_base::Seed;
    use wavelane_transport::session::{PeerKeys, Sessions, SessionsConfig, Way, public_key};
    use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
    let now = Instant::from_secs(1);
    let mut hub = gateway(now, 1, 2, B, 1);
    let keys = PeerKeys {
        public_key: public_key(&[1; 32]),
        preshared_key: None,
        ways: vec![Way { port: PortId(0), address: Some(A), one_way: false }],
    };
    let config = SessionsConfig {
        private_key: [2; 32],
        boot_epoch: 1,
        aes: false,
        overhear: false,
        compress: false,
        log_keys: false,
        peers: vec![keys],
    };
    let mut bad = Sessions::new(now, config, Seed(7).entropy("bad"));
    bad.want(now, 0, true);
    let (mut buf, meta) = ([0; 2048], FrameMeta { rx_time: now, from: Some(B), ..FrameMeta::default() });
    while !bad.can_seal(now, 0) {
        while let Some(out) = bad.poll_handshake(now, PortId(0), &mut buf) {
            hub.handle_frame(now, PortId(0), &mut buf[..out.len], meta);
        }
        while let Some(out) = hub.poll_transmit(now, PortId(0), &mut buf, 1) {
            bad.handle_datagram(now, PortId(0), &mut buf[..out.len], Some(A));
        }
    }
    for n in 0..5_000_u64 {
        let mut w = wavelane_wire::Writer::new(&mut buf[DATA_HEADER_LEN..]);
        wavelane_wire::frame::Frame::PathChallenge(n.to_be_bytes()).emit(&mut w).unwrap();
        let len = w.len();
        let sealed = bad.seal(now, 0, 0, n, &mut buf[..DATA_HEADER_LEN + len + TAG_LEN], len).unwrap();
        hub.handle_frame(now, PortId(0), &mut buf[..sealed], meta);
        while hub.poll_transmit(now, PortId(0), &mut buf, 1).is_some() {}
    }
    let in_flight = hub.status(now).peers[0].in_flight;
    assert!(in_flight < 128 << 10, "{in_flight}");
}
