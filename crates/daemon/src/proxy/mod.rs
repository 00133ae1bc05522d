//! `wavelaned` without a neighbour: TCP that crosses this machine is ended here and goes on as another connection.
//!
//! The door holds each SYN until the server has answered, keeps both addresses, and passes on refusals, half-closes, resets and last
//! bytes. In the engine on the kernel's `sockets` one thread decides that; once both halves of a connection are open, a `mover` has it,
//! one thread for each processor. A [`Pair`] joins the halves until then, and in `userspace`, the engine on our own TCP, to the end.

mod beside;
pub mod claims;
mod config;
mod mover;
mod neighbors;
mod outages;
mod places;
mod serve;
mod sockets;
pub mod status;
mod strangers;
mod tunnels;
mod userspace;

pub use sockets::named_server;

use crate::changes::{Allowance, Losses};
use crate::commands::checked;
use crate::config::marks::MARK_OWN;
use crate::config::{Config, ConfigError, OnFailure, Placement, prefix_text};
use crate::control::{Control, ControlError};
use crate::counters::Counters;
use crate::engine::{KernelEngine, Tunings};
use crate::log::{DEBUG, Log};
use crate::start::{self, StartError};
use crate::supervisor::Supervisor;
use crate::system::firewall;
use crate::system::installed::Installed;
use crate::system::kernel::Kernel;
use crate::system::rules::{self, Rules, RulesError};
use beside::{Beside, Work};
use config::{Engine, Settings, Side};
use mover::{Movers, ROOM};
use serve::Body;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use sockets::Sockets;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use userspace::Userspace;
use wavelane_base::{Instant, IpPrefix, Span};
use wavelane_door::{Door, Marks, Pair, PairConfig, pool_parts};
use wavelane_gateway::Reason;
use wavelane_host::claim::Claim;
use wavelane_host::clock::NodeClock;
use wavelane_host::links::LinkChanges;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::signals::{last_sender, note_sender};
use wavelane_host::tcp::{Buffers, Tuning};
use wavelane_host::{caps, has_ipv6};
use wavelane_settings::LogLevel;
use wavelane_tcp::MEMORY_SHARE;

const TOKEN_SIGNAL: u64 = 1;
const TOKEN_CONTROL: u64 = 2;
const TOKEN_QUEUE: u64 = 3;
/// The transparent listeners, one per family.
const TOKEN_TPROXY: u64 = 4;
const TOKEN_TPROXY_LAST: u64 = TOKEN_TPROXY + 1;
/// The device of the engine on our own TCP.
const TOKEN_TUN: u64 = 6;
const TOKEN_RELOAD: u64 = 7;
const TOKEN_LINKS: u64 = 8;
const TOKEN_KERNEL: u64 = 9;
/// A gap is near, or over.
const TOKEN_GAP: u64 = 10;
const TOKEN_GAP_OVER: u64 = TOKEN_GAP + 1;
/// What is done beside the engine has ended.
const TOKEN_BESIDE: u64 = 12;
/// Connections are numbered from here and no number is used twice.
const TOKEN_CONNECTIONS: u64 = 1 << 32;
/// Housekeeping: SYNs held too long, connects given up, listeners that had no descriptor.
const TICK: Span = Span::from_millis(50);

/// Says at `debug` what becomes of a new connection. Who asks for many hides no warning: see [`Log`].
fn tell(log: &mut Log, now: Instant, (client, server): (SocketAddr, SocketAddr), fate: &str) {
    if log.has(LogLevel::Debug) {
        log.line(now, &format!("{DEBUG}{client} to {server}: {fate}"));
    }
}

/// What is told of a connection that is split.
const SPLIT: &str = "split, for its server has answered";

/// What is told of one that goes plainly, or is refused, for that.
fn unsplit(on_failure: OnFailure, why: &str) -> String {
    match on_failure {
        OnFailure::Open => format!("goes plainly: {why}"),
        OnFailure::Closed => format!("refused, since on_failure is \"closed\": {why}"),
    }
}

/// What is told of one that its server's side refuses.
fn refused(why: Reason) -> String {
    let why = match why {
        Reason::Refused => return "refused by its server".to_owned(),
        Reason::Unreachable => "there is no way to its server",
        Reason::TimedOut => "its server does not answer",
        Reason::Prohibited => "the way to its server is closed by a rule",
        Reason::NoRoom => "no socket or port is left for it",
        _ => "its client gave it up",
    };
    format!("refused: {why}")
}

