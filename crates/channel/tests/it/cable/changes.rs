//! A timeline changes parameters while frames wait, are in service and fly.

use super::drive::{cable, drive, frame, mbit, ms, ratio, steady, us};
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_channel::{
    Cause, ConfigError, Direction, DirectionConfig, LossConfig, Parameter, PerUnit, QUEUE_BOUND, QueueLimit,
};

fn one_frame(len: usize) -> Vec<(Instant, Vec<u8>)> {
    vec![(ms(0), frame(0, len))]
}

#[test]
fn the_rest_of_the_frame_in_service_goes_at_the_new_rate() {
    // 1500 B at 1 Mbit/s: 12 ms. Half is out at 6 ms; the other half takes 3 ms at 2 Mbit/s.
    let config = DirectionConfig { rate: mbit(1), ..Default::default() };
    let faster = drive(1, config.clone(), &one_frame(1_500), &[(ms(6), Parameter::Rate(mbit(2)))]);
    assert_eq!(faster.arrivals[0].at, ms(9));
    let slower = drive(1, config.clone(), &one_frame(1_500), &[(ms(6), Parameter::Rate(Some(Rate::from_bps(1_000))))]);
    assert_eq!(slower.arrivals[0].at, ms(6) + Span::from_secs(6));
    let twice = [(ms(3), Parameter::Rate(mbit(2))), (ms(6), Parameter::Rate(mbit(3)))];
    // 3 ms x 1 + 3 ms x 2 = 9 of 12 kbit; 3 kbit at 3 Mbit/s take 1 ms.
    assert_eq!(drive(1, config, &one_frame(1_500), &twice).arrivals[0].at, ms(7));
}

#[test]
fn a_change_to_an_infinite_rate_empties_the_queue() {
    let config = DirectionConfig { rate: mbit(1), ..Default::default() };
    let burst = steady(50, 1_500, ms(0), Span::ZERO);
    let out = drive(1, config, &burst, &[(ms(30), Parameter::Rate(None))]);
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>()[..3], [ms(12), ms(24), ms(30)]);
    assert!(out.arrivals[2..].iter().all(|a| a.at == ms(30)));
    let back = [(ms(0), Parameter::Rate(mbit(12)))];
    let out = drive(1, DirectionConfig::default(), &steady(3, 1_500, ms(1), Span::ZERO), &back);
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [ms(2), ms(3), ms(4)]);
}

#[test]
fn a_step_of_rate_is_exact_over_many_frames() {
    // 20 -> 2 -> 20 Mbit/s at 1 s and 2 s: 20 and 2 Mbit leave in the first two seconds.
    let config = DirectionConfig { rate: mbit(20), ..Default::default() };
    let offers = steady(3_000, 1_400, ms(0), Span::ZERO);
    let steps = [(ms(1_000), Parameter::Rate(mbit(2))), (ms(2_000), Parameter::Rate(mbit(20)))];
    let out = drive(1, config, &offers, &steps);
    let bits = 3_000u64 * 1_400 * 8;
    let after_steps = bits - 20_000_000 - 2_000_000;
    let end_ns = 2_000_000_000 + (after_steps * 1_000).div_ceil(20);
    assert_eq!(out.arrivals.last().unwrap().at, Instant::from_nanos(end_ns));
}

#[test]
fn a_rate_change_drops_the_fractional_bits() {
    // 8 B at 3 Gbit/s end at 22 ns, 2 bits early; at 1 bit/s those would be 2 s.
    let config = DirectionConfig { rate: mbit(3_000), ..Default::default() };
    let end = Instant::from_nanos(22);
    let offers = [(ms(0), frame(0, 8)), (end, frame(1, 8))];
    let out = drive(1, config, &offers, &[(end, Parameter::Rate(Some(Rate::from_bps(1))))]);
    assert_eq!(out.arrivals.iter().map(|a| a.at).collect::<Vec<_>>(), [end, end + Span::from_secs(64)]);
}

