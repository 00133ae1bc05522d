//! The two random sources. Models draw from [`Chance`]; keys and identifiers come from [`Entropy`].

use crate::{Ratio, Span, maths};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};

/// The run's seed. Every substream of a run is derived from it and a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(pub u64);

/// One named random substream of a run, for models.
///
/// Streams with different names are independent, so adding a consumer never changes the draws of another.
#[derive(Clone, Debug)]
pub struct Chance(Xoshiro256PlusPlus);

/// Unpredictable bytes for keys and identifiers.
///
/// Drawn from the operating system each time in the daemon, so that two copies of one machine's memory diverge at the next
/// draw; seeded from the run only in the simulator and in tests.
pub struct Entropy(Source);

#[derive(Clone)]
enum Source {
    Seeded(Box<ChaCha20Rng>),
    Live(fn(&mut [u8])),
}

impl Seed {
    /// The substream `name` of this run, such as `"air forward / loss"`.
    pub fn chance(self, name: &str) -> Chance {
        Chance(Xoshiro256PlusPlus::from_seed(self.derive("chance", name)))
    }
    /// Predictable key material for simulator and test builds. Never used by the daemon.
    pub fn entropy(self, name: &str) -> Entropy {
        Entropy(Source::Seeded(Box::new(ChaCha20Rng::from_seed(self.derive("entropy", name)))))
    }
    fn derive(self, dice: &str, name: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(dice.as_bytes());
        hash.update(self.0.to_be_bytes());
        hash.update(name.as_bytes());
        hash.finalize().into()
    }
}

impl Chance {
    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// A uniform number in `0..n`, without bias. Zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // Rejection sampling; the loop takes at most two draws on average.
        let zone = u64::MAX - u64::MAX % n;
        loop {
            let draw = self.next_u64();
            if draw < zone {
                return draw % n;
            }
        }
    }
    /// True with probability `p`, exactly.
    pub fn happens(&mut self, p: Ratio) -> bool {
        self.below(u64::from(p.den())) < u64::from(p.num())
    }
    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// An exponentially distributed span with the given mean, at least 1 ns.
    pub fn exponential(&mut self, mean: Span) -> Span {
        let draw = -maths::log_e(1.0 - self.unit()) * mean.as_nanos() as f64;
        Span::from_nanos((draw as u64).max(1))
    }
}

impl Entropy {
    /// Entropy expanded from 32 bytes that the operating system supplied.
    pub fn from_os_bytes(seed: [u8; 32]) -> Self {
        Self(Source::Seeded(Box::new(ChaCha20Rng::from_seed(seed))))
    }
    /// Entropy that draws every byte from `source`, which never fails.
    pub fn live(source: fn(&mut [u8])) -> Self {
        Self(Source::Live(source))
    }
    /// Fills `out` with unpredictable bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        match &mut self.0 {
            Source::Seeded(rng) => rng.fill_bytes(out),
            Source::Live(source) => source(out),
        }
    }
    /// 64 unpredictable bits.
    pub fn next_u64(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seeded(rng) => rng.next_u64(),
            Source::Live(source) => {
                let mut bytes = [0; 8];
                source(&mut bytes);
                u64::from_le_bytes(bytes)
            }
        }
    }
    /// An independent generator derived from the same key, always the same one; the draws of this one are unaffected.
    pub fn aside(&self) -> Self {
        let mut other = self.0.clone();
        if let Source::Seeded(rng) = &mut other {
            rng.set_stream(rng.get_stream() + 1);
        }
        Self(other)
    }
    /// An independent generator, for handing to one part of a machine.
    pub fn split(&mut self) -> Self {
        if let Source::Live(source) = self.0 {
            return Self::live(source);
        }
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::from_os_bytes(seed)
    }
}

impl core::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Entropy(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substream_depends_on_seed_and_name_only() {
        let first: Vec<u64> = (0..4)
            .map({
                let mut c = Seed(7).chance("a");
                move |_| c.next_u64()
            })
            .collect();
        let again: Vec<u64> = (0..4)
            .map({
                let mut c = Seed(7).chance("a");
                move |_| c.next_u64()
            })
            .collect();
        assert_eq!(first, again);
        assert_ne!(first[0], Seed(7).chance("b").next_u64());
        assert_ne!(first[0], Seed(8).chance("a").next_u64());
        // Frozen: a change here changes every recorded run.
        assert_eq!(first[0], FROZEN_FIRST_DRAW);
    }
    const FROZEN_FIRST_DRAW: u64 = 12_523_691_159_739_208_075;

    #[test]
    fn exponential_has_its_mean_and_happens_its_ratio() {
        let mut c = Seed(1).chance("t");
        let n = 100_000u64;
        let sum: u64 = (0..n).map(|_| c.exponential(Span::from_millis(30)).as_micros()).sum();
        let mean_us = sum / n;
        assert!((29_600..30_400).contains(&mean_us), "{mean_us}");
        let p = Ratio::new(1, 20).expect("1/20 is a ratio");
        let hits = (0..n).filter(|_| c.happens(p)).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
    }
}
