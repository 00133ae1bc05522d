//! The lanes out of a link, and the one place that picks among them: [`Lanes::offer`].

use super::choice::{Choice, Delivery, PROBE_EVERY};
use super::guard::{Guard, PATIENCE_MEDIA, is_bursty};
use super::path::Skips;
use super::{FATES_KNOWN_MIN, LANES_MAX, LOSS_UNKNOWN, LaneOptions, Record};
use crate::lane::{LaneConfig, LaneSender, Room};
use crate::{PathView, RepairBudget};
use wavelane_base::{Class, Entropy, Instant, Octets, Rate, Span, Wakeup};

/// A lane that carries less than this share of what the fastest one carries takes no bulk: what it would add is less than
/// what its bytes, which arrive late, cost at the other end.
const BULK_SHARE_MIN: u64 = 20;
/// ... unless a packet takes it no longer than this: so late bytes cost nobody anything, and a lane that nothing is given never shows
/// that it carries more than was thought.
const QUICK_PACKET: Span = Span::from_millis(20);
/// Octets that a lane may have in flight, beside as many as it has delivered.
const UNTRIED_OCTETS: u64 = 2 * 1_500;
/// What is on its way by another lane is repeated by the first if it arrives so much sooner, or by a quarter of the way if that is more.
const SOONER: Span = Span::from_millis(20);
/// A lane that failed, or loses this share, is taken for one that will again for so long.
const SHAKY_LOSS: f64 = 0.02;
const SHAKY_FAILED_FOR: Span = Span::from_secs(60);
const SHAKY_LOSSY_FOR: Span = Span::from_secs(10);
/// Octets of a small exchange, with what is around it.
const SMALL_OCTETS: u64 = 300;
/// A padded ping is repeated no sooner than this, and costs a slow lane no more than one part in [`HELLO_SHARE`].
const GAUGE_EVERY: Span = Span::from_secs(1);
/// Tail probes without an answer after which a lane counts as failed while others go on.
const FAILED_AFTER_PROBES: u32 = 2;
/// ... or after more of a lane that loses so much that they and what they ask for may be lost by more than this chance ...
const FAILED_SURE: f64 = 0.05;
/// ... but never after more than this.
const FAILED_AFTER_PROBES_MAX: u32 = 6;
/// A lane that is being tried takes no more bulk when that arrives this much later than on the first: whoever reads it
/// stands still for so long each time, or for more packets of a slow one than it expects anyway ...
const LATE_MAX: Span = Span::from_millis(500);
const LATE_PACKETS: u64 = 8;
/// ... and is tried again after so long ...
const LATE_FOR: Span = Span::from_secs(60);
/// ... until it has delivered so much that its rate is known.
const TRIED_OCTETS: u64 = 64_000;
/// A lane of which no answer is due asks for one so often, in a link that is in use ...
const HELLO_EVERY: Span = Span::from_secs(1);
/// ... or so often if it carries the acks, of whose loss nobody tells ...
const HELLO_FIRST_EVERY: Span = Span::from_millis(250);
/// ... but spends no more than this share of itself on that.
const HELLO_SHARE: u64 = 50;
/// Octets of such a datagram, with what is around it.
const HELLO_OCTETS: u64 = 60;
/// A metered lane that others stand before asks no more often than keeps what lies between open ...
const HELLO_METERED_EVERY: Span = Span::from_secs(25);
/// ... and for what it owes no more often than this.
const PROBE_METERED_EVERY: Span = Span::from_secs(5);

