//! The sender's timers: when the next is due, and its action.

use super::send::{Phase, Sender};
use super::undo::Suspicion;
use wavelane_base::{Instant, Span, Wakeup};

/// RFC 8985, section 7.2, WCDelAckT: the longest delay of an acknowledgement to expect.
const DELAYED_ACK_WORST: Span = Span::from_millis(200);
/// How long a connection outlives an outage while it tries often: about as long as Linux's 15 tries take (`tcp_retries2`).
const OUTAGE_PATIENCE: Span = Span::from_secs(924);
/// So many timeouts in a row are an outage: a single one may have been congestion.
const OUTAGE_TIMEOUTS: u32 = 2;
/// Tries are as far apart as this part of the outage so far, so that it seems longer by no more than that.
const OUTAGE_SHARE: u64 = 128;
/// Octets of a try.
pub(super) const TRY_OCTETS: u64 = 1;
/// Links come up with several messages; beyond, a connection that was called in vain rests, each time twice as long.
const CALLS_FREE: u32 = 4;
const CALL_REST: Span = Span::from_millis(400);
const CALL_DOUBLINGS: u32 = 8;
/// Linux waits at least two ticks of its clock.
const TAIL_PROBE_MIN: Span = Span::from_millis(2);

impl Sender {
    /// The next deadline of this half.
    pub(super) fn deadline(&self) -> Option<Wakeup> {
        let at = |at: Option<Instant>, cause| at.map(|at| Wakeup { at, cause });
        // On a tie, the probe is first.
        let mut next = at(self.tail_at, "tail loss probe");
        for other in [
            at(self.rto_at, "retransmission timeout"),
            at(self.rack_at, "reordering window"),
            at(self.persist.at, "zero-window probe"),
            at(self.paced(), "pacing"),
        ] {
            next = Wakeup::earliest(next, other);
        }
        next
    }

