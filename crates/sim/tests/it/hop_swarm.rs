//! Meshes that the seed draws: in `make test-all` as many as `wavelane study run hop-swarm --quick`, in `make test` an eighth of them.
//!
//! `WAVELANE_SWARM_SEEDS=1000` runs more seeds, `WAVELANE_SWARM_FIRST=17 WAVELANE_SWARM_SEEDS=1` replays one.

use crate::swarm::{all, number};
use wavelane_sim::swarm::{Outcome, Plan};

/// Seeds of `make test-all`: the study's quick edition, half a minute of one processor.
const SEEDS: u64 = 500;
/// The same with a relay that lies.
const LYING: u64 = 125;
/// The part of them that `make test` tries.
const SHORT: u64 = 8;

/// `seeds`, or the short edition of so many.
fn seeds(seeds: u64) -> u64 {
    if all() { seeds } else { seeds / SHORT }
}

#[test]
fn meshes_with_faults_keep_every_byte_and_finish() {
    let (first, count) = (number("WAVELANE_SWARM_FIRST", 1), number("WAVELANE_SWARM_SEEDS", seeds(SEEDS)));
    let mut sum = Outcome::default();
    for seed in first..first + count {
        let outcome = Plan::draw(seed).prove().unwrap_or_else(|failure| {
            panic!(
                "seed {seed}: {}\nreplay: WAVELANE_SWARM_FIRST={seed} WAVELANE_SWARM_SEEDS=1 cargo test -p wavelane-sim \
                 --test it hop_swarm\nsmallest plan that fails ({}): {}",
                failure.why, failure.smallest_why, failure.smallest
            )
        });
        sum.complete += outcome.complete;
        sum.resumed += outcome.resumed;
        sum.moved += outcome.moved;
    }
    // Faults must be met for the rest to mean anything.
    assert!(count < SEEDS || sum.resumed > 0 && sum.moved > 0 && sum.complete > count, "{sum:?}");
}

/// The same worlds with every flow sealed and a relay that lies: `WAVELANE_SWARM_LYING=1000` runs more.
#[test]
fn sealed_flows_get_past_a_lying_relay_or_fail_clearly() {
    let (first, count) = (number("WAVELANE_SWARM_FIRST", 1), number("WAVELANE_SWARM_LYING", seeds(LYING)));
    let mut sum = Outcome::default();
    let mut failed = Vec::new();
    for seed in first..first + count {
        match Plan::draw_lying(seed).run() {
            Ok(outcome) => {
                sum.complete += outcome.complete;
                sum.caught += outcome.caught;
                sum.deceived += outcome.deceived;
            }
            Err(why) => {
                eprintln!("seed {seed}: {why}");
                failed.push(seed);
            }
        }
    }
    if let Some(seed) = failed.first() {
        let (why, smallest) = match Plan::draw_lying(*seed).prove() {
            Err(failure) => (failure.smallest_why, failure.smallest),
            Ok(_) => panic!("seed {seed} fails at random"),
        };
        panic!(
            "seeds {failed:?}\nreplay: WAVELANE_SWARM_FIRST={seed} WAVELANE_SWARM_LYING=1 cargo test -p wavelane-sim --test it \
             lying_relay\nsmallest plan of the first that fails ({why}): {smallest}"
        );
    }
    assert!(count < LYING || sum.caught > 0 && sum.deceived > 0 && sum.complete > count, "{sum:?}");
    eprintln!("{sum:?}");
}

#[test]
fn a_plan_runs_the_same_twice() {
    let plan = Plan::draw(3);
    assert_eq!(plan, Plan::draw(3));
    assert_eq!(plan.run(), plan.run());
}
