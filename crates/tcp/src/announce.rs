//! The window that the receiver announces, and how it grows (dynamic right-sizing).

use super::receive::Receiver;
use wavelane_base::{Instant, Span};

/// Our timestamps' unit.
const STAMP_UNIT: Span = Span::from_millis(1);

impl Receiver {
    /// Where the right edge would be if announced now (RFC 9293, section 3.8.6.2.2: it moves by a segment or half the
    /// buffer, or not at all).
    pub(super) fn next_edge(&self) -> u64 {
        let limit = self.most();
        let room = limit.saturating_sub(self.readable());
        let most = if self.shift == 0 { u64::from(u16::MAX) } else { u64::from(u16::MAX) << self.shift };
        let unit = (1u64 << self.shift) - 1;
        let edge = self.next + ((room as u64).min(most) & !unit);
        let step = self.mss.min(limit / 2).max(1) as u64;
        if edge >= self.edge + step { edge } else { self.edge.max(self.next) }
    }
    /// Announces a window and returns it, in bytes.
    pub(super) fn announce(&mut self) -> u64 {
        if self.frozen {
            return 0;
        }
        let edge = self.next_edge();
        if edge > self.edge {
            self.edge = edge;
            self.vouch();
        }
        edge - self.next
    }

    /// The window of a SYN, which is never scaled.
    pub(super) fn announce_first(&mut self) -> u64 {
        let window = (self.most() as u64).min(u64::from(u16::MAX));
        self.edge = self.edge.max(self.next + window);
        self.vouch();
        window
    }

    /// How far out-of-order data reaches beyond the next expected position.
    pub(super) fn waits(&self) -> usize {
        self.stretches.last().map_or(0, |(_, end)| end - self.next) as usize
    }

    /// `echo`, the timestamp of one of our acknowledgements, was echoed with data after `rtt`. A pure receiver has no other
    /// RTT samples after the handshake, and a queue on the path increases the RTT. A lower sample replaces the estimate, a
    /// higher one has a weight of one eighth (Linux: `tcp_rcv_rtt_update` in net/ipv4/tcp_input.c); the minimum is the
    /// clock's unit.
    pub(super) fn note_round_trip(&mut self, echo: u32, rtt: Span, octets: usize) {
        if echo == self.round_trip.1 || octets < self.mss / 2 {
            return;
        }
        let rtt = rtt.max(STAMP_UNIT);
        let known = self.round_trip.0.filter(|known| rtt > *known);
        self.round_trip = (Some(known.map_or(rtt, |known| known.scale(7, 8) + rtt.scale(1, 8))), echo);
    }

    /// The window doubles after a round trip in which the application read half of it, and follows the most read in one
    /// round trip (Linux's `tcp_rcvbuf_grow`).
    pub(super) fn widen(&mut self, now: Instant, rtt: Option<Span>, n: usize) {
        self.measured.1 += n;
        // Without an RTT sample, reading a whole window is assumed to take at least one round trip.
        let over = match self.round_trip.0.or(rtt) {
            Some(rtt) => now.since(self.measured.0) >= rtt,
            None => self.measured.1 >= self.limit,
        };
        if over {
            let (taken, before) = (self.measured.1, self.per_round);
            let mut limit = if taken >= self.limit / 2 { 2 * self.limit } else { self.limit };
            if taken > before {
                // Twice what was read, as that figure is a round trip old, plus the growth of a sender in slow start
                // meanwhile.
                let growth = (4 * taken as u128 * (taken - before) as u128 / before.max(1) as u128) as usize;
                limit = limit.max((2 * taken).saturating_add(growth).saturating_add(self.waits()));
                self.per_round = taken;
            }
            self.limit = limit.min(self.buffer);
            self.measured = (now, 0);
        }
    }
}
