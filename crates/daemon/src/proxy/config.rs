//! The file of a proxy: a table `[proxy]`, its `[[proxy.side]]`, and nothing else. It needs no key, for it has no peer.

use super::places::{Claimed, Tunnel, claimed, tunnels};
use crate::config::addresses::prefixes;
use crate::config::{
    Attached, Clamp, Config, ConfigError, Intercept, OnFailure, Peer, Placement, ProxyRules, Source, has_table,
    is_interface_name, prefix_text, value, width, with_root,
};
use crate::system::interface::TUNNEL_DEVICE;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wavelane_base::{IpPrefix, Octets, Span};
use wavelane_door::{Marks, POOL_DEFAULT, pool_parts};
use wavelane_gateway::{Choice, Controller};
use wavelane_host::tcp::{self, Buffers, Tuning};
use wavelane_settings::{
    File, FileError, GatewayKnobs, LogLevel, PROXY, ProxyTable, SIDE, SIDE_TABLE, SideKnobs, SideTable, TUNNEL, Table,
    TunnelTable,
};
use wavelane_tcp::{Config as TcpConfig, CongestionControl, Keepalive, memory_own};

/// Connections at a time unless the file says otherwise: two descriptors each, and a process usually has 20,000.
const CONNECTIONS_DEFAULT: usize = 8_000;
/// Half of what our TCP holds, since each has two halves, less some that linger (RFC 9293's TIME-WAIT).
const USERSPACE_MAX: usize = 30_000;
/// Bytes that wait in each direction between two halves on our own TCP, whose buffers are beside them in the same process: a reader that
/// stops holds a mebibyte.
pub(super) const OWN_ROOM: usize = 128 << 10;
/// The device of the engine on our own TCP.
pub(super) const DEVICE: &str = "wavelane-proxy";
/// Most sides, and networks of one.
const SIDES_MAX: usize = 64;
/// Longest name.
const WORD_MAX: usize = 32;
/// Most targets, and exemptions.
const LIST_MAX: usize = 4_096;
/// Most interfaces: each has rules and a line of the log of its own.
const INTERFACES_MAX: usize = 64;
/// The largest floor of the timeout that the kernel takes (TCP_RTO_MIN_US: its own, `TCP_RTO_MIN`).
const KERNEL_RTO_MIN: Span = Span::from_millis(200);
/// The congestion control of a side that names none: its random losses are no congestion.
const CONGESTION: &str = "bbr";

/// A proxy's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) placement: Placement,
    pub(crate) mode: Mode,
    pub(crate) interfaces: Vec<String>,
    pub(crate) targets: Vec<IpPrefix>,
    pub(crate) exempt: Exempt,
    pub(crate) connections_max: usize,
    pub(crate) pool: Octets,
    pub(crate) on_failure: OnFailure,
    pub(crate) control: PathBuf,
    pub(crate) log: LogLevel,
    pub(crate) sides: Vec<Side>,
    /// Who sends packets here within packets, and whose.
    pub(crate) tunnels: Vec<Tunnel>,
    /// Whose addresses are claimed on the interfaces.
    pub(crate) claimed: Claimed,
}

/// Whose TCP both halves are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    Kernel,
    Userspace,
}

/// What becomes of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Split,
    /// Packets pass as they are.
    Mirror,
    /// They pass, and losses on the way to the sides are repaired.
    Snoop,
}

impl Mode {
    /// As the file writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Mirror => "mirror",
            Self::Snoop => "snoop",
        }
    }
}

impl Engine {
    /// As the file writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Userspace => "userspace",
        }
    }
}

/// What passes by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Exempt {
    pub(crate) networks: Vec<IpPrefix>,
    pub(crate) ports: Vec<u16>,
    pub(crate) dscps: Vec<u8>,
}

/// The halves of connections whose remote end lies in some networks, whoever opened them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) networks: Vec<IpPrefix>,
    /// Its sockets; without a congestion control [`CONGESTION`] where the kernel has it.
    pub(crate) knobs: SideKnobs,
}

