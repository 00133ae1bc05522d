//! A small frame that has to arrive once.

use super::types::earlier;
use wavelane_base::{Instant, Span};
use wavelane_transport::LOSSY;
use wavelane_transport::PathView;

/// Most transmissions of one frame before any of them is known to be lost: the first and two copies.
pub(super) const SENDS_MAX: u8 = 3;

/// Spacing of the two copies from the first transmission while the loss pattern is unknown.
const SPACING_UNKNOWN: [Span; 2] = [Span::from_millis(20), Span::from_millis(60)];
/// Least spacing for bursty losses. Radio fades last tens of milliseconds (the demo's: 30 ms on average): a copy inside the same
/// fade is wasted. A quarter of fades of memoryless length outlast 4/3 of their mean.
const SPACING_BURSTY: [Span; 2] = [Span::from_millis(40), Span::from_millis(80)];
/// Their spacing for single losses.
const SPACING_SINGLE: [Span; 2] = [Span::from_millis(8), Span::from_millis(24)];
/// If single losses are rarer than this, one copy is enough: a second would help in less than one case in 300.
const ONE_COPY_LOSS: f64 = 0.055;
/// Bursts shorter than this are single losses.
const SINGLE: Span = Span::from_millis(4);

/// How often something may be sent before its fate is known: as often as needed for one transmission to arrive almost surely.
pub(super) fn sends_max(path: &PathView) -> u8 {
    let single = path.burst.is_some_and(|burst| burst < SINGLE);
    match path.loss {
        loss if loss <= LOSSY => 1,
        loss if loss <= ONE_COPY_LOSS && single => 2,
        _ => SENDS_MAX,
    }
}

/// Spacing of copy `n` (1 or 2) from the first transmission: past the burst that may have lost it.
pub(super) fn copy_spacing(path: &PathView, n: u8) -> Span {
    let second = usize::from(n > 1);
    match path.burst {
        None => SPACING_UNKNOWN[second],
        Some(burst) if burst < SINGLE => SPACING_SINGLE[second],
        Some(burst) => burst.times(second as u64 + 1).max(SPACING_BURSTY[second]),
    }
}

/// State of a must-arrive frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sure {
    /// To be written at the next opportunity.
    pub(super) due: bool,
    /// At least one transmission is known to have arrived.
    pub(super) arrived: bool,
    /// Written at least once.
    pub(super) sent: bool,
    /// Serial of the newest transmission; its fate decides.
    newest: u64,
    /// Serial of the first transmission since the last request: arrivals of earlier ones belong to an earlier request.
    asked_from: u64,
    flying: bool,
    sends: u8,
    first_at: Instant,
    copy_at: Option<Instant>,
}

impl Sure {
    /// Requests transmission, starting afresh.
    pub(super) fn ask(&mut self) {
        *self = Self { due: true, sent: self.sent, asked_from: u64::MAX, ..Self::default() };
    }
    /// Nothing more is to be sent.
    pub(super) fn settle(&mut self) {
        self.due = false;
        self.flying = false;
        self.arrived = true;
        self.copy_at = None;
    }
    /// Whether the next transmission is a copy: no loss is known yet.
    pub(super) fn is_copy(&self) -> bool {
        self.flying
    }
    /// The frame was written. `sends_max` limits the transmissions before a fate is known.
    pub(super) fn wrote(&mut self, now: Instant, serial: u64, path: &PathView, sends_max: u8) {
        self.due = false;
        self.sent = true;
        self.newest = serial;
        self.asked_from = self.asked_from.min(serial);
        if !self.flying {
            self.sends = 0;
            self.first_at = now;
        }
        self.flying = true;
        self.sends += 1;
        let again = self.sends < sends_max;
        self.copy_at = again.then(|| (self.first_at + copy_spacing(path, self.sends)).max(now + Span::from_nanos(1)));
    }
    /// The fate of a transmission. Any arrival settles the frame; only the loss of the newest makes it due again.
    pub(super) fn fate(&mut self, serial: u64, arrived: bool) {
        if arrived && serial >= self.asked_from {
            self.settle();
        } else if !arrived && self.flying && serial == self.newest {
            self.flying = false;
            self.copy_at = None;
            self.due = true;
        }
    }
    /// Whether a transmission is in flight.
    pub(super) fn flying(&self) -> bool {
        self.flying
    }
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.copy_at
    }
    pub(super) fn tick(&mut self, now: Instant) {
        if self.copy_at.is_some_and(|at| at <= now) {
            self.copy_at = None;
            self.due = true;
        }
    }
}

/// The earliest deadline of several.
pub(super) fn earliest<const N: usize>(parts: [Option<Instant>; N]) -> Option<Instant> {
    parts.into_iter().fold(None, earlier)
}
