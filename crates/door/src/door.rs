//! The door: connections of one [`Engine`], each with a flow of the [`FarSide`].
//!
//! A SYN is held until the far server has answered, a refusal goes back in TCP/IP's own terms, half-closes and last bytes
//! cross before a reset does. The owner decides which way a target is taken ([`Door::take_syn`], then [`Door::ask`],
//! [`Door::let_go`] or [`Door::refuse_syn`]) and who may have us connect ([`Door::connect`]).

use crate::attempts::{Arrival, Attempts, Cause, Ended, Limits};
use crate::connections::{Connection, Connections, Due};
use crate::engine::Engine;
use crate::far::{FarSide, NotOpened};
use crate::socket::Socket;
use crate::splice::{CHUNK, Moved, Splice, Stage, Turn};
use crate::syn::{Syn, Unreachable};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wavelane_base::{FlowId, Instant, Span};
use wavelane_wire::frame::Reason;

/// How long a server may take to answer our connect.
pub const CONNECT_PATIENCE: Span = Span::from_secs(10);

/// What the door keeps with a connection.
#[derive(Debug)]
pub struct Kept<E: Engine> {
    /// The engine's.
    pub kept: E::Kept,
    /// The owner's.
    pub tag: E::Tag,
    /// The application's address and the server's.
    pub ends: (SocketAddr, SocketAddr),
}

/// A new connection's flow, the owner's tag, and both ends.
struct Joins<T> {
    flow: FlowId,
    tag: T,
    ends: (SocketAddr, SocketAddr),
}

/// An attempt whose flow was refused or reset; its SYN is to be refused or let go.
#[derive(Debug)]
pub struct Gone<E: Engine> {
    /// The SYN.
    pub syn: Syn,
    /// Whom it asked.
    pub tag: E::Tag,
    /// The packet, if it is still held.
    pub held: Option<E::Held>,
}

/// See the module's description.
pub struct Door<E: Engine> {
    /// The TCP.
    pub engine: E,
    /// Counters by name; they only grow.
    pub counts: BTreeMap<&'static str, u64>,
    /// Bytes moved so far.
    pub moved: Moved,
    connections: Connections<Kept<E>>,
    attempts: Attempts<E::Held, E::Tag>,
    scratch: Box<[u8; CHUNK]>,
}

impl<E: Engine> Door<E> {
    /// A door without connections.
    pub fn new(engine: E) -> Self {
        Self {
            engine,
            counts: BTreeMap::new(),
            moved: Moved::default(),
            connections: Connections::default(),
            attempts: Attempts::new(Limits::default()),
            scratch: Box::new([0; CHUNK]),
        }
    }

    // ---- getters ----

