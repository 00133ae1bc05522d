//! The receiver's side: solves the repair symbols' equations for what is missing.
//!
//! Everything here can be driven by the neighbour, who is authenticated but may be wrong: all tables have bounds, and
//! the oldest entry goes when one is full.

use super::code::{LENGTH_LEN, SPAN_MAX, coefficient};
use super::gf256::{add_multiple, inverse, multiply};
use std::collections::{BTreeMap, VecDeque};

/// Most protected datagrams remembered.
pub const SOURCES_MAX: usize = SPAN_MAX as usize;
/// Most equations that wait for more.
pub const EQUATIONS_MAX: usize = 48;
/// Longest symbol taken.
const SYMBOL_MAX: usize = 1 << 16;

/// A sum of unknown datagrams times factors, none of them zero, and what it comes to.
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

    /// Takes a datagram that became known out of the sum. `false` if it cannot have been in it.
    fn substitute(&mut self, number: u64, datagram: &[u8]) -> bool {
        let Some(factor) = self.factors.remove(&number) else { return true };
        if LENGTH_LEN + datagram.len() > self.symbol.len() {
            return false;
        }
        add_multiple(&mut self.symbol, &(datagram.len() as u16).to_be_bytes(), factor);
        add_multiple(&mut self.symbol[LENGTH_LEN..], datagram, factor);
        true
    }

    /// Makes the factor of `number` one.
    fn normalise(&mut self, number: u64) {
        let by = inverse(self.factors.get(&number).copied().unwrap_or(0));
        self.factors.values_mut().for_each(|factor| *factor = multiply(*factor, by));
        let mut scaled = vec![0; self.symbol.len()];
        add_multiple(&mut scaled, &self.symbol, by);
        self.symbol = scaled;
    }
}

/// Keeps protected datagrams and unsolved equations of one lane.
#[derive(Debug, Default)]
pub struct Decoder {
    sources: BTreeMap<u64, Vec<u8>>,
    /// Reduced: the lowest number of each is in no other one.
    equations: VecDeque<Equation>,
    recovered: VecDeque<(u64, Vec<u8>)>,
    /// Everything below left the table of sources, or was never in it.
    forgotten_below: u64,
}

impl Decoder {
    /// A protected datagram arrived. `false` if it is known already, because it was repaired.
    pub fn source(&mut self, number: u64, datagram: &[u8]) -> bool {
        if self.sources.contains_key(&number) {
            return false;
        }
        self.learn(number, datagram.to_vec());
        self.solve();
        true
    }

    /// A repair symbol arrived. One that contradicts what is known, or speaks of datagrams long gone, is dropped.
    pub fn repair(&mut self, key: u8, first: u64, mask: u128, symbol: &[u8]) {
        if symbol.len() < LENGTH_LEN || symbol.len() > SYMBOL_MAX || first < self.forgotten_below {
            return;
        }
        let numbers = (0..SPAN_MAX).filter(|i| mask >> i & 1 == 1).filter_map(|i| first.checked_add(i));
        let factors = numbers.map(|number| (number, coefficient(number, key))).collect();
        let mut equation = Equation { factors, symbol: symbol.to_vec() };
        let known: Vec<u64> = equation.factors.keys().filter(|n| self.sources.contains_key(n)).copied().collect();
        if !known.iter().all(|n| equation.substitute(*n, &self.sources[n])) {
            return;
        }
        for other in &self.equations {
            let Some((&pivot, _)) = other.factors.first_key_value() else { continue };
            if let Some(&factor) = equation.factors.get(&pivot) {
                equation.add(other, factor);
            }
        }
        self.insert(equation);
        self.solve();
    }

    /// The next datagram that was made from repair symbols, with its number.
    pub fn poll_recovered(&mut self) -> Option<(u64, Vec<u8>)> {
        self.recovered.pop_front()
    }

    /// Datagrams remembered and equations that wait.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.sources.len(), self.equations.len())
    }

    /// Adds a reduced equation and takes its lowest number out of the others.
    fn insert(&mut self, mut equation: Equation) {
        let Some((&pivot, _)) = equation.factors.first_key_value() else { return };
        equation.normalise(pivot);
        for other in &mut self.equations {
            if let Some(&factor) = other.factors.get(&pivot) {
                other.add(&equation, factor);
            }
        }
        self.equations.push_back(equation);
        if self.equations.len() > EQUATIONS_MAX {
            self.equations.pop_front();
        }
    }

    /// Takes out every equation with one unknown, until none is left.
    fn solve(&mut self) {
        while let Some(place) = self.equations.iter().position(|e| e.factors.len() <= 1) {
            let Some(equation) = self.equations.remove(place) else { return };
            let Some((&number, &factor)) = equation.factors.first_key_value() else { continue };
            debug_assert_eq!(factor, 1, "equations are normalised");
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
        let mut kept = VecDeque::new();
        for mut equation in self.equations.drain(..) {
            let was_pivot = equation.factors.first_key_value().is_some_and(|(n, _)| *n == number);
            if equation.substitute(number, &datagram) && !equation.factors.is_empty() {
                kept.push_back((equation, was_pivot));
            }
        }
        // An equation that lost its lowest number has another one now, which must leave the others.
        let (moved, kept): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(_, moved)| *moved);
        self.equations = kept.into_iter().map(|(equation, _)| equation).collect();
        for (mut equation, _) in moved {
            for other in &self.equations {
                let Some((&pivot, _)) = other.factors.first_key_value() else { continue };
                if let Some(&factor) = equation.factors.get(&pivot) {
                    equation.add(other, factor);
                }
            }
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
