//! The transports to compare.

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
