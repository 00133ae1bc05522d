//! The status document.

use super::Daemon;
use crate::engine::KernelEngine;
use crate::system::kernel::Kernel;
use crate::{config, keys, serial, status};
use wavelane_base::Span;
use wavelane_door::{Connection, Kept};
use wavelane_gateway::{Controller, Traffic};

/// What was sent and received.
pub(super) fn traffic(sent: Traffic, received: Traffic) -> status::Traffic {
    status::Traffic {
        sent_bytes: sent.octets,
        sent_packets: sent.packets,
        received_bytes: received.octets,
        received_packets: received.packets,
    }
}

impl Daemon {
    /// Everything `status` shows, as JSON.
    pub(super) fn document(&self) -> String {
        let gateway = self.gateway.status(self.now);
        let ms = |s: Option<Span>| s.map(|s| s.as_nanos() as f64 / 1e6);
        let peers = gateway.peers.iter().enumerate().map(|(i, p)| status::Peer {
            name: p.name.clone(),
            up: p.up,
            state_s: self.peers.get(i).map_or(0.0, |c| self.now.since(c.since).as_secs_f64()),
            given_back: self.decisions.is_given_back(&self.config, i),
            refused: self.decisions.is_refused(&self.config, i),
            cause: self.cause_now(i).map(|cause| self.cause_text(i, &cause)),
            address: p.address.map(|at| self.shown(at)),
            silence_ms: ms(p.silence),
            rtt_ms: ms(p.rtt),
            rtt_min_ms: ms(p.rtt_min),
            queue_delay_ms: ms(p.queue_delay),
            rate_bps: p.rate.map(|r| r.as_bps()),
            // No measurement gives exactly this rate.
            rate_is_initial: self.config.peers.get(i).is_some_and(|c| {
                let starts = c.lanes.iter().filter_map(config::PeerLane::first_rate).chain([Controller::START_RATE]);
                c.controller == Controller::Delay && starts.into_iter().any(|start| p.rate == Some(start))
            }),
            loss: if p.loss.is_finite() { p.loss } else { 0.0 },
            loss_in: p.loss_in,
            traffic: traffic(p.sent, p.received),
            repaired_packets: p.repaired,
            path_mtu: p.path_mtu,
            path_mtu_cause: p.path_mtu_cause.clone(),
            in_flight_bytes: p.in_flight,
            distrusted: p.distrusted,
            distrusted_last: p.distrusted_last.as_ref().map(|last| status::Distrust {
                ago_s: last.ago.as_secs_f64(),
                what: last.what.into(),
                target: last.target.map(|target| target.to_string()),
                way: last.way.clone().map(status::Way::of),
            }),
            preferred_lane: p
                .preferred
                .and_then(|out| self.out_lane(i, out))
                .map(|(place, _)| config::lane_name(place)),
            lanes: self.lane_documents(i, &p.lanes),
        });
        let moved = [
            ("bytes_from_applications", self.door.moved.from_socket),
            ("bytes_to_applications", self.door.moved.to_socket),
        ];
        let counts = self.packet_door.as_ref().map(|d| d.tun.counts());
        let refused = counts.map(|c| [("dropped_packet_device", c.refused), ("dropped_packet_malformed", c.malformed)]);
        let line = self.line.as_ref().map(serial::Running::state).unwrap_or_default();
        let counters = self.counters.with(&self.door.counts).with(&line.losses);
        let own = counters.iter().chain(refused.into_iter().flatten());
        let own = own.chain(self.log.dropped());
        let counted = own.chain(moved).chain(gateway.counters.iter().copied());
        let report = status::Report {
            format: status::FORMAT.into(),
            name: self.config.name.clone(),
            public_key: keys::to_base64(&keys::public_key(&self.config.private_key)),
            uptime_s: self.now.since(self.started).as_secs_f64(),
            peers: peers.collect(),
            flows: gateway.flows,
            flows_lost_way: gateway.flows_lost_way,
            flows_relayed: gateway.flows_relayed,
            buffered_bytes: gateway.buffered,
            pool_bytes: self.config.knobs.pool.unwrap_or_default().get(),
            flow_list: self.flow_list(),
            door: status::Door {
                intercepting: self.config.intercept.is_some(),
                honest: self.kernel.as_ref().is_some_and(|k| k.holds_syns),
                pending: self.door.pending(),
                connections: self.door.len(),
            },
            packet_door: self.packet_door(),
            serial: self.serial(),
            routing: self.routing(),
            reload_refused: self.decisions.reloads.refused.clone(),
            trial_left_s: self.decisions.reloads.trial_left(self.now).map(Span::as_secs_f64),
            went_back: self.decisions.reloads.went_back.clone(),
            hindrances: self.kernel.as_ref().map(Kernel::hindrances).unwrap_or_default(),
            unknown_callers: self.unknown_callers(),
            counters: counted.map(|(name, n)| status::counter(name, n)).collect(),
        };
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    }
    fn flow_list(&self) -> Vec<status::FlowReport> {
        let mut all: Vec<&Connection<Kept<KernelEngine>>> = self.door.connections().collect();
        let octets = |c: &Connection<Kept<KernelEngine>>| c.splice.moved.from_socket + c.splice.moved.to_socket;
        all.sort_by_key(|c| std::cmp::Reverse(octets(c)));
        all.truncate(status::FLOWS_SHOWN);
        let name = |key: [u8; 32]| self.config.peers.iter().find(|p| p.public_key == key).map(|p| p.name.clone());
        let flow = |c: &Connection<Kept<KernelEngine>>| status::FlowReport {
            peer: name(c.own.tag).unwrap_or_default(),
            way: self.gateway.known_way(c.splice.flow).map(status::Way::of),
            source: c.own.ends.0.to_string(),
            target: c.own.ends.1.to_string(),
            state: c.splice.state().into(),
            age_s: self.now.since(c.splice.born).as_secs_f64(),
            state_s: self.now.since(c.splice.stage_from).as_secs_f64(),
            in_bytes: c.splice.moved.from_socket,
            out_bytes: c.splice.moved.to_socket,
        };
        all.into_iter().map(flow).collect()
    }
    fn serial(&self) -> Option<status::Serial> {
        let (state, config) = (self.line.as_ref()?.state(), self.config.serial.as_ref()?);
        let own = config.addresses.iter().map(config::prefix_text).collect::<Vec<_>>().join(", ");
        Some(status::Serial {
            device: config.device.clone(),
            interface: config.name.clone(),
            line: config.line.words(),
            address: state.addresses.as_ref().map_or(own, |(own, _)| own.clone()),
            far_address: state.addresses.map(|(_, far)| far),
            unused: state.lacking.or(state.unused),
            packets_in: state.received.0,
            bytes_in: state.received.1,
            packets_out: state.sent.0,
            bytes_out: state.sent.1,
            dropped: state.dropped,
            bad: state.bad.into_iter().map(|(name, n)| status::counter(name, n)).collect(),
        })
    }
    fn packet_door(&self) -> Option<status::PacketDoor> {
        let (door, tun) = (self.packet_door.as_ref()?, self.config.tun.as_ref()?);
        let counts = door.tun.counts();
        Some(status::PacketDoor {
            device: tun.name.clone(),
            mtu: tun.mtu,
            offload: tun.offload,
            udp_offload: door.tun.has_udp_offload(),
            packets_in: counts.packets_in,
            reads: counts.reads,
            packets_out: counts.packets_out,
            writes: counts.writes,
        })
    }
}
