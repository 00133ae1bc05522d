//! The engine on the kernel's sockets: the door decides, and movers have the connections whose both halves are open.

use super::mover::{Joined, Movers};
use super::serve::Body;
use super::{
    Proxy, ProxyError, SPLIT, TOKEN_CONNECTIONS, TOKEN_LINKS, TOKEN_QUEUE, TOKEN_TPROXY, TOKEN_TPROXY_LAST, config,
    pair_config, refused, status, tell, tunings, unsplit,
};
use crate::config::marks::MARK_PLAIN;
use crate::config::{OnFailure, Placement};
use crate::connection::KernelSocket;
use crate::engine::{self, KernelEngine};
use crate::system::rules::TARGET_OPTION;
use config::Settings;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wavelane_base::Instant;
use wavelane_door::{Connection, Door, FlowEvent, Gone, Kept, Stage, Syn, other};
use wavelane_gateway::Reason;
use wavelane_host::links::LinkChanges;
use wavelane_host::nfqueue::HeldPacket;
use wavelane_host::poller::Ready;
use wavelane_host::tcp;
use wavelane_settings::LogLevel;

/// Connections served before readiness is asked again.
const TURNS_PER_ROUND: usize = 1_024;
/// SYNs and connections taken per round.
const ARRIVALS_PER_ROUND: usize = 256;
/// Of a connection's half towards the server, for the status.
pub(super) const FAR: [u8; 32] = [1; 32];
/// Of the half towards the client.
const NEAR: [u8; 32] = [0; 32];

/// See the module's description.
pub(super) struct Sockets {
    pub(super) door: Door<KernelEngine>,
    pub(super) movers: Movers,
    /// Word of links that come up.
    pub(super) links: LinkChanges,
    /// A listener had no descriptor to give: ask again at the next tick.
    pub(super) retry_listeners: bool,
    /// Servers that attempts named in an option, by the ends of these, until the door asks for a connection: at most one for each attempt.
    pub(super) led: BTreeMap<(SocketAddr, SocketAddr), SocketAddr>,
    /// This host's addresses, if they are known.
    pub(super) own: Option<Vec<IpAddr>>,
}

impl Sockets {
    pub(super) fn know_own_addresses(&mut self) {
        self.own = wavelane_host::own_addresses().ok();
    }
    /// Whether others may have us connect to a server at an address: not to this host, to one of a single link, or to a group.
    fn may_be_asked_for(&self, address: Ipv4Addr) -> bool {
        let of_all = address.is_loopback() || address.is_link_local() || address.is_multicast();
        let none = address.is_unspecified() || address.is_broadcast();
        !of_all && !none && self.own.as_ref().is_some_and(|own| !own.contains(&IpAddr::V4(address)))
    }
}

/// The server that a first packet names in its first option.
pub fn named_server(head: &[u8]) -> Option<Ipv4Addr> {
    let (first, option) = (*head.first()?, head.get(20..26)?);
    let header = usize::from(first & 15) * 4;
    let is_named = first >> 4 == 4 && header >= 26 && option.starts_with(&TARGET_OPTION);
    is_named.then(|| Ipv4Addr::new(option[2], option[3], option[4], option[5]))
}

