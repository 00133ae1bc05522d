//! The daemon's configuration file: TOML, unknown keys are errors, units are text.
//!
//! Reading it never consults the machine beyond the key files it names, so `check` says the same everywhere.

pub(crate) mod addresses;
mod check;
mod file;
mod lane;
mod lane_table;
mod lanes;
mod line;
mod mechanisms;
mod peer_table;
mod serial_table;
mod tables;
mod text;

pub(crate) use check::is_interface_name;
pub use lane::{Directions, LaneSocket, PeerLane};
pub(crate) use lane::{lane_key, lane_name};
pub(crate) use lane_table::{LaneEnds, ethernet_ends, udp_ends};
pub use line::Line;
pub(crate) use line::serial_ends;
pub use serial_table::SerialIp;
pub(crate) use tables::LaneTable;
pub(crate) use text::Document;

use crate::device;
use crate::keys::KeyError;
use crate::medium::MediumKind;
use crate::rules;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use wavelane_base::{Address, IpPrefix, PortId, Span};
use wavelane_gateway as gateway;
use wavelane_gateway::{Choice, Controller, LaneConfig, PacketConfig, PeerConfig};
use wavelane_settings::{GatewayKnobs, LaneKnobs, Seal};

/// Most peers one gateway may have.
pub const PEERS_MAX: usize = 256;
/// Longest name of a peer, in octets, as of a file: every line about it has it.
const PEER_NAME_MAX: usize = 255;
/// The largest drift that may be asked of a test clock, in parts per million.
pub const DRIFT_PPM_MAX: i64 = 1_000;
/// What the TUN device's MTU may be: IPv6 needs 1280 bytes (RFC 8200, section 5), and a lane carries no jumbograms.
pub const TUN_MTU: std::ops::RangeInclusive<u16> = 1_280..=9_000;
/// An idle link sends this often, so that NATs and firewalls on the path keep their state: a NAT keeps UDP for two minutes if it
/// follows RFC 4787, REQ-5, and for 30 s if not.
pub const KEEPALIVE: Span = Span::from_secs(25);
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
    #[error("{place}{key}: {what}")]
    Value {
        /// File and line with what separates them from the rest, as far as known.
        place: String,
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

/// What happens to new connections after the daemon has died without an orderly stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The kernel forwards them plainly.
    #[default]
    Open,
    /// They are refused.
    Closed,
}

/// Which networks that this host is attached to are left alone under a wider one of a peer, beside those that it serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attached {
    /// None.
    None,
    /// Those that are not public: who hands out addresses in a foreign network takes no public ones out of a tunnel by that.
    #[default]
    Private,
    /// All.
    All,
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
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// Name for people.
    pub name: String,
    /// Its public key.
    pub public_key: [u8; 32],
    /// Pre-shared key, if one is named.
    pub preshared_key: Option<[u8; 32]>,
    /// `host:port`, looked up at the start and whenever the peer is silent; `None` if it calls us.
    pub address: Option<String>,
    /// The lanes to it and from it; empty if there is one each way, by `listen` and to `address`.
    pub lanes: Vec<PeerLane>,
    /// How the lanes to it are used.
    pub choice: Choice,
    /// After this long without a datagram one is sent.
    pub keepalive: Option<Span>,
    /// Targets taken through this peer.
    pub routes: Vec<IpPrefix>,
    /// Addresses at which the kernel's routing table finds it, beside those of its lanes.
    pub next_hops: Vec<IpAddr>,
    /// Targets it may ask for, if listed; see [`Config::targets`].
    pub allow_targets: Option<Vec<IpPrefix>>,
    /// Source addresses it may use, if listed; otherwise its routes where sources are checked.
    pub allow_sources: Option<Vec<IpPrefix>>,
    /// The lane's controller.
    pub controller: Controller,
    /// Whether TCP is split; if not, it goes through the TUN device like everything else.
    pub split: bool,
}

impl Peer {
    /// Where it is called, by each lane out, and what that lane's socket is bound to if it is not `listen`.
    pub(crate) fn places(&self, listen: SocketAddr) -> Vec<(Option<String>, SocketAddr)> {
        if self.lanes.is_empty() {
            return vec![(self.address.clone(), listen)];
        }
        let out = self.lanes.iter().filter(|lane| lane.ways != Directions::In);
        out.map(|lane| (lane.address.clone(), lane.socket.as_ref().map_or(listen, |socket| socket.local))).collect()
    }
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
    /// Traffic that originates on this host.
    pub local: bool,
    /// What a proxy, which has no peer, takes otherwise.
    pub proxy: Option<ProxyRules>,
}

