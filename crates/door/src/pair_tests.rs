use super::*;

const NOW: Instant = Instant::ZERO;

/// A pair with one accepted flow: its two ends.
fn open() -> (Pair, FlowId, FlowId) {
    let mut pair = Pair::new(PairConfig { room: 8, flows_max: 1, pool: 1 << 10 });
    let (source, target) = (SocketAddr::from(([10, 0, 0, 1], 40_000)), SocketAddr::from(([10, 0, 0, 2], 80)));
    let near = pair.open(NOW, (), source, target).expect("room for one");
    let far = other(near);
    assert_eq!(pair.open(NOW, (), source, target), Err(NotOpened::NoRoom));
    assert_eq!(pair.poll_event(), Some(FlowEvent::Incoming { flow: far, source, target }));
    pair.accept(NOW, far);
    assert_eq!(pair.poll_event(), Some(FlowEvent::Accepted(near)));
    (pair, near, far)
}

fn events(pair: &mut Pair) -> Vec<FlowEvent> {
    core::iter::from_fn(|| pair.poll_event()).collect()
}

#[test]
fn bytes_wait_up_to_the_bound_and_the_writer_hears_of_room() {
    let (mut pair, near, far) = open();
    assert_eq!(pair.write(NOW, near, b"0123456789"), 8);
    assert_eq!(pair.room(NOW, near), 0);
    assert_eq!(events(&mut pair), [FlowEvent::Readable(far)]);
    let mut buf = [0; 16];
    assert_eq!(pair.read(NOW, far, &mut buf[..1]), ReadOutcome::Data(1));
    assert_eq!(events(&mut pair), [], "one byte is not worth waking the writer");
    assert_eq!(pair.read(NOW, far, &mut buf), ReadOutcome::Data(7));
    assert_eq!((&buf[..7], events(&mut pair)), (&b"1234567"[..], vec![FlowEvent::Writable(near)]));
    assert_eq!(pair.read(NOW, far, &mut buf), ReadOutcome::Blocked);
}

#[test]
fn a_half_close_leaves_the_other_direction_open() {
    let (mut pair, near, far) = open();
    pair.write(NOW, near, b"ask");
    pair.shutdown(NOW, near);
    let mut buf = [0; 16];
    assert_eq!(pair.read(NOW, far, &mut buf), ReadOutcome::Data(3));
    assert_eq!(pair.read(NOW, far, &mut buf), ReadOutcome::End);
    assert_eq!(pair.write(NOW, far, b"answer"), 6);
    pair.shutdown(NOW, far);
    assert_eq!(pair.room(NOW, near), 0, "it has ended");
    events(&mut pair);
    assert_eq!(pair.read(NOW, near, &mut buf), ReadOutcome::Data(6));
    assert_eq!(events(&mut pair), [], "not closed before the end is read");
    assert_eq!(pair.read(NOW, near, &mut buf), ReadOutcome::End);
    assert_eq!(events(&mut pair), [FlowEvent::Closed(near), FlowEvent::Closed(far)]);
    assert_eq!(pair.flows(), 0);
}

#[test]
fn a_reset_arrives_behind_the_bytes_and_the_end() {
    let (mut pair, near, far) = open();
    pair.write(NOW, near, b"last");
    pair.shutdown(NOW, near);
    events(&mut pair);
    pair.reset(NOW, near);
    assert_eq!(events(&mut pair), [FlowEvent::Ending(far)]);
    let mut buf = [0; 16];
    assert_eq!(pair.read(NOW, far, &mut buf), ReadOutcome::Data(4));
    assert_eq!(
        (pair.read(NOW, far, &mut buf), events(&mut pair)),
        (ReadOutcome::End, vec![FlowEvent::Reset(far, Reason::Aborted)])
    );
    assert_eq!((pair.read(NOW, far, &mut buf), pair.flows()), (ReadOutcome::Reset, 0));

    let (mut pair, near, far) = open();
    pair.reset(NOW, far);
    assert_eq!(events(&mut pair), [FlowEvent::Ending(near), FlowEvent::Reset(near, Reason::Aborted)]);
}

#[test]
fn a_refusal_names_its_cause() {
    let (mut pair, near, far) = open();
    pair.refuse(NOW, far, Reason::Unreachable);
    assert_eq!((events(&mut pair), pair.flows()), (vec![FlowEvent::Refused(near, Reason::Unreachable)], 0));
}

/// A pair of `flows` flows whose directions share `pool` bytes, and their near ends.
fn several(flows: usize, pool: usize) -> (Pair, Vec<FlowId>) {
    let mut pair = Pair::new(PairConfig { room: 1 << 10, flows_max: flows, pool });
    let (source, target) = (SocketAddr::from(([10, 0, 0, 1], 40_000)), SocketAddr::from(([10, 0, 0, 2], 80)));
    let near = (0..flows).map(|_| pair.open(NOW, (), source, target).expect("room")).collect();
    (pair, near)
}

