//! Recorded rates and delays: byte for byte what Mahimahi's rule gives, and the integral of recorded rates.

use super::drive::{drive, frame, mbit, ms, us};
use proptest::prelude::*;
use wavelane_base::{Instant, Rate, Ratio, Span};
use wavelane_channel::cable::{OPPORTUNITY, OPPORTUNITY_HEADER};
use wavelane_channel::{
    Cause, DelayTrace, DirectionConfig, Parameter, QueueLimit, RateTrace, Source, Then, TraceError,
};

fn opportunities(at: &[u32], scale: Ratio, then: Then) -> RateTrace {
    RateTrace::opportunities(Source::made("x.down"), at.to_vec(), scale, then).unwrap()
}

fn follows(parameters: Vec<Parameter>) -> DirectionConfig {
    let mut config = DirectionConfig::default();
    parameters.into_iter().for_each(|p| config.set(p).unwrap());
    config
}

/// Mahimahi's loop, written apart: each opportunity is used by what waits, byte by byte, and what it has left lapses.
fn by_mahimahi(at: &[u32], offers: &[(Instant, usize)], until_ms: u64) -> Vec<Instant> {
    let (mut left, mut next, mut out) = (std::collections::VecDeque::new(), 0, Vec::new());
    let period = u64::from(*at.last().unwrap());
    for number in 0.. {
        let now = ms(number / at.len() as u64 * period + u64::from(at[number as usize % at.len()]));
        if now > ms(until_ms) {
            return out;
        }
        // A packet that arrives at the very millisecond comes too late: opportunities are used before packets are taken.
        while offers.get(next).is_some_and(|(arrived, _)| *arrived < now) {
            left.push_back(offers[next].1 as u64 + OPPORTUNITY_HEADER);
            next += 1;
        }
        let mut credit = OPPORTUNITY;
        while let Some(first) = left.front_mut().filter(|_| credit > 0) {
            let used = credit.min(*first);
            credit -= used;
            *first -= used;
            if *first == 0 {
                left.pop_front();
                out.push(now);
            }
        }
    }
    unreachable!("opportunities go on")
}

#[test]
fn a_full_queue_uses_each_opportunity_for_one_full_packet_and_wraps_at_the_last() {
    let trace = opportunities(&[3, 3, 10], Ratio::ONE, Then::Wrap);
    assert_eq!((trace.period(), trace.mean()), (Span::from_millis(10), Rate::from_bps(3 * 12_000 * 100)));
    let offers: Vec<_> = (0..7).map(|n| (Instant::ZERO, frame(n, 1_500))).collect();
    let out = drive(1, follows(vec![Parameter::RateTrace(trace)]), &offers, &[]);
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [3, 3, 10, 13, 13, 20, 23].map(ms));
}

#[test]
fn small_packets_share_an_opportunity_and_a_large_one_spans_two() {
    let trace = opportunities(&[5, 8, 9, 20], Ratio::ONE, Then::Wrap);
    let sizes = [500, 500, 500, 1_500, 8];
    let offers: Vec<_> = sizes.iter().enumerate().map(|(n, size)| (ms(1), frame(n as u64, *size))).collect();
    let out = drive(1, follows(vec![Parameter::RateTrace(trace)]), &offers, &[]);
    // 3 x 504 = 1,512 B need eight bytes of the second opportunity, 1,504 more its rest and eight of the third.
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [5, 5, 8, 9, 9].map(ms));
}

#[test]
fn what_an_opportunity_has_left_lapses() {
    let trace = opportunities(&[5, 5, 9], Ratio::ONE, Then::Wrap);
    let offers = vec![(ms(1), frame(0, 100)), (ms(5), frame(1, 100)), (ms(8), frame(2, 100))];
    let out = drive(1, follows(vec![Parameter::RateTrace(trace)]), &offers, &[]);
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [5, 9, 9].map(ms));
}

