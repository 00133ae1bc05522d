//! The protocol inside a TCP connection of load, as a machine: an opening and its answer, then records in both directions. Requests
//! (*ping*) and answers (*pong*) are placed between the pieces of load, so they are queued with the load.

use crate::packet::Token;
use std::collections::VecDeque;
use wavelane_wire::{DecodeError, Reader};

/// Prefix of every connection, in both directions.
const MAGIC: [u8; 4] = *b"WLPL";
const VERSION: u8 = 1;
/// Octets of a congestion control's name, the kernel's TCP_CA_NAME_MAX.
const NAME_LEN: usize = 16;
/// Octets of an opening.
pub const OPENING_LEN: usize = 6 + 16 + NAME_LEN;
/// Octets of its answer.
pub const ANSWER_LEN: usize = 6 + NAME_LEN;
/// Octets of a record's head: its kind, and the length of its body.
const HEAD_LEN: usize = 4;
/// The longest record other than load.
const SMALL_MAX: usize = 16;
/// Load is written in pieces of at most this many octets, ...
const PIECE_MAX: usize = 8 << 10;
/// ... and at least this many.
const PIECE_MIN: usize = 1 << 10;
/// Incompressible octets that the pieces are cut from.
const FILLER_LEN: usize = 256 << 10;
/// Maximum number of queued pings and pongs; further ones are dropped.
const WAITING_MAX: usize = 64;
/// Size of the reply to a small request: with headers and openings about the draft's 5,000 octets of a foreign probe.
pub const SMALL_REPLY: usize = 4_700;

const DATA: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;
const END: u8 = 3;

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The server sends.
    Down,
    /// The client sends.
    Up,
    /// The server sends one short record and closes.
    Small,
}

/// A client's opening of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The purpose.
    pub purpose: Purpose,
    /// The session it belongs to.
    pub token: Token,
    /// The congestion control that the server should use; empty for its own choice.
    pub congestion: String,
}

/// A congestion control's name in the kernel's form; empty if there is none.
fn name(octets: [u8; NAME_LEN]) -> Result<String, DecodeError> {
    let end = octets.iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
    let plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-';
    if !octets[..end].iter().all(plain) || octets[end..].iter().any(|b| *b != 0) {
        return Err(DecodeError::Invalid("congestion control"));
    }
    Ok(String::from_utf8_lossy(&octets[..end]).into_owned())
}

fn put_name(out: &mut [u8], name: &str) {
    for (to, from) in out.iter_mut().take(NAME_LEN - 1).zip(name.bytes()) {
        *to = from;
    }
}

impl Opening {
    /// Reads an opening.
    pub fn parse(octets: &[u8; OPENING_LEN]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(octets);
        if r.array()? != MAGIC || r.u8()? != VERSION {
            return Err(DecodeError::Invalid("magic or version"));
        }
        let purpose = match r.u8()? {
            1 => Purpose::Down,
            2 => Purpose::Up,
            3 => Purpose::Small,
            _ => return Err(DecodeError::Invalid("purpose")),
        };
        Ok(Self { purpose, token: r.array()?, congestion: name(r.array()?)? })
    }

    /// Writes it.
    pub fn to_bytes(&self) -> [u8; OPENING_LEN] {
        let mut out = [0; OPENING_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = match self.purpose {
            Purpose::Down => 1,
            Purpose::Up => 2,
            Purpose::Small => 3,
        };
        out[6..22].copy_from_slice(&self.token);
        put_name(&mut out[22..], &self.congestion);
        out
    }
}

/// The answer of a server that accepts the connection: the congestion control in use. Otherwise it closes the connection.
pub fn answer(congestion: &str) -> [u8; ANSWER_LEN] {
    let mut out = [0; ANSWER_LEN];
    out[..4].copy_from_slice(&MAGIC);
    out[4] = VERSION;
    put_name(&mut out[6..], congestion);
    out
}

/// Parses it.
pub fn parse_answer(octets: &[u8; ANSWER_LEN]) -> Result<String, DecodeError> {
    let mut r = Reader::new(octets);
    if r.array()? != MAGIC || r.u8()? != VERSION || r.u8()? != 0 {
        return Err(DecodeError::Invalid("answer"));
    }
    name(r.array()?)
}

/// An answered ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pong {
    /// When it was sent, on the sender's clock, in nanoseconds.
    pub asked: u64,
    /// Bytes in flight of the answering TCP.
    pub in_flight: u32,
}

