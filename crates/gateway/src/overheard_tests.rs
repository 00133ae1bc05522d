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

/// What each takes.
const SIZE: u64 = 1_000 + DATAGRAM_OCTETS;

impl Overheard {
    fn has(&self, n: u64) -> bool {
        self.octets.contains_key(&digest_of(&octets(n)))
    }
    fn hears(&mut self, now: Instant, budget: u64, sender: u64, octets: &[u8]) -> Option<Digest> {
        self.keep(now, budget, PeerId(0), sender, octets)
    }
    fn named(&mut self, n: u64) -> bool {
        self.take(PeerId(0), &digest_of(&octets(n)), 1_000) == Some(octets(n))
    }
    /// The totals are what they are totals of.
    fn check(&self, budget: u64) {
        let all: u64 = self.octets.values().map(|heard| heard.octets.len() as u64 + DATAGRAM_OCTETS).sum();
        let by_sender: u64 = self.senders.values().map(|sender| sender.octets).sum();
        assert_eq!((self.held, by_sender), (all, all));
        assert!(all <= budget && self.senders.len() <= SENDERS_MAX);
        let listed: usize = self.senders.values().map(|sender| sender.order.len()).sum();
        assert!(listed >= self.octets.len());
    }
}

#[test]
fn a_flood_takes_nothing_from_a_sender_that_is_of_use() {
    let budget = OF_NONE * 10 * SIZE;
    let mut heard = Overheard::default();
    assert!(heard.hears(at(0), budget, 1, &octets(0)).is_some());
    assert_eq!(heard.hears(at(1), budget, 2, &octets(0)), None, "known already");
    for n in 1..1_000 {
        assert!(heard.hears(at(n), budget, 2, &octets(n)).is_some(), "the newest, as it is of no use yet");
    }
    assert!(heard.has(0) && !heard.has(989) && heard.has(990) && heard.octets.len() == 11);
    heard.check(budget);
    assert!(heard.named(0) && !heard.named(0), "once");
    assert_eq!((heard.missed, heard.hears(at(1_000), budget, 3, &[1; 255])), (1, None));
    // Of use it may keep half of all, and what it was told of stays.
    let kept = (0..1_000).filter(|n| heard.hears(at(1_001), budget, 1, &octets(2_000 + n)).is_some()).count() as u64;
    assert_eq!(kept, OF_NONE * 10 / OF_USE);
    assert!(heard.has(2_000) && heard.crowded == 1_000 - kept);
    heard.check(budget);
    assert!(heard.hears(at(6_001), budget, 1, &octets(9_000)).is_some(), "nobody named them in time");
    assert!(!heard.has(2_000) && heard.has(990), "another sender's go when that is heard again");
    heard.check(budget);
}

#[test]
fn a_sender_that_is_of_no_use_makes_room_for_another() {
    let budget = 1 << 20;
    let mut heard = Overheard::default();
    for sender in 0..SENDERS_MAX as u64 {
        assert!(heard.hears(at(sender), budget, sender, &octets(sender)).is_some());
    }
    assert!(heard.named(0));
    assert_eq!((heard.hears(at(900), budget, 99, &octets(99)), heard.crowded), (None, 1));
    assert!(heard.hears(at(950), budget, 0, &octets(100)).is_some(), "it is heard still, and of use");
    assert!(heard.hears(at(950), budget, 1, &octets(101)).is_some(), "this one is heard and of none");
    assert!(heard.hears(at(1_001), budget, 99, &octets(99)).is_some());
    assert!(heard.has(100) && !heard.has(1) && !heard.has(101));
    assert_eq!(heard.hears(at(1_001), budget, 98, &octets(98)), None, "the next came a moment later");
    assert!(heard.hears(at(2_000), budget, 98, &octets(98)).is_some());
    heard.check(budget);
    let came = (200..240).filter(|n| heard.hears(at(4_000), budget, *n, &octets(*n)).is_some()).count();
    assert_eq!((came, heard.has(100)), (SENDERS_MAX, false), "it was of use, and is silent");
    heard.check(budget);
}

#[test]
fn the_same_octets_of_two_senders_are_counted_once() {
    let budget = OF_NONE * 2 * SIZE;
    let mut heard = Overheard::default();
    assert!(heard.hears(at(0), budget, 1, &octets(0)).is_some() && heard.named(0));
    assert!(heard.hears(at(1), budget, 2, &octets(0)).is_some(), "heard again after they were named");
    assert!(heard.hears(at(2), budget, 1, &octets(1)).is_some());
    assert!(heard.has(0), "the first sender's record of them is old");
    heard.check(budget);
}

/// Two stations are of use, leave all that may be kept behind and fall silent or go elsewhere.
#[test]
fn what_silent_senders_left_behind_makes_room() {
    let budget = OF_NONE * 10 * SIZE;
    let mut heard = Overheard::default();
    for sender in [1, 2] {
        assert!(heard.hears(at(0), budget, sender, &octets(sender)).is_some() && heard.named(sender));
        for n in 0..OF_NONE * 10 / OF_USE {
            assert!(heard.hears(at(0), budget, sender, &octets(sender << 20 | n)).is_some());
        }
    }
    assert_eq!(heard.hears(at(4_999), budget, 3, &octets(3)), None, "there is no room");
    assert!(heard.hears(at(5_000), budget, 3, &octets(3)).is_some(), "nobody named them in time");
    heard.check(budget);
}

#[test]
fn only_the_neighbour_that_was_to_receive_octets_may_name_them() {
    let mut heard = Overheard::default();
    assert!(heard.hears(at(0), 1 << 20, 1, &octets(0)).is_some());
    assert_eq!((heard.take(PeerId(1), &digest_of(&octets(0)), 1_000), heard.missed), (None, 1));
    assert!(heard.named(0), "and takes nothing from it by that");
    assert!(heard.hears(at(1), 1 << 20, 1, &octets(1)).is_some());
    heard.forget();
    assert!(!heard.named(1), "it may have another number now");
    heard.check(0);
}
