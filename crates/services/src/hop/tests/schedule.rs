//! The order of service, the cost of copies, and the bounds of credit.
use super::super::shares::FLOOR;
use super::*;
use wavelane_transport::Bulk;
use wavelane_wire::frame::{Ranges, ReceiptState};

fn config(pool_mib: u64) -> HopConfig {
    HopConfig { flows_max: 512, pool: Octets::new(pool_mib << 20), ..HopConfig::default() }
}

#[test]
fn a_stalled_reader_resumes_intact_beside_others() {
    let mut world = World::new(20, Pipe::default(), HopConfig::default());
    let (idle, busy) = (world.open_accepted(), world.open_accepted());
    let mut stalled = [Stream::new(idle, 0, 3_000_000), Stream::new(idle, 1, 0)];
    stalled[0].stalled = true;
    for _ in 0..400 {
        stalled[0].pump(&mut world);
        world.run_until(world.now + Span::from_millis(5));
    }
    let begin = world.now;
    let mut streams = [Stream::new(busy, 0, 5_000_000), Stream::new(busy, 1, 0)];
    finish_all(&mut world, &mut streams, ms(20_000));
    let goodput = Rate::of(Octets::new(5_000_000), world.now.since(begin)).as_bps();
    assert!(goodput > 16_500_000, "{goodput} bit/s beside a stalled flow");
    let probes = world.hops[0].counters().probes;
    world.run_until(world.now + Span::from_secs(60));
    let asked = world.hops[0].counters().probes - probes;
    assert!((3..=8).contains(&asked), "a sender without credit asks every 16 s, not {asked} times a minute");
    stalled[0].stalled = false;
    let deadline = world.now + Span::from_secs(5);
    finish_all(&mut world, &mut stalled, deadline);
}

#[test]
fn credit_and_the_pool_bound_memory_for_any_stall() {
    let pipe = Pipe { rate: Rate::from_bps(200_000_000), delay: Span::from_millis(10), ..Pipe::default() };
    let mut world = World::new(21, pipe, config(4));
    let flows: Vec<FlowName> = (0..60).map(|_| world.open_accepted()).collect();
    let mut streams: Vec<Stream> = flows.iter().map(|&f| Stream::new(f, 0, 150_000)).collect();
    streams.iter_mut().for_each(|s| s.stalled = true);
    let bound = (2 << 20) + 60 * FLOOR;
    for _ in 0..300 {
        streams.iter_mut().for_each(|s| s.pump(&mut world));
        world.run_until(world.now + Span::from_millis(10));
        let (sender, receiver) = (world.hops[0].status(), world.hops[1].status());
        assert!(sender.to_send <= bound && receiver.unread <= bound, "{sender:?} {receiver:?}");
    }
    assert!(world.hops[1].status().unread > 1 << 20, "the test must fill the pool: {:?}", world.hops[1].status());
    assert_eq!(world.hops[1].counters().dropped_beyond_credit, 0);
    streams.iter_mut().for_each(|s| s.stalled = false);
    let deadline = world.now + Span::from_secs(60);
    finish_all(&mut world, &mut streams, deadline);
}

/// A hop whose flows were all accepted by a peer with unlimited credit.
fn lone_hop(flows: u64) -> (Lone, Vec<FlowName>) {
    let mut hop = Lone::new(HopConfig::default());
    let names: Vec<FlowName> = (0..flows).map(|_| hop.open(ms(1), source(), target(), None).unwrap()).collect();
    hop.set_path(PathView { rate: Rate::from_bps(100_000_000), ..PathView::default() });
    let mut carried = Vec::new();
    while hop.wants(ms(1)).is_some() {
        hop.fill(ms(1), Class::Bulk, &mut Writer::new(&mut [0; MTU_PAYLOAD]), &mut carried);
    }
    carried.into_iter().for_each(|c| hop.delivered(ms(2), c));
    for name in &names {
        let answer = Frame::Answer { flow: name.from_other_side(), refusal: None, credit: 1 << 40, edge: None };
        hop.handle_frame(ms(2), &answer);
    }
    while hop.poll_event().is_some() {}
    (hop, names)
}

