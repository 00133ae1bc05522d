//! An end host: many connections behind one address, as one [`Machine`] on one port.

use super::config::Config;
use super::connection::{Connection, Status, TcpEvent};
use super::numbers::Numbering;
use super::pool::{Pool, memory_own};
use super::receive::Receiver;
use super::silence::{Silence, Whose};
use super::state::ConnectionState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;
use wavelane_base::{
    Class, Entropy, FlowId, FrameMeta, Instant, IpPrefix, Machine, PortId, ReadOutcome, Streams, Transmit, Wakeup,
};
use wavelane_wire::icmp::TooBig;
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};

/// Most connections at once, TIME-WAIT included.
const CONNECTIONS_MAX: usize = 65_536;
/// Most half-open connections; one more ends the oldest, which nobody answered for longest.
pub(crate) const HALF_OPEN_MAX: usize = 1_024;
/// SYN-ACKs that a transparent host repeats: 15 s in all.
const SYN_ACK_RETRIES: u32 = 3;
/// Most queued resets for segments without a connection; further ones are not sent.
const RESETS_MAX: usize = 64;

/// Why a connection cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HostError {
    /// The pair of addresses is in use.
    #[error("the two addresses already have a connection: choose another local port")]
    InUse,
    /// Too many connections.
    #[error("the host holds {CONNECTIONS_MAX} connections, the most it may: close some first")]
    Full,
}

/// What a host reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// A peer connected to a port that listens.
    Accepted {
        /// The connection.
        flow: FlowId,
        /// The address it connected to.
        local: SocketAddr,
        /// Its own address.
        remote: SocketAddr,
    },
    /// Something happened on a connection. After [`TcpEvent::Closed`], [`TcpEvent::Refused`], [`TcpEvent::Reset`] and
    /// [`TcpEvent::TimedOut`] its identifier is invalid.
    Connection(FlowId, TcpEvent),
}

/// A connection, and what its host knows of it.
struct Held {
    /// Elsewhere, since a map's nodes have places for more than they hold.
    connection: Box<Connection>,
    /// Its entry among the deadlines.
    armed: Option<Wakeup>,
    /// It is in the queue of those that may have something to send.
    active: bool,
    /// It is in the queue of those that have something to report.
    reporting: bool,
    /// It is in the queue of those whose promise counts in the pool.
    promised: bool,
}

/// Promises looked at for each segment that comes, which adds one at most.
const PROMISES_LOOKED_AT: usize = 2;

/// A host with addresses of either version of IP.
pub struct Host {
    config: Config,
    numbering: Numbering,
    /// With the configuration for connections accepted there, if it differs from the host's.
    listening: BTreeMap<SocketAddr, Option<Config>>,
    /// Connections to every other address are accepted too.
    transparent: bool,
    /// What is otherwise for connections that others open.
    of_callers: Option<fn(Config) -> Config>,
    /// Connections in an outage, by their side's place in `towards` and their remote address.
    silence: Silence,
    /// Those in TIME-WAIT in the order in which they came to it, and others among them that are gone.
    lingering: VecDeque<FlowId>,
    /// Configurations for connections with remote addresses in a network; the first that holds an address counts.
    towards: Vec<(IpPrefix, Config)>,
    connections: BTreeMap<FlowId, Held>,
    /// (local, remote) to the connection.
    pairs: BTreeMap<(SocketAddr, SocketAddr), FlowId>,
    deadlines: BTreeSet<(Instant, FlowId)>,
    /// Connections that may have something to send.
    active: VecDeque<FlowId>,
    resets: VecDeque<(SocketAddr, SocketAddr, TcpHeader)>,
    /// Connections that have something to report.
    reporting: VecDeque<FlowId>,
    /// In the order in which they came.
    half_open: BTreeSet<FlowId>,
    /// How many of them had to make room.
    evicted: u64,
    pool: Pool,
    next: u64,
}

