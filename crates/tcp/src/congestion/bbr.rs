//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).

use super::Acked;
use super::aggregation::Aggregation;
use super::policer::{Policer, Seen};
use super::windowed_max::WindowedMax;
use crate::rate::RateSample;
use wavelane_base::{Instant, Octets, Rate, Span};

/// 2/ln 2, the smallest gain that doubles the rate per round, in thousandths (section 4.1.1.2 of the draft).
const HIGH_GAIN: u64 = 2_885;
/// Its inverse, which drains the queue from Startup.
const DRAIN_GAIN: u64 = 347;
const UNIT: u64 = 1_000;
const CWND_GAIN: u64 = 2_000;
/// One round trip of probing, one of draining its queue, and the rest of cruising.
const CYCLE: [u64; 8] = [1_250, 750, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000];
/// Where the cycle may begin: any phase but the draining one (section 4.3.3.3).
const PHASES: [usize; 7] = [0, 2, 3, 4, 5, 6, 7];
/// Rounds of the max bandwidth filter.
const BANDWIDTH_ROUNDS: u64 = 10;
/// Rounds without 25 % growth after which the pipe counts as full.
const FULL_ROUNDS: u32 = 3;
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
const PROBE_RTT_TIME: Span = Span::from_millis(200);
/// Segments in flight in ProbeRTT, and the minimum at any time.
const CWND_MIN_SEGMENTS: u64 = 4;
/// The pacing rate in percent of the estimated bandwidth (Linux), so that queues drain.
const PACE_PERCENT: u64 = 99;
/// Burst size: 1/1024 s at the pacing rate, at least two segments above this rate, and at most 64 KiB (Linux).
const QUANTUM_SHIFT: u64 = 1_024;
const QUANTUM_TWO: Rate = Rate::from_bps(1_200_000);
const QUANTUM_MAX: u64 = 65_535;
/// RTT assumed before the first sample, to pace the initial window.
const RTT_ASSUMED: Span = Span::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    mss: u64,
    initial: u64,
    cwnd: u64,
    prior_cwnd: u64,
    pace: Rate,
    has_rtt: bool,
    bandwidth: WindowedMax<Rate>,
    rounds: u64,
    next_round_delivered: u64,
    min_rtt: Option<Span>,
    min_rtt_at: Instant,
    full_bandwidth: Rate,
    full_rounds: u32,
    cycle: usize,
    cycle_at: Instant,
    probe_rtt_until: Option<Instant>,
    probe_rtt_round: bool,
    /// Packet conservation in the first round of a recovery.
    conserving: bool,
    recovering: bool,
    aggregation: Aggregation,
    /// `None` never looks for one.
    policer: Option<Policer>,
    delivered: u64,
    delivered_at: Instant,
    /// What is left of the random number.
    dice: u32,
}

