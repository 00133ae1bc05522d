//! The daemon: one thread, one loop, one gateway machine.
//!
//! Every round hands the machine what came in, then drains it in the order its contract gives: frames, events,
//! deadline. Bytes move between sockets and flows in between, a bounded amount per connection and round.

mod document;
mod doors;
mod packets;
mod reload;

use self::packets::PacketDoor;
use self::reload::Reloads;
use crate::attempts::{Attempts, Limits};
use crate::config::{Config, OnFailure};
use crate::control::Control;
use crate::counters::Counters;
use crate::epoch;
use crate::keys;
use crate::log::Log;
use crate::relay::{CHUNK, Connection, Moved, Stage};
use crate::rules;
use crate::start::{self, StartError, Transparent};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wavelane_base::{Entropy, FlowId, FrameMeta, Instant, Machine, PortId, Span, Transmit};
use wavelane_host::clock::{NodeClock, wall_nanos};
use wavelane_host::nfqueue::Held;
use wavelane_host::poller::{Poller, Ready, Watch};
use wavelane_host::udp::UdpLane;
use wavelane_protocol::gateway::{Event, Gateway, PeerId};

/// The only port: the UDP lanes' socket.
const LANE: PortId = PortId(0);
const TOKEN_LANE: u64 = 0;
const TOKEN_SIGNAL: u64 = 1;
const TOKEN_CONTROL: u64 = 2;
const TOKEN_QUEUE: u64 = 3;
/// The transparent listeners, one per family.
const TOKEN_TPROXY: u64 = 4;
const TOKEN_TPROXY_LAST: u64 = TOKEN_TPROXY + 1;
const TOKEN_TUN: u64 = 6;
const TOKEN_RELOAD: u64 = 7;
const TOKEN_FORWARDS: u64 = 16;
/// Connections are numbered from here and no number is used twice.
const TOKEN_CONNECTIONS: u64 = 1 << 32;

/// How long a server may take to answer our connect.
const CONNECT_PATIENCE: Span = Span::from_secs(10);
/// Housekeeping: SYNs held too long, connects given up, listeners that had no descriptor.
const TICK: Span = Span::from_millis(50);
/// How long a peer may be silent after the start before the log says so.
const GREETING_PATIENCE: Span = Span::from_secs(5);
/// How long the list of our own addresses is believed.
const ADDRESSES_FRESH: Span = Span::from_secs(5);
/// How long an orderly stop takes at the most to tell the peers what it reset.
const FAREWELL: Span = Span::from_millis(250);
/// Rounds of draining before readiness is asked again.
const ROUNDS_MAX: usize = 16;
/// Reads of the lanes' socket per round, and bytes after which a round has read or sent enough: acknowledgements are due
/// then, and what was read is still in the processor's cache.
const READS_PER_ROUND: usize = 8;
const OCTETS_PER_ROUND: usize = 256 << 10;
/// Connections served per round.
const TURNS_PER_ROUND: usize = 256;
/// SYNs and connections taken per round.
const ARRIVALS_PER_ROUND: usize = 256;
/// The largest batch of datagrams the gateway may write.
const FRAME_ROOM: usize = 65_535;

/// What is known of a peer besides what the gateway knows.
#[derive(Clone, Copy, Default)]
struct Acquaintance {
    met: bool,
    complained: bool,
}

/// The daemon's whole state.
pub struct Daemon {
    config: Config,
    clock: NodeClock,
    now: Instant,
    started: Instant,
    gateway: Gateway,
    poller: Poller,
    log: Log,
    counters: Counters,
    lane: UdpLane,
    lane_readable: bool,
    lane_writable: bool,
    frame: Vec<u8>,
    /// What the socket had no room for: in `frame`, from there on.
    stalled: Option<(Transmit, usize)>,
    control: Control,
    signals: UnixStream,
    reloads: Reloads,
    /// Where the peers are, in the configuration's order, as resolved.
    addresses: Vec<Option<SocketAddr>>,
    forwards: Vec<TcpListener>,
    transparent: Option<Transparent>,
    packet_door: Option<PacketDoor>,
    mark: Option<u32>,
    attempts: Attempts<Held>,
    connections: BTreeMap<u64, Connection>,
    of_flow: BTreeMap<FlowId, u64>,
    /// Connections whose connect has not ended.
    connecting: usize,
    to_serve: VecDeque<u64>,
    next_token: u64,
    scratch: Box<[u8; CHUNK]>,
    moved: Moved,
    peers: Vec<Acquaintance>,
    own: Vec<IpAddr>,
    own_read: Option<Instant>,
    ticked: Instant,
    /// A listener had no descriptor to give: ask again at the next tick.
    retry_listeners: bool,
}

