//! How many bytes may wait here: before the lane, where they grow old, and before readers, within the pool.

use super::Hop;
use super::incoming::{CREDIT_FLOOR, UnreadRoom};
use super::types::HopEvent;
use wavelane_base::{Instant, Span};
use wavelane_wire::frame::FlowName;

/// A writer may have so much time's worth of bytes waiting beyond those in flight: they grow old here.
const AHEAD: Span = Span::from_millis(8);
/// And at least so many bytes.
const AHEAD_MIN: u64 = 8 << 10;
/// The bytes with which a direction begins, or begins again after everything was receipted, may all wait at once: so the
/// end of a short transfer is known in time to be protected by symbols.
pub(super) const START: u64 = 128 << 10;
/// Least room that makes a waiting writer worth waking.
const WRITABLE_MIN: u64 = 16 << 10;

impl Hop {
    /// How many bytes [`Hop::write`] would take now.
    pub fn room(&self, flow: FlowName) -> usize {
        let room = match self.flows.get(&flow) {
            Some(f) if f.takes_bytes() => f.out.room(self.ahead(), self.send_share()),
            _ => 0,
        };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Has a [`HopEvent::Writable`] follow once there is room worth writing for.
    pub fn want_room(&mut self, now: Instant, flow: FlowName) {
        if let Some(f) = self.flows.get_mut(&flow) {
            f.out.blocked = true;
        }
        self.wake_writer(now, flow);
    }

    /// Bytes that a writer may have waiting here.
    pub(super) fn ahead(&self) -> u64 {
        self.path.rate.octets_in(AHEAD).get().max(AHEAD_MIN)
    }
    /// Bytes one flow may have in its send buffer: half of what the others and it leave free (dynamic threshold).
    pub(super) fn send_share(&self) -> u64 {
        (self.half_pool().saturating_sub(self.held.0) / 2).max(CREDIT_FLOOR)
    }
    /// Bytes one flow may be promised: shrinks as flows arrive and as unread bytes pile up.
    pub(super) fn receive_share(&self) -> u64 {
        let parts = (self.live as u64 + 1).clamp(2, 4) + self.live as u64 / 8;
        (self.half_pool().saturating_sub(self.held.1) / parts).max(CREDIT_FLOOR)
    }
    /// What bounds the bytes that one flow may hold unread. Promises were made when there was more room, and are not withdrawn; without this
    /// cap flows whose readers stand still would fill the pool.
    pub(super) fn unread_room(&self) -> UnreadRoom {
        UnreadRoom { flow: self.receive_share().saturating_mul(2), pool: self.half_pool().saturating_sub(self.held.1) }
    }
    fn half_pool(&self) -> u64 {
        self.config.pool.get() / 2
    }
    /// Tells a writer that was refused bytes once there is room worth writing for.
    pub(super) fn wake_writer(&mut self, now: Instant, name: FlowName) {
        let (ahead, share) = (self.ahead(), self.send_share());
        let Some(flow) = self.flows.get_mut(&name) else { return };
        // Half of what may wait: a writer that answers within the other half keeps the lane busy.
        let room = WRITABLE_MIN.min(share / 2).min(ahead / 2);
        if flow.out.blocked && flow.takes_bytes() && flow.out.room(ahead, share) >= room {
            flow.out.unblock(now);
            self.events.push_back(HopEvent::Writable(name));
        }
    }
}
