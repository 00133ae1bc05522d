//! The figures of a status document as OpenMetrics, and as Prometheus' older text.

use crate::status::{LaneReport, Peer, Report, Traffic};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Measure = Gauge<f64, AtomicU64>;

/// Prefix of counters of what was dropped.
const DROPPED: &str = "dropped_";

/// Values with labels, by the family's name.
struct Figures {
    registry: Registry,
    counts: BTreeMap<&'static str, Family<Labels, Counter>>,
    measures: BTreeMap<&'static str, Family<Labels, Measure>>,
}

impl Figures {
    fn count(&mut self, name: &'static str, help: &str, labels: &Labels, value: u64) {
        let registry = &mut self.registry;
        let family = self.counts.entry(name).or_insert_with(|| {
            let family = Family::default();
            registry.register(name, help, family.clone());
            family
        });
        family.get_or_create(labels).inc_by(value);
    }
    fn measure(&mut self, name: &'static str, help: &str, labels: &Labels, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let registry = &mut self.registry;
        let family = self.measures.entry(name).or_insert_with(|| {
            let family = Family::<Labels, Measure>::default();
            registry.register(name, help, family.clone());
            family
        });
        family.get_or_create(labels).set(value);
    }

    fn whole(&mut self, report: &Report) {
        let none = Labels::new();
        let build = vec![("version", env!("WAVELANE_VERSION").to_owned()), ("gateway", report.name.clone())];
        self.measure("build", "The running program, always 1", &build, Some(1.0));
        self.measure("uptime_seconds", "Time since the start", &none, Some(report.uptime_s));
        self.measure("flows", "Flows open now", &none, Some(report.flows as f64));
        self.measure("flows_relayed", "Flows passed on between peers now", &none, Some(report.flows_relayed as f64));
        self.measure("connections", "Connections that cross the door now", &none, Some(report.door.connections as f64));
        let pending = report.door.pending as f64;
        self.measure("connections_pending", "Connections whose far server has not answered yet", &none, Some(pending));
        self.measure("buffered_bytes", "Bytes in flows' buffers", &none, Some(report.buffered_bytes as f64));
        self.measure("pool_bytes", "The limit of those", &none, Some(report.pool_bytes as f64));
        let refused = f64::from(u8::from(report.reload_refused.is_some()));
        self.measure("reload_refused", "Whether the last reload was refused", &none, Some(refused));
        for counter in &report.counters {
            match counter.name.strip_prefix(DROPPED) {
                Some(reason) => {
                    let labels = vec![("reason", reason.to_owned())];
                    self.count("dropped", "What was dropped, by reason", &labels, counter.value);
                }
                None => {
                    let labels = vec![("event", counter.name.clone())];
                    self.count("events", "What wavelane status counts besides drops", &labels, counter.value);
                }
            }
        }
    }

    fn peer(&mut self, p: &Peer) {
        let labels = vec![("peer", p.name.clone())];
        let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1e3);
        self.measure("peer_up", "Whether the peer answers", &labels, Some(f64::from(u8::from(p.up))));
        self.measure("peer_state_age_seconds", "Time since that last changed", &labels, Some(p.state_s));
        self.measure("peer_rtt_seconds", "Smoothed round-trip time", &labels, seconds(p.rtt_ms));
        self.measure("peer_rtt_min_seconds", "Base round-trip time", &labels, seconds(p.rtt_min_ms));
        let queue = seconds(p.queue_delay_ms);
        self.measure("peer_queue_delay_seconds", "How old the queue on the way out makes packets", &labels, queue);
        self.measure("peer_silence_seconds", "Time since it was last heard", &labels, seconds(p.silence_ms));
        self.measure("peer_in_flight_bytes", "Bytes in flight", &labels, Some(p.in_flight_bytes as f64));
        let rate = p.rate_bps.filter(|_| !p.rate_is_initial).map(|bps| bps as f64 / 8.0);
        self.measure("peer_send_rate_bytes_per_second", "The rate at which may be sent", &labels, rate);
        for (direction, loss) in [("out", p.loss), ("in", p.loss_in)] {
            let labels = vec![("peer", p.name.clone()), ("direction", direction.to_owned())];
            self.measure("peer_loss_ratio", "Share of packets lost lately", &labels, Some(loss));
        }
        self.count("peer_repaired_packets", "Losses made good without a retransmission", &labels, p.repaired_packets);
        self.traffic(
            ["peer_sent_bytes", "peer_sent_packets", "peer_received_bytes", "peer_received_packets"],
            &labels,
            p.traffic,
        );
    }

    fn lane(&mut self, peer: &str, lane: &LaneReport) {
        let labels = vec![("peer", peer.to_owned()), ("lane", lane.name.clone())];
        let flag = |is: bool| Some(f64::from(u8::from(is)));
        self.measure("lane_works", "Whether answers come on the lane", &labels, flag(lane.works));
        self.measure("lane_used", "Whether it carries now", &labels, flag(lane.unused.is_none()));
        self.measure("lane_rtt_seconds", "Smoothed round-trip time", &labels, lane.rtt_ms.map(|ms| ms / 1e3));
        self.measure("lane_loss_ratio", "Share of packets out lost lately", &labels, Some(lane.loss));
        let rate = lane.rate_bps.map(|bps| bps as f64 / 8.0);
        self.measure("lane_send_rate_bytes_per_second", "The rate at which may be sent", &labels, rate);
        let mtu = lane.path_mtu.map(|mtu| mtu as f64);
        self.measure("lane_path_mtu_bytes", "Largest IP packet known to pass", &labels, mtu);
        self.count("lane_lost_packets", "Packets out that were lost", &labels, lane.lost_packets);
        self.count("lane_delivered_bytes", "Bytes out that were acknowledged", &labels, lane.delivered_bytes);
        self.traffic(
            ["lane_sent_bytes", "lane_sent_packets", "lane_received_bytes", "lane_received_packets"],
            &labels,
            lane.traffic,
        );
    }

    fn traffic(
        &mut self,
        [sent, sent_packets, received, received_packets]: [&'static str; 4],
        labels: &Labels,
        t: Traffic,
    ) {
        self.count(sent, "Bytes sent on the medium, with headers", labels, t.sent_bytes);
        self.count(sent_packets, "Datagrams sent", labels, t.sent_packets);
        self.count(received, "Bytes received on the medium, with headers", labels, t.received_bytes);
        self.count(received_packets, "Datagrams received", labels, t.received_packets);
    }
}

