//! A gateway: links to its peers, and the flows it carries over them.
//!
//! The owner (daemon or simulator) drives [`Gateway`] through [`wavelane_base::Machine`] for frames and time, and
//! through [`Gateway::open`], [`Gateway::accept`], [`Gateway::refuse`] and [`wavelane_base::Streams`] for flows.
//! One flow's life at the opener: `open` -> `Accepted | Refused`, then bytes, then `Closed`; at the far side:
//! `Incoming` -> `accept | refuse`, then bytes, then `Closed`.
#![forbid(unsafe_code)]

mod about;
mod addresses;
mod arrive;
mod cache;
mod carry;
mod config;
mod desk;
mod door;
mod edge;
mod ended;
mod faults;
mod flows;
mod grants;
mod known_way;
mod lanes;
mod lost;
mod machine;
mod moves;
mod overheard;
mod packets;
mod policy;
mod relay;
mod reload;
mod sealed;
mod setup;
mod shares;
mod status;
mod streams;
mod table;
mod transmit;
mod types;
mod vtx;
mod ways;

pub use about::is_about;
pub use config::{
    Config, ConfigError, DETOURS_MAX, Detour, EDGES_MAX, EdgeConfig, LaneConfig, NEXT_HOPS_KNOWN_MAX, POOL_DEFAULT,
    PacketConfig, PeerConfig,
};
pub use faults::{Faults, Meddler};
pub use grants::Withholding;
pub use known_way::KnownWay;
pub use policy::may_reach;
pub use relay::HOPS_MAX;
pub use reload::{RETIRED_MAX, ReloadError};
pub use table::{NEXT_HOPS_MAX, NextHop, TABLE_MAX, Table};
pub use types::{Distrust, Event, LaneStatus, OpenError, PeerId, PeerStatus, Status, Traffic};

use addresses::Addresses;
use cache::Cache;
use desk::Desk;
use ended::Ended;
use flows::FlowTable;
use grants::Grants;
use overheard::Overheard;
use relay::Relays;
use setup::{new_link, peer_keys};
use shares::{Arrivals, Labour, Lending, Passing};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use vtx::Vtx;
use wavelane_base::{Address, Entropy, Instant, Octets, PortId, Span};
pub use wavelane_queue::Discipline;
use wavelane_services::Services;
pub use wavelane_services::arq::{Repair, Tries};
use wavelane_services::hop::Hop;
pub use wavelane_services::packet::Repairs;
use wavelane_transport::link;
use wavelane_transport::session::{LANES_MAX, Sessions, SessionsConfig};
pub use wavelane_transport::{Choice, Controller};
pub use wavelane_wire::frame::{Reach, Reason};
pub use wavelane_wire::keylog::LoggedKey;

/// A neighbour, and what is carried to and from it.
type Link = link::Link<Services>;

/// New flows that peers may open in a second, for each place in the flow table.
const NEW_FLOWS: u64 = 2;
/// Most ports per peer for which the time last heard is remembered: each lane has at most its own.
const HEARD_BY_MAX: usize = 2 * LANES_MAX;

/// The gateway machine. Port `PortId(n)` is the `n`-th port of the node by which lanes leave; several lanes, of one neighbour or
/// of several, may share a port.
#[derive(Debug)]
pub struct Gateway {
    config: Config,
    sessions: Sessions,
    links: Vec<Link>,
    peers: Vec<PeerState>,
    flows: FlowTable,
    /// Bytes that edges keep for each other.
    kept: u64,
    faults: Faults,
    /// How peers share the pool, the flow table and new flows.
    pool: Lending,
    places: Lending,
    arrivals: Arrivals,
    labour: Labour,
    passing: Passing,
    /// Bytes that edges keep, by the peer that carries their flows.
    keeping: Lending,
    relays: Relays,
    ways: ways::Ways,
    /// The routing table for [`Config::by_table`].
    table: Table,
    /// A relay's cache of forwarded bytes, and the VTX offers for them.
    cache: Cache,
    vtx: Vtx,
    /// What was overheard of datagrams for neighbours.
    overheard: Overheard,
    /// The senders whose large blocks are received now.
    grants: Grants,
    /// Links that changed and are not settled yet.
    dirty: BTreeSet<PeerId>,
    /// Buffers shared by sealing and opening flows.
    desk: Desk,
    /// For the tokens of passages.
    dice: Entropy,
    /// Flows across relays that ended: the other edge may ask again.
    ended: Ended,
    events: VecDeque<Event>,
    /// Which peer is served first next time, so that none starves.
    cursor: usize,
    counters: Counters,
    /// When it was last logged that no way carries a sealed flow intact.
    corrupted_told: Option<Instant>,
    packets: packets::Packets,
    /// Links of removed neighbours, by public key. Bounded by [`RETIRED_MAX`].
    retired: BTreeMap<[u8; 32], Link>,
}

