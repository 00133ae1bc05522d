//! The receiving end: drops duplicates, reassembles pieces, keeps order per flow for as long as its sender asks.

use super::headers::KeptHeaders;
use super::seen::Taken;
use super::terms::HOLD_MAX;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wavelane_base::RangeSet;
use wavelane_base::{Instant, Span, Wakeup};
use wavelane_wire::frame::{CompressedFrame, Order, PacketFrame};

/// Most packets being put together.
const PARTS_MAX: usize = 256;
/// Most packets held for order.
const HELD_MAX: usize = 16_384;
/// Pieces wait this long for the rest of their packet: longer than any retransmission takes.
const PARTS_AGE: Span = Span::from_secs(3);
/// Most separate stretches of one packet.
const STRETCHES_MAX: usize = 64;

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverLimits {
    /// Bytes of packets incomplete, held or not yet taken by the owner.
    pub octets: usize,
    /// Longest packet.
    pub packet: usize,
}

/// What the receiver did; all only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverCounters {
    /// Packets complete and new.
    pub received: u64,
    /// Frames of packets, or bytes of them, that had already arrived.
    pub duplicates: u64,
    /// Packets held for an earlier one.
    pub held: u64,
    /// Of these, released because the earlier one did not arrive in time.
    pub hold_expired: u64,
    /// Incomplete packets given up.
    pub dropped_incomplete: u64,
    /// Packets dropped because the pool was full.
    pub dropped_full: u64,
    /// Frames whose lengths contradict each other or a limit.
    pub dropped_malformed: u64,
    /// Frames told by a packet that is not here, or that make no packet.
    pub dropped_headers: u64,
}

#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    have: RangeSet,
    until: Instant,
}

#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    after: u64,
    until: Instant,
}

/// See the module's description.
#[derive(Debug)]
pub struct Receiver {
    limits: ReceiverLimits,
    seen: Taken,
    pub(super) headers: KeptHeaders,
    parts: BTreeMap<u64, Part>,
    held: BTreeMap<u64, Held>,
    /// (the packet that is waited for, the packet that waits).
    waits: BTreeSet<(u64, u64)>,
    /// (when to give up, packet), of both parts and held ones.
    deadlines: BTreeSet<(Instant, u64)>,
    out: VecDeque<Vec<u8>>,
    octets: usize,
    counters: ReceiverCounters,
}

impl Receiver {
    /// A receiver that has received nothing.
    pub fn new(limits: ReceiverLimits) -> Self {
        Self {
            limits,
            seen: Taken::default(),
            headers: KeptHeaders::default(),
            parts: BTreeMap::new(),
            held: BTreeMap::new(),
            waits: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            out: VecDeque::new(),
            octets: 0,
            counters: ReceiverCounters::default(),
        }
    }

    /// The neighbour restarts its numbering: held packets are released, incomplete ones are lost.
    pub fn restart(&mut self) {
        self.parts.values().for_each(|part| self.octets -= part.bytes.len());
        self.counters.dropped_incomplete += self.parts.len() as u64;
        self.parts.clear();
        self.deadlines.clear();
        self.waits.clear();
        self.out.extend(std::mem::take(&mut self.held).into_values().map(|held| held.bytes));
        self.seen = Taken::default();
        self.headers = KeptHeaders::default();
    }

    /// What it did so far.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }
    /// Bytes that wait, for whatever reason.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// A frame arrived.
    pub fn handle(&mut self, now: Instant, frame: &PacketFrame<'_>) {
        let total = frame.piece.map_or(frame.bytes.len(), |(_, total)| total.into());
        if total > self.limits.packet {
            self.counters.dropped_malformed += 1;
            return;
        }
        // Also of a packet that a retransmission brought before: the ack that tells of this transmission lets later ones be told by it.
        if frame.keep && frame.piece.is_none() {
            self.headers.keep(frame.number, frame.bytes);
        }
        if self.seen.contains(frame.number) {
            self.counters.duplicates += 1;
        } else if let Some((offset, total)) = frame.piece {
            self.assemble(now, frame, offset.into(), total.into());
        } else {
            self.drop_part(frame.number);
            self.complete(now, frame.number, frame.order, frame.bytes.to_vec());
        }
    }

    /// A frame arrived that is told by an earlier packet.
    pub fn handle_compressed(&mut self, now: Instant, frame: &CompressedFrame<'_>) {
        let Some((number, base)) = self.headers.find(frame) else {
            self.counters.dropped_headers += 1;
            return;
        };
        let behind_none = frame.order.is_some_and(|order| order.back > number);
        match base.apply(&frame.changes, frame.payload) {
            Some(bytes) if bytes.len() <= self.limits.packet && !behind_none => {
                if frame.keep {
                    self.headers.keep(number, &bytes);
                }
                if self.seen.contains(number) {
                    self.counters.duplicates += 1;
                    return;
                }
                self.drop_part(number);
                self.complete(now, number, frame.order, bytes);
            }
            _ => self.counters.dropped_headers += 1,
        }
    }

