//! Gateway settings that differ from their defaults.

use crate::model::TcpKind;
use wavelane_settings::{Freeze, GatewayKnobs, Seal, TcpKnobs};

/// What a scenario says of one gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewaySettings {
    /// The gateway's name.
    pub node: String,
    /// Its own settings.
    pub knobs: GatewayKnobs,
    /// As a proxy: what connections on one side of it do differently.
    pub sides: Vec<ProxySide>,
}

impl GatewaySettings {
    /// Whether it seals flows across relays.
    pub fn seals(&self) -> bool {
        self.knobs.seal == Some(Seal::EndToEnd)
    }
}

/// The halves of a proxy's connections towards some nodes, whoever opened them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxySide {
    /// The nodes at their remote end.
    pub nodes: Vec<String>,
    /// Congestion control; `None` means the stack's.
    pub congestion: Option<TcpKind>,
    /// What a sender there is told ahead of outages of the proxy's own channels, and after them.
    pub freeze: Option<Freeze>,
    /// The proxy's TCP there; `None` means that of the endpoints.
    pub tcp: Option<TcpKnobs>,
}
