//! Links whose paths come to drop large packets while they are in use, and tell nobody.

use crate::common::{Direction, direction, secs};
use crate::lanes::{Ways, World, both_ways};
use crate::swarm::cases;
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
            pause = pause.max(at.since(last.1));
            last = (octets, at);
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

/// The better of lanes that were limited each, alone.
fn better(seed: u64, cables: &[(CableConfig, Ways)], limits: &[Option<u64>]) -> Got {
    let alone = cables.iter().zip(limits).map(|(cable, limit)| carry(seed, std::slice::from_ref(cable), &[*limit]));
    alone.max_by_key(|got| got.octets).unwrap()
}

/// The guarantee of any set of lanes.
fn check(told: &str, both: &Got, alone: &Got) {
    let share = both.octets as f64 / alone.octets as f64;
    println!(
        "{told}: {share:.3} of {} octets; echo p95 {} beside {}, longest {}; pause {}",
        alone.octets, both.p95, alone.p95, both.longest, both.pause
    );
    assert!(share >= 0.98, "{told}: {share:.3}");
    assert!(both.p95 <= alone.p95.scale(11, 10) + Span::from_millis(5), "{told}: {both:?} beside {alone:?}");
    assert!(both.longest.max(both.pause) < Span::from_millis(1_500), "{told}: {both:?}");
}

fn lane(mbit: u64) -> (CableConfig, Ways) {
    both_ways(direction(mbit, 20, mbit * 12_500))
}

/// The lane is left to what still passes, and costs the other nothing, whichever of the two it is.
#[test]
fn a_lane_that_comes_to_drop_all_large_packets_costs_the_other_nothing() {
    for &(seed, limit) in cases(&[(1, 100), (3, 575), (2, 300)], 2) {
        for &(rest, gone) in cases(&[(4, 2), (2, 4)], 1) {
            let alone = carry(seed, &[lane(rest)], &[None]);
            for first in [false, true] {
                let (mut cables, mut limits) = ([lane(rest), lane(gone)], [None, Some(limit)]);
                if first {
                    cables.reverse();
                    limits.reverse();
                }
                let told = format!("{limit} B on {gone} beside {rest} Mbit/s, first {first}, seed {seed}");
                check(&told, &carry(seed, &cables, &limits), &alone);
            }
        }
    }
}

/// Both paths shrink at once, to less than is used unproven.
#[test]
fn two_lanes_that_come_to_carry_less_carry_more_than_one() {
    for &limits in cases(&[[576, 1_000], [1_300, 900], [1_000, 576]], 2) {
        for &mbit in cases(&[[4, 2], [4, 4]], 1) {
            let (cables, limits) = (mbit.map(lane), limits.map(Some));
            let told = format!("{limits:?} B on {mbit:?} Mbit/s");
            check(&told, &carry(1, &cables, &limits), &better(1, &cables, &limits));
        }
    }
}

/// A lane alone carries little until the black hole is found, and has its rate soon after.
#[test]
fn a_lane_alone_has_its_rate_again_within_seconds() {
    for &limit in cases(&[576, 1_400, 600, 1_000], 2) {
        let got = carry(1, &[lane(4)], &[Some(limit)]);
        // Of each packet 63 octets are headers (docs/protocol/wire.md).
        let most = 4_000_000 / 8 * (END - FALLS) * (limit - 63) / limit;
        let share = got.octets as f64 / most as f64;
        println!("{limit} B: {share:.3} of {most} octets, pause {}", got.pause);
        assert!(share >= 0.9 && got.pause <= Span::from_millis(2_500), "{limit} B: {share:.3}, {got:?}");
    }
}
