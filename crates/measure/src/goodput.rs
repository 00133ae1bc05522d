//! What an application received, over time.

use wavelane_base::{Instant, Octets, Rate, Span};

/// How much of the beginning of a flow of fixed duration is not counted.
pub const WARM_UP: Span = Span::from_secs(2);

/// Bytes that the receiving application read at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When, on the receiver's clock.
    pub at: Instant,
    /// How many.
    pub octets: Octets,
}

/// How a flow ended, which decides what its bytes are divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// A transfer of a given size that arrived whole: from first to last byte.
    Finished,
    /// A transfer of a given size that did not: all of the time it was given.
    Unfinished {
        /// The time it was given.
        given: Span,
    },
    /// A flow that runs for a given time: what arrived in `start + WARM_UP .. stop`, over that time.
    Fixed {
        /// When the flow started.
        start: Instant,
        /// When it was stopped.
        stop: Instant,
    },
}

/// Throughput in one stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bin {
    /// Its start.
    pub start: Instant,
    /// Its length; the last one may be shorter than the others.
    pub width: Span,
    /// Bytes over length.
    pub rate: Rate,
}

/// Goodput: application bytes at the receiver x 8 over the time that `timing` names.
///
/// `arrivals` are in order of time. `None` if that time is empty, as for a transfer that arrived in one read.
pub fn goodput(arrivals: &[Arrival], timing: Timing) -> Option<Rate> {
    let (octets, span) = match timing {
        Timing::Finished => (sum(arrivals), arrivals.last()?.at.since(arrivals.first()?.at)),
        Timing::Unfinished { given } => (sum(arrivals), given),
        Timing::Fixed { start, stop } => {
            let warm = start + WARM_UP;
            (sum(between(arrivals, warm, stop)), stop.since(warm))
        }
    };
    (span > Span::ZERO).then(|| Rate::of(octets, span))
}

/// Throughput from `start` to `stop` in bins of `width`; empty for an empty width or time.
///
/// `arrivals` are in order of time; what lies outside is left out. A byte on a border counts in the later bin.
pub fn throughput_series(arrivals: &[Arrival], start: Instant, stop: Instant, width: Span) -> Vec<Bin> {
    let mut bins = Vec::new();
    if width == Span::ZERO {
        return bins;
    }
    let mut from = start;
    while from < stop {
        let to = (from + width).min(stop);
        let span = to.since(from);
        bins.push(Bin { start: from, width: span, rate: Rate::of(sum(between(arrivals, from, to)), span) });
        from = to;
    }
    bins
}

fn sum(arrivals: &[Arrival]) -> Octets {
    arrivals.iter().fold(Octets::ZERO, |sum, arrival| sum + arrival.octets)
}

/// The arrivals in `from .. to`.
fn between(arrivals: &[Arrival], from: Instant, to: Instant) -> &[Arrival] {
    let first = arrivals.partition_point(|arrival| arrival.at < from);
    let end = arrivals.partition_point(|arrival| arrival.at < to);
    arrivals.get(first..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (milliseconds, bytes)
    fn arrivals(list: &[(u64, u64)]) -> Vec<Arrival> {
        list.iter().map(|&(at, n)| Arrival { at: Instant::from_millis(at), octets: Octets::new(n) }).collect()
    }
    fn bps(rate: Option<Rate>) -> Option<u64> {
        rate.map(Rate::as_bps)
    }

    #[test]
    fn a_finished_transfer_is_timed_from_first_to_last_byte() {
        // 3000 B between 1.0 and 1.5 s: 24 kbit in 0.5 s, whenever the flow was asked for.
        let read = arrivals(&[(1_000, 1_000), (1_200, 1_500), (1_500, 500)]);
        assert_eq!(bps(goodput(&read, Timing::Finished)), Some(48_000));
        assert_eq!(goodput(&read[..1], Timing::Finished), None, "one read has no length");
        assert_eq!(goodput(&[], Timing::Finished), None);
    }

    #[test]
    fn an_unfinished_transfer_is_charged_all_the_time_it_was_given() {
        let read = arrivals(&[(1_000, 1_000), (1_200, 1_500)]);
        let given = Span::from_secs(40);
        assert_eq!(bps(goodput(&read, Timing::Unfinished { given })), Some(500));
        assert_eq!(bps(goodput(&[], Timing::Unfinished { given })), Some(0), "nothing arrived is a result");
    }

    #[test]
    fn a_fixed_time_flow_excludes_warm_up_and_late_bytes() {
        let read = arrivals(&[(1_000, 77), (2_999, 77), (3_000, 1_000), (4_999, 250), (5_000, 77)]);
        let fixed = Timing::Fixed { start: Instant::from_secs(1), stop: Instant::from_secs(5) };
        assert_eq!(bps(goodput(&read, fixed)), Some(1_250 * 8 / 2));
        let short = Timing::Fixed { start: Instant::from_secs(1), stop: Instant::from_secs(3) };
        assert_eq!(goodput(&read, short), None, "nothing is left after the warm-up");
    }

    #[test]
    fn a_series_conserves_bytes_and_shortens_its_last_bin() {
        let read = arrivals(&[(0, 10), (99, 20), (100, 40), (299, 80), (300, 160), (340, 320), (350, 640)]);
        let bins = throughput_series(&read, Instant::ZERO, Instant::from_millis(350), Span::from_millis(100));
        let got: Vec<_> =
            bins.iter().map(|b| (b.start.as_micros() / 1_000, b.width.as_millis(), b.rate.as_bps())).collect();
        assert_eq!(got, [(0, 100, 2_400), (100, 100, 3_200), (200, 100, 6_400), (300, 50, 76_800)]);
        let bits: u64 = bins.iter().map(|b| b.rate.as_bps() * b.width.as_millis() / 1_000).sum();
        assert_eq!(bits, (10 + 20 + 40 + 80 + 160 + 320) * 8, "a byte at the stop is outside");
        assert!(throughput_series(&read, Instant::ZERO, Instant::from_secs(1), Span::ZERO).is_empty());
        assert!(throughput_series(&read, Instant::from_secs(1), Instant::ZERO, Span::from_secs(1)).is_empty());
    }
}
