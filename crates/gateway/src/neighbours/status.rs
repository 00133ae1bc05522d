//! The operator's view of the neighbours: a snapshot, and session events as text.

use super::{Distrusted, Link, Neighbours, PathMtuCause};
use crate::{Distrust, GatewayEvent, LaneStatus, PeerId, PeerStatus};
use wavelane_base::{Address, Instant};
use wavelane_services::packet::PacketCounters;
use wavelane_transport::lane::LaneView;
use wavelane_transport::link::LinkCounters;
use wavelane_transport::session::SessionEvent;

impl Neighbours {
    /// Counters of sessions and of all links together; a name may come several times.
    pub(crate) fn counters(&self, now: Instant) -> Vec<(&'static str, u64)> {
        let mut counters = self.sessions.counters();
        counters.push(("dropped_no_session", self.dropped_no_session));
        counters.push(("addresses_unproven", self.addresses_unproven));
        counters.push(("flows_idle", self.flows_idle));
        for link in &self.links {
            let lane = link.counters();
            let paths = || (0..link.lanes()).map(|lane| link.path(now, lane));
            counters.extend([
                ("datagrams_sent", lane.datagrams_sent),
                ("datagrams_received", lane.datagrams_received),
                ("datagrams_lost", paths().map(|path| path.lost_packets).sum()),
                ("datagrams_lost_spurious", paths().map(|path| path.spurious_losses).sum()),
                ("dropped_malformed_frames", lane.malformed),
                ("dropped_stray_lane_acks", lane.stray_acks),
                ("dropped_optimistic_lane_acks", lane.optimistic_acks),
                ("fec_protected", lane.protected),
                ("fec_symbols", lane.symbols_sent),
                ("fec_symbol_octets", lane.symbol_octets),
                ("fec_repaired", lane.repaired),
                ("fec_unrepaired", lane.unrepaired),
                ("fec_recovered", lane.recovered),
                ("lane_doubles", lane.doubled),
                ("lane_double_octets", lane.doubled_octets),
                ("dropped_packets_unwanted", link.service.unwanted_packets()),
            ]);
            let packets = link.service.packets.as_ref().map(|packets| packets.counters());
            counters.extend(repair(link, &lane, packets.as_ref()));
            counters.extend(packets.iter().flat_map(PacketCounters::named));
            counters.extend(link.service.blocks.counters().named());
        }
        counters
    }

    /// Octets that links hold: of flows, and of packets.
    pub(crate) fn buffered(&self) -> (u64, u64) {
        let held = self.links.iter().map(|link| {
            let (blocks, packets) = (link.service.blocks.status(), link.service.packets.as_ref());
            (blocks.to_send + blocks.unread, packets.map_or(0, |packets| packets.octets() as u64))
        });
        held.fold((0, 0), |all, held| (all.0 + held.0, all.1 + held.1))
    }

    pub(crate) fn peer_status(&self, now: Instant, peer: PeerId) -> PeerStatus {
        let (link, state) = (&self.links[peer.0], &self.states[peer.0]);
        let path = link.path(now, link.best_lane());
        let distrust = |(at, what, target, way): &Distrusted| Distrust {
            ago: now.since(*at),
            what,
            target: *target,
            way: way.clone(),
        };
        PeerStatus {
            name: self.config.peers[peer.0].name.clone(),
            up: state.up && self.sessions.can_seal(now, peer.0),
            address: self.sessions.address(peer.0, link.best_lane()),
            preferred: state.place(link.best_lane()),
            lanes: self.lanes(peer).into_iter().filter_map(|lane| self.lane_status(now, peer, lane)).collect(),
            silence: state.heard.map(|at| now.since(at)),
            rtt: path.rtt,
            rtt_min: path.rtt_min,
            queue_delay: path.queue_delay,
            rate: path.rtt.map(|_| path.rate),
            loss: path.loss,
            loss_in: link.inbound_loss(),
            sent: state.sent,
            received: state.received,
            repaired: link.counters().repaired
                + link.service.packets.as_ref().map_or(0, |p| p.counters().sender.repaired),
            path_mtu: path.path_mtu,
            path_mtu_cause: PathMtuCause::of(&path).map(|cause| cause.text(path.path_mtu)),
            in_flight: path.in_flight,
            distrusted: state.distrusted,
            distrusted_last: state.distrusted_last.as_ref().map(distrust),
        }
    }

    /// The existing lanes to a peer: the configured ones in order, then those created for lanes of the peer.
    pub(super) fn lanes(&self, peer: PeerId) -> Vec<usize> {
        let (link, numbers) = (&self.links[peer.0], &self.states[peer.0].numbers);
        let made = (0..link.lanes()).filter(|lane| !numbers.contains(lane));
        numbers.iter().copied().chain(made).filter(|lane| !link.is_closed(*lane)).collect()
    }

