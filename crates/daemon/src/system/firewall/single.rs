//! Single rules that drop or refuse what is ours, in what `nft -s -t list ruleset` prints, which shows iptables' rules as its own.
//!
//! A packet of ours is followed through the chains. What a rule asks for beyond what is known of it (a source, a rate, a set) may hold or not:
//! such a rule is not named, and what follows one that may accept is not either.

mod judge;
mod listing;
mod packet;
#[cfg(test)]
mod tests;

use super::{Hook, JUMPS_MAX, Kind};
use crate::config::Config;
use judge::Verdict;
use listing::{Chain, Table, tables};
use packet::{Packet, UDP, packets};
use wavelane_base::text;

/// Rules that are looked at for one kind of packet: chains may lead to one another many times over.
const STEPS_MAX: usize = 20_000;
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
                (Verdict::Drop | Verdict::Unmark, Fit::Some | Fit::All) if !self.unsure => {
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
                let by_policy =
                    matches!(packet.hook, Hook::Prerouting | Hook::Ingress | Hook::Output | Hook::Postrouting);
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
                let does = match packet.hook {
                    Hook::Redirection => "leads away",
                    _ if rule.contains("mark set") => "changes the mark of",
                    _ => "drops",
                };
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
