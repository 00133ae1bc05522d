//! The file's tables as TOML has them, and how they become a [`Config`].

use super::check::is_interface_name;
use super::mechanisms::{self, BackpressureWord, MechanismKeys, PresetWord};
use super::{
    ClockSkew, Config, ConfigError, DRIFT_PPM_MAX, Forward, IDLE_RANGE, Intercept, KEEPALIVE, KEEPALIVE_RANGE, Lane,
    LaneSocket, OnFailure, Peer, Source, Tun, TunAddress, Ways, default_control, default_state, lane_key, prefix_text,
    value, width,
};
use crate::medium::Medium;
use crate::{keys, memory, rules, units};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use toml::Spanned;
use wavelane_base::{IpPrefix, Rate, Span};
use wavelane_gateway as gateway;
use wavelane_gateway::{Choice, Controller};
use wavelane_host::{ether, routes};

/// A packet of this size fits one datagram of a lane on a path of 1500 bytes.
const TUN_MTU_DEFAULT: u16 = 1_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    gateway: GatewayTable,
    #[serde(default)]
    peer: Vec<PeerTable>,
    intercept: Option<InterceptTable>,
    tun: Option<TunTable>,
    #[serde(default)]
    forward: Vec<ForwardTable>,
    #[serde(default)]
    edge: Vec<EdgeTable>,
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
    state: Option<PathBuf>,
    pool: Option<String>,
    flows_max: Option<usize>,
    serves: Option<Vec<String>>,
    #[serde(default)]
    routing: RoutingWord,
    routing_table: Option<u32>,
    idle: Option<String>,
    #[serde(default)]
    seal: SealWord,
    preset: Option<PresetWord>,
    backpressure: Option<BackpressureWord>,
    micro_blocks: Option<bool>,
    block: Option<String>,
    rounds: Option<bool>,
    withhold: Option<u64>,
    cache: Option<String>,
}

/// What chooses the peer for a target, in the file's words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RoutingWord {
    #[default]
    Peers,
    Kernel,
}

