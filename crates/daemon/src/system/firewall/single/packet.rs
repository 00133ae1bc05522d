//! The kinds of packets of ours that a firewall may meet.

use super::super::{Hook, Reached, has_routes};
use crate::config::marks::{MARK_DIVERT, MARK_OWN};
use crate::config::{Config, prefix_text, width};
use crate::system::family::Family;
use crate::system::rules::all_routes;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wavelane_base::IpPrefix;
use wavelane_host::interface_name;
use wavelane_host::routes::towards;

/// Networks that a remedy names one by one.
const NETWORKS_NAMED: usize = 8;
/// Hosts of peers whose devices are looked for: each is a question to the kernel, and many peers have few devices.
const HOSTS_MAX: usize = 256;

/// What is known of a port.
#[derive(Clone, Copy)]
pub(super) enum Port {
    Unknown,
    /// The packets of this kind have many.
    Many,
    One(u16),
}

/// A kind of packet of ours, as far as it is known.
#[derive(Clone)]
pub(super) struct Packet<'a> {
    pub(super) hook: Hook,
    pub(super) family: Family,
    pub(super) iif: Option<&'a str>,
    pub(super) oif: Option<&'a str>,
    pub(super) protocol: Option<(&'static str, &'static str)>,
    /// Of the target, and of the source.
    pub(super) port: Port,
    pub(super) source_port: Port,
    pub(super) mark: Option<u32>,
    /// At the hook prerouting: whether we have marked it by then. `None` if we do not.
    pub(super) is_late: Option<bool>,
    pub(super) state: &'static str,
    /// It comes from here in another's name, which no rule can mean.
    pub(super) is_answer: bool,
    /// A rule that meets a part of its sources meets some of it: an address that it asks for is one of them.
    pub(super) is_part: bool,
    pub(super) from: Vec<IpPrefix>,
    pub(super) to: Vec<IpPrefix>,
    /// What it is, for people, and the matches of rules that would let it through.
    pub(super) words: String,
    pub(super) remedies: Vec<String>,
}

impl Packet<'_> {
    /// Whether the kernel looks for its source elsewhere than where it comes from: it comes by our device, whose routes only our rules
    /// reach, or it carries the mark by which we take it and the mark is heeded.
    pub(super) fn seems_forged(&self, by_mark: bool) -> bool {
        let is_taken = by_mark && self.iif != Some("lo") && self.mark == Some(MARK_DIVERT);
        is_taken || self.hook == Hook::Prerouting && self.is_late.is_none() && !self.is_lane()
    }
    /// Whether it is one of our own datagrams or a peer's.
    pub(super) fn is_lane(&self) -> bool {
        self.protocol == Some(UDP)
    }
    /// Of which nothing else is known.
    fn of(hook: Hook, family: Family, words: String) -> Self {
        Self {
            hook,
            family,
            iif: None,
            oif: None,
            protocol: None,
            port: Port::Many,
            source_port: Port::Unknown,
            mark: None,
            is_late: None,
            state: "new",
            is_answer: false,
            is_part: false,
            from: Vec::new(),
            to: Vec::new(),
            words,
            remedies: Vec::new(),
        }
    }
}

const TCP: (&str, &str) = ("tcp", "6");
const UDP: (&str, &str) = ("udp", "17");

