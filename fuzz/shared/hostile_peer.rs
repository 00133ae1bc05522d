//! A hub with three links: a hostile peer that holds valid keys, an honest one to which a transfer runs, and one to
//! which flows are passed on. The hostile peer speaks every frame type, with extreme values, learnt values and in any
//! order; the transfer must not notice.

#[path = "hostile_speech.rs"]
mod speech;

#[allow(unused_imports, reason = "who speaks to a real gateway")]
pub(crate) use speech::{Learnt, Source};
use std::collections::VecDeque;
use std::net::SocketAddr;
use wavelane_base::{
    Address, FlowId, FrameMeta, Instant, LinkAcks, Machine, Octets, PortId, Radio, Rate, ReadOutcome, Seed, Span,
    Streams,
};
use wavelane_gateway::{
    Config, Controller, EdgeConfig, Gateway, GatewayEvent, LaneConfig, PacketConfig, PeerConfig, PeerId, Reason,
    Withholding,
};
use wavelane_transport::session::{
    Incoming, LANES_MAX, PeerKeys, Sessions, SessionsConfig, Way, digest_of, public_key,
};
use wavelane_wire::datagram::{DATA_HEADER_LEN, OPEN_LEN_LEN, TAG_LEN, kind};

const PORT: PortId = PortId(0);
const POOL: u64 = 1 << 20;
const FLOWS_MAX: usize = 64;
/// What a flow may hold beyond its share of the pool.
const FLOOR: u64 = 8192;
/// Most datagrams at one moment.
const SENT_AT_ONCE_MAX: usize = 16_384;
/// The way between the hub and an honest node.
const DELAY: Span = Span::from_millis(5);
/// Of the cell, if there is one.
const CELL_RATE: Rate = Rate::from_bps(20_000_000);
/// What the transfer's lane is set to.
const RATE: Rate = Rate::from_bps(1_000_000);
/// The transfer may be this far behind its rate: the start, headers, and one round trip.
const SHARE_MIN: (u64, u64) = (9, 10);
/// Datagrams of the peer that may come again.
const AGAIN_MAX: usize = 16;
/// The hub, and the nodes it knows by their place in its list of peers.
const HUB: u8 = 1;
const BAD: usize = 0;
const GOOD: usize = 1;
const ONWARD: usize = 2;

/// How deep the hostile peer's words went, over a whole episode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// Datagrams that it sealed and that were opened.
    pub(crate) datagrams: u64,
    /// Flows that it asked for and was given.
    pub(crate) flows: u64,
    /// Octets of flows that it brought to the owner.
    pub(crate) octets: u64,
    /// Octets that were passed on for it.
    pub(crate) relayed: u64,
    /// Packets that it brought to the inside.
    pub(crate) packets: u64,
    /// Octets of the honest transfer.
    pub(crate) transfer: u64,
    /// Octets that the hub kept of what it overheard, and that a neighbour then named.
    pub(crate) overheard: u64,
}

/// One of the two honest neighbours.
struct Node {
    gateway: Gateway,
    flows: Vec<FlowId>,
    /// Octets of the transfer that were read here, each checked.
    read: u64,
}

struct World<'a> {
    now: Instant,
    source: Source<'a>,
    hub: Gateway,
    bad: Sessions,
    /// Lanes are radios, and the hub overhears.
    radio: bool,
    epoch: u64,
    numbers: [u64; LANES_MAX],
    /// Where the hostile peer's datagrams come from: last octet, and added to the port.
    place: (u8, u16),
    said: Vec<Vec<u8>>,
    learnt: Learnt,
    honest: [Node; 2],
    /// To the hub (0) or to an honest node (its place in the hub's list), and from where.
    pipe: VecDeque<(Instant, usize, Vec<u8>)>,
    /// The hub owner's flows with the hostile peer.
    flows: Vec<FlowId>,
    transfer: FlowId,
    written: u64,
    reached: Reached,
}

fn address(last: u8) -> Address {
    Address::Ip(([192, 0, 2, last], 4780).into())
}

