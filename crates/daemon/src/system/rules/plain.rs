//! Connections that go past us while a peer is down, where `on_failure` is `open`: once they were answered plainly they stay
//! plain when the peer is back, and plain requests are answered plainly.
//!
//! Which way a connection's packets leave says what it is, until it is answered: through the packet door, or past it. That
//! is written on the connection and stays from the first answer on. A flow of datagrams that nobody answers plainly is
//! taken again as soon as the peer is back.

use super::ranges::{all_routes, element, split_routes};
use super::tables::set;
use crate::config::marks::{MARK_CARRIED, MARK_OWN, MARK_PLAIN};
use crate::config::{Config, Tun};
use crate::system::family::Family;

/// A packet of a connection that stays plain.
fn stays_plain() -> String {
    format!("ct mark {MARK_PLAIN:#x} ct status seen-reply meta mark set {MARK_PLAIN:#x}")
}

/// The chain that locally generated packets pass first.
pub(super) fn plain_born(config: &Config) -> String {
    if config.tun.is_some() && config.is_open() { format!(" {} return;", stays_plain()) } else { String::new() }
}

/// The chains that know plain connections, beside a packet door.
pub(super) fn plain_chains(config: &Config, tun: &Tun) -> String {
    if !config.is_open() {
        return String::new();
    }
    let networks = |family: Family, routes: &dyn Fn(&Config, Family) -> Vec<wavelane_base::IpPrefix>| {
        routes(config, family).into_iter().flat_map(|r| element(family, r)).collect::<Vec<String>>()
    };
    let (mut sets, mut older, mut passes) = (String::new(), String::new(), String::new());
    for family in Family::ALL {
        let (nft, [all, split]) = (family.nft(), [["all4", "split4"], ["all6", "split6"]][family as usize]);
        sets += &set(all, family, &networks(family, &all_routes));
        sets += &set(split, family, &networks(family, &split_routes));
        // Where TCP is split, a connection whose beginning we did not see is no concern of ours.
        older += &format!(
            " ct state new tcp flags & (fin | syn | rst | ack) != syn {nft} daddr @{split} fib daddr type != local \
             ct mark set {MARK_PLAIN:#x} meta mark set {MARK_PLAIN:#x};"
        );
        for end in ["saddr", "daddr"] {
            passes += &format!(
                " ct state new ct mark {{ 0, {MARK_CARRIED:#x} }} {nft} {end} @{all} ct mark set {MARK_PLAIN:#x};"
            );
        }
    }
    let (device, carried) = (&tun.name, format!("ct mark {{ 0, {MARK_PLAIN:#x} }} ct mark set {MARK_CARRIED:#x}"));
    let leaves = format!("oifname \"{device}\" {carried}; oifname \"{device}\" accept;{passes}");
    let mut chains = format!(
        "{sets} chain stay {{ type filter hook prerouting priority mangle - 1; policy accept; \
         iifname \"{device}\" ct state new {carried}; iifname \"{device}\" accept; {} accept;{older} }}; \
         chain leave {{ type filter hook forward priority mangle; policy accept; iifname \"{device}\" accept; {leaves} }};",
        stays_plain()
    );
    if config.intercept.as_ref().is_some_and(|i| i.local) {
        // Behind the routes, which the chain for locally generated packets may have changed.
        chains += &format!(
            " chain leave_born {{ type filter hook postrouting priority mangle; policy accept; \
             meta mark {MARK_OWN:#x} accept; fib saddr type != local accept; {leaves} }};"
        );
    }
    chains
}
