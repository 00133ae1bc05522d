//! The daemon's configuration file: TOML, unknown keys are errors, units are text.
//!
//! From text to model, without a look at the machine: what a file's meaning needs of it is handed in (`Surroundings`), so `check` says the
//! same everywhere. This is the ground floor: nothing else of this crate is used here but keys.

pub(crate) mod addresses;
mod check;
mod file;
mod lane;
mod lane_table;
mod lanes;
mod line;
pub(crate) mod marks;
mod mechanisms;
mod medium;
mod peer_table;
mod serial_table;
mod text;

pub(crate) use addresses::first_of;
pub(crate) use check::is_interface_name;
pub use lane::{LaneSocket, PeerLane};
pub(crate) use lane::{lane_key, lane_name};
pub(crate) use lane_table::{LaneEnds, ethernet_ends, udp_ends};
pub use line::Line;
pub(crate) use line::{SLIP_OVERHEAD, far_end, serial_ends};
pub use medium::LaneMedium;
pub(crate) use medium::{DeviceKind, MediumKeys, UDP};
pub use serial_table::SerialIp;
pub(crate) use text::with_root;

use crate::keys::{self, KEY_LEN, KeyError};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use wavelane_base::{IpPrefix, Octets, Span};
use wavelane_gateway as gateway;
use wavelane_gateway::{Choice, Controller};
pub use wavelane_settings::{Attached, Directions, OnFailure, Source};
use wavelane_settings::{GatewayKnobs, LogLevel, Seal};

/// Most peers one gateway may have.
pub const PEERS_MAX: usize = 256;
/// An idle link sends this often, so that NATs and firewalls on the path keep their state: a NAT keeps UDP for two minutes if it
/// follows RFC 4787, REQ-5, and for 30 s if not.
pub const KEEPALIVE: Span = Span::from_secs(25);
/// A Unix socket's path is at most 107 bytes (unix(7), `sun_path`).
const SOCKET_PATH_MAX: usize = 107;

/// The suffix to the epoch file's name, of the file that remembers where peers were.
pub(crate) const PEERS_SUFFIX: &str = ".peers";
/// What is locked beside the state file.
pub(crate) const LOCK_SUFFIX: &str = "-lock";

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
    /// Other hosts send their packets here, each within one of their own (RFC 2003).
    Tunnel,
    /// Hosts of a link are told that their routers are here.
    Arp,
}

impl Placement {
    /// The words of files.
    pub const WORDS: [(&str, Self); 5] = [
        ("route", Self::Route),
        ("bridge", Self::Bridge),
        ("option", Self::Option),
        ("tunnel", Self::Tunnel),
        ("arp", Self::Arp),
    ];

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
    /// The least level of a line of the log.
    pub log: LogLevel,
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
}

/// What the reader of a file is told of the machine around it.
pub(crate) struct Surroundings {
    /// The text of a file that only its owner may read.
    pub(crate) private_text: fn(&Path) -> Result<String, KeyError>,
    /// Whether two paths are one file's, also before it is there.
    pub(crate) is_same: fn(&Path, &Path) -> bool,
    /// The medium of a word, or which there are.
    pub(crate) medium: fn(&str) -> Result<LaneMedium, String>,
    /// The pool and the limit of flows where the file names none.
    pub(crate) memory: fn() -> (Octets, usize),
    /// The control socket of a gateway of that name.
    pub(crate) control: fn(&str) -> PathBuf,
    /// Where the boot epoch of a gateway of that name and key file is remembered.
    pub(crate) state: fn(&str, &Path) -> PathBuf,
}

impl Surroundings {
    fn key(&self, path: &Path) -> Result<[u8; KEY_LEN], KeyError> {
        let text = (self.private_text)(path)?;
        keys::key_from_base64(&text).ok_or_else(|| KeyError::Malformed(path.display().to_string()))
    }
    /// A key that both gateways need.
    fn shared_key(&self, path: &Path) -> Result<[u8; KEY_LEN], KeyError> {
        self.key(path).map_err(|e| match e {
            KeyError::Missing(path) => KeyError::MissingShared(path),
            other => other,
        })
    }
}

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
    /// Whether new connections are to be refused while no gateway takes them.
    pub(crate) fn is_closed(&self) -> bool {
        self.intercept.is_some() && self.on_failure == OnFailure::Closed
    }

    /// Whether traffic is forwarded plainly while no gateway runs.
    pub(crate) fn is_open(&self) -> bool {
        self.intercept.is_some() && self.on_failure == OnFailure::Open
    }

    /// Whether a table is asked for that resets what a proxy had.
    pub(crate) fn has_orphans(&self) -> bool {
        self.intercept
            .as_ref()
            .and_then(|i| i.proxy.as_ref())
            .is_some_and(|proxy| proxy.device.is_some() && !proxy.mirrors)
    }

    /// Whether flows across relays are sealed from edge to edge.
    pub(crate) fn seals(&self) -> bool {
        self.knobs.seal == Some(Seal::EndToEnd)
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
        ];
        same.into_iter().find(|(_, same)| !same).map(|(key, _)| key)
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

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
