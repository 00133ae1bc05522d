//! The packet door's device: its addresses, the routes that lead to it, and the kernel settings it depends on.
//!
//! Traffic is led to the device by policy rules, not by the main table: what arrives on the intercepted interfaces (or
//! originates here) looks into a table of our own first, and our own datagrams never do, so a route for everything cannot
//! swallow the lane it travels on. The routes vanish with the device whatever ends the process; the rules stay after a
//! crash, do nothing over an empty table, and are cleared by the next start. Where `on_failure` is `closed` the table is
//! never empty: behind each route to the device stands one that refuses, until an orderly stop.

use super::family::Family;
use super::interface::{DeviceError, allow_other_ways, allow_other_ways_again, no_made_up_address, setting};
use super::route_tables::{REFUSING, TABLE, remove_foreign};
use super::rules::{Down, attached, excepted, open_addresses};
use crate::config::marks::{MARK_OWN, MARK_PLAIN};
use crate::config::{Config, Intercept, OnFailure, Tun, TunAddress, prefix_text, width};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wavelane_base::IpPrefix;
use wavelane_host::nft::{ToolError, run};
use wavelane_host::tun::OffloadTun;

/// Priority of the rules that look into it.
pub(crate) const LOOK: u16 = 4782;
/// Priority of the same rules for a moment, while those of an earlier process are replaced.
pub(crate) const LOOK_MEANWHILE: u16 = LOOK + 1;
/// The main table's rule, where our own datagrams go on (ip-rule(8)).
pub(crate) const MAIN_PRIORITY: &str = "32766";

/// Refuses from now on what `config` leads to the device, unless a device takes it before. Does nothing where `on_failure`
/// is `open`.
pub(crate) fn close(config: &Config) -> Result<(), ToolError> {
    let (Some(tun), Some(intercept)) = (&config.tun, &config.intercept) else { return Ok(()) };
    if !config.is_closed() {
        return Ok(());
    }
    let wanted = routes(config, None, &Down::new())?;
    change_routes("replace", &wanted)?;
    // Routes that an earlier process gave back to the kernel, for example, would match before those that refuse.
    remove_others(&left_behind(), &wanted);
    // An earlier process may have left some.
    Family::each(|family| renew_rules(family, tun, intercept, &[]))
}

/// The routes that lead to the device. Dropping it removes them, unless they are to refuse then.
#[derive(Debug)]
pub(crate) struct Ways {
    device: String,
    /// The kernel's number of it. Another device of that name is not ours.
    pub(crate) index: Option<u32>,
    /// A device that was made in place of one that somebody deleted, until it is asked for.
    pub(crate) made: Option<OffloadTun>,
    closed: bool,
    /// What may stand in our table, and whether it is known to.
    routes: Vec<String>,
    sure: bool,
    /// Addresses whose answers go through the device although they may be another interface's.
    answering: Vec<IpAddr>,
}

