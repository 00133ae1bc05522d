//! ProbeBW: down, cruise, refill, up (section 5.3.3).

use super::states::State;
use super::{Bbr3, MIN_PIPE_SEGMENTS, UNBOUNDED, UNIT, share};
use crate::congestion::Acked;
use crate::rate::RateSample;
use wavelane_base::{Instant, Rate, Span};

/// Time between probes: this and up to as long as [`WAIT_SPREAD`] more (section 5.3.3.8.3).
const WAIT: Span = Span::from_secs(2);
const WAIT_SPREAD: Span = Span::from_secs(1);
/// Round trips after which to probe, whatever the clock: as many as Reno needs to grow by the bytes in flight, at most this
/// many or one less (section 5.3.3.8.3).
const RENO_ROUNDS_MAX: u64 = 63;
/// The share of the long-term bound left to other flows, in hundredths (section 2.8, BBR.Headroom).
const HEADROOM: u64 = 15;
/// The bound's growth stops doubling after this many rounds (section 5.3.3.9).
const UP_ROUNDS_MAX: u32 = 30;

/// ACK phase of the probe (section 2.14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Feedback {
    None,
    Refilling,
    Starting,
    Coming,
    Stopping,
}

#[derive(Clone, Debug)]
pub(super) struct Cycle {
    feedback: Feedback,
    began: Instant,
    wait: Span,
    pub(super) rounds_since_up: u64,
    /// Acknowledgements cover probe data, with no reaction to a loss of it yet.
    pub(super) samples_probe: bool,
    up_rounds: u32,
    up_acked: u64,
    /// Bytes to be acknowledged before the long-term bound grows by a segment.
    up_acked_per_segment: u64,
    /// The last probe had too many losses.
    pub(super) went_too_high: bool,
    /// The last probe stopped at the bound found by the previous one.
    was_cautious: bool,
}

impl Cycle {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            feedback: Feedback::None,
            began: now,
            wait: Span::ZERO,
            rounds_since_up: 0,
            samples_probe: false,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_segment: UNBOUNDED,
            went_too_high: false,
            was_cautious: false,
        }
    }
    pub(super) fn stop_probing(&mut self) {
        self.feedback = Feedback::Stopping;
    }
}

impl Bbr3 {
    pub(super) fn is_probing_bandwidth(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    /// Section 5.3.3.9, UpdateProbeBWCyclePhase.
    pub(super) fn update_cycle(&mut self, acked: &Acked, sample: &RateSample) {
        if !self.full.reached || self.adapt_long_term(acked, sample) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(acked.now) => self.start_refill(),
            State::Down if self.is_time_to_cruise() => self.state = State::Cruise,
            State::Refill if self.model.round_began => {
                self.cycle.samples_probe = true;
                self.start_up(sample.rate.unwrap_or_default());
            }
            State::Up => self.check_up_done(acked.now, sample.rate.unwrap_or_default()),
            _ => {}
        }
    }

    pub(super) fn start_down(&mut self, now: Instant) {
        self.bounds.reset_signals();
        self.cycle.up_acked_per_segment = UNBOUNDED;
        self.cycle.rounds_since_up = self.chance.below(2);
        self.cycle.wait = WAIT + Span::from_nanos(self.chance.below(WAIT_SPREAD.as_nanos()));
        self.cycle.began = now;
        self.cycle.feedback = Feedback::Stopping;
        self.start_round();
        self.state = State::Down;
    }
    pub(super) fn start_refill(&mut self) {
        self.bounds.reset_short_term();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.was_cautious = false;
        self.cycle.feedback = Feedback::Refilling;
        self.start_round();
        self.state = State::Refill;
    }
    fn start_up(&mut self, rate: Rate) {
        self.cycle.feedback = Feedback::Starting;
        self.start_round();
        self.full.search_from(rate);
        self.state = State::Up;
        self.raise_slope();
    }

