//! The sender's side: the covered datagrams, and the repair symbols over them.

use super::code::{LENGTH_LEN, SPAN_MAX, coefficient};
use super::gf256::add_multiple;
use std::collections::VecDeque;
use wavelane_base::maths::power;

/// Most repair symbols for one stretch of datagrams.
pub const REPAIRS_MAX: usize = 32;

/// One repair symbol and what it covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// Row of the code, 0 to 127.
    pub key: u8,
    /// Lowest number covered.
    pub first: u64,
    /// Bit i set: `first + i` is covered. Bit 0 always is.
    pub mask: u128,
    /// The sum of the covered datagrams times their coefficients.
    pub symbol: Vec<u8>,
}

/// Datagrams that repair symbols may cover, at most `datagrams_max` within a span of `datagrams_max` numbers.
#[derive(Debug)]
pub struct Encoder {
    datagrams_max: usize,
    /// By number, ascending.
    sources: VecDeque<(u64, Vec<u8>)>,
    key: u8,
}

impl Encoder {
    /// An encoder that keeps at most `datagrams_max` (up to 128) datagrams.
    pub fn new(datagrams_max: usize) -> Self {
        Self { datagrams_max: datagrams_max.min(SPAN_MAX as usize), sources: VecDeque::new(), key: 0 }
    }

    /// Datagram `number`, higher than all before, was sent. The oldest are dropped if there are too many, or their span is too wide.
    pub fn push(&mut self, number: u64, datagram: &[u8]) {
        self.sources.push_back((number, datagram.to_vec()));
        while self.sources.len() > self.datagrams_max
            || self.sources.front().is_some_and(|(first, _)| number - first >= self.datagrams_max as u64)
        {
            self.sources.pop_front();
        }
    }

    /// Datagram `number` arrived, was repaired or given up: it needs no further repair symbol.
    pub fn forget(&mut self, number: u64) {
        if let Ok(place) = self.sources.binary_search_by_key(&number, |s| s.0) {
            self.sources.remove(place);
        }
    }

    /// Keeps only the newest `count`.
    pub fn keep_newest(&mut self, count: usize) {
        let surplus = self.sources.len().saturating_sub(count);
        self.sources.drain(..surplus);
    }

    /// The lowest number kept.
    pub fn first(&self) -> Option<u64> {
        self.sources.front().map(|(number, _)| *number)
    }

    /// How many datagrams a repair symbol would cover now.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there is nothing to cover.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether datagram `number` would be covered.
    pub fn covers(&self, number: u64) -> bool {
        self.sources.binary_search_by_key(&number, |s| s.0).is_ok()
    }

    /// Octets the next symbol will have.
    pub fn symbol_len(&self) -> usize {
        self.sources.iter().map(|(_, datagram)| LENGTH_LEN + datagram.len()).max().unwrap_or(0)
    }

    /// The next repair symbol over all datagrams kept.
    pub fn repair(&mut self) -> Option<Repair> {
        let first = self.sources.front()?.0;
        let key = self.key;
        self.key = (self.key + 1) % SPAN_MAX as u8;
        let (mut symbol, mut mask) = (vec![0; self.symbol_len()], 0);
        for (number, datagram) in &self.sources {
            mask |= 1u128 << (number - first);
            let factor = coefficient(*number, key);
            // No datagram is longer than an IP packet.
            add_multiple(&mut symbol, &(datagram.len() as u16).to_be_bytes(), factor);
            add_multiple(&mut symbol[LENGTH_LEN..], datagram, factor);
        }
        Some(Repair { key, first, mask, symbol })
    }
}

/// Number of repair symbols for `datagrams` if `loss` of all packets, symbols included, is lost independently: the smallest for which they
/// fail to suffice with probability `failure` at most.
pub fn repairs_for(datagrams: usize, loss: f64, failure: f64) -> usize {
    if datagrams == 0 || loss <= 0.0 {
        return 0;
    }
    let loss = loss.min(0.5);
    (0..REPAIRS_MAX).find(|&repairs| more_than(repairs, datagrams + repairs, loss) <= failure).unwrap_or(REPAIRS_MAX)
}

/// The probability that more than `some` of `all` are lost: a binomial tail.
fn more_than(some: usize, all: usize, loss: f64) -> f64 {
    let (mut term, mut sum) = (power(1.0 - loss, all as f64), 0.0);
    for lost in 0..=some.min(all) {
        sum += term;
        term *= (all - lost) as f64 / (lost + 1) as f64 * loss / (1.0 - loss);
    }
    1.0 - sum
}
