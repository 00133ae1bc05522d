//! What `wavelane status` shows: the document the daemon gives, and its rendering in words.

mod flows;
mod help;
mod lanes;
mod serial;

pub use flows::{FLOWS_SHOWN, FlowReport};
pub(crate) use lanes::kinds;
pub use serial::Serial;

pub(crate) use flows::age;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The document's format name.
pub const FORMAT: &str = "wavelane-status/1";

/// One neighbour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Peer {
    /// Configured name.
    pub name: String,
    /// Whether a session stands and it was heard lately.
    pub up: bool,
    /// Seconds since that last changed.
    #[serde(default)]
    pub state_s: f64,
    /// Whether what goes to its networks is forwarded plainly, because it is down and `on_failure` is `open`.
    #[serde(default)]
    pub given_back: bool,
    /// Whether it is refused instead, because `on_failure` is `closed`: TCP, and with a packet door packets, too.
    #[serde(default)]
    pub refused: bool,
    /// Why it does not answer, as far as that was found out.
    #[serde(default)]
    pub cause: Option<String>,
    /// Where its datagrams come from.
    pub address: Option<String>,
    /// Milliseconds since it was last heard.
    pub silence_ms: Option<f64>,
    /// Smoothed round-trip time.
    pub rtt_ms: Option<f64>,
    /// Base round-trip time.
    pub rtt_min_ms: Option<f64>,
    /// Queueing delay the controller sees.
    pub queue_delay_ms: Option<f64>,
    /// The controller's rate, at which we send.
    pub rate_bps: Option<u64>,
    /// Whether that is only the controller's start rate: nothing was measured yet.
    #[serde(default)]
    pub rate_is_initial: bool,
    /// Share of our packets lost lately, 0 to 1.
    pub loss: f64,
    /// Share of its packets missing lately, on the worst of its lanes.
    #[serde(default)]
    pub loss_in: f64,
    /// What was sent to it and received from it since the start, on the media: with IP's and UDP's headers.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Packets lost and made good without waiting for a retransmission.
    #[serde(default)]
    pub repaired_packets: u64,
    /// Largest IP packet known to pass.
    pub path_mtu: usize,
    /// Why that is less than the 1,200 bytes which nearly every path carries, if it is.
    #[serde(default)]
    pub path_mtu_cause: Option<String>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Times that a sealed flow left this way because a relay on it changed, forged or withheld something.
    #[serde(default)]
    pub distrusted: u64,
    /// The last of them.
    #[serde(default)]
    pub distrusted_last: Option<Distrust>,
    /// The lane that is taken first: the values above are its.
    #[serde(default)]
    pub preferred_lane: Option<String>,
    /// Its lanes.
    #[serde(default)]
    pub lanes: Vec<LaneReport>,
}

/// Datagrams sent and received, and their bytes on the medium: with the headers of IP and UDP where it is IP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Traffic {
    /// Bytes that left here.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Datagrams that left here.
    #[serde(default)]
    pub sent_packets: u64,
    /// Bytes that came here.
    #[serde(default)]
    pub received_bytes: u64,
    /// Datagrams that came here.
    #[serde(default)]
    pub received_packets: u64,
}

/// One time that a sealed flow left its path because of what arrived by it, or did not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Distrust {
    /// Seconds since then.
    pub ago_s: f64,
    /// What came.
    pub what: String,
    /// Where the flow leads, by this peer.
    pub target: Option<String>,
    /// The gateways on the way that it left, as far as they are known.
    #[serde(default)]
    pub way: Option<Way>,
}

/// The gateways that a flow crosses, as far as they are known here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Way {
    /// The peer by which it begins.
    pub first: String,
    /// How many gateways pass the flow on, that peer included, by their own count; nothing if that is not known here.
    pub relays: Option<u8>,
    /// The gateway at the other end, if the file names it.
    pub far: Option<String>,
}