/// Whether flows across relays are sealed, in the file's words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum SealWord {
    #[default]
    #[serde(rename = "off")]
    Off,
    #[serde(rename = "end-to-end")]
    EndToEnd,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeTable {
    name: String,
    public_key: String,
    #[serde(default)]
    routes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: String,
    public_key: String,
    preshared_key: Option<PathBuf>,
    address: Option<String>,
    keepalive: Option<String>,
    #[serde(default)]
    routes: Vec<String>,
    #[serde(default)]
    next_hops: Vec<String>,
    allow_targets: Option<Vec<String>>,
    allow_sources: Option<Vec<String>>,
    controller: Option<String>,
    #[serde(default = "yes")]
    split: bool,
    #[serde(default)]
    choice: ChoiceWord,
    #[serde(default)]
    lane: Vec<Spanned<LaneTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaneTable {
    #[serde(default)]
    medium: Medium,
    address: Option<String>,
    device: Option<String>,
    local: Option<String>,
    #[serde(default)]
    direction: Ways,
    #[serde(default)]
    metered: bool,
    #[serde(default = "yes")]
    bulk: bool,
    #[serde(default = "yes")]
    small: bool,
    start_rate: Option<String>,
    priority: Option<u8>,
    mark: Option<u32>,
}

/// How lanes are used, in the file's words.
#[derive(Clone, Copy, Default, Deserialize)]
enum ChoiceWord {
    #[default]
    #[serde(rename = "bond")]
    Bond,
    #[serde(rename = "pinned")]
    Pinned,
    #[serde(rename = "pinned+fallback")]
    PinnedFallback,
    #[serde(rename = "delivery-1998")]
    Delivery1998,
}

impl From<ChoiceWord> for Choice {
    fn from(word: ChoiceWord) -> Self {
        match word {
            ChoiceWord::Bond => Self::Bond,
            ChoiceWord::Pinned => Self::Pinned,
            ChoiceWord::PinnedFallback => Self::PinnedFallback,
            ChoiceWord::Delivery1998 => Self::Delivery1998,
        }
    }
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
struct TunTable {
    #[serde(default = "default_tun_name")]
    name: String,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default = "default_tun_mtu")]
    mtu: u16,
    #[serde(default = "yes")]
    offload: bool,
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

fn yes() -> bool {
    true
}

fn default_tun_name() -> String {
    "wavelane0".into()
}

fn default_tun_mtu() -> u16 {
    TUN_MTU_DEFAULT
}

fn default_listen() -> String {
    "0.0.0.0:4780".into()
}

impl Config {
    /// Reads a text; `place` names it in messages, `folder` is where relative key paths count from.
    pub fn parse(text: &str, place: &str, folder: &Path) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|s| line_of(text, s.start));
            let place = line.map_or_else(|| place.to_string(), |l| format!("{place}, line {l}"));
            ConfigError::Malformed { place, what: e.message().replace('\n', ", ") }
        })?;
        let listen = socket_address("gateway.listen", &file.gateway.listen)?;
        let mut peers = Vec::new();
        for table in file.peer {
            peers.push(Peer::from_table(table, folder, listen, text)?);
        }
        let forwards = file.forward.into_iter().map(|f| forward(f, &peers)).collect::<Result<_, _>>()?;
        let g = file.gateway;
        let defaults = gateway::Config::default();
        let pool = match &g.pool {
            Some(text) => units::octets(text).map_err(|e| value("gateway.pool", e))?,
            None => memory::pool_default(),
        };
        let idle = match g.idle.as_deref() {
            None => defaults.idle,
            Some("off") => None,
            Some(text) => {
                let span = units::span(text).ok().filter(|s| IDLE_RANGE.contains(s));
                let wrong =
                    || format!("'{text}' is neither \"off\" nor a time from 1 s to 3600000 s, such as \"7440 s\"");
                Some(span.ok_or_else(|| value("gateway.idle", wrong()))?)
            }
        };
        let mechanisms = mechanisms::read(&MechanismKeys {
            preset: g.preset,
            backpressure: g.backpressure,
            micro_blocks: g.micro_blocks,
            block: g.block.as_deref(),
            rounds: g.rounds,
            withhold: g.withhold,
            cache: g.cache.as_deref(),
        })?;
        if g.control.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(value("gateway.control", "is empty: name a path, or leave it out for the usual place"));
        }
        let config = Self {
            private_key: keys::read_key(&folder.join(&g.key))?,
            state: g.state.map_or_else(|| default_state(&g.name, &folder.join(&g.key)), |s| folder.join(s)),
            listen,
            control: folder.join(g.control.unwrap_or_else(|| default_control(&g.name))),
            name: g.name,
            on_failure: g.on_failure,
            source: g.source,
            pool,
            flows_max: g.flows_max.unwrap_or(defaults.flows_max),
            serves: g.serves.map(|texts| prefixes("gateway.serves", texts)).transpose()?,
            routing_table: routing_table(g.routing, g.routing_table)?,
            idle,
            peers,
            intercept: file.intercept.map(|i| Intercept { interfaces: i.interfaces, local: i.local }),
            tun: file.tun.map(tun).transpose()?,
            forwards,
            seal: g.seal == SealWord::EndToEnd,
            mechanisms,
            edges: file.edge.into_iter().map(edge).collect::<Result<_, _>>()?,
            clock: clock(file.clock)?,
        };
        config.check()?;
        Ok(config)
    }
}

fn routing_table(routing: RoutingWord, table: Option<u32>) -> Result<Option<u32>, ConfigError> {
    match (routing, table) {
        (RoutingWord::Peers, None) => Ok(None),
        (RoutingWord::Peers, Some(_)) => {
            Err(value("gateway.routing_table", "counts only with gateway.routing = \"kernel\": add that, or remove it"))
        }
        (RoutingWord::Kernel, Some(0)) => Err(value("gateway.routing_table", "0 is no table: the main one is 254")),
        (RoutingWord::Kernel, table) => Ok(Some(table.unwrap_or(routes::TABLE_MAIN))),
    }
}

