//! Two nodes and a network between them, for tests.

use super::*;
use std::collections::BTreeMap;
use wavelane_base::{Address, Entropy, Instant, Seed};
use wavelane_wire::datagram::{DATA_HEADER_LEN, HANDSHAKE_MAX, OPEN_LEN_LEN, TAG_LEN};

pub(super) const PORT: PortId = PortId(0);

pub(super) fn address(node: usize) -> Address {
    at([10, 0, 0, node as u8 + 1], 4000)
}

/// A port of a host.
pub(super) fn at(host: [u8; 4], port: u16) -> Address {
    Address::Ip((host, port).into())
}

pub(super) fn private_key(node: usize) -> [u8; 32] {
    let mut key = [0; 32];
    Seed(1).entropy(&format!("static {node}")).fill(&mut key);
    key
}

pub(super) fn way(to: usize) -> Way {
    Way { port: PORT, address: Some(address(to)), one_way: false }
}

pub(super) fn config(node: usize, epoch: u64) -> SessionsConfig {
    SessionsConfig {
        overhear: false,
        compress: false,
        log_keys: false,
        private_key: private_key(node),
        boot_epoch: epoch,
        aes: true,
        peers: vec![PeerKeys {
            public_key: public_key(&private_key(1 - node)),
            preshared_key: None,
            ways: vec![way(1 - node)],
        }],
    }
}

pub(super) fn entropy(node: usize, seed: u64) -> Entropy {
    Seed(seed).entropy(&format!("node {node}"))
}

/// A node and its owner: confirms sessions with an empty datagram, follows addresses by the rule.
pub(super) struct Node {
    pub(super) sessions: Sessions,
    pub(super) next_number: u64,
    /// What arrived: (lane, number, plaintext).
    pub(super) got: Vec<(u8, u64, Vec<u8>)>,
    pub(super) established: Vec<Established>,
    pub(super) events: Vec<SessionEvent>,
    pub(super) drops: Vec<DropReason>,
}

impl Node {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self {
            sessions,
            next_number: 0,
            got: Vec::new(),
            established: Vec::new(),
            events: Vec::new(),
            drops: Vec::new(),
        }
    }
    pub(super) fn seal(&mut self, now: Instant, plain: &[u8]) -> Option<Vec<u8>> {
        let mut buf = vec![0; DATA_HEADER_LEN + plain.len() + TAG_LEN];
        buf[DATA_HEADER_LEN..DATA_HEADER_LEN + plain.len()].copy_from_slice(plain);
        let len = self.sessions.seal(now, 0, 0, self.next_number, &mut buf, plain.len())?;
        self.next_number += 1;
        assert_eq!(len, buf.len());
        Some(buf)
    }
    /// The same with the last `open` octets left open, if the peer takes that.
    pub(super) fn seal_partly(&mut self, now: Instant, plain: &[u8], open: usize) -> Option<Vec<u8>> {
        let mut buf = vec![0; DATA_HEADER_LEN + plain.len() + OPEN_LEN_LEN + TAG_LEN];
        buf[DATA_HEADER_LEN..DATA_HEADER_LEN + plain.len()].copy_from_slice(plain);
        let number = (0, self.next_number);
        let len = self.sessions.seal_partly(now, 0, number, &mut buf, (plain.len(), open))?;
        self.next_number += 1;
        buf.truncate(len);
        Some(buf)
    }
}

/// How many copies of a datagram arrive: (now, sender, bytes) -> copies and extra delay.
pub(super) type Fate = Box<dyn FnMut(Instant, usize, &[u8]) -> Vec<Span>>;

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) nodes: Vec<Node>,
    pub(super) delay: Span,
    pub(super) fate: Fate,
    /// Everything ever sent: (when, by whom, bytes).
    pub(super) sent: Vec<(Instant, usize, Vec<u8>)>,
    flights: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
}

