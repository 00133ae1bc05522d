//! Frames that one station does not get of another, besides collisions: on the air, and in its driver.

use super::WifiConfig;
use super::station::{Kind, OnAir};
use crate::loss::{Windows, in_windows};
use wavelane_base::maths::power;
use wavelane_base::{Chance, Instant, Ratio, Seed};

/// What is lost of the frames of one station at another. The default is nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairLoss {
    /// On the air, of data frames with a packet of 1,500 bytes. Shorter ones are lost in proportion to their length; answers and RTS, which
    /// are sent at a lower rate, as if they were 6 dB stronger.
    pub air: Ratio,
    /// After their acknowledgement.
    pub drop: Ratio,
    /// Of frames that end in one of these times nothing is decoded; they are sensed and interfere as ever.
    pub outages: Windows,
}

impl Default for PairLoss {
    fn default() -> Self {
        Self { air: Ratio::ZERO, drop: Ratio::ZERO, outages: Windows::new() }
    }
}

/// A data frame with a packet of 1,500 bytes: MAC header, LLC and FCS.
const FULL: f64 = 1_536.0;
/// 6 dB, as a divisor of the errors expected in a frame.
const LOWER_RATE: f64 = 4.0;

/// The losses of a cell, and their random streams.
#[derive(Debug)]
pub(super) struct PairLosses {
    stations: usize,
    /// By sender, then listener: the share of full frames that survive the air, the share that is dropped, and when nothing is decoded.
    pairs: Vec<(f64, Ratio, Windows)>,
    air: Chance,
    drop: Chance,
}

impl PairLosses {
    /// Nothing without losses.
    pub(super) fn new(seed: Seed, name: &str, config: &WifiConfig) -> Option<Self> {
        let (reach, stations) = (&config.reach, config.reach.stations());
        if !reach.has_losses() {
            return None;
        }
        let of = |pair: usize| {
            let loss = reach.loss(pair / stations, pair % stations);
            (1.0 - loss.air.as_f64(), loss.drop, loss.outages)
        };
        Some(Self {
            stations,
            pairs: (0..stations * stations).map(of).collect(),
            air: seed.chance(&format!("{name} / pair loss")),
            drop: seed.chance(&format!("{name} / pair drop")),
        })
    }
    /// Whether `octets` of a frame that ends now survive.
    pub(super) fn spares(
        &mut self,
        now: Instant,
        [sender, listener]: [usize; 2],
        frame: &OnAir,
        octets: usize,
    ) -> bool {
        let (survives, _, outages) = &self.pairs[sender * self.stations + listener];
        if in_windows(outages, now) {
            return false;
        }
        if *survives >= 1.0 {
            return true;
        }
        let part = if frame.kind == Kind::Data { octets as f64 / FULL } else { 1.0 / LOWER_RATE };
        self.air.unit() < power(*survives, part)
    }
    /// Whether a frame that was acknowledged is dropped.
    pub(super) fn drops(&mut self, sender: usize, listener: usize) -> bool {
        let drop = self.pairs[sender * self.stations + listener].1;
        drop != Ratio::ZERO && self.drop.unit() < drop.as_f64()
    }
}
