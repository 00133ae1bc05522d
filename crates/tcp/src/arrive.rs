//! Processing of an arriving segment (RFC 9293, section 3.10.7, with RFC 5961 and RFC 7323).

use super::acked::AckIn;
use super::connection::{Connection, NO_SHIFT, TcpEvent};
use super::state::ConnectionState;
use wavelane_base::{Ecn, Instant, Span};
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};

/// From one position to another.
type Stretch = (u64, u64);

/// Bytes of the timestamps option in every segment.
pub(super) const STAMP_LEN: u64 = 12;
/// After this long, a peer's timestamp clock may have wrapped (RFC 7323, section 5.5).
const STAMP_STALE: Span = Span::from_secs(24 * 24 * 3600);

impl Connection {
    pub(super) fn set_window(&mut self, octets: u64, from: (u64, u64)) {
        self.sender.window = octets;
        self.sender.window_max = self.sender.window_max.max(octets);
        self.window_from = from;
    }

    /// Processes a segment that is addressed to this connection.
    pub fn handle_segment(&mut self, now: Instant, segment: &TcpPacket<'_>) {
        match self.state {
            ConnectionState::Closed => {}
            ConnectionState::SynSent => self.in_syn_sent(now, &segment.header),
            _ => self.in_order(now, segment),
        }
        if self.state != ConnectionState::Closed {
            self.leave_black_hole(now);
            self.sender.arm_persist(now);
        }
    }

    /// Whether its peer may have sent this, now or before: numbers that fit no window of the connection are anyone's.
    pub(super) fn may_come(&self, header: &TcpHeader) -> bool {
        let near = |first: u32, at: u64, number: u32, back: u64, on: u64| {
            let least = at.saturating_sub(back);
            u64::from(number.wrapping_sub(first.wrapping_add(least as u32))) <= at - least + on
        };
        let acks = !header.flags.has(Flags::ACK) || {
            let (una, next) = (self.sender.una, self.sender.next);
            near(self.iss, una, header.ack, self.sender.window_max.max(1), next - una)
        };
        let (next, edge) = (self.receiver.next, self.receiver.edge());
        let fits = self.state == ConnectionState::SynSent
            || near(self.irs, next, header.seq, self.receiver.buffer as u64, edge.max(next) - next);
        acks && fits
    }

    /// RFC 9293, section 3.10.7.4: every state but CLOSED, LISTEN and SYN-SENT.
    fn in_order(&mut self, now: Instant, segment: &TcpPacket<'_>) {
        let header = &segment.header;
        let (flags, expected) = (header.flags, self.receiver.next);
        let start = unwrap(self.irs, expected, header.seq);
        let len = segment.payload.len() as u64 + u64::from(flags.has(Flags::FIN));
        if flags.has(Flags::RST) {
            return self.on_reset(now, start);
        }
        if self.is_old_stamp(now, header) {
            // PAWS (RFC 7323, section 5.3): acknowledged, and dropped. An original that arrives after its retransmission and
            // newer segments is old too: the sender must learn by D-SACK that the retransmission was spurious, as with
            // Linux.
            self.receiver.note_old(start, len);
            return self.receiver.owe();
        }
        if flags.has(Flags::SYN) {
            return self.on_late_syn(now, header);
        }
        let Some(start) = start.filter(|start| self.is_acceptable(*start, len)) else {
            // Only an acknowledgement is sent. TIME-WAIT is restarted.
            self.receiver.note_old(start, len);
            if len > 0 {
                self.receiver.owe();
            } else {
                // Two desynchronised peers would answer each other's acknowledgements for ever.
                self.challenge(now);
            }
            if self.state == ConnectionState::TimeWait && flags.has(Flags::FIN) {
                self.linger_at = Some(now + self.config.time_wait);
            }
            return;
        };
        if !flags.has(Flags::ACK) {
            return;
        }
        let Some(ack) = self.check_ack(now, header.ack) else { return };
        self.note_stamp(now, header, start);
        if self.state == ConnectionState::SynReceived {
            let rtt = self.syn_round_trip(now);
            self.open(now);
            rtt.into_iter().for_each(|rtt| {
                self.sender.note_syn_round_trip(rtt);
            });
            self.set_window(self.scaled(header.window), (start, ack));
        }
        self.note_alive(now);
        self.take_ack(now, header, start, ack, len);
        self.follow_our_fin(now);
        if self.state == ConnectionState::Closed {
            return;
        }
        self.take_data(now, segment, start);
    }

