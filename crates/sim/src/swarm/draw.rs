//! What a seed's world is made of.

use super::{Crash, Plan, PlannedFlow};
use crate::faults::{Deed, Lie};
use crate::mesh::{MeshLink, MeshSpec};
use crate::traffic::Work;
use wavelane_base::{Chance, Instant, Octets, Rate, Ratio, Seed, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, PerUnit, QueueLimit, Reorder};
use wavelane_scenario::Routing;

/// Gateways.
const NODES: [u64; 2] = [2, 12];
/// Exchanges, beside the one that follows the healing.
const FLOWS_MAX: u64 = 6;
/// Bytes of a transfer.
const SIZE_MAX: u64 = 400_000;
/// While faults last, usually and in one world of eight.
const FAULTY: [Span; 2] = [Span::from_secs(20), Span::from_secs(150)];

/// A log-uniform number between `low` and `high`, so that small values are as common as large ones.
fn spread(dice: &mut Chance, low: u64, high: u64) -> u64 {
    let octaves = u64::from((high / low).ilog2()) + 1;
    let base = low << dice.below(octaves);
    (base + dice.below(base)).clamp(low, high)
}

fn one_in(dice: &mut Chance, n: u64) -> bool {
    dice.below(n) == 0
}

fn percent(dice: &mut Chance, below: u64) -> Ratio {
    Ratio::new(dice.below(below) as u32, 100).unwrap_or(Ratio::ZERO)
}

fn millis(dice: &mut Chance, low: u64, high: u64) -> Span {
    Span::from_millis(spread(dice, low, high))
}

fn loss(dice: &mut Chance) -> LossConfig {
    match dice.below(3) {
        0 => LossConfig::None,
        1 => LossConfig::Random { p: percent(dice, 20) },
        _ => LossConfig::GilbertElliott {
            good: millis(dice, 50, 2_000),
            bad: millis(dice, 1, 100),
            in_good: Ratio::ZERO,
            in_bad: Ratio::ONE,
            per: PerUnit::Packet,
        },
    }
}

fn direction(dice: &mut Chance) -> DirectionConfig {
    let reorder = match dice.below(2) {
        0 => Reorder::default(),
        _ => Reorder { p: percent(dice, 20), extra: millis(dice, 1, 50) },
    };
    DirectionConfig {
        rate: Some(Rate::from_bps(spread(dice, 1_000_000, 50_000_000))),
        delay: millis(dice, 1, 80),
        jitter: Span::from_millis(dice.below(20)),
        queue: QueueLimit::Octets(Octets::new(spread(dice, 15_000, 500_000))),
        loss: loss(dice),
        duplicate: percent(dice, 5),
        corrupt: percent(dice, 3),
        reorder,
        ..DirectionConfig::default()
    }
}

/// Every node is joined to an earlier one; some more cables make further paths.
fn joined(dice: &mut Chance, nodes: usize) -> Vec<[usize; 2]> {
    let mut joined: Vec<[usize; 2]> = (1..nodes).map(|node| [dice.below(node as u64) as usize, node]).collect();
    for _ in 0..dice.below(nodes as u64 + 1) {
        let (a, b) = (dice.below(nodes as u64) as usize, dice.below(nodes as u64) as usize);
        let pair = [a.min(b), a.max(b)];
        if a != b && !joined.contains(&pair) {
            joined.push(pair);
        }
    }
    joined
}

fn work(dice: &mut Chance) -> Work {
    match dice.below(5) {
        0 | 1 => Work::Download(Some(spread(dice, 1, SIZE_MAX))),
        2 | 3 => Work::Upload(Some(spread(dice, 1, SIZE_MAX))),
        _ => Work::Echo { every: millis(dice, 20, 1_000), random: false, size: spread(dice, 1, 4_096), during: None },
    }
}