/// The kernel's rules for a proxy: networks that this host is attached to are targets like others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProxyRules {
    /// Targets that are left alone.
    pub exempt: Vec<IpPrefix>,
    /// Server ports that are left alone.
    pub ports: Vec<u16>,
    /// Code points of differentiated services (RFC 2474) that are left alone.
    pub dscps: Vec<u8>,
    /// The largest segments of connections to and from networks.
    pub clamps: Vec<Clamp>,
    /// The device that what is split goes through, if the kernel's sockets do not take it.
    pub device: Option<String>,
    /// How connections come here.
    pub placement: Placement,
    /// Packets pass through the device as they are, and no connection is split.
    pub mirrors: bool,
}

/// How connections come to a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// This machine is the router, or a rule of the router leads them here.
    #[default]
    Route,
    /// The interfaces are bridges, and they pass over these.
    Bridge,
    /// They are made to an address of this machine, and name their server in an IP option.
    Option,
}

impl Placement {
    /// The words of files.
    pub const WORDS: [(&str, Self); 3] = [("route", Self::Route), ("bridge", Self::Bridge), ("option", Self::Option)];

    /// As files write it.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// The largest segment of connections to and from a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clamp {
    /// The network.
    pub network: IpPrefix,
    /// Parts of it to which another rule applies, or none.
    pub but: Vec<IpPrefix>,
    /// Octets.
    pub size: u16,
}

/// The device through which everything that is not split TCP goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tun {
    /// Its name.
    pub name: String,
    /// This host's own addresses on it, under which peers may reach this host.
    pub addresses: Vec<TunAddress>,
    /// Largest packet it takes. The kernel answers larger ones as a router does.
    pub mtu: u16,
    /// Whether super-packets and unfinished checksums are exchanged with the kernel.
    pub offload: bool,
    /// Whether what comes through it and goes to public addresses leaves under this host's own.
    pub masquerade: bool,
}

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunAddress {
    /// The address itself.
    pub address: IpAddr,
    /// Leading bits that its network shares.
    pub bits: u8,
}

/// A clock set wrong on purpose, for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockSkew {
    /// Added to every reading.
    pub offset: Span,
    /// Parts per million by which it runs fast (or slow, if negative).
    pub drift_ppm: i64,
}

/// The configuration of `wavelaned`.
#[derive(Clone, PartialEq, Debug)]
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
    /// See [`Attached`].
    pub attached: Attached,
    /// The files that this was read from.
    pub reads: Vec<PathBuf>,
    /// The control socket.
    pub control: PathBuf,
    /// Where figures for Prometheus are served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The program that is told of changes of peers and lanes, if any.
    pub hook: Option<PathBuf>,
    /// The file that remembers the boot epoch.
    pub state: PathBuf,
    /// What the gateway machine is told; `pool` and `flows_max` are set.
    pub knobs: GatewayKnobs,
    /// The networks on this side, if listed.
    pub serves: Option<Vec<IpPrefix>>,
    /// The kernel's routing table that chooses a target's peer among those whose routes cover it.
    pub routing_table: Option<u32>,
    /// The neighbours.
    pub peers: Vec<Peer>,
    /// Traffic taken transparently, if any.
    pub intercept: Option<Intercept>,
    /// The packet door, if any.
    pub tun: Option<Tun>,
    /// Plain forwards.
    pub forwards: Vec<Forward>,
    /// A serial line that carries IP.
    pub serial: Option<SerialIp>,
    /// The gateways beyond relays.
    pub edges: Vec<gateway::EdgeConfig>,
    /// Test clock.
    pub clock: ClockSkew,
}

/// No configuration is longer, in octets.
const FILE_MAX: u64 = 4 << 20;

pub(crate) fn value(key: impl Into<String>, what: impl Into<String>) -> ConfigError {
    ConfigError::Value { place: String::new(), key: key.into(), what: what.into() }
}

impl ConfigError {
    /// The same with the line of the key in a file's text, if it is about one.
    pub(crate) fn in_file(self, text: &str, file: &str) -> Self {
        match self {
            // A lane's key begins with its line.
            Self::Value { place, key, what } if place.is_empty() && key.starts_with("line ") => {
                Self::Value { place: format!("{file}, "), key, what }
            }
            Self::Value { place, key, what } if place.is_empty() => {
                let place = match text::line_of_key(text, &key) {
                    Some(line) => format!("{file}, line {line}: "),
                    None => format!("{file}: "),
                };
                Self::Value { place, key, what }
            }
            other => other,
        }
    }
}

/// A configuration's text: it is read on the thread that moves packets, so from a plain file of bounded length only.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    let octets = wavelane_host::files::read_small(path, FILE_MAX)?;
    let text =
        String::from_utf8(octets).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e.to_string()))?;
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

