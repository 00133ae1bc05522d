//! Aggregates of 802.11n: times on the air, saturation against closed forms with and without errors, and order.

use super::bianchi::{Cell, saturation};
use super::drive::*;
use super::saturation::reprinted;
use wavelane_base::{FrameMeta, Instant, Machine, Ratio, Seed, Span};
use wavelane_channel::wifi::{
    Aggregate, BitErrors, Edca, ErrorsPer, Handling, Phy, Reach, Rules, Tally, Wifi, WifiConfig, WifiEvent, port,
};

const LONG: Phy = Phy::Ht { short_guard: false };
const SHORT: Phy = Phy::Ht { short_guard: true };
/// A packet with MAC header, QoS Control, LLC/SNAP and FCS.
const FRAME: u64 = PACKET as u64 + 38;

/// Microseconds on the air of 14, 76, 1,538 and 65,535 bytes, computed apart from 19.4.3: 36 us, then symbols of 4 us, or
/// of 3.6 us and the whole rounded up to 4 us.
const AIRTIMES: [(Phy, u8, [u64; 4]); 16] = [
    (LONG, 0, [60, 136, 1936, 80700]),
    (LONG, 1, [48, 88, 988, 40368]),
    (LONG, 2, [44, 72, 672, 26924]),
    (LONG, 3, [44, 64, 512, 20204]),
    (LONG, 4, [40, 56, 356, 13480]),
    (LONG, 5, [40, 52, 276, 10120]),
    (LONG, 6, [40, 48, 248, 9000]),
    (LONG, 7, [40, 48, 228, 8104]),
    (SHORT, 0, [60, 128, 1748, 72636]),
    (SHORT, 1, [48, 84, 896, 36336]),
    (SHORT, 2, [44, 72, 612, 24236]),
    (SHORT, 3, [44, 64, 468, 18188]),
    (SHORT, 4, [40, 56, 324, 12136]),
    (SHORT, 5, [40, 52, 252, 9112]),
    (SHORT, 6, [40, 48, 228, 8104]),
    (SHORT, 7, [40, 48, 212, 7300]),
];

#[test]
fn airtimes_are_those_of_the_standard() {
    for (phy, mcs, expected) in AIRTIMES {
        let rate = phy.rate(phy.mcs_rate(mcs).unwrap()).unwrap();
        for (octets, micros) in [14, 76, FRAME as usize, 65_535].into_iter().zip(expected) {
            assert_eq!(rate.airtime(octets), Span::from_micros(micros), "{phy}, MCS {mcs}, {octets} B");
        }
    }
    let rates: Vec<f64> = (0..8).map(|mcs| SHORT.mcs_rate(mcs).unwrap().as_bps() as f64 / 1e6).collect();
    // Table 19-27, NSS 1, 400 ns.
    for (ours, theirs) in rates.iter().zip([7.2, 14.4, 21.7, 28.9, 43.3, 57.8, 65.0, 72.2]) {
        assert!((ours - theirs).abs() < 0.05, "{ours} {theirs}");
    }
    assert_eq!((LONG.mcs_rate(8), Phy::Ofdm.mcs_rate(0)), (None, None));
}

fn cell_of(phy: Phy, mcs: u8, frames: u8, rules: Rules, stations: usize) -> WifiConfig {
    let rate = phy.mcs_rate(mcs).unwrap();
    let aggregate = Some(Aggregate { frames, ..Aggregate::LARGEST });
    WifiConfig { aggregate, queue: 80, ..WifiConfig::new(phy, rate, rules, stations) }
}

/// Data and answer of an aggregate of at most `frames`, in microseconds, and how many it holds.
fn exchange(phy: Phy, mcs: u8, frames: u64) -> (u64, f64, f64) {
    let octets = |n: u64| {
        if n == 1 {
            4 + FRAME
        } else {
            n * (FRAME + 4).next_multiple_of(4) - ((FRAME + 4).next_multiple_of(4) - FRAME - 4)
        }
    };
    let bits = [26, 52, 78, 104, 156, 208, 234, 260][usize::from(mcs)];
    let time = |octets: u64| {
        let symbols = (22 + 8 * octets).div_ceil(bits);
        36 + if phy == LONG { 4 * symbols } else { 4 * (symbols * 36).div_ceil(40) }
    };
    let fits = |n: &u64| octets(*n) <= 65_535 && time(octets(*n)) <= 5_484;
    let n = (1..=frames).take_while(|n| *n == 1 || fits(n)).last().unwrap();
    // Answers at 6, 12 or 24 Mbit/s: 14 bytes, or 32.
    let answer_bits = [24, 48, 48, 96, 96, 96, 96, 96][usize::from(mcs)];
    let answer: u64 = 20 + 4 * (22 + 8 * if n == 1 { 14 } else { 32_u64 }).div_ceil(answer_bits);
    let data = time(if n == 1 { FRAME } else { octets(n) });
    (n, data as f64, answer as f64)
}

