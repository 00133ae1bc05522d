//! When losses are the queue's, how many flows we count as, and whose a standing queue is.

use super::weight::WEIGHT_MAX;
use super::*;
use crate::lane::sent::Resolved;

/// Reductions of a flow whose every `each`-th of 20,000 packets is lost, on a medium known to lose 5 %.
fn cuts(each: u64) -> u32 {
    let mut losses = Losses::default();
    let flow = Flow {
        cubic: Cubic::new(),
        floor: 0,
        medium: 0.05,
        bursts: false,
        test: None,
        next_test: Instant::ZERO,
        last_test: Instant::ZERO,
        dips: Dips::default(),
        failed: 0,
        passed: 0,
        empty_since: None,
        filled_since: None,
        weight: Weight::new(Instant::ZERO),
    };
    let mut cuts = 0;
    for number in 0..20_000 {
        let sent_at = Instant::from_micros(number * 600);
        let lost = number % each == 0;
        losses.resolved(sent_at, &Resolved::full(number, sent_at, lost));
        let cut = lost && flow.convicts(&losses);
        cuts += u32::from(cut);
        if cut || losses.tally().0 > TALLY_MAX {
            losses.reset_tally(sent_at);
        }
    }
    cuts
}

#[test]
fn the_mediums_loss_is_no_signal_and_more_is() {
    assert_eq!(cuts(20), 0);
    assert!((50..1_000).contains(&cuts(5)), "{}", cuts(5));
}

#[test]
fn the_number_of_emulated_flows_follows_the_share() {
    let best = Rate::from_bps(20_000_000);
    let mut weight = Weight::new(Instant::ZERO);
    let mut now = 0;
    // Acks every 10 ms for a second of weighing at a rate in Mbit/s.
    let mut second = |mbit: u64, testing: bool| {
        let mut flows = 0;
        for _ in 0..100 {
            now += 10;
            let sample = AckSample {
                now: Instant::from_millis(now),
                newest: None,
                delivered: mbit * 1_000_000 / 8 / 100,
                lost_sent: None,
                waited: Span::ZERO,
                latest_rtt: None,
                rtt: Span::from_millis(100),
                rtt_min: Span::from_millis(50),
                acks_apart: Span::ZERO,
                acks_thin: Span::ZERO,
            };
            flows = weight.on_ack(&sample, best, testing);
        }
        flows
    };
    let grown: Vec<u32> = (0..4).map(|_| second(2, false)).collect();
    assert_eq!(grown, [2, 4, WEIGHT_MAX, WEIGHT_MAX]);
    assert_eq!(second(1, true), WEIGHT_MAX, "what is served in a test says nothing");
    assert_eq!([second(7, false), second(7, false)], [WEIGHT_MAX; 2], "neither too little nor enough");
    let shrunk: Vec<u32> = (0..6).map(|_| second(9, false)).collect();
    assert_eq!(shrunk, [5, 4, 3, 2, 1, 1]);
}

#[test]
fn one_standing_queue_may_be_the_way_two_are_a_competitor() {
    let second = Instant::from_secs;
    let full = Rate::from_bps(20_000_000);
    let pushed = Rate::from_bps(5_000_000);
    let mut compete = Compete::default();
    compete.note_served(second(1), full);
    assert_eq!(compete.standing_queue(second(2), 100, full, true), None, "served as before: the way is longer");
    assert_eq!(compete.standing_queue(second(3), 100, pushed, false), None);
    assert_eq!(compete.standing_queue(second(20), 300, pushed, false), None, "the first is long ago");
    assert_eq!(compete.standing_queue(second(22), 400, pushed, false), Some(300));
    let mut compete = Compete::default();
    compete.note_served(second(1), full);
    assert_eq!(compete.standing_queue(second(2), 100, pushed, true), Some(100), "grew while we drained");
}