/// Whether a TOML text is that of a proxy.
pub(crate) fn is_proxy(text: &str) -> bool {
    has_table(text, "proxy")
}

/// Reads the file.
pub(crate) fn load(path: &Path) -> Result<Settings, ConfigError> {
    let text = crate::load::read_text(path).map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
    parse(&text, &path.display().to_string())
}

/// Reads a text; `place` names it in messages.
pub(crate) fn parse(text: &str, place: &str) -> Result<Settings, ConfigError> {
    read(text, place).map_err(|why| why.in_file(text, place))
}

fn read(text: &str, place: &str) -> Result<Settings, ConfigError> {
    let table = toml::from_str::<toml::Table>(text);
    if let Some(other) = table.iter().flat_map(|t| t.keys()).find(|key| *key == "gateway" || *key == "shaper") {
        return Err(value("proxy", format!("stands beside [{other}]: give each a file and a wavelaned of its own")));
    }
    let (table, sides, tunnels) = with_root(text, place, |root| {
        root.only(&["proxy"])?;
        let proxy = root.need("proxy", "{ interfaces = [\"lan0\"] }")?.titled()?;
        let sides = proxy.parts("side")?.iter().map(side_tables).collect::<Result<_, _>>()?;
        let tunnels = TUNNEL.each(&proxy, "tunnel")?;
        Ok((PROXY.whole(File::Daemon, &proxy, &["side", "tunnel"])?, sides, tunnels))
    })?;
    settings(table, sides, tunnels)
}

fn side_tables(table: &Table<'_>) -> Result<(SideTable, SideKnobs), FileError> {
    let knobs = SIDE.keys(File::Daemon);
    let knobs: Vec<&str> = knobs.iter().map(AsRef::as_ref).collect();
    Ok((SIDE_TABLE.whole(File::Daemon, table, &knobs)?, SIDE.read(File::Daemon, table)?))
}

/// Whether a text can stand in a file's name and in a line of the log.
fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=WORD_MAX).contains(&text.len()) && !text.starts_with('.') && text.chars().all(fits)
}

/// What becomes of connections, if this engine can do that.
fn mode(word: Option<&str>, engine: Engine) -> Result<Mode, ConfigError> {
    let why = match word {
        None | Some("split") => return Ok(Mode::Split),
        Some("mirror") if engine == Engine::Userspace => return Ok(Mode::Mirror),
        Some("snoop") if engine == Engine::Userspace => return Ok(Mode::Snoop),
        Some("mirror" | "snoop") => {
            "needs engine = \"userspace\", through whose device packets pass: write that, or \"split\""
        }
        Some(_) => "is none: write \"split\", \"mirror\" or \"snoop\"",
    };
    Err(value("proxy.mode", format!("\"{}\" {why}", word.unwrap_or_default())))
}

/// How connections come here, if this engine takes them so.
fn placement(word: Option<&str>, engine: Engine, on_failure: OnFailure) -> Result<Placement, ConfigError> {
    const KEY: &str = "proxy.placement";
    let word = word.unwrap_or(Placement::Route.word());
    let Some((_, placement)) = Placement::WORDS.iter().find(|(of, _)| *of == word) else {
        let words = Placement::WORDS.map(|(of, _)| format!("\"{of}\"")).join(", ");
        return Err(value(KEY, format!("\"{word}\" is none: write one of {words}")));
    };
    match placement {
        Placement::Route | Placement::Arp => {}
        Placement::Bridge | Placement::Option if engine == Engine::Userspace => {
            return Err(value(KEY, format!("\"{word}\" needs engine = \"kernel\": write that, or \"route\"")));
        }
        _ if on_failure == OnFailure::Closed => {
            let why = "needs on_failure = \"open\", as nothing is left that could refuse: write that, or \"route\"";
            return Err(value(KEY, format!("\"{word}\" {why}")));
        }
        _ => {}
    }
    Ok(*placement)
}

