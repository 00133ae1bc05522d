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
    let (three, one, cubic) = (run(Bbr3, 20_000_000), run(Bbr, 20_000_000), run(Cubic, 5_000_000));
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
            let (goodput, counters, _) = bulk(Config::linux(control), ways, 30_000_000, 300);
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

/// Goodputs in Mbit/s of transfers one after the other over 40 ms and 100 kB of queue: (rate in Mbit/s, bytes).
fn steps<const N: usize>(parts: [(u64, usize); N]) -> [f64; N] {
    let config = Config::linux(Bbr3);
    let ways = [Way::clean(1, 20, 100_000), Way::clean(1_000, 20, 1_000_000)];
    let mut world = World::new([config.clone(), config], ways, 1);
    world.ways[0].rate = Rate::from_bps(parts[0].0 * 1_000_000);
    let flows = world.open(ms(10_000));
    parts.map(|(mbit, octets)| {
        world.ways[0].rate = Rate::from_bps(mbit * 1_000_000);
        let start = world.now;
        let end = world.transfer(flows, 0, octets, start + Span::from_secs(300)).expect("it arrives");
        octets as f64 * 8.0 / end.since(start).as_secs_f64() / 1e6
    })
}

/// Section 10.15: ten times the bandwidth is found by a few probes, which come every two to three seconds.
#[test]
fn a_faster_path_is_found() {
    let [before, finding, after] = steps([(10, 5_000_000), (100, 30_000_000), (100, 30_000_000)]);
    println!("10 to 100 Mbit/s: {before:.2}, {finding:.2}, {after:.2} Mbit/s");
    assert!(before > 8.0 && finding > 30.0, "{before}, {finding}");
    assert!(after > 80.0, "{after}");
}

/// Section 10.16: a tenth of the bandwidth is kept to, and the rest is lost once, not for ever.
#[test]
fn a_slower_path_is_kept_to() {
    let [before, after, later] = steps([(100, 30_000_000), (10, 5_000_000), (10, 5_000_000)]);
    println!("100 to 10 Mbit/s: {before:.2}, {after:.2}, {later:.2} Mbit/s");
    assert!(before > 70.0 && after > 7.0 && later > 8.0, "{before}, {after}, {later}");
}

/// Sections 10.18 and 10.19: recoveries that late packets cause are taken back, and cost next to nothing.
#[test]
fn late_packets_cost_little() {
    for late in [3, 30] {
        let clean = Way::clean(20, 20, 200_000);
        let swapping = Way { swap: Ratio::new(1, 100).unwrap(), late: Span::from_millis(late), ..clean };
        let (goodput, counters, _) = bulk(Config::linux(Bbr3), [swapping, clean], 20_000_000, 100);
        println!("1 % of packets {late} ms late: {goodput:.2} Mbit/s, {counters:?}");
        assert!(counters.undone > 0, "{counters:?}");
        assert!(goodput > 0.8 * 20.0 * 1_448.0 / 1_500.0, "{late} ms: {goodput}");
    }
}
