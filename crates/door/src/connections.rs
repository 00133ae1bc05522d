//! The connections of a door by their tokens: the flow of each, which ones are to be served, and which ones are delivering their
//! last bytes.
//!
//! The sockets are the owner's: what it needs for each is stored beside the splice.

use crate::last_bytes::LastBytes;
use crate::splice::{Splice, Stage, Turn};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{FlowId, Instant};

/// One connection, and what its owner keeps with it.
#[derive(Debug)]
pub struct Connection<T> {
    /// Its bytes.
    pub splice: Splice,
    /// The owner's.
    pub own: T,
    /// It is in the queue of connections to serve.
    queued: bool,
}

/// What to do with a connection whose last bytes are all taken, or are no longer being taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// It is finished: drop it, which resets its socket.
    Drop,
    /// Reset the flow and drop it.
    Reset,
}

/// All connections of a door.
pub(crate) struct Connections<T> {
    all: BTreeMap<u64, Connection<T>>,
    of_flow: BTreeMap<FlowId, u64>,
    /// Connections in [`Stage::Connecting`].
    connecting: usize,
    /// Each once.
    to_serve: VecDeque<u64>,
    last_bytes: LastBytes,
}

impl<T> Default for Connections<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            of_flow: BTreeMap::new(),
            connecting: 0,
            to_serve: VecDeque::new(),
            last_bytes: LastBytes::default(),
        }
    }
}

fn is_connecting(splice: &Splice) -> bool {
    matches!(splice.stage, Stage::Connecting(_))
}

