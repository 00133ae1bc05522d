//! The packet service as the owner sees it: IP packets in and out, and ICMP errors.

use super::policy::{Stop, may_reach};
use super::{Config, Event, Gateway, PacketConfig, PeerId};
use std::collections::VecDeque;
use std::net::IpAddr;
use wavelane_base::{Entropy, Instant, IpPrefix, Span, Wakeup, route};
use wavelane_services::packet::{Packets as PacketService, PacketsConfig};
use wavelane_wire::packet::{IcmpError, IpPacket, Packet, answer, fragments_v4, may_answer};

/// A peer that was asked and not heard for this long is down. Packets wait no longer than that anyway, so an outage that they
/// could outlive is never reported.
pub(super) const DOWN_AFTER: Span = Span::from_secs(3);

/// Most packets of our own that wait for the owner: ICMP answers and fragments.
const INSIDE_MAX: usize = 256;
/// ICMP errors per second in the long run, and at once (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 (f)).
const ICMP_PER_SECOND: u64 = 100;
pub(super) const ICMP_BURST: u64 = 50;
/// The source of ICMP errors of a router without an IPv4 address (RFC 7600, section 4.8).
const DUMMY_V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 0, 8));
/// Longest packet taken from a peer, whose inside may be wider than ours.
const PACKET_MAX: usize = u16::MAX as usize;

/// The packet service's state beside the links'.
#[derive(Debug)]
pub(super) struct Packets {
    config: Option<PacketConfig>,
    /// A new link's packet service configuration.
    pub(super) link: Option<PacketsConfig>,
    /// Longest prefix first.
    routes: Vec<(IpPrefix, PeerId)>,
    /// Packets of our own for the inside.
    inside: VecDeque<Vec<u8>>,
    /// The peer whose packets come first next time.
    cursor: usize,
    icmp: Allowance,
    /// This machine's own addresses.
    own: Vec<IpAddr>,
    pub(super) counters: Counters,
}