#[test]
fn a_scale_takes_that_part_of_every_opportunity() {
    let trace = opportunities(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], Ratio::new(1, 10).unwrap(), Then::Wrap);
    assert_eq!(trace.mean(), Rate::from_bps(1_200_000));
    let offers: Vec<_> = (0..3).map(|n| (Instant::ZERO, frame(n, 1_500))).collect();
    let out = drive(1, follows(vec![Parameter::RateTrace(trace)]), &offers, &[]);
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [10, 20, 30].map(ms));
}

#[test]
fn nothing_passes_behind_an_end() {
    let trace = opportunities(&[1, 2], Ratio::ONE, Then::End);
    let offers: Vec<_> = (0..4).map(|n| (Instant::ZERO, frame(n, 1_500))).collect();
    let config = DirectionConfig { queue: QueueLimit::Packets(1), ..follows(vec![Parameter::RateTrace(trace)]) };
    let out = drive(1, config, &offers, &[]);
    assert_eq!((out.numbers(), out.dropped(Cause::Queue)), (vec![0, 1], 2));
    // Another rate, set behind the end, takes what waits. A recording counts 1,500 of 1,496 B; the second frame had the 4 B that the
    // first left of the only opportunity.
    let trace = opportunities(&[1], Ratio::ONE, Then::End);
    let offers: Vec<_> = (0..3).map(|n| (Instant::ZERO, frame(n, 1_496))).collect();
    let config = follows(vec![Parameter::RateTrace(trace)]);
    let out = drive(1, config, &offers, &[(ms(50), Parameter::Rate(mbit(12)))]);
    let after = |frames: u64| ms(50) + Span::from_nanos((frames * 1_496 * 8_000).div_ceil(12));
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [ms(1), after(1), after(2)]);
}

proptest! {
    #[test]
    fn any_arrivals_leave_when_mahimahi_lets_them(
        mut at in proptest::collection::vec(0u32..40, 1..30),
        offers in proptest::collection::vec((0u64..60_000, 8usize..1_501), 1..60),
    ) {
        at.push(40);
        at.sort_unstable();
        let mut offers: Vec<_> = offers.iter().map(|(at, len)| (us(*at), *len)).collect();
        offers.sort();
        let frames: Vec<_> = offers.iter().enumerate().map(|(n, (at, len))| (*at, frame(n as u64, *len))).collect();
        let trace = opportunities(&at, Ratio::ONE, Then::Wrap);
        let out = drive(1, follows(vec![Parameter::RateTrace(trace)]), &frames, &[]);
        let ours: Vec<Instant> = out.arrivals.iter().map(|a| a.at).collect();
        prop_assert_eq!(ours, by_mahimahi(&at, &offers, 10_000));
    }

    /// The n-th frame of a busy period ends when the integral of the rates has reached its bits.
    #[test]
    fn recorded_rates_are_integrated(
        rates in proptest::collection::vec(0u64..3_000_000, 1..8),
        lengths in proptest::collection::vec(8usize..1_500, 1..40),
    ) {
        let steps: Vec<_> =
            rates.iter().enumerate().map(|(n, bps)| (Span::from_millis(7 * n as u64), Rate::from_bps(*bps))).collect();
        let made = RateTrace::steps(Source::made("x.csv"), &steps, Ratio::ONE, Then::Wrap);
        prop_assume!(rates.iter().sum::<u64>() > 1_000_000);
        let offers: Vec<_> = lengths.iter().enumerate().map(|(n, len)| (Instant::ZERO, frame(n as u64, *len))).collect();
        let out = drive(1, follows(vec![Parameter::RateTrace(made.unwrap())]), &offers, &[]);
        prop_assert_eq!(out.arrivals.len(), lengths.len());
        let lasts = if rates.len() == 1 { 1_000_000_000 } else { 7_000_000u128 };
        let (mut step, mut done, mut due) = (0u128, 0u128, 0u128);
        for (arrival, len) in out.arrivals.iter().zip(&lengths) {
            due += *len as u128 * 8_000_000_000;
            let bps = |step: u128| u128::from(rates[(step % rates.len() as u128) as usize]);
            while done + bps(step) * lasts < due {
                done += bps(step) * lasts;
                step += 1;
            }
            let end = step * lasts + (due - done).div_ceil(bps(step));
            prop_assert_eq!(u128::from(arrival.at.as_nanos()), end);
        }
    }
}

