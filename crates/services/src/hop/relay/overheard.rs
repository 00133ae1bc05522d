//! Bytes that the neighbour overheard on a shared medium before we forward them: it reports what it heard, and gets the digests of those bytes instead
//! of the bytes. `docs/protocol/hop.md`, "Overheard bytes".
//!
//! Only the bytes of flows that their edges seal are ever left open for others to hear. A digest comes from our own neighbour, in its session, so
//! it does not matter who sent what was overheard.

use super::super::Hop;
use super::super::flow::Flow;
use super::super::incoming::Incoming;
use super::super::types::HopEvent;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span};
use wavelane_transport::Digest;
use wavelane_wire::Writer;
use wavelane_wire::datagram::SHORT_DIGEST_LEN;
use wavelane_wire::frame::{FlowName, Frame, HEARD_MAX};

/// A digest in a report.
pub(in crate::hop) type Short = [u8; SHORT_DIGEST_LEN];

/// A report waits at most this long for more: two bursts of 8 ms.
const REPORT_DELAY: Span = Span::from_millis(20);
/// Bytes wait at most this long for the report that they were heard: its delay, and the medium's for a few turns of others.
pub(in crate::hop) const HOLD: Span = Span::from_millis(100);
/// After a report the neighbour is expected to report for this long.
const LISTENS_FOR: Span = Span::from_secs(1);
/// After this many stretches of a flow in a row that waited and were not heard, its bytes wait no more ...
const MISSES_MAX: u32 = 64;
/// ... for this long; then a few are tried.
const REST: Span = Span::from_secs(10);
/// How many are tried.
const TRIES: u32 = 8;
/// Most stretches that wait to be forwarded with a digest known: 5 MB of full datagrams. The newest stay: nobody keeps for long what it heard, so
/// those of a flow that stands still are of no use.
const STRETCHES_MAX: usize = 4_096;
/// Most digests that wait to be reported.
const QUEUED_MAX: usize = 16 * HEARD_MAX;
/// Most digests remembered that were reported before we had the bytes: the neighbour heard a transmission that we lost.
const EARLY_MAX: usize = 256;
/// Shortest stretch left open: its report and the digest sent instead take 40 octets.
pub const OPEN_MIN: u64 = 256;

/// What a link knows of overhearing.
#[derive(Debug, Default)]
pub(in crate::hop) struct Overheard {
    /// Flows that their edges seal, of those in the table.
    pub(in crate::hop) sealed: usize,
    /// What we heard of the neighbour's and of whom: at most [`QUEUED_MAX`], of each at most [`HEARD_MAX`].
    heard: VecDeque<(u64, Short)>,
    report_at: Option<Instant>,
    due: bool,
    /// Where stretches with these digests begin, and the order in which they became known; at most [`STRETCHES_MAX`].
    known: BTreeMap<Short, (FlowName, u64, u64)>,
    order: BTreeMap<u64, Short>,
    turns: u64,
    /// Reported and not known yet, at most [`EARLY_MAX`].
    early: VecDeque<Short>,
    listens_until: Option<Instant>,
}

impl Overheard {
    pub(in crate::hop) fn is_due(&self) -> bool {
        self.due
    }
    pub(in crate::hop) fn deadline(&self) -> Option<Instant> {
        self.report_at
    }
    pub(in crate::hop) fn tick(&mut self, now: Instant) {
        if self.report_at.is_some_and(|at| at <= now) {
            self.report_at = None;
            self.due = true;
        }
    }
    /// These stretches are not to be forwarded any more.
    pub(in crate::hop) fn forget(&mut self, digests: &[Short]) {
        for (_, _, turn) in digests.iter().filter_map(|key| self.known.remove(key)) {
            self.order.remove(&turn);
        }
    }
    fn know(&mut self, key: Short, name: FlowName, offset: u64) {
        self.turns += 1;
        self.known.insert(key, (name, offset, self.turns));
        self.order.insert(self.turns, key);
    }
    /// Digests to report, known, and reported early.
    #[cfg(test)]
    pub(in crate::hop) fn sizes(&self) -> [usize; 3] {
        [self.heard.len(), self.known.len(), self.early.len()]
    }
    /// Reports what fits of what was heard. `false` if something is due and nothing fits.
    pub(in crate::hop) fn write(&mut self, w: &mut Writer<'_>) -> bool {
        // Type and length take two octets each.
        let fits = (w.room().saturating_sub(4) / SHORT_DIGEST_LEN).min(self.heard.len()).min(HEARD_MAX);
        let digests: Vec<Short> = self.heard.iter().take(fits).map(|(_, digest)| *digest).collect();
        if fits > 0 && (Frame::Heard { digests: digests.as_flattened() }).emit(w).is_ok() {
            self.heard.drain(..fits);
        } else {
            return !self.due;
        }
        self.report_at = None;
        // Others wait for the next datagram.
        self.due = !self.heard.is_empty();
        true
    }
}