    /// Section 5.3.3.8.3.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        let segments = self.target_in_flight() / self.mss;
        now > self.cycle.began + self.cycle.wait || self.cycle.rounds_since_up >= segments.min(RENO_ROUNDS_MAX)
    }
    fn is_time_to_cruise(&self) -> bool {
        self.flight <= self.long_term_less_headroom() && self.flight <= self.in_flight_for(self.model.max_bandwidth())
    }
    fn check_up_done(&mut self, now: Instant, rate: Rate) {
        if self.is_time_to_go_down(rate) {
            self.cycle.went_too_high = false;
            self.start_down(now);
        }
    }
    /// Sections 5.3.3.7 and 5.3.3.9. Bytes in flight before this acknowledgement are compared: after it, they are always
    /// below a window equal to the bound.
    fn is_time_to_go_down(&mut self, rate: Rate) -> bool {
        let bound = self.bounds.in_flight_long;
        if self.cycle.went_too_high && self.flight_before.saturating_add(self.mss) > bound {
            self.cycle.was_cautious = true;
            return true;
        }
        if self.is_cwnd_limited() && self.cwnd >= bound {
            // The bound is the limit, so nothing is learnt about the path's capacity.
            self.full.search_from(rate);
            return false;
        }
        self.full.now
    }
    /// Section 5.3.3.9, InflightWithHeadroom.
    pub(super) fn long_term_less_headroom(&self) -> u64 {
        let bound = self.bounds.in_flight_long;
        if bound == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = share(bound, HEADROOM).max(self.mss);
        bound.saturating_sub(headroom).max(MIN_PIPE_SEGMENTS * self.mss)
    }

    /// Section 5.3.3.9, RaiseInflightLongtermSlope.
    fn raise_slope(&mut self) {
        let growth = 1 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(UP_ROUNDS_MAX);
        self.cycle.up_acked_per_segment = (self.cwnd / growth).max(self.mss);
    }
    /// Section 5.3.3.9, ProbeInflightLongtermUpward.
    fn raise_long_term(&mut self, acked: &Acked) {
        if !self.is_cwnd_limited() || self.cwnd < self.bounds.in_flight_long {
            return;
        }
        self.cycle.up_acked += acked.octets;
        let segments = self.cycle.up_acked / self.cycle.up_acked_per_segment;
        self.cycle.up_acked -= segments * self.cycle.up_acked_per_segment;
        self.bounds.in_flight_long = self.bounds.in_flight_long.saturating_add(segments * self.mss);
        if self.model.round_began {
            self.raise_slope();
        }
    }

    /// Section 5.3.3.9, AdaptLongTermModel. Returns whether it decided the next state.
    fn adapt_long_term(&mut self, acked: &Acked, sample: &RateSample) -> bool {
        if self.model.round_began && self.end_feedback(sample) {
            return true;
        }
        if self.is_too_high(sample) || self.bounds.in_flight_long == UNBOUNDED {
            return false;
        }
        self.bounds.in_flight_long = self.bounds.in_flight_long.max(sample.in_flight);
        if self.state == State::Up {
            self.raise_long_term(acked);
        }
        false
    }
    /// A round trip after a probe began or ended. Returns whether the next one begins at once, since a cautious one met no
    /// losses (section 5.3.3.6, acceleration).
    fn end_feedback(&mut self, sample: &RateSample) -> bool {
        match self.cycle.feedback {
            Feedback::Starting => self.cycle.feedback = Feedback::Coming,
            Feedback::Stopping => {
                self.cycle.samples_probe = false;
                self.cycle.feedback = Feedback::None;
                let probing = self.state.is_probe_bandwidth();
                if probing && !sample.app_limited {
                    self.model.advance_max_bandwidth();
                }
                if probing && self.cycle.was_cautious && !self.cycle.went_too_high {
                    self.start_refill();
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    /// Bytes in flight that fill the path at `bandwidth` (section 5.6.4.2, Inflight with a gain of 1).
    pub(super) fn in_flight_for(&self, bandwidth: Rate) -> u64 {
        self.with_budget(self.products(bandwidth, UNIT))
    }
}
