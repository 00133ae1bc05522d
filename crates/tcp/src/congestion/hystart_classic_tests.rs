use super::*;

const MSS: u64 = 1_000;
const RTT: Span = Span::from_millis(20);

/// An acknowledgement of one more segment of a window of `segments`, `us` after the start.
fn ack(us: u64, una: u64, segments: u64, rtt: Span) -> Acked {
    Acked {
        now: Instant::from_nanos(us * 1_000),
        octets: MSS,
        delivered: una,
        lost: 0,
        rtt: Some(rtt),
        smoothed: rtt,
        least: RTT,
        pipe: segments * MSS,
        next: una + segments * MSS,
        una,
        limited: true,
        sample: None,
        repairing: false,
    }
}

fn seen(segments: u64) -> SenderWindow {
    SenderWindow { cwnd: segments * MSS, ssthresh: u64::MAX, mss: MSS, stage: None }
}

/// The first microsecond at which acknowledgements of one round, `spacing` apart, end slow start.
fn train_ends(classic: &mut Classic, spacing: u64, segments: u64) -> Option<u64> {
    (0..segments)
        .map(|k| (k * spacing, 1 + k * MSS))
        .find(|(at, una)| {
            let mut acked = ack(*at, *una, segments, RTT);
            acked.next = 1 + segments * MSS;
            classic.on_ack(&acked, seen(segments))
        })
        .map(|(at, _)| at)
}

/// Half of the least round trip, and half of the millisecond that four bursts of 64 KiB take here at most.
#[test]
fn a_train_of_half_a_round_trip_ends_slow_start() {
    assert_eq!(train_ends(&mut Classic::default(), 100, 400), Some(10_600));
    assert_eq!(train_ends(&mut Classic::new(true), 100, 400), Some(21_100), "twice that where segments are spread");
    assert_eq!(train_ends(&mut Classic::default(), 100, 100), None, "the round was over");
}

#[test]
fn acks_over_two_milliseconds_apart_end_a_train() {
    assert_eq!(train_ends(&mut Classic::default(), 2_001, 400), None);
    assert_eq!(train_ends(&mut Classic::default(), 2_000, 400), Some(12_000));
}

#[test]
fn sixteen_segments_of_window_are_the_least_that_is_judged() {
    assert_eq!(train_ends(&mut Classic::default(), 1_500, 15), None);
    assert_eq!(train_ends(&mut Classic::default(), 1_500, 16), Some(12_000));
}

/// A pace of 64 MB/s sends four bursts in 4 ms, one of 1 GB/s in 0.25 ms: the lesser of that and a millisecond counts.
#[test]
fn a_fast_sender_is_given_less_for_its_bursts() {
    let (slow, fast) = (ack(0, 1, 640, RTT), ack(0, 1, 10_000, RTT));
    assert_eq!(bursts(&slow, seen(640)), BURSTS_MOST);
    assert_eq!(bursts(&fast, seen(10_000)), Span::from_nanos(262_144));
    let late = SenderWindow { ssthresh: 11_000 * MSS, ..seen(10_000) };
    assert_eq!(bursts(&fast, late), Span::from_nanos(436_906), "1.2 times from half of the threshold on");
}

/// Rounds of one spread-out acknowledgement per 3 ms, so that no train is seen.
#[test]
fn a_growing_round_trip_ends_slow_start() {
    let grown = |by: Span, base: Span| {
        let mut classic = Classic::default();
        let first = ack(0, 1, 20, base);
        assert!(!classic.on_ack(&first, seen(20)));
        (1..=20u64).find(|k| {
            let acked = ack(3_000 * k, 1 + 20 * MSS + k, 20, base + by);
            let acked = Acked { next: 1 + 60 * MSS, ..acked };
            classic.on_ack(&acked, seen(20))
        })
    };
    let nanosecond = Span::from_nanos(1);
    // Eight are measured; the ninth finds the least of them.
    assert_eq!(grown(Span::from_millis(4) + nanosecond, RTT), Some(9));
    assert_eq!(grown(Span::from_millis(4), RTT), None);
    assert_eq!(grown(Span::from_millis(10) + nanosecond, Span::from_millis(80)), Some(9), "an eighth");
    assert_eq!(grown(Span::from_millis(16) + nanosecond, Span::from_millis(400)), Some(9), "16 ms at most");
}

#[test]
fn it_ends_once_and_begins_anew_after_a_timeout() {
    let mut classic = Classic::default();
    assert!(train_ends(&mut classic, 100, 400).is_some());
    assert_eq!(train_ends(&mut classic, 100, 400), None);
    classic.restart();
    assert_eq!(train_ends(&mut classic, 100, 400), Some(10_600));
}

#[test]
fn hystart_pauses_for_a_second_after_congestion_avoidance() {
    for (began, ends) in [(0, None), (1_000_001, None), (2_000_000, Some(3_010_600))] {
        let mut classic = Classic::default();
        let stage = Some(Instant::from_nanos(began * 1_000));
        let seen = SenderWindow { stage, ..seen(400) };
        let from = if ends.is_some() { 3_000_000 } else { 900_000 + began };
        let found = (0..400).map(|k| from + k * 100).find(|us| classic.on_ack(&ack(*us, 1, 400, RTT), seen));
        assert_eq!(found, ends, "{began}");
    }
}

#[test]
fn beyond_the_threshold_nothing_is_judged() {
    let mut classic = Classic::default();
    let beyond = SenderWindow { ssthresh: 400 * MSS, ..seen(400) };
    assert!((0..400).all(|k| !classic.on_ack(&ack(k * 100, 1, 400, RTT), beyond)));
}
