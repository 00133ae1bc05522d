//! What the gateway reports: of flows to the doors, of peers to the log.

use super::Daemon;
use super::changes::Changes;
use crate::config::lane_name;
use crate::diagnosis::Cause;
use wavelane_gateway::{Event, PeerId, is_about};

impl Daemon {
    pub(super) fn handle_event(&mut self, event: Event) {
        match event {
            Event::Incoming { flow, peer, source, target } if is_about(source, target) => self.tell_about(flow, peer),
            Event::Accepted(flow) if self.talks.has(flow) => self.talk_accepted(flow),
            Event::Readable(flow) | Event::Writable(flow) if self.talks.has(flow) => self.go_on_talking(flow),
            Event::Refused(flow, why) | Event::Reset(flow, why) if self.talks.has(flow) => {
                self.end_talk(flow, Some(why));
            }
            Event::Ending(flow) | Event::Closed(flow) if self.talks.has(flow) => self.end_talk(flow, None),
            Event::PeerUp(peer) => self.peer_up(peer),
            Event::PeerSilent(peer) => self.peer_silent(peer),
            Event::PathMtu { peer, place, text } => {
                let lane = place.and_then(|out| self.out_lane(peer.0, out)).map(|(place, _)| place);
                let lane = lane.map(|place| format!(", {}", lane_name(place))).unwrap_or_default();
                self.say_of(peer, &format!("{lane}: {text}"));
            }
            Event::PeerDown(peer) => self.peer_down(peer),
            Event::Unanswered { peer, .. } => self.doubt(peer.0),
            Event::OwnKeyUnknown(peer) => self.tell(peer.0, Cause::KeyThere),
            Event::Unreadable(peer) => self.tell(peer.0, Cause::Preshared),
            Event::PeerRestarted(peer) => self.say_of(peer, " has restarted; its connections were reset"),
            Event::Incoming { flow, peer, source, target } => self.incoming(flow, peer, source, target),
            Event::Denied { peer, address, by_source } => self.denied(peer, address, by_source),
            Event::Accepted(flow) => self.door.accepted(self.now, flow),
            Event::Refused(flow, why) | Event::Reset(flow, why) => self.flow_gone(flow, why),
            Event::Ending(flow) => self.door.flow_ending(self.now, flow),
            Event::Readable(flow) | Event::Writable(flow) => self.door.flow_ready(flow),
            Event::Closed(flow) => self.door.flow_closed(flow),
            Event::Echo { lane, id, round_trip, .. } => self.echo_ended(lane, id, round_trip),
            Event::Notice { peer, text } => self.notice(peer, &text),
            Event::UnknownCaller { public_key, from } => self.unknown_caller(public_key, from),
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
            self.say(&format!("{text}{}", Changes::unsaid(unsaid)));
        }
    }

    pub(super) fn peer_name(&self, peer: PeerId) -> &str {
        self.config.peers.get(peer.0).map_or("?", |p| &p.name)
    }
}
