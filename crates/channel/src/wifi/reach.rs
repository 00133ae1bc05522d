//! Who hears whom in a cell.

use super::{ConfigError, PairLoss};
use crate::loss::check_windows;
use std::collections::BTreeMap;

/// The effect of one station's frames at another station. The default is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// The other station can receive them.
    pub decode: bool,
    /// The other station senses the medium busy.
    pub sense: bool,
    /// They interfere with receptions at the other station.
    pub interfere: bool,
    /// Their strength there, in dB above any fixed reference; matters only for capture.
    pub signal_db: i16,
}

/// Who hears whom: a [`Reach`] for each ordered pair of stations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReachMap {
    stations: usize,
    /// By sender, then listener.
    pairs: Vec<Reach>,
    /// Losses other than by collision, of pairs that have any.
    losses: BTreeMap<(usize, usize), PairLoss>,
}

impl Reach {
    /// Full reception.
    pub const FULL: Self = Self { decode: true, sense: true, interfere: true, signal_db: 0 };
    /// Energy that is sensed but too weak to interfere.
    pub const SENSED: Self = Self { decode: false, sense: true, interfere: false, signal_db: 0 };
    /// Energy that is sensed and interferes.
    pub const LOUD: Self = Self { decode: false, sense: true, interfere: true, signal_db: 0 };
    /// Energy that interferes below the carrier sense threshold.
    pub const HARMFUL: Self = Self { decode: false, sense: false, interfere: true, signal_db: 0 };

    /// Sensed, but too weak to interfere.
    pub(super) fn is_weak(self) -> bool {
        self.sense && !self.interfere
    }
    pub(super) fn is_nothing(self) -> bool {
        !self.decode && !self.sense && !self.interfere
    }
}

impl ReachMap {
    /// `stations` that do not hear each other at all.
    pub fn none(stations: usize) -> Self {
        Self { stations, pairs: vec![Reach::default(); stations * stations], losses: BTreeMap::new() }
    }
    /// `stations` that all hear each other equally well.
    pub fn full(stations: usize) -> Self {
        let mut map = Self { stations, pairs: vec![Reach::FULL; stations * stations], losses: BTreeMap::new() };
        for station in 0..stations {
            map.pairs[station * stations + station] = Reach::default();
        }
        map
    }
    /// How many stations there are.
    pub fn stations(&self) -> usize {
        self.stations
    }
    /// The reach of frames from `from` at `to`.
    pub fn get(&self, from: usize, to: usize) -> Reach {
        self.pairs[from * self.stations + to]
    }
    /// All of them.
    pub(super) fn pairs(&self) -> impl Iterator<Item = Reach> {
        self.pairs.iter().copied()
    }
    /// Sets the reach of frames from `from` at `to`; the other direction is unchanged.
    pub fn set(&mut self, from: usize, to: usize, reach: Reach) -> Result<(), ConfigError> {
        for station in [from, to] {
            if station >= self.stations {
                return Err(ConfigError::Unknown { station, stations: self.stations });
            }
        }
        if from == to {
            return Err(ConfigError::Itself(from));
        }
        if reach.decode && !(reach.sense && reach.interfere) {
            return Err(ConfigError::DecodeAlone { from, to });
        }
        self.pairs[from * self.stations + to] = reach;
        Ok(())
    }
    /// What is lost of frames from `from` at `to` besides collisions.
    pub fn loss(&self, from: usize, to: usize) -> PairLoss {
        self.losses.get(&(from, to)).cloned().unwrap_or_default()
    }
    /// Sets it. Only a pair that decodes can lose.
    pub fn set_loss(&mut self, from: usize, to: usize, loss: PairLoss) -> Result<(), ConfigError> {
        self.losses.remove(&(from, to));
        if loss == PairLoss::default() {
            return Ok(());
        }
        if from >= self.stations || to >= self.stations || !self.get(from, to).decode {
            return Err(ConfigError::LossAlone { from, to });
        }
        check_windows(&loss.outages).map_err(ConfigError::Outages)?;
        self.losses.insert((from, to), loss);
        Ok(())
    }
    /// The same without outages.
    pub fn calm(mut self) -> Self {
        self.losses.values_mut().for_each(|loss| loss.outages.clear());
        self
    }
    pub(super) fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }
    /// Sets both directions.
    pub fn set_both(&mut self, a: usize, b: usize, reach: Reach) -> Result<(), ConfigError> {
        self.set(a, b, reach)?;
        self.set(b, a, reach)
    }
}
