//! Fewer acknowledgements of segments beyond a hole: each repeats the information of the previous one, and a flight with a
//! hole would cause one per segment (Linux's SACK compression, `__tcp_ack_snd_check` in net/ipv4/tcp_input.c, since
//! 4.18).

use wavelane_base::{Instant, Span};

/// Acknowledgements per hole sent immediately, so that the sender can distinguish reordering from loss (RFC 5681's three
/// duplicates).
const AT_ONCE: u32 = 3;
/// The delay is at most this (`tcp_comp_sack_delay_ns`), and at most this share of the RTT.
const PAUSE_MAX: Span = Span::from_millis(1);
const PAUSE_SHARE: (u64, u64) = (1, 20);

/// Acknowledgements suppressed since the last one sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compression {
    /// Most suppressed in a row; 0 suppresses none.
    most: u32,
    left_out: u32,
    /// How many were sent immediately since the expected position was `hole`.
    told: u32,
    hole: u64,
    /// When a suppressed acknowledgement is sent.
    pub(super) at: Option<Instant>,
}

impl Compression {
    pub(super) fn new(most: u32) -> Self {
        Self { most, left_out: 0, told: 0, hole: 0, at: None }
    }

    /// A segment arrived beyond `hole`. Whether its acknowledgement is suppressed. It is not if its block is `far` down in
    /// the SACK list, as the next acknowledgement might not have room for all changes.
    pub(super) fn leaves_out(&mut self, now: Instant, hole: u64, far: bool, round_trip: Option<Span>) -> bool {
        if self.hole != hole {
            self.hole = hole;
            self.told = 0;
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
            // With an RTT of zero there is no delay to apply.
            return false;
        }
        self.left_out += 1;
        self.at.get_or_insert(now + pause);
        true
    }

    /// An acknowledgement with all SACK blocks was sent.
    pub(super) fn told(&mut self) {
        self.left_out = 0;
        self.at = None;
    }

    /// Returns whether a suppressed acknowledgement must be sent now.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.told();
        }
        due
    }
}
