//! Carrier sense and reception state of a station: energy, the frame being received, and since when the medium is idle.

use super::hold::Hold;
use super::{CaptureEffect, Reach};
use wavelane_base::{Instant, Span};

/// Physical and virtual carrier sense of one station, or of several with the same view of the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ear {
    /// Sensed frames of others on the air; with a hold, whether it keeps the medium busy.
    energy: u16,
    /// If not every sensed frame keeps the medium busy to its end: until when they do.
    pub(super) hold: Option<Hold>,
    /// Interfering frames of others on the air.
    jam: u16,
    /// The station itself sends, and cannot receive.
    sending: bool,
    /// The frame being received.
    lock: Option<Lock>,
    /// When the medium last became idle.
    idle_since: Instant,
    /// After an error: when the DIFS may start at the earliest, so that it ends with the EIFS.
    error_until: Instant,
    /// The network allocation vector: when the medium becomes free of announced use.
    pub(super) nav: Instant,
    /// When a NAV set by an RTS is reset if nothing was received since.
    pub(super) nav_check: Option<Instant>,
    /// When the DIFS ends from which slots are counted; meaningful while `counting`.
    pub(super) base: Instant,
    /// Whether the medium is idle and slots pass, or will once `base` has come.
    pub(super) counting: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lock {
    sender: u16,
    since: Instant,
    spoiled: bool,
    /// Since when another frame interferes with it, if one does.
    jam_since: Option<Instant>,
    /// For how long others have interfered.
    jammed: Span,
    signal_db: i16,
}

/// The result of a frame at a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// It was not being received.
    Nothing,
    /// It was received without collision.
    Whole,
    /// Its reception ended in error.
    Broken,
    /// One other frame interfered with it for this long.
    Overlapped(Span),
}

/// Constants for the evaluation of overlaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hearing {
    /// Within this time of the start of a frame another one destroys its preamble.
    pub(super) window: Span,
    pub(super) capture: Option<CaptureEffect>,
    /// Whether frames that begin together count as a broken reception.
    pub(super) collision_is_error: bool,
}

impl Ear {
    /// The ear of a station for which the medium was idle long before the start.
    pub(super) fn new(holds: bool) -> Self {
        Self {
            energy: 0,
            hold: holds.then_some(Hold::NONE),
            jam: 0,
            sending: false,
            lock: None,
            idle_since: Instant::ZERO,
            error_until: Instant::ZERO,
            nav: Instant::ZERO,
            nav_check: None,
            base: Instant::ZERO,
            counting: true,
        }
    }
    pub(super) fn is_busy(&self) -> bool {
        self.energy > 0 || self.sending
    }
    /// Whether the medium is busy for the station, physically or by NAV.
    pub(super) fn is_taken(&self, now: Instant) -> bool {
        self.is_busy() || self.nav > now
    }
    /// Whether a reception has been going on for as long as its preamble takes.
    pub(super) fn is_receiving(&self, now: Instant, preamble: Span) -> bool {
        self.lock.is_some_and(|lock| lock.since + preamble <= now)
    }
    pub(super) fn is_locked(&self) -> bool {
        self.lock.is_some()
    }
    pub(super) fn begin_sending(&mut self) {
        self.sending = true;
        self.lock = None;
    }
    pub(super) fn end_sending(&mut self, now: Instant) {
        self.sending = false;
        if self.energy == 0 {
            self.idle_since = now;
        }
    }

