//! The hostile-peer suite: a peer that holds valid keys says whatever it likes to a hub, and the others do not notice.
//!
//! `WAVELANE_HOSTILE_SECONDS` says for how long (`make test`: 5, `make test-all`: 60, `make soak`: 120), `WAVELANE_HOSTILE_SEED` where to
//! begin. A failure prints the command that repeats it.

#[path = "../../../../fuzz/shared/hostile_peer.rs"]
mod episodes;

use crate::common::{World, alone, echo, now, pause, resident, root_or_skip, transfer_during};
use episodes::{Learnt, Reached, Source};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wavelane_base::{Entropy, FrameMeta, Instant, Machine, Octets, PortId, Rate, Seed, Span, Streams};
use wavelane_daemon::keys;
use wavelane_gateway::{Config, Controller, Gateway, GatewayEvent, LaneConfig, PacketConfig, PeerConfig, PeerId};
use wavelane_transport::session::{Incoming, PeerKeys, Sessions, SessionsConfig, Way, public_key};
use wavelane_wire::Writer;
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
use wavelane_wire::frame::{FlowName, Frame, LaneAck, Open, PacketFrame, Ranges, ReceiptState, RepairFrame};
use wavelane_wire::ip::checksum;

/// How long the suite runs unless it is told otherwise.
const SECONDS: u64 = 5;
/// Acts of the hostile peer per episode.
const ACTS: usize = 300;

/// Datagrams that a hostile peer says to a real gateway in a second, at most.
const SAID_PER_SECOND: u64 = 2000;
/// Memory that it may cost, bytes.
const GROWTH_MAX: u64 = 16 << 20;
/// Datagrams of each kind whose cost is taken.
const TIMES: u64 = 400;
/// Processor time that any kind of datagram may cost on average, in the build that tests use.
const COST_MAX: Duration = Duration::from_micros(500);
const GATEWAY: &str = "10.2.0.2:4780";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Says how to repeat what it stands for, if that fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "repeat it with: WAVELANE_HOSTILE_SECONDS=0 WAVELANE_HOSTILE_SEED={} \
                 cargo test -p wavelane-daemon --test it hostile_messages",
                self.0
            );
        }
    }
}

