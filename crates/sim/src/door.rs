//! A gateway's door on a TCP of its own, and such a door without a link: a split proxy, part of a host.

use crate::clock::NodeClock;
use crate::node::{Moment, Outgoing};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use wavelane_base::{Entropy, Instant, IpPrefix, Span, Wakeup};
use wavelane_door::{FarSide, OwnDoor, POOL_DEFAULT, Pair, PairConfig, Snoop, pool_parts};
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
        drain(&mut self.door, (local, name), &self.routes, buffer, moment, dropped);
    }

    /// As [`crate::node::wake`], for the door.
    pub(crate) fn wake(
        &mut self,
        far: &mut impl FarSide,
        wakeup: Option<Wakeup>,
        now: (Instant, Instant),
        woken: &mut bool,
        name: &str,
    ) -> bool {
        wake(&mut self.door, far, wakeup, now, woken, name)
    }
}

/// Hands out a door's packets.
fn drain(
    door: &mut OwnDoor,
    (local, name): (Instant, &str),
    routes: &BTreeMap<Ipv4Addr, usize>,
    buffer: &mut [u8],
    moment: &mut Moment<'_>,
    dropped: &mut BTreeMap<&'static str, u64>,
) {
    for _ in 0..DRAIN_LIMIT {
        let Some(len) = door.poll_packet(local, buffer) else { return };
        let target = Ipv4::parse(&buffer[..len]).ok().map(|ip| ip.target);
        match target.and_then(|target| routes.get(&target)) {
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

fn wake(
    door: &mut OwnDoor,
    far: &mut impl FarSide,
    wakeup: Option<Wakeup>,
    (now, local): (Instant, Instant),
    woken: &mut bool,
    name: &str,
) -> bool {
    let Some(wakeup) = wakeup.filter(|wakeup| wakeup.at <= local) else { return false };
    assert!(!*woken, "node {name} breaks law 3 at {now:?}: stale deadline for '{}'", wakeup.cause);
    door.handle_timeout(local, far);
    *woken = true;
    true
}

/// What a proxy's TCP is, and how much it holds.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Its connections.
    pub tcp: wavelane_tcp::Config,
    /// Those with a remote address in one of these networks; the first that holds it counts.
    pub towards: Vec<(IpPrefix, wavelane_tcp::Config)>,
    /// What waits between the two halves of connections.
    pub pair: PairConfig,
    /// What waits in their TCP.
    pub memory: usize,
    /// Outages of its channels, in order: from when on and until when. It is told of each `GAP_AHEAD` before.
    pub gaps: Vec<(Instant, Instant)>,
}

/// What a proxy in one box does.
pub(crate) enum OnPath {
    /// It ends connections and makes others.
    Split(Box<ProxyConfig>),
    /// It sends again what is lost on the way to hosts of these networks.
    Snoop(Vec<IpPrefix>),
}

/// How long before a gap those who send are told to stop: until then what is on its way has arrived, and the answers to it, over round trips of up to 0.2 s.
const GAP_AHEAD: Span = Span::from_millis(500);

impl ProxyConfig {
    /// One TCP on both sides.
    pub fn new(tcp: wavelane_tcp::Config) -> Self {
        let (pool, memory) = pool_parts(POOL_DEFAULT);
        Self { tcp, towards: Vec::new(), pair: PairConfig { pool, ..PairConfig::default() }, memory, gaps: Vec::new() }
    }
}

/// The part of a host that sends again what is lost behind it.
pub(crate) struct Snooper {
    snoop: Snoop,
    towards: Vec<IpPrefix>,
}

impl Snooper {
    pub(crate) fn new(towards: Vec<IpPrefix>) -> Self {
        // As the daemon's: both ways of each connection, of which all have the pool.
        let bounds = PairConfig::default();
        Self { snoop: Snoop::new(2 * bounds.flows_max, bounds.pool), towards }
    }
    /// Looks at a packet that crosses the node. Returns whether it goes on.
    pub(crate) fn passes(&mut self, local: Instant, packet: &[u8]) -> bool {
        let towards = &self.towards;
        let passes = self.snoop.handle(local, packet, |host| towards.iter().any(|network| network.contains(host.ip())));
        // What stood behind an acknowledged segment may be due at once.
        self.snoop.handle_timeout(local);
        passes
    }
    pub(crate) fn handle_timeout(&mut self, local: Instant) {
        self.snoop.handle_timeout(local);
    }
    /// The next packet to send again.
    pub(crate) fn poll_packet(&mut self) -> Option<Box<[u8]>> {
        self.snoop.poll_packet()
    }
    pub(crate) fn poll_timeout(&self) -> Option<Wakeup> {
        self.snoop.poll_timeout().map(|at| Wakeup { at, cause: "snoop: a segment is due" })
    }
}

/// The part of a host that ends the TCP that crosses it and begins another, without a link in between.
pub(crate) struct Proxy {
    door: OwnDoor,
    pair: Pair,
    /// When a gap is near, and when it is over, on the node's clock.
    gaps: VecDeque<(Instant, bool)>,
    buffer: Vec<u8>,
}

impl Proxy {
    pub(crate) fn new(
        clock: &NodeClock,
        now: Instant,
        address: Ipv4Addr,
        config: ProxyConfig,
        entropy: Entropy,
    ) -> Self {
        let local = clock.local(now);
        let ends = |(from, until): &(Instant, Instant)| {
            [(Instant::ZERO + from.since(Instant::ZERO + GAP_AHEAD), true), (*until, false)]
        };
        let gaps = config.gaps.iter().flat_map(ends).map(|(at, is_near)| (clock.local(at), is_near)).collect();
        let mut door = OwnDoor::of_proxy(local, address.into(), &config.tcp, config.towards, entropy);
        // As the daemon's: what a reader that stopped will not take is left to others.
        door.set_memory_max(config.memory);
        Self { door, pair: Pair::new(config.pair), gaps, buffer: vec![0; PACKET_ROOM] }
    }
    /// Whether a packet that crosses the node is the proxy's.
    pub(crate) fn takes(&self, ip: &Ipv4<'_>, packet: &[u8]) -> bool {
        let tcp = ip.protocol == PROTOCOL_TCP && self.door.is_ours(packet);
        tcp || self.door.is_about_ours(packet)
    }
    pub(crate) fn handle_packet(&mut self, local: Instant, packet: &mut [u8]) {
        self.door.handle_packet(local, &mut self.pair, packet);
    }
    pub(crate) fn handle_timeout(&mut self, local: Instant) {
        self.door.handle_timeout(local, &mut self.pair);
        while let Some((_, is_near)) = self.gaps.front().copied().filter(|(at, _)| *at <= local) {
            self.gaps.pop_front();
            self.door.note_gap(is_near);
        }
    }
    /// Bytes that wait in it.
    pub(crate) fn waiting(&self) -> usize {
        self.door.memory() + self.pair.waiting()
    }
    /// Lets it move bytes and hands out its packets. Returns whether anything changed.
    pub(crate) fn serve(
        &mut self,
        local: Instant,
        (name, routes): (&str, &BTreeMap<Ipv4Addr, usize>),
        moment: &mut Moment<'_>,
        dropped: &mut BTreeMap<&'static str, u64>,
    ) -> bool {
        let mut acted = false;
        while let Some(event) = self.pair.poll_event() {
            self.door.handle_event(local, &mut self.pair, event);
            acted = true;
        }
        acted |= self.door.service(local, &mut self.pair);
        drain(&mut self.door, (local, name), routes, &mut self.buffer, moment, dropped);
        acted
    }
    pub(crate) fn wake(&mut self, now: (Instant, Instant), woken: &mut bool, name: &str) -> bool {
        let wakeup = self.door.poll_timeout();
        wake(&mut self.door, &mut self.pair, wakeup, now, woken, name)
    }
    pub(crate) fn poll_timeout(&self) -> Option<Wakeup> {
        let gap = self.gaps.front().map(|(at, _)| Wakeup { at: *at, cause: "proxy: a gap" });
        Wakeup::earliest(self.door.poll_timeout(), gap)
    }
}
