//! Which sources a peer may use and which targets it may reach. The longest prefix decides to which node an address belongs: to a
//! neighbour by its routes, to us by what we serve (WireGuard's cryptokey routing).

use super::Net;
use crate::{Config, GatewayEvent, PeerConfig, PeerId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wavelane_base::{IpPrefix, longest_match};
use wavelane_wire::frame::Reason;
use wavelane_wire::packet::{Crossing, Packet, crossing};

/// Cloud metadata services, which reveal a machine's keys among other data, besides the link-local addresses.
const METADATA: [IpPrefix; 5] = [
    // Amazon: fd00:ec2::254 and others.
    IpPrefix { address: IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0)), bits: 32 },
    // Google.
    IpPrefix { address: IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), bits: 128 },
    // Azure.
    IpPrefix { address: IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), bits: 32 },
    // Alibaba.
    IpPrefix { address: IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), bits: 32 },
    // Oracle.
    IpPrefix { address: IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)), bits: 32 },
];

const EVERYTHING_V4: IpPrefix = IpPrefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };

/// Whether `listed` names `target`. `own` are the addresses of this machine, `None` if they are not known.
///
/// Loopback, link-local and cloud metadata addresses and this machine's own must be named explicitly: by exactly the address, for
/// IPv4's loopback also by a block inside 127.0.0.0/8. If our own addresses are unknown, any may be one. Unspecified, multicast
/// and broadcast addresses are never targets; nor are IPv6 link-local ones, which are meaningless without an interface, and
/// IPv4-mapped or IPv4-compatible IPv6 addresses, which would bypass the rules for IPv4.
pub fn may_reach(listed: &[IpPrefix], target: IpAddr, own: Option<&[IpAddr]>) -> bool {
    let least_bits = match target {
        _ if target.is_unspecified() || target.is_multicast() => return false,
        IpAddr::V4(v4) if v4.is_broadcast() => return false,
        IpAddr::V6(v6) if v6.is_unicast_link_local() || v6.to_ipv4().is_some_and(|_| !v6.is_loopback()) => {
            return false;
        }
        IpAddr::V4(v4) if v4.is_loopback() => 8,
        IpAddr::V4(v4) if v4.is_link_local() => 32,
        IpAddr::V6(v6) if v6.is_loopback() => 128,
        // An address that a translator (RFC 6052) or a tunnel (RFC 3056) on the path maps to IPv4 is judged as that IPv4 address.
        IpAddr::V6(v6) if translated(v6).is_some_and(|v4| !may_reach(&[EVERYTHING_V4], v4.into(), own)) => 128,
        _ if METADATA.iter().any(|p| p.contains(target)) => width(target),
        _ if own.is_none_or(|own| own.contains(&target)) => width(target),
        _ => 0,
    };
    listed.iter().any(|p| p.bits >= least_bits && p.contains(target))
}

/// The IPv4 address embedded under the NAT64 well-known prefix or in a 6to4 address.
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let high = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => 12,
        [0x2002, ..] => 2,
        _ => return None,
    };
    let octets = address.octets();
    Some(Ipv4Addr::new(octets[high], octets[high + 1], octets[high + 2], octets[high + 3]))
}

/// Bits of an address of the same family.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl PeerConfig {
    /// The networks behind it: replies to what we send there may come from there.
    fn networks(&self) -> impl Iterator<Item = &IpPrefix> {
        self.routes.iter().chain(self.allow_sources.iter().flatten())
    }
}

impl Config {
    /// The longest prefix by which `ip` is elsewhere than behind `peer`.
    fn elsewhere(&self, peer: PeerId, ip: IpAddr) -> Option<u8> {
        let others = self.peers.iter().enumerate().filter(|(i, _)| *i != peer.0);
        longest_match(others.flat_map(|(_, other)| other.networks()).chain(&self.serves), ip)
    }

    /// Whether `ip` is behind `peer`.
    fn is_behind(&self, peer: PeerId, ip: IpAddr) -> bool {
        let theirs = longest_match(self.peers[peer.0].networks(), ip);
        theirs.is_some() && theirs >= self.elsewhere(peer, ip)
    }