fn fill(hop: &mut Lone, at: Instant, class: Class) -> Vec<Carried> {
    let mut carried = Vec::new();
    hop.fill(at, class, &mut Writer::new(&mut [0; MTU_PAYLOAD]), &mut carried);
    carried
}

#[test]
fn bulk_flows_share_by_bytes_including_repairs() {
    let (mut hop, names) = lone_hop(3);
    let mut sent: BTreeMap<FlowName, u64> = BTreeMap::new();
    for _ in 0..2_000 {
        for &name in &names {
            hop.write(ms(3), name, &[0; 65_536]);
        }
        for c in fill(&mut hop, ms(3), Class::Bulk) {
            if let Item::Data { len, .. } = c.item {
                *sent.entry(c.flow).or_default() += u64::from(len);
                // The first flow loses two of three datagrams; its repairs count against its own share.
                if c.flow == names[0] && c.serial % 3 > 0 {
                    hop.lost(ms(3), c);
                }
            }
        }
    }
    assert!(hop.counters().repair_octets > 300_000, "{:?}", hop.counters());
    let (least, most) = (sent.values().min().unwrap(), sent.values().max().unwrap());
    assert!(sent.len() == 3 && most - least <= 2 * 9_216, "{sent:?}");
}

#[test]
fn micro_data_passes_bulk_but_cannot_starve_it() {
    let (mut hop, names) = lone_hop(100);
    hop.write(ms(3), names[0], &[0; 100_000]);
    fill(&mut hop, ms(3), Class::Bulk);
    assert_eq!(hop.wants(ms(3)), Some(Class::Bulk));
    hop.write(ms(3), names[1], &[0; 64]);
    assert_eq!(hop.wants(ms(3)), Some(Class::Micro));
    let first = fill(&mut hop, ms(3), Class::Bulk)[0];
    assert_eq!((first.flow, first.item), (names[1], Item::Data { offset: 0, len: 64 }));
    // 99 flows of micro-blocks, all at once: 99,000 octets against a budget of 16 KiB and then half.
    for &name in &names[2..] {
        hop.write(ms(3), name, &[0; 1_000]);
    }
    let mut bulk_octets = 0;
    for _ in 0..60 {
        for c in fill(&mut hop, ms(3), Class::Bulk) {
            if let (Item::Data { len, .. }, true) = (c.item, c.flow == names[0]) {
                bulk_octets += u64::from(len);
            }
        }
    }
    assert!((20_000..40_000).contains(&bulk_octets), "bulk got {bulk_octets} of about 70,000 octets");
}

#[test]
fn the_class_limits_a_datagrams_frames() {
    let (mut hop, names) = lone_hop(2);
    hop.write(ms(3), names[0], &[0; 100_000]);
    assert!(fill(&mut hop, ms(3), Class::Micro).is_empty(), "bulk does not ride on a micro permission");
    hop.write(ms(3), names[1], &[0; 64]);
    assert!(fill(&mut hop, ms(3), Class::Control).is_empty());
    assert_eq!(fill(&mut hop, ms(3), Class::Micro).len(), 1);
}

/// 64 octets every 100 ms, `count` times, beside `others`; returns the one-way times in ms.
fn echo(world: &mut World, others: &mut [Stream], count: usize) -> Vec<u64> {
    let flow = world.open_accepted();
    let other = flow.from_other_side();
    let (mut times, mut written_at, mut got) = (Vec::new(), Vec::new(), 0);
    let begin = world.now;
    while written_at.len() < count {
        let due = begin + Span::from_millis(100 * written_at.len() as u64);
        while world.now < due {
            others.iter_mut().for_each(|s| s.pump(world));
            world.step(due);
            let mut buf = [0; 4_096];
            while let ReadOutcome::Data(n) = world.hops[1].read(world.now, other, &mut buf) {
                got += n;
                while times.len() < got / 64 {
                    let at: Instant = written_at[times.len()];
                    times.push(world.now.since(at).as_millis());
                }
            }
        }
        assert_eq!(world.hops[0].write(world.now, flow, &[7; 64]), 64);
        written_at.push(world.now);
    }
    times
}

