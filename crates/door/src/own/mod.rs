//! The door on our own TCP: it takes and emits packets of applications and servers and needs no socket.
//!
//! It does what the daemon's door does on the kernel's sockets. A SYN towards a peer's network is held until the far server has
//! answered; connections to servers come from an address of our own.

mod socket;

use crate::attempts::{Arrival, Attempts, Limits};
use crate::connections::{Connections, Due};
use crate::socket::{Rooms, Socket};
use crate::splice::{CHUNK, Moved, Splice, Stage, Turn};
use crate::syn::{Refusal, Syn, Unreachable};
use socket::OwnSocket;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wavelane_base::{Entropy, FlowId, FrameMeta, Instant, Machine, PortId, Span, Streams, Wakeup};
use wavelane_gateway::{Event, Gateway, Reason};
use wavelane_tcp::{Config, Event as TcpEvent, Host, HostEvent, State};
use wavelane_wire::ip::checksum;
use wavelane_wire::tcp::TcpPacket;

/// Send buffer of each of the door's connections, and half of the maximum receive buffer; the same as the daemon's.
const SOCKET_BUFFER: usize = 256 << 10;
/// Bytes accepted and not sent; more would add delay.
const NOT_SENT_MAX: usize = 64 << 10;
/// Initial and maximum receive buffer.
const ROOMS: Rooms = Rooms { first: 128 << 10, most: 2 * SOCKET_BUFFER };
/// How long a server may take to answer our connect.
const CONNECT_PATIENCE: Span = Span::from_secs(10);
/// Interval of checks for SYNs held too long and connects given up.
const TICK: Span = Span::from_millis(50);
/// Most refusals that wait to be sent; further ones are dropped.
const REFUSALS_MAX: usize = 64;
/// Source ports of connections to servers.
const PORTS: core::ops::RangeInclusive<u16> = 32_768..=65_535;
/// Most turns of connections per call; the rest waits for the next call.
const TURNS_MAX: usize = 4_096;

/// See the module's description. A connection's token is its `host` flow id.
pub struct OwnDoor {
    host: Host,
    address: IpAddr,
    next_port: u16,
    attempts: Attempts<Vec<u8>>,
    connections: Connections<()>,
    refusals: VecDeque<Vec<u8>>,
    ticked: Instant,
    scratch: Box<[u8; CHUNK]>,
}

impl OwnDoor {
    /// A door that connects to servers from `address`. The door overrides the buffers of `config`.
    pub fn new(now: Instant, address: IpAddr, config: Config, entropy: Entropy) -> Self {
        let config = Config {
            nagle: false,
            send_buffer: SOCKET_BUFFER,
            unsent_low_water: Some(NOT_SENT_MAX),
            receive_buffer: ROOMS.first,
            ..config
        };
        let mut host = Host::new(config, entropy);
        host.listen_everywhere();
        Self {
            host,
            address,
            next_port: *PORTS.start(),
            attempts: Attempts::new(Limits::default()),
            connections: Connections::default(),
            refusals: VecDeque::new(),
            ticked: now,
            scratch: Box::new([0; CHUNK]),
        }
    }

    /// A packet came from an application or a server. Call [`OwnDoor::service`] afterwards.
    pub fn handle_packet(&mut self, now: Instant, gateway: &mut Gateway, packet: &mut [u8]) {
        if let Some(syn) = Syn::parse(packet)
            && let Ok(segment) = TcpPacket::parse(packet)
        {
            let state = self.host.state_of(segment.target, segment.source);
            if matches!(state, None | Some(State::TimeWait)) {
                return self.take_syn(now, gateway, syn, packet);
            }
        }
        self.give_host(now, packet);
    }

    fn give_host(&mut self, now: Instant, packet: &mut [u8]) {
        let meta = FrameMeta { rx_time: now, ..FrameMeta::default() };
        self.host.handle_timeout(now);
        self.host.handle_frame(now, PortId(0), packet, meta);
    }

    fn take_syn(&mut self, now: Instant, gateway: &mut Gateway, syn: Syn, packet: &[u8]) {
        match self.attempts.arrive(now, syn, packet.to_vec()) {
            Arrival::GoOn(mut held) => self.give_host(now, &mut held),
            Arrival::Joined(_) | Arrival::PairFull(_) | Arrival::TableFull(_) => {}
            Arrival::New(held) => {
                let Some(peer) = gateway.peer_towards(now, syn.target.ip()) else {
                    return self.answer_refusal(&syn, Reason::Unreachable);
                };
                self.begin_waiting(now);
                // Without room it is dropped: its TCP retransmits it.
                if let Ok(flow) = gateway.open(now, peer, syn.source, syn.target) {
                    for ended in self.attempts.begin(now, syn, flow, (), held) {
                        gateway.reset(now, ended.flow);
                    }
                }
            }
        }
    }

