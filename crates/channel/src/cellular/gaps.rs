//! Times in which a radio sends nothing.

use super::config::Gaps;
use wavelane_base::{Chance, Instant, Span};

/// The gaps of one kind, in order; queries must be in time order.
pub(super) struct GapProcess {
    gaps: Gaps,
    /// Draws for gaps at random times; without them they are regular.
    dice: Option<Chance>,
    /// The gap under way, or else the next.
    from: Instant,
    until: Instant,
}

impl GapProcess {
    pub(super) fn new(gaps: Gaps, dice: Option<Chance>) -> Self {
        let mut process = Self { gaps, dice, from: Instant::ZERO, until: Instant::ZERO };
        process.next();
        process
    }

    fn next(&mut self) {
        let (every, lasts) = match &mut self.dice {
            Some(dice) => (dice.exponential(self.gaps.every), dice.exponential(self.gaps.lasts)),
            None => (self.gaps.every, self.gaps.lasts),
        };
        self.from = if self.dice.is_some() { self.until + every } else { (self.from + every).max(self.until) };
        self.until = self.from + lasts;
    }

    /// When `work` that begins at `start` is over, and when it really begins: a gap delays either.
    pub(super) fn finish(&mut self, start: Instant, mut work: Span) -> (Instant, Instant) {
        let (mut at, mut begun) = (start, None);
        loop {
            while self.until <= at {
                self.next();
            }
            if self.from <= at {
                at = self.until;
                continue;
            }
            let begin = *begun.get_or_insert(at);
            let room = self.from.since(at);
            if work <= room {
                return (begin, at + work);
            }
            work = Span::from_nanos(work.as_nanos() - room.as_nanos());
            at = self.until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_gaps_delay_what_meets_them() {
        let (second, ms) = (Span::from_secs(1), Span::from_millis);
        let at = |ms: u64| Instant::ZERO + Span::from_millis(ms);
        let mut gaps = GapProcess::new(Gaps { every: second, lasts: ms(100) }, None);
        assert_eq!(gaps.finish(at(0), ms(500)), (at(0), at(500)));
        // The gap is from 1,000 to 1,100 ms.
        assert_eq!(gaps.finish(at(900), ms(300)), (at(900), at(1_300)));
        assert_eq!(gaps.finish(at(2_050), ms(10)), (at(2_100), at(2_110)));
        assert_eq!(gaps.finish(at(2_500), ms(1_700)), (at(2_500), at(4_400)));
    }
}