    /// Attempts whose far server has not answered, or whose application has not gone on.
    pub fn pending(&self) -> usize {
        self.attempts.count()
    }
    /// Whether [`Door::tick`] has anything to look after.
    pub fn waits(&self) -> bool {
        self.attempts.count() > 0 || self.connections.any_connecting()
    }
    /// The connections, in the order of their tokens.
    pub fn connections(&self) -> impl Iterator<Item = &Connection<Kept<E>>> {
        self.connections.iter().map(|(_, connection)| connection)
    }
    /// The same with their tokens.
    pub fn tokens(&self) -> impl Iterator<Item = (u64, &Connection<Kept<E>>)> {
        self.connections.iter()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
    /// One of them.
    pub fn connection(&self, token: u64) -> Option<&Connection<Kept<E>>> {
        self.connections.get(token)
    }
    fn stage(&self, token: u64) -> Option<Stage> {
        self.connections.get(token).map(|connection| connection.splice.stage)
    }
    /// When to call [`Door::look_after_last_bytes`].
    pub fn deadline(&self) -> Option<Instant> {
        self.connections.deadline()
    }
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    // ---- the near door: connections from applications ----

    /// A SYN arrived. Returns it if it begins a new attempt: the owner decides which way that goes.
    pub fn take_syn(&mut self, now: Instant, syn: Syn, held: E::Held) -> Option<E::Held> {
        let (counted, discarded) = match self.attempts.arrive(now, syn, held) {
            Arrival::New(held) => return Some(held),
            Arrival::GoOn(held) => {
                self.engine.let_go(now, held);
                return None;
            }
            Arrival::Joined(older) => (None, older),
            Arrival::PairFull(held) => (Some("dropped_syn_pair_full"), Some(held)),
            Arrival::TableFull(held) => (Some("dropped_syn_table_full"), Some(held)),
        };
        counted.into_iter().for_each(|what| self.count(what));
        self.discard(discarded);
        None
    }
    /// Asks the far side about a new SYN; without room for its flow the SYN is discarded.
    pub fn ask<F: FarSide>(&mut self, now: Instant, far: &mut F, way: F::Way, tag: E::Tag, syn: Syn, held: E::Held) {
        match far.open(now, way, syn.source, syn.target) {
            Ok(flow) => {
                let ended = self.attempts.begin(now, syn, flow, tag, held);
                self.end_attempts(now, far, ended);
            }
            Err(_) => {
                self.count("dropped_syn_flow_table_full");
                self.discard(Some(held));
            }
        }
    }
    /// Lets a SYN go past the door.
    pub fn let_go(&mut self, now: Instant, held: E::Held) {
        self.engine.let_go(now, held);
    }
    /// Discards a SYN; its TCP retransmits it.
    pub fn discard(&mut self, held: Option<E::Held>) {
        held.into_iter().for_each(|held| self.engine.discard(held));
    }
    /// Discards a SYN and tells the application why, in TCP/IP's own terms.
    pub fn refuse_syn(&mut self, syn: &Syn, held: Option<E::Held>, why: Reason) {
        self.discard(held);
        let refusal = match why {
            Reason::Refused | Reason::Aborted | Reason::Restarted | Reason::Complete | Reason::Corrupted => syn.reset(),
            Reason::Unreachable | Reason::TimedOut => syn.unreachable(Unreachable::Host),
            Reason::Prohibited => syn.unreachable(Unreachable::Prohibited),
            // No answer: the application's TCP retransmits its SYN, and there may be room by then.
            Reason::NoRoom => return,
        };
        self.engine.refuse(refusal, syn.source.ip());
    }
    /// The application's connection was established. Returns it if no attempt explains it.
    pub fn take(
        &mut self,
        now: Instant,
        far: &mut impl FarSide,
        fresh: E::Fresh,
        (source, target): (SocketAddr, SocketAddr),
    ) -> Option<E::Fresh> {
        let Some((flow, tag, ending)) = self.attempts.take(source, target) else { return Some(fresh) };
        self.count("connections_taken");
        self.insert(now, far, fresh, Stage::Open, Joins { flow, tag, ends: (source, target) });
        if ending {
            self.connections.flow_ending(now, flow);
        }
        None
    }
    /// The application is connected already: asks the far side, and resets the application if that refuses.
    pub fn open_for<F: FarSide>(
        &mut self,
        now: Instant,
        far: &mut F,
        way: F::Way,
        tag: E::Tag,
        fresh: E::Fresh,
        (source, target): (SocketAddr, SocketAddr),
    ) {
        let why = match far.open(now, way, source, target) {
            Ok(flow) => {
                return self.insert(now, far, fresh, Stage::Waiting, Joins { flow, tag, ends: (source, target) });
            }
            Err(NotOpened::NoWay) => "connections_refused",
            Err(NotOpened::NoRoom) => "dropped_syn_flow_table_full",
        };
        self.count(why);
        if let Some((token, kept)) = self.engine.adopt(fresh) {
            self.engine.reset(now, token, kept);
        }
    }
    /// The far server has answered.
    pub fn accepted(&mut self, now: Instant, flow: FlowId) {
        if let Some(held) = self.attempts.answered(now, flow) {
            held.into_iter().for_each(|held| self.engine.let_go(now, held));
        } else if let Some(token) = self.connections.token_of(flow) {
            self.connections.opened(now, token);
            self.count("connections_taken");
        }
    }
    /// The flow was refused or reset. Returns its attempt if it has no connection yet.
    pub fn flow_gone(&mut self, now: Instant, flow: FlowId) -> Option<Gone<E>> {
        if let Some((syn, tag, held)) = self.attempts.refused(flow) {
            return Some(Gone { syn, tag, held });
        }
        if let Some(token) = self.connections.token_of(flow) {
            self.count(match self.stage(token) {
                Some(Stage::Waiting) => "connections_refused",
                _ => "connections_reset",
            });
            self.leave(now, token);
        }
        None
    }
    /// The flow was reset, after bytes that are still unread.
    pub fn flow_ending(&mut self, now: Instant, flow: FlowId) {
        if !self.attempts.ending(flow) {
            self.connections.flow_ending(now, flow);
        }
    }
    /// The flow has bytes, or room.
    pub fn flow_ready(&mut self, flow: FlowId) {
        self.connections.enqueue_flow(flow);
    }
    /// The flow ended in order.
    pub fn flow_closed(&mut self, flow: FlowId) {
        self.connections.flow_closed(flow);
    }

    // ---- the far door: connections to servers ----

    /// Connects to a server for the application of `flow`, from its own address if `from` says so.
    pub fn connect(
        &mut self,
        now: Instant,
        far: &mut impl FarSide,
        flow: FlowId,
        tag: E::Tag,
        from: Option<SocketAddr>,
        ends: (SocketAddr, SocketAddr),
    ) {
        match self.engine.connect(now, from, ends.1) {
            Ok(fresh) => {
                self.insert(now, far, fresh, Stage::Connecting(now + CONNECT_PATIENCE), Joins { flow, tag, ends });
            }
            Err(why) => self.refuse(now, far, flow, why),
        }
    }
    /// Tells the far side why there is no connection.
    fn refuse(&mut self, now: Instant, far: &mut impl FarSide, flow: FlowId, why: Reason) {
        self.count(match why {
            Reason::Refused => "dropped_connect_refused",
            Reason::TimedOut => "dropped_connect_timed_out",
            Reason::Unreachable => "dropped_connect_unreachable",
            Reason::Prohibited => "dropped_target_denied",
            _ => "dropped_no_socket",
        });
        far.refuse(now, flow, why);
    }

    // ---- connections ----

    fn insert(&mut self, now: Instant, far: &mut impl FarSide, fresh: E::Fresh, stage: Stage, joins: Joins<E::Tag>) {
        let Joins { flow, tag, ends } = joins;
        let Some((token, mut kept)) = self.engine.adopt(fresh) else {
            return match stage {
                Stage::Connecting(_) => self.refuse(now, far, flow, Reason::NoRoom),
                _ => {
                    self.count("dropped_no_socket");
                    far.reset(now, flow);
                }
            };
        };
        let rooms = self.engine.socket(now, token, &mut kept).receive_rooms();
        self.connections.insert(token, Splice::new(now, rooms, flow, stage), Kept { kept, tag, ends });
    }
    /// The socket has bytes, or room.
    pub fn ready(&mut self, token: u64, readable: bool, writable: bool) {
        self.connections.ready(token, readable, writable);
    }
    /// The server has answered our connect. Harmless for any other connection.
    pub fn connected(&mut self, now: Instant, far: &mut impl FarSide, token: u64) {
        if matches!(self.stage(token), Some(Stage::Connecting(_)))
            && let Some(flow) = self.connections.opened(now, token)
        {
            self.count("connections_made");
            far.accept(now, flow);
        }
    }
    /// The same where the other half is a connection of this door too: bytes wait until that is there, or both halves leave the door by
    /// [`Door::join`] or [`Door::release`].
    pub fn answered(&mut self, now: Instant, far: &mut impl FarSide, token: u64) {
        if matches!(self.stage(token), Some(Stage::Connecting(_)))
            && let Some(flow) = self.connections.answered(now, token)
        {
            self.count("connections_made");
            far.accept(now, flow);
        }
    }
    /// The other half of a connection that was [`Door::answered`] is there too: bytes move from now on.
    pub(crate) fn go_on(&mut self, now: Instant, token: u64) {
        if self.stage(token) == Some(Stage::Waiting) {
            self.connections.opened(now, token);
        }
    }
    /// The application's connection was established and its server's is here, the one of the flow that `other` names: the latter leaves
    /// the door. `None`: the server's is not here, and the application's goes by [`Door::take`].
    pub fn join(
        &mut self,
        (source, target): (SocketAddr, SocketAddr),
        other: impl FnOnce(FlowId) -> FlowId,
    ) -> Option<Connection<Kept<E>>> {
        let flow = other(self.attempts.admitted(source, target)?);
        let token = self.connections.token_of(flow)?;
        self.attempts.take(source, target);
        self.count("connections_taken");
        self.connections.forget(token)
    }
    /// Lets the connection of a flow go on without the door.
    pub fn release(&mut self, flow: FlowId) -> Option<Connection<Kept<E>>> {
        let token = self.connections.token_of(flow)?;
        self.connections.forget(token)
    }
    /// The application's address and the server's, of a flow's connection here.
    pub fn ends_of(&self, flow: FlowId) -> Option<(SocketAddr, SocketAddr)> {
        Some(self.connection(self.connections.token_of(flow)?)?.own.ends)
    }
    /// Whether the flow has a connection here.
    pub fn has(&self, flow: FlowId) -> bool {
        self.connections.token_of(flow).is_some()
    }
    /// The socket was reset or failed; a pending connect is refused with `why`.
    pub fn failed(&mut self, now: Instant, far: &mut impl FarSide, token: u64, why: Reason) {
        match self.stage(token) {
            None => {}
            Some(Stage::Connecting(_)) => {
                if let Some(flow) = self.remove(now, token).map(|splice| splice.flow) {
                    self.refuse(now, far, flow, why);
                }
            }
            Some(Stage::Leaving) => drop(self.remove(now, token)),
            // What the application wrote still goes to the server if that answers.
            Some(Stage::Waiting) if !self.has_bytes(now, token) => self.socket_reset(now, far, token),
            Some(Stage::Open | Stage::Waiting) => self.connections.fail(token),
        }
    }
    fn has_bytes(&mut self, now: Instant, token: u64) -> bool {
        let Some(connection) = self.connections.get_mut(token) else { return false };
        self.engine.socket(now, token, &mut connection.own.kept).has_bytes()
    }
    /// Removes a connection, whose other end sees a reset.
    fn remove(&mut self, now: Instant, token: u64) -> Option<Splice> {
        let connection = self.connections.forget(token)?;
        self.engine.reset(now, token, connection.own.kept);
        Some(connection.splice)
    }
    /// Forgets a connection and resets it and its flow.
    fn socket_reset(&mut self, now: Instant, far: &mut impl FarSide, token: u64) {
        if let Some(splice) = self.remove(now, token) {
            self.count("connections_reset");
            if !splice.flow_closed {
                far.reset(now, splice.flow);
            }
        }
    }
    /// The flow was reset: so is the connection, once its other end has the data it was given.
    fn leave(&mut self, now: Instant, token: u64) {
        let engine = &mut self.engine;
        let left = self
            .connections
            .leave(now, token, |splice, own| splice.leave(now, &mut engine.socket(now, token, &mut own.kept)));
        if let Some(connection) = left {
            self.engine.reset(now, token, connection.own.kept);
        }
    }
    /// Serves the next connection that may have something to do. Returns whether there was one.
    pub fn serve_next(&mut self, now: Instant, far: &mut impl FarSide) -> bool {
        let Some(token) = self.connections.next_to_serve() else { return false };
        let Self { engine, scratch, moved: all, .. } = self;
        let turn = self.connections.serve(now, token, |splice, own| {
            let mut moved = Moved::default();
            let mut socket = engine.socket(now, token, &mut own.kept);
            let turn = splice.turn(now, &mut socket, far, scratch, &mut moved);
            splice.moved.add(moved);
            all.add(moved);
            turn
        });
        match turn {
            None | Some(Turn::Idle | Turn::More) => {}
            Some(Turn::SocketReset) => self.socket_reset(now, far, token),
            Some(Turn::FlowReset) => {
                self.count("connections_reset");
                self.leave(now, token);
            }
            Some(Turn::Done) => {
                self.count("connections_closed");
                self.connections.forget(token);
            }
        }
        true
    }

    // ---- time ----

    /// Ends connections in reset whose last bytes are delivered, and those where nobody takes any.
    pub fn look_after_last_bytes(&mut self, now: Instant, far: &mut impl FarSide) {
        let engine = &mut self.engine;
        let undelivered = |token, own: &mut Kept<E>| engine.socket(now, token, &mut own.kept).undelivered();
        for (token, due) in self.connections.last_bytes_over(now, undelivered, |flow| far.is_silent(flow)) {
            match due {
                Due::Drop => drop(self.remove(now, token)),
                Due::Reset => self.socket_reset(now, far, token),
            }
        }
    }
    /// Gives up SYNs held too long and connects that took too long.
    pub fn tick(&mut self, now: Instant, far: &mut impl FarSide) {
        if self.attempts.count() > 0 {
            let (overdue, ended) = self.attempts.expire(now);
            for held in overdue {
                self.count("dropped_syn_held_too_long");
                self.engine.discard(held);
            }
            self.end_attempts(now, far, ended);
        }
        for token in self.connections.late(now) {
            if let Some(splice) = self.remove(now, token) {
                self.refuse(now, far, splice.flow, Reason::TimedOut);
            }
        }
    }
    fn end_attempts(&mut self, now: Instant, far: &mut impl FarSide, ended: Vec<Ended<E::Held>>) {
        for attempt in ended {
            self.count(match attempt.cause {
                Cause::SourceFull => "dropped_syn_source_full",
                Cause::TableFull => "dropped_syn_table_full",
                Cause::Abandoned => "dropped_attempt_abandoned",
            });
            self.discard(attempt.held);
            far.reset(now, attempt.flow);
        }
    }
    /// An orderly stop: resets everything. Returns how many connections there were.
    pub fn stop(&mut self, now: Instant, far: &mut impl FarSide) -> usize {
        self.end_those(now, far, |_, _| true)
    }
    /// Resets the connections, and ends the attempts, of which it is asked by source and target. Returns how many connections there were.
    pub fn end_those(
        &mut self,
        now: Instant,
        far: &mut impl FarSide,
        which: impl Fn(SocketAddr, SocketAddr) -> bool,
    ) -> usize {
        let ended = self.attempts.drain(&which);
        self.end_attempts(now, far, ended);
        let those =
            self.connections.iter().filter(|(_, connection)| which(connection.own.ends.0, connection.own.ends.1));
        let tokens: Vec<u64> = those.map(|(token, _)| token).collect();
        for token in &tokens {
            self.socket_reset(now, far, *token);
        }
        tokens.len()
    }
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
