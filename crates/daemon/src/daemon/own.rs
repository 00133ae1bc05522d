//! Which addresses are this machine's own, and which targets and sources peers may use.

use super::{ADDRESSES_FRESH, Daemon};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::Span;
use wavelane_gateway::{PeerId, Reason};
use wavelane_host::own_addresses;

/// One refusal per peer is logged in this time, so that one peer cannot fill the log.
const DENIAL_EVERY: Span = Span::from_secs(1);
/// The same of refusals by one peer: a whole network's applications may be refused.
const REFUSAL_EVERY: Span = Span::from_secs(30);

impl Daemon {
    /// Reads the list of our own addresses again once it is old. A list that cannot be read is asked for again at the
    /// next occasion; until then none is known, and any address may be ours.
    pub(super) fn know_own_addresses(&mut self) {
        if self.own.is_some() && self.own_read.is_some_and(|at| self.now.since(at) < ADDRESSES_FRESH) {
            return;
        }
        match own_addresses() {
            Ok(own) => {
                self.gateway.set_own_addresses(own.clone());
                self.own = Some(own);
            }
            Err(e) => {
                self.own = None;
                self.warn(&format!(
                    "cannot read this machine's own addresses ({e}), so peers reach only targets listed as a /32 or /128: check limits (ulimit -n)"
                ));
            }
        }
        self.own_read = Some(self.now);
    }

    /// The kernel reports that an address came or went. A local address that peers used and that is gone is left at once.
    pub(super) fn look_at_addresses(&mut self) {
        let before = self.own.clone().unwrap_or_default();
        self.own_read = None;
        self.know_own_addresses();
        let Some(own) = &self.own else { return };
        let gone: Vec<IpAddr> = before.into_iter().filter(|address| !own.contains(address)).collect();
        if !gone.is_empty() {
            self.gateway.addresses_gone(self.now, &gone);
        }
    }

    /// Whether the peer may have us connect to `target`; if not, the reason for its refusal.
    pub(super) fn judge_target(&mut self, peer: PeerId, target: SocketAddr) -> Result<(), Reason> {
        self.know_own_addresses();
        if self.config.may_connect(peer.0, target.ip(), self.own.as_deref()) {
            return Ok(());
        }
        if self.own.is_none() && self.config.may_connect(peer.0, target.ip(), Some(&[])) {
            self.counters.one("dropped_own_addresses_unknown");
            return Err(Reason::NoRoom);
        }
        self.counters.one("dropped_target_denied");
        self.denied(peer, target, false);
        Err(Reason::Prohibited)
    }

    /// A peer does not let us reach a target: this side's operator sees why its applications are refused.
    pub(super) fn prohibited(&mut self, peer: usize, target: SocketAddr) {
        self.counters.one("refused_by_peer");
        self.tell_of_refusal(peer, target);
    }

    /// The same of a packet; which peer it went to is not known yet, and a search for each would cost too much.
    pub(super) fn packet_prohibited(&mut self, target: IpAddr) {
        self.counters.one("refused_by_peer");
        if self.packet_refusals.take(self.now).is_some()
            && let Some(peer) = self.config.route(target, |_| false)
        {
            self.tell_of_refusal(peer, target);
        }
    }

    fn tell_of_refusal(&mut self, peer: usize, target: impl std::fmt::Display) {
        if self.refusals_told.get(&peer).is_some_and(|at| self.now.since(*at) < REFUSAL_EVERY) {
            return;
        }
        self.refusals_told.insert(peer, self.now);
        let name = self.peer_name(PeerId(peer)).to_owned();
        self.warn(&format!(
            "peer '{name}' does not let us reach {target}: list its network in gateway.serves or allow_targets there, or leave it out of the peer's `routes` here"
        ));
    }

    /// Logs that a peer asked for an address that it may not use; the counters count all.
    pub(super) fn denied(&mut self, peer: PeerId, address: SocketAddr, by_source: bool) {
        if self.denials_told.get(&peer.0).is_some_and(|at| self.now.since(*at) < DENIAL_EVERY) {
            return;
        }
        self.denials_told.insert(peer.0, self.now);
        let name = self.peer_name(peer).to_owned();
        self.warn(&if by_source {
            format!("peer '{name}' may not use the source {address}: list it in its routes or allow_sources if it may")
        } else {
            let ip = address.ip();
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            format!(
                "peer '{name}' may not have us connect to {address}: if it may, list its network in gateway.serves or its allow_targets; this machine's own, link-local and cloud metadata addresses only as themselves ({ip}/{bits})"
            )
        });
    }
}