    /// Whether a gateway with this key is named.
    pub(crate) fn knows(&self, key: &[u8; 32]) -> bool {
        let edges = self.edges.iter().map(|edge| &edge.public_key);
        edges.chain(self.peers.iter().map(|peer| &peer.public_key)).any(|of| of == key)
    }

    /// The key of the gateway behind which `target` is.
    pub(crate) fn egress_key(&self, target: IpAddr) -> Option<[u8; 32]> {
        let edges = self.edges.iter().filter(|_| self.seal);
        edges
            .filter_map(|edge| Some((longest_match(&edge.routes, target)?, edge.public_key)))
            .max_by_key(|(bits, _)| *bits)
            .map(|(_, key)| key)
    }

    /// Whether `peer` may ask for a flow of `source`. An address that we would not connect from is not checked unless a list
    /// restricts sources.
    fn may_ask_for(&self, peer: PeerId, source: SocketAddr, target: SocketAddr) -> bool {
        let source_kept = self.keep_sources && !source.ip().is_loopback() && source.is_ipv4() == target.is_ipv4();
        match &self.peers[peer.0].allow_sources {
            Some(listed) => {
                let listed = longest_match(listed, source.ip());
                listed.is_some() && listed >= self.elsewhere(peer, source.ip())
            }
            None => !source_kept || self.is_behind(peer, source.ip()),
        }
    }
}

/// Why a packet is dropped before its target is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// Its source is not behind the side that it came from.
    Source,
    /// ICMP that no router passes on.
    Icmp,
}

impl Net {
    /// Checks a neighbour's request.
    pub(crate) fn check_incoming(
        &mut self,
        peer: PeerId,
        source: SocketAddr,
        target: SocketAddr,
    ) -> Result<(), Reason> {
        // No peer may use our own address; the kernel would substitute it for an unspecified one.
        let ip = source.ip();
        let nobodys = ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        let as_us = self.peers.config().keep_sources && (nobodys || self.is_own(ip));
        let by_source = as_us || !self.peers.config().may_ask_for(peer, source, target);
        if by_source {
            self.routing.dropped_source_not_allowed += 1;
        } else if longest_match(&self.peers.config().peers[peer.0].allow_targets, target.ip()).is_none() {
            self.routing.dropped_target_not_allowed += 1;
        } else {
            return Ok(());
        }
        self.peers.tell(GatewayEvent::Denied { peer, address: if by_source { source } else { target }, by_source });
        Err(Reason::Prohibited)
    }

    /// Checks a packet from a neighbour.
    pub(crate) fn stop_from_peer(&self, peer: PeerId, packet: &Packet<'_>) -> Option<Stop> {
        match crossing(packet) {
            Crossing::Never => Some(Stop::Icmp),
            // No peer may use our own address.
            _ if self.is_own(packet.source) => Some(Stop::Source),
            Crossing::Plain => (!self.peers.config().is_behind(peer, packet.source)).then_some(Stop::Source),
            // Any router on the path may send an error, whatever its address.
            Crossing::Error(quoted) => {
                let about_theirs =
                    |(from, to): (IpAddr, IpAddr)| from == packet.target && self.peers.config().is_behind(peer, to);
                (!quoted.is_some_and(about_theirs)).then_some(Stop::Icmp)
            }
        }
    }

    /// Checks a packet from the inside to `peer`. If the local networks are unknown only the kind of packet is checked; the
    /// neighbour checks its source.
    pub(crate) fn stop_from_inside(&self, peer: PeerId, packet: &Packet<'_>) -> Option<Stop> {
        let config = self.peers.config();
        let is_here = |ip| {
            let theirs = || longest_match(config.peers[peer.0].networks(), ip);
            let here = || config.elsewhere(peer, ip).is_some_and(|bits| Some(bits) >= theirs());
            config.serves.is_empty() || self.is_own(ip) || here()
        };
        match crossing(packet) {
            Crossing::Never => Some(Stop::Icmp),
            Crossing::Plain => (!is_here(packet.source)).then_some(Stop::Source),
            Crossing::Error(quoted) => {
                let about_ours = |(from, to): (IpAddr, IpAddr)| from == packet.target && is_here(to);
                (!quoted.is_some_and(about_ours)).then_some(Stop::Icmp)
            }
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
