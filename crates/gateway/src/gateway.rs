//! The gateway, joined of its parts: what the owner calls, and what passes between them.

use crate::flows::{Ends, Flows, KnownWay, Refusal};
use crate::grants::Grants;
use crate::neighbours::{Neighbours, ReloadError, Side};
use crate::overheard::{self, Overheard};
use crate::packets::Packets;
use crate::relays::Relays;
use crate::routing::{Net, Routing, Table};
use crate::{Config, ConfigError, Faults, GatewayEvent, LaneStatus, OpenError, PeerId, Reason, Status, Traffic};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{
    Address, Class, Entropy, FlowId, FrameMeta, Instant, Machine, PortId, ReadOutcome, Span, Streams, Transmit, Wakeup,
};
use wavelane_services::hop::HopEvent;
use wavelane_transport::Digest;
use wavelane_wire::datagram::open_octets;
use wavelane_wire::frame::Passage;
use wavelane_wire::keylog::LoggedKey;

/// The gateway machine. Port `PortId(n)` is the `n`-th port of the node by which lanes leave; several lanes, of one neighbour or
/// of several, may share a port.
///
/// Each part owns its state. A part that changes a link touches it; whoever called the part settles what was touched.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) net: Net,
    pub(crate) flows: Flows,
    pub(crate) relays: Relays,
    /// The senders whose large blocks are received now.
    pub(crate) grants: Grants,
    /// What was overheard of datagrams for neighbours.
    pub(crate) overheard: Overheard,
    pub(crate) packets: Packets,
}

impl Gateway {
    /// Builds a gateway. `boot_epoch` must be greater than that of every earlier start with the same key (the daemon
    /// uses wall-clock nanoseconds); `entropy` feeds keys and identifiers.
    pub fn new(now: Instant, config: Config, boot_epoch: u64, entropy: Entropy) -> Result<Self, ConfigError> {
        config.check()?;
        let mut gateway = Self {
            flows: Flows::default(),
            relays: Relays::default(),
            grants: Grants::default(),
            overheard: Overheard::default(),
            packets: Packets::new(now, config.packets),
            net: Net { peers: Neighbours::new(now, config, boot_epoch, entropy), routing: Routing::default() },
        };
        gateway.net.set_routes();
        gateway.share_out(now);
        gateway.settle_each(now, |_, _| {});
        Ok(gateway)
    }

    /// The next data key that was agreed on with a neighbour, if [`Config::log_keys`].
    pub fn poll_key(&mut self) -> Option<LoggedKey> {
        self.net.peers.poll_key()
    }

    /// The configuration it was built with.
    pub fn config(&self) -> &Config {
        self.net.peers.config()
    }

    /// Whether [`Gateway::reload`] would take `config`.
    pub fn check_reload(&self, config: &Config) -> Result<(), ReloadError> {
        self.net.peers.check_reload(config)
    }

    /// Applies `config`: neighbours added, removed and reordered ([`PeerId`] follows the new order from now on), their routes,
    /// what they may reach, and limits. Flows of remaining neighbours continue; those of removed neighbours are reset. Call it
    /// with no event pending.
    pub fn reload(&mut self, now: Instant, config: Config) -> Result<(), ReloadError> {
        self.check_reload(&config)?;
        let places = self.net.peers.places(&config);
        for going in self.net.peers.ids().filter(|peer| !places.contains(&Some(peer.0))) {
            self.flows.dismiss(&mut self.net, going);
            self.relays.dismiss(&mut self.net, now, going);
            self.net.peers.dismiss(going);
        }
        let new_id = |old: PeerId| places.iter().position(|p| *p == Some(old.0)).map(PeerId);
        self.flows.rename_peers(new_id);
        self.relays.rename_peers(new_id);
        self.grants.forget(&mut self.net.peers);
        self.overheard.forget();
        self.packets.rename_peers();
        self.net.peers.rearrange(now, config, &places);
        self.net.set_routes();
        self.share_out(now);
        self.leave_lost_ways(now);
        self.settle_each(now, |_, _| {});
        Ok(())
    }

