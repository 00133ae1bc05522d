//! Single rules that drop or refuse what is ours, in what `nft -s -t list ruleset` prints, which shows iptables' rules as its own.
//!
//! A packet of ours is followed through the chains. What a rule asks for beyond what is known of it (a source, a rate, a set) may hold or not:
//! such a rule is not named, and what follows one that may accept is not either.

use super::{Hook, JUMPS_MAX, Kind, has_routes};
use crate::config::{Config, prefix_text};
use crate::rules::{Family, MARK_DIVERT, MARK_OWN, all_routes};
use std::collections::BTreeSet;
use std::net::IpAddr;
use wavelane_base::IpPrefix;
use wavelane_base::text;

/// Rules that are looked at for one kind of packet: chains may lead to one another many times over.
const STEPS_MAX: usize = 20_000;
/// Networks that a remedy names one by one.
const NETWORKS_NAMED: usize = 8;
/// Most of a rule that is shown.
const RULE_SHOWN: usize = 160;

/// How far a rule meets packets of a kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fit {
    None,
    /// It cannot be told.
    Unsure,
    /// Some of them, such as those to one port.
    Some,
    All,
}

impl Fit {
    fn not(self) -> Self {
        match self {
            Self::None => Self::All,
            Self::All => Self::None,
            other => other,
        }
    }
    fn of(is: bool) -> Self {
        if is { Self::All } else { Self::None }
    }
}

/// A kind of packet of ours, as far as it is known.
struct Packet<'a> {
    hook: Hook,
    family: Family,
    iif: Option<&'a str>,
    oif: Option<&'a str>,
    protocol: Option<(&'static str, &'static str)>,
    /// Of the target; of TCP it may be any.
    port: Option<u16>,
    mark: Option<u32>,
    state: &'static str,
    from: Vec<IpPrefix>,
    to: Vec<IpPrefix>,
    /// What it is, for people, and the matches of rules that would let it through.
    words: String,
    remedies: Vec<String>,
}

const TCP: (&str, &str) = ("tcp", "6");
const UDP: (&str, &str) = ("udp", "17");

/// What is ours here.
fn packets(config: &Config) -> Vec<Packet<'_>> {
    let Some(intercept) = &config.intercept else { return Vec::new() };
    let mut all = Vec::new();
    for family in Family::ALL.into_iter().filter(|family| has_routes(config, *family)) {
        let routes = || all_routes(config, family);
        let blank = |hook, words| Packet {
            hook,
            family,
            iif: None,
            oif: None,
            protocol: None,
            port: None,
            mark: None,
            state: "new",
            from: Vec::new(),
            to: Vec::new(),
            words,
            remedies: Vec::new(),
        };
        for name in intercept.interfaces.iter().map(String::as_str).chain(intercept.local.then_some("lo")) {
            all.push(Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(MARK_DIVERT),
                to: routes(),
                remedies: vec![format!("meta mark {MARK_DIVERT:#x}")],
                ..blank(Hook::Input, format!("connections that are taken from {name}, which time out"))
            });
            // What is born here carries a mark by which it comes.
            let marks = if name == "lo" { MARK_DIVERT } else { 0 };
            all.push(Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(marks),
                to: routes(),
                remedies: vec![format!("iifname \"{name}\" meta l4proto tcp")],
                ..blank(Hook::Prerouting, format!("connections that come from {name} before they are taken"))
            });
        }
        for name in &intercept.interfaces {
            let words = || format!("connections that come from {name} before they are taken");
            let coming = || Packet {
                iif: Some(name),
                protocol: Some(TCP),
                mark: Some(0),
                to: routes(),
                remedies: vec![format!("iifname \"{name}\" meta l4proto tcp")],
                ..blank(Hook::Ingress, words())
            };
            let networks: Vec<String> = routes().iter().map(prefix_text).collect();
            let to = format!("{} daddr {{ {} }}", family.nft(), networks.join(", "));
            let some = if networks.len() > NETWORKS_NAMED { "meta l4proto tcp" } else { &to };
            let remedies = vec![format!("iifname \"{name}\" {some}")];
            all.push(Packet { hook: Hook::Redirection, remedies, ..coming() });
            all.push(coming());
        }
        all.extend(sent(config, family).into_iter().flat_map(|packet| {
            [Hook::Output, Hook::Postrouting].map(|hook| Packet {
                hook,
                words: packet.words.clone(),
                mark: Some(MARK_OWN),
                remedies: vec![format!("meta mark {MARK_OWN:#x}")],
                to: packet.to.clone(),
                from: packet.from.clone(),
                ..packet
            })
        }));
        if let Some(tun) = &config.tun {
            let device = tun.name.as_str();
            let remedies = vec![format!("oifname \"{device}\""), format!("iifname \"{device}\"")];
            for name in &intercept.interfaces {
                let words = format!("packets between {name} and {device}");
                let (there, back) = (blank(Hook::Forward, words.clone()), blank(Hook::Forward, words));
                let remedies = || remedies.clone();
                all.push(Packet { iif: Some(name), oif: Some(device), to: routes(), remedies: remedies(), ..there });
                all.push(Packet { iif: Some(device), oif: Some(name), from: routes(), remedies: remedies(), ..back });
            }
        }
        let both = config.listen.is_ipv6() && config.listen.ip().is_unspecified();
        if both || Family::of_address(config.listen.ip()) == family {
            let port = config.listen.port();
            // What we call ourselves answers.
            let state = if config.peers.iter().all(|peer| peer.address.is_some()) { "established" } else { "new" };
            let remedies = vec![format!("udp dport {port}")];
            let words = format!("datagrams of peers to UDP port {port}");
            let lane = blank(Hook::Input, words);
            all.push(Packet { protocol: Some(UDP), port: Some(port), mark: Some(0), state, remedies, ..lane });
        }
    }
    all
}

