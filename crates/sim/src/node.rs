//! Gateway nodes: a gateway machine on its own clock, its UDP ports, and the programs at its stream seam.

use crate::bulk_room::BulkRoom;
use crate::clock::NodeClock;
use crate::connection::{Connection, PIECE, Seam, request};
use crate::door::NodeDoor;
use crate::faults::NodeFaults;
use crate::media::{self, Carried};
use crate::traffic::{Flow, FlowEnd, FlowIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Address, Class, FlowId, FrameMeta, Instant, Machine, PortId, Seed, Streams, Wakeup};
use wavelane_channel::wifi::Handling;
use wavelane_door::OwnDoor;
use wavelane_gateway::{Config, ConfigError, Gateway, GatewayEvent, LaneConfig, Reason};

/// Frames or events one drain may give before the machine is called broken.
const DRAIN_LIMIT: usize = 100_000;
/// Rounds of "machine drained, programs acted" at one moment before the node is called broken.
const ROUNDS_LIMIT: usize = 100_000;
/// Equal-size segments asked for at once, as a daemon with UDP segmentation offload does.
const SEGMENTS: usize = 8;
/// Room for one batch.
const BATCH_ROOM: usize = 65_535;
/// The port of a gateway that is no lane: where the packet service takes and gives IP packets.
pub(crate) const INSIDE: usize = u16::MAX as usize;
/// The first port of a gateway's door; where channels to endpoints are plugged in.
pub(crate) const DOOR: usize = INSIDE + 1;
/// Peer events kept per node; older ones stay, later ones are only counted.
const PEER_EVENTS_KEPT: usize = 10_000;

/// A packet that leaves a node.
pub(crate) struct Outgoing {
    pub(crate) port: usize,
    pub(crate) packet: Vec<u8>,
    /// How a radio is to send it, where the node says so.
    pub(crate) handling: Option<Handling>,
}

impl Outgoing {
    pub(crate) fn new(port: usize, packet: Vec<u8>) -> Self {
        Self { port, packet, handling: None }
    }
}

/// A gateway with what surrounds it.
pub(crate) struct GatewayNode {
    pub(crate) name: String,
    pub(crate) clock: NodeClock,
    pub(crate) gateway: Gateway,
    /// The address of each lanes' port.
    pub(crate) ports: Vec<Address>,
    pub(crate) listening: BTreeSet<SocketAddr>,
    pub(crate) peer_events: Vec<(Instant, GatewayEvent)>,
    /// Packets the node threw away, by reason.
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    pub(crate) door: Option<Box<NodeDoor>>,
    /// Radios whose station is told of each frame how to send it.
    radios: Vec<BulkRoom>,
    connections: BTreeMap<FlowId, Connection>,
    seed: Seed,
    boots: u64,
    faults: NodeFaults,
    buffer: Vec<u8>,
}

/// What the engine lends a node while it acts.
pub(crate) struct Moment<'a> {
    pub(crate) now: Instant,
    pub(crate) flows: &'a mut [Flow],
    pub(crate) out: &'a mut Vec<Outgoing>,
    /// Packet buffers to be used again.
    pub(crate) spare: &'a mut Vec<Vec<u8>>,
    /// Room for what a program moves per call.
    pub(crate) piece: &'a mut [u8; PIECE],
}

