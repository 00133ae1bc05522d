//! The kernel's side of the transparent door: what is installed, and how every trace of it is removed.
//!
//! Three things differ in who removes them. The nft table `inet wavelane` is owned by our nft child and vanishes
//! with us. The policy route and the SYN queue rule are not owned: start-up clears an earlier crash's by their
//! unique names, and left alone they do nothing (no packet carries the mark; the queue has `--queue-bypass`). The
//! table `inet wavelane_closed` is meant to outlive a crash: it refuses new connections while we are dead.

use crate::config::{Config, OnFailure, Source, Tun, prefix_text, width};
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use wavelane_host::nft::{NftOwner, ToolError, run};
use wavelane_protocol::gateway::IpPrefix;

/// Firewall mark of the daemon's own sockets ("WL" 1): never taken.
pub(crate) const MARK_OWN: u32 = 0x574c_0001;
/// Firewall mark of packets delivered to our transparent sockets ("WL" 2).
pub(crate) const MARK_DIVERT: u32 = 0x574c_0002;
/// Number of the NFQUEUE, of the routing table and of the rule's priority.
pub(crate) const NUMBER: u16 = 4780;

const TABLE: &str = "inet wavelane";
const CLOSED_TABLE: &str = "inet wavelane_closed";
const XT_CHAIN: &str = "WAVELANE";
/// Abstract socket that marks this network namespace as having its one intercepting daemon.
const LOCK_NAME: &[u8] = b"wavelaned-intercept";
/// A first SYN.
const SYN: &str = "tcp flags & (fin|syn|rst|ack) == syn";
/// Most leftover policy rules removed at start.
const LEFTOVERS_MAX: usize = 64;

/// Why the door cannot be set up. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    #[error(
        "taking traffic or `source = \"keep\"` needs CAP_NET_ADMIN and CAP_NET_RAW: run as root, or with AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW in the systemd unit, or `setcap cap_net_admin,cap_net_raw+ep` on wavelaned; or use only [[forward]] with source = \"own\""
    )]
    Capability,
    #[error("another wavelaned already takes traffic in this network namespace: stop that one first")]
    Taken,
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
    queue_rule: bool,
    /// The IP versions whose SYNs are led to our chain.
    held: Vec<Family>,
    /// The start went through; if not, a closed gateway stays closed.
    complete: bool,
    _lock: UnixDatagram,
}

/// Claims this network namespace; a second daemon fails instead of tearing down the first one's rules.
pub(crate) fn claim() -> Result<UnixDatagram, RulesError> {
    let name = SocketAddr::from_abstract_name(LOCK_NAME).map_err(RulesError::Listener)?;
    UnixDatagram::bind_addr(&name).map_err(|_| RulesError::Taken)
}

impl Rules {
    /// Installs everything. `ports` are the internal listeners', of IPv4 and, where there is IPv6, of IPv6; `queue`
    /// says whether SYNs may be held. Returns the rules and, if the SYN rules could not be set, why.
    pub(crate) fn install(
        config: &Config,
        ports: &[u16],
        queue: bool,
        lock: UnixDatagram,
    ) -> Result<(Self, Option<ToolError>), RulesError> {
        // An earlier crash's refusal of new connections stands until ours are taken again.
        clear_leftovers(config.on_failure == OnFailure::Closed);
        let mut rules = Self {
            owner: None,
            generation: 0,
            ports: ports.to_vec(),
            queue_rule: false,
            held: Vec::new(),
            complete: false,
            _lock: lock,
        };
        let (mark, number) = (format!("{MARK_DIVERT:#x}"), NUMBER.to_string());
        for family in Family::ALL.into_iter().take(ports.len()) {
            let ip = |arguments: &[&str]| run("ip", &[&[family.ip_flag()], arguments].concat(), "");
            ip(&["route", "replace", "local", family.everything(), "dev", "lo", "table", &number])?;
            ip(&["rule", "add", "fwmark", &mark, "lookup", &number, "priority", &number])?;
        }
        // First what can be refused; a connection that slips in before SYNs are held is asked about at the listener.
        let table = owned_table(config, ports, rules.generation);
        rules.owner = Some(NftOwner::load(&table, &marker(rules.generation)).map_err(|e| match e {
            ToolError::Refused { said, .. } if config.intercept.is_some() => RulesError::NoTproxy(said),
            other => other.into(),
        })?);
        if config.intercept.is_some() && config.on_failure == OnFailure::Closed {
            run("nft", &["-f", "-"], &closed_table(config))?;
        }
        let mut no_queue = None;
        if queue && config.intercept.is_some() {
            rules.queue_rule = true;
            if let Err(e) = rules.hold_syns(config) {
                rules.queue_rule = false;
                no_queue = Some(e);
            }
        }
        rules.complete = true;
        Ok((rules, no_queue))
    }
    /// Takes what `config` routes instead, in one step per tool: no connection that stands is touched.
    pub(crate) fn replace(&mut self, config: &Config) -> Result<(), ToolError> {
        let Some(owner) = &mut self.owner else { return Ok(()) };
        self.generation += 1;
        let table = owned_table(config, &self.ports, self.generation);
        owner.execute(&format!("delete table {TABLE}; {table}"), &marker(self.generation))?;
        if config.intercept.is_some() && config.on_failure == OnFailure::Closed {
            run("nft", &["-f", "-"], &closed_table(config))?;
        }
        if self.queue_rule { self.hold_syns(config) } else { Ok(()) }
    }
    /// Holds SYNs to the networks. A family that never had networks gets no rules, and so needs no tool.
    fn hold_syns(&mut self, config: &Config) -> Result<(), ToolError> {
        for family in Family::ALL {
            let known = self.held.contains(&family);
            if known || !routes(config, family).is_empty() {
                run(family.iptables_restore(), &["-n", "-w"], &queue_rules(config, family, !known))?;
                self.held.extend((!known).then_some(family));
            }
        }
        Ok(())
    }
    /// Whether SYNs are held until the far server has answered.
    pub(crate) fn holds_syns(&self) -> bool {
        self.queue_rule
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.owner.take();
        clear_leftovers(!self.complete);
    }
}