/// Why there is no proxy. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The rules, the listeners, the privileges.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The kernel lacks a knob.
    #[error("this kernel refuses proxy.side.{knob} of side '{side}': {source}; {remedy}")]
    Knob {
        /// Which.
        knob: &'static str,
        /// Of which side.
        side: String,
        /// What it said.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// It ran and could not go on, and says why.
    #[error("{0}")]
    Ended(io::Error),
    /// The system refused something that should always work.
    #[error("the system refused {what}: {source}; check limits (ulimit -n) and permissions")]
    System {
        /// What.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl From<RulesError> for ProxyError {
    fn from(e: RulesError) -> Self {
        Self::Start(e.into())
    }
}

impl From<ControlError> for ProxyError {
    fn from(e: ControlError) -> Self {
        Self::Start(e.into())
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ProxyError {
    move |source| ProxyError::System { what, source }
}

/// Whether a file is that of a proxy. What cannot be read is not.
pub fn is_proxy_file(file: &Path) -> bool {
    crate::load::read_text(file).is_ok_and(|text| config::is_proxy(&text))
}

/// What is wrong with a file's text, if anything.
pub fn parse_text(text: &str) -> Result<(), ConfigError> {
    config::parse(text, "text").map(drop)
}

/// What a file asks for, in words.
pub fn check(file: &Path) -> Result<String, ConfigError> {
    let settings = config::load(file)?;
    let list = |networks: &[wavelane_base::IpPrefix]| networks.iter().map(prefix_text).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    let how = match settings.placement {
        Placement::Route => "",
        Placement::Bridge => ", of what passes over it",
        Placement::Option => ", where it names its server in an IP option",
        Placement::Tunnel => ", in packets of tunnels",
        Placement::Arp => ", where hosts are told that their routers are here",
    };
    let _ = writeln!(
        text,
        "{} TCP from {} to {}{how}",
        settings.does(),
        settings.interfaces.join(", "),
        list(&settings.targets)
    );
    if settings.placement == Placement::Arp {
        let routers: Vec<String> = settings.claimed.routers.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "routers {} and clients {} are told so",
            routers.join(", "),
            list(&settings.claimed.clients)
        );
    }
    for tunnel in &settings.tunnels {
        let _ = writeln!(text, "tunnel of {}: {}", tunnel.peer, list(&tunnel.networks));
    }
    for side in &settings.sides {
        let networks = if side.networks.is_empty() { "everywhere".into() } else { list(&side.networks) };
        let _ = writeln!(text, "side '{}': {networks}", side.name);
    }
    let linked = firewall::linked(&settings.rules(has_ipv6()), &firewall::Reached::new());
    let warnings: Vec<String> = warnings(&settings).into_iter().chain(rules::left_closed()).chain(linked).collect();
    Ok(checked(file, &format!("proxy '{}' is", settings.name), text, &warnings))
}

/// What works, but perhaps not as the operator expects.
fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let six = settings.targets.iter().any(|target| target.address.is_ipv6()) && has_ipv6();
    let forwarding = [("net.ipv4.ip_forward", true), ("net.ipv6.conf.all.forwarding", six)];
    for (setting, _) in forwarding.into_iter().filter(|(_, wanted)| *wanted) {
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        if std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0") {
            warnings
                .push(format!("{setting} is 0, so what is not split is not forwarded: run `sysctl -w {setting}=1`"));
        }
    }
    if settings.placement == Placement::Arp {
        warnings.extend(settings.claimed.warnings(&settings.interfaces));
    }
    warnings.extend(firewall::findings(&settings.rules(has_ipv6()), &firewall::Reached::new()));
    // The engine on our own TCP has all that its words say, whatever the kernel has.
    match (settings.engine == Engine::Kernel).then(|| tunings(settings)) {
        Some(Ok((_, remark))) => warnings.extend(remark),
        Some(Err(why)) => warnings.push(why.to_string()),
        None => warnings.extend(beyond_pool(settings)),
    }
    let (own, leaves) = match settings.engine {
        Engine::Kernel => (CRUMB, settings.bytes()),
        Engine::Userspace => (settings.memory_own(), settings.memory()),
    };
    // Four directions: two halves, each in and out.
    let least = settings.connections_max.saturating_mul(4 * own);
    if least > leaves {
        let whole = if leaves == settings.bytes() { least } else { least.saturating_add(least / 3 + 1) };
        warnings.push(format!(
            "`connections_max` is {}, which need {least} B for what each holds whatever the others do, and `pool` leaves {leaves} B for that: a pool of {whole} B has room for them",
            settings.connections_max
        ));
    }
    warnings
}

