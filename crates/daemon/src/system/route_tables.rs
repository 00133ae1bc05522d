//! Our own routing tables, and what others put into them.

use super::family::Family;
use crate::config::width;
use std::collections::BTreeSet;
use wavelane_host::nft::run;

/// Number of our routing table, and priority of the rule that keeps our own datagrams out of it.
pub(crate) const TABLE: u16 = 4781;
/// Metric of the routes that refuse: behind every other.
pub(crate) const REFUSING: &str = "metric 65535";

/// How the operator lifts by hand what is refused while no gateway runs.
pub(crate) fn lift_closed() -> String {
    let families = Family::ALL.into_iter().take(1 + usize::from(wavelane_host::has_ipv6()));
    families.map(|f| format!("ip {} route flush table {TABLE}", f.ip_flag())).collect::<Vec<_>>().join("; ")
}

/// Takes others' routes out of a table of ours: what they match is not ours to take, or goes elsewhere than it should.
pub(crate) fn remove_foreign(table: u16, wanted: &[String]) {
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    for family in Family::here() {
        let listing = run("ip", &[family.ip_flag(), "route", "show", "table", &table.to_string()], "");
        let listing = listing.unwrap_or_default();
        let foreign = listing.lines().filter(|line| !line.starts_with(char::is_whitespace));
        let foreign = foreign.filter_map(|line| Listed::parse(family, line)).filter(|route| !route.is_in(&wanted));
        let lines: String = foreign.map(|route| format!("route del {} table {table}\n", route.words())).collect();
        if !lines.is_empty() {
            let _ = run("ip", &[family.ip_flag(), "-force", "-batch", "-"], &lines);
        }
    }
}

/// A route as `ip` lists it.
#[derive(Debug)]
struct Listed<'a> {
    /// Nothing of one that leads somewhere.
    kind: &'a str,
    network: String,
    via: Option<&'a str>,
    device: Option<&'a str>,
    metric: Option<&'a str>,
}

impl<'a> Listed<'a> {
    fn parse(family: Family, line: &'a str) -> Option<Self> {
        const KINDS: [&str; 7] = ["throw", "unreachable", "blackhole", "prohibit", "local", "broadcast", "unicast"];
        let mut words = line.split_ascii_whitespace();
        let first = words.next()?;
        let kind = if KINDS.contains(&first) { first } else { "" };
        let network = match if kind.is_empty() { first } else { words.next()? } {
            "default" => family.everything().to_owned(),
            network if network.contains('/') => network.to_owned(),
            address => format!("{address}/{}", width(address.parse().ok()?)),
        };
        let rest: Vec<&str> = words.collect();
        let after = |key: &str| rest.windows(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
        Some(Self { kind, network, via: after("via"), device: after("dev"), metric: after("metric") })
    }
    /// Whether it is one of ours, in the words in which we make them. IPv6 has a metric of its own for those without one.
    fn is_in(&self, wanted: &BTreeSet<&str>) -> bool {
        let Self { kind, network, via, device, metric } = self;
        let plain = via.is_none() && metric.is_none_or(|metric| metric == "1024");
        match (*kind, device) {
            ("local", Some(device)) => plain && wanted.contains(format!("local {network} dev {device}").as_str()),
            ("", Some(device)) => plain && wanted.contains(format!("{network} dev {device}").as_str()),
            ("throw", _) => plain && wanted.contains(format!("throw {network}").as_str()),
            // Another's metric would be preferred to ours.
            ("unreachable", _) => {
                let refusing = metric.is_some_and(|metric| format!("metric {metric}") == REFUSING);
                refusing && wanted.contains(format!("unreachable {network} {REFUSING}").as_str())
            }
            _ => false,
        }
    }
    fn words(&self) -> String {
        let Self { kind, network, via, device, metric } = self;
        let mut words = format!("{kind} {network}");
        for (key, value) in [("via", via), ("dev", device), ("metric", metric)] {
            words.extend(value.map(|value| format!(" {key} {value}")));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusing_route_of_another_metric_is_not_ours() {
        let ours = format!("unreachable 10.3.0.0/24 {REFUSING}");
        let wanted = BTreeSet::from([ours.as_str()]);
        for (line, is_ours) in [
            ("unreachable 10.3.0.0/24 metric 65535", true),
            ("unreachable 10.3.0.0/24 dev lo metric 65535 pref medium", true),
            ("unreachable 10.3.0.0/24 metric 1", false),
            ("unreachable 10.3.0.0/24", false),
            ("unreachable 10.4.0.0/24 metric 65535", false),
        ] {
            let route = Listed::parse(Family::V4, line).expect("a route");
            assert_eq!(route.is_in(&wanted), is_ours, "{line}");
        }
    }
}