/// How the operator lifts `on_failure = "closed"` by hand.
pub(crate) fn lift_closed() -> String {
    format!("nft delete table {CLOSED_TABLE}")
}

/// Whether the daemon needs rules at all.
pub(crate) fn needed(config: &Config) -> bool {
    config.intercept.is_some() || config.source == Source::Keep
}

/// One IP version, as the tools name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn of(prefix: &IpPrefix) -> Self {
        Self::of_address(prefix.address)
    }
    pub(crate) fn of_address(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
    /// Removes the policy rules of one priority.
    pub(crate) fn remove_rules(self, priority: u16) {
        for _ in 0..LEFTOVERS_MAX {
            if run("ip", &[self.ip_flag(), "rule", "del", "priority", &priority.to_string()], "").is_err() {
                break;
            }
        }
    }
    /// ip's flag.
    pub(crate) fn ip_flag(self) -> &'static str {
        ["-4", "-6"][self as usize]
    }
    fn everything(self) -> &'static str {
        ["0.0.0.0/0", "::/0"][self as usize]
    }
    /// The same as two networks: a set cannot hold an interval of zero bits on every nft version.
    fn halves(self) -> [&'static str; 2] {
        [["0.0.0.0/1", "128.0.0.0/1"], ["::/1", "8000::/1"]][self as usize]
    }
    /// nft's word for it, in matches and as a table's family.
    fn nft(self) -> &'static str {
        ["ip", "ip6"][self as usize]
    }
    fn nft_set(self) -> &'static str {
        ["routes4", "routes6"][self as usize]
    }
    fn localhost(self) -> &'static str {
        ["127.0.0.1", "[::1]"][self as usize]
    }
    fn iptables(self) -> &'static str {
        ["iptables", "ip6tables"][self as usize]
    }
    fn iptables_restore(self) -> &'static str {
        ["iptables-restore", "ip6tables-restore"][self as usize]
    }
}

/// Removes what an earlier process left, or what we made, as far as it is there. Failures mean it was not.
fn clear_leftovers(keep_closed: bool) {
    let number = NUMBER.to_string();
    if !keep_closed {
        let _ = run("nft", &["delete", "table", "inet", "wavelane_closed"], "");
    }
    for family in Family::ALL {
        family.remove_rules(NUMBER);
        let _ = run("ip", &[family.ip_flag(), "route", "flush", "table", &number], "");
        if let Ok(listing) = run(family.iptables(), &["-w", "-t", "raw", "-S"], "")
            && listing.contains(XT_CHAIN)
        {
            let _ = run(family.iptables_restore(), &["-n", "-w"], &queue_removal(&listing));
        }
        // iptables-nft leaves the table behind that our rule brought into being.
        let table = ["table", family.nft(), "raw"];
        if run("nft", &[&["list"], &table[..]].concat(), "").is_ok_and(|listing| is_empty_table(&listing)) {
            let _ = run("nft", &[&["delete"], &table[..]].concat(), "");
        }
    }
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

/// The networks whose TCP is taken, each once.
fn routes(config: &Config, family: Family) -> Vec<IpPrefix> {
    let split = config.peers.iter().filter(|p| p.split);
    let mut all: Vec<IpPrefix> =
        split.flat_map(|p| p.routes.iter().copied()).filter(|r| Family::of(r) == family).collect();
    all.sort_by_key(|r| (r.address, r.bits));
    all.dedup();
    all
}

/// An nft set of the networks, empty or not.
fn set(config: &Config, family: Family) -> String {
    let name = |r: IpPrefix| match r.bits {
        0 => family.halves().map(str::to_owned).to_vec(),
        _ => vec![prefix_text(&r)],
    };
    let elements = routes(config, family).into_iter().flat_map(name).collect::<Vec<_>>().join(", ");
    let elements = if elements.is_empty() { elements } else { format!(" elements = {{ {elements} }};") };
    let kind = ["ipv4_addr", "ipv6_addr"][family as usize];
    format!(" set {} {{ type {kind}; flags interval; auto-merge;{elements} }};", family.nft_set())
}

/// A match of first packets to the networks of one family.
fn to_routes(family: Family) -> String {
    format!("{SYN} {} daddr @{}", family.nft(), family.nft_set())
}

fn interface_list(config: &Config) -> Option<String> {
    let names = &config.intercept.as_ref()?.interfaces;
    let quoted: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(", "))
}