    /// RFC 9293, section 3.4: whether any part of it lies in the window.
    fn is_acceptable(&self, start: u64, len: u64) -> bool {
        let (next, edge) = (self.receiver.next, self.receiver.edge());
        let inside = |position: u64| position >= next && position < edge.max(next);
        match (len, edge > next) {
            (0, false) => start == next,
            (0, true) => inside(start) || start == edge,
            // With a zero window, a segment's acknowledgement is still processed.
            (_, false) => start == next,
            (_, true) => inside(start) || inside(start + len - 1) || start < next && start + len > next,
        }
    }

    /// RFC 5961, section 3.2.
    fn on_reset(&mut self, now: Instant, start: Option<u64>) {
        let next = self.receiver.next;
        match start {
            Some(start) if start == next => {
                let refused = self.state == ConnectionState::SynReceived && !self.passive;
                let event = match self.state {
                    ConnectionState::SynReceived if self.passive => None,
                    // The peer had ended; data we wrote may be lost.
                    ConnectionState::Closing | ConnectionState::LastAck if self.sender.una < self.sender.data_end() => {
                        Some(TcpEvent::Reset)
                    }
                    ConnectionState::TimeWait | ConnectionState::Closing | ConnectionState::LastAck => {
                        Some(TcpEvent::Closed)
                    }
                    _ if refused => Some(TcpEvent::Refused),
                    _ => Some(TcpEvent::Reset),
                };
                self.finish(event);
            }
            Some(start) if start > next && start < self.receiver.edge() => self.challenge(now),
            _ => {}
        }
    }

    fn is_old_stamp(&self, now: Instant, header: &TcpHeader) -> bool {
        let Some(stamps) = header.options.timestamps.filter(|_| self.stamps) else { return false };
        let (recent, at) = self.recent_stamp;
        (stamps.value.wrapping_sub(recent) as i32) < 0 && now.since(at) < STAMP_STALE
    }

    /// RFC 7323, section 4.3.
    fn note_stamp(&mut self, now: Instant, header: &TcpHeader, start: u64) {
        if let Some(stamps) = header.options.timestamps.filter(|_| self.stamps)
            && start <= self.last_ack
        {
            self.recent_stamp = (stamps.value, now);
        }
    }

    /// The position acknowledged, if acceptable (RFC 5961, section 5.2).
    fn check_ack(&mut self, now: Instant, ack: u32) -> Option<u64> {
        let (una, next) = (self.sender.una, self.sender.next);
        let position = unwrap(self.iss, una, ack);
        let oldest = una.saturating_sub(self.sender.window_max.max(1));
        match position {
            Some(position) if position <= next && position >= oldest && (una > 0 || position == 1) => Some(position),
            _ if self.state == ConnectionState::SynReceived => {
                // RFC 9293, section 3.10.7.4: a reset with the acknowledged number. The host sends it.
                None
            }
            _ => {
                self.challenge(now);
                None
            }
        }
    }

    fn scaled(&self, window: u16) -> u64 {
        let shift = if self.peer_shift == NO_SHIFT { 0 } else { self.peer_shift };
        u64::from(window) << shift
    }

    fn take_ack(&mut self, now: Instant, header: &TcpHeader, start: u64, ack: u64, len: u64) {
        let old = self.sender.una;
        if header.flags.has(Flags::CWR) {
            self.echo_mark = false;
        }
        let window = self.scaled(header.window);
        let same_window = window == self.sender.window;
        if ack >= old && (start > self.window_from.0 || (start == self.window_from.0 && ack >= self.window_from.1)) {
            self.set_window(window, (start, ack));
        }
        if ack < old {
            return;
        }
        let (blocks, needless) = self.reported(header, ack);
        let in_flight = !self.sender.board.is_empty();
        let marked = self.marks && header.flags.has(Flags::ECE);
        self.sender.note_answer();
        let stamps = header.options.timestamps.filter(|_| self.stamps);
        let news = AckIn {
            ack,
            blocks: &blocks,
            needless,
            marked,
            echoed: stamps.and_then(|stamps| self.echoed(now, stamps.echo)),
            duplicate: in_flight && len == 0 && ack == old && same_window,
        };
        self.sender.on_ack(now, &news);
        if self.writer_waits && self.sender.has_worthy_room() {
            self.writer_waits = false;
            self.report(TcpEvent::Writable);
        }
    }

