//! What the door counts.

use std::collections::BTreeMap;

/// Counters by name; [`crate::status::counter`] has their meaning in words.
#[derive(Debug, Default)]
pub(crate) struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    pub(crate) fn add(&mut self, name: &'static str, n: u64) {
        debug_assert!(crate::status::meaning(name).is_some(), "counter {name} has no words in status.rs");
        if n > 0 {
            *self.0.entry(name).or_default() += n;
        }
    }
    pub(crate) fn one(&mut self, name: &'static str) {
        self.add(name, 1);
    }
    /// These and `more`.
    pub(crate) fn with(&self, more: &BTreeMap<&'static str, u64>) -> Self {
        let mut all = Self(self.0.clone());
        more.iter().for_each(|(name, n)| all.add(name, *n));
        all
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, n)| (*name, *n))
    }
}
