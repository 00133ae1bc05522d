//! A scenario as plain data. Nothing here knows the file's syntax or consults the machine.

use wavelane_base::{Octets, Rate, Seed, Span};
use wavelane_channel::wifi::{Category, WifiConfig};
use wavelane_channel::{CableConfig, DirectionConfig, Parameter};

/// Most nodes a scenario may have: the largest radio cell and what surrounds it.
pub const NODES_MAX: usize = 320;
/// Most flows a scenario may have.
pub const FLOWS_MAX: usize = 256;
/// Longest run.
pub const DURATION_MAX: Span = Span::from_secs(24 * 3600);

/// Topology, channels, stacks, traffic, timeline, checks: everything a backend needs, resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// One line for people.
    pub title: String,
    /// The run's number; the command line may replace it.
    pub seed: Seed,
    /// How long each stack runs at most.
    pub duration: Span,
    /// What to run, in order; each is a full run of the same seed.
    pub stacks: Vec<Stack>,
    /// The places, in file order.
    pub nodes: Vec<Node>,
    /// What joins them, in file order.
    pub channels: Vec<Channel>,
    /// The traffic, in file order.
    pub flows: Vec<Flow>,
    /// Changes of channel parameters, by time.
    pub timeline: Vec<Change>,
    /// What must hold, in file order.
    pub checks: Vec<Check>,
    /// What the endpoints' TCP does differently from its stack's defaults.
    pub tcp: TcpKnobs,
}

/// Knobs of the endpoints' TCP under the `tcp-*` stacks. What is `None` is the profile's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpKnobs {
    /// Where the defaults come from.
    pub profile: TcpProfile,
    /// Largest segment, in bytes of payload.
    pub segment: Option<Octets>,
    /// Receive buffer, and so the largest window announced.
    pub window: Option<Octets>,
    /// Most bytes written and not yet acknowledged.
    pub send_buffer: Option<Octets>,
    /// Initial window, in segments.
    pub initial_window: Option<u32>,
    /// Full segments that are acknowledged together.
    pub ack_every: Option<u32>,
    /// How long an acknowledgement may wait.
    pub ack_delay: Option<Span>,
    /// Least retransmission timeout, as a whole (RFC 6298, section 2.4).
    pub rto_min: Option<Span>,
    /// Timeout before the first round trip was measured.
    pub rto_initial: Option<Span>,
    /// Selective acknowledgement.
    pub sack: Option<bool>,
    /// Timestamps.
    pub timestamps: Option<bool>,
    /// Window scaling.
    pub window_scale: Option<bool>,
    /// New data on the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: Option<bool>,
}

/// A named set of TCP knobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TcpProfile {
    /// What the stack's name stands for.
    #[default]
    Stack,
    /// NewReno as ns-3 3.44 has it with classic recovery; the stack must be `tcp-reno`.
    Ns3,
}

/// A place in the topology.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name: lower-case letters, digits and `_`, at most 12 characters (the lab makes interface names of it).
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
}

/// The three kinds of node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Runs applications.
    Endpoint,
    /// Runs `wavelaned` under the stacks `wavelane`, forwards plainly under `tcp-*`.
    Gateway,
    /// Forwards plainly, always.
    Router,
}

/// A medium between nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The nodes it joins. A cable has two, and its `forward` leads from the first to the second; the stations of a
    /// radio cell are numbered in this order.
    pub between: Vec<String>,
    /// What it does to frames.
    pub kind: ChannelKind,
}

/// What a medium does to frames, per kind.
#[derive(Clone, PartialEq, Debug)]
pub enum ChannelKind {
    /// A full-duplex cable, each direction on its own.
    Cable(Box<CableConfig>),
    /// An 802.11 cell.
    Wifi(Box<WifiConfig>),
}

/// Which way through a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// First node of `between` to second.
    Forward,
    /// Second node to first.
    Reverse,
}

