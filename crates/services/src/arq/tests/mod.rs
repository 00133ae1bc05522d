//! The two ends joined by a small lossy pipe in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

mod headers;
mod hostile;
mod persistence;

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Chance, Instant, Rate, Seed, Span, Wakeup};
use wavelane_transport::Carries;
use wavelane_transport::RepairBudget;
use wavelane_wire::Writer;
use wavelane_wire::frame::{Frame, Frames, Order, PacketFrame};

const ONE_WAY: Span = Span::from_millis(20);
const ROOM: usize = 1_150;
const LIMITS: ReceiverLimits = ReceiverLimits { octets: 1 << 20, packet: 9_000 };
const STRICT: Treatment = Treatment { repair: Repair::Arq, order: Ordering::Strict, only_newest: false };

/// What happens to datagrams in the pipe.
struct World {
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    budget: RepairBudget,
    /// (arrival, datagram).
    pipe: VecDeque<(Instant, Vec<u8>)>,
    /// (when the ack arrives, content, whether it arrived).
    fates: VecDeque<(Instant, Vec<Piece>, bool)>,
    chance: Chance,
    /// Loss in percent.
    loss: u64,
    /// Percentage of datagrams delayed by half as much again, and of duplicated ones.
    unruly: u64,
    /// Octets of a datagram.
    room: usize,
    got: Vec<(u64, u64, Vec<u8>)>,
    /// Headers are compressed; then packets are those of TCP, and stand here.
    compresses: bool,
    raw: Vec<Vec<u8>>,
}

/// A packet whose bytes encode its flow, its serial and its length.
fn packet(flow: u64, serial: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.max(16)).map(|i| (i as u64 * 31 + serial) as u8).collect();
    bytes[..8].copy_from_slice(&flow.to_be_bytes());
    bytes[8..16].copy_from_slice(&serial.to_be_bytes());
    bytes
}

impl World {
    fn new(seed: u64, loss: u64, unruly: u64) -> Self {
        let mut sender = Sender::new(1 << 20, Tries::Evidence);
        sender.set_path(Times {
            rtt: Some(ONE_WAY.times(2)),
            rtt_var: Span::from_millis(1),
            ack_delay: Span::from_millis(5),
            packet_time: Span::from_micros(600),
            loss: loss as f64 / 100.0,
            burst: Span::ZERO,
            symbols: Span::ZERO,
        });
        let mut budget = RepairBudget::default();
        budget.set_path(Rate::from_bps(20_000_000), Span::from_millis(100), loss as f64 / 100.0);
        Self {
            now: Instant::from_secs(1),
            sender,
            budget,
            receiver: Receiver::new(LIMITS),
            pipe: VecDeque::new(),
            fates: VecDeque::new(),
            chance: Seed(seed).chance("arq"),
            loss,
            unruly,
            room: ROOM,
            got: Vec::new(),
            compresses: false,
            raw: Vec::new(),
        }
    }

    fn send(&mut self, flow: u64, serial: u64, len: usize, treatment: Treatment) {
        self.sender.start(self.now, packet(flow, serial, len), flow, treatment);
        self.transmit();
    }

    /// Writes everything that waits, one or more frames per datagram.
    fn transmit(&mut self) {
        while self.sender.has_backlog() {
            let (mut buf, mut pieces) = ([0; ROOM], Vec::new());
            let mut w = Writer::new(&mut buf[..self.room]);
            let mut out = Datagram {
                full: self.room,
                fresh: true,
                w: &mut w,
                pieces: &mut pieces,
                carries: Carries::All,
                compresses: self.compresses,
                wrote_media: false,
                budget: &mut self.budget,
            };
            while self.sender.write(self.now, &mut out) == Wrote::Frame {}
            let len = w.len();
            if len == 0 {
                continue;
            }
            let lost = self.chance.below(100) < self.loss;
            let odd = self.chance.below(100) < self.unruly;
            let delay = if odd { ONE_WAY.scale(3, 2) } else { ONE_WAY };
            if !lost {
                self.arrive(self.now + delay, buf[..len].to_vec());
                if odd {
                    self.arrive(self.now + ONE_WAY, buf[..len].to_vec());
                }
            }
            let told = self.now + delay + ONE_WAY + Span::from_millis(5);
            let place = self.fates.partition_point(|fate| fate.0 <= told);
            self.fates.insert(place, (told, pieces, !lost));
        }
    }

    fn arrive(&mut self, at: Instant, datagram: Vec<u8>) {
        let place = self.pipe.partition_point(|other| other.0 <= at);
        self.pipe.insert(place, (at, datagram));
    }

    fn next(&self) -> Option<Instant> {
        let ends = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        let deadlines = ends.into_iter().flatten().map(|wakeup: Wakeup| wakeup.at);
        let events = self.pipe.front().map(|p| p.0).into_iter().chain(self.fates.front().map(|f| f.0));
        deadlines.chain(events).min()
    }

