//! Path model: rounds, bandwidth, minimum RTT, aggregation (section 5.5).

use super::{Bbr3, UNIT, share};
use crate::congestion::Acked;
use crate::congestion::aggregation::Episode;
use crate::congestion::windowed_max::WindowedMax;
use crate::rate::RateSample;
use wavelane_base::{Instant, Rate, Span};

/// Probe cycles of the max bandwidth filter: the current and the previous (section 2.11, BBR.MaxBwFilterLen).
const MAX_BANDWIDTH_CYCLES: u64 = 2;
/// Round trips over which aggregation is remembered (section 2.12, BBR.ExtraAckedFilterLen), and in Startup (section 5.5.9).
const EXTRA_ROUNDS: u64 = 10;
const EXTRA_ROUNDS_STARTUP: u64 = 1;
/// How long the minimum RTT is valid (section 2.16.1, BBR.MinRTTFilterLen).
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// How long the minimum RTT may stay unconfirmed before ProbeRTT (section 2.16.2, BBR.ProbeRTTInterval).
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Model {
    rounds: u64,
    next_round_delivered: u64,
    /// This acknowledgement began a round trip.
    pub(super) round_began: bool,
    bandwidths: WindowedMax<Rate>,
    cycles: u64,
    /// The largest bandwidth within the bounds (BBR.bw).
    pub(super) bandwidth: Rate,
    pub(super) min_rtt: Option<Span>,
    min_rtt_at: Instant,
    /// The minimum RTT of the last interval between probes.
    probe_rtt_least: Option<Span>,
    pub(super) probe_rtt_least_at: Instant,
    pub(super) probe_rtt_expired: bool,
    pub(super) episode: Episode,
    extra: WindowedMax<u64>,
}

impl Model {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            rounds: 0,
            next_round_delivered: 0,
            round_began: false,
            bandwidths: WindowedMax::default(),
            cycles: 0,
            bandwidth: Rate::default(),
            min_rtt: None,
            min_rtt_at: now,
            probe_rtt_least: None,
            probe_rtt_least_at: now,
            probe_rtt_expired: false,
            episode: Episode::new(now),
            extra: WindowedMax::default(),
        }
    }
    /// BBR.max_bw.
    pub(super) fn max_bandwidth(&self) -> Rate {
        self.bandwidths.max()
    }
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }
    /// Section 5.5.6: later samples belong to the next cycle.
    pub(super) fn advance_max_bandwidth(&mut self) {
        self.cycles += 1;
    }
    /// BBR.extra_acked.
    pub(super) fn extra(&self) -> u64 {
        self.extra.max()
    }
}

impl Bbr3 {
    /// Section 5.5.1.
    pub(super) fn update_round(&mut self, sample: &RateSample, any: bool) {
        self.model.round_began = any && sample.prior_delivered >= self.model.next_round_delivered;
        if self.model.round_began {
            self.start_round();
            self.model.rounds += 1;
            self.cycle.rounds_since_up += 1;
        }
    }
    pub(super) fn start_round(&mut self) {
        self.model.next_round_delivered = self.delivered;
    }

    /// Section 5.5.5.
    pub(super) fn update_max_bandwidth(&mut self, sample: &RateSample) {
        let Some(rate) = sample.rate.filter(|rate| *rate > Rate::default()) else { return };
        let model = &mut self.model;
        if rate >= model.max_bandwidth() || !sample.app_limited {
            model.bandwidths.expire(model.cycles, MAX_BANDWIDTH_CYCLES);
            model.bandwidths.note(model.cycles, rate);
        }
    }

    /// Section 5.5.10.3, BoundBWForModel.
    pub(super) fn bound_bandwidth(&mut self) {
        self.model.bandwidth = self.model.max_bandwidth().min(self.bounds.bandwidth_short);
    }

    /// Section 5.5.9.
    pub(super) fn update_aggregation(&mut self, acked: &Acked) {
        if acked.octets == 0 {
            return;
        }
        let model = &mut self.model;
        let extra = model.episode.extra(acked, model.bandwidth, self.cwnd);
        model.extra.expire(model.rounds, if self.full.reached { EXTRA_ROUNDS } else { EXTRA_ROUNDS_STARTUP });
        model.extra.note(model.rounds, extra);
    }

    /// Section 5.3.4.3.
    pub(super) fn update_min_rtt(&mut self, acked: &Acked) {
        let model = &mut self.model;
        model.probe_rtt_expired = acked.now > model.probe_rtt_least_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = acked.rtt
            && (model.probe_rtt_expired || model.probe_rtt_least.is_none_or(|least| rtt < least))
        {
            model.probe_rtt_least = Some(rtt);
            model.probe_rtt_least_at = acked.now;
        }
        let expired = acked.now > model.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(least) = model.probe_rtt_least
            && (expired || model.min_rtt.is_none_or(|min| least < min))
        {
            model.min_rtt = Some(least);
            model.min_rtt_at = model.probe_rtt_least_at;
        }
    }

    /// `gain` bandwidth-delay products at `bandwidth` (section 5.6.4.2, BDPMultiple).
    pub(super) fn products(&self, bandwidth: Rate, gain: u64) -> u64 {
        self.model.min_rtt.map_or(self.initial, |rtt| share(bandwidth.octets_in(rtt).get(), gain))
    }
    /// BBR.bdp.
    pub(super) fn product(&self) -> u64 {
        self.products(self.model.bandwidth, UNIT)
    }
    /// Target in flight: the BDP, unless congestion has cut the window (section 5.3.3.8.3).
    pub(super) fn target_in_flight(&self) -> u64 {
        self.product().min(self.cwnd)
    }
}