/// A node: a gateway, an end host, or a router, which has neither a machine nor programs.
pub(crate) trait Resident {
    /// A packet arrived at `port`. A node that forwards it may take the buffer.
    fn receive(&mut self, moment: &mut Moment<'_>, port: usize, packet: &mut Vec<u8>);
    /// The deadline came.
    fn timeout(&mut self, _moment: &mut Moment<'_>) {}
    /// A client program connects.
    fn open(&mut self, _moment: &mut Moment<'_>, index: FlowIndex) -> Option<FlowId> {
        panic!("program {} runs on a router", index.0)
    }
    /// A client program gives up.
    fn abandon(&mut self, _moment: &mut Moment<'_>, _id: FlowId) {}
    /// Lets the program behind `id` read and write. Returns whether anything moved.
    fn pump(&mut self, _moment: &mut Moment<'_>, _id: FlowId) -> bool {
        false
    }
    /// Drains the machine and lets programs act until nothing is left to do at this moment.
    fn service(&mut self, _moment: &mut Moment<'_>) {}
    /// When the machine wants to be woken, in the engine's time.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// The server connection that serves `index` here, if there is one.
    fn server_of(&self, _index: FlowIndex) -> Option<FlowId> {
        None
    }
}

/// Wakes a drained machine if what just happened made its deadline, `wakeup`, of this very moment. Returns whether it did.
///
/// # Panics
/// If the machine was `woken` at this moment before: then its deadline is stale.
pub(crate) fn wake(
    machine: &mut impl Machine,
    wakeup: Option<Wakeup>,
    (now, local): (Instant, Instant),
    woken: &mut bool,
    name: &str,
) -> bool {
    let Some(wakeup) = wakeup.filter(|wakeup| wakeup.at <= local) else { return false };
    assert!(
        !*woken,
        "node {name} breaks law 3 at {now:?} (its clock {local:?}): stale deadline {:?} for '{}'",
        wakeup.at, wakeup.cause
    );
    machine.handle_timeout(local);
    *woken = true;
    true
}

impl GatewayNode {
    pub(crate) fn new(
        name: &str,
        now: Instant,
        clock: NodeClock,
        config: Config,
        seed: Seed,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            name: name.to_owned(),
            clock,
            gateway: boot(name, clock.local(now), config, seed, 0)?,
            ports: Vec::new(),
            listening: BTreeSet::new(),
            peer_events: Vec::new(),
            dropped: BTreeMap::new(),
            door: None,
            radios: Vec::new(),
            connections: BTreeMap::new(),
            seed,
            boots: 0,
            faults: NodeFaults::default(),
            buffer: vec![0; BATCH_ROOM],
        })
    }

    /// Makes it misbehave from now on.
    pub(crate) fn set_faults(&mut self, faults: NodeFaults) {
        self.faults = faults;
        self.gateway.set_faults(faults.draw(&self.name, self.seed, self.boots));
    }

    /// Ends TCP at the gateway's own `address` from now on.
    pub(crate) fn open_door(&mut self, now: Instant, address: Ipv4Addr, config: wavelane_tcp::Config) {
        let door = self.new_door(now, address, &config);
        self.door = Some(Box::new(NodeDoor::new(address, config, door)));
    }

    fn new_door(&self, now: Instant, address: Ipv4Addr, config: &wavelane_tcp::Config) -> OwnDoor {
        let entropy = self.seed.entropy(&format!("node {} / door {}", self.name, self.boots));
        OwnDoor::on_own_tcp(self.clock.local(now), address.into(), config.clone(), entropy)
    }

    /// The process dies and starts again: memory gone, new boot epoch, programs see their connections reset.
    pub(crate) fn restart(&mut self, moment: &mut Moment<'_>) {
        for (_, connection) in std::mem::take(&mut self.connections) {
            connection.note_reset(moment.flows, moment.now, FlowEnd::Reset(None));
        }
        self.boots += 1;
        let config = self.gateway.config().clone();
        match boot(&self.name, self.clock.local(moment.now), config, self.seed, self.boots) {
            Ok(gateway) => {
                self.gateway = gateway;
                self.set_faults(self.faults);
            }
            Err(why) => panic!("node {}: a configuration that was good is refused now: {why}", self.name),
        }
        if let Some(mut node) = self.door.take() {
            // A kernel resets sockets whose process died; here segments without a connection are reset.
            node.door = self.new_door(moment.now, node.address, &node.config);
            self.door = Some(node);
        }
        self.service(moment);
    }

    /// The process is told to read its configuration again.
    pub(crate) fn reload(&mut self, moment: &mut Moment<'_>, config: Config) {
        if let Err(why) = self.gateway.reload(self.clock.local(moment.now), config) {
            panic!("node {}: the new configuration needs a restart: {why}", self.name);
        }
        self.service(moment);
    }

    fn drain_packets(&mut self, local: Instant, out: &mut Vec<Outgoing>) {
        for _ in 0..DRAIN_LIMIT {
            let Some(len) = self.gateway.poll_packet(local, &mut self.buffer) else { return };
            out.push(Outgoing::new(INSIDE, self.buffer[..len].to_vec()));
        }
        panic!("node {} breaks law 2: the drain of its packets does not end", self.name)
    }

    /// Hands out frames until no port has any: what leaves by one may leave room for another's.
    fn drain_frames(&mut self, local: Instant, moment: &mut Moment<'_>) {
        while self.drain_ports(local, moment) && self.ports.len() > 1 {}
    }

    /// Returns whether anything left.
    fn drain_ports(&mut self, local: Instant, moment: &mut Moment<'_>) -> bool {
        let mut any = false;
        for radio in 0..self.radios.len() {
            any |= self.drain_radio(local, moment, radio);
        }
        for port in 0..self.ports.len() {
            // What is left for a radio is small.
            let mut batches = 0;
            while self.send_from(local, moment, port).is_some() {
                batches += 1;
                any = true;
                self.still_drains(batches, port);
            }
        }
        any
    }

    /// Fills the room of a radio. Returns whether anything left.
    fn drain_radio(&mut self, local: Instant, moment: &mut Moment<'_>, radio: usize) -> bool {
        let (mut batches, mut idle) = (0, 0);
        while !self.radios[radio].is_full() && idle < self.radios[radio].ports().len() {
            let port = self.radios[radio].in_turn();
            self.gateway.set_bulk_room(PortId(port as u16), true);
            match self.send_from(local, moment, port) {
                Some((Class::Bulk, octets)) => {
                    idle = 0;
                    self.radios[radio].took(octets);
                }
                Some(_) => idle = 0,
                None => {
                    idle += 1;
                    self.radios[radio].has_none();
                    continue;
                }
            }
            batches += 1;
            self.still_drains(batches, port);
        }
        let room = !self.radios[radio].is_full();
        for port in self.radios[radio].ports() {
            self.gateway.set_bulk_room(PortId(*port as u16), room);
        }
        batches > 0
    }

    fn still_drains(&self, batches: usize, port: usize) {
        assert!(batches < DRAIN_LIMIT, "node {} breaks law 2: the drain of port {port} does not end", self.name);
    }

    /// Sends the next batch of datagrams that the gateway has for `port`: its class and octets.
    fn send_from(&mut self, local: Instant, moment: &mut Moment<'_>, port: usize) -> Option<(Class, usize)> {
        let sent = self.gateway.poll_transmit(local, PortId(port as u16), &mut self.buffer, SEGMENTS)?;
        let took = Some((sent.class, sent.len));
        let Some(to) = sent.to else {
            *self.dropped.entry("no_target").or_default() += 1;
            return took;
        };
        let handling = self.radios.iter().any(|radio| radio.has(port)).then(|| Handling::from(&sent));
        let segment = sent.segment_size.map_or(sent.len, usize::from).max(1);
        for payload in self.buffer[..sent.len].chunks(segment) {
            let from = self.ports[port];
            let datagram = Carried { from, to, ecn: sent.ecn, payload };
            let mut packet = moment.spare.pop().unwrap_or_default();
            packet.clear();
            match (media::of(from).wrap)(&datagram, &mut packet) {
                true => moment.out.push(Outgoing { port, packet, handling }),
                false => *self.dropped.entry("not_carried").or_default() += 1,
            }
        }
        took
    }

    /// The lanes at `ports` share one radio, which takes `room` bulk frames, if they say of each frame how to send it.
    pub(crate) fn plug_radio(&mut self, ports: Vec<usize>, room: usize) {
        let lanes = self.gateway.config().peers.iter().flat_map(|peer| &peer.lanes);
        let is_raw = |lane: &LaneConfig| lane.carrier.radio.is_some();
        let raw: Vec<usize> = lanes.filter(|lane| is_raw(lane)).map(|lane| usize::from(lane.port.0)).collect();
        if ports.iter().any(|port| raw.contains(port)) {
            self.radios.push(BulkRoom::new(ports, room));
        }
    }

    /// The radio behind a port takes `room` bulk frames. Returns whether it is one of ours that takes them again.
    pub(crate) fn set_radio_room(&mut self, port: usize, room: usize) -> bool {
        self.radios.iter_mut().find(|radio| radio.has(port)).is_some_and(|radio| radio.set(room))
    }

    /// Hands events to programs. Returns whether one of them did something to the machine.
    fn drain_events(&mut self, moment: &mut Moment<'_>) -> bool {
        let mut acted = false;
        for _ in 0..DRAIN_LIMIT {
            let Some(event) = self.gateway.poll_event() else { return acted };
            acted |= self.take_event(moment, event);
        }
        panic!("node {} breaks law 2: the event drain does not end", self.name)
    }

    fn take_event(&mut self, moment: &mut Moment<'_>, event: GatewayEvent) -> bool {
        let local = self.clock.local(moment.now);
        if let Some(of_flow) = event.of_flow()
            && let Some(node) = self.door.as_mut().filter(|_| !self.connections.contains_key(&of_flow.flow()))
            && !matches!(event, GatewayEvent::Incoming { target, .. } if self.listening.contains(&target))
        {
            node.door.handle_event(local, &mut self.gateway, of_flow);
            return true;
        }
        match event {
            GatewayEvent::Incoming { flow, target, .. } => {
                if self.listening.contains(&target) {
                    self.connections.insert(flow, Connection::accepted(flow));
                    self.gateway.accept(local, flow);
                } else {
                    self.gateway.refuse(local, flow, Reason::Refused);
                }
                true
            }
            GatewayEvent::Accepted(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.note_accepted(moment.flows, moment.now);
                }
                self.pump(moment, id)
            }
            GatewayEvent::Readable(id) | GatewayEvent::Writable(id) | GatewayEvent::Ending(id) => self.pump(moment, id),
            GatewayEvent::Refused(id, reason) => self.forget(moment, id, Some(FlowEnd::Refused(Some(reason)))),
            GatewayEvent::Reset(id, reason) => self.forget(moment, id, Some(FlowEnd::Reset(Some(reason)))),
            GatewayEvent::Closed(id) => self.forget(moment, id, None),
            GatewayEvent::PeerUp(_)
            | GatewayEvent::PeerSilent(_)
            | GatewayEvent::PathMtu { .. }
            | GatewayEvent::PeerDown(_)
            | GatewayEvent::PeerRestarted(_)
            | GatewayEvent::Unanswered { .. }
            | GatewayEvent::OwnKeyUnknown(_)
            | GatewayEvent::Unreadable(_)
            | GatewayEvent::Denied { .. }
            | GatewayEvent::Notice { .. }
            | GatewayEvent::Echo { .. }
            | GatewayEvent::UnknownCaller { .. } => {
                if self.peer_events.len() < PEER_EVENTS_KEPT {
                    self.peer_events.push((moment.now, event));
                }
                false
            }
        }
    }

    /// Lets the door move bytes and hands out its packets. Returns whether it did anything to the gateway.
    fn serve_door(&mut self, local: Instant, moment: &mut Moment<'_>) -> bool {
        let Some(node) = &mut self.door else { return false };
        let acted = node.door.service(local, &mut self.gateway);
        node.drain(local, &self.name, &mut self.buffer, moment, &mut self.dropped);
        acted
    }

    fn door_timeout(&self) -> Option<Wakeup> {
        self.door.as_ref()?.door.poll_timeout()
    }

    fn wake_door(&mut self, wakeup: Option<Wakeup>, now: (Instant, Instant), woken: &mut bool) -> bool {
        let Some(node) = &mut self.door else { return false };
        node.wake(&mut self.gateway, wakeup, now, woken, &self.name)
    }

    fn forget(&mut self, moment: &mut Moment<'_>, id: FlowId, how: Option<FlowEnd>) -> bool {
        if let (Some(connection), Some(how)) = (self.connections.remove(&id), how) {
            connection.note_reset(moment.flows, moment.now, how);
        }
        false
    }

    /// The radio received a packet from station `sender` for the station that `port` leads to.
    pub(crate) fn overhear(&mut self, moment: &mut Moment<'_>, port: usize, sender: usize, packet: &[u8]) {
        let Some(datagram) = (media::of(self.ports[port]).unwrap)(packet) else { return };
        let local = self.clock.local(moment.now);
        self.gateway.overhear(local, PortId(port as u16), sender as u64, datagram.payload);
        self.service(moment);
    }

    pub(crate) fn drop_packet(&mut self, why: &'static str) {
        *self.dropped.entry(why).or_default() += 1;
    }
}

impl Resident for GatewayNode {
    fn receive(&mut self, moment: &mut Moment<'_>, port: usize, packet: &mut Vec<u8>) {
        if port == INSIDE {
            self.gateway.handle_packet(self.clock.local(moment.now), packet);
            return self.service(moment);
        }
        if port >= DOOR {
            if let Some(node) = &mut self.door {
                node.door.handle_packet(self.clock.local(moment.now), &mut self.gateway, packet);
            }
            return self.service(moment);
        }
        let Some(datagram) = (media::of(self.ports[port]).unwrap)(packet) else { return self.drop_packet("damaged") };
        if datagram.to != self.ports[port] {
            return self.drop_packet("not_ours");
        }
        let local = self.clock.local(moment.now);
        let meta = FrameMeta { rx_time: local, ecn: datagram.ecn, from: Some(datagram.from), ..FrameMeta::default() };
        let payload = &mut self.buffer[..datagram.payload.len()];
        payload.copy_from_slice(datagram.payload);
        self.gateway.handle_frame(local, PortId(port as u16), payload, meta);
        self.service(moment);
    }

