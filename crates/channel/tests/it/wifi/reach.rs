//! Reach: hidden stations, carrier sense, capture, bit errors, retry limits.

use super::drive::*;
use wavelane_base::{FrameMeta, Machine, Ratio, Seed, Span};
use wavelane_channel::wifi::{
    BitErrors, CaptureEffect, ErrorsPer, Phy, Reach, ReachMap, Rules, Sensed, Tally, Wifi, WifiConfig, WifiEvent, port,
};

const WARM: Span = Span::from_millis(500);
const MEASURED: Span = Span::from_secs(10);
const OFDM_6: (Phy, u64) = (Phy::Ofdm, 60);
const SETS: [Rules; 4] = [Rules::standard(), Rules::ns3_3_44(), Rules::ns2_2001(), Rules::bianchi_2000()];

/// Stations 1 and 2 hear station 0 and are heard by it; what they do to each other is `between`.
fn triangle(phy: (Phy, u64), rules: Rules, between: [Reach; 2]) -> WifiConfig {
    let mut reach = ReachMap::none(3);
    reach.set_both(0, 1, Reach::FULL).unwrap();
    reach.set_both(0, 2, Reach::FULL).unwrap();
    reach.set(1, 2, between[0]).unwrap();
    reach.set(2, 1, between[1]).unwrap();
    WifiConfig { reach, ..cell(phy, rules, 3) }
}
fn missing(tally: &Tally) -> f64 {
    tally.ack_missing as f64 / tally.data_sent as f64
}

/// Sharing one ear must be a matter of speed alone: the same cell, with signal strengths that make every pair unlike
/// the others and mean nothing without capture, does exactly the same.
#[test]
fn stations_that_share_an_ear_behave_like_stations_that_do_not() {
    for rules in SETS {
        for phy in [OFDM_54, HR_11] {
            for rts_threshold in [0, 65_536] {
                let shared = WifiConfig { rts_threshold, ..cell(phy, rules, 13) };
                let mut apart = shared.clone();
                for (from, to) in (0..13).flat_map(|a| (0..13).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                    let signal_db = (from * 13 + to) as i16;
                    apart.reach.set(from, to, Reach { signal_db, ..Reach::FULL }).unwrap();
                }
                let run = |config| saturate(3, config, &uplink(12), Span::ZERO, Span::from_secs(2)).tallies;
                assert_eq!(run(&shared), run(&apart), "{} {} {rts_threshold}", rules.name, phy.0);
            }
        }
    }
}

/// Stations that cannot hear each other start while the other is at it: at 6 Mbit/s a frame lasts 2 ms, hundreds of
/// slots, so nearly every first try of both fails and an RTS, which lasts 52 us, pays.
#[test]
fn hidden_stations_collide_and_an_rts_helps_them() {
    let flows = uplink(2);
    let run = |config: &WifiConfig| saturate(1, config, &flows, WARM, MEASURED);
    let near = run(&triangle(OFDM_6, Rules::standard(), [Reach::FULL; 2]));
    let hidden_config = triangle(OFDM_6, Rules::standard(), [Reach::default(); 2]);
    let hidden = run(&hidden_config);
    let rts = run(&WifiConfig { rts_threshold: 0, ..hidden_config });
    println!("near {:.3}, hidden {:.3}, hidden with RTS {:.3} Mbit/s", near.mbps(), hidden.mbps(), rts.mbps());
    assert!(near.p_coll() < 0.15, "{}", near.p_coll());
    assert!(hidden.p_coll() > 0.5, "{}", hidden.p_coll());
    assert!(hidden.mbps() < 0.6 * near.mbps());
    assert!(rts.mbps() > 1.5 * hidden.mbps() && rts.mbps() < near.mbps());
    // Once a CTS has been heard by the other, data is safe.
    assert!(rts.sum(|t| t.ack_missing) < 0.02 * rts.sum(|t| t.data_sent));
    // Nothing above what a frame and its exchange allow: DIFS, data, SIFS, ACK.
    let bound = (PAYLOAD * 8) as f64 / (34.0 + 2072.0 + 16.0 + 44.0);
    assert!(near.mbps() < bound);
}