fn settings(
    t: ProxyTable,
    of_sides: Vec<(SideTable, SideKnobs)>,
    of_tunnels: Vec<TunnelTable>,
) -> Result<Settings, ConfigError> {
    let (on_failure, interfaces) = (t.on_failure.unwrap_or_default(), t.interfaces.unwrap_or_default());
    let engine = match t.engine.as_deref() {
        None | Some("kernel") => Engine::Kernel,
        Some("userspace") => Engine::Userspace,
        Some(word) => {
            return Err(value("proxy.engine", format!("\"{word}\" is none: write \"kernel\" or \"userspace\"")));
        }
    };
    let mode = mode(t.mode.as_deref(), engine)?;
    let placement = placement(t.placement.as_deref(), engine, on_failure)?;
    if t.early == Some(true) {
        let why = "is not in this version: each connection waits for its server's answer, as without a proxy";
        return Err(value("proxy.early", why));
    }
    let name = t.name.unwrap_or_else(|| "proxy".into());
    if !is_word(&name) {
        return Err(value("proxy.name", format!("'{name}' is no name: use letters, digits, '-', '_' and '.'")));
    }
    if interfaces.is_empty() {
        return Err(value(
            "proxy.interfaces",
            "is empty: name the interfaces that connections arrive by, such as [\"eth0\"]",
        ));
    }
    if interfaces.len() > INTERFACES_MAX {
        let why = format!("has {} names, and {INTERFACES_MAX} are the most: join them by a bridge", interfaces.len());
        return Err(value("proxy.interfaces", why));
    }
    if let Some(bad) = interfaces.iter().find(|name| !is_interface_name(name)) {
        return Err(value("proxy.interfaces", format!("'{bad}' is not an interface name (see `ip link`)")));
    }
    let twice = |(place, name): &(usize, &String)| interfaces[..*place].contains(name);
    if let Some((_, name)) = interfaces.iter().enumerate().find(twice) {
        return Err(value("proxy.interfaces", format!("'{name}' stands twice: name it once")));
    }
    let everywhere = || vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let targets = networks("proxy.targets", &t.targets.unwrap_or_else(everywhere))?;
    if targets.is_empty() {
        return Err(value("proxy.targets", "is empty: name networks, or leave it out for every target"));
    }
    let exempt = exempt(&t.exempt.unwrap_or_default())?;
    let idle = |target: &&IpPrefix| exempt.networks.iter().any(|network| network.covers(target));
    if let Some(target) = targets.iter().find(idle) {
        let why = format!("holds all of the target {}: take it out of one list", prefix_text(target));
        return Err(value("proxy.exempt", why));
    }
    let connections_max = t.connections_max.unwrap_or(CONNECTIONS_DEFAULT);
    if engine == Engine::Userspace && connections_max > USERSPACE_MAX {
        let why = format!("is {connections_max}, and {USERSPACE_MAX} are the most of engine = \"userspace\"");
        return Err(value("proxy.connections_max", why));
    }
    let idle = [
        ("proxy.connections_max", t.connections_max.is_some()),
        ("proxy.pool", t.pool.is_some()),
        ("proxy.side", !of_sides.is_empty()),
    ];
    if let Some((key, _)) = idle.iter().find(|(_, is_set)| *is_set && mode == Mode::Mirror) {
        let why = "has no use with mode = \"mirror\", which splits nothing: remove it, or write mode = \"split\"";
        return Err(value(*key, why));
    }
    let pool = t.pool.unwrap_or(Octets::new(POOL_DEFAULT as u64));
    if of_sides.len() > SIDES_MAX {
        return Err(value("proxy.side", format!("stands {} times, and {SIDES_MAX} are the most", of_sides.len())));
    }
    if mode == Mode::Snoop {
        if of_sides.is_empty() {
            let why = "is missing, and mode = \"snoop\" repairs only what is lost on the way to a side: write [[proxy.side]] with `name` and `networks`";
            return Err(value("proxy.side", why));
        }
        if let Some((side, _)) = of_sides.iter().find(|(_, knobs)| *knobs != SideKnobs::default()) {
            let name = side.name.as_deref().unwrap_or_default();
            let why = format!("'{name}' has knobs, and mode = \"snoop\" has no TCP of its own: remove them");
            return Err(value("proxy.side", why));
        }
    }
    let sides: Vec<Side> = of_sides.into_iter().map(side).collect::<Result<_, _>>()?;
    check_sides(&sides)?;
    sides.iter().try_for_each(|side| side.check(engine))?;
    let tunnels = tunnels(of_tunnels, placement)?;
    let claimed = claimed(&t.routers.unwrap_or_default(), &t.clients.unwrap_or_default(), placement)?;
    let control = t.control.map_or_else(|| crate::load::default_control(&name), PathBuf::from);
    Ok(Settings {
        name,
        engine,
        placement,
        mode,
        interfaces,
        targets,
        exempt,
        connections_max,
        pool,
        on_failure,
        control,
        log: t.log.unwrap_or_default(),
        sides,
        tunnels,
        claimed,
    })
}

