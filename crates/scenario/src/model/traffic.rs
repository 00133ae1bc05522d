//! The exchanges of applications.

use super::TcpKind;
use wavelane_base::{Octets, Span};
use wavelane_channel::wifi::Category;

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

impl Flow {
    /// The nodes that the bytes of its body, or its questions, leave and reach.
    pub fn ends(&self) -> (&str, &str) {
        match self.app {
            App::Download { .. } | App::Fetch { .. } | App::Quic { .. } => (&self.to, &self.from),
            _ => (&self.from, &self.to),
        }
    }
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
