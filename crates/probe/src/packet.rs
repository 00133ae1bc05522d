//! The probe's datagrams: formats only. `docs/protocol/probe.md` says when each is sent.

use wavelane_wire::codec::NoRoom;
use wavelane_wire::{DecodeError, Reader, Writer};

/// Prefix of every datagram.
pub const MAGIC: [u8; 4] = *b"WLPR";
/// The version that this code speaks.
pub const VERSION: u8 = 1;
/// Length of every client request other than probes. No answer is longer than its request.
pub const QUESTION_LEN: usize = 72;
/// The shortest probe: as long as its echo.
pub const PROBE_MIN: usize = 80;
/// The longest probe: it fits IPv6's minimum MTU (RFC 8200, section 5).
pub const PROBE_MAX: usize = 1_200;

/// Chosen by a client for one handshake, to match its answers.
pub type Nonce = [u8; 8];
/// Proves that the sender receives packets at its address.
pub type Cookie = [u8; 16];
/// Identifies a session; known only to its client and the server.
pub type Token = [u8; 16];

/// Why a server refuses a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The maximum number of sessions is reached.
    Full,
    /// The maximum number of sessions from this source is reached.
    TooMany,
    /// This source has used up its time or bytes for the hour.
    UsedUp,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::Full, Self::TooMany, Self::UsedUp];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The message for users, with the remedy.
    pub fn text(self) -> &'static str {
        match self {
            Self::Full => "the server has no place for another measurement: try again in a minute",
            Self::TooMany => "the server measures with this address already: wait until that is over",
            Self::UsedUp => {
                "the server gave this address all the time or bytes it gives in an hour: try later, or ask its operator for --hour-bytes and --hour-seconds"
            }
        }
    }
}

/// What a server grants a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// Seconds after which the server forgets the session.
    pub seconds: u16,
    /// Probes answered per second.
    pub probes_per_second: u16,
    /// Concurrent TCP connections.
    pub connections: u8,
    /// Bytes of TCP load, both directions together.
    pub bytes: u64,
}

/// One probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The session.
    pub token: Token,
    /// The train; each has its own numbers and counts.
    pub train: u16,
    /// The differentiated-services code point (RFC 2474) to answer with.
    pub dscp: u8,
    /// Its number in its train, from 0.
    pub number: u32,
    /// When it was sent, on the client's clock, in nanoseconds.
    pub sent: u64,
}

/// The answer to one probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// The answered probe.
    pub probe: Probe,
    /// When it arrived, on the server's clock, in nanoseconds.
    pub received: u64,
    /// When the answer left, on the server's clock.
    pub answered: u64,
    /// How many different probes of the train had arrived, including this one: the answer's position in the order of answers.
    pub order: u32,
    /// The highest received number.
    pub highest: u32,
    /// Received numbers: bit i stands for the highest number minus i.
    pub window: u64,
    /// Bytes of TCP load the server had received in this session.
    pub loaded: u64,
}

/// What a server counted of one train.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Different probes that arrived.
    pub received: u32,
    /// Duplicate probes.
    pub duplicates: u32,
    /// Probes that arrived after one with a higher number.
    pub reordered: u32,
    /// Probes that arrived and were not answered: too many in a second, or too late to distinguish from a copy.
    pub refused: u32,
    /// Bytes of TCP load received in this session.
    pub loaded: u64,
    /// Datagrams of all clients that the server's socket dropped in this session after they had crossed the network. 0 from servers that do
    /// not report it.
    pub socket_drops: u32,
}

