use super::*;
use crate::last_bytes::PATIENCE;
use crate::socket::Rooms;
use wavelane_base::Span;

const T0: Instant = Instant::from_secs(1);

fn splice(flow: u64, stage: Stage) -> Splice {
    Splice::new(T0, Rooms { first: 1 << 16, most: 1 << 17, per_byte: 4 }, FlowId(flow), stage)
}

fn one(stage: Stage) -> Connections<()> {
    let mut connections = Connections::default();
    connections.insert(7, splice(1, stage), ());
    connections
}

#[test]
fn a_connection_is_served_once_however_often_it_is_ready() {
    let mut connections = one(Stage::Open);
    connections.ready(7, true, false);
    connections.ready(7, false, true);
    connections.enqueue_flow(FlowId(1));
    assert_eq!((connections.next_to_serve(), connections.next_to_serve()), (Some(7), None));
    // A connection with more to do is queued again, behind others.
    connections.insert(8, splice(2, Stage::Open), ());
    connections.enqueue(8);
    assert_eq!(connections.serve(T0, 7, |_, ()| Turn::More), None);
    assert_eq!((connections.next_to_serve(), connections.next_to_serve()), (Some(8), Some(7)));
}

#[test]
fn a_connect_counts_until_it_ends() {
    let until = T0 + Span::from_secs(10);
    let mut opened = one(Stage::Connecting(until));
    assert!(opened.any_connecting() && opened.late(T0).is_empty());
    assert_eq!(opened.late(until), [7]);
    assert_eq!(opened.opened(T0, 7), Some(FlowId(1)));
    assert!(!opened.any_connecting() && opened.late(until).is_empty());

    let mut forgotten = one(Stage::Connecting(until));
    assert!(forgotten.forget(7).is_some() && !forgotten.any_connecting());

    // Its flow is reset meanwhile: nothing was sent to the server.
    let mut left = one(Stage::Connecting(until));
    assert!(left.leave(T0, 7, |_, ()| panic!("nothing to deliver")).is_some());
    assert!(!left.any_connecting() && left.is_empty());
}

#[test]
fn a_connection_is_served_only_while_open() {
    let mut connections = one(Stage::Waiting);
    connections.enqueue(7);
    assert_eq!(connections.serve(T0, 7, |_, ()| panic!("it waits")), None);
    connections.opened(T0, 7);
    assert_eq!(connections.serve(T0, 7, |_, ()| Turn::Done), Some(Turn::Done));
}

#[test]
fn last_bytes_are_waited_for_while_they_are_taken() {
    let leaving = || {
        let mut connections = one(Stage::Open);
        let left = connections.leave(T0, 7, |splice, ()| {
            splice.stage = Stage::Leaving;
            true
        });
        assert!(left.is_none() && connections.token_of(FlowId(1)).is_none());
        connections
    };
    let at = |millis| T0 + Span::from_millis(millis);
    let mut delivered = leaving();
    assert!(delivered.deadline().is_some_and(|due| due > T0));
    assert_eq!(delivered.last_bytes_over(at(1), |_, ()| Some(1), |_| false), []);
    assert_eq!(delivered.last_bytes_over(at(1_000), |_, ()| None, |_| false), [(7, Due::Drop)]);

    let mut stuck = leaving();
    assert_eq!(stuck.last_bytes_over(at(1), |_, ()| Some(5), |_| false), []);
    assert_eq!(stuck.last_bytes_over(at(2) + PATIENCE, |_, ()| Some(5), |_| false), [(7, Due::Drop)]);
}

#[test]
fn a_failed_socket_waits_for_room_in_its_flow() {
    let mut connections = one(Stage::Open);
    connections.fail(7);
    assert_eq!(connections.serve(T0, 7, |_, ()| Turn::Idle), None);
    let late = T0 + PATIENCE + PATIENCE;
    // The neighbour is silent: the connection waits for it.
    assert_eq!(connections.last_bytes_over(late, |_, ()| None, |_| true), []);
    assert_eq!(connections.last_bytes_over(late + PATIENCE, |_, ()| None, |_| false), []);
    assert_eq!(connections.last_bytes_over(late + PATIENCE + PATIENCE, |_, ()| None, |_| false), [(7, Due::Reset)]);
}
