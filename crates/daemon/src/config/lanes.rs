//! Errors of lanes beyond their grammar, alone and against one another.

use super::{Config, ConfigError, Directions, LaneSocket, Peer, PeerLane, lane_key, lane_name, value};
use std::net::SocketAddr;
use wavelane_base::Address;

impl Config {
    pub(super) fn check_lanes(&self) -> Result<(), ConfigError> {
        let all =
            || self.peers.iter().flat_map(|peer| peer.lanes.iter().enumerate().map(move |(at, lane)| (peer, at, lane)));
        for (peer, place, lane) in all() {
            self.check_lane(peer, place, lane)?;
        }
        let sockets = all().filter_map(|(peer, place, lane)| Some((peer, place, lane, lane.socket.as_ref()?)));
        let sockets: Vec<_> = sockets.collect();
        for (i, (peer, place, lane, socket)) in sockets.iter().enumerate() {
            let key = |field: &str| format!("{}: {field}", lane_key(lane.line, &peer.name, *place));
            for (other_peer, other_place, _, other) in sockets[..i].iter().filter(|(_, _, _, other)| other != socket) {
                let whose = format!("peer '{}', {}", other_peer.name, lane_name(*other_place));
                // Two packet sockets on one device would each receive everything.
                if socket.medium == other.medium && !socket.medium.has_ip && socket.device == other.device {
                    let device = socket.device.as_deref().unwrap_or_default();
                    if socket.line.is_some() {
                        let what =
                            format!("{device} is set otherwise in {whose}: one port has one rate, framing and MTU");
                        return Err(value(key("device"), what));
                    }
                    return Err(value(
                        key("priority"),
                        format!(
                            "is {} and {} for device '{device}' ({whose}): give all its Ethernet lanes the same",
                            other.priority, socket.priority
                        ),
                    ));
                }
                if overlap(socket, other) {
                    return Err(value(
                        key("local"),
                        format!(
                            "{} overlaps {} of {whose}: give each a port of its own (port 0 lets the system choose)",
                            socket.local, other.local
                        ),
                    ));
                }
            }
        }
        self.check_marks()
    }

    fn check_lane(&self, peer: &Peer, place: usize, lane: &PeerLane) -> Result<(), ConfigError> {
        let key = |field: &str| format!("{}: {field}", lane_key(lane.line, &peer.name, place));
        let both = self.listen.is_ipv6() && self.listen.ip().is_unspecified();
        let taken = |local: &SocketAddr| {
            let everywhere = self.listen.ip().is_unspecified() || local.ip().is_unspecified();
            local.port() == self.listen.port() && (everywhere || local.ip() == self.listen.ip())
        };
        if let Some(local) = lane.socket.as_ref().map(|socket| socket.local).filter(taken) {
            return Err(value(
                key("local"),
                format!("{local} has the port of `listen`, {}: choose another port", self.listen),
            ));
        }
        let by_listen = lane.number().and_then(Address::ip).filter(|_| lane.socket.is_none());
        if let Some(address) = by_listen.filter(|a| !both && a.is_ipv4() != self.listen.is_ipv4()) {
            return Err(value(
                key("address"),
                format!(
                    "{address} is of another IP version than `listen`: listen on [::]:4780 for both, or give the lane a `local` address"
                ),
            ));
        }
        if let Some(other) = peer.lanes[..place].iter().position(|other| is_same_path(other, lane)) {
            return Err(value(
                lane_key(lane.line, &peer.name, place),
                format!(
                    "is the same path as {}: its own socket, address and direction are the same; remove one, or give it another `device`, `local` or `address`",
                    lane_name(other)
                ),
            ));
        }
        Ok(())
    }

    fn check_marks(&self) -> Result<(), ConfigError> {
        let led = self.tun.is_some() && self.intercept.as_ref().is_some_and(|intercept| intercept.local);
        match self.lane_sockets().iter().find_map(|socket| socket.mark).filter(|_| led) {
            None => Ok(()),
            Some(mark) => Err(value(
                "peer.lane.mark",
                format!(
                    "is {mark} beside [tun] with intercept.local = true, where wavelaned's own mark keeps a lane's datagrams off the device: remove one of the three, or use `device`"
                ),
            )),
        }
    }
}

/// Whether two lanes of a peer would be two controllers on one path.
fn is_same_path(a: &PeerLane, b: &PeerLane) -> bool {
    let opposite = matches!((a.ways, b.ways), (Directions::In, Directions::Out) | (Directions::Out, Directions::In));
    a.socket == b.socket && a.address == b.address && !opposite
}

/// Whether the system lets only one of two different sockets have its address.
fn overlap(a: &LaneSocket, b: &LaneSocket) -> bool {
    let [x, y] = [a.local.ip(), b.local.ip()];
    // Bound to [::] a socket has both IP versions.
    let covers = |x: std::net::IpAddr, y: std::net::IpAddr| x.is_unspecified() && (x.is_ipv6() || y.is_ipv4());
    let same_device = a.device.is_none() || b.device.is_none() || a.device == b.device;
    let same_port = a.local.port() == b.local.port() && a.local.port() != 0;
    a.medium.has_ip && b.medium.has_ip && same_device && same_port && (x == y || covers(x, y) || covers(y, x))
}
