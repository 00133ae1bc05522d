//! The machine itself.

use super::{HandshakeOut, Incoming, SessionEvent, SessionsConfig};
use std::net::SocketAddr;
use wavelane_base::{Entropy, Instant, PortId, Wakeup};

/// Every key and handshake of one node.
pub struct Sessions {
    config: SessionsConfig,
}

impl Sessions {
    /// Builds it. No handshake starts before [`Sessions::want`].
    pub fn new(_now: Instant, config: SessionsConfig, _entropy: Entropy) -> Self {
        Self { config }
    }
    /// There is something to send to `peer` (or no longer): starts and keeps a session. Repeating it is free.
    pub fn want(&mut self, _now: Instant, _peer: usize, _wanted: bool) {}
    /// The owner has evidence that `peer` lost its keys (several tail probes unanswered): starts a handshake now,
    /// although keys stand. They stay in use meanwhile. Does nothing unless the peer is wanted.
    pub fn suspect(&mut self, _now: Instant, _peer: usize) {}
    /// Takes one received datagram. Data is opened in place.
    pub fn handle_datagram(
        &mut self,
        _now: Instant,
        _port: PortId,
        _datagram: &mut [u8],
        _from: Option<SocketAddr>,
    ) -> Incoming {
        Incoming::Handled
    }
    /// The next handshake datagram for `port`, if any. `buf` holds at least
    /// [`wavelane_wire::datagram::HANDSHAKE_MAX`] bytes; with less nothing is written.
    pub fn poll_handshake(&mut self, _now: Instant, _port: PortId, _buf: &mut [u8]) -> Option<HandshakeOut> {
        None
    }
    /// Whether [`Sessions::seal`] would succeed now.
    pub fn can_seal(&self, _now: Instant, _peer: usize) -> bool {
        false
    }
    /// Seals `plain_len` bytes that lie at `buf[DATA_HEADER_LEN..]` in place, writes the header before and the tag
    /// behind them, and returns the datagram's length. `None` if no session stands.
    ///
    /// # Panics
    /// If `number` is not greater than every earlier one of this lane (a repeated nonce gives the keys away), if
    /// `lane` is not below [`super::LANES_MAX`], or if `buf` has no room for header, plaintext and tag.
    pub fn seal(
        &mut self,
        _now: Instant,
        _peer: usize,
        _lane: u8,
        _number: u64,
        _buf: &mut [u8],
        _plain_len: usize,
    ) -> Option<usize> {
        None
    }
    /// The peer is now reached at `address` through `port`.
    pub fn set_address(&mut self, _now: Instant, peer: usize, address: SocketAddr, port: PortId) {
        self.config.peers[peer].address = Some(address);
        self.config.peers[peer].port = port;
    }
    /// Where the peer is reached.
    pub fn address(&self, peer: usize) -> Option<SocketAddr> {
        self.config.peers[peer].address
    }
    /// The peer's boot epoch, once a session stood.
    pub fn epoch(&self, _peer: usize) -> Option<u64> {
        None
    }
    /// Tells that time has passed.
    pub fn handle_timeout(&mut self, _now: Instant) {}
    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        None
    }
    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        None
    }
    /// Dropped datagrams by reason: (`dropped_<reason>`, how many), always all reasons in the same order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The public key of a private key.
pub fn public_key(_private: &[u8; 32]) -> [u8; 32] {
    [0; 32]
}

/// A new key pair: (private, public).
pub fn generate(entropy: &mut Entropy) -> ([u8; 32], [u8; 32]) {
    let mut private = [0; 32];
    entropy.fill(&mut private);
    (private, public_key(&private))
}

impl core::fmt::Debug for Sessions {
    /// Shows no keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sessions").field("peers", &self.config.peers.len()).finish_non_exhaustive()
    }
}