/// One way out.
#[derive(Debug)]
pub(super) struct Lane<L> {
    pub(super) sender: LaneSender<Record<L>>,
    /// Repair symbols for what leaves by it.
    pub(super) guard: Guard<L>,
    /// What was last known of its path.
    pub(super) path: PathView,
    /// The lowest round trip of late.
    rtt_min: Span,
    pub(super) challenge: Option<[u8; 8]>,
    pub(super) skips: Skips,
    /// The neighbour must see a datagram of this lane's soon.
    pub(super) ping: bool,
    overhead: usize,
    /// What it carries costs.
    metered: bool,
    /// Whether it may carry bulk.
    bulk: bool,
    /// Its place in the configuration; one that was made for the neighbour's stands behind those.
    place: usize,
    /// It was taken away: it carries nothing, and its number stays its own.
    closed: bool,
    /// The policy has it carry nothing now.
    spare: bool,
    /// Whether a round trip was measured.
    measured: bool,
    /// What it carried was given to the other lanes, because nothing comes back.
    failed: bool,
    /// Its port takes nothing now.
    pub(super) blocked: bool,
    /// There is nothing behind its port.
    unplugged: bool,
    /// When the last datagram left by it that asks for an answer.
    asked_at: Instant,
    /// When the last datagram left by it.
    sent_at: Instant,
    /// When acks last left by it.
    acks_at: Instant,
    /// Bulk on it arrived late: it takes none until then.
    late_until: Instant,
    /// It is likely to lose what is small until then.
    shaky_until: Instant,
    /// Whether something left that asks for an answer, and when the last padded ping did.
    asked: bool,
    gauge_at: Option<Instant>,
}

impl<L> Lane<L> {
    fn new(now: Instant, id: u8, options: &LaneOptions, sent_max: usize, dice: Entropy) -> Self {
        let LaneOptions { controller, mtu_max, overhead, metered, bulk } = *options;
        Self {
            sender: LaneSender::new(now, LaneConfig { lane: id, controller, mtu_max, overhead, sent_max }),
            guard: Guard::default(),
            path: PathView { lane: id, ..PathView::default() },
            rtt_min: Span::MAX,
            challenge: None,
            skips: Skips::new(dice),
            ping: false,
            overhead,
            metered,
            bulk,
            place: usize::from(id),
            closed: false,
            spare: false,
            measured: false,
            failed: false,
            blocked: false,
            unplugged: false,
            asked_at: now,
            sent_at: now,
            acks_at: now,
            late_until: now,
            shaky_until: now,
            asked: false,
            gauge_at: None,
        }
    }

    pub(super) fn set_overhead(&mut self, overhead: usize) {
        self.overhead = overhead;
        self.sender.set_overhead(overhead);
    }

    pub(super) fn overhead(&self) -> usize {
        self.overhead
    }

    /// Whether there is something behind its port; returns whether that is news.
    pub(super) fn set_there(&mut self, there: bool) -> bool {
        if self.unplugged != there {
            return false;
        }
        (self.unplugged, self.blocked) = (!there, !there);
        self.ping |= there && !self.closed;
        true
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.sender.restart(now);
        self.guard = Guard::default();
        self.challenge = None;
        (self.measured, self.failed) = (false, false);
        (self.asked, self.gauge_at) = (false, None);
        self.path = PathView { lane: self.path.lane, ..PathView::default() };
        self.rtt_min = Span::MAX;
    }

    /// It is taken away. What it knows of its path goes, its numbers stay.
    fn close(&mut self, now: Instant) {
        self.restart(now);
        (self.closed, self.ping, self.spare) = (true, false, false);
    }

