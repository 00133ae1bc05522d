//! What of ours stands in the kernel. Other programs take it away: each part is watched, and put back.

use crate::config::Config;
use crate::device;
use crate::rules::{self, Family, NUMBER};
use std::net::IpAddr;
use wavelane_host::nft::run;
use wavelane_host::routes::{policy_rules, ruleset_generation, table_routes};

/// What may be taken away by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    /// The policy rules that lead to our tables.
    PolicyRules,
    /// What our tables hold.
    Routes,
    /// The packet door's device: that it is set up, and its addresses.
    Device,
    /// The table that refuses while no gateway runs.
    ClosedTable,
    /// The rules that hold SYNs.
    HeldSyns,
}

impl Part {
    const ALL: [Self; 5] = [Self::PolicyRules, Self::Routes, Self::Device, Self::ClosedTable, Self::HeldSyns];

    /// What it is, and what usually takes it away.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::PolicyRules => (
                "policy rules (`ip rule`, priorities 4780 to 4782)",
                "systemd-networkd removes them when it restarts, unless networkd.conf has ManageForeignRoutingPolicyRules=no",
            ),
            Self::Routes => (
                "routes in our tables 4780 and 4781",
                "`ip route flush` or a network manager that restarts removes them; systemd-networkd spares them with ManageForeignRoutes=no",
            ),
            Self::Device => ("the packet door's device or its addresses", "somebody ran `ip link` or `ip address`"),
            Self::ClosedTable => (
                "the nft table inet wavelane_closed",
                "`nft flush ruleset` removes it, as a restart of nftables.service does",
            ),
            Self::HeldSyns => (
                "the iptables rules that hold SYNs (raw, WAVELANE)",
                "`nft flush ruleset`, `iptables-restore` or a reload of the firewall removes them",
            ),
        }
    }
}

/// The state of all parts at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    /// Both in order.
    rules: Vec<Vec<u8>>,
    routes: Vec<Vec<u8>>,
    /// Whether the device is set up, and its addresses; `None` without a packet door or device.
    device: Option<(bool, Vec<IpAddr>)>,
    closed: Option<String>,
    held: Vec<String>,
    /// Of nft's rulesets: if it is the same, so are the two above.
    generation: Option<u32>,
}

impl Standing {
    /// Reads all parts. What cannot be read is taken to be as it was at `last`.
    pub(crate) fn read(config: &Config, holds_syns: bool, last: &Self) -> Self {
        let priorities = [NUMBER, device::TABLE, device::LOOK].map(u32::from);
        let rules = policy_rules(&priorities).unwrap_or_else(|_| last.rules.clone());
        let tables = [NUMBER, device::TABLE].map(u32::from);
        let routes = table_routes(&tables).unwrap_or_else(|_| last.routes.clone());
        let device = config.tun.as_ref().and_then(|tun| {
            let up = wavelane_host::interface_is_up(&tun.name)?;
            let found = wavelane_host::addresses_of(&tun.name);
            Some((up, tun.addresses.iter().map(|a| a.address).filter(|a| found.contains(a)).collect()))
        });
        let generation = ruleset_generation();
        let same = generation.is_some() && generation == last.generation && !has_older_tables();
        let (closed, held) = match same {
            true => (last.closed.clone(), last.held.clone()),
            false => (closed(config), if holds_syns { held(&last.held) } else { Vec::new() }),
        };
        Self { rules, routes, device, closed, held, generation }
    }
    /// The number of nft's rulesets at that time.
    pub(crate) fn generation(&self) -> Option<u32> {
        self.generation
    }
    /// Whether no SYN is held at all.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }
    /// Parts of this state that are not whole `now`. More than these is no concern of ours.
    pub(crate) fn missing(&self, now: &Self) -> Vec<Part> {
        let lacks = |part: &Part| match part {
            Part::PolicyRules => self.rules.iter().any(|rule| now.rules.binary_search(rule).is_err()),
            Part::Routes => self.routes.iter().any(|route| now.routes.binary_search(route).is_err()),
            Part::Device => match (&self.device, &now.device) {
                (Some((up, addresses)), Some((up_now, found))) => {
                    *up && !up_now || addresses.iter().any(|a| !found.contains(a))
                }
                (Some(_), None) => true,
                (None, _) => false,
            },
            Part::ClosedTable => self.closed.is_some() && self.closed != now.closed,
            Part::HeldSyns => self.held.iter().any(|line| !now.held.contains(line)),
        };
        Part::ALL.into_iter().filter(lacks).collect()
    }
}

/// Whether there are tables of the older iptables, whose changes nft does not number.
fn has_older_tables() -> bool {
    let names = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
    names.iter().any(|path| std::fs::read_to_string(path).is_ok_and(|names| !names.is_empty()))
}

fn closed(config: &Config) -> Option<String> {
    let list = || run("nft", &["-s", "list", "table", "inet", "wavelane_closed"], "").ok();
    rules::is_closed(config).then(list).flatten()
}

/// The rules that hold SYNs; those of a version that cannot be read, or is switched off, as they were at `last`.
fn held(last: &[String]) -> Vec<String> {
    let here: Vec<Family> = Family::here().collect();
    let mut held = Vec::new();
    for family in Family::ALL {
        // The two versions' jumps read alike.
        let mark = format!("{family:?} ");
        match here.contains(&family).then(|| rules::syn_rules(family)).flatten() {
            Some(rules) => held.extend(rules.into_iter().map(|line| mark.clone() + &line)),
            None => held.extend(last.iter().filter(|line| line.starts_with(&mark)).cloned()),
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_named_and_what_others_add_is_not() {
        let stood = Standing {
            rules: vec![vec![1], vec![2]],
            routes: vec![vec![3]],
            device: Some((true, vec![[10, 9, 9, 1].into()])),
            closed: Some("table".into()),
            held: vec!["-A WAVELANE".into()],
            generation: Some(1),
        };
        assert_eq!(stood.missing(&stood), []);
        let mut more = stood.clone();
        more.rules.push(vec![9]);
        more.generation = None;
        assert_eq!(stood.missing(&more), []);
        assert_eq!(stood.missing(&Standing::default()), Part::ALL);
        let down = Standing { device: Some((false, vec![[10, 9, 9, 1].into()])), ..stood.clone() };
        assert_eq!(stood.missing(&down), [Part::Device]);
        assert_eq!(Standing::default().missing(&stood), []);
    }
}