impl Way {
    pub(crate) fn of(known: wavelane_gateway::KnownWay) -> Self {
        let wavelane_gateway::KnownWay { first, relays, far } = known;
        Self { first, relays, far }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, relays, far } = self.clone();
        wavelane_gateway::KnownWay { first, relays, far }.fmt(f)
    }
}

/// One lane to a peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LaneReport {
    /// Its name in messages: its place among the peer's tables, or "lane", "lane (2)" and so on if it has none.
    #[serde(default)]
    pub name: String,
    /// Its number in datagrams, once it exists.
    #[serde(default)]
    pub number: Option<u8>,
    /// By which it leaves: its device, or its own address.
    pub by: String,
    /// Where its datagrams go.
    pub address: Option<String>,
    /// That as the file has it, a name perhaps.
    #[serde(default)]
    pub configured_address: Option<String>,
    /// The device by which alone it sends and receives.
    #[serde(default)]
    pub device: Option<String>,
    /// What its own socket is bound to.
    #[serde(default)]
    pub local: Option<String>,
    /// Firewall mark of what it sends.
    #[serde(default)]
    pub mark: Option<u32>,
    /// "both", "out" or "in".
    #[serde(default)]
    pub direction: String,
    /// "udp" or "ethernet".
    #[serde(default)]
    pub medium: String,
    /// How medium access sets its pace, if it does.
    #[serde(default)]
    pub radio: Option<String>,
    /// Whether sending on it costs money.
    #[serde(default)]
    pub metered: bool,
    /// Whether that is so only at the peer's end, which said so.
    #[serde(default)]
    pub metered_there: bool,
    /// Whether it may carry bulk.
    #[serde(default)]
    pub bulk: bool,
    /// Whether it carries small exchanges while other lanes can.
    #[serde(default)]
    pub small: bool,
    /// Whether it carries anything: answers come, or no other lane has any either.
    pub works: bool,
    /// Whether it is kept in reserve, for its cost or by the choice of lane.
    #[serde(default)]
    pub spare: bool,
    /// Why it is not used, if it is not.
    #[serde(default)]
    pub unused: Option<String>,
    /// Seconds since it leaves by the socket that it has.
    #[serde(default)]
    pub socket_s: f64,
    /// Smoothed round-trip time.
    pub rtt_ms: Option<f64>,
    /// The controller's rate; `None` while nothing was measured.
    pub rate_bps: Option<u64>,
    /// Share of its packets lost lately, 0 to 1.
    pub loss: f64,
    /// Largest IP packet known to pass; nothing of a lane that only brings.
    #[serde(default)]
    pub path_mtu: Option<usize>,
    /// Why that is small, if it is.
    #[serde(default)]
    pub path_mtu_cause: Option<String>,
    /// Bytes of ours that the peer has acknowledged since the start.
    pub delivered_bytes: u64,
    /// Packets of ours that were lost since the start.
    #[serde(default)]
    pub lost_packets: u64,
    /// What was sent on it, and received from where it leads or, of an inbound lane, by its socket.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Milliseconds since anything came to its socket.
    #[serde(default)]
    pub silence_ms: Option<f64>,
}

/// One counter; counters only grow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counter {
    /// Name for programs.
    pub name: String,
    /// How often.
    pub value: u64,
    /// What it means, in words.
    pub why: String,
}

/// How the TCP door works.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Door {
    /// Whether traffic is taken transparently at all.
    pub intercepting: bool,
    /// Whether a connection is answered only after the far server has answered (needs NFQUEUE).
    pub honest: bool,
    /// Connections whose far server has not answered yet.
    pub pending: usize,
    /// Connections carried now, both doors together.
    pub connections: usize,
}

/// The packet door: the TUN device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PacketDoor {
    /// The device's name.
    pub device: String,
    /// Its MTU.
    pub mtu: u16,
    /// Whether super-packets are exchanged with the kernel, of TCP at least.
    pub offload: bool,
    /// Whether of UDP too.
    pub udp_offload: bool,
    /// Packets of at most one MTU taken from the device.
    pub packets_in: u64,
    /// Reads that took.
    pub reads: u64,
    /// Packets of at most one MTU given to the device.
    pub packets_out: u64,
    /// Writes that took.
    pub writes: u64,
}

