//! Undo of a spurious reduction: F-RTO (RFC 5682, section 3, in Linux's form with SACK), detection by timestamps (RFC 3522)
//! and by duplicate reports (RFC 3708); the response restores the window as RFC 4015 allows and Linux does.

use super::acked::AckIn;
use super::congestion::Algorithm;
use super::rtt::clock_ms;
use super::send::{Phase, Sender};
use wavelane_base::Instant;

/// The state before the latest reduction, while it may still prove spurious.
#[derive(Debug)]
pub(super) struct Undo {
    /// The first position not acknowledged at the time.
    from: u64,
    /// The controller before the reduction.
    prior: Algorithm,
    /// Retransmissions since then not reported as duplicates (D-SACK); `None` before the first.
    repeats: Option<u64>,
    /// When the first of them was sent, on our timestamp clock.
    first_repeat_ms: Option<u64>,
}

/// A timeout under suspicion (F-RTO).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Suspicion {
    /// None, or the timeout proved real.
    #[default]
    None,
    /// Only the first segment is retransmitted; the next acknowledgements decide (RFC 5682, section 3.1, step 1).
    Waiting,
    /// The first acknowledgement advanced, so new data is sent instead of retransmissions (step 2.b).
    Trying,
}

impl Sender {
    /// Saves the state before a reduction.
    pub(super) fn note_reduction(&mut self) {
        let prior = self.controller.clone();
        self.undo = self.config.undo.then_some(Undo { from: self.una, prior, repeats: None, first_repeat_ms: None });
    }

    /// A segment is retransmitted.
    pub(super) fn note_repeat(&mut self, now: Instant) {
        if let Some(undo) = &mut self.undo {
            undo.repeats = Some(undo.repeats.unwrap_or(0) + 1);
            undo.first_repeat_ms.get_or_insert(clock_ms(now));
        }
    }

    /// The receiver reported a retransmission as a duplicate.
    fn note_needless(&mut self, (left, right): (u64, u64)) {
        let segments = (right - left).div_ceil(self.mss).max(1);
        if let Some(undo) = &mut self.undo
            && left >= undo.from
        {
            undo.repeats = undo.repeats.map(|n| n.saturating_sub(segments));
        }
    }

    /// Whether an advancing acknowledgement echoes a segment sent before the first retransmission, or arrives before any
    /// retransmission was sent: the original had arrived (Linux's `tcp_packet_delayed`).
    fn is_original_answered(&self, now: Instant, ack: &AckIn<'_>) -> bool {
        let Some(first) = self.undo.as_ref().and_then(|undo| undo.first_repeat_ms) else { return true };
        ack.answered_ms(now).is_some_and(|at| at < first)
    }

    /// Undoes the latest reduction if it was spurious. `original`: the acknowledgement delivered a segment that was sent
    /// before the reduction and not retransmitted.
    pub(super) fn check_undo(&mut self, now: Instant, ack: &AckIn<'_>, advanced: u64, original: bool, sacked: bool) {
        if let Some(block) = ack.needless {
            self.note_needless(block);
        }
        if self.undo.is_none() {
            return;
        }
        let all_needless = self.undo.as_ref().is_some_and(|undo| undo.repeats == Some(0));
        let late = advanced > 0 && self.is_original_answered(now, ack);
        match self.phase {
            Phase::Loss(_) if late || all_needless || self.is_timeout_spurious(original) => {
                self.counters.spurious_timeouts += 1;
                self.take_back();
            }
            Phase::Loss(end) => self.follow_suspicion(end, advanced, sacked || ack.duplicate),
            Phase::Recovery(end) if all_needless || late && self.una >= end => self.take_back(),
            Phase::Recovery(_) if late => {
                // The hole was filled by a delayed segment.
                self.rack.note_reordering();
                // While a retransmission is in flight, its acknowledgement could be mistaken for the original's.
                if !self.board.is_repeat_in_flight() {
                    self.take_back();
                }
            }
            Phase::Open if all_needless => self.take_back(),
            _ => {}
        }
    }

    /// RFC 5682, section 3.1, step 3.b: a segment that was sent before the timeout and not retransmitted arrived.
    fn is_timeout_spurious(&self, original: bool) -> bool {
        self.suspicion != Suspicion::None && original
    }

    /// RFC 5682, section 3.1, steps 2.a, 2.b and 3.a.
    fn follow_suspicion(&mut self, end: u64, advanced: u64, duplicate: bool) {
        match self.suspicion {
            Suspicion::None => {}
            _ if duplicate => self.suspicion = Suspicion::None,
            Suspicion::Waiting if advanced > 0 && self.una < end => {
                self.suspicion = Suspicion::Trying;
                // Segments from here on were not sent before the timeout.
                self.phase = Phase::Loss(self.next);
            }
            Suspicion::Trying if advanced > 0 => self.suspicion = Suspicion::None,
            _ => {}
        }
    }

    fn take_back(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.counters.undone += 1;
        self.suspicion = Suspicion::None;
        if self.phase != Phase::Open {
            self.board.clear_lost();
        }
        self.controller.take_back(undo.prior);
        self.rtt.progress();
        self.retries = 0;
        self.phase = Phase::Open;
        self.prr = None;
        self.repeat_due = false;
        self.board.forget_left(u64::MAX);
    }
}
