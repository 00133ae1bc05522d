//! The kernel's side of the transparent door: what is installed, and how every trace of it is removed.
//!
//! Three things differ in who removes them. The nft table `inet wavelane` is owned by our nft child and vanishes
//! with us. The policy route and the SYN queue rule are not owned: start-up clears an earlier crash's by their
//! unique names, and left alone they do nothing (no packet carries the mark; the queue has `--queue-bypass`). The
//! table `inet wavelane_closed` refuses new connections while the daemon does not run. It is made before anything else and lifted by
//! [`Rules::remove`] alone, which only an orderly stop calls: whatever else ends the process (a refused start, an error, a
//! panic, a signal, no memory), nothing needs to be done for it to stay.

mod bridges;
mod plain;
mod queue;
mod ranges;
mod tables;
mod userspace;

pub(crate) use bridges::Bridged;
use queue::removal;
pub(crate) use ranges::{Attachment, all_routes, attached, attachments, excepted};
pub(crate) use tables::open_addresses;

use crate::config::marks::MARK_DIVERT;
use crate::config::{Config, Placement, Source};
use crate::system::family::Family;
use crate::system::{interface, route_tables};
use queue::queue_rules;
use ranges::split_routes;
use std::collections::BTreeSet;
use std::time::Duration;
use tables::{closed_table, marker, owned_table};
use wavelane_base::IpPrefix;
use wavelane_host::claim::{self, Claim, Unclaimed};
use wavelane_host::nft::{NftOwner, ToolError, run};

/// The public keys of the peers whose networks are given back: what goes there is forwarded plainly.
pub(crate) type Down = BTreeSet<[u8; 32]>;

/// Seconds that iptables waits for its lock before it fails with a message.
pub(crate) const XT_WAIT: &str = "--wait=10";
/// How often to check whether the nft child of a killed daemon has ended; then it belongs to a daemon that runs.
const OWNER_LOOKS_MAX: u32 = 50;
const OWNER_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of the NFQUEUE, of the routing table and of the rule's priority.
pub(crate) const NUMBER: u16 = 4780;

/// TCP options by which both ends sign segments with each other's addresses (MD5: RFC 2385; TCP-AO: RFC 5925, section 2.2).
/// Connections that begin with one cannot be split.
const SIGNED: [u8; 2] = [19, 29];

const TABLE: &str = "inet wavelane";
/// How the IP option begins in which a connection's first packet names its server: 158, for experiments (RFC 4727, section 3), and its length
/// of six octets with the address.
pub(crate) const TARGET_OPTION: [u8; 2] = [158, 6];
/// Of a proxy that is placed on a bridge; it goes with the other.
const BRIDGE_TABLE: &str = "bridge wavelane";
const CLOSED_TABLE: &str = "inet wavelane_closed";
/// Resets what a proxy on our own TCP had, once its process is gone.
const ORPHANS: &str = "inet wavelane_orphans";
pub(crate) const XT_CHAIN: &str = "WAVELANE";
/// Abstract socket that marks this network namespace as having its one intercepting daemon.
const LOCK_NAME: &str = "wavelaned-intercept";

/// How the two capabilities are had.
pub(crate) const CAPABILITIES_HINT: &str = "run as root, or with AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW in the systemd unit, or `setcap cap_net_admin,cap_net_raw+ep` on wavelaned";

/// Why the door cannot be set up. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    #[error(
        "taking traffic or `source = \"keep\"` needs CAP_NET_ADMIN and CAP_NET_RAW: {CAPABILITIES_HINT}; or use only [[forward]] with source = \"own\""
    )]
    Capability,
    #[error("another wavelaned already takes traffic in this network namespace{0}: stop that one first")]
    Taken(String),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(
        "this kernel's nft refuses TPROXY ({0}): load nft_tproxy (kernel option CONFIG_NFT_TPROXY) and nft_socket, or remove [intercept] and use [[forward]]"
    )]
    NoTproxy(String),
    #[error(
        "routes name IPv6 networks, but this host has no IPv6: enable it (sysctl -w net.ipv6.conf.all.disable_ipv6=0) or remove them"
    )]
    NoIpv6,
    #[error("cannot open the internal listener: {0}; check CAP_NET_ADMIN and free TCP ports on 127.0.0.1")]
    Listener(std::io::Error),
}

