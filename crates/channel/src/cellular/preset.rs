//! Bearers of their time; `docs/models/cellular.md` names the sources.

use super::config::{BearerConfig, CellularConfig, Gaps, Promotion};
use wavelane_base::{Rate, Ratio, Span};

/// Makes a preset's configuration.
pub type Preset = fn() -> CellularConfig;

/// Presets by name.
pub const CELLULAR_PRESETS: &[(&str, Preset)] =
    &[("gprs", gprs), ("w-cdma", w_cdma), ("ev-do", ev_do), ("lte", lte), ("5g", fifth), ("leo", leo)];

fn percent(loss: u32) -> Ratio {
    Ratio::new(loss, 100).unwrap_or(Ratio::ZERO)
}

/// Rates in kbit/s, delay and round in ms.
fn bearer([slowest, rate]: [u64; 2], delay: u64, queue: usize) -> BearerConfig {
    let kbit = |n: u64| Rate::from_bps(n * 1_000);
    BearerConfig {
        rate: kbit(rate),
        slowest: kbit(slowest),
        delay: Span::from_millis(delay),
        queue,
        ..BearerConfig::default()
    }
}

/// What a lost block costs.
fn repeats(of: BearerConfig, block: usize, loss: u32, round_ms: u64, tries: u32) -> BearerConfig {
    BearerConfig { block, block_loss: percent(loss), round: Span::from_millis(round_ms), tries, ..of }
}

/// Three slots down and one up in CS-2, each a block of 30 B in 20 ms: 12 kbit/s a slot in the mean.
fn gprs() -> CellularConfig {
    let down = repeats(bearer([32, 40], 280, 20), 30, 10, 200, 20);
    let up = repeats(bearer([11, 13], 280, 20), 30, 10, 200, 20);
    CellularConfig {
        forward: down,
        reverse: up,
        promotion: Some(Promotion { idle: Span::from_secs(2), takes: Span::from_millis(500) }),
        spikes: Some(Gaps { every: Span::from_secs(60), lasts: Span::from_secs(2) }),
        handover: None,
    }
}

/// 384 and 64 kbit/s, blocks of 336 bits repeated up to 40 times.
fn w_cdma() -> CellularConfig {
    CellularConfig {
        forward: repeats(bearer([427, 427], 100, 50), 42, 10, 60, 40),
        reverse: repeats(bearer([71, 71], 100, 50), 42, 10, 60, 40),
        promotion: Some(Promotion { idle: Span::from_secs(5), takes: Span::from_secs(2) }),
        spikes: None,
        handover: None,
    }
}

/// What was measured in 2005: 572.5 and 94.7 kbit/s, 417 ms.
fn ev_do() -> CellularConfig {
    CellularConfig {
        forward: repeats(bearer([300, 1_000], 180, 50), 128, 8, 70, 4),
        reverse: repeats(bearer([77, 140], 180, 50), 128, 14, 70, 3),
        promotion: Some(Promotion { idle: Span::from_secs(10), takes: Span::from_secs(1) }),
        spikes: None,
        handover: None,
    }
}

/// A loaded cell of 20 MHz: hybrid ARQ of 8 ms, 10 % of first transmissions lost.
fn lte() -> CellularConfig {
    let hold = Span::from_millis(100);
    CellularConfig {
        forward: BearerConfig { hold, ..repeats(bearer([15_000, 60_000], 20, 1_000), 1_500, 10, 8, 8) },
        reverse: BearerConfig { hold, ..repeats(bearer([5_000, 20_000], 20, 1_000), 1_500, 10, 8, 8) },
        promotion: Some(Promotion { idle: Span::from_secs(10), takes: Span::from_millis(260) }),
        spikes: None,
        handover: Some(Gaps { every: Span::from_secs(40), lasts: Span::from_millis(50) }),
    }
}

/// A mid-band cell: hybrid ARQ of 4 ms.
fn fifth() -> CellularConfig {
    let hold = Span::from_millis(50);
    CellularConfig {
        forward: BearerConfig { hold, ..repeats(bearer([60_000, 240_000], 8, 4_000), 1_500, 10, 4, 8) },
        reverse: BearerConfig { hold, ..repeats(bearer([15_000, 60_000], 8, 2_000), 1_500, 10, 4, 8) },
        promotion: Some(Promotion { idle: Span::from_secs(10), takes: Span::from_millis(130) }),
        spikes: None,
        handover: Some(Gaps { every: Span::from_secs(30), lasts: Span::from_millis(30) }),
    }
}

/// A low orbit: another satellite and rate every 15 s.
fn leo() -> CellularConfig {
    let hold = Span::from_secs(15);
    CellularConfig {
        forward: BearerConfig { hold, ..repeats(bearer([50_000, 150_000], 22, 1_000), 1_500, 1, 30, 3) },
        reverse: BearerConfig { hold, ..repeats(bearer([8_000, 20_000], 22, 500), 1_500, 1, 30, 3) },
        promotion: None,
        spikes: None,
        handover: Some(Gaps { every: hold, lasts: Span::from_millis(100) }),
    }
}
