//! What the host's own firewall does to the traffic that we take: found in its rules, named with the remedy.

pub(crate) mod older;
mod programs;
mod single;

use crate::config::marks::MARK_DIVERT;
use crate::config::{Config, Intercept, Placement, width};
use crate::system::device::{LOOK, LOOK_MEANWHILE, MAIN_PRIORITY, unforwarded, without_it};
use crate::system::family::Family;
use crate::system::interface::TUNNEL_DEVICE;
use crate::system::route_tables::TABLE;
use crate::system::rules::{Attachment, NUMBER, all_routes, attachments};
use std::collections::BTreeSet;
use std::net::IpAddr;
use wavelane_base::IpPrefix;
use wavelane_host::nft::{ToolError, run};
use wavelane_host::routes::devices;

/// Where peers are reached whose addresses no file has: those with names, and those that call us.
pub(crate) type Reached = BTreeSet<IpAddr>;

/// A packet is followed through at most this many chains.
const JUMPS_MAX: u8 = 8;

/// Where a firewall meets our traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hook {
    /// Connections that are delivered to our listeners.
    Input,
    /// Packets to and from our device.
    Forward,
    /// Connections before they are taken.
    Prerouting,
    /// The same, as they come from a device.
    Ingress,
    /// The same, where rules lead them elsewhere.
    Redirection,
    /// What we send.
    Output,
    /// The same, and all that is forwarded.
    Postrouting,
    /// What we send, as it leaves a device.
    Egress,
}

/// A chain that drops what none of its rules accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Strict {
    hook: Hook,
    family: String,
    table: String,
    chain: String,
    /// The rules of its whole table: it may hand packets to other chains.
    rules: Vec<String>,
}

/// Programs of BPF, which `check` alone asks for.
pub(crate) fn linked(config: &Config, reached: &Reached) -> Vec<String> {
    programs::linked_findings(config, reached)
}

/// What on this host keeps traffic from us, one line each, with the remedy.
pub(crate) fn findings(config: &Config, reached: &Reached) -> Vec<String> {
    let Some(intercept) = &config.intercept else { return Vec::new() };
    let mut found = Vec::new();
    let listing = run("nft", &["-s", "-t", "list", "ruleset"], "").unwrap_or_else(|e| {
        if matches!(e, ToolError::Hung { .. }) {
            found.push(format!("what the host's own firewall does is not known: {e}"));
        }
        String::new()
    });
    let around = attachments(config).unwrap_or_default();
    found.extend(in_rules(config, &listing, Kind::Nft, &around, reached));
    for family in Family::ALL.into_iter().filter(|family| has_routes(config, *family)) {
        match older::listing(family) {
            Ok(listing) => found.extend(in_rules(config, &listing, Kind::Older, &around, reached)),
            Err(why) => found.push(why),
        }
    }
    // One that is renamed, or comes later.
    let gone = |name: &&String| *name != TUNNEL_DEVICE && !wavelane_host::interface_exists(name);
    let gone = intercept.interfaces.iter().filter(gone);
    found.extend(gone.map(|name| {
        format!("interface {name} does not exist here yet: its traffic is taken once it does, and what comes by another name is not")
    }));
    for (key, family) in [("iptables", Family::V4), ("ip6tables", Family::V6)] {
        let bridged = std::fs::read_to_string(format!("/proc/sys/net/bridge/bridge-nf-call-{key}"));
        let is_on = bridged.is_ok_and(|v| v.trim() == "1") && has_routes(config, family);
        if !is_on {
            continue;
        }
        let devices = devices().unwrap_or_default();
        let is_bridge = |name: &&String| devices.iter().any(|device| device.is_bridge && device.name == **name);
        for name in intercept.interfaces.iter().filter(is_bridge) {
            found.push(format!(
                "net.bridge.bridge-nf-call-{key} is 1, so TCP that comes over the bridge {name} is taken twice and times out: run `sysctl -w net.bridge.bridge-nf-call-{key}=0` (Docker sets it; put it into /etc/sysctl.d)"
            ));
        }
    }
    found.extend(marked_sources(intercept));
    found.extend(unsteered(intercept));
    found.extend(switched_off(config));
    for family in Family::here() {
        let rules = run("ip", &[family.ip_flag(), "rule", "show"], "").unwrap_or_default();
        found.extend(rules.lines().filter_map(|rule| before_ours(config, family, rule, &around)));
    }
    found.extend(programs::findings(config, reached));
    found
}

