//! One connection: bytes between a socket and a flow, with backpressure, half-close and resets.
//!
//! It holds no bytes itself. Bytes that the flow has no room for stay in the socket; bytes that the socket has no room for stay
//! in the flow, where they count in the pool.

use crate::far::Flows;
use crate::socket::{Got, Put, Rooms, Socket};
use crate::window::Window;
use wavelane_base::{FlowId, Instant, ReadOutcome};

/// Most bytes moved per call.
pub const CHUNK: usize = 64 << 10;
/// Chunks moved each way in one turn, so that no connection blocks the others.
const CHUNKS_PER_TURN: usize = 4;

/// The stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// We are connecting to a server; given up at this time.
    Connecting(Instant),
    /// The application is connected to us and the far server has not answered yet, or the other way round.
    Waiting,
    /// Bytes move.
    Open,
    /// The flow was reset: the application's connection is reset too, once its kernel has acknowledged what was sent before.
    Leaving,
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Nothing more to do until something becomes ready.
    Idle,
    /// More could be done at once.
    More,
    /// The socket was reset or failed, and what came before is in the flow: reset the flow and drop the connection.
    SocketReset,
    /// The flow was reset, and what came before is in the socket: the connection is [`Stage::Leaving`] from now on.
    FlowReset,
    /// Both directions ended in order, end to end: drop the connection.
    Done,
}

/// A connection and its flow; the connection's socket is handed in.
#[derive(Debug)]
pub struct Splice {
    /// The flow.
    pub flow: FlowId,
    /// Its stage.
    pub stage: Stage,
    /// Readiness edges seen and not used up.
    pub readable: bool,
    /// See `readable`.
    pub writable: bool,
    /// The gateway reported that the flow ended in order.
    pub flow_closed: bool,
    /// What it moved so far.
    pub moved: Moved,
    /// When it was created, and when it entered its stage.
    pub born: Instant,
    /// See `born`.
    pub stage_from: Instant,
    /// The socket was reset or failed: it takes nothing more, and what it holds is the last of its bytes.
    failed: bool,
    socket_ended: bool,
    flow_shut: bool,
    flow_ended: bool,
    socket_shut: bool,
    window: Window,
}

/// Bytes that crossed the door.
#[derive(Clone, Copy, Default, Debug)]
pub struct Moved {
    /// From the socket into the flow.
    pub from_socket: u64,
    /// From the flow into the socket.
    pub to_socket: u64,
}

impl Moved {
    /// Counts `more` as well.
    pub fn add(&mut self, more: Self) {
        self.from_socket += more.from_socket;
        self.to_socket += more.to_socket;
    }
}

enum Step {
    Blocked,
    Again,
    Ended(Turn),
}

