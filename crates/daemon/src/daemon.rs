//! The daemon: one thread moves packets in one loop around one gateway machine, and blocks only in its poller.
//!
//! Every round hands the machine what came in, then drains it in the order its contract gives: frames, events,
//! deadline. Bytes move between sockets and flows in between, a bounded amount per connection and round.

mod about;
mod asked;
mod contact;
mod decided;
mod devices;
mod document;
mod doors;
mod events;
mod housekeeping;
mod lane;
mod lane_report;
mod own;
mod packets;
mod recorder;
mod routing;
mod stop;
mod time;

use self::about::Talks;
use self::asked::Asked;
use self::contact::Contact;
use self::decided::{Sources, Taken};
use self::devices::Devices;
use self::lane::LanePort;
use self::packets::PacketDoor;
use self::recorder::Recorder;
use crate::arguments::Arguments;
use crate::changes::Allowance;
use crate::config::{Config, OnFailure};
use crate::control::Control;
use crate::counters::Counters;
use crate::decisions::Decisions;
use crate::diagnosis::Examiner;
use crate::engine::KernelEngine;
use crate::epoch;
use crate::hook::Hook;
use crate::key_log::KeyLog;
use crate::keys;
use crate::line_capture::LineCapture;
use crate::log::Log;
use crate::metrics;
use crate::names::Names;
use crate::peer_addresses::PeerAddresses;
use crate::serial;
use crate::start::{self, StartError};
use crate::supervisor::Supervisor;
use crate::system::firewall::{self, Reached};
use crate::system::kernel::Kernel;
use crate::system::routes::Routes;
use crate::system::rules;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wavelane_base::{Entropy, Instant, Machine, Span};
use wavelane_door::Door;
use wavelane_gateway::Gateway;
use wavelane_host::caps;
use wavelane_host::clock::{NodeClock, wall_nanos};
use wavelane_host::poller::{Poller, Ready, Watch};

const TOKEN_SIGNAL: u64 = 1;
const TOKEN_CONTROL: u64 = 2;
const TOKEN_QUEUE: u64 = 3;
/// The transparent listeners, one per family.
const TOKEN_TPROXY: u64 = 4;
const TOKEN_TPROXY_LAST: u64 = TOKEN_TPROXY + 1;
const TOKEN_TUN: u64 = 6;
const TOKEN_RELOAD: u64 = 7;
const TOKEN_NAMES: u64 = 8;
const TOKEN_KERNEL: u64 = 9;
const TOKEN_EXAMINER: u64 = 10;
const TOKEN_ROUTES: u64 = 11;
const TOKEN_LINKS: u64 = 12;
/// The clients of the control socket.
const TOKEN_CLIENTS: u64 = 13;
const TOKEN_FORWARDS: u64 = 16;
/// The lanes' sockets, by port.
const TOKEN_LANES: u64 = 1 << 31;
/// Connections are numbered from here and no number is used twice.
const TOKEN_CONNECTIONS: u64 = 1 << 32;

/// Housekeeping: SYNs held too long, connects given up, listeners that had no descriptor.
const TICK: Span = Span::from_millis(50);
/// How long a peer may be silent before the cause is looked for.
const GREETING_PATIENCE: Span = Span::from_secs(5);
/// How long the list of our own addresses is used before it is read again.
const ADDRESSES_FRESH: Span = Span::from_secs(5);
/// Rounds of draining before readiness is asked again.
const ROUNDS_MAX: usize = 16;
/// Connections served per round.
const TURNS_PER_ROUND: usize = 256;
/// SYNs and connections taken per round.
const ARRIVALS_PER_ROUND: usize = 256;
/// The largest batch of datagrams the gateway may write.
const FRAME_ROOM: usize = 65_535;

