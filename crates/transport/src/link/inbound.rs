//! Loss in the direction *to us*, from the gaps in what arrives.
//!
//! A side that mostly listens sends too little to learn its own direction's loss. Media that lose packets one way usually lose them the
//! other way too, so this is its best estimate of whether copies are worth their octets.

/// Packets over which the share is computed; both counts halve when the window is full.
const WINDOW: u64 = 512;
/// Of fewer packets no share is shown: a lane's first packets cross while its path is still being found.
const SHOWN_FROM: u64 = 100;

/// Loss seen on the neighbour's lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InboundLoss {
    /// Highest packet number so far; each lane has its own [`InboundLoss`].
    highest: Option<u64>,
    expected: u64,
    received: u64,
}

impl InboundLoss {
    /// Packet `number` arrived. Late ones fill the gap they left.
    pub(super) fn arrived(&mut self, number: u64) {
        let step = match self.highest {
            Some(highest) if number > highest => number - highest,
            Some(_) => 0,
            None => 1,
        };
        self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
        // A jump larger than the window only means "all lost for a while".
        self.expected += step.min(WINDOW);
        self.received = (self.received + 1).min(self.expected);
        if self.expected >= 2 * WINDOW {
            self.expected /= 2;
            self.received /= 2;
        }
    }

    /// The neighbour's lane has gone; the next one with its number goes on from `next`, and what was lost between is not that one's.
    pub(super) fn gone(&mut self, next: u64) {
        *self = Self { highest: next.checked_sub(1).max(self.highest), ..Self::default() };
    }

    /// The share, once there were enough packets to show it.
    pub(super) fn shown(&self) -> f64 {
        if self.expected < SHOWN_FROM { 0.0 } else { self.share() }
    }

    /// Share lost lately, 0 to 1.
    pub(super) fn share(&self) -> f64 {
        if self.expected == 0 { 0.0 } else { (self.expected - self.received) as f64 / self.expected as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_and_late_arrivals_fill_them() {
        let mut loss = InboundLoss::default();
        (0..100).filter(|n| n % 10 != 3).for_each(|n| loss.arrived(n));
        assert!((loss.share() - 0.1).abs() < 0.001, "{}", loss.share());
        (0..100).filter(|n| n % 10 == 3).for_each(|n| loss.arrived(n));
        assert!(loss.share() < 0.001);
    }

    #[test]
    fn what_a_lane_that_has_gone_lost_is_not_the_next_ones() {
        let mut loss = InboundLoss::default();
        (0..9).filter(|n| n % 2 == 0).for_each(|n| loss.arrived(n));
        assert!(loss.share() > 0.4 && loss.shown() == 0.0, "too few");
        loss.gone(60);
        (60..60 + SHOWN_FROM).filter(|n| n % 4 != 3).for_each(|n| loss.arrived(n));
        loss.arrived(60 + SHOWN_FROM);
        assert!((loss.shown() - 0.25).abs() < 0.01, "{}", loss.shown());
    }

    #[test]
    fn an_outage_is_forgotten_within_a_few_windows() {
        let mut loss = InboundLoss::default();
        loss.arrived(0);
        loss.arrived(1_000_000);
        assert!(loss.share() > 0.9);
        (1_000_001..1_000_001 + 8 * WINDOW).for_each(|n| loss.arrived(n));
        assert!(loss.share() < 0.01, "{}", loss.share());
    }
}
