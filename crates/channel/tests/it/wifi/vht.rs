//! 802.11ac: times on the air, saturation against closed forms, rate control, and what is refused.

use super::bianchi::{Cell, saturation};
use super::drive::*;
use super::saturation::reprinted;
use wavelane_base::Span;
use wavelane_channel::wifi::{AGGREGATE_OCTETS_VHT, Aggregate, ConfigError, Phy, Rules, Width, WifiConfig};

const WIDTHS: [Width; 3] = [Width::Mhz20, Width::Mhz40, Width::Mhz80];
/// A packet with MAC header, QoS Control, LLC/SNAP and FCS.
const FRAME: u64 = PACKET as u64 + 38;

const fn vht(width: Width, streams: u8, short_guard: bool) -> Phy {
    Phy::Vht { width, streams, short_guard }
}

/// Data subcarriers (Table 21-5), and bits and code rate of each MCS (21.5).
fn symbol_bits(width: Width, streams: u8, mcs: u8) -> Option<u64> {
    let subcarriers = [52, 108, 234][WIDTHS.iter().position(|w| *w == width).unwrap()];
    let (bits, of, over) =
        [(1, 1, 2), (2, 1, 2), (2, 3, 4), (4, 1, 2), (4, 3, 4), (6, 2, 3), (6, 3, 4), (6, 5, 6), (8, 3, 4), (8, 5, 6)]
            [usize::from(mcs)];
    let coded = subcarriers * u64::from(streams) * bits;
    (coded * of % over == 0).then_some(coded * of / over)
}

/// Rates are what subcarriers, modulation and code give; where those do not give whole bits, there is none.
#[test]
fn rates_are_those_of_the_standard() {
    for width in WIDTHS {
        for streams in 1..=2 {
            let phy = vht(width, streams, false);
            for mcs in 0..10 {
                let expected = symbol_bits(width, streams, mcs).map(|bits| bits * 250_000);
                assert_eq!(phy.mcs_rate(mcs).map(|rate| rate.as_bps()), expected, "{phy}, MCS {mcs}");
            }
            assert_eq!(phy.mcs_rate(10), None);
            let fastest = phy.mcs_rate(phy.mcs_max().unwrap()).unwrap();
            assert_eq!(phy.mcs_of(fastest), phy.mcs_max());
        }
    }
    // Table 21-47, 400 ns.
    let rates: Vec<f64> =
        (0..10).map(|mcs| vht(Width::Mhz80, 2, true).mcs_rate(mcs).unwrap().as_bps() as f64 / 1e6).collect();
    for (ours, theirs) in rates.iter().zip([65.0, 130.0, 195.0, 260.0, 390.0, 520.0, 585.0, 650.0, 780.0, 866.7]) {
        assert!((ours - theirs).abs() < 0.05, "{ours} {theirs}");
    }
}

/// Microseconds on the air of 18, 1,542, 65,535 and 200,000 bytes, computed apart from 21.4.3: 36 us and 4 us a stream, then
/// symbols of 4 us, or of 3.6 us and the whole rounded up to 4 us.
#[test]
fn airtimes_are_those_of_the_standard() {
    const AIRTIMES: [(Phy, u8, [u64; 4]); 11] = [
        (vht(Width::Mhz20, 1, false), 0, [68, 1944, 80704, 246200]),
        (vht(Width::Mhz20, 1, false), 8, [44, 200, 6764, 20556]),
        (vht(Width::Mhz20, 2, true), 8, [48, 116, 3072, 9280]),
        (vht(Width::Mhz40, 1, false), 9, [44, 112, 2956, 8932]),
        (vht(Width::Mhz40, 2, true), 4, [48, 116, 2960, 8936]),
        (vht(Width::Mhz80, 1, false), 0, [48, 464, 17968, 54744]),
        (vht(Width::Mhz80, 1, true), 9, [44, 72, 1256, 3736]),
        (vht(Width::Mhz80, 2, false), 6, [48, 68, 1040, 3084]),
        (vht(Width::Mhz80, 2, false), 7, [48, 68, 944, 2780]),
        (vht(Width::Mhz80, 2, false), 9, [48, 60, 720, 2096]),
        (vht(Width::Mhz80, 2, true), 9, [48, 60, 656, 1892]),
    ];
    for (phy, mcs, expected) in AIRTIMES {
        let rate = phy.rate(phy.mcs_rate(mcs).unwrap()).unwrap();
        for (octets, micros) in [18, FRAME as usize + 4, 65_535, 200_000].into_iter().zip(expected) {
            assert_eq!(rate.airtime(octets), Span::from_micros(micros), "{phy}, MCS {mcs}, {octets} B");
        }
    }
}