/// One end of a connection, after the opening.
#[derive(Debug)]
pub struct End {
    /// Whether load is written when nothing else is queued.
    loads: bool,
    filler: Vec<u8>,
    filler_at: usize,
    piece: usize,
    head: Vec<u8>,
    /// Octets of the record not yet received.
    left: usize,
    small: Vec<u8>,
    kind: u8,
    out: Vec<u8>,
    out_at: usize,
    waiting: VecDeque<(u8, u64)>,
    pongs: VecDeque<Pong>,
    finished: bool,
    ended: bool,
}

impl End {
    /// An end that writes load if `loads`.
    pub fn new(loads: bool) -> Self {
        Self {
            loads,
            filler: if loads { filler() } else { Vec::new() },
            filler_at: 0,
            piece: PIECE_MAX,
            head: Vec::new(),
            left: 0,
            small: Vec::new(),
            kind: DATA,
            out: Vec::new(),
            out_at: 0,
            waiting: VecDeque::new(),
            pongs: VecDeque::new(),
            finished: false,
            ended: false,
        }
    }

    /// Sends a ping at `now`.
    pub fn ping(&mut self, now: u64) {
        self.wait(PING, now);
    }
    /// Stops sending load, and asks the other end to stop.
    pub fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.loads = false;
            // Queued pings and pongs are dropped in favour of the end.
            self.waiting.clear();
            self.wait(END, 0);
        }
    }
    /// The other end has stopped sending and wants no more.
    pub fn ended(&self) -> bool {
        self.ended
    }
    /// The next received answer.
    pub fn pong(&mut self) -> Option<Pong> {
        self.pongs.pop_front()
    }

    fn wait(&mut self, kind: u8, time: u64) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((kind, time));
        }
    }

    /// Processes received octets. An error means that the other end does not use this protocol.
    pub fn take(&mut self, mut octets: &[u8]) -> Result<(), DecodeError> {
        while !octets.is_empty() {
            if self.head.len() < HEAD_LEN {
                self.head.push(octets[0]);
                octets = &octets[1..];
                if self.head.len() < HEAD_LEN {
                    continue;
                }
                self.kind = self.head[0];
                self.left = self.head[1..].iter().fold(0, |n, b| n << 8 | usize::from(*b));
                if self.kind != DATA && self.left > SMALL_MAX {
                    return Err(DecodeError::TooLong("record"));
                }
                self.small.clear();
            }
            let n = octets.len().min(self.left);
            if self.kind != DATA {
                self.small.extend_from_slice(&octets[..n]);
            }
            octets = &octets[n..];
            self.left -= n;
            if self.left == 0 {
                self.head.clear();
                self.record()?;
            }
        }
        Ok(())
    }

    fn record(&mut self) -> Result<(), DecodeError> {
        let mut r = Reader::new(&self.small);
        match self.kind {
            PING => {
                let asked = r.u64()?;
                self.wait(PONG, asked);
            }
            PONG => {
                let pong = Pong { asked: r.u64()?, in_flight: r.u32()? };
                if self.pongs.len() < WAITING_MAX {
                    self.pongs.push_back(pong);
                }
            }
            END => self.ended = true,
            _ => {}
        }
        Ok(())
    }

    /// The octets to be written next; empty if there are none. `in_flight` is called when the value is needed.
    pub fn fill(&mut self, in_flight: impl FnOnce() -> u32) -> &[u8] {
        if self.out_at >= self.out.len() {
            self.out.clear();
            self.out_at = 0;
            match self.waiting.pop_front() {
                Some((kind, time)) => {
                    let flying = if kind == PONG { in_flight() } else { 0 };
                    let len = match kind {
                        PING => 8,
                        PONG => 12,
                        _ => 0,
                    };
                    self.out.extend_from_slice(&[kind, 0, 0, len]);
                    if len > 0 {
                        self.out.extend_from_slice(&time.to_be_bytes());
                    }
                    if kind == PONG {
                        self.out.extend_from_slice(&flying.to_be_bytes());
                    }
                }
                None if self.loads => self.piece(self.piece - HEAD_LEN),
                None => {}
            }
        }
        &self.out[self.out_at..]
    }

    /// Writes load in pieces of about this many octets from now on: an answer waits for the piece before it.
    pub fn cut(&mut self, octets: u64) {
        self.piece = usize::try_from(octets).unwrap_or(PIECE_MAX).clamp(PIECE_MIN, PIECE_MAX);
    }

    fn piece(&mut self, len: usize) {
        if self.filler_at + len > self.filler.len() {
            self.filler_at = 0;
        }
        self.out.extend_from_slice(&[DATA, (len >> 16) as u8, (len >> 8) as u8, len as u8]);
        self.out.extend_from_slice(&self.filler[self.filler_at..self.filler_at + len]);
        self.filler_at += len;
    }

    /// Records that this many octets of it were written.
    pub fn wrote(&mut self, octets: usize) {
        self.out_at += octets;
    }
}

