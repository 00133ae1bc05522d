//! Snooping (RFC 3135, section 3.1): TCP stays end to end, and segments that were lost behind us are sent again from here, before their sender
//! has to. Of each direction towards a snooped host the last segments are kept until that host acknowledges them; its duplicate acknowledgements
//! of what we send again go no further.
//!
//! Nothing is acknowledged or changed here: a segment that nobody kept is its sender's to repeat.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use wavelane_base::{Instant, Span};
use wavelane_wire::tcp::{Flags, SackBlocks, TcpPacket};

/// Segments that are kept of a direction.
pub const SEGMENTS_MAX: usize = 100;
/// How often one is sent again from here.
pub const TRIES_MAX: u8 = 10;
/// The least time after which one is sent again without an acknowledgement that asks for it.
const RTO_MIN: Span = Span::from_millis(100);
/// Before a round trip is known (RFC 6298, section 2): less than a longer one, it would be given to each segment, and of one that was sent
/// again no round trip is learned.
const RTO_FIRST: Span = Span::from_secs(1);
/// The most.
const RTO_MAX: Span = Span::from_secs(10);
/// The least time after which what asks for one may ask for its repeat: duplicates come in bursts.
const PATIENCE_MIN: Span = Span::from_millis(5);
/// A direction without packets is forgotten: its sender has the rest.
const IDLE: Span = Span::from_secs(60);
/// The largest window that TCP can offer (RFC 7323, section 2.3).
const WINDOW_MAX: u32 = 1 << 30;
/// More than any window without its scale.
const WINDOW_UNSCALED: u32 = 1 << 20;

/// How long after the first packet that we saw of a connection the host may acknowledge what had passed before: by then its sender has sent
/// again what was missing, or the way is slower than repairs from here are worth.
const EARLIER: Span = Span::from_secs(10);
/// So many acknowledgements in a row of less than the first one that we saw: that was forged, or reordering would be as deep as that.
const CONTRADICTIONS: u32 = 3;
/// Of the oldest directions so many are looked at for one to make room: a packet costs no more.
const GLANCES: usize = 16;
/// A connection with segments here of which was heard this lately is not over because a SYN says so: whoever begins anew after a crash repeats
/// it, and a direction without packets is forgotten.
const LIVE: Span = RTO_MAX;

/// A direction of a connection: sender and receiver of its data.
type Direction = (SocketAddr, SocketAddr);

/// What was done, for the status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Snooped {
    /// Segments that were kept.
    pub kept: u64,
    /// Segments that were not, for want of room.
    pub not_kept: u64,
    /// Segments that were sent again.
    pub sent_again: u64,
    /// Acknowledgements that went no further.
    pub suppressed: u64,
    /// Acknowledgements of what did not pass here, or not with the host's own numbers.
    pub beyond: u64,
}

#[derive(Debug)]
struct Segment {
    seq: u32,
    len: u32,
    packet: Box<[u8]>,
    at: Instant,
    tries: u8,
    /// By us or its sender.
    is_repeat: bool,
}

#[derive(Debug)]
struct Way {
    /// In order of sequence.
    segments: VecDeque<Segment>,
    /// Behind the last octet that passed, kept or not; none before the first.
    end: Option<u32>,
    /// Behind its FIN: once that is acknowledged there is nothing to repair.
    fin: Option<u32>,
    /// Seen from its SYN on: whatever the host has passed here.
    is_whole: bool,
    /// The shift of the host's windows, if its SYN was seen.
    scale: Option<u8>,
    /// The host's own last number.
    host: Option<u32>,
    /// The host itself has said something here. To nobody anything is sent again: whoever invents sources or numbers would have each of
    /// its segments sent ten times.
    speaks: bool,
    /// The last acknowledgement, and the window in it.
    acked: Option<(u32, u16)>,
    /// Acknowledgements in a row of less, before any that answered a segment here.
    contradictions: u32,
    /// Duplicates of it.
    duplicates: u32,
    /// Duplicates that answer superfluous repeats of ours (RFC 2883) and ask for nothing, and until when they may come.
    owed: (u32, Instant),
    /// From a segment's passing to its acknowledgement: mean and deviation (RFC 6298, section 2).
    round_trip: Option<(Span, Span)>,
    /// When its first packet was seen.
    born: Instant,
    /// When the host last acknowledged up to the end of a segment here.
    heard: Instant,
}

