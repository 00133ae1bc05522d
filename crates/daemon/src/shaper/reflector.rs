//! One-way delay to a machine without our software: ICMP timestamps (RFC 792, type 13), or echoes where it gives none. Where no timestamps
//! come back, as through a carrier's NAT, a probe server has the time as well (docs/protocol/probe.md).

use super::config::DelayDirection;
use super::continuous::{Continuous, Source};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::{Instant, Span};
use wavelane_host::clock::wall_nanos;
use wavelane_host::icmp::IcmpSocket;
use wavelane_measure::Autorate;

/// The interval of questions to a machine that is not ours.
const ASK_EVERY: Span = Span::from_millis(50);
/// Questions that wait for an answer; older ones are given up. Every 10 ms, these are those of 20 s.
const ASKED_MAX: usize = 2_048;
/// After this many timestamp requests without an answer, echoes are sent in their place ...
const PATIENCE: u32 = 20;
/// ... except for one in this many: a link that was down for a second does not mean a reflector without timestamps.
const RETRY_ONE_IN: u16 = 8;
/// This many answered echoes in a row: two timestamp requests among them had no answer, which is no outage.
const TELL_AFTER: u32 = 2 * RETRY_ONE_IN as u32;
/// A clock that was of no use is tried again after this long: an answer that a busy machine read late looks the same, and passes.
const ODD_FOR: Span = Span::from_secs(60);
const DAY_MS: f64 = 86_400_000.0;
/// This bit marks a clock that does not count milliseconds since midnight (RFC 792, page 17).
const STRANGE: u32 = 1 << 31;
const ECHO: (u8, u8) = (8, 0);
const TIMESTAMP: (u8, u8) = (13, 14);

/// A probe server's prefix, version and kinds (docs/protocol/probe.md), and the least octets of a question.
const PROBE: [u8; 5] = *b"WLPR\x01";
const ASK: u8 = 11;
const TIME: u8 = 12;
pub(crate) const QUESTION_LEN: usize = 72;
/// Octets of IP and UDP around it.
const AROUND: u64 = 28;

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Any machine, by ICMP.
    Icmp(Ipv4Addr),
    /// A probe server.
    Probe(SocketAddrV4),
}

impl std::str::FromStr for Target {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let probe = || text.parse().ok().filter(|at: &SocketAddrV4| at.port() != 0).map(Self::Probe);
        text.parse().map(Self::Icmp).ok().or_else(probe).ok_or(())
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Icmp(address) => address.fmt(f),
            Self::Probe(address) => address.fmt(f),
        }
    }
}

/// How it is asked.
#[derive(Debug)]
enum Line {
    Icmp(IcmpSocket),
    /// What makes our questions known from those of others, with the sequence number behind it.
    Probe(UdpSocket, [u8; 6]),
}

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
    /// The same by a probe server's clock, in milliseconds since whenever.
    Times {
        sequence: u16,
        came_ms: f64,
        left_ms: f64,
    },
}

/// What was logged last of the reflector's timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    /// There are some; this needs no word at the start.
    Stamps,
    /// There are none.
    NoStamps,
    /// They are of no use.
    Odd,
}

