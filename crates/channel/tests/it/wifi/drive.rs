//! Drives a cell: saturated senders, and single frames.

use wavelane_base::{FrameMeta, Instant, Machine, Rate, Seed, Span};
use wavelane_channel::wifi::{Phy, Rules, Tally, Wifi, WifiConfig, WifiEvent, port};

pub(crate) fn mbit(tenths: u64) -> Rate {
    Rate::from_bps(tenths * 100_000)
}
pub(crate) fn us(n: u64) -> Instant {
    Instant::from_micros(n)
}
pub(crate) const OFDM_54: (Phy, u64) = (Phy::Ofdm, 540);
pub(crate) const HR_11: (Phy, u64) = (Phy::HrDsss { short_preamble: false }, 110);
pub(crate) const ERP_54: (Phy, u64) = (Phy::ErpOfdm { short_slot: false }, 540);

pub(crate) fn cell((phy, tenths): (Phy, u64), rules: Rules, stations: usize) -> WifiConfig {
    WifiConfig::new(phy, mbit(tenths), rules, stations)
}

/// IP packet of a UDP payload of 1472 bytes.
pub(crate) const PACKET: usize = 1500;
pub(crate) const PAYLOAD: usize = 1472;

/// What a saturated run gave over its measured part.
pub(crate) struct Outcome {
    pub(crate) span: Span,
    /// Per station.
    pub(crate) tallies: Vec<Tally>,
}

impl Outcome {
    pub(crate) fn sum(&self, what: impl Fn(&Tally) -> u64) -> f64 {
        self.tallies.iter().map(what).sum::<u64>() as f64
    }
    /// UDP payload received, in Mbit/s.
    pub(crate) fn mbps(&self) -> f64 {
        self.sum(|t| t.received) * (PAYLOAD * 8) as f64 / self.span.as_secs_f64() / 1e6
    }
    /// Missing answers over frames that ask for one.
    pub(crate) fn p_coll(&self) -> f64 {
        self.sum(|t| t.ack_missing + t.cts_missing) / self.sum(|t| t.data_sent + t.rts_sent).max(1.0)
    }
    pub(crate) fn attempts_per_s(&self) -> f64 {
        self.sum(|t| t.data_sent) / self.span.as_secs_f64()
    }
    pub(crate) fn drops_per_s(&self) -> f64 {
        self.sum(|t| t.given_up) / self.span.as_secs_f64()
    }
}

/// Keeps each sender's queue filled with packets for its receiver, for `warm` and then `measured`.
pub(crate) fn saturate(
    seed: u64,
    config: &WifiConfig,
    flows: &[(usize, usize)],
    warm: Span,
    measured: Span,
) -> Outcome {
    let mut wifi = Wifi::new(Seed(seed), "air", config).unwrap();
    let stations = config.reach.stations();
    let to: Vec<Option<usize>> =
        (0..stations).map(|s| flows.iter().find(|(from, _)| *from == s).map(|(_, to)| *to)).collect();
    let mut packet = [0; PACKET];
    let mut buf = vec![0; 65_535];
    for &(from, to) in flows {
        // An aggregate takes what waits: there must be more than it holds.
        let depth = if config.aggregate.is_some() { config.queue } else { 3 };
        for _ in 0..depth {
            wifi.handle_frame(Instant::ZERO, port(from, to), &mut packet, FrameMeta::default());
        }
    }
    let snapshot = |wifi: &Wifi| -> Vec<Tally> { (0..stations).map(|s| *wifi.tally(s)).collect() };
    let (start, end) = (Instant::ZERO + warm, Instant::ZERO + warm + measured);
    let mut before = snapshot(&wifi);
    let mut begun = false;
    while let Some(wakeup) = wifi.poll_timeout() {
        let now = wakeup.at;
        if !begun && now >= start {
            before = snapshot(&wifi);
            begun = true;
        }
        if now >= end {
            break;
        }
        wifi.handle_timeout(now);
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
        }
        while let Some(event) = wifi.poll_event() {
            let from = match event {
                WifiEvent::Acknowledged { from, .. }
                | WifiEvent::Sent { from, .. }
                | WifiEvent::Dropped { from, .. } => from,
            };
            if let Some(to) = to[from] {
                wifi.handle_frame(now, port(from, to), &mut packet, FrameMeta::default());
            }
        }
    }
    assert_eq!((wifi.events_missed(), wifi.frames_missed()), (0, 0));
    let tallies = snapshot(&wifi).iter().zip(&before).map(|(a, b)| difference(a, b)).collect();
    Outcome { span: measured, tallies }
}

fn difference(a: &Tally, b: &Tally) -> Tally {
    Tally {
        data_sent: a.data_sent - b.data_sent,
        rts_sent: a.rts_sent - b.rts_sent,
        answers_sent: a.answers_sent - b.answers_sent,
        ack_missing: a.ack_missing - b.ack_missing,
        cts_missing: a.cts_missing - b.cts_missing,
        acknowledged: a.acknowledged - b.acknowledged,
        unacknowledged: a.unacknowledged - b.unacknowledged,
        internal_collisions: a.internal_collisions - b.internal_collisions,
        given_up: a.given_up - b.given_up,
        refused: a.refused - b.refused,
        dropped_delay: a.dropped_delay - b.dropped_delay,
        received: a.received - b.received,
        received_octets: a.received_octets - b.received_octets,
        duplicates: a.duplicates - b.duplicates,
        uncoded_heard: a.uncoded_heard - b.uncoded_heard,
        uncoded_lost: a.uncoded_lost - b.uncoded_lost,
        coded_heard: a.coded_heard - b.coded_heard,
        coded_lost: a.coded_lost - b.coded_lost,
    }
}

/// Everybody but station 0 sends to station 0.
pub(crate) fn uplink(senders: usize) -> Vec<(usize, usize)> {
    (1..=senders).map(|s| (s, 0)).collect()
}

/// Mean and half width of the 95 % interval (Student's t) of a figure over several seeds.
pub(crate) fn interval(values: &[f64]) -> (f64, f64) {
    // Two-sided 0.95 quantiles for 1 to 9 degrees of freedom.
    const T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    (mean, T[values.len() - 2] * (variance / n).sqrt())
}