impl Splice {
    /// A connection in `stage` whose socket has receive buffers as `rooms` says.
    pub fn new(now: Instant, rooms: Rooms, flow: FlowId, stage: Stage) -> Self {
        Self {
            flow,
            stage,
            readable: false,
            writable: false,
            flow_closed: false,
            moved: Moved::default(),
            born: now,
            stage_from: now,
            failed: false,
            socket_ended: false,
            flow_shut: false,
            flow_ended: false,
            socket_shut: false,
            window: Window::new(now, rooms),
        }
    }
    /// It is open now.
    pub fn opened(&mut self, now: Instant) {
        self.stage = Stage::Open;
        self.stage_from = now;
    }
    /// Its server has answered; bytes wait until the application goes on.
    pub fn answered(&mut self, now: Instant) {
        self.stage = Stage::Waiting;
        self.stage_from = now;
    }
    /// Its state in a word, for people.
    pub fn state(&self) -> &'static str {
        match self.stage {
            Stage::Connecting(_) => "connecting",
            Stage::Waiting => "waiting",
            Stage::Leaving => "last bytes",
            Stage::Open => match (self.socket_ended, self.flow_ended) {
                (false, false) => "open",
                (true, false) => "ended here",
                (false, true) => "ended there",
                (true, true) => "closing",
            },
        }
    }
    /// The kernel reported that the socket was reset or failed. What it received before can still be read.
    pub fn fail(&mut self) {
        self.failed = true;
        self.readable = true;
    }
    /// The flow is gone. Whether the kernel still has bytes, or an end, that the application has not acknowledged.
    pub fn leave(&mut self, now: Instant, socket: &mut impl Socket) -> bool {
        self.stage = Stage::Leaving;
        self.stage_from = now;
        if self.flow_ended && !std::mem::replace(&mut self.socket_shut, true) {
            // A socket that refuses it was reset.
            let _ = socket.shutdown();
        }
        !self.failed && socket.undelivered().is_some()
    }
    /// Whether the socket was reset or failed; if so, how many of its bytes the flow took, modulo 2^32.
    pub fn failed(&self) -> Option<u32> {
        self.failed.then_some(self.moved.from_socket as u32)
    }
    /// Moves what can be moved.
    pub fn turn(
        &mut self,
        now: Instant,
        socket: &mut impl Socket,
        streams: &mut impl Flows,
        scratch: &mut [u8; CHUNK],
        moved: &mut Moved,
    ) -> Turn {
        let mut again = false;
        let failed_before = self.failed;
        for inwards in [true, false] {
            let mut steps = 0;
            loop {
                let step = match inwards {
                    true => self.step_in(now, socket, streams, scratch, moved),
                    false => self.step_out(now, socket, streams, moved),
                };
                match step {
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
        if self.flow_closed && self.socket_shut {
            // Only now may a close stop meaning a reset.
            socket.end_orderly();
            return Turn::Done;
        }
        // After a failed write, what was received before is still to be read.
        if again || self.failed != failed_before { Turn::More } else { Turn::Idle }
    }
    /// Socket to flow.
    fn step_in(
        &mut self,
        now: Instant,
        socket: &mut impl Socket,
        streams: &mut impl Flows,
        scratch: &mut [u8; CHUNK],
        moved: &mut Moved,
    ) -> Step {
        if self.flow_closed {
            return Step::Blocked;
        }
        if self.socket_ended {
            if !self.flow_shut {
                self.flow_shut = true;
                streams.shutdown(now, self.flow);
            }
            return if self.failed { Step::Ended(Turn::SocketReset) } else { Step::Blocked };
        }
        if !self.readable {
            return Step::Blocked;
        }
        let room = streams.room(now, self.flow).min(CHUNK);
        if room == 0 {
            self.window.held_up(now);
            return Step::Blocked;
        }
        let smaller = self.window.before_read(|| socket.receiving());
        resize(socket, smaller);
        match socket.read(&mut scratch[..room]) {
            // Already reported, the error is no longer returned after the bytes.
            Got::End if self.failed => return Step::Ended(Turn::SocketReset),
            Got::End => self.socket_ended = true,
            Got::Bytes(n) => {
                moved.from_socket += n as u64;
                self.window.took(n);
                let taken = streams.write(now, self.flow, &scratch[..n]);
                assert_eq!(taken, n, "the flow said that it has room");
            }
            Got::Blocked => {
                self.readable = false;
                let larger = self.window.ran_dry(now);
                resize(socket, larger);
                return Step::Blocked;
            }
            Got::Again => {}
            Got::Failed => return Step::Ended(Turn::SocketReset),
        }
        Step::Again
    }
    /// Flow to socket.
    fn step_out(
        &mut self,
        now: Instant,
        socket: &mut impl Socket,
        streams: &mut impl Flows,
        moved: &mut Moved,
    ) -> Step {
        if self.failed {
            return Step::Blocked;
        }
        if self.flow_ended {
            if !self.socket_shut {
                self.socket_shut = true;
                if !socket.shutdown() {
                    self.fail();
                }
            }
            return Step::Blocked;
        }
        if !self.writable {
            // Bytes wait in the flow, where they count in its credit.
            return Step::Blocked;
        }
        let (front, back) = streams.unread(now, self.flow);
        if front.is_empty() && back.is_empty() {
            return match streams.read(now, self.flow, &mut [0]) {
                ReadOutcome::Data(_) => unreachable!("the flow said that nothing is unread"),
                ReadOutcome::Blocked => Step::Blocked,
                ReadOutcome::End => {
                    self.flow_ended = true;
                    Step::Again
                }
                ReadOutcome::Reset => Step::Ended(Turn::FlowReset),
            };
        }
        let front = &front[..front.len().min(CHUNK)];
        let back = &back[..back.len().min(CHUNK - front.len())];
        match socket.write(front, back) {
            Put::Bytes(n) => {
                moved.to_socket += n as u64;
                streams.consume(now, self.flow, n);
                Step::Again
            }
            Put::Blocked => {
                self.writable = false;
                Step::Blocked
            }
            Put::Again => Step::Again,
            Put::Failed => {
                self.fail();
                Step::Blocked
            }
        }
    }
}

fn resize(socket: &mut impl Socket, octets: Option<usize>) {
    octets.into_iter().for_each(|octets| socket.set_receive_room(octets));
}
