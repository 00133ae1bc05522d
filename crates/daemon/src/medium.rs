//! What the lanes' datagrams travel in, and what the daemon does differently from one medium to another once its keys are read.
//!
//! To add a medium: a variant of [`Medium`] and of `MediumSocket` here, whose matches the compiler then asks for; the other places are
//! in `docs/decisions/0030-rooms-by-permission.md`, "Consequence". Addresses are `SocketAddr` everywhere; a medium without IP maps its own into them, as [`ether`] does.

use crate::config::LaneSocket;
use serde::Deserialize;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::Ecn;
use wavelane_gateway as gateway;
use wavelane_host::caps;
use wavelane_host::ether::{self, EtherLane};
use wavelane_host::udp::{Datagram, Destination, Sent, UdpLane};

/// What a lane's datagrams travel in, in the file's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// UDP over either version of IP.
    #[default]
    Udp,
    /// Frames between stations, by a packet socket of a device.
    Ethernet,
}

impl Medium {
    /// That of a lane whose socket is this, or that of `gateway.listen`.
    pub(crate) fn of(socket: Option<&LaneSocket>) -> Self {
        socket.map_or(Self::Udp, |socket| socket.medium)
    }

    /// Its name for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Ethernet => "ethernet",
        }
    }

    /// The gateway's name for it.
    pub(crate) fn to_gateway(self) -> gateway::Medium {
        match self {
            Self::Udp => gateway::Medium::Udp,
            Self::Ethernet => gateway::Medium::Ethernet,
        }
    }

    /// Whether this machine's IP addresses, ports, routes and filters are about its datagrams.
    pub(crate) fn has_ip(self) -> bool {
        match self {
            Self::Udp => true,
            Self::Ethernet => false,
        }
    }

    /// The capability needed to open its socket again when its device comes back.
    pub(crate) fn capability(self) -> Option<u8> {
        match self {
            Self::Udp => None,
            Self::Ethernet => Some(caps::NET_RAW),
        }
    }

    /// Why this process can have no such socket, and what to do, if that is so.
    pub(crate) fn obstacle(self) -> Option<&'static str> {
        match self {
            Self::Udp => None,
            Self::Ethernet if ether::is_available() => None,
            Self::Ethernet => Some(NO_PACKET_SOCKETS),
        }
    }
}

const NO_PACKET_SOCKETS: &str = "this process may open no packet sockets, which Ethernet lanes need: add AF_PACKET to RestrictAddressFamilies= of its systemd unit (`systemctl edit wavelaned`), or load the kernel module af_packet";

/// What to do about a socket that was refused for a reason of the medium's own.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    ether::is_forbidden(error).then_some(NO_PACKET_SOCKETS)
}

/// An address of any medium as people write it.
pub(crate) fn address_text(address: SocketAddr) -> String {
    ether::address_text(address)
}

/// Whether it is one of IP.
pub(crate) fn is_ip(address: SocketAddr) -> bool {
    ether::mac_of(address).is_none()
}

/// A port of the gateway's.
pub(crate) enum MediumSocket {
    Udp(UdpLane),
    Ethernet(EtherLane),
}

impl MediumSocket {
    /// Opens a lane's own socket. `mark` is what keeps its datagrams out of our own rules, if it has none itself.
    pub(crate) fn open(socket: &LaneSocket, mark: Option<u32>) -> io::Result<Self> {
        let device = socket.device.as_deref();
        Ok(match socket.medium {
            Medium::Udp => Self::Udp(UdpLane::bind(socket.local, socket.mark.or(mark), device)?),
            Medium::Ethernet => Self::Ethernet(EtherLane::open(device.unwrap_or_default(), socket.priority)?),
        })
    }

    /// Datagrams that it sends at once.
    pub(crate) fn segments_max(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.segments_max(),
            Self::Ethernet(_) => 1,
        }
    }

    pub(crate) fn receive(&mut self, take: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.receive(take),
            Self::Ethernet(socket) => socket.receive(take),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: Destination, ecn: Ecn) -> Sent {
        match self {
            Self::Udp(socket) => socket.send(bytes, segment, to, ecn),
            Self::Ethernet(socket) => socket.send(bytes, segment, to.to),
        }
    }
}

impl AsFd for MediumSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Ethernet(socket) => socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file's words are those of `status`, and what has IP is what the gateway counts IP headers for.
    #[test]
    fn words_and_kinds_agree() {
        for medium in [Medium::Udp, Medium::Ethernet] {
            #[derive(Deserialize)]
            struct Table {
                medium: Medium,
            }
            let read: Table = toml::from_str(&format!("medium = \"{}\"", medium.word())).expect("its own word");
            assert_eq!(read.medium, medium);
            assert_eq!(medium.has_ip(), medium.to_gateway() == gateway::Medium::Udp);
        }
    }
}
