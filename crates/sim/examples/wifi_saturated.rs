//! Runs saturated 802.11a stations for so many simulated seconds, to be timed from outside:
//! `time wifi_saturated 20 100` prints the frames sent. A third argument `apart` makes every pair of stations unlike
//! the others, so that no two share an ear; `edca` fills two categories of each station.

use std::process::ExitCode;
use wavelane_base::{FrameMeta, Instant, Machine, Rate, Seed};
use wavelane_channel::wifi::{Category, Edca, Handling, Phy, Reach, Rules, Wifi, WifiConfig, WifiEvent, port};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments.get(i).and_then(|text| text.parse().ok());
    let (Some(senders), Some(seconds)) = (number(0), number(1)) else {
        eprintln!("usage: wifi_saturated SENDERS SECONDS [apart|edca]");
        return ExitCode::from(2);
    };
    let kind = arguments.get(2).map_or("", String::as_str);
    match run(senders, seconds as u64, kind) {
        Ok((frames, steps)) => {
            println!("{senders} stations, {seconds} s, {frames} data frames, {steps} deadlines");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn run(senders: usize, seconds: u64, kind: &str) -> Result<(u64, u64), wavelane_channel::wifi::ConfigError> {
    let stations = senders + 1;
    let mut config = WifiConfig::new(Phy::Ofdm, Rate::from_bps(54_000_000), Rules::ns3_3_44(), stations);
    if kind == "apart" {
        for (from, to) in (0..stations).flat_map(|a| (0..stations).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            config.reach.set(from, to, Reach { signal_db: (from * 256 + to) as i16, ..Reach::FULL })?;
        }
    }
    let categories: &[Category] = if kind == "edca" {
        config.edca = Some(Edca::standard(config.phy));
        &[Category::BestEffort, Category::Video]
    } else {
        &[Category::BestEffort]
    };
    let mut wifi = Wifi::new(Seed(1), "air", &config)?;
    let (packet, mut buf) = ([0; 1_500], vec![0; 4_096]);
    let hand_in = |wifi: &mut Wifi, now, station, category| {
        let handling = Handling { category, ..Handling::default() };
        while wifi.waiting_in(station, category) < 3 {
            wifi.hand_in(now, port(station, 0), &packet, FrameMeta::default(), handling);
        }
    };
    for station in 1..stations {
        categories.iter().for_each(|category| hand_in(&mut wifi, Instant::ZERO, station, *category));
    }
    let mut steps = 0;
    while let Some(wakeup) = wifi.poll_timeout().filter(|wakeup| wakeup.at < Instant::from_secs(seconds)) {
        let now = wakeup.at;
        steps += 1;
        wifi.handle_timeout(now);
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(now, ready, &mut buf, 1);
        }
        while let Some(event) = wifi.poll_event() {
            let (WifiEvent::Acknowledged { from, .. } | WifiEvent::Sent { from, .. } | WifiEvent::Dropped { from, .. }) =
                event;
            categories.iter().for_each(|category| hand_in(&mut wifi, now, from, *category));
        }
    }
    Ok(((0..stations).map(|s| wifi.tally(s).data_sent).sum(), steps))
}