/// One sender: a back-off of 7.5 slots, DIFS, the aggregate, SIFS, its answer. Several: Bianchi's model with that aggregate.
#[test]
fn saturated_aggregates_match_the_closed_forms() {
    let warm = Span::from_millis(500);
    let mut rows = Vec::new();
    let cases = [
        (LONG, 0, 1, 1),
        (LONG, 0, 64, 1),
        (LONG, 3, 16, 1),
        (LONG, 7, 1, 1),
        (LONG, 7, 2, 1),
        (LONG, 7, 8, 1),
        (LONG, 7, 64, 1),
        (SHORT, 2, 64, 1),
        (SHORT, 7, 64, 1),
        (LONG, 7, 16, 5),
        (SHORT, 7, 64, 5),
        (SHORT, 7, 64, 20),
    ];
    for (phy, mcs, most, stations) in cases {
        let (frames, data, ack) = exchange(phy, mcs, u64::from(most));
        let model = Cell { slot: 9.0, sifs: 16.0, data, ack, cw_min: 15 };
        let (expected, _) = saturation(stations, &model, frames as usize * PAYLOAD);
        let config = cell_of(phy, mcs, most, Rules::bianchi_2000(), stations as usize + 1);
        // Collisions of several stations are few and long.
        let measured = Span::from_secs(if stations > 1 { 60 } else { 5 });
        let ours = saturate(1, &config, &uplink(stations as usize), warm, measured).mbps();
        let off = (ours / expected - 1.0) * 100.0;
        let guard = if phy == LONG { 800 } else { 400 };
        rows.push(format!("| {mcs} | {guard} | {frames} | {stations} | {expected:.3} | {ours:.3} | {off:+.2} |"));
        assert!(off.abs() < 1.5, "{rows:#?}");
    }
    reprinted(&rows);
}

fn noise(ber: u32) -> BitErrors {
    let second = Span::from_secs(1);
    let in_state = Ratio::new(ber, 1_000_000_000).unwrap();
    BitErrors { good: second, bad: second, in_good: in_state, in_bad: in_state, per: ErrorsPer::Receiver }
}

/// Independent bit errors: each frame of an aggregate is lost by itself, and repeated alone.
#[test]
fn aggregates_with_errors_lose_frames_and_not_the_whole() {
    let mut rows = Vec::new();
    for (frames, ber) in [(1, 10_000), (16, 1_000), (16, 10_000), (16, 30_000), (8, 30_000)] {
        let (n, data, ack) = exchange(LONG, 7, frames);
        let kept = |octets: u64| (1.0 - f64::from(ber) * 1e-9_f64).powi((8 * octets) as i32);
        let (frame, answer) = (kept(FRAME), kept(if n == 1 { 14 } else { 32 }));
        // A lost answer makes the next aggregate one of frames that have arrived already; a lost aggregate doubles a window.
        let cycle = 16.0 + 18.0 + 7.5 * 9.0 + data + 16.0 + ack;
        let none = (1.0 - frame).powi(n as i32);
        let fails = none + (1.0 - none) * (1.0 - answer);
        let doubled = fails * 8.0 * 9.0;
        let fresh = if n == 1 { frame * answer } else { frame * (1.0 - frame * (1.0 - answer)) };
        let expected = n as f64 * fresh * (PAYLOAD * 8) as f64 / (cycle + doubled);
        let config =
            WifiConfig { errors: Some(noise(ber)), ..cell_of(LONG, 7, frames as u8, Rules::bianchi_2000(), 2) };
        let outcome = saturate(2, &config, &uplink(1), Span::from_millis(500), Span::from_secs(20));
        let ours = outcome.mbps();
        let off = (ours / expected - 1.0) * 100.0;
        let lost = outcome.sum(|t| t.uncoded_lost) / outcome.sum(|t| t.uncoded_heard);
        rows.push(format!(
            "| {frames} | {:.6} | {:.4} | {lost:.4} | {expected:.3} | {ours:.3} | {off:+.2} |",
            f64::from(ber) * 1e-9,
            1.0 - frame
        ));
        assert!(off.abs() < 1.5, "{rows:#?}");
        let deviation = (frame * (1.0 - frame) / outcome.sum(|t| t.uncoded_heard)).sqrt();
        assert!((lost - (1.0 - frame)).abs() < 4.0 * deviation, "{rows:#?}");
    }
    reprinted(&rows);
}

