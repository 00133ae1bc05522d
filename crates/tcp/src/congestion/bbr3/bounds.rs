//! Bounds from losses: short-term and long-term ones, and their undo (sections 5.5.10, 5.5.11).

use super::states::State;
use super::{Bbr3, UNBOUNDED, UNBOUNDED_RATE, UNIT, share};
use crate::congestion::Lost;
use crate::rate::RateSample;
use wavelane_base::{Instant, Rate};

/// The tolerated loss rate per round trip, in hundredths of the bytes in flight (section 2.8, BBR.LossThresh).
const LOSS_THRESHOLD: u64 = 2;
/// What is left of a bound after a round trip with losses, in hundredths (section 2.8, BBR.Beta).
const BETA: u64 = 70;

#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The short-term bounds, of this cycle (BBR.bw_shortterm, BBR.inflight_shortterm).
    pub(super) bandwidth_short: Rate,
    pub(super) in_flight_short: u64,
    /// The lasting one (BBR.inflight_longterm).
    pub(super) in_flight_long: u64,
    /// The most of this round trip.
    pub(super) bandwidth_latest: Rate,
    pub(super) in_flight_latest: u64,
    /// Something was lost in this round trip, and not answered by the end of a probe.
    pub(super) loss_in_round: bool,
    /// What was so before its first loss is saved.
    saved_in_round: bool,
    loss_round_delivered: u64,
    pub(super) loss_round_began: bool,
    /// Separate stretches lost in this round trip, and the end of the last.
    pub(super) ranges: u32,
    range_end: u64,
    /// A congestion mark arrived since the last acknowledgement was processed.
    pub(super) marked: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bandwidth_short: UNBOUNDED_RATE,
            in_flight_short: UNBOUNDED,
            in_flight_long: UNBOUNDED,
            bandwidth_latest: Rate::default(),
            in_flight_latest: 0,
            loss_in_round: false,
            saved_in_round: false,
            loss_round_delivered: 0,
            loss_round_began: false,
            ranges: 0,
            range_end: 0,
            marked: false,
        }
    }
}

impl Bounds {
    pub(super) fn reset_short_term(&mut self) {
        self.bandwidth_short = UNBOUNDED_RATE;
        self.in_flight_short = UNBOUNDED;
    }
    pub(super) fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.bandwidth_latest = Rate::default();
        self.in_flight_latest = 0;
    }
    pub(super) fn count_range(&mut self, start: u64, end: u64) {
        self.ranges += u32::from(start != self.range_end);
        self.range_end = end;
    }
}

/// State saved before a round trip's first loss (section 2.15).
#[derive(Clone, Debug, Default)]
pub(super) struct Saved {
    /// The state that losses ended.
    pub(super) state: Option<State>,
    bandwidth_short: Rate,
    in_flight_short: u64,
    in_flight_long: u64,
}

/// The in-flight level at which a lost segment exceeded the threshold: the bytes before it, and as many of its own as raise
/// the losses to the threshold (section 5.5.10.2, InflightAtLoss).
pub(super) fn in_flight_at_loss(lost: &Lost) -> u64 {
    let size = lost.end - lost.start;
    let (flight, lost_before) = (lost.in_flight.saturating_sub(size), lost.lost.saturating_sub(size));
    let allowed = share(flight, LOSS_THRESHOLD);
    flight + allowed.saturating_sub(lost_before) * UNIT / (UNIT - LOSS_THRESHOLD)
}

impl Bbr3 {
    /// Section 5.5.10.3, UpdateLatestDeliverySignals.
    pub(super) fn note_latest_delivery(&mut self, sample: &RateSample, any: bool) {
        let bounds = &mut self.bounds;
        bounds.bandwidth_latest = bounds.bandwidth_latest.max(sample.rate.unwrap_or_default());
        bounds.in_flight_latest = bounds.in_flight_latest.max(sample.delivered);
        bounds.loss_round_began = any && sample.prior_delivered >= bounds.loss_round_delivered;
        if bounds.loss_round_began {
            bounds.loss_round_delivered = self.delivered;
            bounds.saved_in_round = false;
        }
    }
    /// Section 5.5.10.3, AdvanceLatestDeliverySignals.
    pub(super) fn advance_latest_delivery(&mut self, sample: &RateSample) {
        if self.bounds.loss_round_began {
            self.bounds.bandwidth_latest = sample.rate.unwrap_or_default();
            self.bounds.in_flight_latest = sample.delivered;
        }
    }
    /// Once per round trip (section 5.5.10.3, UpdateCongestionSignals).
    pub(super) fn adapt_short_term(&mut self) {
        if !self.bounds.loss_round_began {
            return;
        }
        if std::mem::take(&mut self.bounds.loss_in_round) && !self.is_probing_bandwidth() {
            self.lower_short_term();
        }
    }
    fn lower_short_term(&mut self) {
        let (max, cwnd, bounds) = (self.model.max_bandwidth(), self.cwnd, &mut self.bounds);
        if bounds.bandwidth_short == UNBOUNDED_RATE {
            bounds.bandwidth_short = max;
        }
        if bounds.in_flight_short == UNBOUNDED {
            bounds.in_flight_short = cwnd;
        }
        bounds.bandwidth_short = bounds.bandwidth_latest.max(bounds.bandwidth_short.scale(BETA, UNIT));
        bounds.in_flight_short = bounds.in_flight_latest.max(share(bounds.in_flight_short, BETA));
    }

    /// Section 5.5.10.2, IsInflightTooHigh.
    pub(super) fn is_too_high(&self, sample: &RateSample) -> bool {
        let over =
            u128::from(sample.lost) * u128::from(UNIT) > u128::from(sample.in_flight) * u128::from(LOSS_THRESHOLD);
        over || sample.lost > 0 && !self.selective
    }
    /// Section 5.5.10.2, HandleInflightTooHigh.
    pub(super) fn on_too_high(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.cycle.went_too_high = true;
        self.cycle.samples_probe = false;
        if !app_limited {
            self.bounds.in_flight_long = in_flight.max(share(self.target_in_flight(), BETA));
        }
        if self.state == State::Up {
            self.saved.state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// Section 5.5.10.2, NoteLoss. The draft saves again whenever [`Bounds::loss_in_round`] was cleared, as at the end of a
    /// probe: the next loss of the same flight would save already changed state.
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !std::mem::replace(&mut self.bounds.loss_in_round, true) {
            self.bounds.loss_round_delivered = delivered;
        }
        if !std::mem::replace(&mut self.bounds.saved_in_round, true) {
            self.save_cwnd();
            self.saved = Saved {
                state: None,
                bandwidth_short: self.bounds.bandwidth_short,
                in_flight_short: self.bounds.in_flight_short,
                in_flight_long: self.bounds.in_flight_long,
            };
        }
    }
    /// Section 5.5.11.2, HandleSpuriousLossDetection.
    pub(in crate::congestion) fn on_spurious_recovery(&mut self) {
        self.restore_cwnd();
        self.bounds.loss_in_round = false;
        self.bounds.saved_in_round = false;
        self.full.search_from(Rate::default());
        self.bounds.bandwidth_short = self.bounds.bandwidth_short.max(self.saved.bandwidth_short);
        self.bounds.in_flight_short = self.bounds.in_flight_short.max(self.saved.in_flight_short);
        self.bounds.in_flight_long = self.bounds.in_flight_long.max(self.saved.in_flight_long);
        let probing_rtt = self.state == State::ProbeRtt;
        match self.saved.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.reached = false;
                if !probing_rtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if self.state != State::Up && !probing_rtt => self.start_refill(),
            _ => {}
        }
    }
}
