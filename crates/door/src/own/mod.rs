//! The engine on our own TCP: it takes and emits packets of applications and servers and needs no socket.
//!
//! Connections to servers come from an address of its own, or, as a proxy's, from the application's. A connection's token is its
//! `host` flow id.

mod fragments;
mod socket;

use crate::door::{Door, Gone};
use crate::engine::Engine;
use crate::far::{FarSide, FlowEvent};
use crate::socket::Rooms;
use crate::syn::{Refusal, Syn};
pub use fragments::{FRAGMENTED_MAX, Fragments, Gathered};
pub use socket::OwnSocket;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Entropy, FlowId, FrameMeta, Instant, IpPrefix, Machine, PortId, Span, Streams, Wakeup};
use wavelane_tcp::{Config, ConnectionState, Host, HostEvent, Status, TcpEvent};
use wavelane_wire::frame::Reason;
use wavelane_wire::icmp::{TooBig, Undelivered, Unreachable};
use wavelane_wire::tcp::TcpPacket;

/// Send buffer of each of the door's connections, and half of the maximum receive buffer; the same as the daemon's.
const SOCKET_BUFFER: usize = 256 << 10;
/// Bytes accepted and not sent; more would add delay.
const NOT_SENT_MAX: usize = 64 << 10;
/// Bytes here take little more than their own length, and the application gets window updates of half a window.
const PER_BYTE: usize = 4;
/// Initial and maximum receive buffer.
const ROOMS: Rooms = Rooms { first: 128 << 10, most: 2 * SOCKET_BUFFER, per_byte: PER_BYTE };
/// What a proxy lets a server send to a client that has not completed its handshake: one that speaks first would fill a buffer for each of
/// those who never do. An initial window (RFC 6928).
const HELD_WINDOW: usize = 16 << 10;
/// Interval of checks for SYNs held too long and connects given up.
const TICK: Span = Span::from_millis(50);
/// Most refusals that wait to be sent; further ones are dropped.
const REFUSALS_MAX: usize = 64;
/// Source ports of connections to servers.
const PORTS: core::ops::RangeInclusive<u16> = 32_768..=65_535;
/// Most turns of connections per call; the rest waits for the next call.
const TURNS_MAX: usize = 4_096;

/// See the module's description.
pub struct Own {
    host: Host,
    address: IpAddr,
    /// Connections to servers come from the application's address.
    keeps_source: bool,
    /// The receive buffers of its connections.
    rooms: Rooms,
    next_port: u16,
    refusals: VecDeque<(Refusal, IpAddr)>,
    ticked: Instant,
}

/// What became of a packet that a proxy was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// It is the proxy's.
    Taken,
    /// It begins a connection for which there is no room.
    NoRoom(Syn),
    /// It is none of the proxy's.
    Foreign,
}

/// A door on our own TCP.
pub type OwnDoor = Door<Own>;

impl Own {
    fn new(now: Instant, address: IpAddr, keeps_source: bool, rooms: Rooms, mut host: Host) -> Self {
        host.listen_everywhere();
        Self { host, address, keeps_source, rooms, next_port: *PORTS.start(), refusals: VecDeque::new(), ticked: now }
    }
    fn give_host(&mut self, now: Instant, packet: &mut [u8]) {
        let meta = FrameMeta { rx_time: now, ..FrameMeta::default() };
        self.host.handle_timeout(now);
        self.host.handle_frame(now, PortId(0), packet, meta);
    }
}

impl Engine for Own {
    type Held = Vec<u8>;
    type Fresh = FlowId;
    type Kept = ();
    type Socket<'a> = OwnSocket<'a>;
    type Tag = ();

