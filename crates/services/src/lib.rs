//! What a link carries, sans-IO: TCP payloads as acknowledged blocks ([`hop`]), everything else as packets ([`packet`],
//! retransmitted by [`arq`]). [`Services`] is both over one link.
#![forbid(unsafe_code)]

pub mod arq;
pub mod hop;
pub mod packet;
mod paths;
mod share;

use arq::{Datagram, Piece, Times};
use hop::{Carried, Hop, HopConfig};
use packet::{Packets, PacketsConfig};
use share::{Share, Turn};
use wavelane_base::{Class, Instant, Wakeup};
use wavelane_transport::{Bulk, Carries, Digest, Fill, NextBulk, PathView, RepairBudget, Service};
use wavelane_wire::frame::Frame;

/// Blocks and packets over one link.
#[derive(Debug)]
pub struct Services {
    /// Our flows with the neighbour.
    pub blocks: Hop,
    /// Our packets to and from the neighbour; `None` if they are off.
    pub packets: Option<Packets>,
    share: Share,
    unwanted_packets: u64,
}

/// What one datagram carried of both.
#[derive(Debug, Default)]
pub struct Load {
    blocks: Vec<Carried>,
    packets: Vec<Piece>,
}

impl Services {
    /// Empty services; without `packets` the packet service is off.
    pub fn new(blocks: HopConfig, packets: Option<PacketsConfig>) -> Self {
        Self {
            blocks: Hop::new(blocks),
            packets: packets.map(Packets::new),
            share: Share::default(),
            unwanted_packets: 0,
        }
    }

    /// Packets that arrived although the packet service is off.
    pub fn unwanted_packets(&self) -> u64 {
        self.unwanted_packets
    }

    fn packets_wait(&self) -> bool {
        self.packets.as_ref().is_some_and(|packets| packets.wants().is_some())
    }

    /// Appends small packets of sparse flows, or whatever packets come next. Returns whether media were written.
    fn fill_packets(&mut self, now: Instant, small: bool, before: usize, fill: &mut Fill<'_, '_, Load>) -> bool {
        let Some(packets) = &mut self.packets else { return false };
        let start = fill.w.len();
        let mut out = Datagram {
            full: fill.full,
            fresh: start == before,
            w: fill.w,
            pieces: &mut fill.load.packets,
            carries: fill.carries,
            compresses: fill.compresses,
            wrote_media: false,
            budget: fill.budget,
        };
        if small {
            packets.fill_small(now, &mut out);
        } else {
            packets.fill(now, &mut out);
        }
        let (end, media) = (out.w.len(), out.wrote_media);
        self.share.charge(Turn::Packets, end - start);
        media
    }

    fn fill_blocks(&mut self, now: Instant, class: Class, fill: &mut Fill<'_, '_, Load>) {
        let open = if fill.may_be_open { Some(&mut fill.open) } else { None };
        let mut out = hop::Datagram { w: fill.w, carried: &mut fill.load.blocks, open, budget: fill.budget };
        self.blocks.fill(now, class, &mut out);
    }
}

impl Service for Services {
    type Load = Load;

