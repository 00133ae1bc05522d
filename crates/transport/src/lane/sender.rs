//! The sending end of a lane: wiring of the sent map, the estimators, the pacer and the controller.

mod acks;
mod probes;

use super::arrivals::Arrivals;
use super::control::Control;
use super::crowd::Crowd;
use super::forward::Forward;
use super::gauge::Gauge;
use super::losses::Losses;
use super::mtu::MtuSearch;
use super::pace::Pacer;
use super::rtt::Rtt;
use super::sent::{Leaving, SentMap};
use super::wish::{Came, Wish};
use super::{LaneConfig, LaneView, Outcome, Room, SLOW_PACKET};
use crate::Controller;
use std::collections::VecDeque;
use wavelane_base::{Carrier, Class, Instant, Octets, Rate, Span, Wakeup};

/// Control and micro frames may be this much ahead of the pacer.
const URGENT_AHEAD: Span = Span::from_millis(20);
/// Control and micro frames may exceed the window by this much ...
const URGENT_BYTES: u64 = 16 * 1500;
/// ... but on a slow lane by no more than it carries in this time, or one packet: the excess is queue, in which all packets wait.
const URGENT_SPAN: Span = Span::from_millis(500);
const URGENT_BYTES_MIN: u64 = 1500;
/// Answers to a neighbour's challenges exceed the window by no more than this: they may never be acknowledged.
const ANSWERS_BYTES: u64 = 64 << 10;
/// Acks delay paced packets by at most this, on a slow lane by what that many octets take: two packets.
const ACKS_AHEAD: Span = Span::from_millis(15);
const ACKS_AHEAD_OCTETS: u64 = 2 * 1500;
/// Most padded pings sent while none was answered: each holds bulk up until it is known to be lost.
const GAUGES_MAX: u32 = 3;
/// None is sent where an answer takes this long, or a handshake took a second: it might fill the path for seconds.
const GAUGE_RTT_MAX: Span = Span::from_millis(400);
/// After this many unanswered probes, packets are small again.
const SMALL_AFTER_PROBES: u32 = 3;

/// See the module's description.
#[derive(Debug)]
pub struct LaneSender<R> {
    config: LaneConfig,
    now: Instant,
    sent: SentMap<R>,
    outcomes: VecDeque<Outcome<R>>,
    rtt: Rtt,
    pacer: Pacer,
    control: Control,
    arrivals: Arrivals,
    forward: Forward,
    gauge: Gauge,
    /// Padded pings that were to show the rate before bulk is sent, on a lane that is alone and is told none; and the one in flight.
    gauges: u32,
    gauge_in: Option<u64>,
    losses: Losses,
    crowd: Crowd,
    mtu: MtuSearch,
    wish: Wish,
    /// The packet that carried the newest wish.
    wish_in: Option<u64>,
    /// Octets received on the lane that carried the ack.
    came: Came,
    /// Unanswered tail probes so far.
    probes: u32,
    probe_due: bool,
    /// The longest interval between them.
    probe_interval: Span,
    /// Set if the lane is idle by policy: the shortest interval between probes; no larger packets are tried.
    rests: Option<Span>,
    /// The second probe waits no longer after the first than the first waited.
    probes_eagerly: bool,
    /// There are other lanes, so that it must come out if this one is dead.
    beside_others: bool,
    last_probe: Instant,
    silent_packets: u32,
    /// Packets nearly as large as the confirmed MTU were sent: searching for a larger MTU pays off.
    sends_large: bool,
    delivered_packets: u64,
    delivered_bytes: u64,
    lost_packets: u64,
    /// Since when an ack is due: the oldest eliciting packet sent, or the latest ack that left it due.
    waiting_since: Option<Instant>,
    last_eliciting: u64,
    /// See [`Self::stall_after`], as of the latest ack.
    stall: Option<Span>,
    /// Packets below this number have been given up: other lanes retransmit their data.
    given_up: u64,
    /// When the newest packet found lost since the last ack was sent.
    lost_sent: Option<Instant>,
    /// Packets before this number were sent to the neighbour's previous address.
    moved_at: u64,
    /// The longest recent delay of an ack by the peer.
    ack_delay_seen: Span,
    /// Its port takes no bulk now.
    holds_bulk: bool,
}

