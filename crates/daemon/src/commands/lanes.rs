//! What `check` reports of lanes: their list, and the obstacles on this machine.

use crate::config::LaneMedium;
use crate::config::{Config, LaneSocket, Peer, PeerLane, lane_name};
use crate::status;
use std::net::IpAddr;
use wavelane_base::Address;
use wavelane_host::routes::{interface_mtu, towards};
use wavelane_host::{interface_index, interface_needs_no_arp};

/// The least MTU of a lane's path (RFC 1122, section 3.3.3): every packet that a session needs fits in it.
const LEAST_MTU: u32 = 576;

/// One line for each lane of a peer that has tables.
pub(super) fn list(peer: &Peer, listen: std::net::SocketAddr) -> String {
    let line = |(place, lane): (usize, &PeerLane)| {
        let socket = lane.socket.as_ref();
        let by = socket.map_or_else(|| listen.to_string(), LaneSocket::name);
        let to = match (lane.written_address(), lane.ways.word()) {
            (_, "in") => String::new(),
            _ if lane.line().is_some() => String::new(),
            (Some(to), _) => format!(" to {to}"),
            (None, _) => " (the peer calls)".into(),
        };
        let medium = LaneMedium::of(socket).word;
        let kinds = status::kinds(
            medium,
            lane.ways.word(),
            lane.knobs.metered.then_some("metered"),
            [lane.knobs.bulk, lane.knobs.small],
        );
        let start = lane.knobs.start_rate.map(|rate| format!(", starts at {} kbit/s", rate.as_bps() as f64 / 1e3));
        let radio = socket.and_then(LaneSocket::radio_words).map(|words| format!(", {words}"));
        let start = radio.or(start);
        let kinds = lane.line().map_or(kinds.clone(), |line| format!("{kinds}, {}", line.words()));
        format!("  {} by {by}{to} ({kinds}{})\n", lane_name(place), start.unwrap_or_default())
    };
    peer.lanes.iter().enumerate().map(line).collect()
}

/// Devices by which no route leads to the lane's address, or whose MTU is too small.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for peer in &config.peers {
        for (place, lane) in peer.lanes.iter().enumerate() {
            let Some((socket, device)) = lane.socket.as_ref().and_then(|s| Some((s, s.device.as_deref()?))) else {
                continue;
            };
            let Some(index) = interface_index(device) else { continue };
            let name = format!("peer '{}', {}", peer.name, lane_name(place));
            if let Some(mtu) = interface_mtu(index).filter(|mtu| *mtu < LEAST_MTU) {
                warnings.push(format!(
                    "{name}: device {device} has an MTU of {mtu}, and a lane needs {LEAST_MTU}, better 1500: run `ip link set {device} mtu 1500` if the medium can carry that"
                ));
            }
            let to = lane.number().and_then(Address::ip).map(|to| to.ip()).filter(|_| socket.medium.has_ip);
            // A link with a single far end needs no ARP.
            if let Some(to) = to.filter(|to| has_no_route(*to, index) && interface_needs_no_arp(device) == Some(false))
            {
                warnings.push(format!(
                    "{name}: no route to {to} leads by device {device}, so {to} itself is looked for on that link, and only a host there answers: add one, such as `ip route add {to} via NEXT-HOP dev {device} metric 1000`"
                ));
            }
        }
    }
    warnings
}

/// Whether an address is known to have no route. If that cannot be found out there is no warning.
fn has_no_route(to: IpAddr, device: u32) -> bool {
    matches!(towards(to, Some(device)), Ok(None))
}