impl Host {
    /// A host that opens and accepts connections with `config`. The secret behind initial sequence numbers comes from `entropy`.
    pub fn new(config: Config, entropy: Entropy) -> Self {
        Self {
            config,
            numbering: Numbering::new(entropy),
            listening: BTreeMap::new(),
            transparent: false,
            of_callers: None,
            silence: Silence::default(),
            lingering: VecDeque::new(),
            towards: Vec::new(),
            connections: BTreeMap::new(),
            pairs: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            active: VecDeque::new(),
            resets: VecDeque::new(),
            reporting: VecDeque::new(),
            half_open: BTreeSet::new(),
            evicted: 0,
            pool: Pool::default(),
            next: 0,
        }
    }

    /// Accepts connections to `address` from now on.
    pub fn listen(&mut self, address: SocketAddr) {
        self.listening.insert(address, None);
    }
    /// The same, with a separate configuration for connections accepted there.
    pub fn listen_with(&mut self, address: SocketAddr, config: Config) {
        self.listening.insert(address, Some(config));
    }

    /// Accepts connections to every address from now on: the caller selects segments.
    pub fn listen_everywhere(&mut self) {
        self.transparent = true;
    }

    /// Connections with remote addresses in one of these networks, whoever opens them, have a configuration of their own from now
    /// on. The first network that holds an address counts.
    pub fn set_towards(&mut self, towards: Vec<(IpPrefix, Config)>) {
        self.towards = towards;
    }
    /// The place of an address's side; all without one are one side.
    fn side_of(&self, remote: IpAddr) -> usize {
        self.towards.iter().position(|(network, _)| network.contains(remote)).unwrap_or(usize::MAX)
    }
    fn whose(&self, flow: FlowId) -> Option<Whose> {
        let remote = self.connection(flow)?.addresses().1.ip();
        Some(Whose { flow, side: self.side_of(remote), remote })
    }
    /// A side may be heard again, or all, as when a link came up: connections in an outage try at once.
    pub fn call_back(&mut self, now: Instant) {
        let flows = self.silence.call_back(now);
        self.go_on(now, flows);
    }
    /// A gap is near: whoever sends to a connection that knows of gaps ([`Config::freeze`]) is told to stop, until [`Host::thaw`].
    pub fn freeze(&mut self) {
        self.of_all(Connection::freeze);
    }
    /// It is over.
    pub fn thaw(&mut self) {
        self.of_all(Connection::thaw);
    }
    fn of_all(&mut self, action: fn(&mut Connection)) {
        let knows = |held: &Held| held.connection.config.freeze.is_some();
        let flows = self.connections.iter().filter(|(_, held)| knows(held)).map(|(flow, _)| *flow);
        for flow in flows.collect::<Vec<_>>() {
            self.at(flow, action);
        }
    }
    fn go_on(&mut self, now: Instant, flows: Vec<FlowId>) {
        for flow in flows {
            self.at(flow, |connection| connection.sender.call_back(now));
            self.note_silence(now, flow);
        }
    }
    /// A segment came from an address. If its side was out, connections that fell silent in that outage go on; if only the address was,
    /// those there do.
    fn hear(&mut self, now: Instant, remote: IpAddr) {
        let side = self.side_of(remote);
        let Some((mut flows, side_was_out)) = self.silence.hear(now, side, remote) else { return };
        let probe = |flow: FlowId| self.connection(flow).and_then(|connection| connection.config.probe);
        flows.retain(|(flow, out)| probe(*flow).is_some_and(|probe| *out >= probe));
        if side_was_out {
            // One of each of the others tries by itself now.
            self.silence.probers(side).into_iter().for_each(|flow| self.note_silence(now, flow));
        }
        self.go_on(now, flows.into_iter().map(|(flow, _)| flow).collect());
    }
    /// Keeps account of a connection whose timers or segments may have begun or ended its silence.
    fn note_silence(&mut self, now: Instant, flow: FlowId) {
        let Some(connection) = self.connection(flow) else { return };
        let (silent, probe) = (connection.is_silent(), connection.config.probe);
        if !silent && self.silence.is_empty() {
            return;
        }
        let Some(whose) = self.whose(flow) else { return };
        if let Some(probe) = probe.filter(|_| silent) {
            self.silence.enter(now, whose);
            let tries = self.silence.tries(now, whose, probe);
            self.at(flow, |connection| connection.sender.set_probes(now, tries));
        } else if let Some(next) = self.silence.leave(whose) {
            self.at(flow, |connection| connection.sender.probes = false);
            next.into_iter().for_each(|next| self.note_silence(now, next));
        }
    }
    /// Whoever has tried in vain lets the next one try.
    fn pass_on(&mut self, now: Instant, flow: FlowId) {
        let probe = self.connection(flow).and_then(|connection| connection.config.probe);
        if let (Some(whose), Some(probe)) = (self.whose(flow), probe) {
            let next = self.silence.pass_on(now, whose, probe);
            next.into_iter().filter(|next| *next != flow).for_each(|next| self.note_silence(now, next));
        }
    }
    fn config_towards(&self, remote: IpAddr) -> &Config {
        self.towards.iter().find(|(network, _)| network.contains(remote)).map_or(&self.config, |(_, config)| config)
    }

