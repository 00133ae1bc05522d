//! Mobile IP's registration messages (RFC 5944, sections 3.3 to 3.5): a mobile tells its home agent where it is. Pure.

use md5::{Digest, Md5};
use std::net::Ipv4Addr;
use wavelane_wire::codec::{DecodeError, Reader};

/// UDP port of home agents (RFC 5944, section 3.3).
pub(crate) const PORT: u16 = 434;
/// Longest message that is looked at; the longest of ours has 46 octets.
const MESSAGE_MAX: usize = 512;
const REQUEST: u8 = 1;
const REPLY: u8 = 3;
/// The extension that shows who sent a message (section 3.5.2), and padding of one octet (section 1.10).
const AUTHENTICATION: u8 = 32;
const PADDING: u8 = 0;
/// Extensions from here on may be left unread (section 1.11).
const SKIPPABLE: u8 = 128;
/// An HMAC-MD5 (section 5.1, RFC 2104), and the block it works on.
const AUTHENTICATOR_LEN: usize = 16;
const HMAC_BLOCK: usize = 64;
/// Seconds from 1900 to 1970 (RFC 5905, figure 4).
const NTP_TO_UNIX_S: u64 = 2_208_988_800;

/// What a request asks for beside its address (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wishes(pub(crate) u8);

impl Wishes {
    /// The mobile takes packets out of the tunnel itself (D).
    pub(crate) const DECAPSULATES: Self = Self(0x20);
    /// Other bindings are to stay (S).
    pub(crate) const SIMULTANEOUS: Self = Self(0x80);
    /// Another encapsulation than RFC 2003's (M, G).
    pub(crate) const ENCAPSULATION: Self = Self(0x18);
    /// A tunnel the other way too (T, RFC 3024). The bits r and x are sent as zero and ignored.
    pub(crate) const REVERSE: Self = Self(0x02);

    pub(crate) fn any_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// A Registration Request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) wishes: Wishes,
    /// In seconds; zero ends the binding.
    pub(crate) lifetime: u16,
    pub(crate) home: Ipv4Addr,
    pub(crate) agent: Ipv4Addr,
    /// Where the mobile is.
    pub(crate) care_of: Ipv4Addr,
    pub(crate) identification: u64,
}

/// A Registration Reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) code: Code,
    pub(crate) lifetime: u16,
    pub(crate) home: Ipv4Addr,
    pub(crate) agent: Ipv4Addr,
    pub(crate) identification: u64,
}

/// What a home agent answers (section 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u8);

impl Code {
    pub(crate) const ACCEPTED: Self = Self(0);
    /// The same, though other bindings ended.
    pub(crate) const ACCEPTED_ALONE: Self = Self(1);
    pub(crate) const UNAUTHENTIC: Self = Self(131);
    pub(crate) const IDENTIFICATION: Self = Self(133);
    pub(crate) const OTHER_AGENT: Self = Self(136);
    /// RFC 3024, section 3.4.
    pub(crate) const NO_REVERSE_TUNNEL: Self = Self(137);
    pub(crate) const NO_ENCAPSULATION: Self = Self(139);

    pub(crate) fn is_accepted(self) -> bool {
        self.0 <= 1
    }
}

/// What a mobile and its home agent share (section 1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Security {
    /// The index by which they name it.
    pub(crate) spi: u32,
    pub(crate) key: [u8; 16],
}

/// A message as it came, and who is said to have sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signed<'a, T> {
    pub(crate) message: T,
    spi: u32,
    covered: &'a [u8],
    authenticator: &'a [u8],
}

impl<T> Signed<'_, T> {
    /// Whether it was sent by one who has the key.
    pub(crate) fn is_by(&self, security: &Security) -> bool {
        let right = hmac(&security.key, self.covered);
        // All octets are looked at: how long it takes says nothing of where they differ.
        let differ = right.iter().zip(self.authenticator).fold(0, |differ, (a, b)| differ | (a ^ b));
        self.spi == security.spi && self.authenticator.len() == AUTHENTICATOR_LEN && differ == 0
    }
}

/// HMAC-MD5 (RFC 2104).
fn hmac(key: &[u8; 16], text: &[u8]) -> [u8; AUTHENTICATOR_LEN] {
    let pad = |with: u8| {
        let mut block = [with; HMAC_BLOCK];
        block.iter_mut().zip(key).for_each(|(octet, key)| *octet ^= key);
        block
    };
    let hash = |block: [u8; HMAC_BLOCK], text: &[u8]| {
        let mut hash = Md5::new();
        hash.update(block);
        hash.update(text);
        <[u8; AUTHENTICATOR_LEN]>::from(hash.finalize())
    };
    hash(pad(0x5c), &hash(pad(0x36), text))
}

