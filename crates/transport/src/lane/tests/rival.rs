//! A model of a competing TCP sender at the bottleneck of the tests: greedy, ack clocked, told of loss by selective
//! acknowledgements.
//!
//! It has what decides shares at a queue: the window, its growth, its cut, and that a longer queue slows the growth.
//! It leaves out what does not: retransmitted bytes (every packet is new), delayed acks, pacing, limited windows.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::VecDeque;
use wavelane_base::maths::cube_root;
use wavelane_base::{Instant, Span};

/// As large as our packets, so that a share of packets is a share of bytes.
pub(super) const RIVAL_BYTES: u64 = 1500;
/// A packet is lost when one sent so many later is acknowledged (RFC 6675).
const REORDERING: u64 = 3;
const RTO_MIN: Span = Span::from_secs(1);
/// RFC 9438, section 5.
const C: f64 = 0.4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// RFC 9438; slow start ends when the round trip grows (RFC 9406), as in Linux.
    Cubic,
    /// RFC 5681 and 6582.
    Reno,
}

pub(super) struct Rival {
    kind: Kind,
    pub(super) active: bool,
    window: f64,
    threshold: f64,
    window_max: f64,
    reno: f64,
    epoch: Option<(Instant, f64)>,
    next: u64,
    outstanding: VecDeque<(u64, Instant)>,
    /// Losses of packets before this one belong to the last cut.
    recover: u64,
    rtt: Option<Span>,
    rtt_min: Span,
    heard: Instant,
    /// IP bytes that arrived, per 100 ms.
    pub(super) arrived: Vec<u64>,
}

impl Rival {
    pub(super) fn new(now: Instant, kind: Kind) -> Self {
        Self {
            kind,
            active: true,
            window: 10.0,
            threshold: f64::MAX,
            window_max: 0.0,
            reno: 0.0,
            epoch: None,
            next: 0,
            outstanding: VecDeque::new(),
            recover: 0,
            rtt: None,
            rtt_min: Span::from_secs(10),
            heard: now,
            arrived: Vec::new(),
        }
    }

    /// The number of the packet to send now, if one may be sent.
    pub(super) fn poll(&mut self, now: Instant) -> Option<u64> {
        if !self.active || self.outstanding.len() as f64 >= self.window.floor().max(1.0) {
            return None;
        }
        if self.outstanding.is_empty() {
            self.heard = now;
        }
        let number = self.next;
        self.next += 1;
        self.outstanding.push_back((number, now));
        Some(number)
    }

    pub(super) fn acked(&mut self, now: Instant, number: u64) {
        self.heard = now;
        let Some(at) = self.outstanding.iter().position(|o| o.0 == number) else { return };
        let sent = self.outstanding.remove(at).unwrap().1;
        self.sample(now.since(sent));
        while let Some((oldest, _)) = self.outstanding.front().copied()
            && oldest + REORDERING <= number
        {
            self.outstanding.pop_front();
            if oldest >= self.recover {
                self.cut();
            }
        }
        if number >= self.recover {
            self.grow(now);
        }
    }

    fn sample(&mut self, rtt: Span) {
        self.rtt_min = self.rtt_min.min(rtt);
        self.rtt = Some(self.rtt.map_or(rtt, |old| old.scale(7, 8) + rtt.scale(1, 8)));
        let grown = self.rtt_min.scale(1, 8).clamp(Span::from_millis(4), Span::from_millis(16));
        if self.kind == Kind::Cubic && self.window < self.threshold && rtt > self.rtt_min + grown {
            self.threshold = self.window;
        }
    }

    fn grow(&mut self, now: Instant) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        if self.kind == Kind::Reno {
            self.window += 1.0 / self.window;
            return;
        }
        let (start, k) = *self.epoch.get_or_insert_with(|| {
            self.reno = self.window;
            (now, cube_root((self.window_max - self.window).max(0.0) / C))
        });
        let top = self.window_max.max(self.window.min(self.window_max));
        let t = (now.since(start) + self.rtt.unwrap()).as_secs_f64() - k;
        let target = (top + C * t * t * t).clamp(self.window, 1.5 * self.window);
        self.reno += 3.0 * 0.3 / 1.7 / self.window;
        self.window = (self.window + (target - self.window) / self.window).max(self.reno);
    }

    fn cut(&mut self) {
        let beta = if self.kind == Kind::Reno { 0.5 } else { 0.7 };
        self.window_max = if self.window < self.window_max { self.window * (1.0 + beta) / 2.0 } else { self.window };
        self.window = (self.window * beta).max(2.0);
        self.threshold = self.window;
        self.epoch = None;
        self.recover = self.next;
    }

    /// The retransmission timeout (RFC 6298): everything is taken for lost.
    pub(super) fn tick(&mut self, now: Instant) {
        let rto = RTO_MIN.max(self.rtt.unwrap_or(RTO_MIN).times(2));
        if !self.outstanding.is_empty() && now.since(self.heard) > rto {
            self.outstanding.clear();
            self.cut();
            self.window = 1.0;
            self.heard = now;
        }
    }
}
