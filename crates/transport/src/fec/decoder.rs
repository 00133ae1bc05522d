//! The receiver's side: solves the repair symbols' equations for the missing datagrams.
//!
//! The neighbour controls all input; it is authenticated but may be faulty: all tables are bounded, and the oldest entry is dropped when
//! one is full.

use super::code::{LENGTH_LEN, SPAN_MAX, coefficient};
use super::gf256::{add_multiple, inverse, multiply};
use std::collections::{BTreeMap, VecDeque};

/// Most protected datagrams kept.
pub const SOURCES_MAX: usize = SPAN_MAX as usize;
/// Most unsolved equations kept.
pub const EQUATIONS_MAX: usize = 48;
/// Longest symbol accepted, and longest datagram kept: jumbo frames, and some room.
const SYMBOL_MAX: usize = 16 << 10;
/// Octets that may be multiplied and added per octet that arrives. An honest symbol takes one per datagram that it covers and that arrived,
/// up to 63, and at least one datagram arrives with it ...
const WORK_PER_OCTET: u64 = 32;
/// ... and the limit of what may be saved up: twice the work of solving for a burst of 48 full datagrams.
const WORK_SAVED_MAX: u64 = 8 << 20;

/// A sum of unknown datagrams times non-zero factors, and its value.
#[derive(Debug)]
struct Equation {
    factors: BTreeMap<u64, u8>,
    symbol: Vec<u8>,
}

impl Equation {
    /// Adds `factor` times `other`.
    fn add(&mut self, other: &Equation, factor: u8) {
        for (&number, &coefficient) in &other.factors {
            let sum = self.factors.entry(number).or_default();
            *sum ^= multiply(coefficient, factor);
            if *sum == 0 {
                self.factors.remove(&number);
            }
        }
        if self.symbol.len() < other.symbol.len() {
            self.symbol.resize(other.symbol.len(), 0);
        }
        add_multiple(&mut self.symbol, &other.symbol, factor);
    }

    /// Removes a datagram that became known from the sum. `false` if it cannot have been part of it.
    fn substitute(&mut self, number: u64, datagram: &[u8]) -> bool {
        let Some(factor) = self.factors.remove(&number) else { return true };
        if LENGTH_LEN + datagram.len() > self.symbol.len() {
            return false;
        }
        add_multiple(&mut self.symbol, &(datagram.len() as u16).to_be_bytes(), factor);
        add_multiple(&mut self.symbol[LENGTH_LEN..], datagram, factor);
        true
    }

    /// Scales the factor of `number` to one.
    fn normalise(&mut self, number: u64) {
        let by = inverse(self.factors.get(&number).copied().unwrap_or(0));
        self.factors.values_mut().for_each(|factor| *factor = multiply(*factor, by));
        let mut scaled = vec![0; self.symbol.len()];
        add_multiple(&mut scaled, &self.symbol, by);
        self.symbol = scaled;
    }
}

/// The protected datagrams and unsolved equations of one lane.
#[derive(Debug)]
pub struct Decoder {
    sources: BTreeMap<u64, Vec<u8>>,
    /// Reduced: the lowest number of each occurs in no other one.
    equations: VecDeque<Equation>,
    recovered: VecDeque<(u64, Vec<u8>)>,
    /// All numbers below were dropped from the table of sources, or never in it.
    forgotten_below: u64,
    /// Octets that may be multiplied and added now.
    work: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            sources: BTreeMap::new(),
            equations: VecDeque::new(),
            recovered: VecDeque::new(),
            forgotten_below: 0,
            work: WORK_SAVED_MAX,
        }
    }
}

impl Decoder {
    /// A protected datagram arrived. `false` if it is known already, because it was repaired.
    pub fn source(&mut self, number: u64, datagram: &[u8]) -> bool {
        if self.sources.contains_key(&number) {
            return false;
        }
        if datagram.len() + LENGTH_LEN > SYMBOL_MAX {
            return true;
        }
        self.earn(datagram.len());
        self.learn(number, datagram.to_vec());
        self.solve();
        true
    }