/// Buffers and marks of our own TCP of which the pool lets a connection that is alone use a part.
fn beyond_pool(settings: &Settings) -> Option<String> {
    let alone = settings.memory() / (MEMORY_SHARE + 1);
    let between = PairConfig { room: usize::MAX, ..pair_config(settings) }.limit(0, 0);
    let says = |whose: String, key: &str, octets: usize, alone: usize| {
        // Rounded up twice, whose halves and shares round down.
        let parts = settings.bytes() / alone.max(1) + 1;
        let whole = octets.saturating_mul(parts);
        (octets > alone).then(|| {
            format!("{whose} has {key} of {octets} B, of which `pool` lets a connection use {alone} B: a pool of {whole} B lets it use all")
        })
    };
    let of_side = |side: &Side| {
        let whose = || format!("side '{}'", side.name);
        let buffer = says(whose(), "a `buffer`", side.own_tcp().receive_buffer, alone);
        buffer.or_else(|| says(whose(), "a `high`", side.marks()?.high, between))
    };
    let usual = || says("an end beyond all sides".to_owned(), "a buffer", settings.own_tcp().0.receive_buffer, alone);
    let everywhere = settings.sides.iter().any(|side| side.networks.is_empty());
    settings.sides.iter().find_map(of_side).or_else(|| if everywhere { None } else { usual() })
}

/// Splits what `file` names until SIGTERM or SIGINT, and removes everything then.
pub fn run(file: &Path) -> Result<(), ProxyError> {
    let settings = config::load(file)?;
    match settings.engine {
        Engine::Kernel => Proxy::<Sockets>::start(settings, file)?.run(),
        Engine::Userspace => Proxy::<Userspace>::start(settings, file)?.run(),
    }
    .map_err(|why| match why.get_ref() {
        Some(_) => ProxyError::Ended(why),
        None => system("waiting for events")(why),
    })
}

/// The proxy's whole state.
struct Proxy<B> {
    file: PathBuf,
    settings: Settings,
    clock: NodeClock,
    now: Instant,
    started: Instant,
    pair: Pair,
    poller: Poller,
    log: Log,
    counters: Counters,
    control: Control,
    signals: Signals,
    /// Until when a gap that was told of lasts at most.
    gap_until: Option<Instant>,
    /// Why the last reload was refused.
    reload_refused: Option<String>,
    /// The file is to be read again once the kernel has answered.
    reload_again: bool,
    /// What the kernel is asked to do now.
    pending: Option<Box<Settings>>,
    supervisor: Supervisor,
    kernel: Kernel,
    /// What bounds the lines on parts that other programs took away.
    losses: Losses,
    /// What bounds the lines on what the rules could not follow.
    notes_told: Allowance,
    ticked: Instant,
    /// What the placement needs done beside the engine.
    beside: Option<Beside>,
    /// The engine.
    body: B,
}

/// What each direction of the engine `kernel` is to hold whatever the others do: a segment, since one of fewer octets costs as many calls.
const CRUMB: usize = 1_460;

fn pair_config(settings: &Settings) -> PairConfig {
    let pool = usize::try_from(settings.pool.get()).unwrap_or(usize::MAX);
    // In one process with the TCP, whose buffers have the rest: see `Settings::memory`.
    let (room, pool) =
        if settings.engine == Engine::Kernel { (ROOM, pool) } else { (config::OWN_ROOM, pool_parts(pool).0) };
    PairConfig { room, flows_max: settings.connections_max, pool }
}

