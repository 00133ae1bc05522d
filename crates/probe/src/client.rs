//! The client as a machine: it opens a session, sends trains of probes at regular intervals, asks the server for its counts, and opens a
//! new session when the server has gone silent. Port `n` sends with the code point `n`.

use crate::packet::{Cookie, Echo, Grant, Message, Nonce, PROBE_MAX, PROBE_MIN, Probe, QUESTION_LEN, Refusal, Token};
use crate::server::TRAINS_MAX;
use crate::train::{COUNT_AFTER, Echoed, Sample, Train};
use std::collections::VecDeque;
use wavelane_base::{Entropy, FrameMeta, Instant, Machine, PortId, Span, Transmit, Wakeup};

/// Maximum number of probes in one train, after which it ends. Half an hour of one every 10 ms.
pub const SAMPLES_MAX: usize = 180_000;
/// First timeout for an answer during the handshake; it doubles ...
const ASK_FIRST: Span = Span::from_millis(250);
/// ... up to this.
const ASK_LAST: Span = Span::from_secs(2);
/// After this time without an answer the session may be lost: a new one is requested, and probing continues.
const SILENCE: Span = Span::from_secs(3);
/// A probe that is later than this is skipped instead of sent: the machine was suspended.
const LATE_MAX: Span = Span::from_millis(100);
/// Maximum number of count requests, ...
const COUNTS_MAX: u32 = 12;
/// ... until this many answers have arrived, in case a request overtook a probe.
const COUNT_ANSWERS: u32 = 2;
/// Maximum number of queued events for the owner.
const EVENTS_MAX: usize = 64;

/// Parameters of probing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Interval between probes.
    pub interval: Span,
    /// Octets of UDP payload, between [`PROBE_MIN`] and [`PROBE_MAX`].
    pub size: usize,
    /// Requested session time in seconds.
    pub seconds: u16,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    nonce: Nonce,
    cookie: Option<Cookie>,
    next: Instant,
    wait: Span,
}

/// Events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// A session is open, the first or (`again`) a new one.
    Opened {
        /// Its name.
        token: Token,
        /// What the server granted.
        grant: Grant,
        /// The previous session was lost.
        again: bool,
    },
    /// The server refused a session.
    Refused(Refusal),
    /// The server has not answered for a while.
    Silent,
}

/// The client.
pub struct Client {
    pace: Pace,
    entropy: Entropy,
    ask: Option<Ask>,
    session: Option<(Token, Grant)>,
    closing: bool,
    heard: Instant,
    trains: Vec<Train>,
    events: VecDeque<ClientEvent>,
    /// Datagrams from others, or malformed.
    strange: u64,
    /// Drops by the server's socket: in earlier sessions, and in this one.
    socket_drops: (u64, u32),
}

impl Client {
    /// A client that requests a session at `now`.
    pub fn new(now: Instant, pace: Pace, entropy: Entropy) -> Self {
        let pace = Pace { size: pace.size.clamp(PROBE_MIN, PROBE_MAX), ..pace };
        let mut client = Self {
            pace,
            entropy,
            ask: None,
            session: None,
            closing: false,
            heard: now,
            trains: Vec::new(),
            events: VecDeque::new(),
            strange: 0,
            socket_drops: (0, 0),
        };
        client.ask(now);
        client
    }

    /// The trains so far, in order of their start. One label has several if the session was lost in between.
    pub fn trains(&self) -> &[Train] {
        &self.trains
    }
    /// Datagrams that were not part of our session.
    pub fn strange(&self) -> u64 {
        self.strange
    }
    /// Datagrams, of all its clients, that the server's socket dropped during our sessions, as far as reported.
    pub fn server_socket_drops(&self) -> u64 {
        self.socket_drops.0 + u64::from(self.socket_drops.1)
    }
    /// Whether every ended train has been counted, or can no longer be.
    pub fn counted(&self) -> bool {
        self.trains.iter().all(|train| train.next.is_none() && train.count.is_none())
    }

    /// Starts a train, unless there are too many.
    pub fn begin(&mut self, now: Instant, label: u32, dscp: u8) {
        if self.trains.len() < TRAINS_MAX {
            self.trains.push(Train {
                label,
                dscp: dscp & 0x3f,
                samples: Vec::new(),
                tally: None,
                skipped: 0,
                duplicates: 0,
                reordered: 0,
                number: self.trains.len() as u16,
                next: Some(now),
                highest_order: 0,
                count: None,
            });
        }
    }

