//! Connection attempts whose SYN is held, or was released, until the far server has answered.
//!
//! Bounded three ways, so that a flood towards a black hole costs others nothing: per (source, target) pair new SYNs are dropped,
//! before they cost the link anything; per source its own oldest attempt is evicted; and when the whole table is full, new SYNs
//! to the target with the most attempts are dropped, and its oldest attempt is evicted for those to other targets.

use crate::syn::Syn;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{FlowId, Instant, Span};

/// Longest a SYN is held; its retransmission, which comes after one second, and after two more, takes its place (RFC 6298,
/// section 2). So one is available to be forwarded plainly when the peer turns out to be down.
pub(crate) const HOLD: Span = Span::from_secs(4);
/// An attempt is given up this long after its last SYN, or later if the next one is due later ...
const PATIENCE: Span = Span::from_secs(20);
/// An answered attempt waits this long for the application's SYN, or as long as that may take, or for its handshake's end.
const COMPLETION: Span = Span::from_secs(10);
/// ... since each SYN comes twice as long after the one before as that did, the second after a second (RFC 6298, section 5.5): as long after
/// the last as that was after the first, this much more, and some jitter.
const SYN_FIRST: Span = Span::from_secs(2);
/// The longest such wait.
const SYN_APART_MAX: Span = Span::from_secs(66);

/// The bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Attempts altogether.
    pub total: usize,
    /// Attempts of one source address.
    pub per_source: usize,
    /// Attempts of one source address at one target address.
    pub per_pair: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { total: 2_048, per_source: 512, per_pair: 256 }
    }
}

/// Who connects where.
pub(crate) type Key = (SocketAddr, SocketAddr);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The far side has been asked.
    Asked,
    /// It accepted and no SYN waits: the next one is forwarded at once.
    Answered,
    /// It accepted and a SYN was forwarded: the listener will see the connection.
    Admitted,
}

#[derive(Debug)]
struct Attempt<H, A> {
    flow: FlowId,
    asked: A,
    syn: Syn,
    held: Option<(H, Instant)>,
    stage: Stage,
    /// The far side reset the flow, after bytes that are still to come.
    ending: bool,
    /// When the stage began or the last SYN arrived.
    since: Instant,
    begun: Instant,
    order: u64,
}

impl<H, A> Attempt<H, A> {
    /// How long it may stay as it is.
    fn patience(&self) -> Span {
        let next_syn = (self.since.since(self.begun) + SYN_FIRST).min(SYN_APART_MAX);
        match self.stage {
            Stage::Asked => PATIENCE.max(next_syn),
            Stage::Answered => COMPLETION.max(next_syn),
            Stage::Admitted => COMPLETION,
        }
    }
}

/// What to do with a SYN that arrived.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Arrival<H> {
    /// It is new: open a flow and call [`Attempts::begin`] with it, or refuse.
    New(H),
    /// It joins an existing attempt; this packet, the older one or one with another number, is discarded.
    Joined(Option<H>),
    /// The far side has already answered: forward it.
    GoOn(H),
    /// The pair has too many attempts: discard it.
    PairFull(H),
    /// The table is full and no target has more attempts than this one: discard it.
    TableFull(H),
}

/// An attempt that ended; its flow is reset by the caller, its SYN discarded.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Ended<H> {
    /// The flow that was asked for.
    pub(crate) flow: FlowId,
    /// Its SYN, if still held.
    pub(crate) held: Option<H>,
    /// Why.
    pub(crate) cause: Cause,
}

/// Why an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Its source has too many.
    SourceFull,
    /// The table is full and its target has the most.
    TableFull,
    /// It was not completed in time.
    Abandoned,
}

/// The table. `H` is the handle of a held packet; `A` is kept with each attempt and names the peer that was asked, because the
/// routes may have changed when the answer arrives.
#[derive(Debug)]
pub(crate) struct Attempts<H, A = ()> {
    limits: Limits,
    by_key: BTreeMap<Key, Attempt<H, A>>,
    by_flow: BTreeMap<FlowId, Key>,
    /// Oldest first, per source and per target.
    sources: BTreeMap<IpAddr, BTreeSet<(u64, Key)>>,
    targets: BTreeMap<IpAddr, BTreeSet<(u64, Key)>>,
    next_order: u64,
}