/// How the kernel's sockets are set; the error names the knob that this kernel lacks. The remark says that the usual congestion control is not here.
fn tunings(settings: &Settings) -> Result<(Tunings, Option<String>), ProxyError> {
    let word = Settings::usual_congestion();
    let bbr = Tuning { congestion: Some(word.into()), ..Tuning::default() };
    let (usual, remark) = match bbr.probe() {
        Ok(()) => (Some(word), None),
        Err((_, e)) => {
            let why = format!(
                "warning: no congestion control {word} here ({e}), so the kernel's own is used: run `modprobe tcp_{word}`"
            );
            (None, Some(why))
        }
    };
    let fixed = |tuning: Tuning| Tuning { buffers: Buffers { adapts: false, ..tuning.buffers }, ..tuning };
    let of = |side: &Side| fixed(side.tuning(usual));
    for side in &settings.sides {
        of(side).probe().map_err(|(knob, source)| ProxyError::Knob {
            knob,
            side: side.name.clone(),
            source,
            remedy: match knob {
                "congestion" => {
                    "load its module (`modprobe tcp_NAME`), or name one of net.ipv4.tcp_available_congestion_control"
                }
                _ => "it needs a newer kernel (Linux 6.18): remove it, or take `engine = \"userspace\"`",
            },
        })?;
    }
    let plain = fixed(Tuning { congestion: usual.map(str::to_owned), ..Tuning::default() });
    let both = settings.sides.iter().find(|side| side.networks.is_empty());
    let named = settings.sides.iter().filter(|side| !side.networks.is_empty());
    let towards = named.map(|side| (side.networks.clone(), of(side))).collect();
    Ok((Tunings { towards, usual: both.map_or(plain, of) }, remark))
}

/// How much waits to be sent to the sides that say so.
fn pair_marks(settings: &Settings) -> Vec<(IpPrefix, Marks)> {
    let of = |side: &Side| side.marks().map(|marks| (side.everywhere(), marks));
    settings.sides.iter().filter_map(of).flat_map(|(all, marks)| all.into_iter().map(move |n| (n, marks))).collect()
}

/// Word of signals: to end, to read the file again, that a gap is near and that it is over.
struct Signals {
    end: UnixStream,
    reload: UnixStream,
    gap: [UnixStream; 2],
}

impl Signals {
    fn open() -> io::Result<Self> {
        let of = |signals: &[i32]| -> io::Result<UnixStream> {
            let (heard, end) = UnixStream::pair()?;
            heard.set_nonblocking(true)?;
            for signal in signals {
                signal_hook::low_level::pipe::register(*signal, end.try_clone()?)?;
            }
            Ok(heard)
        };
        let gap = [of(&[SIGUSR1])?, of(&[SIGUSR2])?];
        [SIGTERM, SIGINT].into_iter().try_for_each(note_sender)?;
        Ok(Self { end: of(&[SIGTERM, SIGINT])?, reload: of(&[SIGHUP])?, gap })
    }
    /// Which signal of whom ends this process, if one came. Nothing else does.
    fn end(&self) -> io::Result<Option<String>> {
        match (&self.end).read(&mut [0; 64]) {
            Ok(0) => Err(io::Error::other(
                "word of signals ended without one: this is a fault in wavelaned, please report it",
            )),
            Ok(_) => Ok(Some(last_sender())),
            Err(_) => Ok(None),
        }
    }
}

/// What is opened before the engine.
struct Opening {
    settings: Settings,
    config: Config,
    control: Control,
    signals: Signals,
    lock: Claim,
    beside: Option<Box<dyn Work>>,
}

impl Opening {
    fn open(settings: Settings) -> Result<Self, ProxyError> {
        let config = settings.rules(has_ipv6());
        let signals = Signals::open().map_err(system("a signal handler"))?;
        if !start::CAPABILITIES.iter().all(|c| caps::has(*c)) {
            return Err(RulesError::Capability.into());
        }
        // A refusal only means that fewer connections fit.
        let _ = caps::raise_file_limit();
        if !wavelane_host::is_root() {
            caps::pass_on(&start::CAPABILITIES).map_err(system("passing on capabilities"))?;
        }
        let lock = rules::claim()?;
        rules::close(&config).map_err(RulesError::Tool)?;
        let control = Control::bind(&settings.control).map_err(|e| closed(&config, e.into()))?;
        let beside = beside::work(&settings).map_err(|why| closed(&config, why))?;
        Ok(Self { settings, config, control, signals, lock, beside })
    }
}

/// That it did not start, and what the file asks for then.
fn closed(config: &Config, why: StartError) -> StartError {
    match config.is_closed() {
        true => StartError::Closed { why: Box::new(why), lift: rules::lift_closed(config) },
        false => why,
    }
}

