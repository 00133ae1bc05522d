//! What ns-3 guesses from duplicate acknowledgements, and when its window grows after a timeout.

use super::script::*;
use super::*;

fn ns3() -> Config {
    Config {
        limited_transmit: false,
        quirks: Quirks { guess_arrivals: true, no_growth_when_repaired: true, ..Quirks::default() },
        ..Config { sack: false, byte_counting: false, undo: false, whole_segments: false, ..plain() }
    }
}

/// Ten segments in flight, the first lost, and twelve duplicates: three more than the segments behind it can call forth.
/// What went out meanwhile, and how the recovery that ends with the tenth segment goes on.
fn twelve_duplicates(config: Config) -> Script {
    let mut tcp = ten(config);
    for duplicate in 1..=12 {
        tcp.ack(1);
        let repeats: Vec<_> = tcp.data().into_iter().filter(|(seq, _)| *seq < 10_001).collect();
        assert_eq!(repeats, if duplicate == 3 { vec![(1, 1_000)] } else { vec![] });
    }
    tcp
}

/// A guess that reaches beyond the recovery meets the next hole, which is then repeated although nothing shows it lost;
/// a single duplicate of that repeat begins the next recovery. Counted duplicates are forgotten instead.
#[test]
fn guesses_outlive_the_recovery() {
    let mut guessing = twelve_duplicates(ns3());
    // Half of the estimated flight at the third: ten less the hole and the guess, and the hole.
    assert_eq!(guessing.tcp.status().ssthresh, Some(4_500));
    guessing.ack(10_001);
    assert!(!guessing.tcp.status().repairing);
    assert_eq!(guessing.data()[0], (10_001, 1_000), "a repeat that nothing calls for");
    guessing.ack(10_001);
    assert_eq!(guessing.data()[0], (10_001, 1_000), "and again");
    assert_eq!(guessing.counters().recoveries, 2);

    let mut counting = twelve_duplicates(Config { quirks: Quirks::default(), ..ns3() });
    counting.ack(10_001);
    assert!(counting.data().iter().all(|(seq, _)| *seq > 10_001), "new data only");
    counting.ack(10_001);
    assert_eq!(counting.counters().recoveries, 1);
}

#[test]
fn a_timeout_forgets_guesses() {
    let mut tcp = twelve_duplicates(ns3());
    while tcp.deadline().0 != "retransmission timeout" {}
    assert_eq!(tcp.data(), [(1, 1_000)]);
    // Everything is lost now: two segments in slow start, from the first hole on.
    tcp.ack(1_001);
    assert_eq!(tcp.data(), [(1_001, 1_000), (2_001, 1_000)]);
}

/// The acknowledgement that ends the repair covers what is repaired: there is nothing for the window to grow by.
#[test]
fn the_end_of_a_repair_is_no_growth() {
    for (no_growth_when_repaired, cwnd) in [(true, 1_000), (false, 2_000)] {
        let quirks = Quirks { no_growth_when_repaired, ..ns3().quirks };
        let mut tcp = Script::established(Config { quirks, ..ns3() });
        tcp.write(4_000);
        assert_eq!(tcp.data().len(), 4);
        while tcp.deadline().0 != "retransmission timeout" {}
        assert_eq!(tcp.data(), [(1, 1_000)]);
        tcp.ack(4_001);
        assert_eq!(tcp.tcp.status().cwnd, cwnd, "{no_growth_when_repaired}");
    }
}