    /// The RTT from an echo of our timestamp, if plausible.
    fn echoed(&self, now: Instant, echo: u32) -> Option<Span> {
        let rtt = Span::from_millis(u64::from(self.clock(now).wrapping_sub(echo)));
        (rtt < ECHO_LIMIT).then_some(rtt)
    }

    /// The reported blocks that lie within what is in flight, and the duplicate that the first one reports (RFC 2883).
    fn reported(&self, header: &TcpHeader, ack: u64) -> (Vec<Stretch>, Option<Stretch>) {
        let mut blocks = Vec::new();
        let mut duplicate = None;
        if !self.sender.sack {
            return (blocks, None);
        }
        let wire = header.options.sack.as_slice();
        let position = |seq| unwrap(self.iss, self.sender.una, seq);
        for (place, (left, right)) in wire.iter().enumerate() {
            let (Some(left), Some(right)) = (position(*left), position(*right)) else { continue };
            if left >= right || right > self.sender.next {
                continue;
            }
            let inside = |outer: &(u32, u32)| {
                position(outer.0).is_some_and(|l| l <= left) && position(outer.1).is_some_and(|r| right <= r)
            };
            if place == 0 && (right <= ack || wire.get(1).is_some_and(inside)) {
                duplicate = Some((left, right));
            } else if right > ack {
                blocks.push((left.max(ack), right));
            }
        }
        // Blocks reported for the first time in one acknowledgement did not arrive in the order of the option (RFC 8985,
        // section 6.2, step 3).
        blocks.sort_unstable();
        (blocks, duplicate)
    }

    /// State changes after our FIN is acknowledged.
    fn follow_our_fin(&mut self, now: Instant) {
        if !self.sender.fin_sent || self.sender.una < self.sender.next {
            return;
        }
        match self.state {
            ConnectionState::FinWait1 => {
                self.enter(ConnectionState::FinWait2);
                // From here on no other timer would detect a dead peer.
                self.note_alive(now);
            }
            ConnectionState::Closing => self.linger(now),
            ConnectionState::LastAck => self.finish(Some(TcpEvent::Closed)),
            _ => {}
        }
    }

    fn linger(&mut self, now: Instant) {
        self.enter(ConnectionState::TimeWait);
        self.keepalive = None;
        self.linger_at = Some(now + self.config.time_wait);
    }

    fn take_data(&mut self, now: Instant, segment: &TcpPacket<'_>, start: u64) {
        let fin = segment.header.flags.has(Flags::FIN);
        if segment.payload.is_empty() && !fin {
            return;
        }
        if !self.state.receives() {
            // After the peer's FIN no new data can arrive; retransmissions are acknowledged.
            return self.receiver.owe();
        }
        let marked = self.marks && segment.ecn == Ecn::Ce;
        self.echo_mark |= marked;
        if let Some(stamps) = segment.header.options.timestamps.filter(|_| self.stamps)
            && let Some(rtt) = self.echoed(now, stamps.echo)
        {
            self.receiver.note_round_trip(stamps.echo, rtt, segment.payload.len());
        }
        let pushed = segment.header.flags.has(Flags::PSH);
        self.receiver.note_segment(now, self.sender.rtt.rto(), segment.payload.len(), pushed);
        let owed = self.receiver.owed;
        let round_trip = self.sender.rtt.smoothed().filter(|_| self.sender.sack);
        let took = self.receiver.take(now, start, segment.payload, fin, round_trip);
        if marked && self.receiver.owed == owed {
            // A mark is echoed immediately, but no segment causes two acknowledgements (RFC 5681, section 4.2).
            self.receiver.owe();
        }
        if took.advanced {
            self.report(TcpEvent::Readable);
        }
        if took.ended {
            match self.state {
                ConnectionState::Established => self.enter(ConnectionState::CloseWait),
                ConnectionState::FinWait1 if self.sender.fin_sent && self.sender.una == self.sender.next => {
                    self.linger(now)
                }
                ConnectionState::FinWait1 => self.enter(ConnectionState::Closing),
                _ => self.linger(now),
            }
        }
    }
}

/// Longer echo times are assumed to be an error of the peer.
const ECHO_LIMIT: Span = Span::from_secs(120);

/// The position of sequence number `wire` that is nearest to `near`; `None` below the SYN.
pub(super) fn unwrap(initial: u32, near: u64, wire: u32) -> Option<u64> {
    let away = wire.wrapping_sub(initial.wrapping_add(near as u32)) as i32;
    near.checked_add_signed(i64::from(away))
}