fn check_sides(sides: &[Side]) -> Result<(), ConfigError> {
    for (i, side) in sides.iter().enumerate() {
        if !is_word(&side.name) {
            let why = format!("'{}' is no name: use letters, digits, '-', '_' and '.'", side.name);
            return Err(value("proxy.side.name", why));
        }
        let of_earlier = |network: &&IpPrefix| {
            let holds = |other: &&Side| other.networks.iter().any(|earlier| earlier.covers(network));
            sides[..i].iter().find(holds).map(|other| other.name.as_str())
        };
        if let Some(network) = side.networks.iter().find(|network| of_earlier(network).is_some()) {
            let (text, by) = (prefix_text(network), of_earlier(&network).unwrap_or_default());
            let why =
                format!("of side '{}': {text} lies in a network of side '{by}' before it, which counts", side.name);
            return Err(value("proxy.side.networks", why));
        }
        if sides[..i].iter().any(|other| other.name == side.name) {
            return Err(value("proxy.side.name", format!("'{}' stands twice: each side has its own", side.name)));
        }
        if side.networks.is_empty() && sides.len() > 1 {
            let why =
                format!("of side '{}' is empty, which only a single side may be: it is then both sides", side.name);
            return Err(value("proxy.side.networks", why));
        }
    }
    Ok(())
}

fn networks(key: &str, texts: &[String]) -> Result<Vec<IpPrefix>, ConfigError> {
    if texts.len() > LIST_MAX {
        return Err(value(key, format!("has more than {LIST_MAX} entries: join networks")));
    }
    prefixes(key, texts)
}

fn exempt(texts: &[String]) -> Result<Exempt, ConfigError> {
    const KEY: &str = "proxy.exempt";
    let mut exempt = Exempt::default();
    for text in texts {
        let none = || {
            let forms = "a network (one host: \"10.0.0.1/32\"), \"port N\" (1 to 65535) or \"dscp N\" (0 to 63)";
            value(KEY, format!("'{text}' is none: write {forms}"))
        };
        match text.split_once(' ') {
            Some(("port", number)) => {
                exempt.ports.push(number.parse().ok().filter(|port| *port != 0).ok_or_else(none)?)
            }
            Some(("dscp", number)) => exempt.dscps.push(number.parse().ok().filter(|d| *d < 64).ok_or_else(none)?),
            Some(_) => return Err(none()),
            None => {
                let _: IpPrefix = text.parse().map_err(|_| none())?;
                exempt.networks.extend(prefixes(KEY, std::slice::from_ref(text))?);
            }
        }
    }
    if texts.len() > LIST_MAX {
        return Err(value(KEY, format!("has more than {LIST_MAX} entries: join networks")));
    }
    Ok(exempt)
}

