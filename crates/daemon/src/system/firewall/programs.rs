//! What meets packets where no firewall's table does: filters of `tc` at a device's ends, XDP programs, and programs that links of BPF put
//! there.
//!
//! What they match is theirs to know: what could keep our packets away is named, with how to look at it.

use super::{Reached, ours, single::uplinks};
use crate::config::Config;
use std::collections::BTreeSet;
use wavelane_host::bpf::{self, ProgramPlace};
use wavelane_host::nft::run;

/// The devices that are intercepted, ours, and those by which peers' datagrams come.
fn devices<'a>(config: &'a Config, uplinks: &'a [String]) -> BTreeSet<&'a str> {
    ours(config).chain(uplinks.iter().map(String::as_str)).collect()
}

/// What stands at the devices that are intercepted, at ours, and at those by which peers' datagrams come.
pub(super) fn findings(config: &Config, reached: &Reached) -> Vec<String> {
    let ask = |tool: &str, words: &[&str]| run(tool, words, "").unwrap_or_default();
    let mut found = Vec::new();
    for name in devices(config, &uplinks(config, reached)) {
        found.extend(xdp(name, &ask("ip", &["-d", "link", "show", "dev", name])));
        for way in ["ingress", "egress"] {
            let listing = ask("tc", &["filter", "show", "dev", name, way]);
            // A shaper takes what comes through a device of this kind, from which it goes on.
            let returns = |to: &str| {
                ask("ip", &["-d", "link", "show", "dev", to]).lines().any(|line| line.trim_start().starts_with("ifb "))
            };
            found.extend(filters(name, way, &listing, returns));
        }
    }
    found
}

/// Programs that links of BPF put there. Only `check` asks: the service may not call bpf(2), which could do more.
pub(super) fn linked_findings(config: &Config, reached: &Reached) -> Vec<String> {
    let mut found = Vec::new();
    for name in devices(config, &uplinks(config, reached)) {
        for (way, place) in [("ingress", ProgramPlace::Ingress), ("egress", ProgramPlace::Egress)] {
            let index = wavelane_host::interface_index(name);
            // A kernel that has none of these, or a process that may not ask, knows of none.
            let there = index.map_or_else(Vec::new, |index| bpf::at_device(index, place).unwrap_or_default());
            found.extend(linked(&format!("at the {way} of {name}"), &there, &format!("bpftool net show dev {name}")));
        }
    }
    found
}

/// Programs of BPF that stand somewhere, with the command that lists them.
fn linked(at: &str, numbers: &[u32], look: &str) -> Option<String> {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    (!numbers.is_empty()).then(|| {
        format!(
            "BPF programs ({}) stand {at}: what they drop is missing here, and no list says what that is; if something is missing, look at them by `{look}` and have whoever put them there take them away",
            numbers.join(", ")
        )
    })
}

/// Of what `ip -d link` says of a device.
fn xdp(name: &str, listing: &str) -> Option<String> {
    // At the beginning of a line: the name that an operator gives a device may hold anything.
    let program = listing.lines().find_map(|line| line.trim_start().strip_prefix("prog/xdp"))?;
    let words: Vec<&str> = program.split_ascii_whitespace().collect();
    let id = words.windows(2).find(|pair| pair[0] == "id").map_or("?", |pair| pair[1]);
    Some(format!(
        "the XDP program {id} stands at {name}, before all rules: what it drops or leads elsewhere does not come to us, and no list says what that is; if something is missing, look at it by `bpftool prog show id {id}`, or take it away by `ip link set dev {name} xdp off`"
    ))
}

