//! Tables and chains as `nft -s -t list ruleset` prints them.

use super::super::Hook;
use super::packet::Packet;

/// A table of nft, and its chains.
pub(super) struct Table<'a> {
    pub(super) family: &'a str,
    pub(super) name: &'a str,
    pub(super) chains: Vec<Chain<'a>>,
    /// Switched off.
    dormant: bool,
}

pub(super) struct Chain<'a> {
    pub(super) name: &'a str,
    pub(super) hook: Option<Hook>,
    /// What it drops that none of its rules accepts.
    pub(super) is_strict: bool,
    /// Packets come to it once we have marked them.
    is_late: bool,
    /// Whose packets it meets, at the hooks ingress and egress.
    devices: Vec<&'a str>,
    pub(super) rules: Vec<Vec<&'a str>>,
    pub(super) texts: Vec<&'a str>,
}

impl<'a> Chain<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            hook: None,
            is_strict: false,
            is_late: false,
            devices: Vec::new(),
            rules: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Its first rules.
    pub(super) fn up_to(&self, end: usize) -> Self {
        Self {
            hook: self.hook,
            rules: self.rules[..end].to_vec(),
            texts: self.texts[..end].to_vec(),
            ..Self::new(self.name)
        }
    }
    /// Whether packets of this kind come to it, in a table of this family.
    pub(super) fn meets(&self, family: &str, packet: &Packet<'_>) -> bool {
        let is_here = self.hook == Some(packet.hook);
        if let Hook::Ingress | Hook::Egress = packet.hook {
            let device = if packet.hook == Hook::Ingress { packet.iif } else { packet.oif };
            let of_device = device.is_some_and(|name| self.devices.contains(&name));
            return is_here && ["inet", "netdev"].contains(&family) && of_device;
        }
        is_here
            && ["inet", packet.family.nft()].contains(&family)
            && packet.is_late.is_none_or(|is_late| is_late == self.is_late)
    }
}

pub(super) fn tables(listing: &str) -> Vec<Table<'_>> {
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
                            ("filter", "egress") => Some(Hook::Egress),
                            ("filter" | "route", "output") => Some(Hook::Output),
                            ("filter", "postrouting") => Some(Hook::Postrouting),
                            ("nat", "prerouting") => Some(Hook::Redirection),
                            _ => None,
                        };
                        chain.is_strict = line.contains("policy drop");
                        chain.is_late = priority(line).is_some_and(|priority| priority > MANGLE);
                        chain.devices = devices(&words);
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

/// What stands behind `device` or `devices =`: nft prints a name alone in quotes, and a set of them with or without.
fn devices<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let behind = words.iter().skip_while(|word| !["device", "devices"].contains(word)).skip(1);
    let names = behind.take_while(|word| **word != "priority");
    names.map(|word| word.trim_matches(['"', '{', '}', ',', '='])).filter(|name| !name.is_empty()).collect()
}

/// The priority at which we mark what we take (linux/netfilter_ipv4.h).
const MANGLE: i32 = -150;

/// The number that stands behind `priority`, which may be counted from a name.
fn priority(line: &str) -> Option<i32> {
    let (_, rest) = line.split_once(" priority ")?;
    let words: Vec<&str> = rest.split(';').next()?.split_ascii_whitespace().collect();
    let of = |name: &str| match name {
        "raw" => Some(-300),
        "mangle" => Some(MANGLE),
        "dstnat" => Some(-100),
        "filter" => Some(0),
        "security" => Some(50),
        number => number.parse().ok(),
    };
    match words.as_slice() {
        [name] => of(name),
        [name, "+", more] => Some(of(name)? + more.parse::<i32>().ok()?),
        [name, "-", less] => Some(of(name)? - less.parse::<i32>().ok()?),
        _ => None,
    }
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