impl<H, A> Attempts<H, A> {
    /// An empty table.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            by_key: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            sources: BTreeMap::new(),
            targets: BTreeMap::new(),
            next_order: 0,
        }
    }
    /// Number of attempts.
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }
    /// A SYN arrived and waits as `held`.
    pub(crate) fn arrive(&mut self, now: Instant, syn: Syn, held: H) -> Arrival<H> {
        if let Some(attempt) = self.by_key.get_mut(&(syn.source, syn.target)) {
            if attempt.stage == Stage::Asked && attempt.held.is_some() && !syn.repeats(&attempt.syn) {
                // Perhaps forged: who sent the first would not know the answer. It has its chance once that is held no more.
                return Arrival::Joined(Some(held));
            }
            attempt.syn = syn;
            attempt.since = now;
            if attempt.stage == Stage::Asked {
                return Arrival::Joined(attempt.held.replace((held, now)).map(|(h, _)| h));
            }
            attempt.stage = Stage::Admitted;
            return Arrival::GoOn(held);
        }
        let same_target = |set: &BTreeSet<(u64, Key)>| set.iter().filter(|(_, k)| k.1.ip() == syn.target.ip()).count();
        let of_pair = self.sources.get(&syn.source.ip()).map_or(0, same_target);
        let of_target = self.targets.get(&syn.target.ip()).map_or(0, BTreeSet::len);
        if of_pair >= self.limits.per_pair {
            Arrival::PairFull(held)
        } else if self.by_key.len() >= self.limits.total && of_target >= self.busiest().map_or(0, BTreeSet::len) {
            Arrival::TableFull(held)
        } else {
            Arrival::New(held)
        }
    }
    /// The attempts to the target that has the most.
    fn busiest(&self) -> Option<&BTreeSet<(u64, Key)>> {
        self.targets.values().max_by_key(|set| set.len())
    }
    /// The far side, `asked`, was asked about a new SYN. Returns the attempts evicted for it.
    pub(crate) fn begin(&mut self, now: Instant, syn: Syn, flow: FlowId, asked: A, held: H) -> Vec<Ended<H>> {
        let mut ended = Vec::new();
        if let Some(set) = self.sources.get(&syn.source.ip()).filter(|s| s.len() >= self.limits.per_source) {
            let oldest = set.first().map(|(_, key)| *key);
            ended.extend(oldest.and_then(|key| self.end(key, Cause::SourceFull)));
        }
        if self.by_key.len() >= self.limits.total {
            let oldest = self.busiest().and_then(|set| set.first()).map(|(_, key)| *key);
            ended.extend(oldest.and_then(|key| self.end(key, Cause::TableFull)));
        }
        let (key, order) = ((syn.source, syn.target), self.next_order);
        self.next_order += 1;
        let held = Some((held, now));
        let attempt =
            Attempt { flow, asked, syn, held, stage: Stage::Asked, ending: false, since: now, begun: now, order };
        self.by_key.insert(key, attempt);
        self.by_flow.insert(flow, key);
        self.sources.entry(syn.source.ip()).or_default().insert((order, key));
        self.targets.entry(syn.target.ip()).or_default().insert((order, key));
        ended
    }
    /// The far server answered. `None`: not ours. `Some(Some(held))`: forward that SYN.
    pub(crate) fn answered(&mut self, now: Instant, flow: FlowId) -> Option<Option<H>> {
        let attempt = self.by_flow.get(&flow).and_then(|key| self.by_key.get_mut(key))?;
        let held = attempt.held.take().map(|(h, _)| h);
        attempt.stage = if held.is_some() { Stage::Admitted } else { Stage::Answered };
        attempt.since = now;
        Some(held)
    }
    /// The far side refused, or the flow ended. The SYN to answer, the peer that was asked, and the packet to discard.
    pub(crate) fn refused(&mut self, flow: FlowId) -> Option<(Syn, A, Option<H>)> {
        let key = *self.by_flow.get(&flow)?;
        self.remove(key).map(|a| (a.syn, a.asked, a.held.map(|(h, _)| h)))
    }
    /// The flow ends once its last bytes are read. Returns whether it is an attempt's.
    pub(crate) fn ending(&mut self, flow: FlowId) -> bool {
        let attempt = self.by_flow.get(&flow).and_then(|key| self.by_key.get_mut(key));
        attempt.map(|attempt| attempt.ending = true).is_some()
    }
    /// The flow of an attempt whose connection the listener may see.
    pub(crate) fn admitted(&self, source: SocketAddr, target: SocketAddr) -> Option<FlowId> {
        self.by_key.get(&(source, target)).filter(|a| a.stage == Stage::Admitted).map(|a| a.flow)
    }
    /// The listener saw the connection: its flow, the peer that was asked for it, and whether the flow is ending.
    pub(crate) fn take(&mut self, source: SocketAddr, target: SocketAddr) -> Option<(FlowId, A, bool)> {
        self.admitted(source, target)?;
        self.remove((source, target)).map(|a| (a.flow, a.asked, a.ending))
    }
    /// Time has passed: SYNs held too long, and attempts given up.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<H>, Vec<Ended<H>>) {
        let (mut overdue, mut dead) = (Vec::new(), Vec::new());
        for (key, attempt) in &mut self.by_key {
            if attempt.held.as_ref().is_some_and(|(_, since)| now.since(*since) >= HOLD) {
                overdue.extend(attempt.held.take().map(|(h, _)| h));
            }
            if now.since(attempt.since) >= attempt.patience() {
                dead.push(*key);
            }
        }
        let ended = dead.into_iter().filter_map(|key| self.end(key, Cause::Abandoned)).collect();
        (overdue, ended)
    }
    /// Ends those of which it is asked, by source and target.
    pub(crate) fn drain(&mut self, which: impl Fn(SocketAddr, SocketAddr) -> bool) -> Vec<Ended<H>> {
        let keys: Vec<Key> = self.by_key.keys().filter(|key| which(key.0, key.1)).copied().collect();
        keys.into_iter().filter_map(|key| self.end(key, Cause::Abandoned)).collect()
    }
    fn end(&mut self, key: Key, cause: Cause) -> Option<Ended<H>> {
        self.remove(key).map(|a| Ended { flow: a.flow, held: a.held.map(|(h, _)| h), cause })
    }
    fn remove(&mut self, key: Key) -> Option<Attempt<H, A>> {
        let attempt = self.by_key.remove(&key)?;
        self.by_flow.remove(&attempt.flow);
        for (index, ip) in [(&mut self.sources, key.0.ip()), (&mut self.targets, key.1.ip())] {
            if let Some(set) = index.get_mut(&ip) {
                set.remove(&(attempt.order, key));
                if set.is_empty() {
                    index.remove(&ip);
                }
            }
        }
        Some(attempt)
    }
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
