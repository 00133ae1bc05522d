//! The daemon's configuration file: TOML, unknown keys are errors, units are text.
//!
//! Reading it never consults the machine beyond the key files it names, so `check` says the same everywhere.

use crate::keys::{self, KeyError};
use crate::units;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use wavelane_base::{Octets, PortId, Rate, Span};
use wavelane_protocol::gateway::{self, Controller, IpPrefix, PeerConfig};

/// Most peers one gateway may have.
pub const PEERS_MAX: usize = 256;
/// The largest drift that may be asked of a test clock, in parts per million.
pub const DRIFT_PPM_MAX: i64 = 1_000;
/// A Unix socket's path is at most 107 bytes (unix(7), `sun_path`).
const SOCKET_PATH_MAX: usize = 107;

/// Why a configuration cannot be used. Each message is one line with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; check the path, or make a file with `wavelane init`")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not what the file may hold.
    #[error("{place}: {what}; correct it and try `wavelane check` again")]
    Malformed {
        /// File and line, as far as known.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// A value makes no sense.
    #[error("{key}: {what}")]
    Value {
        /// The key, as written in the file.
        key: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// A key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The gateway machine refuses it.
    #[error(transparent)]
    Gateway(#[from] gateway::ConfigError),
}

/// What happens to new connections once the daemon has died without saying goodbye.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The kernel forwards them plainly.
    #[default]
    Open,
    /// They are refused.
    Closed,
}

/// Which source address the far gateway connects from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The application's own (needs CAP_NET_ADMIN, and replies must be routed through this gateway).
    Keep,
    /// The gateway's.
    #[default]
    Own,
}

/// One neighbour.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name for people.
    pub name: String,
    /// Its public key.
    pub public_key: [u8; 32],
    /// Pre-shared key, if one is named.
    pub preshared_key: Option<[u8; 32]>,
    /// `host:port`, resolved at start-up; `None` if it calls us.
    pub address: Option<String>,
    /// Targets taken through this peer.
    pub routes: Vec<IpPrefix>,
    /// Targets it may ask for.
    pub allow_targets: Vec<IpPrefix>,
    /// Sources it may speak for.
    pub allow_sources: Vec<IpPrefix>,
    /// The lane's controller.
    pub controller: Controller,
}

/// One plain forward: what connects to `listen` reaches `to` from the peer `via`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forward {
    /// Where we listen.
    pub listen: SocketAddr,
    /// Where the peer connects to.
    pub to: SocketAddr,
    /// Index of the peer.
    pub via: usize,
}

/// Which traffic is taken without the applications knowing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Intercept {
    /// Traffic that arrives on these interfaces.
    pub interfaces: Vec<String>,
    /// Traffic born on this host.
    pub local: bool,
}

/// A clock set wrong on purpose, for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockSkew {
    /// Added to every reading.
    pub offset: Span,
    /// Parts per million by which it runs fast (or slow, if negative).
    pub drift_ppm: i64,
}

/// Everything `wavelaned` is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name for people.
    pub name: String,
    /// Our private key.
    pub private_key: [u8; 32],
    /// The UDP address of our lanes.
    pub listen: SocketAddr,
    /// See [`OnFailure`].
    pub on_failure: OnFailure,
    /// See [`Source`].
    pub source: Source,
    /// The control socket.
    pub control: PathBuf,
    /// Bytes that all flows' buffers share.
    pub pool: Octets,
    /// Most flows at once.
    pub flows_max: usize,
    /// The neighbours.
    pub peers: Vec<Peer>,
    /// Traffic taken transparently, if any.
    pub intercept: Option<Intercept>,
    /// Plain forwards.
    pub forwards: Vec<Forward>,
    /// Test clock.
    pub clock: ClockSkew,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    gateway: GatewayTable,
    #[serde(default)]
    peer: Vec<PeerTable>,
    intercept: Option<InterceptTable>,
    #[serde(default)]
    forward: Vec<ForwardTable>,
    clock: Option<ClockTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayTable {
    name: String,
    key: PathBuf,
    #[serde(default = "default_listen")]
    listen: String,
    #[serde(default)]
    on_failure: OnFailure,
    #[serde(default)]
    source: Source,
    control: Option<PathBuf>,
    pool: Option<String>,
    flows_max: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: String,
    public_key: String,
    preshared_key: Option<PathBuf>,
    address: Option<String>,
    #[serde(default)]
    routes: Vec<String>,
    allow_targets: Option<Vec<String>>,
    allow_sources: Option<Vec<String>>,
    controller: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterceptTable {
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default)]
    local: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForwardTable {
    listen: String,
    to: String,
    via: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockTable {
    offset: Option<String>,
    drift_ppm: Option<i64>,
}

fn default_listen() -> String {
    "0.0.0.0:4780".into()
}

fn value(key: impl Into<String>, what: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.into(), what: what.into() }
}

