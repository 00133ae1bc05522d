//! The kernel's side of the transparent door: what is installed, and how every trace of it is removed.
//!
//! Three things differ in who removes them. The nft table `inet wavelane` is owned by our nft child and vanishes
//! with us. The policy route and the SYN queue rule are not owned: start-up clears an earlier crash's by their
//! unique names, and left alone they do nothing (no packet carries the mark; the queue has `--queue-bypass`). The
//! table `inet wavelane_closed` is meant to outlive a crash: it refuses new connections while we are dead.

use crate::config::{Config, OnFailure, Source};
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
    #[error("cannot open the internal listener: {0}; check CAP_NET_ADMIN and free TCP ports on 127.0.0.1")]
    Listener(std::io::Error),
}

/// The rules in force. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Rules {
    owner: Option<NftOwner>,
    queue_rule: bool,
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
    /// Installs everything. `port` is the internal listener's; `queue` says whether SYNs may be held.
    /// Returns the rules and, if the SYN rule could not be set, why.
    pub(crate) fn install(
        config: &Config,
        port: u16,
        queue: bool,
        lock: UnixDatagram,
    ) -> Result<(Self, Option<ToolError>), RulesError> {
        // An earlier crash's refusal of new connections stands until ours are taken again.
        clear_leftovers(config.on_failure == OnFailure::Closed);
        let mut rules = Self { owner: None, queue_rule: false, complete: false, _lock: lock };
        // A namespace's loopback may be down; without it nothing can be delivered locally.
        run("ip", &["link", "set", "lo", "up"], "")?;
        let (mark, number) = (format!("{MARK_DIVERT:#x}"), NUMBER.to_string());
        run("ip", &["route", "replace", "local", "0.0.0.0/0", "dev", "lo", "table", &number], "")?;
        run("ip", &["rule", "add", "fwmark", &mark, "lookup", &number, "priority", &number], "")?;
        // First what can be refused; a connection that slips in before SYNs are held is asked about at the listener.
        rules.owner = Some(NftOwner::load(&owned_table(config, port), TABLE).map_err(|e| match e {
            ToolError::Refused { said, .. } if config.intercept.is_some() => RulesError::NoTproxy(said),
            other => other.into(),
        })?);
        if config.intercept.is_some() && config.on_failure == OnFailure::Closed {
            run("nft", &["-f", "-"], &closed_table(config))?;
        }
        let mut no_queue = None;
        if queue && config.intercept.is_some() {
            match run("iptables-restore", &["-n", "-w"], &queue_rules(config)) {
                Ok(_) => rules.queue_rule = true,
                Err(e) => no_queue = Some(e),
            }
        }
        rules.complete = true;
        Ok((rules, no_queue))
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

/// Removes what an earlier process left, or what we made, as far as it is there. Failures mean it was not.
fn clear_leftovers(keep_closed: bool) {
    let number = NUMBER.to_string();
    for _ in 0..LEFTOVERS_MAX {
        if run("ip", &["rule", "del", "priority", &number], "").is_err() {
            break;
        }
    }
    let _ = run("ip", &["route", "flush", "table", &number], "");
    if !keep_closed {
        let _ = run("nft", &["delete", "table", "inet", "wavelane_closed"], "");
    }
    if let Ok(listing) = run("iptables", &["-w", "-t", "raw", "-S"], "")
        && listing.contains(XT_CHAIN)
    {
        let _ = run("iptables-restore", &["-n", "-w"], &queue_removal(&listing));
    }
    // iptables-nft leaves the table behind that our rule brought into being.
    if run("nft", &["list", "table", "ip", "raw"], "").is_ok_and(|listing| is_empty_table(&listing)) {
        let _ = run("nft", &["delete", "table", "ip", "raw"], "");
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

fn routes(config: &Config) -> Vec<IpPrefix> {
    let mut all: Vec<IpPrefix> = config.peers.iter().flat_map(|p| p.routes.iter().copied()).collect();
    all.sort_by_key(|r| (r.address, r.bits));
    all.dedup();
    all
}

fn prefix_list(config: &Config) -> String {
    // A set cannot hold the whole address space as one element of an interval of zero bits on every nft version.
    let halves = |r: IpPrefix| match r.bits {
        0 => vec!["0.0.0.0/1".to_string(), "128.0.0.0/1".to_string()],
        bits => vec![format!("{}/{bits}", r.address)],
    };
    routes(config).into_iter().flat_map(halves).collect::<Vec<_>>().join(", ")
}

fn interface_list(config: &Config) -> Option<String> {
    let names = &config.intercept.as_ref()?.interfaces;
    let quoted: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(", "))
}

/// The table that lives and dies with us.
fn owned_table(config: &Config, port: u16) -> String {
    let take = format!(
        "{SYN} ip daddr @routes fib daddr type != local tproxy ip to 127.0.0.1:{port} meta mark set {MARK_DIVERT:#x} accept;"
    );
    // ICMP too: errors about connections that we make from the applications' addresses are ours to hear.
    let mut prerouting =
        format!("meta l4proto {{ tcp, icmp }} socket transparent 1 meta mark set {MARK_DIVERT:#x} accept;");
    if let Some(names) = interface_list(config) {
        prerouting += &format!(" iifname {{ {names} }} {take}");
    }
    let local = config.intercept.as_ref().is_some_and(|i| i.local);
    let mut table = String::new();
    if config.intercept.is_some() {
        let elements = prefix_list(config);
        table +=
            &format!(" set routes {{ type ipv4_addr; flags interval; auto-merge; elements = {{ {elements} }}; }};");
    }
    if local {
        prerouting += &format!(" iifname \"lo\" meta mark {MARK_DIVERT:#x} {take}");
        // The SYN decides; the connection's later packets follow it. Connections older than us are left alone.
        table += &format!(
            " chain born {{ type route hook output priority mangle; policy accept; \
             meta mark {MARK_OWN:#x} return; \
             {SYN} ip daddr @routes fib daddr type != local ct mark set {MARK_DIVERT:#x}; \
             ct direction original ct mark {MARK_DIVERT:#x} meta mark set {MARK_DIVERT:#x}; }};"
        );
    }
    table += &format!(" chain arrive {{ type filter hook prerouting priority mangle; policy accept; {prerouting} }};");
    format!("table {TABLE} {{ flags owner;{table} }}")
}

/// The table that stays when we are gone without a goodbye. While we live no packet meets its rules: SYNs from the
/// interfaces turn off before the forward hook, and our own host's carry a mark.
fn closed_table(config: &Config) -> String {
    let elements = prefix_list(config);
    let refuse = format!("{SYN} ip daddr @routes reject with tcp reset");
    // Made, removed and made again: one transaction, whether an old one stands or not.
    let mut table = format!(
        "table {CLOSED_TABLE} {{ }}\ndelete table {CLOSED_TABLE}\ntable {CLOSED_TABLE} {{\n set routes {{ type ipv4_addr; flags interval; auto-merge; elements = {{ {elements} }}; }}\n"
    );
    if let Some(names) = interface_list(config) {
        table += &format!(
            " chain forward {{ type filter hook forward priority filter; policy accept;\n  iifname {{ {names} }} {refuse}\n }}\n"
        );
    }
    if config.intercept.as_ref().is_some_and(|i| i.local) {
        table += &format!(
            " chain born {{ type filter hook output priority filter; policy accept;\n  \
             meta mark {{ {MARK_OWN:#x}, {MARK_DIVERT:#x} }} return\n  {refuse}\n }}\n"
        );
    }
    table + "}\n"
}

/// The rule that holds SYNs, for iptables-restore. It stands in the raw table: before TPROXY at mangle.
fn queue_rules(config: &Config) -> String {
    let mut text = format!("*raw\n:{XT_CHAIN} - [0:0]\n-A {XT_CHAIN} -m addrtype --dst-type LOCAL -j RETURN\n");
    for r in routes(config) {
        text += &format!("-A {XT_CHAIN} -d {}/{} -j NFQUEUE --queue-num {NUMBER} --queue-bypass\n", r.address, r.bits);
    }
    if let Some(intercept) = &config.intercept {
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
