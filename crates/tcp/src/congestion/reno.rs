//! Reno (RFC 5681).

use super::{Acked, Window};

#[derive(Clone, Debug)]
pub(crate) struct Reno {
    pub(super) window: Window,
    /// Bytes acknowledged towards the next segment of growth.
    counted: u64,
}

impl Reno {
    pub(super) fn new(window: Window) -> Self {
        Self { window, counted: 0 }
    }

    pub(super) fn on_ack(&mut self, acked: &Acked) {
        let mut rest = acked.octets;
        if self.window.in_slow_start() {
            rest = self.window.slow_start(acked);
        }
        if rest == 0 {
            return;
        }
        let window = &mut self.window;
        if window.byte_counting {
            // One segment per window of acknowledged bytes.
            self.counted += rest;
            if self.counted >= window.cwnd {
                self.counted -= window.cwnd;
                window.cwnd += window.mss;
            }
        } else {
            // Equation 3: per acknowledgement.
            window.cwnd += (window.mss * window.mss / window.cwnd).max(1);
        }
    }

    /// Equation 4: half of what is in flight, two segments at least. Segments that limited transmit sent beyond the window
    /// do not count (RFC 5681, section 3.2, step 2).
    pub(super) fn reduce(&mut self, flight: u64) {
        let window = &mut self.window;
        // If cwnd grew without being used, the bytes in flight are what the path is known to carry.
        window.ssthresh = window.rounded(flight.min(window.cwnd) / 2);
        window.cwnd = window.ssthresh;
        self.counted = 0;
    }
}
