//! The disciplines against plain restatements of their documents: one clock that ticks, one list per queue, every
//! computation done when it is due. Both are fed the same arrivals, and must let out and drop the same items.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use wavelane_base::Seed;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) flow: u64,
    pub(super) serial: u64,
    pub(super) octets: usize,
    pub(super) ect: bool,
    pub(super) l4s: bool,
    pub(super) marked: bool,
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
        self.marked |= self.ect;
        self.ect
    }
    fn is_scalable(&self) -> bool {
        self.l4s
    }
}

/// What became of an item, in order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fate {
    Out { serial: u64, marked: bool },
    Dropped(u64),
}

/// A queue as a test sees it.
pub(super) trait Model {
    fn push(&mut self, now: Instant, item: Item, fates: &mut Vec<Fate>);
    fn pop(&mut self, now: Instant, fates: &mut Vec<Fate>);
}

impl Model for Queue<Item> {
    fn push(&mut self, now: Instant, item: Item, fates: &mut Vec<Fate>) {
        self.push_noting(now, item, &mut |item, _| fates.push(Fate::Dropped(item.serial)));
    }
    fn pop(&mut self, now: Instant, fates: &mut Vec<Fate>) {
        let popped = self.pop_noting(now, &mut |item, _| fates.push(Fate::Dropped(item.serial)));
        fates.extend(popped.map(|p| Fate::Out { serial: p.item.serial, marked: p.item.marked }));
    }
}

const T5: Span = Span::from_millis(5);
const T100: Span = Span::from_millis(100);

/// RFC 8289, sections 5.4 to 5.6.
#[derive(Default)]
struct RefCoDel {
    queue: VecDeque<(Instant, Item)>,
    first_above_time: Option<Instant>,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

impl RefCoDel {
    fn dodequeue(&mut self, now: Instant) -> (Option<Item>, bool) {
        let Some((at, item)) = self.queue.pop_front() else {
            self.first_above_time = None;
            return (None, false);
        };
        let bytes: usize = self.queue.iter().map(|(_, i)| i.octets).sum();
        if now.since(at) < T5 || bytes <= 1_514 {
            self.first_above_time = None;
            return (Some(item), false);
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + T100);
                (Some(item), false)
            }
            Some(first) => (Some(item), now >= first),
        }
    }
    fn next(t: Instant, count: u32) -> Instant {
        t + Span::from_nanos((100_000_000.0 / f64::from(count).sqrt()) as u64)
    }
    fn deque(&mut self, now: Instant, fates: &mut Vec<Fate>) -> Option<Item> {
        let (mut item, mut ok) = self.dodequeue(now);
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                if let Some(i) = item.as_mut().filter(|i| i.ect) {
                    i.marked = true;
                    self.drop_next = Self::next(self.drop_next, self.count);
                    return item;
                }
                fates.extend(item.map(|i| Fate::Dropped(i.serial)));
                (item, ok) = self.dodequeue(now);
                // In either case the next drop is set; the document sets it only while dropping goes on.
                self.drop_next = Self::next(self.drop_next, self.count);
                if !ok {
                    self.dropping = false;
                }
            }
        } else if ok {
            let marks = item.as_mut().filter(|i| i.ect).map(|i| i.marked = true).is_some();
            if !marks {
                fates.extend(item.map(|i| Fate::Dropped(i.serial)));
                (item, _) = self.dodequeue(now);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = if delta > 1 && now.since(self.drop_next) < T100.times(16) { delta } else { 1 };
            self.drop_next = Self::next(now, self.count);
            self.lastcount = self.count;
        }
        item
    }
}

impl Model for RefCoDel {
    fn push(&mut self, now: Instant, item: Item, _: &mut Vec<Fate>) {
        self.queue.push_back((now, item));
    }
    fn pop(&mut self, now: Instant, fates: &mut Vec<Fate>) {
        if let Some(i) = self.deque(now, fates) {
            fates.push(Fate::Out { serial: i.serial, marked: i.marked });
        }
    }
}