#[test]
fn copies_hide_loss_from_an_echo_at_no_more_than_their_budget() {
    let pipe = Pipe { loss: Ratio::new(1, 20).unwrap(), ..Pipe::default() };
    let mut world = World::new(22, pipe, HopConfig::default());
    let mut times = echo(&mut world, &mut [], 600);
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    assert!(p99 <= 50 + 41, "one-way p99 {p99} ms; a repair alone would take 175 ms");
    let late = times.iter().filter(|t| **t > 50 + 81).count();
    assert!(late <= 6, "{late} of 600 lost all three sendings (and held up the next)");
    let c = world.hops[0].counters();
    assert!(c.copy_octets <= 2 * (c.first_octets + c.repair_octets), "at most three sendings: {c:?}");
    assert!(c.copy_octets > c.first_octets, "copies must have been sent: {c:?}");
}

#[test]
fn a_clean_path_gets_no_copies() {
    let mut world = World::new(23, Pipe::default(), HopConfig::default());
    let times = echo(&mut world, &mut [], 600);
    assert!(times.iter().all(|t| *t <= 51), "{:?}", times.iter().max());
    let c = world.hops[0].counters();
    assert_eq!((c.copy_octets, c.control_copies, c.repair_octets), (0, 0, 0));
}

#[test]
fn thousands_of_micro_flows_cannot_triple_the_traffic() {
    let (mut hop, names) = lone_hop(2_000);
    hop.set_path(PathView { loss: 0.05, ..PathView::default() });
    for (i, &name) in names.iter().enumerate() {
        let at = ms(10 + i as u64);
        hop.write(at, name, &[0; 1_000]);
        while hop.wants(at).is_some() {
            fill(&mut hop, at, Class::Bulk);
        }
    }
    let c = hop.counters();
    // 2 s: a quarter of the bytes, 4 KiB per second, and what was saved up.
    let allowed = c.first_octets / 4 + 2 * 4_096 + (16 << 10) + 1_100;
    assert!(c.copy_octets > c.first_octets / 5 && c.copy_octets <= allowed, "{c:?}");
}

#[test]
fn a_receipt_cancels_copies_and_custody_needs_no_lane_ack() {
    let (mut hop, names) = lone_hop(1);
    hop.set_path(PathView { loss: 0.05, ..PathView::default() });
    hop.write(ms(3), names[0], &[0; 64]);
    fill(&mut hop, ms(3), Class::Bulk);
    assert!(hop.poll_timeout().is_some_and(|w| w.at == ms(23)), "{:?}", hop.poll_timeout());
    let flow = names[0].from_other_side();
    let ranges = Ranges::default();
    let state = ReceiptState::Accept;
    hop.handle_frame(ms(5), &Frame::Receipt { flow, state, cumulative: 64, credit: 1 << 40, ranges });
    assert_eq!((hop.poll_timeout(), hop.status().to_send), (None, 0));
}

