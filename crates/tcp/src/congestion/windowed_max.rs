//! A windowed maximum filter over virtual time, such as round trips.

/// At most one entry per tick of the window is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowedMax<T> {
    /// (time, value), times rising and values falling: the first is the largest.
    falling: Vec<(u64, T)>,
}

impl<T: Copy + Ord + Default> WindowedMax<T> {
    /// The maximum; the default value if empty.
    pub(super) fn max(&self) -> T {
        self.falling.first().map_or(T::default(), |(_, value)| *value)
    }
    /// Discards entries older than the last `length` ticks, including the current one.
    pub(super) fn expire(&mut self, time: u64, length: u64) {
        self.falling.retain(|(at, _)| at + length > time);
    }
    pub(super) fn note(&mut self, time: u64, value: T) {
        // Older and smaller ones can never be the maximum again.
        while self.falling.last().is_some_and(|(_, old)| *old <= value) {
            self.falling.pop();
        }
        match self.falling.last() {
            Some((at, _)) if *at == time => {}
            _ => self.falling.push((time, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the simplest model, which keeps and scans everything.
        #[test]
        fn it_is_the_largest_of_the_window(steps in proptest::collection::vec((0..3u64, 0..20u64), 1..80), length in 1..12u64) {
            let mut filter = WindowedMax::default();
            let (mut all, mut time) = (Vec::new(), 0);
            for (later, value) in steps {
                time += later;
                filter.expire(time, length);
                filter.note(time, value);
                all.push((time, value));
                let largest = all.iter().filter(|(at, _)| at + length > time).map(|(_, value)| *value).max();
                prop_assert_eq!(Some(filter.max()), largest);
                prop_assert!(filter.falling.len() as u64 <= length, "one entry per tick");
            }
        }
    }
}