impl Ways {
    /// Makes the device and leads traffic to it.
    pub(crate) fn open(config: &Config, tun: &Tun, intercept: &Intercept) -> Result<(OffloadTun, Self), DeviceError> {
        if let Some(why) = not_forwarding(config, intercept).next() {
            return Err(why);
        }
        let closed = config.is_closed();
        let made = make(tun)?;
        if !closed {
            clear();
            Family::each(|family| add_rules(family, tun, intercept, LOOK, &[]))?;
        }
        set_up(tun)?;
        let (routes, answering) = (if closed { left_behind() } else { Vec::new() }, Vec::new());
        let index = wavelane_host::interface_index(&tun.name);
        let mut ways = Self { device: tun.name.clone(), index, made: None, closed, routes, sure: true, answering };
        ways.lead(config, &Down::new())?;
        Ok((made, ways))
    }
    /// Makes the routes those of `config`, adding before removing. What goes to the peers `down` is left to the main table.
    pub(crate) fn lead(&mut self, config: &Config, down: &Down) -> Result<(), ToolError> {
        let wanted = routes(config, Some(&self.device), down)?;
        let before: BTreeSet<&String> = self.routes.iter().collect();
        let is_new = |r: &&String| !self.sure || !before.contains(r);
        let new: Vec<String> = wanted.iter().filter(is_new).cloned().collect();
        if let Err(e) = change_routes("replace", &new) {
            // Some may stand now, beside those that did.
            self.routes.extend(new);
            self.routes.sort_unstable();
            self.routes.dedup();
            self.sure = false;
            return Err(e);
        }
        remove_others(&self.routes, &wanted);
        self.routes = wanted;
        self.sure = true;
        self.lead_answers(open_addresses(config))
    }
    /// Makes everything anew, whatever another program took away of it; as much of it as can be.
    pub(crate) fn renew(&mut self, config: &Config, down: &Down) -> Result<(), ToolError> {
        let (Some(tun), Some(intercept)) = (&config.tun, &config.intercept) else { return Ok(()) };
        let device = self.make_anew(tun).and_then(|()| set_up(tun));
        let rules = Family::each(|family| renew_rules(family, tun, intercept, &self.answering));
        self.sure = false;
        let routes = self.lead(config, down);
        self.purge();
        device.and(rules).and(routes)
    }
    /// How many routes our table is to hold.
    pub(crate) fn routes(&self) -> usize {
        self.routes.len()
    }
    /// Takes what others put into our table out of it.
    pub(crate) fn purge(&self) {
        remove_foreign(TABLE, &self.routes);
    }
    /// Makes the device, if somebody deleted it or another one has its name.
    fn make_anew(&mut self, tun: &Tun) -> Result<(), ToolError> {
        let index = || wavelane_host::interface_index(&tun.name);
        if index().is_some() && index() == self.index {
            return Ok(());
        }
        let refused = |e: DeviceError| ToolError::Refused { tool: "the kernel".into(), said: e.to_string() };
        self.made = Some(make(tun).map_err(refused)?);
        self.index = index();
        Ok(())
    }
    /// An orderly stop: nothing is refused any more.
    pub(crate) fn remove(mut self) {
        self.closed = false;
    }

    /// Services on this host's own addresses that peers may reach answer through the device.
    fn lead_answers(&mut self, wanted: Vec<IpAddr>) -> Result<(), ToolError> {
        let here: Vec<Family> = Family::here().collect();
        for address in wanted.iter().filter(|a| here.contains(&Family::of_address(**a))) {
            if !self.answering.contains(address) {
                answer(*address, LOOK)?;
                self.answering.push(*address);
            }
        }
        for address in self.answering.extract_if(.., |a| !wanted.contains(a)) {
            let (flag, rule) = (Family::of_address(address).ip_flag(), answering_rule(address, LOOK));
            let rule: Vec<&str> = [flag, "rule", "del"].into_iter().chain(rule.iter().map(String::as_str)).collect();
            let _ = run("ip", &rule, "");
        }
        Ok(())
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        if !self.closed {
            clear();
        }
    }
}

/// Makes the device.
fn make(tun: &Tun) -> Result<OffloadTun, DeviceError> {
    let (name, made) = (tun.name.as_str(), OffloadTun::open(&tun.name, tun.offload)?);
    no_made_up_address(name);
    allow_other_ways(name)?;
    Ok(made)
}

/// Sets the device up and gives it its addresses, those of one IP version even if another's are refused.
fn set_up(tun: &Tun) -> Result<(), ToolError> {
    let name = tun.name.as_str();
    let mtu_now = || wavelane_host::interface_index(name).and_then(wavelane_host::routes::interface_mtu);
    if mtu_now() != Some(tun.mtu.into()) {
        run("ip", &["link", "set", "dev", name, "mtu", &tun.mtu.to_string()], "")?;
        no_made_up_address(name);
    }
    let up = run("ip", &["link", "set", "dev", name, "up"], "").map(drop);
    let add = |a: &TunAddress| {
        let mut arguments = vec!["address", "replace"];
        let address = prefix_text(&IpPrefix { address: a.address, bits: a.bits });
        arguments.extend([address.as_str(), "dev", name]);
        // The device has no other hosts, so duplicate address detection is pointless.
        arguments.extend(a.address.is_ipv6().then_some("nodad"));
        run("ip", &arguments, "").map(drop)
    };
    up.and(Family::each(|family| {
        let of = tun.addresses.iter().filter(|a| Family::of_address(a.address) == family);
        of.map(add).fold(Ok(()), Result::and)
    }))
    .and(allow_other_ways_again(name))
}

