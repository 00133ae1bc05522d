//! Delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation-02).

use wavelane_base::{Instant, Octets, Rate, Span};

/// What a segment remembers of the connection when it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    app_limited: bool,
}

/// One rate sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSample {
    pub(super) rate: Rate,
    /// What had been delivered when the newest segment delivered now was sent.
    pub(super) prior_delivered: u64,
    pub(super) app_limited: bool,
}

#[derive(Debug)]
pub(super) struct Delivery {
    /// Bytes delivered in the connection's life.
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// The sample is limited by the application until this much was delivered.
    app_limited_until: u64,
    newest: Option<Stamp>,
}

impl Delivery {
    pub(super) fn new(now: Instant) -> Self {
        Self { delivered: 0, delivered_at: now, first_sent_at: now, app_limited_until: 0, newest: None }
    }
    /// A segment is sent while `in_flight` bytes are.
    pub(super) fn stamp(&mut self, now: Instant, in_flight: u64) -> Stamp {
        if in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > self.delivered,
        }
    }
    /// The window had room and the application gave nothing.
    pub(super) fn note_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }
    pub(super) fn on_delivered(&mut self, now: Instant, stamp: Stamp, octets: u64) {
        self.delivered += octets;
        self.delivered_at = now;
        if self.newest.is_none_or(|newest| stamp.delivered >= newest.delivered) {
            self.newest = Some(stamp);
        }
    }
    /// The sample of the acknowledgement that was just taken in.
    pub(super) fn sample(&mut self, min_rtt: Option<Span>) -> Option<RateSample> {
        let newest = self.newest.take()?;
        self.first_sent_at = newest.sent_at;
        let send = newest.sent_at.since(newest.first_sent_at);
        let ack = self.delivered_at.since(newest.delivered_at);
        let interval = send.max(ack);
        // Shorter than a round trip: acknowledgements were compressed, so the rate would be too high.
        if interval == Span::ZERO || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        let rate = Rate::of(Octets::new(self.delivered - newest.delivered), interval);
        Some(RateSample { rate, prior_delivered: newest.delivered, app_limited: newest.app_limited })
    }
}