/// What we send: to the peers that we call, to clients as their servers, and to servers for peers.
fn sent(config: &Config, family: Family) -> Vec<Packet<'_>> {
    let Some(intercept) = &config.intercept else { return Vec::new() };
    let blank = |words| Packet {
        hook: Hook::Output,
        family,
        iif: None,
        oif: None,
        protocol: Some(TCP),
        port: None,
        mark: None,
        state: "new",
        from: Vec::new(),
        to: Vec::new(),
        words,
        remedies: Vec::new(),
    };
    let of_family = |address: &String| match address.parse::<std::net::SocketAddr>() {
        Ok(number) => Family::of_address(number.ip()) == family,
        Err(_) => true,
    };
    let lanes =
        config.peers.iter().flat_map(|peer| peer.address.iter().chain(peer.lanes.iter().flat_map(|l| &l.address)));
    let ports = lanes.filter(|at| of_family(at)).filter_map(|at| at.rsplit_once(':')?.1.parse().ok());
    let ports: BTreeSet<u16> = ports.collect();
    let mut all: Vec<Packet<'_>> = Vec::new();
    all.extend(ports.into_iter().map(|port| Packet {
        protocol: Some(UDP),
        port: Some(port),
        ..blank(format!("our datagrams to UDP port {port} of peers"))
    }));
    let served = config.peers.iter().flat_map(|peer| config.targets(peer));
    let to: Vec<IpPrefix> = served.filter(|network| Family::of(network) == family).copied().collect();
    if !to.is_empty() {
        all.push(Packet { to, ..blank("connections that we make for peers".to_owned()) });
    }
    // A proxy with a device of its own answers through that.
    if intercept.proxy.as_ref().is_none_or(|proxy| proxy.device.is_none()) {
        all.extend(intercept.interfaces.iter().map(|name| Packet {
            oif: Some(name),
            state: "established",
            from: all_routes(config, family),
            ..blank(format!("what we answer by {name} to connections that are taken"))
        }));
    }
    all
}

/// A table of nft, and its chains.
struct Table<'a> {
    family: &'a str,
    name: &'a str,
    chains: Vec<Chain<'a>>,
    /// Switched off.
    dormant: bool,
}

struct Chain<'a> {
    name: &'a str,
    hook: Option<Hook>,
    /// What it drops that none of its rules accepts.
    is_strict: bool,
    /// Whose packets it meets, at the hook ingress.
    devices: Vec<&'a str>,
    rules: Vec<Vec<&'a str>>,
    texts: Vec<&'a str>,
}

impl<'a> Chain<'a> {
    fn new(name: &'a str) -> Self {
        Self { name, hook: None, is_strict: false, devices: Vec::new(), rules: Vec::new(), texts: Vec::new() }
    }

    /// Whether packets of this kind come to it, in a table of this family.
    fn meets(&self, family: &str, packet: &Packet<'_>) -> bool {
        let is_here = self.hook == Some(packet.hook);
        if packet.hook == Hook::Ingress {
            let of_device = packet.iif.is_some_and(|name| self.devices.contains(&name));
            return is_here && ["inet", "netdev"].contains(&family) && of_device;
        }
        is_here && ["inet", packet.family.nft()].contains(&family)
    }
}