    fn timeout(&mut self, moment: &mut Moment<'_>) {
        let local = self.clock.local(moment.now);
        self.gateway.handle_timeout(local);
        if let Some(node) = &mut self.door {
            node.door.handle_timeout(local, &mut self.gateway);
        }
        self.service(moment);
    }

    fn open(&mut self, moment: &mut Moment<'_>, index: FlowIndex) -> Option<FlowId> {
        let flow = &mut moment.flows[index.0];
        let (spec, content) = (&flow.spec, flow.content);
        flow.log.connected = Some(moment.now);
        let local = self.clock.local(moment.now);
        match self.gateway.open(local, spec.peer, spec.source, spec.target) {
            Ok(id) => {
                self.connections.insert(id, Connection::client(id, index, request(index, content)));
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
            self.gateway.reset(self.clock.local(moment.now), id);
        }
    }

    fn pump(&mut self, moment: &mut Moment<'_>, id: FlowId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let local = self.clock.local(moment.now);
        let (now, flows, piece) = (moment.now, &mut *moment.flows, &mut *moment.piece);
        connection.pump(&mut Seam { now, local, streams: &mut self.gateway, flows, piece })
    }

    fn service(&mut self, moment: &mut Moment<'_>) {
        let local = self.clock.local(moment.now);
        let (mut woken, mut door_woken) = (false, false);
        for _ in 0..ROUNDS_LIMIT {
            self.drain_packets(local, moment.out);
            self.drain_frames(local, moment);
            if self.drain_events(moment) || self.serve_door(local, moment) {
                continue;
            }
            let (now, gateway, door) = ((moment.now, local), self.gateway.poll_timeout(), self.door_timeout());
            let woke = wake(&mut self.gateway, gateway, now, &mut woken, &self.name);
            if !woke && !self.wake_door(door, now, &mut door_woken) {
                return;
            }
        }
        panic!("node {} breaks law 2 at {:?}: after {ROUNDS_LIMIT} rounds it still acts", self.name, moment.now)
    }

    fn deadline(&self) -> Option<Instant> {
        Wakeup::earliest(self.gateway.poll_timeout(), self.door_timeout()).map(|wakeup| self.clock.global(wakeup.at))
    }

    fn server_of(&self, index: FlowIndex) -> Option<FlowId> {
        self.connections.values().find(|c| c.serves(index)).map(|c| c.id)
    }
}

fn boot(name: &str, local: Instant, config: Config, seed: Seed, boots: u64) -> Result<Gateway, ConfigError> {
    let mut entropy = seed.entropy(&format!("node {name} / boot {boots}"));
    // Peers refuse an epoch that is not newer than the last one they saw.
    let epoch = (boots + 1) << 32 | entropy.next_u64() >> 32;
    Gateway::new(local, config, epoch, entropy)
}
