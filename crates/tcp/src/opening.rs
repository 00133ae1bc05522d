//! How a connection opens: SYNs, and the answers to them (RFC 9293, sections 3.5 and 3.10.7).

use super::arrive::{STAMP_LEN, unwrap};
use super::config::Config;
use super::connection::{Connection, NO_SHIFT, TcpEvent};
use super::numbers::Numbers;
use super::state::ConnectionState;
use wavelane_base::{Instant, Span};
use wavelane_wire::tcp::{Flags, Options, TcpHeader, TcpPacket};

/// The MSS of a peer that announces none, over IPv4 and over IPv6 (RFC 9293, section 3.7.1).
const MSS_ASSUMED: u16 = 536;
const MSS_ASSUMED_V6: u16 = 1_220;
/// The minimum for a peer's MSS: one byte per segment would cost us a 40-byte header each.
const MSS_LEAST: u16 = 64;

impl Connection {
    /// A connection that answers `syn`, a segment with SYN and without ACK or RST.
    pub fn accept(now: Instant, config: &Config, syn: &TcpPacket<'_>, numbers: Numbers) -> Self {
        let mut this = Self::new(now, config, syn.target, syn.source, numbers, ConnectionState::SynReceived);
        this.passive = true;
        this.take_syn(now, &syn.header);
        this.send_syn(now);
        this
    }

    /// Records the options of the peer's SYN.
    fn take_syn(&mut self, now: Instant, header: &TcpHeader) {
        let options: &Options = &header.options;
        self.irs = header.seq;
        self.receiver.synchronise();
        self.stamps = self.config.timestamps && options.timestamps.is_some();
        self.recent_stamp = (options.timestamps.map_or(0, |stamps| stamps.value), now);
        match options.window_scale.filter(|_| self.config.window_scale) {
            Some(shift) => self.peer_shift = shift,
            None => (self.peer_shift, self.receiver.shift) = (NO_SHIFT, 0),
        }
        self.marks = self.config.ecn && header.flags.has(Flags::ECE) && {
            // A SYN requests ECN with both bits, a SYN-ACK accepts with one (RFC 3168, section 6.1.1).
            header.flags.has(Flags::CWR) != header.flags.has(Flags::ACK)
        };
        let assumed = if self.remote.is_ipv6() { MSS_ASSUMED_V6 } else { MSS_ASSUMED };
        let offered = options.mss.unwrap_or(assumed).max(MSS_LEAST).min(self.config.mss).max(1);
        let overhead = if self.stamps { STAMP_LEN } else { 0 };
        self.sender.establish(
            now,
            u64::from(offered) - overhead.min(u64::from(offered) / 2),
            self.config.sack && options.sack_permitted,
        );
        self.set_window(u64::from(header.window), (0, 0));
    }

    /// RFC 9293, section 3.10.7.3.
    pub(super) fn in_syn_sent(&mut self, now: Instant, header: &TcpHeader) {
        let acks = header.flags.has(Flags::ACK);
        let right = acks && header.ack == self.iss.wrapping_add(1) && !self.sender.board.is_empty();
        if acks && !right {
            // The host answers with a reset; a reset is never answered.
            return;
        }
        if header.flags.has(Flags::RST) {
            if right {
                self.finish(Some(TcpEvent::Refused));
            }
            return;
        }
        if !header.flags.has(Flags::SYN) {
            return;
        }
        if right {
            let syn = self.syn_round_trip(now);
            self.take_syn(now, header);
            syn.into_iter().for_each(|rtt| self.sender.note_syn_round_trip(rtt));
            self.open(now);
            self.receiver.owe();
        } else {
            // Simultaneous open: our SYN is sent again, as a SYN-ACK.
            self.take_syn(now, header);
            self.enter(ConnectionState::SynReceived);
            self.sender.board.mark_lost(0);
        }
    }

    pub(super) fn syn_round_trip(&self, now: Instant) -> Option<Span> {
        self.sender.board.front().filter(|syn| !syn.again).map(|syn| now.since(syn.stamp.sent_at))
    }

    /// Our SYN is acknowledged.
    pub(super) fn open(&mut self, now: Instant) {
        let repeated = self.passive && self.sender.board.front().is_some_and(|syn| syn.again);
        self.sender.open(now, repeated || self.sender.counters.timeouts > 0);
        self.enter(ConnectionState::Established);
        self.report(TcpEvent::Connected);
        self.note_alive(now);
        if self.sender.closing {
            self.enter(ConnectionState::FinWait1);
        }
        if self.sender.room() > 0 && std::mem::take(&mut self.writer_waits) {
            self.report(TcpEvent::Writable);
        }
    }

    /// RFC 5961, section 4.2: a SYN in a synchronised state is answered with a challenge ACK and otherwise ignored.
    pub(super) fn on_late_syn(&mut self, now: Instant, header: &TcpHeader) {
        if self.state == ConnectionState::SynReceived && header.seq == self.irs {
            if header.flags.has(Flags::ACK) && header.ack == self.iss.wrapping_add(1) {
                // The other half of a simultaneous open.
                let rtt = self.syn_round_trip(now);
                self.open(now);
                rtt.into_iter().for_each(|rtt| self.sender.note_syn_round_trip(rtt));
                self.set_window(u64::from(header.window), (1, 1));
                self.receiver.owe();
            } else if self.sender.board.pipe() > 0 {
                // The peer retransmitted its SYN, so our SYN-ACK was lost. It is sent once per retransmission.
                self.sender.board.mark_lost(0);
            }
            return;
        }
        self.challenge(now);
    }

    /// Whether the host must answer with a reset: an acknowledgement of data that this half-open connection never sent (RFC
    /// 9293, section 3.10.7.3 and 3.10.7.4).
    pub(super) fn refuses(&self, header: &TcpHeader) -> bool {
        let half_open = match self.state {
            ConnectionState::SynSent => true,
            // An old segment of an earlier connection is answered like any other.
            ConnectionState::SynReceived => unwrap(self.irs, self.receiver.next, header.seq)
                .is_some_and(|start| start >= self.receiver.next && start <= self.receiver.edge()),
            _ => false,
        };
        half_open && header.flags.has(Flags::ACK) && header.ack != self.iss.wrapping_add(1)
    }
    /// Whether a SYN is newer than any segment this connection received (RFC 6191, section 2).
    pub(super) fn is_newer(&self, header: &TcpHeader) -> bool {
        let by_stamp = header.options.timestamps.filter(|_| self.stamps);
        let by_number = (header.seq.wrapping_sub(self.irs.wrapping_add(self.receiver.next as u32)) as i32) > 0;
        by_stamp.map_or(by_number, |stamps| match stamps.value.wrapping_sub(self.recent_stamp.0) as i32 {
            0 => by_number,
            later => later > 0,
        })
    }
}