/// The daemon's whole state.
pub struct Daemon {
    config: Config,
    clock: NodeClock,
    now: Instant,
    started: Instant,
    gateway: Gateway,
    poller: Poller,
    log: Log,
    hook: Option<Hook>,
    counters: Counters,
    /// The gateway's ports.
    lanes: Vec<LanePort>,
    frame: Vec<u8>,
    control: Control,
    signals: UnixStream,
    supervisor: Supervisor,
    sources: Sources,
    decisions: Decisions<Taken>,
    asked: Asked,
    talks: Talks,
    names: Names,
    /// The kernel's routing table, if that decides, and whether it could not be read last.
    routes: Option<Routes>,
    routes_unread: bool,
    peer_addresses: PeerAddresses,
    epoch_keeper: epoch::Keeper,
    devices: Devices,
    /// See [`epoch::hold`].
    _state_held: Option<std::fs::File>,
    forwards: Vec<TcpListener>,
    door: Door<KernelEngine>,
    kernel: Option<Kernel>,
    /// Where data keys go, if they are logged.
    key_log: Option<KeyLog>,
    /// Where datagrams of lines go, if they are captured.
    line_capture: Option<LineCapture>,
    /// Where decisions go, if they are recorded.
    recorder: Option<Recorder>,
    mark: Option<u32>,
    packet_door: Option<PacketDoor>,
    /// What the line of `[serial]` does.
    line: Option<serial::Running>,
    /// When refused requests of each peer were last logged.
    denials_told: BTreeMap<usize, Instant>,
    /// When a refusal by each peer was last logged.
    refusals_told: BTreeMap<usize, Instant>,
    /// What bounds the lines on networks that this host is attached to.
    notes_told: Allowance,
    /// What bounds the search for the peer that did not let a packet through.
    packet_refusals: Allowance,
    /// What bounds the gateway's notices that no peer answers for.
    notices_told: Allowance,
    /// What bounds the answers to shapers.
    answers: time::Answers,
    peers: Vec<Contact>,
    /// Keys of unknown callers that were logged, at most [`contact::CALLERS_KEPT`], with the last call and what was said of it.
    callers: VecDeque<([u8; 32], Instant, String)>,
    examiner: Examiner,
    /// This machine's own addresses; `None` if they could not be read.
    own: Option<Vec<IpAddr>>,
    own_read: Option<Instant>,
    ticked: Instant,
    /// A listener had no descriptor to give: ask again at the next tick.
    retry_listeners: bool,
}

