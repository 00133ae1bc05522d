//! The transports to compare, and the knobs of the endpoints' TCP.

use wavelane_base::{Octets, Span};

/// A transport to compare. The closed list of the file format; a backend reports in its review which it can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stack {
    /// The gateways with all their functions.
    Wavelane,
    /// The same, but TCP crosses the gateways as packets and stays end to end.
    WavelaneUnsplit,
    /// Plain TCP end to end; gateways only forward.
    Tcp {
        /// The sender's congestion control.
        kind: TcpKind,
        /// RTS/CTS before data frames, on Wi-Fi channels.
        rts: bool,
    },
    /// TCP split at every gateway by a proxy in one box: two connections and no link of ours.
    TcpSplit {
        /// The congestion control of senders and proxies.
        kind: TcpKind,
    },
    /// `tcp-cubic+split` by its older name.
    TcpHopByHop,
    /// No transport: plain datagrams.
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
    /// CUBIC through WireGuard's own program in user space, wireguard-go.
    WireguardGo,
    /// The program sing-box: Hysteria 2, configured with the link's rate.
    Hysteria2Brutal,
    /// The program sing-box: Hysteria 2 with its BBR.
    Hysteria2Bbr,
    /// The program sing-box: TUIC version 5 with its BBR.
    TuicBbr,
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
    /// BBR as implemented by the kernel (lab) or our machine (sim).
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr); our machine has it, Linux does not.
    Bbr3,
    /// The timers of 2001: initial timeout 6 s, floor 1 s, tick 0.1 s.
    Y2001,
}

/// Knobs of the endpoints' TCP under the `tcp-*` stacks. `None` means the profile's default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpKnobs {
    /// Source of the defaults.
    pub profile: TcpProfile,
    /// Largest segment, in bytes of payload.
    pub segment: Option<Octets>,
    /// Receive buffer, and therefore the largest advertised window.
    pub window: Option<Octets>,
    /// Maximum number of bytes written and not yet acknowledged.
    pub send_buffer: Option<Octets>,
    /// Initial window, in segments.
    pub initial_window: Option<u32>,
    /// Number of full segments acknowledged together.
    pub ack_every: Option<u32>,
    /// Maximum delay of an acknowledgement.
    pub ack_delay: Option<Span>,
    /// Minimum of the whole retransmission timeout (RFC 6298, section 2.4).
    pub rto_min: Option<Span>,
    /// Timeout before the first RTT measurement.
    pub rto_initial: Option<Span>,
    /// Maximum of the retransmission timeout, back-off included.
    pub rto_max: Option<Span>,
    /// Number of segments acknowledged at once at the start of a connection.
    pub quick_acks: Option<u32>,
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
    /// The defaults of the stack's name.
    #[default]
    Stack,
    /// NewReno as in ns-3 3.44 with classic recovery; the stack must be `tcp-reno`.
    Ns3,
}