    fn run_until(&mut self, end: Instant) {
        while let Some(next) = self.next().filter(|next| *next <= end) {
            assert!(next >= self.now, "a deadline of the past");
            self.now = next;
            while let Some((_, bytes)) = self.pipe.pop_front_if(|p| p.0 <= next) {
                for frame in Frames::new(&bytes) {
                    match frame {
                        Ok(Frame::Packet(frame)) => self.receiver.handle(self.now, &frame),
                        Ok(Frame::Compressed(frame)) => self.receiver.handle_compressed(self.now, &frame),
                        _ => {}
                    }
                }
            }
            while let Some((_, pieces, arrived)) = self.fates.pop_front_if(|f| f.0 <= next) {
                for piece in pieces {
                    if arrived { self.sender.delivered(piece) } else { self.sender.lost(self.now, piece) }
                }
            }
            self.sender.handle_timeout(self.now);
            self.receiver.handle_timeout(self.now);
            self.transmit();
            self.collect();
            let deadlines = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
            assert!(deadlines.into_iter().flatten().all(|wakeup| wakeup.at > self.now), "law 3: a stale deadline");
        }
        self.now = end;
    }

    fn collect(&mut self) {
        while let Some(bytes) = self.receiver.poll() {
            if self.compresses {
                self.raw.push(bytes);
                continue;
            }
            let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
            let (flow, serial) = (number(0), number(8));
            assert!(bytes == packet(flow, serial, bytes.len()), "packet {serial} of flow {flow} is damaged");
            self.got.push((flow, serial, bytes));
        }
    }

    fn serials(&self, flow: u64) -> Vec<u64> {
        self.got.iter().filter(|got| got.0 == flow).map(|got| got.1).collect()
    }
}

#[test]
fn without_loss_everything_arrives_once_in_order() {
    let mut world = World::new(1, 0, 0);
    for serial in 0..1_000 {
        world.send(serial % 3, serial, 40 + serial as usize % 1_400, STRICT);
        world.run_until(world.now + Span::from_micros(700));
    }
    world.run_until(world.now + Span::from_secs(5));
    assert_eq!(world.got.len(), 1_000);
    let counters = world.sender.counters();
    assert_eq!((counters.repeated, counters.unrepaired, world.sender.octets(), world.receiver.octets()), (0, 0, 0, 0));
    assert_eq!(world.receiver.counters().held, 0);
}

