//! Fewer acknowledgements of what comes beyond a hole: each tells all that the one before it told, and in a flight with a
//! hole there would be one per segment (Linux's SACK compression, `__tcp_ack_snd_check` in net/ipv4/tcp_input.c, since
//! 4.18).

use wavelane_base::{Instant, Span};

/// Acknowledgements of one hole that go at once, so that the sender can tell reordering from a loss (RFC 5681's three
/// duplicates).
const AT_ONCE: u32 = 3;
/// A pause is at most this (`tcp_comp_sack_delay_ns`), and this share of a round trip.
const PAUSE_MAX: Span = Span::from_millis(1);
const PAUSE_SHARE: (u64, u64) = (1, 20);

/// What was left out since the latest acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compression {
    /// Left out in a row at the most; 0 leaves out none.
    most: u32,
    left_out: u32,
    /// How many went at once since the expected position was `hole`.
    told: u32,
    hole: u64,
    /// When what was left out is told.
    pub(super) at: Option<Instant>,
}

impl Compression {
    pub(super) fn new(most: u32) -> Self {
        Self { most, left_out: 0, told: 0, hole: 0, at: None }
    }

    /// A segment came beyond `hole`. Whether its acknowledgement is left out. It is not if its stretch is `far` down in the
    /// reports, for the next acknowledgement might not have room for all that changed.
    pub(super) fn leaves_out(&mut self, now: Instant, hole: u64, far: bool, round_trip: Option<Span>) -> bool {
        if self.hole != hole {
            (self.hole, self.told) = (hole, 0);
        }
        let Some(round_trip) = round_trip else { return false };
        if self.left_out >= self.most || far && self.left_out > 0 {
            return false;
        }
        if self.told < AT_ONCE {
            self.told += 1;
            return false;
        }
        let pause = round_trip.scale(PAUSE_SHARE.0, PAUSE_SHARE.1).min(PAUSE_MAX);
        if pause == Span::ZERO {
            // A path of no length leaves nothing to wait for.
            return false;
        }
        self.left_out += 1;
        self.at.get_or_insert(now + pause);
        true
    }

    /// An acknowledgement went, which tells all.
    pub(super) fn told(&mut self) {
        (self.left_out, self.at) = (0, None);
    }

    /// Returns whether what was left out must be told now.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.told();
        }
        due
    }
}
