//! The texts of the nft tables: the one that the kernel removes with our process, and the one that outlives a crash.

use super::Down;
use super::plain::{plain_born, plain_chains};
use super::ranges::{all_routes, part_taken, split_routes, taken};
use super::{Around, CLOSED_TABLE, SIGNED, TABLE, TARGET_OPTION, bridges, userspace};
use crate::config::marks::{MARK_BRIDGED, MARK_DIVERT, MARK_OWN, MARK_PLAIN};
use crate::config::{Clamp, Config, Placement, ProxyRules, Source, Tun, prefix_text, width};
use crate::system::family::Family;
use std::net::IpAddr;
use wavelane_base::IpPrefix;

/// A first SYN.
pub(super) const SYN: &str = "tcp flags & (fin|syn|rst|ack) == syn";

/// The answer to one.
pub(super) const SYN_ACK: &str = "tcp flags & (fin|syn|rst|ack) == (syn|ack)";

/// An nft set of targets, empty or not.
pub(super) fn set(name: &str, family: Family, elements: &[String]) -> String {
    let elements = elements.join(", ");
    let elements = if elements.is_empty() { elements } else { format!(" elements = {{ {elements} }};") };
    let kind = ["ipv4_addr", "ipv6_addr"][family as usize];
    format!(" set {name} {{ type {kind}; flags interval; auto-merge;{elements} }};")
}

/// A match of first packets to the networks of one family.
fn to_routes(family: Family) -> String {
    format!("{SYN} {} daddr @{}", family.nft(), family.nft_set())
}

fn interface_list(config: &Config) -> Option<String> {
    let names = &config.intercept.as_ref()?.interfaces;
    let quoted: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(", "))
}

/// The empty chain that tells one generation of the owned table from another.
pub(super) fn marker(generation: u32) -> String {
    format!("{TABLE} generation{generation}")
}

/// A kernel with a module for tunnels says of ours that nobody hears them, which their other ends may believe: the quoted packet's protocol is
/// octet 9 of its header (RFC 791), behind eight octets of ICMP.
pub(super) const TUNNELS_HEARD: &str = " chain tunnels { type filter hook output priority filter; policy accept; \
     icmp type destination-unreachable @th,136,8 4 drop; };";

