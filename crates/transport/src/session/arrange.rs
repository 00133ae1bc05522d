//! Neighbours come and go while others' sessions stand.

use super::peer::{Peer, Recalled};
use super::{PeerKeys, RECALL_CALLS, Sessions};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::Instant;

impl Sessions {
    /// Makes the neighbours those of `wanted`, in that order. Sessions of those that stay go on. A neighbour that goes
    /// loses its keys but not its numbers: should it come back under the same boot epoch, neither side takes the
    /// other's datagrams for repetitions.
    pub fn arrange(&mut self, now: Instant, wanted: Vec<PeerKeys>) {
        let mut before = core::mem::take(&mut self.peers);
        let mut shelf = core::mem::take(&mut self.shelf);
        for keys in wanted {
            let is_it = |p: &Peer| p.keys.public_key == keys.public_key;
            let peer = if let Some(i) = before.iter().position(is_it) {
                let mut peer = before.swap_remove(i);
                peer.rehome(&keys);
                peer
            } else if let Some(i) = shelf.iter().position(is_it) {
                let mut peer = shelf.swap_remove(i);
                peer.rehome(&keys);
                peer.keys = keys;
                peer
            } else {
                Peer::new(keys)
            };
            self.peers.push(peer);
        }
        shelf.extend(before.into_iter().map(|mut peer| {
            peer.shelve();
            peer
        }));
        self.shelf = shelf;
        self.due = (0..self.peers.len()).filter(|i| self.peers[*i].has_message()).collect();
        self.handle_timeout(now);
    }
}

impl Sessions {
    /// The peer's configured address is another now (a name that was looked up, say): it is called there.
    pub fn rehome(&mut self, now: Instant, peer: usize, address: SocketAddr) {
        let p = &mut self.peers[peer];
        let keys = PeerKeys { address: Some(address), ..p.keys.clone() };
        p.rehome(&keys);
        self.advance(now, peer);
    }

    /// Our owner remembers from before our start where the peer was, and from which of our addresses it was reached. A
    /// peer of which nothing newer is known is called there, at most [`RECALL_CALLS`] times.
    pub fn recall(&mut self, now: Instant, peer: usize, address: SocketAddr, local: Option<IpAddr>) {
        let p = &mut self.peers[peer];
        if p.keys.address.is_none() && p.epoch.is_none() {
            p.recalled = Some(Recalled { address, calls: RECALL_CALLS });
            p.local = local;
            self.advance(now, peer);
        }
    }
}

impl Peer {
    /// The configuration's word on where it is: if that changed, it counts.
    fn rehome(&mut self, keys: &PeerKeys) {
        if self.home != (keys.address, keys.port) {
            self.home = (keys.address, keys.port);
            if keys.address.is_some() {
                (self.keys.address, self.keys.port) = self.home;
            }
        }
    }
    /// Whether a handshake message waits for room on the port.
    fn has_message(&self) -> bool {
        self.initiation.as_ref().is_some_and(|i| i.due) || self.answered.as_ref().is_some_and(|a| a.due.is_some())
    }
    /// Drops everything that opens, seals or calls.
    fn shelve(&mut self) {
        self.wanted = false;
        self.suspected = None;
        self.recalled = None;
        self.initiation = None;
        self.tries = 0;
        self.answered = None;
        self.current = None;
        self.old.clear();
        self.unanswered_since = None;
    }
}