fn edge(t: EdgeTable) -> Result<gateway::EdgeConfig, ConfigError> {
    let key = |field: &str| format!("edge '{}': {field}", t.name);
    let public_key = keys::key_from_base64(&t.public_key).ok_or_else(|| {
        value(key("public_key"), "is not a key (44 characters of base64); `wavelane keygen` at that gateway prints it")
    })?;
    let routes = prefixes(&key("routes"), t.routes)?;
    Ok(gateway::EdgeConfig { name: t.name, public_key, routes })
}

impl Peer {
    /// `text` is the file's, for the lines of the lanes.
    fn from_table(t: PeerTable, folder: &Path, listen: SocketAddr, text: &str) -> Result<Self, ConfigError> {
        let key = |field: &str| format!("peer '{}': {field}", t.name);
        let public_key = keys::key_from_base64(&t.public_key).ok_or_else(|| {
            value(key("public_key"), "is not a key (44 characters of base64); `wavelane keygen` at the peer prints it")
        })?;
        let listed = |field: &str, texts: Option<Vec<String>>| texts.map(|t| prefixes(&key(field), t)).transpose();
        let allow_targets = listed("allow_targets", t.allow_targets)?;
        let allow_sources = listed("allow_sources", t.allow_sources)?;
        if let Some(address) = &t.address {
            check_host_and_port(address)
                .and_then(|()| check_reachable(address))
                .map_err(|e| value(key("address"), e))?;
        }
        if !t.lane.is_empty() && t.address.is_some() {
            return Err(value(key("address"), "stands beside [[peer.lane]]: write it into the lane that leads there"));
        }
        let lane = |(place, table): (usize, &Spanned<LaneTable>)| {
            let line = line_of(text, table.span().start);
            let key = lane_key(line, &t.name, place);
            Lane::from_table(table.get_ref(), &key, listen).map(|lane| Lane { line, ..lane })
        };
        let lanes = t.lane.iter().enumerate().map(lane).collect::<Result<Vec<_>, _>>()?;
        let keepalive = match t.keepalive.as_deref() {
            None => lanes
                .iter()
                .any(|lane| lane.address.is_some())
                .then_some(KEEPALIVE)
                .or(t.address.as_ref().map(|_| KEEPALIVE)),
            Some("off") => None,
            Some(text) => {
                let span = units::span(text).ok().filter(|s| KEEPALIVE_RANGE.contains(s));
                let wrong = || {
                    value(
                        key("keepalive"),
                        format!("'{text}' is neither \"off\" nor a time from 1 s to 1 h, such as \"25 s\""),
                    )
                };
                Some(span.ok_or_else(wrong)?)
            }
        };
        let controller = match t.controller.as_deref() {
            None | Some("delay") => Controller::Delay,
            Some("cubic") => Controller::Cubic,
            Some(fixed) => fixed_rate(fixed).map(Controller::Fixed).map_err(|e| value(key("controller"), e))?,
        };
        if let Some(place) = lanes.iter().position(|lane| lane.start_rate.is_some() && controller != Controller::Delay)
        {
            return Err(value(
                format!("{}: start_rate", lane_key(lanes[place].line, &t.name, place)),
                "is of the controller \"delay\", and this peer has another: remove start_rate, or the peer's `controller`",
            ));
        }
        Ok(Self {
            public_key,
            preshared_key: t.preshared_key.as_ref().map(|p| keys::read_key(&folder.join(p))).transpose()?,
            routes: prefixes(&key("routes"), t.routes.clone())?,
            next_hops: t.next_hops.iter().map(|hop| next_hop(hop, &key("next_hops"))).collect::<Result<_, _>>()?,
            allow_targets,
            allow_sources,
            controller,
            keepalive,
            split: t.split,
            address: t.address,
            lanes,
            choice: t.choice.into(),
            name: t.name,
        })
    }
}