impl Proxy<Sockets> {
    fn start(settings: Settings, file: &Path) -> Result<Self, ProxyError> {
        let (tunings, remark) = tunings(&settings)?;
        let Opening { settings, config, control, signals, lock, beside } = Opening::open(settings)?;
        let mut remarks: Vec<String> = remark.into_iter().collect();
        let opened = start::transparent(&config, lock, tunings.largest(), &mut remarks);
        let (transparent, rules) = opened.map_err(|why| closed(&config, why))?;
        let poller = Poller::new().map_err(system("epoll"))?;
        let watch = poller.share().map_err(system("epoll"))?;
        let mut engine = KernelEngine::new(Some(transparent), watch, Some(MARK_OWN), TOKEN_CONNECTIONS);
        engine.tune(tunings);
        if let Some(t) = &engine.transparent {
            for (listener, token) in t.listeners.iter().zip(TOKEN_TPROXY..) {
                poller.add(listener, token, Watch::Edges).map_err(system("epoll"))?;
            }
            if let Some(queue) = &t.queue {
                poller.add(queue, TOKEN_QUEUE, Watch::Readable).map_err(system("epoll"))?;
            }
        }
        let links = LinkChanges::open().map_err(system("word of links"))?;
        poller.add(&links, TOKEN_LINKS, Watch::Readable).map_err(system("epoll"))?;
        let clock = NodeClock;
        caps::keep_only(&start::CAPABILITIES).map_err(system("giving up privileges"))?;
        let movers = Movers::start(pair_config(&settings), clock).map_err(system("a thread"))?;
        let mut body =
            Sockets { door: Door::new(engine), movers, links, retry_listeners: false, led: BTreeMap::new(), own: None };
        body.know_own_addresses();
        Self::with(file, (settings, &config), (control, signals, beside), (poller, clock, rules), body, &remarks)
    }
}

impl<B: Body> Proxy<B> {
    fn with(
        file: &Path,
        (settings, config): (Settings, &Config),
        (control, signals, beside): (Control, Signals, Option<Box<dyn Work>>),
        (poller, clock, rules): (Poller, NodeClock, Rules),
        body: B,
        remarks: &[String],
    ) -> Result<Self, ProxyError> {
        let now = clock.now();
        let log = Log::open(now, settings.log).map_err(system("a thread"))?;
        log.pen().take_panics();
        let kernel = Kernel::start(Installed { rules, ways: None }, config).map_err(system("a thread"))?;
        let beside = beside.map(Beside::start).transpose().map_err(system("a thread"))?;
        let mut pair = Pair::new(pair_config(&settings));
        pair.set_marks(pair_marks(&settings));
        let mut proxy = Self {
            file: file.into(),
            settings,
            clock,
            now,
            started: now,
            pair,
            poller,
            log,
            counters: Counters::default(),
            control,
            signals,
            gap_until: None,
            reload_refused: None,
            reload_again: false,
            pending: None,
            supervisor: Supervisor::of_this_process(),
            kernel,
            losses: Losses::default(),
            notes_told: Allowance::new(now),
            ticked: now,
            beside,
            body,
        };
        proxy.watch().map_err(system("epoll"))?;
        proxy.announce(remarks);
        let does = format!("{} TCP", proxy.settings.does());
        proxy.supervisor.ready(now, &does);
        Ok(proxy)
    }

    fn watch(&self) -> io::Result<()> {
        let poller = &self.poller;
        poller.add(&self.signals.end, TOKEN_SIGNAL, Watch::Readable)?;
        poller.add(&self.signals.reload, TOKEN_RELOAD, Watch::Readable)?;
        for (signal, token) in self.signals.gap.iter().zip(TOKEN_GAP..) {
            poller.add(signal, token, Watch::Readable)?;
        }
        if let Some(beside) = &self.beside {
            poller.add(&beside.bell, TOKEN_BESIDE, Watch::Readable)?;
        }
        poller.add(&self.kernel.bell, TOKEN_KERNEL, Watch::Readable)?;
        poller.add(&self.control.listener, TOKEN_CONTROL, Watch::Arrivals)
    }

    fn announce(&mut self, remarks: &[String]) {
        let Settings { name, interfaces, .. } = &self.settings;
        let what = format!("proxy '{name}' {} TCP from {}", self.settings.does(), interfaces.join(", "));
        self.say(&what);
        remarks.iter().for_each(|remark| self.say(remark));
        for warning in warnings(&self.settings) {
            self.warn(&warning);
        }
        if self.settings.on_failure == OnFailure::Closed {
            let lift = rules::lift_closed(&self.settings.rules(has_ipv6()));
            self.say(&format!(
                "should this process die, new connections stay refused until it starts again or you run: {lift}"
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
}