fn tables(listing: &str) -> Vec<Table<'_>> {
    let mut all: Vec<Table<'_>> = Vec::new();
    let mut in_chain = false;
    for line in listing.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match (words.as_slice(), all.last_mut()) {
            (["table", family, name, "{", ..], _) => {
                all.push(Table { family, name, chains: Vec::new(), dormant: false });
                in_chain = false;
            }
            (["chain", name, "{", ..], Some(table)) => {
                table.chains.push(Chain::new(name));
                in_chain = true;
            }
            (["flags", flags @ ..], Some(table)) if !in_chain => {
                table.dormant |= flags.iter().any(|flag| flag.contains("dormant"));
            }
            (["}"], _) => in_chain = false,
            (_, Some(table)) if in_chain => {
                let Some(chain) = table.chains.last_mut() else { continue };
                match words.as_slice() {
                    ["type", kind, "hook", hook, ..] => {
                        chain.hook = match (*kind, *hook) {
                            ("filter", "input") => Some(Hook::Input),
                            ("filter", "forward") => Some(Hook::Forward),
                            ("filter", "prerouting") => Some(Hook::Prerouting),
                            ("filter", "ingress") => Some(Hook::Ingress),
                            ("filter" | "route", "output") => Some(Hook::Output),
                            ("filter", "postrouting") => Some(Hook::Postrouting),
                            ("nat", "prerouting") => Some(Hook::Redirection),
                            _ => None,
                        };
                        chain.is_strict = line.contains("policy drop");
                        chain.devices = line.split('"').skip(1).step_by(2).collect();
                    }
                    ["type", ..] | [] => {}
                    _ => {
                        chain.rules.push(tokens(line));
                        chain.texts.push(line.trim());
                    }
                }
            }
            _ => {}
        }
    }
    all.retain(|table| !table.dormant);
    all
}

/// Words; what stands in quotes, braces or parentheses is one.
fn tokens(line: &str) -> Vec<&str> {
    let (mut all, mut begin, mut quoted, mut depth) = (Vec::new(), None, false, 0_u32);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '{' | '(' if !quoted => depth += 1,
            '}' | ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        match begin {
            Some(from) if c.is_ascii_whitespace() && !quoted && depth == 0 => {
                all.push(&line[from..at]);
                begin = None;
            }
            None if !c.is_ascii_whitespace() => begin = Some(at),
            _ => {}
        }
    }
    all.extend(begin.map(|from| &line[from..]));
    all
}

/// What a rule does with what it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict<'a> {
    Accept,
    Drop,
    Return,
    Jump(&'a str),
    Goto(&'a str),
    /// It goes on.
    Next,
}

/// A match's value: whether it is negated, and the value.
fn value<'a>(words: &mut &[&'a str]) -> (bool, &'a str) {
    let negated = match words {
        ["!=", rest @ ..] => {
            *words = rest;
            true
        }
        ["==", rest @ ..] => {
            *words = rest;
            false
        }
        _ => false,
    };
    let [value, rest @ ..] = words else { return (negated, "") };
    *words = rest;
    (negated, value)
}

/// How far one of the values of a match holds.
fn any((negated, value): (bool, &str), holds: impl Fn(&str) -> Fit) -> Fit {
    let list = value.strip_prefix('{').and_then(|list| list.strip_suffix('}')).unwrap_or(value);
    if value.starts_with('@') || ["vmap", "&", "<", ">", "<=", ">=", ""].contains(&value) {
        return Fit::Unsure;
    }
    let best = list.split(',').map(|one| holds(one.trim().trim_matches('"'))).max().unwrap_or(Fit::Unsure);
    if negated { best.not() } else { best }
}