/// The same, and that this host forwards nothing any more, which the start names itself.
pub(crate) fn hindrances(config: &Config, reached: &Reached) -> Vec<String> {
    let said = |setting| not_forwarded(setting) + without_it(config.intercept.as_ref(), setting);
    let unforwarded = config.intercept.iter().flat_map(|i| unforwarded(config, i)).map(said);
    findings(config, reached).into_iter().chain(unforwarded).collect()
}

fn not_forwarded(setting: impl core::fmt::Display) -> String {
    format!("{setting} is 0, so packets are not forwarded: run `sysctl -w {setting}=1`, and have it set at boot")
}

/// Of IPv4 each interface has a switch of its own, which networkd sets, too.
fn switched_off(config: &Config) -> impl Iterator<Item = String> {
    let concerns = of_interface("all", "forwarding").trim() == "1" && has_routes(config, Family::V4);
    let is_off = |name: &&str| of_interface(name, "forwarding").trim() == "0";
    let off = ours(config).filter(move |_| concerns).filter(is_off);
    off.map(|name| not_forwarded(format!("net.ipv4.conf.{name}.forwarding")))
}

/// The setting by which the kernel looks for a packet's source by the packet's mark, as wg-quick has it. What we mark for ourselves seems to
/// come from ourselves then, and is dropped as a martian; what goes to our own TCP only where the reverse path is strict.
fn marked_sources(intercept: &Intercept) -> Option<String> {
    let value = |interface: &str, key: &str| -> u8 { of_interface(interface, key).trim().parse().unwrap_or(0) };
    let own = intercept.proxy.as_ref().is_some_and(|proxy| proxy.device.is_some());
    let strict = |name: &str| value("all", "rp_filter").max(value(name, "rp_filter")) == 1;
    let drops = |name: &&str| value(name, "src_valid_mark") == 1 && (!own || strict(name));
    let interfaces = intercept.interfaces.iter().map(String::as_str);
    let name = match value("all", "src_valid_mark") {
        1 if !own || interfaces.clone().any(strict) => "all",
        _ => interfaces.clone().find(drops)?,
    };
    Some(format!(
        "net.ipv4.conf.{name}.src_valid_mark is 1, so what we take is dropped for its mark and times out: run `sysctl -w net.ipv4.conf.{name}.src_valid_mark=0` (wg-quick sets it, and needs it only where rp_filter is 1: set that to 2)"
    ))
}

/// What keeps a proxy that is placed on bridges from taking what passes over them.
fn unsteered(intercept: &Intercept) -> Vec<String> {
    if !intercept.proxy.as_ref().is_some_and(|proxy| proxy.placement == Placement::Bridge) {
        return Vec::new();
    }
    let devices = devices().unwrap_or_default();
    let why = |name: &String| {
        let device = devices.iter().find(|device| device.name == *name)?;
        if !device.is_bridge {
            return Some(format!(
                "{name} is no bridge, so nothing passes over it: name the bridge of which it is a port, or write placement = \"route\""
            ));
        }
        if !devices.iter().any(|port| port.master == Some(device.index)) {
            return Some(format!(
                "the bridge {name} has no ports, so nothing passes over it: run `ip link set PORT master {name}`"
            ));
        }
        wavelane_host::addresses_of(name).iter().all(|address| !address.is_ipv4()).then(|| {
            format!("the bridge {name} has no IPv4 address, so what is split over it reaches neither end: give it one of its network, and routes (`ip address add ADDRESS/BITS dev {name}`)")
        })
    };
    intercept.interfaces.iter().filter_map(why).collect()
}

