//! A population of random links: each member is drawn by chance, and carries the same traffic through the
//! gateways and over three plain TCPs.

mod draw;
mod judge;
mod lab;
mod lanes;
pub(crate) mod page;
mod store;
mod text;

use crate::document::{Edition, StudyDocument};
use crate::runner::Runner;
use crate::{MakeBackend, StudyError, StudyOptions};
use draw::{Draw, Set};
use std::ops::RangeInclusive;
pub(crate) use store::simulate;
use store::{Seen, Store};
use wavelane_run::{RunError, RunHooks};

/// The study's id.
pub(crate) const ID: &str = "link-population";
/// What is judged, and what it is judged by.
const OURS: &str = "wavelane";
const BBR: &str = "tcp-bbr";
pub(crate) const STACKS: [&str; 4] = [OURS, "tcp-cubic", BBR, "tcp-bbr3"];
/// The part that runs members in the laboratory too. It is run only if it is named.
const LAB: &str = "lab";
/// The part whose members have several lanes. It is run only if it is named.
const LANES: &str = "lanes";
pub(crate) const PARTS: [&str; 2] = [LAB, LANES];
/// Members by edition. Those before are for tuning.
const QUICK: RangeInclusive<u64> = 1_001..=1_100;
const FULL: RangeInclusive<u64> = 1_001..=3_000;
/// Of each further set.
const QUICK_SET: u64 = 20;
const FULL_SET: u64 = 200;
/// Most members at once.
const DRAWS_MAX: u64 = 100_000;
/// A member on which we are below this ratio is run again with this many other dice.
const AGAIN_BELOW: f64 = 0.85;
const AGAIN: u64 = 5;

/// A member with what the stacks made of it, and again with other dice if it was bad.
struct Member {
    draw: Draw,
    seen: Vec<Seen>,
    again: Vec<Vec<Seen>>,
}

/// Runs the members and judges the family.
pub(crate) fn run(
    _make: &MakeBackend<'_>,
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<StudyDocument, StudyError> {
    let full = options.edition == Edition::Full;
    let numbers = options.draws.clone().unwrap_or(if full { FULL } else { QUICK });
    let many = numbers.end().saturating_sub(*numbers.start());
    if numbers.is_empty() || many >= DRAWS_MAX {
        let why = format!("--draws {}..{}: name 1 to {DRAWS_MAX} draws", numbers.start(), numbers.end());
        return Err(RunError::Refused(why).into());
    }
    let named = |part: &str| options.parts.iter().any(|name| name == part);
    let mut rows = if named(LANES) { lanes::run(options, hooks)? } else { Vec::new() };
    if named(LANES) && !named(LAB) {
        return Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows));
    }
    let stacks: Vec<&'static str> =
        STACKS.into_iter().filter(|s| options.stacks.is_empty() || options.stacks.iter().any(|o| o == s)).collect();
    let folder = |out: &std::path::Path| out.join(ID);
    let others = options.reuse.iter().map(|out| folder(out)).collect();
    let store = Store::open(folder(&options.out), others, &STACKS, hooks.cancelled)?;
    if named(LAB) {
        rows.extend(lab::run(options, hooks, &store, numbers)?.rows);
        return Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows));
    }
    // A set's draws begin at the same place as the family's: those before are for tuning.
    let further = if full { FULL_SET } else { QUICK_SET };
    let first = *QUICK.start();
    let sets = [Set::Deep, Set::Radio].into_iter().flat_map(|set| (0..further).map(move |n| set.before() + first + n));
    let numbers = numbers.chain(sets.filter(|_| options.draws.is_none()));
    let draws: Vec<Draw> = numbers.map(|number| draw::draw(options.seed, number)).collect();
    let runner = Runner { what: "links", workers: options.jobs.unwrap_or_else(processors), hooks };
    let found = |draw: &Draw| {
        let member = store.member(draw, &stacks)?;
        tell(options, &member);
        Some(member)
    };
    let work = |draw: &Draw| {
        let member = store.run(draw, &stacks, hooks)?;
        tell(options, &member);
        Ok(member)
    };
    let members = runner.run(&draws, Draw::cost, found, work)?;
    let rows = judge::rows(&members);
    rows.iter().filter(|row| row.case.is_empty()).for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A member as a line: how it ended.
fn tell(options: &StudyOptions, member: &Member) {
    if let Some(row) = judge::ratio_row(member) {
        (options.row)(&row);
    }
}

impl Store {
    /// The stacks' results on a draw with some dice, as far as they are kept: also of those that are not to be run.
    fn kept(&self, draw: &Draw, text: &str, dice: u64) -> Vec<Seen> {
        STACKS.iter().filter_map(|stack| self.find(draw, text, stack, dice)).collect()
    }

    /// A member whose results are all kept.
    fn member(&self, draw: &Draw, stacks: &[&str]) -> Option<Member> {
        let text = draw.scenario(&STACKS);
        let whole = |dice: u64| {
            let seen = self.kept(draw, &text, dice);
            stacks.iter().all(|stack| seen.iter().any(|s| s.stack == *stack)).then_some(seen)
        };
        let mut member = Member { draw: draw.clone(), seen: whole(draw.dice)?, again: Vec::new() };
        if member.is_bad() {
            member.again = (1..=AGAIN).map(|n| whole(draw.dice + n)).collect::<Option<_>>()?;
        }
        Some(member)
    }

    /// Runs what is not kept of a member.
    fn run(&self, draw: &Draw, stacks: &[&'static str], hooks: &RunHooks<'_>) -> Result<Member, StudyError> {
        let text = draw.scenario(&STACKS);
        self.write_scenario(draw, &text)?;
        let whole = |dice: u64| -> Result<Vec<Seen>, StudyError> {
            let mut seen = self.kept(draw, &text, dice);
            for stack in stacks {
                if !seen.iter().any(|s| s.stack == *stack) {
                    seen.push(self.simulate(draw, &text, stack, dice, hooks.cancelled)?);
                    self.keep(draw, &seen)?;
                }
            }
            Ok(seen)
        };
        let mut member = Member { draw: draw.clone(), seen: whole(draw.dice)?, again: Vec::new() };
        if member.is_bad() {
            member.again = (1..=AGAIN).map(|n| whole(draw.dice + n)).collect::<Result<_, _>>()?;
        }
        Ok(member)
    }
}

impl Member {
    fn is_bad(&self) -> bool {
        judge::ratio(&self.seen).is_some_and(|ratio| ratio < AGAIN_BELOW)
    }
}

#[cfg(test)]
mod tests;
