//! The door on our own TCP: packets of applications and servers go in and come out, and no socket is needed.
//!
//! It does what the daemon's door does on the kernel's sockets. A SYN towards a peer's network waits until the far server has
//! answered; a server is called from an address of our own.

mod socket;

use crate::attempts::{Arrival, Attempts, Limits};
use crate::last_bytes::LastBytes;
use crate::socket::{Rooms, Socket};
use crate::splice::{CHUNK, Moved, Splice, Stage, Turn};
use crate::syn::{Refusal, Syn, Unreachable};
use socket::OwnSocket;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wavelane_base::{Entropy, FlowId, FrameMeta, Instant, Machine, PortId, Span, Streams, Wakeup};
use wavelane_gateway::{Event, Gateway, Reason};
use wavelane_tcp::{Config, Event as TcpEvent, Host, HostEvent, State};
use wavelane_wire::ip::checksum;
use wavelane_wire::tcp::TcpPacket;

/// Send buffer of each of the door's connections, and half of what its receive buffer may become; the daemon's is as large.
const SOCKET_BUFFER: usize = 256 << 10;
/// Bytes accepted and not sent; more would grow old there.
const NOT_SENT_MAX: usize = 64 << 10;
/// Receive buffer at first, and at the most.
const ROOMS: Rooms = Rooms { first: 128 << 10, most: 2 * SOCKET_BUFFER };
/// How long a server may take to answer our connect.
const CONNECT_PATIENCE: Span = Span::from_secs(10);
/// How often SYNs held too long and connects given up are looked for.
const TICK: Span = Span::from_millis(50);
/// Most refusals that wait to be sent; further ones are not.
const REFUSALS_MAX: usize = 64;
/// The ports from which servers are called.
const PORTS: core::ops::RangeInclusive<u16> = 32_768..=65_535;
/// Turns of connections at one moment before the rest waits for the next call.
const TURNS_MAX: usize = 4_096;

#[derive(Debug)]
struct Connection {
    splice: Splice,
    queued: bool,
}

/// See the module's description. Connections go by the names that `host` gives them.
pub struct OwnDoor {
    host: Host,
    address: IpAddr,
    next_port: u16,
    attempts: Attempts<Vec<u8>>,
    connections: BTreeMap<FlowId, Connection>,
    of_flow: BTreeMap<FlowId, FlowId>,
    /// Connections whose connect has not ended.
    connecting: usize,
    last_bytes: LastBytes,
    to_serve: VecDeque<FlowId>,
    refusals: VecDeque<Vec<u8>>,
    ticked: Instant,
    scratch: Box<[u8; CHUNK]>,
}