/// Asks one machine.
#[derive(Debug)]
pub(super) struct Reflector {
    target: Target,
    line: Line,
    way: DelayDirection,
    id: u16,
    sequence: u16,
    /// A moment, and the time of day then in milliseconds. Our clock is read once, so that setting it does not look like delay.
    origin: (Instant, f64),
    /// With the moment at which each was asked.
    asked: VecDeque<(u16, Instant)>,
    /// Timestamp requests in a row without an answer.
    unanswered: u32,
    /// Echoes answered since the last answered timestamp request.
    echoes: u32,
    said: Said,
    /// Since when its timestamps are of no use.
    odd: Option<Instant>,
    /// What it is mainly asked for.
    source: Source,
    delays: Continuous,
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

fn probe_question(key: [u8; 6], sequence: u16) -> [u8; QUESTION_LEN] {
    let mut message = [0; QUESTION_LEN];
    message[..5].copy_from_slice(&PROBE);
    message[5] = ASK;
    message[6..12].copy_from_slice(&key);
    message[12..14].copy_from_slice(&sequence.to_be_bytes());
    message
}

/// The probe server's answer to such a question.
fn parse_time(message: &[u8], key: [u8; 6]) -> Option<Answer> {
    let rest = message.strip_prefix(&PROBE)?.strip_prefix(&[TIME])?.strip_prefix(&key)?;
    let sequence = u16::from_be_bytes(rest.get(..2)?.try_into().ok()?);
    let ms = |at: usize| Some(u64::from_be_bytes(rest.get(at..at + 8)?.try_into().ok()?) as f64 / 1e6 % DAY_MS);
    Some(Answer::Times { sequence, came_ms: ms(2)?, left_ms: ms(10)? })
}

/// Whether a datagram is such a question, or several.
pub(crate) fn is_question(datagram: &[u8]) -> bool {
    datagram.strip_prefix(&PROBE).is_some_and(|rest| rest.first() == Some(&ASK))
        && datagram.len().is_multiple_of(QUESTION_LEN)
}

/// The answer to one that came then, by a clock of whatever beginning.
pub(crate) fn time(question: &[u8; QUESTION_LEN], came: Instant, left: Instant) -> Vec<u8> {
    let times = [came, left].map(|at| at.as_nanos().to_be_bytes()).concat();
    [&PROBE, &[TIME][..], &question[6..14], &times].concat()
}

/// Difference of two times of day, whichever side of midnight they are.
fn difference(later: f64, earlier: f64) -> f64 {
    (later - earlier + 1.5 * DAY_MS).rem_euclid(DAY_MS) - 0.5 * DAY_MS
}

fn today_ms() -> f64 {
    wall_nanos() as f64 / 1e6 % DAY_MS
}

impl Reflector {
    /// Asks `target` from now on.
    pub(super) fn open(now: Instant, target: Target, way: DelayDirection, id: u16) -> io::Result<Self> {
        let line = match target {
            Target::Icmp(address) => Line::Icmp(IcmpSocket::open(address)?),
            Target::Probe(address) => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                socket.connect(SocketAddr::V4(address))?;
                socket.set_nonblocking(true)?;
                let mut key = [0; 6];
                wavelane_host::entropy::fill(&mut key);
                Line::Probe(socket, key)
            }
        };
        let (origin, source) = ((now, today_ms()), Source::Stamps);
        let (asked, delays, said) = (VecDeque::new(), Continuous::default(), Said::Stamps);
        let (sequence, unanswered, echoes, odd) = (0, 0, 0, None);
        Ok(Self { target, line, way, id, sequence, origin, asked, unanswered, echoes, said, odd, source, delays })
    }

    /// The time of day at `now`, as far as it was right when this began.
    fn today_at(&self, now: Instant) -> f64 {
        (self.origin.1 + now.since(self.origin.0).as_secs_f64() * 1e3) % DAY_MS
    }

    /// Sends a question. Returns a line if there is news of the reflector's timestamps.
    pub(super) fn ask(&mut self, now: Instant) -> Option<&'static str> {
        if self.odd.is_some_and(|since| now.since(since) >= ODD_FOR) {
            self.odd = None;
            self.unanswered = 0;
            self.echoes = 0;
            self.delays.forgive();
        }
        let is_odd = self.odd.is_some();
        self.source = if is_odd || self.unanswered >= PATIENCE { Source::Echoes } else { Source::Stamps };
        self.sequence = self.sequence.wrapping_add(1);
        let retries = !is_odd && self.sequence.is_multiple_of(RETRY_ONE_IN);
        let stamps = self.source == Source::Stamps || retries;
        if stamps {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((self.sequence, now));
        // A link that is down accepts none, which counts as silence.
        let _ = match &self.line {
            Line::Icmp(socket) => socket.send(&question(stamps, self.id, self.sequence, self.today_at(now) as u32)),
            Line::Probe(socket, key) => socket.send(&probe_question(*key, self.sequence)).map(drop),
        };
        self.news()
    }