#[test]
fn hostile_messages_neither_end_a_hub_nor_reach_others() {
    let seconds = number("WAVELANE_HOSTILE_SECONDS").unwrap_or(SECONDS);
    let first = number("WAVELANE_HOSTILE_SEED").unwrap_or(1);
    let (start, mut episodes, mut all) = (now(), 0, Reached::default());
    loop {
        let replay = Replay(first + episodes);
        let reached = episodes::episode(replay.0, ACTS);
        all.datagrams += reached.datagrams;
        all.flows += reached.flows;
        all.octets += reached.octets;
        all.relayed += reached.relayed;
        all.packets += reached.packets;
        all.transfer += reached.transfer;
        episodes += 1;
        if start.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{episodes} episodes from seed {first} in {:?}: {all:?}", start.elapsed());
    // It gets behind the door.
    let deep = all.flows > episodes && all.octets > 100 * episodes && all.packets > episodes;
    assert!(deep || episodes < 10, "{all:?}");
}

/// Processor time of this thread so far (proc_pid_schedstat: nanoseconds on a processor).
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// A gateway, and a hostile peer of it as far as its keys go.
struct Met {
    now: Instant,
    gateway: Gateway,
    peer: Sessions,
    number: u64,
    /// The gateway's highest packet number, and the runs without a gap below it.
    highest: u64,
    runs: Vec<(u64, u64)>,
}

impl Met {
    /// The session stands. `change` has a word on what the gateway is told.
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let (now, port, at) =
            (Instant::from_secs(1), PortId(0), |n: u8| Some(SocketAddr::from(([192, 0, 2, n], 1)).into()));
        let everywhere = vec!["0.0.0.0/0".parse().unwrap()];
        let peer = PeerConfig {
            name: "peer".into(),
            public_key: public_key(&[2; 32]),
            preshared_key: None,
            lanes: vec![LaneConfig {
                controller: Controller::Fixed(Rate::from_bps(20_000_000_000)),
                ..LaneConfig::new(port, at(2))
            }],
            allow_sources: Some(everywhere.clone()),
            allow_targets: everywhere.clone(),
            routes: everywhere,
            choice: wavelane_gateway::Choice::Bond,
            keepalive: None,
        };
        // Of which a flow whose bytes nobody is known to read gets an eighth.
        let pool = Octets::new(512 << 20);
        let packets = Some(PacketConfig::default());
        let mut config = Config { private_key: [1; 32], peers: vec![peer], pool, packets, ..Config::default() };
        change(&mut config);
        let keys = PeerKeys {
            public_key: public_key(&[1; 32]),
            preshared_key: None,
            ways: vec![Way { port, address: at(1), one_way: false }],
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
        let mut met = Self {
            now,
            gateway: Gateway::new(now, config, 1, Seed(1).entropy("gateway")).unwrap(),
            peer: Sessions::new(now, sessions, Seed(2).entropy("peer")),
            number: 0,
            highest: 0,
            runs: Vec::new(),
        };
        met.peer.want(now, 0, true);
        met.exchange();
        met
    }

    /// A great deal is on its way to the peer.
    fn burdened() -> Self {
        let mut burdened = Self::new(|_| ());
        let now = burdened.now;
        let (client, server) = ("10.1.0.2:4000".parse().unwrap(), "10.3.0.2:80".parse().unwrap());
        let flow = burdened.gateway.open(now, PeerId(0), client, server).unwrap();
        burdened.exchange();
        let name = FlowName { mine: false, number: 0 };
        burdened.say(&[Frame::Answer { flow: name, refusal: None, credit: 1 << 40, edge: None }]);
        while burdened.highest < 40_000 {
            // What leaves is never acknowledged.
            burdened.now += Span::from_millis(1);
            burdened.gateway.handle_timeout(burdened.now);
            let before = burdened.highest;
            while burdened.gateway.write(burdened.now, flow, &[7; 65_536]) > 0 {
                burdened.exchange();
            }
            burdened.exchange();
            assert!(burdened.highest > before || burdened.now < Instant::from_secs(3), "at {before}");
        }
        burdened
    }

    /// Everything that can leave leaves; the peer answers handshakes and otherwise only listens.
    fn exchange(&mut self) {
        let (mut buf, port) = (vec![0; 2048], PortId(0));
        loop {
            let mut any = false;
            while let Some(out) = self.gateway.poll_transmit(self.now, port, &mut buf, 1) {
                any = true;
                let from = self.gateway.peer_address(PeerId(0));
                if let Incoming::Data { number, .. } =
                    self.peer.handle_datagram(self.now, port, &mut buf[..out.len], from)
                {
                    match self.runs.last_mut() {
                        Some(run) if run.1 + 1 == number => run.1 = number,
                        _ => self.runs.push((number, number)),
                    }
                    self.highest = number;
                }
            }
            while let Some(out) = self.peer.poll_handshake(self.now, port, &mut buf) {
                any = true;
                self.hear(buf[..out.len].to_vec());
                self.say(&[Frame::Ping]);
            }
            if !any {
                return;
            }
        }
    }

    fn hear(&mut self, mut datagram: Vec<u8>) {
        let from = self.gateway.peer_address(PeerId(0));
        let meta = FrameMeta { rx_time: self.now, from, ..FrameMeta::default() };
        self.gateway.handle_frame(self.now, PortId(0), &mut datagram, meta);
    }

    /// Says as many of `frames` as fit one datagram.
    fn say(&mut self, frames: &[Frame<'_>]) {
        let mut buf = vec![0; 1400];
        let mut w = Writer::new(&mut buf[DATA_HEADER_LEN..1400 - TAG_LEN]);
        let _ = frames.iter().try_for_each(|frame| frame.emit(&mut w));
        let plain_len = w.len();
        self.number += 1;
        if let Some(len) = self.peer.seal(self.now, 0, 0, self.number, &mut buf, plain_len) {
            buf.truncate(len);
            self.hear(buf);
        }
    }

    /// Has `say` say [`TIMES`] datagrams, and judges what they cost.
    fn judge(&mut self, what: &str, mut say: impl FnMut(&mut Self, u64)) {
        let before = processor_time();
        (0..TIMES).for_each(|n| say(self, n));
        let mean = (processor_time() - before) / TIMES as u32;
        println!("{what}: {mean:?} of processor time per datagram");
        assert!(mean <= COST_MAX, "{what}: {mean:?} per datagram");
    }
}

/// Every kind of datagram that looks as if it could be made costly, many times over.
#[test]
fn no_datagram_of_a_peer_costs_much() {
    let mut burdened = Met::burdened();
    let highest = burdened.highest;
    // All but the first, over and over: nothing is forgotten while that may still arrive.
    let mut runs = burdened.runs.clone();
    runs[0].0 += 2;
    runs.reverse();
    assert!(runs.len() <= 64 && highest >= 40_000, "{runs:?}");
    let ack = LaneAck { lane: 0, ranges: Ranges(runs), ack_delay_us: 0, arrival_us: 1, ecn: [0; 3] };
    let acks = vec![Frame::LaneAck(ack); 100];
    burdened.judge("lane acks", |burdened, _| burdened.say(&acks));
    let (mut chance, symbol) = (Seed(3).chance("masks"), [7; 1300]);
    burdened.judge("repair symbols", |burdened, n| {
        let mask = u128::from(chance.next_u64()) << 64 | u128::from(chance.next_u64()) | 1;
        let (key, first) = ((n % 128) as u8, 10_000 + n / 8);
        burdened.say(&[Frame::Repair(RepairFrame { lane: 0, key, first, mask, symbol: &symbol })]);
    });
    burdened.judge("packets far apart", |burdened, n| {
        let packet =
            |i| PacketFrame { number: (60 * n + i) * 65_535, order: None, piece: None, keep: false, bytes: &[0x45] };
        let frames: Vec<_> = (0..60).map(|i| Frame::Packet(packet(i))).collect();
        burdened.say(&frames);
    });
    let receipt = |ranges| {
        let (flow, state) = (FlowName { mine: false, number: 0 }, ReceiptState::Accept);
        Frame::Receipt { flow, state, cumulative: 0, credit: 1 << 40, ranges }
    };
    let receipts: Vec<_> = (0..300).map(|_| receipt(Ranges(Vec::new()))).collect();
    burdened.judge("receipts", |burdened, _| burdened.say(&receipts));
    burdened.judge("receipts of single bytes", |burdened, n| {
        let byte = |i| 4_000_000 + 3 * (300 * n + 250 - i);
        burdened.say(&[receipt(Ranges((0..250).map(|i| (byte(i), byte(i))).collect()))]);
    });
}

/// An IPv4 packet of `protocol`.
fn packet(source: &str, target: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = ((20 + payload.len()) as u16).to_be_bytes();
    let mut out = vec![0x45, 0, high, low, 0, 7, 0x40, 0, 64, protocol, 0, 0];
    out.extend([source, target].map(|a| a.parse::<Ipv4Addr>().unwrap().octets()).concat());
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// Its keys are right, what it says is not its to say.
#[test]
fn a_peer_cannot_use_other_peers_sources() {
    let prefix = |text: &str| vec![text.parse().unwrap()];
    let mut met = Met::new(|config| {
        let other = PeerConfig { public_key: public_key(&[3; 32]), ..config.peers[0].clone() };
        config.peers[0].routes = prefix("10.1.0.0/16");
        config.peers.push(PeerConfig { routes: prefix("10.4.0.0/16"), ..other });
        config.peers[0].allow_sources = None;
        config.peers[1].allow_sources = None;
        config.serves = prefix("10.3.0.0/16");
        config.keep_sources = true;
        let packets = PacketConfig { address4: Some(Ipv4Addr::new(10, 9, 0, 1)), ..PacketConfig::default() };
        config.packets = Some(packets);
    });
    let count = |met: &Met, name: &str| {
        met.gateway.status(met.now).counters.iter().find(|(counter, _)| *counter == name).unwrap().1
    };
    let mut number = 0;
    let mut arrives = |met: &mut Met, bytes: &[u8]| {
        met.say(&[Frame::Packet(PacketFrame { number, order: None, piece: None, keep: false, bytes })]);
        number += 1;
        met.gateway.poll_packet(met.now, &mut [0; 2048]).is_some()
    };
    assert!(arrives(&mut met, &packet("10.1.0.2", "10.3.0.2", 17, &[0; 8])), "what is in order");
    // Another peer's, ours, the gateway's own, nobody's.
    for source in ["10.4.0.2", "10.3.0.7", "10.9.0.1", "203.0.113.9"] {
        assert!(!arrives(&mut met, &packet(source, "10.3.0.2", 17, &[0; 8])), "{source}");
    }
    assert_eq!(count(&met, "dropped_packets_source_not_allowed"), 4);
    // A redirect; the end of another peer's connection; the same about its own, in the gateway's name.
    let about = |target: &str| [&[3, 1, 0, 0, 0, 0, 0, 0], &packet("10.3.0.2", target, 6, &[0; 8])[..]].concat();
    assert!(!arrives(&mut met, &packet("10.1.0.2", "10.3.0.2", 1, &[5, 1, 0, 0, 10, 1, 0, 9])));
    assert!(!arrives(&mut met, &packet("10.1.0.2", "10.3.0.2", 1, &about("10.4.0.2"))));
    assert_eq!(count(&met, "dropped_packets_icmp_kind"), 2);
    assert!(!arrives(&mut met, &packet("10.9.0.1", "10.3.0.2", 1, &about("10.1.0.2"))));
    assert!(arrives(&mut met, &packet("172.16.0.1", "10.3.0.2", 1, &about("10.1.0.2"))), "a router of its own");
    // What is told here goes to the peer and not to the inside.
    assert!(!arrives(&mut met, &packet("10.1.0.2", "168.63.129.16", 17, &[0; 8])));
    assert!(!arrives(&mut met, &packet("10.1.0.2", "169.254.169.254", 17, &[0; 8])));
    assert_eq!((count(&met, "dropped_packets_target_not_allowed"), count(&met, "dropped_packets_local_scope")), (1, 1));
    let sources = ["10.1.0.2:9", "10.4.0.2:9", "10.3.0.7:9", "203.0.113.9:9"];
    for (number, source) in sources.into_iter().enumerate() {
        let flow = FlowName { mine: true, number: number as u64 };
        let (source, target) = (source.parse().unwrap(), "10.3.0.2:80".parse().unwrap());
        met.say(&[Frame::Open(Open { flow, source, target, credit: 1 << 16, passage: None })]);
    }
    let events: Vec<GatewayEvent> = std::iter::from_fn(|| met.gateway.poll_event()).collect();
    let asked = events.iter().filter(|event| matches!(event, GatewayEvent::Incoming { .. })).count();
    let denied = events.iter().filter(|event| matches!(event, GatewayEvent::Denied { by_source: true, .. })).count();
    assert_eq!((asked, denied, count(&met, "dropped_source_not_allowed")), (1, 3, 3), "{events:?}");
}

/// Speaks to the gateway until told to stop; returns how many datagrams it sealed, and how many it opened.
fn speak(socket: &UdpSocket, config: SessionsConfig, stop: &AtomicBool) -> (u64, u64) {
    let at: SocketAddr = GATEWAY.parse().unwrap();
    let (start, port) = (now(), PortId(0));
    let clock = || Instant::from_nanos(start.elapsed().as_nanos() as u64);
    let entropy = Entropy::live(wavelane_host::entropy::fill);
    let mut sessions = Sessions::new(clock(), config, entropy);
    let mut source = Source::of_seed(number("WAVELANE_HOSTILE_SEED").unwrap_or(1), usize::MAX);
    let (mut learnt, mut said, mut heard, mut buf) = (Learnt::default(), 0, 0, vec![0; 65_535]);
    sessions.want(clock(), 0, true);
    while !stop.load(Ordering::Relaxed) {
        sessions.handle_timeout(clock());
        while let Some(out) = sessions.poll_handshake(clock(), port, &mut buf) {
            let _ = socket.send_to(&buf[..out.len], at);
        }
        while let Ok((n, from)) = socket.recv_from(&mut buf) {
            if let Incoming::Data { number, payload, .. } =
                sessions.handle_datagram(clock(), port, &mut buf[..n], Some(from.into()))
            {
                learnt.read(number, &buf[payload]);
                heard += 1;
            }
        }
        let payload = learnt.payload(&mut source);
        buf[DATA_HEADER_LEN..][..payload.len()].copy_from_slice(&payload);
        let room = &mut buf[..DATA_HEADER_LEN + payload.len() + TAG_LEN];
        if let Some(len) = sessions.seal(clock(), 0, 0, said, room, payload.len()) {
            said += 1;
            let _ = socket.send_to(&buf[..len], at);
        }
        pause(Duration::from_micros(1_000_000 / SAID_PER_SECOND));
    }
    (said, heard)
}

#[test]
fn a_hub_survives_a_hostile_configured_peer() {
    let _alone = alone();
    if !root_or_skip("a_hub_survives_a_hostile_configured_peer") {
        return;
    }
    let world = World::new("peer");
    let mut private_key = [0; 32];
    Seed(9).entropy("a hostile peer's key").fill(&mut private_key);
    let public_key = keys::to_base64(&keys::public_key(&private_key));
    let b = world.start(
        "b",
        "source = \"keep\"",
        &format!("[[peer]]\nname = \"hostile\"\npublic_key = \"{public_key}\"\nroutes = [\"10.77.0.0/16\"]\n"),
    );
    let a = world.start("a", "source = \"keep\"", "[intercept]\ninterfaces = [\"lan0\"]");
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    world.serve(7, echo);
    transfer_during(&world, 500_000, || ());
    let before = resident(&b);

    let stop = Arc::<AtomicBool>::default();
    let socket = world.a.run(|| UdpSocket::bind("10.2.0.1:5999").unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let hub = PeerKeys {
        public_key: keys::public_key(&world.keys[1].private),
        preshared_key: None,
        ways: vec![Way { port: PortId(0), address: Some(GATEWAY.parse().unwrap()), one_way: false }],
    };
    let config = SessionsConfig {
        private_key,
        boot_epoch: 1,
        aes: false,
        overhear: false,
        compress: true,
        log_keys: false,
        peers: vec![hub],
    };
    let speaker = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || speak(&socket, config, &stop)
    });
    b.wait_log("peer 'hostile' is up");
    // Its own bytes come back whole, and in the time that the test gives them.
    // real time: 4 s, of a hostile peer at full speed
    transfer_during(&world, 3_000_000, || pause(Duration::from_secs(4)));
    stop.store(true, Ordering::Relaxed);
    let (said, heard) = speaker.join().unwrap();
    println!("{said} datagrams said, {heard} heard");
    assert!(said > 500 && heard > 10, "{said} said, {heard} heard: {}", b.status());
    assert!(b.counter("dropped_malformed_frames") > 0, "it was not listened to: {}", b.status());
    let after = resident(&b);
    assert!(after <= before + GROWTH_MAX, "the hub grew from {before} to {after} bytes");
}
