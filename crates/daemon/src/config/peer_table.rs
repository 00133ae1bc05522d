//! A peer's table, and how it becomes a [`Peer`].

use super::addresses::{check_host_and_port, check_reachable, prefixes};
use super::tables::{LaneTable, PeerTable};
use super::{ConfigError, KEEPALIVE, Peer, PeerLane, Surroundings, lane_key, value};
use crate::keys;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use toml::Spanned;
use wavelane_base::{Quantity, Rate};
use wavelane_gateway::Controller;
use wavelane_settings::{LaneKnobs, OrOff, PeerKnobs, line_of};

impl Peer {
    /// `text` is the file's, for the lines of the lanes.
    pub(super) fn from_table(
        t: PeerTable,
        (knobs, of_lanes): (PeerKnobs, Vec<LaneKnobs>),
        (folder, around): (&Path, &Surroundings),
        listen: SocketAddr,
        text: &str,
    ) -> Result<Self, ConfigError> {
        let key = |field: &str| format!("peer '{}': {field}", t.name);
        let public_key = keys::key_from_base64(&t.public_key).ok_or_else(|| {
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
        if !t.lane.is_empty() && t.address.is_some() {
            return Err(value(key("address"), "stands beside [[peer.lane]]: write it into the lane that leads there"));
        }
        let lane = |(place, (table, knobs)): (usize, (&Spanned<LaneTable>, LaneKnobs))| {
            let line = line_of(text, table.span().start);
            let key = lane_key(line, &t.name, place);
            PeerLane::from_table(table.get_ref(), knobs, &key, listen, around.medium)
                .map(|lane| PeerLane { line, ..lane })
        };
        let lanes = t.lane.iter().zip(of_lanes).enumerate().map(lane).collect::<Result<Vec<_>, _>>()?;
        let is_called = t.address.is_some() || lanes.iter().any(|lane| lane.address.is_some());
        let keepalive = knobs.keepalive.map_or_else(|| is_called.then_some(KEEPALIVE), |OrOff(span)| span);
        let controller = match t.controller.as_deref() {
            None | Some("delay") => Controller::Delay,
            Some("cubic") => Controller::Cubic,
            Some(fixed) => fixed_rate(fixed).map(Controller::Fixed).map_err(|e| value(key("controller"), e))?,
        };
        if let Some(place) =
            lanes.iter().position(|lane| lane.knobs.start_rate.is_some() && controller != Controller::Delay)
        {
            return Err(value(
                format!("{}: start_rate", lane_key(lanes[place].line, &t.name, place)),
                "is of the controller \"delay\", and this peer has another: remove start_rate, or the peer's `controller`",
            ));
        }
        Ok(Self {
            public_key,
            preshared_key: t.preshared_key.as_ref().map(|p| around.shared_key(&folder.join(p))).transpose()?,
            routes: prefixes(&key("routes"), &t.routes)?,
            next_hops: t.next_hops.iter().map(|hop| next_hop(hop, &key("next_hops"))).collect::<Result<_, _>>()?,
            allow_targets,
            allow_sources,
            controller,
            keepalive,
            split: knobs.split.unwrap_or(true),
            address: t.address,
            lanes,
            choice: knobs.choice.unwrap_or_default(),
            name: t.name,
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