impl Daemon {
    /// Opens everything and builds the gateway.
    ///
    /// The file of `arguments` is what SIGHUP reads again.
    pub fn start(config: Config, arguments: &Arguments) -> Result<Self, StartError> {
        let system = |what| move |source| StartError::System { what, source };
        let clock = NodeClock;
        let now = clock.now();
        let (signals, signal_end) = UnixStream::pair().map_err(system("a pipe"))?;
        for signal in [SIGTERM, SIGINT] {
            let end = signal_end.try_clone().map_err(system("a descriptor"))?;
            signal_hook::low_level::pipe::register(signal, end).map_err(system("a signal handler"))?;
        }
        let (reload_signal, signal_end) = UnixStream::pair().map_err(system("a pipe"))?;
        signal_hook::low_level::pipe::register(SIGHUP, signal_end).map_err(system("a signal handler"))?;
        // A proxy's word of a gap, said to all of our processes, ends none.
        for signal in [SIGUSR1, SIGUSR2] {
            signal_hook::flag::register(signal, std::sync::Arc::default()).map_err(system("a signal handler"))?;
        }
        let (key_log, capture) = (arguments.key_log.as_deref(), arguments.line_capture.as_deref());
        let recording = arguments.decisions.as_deref();
        let appended: Vec<&Path> = [key_log, capture, recording].into_iter().flatten().collect();
        let opened = start::open(&config, &appended)?;
        let key_log = key_log.map(KeyLog::open).transpose().map_err(|why| start::closed(&config, why))?;
        let line_capture = capture.map(LineCapture::open).transpose().map_err(|why| start::closed(&config, why))?;
        let recorder = recording.map(|path| Recorder::open(path, now, &config)).transpose();
        let recorder = recorder.map_err(|why| start::closed(&config, why))?;
        // Before there are other threads, and once everything is open.
        let sockets = config.lane_sockets();
        // What the device of a line has by PPP, or loses to other programs, is set while it runs.
        let of_line = config.serial.as_ref().map(|_| caps::NET_ADMIN);
        let of_media = sockets.iter().filter_map(|socket| socket.medium.row().capability);
        let of_media: Vec<u8> = of_media.chain(of_line).collect();
        let kept: &[u8] = match () {
            () if opened.transparent.is_some() => &start::CAPABILITIES,
            // A lane's socket is opened again when its device or address comes back.
            () if sockets.iter().any(|socket| socket.mark.is_some()) => &start::CAPABILITIES,
            () => &of_media,
        };
        caps::keep_only(kept).map_err(system("giving up privileges"))?;
        let log = Log::open(now, config.log).map_err(system("a thread"))?;
        log.pen().take_panics();
        let hook = config.hook.as_ref().map(|program| Hook::start(program, log.pen())).transpose();
        let hook = hook.map_err(system("a thread"))?;
        let entropy = Entropy::live(wavelane_host::entropy::fill);
        if let Some(place) = opened.metrics {
            metrics::serve(place, &config.control, log.pen()).map_err(system("a thread"))?;
        }
        let line = config.serial.clone().zip(opened.line);
        let line =
            line.map(|(of, device)| serial::start(of, device, log.pen(), Entropy::live(wavelane_host::entropy::fill)));
        let line = line.transpose().map_err(system("a thread"))?;
        let names = Names::new(now, &config).map_err(system("a pipe"))?;
        let kernel = opened
            .installed
            .map(|installed| Kernel::start(installed, &config))
            .transpose()
            .map_err(system("a thread"))?;
        let mut remarks = opened.remarks;
        let state_held = epoch::hold(&config.state).map_err(|why| start::closed(&config, why))?;
        let epoch = epoch::next(&config.state, wall_nanos());
        let epoch_keeper = epoch::Keeper::new(now, &config.state, &epoch);
        remarks.extend(epoch.remark);
        let (peer_addresses, remark) = PeerAddresses::open(now, &config);
        remarks.extend(remark);
        let mut gateway_config = config.to_gateway(&names.addresses());
        gateway_config.log_keys = key_log.is_some();
        remarks.extend(key_log.as_ref().map(KeyLog::remark));
        let mut gateway = Gateway::new(now, gateway_config, epoch.value, entropy)?;
        let routes = Routes::start(&config).map_err(system("the kernel's routing table"))?;
        let routes = routes.map(|(routes, table)| {
            gateway.set_table(now, table);
            routes
        });
        let poller = Poller::new().map_err(system("epoll"))?;
        let watch = poller.share().map_err(system("epoll"))?;
        let engine = KernelEngine::new(opened.transparent, watch, opened.mark, TOKEN_CONNECTIONS);
        let mut daemon = Self {
            clock,
            now,
            started: now,
            gateway,
            poller,
            log,
            hook,
            counters: Counters::default(),
            lanes: opened.lanes.into_iter().map(LanePort::new).collect(),
            frame: vec![0; FRAME_ROOM],
            control: opened.control,
            signals,
            supervisor: Supervisor::of_this_process(),
            sources: Sources::new(&arguments.config, reload_signal).map_err(system("a pipe"))?,
            decisions: Decisions::new(kernel.is_some(), config.peers.len()),
            asked: Asked::default(),
            talks: Talks::default(),
            names,
            routes,
            routes_unread: false,
            peer_addresses,
            epoch_keeper,
            devices: Devices::new(now, &config),
            _state_held: state_held,
            forwards: opened.forwards,
            door: Door::new(engine),
            kernel,
            key_log,
            line_capture,
            recorder,
            mark: opened.mark,
            packet_door: opened.tun.map(PacketDoor::new),
            line,
            denials_told: BTreeMap::new(),
            refusals_told: BTreeMap::new(),
            notes_told: Allowance::new(now),
            packet_refusals: Allowance::new(now),
            notices_told: Allowance::new(now),
            answers: time::Answers::new(now),
            peers: vec![Contact::new(now); config.peers.len()],
            callers: VecDeque::new(),
            examiner: Examiner::new().map_err(system("a pipe"))?,
            own: None,
            own_read: None,
            ticked: now,
            retry_listeners: false,
            config,
        };
        daemon.watch().map_err(system("epoll"))?;
        daemon.announce(&remarks);
        daemon.know_own_addresses();
        daemon.tell_ports();
        daemon.recall_peers();
        daemon.supervisor.ready(now, &format!("listens on UDP {}", daemon.config.listen));
        Ok(daemon)
    }
    fn watch(&self) -> io::Result<()> {
        let poller = &self.poller;
        for (lane, token) in self.lanes.iter().zip(TOKEN_LANES..) {
            if let Some(socket) = &lane.socket {
                poller.add(socket, token, Watch::Edges)?;
            }
        }
        poller.add(&self.signals, TOKEN_SIGNAL, Watch::Readable)?;
        poller.add(&self.sources.signal, TOKEN_RELOAD, Watch::Readable)?;
        poller.add(&self.examiner.bell, TOKEN_EXAMINER, Watch::Readable)?;
        poller.add(&self.names.bell, TOKEN_NAMES, Watch::Readable)?;
        if let Some(routes) = &self.routes {
            poller.add(&routes.bell, TOKEN_ROUTES, Watch::Readable)?;
        }
        if let Some(changes) = &self.devices.changes {
            poller.add(changes, TOKEN_LINKS, Watch::Readable)?;
        }
        if let Some(kernel) = &self.kernel {
            poller.add(&kernel.bell, TOKEN_KERNEL, Watch::Readable)?;
        }
        poller.add(&self.control.listener, TOKEN_CONTROL, Watch::Arrivals)?;
        for (i, listener) in self.forwards.iter().enumerate() {
            poller.add(listener, TOKEN_FORWARDS + i as u64, Watch::Edges)?;
        }
        if let Some(t) = &self.door.engine.transparent {
            for (listener, token) in t.listeners.iter().zip(TOKEN_TPROXY..) {
                poller.add(listener, token, Watch::Edges)?;
            }
            if let Some(queue) = &t.queue {
                poller.add(queue, TOKEN_QUEUE, Watch::Readable)?;
            }
        }
        if let Some(door) = &self.packet_door {
            poller.add(&door.tun, TOKEN_TUN, Watch::Edges)?;
        }
        Ok(())
    }
    fn announce(&mut self, remarks: &[String]) {
        let key = keys::to_base64(&keys::public_key(&self.config.private_key));
        self.say(&format!("gateway '{}' listens on UDP {}, public key {key}", self.config.name, self.config.listen));
        for remark in remarks {
            self.say(remark);
        }
        let firewall = firewall::findings(&self.config, &Reached::new());
        for warning in crate::commands::warnings(&self.config).into_iter().chain(firewall) {
            self.warn(&warning);
        }
        if self.config.intercept.is_some() && self.config.on_failure == OnFailure::Closed {
            self.say(&format!(
                "should this process die, new connections stay refused until it starts again or you run: {}",
                rules::lift_closed(&self.config)
            ));
        }
    }
    fn say(&mut self, text: &str) {
        self.log.line(self.now, text);
    }
    /// Says what is not as it should be.
    fn warn(&mut self, text: &str) {
        self.log.warn(self.now, text);
    }

