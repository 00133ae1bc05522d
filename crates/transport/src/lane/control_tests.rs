//! The controller against a model bottleneck. Every figure stands beside what physics allows.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::bottleneck::{App, Bottleneck, Loss, Policer, World};
use crate::Controller;
use wavelane_base::{Rate, Seed, Span};

const MBIT: f64 = 1e6;
const LINK: f64 = 20.0 * MBIT;
/// Goodput is counted per 100 ms, so a window may hold one packet more than its share.
const SLACK: f64 = 1.002;

fn bursts(good: u64, bad: u64) -> Loss {
    Loss::Bursts { good: Span::from_millis(good), bad: Span::from_millis(bad) }
}

fn jain(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().sum();
    sum * sum / (x.len() as f64 * x.iter().map(|v| v * v).sum::<f64>())
}

/// Frozen goodputs in Mbit/s (mean of three seeds), each beside its floor and its physical bound.
#[test]
fn loss_costs_only_the_lost_share() {
    let table = [
        ("none", Loss::None, 0.0, 19.93),
        ("1 %", Loss::Random(0.01), 0.01, FROZEN[0]),
        ("5 %", Loss::Random(0.05), 0.05, FROZEN[1]),
        ("10 %", Loss::Random(0.1), 0.1, FROZEN[2]),
        ("20 %", Loss::Random(0.2), 0.2, FROZEN[3]),
        ("bursts 570/30", bursts(570, 30), 0.05, FROZEN[4]),
        ("bursts 380/20", bursts(380, 20), 0.05, FROZEN[5]),
    ];
    for (name, loss, p, frozen) in table {
        let mut sum = 0.0;
        for seed in 1..=3 {
            let mut w = World::new(Bottleneck { loss, ..Bottleneck::new(20, 100) }, 1, seed);
            w.run_until(20.0);
            let goodput = w.goodput(0, 3.0, 20.0);
            let (queue, _) = w.queue_ms(3.0, 20.0);
            assert!(queue <= 10.0, "{name}: mean queue {queue} ms");
            assert!(goodput <= LINK * SLACK, "{name}: faster than the link: {goodput}");
            // If a burst swallows the first train, startup doubles, and overruns the queue by a part of a round trip.
            assert!(w.drop_share() <= 0.002, "{name}: startup overran a queue of one round trip: {}", w.drop_share());
            sum += goodput / 3.0;
        }
        let floor = if p == 0.0 { 0.95 } else { 0.93 };
        assert!(sum >= floor * (1.0 - p) * LINK, "{name}: {sum}");
        assert!((sum / MBIT - frozen).abs() < 0.01, "{name}: {} Mbit/s, frozen {frozen}", sum / MBIT);
    }
}
const FROZEN: [f64; 6] = [19.73, 18.94, 17.94, 15.94, 18.75, 18.77];

/// A fade that loses a part of what is sent ends by itself, whatever the rate. Bound: what does not fade, and half a part in
/// a hundred for the trials.
#[test]
fn partial_fades_are_not_taken_for_congestion() {
    for (good, bad, lost) in
        [(570, 30, 0.2), (570, 30, 0.5), (570, 30, 0.7), (900, 100, 0.5), (1800, 200, 0.4), (95, 5, 0.6)]
    {
        let loss = Loss::Fades { good: Span::from_millis(good), bad: Span::from_millis(bad), lost };
        let mean = bad as f64 / (good + bad) as f64 * lost;
        let mut sum = 0.0;
        for seed in 1..=3 {
            let mut w = World::new(Bottleneck { loss, ..Bottleneck::new(20, 100) }, 1, seed);
            w.run_until(40.0);
            sum += w.goodput(0, 3.0, 40.0) / 3.0;
        }
        // Three seeds' fades differ from the mean by a part in a hundred or two.
        assert!((0.96..=1.02).contains(&(sum / (LINK * (1.0 - mean)))), "{good}/{bad} {lost}: {}", sum / MBIT);
    }
}

