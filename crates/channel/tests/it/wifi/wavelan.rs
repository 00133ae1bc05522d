//! WaveLAN before 802.11, and what a station suffers that others cannot hear.

use super::drive::*;
use wavelane_base::{FrameMeta, Instant, Machine, Seed, Span};
use wavelane_channel::wifi::{CapturePoint, Edca, Phy, Reach, ReachMap, Rules, Wifi, WifiConfig, WifiEvent, port};

fn wavelan(overhead_us: u64, stations: usize) -> WifiConfig {
    cell((Phy::wavelan(Span::from_micros(overhead_us)), 20), Rules::wavelan_1995(), stations)
}

/// 1,518 bytes at 2 Mbit/s are 6,072 us; with 0.7 to 1.0 ms beside each frame a lone sender reaches 1.73 to 1.65 Mbit/s
/// of TCP payload.
#[test]
fn a_lone_sender_loses_the_stated_overhead_to_each_frame() {
    for (overhead, mbps) in [(700, 1.725), (1_000, 1.652)] {
        let config = wavelan(overhead, 2);
        let run = saturate(1, &config, &uplink(1), Span::from_secs(1), Span::from_secs(200));
        let (frames, tally) = (run.tallies[0].received as f64, run.tallies[1]);
        let cycle = run.span.as_secs_f64() * 1e6 / frames;
        let expected = 6_072.0 + overhead as f64;
        // Deviation of the mean of 29,000 back-offs from 0..15 slots of 23 us: 0.6 us.
        assert!((cycle - expected).abs() < 3.0, "{cycle} {expected}");
        assert!((frames * 1_460.0 * 8.0 / run.span.as_secs_f64() / 1e6 - mbps).abs() < 0.002);
        assert_eq!((tally.acknowledged, tally.ack_missing, tally.rts_sent), (0, 0, 0));
    }
}

#[test]
fn collisions_are_not_retransmitted() {
    let run = saturate(1, &wavelan(700, 6), &uplink(5), Span::ZERO, Span::from_secs(20));
    let (sent, arrived) = (run.sum(|t| t.data_sent), run.tallies[0].received as f64);
    assert!(arrived < 0.95 * sent && arrived > 0.5 * sent, "{arrived} of {sent}");
    assert_eq!(run.sum(|t| t.duplicates + t.given_up), 0.0);
}

/// Poisson traffic: each flow hands in packets of 1,500 bytes, `mean` apart. Losses per flow.
fn losses(config: &WifiConfig, flows: &[(usize, usize, Span)], seconds: u64) -> Vec<f64> {
    let mut wifi = Wifi::new(Seed(1), "air", config).unwrap();
    let mut dice: Vec<_> = (0..flows.len()).map(|i| Seed(1).chance(&format!("flow {i}"))).collect();
    let mut next: Vec<_> = flows.iter().zip(&mut dice).map(|(f, d)| Instant::ZERO + d.exponential(f.2)).collect();
    let (end, mut buf) = (Instant::from_secs(seconds), vec![0; 4_096]);
    loop {
        let (first, at) = next.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
        let now = wifi.poll_timeout().map_or(at, |wakeup| wakeup.at.min(at));
        if now >= end {
            break;
        }
        if now == at {
            let (from, to, mean) = flows[first];
            wifi.handle_frame(now, port(from, to), &mut [0; PACKET], FrameMeta::default());
            next[first] = now + dice[first].exponential(mean);
        } else {
            wifi.handle_timeout(now);
        }
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
        }
        while wifi.poll_event().is_some() {}
    }
    let of = |&(from, to, _): &(usize, usize, Span)| {
        let heard = wifi.tally(to).received + wifi.tally(to).duplicates;
        1.0 - heard as f64 / wifi.tally(from).data_sent as f64
    };
    flows.iter().map(of).collect()
}

/// A home and a campus, where others talk whom the home's signal does not reach: what goes up is lost to them, what
/// comes down is not, because they hear the campus. That the home hears them changes little: it keeps silent while they
/// talk, and they begin while it does.
#[test]
fn one_way_hidden_stations_spoil_one_direction() {
    const CAMPUS: usize = 0;
    const HOME: usize = 1;
    let cell = |config: WifiConfig, at_home: Reach| {
        let mut reach = ReachMap::none(4);
        for (a, b) in [(CAMPUS, HOME), (CAMPUS, 2), (CAMPUS, 3), (2, 3)] {
            reach.set_both(a, b, Reach::FULL).unwrap();
        }
        for other in [2, 3] {
            reach.set(other, HOME, at_home).unwrap();
        }
        WifiConfig { reach, ..config }
    };
    let phys = [
        ("WaveLAN", wavelan(700, 4), 40, SECONDS),
        ("802.11b, 2 Mbit/s", super::drive::cell((Phy::Dsss, 20), Rules::standard(), 4), 60, SECONDS),
    ];
    const SECONDS: u64 = 400;
    let mut rows = Vec::new();
    for (name, config, apart, seconds) in phys {
        // Up and down one at a time, so that the two directions of the home do not meet.
        let others = [(2, 3, Span::from_millis(apart)), (3, 2, Span::from_millis(apart))];
        let mean = Span::from_millis(80);
        for (what, at_home) in [("nothing", Reach::default()), ("them", Reach::SENSED)] {
            let config = cell(config.clone(), at_home);
            let up = losses(&config, &[(HOME, CAMPUS, mean), others[0], others[1]], seconds)[0];
            let down = losses(&config, &[(CAMPUS, HOME, mean), others[0], others[1]], seconds)[0];
            rows.push(format!("| {name} | {what} | {:.1} | {:.2} |", up * 100.0, down * 100.0));
            assert!(down < 0.01, "{rows:#?}");
            assert!(up > 10.0 * down && up > 0.1, "{rows:#?}");
        }
    }
    super::saturation::reprinted(&rows);
}

#[test]
fn wavelan_refuses_802_11_features() {
    let refused = |config: WifiConfig| Wifi::new(Seed(1), "air", &config).map(|_| ()).unwrap_err().to_string();
    let rts = refused(WifiConfig { rts_threshold: 500, ..wavelan(700, 2) });
    assert_eq!(
        rts,
        "RTS needs acknowledgements, which the rules \"wavelan-1995\" do not have: leave it out, or choose other rules"
    );
    assert!(refused(WifiConfig { edca: Some(Edca::standard(Phy::Dsss)), ..wavelan(700, 2) }).contains("EDCA needs"));
    assert!(refused(WifiConfig { rules: Rules::standard(), ..wavelan(700, 2) }).contains("use its own rules"));
    assert!(refused(WifiConfig { rate: mbit(110), ..wavelan(700, 2) }).contains("choose one of 2 Mbit/s"));
    let mut wifi = Wifi::new(Seed(1), "air", &wavelan(700, 2)).unwrap();
    let captures = vec![CapturePoint::Medium];
    assert!(refused(WifiConfig { captures: captures.clone(), ..wavelan(700, 2) }).contains("leave the capture out"));
    let short = WifiConfig { captures, snaplen: 10, ..cell(HR_11, Rules::standard(), 2) };
    assert!(refused(short).starts_with("10 bytes kept of each captured frame are outside 49 to"));
    wifi.handle_frame(Instant::ZERO, port(0, 1), &mut [0; 10], FrameMeta::default());
    while let Some(wakeup) = wifi.poll_timeout() {
        wifi.handle_timeout(wakeup.at);
    }
    assert!(matches!(wifi.poll_event(), Some(WifiEvent::Sent { from: 0, to: 1, .. })));
}