impl<T> Connections<T> {
    /// Adds a connection. A token is unique among current connections.
    pub(crate) fn insert(&mut self, token: u64, splice: Splice, own: T) {
        self.connecting += usize::from(is_connecting(&splice));
        self.of_flow.insert(splice.flow, token);
        self.all.insert(token, Connection { splice, own, queued: false });
    }
    /// Takes it out of the table.
    pub(crate) fn forget(&mut self, token: u64) -> Option<Connection<T>> {
        let connection = self.all.remove(&token)?;
        // The flow may already have been removed because it was reset.
        self.of_flow.remove(&connection.splice.flow);
        self.last_bytes.forget(token);
        self.connecting -= usize::from(is_connecting(&connection.splice));
        Some(connection)
    }
    /// The connection of this token.
    pub(crate) fn get(&self, token: u64) -> Option<&Connection<T>> {
        self.all.get(&token)
    }
    /// See [`Connections::get`].
    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut Connection<T>> {
        self.all.get_mut(&token)
    }
    /// The token of a flow's connection, until the flow is reset.
    pub(crate) fn token_of(&self, flow: FlowId) -> Option<u64> {
        self.of_flow.get(&flow).copied()
    }
    /// All, in the order of their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Connection<T>)> {
        self.all.iter().map(|(token, connection)| (*token, connection))
    }
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// Whether a connect is pending.
    pub(crate) fn any_connecting(&self) -> bool {
        self.connecting > 0
    }
    /// Those whose connect took too long.
    pub(crate) fn late(&self, now: Instant) -> Vec<u64> {
        if !self.any_connecting() {
            return Vec::new();
        }
        let late = |of: &Connection<T>| matches!(of.splice.stage, Stage::Connecting(until) if until <= now);
        self.iter().filter(|(_, connection)| late(connection)).map(|(token, _)| token).collect()
    }
    /// The far server, or ours, has answered: bytes may move. Returns the connection's flow.
    pub(crate) fn opened(&mut self, now: Instant, token: u64) -> Option<FlowId> {
        let connection = self.all.get_mut(&token)?;
        self.connecting -= usize::from(is_connecting(&connection.splice));
        connection.splice.opened(now);
        let flow = connection.splice.flow;
        self.enqueue(token);
        Some(flow)
    }
    /// Our server has answered, and the application has yet to go on. Returns the connection's flow.
    pub(crate) fn answered(&mut self, now: Instant, token: u64) -> Option<FlowId> {
        let connection = self.all.get_mut(&token)?;
        self.connecting -= usize::from(is_connecting(&connection.splice));
        connection.splice.answered(now);
        Some(connection.splice.flow)
    }
    /// The socket has bytes, or room.
    pub(crate) fn ready(&mut self, token: u64, readable: bool, writable: bool) {
        if let Some(connection) = self.all.get_mut(&token) {
            connection.splice.readable |= readable;
            connection.splice.writable |= writable;
            self.enqueue(token);
        }
    }
    /// The socket was reset or failed.
    pub(crate) fn fail(&mut self, token: u64) {
        if let Some(connection) = self.all.get_mut(&token) {
            connection.splice.fail();
            self.enqueue(token);
        }
    }
    /// Queues it to be served.
    pub(crate) fn enqueue(&mut self, token: u64) {
        if let Some(connection) = self.all.get_mut(&token)
            && !core::mem::replace(&mut connection.queued, true)
        {
            self.to_serve.push_back(token);
        }
    }
    /// The flow has bytes, or room.
    pub(crate) fn enqueue_flow(&mut self, flow: FlowId) {
        if let Some(token) = self.token_of(flow) {
            self.enqueue(token);
        }
    }
    /// The flow ended in order.
    pub(crate) fn flow_closed(&mut self, flow: FlowId) {
        let Some(token) = self.token_of(flow) else { return };
        if let Some(connection) = self.all.get_mut(&token) {
            connection.splice.flow_closed = true;
        }
        self.enqueue(token);
    }
    /// The far side reset the flow; bytes from before are still to come.
    pub(crate) fn flow_ending(&mut self, now: Instant, flow: FlowId) {
        if let Some(token) = self.token_of(flow) {
            self.last_bytes.begin(now, token);
            self.enqueue(token);
        }
    }
    /// The next one to serve.
    pub(crate) fn next_to_serve(&mut self) -> Option<u64> {
        self.to_serve.pop_front()
    }
    /// Serves one by `turn`, and returns what its owner has to handle: a reset of the socket or of the flow, or an orderly end.
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        token: u64,
        turn: impl FnOnce(&mut Splice, &mut T) -> Turn,
    ) -> Option<Turn> {
        let connection = self.all.get_mut(&token)?;
        connection.queued = false;
        if connection.splice.stage != Stage::Open {
            return None;
        }
        match turn(&mut connection.splice, &mut connection.own) {
            Turn::Idle => {
                // Bytes still held by a closed socket wait for room in the flow.
                if connection.splice.failed().is_some() {
                    self.last_bytes.begin(now, token);
                }
                None
            }
            Turn::More => {
                self.enqueue(token);
                None
            }
            end @ (Turn::SocketReset | Turn::FlowReset | Turn::Done) => Some(end),
        }
    }
    /// The flow was reset, and so is the connection, but not before its other end has what was sent to it: `leave` says whether
    /// any of that is missing. If nothing delays the reset, the connection is returned: drop it.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        token: u64,
        leave: impl FnOnce(&mut Splice, &mut T) -> bool,
    ) -> Option<Connection<T>> {
        let connection = self.all.get_mut(&token)?;
        if is_connecting(&connection.splice) || !leave(&mut connection.splice, &mut connection.own) {
            return self.forget(token);
        }
        self.of_flow.remove(&connection.splice.flow);
        self.last_bytes.begin(now, token);
        None
    }
    /// When to check last bytes next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.last_bytes.deadline()
    }
    /// The connections whose last bytes are done: all taken, or none for too long. `undelivered` returns how far the other end of
    /// a connection's socket is, if bytes wait there; `silent` whether nothing is known of a flow's other end.
    pub(crate) fn last_bytes_over(
        &mut self,
        now: Instant,
        mut undelivered: impl FnMut(u64, &mut T) -> Option<u32>,
        silent: impl Fn(FlowId) -> bool,
    ) -> Vec<(u64, Due)> {
        let mut over = Vec::new();
        for token in self.last_bytes.due(now) {
            let Some(connection) = self.all.get_mut(&token) else { continue };
            let taken = match connection.splice.failed() {
                None => undelivered(token, &mut connection.own),
                Some(taken) => (!silent(connection.splice.flow)).then_some(taken),
            };
            match (connection.splice.stage, taken) {
                (Stage::Leaving, None) => over.push((token, Due::Drop)),
                // More may come over the link, however long that takes.
                (_, None) => self.last_bytes.idle(token),
                (_, Some(taken)) if self.last_bytes.lasts(now, token, taken) => {}
                (Stage::Leaving, Some(_)) => over.push((token, Due::Drop)),
                (_, Some(_)) => over.push((token, Due::Reset)),
            }
        }
        over
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