/// The empty chain by which one making of the owned table is told from another.
fn marker(generation: u32) -> String {
    format!("{TABLE} generation{generation}")
}

/// The table that lives and dies with us.
fn owned_table(config: &Config, ports: &[u16], generation: u32) -> String {
    let families = || Family::ALL.into_iter().zip(ports);
    let take = |matching: &str| -> String {
        let rule = |(family, port): (Family, &u16)| {
            let (nft, to, localhost) = (family.nft(), to_routes(family), family.localhost());
            format!(
                " {matching} {to} fib daddr type != local tproxy {nft} to {localhost}:{port} meta mark set {MARK_DIVERT:#x} accept;"
            )
        };
        families().map(rule).collect()
    };
    // ICMP too: errors about connections that we make from the applications' addresses are ours to hear.
    let mut prerouting =
        format!("meta l4proto {{ tcp, icmp, ipv6-icmp }} socket transparent 1 meta mark set {MARK_DIVERT:#x} accept;");
    if let Some(names) = interface_list(config) {
        prerouting += &take(&format!("iifname {{ {names} }}"));
    }
    let local = config.intercept.as_ref().is_some_and(|i| i.local);
    let mut table = format!(" chain generation{generation} {{ }};");
    if config.intercept.is_some() {
        table.extend(families().map(|(family, _)| set(config, family)));
    }
    if local {
        prerouting += &take(&format!("iifname \"lo\" meta mark {MARK_DIVERT:#x}"));
        // The SYN decides; the connection's later packets follow it. Connections older than us are left alone.
        let born =
            |(family, _)| format!(" {} fib daddr type != local ct mark set {MARK_DIVERT:#x};", to_routes(family));
        table += &format!(
            " chain born {{ type route hook output priority mangle; policy accept; \
             meta mark {MARK_OWN:#x} return;{} \
             ct direction original ct mark {MARK_DIVERT:#x} meta mark set {MARK_DIVERT:#x}; }};",
            families().map(born).collect::<String>()
        );
    }
    table += &format!(" chain arrive {{ type filter hook prerouting priority mangle; policy accept; {prerouting} }};");
    if let Some(tun) = &config.tun {
        table += &packet_chains(config, tun);
    }
    format!("table {TABLE} {{ flags owner;{table} }}")
}

/// Addresses that every peer's `allow_targets` lists exactly. Those of them that are this host's take what comes through
/// the packet door.
pub(crate) fn open_addresses(config: &Config) -> Vec<IpAddr> {
    let Some((first, rest)) = config.peers.split_first() else { return Vec::new() };
    let exact = |p: &&IpPrefix| p.bits == width(p.address);
    let by_all = |p: &&IpPrefix| rest.iter().all(|peer| peer.allow_targets.contains(p));
    first.allow_targets.iter().filter(exact).filter(by_all).map(|p| p.address).collect()
}

