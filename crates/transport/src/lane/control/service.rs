//! The service rate: how fast packets leave the bottleneck, from the receiver's own arrival times.
//!
//! The bytes between two acknowledged packets, lost ones included, over the difference of the two arrival times.
//! The return path of acks has no influence. A packet lost behind the bottleneck used its airtime, so it counts; if losses occur before the
//! bottleneck, the trials of `cause` correct the rate.

use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// Most points kept.
const POINTS_MAX: usize = 2048;
/// Fewest packets a rate is taken over.
const PACKETS_MIN: u64 = 8;
/// Points older than this are dropped.
const AGE_MAX: Span = Span::from_millis(1_000);

/// One acknowledged arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Receiver's clock, nanoseconds.
    pub(crate) arrival: u64,
    /// When it was sent, on our clock.
    pub(crate) sent: Instant,
    /// Packet number.
    pub(crate) number: u64,
    /// Bytes sent up to and with this packet.
    pub(crate) end: u64,
    /// Bytes delivered so far.
    pub(crate) delivered: u64,
    /// Sent while the application had no more data.
    pub(crate) app_limited: bool,
}

/// A measured rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Served {
    /// Lost packets counted as served.
    pub(crate) rate: Rate,
    /// The rate at which the same packets had been sent.
    pub(crate) sent: Rate,
    /// Delivered packets only.
    pub(crate) delivered: Rate,
    /// Some of it was limited by the application.
    pub(crate) app_limited: bool,
    /// The bytes it was measured over, lost packets included.
    pub(crate) bytes: u64,
}

impl Served {
    /// The same, but no rate above `most`.
    pub(crate) fn at_most(self, most: Rate) -> Self {
        Self { rate: self.rate.min(most), delivered: self.delivered.min(most), ..self }
    }
}

/// A sliding window of arrivals.
#[derive(Debug, Default)]
pub(crate) struct Service {
    points: VecDeque<Point>,
}

impl Service {
    /// Adds an arrival, unless it is not later than the newest. Nothing is measured across a silence longer than `silence_max`. Returns how
    /// much longer than the newest before it was on its way.
    pub(crate) fn push(&mut self, point: Point, silence_max: Span) -> Span {
        let mut later = Span::ZERO;
        if let Some(newest) = self.points.back() {
            if point.arrival <= newest.arrival || point.number <= newest.number {
                return later;
            }
            later = Span::from_nanos(point.arrival - newest.arrival).saturating_sub(point.sent.since(newest.sent));
            if point.arrival - newest.arrival > silence_max.as_nanos() {
                self.points.clear();
            }
        }
        self.points.push_back(point);
        while self.points.len() > POINTS_MAX
            || self
                .points
                .front()
                .is_some_and(|p| p.arrival + AGE_MAX.max(silence_max.times(2)).as_nanos() < point.arrival)
        {
            self.points.pop_front();
        }
        later
    }

    /// The rate over the newest `window`, or over enough packets if that is longer.
    pub(crate) fn rate(&self, window: Span) -> Option<Served> {
        self.rate_of(window, PACKETS_MIN)
    }

    /// The same over at least `packets` packets.
    pub(crate) fn rate_of(&self, window: Span, packets: u64) -> Option<Served> {
        self.measure(window, packets, false)
    }

    /// The same, but not across a pause of the application, during which nothing was served.
    pub(crate) fn busy_rate(&self, window: Span, packets: u64) -> Option<Served> {
        self.measure(window, packets, true)
    }