/// A time of day as an identification (section 5.7.1): seconds since 1900 and their fraction, 32 bits each.
pub(crate) fn timestamp(unix_ns: u64) -> u64 {
    let (seconds, rest) = (unix_ns / 1_000_000_000 + NTP_TO_UNIX_S, unix_ns % 1_000_000_000);
    (seconds << 32) | ((rest << 32) / 1_000_000_000)
}

impl Request {
    /// Writes it with its authentication.
    pub(crate) fn write(&self, security: &Security) -> Vec<u8> {
        let mut out = vec![REQUEST, self.wishes.0];
        out.extend(self.lifetime.to_be_bytes());
        [self.home, self.agent, self.care_of].iter().for_each(|address| out.extend(address.octets()));
        out.extend(self.identification.to_be_bytes());
        sign(out, security)
    }
    /// Reads one.
    pub(crate) fn read(message: &[u8]) -> Result<Signed<'_, Self>, DecodeError> {
        signed(message, REQUEST, |r, wishes| {
            Ok(Self {
                wishes: Wishes(wishes),
                lifetime: r.u16()?,
                home: address(r)?,
                agent: address(r)?,
                care_of: address(r)?,
                identification: r.u64()?,
            })
        })
    }
}

impl Reply {
    /// Writes it with its authentication.
    pub(crate) fn write(&self, security: &Security) -> Vec<u8> {
        let mut out = vec![REPLY, self.code.0];
        out.extend(self.lifetime.to_be_bytes());
        [self.home, self.agent].iter().for_each(|address| out.extend(address.octets()));
        out.extend(self.identification.to_be_bytes());
        sign(out, security)
    }
    /// Reads one.
    pub(crate) fn read(message: &[u8]) -> Result<Signed<'_, Self>, DecodeError> {
        signed(message, REPLY, |r, code| {
            Ok(Self {
                code: Code(code),
                lifetime: r.u16()?,
                home: address(r)?,
                agent: address(r)?,
                identification: r.u64()?,
            })
        })
    }
}

fn address(r: &mut Reader<'_>) -> Result<Ipv4Addr, DecodeError> {
    r.array::<4>().map(Ipv4Addr::from)
}

fn sign(mut out: Vec<u8>, security: &Security) -> Vec<u8> {
    out.extend([AUTHENTICATION, 4 + AUTHENTICATOR_LEN as u8]);
    out.extend(security.spi.to_be_bytes());
    let authenticator = hmac(&security.key, &out);
    out.extend(authenticator);
    out
}

