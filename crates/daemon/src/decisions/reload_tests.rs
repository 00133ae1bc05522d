//! Whose turn it is.
use super::*;

const UNTIL: Instant = Instant::from_secs(60);

/// Requests that wait, by time, while a trial ends at [`UNTIL`], if there is one.
fn waiting(trial: bool, requests: &[(u64, Of)]) -> Reloads {
    let former = super::super::replay::config("apart b=").expect("a configuration");
    let mut reloads = Reloads::default();
    let request = |(ms, of): &(u64, Of)| Request { of: *of, client: None, at: Instant::ZERO + Span::from_millis(*ms) };
    reloads.waiting = requests.iter().map(request).collect();
    reloads.trial = trial.then_some(Trial { former, lasts: Span::from_secs(60), until: UNTIL });
    reloads
}

/// Whose turn it is, one after the other. A trial is over with what ends it.
fn turns(reloads: &mut Reloads, now: Instant) -> Vec<Of> {
    let mut all = Vec::new();
    while let Some(request) = reloads.next(now, false) {
        if !matches!(request.of, Of::File { .. }) {
            reloads.trial = None;
        }
        all.push(request.of);
    }
    all
}

const FILE: Of = Of::File { confirm: None };
const BACK: Of = Of::Former { asked: true };
const END: Of = Of::Former { asked: false };
const KEEP: Of = Of::Trial;

#[test]
fn who_ends_a_trial_comes_before_its_time_and_that_before_the_file() {
    let (early, late) = (Instant::from_secs(59), Instant::from_secs(61));
    for (requests, now, order) in [
        (&[(1_000, FILE), (2_000, FILE)][..], early, &[FILE, FILE][..]),
        (&[(1_000, FILE), (2_000, KEEP)], early, &[KEEP, FILE]),
        (&[(1_000, FILE), (2_000, BACK), (3_000, KEEP)], early, &[BACK, FILE, KEEP]),
        // The time is up, and who asked before that still counts.
        (&[(1_000, FILE)], late, &[END, FILE]),
        (&[(1_000, FILE), (60_000, KEEP)], late, &[KEEP, FILE]),
        (&[(1_000, FILE), (60_000, BACK)], late, &[BACK, FILE]),
        // Who asked later comes after it, to be told so.
        (&[(1_000, FILE), (60_001, KEEP)], late, &[END, FILE, KEEP]),
        (&[(60_001, BACK), (60_002, FILE)], late, &[END, BACK, FILE]),
        (&[], late, &[END]),
        (&[], early, &[]),
    ] {
        assert_eq!(turns(&mut waiting(true, requests), now), order, "{requests:?}");
    }
    assert_eq!(turns(&mut waiting(false, &[(1, FILE), (2, KEEP)]), late), [FILE, KEEP]);
}

#[test]
fn many_requests_for_the_file_delay_no_end_of_a_trial_and_no_confirmation() {
    let many: Vec<(u64, Of)> = (0..REQUESTS_MAX as u64).map(|n| (59_900 + n, FILE)).collect();
    let mut reloads = waiting(true, &many);
    assert_eq!(reloads.next(UNTIL, false).map(|request| request.of), Some(END));
    let mut reloads = waiting(true, &[&many[..], &[(59_999, KEEP)]].concat());
    assert_eq!(reloads.next(UNTIL, false).map(|request| request.of), Some(KEEP));
    assert_eq!(reloads.waiting.len(), REQUESTS_MAX);
}

#[test]
fn only_a_confirmation_does_without_the_kernel() {
    let of = |requests: &[(u64, Of)], now| waiting(true, requests).next(now, true).map(|request| request.of);
    let late = Instant::from_secs(61);
    assert_eq!(of(&[(1, FILE), (2, KEEP)], late), Some(KEEP));
    for requests in [&[(1, FILE)][..], &[(1, BACK), (2, KEEP)], &[(60_001, KEEP)], &[]] {
        assert_eq!(of(requests, late), None, "{requests:?}");
    }
}