fn short(digest: &Digest) -> Short {
    let mut out = [0; SHORT_DIGEST_LEN];
    out.copy_from_slice(&digest[..SHORT_DIGEST_LEN]);
    out
}

/// Bytes to be forwarded whose digest is known.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    len: u64,
    digest: Digest,
    /// The order of their arrival.
    turn: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Held back until then.
    Waits(Instant),
    /// To be sent.
    Goes,
    /// The neighbour has them.
    Heard,
}

/// See [`Stretches`].
#[derive(Debug, Default)]
struct Known {
    /// By their first byte; none overlap.
    all: BTreeMap<u64, Stretch>,
    /// The first that waits.
    held_from: Option<u64>,
    turns: u64,
    misses: u32,
    /// Since when none wait.
    rested_at: Option<Instant>,
}

impl Known {
    /// New bytes from here on wait.
    fn held_from(&self) -> u64 {
        self.held_from.unwrap_or(u64::MAX)
    }
    fn deadline(&self) -> Option<Instant> {
        match self.all.get(&self.held_from?)?.state {
            State::Waits(until) => Some(until),
            State::Goes | State::Heard => None,
        }
    }
    fn tick(&mut self, now: Instant) {
        while self.deadline().is_some_and(|until| until <= now) {
            self.let_go(self.held_from());
        }
    }
    /// Whether bytes wait for reports.
    fn waits(&mut self, now: Instant) -> bool {
        if self.misses < MISSES_MAX {
            return true;
        }
        let rested = now.since(*self.rested_at.get_or_insert(now)) >= REST;
        if rested {
            self.misses = MISSES_MAX - TRIES;
            self.rested_at = None;
        }
        rested
    }
    /// Adds a stretch, unless it overlaps another.
    fn add(&mut self, offset: u64, len: u64, digest: Digest, state: State) -> bool {
        let end = offset + len;
        let overlaps = self.all.range(..end).next_back().is_some_and(|(at, other)| at + other.len > offset);
        if overlaps {
            return false;
        }
        self.turns += 1;
        self.all.insert(offset, Stretch { len, digest, turn: self.turns, state });
        if matches!(state, State::Waits(_)) {
            self.held_from = Some(self.held_from().min(offset));
        }
        true
    }
    /// Marks a stretch as heard. Returns the order of its arrival.
    fn heard(&mut self, offset: u64) -> Option<u64> {
        let stretch = self.all.get_mut(&offset)?;
        stretch.state = State::Heard;
        let turn = stretch.turn;
        self.misses = 0;
        self.move_on();
        Some(turn)
    }
    /// Stretches that arrived before the one of that turn and were not reported with it were not heard.
    fn pass_over(&mut self, turn: u64) {
        while let Some(at) = self.held_from.filter(|at| self.all.get(at).is_some_and(|held| held.turn < turn)) {
            self.let_go(at);
        }
    }
    fn let_go(&mut self, offset: u64) {
        if let Some(stretch) = self.all.get_mut(&offset) {
            stretch.state = State::Goes;
            // One that did not wait says nothing: its report may have come too late.
            self.misses = self.misses.saturating_add(1);
        }
        self.move_on();
    }
    /// Finds the first stretch that waits, from the last one on.
    fn move_on(&mut self) {
        let Some(from) = self.held_from else { return };
        let waits = |(_, stretch): &(&u64, &Stretch)| matches!(stretch.state, State::Waits(_));
        self.held_from = self.all.range(from..).find(waits).map(|(at, _)| *at);
    }
    /// The stretch that begins here, if the neighbour has it.
    fn at(&self, offset: u64) -> Option<(u64, Digest)> {
        self.all.get(&offset).filter(|stretch| stretch.state == State::Heard).map(|found| (found.len, found.digest))
    }
    /// Where the next one that it has begins, within `start..end`; else `end`.
    fn next_heard(&self, start: u64, end: u64) -> u64 {
        let mut within = self.all.range(start + 1..end.max(start + 1));
        within.find(|(_, stretch)| stretch.state == State::Heard).map_or(end, |(at, _)| *at)
    }
    /// The stretch that begins here is sent as it is.
    fn forget(&mut self, offset: u64) {
        self.all.remove(&offset);
        self.move_on();
    }
    /// Everything below `end` was sent. Returns the digests of what is forgotten by that.
    fn sent(&mut self, end: u64) -> Vec<Short> {
        let mut gone = Vec::new();
        while let Some((&at, &stretch)) = self.all.first_key_value().filter(|(at, _)| **at < end) {
            self.all.remove(&at);
            gone.push(short(&stretch.digest));
        }
        if self.held_from.is_some_and(|at| at < end) {
            self.held_from = Some(end);
            self.move_on();
        }
        gone
    }
}

