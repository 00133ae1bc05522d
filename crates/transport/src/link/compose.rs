//! What leaves: one datagram at a time, and what it carries.

use super::guard::{RESERVE, Why, is_bursty};
use super::{Draft, Link, Part, SentDatagram, VERY_THIN};
use crate::lane::{LaneReceiver, Probe, Room};
use crate::{Carries, Fill, NextBulk, Service};
use wavelane_base::{Class, Instant, Span};
use wavelane_wire::Writer;
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
use wavelane_wire::frame::{Frame, Ranges, RepairFrame};

/// Most octets of a lane ack before its ranges.
const LANE_ACK_HEAD_MAX: usize = 2 + 5 * 8;
/// Ranges in an ack that shares its datagram with data; a datagram of its own may carry [`RANGES_ALONE`].
const RANGES_SHARED: usize = 12;
/// Ranges in an ack that travels alone.
const RANGES_ALONE: usize = 64;
/// On a way back of a few kilobit a second: 64 are a second of it.
const RANGES_THIN: usize = 24;
/// What a repair symbol costs beside its frame.
const SYMBOL_OVERHEAD: usize = 56;
/// An ack waits this long at most for a datagram with data.
const ACK_WAIT_MAX: Span = Span::from_millis(100);
/// A batch is never longer than this at the lane's rate: what follows it, maybe more urgent, waits no longer.
const BATCH_SPAN: Span = Span::from_millis(1);