fn cell_of(phy: Phy, mcs: u8, aggregate: Aggregate, rules: Rules, stations: usize) -> WifiConfig {
    let cell = WifiConfig::new(phy, phy.mcs_rate(mcs).unwrap(), rules, stations);
    WifiConfig { aggregate: Some(aggregate), queue: 80, ..cell }
}

/// Frames, data and answer in microseconds of the largest aggregate that fits.
fn exchange(phy: Phy, mcs: u8, most: Aggregate) -> (u64, f64, f64) {
    let Phy::Vht { width, streams, short_guard } = phy else { unreachable!() };
    let bits = symbol_bits(width, streams, mcs).unwrap();
    // A frame alone has a delimiter too.
    let octets = |n: u64| (n - 1) * (FRAME + 4).next_multiple_of(4) + FRAME + 4;
    let encoders = if bits > 540 * 4 { 2 } else { 1 };
    let time = |octets: u64| {
        let symbols = (16 + 6 * encoders + 8 * octets).div_ceil(bits);
        36 + 4 * u64::from(streams) + 4 * if short_guard { (symbols * 36).div_ceil(40) } else { symbols }
    };
    let fits = |n: &u64| octets(*n) <= most.octets as u64 && time(octets(*n)) <= 5_484;
    let n = (1..=u64::from(most.frames)).take_while(|n| *n == 1 || fits(n)).last().unwrap();
    // Answers at 6, 12 or 24 Mbit/s: 14 bytes, or 32.
    let answer_bits = [24, 48, 48, 96, 96, 96, 96, 96, 96, 96][usize::from(mcs)];
    let answer: u64 = 20 + 4 * (22 + 8 * if n == 1 { 14 } else { 32_u64 }).div_ceil(answer_bits);
    (n, time(octets(n)) as f64, answer as f64)
}

/// One sender: a back-off of 7.5 slots, DIFS, the aggregate, SIFS, its answer. Several: Bianchi's model with that aggregate.
#[test]
fn saturated_aggregates_match_the_closed_forms() {
    let most = |frames| Aggregate { frames, ..Aggregate::LARGEST_VHT };
    let cases = [
        (vht(Width::Mhz20, 1, false), 0, most(64), 1),
        (vht(Width::Mhz20, 1, false), 8, most(1), 1),
        (vht(Width::Mhz20, 1, false), 8, most(64), 1),
        (vht(Width::Mhz20, 2, true), 8, most(64), 1),
        (vht(Width::Mhz40, 1, false), 9, most(16), 1),
        (vht(Width::Mhz40, 2, false), 4, most(64), 1),
        (vht(Width::Mhz80, 1, false), 3, most(64), 1),
        (vht(Width::Mhz80, 1, false), 9, Aggregate::LARGEST, 1),
        (vht(Width::Mhz80, 2, false), 9, most(1), 1),
        (vht(Width::Mhz80, 2, true), 9, most(64), 1),
        (vht(Width::Mhz80, 2, false), 9, most(64), 5),
        (vht(Width::Mhz80, 2, false), 9, most(64), 20),
    ];
    let mut rows = Vec::new();
    for (phy, mcs, most, stations) in cases {
        let (frames, data, ack) = exchange(phy, mcs, most);
        let model = Cell { slot: 9.0, sifs: 16.0, data, ack, cw_min: 15 };
        let (expected, _) = saturation(stations, &model, frames as usize * PAYLOAD);
        let config = cell_of(phy, mcs, most, Rules::bianchi_2000(), stations as usize + 1);
        let measured = Span::from_secs(if stations > 1 { 10 } else { 1 });
        let ours = saturate(1, &config, &uplink(stations as usize), Span::from_millis(200), measured).mbps();
        let off = (ours / expected - 1.0) * 100.0;
        let Phy::Vht { width, streams, short_guard } = phy else { unreachable!() };
        let guard = if short_guard { 400 } else { 800 };
        rows.push(format!(
            "| {width} | {streams} | {mcs} | {guard} | {frames} | {stations} | {expected:.3} | {ours:.3} | {off:+.2} |"
        ));
        assert!(off.abs() < 1.5, "{rows:#?}");
    }
    reprinted(&rows);
}

fn noisy(phy: Phy, mcs: u8, snr_db: i16) -> WifiConfig {
    WifiConfig { noise_db: Some(-snr_db), ..cell_of(phy, mcs, Aggregate::LARGEST_VHT, Rules::standard(), 2) }
}

