//! One direction of a connection: the counters that tcptrace keeps, by its definitions.
//!
//! Where a definition of tcptrace's (S. Ostermann, tcptrace 6.6.7) is wrong, the correct value is used here and
//! `docs/decisions/0032-trace.md` explains the difference.

use super::copies::Copies;
use super::counts::{Counts, Outstanding, Window};
use super::ledger::{Acked, FLIGHT_MAX, Ledger, Sample};
use super::moments::Moments;
use super::packet::Segment;
use super::repair::{Repairs, Rtt};
use super::tsval::{Tsvals, WAITING_MAX};
use super::upstream::Upstream;
use wavelane_measure::Quantiles;
use wavelane_wire::tcp::Flags;

/// Offset of unwrapped sequence numbers, so that earlier ones are not negative.
const BASE: u64 = 1 << 33;

/// One direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    pub(crate) counts: Counts,
    pub(crate) window: Window,
    pub(crate) outstanding: Outstanding,
    pub(crate) ledger: Ledger,
    pub(crate) repairs: Repairs,
    upstream: Upstream,
    pub(crate) tsvals: Tsvals,
    pub(crate) rtt: Moments,
    pub(crate) rtt_full: Moments,
    full_octets: u64,
    pub(crate) rtt_last: Moments,
    pub(crate) handshake_ms: Option<f64>,
    newest_sample_ms: f64,
    /// Passive RTTs for the quantiles: from timestamps, or from acknowledgements where there are none.
    pub(crate) by_tsval: Quantiles,
    pub(crate) by_ack: Quantiles,
    pub(crate) timer: Rtt,
    pub(crate) mss: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) timestamps: bool,
    pub(crate) sack_permitted: bool,
    pub(crate) syn: Option<u64>,
    pub(crate) fin: Option<u64>,
    pub(crate) first_data_ns: Option<u64>,
    pub(crate) last_data_ns: u64,
    pub(crate) last_ns: Option<u64>,
    pub(crate) idle_ns: u64,
    /// The last segment that carried sequence space, the last acknowledgement with new information, and the last that
    /// covered new octets.
    sent_ns: u64,
    told_ns: u64,
    moved_ns: u64,
    edge: Option<u64>,
    /// The acknowledgement number last sent, in the other direction's sequence space.
    pub(crate) acked: Option<u64>,
    /// Acknowledgements of the same octet, including the first.
    repeated: u32,
    /// Its data was acknowledged at least once.
    data_acked: bool,
    copies: Copies,
    /// The end of the largest window that the other side offered, in this direction's sequence space.
    offered: u64,
}

impl Half {
    /// Unwraps the sequence number `seq` of this direction.
    pub(crate) fn unwrapped(&mut self, seq: u32) -> u64 {
        let edge = *self.edge.get_or_insert(BASE + u64::from(seq));
        edge.wrapping_add_signed(i64::from(seq.wrapping_sub(edge as u32) as i32))
    }
    /// The acknowledgement number of the other side's segment `s`, if it has one.
    fn unwrapped_if(&mut self, s: &Segment) -> Option<u64> {
        s.has(Flags::ACK).then(|| self.unwrapped(s.ack))
    }
    fn reached(&mut self, end: u64) {
        self.edge = self.edge.max(Some(end));
    }
    /// Whether windows of this direction are scaled.
    fn scales(&self, other: &Self) -> bool {
        self.window_scale.is_some() && other.window_scale.is_some()
    }
    /// The window scale of the connection.
    pub(crate) fn scale_in_use(&self, other: &Self) -> u8 {
        if self.scales(other) { self.window_scale.unwrap_or(0) } else { 0 }
    }

    /// The window advertised by a segment, in octets.
    fn effective_window(&self, other: &Self, s: &Segment) -> u64 {
        let plain = u64::from(s.window);
        let scaled = !s.has(Flags::SYN) && self.scales(other);
        if !s.has(Flags::ACK) && !s.has(Flags::SYN) {
            0
        } else if scaled {
            plain << self.window_scale.unwrap_or(0)
        } else {
            plain
        }
    }

    /// Whether what was seen of this direction begins right behind this SYN.
    pub(crate) fn begins_behind(&self, s: &Segment) -> bool {
        let lowest = self.ledger.lowest();
        lowest.is_none_or(|lowest| lowest as u32 == s.seq.wrapping_add(1))
    }

