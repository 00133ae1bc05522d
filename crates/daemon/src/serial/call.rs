//! The call that a port's modem must have before its octets are packets: dialled or answered by a chat, and again when it ends.

use std::collections::VecDeque;
use wavelane_base::{Instant, Span};
use wavelane_host::tty::Tty;
use wavelane_serial::dialer::{Config, Dialer, Event};

/// What a modem says whose call ended (V.250, table 1). Every frame ends in an octet of its own, so none ends so.
const ENDED: &[u8] = b"NO CARRIER\r\n";
/// ... and nothing follows for this long.
const SILENT: Span = Span::from_secs(1);
/// The state until the chat ends.
const CALLING: &str = "its modem is getting a connection";
/// How often the port's carrier line is looked at during a call.
const LOOK: Span = Span::from_secs(1);

/// See the module's description.
pub(super) struct Call {
    dialer: Dialer,
    /// The last octets of the connection, and when they came.
    tail: VecDeque<u8>,
    heard: Instant,
    look_at: Instant,
    /// The carrier line was on during this call: its end is the call's. Many cables and all pseudo-terminals have none.
    had_carrier: bool,
    /// Why there is no connection, or the modem's words about the one that there is.
    state: String,
}

impl Call {
    pub(super) fn new(now: Instant, config: &Config) -> Self {
        Self {
            dialer: Dialer::new(now, config),
            tail: VecDeque::with_capacity(ENDED.len()),
            heard: now,
            look_at: now,
            had_carrier: false,
            state: CALLING.into(),
        }
    }
    /// Whether octets are the connection's.
    pub(super) fn is_connected(&self) -> bool {
        self.dialer.is_connected()
    }
    /// How the call stands, in words.
    pub(super) fn state(&self) -> &str {
        &self.state
    }
    /// Takes octets from the port and returns the connection's.
    pub(super) fn read(&mut self, now: Instant, octets: &[u8]) -> Vec<u8> {
        let mut connection = Vec::new();
        if !self.is_connected() {
            self.tail.clear();
        }
        self.dialer.push(now, octets, |of_it| connection.extend_from_slice(of_it));
        self.heard = now;
        for octet in &connection {
            if self.tail.len() == ENDED.len() {
                self.tail.pop_front();
            }
            self.tail.push_back(*octet);
        }
        connection
    }
    /// Does what is due, and appends what is to be said to the modem. Returns whether a call began or ended: what waited for the line before is of
    /// no use.
    pub(super) fn tend(&mut self, now: Instant, tty: &Tty, out: &mut Vec<u8>) -> bool {
        let mut is_another = false;
        if self.is_connected() && now >= self.look_at {
            self.look_at = now + LOOK;
            let carrier = tty.modem_lines().is_some_and(|lines| lines.carrier);
            let said = now.since(self.heard) >= SILENT && self.tail.iter().eq(ENDED);
            if self.had_carrier && !carrier || said {
                self.dialer.carrier_lost(now);
            }
            self.had_carrier |= carrier;
        }
        self.dialer.handle_timeout(now);
        while let Some(event) = self.dialer.poll_event() {
            match event {
                Event::Dtr(on) => {
                    tty.set_ready(on);
                    is_another = true;
                    if on {
                        self.state = CALLING.into();
                    }
                }
                Event::Connected(said) => {
                    (self.had_carrier, self.look_at) = (false, now);
                    let said = wavelane_base::text::line(&said, 60);
                    self.state = format!("its modem has a connection ({said})");
                }
                Event::Failed { why, again } => {
                    is_another = true;
                    let again = again.map_or_else(|| "not again".into(), |wait| format!("again in {wait}"));
                    self.state = format!("its modem has no connection: {why}; {again}");
                }
            }
        }
        self.dialer.poll_transmit(out);
        is_another
    }
    /// When [`Self::tend`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let look = self.is_connected().then_some(self.look_at);
        [self.dialer.poll_timeout().map(|wakeup| wakeup.at), look].into_iter().flatten().min()
    }
}
