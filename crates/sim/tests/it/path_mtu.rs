//! Links whose paths come to drop large packets while they are in use, and tell nobody.

use crate::common::{Direction, direction, secs};
use crate::lanes::{Ways, World, both_ways};
use wavelane_base::{Instant, Octets, Span};
use wavelane_channel::{CableConfig, Parameter};
use wavelane_sim::Work;

/// When the paths begin to drop large packets, and the end.
const FALLS: u64 = 10;
const END: u64 = 50;

/// What an upload and its echo gave after the fall.
#[derive(Debug)]
struct Got {
    /// Octets of the upload.
    octets: u64,
    /// The 95th percentile of the echo's round trips, and the longest.
    p95: Span,
    longest: Span,
    /// The longest time without an octet of the upload.
    pause: Span,
}

/// An upload with an echo beside it over `cables`, whose path MTUs become `limits`.
fn carry(seed: u64, cables: &[(CableConfig, Ways)], limits: &[Option<u64>]) -> Got {
    let mut world = World::new(seed, cables);
    let up = world.add(Work::Upload(None));
    let echo = world.add(Work::Echo { every: Span::from_millis(50), random: false, size: 64, during: None });
    world.engine.run_until(secs(FALLS));
    for (cable, limit) in world.cables.clone().into_iter().zip(limits) {
        for way in Direction::BOTH {
            world.engine.set(cable, way, Parameter::Mtu(limit.map(Octets::new))).unwrap();
        }
    }
    let (start, mut last, mut pause) = (world.engine.log(up).octets, (0, secs(FALLS)), Span::ZERO);
    for at in (FALLS * 1_000..=END * 1_000).step_by(10).map(Instant::from_millis) {
        world.engine.run_until(at);
        let octets = world.engine.log(up).octets;
        if octets > last.0 {
            (last, pause) = ((octets, at), pause.max(at.since(last.1)));
        }
    }
    let pause = pause.max(secs(END).since(last.1));
    world.engine.run_until(secs(END + 5));
    let asked = world.engine.log(echo).questions.iter().filter(|q| q.due >= secs(FALLS) && q.due < secs(END));
    let mut trips: Vec<Span> = asked.map(|q| q.answered.unwrap_or(secs(END + 5)).since(q.due)).collect();
    trips.sort_unstable();
    let longest = trips[trips.len() - 1];
    Got { octets: last.0 - start, p95: trips[trips.len() * 95 / 100], longest, pause }
}

/// The lane is left to what still passes, and costs the other nothing, whichever of the two it is.
#[test]
fn a_lane_that_comes_to_drop_large_packets_costs_the_other_nothing() {
    let lane = |mbit| both_ways(direction(mbit, 20, mbit * 12_500));
    for limit in [100, 300, 500, 575] {
        for (cables, falls) in [([4, 2], 1), ([2, 4], 0), ([4, 2], 0), ([2, 4], 1)] {
            let rest = lane(cables[1 - falls]);
            for seed in 1..=3 {
                let mut limits = [None; 2];
                limits[falls] = Some(limit);
                let alone = carry(seed, &[rest.clone()], &[None]);
                let both = carry(seed, &cables.map(lane), &limits);
                let share = both.octets as f64 / alone.octets as f64;
                let told = format!(
                    "{limit} B on the lane {falls} of {cables:?} Mbit/s, seed {seed}: {share:.3}; echo {} of {}, longest {}",
                    both.p95, alone.p95, both.longest
                );
                println!("{told}; {both:?}");
                assert!(share >= 0.98, "{told}");
                assert!(both.p95 <= alone.p95.scale(11, 10) + Span::from_millis(5), "{told}");
            }
        }
    }
}

#[test]
fn two_lanes_that_come_to_carry_less_each() {
    let lane = |mbit| both_ways(direction(mbit, 20, mbit * 12_500));
    for limits in [[576, 1_000], [1_000, 576], [1_000, 1_000], [576, 576], [1_300, 900]] {
        for cables in [[4, 2], [2, 4], [4, 4]] {
            for seed in 1..=3 {
                let both = carry(seed, &cables.map(lane), &limits.map(Some));
                println!("{limits:?} B on lanes of {cables:?} Mbit/s, seed {seed}: {both:?}");
            }
        }
    }
}