/// A datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Client: requests a cookie.
    Hello(Nonce),
    /// Server: a cookie to be repeated, to verify the client's address.
    Cookie(Nonce, Cookie),
    /// Client: requests a session for this many seconds.
    Open(Nonce, Cookie, u16),
    /// Server: the session is open.
    Welcome(Nonce, Token, Grant),
    /// Server: the session is refused.
    Refused(Nonce, Refusal),
    /// Client: a probe of the RTT.
    Probe(Probe),
    /// Server: the answer to a probe.
    Echo(Echo),
    /// Client: requests the counts of this train.
    Count(Token, u16),
    /// Server: the counts.
    Counted(Token, u16, Tally),
    /// Client: this session is over.
    Close(Token),
    /// Anybody: what time is it?
    Ask(Nonce),
    /// Server: when that arrived, and when this left, on its clock in nanoseconds.
    Time(Nonce, u64, u64),
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello(..) => 1,
            Self::Cookie(..) => 2,
            Self::Open(..) => 3,
            Self::Welcome(..) => 4,
            Self::Refused(..) => 5,
            Self::Probe(..) => 6,
            Self::Echo(..) => 7,
            Self::Count(..) => 8,
            Self::Counted(..) => 9,
            Self::Close(..) => 10,
            Self::Ask(..) => 11,
            Self::Time(..) => 12,
        }
    }

    /// Parses a datagram. Octets after the fields of a kind are padding; a client's datagram is rejected if it is shorter than its possible
    /// answer.
    pub fn parse(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        if r.array()? != MAGIC {
            return Err(DecodeError::Invalid("magic"));
        }
        if r.u8()? != VERSION {
            return Err(DecodeError::Invalid("version"));
        }
        let kind = r.u8()?;
        let least = match kind {
            1 | 3 | 8 | 10 | 11 => QUESTION_LEN,
            6 => PROBE_MIN,
            _ => 0,
        };
        if datagram.len() < least {
            return Err(DecodeError::Truncated);
        }
        Ok(match kind {
            1 => Self::Hello(r.array()?),
            2 => Self::Cookie(r.array()?, r.array()?),
            3 => Self::Open(r.array()?, r.array()?, r.u16()?),
            4 => Self::Welcome(r.array()?, r.array()?, grant(&mut r)?),
            5 => {
                let (nonce, code) = (r.array()?, r.u8()?);
                let refusal = Refusal::ALL.into_iter().find(|refusal| refusal.code() == code);
                Self::Refused(nonce, refusal.ok_or(DecodeError::Invalid("reason"))?)
            }
            6 => Self::Probe(probe(&mut r)?),
            7 => Self::Echo(Echo {
                probe: probe(&mut r)?,
                received: r.u64()?,
                answered: r.u64()?,
                order: r.u32()?,
                highest: r.u32()?,
                window: r.u64()?,
                loaded: r.u64()?,
            }),
            8 => Self::Count(r.array()?, r.u16()?),
            9 => {
                let (token, train) = (r.array()?, r.u16()?);
                let [received, duplicates, reordered, refused] = [r.u32()?, r.u32()?, r.u32()?, r.u32()?];
                let loaded = r.u64()?;
                let socket_drops = if r.is_empty() { 0 } else { r.u32()? };
                Self::Counted(token, train, Tally { received, duplicates, reordered, refused, loaded, socket_drops })
            }
            10 => Self::Close(r.array()?),
            11 => Self::Ask(r.array()?),
            12 => Self::Time(r.array()?, r.u64()?, r.u64()?),
            _ => return Err(DecodeError::Invalid("kind")),
        })
    }

    /// Writes the datagram, padded with zeros to `len` octets. Returns its length.
    pub fn emit(&self, buf: &mut [u8], len: usize) -> Result<usize, NoRoom> {
        let mut w = Writer::new(buf);
        w.put(&MAGIC)?;
        w.u8(VERSION)?;
        w.u8(self.kind())?;
        match self {
            Self::Hello(nonce) | Self::Ask(nonce) => w.put(nonce)?,
            Self::Time(nonce, received, answered) => {
                w.put(nonce)?;
                w.u64(*received)?;
                w.u64(*answered)?;
            }
            Self::Cookie(nonce, cookie) => {
                w.put(nonce)?;
                w.put(cookie)?;
            }
            Self::Open(nonce, cookie, seconds) => {
                w.put(nonce)?;
                w.put(cookie)?;
                w.u16(*seconds)?;
            }
            Self::Welcome(nonce, token, grant) => {
                w.put(nonce)?;
                w.put(token)?;
                w.u16(grant.seconds)?;
                w.u16(grant.probes_per_second)?;
                w.u8(grant.connections)?;
                w.u64(grant.bytes)?;
            }
            Self::Refused(nonce, refusal) => {
                w.put(nonce)?;
                w.u8(refusal.code())?;
            }
            Self::Probe(probe) => put_probe(&mut w, probe)?,
            Self::Echo(echo) => {
                put_probe(&mut w, &echo.probe)?;
                w.u64(echo.received)?;
                w.u64(echo.answered)?;
                w.u32(echo.order)?;
                w.u32(echo.highest)?;
                w.u64(echo.window)?;
                w.u64(echo.loaded)?;
            }
            Self::Count(token, train) => {
                w.put(token)?;
                w.u16(*train)?;
            }
            Self::Counted(token, train, tally) => {
                w.put(token)?;
                w.u16(*train)?;
                for count in [tally.received, tally.duplicates, tally.reordered, tally.refused] {
                    w.u32(count)?;
                }
                w.u64(tally.loaded)?;
                w.u32(tally.socket_drops)?;
            }
            Self::Close(token) => w.put(token)?,
        }
        while w.len() < len {
            w.u8(0)?;
        }
        Ok(w.len())
    }
}

fn grant(r: &mut Reader<'_>) -> Result<Grant, DecodeError> {
    Ok(Grant { seconds: r.u16()?, probes_per_second: r.u16()?, connections: r.u8()?, bytes: r.u64()? })
}

