//! Who we are, told to the end that asks for it: PAP (RFC 1334, section 2) and CHAP with MD5 (RFC 1994). We ask nobody.

use super::Cause;
use super::negotiation::{MAX_CONFIGURE, Outbox, RESTART};
use core::fmt;
use md5::{Digest, Md5};
use wavelane_base::Instant;
use wavelane_wire::serial::ppp::{Control, protocol};

/// The longest name and secret: PAP counts each with an octet.
pub const AUTH_MAX: usize = 255;
/// The algorithm number of CHAP with MD5 (RFC 1994, section 3).
const MD5: u8 = 5;
/// Codes of PAP (RFC 1334, section 2.2) and CHAP (RFC 1994, section 4).
mod code {
    pub(super) const REQUEST: u8 = 1;
    pub(super) const ACK: u8 = 2;
    pub(super) const NAK: u8 = 3;
    pub(super) const CHALLENGE: u8 = 1;
    pub(super) const RESPONSE: u8 = 2;
    pub(super) const SUCCESS: u8 = 3;
    pub(super) const FAILURE: u8 = 4;
}

/// A name and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Who we are.
    pub name: String,
    /// What proves it.
    pub secret: String,
    /// Prove it by CHAP alone: PAP shows the secret to whoever is on the line.
    pub chap_only: bool,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, a secret)", self.name)
    }
}

/// How the other end asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Pap,
    Chap,
}

impl Method {
    /// That of an option's value; none that we do not know.
    pub(super) fn of(value: &[u8]) -> Option<Self> {
        match value {
            [0xc0, 0x23] => Some(Self::Pap),
            [0xc2, 0x23, MD5] => Some(Self::Chap),
            _ => None,
        }
    }
    /// Whether a login lets itself be asked so.
    pub(super) fn suits(self, login: &Login) -> bool {
        self == Self::Chap || !login.chap_only
    }
    /// What we would rather be asked by.
    pub(super) fn wish() -> Vec<u8> {
        vec![0xc2, 0x23, MD5]
    }
}

/// The state of being asked.
#[derive(Debug, Default)]
pub(super) struct Auth {
    method: Option<Method>,
    passed: bool,
    tries: u32,
    timer: Option<Instant>,
    id: u8,
    /// PAP's first request of this time; an answer to any since then counts.
    first_id: u8,
    /// The answer to the last challenge, which is said again until the other end tells what it thinks of it (RFC 1994, section 4.2).
    response: Vec<u8>,
}

impl Auth {
    /// The link is open, and the other end asks so.
    pub(super) fn begin(&mut self, now: Instant, method: Method, login: &Login, out: &mut Outbox) {
        *self = Self { method: Some(method), id: self.id, first_id: self.id.wrapping_add(1), ..Self::default() };
        // A challenger that does not challenge is given up like a request without an answer.
        self.tries = MAX_CONFIGURE;
        self.again(now, login, out);
    }
    /// The link is closed.
    pub(super) fn end(&mut self) {
        *self = Self { id: self.id, ..Self::default() };
    }
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }
    /// Whether the other end has been told who we are, and has not said that it takes it.
    pub(super) fn is_pending(&self) -> bool {
        !self.passed && (self.method == Some(Method::Pap) || !self.response.is_empty())
    }

    fn again(&mut self, now: Instant, login: &Login, out: &mut Outbox) {
        self.tries -= 1;
        self.timer = Some(now + RESTART);
        if self.method == Some(Method::Pap) {
            // It changes with each request (RFC 1334, section 2.2.1).
            self.id = self.id.wrapping_add(1);
            let mut data = Vec::new();
            for text in [&login.name, &login.secret] {
                let octets = &text.as_bytes()[..text.len().min(AUTH_MAX)];
                data.push(octets.len() as u8);
                data.extend_from_slice(octets);
            }
            out.put(protocol::PAP, Control { code: code::REQUEST, id: self.id, data: &data });
        } else if !self.response.is_empty() {
            out.put(protocol::CHAP, Control { code: code::RESPONSE, id: self.id, data: &self.response });
        }
    }

    /// Tells that time has passed; an error if nobody answers.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        login: Option<&Login>,
        out: &mut Outbox,
    ) -> Result<(), Cause> {
        if self.timer.is_none_or(|at| at > now) {
            return Ok(());
        }
        self.timer = None;
        match login.filter(|_| self.tries > 0) {
            Some(login) => {
                self.again(now, login, out);
                Ok(())
            }
            None => Err(Cause::Unauthenticated),
        }
    }

    /// Takes a packet of either protocol. Returns whether the other end has now taken us for who we are, for the first time.
    pub(super) fn handle(
        &mut self,
        number: u16,
        packet: &[u8],
        login: Option<&Login>,
        out: &mut Outbox,
    ) -> Result<bool, Cause> {
        let (Ok(control), Some(login)) = (Control::parse(packet), login) else { return Ok(false) };
        let mine = control.id == self.id;
        let one_of_mine = control.id.wrapping_sub(self.first_id) <= self.id.wrapping_sub(self.first_id);
        match (self.method, number, control.code) {
            (Some(Method::Pap), protocol::PAP, code::ACK) if one_of_mine => Ok(self.pass()),
            (Some(Method::Pap), protocol::PAP, code::NAK) if one_of_mine => Err(Cause::Refused { again: None }),
            (Some(Method::Chap), protocol::CHAP, code::CHALLENGE) => {
                self.respond(control, login, out);
                Ok(false)
            }
            (Some(Method::Chap), protocol::CHAP, code::SUCCESS) if mine => Ok(self.pass()),
            (Some(Method::Chap), protocol::CHAP, code::FAILURE) if mine => Err(Cause::Refused { again: None }),
            _ => Ok(false),
        }
    }

    /// To each challenge, also of a link that is up (RFC 1994, section 2).
    fn respond(&mut self, challenge: Control<'_>, login: &Login, out: &mut Outbox) {
        let Some((&len, rest)) = challenge.data.split_first() else { return };
        let Some(value) = rest.get(..usize::from(len)).filter(|value| !value.is_empty()) else { return };
        self.id = challenge.id;
        let mut hash = Md5::new();
        hash.update([challenge.id]);
        hash.update(login.secret.as_bytes());
        hash.update(value);
        let sum = hash.finalize();
        let mut data = vec![sum.len() as u8];
        data.extend_from_slice(&sum);
        data.extend_from_slice(&login.name.as_bytes()[..login.name.len().min(AUTH_MAX)]);
        out.put(protocol::CHAP, Control { code: code::RESPONSE, id: challenge.id, data: &data });
        self.response = data;
    }

    fn pass(&mut self) -> bool {
        self.timer = None;
        !core::mem::replace(&mut self.passed, true)
    }
}