/// A transport to compare. The closed list of the file format; a backend says in its review which it can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stack {
    /// The gateways do their work.
    Wavelane,
    /// The same, but TCP crosses the gateways as packets and stays end to end.
    WavelaneUnsplit,
    /// Plain TCP end to end; gateways forward plainly.
    Tcp {
        /// The sender's congestion control.
        kind: TcpKind,
        /// RTS/CTS before data frames, on Wi-Fi channels.
        rts: bool,
    },
    /// TCP split at every gateway without block service.
    TcpHopByHop,
    /// No transport at all: datagrams as they come.
    Udp,
    /// Block switching as published in 2009.
    Hop2009,
    /// The program kcptun, default profile.
    Kcptun,
    /// The program kcptun, its most aggressive profile.
    KcptunFast3,
    /// CUBIC through the user-space WireGuard boringtun.
    BoringtunCubic,
    /// BBR through the user-space WireGuard boringtun.
    BoringtunBbr,
    /// Multipath TCP.
    Mptcp,
    /// The split-TCP proxy pepsal.
    Pepsal,
    /// ns-3 as packaged by Debian.
    Ns3Debian,
    /// ns-3 as published for Python.
    Ns3Wheel,
}

/// Congestion controls of the `tcp-*` stacks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TcpKind {
    /// RFC 5681 and RFC 6582.
    Reno,
    /// RFC 9438.
    Cubic,
    /// BBR as the kernel (lab) or our machine (sim) has it.
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr); our machine has it, Linux does not.
    Bbr3,
    /// The timers of 2001: initial timeout 6 s, floor 1 s, tick 0.1 s.
    Y2001,
}

/// One application exchange.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// What it does.
    pub app: App,
    /// The node that connects.
    pub from: String,
    /// The node that listens.
    pub to: String,
    /// When it connects, since the run's start.
    pub start: Span,
    /// When it is stopped if it has not ended; `None` means the run's duration.
    pub stop: Option<Span>,
    /// Congestion control of its endpoints, whatever the stack; `None` leaves it to the stack.
    pub control: Option<TcpKind>,
    /// In radio cells with EDCA: the category of its packets, both ways; `None` is best effort.
    pub category: Option<Category>,
    /// In radio cells: nobody acknowledges the frames of its packets, either way, and each is sent once.
    pub no_ack: bool,
}

/// The applications, a closed list.
#[derive(Clone, PartialEq, Debug)]
pub enum App {
    /// `from` fetches a body over HTTP from `to`.
    Download {
        /// Body size; `None` runs until the flow's stop (a fixed-time flow).
        size: Option<Octets>,
    },
    /// `from` sends a body over HTTP to `to`.
    Upload {
        /// Body size; `None` runs until the flow's stop (a fixed-time flow).
        size: Option<Octets>,
    },
    /// `from` sends `size` bytes every `every` over one TCP connection, open loop, and `to` sends them back.
    Echo {
        /// Between probes.
        every: Span,
        /// Bytes of a probe.
        size: Octets,
        /// The bulk flow during which probes are sent; `None` runs from start to stop.
        during: Option<String>,
    },
    /// `from` sends UDP datagrams at a constant rate to `to`.
    Cbr {
        /// Between datagrams.
        every: Span,
        /// Bytes of a datagram.
        size: Octets,
    },
    /// `from`, a radio station, always has a UDP datagram for `to` waiting.
    Saturate {
        /// Bytes of a datagram.
        size: Octets,
    },
    /// `from` keeps a number of UDP datagrams on their way to `to`, which answers each. No congestion control.
    Window {
        /// Bytes of a datagram.
        size: Octets,
        /// Datagrams on their way at once.
        packets: u32,
    },
    /// `from` sends ICMP echo requests to `to`, open loop.
    Ping {
        /// Between requests.
        every: Span,
        /// Bytes of a request's data.
        size: Octets,
    },
    /// `from` connects anew every `every`, open loop, asks for `size` bytes and reads them.
    Fetch {
        /// Between connections.
        every: Span,
        /// Bytes of a body.
        size: Octets,
    },
    /// `from` fetches a body over one QUIC stream from `to`.
    Quic {
        /// Body size; `None` runs until the flow's stop (a fixed-time flow).
        size: Option<Octets>,
    },
}

