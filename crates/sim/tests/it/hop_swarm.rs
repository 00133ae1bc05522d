//! Meshes that the seed draws: `wavelane study run hop-swarm` runs many more.
//!
//! `WAVELANE_SWARM_SEEDS=1000` runs more seeds, `WAVELANE_SWARM_FIRST=17 WAVELANE_SWARM_SEEDS=1` replays one.

use crate::swarm::number;
use wavelane_sim::swarm::{Outcome, Plan};

/// Seeds tried when nothing is asked for; bounded so that a run takes seconds.
const SEEDS: u64 = 40;

#[test]
fn meshes_with_faults_keep_every_byte_and_finish() {
    let (first, count) = (number("WAVELANE_SWARM_FIRST", 1), number("WAVELANE_SWARM_SEEDS", SEEDS));
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

#[test]
fn a_plan_runs_the_same_twice() {
    let plan = Plan::draw(3);
    assert_eq!(plan, Plan::draw(3));
    assert_eq!(plan.run(), plan.run());
}
