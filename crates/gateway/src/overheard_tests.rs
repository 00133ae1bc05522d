//! What is kept of what was overheard.

#![allow(clippy::unwrap_used, reason = "tests may fail")]
use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Octets that differ for each number.
fn octets(n: u64) -> Vec<u8> {
    [&n.to_be_bytes()[..], &[7; 992]].concat()
}

#[test]
fn each_sender_has_its_part_and_loses_its_own_oldest() {
    let budget = 16 * 10 * (1_000 + DATAGRAM_OCTETS);
    let mut heard = Overheard::default();
    let first = heard.keep(at(0), budget, 1, &octets(0)).unwrap();
    assert_eq!(heard.keep(at(1), budget, 2, &octets(0)), None, "known already");
    for n in 1..1_000 {
        assert!(heard.keep(at(n), budget, 2, &octets(n)).is_some());
    }
    assert!(heard.octets.contains_key(&first), "another sender's flood takes nothing from the first");
    assert_eq!(heard.octets.len(), 11);
    assert!(
        heard.octets.contains_key(&digest_of(&octets(990))) && !heard.octets.contains_key(&digest_of(&octets(989)))
    );
    assert_eq!(heard.keep(at(1_000), budget, 3, &[1; 20_000]), None, "more than a part");
}

#[test]
fn a_sender_that_is_of_no_use_makes_room_for_another() {
    let budget = 1 << 20;
    let mut heard = Overheard::default();
    for sender in 0..SENDERS_MAX as u64 {
        assert!(heard.keep(at(sender), budget, sender, &octets(sender)).is_some());
    }
    heard.senders.get_mut(&0).unwrap().useful = true;
    assert_eq!((heard.keep(at(900), budget, 99, &octets(99)), heard.crowded), (None, 1));
    assert!(heard.keep(at(950), budget, 0, &octets(100)).is_some(), "it is heard still, and of use");
    assert!(heard.keep(at(950), budget, 1, &octets(101)).is_some(), "this one is heard and of none");
    assert!(heard.keep(at(1_001), budget, 99, &octets(99)).is_some());
    let has = |heard: &Overheard, n| heard.octets.contains_key(&digest_of(&octets(n)));
    assert!(has(&heard, 0) && has(&heard, 100) && !has(&heard, 1) && !has(&heard, 101));
    assert_eq!(heard.keep(at(1_001), budget, 98, &octets(98)), None, "the next came a moment later");
    assert!(heard.keep(at(2_000), budget, 98, &octets(98)).is_some());
    assert!((2..40).all(|n| heard.keep(at(4_000), budget, n + 200, &octets(n + 200)).is_some() || n >= 18));
    assert!(!has(&heard, 0), "it was of use, and is silent");
    assert_eq!(heard.senders.len(), SENDERS_MAX);
    let kept: u64 = heard.octets.values().map(|(_, octets)| octets.len() as u64 + DATAGRAM_OCTETS).sum();
    assert_eq!(heard.held(), kept);
}
