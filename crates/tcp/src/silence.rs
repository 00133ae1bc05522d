//! Which connections of a host are in an outage, and which of them try: one of each address, in turn, since some are gone by themselves
//! and answer nobody.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound::{Excluded, Unbounded};
use wavelane_base::{FlowId, Instant, Span};

/// Addresses of a side, out while others of it are heard, of which one connection each tries often: 0.2 Mbit/s of small segments.
const PROBED_MAX: usize = 64;
/// No configuration tries sooner in an outage: the least that `probe` of a side may say.
const PROBE_LEAST: Span = Span::from_millis(50);
/// Looked through for one that fell silent lately, before whichever is next has its turn.
const LOOKED_AT: usize = 64;

/// A connection and its remote end: the side, and the address.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    pub(super) flow: FlowId,
    pub(super) side: usize,
    pub(super) remote: IpAddr,
}

/// An address of which nothing is heard, or of which at least not all connections are.
struct Quiet {
    /// Connections there that are silent, with when each was found so.
    flows: BTreeMap<FlowId, Instant>,
    /// The first of them from this number on tries.
    turn: FlowId,
    /// When the last of them was found so.
    since: Instant,
    /// When the address was last heard, at the earliest when the first of them was found so.
    heard: Instant,
}

impl Quiet {
    fn prober(&self) -> Option<FlowId> {
        onwards(&self.flows, self.turn).next().map(|(flow, _)| *flow)
    }
}

/// The addresses of a side.
struct Side {
    addresses: BTreeMap<IpAddr, Quiet>,
    /// The first from this one on has its turn.
    turn: IpAddr,
}

impl Side {
    /// Whether an address has its turn, the side being out or not.
    fn has_turn(&self, is_out: bool, remote: IpAddr) -> bool {
        let most = if is_out { 1 } else { PROBED_MAX };
        onwards(&self.addresses, self.turn).take(most).any(|(address, _)| *address == remote)
    }
}

/// All of them in order, from a key on.
fn onwards<K: Ord + Copy, V>(all: &BTreeMap<K, V>, key: K) -> impl Iterator<Item = (&K, &V)> + Clone {
    all.range(key..).chain(all.range(..key))
}