/// Whether a TOML text is a gateway's configuration (it has a table `gateway`) rather than a scenario.
pub fn is_gateway_config(text: &str) -> bool {
    toml::from_str::<toml::Table>(text)
        .map_or_else(|_| text.lines().any(|l| l.trim() == "[gateway]"), |t| t.contains_key("gateway"))
}

impl Config {
    /// Reads the file and the key files it names (relative names count from the file's folder).
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), folder)
    }

    /// Reads a text; `place` names it in messages, `folder` is where relative key paths count from.
    pub fn parse(text: &str, place: &str, folder: &Path) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|s| text[..s.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or_else(|| place.to_string(), |l| format!("{place}, line {l}"));
            ConfigError::Malformed { place, what: e.message().replace('\n', ", ") }
        })?;
        let mut peers = Vec::new();
        for table in file.peer {
            peers.push(Peer::from_table(table, folder)?);
        }
        let forwards = file.forward.into_iter().map(|f| forward(f, &peers)).collect::<Result<_, _>>()?;
        let g = file.gateway;
        let defaults = gateway::Config::default();
        let pool = match &g.pool {
            Some(text) => units::octets(text).map_err(|e| value("gateway.pool", e))?,
            None => defaults.pool,
        };
        let config = Self {
            private_key: keys::read_key(&folder.join(&g.key))?,
            listen: socket_address("gateway.listen", &g.listen)?,
            control: folder.join(g.control.unwrap_or_else(|| default_control(&g.name))),
            name: g.name,
            on_failure: g.on_failure,
            source: g.source,
            pool,
            flows_max: g.flows_max.unwrap_or(defaults.flows_max),
            peers,
            intercept: file.intercept.map(|i| Intercept { interfaces: i.interfaces, local: i.local }),
            forwards,
            clock: clock(file.clock)?,
        };
        config.check()?;
        Ok(config)
    }

    /// What the gateway machine is told. `addresses` are the peers' resolved addresses, in order.
    pub fn to_gateway(&self, addresses: &[Option<SocketAddr>]) -> gateway::Config {
        let peers = self.peers.iter().enumerate().map(|(i, p)| PeerConfig {
            name: p.name.clone(),
            public_key: p.public_key,
            preshared_key: p.preshared_key,
            address: addresses.get(i).copied().flatten(),
            port: PortId(0),
            allow_sources: p.allow_sources.clone(),
            allow_targets: p.allow_targets.clone(),
            routes: p.routes.clone(),
            controller: p.controller,
        });
        gateway::Config {
            private_key: self.private_key,
            peers: peers.collect(),
            flows_max: self.flows_max,
            pool: self.pool,
            aes_hardware: aes_hardware(),
            ..gateway::Config::default()
        }
    }

    /// The peer that `target` is taken through: the longest matching route; the first of equals.
    pub fn route(&self, target: IpAddr) -> Option<usize> {
        let routes = self.peers.iter().enumerate().flat_map(|(i, p)| p.routes.iter().map(move |r| (i, r)));
        let mut best: Option<(usize, u8)> = None;
        for (peer, prefix) in routes.filter(|(_, r)| r.contains(target)) {
            if best.is_none_or(|(_, bits)| prefix.bits > bits) {
                best = Some((peer, prefix.bits));
            }
        }
        best.map(|(peer, _)| peer)
    }

    /// Whether `peer` may have us connect to `target`, given this host's own addresses.
    ///
    /// Loopback, link-local, unspecified, multicast and broadcast addresses and this host's own are refused
    /// unless a listed prefix names them on purpose: it lies within 127.0.0.0/8 or 169.254.0.0/16, or it is
    /// exactly the address.
    pub fn may_connect(&self, peer: usize, target: IpAddr, own: &[IpAddr]) -> bool {
        let Some(peer) = self.peers.get(peer) else { return false };
        let IpAddr::V4(v4) = target else { return false };
        let least_bits = match v4 {
            _ if v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() => return false,
            _ if v4.is_loopback() => 8,
            _ if v4.is_link_local() => 16,
            _ if own.contains(&target) => 32,
            _ => 0,
        };
        peer.allow_targets.iter().any(|p| p.bits >= least_bits && p.contains(target))
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.name.is_empty() || self.name.contains(char::is_whitespace) {
            return Err(value("gateway.name", "must be one word, such as \"ship\""));
        }
        if self.listen.is_ipv6() {
            return Err(value("gateway.listen", "IPv6 lanes are not supported yet; use an IPv4 address"));
        }
        if self.control.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(value(
                "gateway.control",
                format!("is longer than {SOCKET_PATH_MAX} bytes; use a shorter path"),
            ));
        }
        if self.peers.is_empty() {
            return Err(value("peer", "no peer is configured: add a [[peer]] table (wavelane init writes one)"));
        }
        if self.peers.len() > PEERS_MAX {
            return Err(value("peer", format!("at most {PEERS_MAX} peers, not {}", self.peers.len())));
        }
        for (i, p) in self.peers.iter().enumerate() {
            if self.peers[..i].iter().any(|q| q.name == p.name) {
                return Err(value("peer.name", format!("two peers are called '{}': rename one", p.name)));
            }
            if p.public_key == keys::public_key(&self.private_key) {
                return Err(value(
                    "peer.public_key",
                    format!("peer '{}' has this gateway's own key: put the other gateway's public key there", p.name),
                ));
            }
        }
        if let Some(i) = &self.intercept {
            self.check_intercept(i)?;
        }
        self.to_gateway(&[]).check()?;
        Ok(())
    }

    fn check_intercept(&self, i: &Intercept) -> Result<(), ConfigError> {
        if i.interfaces.is_empty() && !i.local {
            return Err(value(
                "intercept",
                "takes nothing: list `interfaces`, set `local = true`, or remove the table",
            ));
        }
        let fits = |name: &String| {
            (1..=15).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b))
        };
        if let Some(wrong) = i.interfaces.iter().find(|n| !fits(n)) {
            return Err(value("intercept.interfaces", format!("'{wrong}' is not an interface name (see `ip link`)")));
        }
        if self.peers.iter().all(|p| p.routes.is_empty()) {
            return Err(value(
                "intercept",
                "no peer has `routes`, so nothing would be taken: list the far networks there",
            ));
        }
        Ok(())
    }
}

