//! End hosts: our TCP on its own clock behind one address, with the programs on it. A host also forwards what is not
//! for it, since a gateway under a `tcp-*` stack is a plain router, or a split proxy, that may have programs of its own.

use crate::clock::NodeClock;
use crate::connection::{Connection, Seam, request};
use crate::datagrams;
use crate::door::{Proxy, ProxyConfig, Snooper};
use crate::node::{Moment, Outgoing, Resident, wake};
use crate::traffic::{FlowEnd, FlowIndex};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use wavelane_base::{FlowId, FrameMeta, Instant, IpPrefix, Machine, PortId, Seed, Streams, Wakeup};
use wavelane_tcp::{Host, HostEvent};
use wavelane_wire::ip::{IPV4_HEADER_LEN, Ipv4, PROTOCOL_UDP, Udp4, checksum};
use wavelane_wire::ipip::open;

/// Frames, events or rounds at one moment before the machine is called broken.
const DRAIN_LIMIT: usize = 1_000_000;

/// A host with what surrounds it.
pub(crate) struct HostNode {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) ports: usize,
    /// Host address to the port that leads to it.
    pub(crate) routes: BTreeMap<Ipv4Addr, usize>,
    /// Packets the node threw away, by reason.
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    clock: NodeClock,
    host: Host,
    connections: BTreeMap<FlowId, Connection>,
    proxy: Option<Box<Proxy>>,
    snooper: Option<Box<Snooper>>,
    /// Its address away from home.
    pub(crate) care_of: Option<Ipv4Addr>,
    buffer: Vec<u8>,
    /// Packets sent, modulo the range of identifications.
    packets: u16,
}

impl HostNode {
    pub(crate) fn new(
        name: &str,
        address: Ipv4Addr,
        clock: NodeClock,
        config: wavelane_tcp::Config,
        seed: Seed,
    ) -> Self {
        Self {
            name: name.to_owned(),
            address,
            ports: 0,
            routes: BTreeMap::new(),
            dropped: BTreeMap::new(),
            clock,
            host: Host::new(config, seed.entropy(&format!("host {name}"))),
            connections: BTreeMap::new(),
            proxy: None,
            snooper: None,
            care_of: None,
            buffer: vec![0; wavelane_tcp::PACKET_ROOM],
            packets: 0,
        }
    }

    /// Splits the TCP that crosses it from now on.
    pub(crate) fn split(&mut self, now: Instant, config: ProxyConfig, seed: Seed) {
        let entropy = seed.entropy(&format!("node {} / door 0", self.name));
        self.proxy = Some(Box::new(Proxy::new(&self.clock, now, self.address, config, entropy)));
    }
    /// Bytes that wait in the proxy, if it is one.
    pub(crate) fn proxy_waiting(&self) -> Option<usize> {
        self.proxy.as_ref().map(|proxy| proxy.waiting())
    }
    /// Snoops for the hosts of these networks from now on.
    pub(crate) fn snoop(&mut self, towards: Vec<IpPrefix>) {
        self.snooper = Some(Box::new(Snooper::new(towards)));
    }
    /// Hands out what is sent again.
    fn repeat(&mut self, moment: &mut Moment<'_>) {
        while let Some(packet) = self.snooper.as_mut().and_then(|snooper| snooper.poll_packet()) {
            let target = Ipv4::parse(&packet).ok().map(|ip| ip.target);
            match target.and_then(|target| self.routes.get(&target)) {
                Some(&port) => {
                    let packet = copy_of(moment, &packet);
                    moment.out.push(Outgoing::new(port, packet));
                }
                None => self.drop_packet("no_route"),
            }
        }
    }
    /// Lets the proxy move bytes and hands out its packets.
    fn serve_proxy(&mut self, local: Instant, moment: &mut Moment<'_>) -> bool {
        let Some(proxy) = &mut self.proxy else { return false };
        proxy.serve(local, (&self.name, &self.routes), moment, &mut self.dropped)
    }
    fn wake_proxy(&mut self, now: (Instant, Instant), woken: &mut bool) -> bool {
        self.proxy.as_mut().is_some_and(|proxy| proxy.wake(now, woken, &self.name))
    }
    /// Whether a packet for another node is the proxy's, which takes it.
    fn give_proxy(&mut self, local: Instant, packet: &mut [u8]) -> bool {
        let Some(proxy) = &mut self.proxy else { return false };
        let takes = Ipv4::parse(packet).is_ok_and(|ip| proxy.takes(&ip, packet));
        if takes {
            proxy.handle_packet(local, packet);
        }
        takes
    }

