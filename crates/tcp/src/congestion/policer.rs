//! Whether a policer limits the rate, as Linux's BBR version 1 finds out (`bbr_lt_bw_sampling` in net/ipv4/tcp_bbr.c; Cardwell et al.,
//! "BBR Congestion Control", CACM 60(2), 2017, on token buckets): two stretches in a row that lose a fifth of what they deliver, at the same
//! rate, are taken for a policer's, and that rate is kept for a while. Random loss of that much looks the same.

use wavelane_base::{Instant, Octets, Rate, Span};

/// A stretch lasts at least this many rounds. From four times as many on it is no longer one: losses are too rare.
const STRETCH_ROUNDS: u32 = 4;
const STRETCH_ROUNDS_MAX: u32 = 4 * STRETCH_ROUNDS;
/// It counts if this part of what it delivered was lost.
const LOST: (u64, u64) = (50, 256);
/// Two agree if they differ by no more than this part, or this rate.
const ALIKE_PART: u64 = 8;
const ALIKE: Rate = Rate::from_bps(4_000);
/// The policer's rate is kept for this many rounds.
const KEPT_ROUNDS: u32 = 48;
/// A shorter stretch shows no rate.
const STRETCH_MIN: Span = Span::from_millis(1);

/// What is known when an acknowledgement or a timeout came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When something was last delivered, and bytes delivered so far.
    pub(super) at: Instant,
    pub(super) delivered: u64,
    /// A round began.
    pub(super) round_began: bool,
    /// Something is newly marked lost.
    pub(super) losses: bool,
    pub(super) app_limited: bool,
    /// The mode is ProbeBW.
    pub(super) cruising: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    /// Bytes marked lost so far.
    lost: u64,
    /// Waiting for no first loss.
    sampling: bool,
    /// Of the stretch, or since a policer was found.
    rounds: u32,
    /// The state when the stretch began.
    began: Instant,
    delivered_before: u64,
    lost_before: u64,
    /// The last stretch's rate.
    last: Option<Rate>,
    found: bool,
}

