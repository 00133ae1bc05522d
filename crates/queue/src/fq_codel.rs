//! Flow queues under CoDel, served by deficit round robin, new flows first (RFC 8290); and, where [`super::Cake`] asks for
//! it, with fewer collisions and with host fairness.

use super::codel::Law;
use super::fifo::Fifo;
use super::{AGE_MAX, Counters, Limits, Loss, Lost, Popped, Queued, Terms, UNLIMITED};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::Instant;

/// Sub-queues (RFC 8290, section 5.2.3).
const BUCKETS: usize = 1_024;
/// Octets a flow may send per turn (RFC 8290, section 5.2.4).
const QUANTUM: i64 = 1_514;
/// Most items dropped from the fattest flow at once (RFC 8290, section 5.2.9, "drop batch").
const DROP_BATCH: usize = 64;
/// A flow with a backlog of at most this is exempt from the age limit: with fewer than four packets a transport detects a
/// loss only by its RTO (RFC 5681, section 3.2: three duplicate acknowledgements).
const KEPT_MIN: usize = 4 * 1_514;

/// Sub-queues of a set in which a flow looks for an empty one if its own is in use by another flow (Høiland-Jørgensen and
/// others, "Piece of CAKE", LANMAN 2018, section III.B).
const WAYS: usize = 8;

/// The list that a bucket is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Listed {
    #[default]
    Nowhere,
    New,
    Old,
}

#[derive(Debug)]
struct Bucket<T> {
    fifo: Fifo<T>,
    law: Law,
    deficit: i64,
    listed: Listed,
    /// The flow it belongs to while it is listed.
    flow: u64,
    /// The hosts for which it counts as a busy flow.
    counted: Option<(u64, u64)>,
    /// Remainder of a turn's division, carried to the next.
    rest: i64,
}

/// Number of flows per host that have used up a turn, as source and as destination (same paper, section III.A).
#[derive(Debug, Default)]
struct Hosts {
    from: BTreeMap<u64, i64>,
    to: BTreeMap<u64, i64>,
}

impl Hosts {
    /// The number of flows that share a turn with this one: those of its busier host.
    fn load(&self, (from, to): (u64, u64)) -> i64 {
        let of = |map: &BTreeMap<u64, i64>, host| map.get(&host).copied().unwrap_or(0);
        of(&self.from, from).max(of(&self.to, to)).max(1)
    }
    fn count(&mut self, (from, to): (u64, u64), by: i64) {
        for (map, host) in [(&mut self.from, from), (&mut self.to, to)] {
            // Zero stands for an unknown host.
            if host != 0 {
                let flows = map.entry(host).or_default();
                *flows += by;
                if *flows <= 0 {
                    map.remove(&host);
                }
            }
        }
    }
}

impl<T: Queued> Bucket<T> {
    /// The quantum of one turn.
    fn quantum(&mut self, hosts: Option<&Hosts>, of: (u64, u64)) -> i64 {
        let Some(hosts) = hosts else { return QUANTUM };
        let load = hosts.load(of);
        let whole = QUANTUM + self.rest;
        // At least an octet, so that every turn makes progress.
        let share = (whole / load).max(1);
        self.rest = (whole - share * load).max(0);
        share
    }
    /// Its first item's hosts.
    fn hosts(&self) -> (u64, u64) {
        self.fifo.first().map_or((0, 0), Queued::hosts)
    }
}

/// The scheduler and its buckets, which are made when the first item comes.
#[derive(Debug)]
pub struct FqCoDel<T> {
    buckets: Vec<Bucket<T>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// `None` as RFC 8290.
    hosts: Option<Hosts>,
    items: usize,
    octets: usize,
    pub(super) limits: Limits,
    /// When a flow with a larger backlog was last served, and since when that has continued without a pause.
    served: Option<(Instant, Instant)>,
    pub(super) terms: Terms,
    pub(super) counters: Counters,
}

