//! Whether the neighbour is up: since when it owes an answer, and when a quiet link has to ask for one.

use wavelane_base::{Instant, Span, Wakeup};

/// Silence with an answer owed, or 1.5 answer times if longer, after which the link counts as silent and asks for a new session.
const SILENCE: Span = Span::from_secs(1);
/// A link that was used within [`USED_LATELY`] asks for a sign of life after hearing nothing for this long. With the time after which a
/// peer counts as down this bounds how long its failure stays unnoticed.
const HEARTBEAT: Span = Span::from_millis(1_500);
/// See [`HEARTBEAT`]. A link last used longer ago is only kept open ([`super::LinkConfig::keepalive`]).
const USED_LATELY: Span = Span::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(super) struct Liveness {
    /// After this long without a datagram one is sent.
    pub(super) keepalive: Option<Span>,
    /// The expected time until an answer; that long does not count as silence.
    round: Span,
    /// Since when an answer is owed; when other lanes are asked for it; and when it counts as silence. Set while one is owed.
    owed_since: Instant,
    remind_at: Option<Instant>,
    silence_at: Option<Instant>,
    /// Silence that was not taken yet.
    silent: bool,
    /// When the last datagram left.
    sent_at: Instant,
    /// When the neighbour was last heard.
    heard_at: Instant,
    /// When something of a flow or a packet last crossed, either way.
    used_at: Option<Instant>,
}

impl Liveness {
    pub(super) fn new(now: Instant, keepalive: Option<Span>) -> Self {
        Self {
            keepalive,
            round: Span::ZERO,
            owed_since: now,
            remind_at: None,
            silence_at: None,
            silent: false,
            sent_at: now,
            heard_at: now,
            used_at: None,
        }
    }

    /// A datagram was sent; `eliciting` if it asks for an answer.
    pub(super) fn sent(&mut self, now: Instant, eliciting: bool) {
        self.sent_at = now;
        if eliciting && self.silence_at.is_none() {
            self.owed_since = now;
            self.remind_at = Some(now + self.patience().scale(1, 2));
            self.silence_at = Some(now + self.patience());
        }
    }

    /// Sets how long an answer takes. This also shortens the wait for one that is owed already.
    pub(super) fn set_round(&mut self, now: Instant, round: Span) {
        self.round = round;
        let (since, patience) = (self.owed_since, self.patience());
        // A deadline that has passed moves to the next instant, not into the past.
        let sooner = |at: Instant, after: Span| at.min((since + after).max(now + Span::from_nanos(1)));
        self.remind_at = self.remind_at.map(|at| sooner(at, patience.scale(1, 2)));
        self.silence_at = self.silence_at.map(|at| sooner(at, patience));
    }

    /// How long an answer may take: on a return path of a kilobit a second it takes more than [`SILENCE`].
    fn patience(&self) -> Span {
        SILENCE.max(self.round.scale(3, 2))
    }

    /// A handshake took this long, including its retransmits on the path; nothing else is known.
    pub(super) fn suppose(&mut self, round_trip: Span) {
        self.round = round_trip.times(2);
    }

    /// Something was received from the neighbour.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.remind_at = None;
        self.silence_at = None;
        self.silent = false;
    }

    /// Data of a flow or a packet was sent or received.
    pub(super) fn used(&mut self, now: Instant) {
        self.used_at = Some(now);
    }

    /// Whether data of a flow or a packet was sent or received lately.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        self.used_at.is_some_and(|used| now <= used + USED_LATELY)
    }

    /// Whether something that asks for an answer was sent, and nothing was received since.
    pub(super) fn is_owed_answer(&self) -> bool {
        self.silence_at.is_some()
    }

    /// Whether an answer has been owed for another [`SILENCE`] since the last call.
    pub(super) fn take_silence(&mut self) -> bool {
        core::mem::take(&mut self.silent)
    }

    /// When the link will have been quiet for too long.
    fn keepalive_at(&self) -> Option<Wakeup> {
        self.keepalive.map(|keepalive| Wakeup { at: self.sent_at + keepalive, cause: "keepalive" })
    }

    /// When the neighbour will have been quiet for too long on a link in use. `None` while it owes an answer.
    fn heartbeat_at(&self) -> Option<Wakeup> {
        let at = self.heard_at + HEARTBEAT;
        let used = self.used_at.filter(|used| !self.is_owed_answer() && at <= *used + USED_LATELY)?;
        Some(Wakeup { at: at.max(used), cause: "heartbeat" })
    }

    /// When the next datagram is due for one of these reasons alone.
    pub(super) fn ask_at(&self) -> Option<Wakeup> {
        Wakeup::earliest(self.keepalive_at(), self.heartbeat_at())
    }

    /// Time has passed. Returns whether other lanes have to ask for the answer that is owed, and whether a datagram is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> (bool, bool) {
        let remind = self.remind_at.take_if(|at| *at <= now).is_some();
        if let Some(at) = self.silence_at.filter(|at| *at <= now) {
            self.silent = true;
            // Missed intervals (a suspended process) are not made up for.
            self.owed_since = if at + self.patience() > now { at } else { now };
            self.silence_at = Some(self.owed_since + self.patience());
        }
        (remind, self.ask_at().is_some_and(|wakeup| wakeup.at <= now))
    }

    /// When other lanes have to ask, or silence is next reported.
    pub(super) fn silence_at(&self) -> Option<Wakeup> {
        let earliest = self.remind_at.into_iter().chain(self.silence_at).min();
        earliest.map(|at| Wakeup { at, cause: "silence" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_that_was_missed_is_told_once() {
        let mut liveness = Liveness::new(Instant::ZERO, None);
        liveness.sent(Instant::ZERO, true);
        let late = Instant::from_secs(3_600);
        assert_eq!(liveness.handle_timeout(late), (true, false));
        liveness.set_round(late, Span::from_millis(20));
        assert!(liveness.take_silence());
        assert_eq!(liveness.silence_at().map(|wakeup| wakeup.at), Some(late + SILENCE));
        // An answer takes less than was thought: the silence is known sooner, and never in the past.
        liveness.heard(late);
        liveness.suppose(Span::from_secs(10));
        liveness.sent(late, true);
        let now = late + Span::from_secs(5);
        liveness.set_round(now, Span::from_millis(20));
        assert_eq!(liveness.silence_at().map(|wakeup| wakeup.at), Some(now + Span::from_nanos(1)));
    }
}
