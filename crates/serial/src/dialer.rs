//! Keeps a call up: chats with the modem, hands the connection over, hangs up, and dials again ever more slowly.

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
    /// Also hang up by `+++` and `ATH`, for a device without DTR.
    pub escape: bool,
    /// The first wait before another try; it doubles.
    pub again_first: Span,
    /// The longest.
    pub again_max: Span,
    /// Calls in a row that may fail; nothing never gives up.
    pub tries: Option<u32>,
}

impl Config {
    /// With the default waits, without end: 5 s to 5 min, for calls cost money. Who waits for calls is ready again before whoever calls
    /// dials again.
    pub fn new(script: Script) -> Self {
        let (first, longest) = if script.dials() { (5, 300) } else { (1, 1) };
        let (again_first, again_max) = (Span::from_secs(first), Span::from_secs(longest));
        Self { script, escape: false, again_first, again_max, tries: None }
    }
}

/// What happened, and what the owner does with the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Set DTR so.
    Dtr(bool),
    /// There is a connection; the modem's line.
    Connected(String),
    /// There is none, why, and when the next try is, if there is one.
    Failed {
        /// The chat's end, or the call's.
        why: String,
        /// From now.
        again: Option<Span>,
    },
}

#[derive(Debug)]
enum State {
    Chatting(Box<Chat>),
    Connected {
        since: Instant,
    },
    /// Stages of hanging up: silence, `+++`, silence, `ATH`, DTR.
    HangingUp {
        stage: u8,
        until: Instant,
    },
    Waiting {
        until: Instant,
    },
    GivenUp,
}

/// A modem that is kept connected.
#[derive(Debug)]
pub struct Dialer {
    config: Config,
    state: State,
    failures: u32,
    again: Option<Span>,
    /// Stay hung up.
    closed: bool,
    out: Vec<u8>,
    events: VecDeque<Event>,
}

impl Dialer {
    /// Begins to call.
    pub fn new(now: Instant, config: &Config) -> Self {
        let state = State::Waiting { until: now };
        let mut dialer = Self {
            config: config.clone(),
            state,
            failures: 0,
            again: None,
            closed: false,
            out: Vec::new(),
            events: VecDeque::new(),
        };
        dialer.call(now);
        dialer
    }

    /// Whether octets are the connection's.
    pub const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected { .. })
    }

    fn report(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    fn call(&mut self, now: Instant) {
        self.report(Event::Dtr(true));
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
                self.state = State::Connected { since: now };
                self.report(Event::Connected(said));
            }
            Some(bad) => self.fail(now, bad.to_string()),
        }
    }

    fn fail(&mut self, now: Instant, why: String) {
        let lasted = matches!(self.state, State::Connected { since } if now.since(since) >= LASTING);
        self.failures = if lasted { 1 } else { self.failures.saturating_add(1) };
        let over = self.closed || self.config.tries.is_some_and(|tries| self.failures >= tries);
        let wait = self.config.again_first.times(1 << (self.failures - 1).min(20)).min(self.config.again_max);
        self.again = (!over).then_some(wait);
        let again = self.again;
        self.report(Event::Failed { why, again });
        self.hang_up_now(now);
    }

    fn hang_up_now(&mut self, now: Instant) {
        let escape = self.config.escape && self.is_connected();
        let (stage, span) = if escape { (0, GUARD) } else { (3, Span::ZERO) };
        self.state = State::HangingUp { stage, until: now + span };
        if !escape {
            self.handle_timeout(now);
        }
    }

    /// The modem says that there is no carrier any more, by its line or by the owner's knowledge.
    pub fn carrier_lost(&mut self, now: Instant) {
        if self.is_connected() {
            self.fail(now, "the carrier was lost".into());
        }
    }

    /// Ends the call for good.
    pub fn hang_up(&mut self, now: Instant) {
        if !core::mem::replace(&mut self.closed, true) {
            self.fail(now, "hung up here".into());
        }
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
            State::HangingUp { .. } | State::Waiting { .. } | State::GivenUp => {}
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
                        self.report(Event::Dtr(false));
                    }
                    _ => {
                        let wait = self.again.map(|again| now + again);
                        self.state = wait.map_or(State::GivenUp, |until| State::Waiting { until });
                    }
                }
            }
            State::Waiting { until } if *until <= now => self.call(now),
            _ => {}
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        match &self.state {
            State::Chatting(chat) => chat.poll_timeout(),
            State::HangingUp { until, .. } => Some(Wakeup { at: *until, cause: "hanging up" }),
            State::Waiting { until } => Some(Wakeup { at: *until, cause: "next call" }),
            State::Connected { .. } | State::GivenUp => None,
        }
    }

    /// Appends what is to be said to the modem.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