    pub(crate) fn listen(&mut self, address: SocketAddrV4) {
        self.host.listen(address.into());
    }
    pub(crate) fn listen_with(&mut self, address: SocketAddrV4, config: wavelane_tcp::Config) {
        self.host.listen_with(address.into(), config);
    }

    /// The port by which packets for `target` leave.
    pub(crate) fn port_towards(&self, target: SocketAddr) -> Option<usize> {
        let SocketAddr::V4(target) = target else { return None };
        self.routes.get(target.ip()).copied()
    }

    /// The status of the open connections.
    pub(crate) fn statuses(&self) -> Vec<wavelane_tcp::Status> {
        self.connections.keys().filter_map(|id| self.host.status(*id)).collect()
    }

    pub(crate) fn drop_packet(&mut self, why: &'static str) {
        *self.dropped.entry(why).or_default() += 1;
    }

    /// Counts identifications up in the packets that a host sends, as Linux and NetBSD do: RFC 1144 spends three octets on any other step.
    fn number(&mut self, len: usize) {
        let Some(header) = self.buffer[..len].get_mut(..IPV4_HEADER_LEN) else { return };
        self.packets = self.packets.wrapping_add(1);
        header[4..6].copy_from_slice(&self.packets.to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(&[header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    fn drain_frames(&mut self, local: Instant, moment: &mut Moment<'_>) {
        for _ in 0..DRAIN_LIMIT {
            let Some(sent) = self.host.poll_transmit(local, PortId(0), &mut self.buffer, 1) else { return };
            self.number(sent.len);
            let target = Ipv4::parse(&self.buffer[..sent.len]).ok().map(|ip| ip.target);
            match target.and_then(|target| self.routes.get(&target)) {
                Some(&port) => {
                    let packet = copy_of(moment, &self.buffer[..sent.len]);
                    moment.out.push(Outgoing::new(port, packet));
                }
                None => self.drop_packet("no_route"),
            }
        }
        panic!("host {} breaks law 2: the drain does not end", self.name)
    }

    fn take_event(&mut self, moment: &mut Moment<'_>, event: HostEvent) -> bool {
        match event {
            HostEvent::Accepted { flow, .. } => {
                self.connections.insert(flow, Connection::accepted(flow));
                self.pump(moment, flow)
            }
            HostEvent::Connection(flow, event) => match event {
                wavelane_tcp::TcpEvent::Connected => {
                    if let Some(connection) = self.connections.get_mut(&flow) {
                        connection.note_accepted(moment.flows, moment.now);
                    }
                    self.pump(moment, flow)
                }
                wavelane_tcp::TcpEvent::Readable | wavelane_tcp::TcpEvent::Writable => self.pump(moment, flow),
                wavelane_tcp::TcpEvent::Closed => {
                    self.connections.remove(&flow);
                    false
                }
                wavelane_tcp::TcpEvent::Refused => self.forget(moment, flow, FlowEnd::Refused(None)),
                wavelane_tcp::TcpEvent::Reset | wavelane_tcp::TcpEvent::TimedOut => {
                    self.forget(moment, flow, FlowEnd::Reset(None))
                }
            },
        }
    }

    fn forget(&mut self, moment: &mut Moment<'_>, flow: FlowId, how: FlowEnd) -> bool {
        if let Some(connection) = self.connections.remove(&flow) {
            connection.note_reset(moment.flows, moment.now, how);
        }
        false
    }
}

/// A packet in a buffer that was used before, if there is one.
fn copy_of(moment: &mut Moment<'_>, packet: &[u8]) -> Vec<u8> {
    let mut copy = moment.spare.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(packet);
    copy
}

impl Resident for HostNode {
    fn receive(&mut self, moment: &mut Moment<'_>, port: usize, packet: &mut Vec<u8>) {
        if self.care_of.is_some_and(|care_of| Ipv4::parse(packet).is_ok_and(|ip| ip.target == care_of)) {
            match open(packet) {
                Ok(opened) => *packet = opened.packet.to_vec(),
                Err(_) => return self.drop_packet("not_tunnelled"),
            }
        }
        let (target, protocol) = match Ipv4::parse(packet) {
            Ok(ip) => (ip.target, ip.protocol),
            Err(_) => return self.drop_packet("damaged"),
        };
        if target == self.address && protocol == PROTOCOL_UDP {
            return match Udp4::parse(packet) {
                Ok(udp) => datagrams::receive(self, moment, &udp),
                Err(_) => self.drop_packet("damaged"),
            };
        }
        if target == self.address {
            let local = self.clock.local(moment.now);
            let meta = FrameMeta { rx_time: local, ..FrameMeta::default() };
            self.host.handle_timeout(local);
            self.host.handle_frame(local, PortId(0), packet, meta);
            return self.service(moment);
        }
        if self.give_proxy(self.clock.local(moment.now), packet) {
            return self.service(moment);
        }
        let local = self.clock.local(moment.now);
        let passes = self.snooper.as_mut().is_none_or(|snooper| snooper.passes(local, packet));
        if passes {
            match self.routes.get(&target).filter(|to| **to != port) {
                Some(&to) => moment.out.push(Outgoing::new(to, std::mem::take(packet))),
                None => self.drop_packet("no_route"),
            }
        }
        self.repeat(moment);
    }

    fn timeout(&mut self, moment: &mut Moment<'_>) {
        let local = self.clock.local(moment.now);
        self.host.handle_timeout(local);
        if let Some(proxy) = &mut self.proxy {
            proxy.handle_timeout(local);
        }
        if let Some(snooper) = &mut self.snooper {
            snooper.handle_timeout(local);
        }
        self.repeat(moment);
        self.service(moment);
    }

    fn open(&mut self, moment: &mut Moment<'_>, index: FlowIndex) -> Option<FlowId> {
        let flow = &mut moment.flows[index.0];
        flow.log.connected = Some(moment.now);
        let (local, source, target) = (self.clock.local(moment.now), flow.spec.source, flow.spec.target);
        let opened = match &flow.tcp {
            Some(config) => self.host.connect_with(local, source, target, config),
            None => self.host.connect(local, source, target),
        };
        match opened {
            Ok(id) => {
                self.connections.insert(id, Connection::client(id, index, request(index, flow.content)));
                Some(id)
            }
            Err(_) => {
                flow.finish(moment.now, FlowEnd::Refused(None));
                None
            }
        }
    }

    fn abandon(&mut self, moment: &mut Moment<'_>, id: FlowId) {
        if self.connections.remove(&id).is_some() {
            self.host.reset(self.clock.local(moment.now), id);
        }
    }

    fn pump(&mut self, moment: &mut Moment<'_>, id: FlowId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let local = self.clock.local(moment.now);
        let (now, flows, piece) = (moment.now, &mut *moment.flows, &mut *moment.piece);
        connection.pump(&mut Seam { now, local, streams: &mut self.host, flows, piece })
    }

    fn service(&mut self, moment: &mut Moment<'_>) {
        let local = self.clock.local(moment.now);
        let (mut woken, mut proxy_woken) = (false, false);
        for _ in 0..DRAIN_LIMIT {
            // Programs take no time: they have read what came before the host's answer announces how much room is left.
            if let Some(event) = self.host.poll_event() {
                self.take_event(moment, event);
                continue;
            }
            self.drain_frames(local, moment);
            if let Some(event) = self.host.poll_event() {
                self.take_event(moment, event);
                continue;
            }
            if self.serve_proxy(local, moment) {
                continue;
            }
            let (now, wakeup) = ((moment.now, local), self.host.poll_timeout());
            let woke = wake(&mut self.host, wakeup, now, &mut woken, &self.name);
            if !woke && !self.wake_proxy(now, &mut proxy_woken) {
                return;
            }
        }
        panic!("host {} breaks law 2 at {:?}: it still acts", self.name, moment.now)
    }

    fn deadline(&self) -> Option<Instant> {
        let proxy = self.proxy.as_ref().and_then(|proxy| proxy.poll_timeout());
        let snooper = self.snooper.as_ref().and_then(|snooper| snooper.poll_timeout());
        Wakeup::earliest(Wakeup::earliest(self.host.poll_timeout(), proxy), snooper)
            .map(|wakeup| self.clock.global(wakeup.at))
    }

    fn server_of(&self, index: FlowIndex) -> Option<FlowId> {
        self.connections.values().find(|c| c.serves(index)).map(|c| c.id)
    }
}
