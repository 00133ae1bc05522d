//! What a rule does with a kind of packet, as far as it is known.

use super::super::Hook;
use super::Fit;
use super::packet::{Packet, Port};
use crate::system::family::Family;
use std::net::IpAddr;
use wavelane_base::IpPrefix;

/// What a rule does with what it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict<'a> {
    Accept,
    Drop,
    Return,
    Jump(&'a str),
    Goto(&'a str),
    /// It gets another mark, so it is not taken any more.
    Unmark,
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
    pub(super) fn judge<'a>(&self, rule: &[&'a str]) -> (Fit, Verdict<'a>) {
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
                // What is worked out from the mark that it has may leave ours as it is.
                ("meta", ["mark", "set", value, ..]) if !["meta", "mark"].contains(value) => {
                    return (fit, if self.is_late == Some(true) { Verdict::Unmark } else { Verdict::Next });
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
                    is.min(match *key {
                        "dport" => any(value(&mut words), |wanted| port(self.port, wanted)),
                        "sport" => any(value(&mut words), |wanted| port(self.source_port, wanted)),
                        _ => Fit::Unsure,
                    })
                }
                ("icmp" | "icmpv6", _) => self.protocol.map_or(Fit::Unsure, |_| Fit::None),
                ("ct", ["state", rest @ ..]) => {
                    words = rest;
                    any(value(&mut words), |state| Fit::of(state == self.state))
                }
                ("fib", ["saddr", rest @ ..]) => {
                    words = rest;
                    self.source(&mut words)
                }
                ("fib", ["daddr", "type", rest @ ..]) => {
                    words = rest;
                    // What is taken goes to other hosts; what peers send, to this one.
                    let comes = matches!(self.hook, Hook::Input | Hook::Prerouting | Hook::Ingress);
                    let kind = if self.is_lane() && comes { "local" } else { "unicast" };
                    any(value(&mut words), |of| Fit::of(of == kind))
                }
                _ => Fit::Unsure,
            };
            fit = fit.min(one);
        }
        (fit, Verdict::Next)
    }

    /// Whether there is no way to its source by the interface that it came by, as nft and the older `rpfilter` ask.
    fn source(&self, words: &mut &[&str]) -> Fit {
        let (mut by_mark, mut by_interface) = (false, false);
        while let [".", key, rest @ ..] = words {
            by_mark = by_mark || *key == "mark";
            by_interface = by_interface || *key == "iif";
            *words = rest;
        }
        let ["oif" | "check", rest @ ..] = words else { return Fit::Unsure };
        *words = rest;
        match value(words) {
            (false, "missing" | "0") if by_interface && self.seems_forged(by_mark) => Fit::All,
            _ => Fit::Unsure,
        }
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
            // Of what is taken in others' names a part is some.
            "saddr" => any(value, |block| match within(block, &self.from) {
                Fit::Unsure if self.is_part && touches(block, &self.from) => Fit::Some,
                other => other,
            }),
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
}

/// How far a range of ports holds what is `known`.
fn port(known: Port, wanted: &str) -> Fit {
    let (first, last) = wanted.split_once('-').unwrap_or((wanted, wanted));
    match (first.parse::<u16>(), last.parse::<u16>(), known) {
        (Ok(first), Ok(last), Port::One(port)) => Fit::of((first..=last).contains(&port)),
        (Ok(0), Ok(u16::MAX), _) => Fit::All,
        (Ok(_), Ok(_), Port::Many) => Fit::Some,
        _ => Fit::Unsure,
    }
}

fn hex(text: &str) -> Option<u32> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok())
}

fn block(text: &str) -> Option<IpPrefix> {
    let host = || text.parse::<IpAddr>().ok().map(|address| IpPrefix { address, bits: crate::config::width(address) });
    text.parse::<IpPrefix>().ok().or_else(host)
}

/// Whether a block is a part of one of `networks`.
fn touches(text: &str, networks: &[IpPrefix]) -> bool {
    block(text).is_some_and(|block| networks.iter().any(|network| network.covers(&block)))
}

/// How far what goes to `networks` goes to a block.
fn within(text: &str, networks: &[IpPrefix]) -> Fit {
    let Some(block) = block(text).filter(|_| !networks.is_empty()) else { return Fit::Unsure };
    match networks.iter().filter(|network| block.covers(network)).count() {
        0 if touches(text, networks) => Fit::Unsure,
        0 => Fit::None,
        some if some < networks.len() => Fit::Some,
        _ => Fit::All,
    }
}
