//! A peer's table, and how it becomes a [`Peer`].

use super::addresses::{check_host_and_port, check_reachable, prefixes};
use super::{ConfigError, KEEPALIVE, Peer, PeerLane, Surroundings, lane_key, value};
use crate::keys;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use wavelane_base::{Quantity, Rate};
use wavelane_gateway::Controller;
use wavelane_settings::{LaneTable, OrOff, PeerTable};

impl Peer {
    /// `of_lanes` has the lines of the lanes, too.
    pub(super) fn from_table(
        t: PeerTable,
        of_lanes: &[(usize, LaneTable)],
        (folder, around): (&Path, &Surroundings),
        listen: SocketAddr,
    ) -> Result<Self, ConfigError> {
        let name = t.name.unwrap_or_default();
        let key = |field: &str| format!("peer '{name}': {field}");
        let public_key = keys::key_from_base64(&t.public_key.unwrap_or_default()).ok_or_else(|| {
            value(key("public_key"), "is not a key (44 characters of base64); `wavelane keygen` at the peer prints it")
        })?;
        let listed = |field: &str, texts: Option<Vec<String>>| texts.map(|t| prefixes(&key(field), &t)).transpose();
        let allow_targets = listed("allow_targets", t.allow_targets)?;
        let allow_sources = listed("allow_sources", t.allow_sources)?;
        if let Some(address) = &t.address {
            check_host_and_port(address)
                .and_then(|()| check_reachable(address))
                .map_err(|e| value(key("address"), e))?;
        }
        if !of_lanes.is_empty() && t.address.is_some() {
            return Err(value(key("address"), "stands beside [[peer.lane]]: write it into the lane that leads there"));
        }
        let lane = |(place, (line, table)): (usize, &(usize, LaneTable))| {
            let lane = PeerLane::from_table(table, &lane_key(*line, &name, place), listen, around.medium)?;
            Ok(PeerLane { line: *line, ..lane })
        };
        let lanes = of_lanes.iter().enumerate().map(lane).collect::<Result<Vec<_>, ConfigError>>()?;
        let is_called = t.address.is_some() || lanes.iter().any(|lane| lane.address.is_some());
        let keepalive = t.keepalive.map_or_else(|| is_called.then_some(KEEPALIVE), |OrOff(span)| span);
        let controller = match t.controller.as_deref() {
            None | Some("delay") => Controller::Delay,
            Some("cubic") => Controller::Cubic,
            Some(fixed) => fixed_rate(fixed).map(Controller::Fixed).map_err(|e| value(key("controller"), e))?,
        };
        if let Some(place) =
            lanes.iter().position(|lane| lane.knobs.start_rate.is_some() && controller != Controller::Delay)
        {
            return Err(value(
                format!("{}: start_rate", lane_key(lanes[place].line, &name, place)),
                "is of the controller \"delay\", and this peer has another: remove start_rate, or the peer's `controller`",
            ));
        }
        Ok(Self {
            public_key,
            preshared_key: t.preshared_key.as_ref().map(|p| around.shared_key(&folder.join(p))).transpose()?,
            routes: prefixes(&key("routes"), &t.routes.unwrap_or_default())?,
            next_hops: t
                .next_hops
                .iter()
                .flatten()
                .map(|hop| next_hop(hop, &key("next_hops")))
                .collect::<Result<_, _>>()?,
            allow_targets,
            allow_sources,
            controller,
            keepalive,
            split: t.split.unwrap_or(true),
            address: t.address,
            lanes,
            choice: t.choice.unwrap_or_default(),
            name,
        })
    }
}

fn next_hop(text: &str, key: &str) -> Result<IpAddr, ConfigError> {
    let wrong = || format!("'{text}' is not an address, such as 10.0.0.2 or fe80::2 (without a device)");
    text.parse().map_err(|_| value(key, wrong()))
}

fn fixed_rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("'{text}' is not \"delay\", \"cubic\" or \"fixed 20 Mbit/s\"");
    let rate = text.strip_prefix("fixed ").ok_or_else(wrong)?;
    Rate::parse(rate).ok().filter(|r| r.as_bps() > 0).ok_or_else(wrong)
}
