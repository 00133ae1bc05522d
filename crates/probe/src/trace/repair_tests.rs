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
            unmoved_ns: quiet_ns,
            first,
            end: first + 1_000,
            added: &self.added,
            at_head: true,
            highest: 10_000,
            syn: false,
            sack_permitted: true,
            sack_refused: false,
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
fn without_sack_only_the_timer_repeats_a_retransmission() {
    // New data leaves with every duplicate acknowledgement, so the direction is never quiet.
    let newreno = |unmoved_ns, permitted| {
        let mut r = Repairs::default();
        let case = Case::repeats(1_000, 10 * MS);
        let of = |now| Sending {
            duplicate_acks: 3,
            sack_permitted: permitted,
            sack_refused: !permitted,
            ..case.sending(1_000, now, MS)
        };
        r.sent(&of(60 * MS));
        let mut second = Case::repeats(1_000, 60 * MS);
        second.added.repeats.as_mut().unwrap().segment.again = 1;
        r.sent(&Sending { added: &second.added, unmoved_ns, duplicate_acks: 90, ..of(60 * MS + unmoved_ns) });
        (r.counts.fast, r.counts.rto, r.counts.timeouts)
    };
    assert_eq!(newreno(220 * MS, false), (1, 1, 1));
    assert_eq!(newreno(100 * MS, false), (1, 1, 1));
    // Lost once more, among new data: another timeout, which retransmits what was sent before it.
    let mut r = Repairs::default();
    let mut sends = |first: u64, sent_ms: u64, again, now_ms: u64, unmoved_ms: u64, highest| {
        let mut case = Case::repeats(first, sent_ms * MS);
        case.added.repeats.as_mut().unwrap().segment.again = again;
        let sending = Sending { highest, unmoved_ns: unmoved_ms * MS, ..case.sending(first, now_ms * MS, MS) };
        r.sent(&Sending { sack_permitted: false, sack_refused: true, ..sending });
        (r.counts.fast, r.counts.rto, r.counts.timeouts)
    };
    assert_eq!(sends(1_000, 10, 0, 300, 290, 10_000), (0, 1, 1));
    assert_eq!(sends(2_000, 10, 0, 340, 0, 12_000), (0, 2, 1));
    assert_eq!(sends(2_000, 340, 1, 560, 260, 20_000), (0, 3, 2));
    assert_eq!(sends(15_000, 500, 0, 600, 0, 20_000), (0, 4, 2));
    // With it RACK repeats a lost retransmission (RFC 8985, section 3.1).
    assert_eq!(newreno(100 * MS, true), (2, 0, 0));
    // The first one, too late for three duplicate acknowledgements.
    let mut r = Repairs::default();
    let case = Case::repeats(1_000, 10 * MS);
    let late =
        Sending { duplicate_acks: 77, sack_permitted: false, sack_refused: true, ..case.sending(1_000, 230 * MS, MS) };
    r.sent(&Sending { unmoved_ns: 220 * MS, ..late });
    assert_eq!((r.counts.rto, r.counts.timeouts), (1, 1));
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
