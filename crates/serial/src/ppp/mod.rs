//! A PPP link: LCP opens it, IPCP agrees on addresses and header compression, echoes tell whether it lives (RFC 1661,
//! RFC 1332). Every wait ends and every number of tries is bounded; after a failure it rests and begins again.

mod auth;
mod automaton;
mod ipcp;
mod lcp;
mod negotiation;

pub use auth::{AUTH_MAX, Login};
pub use ipcp::FALLBACK_ADDRESS;

use auth::Auth;
use automaton::Event as Step;
use ipcp::Ipcp;
use lcp::Lcp;
use negotiation::{Negotiation, Options, Outbox, ROUNDS_MAX, Signal};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use thiserror::Error;
use wavelane_base::{Entropy, Instant, Span, Wakeup};
use wavelane_wire::serial::hdlc::Style;
use wavelane_wire::serial::ppp::{Code, Control, Vj, lcp as lcp_option, protocol};

/// After a failure the link rests this long before it begins again: policy, as is all that follows.
pub const REST: Span = Span::from_secs(10);
/// Times in a row that our name and secret are refused, after which ...
const REFUSALS_MAX: u32 = 3;
/// ... the secret is not told again for so long: providers lock accounts at which many wrong ones come, and calls cost money.
pub const REFUSED_REST: Span = Span::from_secs(3_600);
/// Times that the other end may end a link before it was open.
const ENDS_MAX: u32 = 3;
/// How long a link must last before the tries that it took are forgotten.
const LASTING: Span = Span::from_secs(10);
/// Reports that wait for the owner; further ones are dropped.
const EVENTS_MAX: usize = 16;
/// Octets of a packet that is sent back in a Code-Reject or Protocol-Reject: they fit the smallest MRU.
const REJECTED_MAX: usize = lcp::MRU_MIN as usize - 8;

/// What this end wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The largest packet that this end takes.
    pub mru: u16,
    /// Octets below 0x20 that the line does not pass: the other end escapes them, and bare ones are ignored.
    pub accm: u32,
    /// Ask for frames without address and control and with protocol numbers of one octet.
    pub compress_fields: bool,
    /// Our address; nothing asks the other end for one.
    pub local: Option<Ipv4Addr>,
    /// The other end's; nothing takes what it says.
    pub remote: Option<Ipv4Addr>,
    /// Slots of compressed TCP/IP headers; nothing refuses compression.
    pub vj_slots: Option<u8>,
    /// What the other end is told if it asks who we are.
    pub login: Option<Login>,
    /// After this much silence the other end is asked whether it is there.
    pub echo_every: Span,
    /// Echoes without an answer that end the link.
    pub echoes_lost: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mru: lcp_option::MRU_DEFAULT,
            accm: 0,
            compress_fields: true,
            local: None,
            remote: None,
            vj_slots: Some(wavelane_wire::serial::vj::SLOTS_DEFAULT as u8),
            login: None,
            echo_every: Span::from_secs(10),
            echoes_lost: 3,
        }
    }
}

/// Why a link is not up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Cause {
    /// No answer to any request.
    #[error("the other end does not answer: is PPP running there, at this rate?")]
    NoAnswer,
    /// Answers, but no agreement.
    #[error("the other end agrees to nothing: compare both ends' addresses and options")]
    NoAgreement,
    /// What is sent comes back.
    #[error("the line is looped back: a modem in test mode, or an echoing login, is at the other end")]
    Looped,
    /// Neither end knows our address.
    #[error("the other end gives no address: set `local`")]
    NoAddress,
    /// It wants a name and a secret, and there are none.
    #[error("the other end asks who this is: set `user` and `secret_file`")]
    Asked,
    /// It wants the secret itself, and is to have proof of it alone.
    #[error("the other end asks for the secret in plain text (PAP): without auth = \"chap\" it is told")]
    AskedInPlainText,
    /// It wants another proof than is known here.
    #[error("the other end asks who this is by another way than CHAP with MD5 or PAP: let it take one of these")]
    AskedOtherwise,
    /// It does not say whether it takes them.
    #[error("the other end does not say whether it takes our name and secret: its log may")]
    Unauthenticated,
    /// It does not take them.
    #[error("the other end refuses our name and secret: correct `user` and `secret_file`, and restart wavelaned{}", again.map_or_else(String::new, |again| format!("; told again in {} min", again.as_millis() / 60_000)))]
    Refused {
        /// When it is told them again, if not soon.
        again: Option<Span>,
    },
    /// It ended the link.
    #[error("the other end closed the link: its log says why")]
    ClosedThere,
    /// It began anew.
    #[error("the other end negotiates again")]
    Renegotiated,
    /// It says that it does not know what we cannot do without.
    #[error("the other end rejects what PPP over IP needs")]
    Rejected,
    /// Echoes stayed without answers.
    #[error("the other end stopped answering echoes")]
    NoEcho,
    /// The line below went down.
    #[error("the line is down")]
    LineDown,
    /// The owner closed the link.
    #[error("closed here")]
    ClosedHere,
}

