//! Scripted acks, hostile acks, the sent map against a reference model, and the machine laws.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::sent::{Leaving, SILENT_MAX, SentMap};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use wavelane_base::laws::{Script, Stimulus, check};
use wavelane_base::{Carrier, Class, Ecn, FrameMeta, Instant, Machine, PortId, Transmit, Wakeup};
use wavelane_wire::frame::{LaneAck, Ranges};

fn config(controller: Controller) -> LaneConfig {
    LaneConfig {
        lane: 0,
        controller,
        start_rate: None,
        carrier: Carrier { mtu_max: 1500, ..Carrier::UDP },
        sent_max: SENT_MIN,
    }
}

fn ack(ranges: &[(u64, u64)], arrival_us: u64) -> LaneAck {
    LaneAck { lane: 0, ranges: Ranges(ranges.to_vec()), ack_delay_us: 0, arrival_us, ecn: [0; 3] }
}

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn sender_with(packets: u64) -> LaneSender<u64> {
    let mut sender = LaneSender::new(ms(0), config(Controller::Fixed(Rate::from_bps(1_000_000_000))));
    for n in 0..packets {
        assert_eq!(sender.next_number(), n);
        sender.sent(ms(0), 1000, true, false, n);
    }
    sender
}

fn outcomes(sender: &mut LaneSender<u64>) -> (Vec<u64>, Vec<u64>) {
    let (mut delivered, mut lost) = (Vec::new(), Vec::new());
    while let Some(outcome) = sender.poll_outcome() {
        match outcome {
            Outcome::Delivered(n) => delivered.push(n),
            Outcome::Lost(n) => lost.push(n),
        }
    }
    delivered.sort_unstable();
    (delivered, lost)
}

#[test]
fn three_later_arrivals_make_a_loss_and_two_do_not() {
    let mut sender = sender_with(10);
    sender.handle_ack(ms(50), &ack(&[(1, 2)], 1));
    assert_eq!(outcomes(&mut sender), (vec![1, 2], vec![]));
    sender.handle_ack(ms(51), &ack(&[(1, 3)], 2));
    assert_eq!(outcomes(&mut sender), (vec![3], vec![0]));
    assert_eq!(sender.path(ms(51)).in_flight, 6 * 1028);
}

#[test]
fn an_ack_of_data_measures_the_round_trip() {
    let mut sender = sender_with(1);
    sender.sent(ms(2), 60, false, false, 1);
    sender.handle_ack(ms(50), &ack(&[(0, 1)], 1));
    assert_eq!(sender.path(ms(50)).rtt, Some(Span::from_millis(48)), "that of the newest, whose arrival it tells");
    // One of nothing but acks measures nothing: it may have waited for any length of time.
    let mut sender = sender_with(0);
    sender.sent(ms(2), 60, false, false, 0);
    sender.handle_ack(ms(50), &ack(&[(0, 0)], 1));
    assert_eq!(sender.path(ms(50)).rtt, None);
}

#[test]
fn a_lost_ack_wish_is_resent() {
    let mut sender = sender_with(8);
    sender.handle_ack(ms(50), &ack(&[(0, 7)], 1));
    assert!(sender.ack_wish().is_some(), "a gigabit calls for rarer acks");
    sender.wish_sent(ms(50));
    for n in 8..12 {
        sender.sent(ms(50), 1000, true, false, n);
    }
    assert_eq!(sender.ack_wish(), None);
    sender.handle_ack(ms(100), &ack(&[(9, 11)], 2));
    assert!(sender.ack_wish().is_some(), "packet 8 was lost, and the wish with it");
}

#[test]
fn a_lane_that_starts_over_takes_its_ack_wish_back() {
    let mut sender = sender_with(8);
    let usual = sender.ack_wish();
    sender.handle_ack(ms(50), &ack(&[(0, 7)], 1));
    assert!((usual, sender.ack_wish().is_some()) == (None, true), "a gigabit calls for rarer acks");
    sender.wish_sent(ms(50));
    sender.sent(ms(50), 1000, true, false, 8);
    // It is taken away and is back, as another way perhaps. A neighbour that was there all the time still sends rare acks.
    sender.restart(ms(100));
    assert_eq!(sender.ack_wish(), Some((2, Span::from_millis(5))));
    sender.wish_sent(ms(100));
    sender.restart(ms(200));
    assert_eq!(sender.ack_wish(), None, "it knows");
}

