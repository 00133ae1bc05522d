//! Repair symbols on one lane: which datagrams are protected, when symbols are sent, and what happens to lost datagrams while symbols that
//! may restore them are in flight.
//!
//! Protected is what cannot wait a round trip for its retransmit: the end of a stretch after which there is nothing more to send, packets
//! of the media class, and in mid-flow of bulk any retransmit, because everything behind it has waited for a round trip.
//! `docs/decisions/0014-one-repair-budget.md` says why the rest of bulk in mid-flow is not.

use crate::PathView;
use crate::fec::{Encoder, LENGTH_LEN, REPAIRS_MAX, Repair, repairs_for};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span, Wakeup};
use wavelane_wire::frame::repair_head_max;

/// Most datagrams that one symbol covers, and widest span of their numbers.
const COVERED_MAX: usize = 64;
/// Octets that a protected datagram leaves free, so that a symbol over it also fits a datagram.
pub(super) const RESERVE: usize = repair_head_max(COVERED_MAX) + LENGTH_LEN;
/// Most symbols planned.
const PLAN_MAX: usize = 48;
/// Probability that the symbols for a stretch's end do not suffice, if losses are independent ...
const FAILURE_END: f64 = 0.02;
/// ... and for those of a media stretch, whose next symbols follow soon and cover it as well.
const FAILURE_MEDIA: f64 = 0.05;
/// Media are gathered for at most this long before their symbols are sent: lost media are restored this much later.
const GATHER: Span = Span::from_millis(10);
/// Most media datagrams in a stretch, and the widest span of numbers: symbols must still cover all of it.
const GATHERED_MAX: usize = 24;
/// See [`GATHERED_MAX`].
const GATHERED_SPAN: u64 = COVERED_MAX as u64 / 2;
/// Symbols over retransmits in mid-flow may cost about this share of the lane ...
const REPEATS_SHARE: f64 = 0.02;
/// ... at this many datagrams per retransmit: the room that a protected datagram leaves free moves the retransmit's end to the next ...
const PER_REPEAT: usize = 2;
/// ... and pay off while the loss is no higher than this: above it, so few symbols restore too little.
const REPEATS_LOSS_MAX: f64 = 0.08;
/// Below this loss, so few retransmits are lost again that hardly a byte waits for them.
const REPEATS_LOSS_MIN: f64 = 0.03;
/// The loss must have been in this range for this long: losses caused by a start or a policer are not the medium's loss.
const REPEATS_SETTLED: Span = Span::from_secs(2);
/// Symbols that exceed the budget are tried again after this time, over more datagrams.
const RETRY: Span = Span::from_millis(5);
/// Loss bursts of at least this length lose a stretch together with its symbols: then retransmits are just as good.
const BURSTY: Span = Span::from_millis(4);
/// A lost datagram waits at least this long for symbols to restore it before it is retransmitted ...
const PATIENCE_MIN: Span = Span::from_millis(5);
/// ... and media wait for the symbols of two more stretches.
pub(super) const PATIENCE_MEDIA: Span = Span::from_millis(30);

/// The fate of protected datagrams; all only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuardCounters {
    pub(super) protected: u64,
    pub(super) symbols: u64,
    pub(super) symbol_octets: u64,
    /// Lost, and restored by symbols.
    pub(super) repaired: u64,
    /// Lost, and not restored.
    pub(super) unrepaired: u64,
}

/// Media datagrams that wait for their symbols.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    first: u64,
    count: usize,
    until: Instant,
}

/// Why a datagram is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// There will be nothing more to send soon.
    Ends,
    /// It carries media.
    Media,
    /// It begins with a retransmit.
    Repeats,
}

/// Retransmits in mid-flow that wait for their symbol.
#[derive(Clone, Copy, Debug)]
struct Repeats {
    first: u64,
    at: Instant,
    count: usize,
}