    /// It is there again, as another way perhaps.
    fn open_again(&mut self, now: Instant, options: &LaneOptions) {
        let LaneOptions { controller, mtu_max, overhead, metered, bulk } = *options;
        self.sender.set_up(controller, mtu_max);
        self.set_overhead(overhead);
        self.restart(now);
        (self.metered, self.bulk) = (metered, bulk);
        (self.closed, self.ping, self.blocked) = (false, true, false);
        (self.asked_at, self.sent_at, self.acks_at, self.late_until) = (now, now, now, now);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn note_sent(&mut self, now: Instant, eliciting: bool) {
        self.ping = false;
        self.sent_at = now;
        if eliciting {
            self.asked_at = now;
            self.asked = true;
        }
    }

    pub(super) fn gauge_sent(&mut self, now: Instant) {
        self.gauge_at = Some(now);
    }

    /// Looks at the path anew. `inbound` is the loss of the way to us, `plural` whether there are other lanes: what is assumed of
    /// one that is alone harms nobody.
    pub(super) fn look(&mut self, now: Instant, inbound: f64, plural: bool) {
        let view = self.sender.path(now);
        let Some(rtt) = view.rtt else { return };
        let known = view.delivered_packets + view.lost_packets >= FATES_KNOWN_MIN;
        let own = if known { view.loss } else { view.loss.max(LOSS_UNKNOWN) };
        let loss = inbound.max(own);
        self.measured = true;
        if known && view.loss >= SHAKY_LOSS {
            self.shaky_until = self.shaky_until.max(now + SHAKY_LOSSY_FOR);
        }
        let bound = self.sender.gauged_rate().filter(|_| plural);
        let rate = bound.map_or(view.rate, |bound| bound.min(view.rate));
        self.rtt_min = view.rtt_min.unwrap_or(rtt);
        self.path = PathView {
            lane: self.path.lane,
            rtt,
            rtt_var: view.rtt_var,
            rate,
            ack_delay: self.sender.ack_delay(),
            told_apart: self.path.told_apart,
            packet_time: rate.time_for(Octets::new(view.path_mtu as u64)),
            path_mtu: view.path_mtu,
            window: Octets::new(view.window),
            loss,
            loss_outward: if known { view.loss } else { loss },
            burst: view.burst,
            symbols: Span::ZERO,
        };
    }

    /// How long a full packet takes to arrive if it leaves now, repeats included.
    fn delay(&self) -> Span {
        let path = &self.path;
        let repeats = Span::from_nanos((path.rtt.as_nanos() as f64 * 2.0 * path.loss_outward) as u64);
        // The queue, as far as there is one, lies on the way out.
        path.rtt.saturating_sub(self.rtt_min.min(path.rtt).scale(1, 2)) + path.packet_time + repeats
    }

    /// Whether it may take one more packet: the rate of a lane that has carried little is a guess, and what a slow one takes
    /// holds up all that follows. What is in flight may double with each round trip.
    fn is_trusted(&self) -> bool {
        self.sender.in_flight() < UNTRIED_OCTETS + self.sender.delivered_bytes()
    }

    /// Whether a full packet is known to take it no longer than [`QUICK_PACKET`]: as much may be in flight as if it were alone.
    fn is_quick(&self) -> bool {
        self.sender.is_gauged() && self.path.packet_time <= QUICK_PACKET
    }

    /// Whether the policy has it carry nothing now.
    pub(super) fn is_spare(&self) -> bool {
        self.spare
    }

    /// Whether it may carry bulk.
    pub(super) fn carries_bulk(&self) -> bool {
        self.bulk
    }

    /// Whether tail probes see to the answer that is due, and would be put off by another question: on a lane of which nothing was
    /// ever heard, whose first probe takes longest, by any policy.
    fn awaits_probe(&self, bond: bool) -> bool {
        (bond || !self.measured) && self.sender.awaits_answer()
    }

    /// Whether what it is given can be expected to arrive.
    fn works(&self) -> bool {
        self.measured && !self.failed && !self.blocked
    }

    /// When it is to ask for an answer, of which no later one is due.
    fn hello_at(&self, first: bool) -> Instant {
        let every = match (first, self.spare && self.metered) {
            (true, _) => HELLO_FIRST_EVERY,
            (false, false) => HELLO_EVERY,
            // Until a round trip was measured nobody knows whether it could take over.
            (false, true) => {
                if self.measured {
                    HELLO_METERED_EVERY
                } else {
                    HELLO_EVERY
                }
            }
        };
        let spent = self.path.rate.time_for(Octets::new(HELLO_OCTETS)).times(HELLO_SHARE);
        self.asked_at + every.max(spent)
    }
}

/// Tail probes without an answer that show a lane of this loss to have failed.
fn failed_after(loss: f64) -> u32 {
    let mut lost = loss * loss * loss;
    let mut probes = FAILED_AFTER_PROBES;
    while lost > FAILED_SURE && probes < FAILED_AFTER_PROBES_MAX {
        lost *= loss;
        probes += 1;
    }
    probes
}

/// A datagram may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    /// By which lane.
    pub(super) lane: usize,
    /// The least urgent class it may carry.
    pub(super) class: Class,
    /// How large it may be.
    pub(super) datagram_max: usize,
}