/// The rules in force. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Rules {
    owner: Option<NftOwner>,
    /// How often the owned table was made.
    generation: u32,
    /// The internal listeners' ports.
    ports: Vec<u16>,
    /// The device that marked packets are led to instead of to listeners.
    device: Option<String>,
    queue_rule: bool,
    /// The IP versions whose SYNs are led to our chain.
    held: Vec<Family>,
    /// An earlier process ended without an orderly stop: its connections are reset by a table that stands.
    found_orphans: bool,
    _lock: Claim,
}

/// What around this host our rules leave alone.
#[derive(Debug, Default)]
struct Around {
    attached: Vec<IpPrefix>,
    bridged: Bridged,
}

impl Around {
    fn read(config: &Config) -> Result<Self, ToolError> {
        Ok(Self { attached: attached(config)?, bridged: Bridged::read(config) })
    }
}

/// Claims this network namespace; a second daemon fails instead of tearing down the first one's rules.
pub(crate) fn claim() -> Result<Claim, RulesError> {
    claim::claim(LOCK_NAME).map_err(|why| match why {
        Unclaimed::Held(process) => {
            RulesError::Taken(if process > 0 { format!(" (process {process})") } else { String::new() })
        }
        Unclaimed::System(e) => RulesError::Listener(e),
    })
}

