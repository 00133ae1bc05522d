#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use wavelane_base::Seed;

const PAGES: Pages = Pages {
    document: None,
    objects: 1,
    size: 10_000,
    shape: 1.2,
    parallel: 1,
    gap: Span::ZERO,
    think: Span::from_secs(1),
    count: None,
};

fn reader(pages: Pages) -> Reader {
    Reader::new(Instant::ZERO, pages, Seed(1).chance("reader"))
}

/// Against the distribution function: P(size > x) = (1 + x / scale)^-shape, whose mean converges too slowly to be compared.
#[test]
fn sizes_are_pareto_of_the_second_kind() {
    let mut reader = reader(PAGES);
    let n = 100_000;
    let mut sizes: Vec<u64> = (0..n).map(|_| reader.size()).collect();
    sizes.sort_unstable();
    for above in [500.0, 1_560.0, 10_000.0, 100_000.0, 1e6] {
        let expected = maths::power(1.0 + above / 2_000.0, -1.2);
        let got = sizes.iter().filter(|size| **size as f64 > above).count() as f64 / n as f64;
        let deviation = (expected * (1.0 - expected) / n as f64).sqrt();
        assert!((got - expected).abs() < 4.0 * deviation + 1e-3, "above {above}: {got} of {expected}");
    }
    // With a shape that has a variance the mean itself.
    let mut light = self::reader(Pages { shape: 4.0, ..PAGES });
    let mean = (0..n).map(|_| light.size()).sum::<u64>() as f64 / n as f64;
    assert!((mean / 10_000.0 - 1.0).abs() < 0.02, "{mean}");
}

#[test]
fn a_pages_objects_load_in_parallel_and_pages_in_sequence() {
    let pages = Pages { document: Some(500), objects: 3, parallel: 2, count: Some(2), ..PAGES };
    let mut reader = reader(pages);
    let mut now = Instant::ZERO;
    let mut open = 0;
    let think = |reader: &mut Reader, now: Instant| match reader.step(now, 0) {
        Step::Wait(Some(until)) => until,
        other => panic!("thinks, but {other:?}"),
    };
    for page in 0..2 {
        now = think(&mut reader, now);
        assert_eq!(reader.step(now, open), Step::Ask { page, size: 500 });
        open = 1;
        assert_eq!(reader.step(now, open), Step::Wait(None), "nothing is known before the document is there");
        open = 0;
        for _ in 0..2 {
            assert!(matches!(reader.step(now, open), Step::Ask { page: p, .. } if p == page));
            open += 1;
        }
        assert_eq!(reader.step(now, open), Step::Wait(None), "two at once");
        open -= 1;
        assert!(matches!(reader.step(now, open), Step::Ask { .. }));
        open += 1;
        assert_eq!(reader.step(now, open), Step::Wait(None));
        now += Span::from_secs(1);
        open = 0;
    }
    assert_eq!(reader.step(now, open), Step::End);
    assert_eq!(reader.step(now, open), Step::End);
}

#[test]
fn an_object_follows_the_one_before_after_the_gap() {
    let mut reader = reader(Pages { objects: 2, parallel: 9, gap: Span::from_secs(5), ..PAGES });
    let Step::Wait(Some(first)) = reader.step(Instant::ZERO, 0) else { panic!("thinks") };
    assert!(matches!(reader.step(first, 0), Step::Ask { .. }));
    let Step::Wait(Some(second)) = reader.step(first, 1) else { panic!("waits for the gap") };
    assert!(second > first && matches!(reader.step(second, 1), Step::Ask { .. }));
}

/// Lengths of spurts and silences against their means, and datagrams against the times between them.
#[test]
fn spurts_have_their_lengths_and_datagrams_their_distance() {
    let (every, on, off) = (Span::from_millis(10), Span::from_secs(1), Span::from_millis(1_350));
    let mut spurt = Spurt::new(Instant::ZERO, Seed(2).chance("spurts"), every, (on, off));
    let (mut sent, mut pauses, mut last) = (0u32, 0u32, None);
    let end = Instant::from_secs(20_000);
    while spurt.due() < end {
        let due = spurt.due();
        assert_eq!(spurt.due(), due, "asking changes nothing");
        if last.is_some_and(|last: Instant| due.since(last) > every) {
            pauses += 1;
        }
        assert!(last.is_none_or(|last| due.since(last) >= every));
        sent += 1;
        last = Some(due);
        spurt.send();
    }
    // A spurt of mean 1 s holds 1 / (e^0.01 - 1) = 99.5 datagrams; 8,510 spurts to four deviations.
    let expected = 20_000.0 / 2.35;
    assert!((f64::from(pauses) / expected - 1.0).abs() < 0.06, "{pauses} of {expected}");
    assert!((f64::from(sent) / (expected * 99.5) - 1.0).abs() < 0.06, "{sent}");
}