/// A receipt with many ranges is truncated at its low end: above the lowest listed range it is complete.
#[test]
fn a_truncated_receipt_repairs_above_its_lowest_range() {
    let (mut hop, names) = lone_hop(1);
    hop.write(ms(3), names[0], &[0; 50_000]);
    while hop.wants(ms(3)).is_some() {
        for c in fill(&mut hop, ms(3), Class::Bulk) {
            hop.delivered(ms(103), c);
        }
    }
    // Every other 500 bytes from 8,000 to 48,000, and nothing above: the 32 highest of these ranges are listed.
    let held: Vec<(u64, u64)> = (8..48).rev().map(|n| (n * 1_000, n * 1_000 + 499)).take(32).collect();
    let lowest = held[31].0;
    let (flow, state, ranges) = (names[0].from_other_side(), ReceiptState::Accept, Ranges(held));
    hop.handle_frame(ms(300), &Frame::Receipt { flow, state, cumulative: 1_000, credit: 1 << 40, ranges });
    let contradicted = hop.counters().contradicted_octets;
    let above = 50_000 - lowest - 32 * 500;
    assert!(
        (above..above + 2_000).contains(&contradicted),
        "{contradicted} bytes, {above} are known to be missing there"
    );
}

#[test]
fn landed_bytes_without_receipt_are_queried_then_retransmitted() {
    let (mut hop, names) = lone_hop(1);
    hop.write(ms(3), names[0], &[0; 5_000]);
    while hop.wants(ms(3)).is_some() {
        for c in fill(&mut hop, ms(3), Class::Bulk) {
            hop.delivered(ms(103), c);
        }
    }
    assert_eq!(hop.status().to_send, 5_000, "custody is the receipt's word");
    let question = hop.poll_timeout().unwrap().at;
    assert!(question <= ms(103) + Span::from_millis(200));
    hop.handle_timeout(question);
    assert_eq!(fill(&mut hop, question, Class::Bulk)[0].item, Item::Offer);
    let (flow, state, ranges) = (names[0].from_other_side(), ReceiptState::Accept, Ranges(vec![(3_000, 3_999)]));
    let receipt = Frame::Receipt { flow, state, cumulative: 1_000, credit: 1 << 40, ranges };
    hop.handle_frame(question + Span::from_millis(100), &receipt);
    assert_eq!(hop.counters().contradicted_octets, 3_000, "1,000..3,000 and 4,000..5,000 were dropped behind the lane");
    let again = fill(&mut hop, question + Span::from_millis(100), Class::Bulk);
    assert!(matches!(again[0].item, Item::Data { offset: 1_000, .. }), "{again:?}");
}

#[test]
fn a_spurious_loss_is_not_repaired_once_the_receipt_covers_it() {
    let (mut hop, names) = lone_hop(1);
    hop.write(ms(3), names[0], &[0; 3_000]);
    let carried: Vec<Carried> = (0..3).flat_map(|_| fill(&mut hop, ms(3), Class::Bulk)).collect();
    carried.iter().for_each(|c| hop.lost(ms(50), *c));
    assert_eq!(hop.wants(ms(50)), Some(Class::Bulk));
    carried.iter().for_each(|c| hop.delivered(ms(51), *c));
    assert_eq!(hop.wants(ms(51)), None, "newest information wins");
}

#[test]
fn a_writer_is_held_to_8_ms_and_woken_when_there_is_room() {
    let (mut hop, names) = lone_hop(1);
    // 200 Mbit/s x 8 ms = 200,000 octets.
    hop.set_path(PathView { rate: Rate::from_bps(200_000_000), ..PathView::default() });
    assert_eq!(hop.write(ms(3), names[0], &[0; 1_000_000]), 200_000);
    assert_eq!(hop.write(ms(3), names[0], &[0; 1]), 0);
    for _ in 0..13 {
        assert_eq!(hop.poll_event(), None, "not for less than 16 KiB");
        fill(&mut hop, ms(3), Class::Bulk);
    }
    fill(&mut hop, ms(3), Class::Bulk);
    assert_eq!(hop.poll_event(), Some(HopEvent::Writable(names[0])));
    fill(&mut hop, ms(3), Class::Bulk);
    assert_eq!(hop.poll_event(), None, "told once");
    hop.set_path(PathView { rate: Rate::from_bps(500_000), ..PathView::default() });
    let (flow, state, ranges) = (names[0].from_other_side(), ReceiptState::Accept, Ranges::default());
    hop.handle_frame(ms(4), &Frame::Receipt { flow, state, cumulative: 10_000, credit: 0, ranges });
    assert_eq!(hop.write(ms(4), names[0], &[0; 1_000]), 0, "a slower path lets the backlog drain first");
}

