#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::relays::Relays;
use crate::socket::{Receiving, Rooms};
use crate::{PATIENCE, PairConfig};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use wavelane_base::Span;

const T0: Instant = Instant::from_secs(1);

/// A TCP of which a test plays the other end.
#[derive(Default, Debug)]
struct Tcp {
    received: VecDeque<u8>,
    /// Behind `received`.
    ended: bool,
    reset: bool,
    /// Bytes that it takes until the other end makes room.
    room: usize,
    written: Vec<u8>,
    /// Of `written`, what the other end acknowledged.
    acknowledged: usize,
    shut: bool,
    orderly: bool,
    urgent: bool,
    copied: usize,
}

#[derive(Clone, Default, Debug)]
struct Fake(Rc<RefCell<Tcp>>);

impl Fake {
    fn of(&self, read: usize) -> Result<Vec<u8>, Got> {
        let mut tcp = self.0.borrow_mut();
        let got = read.min(tcp.received.len());
        match got {
            0 if tcp.reset => Err(Got::Failed),
            0 if tcp.ended => Err(Got::End),
            0 => Err(Got::Blocked),
            _ => Ok(tcp.received.drain(..got).collect()),
        }
    }
}

impl Socket for Fake {
    fn read(&mut self, into: &mut [u8]) -> Got {
        let bytes = match self.of(into.len()) {
            Ok(bytes) => bytes,
            Err(got) => return got,
        };
        into[..bytes.len()].copy_from_slice(&bytes);
        self.0.borrow_mut().copied += bytes.len();
        Got::Bytes(bytes.len())
    }
    fn write(&mut self, front: &[u8], _: &[u8]) -> Put {
        let mut tcp = self.0.borrow_mut();
        let taken = front.len().min(tcp.room);
        tcp.room -= taken;
        tcp.written.extend_from_slice(&front[..taken]);
        match taken {
            _ if tcp.reset => Put::Failed,
            0 => Put::Blocked,
            _ => Put::Bytes(taken),
        }
    }
    fn shutdown(&mut self) -> bool {
        let mut tcp = self.0.borrow_mut();
        tcp.shut = true;
        !tcp.reset
    }
    fn end_orderly(&mut self) {
        self.0.borrow_mut().orderly = true;
    }
    fn undelivered(&self) -> Option<u32> {
        let tcp = self.0.borrow();
        (tcp.acknowledged < tcp.written.len()).then_some(tcp.acknowledged as u32)
    }
    fn has_bytes(&self) -> bool {
        !self.0.borrow().received.is_empty()
    }
    fn receiving(&self) -> Option<Receiving> {
        None
    }
    fn set_receive_room(&mut self, _: usize) {}
    fn receive_rooms(&self) -> Rooms {
        Rooms { first: 1, most: 1, per_byte: 4 }
    }
}

/// So many pipes, one at a time in use.
struct Few(usize);

impl Pipes<Fake> for Few {
    type Pipe = RefCell<Vec<u8>>;
    fn take(&mut self) -> Option<Self::Pipe> {
        self.0 = self.0.checked_sub(1)?;
        Some(RefCell::default())
    }
    fn give_back(&mut self, pipe: Self::Pipe, empty: bool) {
        assert_eq!(pipe.borrow().is_empty(), empty);
        self.0 += 1;
    }
    fn fill(&mut self, pipe: &Self::Pipe, from: &mut Fake, most: usize) -> Got {
        assert!(pipe.borrow().is_empty());
        // As splice(2): it stops before an urgent byte, as if there were none.
        // Once the other end has ended, as if that were all.
        if from.0.borrow().urgent {
            return if from.0.borrow().ended { Got::End } else { Got::Blocked };
        }
        match from.of(most) {
            Ok(bytes) => {
                pipe.replace(bytes);
                Got::Bytes(pipe.borrow().len())
            }
            Err(got) => got,
        }
    }
    fn drain(&mut self, pipe: &Self::Pipe, to: &mut Fake, octets: usize) -> Put {
        let mut waiting = pipe.borrow_mut();
        assert_eq!(waiting.len(), octets);
        let put = to.write(&waiting, &[]);
        if let Put::Bytes(n) = put {
            waiting.drain(..n);
        }
        put
    }
}

type World = Relays<Fake, Few, ()>;

fn world(pipes: usize, room: usize) -> (World, [Fake; 2]) {
    let config = PairConfig { room, flows_max: 4, pool: 1 << 20 };
    let mut relays = Relays::new(config, Few(pipes));
    let ends = [Fake::default(), Fake::default()];
    relays.insert(7, T0, ends.clone(), [false; 2], ());
    (relays, ends)
}

/// Tells what is ready, and serves until nothing is to be done.
fn settle(relays: &mut World, ends: &[Fake; 2], now: Instant) {
    for (half, end) in ends.iter().enumerate() {
        let tcp = end.0.borrow();
        let edges = Edges {
            readable: !tcp.received.is_empty() || tcp.ended || tcp.reset,
            writable: tcp.room > 0,
            ends: tcp.ended,
            urgent: tcp.urgent,
        };
        let reset = tcp.reset;
        drop(tcp);
        relays.ready(7, half, edges);
        if reset {
            relays.fail(7, half);
        }
    }
    while relays.serve_next(now) {}
}

