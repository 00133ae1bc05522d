//! What `wavelane status` shows: the document the daemon gives, and its rendering in words.

mod flows;

pub use flows::{FLOWS_SHOWN, Flow};

use flows::age;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The document's format name.
pub const FORMAT: &str = "wavelane-status/1";

/// One neighbour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Configured name.
    pub name: String,
    /// Whether a session stands and it was heard lately.
    pub up: bool,
    /// Seconds since that last changed.
    #[serde(default)]
    pub state_s: f64,
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
    /// The controller's rate.
    pub rate_bps: Option<u64>,
    /// Share of our packets lost lately, 0 to 1.
    pub loss: f64,
    /// Largest IP packet known to pass.
    pub path_mtu: usize,
    /// Why that is less than the 1,200 bytes which nearly every path carries, if it is.
    #[serde(default)]
    pub path_mtu_cause: Option<String>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
}

/// One counter; counters only grow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
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
    /// Of those, flows whose way over a relay was lost.
    #[serde(default)]
    pub flows_lost_way: usize,
    /// Flows passed on from one peer to another now.
    #[serde(default)]
    pub flows_relayed: usize,
    /// Bytes in flows' buffers.
    pub buffered_bytes: u64,
    /// What they may come to (`gateway.pool`).
    #[serde(default)]
    pub pool_bytes: u64,
    /// Connections that cross the door now: those that moved most, at most [`FLOWS_SHOWN`] of them.
    #[serde(default)]
    pub flow_list: Vec<Flow>,
    /// The TCP door.
    pub door: Door,
    /// The packet door, if there is one.
    #[serde(default)]
    pub packet_door: Option<PacketDoor>,
    /// Why the last reload was refused; the configuration before it is in force.
    #[serde(default)]
    pub reload_refused: Option<String>,
    /// Everything counted, the door's first.
    pub counters: Vec<Counter>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gateway {}, up {:.0} s, public key {}", self.name, self.uptime_s, self.public_key)?;
        for p in &self.peers {
            let address = p.address.as_deref().unwrap_or("address unknown");
            let state = if p.up { "up" } else { "down" };
            writeln!(f, "peer {} ({address}): {state} for {}", p.name, age(p.state_s))?;
            if let Some(cause) = &p.cause {
                writeln!(f, "  does not answer: {cause}")?;
            }
            let ms = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.1} ms"));
            let rate = p.rate_bps.map_or("-".to_string(), |r| format!("{:.2} Mbit/s", r as f64 / 1e6));
            writeln!(
                f,
                "  rate {rate}, round trip {} (least {}), queue {}, loss {:.2} %, path MTU {}, in flight {} B, heard {} ago",
                ms(p.rtt_ms),
                ms(p.rtt_min_ms),
                ms(p.queue_delay_ms),
                p.loss * 100.0,
                p.path_mtu,
                p.in_flight_bytes,
                ms(p.silence_ms)
            )?;
            if let Some(cause) = &p.path_mtu_cause {
                writeln!(f, "  {cause}")?;
            }
        }
        writeln!(
            f,
            "flows {}, connections {}, waiting for the far server {}",
            self.flows, self.door.connections, self.door.pending
        )?;
        if self.flows_relayed + self.flows_lost_way > 0 {
            writeln!(f, "passing on {} flows; {} wait to be taken up again", self.flows_relayed, self.flows_lost_way)?;
        }
        self.flows(f)?;
        if let Some(p) = &self.packet_door {
            let (device, mtu) = (&p.device, p.mtu);
            writeln!(
                f,
                "packets through {device} (MTU {mtu}): {} in by {} reads, {} out by {} writes",
                p.packets_in, p.reads, p.packets_out, p.writes
            )?;
        }
        if let Some(why) = &self.reload_refused {
            writeln!(f, "warning: the last reload was refused ({why}); the configuration before it is in force")?;
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
    WORDS.iter().find(|(n, _)| *n == name).map(|(_, why)| *why)
}