    fn measure(&self, window: Span, packets: u64, busy: bool) -> Option<Served> {
        let newest = self.points.back()?;
        let mut app_limited = newest.app_limited;
        for point in self.points.iter().rev().skip(1) {
            if busy && point.app_limited {
                return None;
            }
            // The interval after the application's last packet includes its pause.
            app_limited |= point.app_limited;
            let span = newest.arrival - point.arrival;
            if span >= window.as_nanos() && newest.number - point.number >= packets {
                let span = Span::from_nanos(span);
                let bytes = Octets::new(newest.end - point.end);
                return Some(Served {
                    rate: Rate::of(bytes, span),
                    sent: Rate::of(bytes, newest.sent.since(point.sent)),
                    delivered: Rate::of(Octets::new(newest.delivered.saturating_sub(point.delivered)), span),
                    app_limited,
                    bytes: bytes.get(),
                });
            }
        }
        None
    }

    /// Bytes delivered in the newest `span`; if no two arrivals are that far apart, their part of a longer time.
    pub(crate) fn delivered_in(&self, span: Span) -> Option<u64> {
        let newest = self.points.back()?;
        let point = self.points.iter().rev().skip(1).find(|p| newest.arrival - p.arrival >= span.as_nanos())?;
        let bytes = Octets::new(newest.delivered.saturating_sub(point.delivered));
        Some(Rate::of(bytes, Span::from_nanos(newest.arrival - point.arrival)).octets_in(span).get())
    }

    /// Whether the newest `packets` packets arrived evenly: no packet took more than `spread` times its share of the time. Jitter and
    /// coarse clocks cause clumps; a bottleneck does not.
    pub(crate) fn even(&self, packets: u64, spread: u64) -> bool {
        let Some(newest) = self.points.back() else { return false };
        let Some(oldest) = self.points.iter().rev().find(|p| newest.number - p.number >= packets) else { return false };
        let share = (newest.arrival - oldest.arrival) / (newest.number - oldest.number);
        let pairs = self.points.iter().rev().zip(self.points.iter().rev().skip(1));
        pairs
            .take_while(|(_, older)| older.number >= oldest.number)
            .all(|(newer, older)| newer.arrival - older.arrival <= spread * share * (newer.number - older.number))
    }

    /// Forgets everything.
    pub(crate) fn forget(&mut self) {
        self.points.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_behind_the_bottleneck_count_as_served() {
        let mut service = Service::default();
        // One packet per 600 us is served; every second one arrives.
        for n in (0..200u64).step_by(2) {
            let point = Point {
                arrival: 1_000_000 + n * 600_000,
                sent: Instant::from_micros(n * 500),
                number: n,
                end: (n + 1) * 1500,
                delivered: n / 2 * 1500,
                app_limited: false,
            };
            service.push(point, Span::from_secs(1));
        }
        let served = service.rate(Span::from_millis(50)).expect("enough points");
        assert_eq!(served.rate, Rate::from_bps(20_000_000));
        assert_eq!(served.sent, Rate::from_bps(24_000_000));
        assert_eq!(served.delivered, Rate::from_bps(10_000_000));
    }

    #[test]
    fn clumps_are_not_even_and_losses_do_not_matter() {
        let point = |number: u64, arrival: u64| Point {
            arrival,
            sent: Instant::ZERO,
            number,
            end: number * 1500,
            delivered: 0,
            app_limited: false,
        };
        let mut steady = Service::default();
        let mut clumped = Service::default();
        for n in (0..40).filter(|n| n % 5 != 3) {
            steady.push(point(n, 1 + n * 600_000), Span::from_secs(1));
            clumped.push(point(n, 1 + n / 8 * 4_800_000 + n), Span::from_secs(1));
        }
        assert!(steady.even(12, 3));
        assert!(!clumped.even(12, 3));
    }

    #[test]
    fn a_silence_is_not_measured_across() {
        let mut service = Service::default();
        for n in 0..20u64 {
            let arrival = 1 + n * 600_000 + if n >= 19 { 5_000_000_000 } else { 0 };
            service.push(
                Point {
                    arrival,
                    sent: Instant::from_micros(n * 500),
                    number: n,
                    end: n * 1500,
                    delivered: n * 1500,
                    app_limited: false,
                },
                Span::from_millis(300),
            );
        }
        assert_eq!(service.rate(Span::from_millis(5)), None);
    }
}
