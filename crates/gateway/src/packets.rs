//! The packet service as the owner sees it: IP packets in and out, and ICMP errors.

use super::neighbours::Neighbours;
use super::routing::{Net, Stop, may_reach};
use super::{PacketConfig, PeerId};
use std::collections::VecDeque;
use std::net::IpAddr;
use wavelane_base::{Instant, Span};
use wavelane_services::packet::Packets as PacketService;
use wavelane_wire::packet::{IcmpError, IpPacket, Packet, answer, fragments_v4, may_answer};

/// Most packets of our own that wait for the owner: ICMP answers and fragments.
const INSIDE_MAX: usize = 256;
/// ICMP errors per second in the long run, and at once (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 (f)).
const ICMP_PER_SECOND: u64 = 100;
pub(super) const ICMP_BURST: u64 = 50;
/// The source of ICMP errors of a router without an IPv4 address (RFC 7600, section 4.8).
const DUMMY_V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 0, 8));
/// The packet service's state beside the links'.
#[derive(Debug)]
pub(super) struct Packets {
    config: Option<PacketConfig>,
    /// Packets of our own for the inside.
    inside: VecDeque<Vec<u8>>,
    /// The peer whose packets come first next time.
    cursor: usize,
    icmp: Allowance,
    counters: Counters,
}

/// Counters of what happens to packets above any link; all only grow.
#[derive(Debug, Default)]
struct Counters {
    from_inside: u64,
    to_inside: u64,
    icmp_sent: u64,
    icmp_suppressed: u64,
    fragmented: u64,
    dropped_no_service: u64,
    dropped_malformed: u64,
    dropped_local_scope: u64,
    dropped_no_route: u64,
    dropped_peer_down: u64,
    dropped_no_hops: u64,
    dropped_too_big: u64,
    dropped_source_not_allowed: u64,
    dropped_source_not_ours: u64,
    dropped_icmp_kind: u64,
    dropped_target_not_allowed: u64,
    dropped_buffer_too_small: u64,
}

impl Counters {
    fn named(&self) -> [(&'static str, u64); 17] {
        [
            ("packets_from_inside", self.from_inside),
            ("packets_to_inside", self.to_inside),
            ("packets_fragmented", self.fragmented),
            ("icmp_errors_sent", self.icmp_sent),
            ("icmp_errors_suppressed", self.icmp_suppressed),
            ("dropped_packets_no_service", self.dropped_no_service),
            ("dropped_packets_malformed", self.dropped_malformed),
            ("dropped_packets_local_scope", self.dropped_local_scope),
            ("dropped_packets_no_route", self.dropped_no_route),
            ("dropped_packets_peer_down", self.dropped_peer_down),
            ("dropped_packets_no_hops", self.dropped_no_hops),
            ("dropped_packets_too_big", self.dropped_too_big),
            ("dropped_packets_source_not_allowed", self.dropped_source_not_allowed),
            ("dropped_packets_source_not_ours", self.dropped_source_not_ours),
            ("dropped_packets_icmp_kind", self.dropped_icmp_kind),
            ("dropped_packets_target_not_allowed", self.dropped_target_not_allowed),
            ("dropped_packets_buffer_too_small", self.dropped_buffer_too_small),
        ]
    }
}

/// A token bucket.
#[derive(Debug)]
struct Allowance {
    left: u64,
    at: Instant,
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        let per = Span::from_nanos(1_000_000_000 / ICMP_PER_SECOND);
        let earned = now.since(self.at).as_nanos() / per.as_nanos();
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(ICMP_BURST);
            self.at = if self.left == ICMP_BURST { now } else { self.at + per.times(earned) };
        }
        let allowed = self.left > 0;
        self.left -= u64::from(allowed);
        allowed
    }
}

/// Where an ICMP error goes.
#[derive(Clone, Copy)]
enum Towards {
    Inside,
    Peer(PeerId),
}

