//! The transports to compare.

/// A transport to compare: what carries the bytes, by which congestion control, and how. The words of files are a closed list; a backend
/// reports in its review which it can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stack {
    /// What carries the bytes.
    pub family: Family,
    /// The senders' congestion control, where it is chosen.
    pub control: Option<TcpKind>,
    /// What distinguishes it in its family.
    pub option: StackOption,
}

/// What carries the bytes of a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// The gateways.
    Wavelane,
    /// Gateways with block switching as published in 2009.
    Hop2009,
    /// TCP; gateways only forward, or split it.
    Tcp,
    /// No transport: plain datagrams.
    Udp,
    /// The program kcptun.
    Kcptun,
    /// TCP through the user-space WireGuard boringtun.
    Boringtun,
    /// TCP through WireGuard's own program in user space, wireguard-go.
    WireguardGo,
    /// The program sing-box: Hysteria 2.
    Hysteria2,
    /// The program sing-box: TUIC version 5.
    Tuic,
    /// Multipath TCP.
    Mptcp,
    /// The split-TCP proxy pepsal.
    Pepsal,
    /// ns-3.
    Ns3,
}

/// What distinguishes a stack in its family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StackOption {
    /// Nothing.
    None,
    /// TCP crosses the gateways as packets and stays end to end.
    Unsplit,
    /// RTS/CTS before data frames, on Wi-Fi channels.
    Rts,
    /// TCP split at every gateway by a proxy in one box: two connections and no link of ours.
    Split,
    /// The same by its older name.
    HopByHop,
    /// TCP stays end to end, and every gateway sends again from there what is lost behind it.
    Snoop,
    /// The same without doing anything: what a proxy in one box costs.
    Mirror,
    /// kcptun's most aggressive profile.
    Fast3,
    /// Hysteria configured with the link's rate, in place of a congestion control.
    Brutal,
    /// As packaged by Debian.
    Debian,
    /// As published for Python.
    Wheel,
}

impl Stack {
    /// The gateways with all their functions.
    pub const WAVELANE: Self = Self::of(Family::Wavelane, StackOption::None);
    /// The same, but TCP crosses the gateways as packets and stays end to end.
    pub const UNSPLIT: Self = Self::of(Family::Wavelane, StackOption::Unsplit);
    /// Block switching as published in 2009.
    pub const HOP_2009: Self = Self::of(Family::Hop2009, StackOption::None);
    /// No transport: plain datagrams.
    pub const UDP: Self = Self::of(Family::Udp, StackOption::None);

    const fn of(family: Family, option: StackOption) -> Self {
        Self { family, control: None, option }
    }
    /// Plain TCP end to end; gateways only forward.
    pub const fn tcp(kind: TcpKind) -> Self {
        Self { control: Some(kind), ..Self::of(Family::Tcp, StackOption::None) }
    }
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