/// Which program has the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Nft,
    /// `iptables-legacy`.
    Older,
}

impl Kind {
    /// How an operator lets through what `matching` says in nft's words.
    fn insert(self, (family, table, chain): (&str, &str, &str), matching: &str) -> String {
        if self == Self::Nft {
            return format!("nft insert rule {family} {table} {chain} {matching} accept");
        }
        let tool = if family == "ip6" { "ip6tables-legacy" } else { "iptables-legacy" };
        let words: Vec<&str> = matching.split(' ').collect();
        let matching = match words.as_slice() {
            ["meta", "mark", mark] => format!("-m mark --mark {mark}"),
            ["iifname", name] => format!("-i {}", name.trim_matches('"')),
            ["oifname", name] => format!("-o {}", name.trim_matches('"')),
            ["iifname", name, "meta", "l4proto", protocol] => format!("-i {} -p {protocol}", name.trim_matches('"')),
            [protocol, "dport", port] => format!("-p {protocol} --dport {port}"),
            _ => return format!("{tool} -t {table} -I {chain} ... -j ACCEPT"),
        };
        format!("{tool} -t {table} -I {chain} {matching} -j ACCEPT")
    }
}

/// What rules do to us that are listed as nft does.
fn in_rules(config: &Config, listing: &str, kind: Kind, around: &[Attachment], reached: &Reached) -> Vec<String> {
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for chain in strict(listing) {
        if let Some(why) = hindrance(config, &chain, kind) {
            found.push(why);
            known.push((chain.family, chain.table, chain.chain));
        }
    }
    found.extend(single::findings(config, (listing, kind), &known, around, reached));
    found
}

/// The interfaces that are intercepted, and our device.
fn ours(config: &Config) -> impl Iterator<Item = &str> {
    let taken = config.intercept.iter().flat_map(|i| &i.interfaces);
    taken.chain(config.tun.as_ref().map(|tun| &tun.name)).map(String::as_str)
}

/// A setting of an interface for IPv4; nothing if it is not there.
fn of_interface(name: &str, key: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/{key}")).unwrap_or_default()
}

/// The switches among what [`hindrances`] looks at, of which nobody gives notice.
pub(crate) fn switches(config: &Config) -> String {
    let keys = [
        "bridge/bridge-nf-call-iptables",
        "bridge/bridge-nf-call-ip6tables",
        "ipv4/ip_forward",
        "ipv6/conf/all/forwarding",
        "ipv4/conf/all/src_valid_mark",
        "ipv4/conf/all/rp_filter",
    ];
    let all = keys.iter().map(|key| std::fs::read_to_string(format!("/proc/sys/net/{key}")).unwrap_or_default());
    let of_one = ["forwarding", "src_valid_mark", "rp_filter"];
    all.chain(ours(config).flat_map(|name| of_one.map(|key| of_interface(name, key)))).collect()
}