    /// Ends the trains with that label; the server is asked for its counts.
    pub fn end(&mut self, now: Instant, label: u32) {
        for train in self.trains.iter_mut().filter(|train| train.label == label) {
            train.end(now);
        }
    }

    /// Closes the session.
    pub fn close(&mut self) {
        self.closing = self.session.is_some();
        self.ask = None;
        for train in &mut self.trains {
            train.next = None;
            train.count = None;
        }
    }

    fn ask(&mut self, now: Instant) {
        let mut nonce = [0; 8];
        self.entropy.fill(&mut nonce);
        self.ask = Some(Ask { nonce, cookie: None, next: now, wait: ASK_FIRST });
    }

    fn report(&mut self, event: ClientEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    fn probing(&self) -> bool {
        self.trains.iter().any(|train| train.next.is_some() || train.count.is_some())
    }

    /// When the session is considered lost.
    fn lost_at(&self) -> Option<Instant> {
        let may = self.session.is_some() && self.ask.is_none() && self.probing();
        let begun = self.trains.iter().rev().find_map(|train| train.samples.first()).map(|sample| sample.sent);
        may.then(|| begun.map_or(self.heard, |begun| begun.max(self.heard)) + SILENCE)
    }

    fn welcome(&mut self, now: Instant, token: Token, grant: Grant) {
        let again = self.session.is_some();
        self.socket_drops = (self.server_socket_drops(), 0);
        self.ask = None;
        self.session = Some((token, grant));
        self.heard = now;
        self.report(ClientEvent::Opened { token, grant, again });
        if again {
            // The server's counts restart at zero, without any earlier state.
            let running: Vec<(u32, u8)> =
                self.trains.iter().filter(|t| t.next.is_some()).map(|t| (t.label, t.dscp)).collect();
            for train in &mut self.trains {
                train.next = None;
                train.count = None;
            }
            running.into_iter().for_each(|(label, dscp)| self.begin(now, label, dscp));
        }
    }

    fn echo(&mut self, now: Instant, at: Instant, echo: &Echo) -> bool {
        let Some(train) = self.trains.get_mut(usize::from(echo.probe.train)) else { return false };
        let Some(sample) = train.samples.get_mut(echo.probe.number as usize) else { return false };
        if sample.sent.as_nanos() != echo.probe.sent {
            return false;
        }
        self.heard = now;
        // The old session still exists.
        self.ask = None;
        if sample.echo.is_some() {
            train.duplicates += 1;
            return true;
        }
        let told = Echoed { received: echo.received, answered: echo.answered, loaded: echo.loaded };
        sample.echo = Some((told, at));
        if echo.order < train.highest_order {
            train.reordered += 1;
        }
        train.highest_order = train.highest_order.max(echo.order);
        for back in 0..64 {
            let number = echo.highest.checked_sub(back).filter(|_| echo.window >> back & 1 != 0);
            if let Some(sample) = number.and_then(|n| train.samples.get_mut(n as usize)) {
                sample.reached = true;
            }
        }
        train.samples[echo.probe.number as usize].reached = true;
        true
    }

    /// Writes what is due on the control port.
    fn control(&mut self, now: Instant) -> Option<Message> {
        let token = self.session.map(|(token, _)| token);
        if std::mem::take(&mut self.closing) {
            self.session = None;
            return token.map(Message::Close);
        }
        let seconds = self.pace.seconds;
        if let Some(ask) = self.ask.as_mut().filter(|ask| ask.next <= now) {
            ask.next = now + ask.wait;
            ask.wait = ask.wait.times(2).min(ASK_LAST);
            return Some(ask.cookie.map_or(Message::Hello(ask.nonce), |c| Message::Open(ask.nonce, c, seconds)));
        }
        let token = token?;
        let due = |train: &&mut Train| train.count.is_some_and(|count| count.next <= now);
        let train = self.trains.iter_mut().find(due)?;
        let count = train.count.as_mut()?;
        count.asked += 1;
        count.next = now + COUNT_AFTER.times(1 << count.asked.min(2));
        Some(Message::Count(token, train.number))
    }

    fn probe(&mut self, now: Instant, dscp: u8) -> Option<Message> {
        let (token, _) = self.session?;
        let interval = self.pace.interval;
        let due = |train: &&mut Train| train.dscp == dscp && train.next.is_some_and(|next| next <= now);
        let train = self.trains.iter_mut().find(due)?;
        let next = train.next? + interval;
        train.next = Some(next);
        if now.since(next) > LATE_MAX {
            train.skipped += now.since(next).as_nanos() / interval.as_nanos().max(1);
            train.next = Some(now + interval);
        }
        let number = u32::try_from(train.samples.len()).ok()?;
        train.samples.push(Sample { sent: now, echo: None, reached: false });
        let probe = Probe { token, train: train.number, dscp, number, sent: now.as_nanos() };
        if train.samples.len() >= SAMPLES_MAX {
            train.end(now);
        }
        Some(Message::Probe(probe))
    }
}

impl Machine for Client {
    type Event = ClientEvent;