    /// Takes a gateway's event about flows. Call [`OwnDoor::service`] afterwards.
    pub fn handle_event(&mut self, now: Instant, gateway: &mut Gateway, event: &Event) {
        match *event {
            Event::Incoming { flow, target, .. } => self.call(now, gateway, flow, target),
            Event::Accepted(flow) => {
                if let Some(Some(mut held)) = self.attempts.answered(now, flow) {
                    self.give_host(now, &mut held);
                }
            }
            Event::Refused(flow, why) | Event::Reset(flow, why) => match self.attempts.refused(flow) {
                Some((syn, ..)) => self.answer_refusal(&syn, why),
                None => self.leave(now, flow),
            },
            Event::Ending(flow) => self.connections.flow_ending(now, flow),
            Event::Readable(flow) | Event::Writable(flow) => self.connections.enqueue_flow(flow),
            Event::Closed(flow) => self.connections.flow_closed(flow),
            _ => {}
        }
    }

    /// The next packet for an application or a server.
    pub fn poll_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if let Some(packet) = self.refusals.pop_front() {
            buf.get_mut(..packet.len())?.copy_from_slice(&packet);
            return Some(packet.len());
        }
        self.host.poll_transmit(now, PortId(0), buf, 1).map(|sent| sent.len)
    }

    /// Time has passed. Call [`OwnDoor::service`] afterwards.
    pub fn handle_timeout(&mut self, now: Instant, gateway: &mut Gateway) {
        self.host.handle_timeout(now);
        self.look_after_last_bytes(now, gateway);
        if !self.waits() || now.since(self.ticked) < TICK {
            return;
        }
        self.ticked = now;
        let (_, ended) = self.attempts.expire(now);
        ended.iter().for_each(|ended| gateway.reset(now, ended.flow));
        for name in self.connections.late(now) {
            if let Some(flow) = self.remove(now, FlowId(name)) {
                gateway.refuse(now, flow, Reason::TimedOut);
            }
        }
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let tick = self.waits().then(|| Wakeup { at: self.ticked + TICK, cause: "door: held SYNs and connects" });
        let last = self.connections.deadline().map(|at| Wakeup { at, cause: "door: last bytes" });
        Wakeup::earliest(self.host.poll_timeout(), Wakeup::earliest(tick, last))
    }

    /// Called before something starts to wait, so that no deadline lies in the past.
    fn begin_waiting(&mut self, now: Instant) {
        if !self.waits() {
            self.ticked = now;
        }
    }

    fn waits(&self) -> bool {
        self.attempts.count() > 0 || self.connections.any_connecting()
    }

    /// Moves what can be moved. Returns whether anything was: then the gateway and [`OwnDoor::poll_packet`] may have output.
    pub fn service(&mut self, now: Instant, gateway: &mut Gateway) -> bool {
        let mut acted = false;
        for _ in 0..TURNS_MAX {
            if let Some(event) = self.host.poll_event() {
                self.take_host_event(now, gateway, event);
            } else if let Some(name) = self.connections.next_to_serve() {
                self.serve(now, gateway, FlowId(name));
            } else {
                break;
            }
            acted = true;
        }
        acted
    }

    fn take_host_event(&mut self, now: Instant, gateway: &mut Gateway, event: HostEvent) {
        match event {
            HostEvent::Accepted { flow: name, local, remote } => match self.attempts.take(remote, local) {
                Some((flow, ())) => {
                    self.insert(now, name, flow, Stage::Open);
                    self.connections.ready(name.0, true, true);
                }
                None => self.host.reset(now, name),
            },
            HostEvent::Connection(name, TcpEvent::Connected) => {
                if let Some(flow) = self.connections.opened(now, name.0) {
                    gateway.accept(now, flow);
                    self.connections.ready(name.0, true, true);
                }
            }
            HostEvent::Connection(name, TcpEvent::Readable) => self.connections.ready(name.0, true, false),
            HostEvent::Connection(name, TcpEvent::Writable) => self.connections.ready(name.0, false, true),
            HostEvent::Connection(name, TcpEvent::Closed) => self.connections.ready(name.0, true, true),
            HostEvent::Connection(name, TcpEvent::Refused | TcpEvent::Reset) => {
                self.failed(now, gateway, name, Reason::Refused);
            }
            HostEvent::Connection(name, TcpEvent::TimedOut) => self.failed(now, gateway, name, Reason::TimedOut),
        }
    }

    /// The connection failed; a pending connect is refused with `why`.
    fn failed(&mut self, now: Instant, gateway: &mut Gateway, name: FlowId, why: Reason) {
        let Some(connection) = self.connections.get(name.0) else { return };
        match connection.splice.stage {
            Stage::Connecting(_) => {
                let flow = connection.splice.flow;
                self.remove(now, name);
                gateway.refuse(now, flow, why);
            }
            Stage::Leaving => drop(self.remove(now, name)),
            Stage::Open | Stage::Waiting => self.connections.fail(name.0),
        }
    }

    /// Connects to a server for a peer's application.
    fn call(&mut self, now: Instant, gateway: &mut Gateway, flow: FlowId, target: SocketAddr) {
        let span = PORTS.end() - PORTS.start();
        let ports = (0..=span).map(|step| PORTS.start() + (self.next_port - PORTS.start() + step) % (span + 1));
        let address = self.address;
        let free = ports.map(|port| SocketAddr::new(address, port)).find(|l| self.host.state_of(*l, target).is_none());
        let Some(local) = free.filter(|local| local.is_ipv4() == target.is_ipv4()) else {
            return gateway.refuse(now, flow, Reason::NoRoom);
        };
        self.next_port = local.port().checked_add(1).unwrap_or(*PORTS.start());
        match self.host.connect(now, local, target) {
            Ok(name) => {
                self.begin_waiting(now);
                self.insert(now, name, flow, Stage::Connecting(now + CONNECT_PATIENCE));
            }
            Err(_) => gateway.refuse(now, flow, Reason::NoRoom),
        }
    }

    fn insert(&mut self, now: Instant, name: FlowId, flow: FlowId, stage: Stage) {
        self.connections.insert(name.0, Splice::new(now, ROOMS, flow, stage), ());
    }

    /// Removes a connection, whose other end sees a reset, and returns its flow.
    fn remove(&mut self, now: Instant, name: FlowId) -> Option<FlowId> {
        let connection = self.connections.forget(name.0)?;
        self.host.reset(now, name);
        Some(connection.splice.flow)
    }

    fn serve(&mut self, now: Instant, gateway: &mut Gateway, name: FlowId) {
        let Self { host, scratch, .. } = self;
        let turn = self.connections.serve(now, name.0, |splice, ()| {
            let mut moved = Moved::default();
            let mut socket = OwnSocket { host, now, flow: name, rooms: ROOMS };
            let turn = splice.turn(now, &mut socket, gateway, scratch, &mut moved);
            splice.moved.add(moved);
            turn
        });
        match turn {
            None | Some(Turn::Idle | Turn::More) => {}
            Some(Turn::SocketReset) => self.socket_reset(now, gateway, name),
            Some(Turn::FlowReset) => self.leave_by_name(now, name),
            Some(Turn::Done) => drop(self.connections.forget(name.0)),
        }
    }

    fn socket_reset(&mut self, now: Instant, gateway: &mut Gateway, name: FlowId) {
        let closed = self.connections.get(name.0).is_some_and(|connection| connection.splice.flow_closed);
        if let Some(flow) = self.remove(now, name).filter(|_| !closed) {
            gateway.reset(now, flow);
        }
    }

    /// The flow was reset.
    fn leave(&mut self, now: Instant, flow: FlowId) {
        if let Some(name) = self.connections.token_of(flow) {
            self.leave_by_name(now, FlowId(name));
        }
    }

    fn leave_by_name(&mut self, now: Instant, name: FlowId) {
        let mut socket = OwnSocket { host: &mut self.host, now, flow: name, rooms: ROOMS };
        if self.connections.leave(now, name.0, |splice, ()| splice.leave(now, &mut socket)).is_some() {
            self.host.reset(now, name);
        }
    }

    fn look_after_last_bytes(&mut self, now: Instant, gateway: &mut Gateway) {
        let host = &mut self.host;
        let undelivered = |name, (): &()| OwnSocket { host, now, flow: FlowId(name), rooms: ROOMS }.undelivered();
        for (name, due) in self.connections.last_bytes_over(now, undelivered, |flow| gateway.is_silent(flow)) {
            match due {
                Due::Drop => drop(self.remove(now, FlowId(name))),
                Due::Reset => self.socket_reset(now, gateway, FlowId(name)),
            }
        }
    }

    /// Tells the application why the far side refused, by TCP reset or ICMP.
    fn answer_refusal(&mut self, syn: &Syn, why: Reason) {
        let refusal = match why {
            Reason::Refused | Reason::Aborted | Reason::Restarted | Reason::Complete | Reason::Corrupted => syn.reset(),
            Reason::Unreachable | Reason::TimedOut => syn.unreachable(Unreachable::Host),
            Reason::Prohibited => syn.unreachable(Unreachable::Prohibited),
            // No answer: the application's TCP retransmits its SYN, and there may be room by then.
            Reason::NoRoom => return,
        };
        let Refusal::Packet(mut packet) = refusal else { return };
        if let IpAddr::V4(own) = self.address {
            complete(&mut packet, own);
        }
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push_back(packet);
        }
    }
}

/// An IPv4 packet without a source is ours.
fn complete(packet: &mut [u8], own: Ipv4Addr) {
    let Some(header) = packet.get_mut(..20).filter(|header| header[0] >> 4 == 4 && header[12..16] == [0; 4]) else {
        return;
    };
    header[12..16].copy_from_slice(&own.octets());
    header[10..12].fill(0);
    let sum = checksum(&[header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod laws_tests;
