//! How many bytes may wait here: for the lane, where waiting adds delay, and for readers, within the pool.

use super::Hop;
use super::State;
use super::shares::{UnreadRoom, WriteRoom};
use super::types::{HopEvent, Window};
use wavelane_base::{Instant, Octets};
use wavelane_wire::frame::FlowName;

/// The first bytes of a direction, or those after everything was receipted, may all wait at once: so the end of a short transfer
/// is known in time to be protected by symbols.
pub(super) const START: u64 = 128 << 10;
/// The most room required before a blocked writer is woken.
pub(super) const WRITABLE_MIN: u64 = 16 << 10;

impl Hop {
    /// How many bytes [`Hop::write`] would take now.
    pub fn room(&self, flow: FlowName) -> usize {
        let room = match self.flows.get(&flow) {
            Some(f) if f.takes_bytes() => f.out.room(self.write_room()),
            _ => 0,
        };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Requests a [`HopEvent::Writable`] once there is room worth writing for.
    pub fn want_room(&mut self, now: Instant, flow: FlowName) {
        if let Some(f) = self.flows.get_mut(&flow).filter(|f| f.takes_bytes()) {
            f.out.blocked = true;
        }
        self.wake_writer(now, flow);
        self.settle(flow);
    }

    /// Sets how far the flow's sender may be ahead of the bytes read here; credit already granted stays.
    pub fn set_window(&mut self, now: Instant, flow: FlowName, window: Window) {
        let (room, path) = (self.unread_room(), self.path);
        let Some(f) = self.flows.get_mut(&flow) else { return };
        if core::mem::replace(&mut f.inc.window, window) == window {
            return;
        }
        if f.state == State::Opening && !f.open.sent {
            // The first credit was not announced.
            f.inc.promise_anew();
            f.promise(now, &path, room);
        }
        f.consider_credit(now, &path, room);
        self.settle(flow);
    }

    /// Bytes of the flow that the peer has not receipted.
    pub fn unreceipted(&self, flow: FlowName) -> u64 {
        self.flows.get(&flow).map_or(0, |f| f.out.buffered())
    }

    /// Size of a block on this path as currently measured.
    pub fn block_octets(&self) -> u64 {
        self.config.block.map_or_else(|| super::outgoing::block_octets(&self.path), Octets::get)
    }

    /// What bounds one flow's bytes to send.
    pub(super) fn write_room(&self) -> WriteRoom {
        WriteRoom::new(self.half_pool(), self.held, self.path.rate)
    }
    /// What bounds one flow's unread bytes.
    pub(super) fn unread_room(&self) -> UnreadRoom {
        UnreadRoom::new(self.half_pool(), self.held, self.live as u64)
    }
    pub(super) fn half_pool(&self) -> u64 {
        self.lent.pool.get() / 2
    }
    /// Tells a writer that was refused bytes once there is room worth writing for.
    pub(super) fn wake_writer(&mut self, now: Instant, name: FlowName) {
        let room = self.write_room();
        let Some(flow) = self.flows.get_mut(&name) else { return };
        if flow.out.blocked && flow.takes_bytes() && flow.out.room(room) >= flow.out.room_wanted(room) {
            flow.out.unblock(now);
            self.events.push_back(HopEvent::Writable(name));
        }
    }
}
