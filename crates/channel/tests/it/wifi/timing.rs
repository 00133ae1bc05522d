//! Times on the air and of whole exchanges, to the nanosecond, against the standard's arithmetic.
//!
//! The table of airtimes was computed apart from this code, from TXTIME of IEEE Std 802.11-2016: 15.3.4 and 16.3.4
//! (preamble and header, then the bits, rounded up to whole microseconds), 17.4.3 (20 us, then symbols of 4 us that
//! carry 16 + 6 bits more), 18.5.3 (the same and 6 us of signal extension).

use super::drive::*;
use wavelane_base::{FrameMeta, Instant, Machine, Seed, Span};
use wavelane_channel::wifi::{Phy, ReachMap, Rules, Wifi, WifiConfig, WifiEvent, port};

const DSSS: Phy = Phy::Dsss;
const LONG: Phy = Phy::HrDsss { short_preamble: false };
const SHORT: Phy = Phy::HrDsss { short_preamble: true };
const OFDM: Phy = Phy::Ofdm;
const ERP: Phy = Phy::ErpOfdm { short_slot: false };
const ERP_SHORT: Phy = Phy::ErpOfdm { short_slot: true };

/// An ACK or CTS, an RTS, the packets of a TCP ACK and of 1,500 bytes, the largest frame.
const OCTETS: [usize; 5] = [14, 20, 76, 1536, 2332];
/// Microseconds for each of them.
const AIRTIMES: [(Phy, u64, [u64; 5]); 26] = [
    (DSSS, 10, [304, 352, 800, 12480, 18848]),
    (DSSS, 20, [248, 272, 496, 6336, 9520]),
    (LONG, 10, [304, 352, 800, 12480, 18848]),
    (LONG, 20, [248, 272, 496, 6336, 9520]),
    (LONG, 55, [213, 222, 303, 2427, 3584]),
    (LONG, 110, [203, 207, 248, 1310, 1888]),
    (SHORT, 10, [304, 352, 800, 12480, 18848]),
    (SHORT, 20, [152, 176, 400, 6240, 9424]),
    (SHORT, 55, [117, 126, 207, 2331, 3488]),
    (SHORT, 110, [107, 111, 152, 1214, 1792]),
    (OFDM, 60, [44, 52, 128, 2072, 3136]),
    (OFDM, 90, [36, 44, 92, 1388, 2096]),
    (OFDM, 120, [32, 36, 76, 1048, 1580]),
    (OFDM, 180, [28, 32, 56, 704, 1060]),
    (OFDM, 240, [28, 28, 48, 536, 800]),
    (OFDM, 360, [24, 28, 40, 364, 540]),
    (OFDM, 480, [24, 24, 36, 280, 412]),
    (OFDM, 540, [24, 24, 32, 248, 368]),
    (ERP, 60, [50, 58, 134, 2078, 3142]),
    (ERP, 90, [42, 50, 98, 1394, 2102]),
    (ERP, 120, [38, 42, 82, 1054, 1586]),
    (ERP, 180, [34, 38, 62, 710, 1066]),
    (ERP, 240, [34, 34, 54, 542, 806]),
    (ERP, 360, [30, 34, 46, 370, 546]),
    (ERP, 480, [30, 30, 42, 286, 418]),
    (ERP, 540, [30, 30, 38, 254, 374]),
];

#[test]
fn airtimes_are_those_of_the_standard() {
    for (phy, tenths, expected) in AIRTIMES {
        let rate = phy.rate(mbit(tenths)).unwrap();
        for (octets, micros) in OCTETS.into_iter().zip(expected) {
            assert_eq!(rate.airtime(octets), Span::from_micros(micros), "{phy}, {tenths}/10 Mbit/s, {octets} B");
        }
    }
    let rates: usize = [DSSS, LONG, SHORT, OFDM, ERP].iter().map(|phy| phy.rates().len()).sum();
    assert_eq!(AIRTIMES.len(), rates, "a rate is not in the table");
}

