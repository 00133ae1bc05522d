//! How much a door lets an application send ahead of the lane, measured in time.
//!
//! Bytes in the socket's receive buffer add delay. The buffer shall bridge the application's RTT and [`WAIT`] at the rate at
//! which the flow takes bytes: short where the lane is slow, long where it is fast. It grows at once when the socket runs dry
//! although the flow had room, and shrinks slowly while the flow is the bottleneck.

use crate::socket::{Receiving, Rooms};
use wavelane_base::{Instant, Octets, Rate, Span};

/// Time's worth of bytes beyond the RTT to the application.
const WAIT: Span = Span::from_millis(3);
/// Bytes, and segments, that are always allowed.
const OCTETS_MIN: usize = 4 << 10;
/// See [`OCTETS_MIN`].
const SEGMENTS_MIN: usize = 4;
/// The rate is measured over at least this long.
const PERIOD: Span = Span::from_millis(25);
/// After a socket ran dry its buffer does not shrink for this long.
const HOLD: Span = Span::from_secs(1);

/// The receive buffer of one door socket.
#[derive(Debug)]
pub struct Window {
    /// Bytes of memory it may take; at most this many bytes wait in it.
    size: usize,
    /// Maximum of `size`.
    most: usize,
    /// See [`Rooms::per_byte`].
    per_byte: usize,
    /// Bytes taken since it was last dry.
    run: usize,
    /// Bytes taken since then, with the flow as the limit.
    measured: Option<(Instant, u64)>,
    hold_until: Instant,
    /// The buffer is larger than this rate needs.
    shrink_for: Option<Rate>,
}

impl Window {
    /// A window of the initial size.
    pub fn new(now: Instant, rooms: Rooms) -> Self {
        let Rooms { first, most, per_byte } = rooms;
        Self { size: first, most, per_byte, run: 0, measured: None, hold_until: now, shrink_for: None }
    }
    /// The flow took `octets`.
    pub fn took(&mut self, octets: usize) {
        self.run += octets;
        if let Some((_, taken)) = &mut self.measured {
            *taken += octets as u64;
        }
    }
    /// The socket had no more although the flow had room. Returns the size to set, if it changes.
    pub fn ran_dry(&mut self, now: Instant) -> Option<usize> {
        let limited = std::mem::take(&mut self.run) >= self.size / self.per_byte;
        self.measured = None;
        self.shrink_for = None;
        if !limited {
            return None;
        }
        self.hold_until = now + HOLD;
        let larger = (self.size * 2).min(self.most);
        (std::mem::replace(&mut self.size, larger) != larger).then_some(larger)
    }
    /// The flow has no room.
    pub fn held_up(&mut self, now: Instant) {
        let (since, taken) = *self.measured.get_or_insert((now, 0));
        let elapsed = now.since(since);
        if elapsed >= PERIOD {
            self.measured = Some((now, 0));
            let rate = Rate::of(Octets::new(taken), elapsed);
            let excessive = octets_in(rate, WAIT).max(OCTETS_MIN) < self.size;
            self.shrink_for = (excessive && now >= self.hold_until).then_some(rate);
        }
    }
    /// The socket is about to be read: it is at its fullest, and the smallest window was offered. Returns the size to set, if it
    /// changes; `look` queries the socket.
    pub fn before_read(&mut self, look: impl FnOnce() -> Option<Receiving>) -> Option<usize> {
        let rate = self.shrink_for.take()?;
        let socket = look()?;
        let least = OCTETS_MIN.max(SEGMENTS_MIN * socket.segment);
        let smaller = octets_in(rate, WAIT + socket.round_trip).max(least).max(self.size - self.size / 8);
        // The window offered to the application must still fit, or the kernel would drop its bytes. A full buffer offers none:
        // the kernel advertises no window below a sixteenth of the buffer or a segment.
        let is_full = socket.held + self.size / 16 + 2 * socket.segment >= self.size;
        if smaller >= self.size || !is_full {
            return None;
        }
        self.size = smaller;
        Some(smaller)
    }
}

fn octets_in(rate: Rate, time: Span) -> usize {
    usize::try_from(rate.octets_in(time).get()).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