    /// Where the lanes of all peers go now.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        let of =
            move |peer| self.lanes(PeerId(peer)).into_iter().filter_map(move |lane| self.sessions.address(peer, lane));
        (0..self.links.len()).flat_map(of)
    }

    pub(super) fn lane_status(&self, now: Instant, peer: PeerId, lane: usize) -> Option<LaneStatus> {
        let path = self.links[peer.0].path(now, lane);
        let port = self.sessions.port(peer.0, lane)?;
        let like = self.lane_like(peer, lane, port);
        Some(LaneStatus {
            number: lane as u8,
            place: self.states[peer.0].place(lane),
            port,
            metered: self.links[peer.0].lane_is_metered(lane),
            metered_there: self.links[peer.0].lane_is_metered_there(lane),
            bulk: like.knobs.bulk,
            small: like.knobs.small,
            path_mtu: path.path_mtu,
            path_mtu_cause: PathMtuCause::of(&path).map(|cause| cause.text(path.path_mtu)),
            address: self.sessions.address(peer.0, lane),
            works: !self.links[peer.0].lane_failed(lane),
            spare: self.links[peer.0].lane_is_spare(lane),
            since: self.states[peer.0].lanes[lane].since,
            rtt: path.rtt,
            // The assumed rate of a lane that has carried nothing is not a measurement.
            rate: path.rtt.filter(|_| path.delivered_bytes > 0).map(|_| path.rate),
            loss: path.loss,
            delivered_bytes: path.delivered_bytes,
            lost_packets: path.lost_packets,
            sent: self.states[peer.0].lanes[lane].sent,
            received: self.states[peer.0].lanes[lane].received,
        })
    }

    /// Reports once that the path drops large packets or batches, and once that it no longer does.
    pub(crate) fn note_path_mtu(&mut self, now: Instant, peer: PeerId) {
        for lane in 0..self.links[peer.0].lanes() {
            let path = self.links[peer.0].path(now, lane);
            let state = &mut self.states[peer.0].lanes[lane];
            let cause = PathMtuCause::of(&path);
            let before = core::mem::replace(&mut state.path_mtu_cause, cause);
            if before == cause {
                continue;
            }
            let place = self.states[peer.0].place(lane);
            let text = match (cause, before) {
                (Some(cause), _) => cause.text(path.path_mtu),
                (None, Some(PathMtuCause::Batches)) => "packets are sent in batches again".to_owned(),
                (None, _) => format!("packets of {} bytes arrive again", path.path_mtu),
            };
            self.events.push_back(GatewayEvent::PathMtu { peer, place, text });
        }
    }

    /// Passes on what the sessions report, in the operator's words. Where a session has expired it stops, for its link to be settled.
    pub(crate) fn drain_session_events(&mut self) {
        while let Some(event) = self.sessions.poll_event() {
            let name = |peer: usize| self.config.peers[peer].name.clone();
            let ours = match event {
                SessionEvent::NoAnswer { peer, address, .. } => {
                    GatewayEvent::Unanswered { peer: PeerId(peer), address }
                }
                SessionEvent::OwnKeyUnknown { peer } => GatewayEvent::OwnKeyUnknown(PeerId(peer)),
                SessionEvent::AnswerUnreadable { peer, .. } => GatewayEvent::Unreadable(PeerId(peer)),
                SessionEvent::AnswerLate { peer, took } => GatewayEvent::Notice {
                    peer: Some(PeerId(peer)),
                    text: format!(
                        "peer '{}': an answer came {:.0} s after our call, and none is of use after {}: the path, or a queue on it, is too slow",
                        name(peer),
                        took.as_secs_f64(),
                        wavelane_transport::session::INIT_LIFETIME
                    ),
                },
                SessionEvent::UnknownPeer { public_key, from } => GatewayEvent::UnknownCaller { public_key, from },
                SessionEvent::EpochWentBack { peer, epoch, known } => GatewayEvent::Notice {
                    peer: Some(PeerId(peer)),
                    text: format!(
                        "peer '{}' calls under boot epoch {epoch}, older than {known}: set its clock, or this is a replay",
                        name(peer)
                    ),
                },
                SessionEvent::OtherVersion { version, .. } => GatewayEvent::Notice {
                    peer: None,
                    text: format!("a caller has wire version {version}, this gateway 1: upgrade the older side"),
                },
                SessionEvent::Expired { peer } => {
                    return self.touch(PeerId(peer));
                }
            };
            self.events.push_back(ours);
        }
    }
}

/// Cost and outcome of repair on a link, over all repair methods.
fn repair(link: &Link, lane: &LinkCounters, packets: Option<&PacketCounters>) -> [(&'static str, u64); 4] {
    let (blocks, packets) = (link.service.blocks.counters(), packets.map(|p| p.sender).unwrap_or_default());
    let cost = blocks.repair_octets + blocks.copy_octets + lane.symbol_octets + packets.repeat_octets;
    [
        ("first_octets", blocks.first_octets + packets.first_octets),
        ("repair_octets", cost),
        ("repaired", lane.repaired + packets.repaired),
        ("unrepaired", packets.unrepaired),
    ]
}

/// The size that every path carries (RFC 1122, section 3.3.3) and none is searched below.
const LEAST_MTU: usize = 576;

const BATCHES_LOST: &str = "packets that leave in batches are lost on the way, and as large ones sent alone arrive: look for a card or driver whose UDP segmentation is broken (ethtool -K DEVICE tx-udp-segmentation off), or a filter that takes a batch for one packet; they leave one by one, which costs processor time, and batches are tried again after 10 minutes";

impl PathMtuCause {
    fn of(path: &LaneView) -> Option<Self> {
        let small = path.below_base.then_some(Self::Small);
        if path.single { Some(Self::Batches) } else { small }
    }

    /// The notice, for a path that carries `mtu`.
    fn text(self, mtu: usize) -> String {
        let arrive = match self {
            Self::Batches => return BATCHES_LOST.to_owned(),
            Self::Small if mtu <= LEAST_MTU => format!(", and none of more than {LEAST_MTU} is known to arrive"),
            Self::Small => format!(" and smaller ones arrive, of {mtu} bytes as far as is known by now"),
        };
        format!(
            "packets of 1200 bytes are lost on the way{arrive}: look for a tunnel or a filter between the gateways with a smaller MTU; until it is mended we send no larger ones than arrive"
        )
    }
}
