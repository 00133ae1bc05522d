//! Connections of a capture, identified by their endpoints; reused endpoints start a new connection.

use super::half::{Half, Room, SegmentFate};
use super::packet::{Endpoint, Segment};
use std::collections::HashMap;
use wavelane_wire::tcp::Flags;

/// Maximum number of tracked connections; segments of further ones are only counted.
pub const CONNECTIONS_MAX: usize = 1 << 16;
/// Limit of segments in flight of all connections together, above which each keeps few.
const FLIGHT_TOTAL_MAX: usize = 4 << 20;
/// The same limit for TSvals waiting for their echo.
const WAITING_TOTAL_MAX: usize = 4 << 20;

/// How a connection began and ended, as far as the capture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completeness {
    /// SYN and FIN of both sides.
    Complete,
    /// A reset.
    Reset,
    /// Some part is missing.
    Incomplete,
}

impl Completeness {
    /// The name that tcptrace uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "yes",
            Self::Reset => "reset",
            Self::Incomplete => "no",
        }
    }
}

/// Position of a capture relative to a direction's sender and receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vantage {
    /// At the sender or within a tenth of the path.
    Sender,
    /// In between.
    Path,
    /// At the receiver.
    Receiver,
}

impl Vantage {
    /// Its name in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Path => "path",
            Self::Receiver => "receiver",
        }
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The sender of the first captured segment.
    pub a: Endpoint,
    /// The other.
    pub b: Endpoint,
    /// Nanoseconds since 1970 of the first and the last packet.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// a to b, b to a.
    pub(crate) halves: [Half; 2],
}

impl Connection {
    fn new(s: &Segment, now: u64) -> Self {
        Self { a: s.from, b: s.to, first_ns: now, last_ns: now, halves: Default::default() }
    }
    fn closed(&self) -> bool {
        self.halves.iter().any(|h| h.counts.fins > 0 || h.counts.resets > 0)
    }
    /// Seconds from the first packet to the last.
    pub fn elapsed_s(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }
    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.halves.iter().map(|h| h.counts.packets).sum()
    }
    /// How it began and ended.
    pub fn completeness(&self) -> Completeness {
        let [a, b] = &self.halves;
        if a.counts.resets + b.counts.resets > 0 {
            Completeness::Reset
        } else if self.halves.iter().all(|h| h.counts.syns > 0 && h.counts.fins > 0) {
            Completeness::Complete
        } else {
            Completeness::Incomplete
        }
    }
    /// Position of the capture relative to direction `way`, by the two halves of the RTT; `None` unless both were measured.
    pub fn vantage(&self, way: usize) -> Option<Vantage> {
        let ahead = self.halves[way].timer.smoothed_ns()? as f64;
        let behind = self.halves[1 - way].timer.smoothed_ns()? as f64;
        let whole = ahead + behind;
        Some(if whole <= 0.0 || behind <= whole / 10.0 {
            Vantage::Sender
        } else if ahead <= whole / 10.0 {
            Vantage::Receiver
        } else {
            Vantage::Path
        })
    }
    /// The direction of a segment from `from`.
    fn way(&self, s: &Segment) -> usize {
        usize::from(s.from != self.a)
    }
    /// Whether `s` starts a new connection between the same endpoints.
    ///
    /// A SYN with another initial number does. So does anything of a closed connection after the longest time that
    /// packets of it may live (RFC 9293, section 3.4.2: MSL is 2 minutes).
    fn is_over(&self, s: &Segment, now: u64) -> bool {
        const TWO_MSL_NS: u64 = 240_000_000_000;
        let late = now.saturating_sub(self.last_ns) > TWO_MSL_NS;
        if !s.has(Flags::SYN) {
            return late && self.closed();
        }
        let half = &self.halves[self.way(s)];
        match half.syn {
            Some(syn) => late || (syn as u32 != s.seq && (self.closed() || !s.has(Flags::ACK))),
            // Files of several buffers may have it behind what it began.
            None if now < self.last_ns && half.begins_behind(s) => false,
            None => half.counts.packets > 0 && (late || self.closed()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pair(Endpoint, Endpoint);

impl Pair {
    fn of(s: &Segment) -> Self {
        if s.from <= s.to { Self(s.from, s.to) } else { Self(s.to, s.from) }
    }
}

/// All connections of a capture.
#[derive(Default)]
pub(crate) struct Table {
    by_pair: HashMap<Pair, usize>,
    pub(crate) connections: Vec<Connection>,
    /// The pair of the last segment: most captures have runs of segments of one connection.
    last: Option<(Pair, usize)>,
    in_flight: usize,
    waiting: usize,
    /// Segments of connections beyond the maximum.
    pub(crate) left_out: u64,
}

impl Table {
    /// Processes a segment; returns its connection, direction and fate unless it was left out.
    pub(crate) fn segment(&mut self, s: &Segment, now: u64) -> Option<(usize, usize, SegmentFate)> {
        let pair = Pair::of(s);
        let known = match self.last {
            Some((last, at)) if last == pair => Some(at),
            _ => self.by_pair.get(&pair).copied(),
        };
        let at = match known {
            Some(at) if !self.connections[at].is_over(s, now) => at,
            _ if self.connections.len() < CONNECTIONS_MAX => {
                self.connections.push(Connection::new(s, now));
                self.by_pair.insert(pair, self.connections.len() - 1);
                self.connections.len() - 1
            }
            _ => {
                self.left_out += 1;
                return None;
            }
        };
        self.last = Some((pair, at));
        let room = Room::of(self.in_flight > FLIGHT_TOTAL_MAX, self.waiting > WAITING_TOTAL_MAX);
        let connection = &mut self.connections[at];
        connection.last_ns = connection.last_ns.max(now);
        connection.first_ns = connection.first_ns.min(now);
        let way = connection.way(s);
        let [a, b] = &mut connection.halves;
        let held =
            |a: &Half, b: &Half| (a.ledger.in_flight() + b.ledger.in_flight(), a.tsvals.waiting() + b.tsvals.waiting());
        let before = held(a, b);
        let (this, that) = if way == 0 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        let seen = this.segment(that, s, now, room);
        let after = held(a, b);
        self.in_flight = self.in_flight + after.0 - before.0;
        self.waiting = self.waiting + after.1 - before.1;
        Some((at, way, seen))
    }

    /// Closes the idle times of connections that are still open at the end of the capture.
    pub(crate) fn end(&mut self, now: u64) {
        for connection in &mut self.connections {
            let over = connection.completeness() != Completeness::Incomplete
                || connection.halves.iter().all(|h| h.counts.fins > 0);
            for half in connection.halves.iter_mut().filter(|h| !over && h.last_ns.is_some()) {
                half.idle_ns = half.idle_ns.max(now.saturating_sub(half.last_ns.unwrap_or(now)));
            }
        }
    }
}
