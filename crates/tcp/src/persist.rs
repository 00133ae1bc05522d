//! Behaviour while the peer's window is zero or too small (RFC 9293, section 3.8.6.1).

use super::send::Sender;
use wavelane_base::Instant;

/// The persist timer.
#[derive(Debug, Default)]
pub(super) struct Persist {
    /// When to send the next probe.
    pub(super) at: Option<Instant>,
    /// Probes since the window closed. The retransmission timeout backs off separately: no data has been lost when the
    /// window opens.
    asked: u32,
    /// Unanswered probes in a row.
    unanswered: u32,
}

impl Sender {
    /// Arms the timer if the window is closed and nothing is in flight whose acknowledgement could open it.
    pub(super) fn arm_persist(&mut self, now: Instant) {
        let waiting = self.una > 0 && self.board.is_empty() && (self.data_end() > self.next || self.closing);
        let stuck = waiting && !self.fin_sent && self.sendable().is_none() && self.is_window_small();
        if !stuck {
            self.persist = Persist::default();
        } else if self.persist.at.is_none() {
            self.persist.at = Some(now + self.rtt.rto());
        }
    }
    fn is_window_small(&self) -> bool {
        let available = self.data_end() - self.next;
        self.window < available.min(self.mss).max(1)
    }

    /// The timer expired. Returns whether to give up on the peer.
    pub(super) fn on_persist(&mut self, now: Instant) -> bool {
        if self.persist.unanswered >= self.config.data_retries {
            return true;
        }
        self.persist.asked += 1;
        self.persist.unanswered += 1;
        self.persist.at = Some(now + self.rtt.backed_off(self.persist.asked));
        if self.una + self.window > self.next {
            self.force_small = true;
        } else {
            self.window_probe_due = true;
            self.counters.window_probes += 1;
        }
        false
    }

    /// The peer acknowledged something acceptable. While it answers, the connection is not given up because of a zero window
    /// (RFC 9293, MUST-37) or of data beyond the edge of a shrunk window (SHLD-17).
    pub(super) fn note_answer(&mut self) {
        self.persist.unanswered = 0;
        if self.board.front().is_some_and(|first| first.end > self.una + self.window) {
            self.retries = 0;
        }
    }
}
