//! The two doors: connections from applications, and connections to servers for a peer's applications.

use super::{ARRIVALS_PER_ROUND, CONNECT_PATIENCE, Daemon};
use crate::config::Source;
use crate::connection::{Kept, KernelSocket, Parties};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use wavelane_base::{FlowId, Streams};
use wavelane_door::{Arrival, Cause, Due, Ended, Moved, Refusal, Socket, Splice, Stage, Syn, Turn, Unreachable};
use wavelane_gateway::{OpenError, PeerId, Reason};
use wavelane_host::nfqueue::Held;
use wavelane_host::poller::{Ready, Watch};
use wavelane_host::tcp;

impl Daemon {
    // ---- connections ----

    pub(super) fn insert(&mut self, stream: TcpStream, flow: FlowId, stage: Stage, parties: Parties) {
        let token = self.next_token;
        self.next_token += 1;
        if self.poller.add(&stream, token, Watch::Edges).is_err() {
            self.counters.one("dropped_no_socket");
            match stage {
                Stage::Connecting(_) => self.gateway.refuse(self.now, flow, Reason::NoRoom),
                _ => self.gateway.reset(self.now, flow),
            }
            return;
        }
        let socket = KernelSocket(stream);
        let splice = Splice::new(self.now, socket.receive_rooms(), flow, stage);
        self.connections.insert(token, splice, Kept { socket, parties });
    }
    fn parties(&self, peer: PeerId, source: SocketAddr, target: SocketAddr) -> Parties {
        Parties { peer: self.key_of(peer.0), ends: Some((source, target)) }
    }
    fn key_of(&self, peer: usize) -> [u8; 32] {
        self.config.peers.get(peer).map_or([0; 32], |p| p.public_key)
    }
    pub(super) fn socket_ready(&mut self, token: u64, ready: Ready) {
        self.connections.ready(token, ready.readable, ready.writable);
        let Some(c) = self.connections.get(token) else { return };
        let error = if ready.failed { c.own.socket.take_error() } else { None };
        match (c.splice.stage, error) {
            (Stage::Connecting(_), error) => self.connected(token, error),
            (Stage::Leaving, Some(_)) => drop(self.connections.forget(token)),
            // What it wrote still goes to the server if that answers.
            (Stage::Waiting, Some(_)) if !c.own.socket.has_bytes() => self.socket_reset(token),
            (_, Some(_)) => self.connections.fail(token),
            (_, None) => {}
        }
    }
    fn connected(&mut self, token: u64, error: Option<io::Error>) {
        let Some(c) = self.connections.get(token) else { return };
        if let Some(error) = error {
            let flow = c.splice.flow;
            self.connections.forget(token);
            return self.refuse(flow, &error);
        }
        if c.splice.writable
            && let Some(flow) = self.connections.opened(self.now, token)
        {
            self.counters.one("connections_made");
            self.gateway.accept(self.now, flow);
        }
    }
    /// Forgets a connection and resets its flow; the close resets the application.
    pub(super) fn socket_reset(&mut self, token: u64) {
        if let Some(c) = self.connections.forget(token) {
            self.counters.one("connections_reset");
            if !c.splice.flow_closed {
                self.gateway.reset(self.now, c.splice.flow);
            }
        }
    }
    /// The flow was reset: so is the application, once its kernel has the data it was given.
    fn leave(&mut self, token: u64) {
        // Forgetting a connection closes it, which resets it.
        self.connections.leave(self.now, token, |splice, kept| splice.leave(self.now, &mut kept.socket));
    }
    /// Ends connections in reset whose last bytes are delivered, and those where nobody takes any.
    pub(super) fn look_after_last_bytes(&mut self) {
        let undelivered = |_, kept: &Kept| kept.socket.undelivered();
        for (token, due) in self.connections.last_bytes_over(self.now, undelivered, |flow| self.gateway.is_silent(flow))
        {
            match due {
                Due::Drop => drop(self.connections.forget(token)),
                Due::Reset => self.socket_reset(token),
            }
        }
    }
    pub(super) fn serve(&mut self, token: u64) {
        let (now, gateway, scratch, all) = (self.now, &mut self.gateway, &mut self.scratch, &mut self.moved);
        let turn = self.connections.serve(now, token, |splice, kept| {
            let mut moved = Moved::default();
            let turn = splice.turn(now, &mut kept.socket, gateway, scratch, &mut moved);
            splice.moved.add(moved);
            all.add(moved);
            turn
        });
        match turn {
            None | Some(Turn::Idle | Turn::More) => {}
            Some(Turn::SocketReset) => self.socket_reset(token),
            Some(Turn::FlowReset) => {
                self.counters.one("connections_reset");
                self.leave(token);
            }
            Some(Turn::Done) => {
                self.counters.one("connections_closed");
                self.connections.forget(token);
            }
        }
    }

    // ---- the far door: connections to servers ----