fn next_hop(text: &str, key: &str) -> Result<IpAddr, ConfigError> {
    let wrong = || format!("'{text}' is not an address, such as 10.0.0.2 or fe80::2 (without a device)");
    text.parse().map_err(|_| value(key, wrong()))
}

impl Lane {
    fn from_table(t: &LaneTable, key: &str, listen: SocketAddr) -> Result<Self, ConfigError> {
        let ethernet = t.medium == Medium::Ethernet;
        if let Some(text) = t.address.as_ref().filter(|_| !ethernet) {
            check_host_and_port(text)
                .and_then(|()| check_reachable(text))
                .map_err(|e| value(format!("{key}: address"), e))?;
        }
        // For a name, the lane's socket decides which IP version counts.
        let address = t.address.as_ref().and_then(|text| text.parse::<SocketAddr>().ok());
        if t.address.is_some() && t.direction == Ways::In {
            return Err(value(
                format!("{key}: address"),
                "nothing leaves by a lane of direction \"in\": remove its address",
            ));
        }
        if let Some(wrong) = t.device.as_ref().filter(|name| !is_interface_name(name)) {
            return Err(value(format!("{key}: device"), format!("'{wrong}' is not an interface name (see `ip link`)")));
        }
        if t.direction == Ways::In && (t.metered || !t.bulk || !t.small) {
            return Err(value(
                format!("{key}: metered"),
                "`bulk` and `small` are about what leaves, and nothing leaves by a lane of direction \"in\": remove them",
            ));
        }
        if !t.bulk && !t.small {
            return Err(value(
                format!("{key}: small"),
                "and `bulk` are both false: such a lane carries nothing; remove one of them, or the lane",
            ));
        }
        let start_rate = t.start_rate.as_deref().map(|text| start_rate(text, t.direction));
        let start_rate = start_rate.transpose().map_err(|why| value(format!("{key}: start_rate"), why))?;
        if ethernet {
            return Ok(Self { start_rate, ..Self::of_ethernet(t, key)? });
        }
        if t.priority.is_some() {
            return Err(value(
                format!("{key}: priority"),
                "is of Ethernet lanes alone: remove it, or add medium = \"ethernet\"",
            ));
        }
        let local = t.local.as_ref().map(|text| {
            let wrong = || format!("'{text}' is not address:port, such as 192.0.2.1:4780 or 0.0.0.0:0");
            text.parse::<SocketAddr>().map_err(|_| value(format!("{key}: local"), wrong()))
        });
        let local = local.transpose()?;
        if local
            .zip(address)
            .is_some_and(|(local, address)| local.is_ipv6() && !local.ip().is_unspecified() && address.is_ipv4())
        {
            return Err(value(
                format!("{key}: local"),
                "is of IPv6 and the lane's address of IPv4: give both the same version",
            ));
        }
        let six = address.map_or(listen.is_ipv6(), |address| address.is_ipv6());
        if local.zip(address).is_some_and(|(local, address)| local.is_ipv4() && address.is_ipv6()) {
            return Err(value(
                format!("{key}: local"),
                "is of IPv4 and the lane's address of IPv6: give both the same version",
            ));
        }
        let any = if six { IpAddr::from([0_u16; 8]) } else { IpAddr::from([0_u8; 4]) };
        check_mark(t.mark, t.direction).map_err(|why| value(format!("{key}: mark"), why))?;
        let own = t.device.is_some() || local.is_some() || t.mark.is_some();
        let socket = own.then(|| LaneSocket {
            local: local.unwrap_or(SocketAddr::new(any, 0)),
            device: t.device.clone(),
            medium: Medium::Udp,
            priority: 0,
            mark: t.mark,
        });
        Ok(Self {
            address: t.address.clone(),
            socket,
            ways: t.direction,
            metered: t.metered,
            bulk: t.bulk,
            small: t.small,
            start_rate,
            line: 0,
        })
    }
    /// A lane over a packet socket, without IP.
    fn of_ethernet(t: &LaneTable, key: &str) -> Result<Self, ConfigError> {
        let refuse = |field: &str, what: String| Err(value(format!("{key}: {field}"), what));
        if t.device.is_none() {
            return refuse(
                "device",
                "is missing: an Ethernet lane needs the name of its interface (see `ip link`)".into(),
            );
        }
        if t.device.as_deref() == Some("lo") {
            return refuse(
                "device",
                "the loopback interface leads to no station: name an Ethernet or Wi-Fi interface".into(),
            );
        }
        if t.mark.is_some() {
            return refuse("mark", "no routing rule sees an Ethernet lane's frames: remove it".into());
        }
        if t.local.is_some() {
            return refuse("local", "an Ethernet lane has its device's address: remove it".into());
        }
        let mac = t.address.as_deref().map(|text| ether::parse_mac(text).ok_or(text)).transpose();
        let mac = match mac {
            Ok(mac) => mac,
            Err(text) => {
                return refuse(
                    "address",
                    format!("'{text}' is no station's address, such as 02:00:00:00:00:01 (see `ip link`)"),
                );
            }
        };
        if t.direction == Ways::Out && mac.is_none() {
            return refuse(
                "address",
                "is missing: nothing comes back by this lane that would show where it leads".into(),
            );
        }
        let priority = t.priority.unwrap_or(0);
        if priority > ether::PRIORITY_MAX {
            return refuse("priority", format!("{priority} is no user priority: choose 0 to {}", ether::PRIORITY_MAX));
        }
        let local = SocketAddr::new(IpAddr::from([0_u16; 8]), 0);
        Ok(Self {
            address: mac.map(|mac| ether::address_of(mac).to_string()),
            socket: Some(LaneSocket {
                local,
                device: t.device.clone(),
                medium: Medium::Ethernet,
                priority,
                mark: None,
            }),
            ways: t.direction,
            metered: t.metered,
            bulk: t.bulk,
            small: t.small,
            start_rate: None,
            line: 0,
        })
    }
}

