//! What the host's own firewall does to the traffic that we take: found in its rules, named with the remedy.

use crate::config::Config;
use crate::rules::{Family, MARK_DIVERT};
use wavelane_host::nft::run;

/// Where a firewall meets our traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hook {
    /// Connections that are delivered to our listeners.
    Input,
    /// Packets to and from our device.
    Forward,
}

/// A chain that drops what none of its rules accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Strict {
    hook: Hook,
    family: String,
    table: String,
    chain: String,
    /// The rules of its whole table: it may hand packets to other chains.
    rules: Vec<String>,
}

/// What on this host keeps traffic from us, one line each, with the remedy.
pub(crate) fn findings(config: &Config) -> Vec<String> {
    let Some(intercept) = &config.intercept else { return Vec::new() };
    let mut found = Vec::new();
    let listing = run("nft", &["-s", "-t", "list", "ruleset"], "").unwrap_or_default();
    found.extend(strict(&listing).iter().filter_map(|chain| hindrance(config, chain)));
    for (key, family) in [("iptables", Family::V4), ("ip6tables", Family::V6)] {
        let bridged = std::fs::read_to_string(format!("/proc/sys/net/bridge/bridge-nf-call-{key}"));
        let is_on = bridged.is_ok_and(|v| v.trim() == "1") && has_routes(config, family);
        let is_bridge = |name: &&String| std::path::Path::new(&format!("/sys/class/net/{name}/bridge")).exists();
        for name in intercept.interfaces.iter().filter(is_bridge).filter(|_| is_on) {
            found.push(format!(
                "net.bridge.bridge-nf-call-{key} is 1, so TCP that comes over the bridge {name} is taken twice and times out: run `sysctl -w net.bridge.bridge-nf-call-{key}=0` (Docker sets it; put it into /etc/sysctl.d)"
            ));
        }
    }
    found
}

fn has_routes(config: &Config, family: Family) -> bool {
    config.peers.iter().flat_map(|peer| &peer.routes).any(|network| Family::of(network) == family)
}

/// What a chain that is strict does to us, if none of its table's rules lets our traffic through.
fn hindrance(config: &Config, chain: &Strict) -> Option<String> {
    let intercept = config.intercept.as_ref()?;
    let concerned = match chain.family.as_str() {
        "ip" => has_routes(config, Family::V4),
        "ip6" => has_routes(config, Family::V6),
        _ => true,
    };
    let Strict { family, table, chain: name, rules, .. } = chain;
    let accepts = |word: &str| {
        let passes = |rule: &String| rule.contains(word) && rule.contains("accept") && !rule.contains("dport");
        rules.iter().any(passes)
    };
    let insert = |matching: &str| format!("nft insert rule {family} {table} {name} {matching} accept");
    let place = format!("chain {name} of table {family} {table}");
    match chain.hook {
        Hook::Input => {
            let local = intercept.local.then_some("lo");
            let mut names = intercept.interfaces.iter().map(String::as_str).chain(local);
            let mark = format!("{MARK_DIVERT:#x}");
            let open = accepts(&mark) || accepts(&format!("{MARK_DIVERT:#010x}"));
            let by_name = names.all(|name| accepts(&format!("\"{name}\"")));
            (concerned && !open && !by_name).then(|| {
                format!(
                    "{place} drops what none of its rules accepts, and none names our mark: intercepted connections may time out while the far server holds them; run `{}`, and have your firewall do so at boot",
                    insert(&format!("meta mark {mark}"))
                )
            })
        }
        Hook::Forward => {
            let device = &config.tun.as_ref()?.name;
            (concerned && !accepts(&format!("\"{device}\""))).then(|| {
                format!(
                    "{place} drops what none of its rules accepts, and none names {device}: packets through it may not arrive; run `{}` and `{}`, and have your firewall do so at boot",
                    insert(&format!("oifname \"{device}\"")),
                    insert(&format!("iifname \"{device}\""))
                )
            })
        }
    }
}

/// The chains at the hooks that concern us which drop or refuse what they do not know, in what `nft list ruleset` prints.
fn strict(listing: &str) -> Vec<Strict> {
    let mut found = Vec::new();
    for table in listing.split("\ntable ").map(|part| part.strip_prefix("table ").unwrap_or(part)) {
        let mut head = table.split_whitespace();
        let (Some(family), Some(name)) = (head.next(), head.next()) else { continue };
        if !["ip", "ip6", "inet"].contains(&family) || name.starts_with("wavelane") {
            continue;
        }
        let rules: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
        for chain in table.split("\tchain ").skip(1) {
            let (Some(title), mut lines) = (chain.split_whitespace().next(), chain.lines().skip(1).map(str::trim))
            else {
                continue;
            };
            let Some(kind) = lines.next().filter(|line| line.starts_with("type filter hook ")) else { continue };
            let hook = match kind.split_whitespace().nth(3) {
                Some("input") => Hook::Input,
                Some("forward") => Hook::Forward,
                _ => continue,
            };
            let last = lines.take_while(|line| *line != "}").last().unwrap_or_default();
            let ends = last.trim_start_matches("counter ").trim_start();
            if kind.contains("policy drop") || ends.starts_with("drop") || ends.starts_with("reject") {
                let (family, table, chain) = (family.to_owned(), name.to_owned(), title.to_owned());
                found.push(Strict { hook, family, table, chain, rules: rules.clone() });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const LISTING: &str = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n\t\tct state established accept\n\t}\n\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n\n\tchain OUTPUT {\n\t\ttype filter hook output priority filter; policy drop;\n\t}\n}\ntable inet wavelane_closed {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\treject\n\t}\n}\ntable inet firewalld {\n\tchain filter_INPUT {\n\t\ttype filter hook input priority filter + 10; policy accept;\n\t\tiifname \"lan0\" accept\n\t\treject with icmpx admin-prohibited\n\t}\n\n\tchain open {\n\t\ttype filter hook input priority filter; policy accept;\n\t\ttcp dport 22 accept\n\t}\n}\n";

    #[test]
    fn strict_chains_are_found_and_named_with_what_lets_us_through() {
        let found = strict(LISTING);
        let names: Vec<_> = found.iter().map(|s| (s.hook, s.table.as_str(), s.chain.as_str())).collect();
        let wanted = [
            (Hook::Input, "filter", "INPUT"),
            (Hook::Forward, "filter", "FORWARD"),
            (Hook::Input, "firewalld", "filter_INPUT"),
        ];
        assert_eq!(names, wanted);
        let dir = std::env::temp_dir().join(format!("wavelane-firewall-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
        let config = |rest: &str| {
            let text = format!(
                "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"{}\"\nroutes = [\"10.1.0.0/24\"]\n{rest}",
                crate::keys::to_base64(&[9; 32])
            );
            Config::parse(&text, "x", &dir).unwrap()
        };
        let said = |config: &Config| found.iter().filter_map(|s| hindrance(config, s)).collect::<Vec<_>>();
        let lan = said(&config("[intercept]\ninterfaces = [\"lan0\"]"));
        assert!(
            lan.len() == 1 && lan[0].contains("nft insert rule ip filter INPUT meta mark 0x574c0002 accept"),
            "{lan:?}"
        );
        let tun = said(&config("[intercept]\ninterfaces = [\"lan0\", \"lan1\"]\n[tun]"));
        assert!(tun.len() == 3 && tun[1].contains("oifname \"wavelane0\" accept"), "{tun:?}");
        let mut passes = found[0].clone();
        passes.rules.push("meta mark 0x574c0002 accept".into());
        assert_eq!(hindrance(&config("[intercept]\ninterfaces = [\"lan0\"]"), &passes), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
