//! Frames lost to noise, and rate control over them.

use super::drive::*;
use super::saturation::reprinted;
use wavelane_base::Span;
use wavelane_channel::wifi::{Aggregate, Phy, Rules, WifiConfig};

const HT: Phy = Phy::Ht { short_guard: false };

fn cell_at(snr_db: i16, mcs: u8) -> WifiConfig {
    let aggregate = Some(Aggregate::LARGEST);
    let cell = WifiConfig::new(HT, HT.mcs_rate(mcs).unwrap(), Rules::standard(), 2);
    WifiConfig { aggregate, queue: 80, noise_db: Some(-snr_db), ..cell }
}

fn goodput(config: &WifiConfig) -> f64 {
    saturate(3, config, &uplink(1), Span::from_secs(2), Span::from_secs(8)).mbps()
}

/// What the controller finds by itself carries at least nine tenths of the best rate that an oracle would fix, at every
/// whole dB; every third is shown.
#[test]
fn rate_control_comes_within_a_tenth_of_the_best_fixed_rate() {
    let mut rows = Vec::new();
    for snr_db in 2..24 {
        let fixed: Vec<f64> = (0..8).map(|mcs| goodput(&cell_at(snr_db, mcs))).collect();
        let best = (0..8).max_by(|a, b| fixed[*a].total_cmp(&fixed[*b])).unwrap();
        let adaptive = goodput(&WifiConfig { adapts: true, ..cell_at(snr_db, 7) });
        let share = adaptive / fixed[best];
        if snr_db % 3 == 2 {
            rows.push(format!("| {snr_db} | {best} | {:.3} | {adaptive:.3} | {share:.3} |", fixed[best]));
        }
        assert!((0.9..1.02).contains(&share), "{snr_db} dB, {adaptive}: {fixed:?}");
    }
    reprinted(&rows);
}

/// Five stations that contend choose as well as one: collisions are not taken for noise.
#[test]
fn collisions_do_not_drive_the_rate_down() {
    let cell = |adapts| WifiConfig { adapts, reach: wavelane_channel::wifi::ReachMap::full(6), ..cell_at(25, 7) };
    let carried = |adapts| saturate(3, &cell(adapts), &uplink(5), Span::from_secs(2), Span::from_secs(10)).mbps();
    let share = carried(true) / carried(false);
    assert!(share > 0.85, "{share}");
}

/// Noise meets each frame by itself: the share lost is that of its length, alone or in an aggregate.
#[test]
fn longer_frames_are_lost_more_often() {
    let lost = |frames: u8| {
        let aggregate = Some(Aggregate { frames, ..Aggregate::LARGEST });
        let config = WifiConfig { aggregate, ..cell_at(21, 7) };
        let outcome = saturate(5, &config, &uplink(1), Span::from_secs(1), Span::from_secs(8));
        let heard = outcome.sum(|t| t.uncoded_heard);
        (outcome.sum(|t| t.uncoded_lost) / heard, heard)
    };
    let ((alone, n), (together, m)) = (lost(1), lost(16));
    let deviation = (alone * (1.0 - alone) * (1.0 / n + 1.0 / m)).sqrt();
    assert!(alone > 0.005 && (alone - together).abs() < 5.0 * deviation, "{alone} {together}");
}