fn side((t, knobs): (SideTable, SideKnobs)) -> Result<Side, ConfigError> {
    if let Some(word) = knobs.congestion.as_ref().filter(|word| !is_word(word)) {
        return Err(value("proxy.side.congestion", format!("'{word}' is no congestion control, such as \"bbr\" is")));
    }
    let networks = networks("proxy.side.networks", &t.networks.unwrap_or_default())?;
    Ok(Side { networks, name: t.name.unwrap_or_default(), knobs })
}

impl Side {
    /// Whether the engine has what it asks for.
    fn check(&self, engine: Engine) -> Result<(), ConfigError> {
        let SideKnobs { congestion, tcp, high, low, freeze, .. } = &self.knobs;
        let lacking = [
            ("ack_every", tcp.ack_every.is_some()),
            ("ack_delay", tcp.ack_delay.is_some()),
            ("quick_acks", tcp.quick_acks.is_some()),
            ("initial_window", tcp.initial_window.is_some()),
            ("rto_initial", tcp.rto_initial.is_some()),
            ("probe", tcp.probe.is_some()),
            ("high", high.is_some()),
            ("low", low.is_some()),
            ("freeze", freeze.is_some()),
        ];
        if let Some((key, _)) = lacking.iter().find(|(_, is_set)| *is_set && engine == Engine::Kernel) {
            let why = "is no knob of engine = \"kernel\": remove it, or write engine = \"userspace\"";
            return Err(value(format!("proxy.side.{key}"), format!("of side '{}' {why}", self.name)));
        }
        if let Some(least) = tcp.rto_min.filter(|least| engine == Engine::Kernel && *least > KERNEL_RTO_MIN) {
            let why = format!(
                "of side '{}' is {least}, and a kernel takes at most {KERNEL_RTO_MIN}: write less, or engine = \"userspace\"",
                self.name
            );
            return Err(value("proxy.side.rto_min", why));
        }
        if let Some(word) = congestion.as_deref().filter(|word| engine == Engine::Userspace && control(word).is_none())
        {
            let words: Vec<&str> = CONTROLS.iter().map(|(word, _)| *word).collect();
            let why = format!(
                "'{word}' of side '{}' is no congestion control of engine = \"userspace\": use one of {}, or engine = \"kernel\"",
                self.name,
                words.join(", ")
            );
            return Err(value("proxy.side.congestion", why));
        }
        if let Some(marks) = self.marks().filter(|marks| marks.low > marks.high) {
            let why = format!(
                "of side '{}' is {} B, above `high`, which is {} B: write a lower `low` or a higher `high`",
                self.name, marks.low, marks.high
            );
            return Err(value("proxy.side.low", why));
        }
        if let (Some(least), Some(most)) = (tcp.rto_min, tcp.rto_max)
            && least > most
        {
            return Err(value("proxy.side.rto_min", format!("of side '{}' is more than its rto_max", self.name)));
        }
        Ok(())
    }
    /// Its networks: a side without any is both.
    pub(crate) fn everywhere(&self) -> Vec<IpPrefix> {
        let all = || ["0.0.0.0/0", "::/0"].iter().filter_map(|all| all.parse().ok()).collect();
        if self.networks.is_empty() { all() } else { self.networks.clone() }
    }
    /// How much waits to be sent to it, if it says.
    pub(crate) fn marks(&self) -> Option<Marks> {
        let size = |octets: Octets| usize::try_from(octets.get()).unwrap_or(usize::MAX);
        let SideKnobs { high, low, .. } = &self.knobs;
        (high.is_some() || low.is_some()).then(|| {
            let high = high.map_or(OWN_ROOM, size);
            Marks { high, low: low.map_or(high - high / 4, size) }
        })
    }
    /// How our own TCP is set there.
    pub(crate) fn own_tcp(&self) -> TcpConfig {
        let SideKnobs { congestion, mss, tcp, .. } = &self.knobs;
        let config = usual_tcp(congestion.as_deref().and_then(control).unwrap_or(CongestionControl::Bbr));
        let window = tcp.window.and_then(|octets| usize::try_from(octets.get()).ok());
        TcpConfig {
            mss: mss.unwrap_or(config.mss),
            send_buffer: window.unwrap_or(config.send_buffer),
            freeze: self.knobs.freeze,
            ..config.turned(tcp)
        }
    }
    /// How its sockets are set; `usual` is the congestion control where none is named.
    pub(crate) fn tuning(&self, usual: Option<&str>) -> Tuning {
        let SideKnobs { congestion, tcp, .. } = &self.knobs;
        Tuning {
            congestion: congestion.as_deref().or(usual).map(str::to_owned),
            rto_min: tcp.rto_min.map(|span| std::time::Duration::from_nanos(span.as_nanos())),
            rto_max: tcp.rto_max.map(|span| std::time::Duration::from_nanos(span.as_nanos())),
            buffers: tcp.window.map_or_else(Buffers::default, |octets| {
                let octets = usize::try_from(octets.get()).unwrap_or(usize::MAX);
                Buffers { send: octets, receive_max: octets, adapts: false }
            }),
        }
    }
}