impl Packets {
    pub(super) fn new(now: Instant, config: Option<PacketConfig>) -> Self {
        Self {
            config,
            inside: VecDeque::new(),
            cursor: 0,
            icmp: Allowance { left: ICMP_BURST, at: now },
            counters: Counters::default(),
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 17] {
        self.counters.named()
    }

    /// The peers' numbers have changed.
    pub(super) fn rename_peers(&mut self) {
        self.cursor = 0;
    }

    /// Takes one IP packet from the inside, with finished checksums. The peer is chosen by the longest matching
    /// [`super::PeerConfig::routes`]; what cannot be taken is answered with ICMP through [`Packets::poll`].
    pub(super) fn handle_packet(&mut self, net: &mut Net, now: Instant, packet: &[u8]) {
        let counters = &mut self.counters;
        counters.from_inside += 1;
        let Some(config) = self.config else {
            counters.dropped_no_service += 1;
            return;
        };
        let Ok(view) = Packet::parse(packet) else {
            counters.dropped_malformed += 1;
            return;
        };
        if !view.has_routable_addresses() {
            counters.dropped_local_scope += 1;
            return;
        }
        let Some(peer) = net.peer_towards(now, view.target) else {
            self.counters.dropped_no_route += 1;
            self.send_error(net, now, Towards::Inside, IcmpError::NoRoute, &view);
            return;
        };
        if let Some(stop) = net.stop_from_inside(peer, &view) {
            match stop {
                Stop::Source => self.counters.dropped_source_not_ours += 1,
                Stop::Icmp => self.counters.dropped_icmp_kind += 1,
            }
            return;
        }
        let mut packet = view.to_owned();
        if !packet.decrement_hops() {
            self.counters.dropped_no_hops += 1;
            self.send_error(net, now, Towards::Inside, IcmpError::TimeExceeded, &view);
            return;
        }
        if net.peers.is_down(now, peer) {
            self.counters.dropped_peer_down += 1;
            if !config.other_way {
                self.send_error(net, now, Towards::Inside, IcmpError::HostUnreachable, &view);
            }
            return;
        }
        if packet.bytes().len() <= config.inner_mtu {
            packet.clamp_mss(config.inner_mtu);
            push(&mut net.peers, now, peer, packet);
        } else if let Some(pieces) = self.fragments(&packet.view(), config.inner_mtu) {
            for piece in pieces.into_iter().filter_map(|piece| IpPacket::take(piece).ok()) {
                push(&mut net.peers, now, peer, piece);
            }
        } else {
            self.counters.dropped_too_big += 1;
            self.send_error(net, now, Towards::Inside, IcmpError::TooBig(config.inner_mtu as u32), &view);
            return;
        }
        net.peers.touch(peer);
    }

    /// Sends ICMP errors for packets that wait for a peer that is down, or are in flight to it, as far as [`ICMP_BURST`] allows.
    ///
    /// A router does not know the fate of a packet it sent, and reports nothing. We keep a copy for a retransmission that cannot
    /// be sent now either, so it is a packet that cannot be forwarded (RFC 1812, section 5.2.7.1; for waiting packets RFC 4861,
    /// section 7.2.2).
    pub(super) fn refuse_waiting(&mut self, net: &mut Net, now: Instant, peer: PeerId) {
        let Some(config) = self.config.filter(|_| net.peers.is_down(now, peer)) else { return };
        let given_up = net.peers.packets(peer).map(PacketService::withdraw).unwrap_or_default();
        self.counters.dropped_peer_down += given_up.len() as u64;
        for bytes in given_up.into_iter().filter(|_| !config.other_way) {
            let Ok(view) = Packet::parse(&bytes) else { continue };
            // If another peer stands in, the sender's retransmission goes there: the host is reachable.
            if net.peer_towards(now, view.target).is_none_or(|peer| net.peers.is_down(now, peer)) {
                self.send_error(net, now, Towards::Inside, IcmpError::HostUnreachable, &view);
            }
        }
    }

    /// An IPv4 packet that is too long, in fragments; `None` if it must not be fragmented.
    fn fragments(&mut self, packet: &Packet<'_>, mtu: usize) -> Option<Vec<Vec<u8>>> {
        let pieces = fragments_v4(packet, mtu)?;
        self.counters.fragmented += 1;
        Some(pieces)
    }

    /// Writes the next packet for the inside into `buf`, and returns its length.
    pub(super) fn poll(&mut self, buf: &mut [u8]) -> Option<usize> {
        while let Some(bytes) = self.inside.pop_front() {
            let Some(place) = buf.get_mut(..bytes.len()) else {
                self.counters.dropped_buffer_too_small += 1;
                continue;
            };
            place.copy_from_slice(&bytes);
            self.counters.to_inside += 1;
            return Some(bytes.len());
        }
        None
    }

    /// Takes the next packet of some peer and checks it. `None` once no peer has one.
    pub(super) fn fetch(&mut self, net: &mut Net, now: Instant) -> Option<()> {
        let count = net.peers.len();
        for step in 0..count {
            let peer = (self.cursor + step) % count;
            let Some(bytes) = net.peers.packets(PeerId(peer)).and_then(|packets| packets.poll()) else { continue };
            self.cursor = (peer + 1) % count;
            self.admit(net, now, PeerId(peer), bytes);
            return Some(());
        }
        None
    }

    /// A packet came from a peer: to the inside if the peer may send it.
    pub(super) fn admit(&mut self, net: &mut Net, now: Instant, peer: PeerId, bytes: Vec<u8>) {
        let Some(config) = self.config else { return };
        let Ok(mut packet) = IpPacket::take(bytes) else {
            self.counters.dropped_malformed += 1;
            return;
        };
        let view = packet.view();
        if !view.has_routable_addresses() {
            self.counters.dropped_local_scope += 1;
            return;
        }
        if let Some(stop) = net.stop_from_peer(peer, &view) {
            match stop {
                Stop::Source => self.counters.dropped_source_not_allowed += 1,
                Stop::Icmp => self.counters.dropped_icmp_kind += 1,
            }
            return;
        }
        // Packets to this machine itself are left to its firewall.
        let reachable = || may_reach(&net.peers.peer(peer).allow_targets, view.target, Some(&[]));
        if !net.is_own(view.target) && !reachable() {
            self.counters.dropped_target_not_allowed += 1;
            self.send_error(net, now, Towards::Peer(peer), IcmpError::Prohibited, &view);
            return;
        }
        if packet.bytes().len() <= config.inner_mtu {
            packet.clamp_mss(config.inner_mtu);
            self.inside.push_back(packet.into_bytes());
        } else if let Some(pieces) = self.fragments(&view, config.inner_mtu) {
            self.inside.extend(pieces);
        } else {
            self.counters.dropped_too_big += 1;
            self.send_error(net, now, Towards::Peer(peer), IcmpError::TooBig(config.inner_mtu as u32), &view);
        }
    }

    /// Sends an ICMP error about `about`, as far as the rules and the rate limit allow.
    fn send_error(&mut self, net: &mut Net, now: Instant, towards: Towards, error: IcmpError, about: &Packet<'_>) {
        let Some(config) = self.config else { return };
        let from = match about.source {
            IpAddr::V4(_) => Some(config.address4.map_or(DUMMY_V4, IpAddr::V4)),
            IpAddr::V6(_) => config.address6.map(IpAddr::V6),
        };
        let room = self.inside.len() < INSIDE_MAX;
        let packet = from.filter(|_| room && may_answer(about)).and_then(|from| answer(error, about, from));
        let Some(packet) = packet.filter(|_| self.icmp.take(now)) else {
            self.counters.icmp_suppressed += 1;
            return;
        };
        self.counters.icmp_sent += 1;
        match towards {
            Towards::Inside => self.inside.push_back(packet),
            Towards::Peer(peer) => {
                if let Ok(packet) = IpPacket::take(packet) {
                    push(&mut net.peers, now, peer, packet);
                }
                net.peers.touch(peer);
            }
        }
    }
}

fn push(peers: &mut Neighbours, now: Instant, peer: PeerId, packet: IpPacket) {
    if let Some(packets) = peers.packets(peer) {
        packets.push(now, packet);
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
