//! What of ours stands in the kernel. Other programs take it away: each part is watched, and put back.

use super::family::Family;
use super::firewall::older;
use super::installed::Installed;
use super::part::Part;
use super::rules::{self, NUMBER};
use super::{device, interface, route_tables};
use crate::config::Config;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wavelane_host::nft::run;
use wavelane_host::routes::{interface_mtu, policy_rules, ruleset_generation, table_routes};

/// Linux's number of IPv6, with which messages on it begin.
const AF_INET6: u8 = 10;

/// The state of a device of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Interface {
    up: bool,
    /// Packets may arrive there whose source is reached another way.
    lax: bool,
    mtu: Option<u32>,
    addresses: Vec<IpAddr>,
}

impl Interface {
    fn read(name: &str, index: u32, is_ours: impl Fn(&IpAddr) -> bool) -> Option<Self> {
        let mut addresses = wavelane_host::addresses_of(name);
        addresses.retain(is_ours);
        let up = wavelane_host::interface_is_up(name)?;
        Some(Self { up, lax: interface::allows_other_ways(name), mtu: interface_mtu(index), addresses })
    }
}

/// The state of all parts at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    /// Both in order.
    rules: Vec<Vec<u8>>,
    routes: Vec<Vec<u8>>,
    /// `None` without a packet door or our device.
    device: Option<Interface>,
    closed: Option<String>,
    held: Vec<String>,
    orphans: Option<String>,
    /// Whether this host uses IPv6. While it is switched off what we had of it is taken to stand.
    pub(crate) six: bool,
    /// Of nft's rulesets: if it is the same, so are the three above.
    generation: Option<u32>,
}

