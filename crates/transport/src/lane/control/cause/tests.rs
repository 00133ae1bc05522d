//! Trials over made-up fates: what convicts, what acquits, and what says nothing.

use super::trial::{Trial, Verdict};
use super::{Cause, Judged};
use crate::lane::losses::Losses;
use crate::lane::sent::Resolved;
use wavelane_base::{Instant, Rate, Span};

const RTT: Span = Span::from_millis(100);
const RATE: Rate = Rate::from_bps(12_000_000);

/// Feeds a trial at [`RATE`] with full packets until it speaks: `lost(time, gain)` is the share lost then, spread evenly;
/// `used` is the part of the allowed rate that is used. Returns the verdict and after how long it came.
fn judge(expected: f64, mut lost: impl FnMut(f64, f64) -> f64, used: f64) -> (Option<Verdict>, f64) {
    let keep = ((1.0 - expected) * 1000.0) as u64;
    let start = Instant::from_secs(1);
    let mut trial = Trial::new(start, RTT, RATE, [(keep, 1000), (1, 1)], expected, 4);
    let (mut now, mut debt, mut number) = (start, 0.0, 0);
    while now < start + Span::from_secs(60) {
        trial.advance(now);
        let (num, den) = trial.gain();
        let gain = num as f64 / den as f64;
        debt += lost(now.since(start).as_secs_f64(), gain);
        let is_lost = debt >= 1.0;
        debt -= f64::from(u8::from(is_lost));
        trial.resolved(&Resolved::full(number, now, is_lost));
        if let Some(verdict) = trial.judge(now - Span::from_millis(1), now, Span::ZERO) {
            return (Some(verdict), now.since(start).as_secs_f64());
        }
        number += 1;
        now += Span::from_secs_f64(0.001 / (gain * used).min(1.0));
    }
    (None, 60.0)
}

#[test]
fn a_policer_is_found_in_four_pairs_and_its_rate_with_it() {
    // 9 of 12 Mbit/s pass.
    let (verdict, took) = judge(0.25, |_, gain| (1.0 - 0.75 / gain).max(0.0), 1.0);
    let Some(Verdict::Ours { arrived, low }) = verdict else { panic!("{verdict:?}") };
    assert!((8_700_000..=9_300_000).contains(&arrived.as_bps()), "{arrived:?}");
    assert!(low < 0.01 && (1.6..2.2).contains(&took), "{low} after {took} s");
}

#[test]
fn a_policer_below_the_lower_rate_is_one_too() {
    let (verdict, _) = judge(0.25, |_, gain| 1.0 - 0.4 / gain, 1.0);
    assert!(matches!(verdict, Some(Verdict::Ours { .. })), "{verdict:?}");
}

/// Where the path MTU is small no packet is half as large as on other paths.
#[test]
fn small_packets_are_judged_too() {
    let start = Instant::from_secs(1);
    let mut trial = Trial::new(start, RTT, RATE, [(900, 1000), (1, 1)], 0.1, 4);
    let mut now = start;
    for number in 0..5_000 {
        trial.advance(now);
        trial.resolved(&Resolved { bytes: 576, ..Resolved::full(number, now, false) });
        if trial.judge(now - Span::from_millis(1), now, Span::ZERO).is_some() {
            return;
        }
        let (num, den) = trial.gain();
        now += Span::from_micros(400).scale(den, num);
    }
    panic!("no verdict");
}

#[test]
fn loss_that_stays_is_the_mediums_after_one_pair() {
    let (verdict, took) = judge(0.25, |_, _| 0.25, 1.0);
    let Some(Verdict::Medium(share)) = verdict else { panic!("{verdict:?}") };
    assert!((share - 0.25).abs() < 0.02 && took < 0.5, "{share} after {took} s");
}

/// The case that one look would decide wrongly: the loss ends while the rate is low, and never comes back.
#[test]
fn one_fade_is_not_taken_for_congestion() {
    for end in [0.05, 0.2, 0.3, 0.5, 0.7, 1.1] {
        let (verdict, _) = judge(0.25, |at, _| if at < end { 0.5 } else { 0.0 }, 1.0);
        assert!(matches!(verdict, Some(Verdict::Medium(_))), "end {end}: {verdict:?}");
    }
}

/// Fades of any period: the slots' order has none. A few coincide with it for four pairs.
#[test]
fn periodic_fades_convict_hardly_anybody() {
    let (mut wrong, mut all) = (0, 0);
    for period in 1..=40 {
        let period = f64::from(period) * 0.05;
        for phase in [0.0, 0.25, 0.5, 0.75] {
            let faded = |at: f64, _: f64| if (at / period + phase).fract() < 0.3 { 0.6 } else { 0.0 };
            let (verdict, _) = judge(0.18, faded, 1.0);
            wrong += u32::from(!matches!(verdict, Some(Verdict::Medium(_))));
            all += 1;
        }
    }
    assert!(wrong * 40 <= all, "{wrong} of {all}");
}

#[test]
fn an_application_that_uses_less_voids_the_trial() {
    // The higher rate is allowed, and not used.
    let (verdict, _) = judge(0.25, |_, _| 0.1, 0.5);
    assert!(matches!(verdict, Some(Verdict::Medium(_) | Verdict::Void)), "{verdict:?}");
}

/// A stall of the link cuts the rate to what was served meanwhile. A trial would keep it there until enough packets were sent, at a
/// tenth of the rate for a quarter of a minute.
#[test]
fn a_rate_that_a_stall_cut_is_not_tried() {
    for (rate, tried) in [(RATE, true), (RATE.scale(1, 2), true), (RATE.scale(1, 10), false)] {
        let (mut cause, mut losses) = (Cause::new(), Losses::default());
        let mut number = 0;
        for (rate, every) in [(RATE, u64::MAX), (rate, 8)] {
            for _ in 0..600 {
                let sent = Instant::from_millis(number);
                let now = sent + RTT;
                losses.resolved(now, &Resolved::full(number, sent, number % every == every - 1));
                let (queue, full, limited, swings) = (Span::ZERO, false, false, false);
                let judged = Judged { now, rtt: RTT, rate, settled: sent, sent, queue, full, limited, swings };
                cause.judge(&judged, &mut losses);
                number += 1;
            }
        }
        assert_eq!(cause.trying(), tried, "{rate:?}");
    }
}

/// A round trip of 40 s is a queue of acks. The lower rate of a trial does not stay for half of it.
#[test]
fn no_slot_lasts_as_long_as_a_queue_of_acks() {
    let start = Instant::from_secs(1);
    let mut trial = Trial::new(start, Span::from_secs(40), RATE, [(96, 1000), (1, 1)], 0.9, 4);
    assert_eq!(trial.gain(), (96, 1000));
    trial.advance(start + Span::from_millis(1_001));
    assert_eq!(trial.gain(), (1, 1));
}
