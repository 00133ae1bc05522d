//! BBR version 3 on whole paths, beside version 1 and CUBIC. Tests of its rules stand beside its code.

use super::throughput::bulk;
use super::world::{Way, World};
use super::*;
use CongestionControl::{Bbr, Bbr3, Cubic};
use wavelane_base::{Rate, Ratio};

/// draft-ietf-ccwg-bbr-06, section 5.3.3.8.3: a loss of 1 % per round trip is to be borne.
#[test]
fn one_per_cent_of_loss_is_borne() {
    let run = |control, octets| {
        let ways = [Way::clean(20, 50, 250_000).losing(1, 100), Way::clean(20, 50, 250_000)];
        bulk(Config::linux(control), ways, octets, 300).0
    };
    let (three, one, cubic) = (run(Bbr3, 40_000_000), run(Bbr, 40_000_000), run(Cubic, 5_000_000));
    println!("1 % of 20 Mbit/s, 100 ms: bbr3 {three:.2}, bbr {one:.2}, cubic {cubic:.2} Mbit/s");
    assert!(three > 10.0, "half of the line: {three}");
    assert!(three > 4.0 * cubic, "{three} against {cubic}");
}

/// Section 2.8: a probe may cost 2 % of a flight, so over whole cycles less is lost; version 1 has no such bound.
#[test]
fn a_shallow_buffer_is_not_overrun_for_ever() {
    // 0.1, 0.2 and 0.5 of the product of 20 Mbit/s and 100 ms.
    for queue in [25_000, 50_000, 125_000] {
        let run = |control| {
            let ways = [Way::clean(20, 50, queue), Way::clean(20, 50, 250_000)];
            let (goodput, counters, _) = bulk(Config::linux(control), ways, 60_000_000, 300);
            (goodput, counters.retransmits as f64 / counters.segments as f64)
        };
        let ((three, repeats), (one, repeats_one), (cubic, repeats_cubic)) = (run(Bbr3), run(Bbr), run(Cubic));
        println!(
            "{queue} B: bbr3 {three:.2} Mbit/s, {:.2} % again; bbr {one:.2}, {:.2} %; cubic {cubic:.2}, {:.2} %",
            repeats * 100.0,
            repeats_one * 100.0,
            repeats_cubic * 100.0
        );
        assert!(repeats < 0.02, "{queue}: {repeats}");
        assert!(repeats < repeats_one, "{queue}: {repeats} against {repeats_one}");
        assert!(three > 0.75 * 20.0 * 1_448.0 / 1_500.0, "{queue}: {three}");
    }
}

/// Sends `before` bytes, changes the rate, and sends `after` more; the goodput of each part in Mbit/s.
fn step(mbit: [u64; 2], before: usize, after: usize) -> ([f64; 2], Counters) {
    let way = |mbit: u64| Way::clean(mbit, 20, 100_000);
    let config = Config::linux(Bbr3);
    let mut world = World::new([config.clone(), config], [way(mbit[0]), Way::clean(1_000, 20, 1_000_000)], 1);
    let flows = world.open(ms(10_000));
    let goodputs = [(mbit[0], before), (mbit[1], after)].map(|(mbit, octets)| {
        world.ways[0].rate = Rate::from_bps(mbit * 1_000_000);
        let start = world.now;
        let end = world.transfer(flows, 0, octets, start + Span::from_secs(300)).expect("it arrives");
        octets as f64 * 8.0 / end.since(start).as_secs_f64() / 1e6
    });
    (goodputs, world.hosts[0].status(flows[0]).unwrap().counters)
}

#[test]
fn explore() {
    for (rates, before, after) in [([10, 100], 10_000_000, 100_000_000), ([100, 10], 100_000_000, 20_000_000)] {
        println!("{rates:?} {:?}", step(rates, before, after));
    }
    for late in [3, 10, 30] {
        for control in [Bbr, Bbr3] {
            let clean = Way::clean(20, 20, 200_000);
            let swapping = Way { swap: Ratio::new(1, 100).unwrap(), late: Span::from_millis(late), ..clean };
            let (rate, counters, _) = bulk(Config::linux(control), [swapping, clean], 20_000_000, 100);
            println!("late {late} {control:?} {rate:.2} {counters:?}");
        }
    }
}
