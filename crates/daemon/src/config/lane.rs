//! One lane of a peer's, as the file describes it.

use super::{LaneMedium, Line};
use std::net::SocketAddr;
use wavelane_base::{Address, Carrier, LinkAcks, Radio, Rate};
use wavelane_serial::dialer;
use wavelane_settings::{Directions, LaneKnobs};

/// A lane's name in messages, by its place among the peer's tables.
pub(crate) fn lane_name(place: usize) -> String {
    format!("lane {}", place + 1)
}

/// The prefix of a lane's error: where the lane is in the file.
pub(crate) fn lane_key(line: usize, peer: &str, place: usize) -> String {
    format!("line {line}: peer '{peer}', {}", lane_name(place))
}

/// One way to a neighbour or from it, or both.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerLane {
    /// `host:port` where its datagrams go; `None` if the peer calls us, or if the lane is inbound only.
    pub address: Option<String>,
    /// The socket that it has, if it does not use that of `gateway.listen`.
    pub socket: Option<LaneSocket>,
    /// Which ways it carries.
    pub ways: Directions,
    /// How it is used; its start rate is the controller `delay`'s, if the file says so.
    pub knobs: LaneKnobs,
    /// The line of its table in the file.
    pub line: usize,
}

impl PeerLane {
    /// The rate that the controller `delay` starts at, told or its line's.
    pub(crate) fn first_rate(&self) -> Option<Rate> {
        self.knobs
            .start_rate
            .or_else(|| self.socket.as_ref()?.line?.start_rate().filter(|_| self.ways != Directions::In))
    }
    /// Its address, if that is a number.
    pub fn number(&self) -> Option<Address> {
        self.address.as_ref().and_then(|text| text.parse().ok())
    }
    /// The serial line that it leads by.
    pub(crate) fn line(&self) -> Option<Line> {
        self.socket.as_ref()?.line
    }
    /// Its address as the file has it; a line's other end has none, and is known by the port.
    pub(crate) fn written_address(&self) -> Option<String> {
        let address = self.address.clone()?;
        let port = self.socket.as_ref().filter(|socket| socket.line.is_some());
        port.map_or(Some(address), |socket| socket.device.clone())
    }
}

/// A lane's own socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneSocket {
    /// What it is bound to; port 0 leaves the choice to the system.
    pub local: SocketAddr,
    /// The device by which alone it sends and receives.
    pub device: Option<String>,
    /// What its datagrams travel in.
    pub medium: LaneMedium,
    /// User priority of what a packet socket sends.
    pub priority: u8,
    /// Firewall mark of what it sends, by which a routing rule may choose another way (`ip rule add fwmark`).
    pub mark: Option<u32>,
    /// How its line is set, if its device is a serial port.
    pub line: Option<Line>,
    /// How its modem gets a connection, if the port has one.
    pub dial: Option<dialer::Config>,
    /// Its radio, if medium access sets the pace of what it sends.
    pub radio: Option<Radio>,
}

impl LaneSocket {
    /// Its name for people: its device, or its own address.
    pub(crate) fn name(&self) -> String {
        match (&self.device, self.mark) {
            (Some(device), _) => device.clone(),
            (None, Some(mark)) => format!("{} with mark {mark}", self.local),
            (None, None) => self.local.to_string(),
        }
    }
    /// How medium access sets its pace, in words, if it does.
    pub(crate) fn radio_words(&self) -> Option<String> {
        let radio = self.radio?;
        let how = if radio.acks == LinkAcks::Never { "raw" } else { "paced" };
        Some(format!("radio {how} at {} Mbit/s", radio.rate.as_bps() as f64 / 1e6))
    }
    /// What it does to a datagram: the MTU of a line is told, not searched for.
    pub(crate) fn carrier(&self) -> Carrier {
        let carrier = Carrier { radio: self.radio, ..self.medium.carrier };
        self.line.map_or(carrier, |line| Carrier {
            overhead: line.overhead(),
            mtu_floor: line.mtu,
            mtu_max: line.mtu,
            ..carrier
        })
    }
    /// The local address that it needs, unless any will do.
    pub(crate) fn own_address(&self) -> Option<SocketAddr> {
        Some(self.local).filter(|local| self.medium.has_ip && !local.ip().is_unspecified())
    }
}