impl Body for Sockets {
    fn settle(proxy: &mut Proxy<Self>) -> io::Result<bool> {
        for _ in 0..TURNS_PER_ROUND {
            let mut acted = proxy.body.door.serve_next(proxy.now, &mut proxy.pair);
            while let Some(event) = proxy.pair.poll_event() {
                acted = true;
                proxy.event(event);
            }
            if !acted {
                return Ok(false);
            }
        }
        Ok(true)
    }
    fn ready(proxy: &mut Proxy<Self>, ready: Ready) {
        match ready.token {
            TOKEN_QUEUE => proxy.take_syns(),
            TOKEN_LINKS => {
                proxy.body.links.drain();
                proxy.body.know_own_addresses();
                // Whatever it was: a link that is still down costs a packet of each connection that waits.
                proxy.body.movers.call_back();
            }
            token @ TOKEN_TPROXY..=TOKEN_TPROXY_LAST => proxy.accept((token - TOKEN_TPROXY) as usize),
            token if token >= TOKEN_CONNECTIONS => proxy.socket_ready(token, ready),
            _ => {}
        }
    }
    fn look(proxy: &mut Proxy<Self>) {
        if proxy.body.door.deadline().is_some_and(|at| at <= proxy.now) {
            proxy.body.door.look_after_last_bytes(proxy.now, &mut proxy.pair);
        }
    }
    fn deadline(&self) -> Option<Instant> {
        self.door.deadline()
    }
    fn waits(&self) -> bool {
        self.door.waits() || self.retry_listeners
    }
    fn tick(proxy: &mut Proxy<Self>) {
        proxy.body.door.tick(proxy.now, &mut proxy.pair);
        if std::mem::take(&mut proxy.body.retry_listeners) {
            for listener in 0..=(TOKEN_TPROXY_LAST - TOKEN_TPROXY) as usize {
                proxy.accept(listener);
            }
        }
    }
    fn stop(proxy: &mut Proxy<Self>) {
        proxy.body.door.stop(proxy.now, &mut proxy.pair);
        proxy.body.movers.stop();
    }
    fn check(settings: &Settings) -> Result<(), ProxyError> {
        tunings(settings).map(drop)
    }
    fn tune(proxy: &mut Proxy<Self>, settings: &Settings) {
        if let Ok((tunings, _)) = tunings(settings) {
            proxy.body.door.engine.tune(tunings);
        }
        proxy.body.movers.set_config(pair_config(settings));
    }
    /// The kernel's sockets cannot be told.
    fn note_gap(_: &mut Proxy<Self>, _: bool) {}
    fn document(proxy: &Proxy<Self>) -> String {
        status::of_sockets(proxy)
    }
}

