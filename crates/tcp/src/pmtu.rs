//! Path-MTU discovery by ICMP (RFC 1191, RFC 8201), validated as RFC 5927 advises, and out of black holes, whose routers say nothing.

use super::connection::Connection;
use super::send::{Phase, Sender};
use super::state::ConnectionState;
use wavelane_base::Instant;
use wavelane_wire::icmp::TooBig;
use wavelane_wire::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN};
use wavelane_wire::tcp::TCP_HEADER_LEN;

/// Minimum accepted over IPv4 (Linux's `min_pmtu`): a forged message must not force tiny segments.
const MTU_MIN_V4: u32 = 552;
/// The minimum MTU of IPv6 (RFC 8200, section 5): a smaller value is ignored (RFC 8201, section 4).
const MTU_MIN_V6: u32 = 1_280;
/// If a router does not state the MTU: the next lower of these (RFC 1191, section 7, table 7-1).
const PLATEAUS: [u32; 7] = [8_166, 4_352, 2_002, 1_492, 1_006, 508, 296];

/// Outages in a row that only a try ended are none: long segments do not cross.
const BLACK_HOLE_TRIES: u32 = 2;

impl Connection {
    /// Octets of headers before a segment's data, and the least MTU.
    fn overhead(&self) -> (u64, u32) {
        let (header, least) =
            if self.remote.is_ipv6() { (IPV6_HEADER_LEN, MTU_MIN_V6) } else { (IPV4_HEADER_LEN, MTU_MIN_V4) };
        ((header + TCP_HEADER_LEN) as u64 + if self.stamps { super::arrive::STAMP_LEN } else { 0 }, least)
    }

    /// Small segments cross and long ones do not: the next smaller size is tried (RFC 2923, section 2.1, names the problem).
    pub(super) fn leave_black_hole(&mut self, now: Instant) {
        if self.sender.only_tries < BLACK_HOLE_TRIES {
            return;
        }
        self.sender.only_tries = 0;
        let (overhead, least) = self.overhead();
        let now_sent = self.sender.mss + overhead;
        let mtu = PLATEAUS.into_iter().find(|mtu| u64::from(*mtu) < now_sent).unwrap_or(least);
        self.shrink(now, u64::from(mtu.max(least)) - overhead);
    }

    fn shrink(&mut self, now: Instant, mss: u64) {
        if mss < self.sender.mss {
            self.sender.counters.mtu_reductions += 1;
            self.sender.shrink_segments(now, mss);
        }
    }

    /// A router reports that one of our packets was too long. Ignored unless it quotes a segment in flight (RFC 5927,
    /// section 4.1) and states less than we send.
    pub fn handle_too_big(&mut self, now: Instant, message: &TooBig) {
        let flying = message.seq.wrapping_sub(self.iss.wrapping_add(self.sender.una as u32));
        let in_flight = u64::from(flying) < self.sender.next - self.sender.una;
        let believed = !self.remote.is_ipv6() || message.mtu >= MTU_MIN_V6;
        if !self.state.is_synchronised() || self.state == ConnectionState::TimeWait || !in_flight || !believed {
            self.sender.counters.ignored_icmp += 1;
            return;
        }
        let (overhead, least) = self.overhead();
        let now_sent = self.sender.mss + overhead;
        let claimed = match message.mtu {
            0 => PLATEAUS.into_iter().find(|mtu| u64::from(*mtu) < now_sent).unwrap_or(least),
            mtu => mtu,
        };
        self.shrink(now, u64::from(claimed.max(least)) - overhead);
    }
}

impl Sender {
    /// Segments are at most `mss` bytes from now on. Longer segments in flight are split and retransmitted at once; this is
    /// no sign of congestion, so cwnd is kept (RFC 1191, section 6.4).
    fn shrink_segments(&mut self, now: Instant, mss: u64) {
        self.mss = mss;
        self.controller.set_mss(mss);
        if self.board.cut_and_lose(mss) && self.phase == Phase::Open {
            self.phase = Phase::Loss(self.next);
            self.undo = None;
            self.prr = None;
        }
        self.tail_probe = None;
        self.tail_at = None;
        self.rto_at = Some(now + self.rtt.rto());
    }
}