/// What a line of `ip rule` says of a rule that another program put before ours and that what we take meets: everything, what comes from
/// the networks `around` an intercepted interface, what goes to a peer's, or all TCP.
fn before_ours(config: &Config, family: Family, rule: &str, around: &[Attachment]) -> Option<String> {
    let (preference, what) = rule.split_once(':')?;
    let preference: u16 = preference.parse().ok()?;
    let mut words: Vec<&str> = what.split_ascii_whitespace().collect();
    let ours = [("lookup", NUMBER.to_string()), ("lookup", TABLE.to_string()), ("goto", MAIN_PRIORITY.to_string())];
    let leads = |(key, to): &(&str, String)| words.windows(2).any(|pair| pair == [*key, to]);
    // Of two rules of one preference the older goes first, and ours are renewed by their preference.
    let places = [NUMBER, TABLE, LOOK, LOOK_MEANWHILE];
    let is_among = places[..if config.tun.is_some() { places.len() } else { 1 }].contains(&preference);
    if is_among && has_routes(config, family) && !ours.iter().any(leads) {
        return Some(format!(
            "the rule '{}' of `ip {} rule` has one of our preferences, {NUMBER} to {LOOK_MEANWHILE}, so it may go before ours, and is deleted with them: give it a preference above {LOOK_MEANWHILE}, as `ip rule add pref 5000 ...` does",
            rule.trim().replace('\t', " "),
            family.ip_flag(),
        ));
    }
    (1..NUMBER).contains(&preference).then_some(())?;
    let negated = words.first() == Some(&"not");
    words.drain(..usize::from(negated));
    let after = |key: &str| words.windows(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
    let network = |text: &str| text.parse().ok().or_else(|| host(text));
    let touches = |one: &IpPrefix, other: &IpPrefix| one.covers(other) || other.covers(one);
    let is_taken = |name: &str| config.intercept.iter().flat_map(|i| &i.interfaces).any(|of| of == name);
    let from = after("from").is_none_or(|from| {
        let of = |from: IpPrefix| around.iter().any(|a| is_taken(a.device()) && touches(&a.network, &from));
        from == "all" || network(from).is_some_and(of)
    });
    let to = after("to").is_none_or(|to| {
        // What goes to a network that is left alone is not taken.
        let is_spared = |to: &IpPrefix| around.iter().any(|a| a.network.covers(to) && a.is_left_alone(config));
        let goes = |to: IpPrefix| !is_spared(&to) && all_routes(config, family).iter().any(|route| touches(route, &to));
        network(to).is_some_and(goes)
    });
    // What is taken carries our mark, packets none.
    let mark = after("fwmark").is_none_or(|mark| [0, MARK_DIVERT].into_iter().any(|ours| is_marked(ours, mark)));
    let meets =
        from && to && mark && after("iif").is_none_or(is_taken) && after("ipproto").is_none_or(|of| of == "tcp");
    // Single services and what is born here are the operator's concern.
    let some = ["oif", "tos", "sport", "dport", "uidrange", "[l3mdev-table]"].iter().any(|word| words.contains(word));
    (meets != negated && !some && has_routes(config, family)).then(|| {
        format!(
            "the rule '{}' of `ip {} rule` stands before ours at {}, so what it matches may not come to us: give it a preference above {}, as `ip rule add pref 5000 ...` does",
            rule.trim().replace('\t', " "),
            family.ip_flag(),
            NUMBER,
            LOOK_MEANWHILE
        )
    })
}

/// An address alone as a network.
fn host(text: &str) -> Option<IpPrefix> {
    text.parse().ok().map(|address| IpPrefix { address, bits: width(address) })
}

/// Whether a mark meets `wanted`, which may have a mask (`0x1/0xff`).
fn is_marked(mark: u32, wanted: &str) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (wanted, mask) = wanted.split_once('/').unwrap_or((wanted, "0xffffffff"));
    number(wanted).zip(number(mask)).is_none_or(|(wanted, mask)| mark & mask == wanted)
}

fn has_routes(config: &Config, family: Family) -> bool {
    config.peers.iter().flat_map(|peer| &peer.routes).any(|network| Family::of(network) == family)
}

