//! What is sent: one datagram at a time, and what it carries.

use super::guard::{RESERVE, Why, is_bursty};
use super::{Asks, Draft, Link, Part, SentDatagram, VERY_THIN};
use crate::lane::{LaneReceiver, Probe, Room};
use crate::{Carries, Fill, NextBulk, Service};
use wavelane_base::{Class, Instant, Span};
use wavelane_wire::Writer;
use wavelane_wire::datagram::{DATA_HEADER_LEN, OPEN_LEN_LEN, TAG_LEN};
use wavelane_wire::frame::{Frame, LaneAck, Ranges, RepairFrame};

/// Most octets of a lane ack before its ranges.
const LANE_ACK_HEAD_MAX: usize = 2 + 5 * 8;
/// Ranges in an ack that shares its datagram with data; a datagram of its own may carry [`RANGES_ALONE`].
pub(super) const RANGES_SHARED: usize = 12;
/// Ranges in an ack that travels alone.
const RANGES_ALONE: usize = 64;
/// The same on a return path of a few kilobit a second: there 64 ranges take a second.
const RANGES_THIN: usize = 24;
/// The cost of a repair symbol in addition to its frame.
const SYMBOL_OVERHEAD: usize = 56;
/// An ack waits at most this long for a datagram with data.
const ACK_WAIT_MAX: Span = Span::from_millis(100);
/// A batch takes at most this long at the lane's rate, so that more urgent data waits no longer.
const BATCH_SPAN: Span = Span::from_millis(1);

/// A datagram's plaintext: its length, and how many of its last octets are left open.
pub(super) struct Plain {
    len: usize,
    open: usize,
}

impl From<usize> for Plain {
    fn from(len: usize) -> Self {
        Self { len, open: 0 }
    }
}

impl From<(usize, usize)> for Plain {
    fn from((len, open): (usize, usize)) -> Self {
        Self { len, open }
    }
}

