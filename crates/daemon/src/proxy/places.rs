//! What placements need said besides: `[[proxy.tunnel]]`, `routers` and `clients`.

use crate::config::addresses::prefixes;
use crate::config::{ConfigError, Placement, prefix_text, value, width};
use std::net::{IpAddr, Ipv4Addr};
use wavelane_base::IpPrefix;
use wavelane_host::routes::networks_by;
use wavelane_host::{addresses_of, interface_index, own_addresses};
use wavelane_settings::TunnelTable;

/// Most tunnels, and networks of one: each network is a route.
const TUNNELS_MAX: usize = 64;

/// Who sends packets here within packets, and whose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tunnel {
    /// The other end.
    pub(crate) peer: Ipv4Addr,
    /// The senders behind it; what goes there goes through the tunnel.
    pub(crate) networks: Vec<IpPrefix>,
}

impl Tunnel {
    /// Whether an address is behind it.
    pub(super) fn holds(&self, address: Ipv4Addr) -> bool {
        self.networks.iter().any(|network| network.contains(address.into()))
    }
}

/// The tunnels, if the placement has such.
pub(super) fn tunnels(tables: Vec<TunnelTable>, placement: Placement) -> Result<Vec<Tunnel>, ConfigError> {
    const KEY: &str = "proxy.tunnel";
    match (placement == Placement::Tunnel, tables.len()) {
        (true, 0) => {
            let why = "is missing, and placement = \"tunnel\" hears nobody else: write [[proxy.tunnel]] with `peer` and `networks`";
            return Err(value(KEY, why));
        }
        (false, 1..) => return Err(value(KEY, "needs placement = \"tunnel\": write that, or remove it")),
        (_, TUNNELS_MAX..) => return Err(value(KEY, format!("stands {TUNNELS_MAX} times or more: join networks"))),
        _ => {}
    }
    let mut all: Vec<Tunnel> = Vec::new();
    for table in tables {
        let tunnel = tunnel(&table)?;
        if all.iter().any(|other| other.peer == tunnel.peer) {
            return Err(value("proxy.tunnel.peer", format!("{} stands twice: join its networks", tunnel.peer)));
        }
        all.push(tunnel);
    }
    let shared = |network: &IpPrefix, other: &IpPrefix| network.covers(other) || other.covers(network);
    for (place, tunnel) in all.iter().enumerate() {
        for network in &tunnel.networks {
            let text = prefix_text(network);
            if let Some(peer) = all.iter().map(|one| one.peer).find(|peer| network.contains(IpAddr::V4(*peer))) {
                let why = format!(
                    "{text} holds the peer {peer}, which its packets could not reach then: name smaller networks"
                );
                return Err(value("proxy.tunnel.networks", why));
            }
            let before = all[..place].iter().find(|one| one.networks.iter().any(|other| shared(network, other)));
            if let Some(other) = before {
                let why = format!("{text} is also the tunnel's of {}: each address is behind one", other.peer);
                return Err(value("proxy.tunnel.networks", why));
            }
        }
    }
    Ok(all)
}

/// The first that stands in the list before, too.
fn first_twice<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(place, one)| list[..*place].contains(one)).map(|(_, one)| one)
}

fn tunnel(table: &TunnelTable) -> Result<Tunnel, ConfigError> {
    let (peer, networks) = (table.peer.as_deref().unwrap_or_default(), table.networks.as_deref().unwrap_or_default());
    const NETWORKS: &str = "proxy.tunnel.networks";
    let is_host = |a: &Ipv4Addr| !a.is_unspecified() && !a.is_multicast() && !a.is_broadcast() && !a.is_loopback();
    let address = peer.parse().ok().filter(is_host);
    let none = || value("proxy.tunnel.peer", format!("'{peer}' is no IPv4 address of a host, such as 192.0.2.7"));
    let peer = address.ok_or_else(none)?;
    if networks.is_empty() || networks.len() > TUNNELS_MAX {
        let why =
            format!("of {peer} has {} entries: name 1 to {TUNNELS_MAX}, of the senders behind it", networks.len());
        return Err(value(NETWORKS, why));
    }
    let networks = prefixes(NETWORKS, networks)?;
    if let Some(six) = networks.iter().find(|network| network.address.is_ipv6()) {
        let why = format!("{} is of IPv6, which a tunnel of RFC 2003 does not carry: remove it", prefix_text(six));
        return Err(value(NETWORKS, why));
    }
    let is_none = |a: IpAddr| a.is_loopback() || a.is_multicast();
    if let Some(none) = networks.iter().find(|network| is_none(network.address)) {
        let why = format!("{} holds no hosts that a tunnel leads to: remove it", prefix_text(none));
        return Err(value(NETWORKS, why));
    }
    if let Some(twice) = first_twice(&networks) {
        let why = format!("of {peer} hold {} twice: name it once", prefix_text(twice));
        return Err(value(NETWORKS, why));
    }
    Ok(Tunnel { peer, networks })
}

