//! How often what failed is tried again, and how often something costly is read.

use std::ops::RangeInclusive;
use wavelane_base::{Instant, Span};

/// What was tried and failed: it is tried again less and less often.
#[derive(Debug)]
pub(crate) struct Failing {
    pub(super) lacking: Vec<Vec<u8>>,
    wait: Span,
    again: Instant,
}

/// The first time until another try, and the longest.
const TRY_AGAIN: RangeInclusive<Span> = Span::from_millis(400)..=Span::from_secs(30);

impl Failing {
    /// It failed, as it may have `before`.
    pub(crate) fn again(now: Instant, before: Option<Self>, lacking: Vec<Vec<u8>>) -> Self {
        let wait = before.map_or(*TRY_AGAIN.start(), |before| before.wait.times(2).min(*TRY_AGAIN.end()));
        Self { lacking, wait, again: now + wait }
    }
    /// Whether the same is lacking, and it is not yet time.
    pub(crate) fn rests(&self, now: Instant, lacking: &[Vec<u8>]) -> bool {
        now < self.again && self.lacking == lacking
    }
}

/// How often something costly is done that others' changes call for: at most a twentieth of the time goes to it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    due: bool,
    after: Instant,
}

/// The least time between two readings of the whole ruleset of this host, which may be long and change all the time.
const READ_RULESETS_EVERY: Span = Span::from_secs(2);

impl Pace {
    /// Whether it is to be done now.
    pub(super) fn comes(&mut self, now: Instant, called_for: bool) -> bool {
        self.due |= called_for;
        self.due && now >= self.after
    }
    /// It was done from `began` until `now`.
    pub(super) fn did(&mut self, began: Instant, now: Instant) {
        *self = Self { due: false, after: now + READ_RULESETS_EVERY.max(now.since(began).times(19)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_less_and_less_often_and_other_losses_at_once() {
        let (lacks, mut now, mut tries) = (vec![vec![6]], Instant::from_secs(10), 0);
        let mut failing = Failing::again(now, None, lacks.clone());
        assert!(!failing.rests(now, &[vec![4], vec![6]]), "another loss");
        // A look each 400 ms for ten minutes.
        for _ in 0..1_500 {
            now += Span::from_millis(400);
            if !failing.rests(now, &lacks) {
                tries += 1;
                failing = Failing::again(now, Some(failing), lacks.clone());
            }
        }
        assert!((20..30).contains(&tries), "{tries}");
    }

    #[test]
    fn a_busy_ruleset_of_others_is_read_for_a_twentieth_of_the_time_and_its_last_state_is_read() {
        let (mut pace, mut now, mut spent) = (Pace::default(), Instant::from_secs(10), Span::ZERO);
        for _ in 0..1_000 {
            now += Span::from_millis(400);
            if pace.comes(now, true) {
                let began = now;
                now += Span::from_millis(700);
                pace.did(began, now);
                spent += now.since(began);
            }
        }
        let all = now.since(Instant::from_secs(10));
        assert!(spent.times(18) < all && spent.times(25) > all, "{spent:?} of {all:?}");
        assert!(pace.comes(now + Span::from_secs(15), true));
        pace.did(now, now);
        assert!(!pace.comes(now + Span::from_secs(60), false), "nobody changed it");
    }
}