#[test]
fn bulk_without_credit_is_held_until_some_comes() {
    let (mut hop, names) = lone_hop(1);
    hop.set_path(PathView { rate: Rate::from_bps(200_000_000), ..PathView::default() });
    assert_eq!(hop.bulk(), Bulk::None);
    while hop.write(ms(3), names[0], &[0; 1_000_000]) > 0 {
        assert_eq!(hop.bulk(), Bulk::Ready);
        while hop.wants(ms(3)).is_some() {
            fill(&mut hop, ms(3), Class::Bulk);
        }
    }
    assert_eq!(hop.bulk(), Bulk::Held);
    let (flow, state, ranges) = (names[0].from_other_side(), ReceiptState::Accept, Ranges::default());
    let cumulative = hop.counters().first_octets;
    hop.handle_frame(ms(4), &Frame::Receipt { flow, state, cumulative, credit: cumulative + 100_000, ranges });
    assert!(hop.write(ms(4), names[0], &[0; 50_000]) > 0);
    assert_eq!(hop.bulk(), Bulk::Ready);
    hop.peer_restarted(ms(5));
    assert_eq!(hop.bulk(), Bulk::None);
}

#[test]
fn a_direction_may_begin_with_128_kib() {
    let (mut hop, names) = lone_hop(1);
    // 10 Mbit/s x 8 ms = 10,000 octets.
    hop.set_path(PathView { rate: Rate::from_bps(10_000_000), ..PathView::default() });
    for at in [ms(3), ms(1_000)] {
        assert_eq!(hop.write(at, names[0], &[0; 200_000]), 131_072, "the end of a short transfer is known at once");
        assert_eq!(hop.poll_event(), None);
        // Once everything was receipted it starts again.
        while hop.wants(at).is_some() {
            fill(&mut hop, at, Class::Bulk);
        }
        let (flow, state, ranges) = (names[0].from_other_side(), ReceiptState::Accept, Ranges::default());
        let cumulative = hop.counters().first_octets;
        hop.handle_frame(at, &Frame::Receipt { flow, state, cumulative, credit: 0, ranges });
        assert_eq!(hop.poll_event(), Some(HopEvent::Writable(names[0])));
    }
}

#[test]
fn a_writer_is_woken_when_half_of_its_limit_is_free() {
    let (mut hop, names) = lone_hop(1);
    // 10 Mbit/s x 8 ms = 10,000 octets.
    hop.set_path(PathView { rate: Rate::from_bps(10_000_000), ..PathView::default() });
    hop.write(ms(3), names[0], &[0; 200_000]);
    assert_eq!(hop.poll_event(), None);
    let woken = loop {
        fill(&mut hop, ms(3), Class::Bulk);
        if let Some(event) = hop.poll_event() {
            break event;
        }
    };
    assert_eq!(woken, HopEvent::Writable(names[0]));
    assert!((5_000..5_000 + MTU_PAYLOAD).contains(&hop.room(names[0])), "{}", hop.room(names[0]));
}

#[test]
fn no_path_estimate_can_break_it() {
    let (mut hop, names) = lone_hop(1);
    for (at, loss) in [(3, f64::NAN), (2_000, f64::INFINITY), (4_000, -1.0), (6_000, 1.0)] {
        hop.set_path(PathView { rtt: Span::ZERO, rate: Rate::from_bps(0), loss, burst: None, ..PathView::default() });
        hop.write(ms(at), names[0], &[0; 500]);
        let data = Frame::Data { flow: names[0].from_other_side(), offset: at, bytes: &[1; 100] };
        hop.handle_frame(ms(at), &data);
        while hop.wants(ms(at)).is_some() {
            fill(&mut hop, ms(at), Class::Bulk);
        }
        assert!(hop.poll_timeout().is_none_or(|w| w.at > ms(at)));
    }
    assert_eq!(hop.counters().received_octets, 400);
}

