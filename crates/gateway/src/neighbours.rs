//! The neighbours: the session and the link with each, what is known of it, how they share memory and flows, and what is told of them.

mod addresses;
mod lanes;
mod moves;
mod reload;
mod sessions;
mod setup;
mod status;
mod transmit;

pub use reload::{RETIRED_MAX, ReloadError};

use crate::shares::Lending;
use crate::{Config, GatewayEvent, KnownWay, PeerConfig, PeerId, Traffic};
use addresses::Addresses;
use setup::{new_link, peer_keys};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wavelane_base::{Address, Entropy, Host, Instant, Octets, PortId, Ratio, Seed, Span, Wakeup};
use wavelane_services::Services;
use wavelane_services::hop::{Hop, Losing};
use wavelane_services::packet::{Packets as PacketService, PacketsConfig};
use wavelane_transport::link;
use wavelane_transport::session::{LANES_MAX, Sessions, SessionsConfig, Statics};
use wavelane_wire::frame::{FlowName, Reason};
use wavelane_wire::keylog::LoggedKey;

/// One flow on one link.
pub(crate) type Side = (PeerId, FlowName);

/// A neighbour, and what is carried to and from it.
type Link = link::Link<Services>;

/// Most ports per peer for which the time last heard is remembered: each lane has at most its own.
const HEARD_BY_MAX: usize = 2 * LANES_MAX;
/// A peer that was asked and not heard for this long is down. Packets wait no longer than that anyway, so an outage that they
/// could outlive is never reported.
pub(crate) const DOWN_AFTER: Span = Span::from_secs(3);
/// Minimum interval between log lines about one neighbour.
pub(crate) const NOTICE_EVERY: Span = Span::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Neighbours {
    config: Config,
    /// For the keys of sealed flows.
    statics: Arc<Statics>,
    sessions: Sessions,
    links: Vec<Link>,
    states: Vec<PeerState>,
    /// Links of removed neighbours, by public key. Bounded by [`RETIRED_MAX`].
    retired: BTreeMap<[u8; 32], Link>,
    /// A new link's packet service.
    packets: Option<PacketsConfig>,
    /// How peers share the pool and the flow table.
    pool: Lending,
    places: Lending,
    /// Links that changed and are not settled yet.
    dirty: BTreeSet<PeerId>,
    events: VecDeque<GatewayEvent>,
    /// For lanes, and the tokens of passages and addresses.
    dice: Entropy,
    /// How long the last datagram waited for us: more than a little where the processor is not ours.
    late: Span,
    /// Which peer is served first next time, so that none starves.
    cursor: usize,
    /// The fault [`crate::Faults::block_loss`].
    block_loss: Option<(Ratio, Seed)>,
    dropped_no_session: u64,
    addresses_unproven: u64,
    flows_idle: u64,
}

/// What is remembered of a peer beside its link.
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
    /// Flows without a link that it carried.
    lost: u64,
    /// How often a flow left it because data that came through it was not the other edge's, and when this was last logged.
    distrusted: u64,
    distrust_told: Option<Instant>,
    /// The last of them.
    distrusted_last: Option<Distrusted>,
    /// Our lanes to it.
    lanes: Vec<LaneState>,
    /// By the number of the peer's lane: our lane for the other direction.
    pairs: [Option<usize>; LANES_MAX],
    /// The numbers of the configured lanes, in configuration order; other lanes were created for lanes of the peer.
    numbers: Vec<usize>,
    /// By the number of the peer's lane: packets below this number belong to a lane that has gone.
    gone_below: [u64; LANES_MAX],
}

/// A flow left a peer: when, what came, the flow's target and its way.
type Distrusted = (Instant, &'static str, Option<SocketAddr>, Option<KnownWay>);

/// Why packets of some sizes do not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PathMtuCause {
    /// None as large as nearly every path carries does.
    Small,
    /// What leaves in a batch does not.
    Batches,
}

/// What is remembered of a lane.
#[derive(Debug, Default)]
struct LaneState {
    /// What was last told of the packets that its path loses.
    path_mtu_cause: Option<PathMtuCause>,
    addresses: Addresses,
    /// Since when it leaves by the socket that it has; `None` since the start.
    since: Option<Instant>,
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

    /// A lane's place in the configuration.
    fn place(&self, lane: usize) -> Option<usize> {
        self.numbers.iter().position(|number| *number == lane)
    }
}

