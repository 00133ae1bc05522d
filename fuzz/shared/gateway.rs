//! A whole gateway with a hostile peer, strangers, and an owner. Each piece of 128 octets is a wait in milliseconds, who
//! speaks, and what: a stranger's datagram, the peer's sealed payload, one of its datagrams once more, or an IP packet
//! from the inside.

use wavelane_base::{FrameMeta, Instant, Machine, Octets, PortId, ReadOutcome, Seed, Span, Streams};
use wavelane_gateway::{Config, Gateway, GatewayEvent, LaneConfig, PacketConfig, PeerConfig, PeerId};
use wavelane_transport::session::{PeerKeys, Sessions, SessionsConfig, Way, public_key};
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};

const PORT: PortId = PortId(0);
const POOL: u64 = 1 << 20;
const FLOWS_MAX: usize = 8;
/// What a flow may hold beyond its share of the pool.
const FLOOR: u64 = 8192;
/// Most datagrams at one moment: the pool in the smallest ones that are worth sending, and more.
const SENT_AT_ONCE_MAX: usize = 4096;
/// Datagrams of the peer that may come again.
const AGAIN_MAX: usize = 16;

/// The gateway, and the peer as far as its keys go.
struct World {
    now: Instant,
    gateway: Gateway,
    peer: Sessions,
    number: u64,
    said: Vec<Vec<u8>>,
    flows: Vec<wavelane_base::FlowId>,
    reached: Reached,
}

/// How deep the peer's words went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// Flows that it asked for and was given.
    pub(crate) flows: u64,
    /// Octets of flows that it brought to the owner.
    pub(crate) octets: u64,
    /// Packets that it brought to the inside.
    pub(crate) packets: u64,
}

fn address(last: u8) -> wavelane_base::Address {
    wavelane_base::Address::Ip(([192, 0, 2, last], 4780).into())
}

fn gateway(now: Instant) -> Gateway {
    let everywhere = || ["0.0.0.0/0", "::/0"].map(|prefix| prefix.parse().expect("a prefix")).to_vec();
    let peer = PeerConfig {
        name: "peer".into(),
        public_key: public_key(&[2; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PORT, Some(address(2)))],
        choice: wavelane_gateway::Choice::Bond,
        keepalive: None,
        allow_sources: Some(everywhere()),
        allow_targets: everywhere(),
        // Where the owner's flows and packets go; what the peer asks for lies elsewhere.
        routes: vec!["10.3.0.0/16".parse().expect("a prefix")],
    };
    let packets = PacketConfig { pool: POOL as usize, ..PacketConfig::default() };
    let config = Config {
        private_key: [1; 32],
        peers: vec![peer],
        flows_max: FLOWS_MAX,
        pool: Octets::new(POOL),
        packets: Some(packets),
        ..Config::default()
    };
    Gateway::new(now, config, 1, Seed(1).entropy("gateway")).expect("a valid configuration")
}

impl World {
    /// A session stands.
    fn new() -> Self {
        let now = Instant::from_secs(1);
        let keys = PeerKeys {
            public_key: public_key(&[1; 32]),
            preshared_key: None,
            ways: vec![Way { port: PORT, address: Some(address(1)), one_way: false }],
        };
        let sessions = SessionsConfig {
            private_key: [2; 32],
            boot_epoch: 1,
            aes: false,
            overhear: false,
            compress: true,
            log_keys: false,
            peers: vec![keys],
        };
        let mut world = Self {
            now,
            gateway: gateway(now),
            peer: Sessions::new(now, sessions, Seed(2).entropy("peer")),
            number: 0,
            said: Vec::new(),
            flows: Vec::new(),
            reached: Reached::default(),
        };
        // Ours is taken first, so that the peer answers.
        let mut buf = [0; 2048];
        while let Some(out) = world.gateway.poll_transmit(now, PORT, &mut buf, 1) {
            world.peer.handle_datagram(now, PORT, &mut buf[..out.len], Some(address(1)));
        }
        let out = world.peer.poll_handshake(now, PORT, &mut buf).expect("an answer");
        world.hear(2, buf[..out.len].to_vec());
        assert!(world.answers(2) > 0, "the session is confirmed");
        world
    }

    fn hear(&mut self, from: u8, mut datagram: Vec<u8>) {
        let meta = FrameMeta { rx_time: self.now, from: Some(address(from)), ..FrameMeta::default() };
        self.gateway.handle_frame(self.now, PORT, &mut datagram, meta);
    }

