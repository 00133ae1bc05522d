//! Pacing rate, quantum and window (section 5.6).

use super::states::State;
use super::{Bbr3, MIN_PIPE_SEGMENTS, UNBOUNDED, UNIT};
use crate::congestion::Acked;
use wavelane_base::{Octets, Rate, Span};

/// 4 ln 2, the smallest gain that doubles the rate per round (section 2.5, BBR.StartupPacingGain).
const STARTUP_PACE: u64 = 277;
/// Drains what Startup queued within a round trip (section 2.5, BBR.DrainPacingGain).
const DRAIN_PACE: u64 = 50;
/// Sections 5.3.3.1 and 5.3.3.5.
const DOWN_PACE: u64 = 90;
const UP_PACE: u64 = 125;
/// Products that the window holds: by default (section 2.6, BBR.DefaultCwndGain), while probing for bandwidth (section
/// 5.3.3.5), and for the round trip (section 2.16.2, BBR.ProbeRTTCwndGain).
const CWND_GAIN: u64 = 200;
const UP_CWND_GAIN: u64 = 225;
const PROBE_RTT_CWND_GAIN: u64 = 50;
/// The pacing rate is this much below the bandwidth (section 2.5, BBR.PacingMarginPercent).
const PACE_MARGIN: u64 = 1;
/// The quantum is the pacing rate times this, at most this many bytes, and at least this many segments (section 5.6.3).
const QUANTUM_TIME: Span = Span::from_millis(1);
const QUANTUM_MAX: u64 = 65_536;
const QUANTUM_SEGMENTS_MIN: u64 = 2;
/// One quantum being sent, one in segmentation offload, one whose acknowledgement is delayed (section 5.5.8.1).
const QUANTA: u64 = 3;
/// Segments more while probing for bandwidth (section 5.6.4.2).
const UP_SEGMENTS: u64 = 2;
/// RTT assumed before the first sample (section 5.6.2).
const RTT_ASSUMED: Span = Span::from_millis(1);

/// Section 5.6.2, InitPacingRate.
pub(super) fn pace_before_any_rate(cwnd: u64, rtt: Span) -> Rate {
    Rate::of(Octets::new(cwnd), rtt.max(RTT_ASSUMED)).scale(STARTUP_PACE, UNIT)
}

impl State {
    /// Gains of pacing rate and cwnd (section 5.6.1).
    fn gains(self) -> (u64, u64) {
        match self {
            Self::Startup => (STARTUP_PACE, CWND_GAIN),
            Self::Drain => (DRAIN_PACE, CWND_GAIN),
            Self::Down => (DOWN_PACE, CWND_GAIN),
            Self::Cruise | Self::Refill => (UNIT, CWND_GAIN),
            Self::Up => (UP_PACE, UP_CWND_GAIN),
            Self::ProbeRtt => (UNIT, PROBE_RTT_CWND_GAIN),
        }
    }
}

impl Bbr3 {
    /// Section 5.6.2.
    pub(super) fn set_pace(&mut self, acked: &Acked) {
        if !self.has_rtt && acked.rtt.is_some() {
            self.has_rtt = true;
            self.pace = pace_before_any_rate(self.initial, acked.smoothed);
        }
        self.set_pace_with(self.state.gains().0);
    }
    pub(super) fn set_pace_with(&mut self, gain: u64) {
        let pace = self.model.bandwidth.scale(gain * (UNIT - PACE_MARGIN), UNIT * UNIT);
        if pace > Rate::default() && (self.full.reached || pace > self.pace) {
            self.pace = pace;
        }
    }

    /// Section 5.6.3.
    pub(super) fn set_quantum(&mut self) {
        let worth = self.pace.octets_in(QUANTUM_TIME).get();
        self.quantum = worth.min(QUANTUM_MAX).max(QUANTUM_SEGMENTS_MIN * self.mss);
    }

    /// Section 5.6.4.2, QuantizationBudget.
    pub(super) fn with_budget(&self, in_flight: u64) -> u64 {
        let least = (QUANTA * self.quantum).max(MIN_PIPE_SEGMENTS * self.mss);
        let more = if self.state == State::Up { UP_SEGMENTS * self.mss } else { 0 };
        in_flight.max(least).saturating_add(more)
    }
    /// BBR.max_inflight.
    fn most_in_flight(&self) -> u64 {
        let products = self.products(self.model.bandwidth, self.state.gains().1);
        self.with_budget(products.saturating_add(self.model.extra()))
    }

    /// Section 5.6.4.6.
    pub(super) fn set_cwnd(&mut self, acked: &Acked) {
        let most = self.most_in_flight();
        let grown = self.cwnd.saturating_add(acked.octets);
        if self.full.reached {
            self.cwnd = grown.min(most);
        } else if self.cwnd < most || acked.delivered < self.initial {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(MIN_PIPE_SEGMENTS * self.mss);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.cwnd.min(self.cap());
    }
    /// Section 5.6.4.7.
    fn cap(&self) -> u64 {
        let cap = match self.state {
            State::Startup | State::Drain => UNBOUNDED,
            State::Down | State::Refill | State::Up => self.bounds.in_flight_long,
            State::Cruise | State::ProbeRtt => self.long_term_less_headroom(),
        };
        cap.min(self.bounds.in_flight_short).max(MIN_PIPE_SEGMENTS * self.mss)
    }
    /// Section 5.6.4.5.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.products(self.model.bandwidth, PROBE_RTT_CWND_GAIN).max(MIN_PIPE_SEGMENTS * self.mss)
    }
}
