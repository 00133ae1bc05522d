//! Where targets are reached: by the neighbours' routes or by a table, and what was learnt about the ways by using them.

mod policy;
mod table;
mod ways;

pub(crate) use policy::Stop;
pub use policy::may_reach;
pub use table::{NEXT_HOPS_MAX, NextHop, TABLE_MAX, Table};

use crate::PeerId;
use crate::neighbours::Neighbours;
use std::net::IpAddr;
use wavelane_base::{Instant, IpPrefix, longest_match, route};
use ways::Ways;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    ways: Ways,
    /// For [`crate::Config::by_table`].
    table: Table,
    /// Of packets.
    routes: Vec<(IpPrefix, PeerId)>,
    /// This machine's own addresses.
    own: Vec<IpAddr>,
    dropped_source_not_allowed: u64,
    dropped_target_not_allowed: u64,
}

impl Routing {
    pub(crate) fn set_own_addresses(&mut self, own: Vec<IpAddr>) {
        self.own = own;
    }

    /// A neighbour that was down is back.
    pub(crate) fn returned(&mut self, peer: PeerId) {
        self.ways.returned(peer);
    }

    pub(crate) fn counters(&self) -> [(&'static str, u64); 2] {
        [
            ("dropped_source_not_allowed", self.dropped_source_not_allowed),
            ("dropped_target_not_allowed", self.dropped_target_not_allowed),
        ]
    }
}

/// The neighbours and the ways over them: what flows, relays and packets are carried by.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) peers: Neighbours,
    pub(crate) routing: Routing,
}

impl Net {
    /// The peers' routes have changed, or their numbers.
    pub(crate) fn set_routes(&mut self) {
        let routes = self.peers.ids().flat_map(|peer| self.peers.peer(peer).routes.iter().map(move |of| (*of, peer)));
        self.routing.routes = routes.collect();
        self.routing.ways.forget_all();
    }

    /// Whether `ip` is this machine's own, or what our ICMP errors come from.
    pub(crate) fn is_own(&self, ip: IpAddr) -> bool {
        let router = self.peers.config().packets.is_some_and(|config| match ip {
            IpAddr::V4(ip) => config.address4 == Some(ip),
            IpAddr::V6(ip) => config.address6 == Some(ip),
        });
        router || self.routing.own.contains(&ip)
    }

    /// The peer that leads to `target` now: of equal routes the first of a peer that is not down, else the first.
    pub(crate) fn peer_towards(&self, now: Instant, target: IpAddr) -> Option<PeerId> {
        if self.peers.config().by_table {
            let ways = self.ways_by_table(None, target);
            return ways.iter().find(|peer| !self.peers.is_down(now, **peer)).or(ways.first()).copied();
        }
        route(self.routing.routes.iter().copied(), target, |peer| self.peers.is_down(now, peer)).map(|(_, peer)| peer)
    }

    /// The peer to which a flow from `upstream` to `target` would be relayed first: by the longest matching route, unless what we
    /// serve matches longer.
    pub(crate) fn next_hop(&self, upstream: PeerId, target: IpAddr) -> Option<PeerId> {
        let config = self.peers.config();
        let first = self.ways_to(Some(upstream), target).first().copied()?;
        let detours = config.detours.iter().filter(|detour| detour.peer == first).map(|detour| &detour.prefix);
        let by_peers = || longest_match(config.peers[first.0].routes.iter().chain(detours), target);
        let there = if config.by_table { self.table_bits(target) } else { by_peers() };
        (longest_match(&config.serves, target) <= there).then_some(first)
    }
}