#[test]
fn gaps_are_those_of_the_standard() {
    // Slot, SIFS, DIFS = SIFS + 2 slots, EIFS = SIFS + DIFS + ACK at the slowest rate (10.3.7, 10.3.2.3.7).
    let expected = [
        (DSSS, [20, 10, 50, 364]),
        (LONG, [20, 10, 50, 364]),
        (SHORT, [20, 10, 50, 364]),
        (OFDM, [9, 16, 34, 94]),
        (ERP, [20, 10, 50, 110]),
        (ERP_SHORT, [9, 10, 28, 88]),
    ];
    for (phy, [slot, sifs, difs, eifs]) in expected {
        let got = [phy.slot(), phy.sifs(), phy.difs(), phy.eifs()];
        assert_eq!(got, [slot, sifs, difs, eifs].map(Span::from_micros), "{phy}");
    }
}

/// One frame on an idle medium: when it arrives and when its acknowledgement does, after it was handed in.
fn exchange(config: &WifiConfig, len: usize) -> (Span, Span) {
    let mut wifi = Wifi::new(Seed(1), "air", config).unwrap();
    let start = us(1_000);
    wifi.handle_frame(start, port(0, 1), &mut vec![7; len], FrameMeta::default());
    let (mut buf, mut arrived) = (vec![0; 4_096], None);
    loop {
        let now = wifi.poll_timeout().unwrap().at;
        wifi.handle_timeout(now);
        if let Some(transmit) = wifi.poll_transmit(now, port(1, 0), &mut buf, 1) {
            assert_eq!(buf[..transmit.len], vec![7; len]);
            arrived = Some(now.since(start));
        }
        if let Some(event) = wifi.poll_event() {
            assert_eq!(event, WifiEvent::Acknowledged { at: now, from: 0, to: 1, octets: len });
            return (arrived.unwrap(), now.since(start));
        }
    }
}

#[test]
fn a_frame_and_its_ack_last_as_in_the_standard() {
    // PHY, rate, and the fastest basic rate not above it, for answers and RTS (10.7.6.5.2); basic are 6, 12 and 24
    // (OFDM) and 1 and 2 Mbit/s (DSSS). Data is 1,500 + 36 bytes.
    let rates = [
        (DSSS, 10, 10),
        (DSSS, 20, 20),
        (LONG, 10, 10),
        (LONG, 20, 20),
        (LONG, 55, 20),
        (LONG, 110, 20),
        (SHORT, 10, 10),
        (SHORT, 20, 20),
        (SHORT, 55, 20),
        (SHORT, 110, 20),
        (OFDM, 60, 60),
        (OFDM, 90, 60),
        (OFDM, 120, 120),
        (OFDM, 180, 120),
        (OFDM, 240, 240),
        (OFDM, 360, 240),
        (OFDM, 480, 240),
        (OFDM, 540, 240),
        (ERP, 60, 60),
        (ERP, 90, 60),
        (ERP, 120, 120),
        (ERP, 180, 120),
        (ERP, 240, 240),
        (ERP, 360, 240),
        (ERP, 480, 240),
        (ERP, 540, 240),
    ];
    for (phy, tenths, control) in rates {
        let row = |tenths| AIRTIMES.iter().find(|(p, t, _)| (*p, *t) == (phy, tenths)).unwrap().2;
        let (sifs, [ack, rts, ..]) = (phy.sifs().as_micros(), row(control));
        let config = cell((phy, tenths), Rules::standard(), 2);
        let data = row(tenths)[3];
        let whole = data + sifs + ack;
        assert_eq!(exchange(&config, 1_500), (Span::from_micros(data), Span::from_micros(whole)), "{phy} {tenths}");

        let before = rts + sifs + ack + sifs;
        let expected = (Span::from_micros(before + data), Span::from_micros(before + whole));
        let with_rts = WifiConfig { rts_threshold: 0, ..config };
        assert_eq!(exchange(&with_rts, 1_500), expected, "RTS, {phy} {tenths}");
    }
}

