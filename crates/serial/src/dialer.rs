//! Keeps a call up: chats with the modem, hands the connection over, hangs up what is dead, and dials again ever more slowly.

use crate::chat::{Chat, Outcome, Script};
use std::collections::VecDeque;
use wavelane_base::{Instant, Span, Wakeup};

/// For how long DTR stays off, so that every modem hangs up: policy, as the guard times below.
const HANG_UP: Span = Span::from_secs(1);
/// Silence around `+++` (Hayes: one second), with room for a late clock.
const GUARD: Span = Span::from_millis(1_200);
/// A call that lasted this long was a good one: the next try comes soon.
const LASTING: Span = Span::from_secs(60);
/// Reports that wait for the owner; further ones are dropped.
const EVENTS_MAX: usize = 16;

/// How to call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// What is said until there is a connection.
    pub script: Script,
    /// The first wait before another try; it doubles.
    pub again_first: Span,
    /// The longest.
    pub again_max: Span,
    /// A call is over without a [`Dialer::proved`] for so long; nothing where silence says nothing.
    pub proof_max: Option<Span>,
}

impl Config {
    /// With the default waits, without end: 5 s to 5 min, for calls cost money. Who waits for calls is ready again before whoever calls
    /// dials again.
    pub fn new(script: Script) -> Self {
        let (first, longest) = if script.dials() { (5, 300) } else { (1, 1) };
        let (again_first, again_max) = (Span::from_secs(first), Span::from_secs(longest));
        Self { script, again_first, again_max, proof_max: None }
    }
}

/// What is to be remembered of a port's calls while the port is closed or gone, so that whoever makes it come and go pays for no more calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Past {
    failures: u32,
    not_before: Instant,
}

impl Past {
    /// Of a port without calls.
    pub const NONE: Self = Self { failures: 0, not_before: Instant::ZERO };
    /// When its port may be called by again.
    pub const fn not_before(&self) -> Instant {
        self.not_before
    }
}

/// What happened, and what the owner does with the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DialEvent {
    /// Set DTR so.
    Dtr(bool),
    /// There is a connection; the modem's line.
    Connected(String),
    /// There is none, why, and when the next try is.
    Failed {
        /// The chat's end, or the call's.
        why: String,
        /// From now.
        again: Span,
    },
}

#[derive(Debug)]
enum State {
    Chatting(Box<Chat>),
    Connected {
        since: Instant,
        proved: Instant,
    },
    /// Stages of hanging up: silence, `+++`, silence, `ATH`, DTR.
    HangingUp {
        stage: u8,
        until: Instant,
    },
    Waiting {
        until: Instant,
    },
}

/// A modem that is kept connected.
#[derive(Debug)]
pub struct Dialer {
    config: Config,
    state: State,
    failures: u32,
    again: Span,
    out: Vec<u8>,
    events: VecDeque<DialEvent>,
}

impl Dialer {
    /// Begins to call, once its port's past allows it.
    pub fn new(now: Instant, config: &Config, past: Past) -> Self {
        let state = State::Waiting { until: past.not_before };
        let mut dialer = Self {
            config: config.clone(),
            state,
            failures: past.failures,
            again: Span::ZERO,
            out: Vec::new(),
            events: VecDeque::new(),
        };
        if past.not_before <= now {
            dialer.call(now);
        } else {
            dialer.report(DialEvent::Dtr(false));
            dialer.report(DialEvent::Failed { why: "its port was closed".into(), again: past.not_before.since(now) });
        }
        dialer
    }

    /// What the next dialer of this port is to know, if this one ends now.
    pub fn past(&self, now: Instant) -> Past {
        let (failures, not_before) = match self.state {
            State::Waiting { until } => (self.failures, until),
            State::HangingUp { .. } => (self.failures, now + self.again),
            State::Chatting(_) | State::Connected { .. } => {
                let failures = self.failures_with_this(now);
                (failures, now + self.wait_after(failures))
            }
        };
        Past { failures, not_before }
    }