    fn assemble(&mut self, now: Instant, frame: &PacketFrame<'_>, offset: usize, total: usize) {
        if !self.parts.contains_key(&frame.number) {
            if self.octets + total > self.limits.octets {
                self.counters.dropped_full += 1;
                return;
            }
            if self.parts.len() >= PARTS_MAX
                && let Some(oldest) = self.parts.iter().min_by_key(|(_, part)| part.until).map(|(n, _)| *n)
            {
                self.counters.dropped_incomplete += 1;
                self.drop_part(oldest);
            }
            let until = now + PARTS_AGE;
            self.octets += total;
            self.deadlines.insert((until, frame.number));
            self.parts.insert(frame.number, Part { bytes: vec![0; total], have: RangeSet::default(), until });
        }
        let Some(part) = self.parts.get_mut(&frame.number) else { return };
        if part.bytes.len() != total {
            self.counters.dropped_malformed += 1;
            return;
        }
        let (start, end) = (offset, offset + frame.bytes.len());
        let news = part.have.gaps(start as u64, end as u64);
        if news.is_empty() {
            self.counters.duplicates += 1;
            return;
        }
        // Bytes already received stay as they are: overlapping pieces cannot overwrite them.
        for (s, e) in news.into_iter().map(|(s, e)| (s as usize, e as usize)) {
            part.bytes[s..e].copy_from_slice(&frame.bytes[s - start..e - start]);
        }
        part.have.insert(start as u64, end as u64);
        if part.have.count() > STRETCHES_MAX {
            self.counters.dropped_incomplete += 1;
            self.drop_part(frame.number);
        } else if part.have.total() == total as u64
            && let Some(part) = self.drop_part(frame.number)
        {
            self.complete(now, frame.number, frame.order, part.bytes);
        }
    }

    fn drop_part(&mut self, number: u64) -> Option<Part> {
        let part = self.parts.remove(&number)?;
        self.octets -= part.bytes.len();
        self.deadlines.remove(&(part.until, number));
        Some(part)
    }

    /// A packet is whole and new.
    fn complete(&mut self, now: Instant, number: u64, order: Option<Order>, bytes: Vec<u8>) {
        self.seen.insert(number);
        if self.octets + bytes.len() > self.limits.octets {
            self.counters.dropped_full += 1;
            self.release_followers(number);
            return;
        }
        self.counters.received += 1;
        self.octets += bytes.len();
        let hold = order.map_or(Span::ZERO, |order| Span::from_millis(order.hold_ms).min(HOLD_MAX));
        match order.map(|order| number - order.back) {
            Some(after) if hold > Span::ZERO && self.held.len() < HELD_MAX && !self.is_settled(after) => {
                let until = now + hold;
                self.counters.held += 1;
                self.waits.insert((after, number));
                self.deadlines.insert((until, number));
                self.held.insert(number, Held { bytes, after, until });
            }
            _ => {
                self.out.push_back(bytes);
                self.release_followers(number);
            }
        }
    }

    /// Whether a packet was released, or is too old to be waited for.
    fn is_settled(&self, number: u64) -> bool {
        self.seen.contains(number) && !self.held.contains_key(&number)
    }

    /// Releases what waits for `number`, and what waits for that, in order.
    fn release_followers(&mut self, number: u64) {
        let mut next = VecDeque::from([number]);
        while let Some(number) = next.pop_front() {
            while let Some(&(_, waiting)) = self.waits.range((number, 0)..=(number, u64::MAX)).next() {
                self.let_go(waiting);
                next.push_back(waiting);
            }
        }
    }

    fn let_go(&mut self, number: u64) {
        let Some(held) = self.held.remove(&number) else { return };
        self.waits.remove(&(held.after, number));
        self.deadlines.remove(&(held.until, number));
        self.out.push_back(held.bytes);
    }

    /// The next packet for the owner.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        let bytes = self.out.pop_front()?;
        self.octets -= bytes.len();
        Some(bytes)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(_, number)) = self.deadlines.first().filter(|deadline| deadline.0 <= now) {
            if self.held.contains_key(&number) {
                self.counters.hold_expired += 1;
                self.let_go(number);
                self.release_followers(number);
            } else {
                self.counters.dropped_incomplete += 1;
                self.drop_part(number);
            }
        }
    }

    /// When [`Self::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        self.deadlines.first().map(|deadline| Wakeup { at: deadline.0, cause: "packets held or incomplete" })
    }
}
