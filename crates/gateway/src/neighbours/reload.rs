//! A new configuration for a running gateway: possible changes are applied without loss; a configuration with any other change is
//! rejected as a whole.

use super::setup::{hop_config, new_link, peer_keys, statics};
use super::{Link, Neighbours, PeerState, lose_blocks};
use crate::{Config, ConfigError, GatewayEvent, PeerConfig, PeerId};
use wavelane_base::Instant;

/// Most removed neighbours whose link state is kept in case they come back.
pub const RETIRED_MAX: usize = 256;

/// Why a configuration cannot be applied without a restart.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReloadError {
    /// It is invalid even after a restart.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It changes something that a running gateway keeps.
    #[error("{0} cannot change while the gateway runs: restart it, or put the old value back")]
    Fixed(String),
    /// Too many neighbours were removed since the start.
    #[error("{RETIRED_MAX} peers were removed since the start, and each is remembered: restart the gateway")]
    Retired,
}

impl Neighbours {
    /// Whether a running gateway may take `config`.
    pub(crate) fn check_reload(&self, config: &Config) -> Result<(), ReloadError> {
        config.check()?;
        let fixed = |what: &str| Err(ReloadError::Fixed(what.into()));
        let old = &self.config;
        if (config.private_key, config.aes_hardware) != (old.private_key, old.aes_hardware) {
            return fixed("the private key");
        }
        if config.overhear != old.overhear {
            return fixed("whether it overhears");
        }
        if config.compress_headers != old.compress_headers {
            return fixed("whether it compresses headers");
        }
        if config.mtu_max != old.mtu_max {
            return fixed("mtu_max");
        }
        if config.packets != old.packets {
            return fixed("the packet service");
        }
        for peer in &config.peers {
            let Some(place) = self.peer_with(&peer.public_key) else { continue };
            let before = &old.peers[place];
            let controllers = |peer: &PeerConfig| peer.lanes.iter().map(|l| l.controller).collect::<Vec<_>>();
            let both = controllers(before).into_iter().zip(controllers(peer));
            if both.into_iter().any(|(old, new)| old != new) {
                return fixed(&format!("the controller of peer '{}'", peer.name));
            }
            if self.changes_controller(place, &peer.lanes) {
                return fixed(&format!("`radio` or `rate` of a lane of peer '{}'", peer.name));
            }
            if peer.preshared_key != before.preshared_key {
                return fixed(&format!("the preshared key of peer '{}'", peer.name));
            }
        }
        let stays = |key: &[u8; 32]| config.peers.iter().any(|p| p.public_key == *key);
        let going = old.peers.iter().filter(|p| !stays(&p.public_key)).count();
        let returning = self.retired.iter().filter(|(key, _)| stays(key)).count();
        if self.retired.len() + going - returning > RETIRED_MAX {
            return Err(ReloadError::Retired);
        }
        Ok(())
    }

    /// The place that each neighbour of a new configuration has now, if it has one.
    pub(crate) fn places(&self, config: &Config) -> Vec<Option<usize>> {
        config.peers.iter().map(|p| self.peer_with(&p.public_key)).collect()
    }

    /// Applies a checked configuration. `places` are as [`Neighbours::places`] found them.
    pub(crate) fn rearrange(&mut self, now: Instant, config: Config, places: &[Option<usize>]) {
        let lanes: Vec<_> = places.iter().map(|place| place.map(|i| self.configured_lanes(i))).collect();
        let new_id = |old: PeerId| places.iter().position(|p| *p == Some(old.0)).map(PeerId);
        // Every link is settled afterwards.
        self.dirty.clear();
        let pending = core::mem::take(&mut self.events);
        self.events = pending.into_iter().filter_map(|event| renamed(event, new_id)).collect();
        self.sessions.arrange(now, config.peers.iter().map(peer_keys).collect());
        let mut links: Vec<Option<Link>> = core::mem::take(&mut self.links).into_iter().map(Some).collect();
        let mut states: Vec<_> = core::mem::take(&mut self.states).into_iter().map(Some).collect();
        for (peer, place) in config.peers.iter().zip(places) {
            let kept = place.and_then(|i| links[i].take());
            let mut link = kept.or_else(|| self.retired.remove(&peer.public_key)).unwrap_or_else(|| {
                let mut link = new_link(now, &config, peer, self.packets, self.dice.split());
                lose_blocks(&mut link, self.block_loss, &peer.name);
                link
            });
            link.service.blocks.set_limits(hop_config(&config, peer));
            link.set_keepalive(peer.keepalive);
            let lanes = link.lanes();
            self.links.push(link);
            self.states.push(place.and_then(|i| states[i].take()).unwrap_or_else(|| PeerState::new(lanes)));
        }
        for (i, link) in links.into_iter().enumerate() {
            self.retired.extend(link.map(|link| (self.config.peers[i].public_key, link)));
        }
        self.cursor = 0;
        self.config = config;
        self.statics = statics(&self.config);
        for (peer, before) in lanes.into_iter().enumerate() {
            // For a new or returning peer, only the number of its lanes is known.
            let had = self.links[peer].lanes();
            let before = before.unwrap_or_else(|| (0..had).map(|number| (number, None)).collect());
            self.set_lanes(now, PeerId(peer), &before);
        }
    }

    fn peer_with(&self, public_key: &[u8; 32]) -> Option<usize> {
        self.config.peers.iter().position(|p| p.public_key == *public_key)
    }

    /// A neighbour is removed, and its flows were ended.
    pub(crate) fn dismiss(&mut self, peer: PeerId) {
        // Its remaining events concern those flows.
        while self.blocks(peer).poll_event().is_some() {}
        let lost = *self.lost_flows(peer);
        self.states[peer.0] = PeerState { lost, ..PeerState::new(self.links[peer.0].lanes()) };
    }
}

/// The event with the neighbour's new number; `None` if it is about a removed one.
fn renamed(event: GatewayEvent, new_id: impl Fn(PeerId) -> Option<PeerId>) -> Option<GatewayEvent> {
    Some(match event {
        GatewayEvent::PeerUp(peer) => GatewayEvent::PeerUp(new_id(peer)?),
        GatewayEvent::PeerSilent(peer) => GatewayEvent::PeerSilent(new_id(peer)?),
        GatewayEvent::PathMtu { peer, place, text } => GatewayEvent::PathMtu { peer: new_id(peer)?, place, text },
        GatewayEvent::PeerDown(peer) => GatewayEvent::PeerDown(new_id(peer)?),
        GatewayEvent::PeerRestarted(peer) => GatewayEvent::PeerRestarted(new_id(peer)?),
        GatewayEvent::Unanswered { peer, address } => GatewayEvent::Unanswered { peer: new_id(peer)?, address },
        GatewayEvent::OwnKeyUnknown(peer) => GatewayEvent::OwnKeyUnknown(new_id(peer)?),
        GatewayEvent::Unreadable(peer) => GatewayEvent::Unreadable(new_id(peer)?),
        GatewayEvent::Incoming { flow, peer, source, target } => {
            GatewayEvent::Incoming { flow, peer: new_id(peer)?, source, target }
        }
        GatewayEvent::Denied { peer, address, by_source } => {
            GatewayEvent::Denied { peer: new_id(peer)?, address, by_source }
        }
        other => other,
    })
}