/// Whether a lane may have that firewall mark.
fn check_mark(mark: Option<u32>, direction: Ways) -> Result<(), String> {
    match mark {
        Some(0) => Err("0 is what every unmarked packet has: choose another, such as 7".into()),
        Some(mark) if rules::MARKS.contains(&mark) => {
            Err(format!("{mark:#x} is one of wavelaned's own marks: choose another, such as 7"))
        }
        Some(_) if direction == Ways::In => {
            Err("is of what leaves, and nothing leaves by a lane of direction \"in\": remove it".into())
        }
        _ => Ok(()),
    }
}

/// The rate that a lane is to start at.
fn start_rate(text: &str, direction: Ways) -> Result<Rate, String> {
    if direction == Ways::In {
        return Err("is of what leaves, and nothing leaves by a lane of direction \"in\": remove it".into());
    }
    let wrong = || format!("'{text}' is not a rate, such as \"33.6 kbit/s\"");
    let rate = units::rate(text).ok().filter(|rate| rate.as_bps() > 0).ok_or_else(wrong)?;
    if rate > Controller::START_RATE {
        return Err(format!(
            "a lane starts at {} Mbit/s and finds a higher rate itself, so {text} would change nothing: remove it",
            Controller::START_RATE.as_bps() / 1_000_000
        ));
    }
    Ok(rate)
}

fn fixed_rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("'{text}' is not \"delay\", \"cubic\" or \"fixed 20 Mbit/s\"");
    let rate = text.strip_prefix("fixed ").ok_or_else(wrong)?;
    units::rate(rate).ok().filter(|r| r.as_bps() > 0).ok_or_else(wrong)
}

