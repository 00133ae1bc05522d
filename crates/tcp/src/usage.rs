//! Congestion window validation: a window that the sender does not use fully must not grow (RFC 7661).

use super::send::Sender;

/// The window's recent use (Linux's `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Sending was cwnd-limited at least once since `until` was the next unsent byte.
    limited: bool,
    /// The most bytes in flight since then.
    most: u64,
    until: u64,
    /// Something was sent since the last check.
    pub(super) fresh: bool,
}

impl Sender {
    /// Nothing more can be sent: records whether cwnd is the reason.
    pub(super) fn note_usage(&mut self) {
        let (cwnd, pipe) = (self.controller.cwnd(), self.board.pipe());
        let limited =
            pipe + self.mss > cwnd || self.train.held && cwnd.saturating_sub(pipe) < self.window.saturating_sub(pipe);
        if !(std::mem::take(&mut self.usage.fresh) || limited) {
            return;
        }
        if self.una >= self.usage.until || limited || !self.usage.limited && pipe > self.usage.most {
            self.usage = Usage { limited, most: pipe, until: self.next, fresh: false };
        }
    }

    /// Whether the window was in use, with `pipe` bytes in flight when an acknowledgement came (Linux's
    /// `tcp_is_cwnd_limited`). In slow start half of it is enough.
    pub(super) fn is_limited(&self, pipe: u64) -> bool {
        let (cwnd, slow_start) = (self.controller.cwnd(), self.controller.in_slow_start());
        match (self.config.limited_for_a_round, slow_start) {
            (true, _) => self.usage.limited || slow_start && cwnd < 2 * self.usage.most,
            (false, true) => 2 * pipe >= cwnd,
            (false, false) => pipe + self.mss >= cwnd,
        }
    }
}
