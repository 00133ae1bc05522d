//! What the gateway reports: of flows to the doors, of peers to the log.

use super::Daemon;
use crate::keys;
use wavelane_protocol::gateway::{Event, PeerId};

/// What is known of a peer besides what the gateway knows.
#[derive(Clone, Copy, Default)]
pub(super) struct Acquaintance {
    pub(super) met: bool,
    pub(super) complained: bool,
}

impl Daemon {
    pub(super) fn handle_event(&mut self, event: Event) {
        match event {
            Event::PeerUp(peer) => {
                if let Some(p) = self.peers.get_mut(peer.0) {
                    *p = Acquaintance { met: true, complained: false };
                }
                self.say(&format!("peer '{}' is up", self.peer_name(peer).to_owned()));
            }
            Event::PeerSilent(peer) => {
                if self.peers.get_mut(peer.0).is_some_and(|p| !std::mem::replace(&mut p.complained, true)) {
                    self.complain(peer.0);
                }
            }
            Event::PeerRestarted(peer) => {
                self.say(&format!(
                    "peer '{}' has restarted; its connections were reset",
                    self.peer_name(peer).to_owned()
                ));
            }
            Event::Incoming { flow, peer, source, target } => self.incoming(flow, peer, source, target),
            Event::Accepted(flow) => self.accepted(flow),
            Event::Refused(flow, why) | Event::Reset(flow, why) => self.flow_gone(flow, why),
            Event::Readable(flow) | Event::Writable(flow) => self.enqueue_flow(flow),
            Event::Closed(flow) => {
                if let Some(c) = self.of_flow.get(&flow).and_then(|t| self.connections.get_mut(t)) {
                    c.flow_closed = true;
                }
                self.enqueue_flow(flow);
            }
            Event::Notice(text) => self.say(&text),
            Event::UnknownCaller { public_key, from } => {
                let from = from.map_or("an unknown address".into(), |a| a.to_string());
                let key = keys::to_base64(&public_key);
                self.say(&format!(
                    "{from} calls with the key {key}, which no [[peer]] has: add it there, or correct its key"
                ));
            }
        }
    }

    pub(super) fn peer_name(&self, peer: PeerId) -> &str {
        self.config.peers.get(peer.0).map_or("?", |p| &p.name)
    }
    pub(super) fn complain(&mut self, peer: usize) {
        let Some(p) = self.config.peers.get(peer) else { return };
        let address = p.address.as_deref().unwrap_or("an unknown address");
        let text = format!(
            "peer '{}' at {address} does not answer: it is unreachable (check address, port, firewall), or its key and ours do not match (compare the public keys that `wavelane check` prints on both sides)",
            p.name
        );
        self.say(&text);
    }
}