fn peer(key: u8, at: u8, routes: &str, controller: Controller) -> PeerConfig {
    let everywhere = || ["0.0.0.0/0", "::/0"].map(|prefix| prefix.parse().expect("a prefix")).to_vec();
    PeerConfig {
        name: format!("peer-{key}"),
        public_key: public_key(&[key; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig { controller, ..LaneConfig::new(PORT, Some(address(at))) }],
        allow_sources: Some(everywhere()),
        allow_targets: everywhere(),
        routes: vec![routes.parse().expect("a prefix")],
        choice: wavelane_gateway::Choice::Bond,
        keepalive: None,
    }
}

/// `radio`: it overhears, and has the blocks of its neighbours in a cell come one after the other.
fn gateway(now: Instant, key: u8, radio: bool, peers: Vec<PeerConfig>) -> Gateway {
    let packets = PacketConfig { pool: POOL as usize, ..PacketConfig::default() };
    let config = Config {
        overhear: radio,
        // Flows that are passed on in the cell are sealed by the peer and the node behind the hub.
        seal: radio && key == 4,
        edges: vec![EdgeConfig { name: "bad".into(), public_key: public_key(&[2; 32]), routes: Vec::new() }],
        withhold: radio.then_some(Withholding { at_once: 1, everywhere: false }),
        private_key: [key; 32],
        peers,
        flows_max: FLOWS_MAX,
        pool: Octets::new(POOL),
        packets: Some(packets),
        ..Config::default()
    };
    Gateway::new(now, config, 1, Seed(u64::from(key)).entropy("gateway")).expect("a valid configuration")
}

fn hostile(now: Instant, epoch: u64, overhear: bool) -> Sessions {
    let keys = PeerKeys {
        public_key: public_key(&[HUB; 32]),
        preshared_key: None,
        ways: vec![Way { port: PORT, address: Some(address(HUB)), one_way: false }],
    };
    let sessions = SessionsConfig {
        private_key: [2; 32],
        boot_epoch: epoch,
        aes: false,
        overhear,
        compress: true,
        log_keys: false,
        peers: vec![keys],
    };
    Sessions::new(now, sessions, Seed(epoch).entropy("hostile"))
}

/// The octet at `offset` of the honest transfer.
fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl<'a> World<'a> {
    /// Every session stands, and the transfer is open.
    fn new(source: Source<'a>) -> Self {
        let now = Instant::from_secs(1);
        let fixed = Controller::Fixed(RATE);
        let radio = source.has_radio();
        let mut peers = vec![
            peer(2, 2, "10.2.0.0/16", Controller::Delay),
            peer(3, 3, "10.3.0.0/16", fixed),
            peer(4, 4, "10.4.0.0/16", Controller::Delay),
        ];
        // The hostile peer and the node behind which flows are passed on are in one cell with the hub.
        let in_cell = |peer: &mut PeerConfig| {
            peer.lanes[0].carrier.radio = Some(Radio { rate: CELL_RATE, cell: 0, acks: LinkAcks::Never })
        };
        [BAD, ONWARD].into_iter().filter(|_| radio).for_each(|one| in_cell(&mut peers[one]));
        let hub = gateway(now, HUB, radio, peers);
        let node = |key| {
            let mut hub = peer(HUB, HUB, "10.1.0.0/16", fixed);
            if radio && key == 4 {
                in_cell(&mut hub);
            }
            Node { gateway: gateway(now, key, radio, vec![hub]), flows: Vec::new(), read: 0 }
        };
        let mut world = Self {
            now,
            source,
            hub,
            bad: hostile(now, 1, radio),
            radio,
            epoch: 1,
            numbers: [0; LANES_MAX],
            place: (2, 0),
            said: Vec::new(),
            learnt: Learnt::default(),
            honest: [node(3), node(4)],
            pipe: VecDeque::new(),
            flows: Vec::new(),
            transfer: FlowId(u64::MAX),
            written: 0,
            reached: Reached::default(),
        };
        world.handshake();
        let (client, server) = ("10.1.0.9:4000".parse().expect("a"), "10.3.0.2:80".parse().expect("b"));
        world.transfer = world.hub.open(world.now, PeerId(GOOD), client, server).expect("room for a flow");
        world.run_to(world.now + Span::from_millis(500));
        assert!(world.written > 0, "the transfer has begun");
        world
    }

    /// The hostile peer calls, and the hub answers.
    fn handshake(&mut self) {
        self.bad.want(self.now, 0, true);
        let mut buf = [0; 2048];
        while let Some(out) = self.bad.poll_handshake(self.now, PORT, &mut buf) {
            self.tell_hub(buf[..out.len].to_vec());
        }
        self.drain();
        self.say(&[1]);
        self.drain();
    }

    fn restart(&mut self) {
        self.epoch += 1;
        self.bad = hostile(self.now, self.epoch, self.radio);
        self.numbers = [0; LANES_MAX];
        self.handshake();
    }

    fn tell_hub(&mut self, mut datagram: Vec<u8>) {
        let (ip, port) = self.place;
        let from = Address::Ip(([192, 0, 2, ip], 4780 + port).into());
        let meta = FrameMeta { rx_time: self.now, from: Some(from), ..FrameMeta::default() };
        self.hub.handle_frame(self.now, PORT, &mut datagram, meta);
    }

    /// The hostile peer seals `payload`, leaving `skipped` numbers out.
    fn seal(&mut self, lane: u8, skipped: u64, payload: &[u8]) -> Option<Vec<u8>> {
        let number = self.numbers[usize::from(lane)] + skipped;
        let mut buf = vec![0; DATA_HEADER_LEN + payload.len() + OPEN_LEN_LEN + TAG_LEN];
        buf[DATA_HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        // In a cell the octets that run to the end are open, right or wrong.
        let ends = self.learnt.open_octets(payload);
        let open = if self.radio && self.source.byte() < 128 { ends } else { 0 };
        let len = self.bad.seal_partly(self.now, 0, (lane, number), &mut buf, (payload.len(), open))?;
        self.numbers[usize::from(lane)] = number + 1;
        buf.truncate(len);
        Some(buf)
    }

    fn say(&mut self, payload: &[u8]) {
        let datagram = self.seal(0, 0, payload);
        datagram.into_iter().for_each(|datagram| self.tell_hub(datagram));
    }

    /// Everything that can leave leaves, and owners do what they do.
    fn drain(&mut self) {
        let mut buf = vec![0; 65_535];
        let mut sent = 0;
        loop {
            let before = sent;
            while let Some(out) = self.hub.poll_transmit(self.now, PORT, &mut buf, 1) {
                sent += 1;
                assert!(sent <= SENT_AT_ONCE_MAX, "more than {SENT_AT_ONCE_MAX} datagrams at one moment");
                let node = [GOOD, ONWARD].into_iter().find(|n| out.to == Some(address(*n as u8 + 2)));
                match node {
                    Some(node) => self.pipe.push_back((self.now + DELAY, node, buf[..out.len].to_vec())),
                    None => self.bad_hears(&mut buf[..out.len]),
                }
            }
            self.own_hub(&mut buf);
            for node in 0..2 {
                let now = self.now;
                while let Some(out) = self.honest[node].gateway.poll_transmit(now, PORT, &mut buf, 1) {
                    sent += 1;
                    self.pipe.push_back((now + DELAY, 3 + node, buf[..out.len].to_vec()));
                }
                self.own_node(node);
            }
            if sent == before {
                return;
            }
        }
    }

    fn bad_hears(&mut self, datagram: &mut [u8]) {
        match self.bad.handle_datagram(self.now, PORT, datagram, Some(address(HUB))) {
            Incoming::Data { number, payload, .. } => self.learnt.read(number, &datagram[payload]),
            Incoming::Established(_) => {}
            Incoming::Handled | Incoming::Dropped(_) => {}
        }
        let mut buf = [0; 2048];
        while let Some(out) = self.bad.poll_handshake(self.now, PORT, &mut buf) {
            self.tell_hub(buf[..out.len].to_vec());
        }
    }

    /// The hub's owner: answers, reads, and keeps the transfer going.
    fn own_hub(&mut self, buf: &mut [u8]) {
        while let Some(event) = self.hub.poll_event() {
            match event {
                GatewayEvent::Incoming { flow, .. } if self.flows.len() % 7 == 6 => {
                    self.hub.refuse(self.now, flow, Reason::Refused);
                }
                GatewayEvent::Incoming { flow, .. } => {
                    self.hub.accept(self.now, flow);
                    self.reached.flows += 1;
                    self.flows.push(flow);
                }
                GatewayEvent::Readable(flow) if flow != self.transfer => {
                    while let ReadOutcome::Data(n) = self.hub.read(self.now, flow, &mut [0; 1500]) {
                        self.reached.octets += n as u64;
                    }
                }
                GatewayEvent::Refused(gone, _) | GatewayEvent::Reset(gone, _) | GatewayEvent::Closed(gone) => {
                    assert!(gone != self.transfer, "the honest transfer ended: {event:?}");
                    self.flows.retain(|f| *f != gone);
                }
                _ => {}
            }
        }
        while let Some(len) = self.hub.poll_packet(self.now, buf) {
            self.reached.packets += u64::from(len > 0 && buf[9] != 1);
        }
        loop {
            let bytes: Vec<u8> = (self.written..self.written + 4096).map(pattern).collect();
            let taken = self.hub.write(self.now, self.transfer, &bytes);
            self.written += taken as u64;
            if taken == 0 {
                return;
            }
        }
    }

    /// An honest node's owner: accepts and reads. The first flow of the first is the transfer.
    fn own_node(&mut self, which: usize) {
        let now = self.now;
        let Node { gateway, flows, read } = &mut self.honest[which];
        while let Some(event) = gateway.poll_event() {
            match event {
                GatewayEvent::Incoming { flow, .. } => {
                    gateway.accept(now, flow);
                    flows.push(flow);
                }
                GatewayEvent::Readable(flow) => {
                    let mut bytes = [0; 1500];
                    while let ReadOutcome::Data(n) = gateway.read(now, flow, &mut bytes) {
                        if which == 0 && flows.first() == Some(&flow) {
                            assert!((*read..).zip(&bytes[..n]).all(|(at, byte)| *byte == pattern(at)), "at {read}");
                            *read += n as u64;
                        } else {
                            self.reached.relayed += n as u64;
                        }
                    }
                }
                _ => {}
            }
        }
        while gateway.poll_packet(now, &mut vec![0; 65_535]).is_some() {}
    }

    /// Lets time pass until `end`.
    fn run_to(&mut self, end: Instant) {
        loop {
            self.drain();
            let machines = [&self.hub, &self.honest[0].gateway, &self.honest[1].gateway];
            for machine in machines {
                let stale = machine.poll_timeout().filter(|wakeup| wakeup.at <= self.now);
                assert!(stale.is_none(), "a deadline of the past: {stale:?} at {:?}", self.now);
            }
            let deadlines = machines.into_iter().filter_map(|machine| machine.poll_timeout()).map(|wakeup| wakeup.at);
            let next = deadlines.chain(self.pipe.front().map(|f| f.0)).min().unwrap_or(end);
            if next >= end {
                self.now = end;
                break;
            }
            self.now = next;
            while self.pipe.front().is_some_and(|f| f.0 <= self.now) {
                let Some((_, to, mut bytes)) = self.pipe.pop_front() else { break };
                let meta = |from| FrameMeta { rx_time: self.now, from: Some(address(from)), ..FrameMeta::default() };
                match to {
                    GOOD | ONWARD => {
                        self.honest[to - 1].gateway.handle_frame(self.now, PORT, &mut bytes, meta(HUB));
                    }
                    node => self.hub.handle_frame(self.now, PORT, &mut bytes, meta(node as u8)),
                }
            }
            self.wake();
        }
        self.wake();
        self.drain();
    }

    fn wake(&mut self) {
        self.hub.handle_timeout(self.now);
        self.honest.iter_mut().for_each(|node| node.gateway.handle_timeout(self.now));
        self.bad.handle_timeout(self.now);
    }

    /// One act of the hostile peer, or of the hub's owner towards it.
    fn act(&mut self) {
        match self.source.byte() {
            0..=199 => {
                let payload = self.learnt.payload(&mut self.source);
                let lane = if self.source.byte() < 200 { 0 } else { self.source.byte() % LANES_MAX as u8 };
                let skipped = match self.source.byte() {
                    0 => u64::from(self.source.byte()) << 12,
                    1..=20 => u64::from(self.source.byte()),
                    _ => 0,
                };
                let Some(datagram) = self.seal(lane, skipped, &payload) else { return };
                self.reached.datagrams += 1;
                if self.said.len() < AGAIN_MAX {
                    self.said.push(datagram.clone());
                } else {
                    let place = usize::from(self.source.byte()) % AGAIN_MAX;
                    self.said[place] = datagram.clone();
                }
                self.tell_hub(datagram);
            }
            200..=207 if !self.said.is_empty() => {
                let again = self.said[usize::from(self.source.byte()) % self.said.len()].clone();
                self.tell_hub(again);
            }
            208..=215 => self.place = (2 + self.source.byte() % 2 * 7, u16::from(self.source.byte() % 4)),
            216 => {
                // It lost its memory, or says so.
                self.restart();
            }
            217 => self.handshake(),
            218..=235 if self.radio => self.speak_overheard(),
            _ => self.own(),
        }
    }

    /// The hub overhears what looks like a datagram for the hostile peer, which it may name soon or at once.
    fn speak_overheard(&mut self) {
        let what = self.source.byte();
        if what < 20 {
            // A Forget that it sent may rule out its further flow numbers.
            self.restart();
        }
        if what < 80 {
            let target = SocketAddr::from(([10, 4, 0, 2], 80));
            let open = self.learnt.sealed_flow(&[2; 32], &public_key(&[4; 32]), target);
            self.say(&open);
            self.run_to(self.now + DELAY.times(3));
        }
        let mut octets = vec![self.source.byte(); 200 + 5 * usize::from(self.source.byte())];
        octets[0] = self.source.byte();
        let mut datagram = vec![kind::DATA_OPEN; DATA_HEADER_LEN];
        datagram.extend(&octets);
        datagram.extend((octets.len() as u16 + u16::from(self.source.byte() < 10)).to_be_bytes());
        datagram.extend([0; TAG_LEN]);
        let sender = u64::from(self.source.byte() % 24);
        self.hub.overhear(self.now, PORT, sender, &datagram);
        self.learnt.may_name(digest_of(&octets), octets.len() as u64);
        if self.source.byte() < 128 {
            let names = self.learnt.names_overheard(&mut self.source);
            self.say(&names);
        }
    }

    /// The hub's owner does something that involves the hostile peer.
    fn own(&mut self) {
        let what = self.source.byte();
        let (client, server) = ("10.1.0.2:4000".parse().expect("a"), "10.2.0.2:80".parse().expect("b"));
        let flow = (!self.flows.is_empty()).then(|| self.flows[usize::from(what >> 3) % self.flows.len()]);
        match (what & 7, flow) {
            (0 | 1, _) => self.flows.extend(self.hub.open(self.now, PeerId(BAD), client, server).ok()),
            (2..=4, Some(flow)) => drop(self.hub.write(self.now, flow, &[5; 30_000])),
            (5, Some(flow)) if what > 200 => self.hub.shutdown(self.now, flow),
            (6, Some(flow)) if what > 220 => {
                self.hub.reset(self.now, flow);
                self.flows.retain(|f| *f != flow);
            }
            _ => {
                let packet = speech::packet(&mut self.source, [10, 1, 0, 2], [10, 2, 0, 2]);
                self.hub.handle_packet(self.now, &packet);
            }
        }
    }

    fn check(&self) {
        let status = self.hub.status(self.now);
        assert!(status.flows <= FLOWS_MAX, "{status:?}");
        assert!(status.buffered <= 3 * POOL + FLOWS_MAX as u64 * FLOOR, "{status:?}");
        assert!(status.packets_buffered <= POOL, "{status:?}");
        // Its part of the cache's budget.
        assert!(status.overheard <= self.hub.config().cache.get() / 4, "{status:?}");
    }
}

fn run(source: Source<'_>) -> Reached {
    let mut world = World::new(source);
    let (start, before) = (world.now, world.honest[0].read);
    while world.source.goes_on() {
        let wait = match world.source.byte() {
            0..=149 => Span::ZERO,
            150..=254 => Span::from_millis(u64::from(world.source.byte()) / 4),
            255 => Span::from_millis(40 * u64::from(world.source.byte())),
        };
        world.run_to(world.now + wait);
        world.act();
        world.drain();
        world.check();
    }
    let counters = world.hub.status(world.now).counters;
    world.reached.overheard = counters.iter().find(|(of, _)| *of == "hop_overheard_octets").expect("a counter").1;
    // The hostile peer falls silent; what was on its way arrives.
    world.run_to(world.now + Span::from_secs(1));
    let read = world.honest[0].read - before;
    let due = RATE.octets_in(world.now.since(start)).get() * SHARE_MIN.0 / SHARE_MIN.1;
    assert!(read >= due, "the honest transfer brought {read} octets, {due} were due");
    Reached { transfer: read, ..world.reached }
}

/// Runs what `input` says; panics if a bound or an invariant breaks, or if the transfer notices.
#[allow(dead_code, reason = "the fuzz target's entrance")]
pub(crate) fn feed(input: &[u8]) -> Reached {
    run(Source::of_bytes(input))
}

/// Runs `acts` acts drawn from `seed`.
#[allow(dead_code, reason = "the suite's entrance")]
pub(crate) fn episode(seed: u64, acts: usize) -> Reached {
    run(Source::of_seed(seed, acts))
}