/// What the controller finds by itself, among one and two streams, carries at least nine tenths of the best rate that an
/// oracle would fix.
#[test]
fn rate_control_comes_within_a_tenth_of_the_best_fixed_rate() {
    let mut rows = Vec::new();
    for (width, streams, snrs) in [(Width::Mhz20, 1, [5, 12, 19, 24, 30]), (Width::Mhz80, 2, [14, 20, 27, 33, 40])] {
        for snr_db in snrs {
            let fixed: Vec<(f64, u8, u8)> = (1..=streams)
                .flat_map(|streams| (0..=vht(width, streams, false).mcs_max().unwrap()).map(move |mcs| (streams, mcs)))
                .map(|(streams, mcs)| {
                    let config = noisy(vht(width, streams, false), mcs, snr_db);
                    let carried = saturate(3, &config, &uplink(1), Span::from_millis(100), Span::from_millis(500));
                    (carried.mbps(), streams, mcs)
                })
                .collect();
            let best = fixed.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let config = WifiConfig { adapts: true, ..noisy(vht(width, streams, false), 0, snr_db) };
            let adaptive = saturate(3, &config, &uplink(1), Span::from_secs(1), Span::from_secs(2)).mbps();
            let share = adaptive / best.0;
            let (carried, of, mcs) = best;
            rows.push(format!(
                "| {width} | {streams} | {snr_db} | {mcs}, {of} | {carried:.3} | {adaptive:.3} | {share:.3} |"
            ));
            assert!((0.9..1.03).contains(&share), "{rows:#?}\n{fixed:?}");
        }
    }
    reprinted(&rows);
}

/// Twice the width holds twice the noise, and two streams share the power: each costs 3.01 dB.
#[test]
fn width_and_streams_divide_the_power() {
    let lost = |width, streams, snr_db| {
        let config = noisy(vht(width, streams, false), 4, snr_db);
        let outcome = saturate(5, &config, &uplink(1), Span::from_millis(50), Span::from_millis(400));
        (outcome.sum(|t| t.uncoded_lost) / outcome.sum(|t| t.uncoded_heard), outcome.sum(|t| t.uncoded_heard))
    };
    // The modulation and code of 802.11a's 36 Mbit/s: a frame of 1,538 bytes has a step of 2 to 3 dB.
    let (alone, heard_alone) = lost(Width::Mhz20, 1, 14);
    assert!((0.01..0.9).contains(&alone), "{alone}");
    for (width, streams, snr_db) in [(Width::Mhz40, 1, 17), (Width::Mhz20, 2, 17), (Width::Mhz80, 2, 23)] {
        let (share, heard) = lost(width, streams, snr_db);
        // 0.03 dB less for a factor of eight move it by up to 7 %.
        let deviation = (alone * (1.0 - alone) * (1.0 / heard + 1.0 / heard_alone)).sqrt();
        assert!((share - alone).abs() < 0.07 * alone + 4.0 * deviation, "{width}, {streams}: {share} {alone}");
    }
}

#[test]
fn impossible_values_are_refused() {
    let phy = vht(Width::Mhz80, 2, false);
    let good = cell_of(phy, 9, Aggregate::LARGEST_VHT, Rules::standard(), 3);
    assert_eq!(good.check(), Ok(()));
    let three = Phy::Vht { width: Width::Mhz80, streams: 3, short_guard: false };
    assert_eq!(WifiConfig { phy: three, ..good.clone() }.check(), Err(ConfigError::Streams(3)));
    let large = Aggregate { frames: 64, octets: AGGREGATE_OCTETS_VHT + 1 };
    let refused = WifiConfig { aggregate: Some(large), ..good.clone() }.check();
    assert_eq!(refused, Err(ConfigError::Aggregate(large, phy)));
    assert!(refused.unwrap_err().to_string().contains("1048575 B of 802.11ac (80 MHz, 2 streams)"));
    // An HT station takes no more than 65,535 bytes.
    let ht = Phy::Ht { short_guard: false };
    let rate = ht.mcs_rate(7).unwrap();
    let refused = WifiConfig { phy: ht, rate, ..good.clone() }.check();
    assert_eq!(refused, Err(ConfigError::Aggregate(Aggregate::LARGEST_VHT, ht)));
    // The fastest rate at 80 MHz is none at 20 MHz.
    let narrow = WifiConfig { phy: vht(Width::Mhz20, 2, false), ..good.clone() };
    assert!(matches!(narrow.check(), Err(ConfigError::Rate { what: "data", .. })));
}
