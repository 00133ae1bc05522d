//! A flow that ends in the neighbour's gateway itself and not at a server: what two gateways tell each other about their configurations.
//!
//! It is an ordinary flow between two addresses that nobody has, so an older gateway refuses it as any target that may not be reached.
//! Neither may an application ask for it: its own address would be the flow's source.

use super::{Gateway, OpenError, PeerId};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use wavelane_base::{FlowId, Instant};
use wavelane_services::hop::HopOpenError;

/// The flow's source and target, from the block that is discarded wherever it is routed (RFC 6666).
pub(super) const ENDS: [SocketAddr; 2] = [end(1), end(2)];

const fn end(last: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, last)), 4780)
}

/// Whether a flow with these ends is for the gateway itself.
pub fn is_about(source: SocketAddr, target: SocketAddr) -> bool {
    ENDS == [source, target]
}

impl Gateway {
    /// Asks a neighbour what it has to say about itself. [`super::Event::Accepted`] or [`super::Event::Refused`] follows.
    pub fn ask_about(&mut self, now: Instant, peer: PeerId) -> Result<FlowId, OpenError> {
        if peer.0 >= self.links.len() {
            return Err(OpenError::UnknownPeer);
        }
        self.lend(peer);
        let [source, target] = ENDS;
        let name = self.blocks(peer).open(now, source, target, None);
        let name = name.map_err(|HopOpenError::TableFull(most)| OpenError::TableFull(most))?;
        let id = self.flows.insert(peer, name, None);
        self.settle(now, peer);
        Ok(id)
    }
}