    /// RFC 6298, section 5.2 and 5.3.
    pub(super) fn rearm(&mut self, now: Instant, advanced: bool) {
        if self.board.is_empty() {
            self.rto_at = None;
            self.rack_at = None;
            self.tail_at = None;
            self.tail_probe_due = false;
        } else if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rtt.rto());
        }
        if advanced || self.board.sacked_segments() > 0 {
            self.arm_tail_probe(now);
        }
    }

    /// RFC 8985, section 7.2.
    pub(super) fn arm_tail_probe(&mut self, now: Instant) {
        self.tail_at = None;
        let allowed = self.config.rack_tlp && self.sack && self.phase == Phase::Open && self.una > 0;
        if !allowed || self.tail_probe.is_some() || self.board.is_empty() || self.board.sacked_segments() > 0 {
            return;
        }
        let mut wait = self.rtt.smoothed().map_or(Span::from_secs(1), |rtt| rtt.times(2));
        if self.board.len() == 1 {
            // The peer may delay the acknowledgement of a single segment.
            wait += DELAYED_ACK_WORST;
        }
        let at = now + wait.max(TAIL_PROBE_MIN);
        // If the RTO would expire first, the probe replaces it (TLP_calc_PTO).
        self.tail_at = Some(self.rto_at.map_or(at, |rto| at.min(rto)));
    }

    /// Handles due timers. Returns whether to give up on the peer.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.train.held = false;
        if due(self.rack_at) {
            let lost = self.board.lost();
            let known = self.known_losses();
            let repairing = self.phase != Phase::Open;
            let (min, smoothed) = (self.rtt.min(), self.rtt.smoothed());
            self.rack_at = self.rack.detect(now, &mut self.board, repairing, min, smoothed);
            self.tell_losses(now, &known);
            self.controller.note_lost(self.board.lost() - lost);
            if self.board.lost() > lost && self.phase == Phase::Open {
                self.begin_recovery(now);
                self.counters.recoveries += 1;
            }
        }
        if due(self.tail_at) {
            self.tail_at = None;
            self.tail_probe_due = true;
            self.counters.tail_probes += 1;
            self.rto_at = Some(now + self.rtt.rto());
        }
        if due(self.persist.at) {
            return self.on_persist(now);
        }
        due(self.rto_at) && self.on_rto(now)
    }

    /// RFC 6298, section 5.4 to 5.6.
    fn on_rto(&mut self, now: Instant) -> bool {
        let retries = if self.una == 0 { self.config.syn_retries } else { self.config.data_retries };
        if self.retries == 0 {
            self.silent_since = now;
        }
        // Tries made often, or because its side is heard again, say nothing of how long an outage lasts.
        let often = self.config.probe.is_some() && self.una > 0;
        let patient = often && now.since(self.silent_since) < OUTAGE_PATIENCE;
        if self.retries >= retries && !patient {
            return true;
        }
        let first = match self.phase {
            Phase::Open => true,
            Phase::Recovery(_) => self.config.reduce_again,
            Phase::Loss(_) => self.retries == 0,
        };
        self.retries += 1;
        self.tries = self.probes;
        // From then on that is known without having been called.
        self.called_back &= self.retries < OUTAGE_TIMEOUTS;
        self.counters.timeouts += 1;
        self.rtt.back_off();
        let in_flight = if self.config.quirks.guess_arrivals { self.board.pipe() } else { self.next - self.una };
        let known = self.known_losses();
        let lost = self.board.lost();
        self.board.mark_all_lost();
        if self.una > 0 {
            self.tell_losses(now, &known);
            self.controller.note_lost(self.board.lost() - lost);
            // A repeated timeout keeps the state saved by the first (RFC 5682, section 3.1, step 1).
            if self.phase == Phase::Open {
                self.note_reduction();
            }
            // A timeout in a recovery follows a loss detected by other means: F-RTO does not apply (as in Linux).
            let suspect = self.config.undo && (self.phase == Phase::Open || self.retries > 1);
            self.suspicion = if suspect { Suspicion::Waiting } else { Suspicion::None };
            self.reduced_due = true;
            if self.config.probe.is_some() && self.retries == 1 {
                self.prior = Some(self.controller.clone());
            }
            self.controller.on_timeout(now, in_flight, first);
        }
        self.phase = Phase::Loss(self.next);
        self.repeat_due = false;
        self.prr = None;
        self.duplicates = 0;
        self.tail_probe = None;
        self.tail_probe_due = false;
        self.rack_at = None;
        self.tail_at = None;
        self.pace_next = now;
        self.rto_at = Some(now + self.patience(now));
        false
    }

    /// The timeout, or less for the one that tries in an outage: not more often than an answer could come, and the more rarely the longer
    /// it lasts.
    pub(super) fn patience(&self, now: Instant) -> Span {
        let probe = self.config.probe.filter(|_| self.probes && self.retries > 0);
        probe.map_or(self.rtt.rto(), |probe| {
            let (answer, silence) = (self.rtt.smoothed().unwrap_or_default(), now.since(self.silent_since));
            probe.max(answer).max(silence.scale(1, OUTAGE_SHARE)).min(self.rtt.rto())
        })
    }

    /// Whether it is the one that tries now: then not later than a try from now, and once another has its turn in its own time.
    pub(super) fn set_probes(&mut self, now: Instant, probes: bool) {
        let before = std::mem::replace(&mut self.probes, probes);
        if !self.board.is_empty() && (probes || before) {
            let at = now + self.patience(now);
            self.rto_at = self.rto_at.map(|before| if probes { before.min(at) } else { at });
        }
    }

    /// Whether what is sent now only asks for an answer: most tries of an outage are in vain.
    pub(super) fn is_try(&self) -> bool {
        self.tries && self.retries >= OUTAGE_TIMEOUTS && !self.called_back
    }

    /// Its side is heard again after a silence: retransmits at once, whatever the back-off (RFC 6069 does so for one timeout more). One that
    /// was called in vain may be out by itself, and is called more and more rarely.
    pub(super) fn call_back(&mut self, now: Instant) {
        if self.retries == 0 || self.board.is_empty() {
            return;
        }
        let (vain, last) = self.calls;
        if vain >= CALLS_FREE && now.since(last) < CALL_REST.times(1 << (vain - CALLS_FREE).min(CALL_DOUBLINGS)) {
            return;
        }
        self.calls = (vain + 1, now);
        self.called_back = true;
        // A link's first words may come before its routes.
        if vain < CALLS_FREE {
            self.rtt.progress();
        }
        self.board.mark_all_lost();
        self.pace_next = now;
        self.rto_at = Some(now + self.rtt.rto());
    }

    /// How much was newly acknowledged, perhaps by the answer to a try of a long segment.
    pub(super) fn note_try(&mut self, advanced: u64) {
        if advanced > TRY_OCTETS {
            self.only_tries = 0;
        } else if self.is_try() && self.board.front().is_some_and(|rest| rest.again && rest.len() > TRY_OCTETS) {
            self.only_tries += 1;
        }
    }

    /// The first progress after an outage: what was lost is repaired with the window from before it.
    pub(super) fn end_outage(&mut self, now: Instant) {
        let Some(prior) = self.prior.take() else { return };
        if self.retries < OUTAGE_TIMEOUTS && !self.called_back {
            return;
        }
        // A try had a part of a segment.
        self.board.mark_all_lost();
        self.called_back = false;
        self.undo = None;
        self.suspicion = Suspicion::None;
        self.controller.resume(now, prior);
        self.rtt.progress();
    }
}