    /// Bounds what waits to be read, is promised room, or waits to be acknowledged, in all connections together; for as many of them
    /// as it has room for [`memory_own`] each way.
    pub fn set_memory_max(&mut self, most: usize) {
        let own = memory_own(self.towards.iter().map(|(_, config)| config).chain([&self.config]));
        self.pool.bound(most, own, self.connections.values().map(|held| &*held.connection));
    }
    /// Bytes in all buffers.
    pub fn memory(&self) -> usize {
        self.pool.held
    }
    /// Promises to those that have gone idle since are withdrawn, some at a time.
    fn withdraw_promises(&mut self, now: Instant) {
        for _ in 0..PROMISES_LOOKED_AT.min(self.pool.promised.len()) {
            let Some(flow) = self.pool.promised.pop_front() else { return };
            let Some(Held { connection, promised, .. }) = self.connections.get_mut(&flow) else { continue };
            *promised = self.pool.promises(connection) && !self.pool.withdraws(now, connection);
            if *promised {
                self.pool.promised.push_back(flow);
            }
        }
    }
    /// What is written to a connection comes from the one with the same ends, the other way round: while that one's segments are full,
    /// more may follow, and small segments wait for it.
    pub fn expect_more(&mut self, flow: FlowId) {
        let Some((local, remote)) = self.connection(flow).map(Connection::addresses) else { return };
        let other = self.flow_of(remote, local).and_then(|other| self.connection(other));
        let more = other.is_some_and(|other| other.receiver.more && other.receiver.fin.is_none());
        if let Some(held) = self.connections.get_mut(&flow) {
            held.connection.sender.more = more;
        }
    }

    /// Connections that others open have what this makes of their configuration.
    pub fn set_callers(&mut self, of_callers: fn(Config) -> Config) {
        self.of_callers = Some(of_callers);
    }