    fn handle_frame(&mut self, now: Instant, _: PortId, frame: &mut [u8], meta: FrameMeta) {
        let taken = match Message::parse(frame) {
            Ok(Message::Cookie(nonce, cookie)) => match self.ask.as_mut() {
                Some(ask) if ask.nonce == nonce && ask.cookie.is_none() => {
                    ask.cookie = Some(cookie);
                    ask.next = now;
                    ask.wait = ASK_FIRST;
                    true
                }
                _ => false,
            },
            Ok(Message::Welcome(nonce, token, grant)) if self.ask.is_some_and(|ask| ask.nonce == nonce) => {
                self.welcome(now, token, grant);
                true
            }
            Ok(Message::Refused(nonce, why)) if self.ask.is_some_and(|ask| ask.nonce == nonce) => {
                self.ask = None;
                // The next request is made as if it had fallen silent now.
                self.heard = now;
                self.report(ClientEvent::Refused(why));
                true
            }
            Ok(Message::Echo(echo)) if self.session.is_some_and(|(token, _)| token == echo.probe.token) => {
                self.echo(now, meta.rx_time, &echo)
            }
            Ok(Message::Counted(token, number, tally)) if self.session.is_some_and(|(own, _)| own == token) => {
                self.heard = now;
                let train = self.trains.get_mut(usize::from(number));
                train.is_some_and(|train| {
                    let best = train.tally.map_or(0, |tally| tally.received);
                    if tally.received >= best && train.allows(&tally) {
                        train.tally = Some(tally);
                        self.socket_drops.1 = self.socket_drops.1.max(tally.socket_drops);
                    }
                    if let Some(count) = train.count.as_mut() {
                        count.answers += 1;
                        if count.answers >= COUNT_ANSWERS {
                            train.count = None;
                        }
                    }
                    true
                })
            }
            _ => false,
        };
        if !taken {
            self.strange += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for train in &mut self.trains {
            if train.count.is_some_and(|count| count.asked >= COUNTS_MAX && count.next <= now) {
                train.count = None;
            }
        }
        if self.lost_at().is_some_and(|at| at <= now) {
            self.report(ClientEvent::Silent);
            self.ask(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _: usize) -> Option<Transmit> {
        let control = if port == PortId(0) { self.control(now) } else { None };
        let message = control.or_else(|| self.probe(now, u8::try_from(port.0).ok()?))?;
        let len = if matches!(message, Message::Probe(_)) { self.pace.size } else { QUESTION_LEN };
        let len = message.emit(buf, len).ok()?;
        Some(Transmit { len, ..Transmit::default() })
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let mut wakeup = self.ask.map(|ask| Wakeup { at: ask.next, cause: "ask for a session" });
        wakeup = Wakeup::earliest(wakeup, self.lost_at().map(|at| Wakeup { at, cause: "silence" }));
        for train in &self.trains {
            let probe = train.next.filter(|_| self.session.is_some());
            wakeup = Wakeup::earliest(wakeup, probe.map(|at| Wakeup { at, cause: "probe" }));
            wakeup = Wakeup::earliest(wakeup, train.count.map(|count| Wakeup { at: count.next, cause: "count" }));
        }
        wakeup
    }

    fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