    fn adopt(&mut self, name: FlowId) -> Option<(u64, ())> {
        Some((name.0, ()))
    }
    fn socket<'a>(&'a mut self, now: Instant, token: u64, (): &'a mut ()) -> OwnSocket<'a> {
        OwnSocket { host: &mut self.host, now, flow: FlowId(token), rooms: self.rooms }
    }
    fn connect(&mut self, now: Instant, from: Option<SocketAddr>, target: SocketAddr) -> Result<FlowId, Reason> {
        let address = from.map_or(self.address, |from| from.ip());
        let span = PORTS.end() - PORTS.start();
        let ports = (0..=span).map(|step| PORTS.start() + (self.next_port - PORTS.start() + step) % (span + 1));
        let local = match from {
            Some(from) => {
                // The application took the pair of addresses again, and our sequence numbers grow with time (RFC 6528): the server can
                // tell the new connection from the one that lingers (RFC 6191).
                if self.host.state_of(from, target) == Some(ConnectionState::TimeWait)
                    && let Some(old) = self.host.flow_of(from, target)
                {
                    self.host.reset(now, old);
                }
                Some(from).filter(|from| self.host.state_of(*from, target).is_none())
            }
            None => ports.map(|port| SocketAddr::new(address, port)).find(|l| self.host.state_of(*l, target).is_none()),
        };
        let local = local.filter(|local| local.is_ipv4() == target.is_ipv4()).ok_or(Reason::NoRoom)?;
        if from.is_none() {
            self.next_port = local.port().checked_add(1).unwrap_or(*PORTS.start());
        }
        let opened = match from {
            Some(_) => self.host.connect_within(now, local, target, HELD_WINDOW),
            None => self.host.connect(now, local, target),
        };
        opened.map_err(|_| Reason::NoRoom)
    }
    fn reset(&mut self, now: Instant, token: u64, (): ()) {
        self.host.reset(now, FlowId(token));
    }
    fn let_go(&mut self, now: Instant, mut held: Vec<u8>) {
        self.give_host(now, &mut held);
    }
    fn discard(&mut self, _: Vec<u8>) {}
    fn refuse(&mut self, refusal: Refusal, to: IpAddr) {
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push_back((refusal, to));
        }
    }
}

impl Door<Own> {
    /// A door that connects to servers from `address`. The door overrides the buffers of `config`.
    pub fn on_own_tcp(now: Instant, address: IpAddr, config: Config, entropy: Entropy) -> Self {
        let config = Config {
            nagle: false,
            send_buffer: SOCKET_BUFFER,
            unsent_low_water: Some(NOT_SENT_MAX),
            receive_buffer: ROOMS.first,
            ..config
        };
        Self::new(Own::new(now, address, false, ROOMS, Host::new(config, entropy)))
    }

    /// The door of a proxy, which keeps both addresses of each connection. `address` is the source of its ICMP messages. The buffers
    /// are those of `config`, or for connections with a remote address in a network of `towards` those named there. It fills them as
    /// the sender does in whose place it stands: with 64 KiB not sent at most, BBR behind it had 0.7 of 125 Mbit/s.
    pub fn of_proxy(
        now: Instant,
        address: IpAddr,
        config: &Config,
        towards: Vec<(IpPrefix, Config)>,
        entropy: Entropy,
    ) -> Self {
        let rooms = Rooms { first: config.receive_buffer, most: config.receive_buffer, per_byte: PER_BYTE };
        let host = Host::new(config.clone(), entropy);
        let mut door = Self::new(Own::new(now, address, true, rooms, host));
        door.tune(config, towards);
        door
    }

    /// Whether a TCP packet begins a connection or belongs to one of the door's.
    pub fn is_ours(&self, packet: &[u8]) -> bool {
        let known = |segment: TcpPacket<'_>| self.engine.host.state_of(segment.target, segment.source).is_some();
        Syn::parse(packet).is_some() || TcpPacket::parse(packet).is_ok_and(known)
    }

    /// Sets connections like this from now on: see [`OwnDoor::of_proxy`].
    pub fn tune(&mut self, config: &Config, towards: Vec<(IpPrefix, Config)>) {
        let own = |config: &Config| Config { nagle: false, ..config.clone() };
        let host = &mut self.engine.host;
        host.set_config(own(config));
        host.set_towards(towards.iter().map(|(network, config)| (*network, own(config))).collect());
    }

    /// Bounds what waits in the TCP of all connections.
    pub fn set_memory_max(&mut self, most: usize) {
        self.engine.host.set_memory_max(most);
    }

    /// Bytes that wait there.
    pub fn memory(&self) -> usize {
        self.engine.host.memory()
    }

    /// Answers a segment that is of no connection of the door's by a reset.
    pub fn reset_stranger(&mut self, packet: &[u8]) {
        if let Ok(segment) = TcpPacket::parse(packet) {
            self.engine.host.refuse(&segment);
        }
    }

    /// How many clients have not completed their handshake, and how many of those had to make room for newer ones.
    pub fn half_open(&self) -> (usize, u64) {
        self.engine.host.half_open()
    }

