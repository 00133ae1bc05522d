#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::super::ledger::Sent;
use super::*;

const MS: u64 = 1_000_000;

fn rtt(ms: u64) -> Rtt {
    let mut rtt = Rtt::default();
    for _ in 0..100 {
        rtt.add(ms * MS);
    }
    rtt
}

fn known(first: u64, sent_ns: u64) -> Known {
    let segment = Sent { first, end: first + 1_000, sent_ns, again: 0, tsval: 500, ip_id: 70, sacked: false };
    Known { segment, acked: false }
}

struct Case {
    added: Added,
    here: Rtt,
    there: Rtt,
}

impl Case {
    /// A capture at the sender, 50 ms from the receiver.
    fn repeats(first: u64, sent_ns: u64) -> Self {
        let added = Added { again_octets: 1_000, repeats: Some(known(first, sent_ns)), ..Added::default() };
        Self { added, here: rtt(50), there: rtt(0) }
    }
    /// A capture at the receiver.
    fn fills(above: u64, came_ns: u64) -> Self {
        let added = Added { out_of_order: true, above: Some(known(above, came_ns)), ..Added::default() };
        Self { added, here: rtt(0), there: rtt(50) }
    }
    fn sending(&self, first: u64, now: u64, quiet_ns: u64) -> Sending<'_> {
        Sending {
            now,
            quiet_ns,
            first,
            end: first + 1_000,
            added: &self.added,
            at_head: true,
            highest: 10_000,
            syn: false,
            sack_permitted: true,
            duplicate_acks: 0,
            tsval: 600,
            ip_id: 90,
            segments: 1,
            here: &self.here,
            there: &self.there,
        }
    }
}

#[test]
fn delivery_of_something_sent_later_makes_it_fast() {
    let mut r = Repairs::default();
    r.acknowledged(1_000, true, Some(20 * MS), None);
    let case = Case::repeats(1_000, 10 * MS);
    r.sent(&case.sending(1_000, 60 * MS, MS));
    assert_eq!((r.counts.fast, r.certain), (1, 1));
}

#[test]
fn retransmissions_after_silence_are_an_rto() {
    let mut r = Repairs::default();
    let case = Case::repeats(1_000, 10 * MS);
    r.sent(&case.sending(1_000, 300 * MS, 250 * MS));
    r.acknowledged(2_000, true, None, None);
    let next = Case::repeats(2_000, 10 * MS);
    r.sent(&next.sending(2_000, 350 * MS, MS));
    assert_eq!((r.counts.rto, r.counts.timeouts, r.counts.fast), (2, 1, 0));
    // All that was sent before the timeout is acknowledged: it is over.
    r.acknowledged(10_000, true, Some(400 * MS), None);
    let later = Case::repeats(10_000, 390 * MS);
    r.sent(&Sending { highest: 20_000, ..later.sending(10_000, 450 * MS, MS) });
    assert_eq!((r.counts.rto, r.counts.fast), (2, 1));
}

#[test]
fn a_second_tail_retransmission_is_a_timeout() {
    let mut r = Repairs::default();
    let case = Case::repeats(9_000, 10 * MS);
    r.sent(&case.sending(9_000, 112 * MS, 102 * MS));
    assert_eq!(r.counts.tlp, 1);
    r.sent(&case.sending(9_000, 400 * MS, 288 * MS));
    assert_eq!((r.counts.tlp, r.counts.rto), (1, 1));
    // Linux probes only where SACK was agreed on.
    let mut without = Repairs::default();
    without.sent(&Sending { sack_permitted: false, ..case.sending(9_000, 300 * MS, 290 * MS) });
    assert_eq!((without.counts.tlp, without.counts.rto), (0, 1));
}

#[test]
fn a_dsack_names_one_retransmission_once() {
    let mut r = Repairs::default();
    let case = Case::repeats(1_000, 10 * MS);
    r.sent(&case.sending(1_000, 300 * MS, 250 * MS));
    r.twice(5_000, 6_000);
    assert_eq!(r.counts.spurious, 0);
    r.twice(1_000, 2_000);
    r.twice(1_000, 2_000);
    assert_eq!((r.counts.spurious, r.counts.rto), (1, 1));
}

#[test]
fn an_echo_older_than_the_retransmission_ends_the_timeout() {
    let mut r = Repairs::default();
    let case = Case::repeats(1_000, 10 * MS);
    r.sent(&case.sending(1_000, 300 * MS, 250 * MS));
    r.acknowledged(2_000, true, Some(320 * MS), Some(500));
    let next = Case::repeats(2_000, 10 * MS);
    r.sent(&next.sending(2_000, 350 * MS, MS));
    assert_eq!((r.counts.rto, r.counts.fast), (1, 1));
}

#[test]
fn a_filled_gap_is_judged_by_clock_then_counter_then_time() {
    let gap = |s: &Sending<'_>| {
        let mut r = Repairs::default();
        r.sent(s);
        (r.counts.fast, r.counts.reordered, r.certain)
    };
    let case = Case::fills(2_000, 100 * MS);
    let late = case.sending(1_000, 200 * MS, MS);
    assert_eq!(gap(&late), (1, 0, 1));
    assert_eq!(gap(&Sending { tsval: 499, ..late }), (0, 1, 1));
    assert_eq!(gap(&Sending { tsval: 500, ip_id: 69, ..late }), (0, 1, 1));
    assert_eq!(gap(&Sending { tsval: 0, ip_id: 71, ..late }), (1, 0, 1));
    // Neither: a repair needs the way to the sender and back.
    assert_eq!(gap(&Sending { tsval: 0, ip_id: 0, ..late }), (1, 0, 0));
    assert_eq!(gap(&Sending { tsval: 0, ip_id: 0, now: 110 * MS, ..late }), (0, 1, 1));
    // After a silence that only a timer ends.
    let mut r = Repairs::default();
    r.sent(&Sending { now: 500 * MS, quiet_ns: 300 * MS, ..late });
    assert_eq!((r.counts.rto, r.filled), (1, 1));
}

#[test]
fn a_segment_that_the_card_cut_up_counts_as_many() {
    let mut r = Repairs::default();
    r.acknowledged(1_000, true, Some(20 * MS), None);
    let case = Case::repeats(1_000, 10 * MS);
    r.sent(&Sending { segments: 3, ..case.sending(1_000, 60 * MS, MS) });
    assert_eq!(r.counts.fast, 3);
}