/// What the gateway itself remembers of a peer.
#[derive(Debug, Default)]
struct PeerState {
    up: bool,
    /// Whether a session was ever established.
    met: bool,
    heard: Option<Instant>,
    /// The ports on which it was heard, when last, and what came by them; at most [`HEARD_BY_MAX`].
    heard_by: Vec<(PortId, Instant, Traffic)>,
    /// Sent to it, and received from it.
    sent: Traffic,
    received: Traffic,
    /// Whether a session was established when the link was last settled.
    can_seal: bool,
    /// While an answer to data or a handshake is due: when the peer counts as down without it.
    down_at: Option<Instant>,
    /// Nothing was heard by `down_at`: packets are refused, and a session is requested, until the peer is heard.
    down: bool,
    /// How often a flow left it because data that came through it was not the other edge's, and when this was last logged.
    distrusted: u64,
    distrust_told: Option<Instant>,
    /// The last of them: when, what came, the flow's target and its way.
    distrusted_last: Option<(Instant, &'static str, Option<SocketAddr>, Option<KnownWay>)>,
    /// Our lanes to it.
    lanes: Vec<LaneState>,
    /// By the number of the peer's lane: our lane for the other direction.
    pairs: [Option<usize>; LANES_MAX],
    /// The numbers of the configured lanes, in configuration order; other lanes were created for lanes of the peer.
    numbers: Vec<usize>,
    /// By the number of the peer's lane: packets below this number belong to a lane that has gone.
    gone_below: [u64; LANES_MAX],
}

/// What the gateway itself remembers of a lane.
#[derive(Debug, Default)]
struct LaneState {
    /// The path's MTU was last seen below the base that nearly every path carries.
    below_base: bool,
    addresses: Addresses,
    /// When its address changed last.
    moved: Option<Instant>,
    /// Sent on it, and received from where it leads.
    sent: Traffic,
    received: Traffic,
}

impl PeerState {
    /// A datagram came by `port`, from where our lane `back` leads if it does.
    fn note_heard_by(&mut self, now: Instant, port: PortId, back: Option<usize>, octets: usize) {
        self.received.count(octets);
        if let Some(lane) = back.and_then(|back| self.lanes.get_mut(back)) {
            lane.received.count(octets);
        }
        let place = self.heard_by.iter().position(|(by, ..)| *by == port);
        if place.is_none() && self.heard_by.len() < HEARD_BY_MAX {
            self.heard_by.push((port, now, Traffic::default()));
        }
        if let Some((_, at, came)) = self.heard_by.iter_mut().find(|(by, ..)| *by == port) {
            *at = now;
            came.count(octets);
        }
    }

    fn new(lanes: usize) -> Self {
        let numbers = (0..lanes).collect();
        Self { lanes: (0..lanes).map(|_| LaneState::default()).collect(), numbers, ..Self::default() }
    }
}

/// Counters of things that happen above any link.
#[derive(Debug, Default)]
struct Counters {
    dropped_source_not_allowed: u64,
    dropped_target_not_allowed: u64,
    dropped_no_session: u64,
    flows_resumed: u64,
    flows_moved: u64,
    dropped_stale_opens: u64,
    flows_given_up: u64,
    addresses_unproven: u64,
    flows_idle: u64,
    dropped_parcels_foreign: u64,
    dropped_words_forged: u64,
    flows_withheld: u64,
    flows_corrupted: u64,
    refused_seals: u64,
}

impl Gateway {
    /// Builds a gateway. `boot_epoch` must be greater than that of every earlier start with the same key (the daemon
    /// uses wall-clock nanoseconds); `entropy` feeds keys and identifiers.
    pub fn new(now: Instant, config: Config, boot_epoch: u64, mut entropy: Entropy) -> Result<Self, ConfigError> {
        config.check()?;
        let sessions = SessionsConfig {
            private_key: config.private_key,
            boot_epoch,
            aes: config.aes_hardware,
            overhear: config.overhear,
            peers: config.peers.iter().map(peer_keys).collect(),
            log_keys: config.log_keys,
        };
        let packets = packets::link_packets(&config, &mut entropy);
        let mut dice = entropy.split();
        let links = config.peers.iter();
        let links = links.map(|peer| new_link(now, &config, peer, packets, dice.split())).collect();
        let peers = config.peers.iter().map(|peer| PeerState::new(peer.lanes.len())).collect();
        let mut gateway = Self {
            dice,
            sessions: Sessions::new(now, sessions, entropy),
            links,
            peers,
            flows: FlowTable::default(),
            kept: 0,
            faults: Faults::default(),
            pool: Lending::default(),
            places: Lending::default(),
            arrivals: Arrivals::default(),
            labour: Labour::default(),
            passing: Passing::default(),
            keeping: Lending::default(),
            relays: Relays::default(),
            ways: ways::Ways::default(),
            table: Table::default(),
            cache: Cache::new(config.cache.get()),
            vtx: Vtx::default(),
            overheard: Overheard::default(),
            grants: Grants::default(),
            dirty: BTreeSet::new(),
            desk: Desk::default(),
            ended: Ended::default(),
            events: VecDeque::new(),
            cursor: 0,
            counters: Counters::default(),
            corrupted_told: None,
            packets: packets::Packets::new(now, &config, packets),
            retired: BTreeMap::new(),
            config,
        };
        gateway.share_out(now);
        for peer in 0..gateway.peers.len() {
            gateway.settle(now, PeerId(peer));
        }
        Ok(gateway)
    }