/// What every counter means: the door's, then the sessions', the lanes' and the block service's.
const WORDS: &[(&str, &str)] = &[
    ("connections_taken", "connections taken from applications and answered by the far server"),
    ("connections_made", "connections made to servers for a peer's applications"),
    ("connections_refused", "connections the far side could not make; the application was told why"),
    ("connections_reset", "connections abandoned by an application, a server or the far gateway"),
    ("connections_closed", "connections ended in an orderly way, end to end"),
    ("bytes_from_applications", "bytes read from sockets here"),
    ("bytes_to_applications", "bytes written to sockets here"),
    ("dropped_syn_held_too_long", "SYNs dropped after one second of waiting; their repeat joins the same attempt"),
    ("dropped_syn_pair_full", "SYNs dropped because one source has too many attempts at one target waiting"),
    ("dropped_syn_source_full", "attempts given up because their source has too many waiting"),
    (
        "dropped_syn_table_full",
        "SYNs dropped or attempts given up because the table is full and their target has most of it",
    ),
    ("dropped_syn_flow_table_full", "SYNs dropped because the flow table is full (flows_max)"),
    ("dropped_attempt_abandoned", "attempts the far server answered but the application never completed"),
    ("dropped_stranger_at_listener", "connections at the internal listener that no attempt explains"),
    (
        "dropped_target_denied",
        "connections a peer asked for to addresses it may not reach (this gateway's own, loopback, unlisted)",
    ),
    ("dropped_connect_refused", "connections the server refused"),
    ("dropped_connect_unreachable", "connections to servers without a route"),
    ("dropped_connect_timed_out", "connections to servers that did not answer in time"),
    ("dropped_no_socket", "connections for which the system had no socket, port or memory"),
    ("dropped_queue_overrun", "times the kernel's SYN queue overran"),
    ("dropped_log_lines_rate", "messages for the log left out because too many came at once"),
    (
        "dropped_log_lines_unwritten",
        "messages for the log that standard error did not take: nobody reads it, or it is full",
    ),
    ("reloads", "times the configuration was read again and put in force"),
    ("reloads_refused", "times the configuration was read again and could not be put in force"),
    ("dropped_packet_device", "packets that the TUN device refused, or could not give"),
    ("dropped_packet_malformed", "packets whose headers contradict themselves"),
    ("dropped_packet_unsent", "answers of ours to packets that the system refused to send"),
    ("dropped_datagram_unsent", "datagrams the system refused to send; the protocol repeats what matters"),
    (
        "dropped_cookie_needed",
        "handshakes under load from peers that had not proven their address yet; they were told how",
    ),
    ("dropped_expired", "datagrams of a session too old to be used"),
    ("dropped_forged", "datagrams whose seal is wrong: damaged on the way or forged"),
    ("dropped_mac", "handshakes from strangers who do not know our public key; nothing was answered"),
    ("dropped_malformed", "datagrams that are not Wavelane's or are cut short"),
    ("dropped_malformed_frames", "sealed datagrams whose frames make no sense: another version, or a fault"),
    ("dropped_no_session", "datagrams we could not send because no session stood"),
    ("flows_relayed", "flows passed on from one peer to another"),
    ("relayed_octets", "bytes passed on from one peer to another"),
    ("flows_resumed", "times a flow whose way over a relay was lost was taken up again"),
    ("addresses_unproven", "times a peer's new address did not answer a challenge and the one before was taken again"),
    ("flows_given_up", "flows whose way over a relay was lost and that nobody took up again in ten minutes"),
    ("refused_relay_loop", "flows not passed on because they had passed too many relays: the routes form a loop"),
    ("dropped_not_newer", "handshakes older than the last one accepted (repeated or replayed)"),
    ("dropped_overload", "handshakes beyond what we answer per second"),
    ("dropped_replayed", "datagrams that had arrived before"),
    (
        "dropped_source_not_allowed",
        "connections a peer asked for on behalf of sources that allow_sources does not name",
    ),
    ("dropped_target_not_allowed", "connections a peer asked for that allow_targets does not name"),
    ("dropped_stray_lane_acks", "acknowledgements for lanes that we do not have"),
    (
        "dropped_optimistic_lane_acks",
        "acknowledgements of datagrams we never sent: that peer's software is wrong, or it lies to be sent more",
    ),
    ("dropped_unknown_peer", "handshakes with a key that no [[peer]] has"),
    ("dropped_unknown_session", "datagrams of a session we do not have (an earlier start's, perhaps)"),
    ("dropped_version", "handshakes of another protocol version"),
    ("dropped_hop_beyond_credit", "bytes a peer sent beyond what we had granted"),
    ("dropped_hop_pool_full", "bytes for which the pool had no room (pool)"),
    ("dropped_hop_ranges_full", "bytes in more separate pieces than a flow may have"),
    ("dropped_hop_unknown_flow", "bytes of flows that have ended"),
    ("dropped_datagram_too_big", "path-MTU probes larger than the local interface carries"),
    ("dropped_lane", "datagrams of a lane number that does not exist"),
    ("datagrams_sent", "datagrams sealed and sent to peers"),
    ("datagrams_received", "datagrams from peers whose seal was right"),
    ("datagrams_lost", "datagrams sent that never arrived, as the lane acks show; what they carried was sent again"),
    ("datagrams_lost_spurious", "datagrams held for lost whose acknowledgement came after all"),
    ("hop_first_octets", "bytes of connections sent for the first time"),
    ("hop_repair_octets", "bytes sent again because their datagram was lost"),
    ("hop_copy_octets", "bytes of small exchanges sent more than once as a precaution"),
    ("hop_control_copies", "small control frames sent more than once as a precaution"),
    ("first_octets", "bytes of connections and packets sent for the first time"),
    ("repair_octets", "bytes that repair added to them: repeats, copies and repair symbols"),
    ("repaired", "lost datagrams that symbols brought back, and lost packets that a repeat did"),
    ("unrepaired", "packets that were lost for good; of connections nothing is"),
    ("fec_protected", "datagrams that repair symbols covered: the ends of bursts"),
    ("fec_symbols", "repair symbols sent"),
    ("fec_symbol_octets", "bytes of repair symbols sent"),
    ("fec_repaired", "protected datagrams that were lost and made again from symbols by the peer"),
    ("fec_unrepaired", "protected datagrams that were lost and had to be sent again"),
    ("fec_recovered", "datagrams of peers that were lost and made again here from their symbols"),
    ("hop_received_octets", "bytes of connections received that were new"),
    ("hop_duplicate_octets", "bytes received again"),
    ("hop_receipts", "receipts written: which bytes are held here, and how many more may come"),
    ("hop_offers", "blocks offered to peers"),
    ("hop_probes", "questions asked after a silence or without credit"),
    ("hop_contradicted_octets", "bytes sent again because a receipt lacked what a lane ack had shown"),
    ("hop_flows_opened", "connections asked of peers"),
    ("hop_flows_incoming", "connections that peers asked of us"),
    ("hop_flows_closed", "connections over the link that ended in an orderly way"),
    ("hop_flows_reset", "connections over the link that were reset by either side"),
    ("hop_refused_table_full", "connections of peers refused because the flow table is full (flows_max)"),
    ("hop_protocol_errors", "frames that contradict what the peer said before: a fault at one of the two ends"),
    ("hop_progress_frames", "words from the other edge of a relayed flow on how far it got"),
    ("packets_from_inside", "packets taken from the inside for peers"),
    ("packets_to_inside", "packets given to the inside, our own ICMP errors among them"),
    ("packets_fragmented", "IPv4 packets fragmented because they are longer than the inside's MTU"),
    ("icmp_errors_sent", "ICMP errors about packets we could not carry"),
    ("icmp_errors_suppressed", "ICMP errors not sent: forbidden by the standards, or too many at once"),
    ("packets_sent", "packets sent to peers for the first time"),
    ("packets_sent_octets", "bytes of packets sent for the first time"),
    ("packets_repeated", "repeats of packets, or of pieces of them, sent because a datagram was lost or overdue"),
    ("packets_repeated_octets", "bytes of these repeats"),
    ("packets_copies_refused", "further sendings of repeats left out because repair had cost enough"),
    ("packets_repaired", "packets that arrived by a repeat"),
    ("packets_unrepaired", "packets given up: too old to be worth another repeat"),
    ("packets_spurious", "repeats sent although the packet had arrived"),
    ("packets_superseded", "lost TCP acknowledgements not repeated because a newer one was sent"),
    ("packets_unkept", "packets that could not be kept for repeats (the packet pool is too small for this link)"),
    ("packets_marked", "packets marked as having met congestion, in place of dropping them"),
    ("packets_received", "packets received from peers, whole and new"),
    ("packets_duplicate", "packets or pieces that arrived more than once"),
    ("packets_held", "packets held back until an earlier one of their flow came"),
    ("packets_hold_expired", "packets let go out of order because the earlier one did not come in time"),
    ("dropped_packets_queue_full", "packets dropped because too many waited for the link"),
    (
        "dropped_packets_queue_age",
        "packets dropped because their flow sends more than the link carries and they had waited too long",
    ),
    ("dropped_packets_queue_delay", "packets dropped because their flow's queue stood too long (CoDel)"),
    ("dropped_packets_too_old", "packets that had waited more than three seconds for the link"),
    ("dropped_packets_incomplete", "packets of which pieces never came"),
    ("dropped_packets_pool_full", "packets received for which the packet pool had no room"),
    ("dropped_packets_bad_frame", "pieces that contradict each other or a limit: a fault at the peer"),
    ("dropped_packets_unwanted", "packets from a peer although the packet service is off here"),
    ("dropped_packets_no_service", "packets from the inside although the packet service is off"),
    ("dropped_packets_malformed", "packets whose headers make no sense"),
    ("dropped_packets_local_scope", "multicast, loopback and link-local packets, which no gateway forwards"),
    ("dropped_packets_no_route", "packets to where no peer's routes lead; the sender was told"),
    ("dropped_packets_peer_down", "packets for peers that do not answer; the sender was told"),
    ("dropped_packets_no_hops", "packets without hops left; the sender was told"),
    (
        "dropped_packets_too_big",
        "packets longer than the inside's MTU that must not be fragmented; the sender was told",
    ),
    ("dropped_packets_source_not_allowed", "packets of peers from sources that allow_sources and routes do not name"),
    ("dropped_packets_target_not_allowed", "packets of peers to targets that allow_targets does not name"),
    ("dropped_packets_buffer_too_small", "packets longer than the owner's buffer: a fault in this program"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The door's own counters are held to it by [`crate::counters::Counters::add`].
    #[test]
    fn every_counter_of_the_gateway_has_a_reason_in_words() {
        use wavelane_protocol::gateway::{Config, Controller, Gateway, PeerConfig};
        let peer = PeerConfig {
            name: "b".into(),
            public_key: crate::keys::public_key(&[2; 32]),
            preshared_key: None,
            address: None,
            port: wavelane_base::PortId(0),
            keepalive: None,
            allow_sources: Vec::new(),
            allow_targets: Vec::new(),
            routes: Vec::new(),
            controller: Controller::Delay,
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
    fn people_see_what_happened_and_how_much_did_not() {
        let counters = vec![counter("dropped_mac", 3), counter("dropped_expired", 0), counter("datagrams_lost", 0)];
        let text = Report { counters, ..Report::default() }.to_string();
        assert!(text.contains("           3  dropped_mac: handshakes from strangers"), "{text}");
        assert!(text.ends_with("\n2 counters are 0 (--json shows them all)\n"), "{text}");
        assert!(!text.contains("dropped_expired"), "{text}");
    }
}