/// Frames that come behind a missing one wait for it at the receiver, also for one that is given up in the end.
#[test]
fn frames_are_handed_out_in_order_and_none_is_held_for_ever() {
    let mut errors = noise(60_000);
    errors.in_bad = Ratio::new(1, 5_000).unwrap();
    errors.good = Span::from_millis(10);
    errors.bad = Span::from_millis(3);
    let mut rules = Rules::standard();
    rules.retry = wavelane_channel::wifi::Retry::PerFrame(2);
    let config = WifiConfig { errors: Some(errors), ..cell_of(LONG, 7, 64, rules, 3) };
    let mut wifi = Wifi::new(Seed(4), "air", &config).unwrap();
    let (mut next, mut buf) = ([0_u32; 2], vec![0; 4_096]);
    let (mut last, mut out, mut given_up, mut acknowledged) = ([None; 2], 0, 0, 0);
    let mut offer = |wifi: &mut Wifi, to: usize, now: Instant| {
        let mut packet = vec![0; 1_200];
        packet[..4].copy_from_slice(&next[to - 1].to_be_bytes());
        next[to - 1] += 1;
        wifi.handle_frame(now, port(0, to), &mut packet, FrameMeta::default());
    };
    for i in 0..60 {
        offer(&mut wifi, 1 + i % 2, Instant::ZERO);
    }
    let mut offered = 60;
    while let Some(wakeup) = wifi.poll_timeout() {
        wifi.handle_timeout(wakeup.at);
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(wakeup.at, ready, &mut buf, 1).unwrap();
            let (number, to) = (u32::from_be_bytes(buf[..4].try_into().unwrap()), usize::from(ready.0) / 256);
            assert!(last[to - 1].replace(number).is_none_or(|before| before < number), "{number} to {to}");
            out += 1;
        }
        while let Some(event) = wifi.poll_event() {
            let to = match event {
                WifiEvent::Acknowledged { to, .. } => {
                    acknowledged += 1;
                    to
                }
                WifiEvent::Dropped { to, .. } => {
                    given_up += 1;
                    to
                }
                WifiEvent::Sent { to, .. } => to,
            };
            if offered < 20_000 {
                offer(&mut wifi, to, wakeup.at);
                offered += 1;
            }
        }
    }
    assert_eq!((acknowledged + given_up, wifi.waiting(0)), (20_000, 0));
    assert!(given_up > 100 && out >= acknowledged && out <= 20_000, "{given_up} given up, {out} of {acknowledged} out");
    let received = wifi.tally(1).received + wifi.tally(2).received;
    assert_eq!(received, out, "what was received is held for ever");
}

/// What the sender of that many frames, all handed in at once, has counted when nothing is left to do.
fn sent_at_once(config: &WifiConfig, frames: usize, guarded: bool) -> Tally {
    let mut wifi = Wifi::new(Seed(5), "air", config).unwrap();
    for _ in 0..frames {
        let handling = Handling { guarded, ..Handling::default() };
        wifi.hand_in(Instant::ZERO, port(0, 1), &[0; PACKET], FrameMeta::default(), handling);
    }
    let mut buf = vec![0; 4_096];
    while let Some(wakeup) = wifi.poll_timeout() {
        wifi.handle_timeout(wakeup.at);
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(wakeup.at, ready, &mut buf, 1).unwrap();
        }
        while wifi.poll_event().is_some() {}
    }
    assert_eq!(wifi.waiting(0), 0);
    *wifi.tally(0)
}

fn with_edca(mcs: u8) -> WifiConfig {
    WifiConfig { edca: Some(Edca::standard(LONG)), ..cell_of(LONG, mcs, 64, Rules::standard(), 2) }
}

/// An RTS goes before a guarded aggregate from eight times RTS, CTS and their SIFS on: 28 + 16 + 28 + 16 us at 24 Mbit/s, where four frames
/// of MCS 7 take 796 us and three 608; at 12 (MCS 1) 36 + 16 + 32 + 16, where two take 1,936. A frame alone is never worth one.
#[test]
fn a_guarded_aggregate_that_is_long_enough_follows_an_rts() {
    for (mcs, least) in [(7, 4), (1, 2)] {
        let rts = |frames, guarded| sent_at_once(&with_edca(mcs), frames, guarded).rts_sent;
        assert_eq!((rts(least - 1, true), rts(least, true), rts(least, false)), (0, 1, 0), "MCS {mcs}");
    }
    // An RTS that is sent at 6 Mbit/s, as where rates adapt, is worth less: 52 + 16 + 44 + 16 us.
    let slow = WifiConfig { rts_rate: Some(mbit(60)), ..with_edca(7) };
    assert_eq!([4, 5, 6].map(|frames| sent_at_once(&slow, frames, true).rts_sent), [0, 0, 1]);
}

/// To a receiver that is gone: of a guarded aggregate each frame was tried, and all are given up together. Behind a threshold an RTS is the
/// try of the first frame alone.
#[test]
fn a_missing_cts_is_a_try_of_all_frames_of_a_guarded_aggregate() {
    let mut gone = with_edca(7);
    gone.reach.set(0, 1, Reach::default()).unwrap();
    let Tally { rts_sent, given_up, data_sent, .. } = sent_at_once(&gone, 10, true);
    assert_eq!((rts_sent, given_up, data_sent), (4, 10, 0));
    gone.rts_threshold = 0;
    let Tally { rts_sent, given_up, data_sent, .. } = sent_at_once(&gone, 10, false);
    assert_eq!((rts_sent, given_up, data_sent), (7 * 10, 10, 0));
}
