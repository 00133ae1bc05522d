//! How flows share the pool: arithmetic only.
//!
//! Received bytes cannot be returned, credit is not withdrawn, and a reader may stop at any time. So a flow that is not yet known
//! to move, or does not move, is served from one half of the room, in which each such flow has a part that shrinks with their
//! number. The other half is for flows that move: they get what their bytes read per RTT, or in flight, demand, within a share of
//! what is free.

use wavelane_base::{Rate, Span};

/// Minimum that a flow may hold or be granted: one parcel.
pub(super) const FLOOR: u64 = wavelane_wire::frame::PARCEL_MAX as u64;
/// A writer may have this much time's worth of bytes waiting beyond those in flight: waiting adds delay.
const AHEAD: Span = Span::from_millis(8);
/// And at least this many bytes.
const AHEAD_MIN: u64 = 8 << 10;

/// A new flow gets this fraction of what is free even if others are stalled, so that it can soon prove that it moves.
const FIRST_PARTS: u64 = 512;

/// What one flow holds, or all do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    /// Bytes written and not receipted ...
    pub(super) to_send: u64,
    /// ... of these, never sent.
    pub(super) unsent: u64,
    /// Flows that have unsent bytes.
    pub(super) waiting: u64,
    /// Bytes received and not read.
    pub(super) unread: u64,
    /// Flows whose readers have yet to prove that they read, initially or again.
    pub(super) unproven: u64,
}

impl Held {
    /// A flow that held `before` holds `now`.
    pub(super) fn change(&mut self, before: Self, now: Self) {
        self.to_send = self.to_send - before.to_send + now.to_send;
        self.unsent = self.unsent - before.unsent + now.unsent;
        self.waiting = self.waiting - before.waiting + now.waiting;
        self.unread = self.unread - before.unread + now.unread;
        self.unproven = self.unproven - before.unproven + now.unproven;
    }
}

/// What bounds one flow's bytes to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteRoom {
    /// Unsent bytes that keep the lane busy.
    pub(super) ahead: u64,
    /// Unsent bytes that the pool allows.
    pub(super) part: u64,
    /// All its bytes ...
    pub(super) share: u64,
    /// ... before the far reader is proven.
    pub(super) first: u64,
}

impl WriteRoom {
    /// For flows that together hold `held` of the `limit` bytes for sending, over a lane of `rate`.
    pub(super) fn new(limit: u64, held: Held, rate: Rate) -> Self {
        let free = limit.saturating_sub(held.to_send);
        let part = |held_of_half| (limit / 2).saturating_sub(held_of_half) / (held.waiting + 1);
        Self {
            ahead: rate.octets_in(AHEAD).get().max(AHEAD_MIN),
            part: part(held.unsent).max(FLOOR),
            // Half of what is free (dynamic threshold).
            share: (free / 2).max(FLOOR),
            first: part(held.to_send).max(free / FIRST_PARTS).max(FLOOR),
        }
    }
}

/// What bounds one flow's unread bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnreadRoom {
    /// What a flow is granted, and may hold, regardless of its reader.
    pub(super) part: u64,
    /// What a new flow is granted at least.
    pub(super) first: u64,
    /// The most that a flow with an active reader is granted.
    pub(super) share: u64,
    /// What all flows together may add.
    pub(super) pool: u64,
}

impl UnreadRoom {
    /// For `flows` flows that together hold `held` of the `limit` bytes for unread data.
    pub(super) fn new(limit: u64, held: Held, flows: u64) -> Self {
        let free = limit.saturating_sub(held.unread);
        Self {
            part: ((limit / 2).saturating_sub(held.unread) / (held.unproven + 1)).max(FLOOR),
            first: free / FIRST_PARTS,
            share: (free / (flows + 1).clamp(2, 4)).max(FLOOR),
            pool: free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: u64 = 4 << 20;

    /// The model: what each flow holds, and whether its reader is proven. Sums are recomputed each time.
    #[derive(Clone, Copy, Default)]
    struct Flow {
        unsent: u64,
        in_flight: u64,
        unread: u64,
        proven: bool,
    }

    impl Flow {
        fn held(self) -> Held {
            Held {
                to_send: self.unsent + self.in_flight,
                unsent: self.unsent,
                waiting: u64::from(self.unsent > 0),
                unread: self.unread,
                unproven: u64::from(!self.proven || self.unread > 0),
            }
        }
    }

    fn sum(flows: &[Flow]) -> Held {
        let sum = |what: fn(Held) -> u64| flows.iter().map(|flow| what(flow.held())).sum();
        Held {
            to_send: sum(|held| held.to_send),
            unsent: sum(|held| held.unsent),
            waiting: sum(|held| held.waiting),
            unread: sum(|held| held.unread),
            unproven: sum(|held| held.unproven),
        }
    }

    proptest! {
        /// Flows take all they may, move it on and free it in any order: no flow gets less than the floor, all together stay
        /// within the limit, and stalled ones within half of it.
        #[test]
        fn stalled_flows_take_at_most_half_of_the_room(
            steps in proptest::collection::vec((0..40_usize, 0..6_u8, any::<bool>()), 1..300)
        ) {
            let mut flows = vec![Flow::default(); 40];
            let mut held = sum(&flows);
            let floors = flows.len() as u64 * FLOOR;
            for (at, step, moves) in steps {
                let write = WriteRoom::new(LIMIT, held, Rate::from_bps(1 << 40));
                let unread = UnreadRoom::new(LIMIT, held, flows.len() as u64);
                prop_assert!([write.part, write.share, write.first, unread.part, unread.share].iter().all(|n| *n >= FLOOR));
                let before = flows[at];
                let flow = &mut flows[at];
                match step {
                    // A moving flow is granted a share, another one a part.
                    0 | 1 => {
                        let most = if moves { unread.share } else { unread.part };
                        let pool = flow.unread + unread.pool;
                        flow.unread = flow.unread.max(most.min(pool).max(FLOOR));
                    }
                    2 => *flow = Flow { unread: 0, proven: true, ..*flow },
                    3 => {
                        let most = write.share.saturating_sub(flow.unsent + flow.in_flight);
                        flow.unsent += write.part.saturating_sub(flow.unsent).min(most);
                    }
                    4 if moves => *flow = Flow { in_flight: flow.in_flight + flow.unsent, unsent: 0, ..*flow },
                    _ => flow.in_flight = 0,
                }
                held.change(before.held(), flows[at].held());
                prop_assert_eq!(held, sum(&flows));
                prop_assert!(held.to_send <= LIMIT + floors && held.unread <= LIMIT + floors, "{:?}", held);
                prop_assert!(held.unsent <= LIMIT / 2 + floors, "{:?}", held);
            }
            // If no flow moves, all readers together hold at most half.
            let mut still = vec![Flow::default(); 40];
            held = sum(&still);
            for flow in &mut still {
                let before = flow.held();
                flow.unread = UnreadRoom::new(LIMIT, held, 40).part;
                held.change(before, flow.held());
                prop_assert!(held.unread <= LIMIT / 2 + floors, "{:?}", held);
            }
        }
    }
}