/// Counters of what happens to packets above any link; all only grow.
#[derive(Debug, Default)]
pub(super) struct Counters {
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
    pub(super) fn named(&self) -> [(&'static str, u64); 17] {
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
    pub(super) fn new(now: Instant, config: &Config, link: Option<PacketsConfig>) -> Self {
        let mut packets = Self {
            config: config.packets,
            link,
            routes: Vec::new(),
            inside: VecDeque::new(),
            cursor: 0,
            icmp: Allowance { left: ICMP_BURST, at: now },
            own: Vec::new(),
            counters: Counters::default(),
        };
        packets.set_routes(config);
        packets
    }

    /// The peers' routes have changed, or their numbers.
    pub(super) fn set_routes(&mut self, config: &Config) {
        let peers = config.peers.iter().enumerate();
        self.routes = peers.flat_map(|(i, peer)| peer.routes.iter().map(move |prefix| (*prefix, PeerId(i)))).collect();
        self.cursor = 0;
    }

    /// Whether `ip` is this machine's own, or what our ICMP errors come from.
    pub(super) fn is_own(&self, ip: IpAddr) -> bool {
        let router = self.config.is_some_and(|config| match ip {
            IpAddr::V4(ip) => config.address4 == Some(ip),
            IpAddr::V6(ip) => config.address6 == Some(ip),
        });
        router || self.own.contains(&ip)
    }

    /// The peer that packets for `target` go to: of equal routes the first of a peer that is not `down`, else the first.
    fn route(&self, target: IpAddr, down: impl Fn(PeerId) -> bool) -> Option<PeerId> {
        route(self.routes.iter().copied(), target, down).map(|(_, peer)| peer)
    }
}

/// Each link's packet service configuration. Draws a flow-hash key only if there is a service.
pub(super) fn link_packets(config: &Config, entropy: &mut Entropy) -> Option<PacketsConfig> {
    let packets = config.packets?;
    Some(PacketsConfig {
        packet_max: PACKET_MAX,
        pool: packets.pool / config.peers.len().max(1),
        discipline: packets.discipline,
        repairs: packets.repairs,
        tries: packets.tries,
        key: [entropy.next_u64(), entropy.next_u64()],
    })
}

impl Gateway {
    /// The peer that leads to `target` now.
    pub fn peer_towards(&self, now: Instant, target: IpAddr) -> Option<PeerId> {
        if self.config.by_table {
            let ways = self.ways_by_table(None, target);
            return ways.iter().find(|peer| !self.is_down(now, **peer)).or(ways.first()).copied();
        }
        self.packets.route(target, |peer| self.is_down(now, peer))
    }

    /// Takes one IP packet from the inside, with finished checksums. The peer is chosen by the longest matching
    /// [`super::PeerConfig::routes`]; what cannot be taken is answered with ICMP through [`Gateway::poll_packet`].
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let counters = &mut self.packets.counters;
        counters.from_inside += 1;
        let Some(config) = self.packets.config else {
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
        let Some(peer) = self.peer_towards(now, view.target) else {
            self.packets.counters.dropped_no_route += 1;
            self.send_error(now, Towards::Inside, IcmpError::NoRoute, &view);
            return;
        };
        if let Some(stop) = self.stop_from_inside(peer, &view) {
            match stop {
                Stop::Source => self.packets.counters.dropped_source_not_ours += 1,
                Stop::Icmp => self.packets.counters.dropped_icmp_kind += 1,
            }
            return;
        }
        let mut packet = view.to_owned();
        if !packet.decrement_hops() {
            self.packets.counters.dropped_no_hops += 1;
            self.send_error(now, Towards::Inside, IcmpError::TimeExceeded, &view);
            return;
        }
        if self.is_down(now, peer) {
            self.packets.counters.dropped_peer_down += 1;
            if !config.other_way {
                self.send_error(now, Towards::Inside, IcmpError::HostUnreachable, &view);
            }
            return;
        }
        if packet.bytes().len() <= config.inner_mtu {
            packet.clamp_mss(config.inner_mtu);
            self.push_to_peer(now, peer, packet);
        } else if let Some(pieces) = self.fragments(&packet.view(), config.inner_mtu) {
            for piece in pieces.into_iter().filter_map(|piece| IpPacket::take(piece).ok()) {
                self.push_to_peer(now, peer, piece);
            }
        } else {
            self.packets.counters.dropped_too_big += 1;
            self.send_error(now, Towards::Inside, IcmpError::TooBig(config.inner_mtu as u32), &view);
            return;
        }
        self.settle(now, peer);
    }

    /// The addresses of this machine now: no peer may use them as a source, and its firewall decides about packets to them.
    pub fn set_own_addresses(&mut self, own: Vec<IpAddr>) {
        self.packets.own = own;
    }

    /// Whether the peer does not answer, or has no known address.
    fn is_down(&self, now: Instant, peer: PeerId) -> bool {
        let state = &self.peers[peer.0];
        let unanswered = state.down_at.is_some_and(|at| at <= now);
        let nowhere = || (0..self.sessions.ways(peer.0)).all(|way| self.sessions.address(peer.0, way).is_none());
        state.down || unanswered || !state.can_seal && nowhere()
    }

    /// Tells the owner of a peer that counts as down from now on.
    pub(super) fn note_down(&mut self, now: Instant, peer: PeerId) {
        let state = &mut self.peers[peer.0];
        if !state.down && state.down_at.is_some_and(|at| at <= now) {
            (state.down, state.up) = (true, false);
            self.leave_lost_ways(now);
            self.events.push_back(Event::PeerDown(peer));
        }
    }

    /// Sends ICMP errors for packets that wait for a peer that is down, or are in flight to it, as far as [`ICMP_BURST`] allows.
    ///
    /// A router does not know the fate of a packet it sent, and reports nothing. We keep a copy for a retransmission that cannot
    /// be sent now either, so it is a packet that cannot be forwarded (RFC 1812, section 5.2.7.1; for waiting packets RFC 4861,
    /// section 7.2.2).
    pub(super) fn refuse_waiting(&mut self, now: Instant, peer: PeerId) {
        let Some(config) = self.packets.config.filter(|_| self.is_down(now, peer)) else { return };
        let given_up = self.links[peer.0].service.packets.as_mut().map(PacketService::withdraw).unwrap_or_default();
        self.packets.counters.dropped_peer_down += given_up.len() as u64;
        for bytes in given_up.into_iter().filter(|_| !config.other_way) {
            let Ok(view) = Packet::parse(&bytes) else { continue };
            // If another peer stands in, the sender's retransmission goes there: the host is reachable.
            if self.peer_towards(now, view.target).is_none_or(|peer| self.is_down(now, peer)) {
                self.send_error(now, Towards::Inside, IcmpError::HostUnreachable, &view);
            }
        }
    }

    /// When either is due.
    pub(super) fn down_time(&self, peer: PeerId) -> Option<Wakeup> {
        let owes = self.links[peer.0].service.packets.as_ref().is_some_and(PacketService::owes_any);
        let at = self.peers[peer.0].down_at.filter(|_| owes || !self.peers[peer.0].down)?;
        Some(Wakeup { at, cause: "gateway: a peer counts as down" })
    }

    /// An IPv4 packet that is too long, in fragments; `None` if it must not be fragmented.
    fn fragments(&mut self, packet: &Packet<'_>, mtu: usize) -> Option<Vec<Vec<u8>>> {
        let pieces = fragments_v4(packet, mtu)?;
        self.packets.counters.fragmented += 1;
        Some(pieces)
    }

    fn push_to_peer(&mut self, now: Instant, peer: PeerId, packet: IpPacket) {
        if let Some(packets) = &mut self.links[peer.0].service.packets {
            packets.push(now, packet);
        }
    }

    /// Writes the next IP packet for the inside into `buf`, which must hold `inner_mtu` bytes, and returns its length.
    /// Drain after every call that brings in the network or the clock.
    pub fn poll_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        loop {
            let bytes = match self.packets.inside.pop_front() {
                Some(bytes) => bytes,
                None => {
                    self.fetch(now)?;
                    continue;
                }
            };
            let Some(place) = buf.get_mut(..bytes.len()) else {
                self.packets.counters.dropped_buffer_too_small += 1;
                continue;
            };
            place.copy_from_slice(&bytes);
            self.packets.counters.to_inside += 1;
            return Some(bytes.len());
        }
    }

    /// Takes the next packet of some peer and checks it. `None` once no peer has one.
    fn fetch(&mut self, now: Instant) -> Option<()> {
        let count = self.links.len();
        for step in 0..count {
            let peer = (self.packets.cursor + step) % count;
            let Some(bytes) = self.links[peer].service.packets.as_mut().and_then(|packets| packets.poll()) else {
                continue;
            };
            self.packets.cursor = (peer + 1) % count;
            self.admit(now, PeerId(peer), bytes);
            return Some(());
        }
        None
    }

    /// A packet came from a peer: to the inside if the peer may send it.
    pub(super) fn admit(&mut self, now: Instant, peer: PeerId, bytes: Vec<u8>) {
        let Some(config) = self.packets.config else { return };
        let Ok(mut packet) = IpPacket::take(bytes) else {
            self.packets.counters.dropped_malformed += 1;
            return;
        };
        let view = packet.view();
        if !view.has_routable_addresses() {
            self.packets.counters.dropped_local_scope += 1;
            return;
        }
        if let Some(stop) = self.stop_from_peer(peer, &view) {
            match stop {
                Stop::Source => self.packets.counters.dropped_source_not_allowed += 1,
                Stop::Icmp => self.packets.counters.dropped_icmp_kind += 1,
            }
            return;
        }
        // Packets to this machine itself are left to its firewall.
        let reachable = || may_reach(&self.config.peers[peer.0].allow_targets, view.target, Some(&[]));
        if !self.packets.is_own(view.target) && !reachable() {
            self.packets.counters.dropped_target_not_allowed += 1;
            self.send_error(now, Towards::Peer(peer), IcmpError::Prohibited, &view);
            return;
        }
        if packet.bytes().len() <= config.inner_mtu {
            packet.clamp_mss(config.inner_mtu);
            self.packets.inside.push_back(packet.into_bytes());
        } else if let Some(pieces) = self.fragments(&view, config.inner_mtu) {
            self.packets.inside.extend(pieces);
        } else {
            self.packets.counters.dropped_too_big += 1;
            self.send_error(now, Towards::Peer(peer), IcmpError::TooBig(config.inner_mtu as u32), &view);
        }
    }

    /// Sends an ICMP error about `about`, as far as the rules and the rate limit allow.
    fn send_error(&mut self, now: Instant, towards: Towards, error: IcmpError, about: &Packet<'_>) {
        let Some(config) = self.packets.config else { return };
        let from = match about.source {
            IpAddr::V4(_) => Some(config.address4.map_or(DUMMY_V4, IpAddr::V4)),
            IpAddr::V6(_) => config.address6.map(IpAddr::V6),
        };
        let room = self.packets.inside.len() < INSIDE_MAX;
        let packet = from.filter(|_| room && may_answer(about)).and_then(|from| answer(error, about, from));
        let Some(packet) = packet.filter(|_| self.packets.icmp.take(now)) else {
            self.packets.counters.icmp_suppressed += 1;
            return;
        };
        self.packets.counters.icmp_sent += 1;
        match towards {
            Towards::Inside => self.packets.inside.push_back(packet),
            Towards::Peer(peer) => {
                if let Ok(packet) = IpPacket::take(packet) {
                    self.push_to_peer(now, peer, packet);
                }
                self.settle(now, peer);
            }
        }
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