    /// A repair symbol arrived. One that contradicts known datagrams, or covers datagrams dropped long ago, is ignored.
    pub fn repair(&mut self, key: u8, first: u64, mask: u128, symbol: &[u8]) {
        if symbol.len() < LENGTH_LEN || symbol.len() > SYMBOL_MAX || first < self.forgotten_below {
            return;
        }
        self.earn(symbol.len());
        let numbers = (0..SPAN_MAX).filter(|i| mask >> i & 1 == 1).filter_map(|i| first.checked_add(i));
        let factors = numbers.map(|number| (number, coefficient(number, key))).collect();
        let mut equation = Equation { factors, symbol: symbol.to_vec() };
        let known: Vec<u64> = equation.factors.keys().filter(|n| self.sources.contains_key(n)).copied().collect();
        if known.len() == equation.factors.len() || !self.spend(known.len() * symbol.len()) {
            return;
        }
        if !known.iter().all(|n| equation.substitute(*n, &self.sources[n])) {
            return;
        }
        self.reduce(&mut equation);
        self.insert(equation);
        self.solve();
    }

    fn earn(&mut self, octets: usize) {
        self.work = (self.work + octets as u64 * WORK_PER_OCTET).min(WORK_SAVED_MAX);
    }

    /// Whether the work allowance covers `octets`. If not, unsolved equations are dropped: their datagrams will be retransmitted.
    fn spend(&mut self, octets: usize) -> bool {
        let affordable = octets as u64 <= self.work;
        self.work = self.work.saturating_sub(octets as u64);
        if !affordable {
            self.equations.clear();
        }
        affordable
    }

    /// Eliminates the others' lowest numbers from `equation`.
    fn reduce(&mut self, equation: &mut Equation) {
        let mut octets = 0;
        for other in &self.equations {
            let Some((&pivot, _)) = other.factors.first_key_value() else { continue };
            if let Some(&factor) = equation.factors.get(&pivot) {
                equation.add(other, factor);
                octets += other.symbol.len();
            }
        }
        self.spend(octets);
    }

    /// The next datagram rebuilt from repair symbols, with its number.
    pub fn poll_recovered(&mut self) -> Option<(u64, Vec<u8>)> {
        self.recovered.pop_front()
    }

    /// Datagrams and unsolved equations kept.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.sources.len(), self.equations.len())
    }

    /// Adds a reduced equation and eliminates its lowest number from the others.
    fn insert(&mut self, mut equation: Equation) {
        let Some((&pivot, _)) = equation.factors.first_key_value() else { return };
        equation.normalise(pivot);
        let mut octets = equation.symbol.len();
        for other in &mut self.equations {
            if let Some(&factor) = other.factors.get(&pivot) {
                other.add(&equation, factor);
                octets += equation.symbol.len();
            }
        }
        self.equations.push_back(equation);
        self.spend(octets);
        if self.equations.len() > EQUATIONS_MAX {
            self.equations.pop_front();
        }
    }

    /// Solves every equation with one unknown, until none is left.
    fn solve(&mut self) {
        while let Some(place) = self.equations.iter().position(|e| e.factors.len() <= 1) {
            let Some(equation) = self.equations.remove(place) else { return };
            let Some((&number, &factor)) = equation.factors.first_key_value() else { continue };
            if factor != 1 {
                continue;
            }
            let (length, rest) = equation.symbol.split_at(LENGTH_LEN);
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            // A length that does not fit: the neighbour's symbols contradict each other.
            let Some(datagram) = rest.get(..length) else { continue };
            let datagram = datagram.to_vec();
            self.recovered.push_back((number, datagram.clone()));
            self.learn(number, datagram);
        }
    }

    fn learn(&mut self, number: u64, datagram: Vec<u8>) {
        let (mut kept, mut octets) = (VecDeque::new(), 0);
        for mut equation in self.equations.drain(..) {
            octets += datagram.len();
            let was_pivot = equation.factors.first_key_value().is_some_and(|(n, _)| *n == number);
            if equation.substitute(number, &datagram) && !equation.factors.is_empty() {
                kept.push_back((equation, was_pivot));
            }
        }
        // An equation that lost its lowest number has a new one, which must be eliminated from the others.
        let (moved, kept): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(_, moved)| *moved);
        self.equations = kept.into_iter().map(|(equation, _)| equation).collect();
        self.spend(octets);
        for (mut equation, _) in moved {
            self.reduce(&mut equation);
            self.insert(equation);
        }
        self.sources.insert(number, datagram);
        while self.sources.len() > SOURCES_MAX {
            if let Some((gone, _)) = self.sources.pop_first() {
                self.forgotten_below = self.forgotten_below.max(gone + 1);
            }
        }
        let below = self.forgotten_below;
        self.equations.retain(|e| e.factors.keys().all(|n| *n >= below));
    }
}
