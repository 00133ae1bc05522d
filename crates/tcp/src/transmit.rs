//! Segment transmission: which segment is sent next, with its flags, window and options.

use super::connection::{Connection, NO_SHIFT};
use super::deadlines::TRY_OCTETS;
use super::scoreboard::Scoreboard;
use super::send::Plan;
use super::state::ConnectionState;
use wavelane_base::{Class, Ecn, Instant, Transmit};
use wavelane_wire::tcp::{Flags, Options, SackBlocks, TCP_OPTIONS_MAX, TcpHeader, Timestamps, emit};

impl Connection {
    /// Writes the next packet into `buf`, which must have room for [`super::PACKET_ROOM`] bytes.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if std::mem::take(&mut self.reset_due) {
            return self.put(now, buf, self.sender.next, Flags::RST.with(Flags::ACK), None);
        }
        if self.state == ConnectionState::Closed {
            return None;
        }
        if self.receiver.owed > 0 && self.receiver.has_reports() {
            return self.put_ack(now, buf, self.sender.next);
        }
        if std::mem::take(&mut self.sender.window_probe_due) | std::mem::take(&mut self.keepalive_due) {
            // One position below the peer's next expected: it must answer (RFC 9293, section 3.8.4).
            return self.put_ack(now, buf, self.sender.una - 1);
        }
        if let Some(sent) = self.put_data(now, buf) {
            return Some(sent);
        }
        (self.receiver.owed > 0).then(|| self.put_ack(now, buf, self.sender.next)).flatten()
    }

    fn put_ack(&mut self, now: Instant, buf: &mut [u8], seq: u64) -> Option<Transmit> {
        let sent = self.put(now, buf, seq, Flags::ACK, None);
        self.receiver.acknowledged(true);
        sent
    }

    fn put_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let handshake = self.sender.una == 0;
        let may_go = self.state != ConnectionState::TimeWait && (handshake || self.sender.is_paced_out(now));
        let Some(plan) = self.sender.plan().filter(|_| may_go) else {
            self.sender.note_usage();
            self.sender.end_burst(now);
            return None;
        };
        let (start, end, pushed) = match plan {
            Plan::Again(place) => {
                let most = if self.sender.is_try() { TRY_OCTETS } else { u64::MAX };
                let sent = self.sender.board.get(place)?;
                (sent.start, sent.end.min(sent.start.saturating_add(most)), sent.pushed)
            }
            Plan::New { octets, fin } => {
                let Some(pushed) = self.sender.couple(now, octets) else {
                    self.sender.note_usage();
                    return None;
                };
                (self.sender.next, self.sender.next + octets + u64::from(fin), pushed)
            }
        };
        let mut flags = if start == 0 && self.state == ConnectionState::SynSent { Flags::SYN } else { Flags::ACK };
        if start == 0 {
            flags = flags.with(Flags::SYN);
        }
        // The FIN follows the last byte written.
        if end > self.sender.data_end() {
            flags = flags.with(Flags::FIN);
        }
        if pushed || start > 0 && end >= self.sender.data_end() {
            flags = flags.with(Flags::PSH);
        }
        let sent = self.put(now, buf, start, flags, Some((start, end, plan)))?;
        self.sender.sent(now, plan, pushed);
        if start == 0 && self.sender.counters.segments <= 1 {
            // The first SYN is not a retransmission: its RTT is sampled.
            self.sender.board = Scoreboard::new(self.config.quirks.guess_arrivals);
            let stamp = self.sender.delivery.stamp(now, 0, 1);
            self.sender.board.push(0, 1, stamp, false);
            self.sender.counters.retransmits = 0;
        }
        self.receiver.acknowledged(false);
        self.receiver.note_reply(now);
        Some(sent)
    }

    fn put(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        seq: u64,
        flags: Flags,
        data: Option<(u64, u64, Plan)>,
    ) -> Option<Transmit> {
        let mut flags = flags;
        let fresh = matches!(data, Some((_, _, Plan::New { octets, .. })) if octets > 0);
        let syn = flags.has(Flags::SYN);
        if self.marks {
            match (syn, flags.has(Flags::ACK)) {
                (true, false) => flags = flags.with(Flags::ECE).with(Flags::CWR),
                (true, true) => flags = flags.with(Flags::ECE),
                _ if self.echo_mark && !flags.has(Flags::RST) => flags = flags.with(Flags::ECE),
                _ => {}
            }
            if fresh && std::mem::take(&mut self.sender.reduced_due) {
                flags = flags.with(Flags::CWR);
            }
        }
        let window =
            if flags.has(Flags::ACK) && !syn { self.receiver.announce() } else { self.receiver.announce_first() };
        let shift = if syn { 0 } else { self.receiver.shift };
        let octets = data.map_or(0, |(start, end, _)| end - start);
        let header = TcpHeader {
            seq: self.iss.wrapping_add(seq as u32),
            ack: if flags.has(Flags::ACK) { self.irs.wrapping_add(self.receiver.next as u32) } else { 0 },
            flags,
            window: (window >> shift).min(u64::from(u16::MAX)) as u16,
            urgent: 0,
            options: self.options(now, syn, flags, octets),
        };
        let payload = data.map_or([&[][..], &[][..]], |(start, end, _)| self.sender.bytes(start, end));
        let ecn = if self.marks && fresh && self.state.is_synchronised() { Ecn::Ect0 } else { Ecn::NotEct };
        let len = emit(self.local, self.remote, ecn, &header, payload, buf).ok()?;
        self.sender.counters.segments += 1;
        self.last_ack = self.receiver.next;
        let class = if octets == 0 { Class::Control } else { Class::Bulk };
        Some(Transmit { len, class, ecn, ..Transmit::default() })
    }

    fn options(&mut self, now: Instant, syn: bool, flags: Flags, octets: u64) -> Options {
        let mut options = Options {
            timestamps: self.stamps.then(|| Timestamps { value: self.clock(now), echo: self.recent_stamp.0 }),
            ..Options::default()
        };
        if syn {
            // A SYN-ACK offers only the options of the SYN.
            let answer = flags.has(Flags::ACK);
            options.mss = Some(self.config.mss);
            options.sack_permitted = if answer { self.sender.sack } else { self.config.sack };
            let scale = if answer { self.peer_scales() } else { self.config.window_scale };
            options.window_scale = scale.then_some(self.receiver.shift);
        } else if self.sender.sack && !flags.has(Flags::RST) && octets == 0 {
            let most = (TCP_OPTIONS_MAX - options.len() - 4) / 8;
            let mut blocks = SackBlocks::default();
            for (left, right) in self.receiver.reports(most) {
                blocks.push(self.irs.wrapping_add(left as u32), self.irs.wrapping_add(right as u32));
            }
            options.sack = blocks;
        }
        options
    }

    /// Whether the peer's SYN offered window scaling and we do it.
    fn peer_scales(&self) -> bool {
        self.config.window_scale && self.peer_shift != NO_SHIFT
    }
}