fn probe(r: &mut Reader<'_>) -> Result<Probe, DecodeError> {
    let (token, train, dscp) = (r.array()?, r.u16()?, r.u8()?);
    if dscp >= 64 {
        return Err(DecodeError::Invalid("code point"));
    }
    Ok(Probe { token, train, dscp, number: r.u32()?, sent: r.u64()? })
}

fn put_probe(w: &mut Writer<'_>, probe: &Probe) -> Result<(), NoRoom> {
    w.put(&probe.token)?;
    w.u16(probe.train)?;
    w.u8(probe.dscp)?;
    w.u32(probe.number)?;
    w.u64(probe.sent)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    fn one_of_each() -> Vec<Message> {
        let probe = Probe { token: [7; 16], train: 3, dscp: 46, number: 9, sent: u64::MAX };
        let tally = Tally { received: 1, duplicates: 2, reordered: 3, refused: 4, loaded: 5, socket_drops: 6 };
        let grant = Grant { seconds: 60, probes_per_second: 200, connections: 16, bytes: 1 << 40 };
        let mut all = vec![
            Message::Hello([1; 8]),
            Message::Cookie([1; 8], [2; 16]),
            Message::Open([1; 8], [2; 16], 30),
            Message::Welcome([1; 8], [3; 16], grant),
            Message::Probe(probe),
            Message::Echo(Echo { probe, received: 1, answered: 2, order: 3, highest: 9, window: u64::MAX, loaded: 4 }),
            Message::Count([3; 16], 4),
            Message::Counted([3; 16], 4, tally),
            Message::Close([3; 16]),
            Message::Ask([1; 8]),
            Message::Time([1; 8], 5_000_000, 5_250_000),
        ];
        all.extend(Refusal::ALL.map(|refusal| Message::Refused([1; 8], refusal)));
        all
    }

    #[test]
    fn datagrams_round_trip_and_answers_fit_their_questions() {
        for message in one_of_each() {
            let question = matches!(
                message,
                Message::Hello(_) | Message::Open(..) | Message::Count(..) | Message::Close(_) | Message::Ask(_)
            );
            let pad = match message {
                Message::Probe(_) => PROBE_MIN,
                _ if question => QUESTION_LEN,
                _ => 0,
            };
            let mut buf = [0; PROBE_MAX];
            let len = message.emit(&mut buf, pad).unwrap();
            assert_eq!(Message::parse(&buf[..len]), Ok(message));
            assert!(Message::parse(&buf[..len - 1]).is_err(), "{message:?}");
            let bound = if matches!(message, Message::Probe(_) | Message::Echo(_)) { PROBE_MIN } else { QUESTION_LEN };
            assert!(len <= bound, "{message:?} takes {len}");
        }
    }

    /// The octets that a shaper reads and writes: `crates/daemon/src/shaper/reflector.rs` has the same.
    #[test]
    fn the_time_is_asked_for_and_told_in_these_octets() {
        let nonce = [1, 2, 3, 4, 5, 6, 0, 7];
        let mut buf = [0; PROBE_MAX];
        let len = Message::Ask(nonce).emit(&mut buf, QUESTION_LEN).unwrap();
        assert_eq!((len, &buf[..14]), (72, &b"WLPR\x01\x0b\x01\x02\x03\x04\x05\x06\x00\x07"[..]));
        let len = Message::Time(nonce, 5_000_000, 5_250_000).emit(&mut buf, 0).unwrap();
        let told = [5_000_000_u64, 5_250_000].map(u64::to_be_bytes).concat();
        assert_eq!(buf[..len], [&b"WLPR\x01\x0c\x01\x02\x03\x04\x05\x06\x00\x07"[..], &told].concat());
    }

    /// The count of socket drops was appended to a server's count in a later version.
    #[test]
    fn a_count_without_the_sockets_drops_is_understood() {
        let tally = Tally { received: 1, loaded: 5, ..Tally::default() };
        let (mut buf, message) = ([0; PROBE_MAX], Message::Counted([3; 16], 4, tally));
        let len = message.emit(&mut buf, 0).unwrap();
        assert_eq!(Message::parse(&buf[..len - 4]), Ok(message));
    }

    #[test]
    fn strangers_are_refused() {
        let mut buf = [0; PROBE_MAX];
        let len = Message::Hello([0; 8]).emit(&mut buf, QUESTION_LEN).unwrap();
        for (at, value) in [(0, b'X'), (4, 2), (5, 0), (5, 13)] {
            let mut other = buf[..len].to_vec();
            other[at] = value;
            assert!(Message::parse(&other).is_err(), "octet {at} is {value}");
        }
        assert_eq!(Message::Hello([0; 8]).emit(&mut [0; 10], 0), Err(NoRoom));
    }
}
