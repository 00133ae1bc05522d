//! The packet door's device: its addresses, the routes that lead to it, and the kernel settings it depends on.
//!
//! Traffic is led to the device by policy rules, not by the main table: what arrives on the intercepted interfaces (or
//! is born here) looks into a table of our own first, and our own datagrams never do, so a route for everything cannot
//! swallow the lane it travels on. The routes vanish with the device whatever ends the process; the rules stay after a
//! crash, do nothing over an empty table, and are cleared by the next start.

use crate::config::{Config, Intercept, Tun, prefix_text};
use crate::rules::{Family, MARK_OWN, open_addresses};
use std::collections::BTreeSet;
use std::net::IpAddr;
use wavelane_host::nft::{ToolError, run};
use wavelane_host::tun::{OffloadTun, TunError};
use wavelane_protocol::gateway::IpPrefix;

/// Number of our routing table, and priority of the rule that keeps our own datagrams out of it.
pub(crate) const TABLE: u16 = 4781;
/// Priority of the rules that look into it.
pub(crate) const LOOK: u16 = 4782;
/// The main table's rule, where our own datagrams go on (ip-rule(8)).
const MAIN_PRIORITY: &str = "32766";

/// Why the packet door cannot be set up. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceError {
    #[error(transparent)]
    Device(#[from] TunError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(
        "[tun] needs this host to forward what arrives on {interfaces}, but {setting} is 0: run `sysctl -w {setting}=1` (and put it into /etc/sysctl.d), or remove [tun]"
    )]
    NoForwarding { interfaces: String, setting: &'static str },
    #[error(
        "{setting} is {value}, so answers that come back through {device} may be dropped for their source: run `sysctl -w {setting}=2`"
    )]
    ReversePath { device: String, setting: String, value: u8 },
}

/// The routes that lead to the device. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Ways {
    device: String,
    routes: Vec<String>,
    /// Addresses whose answers go through the device although they may be another interface's.
    answering: Vec<IpAddr>,
}

impl Ways {
    /// Makes the device and leads traffic to it.
    pub(crate) fn open(config: &Config, tun: &Tun, intercept: &Intercept) -> Result<(OffloadTun, Self), DeviceError> {
        for family in families(config) {
            check_forwarding(family, intercept)?;
        }
        let device = OffloadTun::open(&tun.name, tun.offload)?;
        clear();
        let name = tun.name.as_str();
        // Routers have no use for an address that the kernel makes up; a kernel without IPv6 does not know the word.
        let _ = run("ip", &["link", "set", "dev", name, "addrgenmode", "none"], "");
        run("ip", &["link", "set", "dev", name, "mtu", &tun.mtu.to_string()], "")?;
        allow_other_ways(name)?;
        for a in &tun.addresses {
            let mut arguments = vec!["address", "add"];
            let address = prefix_text(&IpPrefix { address: a.address, bits: a.bits });
            arguments.extend([address.as_str(), "dev", name]);
            // Nobody else lives on the device, so there is nobody to ask whether the address is taken.
            arguments.extend(a.address.is_ipv6().then_some("nodad"));
            run("ip", &arguments, "")?;
        }
        run("ip", &["link", "set", "dev", name, "up"], "")?;
        let mut ways = Self { device: name.into(), routes: Vec::new(), answering: Vec::new() };
        ways.lead(config)?;
        // Both versions where there are both: a reload may bring routes of the other.
        for family in Family::ALL.into_iter().take(1 + usize::from(wavelane_host::has_ipv6())) {
            add_rules(family, tun, intercept)?;
        }
        Ok((device, ways))
    }
    /// Makes the routes those of `config`, adding before removing.
    pub(crate) fn lead(&mut self, config: &Config) -> Result<(), ToolError> {
        let wanted = routes(config, &self.device)?;
        let change = |verb: &str, route: &String| {
            let flag = if route.contains(':') { "-6" } else { "-4" };
            let table = TABLE.to_string();
            let mut arguments = vec![flag, "route", verb];
            arguments.extend(route.split(' '));
            arguments.extend(["table", &table]);
            run("ip", &arguments, "").map(drop)
        };
        for route in wanted.iter().filter(|r| !self.routes.contains(r)) {
            change("replace", route)?;
        }
        for route in self.routes.iter().filter(|r| !wanted.contains(r)) {
            // One that changed its kind was replaced above, and is not there any more.
            let _ = change("del", route);
        }
        self.routes = wanted;
        self.lead_answers(open_addresses(config))
    }

    /// Services on this host's own addresses that peers may reach answer through the device.
    fn lead_answers(&mut self, wanted: Vec<IpAddr>) -> Result<(), ToolError> {
        let change = |verb: &str, address: &IpAddr| {
            let (flag, from) = (Family::of_address(*address).ip_flag(), address.to_string());
            let (table, look) = (TABLE.to_string(), LOOK.to_string());
            run("ip", &[flag, "rule", verb, "from", &from, "iif", "lo", "lookup", &table, "priority", &look], "")
                .map(drop)
        };
        for address in wanted.iter().filter(|a| !self.answering.contains(a)) {
            change("add", address)?;
        }
        for address in self.answering.iter().filter(|a| !wanted.contains(a)) {
            let _ = change("del", address);
        }
        self.answering = wanted;
        Ok(())
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        clear();
    }
}

