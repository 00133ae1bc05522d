//! The packet service of one link: packets wait in an FQ-CoDel queue, leave in the lane's datagrams, are retransmitted when lost,
//! and are delivered at the far end once and, within bounds, in order per flow.
//!
//! [`Packets`] combines the queue ([`wavelane_queue`]) and ARQ ([`crate::arq`]). The gateway decides which peer a packet goes to
//! and what is answered with ICMP.

mod acks;
mod class;

#[cfg(test)]
mod tests;

pub use class::Repairs;

use crate::arq::{
    self, Datagram, Ordering, Piece, Receiver, ReceiverLimits, Repair, Sender, Times, Treatment, Tries, Wrote,
};
use acks::Ack;
use class::{classify, flow_hash};
use std::collections::BTreeMap;
use wavelane_base::{Class, Instant, Span, Wakeup};
use wavelane_queue::{AGE_MAX, Discipline, Limits, Queue, Queued, Terms};
use wavelane_transport::{Carries, RepairBudget};
use wavelane_wire::frame::{CompressedFrame, PacketFrame};
use wavelane_wire::packet::{IpPacket, mark_congestion};

/// Most packets that wait (RFC 8290, section 5.2.1).
const QUEUE_PACKETS_MAX: usize = 10_240;
/// Sparse packets up to this size may leave ahead of the pacer, as micro-blocks do.
const SMALL_MAX: usize = 300;
/// Maximum frame overhead of a small packet.
const SMALL_HEAD_MAX: usize = 2 + 4 + 1 + 8 + 16 + 4;
/// Packets that waited longer are of no use to their senders: an outage must not end with a flood of them.
const WAIT_MAX: Span = Span::from_secs(3);
/// CoDel's interval is 5/4 of the inner transports' RTT, so that one drop takes effect before the next, and at least the usual
/// one (RFC 8289, sections 4.3 and 4.4); its target is a twentieth.
const INTERVAL_MIN: Span = Span::from_millis(100);
/// Longest interval.
const INTERVAL_MAX: Span = Span::from_secs(2);
/// Where the way back is so thin that our acks come no sooner than this, transports' acknowledgements do not either, and each releases a
/// burst of that duration, which is no standing queue.
const THIN_ACKS_MIN: Span = Span::from_millis(80);
/// Service counts as paused after no packet was taken for this long, and for the time of `PAUSE_PACKETS` packets: the lane is
/// shared with blocks, which have turns of six packets.
const PAUSE_MIN: Span = Span::from_millis(50);
/// See [`PAUSE_MIN`].
const PAUSE_PACKETS: u64 = 16;

/// Configuration of the service of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketsConfig {
    /// Longest packet.
    pub packet_max: usize,
    /// Total bytes that the service may hold.
    pub pool: usize,
    /// Which queue.
    pub discipline: Discipline,
    /// How each class is repaired.
    pub repairs: Repairs,
    /// When a packet is sent again.
    pub tries: Tries,
    /// Key of the flow hash.
    pub key: [u64; 2],
}

/// An outgoing packet.
#[derive(Debug)]
struct Outbound {
    bytes: Vec<u8>,
    flow: u64,
    treatment: Treatment,
    /// What it says, if it is an acknowledgement that a newer one may replace.
    ack: Option<Ack>,
}

impl Outbound {
    fn is_media(&self) -> bool {
        self.treatment.repair == Repair::Fec
    }
    fn fits(&self, carries: Carries) -> bool {
        match carries {
            Carries::All => true,
            Carries::Media => self.is_media(),
            Carries::Others => !self.is_media(),
        }
    }
}

impl Queued for Outbound {
    fn octets(&self) -> usize {
        self.bytes.len()
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn heeds_drops(&self) -> bool {
        // TCP; for other transports this cannot be determined.
        self.treatment.order == Ordering::Strict || self.treatment.only_newest
    }
    fn mark(&mut self) -> bool {
        mark_congestion(&mut self.bytes)
    }
    fn covers(&self, older: &Self) -> bool {
        self.flow == older.flow && self.ack.zip(older.ack).is_some_and(|(new, old)| new.covers(&old))
    }
}

/// What the service did; all only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketCounters {
    /// The queue towards the neighbour.
    pub queue: wavelane_queue::Counters,
    /// Packets dropped because they had waited too long.
    pub dropped_old: u64,
    /// The sending end.
    pub sender: arq::SenderCounters,
    /// The receiving end.
    pub receiver: arq::ReceiverCounters,
}