impl World {
    pub(super) fn new(delay: Span) -> Self {
        Self::with([config(0, 100), config(1, 200)], delay, 7)
    }
    pub(super) fn with(configs: [SessionsConfig; 2], delay: Span, seed: u64) -> Self {
        let nodes = configs.into_iter().enumerate();
        Self {
            now: Instant::ZERO,
            nodes: nodes.map(|(i, c)| Node::new(Sessions::new(Instant::ZERO, c, entropy(i, seed)))).collect(),
            delay,
            fate: Box::new(|_, _, _| vec![Span::ZERO]),
            sent: Vec::new(),
            flights: BTreeMap::new(),
        }
    }
    pub(super) fn restart(&mut self, node: usize, epoch: u64) {
        self.nodes[node] = Node::new(Sessions::new(self.now, config(node, epoch), entropy(node, epoch)));
    }
    pub(super) fn want(&mut self, node: usize) {
        self.nodes[node].sessions.want(self.now, 0, true);
    }
    pub(super) fn fly(&mut self, from: usize, bytes: Vec<u8>) {
        self.sent.push((self.now, from, bytes.clone()));
        for extra in (self.fate)(self.now, from, &bytes) {
            let at = self.now + self.delay + extra;
            self.flights
                .insert((at, self.sent.len() as u64 * 8 + self.flights.len() as u64 % 8), (1 - from, bytes.clone()));
        }
    }
    /// Seals and sends; false if no session stands.
    pub(super) fn send(&mut self, from: usize, plain: &[u8]) -> bool {
        let sealed = self.nodes[from].seal(self.now, plain);
        let ok = sealed.is_some();
        sealed.into_iter().for_each(|bytes| self.fly(from, bytes));
        ok
    }
    fn drain(&mut self) {
        for i in 0..self.nodes.len() {
            let mut buf = [0; HANDSHAKE_MAX];
            while let Some(out) = self.nodes[i].sessions.poll_handshake(self.now, PORT, &mut buf) {
                assert_eq!(out.to, Some(address(1 - i)));
                self.fly(i, buf[..out.len].to_vec());
            }
            while let Some(event) = self.nodes[i].sessions.poll_event() {
                self.nodes[i].events.push(event);
            }
            let deadline = self.nodes[i].sessions.poll_timeout();
            assert!(deadline.is_none_or(|w| w.at > self.now), "stale deadline {deadline:?} at {:?}", self.now);
        }
    }
    fn deliver(&mut self, to: usize, mut bytes: Vec<u8>) {
        let node = &mut self.nodes[to];
        let from = address(1 - to);
        match node.sessions.handle_datagram(self.now, PORT, &mut bytes, Some(from)) {
            Incoming::Data { lane, number, payload, newest, established, .. } => {
                node.established.extend(established);
                node.got.push((lane, number, bytes[payload].to_vec()));
                if newest {
                    node.sessions.set_address(self.now, 0, 0, from);
                }
            }
            Incoming::Established(e) => {
                node.established.push(e);
                assert!(e.confirm);
                self.send(to, b"");
            }
            Incoming::Handled => {}
            Incoming::Dropped(reason) => node.drops.push(reason),
        }
    }
    /// Runs until `end`, which becomes now.
    pub(super) fn run_to(&mut self, end: Instant) {
        loop {
            self.drain();
            let timeouts = self.nodes.iter().filter_map(|n| n.sessions.poll_timeout()).map(|w| w.at);
            let arrival = self.flights.first_key_value().map(|((at, _), _)| *at);
            let next = timeouts.chain(arrival).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            for node in &mut self.nodes {
                node.sessions.handle_timeout(next);
            }
            self.drain();
            while let Some(flight) = self.flights.first_entry().filter(|f| f.key().0 <= next) {
                let (to, bytes) = flight.remove();
                self.deliver(to, bytes);
                self.drain();
            }
            if next == end && self.flights.first_key_value().is_none_or(|((at, _), _)| *at > end) {
                return;
            }
        }
    }
    pub(super) fn run(&mut self, span: Span) {
        self.run_to(self.now + span);
    }
    /// What `node` sent of one kind since the start.
    pub(super) fn count(&self, node: usize, kind: u8) -> usize {
        self.sent.iter().filter(|(_, from, bytes)| *from == node && bytes[0] == kind).count()
    }
}
