//! What IPCP negotiates (RFC 1332, sections 3 and 4).

use super::negotiation::{Options, Verdict};
use super::{Cause, Config};
use std::net::Ipv4Addr;
use wavelane_wire::serial::ppp::{Choice, Vj, ipcp, protocol};

/// The address that a peer gets which asks for one when none is configured: what pppd gives (`pppd(8)`, "noremoteip").
pub const FALLBACK_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 64, 64, 64);

#[derive(Debug)]
pub(super) struct Ipcp {
    config: Config,
    local: Option<Ipv4Addr>,
    /// The other end does not talk about addresses.
    mute: bool,
    /// It wants us to have another address than the configured one.
    disputed: bool,
    remote: Option<Ipv4Addr>,
    /// What we take, and what the other end does.
    pub(super) vj_in: Option<Vj>,
    pub(super) vj_out: Option<Vj>,
}

impl Ipcp {
    pub(super) fn new(config: &Config) -> Self {
        let mut ipcp = Self {
            config: config.clone(),
            local: None,
            mute: false,
            disputed: false,
            remote: None,
            vj_in: None,
            vj_out: None,
        };
        ipcp.restart();
        ipcp
    }
    /// Both addresses, if ours is known.
    pub(super) fn addresses(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let remote = self.remote.or(self.config.remote).unwrap_or(FALLBACK_ADDRESS);
        Some((self.local?, remote))
    }
}

impl Options for Ipcp {
    const PROTOCOL: u16 = protocol::IPCP;

    fn restart(&mut self) {
        self.local = self.config.local;
        self.mute = false;
        self.disputed = false;
        self.remote = None;
        self.vj_out = None;
        self.vj_in = self.config.vj_slots.map(|slots| Vj { slot_max: slots.clamp(1, 255) - 1, omits_slot: true });
    }

    fn request(&self, out: &mut Vec<u8>) {
        if let Some(vj) = self.vj_in {
            Choice { kind: ipcp::COMPRESSION, value: &vj.value() }.put(out);
        }
        if !self.mute {
            let address = self.local.unwrap_or(Ipv4Addr::UNSPECIFIED);
            Choice { kind: ipcp::ADDRESS, value: &address.octets() }.put(out);
        }
    }

    fn judge(&mut self, choice: Choice<'_>) -> Verdict {
        let ours = self.config.vj_slots.map(|slots| Vj { slot_max: slots.clamp(1, 255) - 1, omits_slot: true });
        match (choice.kind, choice.u32().map(Ipv4Addr::from)) {
            (ipcp::ADDRESS, Some(address)) => {
                let given = self.config.remote.unwrap_or(FALLBACK_ADDRESS);
                let refused = match self.config.remote {
                    Some(remote) => address != remote,
                    None => address.is_unspecified() || Some(address) == self.local,
                };
                if refused { Verdict::Nak(given.octets().to_vec()) } else { Verdict::Ack }
            }
            (ipcp::COMPRESSION, _) => match (Vj::parse(choice.value), ours) {
                (Some(_), Some(_)) => Verdict::Ack,
                (None, Some(ours)) => Verdict::Nak(ours.value().to_vec()),
                (_, None) => Verdict::Reject,
            },
            _ => Verdict::Reject,
        }
    }

    fn grant(&mut self, choices: &[Choice<'_>]) {
        self.remote = None;
        self.vj_out = None;
        for choice in choices {
            match choice.kind {
                ipcp::ADDRESS => self.remote = choice.u32().map(Ipv4Addr::from),
                ipcp::COMPRESSION => self.vj_out = Vj::parse(choice.value),
                _ => {}
            }
        }
    }

    fn naked(&mut self, choice: Choice<'_>) {
        match (choice.kind, choice.u32().map(Ipv4Addr::from)) {
            (ipcp::ADDRESS, Some(address)) if self.config.local.is_none() && !address.is_unspecified() => {
                self.local = Some(address);
            }
            (ipcp::ADDRESS, Some(address)) => self.disputed = Some(address) != self.local,
            (ipcp::COMPRESSION, _) => {
                self.vj_in = self.vj_in.zip(Vj::parse(choice.value)).map(|(ours, theirs)| Vj {
                    slot_max: ours.slot_max.min(theirs.slot_max),
                    omits_slot: ours.omits_slot && theirs.omits_slot,
                });
            }
            _ => {}
        }
    }

    fn rejected(&mut self, kind: u8) {
        match kind {
            ipcp::ADDRESS => self.mute = true,
            ipcp::COMPRESSION => self.vj_in = None,
            _ => {}
        }
    }

    fn failure(&self) -> Option<Cause> {
        if self.mute && self.disputed {
            return Some(Cause::NoAgreement);
        }
        (self.mute && self.local.is_none()).then_some(Cause::NoAddress)
    }
}