/// RFC 8290, section 4.2; flows by their number, which are fewer than its buckets.
pub(super) struct RefFq {
    flows: Vec<(RefCoDel, i64)>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl RefFq {
    /// Whether anything waits.
    pub(super) fn waits(&self) -> bool {
        self.flows.iter().any(|(flow, _)| !flow.queue.is_empty())
    }
}

impl Model for RefFq {
    fn push(&mut self, now: Instant, item: Item, _: &mut Vec<Fate>) {
        let i = item.flow as usize;
        self.flows[i].0.queue.push_back((now, item));
        if !self.new.contains(&i) && !self.old.contains(&i) {
            self.new.push_back(i);
            self.flows[i].1 = 1_514;
        }
    }
    fn pop(&mut self, now: Instant, fates: &mut Vec<Fate>) {
        loop {
            let fresh = !self.new.is_empty();
            let Some(i) = (if fresh { self.new.front() } else { self.old.front() }).copied() else { return };
            let leave = |this: &mut Self| if fresh { this.new.pop_front() } else { this.old.pop_front() };
            if self.flows[i].1 <= 0 {
                self.flows[i].1 += 1_514;
                leave(self);
                self.old.push_back(i);
                continue;
            }
            match self.flows[i].0.deque(now, fates) {
                Some(item) => {
                    self.flows[i].1 -= item.octets as i64;
                    return fates.push(Fate::Out { serial: item.serial, marked: item.marked });
                }
                None => {
                    leave(self);
                    if fresh && !self.old.is_empty() {
                        self.old.push_back(i);
                    }
                }
            }
        }
    }
}

/// RFC 8033, section 4 and appendix A (without switching itself off), with a timer.
struct RefPie {
    queue: VecDeque<(Instant, Item)>,
    timer: Option<Instant>,
    drop_prob: f64,
    qdelay_old: f64,
    burst_allowance: f64,
    accu_prob: f64,
    chance: Chance,
}

impl RefPie {
    fn tick_until(&mut self, now: Instant) {
        let mut at = self.timer.unwrap_or(now + Span::from_millis(15));
        while at <= now {
            let current = self.queue.front().map_or(0.0, |(t, _)| at.since(*t).as_secs_f64());
            let mut p = 0.125 * (current - 0.015) + 1.25 * (current - self.qdelay_old);
            p /= match self.drop_prob {
                d if d < 0.000001 => 2048.0,
                d if d < 0.00001 => 512.0,
                d if d < 0.0001 => 128.0,
                d if d < 0.001 => 32.0,
                d if d < 0.01 => 8.0,
                d if d < 0.1 => 2.0,
                _ => 1.0,
            };
            if self.drop_prob >= 0.1 && p > 0.02 {
                p = 0.02;
            }
            self.drop_prob += p;
            if current == 0.0 && self.qdelay_old == 0.0 {
                self.drop_prob *= 0.98;
            }
            self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
            self.burst_allowance = (self.burst_allowance - 0.015).max(0.0);
            if self.burst_allowance < 1e-9 {
                self.burst_allowance = 0.0;
            }
            if self.drop_prob == 0.0 && current < 0.0075 && self.qdelay_old < 0.0075 {
                self.burst_allowance = 0.150;
            }
            self.qdelay_old = current;
            at += Span::from_millis(15);
        }
        self.timer = Some(at);
    }
}

impl Model for RefPie {
    fn push(&mut self, now: Instant, mut item: Item, fates: &mut Vec<Fate>) {
        self.tick_until(now);
        let bytes: usize = self.queue.iter().map(|(_, i)| i.octets).sum();
        let spared = self.qdelay_old < 0.0075 && self.drop_prob < 0.2 || bytes <= 2 * 1024;
        if !spared && self.burst_allowance == 0.0 {
            self.accu_prob = if self.drop_prob == 0.0 { 0.0 } else { self.accu_prob + self.drop_prob };
            let hit = self.accu_prob >= 0.85 && (self.accu_prob >= 8.5 || self.chance.unit() < self.drop_prob);
            if hit {
                self.accu_prob = 0.0;
                if self.drop_prob >= 0.1 || !item.ect {
                    return fates.push(Fate::Dropped(item.serial));
                }
                item.marked = true;
            }
        }
        self.queue.push_back((now, item));
    }
    fn pop(&mut self, now: Instant, fates: &mut Vec<Fate>) {
        self.tick_until(now);
        fates.extend(self.queue.pop_front().map(|(_, i)| Fate::Out { serial: i.serial, marked: i.marked }));
    }
}

/// RFC 9332, appendix A.1 (figures 2 to 6) and the saturation of A.2, with a timer.
#[derive(Default)]
struct RefDual {
    lq: VecDeque<(Instant, Item)>,
    cq: VecDeque<(Instant, Item)>,
    timer: Option<Instant>,
    p: f64,
    prevq: f64,
    counts: [f64; 3],
    /// Octets owed to the classic queue, in hundredths.
    owed: i64,
}

impl RefDual {
    fn tick_until(&mut self, now: Instant) {
        let mut at = self.timer.unwrap_or(now + Span::from_millis(16));
        while at <= now {
            let curq = self.cq.front().map_or(0.0, |(t, _)| at.since(*t).as_secs_f64());
            self.p = (self.p + 0.16 * (curq - 0.015) + 3.2 * (curq - self.prevq)).clamp(0.0, 1.0);
            self.prevq = curq;
            at += Span::from_millis(16);
        }
        self.timer = Some(at);
    }
    fn recur(&mut self, q: usize, likelihood: f64) -> bool {
        self.counts[q] += likelihood;
        if self.counts[q] > 1.0 {
            self.counts[q] -= 1.0;
            return true;
        }
        false
    }
}

impl Model for RefDual {
    fn push(&mut self, now: Instant, item: Item, _: &mut Vec<Fate>) {
        self.tick_until(now);
        if item.l4s { self.lq.push_back((now, item)) } else { self.cq.push_back((now, item)) }
    }
    fn pop(&mut self, now: Instant, fates: &mut Vec<Fate>) {
        self.tick_until(now);
        loop {
            let (p_cl, p_c) = (self.p * 2.0, self.p * self.p);
            let both = !self.lq.is_empty() && !self.cq.is_empty();
            if !both {
                self.owed = -80 * 1_514;
            }
            let mut item = if !self.lq.is_empty() && (!both || self.owed <= 0) {
                let Some((at, item)) = self.lq.pop_front() else { return };
                self.owed += 10 * item.octets as i64;
                if p_cl >= 1.0 && self.recur(2, p_c) {
                    fates.push(Fate::Dropped(item.serial));
                    continue;
                }
                let behind: usize = self.lq.iter().map(|(_, i)| i.octets).sum();
                let native = now.since(at) >= Span::from_millis(1) && behind >= 1_514;
                let mut item = item;
                item.marked |= self.recur(0, if native { 1.0 } else { p_cl.min(1.0) }) && item.ect;
                item
            } else {
                let Some((_, item)) = self.cq.pop_front() else { return };
                self.owed -= 90 * item.octets as i64;
                let mut item = item;
                if self.recur(1, p_c) {
                    if !item.ect || p_cl >= 1.0 {
                        fates.push(Fate::Dropped(item.serial));
                        continue;
                    }
                    item.marked = true;
                }
                item
            };
            item.octets = 0;
            return fates.push(Fate::Out { serial: item.serial, marked: item.marked });
        }
    }
}

pub(super) const ROOMY: Limits = Limits { items: 1 << 20, octets: 1 << 40 };

/// One arrival: how long after the one before (us), flow, octets, whether it can be marked, whether it is L4S.
pub(super) type Arrival = (u64, u64, usize, bool, bool);

pub(super) fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    // Stretches of one load each, so that queues build up, stand and drain.
    let stretch = (20u64..2_500, 1usize..400, 0u64..5, any::<bool>(), any::<bool>());
    proptest::collection::vec(stretch, 1..14).prop_map(|stretches| {
        let mut all = Vec::new();
        for (mean_us, many, flow, ect, l4s) in stretches {
            all.extend((0..many as u64).map(|n| {
                let (gap, octets) = (mean_us / 2 + n * 7_919 % mean_us.max(1), 200 + (n * 331 % 1_300) as usize);
                (gap, (flow + n % 2) % 5, octets, ect || l4s, l4s)
            }));
        }
        all
    })
}