impl Policer {
    /// The policer's rate, if one was found.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.last.filter(|_| self.found)
    }
    /// Bytes are newly marked lost.
    pub(super) fn note_lost(&mut self, octets: u64) {
        self.lost += octets;
    }
    /// Nothing is assumed any more.
    pub(super) fn forget(&mut self) {
        *self = Self { lost: self.lost, ..Self::default() };
    }
    /// Returns whether the rate was kept long enough: then the cycle of gains begins anew.
    pub(super) fn see(&mut self, seen: Seen) -> bool {
        if self.found {
            self.rounds += u32::from(seen.cruising && seen.round_began);
            let over = self.rounds >= KEPT_ROUNDS;
            if over {
                self.forget();
            }
            return over;
        }
        if !self.sampling {
            if !seen.losses {
                return false;
            }
            self.begin(seen);
        }
        self.rounds += u32::from(seen.round_began);
        if seen.app_limited || self.rounds > STRETCH_ROUNDS_MAX {
            self.forget();
        } else if self.rounds >= STRETCH_ROUNDS && seen.losses {
            self.end(seen);
        }
        false
    }
    fn begin(&mut self, seen: Seen) {
        self.sampling = true;
        self.rounds = 0;
        self.began = seen.at;
        self.delivered_before = seen.delivered;
        self.lost_before = self.lost;
    }
    fn end(&mut self, seen: Seen) {
        let (lost, delivered) = (self.lost - self.lost_before, seen.delivered - self.delivered_before);
        let took = seen.at.since(self.began);
        if delivered == 0 || lost * LOST.1 < delivered * LOST.0 || took < STRETCH_MIN {
            return;
        }
        let rate = Rate::of(Octets::new(delivered), took);
        if let Some(last) = self.last {
            let apart = rate.as_bps().abs_diff(last.as_bps());
            if apart <= ALIKE.as_bps().max(last.as_bps() / ALIKE_PART) {
                self.last = Some(Rate::from_bps(u64::midpoint(rate.as_bps(), last.as_bps())));
                self.found = true;
                self.rounds = 0;
                return;
            }
        }
        self.last = Some(rate);
        self.begin(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms, each of which delivers and loses as much as is told; the last bytes of a round are marked lost with its end.
    struct Path {
        policer: Policer,
        ms: u64,
        delivered: u64,
    }

    impl Path {
        fn new() -> Self {
            Self { policer: Policer::default(), ms: 0, delivered: 0 }
        }
        /// Returns whether the rate was kept long enough.
        fn round(&mut self, delivered: u64, lost: u64, app_limited: bool) -> bool {
            self.ms += 100;
            self.delivered += delivered;
            self.policer.note_lost(lost);
            self.policer.see(Seen {
                at: Instant::from_millis(self.ms),
                delivered: self.delivered,
                round_began: true,
                losses: lost > 0,
                app_limited,
                cruising: true,
            })
        }
        /// The rate in bit/s after each of so many rounds.
        fn rounds(&mut self, number: u32, delivered: u64, lost: u64) -> Option<u64> {
            (0..number).for_each(|_| _ = self.round(delivered, lost, false));
            self.policer.rate().map(Rate::as_bps)
        }
    }

    #[test]
    fn two_stretches_that_agree_are_a_policer_for_48_rounds() {
        let mut path = Path::new();
        // The first loss begins a stretch; each lasts four rounds.
        assert_eq!(path.rounds(7, 10_000, 2_500), None);
        assert_eq!(path.rounds(1, 10_000, 2_500), Some(800_000));
        assert_eq!(path.rounds(47, 20_000, 0), Some(800_000), "whatever comes meanwhile");
        assert!(path.round(20_000, 0, false), "then the cycle begins anew");
        assert_eq!(path.policer.rate(), None);
        assert_eq!(path.rounds(7, 10_000, 2_500), None, "and both stretches");
        assert_eq!(path.rounds(1, 10_000, 2_500), Some(800_000));
    }

    #[test]
    fn less_than_a_fifth_of_loss_is_no_policer() {
        assert_eq!(Path::new().rounds(200, 10_000, 1_950), None);
        assert_eq!(Path::new().rounds(8, 10_000, 1_960), Some(800_000));
    }

    #[test]
    fn rates_that_differ_by_more_than_an_eighth_are_compared_with_the_next() {
        let mut path = Path::new();
        assert_eq!(path.rounds(4, 10_000, 2_500), None);
        assert_eq!(path.rounds(4, 12_000, 3_000), None, "a fifth more");
        assert_eq!(path.rounds(4, 13_000, 3_250), Some(1_000_000), "an eighth more: the mean of both");
        let mut slow = Path::new();
        assert_eq!(slow.rounds(4, 50, 50), None);
        assert_eq!(slow.rounds(4, 90, 90), Some(5_600), "3.2 kbit/s apart");
    }

    #[test]
    fn rare_losses_and_pauses_of_the_application_end_a_stretch() {
        let mut rare = Path::new();
        for _ in 0..20 {
            assert_eq!(rare.rounds(1, 10_000, 60_000), None);
            assert_eq!(rare.rounds(17, 10_000, 0), None);
        }
        let mut paused = Path::new();
        paused.rounds(6, 10_000, 2_500);
        paused.round(10_000, 0, true);
        assert_eq!(paused.rounds(7, 10_000, 2_500), None, "what was known is forgotten");
        assert_eq!(paused.rounds(2, 10_000, 2_500), Some(800_000));
    }

    #[test]
    fn what_only_timers_mark_lost_counts_in_the_stretch() {
        let mut path = Path::new();
        path.rounds(1, 10_000, 1);
        for _ in 0..8 {
            path.policer.note_lost(2_500);
            path.rounds(1, 10_000, 1);
        }
        assert_eq!(path.policer.rate().map(Rate::as_bps), Some(800_000));
        let found = path.policer.clone();
        path.policer.forget();
        assert!(found.rate().is_some() && path.policer.rate().is_none(), "a recovery that was undone");
    }
}