    /// The next data key that was agreed on with a neighbour, if [`Config::log_keys`].
    pub fn poll_key(&mut self) -> Option<LoggedKey> {
        self.sessions.poll_key()
    }

    /// The configuration it was built with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where a peer's datagrams go, if known.
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.sessions.address(peer.0, self.links.get(peer.0)?.best_lane())
    }

    /// A lane's configured address changed, or is known for the first time: the peer is called there.
    pub fn relocate(&mut self, now: Instant, peer: PeerId, lane: usize, address: Address) {
        let config = self.config.peers.get_mut(peer.0);
        let Some(config) = config.and_then(|config| config.lanes.get_mut(lane)) else { return };
        config.address = Some(address);
        let lane = self.peers[peer.0].numbers[lane];
        let before = self.sessions.address(peer.0, lane);
        self.sessions.rehome(now, peer.0, lane, address);
        self.fit_carrier(peer, lane);
        if self.links[peer.0].is_closed(lane) {
            self.reopen_lane(now, peer, lane);
        } else if before.is_some_and(|before| before.host() != address.host()) {
            // Estimates of the path to another host do not apply to this one.
            self.links[peer.0].lane_moved(now, lane);
        }
        self.settle(now, peer);
    }

    /// A port is another socket from now on: the record of what came through it is void.
    pub fn forget_heard_by(&mut self, port: PortId) {
        self.peers.iter_mut().for_each(|state| state.heard_by.retain(|(by, ..)| *by != port));
    }

    /// Time since an authentic datagram of the peer last came to a port; `None` if none did.
    pub fn silence_by(&self, now: Instant, peer: PeerId, port: PortId) -> Option<Span> {
        let heard_by = &self.peers.get(peer.0)?.heard_by;
        heard_by.iter().find(|(by, ..)| *by == port).map(|(_, at, _)| now.since(*at))
    }

    /// What has come from the peer by `port` since the start.
    pub fn received_by(&self, peer: PeerId, port: PortId) -> Traffic {
        let heard_by = self.peers.get(peer.0).map(|state| state.heard_by.as_slice()).unwrap_or_default();
        heard_by.iter().find(|(by, ..)| *by == port).map(|(.., came)| *came).unwrap_or_default()
    }

    /// Whether a lane to the peer, by its place in the configuration, has failed: nothing sent on it is answered.
    pub fn lane_failed(&self, peer: PeerId, lane: usize) -> bool {
        let number = self.peers.get(peer.0).and_then(|state| state.numbers.get(lane));
        number.is_some_and(|lane| self.links[peer.0].lane_failed(*lane))
    }

    /// The lanes that exist to a peer, in the order of its status: place in the configuration, and whether it has failed. Lanes that were
    /// created for lanes of the peer have no place.
    pub fn lane_failures(&self, peer: PeerId) -> Vec<(Option<usize>, bool)> {
        let Some(state) = self.peers.get(peer.0) else { return Vec::new() };
        let place = |lane: usize| state.numbers.iter().position(|number| *number == lane);
        let lanes = status::lanes(self, peer.0).into_iter().filter(|lane| self.sessions.port(peer.0, *lane).is_some());
        lanes.map(|lane| (place(lane), self.links[peer.0].lane_failed(lane))).collect()
    }