    fn wants(&self, now: Instant) -> Option<Class> {
        let packets = self.packets.as_ref().and_then(Packets::wants);
        match (self.blocks.wants(now), packets) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn bulk(&self) -> Bulk {
        if self.packets.as_ref().is_some_and(Packets::bulk_waits) { Bulk::Ready } else { self.blocks.bulk() }
    }

    fn micro_waits(&self, _now: Instant) -> bool {
        let small = self.packets.as_ref().and_then(Packets::wants) == Some(Class::Micro);
        small || self.blocks.micro_waits()
    }

    /// Control and micro frames, then small packets of sparse flows, then blocks and packets as their turns come.
    fn fill(&mut self, now: Instant, fill: &mut Fill<'_, '_, Load>) -> bool {
        let (class, before) = (fill.class, fill.w.len());
        if !self.packets_wait() {
            self.fill_blocks(now, class, fill);
            return false;
        }
        self.fill_blocks(now, class.min(Class::Micro), fill);
        let blocks_wait = self.blocks.wants(now).is_some();
        let mut media = false;
        if class >= Class::Micro && (!blocks_wait || self.share.small_may_pass()) {
            media |= self.fill_packets(now, true, before, fill);
        }
        if class == Class::Bulk {
            let first = self.share.turn(blocks_wait, self.packets_wait());
            let second = if first == Turn::Blocks { Turn::Packets } else { Turn::Blocks };
            for turn in [first, second] {
                let start = fill.w.len();
                if turn == Turn::Packets {
                    media |= self.fill_packets(now, false, before, fill);
                } else if fill.carries != Carries::Media {
                    self.fill_blocks(now, class, fill);
                    self.share.charge(turn, fill.w.len() - start);
                }
                if fill.open > 0 {
                    // The datagram ends with what is open.
                    return media;
                }
            }
            if fill.w.len() == before && fill.carries != Carries::All {
                // The expected next packet was dropped in its queue: take whatever there is.
                fill.carries = Carries::All;
                return self.fill(now, fill);
            }
        }
        media
    }

    fn carries(&mut self, now: Instant, class: Class, budget: &mut RepairBudget) -> Carries {
        let blocks_wait = self.blocks.wants(now).is_some();
        let Some(packets) = self.packets.as_mut().filter(|packets| packets.wants().is_some()) else {
            return Carries::All;
        };
        let small = !blocks_wait || self.share.small_may_pass();
        let large = class == Class::Bulk && self.share.turn(blocks_wait, true) == Turn::Packets;
        match packets.next_is_media(now, small, large, budget) {
            true => Carries::Media,
            false => Carries::Others,
        }
    }

    fn next_bulk(&mut self, now: Instant) -> Option<NextBulk> {
        if self.packets_wait() {
            // A packet that just fits a datagram is not split to make room for symbols.
            return None;
        }
        Some(match self.blocks.ends_soon(now) {
            true => NextBulk::End,
            false if self.blocks.repeats_next() => NextBulk::Repeat,
            false => NextBulk::First,
        })
    }

    fn lets_acks_wait(&self) -> bool {
        // Packet retransmissions are timed by acks.
        !self.packets_wait()
    }

    fn delivered(&mut self, now: Instant, load: Load) {
        load.blocks.into_iter().for_each(|item| self.blocks.delivered(now, item));
        if let Some(packets) = &mut self.packets {
            load.packets.into_iter().for_each(|piece| packets.delivered(piece));
        }
    }

    fn lost(&mut self, now: Instant, load: Load) {
        load.blocks.into_iter().for_each(|item| self.blocks.lost(now, item));
        if let Some(packets) = &mut self.packets {
            load.packets.into_iter().for_each(|piece| packets.lost(now, piece));
        }
    }

    fn doubt_oldest(&mut self) {
        self.blocks.doubt_oldest();
    }

    fn hasten(&mut self) -> bool {
        self.blocks.hasten_receipts()
    }

    fn set_paths(&mut self, paths: &[PathView]) {
        let Some(path) = paths::together(paths) else { return };
        self.blocks.set_path(path);
        if let Some(packets) = &mut self.packets {
            packets.set_path(Times::from(&path));
        }
    }

    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        match (frame, &mut self.packets) {
            (Frame::Packet(packet), Some(packets)) => packets.handle_frame(now, packet),
            (Frame::Compressed(packet), Some(packets)) => packets.handle_compressed(now, packet),
            (Frame::Packet(_) | Frame::Compressed(_), None) => {
                self.unwanted_packets += 1;
                return false;
            }
            (flow_frame, _) => self.blocks.handle_frame(now, flow_frame),
        }
        true
    }

    fn note_open(&mut self, frame: &Frame<'_>, digest: Digest) {
        self.blocks.note_open(frame, digest);
    }

    fn heard(&mut self) {
        if let Some(packets) = &mut self.packets {
            packets.heard();
        }
    }

    fn asked(&mut self, now: Instant) {
        self.blocks.asked(now);
    }

    fn restart(&mut self, now: Instant) {
        self.blocks.peer_restarted(now);
        if let Some(packets) = &mut self.packets {
            packets.restart();
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.blocks.handle_timeout(now);
        if let Some(packets) = &mut self.packets {
            packets.handle_timeout(now);
        }
    }

    fn poll_timeout(&self, can_send: bool) -> Option<Wakeup> {
        let packets = self.packets.as_ref().and_then(|packets| packets.poll_timeout(can_send));
        Wakeup::earliest(self.blocks.poll_timeout(), packets)
    }
}