#[test]
fn a_rate_that_changes_to_a_recording_and_back_keeps_the_frame_in_service() {
    let trace = opportunities(&[10], Ratio::ONE, Then::Wrap);
    let offers: Vec<_> = (0..3).map(|n| (Instant::ZERO, frame(n, 1_496))).collect();
    let config = DirectionConfig { rate: Some(Rate::from_bps(12_000)), ..Default::default() };
    // By 500 ms 750 B are done; 746 wait for the opportunity at 510 ms, which has 758 left for the next; 742 of it are done at 60 kbit/s.
    let changes = [(ms(500), Parameter::RateTrace(trace)), (ms(515), Parameter::Rate(Some(Rate::from_bps(60_000))))];
    let out = drive(1, config, &offers, &changes);
    assert_eq!(out.arrivals[0].at, ms(510));
    let rest = Span::from_nanos((1_500 - 758) * 8_000_000_000 / 60_000 + 1);
    assert_eq!(out.arrivals[1].at, ms(515) + rest);
}

#[test]
fn a_delay_follows_its_recording_and_order_is_kept() {
    let delays = [30, 10, 20].map(Span::from_millis).to_vec();
    let made = |then| DelayTrace::new(Source::made("x.delay"), delays.clone(), Span::from_millis(10), then).unwrap();
    let offers: Vec<_> = [0, 12, 25, 35].iter().enumerate().map(|(n, at)| (ms(*at), frame(n as u64, 100))).collect();
    let arrive = |then| {
        let out = drive(1, follows(vec![Parameter::DelayTrace(made(then))]), &offers, &[]);
        out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>()
    };
    assert_eq!(arrive(Then::Wrap), [30, 30, 45, 65].map(ms), "the second waits for the first");
    assert_eq!(arrive(Then::End), [30, 30, 45, 55].map(ms));
    assert_eq!(made(Then::Wrap).longest(), Span::from_millis(30));
}

#[test]
fn recordings_that_cannot_be_used_are_refused_with_their_entry() {
    let source = || Source::made("x");
    let listed = |ms: &[u32]| RateTrace::opportunities(source(), ms.to_vec(), Ratio::ONE, Then::Wrap).unwrap_err();
    assert_eq!(listed(&[]), TraceError::Empty);
    assert_eq!(listed(&[0, 0]), TraceError::Period(Span::ZERO));
    assert_eq!(listed(&[1, 5, 4]).entry(), Some(2));
    assert_eq!(listed(&[u32::MAX]), TraceError::Period(Span::from_millis(u64::from(u32::MAX))));
    let stepped = |steps: &[(u64, u64)]| {
        let steps: Vec<_> = steps.iter().map(|(s, bps)| (Span::from_secs(*s), Rate::from_bps(*bps))).collect();
        RateTrace::steps(source(), &steps, Ratio::ONE, Then::Wrap).unwrap_err()
    };
    assert_eq!(stepped(&[(0, 0), (1, 0)]), TraceError::Nothing);
    assert_eq!(stepped(&[(0, 1), (0, 1)]).entry(), Some(1));
    assert_eq!(stepped(&[(0, 1), (1, u64::MAX)]), TraceError::Fast { entry: 1 });
    let none = RateTrace::opportunities(source(), vec![1], Ratio::ZERO, Then::Wrap).unwrap_err();
    assert_eq!(none, TraceError::Nothing);
    let long = DelayTrace::new(source(), vec![Span::ZERO, Span::MAX], Span::from_millis(10), Then::Wrap);
    assert_eq!(long.unwrap_err(), TraceError::Long { entry: 1 });
    assert!(DelayTrace::new(source(), vec![Span::ZERO], Span::ZERO, Then::Wrap).is_err());
}
