//! Octets to frames. What follows a fault is skipped up to the next end of a frame, so that one frame is lost and no more.

use crate::counters::{Counters, Fault};
use wavelane_base::{Instant, Span};
use wavelane_wire::serial::{hdlc, slip};

/// Octets around a packet inside a frame: address, control, protocol and check sequence; KISS has one.
pub(crate) const FIELDS_MAX: usize = 6;
/// After this much silence a frame is preceded by an END or a flag, which separates it from noise on the idle line
/// (RFC 1055: "flush any erroneous bytes"); the span is policy.
pub(crate) const LEAD_AFTER: Span = Span::from_secs(1);

/// What is called with each frame, without escapes and check sequence.
type Take<'a> = &'a mut dyn FnMut(&mut Counters, &mut [u8]);

/// How frames end and what is escaped in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    Doubled,
    Slip,
    Hdlc,
}

#[derive(Debug)]
pub(crate) struct Deframer {
    rules: Rules,
    /// The frame so far; never more than `limit`.
    frame: Vec<u8>,
    limit: usize,
    escaped: bool,
    /// The frame is lost: nothing is kept up to its end.
    skipping: bool,
    /// [`Rules::Doubled`]: an END is the last octet, and when the line's silence makes it the end of a frame.
    undecided: Option<Instant>,
    pub(crate) idle: Span,
    pub(crate) counters: Counters,
    /// [`Rules::Hdlc`]: octets below 0x20 that the line inserts and no sender sends unescaped (RFC 1662, section 4.2).
    pub(crate) accm: u32,
}

impl Deframer {
    pub(crate) fn new(rules: Rules, limit: usize, idle: Span) -> Self {
        Self {
            rules,
            frame: Vec::new(),
            limit,
            escaped: false,
            skipping: false,
            undecided: None,
            idle,
            counters: Counters::default(),
            accm: if rules == Rules::Hdlc { hdlc::ACCM_DEFAULT } else { 0 },
        }
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.undecided
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.frame.capacity().min(self.frame.len())
    }

    /// Forgets what has arrived of a frame: the line was interrupted.
    pub(crate) fn reset(&mut self) {
        self.frame.clear();
        self.escaped = false;
        self.skipping = false;
        self.undecided = None;
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, take: Take<'_>) {
        if self.undecided.is_some_and(|at| at <= now) {
            self.undecided = None;
            self.end(take);
        }
    }

    pub(crate) fn push(&mut self, now: Instant, octets: &[u8], take: Take<'_>) {
        self.handle_timeout(now, take);
        self.counters.count_octets(octets.len());
        for &octet in octets {
            match self.rules {
                Rules::Doubled => self.doubled(octet, take),
                Rules::Slip => self.slip(octet, take),
                Rules::Hdlc => self.hdlc(octet, take),
            }
        }
        if self.undecided.is_some() {
            self.undecided = Some(now + self.idle);
        }
    }

    fn doubled(&mut self, octet: u8, take: Take<'_>) {
        match (self.undecided.take().is_some(), octet == slip::END) {
            (false, true) => self.undecided = Some(Instant::FAR_FUTURE),
            (true, false) => {
                self.end(take);
                self.keep(octet);
            }
            _ => self.keep(octet),
        }
    }

    fn slip(&mut self, octet: u8, take: Take<'_>) {
        if octet == slip::END {
            if self.escaped {
                self.spoil(Fault::Escape);
            }
            return self.end(take);
        }
        match (core::mem::take(&mut self.escaped), octet) {
            (false, slip::ESC) => self.escaped = true,
            (true, slip::ESC_END) => self.keep(slip::END),
            (true, slip::ESC_ESC) => self.keep(slip::ESC),
            // RFC 1055's program keeps the octet; a packet known to be wrong is better lost.
            (true, _) => self.spoil(Fault::Escape),
            (false, octet) => self.keep(octet),
        }
    }

    fn hdlc(&mut self, octet: u8, take: Take<'_>) {
        match octet {
            hdlc::FLAG => {
                if self.escaped {
                    self.spoil(Fault::Aborted);
                }
                self.end(take);
            }
            octet if octet < hdlc::FLIP && self.accm >> octet & 1 == 1 => {}
            hdlc::ESCAPE if !self.escaped => self.escaped = true,
            octet => {
                let flip = if core::mem::take(&mut self.escaped) { hdlc::FLIP } else { 0 };
                self.keep(octet ^ flip);
            }
        }
    }

    fn keep(&mut self, octet: u8) {
        if self.skipping {
        } else if self.frame.len() < self.limit {
            self.frame.push(octet);
        } else {
            self.spoil(Fault::Long);
        }
    }

    /// Counted at once: an endless frame never ends.
    fn spoil(&mut self, fault: Fault) {
        if !core::mem::replace(&mut self.skipping, true) {
            self.counters.count_bad(fault);
        }
        self.frame.clear();
    }

    fn end(&mut self, take: Take<'_>) {
        self.escaped = false;
        let len = self.frame.len();
        if core::mem::take(&mut self.skipping) || len == 0 {
            return;
        }
        if self.rules != Rules::Hdlc {
            take(&mut self.counters, &mut self.frame);
        } else if len < hdlc::FRAME_MIN {
            self.counters.count_bad(Fault::Short);
        } else if !hdlc::fcs_holds(&self.frame) {
            self.counters.count_bad(Fault::CheckSum);
        } else {
            take(&mut self.counters, &mut self.frame[..len - hdlc::FCS_LEN]);
        }
        self.frame.clear();
    }
}
