//! Virtual retransmission over one hop: only what the next node lacks is sent.

use super::*;
use wavelane_base::RangeSet;
use wavelane_wire::frame::{Answered, Ranges, ReceiptState};

/// Spans as the vectors write them.
fn spans(text: &str) -> Vec<(u64, u64)> {
    let parts = text.split(',').filter(|part| *part != "none");
    parts.map(|part| part.split_once('-').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unwrap()).collect()
}

/// `vectors/vtx.txt`, which a second implementation in another language checks as well.
#[test]
fn golden_vtx_frames() {
    let text = include_str!("../../../../../vectors/vtx.txt");
    let mut checked = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        let flow = FlowName { mine: number(2) == 1, number: number(1) };
        let frame = if words[0] == "offer" {
            let (block, start, length) = (number(3), number(4), Some(number(5)));
            Frame::Offer { flow, block, start, length, micro: false, vtx: true, parcels: false }
        } else {
            let (start, end) = (number(3), number(3) + number(4));
            let (here, mut known) = (spans(words[6]), RangeSet::default());
            here.iter().for_each(|&(from, to)| known.insert(from, to));
            assert_eq!(known.gaps(start, end), spans(words[7]), "{line}");
            let ranges = Ranges(here.into_iter().map(|(from, to)| (from, to - 1)).collect());
            Frame::Receipt { flow, state: ReceiptState::AlreadyHave, cumulative: start, credit: number(5), ranges }
        };
        let mut buf = [0; 200];
        let mut w = Writer::new(&mut buf);
        frame.emit(&mut w).unwrap();
        let bytes = w.len();
        let hex: String = buf[..bytes].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, *words.last().unwrap(), "{line}");
        assert_eq!(Frames::new(&buf[..bytes]).next(), Some(Ok(frame)));
        checked += 1;
    }
    assert!(checked >= 8);
}

/// A flow across relays with `octets` written on side 0, and read on side 1.
fn passed_on(loss: Ratio, octets: u64) -> (World, FlowName, FlowName) {
    let mut world = World::new(5, Pipe { loss, ..Pipe::default() }, HopConfig::default());
    let passage = Some(Passage { token: [7; 16], hops: 1, received: None, ..Passage::default() });
    let near = world.hops[0].open(world.now, source(), target(), passage).unwrap();
    let far = near.from_other_side();
    while world.hops[1].flows.is_empty() {
        world.step(ms(60_000));
    }
    world.hops[1].accept(world.now, far, Some(Answered::default()));
    let (mut written, mut buf) = (0, [0; 30_000]);
    while world.hops[0].receipted(near) < octets {
        let bytes: Vec<u8> = (written..octets).map(|at| pattern(0, 0, at)).collect();
        written += world.hops[0].write(world.now, near, &bytes) as u64;
        while matches!(world.hops[1].read(world.now, far, &mut buf), ReadOutcome::Data(_)) {}
        assert!(world.now < ms(60_000), "{written} of {octets}");
        world.step(world.now + Span::from_millis(5));
    }
    world.events = [Vec::new(), Vec::new()];
    (world, near, far)
}

/// Side 0 asks, side 1 has `owners` of what it read. Returns what was retransmitted to side 1.
fn ask(world: &mut World, (near, far): (FlowName, FlowName), span: (u64, u64), owners: &[(u64, u64)]) -> RangeSet {
    world.hops[0].offer_vtx(near, span.0, span.1);
    let mut known = RangeSet::default();
    owners.iter().for_each(|&(from, to)| known.insert(from, to));
    let (mut again, until) = (RangeSet::default(), world.now + Span::from_secs(20));
    while world.now < until {
        world.step(until);
        for event in core::mem::take(&mut world.events[1]) {
            match event {
                HopEvent::Vtx(_, start, end) => world.hops[1].answer_vtx(far, (start, end), &known),
                HopEvent::Again(_, offset, bytes) => {
                    assert!(bytes.iter().zip(offset..).all(|(b, at)| *b == pattern(0, 0, at)));
                    again.insert(offset, offset + bytes.len() as u64);
                }
                _ => {}
            }
        }
        for event in core::mem::take(&mut world.events[0]) {
            if let HopEvent::Lacks(_, parts) = event {
                for (start, end) in parts {
                    let bytes = (start..end).map(|at| pattern(0, 0, at)).collect();
                    world.hops[0].send_again(near, start, bytes);
                }
            }
        }
    }
    again
}

#[test]
fn vtx_sends_only_missing_bytes() {
    for loss in [Ratio::ZERO, ratio(1, 5)] {
        let (mut world, near, far) = passed_on(loss, 300_000);
        let first = world.hops[0].counters().first_octets;
        let again = ask(&mut world, (near, far), (100_000, 200_000), &[(0, 120_000), (150_000, 180_000)]);
        assert_eq!(again.descending().collect::<Vec<_>>(), [(180_000, 200_000), (120_000, 150_000)]);
        let sent = world.hops[0].counters();
        assert_eq!(sent.first_octets, first);
        assert!(sent.vtx_octets >= 50_000 && (loss != Ratio::ZERO || sent.vtx_octets == 50_000), "{sent:?}");
        // Bytes not reported lacking are duplicates, and a node that has everything gets nothing.
        let none = ask(&mut world, (near, far), (100_000, 200_000), &[(0, 300_000)]);
        assert!(none.is_empty());
        assert_eq!(world.hops[0].counters().vtx_octets, sent.vtx_octets);
        assert_eq!(world.hops[0].status().to_send, 0);
        let errors = |side: usize| world.hops[side].counters().protocol_errors;
        assert_eq!((errors(0), errors(1)), (0, 0));
    }
}

#[test]
fn excessive_vtx_offers_are_not_answered() {
    let (mut world, _, far) = passed_on(Ratio::ZERO, 300_000);
    let offer = |start, length| Frame::Offer {
        flow: far.from_other_side(),
        block: 0,
        start,
        length,
        micro: false,
        vtx: true,
        parcels: false,
    };
    let now = world.now;
    for n in 0..1_000 {
        world.hops[1].handle_frame(now + Span::from_millis(n), &offer(0, Some(1_000)));
    }
    let counters = world.hops[1].counters();
    assert_eq!((counters.vtx_offers, counters.dropped_vtx_often), (10, 990), "one in a round trip of 100 ms");
    for (start, length) in [(0, None), (0, Some(VTX_OCTETS_MAX + 1)), (u64::MAX - 5, Some(10))] {
        world.hops[1].handle_frame(now + Span::from_secs(10), &offer(start, length));
    }
    assert_eq!((world.hops[1].counters().vtx_offers, world.hops[1].counters().protocol_errors), (10, 3));
}
