//! The text of the nft table for a proxy on our own TCP: what it may split goes through its device, whole connections both ways.
//!
//! No packet tells which connection it belongs to, so all TCP between the interfaces and the targets goes there, and what is not split
//! comes back. Nothing of it is tracked: the two halves of a connection have the same addresses and ports, and other sequence numbers.

use super::Down;
use super::bridges::no_redirects;
use super::ranges::taken;
use super::tables::{SYN, SYN_ACK, TUNNELS_HEARD, exempt, set, signed};
use super::{Around, ORPHANS, TABLE};
use crate::config::marks::{MARK_BRIDGED, MARK_DIVERT, MARK_OWN};
use crate::config::{Config, Intercept, Placement, ProxyRules};
use crate::system::family::Family;

/// ICMP errors that quote TCP: behind eight octets of ICMP the quoted header's protocol is octet 9 (RFC 791), or 6 (RFC 8200). They are
/// sent to the applications' addresses, and may be about what is ours.
pub(super) const ERRORS: [&str; 2] = [
    "icmp type destination-unreachable @th,136,8 6",
    "icmpv6 type { destination-unreachable, packet-too-big } @th,112,8 6",
];

/// Connections of either IP version that stay apart by their first packet's code point, and how long after their last packet: more than
/// the two hours after which RFC 1122 has a quiet connection's ends ask.
const APART_MAX: usize = 65_536;
const APART_FOR: &str = "3h";
/// First packets with an exempt code point that their server has not answered, and how long its answer counts.
const BEGUN_FOR: &str = "60s";
/// For so long after a first packet that is split none between the same ends is exempt: it may be forged, to have the answer go past us.
const LED_FOR: &str = "10s";

/// The table that stays when the process ends without an orderly stop, and resets connections that it had: their halves have nothing in
/// common but addresses and ports. They are known by that nobody saw their first packet go plainly; so are those that went through the
/// device without being split. While the process lives, which its device shows, they are only lost: what leads them there may be away for
/// a moment, and comes back before their senders give up.
pub(super) fn orphans(config: &Config, Around { attached, .. }: &Around) -> Option<String> {
    let intercept = config.intercept.as_ref()?;
    let device = intercept.proxy.as_ref().filter(|proxy| !proxy.mirrors)?.device.as_ref()?;
    let names: Vec<String> = intercept.interfaces.iter().map(|name| format!("\"{name}\"")).collect();
    let names = names.join(", ");
    let proxy = intercept.proxy.as_ref()?;
    let (mut sets, mut rules, mut asked) = (String::new(), String::new(), String::new());
    const STRANGE: &str = "ct state new tcp flags & (syn | rst) == 0x0";
    for family in Family::ALL {
        let (nft, targets) = (family.nft(), family.nft_set());
        sets += &set(targets, family, &taken(config, family, &Down::new(), attached));
        let there = format!("iifname {{ {names} }} {nft} daddr @{targets}{}", but(proxy, "dport"));
        let back = |leaves| format!("{leaves} {{ {names} }} {nft} saddr @{targets}{}", but(proxy, "sport"));
        for way in [&there, &back("oifname")] {
            rules += &format!(" {way} {STRANGE} reject with tcp reset;");
        }
        for way in [&there, &back("fib daddr oifname")] {
            asked += &format!(" {way} {STRANGE} goto asked;");
        }
    }
    // Made, removed and made again: one transaction, whether an old one stands or not.
    Some(format!(
        "table {ORPHANS} {{ }}; delete table {ORPHANS}; table {ORPHANS} {{{sets} chain forward {{ type filter hook forward priority filter; \
         policy accept; iifname \"{device}\" accept; oifname \"{device}\" accept;{rules} }}; \
         chain asked {{ meta mark set {MARK_DIVERT:#x}; fib daddr . mark oifname \"{device}\" counter drop; meta mark set 0; }}; \
         chain arrive {{ type filter hook prerouting priority mangle; policy accept; iifname \"{device}\" accept;{asked} }}; }}"
    ))
}

/// A match of what goes to, or comes from, none of the exempt ports.
fn but(proxy: &ProxyRules, end: &str) -> String {
    let ports: Vec<String> = proxy.ports.iter().map(u16::to_string).collect();
    if ports.is_empty() { String::new() } else { format!(" tcp {end} != {{ {} }}", ports.join(", ")) }
}