fn receive(end: &Fake, bytes: &[u8]) {
    end.0.borrow_mut().received.extend(bytes);
}

fn make_room(end: &Fake, octets: usize) {
    end.0.borrow_mut().room += octets;
}

#[test]
fn little_is_copied_and_bulk_goes_through_a_pipe_unless_there_is_none_or_an_urgent_byte() {
    for (pipes, urgent, copied) in [(1, false, COPY), (0, false, 100_000), (1, true, 100_000)] {
        let (mut relays, ends) = world(pipes, 1 << 20);
        make_room(&ends[1], 1_000_000);
        receive(&ends[0], &[1; 100]);
        settle(&mut relays, &ends, T0);
        assert_eq!((ends[1].0.borrow().written.len(), ends[0].0.borrow().copied), (100, 100));
        ends[0].0.borrow_mut().urgent = urgent;
        receive(&ends[0], &vec![2; 100_000]);
        settle(&mut relays, &ends, T0);
        assert_eq!((ends[1].0.borrow().written.len(), ends[0].0.borrow().copied), (100_100, 100 + copied));
        assert_eq!((relays.waiting(), relays.len()), (0, 1));
    }
}

/// Within a turn nobody has said yet that a byte is urgent.
#[test]
fn an_end_is_believed_only_of_a_read() {
    let (mut relays, ends) = world(1, 1 << 20);
    make_room(&ends[1], 1_000_000);
    receive(&ends[0], &vec![1; COPY]);
    settle(&mut relays, &ends, T0);
    receive(&ends[0], &vec![2; 70_000]);
    ends[0].0.borrow_mut().urgent = true;
    ends[0].0.borrow_mut().ended = true;
    relays.ready(7, 0, Edges { readable: true, writable: false, ends: true, urgent: false });
    while relays.serve_next(T0) {}
    assert_eq!((ends[1].0.borrow().written.len(), ends[1].0.borrow().shut), (COPY + 70_000, true));
}

#[test]
fn what_a_stopped_reader_holds_is_bounded_and_arrives_when_it_goes_on() {
    for pipes in [0, 1] {
        let (mut relays, ends) = world(pipes, 50_000);
        make_room(&ends[0], 10);
        receive(&ends[1], &vec![3; 400_000]);
        settle(&mut relays, &ends, T0);
        let held = relays.waiting();
        assert!(held <= 50_000, "{held}");
        assert_eq!(400_000, 10 + held + ends[1].0.borrow().received.len());
        while ends[0].0.borrow().written.len() < 400_000 {
            make_room(&ends[0], 30_000);
            settle(&mut relays, &ends, T0);
        }
        assert_eq!((relays.waiting(), relays.tally.moved.to_socket), (0, 400_000));
    }
}

#[test]
fn a_half_close_leaves_the_other_direction_open() {
    let (mut relays, ends) = world(1, 1 << 20);
    ends.iter().for_each(|end| make_room(end, 1_000));
    receive(&ends[0], b"ask");
    ends[0].0.borrow_mut().ended = true;
    settle(&mut relays, &ends, T0);
    assert!(ends[1].0.borrow().shut && ends[1].0.borrow().written == b"ask" && !ends[0].0.borrow().shut);
    let (relay, ()) = relays.get(7).unwrap();
    assert_eq!(relay.halves.each_ref().map(Half::state), ["ended here", "ended there"]);
    receive(&ends[1], b"answer");
    ends[1].0.borrow_mut().ended = true;
    settle(&mut relays, &ends, T0);
    assert!(ends[0].0.borrow().written == b"answer" && ends.iter().all(|end| end.0.borrow().orderly));
    assert_eq!((relays.len(), relays.tally.closed, relays.deadline()), (0, 1, None));
}

/// The bytes before a reset arrive, then the reset; an end before it arrives too.
#[test]
fn a_reset_arrives_behind_the_bytes_and_the_end() {
    for ends_first in [false, true] {
        let (mut relays, ends) = world(1, 1 << 20);
        receive(&ends[1], &[5; 3_000]);
        // An end counts if it was read before the reset came.
        make_room(&ends[0], if ends_first { 3_000 } else { 1_000 });
        ends[1].0.borrow_mut().ended = ends_first;
        settle(&mut relays, &ends, T0);
        ends[1].0.borrow_mut().reset = true;
        settle(&mut relays, &ends, T0);
        assert_eq!((relays.len(), relays.waiting()), (1, if ends_first { 0 } else { 2_000 }));
        make_room(&ends[0], 5_000);
        settle(&mut relays, &ends, T0);
        assert_eq!(ends[0].0.borrow().written.len(), 3_000);
        // The other end's kernel has not acknowledged them.
        let due = relays.deadline().unwrap();
        relays.look_after_last_bytes(due);
        assert_eq!(relays.len(), 1);
        let mut tcp = ends[0].0.borrow_mut();
        assert!(!tcp.orderly && tcp.shut == ends_first);
        tcp.acknowledged = 3_000;
        drop(tcp);
        let due = relays.deadline().unwrap();
        relays.look_after_last_bytes(due);
        assert_eq!((relays.len(), relays.tally.reset, relays.deadline()), (0, 1, None));
    }
}

