use super::*;

const NOW: Instant = Instant::ZERO;

/// A pair with one accepted flow: its two ends.
fn open() -> (Pair, FlowId, FlowId) {
    let mut pair = Pair::new(PairConfig { room: 8, flows_max: 1 });
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