/// How often a side is tried that is not heard.
const PROBE: Span = Span::from_millis(200);

/// The congestion controls of our TCP.
const CONTROLS: [(&str, CongestionControl); 4] = [
    ("bbr", CongestionControl::Bbr),
    ("bbr3", CongestionControl::Bbr3),
    ("cubic", CongestionControl::Cubic),
    ("reno", CongestionControl::NewReno),
];

fn control(word: &str) -> Option<CongestionControl> {
    CONTROLS.iter().find(|(of, _)| *of == word).map(|(_, control)| *control)
}

/// Our own TCP, with the kernel engine's buffers and probes of silent ends.
fn usual_tcp(congestion: CongestionControl) -> TcpConfig {
    let buffers = Buffers::default();
    let (idle, interval, probes) = tcp::SERVER_WATCH;
    let nanos = |time: std::time::Duration| Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    TcpConfig {
        probe: Some(PROBE),
        // Asked for, as each end may decline for its own half (RFC 3168).
        ecn: true,
        // A last hop that loses a fifth is a medium far more often than a policer.
        policers: false,
        send_buffer: buffers.send,
        receive_buffer: buffers.receive_max,
        keepalive: Some(Keepalive { idle: nanos(idle), interval: nanos(interval), probes }),
        ..TcpConfig::linux(congestion)
    }
}

