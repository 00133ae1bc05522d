//! Goodput of an application.

use wavelane_base::{Instant, Octets, Span};

/// Flows of a given duration are measured from this long after their first byte on: the start is not the steady state.
/// A first byte that comes later than this after the flow was asked for is silence, which counts.
pub const WARM_UP: Span = Span::from_secs(2);

/// How a flow ended, which decides what its bytes are divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// A transfer of a given size that arrived whole: from first to last byte.
    Finished {
        /// When the receiver read its first byte.
        first: Instant,
        /// When it read the last.
        last: Instant,
    },
    /// A transfer of a given size that did not: all of the time it was given.
    Unfinished {
        /// When it was asked for.
        asked: Instant,
        /// When its time was over.
        stop: Instant,
    },
    /// A flow that runs for a given time: what arrived from [`WARM_UP`] after its first byte to `stop`, over that time.
    Fixed {
        /// When it was asked for.
        asked: Instant,
        /// When the receiver read its first byte.
        first: Instant,
        /// When it was stopped.
        stop: Instant,
    },
}

impl Timing {
    /// Start and end of the time that counts; the end lies before the start if nothing is left after the warm-up.
    pub fn window(self) -> (Instant, Instant) {
        match self {
            Self::Finished { first, last } => (first, last),
            Self::Unfinished { asked, stop } => (asked, stop),
            Self::Fixed { asked, first, stop } => (first.min(asked + WARM_UP) + WARM_UP, stop),
        }
    }
}

/// Goodput in bits per second: application bytes at the receiver x 8 over the time that `timing` names.
///
/// `arrivals` are bytes and when they were read. `None` if that time is empty, as for a transfer that arrived in one
/// read.
pub fn goodput(arrivals: impl IntoIterator<Item = (Instant, Octets)>, timing: Timing) -> Option<f64> {
    let (from, until) = timing.window();
    let counts = |at: Instant| !matches!(timing, Timing::Fixed { .. }) || (from..=until).contains(&at);
    let octets = arrivals.into_iter().filter(|(at, _)| counts(*at)).fold(Octets::ZERO, |sum, (_, octets)| sum + octets);
    let nanos = until.since(from).as_nanos();
    (nanos > 0).then(|| octets.get() as f64 * 8e9 / nanos as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (milliseconds, bytes)
    fn arrivals(list: &[(u64, u64)]) -> Vec<(Instant, Octets)> {
        list.iter().map(|&(at, n)| (Instant::from_millis(at), Octets::new(n))).collect()
    }

    #[test]
    fn a_finished_transfer_is_timed_from_first_to_last_byte() {
        // 3000 B between 1.0 and 1.5 s: 24 kbit in 0.5 s, whenever the flow was asked for.
        let read = arrivals(&[(1_000, 1_000), (1_200, 1_500), (1_500, 500)]);
        let timing = |last| Timing::Finished { first: Instant::from_secs(1), last: Instant::from_millis(last) };
        assert_eq!(goodput(read, timing(1_500)), Some(48_000.0));
        assert_eq!(goodput(arrivals(&[(1_000, 1_000)]), timing(1_000)), None, "one read has no length");
    }

    #[test]
    fn an_unfinished_transfer_is_charged_all_the_time_it_was_given() {
        let read = arrivals(&[(1_000, 1_000), (1_200, 1_500)]);
        let timing = Timing::Unfinished { asked: Instant::from_millis(900), stop: Instant::from_millis(40_900) };
        assert_eq!(goodput(read, timing), Some(500.0));
        assert_eq!(goodput([], timing), Some(0.0), "nothing arrived is a result");
    }

    #[test]
    fn a_fixed_time_flow_excludes_warm_up_and_late_bytes() {
        let read = arrivals(&[(1_000, 77), (2_999, 77), (3_000, 1_000), (5_000, 250), (5_001, 77)]);
        let (asked, first) = (Instant::from_millis(900), Instant::from_secs(1));
        let fixed = |stop| Timing::Fixed { asked, first, stop: Instant::from_secs(stop) };
        assert_eq!(goodput(read.clone(), fixed(5)), Some(1_250.0 * 8.0 / 2.0));
        assert_eq!(goodput(read.clone(), fixed(3)), None, "nothing is left after the warm-up");
        assert_eq!(goodput(read, fixed(2)), None);
    }

    #[test]
    fn silence_before_the_first_byte_counts() {
        let read = arrivals(&[(31_000, 500), (32_000, 500), (34_000, 500)]);
        let (asked, first, stop) = (Instant::from_secs(1), Instant::from_secs(31), Instant::from_secs(35));
        assert_eq!(goodput(read, Timing::Fixed { asked, first, stop }), Some(1_500.0 * 8.0 / 30.0));
    }
}
