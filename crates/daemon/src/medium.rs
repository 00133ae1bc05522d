//! What the lanes' datagrams travel in: one table, from a medium's word to its keys, its port and what can be found out about it.
//!
//! To add a medium: its port in `wavelane_host::media`, behind the trait [`media::Medium`], and a row here.

mod device;

use crate::config::{ConfigError, LaneEnds, LaneSocket, LaneTable, ethernet_ends, serial_ends, udp_ends};
use crate::serial::{self, SerialLane};
pub(crate) use device::DeviceKind;
use serde::{Deserialize, Deserializer, de};
use std::io;
use std::net::SocketAddr;
use wavelane_base::{Address, Carrier};
use wavelane_host::caps;
use wavelane_host::ether::{self, EtherLane};
use wavelane_host::media;
use wavelane_host::tty::TtyError;
use wavelane_host::udp::UdpLane;

/// A lane's port.
pub(crate) type Port = Box<dyn media::Medium>;

/// A row of the table.
pub struct MediumRow {
    /// Its name in the file and for people.
    pub(crate) word: &'static str,
    /// What it does to a datagram.
    pub(crate) carrier: Carrier,
    /// What its `device` is.
    pub(crate) device: DeviceKind,
    /// Whether this machine's IP addresses, ports, routes and filters are about its datagrams.
    pub(crate) has_ip: bool,
    /// The capability needed to open its port again when its device comes back.
    pub(crate) capability: Option<u8>,
    /// Reads the keys of a lane's table that depend on the medium.
    pub(crate) keys: fn(&LaneTable, &str, SocketAddr) -> Result<LaneEnds, ConfigError>,
    /// Opens a lane's port. The mark keeps its datagrams out of our own rules, if it has none itself.
    pub(crate) open: fn(&LaneSocket, Option<u32>) -> io::Result<Port>,
    /// Why this process can have no such port, and what to do, if that is so.
    pub(crate) obstacle: fn() -> Option<&'static str>,
    /// What to do about a port that was refused for a reason of the medium's own.
    pub(crate) remedy: fn(&io::Error) -> Option<&'static str>,
    /// What to ask why nothing comes back from an address.
    pub(crate) diagnose: fn(Address) -> Option<SocketAddr>,
}

const NO_PACKET_SOCKETS: &str = "this process may open no packet sockets, which Ethernet lanes need: add AF_PACKET to RestrictAddressFamilies= of its systemd unit (`systemctl edit wavelaned`), or load the kernel module af_packet";

static MEDIA: &[MediumRow] = &[
    MediumRow {
        word: "udp",
        carrier: Carrier::UDP,
        device: DeviceKind::Interface,
        has_ip: true,
        capability: None,
        keys: udp_ends,
        open: |socket, mark| Ok(Box::new(UdpLane::bind(socket.local, socket.mark.or(mark), socket.device.as_deref())?)),
        obstacle: || None,
        remedy: |_| None,
        diagnose: Address::ip,
    },
    MediumRow {
        word: "ethernet",
        carrier: ether::CARRIER,
        device: DeviceKind::Interface,
        has_ip: false,
        capability: Some(caps::NET_RAW),
        keys: ethernet_ends,
        open: |socket, _| Ok(Box::new(EtherLane::open(socket.device.as_deref().unwrap_or_default(), socket.priority)?)),
        obstacle: || (!ether::is_available()).then_some(NO_PACKET_SOCKETS),
        remedy: |error| ether::is_forbidden(error).then_some(NO_PACKET_SOCKETS),
        diagnose: |_| None,
    },
    MediumRow {
        word: "serial",
        carrier: serial::CARRIER,
        device: DeviceKind::SerialPort,
        has_ip: false,
        capability: None,
        keys: serial_ends,
        open: |socket, _| Ok(Box::new(SerialLane::open(socket)?)),
        obstacle: || None,
        remedy: |error| TtyError::of(error).map(TtyError::remedy),
        diagnose: |_| None,
    },
    #[cfg(test)]
    tests::PIPE,
];

/// A row of the table: UDP over either version of IP, unless the file names another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediumKind(usize);

impl core::ops::Deref for MediumKind {
    type Target = MediumRow;
    fn deref(&self) -> &MediumRow {
        &MEDIA[self.0]
    }
}

impl MediumKind {
    /// That of a lane whose port is this, or that of `gateway.listen`.
    pub(crate) fn of(socket: Option<&LaneSocket>) -> Self {
        socket.map_or(Self::default(), |socket| socket.medium)
    }
}

impl<'de> Deserialize<'de> for MediumKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        MEDIA.iter().position(|kind| kind.word == word).map(Self).ok_or_else(|| {
            let known: Vec<String> = MEDIA.iter().map(|kind| format!("`{}`", kind.word)).collect();
            de::Error::custom(format!("unknown medium `{word}`, expected {}", known.join(" or ")))
        })
    }
}

/// What to do about a port that was refused for a reason of a medium's own.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    MEDIA.iter().find_map(|kind| (kind.remedy)(error))
}

/// What to ask why nothing comes back from `address`, if any medium can.
pub(crate) fn to_examine(address: Address) -> Option<SocketAddr> {
    MEDIA.iter().find_map(|kind| (kind.diagnose)(address))
}

#[cfg(test)]
#[path = "medium_tests.rs"]
mod tests;