impl OwnDoor {
    /// A door that calls servers from `address`. Of `config` the buffers are the door's own.
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
            connections: BTreeMap::new(),
            of_flow: BTreeMap::new(),
            connecting: 0,
            last_bytes: LastBytes::default(),
            to_serve: VecDeque::new(),
            refusals: VecDeque::new(),
            ticked: now,
            scratch: Box::new([0; CHUNK]),
        }
    }

    /// A packet came from an application or a server. Call [`OwnDoor::service`] afterwards.
    pub fn handle_packet(&mut self, now: Instant, gateway: &mut Gateway, packet: &mut [u8]) {
        if let (Some(syn), Ok(segment)) = (Syn::parse(packet), TcpPacket::parse(packet)) {
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
                // Without room it is dropped: its TCP repeats it.
                if let Ok(flow) = gateway.open(now, peer, syn.source, syn.target) {
                    for ended in self.attempts.begin(now, syn, flow, (), held) {
                        gateway.reset(now, ended.flow);
                    }
                }
            }
        }
    }

    /// Takes what the gateway says of flows. Call [`OwnDoor::service`] afterwards.
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
            Event::Ending(flow) => {
                if let Some(&name) = self.of_flow.get(&flow) {
                    self.last_bytes.begin(now, name.0);
                    self.enqueue(name);
                }
            }
            Event::Readable(flow) | Event::Writable(flow) => self.enqueue_flow(flow),
            Event::Closed(flow) => {
                let name = self.of_flow.get(&flow);
                if let Some(connection) = name.and_then(|name| self.connections.get_mut(name)) {
                    connection.splice.flow_closed = true;
                }
                self.enqueue_flow(flow);
            }
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
        let late = |c: &Connection| matches!(c.splice.stage, Stage::Connecting(until) if until <= now);
        let late: Vec<FlowId> = self.connections.iter().filter(|(_, c)| late(c)).map(|(name, _)| *name).collect();
        for name in late {
            if let Some(connection) = self.remove(now, name) {
                gateway.refuse(now, connection.splice.flow, Reason::TimedOut);
            }
        }
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let tick = self.waits().then(|| Wakeup { at: self.ticked + TICK, cause: "door: held SYNs and connects" });
        let last = self.last_bytes.deadline().map(|at| Wakeup { at, cause: "door: last bytes" });
        Wakeup::earliest(self.host.poll_timeout(), Wakeup::earliest(tick, last))
    }

    /// Called before something waits: a deadline never lies in the past.
    fn begin_waiting(&mut self, now: Instant) {
        if !self.waits() {
            self.ticked = now;
        }
    }

    fn waits(&self) -> bool {
        self.attempts.count() > 0 || self.connecting > 0
    }

    /// Moves what can be moved. Returns whether that was anything: then the gateway and [`OwnDoor::poll_packet`] may have
    /// something to say.
    pub fn service(&mut self, now: Instant, gateway: &mut Gateway) -> bool {
        let mut acted = false;
        for _ in 0..TURNS_MAX {
            if let Some(event) = self.host.poll_event() {
                self.take_host_event(now, gateway, event);
            } else if let Some(name) = self.to_serve.pop_front() {
                self.serve(now, gateway, name);
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
                    self.ready(name, true, true);
                }
                None => self.host.reset(now, name),
            },
            HostEvent::Connection(name, TcpEvent::Connected) => {
                let Some(connection) = self.connections.get_mut(&name) else { return };
                connection.splice.opened(now);
                self.connecting -= 1;
                gateway.accept(now, connection.splice.flow);
                self.ready(name, true, true);
            }
            HostEvent::Connection(name, TcpEvent::Readable) => self.ready(name, true, false),
            HostEvent::Connection(name, TcpEvent::Writable) => self.ready(name, false, true),
            HostEvent::Connection(name, TcpEvent::Closed) => self.ready(name, true, true),
            HostEvent::Connection(name, TcpEvent::Refused | TcpEvent::Reset | TcpEvent::TimedOut) => {
                self.failed(now, gateway, name, event);
            }
        }
    }

    fn failed(&mut self, now: Instant, gateway: &mut Gateway, name: FlowId, event: HostEvent) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        match connection.splice.stage {
            Stage::Connecting(_) => {
                let timed_out = matches!(event, HostEvent::Connection(_, TcpEvent::TimedOut));
                let flow = connection.splice.flow;
                self.remove(now, name);
                gateway.refuse(now, flow, if timed_out { Reason::TimedOut } else { Reason::Refused });
            }
            Stage::Leaving => drop(self.remove(now, name)),
            Stage::Open | Stage::Waiting => {
                connection.splice.fail();
                self.enqueue(name);
            }
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
                self.connecting += 1;
                self.insert(now, name, flow, Stage::Connecting(now + CONNECT_PATIENCE));
            }
            Err(_) => gateway.refuse(now, flow, Reason::NoRoom),
        }
    }

    fn insert(&mut self, now: Instant, name: FlowId, flow: FlowId, stage: Stage) {
        let splice = Splice::new(now, ROOMS, flow, stage);
        self.connections.insert(name, Connection { splice, queued: false });
        self.of_flow.insert(flow, name);
    }

    /// Forgets a connection; unless its end was orderly, its other end sees a reset.
    fn remove(&mut self, now: Instant, name: FlowId) -> Option<Connection> {
        let connection = self.forget(name)?;
        self.host.reset(now, name);
        Some(connection)
    }

    fn forget(&mut self, name: FlowId) -> Option<Connection> {
        let connection = self.connections.remove(&name)?;
        self.of_flow.remove(&connection.splice.flow);
        self.last_bytes.forget(name.0);
        self.connecting -= usize::from(matches!(connection.splice.stage, Stage::Connecting(_)));
        Some(connection)
    }

    fn ready(&mut self, name: FlowId, readable: bool, writable: bool) {
        if let Some(connection) = self.connections.get_mut(&name) {
            connection.splice.readable |= readable;
            connection.splice.writable |= writable;
            self.enqueue(name);
        }
    }

    fn enqueue_flow(&mut self, flow: FlowId) {
        if let Some(&name) = self.of_flow.get(&flow) {
            self.enqueue(name);
        }
    }

    fn enqueue(&mut self, name: FlowId) {
        if let Some(connection) = self.connections.get_mut(&name)
            && !core::mem::replace(&mut connection.queued, true)
        {
            self.to_serve.push_back(name);
        }
    }

    fn serve(&mut self, now: Instant, gateway: &mut Gateway, name: FlowId) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        connection.queued = false;
        if connection.splice.stage != Stage::Open {
            return;
        }
        let mut moved = Moved::default();
        let mut socket = OwnSocket { host: &mut self.host, now, flow: name, rooms: ROOMS };
        let turn = connection.splice.turn(now, &mut socket, gateway, &mut self.scratch, &mut moved);
        connection.splice.moved.add(moved);
        let (flow, failed) = (connection.splice.flow, connection.splice.failed().is_some());
        match turn {
            // What a closed socket still holds waits for room in the flow.
            Turn::Idle if failed => self.last_bytes.begin(now, name.0),
            Turn::Idle => {}
            Turn::More => self.enqueue(name),
            Turn::SocketReset => self.socket_reset(now, gateway, name),
            Turn::FlowReset => self.leave(now, flow),
            Turn::Done => drop(self.forget(name)),
        }
    }

    fn socket_reset(&mut self, now: Instant, gateway: &mut Gateway, name: FlowId) {
        if let Some(connection) = self.remove(now, name)
            && !connection.splice.flow_closed
        {
            gateway.reset(now, connection.splice.flow);
        }
    }

    /// The flow was reset: so is the connection, but not before its other end has what it was given.
    fn leave(&mut self, now: Instant, flow: FlowId) {
        let Some(&name) = self.of_flow.get(&flow) else { return };
        let Some(connection) = self.connections.get_mut(&name) else { return };
        let connecting = matches!(connection.splice.stage, Stage::Connecting(_));
        let mut socket = OwnSocket { host: &mut self.host, now, flow: name, rooms: ROOMS };
        if connecting || !connection.splice.leave(now, &mut socket) {
            self.remove(now, name);
            return;
        }
        self.of_flow.remove(&flow);
        self.last_bytes.begin(now, name.0);
    }

    fn look_after_last_bytes(&mut self, now: Instant, gateway: &mut Gateway) {
        for token in self.last_bytes.due(now) {
            let name = FlowId(token);
            let Some(connection) = self.connections.get(&name) else { continue };
            let socket = OwnSocket { host: &mut self.host, now, flow: name, rooms: ROOMS };
            let left = match connection.splice.failed() {
                None => socket.undelivered(),
                Some(taken) => (!gateway.is_silent(connection.splice.flow)).then_some(taken),
            };
            match (connection.splice.stage, left) {
                (Stage::Leaving, None) => drop(self.remove(now, name)),
                // More may come over the link, however long that takes.
                (_, None) => self.last_bytes.idle(token),
                (_, Some(taken)) if self.last_bytes.lasts(now, token, taken) => {}
                (Stage::Leaving, Some(_)) => drop(self.remove(now, name)),
                (_, Some(_)) => self.socket_reset(now, gateway, name),
            }
        }
    }

    /// Tells the application what the far side said, in the words TCP/IP has for it.
    fn answer_refusal(&mut self, syn: &Syn, why: Reason) {
        let refusal = match why {
            Reason::Refused | Reason::Aborted | Reason::Restarted | Reason::Complete | Reason::Corrupted => syn.reset(),
            Reason::Unreachable | Reason::TimedOut => syn.unreachable(Unreachable::Host),
            Reason::Prohibited => syn.unreachable(Unreachable::Prohibited),
            // Silence: the application's TCP repeats its SYN, and there may be room by then.
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
