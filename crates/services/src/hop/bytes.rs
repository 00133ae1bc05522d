//! The bytes of an owner's flow: written, read and ended.

use super::Hop;
use super::flow::State;
use wavelane_base::{Instant, ReadOutcome};
use wavelane_wire::frame::FlowName;

impl Hop {
    /// Accepts as many bytes of `data` as there is room for; fewer than offered means a `Writable` event will follow.
    pub fn write(&mut self, now: Instant, flow: FlowName, data: &[u8]) -> usize {
        let room = self.write_room();
        let Some(f) = self.flows.get_mut(&flow) else { return 0 };
        if !f.takes_bytes() {
            return 0;
        }
        let room = f.out.room(room);
        let n = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        f.out.write(&data[..n]);
        f.moves(now, n > 0);
        f.out.blocked = n < data.len();
        if f.state == State::Open {
            f.out.watch(now, &self.path);
        }
        self.offer_waiting(flow);
        self.settle(flow);
        n
    }

    /// Reads into `buf`. With an empty `buf` it reads nothing and returns `Blocked`.
    pub fn read(&mut self, now: Instant, flow: FlowName, buf: &mut [u8]) -> ReadOutcome {
        let Some(f) = self.flows.get(&flow) else { return ReadOutcome::Reset };
        let (front, back) = f.inc.unread();
        let in_front = front.len().min(buf.len());
        let n = (front.len() + back.len()).min(buf.len());
        buf[..in_front].copy_from_slice(&front[..in_front]);
        buf[in_front..n].copy_from_slice(&back[..n - in_front]);
        self.consume(now, flow, n)
    }

    /// What [`Hop::read`] would return, in place. Empty for a flow that ended or was reset.
    pub fn unread(&self, flow: FlowName) -> (&[u8], &[u8]) {
        self.flows.get(&flow).map_or((&[], &[]), |f| f.inc.unread())
    }

    /// Marks the first `octets` of [`Hop::unread`] as read; with none, returns what a read would.
    pub fn consume(&mut self, now: Instant, flow: FlowName, octets: usize) -> ReadOutcome {
        let room = self.unread_room();
        let Some(f) = self.flows.get_mut(&flow) else { return ReadOutcome::Reset };
        if matches!(f.state, State::Ending | State::Done) {
            return if f.inc.end_read { ReadOutcome::End } else { ReadOutcome::Reset };
        }
        let n = f.inc.consume(octets);
        f.moves(now, n > 0);
        self.let_pass(now, flow);
        let Some(f) = self.flows.get_mut(&flow) else { return ReadOutcome::Reset };
        let outcome = if n > 0 {
            f.consider_credit(now, &self.path, room);
            let cap = f.inc.cap(room);
            f.inc.receipt_now |= f.inc.relieve(cap);
            ReadOutcome::Data(n)
        } else if f.inc.readable() && f.inc.is_all_read() {
            f.inc.end_read = true;
            // A direction that the peer's owner did not end in order before its reset has no end.
            if matches!(f.ended_by_peer, Some((_, false))) { ReadOutcome::Reset } else { ReadOutcome::End }
        } else if f.inc.end_read {
            ReadOutcome::End
        } else {
            f.reader_waits = true;
            ReadOutcome::Blocked
        };
        self.conclude(flow);
        self.settle(flow);
        outcome
    }

    /// Whether everything up to the end was received.
    pub fn is_received(&self, flow: FlowName) -> bool {
        self.flows.get(&flow).is_some_and(|f| f.inc.is_complete())
    }

    /// Ends our direction in an orderly way, after everything written.
    pub fn shutdown(&mut self, now: Instant, flow: FlowName) {
        let Some(f) = self.flows.get_mut(&flow) else { return };
        if matches!(f.state, State::Opening | State::Open) && f.ended_by_peer.is_none() {
            f.out.shut();
            if f.state == State::Open {
                f.out.watch(now, &self.path);
            }
            self.settle(flow);
        }
    }
}
