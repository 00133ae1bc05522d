//! A packet kept until it is known to have arrived, and its transmissions in flight.

use super::{Repair, Treatment};
use wavelane_base::Instant;
use wavelane_base::RangeSet;
use wavelane_wire::frame::Order;

/// One packet.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) order: Option<Order>,
    pub(super) treatment: Treatment,
    /// The place of its flow in the sender's memory.
    pub(super) flow: usize,
    pub(super) first_sent: Instant,
    /// Retransmission rounds so far: the maximum over all its bytes.
    pub(super) rounds: u16,
    /// Bytes known to have arrived; empty while there are none, so that a packet in one piece costs no tree.
    have: RangeSet,
    flights: Vec<Flight>,
}

/// Some bytes in flight, perhaps several times.
#[derive(Clone, Copy, Debug)]
struct Flight {
    start: u32,
    end: u32,
    round: u16,
    /// Transmissions, written or planned, whose fate is not known.
    open: u8,
    /// Transmissions written.
    written: u8,
}

/// The result of one transmission's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrived {
    /// Every byte is there.
    pub(super) complete: bool,
    /// Spurious transmissions of later rounds.
    pub(super) needless: u64,
}

impl Kept {
    pub(super) fn new(now: Instant, bytes: Vec<u8>, order: Option<Order>, treatment: Treatment, flow: usize) -> Self {
        Self {
            bytes,
            order,
            treatment,
            flow,
            first_sent: now,
            rounds: 0,
            have: RangeSet::default(),
            flights: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.bytes.len() as u32
    }
    pub(super) fn is_kept(&self) -> bool {
        self.treatment.repair != Repair::None
    }

    /// `start..end` is going to be sent `copies` times as round `round`.
    pub(super) fn plan(&mut self, start: u32, end: u32, round: u16, copies: u8) {
        self.rounds = self.rounds.max(round);
        self.flights.push(Flight { start, end, round, open: copies, written: 0 });
    }

    /// `start..end` was sent; `planned` is where the transmission was meant to end.
    pub(super) fn wrote(&mut self, start: u32, end: u32, planned: u32, round: u16) {
        let exact = |f: &&mut Flight| f.start == start && f.end == planned && f.round == round;
        let Some(flight) = self.flights.iter_mut().find(exact) else { return };
        flight.written += 1;
        if end < planned {
            // Split: from now on two independent transmissions.
            let rest = Flight { start: end, end: planned, round, open: 1, written: 0 };
            *flight = Flight { end, open: 1, ..*flight };
            self.flights.push(rest);
        }
    }

    /// A transmission arrived.
    pub(super) fn delivered(&mut self, start: u32, end: u32, round: u16) -> Arrived {
        let covers = |f: &&Flight| f.round > round && f.start < end && start < f.end;
        let needless = self.flights.iter().filter(covers).map(|f| u64::from(f.written)).sum();
        if start == 0 && end == self.len() {
            return Arrived { complete: true, needless };
        }
        self.have.insert(start.into(), end.into());
        self.flights.retain(|f| !(f.start >= start && f.end <= end));
        Arrived { complete: self.have.total() == u64::from(self.len()), needless }
    }

    /// A transmission was lost. Returns whether its bytes are missing now: not arrived, and no other transmission in flight.
    pub(super) fn lost(&mut self, start: u32, end: u32, round: u16) -> bool {
        let exact = |f: &Flight| f.start == start && f.end == end && f.round == round;
        let Some(at) = self.flights.iter().position(exact) else { return false };
        self.flights[at].open = self.flights[at].open.saturating_sub(1);
        if self.flights[at].open > 0 {
            return false;
        }
        self.flights.swap_remove(at);
        !self.under_way(start, end)
    }

    fn under_way(&self, start: u32, end: u32) -> bool {
        self.flights.iter().any(|f| f.start <= start && end <= f.end)
    }

    /// The bytes that are not known to be there.
    pub(super) fn missing(&self) -> Vec<(u32, u32)> {
        self.have.gaps(0, self.len().into()).into_iter().map(|(s, e)| (s as u32, e as u32)).collect()
    }
    /// Whether `start..end` is known to be there.
    pub(super) fn has(&self, start: u32, end: u32) -> bool {
        self.have.gaps(start.into(), end.into()).is_empty()
    }
}