/// Reads a message of a type, then its extensions up to the authentication, which covers all that stands before its authenticator. What
/// follows it would be a foreign agent's, of which there are none here.
fn signed<'a, T>(
    message: &'a [u8],
    kind: u8,
    body: impl FnOnce(&mut Reader<'a>, u8) -> Result<T, DecodeError>,
) -> Result<Signed<'a, T>, DecodeError> {
    if message.len() > MESSAGE_MAX {
        return Err(DecodeError::TooLong("registration message"));
    }
    let mut r = Reader::new(message);
    if r.u8()? != kind {
        return Err(DecodeError::Invalid("type of registration message"));
    }
    let second = r.u8()?;
    let read = body(&mut r, second)?;
    loop {
        let extension = r.u8()?;
        if extension == PADDING {
            continue;
        }
        let len = usize::from(r.u8()?);
        if extension != AUTHENTICATION && extension < SKIPPABLE {
            return Err(DecodeError::Invalid("registration extension"));
        }
        let mut value = Reader::new(r.take(len)?);
        if extension != AUTHENTICATION {
            continue;
        }
        let spi = value.u32()?;
        let authenticator = value.take_rest();
        if !r.is_empty() {
            return Err(DecodeError::TooLong("registration message"));
        }
        let covered = &message[..message.len() - authenticator.len()];
        return Ok(Signed { message: read, spi, covered, authenticator });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECURITY: Security = Security { spi: 256, key: *b"sixteen  octets!" };

    fn request() -> Request {
        Request {
            wishes: Wishes::DECAPSULATES,
            lifetime: 600,
            home: Ipv4Addr::new(10, 77, 1, 2),
            agent: Ipv4Addr::new(10, 77, 1, 1),
            care_of: Ipv4Addr::new(10, 77, 2, 2),
            identification: 0xe800_0000_8000_0000,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// The first two cases of RFC 2202, whose keys are 16 octets or padded to them by zeros.
    #[test]
    fn the_authenticator_is_that_of_rfc_2202() {
        assert_eq!(hex(&hmac(&[0x0b; 16], b"Hi There")), "9294727a3638bb1c13f48ef8158bfc9d");
        let jefe = *b"Jefe\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(hex(&hmac(&jefe, b"what do ya want for nothing?")), "750c783e6ab0b503eaa86e310a5db738");
    }

    /// Field by field as in sections 3.3, 3.4 and 3.5.2; the authenticators are Python's `hmac`.
    #[test]
    fn messages_stand_as_the_standard_draws_them() {
        let written = request().write(&SECURITY);
        assert_eq!(
            hex(&written),
            "012002580a4d01020a4d01010a4d0202e8000000800000002014\
             00000100616320aea5dd856850a35851b3f20d44"
        );
        let reply = Reply {
            code: Code::ACCEPTED,
            lifetime: 300,
            home: request().home,
            agent: request().agent,
            identification: request().identification,
        };
        assert_eq!(
            hex(&reply.write(&SECURITY)),
            "0300012c0a4d01020a4d0101e8000000800000002014000001000ba89bc5b23d6ff00f089f52576d1087"
        );
        let read = Request::read(&written).expect("sound");
        assert_eq!(read.message, request());
        assert!(read.is_by(&SECURITY));
        let written = reply.write(&SECURITY);
        let read = Reply::read(&written).expect("sound");
        assert!(read.is_by(&SECURITY) && read.message == reply);
    }

    #[test]
    fn a_time_of_day_is_ntps() {
        // 1970 began 2,208,988,800 s after 1900; half a second is half of 2^32.
        assert_eq!(timestamp(0), 2_208_988_800 << 32);
        assert_eq!(timestamp(1_500_000_000), (2_208_988_801 << 32) | (1 << 31));
    }

    #[test]
    fn whoever_lacks_the_key_or_changes_an_octet_is_found_out() {
        let written = request().write(&SECURITY);
        for other in [Security { spi: 257, ..SECURITY }, Security { key: [0; 16], ..SECURITY }] {
            assert!(!Request::read(&written).expect("sound").is_by(&other));
        }
        for at in 1..written.len() {
            let mut changed = written.clone();
            changed[at] ^= 1;
            assert!(
                Request::read(&changed).is_ok_and(|read| !read.is_by(&SECURITY)) || Request::read(&changed).is_err()
            );
        }
        let unsigned = Request::read(&sign(written[..24].to_vec(), &SECURITY)).map(|read| read.is_by(&SECURITY));
        assert_eq!(unsigned, Ok(true));
    }

    #[test]
    fn what_is_too_short_or_too_long_is_refused() {
        let written = request().write(&SECURITY);
        for len in 0..written.len() - AUTHENTICATOR_LEN {
            assert_eq!(Request::read(&written[..len]), Err(DecodeError::Truncated), "{len}");
        }
        // A shorter authenticator is one of nobody.
        let mut short = written[..written.len() - 1].to_vec();
        assert_eq!(Request::read(&short), Err(DecodeError::Truncated));
        short[25] -= 1;
        assert!(!Request::read(&short).expect("well-formed").is_by(&SECURITY));
        let longer = [&written[..], &[0]].concat();
        assert_eq!(Request::read(&longer), Err(DecodeError::TooLong("registration message")));
        assert_eq!(Request::read(&vec![1; MESSAGE_MAX + 1]), Err(DecodeError::TooLong("registration message")));
        assert_eq!(Reply::read(&written), Err(DecodeError::Invalid("type of registration message")));
    }

    #[test]
    fn extensions_that_may_be_skipped_are_and_others_are_refused() {
        let body = &request().write(&SECURITY)[..24];
        let with = |extension: &[u8]| sign([body, extension].concat(), &SECURITY);
        let read = |message: &[u8]| Request::read(message).map(|read| read.is_by(&SECURITY));
        assert_eq!(read(&with(&[PADDING, 200, 2, 7, 7])), Ok(true));
        assert_eq!(read(&with(&[33, 2, 7, 7])), Err(DecodeError::Invalid("registration extension")));
        assert_eq!(read(&[body, &[200, 9, 1]].concat()), Err(DecodeError::Truncated));
        assert_eq!(read(body), Err(DecodeError::Truncated), "nobody signed it");
    }

    #[test]
    fn noise_is_read_without_a_panic() {
        let mut dice = wavelane_base::Seed(5).chance("noise");
        let written = request().write(&SECURITY);
        for _ in 0..20_000 {
            let mut noise = written.clone();
            for _ in 0..1 + dice.below(6) {
                let at = dice.below(noise.len() as u64) as usize;
                noise[at] = dice.below(256) as u8;
            }
            noise.truncate(1 + dice.below(noise.len() as u64) as usize);
            let _ = (Request::read(&noise), Reply::read(&noise));
        }
    }
}