/// Whether losses come in bursts, so that symbols would be lost together with what they cover.
pub(super) fn is_bursty(burst: Option<Span>) -> bool {
    burst.is_some_and(|burst| burst >= BURSTY)
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Guard<L> {
    encoder: Encoder,
    /// Datagrams at stretch ends protected since symbols were last planned.
    fresh: usize,
    /// The media stretch that is being gathered.
    gathered: Option<Gathered>,
    repeats: Option<Repeats>,
    /// Since when the loss has been in the range in which retransmits are worth protecting.
    settled_from: Option<Instant>,
    /// Datagrams of the media stretches whose symbols are planned.
    planned_media: usize,
    /// When the next symbols are to be sent.
    plan: VecDeque<Instant>,
    /// Symbols in flight, whose fate is unknown.
    flying: usize,
    /// Lost datagrams that a symbol may restore, and until when they wait for it.
    parked: BTreeMap<u64, (Instant, L)>,
    counters: GuardCounters,
}

impl<L> Default for Guard<L> {
    fn default() -> Self {
        Self {
            encoder: Encoder::new(COVERED_MAX),
            fresh: 0,
            gathered: None,
            repeats: None,
            settled_from: None,
            planned_media: 0,
            plan: VecDeque::new(),
            flying: 0,
            parked: BTreeMap::new(),
            counters: GuardCounters::default(),
        }
    }
}

impl<L> Guard<L> {
    pub(super) fn counters(&self) -> GuardCounters {
        self.counters
    }

    /// Datagram `number` was sent and is protected.
    pub(super) fn protect(&mut self, now: Instant, number: u64, plaintext: &[u8], why: Why) {
        self.encoder.push(number, plaintext);
        self.counters.protected += 1;
        if why == Why::Ends {
            self.fresh += 1;
            return;
        }
        if why == Why::Repeats {
            self.repeats.get_or_insert(Repeats { first: number, at: now, count: 0 }).count += 1;
            return;
        }
        let gathered = self.gathered.get_or_insert(Gathered { first: number, count: 0, until: now + GATHER });
        gathered.count += 1;
        if gathered.count >= GATHERED_MAX || number - gathered.first >= GATHERED_SPAN {
            gathered.until = now;
        }
    }

    /// Whether retransmits in mid-flow are protected: only if a few symbols restore most of them.
    pub(super) fn protects_repeats(&mut self, now: Instant, path: &PathView) -> bool {
        let single = path.burst.is_some_and(|burst| burst < BURSTY);
        if !single || !(REPEATS_LOSS_MIN..=REPEATS_LOSS_MAX).contains(&path.loss) {
            self.settled_from = None;
            return false;
        }
        now.since(*self.settled_from.get_or_insert(now)) >= REPEATS_SETTLED
    }

    /// Datagram `number` was sent in mid-flow: a symbol follows after enough retransmits, or once the first of them has waited.
    pub(super) fn went_on(&mut self, now: Instant, number: u64, path: &PathView) {
        let Some(repeats) = self.repeats else { return };
        let enough = (path.loss / REPEATS_SHARE).ceil().max(1.0) as usize * PER_REPEAT;
        let waited = number - repeats.first >= GATHERED_SPAN || now.since(repeats.at) >= path.rtt.scale(1, 4);
        if repeats.count >= enough || waited {
            self.repeats = None;
            if self.plan.len() < PLAN_MAX {
                self.plan.push_back(now);
            }
        }
    }

    /// No more data waits to be sent: symbols are planned for what was protected since the last ones.
    pub(super) fn stretch_ended(&mut self, now: Instant, path: &PathView) {
        let repeats = self.repeats.take().map_or(0, |repeats| repeats.count);
        let fresh = (core::mem::take(&mut self.fresh) + repeats).min(self.encoder.len());
        if fresh == 0 || is_bursty(path.burst) {
            return;
        }
        // What exceeds the limit on symbols is left to retransmits, oldest first.
        while repairs_for(self.encoder.len(), path.loss, FAILURE_END) >= REPAIRS_MAX {
            self.encoder.keep_newest(self.encoder.len() - 1);
        }
        self.plan(now, fresh.min(self.encoder.len()), path.loss, FAILURE_END);
    }

    /// Plans symbols for media that were gathered for long enough.
    pub(super) fn end_gathered(&mut self, now: Instant, path: &PathView) {
        let Some(gathered) = self.gathered.filter(|gathered| gathered.until <= now) else { return };
        self.gathered = None;
        if !is_bursty(path.burst) {
            self.planned_media += gathered.count;
            self.plan(now, gathered.count.min(self.encoder.len()), path.loss, FAILURE_MEDIA);
        }
    }

    fn plan(&mut self, now: Instant, datagrams: usize, loss: f64, failure: f64) {
        let wanted = repairs_for(datagrams, loss, failure).min(PLAN_MAX.saturating_sub(self.plan.len()));
        self.plan.extend(core::iter::repeat_n(now, wanted));
    }

    /// Whether a symbol is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.encoder.is_empty() && self.plan.front().is_some_and(|at| *at <= now)
    }

    /// Octets of the next symbol's frame.
    pub(super) fn frame_len(&self) -> usize {
        repair_head_max(COVERED_MAX) + self.encoder.symbol_len()
    }

    /// The symbol that is due.
    pub(super) fn take_symbol(&mut self) -> Option<Repair> {
        self.plan.pop_front();
        if self.plan.is_empty() {
            self.planned_media = 0;
        }
        let repair = self.encoder.repair()?;
        self.flying += 1;
        self.counters.symbols += 1;
        self.counters.symbol_octets += repair.symbol.len() as u64;
        Some(repair)
    }

    /// The symbols that are due no longer fit a datagram.
    pub(super) fn drop_plan(&mut self) {
        self.plan.clear();
        self.planned_media = 0;
    }

    /// The symbols that are due exceed the budget. Stretch ends are left to retransmits; media wait for fewer symbols over more.
    pub(super) fn postpone(&mut self, now: Instant) {
        let count = core::mem::take(&mut self.planned_media).min(self.encoder.len());
        self.plan.clear();
        if let (true, Some(first)) = (count > 0, self.encoder.first()) {
            let (until, more) = (now + RETRY, self.gathered.map_or(0, |gathered| gathered.count));
            self.gathered = Some(Gathered { first, count: (count + more).min(GATHERED_MAX - 1), until });
        }
    }

    /// The fate of a symbol became known. It restored what it could before that.
    pub(super) fn symbol_settled(&mut self) {
        self.flying = self.flying.saturating_sub(1);
    }

    /// A protected datagram arrived.
    pub(super) fn arrived(&mut self, number: u64) {
        self.encoder.forget(number);
        if self.encoder.is_empty() {
            self.plan.clear();
        }
    }

    /// A protected datagram was lost. Returns the load to be retransmitted at once, if any.
    pub(super) fn lost(&mut self, now: Instant, (number, why): (u64, Why), load: L, rtt: Span) -> Option<L> {
        if self.encoder.covers(number) && (self.flying > 0 || !self.plan.is_empty()) {
            let patience = if why == Why::Media { PATIENCE_MEDIA } else { PATIENCE_MIN };
            self.parked.insert(number, (now + patience.max(rtt.scale(1, 8)), load));
            return None;
        }
        self.arrived(number);
        self.counters.unrepaired += 1;
        Some(load)
    }

    /// The neighbour rebuilt datagram `number` from symbols. Returns its load if it was taken for lost.
    pub(super) fn repaired(&mut self, number: u64) -> Option<L> {
        self.counters.repaired += 1;
        self.arrived(number);
        self.parked.remove(&number).map(|(_, load)| load)
    }

    /// The next lost datagram that waited long enough, or for which no symbol is in flight any more.
    pub(super) fn poll_given_up(&mut self, now: Instant) -> Option<L> {
        let hopeless = self.flying == 0 && self.plan.is_empty();
        let (&number, _) = self.parked.iter().find(|(_, (until, _))| hopeless || *until <= now)?;
        let (_, load) = self.parked.remove(&number)?;
        self.arrived(number);
        self.counters.unrepaired += 1;
        Some(load)
    }

    /// All that waits for symbols, because none will come.
    pub(super) fn take_parked(&mut self) -> impl Iterator<Item = L> + use<L> {
        core::mem::take(&mut self.parked).into_values().map(|(_, load)| load)
    }

    /// When something will have waited long enough.
    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        let parked = self.parked.values().map(|(until, _)| *until).min();
        let parked = parked.map(|at| Wakeup { at, cause: "link: a lost datagram was not repaired" });
        let gathered = self.gathered.map(|gathered| gathered.until);
        Wakeup::earliest(parked, gathered.map(|at| Wakeup { at, cause: "link: media get their repair symbols" }))
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