#[test]
fn a_flow_counts_until_its_second_end_is_gone() {
    let (mut pair, near) = several(4, 1 << 20);
    for flow in &near {
        pair.write(NOW, *flow, b"unread");
        pair.reset(NOW, *flow);
    }
    let ends = (SocketAddr::from(([10, 0, 0, 1], 40_001)), SocketAddr::from(([10, 0, 0, 2], 80)));
    assert_eq!((pair.flows(), pair.open(NOW, (), ends.0, ends.1)), (4, Err(NotOpened::NoRoom)));
    let mut buf = [0; 16];
    assert_eq!(pair.read(NOW, other(near[0]), &mut buf), ReadOutcome::Data(6));
    assert_eq!((pair.flows(), pair.waiting()), (3, 18));
    pair.open(NOW, (), ends.0, ends.1).expect("one is over");
    pair.reset(NOW, other(near[1]));
    assert_eq!((pair.flows(), pair.waiting()), (3, 12));
}

#[test]
fn readers_that_stop_leave_the_others_their_share_of_the_pool() {
    let (mut pair, near) = several(16, 2_048);
    let data = [7; 1 << 10];
    let taken: Vec<usize> = near.iter().map(|flow| pair.write(NOW, *flow, &data)).collect();
    assert_eq!(taken[..3], [64, 60, 56], "each a sixteenth of what is left");
    assert!(taken.is_sorted_by(|a, b| a >= b) && taken[15] == 2_048 / 64, "{taken:?}");
    let back: Vec<usize> = near.iter().map(|flow| pair.write(NOW, other(*flow), &data)).collect();
    assert!(back.iter().all(|taken| *taken == 2_048 / 64), "an equal share of the other half: {back:?}");
    assert!(pair.waiting() <= 2_048, "{}", pair.waiting());
    events(&mut pair);
    // Once somebody reads, it is woken, although the pool is still full.
    let mut buf = [0; 64];
    assert_eq!(pair.read(NOW, other(near[15]), &mut buf), ReadOutcome::Data(32));
    assert_eq!(events(&mut pair), [FlowEvent::Writable(near[15])]);
    assert_eq!(pair.write(NOW, near[15], &data), 32);
    // And once others read, there is more for it.
    for flow in near.iter().flat_map(|flow| [*flow, other(*flow)]) {
        assert!(matches!(pair.read(NOW, flow, &mut buf), ReadOutcome::Data(32..)));
    }
    assert_eq!(pair.write(NOW, near[15], &data), 64);
}

#[test]
fn a_side_takes_up_to_its_high_mark_and_goes_on_at_its_low_one() {
    let mut pair = Pair::new(PairConfig { room: 64, flows_max: 1, pool: 1 << 12 });
    pair.set_marks(vec![("10.0.0.2/32".parse().expect("a network"), Marks { high: 10, low: 4 })]);
    let (source, target) = (SocketAddr::from(([10, 0, 0, 1], 40_000)), SocketAddr::from(([10, 0, 0, 2], 80)));
    let near = pair.open(NOW, (), source, target).expect("room for one");
    let far = other(near);
    assert_eq!(pair.write(NOW, far, &[0; 70]), 64, "the other side has the pair's room");
    assert_eq!(pair.write(NOW, near, &[0; 20]), 10);
    assert_eq!(pair.room(NOW, near), 0);
    events(&mut pair);
    for left in (5..10).rev() {
        pair.consume(NOW, far, 1);
        assert_eq!((pair.room(NOW, near), events(&mut pair)), (0, Vec::new()), "{left} wait");
    }
    pair.consume(NOW, far, 1);
    assert_eq!((events(&mut pair), pair.room(NOW, near)), (vec![FlowEvent::Writable(near)], 6));
}

/// Marks and pools at their ends: whoever is read goes on, and everything arrives.
#[test]
fn no_pool_and_no_marks_let_a_reader_wait_for_ever() {
    const EACH: usize = 200_000;
    let (least, most) = (16 << 10, 1 << 30);
    let marks = [None, Some((least, least)), Some((most, most)), Some((most, least)), Some((most, 0))];
    for (pool, marks) in [1, 64, 256 << 10, 1 << 40].iter().flat_map(|pool| marks.map(|marks| (*pool, marks))) {
        let mut pair = Pair::new(PairConfig { room: 128 << 10, flows_max: 8_000, pool });
        let network = "0.0.0.0/0".parse().expect("a network");
        pair.set_marks(marks.map(|(high, low)| (network, Marks { high, low })).into_iter().collect());
        let (source, target) = (SocketAddr::from(([10, 0, 0, 1], 40_000)), SocketAddr::from(([10, 0, 0, 2], 80)));
        let near: Vec<_> = (0..40).map(|_| pair.open(NOW, (), source, target).expect("room")).collect();
        let data = vec![7; EACH];
        for stopped in &near[1..] {
            pair.write(NOW, *stopped, &data);
        }
        events(&mut pair);
        let (mut written, mut got, mut turns) = (pair.write(NOW, near[0], &data), 0, 0);
        let mut buf = vec![0; 1_460];
        while got < EACH {
            let ReadOutcome::Data(octets) = pair.read(NOW, other(near[0]), &mut buf) else {
                panic!("{got} of {written} octets with a pool of {pool} and {marks:?}");
            };
            got += octets;
            turns += 1;
            // The writer goes on only when it is told.
            if events(&mut pair).contains(&FlowEvent::Writable(near[0])) {
                written += pair.write(NOW, near[0], &data[written..]);
            }
        }
        // With room for more than crumbs, in segments.
        assert!(pool < 1 << 18 || turns <= EACH / 512, "{turns} reads with a pool of {pool} and {marks:?}");
    }
}