/// What is ours here.
pub(super) fn packets<'a>(config: &'a Config, uplinks: &'a [String]) -> Vec<Packet<'a>> {
    let Some(intercept) = &config.intercept else { return Vec::new() };
    let mut all = Vec::new();
    for family in Family::ALL.into_iter().filter(|family| has_routes(config, *family)) {
        let routes = || all_routes(config, family);
        let blank = |hook, words| Packet::of(hook, family, words);
        for name in intercept.interfaces.iter().map(String::as_str).chain(intercept.local.then_some("lo")) {
            all.push(Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(MARK_DIVERT),
                to: routes(),
                remedies: vec![format!("meta mark {MARK_DIVERT:#x}")],
                ..blank(Hook::Input, format!("connections that are taken from {name}, which time out"))
            });
            // What is born here carries a mark by which it comes.
            let marks = if name == "lo" { MARK_DIVERT } else { 0 };
            all.push(Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(marks),
                is_late: Some(false),
                to: routes(),
                remedies: vec![format!("iifname \"{name}\" meta l4proto tcp")],
                ..blank(Hook::Prerouting, format!("connections that come from {name} before they are taken"))
            });
            all.push(Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(MARK_DIVERT),
                is_late: Some(true),
                to: routes(),
                remedies: vec![format!("meta mark {MARK_DIVERT:#x}")],
                ..blank(Hook::Prerouting, format!("connections that are taken from {name}, which time out"))
            });
        }
        for name in &intercept.interfaces {
            let words = || format!("connections that come from {name} before they are taken");
            let coming = || Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(0),
                to: routes(),
                remedies: vec![format!("iifname \"{name}\" meta l4proto tcp")],
                ..blank(Hook::Ingress, words())
            };
            let networks: Vec<String> = routes().iter().map(prefix_text).collect();
            let to = format!("{} daddr {{ {} }}", family.nft(), networks.join(", "));
            let some = if networks.len() > NETWORKS_NAMED { "meta l4proto tcp" } else { &to };
            let remedies = vec![format!("iifname \"{name}\" {some}")];
            all.push(Packet { hook: Hook::Redirection, remedies, ..coming() });
            all.push(coming());
        }
        for packet in sent(config, family) {
            let remedies = vec![format!("meta mark {MARK_OWN:#x}")];
            let packet = Packet { mark: Some(MARK_OWN), remedies, ..packet };
            // By which device we connect for peers is not looked at.
            let by = uplinks.iter().map(String::as_str).filter(|_| packet.is_lane()).chain(packet.oif);
            all.extend(by.map(|name| Packet { hook: Hook::Egress, oif: Some(name), ..packet.clone() }));
            all.extend([Hook::Output, Hook::Postrouting].map(|hook| Packet { hook, ..packet.clone() }));
        }
        if let Some(tun) = &config.tun {
            let device = tun.name.as_str();
            all.push(Packet {
                iif: Some(device),
                mark: Some(0),
                from: routes(),
                remedies: vec![format!("iifname \"{device}\"")],
                ..blank(Hook::Prerouting, format!("packets of peers that come by {device}"))
            });
            let remedies = vec![format!("oifname \"{device}\""), format!("iifname \"{device}\"")];
            for name in &intercept.interfaces {
                let words = format!("packets between {name} and {device}");
                let (there, back) = (blank(Hook::Forward, words.clone()), blank(Hook::Forward, words));
                let remedies = || remedies.clone();
                all.push(Packet { iif: Some(name), oif: Some(device), to: routes(), remedies: remedies(), ..there });
                all.push(Packet { iif: Some(device), oif: Some(name), from: routes(), remedies: remedies(), ..back });
            }
        }
        let both = config.listen.is_ipv6() && config.listen.ip().is_unspecified();
        if both || Family::of_address(config.listen.ip()) == family {
            all.extend(lanes(config, family, uplinks));
        }
    }
    all
}

/// Peers' datagrams, wherever a rule may meet them.
fn lanes<'a>(config: &Config, family: Family, uplinks: &'a [String]) -> Vec<Packet<'a>> {
    let (port, places) = (config.listen.port(), called(config));
    let all_answer = config.peers.iter().all(|peer| peer.address.is_some());
    let hosts: Option<Vec<IpAddr>> = places.iter().map(|(host, _)| host.parse().ok()).collect();
    let mut from = hosts.filter(|_| all_answer).unwrap_or_default();
    from.retain(|host| Family::of_address(*host) == family);
    let ports: BTreeSet<u16> = places.iter().map(|(_, port)| *port).collect();
    let source_port = match ports.first() {
        Some(port) if all_answer && ports.len() == 1 => Port::One(*port),
        _ => Port::Unknown,
    };
    let lane = |hook, iif| Packet {
        iif,
        protocol: Some(UDP),
        port: Port::One(port),
        source_port,
        mark: Some(0),
        // What we call ourselves answers.
        state: if all_answer { "established" } else { "new" },
        from: from.iter().map(|host| IpPrefix { address: *host, bits: width(*host) }).collect(),
        remedies: vec![format!("udp dport {port}")],
        ..Packet::of(hook, family, format!("datagrams of peers to UDP port {port}"))
    };
    // Where not all peers' addresses are known, datagrams may come by other devices as well.
    let elsewhere = from.is_empty() || uplinks.is_empty();
    let devices: Vec<Option<&str>> =
        elsewhere.then_some(None).into_iter().chain(uplinks.iter().map(|name| Some(name.as_str()))).collect();
    let anywhere = devices.iter().flat_map(|iif| [Hook::Input, Hook::Prerouting].map(|hook| lane(hook, *iif)));
    anywhere.chain(uplinks.iter().map(|name| lane(Hook::Ingress, Some(name)))).collect()
}