/// Serves at 8 Mbit/s: an item leaves when the one before it has been sent.
fn play(model: &mut dyn Model, arrivals: &[Arrival]) -> Vec<Fate> {
    let (mut fates, mut at, mut free) = (Vec::new(), Instant::ZERO, Instant::ZERO);
    let octets = |serial: u64| arrivals[serial as usize].2;
    let serve = |model: &mut dyn Model, until: Instant, free: &mut Instant, fates: &mut Vec<Fate>| {
        while *free <= until {
            let before = fates.len();
            model.pop(*free, fates);
            let out = fates[before..].iter().find_map(|fate| match fate {
                Fate::Out { serial, .. } => Some(*serial),
                Fate::Dropped(_) => None,
            });
            let Some(serial) = out else { return };
            *free += Span::from_micros(octets(serial) as u64);
        }
    };
    for (serial, (gap, flow, octets, ect, l4s)) in arrivals.iter().copied().enumerate() {
        at += Span::from_micros(gap);
        serve(model, at, &mut free, &mut fates);
        free = free.max(at);
        let item = Item { flow, serial: serial as u64, octets, ect, l4s, marked: false };
        model.push(at, item, &mut fates);
    }
    serve(model, at + Span::from_secs(60), &mut free, &mut fates);
    fates
}