impl Peer {
    fn from_table(t: PeerTable, folder: &Path) -> Result<Self, ConfigError> {
        let key = |field: &str| format!("peer '{}': {field}", t.name);
        let public_key = keys::key_from_base64(&t.public_key).ok_or_else(|| {
            value(key("public_key"), "is not a key (44 characters of base64); `wavelane keygen` at the peer prints it")
        })?;
        let any = || Some(vec!["0.0.0.0/0".to_string()]);
        let allow_targets = prefixes(&key("allow_targets"), t.allow_targets.or_else(any).unwrap_or_default())?;
        let allow_sources = prefixes(&key("allow_sources"), t.allow_sources.or_else(any).unwrap_or_default())?;
        if let Some(address) = &t.address {
            let port =
                address.rsplit_once(':').and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
            if port.is_none_or(|p| p == 0) {
                return Err(value(key("address"), format!("'{address}' is not host:port, such as 192.0.2.7:4780")));
            }
        }
        let controller = match t.controller.as_deref() {
            None | Some("delay") => Controller::Delay,
            Some("cubic") => Controller::Cubic,
            Some(fixed) => fixed_rate(fixed).map(Controller::Fixed).map_err(|e| value(key("controller"), e))?,
        };
        Ok(Self {
            public_key,
            preshared_key: t.preshared_key.as_ref().map(|p| keys::read_key(&folder.join(p))).transpose()?,
            routes: prefixes(&key("routes"), t.routes.clone())?,
            allow_targets,
            allow_sources,
            controller,
            address: t.address,
            name: t.name,
        })
    }
}