    /// Runs until SIGTERM or SIGINT, then removes everything.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            let timeout = if self.settle() { Some(Duration::ZERO) } else { self.patience() };
            let ready = self.poller.wait(timeout)?;
            self.advance();
            self.tend_lanes();
            self.supervisor.tick(self.now);
            for r in ready {
                if r.token == TOKEN_SIGNAL {
                    self.stop();
                    return Ok(());
                }
                self.dispatch(r);
            }
            if self.door.deadline().is_some_and(|at| at <= self.now) {
                self.door.look_after_last_bytes(self.now, &mut self.gateway);
            }
            if self.control.deadline().is_some_and(|at| at <= self.now) {
                self.hear_clients();
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
    /// How long the loop may sleep.
    fn patience(&self) -> Option<Duration> {
        let waiting = self.door.waits() || self.retry_listeners;
        let ticking = waiting.then(|| self.ticked + TICK);
        let tick = |at: Instant| at.max(self.ticked + TICK);
        let doubts = self.peers.iter().filter_map(Contact::doubt_at).min().map(tick);
        let machine = self.gateway.poll_timeout().map(|w| w.at);
        let others = [self.supervisor.deadline(), self.door.deadline(), self.control.deadline()];
        let by_tick = [
            self.names.deadline(),
            self.peer_addresses.deadline(),
            self.epoch_keeper.deadline(),
            self.devices.deadline(),
            self.asked.deadline(),
            self.talks.deadline(),
            self.decisions.deadline(),
        ];
        let others = others.into_iter().chain(by_tick.map(|at| at.map(tick)));
        let next = [ticking, doubts, machine].into_iter().chain(others).flatten().min();
        [next.map(|at| self.clock.until(at)), self.lanes_due_in()].into_iter().flatten().min()
    }
    fn dispatch(&mut self, ready: Ready) {
        match ready.token {
            TOKEN_CONTROL => {
                self.control.accept(self.now, &self.poller, TOKEN_CLIENTS);
                self.hear_clients();
            }
            TOKEN_CLIENTS => self.hear_clients(),
            TOKEN_QUEUE => self.take_syns(),
            TOKEN_TUN => self.packets_wait(),
            TOKEN_RELOAD => self.reload_signalled(),
            TOKEN_KERNEL => self.kernel_answers(),
            TOKEN_EXAMINER => self.hear_of_examinations(),
            TOKEN_NAMES => self.hear_of_names(),
            TOKEN_ROUTES => self.hear_of_routes(),
            TOKEN_LINKS => self.links_changed(),
            token @ TOKEN_TPROXY..=TOKEN_TPROXY_LAST => self.accept_transparent((token - TOKEN_TPROXY) as usize),
            token if token >= TOKEN_CONNECTIONS => self.socket_ready(token, ready),
            token if token >= TOKEN_LANES => self.lane_ready((token - TOKEN_LANES) as usize, ready),
            token => self.accept_forward((token - TOKEN_FORWARDS) as usize),
        }
    }

    fn log_keys(&mut self) {
        let Some(log) = &mut self.key_log else { return };
        let failed = core::iter::from_fn(|| self.gateway.poll_key()).filter_map(|key| log.append(&key)).last();
        if let Some(why) = failed {
            self.say(&why);
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
            self.log_keys();
            while let Some(event) = self.gateway.poll_event() {
                busy = true;
                self.handle_event(event);
            }
            for _ in 0..TURNS_PER_ROUND {
                if !self.door.serve_next(self.now, &mut self.gateway) {
                    break;
                }
                busy = true;
            }
            if !busy {
                return false;
            }
        }
        true
    }
}