impl Daemon {
    /// Opens everything and builds the gateway.
    ///
    /// `file` is what SIGHUP reads again.
    pub fn start(config: Config, file: &Path) -> Result<Self, StartError> {
        let system = |what| move |source| StartError::System { what, source };
        let clock = NodeClock::start(config.clock.offset, config.clock.drift_ppm);
        let now = clock.now();
        let (signals, signal_end) = UnixStream::pair().map_err(system("a pipe"))?;
        for signal in [SIGTERM, SIGINT] {
            let end = signal_end.try_clone().map_err(system("a descriptor"))?;
            signal_hook::low_level::pipe::register(signal, end).map_err(system("a signal handler"))?;
        }
        let (reload_signal, signal_end) = UnixStream::pair().map_err(system("a pipe"))?;
        signal_hook::low_level::pipe::register(SIGHUP, signal_end).map_err(system("a signal handler"))?;
        let opened = start::open(&config)?;
        let entropy = Entropy::from_os_bytes(wavelane_host::entropy().map_err(system("entropy"))?);
        let mut remarks = opened.remarks;
        let epoch = epoch::next(&config.state, wall_nanos());
        remarks.extend(epoch.remark);
        let gateway = Gateway::new(now, config.to_gateway(&opened.addresses), epoch.value, entropy)?;
        let mut daemon = Self {
            clock,
            now,
            started: now,
            gateway,
            poller: Poller::new().map_err(system("epoll"))?,
            log: Log::new(now),
            counters: Counters::default(),
            lane: opened.lane,
            lane_readable: true,
            lane_writable: true,
            stalled: None,
            frame: vec![0; FRAME_ROOM],
            control: opened.control,
            signals,
            reloads: Reloads::new(file, reload_signal).map_err(system("a pipe"))?,
            addresses: opened.addresses,
            forwards: opened.forwards,
            transparent: opened.transparent,
            packet_door: opened.device.map(PacketDoor::new),
            mark: opened.mark,
            attempts: Attempts::new(Limits::default()),
            connections: BTreeMap::new(),
            of_flow: BTreeMap::new(),
            connecting: 0,
            to_serve: VecDeque::new(),
            next_token: TOKEN_CONNECTIONS,
            scratch: Box::new([0; CHUNK]),
            moved: Moved::default(),
            peers: vec![Acquaintance::default(); config.peers.len()],
            own: Vec::new(),
            own_read: None,
            ticked: now,
            retry_listeners: false,
            config,
        };
        daemon.watch().map_err(system("epoll"))?;
        daemon.announce(&remarks);
        Ok(daemon)
    }
    fn watch(&self) -> io::Result<()> {
        let poller = &self.poller;
        poller.add(&self.lane, TOKEN_LANE, Watch::Edges)?;
        poller.add(&self.signals, TOKEN_SIGNAL, Watch::Readable)?;
        poller.add(&self.reloads.signal, TOKEN_RELOAD, Watch::Readable)?;
        poller.add(&self.control.listener, TOKEN_CONTROL, Watch::Readable)?;
        for (i, listener) in self.forwards.iter().enumerate() {
            poller.add(listener, TOKEN_FORWARDS + i as u64, Watch::Edges)?;
        }
        if let Some(t) = &self.transparent {
            for (listener, token) in t.listeners.iter().zip(TOKEN_TPROXY..) {
                poller.add(listener, token, Watch::Edges)?;
            }
            if let Some(queue) = &t.queue {
                poller.add(queue, TOKEN_QUEUE, Watch::Readable)?;
            }
        }
        if let Some(door) = &self.packet_door {
            poller.add(&door.device.tun, TOKEN_TUN, Watch::Edges)?;
        }
        Ok(())
    }
    fn announce(&mut self, remarks: &[String]) {
        let key = keys::to_base64(&keys::public_key(&self.config.private_key));
        self.say(&format!("gateway '{}' listens on UDP {}, public key {key}", self.config.name, self.config.listen));
        for remark in remarks {
            self.say(remark);
        }
        for warning in crate::commands::warnings(&self.config) {
            self.say(&format!("warning: {warning}"));
        }
        if self.config.intercept.is_some() && self.config.on_failure == OnFailure::Closed {
            self.say(&format!(
                "should this process die, new connections stay refused until it starts again or you run: {}",
                rules::lift_closed()
            ));
        }
    }
    fn say(&mut self, text: &str) {
        self.log.line(self.now, text);
    }