impl Neighbours {
    pub(crate) fn new(now: Instant, config: Config, boot_epoch: u64, mut entropy: Entropy) -> Self {
        let sessions = SessionsConfig {
            private_key: config.private_key,
            boot_epoch,
            aes: config.aes_hardware,
            overhear: config.overhear,
            compress: config.compress_headers && config.packets.is_some(),
            peers: config.peers.iter().map(peer_keys).collect(),
            log_keys: config.log_keys,
        };
        let packets = config.packets.map(|of| setup::link_packets(&of, config.peers.len(), &mut entropy));
        let mut dice = entropy.split();
        let links = config.peers.iter();
        let links = links.map(|peer| new_link(now, &config, peer, packets, dice.split())).collect();
        Self {
            dice,
            statics: setup::statics(&config),
            sessions: Sessions::new(now, sessions, entropy),
            links,
            states: config.peers.iter().map(|peer| PeerState::new(peer.lanes.len())).collect(),
            retired: BTreeMap::new(),
            packets,
            pool: Lending::default(),
            places: Lending::default(),
            dirty: BTreeSet::new(),
            events: VecDeque::new(),
            late: Span::ZERO,
            cursor: 0,
            block_loss: None,
            dropped_no_session: 0,
            addresses_unproven: 0,
            flows_idle: 0,
            config,
        }
    }

    pub(crate) fn statics(&self) -> &Arc<Statics> {
        &self.statics
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// A peer's configuration.
    pub(crate) fn peer(&self, peer: PeerId) -> &PeerConfig {
        &self.config.peers[peer.0]
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.links.len()).map(PeerId)
    }

    pub(crate) fn dice(&mut self) -> &mut Entropy {
        &mut self.dice
    }

    pub(crate) fn poll_key(&mut self) -> Option<LoggedKey> {
        self.sessions.poll_key()
    }

    /// What carries flows to and from a peer.
    pub(crate) fn blocks(&mut self, peer: PeerId) -> &mut Hop {
        &mut self.links[peer.0].service.blocks
    }

    pub(crate) fn look_at_blocks(&self, peer: PeerId) -> &Hop {
        &self.links[peer.0].service.blocks
    }

    /// What carries packets to and from a peer.
    pub(crate) fn packets(&mut self, peer: PeerId) -> Option<&mut PacketService> {
        self.links[peer.0].service.packets.as_mut()
    }

    /// Tells the owner.
    pub(crate) fn tell(&mut self, event: GatewayEvent) {
        self.events.push_back(event);
    }

    pub(crate) fn poll_event(&mut self) -> Option<GatewayEvent> {
        self.events.pop_front()
    }

    /// A link has changed, and is to be settled.
    pub(crate) fn touch(&mut self, peer: PeerId) {
        self.dirty.insert(peer);
    }

    /// How long the last datagram had waited for us.
    pub(crate) fn late(&self) -> Span {
        self.late
    }
    /// The next link to be settled.
    pub(crate) fn next_touched(&mut self) -> Option<PeerId> {
        self.dirty.pop_first()
    }

    /// Resets how peers share the resources.
    pub(crate) fn share_out(&mut self) {
        let (peers, flows_max) = (self.links.len(), self.config.flows_max as u64);
        self.pool = Lending::new(self.config.pool.get(), peers);
        self.places = Lending::new(flows_max, peers);
        self.ids().for_each(|peer| self.note_held(peer));
    }

    /// What a link holds may have changed.
    pub(crate) fn note_held(&mut self, peer: PeerId) {
        let held = self.blocks(peer).status();
        // It divides its pool into two halves.
        self.pool.hold(peer.0, 2 * held.to_send.max(held.unread));
        // A flow whose way was lost still has its socket.
        self.places.hold(peer.0, held.flows as u64 + self.states[peer.0].lost);
    }

    /// A link is about to take bytes or a flow: sets its limits.
    pub(crate) fn lend(&mut self, peer: PeerId) {
        let flows = usize::try_from(self.places.limit(peer.0)).unwrap_or(usize::MAX);
        let pool = Octets::new(self.pool.limit(peer.0));
        self.blocks(peer).lend(flows, pool);
    }

    /// Whether what comes from one peer goes on to another by the same radio cell, in turns.
    pub(crate) fn share_radio(&self, from: PeerId, to: PeerId) -> bool {
        let cell =
            |peer: PeerId| self.peer(peer).lanes.first().and_then(|lane| lane.carrier.radio).map(|radio| radio.cell);
        self.config.withhold.is_some() && !self.config.rounds && cell(from).is_some() && cell(from) == cell(to)
    }