    /// Resets how peers share the resources.
    fn share_out(&mut self, now: Instant) {
        self.flows.share_out(now, &self.net);
        self.relays.share_out(now, &self.net);
        self.net.peers.share_out();
    }

    /// Sets faults from now on, for simulations.
    pub fn set_faults(&mut self, faults: Faults) {
        self.net.peers.lose_blocks(faults.block_loss);
        self.relays.set_tampering(faults.tampering);
    }

    /// Where a peer's datagrams go, if known.
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.net.peers.address(peer)
    }

    /// A lane's configured address changed, or is known for the first time: the peer is called there.
    pub fn relocate(&mut self, now: Instant, peer: PeerId, lane: usize, address: Address) {
        self.net.peers.relocate(now, peer, lane, address);
        self.settle(now);
    }

    /// These addresses are no longer ours. Lanes that sent from them let the system choose the source, and ask for an answer,
    /// which shows the peer our new address.
    pub fn addresses_gone(&mut self, now: Instant, gone: &[IpAddr]) {
        self.settle_each(now, |peers, peer| peers.addresses_gone(now, peer, gone));
    }

    /// Sets whether a port is usable. Lanes by an unusable port count as failed, and ask for an answer once it is usable again.
    pub fn set_port_there(&mut self, now: Instant, port: PortId, there: bool) {
        self.settle_each(now, |peers, peer| peers.set_port_there(now, peer, port, there));
    }

    /// Sets whether a port takes datagrams now. For owners of several ports: what one does not take, another carries.
    pub fn set_port_room(&mut self, now: Instant, port: PortId, room: bool) {
        self.net.peers.set_port_room(now, port, room);
    }

    /// Sets whether a port takes bulk now; it always takes small frames. For owners of a radio, to keep its queue short.
    pub fn set_bulk_room(&mut self, port: PortId, room: bool) {
        self.net.peers.set_bulk_room(port, room);
    }

    /// A port is another socket from now on: the record of what came through it is void.
    pub fn forget_heard_by(&mut self, now: Instant, port: PortId) {
        self.net.peers.forget_heard_by(now, port);
    }

    /// Time since an authentic datagram of the peer last came to a port; `None` if none did.
    pub fn silence_by(&self, now: Instant, peer: PeerId, port: PortId) -> Option<Span> {
        self.net.peers.heard_by(peer, port).map(|(at, _)| now.since(at))
    }

    /// What has come from the peer by `port` since the start.
    pub fn received_by(&self, peer: PeerId, port: PortId) -> Traffic {
        self.net.peers.heard_by(peer, port).map(|(_, came)| came).unwrap_or_default()
    }

    /// Whether a lane to the peer, by its place in the configuration, has failed: nothing sent on it is answered.
    pub fn lane_failed(&self, peer: PeerId, lane: usize) -> bool {
        self.net.peers.lane_failed(peer, lane)
    }

    /// The lanes that exist to a peer, in the order of its status: place in the configuration, and whether it has failed. Lanes that were
    /// created for lanes of the peer have no place.
    pub fn lane_failures(&self, peer: PeerId) -> Vec<(Option<usize>, bool)> {
        self.net.peers.lane_failures(peer)
    }

    /// Sends an echo, called `id`, by every lane to a peer that leads somewhere. Returns their numbers, with their status: each is followed by
    /// an [`GatewayEvent::Echo`], unless the peer or the lane is gone by then, or it cannot leave for want of a session or a device.
    pub fn echo(&mut self, now: Instant, peer: PeerId, id: u32) -> Vec<(usize, LaneStatus)> {
        let lanes = self.net.peers.echo(now, peer, id);
        self.settle(now);
        lanes
    }

    /// Where the peer's lanes come from: the number of each, its address, and others that it has proven in the last ten minutes.
    pub fn seen(&self, now: Instant, peer: PeerId) -> Vec<(u8, Address, Vec<Address>)> {
        self.net.peers.seen(now, peer)
    }

    /// The status of a lane by its number; `None` of one that is gone.
    pub fn lane(&self, now: Instant, peer: PeerId, lane: usize) -> Option<LaneStatus> {
        self.net.peers.lane(now, peer, lane)
    }

    /// Where the lanes of all peers go now.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.net.peers.addresses()
    }

    /// The peer's address on its first lane and our address it is reached from, if it was heard there recently and the address is
    /// proven: worth remembering for [`Gateway::recall`].
    pub fn proven_place(&self, now: Instant, peer: PeerId) -> Option<(Address, Option<IpAddr>)> {
        self.net.peers.proven_place(now, peer)
    }

    /// Right after the start: a peer without a configured address was last at this one. It is called there a few times; until it
    /// answers from there nothing else is sent to that address.
    pub fn recall(&mut self, now: Instant, peer: PeerId, address: Address, local: Option<IpAddr>) {
        self.net.peers.recall(now, peer, address, local);
    }

    /// A snapshot for the operator.
    pub fn status(&self, now: Instant) -> Status {
        let peers = &self.net.peers;
        let mut counters = BTreeMap::new();
        let counts = peers.counters(now).into_iter().chain(self.net.routing.counters());
        let counts = counts.chain(self.flows.counters()).chain(self.relays.counters());
        let counts =
            counts.chain(self.grants.counters()).chain(self.overheard.counters()).chain(self.packets.counters());
        for (name, count) in counts {
            *counters.entry(name).or_default() += count;
        }
        let (flows, flows_lost_way, kept) = self.flows.held();
        let (of_flows, packets_buffered) = peers.buffered();
        Status {
            peers: peers.ids().map(|peer| peers.peer_status(now, peer)).collect(),
            flows,
            flows_lost_way,
            flows_relayed: self.relays.len() / 2,
            buffered: kept + of_flows,
            packets_buffered,
            overheard: self.overheard.held(),
            counters: counters.into_iter().collect(),
        }
    }

    /// Asks a neighbour what it has to say about itself. [`GatewayEvent::Accepted`] or [`GatewayEvent::Refused`] follows.
    pub fn ask_about(&mut self, now: Instant, peer: PeerId) -> Result<FlowId, OpenError> {
        let asked = self.flows.ask_about(&mut self.net, now, peer);
        self.settle(now);
        asked
    }

    /// Asks `peer` to connect to `target` on behalf of the application at `source`. If a table decides, and the peer's routes
    /// cover the target, the peer that the table names is asked instead.
    pub fn open(
        &mut self,
        now: Instant,
        peer: PeerId,
        source: SocketAddr,
        target: SocketAddr,
    ) -> Result<FlowId, OpenError> {
        let opened = self.flows.open(&mut self.net, now, peer, (source, target));
        self.settle(now);
        opened
    }

    /// The target of an incoming flow answered.
    pub fn accept(&mut self, now: Instant, flow: FlowId) {
        self.flows.accept(&mut self.net, now, flow);
        self.settle(now);
    }

    /// The target of an incoming flow refused it; the flow is forgotten.
    pub fn refuse(&mut self, now: Instant, flow: FlowId, why: Reason) {
        self.flows.refuse(&mut self.net, now, flow, why);
        self.settle(now);
    }

    /// Refuses requests that a peer has not answered, because it is down.
    pub fn refuse_unanswered(&mut self, now: Instant, peer: PeerId) {
        self.flows.refuse_unanswered(&mut self.net, peer);
        self.settle(now);
    }

    /// The way of one of the owner's flows.
    pub fn known_way(&self, flow: FlowId) -> Option<KnownWay> {
        self.flows.known_way(self.config(), flow)
    }

    /// Opens the next part of a sealed flow if nothing open is unread. Returns whether anything is.
    pub(crate) fn open_next(&mut self, now: Instant, flow: FlowId) -> bool {
        let any = self.flows.open_next(&mut self.net, now, flow);
        self.settle(now);
        any
    }

    /// Installs a changed table: flows move to the peers that it names now. Returns whether anything differs.
    ///
    /// It counts only if [`Config::by_table`].
    pub fn set_table(&mut self, now: Instant, table: Table) -> bool {
        let differs = self.net.set_table(table);
        if differs {
            self.leave_lost_ways(now);
            self.flows.take_new_ways(&mut self.net, now);
            self.settle(now);
        }
        differs
    }

    /// The routes of the table, and how many of them lead to a peer.
    pub fn table_counts(&self) -> (usize, usize) {
        self.net.table_counts()
    }

    /// The addresses of this machine now: no peer may use them as a source, and its firewall decides about packets to them.
    pub fn set_own_addresses(&mut self, own: Vec<IpAddr>) {
        self.net.routing.set_own_addresses(own);
    }

    /// The peer that leads to `target` now.
    pub fn peer_towards(&self, now: Instant, target: IpAddr) -> Option<PeerId> {
        self.net.peer_towards(now, target)
    }

    /// Takes one IP packet from the inside, with finished checksums. The peer is chosen by the longest matching
    /// [`crate::PeerConfig::routes`]; what cannot be taken is answered with ICMP through [`Gateway::poll_packet`].
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        self.packets.handle_packet(&mut self.net, now, packet);
        self.settle(now);
    }

    /// Writes the next IP packet for the inside into `buf`, which must hold `inner_mtu` bytes, and returns its length.
    /// Drain after every call that brings in the network or the clock.
    pub fn poll_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        loop {
            if let Some(octets) = self.packets.poll(buf) {
                return Some(octets);
            }
            self.packets.fetch(&mut self.net, now)?;
            self.settle(now);
        }
    }

    /// A datagram was overheard: the station that `port` leads to was to receive it from `sender`, by whatever name the medium has for that.
    /// Nothing in it is authentic. Only for media that hand up what is for others.
    pub fn overhear(&mut self, now: Instant, port: PortId, sender: u64, datagram: &[u8]) {
        let Ok(open) = open_octets(datagram) else { return };
        let peers = &mut self.net.peers;
        let Some(peer) = peers.overheard_by(port) else { return };
        let budget = peers.config().cache.get() / overheard::PART;
        if let Some(digest) = self.overheard.keep(now, budget, peer, sender, &datagram[open]) {
            peers.blocks(peer).note_heard(now, sender, &digest);
            peers.touch(peer);
            self.settle(now);
        }
    }

    /// A neighbour names octets that we reported.
    fn take_by_digest(&mut self, now: Instant, (peer, name): Side, (offset, len): (u64, u64), digest: &Digest) {
        // Otherwise receipts show that the bytes are missing, and the neighbour sends them.
        if let Some(octets) = self.overheard.take(peer, digest, len) {
            self.net.peers.blocks(peer).take_overheard(now, name, offset, &octets);
        }
        self.net.peers.touch(peer);
    }

    /// After any change to links: translates their events, here and on the links they affect, and determines whether sessions are needed.
    /// Returns whether any had changed.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(peer) = self.net.peers.next_touched() {
            while let Some(event) = self.net.peers.blocks(peer).poll_event() {
                self.translate(now, peer, event);
            }
            self.net.peers.settle(now, peer);
            any = true;
        }
        if any {
            self.grants.give_turns(&mut self.net.peers, now);
        }
        any
    }

    /// Acts on each peer, and settles its link.
    fn settle_each(&mut self, now: Instant, act: impl Fn(&mut Neighbours, PeerId)) {
        for peer in self.net.peers.ids() {
            act(&mut self.net.peers, peer);
            self.net.peers.touch(peer);
            self.settle(now);
        }
    }

    /// Handles a link's event: here, as a relay, or as an edge.
    fn translate(&mut self, now: Instant, peer: PeerId, event: HopEvent) {
        let name = match &event {
            HopEvent::Incoming { flow, source, target, passage } => {
                return match self.incoming(now, (peer, *flow), (*source, *target), *passage) {
                    Ok(()) => self.grants.note_opening(&self.net.peers, peer),
                    Err(Refusal { reason, ended }) => self.net.peers.blocks(peer).refuse(now, *flow, reason, ended),
                };
            }
            HopEvent::Accepted(flow, _)
            | HopEvent::Progress(flow, ..)
            | HopEvent::Ending(flow)
            | HopEvent::Readable(flow)
            | HopEvent::Writable(flow)
            | HopEvent::Receipted(flow)
            | HopEvent::Asks(flow)
            | HopEvent::Filled(flow)
            | HopEvent::Vtx(flow, ..)
            | HopEvent::Lacks(flow, _)
            | HopEvent::Again(flow, ..)
            | HopEvent::ProgressAgain(flow)
            | HopEvent::Open(flow, ..)
            | HopEvent::ByDigest(flow, ..)
            | HopEvent::Idle(flow)
            | HopEvent::Refused(flow, ..)
            | HopEvent::Reset(flow, _)
            | HopEvent::Withdrawn(flow)
            | HopEvent::Closed(flow) => *flow,
        };
        let (side, peers) = ((peer, name), &mut self.net.peers);
        match event {
            HopEvent::Idle(_) if peers.ends_idle(side) => {
                return self.translate(now, peer, HopEvent::Reset(name, Reason::TimedOut));
            }
            HopEvent::Idle(_) => return,
            HopEvent::Asks(_) => return self.grants.note_asking(peers, now, side),
            HopEvent::Filled(_) => return self.grants.end_turn(peers, now, side),
            HopEvent::ByDigest(_, offset, len, digest) => {
                return self.take_by_digest(now, side, (offset, len), &digest);
            }
            HopEvent::Refused(..) | HopEvent::Reset(..) | HopEvent::Withdrawn(_) | HopEvent::Closed(_) => {
                self.grants.stop_asking(peers, now, side);
            }
            _ => {}
        }
        if self.relays.contains(side) {
            self.relays.handle_event(&mut self.net, now, side, event);
        } else if let Some(id) = self.flows.id(side) {
            self.flows.handle_event(&mut self.net, now, id, side, event);
        }
    }

    /// A neighbour asks for a flow, to here or onwards.
    pub(crate) fn incoming(
        &mut self,
        now: Instant,
        side: Side,
        ends: Ends,
        passage: Option<Passage>,
    ) -> Result<(), Refusal> {
        match self.flows.incoming(&mut self.net, now, side, ends, passage)? {
            Some(asked) => Ok(self.relays.relay(&mut self.net, now, side, asked)?),
            None => Ok(()),
        }
    }

    /// A neighbour went down or came back, or routes changed: flows leave lost ways for others.
    fn leave_lost_ways(&mut self, now: Instant) {
        self.flows.leave_lost_ways(&mut self.net, now);
        self.relays.leave_lost_ways(&mut self.net, now);
    }

    fn heard(&mut self, now: Instant, peer: PeerId) {
        let returned = self.net.peers.heard(now, peer);
        self.grants.prolong_pause(&self.net.peers, now, peer);
        if returned {
            self.net.routing.returned(peer);
            self.leave_lost_ways(now);
        }
    }

    fn handle_datagram(&mut self, now: Instant, port: PortId, datagram: &mut [u8], meta: &FrameMeta) {
        let (session, data) = self.net.peers.open_datagram(now, port, datagram, meta);
        if let Some(session) = session {
            let peer = self.net.peers.establish(now, &session, port);
            self.heard(now, peer);
        }
        let from = data.as_ref().map(|data| data.peer);
        if let Some(data) = data {
            let back = self.net.peers.trace_back(&data, datagram.len());
            self.heard(now, data.peer);
            self.net.peers.take_data(data, back, datagram);
        }
        self.settle(now);
        if let Some(peer) = from {
            self.grants.note_answer(&mut self.net.peers, now, peer);
            self.settle(now);
        }
        self.drain_session_events(now);
    }

    /// Passes on what the sessions report.
    fn drain_session_events(&mut self, now: Instant) {
        self.net.peers.drain_session_events();
        while self.settle(now) {
            self.net.peers.drain_session_events();
        }
    }

    /// The next datagram for `port`, or a batch.
    ///
    /// A batch holds what separate calls would have returned at this moment, byte for byte, so pacer, window and packet numbers
    /// count each datagram in it. It ends with the first one that is not full.
    fn next_batch(&mut self, now: Instant, port: PortId, buf: &mut [u8], segments_max: usize) -> Option<Transmit> {
        let handshake = self.net.peers.poll_handshake(now, port, buf);
        if handshake.is_some() {
            return handshake;
        }
        for step in 0..self.net.peers.len() {
            let peer = self.net.peers.in_turn(step);
            for lane in 0..self.net.peers.sealing_lanes(now, peer) {
                if !self.net.peers.sends_by(peer, lane, port) {
                    continue;
                }
                let Some((first, class)) = self.next_datagram(now, peer, lane, buf) else { continue };
                self.net.peers.served(peer);
                let Some(first) = first else { continue };
                let (most, mut len) = (self.net.peers.batch_max((peer, lane), first, buf.len(), segments_max), first);
                while len < most && !self.net.peers.batch_waits(now, peer, lane, port) {
                    let next = self.next_datagram(now, peer, lane, &mut buf[len..len + first]);
                    let Some((Some(next), _)) = next else { break };
                    len += next;
                    if next < first {
                        break;
                    }
                }
                return Some(self.net.peers.batch((peer, lane), class, (len, first)));
            }
        }
        None
    }

    fn next_datagram(
        &mut self,
        now: Instant,
        peer: PeerId,
        lane: usize,
        buf: &mut [u8],
    ) -> Option<(Option<usize>, Class)> {
        let sent = self.net.peers.next_datagram(now, peer, lane, buf)?;
        self.settle(now);
        Some(sent)
    }
}

