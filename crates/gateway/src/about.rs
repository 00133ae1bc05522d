//! A flow that ends in the neighbour's gateway itself and not at a server: what two gateways tell each other about their configurations.
//!
//! It is an ordinary flow between two addresses that nobody has, so an older gateway refuses it as any target that may not be reached.
//! Neither may an application ask for it: its own address would be the flow's source.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The flow's source and target, from the block that is discarded wherever it is routed (RFC 6666).
pub(super) const ENDS: [SocketAddr; 2] = [end(1), end(2)];

const fn end(last: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, last)), 4780)
}

/// Whether a flow with these ends is for the gateway itself.
pub fn is_about(source: SocketAddr, target: SocketAddr) -> bool {
    ENDS == [source, target]
}