/// Station 1 hears station 2 and gives way; station 2 hears nothing of station 1 and talks over it.
#[test]
fn hidden_stations_collide() {
    let one_way = triangle(OFDM_6, Rules::standard(), [Reach::default(), Reach::FULL]);
    let run = saturate(1, &one_way, &uplink(2), WARM, MEASURED);
    let (polite, deaf) = (&run.tallies[1], &run.tallies[2]);
    assert!(deaf.acknowledged > 2 * polite.acknowledged, "{polite:?} {deaf:?}");
    assert!(missing(polite) > 0.3);
}

#[test]
fn sensed_energy_blocks_a_station() {
    let loud = triangle(OFDM_6, Rules::standard(), [Reach::LOUD; 2]);
    let run = saturate(1, &loud, &uplink(2), WARM, MEASURED);
    assert!(run.p_coll() < 0.2, "{}", run.p_coll());
    assert!(run.mbps() > 4.0, "{}", run.mbps());
}

/// Two pairs that sense each other share the medium; if they only spoil each other's receptions, they collide; if
/// they do nothing to each other, each has it for itself.
#[test]
fn two_pairs_share_spoil_or_ignore_each_other() {
    let pairs = |between: Reach| {
        let mut reach = ReachMap::none(4);
        reach.set_both(0, 1, Reach::FULL).unwrap();
        reach.set_both(2, 3, Reach::FULL).unwrap();
        for (a, b) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            reach.set_both(a, b, between).unwrap();
        }
        let config = WifiConfig { reach, ..cell(OFDM_6, Rules::standard(), 4) };
        saturate(1, &config, &[(0, 1), (2, 3)], WARM, MEASURED)
    };
    let (sensed, harmful, apart) = (pairs(Reach::SENSED), pairs(Reach::HARMFUL), pairs(Reach::default()));
    assert_eq!(apart.p_coll(), 0.0);
    assert!((sensed.mbps() / apart.mbps() - 0.5).abs() < 0.1, "{} {}", sensed.mbps(), apart.mbps());
    assert!(harmful.p_coll() > 0.5);
}

/// Station 0 has a frame for station 1 and senses stations 2 and 4, which do not hear each other. Station 2 begins first and
/// ends first. When the frame has its acknowledgement, in microseconds after station 2 has ended and after station 4 has.
fn after_two_overlapping_frames(rules: Rules, second: u64) -> (i64, i64) {
    let mut reach = ReachMap::none(6);
    for (a, b) in [(0, 1), (2, 3), (4, 5)] {
        reach.set_both(a, b, Reach::FULL).unwrap();
    }
    reach.set_both(0, 2, Reach::SENSED).unwrap();
    reach.set_both(0, 4, Reach::SENSED).unwrap();
    let mut wifi = Wifi::new(Seed(1), "air", &WifiConfig { reach, ..cell(OFDM_6, rules, 6) }).unwrap();
    let mut hand_in = |at: u64, from: usize, octets: usize| {
        wifi.handle_frame(us(at), port(from, from + 1), &mut vec![0; octets], FrameMeta::default());
    };
    hand_in(1_000, 2, 500);
    hand_in(second, 4, 1_500);
    hand_in(1_100, 0, 50);
    let mut ended = [0; 6];
    while let Some(wakeup) = wifi.poll_timeout() {
        wifi.handle_timeout(wakeup.at);
        while let Some(event) = wifi.poll_event() {
            let WifiEvent::Acknowledged { at, from, .. } = event else { panic!("{event:?}") };
            ended[from] = at.as_nanos() as i64 / 1_000;
        }
    }
    (ended[0] - ended[2], ended[0] - ended[4])
}