/// Of what `tc filter show` says of one end of a device; `returns` tells devices from which packets go on.
fn filters(name: &str, way: &str, listing: &str, returns: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut preference = "";
    for line in listing.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let after = |key: &str| words.windows(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
        if words.first() == Some(&"filter") {
            preference = after("pref").unwrap_or_default();
        }
        let does = match words.as_slice() {
            ["action", "order", _, "gact", "action", "drop", ..] => "drops what it matches".to_owned(),
            // Behind the word Redirect, for copies take nothing away.
            ["action", "order", _, "mirred", ..] if words.contains(&"Redirect") => {
                let Some(to) = after("device").map(|to| to.trim_end_matches(')')).filter(|to| !returns(to)) else {
                    continue;
                };
                format!("leads what it matches to {to}")
            }
            ["filter", ..] if words.contains(&"direct-action") => "is a program that may drop or lead away".to_owned(),
            _ => continue,
        };
        let line = format!(
            "a filter of tc at the {way} of {name} {does}, which may be ours: `tc filter show dev {name} {way}` lists it; have it spare what is ours, or take it away by `tc filter del dev {name} {way} pref {preference}`"
        );
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_take_packets_away_are_named() {
        let filter = |kind: &str, action: &str| {
            format!(
                "filter protocol all pref 49152 {kind} chain 0 \nfilter protocol all pref 49152 {kind} chain 0 fh 800: ht divisor 1 \nfilter protocol all pref 49152 {kind} chain 0 fh 800::800 order 2048 key ht 800 bkt 0 terminal flowid not_in_hw \n  match 00000000/00000000 at 0\n\taction order 1: {action}\n\tindex 1 ref 1 bind 1\n\n"
            )
        };
        let said = |listing: &str| filters("wan0", "ingress", listing, |to| to == "ifb4wan0");
        let found = said(&filter("u32", "mirred (Egress Redirect to device v1) stolen"));
        assert!(
            found.len() == 1 && found[0].contains("at the ingress of wan0 leads what it matches to v1"),
            "{found:?}"
        );
        assert!(found[0].ends_with("`tc filter del dev wan0 ingress pref 49152`"), "{found:?}");
        let found = said(&filter("flower", "gact action drop").repeat(2));
        assert!(found.len() == 1 && found[0].contains("wan0 drops what it matches"), "{found:?}");
        let found = said(
            "filter protocol all pref 1 bpf chain 0 \nfilter protocol all pref 1 bpf chain 0 handle 0x1 p.o:[tc] direct-action not_in_hw id 10 name p tag f3 jited \n",
        );
        assert!(found.len() == 1 && found[0].contains("is a program that may drop"), "{found:?}");
        for harmless in [
            filter("u32", "mirred (Egress Redirect to device ifb4wan0) stolen"),
            filter("u32", "mirred (Egress Mirror to device v1) pipe"),
            filter("u32", "gact action pass"),
            // A rate that is kept is as a rule with a limit.
            filter("u32", " police 0x1 rate 1Mbit burst 10Kb mtu 2Kb action drop overhead 0b"),
            "filter parent 8001: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 flowid 1:10 not_in_hw\n"
                .to_owned(),
        ] {
            assert_eq!(said(&harmless), [""; 0], "{harmless}");
        }
    }

    #[test]
    fn programs_of_links_are_named() {
        assert_eq!(linked("at the ingress of wan0", &[], "x"), None);
        let found = linked("at the ingress of wan0", &[7, 9], "bpftool net show dev wan0").unwrap_or_default();
        assert!(found.starts_with("BPF programs (7, 9) stand at the ingress of wan0: "), "{found}");
        assert!(found.contains("`bpftool net show dev wan0`"), "{found}");
    }

    #[test]
    fn a_program_of_xdp_is_named() {
        let plain = "2: wan0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000\n    link/ether 22:69:c1:b5:5b:b4 brd ff:ff:ff:ff:ff:ff\n";
        assert_eq!(xdp("wan0", plain), None);
        let alias = "    alias prog/xdp id 7\n";
        assert_eq!(xdp("wan0", &format!("{plain}{alias}")), None);
        let with = plain.replace(" qdisc", " xdpgeneric qdisc")
            + alias
            + "    prog/xdp id 12 name block tag 3b185187f1855c4c jited \n";
        let found = xdp("wan0", &with).unwrap_or_default();
        assert!(
            found.contains("XDP program 12 stands at wan0") && found.contains("ip link set dev wan0 xdp off"),
            "{found}"
        );
    }
}
