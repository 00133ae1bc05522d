//! Processing of acknowledgements by the sender.

use super::burst::Train;
use super::congestion::Acked;
use super::receive::IDLE_ROOM;
use super::recovery::{DUP_THRESH, Prr, mark_below_reports};
use super::rtt::clock_ms;
use super::scoreboard::Sent;
use super::send::{Phase, Sender};
use super::undo::Suspicion;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// An acceptable acknowledgement, in positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckIn<'a> {
    pub(super) ack: u64,
    /// Reported blocks within what is in flight.
    pub(super) blocks: &'a [(u64, u64)],
    /// The block that the receiver reports as a duplicate (RFC 2883).
    pub(super) needless: Option<(u64, u64)>,
    /// ECN echo.
    pub(super) marked: bool,
    /// The round trip by timestamps, if the option is in use.
    pub(super) echoed: Option<Span>,
    /// A duplicate acknowledgement as RFC 5681, section 2, defines it.
    pub(super) duplicate: bool,
}

impl AckIn<'_> {
    /// When the acknowledged segment was sent, on our timestamp clock.
    pub(super) fn answered_ms(&self, now: Instant) -> Option<u64> {
        self.echoed.map(|rtt| clock_ms(now).saturating_sub(rtt.as_nanos() / 1_000_000))
    }
}

/// What one acknowledgement newly delivered.
#[derive(Debug, Default)]
struct News {
    octets: u64,
    /// The oldest segment newly acknowledged in order, and whether any was retransmitted.
    oldest: Option<Instant>,
    latest: Option<Instant>,
    any_again: bool,
    /// A segment that was sent once and lies below the end of the recovery arrived.
    original: bool,
}

impl News {
    fn note(&mut self, sent: &Sent, repair_end: u64, measures_lost: bool) {
        self.octets += sent.len();
        self.original |= !sent.again && sent.end <= repair_end;
        if sent.again || (sent.lost && !measures_lost) {
            self.any_again = true;
            return;
        }
        let at = sent.stamp.sent_at;
        self.oldest = Some(self.oldest.map_or(at, |old| old.min(at)));
        self.latest = self.latest.max(Some(at));
    }
}

