//! The recordings in `testing/decisions` are replayed. One that differs is shown as it would be now.
#![allow(clippy::unwrap_used, reason = "tests")]
use super::replay::{config, event};
use super::*;

fn replays(name: &str, recording: &str) {
    let now = replay(recording).unwrap();
    assert!(now == recording, "testing/decisions/{name} would be now:\n{now}");
}

#[test]
fn peers_that_go_down_and_come_back_are_replayed() {
    replays("peers.txt", include_str!("../../../../testing/decisions/peers.txt"));
}

#[test]
fn rules_that_others_took_away_are_replayed() {
    replays("rules.txt", include_str!("../../../../testing/decisions/rules.txt"));
}

#[test]
fn reloads_and_trials_are_replayed() {
    replays("reloads.txt", include_str!("../../../../testing/decisions/reloads.txt"));
}

/// What waits for the kernel is bounded: what comes later is discarded, and its TCP sends it again.
#[test]
fn syns_that_wait_for_the_kernel_have_a_bound() {
    let mut config = config("open b=10.0.3.0/24").unwrap();
    let mut decisions = Decisions::new(true, 1);
    let mut take = |words: &str| {
        let event = event(&mut config, &mut None, words).unwrap();
        decisions.take(Instant::ZERO, &config, event)
    };
    assert!(matches!(take("down b")[..], [Order::Say(_), Order::GiveUp(0), Order::GiveBack(_)]));
    for n in 0..WAITING_MAX {
        assert!(matches!(take(&format!("syn b 10.0.3.7 {n}"))[..], [Order::Count("connections_passed")]));
    }
    assert!(matches!(take("syn b 10.0.3.7 9999")[..], [Order::Discard(_)]));
    assert_eq!(take("kernel Down ok").len(), WAITING_MAX);
}