impl Bbr {
    pub(super) fn new(now: Instant, mss: u64, cwnd: u64, policers: bool, dice: u32) -> Self {
        Self {
            mode: Mode::Startup,
            mss,
            initial: cwnd,
            cwnd,
            prior_cwnd: 0,
            pace: Rate::of(Octets::new(cwnd), RTT_ASSUMED).scale(HIGH_GAIN, UNIT),
            has_rtt: false,
            bandwidth: WindowedMax::default(),
            rounds: 0,
            next_round_delivered: 0,
            min_rtt: None,
            min_rtt_at: now,
            full_bandwidth: Rate::default(),
            full_rounds: 0,
            cycle: PHASES[dice as usize % PHASES.len()],
            cycle_at: now,
            probe_rtt_until: None,
            probe_rtt_round: false,
            conserving: false,
            recovering: false,
            aggregation: Aggregation::new(now),
            policer: policers.then(Policer::default),
            delivered: 0,
            delivered_at: now,
            dice,
        }
    }
    pub(super) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
    }
    pub(super) fn cwnd(&self) -> u64 {
        self.cwnd
    }
    pub(super) fn pace(&self) -> Option<Rate> {
        Some(self.pace)
    }

    /// ProbeRTT: rate samples are limited by BBR itself (section 4.3.4.4).
    pub(super) fn is_probing_rtt(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }
    /// The most that was delivered.
    fn most(&self) -> Rate {
        self.bandwidth.max()
    }
    /// The rate of the path: a policer's, if there seems to be one.
    fn bandwidth(&self) -> Rate {
        self.policed().unwrap_or_else(|| self.most())
    }
    fn policed(&self) -> Option<Rate> {
        self.policer.as_ref().and_then(Policer::rate)
    }
    fn is_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }
    fn gains(&self) -> (u64, u64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policed().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        }
    }
    /// `gain` bandwidth-delay products.
    fn inflight(&self, bandwidth: Rate, gain: u64) -> u64 {
        let Some(rtt) = self.min_rtt else { return self.initial };
        let product = bandwidth.octets_in(rtt).get();
        (u128::from(product) * u128::from(gain) / u128::from(UNIT)) as u64
    }

    pub(super) fn on_ack(&mut self, acked: &Acked) {
        // Without a rate, version 1 learns nothing from a sample.
        let acked = &Acked { sample: acked.sample.filter(|sample| sample.rate.is_some()), ..*acked };
        if acked.octets > 0 {
            self.delivered = acked.delivered;
            self.delivered_at = acked.now;
        }
        self.note_lost(acked.lost);
        let round_began = self.update_round(acked);
        if let Some(sample) = acked.sample {
            self.look_for_policer(round_began, acked.lost > 0, sample.app_limited);
        }
        self.update_bandwidth(acked);
        self.aggregation.on_ack(acked, round_began, self.bandwidth(), self.cwnd);
        self.update_cycle(acked);
        self.check_full(acked, round_began);
        self.check_drain(acked);
        self.update_min_rtt(acked, round_began);
        self.set_pace(acked);
        self.set_cwnd(acked);
    }

    fn update_round(&mut self, acked: &Acked) -> bool {
        let began = acked.sample.is_some_and(|sample| sample.prior_delivered >= self.next_round_delivered);
        if began {
            self.next_round_delivered = acked.delivered;
            self.rounds += 1;
            self.conserving = false;
        }
        began
    }

    fn look_for_policer(&mut self, round_began: bool, losses: bool, app_limited: bool) {
        let cruising = self.mode == Mode::ProbeBandwidth;
        let seen =
            Seen { at: self.delivered_at, delivered: self.delivered, round_began, losses, app_limited, cruising };
        if self.policer.as_mut().is_some_and(|policer| policer.see(seen)) {
            self.dice = self.dice.rotate_right(3);
            self.cycle = PHASES[self.dice as usize % PHASES.len()];
            self.cycle_at = self.delivered_at;
        }
    }
    /// Bytes are newly marked lost.
    pub(super) fn note_lost(&mut self, octets: u64) {
        self.policer.iter_mut().for_each(|policer| policer.note_lost(octets));
    }

    fn update_bandwidth(&mut self, acked: &Acked) {
        let Some(RateSample { rate: Some(rate), app_limited, .. }) = acked.sample else { return };
        // Samples that are not counted do not age the filter either (section 4.1.1.5): ProbeRTT lasts more rounds than it
        // spans.
        if !app_limited || rate >= self.most() {
            self.bandwidth.expire(self.rounds, BANDWIDTH_ROUNDS);
            self.bandwidth.note(self.rounds, rate);
        }
    }

    fn update_cycle(&mut self, acked: &Acked) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let gain = self.gains().0;
        let elapsed = acked.now.since(self.cycle_at) > self.min_rtt.unwrap_or(Span::ZERO);
        let prior = acked.pipe + acked.octets;
        let next = if gain > UNIT {
            elapsed && (acked.lost > 0 || prior >= self.inflight(self.most(), gain))
        } else if gain < UNIT {
            elapsed || prior <= self.inflight(self.most(), UNIT)
        } else {
            elapsed
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_at = acked.now;
        }
    }

    fn check_full(&mut self, acked: &Acked, round_began: bool) {
        if self.is_full() || !round_began || acked.sample.is_none_or(|sample| sample.app_limited) {
            return;
        }
        if self.most() >= self.full_bandwidth.scale(5, 4) {
            self.full_bandwidth = self.most();
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
        }
    }

    fn check_drain(&mut self, acked: &Acked) {
        if self.mode == Mode::Startup && self.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && acked.pipe <= self.inflight(self.most(), UNIT) {
            self.mode = Mode::ProbeBandwidth;
            self.cycle_at = acked.now;
        }
    }

    fn update_min_rtt(&mut self, acked: &Acked, round_began: bool) {
        let expired = acked.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = acked.rtt
            && (expired || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = acked.now;
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_until = None;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_rtt_until {
            None if acked.pipe <= CWND_MIN_SEGMENTS * self.mss => {
                self.probe_rtt_until = Some(acked.now + PROBE_RTT_TIME);
                self.probe_rtt_round = false;
                self.next_round_delivered = acked.delivered;
            }
            None => {}
            Some(until) => {
                self.probe_rtt_round |= round_began;
                if self.probe_rtt_round && acked.now > until {
                    self.min_rtt_at = acked.now;
                    self.cwnd = self.cwnd.max(self.prior_cwnd);
                    self.mode = if self.is_full() { Mode::ProbeBandwidth } else { Mode::Startup };
                    self.cycle_at = acked.now;
                }
            }
        }
    }

    fn set_pace(&mut self, acked: &Acked) {
        if !self.has_rtt && acked.rtt.is_some() {
            self.has_rtt = true;
            self.pace = Rate::of(Octets::new(self.cwnd), acked.smoothed.max(RTT_ASSUMED)).scale(HIGH_GAIN, UNIT);
        }
        let pace = self.bandwidth().scale(self.gains().0 * PACE_PERCENT, UNIT * 100);
        if pace > Rate::default() && (self.is_full() || pace > self.pace) {
            self.pace = pace;
        }
    }

    fn set_cwnd(&mut self, acked: &Acked) {
        self.cwnd = self.cwnd.saturating_sub(acked.lost).max(self.mss);
        self.update_recovery(acked);
        let target = self.target();
        if self.conserving {
            self.cwnd = self.cwnd.max(acked.pipe + acked.octets);
        } else if self.is_full() {
            self.cwnd = (self.cwnd + acked.octets).min(target);
        } else if self.cwnd < target || acked.delivered < self.initial {
            self.cwnd += acked.octets;
        }
        self.cwnd = self.cwnd.max(CWND_MIN_SEGMENTS * self.mss);
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(CWND_MIN_SEGMENTS * self.mss);
        }
    }

    /// The gain times the BDP, plus room for bursts: one being sent, one being received, one for delayed acknowledgements;
    /// plus the measured ACK aggregation.
    fn target(&self) -> u64 {
        let due = self.pace.as_bps() / 8 / QUANTUM_SHIFT;
        let least = if self.pace < QUANTUM_TWO { 1 } else { 2 };
        let burst = (due.min(QUANTUM_MAX) / self.mss).max(least) * self.mss;
        let aggregated = if self.is_full() { self.aggregation.most(self.bandwidth()) } else { 0 };
        self.inflight(self.bandwidth(), self.gains().1) + 3 * burst + aggregated
    }

    fn save_cwnd(&mut self) {
        let fresh = !self.recovering && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if fresh { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    pub(super) fn on_congestion(&mut self) {
        self.save_cwnd();
    }
    /// As in Linux: compares the recovery state after the previous acknowledgement and after this one. Back-to-back
    /// recoveries are one to BBR, or it would conserve packets for ever where every round trip has losses.
    fn update_recovery(&mut self, acked: &Acked) {
        match (std::mem::replace(&mut self.recovering, acked.repairing), acked.repairing) {
            (false, true) => {
                // One round of packet conservation begins now.
                self.conserving = true;
                self.next_round_delivered = acked.delivered;
                self.cwnd = acked.pipe + acked.octets;
            }
            (true, false) => {
                self.conserving = false;
                self.cwnd = self.cwnd.max(self.prior_cwnd);
            }
            _ => {}
        }
    }
    /// As in Linux: the recovery was spurious, so neither the full pipe nor the policer is known.
    pub(super) fn take_back(&mut self) {
        self.full_bandwidth = Rate::default();
        if !self.is_full() {
            self.full_rounds = 0;
        }
        self.policer.iter_mut().for_each(Policer::forget);
    }
    /// An outage is over: what was lost in it calls for no round of conservation, and its time made no measurement older.
    pub(super) fn resume(&mut self, now: Instant) {
        self.recovering = true;
        self.conserving = false;
        self.min_rtt_at = now;
        self.policer.iter_mut().for_each(Policer::forget);
    }
    pub(super) fn on_timeout(&mut self, pipe: u64) {
        self.save_cwnd();
        self.recovering = true;
        // cwnd becomes the pipe plus one segment.
        self.cwnd = pipe + self.mss;
        self.conserving = false;
        self.full_bandwidth = Rate::default();
        // As the end of a round with losses.
        self.look_for_policer(true, true, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sections 4.1.1.5 and 4.3.4.4: the bandwidth outlives a probe of the round trip, though that takes twenty rounds.
    #[test]
    fn the_bandwidth_outlives_rounds_that_are_limited_otherwise() {
        let (fast, slow) = (Rate::from_bps(20_000_000), Rate::from_bps(1_000_000));
        let mut bbr = Bbr::new(Instant::ZERO, 1_000, 10_000, true, 0);
        let mut delivered = 0;
        let mut round = |bbr: &mut Bbr, rate, app_limited, ms| {
            let prior_delivered = delivered;
            delivered += 10_000;
            let sample = RateSample { rate: Some(rate), prior_delivered, app_limited, ..RateSample::default() };
            bbr.on_ack(&Acked {
                now: Instant::from_millis(ms),
                octets: 10_000,
                delivered,
                lost: 0,
                rtt: Some(Span::from_millis(10)),
                smoothed: Span::from_millis(10),
                least: Span::from_millis(10),
                pipe: 20_000,
                next: delivered + 20_000,
                una: delivered,
                limited: true,
                sample: Some(sample),
                repairing: false,
            });
        };
        (1..20).for_each(|i| round(&mut bbr, fast, false, 10 * i));
        (20..40).for_each(|i| round(&mut bbr, slow, true, 10 * i));
        assert_eq!(bbr.bandwidth(), fast);
        (40..51).for_each(|i| round(&mut bbr, slow, false, 10 * i));
        assert_eq!(bbr.bandwidth(), slow, "what counts does age it");
        bbr.mode = Mode::ProbeRtt;
        assert!(super::super::Algorithm::Bbr(Box::new(bbr)).limits_itself());
    }
}
