//! Two hosts joined by a pipe that queues, loses, delays, repeats and swaps packets, in virtual time.

use super::*;
use std::collections::BTreeMap;
use wavelane_base::{Chance, FlowId, FrameMeta, Machine, Octets, PortId, Rate, Ratio, ReadOutcome, Seed, Streams};
use wavelane_wire::icmp::TooBig;
use wavelane_wire::tcp::TcpPacket;

#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) rate: Rate,
    pub(super) delay: Span,
    /// Bytes that may wait.
    pub(super) queue: u64,
    pub(super) loss: Ratio,
    pub(super) repeat: Ratio,
    /// This share arrives `late` later than its turn.
    pub(super) swap: Ratio,
    pub(super) late: Span,
    /// Queued bytes above which packets are marked instead of dropped.
    pub(super) mark_above: Option<u64>,
}

impl Way {
    pub(super) fn clean(mbit: u64, delay_ms: u64, queue: u64) -> Self {
        Self {
            rate: Rate::from_bps(mbit * 1_000_000),
            delay: Span::from_millis(delay_ms),
            queue,
            loss: Ratio::ZERO,
            repeat: Ratio::ZERO,
            swap: Ratio::ZERO,
            late: Span::ZERO,
            mark_above: None,
        }
    }
    pub(super) fn losing(self, num: u32, den: u32) -> Self {
        Self { loss: Ratio::new(num, den).unwrap(), ..self }
    }
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) hosts: [Host; 2],
    pub(super) ways: [Way; 2],
    free_at: [Instant; 2],
    stalled_until: Instant,
    chance: Chance,
    /// (arrival, number) to (receiver, packet).
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    number: u64,
    pub(super) events: [Vec<HostEvent>; 2],
    /// Packets dropped by chance or by the queue.
    pub(super) dropped: u64,
    /// Longer packets are answered by a router with an ICMP message, on the way from the first host.
    pub(super) mtu: Option<usize>,
    /// Drops the packets for which it says so: (sender, segment).
    pub(super) filter: Option<fn(usize, &TcpPacket<'_>, u64) -> bool>,
}

/// The two addresses.
pub(super) fn address(side: usize) -> std::net::SocketAddr {
    ["192.0.2.1:40000", "192.0.2.2:80"][side].parse().unwrap()
}
/// The two addresses over IPv6.
pub(super) fn address_v6(side: usize) -> std::net::SocketAddr {
    ["[2001:db8::1]:40000", "[2001:db8::2]:80"][side].parse().unwrap()
}

impl World {
    pub(super) fn new(configs: [Config; 2], ways: [Way; 2], seed: u64) -> Self {
        let [a, b] = configs;
        let seed = Seed(seed);
        let mut server = Host::new(b, seed.entropy("server"));
        server.listen(address(1));
        server.listen(address_v6(1));
        Self {
            now: Instant::ZERO,
            hosts: [Host::new(a, seed.entropy("client")), server],
            ways,
            free_at: [Instant::ZERO; 2],
            stalled_until: Instant::ZERO,
            chance: seed.chance("pipe"),
            flying: BTreeMap::new(),
            number: 0,
            events: [Vec::new(), Vec::new()],
            dropped: 0,
            filter: None,
            mtu: None,
        }
    }

    pub(super) fn drain(&mut self) {
        let mut buf = vec![0; PACKET_ROOM];
        for side in [0, 1] {
            while let Some(sent) = self.hosts[side].poll_transmit(self.now, PortId(0), &mut buf, 1) {
                self.send(side, &buf[..sent.len]);
            }
            while let Some(event) = self.hosts[side].poll_event() {
                self.events[side].push(event);
            }
            if let Some(wakeup) = self.hosts[side].poll_timeout() {
                assert!(wakeup.at > self.now, "stale deadline for {} at {:?}", wakeup.cause, self.now);
            }
        }
    }