/// The kernel's routing table, where that decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Routing {
    /// Its number.
    pub table: u32,
    /// Routes in it that meet the peers' networks.
    pub routes: usize,
    /// Of those, how many lead to a peer.
    pub to_peers: usize,
}

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`FORMAT`].
    #[cfg_attr(test, schemars(extend("const" = FORMAT)))]
    pub format: String,
    /// The gateway's name.
    pub name: String,
    /// Its public key, base64.
    pub public_key: String,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Neighbours, in the file's order.
    pub peers: Vec<Peer>,
    /// Flows open now.
    pub flows: usize,
    /// Of those, flows whose path over a relay was lost.
    #[serde(default)]
    pub flows_lost_way: usize,
    /// Flows passed on from one peer to another now.
    #[serde(default)]
    pub flows_relayed: usize,
    /// Bytes in flows' buffers.
    pub buffered_bytes: u64,
    /// The limit of those (`gateway.pool`).
    #[serde(default)]
    pub pool_bytes: u64,
    /// Connections that cross the door now: those that moved most, at most [`FLOWS_SHOWN`] of them.
    #[serde(default)]
    pub flow_list: Vec<FlowReport>,
    /// The TCP door.
    pub door: Door,
    /// The packet door, if there is one.
    #[serde(default)]
    pub packet_door: Option<PacketDoor>,
    /// The line of `[serial]`, if there is one.
    #[serde(default)]
    pub serial: Option<Serial>,
    /// The kernel's routing table, if it says by which peer a target is reached.
    #[serde(default)]
    pub routing: Option<Routing>,
    /// Why the last reload was refused; the configuration before it is in force.
    #[serde(default)]
    pub reload_refused: Option<String>,
    /// Seconds for which the configuration is still on trial: then the one before comes back, unless `wavelane reload --keep` comes.
    #[serde(default)]
    pub trial_left_s: Option<f64>,
    /// Why a configuration is in force that the file does not have any more.
    #[serde(default)]
    pub went_back: Option<String>,
    /// What on this host keeps traffic from the gateway.
    #[serde(default)]
    pub hindrances: Vec<String>,
    /// Who called in the last minute with a key that no peer has.
    #[serde(default)]
    pub unknown_callers: Vec<String>,
    /// Everything counted, the door's first.
    pub counters: Vec<Counter>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gateway {}, up {:.0} s, public key {}", self.name, self.uptime_s, self.public_key)?;
        for p in &self.peers {
            let address = p.address.as_deref().unwrap_or("address unknown");
            let state = if p.up { "up" } else { "down" };
            let plain = match (p.given_back, p.refused) {
                (true, _) => "; what goes to its networks is forwarded plainly",
                (_, true) if self.packet_door.is_some() => "; what goes to its networks is refused",
                (_, true) => "; TCP to its networks is refused",
                _ => "",
            };
            writeln!(f, "peer {} ({address}): {state} for {}{plain}", p.name, age(p.state_s))?;
            if let Some(cause) = &p.cause {
                writeln!(f, "  does not answer: {cause}")?;
            }
            let ms = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.1} ms"));
            let rate = p.rate_bps.filter(|_| !p.rate_is_initial);
            let rate = rate.map_or("-".to_string(), |r| format!("{:.2} Mbit/s", r as f64 / 1e6));
            let preferred = p.preferred_lane.as_ref().filter(|_| p.lanes.len() > 1);
            let preferred = preferred.map_or(String::new(), |lane| format!("by {lane}: "));
            writeln!(f, "  {}", p.traffic)?;
            writeln!(
                f,
                "  {preferred}send rate {rate}, round trip {} (least {}), queue {}, loss {:.2} %, path MTU {}, in flight {} B, heard {} ago",
                ms(p.rtt_ms),
                ms(p.rtt_min_ms),
                ms(p.queue_delay_ms),
                p.loss * 100.0,
                p.path_mtu,
                p.in_flight_bytes,
                ms(p.silence_ms)
            )?;
            if p.distrusted > 0 {
                let times = p.distrusted;
                write!(
                    f,
                    "  it, or a relay behind it, changed, forged or withheld octets of sealed flows: {times} times"
                )?;
                if let Some(last) = &p.distrusted_last {
                    let target = last.target.as_deref().unwrap_or("an unknown target");
                    let way = last.way.as_ref().map_or_else(|| "by it".into(), |way| format!("({way})"));
                    write!(f, "; last {} ago on the way {way} to {target}: {}", age(last.ago_s), last.what)?;
                }
                writeln!(f)?;
            }
            if let Some(help) = p.help() {
                writeln!(f, "  {help}")?;
            }
            p.lanes.iter().try_for_each(|lane| lane.line(f))?;
        }
        writeln!(
            f,
            "flows {}, connections {}, waiting for the far server {}",
            self.flows, self.door.connections, self.door.pending
        )?;
        if self.flows_relayed > 0 || self.flows_lost_way > 0 {
            writeln!(f, "passing on {} flows; {} wait to be taken up again", self.flows_relayed, self.flows_lost_way)?;
        }
        self.flows(f)?;
        if let Some(p) = &self.packet_door {
            let (device, mtu) = (&p.device, p.mtu);
            writeln!(
                f,
                "packets through {device} (MTU {mtu}): {} from this side by {} reads, {} to it by {} writes",
                p.packets_in, p.reads, p.packets_out, p.writes
            )?;
        }
        self.serial.iter().try_for_each(|line| line.line(f))?;
        if let Some(r) = &self.routing {
            writeln!(
                f,
                "routes by the kernel's table {}: {}, of which {} lead to peers",
                r.table, r.routes, r.to_peers
            )?;
        }
        if let Some(why) = &self.reload_refused {
            writeln!(f, "warning: the last reload was refused ({why}); the configuration before it is in force")?;
        }
        if let Some(left) = self.trial_left_s {
            writeln!(
                f,
                "warning: the configuration is on trial: in {left:.0} s the one before comes back, unless `wavelane reload --keep` comes"
            )?;
        }
        if let Some(why) = &self.went_back {
            writeln!(f, "warning: {why}")?;
        }
        for hindrance in &self.hindrances {
            writeln!(f, "warning: {hindrance}")?;
        }
        if self.door.intercepting && !self.door.honest {
            writeln!(f, "warning: no NFQUEUE here, so connections are answered before the far server has answered")?;
        }
        for c in self.counters.iter().filter(|c| c.value > 0) {
            writeln!(f, "{:>12}  {}: {}", c.value, c.name, c.why)?;
        }
        match self.counters.iter().filter(|c| c.value == 0).count() {
            0 => Ok(()),
            zero => writeln!(f, "{zero} counters are 0 (--json shows them all)"),
        }
    }
}

