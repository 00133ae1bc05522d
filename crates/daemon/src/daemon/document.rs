//! The status document.

use super::Daemon;
use crate::{keys, status};
use wavelane_base::Span;

impl Daemon {
    /// Everything `status` shows, as JSON.
    pub(super) fn document(&self) -> String {
        let gateway = self.gateway.status(self.now);
        let ms = |s: Option<Span>| s.map(|s| s.as_nanos() as f64 / 1e6);
        let peers = gateway.peers.iter().map(|p| status::Peer {
            name: p.name.clone(),
            up: p.up,
            address: p.address.map(|a| a.to_string()),
            silence_ms: ms(p.silence),
            rtt_ms: ms(p.rtt),
            rtt_min_ms: ms(p.rtt_min),
            queue_delay_ms: ms(p.queue_delay),
            rate_bps: p.rate.map(|r| r.as_bps()),
            loss: if p.loss.is_finite() { p.loss } else { 0.0 },
            path_mtu: p.path_mtu,
            in_flight_bytes: p.in_flight,
        });
        let moved =
            [("bytes_from_applications", self.moved.from_socket), ("bytes_to_applications", self.moved.to_socket)];
        let counts = self.packet_door.as_ref().map(|d| d.device.tun.counts());
        let refused = counts.map(|c| [("dropped_packet_device", c.refused), ("dropped_packet_malformed", c.malformed)]);
        let own = self.counters.iter().chain(refused.into_iter().flatten());
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
            door: status::Door {
                intercepting: self.config.intercept.is_some(),
                honest: self.transparent.as_ref().is_some_and(|t| t.rules.holds_syns()),
                pending: self.attempts.len(),
                connections: self.connections.len(),
            },
            packet_door: self.packet_door(),
            reload_refused: self.reloads.refused.clone(),
            counters: counted.map(|(name, n)| status::counter(name, n)).collect(),
        };
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    }
    fn packet_door(&self) -> Option<status::PacketDoor> {
        let (door, tun) = (self.packet_door.as_ref()?, self.config.tun.as_ref()?);
        let counts = door.device.tun.counts();
        Some(status::PacketDoor {
            device: tun.name.clone(),
            mtu: tun.mtu,
            offload: tun.offload,
            udp_offload: door.device.tun.has_udp_offload(),
            packets_in: counts.packets_in,
            reads: counts.reads,
            packets_out: counts.packets_out,
            writes: counts.writes,
        })
    }
}
