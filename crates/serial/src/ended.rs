//! Whether a modem has said, in the octets of its connection, that the connection ended. Its text is data inside frames: any host can send the
//! same octets.

use crate::framing::Framing;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};
use wavelane_wire::serial::{hdlc, slip};

/// What a modem says (V.250, table 1).
const SAID: &[u8] = b"NO CARRIER";
/// With the ends of lines around it.
const LINE_MAX: usize = SAID.len() + 4;
/// What a modem without a connection says of its own accord, or to what it takes for commands. A line that lives carries data.
const WORDS: [&[u8]; 4] = [b"\r\nRING\r\n", b"\r\nNO CARRIER\r\n", b"\r\nOK\r\n", b"\r\nERROR\r\n"];
/// Lines of a modem in a row: RING, and NO CARRIER if it answered. Policy.
const WORDS_MAX: u8 = 4;
/// Between two frames nobody else says that, if nothing follows for so long: policy, as the next.
const SILENT: Span = Span::from_secs(1);
/// In a frame that was cut. Any host can have sent the octets, but a line that lives goes on sooner: modems that train again take up to 15 s.
const SILENT_IN_FRAME: Span = Span::from_secs(20);

/// See the module's description.
#[derive(Debug)]
pub struct Ended {
    end: u8,
    /// An END doubled is data.
    doubled: bool,
    /// ENDs in a row that came last.
    ends: u32,
    /// A frame ended before the octets that came since; and how many came.
    between: bool,
    since: usize,
    tail: VecDeque<u8>,
    /// It was said, and is believed then unless data follow.
    due: Option<Instant>,
    /// Of a modem's line that followed: who calls in vain makes it no later.
    word: Vec<u8>,
    /// Such lines that may come before the next silence: hosts say them too, but a line that lives is not silent in a frame.
    words_left: u8,
    heard: Instant,
}

impl Ended {
    /// For a connection that begins.
    pub fn new(framing: Framing) -> Self {
        let end = if framing == Framing::Ppp { hdlc::FLAG } else { slip::END };
        let doubled = framing == Framing::Slip1998;
        let tail = VecDeque::with_capacity(LINE_MAX);
        Self {
            end,
            doubled,
            ends: 0,
            between: true,
            since: 0,
            tail,
            due: None,
            word: Vec::new(),
            words_left: 0,
            heard: Instant::ZERO,
        }
    }
    /// Takes octets of the connection.
    pub fn push(&mut self, now: Instant, octets: &[u8]) {
        if octets.is_empty() {
            return;
        }
        if now.since(self.heard) >= SILENT {
            self.words_left = WORDS_MAX;
        }
        self.heard = now;
        for &octet in octets {
            if octet == self.end {
                self.ends = self.ends.saturating_add(1);
                self.since = 0;
                self.between = !self.doubled || self.ends % 2 == 1;
            } else {
                self.ends = 0;
                self.since = self.since.saturating_add(1);
            }
            if self.tail.len() == LINE_MAX {
                self.tail.pop_front();
            }
            self.tail.push_back(octet);
            self.note(now, octet);
        }
    }
    /// Whether what came last says it, or leaves it said.
    fn note(&mut self, now: Instant, octet: u8) {
        if self.due.is_none() {
            self.due = self.silence().map(|silence| now + silence);
            self.words_left = 0;
            return;
        }
        self.word.push(octet);
        if WORDS.contains(&&self.word[..]) && self.words_left > 0 {
            self.word.clear();
            self.words_left -= 1;
        } else if self.words_left == 0 || !WORDS.iter().any(|word| word.starts_with(&self.word)) {
            self.word.clear();
            self.due = None;
        }
    }
    /// If the octets end with it: the silence that makes it true.
    fn silence(&self) -> Option<Span> {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let line = tail.strip_suffix(b"\r\n").filter(|line| line.ends_with(SAID))?;
        let new = &line[line.len().saturating_sub(self.since.saturating_sub(2))..];
        let alone = self.between && self.since <= LINE_MAX && matches!(new.strip_prefix(b"\r\n").unwrap_or(new), SAID);
        Some(if alone { SILENT } else { SILENT_IN_FRAME })
    }
    /// Whether it has said so.
    pub fn is_said(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(framing: Framing, octets: &[u8]) -> Option<u64> {
        let mut ended = Ended::new(framing);
        ended.push(Instant::ZERO, octets);
        let first = (0..=100).find(|second| ended.is_said(Instant::from_secs(*second)));
        // What comes later was no end.
        ended.push(Instant::from_secs(1), b"x");
        assert!(!ended.is_said(Instant::from_secs(100)), "{octets:?}");
        first
    }

    #[test]
    fn what_a_modem_says_is_data_inside_frames() {
        for framing in Framing::ALL {
            assert_eq!(seconds(framing, b"\r\nNO CARRIER\r\n"), Some(1), "{framing:?}: before any frame");
            assert_eq!(seconds(framing, b"E\0\0data of a host NO CARRIER\r\n"), Some(20), "{framing:?}: in a frame");
            assert_eq!(seconds(framing, b"NO CARRIER"), None, "{framing:?}: no line");
            assert_eq!(seconds(framing, b"\r\nNO DIALTONE\r\n"), None, "{framing:?}");
        }
        assert_eq!(seconds(Framing::Slip, b"\xc0data\xc0\r\nNO CARRIER\r\n"), Some(1));
        assert_eq!(seconds(Framing::Ppp, b"\x7edata\x7e\r\nNO CARRIER\r\n"), Some(1));
        assert_eq!(seconds(Framing::Ppp, b"\x7edata\x7exNO CARRIER\r\n"), Some(20));
        assert_eq!(seconds(Framing::Ppp, b"\x7edata\xc0\r\nNO CARRIER\r\n"), Some(20), "the other framing's end");
        // Two ENDs are one of the data, three are that and the frame's.
        assert_eq!(seconds(Framing::Slip1998, b"data\xc0\xc0\r\nNO CARRIER\r\n"), Some(20));
        assert_eq!(seconds(Framing::Slip1998, b"data\xc0\xc0\xc0\r\nNO CARRIER\r\n"), Some(1));
    }
    /// Of another modem that calls in vain, because octets that it takes for commands end each attempt.
    #[test]
    fn a_modem_that_rings_on_makes_it_no_later() {
        let mut ended = Ended::new(Framing::Slip);
        ended.push(Instant::ZERO, b"\xc0E\0\0data\r\nNO CARRIER\r\n");
        for second in [7, 18] {
            ended.push(Instant::from_secs(second), b"\r\nRI");
            ended.push(Instant::from_secs(second), b"NG\r\n\r\nNO CARRIER\r\n");
        }
        assert!(!ended.is_said(Instant::from_secs(19)) && ended.is_said(Instant::from_secs(20)));
        // Of a host, in a frame that goes on.
        let mut ended = Ended::new(Framing::Slip);
        ended.push(Instant::ZERO, b"\xc0E\0\0data\r\nNO CARRIER\r\n");
        for tenth in 1..300 {
            ended.push(Instant::from_millis(100 * tenth), b"\r\nRING\r\n");
            assert!(!ended.is_said(Instant::from_millis(100 * tenth)), "{tenth}");
        }
        let mut ended = Ended::new(Framing::Slip);
        ended.push(Instant::ZERO, b"\r\nNO CARRIER\r\n");
        ended.push(Instant::from_secs(20), b"\r\nRING\r\n\r\nCONNECT 33600\r\n");
        assert!(!ended.is_said(Instant::from_secs(100)), "a connection");
    }
}