/// All lanes out; a lane's number is its place.
#[derive(Debug)]
pub(super) struct Lanes<L> {
    all: Vec<Lane<L>>,
    /// Those that are not closed, by how soon what leaves arrives, or as the policy has it.
    order: Vec<usize>,
    choice: Choice,
    delivery: Delivery,
}

impl<L> Lanes<L> {
    pub(super) fn new(
        now: Instant,
        options: &[LaneOptions],
        choice: Choice,
        sent_max: usize,
        mut dice: Entropy,
    ) -> Self {
        let others: Vec<Entropy> = (1..options.len()).map(|_| dice.split()).collect();
        let dice = others.into_iter().chain([dice]);
        let lanes = options.iter().zip(dice).enumerate().take(LANES_MAX);
        let all: Vec<Lane<L>> =
            lanes.map(|(id, (options, dice))| Lane::new(now, id as u8, options, sent_max, dice)).collect();
        assert!(!all.is_empty(), "a link has a lane out");
        let order = (0..all.len()).collect();
        let mut lanes = Self { all, order, choice, delivery: Delivery::new(now) };
        lanes.sort(now, false);
        lanes
    }

    /// Other words on how they are used, with the numbers of the lanes that the configuration has, in its order.
    pub(super) fn set_options(&mut self, now: Instant, choice: Choice, options: &[(usize, LaneOptions)]) {
        let leading = |lanes: &Self| lanes.all.iter().position(|lane| lane.place == 0);
        let before = (self.choice, leading(self));
        for (number, lane) in self.all.iter_mut().enumerate() {
            lane.place = LANES_MAX + number;
        }
        for (place, (number, options)) in options.iter().enumerate() {
            let lane = &mut self.all[*number];
            (lane.place, lane.metered, lane.bulk) = (place, options.metered, options.bulk);
        }
        self.choice = choice;
        if (choice, leading(self)) != before {
            self.delivery = Delivery::new(now);
        }
        self.sort(now, true);
    }

    /// Whether a lane can be taken away: another is left.
    pub(super) fn can_close(&self, lane: usize) -> bool {
        self.order.len() > 1 && self.order.contains(&lane)
    }

    /// A lane is taken away. What it carried has to be taken back before.
    pub(super) fn close(&mut self, now: Instant, lane: usize) {
        self.all[lane].close(now);
        self.order.retain(|other| *other != lane);
        if let [alone] = self.order[..] {
            let alone = &mut self.all[alone];
            (alone.failed, alone.spare) = (false, false);
            alone.sender.rest(None);
            alone.sender.probe_rarely(false);
            alone.sender.probe_eagerly(false);
        }
        self.sort(now, true);
    }

    /// A lane that was taken away is there again.
    pub(super) fn open_again(&mut self, now: Instant, lane: usize, options: &LaneOptions) {
        self.all[lane].open_again(now, options);
        self.order.push(lane);
        self.sort(now, true);
    }

    /// Those that are not closed, with their numbers.
    fn open(&self) -> impl Iterator<Item = (usize, &Lane<L>)> {
        self.all.iter().enumerate().filter(|(_, lane)| !lane.closed)
    }

    /// Whether there are several to choose among.
    pub(super) fn are_several(&self) -> bool {
        self.order.len() > 1
    }

