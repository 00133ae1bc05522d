//! The sender's retransmissions: when one is due, how often it is sent, and when a packet is given up.

use super::terms::{MEDIA_LATE_MAX, PERSISTENCE_1998};
use super::{Ordering, Piece, Repair, Sender, Treatment, Tries};
use wavelane_base::{Instant, Span, Wakeup};

/// Retransmissions of one packet after which it is given up, regardless of its age.
const ROUNDS_MAX: u16 = 8;
/// Packets that the timer may retransmit per RTT: the tails of a few exchanges, not a window in an outage.
const TIMED_MAX: u32 = 8;

impl Sender {
    /// A datagram that carried `piece` is taken for lost.
    pub fn lost(&mut self, now: Instant, piece: Piece) {
        self.headers.fate(piece, false);
        let Some(kept) = self.kept.get_mut(&piece.number) else { return };
        if !kept.is_kept() || !kept.lost(piece.start, piece.end, piece.round) {
            return;
        }
        if self.tries == Tries::Of1998 {
            // Its timer sends it again.
            return;
        }
        if kept.treatment.only_newest && self.flows[kept.flow].newest_ack != Some(piece.number) {
            self.counters.superseded += 1;
            self.forget(piece.number);
        } else if piece.round >= ROUNDS_MAX || now.since(kept.first_sent) > self.persistence(piece.number) {
            self.give_up_one(piece.number);
        } else {
            self.repeat(now, Piece { round: piece.round + 1, copy: false, ..piece });
        }
    }

    pub(super) fn persistence(&self, number: u64) -> Span {
        match self.kept.get(&number).map(|kept| kept.treatment) {
            Some(Treatment { repair: Repair::Fec, .. }) => MEDIA_LATE_MAX,
            _ if self.tries == Tries::Of1998 => PERSISTENCE_1998,
            treatment => self.path.persistence(treatment.is_some_and(|t| t.order != Ordering::Strict)),
        }
    }

    /// Schedules the transmissions of a retransmission.
    fn repeat(&mut self, now: Instant, piece: Piece) {
        let Some(kept) = self.kept.get_mut(&piece.number) else { return };
        // Media that symbols did not recover are retransmitted once: a second transmission would hardly be in time.
        let alone = kept.treatment.repair == Repair::Fec || self.tries == Tries::Of1998;
        let copies = if alone { 1 } else { self.path.copies() };
        kept.plan(piece.start, piece.end, piece.round, copies);
        self.due.push_back(piece);
        for n in 1..copies {
            let at = now + self.path.copy_spacing().times(n.into());
            let place = self.later.partition_point(|other| other.0 <= at);
            self.later.insert(place, (at, Piece { copy: true, ..piece }));
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.later.front().is_some_and(|copy| copy.0 <= now) {
            self.due.extend(self.later.pop_front().map(|copy| copy.1));
        }
        while let Some(timer) = self.timers.front().copied().filter(|timer| timer.0 <= now || !self.is_live(*timer)) {
            self.timers.pop_front();
            if self.is_live(timer) {
                self.timed_out(now, timer.1);
            }
        }
    }

    /// No ack of a packet for too long: a tail loss, or an outage. Retransmits it within the allowance.
    fn timed_out(&mut self, now: Instant, number: u64) {
        if now.since(self.timed.0) > self.path.rtt.unwrap_or(Span::ZERO) {
            self.timed = (now, 0);
        }
        let persistence = self.persistence(number);
        let Some(kept) = self.kept.get(&number) else { return };
        if self.tries == Tries::Of1998 {
            if now.since(kept.first_sent) > persistence {
                return self.give_up_one(number);
            }
            let (round, missing) = (kept.rounds + 1, kept.missing());
            return missing
                .into_iter()
                .for_each(|(start, end)| self.repeat(now, Piece { number, start, end, round, copy: false }));
        }
        let worthless = kept.treatment.only_newest && self.flows[kept.flow].newest_ack != Some(number);
        if self.timed.1 >= TIMED_MAX || now.since(kept.first_sent) > persistence || worthless {
            return;
        }
        self.timed.1 += 1;
        let round = kept.rounds + 1;
        for (start, end) in kept.missing() {
            self.repeat(now, Piece { number, start, end, round, copy: false });
        }
    }

    /// When [`Self::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let later = self.later.front().map(|copy| Wakeup { at: copy.0, cause: "copy of a repeated packet" });
        let timer = self.timers.front().map(|timer| Wakeup { at: timer.0, cause: "packet timer" });
        Wakeup::earliest(later, timer)
    }
}