impl Settings {
    /// What it does with TCP.
    pub(crate) fn does(&self) -> &'static str {
        match self.mode {
            Mode::Split => "splits",
            Mode::Mirror => "mirrors",
            Mode::Snoop => "snoops on",
        }
    }
    /// Whether connections to a server are split, as far as its address and port say.
    pub(crate) fn splits(&self, server: SocketAddr) -> bool {
        let holds = |networks: &[IpPrefix]| networks.iter().any(|network| network.contains(server.ip()));
        holds(&self.targets) && !holds(&self.exempt.networks) && !self.exempt.ports.contains(&server.port())
    }
    /// Whether what is lost on the way to a host is repaired.
    pub(crate) fn snoops(&self, host: SocketAddr) -> bool {
        let holds = |side: &Side| side.networks.is_empty() || side.networks.iter().any(|one| one.contains(host.ip()));
        self.sides.iter().any(holds)
    }
    /// What may wait in our own TCP.
    pub(crate) fn memory(&self) -> usize {
        pool_parts(usize::try_from(self.pool.get()).unwrap_or(usize::MAX)).1
    }
    /// What may wait in all.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.pool.get()).unwrap_or(usize::MAX)
    }
    /// What a connection's half holds each way whatever others do.
    pub(crate) fn memory_own(&self) -> usize {
        let (usual, towards) = self.own_tcp();
        memory_own(towards.iter().map(|(_, config)| config).chain([&usual]))
    }
    /// Our own TCP: everywhere, and towards the sides that have networks.
    pub(crate) fn own_tcp(&self) -> (TcpConfig, Vec<(IpPrefix, TcpConfig)>) {
        let of =
            |side: &Side| side.everywhere().into_iter().map(|network| (network, side.own_tcp())).collect::<Vec<_>>();
        (usual_tcp(CongestionControl::Bbr), self.sides.iter().flat_map(of).collect())
    }
    /// The congestion control of sides that name none.
    pub(crate) fn usual_congestion() -> &'static str {
        CONGESTION
    }
    /// The kernel's rules for this, as those of a gateway with one peer behind which all targets are. Without IPv6 on this host its
    /// targets are left out unless they are named.
    pub(crate) fn rules(&self, has_ipv6: bool) -> Config {
        let usable = |network: &&IpPrefix| has_ipv6 || network.bits > 0 || network.address.is_ipv4();
        let mut clamps = Vec::new();
        for (place, side) in self.sides.iter().enumerate() {
            // Our own TCP says by itself what fits.
            let Some(mss) = side.knobs.mss.filter(|_| self.engine == Engine::Kernel) else { continue };
            let networks = side.everywhere();
            let earlier = || self.sides[..place].iter().flat_map(|side| &side.networks);
            clamps.extend(networks.into_iter().map(|network| Clamp {
                but: earlier().filter(|part| network.covers(part)).copied().collect(),
                // What IPv6's longer header takes (RFC 6691).
                size: mss - if width(network.address) == 128 { 20 } else { 0 },
                network,
            }));
        }
        let proxy = ProxyRules {
            exempt: self.exempt.networks.clone(),
            ports: self.exempt.ports.clone(),
            dscps: self.exempt.dscps.clone(),
            clamps,
            device: (self.engine == Engine::Userspace).then(|| DEVICE.to_owned()),
            placement: self.placement,
            mirrors: self.mode != Mode::Split,
        };
        let targets = Peer {
            name: "targets".into(),
            public_key: [0; 32],
            preshared_key: None,
            address: None,
            lanes: Vec::new(),
            choice: Choice::default(),
            keepalive: None,
            routes: self.targets.iter().filter(usable).copied().collect(),
            next_hops: Vec::new(),
            allow_targets: None,
            allow_sources: None,
            controller: Controller::default(),
            split: true,
        };
        Config {
            name: self.name.clone(),
            private_key: [0; 32],
            listen: ([127, 0, 0, 1], 0).into(),
            on_failure: self.on_failure,
            source: Source::Keep,
            attached: Attached::default(),
            reads: Vec::new(),
            control: self.control.clone(),
            log: self.log,
            state: PathBuf::new(),
            knobs: GatewayKnobs::default(),
            serves: None,
            routing_table: None,
            peers: vec![targets],
            intercept: Some(Intercept { interfaces: self.taken_from(), local: false, proxy: Some(proxy) }),
            tun: None,
            forwards: Vec::new(),
            edges: Vec::new(),
            metrics: None,
            hook: None,
            serial: None,
        }
    }
    /// The interfaces that packets to be split come by.
    fn taken_from(&self) -> Vec<String> {
        if self.placement == Placement::Tunnel { vec![TUNNEL_DEVICE.to_owned()] } else { self.interfaces.clone() }
    }
    /// The key of a setting that differs from `new` and cannot change while the daemon runs.
    pub(crate) fn fixed_difference(&self, new: &Self) -> Option<&'static str> {
        let same = [
            ("proxy.name", self.name == new.name),
            ("proxy.engine", self.engine == new.engine),
            ("proxy.placement", self.placement == new.placement),
            ("proxy.mode", self.mode == new.mode),
            ("proxy.interfaces", self.interfaces == new.interfaces),
            ("proxy.tunnel", self.tunnels == new.tunnels),
            ("proxy.routers", self.claimed.routers == new.claimed.routers),
            ("proxy.clients", self.claimed.clients == new.claimed.clients),
            ("proxy.on_failure", self.on_failure == new.on_failure),
            ("proxy.control", self.control == new.control),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(key, _)| key)
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
