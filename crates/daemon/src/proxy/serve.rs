//! The proxy's loop: connections, changes of the file, and the end.

use super::mover::Joined;
use super::{
    Proxy, TICK, TOKEN_CONNECTIONS, TOKEN_CONTROL, TOKEN_KERNEL, TOKEN_QUEUE, TOKEN_RELOAD, TOKEN_SIGNAL, TOKEN_TPROXY,
    TOKEN_TPROXY_LAST, config, pair_config, status, tunings,
};
use crate::config::OnFailure;
use crate::connection::KernelSocket;
use crate::engine::{self, KernelEngine};
use crate::kernel::{Change, Kernel};
use crate::rules::MARK_PLAIN;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::time::Duration;
use wavelane_base::Instant;
use wavelane_door::{Connection, FlowEvent, Gone, Kept, Stage, Syn, other};
use wavelane_gateway::Reason;
use wavelane_host::nfqueue::Held;
use wavelane_host::nft::ToolError;
use wavelane_host::poller::Ready;
use wavelane_host::{has_ipv6, tcp};

/// Connections served before readiness is asked again.
const TURNS_PER_ROUND: usize = 1_024;
/// SYNs and connections taken per round.
const ARRIVALS_PER_ROUND: usize = 256;
/// Of a connection's half towards the server, for the status.
pub(super) const FAR: [u8; 32] = [1; 32];
/// Of the half towards the client.
const NEAR: [u8; 32] = [0; 32];

