//! Counters from the run's start to its flows' end: processor time, and the TCP of the endpoints' kernels.

use crate::LabError;
use crate::gateways::Gateways;
use crate::lines;
use crate::peers::Peers;
use crate::proxies::Proxies;
use crate::tools;
use crate::world::World;
use wavelane_base::Instant;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::{KernelTcp, LineRaw, Spent};
use wavelane_scenario::{NodeKind, Scenario};

/// Counters at one time.
pub(crate) struct Tally {
    at: Instant,
    spent: Spent,
    waited_s: Option<f64>,
    kernels: Vec<KernelTcp>,
    lines: Vec<lines::Counted>,
}

/// Differences between two times.
pub(crate) struct Counts {
    /// Processor time.
    pub(crate) spent: Spent,
    /// How long the programs in the gateways' place waited for a processor, in seconds.
    pub(crate) waited_s: Option<f64>,
    /// The time between, in seconds.
    pub(crate) took_s: f64,
    /// Per endpoint.
    pub(crate) kernels: Vec<KernelTcp>,
    /// Per direction of each serial line.
    pub(crate) lines: Vec<LineRaw>,
}

impl Tally {
    /// Reads the counters.
    pub(crate) fn read(
        scenario: &Scenario,
        world: &World,
        gateways: Option<&Gateways>,
        peers: Option<&Peers>,
        proxies: Option<&Proxies>,
    ) -> Result<Self, LabError> {
        let ends = scenario.nodes.iter().zip(&world.nodes).filter(|(node, _)| node.kind == NodeKind::Endpoint);
        let kernels = ends.map(|(node, ns)| segments(&node.name, ns)).collect::<Result<_, _>>()?;
        let (programs_s, waited_s) = match (gateways, proxies, peers) {
            (Some(gateways), ..) => (gateways.cpu_seconds(), gateways.waited_seconds()),
            (None, Some(proxies), _) => (proxies.cpu_seconds(), proxies.waited_seconds()),
            (None, None, peers) => (peers.and_then(Peers::cpu_seconds), peers.and_then(Peers::waited_seconds)),
        };
        let machine_s = tools::processor_seconds().map(|(busy, _)| busy);
        Ok(Self {
            at: realtime::now(),
            spent: Spent { programs_s, machine_s },
            waited_s,
            kernels,
            lines: world.lines.counted()?,
        })
    }

    /// Differences since `before`.
    /// `on_line` says how many octets each end of a line has put on it since then.
    pub(crate) fn since(self, before: &Self, on_line: impl Fn(&str) -> Option<[u64; 2]>) -> Counts {
        let lines = lines::since(&self.lines, &before.lines, on_line);
        let less = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        let spent = Spent {
            programs_s: less(self.spent.programs_s, before.spent.programs_s),
            machine_s: less(self.spent.machine_s, before.spent.machine_s),
        };
        let kernels = self.kernels.into_iter().zip(&before.kernels).map(|(now, then)| KernelTcp {
            sent: now.sent.saturating_sub(then.sent),
            repeated: now.repeated.saturating_sub(then.repeated),
            node: now.node,
        });
        let waited_s = less(self.waited_s, before.waited_s);
        let took_s = self.at.since(before.at).as_secs_f64();
        Counts { spent, waited_s, took_s, kernels: kernels.collect(), lines }
    }
}

fn segments(node: &str, ns: &Netns) -> Result<KernelTcp, LabError> {
    let table = ns.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))?;
    let table = table.map_err(LabError::io("cannot read /proc/net/snmp"))?;
    let missing = || LabError::Failed { program: "/proc/net/snmp".into(), said: "it counts no TCP segments".into() };
    let value = |name: &str| tcp_counter(&table, name).ok_or_else(missing);
    Ok(KernelTcp { node: node.to_owned(), sent: value("OutSegs")?, repeated: value("RetransSegs")? })
}

/// A counter from the two lines that begin with `Tcp:`, of which the first holds the names (proc(5)).
fn tcp_counter(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stand_under_their_names() {
        let table = "Ip: Forwarding\nIp: 1\nTcp: RtoMin InSegs OutSegs RetransSegs\nTcp: 200 7 19 3\n";
        assert_eq!((tcp_counter(table, "OutSegs"), tcp_counter(table, "RetransSegs")), (Some(19), Some(3)));
        assert_eq!(tcp_counter(table, "OutRsts"), None);
        assert_eq!(tcp_counter("Udp: OutSegs\n", "OutSegs"), None);
        let own = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
        assert!(tcp_counter(&own, "OutSegs").is_some() && tcp_counter(&own, "RetransSegs").is_some());
    }
}