#[test]
fn frames_in_a_row_are_difs_and_a_whole_back_off_apart() {
    for (phy, tenths, cycle) in [(OFDM, 540, 248 + 16 + 28 + 34), (LONG, 110, 1310 + 10 + 248 + 50)] {
        let config = cell((phy, tenths), Rules::standard(), 2);
        let mut wifi = Wifi::new(Seed(5), "air", &config).unwrap();
        let hand_in = |wifi: &mut Wifi, now| {
            wifi.handle_frame(now, port(0, 1), &mut [0; 1_500], FrameMeta::default());
        };
        hand_in(&mut wifi, Instant::ZERO);
        hand_in(&mut wifi, Instant::ZERO);
        let (mut last, mut drawn) = (None, vec![0u32; phy.cw_min() as usize + 1]);
        let (mut buf, rounds) = (vec![0; 4_096], 20_000);
        while drawn.iter().sum::<u32>() < rounds {
            let now = wifi.poll_timeout().unwrap().at;
            wifi.handle_timeout(now);
            while wifi.poll_transmit(now, port(1, 0), &mut buf, 1).is_some() {}
            let Some(WifiEvent::Acknowledged { at, .. }) = wifi.poll_event() else { continue };
            hand_in(&mut wifi, now);
            if let Some(last) = last.replace(at) {
                let slots = at.since(last).saturating_sub(Span::from_micros(cycle)).as_nanos();
                assert_eq!(slots % phy.slot().as_nanos(), 0);
                drawn[(slots / phy.slot().as_nanos()) as usize] += 1;
            }
        }
        // Uniform from 0 to CWmin: chi-squared with CWmin degrees of freedom, 0.001 point (37.7 of 15, 61.1 of 31).
        let expected = f64::from(rounds) / drawn.len() as f64;
        let chi: f64 = drawn.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        assert!(chi < if drawn.len() == 16 { 37.7 } else { 61.1 }, "{chi} {drawn:?}");
    }
}

/// No answer comes; the try after a missing answer begins a whole back-off of the doubled window after the time-out,
/// none of which may have passed while the answer was awaited (222 us of long-preamble DSSS hold eight slots).
#[test]
fn a_back_off_after_a_failure_is_counted_whole() {
    for (phy, tenths, data, patience) in [(OFDM, 540, 248, 16 + 9 + 20), (LONG, 110, 1310, 10 + 20 + 192)] {
        for (rules, hold) in [(Rules::standard(), Span::ZERO), (Rules::ns3_3_44(), phy.difs())] {
            let config = WifiConfig { reach: ReachMap::none(2), ..cell((phy, tenths), rules, 2) };
            let mut drawn = vec![0u32; 2 * phy.cw_min() as usize + 2];
            let rounds = 6_400;
            for seed in 0..rounds {
                let mut wifi = Wifi::new(Seed(seed), "air", &config).unwrap();
                wifi.handle_frame(us(1_000), port(0, 1), &mut [0; 1_500], FrameMeta::default());
                while wifi.tally(0).data_sent < 2 {
                    let now = wifi.poll_timeout().unwrap().at;
                    wifi.handle_timeout(now);
                    if wifi.tally(0).data_sent == 2 {
                        let wait = now.since(us(1_000 + data + patience) + hold);
                        assert_eq!(wait.as_nanos() % phy.slot().as_nanos(), 0);
                        drawn[(wait.as_nanos() / phy.slot().as_nanos()) as usize] += 1;
                    }
                }
            }
            // Chi-squared, 0.001 point: 61.1 of 31 degrees of freedom, 103.4 of 63.
            let expected = rounds as f64 / drawn.len() as f64;
            let chi: f64 = drawn.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
            assert!(chi < if drawn.len() == 32 { 61.1 } else { 103.4 }, "{chi} {drawn:?}");
        }
    }
}
