//! Until when ns-3 considers the medium busy during overlapping frames too weak to be received.

use super::classes::Home;
use super::{Reach, Sensed, Wifi};
use wavelane_base::{Instant, Span};

/// Until when a medium counts as busy, whatever else is still on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    until: Instant,
    /// The same without the frame that began at `since`, which may not have been noticed yet.
    before: Instant,
    since: Instant,
}

impl Hold {
    pub(super) const NONE: Self = Self { until: Instant::ZERO, before: Instant::ZERO, since: Instant::ZERO };

    /// A frame begins that keeps the medium busy until `end`, detected after `window`. Frames that began within that time
    /// before are detected together with it.
    pub(super) fn extend(&mut self, now: Instant, end: Instant, window: Span) {
        if now >= self.since + window {
            self.before = self.until;
        }
        self.since = now;
        self.until = self.before.max(end);
    }
    /// At the end of a reception, frames on the air keep the medium busy until `end`.
    pub(super) fn look_again(&mut self, end: Instant) {
        self.until = self.until.max(end);
    }
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

impl Wifi {
    /// Whether ears of this cell have a [`Hold`]: without pairs that are only sensed it would have no effect.
    pub(super) fn holds(sensed: Sensed, mut pairs: impl Iterator<Item = Reach>) -> bool {
        sensed == Sensed::WhileTogether && pairs.any(Reach::is_weak)
    }
    /// Until when the frames now on the air keep the medium busy at `ear`: while they include a strong one or two weak ones
    /// (-82 dBm in sum, ns-3's `CcaSensitivity`); a weak one that was alone from its start, until its end
    /// (`CcaEdThreshold`).
    pub(super) fn held_until(&self, ear: usize) -> Instant {
        let (mut strong, mut last, mut last_but_one) = (self.now, self.now, self.now);
        for &sender in &self.on_air {
            let heard = self.audience[sender].iter().find(|(home, _)| *home == Home::Alone(ear));
            let Some((_, reach)) = heard.filter(|(_, reach)| reach.sense) else { continue };
            let end = self.stations[sender].air.end;
            if !reach.is_weak() {
                strong = strong.max(end);
            } else if end > last {
                last_but_one = last;
                last = end;
            } else {
                last_but_one = last_but_one.max(end);
            }
        }
        let together = strong.max(last_but_one);
        if together > self.now { together } else { last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    #[test]
    fn holds_within_the_window_are_sensed_together() {
        let window = Span::from_micros(4);
        let mut apart = Hold::NONE;
        apart.extend(at(100), at(300), window);
        apart.extend(at(104), at(200), window);
        assert!(!apart.is_over(at(299)) && apart.is_over(at(300)));
        let mut together = Hold::NONE;
        together.extend(at(100), at(300), window);
        together.extend(at(103), at(200), window);
        assert!(!together.is_over(at(199)) && together.is_over(at(200)));
        together.look_again(at(250));
        assert!(!together.is_over(at(249)));
    }
}