    /// Connections of applications have what this makes of their configuration, those to servers the configuration itself.
    pub fn set_callers(&mut self, of_callers: fn(Config) -> Config) {
        self.engine.host.set_callers(of_callers);
    }

    /// A link came up: connections in an outage try at once. Call [`OwnDoor::service`] afterwards.
    pub fn call_back(&mut self, now: Instant) {
        self.engine.host.call_back(now);
    }

    /// A gap of the links is near, or over: see [`Host::freeze`]. Take the packets afterwards.
    pub fn note_gap(&mut self, is_near: bool) {
        if is_near { self.engine.host.freeze() } else { self.engine.host.thaw() }
    }

    /// One of the door's connections, as its TCP sees it.
    pub fn tcp_status(&self, token: u64) -> Option<Status> {
        self.engine.host.status(FlowId(token))
    }

    /// As [`OwnDoor::handle_packet`] for a proxy that sees packets of others too: what becomes of it. `takes` says whether there is
    /// room for a connection that begins. Call [`OwnDoor::service`] afterwards.
    pub fn offer(&mut self, now: Instant, far: &mut impl FarSide, packet: &[u8], takes: bool) -> Offered {
        let Ok(segment) = TcpPacket::parse(packet) else { return self.offer_message(now, far, packet) };
        let host = &self.engine.host;
        let state = host.state_of(segment.target, segment.source);
        if matches!(state, None | Some(ConnectionState::TimeWait))
            && let Some(syn) = Syn::parse(packet)
        {
            if !takes {
                return Offered::NoRoom(syn);
            }
            self.handle_syn(now, far, syn, packet);
            return Offered::Taken;
        }
        // Where only the other half is left, this one was reset, and its end has yet to hear of that.
        if state.is_none() && host.state_of(segment.source, segment.target).is_none() {
            return Offered::Foreign;
        }
        self.engine.host.handle_timeout(now);
        self.engine.host.handle_segment(now, &segment);
        Offered::Taken
    }

    fn offer_message(&mut self, now: Instant, far: &mut impl FarSide, packet: &[u8]) -> Offered {
        if self.is_about_ours(packet) {
            self.engine.give_host(now, &mut packet.to_vec());
            return Offered::Taken;
        }
        let Ok(said) = Unreachable::parse(packet) else { return Offered::Foreign };
        let Some(flow) = self.engine.host.flow_of(said.source, said.target) else { return Offered::Foreign };
        // On a connection that stands it is no more than a hint (RFC 9293, section 3.9.2.2), and may be forged.
        if self.engine.host.connection(flow).is_some_and(|connection| connection.is_opening_with(said.seq)) {
            let why = match said.why {
                Undelivered::Host => Reason::Unreachable,
                Undelivered::Port => Reason::Refused,
                Undelivered::Prohibited => Reason::Prohibited,
            };
            self.failed(now, far, flow.0, why);
        }
        Offered::Taken
    }

    fn handle_syn(&mut self, now: Instant, far: &mut impl FarSide, syn: Syn, packet: &[u8]) {
        let Some(held) = self.take_syn(now, syn, packet.to_vec()) else { return };
        match far.towards(now, syn.target.ip()) {
            None => self.refuse_syn(&syn, Some(held), Reason::Unreachable),
            Some(way) => {
                self.begin_waiting(now);
                self.ask(now, far, way, (), syn, held);
            }
        }
    }

    /// A packet came from an application or a server. Call [`OwnDoor::service`] afterwards.
    pub fn handle_packet(&mut self, now: Instant, far: &mut impl FarSide, packet: &mut [u8]) {
        if let Some(syn) = Syn::parse(packet)
            && let Ok(segment) = TcpPacket::parse(packet)
        {
            let state = self.engine.host.state_of(segment.target, segment.source);
            if matches!(state, None | Some(ConnectionState::TimeWait)) {
                return self.handle_syn(now, far, syn, packet);
            }
        }
        self.engine.give_host(now, packet);
    }

    /// Whether it is a router's message about a connection of the door's TCP: that a packet was too long.
    pub fn is_about_ours(&self, packet: &[u8]) -> bool {
        TooBig::parse(packet).is_ok_and(|said| self.engine.host.state_of(said.source, said.target).is_some())
    }

