//! What LCP negotiates (RFC 1661, section 6; RFC 1662, section 7.1).

use super::auth::Method;
use super::negotiation::{Options, Verdict};
use super::{Cause, Config};
use wavelane_base::Entropy;
use wavelane_wire::serial::hdlc::{ACCM_DEFAULT, Style};
use wavelane_wire::serial::ppp::{Choice, lcp, protocol};

/// A smaller MRU is answered with this: below it PPP's own packets do not fit. Policy.
pub(super) const MRU_MIN: u16 = 128;
/// Requests with our own magic number before the line is taken for looped (RFC 1661, section 6.4, leaves the number open).
const LOOPS_MAX: u32 = 5;

/// What one end has asked for and the other has agreed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Side {
    mru: u16,
    accm: Option<u32>,
    magic: Option<u32>,
    pfc: bool,
    acfc: bool,
    auth: Option<Method>,
}

impl Side {
    const PLAIN: Self = Self { mru: lcp::MRU_DEFAULT, accm: None, magic: None, pfc: false, acfc: false, auth: None };
}

#[derive(Debug)]
pub(super) struct Lcp {
    config: Config,
    dice: Entropy,
    ours: Side,
    theirs: Side,
    loops: u32,
    /// The other end wanted to be told who we are, and is not, or not so.
    untold: Option<Cause>,
}

impl Lcp {
    pub(super) fn new(config: &Config, dice: Entropy) -> Self {
        let mut lcp =
            Self { config: config.clone(), dice, ours: Side::PLAIN, theirs: Side::PLAIN, loops: 0, untold: None };
        lcp.restart();
        lcp
    }
    fn draw(&mut self) -> u32 {
        // Zero says that there is none (section 6.4).
        (self.dice.next_u64() as u32).max(1)
    }
    /// The magic number that goes into echoes.
    pub(super) fn magic(&self) -> u32 {
        self.ours.magic.unwrap_or(0)
    }
    /// The largest packet that the other end takes.
    pub(super) fn mru(&self) -> u16 {
        self.theirs.mru
    }
    /// How the other end wants to be told who we are, if it does.
    pub(super) fn asks(&self) -> Option<Method> {
        self.theirs.auth
    }
    /// Why it was not, if it was not.
    pub(super) fn untold(&self) -> Option<Cause> {
        self.untold
    }
    /// How frames other than LCP's are written.
    pub(super) fn style(&self) -> Style {
        Style { accm: self.theirs.accm.unwrap_or(ACCM_DEFAULT), acfc: self.theirs.acfc, pfc: self.theirs.pfc }
    }
}

impl Options for Lcp {
    const PROTOCOL: u16 = protocol::LCP;

    fn restart(&mut self) {
        let magic = Some(self.draw());
        let Config { mru, accm, compress_fields, .. } = self.config;
        self.ours = Side { mru, accm: Some(accm), magic, pfc: compress_fields, acfc: compress_fields, auth: None };
        self.theirs = Side::PLAIN;
        self.loops = 0;
        self.untold = None;
    }

    fn request(&self, out: &mut Vec<u8>) {
        let mut put = |kind, value: &[u8]| Choice { kind, value }.put(out);
        if self.ours.mru != lcp::MRU_DEFAULT {
            put(lcp::MRU, &self.ours.mru.to_be_bytes());
        }
        if let Some(accm) = self.ours.accm {
            put(lcp::ACCM, &accm.to_be_bytes());
        }
        if let Some(magic) = self.ours.magic {
            put(lcp::MAGIC, &magic.to_be_bytes());
        }
        if self.ours.pfc {
            put(lcp::PFC, &[]);
        }
        if self.ours.acfc {
            put(lcp::ACFC, &[]);
        }
    }

    fn judge(&mut self, choice: Choice<'_>) -> Verdict {
        match (choice.kind, choice.u16(), choice.u32(), choice.value) {
            (lcp::MRU, Some(mru), ..) if mru >= MRU_MIN => Verdict::Ack,
            (lcp::MRU, Some(_), ..) => Verdict::Nak(MRU_MIN.to_be_bytes().to_vec()),
            (lcp::MAGIC, _, Some(magic), _) if magic == 0 || Some(magic) == self.ours.magic => {
                self.loops += u32::from(magic != 0);
                Verdict::Nak(self.draw().to_be_bytes().to_vec())
            }
            (lcp::AUTH, .., value) => match &self.config.login {
                None => {
                    self.untold = Some(Cause::Asked);
                    Verdict::Reject
                }
                Some(login) => match Method::of(value) {
                    Some(method) if method.suits(login) => Verdict::Ack,
                    method => {
                        self.untold = Some(method.map_or(Cause::AskedOtherwise, |_| Cause::AskedInPlainText));
                        Verdict::Nak(Method::wish())
                    }
                },
            },
            (lcp::ACCM | lcp::MAGIC, _, Some(_), _) | (lcp::PFC | lcp::ACFC, _, _, []) => Verdict::Ack,
            _ => Verdict::Reject,
        }
    }

    fn grant(&mut self, choices: &[Choice<'_>]) {
        self.theirs = Side::PLAIN;
        // It shows another magic number, or none: the line is not looped.
        self.loops = 0;
        for choice in choices {
            match choice.kind {
                lcp::MRU => self.theirs.mru = choice.u16().unwrap_or(lcp::MRU_DEFAULT),
                lcp::ACCM => self.theirs.accm = choice.u32(),
                lcp::MAGIC => self.theirs.magic = choice.u32(),
                lcp::PFC => self.theirs.pfc = true,
                lcp::ACFC => self.theirs.acfc = true,
                lcp::AUTH => (self.theirs.auth, self.untold) = (Method::of(choice.value), None),
                _ => {}
            }
        }
    }

    fn naked(&mut self, choice: Choice<'_>) {
        match choice.kind {
            lcp::MRU => {
                let wished = choice.u16().unwrap_or(lcp::MRU_DEFAULT);
                self.ours.mru = wished.clamp(MRU_MIN, self.config.mru.max(MRU_MIN));
            }
            lcp::ACCM => self.ours.accm = self.ours.accm.map(|accm| accm | choice.u32().unwrap_or(0)),
            lcp::MAGIC => self.ours.magic = Some(self.draw()),
            _ => {}
        }
    }

    fn rejected(&mut self, kind: u8) {
        match kind {
            lcp::MRU => self.ours.mru = lcp::MRU_DEFAULT,
            lcp::ACCM => self.ours.accm = None,
            lcp::MAGIC => self.ours.magic = None,
            lcp::PFC => self.ours.pfc = false,
            lcp::ACFC => self.ours.acfc = false,
            _ => {}
        }
    }

    fn failure(&self) -> Option<Cause> {
        (self.loops >= LOOPS_MAX).then_some(Cause::Looped)
    }
}