fn fixed_rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("'{text}' is not \"delay\", \"cubic\" or \"fixed 20 Mbit/s\"");
    let rate = text.strip_prefix("fixed ").ok_or_else(wrong)?;
    units::rate(rate).ok().filter(|r| r.as_bps() > 0).ok_or_else(wrong)
}

fn prefixes(key: &str, texts: Vec<String>) -> Result<Vec<IpPrefix>, ConfigError> {
    let parse = |text: &String| -> Result<IpPrefix, ConfigError> {
        let prefix: IpPrefix = text.parse().map_err(|e: String| value(key, e))?;
        let IpAddr::V4(address) = prefix.address else {
            return Err(value(key, format!("'{text}': IPv6 traffic is not carried yet; list IPv4 blocks")));
        };
        let mask = if prefix.bits == 0 { 0 } else { u32::MAX << (32 - u32::from(prefix.bits)) };
        let first = Ipv4Addr::from(u32::from(address) & mask);
        if first != address {
            return Err(value(key, format!("'{text}' has bits set behind its prefix: write {first}/{}", prefix.bits)));
        }
        Ok(prefix)
    };
    texts.iter().map(parse).collect()
}

fn socket_address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    let address: SocketAddr =
        text.parse().map_err(|_| value(key, format!("'{text}' is not address:port, such as 0.0.0.0:4780")))?;
    if address.port() == 0 {
        return Err(value(key, "port 0 cannot be reached: name a port, such as 4780"));
    }
    Ok(address)
}

fn forward(f: ForwardTable, peers: &[Peer]) -> Result<Forward, ConfigError> {
    let names = || peers.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    let via = peers
        .iter()
        .position(|p| p.name == f.via)
        .ok_or_else(|| value("forward.via", format!("no peer is called '{}'; there is {}", f.via, names())))?;
    let (listen, to) = (socket_address("forward.listen", &f.listen)?, socket_address("forward.to", &f.to)?);
    if to.is_ipv6() {
        return Err(value("forward.to", "IPv6 targets are not supported yet; use an IPv4 address"));
    }
    Ok(Forward { listen, to, via })
}

fn clock(t: Option<ClockTable>) -> Result<ClockSkew, ConfigError> {
    let Some(t) = t else { return Ok(ClockSkew::default()) };
    let offset = t.offset.map(|o| units::span(&o)).transpose().map_err(|e| value("clock.offset", e))?;
    let drift_ppm = t.drift_ppm.unwrap_or(0);
    if drift_ppm.abs() > DRIFT_PPM_MAX {
        return Err(value("clock.drift_ppm", format!("must lie within +-{DRIFT_PPM_MAX}, not {drift_ppm}")));
    }
    Ok(ClockSkew { offset: offset.unwrap_or(Span::ZERO), drift_ppm })
}

/// Whether this processor has AES instructions.
fn aes_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}

/// Where the control socket lies if the file does not say.
pub fn default_control(name: &str) -> PathBuf {
    let file = format!("wavelane-{name}.sock");
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !wavelane_host::is_root() => PathBuf::from(dir).join(file),
        _ if wavelane_host::is_root() => PathBuf::from("/run").join(file),
        _ => std::env::temp_dir().join(file),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