/// Whether a TOML text has a table of that name; a text with mistakes, whether it has its header.
pub(crate) fn has_table(text: &str, name: &str) -> bool {
    let is_header =
        |line: &str| line.trim().trim_start_matches('[').trim_end_matches(']') == name && line.contains('[');
    toml::from_str::<toml::Table>(text).map_or_else(|_| text.lines().any(is_header), |table| table.contains_key(name))
}

/// Whether a TOML text is a gateway's configuration (it has a table `gateway`) rather than a scenario.
pub fn is_gateway_config(text: &str) -> bool {
    has_table(text, "gateway")
}

impl Config {
    /// Whether flows across relays are sealed from edge to edge.
    pub(crate) fn seals(&self) -> bool {
        self.knobs.seal == Some(Seal::EndToEnd)
    }

    /// Reads the file and the key files it names (relative names count from the file's folder).
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path).map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), folder)
    }

    /// The lanes' own sockets: the ports 1, 2, ... of the gateway at its start; port 0 is that of `listen`.
    pub fn lane_sockets(&self) -> Vec<LaneSocket> {
        let mut sockets = Vec::new();
        for socket in self.peers.iter().flat_map(|peer| &peer.lanes).filter_map(|lane| lane.socket.as_ref()) {
            if !sockets.contains(socket) {
                sockets.push(socket.clone());
            }
        }
        sockets
    }

    /// A peer's lanes for the gateway machine. `addresses` are the known addresses to call it at, per lane.
    fn gateway_lanes(
        &self,
        peer: &Peer,
        sockets: &[Option<LaneSocket>],
        addresses: &[Option<Address>],
    ) -> Vec<LaneConfig> {
        let at = |lane: usize| addresses.get(lane).copied().flatten();
        if peer.lanes.is_empty() {
            return vec![LaneConfig { controller: peer.controller, ..LaneConfig::new(PortId(0), at(0)) }];
        }
        let out = peer.lanes.iter().filter(|lane| lane.ways != Directions::In);
        let port = |of: &PeerLane| sockets.iter().position(|s| s.is_some() && *s == of.socket).map_or(0, |i| i + 1);
        let one = |(i, of): (usize, &PeerLane)| {
            let address = at(i).or_else(|| of.number());
            LaneConfig {
                port: PortId(port(of) as u16),
                address,
                one_way: of.ways == Directions::Out,
                carrier: of.socket.as_ref().map_or_else(|| MediumKind::default().carrier, LaneSocket::carrier),
                controller: peer.controller,
                knobs: LaneKnobs {
                    start_rate: of.first_rate().filter(|_| peer.controller == Controller::Delay),
                    ..of.knobs
                },
            }
        };
        out.enumerate().map(one).collect()
    }

    /// The gateway machine's configuration at the start. `addresses` are the resolved addresses of each peer's lanes out, in order.
    pub fn to_gateway(&self, addresses: &[Vec<Option<Address>>]) -> gateway::Config {
        let sockets: Vec<_> = self.lane_sockets().into_iter().map(Some).collect();
        self.to_gateway_by(addresses, &sockets)
    }

    /// The same with `sockets` as the ports 1, 2, ..., some of which may be unused.
    pub(crate) fn to_gateway_by(
        &self,
        addresses: &[Vec<Option<Address>>],
        sockets: &[Option<LaneSocket>],
    ) -> gateway::Config {
        let peers = self.peers.iter().enumerate().map(|(i, p)| PeerConfig {
            name: p.name.clone(),
            public_key: p.public_key,
            preshared_key: p.preshared_key,
            lanes: self.gateway_lanes(p, sockets, addresses.get(i).map_or(&[], Vec::as_slice)),
            choice: p.choice,
            keepalive: p.keepalive,
            allow_sources: p.allow_sources.clone(),
            allow_targets: self.targets(p).to_vec(),
            routes: p.routes.clone(),
        });
        let hops = self.peers.iter().enumerate();
        let hops = hops.flat_map(|(i, p)| p.next_hops.iter().map(move |hop| (*hop, gateway::PeerId(i))));
        let config = gateway::Config {
            private_key: self.private_key,
            peers: peers.collect(),
            by_table: self.routing_table.is_some(),
            next_hops: hops.collect(),
            serves: self.serves.clone().unwrap_or_default(),
            edges: self.edges.clone(),
            keep_sources: self.source == Source::Keep,
            aes_hardware: aes_hardware(),
            packets: self.packets(),
            ..gateway::Config::default()
        };
        config.with(&self.knobs)
    }

    /// The key of a setting that differs from `new` and cannot change while the daemon runs; what the gateway machine
    /// itself cannot change is not compared.
    pub(crate) fn fixed_difference(&self, new: &Self) -> Option<&'static str> {
        let forwards = |c: &Self| {
            let one = |f: &Forward| (f.listen, f.to, c.peers[f.via].public_key);
            c.forwards.iter().map(one).collect::<Vec<_>>()
        };
        let same = [
            ("gateway.name", self.name == new.name),
            ("gateway.key", self.private_key == new.private_key),
            ("gateway.listen", self.listen == new.listen),
            ("gateway.on_failure", self.on_failure == new.on_failure),
            ("gateway.source", self.source == new.source),
            ("gateway.routing", self.routing_table == new.routing_table),
            ("gateway.control", self.control == new.control),
            ("gateway.metrics", self.metrics == new.metrics),
            ("gateway.hook", self.hook == new.hook),
            ("gateway.state", self.state == new.state),
            ("[intercept]", self.intercept == new.intercept),
            ("[tun]", self.tun == new.tun),
            ("[serial]", self.serial == new.serial),
            ("[[forward]]", forwards(self) == forwards(new)),
            ("[clock]", self.clock == new.clock),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(key, _)| key)
    }

    /// The packet service's configuration, if there is a packet door.
    fn packets(&self) -> Option<PacketConfig> {
        let (tun, intercept) = (self.tun.as_ref()?, self.intercept.as_ref()?);
        let address = |six| device::router_address(tun, intercept, six);
        let (v4, v6) = (address(false), address(true));
        Some(PacketConfig {
            inner_mtu: tun.mtu.into(),
            address4: v4.and_then(|a| if let IpAddr::V4(a) = a { Some(a) } else { None }),
            address6: v6.and_then(|a| if let IpAddr::V6(a) = a { Some(a) } else { None }),
            other_way: rules::is_open(self),
            tries: gateway::tries(&self.knobs),
            ..PacketConfig::default()
        })
    }

    /// The peer for `target`: the longest matching route; among equals the first peer that is not `down`, else the
    /// first.
    pub fn route(&self, target: IpAddr, down: impl Fn(usize) -> bool) -> Option<usize> {
        let routes = self.peers.iter().enumerate().flat_map(|(i, p)| p.routes.iter().map(move |r| (*r, i)));
        wavelane_base::route(routes, target, down).map(|(_, peer)| peer)
    }

    /// Whether every network of `peer` is also one of another peer that is not `down`.
    pub(crate) fn is_stood_in(&self, peer: usize, down: impl Fn(usize) -> bool) -> bool {
        let others = || self.peers.iter().enumerate().filter(|(i, _)| *i != peer && !down(*i));
        let routes = self.peers.get(peer).map_or(&[][..], |p| &p.routes);
        !routes.is_empty() && routes.iter().all(|r| others().any(|(_, other)| other.routes.contains(r)))
    }

    /// What `peer` may reach through us: its `allow_targets`; without that list what we serve; without either nothing.
    pub fn targets<'a>(&'a self, peer: &'a Peer) -> &'a [IpPrefix] {
        peer.allow_targets.as_ref().or(self.serves.as_ref()).map_or(&[], Vec::as_slice)
    }

    /// Whether `peer` may have us connect to `target`, given this host's own addresses, `None` if they are not known
    /// ([`gateway::may_reach`]).
    pub fn may_connect(&self, peer: usize, target: IpAddr, own: Option<&[IpAddr]>) -> bool {
        self.peers.get(peer).is_some_and(|peer| gateway::may_reach(self.targets(peer), target, own))
    }
}

