//! The call that a port's modem must have before its octets are packets: dialled or answered by a chat, and again when it ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use wavelane_base::{Instant, Span};
use wavelane_host::tty::Tty;
use wavelane_serial::Framing;
use wavelane_serial::dialer::{Config, DialEvent, Dialer, Past};
use wavelane_serial::ended::Ended;

/// The state until the chat ends.
const CALLING: &str = "its modem is getting a connection";
/// How often the port's carrier line is looked at during a call.
const LOOK: Span = Span::from_secs(1);
/// Ports whose calls are remembered; of more the one that may call soonest is forgotten.
const PASTS_MAX: usize = 64;

/// The calls of ports that are closed or gone: a plug that falls out, or a reload, is no reason to call sooner. It outlives ports, lanes and
/// configurations, so it is the process's.
static PASTS: Mutex<BTreeMap<String, Past>> = Mutex::new(BTreeMap::new());

/// See the module's description.
pub(super) struct Call {
    port: String,
    dialer: Dialer,
    ended: Ended,
    framing: Framing,
    look_at: Instant,
    /// The file says that a call has a carrier line.
    wants_carrier: bool,
    /// The carrier line was on during this call: its end is the call's. Many cables and all pseudo-terminals have none.
    had_carrier: bool,
    /// Why there is no connection, or the modem's words about the one that there is.
    state: String,
}

impl Call {
    pub(super) fn new(now: Instant, port: &str, config: &Config, framing: Framing, wants_carrier: bool) -> Self {
        let past = PASTS.lock().unwrap_or_else(PoisonError::into_inner).remove(port).unwrap_or(Past::NONE);
        Self {
            port: port.into(),
            dialer: Dialer::new(now, config, past),
            ended: Ended::new(framing),
            framing,
            look_at: now,
            wants_carrier,
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
            self.ended = Ended::new(self.framing);
        }
        self.dialer.push(now, octets, |of_it| connection.extend_from_slice(of_it));
        self.ended.push(now, &connection);
        connection
    }
    /// A frame came that only the other end can have sent.
    pub(super) fn proved(&mut self, now: Instant) {
        self.dialer.proved(now);
    }
    /// The connection is of no use.
    pub(super) fn hang_up(&mut self, now: Instant, why: &str) {
        self.dialer.hang_up(now, why);
    }
    /// Of a call that is over: the next one is not made before.
    pub(super) fn hold(&mut self, now: Instant, until: Instant, why: &str) {
        self.dialer.hold(now, until, why);
    }
    /// Whether there is no call, and none is being ended.
    pub(super) fn is_at_rest(&self) -> bool {
        self.dialer.is_at_rest()
    }
    /// Does what is due, and appends what is to be said to the modem. Returns whether a call began or ended: what waited for the line before is of
    /// no use.
    pub(super) fn tend(&mut self, now: Instant, tty: &Tty, out: &mut Vec<u8>) -> bool {
        let mut is_another = false;
        if self.is_connected() && now >= self.look_at {
            self.look_at = now + LOOK;
            let carrier = tty.modem_lines().is_some_and(|lines| lines.carrier);
            if self.had_carrier && !carrier || self.ended.is_said(now) {
                self.dialer.carrier_lost(now, "the carrier was lost");
            } else if self.wants_carrier && !carrier {
                self.dialer
                    .hang_up(now, "DCD is off during the call: set the modem to AT&C1, or remove carrier = true");
            }
            self.had_carrier |= carrier;
        }
        self.dialer.handle_timeout(now);
        while let Some(event) = self.dialer.poll_event() {
            match event {
                DialEvent::Dtr(on) => {
                    tty.set_ready(on);
                    is_another = true;
                    if on {
                        self.state = CALLING.into();
                    }
                }
                DialEvent::Connected(said) => {
                    // DCD may come up a little after the modem's word.
                    self.had_carrier = false;
                    self.look_at = now + LOOK;
                    let said = wavelane_base::text::line(&said, 60);
                    self.state = format!("its modem has a connection ({said})");
                }
                DialEvent::Failed { why, again } => {
                    is_another = true;
                    // The text stands until the next call: it tells how long the wait is, not how much of it is left.
                    let seconds = again.as_secs_f64().ceil();
                    self.state =
                        format!("its modem has no connection: {why}; the next call comes {seconds} s after that");
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

impl Drop for Call {
    fn drop(&mut self) {
        let past = self.dialer.past(wavelane_host::realtime::now());
        let mut pasts = PASTS.lock().unwrap_or_else(PoisonError::into_inner);
        pasts.insert(std::mem::take(&mut self.port), past);
        if pasts.len() > PASTS_MAX {
            let soonest = pasts.iter().min_by_key(|(_, past)| past.not_before()).map(|(port, _)| port.clone());
            soonest.and_then(|port| pasts.remove(&port));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_host::realtime;
    use wavelane_serial::chat::Script;

    #[test]
    fn a_port_that_comes_and_goes_is_not_called_by_more_often() {
        let config = Config::new(Script::parse("'' ATDT1 CONNECT").expect("a script"));
        let mut waits = Vec::new();
        for _ in 0..4 {
            let now = realtime::now();
            let call = Call::new(now, "/dev/test-of-pasts", &config, Framing::Slip, false);
            // A chat waits for 45 s at first; a call that must not be made yet, for the back-off.
            waits.push(call.deadline().expect("something due").since(now).as_millis());
        }
        // The first call ended with its port; no other one was made.
        assert!(waits[0] > 40_000 && waits[1..].iter().all(|wait| (3_000..=5_000).contains(wait)), "{waits:?}");
        for port in 0..2 * PASTS_MAX {
            drop(Call::new(realtime::now(), &format!("/dev/test-{port}"), &config, Framing::Slip, false));
        }
        assert!(PASTS.lock().unwrap_or_else(PoisonError::into_inner).len() <= PASTS_MAX);
    }
}