/// The table that the kernel removes with our process.
pub(super) fn owned_table(config: &Config, ports: &[u16], generation: u32, down: &Down, around: &Around) -> String {
    if let Some(intercept) = &config.intercept
        && let Some(proxy) = &intercept.proxy
        && let Some(device) = &proxy.device
    {
        return userspace::table(config, (intercept, proxy, device), generation, around);
    }
    let Around { attached, bridged } = around;
    let families = || Family::ALL.into_iter().zip(ports);
    let by_option =
        config.intercept.as_ref().and_then(|i| i.proxy.as_ref()).is_some_and(|p| p.placement == Placement::Option);
    let take = |matching: &str| -> String {
        let rule = |(family, port): (Family, &u16)| {
            let (nft, localhost) = (family.nft(), family.localhost());
            let to = match (by_option, family) {
                // It begins behind the 20 octets of the header without any (RFC 791), which is seven words long with it.
                (true, Family::V4) => {
                    format!("{SYN} fib daddr type local @nh,4,4 > 6 @nh,160,16 {}", u16::from_be_bytes(TARGET_OPTION))
                }
                (true, Family::V6) => return String::new(),
                (false, _) => format!("{} fib daddr type != local", to_routes(family)),
            };
            format!(" {matching} {to} tproxy {nft} to {localhost}:{port} meta mark set {MARK_DIVERT:#x} accept;")
        };
        families().map(rule).collect()
    };
    // ICMP too: errors about connections that we make from the applications' addresses must reach us.
    let mut prerouting =
        format!("meta l4proto {{ tcp, icmp, ipv6-icmp }} socket transparent 1 meta mark set {MARK_DIVERT:#x} accept;");
    let proxy = config.intercept.as_ref().and_then(|i| i.proxy.as_ref());
    let clamped = |way: &str, matching: &str| proxy.map_or_else(String::new, |proxy| clamps(proxy, way, matching));
    prerouting.insert_str(0, &clamped("saddr", &format!("{SYN_ACK} socket transparent 1")));
    prerouting += &format!(" meta mark {{ {MARK_PLAIN:#x}, {MARK_BRIDGED:#x} }} accept;{}", signed("accept"));
    // One that names its server has no other way there than by us, who refuse it.
    prerouting += &proxy.filter(|_| !by_option).map_or_else(String::new, |proxy| exempt(proxy, "accept"));
    if let Some(names) = interface_list(config) {
        prerouting += &clamped("saddr", &format!("iifname {{ {names} }} {SYN}"));
        prerouting += &take(&format!("iifname {{ {names} }}"));
    }
    let local = config.intercept.as_ref().is_some_and(|i| i.local);
    let mut table = format!(" chain generation{generation} {{ }};");
    if config.intercept.is_some() {
        table.extend(
            families().map(|(family, _)| set(family.nft_set(), family, &taken(config, family, down, attached))),
        );
    }
    let mut born = if config.source == Source::Keep { own_errors() } else { String::new() };
    if local {
        born += &format!(" meta mark {MARK_OWN:#x} return;{}{}", plain_born(config), signed("return"));
        prerouting += &take(&format!("iifname \"lo\" meta mark {MARK_DIVERT:#x}"));
        // The SYN decides; the connection's later packets follow it. Connections older than us are left alone.
        let first =
            |(family, _)| format!(" {} fib daddr type != local ct mark set {MARK_DIVERT:#x};", to_routes(family));
        born += &format!(
            "{} ct direction original ct mark {MARK_DIVERT:#x} meta mark set {MARK_DIVERT:#x};",
            families().map(first).collect::<String>()
        );
    }
    if !born.is_empty() {
        table += &format!(" chain born {{ type route hook output priority mangle; policy accept;{born} }};");
    }
    let mut leaving = clamped("daddr", &format!("meta mark {MARK_OWN:#x} tcp flags & syn == syn"));
    if by_option {
        // Addresses that a route makes this host's own are among no interface's.
        leaving +=
            &format!(" meta mark {MARK_OWN:#x} {SYN} fib daddr type local reject with icmp type admin-prohibited;");
    }
    if !leaving.is_empty() {
        table += &format!(" chain own {{ type filter hook output priority mangle; policy accept;{leaving} }};");
    }
    if config.intercept.is_some() {
        table += &bridged.chain(SYN);
    }
    table += &format!(" chain arrive {{ type filter hook prerouting priority mangle; policy accept; {prerouting} }};");
    if let Some(tun) = &config.tun {
        table += &packet_chains(config, tun);
        table += &plain_chains(config, tun);
    }
    let on_bridge = proxy.filter(|proxy| proxy.placement == Placement::Bridge);
    let turns = proxy.filter(|proxy| matches!(proxy.placement, Placement::Bridge | Placement::Arp));
    table += &turns.and(interface_list(config)).map_or_else(String::new, |names| bridges::no_redirects(&names));
    if proxy.is_some_and(|proxy| proxy.placement == Placement::Tunnel) {
        table += TUNNELS_HEARD;
    }
    let steering = on_bridge.map_or_else(String::new, |proxy| bridges::steering(config, proxy, bridged, attached));
    format!("table {TABLE} {{ flags owner;{table} }};{steering}")
}

/// What becomes of SYNs that are signed end to end.
pub(super) fn signed(verdict: &str) -> String {
    SIGNED.iter().map(|option| format!(" {SYN} tcp option {option} exists {verdict};")).collect()
}