/// Whether `a` is before `b` (RFC 9293, section 3.4).
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Way {
    fn rto(&self) -> Span {
        self.round_trip.map_or(RTO_FIRST, |(mean, _)| mean.times(2).clamp(RTO_MIN, RTO_MAX))
    }
    fn mean(&self) -> Span {
        self.round_trip.map_or(RTO_MIN, |(mean, _)| mean)
    }
    /// Less than this no acknowledgement of a repeat takes but for a few, and the most that those of overtaken segments are late.
    fn least(&self) -> Span {
        self.round_trip
            .map_or(RTO_MIN, |(mean, deviation)| mean.saturating_sub(deviation.times(2)).max(mean.scale(1, 2)))
    }
    fn sample(&mut self, sample: Span) {
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample.scale(1, 2)),
            Some((mean, deviation)) => {
                let off = mean.max(sample).saturating_sub(mean.min(sample));
                (mean.scale(7, 8) + sample.scale(1, 8), deviation.scale(3, 4) + off.scale(1, 4))
            }
        });
    }
    /// When the first segment is sent again, if it is.
    fn due(&self) -> Option<Instant> {
        // Behind a hole that its sender has to fill nothing is known to be lost.
        let is_next = |first: &Segment| self.acked.is_none_or(|(acked, _)| !before(acked, first.seq));
        let lost = |first: &&Segment| self.speaks && first.tries < TRIES_MAX && is_next(first);
        self.segments.front().filter(lost).map(|first| {
            // Each try doubles it.
            first.at + self.rto().times(1 << first.tries.min(6)).min(RTO_MAX)
        })
    }
    /// The host has acknowledged up to the end of a segment here, or all that it has passed.
    fn is_known(&self) -> bool {
        self.is_whole || self.heard > self.born
    }
    /// No window is larger.
    fn reach(&self) -> u32 {
        self.scale
            .and_then(|scale| 1_u32.checked_shl(scale.into()))
            .map_or(WINDOW_MAX, |times| WINDOW_UNSCALED.saturating_mul(times).min(WINDOW_MAX))
    }
    /// Notes that octets up to there passed. Returns whether a sender may have sent them: no window reaches what was blindly sent far ahead.
    fn passed(&mut self, end: u32) -> bool {
        let last = *self.end.get_or_insert(end);
        if !before(last, end) {
            return true;
        }
        let is_within = end.wrapping_sub(self.acked.map_or(last, |(acked, _)| acked)) <= self.reach();
        if is_within {
            self.end = Some(end);
        }
        is_within
    }
    /// All that its sender had is acknowledged.
    fn is_over(&self) -> bool {
        self.fin.is_some() && self.fin == self.acked.map(|(acked, _)| acked)
    }
    /// What the segments here acknowledge of the host's own octets.
    fn their_acks(&self) -> impl Iterator<Item = u32> {
        let ends = [self.segments.front(), self.segments.back()].into_iter().flatten();
        ends.filter_map(|segment| Some(TcpPacket::parse(&segment.packet).ok()?.header.ack))
    }
    /// Whether the host may send that octet now, as far as what it sent tells, or before that the segments here, which may be forged. Who sends
    /// blindly has to guess it.
    fn is_near(&self, seq: u32) -> bool {
        let is_near = |ack: u32| seq.wrapping_sub(ack).min(ack.wrapping_sub(seq)) < WINDOW_UNSCALED;
        self.host.map_or_else(|| self.segments.is_empty() || self.their_acks().any(is_near), is_near)
    }
    /// Whether the sender of this direction's data may reset it: the receiver takes what continues its octets (RFC 5961, section 3.2).
    fn is_reset_by_sender(&self, seq: u32) -> bool {
        self.segments.is_empty() || [self.acked.map(|(acked, _)| acked), self.end].contains(&Some(seq))
    }
    /// Whether its host may: with what a segment here acknowledges (RFC 9293, section 3.5.2), or near that and with an acknowledgement of its own.
    fn is_reset_by_host(&self, seq: u32, ack: Option<u32>) -> bool {
        let is_between = |ack: u32| {
            let first = self.acked.map(|(acked, _)| acked).or(self.segments.front().map(|first| first.seq));
            first.zip(self.end).is_some_and(|(first, end)| !before(ack, first) && !before(end, ack))
        };
        let answers = self.their_acks().any(|theirs| theirs == seq);
        self.segments.is_empty() || (answers || ack.is_some_and(is_between)) && self.is_near(seq)
    }
    fn octets(&self) -> usize {
        self.segments.iter().map(|segment| segment.packet.len()).sum()
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Snoop {
    ways: BTreeMap<Direction, Way>,
    ways_max: usize,
    /// Directions as they began, at most `ways_max`: of which a SYN may be all that there is.
    begun: VecDeque<(Instant, Direction)>,
    octets: usize,
    octets_max: usize,
    out: VecDeque<Box<[u8]>>,
    swept: Instant,
    /// Nothing is due before.
    next: Instant,
    /// What was done.
    pub done: Snooped,
}

impl Snoop {
    /// With at most so many directions and octets of kept segments.
    pub fn new(ways_max: usize, octets_max: usize) -> Self {
        Self {
            ways: BTreeMap::new(),
            ways_max,
            begun: VecDeque::new(),
            octets: 0,
            octets_max,
            out: VecDeque::new(),
            swept: Instant::ZERO,
            next: Instant::FAR_FUTURE,
            done: Snooped::default(),
        }
    }
    /// The bounds from now on; what is kept stays.
    pub fn set_bounds(&mut self, ways_max: usize, octets_max: usize) {
        self.ways_max = ways_max;
        self.octets_max = octets_max;
    }
    /// Directions, and octets that are kept of them.
    pub fn held(&self) -> (usize, usize) {
        (self.ways.len(), self.octets)
    }
    /// Looks at a packet that passes; `is_snooped` says whether losses on the way to a host are repaired here. Returns whether it goes on: an
    /// acknowledgement may have done its work here.
    pub fn handle(&mut self, now: Instant, packet: &[u8], is_snooped: impl Fn(SocketAddr) -> bool) -> bool {
        let Ok(segment) = TcpPacket::parse(packet) else { return true };
        let (source, target, header) = (segment.source, segment.target, segment.header);
        if header.flags.has(Flags::RST) {
            // One that was blindly sent ends no connection, and no repairs.
            let ack = header.flags.has(Flags::ACK).then_some(header.ack);
            let ways = [self.ways.get(&(source, target)), self.ways.get(&(target, source))];
            let by_sender = ways[0].is_none_or(|way| way.is_reset_by_sender(header.seq));
            if by_sender && ways[1].is_none_or(|way| way.is_reset_by_host(header.seq, ack)) {
                self.forget((source, target));
                self.forget((target, source));
            }
            return true;
        }
        let len = u32::try_from(segment.payload.len()).unwrap_or(0);
        let mut passes = true;
        if header.flags.has(Flags::ACK) && is_snooped(source) {
            let plain = len == 0 && !header.flags.has(Flags::SYN) && !header.flags.has(Flags::FIN);
            let plain = plain.then_some(&header.options.sack);
            passes = self.acked(now, (target, source), (header.seq, header.ack, header.window), plain);
            if self.ways.get(&(target, source)).is_some_and(Way::is_over) {
                self.forget((target, source));
            }
        }
        if header.flags.has(Flags::FIN)
            && let Some(way) = self.ways.get_mut(&(source, target))
        {
            // It is acknowledged as an octet is.
            let behind = header.seq.wrapping_add(len).wrapping_add(1);
            way.fin = way.passed(behind).then_some(behind).or(way.fin);
        }
        if header.flags.has(Flags::SYN) {
            let shift = header.options.window_scale.unwrap_or(0);
            if is_snooped(source)
                && let Some(way) = self.way(now, (target, source))
                && (way.is_whole || way.acked.is_none())
            {
                // Of an older connection's and this one's the larger: too small a bound ends repairs.
                way.scale = way.scale.max(Some(shift));
                way.host.get_or_insert(header.seq);
                way.speaks = true;
            }
            let host = header.flags.has(Flags::ACK).then_some(header.ack);
            self.begin(now, (source, target), (header.seq.wrapping_add(1), len), is_snooped(target).then_some(host));
        } else if len > 0 && is_snooped(target) {
            self.keep(now, (source, target), (header.seq, len), packet);
        }
        passes
    }
    fn forget(&mut self, direction: Direction) {
        if let Some(way) = self.ways.remove(&direction) {
            self.octets -= way.octets();
        }
    }
    /// Forgets the oldest direction of which nothing is kept and nothing was acknowledged, or whose host says nothing: SYNs and data with
    /// invented sources leave such.
    fn make_room(&mut self, now: Instant) {
        let mut young = 0;
        for _ in 0..GLANCES {
            let Some((born, direction)) = self.begun.get(young).copied() else { return };
            let way = self.ways.get(&direction).filter(|way| way.born == born);
            let is_silent = |way: &Way| !way.speaks && now.since(born) >= RTO_FIRST;
            let is_bare = way.is_some_and(|way| way.segments.is_empty() && way.round_trip.is_none() || is_silent(way));
            if !is_bare && way.is_some_and(|way| !way.speaks) {
                // Its host may still prove to say nothing.
                young += 1;
                continue;
            }
            self.begun.remove(young);
            if is_bare {
                self.forget(direction);
                return;
            }
        }
    }
    /// A direction, new if there is room.
    fn way(&mut self, now: Instant, direction: Direction) -> Option<&mut Way> {
        if !self.ways.contains_key(&direction) {
            if self.ways.len() >= self.ways_max {
                self.make_room(now);
            }
            if self.ways.len() >= self.ways_max {
                return None;
            }
            if self.begun.len() >= self.ways_max {
                // One that is over, if there is such a one.
                let is_over = |(born, of): &(Instant, Direction)| self.ways.get(of).is_none_or(|way| way.born != *born);
                let place = self.begun.iter().take(GLANCES).position(is_over).unwrap_or(0);
                self.begun.remove(place);
            }
            self.begun.push_back((now, direction));
        }
        if self.ways.is_empty() {
            self.swept = now;
        }
        self.next = self.next.min(self.swept + IDLE);
        Some(self.ways.entry(direction).or_insert_with(|| Way {
            segments: VecDeque::new(),
            end: None,
            fin: None,
            is_whole: false,
            scale: None,
            host: None,
            speaks: false,
            acked: None,
            contradictions: 0,
            duplicates: 0,
            owed: (0, now),
            round_trip: None,
            born: now,
            heard: now,
        }))
    }
    /// A direction's SYN, whose data begins there; towards a snooped host with the number that it says the host has, if it does.
    fn begin(&mut self, now: Instant, direction: Direction, (first, len): (u32, u32), snooped: Option<Option<u32>>) {
        let old = self.ways.get(&direction);
        // Its repeat says nothing new.
        if old.is_some_and(|way| way.is_whole && way.acked.is_some_and(|(acked, _)| acked == first)) {
            return;
        }
        if old.is_some_and(|way| !way.segments.is_empty() && now.since(way.heard) < LIVE) {
            return;
        }
        let (scale, speaks) = old.map_or((None, false), |way| (way.scale, way.speaks));
        self.forget(direction);
        if let Some((host, way)) = snooped.and_then(|host| Some((host, self.way(now, direction)?))) {
            way.is_whole = true;
            way.host = host;
            way.scale = scale;
            way.speaks = speaks;
            way.end = Some(first.wrapping_add(len));
            way.acked = Some((first, 0));
        }
    }
    fn keep(&mut self, now: Instant, direction: Direction, (seq, len): (u32, u32), packet: &[u8]) {
        let end = seq.wrapping_add(len);
        let is_sent = self.ways.get_mut(&direction).is_none_or(|way| way.passed(end));
        if self.octets + packet.len() > self.octets_max {
            self.make_room(now);
        }
        if !is_sent || self.octets + packet.len() > self.octets_max || self.way(now, direction).is_none() {
            self.done.not_kept += 1;
            return;
        }
        let Some(way) = self.ways.get_mut(&direction) else { return };
        way.passed(end);
        let acked = way.acked.is_some_and(|(acked, _)| !before(acked, end));
        // Its sender's own repeat: the receiver has it, or it goes out now.
        let known = way.segments.iter().position(|segment| segment.seq == seq);
        if let Some(known) = known.and_then(|place| way.segments.remove(place)) {
            self.octets -= known.packet.len();
        }
        let place = way.segments.iter().rposition(|segment| before(segment.seq, seq)).map_or(0, |place| place + 1);
        let overlaps = way.segments.get(place).is_some_and(|next| before(next.seq, end))
            || place
                .checked_sub(1)
                .and_then(|last| way.segments.get(last))
                .is_some_and(|last| before(seq, last.seq.wrapping_add(last.len)));
        if acked || overlaps || way.segments.len() >= SEGMENTS_MAX {
            self.done.not_kept += u64::from(!acked);
            return;
        }
        self.octets += packet.len();
        self.done.kept += u64::from(known.is_none());
        way.segments
            .insert(place, Segment { seq, len, packet: packet.into(), at: now, tries: 0, is_repeat: known.is_some() });
        self.next = self.next.min(way.due().unwrap_or(Instant::FAR_FUTURE)).min(self.swept + IDLE);
    }
    fn acked(
        &mut self,
        now: Instant,
        direction: Direction,
        (seq, ack, window): (u32, u32, u16),
        plain: Option<&SackBlocks>,
    ) -> bool {
        let Some(way) = self.ways.get_mut(&direction) else { return true };
        let Some(end) = way.end else { return true };
        // Who does not see the connection may have moved the end, and does not know the host's own numbers.
        if !way.is_near(seq) {
            self.done.beyond += 1;
            return true;
        }
        // Of what did not pass here no host has anything: it is forged, or old, and would end all repairs up to there. But before we looked
        // a window of data may have passed, of which the first that we saw was the repeat of a hole.
        if before(end, ack) {
            let is_late = way.is_known() || now.since(way.born) >= EARLIER;
            if is_late || ack.wrapping_sub(end) > way.reach() {
                self.done.beyond += 1;
                return true;
            }
            way.end = Some(ack);
        }
        if way.acked.is_some_and(|(last, _)| before(ack, last)) {
            way.contradictions += u32::from(!way.is_known());
            if way.contradictions >= CONTRADICTIONS {
                self.forget(direction);
            }
            return true;
        }
        way.contradictions = 0;
        way.host = Some(seq);
        way.speaks = true;
        match way.acked {
            Some(last) if last == (ack, window) && plain.is_some() => {
                // The first block is what caused the acknowledgement: above it a hole, below it a copy.
                let first = plain.and_then(|blocks| blocks.as_slice().first());
                let shows_hole = first.map(|(left, _)| !before(*left, ack));
                if way.owed.0 > 0 && now < way.owed.1 && shows_hole != Some(true) {
                    way.owed.0 -= 1;
                    self.done.suppressed += 1;
                    return false;
                }
                // Of a copy that its sender or the path made.
                if shows_hole == Some(false) {
                    return true;
                }
                way.duplicates += 1;
            }
            _ => {
                way.duplicates = 0;
                way.acked = Some((ack, window));
            }
        }
        let is_covered = |first: &Segment| !before(ack, first.seq.wrapping_add(first.len));
        while way.segments.front().is_some_and(is_covered) {
            let Some(first) = way.segments.pop_front() else { break };
            self.octets -= first.packet.len();
            // Of nothing else: where a blind packet moved a mark the way is forgotten in time, and begins anew.
            if first.seq.wrapping_add(first.len) == ack {
                way.heard = now;
            }
            // Of one that was sent again nobody knows which was heard (RFC 6298, section 3).
            if !first.is_repeat && first.seq.wrapping_add(first.len) == ack {
                way.sample(now.since(first.at));
            }
            // Sooner than a repeat of ours can be answered: it was late, not lost.
            if first.tries > 0 && now.since(first.at) < way.least() {
                let owed = if now < way.owed.1 { way.owed.0 } else { 0 };
                way.owed = (owed + 1, first.at + way.mean().times(2).max(PATIENCE_MIN));
            }
        }
        self.next = self.next.min(way.due().unwrap_or(Instant::FAR_FUTURE));
        let (asks, patience) = (way.duplicates > 0, way.mean().max(PATIENCE_MIN));
        let lost = way.segments.front_mut().filter(|first| asks && first.seq == ack && first.tries < TRIES_MAX);
        let Some(first) = lost else { return true };
        // Its repeat may be lost, too: then what asks for it was sent after that.
        if first.tries == 0 || now.since(first.at) > patience {
            self.done.sent_again += 1;
            first.at = now;
            first.tries += 1;
            first.is_repeat = true;
            self.out.push_back(first.packet.clone());
        }
        self.done.suppressed += 1;
        self.next = self.next.min(way.due().unwrap_or(Instant::FAR_FUTURE));
        false
    }
    /// Sends again what was not acknowledged in time, and forgets directions without packets.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now < self.next {
            return;
        }
        for way in self.ways.values_mut().filter(|way| way.due().is_some_and(|at| at <= now)) {
            if let Some(first) = way.segments.front_mut() {
                self.done.sent_again += 1;
                first.at = now;
                first.tries += 1;
                first.is_repeat = true;
                self.out.push_back(first.packet.clone());
            }
        }
        if now.since(self.swept) >= IDLE {
            self.swept = now;
            let idle = |way: &Way| now.since(way.heard) >= IDLE;
            let old: Vec<Direction> = self.ways.iter().filter(|(_, way)| idle(way)).map(|(way, _)| *way).collect();
            old.into_iter().for_each(|direction| self.forget(direction));
        }
        let sweep = (!self.ways.is_empty()).then(|| self.swept + IDLE);
        self.next = self.ways.values().filter_map(Way::due).chain(sweep).min().unwrap_or(Instant::FAR_FUTURE);
    }
    /// When something may be due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.next < Instant::FAR_FUTURE).then_some(self.next)
    }
    /// The next packet to send again: at most one for each packet that was handled, and for each direction that was due.
    pub fn poll_packet(&mut self) -> Option<Box<[u8]>> {
        self.out.pop_front()
    }
}

#[cfg(test)]
#[path = "snoop_tests.rs"]
mod tests;
