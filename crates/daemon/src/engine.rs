//! The door's engine on the kernel's sockets: SYNs held in NFQUEUE, transparent listeners, raw sockets for refusals.

use crate::connection::KernelSocket;
use crate::start::Transparent;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use wavelane_base::Instant;
use wavelane_door::{Engine, Refusal};
use wavelane_gateway::Reason;
use wavelane_host::nfqueue::{Held, NfQueue};
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::tcp;

/// See the module's description.
pub(crate) struct KernelEngine {
    pub(crate) transparent: Option<Transparent>,
    /// What the daemon waits by.
    poller: Poller,
    mark: Option<u32>,
    next_token: u64,
}

impl KernelEngine {
    /// Connections are numbered from `first_token`, and no number is used twice.
    pub(crate) fn new(transparent: Option<Transparent>, poller: Poller, mark: Option<u32>, first_token: u64) -> Self {
        Self { transparent, poller, mark, next_token: first_token }
    }
    /// Where SYNs are held.
    pub(crate) fn queue(&self) -> Option<&NfQueue> {
        self.transparent.as_ref().and_then(|t| t.queue.as_ref())
    }
}

impl Engine for KernelEngine {
    type Held = Held;
    type Fresh = TcpStream;
    type Kept = KernelSocket;
    type Socket<'a> = &'a mut KernelSocket;
    /// The peer's public key: its place in the configuration may change.
    type Tag = [u8; 32];

    fn adopt(&mut self, stream: TcpStream) -> Option<(u64, KernelSocket)> {
        let token = self.next_token;
        self.next_token += 1;
        self.poller.add(&stream, token, Watch::Edges).ok()?;
        Some((token, KernelSocket(stream)))
    }
    fn socket<'a>(&'a mut self, _: Instant, _: u64, socket: &'a mut KernelSocket) -> &'a mut KernelSocket {
        socket
    }
    fn connect(&mut self, _: Instant, from: Option<SocketAddr>, target: SocketAddr) -> Result<TcpStream, Reason> {
        tcp::connect(target, from, self.mark).map_err(|error| why(&error))
    }
    fn reset(&mut self, _: Instant, _: u64, socket: KernelSocket) {
        // Before an orderly end a close resets.
        drop(socket);
    }
    fn let_go(&mut self, _: Instant, held: Held) {
        if let Some(queue) = self.queue() {
            let _ = queue.accept(held);
        }
    }
    fn discard(&mut self, held: Held) {
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