impl Sender {
    /// Processes an acknowledgement. Returns whether it advanced the cumulative acknowledgement.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &AckIn<'_>) -> bool {
        let (prior_pipe, prior_una) = (self.board.pipe(), self.una);
        self.train = Train::default();
        let limited = self.is_limited(prior_pipe);
        let mut news = self.deliver(now, ack);
        let advanced = self.una - prior_una;
        let rtt = self.measure(now, ack, &news, advanced);
        if advanced > 0 {
            self.note_try(advanced);
            self.end_outage(now);
            self.retries = 0;
            self.calls.0 = 0;
            self.restart_timer();
        }
        self.check_tail_probe(now, ack);
        if let Some((left, _)) = ack.needless {
            self.counters.needless += 1;
            self.rack.on_duplicate_report(self.una, self.next);
            if self.board.is_reported_repeat(left) {
                // A duplicate above a hole: the original was delayed, not lost.
                self.rack.note_reordering();
            }
        }
        self.count_duplicates(ack, advanced);
        let sacked = news.octets > advanced;
        let undone = self.counters.undone;
        self.check_undo(now, ack, advanced, news.original, sacked);
        // An undone reduction is not signalled with CWR.
        self.reduced_due &= self.counters.undone == undone;
        if let Phase::Loss(end) = self.phase
            && self.una >= end
            && self.config.quirks.no_growth_when_repaired
        {
            news.octets = self.una - end;
        }
        self.leave_phases(advanced);
        let before = self.board.lost();
        let known = self.known_losses();
        let begins = self.detect_losses(now, ack, advanced);
        let lost = self.board.lost() - before;
        self.tell_losses(now, &known);
        if begins && self.phase == Phase::Open {
            self.begin_recovery(now);
            self.counters.recoveries += 1;
        }
        if ack.marked && self.phase == Phase::Open {
            self.begin_recovery(now);
            self.controller.on_mark(now, self.board.pipe());
            self.counters.marks += 1;
            // Spurious retransmissions do not undo a reduction caused by a mark.
            self.undo = None;
        }
        // Only in-order delivery grows the window.
        self.update_window(now, news.octets, lost, rtt, limited && advanced > 0, advanced > 0);
        self.rearm(now, advanced > 0);
        advanced > 0
    }

    /// RFC 6298, section 5.3. Without SACK, recovery repairs one hole per round trip; with many holes a timeout is faster,
    /// so only the first partial acknowledgement restarts the timer (RFC 6582, section 4, "impatient").
    fn restart_timer(&mut self) {
        let partial = !self.sack && matches!(self.phase, Phase::Recovery(end) if self.una < end);
        if !(partial && std::mem::replace(&mut self.partial_seen, true)) {
            self.rto_at = None;
        }
    }

    fn deliver(&mut self, now: Instant, ack: &AckIn<'_>) -> News {
        let mut news = News::default();
        let (min, answered_ms) = (self.rtt.min(), ack.answered_ms(now));
        let measures_lost = !self.config.quirks.unmeasured_after_timeout;
        let repair_end = if let Phase::Recovery(end) | Phase::Loss(end) = self.phase { end } else { 0 };
        let (rack, delivery) = (&mut self.rack, &mut self.delivery);
        let mut take = |sent: &Sent| {
            news.note(sent, repair_end, measures_lost);
            rack.on_delivered(now, sent, min, answered_ms);
            delivery.on_delivered(now, sent.stamp, sent.len());
        };
        self.board.acknowledge(ack.ack, &mut take);
        if self.config.quirks.guess_arrivals {
            self.board.settle_guess();
        }
        for (left, right) in ack.blocks {
            self.board.sack(*left, *right, &mut take);
        }
        self.una = self.una.max(ack.ack);
        let done = (self.una.min(self.data_end())).saturating_sub(self.data_start);
        self.data.drain(..done as usize);
        if self.data.is_empty() && self.data.capacity() > IDLE_ROOM {
            self.data = VecDeque::new();
        }
        self.data_start += done;
        news
    }

    /// Karn's rule: no RTT sample from retransmitted segments, except by timestamps; back-off is kept until the next sample
    /// (RFC 6298, sections 3 and 5).
    fn measure(&mut self, now: Instant, ack: &AckIn<'_>, news: &News, advanced: u64) -> Option<Span> {
        let latest = news.latest.map(|at| now.since(at));
        if let Some(rtt) = latest {
            self.rtt.note_min(rtt);
        }
        let once = news.oldest.filter(|_| !news.any_again).map(|at| now.since(at));
        if let Some(rtt) = once.or(ack.echoed.filter(|_| advanced > 0)) {
            self.rtt.sample(rtt, self.una, self.next);
            self.rtt.progress();
        } else if advanced > 0 && self.config.quirks.any_ack_ends_backoff {
            self.rtt.progress();
        }
        latest
    }

    /// RFC 8985, section 7.4.2.
    fn check_tail_probe(&mut self, now: Instant, ack: &AckIn<'_>) {
        let Some(probe) = self.tail_probe.filter(|probe| ack.ack >= probe.end) else { return };
        if !probe.again || ack.needless.is_some() {
            self.tail_probe = None;
        } else if ack.ack > probe.end {
            // The probe repaired a loss that was not detected otherwise.
            self.tail_probe = None;
            if self.phase == Phase::Open {
                self.begin_recovery(now);
                self.undo = None;
            }
        } else if ack.duplicate {
            self.tail_probe = None;
        }
    }

    fn count_duplicates(&mut self, ack: &AckIn<'_>, advanced: u64) {
        if self.sack {
            return;
        }
        if self.config.quirks.guess_arrivals {
            return self.guess_by_duplicate(ack, advanced);
        }
        if advanced > 0 {
            self.duplicates = 0;
            self.board.forget_left(advanced.saturating_sub(self.mss));
        } else if ack.duplicate {
            self.duplicates += 1;
            let third = self.phase == Phase::Open && self.duplicates == DUP_THRESH;
            if self.config.limited_transmit || third || matches!(self.phase, Phase::Recovery(_)) {
                self.board.note_left(self.mss);
            }
        }
    }

    fn leave_phases(&mut self, advanced: u64) {
        let over = match self.phase {
            Phase::Open => return,
            Phase::Recovery(_) if self.is_classic_reno() && advanced > 0 => true,
            Phase::Recovery(end) | Phase::Loss(end) => self.una >= end,
        };
        if !over {
            return;
        }
        if matches!(self.phase, Phase::Recovery(_)) {
            if let Some(ssthresh) = self.controller.ssthresh() {
                self.controller.set_cwnd(ssthresh);
            }
            self.rack.on_recovered();
        }
        self.phase = Phase::Open;
        self.suspicion = Suspicion::None;
        self.prr = None;
        self.repeat_due = false;
        self.board.forget_left(u64::MAX);
    }

    /// Whether a segment is marked lost that starts a recovery.
    fn detect_losses(&mut self, now: Instant, ack: &AckIn<'_>, advanced: u64) -> bool {
        self.rack_at = None;
        let repairing = self.phase != Phase::Open;
        if self.sack && self.config.rack_tlp {
            let (min, smoothed) = (self.rtt.min(), self.rtt.smoothed());
            self.rack_at = self.rack.detect(now, &mut self.board, repairing, min, smoothed);
        } else if self.sack {
            mark_below_reports(&mut self.board, self.mss);
        } else if self.config.quirks.guess_arrivals {
            return self.guess_losses(ack, advanced);
        } else {
            let third = self.phase == Phase::Open && ack.duplicate && self.duplicates == DUP_THRESH;
            // RFC 6582, section 3.2, step 4: a partial acknowledgement shows the next hole.
            let partial = matches!(self.phase, Phase::Recovery(_)) && advanced > 0;
            if (third || partial) && self.board.front().is_some_and(|first| partial || !first.again) {
                self.board.mark_lost(0);
            }
        }
        self.board.lost() > 0
    }

    /// The starts of the segments marked lost, if the congestion control asks about every loss.
    pub(super) fn known_losses(&self) -> Vec<u64> {
        let Some(first) = self.board.first_lost().filter(|_| self.controller.asks_about_losses()) else {
            return Vec::new();
        };
        self.board.iter().skip(first).filter(|sent| sent.lost).map(|sent| sent.start).collect()
    }
    /// Reports to it the segments marked lost that are not in `known`, in order.
    pub(super) fn tell_losses(&mut self, now: Instant, known: &[u64]) {
        let Some(first) = self.board.first_lost().filter(|_| self.controller.asks_about_losses()) else { return };
        let mut known = known.iter().peekable();
        for sent in self.board.iter().skip(first).filter(|sent| sent.lost) {
            while known.next_if(|start| **start < sent.start).is_some() {}
            if known.next_if_eq(&&sent.start).is_none() {
                let lost = self.delivery.on_lost(now, sent);
                self.controller.on_lost(&lost);
            }
        }
    }

    pub(super) fn begin_recovery(&mut self, now: Instant) {
        // ns-3 counts the hole, but not the segments it guesses to have arrived.
        let guessed = self.board.pipe() + self.mss;
        let in_flight = if self.config.quirks.guess_arrivals { guessed } else { self.next - self.una };
        self.note_reduction();
        self.reduced_due = true;
        self.controller.on_congestion(now, in_flight);
        self.phase = Phase::Recovery(self.next);
        self.partial_seen = false;
        self.repeat_due = self.board.lost() > 0;
        // Without SACK the pipe estimate is too coarse for PRR.
        self.prr = (self.config.prr && self.sack).then(|| Prr::new(in_flight));
        if self.prr.is_some() {
            self.controller.set_cwnd(self.board.pipe() + self.mss);
        }
        self.tail_at = None;
    }

    fn update_window(
        &mut self,
        now: Instant,
        octets: u64,
        lost: u64,
        rtt: Option<Span>,
        limited: bool,
        advanced: bool,
    ) {
        let in_recovery = matches!(self.phase, Phase::Recovery(_));
        let pipe = self.board.pipe();
        let sample = self.delivery.sample(self.rtt.min());
        if octets == 0 && lost == 0 {
            return;
        }
        let acked = Acked {
            now,
            octets,
            delivered: self.delivery.delivered,
            lost,
            rtt,
            smoothed: self.rtt.smoothed().unwrap_or(Span::ZERO),
            least: self.rtt.min().unwrap_or(Span::ZERO),
            pipe,
            next: self.next,
            una: self.una,
            limited,
            sample,
            repairing: self.phase != Phase::Open,
        };
        self.controller.on_ack(&acked, in_recovery);
        if self.controller.limits_itself() {
            self.delivery.note_app_limited(pipe);
        }
        if let (true, Some(prr), Some(ssthresh)) = (in_recovery, &mut self.prr, self.controller.ssthresh()) {
            let room = prr.on_ack(octets, pipe, ssthresh, self.mss, advanced && lost == 0);
            // The first retransmission is always allowed.
            let room = if prr.out == 0 { room.max(self.mss) } else { room };
            self.controller.set_cwnd(pipe + room);
        }
    }
}