/// Network and metric of a route: by these the kernel tells routes of one table apart.
fn place(route: &str) -> (&str, bool) {
    let network = route.split(' ').find(|word| word.contains('/')).unwrap_or(route);
    (network, route.ends_with(REFUSING))
}

/// Adds, replaces or removes routes of our table, all of one IP version at once. A version that is switched off has no routes.
fn change_routes(verb: &str, routes: &[String]) -> Result<(), ToolError> {
    Family::each(|family| {
        let is_of = |r: &&String| r.contains(':') == (family == Family::V6);
        let lines: String = routes.iter().filter(is_of).map(|r| format!("route {verb} {r} table {TABLE}\n")).collect();
        if lines.is_empty() {
            return Ok(());
        }
        run("ip", &[family.ip_flag(), "-force", "-batch", "-"], &lines).map(drop)
    })
}

/// Removes those of `routes` that are not `wanted`.
fn remove_others(routes: &[String], wanted: &[String]) {
    // A route that changed its kind was replaced, and IPv6 would remove the new one.
    let wanted: BTreeSet<(&str, bool)> = wanted.iter().map(|route| place(route)).collect();
    let stands = |r: &String| wanted.contains(&place(r));
    let _ = change_routes("del", &routes.iter().filter(|r| !stands(r)).cloned().collect::<Vec<_>>());
}

/// What our table holds of an earlier process.
fn left_behind() -> Vec<String> {
    let table = TABLE.to_string();
    let list = |family: Family| {
        let listing = run("ip", &[family.ip_flag(), "route", "show", "table", &table], "").unwrap_or_default();
        listing.lines().filter_map(|line| parse_route(family, line)).collect::<Vec<_>>()
    };
    Family::ALL.into_iter().flat_map(list).collect()
}

/// A route as `ip` lists it, in the words in which we make it; `None` if it is not of a kind that survives a device.
fn parse_route(family: Family, line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let kind = words.next().filter(|word| ["throw", "unreachable"].contains(word))?;
    let network = match words.next()? {
        "default" => family.everything().to_owned(),
        network if network.contains('/') => network.to_owned(),
        address => format!("{address}/{}", width(address.parse().ok()?)),
    };
    let refuses = line.contains(REFUSING);
    Some(format!("{kind} {network}{}", if refuses { format!(" {REFUSING}") } else { String::new() }))
}

/// The IP versions that the device carries.
fn families(config: &Config) -> Vec<Family> {
    let prefixes = config.peers.iter().flat_map(|p| &p.routes).map(Family::of);
    let own = config.tun.iter().flat_map(|t| &t.addresses).map(|a| Family::of_address(a.address));
    let found: BTreeSet<Family> = prefixes.chain(own).collect();
    found.into_iter().collect()
}

/// Removes the rules and routes of an earlier process, or ours.
pub(crate) fn clear() {
    for family in Family::ALL {
        for priority in [TABLE, LOOK, LOOK_MEANWHILE] {
            family.remove_rules(priority);
        }
        let _ = run("ip", &[family.ip_flag(), "route", "flush", "table", &TABLE.to_string()], "");
    }
}

