//! Octets of IP sent and received by each host.

use super::packet::Address;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of distinguished hosts; packets between others are counted together.
pub const HOSTS_MAX: usize = 1 << 16;

/// One host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its address.
    pub address: IpAddr,
    /// Octets of IP packets that it sent.
    pub sent_bytes: u64,
    /// Octets of IP packets that were sent to it.
    pub received_bytes: u64,
}

impl Host {
    /// Received divided by sent; `None` if it sent nothing.
    pub fn ratio(&self) -> Option<f64> {
        (self.sent_bytes > 0).then(|| self.received_bytes as f64 / self.sent_bytes as f64)
    }
    /// Whether one direction carries more than three times what the other does.
    pub fn asymmetric(&self) -> bool {
        self.sent_bytes > 3 * self.received_bytes || self.received_bytes > 3 * self.sent_bytes
    }
}

/// All hosts of a capture.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    by_address: BTreeMap<Address, (u64, u64)>,
    /// Octets sent or received by hosts beyond [`HOSTS_MAX`].
    pub others_bytes: u64,
}

impl Hosts {
    pub(crate) fn add(&mut self, from: Address, to: Address, octets: u64) {
        if let Some(host) = self.host(from) {
            host.0 += octets;
        } else {
            self.others_bytes += octets;
        }
        if let Some(host) = self.host(to) {
            host.1 += octets;
        } else {
            self.others_bytes += octets;
        }
    }
    fn host(&mut self, address: Address) -> Option<&mut (u64, u64)> {
        if self.by_address.len() >= HOSTS_MAX && !self.by_address.contains_key(&address) {
            return None;
        }
        Some(self.by_address.entry(address).or_default())
    }
    /// The hosts, by descending number of octets.
    pub fn list(&self) -> Vec<Host> {
        let mut hosts: Vec<Host> = self
            .by_address
            .iter()
            .map(|(a, &(sent_bytes, received_bytes))| Host { address: a.ip(), sent_bytes, received_bytes })
            .collect();
        hosts.sort_by_key(|h| (core::cmp::Reverse(h.sent_bytes + h.received_bytes), h.address));
        hosts
    }
    /// The share of hosts that are asymmetric; `None` without hosts.
    pub fn asymmetric_share(&self) -> Option<f64> {
        let hosts = self.list();
        let asymmetric = hosts.iter().filter(|h| h.asymmetric()).count();
        (!hosts.is_empty()).then(|| asymmetric as f64 / hosts.len() as f64)
    }
}
