//! Capture files: connections with tcptrace's figures, retransmissions and their causes, passive RTTs, hosts.
//!
//! The analysis is a machine without a clock: its input is packets with their times. Memory is bounded per connection and in total; see
//! [`CONNECTIONS_MAX`], [`HOSTS_MAX`] and `docs/decisions/0032-trace.md`.

mod capture;
mod connection;
mod copies;
mod counts;
mod decrypt;
mod fields;
mod half;
mod hosts;
mod input;
mod ledger;
mod link;
mod moments;
mod output;
mod packet;
mod points;
mod repair;
mod tsval;
mod unpack;
mod upstream;

pub use capture::{CaptureError, Ending};
pub use connection::{CONNECTIONS_MAX, Completeness, Connection, Vantage};
pub use decrypt::{DecryptError, Keys, KeysError, Opened, decrypt};
pub use fields::{Field, RoundTrips, fields, goodput_bps, passive_rtt};
pub use hosts::{HOSTS_MAX, Host, Hosts};
pub use input::Input;
pub use link::Unread;
pub use output::{TRACE_FORMAT, columns, csv, hosts_table, json, long_table, table, write_json};
pub use packet::{Address, Endpoint};
pub use points::{BIN_S, Direction, POINTS_MAX, Segments, points};
pub use repair::Retransmits;

use connection::Table;
use packet::Frame;
use std::collections::BTreeMap;
use std::io::Read;

/// After a longer silence, a host's next echo measures its idle time instead of the path's RTT.
const IDLE_NS: u64 = 200_000_000;
/// Packets between two calls of `go_on`.
const PACKETS_PER_STEP: u64 = 1 << 14;

/// The contents of a capture.
pub struct Trace {
    /// Packets read.
    pub packets: u64,
    /// Packets that were not analysed, by cause.
    pub unread: BTreeMap<Unread, u64>,
    /// Copies of segments, as a capture of two ports has them. No figure but [`Field`] `hardware_dups` counts them.
    pub copies: u64,
    /// TCP segments truncated by the capture within their fixed header.
    pub short: u64,
    /// Segments of connections beyond [`CONNECTIONS_MAX`].
    pub left_out: u64,
    /// In order of their first packet.
    pub connections: Vec<Connection>,
    /// Octets sent and received by each host.
    pub hosts: Hosts,
    /// How the file ended.
    pub ending: Ending,
}

impl Trace {
    /// Packets that were not analysed.
    pub fn unreadable(&self) -> u64 {
        self.unread.values().sum()
    }
    /// Whether most packets that may hold IP, or the segments in them, were not analysed, so that the figures say little of the capture.
    pub fn is_mostly_unread(&self) -> bool {
        let none = self.unread.get(&Unread::NoPacket).copied().unwrap_or(0);
        (self.unreadable() - none + self.short) * 2 > self.packets
    }
}

/// Analyses a capture. `go_on` is called periodically with the number of packets so far; false ends the reading early.
pub fn analyse(file: impl Read + Send, mut go_on: impl FnMut(u64) -> bool) -> Result<Trace, CaptureError> {
    let mut table = Table::default();
    let mut hosts = Hosts::default();
    let (mut packets, mut short, mut copies, mut last_ns) = (0_u64, 0, 0, 0);
    let mut unread = BTreeMap::<Unread, u64>::new();
    let ending = capture::packets(file, |packet| {
        packets += 1;
        last_ns = last_ns.max(packet.unix_ns);
        let frame = packet.link.map_or_else(Frame::Unread, |link| packet::read(link, packet.bytes, packet.octets));
        match frame {
            Frame::Tcp(segment) => match table.segment(&segment, packet.unix_ns) {
                Some((_, _, seen)) => copies += u64::from(seen.copy),
                None => hosts.add(segment.from.address, segment.to.address, u64::from(segment.ip_octets)),
            },
            Frame::Other { from, to, ip_octets } => hosts.add(from, to, u64::from(ip_octets)),
            Frame::ShortTcp { from, to, ip_octets } => {
                short += 1;
                hosts.add(from, to, u64::from(ip_octets));
            }
            Frame::Unread(why) => *unread.entry(why).or_default() += 1,
        }
        !packets.is_multiple_of(PACKETS_PER_STEP) || go_on(packets)
    })?;
    table.end(last_ns);
    for connection in &table.connections {
        let [a, b] = [connection.a.address, connection.b.address];
        hosts.add(a, b, connection.halves[0].counts.ip_octets);
        hosts.add(b, a, connection.halves[1].counts.ip_octets);
    }
    let (left_out, connections) = (table.left_out, table.connections);
    Ok(Trace { packets, unread, copies, short, left_out, connections, hosts, ending })
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod decrypt_tests;
#[cfg(test)]
mod made_tests;