/// Leads what is to be taken to our table, in place of what led there before, without a gap.
fn renew_rules(family: Family, tun: &Tun, intercept: &Intercept, answering: &[IpAddr]) -> Result<(), ToolError> {
    family.remove_rules(LOOK_MEANWHILE);
    add_rules(family, tun, intercept, LOOK_MEANWHILE, answering)?;
    family.remove_rules(LOOK);
    let added = add_rules(family, tun, intercept, LOOK, answering);
    if added.is_ok() {
        family.remove_rules(LOOK_MEANWHILE);
    }
    added
}

/// What follows `ip rule add` or `del` so that answers from an address go through the device.
fn answering_rule(address: IpAddr, look: u16) -> Vec<String> {
    let rule = format!("from {address} iif lo lookup {TABLE} priority {look}");
    rule.split(' ').map(str::to_owned).collect()
}

fn answer(address: IpAddr, look: u16) -> Result<(), ToolError> {
    let rule = answering_rule(address, look);
    Family::of_address(address).add_rule(&rule.iter().map(String::as_str).collect::<Vec<_>>())
}

fn add_rules(
    family: Family,
    tun: &Tun,
    intercept: &Intercept,
    look: u16,
    answering: &[IpAddr],
) -> Result<(), ToolError> {
    let (table, priority) = (TABLE.to_string(), look.to_string());
    let add = |which: &[&str]| family.add_rule(which);
    // Never taken away while others stand: our own datagrams would enter our own device.
    for mark in [MARK_OWN, MARK_PLAIN] {
        add(&["fwmark", &format!("{mark:#x}"), "goto", MAIN_PRIORITY, "priority", &table])?;
    }
    let lookup = |selector: &[&str]| add(&[selector, &["lookup", &table, "priority", &priority]].concat());
    for name in &intercept.interfaces {
        lookup(&["iif", name])?;
    }
    // Between two peers of a hub.
    lookup(&["iif", &tun.name])?;
    if intercept.local {
        lookup(&["iif", "lo"])?;
    } else {
        // The kernel's ICMP errors on packets that came through the device (no such host, too big).
        lookup(&["iif", "lo", "ipproto", ["icmp", "ipv6-icmp"][family as usize]])?;
    }
    // Answers from an address on the device go back through it.
    for a in tun.addresses.iter().filter(|a| Family::of_address(a.address) == family) {
        lookup(&["from", &a.address.to_string()])?;
    }
    let of = |a: &&IpAddr| Family::of_address(**a) == family;
    answering.iter().filter(of).try_for_each(|address| answer(*address, look))
}

/// What our table holds: the peers' networks, to `device` if there is one, and exceptions for networks we are attached to
/// that lie within them. Networks of peers that are `down` are exceptions, too, because wider ones of others may remain.
fn routes(config: &Config, device: Option<&str>, down: &Down) -> Result<Vec<String>, ToolError> {
    // A peer that is up stands in for one that has the same network and is down.
    let mut all: BTreeMap<(IpAddr, u8), bool> = BTreeMap::new();
    for peer in &config.peers {
        let is_down = down.contains(&peer.public_key);
        for network in &peer.routes {
            *all.entry((network.address, network.bits)).or_insert(true) &= is_down;
        }
    }
    let networks: Vec<(IpPrefix, bool)> =
        all.into_iter().map(|((address, bits), is_down)| (IpPrefix { address, bits }, is_down)).collect();
    let mut routes: Vec<String> = Vec::new();
    for (network, is_down) in &networks {
        let network = prefix_text(network);
        match (is_down, device) {
            (true, _) => routes.push(format!("throw {network}")),
            (false, device) => routes.extend(device.map(|device| format!("{network} dev {device}"))),
        }
        routes.extend(config.is_closed().then(|| format!("unreachable {network} {REFUSING}")));
    }
    let networks: Vec<IpPrefix> = networks.into_iter().map(|(network, _)| network).collect();
    // A `throw` route ends the lookup in our table, which goes on to the next rule.
    let attached = attached(config)?;
    routes.extend(excepted(&networks, &attached).map(|network| format!("throw {}", prefix_text(&network))));
    Ok(routes)
}