    /// The number of flows that have no link and that `peer` carried: at most as many as its limit of flows.
    pub(crate) fn lost_flows(&mut self, peer: PeerId) -> &mut u64 {
        &mut self.states[peer.0].lost
    }

    /// Whether a peer has as many flows without a link as it may.
    pub(crate) fn may_lose_no_more(&self, peer: PeerId) -> bool {
        self.states[peer.0].lost >= self.places.limit(peer.0)
    }

    /// Nothing of a flow moved for the idle time: ends it. An outage does not count as idle: it is waited out, and the flow stays.
    pub(crate) fn ends_idle(&mut self, (peer, name): Side) -> bool {
        let ends = self.is_up(peer);
        if ends {
            self.flows_idle += 1;
            self.blocks(peer).reset(name, Reason::TimedOut);
        }
        ends
    }

    pub(crate) fn is_up(&self, peer: PeerId) -> bool {
        self.states[peer.0].up
    }

    /// Whether a peer was found to be down.
    pub(crate) fn was_down(&self, peer: PeerId) -> bool {
        self.states[peer.0].down
    }

    /// Whether the peer does not answer, or has no known address.
    pub(crate) fn is_down(&self, now: Instant, peer: PeerId) -> bool {
        let state = &self.states[peer.0];
        let unanswered = state.down_at.is_some_and(|at| at <= now);
        let nowhere = || (0..self.sessions.ways(peer.0)).all(|way| self.sessions.address(peer.0, way).is_none());
        state.down || unanswered || !state.can_seal && nowhere()
    }

    /// Whether a peer counts as down from now on, and did not before.
    pub(crate) fn goes_down(&mut self, now: Instant, peer: PeerId) -> bool {
        let state = &mut self.states[peer.0];
        let goes = !state.down && state.down_at.is_some_and(|at| at <= now);
        if goes {
            state.down = true;
            state.up = false;
        }
        goes
    }

    /// When a peer goes down, or packets that wait for it are due.
    fn down_time(&self, peer: PeerId) -> Option<Wakeup> {
        let owes = self.links[peer.0].service.packets.as_ref().is_some_and(PacketService::owes_any);
        let at = self.states[peer.0].down_at.filter(|_| owes || !self.states[peer.0].down)?;
        Some(Wakeup { at, cause: "gateway: a peer counts as down" })
    }

