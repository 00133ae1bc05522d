#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

/// A SYN from 10.0.`s`.1:`port` to 10.9.9.`t`:80, through the real parser.
fn syn(s: u8, port: u16, t: u8) -> Syn {
    let mut p = vec![0u8; 40];
    p[0] = 0x45;
    p[9] = 6;
    p[32] = 0x50;
    p[33] = 2;
    p[12..16].copy_from_slice(&[10, 0, s, 1]);
    p[16..20].copy_from_slice(&[10, 9, 9, t]);
    p[20..22].copy_from_slice(&port.to_be_bytes());
    p[23] = 80;
    Syn::parse(&p).unwrap()
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// The peer asked for each flow.
fn asked(flow: u64) -> String {
    format!("peer of {flow}")
}

fn begin(table: &mut Attempts<u32, String>, now: Instant, s: Syn, flow: u64) -> Vec<Ended<u32>> {
    let Arrival::New(held) = table.arrive(now, s, flow as u32) else { panic!("not new") };
    table.begin(now, s, FlowId(flow), asked(flow), held)
}

#[test]
fn a_syn_waits_for_the_answer_and_its_connection_is_found() {
    let mut table = Attempts::new(Limits::default());
    let s = syn(1, 1000, 1);
    assert!(begin(&mut table, at(0), s, 7).is_empty());
    assert_eq!(table.take(s.source, s.target), None, "not admitted yet");
    assert_eq!(table.answered(at(100), FlowId(7)), Some(Some(7)));
    assert_eq!(table.answered(at(100), FlowId(8)), None);
    assert_eq!(table.take(s.source, s.target), Some((FlowId(7), asked(7), false)));
    assert_eq!(table.count(), 0);
}

#[test]
fn a_syn_held_too_long_is_dropped_and_its_repeat_joins() {
    let mut table = Attempts::new(Limits::default());
    let s = syn(1, 1000, 1);
    begin(&mut table, at(0), s, 7);
    assert_eq!(table.expire(at(3_999)), (vec![], vec![]));
    assert_eq!(table.expire(at(4_000)), (vec![7], vec![]));
    assert_eq!(table.arrive(at(4_100), s, 70), Arrival::Joined(None));
    assert_eq!(table.arrive(at(4_101), s, 71), Arrival::Joined(Some(70)), "the older copy is discarded");
    assert_eq!(table.expire(at(8_200)).0, vec![71]);
    assert_eq!(table.answered(at(8_300), FlowId(7)), Some(None));
    assert_eq!(table.arrive(at(8_400), s, 72), Arrival::GoOn(72));
    assert_eq!(table.take(s.source, s.target), Some((FlowId(7), asked(7), false)));
}

/// Somebody who knows both ends sends one with another number: the first is what its sender waits for.
#[test]
fn a_forged_syn_takes_no_place() {
    let mut table = Attempts::new(Limits::default());
    let s = syn(1, 1000, 1);
    let forged = {
        let mut p = vec![0u8; 40];
        p[0] = 0x45;
        p[9] = 6;
        p[24] = 9;
        p[32] = 0x50;
        p[33] = 2;
        p[12..16].copy_from_slice(&[10, 0, 1, 1]);
        p[16..20].copy_from_slice(&[10, 9, 9, 1]);
        (p[20..22]).copy_from_slice(&1_000_u16.to_be_bytes());
        p[23] = 80;
        Syn::parse(&p).unwrap()
    };
    begin(&mut table, at(0), s, 7);
    assert_eq!(table.arrive(at(100), forged, 70), Arrival::Joined(Some(70)), "it is discarded");
    assert_eq!(table.arrive(at(1_000), s, 8), Arrival::Joined(Some(7)));
    // Held no more, a client that began anew has its chance.
    assert_eq!(table.expire(at(5_000)).0, vec![8]);
    assert_eq!(table.arrive(at(5_100), forged, 71), Arrival::Joined(None));
    assert_eq!(table.answered(at(5_200), FlowId(7)), Some(Some(71)));
}

#[test]
fn a_refusal_returns_the_syn_and_the_packet() {
    let mut table = Attempts::new(Limits::default());
    let s = syn(1, 1000, 1);
    begin(&mut table, at(0), s, 7);
    assert_eq!(table.refused(FlowId(7)), Some((s, asked(7), Some(7))));
    assert_eq!(table.refused(FlowId(7)), None);
}

/// What a session and an answer take over 5 to 19 s of round trip, beside the SYNs of a client that doubles its wait.
#[test]
fn an_answer_that_takes_long_meets_a_later_syn() {
    for round_trip in 5..20 {
        let mut table = Attempts::new(Limits::default());
        let s = syn(1, 1000, 1);
        begin(&mut table, at(0), s, 7);
        let answer = 2 * round_trip * 1_000;
        let through = (1..127_000).find(|ms| {
            let now = at(*ms);
            table.expire(now);
            // A SYN that is held then goes on at once.
            if *ms == answer && table.answered(now, FlowId(7)).flatten().is_some() {
                return true;
            }
            let is_syn = [1_000, 3_000, 7_000, 15_000, 31_000, 63_000].contains(ms);
            is_syn && matches!(table.arrive(now, s, 70), Arrival::GoOn(_))
        });
        assert!(through.is_some_and(|ms| ms < 2 * answer + 2_000), "{round_trip} s: {through:?}");
    }
}

#[test]
fn attempts_that_never_complete_time_out() {
    let mut table = Attempts::new(Limits::default());
    begin(&mut table, at(0), syn(1, 1, 1), 1);
    begin(&mut table, at(0), syn(1, 2, 1), 2);
    table.answered(at(0), FlowId(2));
    let (_, ended) = table.expire(at(10_000));
    assert_eq!(ended, [Ended { flow: FlowId(2), held: None, cause: Cause::Abandoned }]);
    let (_, ended) = table.expire(at(20_000));
    assert_eq!(ended, [Ended { flow: FlowId(1), held: None, cause: Cause::Abandoned }]);
}

#[test]
fn a_syn_flood_to_a_black_hole_leaves_others_served() {
    let mut table = Attempts::new(Limits::default());
    let good = syn(200, 5, 200);
    begin(&mut table, at(0), good, 1_000_000);
    let (mut refused, mut gave_way) = (0, 0);
    for i in 0..100_000u32 {
        // Eight flooding sources, one black hole.
        let s = syn((i % 8) as u8, (i / 8) as u16, 13);
        match table.arrive(at(1), s, i) {
            Arrival::New(held) => gave_way += table.begin(at(1), s, FlowId(u64::from(i)), asked(0), held).len(),
            Arrival::PairFull(_) | Arrival::TableFull(_) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((refused, gave_way), (100_000 - 2_047, 0), "what exceeds the table costs the link nothing");
    assert_eq!(table.count(), 2_048);
    // Another source and server in the middle of the flood; and the first attempt is still there.
    let ended = begin(&mut table, at(2), syn(100, 9, 100), 2_000_000);
    assert!(ended.len() == 1 && ended[0].cause == Cause::TableFull && ended[0].flow.0 < 100_000);
    assert_eq!(table.answered(at(3), FlowId(2_000_000)), Some(Some(2_000_000)));
    assert_eq!(table.answered(at(3), FlowId(1_000_000)), Some(Some(1_000_000)));
}

#[test]
fn forged_sources_displace_only_attempts_at_their_own_target() {
    let mut table = Attempts::new(Limits { total: 64, per_source: 16, per_pair: 8 });
    begin(&mut table, at(0), syn(250, 1, 250), 1_000_000);
    for i in 0..10_000u32 {
        let s = syn((i % 200) as u8, (i / 200) as u16, 13);
        if let Arrival::New(held) = table.arrive(at(1), s, i) {
            table.begin(at(1), s, FlowId(u64::from(i)), asked(0), held);
        }
        assert!(table.count() <= 64);
    }
    assert_eq!(table.answered(at(2), FlowId(1_000_000)), Some(Some(1_000_000)));
}

#[test]
fn one_source_scanning_many_targets_displaces_its_own_attempts() {
    let mut table = Attempts::new(Limits { total: 64, per_source: 16, per_pair: 8 });
    begin(&mut table, at(0), syn(9, 1, 1), 1_000_000);
    let mut causes = Vec::new();
    for t in 0..100u8 {
        causes.extend(begin(&mut table, at(1), syn(1, 7, t), u64::from(t)).into_iter().map(|e| e.cause));
    }
    assert_eq!(causes, vec![Cause::SourceFull; 84]);
    assert_eq!(table.count(), 17);
}
