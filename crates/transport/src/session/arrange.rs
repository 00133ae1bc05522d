//! Adding and removing neighbours while others' sessions continue.

use super::peer::{Peer, Recalled, WayOut};
use super::{PeerKeys, RECALL_CALLS, Sessions, Way};
use std::net::IpAddr;
use wavelane_base::{Address, Instant, PortId};

impl Sessions {
    /// Makes the neighbours those of `wanted`, in that order. Sessions of those that stay continue, and so do their ways, which
    /// [`Sessions::set_way`], [`Sessions::add_way`] and [`Sessions::remove_way`] change. A neighbour that is removed loses its keys but not
    /// its numbers: if it is added again under the same boot epoch, neither side takes the other's datagrams for replays.
    pub fn arrange(&mut self, now: Instant, wanted: Vec<PeerKeys>) {
        let mut before = core::mem::take(&mut self.peers);
        let mut shelf = core::mem::take(&mut self.shelf);
        for keys in wanted {
            let is_it = |p: &Peer| p.keys.public_key == keys.public_key;
            let peer = if let Some(i) = before.iter().position(is_it) {
                let mut peer = before.swap_remove(i);
                peer.keys = keys;
                peer
            } else if let Some(i) = shelf.iter().position(is_it) {
                let mut peer = shelf.swap_remove(i);
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
    /// The configured address of a way to the peer changed (a name was resolved, for example): the peer is called there.
    pub fn rehome(&mut self, now: Instant, peer: usize, way: usize, address: Address) {
        self.peers[peer].ways[way].rehome(Some(address));
        self.advance(now, peer);
    }

    /// A way to the peer changed to another port or another address. Without an address the destination is kept, if the port is the same.
    pub fn set_way(&mut self, now: Instant, peer: usize, way: usize, told: Way) {
        let out = &mut self.peers[peer].ways[way];
        if out.port != Some(told.port) {
            *out = WayOut::new(told);
        }
        out.one_way = told.one_way;
        out.rehome(told.address);
        self.advance(now, peer);
    }

    /// Removes a way to the peer. Its number is not reused.
    pub fn remove_way(&mut self, now: Instant, peer: usize, way: usize) {
        let p = &mut self.peers[peer];
        let out = &mut p.ways[way];
        let port = out.port.take();
        out.home = None;
        out.address = None;
        out.local = None;
        if let Some(initiation) = &mut p.initiation {
            initiation.due.remove(&way);
        }
        // If another way uses the same port, an answer may still be sent on it.
        let still = p.ways.iter().any(|way| way.port == port);
        if let (false, Some(answered), Some(port)) = (still, &mut p.answered, port) {
            answered.due.retain(|(by, _)| *by != port);
        }
        if way == 0 {
            p.recalled = None;
        }
        self.advance(now, peer);
    }

    /// Whether a way to the peer has a configured address.
    pub fn is_configured(&self, peer: usize, way: usize) -> bool {
        self.peers[peer].ways[way].home.is_some()
    }

    /// Forgets which of our addresses the peer reached if it is one of those `gone`. Returns the ways concerned.
    pub fn addresses_gone(&mut self, peer: usize, gone: &[IpAddr]) -> Vec<usize> {
        let left = |way: &WayOut| way.local.is_some_and(|local| gone.contains(&local.to_canonical()));
        let ways = &mut self.peers[peer].ways;
        let gone: Vec<usize> = (0..ways.len()).filter(|i| left(&ways[*i])).collect();
        gone.iter().for_each(|way| ways[*way].local = None);
        gone
    }

    /// Our owner remembers from before our start where the peer was, and from which of our addresses it was reached. A peer of which
    /// nothing newer is known is called there, at most [`RECALL_CALLS`] times.
    pub fn recall(&mut self, now: Instant, peer: usize, address: Address, local: Option<IpAddr>) {
        let p = &mut self.peers[peer];
        if !p.has_address()
            && p.epoch.is_none()
            && let Some(way) = p.ways.first_mut()
        {
            way.local = local;
            p.recalled = Some(Recalled { address, calls: RECALL_CALLS });
            self.advance(now, peer);
        }
    }
}

impl WayOut {
    fn rehome(&mut self, home: Option<Address>) {
        if self.home != home {
            self.home = home;
            self.address = home.or(self.address);
        }
    }
}

impl Peer {
    /// Whether a handshake message waits for room on a port.
    pub(super) fn has_message(&self) -> bool {
        let calls = self.initiation.as_ref().is_some_and(|i| !i.due.is_empty());
        calls || self.answered.as_ref().is_some_and(|a| !a.due.is_empty())
    }
    /// Whether one waits for room on this port.
    pub(super) fn has_message_for(&self, port: PortId) -> bool {
        let by_port = |way: &usize| self.ways.get(*way).is_some_and(|way| way.port == Some(port));
        let calls = self.initiation.as_ref().is_some_and(|i| i.due.iter().any(by_port));
        calls || self.answered.as_ref().is_some_and(|a| a.due.iter().any(|(via, _)| *via == port))
    }
    /// Drops everything needed to open, seal or call.
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