    pub(super) fn incoming(&mut self, flow: FlowId, peer: PeerId, source: SocketAddr, target: SocketAddr) {
        if let Err(why) = self.judge_target(peer, target) {
            return self.gateway.refuse(self.now, flow, why);
        }
        // An application on the far gateway that uses a loopback address has no source address that we could use.
        // Nor has one of the other family, which a plain forward may bring.
        let same_family = source.is_ipv4() == target.is_ipv4();
        let keep = self.config.source == Source::Keep && same_family && !source.ip().is_loopback();
        match tcp::connect(target, keep.then_some(source), self.mark) {
            Ok(stream) => {
                let parties = self.parties(peer, source, target);
                self.insert(stream, flow, Stage::Connecting(self.now + CONNECT_PATIENCE), parties);
            }
            Err(e) => self.refuse(flow, &e),
        }
    }
    pub(super) fn refuse(&mut self, flow: FlowId, error: &io::Error) {
        let (reason, counter) = match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => (Reason::Refused, "dropped_connect_refused"),
            ErrorKind::TimedOut => (Reason::TimedOut, "dropped_connect_timed_out"),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
                (Reason::Unreachable, "dropped_connect_unreachable")
            }
            ErrorKind::PermissionDenied => (Reason::Prohibited, "dropped_target_denied"),
            _ => (Reason::NoRoom, "dropped_no_socket"),
        };
        self.counters.one(counter);
        self.gateway.refuse(self.now, flow, reason);
    }

    // ---- the near door: connections from applications ----

    pub(super) fn accepted(&mut self, flow: FlowId) {
        if let Some(held) = self.attempts.answered(self.now, flow) {
            if let Some(held) = held {
                self.let_go(held);
            }
        } else if let Some(token) = self.connections.token_of(flow) {
            self.connections.opened(self.now, token);
            self.counters.one("connections_taken");
        }
    }
    pub(super) fn flow_gone(&mut self, flow: FlowId, why: Reason) {
        if let Some((syn, asked, held)) = self.attempts.refused(flow) {
            let now = self.route(syn.target.ip());
            if why == Reason::Unreachable && now.is_some_and(|peer| self.key_of(peer) != asked) {
                // The peer that was asked went down, and another stands in: the application's next SYN asks that one.
                return self.discard(held);
            }
            match now.filter(|peer| self.gives_back(*peer)) {
                Some(peer) => self.pass_or_refuse(peer, &syn, held),
                None => {
                    self.counters.one("connections_refused");
                    self.discard(held);
                    self.answer_refusal(&syn, why);
                }
            }
        } else if let Some(token) = self.connections.token_of(flow) {
            let counter = match self.connections.get(token).map(|c| c.splice.stage) {
                Some(Stage::Waiting) => "connections_refused",
                _ => "connections_reset",
            };
            self.counters.one(counter);
            self.leave(token);
        }
    }
    /// Passes the far side's answer on to the application in TCP/IP's own terms.
    pub(super) fn answer_refusal(&mut self, syn: &Syn, why: Reason) {
        let packet = match why {
            Reason::Refused | Reason::Aborted | Reason::Restarted | Reason::Complete | Reason::Corrupted => syn.reset(),
            Reason::Unreachable | Reason::TimedOut => syn.unreachable(Unreachable::Host),
            Reason::Prohibited => syn.unreachable(Unreachable::Prohibited),
            // No answer: the application's TCP retransmits its SYN, and there may be room by then.
            Reason::NoRoom => return,
        };
        if let Some(t) = &self.transparent {
            // If it is not sent, the application retransmits its SYN once.
            let _ = match (packet, syn.source.ip()) {
                (Refusal::Icmp6(message), IpAddr::V6(to)) => t.raw.send_icmp6(&message, to),
                (Refusal::Packet(packet) | Refusal::Icmp6(packet), to) => t.raw.send(&packet, to),
            };
        }
    }
    pub(super) fn discard(&mut self, held: Option<Held>) {
        if let (Some(queue), Some(held)) = (self.transparent.as_ref().and_then(|t| t.queue.as_ref()), held) {
            let _ = queue.discard(held);
        }
    }
    pub(super) fn let_go(&mut self, held: Held) {
        if let Some(queue) = self.transparent.as_ref().and_then(|t| t.queue.as_ref()) {
            let _ = queue.accept(held);
        }
    }
    pub(super) fn end_attempts(&mut self, ended: Vec<Ended<Held>>) {
        for e in ended {
            self.counters.one(match e.cause {
                Cause::SourceFull => "dropped_syn_source_full",
                Cause::TableFull => "dropped_syn_table_full",
                Cause::Abandoned => "dropped_attempt_abandoned",
            });
            self.discard(e.held);
            self.gateway.reset(self.now, e.flow);
        }
    }
    pub(super) fn take_syns(&mut self) {
        for _ in 0..ARRIVALS_PER_ROUND {
            let received = match self.transparent.as_ref().and_then(|t| t.queue.as_ref()) {
                Some(queue) => queue.receive(),
                None => return,
            };
            match received {
                Ok(Some(queued)) => match Syn::parse(&queued.head) {
                    Some(syn) => self.take_syn(syn, queued.held),
                    // Not ours to judge.
                    None => self.let_go(queued.held),
                },
                Ok(None) => return,
                Err(_) => return self.counters.one("dropped_queue_overrun"),
            }
        }
    }
    pub(super) fn take_syn(&mut self, syn: Syn, held: Held) {
        match self.attempts.arrive(self.now, syn, held) {
            Arrival::GoOn(held) => self.let_go(held),
            Arrival::Joined(older) => self.discard(older),
            Arrival::PairFull(held) => {
                self.counters.one("dropped_syn_pair_full");
                self.discard(Some(held));
            }
            Arrival::TableFull(held) => {
                self.counters.one("dropped_syn_table_full");
                self.discard(Some(held));
            }
            Arrival::New(held) if self.has_no_way(syn.target.ip()) => {
                self.counters.one("dropped_syn_no_route");
                self.discard(Some(held));
                self.answer_refusal(&syn, Reason::Unreachable);
            }
            Arrival::New(held) => {
                let Some(peer) = self.route(syn.target.ip()) else { return self.let_go(held) };
                if self.is_down(peer) {
                    return self.pass_or_refuse(peer, &syn, Some(held));
                }
                // The application's connection continues plainly: the far gateway must not keep a second one.
                if self.is_passed(syn.target.ip()) {
                    self.counters.one("connections_passed");
                    return self.let_go(held);
                }
                match self.gateway.open(self.now, PeerId(peer), syn.source, syn.target) {
                    Ok(flow) => {
                        let ended = self.attempts.begin(self.now, syn, flow, self.key_of(peer), held);
                        self.end_attempts(ended);
                    }
                    Err(_) => {
                        self.counters.one("dropped_syn_flow_table_full");
                        self.discard(Some(held));
                    }
                }
            }
        }
    }
    /// Takes one waiting connection; `None` if there is none or the system has no descriptor now.
    pub(super) fn accept_one(
        &mut self,
        accepted: io::Result<(TcpStream, SocketAddr)>,
    ) -> Option<(TcpStream, SocketAddr)> {
        match accepted {
            Ok((stream, from)) if tcp::prepare(&stream).is_ok() => Some((stream, from)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => None,
            _ => {
                // ECONNABORTED, or no descriptor left. The readiness edge is consumed, so ask again soon.
                self.counters.one("dropped_no_socket");
                self.retry_listeners = true;
                None
            }
        }
    }
    pub(super) fn accept_transparent(&mut self, listener: usize) {
        for i in 0.. {
            let Some(listener) = self.transparent.as_ref().and_then(|t| t.listeners.get(listener)) else { return };
            let accepted = listener.accept();
            let Some((stream, source)) = self.accept_one(accepted) else { return };
            let Ok(target) = stream.local_addr() else { continue };
            let (source, target) = (plain(source), plain(target));
            if let Some((flow, peer)) = self.attempts.take(source, target) {
                self.counters.one("connections_taken");
                let parties = Parties { peer, ends: Some((source, target)) };
                self.insert(stream, flow, Stage::Open, parties);
            } else if let Some(peer) = self.route(target.ip()) {
                // No NFQUEUE here, or it came in the moment before SYNs were held.
                self.open_for(stream, peer, source, target);
            } else {
                // Dropping it resets it.
                self.counters.one("dropped_stranger_at_listener");
            }
            self.retry_listeners |= i >= ARRIVALS_PER_ROUND;
            if i >= ARRIVALS_PER_ROUND {
                return;
            }
        }
    }
    pub(super) fn accept_forward(&mut self, index: usize) {
        for i in 0.. {
            let (Some(listener), Some(&forward)) = (self.forwards.get(index), self.config.forwards.get(index)) else {
                return;
            };
            let accepted = listener.accept();
            let Some((stream, source)) = self.accept_one(accepted) else { return };
            let via = self.routes.as_ref().and_then(|_| self.route(forward.to.ip())).unwrap_or(forward.via);
            self.open_for(stream, via, source, forward.to);
            self.retry_listeners |= i >= ARRIVALS_PER_ROUND;
            if i >= ARRIVALS_PER_ROUND {
                return;
            }
        }
    }
    /// The application is connected already; ask the far side, and reset the application if that refuses.
    pub(super) fn open_for(&mut self, stream: TcpStream, peer: usize, source: SocketAddr, target: SocketAddr) {
        if self.is_down(peer) {
            // Dropping it resets it.
            return self.counters.one("connections_refused");
        }
        match self.gateway.open(self.now, PeerId(peer), source, target) {
            Ok(flow) => {
                let parties = self.parties(PeerId(peer), source, target);
                self.insert(stream, flow, Stage::Waiting, parties);
            }
            Err(OpenError::NoWay(_)) => self.counters.one("connections_refused"),
            Err(_) => self.counters.one("dropped_syn_flow_table_full"),
        }
    }
}

/// The address without IPv6's flow label and scope, which SYNs are not known by.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
