//! Segments sent together: trains as by segmentation offload, and the pacer's bursts.

use super::send::{Phase, Sender};
use wavelane_base::{Instant, Octets, Rate, Span};

/// Segments sent as one, like an offloaded packet that the device segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    /// Segments of it still to be sent.
    left: u64,
    /// When it began; the send time of all its segments.
    begun: Option<Instant>,
    /// Too little could be sent; held until an acknowledgement, which is due soon.
    pub(super) held: bool,
}

impl Train {
    /// When the train under way began, or `now`.
    pub(super) fn begun(&self, now: Instant) -> Instant {
        self.begun.unwrap_or(now)
    }
}

/// A burst that the pacer allows at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Paced {
    /// The remaining bytes may be sent until then: a real-time driver needs some time for a burst.
    until: Instant,
    left: u64,
    /// How late it was sent, less the part made up for.
    late: Span,
}

impl Sender {
    /// `octets` of new data are about to be sent. Returns whether to set PSH, as at the end of a train; `None` if it is
    /// better to wait for the next acknowledgement and send more in one train.
    pub(super) fn couple(&mut self, now: Instant, octets: u64) -> Option<bool> {
        if !self.config.offload || octets < self.mss || self.tail_probe_due {
            self.train = Train::default();
            return Some(false);
        }
        if self.train.left > 0 {
            self.train.left -= 1;
            return Some(self.train.left == 0);
        }
        let cwnd = self.controller.cwnd();
        let window = (self.una + self.window).saturating_sub(self.next);
        let room = cwnd.saturating_sub(self.board.pipe()).min(window);
        let most = self.train_octets();
        let available = self.data_end() - self.next;
        if available > self.mss && room < most.min(available) && self.is_more_soon(now, room, cwnd) {
            self.train.held = true;
            return None;
        }
        // At most half of cwnd, so that a train does not leave the path idle (tcp_cwnd_test).
        let octets = room.min(most).min(available).min(cwnd / 2);
        self.train.left = (octets / self.mss).saturating_sub(1);
        self.train.begun = (self.train.left > 0).then_some(now);
        Some(false)
    }

    /// Linux's `tcp_tso_should_defer` (net/ipv4/tcp_output.c).
    fn is_more_soon(&self, now: Instant, room: u64, cwnd: u64) -> bool {
        let (Some(first), Some(rtt)) = (self.board.front(), self.rtt.smoothed()) else { return false };
        let recent = self.last_sent.is_some_and(|last| now.since(last) <= SOON);
        let little = room < cwnd.min(self.window) / WINDOW_DIVISOR;
        let answered_at = first.stamp.sent_at + rtt;
        self.phase == Phase::Open && recent && little && answered_at <= now + SOON.min(rtt.scale(1, 2))
    }

    /// Bytes of the longest train: 1/1024 s at the pacing rate, at least two segments, and more where the minimum RTT is
    /// short (Linux's `tcp_tso_autosize`).
    pub(super) fn train_octets(&self) -> u64 {
        let pace = self.controller.pace(true, self.rtt.smoothed());
        let worth = pace.map_or(TRAIN_MAX, |pace| pace.octets_in(BURST_TIME).get());
        let halvings = self.rtt.min().map_or(u64::MAX, |rtt| rtt.as_micros() >> SHORT_TRIP_BITS);
        let more = u32::try_from(halvings).ok().and_then(|bits| TRAIN_MAX.checked_shr(bits)).unwrap_or(0);
        (worth + more).clamp(BURST_MIN_SEGMENTS * self.mss, TRAIN_MAX)
    }

    /// Whether the pacer allows the next segment.
    pub(super) fn is_paced_out(&self, now: Instant) -> bool {
        self.pace_next <= now || self.is_in_burst(now)
    }
    fn is_in_burst(&self, now: Instant) -> bool {
        self.paced.left > 0 && now <= self.paced.until
    }

    /// Nothing more can be sent: the remainder of a burst or train is not available to later data.
    pub(super) fn end_burst(&mut self, now: Instant) {
        self.paced.until = self.paced.until.min(now);
        self.train.left = 0;
        self.train.begun = None;
    }

    /// Segments are sent in bursts of a millisecond's worth, and a sender that was woken late makes up for at most half of
    /// the burst's time, as in Linux, so that small timer delays do not reduce the rate.
    pub(super) fn note_paced(&mut self, now: Instant, pace: Rate, octets: u64) {
        if !self.is_in_burst(now) {
            let left = self.train_octets();
            self.paced = Paced { until: now + BURST_TIME, left, late: now.since(self.pace_next) };
        }
        self.paced.left = self.paced.left.saturating_sub(octets);
        // Without headers, as the pacing rate is a delivery rate of payload bytes (tcp_update_skb_after_send).
        let time = pace.time_for(Octets::new(octets));
        let made_up = self.paced.late.min(time.scale(1, 2));
        self.paced.late = self.paced.late.saturating_sub(made_up);
        self.pace_next = self.pace_next.max(now) + time.saturating_sub(made_up);
    }
}

/// Linux's `sk_pacing_shift` of 10: a burst lasts 1/1024 s at the pace.
const BURST_TIME: Span = Span::from_nanos(1_000_000_000 / 1_024);
/// Its bounds: `tcp_min_tso_segs`, and what one offloaded packet holds.
const BURST_MIN_SEGMENTS: u64 = 2;
const TRAIN_MAX: u64 = 65_536;
/// Linux's `tcp_tso_rtt_log`: the addition to a train halves per 2^9 us of minimum RTT.
const SHORT_TRIP_BITS: u32 = 9;
/// Linux waits for an acknowledgement due within a millisecond if it sent within the last millisecond.
const SOON: Span = Span::from_millis(1);
/// Linux's `tcp_tso_win_divisor`: a third of the window is sent without waiting for more.
const WINDOW_DIVISOR: u64 = 3;
