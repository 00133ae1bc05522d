//! The nodes and the media between them.

use wavelane_channel::bluetooth::BluetoothConfig;
use wavelane_channel::cellular::CellularConfig;
use wavelane_channel::wifi::WifiConfig;
use wavelane_channel::{CableConfig, DirectionConfig, SerialConfig};

/// A node of the topology.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name: lower-case letters, digits and `_`, at most 12 characters (the lab derives interface names from it).
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
}

/// The three kinds of node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Runs applications.
    Endpoint,
    /// Runs `wavelaned` under the stacks `wavelane`, only forwards under `tcp-*`.
    Gateway,
    /// Only forwards.
    Router,
}

/// A medium between nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The nodes it joins. A cable has two, and its `forward` direction is from the first to the second; the stations of a radio cell are
    /// numbered in this order.
    pub between: Vec<String>,
    /// How it treats frames.
    pub kind: ChannelKind,
    /// Whether it carries nothing in reverse: only for cables and serial lines.
    pub one_way: bool,
}

/// The channel by which packets leave a node for its neighbour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelRoute {
    /// The node.
    pub from: String,
    /// Its neighbour.
    pub to: String,
    /// The channel, which carries this direction.
    pub channel: String,
}

impl ChannelRoute {
    /// Its key in a file.
    pub fn key(&self) -> String {
        format!("{} -> {}", self.from, self.to)
    }
}

/// Criterion for the best path between gateways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Routing {
    /// The fewest gateways.
    #[default]
    Shortest,
    /// The fewest transmissions: each hop counts one over the product of its delivery ratios in both directions (De Couto et al., MobiCom
    /// 2003).
    Etx,
}

/// How a medium treats frames, per kind.
#[derive(Clone, PartialEq, Debug)]
pub enum ChannelKind {
    /// A full-duplex cable with independent directions.
    Cable(Box<CableConfig>),
    /// An 802.11 cell.
    Wifi(Box<WifiConfig>),
    /// A Bluetooth link; the first node is the master.
    Bluetooth(BluetoothConfig),
    /// A cellular bearer; the first node is the network's.
    Cellular(Box<CellularConfig>),
    /// A serial line that carries IP.
    Serial(Box<SerialChannel>),
}

/// A serial line and how packets are told apart on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SerialChannel {
    /// How both ends frame packets.
    pub framing: SerialFraming,
    /// The largest packet; longer ones are dropped.
    pub mtu: u16,
    /// The line.
    pub line: SerialConfig,
}

impl SerialChannel {
    /// Ethernet's, so that packets from there pass.
    pub const MTU_DEFAULT: u16 = 1500;
}

/// What both ends of a serial line do to packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SerialFraming {
    /// RFC 1055.
    Slip,
    /// END doubled in the data, as the asymmetric network of 1998 had it.
    Slip1998,
    /// SLIP with TCP/IP headers compressed (RFC 1144).
    Cslip,
    /// PPP in HDLC-like framing (RFC 1662), address, control and protocol fields compressed.
    Ppp,
    /// The same with TCP/IP headers compressed (RFC 1332).
    PppVj,
    /// KISS, as to a packet-radio modem.
    Kiss,
}

/// Direction through a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// First node of `between` to second.
    Forward,
    /// Second node to first.
    Reverse,
}

impl Channel {
    /// Whether the node at place `b` of `between` receives what the node at place `a` sends; in a radio cell, whether they can communicate
    /// in both directions.
    pub fn joins(&self, a: usize, b: usize) -> bool {
        match &self.kind {
            ChannelKind::Wifi(cell) => a != b && cell.reach.get(a, b).decode && cell.reach.get(b, a).decode,
            _ => a != b && (!self.one_way || a == 0),
        }
    }
    /// The places of two nodes in `between`, if both are there and differ.
    pub fn places(&self, from: &str, to: &str) -> Option<(usize, usize)> {
        let place = |name: &str| self.between.iter().position(|node| node == name);
        Some((place(from)?, place(to)?)).filter(|(from, to)| from != to)
    }
    /// The configuration of a radio cell.
    pub fn cell(&self) -> Option<&WifiConfig> {
        match &self.kind {
            ChannelKind::Wifi(cell) => Some(cell),
            _ => None,
        }
    }
    /// What a medium other than a cable or a radio cell is, in words.
    pub fn pair_word(&self) -> Option<&'static str> {
        match &self.kind {
            ChannelKind::Bluetooth(_) => Some("bluetooth"),
            ChannelKind::Cellular(_) => Some("cellular"),
            ChannelKind::Serial(_) => Some("serial"),
            _ => None,
        }
    }
    /// The configuration of one direction of a cable.
    pub fn direction(&self, direction: Direction) -> Option<&DirectionConfig> {
        let ChannelKind::Cable(cable) = &self.kind else { return None };
        Some(match direction {
            Direction::Forward => &cable.forward,
            Direction::Reverse => &cable.reverse,
        })
    }
}