impl Rules {
    /// Installs everything. `ports` are the internal listeners', of IPv4 and, where there is IPv6, of IPv6; `queue`
    /// says whether SYNs may be held. Returns the rules and, if the SYN rules could not be set, why.
    pub(crate) fn install(
        config: &Config,
        ports: &[u16],
        queue: bool,
        lock: Claim,
    ) -> Result<(Self, Option<ToolError>), RulesError> {
        // A table that stays has a living owner, whether or not that could claim the name.
        if !await_last_owner() {
            return Err(RulesError::Taken(String::new()));
        }
        clear_leftovers();
        let mut rules = Self {
            owner: None,
            generation: 0,
            ports: ports.to_vec(),
            device: config.intercept.as_ref().and_then(|i| i.proxy.as_ref()?.device.clone()),
            queue_rule: false,
            held: Vec::new(),
            found_orphans: orphans_stand(),
            _lock: lock,
        };
        rules.lead_home()?;
        // First what can be refused; a connection that slips in before SYNs are held is asked about at the listener.
        let table = owned_table(config, ports, rules.generation, &Down::new(), &Around::read(config)?);
        rules.owner = Some(NftOwner::load(&table, &marker(rules.generation)).map_err(|e| match e {
            ToolError::Refused { said, .. } if config.intercept.is_some() => RulesError::NoTproxy(said),
            other => other.into(),
        })?);
        if !raise_orphans(config)? {
            lift_orphans();
        }
        let mut no_queue = None;
        if queue && config.intercept.is_some() {
            rules.queue_rule = true;
            if let Err(e) = rules.hold_syns(config) {
                rules.queue_rule = false;
                no_queue = Some(e);
            }
        }
        if !config.is_closed() {
            lift();
        }
        Ok((rules, no_queue))
    }
    /// Leads marked packets to our listeners or our device, by the rule and the route that stand for it.
    pub(crate) fn lead_home(&self) -> Result<(), ToolError> {
        let (mark, number) = (format!("{MARK_DIVERT:#x}"), NUMBER.to_string());
        if let Some(device) = &self.device {
            interface::set_up_for_proxy(device)?;
        }
        Family::each(|family| {
            if self.device.is_none() && family as usize >= self.ports.len() {
                return Ok(());
            }
            let home = self.home(family);
            let route: Vec<&str> = home.split(' ').collect();
            let route = [&[family.ip_flag(), "route", "replace"], &route[..], &["table", &number]].concat();
            let led = run("ip", &route, "").map(drop);
            family.add_rule(&["fwmark", &mark, "lookup", &number, "priority", &number]).and(led)
        })
    }
    /// The device that marked packets are led to.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }
    /// The route that leads there.
    fn home(&self, family: Family) -> String {
        let everything = family.everything();
        match &self.device {
            Some(device) => format!("{everything} dev {device}"),
            None => format!("local {everything} dev lo"),
        }
    }
    /// How many routes lead there.
    pub(crate) fn routes(&self) -> usize {
        if self.device.is_some() { Family::here().count() } else { self.ports.len() }
    }
    /// Takes what others put into the table of these out of it.
    pub(crate) fn purge(&self) {
        let home = Family::ALL.map(|family| self.home(family));
        route_tables::remove_foreign(NUMBER, &home);
    }
    /// Holds SYNs again when another program took the rules for that away, or a part of them.
    pub(crate) fn hold_anew(&mut self, config: &Config) -> Result<(), ToolError> {
        Family::ALL.into_iter().for_each(let_syns_pass);
        self.held.clear();
        if self.queue_rule { self.hold_syns(config) } else { Ok(()) }
    }
    /// Takes what `config` routes instead, in one step per tool: no connection that stands is touched.
    pub(crate) fn replace(&mut self, config: &Config, down: &Down) -> Result<(), ToolError> {
        self.take(config, down)?;
        raise_orphans(config)?;
        close(config)?;
        if self.queue_rule { self.hold_syns(config) } else { Ok(()) }
    }
    /// Takes what `config` routes except what belongs to the peers `down`. SYNs to these are still held: their peer is
    /// determined then.
    pub(crate) fn take(&mut self, config: &Config, down: &Down) -> Result<(), ToolError> {
        let Some(owner) = &mut self.owner else { return Ok(()) };
        self.generation += 1;
        let table = owned_table(config, &self.ports, self.generation, down, &Around::read(config)?);
        if !owner.is_gone() {
            let on_bridge = config
                .intercept
                .as_ref()
                .and_then(|i| i.proxy.as_ref())
                .is_some_and(|proxy| proxy.placement == Placement::Bridge);
            let other = if on_bridge { format!("delete table {BRIDGE_TABLE}; ") } else { String::new() };
            match owner.execute(&format!("delete table {TABLE}; {other}{table}"), &marker(self.generation)) {
                // It was killed for that, and the table is gone.
                Err(ToolError::Hung { .. }) => {}
                done => return done,
            }
        }
        *owner = NftOwner::load(&table, &marker(self.generation))?;
        Ok(())
    }
    /// Whether the owner of the table was killed, so that nothing is taken any more.
    pub(crate) fn are_gone(&mut self) -> bool {
        self.owner.as_mut().is_some_and(NftOwner::is_gone)
    }
    /// Holds SYNs to the networks. A family that never had networks gets no rules, and so needs no tool.
    fn hold_syns(&mut self, config: &Config) -> Result<(), ToolError> {
        let attached = attached(config)?;
        for family in Family::ALL {
            let known = self.held.contains(&family);
            if known || !split_routes(config, family).is_empty() {
                run(family.iptables_restore(), &["-n", XT_WAIT], &queue_rules(config, family, &attached, !known))?;
                self.held.extend((!known).then_some(family));
            }
        }
        Ok(())
    }
    /// An orderly stop: everything is removed, last the table that refuses new connections while no gateway runs.
    pub(crate) fn remove(self) {
        drop(self);
        lift_orphans();
        lift();
    }
    /// Whether there may be ends of connections that a process before this one had, and nobody knows any more.
    pub(crate) fn found_orphans(&self) -> bool {
        self.found_orphans
    }
    /// Whether SYNs are held until the far server has answered.
    pub(crate) fn holds_syns(&self) -> bool {
        self.queue_rule
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.owner.take();
        clear_leftovers();
    }
}

/// Refuses new connections to what `config` routes from now on, unless a gateway takes them before.
pub(crate) fn close(config: &Config) -> Result<(), ToolError> {
    if !config.is_closed() {
        return Ok(());
    }
    run("nft", &["-f", "-"], &closed_table(config, &Around::read(config)?)).map(drop)
}

/// Has the connections that a proxy on our own TCP has reset when its process is gone. Returns whether `config` asks for one.
pub(crate) fn raise_orphans(config: &Config) -> Result<bool, ToolError> {
    let table = userspace::orphans(config, &Around::read(config)?);
    table.map_or(Ok(false), |table| run("nft", &["-f", "-"], &table).map(|_| true))
}

fn orphans_stand() -> bool {
    run("nft", &["list", "tables", "inet"], "").is_ok_and(|tables| tables.contains(ORPHANS))
}

fn lift_orphans() {
    let _ = run("nft", &["delete", "table", "inet", "wavelane_orphans"], "");
}

fn lift() {
    let _ = run("nft", &["delete", "table", "inet", "wavelane_closed"], "");
}

