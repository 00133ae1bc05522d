//! The pacer: integer time with carried remainders, so that no rate drifts, and bounded bursts.

use wavelane_base::{Instant, Rate, Span};

/// A burst is at least this many packets.
const BURST_PACKETS: u64 = 2;
/// A burst is at most this long at the lane's rate, if that is more than [`BURST_PACKETS`].
const BURST_SPAN: Span = Span::from_millis(2);
/// If packets are shorter than this, wake-ups are delayed so that several packets are sent per wake-up.
const QUANTUM: Span = Span::from_micros(500);

/// Determines when the next packet may be sent.
///
/// State changes only on sends and rate changes, so the number of queries has no effect.
#[derive(Debug)]
pub(super) struct Pacer {
    rate: Rate,
    /// When everything sent so far is paid for.
    paid_at: Instant,
    /// Remainder of a nanosecond, in units of 1 / rate.
    remainder: u64,
    /// Opens here. Later than `paid_at` by at most [`QUANTUM`].
    gate: Instant,
    burst: Span,
}

impl Pacer {
    pub(super) fn new(now: Instant, rate: Rate) -> Self {
        Self { rate, paid_at: now, remainder: 0, gate: now, burst: Span::ZERO }
    }
    /// Changes the rate; the remaining debt is paid at the new rate.
    pub(super) fn set_rate(&mut self, now: Instant, rate: Rate) {
        let rate = Rate::from_bps(rate.as_bps().max(1));
        if rate == self.rate {
            return;
        }
        let owed = self.paid_at.since(now).scale(self.rate.as_bps(), rate.as_bps());
        let wait = self.gate.since(now).scale(self.rate.as_bps(), rate.as_bps());
        if owed > Span::ZERO {
            self.paid_at = now + owed;
        }
        if wait > Span::ZERO {
            self.gate = now + wait;
        }
        self.rate = rate;
        self.remainder = 0;
    }
    /// A packet of `bytes` leaves now.
    pub(super) fn sent(&mut self, now: Instant, bytes: u64) {
        let packet = self.rate.time_for(wavelane_base::Octets::new(bytes));
        self.burst = packet.times(BURST_PACKETS).max(BURST_SPAN);
        // Unused time is credit, up to one burst.
        let floor = now - self.burst.saturating_sub(packet);
        if self.paid_at < floor {
            self.paid_at = floor;
            self.remainder = 0;
        }
        let rate = u128::from(self.rate.as_bps());
        let owed = u128::from(bytes) * 8_000_000_000 + u128::from(self.remainder);
        self.remainder = (owed % rate) as u64;
        self.paid_at += Span::from_nanos(u64::try_from(owed / rate).unwrap_or(u64::MAX));
        if self.paid_at > now {
            let slack = if packet < QUANTUM { QUANTUM } else { Span::ZERO };
            self.gate = self.paid_at + slack;
        }
    }
    /// The debt, as a time.
    pub(super) fn owed(&self, now: Instant) -> Span {
        self.paid_at.since(now)
    }
    /// Whether a packet may be sent, up to `ahead` early.
    pub(super) fn open(&self, now: Instant, ahead: Span) -> bool {
        now + ahead >= self.gate
    }
    /// When the next packet may be sent.
    pub(super) fn gate(&self) -> Instant {
        self.gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(rate: Rate, bytes: u64, until: Instant) -> u64 {
        let mut pacer = Pacer::new(Instant::ZERO, rate);
        let (mut now, mut sent) = (Instant::ZERO, 0);
        while now < until {
            while pacer.open(now, Span::ZERO) {
                pacer.sent(now, bytes);
                sent += bytes;
            }
            now = pacer.gate();
        }
        sent
    }

    #[test]
    fn long_run_rate_is_exact_but_for_one_burst() {
        for bps in [33_600, 1_000_003, 20_000_000, 999_999_937] {
            let sent = send_all(Rate::from_bps(bps), 1500, Instant::from_secs(10));
            let due = bps * 10 / 8;
            let burst = (2 * 1500).max(bps / 8 * 5 / 2 / 1000) + 1500;
            // The last wake-up may fall up to one quantum before the end.
            assert!(sent + 1500 + bps / 8 / 2000 >= due && sent <= due + burst, "{bps}: {sent} of {due}");
        }
    }

    #[test]
    fn idle_time_buys_one_burst_only() {
        let mut pacer = Pacer::new(Instant::ZERO, Rate::from_bps(20_000_000));
        let now = Instant::from_secs(5);
        let mut packets = 0;
        while pacer.open(now, Span::ZERO) {
            pacer.sent(now, 1500);
            packets += 1;
        }
        assert!((2..=4).contains(&packets), "{packets}");
    }

    #[test]
    fn a_raise_shortens_the_wait() {
        let mut pacer = Pacer::new(Instant::ZERO, Rate::from_bps(100_000));
        for _ in 0..4 {
            pacer.sent(Instant::ZERO, 1500);
        }
        let slow = pacer.gate();
        pacer.set_rate(Instant::ZERO, Rate::from_bps(1_000_000));
        assert_eq!(pacer.gate().as_nanos(), slow.as_nanos() / 10);
    }
}