/// The IP versions that the device carries.
fn families(config: &Config) -> Vec<Family> {
    let prefixes = config.peers.iter().flat_map(|p| &p.routes).map(Family::of);
    let own = config.tun.iter().flat_map(|t| &t.addresses).map(|a| Family::of_address(a.address));
    let found: BTreeSet<Family> = prefixes.chain(own).collect();
    found.into_iter().collect()
}

/// Removes the rules and routes of an earlier process, or ours.
fn clear() {
    for family in Family::ALL {
        for priority in [TABLE, LOOK] {
            family.remove_rules(priority);
        }
        let _ = run("ip", &[family.ip_flag(), "route", "flush", "table", &TABLE.to_string()], "");
    }
}

fn add_rules(family: Family, tun: &Tun, intercept: &Intercept) -> Result<(), ToolError> {
    let (table, look, mark) = (TABLE.to_string(), LOOK.to_string(), format!("{MARK_OWN:#x}"));
    let add = |which: &[&str]| {
        let arguments = [&[family.ip_flag(), "rule", "add"], which].concat();
        run("ip", &arguments, "").map(drop)
    };
    add(&["fwmark", &mark, "goto", MAIN_PRIORITY, "priority", &table])?;
    let lookup = |selector: &[&str]| add(&[selector, &["lookup", &table, "priority", &look]].concat());
    for name in &intercept.interfaces {
        lookup(&["iif", name])?;
    }
    // Between two peers of a hub.
    lookup(&["iif", &tun.name])?;
    if intercept.local {
        lookup(&["iif", "lo"])?;
    } else {
        // What the kernel has to say about packets that came through the device (no such host, too big).
        lookup(&["iif", "lo", "ipproto", ["icmp", "ipv6-icmp"][family as usize]])?;
    }
    // Answers from an address on the device go back through it.
    for a in tun.addresses.iter().filter(|a| Family::of_address(a.address) == family) {
        lookup(&["from", &a.address.to_string()])?;
    }
    Ok(())
}

/// What our table holds: the peers' networks, and exceptions for networks we are attached to that lie within them.
fn routes(config: &Config, device: &str) -> Result<Vec<String>, ToolError> {
    let mut networks: Vec<IpPrefix> = config.peers.iter().flat_map(|p| p.routes.iter().copied()).collect();
    networks.sort_by_key(|r| (r.address, r.bits));
    networks.dedup();
    let mut routes: Vec<String> = networks.iter().map(|r| format!("{} dev {device}", prefix_text(r))).collect();
    for family in families(config) {
        let listing = run("ip", &[family.ip_flag(), "route", "show", "table", "main", "proto", "kernel"], "")?;
        for line in listing.lines().filter(|l| !l.split(' ').any(|word| word == device)) {
            let attached = line.split(' ').next().and_then(|word| word.parse::<IpPrefix>().ok());
            let inside = |a: &IpPrefix| networks.iter().any(|r| r.contains(a.address) && r.bits < a.bits);
            // The throw is where the lookup leaves our table and goes on to the next rule.
            routes.extend(
                attached.filter(|a| inside(a) && !networks.contains(a)).map(|a| format!("throw {}", prefix_text(&a))),
            );
        }
    }
    Ok(routes)
}

fn setting(key: &str) -> Option<u8> {
    std::fs::read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))).ok()?.trim().parse().ok()
}

fn check_forwarding(family: Family, intercept: &Intercept) -> Result<(), DeviceError> {
    let setting_name = match family {
        Family::V4 => "net.ipv4.ip_forward",
        Family::V6 => "net.ipv6.conf.all.forwarding",
    };
    if intercept.interfaces.is_empty() || setting(setting_name) != Some(0) {
        return Ok(());
    }
    Err(DeviceError::NoForwarding { interfaces: intercept.interfaces.join(", "), setting: setting_name })
}

/// Lets packets arrive on the device whose source the main table would look for elsewhere: its routes lie in ours,
/// which a reverse-path check does not see. The stricter of two settings counts (ip-sysctl), and 2 is the laxest that
/// overrules a 1 for all.
fn allow_other_ways(device: &str) -> Result<(), DeviceError> {
    const STRICT: u8 = 1;
    let all = setting("net.ipv4.conf.all.rp_filter").unwrap_or(0);
    let lax = if all == 0 { "0" } else { "2" };
    let own = format!("net.ipv4.conf.{device}.rp_filter");
    // A name may hold dots, so the path is not made from the setting's name.
    let path = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
    let written = std::fs::write(&path, lax);
    let now: u8 = std::fs::read_to_string(&path).ok().and_then(|v| v.trim().parse().ok()).unwrap_or(0);
    if written.is_err() && now.max(all) == STRICT {
        return Err(DeviceError::ReversePath { device: device.into(), setting: own, value: now.max(all) });
    }
    Ok(())
}

/// The address that ICMP errors of the packet door come from: the device's, else one of an intercepted interface.
pub(crate) fn router_address(tun: &Tun, intercept: &Intercept, six: bool) -> Option<IpAddr> {
    let usable = |a: &IpAddr| {
        a.is_ipv6() == six && !a.is_loopback() && !matches!(a, IpAddr::V6(v6) if v6.is_unicast_link_local())
    };
    let others = || intercept.interfaces.iter().flat_map(|name| wavelane_host::addresses_of(name));
    tun.addresses.iter().map(|a| a.address).find(usable).or_else(|| others().find(usable))
}
