//! Loss statistics: the recent share, and whether losses come singly or in bursts.

use super::sent::Resolved;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// A run of at least this many consecutive packets lost is a burst of the medium, not a policer at work.
const LONG_RUN: u32 = 8;
/// The longest burst of this period is what the window must bridge.
const BURST_MEMORY: Span = Span::from_secs(15);
/// The smoothed share moves by this much per packet.
const SHARE_STEP: f64 = 1.0 / 512.0;
/// The quickly smoothed share moves by this much per packet.
const SINGLE_STEP: f64 = 1.0 / 64.0;
/// The smoothed burst length moves by this much per burst.
const BURST_STEP: u64 = 8;

/// A packet sent this soon after a lost one shows whether losses come in bursts ...
const CLOSE: Span = Span::from_millis(3);
/// ... once this many of them were seen. Both counts halve at [`FOLLOWED_MAX`].
const FOLLOWED_MIN: u32 = 6;
const FOLLOWED_MAX: u32 = 64;

/// Loss statistics of a lane.
#[derive(Debug, Default)]
pub(super) struct Losses {
    share: f64,
    /// Quickly smoothed share without the tails of long runs.
    single: f64,
    seen: u64,
    run: Option<LossRun>,
    burst: Option<Span>,
    /// Lost packets that another followed closely, and how many of the followers were lost too.
    followed: u32,
    both: u32,
    /// Long runs: (when found, length), longest-first candidates of a sliding maximum.
    long: VecDeque<(Instant, Span)>,
    /// Packets judged since the last [`Self::reset_tally`], without long runs.
    judged: u64,
    judged_lost: u64,
    /// Packets left out of both, all lost.
    judged_runs: u64,
    /// Packets lost so far, without the tails of long runs.
    lost_single: u64,
    tally_from: Instant,
}

#[derive(Clone, Copy, Debug)]
struct LossRun {
    last: u64,
    first_sent: Instant,
    last_sent: Instant,
    packets: u32,
    /// How many of its losses are in the tally.
    tallied: u64,
}

impl Losses {
    /// The fate of one packet. Losses come in order of number.
    pub(super) fn resolved(&mut self, now: Instant, packet: &Resolved) {
        if packet.mtu_probe {
            return;
        }
        self.seen += 1;
        // A plain mean until 1 / step packets are in: the start must not look loss-free.
        let step = SHARE_STEP.max(1.0 / self.seen as f64);
        self.share += (if packet.lost { 1.0 } else { 0.0 } - self.share) * step;
        let counts = packet.sent_at >= self.tally_from;
        self.judged += u64::from(counts);
        let in_run =
            self.run.as_ref().is_some_and(|r| packet.lost && packet.number == r.last + 1 && r.packets >= LONG_RUN - 1);
        if !in_run {
            self.single += (if packet.lost { 1.0 } else { 0.0 } - self.single) * SINGLE_STEP;
        }
        if !packet.lost {
            return;
        }
        self.judged_lost += u64::from(counts);
        self.lost_single += u64::from(!in_run);
        let after_lost = self.run.is_some_and(|run| packet.number == run.last + 1);
        self.note_followed(packet, after_lost);
        match &mut self.run {
            Some(run) if packet.number == run.last + 1 => {
                run.last = packet.number;
                run.last_sent = packet.sent_at;
                run.packets += 1;
                run.tallied += u64::from(counts);
            }
            _ => {
                self.end_run();
                self.run = Some(LossRun {
                    last: packet.number,
                    first_sent: packet.sent_at,
                    last_sent: packet.sent_at,
                    packets: 1,
                    tallied: u64::from(counts),
                });
            }
        }
        if let Some(run) = self.run.as_mut().filter(|run| run.packets >= LONG_RUN) {
            self.judged_lost = self.judged_lost.saturating_sub(run.tallied);
            self.judged = self.judged.saturating_sub(run.tallied);
            self.judged_runs += run.tallied;
            run.tallied = 0;
            let length = run.last_sent.since(run.first_sent);
            self.note_long(now, length);
        }
    }

