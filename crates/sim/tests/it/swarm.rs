//! The seed draws the whole world: link, damage, faults and traffic. Safety while faulty, delivery once healed.
//!
//! `WAVELANE_SWARM_SEEDS=1000` runs more seeds, `WAVELANE_SWARM_FIRST=17 WAVELANE_SWARM_SEEDS=1` replays one.

use crate::common::{Direction, Pair, address, clean_demo, random_loss, server};
use wavelane_base::{Chance, Instant, Octets, Rate, Ratio, Seed, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, Parameter, PerUnit, QueueLimit, Reorder};
use wavelane_gateway::Reason;
use wavelane_sim::{ChannelId, Engine, FlowEnd, FlowIndex, FlowSpec, NodeClock, Work};

/// Seeds tried when nothing is asked for; bounded so that a run takes seconds.
const SEEDS: u64 = 60;
/// While faults last.
const FAULTY: Span = Span::from_secs(20);
/// How long after the link healed a new flow must not suffer from old faults any more.
const REUNION: Span = Span::from_secs(3);
/// How long a healed link of at least 1 Mbit/s may take for what is left.
const HEALING: Span = Span::from_secs(120);

/// Whether the long editions are asked for: `make test-all`.
pub(crate) fn all() -> bool {
    std::env::var_os("WAVELANE_TEST_ALL").is_some()
}

