//! Stations that hand up frames for others.

use super::drive::{OFDM_54, PACKET, cell};
use std::collections::BTreeSet;
use wavelane_base::{FrameMeta, Instant, Machine, Ratio, Seed};
use wavelane_channel::wifi::{
    ConfigError, Edca, Handling, Overheard, PairLoss, Phy, Reach, Rules, Wifi, WifiConfig, port,
};

/// Frames that station 0 sends to station 1, which station 2 hears with this signal.
const FRAMES: u32 = 4_000;

/// Station 0 hands over one frame after the other: how many station 1 gets, and which station 2 overhears.
fn run(config: &WifiConfig, handling: Handling) -> (u32, Vec<(Overheard, Vec<u8>)>) {
    let mut wifi = Wifi::new(Seed(3), "air", config).unwrap();
    let (mut received, mut overheard, mut bytes) = (0, Vec::new(), Vec::new());
    for n in 0..FRAMES {
        let mut frame = [0; PACKET];
        frame[..4].copy_from_slice(&n.to_be_bytes());
        let now = wifi.poll_timeout().map_or(Instant::from_millis(u64::from(n) * 5), |wakeup| wakeup.at);
        wifi.hand_in(now, port(0, 1), &frame, FrameMeta::default(), handling);
        while let Some(wakeup) = wifi.poll_timeout() {
            wifi.handle_timeout(wakeup.at);
        }
        while let Some((place, _)) = wifi.take_ready(now, &mut bytes) {
            assert_eq!((place, &bytes[..]), (port(1, 0), &frame[..]));
            received += 1;
        }
        while let Some(heard) = wifi.take_overheard(&mut bytes) {
            overheard.push((heard, bytes.clone()));
        }
        while wifi.poll_event().is_some() {}
    }
    assert_eq!(wifi.frames_missed(), 0);
    (received, overheard)
}

fn triangle(mbit: u64, signal_db: i16) -> WifiConfig {
    let rate = (OFDM_54.0, mbit * 10);
    let mut config =
        WifiConfig { noise_db: Some(0), edca: Some(Edca::standard(Phy::Ofdm)), ..cell(rate, Rules::standard(), 3) };
    let heard = |signal_db| Reach { signal_db, ..Reach::FULL };
    config.reach.set_both(0, 1, heard(40)).unwrap();
    config.reach.set_both(1, 2, heard(40)).unwrap();
    config.reach.set_both(0, 2, heard(signal_db)).unwrap();
    config.listeners = BTreeSet::from([2]);
    config
}

/// The study `hop-mechanisms` names these shares.
#[test]
fn a_listener_hears_what_its_signal_lets_through() {
    let no_ack = Handling { no_ack: true, ..Handling::default() };
    for (mbit, signal_db, share) in [(36, 13, 0.12), (24, 11, 0.81), (36, 14, 0.92), (54, 40, 1.0), (54, 0, 0.0)] {
        let (received, overheard) = run(&triangle(mbit, signal_db), no_ack);
        assert_eq!(received, FRAMES);
        let heard = overheard.len() as f64 / f64::from(FRAMES);
        // Three deviations are 0.024 at most.
        assert!((heard - share).abs() < 0.03, "{mbit} Mbit/s, {signal_db} dB: {heard}");
        let expected = Overheard { station: 2, sender: 0, to: 1 };
        assert!(overheard.iter().all(|(heard, bytes)| *heard == expected && bytes.len() == PACKET));
        let numbers: BTreeSet<&[u8]> = overheard.iter().map(|(_, bytes)| &bytes[..4]).collect();
        assert_eq!(numbers.len(), overheard.len(), "each once, and its own bytes");
    }
}

#[test]
fn only_listeners_hand_up_frames_for_others_and_nobody_else_notices() {
    let with = triangle(54, 40);
    let without = WifiConfig { listeners: BTreeSet::new(), ..with.clone() };
    let (received, overheard) = run(&without, Handling::default());
    assert_eq!((received, overheard.len()), (FRAMES, 0));
    assert_eq!(run(&with, Handling::default()).0, FRAMES);
    // Without noise or errors stations share an ear, but not with a listener.
    let shared = WifiConfig { noise_db: None, ..with };
    assert_eq!(run(&shared, Handling::default()).1.len(), FRAMES as usize);
    let nobody = WifiConfig { listeners: BTreeSet::from([3]), ..shared };
    assert_eq!(Wifi::new(Seed(1), "air", &nobody).err(), Some(ConfigError::Unknown { station: 3, stations: 3 }));
}

/// Loss on the air is repaired by retries where there are ACKs, loss after the ACK and in an outage never; who does not decode loses nothing.
#[test]
fn pairs_lose_what_they_are_told_to() {
    let quarter = Ratio::new(1, 4).unwrap();
    let with = |loss: PairLoss, no_ack: bool| {
        let mut config = cell((OFDM_54.0, 540), Rules::standard(), 2);
        config.reach.set_loss(0, 1, loss).unwrap();
        let handling = Handling { no_ack, ..Handling::default() };
        let (received, _) = run(&config, handling);
        f64::from(received) / f64::from(FRAMES)
    };
    let of = |air, drop, no_ack| with(PairLoss { air, drop, ..PairLoss::default() }, no_ack);
    let near = |share: f64, expected: f64| assert!((share - expected).abs() < 0.03, "{share} {expected}");
    near(of(quarter, Ratio::ZERO, true), 0.75);
    assert!(of(quarter, Ratio::ZERO, false) > 0.999);
    near(of(Ratio::ZERO, quarter, false), 0.75);
    near(of(quarter, quarter, true), 0.75 * 0.75);
    // Three of twenty seconds.
    let outages = vec![(Instant::from_millis(1_000), Instant::from_millis(4_000))];
    let broken = || PairLoss { outages: outages.clone(), ..PairLoss::default() };
    near(with(broken(), true), 0.85);
    // A frame's tries last twice as long as the next one is away, so fewer frames meet the outage; none of them is saved.
    near(with(broken(), false), 0.93);
    let mut none = cell((OFDM_54.0, 540), Rules::standard(), 2);
    none.reach.set(0, 1, Reach::LOUD).unwrap();
    let refused = none.reach.set_loss(0, 1, PairLoss { air: quarter, ..PairLoss::default() });
    assert_eq!(refused, Err(ConfigError::LossAlone { from: 0, to: 1 }));
}
