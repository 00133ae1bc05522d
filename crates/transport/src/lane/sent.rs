//! The map of sent packets and loss detection by packet and time threshold with adaptive reordering
//! (RFC 9002, section 6.1; the reordering window follows RFC 8985, section 6.2).

use std::collections::VecDeque;
use wavelane_base::RangeSet;
use wavelane_base::{Instant, Span};
use wavelane_wire::frame::LaneAck;

/// Packets tracked, at least. The maximum is as many full ones as half the pool holds: no more bytes are in flight. When one more is sent,
/// the oldest is taken for lost.
pub(crate) const SENT_MIN: usize = 65_536;
/// Of packets that ask for no ack and have no outcome this many are tracked: they do not count towards the window, and a neighbour that
/// never acknowledges them would make us keep all the others too. An honest neighbour acks one in some dozens.
pub(super) const SILENT_MAX: usize = 8_192;
/// A packet is lost once one sent this many numbers later has arrived (RFC 9002, section 6.1.1), as long as no reordering was seen on the
/// path.
const PACKET_THRESHOLD: u64 = 3;
/// An observed reordering distance is forgotten after this many round trips without reordering.
const REORDER_MEMORY_RTTS: u64 = 16;

/// The state of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    InFlight,
    Delivered,
    Lost,
    /// Its number was never sent.
    Skipped,
}

/// What the lane stores of a packet.
#[derive(Debug)]
struct Packet<R> {
    sent_at: Instant,
    bytes: u32,
    /// Bytes of all packets up to and with this one.
    end: u64,
    state: State,
    eliciting: bool,
    app_limited: bool,
    mtu_probe: bool,
    record: Option<R>,
}

/// A packet as it enters the map.
pub(super) struct Leaving<R> {
    pub(super) bytes: u32,
    pub(super) eliciting: bool,
    pub(super) app_limited: bool,
    pub(super) mtu_probe: bool,
    pub(super) record: Option<R>,
}

/// A packet whose fate became known, as passed to the lane's estimators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Resolved {
    pub(super) number: u64,
    pub(super) sent_at: Instant,
    pub(super) bytes: u32,
    pub(super) end: u64,
    pub(super) eliciting: bool,
    pub(super) app_limited: bool,
    pub(super) mtu_probe: bool,
    pub(super) lost: bool,
    /// Time since the packet sent before it, and until the one sent after it, if known.
    pub(super) gap_before: Option<Span>,
    /// See `gap_before`.
    pub(super) gap_after: Option<Span>,
}

#[cfg(test)]
impl Resolved {
    /// A full packet of a lane that has always more to send.
    pub(super) fn full(number: u64, sent_at: Instant, lost: bool) -> Self {
        Self {
            number,
            sent_at,
            bytes: 1500,
            end: 1500 * (number + 1),
            eliciting: true,
            app_limited: false,
            mtu_probe: false,
            lost,
            gap_before: None,
            gap_after: None,
        }
    }
}

/// All packets that have no outcome yet, and some that have.
#[derive(Debug)]
pub(super) struct SentMap<R> {
    first: u64,
    packets: VecDeque<Packet<R>>,
    /// Every packet below has its outcome.
    settled: u64,
    packets_max: usize,
    /// Numbers from `first` on that were acknowledged: repeated ranges of acks are skipped at no cost.
    acked: RangeSet,
    /// Numbers from `first` on that were never sent, ascending.
    skipped: VecDeque<u64>,
    bytes_sent: u64,
    in_flight: u64,
    eliciting_in_flight: usize,
    silent_in_flight: usize,
    largest_acked: Option<(u64, Instant)>,
    /// By how much later packets were seen to overtake earlier ones, in sending time.
    reorder: Span,
    reorder_seen: Instant,
    spurious: u64,
    optimistic: u64,
}

