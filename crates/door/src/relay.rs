//! Two open connections of a proxy in one box, and the bytes from either to the other.
//!
//! Little is copied at a time; what comes in bulk goes through a pipe, which the kernel fills and empties by itself. Bytes that one
//! socket has no room for wait in the pipe, or as the rest of a copy; nothing is read meanwhile, so the sender is held up.

use crate::socket::{Got, Put, Socket};
use crate::splice::Moved;
use wavelane_base::Instant;

/// Most bytes copied at once, and the least that are worth a pipe: two more system calls cost as much as copying these.
pub const COPY: usize = 16 << 10;
/// Reads, or rests that were written, each way in one turn, so that no connection blocks the others.
const STEPS_PER_TURN: usize = 8;

/// Who makes pipes, and moves bytes through them.
pub trait Pipes<S> {
    /// One pipe. Dropping it loses what is in it.
    type Pipe;
    /// An empty pipe; `None`: there is none to be had, and bytes are copied.
    fn take(&mut self) -> Option<Self::Pipe>;
    /// It is not needed any more.
    fn give_back(&mut self, pipe: Self::Pipe, empty: bool);
    /// Moves up to `most` received bytes into an empty pipe.
    fn fill(&mut self, pipe: &Self::Pipe, from: &mut S, most: usize) -> Got;
    /// Moves the `octets` in the pipe to a socket, as many as that has room for.
    fn drain(&mut self, pipe: &Self::Pipe, to: &mut S, octets: usize) -> Put;
}

/// What became ready.
#[derive(Clone, Copy, Default, Debug)]
pub struct Edges {
    /// There are bytes, an end or an error.
    pub readable: bool,
    /// There is room.
    pub writable: bool,
    /// After the bytes comes an end or an error.
    pub ends: bool,
    /// Among the bytes is an urgent one, which no pipe takes.
    pub urgent: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Half<S> {
    /// The TCP.
    pub socket: S,
    /// What it moved.
    pub moved: Moved,
    seen: Edges,
    /// Reset or failed: what it holds is the last of its bytes, and it takes none.
    failed: bool,
    /// Its end was read.
    ended: bool,
    /// Our end was written to it.
    shut: bool,
}

impl<S: Socket> Half<S> {
    fn new(socket: S) -> Self {
        // A connection that has just been opened has room.
        let (moved, seen) = (Moved::default(), Edges { writable: true, ..Edges::default() });
        Self { socket, moved, seen, failed: false, ended: false, shut: false }
    }
    /// Its state in a word, for people.
    pub fn state(&self) -> &'static str {
        match (self.failed, self.ended, self.shut) {
            (true, _, _) => "last bytes",
            (_, false, false) => "open",
            (_, true, false) => "ended here",
            (_, false, true) => "ended there",
            (_, true, true) => "closing",
        }
    }
    fn fail(&mut self) {
        self.failed = true;
        self.seen.readable = true;
    }
    fn shut(&mut self) {
        if !std::mem::replace(&mut self.shut, true) && !self.socket.shutdown() {
            self.fail();
        }
    }
    /// Writes, and counts. How many bytes were taken.
    fn put(&mut self, put: Put, of: usize) -> usize {
        match put {
            Put::Bytes(n) => {
                self.moved.to_socket += n as u64;
                // The kernel took what it has room for, and reports when there is more.
                self.seen.writable = n == of;
                n
            }
            Put::Blocked => {
                self.seen.writable = false;
                0
            }
            Put::Again => 0,
            Put::Failed => {
                self.fail();
                0
            }
        }
    }
}

/// Bytes that were read and not yet written.
enum Held<P> {
    Nothing,
    Copied { bytes: Box<[u8]>, from: usize },
    Piped { pipe: P, octets: usize },
}

impl<P> Held<P> {
    fn octets(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Copied { bytes, from } => bytes.len() - from,
            Self::Piped { octets, .. } => *octets,
        }
    }
}

/// What follows a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing until something becomes ready.
    Idle,
    /// More could be done at once.
    More,
    /// A half is gone and the other has yet to take what it left: see that it does.
    Watch,
    /// Both directions ended in order, and dropping the sockets says so.
    Closed,
    /// Dropping the sockets resets what is left.
    Reset,
}

/// See the module's description. Half 0 is the application's, half 1 the server's.
pub struct Relay<S, P> {
    /// Both connections.
    pub halves: [Half<S>; 2],
    /// When the first of them began.
    pub born: Instant,
    /// From the half of the same number to the other.
    held: [Held<P>; 2],
    bulk: [bool; 2],
    /// The half that failed and has nothing left to read.
    gone: Option<usize>,
}