#[test]
fn a_lane_that_is_gone_wishes_nothing_unless_it_is_back() {
    let mut rx = LaneReceiver::new(0);
    let usual = rx.delay();
    rx.wish(1024, Span::from_secs(1));
    rx.received(ms(1), ms(1), 7, Ecn::NotEct, true, false);
    rx.gone(7);
    assert_eq!(rx.delay(), Span::from_secs(1), "that word is from before");
    rx.gone(8);
    assert_eq!(rx.delay(), usual);
}

#[test]
fn what_asks_for_no_ack_and_gets_none_is_forgotten() {
    let mut sent = SentMap::new(SENT_MIN);
    let mut lost = 0;
    for n in 0..100_000 {
        let eliciting = n % 33 == 0;
        let leaving = Leaving { bytes: 100, eliciting, app_limited: true, mtu_probe: false, record: Some(n) };
        lost += usize::from(sent.push(ms(n), leaving).is_some());
        assert!(sent.remembered() <= SILENT_MAX + SILENT_MAX / 32 + 1);
    }
    assert_eq!(lost, 100_000 - sent.remembered(), "each has its outcome");
    // An ack makes room.
    let all = (sent.next_number() - 100, sent.next_number() - 1);
    assert!(sent.acknowledge(ms(100_000), &ack(&[all], 1), |_, _| {}));
    sent.detect_lost(ms(100_001), Span::from_millis(1), Span::from_millis(1), |_, _| lost += 1);
    assert_eq!((lost, sent.in_flight()), (100_000 - 100, 0));
}

#[test]
fn time_makes_a_loss_too() {
    let mut sender = sender_with(3);
    sender.handle_ack(ms(80), &ack(&[(1, 2)], 1));
    let wakeup = sender.poll_timeout().unwrap();
    assert_eq!((wakeup.at, wakeup.cause), (ms(90), "lane loss detection"), "9/8 of the round trip");
    sender.handle_timeout(ms(89));
    assert_eq!(outcomes(&mut sender).1, vec![]);
    sender.handle_timeout(ms(90));
    assert_eq!(outcomes(&mut sender).1, vec![0]);
}

#[test]
fn a_late_arrival_teaches_the_lane_to_tolerate_reordering() {
    let mut sender = LaneSender::new(ms(0), config(Controller::Fixed(Rate::from_bps(1_000_000_000))));
    for n in 0..40 {
        sender.sent(ms(n), 1000, true, false, n);
    }
    sender.handle_ack(ms(100), &ack(&[(1, 5)], 1));
    assert_eq!(outcomes(&mut sender).1, vec![0]);
    // It was only late, by 5 ms of sending time: from now on that much is waited for.
    sender.handle_ack(ms(101), &ack(&[(0, 5)], 2));
    assert_eq!(outcomes(&mut sender), (vec![], vec![]), "one outcome only");
    assert_eq!(sender.path(ms(101)).spurious_losses, 1);
    sender.handle_ack(ms(102), &ack(&[(7, 11), (0, 5)], 3));
    assert_eq!(outcomes(&mut sender).1, vec![], "6 is within the window");
    sender.handle_ack(ms(103), &ack(&[(7, 13), (0, 5)], 4));
    assert_eq!(outcomes(&mut sender).1, vec![6], "7 ms is more than 1.25 x 5 ms");
}