/// The stretches of a direction whose digests are known and that were not sent yet. Most directions have none, and take no memory for them.
#[derive(Debug, Default)]
pub(in crate::hop) struct Stretches(Option<Box<Known>>);

impl Stretches {
    fn known(&mut self) -> &mut Known {
        self.0.get_or_insert_default()
    }
    /// New bytes from here on wait.
    pub(in crate::hop) fn held_from(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |known| known.held_from())
    }
    pub(in crate::hop) fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.deadline()
    }
    pub(in crate::hop) fn tick(&mut self, now: Instant) {
        if let Some(known) = &mut self.0 {
            known.tick(now);
        }
    }
    /// The stretch that begins here, if the neighbour has it.
    pub(in crate::hop) fn at(&self, offset: u64) -> Option<(u64, Digest)> {
        self.0.as_ref()?.at(offset)
    }
    /// Where the next one that it has begins, within `start..end`; else `end`.
    pub(in crate::hop) fn next_heard(&self, start: u64, end: u64) -> u64 {
        self.0.as_ref().map_or(end, |known| known.next_heard(start, end))
    }
    /// Everything below `end` was sent. Returns the digests of what is forgotten by that.
    pub(in crate::hop) fn sent(&mut self, end: u64) -> Vec<Short> {
        self.0.as_mut().map_or_else(Vec::new, |known| known.sent(end))
    }
}

impl Flow {
    /// Whether its edges seal it, so that its bytes may be overheard.
    pub(in crate::hop) fn is_sealed(&self) -> bool {
        self.passage.is_some_and(|passage| passage.seal.is_some())
    }
    /// Whether its bytes are left open: where no relay lies between the edges nobody else forwards them.
    pub(in crate::hop) fn may_be_open(&self) -> bool {
        self.is_sealed() && self.across.is_some()
    }
}

impl Hop {
    /// Whether bytes for the neighbour that are overheard may be of use to us: it relays sealed flows to or from here.
    pub fn has_sealed_flows(&self) -> bool {
        self.relay.overheard.sealed > 0
    }

    /// We overheard and keep open octets of a datagram of `sender` for the neighbour, which is told.
    pub fn note_heard(&mut self, now: Instant, sender: u64, digest: &Digest) {
        let overheard = &mut self.relay.overheard;
        // One that is heard more often than reports can leave does not crowd out others.
        let of_sender = overheard.heard.iter().filter(|(of, _)| *of == sender).count();
        if overheard.heard.len() >= QUEUED_MAX || of_sender >= HEARD_MAX {
            return;
        }
        overheard.heard.push_back((sender, short(digest)));
        if overheard.heard.len() >= HEARD_MAX {
            overheard.report_at = None;
            overheard.due = true;
        } else if !overheard.due && overheard.report_at.is_none() {
            overheard.report_at = Some(now + REPORT_DELAY);
        }
    }