impl Packet<'_> {
    /// How far a rule meets this kind, and what it does then.
    fn judge<'a>(&self, rule: &[&'a str]) -> (Fit, Verdict<'a>) {
        // What these do with whom is not read here.
        if rule.iter().any(|word| ["vmap", "queue", "synproxy"].contains(word)) {
            return (Fit::Unsure, Verdict::Accept);
        }
        let (mut fit, mut words) = (Fit::All, rule);
        while let [word, rest @ ..] = words {
            words = rest;
            let one = match (*word, rest) {
                ("accept", _) => return (fit, Verdict::Accept),
                ("drop" | "reject", _) => return (fit, Verdict::Drop),
                ("redirect" | "dnat", _) => return (fit, Verdict::Drop),
                ("return", _) => return (fit, Verdict::Return),
                ("jump", [chain, ..]) => return (fit, Verdict::Jump(chain)),
                ("goto", [chain, ..]) => return (fit, Verdict::Goto(chain)),
                ("comment", _) => break,
                ("counter", ["packets", _, "bytes", _, rest @ ..]) => {
                    words = rest;
                    continue;
                }
                ("counter", _) => continue,
                ("log", _) => {
                    while let ["prefix" | "level" | "flags" | "group" | "snaplen" | "queue-threshold", _, rest @ ..] =
                        words
                    {
                        words = rest;
                    }
                    continue;
                }
                ("meta", [key, rest @ ..]) => {
                    words = rest;
                    self.meta(key, &mut words)
                }
                ("iifname" | "oifname" | "iif" | "oif", _) => self.meta(word, &mut words),
                ("ip" | "ip6", [key, rest @ ..]) => {
                    words = rest;
                    let family = Fit::of((*word == "ip") == (self.family == Family::V4));
                    family.min(self.header(key, &mut words))
                }
                ("tcp" | "udp" | "th", [key, rest @ ..]) => {
                    words = rest;
                    let is = self.protocol.map_or(Fit::Unsure, |(name, _)| Fit::of(*word == "th" || name == *word));
                    is.min(if *key == "dport" { any(value(&mut words), |port| self.port(port)) } else { Fit::Unsure })
                }
                ("icmp" | "icmpv6", _) => self.protocol.map_or(Fit::Unsure, |_| Fit::None),
                ("ct", ["state", rest @ ..]) => {
                    words = rest;
                    any(value(&mut words), |state| Fit::of(state == self.state))
                }
                ("fib", ["daddr", "type", rest @ ..]) => {
                    words = rest;
                    // What is taken goes to other hosts; what peers send, to this one.
                    let is_for_us = self.protocol == Some(UDP) && self.hook == Hook::Input;
                    let kind = if is_for_us { "local" } else { "unicast" };
                    any(value(&mut words), |of| Fit::of(of == kind))
                }
                _ => Fit::Unsure,
            };
            fit = fit.min(one);
        }
        (fit, Verdict::Next)
    }

    fn meta(&self, key: &str, words: &mut &[&str]) -> Fit {
        if let ("mark", ["&", mask, "==", wanted, rest @ ..]) = (key, &**words) {
            let (mask, wanted) = (hex(mask), hex(wanted));
            *words = rest;
            let known = self.mark.zip(mask).zip(wanted);
            return known.map_or(Fit::Unsure, |((mark, mask), wanted)| Fit::of(mark & mask == wanted));
        }
        let value = value(words);
        let device = |known: Option<&str>| {
            any(value, |name| match (known, name.strip_suffix('*')) {
                // No kind that is asked about comes by the loopback device.
                (None, _) => {
                    if name == "lo" {
                        Fit::None
                    } else {
                        Fit::Unsure
                    }
                }
                (Some(known), Some(start)) => Fit::of(known.starts_with(start)),
                (Some(known), None) => Fit::of(known == name),
            })
        };
        match key {
            "iifname" | "iif" => device(self.iif),
            "oifname" | "oif" => device(self.oif),
            "l4proto" => self.is_protocol(value),
            "nfproto" => any(value, |name| Fit::of((name == "ipv4") == (self.family == Family::V4))),
            "mark" => any(value, |mark| self.has_mark(mark)),
            _ => Fit::Unsure,
        }
    }

    fn header(&self, key: &str, words: &mut &[&str]) -> Fit {
        let value = value(words);
        match key {
            "protocol" | "nexthdr" => self.is_protocol(value),
            "saddr" => any(value, |block| within(block, &self.from)),
            "daddr" => any(value, |block| within(block, &self.to)),
            _ => Fit::Unsure,
        }
    }

    fn is_protocol(&self, value: (bool, &str)) -> Fit {
        any(value, |name| self.protocol.map_or(Fit::Unsure, |known| Fit::of(known.0 == name || known.1 == name)))
    }

    fn has_mark(&self, wanted: &str) -> Fit {
        let (wanted, bits) = wanted.split_once('/').unwrap_or((wanted, "32"));
        let known = self.mark.zip(hex(wanted)).zip(bits.parse::<u32>().ok().filter(|bits| *bits <= 32));
        known.map_or(Fit::Unsure, |((mark, wanted), bits)| {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Fit::of(mark & mask == wanted & mask)
        })
    }

    fn port(&self, wanted: &str) -> Fit {
        let (first, last) = wanted.split_once('-').unwrap_or((wanted, wanted));
        match (first.parse::<u16>(), last.parse::<u16>(), self.port) {
            (Ok(first), Ok(last), Some(port)) => Fit::of((first..=last).contains(&port)),
            (Ok(0), Ok(u16::MAX), None) => Fit::All,
            (Ok(_), Ok(_), None) => Fit::Some,
            _ => Fit::Unsure,
        }
    }
}