impl PacketCounters {
    /// The counters by name, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 26] {
        let Self { queue, dropped_old, sender, receiver } = self;
        [
            ("packets_sent", sender.sent),
            ("packets_sent_octets", sender.first_octets),
            ("packets_repeated", sender.repeated),
            ("packets_repeated_octets", sender.repeat_octets),
            ("packets_copies_refused", sender.refused),
            ("packets_repaired", sender.repaired),
            ("packets_unrepaired", sender.unrepaired),
            ("packets_spurious", sender.spurious),
            ("packets_superseded", sender.superseded),
            ("packets_unkept", sender.unkept),
            ("packets_marked", queue.marked),
            ("packets_acks_filtered", queue.covered),
            ("packets_compressed", sender.compressed),
            ("packets_compressed_saved_octets", sender.compressed_octets),
            ("packets_received", receiver.received),
            ("packets_duplicate", receiver.duplicates),
            ("packets_held", receiver.held),
            ("packets_hold_expired", receiver.hold_expired),
            ("dropped_packets_queue_full", queue.dropped_full),
            ("dropped_packets_queue_delay", queue.dropped_delay),
            ("dropped_packets_queue_age", queue.dropped_age),
            ("dropped_packets_too_old", *dropped_old),
            ("dropped_packets_incomplete", receiver.dropped_incomplete),
            ("dropped_packets_pool_full", receiver.dropped_full),
            ("dropped_packets_bad_frame", receiver.dropped_malformed),
            ("dropped_packets_unknown_headers", receiver.dropped_headers),
        ]
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Packets {
    config: PacketsConfig,
    queue: Queue<Outbound>,
    sender: Sender,
    receiver: Receiver,
    dropped_old: u64,
}

impl Packets {
    /// A service with nothing in it.
    pub fn new(config: PacketsConfig) -> Self {
        // A quarter for the queue, a half for retransmission copies (a bandwidth-delay product and more), a quarter for received
        // packets.
        let limits = Limits { items: QUEUE_PACKETS_MAX, octets: config.pool / 4 };
        Self {
            queue: Queue::new(config.discipline, limits),
            sender: Sender::new(config.pool / 2, config.tries),
            receiver: Receiver::new(ReceiverLimits { octets: config.pool / 4, packet: config.packet_max }),
            dropped_old: 0,
            config,
        }
    }

    /// Takes a packet for the neighbour.
    pub fn push(&mut self, now: Instant, packet: IpPacket) {
        let view = packet.view();
        let (flow, treatment) = (flow_hash(&view, self.config.key), classify(&view, &self.config.repairs));
        let ack = Ack::read(&view).filter(|_| treatment.only_newest);
        self.queue.push(now, Outbound { bytes: packet.into_bytes(), flow, treatment, ack });
    }

    /// The next packet from the neighbour.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        self.receiver.poll()
    }

    /// The class of the most urgent packet that waits.
    pub fn wants(&self) -> Option<Class> {
        if self.small_waits() {
            return Some(Class::Micro);
        }
        (self.sender.has_backlog() || !self.queue.is_empty()).then_some(Class::Bulk)
    }

    /// Whether more waits than small packets of sparse flows, which go ahead.
    pub fn bulk_waits(&self) -> bool {
        self.sender.has_backlog() || self.queue.has_beyond_sparse(SMALL_MAX)
    }

    fn small_waits(&self) -> bool {
        self.small_head().is_some()
    }

    fn small_head(&self) -> Option<&Outbound> {
        self.queue.sparse_head().filter(|head| head.octets() <= SMALL_MAX)
    }

    /// Whether the next packet cannot wait for a retransmission, given whether `small` ones of sparse flows, or `large` ones, may
    /// leave at all.
    pub fn next_is_media(&mut self, now: Instant, small: bool, large: bool, budget: &mut RepairBudget) -> bool {
        if let Some(head) = self.small_head().filter(|_| small) {
            return head.is_media();
        }
        if !large {
            return false;
        }
        if let Some(media) = self.sender.next_is_media(now, budget) {
            return media;
        }
        let Some(next) = self.pop(now) else { return false };
        let media = next.is_media();
        self.sender.start(now, next.bytes, next.flow, next.treatment);
        media
    }

    /// Appends small packets of sparse flows while there are any and room for them.
    pub fn fill_small(&mut self, now: Instant, out: &mut Datagram<'_, '_>) {
        while out.w.room() >= SMALL_MAX + SMALL_HEAD_MAX && self.small_head().is_some_and(|head| head.fits(out.carries))
        {
            let Some(next) = self.pop(now) else { return };
            let parts = (next.bytes, next.flow, next.treatment);
            if self.sender.send_small(now, parts, out) != Wrote::Frame {
                return;
            }
        }
    }