#[test]
fn an_echo_stays_quick_and_bulk_fast_through_bursts_of_loss() {
    // Up for 570 ms on average, down for 30 ms, both directions at once.
    let (mut dice, mut at, mut outages) = (Seed(24).chance("bursts"), Instant::ZERO, Vec::new());
    for _ in 0..110 {
        let from = at + dice.exponential(Span::from_millis(570));
        at = from + dice.exponential(Span::from_millis(30));
        outages.push((from, at));
    }
    let mut world = World::new(24, Pipe { outages, ..Pipe::default() }, HopConfig::default());
    for hop in &mut world.hops {
        hop.set_path(PathView { loss: 0.05, burst: Some(Span::from_millis(30)), ..hop.path });
    }
    let bulk = world.open_accepted();
    let mut streams = [Stream::new(bulk, 0, u64::MAX)];
    let begin = world.now;
    let mut times = echo(&mut world, &mut streams, 200);
    let goodput = Rate::of(Octets::new(streams[0].read), world.now.since(begin)).as_bps();
    times.sort_unstable();
    let (p50, p95) = (times[times.len() / 2], times[times.len() * 95 / 100]);
    // 20 Mbit/s x 1,180/1,240 x 0.95 = 18.1 Mbit/s; the echo is lost once in 20 and then waits for its copies.
    assert!((16_000_000..18_300_000).contains(&goodput), "{goodput} bit/s");
    assert!(p50 <= 52 && p95 <= 100, "one-way p50 {p50} ms, p95 {p95} ms");
    let c = world.hops[0].counters();
    assert!(c.copy_octets * 50 < c.first_octets, "copies tax bulk by at most 2 %: {c:?}");
}

/// Credit is granted while there is room and not withdrawn: forty stopped readers have more credit than the pool holds.
#[test]
fn stopped_readers_cause_no_endless_retransmission() {
    let config = HopConfig { flows_max: 60, pool: wavelane_base::Octets::new(1 << 20), ..HopConfig::default() };
    let mut world = World::new(12, Pipe { loss: wavelane_base::Ratio::new(1, 50).unwrap(), ..Pipe::default() }, config);
    let mut stopped: Vec<Stream> = Vec::new();
    for _ in 0..40 {
        let mut stream = Stream::new(world.open_accepted(), 0, 100_000);
        stream.stalled = true;
        stopped.push(stream);
    }
    for _ in 0..50 {
        stopped.iter_mut().for_each(|stream| stream.pump(&mut world));
        let next = world.now + Span::from_millis(100);
        world.run_until(next);
    }
    let (before, sent) = (world.hops[0].counters(), world.octets[0]);
    assert!(before.repair_octets <= 1 << 20, "{} octets were sent again", before.repair_octets);
    let end = world.now + Span::from_secs(10);
    world.run_until(end);
    // One query per second and flow, and nothing else.
    assert!(world.octets[0] - sent <= 40 * 11 * 100, "{} octets while nobody reads", world.octets[0] - sent);
    assert!(world.hops[1].status().unread <= 1 << 19);

    let flow = world.open_accepted();
    let mut streams = [Stream::new(flow, 0, 200_000), Stream::new(flow, 1, 0)];
    let deadline = world.now + Span::from_secs(20);
    finish_all(&mut world, &mut streams, deadline);
    // And once they read again, they get the rest.
    stopped.iter_mut().for_each(|stream| stream.stalled = false);
    let deadline = world.now + Span::from_secs(120);
    let mut all: Vec<Stream> = stopped;
    let ends: Vec<Stream> = all.iter().map(|stream| Stream::new(stream.flow, 1, 0)).collect();
    all.extend(ends);
    finish_all(&mut world, &mut all, deadline);
}