/// Most routers, and entries of clients.
const CLAIMED_MAX: usize = 64;

/// Whose addresses are claimed: towards the clients those of the routers, towards the routers those of the clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Claimed {
    pub(crate) routers: Vec<IpAddr>,
    pub(crate) clients: Vec<IpPrefix>,
}

impl Claimed {
    /// What this machine's links say against the lists.
    pub(super) fn warnings(&self, interfaces: &[String]) -> Vec<String> {
        let lo = interfaces.iter().any(|name| name == "lo").then(|| {
            "proxy.interfaces names lo, which has no hosts: name the interface of the link that clients are on"
                .to_owned()
        });
        let at: Vec<IpAddr> = interfaces.iter().flat_map(|name| addresses_of(name)).collect();
        // Others' links may have the same addresses of these.
        let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
        let mut own = own_addresses().unwrap_or_default();
        own.retain(|address| !is_of_link(address));
        let of_own = self.routers.iter().filter(|router| own.contains(router) || at.contains(router)).map(|router| {
            format!(
                "{router} of proxy.routers is an address of this machine, which needs no claim: name the other router's"
            )
        });
        let by = interfaces.iter().filter_map(|name| interface_index(name));
        let mut there: Vec<IpPrefix> = by.flat_map(|index| networks_by(index).unwrap_or_default()).collect();
        there.retain(|network| network.bits > 0);
        let is_there = |client: &IpPrefix| {
            at.iter().any(|address| client.contains(*address)) || there.iter().any(|network| network.covers(client))
        };
        let nowhere = self.clients.iter().filter(|client| !is_there(client)).map(|client| {
            format!(
                "no interface of proxy.interfaces has the network of the clients {}: give one an address there, or correct the list",
                prefix_text(client)
            )
        });
        lo.into_iter().chain(of_own).chain(nowhere).collect()
    }
}

/// The lists, if the placement has such.
pub(super) fn claimed(routers: &[String], clients: &[String], placement: Placement) -> Result<Claimed, ConfigError> {
    let lists = [("proxy.routers", routers.len()), ("proxy.clients", clients.len())];
    for (key, len) in lists {
        match (placement == Placement::Arp, len) {
            (true, 0) => {
                return Err(value(
                    key,
                    "is empty, and placement = \"arp\" leads only those here who are listed: name them",
                ));
            }
            (false, 1..) => return Err(value(key, "needs placement = \"arp\": write that, or remove it")),
            (_, CLAIMED_MAX..) => return Err(value(key, format!("has {CLAIMED_MAX} entries or more: join networks"))),
            _ => {}
        }
    }
    let is_host = |a: &IpAddr| match a {
        IpAddr::V4(v4) => !a.is_unspecified() && !a.is_multicast() && !a.is_loopback() && !v4.is_broadcast(),
        IpAddr::V6(_) => !a.is_unspecified() && !a.is_multicast() && !a.is_loopback(),
    };
    let router = |text: &String| {
        let none = || value("proxy.routers", format!("'{text}' is no address of a host, such as 192.0.2.1 or fe80::1"));
        text.parse().ok().filter(is_host).ok_or_else(none)
    };
    let routers: Vec<IpAddr> = routers.iter().map(router).collect::<Result<_, _>>()?;
    if let Some(twice) = first_twice(&routers) {
        return Err(value("proxy.routers", format!("{twice} stands twice: name it once")));
    }
    let clients = prefixes("proxy.clients", clients)?;
    if let Some(twice) = first_twice(&clients) {
        return Err(value("proxy.clients", format!("{} stands twice: name it once", prefix_text(twice))));
    }
    for client in &clients {
        let text = prefix_text(client);
        if routers.iter().all(|router| router.is_ipv4() != client.address.is_ipv4()) {
            let why = format!("{text} has none of the IP version of any router: name one, or remove it");
            return Err(value("proxy.clients", why));
        }
        let held: Vec<&IpAddr> = routers.iter().filter(|router| client.contains(**router)).collect();
        // Of a network all of whose addresses are routers nobody is left.
        let left = u32::from(width(client.address) - client.bits);
        if let Some(router) = held.first().filter(|_| 1_usize.checked_shl(left).is_some_and(|all| held.len() >= all)) {
            let why = format!(
                "{text} has no clients, as each of its addresses is a router ({router}): take it out of one list"
            );
            return Err(value("proxy.clients", why));
        }
    }
    Ok(Claimed { routers, clients })
}
