//! A train of probes and their results.

use crate::packet::Tally;
use wavelane_base::{Instant, Span};

/// Delay after the last probe of a train before the server is asked for its counts.
pub(crate) const COUNT_AFTER: Span = Span::from_millis(100);

/// The result of one probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When it was sent, on our clock.
    pub sent: Instant,
    /// Its echo and the time of arrival, if it came back.
    pub echo: Option<(Echoed, Instant)>,
    /// Known to have reached the server.
    pub reached: bool,
}

/// Contents of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echoed {
    /// When the probe arrived, on the server's clock.
    pub received: u64,
    /// When the echo left, on the server's clock.
    pub answered: u64,
    /// Bytes of load the server had received.
    pub loaded: u64,
}

/// A train of probes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Train {
    /// The owner's label.
    pub label: u32,
    /// Its code point.
    pub dscp: u8,
    /// Its probes by number.
    pub samples: Vec<Sample>,
    /// The server's counts, once received.
    pub tally: Option<Tally>,
    /// Probes that were due while this process was not running, and were skipped.
    pub skipped: u64,
    /// Duplicate echoes.
    pub duplicates: u64,
    /// Echoes that came after one that was answered later.
    pub reordered: u64,
    pub(crate) number: u16,
    /// When the next probe is due; `None` once it has ended.
    pub(crate) next: Option<Instant>,
    pub(crate) highest_order: u32,
    pub(crate) count: Option<Count>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) next: Instant,
    pub(crate) asked: u32,
    pub(crate) answers: u32,
}

impl Train {
    pub(crate) fn end(&mut self, now: Instant) {
        if self.next.take().is_some() {
            self.count = Some(Count { next: now + COUNT_AFTER, asked: 0, answers: 0 });
        }
    }
    /// Whether a server's counts are plausible: no more probes arrive than were sent, and no more of them late.
    pub(crate) fn allows(&self, tally: &Tally) -> bool {
        tally.received as usize <= self.samples.len() && tally.reordered <= tally.received
    }
    /// A completed train with known samples.
    #[cfg(test)]
    pub(crate) fn of_samples(label: u32, dscp: u8, samples: Vec<Sample>) -> Self {
        let (tally, next, count) = (None, None, None);
        let (skipped, duplicates, reordered, number, highest_order) = (0, 0, 0, 0, 0);
        Self { label, dscp, samples, tally, skipped, duplicates, reordered, number, next, highest_order, count }
    }
}
