//! IPv4 and IPv6: what `ip`, nft and iptables call either.

use std::net::IpAddr;
use wavelane_base::IpPrefix;
use wavelane_host::nft::{ToolError, run};

/// Most leftover policy rules removed at start.
const LEFTOVERS_MAX: usize = 64;

/// One IP version, as the tools name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Those that this kernel has.
    pub(crate) fn here() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().take(1 + usize::from(wavelane_host::has_ipv6()))
    }
    pub(crate) fn of(prefix: &IpPrefix) -> Self {
        Self::of_address(prefix.address)
    }
    pub(crate) fn of_address(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
    /// Removes the policy rules of one priority.
    pub(crate) fn remove_rules(self, priority: u16) {
        for _ in 0..LEFTOVERS_MAX {
            if run("ip", &[self.ip_flag(), "rule", "del", "priority", &priority.to_string()], "").is_err() {
                break;
            }
        }
    }
    /// Adds a policy rule, unless it stands.
    pub(crate) fn add_rule(self, which: &[&str]) -> Result<(), ToolError> {
        let added = run("ip", &[&[self.ip_flag(), "rule", "add"], which].concat(), "").map(drop);
        added.or_else(|e| if e.to_string().contains("File exists") { Ok(()) } else { Err(e) })
    }
    /// Does one thing for each version that this kernel has now, whether or not it fails for another; the first failure.
    pub(crate) fn each(each: impl FnMut(Self) -> Result<(), ToolError>) -> Result<(), ToolError> {
        Self::here().map(each).fold(Ok(()), Result::and)
    }
    /// ip's flag.
    pub(crate) fn ip_flag(self) -> &'static str {
        ["-4", "-6"][self as usize]
    }
    pub(crate) fn everything(self) -> &'static str {
        ["0.0.0.0/0", "::/0"][self as usize]
    }
    /// The same as two networks: a set cannot hold an interval of zero bits on every nft version.
    pub(super) fn halves(self) -> [&'static str; 2] {
        [["0.0.0.0/1", "128.0.0.0/1"], ["::/1", "8000::/1"]][self as usize]
    }
    /// nft's word for it, in matches and as a table's family.
    pub(crate) fn nft(self) -> &'static str {
        ["ip", "ip6"][self as usize]
    }
    pub(super) fn nft_set(self) -> &'static str {
        ["routes4", "routes6"][self as usize]
    }
    pub(super) fn localhost(self) -> &'static str {
        ["127.0.0.1", "[::1]"][self as usize]
    }
    pub(crate) fn iptables(self) -> &'static str {
        ["iptables", "ip6tables"][self as usize]
    }
    pub(crate) fn iptables_restore(self) -> &'static str {
        ["iptables-restore", "ip6tables-restore"][self as usize]
    }
}
