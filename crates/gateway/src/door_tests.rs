//! The laws of machines for a gateway with its door: applications whose SYNs are held, forwarded and refused.
#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{Choice, Config, LaneConfig, PeerConfig};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use wavelane_base::laws::{Script, Stimulus, check, check_memory};
use wavelane_base::{FrameMeta, IpPrefix, Machine, PortId, Seed, Transmit, Wakeup};
use wavelane_door::{Limits, OwnDoor};
use wavelane_wire::tcp::{Flags, Options, TcpHeader, TcpPacket};

/// Lanes to peers.
const LANES: PortId = PortId(0);
/// The port to applications and servers.
const INSIDE: PortId = PortId(1);

/// A gateway and its door as one machine.
struct Doorway {
    gateway: Gateway,
    door: OwnDoor,
    events: VecDeque<GatewayEvent>,
}

impl Doorway {
    /// A doorway with a peer that never answers.
    fn new() -> Self {
        let prefix = |text: &str| -> IpPrefix { text.parse().unwrap() };
        let peer = PeerConfig {
            name: "far".to_owned(),
            public_key: [9; 32],
            preshared_key: None,
            lanes: vec![LaneConfig::new(LANES, Some("192.0.2.2:4780".parse().unwrap()))],
            choice: Choice::Bond,
            keepalive: None,
            allow_sources: None,
            allow_targets: vec![prefix("10.0.0.0/8")],
            routes: vec![prefix("10.0.3.0/24")],
        };
        let config = Config { private_key: [1; 32], peers: vec![peer], ..Default::default() };
        let gateway = Gateway::new(Instant::ZERO, config, 1, Seed(1).entropy("gateway")).unwrap();
        let own = Ipv4Addr::new(10, 0, 1, 1).into();
        let door = OwnDoor::on_own_tcp(Instant::ZERO, own, Default::default(), Seed(1).entropy("door"));
        Self { gateway, door, events: VecDeque::new() }
    }

    /// What an owner does after every event.
    fn settle(&mut self, now: Instant) {
        loop {
            while let Some(event) = self.gateway.poll_event() {
                let of_flow = event.of_flow();
                of_flow.into_iter().for_each(|event| self.door.handle_event(now, &mut self.gateway, event));
                self.events.push_back(event);
            }
            if !self.door.service(now, &mut self.gateway) {
                return;
            }
        }
    }
}

impl Machine for Doorway {
    type Event = GatewayEvent;
    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        match port {
            LANES => self.gateway.handle_frame(now, port, frame, meta),
            _ => self.door.handle_packet(now, &mut self.gateway, frame),
        }
        self.settle(now);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.gateway.handle_timeout(now);
        self.door.handle_timeout(now, &mut self.gateway);
        self.settle(now);
    }
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], max_segments: usize) -> Option<Transmit> {
        let sent = match port {
            LANES => self.gateway.poll_transmit(now, port, buf, max_segments),
            _ => self.door.poll_packet(now, buf).map(|len| Transmit { len, ..Transmit::default() }),
        };
        self.settle(now);
        sent
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        Wakeup::earliest(self.gateway.poll_timeout(), self.door.poll_timeout())
    }
    fn poll_event(&mut self) -> Option<GatewayEvent> {
        self.events.pop_front()
    }
}

/// A SYN of an application.
fn syn(source: &str, target: &str) -> Stimulus<Doorway> {
    segment(source.parse().unwrap(), target.parse().unwrap(), Flags::SYN, 7)
}

fn segment(source: SocketAddr, target: SocketAddr, flags: Flags, seq: u32) -> Stimulus<Doorway> {
    let header = TcpHeader { seq, ack: 0, flags, window: 60_000, urgent: 0, options: Options::default() };
    let packet = TcpPacket { source, target, ecn: Default::default(), header, payload: &[] };
    let mut buf = vec![0; 200];
    let len = packet.emit(&mut buf).unwrap();
    buf.truncate(len);
    Stimulus::Frame(INSIDE, buf, FrameMeta::default())
}

#[test]
fn a_door_keeps_the_laws() {
    let ms = Instant::from_millis;
    let steps = vec![
        (ms(3_210), syn("10.0.1.2:40000", "10.0.3.4:80")),
        // A retransmission, another attempt, one without a route, and one that is no connection of ours.
        (ms(4_220), syn("10.0.1.2:40000", "10.0.3.4:80")),
        (ms(4_300), syn("10.0.1.2:40001", "10.0.3.4:81")),
        (ms(4_300), syn("10.0.1.2:40002", "172.16.0.1:80")),
        (ms(4_500), segment("10.0.1.2:40003".parse().unwrap(), "10.0.3.4:80".parse().unwrap(), Flags::ACK, 9)),
        // After all earlier attempts were given up, from idle.
        (ms(60_000), syn("10.0.1.2:40000", "10.0.3.4:80")),
    ];
    // What one port sends may make room for the other's.
    let ports = vec![LANES, INSIDE, LANES, INSIDE];
    check(Doorway::new, &Script { steps, ports, end: Instant::from_secs(120) });
}

/// Memory per held attempt, in all tables of door and gateway.
const ATTEMPT_MEMORY: u64 = 4 << 10;
/// An idle gateway and door, and their state for a peer.
const IDLE_MEMORY: u64 = 2 << 20;

/// 20,000 SYNs from as many addresses towards a peer that does not answer.
#[test]
fn a_flooded_door_stays_within_its_memory() {
    let mut dice = Seed(2).chance("flood");
    let steps = (0..20_000u64).map(|n| {
        let source = SocketAddr::from((Ipv4Addr::new(10, 1, (n / 250) as u8, 1 + (n % 250) as u8), 40_000));
        let target = SocketAddr::from((Ipv4Addr::new(10, 0, 3, dice.below(250) as u8), 80));
        (Instant::from_micros(10_000 + 100 * n), segment(source, target, Flags::SYN, n as u32))
    });
    let ports = vec![LANES, INSIDE, LANES, INSIDE];
    let script = Script { steps: steps.collect(), ports, end: Instant::from_secs(8) };
    let most = Limits::default().total as u64 * ATTEMPT_MEMORY + IDLE_MEMORY;
    check_memory(Doorway::new, &script, most, |work| allocation_counter::measure(work).bytes_max);
}
