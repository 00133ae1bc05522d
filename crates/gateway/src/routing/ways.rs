//! The ways to a target, and leaving one that leads nowhere for another.
//!
//! A neighbour is a way to a target if none has a longer matching route, or if a detour says so. The edge that opened a flow
//! moves it: it reopens it by another way, and the edges continue where the applications are. A relay cannot move a flow, because
//! it does not know how far the applications got. It ends the current way, which makes the opening edge ask again; a relay that
//! is asked takes the next of its own ways, and refuses if it has none.

use super::Net;
use crate::PeerId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wavelane_base::{Instant, Span, longest_match};

/// A neighbour that led nowhere is ranked after the others for this long.
const SHUNNED_FOR: Span = Span::from_secs(30);
/// If all others have failed it is asked again after this long: its own way may be back.
const SHUNNED_AGAIN: Span = Span::from_secs(10);
/// A neighbour on a way that a sealed flow's edges distrusted is ranked after the others for this long: longer than a flow
/// searches for a better way, or the search would start over.
const DISTRUSTED_FOR: Span = Span::from_secs(120);
/// Most marks of either kind that one upstream neighbour may cause; beyond it its oldest is forgotten.
const SHUNNED_MAX: usize = 1024;

/// A neighbour and the target it was used for.
type Towards = (PeerId, IpAddr);

/// Who asked: an upstream neighbour, or this edge (`None`).
type Upstream = Option<PeerId>;

/// Time-stamped marks on neighbours, caused by one upstream.
#[derive(Debug, Default)]
struct Pool {
    at: BTreeMap<Towards, Instant>,
    /// The same, oldest first.
    order: BTreeSet<(Instant, Towards)>,
}

impl Pool {
    fn set(&mut self, now: Instant, of: Towards) {
        if let Some(before) = self.at.insert(of, now) {
            self.order.remove(&(before, of));
        }
        self.order.insert((now, of));
        if self.at.len() > SHUNNED_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.at.remove(&oldest);
        }
    }
}

/// Marks count only for what the same upstream asks for, and each has a pool of its own: none draws another's flows to a way, nor
/// makes its marks forgotten.
#[derive(Debug, Default)]
struct Marks(BTreeMap<Upstream, Pool>);

impl Marks {
    fn set(&mut self, now: Instant, upstream: Upstream, of: Towards) {
        self.0.entry(upstream).or_default().set(now, of);
    }
    /// When it was, if that is no longer than `age` ago.
    fn get(&self, now: Instant, upstream: Upstream, of: Towards, age: Span) -> Option<Instant> {
        self.0.get(&upstream)?.at.get(&of).copied().filter(|at| now.since(*at) < age)
    }
    fn retain(&mut self, keep: impl Fn(Towards) -> bool) {
        for pool in self.0.values_mut() {
            pool.at.retain(|of, _| keep(*of));
            pool.order.retain(|(_, of)| keep(*of));
        }
    }
}

/// What was learnt about ways by using them.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// Neighbours that led nowhere.
    shunned: Marks,
    /// Neighbours that led to the target, but the flow's edges found that a relay fails or lies; they cannot know which one. It
    /// may be one before us: were these marks not kept per upstream neighbour, all nodes of a way would move to their next
    /// choices in step, and some combinations would never be tried.
    distrusted: Marks,
}

impl Ways {
    /// The routes or the neighbours' numbers changed.
    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
    /// Marks of ways to these targets are out of date.
    pub(super) fn forget(&mut self, outdated: impl Fn(IpAddr) -> bool) {
        self.shunned.retain(|(_, target)| !outdated(target));
        self.distrusted.retain(|(_, target)| !outdated(target));
    }
    /// A neighbour that was down is back: that may have been why it led nowhere.
    pub(super) fn returned(&mut self, peer: PeerId) {
        self.shunned.retain(|(of, _)| of != peer);
    }
    fn shunned_at(&self, now: Instant, upstream: Upstream, peer: PeerId, target: IpAddr) -> Option<Instant> {
        self.shunned.get(now, upstream, (peer, target), SHUNNED_FOR)
    }
    fn distrusted_at(&self, now: Instant, upstream: Upstream, peer: PeerId, target: IpAddr) -> Option<Instant> {
        self.distrusted.get(now, upstream, (peer, target), DISTRUSTED_FOR)
    }
}