    /// What is to be logged of the reflector's timestamps, once. Without any answer nothing is known of them.
    fn news(&mut self) -> Option<&'static str> {
        let known = match self.source {
            _ if self.odd.is_some() => Said::Odd,
            // Tried again, and not known yet.
            Source::Stamps if self.said == Said::Odd && self.delays.fine() < TELL_AFTER => Said::Odd,
            Source::Stamps => Said::Stamps,
            Source::Echoes if self.echoes >= TELL_AFTER => Said::NoStamps,
            Source::Echoes => self.said,
        };
        let was = std::mem::replace(&mut self.said, known);
        (was != known).then_some(match known {
            Said::Stamps => "the reflector gives timestamps again",
            Said::NoStamps => "the reflector gives no timestamps: round trips are looked at",
            Said::Odd => "the reflector's clock is none that can be used: round trips are looked at",
        })
    }

    /// The delays in milliseconds that have come in, each with the moment of its question. Stamps are whole milliseconds, and off by the clocks' difference. The time is taken
    /// after each is read: a time from before an answer came would make its round trip shorter than it was.
    pub(super) fn answers(&mut self, clock: impl Fn() -> Instant) -> io::Result<Vec<(Instant, f64)>> {
        let mut delays = Vec::new();
        let mut buffer = [0; 256];
        while let Some(len) = self.receive(&mut buffer)? {
            let answer = match &self.line {
                Line::Icmp(_) => parse(&buffer[..len], self.id),
                Line::Probe(_, key) => parse_time(&buffer[..len], *key),
            };
            let delay = answer.and_then(|answer| self.delay(clock(), answer));
            delays.extend(delay);
            if delays.len() == ASKED_MAX {
                break;
            }
        }
        Ok(delays)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &self.line {
            Line::Icmp(socket) => socket.receive(buffer),
            Line::Probe(socket, _) => match socket.recv(buffer) {
                Ok(len) => Ok(Some(len)),
                // No server there: silence, as from a machine that does not answer.
                Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionRefused].contains(&e.kind()) => Ok(None),
                Err(e) => Err(e),
            },
        }
    }

    fn delay(&mut self, now: Instant, answer: Answer) -> Option<(Instant, f64)> {
        let (Answer::Stamps { sequence, .. } | Answer::Echo { sequence } | Answer::Times { sequence, .. }) = answer;
        let place = self.asked.iter().position(|(asked, _)| *asked == sequence)?;
        let (_, asked) = self.asked.remove(place)?;
        let round_ms = now.since(asked).as_secs_f64() * 1e3;
        let (came, left) = match answer {
            Answer::Stamps { came, left, .. } => {
                // The next questions are echoes.
                if (came | left) & STRANGE != 0 {
                    self.odd.get_or_insert(now);
                }
                if self.odd.is_some() {
                    return None;
                }
                (f64::from(came), f64::from(left))
            }
            Answer::Times { came_ms, left_ms, .. } if self.odd.is_none() => (came_ms, left_ms),
            Answer::Times { .. } | Answer::Echo { .. } => {
                self.echoes = self.echoes.saturating_add(1);
                return Some((asked, self.delays.add(now, Source::Echoes, round_ms, round_ms)));
            }
        };
        self.unanswered = 0;
        self.echoes = 0;
        let delay_ms = match self.way {
            DelayDirection::Up => difference(came, self.today_at(asked)),
            DelayDirection::Down => difference(self.today_at(now), left),
        };
        let delay_ms = self.delays.add(now, Source::Stamps, delay_ms, round_ms);
        self.odd = self.delays.is_odd().then_some(now);
        Some((asked, delay_ms))
    }

    /// Whom it asks.
    pub(super) fn target(&self) -> Target {
        self.target
    }

    /// When it is asked again.
    pub(super) fn ask_every(&self, estimator: &Autorate) -> Span {
        match self.line {
            Line::Icmp(_) => ASK_EVERY,
            Line::Probe(..) => estimator.ask_every(QUESTION_LEN as u64 + AROUND),
        }
    }
}