#[test]
fn forged_and_repeated_acks_change_nothing() {
    let mut sender = sender_with(10);
    for forged in [&[(0, 10)][..], &[(50, 60)], &[(0, u64::MAX)], &[(12, 12), (0, 3)], &[(5, 2)]] {
        sender.handle_ack(ms(50), &ack(forged, 1));
        assert_eq!(outcomes(&mut sender), (vec![], vec![]), "{forged:?}");
    }
    let mut other = ack(&[(0, 3)], 1);
    other.lane = 1;
    sender.handle_ack(ms(50), &other);
    assert_eq!(outcomes(&mut sender), (vec![], vec![]), "another lane's ack");
    sender.handle_ack(ms(60), &ack(&[(0, 3)], 1));
    assert_eq!(outcomes(&mut sender).0, vec![0, 1, 2, 3]);
    let before = sender.path(ms(60));
    for _ in 0..100 {
        sender.handle_ack(ms(60), &ack(&[(0, 3)], 1));
    }
    assert_eq!(outcomes(&mut sender), (vec![], vec![]));
    assert_eq!(sender.path(ms(60)), before);
}

#[test]
fn tail_probes_back_off_to_a_quarter_second_and_end_with_an_ack() {
    let mut sender = sender_with(2);
    sender.handle_ack(ms(100), &ack(&[(0, 0)], 1));
    let mut times = Vec::new();
    while times.len() < 6 {
        let now = sender.poll_timeout().unwrap().at;
        sender.handle_timeout(now);
        while let Some(probe) = sender.poll_probe(now) {
            if probe == Probe::Tail {
                times.push(now);
                sender.sent(now, 100, true, false, 100 + times.len() as u64);
            }
        }
        outcomes(&mut sender);
    }
    let gaps: Vec<u64> = times.windows(2).map(|w| w[1].since(w[0]).as_millis()).collect();
    assert_eq!(gaps, [250; 5]);
}

/// The neighbour moved while a path-MTU probe was in flight. That it arrived by the path before says nothing of this one.
#[test]
fn a_probe_of_the_path_before_proves_nothing() {
    let mut sender = sender_with(3);
    sender.handle_ack(ms(50), &ack(&[(0, 2)], 1));
    let probe = |sender: &mut LaneSender<u64>, now| {
        while let Some(probe) = sender.poll_probe(now) {
            let Probe::Mtu { datagram } = probe else {
                sender.sent(now, 100, true, false, 0);
                continue;
            };
            let number = sender.next_number();
            sender.sent_mtu_probe(now, datagram);
            return number;
        }
        panic!("no probe")
    };
    let before = probe(&mut sender, ms(60));
    sender.address_changed(ms(70));
    let after = probe(&mut sender, ms(70));
    assert!(after > before);
    sender.handle_ack(ms(110), &ack(&[(before, before)], 2));
    assert_eq!(sender.path(ms(110)).path_mtu, 1200);
    sender.handle_ack(ms(120), &ack(&[(after, after), (before, before)], 3));
    assert_eq!(sender.path(ms(120)).path_mtu, 1500);
}

#[test]
fn acks_leave_by_count_hole_and_delay() {
    let mut rx = LaneReceiver::new(3);
    let get = |rx: &mut LaneReceiver, t: u64, n: u64| rx.received(ms(t), ms(t), n, Ecn::NotEct, true, false);
    get(&mut rx, 10, 0);
    assert!(rx.ack_due(ms(10)), "the first one teaches the round trip");
    assert_eq!(rx.take_ack(ms(10), 8).unwrap().ranges.0, [(0, 0)]);
    get(&mut rx, 20, 1);
    assert!(!rx.ack_due(ms(20)));
    assert_eq!(rx.poll_timeout().unwrap().at, ms(25));
    get(&mut rx, 21, 2);
    assert!(rx.ack_due(ms(21)));
    let taken = rx.take_ack(ms(23), 8).unwrap();
    assert_eq!((taken.lane, taken.arrival_us, taken.ack_delay_us), (3, 21_000, 2_000));
    get(&mut rx, 30, 4);
    assert!(rx.ack_due(ms(30)), "3 is missing");
    get(&mut rx, 31, 9);
    assert_eq!(rx.take_ack(ms(31), 2).unwrap().ranges.0, [(9, 9), (4, 4)], "newest first, cut to size");
    get(&mut rx, 40, 3);
    let late = rx.take_ack(ms(40), 8).unwrap();
    assert_eq!(late.ranges.0, [(9, 9), (0, 4)]);
    assert_eq!(late.arrival_us, 31_000, "of the largest");
    get(&mut rx, 41, 3);
    assert!(rx.take_ack(ms(41), 8).is_none(), "a repeat is nothing new");
    rx.received(ms(50), ms(50), 10, Ecn::Ce, false, false);
    assert!(rx.take_ack(ms(50), 8).is_none(), "acks are not acknowledged");
    rx.wish(16, Span::from_millis(40));
    for n in 11..26 {
        get(&mut rx, 60, n);
    }
    assert!(!rx.ack_due(ms(60)));
    assert_eq!(rx.poll_timeout().unwrap().at, ms(100));
    rx.received(ms(61), ms(61), 26, Ecn::NotEct, true, true);
    let asked = rx.take_ack(ms(61), 8).unwrap();
    assert_eq!((asked.ranges.0, asked.ecn), (vec![(9, 26), (0, 4)], [0, 0, 1]));
}