    /// Processes a segment of this direction.
    pub(crate) fn segment(&mut self, other: &mut Self, s: &Segment, now: u64, room: Room) -> SegmentFate {
        let window = self.effective_window(other, s);
        if self.is_copy(other, s, now) {
            self.counts.hardware_duplicates += 1;
            return SegmentFate { copy: true, ..SegmentFate::default() };
        }
        if s.has(Flags::SYN) && self.syn.is_none() && self.last_ns.is_some_and(|last| now < last) {
            return self.late_syn(other, s, window);
        }
        self.times(now);
        let first = self.unwrapped(s.seq);
        let mut seen = SegmentFate { first, end: first + u64::from(s.data), window, ..SegmentFate::default() };
        self.control(other, s, &seen);
        self.data(s, now);
        if let Some(id) = s.ip_id {
            self.upstream.identified(id);
        }
        if s.length() > 0 {
            self.sequence(other, s, now, room.flight, &mut seen);
        }
        if let Some((tsval, tsecr)) = s.options.timestamps {
            seen.rtt_ns = self.clock(other, s, (tsval, tsecr), now, room.waiting);
        }
        if s.has(Flags::ACK) {
            let ack = other.unwrapped(s.ack);
            seen.ack = Some(ack);
            let sample_ns = self.acknowledge(other, s, ack, window, now);
            if !other.timestamps {
                seen.rtt_ns = sample_ns;
            }
        }
        if s.length() > 0 {
            self.sent_ns = now;
        }
        self.reached(seen.end);
        if s.has(Flags::RST) {
            self.counts.acks += u64::from(s.has(Flags::ACK));
            return seen;
        }
        self.window(other, s, window);
        if let Some(ack) = seen.ack {
            other.offered = other.offered.max(ack + window);
        }
        self.after_window(other, s, &seen, now);
        seen
    }

    fn times(&mut self, now: u64) {
        self.idle_ns = self.idle_ns.max(now.saturating_sub(self.last_ns.unwrap_or(now)));
        self.last_ns = self.last_ns.max(Some(now));
    }

    fn control(&mut self, other: &mut Self, s: &Segment, seen: &SegmentFate) {
        let c = &mut self.counts;
        c.packets += 1;
        c.ip_octets += u64::from(s.ip_octets);
        if let Some(packets) = &mut self.window.scaled_packets {
            *packets += 1;
        }
        c.syns += u64::from(s.has(Flags::SYN));
        c.fins += u64::from(s.has(Flags::FIN));
        c.resets += u64::from(s.has(Flags::RST));
        if s.has(Flags::SYN) {
            self.syn = Some(seen.first);
            // The other side first acknowledges the SYN's own number.
            other.acked = Some(seen.first);
            self.window_scale = s.options.window_scale.or(self.window_scale);
            self.mss = s.options.mss.unwrap_or(self.mss);
            self.sack_permitted |= s.options.sack_permitted;
        }
        if s.has(Flags::FIN) {
            self.fin = Some(seen.end);
        }
        self.timestamps |= s.options.timestamps.is_some();
        self.counts.sacks_sent += u64::from(!s.options.sacks().is_empty());
    }

    fn data(&mut self, s: &Segment, now: u64) {
        if s.data == 0 {
            return;
        }
        let (c, octets) = (&mut self.counts, u64::from(s.data));
        c.data_packets += 1;
        c.data_octets += octets;
        c.pushed += u64::from(s.has(Flags::PSH));
        if s.has(Flags::URG) {
            c.urgent_packets += 1;
            c.urgent_octets += u64::from(s.urgent);
        }
        c.largest = c.largest.max(octets);
        c.smallest = if c.smallest == 0 { octets } else { c.smallest.min(octets) };
        if s.captured < s.data {
            c.truncated_octets += u64::from(s.data - s.captured);
            c.truncated_packets += 1;
        }
        self.first_data_ns = self.first_data_ns.or(Some(now));
        self.last_data_ns = now;
    }

    /// Whether a segment is a copy that another port, or a mirror, added to the capture.
    fn is_copy(&mut self, other: &mut Self, s: &Segment, now: u64) -> bool {
        self.copies.known(&other.copies);
        let (first, ack) = (self.unwrapped(s.seq), other.unwrapped_if(s));
        let Self { copies, ledger, acked, .. } = self;
        copies.is_copy(s, now, || {
            let end = first + u64::from(s.length());
            (end > first && !ledger.holds(first, end)) || ack > *acked
        })
    }