impl Machine for Gateway {
    type Event = GatewayEvent;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let size = meta.segment.map_or(frame.len(), usize::from).max(1);
        for datagram in frame.chunks_mut(size) {
            self.handle_datagram(now, port, datagram, &meta);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.net.peers.tick(now);
        self.drain_session_events(now);
        for peer in self.net.peers.ids() {
            self.net.peers.handle_timeout(now, peer);
            if self.net.peers.goes_down(now, peer) {
                self.leave_lost_ways(now);
                self.net.peers.tell(GatewayEvent::PeerDown(peer));
            }
            self.packets.refuse_waiting(&mut self.net, now, peer);
            self.net.peers.touch(peer);
            self.settle(now);
            self.net.peers.note_path_mtu(now, peer);
        }
        while self.flows.look_after_lost(&mut self.net, now) {
            self.settle(now);
        }
        self.flows.look_for_lost_blocks(&mut self.net, now);
        self.grants.look_at_turns(&mut self.net.peers, now);
        self.grants.give_turns(&mut self.net.peers, now);
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], segments_max: usize) -> Option<Transmit> {
        let batch = self.next_batch(now, port, buf, segments_max);
        // A handshake that was sent may cause an event for the owner.
        self.drain_session_events(now);
        batch
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let flows = Wakeup::earliest(self.flows.poll_timeout(), self.grants.poll_timeout());
        Wakeup::earliest(self.net.peers.poll_timeout(), flows)
    }

    fn poll_event(&mut self) -> Option<GatewayEvent> {
        self.net.peers.poll_event()
    }
}

impl Streams for Gateway {
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        let taken = self.flows.write(&mut self.net, now, flow, data);
        self.settle(now);
        taken
    }

    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        let sealed = self.flows.is_sealed(flow);
        if sealed && self.open_next(now, flow) {
            return self.flows.read_opened(flow, buf);
        }
        let outcome = match sealed {
            true => self.flows.read_end(&mut self.net, now, flow),
            false => self.flows.read(&mut self.net, now, flow, buf),
        };
        self.settle(now);
        outcome
    }

    fn shutdown(&mut self, now: Instant, flow: FlowId) {
        self.flows.shutdown(&mut self.net, now, flow);
        self.settle(now);
    }

    fn reset(&mut self, now: Instant, flow: FlowId) {
        self.flows.reset(&mut self.net, now, flow);
        self.settle(now);
    }
}