#[test]
fn a_receiver_remembers_a_bounded_number_of_ranges() {
    let mut rx = LaneReceiver::new(0);
    for n in 0..100_000u64 {
        rx.received(ms(n), ms(n), n * 2, Ecn::NotEct, true, false);
    }
    let taken = rx.take_ack(ms(100_000), usize::MAX).unwrap();
    assert_eq!(taken.ranges.0.len(), wavelane_wire::frame::RANGES_MAX);
    assert_eq!(taken.ranges.0[0], (199_998, 199_998));
}

#[derive(Clone, Debug)]
enum Op {
    Send {
        eliciting: bool,
    },
    /// Acknowledges these offsets below the newest number.
    Ack(Vec<u64>),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => any::<bool>().prop_map(|eliciting| Op::Send { eliciting }),
        2 => prop::collection::vec(0..40u64, 1..12).prop_map(Op::Ack),
        1 => (1..200u64).prop_map(Op::Wait),
    ]
}

fn ranges_of(mut numbers: Vec<u64>) -> Vec<(u64, u64)> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for n in numbers {
        match ranges.last_mut() {
            Some(last) if last.1 + 1 == n => last.1 = n,
            _ => ranges.push((n, n)),
        }
    }
    ranges.reverse();
    ranges
}

proptest! {
    #[test]
    fn every_packet_gets_exactly_one_outcome(ops in prop::collection::vec(op(), 1..200)) {
        let rtt = Span::from_millis(50);
        let mut map: SentMap<u64> = SentMap::new(SENT_MIN);
        let mut now = ms(1);
        // The model: number -> (eliciting, outcome).
        let mut model: BTreeMap<u64, (bool, Option<bool>)> = BTreeMap::new();
        let mut ever_acked = 0u64;
        let mut ops = ops;
        // In the end everything is acknowledged.
        ops.push(Op::Send { eliciting: true });
        ops.push(Op::Ack((0..1000).collect()));
        for op in ops {
            let mut settled = Vec::new();
            match op {
                Op::Send { eliciting } => {
                    let number = map.next_number();
                    prop_assert_eq!(number, model.len() as u64);
                    let leaving = Leaving { bytes: 100, eliciting, app_limited: false, mtu_probe: false, record: Some(number) };
                    prop_assert!(map.push(now, leaving).is_none());
                    model.insert(number, (eliciting, None));
                }
                Op::Ack(below) => {
                    let next = map.next_number();
                    let numbers: Vec<u64> = below.into_iter().filter_map(|b| next.checked_sub(b + 1)).collect();
                    if numbers.is_empty() {
                        continue;
                    }
                    ever_acked = ever_acked.max(numbers.iter().max().copied().unwrap_or(0) + 1);
                    let acked = map.acknowledge(now, &ack(&ranges_of(numbers.clone()), 1), |r, record| settled.push((r, record)));
                    prop_assert!(acked);
                    for (resolved, _) in &settled {
                        prop_assert!(!resolved.lost && numbers.contains(&resolved.number));
                    }
                    map.detect_lost(now, rtt, rtt, |r, record| settled.push((r, record)));
                }
                Op::Wait(n) => {
                    now += Span::from_millis(n);
                    map.detect_lost(now, rtt, rtt, |r, record| settled.push((r, record)));
                }
            }
            for (resolved, record) in settled {
                prop_assert_eq!(record, Some(resolved.number), "the record comes back once");
                let slot = model.get_mut(&resolved.number).unwrap();
                prop_assert!(slot.1.is_none(), "two outcomes for {}", resolved.number);
                prop_assert!(!resolved.lost || resolved.number + 1 < ever_acked, "lost without a later arrival");
                slot.1 = Some(!resolved.lost);
            }
            let open = model.values().filter(|(eliciting, outcome)| *eliciting && outcome.is_none()).count();
            prop_assert_eq!(map.in_flight(), open as u64 * 100);
        }
        prop_assert!(model.values().all(|(_, outcome)| outcome.is_some()));
    }

    #[test]
    fn the_receiver_acknowledges_exactly_the_arrivals(numbers in prop::collection::vec(0..200u64, 1..300)) {
        let mut rx = LaneReceiver::new(0);
        for n in &numbers {
            rx.received(ms(1), ms(1), *n, Ecn::NotEct, true, false);
        }
        let taken = rx.take_ack(ms(1), 256).unwrap();
        prop_assert_eq!(taken.ranges.0, ranges_of(numbers));
    }
}