    /// Appends retransmissions, then packets in the queue's order, while they fit.
    pub fn fill(&mut self, now: Instant, out: &mut Datagram<'_, '_>) {
        loop {
            match self.sender.write(now, out) {
                Wrote::Frame => {}
                Wrote::NoRoom => return,
                Wrote::Nothing => {
                    let Some(next) = self.pop(now) else { return };
                    self.sender.start(now, next.bytes, next.flow, next.treatment);
                }
            }
        }
    }

    /// Whether any packet for the neighbour waits, or was sent and is not known to have arrived.
    pub fn owes_any(&self) -> bool {
        !self.queue.is_empty() || self.sender.has_undelivered()
    }

    /// Gives all of those up. They are returned round-robin over flows, within a flow the oldest first: if only some packets can
    /// be answered, every sender is told of one before any is told of a second.
    pub fn withdraw(&mut self) -> Vec<Vec<u8>> {
        let kept = self.sender.give_up().into_iter();
        let queued = self.queue.take_all().into_iter().map(|item| (arq::flow_place(item.flow), item.bytes));
        let mut turns: BTreeMap<usize, usize> = BTreeMap::new();
        let with_turn = kept.chain(queued).map(|(flow, bytes)| {
            let turn = turns.entry(flow).or_default();
            *turn += 1;
            (*turn, bytes)
        });
        let mut all: Vec<_> = with_turn.collect();
        // Stable sort: the order within a turn stays.
        all.sort_by_key(|(turn, _)| *turn);
        all.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn pop(&mut self, now: Instant) -> Option<Outbound> {
        loop {
            let popped = self.queue.pop(now)?;
            if popped.sojourn <= WAIT_MAX {
                return Some(popped.item);
            }
            self.dropped_old += 1;
            self.sender.abandon(arq::flow_place(popped.item.flow), popped.item.bytes);
        }
    }

    /// A datagram that carried `piece` arrived.
    pub fn delivered(&mut self, piece: Piece) {
        self.sender.delivered(piece);
    }
    /// A datagram that carried `piece` is taken for lost.
    pub fn lost(&mut self, now: Instant, piece: Piece) {
        self.sender.lost(now, piece);
    }
    /// A frame came from the neighbour.
    pub fn handle_frame(&mut self, now: Instant, frame: &PacketFrame<'_>) {
        self.receiver.handle(now, frame);
    }

    /// The same, told by an earlier one.
    pub fn handle_compressed(&mut self, now: Instant, frame: &CompressedFrame<'_>) {
        self.receiver.handle_compressed(now, frame);
    }

    /// What is known of the path now.
    pub fn set_path(&mut self, path: Times) {
        self.sender.set_path(path);
        let interval = path.inner_rtt().unwrap_or(Span::ZERO).scale(5, 4).clamp(INTERVAL_MIN, INTERVAL_MAX);
        // A packet in service does not count as queue (RFC 8289, section 4.4, on slow links).
        let thin = Some(path.ack_delay).filter(|delay| *delay > THIN_ACKS_MIN);
        let thin = thin.map_or(Span::ZERO, |delay| delay.min(interval.scale(1, 2)));
        let target = interval.scale(1, 20).max(path.packet_time.scale(3, 2)).max(thin);
        // A transport may have to send a burst of one lane RTT before it can learn of a drop.
        let age = path.rtt.unwrap_or(Span::ZERO).scale(5, 4).clamp(AGE_MAX, INTERVAL_MAX);
        let pause = path.packet_time.times(PAUSE_PACKETS).max(PAUSE_MIN);
        self.queue.set_terms(Terms { target, interval, age, pause });
    }

    /// The neighbour was heard.
    pub fn heard(&mut self) {
        self.sender.heard();
    }

    /// The neighbour restarted. Queued packets are still valid.
    pub fn restart(&mut self) {
        self.sender.restart();
        self.receiver.restart();
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
        self.receiver.handle_timeout(now);
    }

    /// The next deadline. The sender's deadlines are left out while nothing can be sent.
    pub fn poll_timeout(&self, can_send: bool) -> Option<Wakeup> {
        let sender = if can_send { self.sender.poll_timeout() } else { None };
        Wakeup::earliest(sender, self.receiver.poll_timeout())
    }

    /// Bytes held, for whatever reason.
    pub fn octets(&self) -> usize {
        self.queue.octets() + self.sender.octets() + self.receiver.octets()
    }
    /// What it did so far.
    pub fn counters(&self) -> PacketCounters {
        PacketCounters {
            queue: self.queue.counters(),
            dropped_old: self.dropped_old,
            sender: self.sender.counters(),
            receiver: self.receiver.counters(),
        }
    }
}