#[test]
fn last_bytes_that_nobody_takes_end_with_patience() {
    let (mut relays, ends) = world(1, 1 << 20);
    receive(&ends[0], &[5; 3_000]);
    ends[0].0.borrow_mut().reset = true;
    settle(&mut relays, &ends, T0);
    let mut now = T0;
    while let Some(due) = relays.deadline() {
        now = due;
        relays.look_after_last_bytes(now);
    }
    assert!(relays.is_empty() && now.since(T0) >= PATIENCE && now.since(T0) < PATIENCE + Span::from_secs(1));
    assert_eq!(relays.waiting(), 0);
}

/// What the server wrote before it was found dead by a write to it still reaches the application.
#[test]
fn a_write_that_fails_leaves_what_was_received_before_it() {
    let (mut relays, ends) = world(1, 1 << 20);
    ends.iter().for_each(|end| make_room(end, 10_000));
    settle(&mut relays, &ends, T0);
    receive(&ends[0], b"late");
    receive(&ends[1], b"farewell");
    ends[1].0.borrow_mut().reset = true;
    relays.ready(7, 0, Edges { readable: true, ..Edges::default() });
    while relays.serve_next(T0) {}
    assert_eq!(ends[0].0.borrow().written, b"farewell");
    ends[0].0.borrow_mut().acknowledged = 8;
    let due = relays.deadline().unwrap();
    relays.look_after_last_bytes(due);
    assert!(relays.is_empty());
}

#[test]
fn one_that_failed_before_it_came_is_served_without_an_event() {
    let (mut relays, ends) = world(0, 1 << 20);
    relays.insert(8, T0, [Fake::default(), Fake::default()], [false, true], ());
    let failed = Fake::default();
    failed.0.borrow_mut().reset = true;
    relays.insert(9, T0, [ends[0].clone(), failed], [false, true], ());
    while relays.serve_next(T0) {}
    let due = relays.deadline().unwrap();
    relays.look_after_last_bytes(due + PATIENCE);
    relays.look_after_last_bytes(due + PATIENCE + PATIENCE);
    assert_eq!(relays.iter().map(|(id, ..)| id).collect::<Vec<_>>(), [7]);
}

#[test]
fn one_with_much_to_do_stands_behind_others() {
    let (mut relays, ends) = world(1, 1 << 20);
    let other = [Fake::default(), Fake::default()];
    relays.insert(8, T0, other.clone(), [false; 2], ());
    make_room(&ends[1], 10 << 20);
    make_room(&other[1], 100);
    receive(&ends[0], &vec![0; 8 << 20]);
    receive(&other[0], b"x");
    let both = Edges { readable: true, writable: true, ..Edges::default() };
    for (id, half) in [(7, 0), (7, 1), (8, 0), (8, 1)] {
        relays.ready(id, half, both);
    }
    assert!(relays.serve_next(T0) && relays.serve_next(T0));
    assert!(!ends[0].0.borrow().received.is_empty() && other[1].0.borrow().written == b"x");
    while relays.serve_next(T0) {}
    assert_eq!(ends[1].0.borrow().written.len(), 8 << 20);
}

proptest! {
    /// Whatever comes in whatever order, what one end wrote is what the other gets, and what waits keeps its bound.
    #[test]
    fn streams_cross_unchanged(
        steps in prop::collection::vec((0..2_usize, any::<bool>(), 0..40_000_usize), 1..60),
        pipes in 0..3_usize,
    ) {
        let room = 30_000;
        let (mut relays, ends) = world(pipes, room);
        let mut sent = [Vec::new(), Vec::new()];
        for (half, gives, octets) in steps {
            if gives {
                let bytes: Vec<u8> = (0..octets).map(|n| (sent[half].len() + n) as u8).collect();
                receive(&ends[half], &bytes);
                sent[half].extend(bytes);
            } else {
                make_room(&ends[half], octets);
            }
            settle(&mut relays, &ends, T0);
            prop_assert!(relays.waiting() <= 2 * room);
            for (from, to) in [(0, 1), (1, 0)] {
                prop_assert!(sent[from].starts_with(&ends[to].0.borrow().written));
            }
        }
        ends.iter().for_each(|end| {
            make_room(end, 10 << 20);
            end.0.borrow_mut().ended = true;
        });
        settle(&mut relays, &ends, T0);
        prop_assert!(relays.is_empty() && relays.tally.closed == 1);
        for (from, to) in [(0, 1), (1, 0)] {
            prop_assert_eq!(&sent[from], &ends[to].0.borrow().written);
        }
    }
}