/// A policer's loss follows the rate, and a policer that fades too is still one, though its trials take longer: twice the
/// drops of a policer alone.
#[test]
fn a_policer_behind_a_fading_medium_is_found() {
    let policer = Some(Policer { rate: Rate::from_bps(8_000_000), depth: 20_000 });
    let loss = Loss::Fades { good: Span::from_millis(570), bad: Span::from_millis(30), lost: 0.5 };
    for seed in 1..=3 {
        let mut w = World::new(Bottleneck { policer, loss, ..Bottleneck::new(20, 100) }, 1, seed);
        w.run_until(10.0);
        let (offered, dropped) = (w.lanes[0].offered_packets, w.lanes[0].dropped_packets);
        w.run_until(60.0);
        let share = (w.lanes[0].dropped_packets - dropped) as f64 / (w.lanes[0].offered_packets - offered) as f64;
        assert!(share <= 0.1, "seed {seed}: {share} dropped");
        assert!(w.goodput(0, 10.0, 60.0) >= 0.85 * 0.975 * 8.0 * MBIT, "seed {seed}: {}", w.trace(0));
    }
}

/// What a ceiling was found for may go: then the ceiling goes too.
#[test]
fn a_ceiling_falls_when_the_policer_does() {
    let policer = Some(Policer { rate: Rate::from_bps(5_000_000), depth: 20_000 });
    let mut w = World::new(Bottleneck { policer, ..Bottleneck::new(20, 100) }, 1, 1);
    w.run_until(30.0);
    w.link.policer = None;
    w.run_until(50.0);
    assert!(w.goodput(0, 42.0, 50.0) >= 0.95 * LINK, "{}", w.trace(0));
}

/// Jitter above the target hides an empty queue; the rate is found all the same.
#[test]
fn capacity_is_found_under_jitter_on_a_long_path() {
    for seed in 1..=3 {
        let link = Bottleneck { jitter: Span::from_millis(26), queue_bytes: 2_000_000, ..Bottleneck::new(35, 555) };
        let mut w = World::new(link, 1, seed);
        w.run_until(30.0);
        assert!(w.goodput(0, 15.0, 30.0) >= 0.85 * 35.0 * MBIT, "seed {seed}: {}", w.trace(0));
    }
}

#[test]
fn startup_fills_the_link_within_1200_ms() {
    let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
    w.run_until(2.0);
    assert!(w.goodput(0, 1.2, 2.0) >= 0.9 * LINK, "{}", w.trace(0));
    let (_, most) = w.queue_ms(0.0, 2.0);
    // Doubling per round trip overruns by one round trip at most.
    assert!(most < 100.0, "overshoot {most} ms");
}

#[test]
fn a_rate_step_down_leaves_no_standing_queue_and_up_is_followed() {
    for seed in 1..=3 {
        let mut w = World::new(Bottleneck::new(20, 100), 1, seed);
        w.run_until(10.0);
        w.set_rate(Rate::from_bps(2_000_000));
        w.run_until(20.0);
        w.set_rate(Rate::from_bps(20_000_000));
        w.run_until(30.0);
        // What was on its way fills 970 ms of the slow link and cannot be called back.
        let (_, most) = w.queue_ms(11.0, 20.0);
        assert!(most <= 100.0, "standing queue {most} ms");
        let (low, high) = (w.goodput(0, 13.0, 20.0), w.goodput(0, 23.0, 30.0));
        assert!((0.8 * 2.0 * MBIT..=2.0 * MBIT * SLACK * 1.01).contains(&low), "{low}");
        assert!((0.8 * LINK..=LINK * SLACK).contains(&high), "{high}");
    }
}

#[test]
fn a_longer_way_or_jitter_is_not_taken_for_a_queue() {
    let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
    w.run_until(10.0);
    w.link.delay += Span::from_millis(30);
    w.run_until(20.0);
    let goodput = w.goodput(0, 10.0, 20.0);
    assert!((0.8 * LINK..=LINK * SLACK).contains(&goodput), "base step: {goodput} {}", w.trace(0));
    for seed in 1..=5 {
        let mut w = World::new(Bottleneck { jitter: Span::from_millis(20), ..Bottleneck::new(20, 100) }, 1, seed);
        w.run_until(20.0);
        let goodput = w.goodput(0, 3.0, 20.0);
        assert!((0.8 * LINK..=LINK * SLACK).contains(&goodput), "jitter: {goodput} {}", w.trace(0));
    }
}