/// Whose turn it is after `key`: the next that fell silent lately; without one whoever is next, or `key` itself if it did.
fn after<K: Ord + Copy, V>(all: &BTreeMap<K, V>, key: K, lately: impl Fn(&V) -> bool) -> K {
    let mut others = all.range((Excluded(key), Unbounded)).chain(all.range(..key));
    let next = others.clone().take(LOOKED_AT).find(|(_, value)| lately(value));
    let any = || others.next().filter(|_| !all.get(&key).is_some_and(&lately));
    next.or_else(any).map_or(key, |(next, _)| *next)
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Silence {
    /// At most as many entries as there are connections.
    sides: BTreeMap<usize, Side>,
    /// When each side was last heard.
    heard: BTreeMap<usize, Instant>,
}

impl Silence {
    pub(super) fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }
    fn quiet_for(&self, now: Instant, side: usize) -> Span {
        self.heard.get(&side).map_or(Span::MAX, |heard| now.since(*heard))
    }
    /// A connection is silent. One that falls silent goes before those that were so while others were heard.
    pub(super) fn enter(&mut self, now: Instant, Whose { flow, side, remote }: Whose) {
        let heard = self.heard.get(&side).copied();
        let new = || Side { addresses: BTreeMap::new(), turn: Ipv4Addr::UNSPECIFIED.into() };
        let of = self.sides.entry(side).or_insert_with(new);
        let new = || Quiet { flows: BTreeMap::new(), turn: flow, since: now, heard: now };
        let quiet = of.addresses.entry(remote).or_insert_with(new);
        if quiet.flows.contains_key(&flow) {
            return;
        }
        let tried = quiet.prober().and_then(|prober| quiet.flows.get(&prober));
        if tried.is_none_or(|since| *since < quiet.heard) {
            quiet.turn = flow;
        }
        quiet.flows.insert(flow, now);
        quiet.since = now;
        let tried = onwards(&of.addresses, of.turn).next();
        if tried.is_none_or(|(_, quiet)| heard.is_some_and(|heard| quiet.since < heard)) {
            of.turn = remote;
        }
    }
    /// A connection is not silent. If it was, the ones whose turn it is now.
    pub(super) fn leave(&mut self, Whose { flow, side, remote }: Whose) -> Option<Vec<FlowId>> {
        let of = self.sides.get_mut(&side)?;
        let quiet = of.addresses.get_mut(&remote)?;
        quiet.flows.remove(&flow)?;
        let mut next = quiet.prober();
        if next.is_none() {
            of.addresses.remove(&remote);
            next = onwards(&of.addresses, of.turn).next().and_then(|(_, quiet)| quiet.prober());
        }
        if of.addresses.is_empty() {
            self.sides.remove(&side);
        }
        Some(next.into_iter().collect())
    }
    /// Whether a connection is the one that tries: of a side that is out one of one address, of a side that is heard one of each address
    /// that is not.
    pub(super) fn tries(&self, now: Instant, Whose { flow, side, remote }: Whose, probe: Span) -> bool {
        let Some(of) = self.sides.get(&side) else { return false };
        let Some(quiet) = of.addresses.get(&remote).filter(|quiet| quiet.prober() == Some(flow)) else { return false };
        let is_out = self.quiet_for(now, side) >= probe;
        (is_out || now.since(quiet.heard) >= probe) && of.has_turn(is_out, remote)
    }
    /// One has tried in vain: the next has its turn, at its address and, where not all addresses try at once, of its side. Returns whose.
    pub(super) fn pass_on(&mut self, now: Instant, Whose { flow, side, remote }: Whose, probe: Span) -> Vec<FlowId> {
        let (is_out, heard) = (self.quiet_for(now, side) >= probe, self.heard.get(&side).copied());
        let Some(of) = self.sides.get_mut(&side) else { return Vec::new() };
        let has_turn = of.has_turn(is_out, remote);
        let Some(quiet) = of.addresses.get_mut(&remote).filter(|quiet| quiet.prober() == Some(flow)) else {
            return Vec::new();
        };
        quiet.turn = after(&quiet.flows, flow, |since| *since >= quiet.heard);
        let mut next: Vec<FlowId> = quiet.prober().into_iter().collect();
        if !has_turn {
            return next;
        }
        if is_out {
            of.turn = after(&of.addresses, remote, |quiet| heard.is_none_or(|heard| quiet.since >= heard));
            next.extend(onwards(&of.addresses, of.turn).next().and_then(|(_, quiet)| quiet.prober()));
        } else if of.addresses.len() > PROBED_MAX {
            let mut all = onwards(&of.addresses, of.turn);
            let entering = all.clone().nth(PROBED_MAX).and_then(|(_, quiet)| quiet.prober());
            of.turn = all.nth(1).map_or(of.turn, |(address, _)| *address);
            next.extend(entering);
        }
        next
    }
    /// Those that have their turn while the side is heard.
    pub(super) fn probers(&self, side: usize) -> Vec<FlowId> {
        let of = self.sides.get(&side).into_iter();
        of.flat_map(|of| onwards(&of.addresses, of.turn).take(PROBED_MAX))
            .filter_map(|(_, quiet)| quiet.prober())
            .collect()
    }
    /// A segment came from an address. Silent connections whose outage that may end, with how long it was: those that fell silent when the side
    /// did, and those of the address; and whether the side was out. Nothing if neither was.
    pub(super) fn hear(&mut self, now: Instant, side: usize, remote: IpAddr) -> Option<(Vec<(FlowId, Span)>, bool)> {
        let before = self.heard.insert(side, now);
        let of = self.sides.get_mut(&side)?;
        let of_side = before.map_or(Span::MAX, |before| now.since(before));
        let own = of.addresses.get_mut(&remote).map(|quiet| now.since(std::mem::replace(&mut quiet.heard, now)));
        let of_address = own.unwrap_or(Span::ZERO);
        // Of those heard all the time none is out: a connection that does not answer is gone by itself. However many those are, that
        // costs two comparisons.
        if of_side.max(of_address) < PROBE_LEAST {
            return None;
        }
        let flows =
            of.addresses.iter().flat_map(|(address, quiet)| quiet.flows.iter().map(move |flow| (address, flow)));
        // Whoever was silent while others of the side were heard is out for another reason.
        let out_for = |address: &IpAddr, since: Instant| {
            let with_side = if before.is_none_or(|before| since >= before) { of_side } else { Span::ZERO };
            if *address == remote { with_side.max(of_address) } else { with_side }
        };
        let flows = flows.map(|(address, (flow, since))| (*flow, out_for(address, *since)));
        Some((flows.filter(|(_, out)| *out >= PROBE_LEAST).collect(), of_side >= PROBE_LEAST))
    }
    /// Any side may be heard again: all that are silent, whose outage may begin anew with this.
    pub(super) fn call_back(&mut self, now: Instant) -> Vec<FlowId> {
        let mut all = Vec::new();
        for (side, of) in &mut self.sides {
            self.heard.insert(*side, now);
            for quiet in of.addresses.values_mut() {
                let heard = std::mem::replace(&mut quiet.heard, now);
                quiet.flows.values_mut().filter(|since| **since >= heard).for_each(|since| *since = now);
                quiet.since = quiet.flows.values().copied().max().unwrap_or(now);
                all.extend(quiet.flows.keys());
            }
        }
        all
    }
}
