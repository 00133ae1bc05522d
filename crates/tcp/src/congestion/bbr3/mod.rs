//! BBR version 3 (draft-ietf-ccwg-bbr-06; the sections named in this folder are that document's).
//!
//! [`model`] estimates the path, [`bounds`] keeps the limits derived from losses, [`states`] and [`cycle`] decide when to
//! send faster or slower than the delivery rate, and [`control`] sets pacing rate and cwnd accordingly. Integers throughout:
//! the same bits on every machine. `docs/decisions/0025-bbr-v3.md` says where the draft left a choice and where this departs
//! from it.

mod bounds;
mod control;
mod cycle;
mod model;
mod states;
#[cfg(test)]
mod tests;

use super::{Acked, Lost};
use crate::rate::RateSample;
use bounds::{Bounds, Saved};
use cycle::Cycle;
use model::Model;
use states::{FullPipe, State};
use wavelane_base::{Chance, Instant, Rate, Seed, Span};

/// Gains and shares are in hundredths.
const UNIT: u64 = 100;
/// Minimum segments in flight, so that one acknowledgement per two segments keeps data flowing (section 2.8,
/// BBR.MinPipeCwnd).
const MIN_PIPE_SEGMENTS: u64 = 4;
/// No bound.
const UNBOUNDED: u64 = u64::MAX;
const UNBOUNDED_RATE: Rate = Rate::from_bps(u64::MAX);