impl<S: Service> Link<S> {
    /// Writes the plaintext of a lane's next datagram at `buf[DATA_HEADER_LEN..]`, or says that nothing may leave by it now.
    pub fn compose(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<Draft> {
        if self.lanes[at].is_closed() {
            return None;
        }
        if let Some(draft) = self.compose_double(now, at, buf) {
            return Some(draft);
        }
        let probe = self.lanes[at].sender.poll_probe(now);
        if let Some(Probe::Mtu { datagram }) = probe {
            return self.compose_mtu_probe(now, at, buf, datagram);
        }
        let tail = probe == Some(Probe::Tail) && self.lanes.tail_carries(at);
        if tail {
            self.service.doubt_oldest();
        }
        let mut wanted = self.service.wants(now);
        if wanted.is_none() && self.repeat_late(now, at) {
            wanted = self.service.wants(now);
        }
        self.busy_since = wanted.and(self.busy_since.or(Some(now)));
        if probe.is_none()
            && let Some(draft) = self.compose_symbol(now, at, wanted, buf)
        {
            return Some(draft);
        }
        // Who answers a challenge says at once what came: the other side waits to know what did not.
        let path_frames = self.path_frames_are_due(now, at);
        // Acks take the way by which they arrive soonest: what they measure is to be the other lane's round trip alone.
        let acks = at == self.lanes.first();
        let due = acks && self.ack_due(now) || path_frames;
        let must_ping = probe.is_some() || self.lanes[at].ping || path_frames || acks && self.going.waits();
        let (mut class, datagram_max) = self.allowed(now, at, wanted, tail);
        if class.is_none() && !must_ping && (!due || self.ack_can_wait(now, at, wanted)) {
            if self.lanes.gauges(now, at, self.liveness.is_in_use(now), wanted.is_some()) {
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
            // What leaves anyway takes small frames along.
            class = wanted.filter(|class| *class == Class::Control && acks);
        }
        let thin = acks && self.is_thin();
        if thin && self.service.hasten() && class.is_none() {
            class = Some(Class::Control);
        }
        let second = self.doubles(now, at).filter(|_| class >= Some(Class::Micro) && !tail);
        if second.is_some() {
            // Bulk is no part of what goes twice.
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
        }
        eliciting |= self.put_wish(now, at, class.is_some(), &mut w);
        let (mut wrote_media, mut copied) = (false, 0..0);
        if let Some(class) = class {
            let full = end.saturating_sub(DATA_HEADER_LEN);
            let before = w.len();
            self.liveness.used(now);
            let (load, budget) = (&mut record.load, &mut self.budget);
            wrote_media = self.service.fill(now, &mut Fill { class, carries, full, w: &mut w, load, budget });
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
            // The media were dropped in the queue meanwhile: nothing here needs symbols.
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
        Some(self.send(now, at, plain_len, wanted.unwrap_or(Class::Control), eliciting, app_limited, record))
    }

    /// Whether the acks that are due may wait for a datagram with data, which leaves soon: alone they would cost a slow
    /// lane several parts in a hundred.
    fn ack_can_wait(&self, now: Instant, at: usize, wanted: Option<Class>) -> bool {
        let due = self.receivers.iter().filter(|lane| lane.ack_due(now));
        let rtt = self.lanes[at].path.rtt;
        let patience = due.map(|lane| lane.ack_patience(ACK_WAIT_MAX, rtt)).min().unwrap_or(ACK_WAIT_MAX);
        let soon = || self.lanes[at].sender.bulk_opens().is_some_and(|at| at > now && at.since(now) <= patience);
        wanted.is_some() && self.service.lets_acks_wait() && patience > Span::ZERO && soon()
    }

    /// Tells the lane of a datagram that is written.
    #[expect(clippy::too_many_arguments, reason = "what a lane is told of a datagram, each once")]
    pub(super) fn send(
        &mut self,
        now: Instant,
        at: usize,
        plain_len: usize,
        class: Class,
        eliciting: bool,
        app_limited: bool,
        record: SentDatagram<S::Load>,
    ) -> Draft {
        let lane = &mut self.lanes[at];
        let draft = Draft { lane: at as u8, number: lane.sender.next_number(), plain_len, class };
        lane.sender.sent(now, DATA_HEADER_LEN + plain_len + TAG_LEN, eliciting, app_limited, record);
        if lane.skips.skips(lane.sender.next_number()) {
            lane.sender.skip_number(now);
        }
        self.note_sent(now, at, eliciting);
        draft
    }

    /// Puts the next datagram among those that symbols will repair.
    fn protect(&mut self, now: Instant, at: usize, plain: &[u8], why: Why) -> Part {
        let lane = &mut self.lanes[at];
        let number = lane.sender.next_number();
        lane.guard.protect(now, number, plain, why);
        lane.guard.end_gathered(now, &lane.path);
        Part::Protected(number, why)
    }

    /// The next repair symbol, if one is due, the lane takes it, and nothing more urgent waits.
    fn compose_symbol(&mut self, now: Instant, at: usize, wanted: Option<Class>, buf: &mut [u8]) -> Option<Draft> {
        let lane = &mut self.lanes[at];
        if !lane.guard.is_due(now) || wanted.is_some_and(|class| class < Class::Bulk) {
            return None;
        }
        let Room::Open { datagram_max } = lane.sender.room(now, Class::Bulk) else { return None };
        let end = datagram_max.min(buf.len()).checked_sub(TAG_LEN)?;
        let fits = DATA_HEADER_LEN + lane.guard.frame_len() <= end;
        if !fits {
            // Packets became smaller: what is lost is repeated.
            lane.guard.drop_plan();
            return None;
        }
        if !self.budget.spend(now, (lane.guard.frame_len() + SYMBOL_OVERHEAD) as u64) {
            // Repair has cost enough.
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

    /// Which part of what waits the next datagram takes: where symbols help, media travel in datagrams of their own.
    fn carries(&mut self, now: Instant, at: usize, class: Option<Class>) -> Carries {
        let helps = self.budget.is_lossy() && !is_bursty(self.lanes[at].path.burst);
        match class.filter(|class| helps && *class >= Class::Micro) {
            Some(class) => self.service.carries(now, class, &mut self.budget),
            None => Carries::All,
        }
    }

    /// Whether the next datagram is to be protected, and why.
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
        // Asked in any case: the guard has to see for how long.
        let lane = &mut self.lanes[at];
        let repeats = lane.guard.protects_repeats(now, &lane.path);
        (repeats && next == NextBulk::Repeat).then_some(Why::Repeats)
    }

    /// The least urgent class that may leave by this lane now, and how large the datagram may be.
    fn allowed(&self, now: Instant, at: usize, wanted: Option<Class>, tail: bool) -> (Option<Class>, usize) {
        let full = self.lanes[at].sender.datagram_max();
        let Some(wanted) = wanted else { return (None, full) };
        if tail {
            return (Some(if self.lanes[at].carries_bulk() { Class::Bulk } else { Class::Micro }), full);
        }
        let busy = self.busy_since.map_or(Span::ZERO, |since| now.since(since));
        let offer = self.lanes.offer(now, wanted, busy).filter(|offer| offer.lane == at);
        offer.map_or((None, full), |offer| (Some(offer.class), offer.datagram_max))
    }

    /// A padded ping: how long it takes shows what the lane carries before anything is entrusted to it.
    fn compose_gauge(&mut self, now: Instant, at: usize, buf: &mut [u8]) -> Option<Draft> {
        let plain_len = self.lanes[at].sender.datagram_max().checked_sub(DATA_HEADER_LEN + TAG_LEN)?;
        let body = buf.get_mut(DATA_HEADER_LEN..DATA_HEADER_LEN + plain_len)?;
        body.fill(0);
        Frame::Ping.emit(&mut Writer::new(body)).ok()?;
        self.lanes[at].gauge_sent(now);
        Some(self.send(now, at, plain_len, Class::Bulk, true, true, SentDatagram::default()))
    }

    /// Nothing waits, and the first lane has room: what is on its way by another and arrives sooner if it leaves by this one once more
    /// is taken for lost. Whether that is anything. Without it the end of a transfer waits for the slowest lane.
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
        Some(Draft { lane: at as u8, number, plain_len, class: Class::Bulk })
    }

    /// How many datagrams as long as `first` may leave as one batch: one alone unless it is as long as they come, and no
    /// more than [`BATCH_SPAN`] of the lane's time.
    pub fn batch_max(&self, at: usize, first: usize) -> usize {
        let lane = &self.lanes[at];
        if first != lane.sender.datagram_max() {
            return 1;
        }
        let octets = lane.sender.rate().octets_in(BATCH_SPAN).get();
        usize::try_from(octets).unwrap_or(usize::MAX) / (first + lane.overhead())
    }

    /// Whether a lane's next datagram is a probe, or asks for something as probes do: it leaves alone.
    pub fn probe_waits(&self, now: Instant, at: usize) -> bool {
        self.lanes[at].sender.probe_waits(now)
    }

    fn note_sent(&mut self, now: Instant, at: usize, eliciting: bool) {
        self.lanes[at].note_sent(now, eliciting);
        self.counters.datagrams_sent += 1;
        if self.lanes.counts(at) {
            self.liveness.sent(now, eliciting);
        }
        // It may be the first use for a while.
        self.greet(now);
    }

    /// Tells the neighbour, in a datagram that leaves anyway, how often we wish a lane to be acknowledged.
    fn put_wish(&mut self, now: Instant, at: usize, leaving: bool, w: &mut Writer<'_>) -> bool {
        let sender = &mut self.lanes[at].sender;
        let Some((packets, delay)) = sender.ack_wish().filter(|_| leaving) else { return false };
        let frame = Frame::AckWish { lane: at as u8, packets, delay_us: delay.as_micros(), now: false };
        let written = frame.emit(w).is_ok();
        if written {
            sender.wish_sent(now);
        }
        written
    }
}

/// Appends word of what was made from symbols, lane by lane; it goes before the acks that call it lost.
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

/// Appends the acks that are due or go along, each with as many of `ranges` as fit. One that does not fit waits for the next datagram.
fn put_acks(now: Instant, receivers: &mut [LaneReceiver], ranges: usize, w: &mut Writer<'_>) {
    for receiver in receivers.iter_mut().filter(|lane| lane.ack_due(now) || lane.rides(now)) {
        let fitting =
            w.room().saturating_sub(LANE_ACK_HEAD_MAX + Ranges::len_max(0)) / (Ranges::len_max(1) - Ranges::len_max(0));
        if fitting < ranges.min(RANGES_SHARED) {
            return;
        }
        if let Some(ack) = receiver.take_ack(now, ranges.min(fitting)) {
            let written = Frame::LaneAck(ack).emit(w);
            assert!(written.is_ok(), "room was checked");
        }
    }
}