impl App {
    /// The word for it in files and in the Record.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Download { .. } => "download",
            Self::Upload { .. } => "upload",
            Self::Echo { .. } => "echo",
            Self::Cbr { .. } => "cbr",
            Self::Saturate { .. } => "saturate",
            Self::Window { .. } => "window",
            Self::Ping { .. } => "ping",
            Self::Fetch { .. } => "fetch",
            Self::Quic { .. } => "quic",
        }
    }
    /// Whether it moves a body (and so has a goodput).
    pub fn is_bulk(&self) -> bool {
        match self {
            Self::Download { .. } | Self::Upload { .. } | Self::Quic { .. } => true,
            Self::Cbr { .. } | Self::Saturate { .. } | Self::Window { .. } => true,
            Self::Echo { .. } | Self::Ping { .. } | Self::Fetch { .. } => false,
        }
    }
    /// Whether it moves as much as it can in a given time.
    pub fn is_fixed_time(&self) -> bool {
        match self {
            Self::Download { size } | Self::Upload { size } | Self::Quic { size } => size.is_none(),
            Self::Cbr { .. } | Self::Saturate { .. } | Self::Window { .. } => true,
            Self::Echo { .. } | Self::Ping { .. } | Self::Fetch { .. } => false,
        }
    }
    /// Whether it sends datagrams of its own instead of using the stack's transport.
    pub fn is_datagrams(&self) -> bool {
        matches!(self, Self::Cbr { .. } | Self::Saturate { .. } | Self::Window { .. } | Self::Ping { .. })
    }
}

/// A change of one channel parameter while the run goes on.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When, since the run's start.
    pub at: Span,
    /// The channel's name.
    pub channel: String,
    /// Which way.
    pub direction: Direction,
    /// The parameter and its new value.
    pub parameter: Parameter,
}

/// Something that must hold of the figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The stack it is about.
    pub stack: Stack,
    /// The flow whose figure is judged.
    pub flow: String,
    /// Which figure.
    pub metric: Metric,
    /// Least or most.
    pub side: Side,
    /// Compared with what.
    pub bound: Bound,
}

/// Whether a bound is a floor or a ceiling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The figure must not be smaller.
    AtLeast,
    /// The figure must not be larger.
    AtMost,
}

/// What a figure is compared with.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    /// A number in the metric's own unit.
    Value(f64),
    /// Other stacks' figure of the same flow.
    Than {
        /// The stacks, each of which is compared.
        stacks: Vec<Stack>,
        /// Factor on their figure.
        times: f64,
        /// Only those stacks count whose goodput reaches this share of the judged stack's goodput.
        if_goodput_at_least: Option<f64>,
    },
}

/// A figure a check can name; the words are the keys of the JSON document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Receiver's bits per second.
    GoodputBps,
    /// connect() to last byte.
    DurationMs,
    /// Median echo delay.
    RttP50Ms,
    /// 95th percentile of echo delay.
    RttP95Ms,
    /// 99th percentile of echo delay.
    RttP99Ms,
    /// 95th percentile of the age of a download's bytes.
    AgeP95Ms,
    /// Echo probes without answer.
    Lost,
    /// Application bytes received.
    Bytes,
    /// 1 if the flow completed, else 0.
    Completed,
    /// 1 if the hash matched, else 0.
    Intact,
    /// IP bytes offered to the bad channel over bytes delivered; of the stack, not of one flow.
    WireBytesPerDeliveredByte,
    /// Repair bytes over first transmissions; of the stack, not of one flow.
    RepairShare,
}