    /// One more lane.
    pub(super) fn add(&mut self, now: Instant, options: &LaneOptions, sent_max: usize, dice: Entropy) {
        assert!(self.all.len() < LANES_MAX, "lanes are numbered below {LANES_MAX}");
        self.order.push(self.all.len());
        let mut lane = Lane::new(now, self.all.len() as u8, options, sent_max, dice);
        (lane.ping, lane.place) = (true, LANES_MAX + self.all.len());
        self.all.push(lane);
        self.sort(now, true);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get_mut(&mut self, lane: u8) -> Option<&mut Lane<L>> {
        self.all.get_mut(usize::from(lane))
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, Lane<L>> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Lane<L>> {
        self.all.iter_mut()
    }

    /// The lane by which what leaves arrives soonest: acks and what is urgent take it.
    pub(super) fn first(&self) -> usize {
        self.order[0]
    }

    /// Whether anything is known of a path.
    pub(super) fn is_measured(&self) -> bool {
        self.all.iter().any(|lane| lane.measured)
    }

    /// What was last known of that lane's path.
    pub(super) fn best(&self) -> &PathView {
        &self[self.first()].path
    }

    /// Time has passed, or acks came: which lanes work, and in which order they are taken.
    pub(super) fn sort(&mut self, now: Instant, in_use: bool) {
        if !self.are_several() {
            return;
        }
        let failed_before = self.all.iter().filter(|lane| lane.failed).count();
        let bond = self.choice == Choice::Bond;
        for lane in &mut self.all {
            // Other policies decide by what is delivered, or not at all.
            let probes = if bond { failed_after(lane.path.loss_outward) } else { FAILED_AFTER_PROBES };
            let fails = lane.sender.unanswered_probes() >= probes;
            if fails && !lane.failed {
                lane.shaky_until = now + SHAKY_FAILED_FOR;
            }
            lane.failed = lane.unplugged || fails;
            lane.sender.probe_eagerly(bond);
        }
        let round = self.open().map(|(_, lane)| lane.path.rtt).max().unwrap_or(Span::ZERO);
        if self.choice == Choice::Delivery1998 {
            let failed = |first: bool| self.open().filter(|(_, l)| (l.place == 0) == first).all(|(_, l)| l.failed);
            let failed = [failed(true), failed(false)];
            self.delivery.decide(now, failed, round);
        }
        // One whose socket is full for a moment works.
        let unmetered = bond && self.all.iter().any(|lane| lane.measured && !lane.failed && !lane.metered);
        self.order.sort_unstable();
        let all = &self.all;
        // Where none works they take turns: it may be the acks that do not come back, and both sides wait for the other's.
        let turn = |lane: &Lane<L>| lane.failed.then_some(lane.acks_at);
        let rank = |i: usize| {
            let lane = &all[i];
            let (place, delay) = match self.choice {
                Choice::Bond => (0, lane.delay()),
                Choice::Pinned => (lane.place, Span::ZERO),
                Choice::PinnedFallback => (0, Span::ZERO),
                Choice::Delivery1998 => (usize::from((lane.place == 0) != self.delivery.first), lane.delay()),
            };
            let costs = unmetered && lane.metered;
            // What answers small packets soon may take a second for a full one.
            let unknown = if bond { u8::from(!lane.measured) + u8::from(!lane.sender.is_gauged()) } else { 0 };
            (place, costs, (lane.blocked, lane.failed, turn(lane), unknown, bond && lane.metered, delay), lane.place)
        };
        self.order.sort_by_key(|i| rank(*i));
        self.set_apart(unmetered, in_use);
        if self.all.iter().filter(|lane| lane.failed).count() > failed_before {
            // Of a neighbour that is there by another lane an answer shows it.
            let first = self.first();
            self.all[first].ping = true;
        }
        let first = &self.all[self.first()];
        let latest = first.delay() + LATE_MAX.max(first.path.packet_time.times(LATE_PACKETS));
        let tried = |lane: &&mut Lane<L>| lane.measured && lane.sender.delivered_bytes() < TRIED_OCTETS;
        for lane in self.all.iter_mut().filter(tried).filter(|lane| lane.delay() > latest) {
            lane.late_until = now + LATE_FOR;
        }
    }

    /// Which lanes carry nothing now, and how rarely those are tried.
    fn set_apart(&mut self, unmetered: bool, in_use: bool) {
        let first = self.first();
        let bulk = self.order.iter().copied().find(|lane| self.all[*lane].bulk);
        // One that takes no bulk does not stand in for one that does.
        let bulk_unmetered = self.all.iter().any(|lane| !lane.metered && lane.bulk && lane.works());
        for (i, lane) in self.all.iter_mut().enumerate().filter(|(_, lane)| !lane.closed) {
            lane.spare = match self.choice {
                Choice::Bond => unmetered && lane.metered && i != first && (bulk_unmetered || !lane.bulk),
                Choice::Pinned | Choice::PinnedFallback | Choice::Delivery1998 => i != first && Some(i) != bulk,
            };
            let apart = if lane.metered { PROBE_METERED_EVERY } else { PROBE_EVERY };
            lane.sender.rest(lane.spare.then_some(apart));
            if !lane.spare {
                lane.sender.probe_rarely(lane.failed && !in_use);
            }
        }
    }

    /// The fate of what left by a lane.
    pub(super) fn note_fate(&mut self, now: Instant, lane: usize, delivered: bool) {
        if self.all[lane].place == 0 && self.choice == Choice::Delivery1998 {
            self.delivery.note(now, delivered);
        }
    }

    /// Acks left by a lane.
    pub(super) fn note_acks(&mut self, now: Instant, lane: usize, in_use: bool) {
        self.all[lane].acks_at = now;
        if self.all[lane].failed {
            self.sort(now, in_use);
        }
    }

    /// Whether silence after what leaves by a lane says anything of the neighbour: one that has failed is known to bring no
    /// answer.
    pub(super) fn counts(&self, lane: usize) -> bool {
        !self.all[lane].failed || self.open().all(|(_, lane)| lane.failed)
    }

    /// Whether a tail probe by a lane may carry data: not where it rests, nor where it has failed while others go on.
    pub(super) fn tail_carries(&self, lane: usize) -> bool {
        !self.all[lane].spare && (self.choice != Choice::Bond || self.counts(lane))
    }

    /// Gives what lanes carried that have failed to the others, once. Whether that was anything.
    pub(super) fn give_up_failed(&mut self) {
        if self.open().filter(|(_, lane)| !lane.spare).all(|(_, lane)| lane.failed) {
            return;
        }
        self.all.iter_mut().filter(|lane| lane.failed).for_each(|lane| lane.sender.give_up_records());
    }

    /// Which lane takes the next datagram if something of class `wanted` leads it and something has waited without a pause
    /// for `busy`, how urgent what it carries has to be, and how large it may be. `None` if nothing may leave now.
    pub(super) fn offer(&self, now: Instant, wanted: Class, busy: Span) -> Option<Offer> {
        let open = |lane: usize, class: Class| match self.all[lane].sender.room(now, class) {
            Room::Open { datagram_max } => Some(Offer { lane, class, datagram_max }),
            Room::Closed => None,
        };
        if wanted == Class::Bulk && self.are_several() {
            return self.offer_bulk(now, busy);
        }
        // What is urgent waits for the lane by which it arrives soonest, which takes it before long; what fills that datagram up
        // has to be worth that lane's while.
        let first = self.first();
        let bulk = !self.are_several() || self.serves_bulk(now, first, self.fastest());
        let classes = [Class::Bulk, Class::Micro, Class::Control];
        let mut takes = classes.into_iter().filter(|class| bulk || *class != Class::Bulk);
        takes.find_map(|class| open(first, class).filter(|_| class >= wanted))
    }

    /// The rate of the fastest lane that works.
    fn fastest(&self) -> u64 {
        let used = self.open().filter(|(_, lane)| !lane.failed && !lane.spare && lane.bulk);
        used.map(|(_, lane)| lane.path.rate.as_bps()).max().unwrap_or(0)
    }

    /// Whether a lane takes bulk at `now` beside one of the rate `fastest`.
    fn serves_bulk(&self, now: Instant, lane: usize, fastest: u64) -> bool {
        let out = &self.all[lane];
        if out.spare || !out.bulk || self.choice != Choice::Bond {
            return !out.spare && out.bulk;
        }
        let fast = out.path.rate.as_bps().saturating_mul(BULK_SHARE_MIN) >= fastest;
        let known = |i: usize| i == self.first() || self.all[i].sender.is_gauged();
        let serves =
            out.works() && known(lane) && now >= out.late_until && (fast || out.path.packet_time <= QUICK_PACKET);
        // Or there is nothing better.
        let better = |(i, other): (usize, &Lane<L>)| {
            i != lane && other.works() && known(i) && other.bulk && !other.spare && now >= other.late_until
        };
        serves || lane == self.first() && !self.all.iter().enumerate().any(better)
    }

    /// The first lane with room on which bulk arrives before the first one could have taken all that is likely to come: who
    /// has had something to send for so long has for as long again. A short transfer leaves by the first lane alone.
    fn offer_bulk(&self, now: Instant, busy: Span) -> Option<Offer> {
        let fastest = self.fastest();
        let mut lead = None;
        for lane in self.order.iter().copied().filter(|lane| self.serves_bulk(now, *lane, fastest)) {
            let out = &self.all[lane];
            // One that takes no bulk says nothing of what bulk would gain.
            let (lead, until) = *lead.get_or_insert((lane, out.delay() + busy));
            if out.delay() > until {
                return None;
            }
            let trusted = out.is_trusted() || self.choice != Choice::Bond || lane == lead && out.is_quick();
            if let (true, Room::Open { datagram_max }) = (trusted, out.sender.room(now, Class::Bulk)) {
                return Some(Offer { lane, class: Class::Bulk, datagram_max });
            }
        }
        None
    }

    /// Whether a lane is to be asked how long it takes a full packet: where nothing is known of that once small ones have left, and now
    /// and then where it takes so long that it is left out while something is `waiting`.
    pub(super) fn gauges(&self, now: Instant, lane: usize, in_use: bool, waiting: bool) -> bool {
        let out = &self.all[lane];
        if !self.are_several() || self.choice != Choice::Bond || !in_use || out.spare || out.failed || !out.asked {
            return false;
        }
        let slow = out.measured && out.sender.is_gauged() && out.sender.gauged_rate().is_some() && !out.is_quick();
        let again = !out.sender.is_gauged() || slow && waiting && lane != self.first();
        let spent = if out.sender.is_gauged() { out.path.packet_time.times(HELLO_SHARE) } else { Span::ZERO };
        again && out.gauge_at.is_none_or(|at| at + GAUGE_EVERY.max(spent) <= now)
    }

    /// Whether what others carry may be repeated by this lane now.
    pub(super) fn may_repeat(&self, now: Instant, lane: usize) -> bool {
        self.are_several()
            && self.choice == Choice::Bond
            && lane == self.first()
            && self.all[lane].works()
            && self.all[lane].bulk
            && self.all[lane].sender.room(now, Class::Bulk) != Room::Closed
    }

    /// The lane that is taken first, if it is likely to lose what is small and others might carry it.
    pub(super) fn shaky(&self, now: Instant, lane: usize) -> Option<&Lane<L>> {
        let first = &self.all[lane];
        let shaky =
            self.are_several() && self.choice == Choice::Bond && lane == self.first() && now < first.shaky_until;
        shaky.then_some(first).filter(|first| first.measured)
    }

    /// The other lanes by which copies of small exchanges may go, the soonest first. What they cost has to be worth nothing.
    pub(super) fn seconds(&self) -> impl Iterator<Item = usize> {
        let second = |lane: &Lane<L>| lane.works() && lane.sender.is_gauged() && !lane.metered && !lane.spare;
        self.order.iter().copied().skip(1).filter(move |lane| second(&self.all[*lane]))
    }

    /// How long a small packet takes by a lane if it leaves now.
    pub(super) fn delay_of_small(&self, lane: usize) -> Span {
        let lane = &self.all[lane];
        let small = lane.path.rate.time_for(Octets::new(SMALL_OCTETS)).min(lane.path.packet_time);
        lane.delay().saturating_sub(lane.path.packet_time) + small
    }

    /// Gives a packet up that is on its way by a lane and would arrive sooner by the first. Whether there is one.
    pub(super) fn give_up_late(&mut self, now: Instant, lane: usize) -> bool {
        let way = self[self.first()].delay();
        let arrives = now + way + SOONER.max(way.scale(1, 4));
        let out = &mut self.all[lane];
        // How long one takes of which little is known nobody knows.
        let takes = out.sender.is_gauged().then(|| out.delay());
        let since = |left: Instant| takes.is_none_or(|takes| left + takes > arrives);
        !out.failed && out.sender.give_up_later(since, |record| record.carries)
    }

    /// Sets `budget` and what services see of the paths, those that carry most first.
    pub(super) fn views(&mut self, budget: &mut RepairBudget, views: &mut Vec<PathView>) {
        views.clear();
        if self.all.iter().all(|lane| !lane.measured) {
            return;
        }
        let any_used = self.all.iter().any(|lane| lane.measured && !lane.spare);
        let works = |lane: &&mut Lane<L>| lane.measured && !(any_used && lane.spare);
        let all_failed = self.all.iter().all(|lane| lane.failed || !lane.measured || any_used && lane.spare);
        let used = self.all.iter_mut().filter(works).filter(|lane| all_failed || !lane.failed);
        let mut used: Vec<&mut Lane<L>> = used.collect();
        used.sort_by_key(|lane| core::cmp::Reverse(lane.path.rate.as_bps()));
        let rate = Rate::from_bps(used.iter().map(|lane| lane.path.rate.as_bps()).sum());
        let (rtt, loss) = used
            .iter()
            .fold((Span::ZERO, 0.0_f64), |(rtt, loss), lane| (rtt.max(lane.path.rtt), loss.max(lane.path.loss)));
        budget.set_path(rate, rtt, loss);
        for lane in used {
            let symbols = budget.is_lossy() && !is_bursty(lane.path.burst);
            lane.path.symbols = if symbols { PATIENCE_MEDIA } else { Span::ZERO };
            views.push(lane.path);
        }
    }

    /// Lanes of which no answer is due ask for one, or in a link that is not in use, those that were silent for `keepalive`.
    pub(super) fn greet(&mut self, now: Instant, in_use: bool, keepalive: Option<Span>) {
        if self.are_several() {
            let (first, bond) = (self.first(), self.choice == Choice::Bond);
            // Where an answer is due tail probes see to it, and each datagram that asks for another puts them off.
            for (i, lane) in self.all.iter_mut().enumerate().filter(|(_, lane)| !lane.closed) {
                let asks = in_use && !lane.awaits_probe(bond) && lane.hello_at(i == first) <= now;
                lane.ping |= asks || keepalive.is_some_and(|keepalive| lane.sent_at + keepalive <= now);
            }
        }
    }

    /// When the next one does.
    pub(super) fn greet_at(&self) -> Option<Wakeup> {
        let first = self.first();
        let bond = self.choice == Choice::Bond;
        let quiet = self.quiet().filter(|(_, lane)| !lane.awaits_probe(bond));
        let at = quiet.map(|(i, lane)| lane.hello_at(i == first)).min()?;
        Some(Wakeup { at, cause: "link: a lane asks for an answer" })
    }

    /// When a lane has been silent for `keepalive`: what lies between forgets each on its own.
    pub(super) fn keepalive_at(&self, keepalive: Option<Span>) -> Option<Wakeup> {
        let at = self.quiet().map(|(_, lane)| lane.sent_at).min()? + keepalive?;
        Some(Wakeup { at, cause: "link: a lane is kept open" })
    }

    /// Of several lanes those that have nothing to ask yet.
    fn quiet(&self) -> impl Iterator<Item = (usize, &Lane<L>)> {
        self.open().filter(|(_, lane)| self.are_several() && !lane.ping)
    }
}

impl<L> core::ops::Index<usize> for Lanes<L> {
    type Output = Lane<L>;
    fn index(&self, lane: usize) -> &Lane<L> {
        &self.all[lane]
    }
}

impl<L> core::ops::IndexMut<usize> for Lanes<L> {
    fn index_mut(&mut self, lane: usize) -> &mut Lane<L> {
        &mut self.all[lane]
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILED_AFTER_PROBES_MAX, failed_after};

    /// What is in flight and each probe are lost by chance with the loss to the power of their number.
    #[test]
    fn a_lossy_lane_gets_more_probes_before_it_fails() {
        for (loss, probes) in [
            (0.0, 2),
            (0.2, 2),
            (0.36, 2),
            (0.4, 3),
            (0.5, 4),
            (0.7, FAILED_AFTER_PROBES_MAX),
            (1.0, FAILED_AFTER_PROBES_MAX),
        ] {
            assert_eq!(failed_after(loss), probes, "{loss}");
        }
    }
}
