//! A node's door on a TCP of its own, and a node that is nothing but such a door: a split proxy.

use crate::clock::NodeClock;
use crate::node::{Moment, Outgoing, Resident};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wavelane_base::{Instant, Seed, Wakeup};
use wavelane_door::{FarSide, OwnDoor, Pair, PairConfig};
use wavelane_wire::ip::Ipv4;
use wavelane_wire::tcp::PROTOCOL_TCP;

/// Packets one drain may give, and rounds at one moment, before the node is called broken.
const DRAIN_LIMIT: usize = 100_000;
/// Room for one packet.
const PACKET_ROOM: usize = 65_535;

/// A door, and where its packets go.
pub(crate) struct NodeDoor {
    pub(crate) address: Ipv4Addr,
    pub(crate) config: wavelane_tcp::Config,
    pub(crate) door: OwnDoor,
    /// Channels plugged in.
    pub(crate) ports: usize,
    /// Endpoint to the port that leads to it.
    pub(crate) routes: BTreeMap<Ipv4Addr, usize>,
}

impl NodeDoor {
    pub(crate) fn new(address: Ipv4Addr, config: wavelane_tcp::Config, door: OwnDoor) -> Self {
        Self { address, config, door, ports: 0, routes: BTreeMap::new() }
    }

    /// Hands out the door's packets.
    pub(crate) fn drain(
        &mut self,
        local: Instant,
        name: &str,
        buffer: &mut [u8],
        moment: &mut Moment<'_>,
        dropped: &mut BTreeMap<&'static str, u64>,
    ) {
        for _ in 0..DRAIN_LIMIT {
            let Some(len) = self.door.poll_packet(local, buffer) else { return };
            let target = Ipv4::parse(&buffer[..len]).ok().map(|ip| ip.target);
            match target.and_then(|target| self.routes.get(&target)) {
                Some(&port) => {
                    let mut packet = moment.spare.pop().unwrap_or_default();
                    packet.clear();
                    packet.extend_from_slice(&buffer[..len]);
                    moment.out.push(Outgoing::new(port, packet));
                }
                None => *dropped.entry("no_route").or_default() += 1,
            }
        }
        panic!("node {name} breaks law 2: the drain of its door does not end")
    }

    /// As [`crate::node::wake`], for the door.
    pub(crate) fn wake(
        &mut self,
        far: &mut impl FarSide,
        wakeup: Option<Wakeup>,
        (now, local): (Instant, Instant),
        woken: &mut bool,
        name: &str,
    ) -> bool {
        let Some(wakeup) = wakeup.filter(|wakeup| wakeup.at <= local) else { return false };
        assert!(!*woken, "node {name} breaks law 3 at {now:?}: stale deadline for '{}'", wakeup.cause);
        self.door.handle_timeout(local, far);
        *woken = true;
        true
    }
}

/// A node that ends the TCP that crosses it and begins another, without a link in between. It forwards what is not TCP.
pub(crate) struct ProxyNode {
    pub(crate) name: String,
    clock: NodeClock,
    pub(crate) door: NodeDoor,
    pair: Pair,
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    buffer: Vec<u8>,
}

impl ProxyNode {
    /// A proxy that connects to servers from `address`.
    pub(crate) fn new(
        name: &str,
        now: Instant,
        address: Ipv4Addr,
        clock: NodeClock,
        config: wavelane_tcp::Config,
        seed: Seed,
    ) -> Self {
        let entropy = seed.entropy(&format!("node {name} / door 0"));
        let door = OwnDoor::on_own_tcp(clock.local(now), address.into(), config.clone(), entropy);
        Self {
            name: name.to_owned(),
            clock,
            door: NodeDoor::new(address, config, door),
            pair: Pair::new(PairConfig::default()),
            dropped: BTreeMap::new(),
            buffer: vec![0; PACKET_ROOM],
        }
    }
}

impl Resident for ProxyNode {
    fn receive(&mut self, moment: &mut Moment<'_>, port: usize, packet: &mut Vec<u8>) {
        let Ok(ip) = Ipv4::parse(packet) else { return *self.dropped.entry("damaged").or_default() += 1 };
        if ip.protocol != PROTOCOL_TCP && !self.door.door.is_about_ours(packet) {
            match self.door.routes.get(&ip.target).filter(|to| **to != port) {
                Some(to) => moment.out.push(Outgoing::new(*to, std::mem::take(packet))),
                None => *self.dropped.entry("no_route").or_default() += 1,
            }
            return;
        }
        self.door.door.handle_packet(self.clock.local(moment.now), &mut self.pair, packet);
        self.service(moment);
    }

    fn timeout(&mut self, moment: &mut Moment<'_>) {
        self.door.door.handle_timeout(self.clock.local(moment.now), &mut self.pair);
        self.service(moment);
    }

    fn service(&mut self, moment: &mut Moment<'_>) {
        let local = self.clock.local(moment.now);
        let mut woken = false;
        for _ in 0..DRAIN_LIMIT {
            let mut acted = false;
            while let Some(event) = self.pair.poll_event() {
                self.door.door.handle_event(local, &mut self.pair, event);
                acted = true;
            }
            acted |= self.door.door.service(local, &mut self.pair);
            self.door.drain(local, &self.name, &mut self.buffer, moment, &mut self.dropped);
            let wakeup = self.door.door.poll_timeout();
            if !acted && !self.door.wake(&mut self.pair, wakeup, (moment.now, local), &mut woken, &self.name) {
                return;
            }
        }
        panic!("node {} breaks law 2 at {:?}: it does not come to rest", self.name, moment.now)
    }

    fn deadline(&self) -> Option<Instant> {
        self.door.door.poll_timeout().map(|wakeup| self.clock.global(wakeup.at))
    }
}
