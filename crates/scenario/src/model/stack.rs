//! The transports to compare, and the knobs of the endpoints' TCP.

use wavelane_base::{Octets, Span};

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
    /// The program sing-box: Hysteria 2, told the link's rate.
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
    /// BBR as the kernel (lab) or our machine (sim) has it.
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr); our machine has it, Linux does not.
    Bbr3,
    /// The timers of 2001: initial timeout 6 s, floor 1 s, tick 0.1 s.
    Y2001,
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