impl<R> LaneSender<R> {
    /// A lane that has sent nothing yet.
    pub fn new(now: Instant, config: LaneConfig) -> Self {
        let control = Control::new(now, config.controller, config.start_rate);
        Self {
            now,
            sent: SentMap::new(config.sent_max),
            outcomes: VecDeque::new(),
            rtt: Rtt::default(),
            pacer: Pacer::new(now, control.pacing()),
            control,
            arrivals: Arrivals::default(),
            forward: Forward::default(),
            gauge: Gauge::new(config.carrier.mtu_max),
            gauges: 0,
            gauge_in: None,
            losses: Losses::default(),
            crowd: Crowd::default(),
            mtu: new_search(now, &config),
            wish: if let Controller::Radio(_) = config.controller { Wish::seldom(now) } else { Wish::new(now) },
            wish_in: None,
            came: Came::default(),
            probes: 0,
            probe_due: false,
            probe_interval: probes::PROBE_INTERVAL_MAX,
            rests: None,
            probes_eagerly: false,
            beside_others: false,
            last_probe: now,
            silent_packets: 0,
            sends_large: false,
            delivered_packets: 0,
            delivered_bytes: 0,
            lost_packets: 0,
            waiting_since: None,
            last_eliciting: 0,
            stall: None,
            given_up: 0,
            lost_sent: None,
            moved_at: 0,
            ack_delay_seen: Span::ZERO,
            holds_bulk: false,
            config,
        }
    }

    /// Whether a datagram of `class` may leave now, and how large. Control and micro frames may exceed window and
    /// pacer by a small bounded amount; bulk may not.
    pub fn room(&self, now: Instant, class: Class) -> Room {
        let (ahead, extra) = match class {
            // Small frames travel with the acks that delay the pacer; data waiting for them does not.
            Class::Control => (URGENT_AHEAD, self.urgent_bytes()),
            Class::Micro => (URGENT_AHEAD + ACKS_AHEAD, self.urgent_bytes()),
            Class::Bulk => (Span::ZERO, 0),
        };
        if class == Class::Bulk && self.bulk_waits() {
            return Room::Closed;
        }
        let fits = self.sent.in_flight() + self.packet_max() as u64 <= self.window() + extra;
        if fits && self.pacer.open(now, ahead) {
            Room::Open { datagram_max: self.datagram_max() }
        } else {
            Room::Closed
        }
    }

    /// Whether immediate answers to the neighbour may be sent, regardless of pacer and window.
    pub fn takes_answers(&self) -> bool {
        self.sent.in_flight() <= self.window() + ANSWERS_BYTES
    }

    /// Sets whether its port takes no bulk until told otherwise.
    pub fn hold_bulk(&mut self, holds: bool) {
        self.holds_bulk = holds;
    }

    /// Whether bulk waits for its port, or for the answer of the padded ping that tells how long the first window may be.
    fn bulk_waits(&self) -> bool {
        self.holds_bulk || self.gauge_in.is_some()
    }

    /// When the pacer next opens for a bulk datagram, if the window has room for it.
    pub fn bulk_opens(&self) -> Option<Instant> {
        (!self.bulk_waits() && self.sent.in_flight() + self.packet_max() as u64 <= self.window())
            .then(|| self.pacer.gate())
    }

    /// Largest datagram the path is known to carry.
    pub fn datagram_max(&self) -> usize {
        self.packet_max().saturating_sub(self.config.carrier.overhead)
    }

    /// The path is now carried otherwise.
    pub fn set_carrier(&mut self, carrier: Carrier) {
        self.config.carrier = carrier;
    }

    /// Largest IP packet to send. If probes stay unanswered, their size may be the reason.
    fn packet_max(&self) -> usize {
        if self.probes >= SMALL_AFTER_PROBES { self.mtu.floor() } else { self.mtu.confirmed() }
    }

    /// A handshake was answered after `round_trip`: until there is an RTT sample, answers may take that long. Returns the assumed round
    /// trip if it is long; otherwise the usual defaults apply.
    pub fn suppose(&mut self, now: Instant, round_trip: Span) -> Option<Span> {
        if self.rtt.smoothed().is_some() {
            return None;
        }
        self.wish.suspect(now, round_trip);
        self.rtt.suppose(round_trip)
    }

    /// Another controller, from the next [`Self::restart`] on.
    pub fn set_up(&mut self, controller: Controller, start_rate: Option<Rate>) {
        self.config.controller = controller;
        self.config.start_rate = start_rate;
    }

    /// Another start rate, from the next [`Self::restart`] on.
    pub fn set_start_rate(&mut self, start_rate: Option<Rate>) {
        self.config.start_rate = start_rate;
    }