/// That a daemon which died refuses connections still, while none runs here.
pub(crate) fn left_closed() -> Option<String> {
    let tables = run("nft", &["list", "tables", "inet"], "").ok()?;
    let stands = tables.lines().any(|line| line.trim() == format!("table {CLOSED_TABLE}"));
    (stands && claim::claim(LOCK_NAME).is_ok()).then(|| {
        format!(
            "no wavelaned runs here, and the table {CLOSED_TABLE} of one that died still refuses what it took (on_failure = \"closed\"): start wavelaned, or run `nft delete table {CLOSED_TABLE}`"
        )
    })
}

/// How the operator lifts `on_failure = "closed"` by hand.
pub(crate) fn lift_closed(config: &Config) -> String {
    let table = format!("nft delete table {CLOSED_TABLE}");
    if config.tun.is_some() { format!("{table}; {}", route_tables::lift_closed()) } else { table }
}

/// Whether the daemon needs rules at all.
pub(crate) fn needed(config: &Config) -> bool {
    config.intercept.is_some() || config.source == Source::Keep
}

/// A daemon that starts right after a `kill -9` finds the table still owned: the killed process's nft child ends a moment after
/// it. No running daemon owns it, because the namespace is claimed.
#[expect(
    clippy::disallowed_methods,
    reason = "a start has nothing else to do, and there is no event for another program's end"
)]
fn await_last_owner() -> bool {
    let stands =
        || run("nft", &["-f", "-"], &format!("list table {TABLE}")).is_ok_and(|listing| listing.contains(TABLE));
    for _ in 0..OWNER_LOOKS_MAX {
        if !stands() {
            return true;
        }
        std::thread::sleep(OWNER_LOOK_EVERY);
    }
    false
}

/// Removes what an earlier process left, or what we made, if it is there. Failures mean it was not. The rules that
/// refuse connections while nobody takes them stay.
fn clear_leftovers() {
    let number = NUMBER.to_string();
    for family in Family::ALL {
        family.remove_rules(NUMBER);
        let _ = run("ip", &[family.ip_flag(), "route", "flush", "table", &number], "");
        let_syns_pass(family);
        // iptables-nft leaves behind the table that our rule created.
        remove_if_empty(family, "raw");
    }
}

/// Removes the rules that hold SYNs, if they are there.
fn let_syns_pass(family: Family) {
    remove_chain(family, "raw", XT_CHAIN);
}

/// Removes our chain from iptables' table, and what leads there.
pub(crate) fn remove_chain(family: Family, table: &str, chain: &str) {
    if let Ok(listing) = run(family.iptables(), &[XT_WAIT, "-t", table, "-S"], "")
        && listing.contains(chain)
    {
        let _ = run(family.iptables_restore(), &["-n", XT_WAIT], &removal(table, chain, &listing));
    }
}

/// Removes a table of iptables-nft if nothing else is in it.
pub(crate) fn remove_if_empty(family: Family, table: &str) {
    let table = ["table", family.nft(), table];
    if run("nft", &[&["list"], &table[..]].concat(), "").is_ok_and(|listing| is_empty_table(&listing)) {
        let _ = run("nft", &[&["delete"], &table[..]].concat(), "");
    }
}

/// The rules that hold SYNs, as iptables lists them. `None` if it does not.
pub(crate) fn syn_rules(family: Family) -> Option<Vec<String>> {
    let listing = run(family.iptables(), &[XT_WAIT, "-t", "raw", "-S"], "").ok()?;
    Some(listing.lines().filter(|line| line.contains(XT_CHAIN)).map(str::to_owned).collect())
}

/// Whether an nft listing of one table holds chains at most, and no rule, set or comment.
fn is_empty_table(listing: &str) -> bool {
    listing.lines().map(str::trim).all(|l| {
        l.is_empty()
            || l == "}"
            || l.starts_with("table ")
            || l.starts_with("chain ")
            || l.starts_with("type filter hook")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_a_rule_is_not_empty() {
        let chain = "chain PREROUTING {\n type filter hook prerouting priority raw; policy accept;\n";
        assert!(is_empty_table(&format!("table ip raw {{\n{chain}}}\n}}\n")));
        assert!(!is_empty_table(&format!("table ip raw {{\n{chain} counter drop\n}}\n}}\n")));
    }
}
