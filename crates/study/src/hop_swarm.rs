//! Random meshes with random faults: despite loss, duplication, partitions and crashes every byte arrives once and in order, or
//! the application gets an error.

use crate::document::{Edition, Row, StudyDocument};
use crate::elsewhere::{Travel, read};
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{Setup, StudyError};
use serde_json::json;
use wavelane_base::Span;
use wavelane_run::{RunError, Verdict};
use wavelane_sim::swarm::{Failure, HEALING, Outcome, Plan};

/// The study's id.
pub(crate) const ID: &str = "hop-swarm";
/// Worlds by edition, and beside them those with a lying relay.
const QUICK: [u64; 2] = [500, 125];
const FULL: [u64; 2] = [10_000, 2_500];
/// Worlds of a batch that travels: a worker has them for some seconds.
const BATCH: usize = 50;
/// Most worlds at once, and the distance of two families.
const DRAWS_MAX: u64 = 1_000_000;
/// Worlds above this number are sealed and have a relay that lies.
const LYING: u64 = DRAWS_MAX;

/// The worlds of an edition.
fn numbers(edition: Edition) -> Vec<u64> {
    let [honest, lying] = if edition == Edition::Full { FULL } else { QUICK };
    (1..=honest).chain(LYING + 1..=LYING + lying).collect()
}

/// World `number` of a family.
fn world(family: u64, number: u64) -> Plan {
    match number.checked_sub(LYING) {
        Some(lying @ 1..) => Plan::draw_lying(family.wrapping_add(lying)),
        _ => Plan::draw(family.wrapping_add(number)),
    }
}

/// What became of one world.
type World = (u64, Result<Outcome, Box<Failure>>);

/// An outcome as it is kept, times in nanoseconds.
fn in_figures(outcome: &Outcome) -> [u64; 9] {
    let Outcome { complete, refused, reset, deceived, caught, resumed, moved, longest, simulated } = *outcome;
    [complete, refused, reset, deceived, caught, resumed, moved, longest.as_nanos(), simulated.as_nanos()]
}

fn of_figures([complete, refused, reset, deceived, caught, resumed, moved, longest, simulated]: [u64; 9]) -> Outcome {
    let [longest, simulated] = [longest, simulated].map(Span::from_nanos);
    Outcome { complete, refused, reset, deceived, caught, resumed, moved, longest, simulated }
}

/// Runs a world of a family on a worker: what came out, or nothing if something is wrong.
pub(crate) fn work((family, number): (u64, u64)) -> Result<Option<[u64; 9]>, StudyError> {
    Ok(world(family, number).run().ok().as_ref().map(in_figures))
}

/// Runs the edition's worlds and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let numbers = match &options.draws {
        Some(draws)
            if draws.is_empty() || *draws.end() > LYING + DRAWS_MAX || draws.end() - draws.start() > DRAWS_MAX =>
        {
            let why = format!(
                "--draws {}..{}: name draws from 1 to {DRAWS_MAX}, with a malicious relay from {} to {}",
                draws.start(),
                draws.end(),
                LYING + 1,
                LYING + DRAWS_MAX
            );
            return Err(RunError::Refused(why).into());
        }
        Some(draws) => draws.clone().collect(),
        None => numbers(options.edition),
    };
    let family = options.seed.0.saturating_sub(1).wrapping_mul(DRAWS_MAX);
    let runner = Runner { what: "networks", workers: options.workers(), hooks };
    let kept = Kept::open(options, ID);
    let told = |world: World| {
        failed_row(options.seed.0, &world).iter().for_each(options.row);
        // A failed world is run again, for a full report.
        if let Ok(outcome) = &world.1 {
            kept.put(&world.0.to_string(), in_figures(outcome));
        }
        world
    };
    let work = |number: &u64| Ok(told((*number, world(family, *number).prove())));
    let travel = Travel {
        study: ID,
        batch: BATCH,
        pack: &|number| json!([family, number]),
        unpack: &|number, value| match read::<Option<[u64; 9]>>(value)? {
            Some(figures) => Ok(told((*number, Ok(of_figures(figures))))),
            // What is wrong is made smaller, and told, here.
            None => work(number),
        },
    };
    let found = |number: &u64| Some((*number, Ok(of_figures(kept.get(&number.to_string())?))));
    let worlds = runner.run_anywhere(options.elsewhere.as_ref(), &numbers, |_| 1.0, found, work, &travel)?;
    let rows = rows(options.seed.0, &worlds);
    rows.iter().filter(|row| row.case.is_empty()).for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

fn row(metric: &str, unit: &str, value: f64, n: usize) -> Row {
    Row { value: Some(value), n: n as u64, ..Row::new(ID, "sim", "wavelane", metric, unit) }
}