    /// A frame of `sender` begins. `loudest` is the strongest interference already there.
    pub(super) fn begin(&mut self, now: Instant, sender: usize, reach: Reach, loudest: Option<i16>, hearing: &Hearing) {
        if reach.sense && self.hold.is_none() {
            self.energy += 1;
        }
        let fresh = Lock {
            sender: sender as u16,
            since: now,
            spoiled: false,
            jam_since: None,
            jammed: Span::ZERO,
            signal_db: reach.signal_db,
        };
        if !self.sending {
            self.overlap(fresh, reach, loudest, hearing);
        }
        if reach.interfere {
            self.jam += 1;
        }
    }
    /// A frame just begun keeps the medium busy until `end`, unless it is busy longer.
    pub(super) fn hold_on(&mut self, now: Instant, end: Instant, hearing: &Hearing) {
        if let Some(hold) = &mut self.hold {
            hold.extend(now, end, hearing.window);
            self.energy = 1;
        }
    }
    /// At the end of a reception, frames on the air keep the medium busy until `end`.
    pub(super) fn look_again(&mut self, now: Instant, end: Instant) {
        if let Some(hold) = &mut self.hold {
            hold.look_again(end);
            self.energy = u16::from(!hold.is_over(now));
        }
    }
    /// The effect of a starting frame on the current reception, if any.
    fn overlap(&mut self, fresh: Lock, reach: Reach, loudest: Option<i16>, hearing: &Hearing) {
        let Some(lock) = &mut self.lock else {
            // Under interference the preamble is detected only if the frame is stronger by the capture margin.
            if reach.decode && (self.jam == 0 || hearing.stronger(reach.signal_db, loudest)) {
                self.take(fresh);
            }
            return;
        };
        if !reach.interfere || hearing.stronger(lock.signal_db, Some(reach.signal_db)) {
            return;
        }
        let in_preamble = fresh.since <= lock.since + hearing.window;
        let changes = hearing.capture.is_some_and(|c| c.mid_frame || in_preamble);
        if reach.decode && changes && hearing.stronger(reach.signal_db, Some(lock.signal_db)) {
            self.take(fresh);
        } else if in_preamble && !hearing.collision_is_error {
            self.lock = None;
        } else if lock.jam_since.is_some() {
            // Two interferers at once destroy the frame.
            lock.spoiled = true;
        } else {
            lock.jam_since = Some(fresh.since);
        }
    }
    fn take(&mut self, lock: Lock) {
        self.lock = Some(lock);
        self.nav_check = None;
    }

    /// A frame of `sender` ends. `eifs_extra` is EIFS less DIFS.
    pub(super) fn end(&mut self, now: Instant, sender: usize, reach: Reach, eifs_extra: Span) -> Heard {
        if reach.interfere {
            self.jam -= 1;
        }
        if reach.sense && self.energy > 0 {
            match &self.hold {
                None => self.energy -= 1,
                Some(hold) if hold.is_over(now) => self.energy = 0,
                Some(_) => {}
            }
            if self.energy == 0 && !self.sending {
                self.idle_since = now;
            }
        }
        if let Some(lock) = &mut self.lock
            && (self.jam == 1 || usize::from(lock.sender) == sender)
            && reach.interfere
            && let Some(since) = lock.jam_since.take()
        {
            lock.jammed += now.since(since);
        }
        match self.lock {
            Some(lock) if usize::from(lock.sender) == sender => {
                self.lock = None;
                if lock.spoiled {
                    self.fail(now, eifs_extra);
                    Heard::Broken
                } else if lock.jammed > Span::ZERO {
                    Heard::Overlapped(lock.jammed)
                } else {
                    self.error_until = Instant::ZERO;
                    Heard::Whole
                }
            }
            _ => Heard::Nothing,
        }
    }
    /// The received frame is correct.
    pub(super) fn spare(&mut self) {
        self.error_until = Instant::ZERO;
    }
    /// The received frame is in error.
    pub(super) fn fail(&mut self, now: Instant, eifs_extra: Span) {
        self.error_until = now + eifs_extra;
    }

    /// When the DIFS ends, on an idle medium.
    pub(super) fn difs_end(&self, difs: Span) -> Instant {
        debug_assert!(!self.is_busy());
        self.idle_since.max(self.error_until).max(self.nav) + difs
    }

    /// Whether both ears have the same state, now and from now on.
    pub(super) fn agrees(&self, other: &Self, now: Instant) -> bool {
        self.counting
            && other.counting
            && self.nav.max(now) == other.nav.max(now)
            && (self.energy, self.jam, self.sending) == (other.energy, other.jam, other.sending)
            && self.lock.is_none()
            && other.lock.is_none()
            && self.nav_check == other.nav_check
    }
}

impl Hearing {
    /// Whether a frame of `signal` dB exceeds `other` by the capture margin.
    fn stronger(&self, signal: i16, other: Option<i16>) -> bool {
        self.capture.is_some_and(|c| other.is_none_or(|o| i32::from(signal) >= i32::from(o) + i32::from(c.margin_db)))
    }
}