impl<R> SentMap<R> {
    /// Tracks at most `packets_max` packets.
    pub(super) fn new(packets_max: usize) -> Self {
        Self {
            packets_max,
            first: 0,
            packets: VecDeque::new(),
            settled: 0,
            acked: RangeSet::default(),
            skipped: VecDeque::new(),
            bytes_sent: 0,
            in_flight: 0,
            eliciting_in_flight: 0,
            silent_in_flight: 0,
            largest_acked: None,
            reorder: Span::ZERO,
            reorder_seen: Instant::ZERO,
            spurious: 0,
            optimistic: 0,
        }
    }

    /// Numbers before `first` belong to an earlier run of the neighbour.
    pub(super) fn start_at(&mut self, first: u64) {
        assert!(self.packets.is_empty(), "only an empty map can start elsewhere");
        self.first = first;
    }

    pub(super) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }
    pub(super) fn spurious(&self) -> u64 {
        self.spurious
    }
    /// Acks of numbers that were never sent.
    pub(super) fn optimistic(&self) -> u64 {
        self.optimistic
    }
    /// The largest number acknowledged.
    pub(super) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked.map(|l| l.0)
    }

    /// Adds a packet; if the map is full the oldest one is settled as lost and returned.
    pub(super) fn push(&mut self, now: Instant, packet: Leaving<R>) -> Option<(Resolved, Option<R>)> {
        let evicted = self.make_room();
        self.bytes_sent += u64::from(packet.bytes);
        // Packets that ask for no ack may never be acknowledged, so they do not fill the window (RFC 9002, section 2).
        if packet.eliciting {
            self.in_flight += u64::from(packet.bytes);
            self.eliciting_in_flight += 1;
        } else {
            self.silent_in_flight += 1;
        }
        self.packets.push_back(Packet {
            sent_at: now,
            bytes: packet.bytes,
            end: self.bytes_sent,
            state: State::InFlight,
            eliciting: packet.eliciting,
            app_limited: packet.app_limited,
            mtu_probe: packet.mtu_probe,
            record: packet.record,
        });
        evicted
    }

    /// How many packets are tracked.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.packets.len()
    }

    /// If the map is full the oldest packet is settled as lost and returned.
    fn make_room(&mut self) -> Option<(Resolved, Option<R>)> {
        if self.packets.len() < self.packets_max && self.silent_in_flight < SILENT_MAX {
            return None;
        }
        let evicted = self.settle(self.first, State::Lost);
        self.drop_first();
        self.settled = self.settled.max(self.first);
        evicted
    }

    /// Skips one number: an ack of it is optimistic (RFC 9000, section 21.4).
    pub(super) fn skip(&mut self, now: Instant) -> Option<(Resolved, Option<R>)> {
        let evicted = self.make_room();
        self.skipped.push_back(self.next_number());
        self.packets.push_back(Packet {
            sent_at: now,
            bytes: 0,
            end: self.bytes_sent,
            state: State::Skipped,
            eliciting: false,
            app_limited: false,
            mtu_probe: false,
            record: None,
        });
        evicted
    }

    fn settle(&mut self, number: u64, state: State) -> Option<(Resolved, Option<R>)> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let left = |place: usize| self.packets.get(place).map(|p| p.sent_at);
        let (before, after) = (place.checked_sub(1).and_then(left), left(place + 1));
        let packet = self.packets.get_mut(place)?;
        if packet.state != State::InFlight {
            return None;
        }
        packet.state = state;
        if packet.eliciting {
            self.in_flight -= u64::from(packet.bytes);
            self.eliciting_in_flight -= 1;
        } else {
            self.silent_in_flight -= 1;
        }
        let resolved = Resolved {
            number,
            sent_at: packet.sent_at,
            bytes: packet.bytes,
            end: packet.end,
            eliciting: packet.eliciting,
            app_limited: packet.app_limited,
            mtu_probe: packet.mtu_probe,
            lost: state == State::Lost,
            gap_before: before.map(|at| packet.sent_at.since(at)),
            gap_after: after.map(|at| at.since(packet.sent_at)),
        };
        Some((resolved, packet.record.take()))
    }

    /// The record of packet `number`, once.
    pub(super) fn take_record(&mut self, number: u64) -> Option<R> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.packets.get_mut(place)?.record.take()
    }

    /// The records of all packets without an outcome, oldest first, once.
    pub(super) fn take_records(&mut self) -> impl Iterator<Item = R> + '_ {
        let settled = usize::try_from(self.settled.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.packets.iter_mut().skip(settled).filter_map(|packet| packet.record.take())
    }

    /// The number and record of the oldest packet from number `from` on that has no outcome, was sent late enough for `since`, and whose
    /// record is `wanted`.
    pub(super) fn take_later(
        &mut self,
        from: u64,
        since: impl Fn(Instant) -> bool,
        wanted: impl Fn(&R) -> bool,
    ) -> Option<(u64, R)> {
        let late = self.packets.partition_point(|packet| !since(packet.sent_at)) as u64;
        let start = from.max(self.settled).max(self.first + late).saturating_sub(self.first);
        for (place, packet) in self.packets.iter_mut().enumerate().skip(usize::try_from(start).unwrap_or(usize::MAX)) {
            if packet.state == State::InFlight && packet.record.as_ref().is_some_and(&wanted) {
                return packet.record.take().map(|record| (self.first + place as u64, record));
            }
        }
        None
    }

    /// The record of the oldest packet that has no outcome, was sent before `before`, and whose record is `wanted`.
    pub(super) fn take_overdue(&mut self, before: Instant, wanted: impl Fn(&R) -> bool) -> Option<R> {
        let settled = usize::try_from(self.settled.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut old = self.packets.iter_mut().skip(settled).take_while(|packet| packet.sent_at < before);
        let is_wanted =
            |packet: &&mut Packet<R>| packet.state == State::InFlight && packet.record.as_ref().is_some_and(&wanted);
        old.find(is_wanted)?.record.take()
    }

    /// Settles what `ack` newly acknowledges, smallest number last. Returns false, and does nothing else, if the ack contains numbers never
    /// sent.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        ack: &LaneAck,
        mut each: impl FnMut(Resolved, Option<R>),
    ) -> bool {
        if ack.ranges.0.iter().any(|&(first, last)| last >= self.next_number() || first > last) {
            self.optimistic += 1;
            return false;
        }
        let lie = |number: &u64| ack.ranges.0.iter().any(|(first, last)| (first..=last).contains(&number));
        if self.skipped.iter().any(lie) {
            self.optimistic += 1;
            return false;
        }
        let before = self.largest_acked;
        for &(first, last) in &ack.ranges.0 {
            let news = self.acked.gaps(first.max(self.first), last + 1);
            for (start, end) in news.into_iter().rev() {
                for number in (start..end).rev() {
                    self.acknowledge_one(now, number, before, &mut each);
                }
                self.acked.insert(start, end);
            }
        }
        true
    }

    fn acknowledge_one(
        &mut self,
        now: Instant,
        number: u64,
        before: Option<(u64, Instant)>,
        each: &mut impl FnMut(Resolved, Option<R>),
    ) {
        let Some(i) = number.checked_sub(self.first) else { return };
        let Some(packet) = self.packets.get_mut(i as usize) else { return };
        if packet.state == State::Lost {
            packet.state = State::Delivered;
            self.spurious += 1;
        }
        let sent_at = packet.sent_at;
        match before {
            Some((largest, largest_sent)) if number < largest => {
                self.note_reordering(now, largest_sent.since(sent_at));
            }
            _ => {}
        }
        if self.largest_acked.is_none_or(|l| number > l.0) {
            self.largest_acked = Some((number, sent_at));
        }
        if let Some((resolved, record)) = self.settle(number, State::Delivered) {
            each(resolved, record);
        }
    }

    fn note_reordering(&mut self, now: Instant, distance: Span) {
        self.reorder = self.reorder.max(distance);
        self.reorder_seen = now;
    }

    /// Settles packets that count as lost by now. `loss_delay` is RFC 9002's time threshold.
    pub(super) fn detect_lost(
        &mut self,
        now: Instant,
        rtt: Span,
        loss_delay: Span,
        mut each: impl FnMut(Resolved, Option<R>),
    ) {
        if now.since(self.reorder_seen) > rtt.times(REORDER_MEMORY_RTTS) {
            self.reorder = Span::ZERO;
        }
        let Some((largest, largest_sent)) = self.largest_acked else { return };
        let tolerance = self.tolerance(rtt);
        for number in self.settled.max(self.first)..largest {
            let Some(packet) = self.packets.get((number - self.first) as usize) else { break };
            if packet.state != State::InFlight {
                continue;
            }
            let overtaken = match tolerance {
                None => largest - number >= PACKET_THRESHOLD,
                Some(window) => largest_sent.since(packet.sent_at) > window,
            };
            if !overtaken && now < packet.sent_at + loss_delay + tolerance.unwrap_or(Span::ZERO) {
                // Nor is any later one lost: both marks move with the time of sending.
                break;
            }
            if let Some((resolved, record)) = self.settle(number, State::Lost) {
                each(resolved, record);
            }
        }
        self.advance_settled();
        self.forget(now, rtt);
    }

    /// The reordering window, once reordering was seen.
    fn tolerance(&self, rtt: Span) -> Option<Span> {
        (self.reorder > Span::ZERO).then(|| self.reorder.scale(5, 4).min(rtt))
    }

    fn advance_settled(&mut self) {
        self.settled = self.settled.max(self.first);
        while self.packets.get((self.settled - self.first) as usize).is_some_and(|p| p.state != State::InFlight) {
            self.settled += 1;
        }
    }

    /// Drops settled packets from the front; lost ones are kept for a while in case they still arrive.
    fn forget(&mut self, now: Instant, rtt: Span) {
        let keep = rtt.times(2);
        while let Some(packet) = self.packets.front() {
            let old = match packet.state {
                State::InFlight => false,
                State::Delivered | State::Skipped => true,
                State::Lost => now.since(packet.sent_at) > keep + rtt,
            };
            if !old {
                break;
            }
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.packets.pop_front();
        self.first += 1;
        while self.acked.first().is_some_and(|(_, end)| end <= self.first) {
            self.acked.pop_first();
        }
        while self.skipped.front().is_some_and(|number| *number < self.first) {
            self.skipped.pop_front();
        }
    }

    /// When the time threshold will next declare a packet lost.
    pub(super) fn loss_time(&self, rtt: Span, loss_delay: Span) -> Option<Instant> {
        let largest = self.largest_acked?.0;
        let wait = loss_delay + self.tolerance(rtt).unwrap_or(Span::ZERO);
        (self.settled.max(self.first)..largest)
            .find_map(|n| self.packets.get((n - self.first) as usize).filter(|p| p.state == State::InFlight))
            .map(|p| p.sent_at + wait)
    }
    /// When the newest eliciting packet without an outcome was sent.
    pub(super) fn newest_eliciting(&self) -> Option<Instant> {
        if self.eliciting_in_flight == 0 {
            return None;
        }
        // Lost ones are below `settled`, and acknowledged ranges are skipped as a whole.
        let (mut top, mut acked) = (self.next_number(), self.acked.descending().peekable());
        while top > self.settled.max(self.first) {
            if let Some((start, end)) = acked.next_if(|(_, end)| *end >= top) {
                top = top.min(end).min(start);
                continue;
            }
            top -= 1;
            let packet = self.packets.get((top - self.first) as usize)?;
            if packet.eliciting && packet.state == State::InFlight {
                return Some(packet.sent_at);
            }
        }
        None
    }
}
