//! Startup, Drain and ProbeRTT, and when the pipe counts as full (sections 5.3.1, 5.3.2, 5.3.4).

use super::{Bbr3, UNIT};
use crate::rate::RateSample;
use wavelane_base::{Instant, Rate, Span};

/// Growth of the delivery rate within a round that shows unused capacity (section 5.3.1.2), in hundredths.
const GROWTH: u64 = 125;
/// Rounds without it after which the pipe counts as full (section 5.3.1.2).
const FULL_ROUNDS: u32 = 3;
/// Separate stretches lost in a round that end Startup (section 5.3.1.3, BBRStartupFullLossCnt).
const STARTUP_RANGES: u32 = 6;
/// Rounds after which Drain ends even if the queue is not drained (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Duration of the reduced in-flight level in ProbeRTT (section 2.16.2, BBR.ProbeRTTDuration).
const PROBE_RTT_TIME: Span = Span::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// One of ProbeBW's four.
    pub(super) fn is_probe_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

/// Whether the pipe is full (section 2.13).
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// It was full at least once.
    pub(super) reached: bool,
    /// It is full, since the search began.
    pub(super) now: bool,
    pub(super) rate: Rate,
    rounds: u32,
    drain_from: u64,
}

impl FullPipe {
    /// Restarts the search (section 5.3.1.2, ResetFullBW) from `rate`.
    pub(super) fn search_from(&mut self, rate: Rate) {
        self.rate = rate;
        self.rounds = 0;
        self.now = false;
    }
}

impl Bbr3 {
    /// Section 5.3.1.2. A sample without a rate is ignored.
    pub(super) fn check_full_pipe(&mut self, sample: &RateSample) {
        let Some(rate) = sample.rate.filter(|_| !self.full.now && self.model.round_began && !sample.app_limited) else {
            return;
        };
        if rate >= self.full.rate.scale(GROWTH, UNIT) {
            self.full.search_from(rate);
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= FULL_ROUNDS;
        self.full.reached |= self.full.now;
    }

    /// Section 5.3.1.1.
    pub(super) fn check_startup_done(&mut self, sample: &RateSample, fast: bool) {
        if self.state == State::Startup && self.is_startup_lossy(sample, fast) {
            self.saved.state = Some(State::Startup);
            self.full.reached = true;
            self.full.now = true;
            self.bounds.in_flight_long = self.product().max(self.bounds.in_flight_latest);
        }
        self.bounds.marked = false;
        if self.bounds.loss_round_began {
            self.bounds.ranges = 0;
        }
        if self.state == State::Startup && self.full.reached {
            self.state = State::Drain;
            self.full.drain_from = self.model.rounds();
        }
    }
    /// Section 5.3.1.3. Without SACK any loss suffices, as does a mark.
    fn is_startup_lossy(&self, sample: &RateSample, fast: bool) -> bool {
        let bounds = &self.bounds;
        let lossy = if self.selective {
            bounds.loss_round_began && bounds.ranges >= STARTUP_RANGES && self.is_too_high(sample)
        } else {
            bounds.ranges > 0
        };
        fast && lossy || bounds.marked
    }
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// Section 5.3.2.
    pub(super) fn check_drain_done(&mut self, now: Instant) {
        let late = || self.model.rounds() > self.full.drain_from + DRAIN_ROUNDS;
        if self.state == State::Drain && (self.flight <= self.in_flight_for(self.model.bandwidth) || late()) {
            self.start_down(now);
        }
    }

    /// Section 5.3.4.3.
    pub(super) fn check_probe_rtt(&mut self, now: Instant, sample: &RateSample) {
        if self.state != State::ProbeRtt && self.model.probe_rtt_expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_until = None;
            self.cycle.stop_probing();
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.go_on_probing_rtt(now);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }
    /// The sender marks samples in this state as app-limited: [`Bbr3::is_probing_rtt`].
    fn go_on_probing_rtt(&mut self, now: Instant) {
        if self.probe_rtt_until.is_some() {
            self.probe_rtt_round |= self.model.round_began;
            if self.probe_rtt_round {
                self.check_probe_rtt_done(now);
            }
        } else if self.flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_until = Some(now + PROBE_RTT_TIME);
            self.probe_rtt_round = false;
            self.start_round();
        }
    }
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.model.probe_rtt_least_at = now;
        self.restore_cwnd();
        // Section 5.3.4.4.
        self.bounds.reset_short_term();
        if self.full.reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.enter_startup();
        }
    }
}