    /// How much the gateway sends now to the host with that last octet. The peer learns what is for it.
    fn answers(&mut self, to: u8) -> usize {
        let (mut buf, mut sent, mut all) = ([0; 2048], 0, 0);
        while let Some(out) = self.gateway.poll_transmit(self.now, PORT, &mut buf, 1) {
            sent += usize::from(out.to == Some(address(to)));
            all += 1;
            assert!(all <= SENT_AT_ONCE_MAX, "more than {SENT_AT_ONCE_MAX} datagrams at one moment");
            self.peer.handle_datagram(self.now, PORT, &mut buf[..out.len], Some(address(1)));
        }
        sent
    }

    /// The peer seals `payload`, leaving `skipped` numbers out.
    fn seal(&mut self, skipped: u64, payload: &[u8]) -> Option<Vec<u8>> {
        self.number += 1 + skipped;
        let mut buf = vec![0; DATA_HEADER_LEN + payload.len() + TAG_LEN];
        buf[DATA_HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        let len = self.peer.seal(self.now, 0, 0, self.number, &mut buf, payload.len())?;
        buf.truncate(len);
        Some(buf)
    }

    fn speak(&mut self, who: u8, bytes: &[u8]) {
        let more = who >> 2;
        match who & 3 {
            0 => {
                self.hear(3, bytes.to_vec());
                let answers = self.answers(3);
                assert!(answers <= 1, "{answers} answers to one stranger's datagram");
            }
            1 => {
                let Some(datagram) = self.seal(u64::from(more & 3), bytes) else { return };
                if self.said.len() < AGAIN_MAX {
                    self.said.push(datagram.clone());
                }
                self.hear(2, datagram);
            }
            2 if !self.said.is_empty() => {
                let again = self.said[usize::from(more) % self.said.len()].clone();
                self.hear(if more & 1 == 0 { 2 } else { 3 }, again);
            }
            _ => self.own(more, bytes),
        }
    }

    /// The owner does something.
    fn own(&mut self, what: u8, bytes: &[u8]) {
        let (client, server) = ("10.1.0.2:4000".parse().expect("a"), "10.3.0.2:80".parse().expect("b"));
        let flow = (!self.flows.is_empty()).then(|| self.flows[usize::from(what >> 3) % self.flows.len()]);
        match (what & 7, flow) {
            (0, _) => self.flows.extend(self.gateway.open(self.now, PeerId(0), client, server).ok()),
            (1, Some(flow)) => drop(self.gateway.write(self.now, flow, &[5; 3000])),
            (2, Some(flow)) => self.gateway.shutdown(self.now, flow),
            (3, Some(flow)) => self.gateway.reset(self.now, flow),
            _ => self.gateway.handle_packet(self.now, bytes),
        }
    }

    fn settle(&mut self) {
        while let Some(event) = self.gateway.poll_event() {
            match event {
                GatewayEvent::Incoming { flow, .. } => {
                    self.gateway.accept(self.now, flow);
                    self.reached.flows += 1;
                    self.flows.push(flow);
                }
                GatewayEvent::Readable(flow) => {
                    while let ReadOutcome::Data(n) = self.gateway.read(self.now, flow, &mut [0; 1500]) {
                        self.reached.octets += n as u64;
                    }
                }
                GatewayEvent::Refused(gone, _) | GatewayEvent::Reset(gone, _) | GatewayEvent::Closed(gone) => {
                    self.flows.retain(|f| *f != gone)
                }
                _ => {}
            }
        }
        let mut buf = vec![0; 65_535];
        while let Some(len) = self.gateway.poll_packet(self.now, &mut buf) {
            // What is for our side, and no ICMP error about what our side sent.
            self.reached.packets += u64::from(len > 0 && buf[9] != 1);
        }
        self.answers(2);
        let status = self.gateway.status(self.now);
        assert!(status.flows <= FLOWS_MAX && self.flows.len() <= FLOWS_MAX, "{status:?}");
        assert!(status.buffered <= POOL + FLOWS_MAX as u64 * FLOOR, "{status:?}");
        assert!(status.packets_buffered <= POOL, "{status:?}");
    }
}

/// Feeds `input`; panics if a bound or an invariant breaks.
pub(crate) fn feed(input: &[u8]) -> Reached {
    let mut world = World::new();
    for piece in input.chunks(128) {
        world.now += Span::from_millis(u64::from(piece[0]));
        world.gateway.handle_timeout(world.now);
        assert!(world.gateway.poll_timeout().is_none_or(|wakeup| wakeup.at > world.now), "a deadline of the past");
        world.peer.handle_timeout(world.now);
        world.speak(piece.get(1).copied().unwrap_or(0), piece.get(2..).unwrap_or(&[]));
        world.settle();
    }
    world.reached
}
