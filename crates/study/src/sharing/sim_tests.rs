#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use wavelane_run::{Backend, Treatment, Verdict};
use wavelane_scenario::Scenario;

#[test]
fn judged_links_cover_every_rate_rtt_and_queue() {
    let (judged, free): (Vec<Link>, Vec<Link>) = links().into_iter().partition(|link| link.judged);
    assert_eq!((judged.len(), free.len()), (13, 14));
    for side in [&judged, &free] {
        assert!(RATES_MBIT.iter().all(|mbit| side.iter().any(|link| link.mbit == *mbit)));
        assert!(RTTS_MS.iter().all(|rtt| side.iter().any(|link| link.rtt_ms == *rtt)));
        assert!(QUEUES.iter().all(|queue| side.iter().any(|link| link.queue == *queue)));
    }
    assert!(Task::all(&QUICK).iter().all(|task| task.link.judged && task.link.mbit <= 20));
    // Four rivals in both orders, and another of ours in one.
    assert_eq!(Task::all(&FULL).len(), 27 * 9);
}

#[test]
fn every_task_runs_under_all_its_stacks() {
    for task in Task::all(&FULL) {
        let scenario = Scenario::parse(&task.text(FULL.until), Path::new(".")).unwrap();
        let review = wavelane_sim::SimBackend.review(&scenario);
        assert_eq!(review.refusal(), None, "{}", task.name());
        for stack in &scenario.stacks {
            assert_eq!(review.treatment_of(*stack), Treatment::Imposed, "{}", task.name());
        }
        for (flow, start) in scenario.flows.iter().zip(task.starts) {
            assert_eq!(flow.start.as_secs_f64(), f64::from(start));
            assert_eq!(scenario.bottleneck(flow).unwrap().as_bps(), u64::from(task.link.mbit) * 1_000_000);
        }
        assert!(task.link.bottleneck(60, [0, 0]).queue >= QUEUE_LEAST);
        // One packet's time, for both flows alike.
        let feeds = ["there_b", if task.rival.is_some() { "there_src" } else { "there_d" }];
        for feed in feeds.map(|name| scenario.channel(name).unwrap()) {
            let jitter = feed.direction(wavelane_scenario::Direction::Reverse).unwrap().jitter;
            assert_eq!(jitter.as_nanos() * u64::from(task.link.mbit), 12_000_000);
        }
    }
}

/// One order in which every flow of a stack got what is given, in Mbit/s.
fn order(own: [f64; 2], cubic: [f64; 2], mixed: [f64; 2]) -> Measured {
    [("tcp-bbr", own), ("tcp-cubic", cubic), ("wavelane", mixed)].map(|(w, p)| (w.to_owned(), vec![p])).into()
}

#[test]
fn both_orders_are_averaged_and_cubic_sets_the_measure() {
    let even = [5.0, 5.0];
    // 8 of 10 in one order and 3 of 10 in the other are 0.55; the rival has 2 and 7 of 5.
    let orders = [order(even, even, [8.0, 2.0]), order(even, even, [3.0, 7.0])];
    let found = outcome("bbr", &orders).unwrap();
    assert!((found.shares[0] - 0.55).abs() < 1e-9 && (found.kept[0] - 0.9).abs() < 1e-9, "{found:?}");
    assert_eq!(held(&found), Some(Held { share: true, kept: true, part: true }));
    // 0.7 is too much, unless CUBIC takes as much.
    let much = |cubic| outcome("bbr", &[order(even, cubic, [7.0, 3.0])]).unwrap();
    assert_eq!(held(&much(even)).unwrap(), Held { share: false, kept: true, part: true });
    assert!(held(&much([6.6, 3.4])).unwrap().share);
    // The rival keeps 2.9 of 5.
    assert!(!held(&outcome("bbr", &[order(even, even, [3.0, 2.9])]).unwrap()).unwrap().kept);
    // A tenth is too little for us, unless CUBIC gets no more.
    let little = |cubic| held(&outcome("bbr", &[order(even, cubic, [1.0, 9.0])]).unwrap()).unwrap().part;
    assert!(!little(even) && little([1.0, 9.0]));
    // A stack that was not run leaves nothing to judge.
    assert!(outcome("bbr", &[vec![("wavelane".to_owned(), vec![even])]]).is_none());
}

#[test]
fn nine_tenths_of_the_cells_must_hold() {
    let judged = |held: usize, of: usize| {
        let cells: Vec<bool> = (0..of).map(|n| n < held).collect();
        over_cells("cells_fair", &cells, Some(CELLS_AIM)).verdict
    };
    assert_eq!([judged(9, 10), judged(8, 10), judged(0, 0)], [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive]);
    assert_eq!(over_cells("cells_with_share", &[false], None).verdict, Verdict::Info);
}
