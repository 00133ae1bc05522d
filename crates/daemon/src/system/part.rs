//! What of ours in the kernel may be taken away by itself.

/// What may be taken away by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    /// The policy rules that lead to our tables.
    PolicyRules,
    /// What our tables hold.
    Routes,
    /// The packet door's device: that it is set up, and its addresses.
    Device,
    /// That the device lets packets arrive whose source is reached another way.
    ReversePath,
    /// The table that refuses while no gateway runs.
    ClosedTable,
    /// The rules that hold SYNs.
    HeldSyns,
    /// The table that resets what a proxy on our own TCP had, once that is gone.
    OrphansTable,
}

impl Part {
    pub(crate) const ALL: [Self; 7] = [
        Self::PolicyRules,
        Self::Routes,
        Self::Device,
        Self::ReversePath,
        Self::ClosedTable,
        Self::HeldSyns,
        Self::OrphansTable,
    ];

    /// What it is, with our device's name, and what usually takes it away.
    pub(crate) fn words(self, device: &str) -> (String, String) {
        let (what, by) = match self {
            Self::PolicyRules => (
                "policy rules (`ip rule`, priorities 4780 to 4782)",
                "systemd-networkd removes them when it restarts, unless networkd.conf has ManageForeignRoutingPolicyRules=no",
            ),
            Self::Routes => (
                "routes in our tables 4780 and 4781",
                "`ip route flush` or a network manager that restarts removes them, `ip route add ... table` adds others; systemd-networkd spares them with ManageForeignRoutes=no",
            ),
            Self::Device => ("the device {device}, its MTU or its addresses", "somebody ran `ip link` or `ip address`"),
            Self::ReversePath => (
                "settings of the device {device} (`rp_filter` became 1, which drops what arrives there)",
                "somebody ran `sysctl` with net.ipv4.conf.all.rp_filter or net.ipv4.conf.{device}.rp_filter as 1",
            ),
            Self::ClosedTable => (
                "the nft table inet wavelane_closed",
                "`nft flush ruleset` removes it, as a restart of nftables.service does",
            ),
            Self::HeldSyns => (
                "the iptables rules that hold SYNs (raw, WAVELANE)",
                "`nft flush ruleset`, `iptables-restore` or a reload of the firewall removes them",
            ),
            Self::OrphansTable => (
                "the nft table inet wavelane_orphans",
                "`nft flush ruleset` removes it, as a restart of nftables.service does",
            ),
        };
        (what.replace("{device}", device), by.replace("{device}", device))
    }
}
