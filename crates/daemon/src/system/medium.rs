//! What the lanes' datagrams travel in: one table, from a medium's word to its keys, its port and what can be found out about it.
//!
//! To add a medium: its port in `wavelane_host::media`, behind the trait [`media::Medium`], and a row here.

mod device;

use super::serial::{self, SerialLane};
use crate::config::{DeviceKind, LaneMedium, LaneSocket, MediumKeys, UDP, ethernet_ends, serial_ends};
use std::io;
use std::net::SocketAddr;
use wavelane_base::{Address, Rate, Span};
use wavelane_host::caps;
use wavelane_host::ether::{self, EtherLane};
use wavelane_host::media;
use wavelane_host::tty::TtyError;
use wavelane_host::udp::UdpLane;
use wavelane_settings::hint;

/// A lane's port.
pub(crate) type Port = Box<dyn media::Medium>;

/// A row of the table.
pub(crate) struct MediumRow {
    /// What files say of it.
    pub(crate) keys: &'static MediumKeys,
    /// The capability needed to open its port again when its device comes back.
    pub(crate) capability: Option<u8>,
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

/// Octets, as the kernel counts them, that a lane keeps in a radio: what 4 ms of airtime carry (decision 0050), and at least three full
/// frames, whose gaps would else be the medium's.
fn room_of(rate: Rate) -> usize {
    /// A packet of 1,500 octets with the kernel's bookkeeping (`truesize`).
    const FRAME: usize = 2_304;
    const ROOM: Span = Span::from_millis(4);
    let octets = rate.as_bps() as u128 * u128::from(ROOM.as_nanos()) / 8_000_000_000;
    FRAME * usize::try_from(octets / 1_500).unwrap_or(usize::MAX / FRAME).clamp(3, 1 << 10)
}

static MEDIA: &[MediumRow] = &[
    MediumRow {
        keys: &UDP,
        capability: None,
        open: |socket, mark| {
            let mut lane = UdpLane::bind(socket.local, socket.mark.or(mark), socket.device.as_deref())?;
            socket.radio.iter().for_each(|radio| lane.hold_bulk_above(room_of(radio.rate)));
            Ok(Box::new(lane))
        },
        obstacle: || None,
        remedy: |_| None,
        diagnose: Address::ip,
    },
    MediumRow {
        keys: &MediumKeys {
            word: "ethernet",
            carrier: ether::CARRIER,
            device: DeviceKind::Interface,
            has_ip: false,
            read: ethernet_ends,
        },
        capability: Some(caps::NET_RAW),
        open: |socket, _| Ok(Box::new(EtherLane::open(socket.device.as_deref().unwrap_or_default(), socket.priority)?)),
        obstacle: || (!ether::is_available()).then_some(NO_PACKET_SOCKETS),
        remedy: |error| ether::is_forbidden(error).then_some(NO_PACKET_SOCKETS),
        diagnose: |_| None,
    },
    MediumRow {
        keys: &MediumKeys {
            word: "serial",
            carrier: serial::CARRIER,
            device: DeviceKind::SerialPort,
            has_ip: false,
            read: serial_ends,
        },
        capability: None,
        open: |socket, _| Ok(Box::new(SerialLane::open(socket)?)),
        obstacle: || None,
        remedy: |error| TtyError::of(error).map(TtyError::remedy),
        diagnose: |_| None,
    },
    #[cfg(test)]
    tests::PIPE,
];

impl LaneMedium {
    /// The medium of that word, or which words there are.
    pub(crate) fn named(word: &str) -> Result<Self, String> {
        let known = MEDIA.iter().map(|row| row.keys.word);
        let row = MEDIA.iter().find(|row| row.keys.word == word);
        row.map(|row| Self(row.keys)).ok_or_else(|| format!("'{word}' is no medium; {}", hint(word, known)))
    }
    /// That of a lane whose port is this, or that of `gateway.listen`.
    pub(crate) fn of(socket: Option<&LaneSocket>) -> Self {
        socket.map_or(Self::default(), |socket| socket.medium)
    }
    /// Its row.
    pub(crate) fn row(self) -> &'static MediumRow {
        MEDIA.iter().find(|row| row.keys.word == self.word).unwrap_or(&MEDIA[0])
    }
}

/// What to do about a port that was refused for a reason of a medium's own.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    MEDIA.iter().find_map(|row| (row.remedy)(error))
}

/// What to ask why nothing comes back from `address`, if any medium can.
pub(crate) fn to_examine(address: Address) -> Option<SocketAddr> {
    MEDIA.iter().find_map(|row| (row.diagnose)(address))
}

#[cfg(test)]
#[path = "medium_tests.rs"]
mod tests;