/// What both ends agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Our address.
    pub local: Ipv4Addr,
    /// The other end's.
    pub remote: Ipv4Addr,
    /// The largest packet that may be sent.
    pub mtu: u16,
    /// How frames are written.
    pub style: Style,
    /// Compressed headers that the other end takes.
    pub vj_out: Option<Vj>,
    /// Compressed headers that we take.
    pub vj_in: Option<Vj>,
}

/// What happened to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PppEvent {
    /// Packets pass.
    Up(Agreed),
    /// They do not, or could not be made to.
    Down(Cause),
    /// The other end does not know compressed headers after all.
    Uncompressed,
}

/// One end of a link. It handles and writes packets with their protocol numbers; framing is [`crate::Line`]'s.
#[derive(Debug)]
pub struct Ppp {
    config: Config,
    lcp: Negotiation<Lcp>,
    ipcp: Negotiation<Ipcp>,
    auth: Auth,
    outbox: Outbox,
    events: VecDeque<PppEvent>,
    /// The line below is there.
    line: bool,
    closed: bool,
    /// Why the link ends that is about to, and whether the owner was told.
    cause: Option<Cause>,
    told: bool,
    rest: Option<Instant>,
    /// In a row.
    refusals: u32,
    /// Our secret is not told before.
    not_before: Option<Instant>,
    up_since: Option<Instant>,
    echo_due: Option<Instant>,
    echoes_out: u32,
    echoes: bool,
}

impl Ppp {
    /// A link that wants to be up, on a line that is not.
    pub fn new(config: &Config, dice: Entropy) -> Self {
        Self {
            config: config.clone(),
            lcp: Negotiation::new(Lcp::new(config, dice)),
            ipcp: Negotiation::new(Ipcp::new(config)),
            auth: Auth::default(),
            outbox: Outbox::default(),
            events: VecDeque::new(),
            line: false,
            closed: false,
            cause: None,
            told: false,
            rest: None,
            refusals: 0,
            not_before: None,
            up_since: None,
            echo_due: None,
            echoes_out: 0,
            echoes: true,
        }
    }

    /// Whether packets pass.
    pub fn is_up(&self) -> bool {
        self.ipcp.is_open() && self.lcp.is_open()
    }

    /// Whether the other end has said, or need not, that the link is over after [`Self::close`].
    pub fn is_closed(&self) -> bool {
        self.lcp.is_closed()
    }

    /// The line below is there: negotiation begins.
    pub fn line_up(&mut self, now: Instant) {
        if !self.line && !self.closed {
            self.line = true;
            match self.not_before(now) {
                None => self.begin(now),
                // The owner of the line knows why.
                at => (self.rest, self.told) = (at, true),
            }
        }
    }

    /// When the other end is told our name and secret again that it has refused too often.
    pub fn not_before(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
    }

    /// The line below is gone.
    pub fn line_down(&mut self, now: Instant) {
        if core::mem::take(&mut self.line) {
            self.cause = Some(Cause::LineDown);
            self.rest = None;
            self.lcp_step(now, Step::Down);
            self.outbox.clear();
        }
    }

    /// Wants the link again after [`Self::close`].
    pub fn open(&mut self, now: Instant) {
        if core::mem::take(&mut self.closed) {
            self.cause = None;
            self.told = false;
            self.echoes = true;
            self.lcp_step(now, Step::Open);
            if self.line {
                // It was never closed at the other end, or is: both answer a request.
                self.lcp_step(now, Step::Up);
            }
        }
    }

