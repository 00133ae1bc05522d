//! Peers that are down: applications must not wait for them. Where `on_failure` is `open` their networks are given back to the
//! kernel, which forwards plainly; where it is `closed`, and where there is no plain path, new connections are refused at once.

use super::Daemon;
use super::changes::Changes;
use crate::system::installed::Change;
use crate::system::kernel::Kernel;
use crate::system::part::Part;
use crate::system::rules::Down;
use std::net::IpAddr;
use wavelane_base::Span;
use wavelane_door::Syn;
use wavelane_gateway::{PeerId, Reason};
use wavelane_host::nfqueue::HeldPacket;
use wavelane_host::nft::ToolError;

/// Most SYNs held until the kernel's rules have changed: as many as attempts.
pub(super) const WAITING_MAX: usize = 2_048;
/// A failed change of the kernel's rules is retried after this long; else a peer that is back would stay bypassed for ever.
const AGAIN: Span = Span::from_secs(5);

impl Daemon {
    /// The peer was silent for too long.
    pub(super) fn peer_down(&mut self, peer: PeerId) {
        let now = self.now;
        let Some(contact) = self.peers.get_mut(peer.0) else { return };
        if contact.up {
            contact.turn(now, false);
        }
        contact.down = true;
        contact.told_down();
        let name = self.peer_name(peer).to_owned();
        let stood_in = self.config.is_stood_in(peer.0, |other| self.is_down(other));
        self.say(&match (self.gives_back(peer.0), self.config.intercept.is_some()) {
            (_, true) if stood_in => {
                format!("peer '{name}' is down: what goes to its networks goes to other peers that have them, until it is back")
            }
            (true, _) => {
                format!("peer '{name}' is down: what goes to its networks is forwarded plainly until it is back")
            }
            (false, true) if self.has_networks(peer.0) => {
                // Without a device the kernel forwards what is not TCP.
                let what = if self.config.tun.is_some() { "what goes" } else { "TCP" };
                format!("peer '{name}' is down: {what} to its networks is refused until it is back")
            }
            _ => format!("peer '{name}' is down"),
        });
        self.doubt(peer.0);
        self.gateway.refuse_unanswered(now, peer);
        self.give_back();
    }
    pub(super) fn is_down(&self, peer: usize) -> bool {
        self.peers.get(peer).is_some_and(|c| c.down)
    }
    /// Whether the peer is down and the kernel is to forward plainly what goes there.
    pub(super) fn gives_back(&self, peer: usize) -> bool {
        self.has_networks(peer) && self.is_down(peer) && self.config.is_open()
    }
    /// Whether the peer is down and what goes to networks that only it has is refused.
    pub(super) fn is_refused(&self, peer: usize) -> bool {
        let refuses = self.config.is_closed() && self.has_networks(peer) && self.is_down(peer);
        refuses && !self.config.is_stood_in(peer, |other| self.is_down(other))
    }
    fn has_networks(&self, peer: usize) -> bool {
        self.config.peers.get(peer).is_some_and(|p| !p.routes.is_empty())
    }
    /// Whether the kernel forwards plainly what goes to networks that only this peer has, or is about to.
    pub(super) fn is_given_back(&self, peer: usize) -> bool {
        let is = |peer| self.kernel_and_key(peer).is_some_and(|(kernel, key)| kernel.gives_back(&key));
        is(peer) && !self.config.is_stood_in(peer, is)
    }
    /// Whether the kernel's rules treat the peer as down.
    fn kernel_passes_by(&self, peer: usize) -> bool {
        self.kernel_and_key(peer).is_some_and(|(kernel, key)| kernel.given_back().contains(&key))
    }
    fn kernel_and_key(&self, peer: usize) -> Option<(&Kernel, [u8; 32])> {
        self.kernel.as_ref().zip(self.config.peers.get(peer).map(|p| p.public_key))
    }
    /// Whether the kernel forwards plainly what goes to `target`.
    pub(super) fn is_passed(&self, target: IpAddr) -> bool {
        self.config.route(target, |peer| self.kernel_passes_by(peer)).is_some_and(|peer| self.kernel_passes_by(peer))
    }
    /// Tells the kernel which peers' networks to forward plainly, if that has changed.
    pub(super) fn give_back(&mut self) {
        let wanted: Down = (0..self.peers.len())
            .filter(|peer| self.gives_back(*peer))
            .filter_map(|peer| self.config.peers.get(peer).map(|p| p.public_key))
            .collect();
        let Some(kernel) = self.kernel.as_mut().filter(|k| !k.is_busy()) else { return };
        self.give_back_again = None;
        if *kernel.given_back() != wanted {
            return kernel.give_back(&wanted);
        }
        // Nothing is left to wait for; a peer that is back already takes them.
        for held in std::mem::take(&mut self.to_pass) {
            self.door.let_go(self.now, held);
        }
    }
    /// The kernel has answered.
    pub(super) fn kernel_answers(&mut self) {
        while let Some((change, result)) = self.kernel.as_mut().and_then(Kernel::answered) {
            self.kernel_answered(change, result);
        }
        for note in self.kernel.as_ref().map(Kernel::notes).unwrap_or_default() {
            if let Some(unsaid) = self.notes_told.take(self.now) {
                self.say(&format!("{note}{}", Changes::unsaid(unsaid)));
            }
        }
        if let Some(tun) = self.kernel.as_ref().and_then(Kernel::new_device) {
            self.replace_device(tun);
        }
        for hindrance in self.kernel.as_mut().map(Kernel::new_hindrances).unwrap_or_default() {
            self.say(&format!("warning: {hindrance}"));
        }
    }
    fn kernel_answered(&mut self, change: Change, result: Result<(), ToolError>) {
        match (change, result) {
            (Change::Gone, Ok(())) => {
                self.counters.one("rules_made_anew");
                return self.say("the nft process that holds our rules was killed: nothing was taken for up to a second or two; they are made anew");
            }
            (Change::Gone, Err(e)) => {
                return self.say(&format!(
                    "the nft process that holds our rules was killed, and they cannot be made anew, so that nothing is taken; this is tried every second: {e}"
                ));
            }
            (Change::Back(part), result) => return self.told_of_loss(part, result),
            (Change::Config, result) => self.led(result),
            (Change::Down, Ok(())) => {}
            (Change::Down, Err(e)) => {
                self.counters.one("dropped_give_back");
                self.say(&format!(
                    "the rules for peers that are down could not be installed, so until then new connections may be refused, or bypass the gateway: {e}"
                ));
                for held in std::mem::take(&mut self.to_pass) {
                    self.door.discard(Some(held));
                }
                // An immediate retry would fail again.
                self.give_back_again = Some(self.now + AGAIN);
                return self.go_on_reloading();
            }
        }
        // A reload that was requested meanwhile.
        self.go_on_reloading();
        self.give_back();
    }
    /// Another program took away what we installed.
    fn told_of_loss(&mut self, part: Part, result: Result<(), ToolError>) {
        let device = self.config.tun.as_ref().map_or("", |tun| &tun.name);
        let (count, line) = self.losses.told(self.now, part, result, device);
        self.counters.one(count);
        if let Some(line) = line {
            self.say(&line);
        }
    }
    /// A SYN to a peer that is down, and that no flow waits for. Gives it to the kernel as soon as that forwards it
    /// plainly, or answers it.
    pub(super) fn pass_or_refuse(&mut self, peer: usize, syn: &Syn, held: Option<HeldPacket>) {
        if !self.gives_back(peer) {
            self.counters.one("connections_refused");
            return self.door.refuse_syn(syn, held, Reason::Unreachable);
        }
        let is_told = self.kernel.as_ref().is_some_and(Kernel::is_busy);
        match held {
            None => {}
            Some(held) if self.is_passed(syn.target.ip()) => {
                self.counters.one("connections_passed");
                self.door.let_go(self.now, held);
            }
            Some(held) if is_told && self.to_pass.len() < WAITING_MAX => {
                self.counters.one("connections_passed");
                self.to_pass.push(held);
            }
            Some(held) if is_told => self.door.discard(Some(held)),
            Some(held) => {
                self.counters.one("connections_refused");
                self.door.refuse_syn(syn, Some(held), Reason::Unreachable);
            }
        }
    }
}
