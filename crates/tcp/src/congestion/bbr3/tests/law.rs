//! What holds whatever acknowledgements, losses, marks and timeouts say, and in whatever order.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ack {
        wait: u64,
        octets: u64,
        rate: Option<u64>,
        rtt: Option<u64>,
        pipe: u64,
        back: u64,
        app_limited: bool,
        lost: u64,
    },
    Lose {
        in_flight: u64,
        lost: u64,
        start: u64,
    },
    Congestion,
    Mark(u64),
    Timeout(u64),
    Spurious,
    Restart,
    Segments(u64),
}

/// Mostly sensible, at times as large as it can be.
fn any_octets() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..400_000u64, 1 => Just(0), 1 => 0..u64::MAX / 8]
}

fn any_step() -> impl Strategy<Value = Step> {
    let rate = proptest::option::weighted(0.9, prop_oneof![8 => 1_000..100_000_000u64, 1 => 0..u64::MAX]);
    let rtt = proptest::option::weighted(0.8, prop_oneof![8 => 1..500_000_000u64, 1 => 0..7_200_000_000_000u64]);
    let ack = (0..900u64, 0..20_000u64, rate, rtt, any_octets(), 0..300_000u64, any::<bool>(), 0..6_000u64);
    prop_oneof![
        12 => ack.prop_map(|(wait, octets, rate, rtt, pipe, back, app_limited, lost)| {
            Step::Ack { wait, octets, rate, rtt, pipe, back, app_limited, lost }
        }),
        4 => (any_octets(), any_octets(), 0..100_000u64).prop_map(|(in_flight, lost, start)| Step::Lose { in_flight, lost, start }),
        1 => Just(Step::Congestion),
        1 => any_octets().prop_map(Step::Mark),
        1 => (0..100_000u64).prop_map(Step::Timeout),
        1 => Just(Step::Spurious),
        1 => Just(Step::Restart),
        1 => (100..9_000u64).prop_map(Step::Segments),
    ]
}

/// Section 5.1.1: which state may follow which in one step. ProbeRTT may begin at any time; a timeout or loss may end UP, and
/// a recovery that proves needless leads back to Startup or to a refill.
fn may_follow(from: State, to: State, step: Step) -> bool {
    use State::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    match (from, to) {
        _ if from == to => true,
        (Startup | Refill | Up, ProbeRtt) | (Drain | Down | Cruise, ProbeRtt) => true,
        // Several may be passed at once, by one acknowledgement.
        (Startup, Drain | Down | Cruise | Refill) => true,
        (Drain, Down | Cruise | Refill) => true,
        (Down, Cruise | Refill) | (Cruise, Refill) | (Refill, Up) | (Up, Down) => true,
        (ProbeRtt, Cruise | Startup) => true,
        (_, Startup) | (_, Refill) => matches!(step, Step::Spurious),
        _ => false,
    }
}

fn act(bbr: &mut Bbr3, now: &mut Instant, delivered: &mut u64, step: Step) {
    match step {
        Step::Ack { wait, octets, rate, rtt, pipe, back, app_limited, lost } => {
            *now += Span::from_millis(wait);
            *delivered += octets;
            let sample = RateSample {
                rate: rate.map(Rate::from_bps),
                delivered: back.min(*delivered),
                prior_delivered: delivered.saturating_sub(back),
                in_flight: pipe,
                lost,
                app_limited,
            };
            let rtt = rtt.map(Span::from_nanos);
            let acked = Acked {
                now: *now,
                octets,
                delivered: *delivered,
                lost,
                rtt,
                smoothed: rtt.unwrap_or(RTT),
                least: RTT,
                pipe,
                next: 0,
                una: 0,
                limited: true,
                sample: (octets > 0).then_some(sample),
                repairing: lost > 3_000,
            };
            bbr.on_ack(&acked, lost > 4_000);
        }
        Step::Lose { in_flight, lost, start } => {
            let (now, delivered, end) = (*now, *delivered, start + MSS);
            bbr.on_lost(&Lost { now, start, end, delivered, in_flight, lost, app_limited: start % 3 == 0 });
        }
        Step::Congestion => bbr.on_congestion(),
        Step::Mark(pipe) => {
            bbr.on_congestion();
            bbr.on_mark(*now, pipe);
        }
        Step::Timeout(pipe) => bbr.on_timeout(pipe),
        Step::Spurious => bbr.on_spurious_recovery(),
        Step::Restart => bbr.on_restart(*now),
        Step::Segments(mss) => bbr.set_mss(mss),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes(steps in proptest::collection::vec(any_step(), 1..200), dice in any::<u32>(), selective in any::<bool>()) {
        let mut bbr = Bbr3::new(Instant::ZERO, MSS, INITIAL, selective, dice);
        let (mut now, mut delivered) = (Instant::ZERO, 0);
        for step in steps {
            let before = bbr.state;
            act(&mut bbr, &mut now, &mut delivered, step);
            prop_assert!(may_follow(before, bbr.state, step), "{before:?} to {:?} by {step:?}", bbr.state);
            prop_assert!(bbr.pace() > Rate::default(), "it would never send again");
            prop_assert!(bbr.model.bandwidth <= bbr.model.max_bandwidth());
            prop_assert!(bbr.cwnd() > 0);
            if matches!(step, Step::Ack { .. }) {
                prop_assert!(bbr.cwnd() >= 4 * bbr.mss, "{}", bbr.cwnd());
                prop_assert!(bbr.cwnd() <= bbr.bounds.in_flight_short.max(4 * bbr.mss), "beyond the short-term bound");
                let lasting = bbr.state.is_probe_bandwidth() || bbr.state == State::ProbeRtt;
                prop_assert!(!lasting || bbr.cwnd() <= bbr.bounds.in_flight_long.max(4 * bbr.mss), "beyond the lasting bound");
            }
        }
    }
}