    /// The neighbour lost its state: forgets all that is in flight and all estimates. Numbers continue, because none is ever used twice in
    /// one boot.
    pub fn restart(&mut self, now: Instant) {
        let (next, holds_bulk) = (self.next_number(), self.holds_bulk);
        let before = core::mem::replace(self, Self { holds_bulk, ..Self::new(now, self.config) });
        self.sent.start_at(next);
        // If the neighbour was up all along and only the lane was not, it still follows the last ack wish.
        self.wish.follow(&before.wish);
    }

    /// The number the next packet must carry.
    pub fn next_number(&self) -> u64 {
        self.sent.next_number()
    }

    /// Packet [`Self::next_number`] was sent with `datagram_len` octets of datagram. `eliciting`: some frame in it asks for an ack.
    /// `app_limited`: the link had no more to send although there was room.
    pub fn sent(&mut self, now: Instant, datagram_len: usize, eliciting: bool, app_limited: bool, record: R) {
        self.push(now, datagram_len, eliciting, app_limited, Some(record));
        self.silent_packets = if eliciting { 0 } else { self.silent_packets.saturating_add(1) };
    }

    /// Whether a padded `Ping` is to show how much the first window may hold: on a long round trip only if something `warned`.
    pub fn wants_gauge(&self, warned: bool) -> bool {
        let first = self.gauges < GAUGES_MAX && self.gauge_in.is_none() && !self.sends_large && !self.gauge.is_known();
        let quick = warned || self.rtt.smoothed_or_initial() < GAUGE_RTT_MAX;
        first && quick && self.config.start_rate.is_none() && self.control.is_new()
    }

    /// Whether such a ping was sent, and none was answered.
    pub fn has_lost_gauge(&self) -> bool {
        self.gauges > 0 && self.gauge_in.is_none() && !self.gauge.is_known()
    }

    /// The padded `Ping` that [`super::Probe::Mtu`] asked for was sent, as packet [`Self::next_number`].
    pub fn sent_mtu_probe(&mut self, now: Instant, datagram_len: usize) {
        self.push(now, datagram_len, true, false, None);
    }

    /// The padded `Ping` that [`Self::wants_gauge`] asked for was sent, as packet [`Self::next_number`]. Its loss counts no more than that
    /// of a path-MTU probe.
    pub fn sent_gauge(&mut self, now: Instant, datagram_len: usize) {
        self.gauge_in = Some(self.next_number());
        self.gauges += 1;
        self.push(now, datagram_len, true, true, None);
    }

    fn push(&mut self, now: Instant, datagram_len: usize, eliciting: bool, app_limited: bool, record: Option<R>) {
        self.now = now;
        if eliciting {
            self.waiting_since.get_or_insert(now);
            self.last_eliciting = self.next_number();
        }
        let bytes = datagram_len + self.config.carrier.overhead;
        self.sends_large |= record.is_some() && bytes > self.mtu.confirmed() - self.mtu.confirmed() / 8;
        // Packets that ask for no ack are not paced (RFC 9002, section 7.7). They delay the paced ones, but never so much that urgent
        // frames could not leave.
        let slow = self.control.rate().time_for(Octets::new(ACKS_AHEAD_OCTETS / 2)) >= SLOW_PACKET;
        let ahead = if slow { self.control.pacing().time_for(Octets::new(ACKS_AHEAD_OCTETS)) } else { ACKS_AHEAD };
        if eliciting || self.pacer.owed(now) < ahead {
            self.pacer.sent(now, bytes as u64);
        }
        let mtu_probe = record.is_none();
        // Bulk waits for the padded ping, so what leaves meanwhile shows no rate.
        let app_limited = app_limited || self.gauge_in.is_some();
        let leaving = Leaving { bytes: bytes as u32, eliciting, app_limited, mtu_probe, record };
        if let Some((resolved, record)) = self.sent.push(now, leaving) {
            self.resolve(resolved, record);
        }
    }

    /// Sets the octets received so far on the lane that carries the next ack.
    pub fn set_came(&mut self, came: Came) {
        self.came = came;
    }

    /// Whether copies are withheld to test whether they fill the queue.
    pub fn withholds_copies(&self) -> bool {
        self.crowd.tries()
    }

    /// Octets on the medium in flight.
    pub fn in_flight(&self) -> u64 {
        self.sent.in_flight()
    }

    /// Octets on the medium delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Whether a large packet was acknowledged.
    pub fn is_gauged(&self) -> bool {
        self.gauge.is_known()
    }

    /// Upper bound of the lane's rate, if it is tighter than the controller's estimate.
    pub fn gauged_rate(&self) -> Option<Rate> {
        self.gauge.bound()
    }

    /// Whether batches are lost on the way, so that packets leave one by one.
    pub fn is_single(&self) -> bool {
        self.mtu.is_single(self.now)
    }

