//! What the gateway reports: of flows to the doors, of peers to the log.

use super::Daemon;
use crate::changes::Changes;
use crate::config::lane_name;
use crate::diagnosis::Cause;
use wavelane_gateway::{GatewayEvent, PeerId, is_about};

impl Daemon {
    pub(super) fn handle_event(&mut self, event: GatewayEvent) {
        match event {
            GatewayEvent::Incoming { flow, peer, source, target } if is_about(source, target) => {
                self.tell_about(flow, peer)
            }
            GatewayEvent::Accepted(flow) if self.talks.has(flow) => self.talk_accepted(flow),
            GatewayEvent::Readable(flow) | GatewayEvent::Writable(flow) if self.talks.has(flow) => {
                self.go_on_talking(flow)
            }
            GatewayEvent::Refused(flow, why) | GatewayEvent::Reset(flow, why) if self.talks.has(flow) => {
                self.end_talk(flow, Some(why));
            }
            GatewayEvent::Ending(flow) | GatewayEvent::Closed(flow) if self.talks.has(flow) => {
                self.end_talk(flow, None)
            }
            GatewayEvent::PeerUp(peer) => self.peer_up(peer),
            GatewayEvent::PeerSilent(peer) => self.peer_silent(peer),
            GatewayEvent::PathMtu { peer, place, text } => {
                let lane = place.and_then(|out| self.out_lane(peer.0, out)).map(|(place, _)| place);
                let lane = lane.map(|place| format!(", {}", lane_name(place))).unwrap_or_default();
                self.say_of(peer, &format!("{lane}: {text}"));
            }
            GatewayEvent::PeerDown(peer) => self.peer_down(peer),
            GatewayEvent::Unanswered { peer, .. } => self.doubt(peer.0),
            GatewayEvent::OwnKeyUnknown(peer) => self.tell(peer.0, Cause::KeyThere),
            GatewayEvent::Unreadable(peer) => self.tell(peer.0, Cause::Preshared),
            GatewayEvent::PeerRestarted(peer) => self.say_of(peer, " has restarted; its connections were reset"),
            GatewayEvent::Incoming { flow, peer, source, target } => self.incoming(flow, peer, source, target),
            GatewayEvent::Denied { peer, address, by_source } => self.denied(peer, address, by_source),
            GatewayEvent::Accepted(flow) => self.door.accepted(self.now, flow),
            GatewayEvent::Refused(flow, why) | GatewayEvent::Reset(flow, why) => self.flow_gone(flow, why),
            GatewayEvent::Ending(flow) => self.door.flow_ending(self.now, flow),
            GatewayEvent::Readable(flow) | GatewayEvent::Writable(flow) => self.door.flow_ready(flow),
            GatewayEvent::Closed(flow) => self.door.flow_closed(flow),
            GatewayEvent::Echo { lane, id, round_trip, .. } => self.echo_ended(lane, id, round_trip),
            GatewayEvent::Notice { peer, text } => self.notice(peer, &text),
            GatewayEvent::UnknownCaller { public_key, from } => self.unknown_caller(public_key, from),
        }
    }

    /// Logs what a peer can cause as often as it likes: of each peer some lines, so that none fills the log for the others.
    fn say_of(&mut self, peer: PeerId, text: &str) {
        let now = self.now;
        let Some(unsaid) = self.peers.get_mut(peer.0).and_then(|contact| contact.may_tell(now)) else { return };
        let name = self.peer_name(peer).to_owned();
        self.say(&format!("peer '{name}'{text}{}", Changes::unsaid(unsaid)));
    }

    /// Logs a whole line: of each peer that can cause it some, and some of all others together.
    fn notice(&mut self, peer: Option<PeerId>, text: &str) {
        let now = self.now;
        let unsaid = match peer.and_then(|peer| self.peers.get_mut(peer.0)) {
            Some(contact) => contact.may_tell(now),
            None => self.notices_told.take(now),
        };
        if let Some(unsaid) = unsaid {
            self.warn(&format!("{text}{}", Changes::unsaid(unsaid)));
        }
    }

    pub(super) fn peer_name(&self, peer: PeerId) -> &str {
        self.config.peers.get(peer.0).map_or("?", |p| &p.name)
    }
}