/// The line of an octet of a text, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// No host has an unspecified, multicast or broadcast address.
fn check_reachable(text: &str) -> Result<(), String> {
    let Ok(address) = text.parse::<SocketAddr>() else { return Ok(()) };
    let ip = address.ip().to_canonical();
    let kind = match ip {
        _ if ip.is_unspecified() => "the unspecified address",
        _ if ip.is_multicast() => "a multicast address",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        _ => return Ok(()),
    };
    Err(format!("'{text}' is {kind} and no host's: write the peer's own"))
}

/// `host:port`, the host a name or an address, one of IPv6 in brackets.
fn check_host_and_port(text: &str) -> Result<(), String> {
    let wrong = || format!("'{text}' is not host:port, such as 192.0.2.7:4780 or [2001:db8::7]:4780");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    // Two colons outside brackets: an IPv6 address whose last group would be taken for the port.
    let bare = !host.starts_with('[') && host.contains(':');
    let bracketed = host.starts_with('[') && text.parse::<SocketAddr>().is_err();
    if port == 0 || host.is_empty() || bare || bracketed { Err(wrong()) } else { Ok(()) }
}

fn prefixes(key: &str, texts: Vec<String>) -> Result<Vec<IpPrefix>, ConfigError> {
    let parse = |text: &String| -> Result<IpPrefix, ConfigError> {
        let prefix: IpPrefix = text.parse().map_err(|e: String| value(key, e))?;
        let first = first_of(prefix);
        if first != prefix.address {
            let better = prefix_text(&IpPrefix { address: first, ..prefix });
            return Err(value(key, format!("'{text}' has bits set behind its prefix: write {better}")));
        }
        Ok(prefix)
    };
    texts.iter().map(parse).collect()
}

/// The block's first address.
fn first_of(prefix: IpPrefix) -> IpAddr {
    let spare = u32::from(width(prefix.address) - prefix.bits);
    match prefix.address {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX.checked_shl(spare).unwrap_or(0)).into()),
        IpAddr::V6(a) => IpAddr::V6((u128::from(a) & u128::MAX.checked_shl(spare).unwrap_or(0)).into()),
    }
}

fn tun(t: TunTable) -> Result<Tun, ConfigError> {
    let address = |text: &String| -> Result<TunAddress, ConfigError> {
        let wrong =
            |_| value("tun.addresses", format!("'{text}' is not an address such as 10.9.0.1/24 or fd00:9::1/64"));
        let IpPrefix { address, bits } = text.parse::<IpPrefix>().map_err(wrong)?;
        Ok(TunAddress { address, bits })
    };
    let addresses = t.addresses.iter().map(address).collect::<Result<_, _>>()?;
    Ok(Tun { name: t.name, addresses, mtu: t.mtu, offload: t.offload })
}

fn socket_address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| value(key, format!("'{text}' is not address:port, such as 0.0.0.0:4780 or [::]:4780")))?;
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
    Ok(Forward { listen: socket_address("forward.listen", &f.listen)?, to: socket_address("forward.to", &f.to)?, via })
}

fn clock(t: Option<ClockTable>) -> Result<ClockSkew, ConfigError> {
    let Some(t) = t else { return Ok(ClockSkew::default()) };
    let offset = t.offset.map(|o| units::span(&o)).transpose().map_err(|e| value("clock.offset", e))?;
    let drift_ppm = t.drift_ppm.unwrap_or(0);
    if !(-DRIFT_PPM_MAX..=DRIFT_PPM_MAX).contains(&drift_ppm) {
        return Err(value("clock.drift_ppm", format!("must lie within +-{DRIFT_PPM_MAX}, not {drift_ppm}")));
    }
    Ok(ClockSkew { offset: offset.unwrap_or(Span::ZERO), drift_ppm })
}