/// ns-3 holds the medium busy while both are on the air, and forgets the longer one; unless it notices them together,
/// which makes no difference here: the first to end is the first to begin. Everybody else waits for the last.
#[test]
fn of_two_sensed_frames_ns3_forgets_the_tail_of_the_longer() {
    for second in [1_002, 1_050] {
        let (first, last) = after_two_overlapping_frames(Rules::ns3_3_44(), second);
        // DIFS, at most 15 slots, 86 bytes at 6 Mbit/s, SIFS, ACK; station 2's own ends SIFS and 44 us after its frame.
        assert!((100..34 + 15 * 9 + 140 + 16 + 44).contains(&first), "{first}");
        assert!(last < 0, "{last}");
        let deaf_to_none = Rules { sensed: Sensed::ToTheLast, ..Rules::ns3_3_44() };
        for rules in [deaf_to_none, Rules::standard()] {
            let (_, last) = after_two_overlapping_frames(rules, second);
            assert!(last > 100, "{}: {last}", rules.name);
        }
    }
}

#[test]
fn capture_saves_the_stronger_of_two_hidden_stations() {
    let mut config = triangle(OFDM_6, Rules::standard(), [Reach::default(); 2]);
    config.reach.set(1, 0, Reach { signal_db: 12, ..Reach::FULL }).unwrap();
    let flows = uplink(2);
    let without = saturate(1, &config, &flows, WARM, MEASURED);
    assert!(missing(&without.tallies[1]) > 0.5);
    let first_only = WifiConfig { capture: Some(CaptureEffect { margin_db: 10, mid_frame: false }), ..config.clone() };
    let first_only = saturate(1, &first_only, &flows, WARM, MEASURED);
    let any = WifiConfig { capture: Some(CaptureEffect { margin_db: 10, mid_frame: true }), ..config.clone() };
    let any = saturate(1, &any, &flows, WARM, MEASURED);
    let too_weak = WifiConfig { capture: Some(CaptureEffect { margin_db: 13, mid_frame: true }), ..config };
    let too_weak = saturate(1, &too_weak, &flows, WARM, MEASURED);
    assert_eq!(missing(&any.tallies[1]), 0.0, "stronger than all else, and found in mid-frame");
    // Whatever the receiver has begun with is lost, so the stronger one still loses what begins second.
    let (first, none) = (missing(&first_only.tallies[1]), missing(&without.tallies[1]));
    assert!(first > 0.005 && first < 0.5 * none, "{first} {none}");
    assert_eq!(too_weak.tallies, without.tallies);
}

/// Independent bit errors, as a Gilbert-Elliott process whose states are alike: a try fails unless all bits of data
/// and ACK survive.
#[test]
fn bit_errors_lose_the_expected_share() {
    let ber = Ratio::new(1, 50_000).unwrap();
    let errors =
        |per| BitErrors { good: Span::from_millis(100), bad: Span::from_millis(33), in_good: ber, in_bad: ber, per };
    for per in [ErrorsPer::Cell, ErrorsPer::Receiver, ErrorsPer::Station { hub: 0 }] {
        let config = WifiConfig { errors: Some(errors(per)), ..cell(OFDM_54, Rules::ns3_3_44(), 3) };
        let run = saturate(1, &config, &uplink(1), WARM, Span::from_secs(20));
        let expected = 1.0 - (1.0 - ber.as_f64()).powi((1_536 + 14) * 8);
        let (got, tries) = (missing(&run.tallies[1]), run.tallies[1].data_sent as f64);
        let four_sigma = 4.0 * (expected * (1.0 - expected) / tries).sqrt();
        assert!((got - expected).abs() < four_sigma, "{per:?} {got} {expected}");
        // A lost ACK brings a duplicate, and only that.
        let ack_lost = 1.0 - (1.0 - ber.as_f64()).powi(14 * 8);
        let share = run.tallies[0].duplicates as f64 / tries;
        assert!((share / ack_lost - 1.0).abs() < 0.5, "{share} {ack_lost}");
    }
}