/// The devices by which peers' datagrams come, as far as they are known: to what the file names, and to where peers are `reached`.
pub(in super::super) fn uplinks(config: &Config, reached: &Reached) -> Vec<String> {
    let written = called(config).into_iter().filter_map(|(host, _)| host.parse().ok());
    let hosts: Reached = written.chain(reached.iter().copied()).take(HOSTS_MAX).collect();
    let routes = hosts.into_iter().filter_map(|host| interface_name(towards(host, None).ok()??.device));
    let devices = config.lane_sockets().into_iter().filter_map(|socket| socket.device);
    routes.chain(devices).collect::<BTreeSet<String>>().into_iter().collect()
}

/// Hosts and ports of the peers that we call, of all lanes over UDP.
fn called(config: &Config) -> Vec<(&str, u16)> {
    let all = config.peers.iter().flat_map(|p| p.address.iter().chain(p.lanes.iter().flat_map(|l| &l.address)));
    all.filter_map(|at| host_and_port(at)).collect()
}

fn host_and_port(at: &str) -> Option<(&str, u16)> {
    let (host, port) = at.rsplit_once(':')?;
    let six = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Some((six.or((!host.contains(':')).then_some(host))?, port.parse().ok()?))
}

/// What we send: to the peers that we call, to clients as their servers, and to servers for peers.
fn sent(config: &Config, family: Family) -> Vec<Packet<'_>> {
    let Some(intercept) = &config.intercept else { return Vec::new() };
    let blank = |words| Packet { protocol: Some(TCP), ..Packet::of(Hook::Output, family, words) };
    let is_of_family = |host: &str| host.parse().map_or(true, |host| Family::of_address(host) == family);
    let ports: BTreeSet<u16> =
        called(config).into_iter().filter(|(host, _)| is_of_family(host)).map(|(_, port)| port).collect();
    // A lane may have a port of its own.
    let own = config.lane_sockets().is_empty().then(|| config.listen.port());
    let mut all: Vec<Packet<'_>> = Vec::new();
    all.extend(ports.into_iter().map(|port| Packet {
        protocol: Some(UDP),
        port: Port::One(port),
        source_port: own.map_or(Port::Unknown, Port::One),
        ..blank(format!("our datagrams to UDP port {port} of peers"))
    }));
    let listen = config.listen;
    let reaches = listen.is_ipv6() && listen.ip().is_unspecified() || Family::of_address(listen.ip()) == family;
    if reaches && config.peers.iter().any(|peer| peer.address.is_none()) {
        // They have any port, and called first.
        all.push(Packet {
            protocol: Some(UDP),
            port: Port::Unknown,
            source_port: own.map_or(Port::Unknown, Port::One),
            state: "established",
            ..blank("our datagrams to peers that call us".to_owned())
        });
    }
    let served = config.peers.iter().flat_map(|peer| config.targets(peer));
    let to: Vec<IpPrefix> = served.filter(|network| Family::of(network) == family).copied().collect();
    if !to.is_empty() {
        all.push(Packet { to, ..blank("connections that we make for peers".to_owned()) });
    }
    // A proxy with a device of its own answers through that.
    if intercept.proxy.as_ref().is_none_or(|proxy| proxy.device.is_none()) {
        all.extend(intercept.interfaces.iter().map(|name| Packet {
            oif: Some(name),
            state: "established",
            is_answer: true,
            is_part: true,
            port: Port::Unknown,
            source_port: Port::Many,
            from: all_routes(config, family),
            ..blank(format!("what we answer by {name} to connections that are taken"))
        }));
    }
    all
}