    /// Sends an echo, called `id`, by every lane to a peer that leads somewhere. Returns their numbers, with their status: each is followed by
    /// an [`Event::Echo`], unless the peer or the lane is gone by then, or it cannot leave for want of a session or a device.
    pub fn echo(&mut self, now: Instant, peer: PeerId, id: u32) -> Vec<(usize, LaneStatus)> {
        if peer.0 >= self.links.len() {
            return Vec::new();
        }
        let lanes = status::lanes(self, peer.0).into_iter();
        let lanes = lanes.filter_map(|lane| Some((lane, status::lane_status(self, now, peer.0, lane)?)));
        let lanes: Vec<_> = lanes.collect();
        lanes.iter().for_each(|(lane, _)| self.links[peer.0].echo(*lane, id));
        self.settle(now, peer);
        lanes
    }

    /// The status of a lane by its number; `None` of one that is gone.
    pub fn lane(&self, now: Instant, peer: PeerId, lane: usize) -> Option<LaneStatus> {
        let is_there = self.links.get(peer.0).is_some_and(|link| lane < link.lanes() && !link.is_closed(lane));
        is_there.then(|| status::lane_status(self, now, peer.0, lane)).flatten()
    }

    /// Sets whether a port takes datagrams now. For owners of several ports: what one does not take, another carries.
    pub fn set_port_room(&mut self, now: Instant, port: PortId, room: bool) {
        for (peer, link) in self.links.iter_mut().enumerate() {
            for lane in (0..link.lanes()).filter(|lane| self.sessions.port(peer, *lane) == Some(port)) {
                link.set_room(now, lane, room);
            }
        }
    }

    /// Sets whether a port takes bulk now; it always takes small frames. For owners of a radio, to keep its queue short.
    pub fn set_bulk_room(&mut self, port: PortId, room: bool) {
        for (peer, link) in self.links.iter_mut().enumerate() {
            for lane in (0..link.lanes()).filter(|lane| self.sessions.port(peer, *lane) == Some(port)) {
                link.hold_bulk(lane, !room);
            }
        }
    }

    /// What carries flows to and from a peer.
    fn blocks(&mut self, peer: PeerId) -> &mut Hop {
        &mut self.links[peer.0].service.blocks
    }

    /// A snapshot for the operator.
    pub fn status(&self, now: Instant) -> Status {
        status::snapshot(self, now)
    }

    /// After any change to a link: translates its events, here and on the links they affect, and determines whether a session is
    /// needed.
    fn settle(&mut self, now: Instant, peer: PeerId) {
        self.dirty.insert(peer);
        while let Some(peer) = self.dirty.pop_first() {
            while let Some(event) = self.blocks(peer).poll_event() {
                self.translate(now, peer, event);
            }
            self.note_held(peer);
            self.settle_session(now, peer);
        }
        self.give_turns(now);
    }

    /// Resets how peers share the resources.
    fn share_out(&mut self, now: Instant) {
        let (peers, flows_max) = (self.links.len(), self.config.flows_max as u64);
        self.pool = Lending::new(self.config.pool.get(), peers);
        self.places = Lending::new(flows_max, peers);
        self.arrivals = Arrivals::new(now, flows_max * NEW_FLOWS, peers);
        self.labour = Labour::new(now, peers);
        self.passing = Passing::new(now, peers);
        self.share_out_kept();
        (0..peers).for_each(|peer| self.note_held(PeerId(peer)));
    }

    /// What a link holds may have changed.
    fn note_held(&mut self, peer: PeerId) {
        let held = self.blocks(peer).status();
        // It divides its pool into two halves.
        self.pool.hold(peer.0, 2 * held.to_send.max(held.unread));
        // A flow whose way was lost still has its socket.
        self.places.hold(peer.0, held.flows as u64 + self.flows.lost_by(peer));
    }

    /// A link is about to take bytes or a flow: sets its limits.
    fn lend(&mut self, peer: PeerId) {
        let flows = usize::try_from(self.places.limit(peer.0)).unwrap_or(usize::MAX);
        let pool = Octets::new(self.pool.limit(peer.0));
        self.blocks(peer).lend(flows, pool);
    }
}

#[cfg(test)]
mod lanes_tests;
#[cfg(test)]
mod pairs_tests;
#[cfg(test)]
mod relay_tests;
#[cfg(test)]
mod shares_tests;
#[cfg(test)]
#[path = "gateway_tests.rs"]
mod tests;
