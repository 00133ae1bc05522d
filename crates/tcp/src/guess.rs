//! What ns-3 makes of duplicate acknowledgements without SACK ([`Quirks::guess_arrivals`](super::Quirks)): each in fast
//! recovery is taken for a report of the next segment behind the hole, and the guesses outlive the recovery.
//!
//! Where they were wrong, because duplicates came of needless repeats, a guess meets the first hole. It then moves one on
//! and the hole counts as lost; so segment after segment is sent twice, until the window has no room for the guess or a
//! timeout forgets it (`TcpTxBuffer::AddRenoSack`, `DiscardUpTo`, `MarkHeadAsLost`; `TcpSocketBase::DupAck`).

use super::acked::AckIn;
use super::recovery::DUP_THRESH;
use super::scoreboard::Scoreboard;
use super::send::{Phase, Sender};

impl Sender {
    /// Counts a duplicate acknowledgement. Those that a timeout's repeats call forth mean nothing.
    pub(super) fn guess_by_duplicate(&mut self, ack: &AckIn<'_>, advanced: u64) {
        if advanced > 0 {
            self.duplicates = 0;
        } else if ack.duplicate {
            match self.phase {
                Phase::Open => self.duplicates += 1,
                Phase::Recovery(_) => self.board.guess_arrival(),
                Phase::Loss(_) => {}
            }
        }
    }
    /// Whether a recovery begins: at the third duplicate, or at any while a guess is out and the first hole has been
    /// marked lost already. A partial acknowledgement shows the next hole.
    pub(super) fn guess_losses(&mut self, ack: &AckIn<'_>, advanced: u64) -> bool {
        match self.phase {
            Phase::Open if ack.duplicate && (self.duplicates == DUP_THRESH || self.board.doubts_first()) => {
                self.board.guess_arrival();
                self.board.mark_lost(0);
                true
            }
            Phase::Recovery(_) if advanced > 0 && !self.board.is_empty() => {
                self.board.mark_lost(0);
                false
            }
            _ => false,
        }
    }
}

impl Scoreboard {
    /// The next segment behind the first hole has arrived, it is guessed; without another one, nothing.
    pub(super) fn guess_arrival(&mut self) {
        let next = self.iter().skip(1).find(|sent| !sent.sacked).map(|sent| (sent.start, sent.end));
        if let Some((start, end)) = next {
            self.sack(start, end, |_| {});
        }
    }
    /// The first segment in flight cannot have arrived, whatever was guessed.
    pub(super) fn settle_guess(&mut self) {
        if self.front().is_some_and(|first| first.sacked) {
            self.unsack_first();
            self.guess_arrival();
            self.mark_lost(0);
        }
    }
    fn doubts_first(&self) -> bool {
        self.sacked_segments() > 0 && self.front().is_some_and(|first| first.lost || first.again)
    }
}
