//! A rate that falls to a hundredth and stutters, behind a deep queue; a delay that jumps, behind a short one.

use super::bottleneck::{Bottleneck, World};
use wavelane_base::{Chance, Rate, Seed, Span};

/// Kilobits per second of each tenth of 80 s: 2.4 Mbit/s, from 15 s to 60 s mostly 10 kbit/s, then 3.5 Mbit/s.
fn step(tenth: u64, chance: &mut Chance) -> u64 {
    let share = chance.below(1_000);
    match tenth {
        150..600 => [10, 10, 10, 10, 10, 10, 10, 10, 400, 1_800][share as usize / 100],
        _ => (if tenth < 150 { 2_400 } else { 3_500 }) * (400 + share * 6 / 5) / 1_000,
    }
}

/// The queue of a link that stutters is our own: CUBIC would fill whatever queue there is. What is carried is printed, not held: some draws
/// find the rise late (0010).
#[test]
fn a_fall_that_stutters_is_no_competitor() {
    for draw in 201..=212 {
        let mut w = World::new(Bottleneck { queue_bytes: 1_000_000, ..Bottleneck::new(3, 50) }, 1, draw);
        let mut chance = Seed(draw).chance("fall");
        let mut carried = 0;
        for tenth in 0..800 {
            let kbit = step(tenth, &mut chance);
            w.set_rate(Rate::from_bps(kbit * 1_000));
            carried += kbit * 100;
            w.run_until((tenth + 1) as f64 / 10.0);
            assert!(!w.lanes[0].sender.competing(), "draw {draw}, at {} s", w.time());
        }
        let share = w.goodput(0, 0.0, 80.0) * 80.0 / carried as f64;
        let wait = w.wait_p95();
        println!("draw {draw}: {share:.3} of the link, waits {wait:?} at the 95th percentile");
        assert!(wait <= Span::from_secs(3), "draw {draw}: {wait:?}");
        assert_eq!(w.lanes[0].sender.path(w.now).lost_packets, 0, "draw {draw}");
    }
}

/// Bytes offered per byte that arrived, and the share used of a link of 4 Mbit/s and 20 ms each way behind ten packets. Every one to three seconds
/// its delay jumps by 100 to 400 ms and falls as fast as time passes, so that all it held back arrives at once.
fn through_spikes(draw: u64) -> (f64, f64) {
    let (rate, delay) = (Rate::from_bps(4_000_000), Span::from_millis(20));
    let mut w = World::new(Bottleneck { rate, queue_bytes: 15_000, ..Bottleneck::new(4, 40) }, 1, draw);
    let mut chance = Seed(draw).chance("spikes");
    let (mut next, mut ahead) = (100, 0);
    for step in 0..3_000 {
        if step == next {
            ahead = [100, 200, 400][chance.below(3) as usize];
            next += ahead / 10 + 100 + chance.below(200);
        }
        w.link.delay = delay + Span::from_millis(ahead);
        ahead = ahead.saturating_sub(10);
        w.run_until((step + 1) as f64 / 100.0);
    }
    let arrived = w.goodput(0, 0.0, 30.0);
    let offered = w.lanes[0].offered_packets * 1_500 * 8 / 30;
    (offered as f64 / arrived, arrived / rate.as_bps() as f64)
}

#[test]
fn what_a_delay_spike_held_back_is_no_rate() {
    for draw in 1..=6 {
        let (offered, share) = through_spikes(draw);
        println!("draw {draw}: {offered:.3} bytes offered per byte, {share:.3} of the link");
        assert!(offered <= 1.15 && share >= 0.8, "draw {draw}: {offered}, {share}");
    }
}