#[test]
fn a_falling_delay_reorders_only_if_asked_to() {
    let offers = steady(10, 100, ms(0), Span::from_millis(1));
    let drop_delay = [(us(4_500), Parameter::Delay(Span::from_millis(1)))];
    let config = DirectionConfig { delay: Span::from_millis(20), ..Default::default() };
    let kept = drive(1, config.clone(), &offers, &drop_delay);
    assert_eq!(kept.numbers(), (0..10).collect::<Vec<_>>());
    assert_eq!(kept.arrivals[9].at, ms(24), "frames 5..=9 wait for frame 4, due at 24 ms");
    let free = drive(1, DirectionConfig { keep_order: false, ..config }, &offers, &drop_delay);
    assert_eq!(free.numbers(), [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]);
}

#[test]
fn a_smaller_queue_keeps_its_frames_and_drops_new_ones() {
    let config = DirectionConfig { rate: mbit(8), ..Default::default() };
    let mut offers = steady(50, 1_000, ms(0), Span::ZERO);
    offers.push((us(10_500), frame(50, 1_000)));
    offers.push((us(45_500), frame(51, 1_000)));
    let shrink = [(ms(10), Parameter::Queue(QueueLimit::Octets(Octets::new(5_000))))];
    let out = drive(1, config, &offers, &shrink);
    assert_eq!(out.lost(Cause::Queue), [50]);
    assert_eq!(out.arrivals.len(), 51);
}

#[test]
fn a_change_of_probability_leaves_the_bursts_where_they_are() {
    let model = |in_bad| LossConfig::GilbertElliott {
        good: Span::from_millis(50),
        bad: Span::from_millis(20),
        in_good: ratio(0, 1),
        in_bad,
        per: PerUnit::Packet,
    };
    let offers = steady(10_000, 100, ms(0), Span::from_millis(1));
    let whole = drive(5, DirectionConfig { loss: model(ratio(1, 1)), ..Default::default() }, &offers, &[]);
    let part = drive(
        5,
        DirectionConfig { loss: model(ratio(1, 1)), ..Default::default() },
        &offers,
        &[(ms(3_000), Parameter::Loss(model(ratio(0, 1)))), (ms(6_000), Parameter::Loss(model(ratio(1, 1))))],
    );
    let outside: Vec<u64> = whole.lost(Cause::Loss).into_iter().filter(|n| !(3_000..6_000).contains(n)).collect();
    assert!(outside.len() > 1_000);
    assert_eq!(part.lost(Cause::Loss), outside);
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut cable = cable(1, DirectionConfig { rate: mbit(1), ..Default::default() });
    let refused = cable.set(ms(1), Direction::Forward, Parameter::Rate(Some(Rate::from_bps(0))));
    assert_eq!(refused, Err(ConfigError::RateZero));
    assert!(refused.unwrap_err().to_string().contains("leave the rate out"));
    assert_eq!(cable.config(Direction::Forward).rate, mbit(1));
    for (parameter, word) in [
        (Parameter::Delay(Span::from_secs(3_601)), "shorter"),
        (Parameter::Queue(QueueLimit::Octets(Octets::new(QUEUE_BOUND.get() + 1))), "smaller"),
        (Parameter::Outages(vec![(ms(2), ms(1))]), "sort and merge"),
        (Parameter::Outages(vec![(ms(1), ms(3)), (ms(2), ms(4))]), "sort and merge"),
        (
            Parameter::Loss(LossConfig::GilbertElliott {
                good: Span::ZERO,
                bad: Span::from_millis(1),
                in_good: ratio(0, 1),
                in_bad: ratio(1, 1),
                per: PerUnit::Bit,
            }),
            "random loss",
        ),
    ] {
        let message = cable.set(ms(1), Direction::Forward, parameter).unwrap_err().to_string();
        assert!(message.contains(word) && !message.contains('\n'), "{message}");
    }
}
