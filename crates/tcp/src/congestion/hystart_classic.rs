//! HyStart as Linux's CUBIC has it (Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55(9), 2011;
//! `hystart_update` in `net/ipv4/tcp_cubic.c`): slow start ends when a train of closely spaced acknowledgements is long
//! enough that the window fills the path, or when the RTT grows.

use super::Acked;
use wavelane_base::{Instant, Span};

/// Acknowledgements further apart do not belong to a train.
const SPACING: Span = Span::from_millis(2);
/// Window in segments below which HyStart is inactive.
const LOW_WINDOW: u64 = 16;
/// RTT samples per round before their minimum is used.
const SAMPLES: u32 = 8;
/// RTT increase that ends slow start: an eighth of the minimum, within these bounds.
const GROWTH_DIVISOR: u64 = 8;
const GROWTH_LEAST: Span = Span::from_millis(4);
const GROWTH_MOST: Span = Span::from_millis(16);
/// A train may be longer by the time of this many bytes at the pacing rate (four of the largest bursts that Linux hands to a
/// device), and by at most this.
const BURSTS: u64 = 4 * 65_536;
const BURSTS_MOST: Span = Span::from_millis(1);

#[derive(Clone, Debug, Default)]
pub(super) struct Classic {
    /// The round ends when a byte beyond this one is acknowledged.
    round_end: u64,
    /// When the round's train began and last continued.
    train: Option<(Instant, Instant)>,
    least: Option<Span>,
    round_least: Option<Span>,
    samples: u32,
    found: bool,
    /// Segments are paced over the RTT, so a train is twice as long.
    paced: bool,
}

/// HyStart is inactive for this long after congestion avoidance began (`cubictcp_acked`): if its reduction is undone within
/// this, slow start continues to the first loss.
const BLIND: Span = Span::from_secs(1);

/// The window of the sender at an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderWindow {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    pub(super) mss: u64,
    /// When CUBIC's stage of congestion avoidance began, if it is in one.
    pub(super) stage: Option<Instant>,
}

impl Classic {
    pub(super) fn new(paced: bool) -> Self {
        Self { paced, ..Self::default() }
    }

    /// Resets all state after a timeout.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.paced);
    }

    /// Processes every acknowledgement, before the window grows. Returns whether slow start is over.
    pub(super) fn on_ack(&mut self, acked: &Acked, seen: SenderWindow) -> bool {
        let Some(rtt) = acked.rtt else { return false };
        if seen.stage.is_some_and(|start| acked.now.since(start) < BLIND) {
            return false;
        }
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        if self.found || seen.cwnd >= seen.ssthresh {
            return false;
        }
        if self.train.is_none() || acked.una > self.round_end {
            self.round_end = acked.next;
            self.train = Some((acked.now, acked.now));
            self.round_least = None;
            self.samples = 0;
        }
        if seen.cwnd < LOW_WINDOW * seen.mss {
            return false;
        }
        self.found = self.is_train_long(acked, seen) | self.has_delay_grown(rtt);
        self.found
    }

    fn is_train_long(&mut self, acked: &Acked, seen: SenderWindow) -> bool {
        let (Some((start, last)), Some(least)) = (&mut self.train, self.least) else { return false };
        if acked.now.since(*last) > SPACING {
            return false;
        }
        *last = acked.now;
        let whole = least + bursts(acked, seen);
        let most = if self.paced { whole } else { whole.scale(1, 2) };
        acked.now.since(*start) > most
    }

    fn has_delay_grown(&mut self, rtt: Span) -> bool {
        let round = self.round_least.map_or(rtt, |least| least.min(rtt));
        self.round_least = Some(round);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let least = self.least.unwrap_or(round);
        round > least + least.scale(1, GROWTH_DIVISOR).clamp(GROWTH_LEAST, GROWTH_MOST)
    }
}

/// Duration of [`BURSTS`] at the pacing rate that Linux computes even without pacing: twice cwnd per smoothed RTT, 1.2 times
/// from half of ssthresh on.
fn bursts(acked: &Acked, seen: SenderWindow) -> Span {
    let percent = if seen.cwnd < seen.ssthresh / 2 { 200 } else { 120 };
    let octets = seen.cwnd.max(acked.next - acked.una) * percent / 100;
    acked.smoothed.scale(BURSTS, octets.max(1)).min(BURSTS_MOST)
}

#[cfg(test)]
#[path = "hystart_classic_tests.rs"]
mod tests;