    /// Takes what the far side reports. Call [`OwnDoor::service`] afterwards.
    pub fn handle_event(&mut self, now: Instant, far: &mut impl FarSide, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, source, target } => {
                self.begin_waiting(now);
                let from = self.engine.keeps_source.then_some(source);
                self.connect(now, far, flow, (), from, (source, target));
            }
            FlowEvent::Accepted(flow) => self.accepted(now, flow),
            FlowEvent::Refused(flow, why) | FlowEvent::Reset(flow, why) => {
                if let Some(Gone { syn, held, .. }) = self.flow_gone(now, flow) {
                    self.refuse_syn(&syn, held, why);
                }
            }
            FlowEvent::Ending(flow) => self.flow_ending(now, flow),
            FlowEvent::Readable(flow) | FlowEvent::Writable(flow) => self.flow_ready(flow),
            FlowEvent::Closed(flow) => self.flow_closed(flow),
        }
    }

    /// The next refusal, for an owner that sends them otherwise than by [`OwnDoor::poll_packet`].
    pub fn take_refusal(&mut self) -> Option<(Refusal, IpAddr)> {
        self.engine.refusals.pop_front()
    }

    /// The next packet for an application or a server.
    pub fn poll_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        while let Some((refusal, to)) = self.engine.refusals.pop_front() {
            let Some(packet) = refusal.into_packet(self.engine.address, to) else { continue };
            buf.get_mut(..packet.len())?.copy_from_slice(&packet);
            return Some(packet.len());
        }
        self.engine.host.poll_transmit(now, PortId(0), buf, 1).map(|sent| sent.len)
    }

    /// Time has passed. Call [`OwnDoor::service`] afterwards.
    pub fn handle_timeout(&mut self, now: Instant, far: &mut impl FarSide) {
        self.engine.host.handle_timeout(now);
        self.look_after_last_bytes(now, far);
        if self.waits() && now.since(self.engine.ticked) >= TICK {
            self.engine.ticked = now;
            self.tick(now, far);
        }
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let at = self.engine.ticked + TICK;
        let tick = self.waits().then_some(Wakeup { at, cause: "door: held SYNs and connects" });
        let last = self.deadline().map(|at| Wakeup { at, cause: "door: last bytes" });
        Wakeup::earliest(self.engine.host.poll_timeout(), Wakeup::earliest(tick, last))
    }

    /// Called before something starts to wait, so that no deadline lies in the past.
    fn begin_waiting(&mut self, now: Instant) {
        if !self.waits() {
            self.engine.ticked = now;
        }
    }

    /// Moves what can be moved. Returns whether anything was: then the far side and [`OwnDoor::poll_packet`] may have output.
    pub fn service(&mut self, now: Instant, far: &mut impl FarSide) -> bool {
        let mut acted = false;
        for _ in 0..TURNS_MAX {
            if let Some(event) = self.engine.host.poll_event() {
                self.take_host_event(now, far, event);
            } else if !self.serve_next(now, far) {
                break;
            }
            acted = true;
        }
        acted
    }

    /// The application of a proxy's connection is there: what its server sends is taken from now on.
    fn open_server(&mut self, now: Instant, (source, target): (SocketAddr, SocketAddr)) {
        if let Some(server) = self.engine.host.flow_of(source, target).filter(|_| self.engine.keeps_source) {
            self.engine.host.open_window(server);
            self.go_on(now, server.0);
        }
    }

    fn take_host_event(&mut self, now: Instant, far: &mut impl FarSide, event: HostEvent) {
        match event {
            HostEvent::Accepted { flow: name, local, remote } => match self.take(now, far, name, (remote, local)) {
                None => {
                    self.ready(name.0, true, true);
                    self.open_server(now, (remote, local));
                }
                Some(stranger) => self.engine.host.reset(now, stranger),
            },
            HostEvent::Connection(name, TcpEvent::Connected) => {
                match self.engine.keeps_source {
                    // The application goes on first: see `open_server`.
                    true => self.answered(now, far, name.0),
                    false => self.connected(now, far, name.0),
                }
                self.ready(name.0, true, true);
            }
            HostEvent::Connection(name, TcpEvent::Readable) => self.ready(name.0, true, false),
            HostEvent::Connection(name, TcpEvent::Writable) => self.ready(name.0, false, true),
            HostEvent::Connection(name, TcpEvent::Closed) => self.ready(name.0, true, true),
            HostEvent::Connection(name, TcpEvent::Refused | TcpEvent::Reset) => {
                self.failed(now, far, name.0, Reason::Refused);
            }
            HostEvent::Connection(name, TcpEvent::TimedOut) => self.failed(now, far, name.0, Reason::TimedOut),
        }
    }
}
