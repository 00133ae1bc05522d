//! One protocol's negotiation: the automaton with its timer, its tries and its packets.

use super::Cause;
use super::automaton::{Action, Event, State, step};
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};
use wavelane_wire::serial::ppp::{Choice, Code, Control};

/// Between tries of a request (RFC 1661, section 4.6).
pub(super) const RESTART: Span = Span::from_secs(3);
/// Tries of Configure-Request without an answer (section 4.6).
pub(super) const MAX_CONFIGURE: u32 = 10;
/// Tries of Terminate-Request (section 4.6).
const MAX_TERMINATE: u32 = 2;
/// Configure-Naks sent before what they named is rejected (section 4.6).
const MAX_FAILURE: u32 = 5;
/// Requests without a link that lasts: a peer that answers each with another Nak is given up. Policy.
pub(super) const ROUNDS_MAX: u32 = 40;
/// Control packets that wait for the line; further ones are dropped, as if lost on it.
const OUTBOX_MAX: usize = 16;

/// What is said of an option that the other end asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Ack,
    /// With this value instead.
    Nak(Vec<u8>),
    Reject,
}

/// What a protocol negotiates about.
pub(super) trait Options {
    const PROTOCOL: u16;
    /// A new negotiation begins: nothing is agreed.
    fn restart(&mut self);
    /// Appends what this end asks for.
    fn request(&self, out: &mut Vec<u8>);
    /// Judges what the other end asks for.
    fn judge(&mut self, choice: Choice<'_>) -> Verdict;
    /// Takes what was asked for and acknowledged.
    fn grant(&mut self, choices: &[Choice<'_>]);
    /// The other end wants this value instead.
    fn naked(&mut self, choice: Choice<'_>);
    /// The other end does not want this at all.
    fn rejected(&mut self, kind: u8);
    /// Why it cannot go on, if it cannot.
    fn failure(&self) -> Option<Cause>;
}

/// Control packets on their way to the line, with their protocols.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    packets: VecDeque<(u16, Vec<u8>)>,
}

impl Outbox {
    pub(super) fn put(&mut self, protocol: u16, control: Control<'_>) {
        if self.packets.len() < OUTBOX_MAX {
            let mut packet = Vec::new();
            control.put(&mut packet);
            self.packets.push_back((protocol, packet));
        }
    }
    pub(super) fn take(&mut self) -> Option<(u16, Vec<u8>)> {
        self.packets.pop_front()
    }
    pub(super) fn clear(&mut self) {
        self.packets.clear();
    }
}

/// What the layer above is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    Up,
    Down,
    Finished,
}

#[derive(Debug)]
pub(super) struct Negotiation<O> {
    pub(super) options: O,
    state: State,
    timer: Option<Instant>,
    tries: u32,
    naks: u32,
    /// Requests since the owner last found the link lasting.
    pub(super) rounds: u32,
    id: u8,
    /// The options of the request that is out.
    request: Vec<u8>,
    /// Numbers what is not a request's answer.
    other_id: u8,
}

impl<O: Options> Negotiation<O> {
    /// Wanted, as soon as the layer below is up.
    pub(super) fn new(options: O) -> Self {
        Self {
            options,
            state: State::Starting,
            timer: None,
            tries: 0,
            naks: 0,
            rounds: 0,
            id: 0,
            request: Vec::new(),
            other_id: 0,
        }
    }
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Opened
    }
    pub(super) fn is_stopped(&self) -> bool {
        self.state == State::Stopped
    }
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed | State::Initial)
    }
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }
    /// The identifier of the next packet that is no request's answer.
    pub(super) fn next_id(&mut self) -> u8 {
        self.other_id = self.other_id.wrapping_add(1);
        self.other_id
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) -> Option<Signal> {
        if self.timer.is_none_or(|at| at > now) {
            return None;
        }
        self.timer = None;
        let event = if self.tries > 0 { Event::TimeoutMore } else { Event::TimeoutOver };
        self.happen(now, event, None, out)
    }

    /// Takes a packet whose code all protocols know, or none does.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        control: Control<'_>,
        whole: &[u8],
        out: &mut Outbox,
    ) -> Option<Signal> {
        let answers = control.id == self.id;
        let event = match Code::of(control.code) {
            Some(Code::ConfigureRequest) => return self.asked(now, control, out),
            Some(Code::ConfigureAck) if answers && control.data == self.request => Event::ConfigureAck,
            Some(Code::ConfigureNak | Code::ConfigureReject) if answers => {
                self.refused(control)?;
                Event::ConfigureNak
            }
            Some(Code::ConfigureAck | Code::ConfigureNak | Code::ConfigureReject) => return None,
            Some(Code::TerminateRequest) => Event::TerminateRequest,
            Some(Code::TerminateAck) => Event::TerminateAck,
            Some(Code::CodeReject) => {
                let fatal = control.data.first().is_some_and(|&code| (1..=Code::CodeReject as u8).contains(&code));
                if fatal { Event::RejectFatal } else { Event::RejectMild }
            }
            _ => Event::UnknownCode,
        };
        let reply = match event {
            Event::TerminateRequest => Some((Code::TerminateAck, control.id, Vec::new())),
            Event::UnknownCode => Some((Code::CodeReject, self.next_id(), whole.to_vec())),
            _ => None,
        };
        self.happen(now, event, reply, out)
    }

    fn asked(&mut self, now: Instant, control: Control<'_>, out: &mut Outbox) -> Option<Signal> {
        let choices = control.options().ok()?;
        // What it asked for in an earlier negotiation holds no longer.
        if self.state == State::Stopped {
            self.begin();
        }
        let (mut naks, mut rejects) = (Vec::new(), Vec::new());
        for choice in &choices {
            match self.options.judge(*choice) {
                Verdict::Ack => {}
                Verdict::Nak(value) if self.naks < MAX_FAILURE => {
                    Choice { kind: choice.kind, value: &value }.put(&mut naks)
                }
                Verdict::Nak(_) | Verdict::Reject => choice.put(&mut rejects),
            }
        }
        let (event, code, data) = if !rejects.is_empty() {
            (Event::RequestBad, Code::ConfigureReject, rejects)
        } else if !naks.is_empty() {
            self.naks += 1;
            (Event::RequestBad, Code::ConfigureNak, naks)
        } else {
            self.naks = 0;
            self.options.grant(&choices);
            (Event::RequestGood, Code::ConfigureAck, control.data.to_vec())
        };
        self.happen(now, event, Some((code, control.id, data)), out)
    }

    /// Takes the options of a Nak or a Reject, if it is well-formed.
    fn refused(&mut self, control: Control<'_>) -> Option<()> {
        let choices = control.options().ok()?;
        if !matches!(self.state, State::ReqSent | State::AckSent) {
            return Some(());
        }
        for choice in choices {
            if control.code == Code::ConfigureReject as u8 {
                self.options.rejected(choice.kind);
            } else {
                self.options.naked(choice);
            }
        }
        Some(())
    }

    fn begin(&mut self) {
        self.options.restart();
        self.naks = 0;
    }

    /// Lets the automaton take a step; `reply` is what it sends if it answers.
    pub(super) fn happen(
        &mut self,
        now: Instant,
        event: Event,
        reply: Option<(Code, u8, Vec<u8>)>,
        out: &mut Outbox,
    ) -> Option<Signal> {
        let (state, actions) = step(self.state, event)?;
        if matches!(event, Event::Up | Event::Open) {
            self.begin();
        }
        let mut signal = None;
        for action in actions {
            match action {
                Action::LayerUp => signal = Some(Signal::Up),
                Action::LayerDown => signal = Some(Signal::Down),
                Action::LayerFinished => signal = Some(Signal::Finished),
                Action::InitCount if matches!(state, State::Closing | State::Stopping) => self.tries = MAX_TERMINATE,
                Action::InitCount => self.tries = MAX_CONFIGURE,
                Action::ZeroCount => {
                    self.tries = 0;
                    self.timer = Some(now + RESTART);
                }
                Action::Request => self.ask(now, event, out),
                Action::Terminate => {
                    self.tries = self.tries.saturating_sub(1);
                    self.timer = Some(now + RESTART);
                    let id = self.next_id();
                    out.put(O::PROTOCOL, Control { code: Code::TerminateRequest as u8, id, data: &[] });
                }
                Action::TerminateAck if reply.as_ref().is_none_or(|reply| reply.0 != Code::TerminateAck) => {
                    let id = self.next_id();
                    out.put(O::PROTOCOL, Control { code: Code::TerminateAck as u8, id, data: &[] });
                }
                Action::Ack | Action::Nak | Action::TerminateAck | Action::CodeReject | Action::EchoReply => {
                    if let Some((code, id, data)) = &reply {
                        out.put(O::PROTOCOL, Control { code: *code as u8, id: *id, data });
                    }
                }
            }
        }
        self.state = state;
        if matches!(state, State::Initial | State::Starting | State::Closed | State::Stopped | State::Opened) {
            self.timer = None;
        }
        signal
    }

    fn ask(&mut self, now: Instant, event: Event, out: &mut Outbox) {
        self.tries = self.tries.saturating_sub(1);
        self.rounds = self.rounds.saturating_add(1);
        self.timer = Some(now + RESTART);
        // A retransmission keeps its identifier, so that a late answer to the first copy counts (section 5.1).
        if event != Event::TimeoutMore {
            self.id = self.id.wrapping_add(1);
            self.request.clear();
            self.options.request(&mut self.request);
        }
        out.put(O::PROTOCOL, Control { code: Code::ConfigureRequest as u8, id: self.id, data: &self.request });
    }
}
