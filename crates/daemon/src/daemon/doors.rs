//! The two doors: which way connections from applications go, and which servers peers' applications reach.

use super::{ARRIVALS_PER_ROUND, Daemon};
use crate::config::Source;
use crate::engine;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use wavelane_base::FlowId;
use wavelane_door::{Gone, Stage, Syn};
use wavelane_gateway::{PeerId, Reason};
use wavelane_host::nfqueue::HeldPacket;
use wavelane_host::poller::Ready;
use wavelane_host::tcp;

impl Daemon {
    fn key_of(&self, peer: usize) -> [u8; 32] {
        self.config.peers.get(peer).map_or([0; 32], |p| p.public_key)
    }
    pub(super) fn socket_ready(&mut self, token: u64, ready: Ready) {
        self.door.ready(token, ready.readable, ready.writable);
        let Some(connection) = self.door.connection(token) else { return };
        let (splice, socket) = (&connection.splice, &connection.own.kept);
        let error = if ready.failed { socket.take_error() } else { None };
        let answered = splice.writable && matches!(splice.stage, Stage::Connecting(_));
        match error {
            Some(error) => self.door.failed(self.now, &mut self.gateway, token, engine::why(&error)),
            None if answered => self.door.connected(self.now, &mut self.gateway, token),
            None => {}
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
        let tag = self.key_of(peer.0);
        self.door.connect(self.now, &mut self.gateway, flow, tag, keep.then_some(source), (source, target));
    }

    // ---- the near door: connections from applications ----

    pub(super) fn flow_gone(&mut self, flow: FlowId, why: Reason) {
        let Some(Gone { syn, tag: asked, held }) = self.door.flow_gone(self.now, flow) else { return };
        let now = self.route(syn.target.ip());
        if why == Reason::Unreachable && now.is_some_and(|peer| self.key_of(peer) != asked) {
            // The peer that was asked went down, and another stands in: the application's next SYN asks that one.
            return self.door.discard(held);
        }
        match now.filter(|peer| self.gives_back(*peer)) {
            Some(peer) => self.pass_or_refuse(peer, syn, held),
            None => {
                self.counters.one("connections_refused");
                if let (Reason::Prohibited, Some(peer)) = (why, now) {
                    self.prohibited(peer, syn.target);
                }
                self.door.refuse_syn(&syn, held, why);
            }
        }
    }
    pub(super) fn take_syns(&mut self) {
        for _ in 0..ARRIVALS_PER_ROUND {
            let received = match self.door.engine.queue() {
                Some(queue) => queue.receive(),
                None => return,
            };
            match received {
                Ok(Some(queued)) => match Syn::parse(&queued.head) {
                    Some(syn) => {
                        if let Some(held) = self.door.take_syn(self.now, syn, queued.held) {
                            self.send_on(syn, held);
                        }
                    }
                    // Not ours to judge.
                    None => self.door.let_go(self.now, queued.held),
                },
                Ok(None) => return,
                Err(_) => return self.counters.one("dropped_queue_overrun"),
            }
        }
    }
    /// Decides which way a new SYN goes.
    fn send_on(&mut self, syn: Syn, held: HeldPacket) {
        let target = syn.target.ip();
        if self.has_no_way(target) {
            self.counters.one("dropped_syn_no_route");
            return self.door.refuse_syn(&syn, Some(held), Reason::Unreachable);
        }
        let Some(peer) = self.route(target) else { return self.door.let_go(self.now, held) };
        if self.is_down(peer) {
            return self.pass_or_refuse(peer, syn, Some(held));
        }
        // The application's connection continues plainly: the far gateway must not keep a second one.
        if self.is_passed(target) {
            self.counters.one("connections_passed");
            return self.door.let_go(self.now, held);
        }
        let tag = self.key_of(peer);
        self.door.ask(self.now, &mut self.gateway, PeerId(peer), tag, syn, held);
    }
    /// Takes one waiting connection; `None` if there is none or the system has no descriptor now.
    pub(super) fn accept_one(
        &mut self,
        accepted: io::Result<(TcpStream, SocketAddr)>,
    ) -> Option<(TcpStream, SocketAddr)> {
        match accepted {
            Ok(connection) => Some(connection),
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
            let Some(listener) = self.door.engine.transparent.as_ref().and_then(|t| t.listeners.get(listener)) else {
                return;
            };
            let accepted = tcp::accept(listener);
            let Some((stream, source)) = self.accept_one(accepted) else { return };
            let Ok(target) = stream.local_addr() else { continue };
            let (source, target) = (plain(source), plain(target));
            let stranger = self.door.take(self.now, &mut self.gateway, stream, (source, target));
            match (stranger, self.route(target.ip())) {
                (None, _) => {}
                // No NFQUEUE here, or it came in the moment before SYNs were held.
                (Some(stream), Some(peer)) => self.open_for(stream, peer, source, target),
                // Dropping it resets it.
                (Some(_), None) => self.counters.one("dropped_stranger_at_listener"),
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
            let accepted = tcp::accept(listener);
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
        let tag = self.key_of(peer);
        self.door.open_for(self.now, &mut self.gateway, PeerId(peer), tag, stream, (source, target));
    }
}

/// The address without IPv6's flow label and scope, which SYNs are not known by.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
