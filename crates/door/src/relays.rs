//! The connections of a proxy in one box whose both halves are open: which are to be served, what they hold together, and which
//! deliver their last bytes.

use crate::last_bytes::LastBytes;
use crate::pair::PairConfig;
use crate::relay::{COPY, Edges, Next, Pipes, Relay};
use crate::socket::Socket;
use crate::splice::Moved;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::Instant;

/// One connection, and what its owner keeps with it.
struct Entry<S, P, T> {
    relay: Relay<S, P>,
    own: T,
    /// It is in the queue of those to serve.
    queued: bool,
}

/// What they did so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Bytes of all sockets.
    pub moved: Moved,
    /// Connections that ended in order.
    pub closed: u64,
    /// Connections that were reset.
    pub reset: u64,
}

/// See the module's description.
pub struct Relays<S, I: Pipes<S>, T> {
    /// It only grows.
    pub tally: Tally,
    pipes: I,
    config: PairConfig,
    all: BTreeMap<u64, Entry<S, I::Pipe, T>>,
    /// Each once.
    to_serve: VecDeque<u64>,
    last_bytes: LastBytes,
    waiting: usize,
    scratch: Box<[u8; COPY]>,
}

impl<S: Socket, I: Pipes<S>, T> Relays<S, I, T> {
    /// None yet. `config` bounds what they hold.
    pub fn new(config: PairConfig, pipes: I) -> Self {
        Self {
            tally: Tally::default(),
            pipes,
            config,
            all: BTreeMap::new(),
            to_serve: VecDeque::new(),
            last_bytes: LastBytes::default(),
            waiting: 0,
            scratch: Box::new([0; COPY]),
        }
    }
    /// Bounds them otherwise from now on; what waits stays.
    pub fn set_config(&mut self, config: PairConfig) {
        self.config = config;
    }
    /// Adds a connection under a number that no other has: the application's half and the server's, which may have failed already.
    pub fn insert(&mut self, id: u64, born: Instant, sockets: [S; 2], failed: [bool; 2], own: T) {
        let mut relay = Relay::new(born, sockets);
        (0..2).filter(|half| failed[*half]).for_each(|half| relay.fail(half));
        self.all.insert(id, Entry { relay, own, queued: false });
        self.enqueue(id);
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// Bytes that wait in all of them.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
    /// One of them.
    pub fn get(&self, id: u64) -> Option<(&Relay<S, I::Pipe>, &T)> {
        self.all.get(&id).map(|entry| (&entry.relay, &entry.own))
    }
    /// All, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Relay<S, I::Pipe>, &T)> {
        self.all.iter().map(|(id, entry)| (*id, &entry.relay, &entry.own))
    }
    /// The number of the first from a number on.
    pub fn from(&self, id: u64) -> Option<u64> {
        self.all.range(id..).next().map(|(id, _)| *id)
    }
    /// A half has bytes, or room.
    pub fn ready(&mut self, id: u64, half: usize, edges: Edges) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.relay.ready(half, edges);
            self.enqueue(id);
        }
    }
    /// A half was reset or failed.
    pub fn fail(&mut self, id: u64, half: usize) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.relay.fail(half);
            self.enqueue(id);
        }
    }
    fn enqueue(&mut self, id: u64) {
        if let Some(entry) = self.all.get_mut(&id)
            && !core::mem::replace(&mut entry.queued, true)
        {
            self.to_serve.push_back(id);
        }
    }
    /// Serves the next one that may have something to do. Returns whether there was one.
    pub fn serve_next(&mut self, now: Instant) -> bool {
        let Some(id) = self.to_serve.pop_front() else { return false };
        let Some(entry) = self.all.get_mut(&id) else { return true };
        entry.queued = false;
        let (relay, moved) = (&mut entry.relay, |relay: &Relay<S, I::Pipe>| relay.halves.each_ref().map(|h| h.moved));
        let (held, before) = (relay.waiting(), moved(relay));
        let next = relay.turn(&mut self.pipes, &mut self.scratch, self.config.limit(0, self.waiting));
        self.waiting = self.waiting - held + relay.waiting();
        for (before, after) in before.into_iter().zip(moved(relay)) {
            self.tally.moved.from_socket += after.from_socket - before.from_socket;
            self.tally.moved.to_socket += after.to_socket - before.to_socket;
        }
        match next {
            Next::Idle => {}
            Next::More => self.enqueue(id),
            Next::Watch => self.last_bytes.begin(now, id),
            Next::Closed => {
                self.tally.closed += 1;
                self.remove(id);
            }
            Next::Reset => self.reset(id),
        }
        true
    }
    /// When to call [`Relays::look_after_last_bytes`].
    pub fn deadline(&self) -> Option<Instant> {
        self.last_bytes.deadline()
    }
    /// Ends connections of which one half is gone, once the other has what it left, or takes none of it for
    /// [`crate::PATIENCE`].
    pub fn look_after_last_bytes(&mut self, now: Instant) {
        for id in self.last_bytes.due(now) {
            let Some(entry) = self.all.get(&id) else { continue };
            if !entry.relay.last_bytes().is_some_and(|taken| self.last_bytes.lasts(now, id, taken)) {
                self.reset(id);
            }
        }
    }
    fn reset(&mut self, id: u64) {
        self.tally.reset += 1;
        self.remove(id);
    }
    fn remove(&mut self, id: u64) {
        self.last_bytes.forget(id);
        if let Some(entry) = self.all.remove(&id) {
            self.waiting -= entry.relay.waiting();
            entry.relay.end(&mut self.pipes);
        }
    }
}