/// A counter with its meaning in words.
pub fn counter(name: &str, value: u64) -> Counter {
    let why = meaning(name).map_or_else(|| name.replace('_', " "), str::to_owned);
    Counter { name: name.into(), value, why }
}

/// What a counter means, if it has words.
pub(crate) fn meaning(name: &str) -> Option<&'static str> {
    include_str!("status/words.txt").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The committed schema is what the document's types write. To renew it: `WAVELANE_SCHEMA=write cargo test -p wavelane-daemon schema`.
#[cfg(test)]
pub(crate) fn is_committed<T: schemars::JsonSchema + Serialize>(file: &str, format: &str, document: &T) {
    let schema = schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n";
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{file}.schema.json"));
    if std::env::var_os("WAVELANE_SCHEMA").is_some_and(|word| word == "write") {
        assert!(std::fs::write(&file, &text).is_ok(), "{} cannot be written", file.display());
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(text == committed, "the types and {} differ", file.display());
    // What a daemon sends has everything that the schema requires, and the schema refuses another format.
    let report = serde_json::to_value(document).unwrap_or_default();
    let schema = serde_json::to_value(&schema).unwrap_or_default();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
    assert!(required.len() > 5 && required.iter().all(|key| report.get(key).is_some()), "{required:?}");
    assert_eq!(schema["properties"]["format"]["const"], format);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_schema_of_the_document_is_the_committed_one() {
        is_committed("wavelane-status-1", FORMAT, &Report { format: FORMAT.into(), ..Report::default() });
    }

    /// The door's own counters are held to it by [`crate::counters::Counters::add`].
    #[test]
    fn every_counter_of_the_gateway_has_a_reason_in_words() {
        use wavelane_gateway::{Config, Gateway, LaneConfig, PeerConfig};
        let peer = PeerConfig {
            name: "b".into(),
            public_key: crate::keys::public_key(&[2; 32]),
            preshared_key: None,
            lanes: vec![LaneConfig::new(wavelane_base::PortId(0), None)],
            choice: wavelane_gateway::Choice::Bond,
            keepalive: None,
            allow_sources: None,
            allow_targets: Vec::new(),
            routes: Vec::new(),
        };
        let config = Config { private_key: [1; 32], peers: vec![peer], ..Config::default() };
        let now = wavelane_base::Instant::ZERO;
        let gateway = Gateway::new(now, config, 1, wavelane_base::Entropy::from_os_bytes([3; 32])).unwrap();
        let counters = gateway.status(now).counters;
        assert!(counters.len() > 30, "{counters:?}");
        for (name, _) in counters {
            assert!(meaning(name).is_some(), "{name} has no words");
        }
    }

    #[test]
    fn status_lists_nonzero_counters_only() {
        let counters = vec![counter("dropped_mac", 3), counter("dropped_expired", 0), counter("datagrams_lost", 0)];
        let text = Report { counters, ..Report::default() }.to_string();
        assert!(text.contains("           3  dropped_mac: handshakes from strangers"), "{text}");
        assert!(text.ends_with("\n2 counters are 0 (--json shows them all)\n"), "{text}");
        assert!(!text.contains("dropped_expired"), "{text}");
    }

    #[test]
    fn a_rate_is_the_sending_one_and_shown_once_it_was_measured() {
        let line = |rate_is_initial| {
            let peer = Peer { rate_bps: Some(4_000_000), rate_is_initial, ..Peer::default() };
            Report { peers: vec![peer], ..Report::default() }.to_string()
        };
        assert!(line(true).contains("  send rate -,"), "{}", line(true));
        assert!(line(false).contains("  send rate 4.00 Mbit/s,"), "{}", line(false));
    }

    #[test]
    fn a_peer_through_which_sealed_flows_were_corrupted_is_named() {
        let text = |distrusted, way| {
            let last =
                Distrust { ago_s: 5.0, what: "octets that do not open".into(), target: Some("10.3.0.9:7".into()), way };
            let peer = Peer { distrusted, distrusted_last: Some(last), ..Peer::default() };
            Report { peers: vec![peer], ..Report::default() }.to_string()
        };
        let way = Way { first: "hill".into(), relays: Some(2), far: Some("town".into()) };
        let told = "sealed flows: 3 times; last 5 s ago on the way (hill, one more relay, town) to 10.3.0.9:7: octets that do not open\n";
        assert!(text(3, Some(way.clone())).contains(told), "{}", text(3, Some(way)));
        assert!(text(1, None).contains("on the way by it to 10.3.0.9:7"));
        assert!(!text(0, None).contains("sealed"));
    }

    #[test]
    fn status_names_traffic_refused_while_a_peer_is_down() {
        let line = |packet_door: Option<PacketDoor>| {
            let peer = Peer { refused: true, ..Peer::default() };
            Report { peers: vec![peer], packet_door, ..Report::default() }.to_string()
        };
        assert!(line(None).contains("down for 0 s; TCP to its networks is refused\n"), "{}", line(None));
        assert!(line(Some(PacketDoor::default())).contains("; what goes to its networks is refused\n"));
    }
}