/// `hundredths` of `octets`.
fn share(octets: u64, hundredths: u64) -> u64 {
    u64::try_from(u128::from(octets) * u128::from(hundredths) / u128::from(UNIT)).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr3 {
    state: State,
    model: Model,
    bounds: Bounds,
    saved: Saved,
    full: FullPipe,
    cycle: Cycle,
    /// When ProbeRTT may end; `None` until the bytes in flight are low enough.
    probe_rtt_until: Option<Instant>,
    probe_rtt_round: bool,
    idle_restart: bool,
    /// Losses are known one by one (C.has_selective_acks).
    selective: bool,
    mss: u64,
    /// The initial window.
    initial: u64,
    cwnd: u64,
    /// The last cwnd not changed by a recovery or ProbeRTT.
    prior_cwnd: u64,
    recovering: bool,
    /// Whether sending was cwnd-limited in this round trip, and in the previous one.
    limited: [bool; 2],
    pace: Rate,
    has_rtt: bool,
    /// Burst size (C.send_quantum).
    quantum: u64,
    /// As of the last acknowledgement: bytes delivered, and in flight before and after it.
    delivered: u64,
    flight_before: u64,
    flight: u64,
    chance: Chance,
}

impl Bbr3 {
    /// `cwnd` is the initial window, `dice` a random number from the owner, from which the waits between probes are derived.
    pub(super) fn new(now: Instant, mss: u64, cwnd: u64, selective: bool, dice: u32) -> Self {
        Self {
            state: State::Startup,
            model: Model::new(now),
            bounds: Bounds::default(),
            saved: Saved::default(),
            full: FullPipe::default(),
            cycle: Cycle::new(now),
            probe_rtt_until: None,
            probe_rtt_round: false,
            idle_restart: false,
            selective,
            mss,
            initial: cwnd,
            cwnd,
            prior_cwnd: 0,
            recovering: false,
            limited: [false; 2],
            pace: control::pace_before_any_rate(cwnd, Span::ZERO),
            has_rtt: false,
            quantum: 2 * mss,
            delivered: 0,
            flight_before: 0,
            flight: 0,
            chance: Seed(u64::from(dice)).chance("waits between bandwidth probes"),
        }
    }
    pub(super) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
    }
    pub(super) fn cwnd(&self) -> u64 {
        self.cwnd
    }
    pub(super) fn pace(&self) -> Rate {
        self.pace
    }
    pub(super) fn is_probing_rtt(&self) -> bool {
        self.state == State::ProbeRtt
    }

    /// Section 5.2.3. `fast` in a fast recovery.
    pub(super) fn on_ack(&mut self, acked: &Acked, fast: bool) {
        self.delivered = acked.delivered;
        self.flight_before = acked.pipe + acked.octets + acked.lost;
        self.flight = acked.pipe;
        let sample = acked.sample.unwrap_or_default();
        let any = acked.sample.is_some();

        self.note_latest_delivery(&sample, any);
        self.update_round(&sample, any);
        self.note_use_of_window();
        self.update_max_bandwidth(&sample);
        self.adapt_short_term();
        self.update_aggregation(acked);
        self.check_full_pipe(&sample);
        self.check_startup_done(&sample, fast);
        self.check_drain_done(acked.now);
        self.update_cycle(acked, &sample);
        self.update_min_rtt(acked);
        self.check_probe_rtt(acked.now, &sample);
        self.advance_latest_delivery(&sample);
        self.bound_bandwidth();

        self.set_pace(acked);
        self.set_quantum();
        self.leave_recovery(acked.repairing);
        self.set_cwnd(acked);
    }

    /// Section 5.2.4.
    pub(super) fn on_lost(&mut self, lost: &Lost) {
        self.note_loss(lost.delivered);
        self.bounds.count_range(lost.start, lost.end);
        if !self.cycle.samples_probe {
            return;
        }
        let sample = RateSample { in_flight: lost.in_flight, lost: lost.lost, ..RateSample::default() };
        if self.is_too_high(&sample) {
            let in_flight = bounds::in_flight_at_loss(lost);
            self.on_too_high(lost.now, in_flight, lost.app_limited);
        }
    }

    /// A fast recovery begins (section 5.6.4.4, OnEnterFastRecovery): losses were reported before, except one repaired by a
    /// tail loss probe, and marks.
    pub(super) fn on_congestion(&mut self) {
        self.note_loss(self.delivered);
        self.save_cwnd();
        self.recovering = true;
    }

    /// Marks have no separate rule but must be treated as congestion (section 3.7). At most one is reported per round trip,
    /// so it is treated as a loss on a connection that detects at most one per round trip.
    pub(super) fn on_mark(&mut self, now: Instant, pipe: u64) {
        self.bounds.marked = true;
        if self.cycle.samples_probe {
            self.on_too_high(now, pipe, false);
        }
    }

    /// Section 5.6.4.4, OnEnterRTO, with `pipe` bytes not marked lost.
    pub(super) fn on_timeout(&mut self, pipe: u64) {
        self.on_congestion();
        if !self.is_probing_bandwidth() && self.bounds.in_flight_short == UNBOUNDED {
            // The bound starts from the window before the timeout, not from the one segment left (as in Linux's version
            // 3, bbr_set_state; the draft says nothing).
            self.bounds.in_flight_short = self.cwnd.max(self.prior_cwnd);
        }
        self.cwnd = pipe + self.mss;
    }

    /// Section 5.4.1: sending restarts after an application pause, with nothing in flight.
    pub(super) fn on_restart(&mut self, now: Instant) {
        self.idle_restart = true;
        self.model.episode.restart(now);
        if self.state.is_probe_bandwidth() {
            self.set_pace_with(UNIT);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    /// Section 5.6.4.4.
    fn save_cwnd(&mut self) {
        let fresh = !self.recovering && self.state != State::ProbeRtt;
        self.prior_cwnd = if fresh { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
    fn leave_recovery(&mut self, repairing: bool) {
        if self.recovering && !repairing {
            self.recovering = false;
            self.restore_cwnd();
        }
    }

    /// C.is_cwnd_limited (section 2.2): no further segment fitted at some point of the last round trip.
    fn note_use_of_window(&mut self) {
        if self.model.round_began {
            self.limited = [false, self.limited[0]];
        }
        self.limited[0] |= self.flight_before + self.mss > self.cwnd;
    }
    fn is_cwnd_limited(&self) -> bool {
        self.limited != [false; 2]
    }
}