    /// Runs until SIGTERM or SIGINT, then removes everything.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            let timeout = if self.settle() { Some(Duration::ZERO) } else { self.patience() };
            let ready = self.poller.wait(timeout)?;
            self.advance();
            for r in ready {
                if r.token == TOKEN_SIGNAL {
                    self.stop();
                    return Ok(());
                }
                self.dispatch(r);
            }
            if self.now.since(self.ticked) >= TICK {
                self.tick();
            }
        }
    }
    /// Reads the clock.
    fn advance(&mut self) {
        self.now = self.clock.now();
        if self.gateway.poll_timeout().is_some_and(|w| w.at <= self.now) {
            self.gateway.handle_timeout(self.now);
        }
    }
    /// How long nothing needs us.
    fn patience(&self) -> Option<Duration> {
        let waiting = self.attempts.len() > 0 || self.connecting > 0 || self.retry_listeners;
        let ticking = waiting.then(|| self.ticked + TICK);
        let greeting =
            self.peers.iter().any(|p| !p.met && !p.complained).then(|| self.started + GREETING_PATIENCE + TICK);
        let machine = self.gateway.poll_timeout().map(|w| w.at);
        let next = [ticking, greeting, machine].into_iter().flatten().min()?;
        Some(self.clock.until(next))
    }
    fn dispatch(&mut self, ready: Ready) {
        match ready.token {
            TOKEN_LANE => {
                self.lane_readable |= ready.readable;
                self.lane_writable |= ready.writable;
            }
            TOKEN_CONTROL => {
                let document = self.document();
                self.control.answer(|| document.clone());
            }
            TOKEN_QUEUE => self.take_syns(),
            TOKEN_TUN => self.packets_wait(),
            TOKEN_RELOAD => self.reload(),
            token @ TOKEN_TPROXY..=TOKEN_TPROXY_LAST => self.accept_transparent((token - TOKEN_TPROXY) as usize),
            token if token >= TOKEN_CONNECTIONS => self.socket_ready(token, ready),
            token => self.accept_forward((token - TOKEN_FORWARDS) as usize),
        }
    }

    /// Moves everything that can be moved. Returns whether more could be done at once.
    fn settle(&mut self) -> bool {
        for round in 0..ROUNDS_MAX {
            if round > 0 {
                self.advance();
            }
            let mut busy = self.receive();
            busy |= self.take_packets();
            busy |= self.give_packets();
            busy |= self.transmit();
            while let Some(event) = self.gateway.poll_event() {
                busy = true;
                self.handle_event(event);
            }
            for _ in 0..TURNS_PER_ROUND {
                let Some(token) = self.to_serve.pop_front() else { break };
                busy = true;
                self.serve(token);
            }
            if !busy {
                return false;
            }
        }
        true
    }
    /// Reads a round's worth of datagrams. Returns whether there may be more.
    fn receive(&mut self) -> bool {
        if !self.lane_readable {
            return false;
        }
        let mut octets = 0;
        for _ in 0..READS_PER_ROUND {
            let (clock, gateway) = (&self.clock, &mut self.gateway);
            let mut read_at = None;
            let got = self.lane.receive(|d| {
                // Read once per call and after it: an arrival that seems to lie ahead of `now`, or before it was,
                // would pass for delay on the link.
                let now = *read_at.get_or_insert_with(|| clock.now());
                let meta = FrameMeta { rx_time: now - d.waited, ecn: d.ecn, segment: d.segment, from: Some(d.from) };
                octets += d.bytes.len();
                gateway.handle_frame(now, LANE, d.bytes, meta);
            });
            self.now = read_at.unwrap_or(self.now);
            // An error is an ICMP message about an earlier datagram; the next call goes on.
            if matches!(got, Ok(0)) {
                self.lane_readable = false;
                break;
            }
            if octets >= OCTETS_PER_ROUND {
                break;
            }
        }
        true
    }
    /// Sends a round's worth of what may leave. Returns whether there may be more.
    fn transmit(&mut self) -> bool {
        let mut octets = 0;
        while self.lane_writable && octets < OCTETS_PER_ROUND {
            let (transmit, at) = match self.stalled.take() {
                Some(stalled) => stalled,
                None => {
                    // A batch takes long to send; the next one's packets leave that much later.
                    self.now = self.clock.now();
                    let segments = self.lane.segments_max();
                    match self.gateway.poll_transmit(self.now, LANE, &mut self.frame, segments) {
                        Some(transmit) => (transmit, 0),
                        None => return false,
                    }
                }
            };
            let Some(to) = transmit.to else {
                self.counters.one("dropped_datagram_unsent");
                continue;
            };
            let rest = &self.frame[at..transmit.len];
            octets += rest.len();
            let sent = self.lane.send(rest, transmit.segment_size, to, transmit.ecn);
            self.counters.add("dropped_datagram_too_big", sent.too_big);
            self.counters.add("dropped_datagram_unsent", sent.lost);
            if sent.done < rest.len() {
                self.lane_writable = false;
                self.stalled = Some((transmit, at + sent.done));
            }
        }
        self.lane_writable
    }

    fn peer_name(&self, peer: PeerId) -> &str {
        self.config.peers.get(peer.0).map_or("?", |p| &p.name)
    }
    fn complain(&mut self, peer: usize) {
        let Some(p) = self.config.peers.get(peer) else { return };
        let address = p.address.as_deref().unwrap_or("an unknown address");
        let text = format!(
            "peer '{}' at {address} does not answer: it is unreachable (check address, port, firewall), or its key and ours do not match (compare the public keys that `wavelane check` prints on both sides)",
            p.name
        );
        self.say(&text);
    }
    fn handle_event(&mut self, event: Event) {
        match event {
            Event::PeerUp(peer) => {
                if let Some(p) = self.peers.get_mut(peer.0) {
                    *p = Acquaintance { met: true, complained: false };
                }
                self.say(&format!("peer '{}' is up", self.peer_name(peer).to_owned()));
            }
            Event::PeerSilent(peer) => {
                if self.peers.get_mut(peer.0).is_some_and(|p| !std::mem::replace(&mut p.complained, true)) {
                    self.complain(peer.0);
                }
            }
            Event::PeerRestarted(peer) => {
                self.say(&format!(
                    "peer '{}' has restarted; its connections were reset",
                    self.peer_name(peer).to_owned()
                ));
            }
            Event::Incoming { flow, peer, source, target } => self.incoming(flow, peer, source, target),
            Event::Accepted(flow) => self.accepted(flow),
            Event::Refused(flow, why) | Event::Reset(flow, why) => self.flow_gone(flow, why),
            Event::Readable(flow) | Event::Writable(flow) => self.enqueue_flow(flow),
            Event::Closed(flow) => {
                if let Some(c) = self.of_flow.get(&flow).and_then(|t| self.connections.get_mut(t)) {
                    c.flow_closed = true;
                }
                self.enqueue_flow(flow);
            }
            Event::Notice(text) => self.say(&text),
            Event::UnknownCaller { public_key, from } => {
                let from = from.map_or("an unknown address".into(), |a| a.to_string());
                let key = keys::to_base64(&public_key);
                self.say(&format!(
                    "{from} calls with the key {key}, which no [[peer]] has: add it there, or correct its key"
                ));
            }
        }
    }

    fn tick(&mut self) {
        self.ticked = self.now;
        if self.attempts.len() > 0 {
            let (overdue, ended) = self.attempts.expire(self.now);
            self.counters.add("dropped_syn_held_too_long", overdue.len() as u64);
            for held in overdue {
                self.discard(Some(held));
            }
            self.end_attempts(ended);
        }
        if self.connecting > 0 {
            let late = |c: &Connection| matches!(c.stage, Stage::Connecting(until) if until <= self.now);
            let late: Vec<u64> = self.connections.iter().filter(|(_, c)| late(c)).map(|(t, _)| *t).collect();
            for token in late {
                if let Some(c) = self.remove(token) {
                    self.refuse(c.flow, &ErrorKind::TimedOut.into());
                }
            }
        }
        if std::mem::take(&mut self.retry_listeners) {
            for listener in 0..=(TOKEN_TPROXY_LAST - TOKEN_TPROXY) as usize {
                self.accept_transparent(listener);
            }
            for i in 0..self.forwards.len() {
                self.accept_forward(i);
            }
        }
        if self.now.since(self.started) >= GREETING_PATIENCE {
            for peer in 0..self.peers.len() {
                let p = &mut self.peers[peer];
                if !p.met && !std::mem::replace(&mut p.complained, true) && self.config.peers[peer].address.is_some() {
                    self.complain(peer);
                }
            }
        }
    }
    /// An orderly stop: held SYNs are let go unanswered, everything open is reset at both ends.
    fn stop(&mut self) {
        let ended = self.attempts.drain();
        self.end_attempts(ended);
        let tokens: Vec<u64> = self.connections.keys().copied().collect();
        let open = tokens.len();
        for token in tokens {
            self.socket_reset(token);
        }
        while self.transmit() {}
        if open > 0 {
            self.farewell();
        }
        self.say("stopped");
    }
    /// Resets that the pacer holds back leave within [`FAREWELL`]; peers learn the rest from our silence.
    fn farewell(&mut self) {
        let end = self.now + FAREWELL;
        while let Some(next) = self.gateway.poll_timeout().map(|w| w.at).filter(|at| *at < end) {
            if self.poller.wait(Some(self.clock.until(next))).is_err() {
                return;
            }
            self.now = self.clock.now();
            self.lane_readable = true;
            self.lane_writable = true;
            self.receive();
            self.gateway.handle_timeout(self.now);
            while self.gateway.poll_event().is_some() {}
            while self.transmit() {}
        }
    }
}