impl Standing {
    /// Reads all parts. What cannot be read is taken to be as it was at `last`.
    pub(crate) fn read(config: &Config, installed: &Installed, last: &Self) -> Self {
        let holds_syns = installed.rules.holds_syns();
        let priorities = [NUMBER, route_tables::TABLE, device::LOOK].map(u32::from);
        let mut rules = policy_rules(&priorities).unwrap_or_else(|_| last.rules.clone());
        let tables = [NUMBER, route_tables::TABLE].map(u32::from);
        let mut routes = table_routes(&tables).unwrap_or_else(|_| last.routes.clone());
        let of_proxy = installed.rules.device().and_then(|name| {
            Interface::read(name, wavelane_host::interface_index(name)?, |a| *a == interface::PROXY_ADDRESS)
        });
        let mut device = config.tun.as_ref().zip(installed.ways.as_ref()).and_then(|(tun, ways)| {
            let index = wavelane_host::interface_index(&tun.name).filter(|index| Some(*index) == ways.index)?;
            Interface::read(&tun.name, index, |a| tun.addresses.iter().any(|own| own.address == *a))
        });
        device = device.or(of_proxy);
        let generation = ruleset_generation();
        // The older iptables' changes have no number.
        let same =
            generation.is_some() && generation == last.generation && !Family::ALL.into_iter().any(older::has_tables);
        let (closed, held, orphans) = match same {
            true => (last.closed.clone(), last.held.clone(), last.orphans.clone()),
            false => (
                config.is_closed().then(|| table("wavelane_closed", &last.closed)).flatten(),
                if holds_syns { held(&last.held) } else { Vec::new() },
                config.has_orphans().then(|| table("wavelane_orphans", &last.orphans)).flatten(),
            ),
        };
        // Asked last: what vanishes with it is gone after it.
        let six = wavelane_host::has_ipv6();
        if !six {
            keep_six(&mut rules, &last.rules);
            keep_six(&mut routes, &last.routes);
            if let (Some(found), Some(before)) = (&mut device, &last.device) {
                found.addresses.retain(IpAddr::is_ipv4);
                found.addresses.extend(before.addresses.iter().filter(|a| a.is_ipv6()));
            }
        }
        Self { rules, routes, device, closed, held, orphans, six, generation }
    }
    /// Takes over from `other` what it says of one part.
    pub(crate) fn take(&mut self, part: Part, other: &Self) {
        match part {
            Part::PolicyRules => self.rules.clone_from(&other.rules),
            Part::Routes => self.routes.clone_from(&other.routes),
            Part::Device => self.device.clone_from(&other.device),
            Part::ReversePath => {
                if let (Some(own), Some(other)) = (&mut self.device, &other.device) {
                    own.lax = other.lax;
                }
            }
            Part::ClosedTable => self.closed.clone_from(&other.closed),
            Part::HeldSyns => self.held.clone_from(&other.held),
            Part::OrphansTable => self.orphans.clone_from(&other.orphans),
        }
    }
    /// The number of nft's rulesets at that time.
    pub(crate) fn generation(&self) -> Option<u32> {
        self.generation
    }
    /// Whether no SYN is held at all.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }
    /// How many routes our tables hold.
    pub(crate) fn routes(&self) -> usize {
        self.routes.len()
    }
    /// Parts of this state that are not whole `now`. More than these is no concern of ours, except in our own tables.
    pub(crate) fn missing(&self, now: &Self) -> Vec<Part> {
        Part::ALL.into_iter().filter(|part| !self.lacking(*part, now).is_empty()).collect()
    }
    /// What of a part is missing `now`, each piece in octets of its own.
    pub(crate) fn lacking(&self, part: Part, now: &Self) -> Vec<Vec<u8>> {
        let from = |all: &[Vec<u8>], found: &[Vec<u8>]| {
            all.iter().filter(|one| found.binary_search(one).is_err()).cloned().collect()
        };
        match part {
            Part::PolicyRules => from(&self.rules, &now.rules),
            Part::Routes => {
                // Those of others come last, told apart by their mark.
                let others = from(&now.routes, &self.routes).into_iter().map(|route| [b"other ", &route[..]].concat());
                from(&self.routes, &now.routes).into_iter().chain(others).collect()
            }
            Part::Device => {
                let Some(stood) = &self.device else { return Vec::new() };
                let Some(now) = &now.device else { return vec![b"device".into()] };
                let gone = stood.addresses.iter().filter(|a| !now.addresses.contains(a));
                let gone = gone.map(|a| a.to_string().into_bytes());
                let other = [(stood.up && !now.up, "up"), (stood.mtu != now.mtu, "MTU")];
                other.iter().filter(|(is, _)| *is).map(|(_, what)| what.as_bytes().into()).chain(gone).collect()
            }
            // With the device it is gone too, which is told once.
            Part::ReversePath => {
                let gone =
                    self.device.as_ref().zip(now.device.as_ref()).is_some_and(|(stood, now)| stood.lax && !now.lax);
                gone.then(|| b"rp_filter".into()).into_iter().collect()
            }
            Part::ClosedTable => whole(&self.closed, &now.closed),
            Part::OrphansTable => whole(&self.orphans, &now.orphans),
            Part::HeldSyns => {
                // There may be one for each of very many networks.
                let [stood, found] = [&self.held, &now.held].map(|held| held.iter().collect::<BTreeSet<&String>>());
                // What others put into our own chain comes last, told apart by its mark.
                let in_chain = |line: &&&String| line.split(' ').skip(1).take(2).eq(["-A", rules::XT_CHAIN]);
                let others = found.difference(&stood).filter(in_chain).map(|line| format!("other {line}").into_bytes());
                stood.difference(&found).map(|line| line.as_bytes().to_vec()).chain(others).collect()
            }
        }
    }
}

/// A table that is not as it was, by what it is now.
fn whole(stood: &Option<String>, now: &Option<String>) -> Vec<Vec<u8>> {
    let gone = stood.is_some() && stood != now;
    gone.then(|| now.clone().unwrap_or_default().into_bytes()).into_iter().collect()
}

/// Of messages of the kernel, which begin with their family, keeps those of IPv6 as they were.
fn keep_six(found: &mut Vec<Vec<u8>>, before: &[Vec<u8>]) {
    let is_six = |message: &Vec<u8>| message.first() == Some(&AF_INET6);
    found.retain(|message| !is_six(message));
    found.extend(before.iter().filter(|message| is_six(message)).cloned());
    found.sort_unstable();
}

