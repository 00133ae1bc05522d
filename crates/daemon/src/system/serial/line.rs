//! A port that is written to as fast as its line runs: at most one packet waits above it, and 20 ms of octets in it.

use super::call::Call;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::{Instant, Span};
use wavelane_host::tty::{Pace, PortSettings, Tty, TtyError};
use wavelane_serial::{Framing, dialer};

/// Octets read at once.
const READ_ROOM: usize = 4_096;
/// When octets that the driver says it has not sent yet are looked at again.
const LOOK_AGAIN: Span = Span::from_millis(10);
/// The same on a line that has been stopped for long.
const LOOK_SELDOM: Span = Span::from_millis(250);
/// A line that takes nothing for this long is stopped by its other end.
const STALLED_AFTER: Span = Span::from_secs(2);

/// A port and what waits to leave by it.
pub(crate) struct PacedLine {
    tty: Tty,
    pace: Pace,
    /// Octets of one packet, from `sent` on not written yet.
    waiting: Vec<u8>,
    sent: usize,
    /// The driver has more octets than it may: when to look again.
    look_at: Option<Instant>,
    /// Since when it has taken nothing of what waits.
    stuck_since: Option<Instant>,
    heard: Option<Instant>,
    gone: bool,
    /// What a modem needs first.
    call: Option<Call>,
    buffer: Vec<u8>,
}

impl PacedLine {
    /// Opens the port, and begins to call by its modem if `dial` says how.
    pub(crate) fn open(
        path: &str,
        settings: PortSettings,
        framing: Framing,
        dial: Option<&dialer::Config>,
    ) -> io::Result<Self> {
        // A modem has no carrier before it has a connection.
        let carrier = settings.carrier && dial.is_none();
        let tty = Tty::open(path, PortSettings { carrier, ..settings })?;
        if settings.carrier && tty.modem_lines().is_none() {
            return Err(TtyError::NoModemLines.into());
        }
        let now = wavelane_host::realtime::now();
        Ok(Self {
            call: dial.map(|config| Call::new(now, path, config, framing, settings.carrier)),
            tty,
            pace: Pace::new(settings.rate),
            waiting: Vec::new(),
            sent: 0,
            look_at: None,
            stuck_since: None,
            heard: None,
            gone: false,
            buffer: vec![0; READ_ROOM],
        })
    }
    /// Whether nothing waits, so that a packet may be passed on.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_empty() && !self.gone && self.is_connected()
    }
    /// Whether its octets are packets: not while a modem has no connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.call.as_ref().is_none_or(Call::is_connected)
    }
    /// How the modem's call stands, if there is a modem.
    pub(crate) fn call_state(&self) -> Option<&str> {
        self.call.as_ref().map(Call::state)
    }
    /// Does what a call makes due.
    pub(crate) fn tend(&mut self, now: Instant) {
        let Some(call) = self.call.as_mut().filter(|_| !self.gone) else { return };
        let mut out = Vec::new();
        if call.tend(now, &self.tty, &mut out) {
            // The rest of a packet, or of what a stopped line did not take of another chat, is nothing to tell a modem now.
            self.waiting.clear();
            self.sent = 0;
        }
        self.waiting.append(&mut out);
        self.flush(now);
    }
    /// A frame came that only the other end can have sent.
    pub(crate) fn proved(&mut self, now: Instant) {
        self.call.iter_mut().for_each(|call| call.proved(now));
    }
    /// The call, if there is one, is of no use.
    pub(crate) fn hang_up(&mut self, now: Instant, why: &str) {
        self.call.iter_mut().for_each(|call| call.hang_up(now, why));
    }
    /// The call, if there was one, is over, and the next one is not made before.
    pub(crate) fn hold(&mut self, now: Instant, until: Instant, why: &str) {
        self.call.iter_mut().for_each(|call| call.hold(now, until, why));
    }
    /// Whether there is no call, and none is being ended.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.gone || self.call.as_ref().is_none_or(Call::is_at_rest)
    }
    /// Lets `frame` append a packet's octets, and writes what may be written now.
    pub(crate) fn put(&mut self, now: Instant, frame: impl FnOnce(&mut Vec<u8>)) {
        frame(&mut self.waiting);
        self.flush(now);
    }
    /// Writes what the line can have taken by now.
    pub(crate) fn flush(&mut self, now: Instant) {
        self.look_at = None;
        while !self.waiting.is_empty() && !self.gone {
            let room = self.pace.room(now);
            if room == 0 {
                return;
            }
            if self.tty.queued() > self.pace.octets_max() {
                return self.wait(now);
            }
            let rest = &self.waiting[self.sent..];
            match self.tty.write(&rest[..rest.len().min(room)]) {
                Ok(0) => return self.wait(now),
                Ok(octets) => {
                    self.stuck_since = None;
                    self.pace.wrote(now, octets);
                    self.sent += octets;
                }
                Err(_) => self.gone = true,
            }
            if self.sent == self.waiting.len() {
                self.waiting.clear();
                self.sent = 0;
            }
        }
    }
    /// The line takes nothing now.
    fn wait(&mut self, now: Instant) {
        self.stuck_since.get_or_insert(now);
        self.look_at = Some(now + if self.is_stopped(now) { LOOK_SELDOM } else { LOOK_AGAIN });
    }
    /// When [`Self::flush`] or [`Self::tend`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.gone {
            return None;
        }
        let flush = (!self.waiting.is_empty()).then(|| self.look_at.unwrap_or_else(|| self.pace.again()));
        [flush, self.call.as_ref().and_then(Call::deadline)].into_iter().flatten().min()
    }
    /// Reads once, and passes on what there was. Returns whether there may be more.
    pub(crate) fn read(&mut self, now: Instant, take: impl FnOnce(&mut [u8])) -> bool {
        if self.gone {
            return false;
        }
        match self.tty.read(&mut self.buffer) {
            Ok(Some(octets)) => {
                self.heard = Some(now);
                let Some(call) = &mut self.call else {
                    take(&mut self.buffer[..octets]);
                    return true;
                };
                let mut connection = call.read(now, &self.buffer[..octets]);
                // What a modem says is nothing of the other end's.
                self.heard = (call.is_connected() && !connection.is_empty()).then_some(now);
                if !connection.is_empty() {
                    take(&mut connection);
                }
                self.tend(now);
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.gone = true;
                false
            }
        }
    }
    /// Whether the port ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }
    /// Whether the other end has let it send nothing for long.
    pub(crate) fn is_stopped(&self, now: Instant) -> bool {
        self.stuck_since.is_some_and(|since| now.since(since) >= STALLED_AFTER)
    }
    /// Whether octets have come within `span`.
    pub(crate) fn heard_within(&self, now: Instant, span: Span) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) <= span)
    }
}

impl AsFd for PacedLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}