    /// Data of the peer was open.
    pub(crate) fn note_open(&mut self, frame: &Frame<'_>, digest: Digest) {
        let Frame::Data { flow, offset, bytes } = frame else { return };
        let (name, len) = (flow.from_other_side(), bytes.len() as u64);
        if len < OPEN_MIN {
            // Nobody keeps it.
            return;
        }
        // Of what was dropped, beyond the credit for instance, nothing is remembered.
        let holds = |inc: &Incoming| {
            let end = offset.saturating_add(len);
            inc.cumulative() >= end || inc.held().gaps(*offset, end).is_empty()
        };
        if self.flows.get(&name).is_some_and(|flow| flow.may_be_open() && holds(&flow.inc)) {
            self.events.push_back(HopEvent::Open(name, (*offset, len), digest));
        }
    }

    /// The bytes of a flow to be forwarded here came openly over a shared medium: the neighbour may have overheard them. Ignored once any of
    /// them were sent.
    pub fn know_digest(&mut self, now: Instant, name: FlowName, (offset, len): (u64, u64), digest: Digest) {
        let overheard = &mut self.relay.overheard;
        let Some(flow) = self.flows.get_mut(&name).filter(|flow| flow.may_be_open()) else { return };
        let key = short(&digest);
        if offset < flow.out.sent_so_far() || overheard.known.contains_key(&key) {
            return;
        }
        let early = overheard.early.iter().position(|other| *other == key);
        let listens = overheard.listens_until.is_some_and(|until| now < until);
        let stretches = flow.out.stretches_known.known();
        let state = match early {
            Some(place) => {
                overheard.early.remove(place);
                State::Heard
            }
            None if listens && stretches.waits(now) => State::Waits(now + HOLD),
            None => State::Goes,
        };
        if stretches.add(offset, len, digest, state) {
            overheard.know(key, name, offset);
        }
        self.settle(name);
        if self.relay.overheard.known.len() > STRETCHES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, key)) = self.relay.overheard.order.pop_first() else { return };
        let Some((name, offset, _)) = self.relay.overheard.known.remove(&key) else { return };
        if let Some(flow) = self.flows.get_mut(&name) {
            flow.out.stretches_known.known().forget(offset);
        }
        self.settle(name);
    }

    /// The neighbour reports what it overheard.
    pub(in crate::hop) fn on_heard(&mut self, now: Instant, digests: &[u8]) {
        let overheard = &mut self.relay.overheard;
        overheard.listens_until = Some(now + LISTENS_FOR);
        let mut last: BTreeMap<FlowName, u64> = BTreeMap::new();
        for key in digests.as_chunks::<SHORT_DIGEST_LEN>().0 {
            let Some(&(name, offset, _)) = overheard.known.get(key) else {
                if overheard.early.len() >= EARLY_MAX {
                    overheard.early.pop_front();
                }
                overheard.early.push_back(*key);
                continue;
            };
            let stretches = self.flows.get_mut(&name).map(|flow| flow.out.stretches_known.known());
            if let Some(turn) = stretches.and_then(|stretches| stretches.heard(offset)) {
                let last = last.entry(name).or_default();
                *last = turn.max(*last);
            }
        }
        for (name, turn) in last {
            if let Some(flow) = self.flows.get_mut(&name) {
                flow.out.stretches_known.known().pass_over(turn);
            }
            self.settle(name);
        }
    }

    /// Everything of a direction below `end` was sent.
    pub(in crate::hop) fn forget_digests(&mut self, name: FlowName, end: u64) {
        let Some(flow) = self.flows.get_mut(&name) else { return };
        self.relay.overheard.forget(&flow.out.stretches_known.sent(end));
    }

    /// The neighbour sends a digest instead of bytes that we reported. Reply with [`Hop::take_overheard`].
    pub(in crate::hop) fn on_digest(&mut self, name: FlowName, offset: u64, len: u64, digest: Digest) {
        if self.flows.get(&name).is_some_and(Flow::may_be_open) {
            self.events.push_back(HopEvent::ByDigest(name, offset, len, digest));
        }
    }

    /// The bytes that the neighbour named by a digest, as if it had sent them.
    pub fn take_overheard(&mut self, now: Instant, name: FlowName, offset: u64, bytes: &[u8]) {
        self.counters.overheard_octets += bytes.len() as u64;
        self.on_data(now, name, offset, bytes);
    }
}