#[test]
fn a_short_queue_and_a_policer_drop_little() {
    for seed in 1..=3 {
        let mut w = World::new(Bottleneck { queue_bytes: 25_000, ..Bottleneck::new(20, 100) }, 1, seed);
        w.run_until(30.0);
        assert!(w.drop_share() <= 0.05, "short queue: {}", w.drop_share());
        assert!((0.8 * LINK..=LINK * SLACK).contains(&w.goodput(0, 3.0, 30.0)), "{}", w.trace(0));
    }
    for depth in [15_000, 30_000, 100_000] {
        let policer = Some(Policer { rate: Rate::from_bps(20_000_000), depth });
        let mut w = World::new(Bottleneck { policer, ..Bottleneck::new(1000, 100) }, 1, 1);
        w.run_until(5.0);
        let (offered, dropped) = (w.lanes[0].offered_packets, w.lanes[0].dropped_packets);
        w.run_until(30.0);
        let share = (w.lanes[0].dropped_packets - dropped) as f64 / (w.lanes[0].offered_packets - offered) as f64;
        assert!(share <= 0.03, "policer {depth}: {share} once it was found");
        // Startup and the first trial drop as much again.
        assert!(w.drop_share() <= 0.06, "policer {depth}: {}", w.drop_share());
        let bound = LINK * SLACK + depth as f64 * 8.0 / 27.0;
        assert!((0.8 * LINK..=bound).contains(&w.goodput(0, 3.0, 30.0)), "{depth}: {}", w.trace(0));
    }
}

#[test]
fn lanes_share_a_bottleneck_fairly() {
    for (lanes, seed) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
        let mut w = World::new(Bottleneck::new(20, 100), lanes, seed);
        for i in 1..lanes {
            w.run_until(5.0 * i as f64);
            w.lanes[i].app = App::Greedy;
        }
        let from = 5.0 * (lanes - 1) as f64;
        w.run_until(from + 60.0);
        let shares: Vec<f64> = (0..lanes).map(|i| w.goodput(i, from, from + 60.0)).collect();
        assert!(jain(&shares) >= 0.9, "{shares:?}");
        let sum: f64 = shares.iter().sum();
        assert!((0.95 * LINK..=LINK * SLACK).contains(&sum), "{shares:?}");
    }
}

#[test]
fn application_pauses_do_not_change_the_rate() {
    let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
    w.run_until(5.0);
    // 20 kB every 100 ms: 1.6 Mbit/s.
    w.lanes[0].app = App::Chunks { bytes: 20_000, every: Span::from_millis(100) };
    for t in 6..25 {
        w.run_until(f64::from(t));
        let rate = w.lanes[0].sender.rate().as_bps() as f64;
        assert!((0.5 * LINK..1.3 * LINK).contains(&rate), "at {t}: {rate}");
    }
    w.lanes[0].app = App::Silent;
    w.run_until(40.0);
    w.lanes[0].app = App::Greedy;
    w.run_until(45.0);
    let (_, most) = w.queue_ms(40.0, 41.0);
    assert!(most <= 60.0, "restart burst: {most} ms of queue");
    assert!(w.goodput(0, 41.0, 45.0) >= 0.8 * LINK, "{}", w.trace(0));
}

#[test]
fn outages_while_idle_do_not_lower_the_rate() {
    let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
    w.run_until(5.0);
    w.lanes[0].app = App::Chunks { bytes: 200, every: Span::from_millis(500) };
    for n in 0..6 {
        w.run_until(8.0 + 5.0 * f64::from(n));
        w.link.outage = true;
        w.run_until(10.0 + 5.0 * f64::from(n));
        w.link.outage = false;
    }
    w.run_until(40.0);
    let rate = w.lanes[0].sender.rate().as_bps() as f64;
    assert!(rate >= 0.5 * LINK, "{rate}");
    w.lanes[0].app = App::Greedy;
    w.run_until(42.0);
    assert!(w.goodput(0, 40.5, 42.0) >= 0.8 * LINK, "{}", w.trace(0));
}

#[test]
fn other_paths_work_too() {
    for (mbit, rtt) in [(20, 600), (20, 5), (1, 100), (200, 20)] {
        let link = Bottleneck { queue_bytes: 250_000.max(mbit * 12_500), ..Bottleneck::new(mbit, rtt) };
        let mut w = World::new(link, 1, 1);
        w.run_until(15.0);
        let bound = mbit as f64 * MBIT;
        let goodput = w.goodput(0, 5.0, 15.0);
        assert!((0.85 * bound..=bound * SLACK * 1.01).contains(&goodput), "{mbit}/{rtt}: {goodput}");
    }
}

