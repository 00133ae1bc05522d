//! Packets on their way: from nodes into channels, out of channels to nodes, until nothing moves at this moment.

use super::digest::{mix, mix_bytes};
use super::medium::Medium;
use super::{ChannelId, Crossing, Engine, NodeId, Point};
use crate::node::INSIDE;
use wavelane_base::PortId;
use wavelane_channel::cable::Direction;
use wavelane_channel::wifi::Handling;

/// Deliveries at one moment before the wiring is called endless.
const SETTLE_LIMIT: usize = 10_000_000;
/// Packets kept that come out of a gateway's inside where nothing is plugged in; later ones are discarded.
const INSIDE_KEPT: usize = 1_000_000;

impl Engine {
    /// Hands a packet to the channel at a node's port.
    pub(super) fn offer(&mut self, node: usize, port: usize, packet: Vec<u8>, handling: Option<Handling>) {
        let wire = if port >= INSIDE { self.inside_wires.get(&(node, port)) } else { self.wires[node].get(port) };
        let Some(&(channel, port)) = wire else {
            if port == INSIDE && self.inside.len() < INSIDE_KEPT {
                self.inside.push((self.now, NodeId(node), packet));
            }
            return;
        };
        self.note(channel, port, Point::Offered, &packet);
        let handling = handling.unwrap_or_else(|| self.handling_of(&packet));
        self.channels[channel].medium.hand_in(self.now, port, packet, handling, &mut self.spare);
        self.dirty.push_back(channel);
    }

    /// Delivers what channels have ready until nothing moves at this moment.
    pub(super) fn settle(&mut self) {
        for _ in 0..SETTLE_LIMIT {
            let Some(channel) = self.dirty.pop_front() else { return };
            let mut ready = std::mem::take(&mut self.ready);
            let slot = &mut self.channels[channel];
            while let Some(out) = slot.medium.next_out(self.now, &mut self.spare) {
                ready.push(out);
            }
            let mut departed = std::mem::take(&mut self.departed);
            while let Some(station) = slot.medium.next_departure() {
                departed.push(station);
            }
            let wish = slot.medium.poll_timeout();
            if let Some(wakeup) = wish {
                assert!(
                    wakeup.at > self.now,
                    "channel {channel} breaks law 3 at {:?}: stale deadline {:?} for '{}'",
                    self.now,
                    wakeup.at,
                    wakeup.cause
                );
            }
            self.agenda.set(slot.actor, wish.map(|w| w.at));
            self.drain_captures(channel);
            for (port, packet) in ready.drain(..) {
                self.deliver(channel, port, packet);
            }
            self.deliver_overheard(channel);
            for station in departed.drain(..) {
                self.refill(channel, station);
            }
            self.ready = ready;
            self.departed = departed;
        }
        panic!("at {:?} packets circulate without end: a routing loop over channels without delay", self.now)
    }

    /// A packet comes out at a port of a channel.
    fn deliver(&mut self, channel: usize, port: PortId, mut packet: Vec<u8>) {
        self.note(channel, port, Point::Delivered, &packet);
        let slot = &self.channels[channel];
        let (at, far) = slot.medium.places(port);
        let (node, ports) = &slot.ends[at];
        let (node, port) = (node.0, ports[far]);
        self.at_resident(node, |resident, moment| resident.receive(moment, port, &mut packet));
        if packet.capacity() > 0 {
            self.spare.push(packet);
        }
    }

    fn note(&mut self, channel: usize, port: PortId, point: Point, packet: &[u8]) {
        let (at, far) = self.channels[channel].medium.places(port);
        // What leaves at a port travels towards it.
        let direction = Direction::BOTH[usize::from((at > far) == (point == Point::Offered))];
        let place = match &self.channels[channel].medium {
            Medium::Wifi(_) => u64::from(port.0),
            _ => direction as u64,
        };
        let head = [self.now.as_nanos(), channel as u64, place, point as u64, packet.len() as u64];
        self.digest = head.into_iter().fold(self.digest, mix);
        self.digest = mix_bytes(self.digest, packet);
        if let Some(tap) = &mut self.tap {
            tap(Crossing { at: self.now, channel: ChannelId(channel), port, direction, point, packet });
        }
    }
}
