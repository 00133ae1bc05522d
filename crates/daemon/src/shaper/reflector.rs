//! One-way delay to a machine without our software: ICMP timestamps (RFC 792, type 13), or echoes where it gives none.

use super::config::DelayDirection;
use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::{Instant, Span};
use wavelane_host::clock::wall_nanos;
use wavelane_host::icmp::IcmpSocket;

/// One question so often: six answers, which are judged together, then span less than a third of a second.
pub(super) const ASK_EVERY: Span = Span::from_millis(50);
/// Questions that wait for an answer; older ones are given up.
const ASKED_MAX: usize = 64;
/// So many timestamps without an answer, and echoes are sent in their place.
const PATIENCE: u32 = 20;
const DAY_MS: f64 = 86_400_000.0;
/// This bit marks a clock that does not count milliseconds since midnight (RFC 792, page 17).
const STRANGE: u32 = 1 << 31;
const ECHO: (u8, u8) = (8, 0);
const TIMESTAMP: (u8, u8) = (13, 14);

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Answer {
    /// Milliseconds since midnight at which the question came there, and the answer left.
    Stamps {
        sequence: u16,
        came: u32,
        left: u32,
    },
    Echo {
        sequence: u16,
    },
}

/// Asks one machine.
#[derive(Debug)]
pub(super) struct Reflector {
    socket: IcmpSocket,
    way: DelayDirection,
    id: u16,
    sequence: u16,
    /// With the moment and the time of day, in milliseconds, at which each was asked.
    asked: VecDeque<(u16, Instant, f64)>,
    /// Timestamp requests without an answer; `None` once echoes are sent.
    unanswered: Option<u32>,
}

fn checksum(message: &[u8]) -> u16 {
    wavelane_wire::ip::checksum(&[message])
}

fn question(stamps: bool, id: u16, sequence: u16, today_ms: u32) -> Vec<u8> {
    let mut message = vec![if stamps { TIMESTAMP.0 } else { ECHO.0 }, 0, 0, 0];
    message.extend(id.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend(today_ms.to_be_bytes());
    message.extend([0; 8]);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// The answer in an IPv4 packet, if it is one to `id`.
fn parse(packet: &[u8], id: u16) -> Option<Answer> {
    let message = packet.get(usize::from(packet.first()? & 15) * 4..)?;
    let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_be_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let (kind, sequence) = (*message.first()?, word(6)?);
    if word(4)? != id || checksum(message) != 0 {
        return None;
    }
    match kind {
        k if k == TIMESTAMP.1 => Some(Answer::Stamps { sequence, came: long(12)?, left: long(16)? }),
        k if k == ECHO.1 => Some(Answer::Echo { sequence }),
        _ => None,
    }
}

/// Difference of two times of day, whichever side of midnight they are.
fn difference(later: f64, earlier: f64) -> f64 {
    (later - earlier + 1.5 * DAY_MS).rem_euclid(DAY_MS) - 0.5 * DAY_MS
}

fn today_ms() -> f64 {
    wall_nanos() as f64 / 1e6 % DAY_MS
}

impl Reflector {
    /// Asks `address` from now on.
    pub(super) fn open(address: Ipv4Addr, way: DelayDirection, id: u16) -> io::Result<Self> {
        let socket = IcmpSocket::open(address)?;
        Ok(Self { socket, way, id, sequence: 0, asked: VecDeque::new(), unanswered: Some(0) })
    }

    /// Sends a question. True if echoes are sent from this one on.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let given_up = self.unanswered.is_some_and(|n| n >= PATIENCE);
        if given_up {
            self.unanswered = None;
        }
        self.unanswered = self.unanswered.map(|n| n + 1);
        self.sequence = self.sequence.wrapping_add(1);
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_front();
        }
        let today = today_ms();
        self.asked.push_back((self.sequence, now, today));
        // A link that is down takes none; that is silence.
        let _ = self.socket.send(&question(self.unanswered.is_some(), self.id, self.sequence, today as u32));
        given_up
    }

    /// The delays in milliseconds that have come in. Stamps are whole milliseconds, and give or take what the clocks differ.
    pub(super) fn answers(&mut self, now: Instant) -> io::Result<Vec<f64>> {
        let mut delays = Vec::new();
        let mut buffer = [0; 256];
        while let Some(len) = self.socket.receive(&mut buffer)? {
            let delay = parse(&buffer[..len], self.id).and_then(|answer| self.delay(now, today_ms(), answer));
            delays.extend(delay);
            if delays.len() == ASKED_MAX {
                break;
            }
        }
        Ok(delays)
    }

    fn delay(&mut self, now: Instant, today: f64, answer: Answer) -> Option<f64> {
        let (Answer::Stamps { sequence, .. } | Answer::Echo { sequence }) = answer;
        let place = self.asked.iter().position(|(asked, ..)| *asked == sequence)?;
        let (_, asked, asked_today) = self.asked.remove(place)?;
        let Answer::Stamps { came, left, .. } = answer else {
            return Some(now.since(asked).as_secs_f64() * 1e3);
        };
        if (came | left) & STRANGE != 0 {
            // The next questions are echoes.
            self.unanswered = self.unanswered.map(|_| PATIENCE);
            return None;
        }
        self.unanswered = self.unanswered.map(|_| 0);
        Some(match self.way {
            DelayDirection::Up => difference(came.into(), asked_today),
            DelayDirection::Down => difference(today, left.into()),
        })
    }
}

