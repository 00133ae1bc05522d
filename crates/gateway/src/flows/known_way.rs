//! The way that a flow takes from this edge, as far as it is known here, for the operator.
//!
//! An edge knows its neighbour. The answering edge is told how many relays the request crossed, and of a sealed flow by whom it was
//! made; the opening edge knows of a sealed flow for whom it is sealed, and no more: relays do not name themselves.

use super::Flows;
use super::edge::{Edge, Role};
use crate::{Config, PeerId};
use core::fmt;
use wavelane_base::FlowId;

/// A flow's way as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KnownWay {
    /// The neighbour by which it begins.
    pub first: String,
    /// Relays that it crosses, by their own count, the neighbour included; `None` if that is not known here.
    pub relays: Option<u8>,
    /// The gateway at the other edge, if its key is known here.
    pub far: Option<String>,
}

impl fmt::Display for KnownWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first)?;
        match self.relays {
            Some(0) => return Ok(()),
            Some(1) => {}
            Some(2) => f.write_str(", one more relay")?,
            Some(relays) => write!(f, ", {} more relays", relays - 1)?,
            None => f.write_str(", perhaps more relays")?,
        }
        write!(f, ", {}", self.far.as_deref().unwrap_or("a gateway not known here"))
    }
}

impl Flows {
    /// The way of a flow.
    pub(crate) fn known_way(&self, config: &Config, flow: FlowId) -> Option<KnownWay> {
        let edge = self.table.look(flow)?.edge.as_deref();
        let carrier = self.table.find(flow).map(|(peer, _)| peer).or_else(|| self.table.loser(flow));
        let peer = carrier.or_else(|| edge.and_then(Edge::opener_peer))?;
        Some(way_over(config, peer, edge))
    }
}

fn way_over(config: &Config, peer: PeerId, edge: Option<&Edge>) -> KnownWay {
    let neighbour = &config.peers[peer.0];
    let first = neighbour.name.clone();
    let (relays, far) = match edge {
        None => (Some(0), None),
        Some(edge) => match edge.role {
            Role::Opener { target, .. } => {
                (edge.direct.then_some(0), config.egress_key(target.ip()).filter(|_| edge.is_sealed()))
            }
            Role::Answerer => (edge.relays, edge.caller()),
        },
    };
    if relays == Some(0) || far == Some(neighbour.public_key) {
        return KnownWay { far: Some(first.clone()), first, relays: Some(0) };
    }
    KnownWay { first, relays, far: far.and_then(|key| name_of(config, &key)) }
}

/// The configured name of a gateway.
fn name_of(config: &Config, key: &[u8; 32]) -> Option<String> {
    let edges = config.edges.iter().map(|edge| (&edge.public_key, &edge.name));
    let peers = config.peers.iter().map(|peer| (&peer.public_key, &peer.name));
    edges.chain(peers).find(|(of, _)| *of == key).map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_way_is_said() {
        let said =
            |relays, far: Option<&str>| KnownWay { first: "hill".into(), relays, far: far.map(Into::into) }.to_string();
        assert_eq!(said(Some(0), Some("hill")), "hill");
        assert_eq!(said(Some(1), Some("town")), "hill, town");
        assert_eq!(said(Some(2), Some("town")), "hill, one more relay, town");
        assert_eq!(said(Some(4), None), "hill, 3 more relays, a gateway not known here");
        assert_eq!(said(None, Some("town")), "hill, perhaps more relays, town");
    }
}
