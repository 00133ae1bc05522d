//! Named queues: their delays in closed form, their marks, and changes while something waits.

use super::drive::{A, B, cable, drive, frame, mbit, ms, steady};
use wavelane_base::{Ecn, FrameMeta, Instant, Machine, Span};
use wavelane_channel::{Cause, CoDelTimes, Direction, DirectionConfig, Discipline, Parameter, QueueLimit, Queueing};

fn named(discipline: Discipline, packets: u64, ring: u64) -> DirectionConfig {
    let queueing = Queueing { discipline, ring };
    DirectionConfig { rate: mbit(12), queue: QueueLimit::Packets(packets), queueing, ..Default::default() }
}

/// A thousand before a ring of 256, at 12 Mbit/s and 1,500 bytes a frame: a millisecond each.
#[test]
fn two_stages_delay_by_the_sum_of_both() {
    for (q, ring) in [(1_000, 256), (100, 256), (0, 256), (0, 0), (50, 0)] {
        let offers = steady(2_000, 1_500, ms(0), Span::from_nanos(1));
        let out = drive(1, named(Discipline::Fifo, q, ring), &offers, &[]);
        // One in service, and what both hold.
        assert_eq!(out.arrivals.len() as u64, 1 + q + ring, "{q} {ring}");
        assert_eq!(out.arrivals.last().unwrap().at, ms(1 + q + ring), "{q} {ring}");
        assert_eq!(out.dropped(Cause::Queue), 2_000 - 1 - q - ring);
    }
}

/// A bulk flow of twice the rate, and a sparse one that sends a small frame every 50 ms.
fn sparse_waits(config: DirectionConfig) -> (Span, u64) {
    let mut cable = cable(1, config);
    let (mut sent, mut worst, mut out, mut lost) = (Vec::new(), Span::ZERO, vec![0; 2_000], 0);
    let mut collect = |cable: &mut wavelane_channel::Cable, sent: &[Instant], now: Instant| {
        while let Some(transmit) = cable.poll_transmit(now, B, &mut out, 1) {
            if transmit.len == 100 {
                let number = u64::from_be_bytes(out[..8].try_into().unwrap()) as usize;
                worst = worst.max(now.since(sent[number]));
            }
        }
    };
    for half_ms in 0..20_000u64 {
        let now = Instant::from_micros(half_ms * 500);
        while let Some(due) = cable.poll_timeout().filter(|due| due.at <= now) {
            cable.handle_timeout(due.at);
            collect(&mut cable, &sent, due.at);
        }
        let bulk = FrameMeta { flow: 7, ..FrameMeta::default() };
        cable.handle_frame(now, A, &mut frame(0, 1_500), bulk);
        if half_ms % 100 == 0 {
            let probe = FrameMeta { flow: 9, ..FrameMeta::default() };
            cable.handle_frame(now, A, &mut frame(sent.len() as u64, 100), probe);
            sent.push(now);
        }
        while let Some(wavelane_channel::CableEvent::Dropped { octets, .. }) = cable.poll_event() {
            lost += u64::from(octets == 100);
        }
    }
    (worst, lost)
}

#[test]
fn a_sparse_flow_passes_a_bulk_flow_unless_a_ring_holds_it_up() {
    let times = CoDelTimes::default();
    // At most the frame in service and one more, which has begun its turn.
    let (worst, lost) = sparse_waits(named(Discipline::FqCoDel(times), 1_000, 0));
    assert!(worst <= Span::from_micros(2_100) && lost == 0, "{worst} {lost}");
    // Each frame in the ring costs its time.
    let (worst, lost) = sparse_waits(named(Discipline::FqCoDel(times), 1_000, 20));
    assert!((Span::from_millis(19)..Span::from_millis(23)).contains(&worst) && lost == 0, "{worst} {lost}");
    let (worst, lost) = sparse_waits(named(Discipline::Fifo, 1_000, 0));
    assert!(worst > Span::from_millis(900) && lost > 0, "{worst} {lost}");
    // A source that answers nothing fills any single queue; PIE and CoDel then drop at their strongest.
    for discipline in [Discipline::CoDel(times), Discipline::Pie(Span::from_millis(15))] {
        let config = named(discipline, 1_000, 0);
        let offers = steady(4_000, 1_500, ms(0), Span::from_micros(900));
        let out = drive(1, config, &offers, &[]);
        assert!(out.dropped(Cause::Delay) > 200 && out.dropped(Cause::Queue) == 0, "{discipline:?}");
    }
}

#[test]
fn ecn_capable_frames_are_marked() {
    for discipline in [Discipline::CoDel(CoDelTimes::default()), Discipline::DualPi2(Span::from_millis(15))] {
        let mut cable = cable(1, named(discipline, 10_000, 0));
        let meta = FrameMeta { ecn: Ecn::Ect0, flow: 1, ..FrameMeta::default() };
        (0..1_000).for_each(|n| cable.handle_frame(ms(0), A, &mut frame(n, 1_500), meta));
        let (mut marked, mut plain, mut buf) = (0, 0, [0; 1_500]);
        for n in 0..=1_000 {
            cable.handle_timeout(ms(n));
            while let Some(transmit) = cable.poll_transmit(ms(n), B, &mut buf, 1) {
                match transmit.ecn {
                    Ecn::Ce => marked += 1,
                    Ecn::Ect0 => plain += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        let counters = cable.counters(Direction::Forward);
        assert!(marked > 10 && plain > 100, "{discipline:?}: {marked} of {}", marked + plain);
        assert_eq!(counters.marked, marked);
    }
}

#[test]
fn a_new_discipline_takes_over_the_queue() {
    let offers = steady(300, 1_500, ms(0), Span::from_nanos(1));
    let fq = Queueing { discipline: Discipline::FqCoDel(CoDelTimes::default()), ring: 2 };
    let changes = [
        (ms(10), Parameter::Queueing(QueueLimit::Packets(100), fq)),
        (ms(20), Parameter::Queue(QueueLimit::Packets(500))),
    ];
    let out = drive(1, named(Discipline::Fifo, 1_000, 0), &offers, &changes);
    // Ten have gone and one is in service; at most 100 and the ring's two find room, less a batch of 64 that makes room.
    assert!((11 + 36..=11 + 102).contains(&out.arrivals.len()), "{}", out.arrivals.len());
    assert_eq!(out.arrivals.len() as u64 + out.dropped(Cause::Queue), 300);
    // FQ-CoDel makes room at the head of the fattest flow, so the newest arrive.
    assert_eq!(out.numbers().last(), Some(&299));
}
