//! A limit on logged changes: of a peer or a lane that flaps, not every change is logged.

use std::collections::BTreeMap;
use wavelane_base::{Instant, Span};

/// Changes of one thing that are logged at once ...
const AT_ONCE: u32 = 6;
/// ... and then one more in this time. Its last state is logged in the end.
const AGAIN: Span = Span::from_secs(30);

/// Lines that may still be logged.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    left: u32,
    refilled: Instant,
    unsaid: u64,
}

impl Allowance {
    pub(crate) fn new(at: Instant) -> Self {
        Self { left: AT_ONCE, refilled: at, unsaid: 0 }
    }
    fn refill(&mut self, at: Instant) {
        let earned = at.since(self.refilled).as_nanos() / AGAIN.as_nanos();
        if earned > 0 {
            self.left = self.left.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)).min(AT_ONCE);
            self.refilled += AGAIN.times(earned);
        }
    }
    /// If a line may be logged, how many before were not.
    pub(crate) fn take(&mut self, at: Instant) -> Option<u64> {
        self.refill(at);
        if self.left == 0 {
            self.unsaid += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// How often it is logged that the same part was taken away.
const LOSSES_EVERY: Span = Span::from_secs(60);

/// What other programs took away: when that was last logged of each part, and how many times it was not since.
#[derive(Debug, Default)]
pub(crate) struct Losses(BTreeMap<String, (Option<Instant>, u64)>);

impl Losses {
    /// What counts the loss of a part, and the line about it if it is to be logged: what it is, and what usually takes it away.
    pub(crate) fn told(
        &mut self,
        at: Instant,
        (what, by): (String, String),
        result: Result<(), String>,
    ) -> (&'static str, Option<String>) {
        if let Err(e) = result {
            let line = format!("{what}: gone, and cannot be put back ({by}): {e}; restart wavelaned if that stays");
            return ("state_missing", Some(line));
        }
        let (told, unsaid) = self.0.entry(what.clone()).or_insert((None, 0));
        if told.is_some_and(|told| at.since(told) < LOSSES_EVERY) {
            *unsaid += 1;
            return ("state_put_back", None);
        }
        let more = Changes::unsaid(std::mem::take(unsaid));
        *told = Some(at);
        let line =
            format!("{what}: another program took them away or changed them, and they are put back ({by}){more}");
        ("state_put_back", Some(line))
    }
}

/// What is said of the nft process that held our rules and was killed; and what counts it, if they are made anew.
pub(crate) fn gone(result: Result<(), String>) -> (Option<&'static str>, String) {
    const KILLED: &str = "the nft process that holds our rules was killed";
    match result {
        Ok(()) => (
            Some("rules_made_anew"),
            format!("{KILLED}: nothing was taken for up to a second or two; they are made anew"),
        ),
        Err(e) => (
            None,
            format!(
                "{KILLED}, and they cannot be made anew, so that nothing is taken; this is tried every second: {e}"
            ),
        ),
    }
}

/// One thing that works or does not.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    now: bool,
    said: bool,
    allowed: Allowance,
    unsaid: u64,
}

impl Changes {
    pub(crate) fn new(at: Instant, state: bool) -> Self {
        Self { now: state, said: state, allowed: Allowance::new(at), unsaid: 0 }
    }
    /// Sets the state. If the change is to be logged, returns how many were not.
    pub(crate) fn turn(&mut self, at: Instant, state: bool) -> Option<u64> {
        self.unsaid += u64::from(state != self.now);
        self.now = state;
        self.allowed.refill(at);
        if state == self.said {
            return None;
        }
        self.allowed.take(at)?;
        Some(self.say(state))
    }
    /// The state is logged in any case. Returns how many changes were not.
    pub(crate) fn say(&mut self, state: bool) -> u64 {
        self.unsaid += u64::from(state != self.now);
        self.now = state;
        self.said = state;
        std::mem::take(&mut self.unsaid).saturating_sub(1)
    }
    /// The text on changes that were not logged, to follow the logged one.
    pub(crate) fn unsaid(changes: u64) -> String {
        match changes {
            0 => String::new(),
            n => format!(" ({n} changes before were not logged)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::part::Part;

    #[test]
    fn what_one_peer_causes_is_logged_a_bounded_number_of_times_and_counted() {
        let mut lines = Allowance::new(Instant::ZERO);
        let told: Vec<u64> = (0..600).filter_map(|n| lines.take(Instant::from_millis(n * 100))).collect();
        // Within a minute six at once and one more; the ten a second between them are counted.
        assert_eq!(told.len(), 7);
        assert!(
            told[..6].iter().all(|unsaid| *unsaid == 0) && told[6..].iter().all(|unsaid| *unsaid > 290),
            "{told:?}"
        );
    }

    #[test]
    fn who_takes_a_part_away_again_and_again_fills_no_log() {
        let mut losses = Losses::default();
        let mut told = |at, part: Part, result| losses.told(Instant::from_secs(at), part.words("wl0"), result);
        let lines: Vec<String> = (0..=60).filter_map(|at| told(at, Part::PolicyRules, Ok(())).1).collect();
        assert!(lines.len() == 2 && lines[1].ends_with("(59 changes before were not logged)"), "{lines:?}");
        assert!(matches!(told(61, Part::Routes, Ok(())), ("state_put_back", Some(_))), "another part");
        let (count, line) = told(61, Part::PolicyRules, Err("no".into()));
        assert!(count == "state_missing" && line.is_some_and(|line| line.contains("cannot be put back")));
    }

    #[test]
    fn a_lane_that_flaps_fills_no_log_and_its_last_state_is_told() {
        let mut changes = Changes::new(Instant::ZERO, true);
        let at = Instant::from_secs;
        let told: Vec<_> = (1..=100).filter_map(|s| changes.turn(at(s), s % 2 == 0).map(|n| (s, n))).collect();
        assert_eq!(told[..6], [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)]);
        assert!((7..10).contains(&told.len()) && told[6..].iter().all(|(_, unsaid)| *unsaid > 0), "{told:?}");
        let last = (101..200).filter_map(|s| changes.turn(at(s), false).map(|_| s)).count();
        assert!(last <= 1);
        assert_eq!(changes.turn(at(300), false), None);
        assert!(!changes.said);
    }
}