/// A document's figures in the format of OpenMetrics 1.0.
pub(super) fn open_metrics(report: &Report) -> String {
    let registry = Registry::with_prefix("wavelane");
    let mut all = Figures { registry, counts: BTreeMap::new(), measures: BTreeMap::new() };
    all.whole(report);
    for peer in &report.peers {
        all.peer(peer);
        peer.lanes.iter().for_each(|lane| all.lane(&peer.name, lane));
    }
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = encode(&mut text, &all.registry);
    text
}

/// The same in Prometheus' text format 0.0.4, in which a counter's name has its suffix everywhere.
pub(super) fn classic(open: &str) -> String {
    let kind =
        |line: &str| line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter")).map(str::to_owned);
    let counters: BTreeSet<String> = open.lines().filter_map(kind).collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match [words.next(), words.next(), words.next(), words.next()] {
            [Some("#"), Some(what), Some(name), Some(rest)] if counters.contains(name) => {
                text += &format!("# {what} {name}_total {rest}\n");
            }
            _ => text = text + line + "\n",
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::status::Counter;

    fn sample() -> Report {
        let lane = |name: &str, sent_bytes| {
            let traffic = Traffic { sent_bytes, sent_packets: 2, received_bytes: 7, received_packets: 1 };
            LaneReport { name: name.into(), traffic, ..LaneReport::default() }
        };
        let lanes = vec![lane("lane", 5), lane("lane (2)", 6)];
        let peer = Peer { name: "a \"b\"\n".into(), rtt_ms: Some(62.5), lanes, ..Peer::default() };
        let counter = |name: &str, value| Counter { name: name.into(), value, why: String::new() };
        let counters = vec![counter("dropped_mac", 3), counter("repaired", 4)];
        Report { peers: vec![peer], counters, ..Report::default() }
    }

    #[test]
    fn figures_have_units_labels_and_one_series_for_each_lane() {
        let text = open_metrics(&sample());
        for line in [
            "# TYPE wavelane_lane_sent_bytes counter",
            r#"wavelane_lane_sent_bytes_total{peer="a \"b\"\n",lane="lane"} 5"#,
            r#"wavelane_lane_sent_bytes_total{peer="a \"b\"\n",lane="lane (2)"} 6"#,
            r#"wavelane_peer_rtt_seconds{peer="a \"b\"\n"} 0.0625"#,
            r#"wavelane_dropped_total{reason="mac"} 3"#,
            r#"wavelane_events_total{event="repaired"} 4"#,
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_grafana_board_asks_for_figures_that_exist() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/wavelane.json");
        let board: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut report = sample();
        let peer = &mut report.peers[0];
        peer.rtt_min_ms = Some(1.0);
        peer.queue_delay_ms = Some(1.0);
        peer.lanes[0].rtt_ms = Some(1.0);
        peer.lanes[0].rate_bps = Some(8);
        let text = open_metrics(&report);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let targets = board["panels"].as_array().unwrap().iter().flat_map(|p| p["targets"].as_array().unwrap());
        let asked: BTreeSet<&str> = targets
            .flat_map(|target| target["expr"].as_str().unwrap().split(|c| !is_name(c)))
            .filter(|word| word.starts_with("wavelane_"))
            .collect();
        assert!(asked.len() > 12, "{asked:?}");
        for name in asked {
            let there = text.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
            assert!(there, "the board asks for {name}, which is not in\n{text}");
        }
    }

    #[test]
    fn the_older_text_names_counters_alike_everywhere() {
        let text = classic(&open_metrics(&sample()));
        assert!(text.contains("# TYPE wavelane_dropped_total counter\n"), "{text}");
        let families: BTreeSet<&str> =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let samples = text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(['{', ' ']).next());
        assert!(families.len() > 20 && samples.collect::<BTreeSet<_>>() == families, "{text}");
    }
}
