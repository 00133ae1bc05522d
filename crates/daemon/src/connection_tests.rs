#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::collections::VecDeque;
use std::net::TcpListener;
use wavelane_base::{FlowId, Instant, ReadOutcome, Streams};
use wavelane_door::{CHUNK, Flows, Moved, Splice, Stage, Turn};

/// A connection's two sides.
struct Connection {
    socket: KernelSocket,
    splice: Splice,
}

/// A flow made of two queues, with a limit on what it takes.
#[derive(Default)]
struct Fake {
    taken: Vec<u8>,
    room: usize,
    ended: bool,
    give: VecDeque<u8>,
    give_end: bool,
    reset: bool,
}

impl Streams for Fake {
    fn write(&mut self, _: Instant, _: FlowId, data: &[u8]) -> usize {
        let n = data.len().min(self.room);
        self.room -= n;
        self.taken.extend_from_slice(&data[..n]);
        n
    }
    fn read(&mut self, _: Instant, _: FlowId, buf: &mut [u8]) -> ReadOutcome {
        if self.reset {
            return ReadOutcome::Reset;
        }
        let n = buf.len().min(self.give.len());
        for b in &mut buf[..n] {
            *b = self.give.pop_front().unwrap();
        }
        match n {
            0 if self.give_end => ReadOutcome::End,
            0 => ReadOutcome::Blocked,
            n => ReadOutcome::Data(n),
        }
    }
    fn shutdown(&mut self, _: Instant, _: FlowId) {
        self.ended = true;
    }
    fn reset(&mut self, _: Instant, _: FlowId) {}
}

impl Flows for Fake {
    fn room(&mut self, _: Instant, _: FlowId) -> usize {
        self.room
    }
    fn unread(&mut self, _: Instant, _: FlowId) -> (&[u8], &[u8]) {
        if self.reset { (&[], &[]) } else { self.give.as_slices() }
    }
    fn consume(&mut self, _: Instant, _: FlowId, octets: usize) {
        self.give.drain(..octets);
    }
}

fn pair() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    tcp::prepare(&ours).unwrap();
    let socket = KernelSocket(ours, tcp::Buffers::default());
    let splice = Splice::new(Instant::ZERO, socket.receive_rooms(), FlowId(1), Stage::Open);
    (Connection { socket, splice }, theirs)
}

/// Serves the connection as an epoll loop would, until it is idle.
fn serve(c: &mut Connection, flow: &mut Fake) -> (Turn, Moved) {
    let (mut scratch, mut moved) = ([0; CHUNK], Moved::default());
    loop {
        c.splice.readable = true;
        c.splice.writable = true;
        let turn = c.splice.turn(Instant::ZERO, &mut c.socket, flow, &mut scratch, &mut moved);
        if turn != Turn::More {
            return (turn, moved);
        }
    }
}

#[test]
fn bytes_half_close_and_orderly_end_cross_in_both_directions() {
    let (mut c, mut theirs) = pair();
    let mut flow = Fake { room: usize::MAX, ..Fake::default() };
    theirs.write_all(b"request").unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    while !flow.ended {
        assert_eq!(serve(&mut c, &mut flow).0, Turn::Idle);
    }
    assert_eq!(flow.taken, b"request");
    // The other direction goes on after the half-close.
    flow.give = b"answer".iter().copied().collect();
    serve(&mut c, &mut flow);
    flow.give_end = true;
    assert_eq!(serve(&mut c, &mut flow).0, Turn::Idle, "not done before the other gateway has the end");
    c.splice.flow_closed = true;
    assert_eq!(serve(&mut c, &mut flow).0, Turn::Done);
    drop(c);
    let mut got = Vec::new();
    theirs.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"answer");
}

#[test]
fn a_dropped_connection_resets_even_after_a_shutdown() {
    let (mut c, mut theirs) = pair();
    let mut flow = Fake { room: usize::MAX, give_end: true, ..Fake::default() };
    serve(&mut c, &mut flow);
    // The application has seen our end and has not ended itself; now we crash.
    assert_eq!(theirs.read(&mut [0; 4]).unwrap(), 0);
    drop(c);
    // Linux reports a reset behind an end as EPIPE; a read would go on saying "end".
    assert_eq!(theirs.take_error().unwrap().and_then(|e| e.raw_os_error()), Some(libc_epipe()));
}

/// EPIPE, errno(3).
fn libc_epipe() -> i32 {
    32
}

#[test]
fn a_blocked_flow_stops_reading_the_socket() {
    let (mut c, theirs) = pair();
    let mut flow = Fake { room: 1_000, ..Fake::default() };
    theirs.set_nonblocking(true).unwrap();
    let block = vec![7; 1 << 16];
    let mut written = 0;
    let mut idle = 0;
    while idle < 50 && written < (64 << 20) {
        match (&theirs).write(&block) {
            Ok(n) => {
                written += n;
                idle = 0;
            }
            Err(_) => idle += 1,
        }
        assert_eq!(serve(&mut c, &mut flow).0, Turn::Idle);
    }
    assert_eq!(flow.taken.len(), 1_000);
    assert!(written < 16 << 20, "the application was held back, not buffered: {written}");
    // Room returns: exactly the bytes written come out.
    flow.room = usize::MAX;
    for _ in 0..10_000 {
        serve(&mut c, &mut flow);
        if flow.taken.len() == written {
            break;
        }
    }
    assert_eq!(flow.taken.len(), written);
}

#[test]
fn a_blocked_socket_leaves_the_bytes_in_the_flow() {
    let (mut c, theirs) = pair();
    let total = 32 << 20;
    let mut flow = Fake { give: vec![1; total].into(), ..Fake::default() };
    let (mut scratch, mut moved) = ([0; CHUNK], Moved::default());
    c.splice.readable = true;
    c.splice.writable = true;
    while c.splice.turn(Instant::ZERO, &mut c.socket, &mut flow, &mut scratch, &mut moved) == Turn::More {}
    assert!(!c.splice.writable && flow.give.len() > total / 2, "{} of {total} left", flow.give.len());
    drop(theirs);
}

#[test]
fn resets_are_told_apart() {
    let (mut c, theirs) = pair();
    tcp::prepare(&theirs).unwrap();
    drop(theirs);
    let mut flow = Fake { room: usize::MAX, ..Fake::default() };
    assert_eq!(serve(&mut c, &mut flow).0, Turn::SocketReset);
    let (mut c, _theirs) = pair();
    flow.reset = true;
    assert_eq!(serve(&mut c, &mut flow).0, Turn::FlowReset);
}
