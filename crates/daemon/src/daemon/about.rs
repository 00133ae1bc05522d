//! Asking a neighbour about its configuration, and telling it ours: a flow that ends in the gateway, see `wavelane_gateway::is_about`.

use super::Daemon;
use crate::about::{ABOUT_MAX, About, SeenLane};
use crate::control::ClientId;
use crate::request::Answer;
use std::collections::BTreeMap;
use wavelane_base::{FlowId, Instant, ReadOutcome, Span, Streams};
use wavelane_gateway::{PeerId, Reason};
use wavelane_host::clock::wall_nanos;

/// A neighbour that has not told everything after this time is given up.
const PATIENCE: Span = Span::from_secs(15);
/// Most neighbours that are told, or asked, at once.
const TALKS_MAX: usize = 16;
/// Most of these that one peer may have: it cannot keep the others from being told.
const TOLD_EACH_MAX: usize = 4;

/// The flows of this kind.
#[derive(Debug, Default)]
pub(super) struct Talks {
    told: BTreeMap<FlowId, Telling>,
    asked: BTreeMap<FlowId, Asking>,
}

/// A neighbour that is told: what is left to say.
#[derive(Debug)]
struct Telling {
    peer: PeerId,
    left: Vec<u8>,
    until: Instant,
}

/// A neighbour that is asked: for whom, and what it has said.
#[derive(Debug)]
struct Asking {
    client: ClientId,
    peer: String,
    heard: Vec<u8>,
    until: Instant,
}

impl Talks {
    pub(super) fn has(&self, flow: FlowId) -> bool {
        self.told.contains_key(&flow) || self.asked.contains_key(&flow)
    }
    /// When the first is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.told.values().map(|telling| telling.until).chain(self.asked.values().map(|asking| asking.until)).min()
    }
}

impl Daemon {
    /// A client wants to know about a peer.
    pub(super) fn ask_about(&mut self, client: ClientId, name: &str) -> Result<(), String> {
        let peer = self.peer_called(name)?;
        if self.talks.asked.len() >= TALKS_MAX {
            return Err(format!("{TALKS_MAX} peers are asked already: wait for their answers"));
        }
        if self.peers.get(peer).is_some_and(|contact| !contact.up) {
            return Err(format!("peer '{name}' does not answer: see `wavelane netcheck`"));
        }
        let flow = self.gateway.ask_about(self.now, PeerId(peer)).map_err(|why| why.to_string())?;
        let until = self.now + PATIENCE;
        self.talks.asked.insert(flow, Asking { client, peer: name.into(), heard: Vec::new(), until });
        Ok(())
    }

    /// A neighbour wants to know about us.
    pub(super) fn tell_about(&mut self, flow: FlowId, peer: PeerId) {
        let own = self.talks.told.values().filter(|telling| telling.peer == peer).count();
        let room = own < TOLD_EACH_MAX && self.talks.told.len() < TALKS_MAX;
        let Some(towards) = self.config.peers.get(peer.0).filter(|_| room) else {
            return self.gateway.refuse(self.now, flow, Reason::NoRoom);
        };
        let mut about = About::of(&self.config, towards, wall_nanos());
        let seen = self.gateway.seen(self.now, peer).into_iter();
        about.seen = seen
            .map(|(lane, address, before)| SeenLane {
                lane,
                address: address.to_string(),
                before: before.iter().map(ToString::to_string).collect(),
            })
            .collect();
        let left = serde_json::to_vec(&about).unwrap_or_default();
        self.gateway.accept(self.now, flow);
        self.talks.told.insert(flow, Telling { peer, left, until: self.now + PATIENCE });
        self.go_on_talking(flow);
    }

    /// Something may move on such a flow.
    pub(super) fn go_on_talking(&mut self, flow: FlowId) {
        if let Some(telling) = self.talks.told.get_mut(&flow) {
            let taken = self.gateway.write(self.now, flow, &telling.left);
            telling.left.drain(..taken);
            if taken > 0 && telling.left.is_empty() {
                self.gateway.shutdown(self.now, flow);
            }
            // The other has nothing to say, and ends its direction.
            while let ReadOutcome::Data(_) = self.gateway.read(self.now, flow, &mut [0; 64]) {}
        }
        let mut part = [0; 4_096];
        while let Some(asking) = self.talks.asked.get_mut(&flow) {
            match self.gateway.read(self.now, flow, &mut part) {
                ReadOutcome::Data(n) if asking.heard.len() + n <= ABOUT_MAX => {
                    asking.heard.extend_from_slice(&part[..n])
                }
                ReadOutcome::Blocked => return,
                ReadOutcome::Data(_) | ReadOutcome::End | ReadOutcome::Reset => self.end_talk(flow, None),
            }
        }
    }

    /// The neighbour takes the question.
    pub(super) fn talk_accepted(&mut self, flow: FlowId) {
        self.gateway.shutdown(self.now, flow);
        self.go_on_talking(flow);
    }

    /// Such a flow is over.
    pub(super) fn end_talk(&mut self, flow: FlowId, why: Option<Reason>) {
        if self.talks.told.remove(&flow).is_some() {
            return;
        }
        let Some(Asking { client, peer, heard, .. }) = self.talks.asked.remove(&flow) else { return };
        let answer = match About::read(&heard) {
            Some(about) => Answer::About(Box::new(about)),
            None => Answer::Refused(match why {
                Some(Reason::NoRoom) => format!("peer '{peer}' answers others now: ask again in a few seconds"),
                // As any target that may not be reached.
                Some(Reason::Prohibited) => {
                    format!("peer '{peer}' does not tell what it is configured for: it is older than this wavelaned")
                }
                _ => format!("peer '{peer}' was lost before it had told everything: see `wavelane netcheck`"),
            }),
        };
        self.control.tell(self.now, client, &answer.line());
    }

    /// Neighbours that do not go on.
    pub(super) fn give_up_talks(&mut self) {
        let late = |until: &Instant| *until <= self.now;
        let told = self.talks.told.iter().filter(|(_, telling)| late(&telling.until)).map(|(flow, _)| *flow);
        let asked = self.talks.asked.iter().filter(|(_, asking)| late(&asking.until)).map(|(flow, _)| *flow);
        for flow in told.chain(asked).collect::<Vec<_>>() {
            self.gateway.reset(self.now, flow);
            self.end_talk(flow, None);
        }
    }
}