/// What a chain that is strict does to us, if none of its table's rules lets our traffic through.
fn hindrance(config: &Config, chain: &Strict, kind: Kind) -> Option<String> {
    let intercept = config.intercept.as_ref()?;
    let concerned = match chain.family.as_str() {
        "ip" => has_routes(config, Family::V4),
        "ip6" => has_routes(config, Family::V6),
        _ => true,
    };
    let Strict { family, table, chain: name, rules, .. } = chain;
    let accepts = |word: &str| {
        rules.iter().any(|rule| rule.contains(word) && rule.contains("accept") && lets_any_connection(rule))
    };
    let insert = |matching: &str| kind.insert((family, table, name), matching);
    let of = if kind == Kind::Older { " of iptables-legacy" } else { "" };
    let place = format!("chain {name} of table {family} {table}{of}");
    let own_tcp = intercept.proxy.as_ref().and_then(|proxy| proxy.device.as_ref());
    match chain.hook {
        Hook::Input if own_tcp.is_some() => None,
        Hook::Input => {
            let local = intercept.local.then_some("lo");
            let mut names = intercept.interfaces.iter().map(String::as_str).chain(local);
            let mark = format!("{MARK_DIVERT:#x}");
            let open = accepts(&mark) || accepts(&format!("{MARK_DIVERT:#010x}"));
            let by_name = names.all(|name| accepts(&format!("\"{name}\"")));
            (concerned && !open && !by_name).then(|| {
                format!(
                    "{place} drops what none of its rules accepts, and none names our mark: intercepted connections may time out while the far server holds them; run `{}`, and have your firewall do so at boot",
                    insert(&format!("meta mark {mark}"))
                )
            })
        }
        // `single` looks at their rules and policies.
        Hook::Prerouting | Hook::Ingress | Hook::Redirection | Hook::Output | Hook::Postrouting | Hook::Egress => None,
        Hook::Forward => {
            let device = config.tun.as_ref().map(|tun| &tun.name).or(own_tcp)?;
            (concerned && !accepts(&format!("\"{device}\""))).then(|| {
                format!(
                    "{place} drops what none of its rules accepts, and none names {device}: packets through it may not arrive; run `{}` and `{}`, and have your firewall do so at boot",
                    insert(&format!("oifname \"{device}\"")),
                    insert(&format!("iifname \"{device}\""))
                )
            })
        }
    }
}

/// The chains at the hooks that concern us which drop or refuse what they do not know, in what `nft list ruleset` prints.
fn strict(listing: &str) -> Vec<Strict> {
    let mut found = Vec::new();
    for table in listing.split("\ntable ").map(|part| part.strip_prefix("table ").unwrap_or(part)) {
        let mut head = table.split_whitespace();
        let (Some(family), Some(name)) = (head.next(), head.next()) else { continue };
        if !["ip", "ip6", "inet"].contains(&family) || name.starts_with("wavelane") {
            continue;
        }
        let rules: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
        for chain in table.split("\tchain ").skip(1) {
            let (Some(title), mut lines) = (chain.split_whitespace().next(), chain.lines().skip(1).map(str::trim))
            else {
                continue;
            };
            let Some(kind) = lines.next().filter(|line| line.starts_with("type filter hook ")) else { continue };
            let hook = match kind.split_whitespace().nth(3) {
                Some("input") => Hook::Input,
                Some("forward") => Hook::Forward,
                _ => continue,
            };
            let last = lines.take_while(|line| *line != "}").last().unwrap_or_default();
            if kind.contains("policy drop") || drops(table, last, JUMPS_MAX) {
                let (family, table, chain) = (family.to_owned(), name.to_owned(), title.to_owned());
                found.push(Strict { hook, family, table, chain, rules: rules.clone() });
            }
        }
    }
    found
}

/// Whether a rule that accepts does not ask for more than the interface or the mark, such as for a port or an earlier packet.
fn lets_any_connection(rule: &str) -> bool {
    const MORE: [&str; 9] = ["dport", "sport", "saddr", "daddr", "protocol", "nexthdr", "l4proto", "icmp", "limit"];
    let asks = |word: &&str| rule.contains(*word) && !rule.contains(&format!("{word} tcp "));
    !MORE.iter().any(asks) && (!rule.contains("ct state") || rule.contains("new"))
}

