//! Giving packets up: one by one, or all because the neighbour restarted or is gone.

use super::Sender;

/// Maximum number of them: no more senders can be notified at once.
pub(super) const ABANDONED_MAX: usize = 64;

/// Packets given up since the neighbour was last heard, oldest first, each with its flow's place: it is not known yet whether
/// they are ordinary losses or the neighbour is gone.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    packets: Vec<(usize, Vec<u8>)>,
    octets: usize,
}

impl Abandoned {
    /// Remembers a packet if there is room: at most `octets_max` bytes in total.
    pub(super) fn push(&mut self, place: usize, bytes: Vec<u8>, octets_max: usize) {
        if self.packets.len() < ABANDONED_MAX && self.octets + bytes.len() <= octets_max {
            self.octets += bytes.len();
            self.packets.push((place, bytes));
        }
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.octets = 0;
        core::mem::take(&mut self.packets)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}

impl Sender {
    /// The neighbour restarted: what was in flight is gone, and no order is kept with earlier packets.
    pub fn restart(&mut self) {
        self.give_up();
        self.flows.clear();
        self.headers.restart();
    }

    /// The neighbour was heard: it is alive, so packets given up are ordinary losses.
    pub fn heard(&mut self) {
        self.abandoned.take();
    }

    /// Gives up a packet that will not be sent any more. It is remembered until the neighbour is heard or declared gone.
    pub fn abandon(&mut self, place: usize, bytes: Vec<u8>) {
        self.abandoned.push(place, bytes, self.octets_max.saturating_sub(self.octets));
    }

    /// Gives up a packet that may be in flight.
    pub(super) fn give_up_one(&mut self, number: u64) {
        self.counters.unrepaired += 1;
        if let Some(kept) = self.forget(number) {
            self.abandon(kept.flow, kept.bytes);
        }
    }

    /// Gives up all packets not known to have arrived, oldest first, each with its flow's place ([`super::flow_place`]). Those
    /// given up since the neighbour was last heard come first.
    pub fn give_up(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.counters.unrepaired += self.kept.len() as u64;
        self.octets = 0;
        self.due.clear();
        self.later.clear();
        self.timers.clear();
        self.current = None;
        let mut all = self.abandoned.take();
        all.extend(core::mem::take(&mut self.kept).into_values().map(|kept| (kept.flow, kept.bytes)));
        all
    }

    /// Whether there is any such packet.
    pub fn has_undelivered(&self) -> bool {
        !self.kept.is_empty() || !self.abandoned.is_empty()
    }
}
