//! Loss detection and the rate of recovery: RACK (RFC 8985), duplicate acknowledgements (RFC 5681, 6582, 6675) and
//! proportional rate reduction (RFC 9937).

use super::rtt::clock_ms;
use super::scoreboard::{Scoreboard, Sent};
use wavelane_base::{Instant, Span};

/// Duplicate acknowledgements, or segments SACKed above a hole, that indicate a loss (RFC 5681, section 3.2).
pub(super) const DUP_THRESH: usize = 3;
/// The reordering window is a multiple of this fraction of the minimum RTT (RFC 8985, section 6.2).
const REORDER_SHARE: u64 = 4;
/// Recoveries after which the reordering window is reset (RFC 8985, section 6.2, step 4).
const REORDER_PERSIST: u32 = 16;

/// Recent acknowledgement by time.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// Send time and end of the most recently sent segment that has arrived.
    newest: Option<(Instant, u64)>,
    rtt: Span,
    /// The highest end that has arrived.
    fack: u64,
    reordering_seen: bool,
    /// Multiplier of the reordering window, raised when it proved too small.
    multiple: u64,
    persist: u32,
    /// Raised at most once until this is acknowledged.
    round_end: u64,
}

impl Rack {
    /// A segment has arrived. `answered_ms` is when the acknowledged segment was sent, by our timestamps.
    pub(super) fn on_delivered(&mut self, now: Instant, sent: &Sent, min_rtt: Option<Span>, answered_ms: Option<u64>) {
        if sent.end > self.fack {
            self.fack = sent.end;
        } else if !sent.again {
            self.reordering_seen = true;
        }
        let rtt = now.since(sent.stamp.sent_at);
        // The original arrived, not the retransmission (RFC 8985, section 6.2, step 2).
        let too_soon = min_rtt.is_some_and(|min| rtt < min);
        if sent.again && (too_soon || answered_ms.is_some_and(|at| at < clock_ms(sent.stamp.sent_at))) {
            return;
        }
        self.rtt = rtt;
        let this = (sent.stamp.sent_at, sent.end);
        self.newest = Some(self.newest.map_or(this, |newest| newest.max(this)));
    }
    /// Reordering was detected by means other than `on_delivered`.
    pub(super) fn note_reordering(&mut self) {
        self.reordering_seen = true;
    }
    /// The receiver reported a retransmission as a duplicate.
    pub(super) fn on_duplicate_report(&mut self, una: u64, next: u64) {
        if una >= self.round_end {
            self.round_end = next;
            self.multiple += 1;
            self.persist = REORDER_PERSIST;
        }
    }
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiple = 0;
        }
    }
    fn window(&self, repairing: bool, board: &Scoreboard, min_rtt: Option<Span>, smoothed: Option<Span>) -> Span {
        if !self.reordering_seen && (repairing || board.sacked_segments() >= DUP_THRESH) {
            return Span::ZERO;
        }
        let share = min_rtt.unwrap_or(Span::ZERO).scale(1 + self.multiple, REORDER_SHARE);
        share.min(smoothed.unwrap_or(Span::ZERO))
    }
    /// Marks as lost segments sent long enough before one that has arrived. Returns when to check again.
    pub(super) fn detect(
        &self,
        now: Instant,
        board: &mut Scoreboard,
        repairing: bool,
        min_rtt: Option<Span>,
        smoothed: Option<Span>,
    ) -> Option<Instant> {
        let newest = self.newest?;
        let patience = self.rtt + self.window(repairing, board, min_rtt, smoothed);
        let mut again = None;
        for place in 0..board.len() {
            let Some(sent) = board.get(place) else { break };
            let this = (sent.stamp.sent_at, sent.end);
            if this >= newest && sent.start >= board.again_end {
                // All later entries were sent later still.
                break;
            }
            if sent.sacked || sent.lost || this >= newest {
                continue;
            }
            let due = sent.stamp.sent_at + patience;
            if due <= now {
                board.mark_lost(place);
            } else {
                again = again.max(Some(due));
            }
        }
        again
    }
}

/// RFC 6675, section 4, IsLost: three segments above it, or more than two segments' bytes, are reported.
pub(super) fn mark_below_reports(board: &mut Scoreboard, mss: u64) {
    let (mut segments, mut octets) = (0, 0);
    let mut lost = Vec::new();
    for (back, sent) in board.iter().rev().enumerate() {
        if sent.sacked {
            segments += 1;
            octets += sent.len();
        } else if !sent.again && !sent.lost && (segments >= DUP_THRESH || octets > (DUP_THRESH as u64 - 1) * mss) {
            lost.push(board.len() - 1 - back);
        }
    }
    lost.into_iter().for_each(|place| board.mark_lost(place));
}

/// Proportional rate reduction (RFC 9937, which replaces RFC 6937): below ssthresh packets are conserved, and the window
/// grows as in slow start only on acknowledgements that advance and indicate no further loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// Bytes in flight when recovery began.
    recover_fs: u64,
    delivered: u64,
    pub(super) out: u64,
}

impl Prr {
    pub(super) fn new(in_flight: u64) -> Self {
        Self { recover_fs: in_flight.max(1), delivered: 0, out: 0 }
    }
    /// Bytes that may be sent now, beyond `pipe`. `safe`: the acknowledgement advanced, and no loss was found with it (RFC
    /// 9937's SafeACK).
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64, ssthresh: u64, mss: u64, safe: bool) -> u64 {
        self.delivered += delivered;
        if pipe > ssthresh {
            let due = (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.recover_fs));
            (due as u64).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + if safe { mss } else { 0 };
            (ssthresh - pipe).min(limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937, section 4, first example: 20 segments in flight, one lost; the window halves by sending one segment
    /// for every two that arrive, and ends at ssthresh.
    #[test]
    fn prr_sends_in_proportion_while_above_the_threshold() {
        let (mss, ssthresh) = (1_000, 10_000);
        let mut prr = Prr::new(20_000);
        let (mut pipe, mut sent) = (19_000u64, 0);
        for _ in 0..19 {
            pipe -= mss;
            let room = prr.on_ack(mss, pipe, ssthresh, mss, false);
            let whole = room / mss * mss;
            prr.out += whole;
            pipe += whole;
            sent += whole;
        }
        assert_eq!(pipe, ssthresh);
        assert_eq!(sent, 10_000, "what arrived in proportion, rounded up");
    }

    /// RFC 9937: below ssthresh it sends the amount delivered, plus one segment only if SafeACK.
    #[test]
    fn prr_below_the_threshold_sends_the_delivered_bytes() {
        let mut prr = Prr::new(20_000);
        assert_eq!(prr.on_ack(1_000, 2_000, 10_000, 1_000, false), 1_000);
        prr.out += 1_000;
        assert_eq!(prr.on_ack(1_000, 2_000, 10_000, 1_000, true), 2_000);
        prr.out += 2_000;
        assert_eq!(prr.on_ack(1_000, 3_000, 10_000, 1_000, true), 2_000);
        assert_eq!(prr.on_ack(5_000, 9_500, 10_000, 1_000, true), 500, "no further than the threshold");
    }
}
