//! ns-3's interpretation of duplicate acknowledgements without SACK ([`Quirks::guess_arrivals`](super::Quirks)): each in
//! fast recovery counts as the arrival of the next segment beyond the hole, and the guesses are kept after the recovery.
//!
//! Where they were wrong, because the duplicates were caused by spurious retransmissions, a guess reaches the first hole. It
//! then moves one segment on and the hole counts as lost; so segment after segment is sent twice, until the window has no
//! room for the guess or a timeout discards it (`TcpTxBuffer::AddRenoSack`, `DiscardUpTo`, `MarkHeadAsLost`;
//! `TcpSocketBase::DupAck`).

use super::acked::AckIn;
use super::recovery::DUP_THRESH;
use super::scoreboard::Scoreboard;
use super::send::{Phase, Sender};

impl Sender {
    /// Counts a duplicate acknowledgement. Those caused by retransmissions after a timeout are ignored.
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
    /// Whether a recovery begins: at the third duplicate, or at any while there is a guess and the first hole is already
    /// marked lost. A partial acknowledgement shows the next hole.
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
    /// Guesses that the next segment beyond the first hole has arrived, if there is one.
    pub(super) fn guess_arrival(&mut self) {
        let next = self.iter().skip(1).find(|sent| !sent.sacked).map(|sent| (sent.start, sent.end));
        if let Some((start, end)) = next {
            self.sack(start, end, |_| {});
        }
    }
    /// The first segment in flight cannot have arrived, so a guess about it moves on.
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
