//! What a run shows: rates, queues, drops.

use super::World;
use wavelane_base::{Instant, Span};

impl World {
    /// Mean rate at which IP bytes of `lane` arrived between two times, in bit/s.
    pub(crate) fn goodput(&self, lane: usize, from: f64, to: f64) -> f64 {
        let slots = (from * 10.0) as usize..(to * 10.0) as usize;
        let bytes: u64 = slots.filter_map(|s| self.lanes[lane].arrived.get(s)).sum();
        bytes as f64 * 8.0 / (to - from)
    }

    /// The same for a rival.
    pub(crate) fn rival_goodput(&self, rival: usize, from: f64, to: f64) -> f64 {
        let slots = (from * 10.0) as usize..(to * 10.0) as usize;
        let bytes: u64 = slots.filter_map(|s| self.rivals[rival].arrived.get(s)).sum();
        bytes as f64 * 8.0 / (to - from)
    }

    /// Mean and largest queueing delay between two times, in milliseconds.
    pub(crate) fn queue_ms(&self, from: f64, to: f64) -> (f64, f64) {
        let mut samples = Vec::new();
        for (at, delay) in &self.queue {
            let t = at.as_secs_f64() - 1.0;
            if t >= from && t < to {
                samples.push(delay.as_secs_f64() * 1e3);
            }
        }
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        (mean, samples.iter().fold(0.0, |a: f64, b| a.max(*b)))
    }

    /// The wait of whoever comes at a random moment, that is exceeded in one case of twenty.
    pub(crate) fn wait_p95(&self) -> Span {
        let end = self.time() as u64 * 10;
        let (mut packets, mut waits) = (self.waits.iter().peekable(), Vec::new());
        for tenth in 0..end {
            let at = Instant::from_secs(1) + Span::from_millis(100 * tenth);
            while packets.next_if(|(since, _)| *since < at).is_some() {}
            waits.extend(packets.peek().map(|(_, wait)| *wait));
        }
        waits.sort_unstable();
        waits.get(waits.len() * 95 / 100).copied().unwrap_or(Span::ZERO)
    }

    pub(crate) fn drop_share(&self) -> f64 {
        let dropped: u64 = self.lanes.iter().map(|l| l.dropped_packets).sum();
        let offered: u64 = self.lanes.iter().map(|l| l.offered_packets).sum();
        dropped as f64 / offered.max(1) as f64
    }

    /// Goodput in Mbit/s per 100 ms, for looking at a failed run.
    pub(crate) fn trace(&self, lane: usize) -> String {
        self.lanes[lane].arrived.iter().map(|b| format!("{:.1} ", *b as f64 * 80.0 / 1e6)).collect()
    }
}