    /// Changes the configuration of connections from now on.
    pub fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`HostError`] if the pair of addresses is in use or the host is full.
    pub fn connect(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Result<FlowId, HostError> {
        let config = self.config_towards(remote.ip()).clone();
        self.connect_with(now, local, remote, &config)
    }

    /// Opens a connection with a configuration of its own.
    ///
    /// # Errors
    /// [`HostError`] if the pair of addresses is in use or the host is full.
    pub fn connect_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
    ) -> Result<FlowId, HostError> {
        if self.pairs.contains_key(&(local, remote)) {
            return Err(HostError::InUse);
        }
        if !self.make_room() {
            return Err(HostError::Full);
        }
        let numbers = self.numbering.of(now, local, remote);
        let connection = Connection::connect(now, config, local, remote, numbers);
        Ok(self.insert(connection))
    }

    /// The same as [`Host::connect`], with a window of at most `octets` until [`Host::open_window`].
    ///
    /// # Errors
    /// [`HostError`] if the pair of addresses is in use or the host is full.
    pub fn connect_within(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        octets: usize,
    ) -> Result<FlowId, HostError> {
        let flow = self.connect(now, local, remote)?;
        if let Some(held) = self.connections.get_mut(&flow) {
            held.connection.receiver.limit = held.connection.receiver.limit.min(octets);
        }
        Ok(flow)
    }
    /// See [`Host::connect_within`].
    pub fn open_window(&mut self, flow: FlowId) {
        self.at(flow, |connection| {
            let limit = Receiver::first_limit(&connection.config);
            connection.receiver.limit = connection.receiver.limit.max(limit);
        });
    }

    /// A connection's view of itself.
    pub fn status(&self, flow: FlowId) -> Option<Status> {
        self.connection(flow).map(Connection::status)
    }
    /// The state of the connection between two addresses, ours first.
    pub fn state_of(&self, local: SocketAddr, remote: SocketAddr) -> Option<ConnectionState> {
        self.connection(*self.pairs.get(&(local, remote))?).map(Connection::state)
    }
    /// The connection between two addresses, ours first.
    pub fn flow_of(&self, local: SocketAddr, remote: SocketAddr) -> Option<FlowId> {
        self.pairs.get(&(local, remote)).copied()
    }
    /// A connection, for its owner to inspect.
    pub fn connection(&self, flow: FlowId) -> Option<&Connection> {
        self.connections.get(&flow).map(|held| &*held.connection)
    }
    /// Sets the receive buffer to `octets`, including bytes already waiting. The announced window is kept.
    pub fn set_receive_buffer(&mut self, flow: FlowId, octets: usize) {
        self.at(flow, |connection| connection.set_receive_buffer(octets));
    }
    /// Every connection's view of itself, oldest first.
    pub fn statuses(&self) -> impl Iterator<Item = Status> + '_ {
        self.connections.values().map(|held| held.connection.status())
    }
    /// How many connections there are, TIME-WAIT included.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// How many connections that others opened wait for the end of their handshake, and how many of those ended to make room.
    pub fn half_open(&self) -> (usize, u64) {
        (self.half_open.len(), self.evicted)
    }

    /// Whether one more connection fits. If not, those that linger longest end before their time (as Linux's do beyond its
    /// `tcp_max_tw_buckets`).
    fn make_room(&mut self) -> bool {
        while self.connections.len() >= CONNECTIONS_MAX {
            let Some(flow) = self.lingering.pop_front() else { return false };
            if self.connection(flow).is_some_and(|connection| connection.state() == ConnectionState::TimeWait) {
                self.at(flow, |connection| connection.finish(Some(TcpEvent::Closed)));
                self.forget(flow);
            }
        }
        true
    }

    fn insert(&mut self, connection: Connection) -> FlowId {
        let flow = FlowId(self.next);
        self.next += 1;
        self.pairs.insert(connection.addresses(), flow);
        self.connections.insert(
            flow,
            Held { connection: Box::new(connection), armed: None, active: true, reporting: false, promised: false },
        );
        self.active.push_back(flow);
        flow
    }

    /// Sets a connection's entry among the deadlines.
    fn rearm(&mut self, flow: FlowId) {
        let Some(held) = self.connections.get_mut(&flow) else { return };
        let wakeup = held.connection.poll_timeout();
        let old = core::mem::replace(&mut held.armed, wakeup).map(|old| old.at);
        let new = wakeup.map(|new| new.at);
        if old != new {
            if let Some(at) = old {
                self.deadlines.remove(&(at, flow));
            }
            self.deadlines.extend(new.map(|at| (at, flow)));
        }
    }

    /// Applies `action` to a connection and updates the host's bookkeeping. The drain that follows sets its deadline.
    fn at<T>(&mut self, flow: FlowId, action: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let count = self.connections.len();
        let held = self.connections.get_mut(&flow)?;
        let connection = &mut held.connection;
        let was = connection.state();
        let result = self.pool.within(count, connection, action);
        if self.pool.promises(connection) && !core::mem::replace(&mut held.promised, true) {
            self.pool.promised.push_back(flow);
        }
        let (is, passive) = (connection.state(), connection.passive);
        if passive && was == ConnectionState::SynReceived && is != was {
            self.half_open.remove(&flow);
            if is == ConnectionState::Closed {
                // It was never reported, so neither is its end.
                connection.events = Default::default();
            }
        }
        if is == ConnectionState::TimeWait && was != is {
            self.lingering.push_back(flow);
        }
        if connection.events != <[bool; 7]>::default() && !core::mem::replace(&mut held.reporting, true) {
            self.reporting.push_back(flow);
        }
        if !core::mem::replace(&mut held.active, true) {
            self.active.push_back(flow);
        }
        Some(result)
    }

    /// Removes a connection that is closed and has nothing left to send or report.
    fn forget(&mut self, flow: FlowId) {
        if !self.connection(flow).is_some_and(Connection::is_done) {
            return;
        }
        let Some(Held { connection, armed, .. }) = self.connections.remove(&flow) else { return };
        self.pool.forget(&connection);
        if !self.silence.is_empty() {
            let remote = connection.addresses().1.ip();
            self.silence.leave(Whose { flow, side: self.side_of(remote), remote });
        }
        while self.lingering.front().is_some_and(|flow| !self.connections.contains_key(flow)) {
            self.lingering.pop_front();
        }
        if self.pairs.get(&connection.addresses()) == Some(&flow) {
            self.pairs.remove(&connection.addresses());
        }
        if let Some(armed) = armed {
            self.deadlines.remove(&(armed.at, flow));
        }
    }

    fn take_message(&mut self, now: Instant, packet: &[u8]) {
        let Ok(message) = TooBig::parse(packet) else { return };
        if let Some(&flow) = self.pairs.get(&(message.source, message.target)) {
            self.at(flow, |connection| connection.handle_too_big(now, &message));
        }
    }

    /// A segment arrived. [`Machine::handle_frame`] reads it out of a packet.
    pub fn handle_segment(&mut self, now: Instant, segment: &TcpPacket<'_>) {
        self.withdraw_promises(now);
        if is_unicast(segment.source.ip()) && is_unicast(segment.target.ip()) {
            self.take(now, segment);
        }
    }

    fn take(&mut self, now: Instant, segment: &TcpPacket<'_>) {
        let header = &segment.header;
        let pair = (segment.target, segment.source);
        let plain_syn = header.flags.has(Flags::SYN) && !header.flags.has(Flags::ACK) && !header.flags.has(Flags::RST);
        if let Some(&flow) = self.pairs.get(&pair) {
            if plain_syn && self.may_follow(flow, header) {
                // A new connection from the same address ends the old one's TIME-WAIT (RFC 6191).
                self.at(flow, |connection| connection.finish(Some(TcpEvent::Closed)));
                self.forget(flow);
            } else {
                if self.connection(flow).is_some_and(|connection| connection.refuses(header)) {
                    self.answer_with_reset(segment);
                }
                let heard = self.at(flow, |connection| {
                    // Whoever only knows the ends may send anything.
                    let heard = connection.may_come(header);
                    connection.handle_segment(now, segment);
                    heard
                });
                if !self.silence.is_empty() || self.connection(flow).is_some_and(|c| c.config.probe.is_some()) {
                    self.note_silence(now, flow);
                    if heard == Some(true) {
                        self.hear(now, segment.source.ip());
                    }
                }
                return;
            }
        }
        let known = self.transparent || self.listening.contains_key(&segment.target);
        let empty_handed = !header.flags.has(Flags::SYN) && !header.flags.has(Flags::ACK);
        if known && empty_handed {
            // RFC 9293, section 3.10.7.2, fourth step.
            return;
        }
        if !plain_syn || !known {
            return self.answer_with_reset(segment);
        }
        if self.half_open.len() >= HALF_OPEN_MAX
            && let Some(oldest) = self.half_open.first().copied()
        {
            self.evicted += 1;
            self.at(oldest, |connection| connection.finish(None));
            self.forget(oldest);
        }
        if self.make_room() {
            let numbers = self.numbering.of(now, segment.target, segment.source);
            let of_port = self.listening.get(&segment.target).and_then(Option::as_ref);
            let config = of_port.unwrap_or_else(|| self.config_towards(segment.source.ip()));
            let mut other = self.of_callers.map(|make| make(config.clone()));
            if self.transparent {
                // Whoever opens and never answers leaves its place while a door still waits.
                let config = other.get_or_insert_with(|| config.clone());
                config.syn_retries = config.syn_retries.min(SYN_ACK_RETRIES);
            }
            let connection = Connection::accept(now, other.as_ref().unwrap_or(config), segment, numbers);
            let flow = self.insert(connection);
            self.half_open.insert(flow);
        }
    }

    /// Whether a SYN may replace `flow`: it is in TIME-WAIT, and the SYN is newer than any segment it received.
    fn may_follow(&self, flow: FlowId, header: &TcpHeader) -> bool {
        self.connection(flow).is_some_and(|c| c.state() == ConnectionState::TimeWait && c.is_newer(header))
    }

    /// Answers a segment, which is of none of our connections, by a reset.
    pub fn refuse(&mut self, segment: &TcpPacket<'_>) {
        self.answer_with_reset(segment);
    }

    /// RFC 9293, section 3.10.7.1.
    fn answer_with_reset(&mut self, segment: &TcpPacket<'_>) {
        let header = &segment.header;
        if header.flags.has(Flags::RST) || self.resets.len() >= RESETS_MAX {
            return;
        }
        let mut reset = TcpHeader { flags: Flags::RST, ..TcpHeader::default() };
        if header.flags.has(Flags::ACK) {
            reset.seq = header.ack;
        } else {
            let bits = u32::from(header.flags.has(Flags::SYN)) + u32::from(header.flags.has(Flags::FIN));
            reset.ack = header.seq.wrapping_add(segment.payload.len() as u32 + bits);
            reset.flags = Flags::RST.with(Flags::ACK);
        }
        self.resets.push_back((segment.target, segment.source, reset));
    }
}