impl AsFd for Reflector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(kind: u8, id: u16, sequence: u16, stamps: [u32; 3]) -> Vec<u8> {
        let mut packet = vec![0x45; 20];
        let mut message = vec![kind, 0, 0, 0];
        message.extend(id.to_be_bytes());
        message.extend(sequence.to_be_bytes());
        stamps.iter().for_each(|stamp| message.extend(stamp.to_be_bytes()));
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.extend(message);
        packet
    }

    #[test]
    fn answers_are_told_from_everything_else() {
        let stamps = Answer::Stamps { sequence: 3, came: 500, left: 501 };
        let packet = answered(14, 9, 3, [400, 500, 501]);
        assert_eq!(parse(&packet, 9), Some(stamps));
        assert_eq!(parse(&packet, 8), None, "another program's");
        assert_eq!(parse(&answered(0, 9, 3, [0; 3]), 9), Some(Answer::Echo { sequence: 3 }));
        assert_eq!(parse(&answered(13, 9, 3, [0; 3]), 9), None, "a question");
        let mut damaged = packet.clone();
        damaged[33] ^= 1;
        assert_eq!(parse(&damaged, 9), None);
        for cut in 0..packet.len() {
            parse(&packet[..cut], 9);
        }
        assert_eq!(checksum(&question(true, 9, 3, 400)), 0);
    }

    #[test]
    fn midnight_is_no_delay() {
        assert_eq!(difference(5.0, DAY_MS - 7.0), 12.0);
        assert_eq!(difference(DAY_MS - 7.0, 5.0), -12.0);
        assert_eq!(difference(130.0, 100.0), 30.0);
    }

    #[test]
    fn each_direction_has_its_delay_and_each_answer_counts_once() {
        if !wavelane_host::caps::has(wavelane_host::caps::NET_RAW) {
            return eprintln!("SKIPPED (1 test): a raw socket needs root");
        }
        let at = Instant::from_millis(1_000);
        let stamps = Answer::Stamps { sequence: 7, came: 110, left: 112 };
        for (way, expected) in [(DelayDirection::Up, 10.0), (DelayDirection::Down, 25.0)] {
            let mut reflector = Reflector::open(Ipv4Addr::LOCALHOST, way, 1).expect("a socket");
            reflector.asked.push_back((7, at, 100.0));
            assert_eq!(reflector.delay(at + Span::from_millis(37), 137.0, stamps), Some(expected));
            assert_eq!(reflector.delay(at, 137.0, stamps), None, "twice");
            reflector.asked.push_back((8, at, 100.0));
            assert_eq!(reflector.delay(at + Span::from_millis(37), 0.0, Answer::Echo { sequence: 8 }), Some(37.0));
            // A clock of another kind is asked for echoes.
            reflector.asked.push_back((9, at, 100.0));
            assert_eq!(reflector.delay(at, 0.0, Answer::Stamps { sequence: 9, came: STRANGE, left: 0 }), None);
            assert!(reflector.ask(at) && reflector.unanswered.is_none());
        }
    }
}