#[test]
fn a_thin_way_back_is_fed_sparingly() {
    let link = Bottleneck { reverse_rate: Rate::from_bps(33_600), ..Bottleneck::new(2, 100) };
    let mut w = World::new(link, 1, 1);
    w.run_until(20.0);
    let goodput = w.goodput(0, 5.0, 20.0);
    assert!(goodput >= 0.8 * 2.0 * MBIT, "{goodput} {}", w.trace(0));
    let rtt = w.lanes[0].sender.path(w.now).rtt.unwrap();
    assert!(rtt < Span::from_millis(600), "acks stand in a queue: {rtt}");
}

#[test]
fn after_an_outage_data_flows_within_a_second() {
    for seconds in [2.0, 30.0] {
        let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
        w.run_until(10.0);
        w.link.outage = true;
        w.run_until(11.0);
        let (sent, probes) = (w.lanes[0].offered_packets, w.lanes[0].tail_probes);
        w.run_until(10.0 + seconds);
        let extra = w.lanes[0].offered_packets - sent;
        assert_eq!(extra, w.lanes[0].tail_probes - probes, "only probes during the outage");
        assert!(extra as f64 <= 4.5 * seconds, "{extra} probes");
        w.link.outage = false;
        let end = 10.0 + seconds;
        w.run_until(end + 1.2);
        assert!(w.goodput(0, end, end + 1.2) > 0.5 * MBIT, "{}", w.trace(0));
        w.run_until(end + 10.0);
        assert!(w.goodput(0, end + 3.0, end + 10.0) >= 0.9 * LINK, "{}", w.trace(0));
    }
}

/// Bad times singly and together, on a short way; then a good link with a long one. A slump with loss or an outage after it
/// takes longer and is not held here (decision 0010, "Not done"). From the slowest rate
/// known it takes seven doublings to 20 Mbit/s; a round of the law is a round trip and its measuring window, and two
/// more than the doublings may pass until the first begins: 3 s at a round trip of 100 ms.
#[test]
fn after_bad_times_the_rate_is_back_within_three_seconds() {
    type Change = fn(&mut Bottleneck);
    let slow: Change = |l| l.rate = Rate::from_bps(200_000);
    let lossy: Change = |l| l.loss = Loss::Random(0.5);
    let outage: Change = |l| l.outage = true;
    let cases: [(&str, &[Change]); 5] = [
        ("a longer way", &[]),
        ("an outage", &[outage]),
        ("a slump", &[slow]),
        ("loss", &[lossy]),
        ("loss, a slump and an outage", &[lossy, slow, outage]),
    ];
    for (name, changes) in cases {
        for seed in 1..=3 {
            let mut w = World::new(Bottleneck::new(20, 12), 1, seed);
            w.run_until(5.0);
            for (n, change) in changes.iter().enumerate() {
                change(&mut w.link);
                w.run_until(7.0 + 2.0 * n as f64);
            }
            let healed = w.time();
            w.link = Bottleneck::new(20, 100);
            w.run_until(healed + 6.0);
            let got = w.goodput(0, healed + 3.0, healed + 4.0);
            assert!(got >= 0.8 * LINK, "{name}, seed {seed}: {got} after {healed}: {}", w.trace(0));
        }
    }
}

#[test]
fn clock_drift_over_ten_minutes_changes_nothing() {
    let run = |ppm| {
        let mut w = World::new(Bottleneck::new(2, 100), 1, 1);
        w.drift_ppm = ppm;
        w.run_until(600.0);
        (w.goodput(0, 10.0, 600.0), w.queue_ms(10.0, 600.0).0)
    };
    let (goodput, queue) = run(0);
    for ppm in [-100, 50, 100] {
        let (g, q) = run(ppm);
        assert!((g / goodput - 1.0).abs() < 0.01 && (q - queue).abs() < 5.0, "{ppm}: {g} {q}, not {goodput} {queue}");
    }
}

#[test]
fn roaming_costs_at_most_two_round_trips() {
    let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
    w.run_until(10.0);
    let now = w.now;
    w.lanes[0].sender.address_changed(now);
    w.run_until(13.0);
    let missing = (LINK - w.goodput(0, 10.0, 13.0)) * 3.0 / LINK;
    assert!(missing <= 0.2, "{missing} s missing: {}", w.trace(0));
}