    /// Whether octets are the connection's.
    pub const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected { .. })
    }

    fn report(&mut self, event: DialEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    fn call(&mut self, now: Instant) {
        self.report(DialEvent::Dtr(true));
        // Octets of the last call that reached the modem after its end are a command line that nobody ended.
        self.out.push(b'\r');
        self.state = State::Chatting(Box::new(Chat::new(now, &self.config.script)));
        self.settle(now);
    }

    /// After the chat moved: its words, and its end.
    fn settle(&mut self, now: Instant) {
        let State::Chatting(chat) = &mut self.state else { return };
        chat.poll_transmit(&mut self.out);
        match chat.outcome().cloned() {
            None => {}
            Some(Outcome::Done(said)) => {
                self.state = State::Connected { since: now, proved: now };
                self.report(DialEvent::Connected(said));
            }
            Some(bad) => self.fail(now, bad.to_string(), false),
        }
    }

    /// Failures in a row, the present call's end among them. One that lasted counts for none before it.
    fn failures_with_this(&self, now: Instant) -> u32 {
        let lasted = match self.state {
            // Of a dead call the time counts in which it was not.
            State::Connected { since, proved } => {
                let end = if self.config.proof_max.is_some() { proved } else { now };
                end.since(since) >= LASTING
            }
            _ => false,
        };
        if lasted { 1 } else { self.failures.saturating_add(1) }
    }

    fn wait_after(&self, failures: u32) -> Span {
        self.config.again_first.times(1 << failures.saturating_sub(1).min(20)).min(self.config.again_max)
    }

    fn fail(&mut self, now: Instant, why: String, escape: bool) {
        self.failures = self.failures_with_this(now);
        self.again = self.wait_after(self.failures);
        self.report(DialEvent::Failed { why, again: self.again });
        let (stage, span) = if escape { (0, GUARD) } else { (3, Span::ZERO) };
        self.state = State::HangingUp { stage, until: now + span };
        self.handle_timeout(now);
    }

    /// The modem has no carrier any more, by its word or by the port's line.
    pub fn carrier_lost(&mut self, now: Instant, why: &str) {
        if self.is_connected() {
            self.fail(now, why.into(), false);
        }
    }

    /// The call is of no use although the modem may well have a carrier: it is hung up, by `+++` and `ATH` before DTR, which many cables
    /// lack.
    pub fn hang_up(&mut self, now: Instant, why: &str) {
        if self.is_connected() {
            self.fail(now, why.into(), true);
        }
    }

    /// Of a call that is over: the next one is not made before.
    pub fn hold(&mut self, now: Instant, until: Instant, why: &str) {
        match &mut self.state {
            State::HangingUp { .. } => self.again = self.again.max(until.since(now)),
            State::Waiting { until: at } => *at = (*at).max(until),
            State::Chatting(_) | State::Connected { .. } => return,
        }
        self.report(DialEvent::Failed { why: why.into(), again: until.since(now) });
    }

    /// Whether there is no call, and none is being ended.
    pub const fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Something came by this call that only the other end can have sent.
    pub fn proved(&mut self, at: Instant) {
        if let State::Connected { proved, .. } = &mut self.state {
            *proved = at;
        }
    }

    /// When a call without further proof is over.
    fn proof_due(&self) -> Option<Instant> {
        let State::Connected { proved, .. } = self.state else { return None };
        self.config.proof_max.map(|longest| proved + longest)
    }

    /// Takes octets from the device; the connection's go to `take`.
    pub fn push(&mut self, now: Instant, octets: &[u8], mut take: impl FnMut(&[u8])) {
        match &mut self.state {
            State::Connected { .. } => take(octets),
            State::Chatting(chat) => {
                let used = chat.push(now, octets);
                self.settle(now);
                if self.is_connected() && used < octets.len() {
                    take(&octets[used..]);
                }
            }
            // A modem that hangs up says so: nobody waits for it.
            State::HangingUp { .. } | State::Waiting { .. } => {}
        }
    }

    /// Tells that time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.state {
            State::Chatting(chat) => {
                chat.handle_timeout(now);
                self.settle(now);
            }
            State::HangingUp { stage, until } if *until <= now => {
                let done = *stage;
                *stage += 1;
                match done {
                    0 => {
                        self.out.extend(b"+++");
                        *until = now + GUARD;
                    }
                    1 => {
                        self.out.extend(b"ATH\r");
                        *until = now + GUARD;
                    }
                    2 | 3 => {
                        *stage = 4;
                        *until = now + HANG_UP;
                        self.report(DialEvent::Dtr(false));
                    }
                    _ => self.state = State::Waiting { until: now + self.again },
                }
            }
            State::Waiting { until } if *until <= now => self.call(now),
            State::Connected { .. } => {
                if let Some(longest) = self.config.proof_max.filter(|_| self.proof_due().is_some_and(|at| at <= now)) {
                    self.hang_up(now, &format!("nothing of the other end's came for {longest}"));
                }
            }
            _ => {}
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        match &self.state {
            State::Chatting(chat) => chat.poll_timeout(),
            State::HangingUp { until, .. } => Some(Wakeup { at: *until, cause: "hanging up" }),
            State::Waiting { until } => Some(Wakeup { at: *until, cause: "next call" }),
            State::Connected { .. } => self.proof_due().map(|at| Wakeup { at, cause: "proof that a call lives" }),
        }
    }

    /// Appends what is to be said to the modem.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<DialEvent> {
        self.events.pop_front()
    }
}
