//! Bridges of this host. A proxy that is placed on one takes the TCP that passes over it.
//!
//! What hosts on one bridge of this host send each other. Where br_netfilter is switched on, as Docker does, the rules of the IP versions see
//! frames that are only bridged, and would take TCP that never was to come to us.

use super::ranges::taken;
use super::tables::set;
use super::userspace::ERRORS;
use super::{BRIDGE_TABLE, Down};
use crate::config::marks::MARK_BRIDGED;
use crate::config::{Config, Placement, ProxyRules, prefix_text};
use crate::system::family::Family;
use std::fs::read_to_string;
use wavelane_base::IpPrefix;
use wavelane_host::routes::{Device, devices};

/// Bridges among the intercepted interfaces whose frames our rules see, and how those for this host are told from others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bridged {
    bridges: Vec<String>,
    /// The link addresses of this host's interfaces, in order.
    own: Vec<String>,
    /// Where a proxy is placed: each bridge's link address and its ports.
    steered: Vec<(String, Vec<String>)>,
    /// Ports whose names no rule can have: what arrives by them stays on the bridge.
    unwritable: Vec<String>,
}

/// Whether a rule can name an interface: within nft's quotes these have a meaning.
fn is_writable(name: &str) -> bool {
    !name.contains(['"', '*'])
}

/// The bridges on which a proxy is placed, with the names of their ports, and ports that cannot be named.
fn steered(config: &Config, devices: &[Device]) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let intercept = config
        .intercept
        .as_ref()
        .filter(|i| i.proxy.as_ref().is_some_and(|proxy| proxy.placement == Placement::Bridge));
    let names = intercept.iter().flat_map(|intercept| &intercept.interfaces);
    let of = |name: &String| devices.iter().find(|device| device.is_bridge && device.name == *name);
    let mut unwritable = Vec::new();
    let ports = |bridge: &Device| {
        let own = devices.iter().filter(|device| device.master == Some(bridge.index));
        let (mut names, others): (Vec<String>, Vec<String>) =
            own.map(|device| device.name.clone()).partition(|name| is_writable(name));
        names.sort_unstable();
        unwritable.extend(others);
        Some((ethernet(bridge.ethernet?), names)).filter(|(_, names)| !names.is_empty())
    };
    let steered = names.filter_map(of).filter_map(ports).collect();
    unwritable.sort_unstable();
    (steered, unwritable)
}

/// The nft table in which TCP that passes over a bridge turns off to this host, which forwards what it does not take; frames of what is
/// exempt by network or port stay on the bridge. Like the other it goes with the process, and the bridge is plain again.
pub(super) fn steering(config: &Config, proxy: &ProxyRules, bridged: &Bridged, attached: &[IpPrefix]) -> String {
    // Behind a tag the addresses are of another network, whose frames this host does not forward.
    let (mut sets, mut rules) = (String::new(), " ether type { 8021q, 8021ad } accept;".to_owned());
    let ports: Vec<String> = proxy.ports.iter().map(u16::to_string).collect();
    if !ports.is_empty() {
        let ports = ports.join(", ");
        rules += &format!(" tcp dport {{ {ports} }} accept; tcp sport {{ {ports} }} accept;");
    }
    for network in attached {
        let (nft, network) = (Family::of(network).nft(), prefix_text(network));
        rules += &format!(" {nft} daddr {network} accept; {nft} saddr {network} accept;");
    }
    for family in Family::ALL {
        sets += &set(family.nft_set(), family, &taken(config, family, &Down::new(), attached));
    }
    for (address, ports) in &bridged.steered {
        let ports: Vec<String> = ports.iter().map(|port| format!("\"{port}\"")).collect();
        let (from, up) = (
            format!("iifname {{ {} }}", ports.join(", ")),
            format!("ether daddr set {address} meta pkttype set host accept;"),
        );
        for family in Family::ALL {
            let (nft, targets) = (family.nft(), family.nft_set());
            for end in ["daddr", "saddr"] {
                rules += &format!(" {from} meta pkttype other meta l4proto tcp {nft} {end} @{targets} {up}");
            }
            rules += &format!(" {from} meta pkttype other {} {up}", ERRORS[family as usize]);
        }
    }
    format!(
        " table {BRIDGE_TABLE} {{ flags owner;{sets} chain steer {{ type filter hook prerouting priority dstnat; policy accept;{rules} }}; }}"
    )
}

/// What this host forwards by the way that it came is no word to hosts of a shorter one.
pub(super) fn no_redirects(names: &str) -> String {
    format!(
        " chain redirects {{ type filter hook output priority filter; policy accept; \
         oifname {{ {names} }} icmp type redirect drop; oifname {{ {names} }} icmpv6 type nd-redirect drop; }};"
    )
}

impl Bridged {
    /// As they are now. None at all where br_netfilter is switched off.
    pub(crate) fn read(config: &Config) -> Self {
        let devices = devices().unwrap_or_default();
        let (steered, unwritable) = steered(config, &devices);
        let is_on =
            |key| read_to_string(format!("/proc/sys/net/bridge/bridge-nf-call-{key}")).is_ok_and(|v| v.trim() == "1");
        if !["iptables", "ip6tables"].into_iter().any(is_on) {
            return Self { steered, unwritable, ..Self::default() };
        }
        let names = config.intercept.iter().flat_map(|intercept| &intercept.interfaces);
        let is_bridge = |name: &&String| devices.iter().any(|device| device.is_bridge && device.name == **name);
        let bridges: Vec<String> = names.filter(is_bridge).cloned().collect();
        if bridges.is_empty() {
            return Self { steered, unwritable, ..Self::default() };
        }
        let mut own: Vec<String> = devices.iter().filter_map(|device| device.ethernet).map(ethernet).collect();
        own.sort_unstable();
        own.dedup();
        Self { bridges, own, steered, unwritable }
    }
    /// Ports that no rule can name and that were none of these before, for the log.
    pub(crate) fn news(&self, before: &Self) -> Option<String> {
        let new: Vec<String> =
            self.unwritable.iter().filter(|name| !before.unwritable.contains(name)).map(|n| format!("{n:?}")).collect();
        (!new.is_empty()).then(|| {
            let ports = new.join(", ");
            format!("warning: TCP that arrives by the port {ports} of the bridge is not split, as no nft rule can hold that name: give it another (`ip link set dev NAME name NEW`)")
        })
    }
    /// Matches frames that pass from one port of a bridge to another. `None` if there can be none.
    fn matching(&self) -> Option<String> {
        let names: Vec<String> = self.bridges.iter().map(|name| format!("\"{name}\"")).collect();
        (!names.is_empty() && !self.own.is_empty())
            .then(|| format!("iifname {{ {} }} ether daddr != {{ {} }}", names.join(", "), self.own.join(", ")))
    }
    /// The chain that marks first packets among them before they are held or taken.
    pub(super) fn chain(&self, syn: &str) -> String {
        self.matching().map_or_else(String::new, |matching| {
            format!(
                " chain bridged {{ type filter hook prerouting priority raw - 10; policy accept; \
                 {matching} {syn} meta mark set {MARK_BRIDGED:#x}; }};"
            )
        })
    }
    /// Keeps the table that refuses from them.
    pub(super) fn spared(&self) -> String {
        self.matching().map_or_else(String::new, |matching| format!("  {matching} return\n"))
    }
}

/// As nft writes an address.
fn ethernet(octets: [u8; 6]) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}