    /// Measures the clustering of losses: of packets sent closely after a lost one, how many were lost?
    fn note_followed(&mut self, packet: &Resolved, after_lost: bool) {
        let close = |gap: Option<Span>| gap.is_some_and(|gap| gap <= CLOSE);
        self.both += u32::from(after_lost && close(packet.gap_before));
        self.followed += u32::from(close(packet.gap_after));
        if self.followed >= FOLLOWED_MAX {
            self.followed /= 2;
            self.both /= 2;
        }
    }

    fn note_long(&mut self, now: Instant, length: Span) {
        while self.long.back().is_some_and(|l| l.1 <= length) {
            self.long.pop_back();
        }
        self.long.push_back((now, length));
        while self.long.front().is_some_and(|l| now.since(l.0) > BURST_MEMORY) {
            self.long.pop_front();
        }
    }

    fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            let length = run.last_sent.since(run.first_sent);
            self.burst = Some(match self.burst {
                None => length,
                Some(mean) => mean.scale(BURST_STEP - 1, BURST_STEP) + length.scale(1, BURST_STEP),
            });
        }
    }

    /// Share of packets lost recently.
    pub(super) fn share(&self) -> f64 {
        self.share
    }
    /// The losses so far say nothing about the medium.
    pub(super) fn forget_share(&mut self) {
        self.share = 0.0;
        self.seen = 0;
    }
    /// Share of single losses among the last few dozen packets.
    pub(super) fn single_share(&self) -> f64 {
        self.single
    }
    /// Packets lost so far, without the tails of long runs.
    pub(super) fn lost_single(&self) -> u64 {
        self.lost_single
    }
    /// Mean recent burst length, in sending time, once enough was seen; zero if losses are single.
    pub(super) fn burst(&self) -> Option<Span> {
        let in_bursts = 2 * self.both >= self.followed;
        let mean = self.burst.unwrap_or(Span::ZERO);
        (self.followed >= FOLLOWED_MIN).then_some(if in_bursts { mean.max(CLOSE.times(2)) } else { Span::ZERO })
    }
    /// The longest recent burst.
    pub(super) fn longest_burst(&self, now: Instant) -> Span {
        self.long.iter().find(|l| now.since(l.0) <= BURST_MEMORY).map_or(Span::ZERO, |l| l.1)
    }
    /// (packets, lost) among packets sent since [`Self::reset_tally`], long bursts left out.
    pub(super) fn tally(&self) -> (u64, u64) {
        (self.judged, self.judged_lost)
    }
    /// The same with long bursts.
    pub(super) fn tally_with_bursts(&self) -> (u64, u64) {
        (self.judged + self.judged_runs, self.judged_lost + self.judged_runs)
    }
    /// Starts a new tally of packets sent from `from` on.
    pub(super) fn reset_tally(&mut self, from: Instant) {
        self.judged = 0;
        self.judged_lost = 0;
        self.judged_runs = 0;
        self.tally_from = from;
        if let Some(run) = &mut self.run {
            run.tallied = 0;
        }
    }
    /// Since when the tally counts.
    pub(super) fn tally_from(&self) -> Instant {
        self.tally_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, lost: bool) -> Resolved {
        Resolved::full(number, Instant::from_micros(number * 600), lost)
    }

    #[test]
    fn long_runs_leave_the_tally_and_single_losses_stay() {
        let mut losses = Losses::default();
        for n in 0..1_000 {
            losses.resolved(Instant::ZERO, &packet(n, n % 10 == 0 || (500..550).contains(&n)));
        }
        let (judged, lost) = losses.tally();
        // 100 single losses but for the 5 inside the burst; the burst is 51 long: 550 follows it.
        assert_eq!((judged, lost), (1_000 - 51, 100 - 6));
        assert_eq!(losses.longest_burst(Instant::ZERO), Span::from_micros(50 * 600));
    }
}
