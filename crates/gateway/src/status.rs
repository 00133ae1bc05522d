//! The operator's view: a snapshot, and session events as text.

use super::Link;
use super::{Distrust, Event, Gateway, KnownWay, LaneStatus, PeerId, PeerStatus, Status};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wavelane_base::Instant;
use wavelane_services::packet::PacketCounters;
use wavelane_transport::link::LinkCounters;
use wavelane_transport::session::SessionEvent;

pub(super) fn snapshot(gateway: &Gateway, now: Instant) -> Status {
    let mut counters: BTreeMap<&'static str, u64> = gateway.sessions.counters().into_iter().collect();
    let own = &gateway.counters;
    counters.insert("dropped_source_not_allowed", own.dropped_source_not_allowed);
    counters.insert("dropped_target_not_allowed", own.dropped_target_not_allowed);
    counters.insert("dropped_no_session", own.dropped_no_session);
    counters.insert("flows_resumed", own.flows_resumed);
    counters.insert("flows_moved", own.flows_moved);
    counters.insert("dropped_stale_opens", own.dropped_stale_opens);
    counters.insert("flows_given_up", own.flows_given_up);
    counters.insert("flows_idle", own.flows_idle);
    counters.insert("dropped_parcels_foreign", own.dropped_parcels_foreign);
    counters.insert("dropped_words_forged", own.dropped_words_forged);
    counters.insert("flows_withheld", own.flows_withheld);
    counters.insert("flows_corrupted", own.flows_corrupted);
    counters.insert("refused_seals", own.refused_seals);
    counters.insert("refused_flow_rate", gateway.arrivals.refused);
    counters.insert("refused_key_rate", gateway.labour.refused + gateway.passing.refused);
    counters.insert("addresses_unproven", own.addresses_unproven);
    counters.insert("flows_relayed", gateway.relays.relayed);
    counters.insert("relayed_octets", gateway.relays.bytes);
    counters.insert("refused_relay_loop", gateway.relays.refused_loop);
    counters.insert("vtx_asked", gateway.vtx.asked);
    counters.insert("grants_given", gateway.grants.granted);
    counters.insert("grants_expired", gateway.grants.expired);
    counters.insert("cache_evicted_octets", gateway.cache.evicted_octets);
    counters.insert("overheard_kept_octets", gateway.overheard.kept);
    counters.insert("dropped_overheard_crowded", gateway.overheard.crowded);
    counters.insert("overheard_missed", gateway.overheard.missed);
    counters.extend(gateway.packets.counters.named());
    let (mut buffered, mut packets_buffered) = (gateway.kept, 0);
    for link in &gateway.links {
        let held = link.service.blocks.status();
        buffered += held.to_send + held.unread;
        packets_buffered += link.service.packets.as_ref().map_or(0, |packets| packets.octets() as u64);
        let lane = link.counters();
        let paths = || (0..link.lanes()).map(|lane| link.path(now, lane));
        let named = [
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
        ];
        let packets = link.service.packets.as_ref().map(|packets| packets.counters());
        let named = named.into_iter().chain(repair(link, &lane, packets.as_ref()));
        let named = named.chain(packets.iter().flat_map(PacketCounters::named));
        for (name, count) in named.chain(link.service.blocks.counters().named()) {
            *counters.entry(name).or_default() += count;
        }
    }
    Status {
        peers: (0..gateway.links.len()).map(|peer| peer_status(gateway, now, peer)).collect(),
        flows: gateway.flows.len(),
        flows_lost_way: gateway.flows.detached(),
        flows_relayed: gateway.relays.len() / 2,
        buffered,
        packets_buffered,
        overheard: gateway.overheard.held(),
        counters: counters.into_iter().collect(),
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

fn peer_status(gateway: &Gateway, now: Instant, peer: usize) -> PeerStatus {
    let (link, state) = (&gateway.links[peer], &gateway.peers[peer]);
    let path = link.path(now, link.best_lane());
    let distrust = |(at, what, target, way): &(Instant, &'static str, Option<SocketAddr>, Option<KnownWay>)| Distrust {
        ago: now.since(*at),
        what,
        target: *target,
        way: way.clone(),
    };
    PeerStatus {
        name: gateway.config.peers[peer].name.clone(),
        up: state.up && gateway.sessions.can_seal(now, peer),
        address: gateway.sessions.address(peer, link.best_lane()),
        preferred: state.numbers.iter().position(|number| *number == link.best_lane()),
        lanes: lanes(gateway, peer).into_iter().filter_map(|lane| lane_status(gateway, now, peer, lane)).collect(),
        silence: state.heard.map(|at| now.since(at)),
        rtt: path.rtt,
        rtt_min: path.rtt_min,
        queue_delay: path.queue_delay,
        rate: path.rtt.map(|_| path.rate),
        loss: path.loss,
        loss_in: link.inbound_loss(),
        sent: state.sent,
        received: state.received,
        repaired: link.counters().repaired + link.service.packets.as_ref().map_or(0, |p| p.counters().sender.repaired),
        path_mtu: path.path_mtu,
        path_mtu_cause: path.below_base.then(|| path_mtu_cause(path.path_mtu)),
        in_flight: path.in_flight,
        distrusted: state.distrusted,
        distrusted_last: state.distrusted_last.as_ref().map(distrust),
    }
}

/// The existing lanes to a peer: the configured ones in order, then those created for lanes of the peer.
pub(super) fn lanes(gateway: &Gateway, peer: usize) -> Vec<usize> {
    let (link, numbers) = (&gateway.links[peer], &gateway.peers[peer].numbers);
    let made = (0..link.lanes()).filter(|lane| !numbers.contains(lane));
    numbers.iter().copied().chain(made).filter(|lane| !link.is_closed(*lane)).collect()
}

pub(super) fn lane_status(gateway: &Gateway, now: Instant, peer: usize, lane: usize) -> Option<LaneStatus> {
    let path = gateway.links[peer].path(now, lane);
    let port = gateway.sessions.port(peer, lane)?;
    let like = gateway.lane_like(PeerId(peer), lane, port);
    Some(LaneStatus {
        place: gateway.peers[peer].numbers.iter().position(|number| *number == lane),
        port,
        metered: like.metered,
        bulk: like.bulk,
        small: like.small,
        path_mtu: path.path_mtu,
        path_mtu_cause: path.below_base.then(|| path_mtu_cause(path.path_mtu)),
        address: gateway.sessions.address(peer, lane),
        works: !gateway.links[peer].lane_failed(lane),
        spare: gateway.links[peer].lane_is_spare(lane),
        rtt: path.rtt,
        // The assumed rate of a lane that has carried nothing is not a measurement.
        rate: path.rtt.filter(|_| path.delivered_bytes > 0).map(|_| path.rate),
        loss: path.loss,
        delivered_bytes: path.delivered_bytes,
        lost_packets: path.lost_packets,
        sent: gateway.peers[peer].lanes[lane].sent,
        received: gateway.peers[peer].lanes[lane].received,
    })
}

/// The size that every path carries (RFC 1122, section 3.3.3) and none is searched below.
const LEAST_MTU: usize = 576;

/// The notice about a path whose MTU is below the base.
fn path_mtu_cause(mtu: usize) -> String {
    let arrive = if mtu <= LEAST_MTU {
        format!(", and none of more than {LEAST_MTU} is known to arrive")
    } else {
        format!(" and smaller ones arrive, of {mtu} bytes as far as is known by now")
    };
    format!(
        "packets of 1200 bytes are lost on the way{arrive}: look for a tunnel or a filter between the gateways with a smaller MTU; until it is mended we send no larger ones than arrive"
    )
}

impl Gateway {
    /// Reports once that the path drops large packets, and once that it no longer does.
    pub(super) fn note_path_mtu(&mut self, now: Instant, peer: usize) {
        for lane in 0..self.links[peer].lanes() {
            let path = self.links[peer].path(now, lane);
            let state = &mut self.peers[peer].lanes[lane];
            if core::mem::replace(&mut state.below_base, path.below_base) == path.below_base {
                continue;
            }
            let place = self.peers[peer].numbers.iter().position(|number| *number == lane);
            let text = match path.below_base {
                true => path_mtu_cause(path.path_mtu),
                false => format!("packets of {} bytes arrive again", path.path_mtu),
            };
            self.events.push_back(Event::PathMtu { peer: PeerId(peer), place, text });
        }
    }

    /// Passes on what the sessions report, in the operator's words.
    pub(super) fn drain_session_events(&mut self, now: Instant) {
        while let Some(event) = self.sessions.poll_event() {
            let name = |peer: usize| self.config.peers[peer].name.clone();
            let ours = match event {
                SessionEvent::NoAnswer { peer, address, .. } => Event::Unanswered { peer: PeerId(peer), address },
                SessionEvent::OwnKeyUnknown { peer } => Event::OwnKeyUnknown(PeerId(peer)),
                SessionEvent::AnswerUnreadable { peer, .. } => Event::Unreadable(PeerId(peer)),
                SessionEvent::AnswerLate { peer, took } => Event::Notice {
                    peer: Some(PeerId(peer)),
                    text: format!(
                        "peer '{}': an answer came {:.0} s after our call, and none is of use after {}: the path, or a queue on it, is too slow",
                        name(peer),
                        took.as_secs_f64(),
                        wavelane_transport::session::INIT_LIFETIME
                    ),
                },
                SessionEvent::UnknownPeer { public_key, from } => Event::UnknownCaller { public_key, from },
                SessionEvent::EpochWentBack { peer, epoch, known } => Event::Notice {
                    peer: Some(PeerId(peer)),
                    text: format!(
                        "peer '{}' calls under boot epoch {epoch}, older than {known}: set its clock, or this is a replay",
                        name(peer)
                    ),
                },
                SessionEvent::OtherVersion { version, .. } => Event::Notice {
                    peer: None,
                    text: format!("a caller has wire version {version}, this gateway 1: upgrade the older side"),
                },
                SessionEvent::Expired { peer } => {
                    self.settle(now, PeerId(peer));
                    continue;
                }
            };
            self.events.push_back(ours);
        }
    }
}
