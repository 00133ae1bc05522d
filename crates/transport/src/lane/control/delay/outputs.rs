//! Pacing rate and window, derived from the rate, the phase and the queue.

use super::startup::Believed;
use super::{DOUBT_FLOOR, Delay, Phase, RATE_MAX, RATE_MIN, SERVICE_MIN};
use crate::lane::control::service::Served;
use crate::lane::control::{AckSample, PACKET};
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use wavelane_base::{Octets, Rate, Span};

/// Loop gain per loop delay. A pure integrator with dead time is stable below pi / 2 and well damped below 0.5.
const GAIN: f64 = 0.4;
const CRUISE_GAIN_MIN: f64 = 0.6;
const CRUISE_GAIN_MAX: f64 = 1.5;
/// Pacing gain in startup, and while the rate is known only from the first train.
const STARTUP_GAIN: f64 = 2.0;
const TRAIN_GAIN: f64 = 1.5;
/// Pacing gain by consecutive empty rounds, while the queue stays empty although the rate is raised.
pub(super) const RAISE_GAINS: [f64; 5] = [1.0, 1.1, 1.25, 1.5, 2.0];
/// Pacing gain of a drain, and of one that examines a queue that does not shrink.
pub(super) const DRAIN_GAIN: f64 = 0.5;
const REBASE_GAIN: f64 = 0.3;
/// On a link whose own rate varies the window limits, not the pacer.
const SPURT_PACE: (u64, u64) = (5, 4);
/// And there no rate, drain or trial holds back this many packets in a round trip and [`RISE_SPAN`]: the rate may be that of a stall, and only
/// a packet shows that the link goes on. Nor more than this part of the best rate of the last minute: a link that is always slow has no rise.
const RISE_PACKETS: u64 = 2;
const RISE_SPAN: Span = Span::from_millis(100);
const RISE_PART: (u64, u64) = (1, 4);
/// If losses come in bursts the window also bridges their silence: twice the longest recent burst, because the next may be longer (of
/// exponential bursts one in seven is twice the mean), and within these bounds.
const BRIDGE_MIN: Span = Span::from_millis(120);
const BRIDGE_MAX: Span = Span::from_millis(250);
/// Acks this far apart, at a round trip this long, report too fast a start too late: then the window is the amount delivered plus the first
/// window, which doubles with every ack, spread over the time between two.
const BLIND_APART: Span = Span::from_millis(200);
const BLIND_RTT: Span = Span::from_millis(700);

