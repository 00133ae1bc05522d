//! Which packets have headers at both ends, so that later ones can be told by what differs: at the sending end those that a lane ack
//! shows to have arrived, so that loss never leaves the ends with different ones.

use super::Piece;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span};
use wavelane_wire::frame::{AHEAD_MAX, CompressedFrame, Order};
use wavelane_wire::packet::Headers;

/// Packets that the sending end may tell others by, newest.
const SENT_MAX: usize = 256;
/// The receiving end keeps twice as many, of numbers within [`SPAN_MAX`] of the highest: what comes late still finds the packet that it is told by.
const KEPT_MAX: usize = 2 * SENT_MAX;
/// Of numbers closer than this the low 16 bits differ.
const SPAN_MAX: u64 = 1 << 15;
/// A packet of each flow goes whole at least so often: should the other end not have what it was sent, it has that soon. Policy.
const WHOLE_EVERY: Span = Span::from_secs(8);

/// A packet that the other end is asked to keep.
#[derive(Debug)]
struct Sent {
    number: u64,
    /// The place of its flow in the sender's memory.
    flow: usize,
    headers: Headers,
    /// When the last one went whole of those by which it was told, or itself.
    whole_at: Instant,
    arrived: bool,
}

/// The sending end's.
#[derive(Debug, Default)]
pub(super) struct SentHeaders {
    /// By number.
    sent: VecDeque<Sent>,
}

/// How a packet is sent.
#[derive(Debug)]
pub(super) enum Told<'a> {
    /// As it is; the other end shall keep it, or need not.
    Whole { keep: bool },
    /// By what differs.
    Compressed(CompressedFrame<'a>),
}

impl SentHeaders {
    /// How packet `number` of the flow at `flow` is told. What it is told by, if it is to be kept, is for [`Self::wrote`].
    pub(super) fn tell<'a>(
        &self,
        now: Instant,
        (number, flow): (u64, usize),
        order: Option<Order>,
        bytes: &'a [u8],
        may_keep: bool,
    ) -> (Told<'a>, Instant) {
        let mut of_flow = self.sent.iter().rev().filter(|sent| sent.flow == flow);
        // One at a time is on its way: another one would be told by the same.
        let keep = may_keep && of_flow.clone().next().is_none_or(|newest| newest.arrived);
        let near = |sent: &Sent| number.checked_sub(sent.number).is_some_and(|ahead| (1..=AHEAD_MAX).contains(&ahead));
        let base = of_flow.find(|sent| sent.arrived && near(sent) && now.since(sent.whole_at) < WHOLE_EVERY);
        // In time for the next one.
        let base = base.filter(|base| !keep || now.since(base.whole_at) < WHOLE_EVERY.scale(1, 2));
        let changed = base.and_then(|base| Some((base, base.headers.changes_to(bytes)?)));
        match changed {
            Some((base, (changes, len))) => {
                let (low, ahead) = (base.number as u16, number - base.number);
                let frame = CompressedFrame { base: low, ahead, keep, order, changes, payload: &bytes[len..] };
                (Told::Compressed(frame), base.whole_at)
            }
            None => (Told::Whole { keep: keep && Headers::of(bytes).is_some() }, now),
        }
    }

    /// The packet was sent and is to be kept.
    pub(super) fn wrote(&mut self, number: u64, flow: usize, bytes: &[u8], whole_at: Instant) {
        let Some(headers) = Headers::of(bytes) else { return };
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        let at = self.sent.partition_point(|sent| sent.number < number);
        self.sent.insert(at, Sent { number, flow, headers, whole_at, arrived: false });
    }

    /// A transmission of a packet arrived, or is lost. Only the first one said that the packet is to be kept.
    pub(super) fn fate(&mut self, piece: Piece, arrived: bool) {
        let Ok(at) = self.sent.binary_search_by_key(&piece.number, |sent| sent.number) else { return };
        if piece.round > 0 || piece.copy {
            return;
        }
        if arrived {
            self.sent[at].arrived = true;
        } else {
            self.sent.remove(at);
        }
    }

    /// The other end begins anew.
    pub(super) fn restart(&mut self) {
        self.sent.clear();
    }
}

/// The receiving end's.
#[derive(Debug, Default)]
pub(super) struct KeptHeaders {
    kept: BTreeMap<u64, Headers>,
}

impl KeptHeaders {
    /// Keeps those of packet `number`.
    pub(super) fn keep(&mut self, number: u64, packet: &[u8]) {
        let highest = self.kept.last_key_value().map_or(0, |(highest, _)| *highest).max(number);
        if highest - number >= SPAN_MAX {
            return;
        }
        let Some(headers) = Headers::of(packet) else { return };
        self.kept.insert(number, headers);
        while self.kept.len() > KEPT_MAX || self.kept.keys().next().is_some_and(|oldest| highest - oldest >= SPAN_MAX) {
            self.kept.pop_first();
        }
    }

    /// The number of a packet, and the packet that it is told by.
    pub(super) fn find(&self, frame: &CompressedFrame<'_>) -> Option<(u64, &Headers)> {
        let (highest, _) = self.kept.last_key_value()?;
        let below = (*highest as u16).wrapping_sub(frame.base);
        let base = highest.checked_sub(below.into())?;
        Some((base.checked_add(frame.ahead)?, self.kept.get(&base)?))
    }
}