/// A world in which something is wrong, and the command that shows it again.
fn failed_row(seed: u64, (number, world): &World) -> Option<Row> {
    let failure = world.as_ref().err()?;
    let mut row = row("world", "worlds", 1.0, 1);
    row.case.insert("draw".into(), (*number).into());
    row.verdict = Verdict::Fail;
    row.why = format!(
        "{}; wavelane study run {ID} --seed {seed} --draws {number}..{number}; smallest world: {}; {}",
        failure.why, failure.smallest_why, failure.smallest,
    );
    Some(row)
}

/// All rows: the claims over all worlds first.
fn rows(seed: u64, worlds: &[World]) -> Vec<Row> {
    let good: Vec<&Outcome> = worlds.iter().filter_map(|(_, world)| world.as_ref().ok()).collect();
    let sum = |what: fn(&Outcome) -> u64| good.iter().map(|outcome| what(outcome)).sum::<u64>() as f64;
    let failed = worlds.len() - good.len();
    let mut claim = row("worlds_failed", "worlds", failed as f64, worlds.len()).bound_by(0.0);
    claim.verdict = if failed == 0 { Verdict::Pass } else { Verdict::Fail };
    claim.why = format!("{failed} of {} worlds; none may", worlds.len());
    let longest = good.iter().map(|outcome| outcome.longest).max().unwrap_or_default();
    let mut ended = row("healed_to_ended_ms_max", "ms", longest.as_millis() as f64, good.len())
        .bound_by(HEALING.as_millis() as f64);
    ended.verdict = if longest <= HEALING { Verdict::Pass } else { Verdict::Fail };
    ended.why =
        "from the repair, or the last reader's pause if that ends later, to the end of a world's last flow".into();
    let told = [
        ("flows_complete", "flows", sum(|o| o.complete), "ended with everything they asked for"),
        ("flows_refused", "flows", sum(|o| o.refused), "refused for want of a path or of room before they began"),
        ("flows_reset", "flows", sum(|o| o.reset), "a gateway at one end had lost its memory"),
        (
            "flows_deceived",
            "flows",
            sum(|o| o.deceived),
            "reset or refused because only the malicious relay connects their ends",
        ),
        ("lies_caught", "manipulations", sum(|o| o.caught), "manipulations that an edge of a sealed flow detected"),
        ("flows_resumed", "times", sum(|o| o.resumed), "times that an edge resumed a flow"),
        ("flows_moved", "times", sum(|o| o.moved), "times that a flow moved to another path"),
    ];
    let told = told
        .into_iter()
        .map(|(metric, unit, value, why)| Row { why: why.into(), ..row(metric, unit, value, good.len()) });
    let failures = worlds.iter().filter_map(|world| failed_row(seed, world));
    [claim, ended].into_iter().chain(told).chain(failures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_world_is_the_world() {
        let (longest, simulated) = (Span::from_millis(6), Span::from_millis(7));
        let (deceived, caught) = (8, 9);
        let outcome =
            Outcome { complete: 1, refused: 2, reset: 3, deceived, caught, resumed: 4, moved: 5, longest, simulated };
        assert_eq!(in_figures(&outcome), [1, 2, 3, 8, 9, 4, 5, 6_000_000, 7_000_000]);
        assert_eq!(in_figures(&of_figures(in_figures(&outcome))), in_figures(&outcome));
    }

    #[test]
    fn worlds_with_a_lying_relay_have_numbers_of_their_own() {
        assert_eq!(world(0, 7), Plan::draw(7));
        assert_eq!(world(0, LYING), Plan::draw(LYING));
        assert_eq!(world(0, LYING + 7), Plan::draw_lying(7));
        assert_eq!(numbers(Edition::Quick).len(), 625);
        assert!(world(0, LYING + 7).liar.is_some() && world(0, LYING + 7).mesh.seal);
    }

    #[test]
    fn a_world_that_fails_fails_the_study_and_names_its_replay() {
        let good = |longest| Ok(Outcome { complete: 3, longest: Span::from_secs(longest), ..Outcome::default() });
        let all = rows(1, &[(1, good(2)), (2, good(5))]);
        assert!(all[..2].iter().all(|row| row.verdict == Verdict::Pass) && all[1].value == Some(5_000.0));
        assert_eq!((all[2].value, all.len()), (Some(6.0), 9));
        let units: Vec<(&str, &str)> = all[2..].iter().map(|row| (row.metric.as_str(), row.unit.as_str())).collect();
        assert_eq!(
            units[3..],
            [
                ("flows_deceived", "flows"),
                ("lies_caught", "manipulations"),
                ("flows_resumed", "times"),
                ("flows_moved", "times")
            ]
        );
        let failure = Failure { why: "a wrong byte".into(), smallest: Plan::draw(7), smallest_why: "the same".into() };
        let all = rows(4, &[(1, good(2)), (7, Err(Box::new(failure)))]);
        assert_eq!((all[0].verdict, all[0].value), (Verdict::Fail, Some(1.0)));
        let last = &all[all.len() - 1];
        assert!(
            last.why.starts_with("a wrong byte; wavelane study run hop-swarm --seed 4 --draws 7..7;"),
            "{}",
            last.why
        );
    }
}
