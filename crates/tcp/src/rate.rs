//! Delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation-02; with bytes in flight and lost,
//! draft-ietf-ccwg-bbr-06, section 4.1.2).

use super::congestion::Lost;
use super::scoreboard::Sent;
use wavelane_base::{Instant, Octets, Rate, Span};

/// The connection's state when a segment was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    app_limited: bool,
    /// Bytes in flight with it.
    in_flight: u64,
    /// Bytes marked lost in the connection's life.
    lost: u64,
}

/// One rate sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateSample {
    /// `None` if the interval is shorter than the minimum RTT: acknowledgements were compressed, so the rate would be too
    /// high.
    pub(super) rate: Option<Rate>,
    /// Bytes delivered since the newest segment delivered now was sent.
    pub(super) delivered: u64,
    /// Bytes delivered when it was sent.
    pub(super) prior_delivered: u64,
    /// Bytes in flight when it was sent, itself included.
    pub(super) in_flight: u64,
    /// Bytes marked lost since it was sent.
    pub(super) lost: u64,
    pub(super) app_limited: bool,
}

#[derive(Debug)]
pub(super) struct Delivery {
    /// Bytes delivered in the connection's life.
    pub(super) delivered: u64,
    /// Bytes marked lost in the connection's life, if its congestion control asks about losses.
    lost: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Samples are application-limited until this much is delivered.
    app_limited_until: u64,
    newest: Option<Stamp>,
}

impl Delivery {
    pub(super) fn new(now: Instant) -> Self {
        Self { delivered: 0, lost: 0, delivered_at: now, first_sent_at: now, app_limited_until: 0, newest: None }
    }
    /// A segment is sent while `in_flight` bytes are, and adds `octets` to them.
    pub(super) fn stamp(&mut self, now: Instant, in_flight: u64, octets: u64) -> Stamp {
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
            in_flight: in_flight + octets,
            lost: self.lost,
        }
    }
    /// Whether the connection was application-limited at the last transmission or acknowledgement.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0 && self.app_limited_until >= self.delivered
    }
    /// Transmission restarts after an application pause, until some of it is delivered: the draft's mark, unlike
    /// [`Delivery::note_app_limited`]'s, also covers data sent when exactly this much was delivered (section 4.1.2.3).
    pub(super) fn note_restart(&mut self) {
        self.app_limited_until = self.delivered + 1;
    }
    /// `sent` is marked lost.
    pub(super) fn on_lost(&mut self, now: Instant, sent: &Sent) -> Lost {
        self.lost += sent.len();
        Lost {
            now,
            start: sent.start,
            end: sent.end,
            delivered: self.delivered,
            in_flight: sent.stamp.in_flight,
            lost: self.lost - sent.stamp.lost,
            app_limited: sent.stamp.app_limited,
        }
    }
    /// cwnd had room and the application had no data.
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
    /// The sample of the acknowledgement just processed.
    pub(super) fn sample(&mut self, min_rtt: Option<Span>) -> Option<RateSample> {
        let newest = self.newest.take()?;
        self.first_sent_at = newest.sent_at;
        let send = newest.sent_at.since(newest.first_sent_at);
        let ack = self.delivered_at.since(newest.delivered_at);
        let interval = send.max(ack);
        let delivered = self.delivered - newest.delivered;
        let reliable = interval > Span::ZERO && min_rtt.is_none_or(|min| interval >= min);
        Some(RateSample {
            rate: reliable.then(|| Rate::of(Octets::new(delivered), interval)),
            delivered,
            prior_delivered: newest.delivered,
            in_flight: newest.in_flight,
            lost: self.lost - newest.lost,
            app_limited: newest.app_limited,
        })
    }
}
