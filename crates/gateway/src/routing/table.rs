//! An externally maintained routing table, in place of the peers' order: it says through which neighbours a target is reached.
//!
//! The table names next hops by address; the peers' configuration maps addresses to peers. Targets outside a peer's own routes
//! are never sent to it: the routes bound what the table's maintainer can do.

use super::Net;
use crate::{OpenError, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wavelane_base::{Host, Instant, IpPrefix, longest_match};

/// Most routes of a table, those of IPv4 and IPv6 together.
pub const TABLE_MAX: usize = 1 << 17;
/// Most next hops of one route that count.
pub const NEXT_HOPS_MAX: usize = 16;

/// Where a route leads next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NextHop {
    /// To the neighbour that has this address.
    Address(IpAddr),
    /// The target itself is on the link.
    OnLink,
}

/// The next hops of each address block; a block without next hops is unreachable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// By prefix length and prefix.
    routes: BTreeMap<(u8, IpAddr), Vec<NextHop>>,
    /// The prefix lengths in use, of IPv4 and IPv6.
    lengths: [BTreeSet<u8>; 2],
}

/// The first address of the block of `bits` that contains `address`.
fn first_of(address: IpAddr, bits: u8) -> IpAddr {
    let mask = |width: u8| if bits == 0 { 0 } else { u128::MAX << (width - bits.min(width)) };
    match address {
        IpAddr::V4(v4) => IpAddr::from((u32::from(v4) & mask(32) as u32).to_be_bytes()),
        IpAddr::V6(v6) => IpAddr::from((u128::from(v6) & mask(128)).to_be_bytes()),
    }
}

impl Table {
    /// Adds a route; further next hops of an existing block are appended. `false` if the table is full.
    pub fn add(&mut self, prefix: IpPrefix, hops: &[NextHop]) -> bool {
        let key = (prefix.bits, first_of(prefix.address, prefix.bits));
        if self.routes.len() >= TABLE_MAX && !self.routes.contains_key(&key) {
            return false;
        }
        self.lengths[usize::from(prefix.address.is_ipv6())].insert(prefix.bits);
        let all = self.routes.entry(key).or_default();
        for hop in hops {
            if all.len() < NEXT_HOPS_MAX && !all.contains(hop) {
                all.push(*hop);
            }
        }
        true
    }

    /// Blocks of addresses in it.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The route to `target`: its prefix length and its next hops.
    fn route(&self, target: IpAddr) -> Option<(u8, &[NextHop])> {
        let mut lengths = self.lengths[usize::from(target.is_ipv6())].iter().rev();
        lengths.find_map(|bits| Some((*bits, self.routes.get(&(*bits, first_of(target, *bits)))?.as_slice())))
    }
}

impl Net {
    /// Installs a changed table. Returns whether anything differs.
    pub(crate) fn set_table(&mut self, table: Table) -> bool {
        let routing = &mut self.routing;
        if table == routing.table {
            return false;
        }
        let before = core::mem::replace(&mut routing.table, table);
        // A changed way to one target does not affect marks of others.
        routing.ways.forget(|target| before.route(target) != routing.table.route(target));
        true
    }

    /// The routes of the table, and how many of them lead to a peer.
    pub(crate) fn table_counts(&self) -> (usize, usize) {
        let leads = |((_, first), hops): &(&(u8, IpAddr), &Vec<NextHop>)| {
            hops.iter().any(|hop| !matches!(hop, NextHop::OnLink) && !self.peers_at(*hop, *first).is_empty())
        };
        (self.routing.table.len(), self.routing.table.routes.iter().filter(leads).count())
    }

    /// The prefix length of the table's route to `target`.
    pub(super) fn table_bits(&self, target: IpAddr) -> Option<u8> {
        self.routing.table.route(target).map(|(bits, _)| bits)
    }

    /// The peer to ask for a flow that the owner would ask `peer` for.
    pub(crate) fn named_by_table(&self, now: Instant, peer: PeerId, target: IpAddr) -> Result<PeerId, OpenError> {
        if !self.peers.config().by_table || !self.covers(peer, target) {
            return Ok(peer);
        }
        let first = || self.ways_by_table(None, target).first().copied();
        self.any_way(now, None, target).or_else(first).ok_or(OpenError::NoWay(target))
    }

    fn covers(&self, peer: PeerId, target: IpAddr) -> bool {
        self.peers.peer(peer).routes.iter().any(|prefix| prefix.contains(target))
    }

    /// Whether a flow to `target` ends here: its block is on our link, ours, or not subject to the table.
    pub(crate) fn ends_here(&self, target: IpAddr) -> bool {
        let any_covers = || self.peers.ids().any(|peer| self.covers(peer, target));
        if !self.peers.config().by_table || self.is_own(target) || !any_covers() {
            return true;
        }
        let route = self.routing.table.route(target);
        if longest_match(&self.peers.config().serves, target) > route.map(|(bits, _)| bits) {
            return true;
        }
        route.is_some_and(|(_, hops)| !hops.is_empty() && hops.iter().all(|hop| self.peers_at(*hop, target).is_empty()))
    }

    /// The peers that the table names for `target`, in its order.
    pub(super) fn ways_by_table(&self, upstream: Option<PeerId>, target: IpAddr) -> Vec<PeerId> {
        let mut ways = Vec::new();
        // Our own addresses are never relayed, whatever a route for their network says.
        let Some((_, hops)) = self.routing.table.route(target).filter(|_| !self.is_own(target)) else { return ways };
        for peer in hops.iter().flat_map(|hop| self.peers_at(*hop, target)) {
            if self.covers(peer, target) && Some(peer) != upstream && !ways.contains(&peer) {
                ways.push(peer);
            }
        }
        ways
    }

    /// The peers at a next hop, by the configuration. Only a peer without a configured address is matched by the address it calls
    /// from.
    fn peers_at(&self, hop: NextHop, target: IpAddr) -> Vec<PeerId> {
        let address = match hop {
            NextHop::Address(address) => address,
            NextHop::OnLink => target,
        };
        let is_there = |peer: &PeerId| {
            let mut named = self.peers.config().next_hops.iter().filter(|(_, of)| of == peer).peekable();
            let lanes = &self.peers.peer(*peer).lanes;
            let mut configured = lanes.iter().filter_map(|lane| lane.address).peekable();
            if named.peek().is_some() || configured.peek().is_some() {
                return named.any(|(at, _)| *at == address) || configured.any(|at| at.host() == Host::Ip(address));
            }
            // Only a proven address counts: the peer could claim to be another peer's next hop.
            self.peers.was_proven_at(*peer, address)
        };
        self.peers.ids().filter(is_there).collect()
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