impl<S: Socket, P> Relay<S, P> {
    pub(crate) fn new(born: Instant, sockets: [S; 2]) -> Self {
        let held = [Held::Nothing, Held::Nothing];
        Self { halves: sockets.map(Half::new), born, held, bulk: [false; 2], gone: None }
    }
    /// Bytes that were read and not yet written.
    pub(crate) fn waiting(&self) -> usize {
        self.held.iter().map(Held::octets).sum()
    }
    pub(crate) fn ready(&mut self, half: usize, edges: Edges) {
        let seen = &mut self.halves[half].seen;
        seen.readable |= edges.readable;
        seen.writable |= edges.writable;
        seen.ends |= edges.ends;
        seen.urgent |= edges.urgent;
    }
    /// A socket was reset or failed. What it received before can still be read.
    pub(crate) fn fail(&mut self, half: usize) {
        self.halves[half].fail();
    }
    fn failures(&self) -> usize {
        self.halves.iter().filter(|half| half.failed).count()
    }
    /// Moves what can be moved, holding at most `most` bytes each way.
    pub(crate) fn turn<I: Pipes<S, Pipe = P>>(&mut self, pipes: &mut I, scratch: &mut [u8; COPY], most: usize) -> Next {
        let failures = self.failures();
        let mut again = false;
        for from in 0..2 {
            let mut steps = 0;
            while self.step(from, pipes, scratch, most) {
                steps += 1;
                if steps == STEPS_PER_TURN {
                    again = true;
                    break;
                }
            }
        }
        if let Some(gone) = self.gone {
            return self.after(gone);
        }
        if self.halves.iter().all(|half| half.shut && !half.failed) {
            // Only now may a close stop meaning a reset.
            self.halves.iter_mut().for_each(|half| half.socket.end_orderly());
            return Next::Closed;
        }
        match self.failures() {
            2 => Next::Reset,
            // After a failed write, what was received before is still to be read.
            now if again || now != failures => Next::More,
            1 => Next::Watch,
            _ => Next::Idle,
        }
    }
    /// One half is gone: the other gets what it left, its end if there was one, and then the reset.
    fn after(&mut self, gone: usize) -> Next {
        let (ended, other) = (self.halves[gone].ended, &mut self.halves[1 - gone]);
        if other.failed {
            return Next::Reset;
        }
        if self.held[gone].octets() > 0 {
            return Next::Watch;
        }
        if ended {
            other.shut();
        }
        match other.socket.undelivered() {
            Some(_) if !other.failed => Next::Watch,
            _ => Next::Reset,
        }
    }
    /// How far the half that lives has got with what the other left; `None`: it has everything.
    pub(crate) fn last_bytes(&self) -> Option<u32> {
        let gone = self.gone.or_else(|| self.halves.iter().position(|half| half.failed))?;
        let other = &self.halves[1 - gone];
        let undelivered = other.socket.undelivered();
        let unread = self.gone.is_none() || self.held[gone].octets() > 0;
        // Only a change matters.
        (unread || undelivered.is_some()).then(|| other.moved.to_socket as u32 ^ undelivered.unwrap_or_default())
    }
    /// Does one thing in one direction; `false` if there is nothing to do.
    fn step<I: Pipes<S, Pipe = P>>(
        &mut self,
        way: usize,
        pipes: &mut I,
        scratch: &mut [u8; COPY],
        most: usize,
    ) -> bool {
        let [near, far] = &mut self.halves;
        let (from, to) = if way == 0 { (near, far) } else { (far, near) };
        let held = &mut self.held[way];
        if to.failed || self.gone == Some(1 - way) {
            return false;
        }
        match held {
            Held::Nothing => {}
            _ if !to.seen.writable => return false,
            Held::Copied { bytes, from } => {
                let rest = &bytes[*from..];
                let put = to.socket.write(rest, &[]);
                *from += to.put(put, rest.len());
                if *from == bytes.len() {
                    *held = Held::Nothing;
                }
                return true;
            }
            Held::Piped { pipe, octets } => {
                let put = pipes.drain(pipe, &mut to.socket, *octets);
                *octets -= to.put(put, *octets);
                if *octets == 0
                    && let Held::Piped { pipe, .. } = std::mem::replace(held, Held::Nothing)
                {
                    pipes.give_back(pipe, true);
                }
                return true;
            }
        }
        if from.ended {
            to.shut();
            if from.failed {
                self.gone = Some(way);
            }
            return false;
        }
        if !from.seen.readable || !to.seen.writable || most == 0 {
            return false;
        }
        let got = match if self.bulk[way] && !from.seen.urgent { pipes.take() } else { None } {
            Some(pipe) => {
                let got = pipes.fill(&pipe, &mut from.socket, most);
                match got {
                    Got::Bytes(octets) => *held = Held::Piped { pipe, octets },
                    _ => pipes.give_back(pipe, true),
                }
                if matches!(got, Got::End) {
                    // splice(2) stops before an urgent octet, and if the other end has ended it says so there: only a read tells.
                    self.bulk[way] = false;
                    return true;
                }
                got
            }
            None => {
                let most = most.min(COPY);
                let got = from.socket.read(&mut scratch[..most]);
                if let Got::Bytes(n) = got {
                    // A short read has emptied the socket; what comes later, an end too, is reported anew.
                    from.seen.readable = n == most || from.seen.ends || from.seen.urgent || from.failed;
                    let put = to.socket.write(&scratch[..n], &[]);
                    let taken = to.put(put, n);
                    if taken < n && !to.failed {
                        *held = Held::Copied { bytes: scratch[taken..n].into(), from: 0 };
                    }
                }
                got
            }
        };
        match got {
            Got::Bytes(n) => {
                from.moved.from_socket += n as u64;
                self.bulk[way] = n >= COPY;
            }
            Got::Blocked => {
                from.seen.readable = false;
                return false;
            }
            // Already reported, the error is no longer returned after the bytes.
            Got::End if !from.failed => from.ended = true,
            Got::End | Got::Failed => {
                from.failed = true;
                self.gone = Some(way);
                return false;
            }
            Got::Again => {}
        }
        true
    }
    /// Gives its pipes back.
    pub(crate) fn end<I: Pipes<S, Pipe = P>>(self, pipes: &mut I) {
        for held in self.held {
            if let Held::Piped { pipe, octets } = held {
                pipes.give_back(pipe, octets == 0);
            }
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