pub(super) fn overload(ect: bool, l4s: bool) -> Vec<Arrival> {
    (0..4_000).map(|n| (800, n % 3, 1_000, ect, l4s)).collect()
}

fn codel() -> Queue<Item> {
    Queue::new(Discipline::CoDel, ROOMY)
}
fn fq_codel() -> Queue<Item> {
    let mut queue = Queue::new(Discipline::FqCoDel, ROOMY);
    queue.set_terms(Terms { age: UNLIMITED, ..Terms::default() });
    queue
}
fn pie(seed: u64) -> (Queue<Item>, RefPie) {
    let reference = RefPie {
        queue: VecDeque::new(),
        timer: None,
        drop_prob: 0.0,
        qdelay_old: 0.0,
        burst_allowance: 0.150,
        accu_prob: 0.0,
        chance: Seed(seed).chance("pie"),
    };
    (Queue::pie(PieTerms::default(), ROOMY, Seed(seed).chance("pie")), reference)
}
pub(super) fn reference_fq() -> RefFq {
    let flows = (0..5).map(|_| (RefCoDel::default(), 0)).collect();
    RefFq { flows, new: VecDeque::new(), old: VecDeque::new() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn codel_is_rfc_8289(arrivals in arrivals()) {
        prop_assert_eq!(play(&mut codel(), &arrivals), play(&mut RefCoDel::default(), &arrivals));
    }
    #[test]
    fn fq_codel_is_rfc_8290(arrivals in arrivals()) {
        prop_assert_eq!(play(&mut fq_codel(), &arrivals), play(&mut reference_fq(), &arrivals));
    }
    #[test]
    fn pie_is_rfc_8033(arrivals in arrivals(), seed in 0u64..1_000) {
        let (mut ours, mut reference) = pie(seed);
        prop_assert_eq!(play(&mut ours, &arrivals), play(&mut reference, &arrivals));
    }
    #[test]
    fn dual_pi2_is_rfc_9332(arrivals in arrivals()) {
        let mut ours = Queue::dual_pi2(DualPi2Terms::default(), ROOMY);
        prop_assert_eq!(play(&mut ours, &arrivals), play(&mut RefDual::default(), &arrivals));
    }
}

/// The comparison above tells something only if the signals are met: an overload by a quarter for three seconds.
#[test]
fn each_law_acts_under_an_overload() {
    let count = |fates: &[Fate]| {
        let marked = fates.iter().filter(|f| matches!(f, Fate::Out { marked: true, .. })).count();
        (fates.iter().filter(|f| matches!(f, Fate::Dropped(_))).count(), marked)
    };
    for (ect, l4s) in [(false, false), (true, false), (true, true)] {
        let mut queues = [codel(), fq_codel(), pie(1).0, Queue::dual_pi2(DualPi2Terms::default(), ROOMY)];
        for queue in &mut queues {
            let (dropped, marked) = count(&play(queue, &overload(ect, l4s)));
            // PIE marks up to a probability of one in ten only (RFC 8033, section 5.1).
            assert!(if ect { marked > 5 } else { dropped > 50 }, "{dropped} dropped, {marked} marked, {queue:?}");
        }
    }
}

/// A closed form: with signals of constant probability p that a sender answers as Reno does, PIE and the classic half of
/// DualPI2 settle where the delay equals the target (RFC 8033, section 4.2: the integral term vanishes only there).
#[test]
fn the_controllers_settle_at_their_target() {
    for discipline in 0..2 {
        let mut queue = match discipline {
            0 => pie(3).0,
            _ => Queue::dual_pi2(DualPi2Terms::default(), ROOMY),
        };
        // A fluid of arrivals whose rate a drop halves and a round trip of 40 ms raises by a packet, for ten flows.
        let (mut windows, mut owed, mut serial, mut waits) = (vec![4.0f64; 10], 0.0, 0u64, Vec::new());
        for ms in 0..60_000u64 {
            let now = Instant::from_millis(ms);
            let rtt_ms = 40.0 + queue.len() as f64;
            owed += windows.iter().sum::<f64>() / rtt_ms;
            while owed >= 1.0 {
                owed -= 1.0;
                let flow = serial % 10;
                let mut hit = Vec::new();
                let item = Item { flow, serial, octets: 1_000, ect: false, l4s: false, marked: false };
                queue.push_noting(now, item, &mut |item, _| hit.push(item.flow));
                hit.iter().for_each(|flow| windows[*flow as usize] /= 2.0);
                serial += 1;
            }
            let mut hit = Vec::new();
            let popped = queue.pop_noting(now, &mut |item, _| hit.push(item.flow));
            hit.iter().for_each(|flow| windows[*flow as usize] /= 2.0);
            windows.iter_mut().for_each(|w| *w = (*w + 1.0 / rtt_ms).max(0.5));
            if ms > 20_000 {
                waits.extend(popped.map(|p| p.sojourn.as_secs_f64() * 1e3));
            }
        }
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!((12.0..18.0).contains(&mean), "{mean} ms, {queue:?}");
        // The server takes one a millisecond and had something to take nearly always.
        assert!(waits.len() > 38_000, "{}", waits.len());
    }
}

/// `txqueuelen` and a ring are one drop-tail queue of their sum, as long as neither changes.
#[test]
fn two_stages_hold_the_sum_of_both() {
    for (q, ring) in [(1_000, 256), (0, 256), (10, 1), (5, 0)] {
        let limits = Limits { items: q, octets: usize::MAX };
        let mut queue = TwoStage::new(Queue::new(Discipline::Fifo, limits), ring);
        let mut dropped = Vec::new();
        for serial in 0..2_000u64 {
            let item = Item { flow: 0, serial, octets: 1_500, ect: false, l4s: false, marked: false };
            queue.push(Instant::from_micros(serial), item, &mut |item, _| dropped.push(item.serial));
        }
        assert_eq!((queue.len(), queue.octets()), (q + ring, (q + ring) * 1_500));
        assert_eq!(dropped.first(), Some(&((q + ring) as u64)));
        let mut next = 0;
        while let Some(popped) = queue.pop(Instant::from_millis(10), &mut |_, _| ()) {
            assert_eq!(popped.item.serial, next);
            assert_eq!(popped.sojourn, Span::from_micros(10_000 - next));
            next += 1;
        }
        let counters = queue.counters();
        assert_eq!((counters.pushed, counters.popped), (2_000, next));
        assert_eq!(counters.dropped_full, 2_000 - next);
    }
}

/// What the ring has taken waits its turn there: a discipline in front of it saves a sparse flow nothing of that.
#[test]
fn a_ring_defeats_the_discipline_before_it() {
    let wait = |ring: usize| {
        let mut queue = TwoStage::new(fq_codel(), ring);
        let push = |queue: &mut TwoStage<Item>, flow, serial| {
            let item = Item { flow, serial, octets: 1_500, ect: false, l4s: false, marked: false };
            queue.push(Instant::ZERO, item, &mut |_, _| ());
        };
        (0..500).for_each(|serial| push(&mut queue, 0, serial));
        push(&mut queue, 1, 0);
        let mut ahead = 0;
        while queue.pop(Instant::ZERO, &mut |_, _| ()).is_some_and(|popped| popped.item.flow == 0) {
            ahead += 1;
        }
        ahead
    };
    // Both are new flows at first, and a quantum is worth two of these items.
    for ring in [0, 2, 256] {
        assert!((ring..=ring + 2).contains(&wait(ring)), "{ring}: {}", wait(ring));
    }
}