/// The reply to a small request.
pub fn small_reply() -> Vec<u8> {
    let mut end = End::new(true);
    end.piece(SMALL_REPLY - HEAD_LEN);
    end.out
}

/// Incompressible octets (xorshift64, Marsaglia 2003).
fn filler() -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..FILLER_LEN / 8).flat_map(|_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;
    use proptest::prelude::*;

    /// Moves `octets` of the output of `from` to `to`, `step` at a time.
    fn carry(from: &mut End, to: &mut End, mut octets: usize, step: usize) {
        while octets > 0 {
            let out = from.fill(|| 4_321);
            if out.is_empty() {
                return;
            }
            let n = out.len().min(step).min(octets);
            to.take(&out[..n]).unwrap();
            from.wrote(n);
            octets -= n;
        }
    }

    #[test]
    fn pings_are_answered_between_pieces_of_load() {
        for step in [1, 7, 1_448, 100_000] {
            let (mut client, mut server) = (End::new(false), End::new(true));
            carry(&mut server, &mut client, 20_000, step);
            client.ping(77);
            carry(&mut client, &mut server, 100, step);
            carry(&mut server, &mut client, 20_000, step);
            assert_eq!(client.pong(), Some(Pong { asked: 77, in_flight: 4_321 }));
            assert_eq!(client.pong(), None);
            client.finish();
            client.finish();
            carry(&mut client, &mut server, 100, step);
            assert!(server.ended() && client.fill(|| 0).is_empty());
        }
    }

    #[test]
    fn openings_and_answers_survive_and_odd_names_do_not() {
        let opening = Opening { purpose: Purpose::Up, token: [3; 16], congestion: "cubic".into() };
        let bytes = opening.to_bytes();
        assert_eq!(Opening::parse(&bytes), Ok(opening));
        for (at, value) in [(0, 0), (4, 9), (5, 0), (5, 4), (22, b'/'), (30, b'x')] {
            let mut odd = bytes;
            odd[at] = value;
            assert!(Opening::parse(&odd).is_err(), "octet {at} is {value}");
        }
        assert_eq!(parse_answer(&answer("bbr")).as_deref(), Ok("bbr"));
        assert_eq!(parse_answer(&answer("a-name-that-is-too-long")).as_deref(), Ok("a-name-that-is-"));
        assert_eq!(small_reply().len(), SMALL_REPLY);
    }

    proptest! {
        #[test]
        fn whatever_arrives_memory_stays_bounded(octets in prop::collection::vec(any::<u8>(), 0..4_000), cut in 1usize..500) {
            let mut end = End::new(false);
            let result = octets.chunks(cut).try_for_each(|chunk| end.take(chunk));
            prop_assert!(end.waiting.len() <= WAITING_MAX && end.pongs.len() <= WAITING_MAX);
            prop_assert!(end.small.len() <= SMALL_MAX || result.is_err());
        }
    }
}