/// Bits of an address of the same family.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// `address/bits`.
pub(crate) fn prefix_text(prefix: &IpPrefix) -> String {
    format!("{}/{}", prefix.address, prefix.bits)
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

/// The folder that systemd makes for a service (RuntimeDirectory= in our unit), in which `status` looks, too.
pub const SERVICE_FOLDER: &str = "/run/wavelane";

/// Where the control socket lies if the file does not say.
pub fn default_control(name: &str) -> PathBuf {
    let file = format!("wavelane-{name}.sock");
    if let Some(folder) = first_folder("RUNTIME_DIRECTORY") {
        return folder.join(file);
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !wavelane_host::is_root() => PathBuf::from(dir).join(file),
        _ if wavelane_host::is_root() => PathBuf::from("/run").join(file),
        _ => std::env::temp_dir().join(file),
    }
}

/// The first of the folders that systemd lists in a variable (systemd.exec(5)).
fn first_folder(variable: &str) -> Option<PathBuf> {
    let folders = std::env::var_os(variable).filter(|d| !d.is_empty())?;
    std::env::split_paths(&folders).next()
}

/// Where the boot epoch is remembered if the file does not say: systemd's folder for state, else beside the key.
fn default_state(name: &str, key: &Path) -> PathBuf {
    match first_folder("STATE_DIRECTORY") {
        Some(folder) => folder.join(format!("{name}.epoch")),
        None => key.with_extension("epoch"),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