/// What concerns the packet door: segments are made to fit, and this host's own addresses are guarded.
fn packet_chains(config: &Config, tun: &Tun) -> String {
    // TCP that is not split learns at its first packet what fits.
    let mut chains = format!(
        " chain through {{ type filter hook forward priority mangle; policy accept; \
         oifname \"{}\" tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu; }};",
        tun.name
    );
    // What peers send to this host itself: answers to what was asked from here, pings of the device's addresses, and
    // addresses that every peer's allow_targets lists exactly. A peer's own packets are judged one by one, or what is
    // no longer listed would go on to be heard while its answers have no way back.
    let own: Vec<IpAddr> = tun.addresses.iter().map(|a| a.address).collect();
    let listed = open_addresses(config);
    let mut rules = String::new();
    for family in Family::ALL {
        let ping = ["icmp type echo-request", "icmpv6 type echo-request"][family as usize];
        for (addresses, which) in [(&own, ping), (&listed, "")] {
            let texts: Vec<String> =
                addresses.iter().filter(|a| Family::of_address(**a) == family).map(IpAddr::to_string).collect();
            if !texts.is_empty() {
                rules += &format!(" {} daddr {{ {} }} {which} accept;", family.nft(), texts.join(", "));
            }
        }
    }
    chains += &format!(
        " chain guard {{ type filter hook input priority filter; policy accept; \
         iifname != \"{}\" accept; ct state related accept; ct direction reply accept;{rules} \
         counter reject with icmpx type admin-prohibited; }};",
        tun.name
    );
    chains
}

/// The table that stays when we are gone without a goodbye. While we live no packet meets its rules: SYNs from the
/// interfaces turn off before the forward hook, and our own host's carry a mark.
fn closed_table(config: &Config) -> String {
    let sets: String = Family::ALL.into_iter().map(|family| set(config, family)).collect();
    let refuse = |matching: &str| -> String {
        let rule = |family| format!("  {matching} {} reject with tcp reset\n", to_routes(family));
        Family::ALL.into_iter().map(rule).collect()
    };
    // Made, removed and made again: one transaction, whether an old one stands or not.
    let mut table =
        format!("table {CLOSED_TABLE} {{ }}\ndelete table {CLOSED_TABLE}\ntable {CLOSED_TABLE} {{\n{sets}\n");
    if let Some(names) = interface_list(config) {
        let rules = refuse(&format!("iifname {{ {names} }}"));
        table += &format!(" chain forward {{ type filter hook forward priority filter; policy accept;\n{rules} }}\n");
    }
    if config.intercept.as_ref().is_some_and(|i| i.local) {
        table += &format!(
            " chain born {{ type filter hook output priority filter; policy accept;\n  \
             meta mark {{ {MARK_OWN:#x}, {MARK_DIVERT:#x} }} return\n{} }}\n",
            refuse("")
        );
    }
    table + "}\n"
}

/// The rules that hold SYNs, for iptables-restore, which makes our chain anew if it is there; and what leads to it, if
/// wanted. They stand in the raw table: before TPROXY at mangle.
fn queue_rules(config: &Config, family: Family, lead: bool) -> String {
    let mut text = format!("*raw\n:{XT_CHAIN} - [0:0]\n-A {XT_CHAIN} -m addrtype --dst-type LOCAL -j RETURN\n");
    for r in routes(config, family) {
        let to = prefix_text(&r);
        text += &format!("-A {XT_CHAIN} -d {to} -j NFQUEUE --queue-num {NUMBER} --queue-bypass\n");
    }
    if let Some(intercept) = config.intercept.as_ref().filter(|_| lead) {
        for name in &intercept.interfaces {
            text += &format!("-A PREROUTING -i {name} -p tcp --syn -j {XT_CHAIN}\n");
        }
        if intercept.local {
            text += &format!("-A PREROUTING -i lo -p tcp --syn -m mark --mark {MARK_DIVERT:#x} -j {XT_CHAIN}\n");
        }
    }
    text + "COMMIT\n"
}

/// What removes our chain and every jump to it, given `iptables -t raw -S`.
fn queue_removal(listing: &str) -> String {
    let jump = format!(" -j {XT_CHAIN}");
    let mut text = format!("*raw\n:{XT_CHAIN} - [0:0]\n");
    for line in listing.lines().filter(|l| l.ends_with(&jump)) {
        text += &format!("{}\n", line.replacen("-A ", "-D ", 1));
    }
    text + &format!("-X {XT_CHAIN}\nCOMMIT\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_our_jumps_are_removed() {
        let listing =
            "-P PREROUTING ACCEPT\n-N WAVELANE\n-A PREROUTING -i lan0 -p tcp -j WAVELANE\n-A PREROUTING -j OTHER\n";
        let text = queue_removal(listing);
        assert_eq!(text, "*raw\n:WAVELANE - [0:0]\n-D PREROUTING -i lan0 -p tcp -j WAVELANE\n-X WAVELANE\nCOMMIT\n");
    }

    #[test]
    fn a_table_with_a_rule_is_not_empty() {
        let chain = "chain PREROUTING {\n type filter hook prerouting priority raw; policy accept;\n";
        assert!(is_empty_table(&format!("table ip raw {{\n{chain}}}\n}}\n")));
        assert!(!is_empty_table(&format!("table ip raw {{\n{chain} counter drop\n}}\n}}\n")));
    }
}