pub(super) fn plan(seed: u64) -> Plan {
    let mut dice = Seed(seed).chance("hop swarm");
    let nodes = (NODES[0] + dice.below(NODES[1] - NODES[0] + 1)) as usize;
    let links = joined(&mut dice, nodes).into_iter().map(|between| MeshLink {
        between,
        config: CableConfig { forward: direction(&mut dice), reverse: direction(&mut dice) },
    });
    let links = links.collect();
    let routing = if one_in(&mut dice, 2) { Routing::Etx } else { Routing::Shortest };
    let pool = Octets::new(spread(&mut dice, 1 << 20, 16 << 20));
    let flows_max = spread(&mut dice, 16, 4_096) as usize;
    let faulty = if one_in(&mut dice, 8) { FAULTY[1] } else { FAULTY[0] };
    let healed = Instant::ZERO + faulty;
    let within = |dice: &mut Chance| Instant::ZERO + Span::from_millis(dice.below(faulty.as_millis()));
    let flows = (0..1 + dice.below(FLOWS_MAX)).map(|_| {
        let from = dice.below(nodes as u64);
        let to = (from + 1 + dice.below(nodes as u64 - 1)) % nodes as u64;
        let start = Instant::ZERO + Span::from_millis(dice.below(10_000));
        let pauses = one_in(&mut dice, 4);
        let pause = pauses.then(|| {
            let begin = start + millis(&mut dice, 100, 5_000);
            (begin, begin + millis(&mut dice, 500, 30_000))
        });
        PlannedFlow { from: from as usize, to: to as usize, work: work(&mut dice), start, pause }
    });
    let mut plan = Plan {
        seed,
        flows: flows.collect(),
        mesh: MeshSpec { links, routing, pool, flows_max, ..MeshSpec::new(nodes, &[], &CableConfig::default()) },
        crashes: Vec::new(),
        liar: None,
        healed,
    };
    for _ in 0..dice.below(6) {
        let (begin, node) = (within(&mut dice), dice.below(nodes as u64) as usize);
        let end = (begin + millis(&mut dice, 50, faulty.as_millis() / 2)).min(healed);
        let one = dice.below(plan.mesh.links.len() as u64) as usize;
        let of_node = |link: &MeshLink| link.between.contains(&node);
        match dice.below(5) {
            // A cable is cut, or loses everything in one direction.
            0 => cut(&mut plan.mesh.links[one], (begin, end), true),
            1 => cut(&mut plan.mesh.links[one], (begin, end), false),
            // A gateway stalls and goes on with its memory.
            2 => plan.mesh.links.iter_mut().filter(|l| of_node(l)).for_each(|l| cut(l, (begin, end), true)),
            // It dies and starts again later.
            3 => {
                plan.mesh.links.iter_mut().filter(|l| of_node(l)).for_each(|l| cut(l, (begin, end), true));
                plan.crashes.push(Crash { at: begin, node });
            }
            // It dies and starts again at once.
            _ => plan.crashes.push(Crash { at: begin, node }),
        }
    }
    plan.crashes.sort_by_key(|crash| (crash.at, crash.node));
    plan
}

/// Worlds tried for one in which some path needs a relay.
const TRIES: u64 = 64;
/// One of this many stretches is lied about, at the rarest.
const RARE: u64 = 200;

/// A world like the others, sealed, with a liar: its dice are its own, so that the other worlds do not change.
pub(super) fn lying(seed: u64) -> Plan {
    let mut dice = Seed(seed).chance("hop swarm / liar");
    let deed = Deed::ALL[dice.below(Deed::ALL.len() as u64) as usize];
    let lie = Lie { deed, p: Ratio::new(1, spread(&mut dice, 1, RARE) as u32).unwrap_or(Ratio::ONE) };
    for _ in 0..TRIES {
        let mut plan = plan(dice.below(u64::MAX));
        plan.mesh.seal = true;
        // A relay cannot lie about flows between neighbours: another pair of ends, if there are no other flows.
        let crossing = |plan: &Plan, from, to| plan.relays(from, to, false).filter(|relays| !relays.is_empty());
        let first = plan.flows.iter().find_map(|flow| crossing(&plan, flow.from, flow.to));
        let pairs = || (0..plan.mesh.nodes).flat_map(|a| (0..a).map(move |b| (a, b)));
        let pair = pairs().find_map(|(from, to)| Some((from, to, crossing(&plan, from, to)?)));
        let relays = match (first, pair) {
            (Some(relays), _) => relays,
            (None, Some((from, to, relays))) => {
                plan.flows[0].from = from;
                plan.flows[0].to = to;
                relays
            }
            (None, None) => continue,
        };
        let node = relays[dice.below(relays.len() as u64) as usize];
        plan.flows.retain(|flow| flow.from != node && flow.to != node);
        plan.liar = Some((node, lie));
        return plan;
    }
    // Practically impossible: no relay, no lie.
    plan(seed)
}

/// Adds an outage, joined with those that it overlaps.
fn cut(link: &mut MeshLink, window: (Instant, Instant), both: bool) {
    let directions = [Some(&mut link.config.forward), both.then_some(&mut link.config.reverse)];
    for config in directions.into_iter().flatten() {
        let (meets, mut windows): (Vec<_>, Vec<_>) =
            config.outages.iter().copied().partition(|(begin, end)| *begin <= window.1 && window.0 <= *end);
        let begin = meets.iter().map(|w| w.0).chain([window.0]).min().unwrap_or(window.0);
        let end = meets.iter().map(|w| w.1).chain([window.1]).max().unwrap_or(window.1);
        windows.push((begin, end));
        windows.sort_unstable();
        config.outages = windows;
    }
}