impl Proxy {
    /// Runs until SIGTERM or SIGINT, then resets every connection and removes everything.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            let timeout = if self.settle() { Some(Duration::ZERO) } else { self.patience() };
            let ready = self.poller.wait(timeout)?;
            self.now = self.clock.now();
            self.supervisor.tick(self.now);
            for r in ready {
                if r.token == TOKEN_SIGNAL {
                    self.stop();
                    return Ok(());
                }
                self.dispatch(r);
            }
            if self.door.deadline().is_some_and(|at| at <= self.now) {
                self.door.look_after_last_bytes(self.now, &mut self.pair);
            }
            if self.now.since(self.ticked) >= TICK {
                self.tick();
            }
        }
    }
    fn stop(mut self) {
        self.supervisor.stopping();
        self.door.stop(self.now, &mut self.pair);
        drop(self.movers);
        self.log.line(self.now, "stopped");
        let pen = self.log.pen();
        self.kernel.remove();
        pen.flush();
    }
    /// Moves what can be moved. Returns whether more could be done at once.
    fn settle(&mut self) -> bool {
        for _ in 0..TURNS_PER_ROUND {
            let mut acted = self.door.serve_next(self.now, &mut self.pair);
            while let Some(event) = self.pair.poll_event() {
                acted = true;
                self.event(event);
            }
            if !acted {
                return false;
            }
        }
        true
    }
    fn patience(&self) -> Option<Duration> {
        let waits = self.door.waits() || self.retry_listeners || self.control.may_wait();
        let ticking = waits.then(|| self.ticked + TICK);
        let next: Option<Instant> =
            [ticking, self.supervisor.deadline(), self.door.deadline()].into_iter().flatten().min();
        next.map(|at| self.clock.until(at))
    }
    fn answer_clients(&mut self) {
        let document = status::document(self);
        self.control.answer(self.now, || document.clone());
    }
    fn tick(&mut self) {
        self.ticked = self.now;
        if self.control.may_wait() {
            self.answer_clients();
        }
        self.door.tick(self.now, &mut self.pair);
        if std::mem::take(&mut self.retry_listeners) {
            for listener in 0..=(TOKEN_TPROXY_LAST - TOKEN_TPROXY) as usize {
                self.accept(listener);
            }
        }
    }
    fn dispatch(&mut self, ready: Ready) {
        match ready.token {
            TOKEN_CONTROL => self.answer_clients(),
            TOKEN_QUEUE => self.take_syns(),
            TOKEN_RELOAD => self.reload(),
            TOKEN_KERNEL => self.kernel_answers(),
            token @ TOKEN_TPROXY..=TOKEN_TPROXY_LAST => self.accept((token - TOKEN_TPROXY) as usize),
            token if token >= TOKEN_CONNECTIONS => self.socket_ready(token, ready),
            _ => {}
        }
    }

    // ---- connections ----

    fn socket_ready(&mut self, token: u64, ready: Ready) {
        self.door.ready(token, ready.readable, ready.writable);
        let Some(connection) = self.door.connection(token) else { return };
        let error = if ready.failed { connection.own.kept.take_error() } else { None };
        let answered = connection.splice.writable && matches!(connection.splice.stage, Stage::Connecting(_));
        match error {
            Some(error) => self.door.failed(self.now, &mut self.pair, token, engine::why(&error)),
            None if answered => self.door.answered(self.now, &mut self.pair, token),
            None => {}
        }
    }
    fn event(&mut self, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, source, target } => {
                self.door.connect(self.now, &mut self.pair, flow, FAR, Some(source), (source, target));
            }
            FlowEvent::Accepted(flow) => {
                self.door.accepted(self.now, flow);
                // Without NFQUEUE the application is connected already.
                if self.door.has(flow)
                    && let Some(far) = self.door.release(other(flow))
                    && let Some(near) = self.door.release(flow)
                {
                    let _ = self.poller.remove(&near.own.kept.0);
                    let failed = near.splice.failed().is_some();
                    self.hand_over(near.own.kept, failed, far);
                }
            }
            FlowEvent::Refused(flow, why) | FlowEvent::Reset(flow, why) => {
                let Some(Gone { syn, held, .. }) = self.door.flow_gone(self.now, flow) else { return };
                match why {
                    // We lack a socket or a port: that is no word of the server's.
                    Reason::NoRoom => self.pass(&syn, held),
                    _ => self.door.refuse_syn(&syn, held, why),
                }
            }
            FlowEvent::Ending(flow) => self.door.flow_ending(self.now, flow),
            FlowEvent::Readable(flow) | FlowEvent::Writable(flow) => self.door.flow_ready(flow),
            FlowEvent::Closed(flow) => self.door.flow_closed(flow),
        }
    }
    fn take_syns(&mut self) {
        for _ in 0..ARRIVALS_PER_ROUND {
            let Some(queue) = self.door.engine.queue() else { return };
            match queue.receive() {
                Ok(Some(queued)) => match Syn::parse(&queued.head).filter(|syn| !self.is_exempt(syn, &queued.head)) {
                    Some(syn) => {
                        if let Some(held) = self.door.take_syn(self.now, syn, queued.held) {
                            self.ask(syn, held);
                        }
                    }
                    None => self.door.let_go(self.now, queued.held),
                },
                Ok(None) => return,
                Err(_) => return self.counters.one("dropped_queue_overrun"),
            }
        }
    }
    /// Connections, whether both halves are open or not.
    pub(super) fn flows(&self) -> usize {
        self.pair.flows() + self.movers.live()
    }
    /// Both halves are open: a thread has them from now on.
    fn hand_over(&mut self, near: KernelSocket, near_failed: bool, far: Connection<Kept<KernelEngine>>) {
        let Connection { splice, own, .. } = far;
        let _ = self.poller.remove(&own.kept.0);
        self.pair.forget(splice.flow);
        let failed = [near_failed, splice.failed().is_some()];
        let joined = Joined { sockets: [near, own.kept], failed, born: splice.born, ends: own.ends };
        if self.movers.take(joined).is_err() {
            self.counters.one("dropped_no_socket");
        }
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
    /// Decides what becomes of a new SYN.
    fn ask(&mut self, syn: Syn, held: Held) {
        if self.flows() >= self.settings.connections_max {
            self.counters.one("connections_beyond_max");
            return self.pass(&syn, Some(held));
        }
        self.door.ask(self.now, &mut self.pair, (), NEAR, syn, held);
    }
    /// What the proxy has no room for goes plainly, or is refused.
    fn pass(&mut self, syn: &Syn, held: Option<Held>) {
        if self.settings.on_failure == OnFailure::Closed {
            self.counters.one("connections_refused");
            return self.door.refuse_syn(syn, held, Reason::Refused);
        }
        let Some(held) = held else { return };
        self.counters.one("connections_passed");
        if let Some(queue) = self.door.engine.queue() {
            let _ = queue.accept_marked(held, MARK_PLAIN);
        }
    }
    fn accept(&mut self, listener: usize) {
        for i in 0.. {
            let listeners = self.door.engine.transparent.as_ref().map(|t| &t.listeners);
            let Some(listener) = listeners.and_then(|all| all.get(listener)) else { return };
            let (stream, source) = match listener.accept() {
                Ok((stream, source)) if tcp::prepare(&stream).is_ok() => (stream, source),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // ECONNABORTED, or no descriptor left. The readiness edge is consumed, so ask again soon.
                _ => {
                    self.counters.one("dropped_no_socket");
                    self.retry_listeners = true;
                    return;
                }
            };
            let Ok(target) = stream.local_addr() else { continue };
            // Without IPv6's flow label and scope, by which SYNs are not known.
            let plain = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
            let ends = (plain(source), plain(target));
            if let Some(far) = self.door.join(ends, other) {
                let near = self.door.engine.tuned_socket(stream);
                self.hand_over(near, false, far);
            } else if let Some(stranger) = self.door.take(self.now, &mut self.pair, stream, ends) {
                // No NFQUEUE here, or it came in the moment before SYNs were held.
                if self.flows() >= self.settings.connections_max {
                    self.counters.one("connections_beyond_max");
                    continue;
                }
                self.door.open_for(self.now, &mut self.pair, (), NEAR, stranger, ends);
            }
            if i >= ARRIVALS_PER_ROUND {
                self.retry_listeners = true;
                return;
            }
        }
    }

    // ---- changes ----

    /// Reads the file again: as a whole or not at all. Open connections keep what they have.
    fn reload(&mut self) {
        // Several signals are one request.
        while matches!((&self.reload_signal).read(&mut [0; 64]), Ok(n) if n > 0) {}
        if self.pending.is_some() || self.kernel.is_busy() {
            return self.refuse_reload("the change before is still being made: ask again");
        }
        let new = match config::load(&self.file) {
            Ok(new) => new,
            Err(e) => return self.refuse_reload(&e.to_string()),
        };
        if let Some(key) = self.settings.fixed_difference(&new) {
            let why = format!("{key} cannot change while wavelaned runs: restart it, or put the old value back");
            return self.refuse_reload(&why);
        }
        if let Err(e) = tunings(&new) {
            return self.refuse_reload(&e.to_string());
        }
        self.kernel.lead(&new.rules(has_ipv6()));
        self.pending = Some(Box::new(new));
    }
    fn refuse_reload(&mut self, why: &str) {
        self.counters.one("reloads_refused");
        self.say(&format!("reload refused, the configuration before it is in force: {why}"));
        self.reload_refused = Some(why.to_owned());
    }
    fn kernel_answers(&mut self) {
        while let Some((change, result)) = Kernel::answered(&mut self.kernel) {
            self.kernel_answered(change, result);
        }
        for hindrance in self.kernel.new_hindrances() {
            self.say(&format!("warning: {hindrance}"));
        }
    }
    fn kernel_answered(&mut self, change: Change, result: Result<(), ToolError>) {
        match (change, result) {
            (Change::Config, Ok(())) => {
                let Some(new) = self.pending.take() else { return };
                if let Ok((tunings, _)) = tunings(&new) {
                    self.door.engine.tune(tunings);
                }
                self.pair.set_config(pair_config(&new));
                self.movers.set_config(pair_config(&new));
                self.settings = *new;
                self.reload_refused = None;
                self.counters.one("reloads");
                self.say("reloaded");
            }
            (Change::Config | Change::Down, Err(e)) => {
                self.pending = None;
                self.refuse_reload(&e.to_string());
            }
            (Change::Down, Ok(())) => {}
            (Change::Gone, Ok(())) => {
                self.counters.one("rules_made_anew");
                self.say("the nft process that holds our rules was killed: nothing was taken for up to a second or two; they are made anew");
            }
            (Change::Gone, Err(e)) => {
                self.say(&format!("the nft process that holds our rules was killed, and they cannot be made anew, so that nothing is taken; this is tried every second: {e}"));
            }
            (Change::Back(part), result) => {
                let (what, by) = part.words();
                let (count, became) = match result {
                    Ok(()) => ("state_put_back", "they are put back".to_owned()),
                    Err(e) => {
                        ("state_missing", format!("they cannot be put back: {e}; restart wavelaned if that stays"))
                    }
                };
                self.counters.one(count);
                self.say(&format!("{what}: another program took them away ({by}), and {became}"));
            }
        }
    }
}