    fn window(&self) -> u64 {
        self.control.window(self.rtt.smoothed_or_initial())
    }

    /// The state of the path.
    pub fn path(&self, now: Instant) -> LaneView {
        LaneView {
            rtt: self.rtt.smoothed(),
            rtt_min: self.rtt.lowest(),
            rtt_var: self.rtt.variation(),
            queue_delay: self.control.queue(),
            rate: self.control.rate(),
            loss: if self.crowd.tries() { 0.0 } else { self.losses.share() },
            burst: self.losses.burst(),
            in_flight: self.sent.in_flight(),
            window: self.window(),
            path_mtu: self.mtu.confirmed(),
            below_base: self.mtu.is_below_base(),
            single: self.mtu.is_single(now),
            delivered_packets: self.delivered_packets,
            delivered_bytes: self.delivered_bytes,
            lost_packets: self.lost_packets,
            spurious_losses: self.sent.spurious(),
        }
    }

    /// The path changed (the peer roamed, or we did): estimates of it are in doubt. Packets in flight are kept, because they may still
    /// arrive; if not, the first acks of the new path show it.
    pub fn address_changed(&mut self, now: Instant) {
        self.now = now;
        self.moved_at = self.next_number();
        // Probe at once: the window may be full of packets to the old address.
        self.probe_due |= self.sent.in_flight() > 0;
        self.rtt.forget_base();
        self.crowd = Crowd::default();
        self.forward.forget();
        self.gauge = Gauge::new(self.config.carrier.mtu_max);
        self.gauge_in = None;
        self.control.path_changed(now);
        self.pacer.set_rate(now, self.control.pacing());
        self.mtu = new_search(now, &self.config);
        self.sends_large = false;
        self.wish.path_changed(now);
    }

    /// Skips the next number. It is never sent, so an ack of it reveals a neighbour that acks packets before they arrive; such acks are
    /// ignored entirely, and counted.
    pub fn skip_number(&mut self, now: Instant) {
        self.now = now;
        if let Some((resolved, record)) = self.sent.skip(now) {
            self.resolve(resolved, record);
        }
    }

    /// Acks of numbers that were never sent, so far.
    pub fn optimistic_acks(&self) -> u64 {
        self.sent.optimistic()
    }

    /// Time has passed. Harmless before the deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.loss_time().is_some_and(|at| at <= now) {
            self.detect_lost(now);
        }
        if self.probe_time().is_some_and(|at| at <= now) {
            self.probe_due = true;
        }
    }

    /// How far control and micro frames may exceed the window.
    fn urgent_bytes(&self) -> u64 {
        URGENT_BYTES.min(self.control.rate().octets_in(URGENT_SPAN).get().max(URGENT_BYTES_MIN))
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let loss = self.loss_time().map(|at| Wakeup { at, cause: "lane loss detection" });
        let probe = self.probe_time().map(|at| Wakeup { at, cause: "lane tail probe" });
        let gate = self.pacer.gate();
        let pacer = (gate > self.now).then_some(Wakeup { at: gate, cause: "lane pacer" });
        let mtu = if self.searches_mtu() { self.mtu.poll_timeout(self.now) } else { None };
        Wakeup::earliest(Wakeup::earliest(loss, probe), Wakeup::earliest(pacer, mtu))
    }

    /// How the peer should acknowledge this lane, if that differs from the last wish it received: packets per ack and longest delay. Send
    /// it as an `AckWish` frame; repeated until [`Self::wish_sent`], and when that packet is lost.
    pub fn ack_wish(&self) -> Option<(u64, Span)> {
        self.wish.pending()
    }

    /// The wish as it was sent last, or would be now.
    pub fn told_wish(&self) -> (u64, Span) {
        self.wish.told()
    }

    /// The longest time that the peer delays an ack, according to the last wish.
    pub fn ack_delay(&self) -> Span {
        self.wish.delay()
    }

    /// The wish is sent in packet [`Self::next_number`].
    pub fn wish_sent(&mut self, now: Instant) {
        self.now = now;
        self.wish_in = Some(self.next_number());
        self.wish.sent();
    }

    /// Whether the controller competes with another flow.
    #[cfg(test)]
    pub(super) fn competing(&self) -> bool {
        matches!(&self.control, Control::Delay(delay) if delay.competing())
    }

    /// The controller's estimate of the lane's rate.
    pub fn rate(&self) -> Rate {
        self.control.rate()
    }
}

fn new_search(now: Instant, config: &LaneConfig) -> MtuSearch {
    MtuSearch::new(now, config.carrier.mtu_floor, config.carrier.mtu_max)
}