    /// Ends the link with a word to the other end. It stays closed.
    pub fn close(&mut self, now: Instant) {
        if !core::mem::replace(&mut self.closed, true) {
            self.cause = Some(Cause::ClosedHere);
            self.rest = None;
            self.lcp_step(now, Step::Close);
        }
    }

    fn begin(&mut self, now: Instant) {
        self.lcp.rounds = 0;
        self.ipcp.rounds = 0;
        self.echoes = true;
        self.cause = None;
        self.told = false;
        self.lcp_step(now, Step::Up);
    }

    /// Once for each time that it was up, or was tried.
    fn report_down(&mut self, otherwise: Cause) {
        if !core::mem::replace(&mut self.told, true) {
            let cause = self.cause.take().unwrap_or(otherwise);
            self.report(PppEvent::Down(cause));
        }
    }

    fn report(&mut self, event: PppEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    /// A failure that only this end sees: the link is ended and rests.
    fn fail(&mut self, now: Instant, cause: Cause) {
        self.cause.get_or_insert(cause);
        self.lcp_step(now, Step::RejectFatal);
    }

    fn lcp_step(&mut self, now: Instant, step: Step) {
        let signal = self.lcp.happen(now, step, None, &mut self.outbox);
        self.lcp_signal(now, signal);
    }

    fn ipcp_step(&mut self, now: Instant, step: Step) {
        let signal = self.ipcp.happen(now, step, None, &mut self.outbox);
        self.ipcp_signal(now, signal);
    }

    fn lcp_signal(&mut self, now: Instant, signal: Option<Signal>) {
        match signal {
            Some(Signal::Up) => {
                self.echoes_out = 0;
                self.echo_due = Some(now + self.config.echo_every);
                match self.lcp.options.asks().zip(self.config.login.as_ref()) {
                    Some(_) if self.not_before(now).is_some() => self.fail(now, Cause::Refused { again: None }),
                    Some((method, login)) => self.auth.begin(now, method, login, &mut self.outbox),
                    None => self.ipcp_step(now, Step::Up),
                }
            }
            Some(Signal::Down) => {
                self.echo_due = None;
                self.count_refusal(now);
                self.auth.end();
                self.ipcp_step(now, Step::Down);
            }
            Some(Signal::Finished) => {
                let held_back = self.not_before(now).map(|at| at.since(now));
                if let Some(Cause::Refused { again }) = &mut self.cause {
                    *again = held_back;
                }
                self.report_down(self.lcp.options.untold().unwrap_or(Cause::NoAnswer));
                let again = self.not_before(now).unwrap_or(now + REST);
                self.rest = (self.line && !self.closed).then_some(again);
            }
            None => {}
        }
    }

    /// An end that was told who we are and then ends the link, begins anew or lets the line go has refused it, in its way.
    fn count_refusal(&mut self, now: Instant) {
        let ours =
            matches!(self.cause, Some(Cause::Unauthenticated | Cause::NoEcho | Cause::ClosedHere | Cause::Looped));
        if self.auth.is_pending() && !ours {
            self.refusals += 1;
            self.not_before = (self.refusals >= REFUSALS_MAX).then_some(now + REFUSED_REST);
        }
    }

    fn ipcp_signal(&mut self, now: Instant, signal: Option<Signal>) {
        match signal {
            Some(Signal::Up) => match self.agreed() {
                Some(agreed) => {
                    self.up_since = Some(now);
                    self.cause = None;
                    self.told = false;
                    self.report(PppEvent::Up(agreed));
                }
                None => self.fail(now, Cause::NoAddress),
            },
            Some(Signal::Down) if self.up_since.take().is_some() => self.report_down(Cause::Renegotiated),
            Some(Signal::Finished) => self.fail(now, Cause::NoAgreement),
            Some(Signal::Down) | None => {}
        }
    }

    fn agreed(&self) -> Option<Agreed> {
        let (local, remote) = self.ipcp.options.addresses()?;
        Some(Agreed {
            local,
            remote,
            mtu: self.lcp.options.mru().min(self.config.mru.max(lcp::MRU_MIN)),
            style: self.lcp.options.style(),
            vj_out: self.ipcp.options.vj_out,
            vj_in: self.ipcp.options.vj_in,
        })
    }

    /// Takes a packet of any protocol but IP's. Returns whether it was of use.
    pub fn handle(&mut self, now: Instant, number: u16, packet: &[u8]) -> bool {
        if self.rest.is_some() && (self.rounds() >= ROUNDS_MAX || self.not_before(now).is_some()) {
            return false;
        }
        // Any whole frame says that the other end is there.
        self.echoes_out = 0;
        if self.lcp.is_open() {
            self.echo_due = Some(now + self.config.echo_every);
        }
        let known = match number {
            protocol::LCP => self.handle_lcp(now, packet),
            protocol::IPCP if self.lcp.is_open() => self.handle_ipcp(now, packet),
            protocol::PAP | protocol::CHAP if self.lcp.is_open() && self.lcp.options.asks().is_some() => {
                let said = self.auth.handle(number, packet, self.config.login.as_ref(), &mut self.outbox);
                self.authenticated(now, said);
                true
            }
            _ if self.lcp.is_open() => {
                self.reject(number, packet);
                false
            }
            _ => false,
        };
        if !self.lcp.is_stopped() {
            self.rest = None;
        }
        self.check(now);
        known
    }

    /// The other end has taken us for who we say, or not.
    fn authenticated(&mut self, now: Instant, said: Result<bool, Cause>) {
        match said {
            Ok(true) => {
                self.refusals = 0;
                self.ipcp_step(now, Step::Up);
            }
            Ok(false) => {}
            Err(cause) => self.fail(now, cause),
        }
    }

    fn rounds(&self) -> u32 {
        self.lcp.rounds.max(self.ipcp.rounds)
    }

    /// Tells that a packet of IP arrived, which says that the other end is there.
    pub fn heard(&mut self, now: Instant) {
        self.echoes_out = 0;
        self.echo_due = self.echo_due.map(|_| now + self.config.echo_every);
    }

    fn reject(&mut self, number: u16, packet: &[u8]) {
        let mut data = number.to_be_bytes().to_vec();
        data.extend_from_slice(&packet[..packet.len().min(REJECTED_MAX)]);
        let id = self.lcp.next_id();
        self.outbox.put(protocol::LCP, Control { code: Code::ProtocolReject as u8, id, data: &data });
    }

    fn handle_lcp(&mut self, now: Instant, packet: &[u8]) -> bool {
        let Ok(control) = Control::parse(packet) else { return false };
        let open = self.lcp.is_open();
        let signal = match Code::of(control.code) {
            Some(Code::ProtocolReject) => {
                if let (true, Some(number)) = (open, control.data.first_chunk::<2>()) {
                    self.rejected_protocol(now, u16::from_be_bytes(*number));
                }
                None
            }
            Some(Code::EchoRequest) => {
                let mut data = self.lcp.options.magic().to_be_bytes().to_vec();
                data.extend_from_slice(control.data.get(4..).unwrap_or_default());
                let reply = Some((Code::EchoReply, control.id, data));
                self.lcp.happen(now, Step::Echo, reply, &mut self.outbox)
            }
            Some(Code::EchoReply) => {
                let (magic, theirs) = (self.lcp.options.magic(), control.data.first_chunk::<4>());
                if open && magic != 0 && theirs.is_some_and(|theirs| u32::from_be_bytes(*theirs) == magic) {
                    self.fail(now, Cause::Looped);
                }
                None
            }
            Some(Code::DiscardRequest) => None,
            Some(Code::CodeReject) if matches!(control.data.first(), Some(9 | 10)) => {
                self.echoes = false;
                None
            }
            _ => {
                self.note(control);
                let whole = &packet[..packet.len().min(REJECTED_MAX)];
                self.lcp.handle(now, control, whole, &mut self.outbox)
            }
        };
        self.lcp_signal(now, signal);
        true
    }

    fn handle_ipcp(&mut self, now: Instant, packet: &[u8]) -> bool {
        let Ok(control) = Control::parse(packet) else { return false };
        // IPCP has the first seven codes alone (RFC 1332, section 2).
        let known = Code::of(control.code).filter(|code| (*code as u8) <= Code::CodeReject as u8);
        self.note(control);
        let control = Control { code: known.map_or(u8::MAX, |code| code as u8), ..control };
        let whole = &packet[..packet.len().min(REJECTED_MAX)];
        let signal = self.ipcp.handle(now, control, whole, &mut self.outbox);
        self.ipcp_signal(now, signal);
        true
    }

    /// Remembers why a link will end, if this packet ends it.
    fn note(&mut self, control: Control<'_>) {
        let fatal = |data: &[u8]| data.first().is_some_and(|&code| (1..=Code::CodeReject as u8).contains(&code));
        let cause = match Code::of(control.code) {
            // Some say no more than that.
            Some(Code::TerminateRequest) if self.auth.is_pending() => Cause::Refused { again: None },
            Some(Code::TerminateRequest) => self.lcp.options.untold().unwrap_or(Cause::ClosedThere),
            Some(Code::CodeReject) if fatal(control.data) => Cause::Rejected,
            _ => return,
        };
        if self.lcp.is_open() {
            self.cause.get_or_insert(cause);
        } else if cause == Cause::ClosedThere && !self.lcp.is_stopped() {
            // It ends what has not begun: it hears us and wants no link. Asking thirty times would say no more.
            self.cause.get_or_insert(cause);
            self.lcp.rounds = self.lcp.rounds.saturating_add(ROUNDS_MAX.div_ceil(ENDS_MAX));
        }
    }

    fn rejected_protocol(&mut self, now: Instant, number: u16) {
        match number {
            protocol::IPCP | protocol::IPV4 => {
                self.cause.get_or_insert(Cause::Rejected);
                self.ipcp_step(now, Step::RejectFatal);
            }
            protocol::VJ_COMPRESSED | protocol::VJ_FULL => self.report(PppEvent::Uncompressed),
            _ => {}
        }
    }

    /// Gives up what will not come to an end by itself.
    fn check(&mut self, now: Instant) {
        let failure = self.lcp.options.failure().or(self.ipcp.options.failure());
        let no_agreement = || self.lcp.options.untold().unwrap_or(Cause::NoAgreement);
        match failure.or_else(|| (self.rounds() >= ROUNDS_MAX).then(no_agreement)) {
            Some(cause) if self.rest.is_none() && !self.lcp.is_stopped() => self.fail(now, cause),
            _ => {}
        }
    }

    /// Tells that time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.rest.is_some_and(|at| at <= now) {
            self.rest = None;
            self.lcp_step(now, Step::Down);
            self.begin(now);
        }
        let signal = self.lcp.handle_timeout(now, &mut self.outbox);
        self.lcp_signal(now, signal);
        let signal = self.ipcp.handle_timeout(now, &mut self.outbox);
        self.ipcp_signal(now, signal);
        let said = self.auth.handle_timeout(now, self.config.login.as_ref(), &mut self.outbox);
        self.authenticated(now, said.map(|()| false));
        if self.up_since.is_some_and(|since| now.since(since) >= LASTING) {
            self.lcp.rounds = 0;
            self.ipcp.rounds = 0;
        }
        if self.echo_due.is_some_and(|at| at <= now) {
            self.echo(now);
        }
        self.check(now);
    }

    fn echo(&mut self, now: Instant) {
        self.echo_due = Some(now + self.config.echo_every);
        if !self.echoes {
        } else if self.echoes_out >= self.config.echoes_lost {
            self.fail(now, Cause::NoEcho);
        } else {
            self.echoes_out += 1;
            let magic = self.lcp.options.magic().to_be_bytes();
            let id = self.lcp.next_id();
            self.outbox.put(Lcp::PROTOCOL, Control { code: Code::EchoRequest as u8, id, data: &magic });
        }
    }

    /// The next packet for the line, with its protocol.
    pub fn poll_transmit(&mut self) -> Option<(u16, Vec<u8>)> {
        self.outbox.take()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let wake = |at: Option<Instant>, cause| at.map(|at| Wakeup { at, cause });
        [
            wake(self.lcp.timer(), "link control"),
            wake(self.ipcp.timer(), "IP control"),
            wake(self.auth.timer(), "proof of who we are"),
            wake(self.echo_due, "echo"),
            wake(self.rest, "rest after a failure"),
        ]
        .into_iter()
        .fold(None, Wakeup::earliest)
    }

    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<PppEvent> {
        self.events.pop_front()
    }
}