fn hex(text: &str) -> Option<u32> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok())
}

/// How far what goes to `networks` goes to `block`.
fn within(block: &str, networks: &[IpPrefix]) -> Fit {
    let host = || block.parse::<IpAddr>().ok().map(|address| IpPrefix { address, bits: crate::config::width(address) });
    let Some(block) = block.parse::<IpPrefix>().ok().or_else(host).filter(|_| !networks.is_empty()) else {
        return Fit::Unsure;
    };
    let covered = networks.iter().filter(|network| block.covers(network)).count();
    let touches = || networks.iter().any(|network| network.covers(&block));
    match covered {
        0 if touches() => Fit::Unsure,
        0 => Fit::None,
        some if some < networks.len() => Fit::Some,
        _ => Fit::All,
    }
}

/// A walk of one kind of packet through a table.
struct Walk<'t, 'a> {
    table: &'t Table<'a>,
    packet: &'t Packet<'t>,
    steps: usize,
    /// A rule before may have accepted it.
    unsure: bool,
    /// A rule before has accepted some of it.
    partly: bool,
}

/// How a chain ends for it.
enum End<'t> {
    Goes,
    Accepted,
    /// By this rule of this chain, how far, and whether it is the chain's last and asks for nothing.
    Dropped(&'t str, &'t str, Fit, bool),
}

impl<'t> Walk<'t, '_> {
    fn through(&mut self, chain: &'t Chain<'t>, so_far: Fit, jumps: u8) -> End<'t> {
        for (at, rule) in chain.rules.iter().enumerate() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return End::Goes;
            }
            let (fit, verdict) = self.packet.judge(rule);
            let fit = fit.min(so_far);
            match (verdict, fit) {
                (_, Fit::None) | (Verdict::Next, _) => {}
                (Verdict::Accept, Fit::All) => return End::Accepted,
                (Verdict::Accept, Fit::Unsure) => self.unsure = true,
                (Verdict::Accept, Fit::Some) => self.partly = true,
                (Verdict::Drop, Fit::Some | Fit::All) if !self.unsure => {
                    let is_bare = rule
                        .iter()
                        .find(|word| **word != "counter")
                        .is_some_and(|word| ["drop", "reject"].contains(word));
                    let last = is_bare && at + 1 == chain.rules.len();
                    return End::Dropped(chain.texts[at], chain.name, fit, last);
                }
                (Verdict::Return, fit) if fit == so_far => return End::Goes,
                (Verdict::Jump(to) | Verdict::Goto(to), _) if jumps > 0 => {
                    let Some(next) = self.table.chains.iter().find(|chain| chain.name == to) else { continue };
                    match self.through(next, fit, jumps - 1) {
                        End::Goes if matches!(verdict, Verdict::Goto(_)) && fit == so_far => return End::Goes,
                        End::Goes => {}
                        End::Accepted if fit == Fit::All => return End::Accepted,
                        End::Accepted => {
                            self.unsure |= fit == Fit::Unsure;
                            self.partly |= fit == Fit::Some;
                        }
                        dropped @ End::Dropped(..) => return dropped,
                    }
                }
                _ => {}
            }
        }
        End::Goes
    }
}