impl Net {
    /// The neighbours that lead to `target`, best first: those of the longest matching prefix in configuration order, then
    /// detours. If a table decides, those that it names.
    pub(crate) fn ways_to(&self, upstream: Option<PeerId>, target: IpAddr) -> Vec<PeerId> {
        if self.peers.config().by_table {
            return self.ways_by_table(upstream, target);
        }
        let peers = || self.peers.config().peers.iter().enumerate().filter(|(i, _)| Some(PeerId(*i)) != upstream);
        let bits = |i: usize| longest_match(&self.peers.config().peers[i].routes, target);
        let longest = peers().filter_map(|(i, _)| bits(i)).max();
        let best = peers().filter(|(i, _)| longest.is_some() && bits(*i) == longest);
        let mut ways: Vec<PeerId> = best.map(|(i, _)| PeerId(i)).collect();
        let detours =
            self.peers.config().detours.iter().filter(|d| d.prefix.contains(target) && Some(d.peer) != upstream);
        let mut detours: Vec<(u32, PeerId)> = detours.map(|d| (d.metric, d.peer)).collect();
        detours.sort_unstable();
        for (_, peer) in detours {
            if !ways.contains(&peer) {
                ways.push(peer);
            }
        }
        ways
    }

    /// Whether a flow on one of these ways may change to another: now, or once the table names one.
    pub(crate) fn is_choice(&self, ways: &[PeerId]) -> bool {
        ways.len() > 1 || self.peers.config().by_table
    }

    /// The best neighbour towards `target` that is not down and has not failed recently.
    pub(crate) fn good_way(&self, now: Instant, upstream: Option<PeerId>, target: IpAddr) -> Option<PeerId> {
        self.leading(now, upstream, target)
            .find(|peer| self.routing.ways.distrusted_at(now, upstream, *peer, target).is_none())
    }

    /// The same, or else, of the neighbours that led there, the one distrusted the longest ago. So all combinations of the
    /// relays' choices are tried in turn, however many of them lead through the lying relay.
    pub(crate) fn next_way(&self, now: Instant, upstream: Option<PeerId>, target: IpAddr) -> Option<PeerId> {
        self.leading(now, upstream, target)
            .min_by_key(|peer| self.routing.ways.distrusted_at(now, upstream, *peer, target))
    }

    /// The best one that has not failed recently, or else, of all that are not down, the one that failed the longest ago, in
    /// whichever manner it failed last. One that led nowhere is reused only after a while, because ways that lead in a circle would
    /// keep the search busy, unless all led nowhere: they take turns then, too.
    pub(crate) fn any_way(&self, now: Instant, upstream: Option<PeerId>, target: IpAddr) -> Option<PeerId> {
        let up = || self.ways_to(upstream, target).into_iter().filter(|peer| !self.peers.was_down(*peer));
        let shunned_at = |peer: &PeerId| self.routing.ways.shunned_at(now, upstream, *peer, target);
        let rested = |peer: &PeerId| shunned_at(peer).is_none_or(|at| now.since(at) >= SHUNNED_AGAIN);
        let failed_at =
            |peer: &PeerId| shunned_at(peer).max(self.routing.ways.distrusted_at(now, upstream, *peer, target));
        let best = self.good_way(now, upstream, target).or_else(|| up().filter(rested).min_by_key(failed_at));
        best.or_else(|| up().min_by_key(failed_at))
    }

    /// Neighbours that are not down and not recently marked as leading nowhere, best first.
    fn leading(&self, now: Instant, upstream: Option<PeerId>, target: IpAddr) -> impl Iterator<Item = PeerId> {
        let leads = move |peer: &PeerId| {
            !self.peers.was_down(*peer) && self.routing.ways.shunned_at(now, upstream, *peer, target).is_none()
        };
        self.ways_to(upstream, target).into_iter().filter(leads)
    }

    /// `peer` led nowhere with what `upstream` asked for.
    pub(crate) fn shun(&mut self, now: Instant, upstream: Upstream, peer: PeerId, target: IpAddr) {
        self.routing.ways.shunned.set(now, upstream, (peer, target));
    }

    /// `peer`, or a relay behind it, fails or lies. The egress itself is never distrusted, since it does not change what is meant
    /// for it.
    pub(crate) fn distrust_way(&mut self, now: Instant, upstream: Option<PeerId>, peer: PeerId, target: IpAddr) {
        if self.peers.config().egress_key(target) != Some(self.peers.peer(peer).public_key) {
            self.routing.ways.distrusted.set(now, upstream, (peer, target));
        }
    }
}