    /// The SYN of a connection that was stored behind its later packets: it has no more to say than its options.
    fn late_syn(&mut self, other: &mut Self, s: &Segment, window: u64) -> SegmentFate {
        let first = self.unwrapped(s.seq);
        let seen = SegmentFate { first, end: first, window, ..SegmentFate::default() };
        let acked = other.acked;
        self.control(other, s, &seen);
        other.acked = acked.or(other.acked);
        seen
    }

    /// Records a segment with sequence space.
    fn sequence(&mut self, other: &mut Self, s: &Segment, now: u64, room: usize, seen: &mut SegmentFate) {
        let syn = s.has(Flags::SYN);
        // What fits into a window offered before it shrank to nothing is no probe (RFC 9293, section 3.8.6).
        let is_beyond = seen.first + u64::from(s.length()) > self.offered;
        if other.window.last == 0 && other.counts.packets > 0 && !syn && is_beyond {
            seen.probe = true;
            self.counts.zero_window_probes += 1;
            self.counts.zero_window_probe_octets += u64::from(s.data);
            return;
        }
        let (first, end) = (seen.first, seen.first + u64::from(s.length()));
        let highest = self.ledger.highest().unwrap_or(first);
        let tsval = s.options.timestamps.map_or(0, |t| t.0);
        let ip_id = s.ip_id.unwrap_or(0);
        let sent = super::ledger::Sent { first, end, sent_ns: now, again: 0, tsval, ip_id, sacked: false };
        let quiet_ns = now.saturating_sub(self.sent_ns.max(self.told_ns));
        let unmoved_ns = now.saturating_sub(self.moved_ns);
        let at_head = self.ledger.head().is_none_or(|h| first <= h.first);
        let added = self.ledger.add(sent, room);
        seen.out_of_order = added.out_of_order;
        seen.again = added.again_octets > 0;
        self.counts.out_of_order += u64::from(added.out_of_order);
        if seen.again {
            self.counts.again_packets += 1;
            self.counts.again_octets += added.again_octets;
        }
        self.unique(s, added.again_octets);
        // A keep-alive repeats one octet of what was acknowledged, and nothing is in flight (RFC 9293, section 3.8.4).
        let keep_alive = s.data <= 1 && end - first == 1 && self.ledger.in_flight() == 0 && end == highest && !syn;
        let size = self.sender_size(other);
        let unseen = self.upstream.arrived(first, end, highest, size);
        if let Some(above) = added.above
            && self.timer.is_late(&other.timer, now.saturating_sub(above.segment.sent_ns))
        {
            self.upstream.lost_again(highest, size);
        }
        if (unseen || added.repeats.is_some() || added.above.is_some()) && !(keep_alive && s.flags == Flags::ACK) {
            let sack_permitted = self.sack_permitted && other.sack_permitted;
            let sack_refused = !sack_permitted && self.counts.syns > 0 && other.counts.syns > 0;
            self.repairs.sent(&super::repair::Sending {
                now,
                quiet_ns,
                unmoved_ns,
                first,
                end,
                added: &added,
                at_head,
                highest,
                syn,
                sack_permitted,
                sack_refused,
                duplicate_acks: self.repeated.saturating_sub(1),
                tsval,
                ip_id,
                segments: u64::from(s.data).div_ceil(size).max(1),
                here: &self.timer,
                there: &other.timer,
            });
        }
    }

    /// The maximum data per segment in this direction: the other side's MSS minus the timestamps.
    fn sender_size(&self, other: &Self) -> u64 {
        let asked = if other.mss == 0 { u64::from(u16::MAX) } else { u64::from(other.mss) };
        // RFC 7323, appendix A: the timestamps take 12 octets of the MSS.
        asked.saturating_sub(if self.timestamps { 12 } else { 0 }).max(1)
    }

