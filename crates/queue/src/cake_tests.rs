//! CAKE's tins and hosts against a plain restatement of their descriptions: "Piece of CAKE" (LANMAN 2018, section III) and
//! tc-cake(8). What is counted there as flows come and go is counted here anew at every step.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use wavelane_base::Rate;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    serial: u64,
    octets: usize,
    flow: u64,
    hosts: (u64, u64),
    dscp: u8,
}

impl Queued for Item {
    fn octets(&self) -> usize {
        self.octets
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn heeds_drops(&self) -> bool {
        true
    }
    fn mark(&mut self) -> bool {
        false
    }
    fn hosts(&self) -> (u64, u64) {
        self.hosts
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
}

const ROOMY: Limits = Limits { items: 1 << 20, octets: 1 << 40 };
/// Never a drop: what is compared is the order.
const PATIENT: Terms =
    Terms { target: Span::from_secs(900), interval: Span::from_secs(1_000), age: UNLIMITED, pause: Span::ZERO };
const QUANTUM: i64 = 1_514;

#[derive(Default)]
struct RefFlow {
    waits: VecDeque<Item>,
    deficit: i64,
    rest: i64,
    bulk: Option<(u64, u64)>,
}

#[derive(Default)]
struct RefTin {
    flows: std::collections::BTreeMap<u64, RefFlow>,
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    share: u64,
    /// In parts of a nanosecond: so many in one as the rate has bits per second.
    free: u128,
}

impl RefTin {
    /// A turn divided by the busy flows of the source or of the destination, whichever has more.
    fn quantum(&self, flow: u64, hosts: (u64, u64)) -> (i64, i64) {
        let busy = |same: &dyn Fn((u64, u64)) -> bool| {
            self.flows.values().filter_map(|f| f.bulk).filter(|of| same(*of)).count() as i64
        };
        let load = busy(&|of| of.0 == hosts.0).max(busy(&|of| of.1 == hosts.1)).max(1);
        let whole = QUANTUM + self.flows[&flow].rest;
        (whole / load, whole % load)
    }
    fn push(&mut self, item: Item) {
        self.flows.entry(item.flow).or_default().waits.push_back(item);
        if !self.new.contains(&item.flow) && !self.old.contains(&item.flow) {
            let (deficit, rest) = self.quantum(item.flow, item.hosts);
            let flow = self.flows.get_mut(&item.flow).unwrap();
            flow.deficit = deficit;
            flow.rest = rest;
            self.new.push_back(item.flow);
        }
    }
    fn pop(&mut self) -> Option<Item> {
        loop {
            let fresh = !self.new.is_empty();
            let id = *if fresh { self.new.front() } else { self.old.front() }?;
            if self.flows[&id].deficit <= 0 {
                let flow = self.flows.get_mut(&id).unwrap();
                let of = flow.bulk.or(flow.waits.front().map(|i| i.hosts));
                flow.bulk = of;
                let (share, rest) = self.quantum(id, of.unwrap_or((0, 0)));
                let flow = self.flows.get_mut(&id).unwrap();
                flow.deficit += share;
                flow.rest = rest;
                if fresh {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(id);
                continue;
            }
            let flow = self.flows.get_mut(&id).unwrap();
            if let Some(item) = flow.waits.pop_front() {
                flow.deficit -= item.octets as i64;
                return Some(item);
            }
            flow.bulk = None;
            if fresh {
                self.new.pop_front()
            } else {
                self.old.pop_front()
            };
            if fresh && !self.old.is_empty() {
                self.old.push_back(id);
            }
        }
    }
    fn waits(&self) -> bool {
        self.flows.values().any(|f| !f.waits.is_empty())
    }
}

/// tc-cake(8): "diffserv4": bulk 6.25 %, best effort 100 %, video 50 %, voice 25 %.
struct RefCake {
    tins: [RefTin; 4],
}

impl RefCake {
    fn new() -> Self {
        let tin = |share| RefTin { share, ..RefTin::default() };
        Self { tins: [tin(1), tin(16), tin(2), tin(4)] }
    }
    fn push(&mut self, now: Instant, bps: u64, item: Item) {
        let tin = &mut self.tins[match item.dscp {
            0 => 0,
            8 => 1,
            34 => 2,
            46 => 3,
            other => panic!("{other}"),
        }];
        if !tin.waits() {
            tin.free = tin.free.max(u128::from(now.as_nanos()) * u128::from(bps));
        }
        tin.push(item);
    }
    fn pop(&mut self, now: Instant, bps: u64) -> Option<Item> {
        let now = u128::from(now.as_nanos()) * u128::from(bps);
        let waiting: Vec<usize> = (0..4).filter(|i| self.tins[*i].waits()).collect();
        // A tin's clock is looked at in whole nanoseconds.
        let ns = |i: &usize| self.tins[*i].free / u128::from(bps);
        let keeps = waiting.iter().rev().find(|i| ns(i) <= now / u128::from(bps));
        let next = keeps.or_else(|| waiting.iter().rev().min_by_key(|i| ns(i))).copied()?;
        let item = self.tins[next].pop()?;
        let lasts = item.octets as u128 * 8_000_000_000 * u128::from(self.tins[next].share);
        let free = &mut self.tins[next].free;
        *free = if *free / u128::from(bps) < now / u128::from(bps) { *free + lasts } else { (*free).max(now + lasts) };
        Some(item)
    }
}

fn item(serial: u64, which: u64, octets: usize) -> Item {
    let dscp = [0, 0, 8, 34, 46][(which % 5) as usize];
    let (from, to) = (1 + which % 3, 100 + which / 3 % 2);
    Item { serial, octets, flow: which, hosts: (from, to), dscp }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A link of 8 Mbit/s: the same order, whatever comes when.
    #[test]
    fn cake_is_its_description(arrivals in proptest::collection::vec((0u64..3_000, 0u64..30, 60usize..1_500), 1..600)) {
        const BPS: u64 = 8_000_000;
        let mut ours = Queue::cake(Tins::Diffserv4, ROOMY);
        ours.set_terms(PATIENT);
        ours.set_rate(Some(Rate::from_bps(BPS)));
        let mut reference = RefCake::new();
        let (mut at, mut free) = (Instant::ZERO, Instant::ZERO);
        let serve = |ours: &mut Queue<Item>, reference: &mut RefCake, until: Instant, free: &mut Instant| {
            while *free <= until {
                let (one, other) = (ours.pop(*free).map(|p| p.item), reference.pop(*free, BPS));
                if one != other || one.is_none() {
                    return (one, other);
                }
                *free += Span::from_micros(one.map_or(0, |i| i.octets as u64));
            }
            (None, None)
        };
        for (serial, (gap, which, octets)) in arrivals.iter().copied().enumerate() {
            at += Span::from_micros(gap);
            let (one, other) = serve(&mut ours, &mut reference, at, &mut free);
            prop_assert_eq!(one, other);
            free = free.max(at);
            let item = item(serial as u64, which, octets);
            ours.push(at, item);
            reference.push(at, BPS, item);
        }
        let (one, other) = serve(&mut ours, &mut reference, at + Span::from_secs(600), &mut free);
        prop_assert_eq!(one, other);
        prop_assert_eq!(ours.len(), 0);
    }
}

/// Serves a backlog and says how many octets each got of `serves` items, by `key`.
fn shares(mut queue: Queue<Item>, kinds: &[Item], serves: usize, key: impl Fn(&Item) -> usize) -> Vec<f64> {
    let (mut now, mut serial) = (Instant::ZERO, 0);
    let mut got = vec![0.0; kinds.len()];
    let fill = |queue: &mut Queue<Item>, now, kind: &Item, serial: &mut u64| {
        queue.push(now, Item { serial: *serial, ..*kind });
        *serial += 1;
    };
    for kind in kinds {
        (0..4).for_each(|_| fill(&mut queue, now, kind, &mut serial));
    }
    for _ in 0..serves {
        let popped = queue.pop(now).unwrap().item;
        got[key(&popped)] += popped.octets as f64;
        now += Span::from_micros(popped.octets as u64);
        let kind = kinds.iter().find(|kind| kind.flow == popped.flow).unwrap();
        fill(&mut queue, now, kind, &mut serial);
    }
    let all: f64 = got.iter().sum();
    got.iter().map(|octets| octets / all).collect()
}

fn cake(tins: Tins, bps: Option<u64>) -> Queue<Item> {
    let mut queue = Queue::cake(tins, ROOMY);
    queue.set_terms(PATIENT);
    queue.set_rate(bps.map(Rate::from_bps));
    queue
}

#[test]
fn hosts_share_whatever_flows_they_open() {
    // One flow of host 1, nine of host 2, each to a place of its own.
    let kind = |i: u64| Item { serial: 0, octets: 1_000, flow: i * 8, hosts: (1 + u64::from(i > 0), 50 + i), dscp: 0 };
    let kinds: Vec<Item> = (0..10).map(kind).collect();
    let got = shares(cake(Tins::BestEffort, None), &kinds, 4_000, |i| usize::from(i.hosts.0 == 2));
    assert!((got[0] - 0.5).abs() < 0.02, "{got:?}");
    // Without hosts each flow gets as much.
    let mut fq = Queue::new(Discipline::FqCoDel, ROOMY);
    fq.set_terms(PATIENT);
    let got = shares(fq, &kinds, 4_000, |i| usize::from(i.hosts.0 == 2));
    assert!((got[0] - 0.1).abs() < 0.01, "{got:?}");
}

#[test]
fn downloads_are_shared_by_their_destinations() {
    // Nine servers send to host 2, one to host 1.
    let kind = |i: u64| Item { serial: 0, octets: 1_000, flow: i * 8, hosts: (50 + i, 1 + u64::from(i > 0)), dscp: 0 };
    let kinds: Vec<Item> = (0..10).map(kind).collect();
    let got = shares(cake(Tins::BestEffort, None), &kinds, 4_000, |i| usize::from(i.hosts.1 == 2));
    assert!((got[0] - 0.5).abs() < 0.02, "{got:?}");
}

/// Where all have more to send than their share: bulk a sixteenth, video a half, voice a quarter, best effort the rest.
#[test]
fn tins_beyond_their_share_get_their_share() {
    let kind = |(i, dscp): (u64, u8)| Item { serial: 0, octets: 1_000, flow: i * 8, hosts: (1, 2), dscp };
    let kinds: Vec<Item> = (0..).zip([0, 8, 34, 46]).map(kind).collect();
    let got = shares(cake(Tins::Diffserv4, Some(8_000_000)), &kinds, 8_000, |i| (i.flow / 8) as usize);
    for (got, want) in got.iter().zip([3.0 / 16.0, 1.0 / 16.0, 0.5, 0.25]) {
        assert!((got - want).abs() < 0.01, "{got} is not {want}");
    }
    // Without a rate by weights of 1, 1/16, 1/2, 1/4.
    let got = shares(cake(Tins::Diffserv4, None), &kinds, 8_000, |i| (i.flow / 8) as usize);
    for (got, want) in got.iter().zip([1.0, 1.0 / 16.0, 0.5, 0.25]) {
        assert!((got - want / 1.8125).abs() < 0.01, "{got} is not {want} of 1.8125");
    }
}

#[test]
fn a_tin_alone_has_the_whole_link() {
    let kinds = [Item { serial: 0, octets: 1_000, flow: 1, hosts: (1, 2), dscp: 8 }];
    assert_eq!(shares(cake(Tins::Diffserv4, Some(8_000_000)), &kinds, 100, |_| 0), [1.0]);
}

#[test]
fn voice_below_its_share_passes_a_standing_queue() {
    let mut queue = cake(Tins::Diffserv3, Some(8_000_000));
    (0..100).for_each(|n| queue.push(Instant::ZERO, Item { dscp: 0, ..item(n, 0, 1_000) }));
    let mut now = Instant::ZERO;
    for n in 0..20 {
        queue.push(now, Item { dscp: 46, flow: 9, ..item(1_000 + n, 9, 200) });
        assert_eq!(queue.pop(now).unwrap().item.dscp, 46, "{n}");
        // 200 octets in 10 ms are 2 % of the rate.
        now += Span::from_millis(10);
    }
}

/// tc-cake(8) by the names of RFC 2474, 2597, 3246, 5865, 8622.
#[test]
fn code_points_map_to_tins_as_in_the_manual() {
    let sorted = |tins: Tins, tin: usize| (0..64).filter(|dscp| tins.of(*dscp) == tin).collect::<Vec<u8>>();
    let cs = |n: u8| n * 8;
    let af = |class: u8, drop: u8| class * 8 + drop * 2;
    assert_eq!(sorted(Tins::Diffserv3, 1), [1, cs(1)]);
    assert_eq!(sorted(Tins::Diffserv3, 2), [4, 44, 46, cs(6), cs(7)]);
    assert_eq!(sorted(Tins::Diffserv4, 1), [1, cs(1)]);
    let mut video = vec![4, cs(2), cs(3)];
    video.extend((2..=4).flat_map(|class| (1..=3).map(move |drop| af(class, drop))));
    video.sort_unstable();
    assert_eq!(sorted(Tins::Diffserv4, 2), video);
    assert_eq!(sorted(Tins::Diffserv4, 3), [cs(4), cs(5), 44, 46, cs(6), cs(7)]);
    assert_eq!(sorted(Tins::BestEffort, 0).len(), 64);
}

/// 96 flows thrown at 1,024 queues meet in pairs nearly for certain; with seven others to choose from they do not.
#[test]
fn flows_that_would_meet_move_apart() {
    let apart = |mut queue: Queue<Item>| {
        // Eight flows whose own queue is the same.
        for flow in 0..8u64 {
            for n in 0..20 {
                let hosts = (0, 0);
                queue.push(Instant::ZERO, Item { serial: n, octets: 1_514, flow: 5 + flow * 1_024, hosts, dscp: 0 });
            }
        }
        let first: std::collections::BTreeSet<u64> =
            (0..8).map(|_| queue.pop(Instant::ZERO).unwrap().item.flow).collect();
        first.len()
    };
    let mut fq = Queue::new(Discipline::FqCoDel, ROOMY);
    fq.set_terms(PATIENT);
    assert_eq!((apart(cake(Tins::BestEffort, None)), apart(fq)), (8, 1));
}

#[test]
fn the_fattest_flow_of_all_tins_loses_when_it_is_full() {
    let mut queue = Queue::cake(Tins::Diffserv4, Limits { items: 50, octets: 1 << 30 });
    queue.push(Instant::ZERO, Item { dscp: 46, ..item(0, 4, 100) });
    let mut lost = Vec::new();
    for n in 1..=60 {
        queue.push_noting(Instant::ZERO, Item { dscp: 8, ..item(n, 2, 1_000) }, &mut |item, _| lost.push(item.dscp));
    }
    assert!(queue.len() <= 50 && !lost.is_empty() && lost.iter().all(|dscp| *dscp == 8), "{lost:?}");
    let counters = queue.counters();
    assert_eq!(counters.pushed, 61);
    assert_eq!(counters.dropped_full as usize + queue.len(), 61);
    assert_eq!(queue.take_all().len() as u64 + counters.dropped_full, 61);
    assert_eq!((queue.len(), queue.octets()), (0, 0));
}

/// Voice alone on the link for a minute, then best effort beside it: voice has its quarter at once.
#[test]
fn a_tin_alone_builds_up_no_debt() {
    const OCTETS: usize = 1_000;
    let mut queue = Queue::cake(Tins::Diffserv4, ROOMY);
    queue.set_terms(PATIENT);
    queue.set_rate(Some(Rate::from_bps(8_000_000)));
    let of = |serial: u64, dscp: u8| Item { serial, octets: OCTETS, flow: u64::from(dscp), hosts: (1, 2), dscp };
    let mut now = Instant::ZERO;
    for serial in 0..60_000 {
        queue.push(now, of(serial, 46));
        queue.push(now, of(serial, 46));
        assert!(queue.pop(now).is_some());
        if serial % 2 == 1 {
            queue.pop(now);
        }
        now += Span::from_millis(1);
    }
    let mut voice = 0;
    for serial in 0..1_000 {
        queue.push(now, of(serial, 46));
        queue.push(now, of(serial, 0));
        voice += usize::from(queue.pop(now).is_some_and(|popped| popped.item.dscp == 46));
        now += Span::from_millis(1);
    }
    assert!((240..=260).contains(&voice), "{voice} of 1000");
}