impl AsFd for Reflector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Icmp(socket) => socket.as_fd(),
            Line::Probe(socket, _) => socket.as_fd(),
        }
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

    /// The octets that the probe's own code reads and writes: `crates/probe/src/packet.rs` has the same.
    #[test]
    fn a_probe_server_is_asked_in_its_own_words() {
        let question = probe_question([1, 2, 3, 4, 5, 6], 7);
        assert_eq!(question[..14], *b"WLPR\x01\x0b\x01\x02\x03\x04\x05\x06\x00\x07");
        assert!(question.len() == QUESTION_LEN && question[14..] == [0; 58]);
        let mut answer = b"WLPR\x01\x0c\x01\x02\x03\x04\x05\x06\x00\x07".to_vec();
        answer.extend([5_000_000_u64, 5_250_000].map(u64::to_be_bytes).concat());
        let times = Answer::Times { sequence: 7, came_ms: 5.0, left_ms: 5.25 };
        assert_eq!(parse_time(&answer, [1, 2, 3, 4, 5, 6]), Some(times));
        assert_eq!(time(&question, Instant::from_millis(5), Instant::from_micros(5_250)), answer);
        assert!(is_question(&question) && is_question(&[question; 3].concat()) && !is_question(&answer));
        assert!((0..QUESTION_LEN).all(|cut| !is_question(&question[..cut])));
        assert_eq!(parse_time(&answer, [9, 2, 3, 4, 5, 6]), None, "another's");
        assert!((0..answer.len()).all(|cut| parse_time(&answer[..cut], [1, 2, 3, 4, 5, 6]).is_none()));
        for (text, target) in [
            ("192.0.2.7", Some(Target::Icmp([192, 0, 2, 7].into()))),
            ("192.0.2.7:4783", Some(Target::Probe("192.0.2.7:4783".parse().expect("an address")))),
            ("example.org", None),
        ] {
            assert_eq!(text.parse().ok(), target);
            assert!(target.is_none_or(|target| target.to_string() == text));
        }
    }

    #[test]
    fn each_direction_of_a_probe_server_has_its_delay() {
        let at = Instant::from_millis(1_000);
        for (way, expected) in [(DelayDirection::Up, 10.5), (DelayDirection::Down, 25.0)] {
            let target = Target::Probe(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9));
            let mut reflector = Reflector::open(at, target, way, 1).expect("a socket");
            reflector.origin = (at, 100.0);
            reflector.asked.push_back((7, at));
            let times = Answer::Times { sequence: 7, came_ms: 110.5, left_ms: 112.0 };
            assert_eq!(reflector.delay(at + Span::from_millis(37), times), Some((at, expected)));
        }
    }

    #[test]
    fn an_answer_that_is_read_late_has_the_time_at_which_it_was_read() {
        let at = Instant::from_millis(1_000);
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let Ok(SocketAddr::V4(address)) = server.local_addr() else { panic!("an IPv4 address") };
        let mut reflector = Reflector::open(at, Target::Probe(address), DelayDirection::Down, 1).expect("a socket");
        reflector.origin = (at, 100.0);
        let turns = std::cell::Cell::new(0);
        // Each look at the clock takes 10 ms.
        let clock = || {
            turns.set(turns.get() + 1);
            at + Span::from_millis(10 * turns.get())
        };
        assert!(reflector.answers(clock).expect("none yet").is_empty());
        assert_eq!(turns.get(), 0, "nothing was read");
        for left in [100_u64, 105] {
            reflector.ask(at);
            let mut question = [0; QUESTION_LEN];
            let (_, from) = server.recv_from(&mut question).expect("a question");
            let stamps = [left - 1, left].map(|ms| (ms * 1_000_000).to_be_bytes()).concat();
            let answer = [&question[..5], &[TIME], &question[6..14], &stamps].concat();
            server.send_to(&answer, from).expect("sent");
        }
        let mut delays = Vec::new();
        while delays.len() < 2 {
            delays.extend(reflector.answers(clock).expect("read").into_iter().map(|(_, delay)| delay));
            std::thread::yield_now();
        }
        assert_eq!(delays, [10.0, 15.0]);
    }

    #[test]
    fn midnight_is_no_delay() {
        assert_eq!(difference(5.0, DAY_MS - 7.0), 12.0);
        assert_eq!(difference(DAY_MS - 7.0, 5.0), -12.0);
        assert_eq!(difference(130.0, 100.0), 30.0);
    }

    fn opened(way: DelayDirection, at: Instant) -> Option<Reflector> {
        if !wavelane_host::caps::has(wavelane_host::caps::NET_RAW) {
            eprintln!("SKIPPED (1 test): a raw socket needs root");
            return None;
        }
        let mut reflector = Reflector::open(at, Target::Icmp(Ipv4Addr::LOCALHOST), way, 1).expect("a socket");
        reflector.origin = (at, 100.0);
        Some(reflector)
    }

    #[test]
    fn each_direction_has_its_delay_and_each_answer_counts_once() {
        let at = Instant::from_millis(1_000);
        let (back, stamps) = (at + Span::from_millis(37), Answer::Stamps { sequence: 7, came: 110, left: 112 });
        for (way, expected) in [(DelayDirection::Up, 10.0), (DelayDirection::Down, 25.0)] {
            let Some(mut reflector) = opened(way, at) else { return };
            reflector.asked.push_back((7, at));
            assert_eq!(reflector.delay(back, stamps), Some((at, expected)));
            assert_eq!(reflector.delay(back, stamps), None, "twice");
            // A clock of another kind is asked for echoes.
            reflector.asked.push_back((9, at));
            assert_eq!(reflector.delay(at, Answer::Stamps { sequence: 9, came: STRANGE, left: 0 }), None);
            assert!(reflector.ask(at).is_some_and(|said| said.contains("clock")) && reflector.source == Source::Echoes);
            assert_eq!(reflector.ask(at), None, "once");
            // A minute later it is tried again, and believed once enough answers were fine.
            let later = at + ODD_FOR;
            assert_eq!((reflector.ask(later), reflector.source), (None, Source::Stamps));
            let said: Vec<_> = (0..TELL_AFTER + 3)
                .filter_map(|i| {
                    let now = later + ASK_EVERY.times(u64::from(i));
                    let (sequence, asked) = *reflector.asked.back().expect("asked");
                    let came = reflector.today_at(asked) as u32 + 10;
                    reflector.delay(asked + Span::from_millis(37), Answer::Stamps { sequence, came, left: came });
                    reflector.ask(now)
                })
                .collect();
            assert_eq!((said, reflector.source), (vec!["the reflector gives timestamps again"], Source::Stamps));
        }
    }

    #[test]
    fn an_outage_is_no_reflector_without_timestamps() {
        let mut now = Instant::from_millis(1_000);
        let Some(mut reflector) = opened(DelayDirection::Up, now) else { return };
        let mut ask = |reflector: &mut Reflector| {
            now += ASK_EVERY;
            reflector.ask(now)
        };
        assert!((0..3 * PATIENCE).all(|_| ask(&mut reflector).is_none()), "nothing is known of its timestamps");
        assert_eq!(reflector.source, Source::Echoes);
        // The link is back: an echo, then the answer to one of the timestamps that were asked for meanwhile.
        let back = |reflector: &mut Reflector, stamps: bool| {
            let (sequence, asked) = *reflector.asked.back().expect("asked");
            let came = (reflector.today_at(asked) + 400_020.0) as u32;
            let echo = Answer::Echo { sequence };
            let answer = if stamps { Answer::Stamps { sequence, came, left: came } } else { echo };
            reflector.delay(asked + Span::from_millis(40), answer).expect("a delay").1
        };
        let (by_echo, _) = (back(&mut reflector, false), ask(&mut reflector));
        let by_stamps = back(&mut reflector, true);
        assert!(
            (by_echo - by_stamps).abs() < 2.0,
            "clocks that differ by minutes are no delay: {by_echo}, {by_stamps}"
        );
        assert_eq!((ask(&mut reflector), reflector.source), (None, Source::Stamps));
    }

    #[test]
    fn a_reflector_that_answers_echoes_alone_gives_no_timestamps() {
        let mut now = Instant::from_millis(1_000);
        let Some(mut reflector) = opened(DelayDirection::Up, now) else { return };
        let mut ask = |reflector: &mut Reflector| {
            now += ASK_EVERY;
            let said = reflector.ask(now);
            let (sequence, asked) = *reflector.asked.back().expect("asked");
            let is_echo = reflector.source == Source::Echoes && !sequence.is_multiple_of(RETRY_ONE_IN);
            if is_echo {
                reflector.delay(asked + Span::from_millis(40), Answer::Echo { sequence }).expect("a delay");
            }
            said
        };
        let said: Vec<&str> = (0..6 * PATIENCE).filter_map(|_| ask(&mut reflector)).collect();
        assert_eq!(said, ["the reflector gives no timestamps: round trips are looked at"]);
        // A retry that is answered.
        let (sequence, asked) = *reflector.asked.back().expect("asked");
        let stamps = Answer::Stamps { sequence, came: 0, left: 0 };
        reflector.asked.push_back((sequence, asked));
        reflector.delay(asked + Span::from_millis(40), stamps).expect("a delay");
        assert_eq!(ask(&mut reflector), Some("the reflector gives timestamps again"));
    }
}