/// Whether a chain whose `last` rule this is drops or refuses what comes so far, there or in the chain where it is sent.
fn drops(table: &str, last: &str, jumps: u8) -> bool {
    let mut words = last.split_ascii_whitespace().skip_while(|word| *word == "counter");
    match words.next() {
        Some("drop" | "reject") => true,
        Some("jump" | "goto") if jumps > 0 => {
            let chain = words.next().and_then(|name| table.split_once(&format!("\tchain {name} {{\n")));
            let end = chain.and_then(|(_, rules)| rules.lines().map(str::trim).take_while(|line| *line != "}").last());
            end.is_some_and(|end| drops(table, end, jumps - 1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const LISTING: &str = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n\t\tct state established accept\n\t}\n\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n\n\tchain OUTPUT {\n\t\ttype filter hook output priority filter; policy drop;\n\t}\n}\ntable inet wavelane_closed {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\treject\n\t}\n}\ntable inet firewalld {\n\tchain filter_INPUT {\n\t\ttype filter hook input priority filter + 10; policy accept;\n\t\tiifname \"lan0\" accept\n\t\treject with icmpx admin-prohibited\n\t}\n\n\tchain open {\n\t\ttype filter hook input priority filter; policy accept;\n\t\ttcp dport 22 accept\n\t}\n}\n";

    #[test]
    fn strict_chains_are_found_and_named_with_what_lets_us_through() {
        let found = strict(LISTING);
        let names: Vec<_> = found.iter().map(|s| (s.hook, s.table.as_str(), s.chain.as_str())).collect();
        let wanted = [
            (Hook::Input, "filter", "INPUT"),
            (Hook::Forward, "filter", "FORWARD"),
            (Hook::Input, "firewalld", "filter_INPUT"),
        ];
        assert_eq!(names, wanted);
        let dir = std::env::temp_dir().join(format!("wavelane-firewall-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
        let config = |rest: &str| {
            let text = format!(
                "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"{}\"\nroutes = [\"10.1.0.0/24\"]\n{rest}",
                crate::keys::to_base64(&[9; 32])
            );
            Config::parse(&text, "x", &dir).unwrap()
        };
        let said = |config: &Config| found.iter().filter_map(|s| hindrance(config, s, Kind::Nft)).collect::<Vec<_>>();
        let lan = said(&config("[intercept]\ninterfaces = [\"lan0\"]"));
        assert!(
            lan.len() == 1 && lan[0].contains("nft insert rule ip filter INPUT meta mark 0x574c0002 accept"),
            "{lan:?}"
        );
        let tun = said(&config("[intercept]\ninterfaces = [\"lan0\", \"lan1\"]\n[tun]"));
        assert!(tun.len() == 3 && tun[1].contains("oifname \"wavelane0\" accept"), "{tun:?}");
        let mut passes = found[0].clone();
        passes.rules.push("meta mark 0x574c0002 accept".into());
        assert_eq!(hindrance(&config("[intercept]\ninterfaces = [\"lan0\"]"), &passes, Kind::Nft), None);
        // What asks for more lets no connection through.
        for (rule, lets) in [
            ("ct state established,related", false),
            ("ip protocol udp", false),
            ("icmp type echo-request", false),
            ("ip saddr 10.9.0.0/16", false),
            ("tcp dport 22", false),
            ("ip protocol tcp counter packets 0 bytes 0", true),
            ("ct state established,new", true),
        ] {
            let mut passes = found[0].clone();
            passes.rules.push(format!("iifname \"lan0\" {rule} accept"));
            assert_eq!(
                hindrance(&config("[intercept]\ninterfaces = [\"lan0\"]"), &passes, Kind::Nft).is_none(),
                lets,
                "{rule}"
            );
        }
        let ours = config("[intercept]\ninterfaces = [\"lan0\"]");
        let around = [
            "10.9.9.0/24 dev lan0 proto kernel scope link src 10.9.9.1",
            "10.8.0.0/24 dev wan0 proto kernel",
            "10.1.0.64/26 dev lan7 proto kernel",
        ];
        let around: Vec<Attachment> = around.iter().filter_map(|line| Attachment::parse(line)).collect();
        for (rule, harms) in [
            ("0:\tfrom all lookup local", false),
            ("4779:\tnot from all fwmark 0xca6c lookup 51820", true),
            ("4778:\tfrom all lookup main suppress_prefixlength 0", true),
            ("1000:\tfrom all lookup [l3mdev-table]", false),
            ("100:\tfrom all iif vpn0 lookup 7", false),
            ("100:\tfrom all iif lan0 lookup 77", true),
            ("100:\tfrom 10.9.0.0/24 iif lan0 lookup 77", false),
            ("100:\tfrom 10.9.9.0/24 lookup 77", true),
            ("100:\tfrom 10.9.9.7 lookup 77", true),
            ("100:\tfrom 10.8.0.0/24 lookup 77", false),
            ("100:\tfrom all to 10.0.0.0/8 lookup main", true),
            ("100:\tfrom 10.9.9.0/24 to 10.1.0.7 lookup main", true),
            ("100:\tfrom all to 10.2.0.0/16 lookup main", false),
            ("100:\tfrom all to 10.1.0.64/28 lookup main", false),
            ("100:\tfrom all ipproto tcp lookup main", true),
            ("100:\tfrom all ipproto tcp dport 25 lookup main", false),
            ("100:\tfrom all fwmark 0x1 lookup 100", false),
            ("9:\tfrom all fwmark 0x200/0xf00 lookup 2004", false),
            ("100:\tfrom all fwmark 0x0/0x1 lookup 100", true),
            ("100:\tfrom all oif wan0 lookup 7", false),
            ("100:\tfrom all iif lan0 ipproto udp lookup 77", false),
            ("100:\tfrom 10.9.0.0/24 lookup 7", false),
            ("4780:\tfrom all fwmark 0x574c0002 lookup 4780", false),
            ("4781:\tfrom all lookup main", false),
            ("5270:\tfrom all lookup 52", false),
        ] {
            assert_eq!(before_ours(&ours, Family::V4, rule, &around).is_some(), harms, "{rule}");
            assert_eq!(before_ours(&ours, Family::V6, rule, &around), None, "no IPv6 route");
        }
        // Packets look for the device after these.
        let tun = config("[intercept]\ninterfaces = [\"lan0\"]\n[tun]");
        for (rule, harms) in [
            ("4781:\tfrom all lookup main", true),
            ("4780:\tfrom all lookup 77", true),
            ("4781:\tfrom all lookup 47800", true),
            ("4781:\tfrom all fwmark 0x574c0001 goto 32766", false),
            ("4780:\tfrom all fwmark 0x574c0002 lookup 4780", false),
            ("4782:\tfrom all iif lan0 lookup 4781", false),
            ("4782:\tfrom all iif vpn0 lookup main", true),
            ("4783:\tfrom all iif lan0 lookup 77", true),
            ("4780:\tfrom all fwmark 0x574c0002 lookup 99", true),
            ("4781:\tfrom all fwmark 0x574c0001 lookup 99", true),
            ("4784:\tfrom all lookup main", false),
        ] {
            assert_eq!(before_ours(&tun, Family::V4, rule, &around).is_some(), harms, "{rule}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_chain_that_ends_in_one_that_drops_is_strict() {
        let listing = |last: &str| {
            format!(
                "table ip filter {{\n\tchain LOGDROP {{\n\t\tlog prefix \"x\"\n\t\tcounter drop\n\t}}\n\n\tchain LOOP {{\n\t\tgoto LOOP\n\t}}\n\n\tchain INPUT {{\n\t\ttype filter hook input priority filter; policy accept;\n\t\tct state established accept\n\t\t{last}\n\t}}\n}}\n"
            )
        };
        for (last, found) in
            [("counter jump LOGDROP", 1), ("goto LOGDROP", 1), ("jump LOOP", 0), ("jump NONE", 0), ("drop", 1)]
        {
            assert_eq!(strict(&listing(last)).len(), found, "{last}");
        }
        assert_eq!(strict(&listing("ip saddr 10.0.0.1 jump LOGDROP")).len(), 0);
    }
}