/// A carrier of 256 octets leaves some 210 to a datagram.
#[test]
fn packets_are_cut_for_datagrams_shorter_than_a_usual_piece() {
    let mut world = World::new(1, 10, 0);
    world.room = 210;
    for serial in 0..20 {
        world.send(1, serial, 1_000, STRICT);
    }
    world.run_until(Instant::from_secs(3));
    assert_eq!(world.serials(1), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_strict_flow_keeps_its_order_through_losses() {
    let mut world = World::new(2, 5, 0);
    for serial in 0..5_000 {
        world.send(7, serial, 1_000, STRICT);
        world.run_until(world.now + Span::from_millis(1));
    }
    world.run_until(world.now + Span::from_secs(5));
    let (serials, expired) = (world.serials(7), world.receiver.counters().hold_expired);
    let disorder = serials.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    // With two transmissions of each retransmission, one packet in 8,000 outlives the hold.
    assert!(serials.len() == 5_000 && disorder <= expired && disorder <= 5, "{} {disorder} {expired}", serials.len());
    assert!(world.receiver.counters().held > 1_000);
}

#[test]
fn a_free_flow_is_never_held_and_a_thin_one_neither() {
    let free = Treatment { order: Ordering::Free, ..STRICT };
    let dense = Treatment { order: Ordering::Dense, ..STRICT };
    for (treatment, gap_ms, len) in [(free, 1, 1_000), (dense, 10, 1_000), (dense, 1, 200)] {
        let mut world = World::new(3, 5, 0);
        for serial in 0..500 {
            world.send(7, serial, len, treatment);
            world.run_until(world.now + Span::from_millis(gap_ms));
        }
        world.run_until(world.now + Span::from_secs(5));
        assert_eq!((world.receiver.counters().held, world.got.len()), (0, 500), "{gap_ms} ms, {len} B");
    }
}

#[test]
fn only_lost_pieces_of_a_long_packet_are_retransmitted() {
    let mut world = World::new(4, 10, 0);
    for serial in 0..200 {
        world.send(1, serial, 9_000, STRICT);
        world.run_until(world.now + Span::from_millis(10));
    }
    world.run_until(world.now + Span::from_secs(5));
    assert_eq!(world.got.len(), 200);
    let counters = world.sender.counters();
    // A tenth of the bytes is lost; at this loss rate each retransmission is sent three times, and may be lost in turn.
    assert!(counters.repeat_octets < counters.first_octets * 4 / 10, "{counters:?}");
}

#[test]
fn the_last_packet_is_repeated_without_any_later_ack() {
    let mut world = World::new(5, 100, 0);
    world.send(1, 0, 100, STRICT);
    // No ack reports its loss: only the timer can.
    world.fates.clear();
    world.loss = 0;
    let begin = world.now;
    world.run_until(begin + Span::from_secs(1));
    assert_eq!(world.got.len(), 1);
    assert_eq!(world.sender.counters().repeated, 3, "at an assumed loss of all, the repeat goes three times");
}

#[test]
fn repeats_go_into_debt_and_their_copies_wait_for_credit() {
    let mut world = World::new(11, 100, 0);
    // The whole saved budget, and as much again: what first transmissions earn does not compensate for it.
    world.budget.charge(1 << 20);
    for serial in 0..20 {
        world.send(1, serial, 1_000, STRICT);
    }
    world.loss = 0;
    world.run_until(world.now + Span::from_secs(1));
    let counters = world.sender.counters();
    assert_eq!((world.serials(1).len(), counters.repeated, counters.refused), (20, 20, 40), "{counters:?}");
}

#[test]
fn refused_copies_do_not_stop_retransmission() {
    let mut world = World::new(12, 100, 0);
    world.budget.charge(1 << 20);
    world.send(1, 0, 1_000, Treatment::default());
    // The first retransmission is lost as well; both copies were refused before that was known.
    world.run_until(world.now + Span::from_millis(60));
    assert_eq!(world.sender.counters().refused, 2);
    world.loss = 0;
    world.run_until(world.now + Span::from_millis(100));
    assert_eq!(world.serials(1), vec![0]);
}

#[test]
fn losses_before_the_first_rtt_are_retransmitted() {
    let mut world = World::new(8, 100, 0);
    world.sender.set_path(Times::default());
    for treatment in [STRICT, Treatment::default()] {
        world.send(1, 0, 100, treatment);
        world.fates.clear();
    }
    // The timer set then must not delay those set once it is known.
    world.sender.set_path(Times { rtt: Some(ONE_WAY.times(2)), ..Times::default() });
    world.send(2, 1, 100, Treatment::default());
    world.fates.clear();
    world.loss = 0;
    let begin = world.now;
    world.run_until(begin + Span::from_millis(200));
    assert_eq!((world.serials(1), world.serials(2)), (vec![], vec![1]));
    world.sender.set_path(Times::default());
    world.run_until(begin + Span::from_millis(1_200));
    assert_eq!(world.serials(1), vec![0, 0]);
}

#[test]
fn a_restart_delivers_held_packets() {
    let mut receiver = Receiver::new(LIMITS);
    let frame = |number, back, bytes| PacketFrame {
        number,
        order: Some(Order { back, hold_ms: 50 }),
        piece: None,
        keep: false,
        bytes,
    };
    receiver.handle(Instant::ZERO, &frame(9, 1, &[1]));
    assert_eq!((receiver.poll(), receiver.octets()), (None, 1));
    receiver.restart();
    assert_eq!((receiver.poll(), receiver.poll_timeout(), receiver.octets()), (Some(vec![1]), None, 0));
    receiver.handle(Instant::ZERO, &PacketFrame { order: None, ..frame(9, 1, &[2]) });
    assert_eq!(receiver.poll(), Some(vec![2]), "the new numbers mean new packets");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the pipe does: no duplicates, no corruption, memory bounded and freed.
    #[test]
    fn nothing_arrives_twice(
        seed in any::<u64>(),
        loss in 0u64..60,
        unruly in 0u64..60,
        packets in proptest::collection::vec((0u64..4, 16usize..4_000, 0u64..10, any::<bool>()), 1..200),
    ) {
        let mut world = World::new(seed, loss, unruly);
        let count = packets.len();
        for (serial, (flow, len, gap, strict)) in packets.into_iter().enumerate() {
            let order = if strict { Ordering::Strict } else { Ordering::Dense };
            world.send(flow, serial as u64, len, Treatment { order, ..STRICT });
            world.run_until(world.now + Span::from_millis(gap));
            prop_assert!(world.receiver.octets() <= LIMITS.octets && world.sender.octets() <= 1 << 20);
        }
        world.run_until(world.now + Span::from_secs(20));
        world.sender.heard();
        let mut serials: Vec<u64> = world.got.iter().map(|got| got.1).collect();
        serials.sort_unstable();
        let arrived = serials.len();
        serials.dedup();
        prop_assert_eq!(arrived, serials.len());
        prop_assert_eq!((world.sender.octets(), world.receiver.octets()), (0, 0));
        // Every packet that did not arrive was given up and counted.
        let unrepaired = world.sender.counters().unrepaired as usize;
        prop_assert!(arrived + unrepaired >= count, "{} + {} of {}", arrived, unrepaired, count);
    }
}