/// Connections whose first packet has an exempt code point stay apart whatever their later ones have: sets of them, and rules. With more
/// than there is room for, and after a reload, they go through the device and come back. The server's answer to that packet begins them:
/// to a first packet that somebody forges with the addresses and ports of a split connection no server answers so (RFC 9293, 3.10.7.4).
fn apart(proxy: &ProxyRules, interfaces: &str) -> (String, String) {
    let dscps: Vec<String> = proxy.dscps.iter().map(u8::to_string).collect();
    let (mut sets, mut rules) = (String::new(), String::new());
    for family in Family::ALL {
        let (nft, digit) = (family.nft(), [4, 6][family as usize]);
        let [apart, begun, led] = ["apart", "begun", "led"].map(|name| format!("@{name}{digit}"));
        let ends = |[one, other]: [[&str; 2]; 2]| {
            format!("{nft} {} . tcp {} . {nft} {} . tcp {}", one[0], one[1], other[0], other[1])
        };
        let (source, target) = (["saddr", "sport"], ["daddr", "dport"]);
        let (there, back) = (ends([source, target]), ends([target, source]));
        for (set, lasts) in [(&apart, APART_FOR), (&begun, BEGUN_FOR), (&led, LED_FOR)] {
            let name = &set[1..];
            sets += &format!(
                " set {name} {{ typeof {there}; size {APART_MAX}; flags dynamic, timeout; timeout {lasts}; }};"
            );
        }
        for ends in [&there, &back] {
            rules += &format!(" {ends} {apart} update {apart} {{ {ends} }} accept;");
        }
        let dscps = dscps.join(", ");
        let first = format!("iifname {{ {interfaces} }} {SYN} {nft}");
        let targets = family.nft_set();
        rules += &format!(" {first} dscp {{ {dscps} }} {there} {led} goto lead;");
        rules += &format!(" {first} dscp {{ {dscps} }} update {begun} {{ {there} }};");
        rules += &format!(" {SYN_ACK} {back} {begun} update {apart} {{ {back} }} accept;");
        rules += &format!(" {first} dscp != {{ {dscps} }} {nft} daddr @{targets} update {led} {{ {there} }};");
    }
    (sets, rules)
}

/// The table that the kernel removes with our process.
pub(super) fn table(
    config: &Config,
    (intercept, proxy, device): (&Intercept, &ProxyRules, &str),
    generation: u32,
    Around { attached, bridged }: &Around,
) -> String {
    let names: Vec<String> = intercept.interfaces.iter().map(|name| format!("\"{name}\"")).collect();
    let names = names.join(", ");
    let (mut sets, mut rules) = (String::new(), String::new());
    for family in Family::ALL {
        let (nft, targets) = (family.nft(), family.nft_set());
        sets += &set(targets, family, &taken(config, family, &Down::new(), attached));
        rules += &format!(
            " iifname {{ {names} }} meta l4proto tcp {nft} daddr @{targets}{} fib daddr type != local goto lead; \
             tcp flags & (fin|syn|rst|ack) != syn {nft} saddr @{targets}{} fib daddr type != local \
             fib daddr oifname {{ {names} }} goto lead;",
            but(proxy, "dport"),
            but(proxy, "sport"),
        );
    }
    let (begun, apart) = if proxy.dscps.is_empty() { Default::default() } else { apart(proxy, &names) };
    sets += &begun;
    let beside = match proxy.placement {
        Placement::Tunnel => TUNNELS_HEARD.to_owned(),
        Placement::Arp => no_redirects(&names),
        _ => String::new(),
    };
    let errors = |then: &str| ERRORS.map(|error| format!(" {error} fib daddr type != local {then};")).concat();
    rules += &errors("goto lead");
    format!(
        "table {TABLE} {{ flags owner; chain generation{generation} {{ }};{sets}{}{beside} \
         chain lead {{ meta mark set {MARK_DIVERT:#x} notrack accept; }}; \
         chain arrive {{ type filter hook prerouting priority raw; policy accept; iifname \"{device}\" notrack accept; \
         meta mark {MARK_BRIDGED:#x} accept;{apart}{}{}{rules} }}; \
         chain born {{ type route hook output priority mangle; policy accept; meta mark {MARK_OWN:#x} return;{} }}; }}",
        bridged.chain("meta l4proto tcp"),
        signed("accept"),
        exempt(proxy, "accept"),
        errors(&format!("meta mark set {MARK_DIVERT:#x}")),
    )
}