impl<S: Service> Link<S> {
    /// Writes the plaintext of a lane's next datagram at `buf[DATA_HEADER_LEN..]`; `None` if nothing may be sent on it now.
    pub fn compose(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<Draft> {
        if self.lanes[at].is_closed() {
            return None;
        }
        if let Some(draft) = self.compose_double(now, at, buf) {
            return Some(draft);
        }
        if let Some(draft) = self.compose_ack_copy(now, at, buf) {
            return Some(draft);
        }
        let probe = self.lanes[at].sender.poll_probe(now);
        if let Some(Probe::Mtu { datagram }) = probe {
            return self.compose_mtu_probe(now, at, buf, datagram);
        }
        let asks = probe == Some(Probe::Tail) && self.lanes.are_several_quick();
        let tail = probe == Some(Probe::Tail) && self.lanes.tail_carries(at);
        if tail {
            self.service.doubt_oldest();
        }
        let mut wanted = self.service.wants(now);
        if wanted.is_none() && self.repeat_late(now, at) {
            wanted = self.service.wants(now);
        }
        self.busy.note(now, self.service.bulk());
        if probe.is_none()
            && let Some(draft) = self.compose_symbol(now, at, wanted, buf)
        {
            return Some(draft);
        }
        // An answer to a challenge carries acks at once: the other side waits to learn what did not arrive.
        let path_frames = self.path_frames_are_due(now, at);
        // Acks take the lane on which they arrive soonest: the RTT samples should reflect the other lane alone.
        let acks = at == self.lanes.first();
        let due = acks && self.ack_due(now) || path_frames;
        let asks = asks || acks && self.asks.due || self.lanes[at].echoes.wait();
        let must_ping = probe.is_some()
            || self.lanes[at].ping
            || path_frames
            || acks && (self.going.waits() || self.costs_wait())
            || asks;
        let (mut class, datagram_max) = self.allowed(now, at, wanted, tail);
        if class.is_none() && !must_ping && (!due || self.ack_can_wait(now, at, wanted)) {
            if self.lanes.gauges(now, at, self.liveness.is_in_use(now), wanted.is_some(), &self.first) {
                return self.compose_gauge(now, at, buf);
            }
            return None;
        }
        let very_thin = self.told_apart() >= VERY_THIN;
        let ranges = match class {
            Some(_) => RANGES_SHARED,
            None if very_thin => RANGES_THIN,
            None => RANGES_ALONE,
        };
        if class.is_none() && (due || must_ping) {
            // A datagram that is sent anyway takes small frames along.
            class = wanted.filter(|class| *class == Class::Control && acks);
        }
        let thin = acks && self.is_thin();
        if thin && self.service.hasten() && class.is_none() {
            class = Some(Class::Control);
        }
        let second = self.doubles(now, at).filter(|_| class >= Some(Class::Micro) && !tail);
        if second.is_some() {
            // Bulk is not part of the copied datagram.
            class = Some(Class::Micro);
        }
        let carries = if tail { Carries::All } else { self.carries(now, at, class) };
        let why = self.why_protect(now, at, class.filter(|_| !tail), carries);
        let reserve = if why.is_some() { RESERVE } else { 0 };
        let end = datagram_max.min(buf.len()).checked_sub(TAG_LEN + reserve)?;
        let mut w = Writer::new(buf.get_mut(DATA_HEADER_LEN..end)?);
        let mut record = SentDatagram::default();
        if why.is_some() {
            Frame::Protected.emit(&mut w).ok()?;
        }
        if acks && (due || thin && self.receivers.iter().any(|lane| lane.rides(now))) {
            put_repaired(&mut self.to_tell, &mut w);
            put_acks(now, &mut self.receivers, ranges, &mut w);
            let in_use = self.liveness.is_in_use(now);
            self.lanes.note_acks(now, at, in_use);
        }
        let mut eliciting = self.put_path_frames(now, at, &mut w);
        if acks {
            record.gone = self.put_gone(&mut w);
            eliciting |= record.gone != 0;
            // A neighbour that does not know the frame is not asked by it for an ack.
            record.costs = self.put_costs(&mut w);
        }
        let asked = self.put_wish(now, at, class.is_some(), asks, &mut w);
        record.echo = if asked { self.lanes[at].echoes.next(now) } else { None };
        if asks && asked && self.asks.due {
            self.asks = Asks { made_by: Some((at as u8, self.lanes[at].sender.next_number())), ..Asks::default() };
        }
        eliciting |= asked;
        let (mut wrote_media, mut copied, mut open) = (false, 0..0, 0);
        if let Some(class) = class {
            let full = end.saturating_sub(DATA_HEADER_LEN);
            let before = w.len();
            self.liveness.used(now);
            let (load, budget) = (&mut record.load, &mut self.budget);
            // What symbols cover, or another lane repeats, is sealed whole.
            let may_be_open = self.lanes[at].may_be_open && why.is_none() && second.is_none();
            let compresses = self.compresses;
            let mut fill = Fill { class, carries, full, w: &mut w, load, may_be_open, compresses, open: 0, budget };
            wrote_media = self.service.fill(now, &mut fill);
            open = fill.open;
            record.carries = w.len() > before;
            eliciting |= record.carries;
            copied = before..w.len();
        }
        if must_ping && !eliciting {
            eliciting = Frame::Ping.emit(&mut w).is_ok();
        }
        if w.len() == usize::from(why.is_some()) {
            return None;
        }
        let plain_len = w.len();
        if let Some(second) = second.filter(|_| !copied.is_empty()) {
            let copied = DATA_HEADER_LEN + copied.start..DATA_HEADER_LEN + copied.end;
            self.put_double(now, second, &buf[copied]);
        }
        let app_limited = self.service.wants(now).is_none();
        match why {
            // The media were dropped from the queue meanwhile: nothing here needs symbols.
            Some(Why::Media) if !wrote_media => {
                Frame::Padding.emit(&mut Writer::new(&mut buf[DATA_HEADER_LEN..=DATA_HEADER_LEN])).ok()?;
            }
            Some(why) => record.repair = self.protect(now, at, &buf[DATA_HEADER_LEN..DATA_HEADER_LEN + plain_len], why),
            None => {}
        }
        let lane = &mut self.lanes[at];
        if app_limited {
            lane.guard.stretch_ended(now, &lane.path);
        } else {
            lane.guard.went_on(now, lane.sender.next_number(), &lane.path);
        }
        let class = wanted.unwrap_or(Class::Control);
        Some(self.send(now, at, (plain_len, open), class, eliciting, app_limited, record))
    }

    /// Whether the acks that are due may wait for a datagram with data that leaves soon: sent alone they would cost a slow lane several per
    /// cent.
    fn ack_can_wait(&self, now: Instant, at: usize, wanted: Option<Class>) -> bool {
        let due = self.receivers.iter().filter(|lane| lane.ack_due(now));
        let rtt = self.lanes[at].path.rtt;
        let patience = due.map(|lane| lane.ack_patience(ACK_WAIT_MAX, rtt)).min().unwrap_or(ACK_WAIT_MAX);
        let soon = || self.lanes[at].sender.bulk_opens().is_some_and(|at| at > now && at.since(now) <= patience);
        wanted.is_some() && self.service.lets_acks_wait() && patience > Span::ZERO && soon()
    }

    /// Registers a written datagram with its lane.
    #[expect(clippy::too_many_arguments, reason = "what a lane is told of a datagram, each once")]
    pub(super) fn send(
        &mut self,
        now: Instant,
        at: usize,
        plain: impl Into<Plain>,
        class: Class,
        eliciting: bool,
        app_limited: bool,
        record: SentDatagram<S::Load>,
    ) -> Draft {
        let Plain { len: plain_len, open } = plain.into();
        let lane = &mut self.lanes[at];
        let draft = Draft { lane: at as u8, number: lane.sender.next_number(), plain_len, open, class };
        let around = DATA_HEADER_LEN + TAG_LEN + if open > 0 { OPEN_LEN_LEN } else { 0 };
        lane.sender.sent(now, plain_len + around, eliciting, app_limited, record);
        if lane.skips.skips(lane.sender.next_number()) {
            lane.sender.skip_number(now);
        }
        self.note_sent(now, at, eliciting);
        draft
    }

    /// Adds the next datagram to those covered by symbols.
    fn protect(&mut self, now: Instant, at: usize, plain: &[u8], why: Why) -> Part {
        let lane = &mut self.lanes[at];
        let number = lane.sender.next_number();
        lane.guard.protect(now, number, plain, why);
        lane.guard.end_gathered(now, &lane.path);
        Part::Protected(number, why)
    }

    /// The next repair symbol, if one is due, the lane has room for it, and nothing more urgent waits.
    fn compose_symbol(&mut self, now: Instant, at: usize, wanted: Option<Class>, buf: &mut [u8]) -> Option<Draft> {
        let lane = &mut self.lanes[at];
        if !lane.guard.is_due(now) || wanted.is_some_and(|class| class < Class::Bulk) {
            return None;
        }
        let Room::Open { datagram_max } = lane.sender.room(now, Class::Bulk) else { return None };
        let end = datagram_max.min(buf.len()).checked_sub(TAG_LEN)?;
        let fits = DATA_HEADER_LEN + lane.guard.frame_len() <= end;
        if !fits {
            // Packets became smaller: losses are retransmitted instead.
            lane.guard.drop_plan();
            return None;
        }
        if !self.budget.spend(now, (lane.guard.frame_len() + SYMBOL_OVERHEAD) as u64) {
            // The repair budget is used up.
            lane.guard.postpone(now);
            return None;
        }
        let repair = lane.guard.take_symbol()?;
        let mut w = Writer::new(buf.get_mut(DATA_HEADER_LEN..end)?);
        let (key, first, mask) = (repair.key, repair.first, repair.mask);
        Frame::Repair(RepairFrame { lane: at as u8, key, first, mask, symbol: &repair.symbol }).emit(&mut w).ok()?;
        let plain_len = w.len();
        let record = SentDatagram { repair: Part::Symbol, ..SentDatagram::default() };
        Some(self.send(now, at, plain_len, Class::Bulk, true, wanted.is_none(), record))
    }

    /// Which part of the waiting data the next datagram takes: where symbols help, media get datagrams of their own.
    fn carries(&mut self, now: Instant, at: usize, class: Option<Class>) -> Carries {
        let helps = self.budget.is_lossy() && !is_bursty(self.lanes[at].path.burst);
        match class.filter(|class| helps && *class >= Class::Micro) {
            Some(class) => self.service.carries(now, class, &mut self.budget),
            None => Carries::All,
        }
    }

    /// Whether and why the next datagram is protected.
    fn why_protect(&mut self, now: Instant, at: usize, class: Option<Class>, carries: Carries) -> Option<Why> {
        if carries == Carries::Media {
            return Some(Why::Media);
        }
        if class != Some(Class::Bulk) || !self.budget.is_lossy() {
            return None;
        }
        let next = self.service.next_bulk(now)?;
        if next == NextBulk::End {
            return Some(Why::Ends);
        }
        // Called in any case, because the guard measures how long its condition has held.
        let lane = &mut self.lanes[at];
        let repeats = lane.guard.protects_repeats(now, &lane.path);
        (repeats && next == NextBulk::Repeat).then_some(Why::Repeats)
    }

    /// The least urgent class that may be sent on this lane now, and the maximum size of the datagram.
    fn allowed(&self, now: Instant, at: usize, wanted: Option<Class>, tail: bool) -> (Option<Class>, usize) {
        let full = self.lanes[at].sender.datagram_max();
        let Some(wanted) = wanted else { return (None, full) };
        if tail {
            return (Some(if self.lanes[at].carries_bulk() { Class::Bulk } else { Class::Micro }), full);
        }
        // A padded ping that was lost, as one of the other side may have been, is worth another before the first window follows unasked.
        if wanted == Class::Bulk && self.lanes.gauges_before_bulk(at, &self.first) {
            return (None, full);
        }
        let offer = self.lanes.offer(now, wanted, self.busy.span(now)).filter(|offer| offer.lane == at);
        offer.map_or((None, full), |offer| (Some(offer.class), offer.datagram_max))
    }

    /// A padded ping: the time it takes shows the lane's rate before data is sent on it.
    fn compose_gauge(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<Draft> {
        let datagram = self.lanes[at].sender.datagram_max();
        let plain_len = datagram.checked_sub(DATA_HEADER_LEN + TAG_LEN)?;
        let body = buf.get_mut(DATA_HEADER_LEN..DATA_HEADER_LEN + plain_len)?;
        body.fill(0);
        let mut w = Writer::new(body);
        Frame::Ping.emit(&mut w).ok()?;
        self.lanes[at].gauge_sent(now);
        if !self.lanes.are_several() {
            // Data follow as soon as the flow that begins now is accepted: the rate is to be known by then.
            self.put_wish(now, at, false, true, &mut w);
            let sender = &mut self.lanes[at].sender;
            let number = sender.next_number();
            sender.sent_gauge(now, datagram);
            self.note_sent(now, at, true);
            return Some(Draft { lane: at as u8, number, plain_len, open: 0, class: Class::Bulk });
        }
        Some(self.send(now, at, plain_len, Class::Bulk, true, true, SentDatagram::default()))
    }

    /// Called when nothing waits and the first lane has room: packets in flight on another lane that would arrive sooner if resent on this
    /// one are taken for lost. Returns whether there were any. Otherwise the end of a transfer would wait for the slowest lane.
    fn repeat_late(&mut self, now: Instant, at: usize) -> bool {
        if !self.lanes.may_repeat(now, at) {
            return false;
        }
        for other in 0..self.lanes.len() {
            while other != at && self.lanes.give_up_late(now, other) {
                self.settle_lane(now, other);
                if self.service.wants(now).is_some() {
                    return true;
                }
            }
        }
        false
    }

    fn compose_mtu_probe(&mut self, now: Instant, at: usize, buf: &mut [u8], datagram: usize) -> Option<Draft> {
        let plain_len = datagram.checked_sub(DATA_HEADER_LEN + TAG_LEN)?;
        let body = buf.get_mut(DATA_HEADER_LEN..DATA_HEADER_LEN + plain_len)?;
        // The padding frame is a zero byte.
        body.fill(0);
        Frame::Ping.emit(&mut Writer::new(body)).ok()?;
        let sender = &mut self.lanes[at].sender;
        let number = sender.next_number();
        sender.sent_mtu_probe(now, datagram);
        self.note_sent(now, at, true);
        Some(Draft { lane: at as u8, number, plain_len, open: 0, class: Class::Bulk })
    }

    /// How many datagrams as long as `first` may be sent as one batch: one if it is shorter than the maximum, else at most `BATCH_SPAN`
    /// of the lane's time.
    pub fn batch_max(&self, at: usize, first: usize) -> usize {
        let lane = &self.lanes[at];
        if first != lane.sender.datagram_max() || lane.sender.is_single() {
            return 1;
        }
        let octets = lane.sender.rate().octets_in(BATCH_SPAN).get();
        usize::try_from(octets).unwrap_or(usize::MAX) / (first + lane.overhead())
    }

    /// Whether a lane's next datagram is a probe, or has to ask for an ack as probes do: it is sent alone.
    pub fn probe_waits(&self, now: Instant, at: usize) -> bool {
        self.lanes[at].sender.probe_waits(now)
    }

    fn note_sent(&mut self, now: Instant, at: usize, eliciting: bool) {
        self.lanes[at].note_sent(now, eliciting);
        self.first.sent(eliciting);
        self.counters.datagrams_sent += 1;
        if self.lanes.counts(at) {
            self.liveness.sent(now, eliciting);
        }
        // This may be the first use for a while.
        self.greet(now);
    }

    /// Appends the wish for acks if the neighbour does not have it, and with `asks` the request for one at once, by the same path too. Returns
    /// whether it did.
    fn put_wish(&mut self, now: Instant, at: usize, leaving: bool, asks: bool, w: &mut Writer<'_>) -> bool {
        let sender = &mut self.lanes[at].sender;
        let pending = sender.ack_wish().filter(|_| leaving);
        let Some((packets, delay)) = pending.or_else(|| asks.then(|| sender.told_wish())) else { return false };
        let frame = Frame::AckWish { lane: at as u8, packets, delay_us: delay.as_micros(), now: asks };
        let written = frame.emit(w).is_ok();
        if written && pending.is_some() {
            sender.wish_sent(now);
        }
        written
    }

    /// The ack that a tail probe asked for by its own lane.
    fn compose_ack_copy(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<Draft> {
        let ack = self.lanes[at].ack_copy.take()?;
        if !self.lanes[at].sender.takes_answers() {
            return None;
        }
        let end = self.lanes[at].sender.datagram_max().min(buf.len()).checked_sub(TAG_LEN)?;
        let mut w = Writer::new(buf.get_mut(DATA_HEADER_LEN..end)?);
        if !put_ack(ack, &mut w) {
            return None;
        }
        let plain_len = w.len();
        Some(self.send(now, at, plain_len, Class::Control, false, true, SentDatagram::default()))
    }
}

/// Appends reports of datagrams rebuilt from symbols, lane by lane; they precede the acks that report these as lost.
fn put_repaired(to_tell: &mut Vec<(u8, u64)>, w: &mut Writer<'_>) {
    to_tell.sort_unstable();
    while let Some(&(lane, number)) = to_tell.last() {
        let numbers = Ranges(vec![(number, number)]);
        if (Frame::Repaired { lane, numbers }).emit(w).is_err() {
            return;
        }
        to_tell.pop();
    }
}

/// Appends the acks that are due or ride along, each with up to `ranges` ranges. One that does not fit waits for the next datagram, unless
/// not even an empty one had room for the longest of its kind: then it takes as many ranges as really fit.
fn put_acks(now: Instant, receivers: &mut [LaneReceiver], ranges: usize, w: &mut Writer<'_>) {
    let fitting = |room: usize| {
        room.saturating_sub(LANE_ACK_HEAD_MAX + Ranges::len_max(0)) / (Ranges::len_max(1) - Ranges::len_max(0))
    };
    let shared = ranges.min(RANGES_SHARED);
    let narrow = fitting(w.len() + w.room()) < shared;
    for receiver in receivers.iter_mut().filter(|lane| lane.ack_due(now) || lane.rides(now)) {
        let most = if narrow { shared } else { ranges.min(fitting(w.room())) };
        // Ahead of what shares a narrow datagram with it only a mark stands, which takes an octet.
        if most < shared || narrow && w.len() > 1 {
            return;
        }
        if let Some(ack) = receiver.take_ack(now, most) {
            put_ack(ack, w);
        }
    }
}

/// Appends an ack without its oldest ranges if they do not fit. Returns whether it did.
fn put_ack(mut ack: LaneAck, w: &mut Writer<'_>) -> bool {
    loop {
        let frame = Frame::LaneAck(ack);
        if frame.emit(w).is_ok() {
            return true;
        }
        let Frame::LaneAck(longer) = frame else { return false };
        ack = longer;
        if ack.ranges.0.len() <= 1 {
            return false;
        }
        ack.ranges.0.pop();
    }
}