impl<T: Queued> Bucket<T> {
    /// Drops items from the head that have waited too long, counted from `since`, the start of uninterrupted service.
    fn drop_old(&mut self, now: Instant, since: Instant, terms: Terms, lost: Lost<'_, T>) -> u64 {
        if terms.age == UNLIMITED {
            return 0;
        }
        let heeds = self.fifo.first().is_some_and(Queued::heeds_drops);
        let age = match self.law.is_deaf(now, terms) {
            true => AGE_MAX,
            false if heeds => return 0,
            false => terms.age,
        };
        let mut dropped = 0;
        while self.fifo.octets() > KEPT_MIN && self.fifo.oldest().is_some_and(|at| now.since(at.max(since)) > age) {
            if let Some(old) = self.fifo.take(now) {
                lost(old.item, Loss::Age);
            }
            dropped += 1;
        }
        dropped
    }
}

impl<T: Queued> FqCoDel<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            buckets: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            hosts: None,
            items: 0,
            octets: 0,
            limits,
            served: None,
            terms: Terms::default(),
            counters: Counters::default(),
        }
    }

    /// One with host fairness and set-associative hashing of flows.
    pub(super) fn with_hosts(limits: Limits) -> Self {
        Self { hosts: Some(Hosts::default()), ..Self::new(limits) }
    }

    /// The sub-queue of a flow: its own; one of the seven others of its set that it already uses or that is free; or else a
    /// shared one.
    fn index_of(&self, flow: u64) -> usize {
        let own = (flow % BUCKETS as u64) as usize;
        if self.hosts.is_none() {
            return own;
        }
        let set = (0..WAYS).map(|way| own / WAYS * WAYS + (own + way) % WAYS);
        let (mut free, mut its) = (None, None);
        for index in set {
            let bucket = &self.buckets[index];
            if bucket.listed == Listed::Nowhere {
                free = free.or(Some(index));
            } else if bucket.flow == flow {
                its = its.or(Some(index));
            }
        }
        its.or(free).unwrap_or(own)
    }

    pub(super) fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        self.counters.pushed += 1;
        if item.octets() > self.limits.octets || self.limits.items == 0 {
            self.counters.dropped_full += 1;
            return lost(item, Loss::Full);
        }
        if self.buckets.is_empty() {
            let empty = || Bucket {
                fifo: Fifo::new(Limits::OF_THE_WHOLE),
                law: Law::default(),
                deficit: 0,
                listed: Listed::Nowhere,
                flow: 0,
                counted: None,
                rest: 0,
            };
            self.buckets.resize_with(BUCKETS, empty);
        }
        let (flow, hosts) = (item.flow(), item.hosts());
        let index = self.index_of(flow);
        self.items += 1;
        self.octets += item.octets();
        let bucket = &mut self.buckets[index];
        if let Some(covered) = bucket.fifo.take_covered(&item) {
            self.items -= 1;
            self.octets -= covered.octets();
            self.counters.covered += 1;
        }
        bucket.fifo.push(now, item, &mut |_, _| {});
        if bucket.listed == Listed::Nowhere {
            bucket.listed = Listed::New;
            bucket.flow = flow;
            bucket.deficit = bucket.quantum(self.hosts.as_ref(), hosts);
            self.new.push_back(index);
        }
        while self.items > self.limits.items || self.octets > self.limits.octets {
            self.drop_from_fattest(now, lost);
        }
    }

    /// Drops from the head of the flow with the largest backlog, up to half of its octets (RFC 8290, section 4.1).
    pub(super) fn drop_from_fattest(&mut self, now: Instant, lost: Lost<'_, T>) {
        let listed = self.new.iter().chain(&self.old);
        let Some(fattest) = listed.copied().max_by_key(|index| self.buckets[*index].fifo.octets()) else { return };
        let fifo = &mut self.buckets[fattest].fifo;
        let keep = fifo.octets() / 2;
        for _ in 0..DROP_BATCH {
            let Some(dropped) = fifo.take(now) else { break };
            self.items -= 1;
            self.octets -= dropped.item.octets();
            self.counters.dropped_full += 1;
            lost(dropped.item, Loss::Full);
            if fifo.octets() <= keep {
                break;
            }
        }
    }

    pub(super) fn pop(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let bucket = &mut self.buckets[index];
            if bucket.deficit <= 0 {
                let of = bucket.counted.unwrap_or(bucket.hosts());
                if let Some(hosts) = self.hosts.as_mut().filter(|_| bucket.counted.is_none() && bucket.fifo.len() > 0) {
                    hosts.count(of, 1);
                    bucket.counted = Some(of);
                }
                bucket.deficit += bucket.quantum(self.hosts.as_ref(), of);
                bucket.listed = Listed::Old;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let since = match self.served {
                Some((last, since)) if now.since(last) <= self.terms.pause => since,
                _ => now,
            };
            let (items, octets) = (bucket.fifo.len(), bucket.fifo.octets());
            self.counters.dropped_age += bucket.drop_old(now, since, self.terms, lost);
            let popped = bucket.law.pop(now, self.terms, &mut bucket.fifo, &mut self.counters, lost);
            self.items -= items - bucket.fifo.len();
            self.octets -= octets - bucket.fifo.octets();
            let Some(popped) = popped else {
                list.pop_front();
                // A new flow that runs empty waits for its next turn among the old ones, or it could starve them by sending
                // one item at a time (RFC 8290, section 4.2).
                if from_new && !self.old.is_empty() {
                    bucket.listed = Listed::Old;
                    self.old.push_back(index);
                } else {
                    bucket.listed = Listed::Nowhere;
                }
                if let (Some(hosts), Some(of)) = (&mut self.hosts, bucket.counted.take()) {
                    hosts.count(of, -1);
                }
                continue;
            };
            bucket.deficit -= popped.item.octets() as i64;
            if !from_new || bucket.fifo.len() > 0 {
                self.served = Some((now, since));
            }
            self.counters.popped += 1;
            return Some(popped);
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.items);
        for index in self.new.drain(..).chain(self.old.drain(..)) {
            let bucket = &mut self.buckets[index];
            bucket.listed = Listed::Nowhere;
            bucket.counted = None;
            bucket.law.emptied();
            all.extend(bucket.fifo.take_all());
        }
        self.items = 0;
        self.octets = 0;
        self.hosts = self.hosts.is_some().then(Hosts::default);
        self.counters.popped += all.len() as u64;
        all
    }

    /// See [`super::Queue::sparse_head`].
    pub(super) fn sparse_head(&self) -> Option<&T> {
        // Buckets that are empty or have used up their turn leave the list at the next pop.
        let mut sparse = self.new.iter().map(|index| &self.buckets[*index]).filter(|bucket| bucket.deficit > 0);
        sparse.find_map(|bucket| bucket.fifo.first())
    }
    /// Whether more waits than sparse flows' turns, each begun by an item of at most `small` octets.
    pub(super) fn has_beyond_sparse(&self, small: usize) -> bool {
        let begins_small = |bucket: &&Bucket<T>| bucket.fifo.first().is_some_and(|first| first.octets() <= small);
        let sparse = self.new.iter().map(|index| &self.buckets[*index]).filter(|bucket| bucket.deficit > 0);
        let turn = |bucket: &Bucket<T>| bucket.fifo.octets().min(usize::try_from(bucket.deficit).unwrap_or(0));
        self.octets > sparse.filter(begins_small).map(turn).sum()
    }
    /// Octets of the flow with the largest backlog.
    pub(super) fn fattest(&self) -> usize {
        self.new.iter().chain(&self.old).map(|index| self.buckets[*index].fifo.octets()).max().unwrap_or(0)
    }

    pub(super) fn len(&self) -> usize {
        self.items
    }
    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}