/// What single rules do to us, besides the chains `known` by family, table and name. One line each, with the remedy.
pub(super) fn findings(
    config: &Config,
    (listing, kind): (&str, Kind),
    known: &[(String, String, String)],
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let packets = packets(config);
    for table in tables(listing).iter().filter(|table| !table.name.starts_with("wavelane")) {
        for packet in &packets {
            for chain in table.chains.iter().filter(|chain| chain.meets(table.family, packet)) {
                let is_lane = packet.protocol == Some(UDP);
                let is_known = known.iter().any(|(family, name, of)| {
                    (family.as_str(), name.as_str(), of.as_str()) == (table.family, table.name, chain.name)
                });
                // Of the others `hindrance` judges what a whole chain does.
                let by_policy = matches!(packet.hook, Hook::Ingress | Hook::Output | Hook::Postrouting);
                let mut walk = Walk { table, packet, steps: 0, unsure: false, partly: false };
                let (rule, of, fit, last) = match walk.through(chain, Fit::All, JUMPS_MAX) {
                    End::Dropped(rule, of, fit, last) => (rule, of, fit, last && !by_policy),
                    End::Goes
                        if by_policy && chain.is_strict && !walk.unsure && !walk.partly && walk.steps <= STEPS_MAX =>
                    {
                        ("policy drop", chain.name, Fit::All, false)
                    }
                    _ => continue,
                };
                // Ports that forwarded packets may not reach are the operator's concern.
                let meant = !matches!(packet.hook, Hook::Input | Hook::Redirection) && fit != Fit::All;
                if is_known && !is_lane || meant || last && of == chain.name && !is_lane {
                    continue;
                }
                let Table { family, name, .. } = table;
                let insert = |matching: &String| format!("`{}`", kind.insert((family, name, chain.name), matching));
                let older = if kind == Kind::Older { " of iptables-legacy" } else { "" };
                let remedies: Vec<String> = packet.remedies.iter().map(insert).collect();
                let some = if fit == Fit::All { "" } else { "some of the " };
                let does = if packet.hook == Hook::Redirection { "leads away" } else { "drops" };
                found.push(format!(
                    "the rule '{}' in chain {of} of table {family} {name}{older} {does} {some}{}; run {}, and have your firewall do so at boot",
                    text::line(rule, RULE_SHOWN),
                    packet.words,
                    remedies.join(" and ")
                ));
            }
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn config(rest: &str) -> Config {
        let dir = std::env::temp_dir().join(format!("wavelane-single-{}-{}", std::process::id(), rest.len()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
        let text = format!(
            "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"{}\"\nroutes = [\"10.3.0.0/24\", \"10.4.0.0/24\"]\n{rest}",
            crate::keys::to_base64(&[9; 32])
        );
        let config = Config::parse(&text, "x", &dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        config
    }

    /// What is said of these rules at a hook, beside chains that they lead to.
    fn said(config: &Config, hook: &str, rules: &[&str]) -> Vec<String> {
        let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
        let listing = format!(
            "table ip filter {{\n\tset x {{\n\t\ttype ipv4_addr\n\t}}\n\n\tchain BASE {{\n\t\ttype filter hook {hook} priority filter; policy accept;\n{rules}\t}}\n\n\tchain FOREIGN {{\n\t\tfib daddr type local return\n\t\tlimit rate 3/minute counter log prefix \"[X] drop \"\n\t\tcounter drop\n\t}}\n\n\tchain BANS {{\n\t\tip saddr 192.0.2.7 drop\n\t\treturn\n\t}}\n\n\tchain LOOP {{\n\t\tjump LOOP\n\t\tjump LOOP\n\t}}\n}}\n"
        );
        findings(config, (&listing, Kind::Nft), &[])
    }

    #[test]
    fn single_rules_that_eat_what_is_taken_are_named() {
        let lan = config("[intercept]\ninterfaces = [\"lan0\"]");
        for (rules, some) in [
            (&["iifname \"lan0\" counter drop"][..], false),
            (
                &[
                    "ct state established,related accept",
                    "meta l4proto tcp counter packets 1 bytes 40 reject with tcp reset",
                ],
                false,
            ),
            (
                &["iifname { \"lan0\", \"lan1\" } tcp dport { 22, 80-90 } log prefix \"a drop \" drop comment \"x\""],
                true,
            ),
            (&["iifname \"lan*\" tcp dport 80 accept", "iifname \"lan*\" drop"], false),
            (&["ip daddr 10.3.0.0/24 drop"], true),
            (&["ip daddr 10.0.0.0/8 ip protocol tcp ct state new drop"], false),
            (&["iifname != \"lo\" jump FOREIGN"], false),
            (&["tcp dport 22 jump BANS", "goto FOREIGN"], false),
            (&["meta mark 0x574c0001 accept", "meta mark & 0xffff0000 == 0x574c0000 drop"], false),
        ] {
            let found = said(&lan, "input", rules);
            assert_eq!(found.len(), 1, "{rules:?}: {found:?}");
            assert!(found[0].contains("`nft insert rule ip filter BASE meta mark 0x574c0002 accept`"), "{found:?}");
            assert_eq!(found[0].contains("drops some of the connections"), some, "{found:?}");
        }
        for rules in [
            &["meta mark 0x574c0002 accept", "iifname \"lan0\" drop"][..],
            &["meta mark & 0xffff0000 == 0x574c0000 accept", "iifname \"lan0\" drop"],
            &["meta mark 0x574c0002/16 counter accept", "iifname \"lan0\" drop"],
            &["iifname \"wan0\" drop", "iifname != \"lan0\" drop", "oifname \"x\" ip saddr 10.0.0.1 drop"],
            &["ct state invalid drop", "meta l4proto sctp drop", "icmp type echo-request drop", "ip saddr @x drop"],
            &["ct state vmap { established : accept, invalid : drop }", "tcp flags & (syn | fin) == (syn | fin) drop"],
            &["limit rate over 10/second drop", "fib daddr type broadcast drop", "ip daddr 10.3.0.7 drop"],
            &["iifname vmap { \"lo\" : accept, \"lan0\" : jump BANS }", "meta l4proto { tcp, udp } drop"],
            // Which sources that is, is not known.
            &["ip saddr 10.1.0.0/24 accept", "iifname \"lan0\" drop"],
            &["jump BANS", "jump LOOP", "jump NOWHERE", "ip daddr 192.0.2.0/24 drop"],
        ] {
            assert_eq!(said(&lan, "input", rules), [""; 0], "{rules:?}");
        }
    }

    #[test]
    fn rules_against_the_lanes_and_the_device_are_named() {
        let tun = config("[intercept]\ninterfaces = [\"lan0\"]\n[tun]");
        let found = said(&tun, "input", &["udp dport 4780 drop"]);
        assert!(found.len() == 1 && found[0].contains("BASE udp dport 4780 accept"), "{found:?}");
        assert_eq!(said(&tun, "input", &["udp dport 4780 accept", "meta l4proto udp drop"]), [""; 0]);
        assert_eq!(said(&tun, "input", &["udp dport != 4780 drop"]), [""; 0]);
        assert_eq!(
            said(&tun, "input", &["ct state vmap { established : accept }", "udp dport 4000-5000 drop"]),
            [""; 0]
        );
        let found = said(&tun, "input", &["iifname \"lo\" accept", "udp dport 4780 drop"]);
        assert_eq!(found.len(), 1, "a peer's datagrams come by no loopback device: {found:?}");
        let found =
            said(&tun, "prerouting", &["ct state invalid drop", "iifname \"lan0\" meta l4proto tcp counter drop"]);
        assert!(found.len() == 1 && found[0].contains("that come from lan0 before they are taken; run"), "{found:?}");
        assert!(found[0].contains("BASE iifname \"lan0\" meta l4proto tcp accept`"), "{found:?}");
        for passes in
            ["iifname \"lan0\" tcp dport 25 drop", "iifname \"wan0\" drop", "fib saddr . iif oif missing drop"]
        {
            assert_eq!(said(&tun, "prerouting", &[passes]), [""; 0]);
        }
        let asleep = "table ip off {\n\tflags dormant\n\tchain in {\n\t\ttype filter hook input priority 0; policy accept;\n\t\tudp dport 4780 drop\n\t}\n}";
        assert_eq!(findings(&tun, (asleep, Kind::Nft), &[]), [""; 0]);
        assert_eq!(findings(&tun, (&asleep.replace("\tflags dormant\n", ""), Kind::Nft), &[]).len(), 1);
        let calls = config("address = \"192.0.2.1:4780\"\n[intercept]\ninterfaces = [\"lan0\"]");
        assert_eq!(said(&calls, "input", &["ct state established accept", "meta l4proto udp drop"]), [""; 0]);
        let found = said(&tun, "forward", &["iifname \"lan0\" reject with icmp port-unreachable"]);
        assert!(found.len() == 1 && found[0].contains("BASE oifname \"wavelane0\" accept`"), "{found:?}");
        let found = said(&tun, "forward", &["ip saddr 10.0.0.0/8 oifname \"lan0\" drop"]);
        assert!(found.len() == 1 && found[0].contains("packets between lan0 and wavelane0"), "{found:?}");
        assert_eq!(said(&tun, "forward", &["tcp dport 25 drop", "iifname \"docker0\" drop"]), [""; 0]);
    }

    #[test]
    fn what_we_send_and_what_is_led_away_is_named() {
        let calls = config(
            "address = \"192.0.2.1:4780\"\nallow_targets = [\"10.1.0.0/24\"]\n[intercept]\ninterfaces = [\"lan0\"]",
        );
        for hook in ["output", "postrouting"] {
            let found = said(&calls, hook, &["udp dport 4780 drop"]);
            assert!(found.len() == 1 && found[0].contains("our datagrams to UDP port 4780 of peers"), "{found:?}");
            assert!(found[0].contains("BASE meta mark 0x574c0001 accept`"), "{found:?}");
            let found = said(&calls, hook, &["oifname \"lan0\" meta l4proto tcp drop"]);
            assert!(found.len() == 1 && found[0].contains("what we answer by lan0"), "{found:?}");
            for passes in [
                &["oifname \"lo\" drop", "ct state invalid drop", "tcp dport 25 drop", "udp dport 53 drop"][..],
                &["meta mark 0x574c0001 accept", "drop"],
            ] {
                assert_eq!(said(&calls, hook, passes), [""; 0], "{passes:?}");
            }
        }
        assert_eq!(said(&config("[intercept]\ninterfaces = [\"lan0\"]"), "output", &["udp dport 4780 drop"]), [""; 0]);
        // As of ufw's `deny outgoing`.
        let denied = |rules: &str| {
            let listing = format!(
                "table ip filter {{\n\tchain OUTPUT {{\n\t\ttype filter hook output priority filter; policy drop;\n\t\toifname \"lo\" accept\n\t\tct state related,established accept\n{rules}\t}}\n}}\n"
            );
            findings(&calls, (&listing, Kind::Nft), &[])
        };
        let found = denied("");
        assert!(
            found.len() == 2 && found.iter().all(|line| line.contains("'policy drop' in chain OUTPUT")),
            "{found:?}"
        );
        assert_eq!(denied("\t\tmeta mark 0x574c0001 accept\n"), [""; 0]);
        assert_eq!(
            denied("\t\tudp dport 4780 accept\n\t\ttcp dport { 80, 443 } accept\n"),
            [""; 0],
            "as the operator means it"
        );
        // At a device, and where rules lead elsewhere.
        let lan = config("[intercept]\ninterfaces = [\"lan0\"]");
        let at = |family: &str, device: &str, rule: &str| {
            let listing = format!(
                "table {family} f {{\n\tchain in {{\n\t\ttype filter hook ingress device \"{device}\" priority filter; policy accept;\n\t\t{rule}\n\t}}\n}}\n"
            );
            findings(&lan, (&listing, Kind::Nft), &[])
        };
        for family in ["netdev", "inet"] {
            let found = at(family, "lan0", "ip protocol tcp drop");
            assert!(found.len() == 1 && found[0].contains("that come from lan0 before they are taken"), "{found:?}");
        }
        assert_eq!(at("netdev", "wan0", "ip protocol tcp drop"), [""; 0]);
        assert_eq!(at("netdev", "lan0", "ip saddr 192.0.2.7 drop"), [""; 0]);
        let led = |rule: &str| {
            let listing = format!(
                "table ip nat {{\n\tchain PREROUTING {{\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t\t{rule}\n\t}}\n}}\n"
            );
            findings(&lan, (&listing, Kind::Nft), &[])
        };
        let found = led("iifname \"lan0\" tcp dport 80 counter packets 0 bytes 0 redirect to :3128");
        assert!(found.len() == 1 && found[0].contains("leads away some of the connections"), "{found:?}");
        let remedy = "nat PREROUTING iifname \"lan0\" ip daddr { 10.3.0.0/24, 10.4.0.0/24 } accept`";
        assert!(found[0].contains(remedy), "{found:?}");
        assert_eq!(led("ip daddr 10.0.0.0/8 ip protocol tcp dnat to 10.9.9.9").len(), 1);
        for passes in [
            "iifname \"wan0\" tcp dport 80 dnat to 10.0.0.2:80",
            "fib daddr type local tcp dport 80 redirect to :8080",
            "udp dport 53 redirect to :5353",
            "ip daddr 192.0.2.1 tcp dport 80 dnat to 10.0.0.2",
        ] {
            assert_eq!(led(passes), [""; 0], "{passes}");
        }
    }
}
