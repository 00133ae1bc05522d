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
use crate::elsewhere::{Travel, read};
use crate::runner::Runner;
use crate::{Setup, StudyError, StudyOptions};
use draw::{Draw, Set};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use store::{Seen, Store};
use wavelane_base::Seed;
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
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
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
        if options.elsewhere.is_some() {
            let why = "part lab takes the time of this machine: leave out --on-cluster, or --part lab";
            return Err(RunError::Refused(why.into()).into());
        }
        rows.extend(lab::run(options, hooks, &store, numbers)?.rows);
        return Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows));
    }
    // A set's draws begin at the same place as the family's: those before are for tuning.
    let further = if full { FULL_SET } else { QUICK_SET };
    let first = *QUICK.start();
    let sets = [Set::Deep, Set::Radio].into_iter().flat_map(|set| (0..further).map(move |n| set.before() + first + n));
    let numbers = numbers.chain(sets.filter(|_| options.draws.is_none()));
    let draws: Vec<Draw> = numbers.map(|number| draw::draw(options.seed, number)).collect();
    let runner = Runner { what: "links", workers: options.workers(), hooks };
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
    let travel = Travel {
        study: ID,
        batch: 1,
        pack: &|draw: &Draw| {
            let text = draw.scenario(&STACKS);
            let kept = (0..=AGAIN).flat_map(|n| store.kept(draw, &text, draw.dice + n)).collect();
            let stacks = stacks.iter().map(|stack| (*stack).to_owned()).collect();
            json!(Task::Link { family: draw.family.0, draw: draw.number, stacks, kept })
        },
        unpack: &|draw, value| {
            let member = store.take(draw, read(value)?)?;
            tell(options, &member);
            Ok(member)
        },
    };
    let members = runner.run_anywhere(options.elsewhere.as_ref(), &draws, Draw::cost, found, work, &travel)?;
    let rows = judge::rows(&members);
    rows.iter().filter(|row| row.case.is_empty()).for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
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
    fn run(&self, draw: &Draw, stacks: &[&str], hooks: &RunHooks<'_>) -> Result<Member, StudyError> {
        let text = draw.scenario(&STACKS);
        self.write_scenario(draw, &text)?;
        let simulate =
            |stack: &str, dice| Ok(self.keyed(Seen::simulate(draw, &text, stack, dice, hooks.cancelled)?, &text));
        Member::run(draw, stacks, |dice| self.kept(draw, &text, dice), |seen| self.keep(draw, seen), simulate)
    }

    /// Keeps what a worker ran of a member.
    fn take(&self, draw: &Draw, ran: Vec<Vec<Seen>>) -> Result<Member, StudyError> {
        let text = draw.scenario(&STACKS);
        self.write_scenario(draw, &text)?;
        let mut runs = ran.into_iter().map(|seen| seen.into_iter().map(|seen| self.keyed(seen, &text)).collect());
        let member = Member { draw: draw.clone(), seen: runs.next().unwrap_or_default(), again: runs.collect() };
        for seen in std::iter::once(&member.seen).chain(&member.again) {
            self.keep(draw, seen)?;
        }
        Ok(member)
    }
}

/// A member as it travels.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// What is not kept of a draw, with what is.
    Link { family: u64, draw: u64, stacks: Vec<String>, kept: Vec<Seen> },
    /// A draw with this many lanes.
    Lanes { family: u64, draw: u64, lanes: usize },
}

/// What becomes of a member.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Done {
    Link(Vec<Vec<Seen>>),
    Lanes(Vec<Vec<f64>>),
}

/// Runs a member on a worker.
pub(crate) fn work(task: Task, cancelled: &AtomicBool) -> Result<Done, StudyError> {
    match task {
        Task::Link { family, draw, stacks, kept } => {
            let draw = draw::draw(Seed(family), draw);
            let text = draw.scenario(&STACKS);
            let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
            let of = |dice: u64| kept.iter().filter(|seen| seen.dice == dice).cloned().collect();
            let simulate = |stack: &str, dice| Seen::simulate(&draw, &text, stack, dice, cancelled);
            let member = Member::run(&draw, &stacks, of, |_| Ok(()), simulate)?;
            Ok(Done::Link(std::iter::once(member.seen).chain(member.again).collect()))
        }
        Task::Lanes { family, draw, lanes } => lanes::work(Seed(family), draw, lanes, cancelled).map(Done::Lanes),
    }
}

impl Member {
    /// Simulates what is not kept of a draw.
    fn run(
        draw: &Draw,
        stacks: &[&str],
        kept: impl Fn(u64) -> Vec<Seen>,
        keep: impl Fn(&[Seen]) -> Result<(), StudyError>,
        simulate: impl Fn(&str, u64) -> Result<Seen, StudyError>,
    ) -> Result<Self, StudyError> {
        let whole = |dice: u64| -> Result<Vec<Seen>, StudyError> {
            let mut seen = kept(dice);
            for stack in stacks {
                if !seen.iter().any(|s| s.stack == *stack) {
                    seen.push(simulate(stack, dice)?);
                    keep(&seen)?;
                }
            }
            Ok(seen)
        };
        let mut member = Self { draw: draw.clone(), seen: whole(draw.dice)?, again: Vec::new() };
        if member.is_bad() {
            member.again = (1..=AGAIN).map(|n| whole(draw.dice + n)).collect::<Result<_, _>>()?;
        }
        Ok(member)
    }

    fn is_bad(&self) -> bool {
        judge::ratio(&self.seen).is_some_and(|ratio| ratio < AGAIN_BELOW)
    }
}

#[cfg(test)]
mod tests;