#[test]
fn the_path_mtu_is_found_under_loss() {
    let link = Bottleneck { mtu: 1400, loss: Loss::Random(0.1), ..Bottleneck::new(20, 100) };
    let mut w = World::new(link, 1, 1);
    w.run_until(10.0);
    let mtu = w.lanes[0].sender.path(w.now).path_mtu;
    assert!((1384..=1400).contains(&mtu), "{mtu}");
    // The path shrinks: black hole.
    w.link.mtu = 1300;
    w.run_until(25.0);
    let mtu = w.lanes[0].sender.path(w.now).path_mtu;
    assert!((1200..=1300).contains(&mtu), "{mtu}");
    assert!(w.goodput(0, 20.0, 25.0) > 0.8 * 0.9 * LINK, "{}", w.trace(0));
}

#[test]
fn cubic_fills_a_clean_link_and_fixed_keeps_its_rate() {
    let mut w = World::new(Bottleneck::new(20, 100), 0, 1);
    w.add_lane(Controller::Cubic, App::Greedy);
    w.run_until(20.0);
    let goodput = w.goodput(0, 3.0, 20.0);
    assert!((0.9 * LINK..=LINK * SLACK).contains(&goodput), "{goodput} {}", w.trace(0));
    let mut w = World::new(Bottleneck { loss: Loss::Random(0.2), ..Bottleneck::new(20, 100) }, 0, 1);
    w.add_lane(Controller::Fixed(Rate::from_bps(10_000_000)), App::Greedy);
    w.run_until(20.0);
    let goodput = w.goodput(0, 3.0, 20.0);
    assert!((0.98 * 8.0 * MBIT..=1.02 * 8.0 * MBIT).contains(&goodput), "{goodput}");
}

#[test]
fn lost_acks_and_coarse_scheduling_cost_little() {
    for seed in 1..=3 {
        let both = Bottleneck { loss: bursts(570, 30), ack_loss: bursts(570, 30), ..Bottleneck::new(20, 100) };
        let coarse = |ms| Bottleneck { tick: Span::from_millis(ms), ..Bottleneck::new(20, 100) };
        for (link, floor) in [(both, 0.93 * 0.95), (coarse(4), 0.95), (coarse(10), 0.8)] {
            let mut w = World::new(link, 1, seed);
            w.run_until(20.0);
            let goodput = w.goodput(0, 3.0, 20.0);
            assert!((floor * LINK..=LINK * SLACK).contains(&goodput), "{goodput} {}", w.trace(0));
        }
    }
}
/// The seed draws the path. Nothing may collapse, whatever it is.
#[test]
fn no_path_of_a_swarm_starves_a_lane() {
    for seed in 0..40 {
        let mut c = Seed(seed).chance("swarm");
        let mut pick = |choices: &[u64]| choices[c.below(choices.len() as u64) as usize];
        let (mbit, rtt, queue_ms) =
            (pick(&[1, 2, 5, 10, 20]), pick(&[4, 20, 50, 100, 300]), pick(&[20, 50, 100, 300, 1000]));
        let (jitter, tick) = (pick(&[0, 0, 1, 5, 20]), pick(&[0, 0, 1, 4]));
        let (loss, p) = match pick(&[0, 1, 2, 3, 4]) {
            0 => (Loss::None, 0.0),
            1 => (Loss::Random(0.02), 0.02),
            2 => (Loss::Random(0.2), 0.2),
            3 => (bursts(570, 30), 0.05),
            _ => (bursts(1000, 100), 0.09),
        };
        let link = Bottleneck {
            queue_bytes: (mbit * 125 * queue_ms).max(6000),
            loss,
            ack_loss: loss,
            jitter: Span::from_millis(jitter),
            tick: Span::from_nanos((tick * 1_000_000).max(1)),
            ..Bottleneck::new(mbit, rtt)
        };
        let mut w = World::new(link, 1, seed);
        w.run_until(15.0);
        let (bound, goodput) = (mbit as f64 * MBIT, w.goodput(0, 5.0, 15.0));
        assert!(goodput >= 0.6 * (1.0 - p) * bound, "seed {seed}: {goodput} {link:?} {}", w.trace(0));
        assert!(goodput <= bound * 1.02, "seed {seed}: faster than the link: {goodput} {link:?}");
        assert!(w.drop_share() <= 0.25, "seed {seed}: {} dropped {link:?}", w.drop_share());
    }
}