    fn send(&mut self, side: usize, packet: &[u8]) {
        let mut packet = packet.to_vec();
        let way = self.ways[side];
        let stalled = self.stalled_until.since(self.now);
        let waiting = way.rate.octets_in(self.free_at[side].since(self.now).saturating_sub(stalled)).get();
        let segment = TcpPacket::parse(&packet).unwrap();
        if let Some(mtu) = self.mtu.filter(|mtu| side == 0 && packet.len() > *mtu) {
            let mut buf = vec![0; 576];
            let router = if segment.source.is_ipv6() { "2001:db8::99" } else { "198.51.100.99" }.parse().unwrap();
            let len = TooBig::emit(router, mtu as u32, &packet, &mut buf).unwrap();
            buf.truncate(len);
            self.number += 1;
            self.dropped += 1;
            self.flying.insert((self.now + way.delay, self.number), (side, buf));
            return;
        }
        self.number += 1;
        if self.filter.is_some_and(|filter| filter(side, &segment, self.number)) || waiting > way.queue {
            self.dropped += 1;
            return;
        }
        if way.mark_above.is_some_and(|above| waiting > above) && segment.ecn != wavelane_base::Ecn::NotEct {
            let marked = TcpPacket { ecn: wavelane_base::Ecn::Ce, ..segment };
            let mut buf = vec![0; packet.len()];
            marked.emit(&mut buf).unwrap();
            packet = buf;
        }
        self.free_at[side] = self.free_at[side].max(self.now) + way.rate.time_for(Octets::new(packet.len() as u64));
        if self.chance.happens(way.loss) {
            self.dropped += 1;
            return;
        }
        let copies = 1 + u64::from(self.chance.happens(way.repeat));
        for _ in 0..copies {
            let late = if self.chance.happens(way.swap) { way.late } else { Span::ZERO };
            self.number += 1;
            self.flying.insert((self.free_at[side] + way.delay + late, self.number), (1 - side, packet.clone()));
        }
    }

    /// Moves to the next thing that happens, not beyond `until`. Returns whether there was one.
    pub(super) fn step(&mut self, until: Instant) -> bool {
        self.drain();
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let wake = self.hosts.iter().filter_map(Host::poll_timeout).map(|wakeup| wakeup.at).min();
        let Some(next) = [arrival, wake].into_iter().flatten().min().filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = next;
        if arrival == Some(next) {
            let ((_, _), (side, mut packet)) = self.flying.pop_first().unwrap();
            let meta = FrameMeta { rx_time: self.now, ..FrameMeta::default() };
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(next));
            self.hosts[side].handle_frame(self.now, PortId(0), &mut packet, meta);
        } else {
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(next));
        }
        self.drain();
        true
    }

    pub(super) fn run(&mut self, until: Instant) {
        while self.step(until) {}
    }

    /// Whatever is sent in the next moments arrives `by` later, in order.
    pub(super) fn stall(&mut self, by: Span) {
        self.stalled_until = self.now + by;
        self.free_at = self.free_at.map(|at| at.max(self.now) + by);
    }

    /// Opens a connection and runs until both sides know of it.
    pub(super) fn open(&mut self, limit: Instant) -> [FlowId; 2] {
        self.open_between(address(0), address(1), limit)
    }

    pub(super) fn open_between(
        &mut self,
        from: std::net::SocketAddr,
        to: std::net::SocketAddr,
        limit: Instant,
    ) -> [FlowId; 2] {
        let client = self.hosts[0].connect(self.now, from, to).unwrap();
        loop {
            let accepted = self.events[1].iter().find_map(|event| match event {
                HostEvent::Accepted { flow, .. } => Some(*flow),
                HostEvent::Connection(..) => None,
            });
            if let Some(server) = accepted {
                return [client, server];
            }
            assert!(self.step(limit), "no connection until {limit:?}");
        }
    }

    /// Sends `total` bytes from `from`, and reads them at the other side as they come; returns when the last arrived.
    pub(super) fn transfer(
        &mut self,
        flows: [FlowId; 2],
        from: usize,
        total: usize,
        limit: Instant,
    ) -> Option<Instant> {
        let byte = |at: usize| (at * 7 + at / 251) as u8;
        let (mut written, mut read) = (0, 0);
        let mut buf = vec![0; 65_536];
        loop {
            while written < total {
                let n = (total - written).min(16_384);
                let piece: Vec<u8> = (written..written + n).map(byte).collect();
                let taken = self.hosts[from].write(self.now, flows[from], &piece);
                written += taken;
                if taken == 0 {
                    break;
                }
            }
            while let ReadOutcome::Data(n) = self.hosts[1 - from].read(self.now, flows[1 - from], &mut buf) {
                assert!(buf[..n].iter().enumerate().all(|(i, b)| *b == byte(read + i)), "damage near {read}");
                read += n;
            }
            if read == total {
                return Some(self.now);
            }
            if !self.step(limit) {
                return None;
            }
        }
    }
}
