//! The texts of the iptables rules that hold SYNs, and of what removes them.

use super::ranges::{excepted, split_routes};
use super::{NUMBER, SIGNED, XT_CHAIN};
use crate::config::marks::{MARK_BRIDGED, MARK_DIVERT};
use crate::config::{Config, Placement, prefix_text};
use crate::system::family::Family;
use wavelane_base::IpPrefix;

/// The rules that hold SYNs, for iptables-restore, which makes our chain anew if it is there; and what leads to it, if
/// wanted. They stand in the raw table: before TPROXY at mangle.
///
/// The longest network decides; of one that this host is attached to (`attached`) under a wider network of a peer, SYNs pass.
pub(super) fn queue_rules(config: &Config, family: Family, attached: &[IpPrefix], lead: bool) -> String {
    let by_option =
        config.intercept.as_ref().and_then(|i| i.proxy.as_ref()).is_some_and(|p| p.placement == Placement::Option);
    // What is made to this host itself is read for its option.
    let is_read = by_option && family == Family::V4;
    let local = if is_read { format!("NFQUEUE --queue-num {NUMBER} --queue-bypass") } else { "RETURN".into() };
    let mut text = format!("*raw\n:{XT_CHAIN} - [0:0]\n-A {XT_CHAIN} -m addrtype --dst-type LOCAL -j {local}\n");
    text += &format!("-A {XT_CHAIN} -m mark --mark {MARK_BRIDGED:#x} -j RETURN\n");
    for option in SIGNED {
        text += &format!("-A {XT_CHAIN} -p tcp --tcp-option {option} -j RETURN\n");
    }
    let networks = if by_option { Vec::new() } else { split_routes(config, family) };
    let passed = excepted(&networks, attached).filter(|network| Family::of(network) == family);
    let mut all: Vec<(IpPrefix, bool)> = passed.map(|network| (network, false)).collect();
    let in_order = all.is_empty();
    all.extend(networks.iter().map(|network| (*network, true)));
    if !in_order {
        all.sort_by_key(|(network, _)| core::cmp::Reverse(network.bits));
    }
    for (network, held) in all {
        let to = prefix_text(&network);
        let verdict = if held { format!("NFQUEUE --queue-num {NUMBER} --queue-bypass") } else { "RETURN".into() };
        text += &format!("-A {XT_CHAIN} -d {to} -j {verdict}\n");
    }
    if let Some(intercept) = config.intercept.as_ref().filter(|_| lead) {
        for name in &intercept.interfaces {
            text += &format!("-A PREROUTING -i {name} -p tcp --syn -j {XT_CHAIN}\n");
        }
        if intercept.local {
            text += &format!("-A PREROUTING -i lo -p tcp --syn -m mark --mark {MARK_DIVERT:#x} -j {XT_CHAIN}\n");
        }
    }
    text + "COMMIT\n"
}

/// What removes `chain` of ours and every jump to it, given `iptables -t TABLE -S`.
pub(crate) fn removal(table: &str, chain: &str, listing: &str) -> String {
    let jump = format!(" -j {chain}");
    let mut text = format!("*{table}\n:{chain} - [0:0]\n");
    for line in listing.lines().filter(|l| l.ends_with(&jump)) {
        text += &format!("{}\n", line.replacen("-A ", "-D ", 1));
    }
    text + &format!("-X {chain}\nCOMMIT\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_jumps_are_removed() {
        let listing =
            "-P PREROUTING ACCEPT\n-N WAVELANE\n-A PREROUTING -i lan0 -p tcp -j WAVELANE\n-A PREROUTING -j OTHER\n";
        let text = removal("raw", XT_CHAIN, listing);
        assert_eq!(text, "*raw\n:WAVELANE - [0:0]\n-D PREROUTING -i lan0 -p tcp -j WAVELANE\n-X WAVELANE\nCOMMIT\n");
    }
}