impl Scenario {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }
    /// The flow of that name.
    pub fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.iter().find(|f| f.name == name)
    }
    /// The channel of that name.
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|c| c.name == name)
    }
    /// The channels whose two ends are both gateways: the bad ones, whose offered bytes the figures count.
    pub fn channels_between_gateways(&self) -> impl Iterator<Item = &Channel> {
        let gateway = |name: &String| self.node(name).is_some_and(|n| n.kind == NodeKind::Gateway);
        self.channels.iter().filter(move |c| c.between.iter().all(gateway))
    }
    /// When `flow` is stopped at the latest.
    pub fn stop_of(&self, flow: &Flow) -> Span {
        flow.stop.unwrap_or(self.duration).min(self.duration)
    }
    /// The bulk flow during which the probes of echo `flow` count: the one it names, else the first bulk flow.
    pub fn bulk_of(&self, flow: &Flow) -> Option<&Flow> {
        match &flow.app {
            App::Echo { during: Some(name), .. } => self.flow(name),
            App::Fetch { .. } => None,
            _ => self.flows.iter().find(|f| f.app.is_bulk()),
        }
    }
    /// The slowest rate that the bytes of a bulk flow meet, as the file starts; `None` without a finite one.
    pub fn bottleneck(&self, flow: &Flow) -> Option<Rate> {
        let (source, sink) = match flow.app {
            App::Download { .. } | App::Fetch { .. } | App::Quic { .. } => (flow.to.as_str(), flow.from.as_str()),
            _ => (flow.from.as_str(), flow.to.as_str()),
        };
        let rate = |(channel, way): &(&Channel, Direction)| match &channel.kind {
            ChannelKind::Cable(_) => channel.direction(*way)?.rate,
            ChannelKind::Wifi(cell) => Some(cell.rate),
        };
        self.path(source, sink)?.iter().filter_map(rate).min()
    }
    /// The channels of a shortest way from `source` to `sink` with their directions. Endpoints pass nothing on. A
    /// radio hop is `forward` from the lower-numbered station to the higher.
    pub fn path(&self, source: &str, sink: &str) -> Option<Vec<(&Channel, Direction)>> {
        let place = |name: &str| self.nodes.iter().position(|node| node.name == name);
        let (source, sink) = (place(source)?, place(sink)?);
        let places: Vec<Vec<Option<usize>>> =
            self.channels.iter().map(|c| c.between.iter().map(|name| place(name)).collect()).collect();
        // By node: the node before it on the way, and by what it was reached.
        let mut before: Vec<Option<(usize, usize, Direction)>> = vec![None; self.nodes.len()];
        let mut reached = vec![source];
        let mut next = 0;
        while let Some(&here) = reached.get(next) {
            next += 1;
            if here == sink {
                break;
            }
            if here != source && self.nodes[here].kind == NodeKind::Endpoint {
                continue;
            }
            for (number, channel) in self.channels.iter().enumerate() {
                let Some(at) = places[number].iter().position(|node| *node == Some(here)) else { continue };
                for (to, other) in places[number].iter().enumerate() {
                    let Some(other) = other.filter(|_| to != at && channel.joins(at, to)) else { continue };
                    if other != source && before[other].is_none() {
                        let way = if at < to { Direction::Forward } else { Direction::Reverse };
                        before[other] = Some((here, number, way));
                        reached.push(other);
                    }
                }
            }
        }
        let (mut way, mut here) = (Vec::new(), sink);
        while here != source {
            let (earlier, number, direction) = before[here]?;
            way.push((&self.channels[number], direction));
            here = earlier;
        }
        way.reverse();
        Some(way)
    }
}

impl Channel {
    /// Whether the nodes at these two places of `between` can talk to each other.
    pub fn joins(&self, a: usize, b: usize) -> bool {
        match &self.kind {
            ChannelKind::Cable(_) => a != b,
            ChannelKind::Wifi(cell) => a != b && cell.reach.get(a, b).decode && cell.reach.get(b, a).decode,
        }
    }
    /// The configuration of a radio cell.
    pub fn cell(&self) -> Option<&WifiConfig> {
        match &self.kind {
            ChannelKind::Wifi(cell) => Some(cell),
            ChannelKind::Cable(_) => None,
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