/// What becomes of SYNs that a proxy leaves alone by their port or code point.
pub(super) fn exempt(proxy: &ProxyRules, verdict: &str) -> String {
    let mut rules = String::new();
    if !proxy.ports.is_empty() {
        let ports: Vec<String> = proxy.ports.iter().map(u16::to_string).collect();
        rules += &format!(" {SYN} tcp dport {{ {} }} {verdict};", ports.join(", "));
    }
    if !proxy.dscps.is_empty() {
        let dscps: Vec<String> = proxy.dscps.iter().map(u8::to_string).collect();
        for family in Family::ALL {
            rules += &format!(" {SYN} {} dscp {{ {} }} {verdict};", family.nft(), dscps.join(", "));
        }
    }
    rules
}

/// Makes segments of connections with a proxy's networks fit. The kernel never makes the option larger.
fn clamps(proxy: &ProxyRules, way: &str, matching: &str) -> String {
    let clamp = |Clamp { network, but, size }: &Clamp| {
        let (nft, text) = (Family::of(network).nft(), prefix_text(network));
        // Every address needs no match but its family's.
        let of = if network.bits == 0 {
            format!("meta nfproto {}", ["ipv4", "ipv6"][Family::of(network) as usize])
        } else {
            format!("{nft} {way} {text}")
        };
        // The kernel would take the smallest of all rules, and not the first.
        let but: String = but.iter().map(|part| format!(" {nft} {way} != {}", prefix_text(part))).collect();
        format!(" {of}{but} {matching} tcp option maxseg size set {size};")
    };
    proxy.clamps.iter().map(clamp).collect()
}

/// Lets the kernel's errors on packets of our own sockets, when a server's host is not there, reach these although
/// they use applications' addresses. Otherwise each would wait until it is given up. Errors that we write ourselves carry our mark and
/// go to the application: a proxy's connection to the server has the addresses and ports of the application's own.
fn own_errors() -> String {
    format!(
        " meta mark {MARK_OWN:#x} ct state new ct mark set {MARK_OWN:#x}; \
         meta l4proto {{ icmp, ipv6-icmp }} meta mark != {MARK_OWN:#x} ct state related ct mark {MARK_OWN:#x} meta mark set {MARK_DIVERT:#x} return;"
    )
}

/// Addresses that every peer's `allow_targets` lists exactly. Those of them that are this host's take what comes through
/// the packet door.
pub(crate) fn open_addresses(config: &Config) -> Vec<IpAddr> {
    let Some((first, rest)) = config.peers.split_first() else { return Vec::new() };
    let exact = |p: &&IpPrefix| p.bits == width(p.address);
    let by_all = |p: &&IpPrefix| rest.iter().all(|peer| config.targets(peer).contains(p));
    config.targets(first).iter().filter(exact).filter(by_all).map(|p| p.address).collect()
}

/// What concerns the packet door: segments are made to fit, and this host's own addresses are guarded.
fn packet_chains(config: &Config, tun: &Tun) -> String {
    // TCP that is not split learns at its first packet what fits.
    let mut chains = format!(
        " chain through {{ type filter hook forward priority mangle; policy accept; \
         oifname \"{}\" tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu; }};",
        tun.name
    );
    // What peers send to this host itself: answers to what was asked from here, pings of the device's addresses, and
    // addresses that every peer's allow_targets lists exactly. A peer's own packets are judged one by one, or what is
    // no longer listed would go on to be heard while its answers have no way back.
    let own: Vec<IpAddr> = tun.addresses.iter().map(|a| a.address).collect();
    let listed = open_addresses(config);
    let mut rules = String::new();
    for family in Family::ALL {
        let ping = ["icmp type echo-request", "icmpv6 type echo-request"][family as usize];
        for (addresses, which) in [(&own, ping), (&listed, "")] {
            let texts: Vec<String> =
                addresses.iter().filter(|a| Family::of_address(**a) == family).map(IpAddr::to_string).collect();
            if !texts.is_empty() {
                rules += &format!(" {} daddr {{ {} }} {which} accept;", family.nft(), texts.join(", "));
            }
        }
    }
    chains += &format!(
        " chain guard {{ type filter hook input priority filter; policy accept; \
         iifname != \"{}\" accept; ct state related accept; ct direction reply accept;{rules} \
         counter reject with icmpx type admin-prohibited; }};",
        tun.name
    );
    if tun.masquerade {
        chains += &masquerade_chain(tun);
    }
    chains
}

