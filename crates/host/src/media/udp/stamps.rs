//! How long datagrams waited in the socket, by the kernel's arrival time stamps.
//!
//! The stamps are times of day, and the time of day may be set between a stamp and its reading. The resulting error in the waiting time
//! would count as link delay for as long as the base delay is remembered. So the time of day is compared with the steady clock at every
//! read, and stamps from before a step are ignored.

use crate::clock::{since_boot, wall_nanos};
use wavelane_base::Span;

/// A datagram that seems to have waited longer was stamped before the time of day was changed.
const WAITED_MAX: Span = Span::from_secs(1);
/// Maximum difference between two clocks that are read one after the other ...
const APART_MAX: u64 = 50_000;
/// ... plus this share of the time between two reads while one of them is slewed (adjtimex(2): 500 ppm).
const SLEW: u64 = 1_000;
/// Maximum number of attempts to read both clocks without an interruption.
const READS_MAX: u32 = 3;

/// Both clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    wall: u64,
    steady: u64,
}

impl Reading {
    /// Now.
    pub(crate) fn take() -> Self {
        let mut before = since_boot().as_nanos();
        for _ in 1..READS_MAX {
            let wall = wall_nanos();
            let after = since_boot().as_nanos();
            if after - before < APART_MAX / 2 {
                return Self { wall, steady: after };
            }
            before = after;
        }
        Self { wall: wall_nanos(), steady: since_boot().as_nanos() }
    }

    /// Offset of the time of day from the steady clock.
    fn ahead(self) -> i128 {
        i128::from(self.wall) - i128::from(self.steady)
    }
}

/// State kept from read to read.
#[derive(Debug)]
pub(crate) struct Stamps {
    last: Reading,
    /// The time of day was set, and packets stamped before may still be in the socket.
    stepped: bool,
}

impl Stamps {
    pub(crate) fn new(now: Reading) -> Self {
        Self { last: now, stepped: false }
    }

    /// Records a read at `now`.
    pub(crate) fn read(&mut self, now: Reading) {
        let slewed = now.steady.saturating_sub(self.last.steady) / SLEW;
        self.stepped |= now.ahead().abs_diff(self.last.ahead()) > u128::from(APART_MAX + slewed);
        self.last = now;
    }

    /// How long a datagram with this stamp had waited at that read.
    pub(crate) fn waited(&self, stamp: Option<u64>) -> Span {
        let waited = stamp.and_then(|at| self.last.wall.checked_sub(at)).map_or(Span::ZERO, Span::from_nanos);
        if self.stepped || waited > WAITED_MAX { Span::ZERO } else { waited }
    }

    /// Call when nothing stamped before that read is left in the socket.
    pub(crate) fn drained(&mut self) {
        self.stepped = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_700_000_000_000_000_000;

    fn at(ms: u64, set_ms: i64) -> Reading {
        Reading { wall: (WALL + ms * 1_000_000).saturating_add_signed(set_ms * 1_000_000), steady: ms * 1_000_000 }
    }

    #[test]
    fn a_step_of_the_time_of_day_is_no_wait_in_the_socket() {
        let mut stamps = Stamps::new(at(0, 0));
        stamps.read(at(10, 0));
        assert_eq!(stamps.waited(Some(at(7, 0).wall)), Span::from_millis(3));
        for step in [400, -400, 2] {
            // Stamped before the step, read after it: twice, because the first read left something.
            stamps.read(at(20, step));
            assert_eq!(stamps.waited(Some(at(18, 0).wall)), Span::ZERO, "{step}");
            stamps.read(at(21, step));
            assert_eq!(stamps.waited(Some(at(18, 0).wall)), Span::ZERO, "{step}");
            stamps.drained();
            stamps.read(at(30, step));
            assert_eq!(stamps.waited(Some(at(28, step).wall)), Span::from_millis(2), "{step}");
            stamps = Stamps::new(at(10, 0));
        }
    }

    #[test]
    fn slewing_is_no_step_and_both_clocks_are_read_close_together() {
        let mut stamps = Stamps::new(at(0, 0));
        let slewed = Reading { wall: WALL + 10_005_000_000, steady: 10_000_000_000 };
        stamps.read(slewed);
        assert_eq!(stamps.waited(Some(slewed.wall - 5_000)), Span::from_micros(5));
        let (one, other) = (Reading::take(), Reading::take());
        assert!(other.steady >= one.steady && one.ahead().abs_diff(other.ahead()) < 1_000_000_000);
    }
}