/// Whether this is a unicast address.
fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast && !address.is_multicast() && !address.is_unspecified()
}

impl Machine for Host {
    type Event = HostEvent;

    fn handle_frame(&mut self, now: Instant, _port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let size = meta.segment.map_or(frame.len(), usize::from).max(1);
        for packet in frame.chunks(size) {
            // Damaged packets, and those that are neither, are ignored.
            match TcpPacket::parse(packet) {
                Ok(segment) => self.handle_segment(now, &segment),
                Err(_) => self.take_message(now, packet),
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, flow)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, flow));
            if let Some(held) = self.connections.get_mut(&flow) {
                held.armed = None;
            }
            let has_tried = self.at(flow, |connection| {
                let before = connection.sender.retries;
                connection.handle_timeout(now);
                connection.sender.probes && connection.sender.retries > before
            });
            if has_tried == Some(true) {
                self.pass_on(now, flow);
            }
            self.note_silence(now, flow);
            self.forget(flow);
        }
    }

    fn poll_transmit(&mut self, now: Instant, _port: PortId, buf: &mut [u8], _max_segments: usize) -> Option<Transmit> {
        if let Some((source, target, header)) = self.resets.pop_front() {
            let packet = TcpPacket { source, target, ecn: Default::default(), header, payload: &[] };
            if let Ok(len) = packet.emit(buf) {
                return Some(Transmit { len, class: Class::Control, ..Transmit::default() });
            }
        }
        while let Some(flow) = self.active.pop_front() {
            let count = self.connections.len();
            let Some(held) = self.connections.get_mut(&flow) else { continue };
            if let Some(sent) =
                self.pool.within(count, &mut held.connection, |connection| connection.poll_transmit(now, buf))
            {
                // The other connections are served first.
                self.active.push_back(flow);
                return Some(sent);
            }
            held.active = false;
            self.rearm(flow);
            self.forget(flow);
        }
        None
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let (_, flow) = self.deadlines.first()?;
        self.connections.get(flow)?.armed
    }

    fn poll_event(&mut self) -> Option<HostEvent> {
        while let Some(&flow) = self.reporting.front() {
            let Some(Held { connection, reporting, .. }) = self.connections.get_mut(&flow) else {
                self.reporting.pop_front();
                continue;
            };
            if let Some(event) = connection.poll_event() {
                let (local, remote) = connection.addresses();
                return Some(match event {
                    TcpEvent::Connected if connection.passive => HostEvent::Accepted { flow, local, remote },
                    event => HostEvent::Connection(flow, event),
                });
            }
            *reporting = false;
            self.reporting.pop_front();
            self.forget(flow);
        }
        None
    }
}

impl Streams for Host {
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        self.at(flow, |connection| connection.write(now, data)).unwrap_or(0)
    }
    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        self.at(flow, |connection| connection.read(now, buf)).unwrap_or(ReadOutcome::Reset)
    }
    fn shutdown(&mut self, now: Instant, flow: FlowId) {
        self.at(flow, |connection| connection.shutdown(now));
    }
    fn reset(&mut self, _now: Instant, flow: FlowId) {
        self.at(flow, Connection::reset);
    }
}