impl Delay {
    pub(super) fn set_outputs(&mut self, sample: &AckSample, forward: &Forward, losses: &Losses, queue: Span) {
        if self.phase == Phase::Compete
            && let Some((pacing, window)) = self.compete.outputs()
        {
            self.pacing = pacing.clamp(RATE_MIN, RATE_MAX);
            self.window = window.max(4 * PACKET);
            return;
        }
        let target = self.target(forward);
        let loop_delay = sample.rtt_min + self.service_window(sample, forward) + sample.acks_thin;
        let gain = self.gain(loop_delay, target, queue);
        if self.phase == Phase::Startup && self.best.as_bps() == 0 && self.train_is_out() {
            return;
        }
        self.pacing = self.rate.scale((gain * 1000.0) as u64, 1000).clamp(self.drain_floor(), RATE_MAX);
        let bridge = match losses.longest_burst(sample.now) {
            Span::ZERO => Span::ZERO,
            // The burst was the queue's: it overflowed while the link stood still.
            _ if self.swings(forward.jitter()) => Span::ZERO,
            // With a short round trip the tail probe detects the end of the burst just as soon.
            longest => longest.times(2).clamp(BRIDGE_MIN, BRIDGE_MAX).min(longest.max(sample.rtt_min.times(2))),
        };
        let held = self.base_rtt(sample, forward) + target + forward.jitter() + bridge;
        let by_rate = self.rate.scale((gain.max(1.0) * 1000.0) as u64, 1000).octets_in(held).get();
        // Packets that arrive between two acks are in flight until the second.
        let unacked = self.rate.octets_in(sample.acks_apart).get().max(2 * PACKET);
        self.window = (by_rate + unacked).max(4 * PACKET);
        let limited = self.cause.ceiling().is_some() || self.cause.trying();
        if self.phase == Phase::Cruise
            && !limited
            && let Some(bytes) = self.spurts(forward)
        {
            self.window = (bytes + unacked).max(4 * PACKET);
            let pacing = Rate::of(Octets::new(self.window), self.base_rtt(sample, forward));
            self.pacing = pacing.scale(SPURT_PACE.0, SPURT_PACE.1).clamp(self.drain_floor(), RATE_MAX);
        }
        if self.swings(forward.jitter()) {
            let least = Rate::of(Octets::new(RISE_PACKETS * PACKET), self.base_rtt(sample, forward) + RISE_SPAN);
            self.pacing = self.pacing.max(least.min(self.compete.best().scale(RISE_PART.0, RISE_PART.1)));
        }
        if self.phase == Phase::Startup {
            self.window = self.window.max(self.first_window);
            // While nothing has shown the rate, a window by that rate would overrun a slow path before the first acks come: slow start
            // (RFC 5681, section 3.1).
            let shown = self.best.max(self.round_best) >= self.rate || matches!(self.believed, Believed::Train(_));
            if !shown {
                self.window = self.window.min(self.first_window + self.delivered);
            }
            if sample.acks_thin >= BLIND_APART && sample.rtt_min >= BLIND_RTT {
                let most = self.first_window + self.delivered;
                self.window = self.window.min(most);
                self.pacing = self.pacing.min(Rate::of(Octets::new(most), sample.acks_thin));
            }
        }
    }

    /// Until half of the first window arrived it may still show more. An application that sends in small pieces has not sent it yet:
    /// doubling meanwhile yields no rate, and a window of that size is all queue.
    fn train_is_out(&self) -> bool {
        let sparse = |served: Served| served.app_limited && served.delivered <= self.rate;
        self.busy < self.first_window / 2 && self.service.rate(SERVICE_MIN.scale(1, 2)).is_none_or(sparse)
    }

    /// The lowest pacing rate: otherwise packets sent ahead of the pacer would be paid off for seconds.
    pub(super) fn drain_floor(&self) -> Rate {
        RATE_MIN.max(self.rate.min(DOUBT_FLOOR).scale((CRUISE_GAIN_MIN * 1000.0) as u64, 1000))
    }

    /// The ratio of pacing rate to rate.
    fn gain(&self, loop_delay: Span, target: Span, queue: Span) -> f64 {
        match self.phase {
            // A rate shown by a train of 10 ms may be a token bucket's depth: only a rate that the link sustained longer is doubled.
            Phase::Startup if matches!(self.believed, Believed::Train(_)) => TRAIN_GAIN,
            Phase::Startup => STARTUP_GAIN,
            Phase::Compete => 1.0,
            Phase::Drain { rebase: None, .. } => DRAIN_GAIN,
            Phase::Drain { rebase: Some(_), .. } => REBASE_GAIN,
            Phase::Cruise => {
                let error = target.as_secs_f64() - queue.as_secs_f64();
                let law = (1.0 + GAIN * error / loop_delay.as_secs_f64()).clamp(CRUISE_GAIN_MIN, CRUISE_GAIN_MAX);
                let gain = if self.raise > 0 { law.max(RAISE_GAINS[self.raise]) } else { law };
                if self.cause.ceiling().is_none() && !self.cause.trying() {
                    return self.probe.gain().map_or(gain, |probe| probe as f64 / 1000.0);
                }
                let (num, den) = self.cause.pacing_gain();
                gain.min(1.0) * (num as f64 / den as f64)
            }
        }
    }
}