/// A lane with endless data, as a machine: frames out are numbers, frames in are acks.
struct Source {
    sender: LaneSender<u64>,
    /// Sends bulk while set.
    active: bool,
}

impl Machine for Source {
    type Event = Outcome<u64>;
    fn handle_frame(&mut self, now: Instant, _port: PortId, frame: &mut [u8], _meta: FrameMeta) {
        let word = |i: usize| u64::from_be_bytes(frame[i * 8..i * 8 + 8].try_into().unwrap());
        self.sender.handle_ack(now, &ack(&[(word(0), word(1))], word(2)));
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, _port: PortId, buf: &mut [u8], _max: usize) -> Option<Transmit> {
        let number = self.sender.next_number();
        buf[..8].copy_from_slice(&number.to_be_bytes());
        let transmit = Transmit { len: 8, ..Transmit::default() };
        match self.sender.poll_probe(now) {
            Some(Probe::Mtu { datagram }) => {
                self.sender.sent_mtu_probe(now, datagram);
                return Some(transmit);
            }
            Some(Probe::Tail | Probe::AckRequest) => {
                self.sender.sent(now, 100, true, false, number);
                return Some(transmit);
            }
            None => {}
        }
        let Room::Open { datagram_max } = self.sender.room(now, Class::Bulk) else { return None };
        if !self.active {
            return None;
        }
        self.sender.sent(now, datagram_max, true, false, number);
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.sender.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Outcome<u64>> {
        self.sender.poll_outcome()
    }
}

#[test]
fn a_lane_keeps_the_machine_laws() {
    for controller in [Controller::Delay, Controller::Cubic, Controller::Fixed(Rate::from_bps(3_000_000))] {
        let mut steps = Vec::new();
        // Acks every 10 ms for a while, with a hole now and then; a silence of two seconds; then acks again.
        for i in 0..200u64 {
            let at = 100_500 + i * 10_000 + if i >= 150 { 2_000_000 } else { 0 };
            let (first, last) = (i * 4 + u64::from(i % 7 == 0), i * 4 + 3);
            let mut bytes = Vec::new();
            for word in [first, last, at + i * 13 % 900] {
                bytes.extend(word.to_be_bytes());
            }
            steps.push((Instant::from_micros(at), Stimulus::Frame(PortId(0), bytes, FrameMeta::default())));
        }
        steps.push((ms(5_000), Stimulus::Command(|s: &mut Source, _| s.active = false)));
        let script = Script { steps, ports: vec![PortId(0)], end: ms(8_000) };
        check(|| Source { sender: LaneSender::new(Instant::ZERO, config(controller)), active: true }, &script);
    }
}