impl Proxy<Sockets> {
    fn socket_ready(&mut self, token: u64, ready: Ready) {
        self.body.door.ready(token, ready.readable, ready.writable);
        let Some(connection) = self.body.door.connection(token) else { return };
        let error = if ready.failed { connection.own.kept.take_error() } else { None };
        let answered = connection.splice.writable && matches!(connection.splice.stage, Stage::Connecting(_));
        match error {
            Some(error) => self.body.door.failed(self.now, &mut self.pair, token, engine::why(&error)),
            None if answered => self.body.door.answered(self.now, &mut self.pair, token),
            None => {}
        }
    }
    fn event(&mut self, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, source, target } => {
                let led = self.body.led.remove(&(source, target));
                // Whom an option led here need not be on the server's way back.
                let from = led.is_none().then_some(source);
                let ends = (source, led.unwrap_or(target));
                self.body.door.connect(self.now, &mut self.pair, flow, FAR, from, ends);
            }
            FlowEvent::Accepted(flow) => {
                self.body.door.accepted(self.now, flow);
                // Without NFQUEUE the application is connected already.
                if self.body.door.has(flow)
                    && let Some(far) = self.body.door.release(other(flow))
                    && let Some(near) = self.body.door.release(flow)
                {
                    let _ = self.poller.remove(&near.own.kept.0);
                    let failed = near.splice.failed().is_some();
                    self.hand_over(near.own.kept, failed, far);
                }
            }
            FlowEvent::Refused(flow, why) | FlowEvent::Reset(flow, why) => {
                let Some(Gone { syn, held, .. }) = self.body.door.flow_gone(self.now, flow) else { return };
                match why {
                    // We lack a socket or a port: that is no word of the server's.
                    Reason::NoRoom => self.pass(&syn, held, "no socket or port is left for it"),
                    _ => {
                        self.tell_of(&syn, || refused(why));
                        self.body.door.refuse_syn(&syn, held, why);
                    }
                }
            }
            FlowEvent::Ending(flow) => self.body.door.flow_ending(self.now, flow),
            FlowEvent::Readable(flow) | FlowEvent::Writable(flow) => self.body.door.flow_ready(flow),
            FlowEvent::Closed(flow) => self.body.door.flow_closed(flow),
        }
    }
    fn take_syns(&mut self) {
        for _ in 0..ARRIVALS_PER_ROUND {
            let Some(queue) = self.body.door.engine.queue() else { return };
            match queue.receive() {
                Ok(Some(queued)) => match Syn::parse(&queued.head) {
                    Some(syn) if self.settings.placement == Placement::Option => {
                        self.take_led(syn, &queued.head, queued.held);
                    }
                    Some(syn) if !self.is_exempt(&syn, &queued.head) => {
                        if let Some(held) = self.body.door.take_syn(self.now, syn, queued.held) {
                            self.ask(syn, held);
                        }
                    }
                    Some(syn) => {
                        self.tell_of(&syn, || "goes plainly: exempt".to_owned());
                        self.body.door.let_go(self.now, queued.held);
                    }
                    None => self.body.door.let_go(self.now, queued.held),
                },
                Ok(None) => return,
                Err(_) => return self.counters.one("dropped_queue_overrun"),
            }
        }
    }
    /// A first packet to this host itself: one that names no server is for a program here.
    fn take_led(&mut self, syn: Syn, head: &[u8], held: HeldPacket) {
        let Some(address) = named_server(head) else { return self.body.door.let_go(self.now, held) };
        let server = SocketAddr::new(address.into(), syn.target.port());
        // What is exempt has no way past us: let go, it would reach a program of this host's.
        let is_denied = self.is_exempt(&syn, head) || !self.settings.splits(server);
        if is_denied || !self.body.may_be_asked_for(address) {
            self.counters.one("dropped_target_denied");
            self.tell_of(&syn, || {
                format!("refused: it asks for {server}, which is exempt, no target, or not to be asked for")
            });
            return self.body.door.refuse_syn(&syn, Some(held), Reason::Prohibited);
        }
        if let Some(held) = self.body.door.take_syn(self.now, syn, held) {
            self.body.led.insert((syn.source, syn.target), server);
            self.ask(syn, held);
            // Whatever became of it: what was asked for is connected to before the next is taken.
            while let Some(event) = self.pair.poll_event() {
                self.event(event);
            }
            self.body.led.remove(&(syn.source, syn.target));
        }
    }
    /// Connections, whether both halves are open or not.
    pub(super) fn flows(&self) -> usize {
        self.pair.flows() + self.body.movers.live()
    }
    /// Both halves are open: a thread has them from now on.
    fn hand_over(&mut self, near: KernelSocket, near_failed: bool, far: Connection<Kept<KernelEngine>>) {
        let Connection { splice, own, .. } = far;
        let _ = self.poller.remove(&own.kept.0);
        self.pair.forget(splice.flow);
        let failed = [near_failed, splice.failed().is_some()];
        let ends = own.ends;
        let joined = Joined { sockets: [near, own.kept], failed, born: splice.born, ends: own.ends };
        if self.body.movers.take(joined).is_err() {
            self.counters.one("dropped_no_socket");
            return tell(&mut self.log, self.now, ends, "closed: no descriptor is left for it");
        }
        tell(&mut self.log, self.now, ends, SPLIT);
    }
    /// Whether a SYN passes by its port or code point; the kernel's rules let it pass then.
    fn is_exempt(&self, syn: &Syn, head: &[u8]) -> bool {
        let exempt = &self.settings.exempt;
        // RFC 2474: the upper six bits of IPv4's second octet, and of IPv6's traffic class.
        let dscp = match (head.first().map(|first| first >> 4), head.get(..2)) {
            (Some(4), Some([_, field])) => field >> 2,
            (Some(6), Some([first, second])) => (first << 4 | second >> 4) >> 2,
            _ => return false,
        };
        exempt.ports.contains(&syn.target.port()) || exempt.dscps.contains(&dscp)
    }
    /// Says at `debug` what becomes of the connection that a SYN asks for.
    fn tell_of(&mut self, syn: &Syn, fate: impl FnOnce() -> String) {
        if self.log.has(LogLevel::Debug) {
            tell(&mut self.log, self.now, (syn.source, syn.target), &fate());
        }
    }
    /// Decides what becomes of a new SYN.
    fn ask(&mut self, syn: Syn, held: HeldPacket) {
        if self.flows() >= self.settings.connections_max {
            self.counters.one("connections_beyond_max");
            return self.pass(&syn, Some(held), "as many as `connections_max` are open");
        }
        self.body.door.ask(self.now, &mut self.pair, (), NEAR, syn, held);
    }
    /// What the proxy has no room for goes plainly, or is refused.
    fn pass(&mut self, syn: &Syn, held: Option<HeldPacket>, why: &str) {
        let on_failure = self.settings.on_failure;
        self.tell_of(syn, || unsplit(on_failure, why));
        if self.settings.on_failure == OnFailure::Closed {
            self.counters.one("connections_refused");
            return self.body.door.refuse_syn(syn, held, Reason::Refused);
        }
        let Some(held) = held else { return };
        self.counters.one("connections_passed");
        if let Some(queue) = self.body.door.engine.queue() {
            let _ = queue.accept_marked(held, MARK_PLAIN);
        }
    }
    fn accept(&mut self, listener: usize) {
        for i in 0.. {
            let listeners = self.body.door.engine.transparent.as_ref().map(|t| &t.listeners);
            let Some(listener) = listeners.and_then(|all| all.get(listener)) else { return };
            let (stream, source) = match tcp::accept(listener) {
                Ok(connection) => connection,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // ECONNABORTED, or no descriptor left. The readiness edge is consumed, so ask again soon.
                _ => {
                    self.counters.one("dropped_no_socket");
                    self.body.retry_listeners = true;
                    return;
                }
            };
            let Ok(target) = stream.local_addr() else { continue };
            // Without IPv6's flow label and scope, by which SYNs are not known.
            let plain = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
            let ends = (plain(source), plain(target));
            if let Some(far) = self.body.door.join(ends, other) {
                let near = self.body.door.engine.tuned_socket(stream);
                self.hand_over(near, false, far);
            } else if let Some(stranger) = self.body.door.take(self.now, &mut self.pair, stream, ends) {
                // No NFQUEUE here, or it came in the moment before SYNs were held.
                if self.settings.placement == Placement::Option {
                    // What it named went with its first packet.
                    self.counters.one("dropped_stranger_at_listener");
                    continue;
                }
                if self.flows() >= self.settings.connections_max {
                    self.counters.one("connections_beyond_max");
                    continue;
                }
                self.body.door.open_for(self.now, &mut self.pair, (), NEAR, stranger, ends);
            }
            if i >= ARRIVALS_PER_ROUND {
                self.body.retry_listeners = true;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header of that many words, with these octets behind its first 20.
    fn head(words: u8, options: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 20];
        head[0] = 0x40 | words;
        head.extend_from_slice(options);
        head
    }

    #[test]
    fn only_a_whole_option_in_the_first_place_names_a_server() {
        let whole = [158, 6, 10, 3, 0, 2, 0, 0];
        assert_eq!(named_server(&head(7, &whole)), Some(Ipv4Addr::new(10, 3, 0, 2)));
        // Shorter headers, other options, another length, another version, and what was cut off.
        for other in [head(6, &whole), head(5, &whole), head(7, &[1, 158, 6, 10, 3, 0, 2, 0])] {
            assert_eq!(named_server(&other), None, "{other:?}");
        }
        for length in (0..=255).filter(|length| *length != 6) {
            assert_eq!(named_server(&head(7, &[158, length, 10, 3, 0, 2, 0, 0])), None);
        }
        let (mut six, of_four) = (head(7, &whole), head(7, &whole));
        six[0] = 0x67;
        assert_eq!(named_server(&six), None);
        assert!((0..26).all(|length| named_server(&of_four[..length]).is_none()));
    }
}