/// All of these cases in `make test-all`, the first few in `make test`.
pub(crate) fn cases<T>(cases: &[T], few: usize) -> &[T] {
    if all() { cases } else { &cases[..few] }
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn swarm() {
    let (first, count) = (number("WAVELANE_SWARM_FIRST", 1), number("WAVELANE_SWARM_SEEDS", SEEDS));
    for seed in first..first + count {
        let result = std::panic::catch_unwind(|| run(seed));
        if let Err(why) = result {
            let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!(
                "seed {seed}: {why}\nreplay: WAVELANE_SWARM_FIRST={seed} WAVELANE_SWARM_SEEDS=1 \
                 cargo test -p wavelane-sim --test it swarm"
            );
        }
    }
}

/// A log-uniform number between `low` and `high`, so that small values are as common as large ones.
pub(crate) fn spread(dice: &mut Chance, low: u64, high: u64) -> u64 {
    let octaves = u64::from((high / low).ilog2()) + 1;
    let base = low << dice.below(octaves);
    (base + dice.below(base)).clamp(low, high)
}

pub(crate) fn one_in(dice: &mut Chance, n: u64) -> bool {
    dice.below(n) == 0
}

pub(crate) fn some_loss(dice: &mut Chance) -> LossConfig {
    match dice.below(3) {
        0 => LossConfig::None,
        1 => random_loss(dice.below(25) as u32, 100),
        _ => LossConfig::GilbertElliott {
            good: Span::from_millis(spread(dice, 50, 2_000)),
            bad: Span::from_millis(spread(dice, 1, 100)),
            in_good: Ratio::ZERO,
            in_bad: Ratio::ONE,
            per: PerUnit::Packet,
        },
    }
}

pub(crate) fn some_direction(dice: &mut Chance) -> DirectionConfig {
    let rate = spread(dice, 1_000_000, 50_000_000);
    let reorder = match dice.below(2) {
        0 => Reorder::default(),
        _ => Reorder {
            p: Ratio::new(dice.below(20) as u32, 100).unwrap(),
            extra: Span::from_millis(spread(dice, 1, 50)),
        },
    };
    DirectionConfig {
        rate: Some(Rate::from_bps(rate)),
        delay: Span::from_millis(spread(dice, 1, 200)),
        jitter: Span::from_millis(dice.below(30)),
        queue: QueueLimit::Octets(Octets::new(spread(dice, 15_000, 500_000))),
        loss: some_loss(dice),
        duplicate: Ratio::new(dice.below(5) as u32, 100).unwrap(),
        corrupt: Ratio::new(dice.below(3) as u32, 100).unwrap(),
        reorder,
        ..DirectionConfig::default()
    }
}

fn some_work(dice: &mut Chance) -> Work {
    match dice.below(4) {
        0 | 1 => Work::Download(Some(spread(dice, 1, 2_000_000))),
        2 => Work::Upload(Some(spread(dice, 1, 2_000_000))),
        _ => Work::Echo {
            every: Span::from_millis(spread(dice, 5, 500)),
            random: false,
            size: spread(dice, 1, 4_096),
            during: None,
        },
    }
}

/// One fault, now.
fn break_something(dice: &mut Chance, pair: &mut Pair, restarts: &mut Vec<Instant>) {
    let direction = if one_in(dice, 2) { Direction::Forward } else { Direction::Reverse };
    let now = pair.engine.now();
    match dice.below(8) {
        0 => {
            let rate = Rate::from_bps(spread(dice, 200_000, 50_000_000));
            pair.set(direction, Parameter::Rate(Some(rate)));
        }
        1 => pair.set(direction, Parameter::Delay(Span::from_millis(spread(dice, 1, 300)))),
        2 => pair.set(direction, Parameter::Loss(some_loss(dice))),
        3 => pair.outage(now, now + Span::from_millis(spread(dice, 50, 5_000))),
        4 => {
            let window = vec![(now, now + Span::from_millis(spread(dice, 50, 5_000)))];
            pair.set(direction, Parameter::Outages(window));
        }
        5 => {
            let (node, last) = if one_in(dice, 2) { (pair.a, 1) } else { (pair.b, 2) };
            let port = 1_024 + dice.below(60_000);
            pair.engine.readdress(node, 0, address(&format!("192.0.2.{last}:{port}")));
        }
        6 if restarts.len() < 2 => {
            restarts.push(now);
            pair.engine.restart(if one_in(dice, 2) { pair.a } else { pair.b });
        }
        _ => {}
    }
}

/// Safety, at any moment: what was read is what was written, in order and once, and memory is bounded.
fn check_safety(pair: &Pair, flows: &[(FlowIndex, Option<u64>)]) {
    for &(flow, size) in flows {
        let log = pair.engine.log(flow);
        assert_eq!(log.damage, None, "flow {flow:?}: wrong byte; {:?}", log.end);
        assert!(size.is_none_or(|size| log.octets <= size), "flow {flow:?}: more bytes than were sent");
        assert!(!matches!(log.end, Some((_, FlowEnd::Truncated))), "flow {flow:?} ended as if complete");
        if matches!(log.end, Some((_, FlowEnd::Complete))) {
            assert!(size.is_none_or(|size| log.octets == size), "flow {flow:?} complete without all its bytes");
        }
    }
    for node in [pair.a, pair.b] {
        let (held, pool) = (pair.engine.status(node).buffered, pair.engine.gateway(node).config().pool.get());
        assert!(held <= pool, "a gateway holds {held} bytes, its limit is {pool}");
    }
}

fn run(seed: u64) {
    let mut dice = Seed(seed).chance("swarm");
    let config = CableConfig { forward: some_direction(&mut dice), reverse: some_direction(&mut dice) };
    let clock = |dice: &mut Chance| {
        NodeClock::new(Span::from_millis(dice.below(1 << 30)), dice.below(201) as i32 - 100).unwrap()
    };
    let clocks = [clock(&mut dice), clock(&mut dice)];
    let mut pair = Pair::with_clocks(seed, config, clocks);
    let mut flows = Vec::new();
    for _ in 0..1 + dice.below(8) {
        let (start, work) = (Instant::ZERO + Span::from_millis(dice.below(15_000)), some_work(&mut dice));
        let spec = pair.spec(work, start);
        let stop = matches!(work, Work::Echo { .. }).then(|| start + Span::from_millis(dice.below(10_000)));
        let size = match work {
            Work::Download(size) | Work::Upload(size) => size,
            Work::Echo { .. } | Work::Datagrams(_) | Work::Web(_) => None,
        };
        flows.push((pair.engine.add_flow(FlowSpec { stop, ..spec }), size));
    }
    let mut restarts = Vec::new();
    while pair.engine.now() < Instant::ZERO + FAULTY {
        let next = pair.engine.now() + Span::from_millis(spread(&mut dice, 20, 2_000));
        pair.engine.run_until(next);
        check_safety(&pair, &flows);
        break_something(&mut dice, &mut pair, &mut restarts);
    }
    heal(&mut pair);
    // A gateway that restarted during a partition is found out by the first datagrams after it.
    let late = {
        let spec = pair.spec(Work::Download(Some(100_000)), pair.engine.now() + REUNION);
        pair.engine.add_flow(FlowSpec { target: server(), ..spec })
    };
    flows.push((late, Some(100_000)));
    pair.finish(pair.engine.now() + HEALING);
    check_safety(&pair, &flows);
    for &(flow, _) in &flows {
        let log = pair.engine.log(flow);
        match log.end {
            Some((_, FlowEnd::Complete)) => {}
            // A flow may only die of a restart: of its client's own gateway at that moment, or of one it was told of. One
            // that survived a restart, because it had not been answered, is asked for again after the next: who does not
            // know it then says that it is over.
            Some((at, FlowEnd::Reset(None))) if restarts.contains(&at) => {}
            Some((at, FlowEnd::Reset(Some(Reason::Restarted)) | FlowEnd::Refused(Some(Reason::Restarted))))
                if restarts.iter().any(|restart| *restart <= at) => {}
            Some((at, FlowEnd::Reset(Some(Reason::Aborted))))
                if restarts.iter().filter(|restart| **restart <= at).count() > 1 => {}
            other => panic!("flow {flow:?} ended as {other:?} although the link healed; restarts {restarts:?}"),
        }
    }
    pair.assert_complete(late);
}

/// The link becomes an ordinary one again, both gateways are back where they were.
fn heal(pair: &mut Pair) {
    pair.engine.readdress(pair.a, 0, address("192.0.2.1:51820"));
    pair.engine.readdress(pair.b, 0, address("192.0.2.2:51820"));
    heal_cable(&mut pair.engine, pair.air);
}

/// The cable becomes the demo's without its loss.
pub(crate) fn heal_cable(engine: &mut Engine, air: ChannelId) {
    let good = clean_demo();
    for (direction, config) in [(Direction::Forward, good.forward), (Direction::Reverse, good.reverse)] {
        for parameter in [
            Parameter::Rate(config.rate),
            Parameter::Delay(config.delay),
            Parameter::Jitter(Span::ZERO),
            Parameter::Queue(config.queue),
            Parameter::Loss(LossConfig::None),
            Parameter::Duplicate(Ratio::ZERO),
            Parameter::Corrupt(Ratio::ZERO),
            Parameter::Reorder(Reorder::default()),
            Parameter::Outages(Vec::new()),
        ] {
            engine.set(air, direction, parameter).unwrap();
        }
    }
}