/// Settings that keep this host from forwarding packets of the IP versions that are carried.
pub(crate) fn unforwarded(config: &Config, intercept: &Intercept) -> impl Iterator<Item = &'static str> {
    let forwards = !intercept.interfaces.is_empty();
    off(families(config)).filter(move |_| forwards)
}

/// What else than turning `setting` on does where IPv6 is not used: a proxy's usual targets are all of both versions.
pub(crate) fn without_it(intercept: Option<&Intercept>, setting: &str) -> &'static str {
    match intercept.is_some_and(|i| i.proxy.is_some()) && setting.starts_with("net.ipv6") {
        true => " (or write targets = [\"0.0.0.0/0\"], if the proxy is for IPv4 alone)",
        false => "",
    }
}

/// Those settings of `families` that are off here.
fn off(families: impl IntoIterator<Item = Family>) -> impl Iterator<Item = &'static str> {
    let settings = families.into_iter().map(|family| match family {
        Family::V4 => "net.ipv4.ip_forward",
        Family::V6 => "net.ipv6.conf.all.forwarding",
    });
    settings.filter(|name| setting(name) == Some(0))
}

/// The same of what peers reach behind this host: their packets arrive here, plainly or through the device, and are to
/// go on.
pub(crate) fn unforwarded_for_peers(config: &Config) -> impl Iterator<Item = &'static str> {
    off(served(config, &wavelane_host::own_addresses().unwrap_or_default()))
}

/// The IP versions of the networks that peers reach behind this host, whose addresses are `own`; none where no peer's
/// packets come here.
fn served(config: &Config, own: &[IpAddr]) -> BTreeSet<Family> {
    let plain = config.on_failure == OnFailure::Open && (config.intercept.is_some() || config.forwards.is_empty());
    let targets = config.peers.iter().flat_map(|p| config.targets(p));
    // Packets to this host's own addresses end here.
    let ends_here = |t: &IpPrefix| t.address.is_loopback() || (t.bits == width(t.address) && own.contains(&t.address));
    let beyond = targets.filter(|t| (config.tun.is_some() || plain) && !ends_here(t));
    beyond.map(Family::of).collect()
}

/// Why the door is not opened with such settings.
pub(crate) fn not_forwarding(config: &Config, intercept: &Intercept) -> impl Iterator<Item = DeviceError> {
    let interfaces = intercept.interfaces.join(", ");
    unforwarded(config, intercept)
        .map(move |setting| DeviceError::NoForwarding { interfaces: interfaces.clone(), setting })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_served_networks_need_ip_forwarding() {
        let dir = std::env::temp_dir().join(format!("wavelane-device-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
        let own = ["10.3.0.1".parse().unwrap()];
        let served = |gateway: &str, tables: &str| {
            let text = format!(
                "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n{gateway}\n[[peer]]\nname = \"b\"\npublic_key = \"{}\"\nroutes = [\"10.1.0.0/24\"]\n{tables}",
                crate::keys::to_base64(&[9; 32])
            );
            let found = served(&Config::parse(&text, "x", &dir).unwrap(), &own);
            found.into_iter().map(|family| family as usize).collect::<Vec<_>>()
        };
        let (lan, closed) = ("serves = [\"10.3.0.0/24\"]", "serves = [\"10.3.0.0/24\"]\non_failure = \"closed\"");
        let forward = "[[forward]]\nlisten = \"127.0.0.1:8080\"\nto = \"10.1.0.2:80\"\nvia = \"b\"";
        let tun = "[intercept]\nlocal = true\n[tun]";
        assert_eq!(served(lan, ""), [0]);
        assert_eq!(served("serves = [\"10.3.0.0/24\", \"fd00:3::/64\"]", ""), [0, 1]);
        assert_eq!(served(closed, tun), [0]);
        for (gateway, tables) in
            [(lan, forward), (closed, ""), ("serves = []", tun), ("serves = [\"10.3.0.1/32\", \"127.0.0.0/8\"]", tun)]
        {
            assert_eq!(served(gateway, tables), [0; 0], "{gateway} {tables}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
