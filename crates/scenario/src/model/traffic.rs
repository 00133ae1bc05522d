//! The traffic of applications.

use super::TcpKind;
use wavelane_base::{Octets, Rate, Span};
use wavelane_channel::wifi::Category;

/// One application exchange.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The application.
    pub app: App,
    /// The node that connects.
    pub from: String,
    /// The node that listens.
    pub to: String,
    /// When it connects, since the run's start.
    pub start: Span,
    /// When it is stopped if it has not ended; `None` means the run's duration.
    pub stop: Option<Span>,
    /// Congestion control of its endpoints, regardless of the stack; `None` leaves it to the stack.
    pub control: Option<TcpKind>,
    /// In radio cells with EDCA: the access category of its packets in both directions; `None` is best effort.
    pub category: Option<Category>,
    /// In radio cells: frames of its packets are not acknowledged, in either direction, and each is sent once.
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
        /// Interval between probes.
        every: Span,
        /// Bytes of a probe.
        size: Octets,
        /// The bulk flow during which probes are sent; `None` runs from start to stop.
        during: Option<String>,
    },
    /// `from` sends UDP datagrams at a constant rate to `to`.
    Cbr {
        /// Interval between datagrams.
        every: Span,
        /// Bytes of a datagram.
        size: Octets,
    },
    /// `from`, a radio station, always has a UDP datagram for `to` waiting.
    Saturate {
        /// Bytes of a datagram.
        size: Octets,
    },
    /// `from` keeps a number of UDP datagrams in flight to `to`, which answers each. No congestion control.
    Window {
        /// Bytes of a datagram.
        size: Octets,
        /// Number of datagrams in flight.
        packets: u32,
    },
    /// `from` sends ICMP echo requests to `to`, open loop.
    Ping {
        /// Interval between requests.
        every: Span,
        /// Bytes of a request's data.
        size: Octets,
    },
    /// `from` opens a new connection every `every`, open loop, requests `size` bytes and reads them.
    Fetch {
        /// Interval between connections.
        every: Span,
        /// Bytes of a body.
        size: Octets,
    },
    /// `from` fetches a body over one QUIC stream from `to`.
    Quic {
        /// Body size; `None` runs until the flow's stop (a fixed-time flow).
        size: Option<Octets>,
    },
    /// `from` reads pages of `to`, each object on its own TCP connection.
    Web(Box<Web>),
    /// `from` talks to `to`: UDP datagrams in spurts.
    Voice(Voice),
    /// `from` sends UDP datagrams to `to` in spurts.
    OnOff(Spurts),
    /// `from` types and `to` echoes: `size` bytes at random times over one TCP connection.
    Telnet {
        /// Mean time between keystrokes, exponential.
        every: Span,
        /// Bytes of a keystroke.
        size: Octets,
    },
}

/// How pages are generated and read. Random times are exponential, sizes Pareto of the second kind (Lomax).
#[derive(Clone, PartialEq, Debug)]
pub struct Web {
    /// Size of the document that a page begins with and that lists the objects; `None` if the objects are requested at once.
    pub document: Option<Octets>,
    /// Objects of a page, without the document.
    pub objects: u32,
    /// Mean bytes of an object.
    pub size: Octets,
    /// Shape of the sizes, above 1: the smaller, the heavier the tail.
    pub shape: f64,
    /// Objects requested concurrently.
    pub parallel: u32,
    /// Mean time between requests for two consecutive objects.
    pub gap: Span,
    /// Mean time from the end of a page to the next one.
    pub think: Span,
    /// Pages of the session; `None` reads until the flow's stop.
    pub pages: Option<u32>,
}

/// Datagrams in spurts of exponential length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spurts {
    /// Bits per second of payload within a spurt.
    pub rate: Rate,
    /// Bytes of a datagram's payload.
    pub size: Octets,
    /// Mean length of a spurt.
    pub on: Span,
    /// Mean length of the silence after it.
    pub off: Span,
}

impl Spurts {
    /// Interval between two datagrams of a spurt.
    pub fn every(&self) -> Span {
        self.rate.time_for(self.size)
    }
}

/// One direction of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Voice {
    /// Its spurts and their contents.
    pub spurts: Spurts,
    /// Datagrams that arrive later than this after sending are useless.
    pub deadline: Span,
    /// Codec of the datagrams.
    pub codec: Codec,
}

/// Speech codec, which determines the effect of loss: ITU-T G.113, Appendix I.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// G.726 at 32 kbit/s. G.113 gives no robustness to loss for it; 10 is assumed.
    #[default]
    G726,
    /// G.711 at 64 kbit/s with loss concealment.
    G711,
}

impl Codec {
    /// Its bit rate.
    pub fn rate(self) -> Rate {
        Rate::from_bps(if self == Self::G726 { 32_000 } else { 64_000 })
    }
    /// Equipment impairment factor and robustness to packet loss.
    pub fn impairment(self) -> (f64, f64) {
        match self {
            Self::G726 => (7.0, 10.0),
            Self::G711 => (0.0, 25.1),
        }
    }
}

impl Flow {
    /// The nodes that send and receive the bytes of its body or its requests.
    pub fn ends(&self) -> (&str, &str) {
        match self.app {
            App::Download { .. } | App::Fetch { .. } | App::Quic { .. } | App::Web(_) => (&self.to, &self.from),
            _ => (&self.from, &self.to),
        }
    }
}

impl App {
    /// Its name in files and in the Record.
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
            Self::Web(_) => "web",
            Self::Voice(_) => "voice",
            Self::OnOff(_) => "on-off",
            Self::Telnet { .. } => "telnet",
        }
    }
    /// Whether it moves a body (and so has a goodput).
    pub fn is_bulk(&self) -> bool {
        match self {
            Self::Download { .. } | Self::Upload { .. } | Self::Quic { .. } => true,
            Self::Cbr { .. } | Self::Saturate { .. } | Self::Window { .. } | Self::OnOff(_) => true,
            Self::Echo { .. } | Self::Ping { .. } | Self::Fetch { .. } => false,
            Self::Web(_) | Self::Voice(_) | Self::Telnet { .. } => false,
        }
    }
    /// Whether it transfers as much as it can in a given time.
    pub fn is_fixed_time(&self) -> bool {
        match self {
            Self::Download { size } | Self::Upload { size } | Self::Quic { size } => size.is_none(),
            Self::Cbr { .. } | Self::Saturate { .. } | Self::Window { .. } | Self::OnOff(_) => true,
            Self::Echo { .. } | Self::Ping { .. } | Self::Fetch { .. } => false,
            Self::Web(_) | Self::Voice(_) | Self::Telnet { .. } => false,
        }
    }
    /// Whether it sends its own datagrams instead of using the stack's transport.
    pub fn is_datagrams(&self) -> bool {
        matches!(self, Self::Cbr { .. } | Self::Saturate { .. } | Self::Window { .. } | Self::Ping { .. })
            || matches!(self, Self::Voice(_) | Self::OnOff(_))
    }
    /// Whether its figures are those of an echo.
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Echo { .. } | Self::Telnet { .. })
    }
}
