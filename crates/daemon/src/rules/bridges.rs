//! What hosts on one bridge of this host send each other. Where br_netfilter is switched on, as Docker does, the rules of the IP versions see
//! frames that are only bridged, and would take TCP that never was to come to us.

use super::MARK_BRIDGED;
use crate::config::Config;
use std::fs::read_to_string;
use wavelane_host::routes::devices;

/// Bridges among the intercepted interfaces whose frames our rules see, and how those for this host are told from others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bridged {
    bridges: Vec<String>,
    /// The link addresses of this host's interfaces, in order.
    own: Vec<String>,
}

impl Bridged {
    /// As they are now. None at all where br_netfilter is switched off.
    pub(crate) fn read(config: &Config) -> Self {
        let is_on =
            |key| read_to_string(format!("/proc/sys/net/bridge/bridge-nf-call-{key}")).is_ok_and(|v| v.trim() == "1");
        if !["iptables", "ip6tables"].into_iter().any(is_on) {
            return Self::default();
        }
        let devices = devices().unwrap_or_default();
        let names = config.intercept.iter().flat_map(|intercept| &intercept.interfaces);
        let is_bridge = |name: &&String| devices.iter().any(|device| device.is_bridge && device.name == **name);
        let bridges: Vec<String> = names.filter(is_bridge).cloned().collect();
        if bridges.is_empty() {
            return Self::default();
        }
        let mut own: Vec<String> = devices.iter().filter_map(|device| device.ethernet).map(ethernet).collect();
        own.sort_unstable();
        own.dedup();
        Self { bridges, own }
    }
    /// Matches frames that pass from one port of a bridge to another. `None` if there can be none.
    fn matching(&self) -> Option<String> {
        let names: Vec<String> = self.bridges.iter().map(|name| format!("\"{name}\"")).collect();
        (!names.is_empty() && !self.own.is_empty())
            .then(|| format!("iifname {{ {} }} ether daddr != {{ {} }}", names.join(", "), self.own.join(", ")))
    }
    /// The chain that marks first packets among them before they are held or taken.
    pub(super) fn chain(&self, syn: &str) -> String {
        self.matching().map_or_else(String::new, |matching| {
            format!(
                " chain bridged {{ type filter hook prerouting priority raw - 10; policy accept; \
                 {matching} {syn} meta mark set {MARK_BRIDGED:#x}; }};"
            )
        })
    }
    /// Keeps the table that refuses from them.
    pub(super) fn spared(&self) -> String {
        self.matching().map_or_else(String::new, |matching| format!("  {matching} return\n"))
    }
}

/// As nft writes an address.
fn ethernet(octets: [u8; 6]) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}
