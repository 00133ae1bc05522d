//! The contract: a sans-IO machine and the laws it keeps.

use crate::{FrameMeta, Instant, PortId, Transmit};

/// When [`Machine::handle_timeout`] is next due, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wakeup {
    /// The deadline on this node's clock.
    pub at: Instant,
    /// What the deadline is for, so that a spinning or idle run explains itself.
    pub cause: &'static str,
}

impl Wakeup {
    /// The earlier of two optional wake-ups; the first wins a tie.
    pub fn earliest(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(x), Some(y)) => Some(if y.at < x.at { y } else { x }),
            (x, y) => x.or(y),
        }
    }
}

/// A protocol or channel machine: no clock, no socket, no thread, no random source of its own.
///
/// Methods are of four kinds: getters; `handle_*`, which bring in the network and the clock; commands of the
/// owner; and `poll_*`, which drain the machine's outputs. After any mutation the driver drains in this
/// order: `poll_transmit` on every port with room until `None`, `poll_event` until `None`, then `poll_timeout`.
///
/// The laws, which [`crate::laws`] checks on every machine:
/// 1. Time never goes back: `now` is never smaller than in an earlier call.
/// 2. Drains end: every `poll_transmit` and `poll_event` loop reaches `None` without `now` moving.
/// 3. No stale deadline: after `handle_timeout(now)` and a drain, `poll_timeout` is later than `now`.
/// 4. Spurious `handle_timeout` and empty polls change nothing.
/// 5. Being woken only at deadlines gives the same frames as being woken every millisecond.
/// 6. The same inputs and dice give the same bytes.
/// 7. Memory stays within the configured limits whatever arrives.
pub trait Machine {
    /// What the machine reports to its owner. A parent translates its children's events, never re-exports them.
    type Event;

    /// Takes one received frame (or a batch of equal-size frames, see [`FrameMeta::segment`]).
    ///
    /// The buffer is mutable so that decryption can work in place; its contents afterwards mean nothing.
    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta);

    /// Tells the machine that time has passed. A call before the deadline is harmless.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next frame for `port` into `buf`, or returns `None` when nothing may be sent now.
    ///
    /// Called only while the port has room, so queues form inside the machine, where it manages them. At most
    /// `max_segments` equal-size frames are written at once.
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], max_segments: usize) -> Option<Transmit>;

    /// The next deadline, absolute, or `None` if only input can cause output.
    fn poll_timeout(&self) -> Option<Wakeup>;

    /// The next report, oldest first.
    fn poll_event(&mut self) -> Option<Self::Event>;
}