/// A table that outlives us; if it can be neither read nor seen to be absent, as it was at `last`.
fn table(name: &str, last: &Option<String>) -> Option<String> {
    if let Ok(listing) = run("nft", &["-s", "list", "table", "inet", name], "") {
        return Some(listing);
    }
    match run("nft", &["list", "tables", "inet"], "") {
        Ok(tables) if !tables.lines().any(|line| line.trim().strip_prefix("table inet ") == Some(name)) => None,
        _ => last.clone(),
    }
}

/// The rules that hold SYNs; those of a version that cannot be read, or is switched off, as they were at `last`.
fn held(last: &[String]) -> Vec<String> {
    let here: Vec<Family> = Family::here().collect();
    let mut held = Vec::new();
    for family in Family::ALL {
        // The two versions' jumps read alike.
        let mark = format!("{family:?} ");
        match here.contains(&family).then(|| rules::syn_rules(family)).flatten() {
            Some(rules) => held.extend(rules.into_iter().map(|line| mark.clone() + &line)),
            None => held.extend(last.iter().filter(|line| line.starts_with(&mark)).cloned()),
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_named_and_what_others_add_is_not() {
        let interface = Interface { up: true, lax: true, mtu: Some(1_400), addresses: vec![[10, 9, 9, 1].into()] };
        let stood = Standing {
            rules: vec![vec![1], vec![2]],
            routes: vec![vec![3]],
            device: Some(interface.clone()),
            closed: Some("table".into()),
            held: vec!["-A WAVELANE".into()],
            orphans: Some("table".into()),
            six: true,
            generation: Some(1),
        };
        assert_eq!(stood.missing(&stood), []);
        let mut more = stood.clone();
        more.rules.push(vec![9]);
        more.generation = None;
        assert_eq!(stood.missing(&more), []);
        let but_with_it = Part::ALL.into_iter().filter(|part| *part != Part::ReversePath);
        assert_eq!(stood.missing(&Standing::default()), but_with_it.collect::<Vec<_>>());
        for (up, lax, mtu, part) in [
            (false, true, 1_400, Part::Device),
            (true, false, 1_400, Part::ReversePath),
            (true, true, 1_280, Part::Device),
        ] {
            let device = Some(Interface { up, lax, mtu: Some(mtu), ..interface.clone() });
            let other = Standing { device, ..stood.clone() };
            assert_eq!(stood.missing(&other), [part]);
        }
        let mut foreign = stood.clone();
        foreign.routes.push(vec![4]);
        assert_eq!(stood.missing(&foreign), [Part::Routes]);
        assert_eq!(Standing::default().missing(&stood), [Part::Routes], "others' routes in our tables are our concern");
        let mut foreign = stood.clone();
        foreign.held.extend(["V4 -A WAVELANE -j ACCEPT".into(), "V4 -A PREROUTING -j WAVELANE".into()]);
        assert_eq!(stood.lacking(Part::HeldSyns, &foreign), [b"other V4 -A WAVELANE -j ACCEPT"]);
    }

    /// A quadratic search would take minutes.
    #[test]
    fn very_many_rules_that_hold_syns_are_no_trouble() {
        let line = |n: usize| format!("V4 -A WAVELANE -d 10.{}.{}.0/24 -j NFQUEUE --queue-num 4780", n >> 8, n & 255);
        let stood = Standing { held: (0..200_000).map(line).collect(), ..Standing::default() };
        assert_eq!(stood.missing(&stood), []);
        let mut less = stood.clone();
        let gone = less.held.remove(777);
        assert_eq!(stood.lacking(Part::HeldSyns, &less), [gone.into_bytes()]);
    }

    #[test]
    fn of_an_ip_version_that_is_switched_off_what_stood_is_taken_to_stand() {
        let (four, six) = (|n| vec![2, n], |n| vec![10, n]);
        let mut found = vec![four(1), four(3), six(1)];
        keep_six(&mut found, &[four(1), four(2), six(2), six(9)]);
        assert_eq!(found, [four(1), four(3), six(2), six(9)]);
    }
}
