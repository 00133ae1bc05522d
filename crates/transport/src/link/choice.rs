//! Which of a link's lanes carry data: a closed list of policies. Lanes that a policy does not use still ask for answers, so that their
//! state is known when they are needed.

use std::collections::VecDeque;
use wavelane_base::{Instant, Span};
pub use wavelane_settings::Choice;

/// Number of packets whose fates give the share delivered, ...
const WINDOW: usize = 50;
/// ... if they are no older than this.
const WINDOW_SPAN: Span = Span::from_secs(25);
/// With fewer fates the first lane is not left ...
const FATES_MIN: usize = 10;
/// ... and with fewer than this it is not used again; a probe each second gives as many in 20 s. On a lane that delivers 30 %, seven of ten
/// probes arrive by chance once in a hundred times, and 14 of 20 once in 25,000.
const FATES_BACK: usize = 20;
/// The first lane is used again from this share delivered ...
const SHARE_HIGH: f64 = 0.7;
/// ... until the share falls below this one.
const SHARE_LOW: f64 = 0.5;
/// Interval between probes of the lane that is not used.
pub(super) const PROBE_EVERY: Span = Span::from_secs(1);

/// The state that decides for the policy [`Choice::Delivery1998`].
#[derive(Debug)]
pub(super) struct Delivery {
    /// Whether packets of the first lane arrived, and when that became known, oldest first; at most [`WINDOW`].
    fates: VecDeque<(Instant, bool)>,
    /// Whether the first lane is used.
    pub(super) first: bool,
    switched: Instant,
}

impl Delivery {
    pub(super) fn new(now: Instant) -> Self {
        Self { fates: VecDeque::new(), first: true, switched: now }
    }

    /// The fate of a packet of the first lane.
    pub(super) fn note(&mut self, now: Instant, delivered: bool) {
        if self.fates.len() >= WINDOW {
            self.fates.pop_front();
        }
        self.fates.push_back((now, delivered));
    }

    /// The share delivered; `None` while fewer than `least` fates are known.
    fn share(&self, least: usize) -> Option<f64> {
        let delivered = self.fates.iter().filter(|(_, delivered)| *delivered).count();
        (self.fates.len() >= least).then(|| delivered as f64 / self.fates.len() as f64)
    }

    /// Decides. `failed` says for the first lane and for the others whether nothing comes back; `round` is the longest of their round
    /// trips, for which a choice stays in force.
    pub(super) fn decide(&mut self, now: Instant, failed: [bool; 2], round: Span) {
        while self.fates.front().is_some_and(|(at, _)| *at + WINDOW_SPAN < now) {
            self.fates.pop_front();
        }
        if now < self.switched + round {
            return;
        }
        let first = match (self.first, failed) {
            (_, [true, true]) => self.first,
            (_, [true, false]) => false,
            (false, [false, true]) => true,
            (true, _) => !self.share(FATES_MIN).is_some_and(|share| share < SHARE_LOW),
            (false, _) => self.share(FATES_BACK).is_some_and(|share| share >= SHARE_HIGH),
        };
        if first != self.first {
            // Fates from before the switch do not count.
            self.fates.clear();
            self.first = first;
            self.switched = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Span = Span::from_millis(50);

    /// One fate each 200 ms for `seconds`, `delivered` of ten of them good, evenly spread; the switches that come of it.
    fn feed(delivery: &mut Delivery, now: &mut Instant, seconds: u64, delivered: u64) -> u32 {
        let mut switches = 0;
        for n in 0..seconds * 5 {
            *now += Span::from_millis(200);
            delivery.note(*now, (n * delivered) % 10 < delivered);
            let before = delivery.first;
            delivery.decide(*now, [false, false], ROUND);
            switches += u32::from(before != delivery.first);
        }
        switches
    }

    #[test]
    fn delivery_1998_thresholds_of_the_first_lane() {
        let mut now = Instant::from_secs(1);
        let mut delivery = Delivery::new(now);
        assert_eq!((feed(&mut delivery, &mut now, 60, 10), delivery.first), (0, true));
        assert_eq!((feed(&mut delivery, &mut now, 60, 6), delivery.first), (0, true), "between the two it stays");
        assert_eq!((feed(&mut delivery, &mut now, 60, 3), delivery.first), (1, false));
        assert_eq!((feed(&mut delivery, &mut now, 60, 6), delivery.first), (0, false), "and so does the other");
        assert_eq!((feed(&mut delivery, &mut now, 60, 10), delivery.first), (1, true));
    }

    #[test]
    fn a_silent_lane_is_left_until_it_delivers_again() {
        let mut now = Instant::from_secs(1);
        let mut delivery = Delivery::new(now);
        feed(&mut delivery, &mut now, 10, 10);
        delivery.decide(now, [true, false], ROUND);
        assert!(!delivery.first);
        now += ROUND;
        delivery.decide(now, [false, false], ROUND);
        assert!(!delivery.first, "an answer alone is no proof");
        feed(&mut delivery, &mut now, 4, 10);
        assert!(delivery.first);
        delivery.decide(now + ROUND, [true, true], ROUND);
        assert!(delivery.first, "nowhere to go");
    }

    #[test]
    fn a_choice_stands_for_a_round_trip() {
        let now = Instant::from_secs(1);
        let mut delivery = Delivery::new(now);
        delivery.decide(now, [true, false], ROUND);
        assert!(delivery.first);
        delivery.decide(now + ROUND, [true, false], ROUND);
        assert!(!delivery.first);
        delivery.decide(now + ROUND, [false, true], ROUND);
        assert!(!delivery.first);
    }

    #[test]
    fn old_samples_expire_and_memory_is_bounded() {
        let mut now = Instant::from_secs(1);
        let mut delivery = Delivery::new(now);
        feed(&mut delivery, &mut now, 100, 10);
        assert_eq!(delivery.fates.len(), WINDOW);
        delivery.decide(now + WINDOW_SPAN + Span::from_secs(1), [false, false], ROUND);
        assert_eq!(delivery.share(1), None);
    }
}