    /// Counts the octets of data not seen before; SYN and FIN do not count.
    fn unique(&mut self, s: &Segment, again_octets: u64) {
        let controls = u64::from(s.length() - s.data);
        let again = if controls > 0 && again_octets > 0 {
            // A repeated SYN or FIN is counted in the repeated octets, unless the FIN was added to data sent before.
            let repeated = (s.has(Flags::SYN) && self.counts.syns > 1) || (s.has(Flags::FIN) && self.counts.fins > 1);
            again_octets - u64::from(repeated)
        } else {
            again_octets
        };
        self.counts.unique_octets += u64::from(s.data).saturating_sub(again);
    }

    /// Processes an acknowledgement of the other direction's octets before `ack`; returns its RTT if it is a sample.
    fn acknowledge(&mut self, other: &mut Self, s: &Segment, ack: u64, window: u64, now: u64) -> Option<u64> {
        let acked = other.ledger.ack(ack, now);
        let repeats = acked.segments == 0
            && other.ledger.acked_to(ack)
            && self.acked == Some(ack)
            && s.data == 0
            && window == self.window.last
            && other.outstanding.sum > 0;
        if repeats {
            other.repeated += 1;
            other.counts.duplicate_acks += 1;
            other.counts.triple_duplicates += u64::from(other.repeated == 4);
        } else if acked.segments > 0 || other.ledger.acked_before(ack) {
            other.repeated = 1;
        }
        other.counts.cumulative += u64::from(acked.cumulatively);
        other.sampled(&acked);
        if other.counts.syns == 1 && other.syn.map(|s| s + 1) == Some(ack) {
            other.handshake_ms = Some(other.newest_sample_ms);
        }
        let told = self.sacks(other, s, ack);
        if acked.segments > 0 || repeats || told.is_some() {
            other.told_ns = now;
        }
        if acked.segments > 0 {
            other.moved_ns = now;
        }
        let newest = acked.newest_ns.filter(|_| acked.originals).max(told.flatten());
        other.repairs.acknowledged(ack, acked.segments > 0, newest, s.options.timestamps.map(|t| t.1));
        match acked.sample {
            Some(Sample::Rtt { ns, .. }) => Some(ns),
            _ => None,
        }
    }

    /// Reads SACK blocks; `None` without any, else when the newest newly reported segment was sent.
    fn sacks(&self, other: &mut Self, s: &Segment, ack: u64) -> Option<Option<u64>> {
        let blocks = s.options.sacks();
        if blocks.is_empty() {
            return None;
        }
        let edges = blocks.iter().map(|&(left, right)| (other.unwrapped(left), other.unwrapped(right)));
        let edges: [(u64, u64); 4] = {
            let mut all = [(0, 0); 4];
            edges.zip(&mut all).for_each(|(edge, slot)| *slot = edge);
            all
        };
        let edges = &edges[..blocks.len()];
        let mut newest = None;
        for (i, &(left, right)) in edges.iter().enumerate() {
            if i == 0 && is_dsack(edges, ack) {
                other.repairs.twice(left, right);
            } else if left < right {
                newest = newest.max(other.ledger.sack(left, right));
            }
        }
        Some(newest)
    }

    fn sampled(&mut self, acked: &Acked) {
        match acked.sample {
            Some(Sample::Rtt { ns, octets }) => {
                self.newest_sample_ms = ns as f64 / 1e6;
                self.rtt.add(ns);
                if !self.timestamps {
                    self.by_ack.add(ns);
                }
                if octets > self.full_octets {
                    self.full_octets = octets;
                    self.rtt_full = Moments::default();
                }
                if octets == self.full_octets {
                    self.rtt_full.add(ns);
                }
                if !self.timestamps || self.timer.least_ns().is_none() {
                    self.timer.add(ns);
                }
            }
            Some(Sample::Ambiguous { ns }) => {
                self.newest_sample_ms = 0.0;
                self.rtt_last.add(ns);
            }
            Some(Sample::AfterLoss) => {
                self.newest_sample_ms = 0.0;
                self.counts.after_loss_acks += 1;
            }
            None => {}
        }
    }

    /// Processes timestamps; returns the RTT if the echo is a sample.
    fn clock(
        &mut self,
        other: &mut Self,
        s: &Segment,
        (tsval, tsecr): (u32, u32),
        now: u64,
        room: usize,
    ) -> Option<u64> {
        let mut sample_ns = None;
        let idle = now.saturating_sub(self.sent_ns) > super::IDLE_NS;
        if s.has(Flags::ACK)
            && let Some(echo) = other.tsvals.echoed(tsecr, now)
        {
            if echo.of_data {
                other.by_tsval.add(echo.rtt_ns);
                sample_ns = Some(echo.rtt_ns);
            }
            // The echo of a host that was silent includes its idle time.
            if echo.of_data || (s.data > 0 && !idle) {
                other.timer.add(echo.rtt_ns);
            }
        }
        self.tsvals.sent(tsval, s.length() > 0, now, room);
        sample_ns
    }