/// Bad for a quarter of the time, in which nothing survives; frames straddle the edges.
#[test]
fn bursts_silence_a_station_for_their_share_of_the_time() {
    let errors = BitErrors {
        good: Span::from_millis(300),
        bad: Span::from_millis(100),
        in_good: Ratio::ZERO,
        in_bad: Ratio::ONE,
        per: ErrorsPer::Station { hub: 0 },
    };
    let clean = cell(OFDM_54, Rules::standard(), 2);
    let clean_mbps = saturate(1, &clean, &uplink(1), WARM, Span::from_secs(200)).mbps();
    let run = saturate(1, &WifiConfig { errors: Some(errors), ..clean }, &uplink(1), WARM, Span::from_secs(200));
    // Deviation of the share over 200 s: sqrt(2 g^2 b^2 / ((g+b)^3 T)) = 0.012; a burst is left some tries late.
    let share = run.mbps() / clean_mbps;
    assert!((0.68..0.79).contains(&share), "{share}");
}

/// Station 0 gets no answer: the far stations are out of reach.
#[test]
fn a_frame_is_dropped_after_the_retry_limit() {
    let silent = |rules, rts_threshold| {
        let config = WifiConfig { reach: ReachMap::none(2), rts_threshold, ..cell(OFDM_54, rules, 2) };
        saturate(1, &config, &[(0, 1)], Span::ZERO, Span::from_secs(5)).tallies[0]
    };
    for rules in SETS {
        let (plain, rts) = (silent(rules, 65_536), silent(rules, 0));
        assert_eq!(plain.ack_missing / 7, plain.given_up, "{}", rules.name);
        assert_eq!((rts.cts_missing / 7, rts.data_sent), (rts.given_up, 0), "{}", rules.name);
    }
    // Data that never survives after a CTS that mostly does: dot11LongRetryLimit, 4.
    let errors = BitErrors {
        good: Span::from_millis(100),
        bad: Span::from_millis(100),
        in_good: Ratio::new(1, 1_000).unwrap(),
        in_bad: Ratio::new(1, 1_000).unwrap(),
        per: ErrorsPer::Cell,
    };
    let limits = |rules| {
        let config = WifiConfig { errors: Some(errors), rts_threshold: 0, ..cell(OFDM_54, rules, 2) };
        let run = saturate(1, &config, &[(0, 1)], Span::ZERO, Span::from_secs(20)).tallies[0];
        (run.ack_missing as f64 / run.given_up as f64, run.rts_sent as f64 / run.given_up as f64)
    };
    let (data, _) = limits(Rules::standard());
    assert!((3.95..4.01).contains(&data), "{data}");
    // ns-3 counts failed RTS and failed data of a frame together.
    let (_, rts) = limits(Rules::ns3_3_44());
    assert!((6.95..7.05).contains(&rts), "{rts}");
}

#[test]
fn impossible_cells_are_refused_with_a_remedy() {
    let good = cell(OFDM_54, Rules::standard(), 3);
    let refused = |config: WifiConfig| Wifi::new(Seed(1), "air", &config).map(|_| ()).unwrap_err().to_string();
    let rate = refused(WifiConfig { rate: mbit(110), ..good.clone() });
    assert_eq!(
        rate,
        "data rate: 11 Mbit/s is not a rate of 802.11a: choose one of 6, 9, 12, 18, 24, 36, 48, 54 Mbit/s"
    );
    let mut reach = ReachMap::full(3);
    let itself = reach.set(1, 1, Reach::FULL).unwrap_err().to_string();
    assert!(itself.contains("to itself") && itself.contains("leave this pair out"), "{itself}");
    let unknown = reach.set(0, 3, Reach::FULL).unwrap_err().to_string();
    assert_eq!(unknown, "station 3 does not exist: the cell has stations 0 to 2, choose one of them");
    assert!(reach.set(0, 1, Reach { decode: true, ..Reach::default() }).is_err());
    assert!(refused(WifiConfig { queue: 0, ..good.clone() }).contains("outside 1 to"));
    assert!(refused(WifiConfig { cw: Some((16, 1023)), ..good.clone() }).contains("power of two"));
    assert!(refused(WifiConfig { reach: ReachMap::full(1), ..good.clone() }).contains("outside 2 to 256"));
    assert!(refused(WifiConfig { reach: ReachMap::full(257), ..good.clone() }).contains("outside 2 to 256"));
    assert!(
        refused(WifiConfig { capture: Some(CaptureEffect { margin_db: 0, mid_frame: true }), ..good }).contains("1 dB")
    );
}
