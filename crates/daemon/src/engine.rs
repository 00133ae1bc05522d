//! The door's engine on the kernel's sockets: SYNs held in NFQUEUE, transparent listeners, raw sockets for refusals.

use crate::connection::KernelSocket;
use crate::start::Transparent;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use wavelane_base::{Instant, IpPrefix};
use wavelane_door::{Engine, Refusal};
use wavelane_gateway::Reason;
use wavelane_host::nfqueue::{HeldPacket, NfQueue};
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::tcp::{self, Buffers, Tuning};

/// See the module's description.
pub(crate) struct KernelEngine {
    pub(crate) transparent: Option<Transparent>,
    /// What the daemon waits by.
    poller: Poller,
    mark: Option<u32>,
    next_token: u64,
    tunings: Option<Tunings>,
    /// Of the socket that was made last and is not adopted yet.
    made: Option<Buffers>,
}

/// How sockets are set, by their remote end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunings {
    /// The first whose networks hold the remote address counts.
    pub(crate) towards: Vec<(Vec<IpPrefix>, Tuning)>,
    /// All others.
    pub(crate) usual: Tuning,
}

impl Tunings {
    fn of(&self, remote: IpAddr) -> &Tuning {
        let holds = |(networks, _): &&(Vec<IpPrefix>, Tuning)| networks.iter().any(|network| network.contains(remote));
        self.towards.iter().find(holds).map_or(&self.usual, |(_, tuning)| tuning)
    }
    /// Buffers that hold what each of them may hold.
    pub(crate) fn largest(&self) -> Buffers {
        let all = || self.towards.iter().map(|(_, tuning)| tuning.buffers).chain([self.usual.buffers]);
        let most = |of: fn(Buffers) -> usize| all().map(of).max().unwrap_or_default();
        Buffers { send: most(|b| b.send), receive_max: most(|b| b.receive_max), adapts: self.usual.buffers.adapts }
    }
}

impl KernelEngine {
    /// Connections are numbered from `first_token`, and no number is used twice.
    pub(crate) fn new(transparent: Option<Transparent>, poller: Poller, mark: Option<u32>, first_token: u64) -> Self {
        Self { transparent, poller, mark, next_token: first_token, tunings: None, made: None }
    }
    /// Sets new sockets like this from now on.
    pub(crate) fn tune(&mut self, tunings: Tunings) {
        self.tunings = Some(tunings);
    }
    /// Sets an accepted socket; one that we made was set then.
    fn tuned(&mut self, stream: &TcpStream) -> Buffers {
        let Some(tunings) = &self.tunings else { return Buffers::default() };
        if let Some(buffers) = self.made.take() {
            return buffers;
        }
        let Ok(remote) = stream.peer_addr() else { return Buffers::default() };
        let tuning = tunings.of(remote.ip());
        let _ = tuning.apply_to_client(stream);
        set_room(stream, tuning);
        tuning.buffers
    }
    /// An accepted socket that is not watched.
    pub(crate) fn tuned_socket(&mut self, stream: TcpStream) -> KernelSocket {
        let buffers = self.tuned(&stream);
        KernelSocket(stream, buffers)
    }
    /// Where SYNs are held.
    pub(crate) fn queue(&self) -> Option<&NfQueue> {
        self.transparent.as_ref().and_then(|t| t.queue.as_ref())
    }
}

impl Engine for KernelEngine {
    type Held = HeldPacket;
    type Fresh = TcpStream;
    type Kept = KernelSocket;
    type Socket<'a> = &'a mut KernelSocket;
    /// The peer's public key: its place in the configuration may change.
    type Tag = [u8; 32];

    fn adopt(&mut self, stream: TcpStream) -> Option<(u64, KernelSocket)> {
        let token = self.next_token;
        self.next_token += 1;
        let socket = self.tuned_socket(stream);
        self.poller.add(&socket.0, token, Watch::Edges).ok()?;
        Some((token, socket))
    }
    fn socket<'a>(&'a mut self, _: Instant, _: u64, socket: &'a mut KernelSocket) -> &'a mut KernelSocket {
        socket
    }
    fn connect(&mut self, _: Instant, from: Option<SocketAddr>, target: SocketAddr) -> Result<TcpStream, Reason> {
        let Some(tunings) = &self.tunings else {
            return tcp::connect(target, from, self.mark).map_err(|error| why(&error));
        };
        let tuning = tunings.of(target.ip());
        let stream = tcp::connect_with(target, from, self.mark, tuning.buffers).map_err(|error| why(&error))?;
        let _ = tuning.apply(&stream);
        set_room(&stream, tuning);
        self.made = Some(tuning.buffers);
        Ok(stream)
    }
    fn reset(&mut self, _: Instant, _: u64, socket: KernelSocket) {
        // Before an orderly end a close resets.
        drop(socket);
    }
    fn let_go(&mut self, _: Instant, held: HeldPacket) {
        if let Some(queue) = self.queue() {
            let _ = queue.accept(held);
        }
    }
    fn discard(&mut self, held: HeldPacket) {
        if let Some(queue) = self.queue() {
            let _ = queue.discard(held);
        }
    }
    fn refuse(&mut self, refusal: Refusal, to: IpAddr) {
        if let Some(t) = &self.transparent {
            let _ = match (refusal, to) {
                (Refusal::Icmp6(message), IpAddr::V6(to)) => t.raw.send_icmp6(&message, to),
                (Refusal::Packet(packet) | Refusal::Icmp6(packet), to) => t.raw.send(&packet, to),
            };
        }
    }
}

/// What the kernel refuses was asked of it at the start; a refusal now leaves the socket as it is.
fn set_room(stream: &TcpStream, tuning: &Tuning) {
    let _ = tcp::set_receive_room(stream, tuning.buffers.receive_max, tuning.buffers);
}

/// Why a connect failed.
pub(crate) fn why(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Reason::Refused,
        ErrorKind::TimedOut => Reason::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Reason::Unreachable,
        ErrorKind::PermissionDenied => Reason::Prohibited,
        _ => Reason::NoRoom,
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
