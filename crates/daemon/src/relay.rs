//! One connection: bytes between a socket and a flow, with backpressure, half-close and resets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use wavelane_base::{FlowId, Instant, ReadOutcome, Streams};
use wavelane_host::tcp;

/// Bytes moved per call, and most that one direction of a connection keeps between socket and flow.
pub(crate) const CHUNK: usize = 64 << 10;
/// Chunks moved each way in one turn, so that no connection keeps the others waiting.
const CHUNKS_PER_TURN: usize = 4;

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// We are connecting to a server; given up at this time.
    Connecting(Instant),
    /// The application is connected to us and the far server has not answered yet.
    Waiting,
    /// Bytes move.
    Open,
}

/// What a turn led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing more to do until something becomes ready.
    Idle,
    /// More could be done at once.
    More,
    /// The socket was reset or failed: reset the flow and drop the connection.
    SocketReset,
    /// The flow was reset: drop the connection, which resets the socket.
    FlowReset,
    /// Both directions ended in order, end to end: drop the connection.
    Done,
}

/// Bytes that one side gave and the other has not taken yet.
#[derive(Debug, Default)]
struct Remainder {
    bytes: Vec<u8>,
    at: usize,
}

impl Remainder {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
    fn keep(&mut self, rest: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(rest);
        self.at = 0;
    }
    fn advance(&mut self, n: usize) {
        self.at += n;
        if self.is_empty() {
            // An idle connection keeps no buffer.
            *self = Self::default();
        }
    }
}

/// A connection and its flow.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) flow: FlowId,
    pub(crate) stage: Stage,
    /// Edges seen and not used up.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// It stands in the queue of connections to serve.
    pub(crate) queued: bool,
    /// The gateway said that the flow ended in order.
    pub(crate) flow_closed: bool,
    from_socket: Remainder,
    socket_ended: bool,
    flow_shut: bool,
    to_socket: Remainder,
    flow_ended: bool,
    socket_shut: bool,
}

/// Bytes that crossed the door.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moved {
    pub(crate) from_socket: u64,
    pub(crate) to_socket: u64,
}

enum Step {
    Blocked,
    Again,
    Ended(Turn),
}

impl Connection {
    /// A connection over a socket that [`tcp::prepare`] has put in order.
    pub(crate) fn new(stream: TcpStream, flow: FlowId, stage: Stage) -> Self {
        Self {
            stream,
            flow,
            stage,
            readable: false,
            writable: false,
            queued: false,
            flow_closed: false,
            from_socket: Remainder::default(),
            socket_ended: false,
            flow_shut: false,
            to_socket: Remainder::default(),
            flow_ended: false,
            socket_shut: false,
        }
    }
    /// Moves what can be moved.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        streams: &mut impl Streams,
        scratch: &mut [u8; CHUNK],
        moved: &mut Moved,
    ) -> Turn {
        let mut again = false;
        for direction in [Self::step_in, Self::step_out] {
            let mut steps = 0;
            loop {
                match direction(self, now, streams, scratch, moved) {
                    Step::Blocked => break,
                    Step::Ended(turn) => return turn,
                    Step::Again if steps == CHUNKS_PER_TURN => {
                        again = true;
                        break;
                    }
                    Step::Again => steps += 1,
                }
            }
        }
        if self.flow_closed && self.socket_shut && self.to_socket.is_empty() {
            // Only now may a close stop meaning a reset. Should this fail, the application sees a reset after
            // all its bytes, which is wrong only in manners.
            let _ = tcp::end_orderly(&self.stream);
            return Turn::Done;
        }
        if again { Turn::More } else { Turn::Idle }
    }
    /// Socket to flow.
    fn step_in(
        &mut self,
        now: Instant,
        streams: &mut impl Streams,
        scratch: &mut [u8; CHUNK],
        moved: &mut Moved,
    ) -> Step {
        if self.flow_closed {
            return Step::Blocked;
        }
        if !self.from_socket.is_empty() {
            let taken = streams.write(now, self.flow, self.from_socket.rest());
            self.from_socket.advance(taken);
            return if self.from_socket.is_empty() { Step::Again } else { Step::Blocked };
        }
        if self.socket_ended {
            if !self.flow_shut {
                self.flow_shut = true;
                streams.shutdown(now, self.flow);
            }
            return Step::Blocked;
        }
        if !self.readable {
            return Step::Blocked;
        }
        match self.stream.read(scratch) {
            Ok(0) => self.socket_ended = true,
            Ok(n) => {
                moved.from_socket += n as u64;
                let taken = streams.write(now, self.flow, &scratch[..n]);
                self.from_socket.keep(&scratch[taken..n]);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Step::Blocked;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Step::Ended(Turn::SocketReset),
        }
        Step::Again
    }
    /// Flow to socket.
    fn step_out(
        &mut self,
        now: Instant,
        streams: &mut impl Streams,
        scratch: &mut [u8; CHUNK],
        moved: &mut Moved,
    ) -> Step {
        if !self.to_socket.is_empty() {
            return self.write_out(None, moved);
        }
        if self.flow_ended {
            if !self.socket_shut {
                self.socket_shut = true;
                if self.stream.shutdown(Shutdown::Write).is_err() {
                    return Step::Ended(Turn::SocketReset);
                }
            }
            return Step::Blocked;
        }
        if !self.writable {
            // Bytes wait in the flow, where they count in its credit.
            return Step::Blocked;
        }
        match streams.read(now, self.flow, scratch) {
            ReadOutcome::Data(n) => self.write_out(Some(&scratch[..n]), moved),
            ReadOutcome::Blocked => Step::Blocked,
            ReadOutcome::End => {
                self.flow_ended = true;
                Step::Again
            }
            ReadOutcome::Reset => Step::Ended(Turn::FlowReset),
        }
    }
    /// Writes `fresh`, or the remainder, and keeps what the socket does not take.
    fn write_out(&mut self, fresh: Option<&[u8]>, moved: &mut Moved) -> Step {
        if let Some(bytes) = fresh {
            self.to_socket.keep(bytes);
        }
        if !self.writable {
            return Step::Blocked;
        }
        match self.stream.write(self.to_socket.rest()) {
            Ok(n) => {
                moved.to_socket += n as u64;
                self.to_socket.advance(n);
                Step::Again
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Step::Blocked
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Step::Again,
            Err(_) => Step::Ended(Turn::SocketReset),
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