    fn window(&mut self, other: &Self, s: &Segment, window: u64) {
        let w = &mut self.window;
        w.last = window;
        if !s.has(Flags::ACK) && !s.has(Flags::SYN) {
            return;
        }
        w.most = w.most.max(window);
        let scales = self.window_scale.is_some() && other.window_scale.is_some();
        if window > 0 && scales && !s.has(Flags::SYN) && w.scaled_packets.is_none() {
            // The windows of the handshake are unscaled: restart.
            w.least = window;
            w.most = window;
            w.sum = 0;
            w.scaled_packets = Some(1);
        } else if window > 0 && (w.least == 0 || window < w.least) {
            w.least = window;
        }
        w.sum += window;
        if s.has(Flags::ACK) && window == 0 {
            w.zeros += 1;
        }
    }

    /// Updates the counts of acknowledgements, the initial window and outstanding data.
    fn after_window(&mut self, other: &mut Self, s: &Segment, seen: &SegmentFate, now: u64) {
        if let Some(ack) = seen.ack {
            self.counts.acks += 1;
            let pure = s.data == 0 && !s.has(Flags::SYN) && !s.has(Flags::FIN);
            self.counts.pure_acks += u64::from(pure);
            self.selective(other, s, ack);
            self.acked = Some(ack);
            other.data_acked |= other.syn.map(|s| s + 1) != Some(ack);
        }
        if s.data > 0 && !self.data_acked && !seen.again {
            self.counts.initial_octets += u64::from(s.data);
            self.counts.initial_segments += 1;
        }
        if !s.has(Flags::SYN) && !seen.out_of_order && !seen.again {
            let octets = other.acked.map_or(u64::from(s.data), |a| (seen.end + 1).saturating_sub(a));
            self.outstanding.add(octets, now);
        }
    }

    fn selective(&mut self, other: &mut Self, s: &Segment, ack: u64) {
        let blocks = s.options.sacks();
        if blocks.is_empty() {
            return;
        }
        self.counts.sack_segments += 1;
        self.counts.most_sack_blocks = self.counts.most_sack_blocks.max(blocks.len() as u64);
        let mut edges = [(0, 0); 2];
        for (slot, &(left, right)) in edges.iter_mut().zip(blocks) {
            *slot = (other.unwrapped(left), other.unwrapped(right));
        }
        self.counts.dsack_segments += u64::from(is_dsack(&edges[..blocks.len().min(2)], ack));
    }
}

/// Limits of the state per direction, which are far lower while all connections together have much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// Segments in flight.
    pub(crate) flight: usize,
    /// TSvals waiting for their echo.
    pub(crate) waiting: usize,
}

impl Room {
    /// Limits while there are many segments in flight, or many TSvals waiting.
    pub(crate) fn of(many_in_flight: bool, many_waiting: bool) -> Self {
        const CROWDED: usize = 64;
        let of = |is_crowded, most| if is_crowded { CROWDED } else { most };
        Self { flight: of(many_in_flight, FLIGHT_MAX), waiting: of(many_waiting, WAITING_MAX) }
    }
}

/// Whether the first block reports a duplicate: below the acknowledgement, or within the second (RFC 2883, section 4).
fn is_dsack(edges: &[(u64, u64)], ack: u64) -> bool {
    let Some(&(left, right)) = edges.first() else { return false };
    right <= ack || edges.get(1).is_some_and(|&(l, r)| l <= left && right <= r)
}

/// Classification of a segment, for drawing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SegmentFate {
    pub(crate) first: u64,
    /// The end of its data.
    pub(crate) end: u64,
    pub(crate) ack: Option<u64>,
    pub(crate) window: u64,
    /// An RTT of the other direction's data.
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) again: bool,
    pub(crate) out_of_order: bool,
    pub(crate) probe: bool,
    /// A copy of another segment; nothing else is known of it.
    pub(crate) copy: bool,
}