/// Addresses that are no public ones, by family: of sites (RFC 1918, RFC 6598, RFC 4193), links (RFC 3927, RFC 4291) and groups.
pub(super) const OF_SITES: [&str; 2] = [
    "10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16, 224.0.0.0/4",
    "fc00::/7, fe80::/10, ff00::/8",
];

/// Gives what peers send to public addresses through the device this host's own address, under which answers find back.
fn masquerade_chain(tun: &Tun) -> String {
    let rule = |family: Family| {
        let (name, nft, of_sites) = (&tun.name, family.nft(), OF_SITES[family as usize]);
        format!(" iifname \"{name}\" oifname != \"{name}\" {nft} daddr != {{ {of_sites} }} masquerade;")
    };
    let rules: String = Family::ALL.into_iter().map(rule).collect();
    // Not `masquerade`: that is a word of the language.
    format!(" chain masqueraded {{ type nat hook postrouting priority srcnat; policy accept;{rules} }};")
}

/// The table that stays when the process ends without an orderly stop. While it runs no packet meets these rules:
/// SYNs from the interfaces turn off before the forward hook, and our own host's carry a mark.
///
/// Beside a packet door it also refuses packets that would be forwarded elsewhere than to the device: should the policy rules be
/// taken away, nothing goes plainly.
pub(super) fn closed_table(config: &Config, Around { attached, bridged }: &Around) -> String {
    let of = |family: Family, networks| part_taken(config, networks, (family, &Down::new(), attached));
    let mut sets: String = Family::ALL
        .into_iter()
        .map(|family| set(family.nft_set(), family, &of(family, split_routes(config, family))))
        .collect();
    // What is left unsplit goes through our device, which is there as long as the daemon is.
    let device = config.intercept.as_ref().and_then(|i| i.proxy.as_ref()?.device.as_ref());
    let device = config.tun.as_ref().map(|tun| &tun.name).or(device);
    let elsewhere = device.map_or(String::new(), |device| format!("oifname != \"{device}\" "));
    let refuse = |matching: &str| -> String {
        let rule = |family| format!("  {matching} {elsewhere}{} reject with tcp reset\n", to_routes(family));
        Family::ALL.into_iter().map(rule).collect()
    };
    if config.tun.is_some() {
        sets.extend(
            Family::ALL
                .map(|family| set(["all4", "all6"][family as usize], family, &of(family, all_routes(config, family)))),
        );
    }
    // Made, removed and made again: one transaction, whether an old one stands or not.
    let mut table =
        format!("table {CLOSED_TABLE} {{ }}\ndelete table {CLOSED_TABLE}\ntable {CLOSED_TABLE} {{\n{sets}\n");
    if let Some(names) = interface_list(config) {
        let proxy = config.intercept.as_ref().and_then(|i| i.proxy.as_ref());
        let mut rules = proxy.map_or_else(String::new, |proxy| exempt(proxy, "return").replace(';', "\n"));
        rules.insert_str(0, &bridged.spared());
        rules += &refuse(&format!("iifname {{ {names} }}"));
        if let Some(tun) = &config.tun {
            for family in Family::ALL {
                let (nft, all) = (family.nft(), ["all4", "all6"][family as usize]);
                rules += &format!(
                    "  iifname {{ {names} }} oifname != \"{}\" {nft} daddr @{all} reject with icmpx type admin-prohibited\n",
                    tun.name
                );
            }
        }
        table += &format!(" chain forward {{ type filter hook forward priority filter; policy accept;\n{rules} }}\n");
    }
    if config.intercept.as_ref().is_some_and(|i| i.local) {
        table += &format!(
            " chain born {{ type filter hook output priority filter; policy accept;\n  \
             meta mark {{ {MARK_OWN:#x}, {MARK_DIVERT:#x} }} return\n{} }}\n",
            refuse("")
        );
    }
    table + "}\n"
}
