//! Single rules that drop or refuse what is ours, in what `nft -s -t list ruleset` prints, which shows iptables' rules as its own.
//!
//! A packet of ours is followed through the chains. What a rule asks for beyond what is known of it (a source, a rate, a set) may hold or not:
//! such a rule is not named, and what follows one that may accept is not either.

mod judge;
mod listing;
mod packet;
#[cfg(test)]
mod tests;

use super::{Hook, JUMPS_MAX, Kind, Reached};
use crate::config::Config;
use crate::system::family::Family;
use crate::system::rules::{Attachment, XT_CHAIN};
use judge::Verdict;
use listing::{Chain, Table, tables};
pub(super) use packet::uplinks;
use packet::{Packet, packets};
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
    /// The rule of the first chain that is looked at.
    top: &'t str,
    /// This one before, or what it leads to, has accepted some of it.
    partly: Option<&'t str>,
    /// This one has ended the first chain for some of it.
    left: Option<&'t str>,
    /// What drops some of it alone is passed over.
    seeks_accepts: bool,
}

/// How a chain ends for it.
enum End<'t> {
    Goes,
    /// By this rule of the chain, which ends it.
    Returned(&'t str),
    /// By this rule of the chain, or where that leads.
    Accepted(&'t str),
    /// By this rule of this chain, how far, and whether it is the chain's last and asks for nothing.
    Dropped(&'t str, &'t str, Fit, bool),
}

impl<'t, 'a> Walk<'t, 'a> {
    fn new(table: &'t Table<'a>, packet: &'t Packet<'t>) -> Self {
        Self { table, packet, steps: 0, unsure: false, top: "", partly: None, left: None, seeks_accepts: false }
    }
    fn through(&mut self, chain: &'t Chain<'t>, so_far: Fit, jumps: u8) -> End<'t> {
        for (at, rule) in chain.rules.iter().enumerate() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return End::Goes;
            }
            if jumps == JUMPS_MAX {
                self.top = chain.texts[at];
            }
            let (fit, verdict) = self.packet.judge(rule);
            let fit = fit.min(so_far);
            match (verdict, fit) {
                (_, Fit::None) | (Verdict::Next, _) => {}
                (Verdict::Accept, Fit::All) => return End::Accepted(chain.texts[at]),
                (Verdict::Accept, Fit::Unsure) => self.unsure = true,
                (Verdict::Accept, Fit::Some) => self.partly = self.partly.or(Some(self.top)),
                (Verdict::Drop | Verdict::Unmark, Fit::Some) if self.seeks_accepts => {}
                (Verdict::Drop | Verdict::Unmark, Fit::Some | Fit::All) if !self.unsure => {
                    let is_bare = rule
                        .iter()
                        .find(|word| **word != "counter")
                        .is_some_and(|word| ["drop", "reject"].contains(word));
                    let last = is_bare && at + 1 == chain.rules.len();
                    return End::Dropped(chain.texts[at], chain.name, fit, last);
                }
                (Verdict::Return, fit) if fit == so_far => return End::Returned(chain.texts[at]),
                (Verdict::Return, Fit::Some) if jumps == JUMPS_MAX => self.left = self.left.or(Some(chain.texts[at])),
                (Verdict::Jump(to) | Verdict::Goto(to), _) if jumps > 0 => {
                    let Some(next) = self.table.chains.iter().find(|chain| chain.name == to) else { continue };
                    match self.through(next, fit, jumps - 1) {
                        End::Goes | End::Returned(_) if matches!(verdict, Verdict::Goto(_)) && fit == so_far => {
                            return End::Goes;
                        }
                        End::Goes | End::Returned(_) => {}
                        End::Accepted(_) if fit == Fit::All => return End::Accepted(chain.texts[at]),
                        End::Accepted(_) => {
                            self.unsure |= fit == Fit::Unsure;
                            self.partly = self.partly.or((fit == Fit::Some).then_some(self.top));
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

/// A rule before ours that lets SYNs pass unheld: what accepts in a chain ends the way through it, and were it for one client alone.
fn unheld(table: &Table<'_>, packet: &Packet<'_>, around: &[Attachment]) -> Option<String> {
    let name = packet.iif.filter(|_| packet.is_late == Some(false))?;
    let clients = around.iter().filter(|of| of.device() == name).map(|of| of.network);
    let from = clients.filter(|network| Family::of(network) == packet.family).collect();
    let packet = &Packet { from, is_part: true, ..packet.clone() };
    let leads = |rule: &Vec<&str>| {
        rule.ends_with(&["jump", XT_CHAIN]) && rule.iter().any(|word| word.trim_matches('"') == name)
    };
    let chain = table.chains.iter().find(|chain| chain.meets(table.family, packet) && chain.rules.iter().any(leads))?;
    let ours = chain.rules.iter().position(leads)?;
    let before = chain.up_to(ours);
    let mut walk = Walk { seeks_accepts: true, ..Walk::new(table, packet) };
    let end = walk.through(&before, Fit::All, JUMPS_MAX);
    let (rule, some) = match (end, walk.partly.or(walk.left)) {
        (End::Accepted(rule) | End::Returned(rule), _) => (rule, ""),
        (End::Goes, Some(rule)) => (rule, "some "),
        _ => return None,
    };
    Some(format!(
        "the rule '{}' stands before ours in chain {} of table {} {} and lets {some}SYNs from {name} pass unheld, so clients are answered before the far server has: delete it, and add it again behind ours (`iptables -t raw -A {}`)",
        text::line(rule, RULE_SHOWN),
        chain.name,
        table.family,
        table.name,
        chain.name
    ))
}

/// What single rules do to us, besides the chains `known` by family, table and name. One line each, with the remedy.
pub(super) fn findings(
    config: &Config,
    (listing, kind): (&str, Kind),
    known: &[(String, String, String)],
    around: &[Attachment],
    reached: &Reached,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let uplinks = uplinks(config, reached);
    let packets = packets(config, &uplinks);
    for table in tables(listing).iter().filter(|table| !table.name.starts_with("wavelane")) {
        for packet in &packets {
            found.extend(unheld(table, packet, around));
            for chain in table.chains.iter().filter(|chain| chain.meets(table.family, packet)) {
                let is_lane = packet.is_lane();
                let is_known = known.iter().any(|(family, name, of)| {
                    (family.as_str(), name.as_str(), of.as_str()) == (table.family, table.name, chain.name)
                });
                // Of the others `hindrance` judges what a whole chain does.
                let by_policy = !matches!(packet.hook, Hook::Input | Hook::Forward | Hook::Redirection);
                let mut walk = Walk::new(table, packet);
                let (rule, of, fit, last) = match walk.through(chain, Fit::All, JUMPS_MAX) {
                    End::Dropped(rule, of, fit, last) => (rule, of, fit, last && !by_policy),
                    End::Goes | End::Returned(_)
                        if by_policy
                            && chain.is_strict
                            && !walk.unsure
                            && walk.partly.is_none()
                            && walk.steps <= STEPS_MAX =>
                    {
                        ("policy drop", chain.name, Fit::All, false)
                    }
                    _ => continue,
                };
                // Ports that forwarded packets may not reach are the operator's concern.
                let is_ours = is_lane || packet.is_answer && packet.hook == Hook::Output;
                let meant = !is_ours && !matches!(packet.hook, Hook::Input | Hook::Redirection) && fit != Fit::All;
                if is_known && !is_lane || meant || last && of == chain.name && !is_lane {
                    continue;
                }
                let Table { family, name, .. } = table;
                let insert = |matching: &String| format!("`{}`", kind.insert((family, name, chain.name), matching));
                let older = if kind == Kind::Older { " of iptables-legacy" } else { "" };
                let remedies: Vec<String> = packet.remedies.iter().map(insert).collect();
                let some = match fit {
                    Fit::All => "",
                    _ if packet.words.starts_with("what ") => "some of ",
                    _ => "some of the ",
                };
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
    // Packets of several kinds may meet one rule.
    let mut once: Vec<String> = Vec::new();
    for line in found {
        if !once.contains(&line) {
            once.push(line);
        }
    }
    once
}