    /// Time has passed for the sessions.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
    }

    /// Time has passed for a peer.
    pub(crate) fn handle_timeout(&mut self, now: Instant, peer: PeerId) {
        self.links[peer.0].handle_timeout(now);
        self.give_up_address(now, peer);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Wakeup> {
        let links = self.links.iter().zip(&self.states).map(|(link, peer)| link.poll_timeout(peer.can_seal));
        let links = links.chain(self.ids().map(|peer| self.down_time(peer)));
        let lanes = self.states.iter().flat_map(|peer| &peer.lanes);
        let links = links.chain(lanes.map(|lane| lane.addresses.poll_timeout()));
        links.fold(self.sessions.poll_timeout(), Wakeup::earliest)
    }

    /// A flow that `peer` carried left it because of `what` came: returns whether that was not logged lately.
    pub(crate) fn note_distrust(&mut self, peer: PeerId, of: Distrusted) {
        let (now, what, target, _) = of;
        let state = &mut self.states[peer.0];
        state.distrusted += 1;
        state.distrusted_last = Some(of);
        if state.distrust_told.is_none_or(|at| now.since(at) >= NOTICE_EVERY) {
            state.distrust_told = Some(now);
            let name = &self.config.peers[peer.0].name;
            let flow = target.map(|target| format!(" of a flow to {target}")).unwrap_or_default();
            let text = format!(
                "peer '{name}': {what}{flow} came by it: it, or a relay behind it, fails or lies; other ways are taken where there are any"
            );
            self.tell(GatewayEvent::Notice { peer: Some(peer), text });
        }
    }

    /// Asks a peer for what it has to send, or for a session. Returns whether that is possible.
    pub(crate) fn ask_or_call(&mut self, now: Instant, peer: PeerId) -> bool {
        let sealed = self.sessions.can_seal(now, peer.0);
        if sealed {
            self.links[peer.0].ask();
        }
        self.touch(peer);
        sealed || self.sessions.call_now(now, peer.0)
    }

    /// Whether a datagram of the peer answered since, in whole, what it was asked.
    pub(crate) fn take_answered(&mut self, peer: PeerId) -> bool {
        self.links[peer.0].take_answered()
    }

    /// The peer that `port` leads to, if it is to be told what is overheard for it.
    pub(crate) fn overheard_by(&self, port: PortId) -> Option<PeerId> {
        let leads = |PeerId(peer): &PeerId| {
            (0..self.sessions.ways(*peer)).any(|way| self.sessions.port(*peer, way) == Some(port))
        };
        let peer = self.ids().find(leads).filter(|_| self.config.overhear)?;
        (self.overhears(peer) && self.look_at_blocks(peer).has_sealed_flows()).then_some(peer)
    }

    pub(crate) fn overhears(&self, peer: PeerId) -> bool {
        self.sessions.overhears(peer.0)
    }

    /// Sets whether receipted blocks are lost, for simulations.
    pub(crate) fn lose_blocks(&mut self, block_loss: Option<(Ratio, Seed)>) {
        for (link, peer) in self.links.iter_mut().zip(&self.config.peers) {
            lose_blocks(link, block_loss, &peer.name);
        }
        self.block_loss = block_loss;
    }

    /// Where a peer's datagrams go, if known.
    pub(crate) fn address(&self, peer: PeerId) -> Option<Address> {
        self.sessions.address(peer.0, self.links.get(peer.0)?.best_lane())
    }

    /// Whether a peer called from `address` lately, and has proven that it is there.
    pub(crate) fn was_proven_at(&self, peer: PeerId, address: IpAddr) -> bool {
        let lanes = self.states[peer.0].lanes.iter().enumerate();
        let mut heard = lanes.filter_map(|(lane, state)| Some((state, self.sessions.address(peer.0, lane)?)));
        heard.any(|(state, at)| at.host() == Host::Ip(address) && state.addresses.was_proven(at))
    }

    /// A port is another socket from now on: the record of what came through it is void.
    pub(crate) fn forget_heard_by(&mut self, now: Instant, port: PortId) {
        self.states.iter_mut().for_each(|state| state.heard_by.retain(|(by, ..)| *by != port));
        for peer in self.ids() {
            let lanes = self.lanes_by(peer, port);
            lanes.into_iter().for_each(|lane| self.states[peer.0].lanes[lane].since = Some(now));
        }
    }

    /// When a peer was last heard by a port, and what has come from it there since the start.
    pub(crate) fn heard_by(&self, peer: PeerId, port: PortId) -> Option<(Instant, Traffic)> {
        let heard_by = &self.states.get(peer.0)?.heard_by;
        heard_by.iter().find(|(by, ..)| *by == port).map(|(_, at, came)| (*at, *came))
    }
}

/// Applies a fault to a neighbour's link.
fn lose_blocks(link: &mut Link, block_loss: Option<(Ratio, Seed)>, peer: &str) {
    if let Some((p, seed)) = block_loss {
        let chance = seed.chance(&format!("accepted blocks / from {peer}"));
        link.service.blocks.lose_blocks(Losing { p, chance });
    }
}

/// What tests look at and change.
#[cfg(test)]
impl Neighbours {
    pub(crate) fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }
    pub(crate) fn link(&self, peer: usize) -> &Link {
        &self.links[peer]
    }
    pub(crate) fn down_at(&mut self, peer: PeerId) -> &mut Option<Instant> {
        &mut self.states[peer.0].down_at
    }
    pub(crate) fn down(&mut self, peer: PeerId) -> &mut bool {
        &mut self.states[peer.0].down
    }
    pub(crate) fn can_seal(&self, now: Instant, peer: usize) -> bool {
        self.sessions.can_seal(now, peer)
    }
    pub(crate) fn places_lent(&mut self) -> &mut Lending {
        &mut self.places
    }
    pub(crate) fn proved(&self, peer: PeerId, lane: usize, address: Address) -> bool {
        self.states[peer.0].lanes[lane].addresses.was_proven(address)
    }
    /// The peer called from `address`, and has proven it if `proves`.
    pub(crate) fn claim(&mut self, now: Instant, peer: PeerId, address: Address, proves: bool) {
        if proves {
            self.states[peer.0].lanes[0].addresses.prove(now, address);
        } else {
            self.sessions.set_address(now, peer.0, 0, address);
        }
    }
}
