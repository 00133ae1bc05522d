//! The closed lists of words in files.

use crate::look_up;
use crate::model::{Metric, NodeKind, Routing, Stack, TcpKind};
use wavelane_settings::word_of;

const fn tcp(kind: TcpKind, rts: bool) -> Stack {
    Stack::Tcp { kind, rts }
}

/// Every stack with its word.
pub const STACKS: &[(&str, Stack)] = &[
    ("wavelane", Stack::Wavelane),
    ("wavelane+unsplit", Stack::WavelaneUnsplit),
    ("tcp-reno", tcp(TcpKind::Reno, false)),
    ("tcp-cubic", tcp(TcpKind::Cubic, false)),
    ("tcp-bbr", tcp(TcpKind::Bbr, false)),
    ("tcp-bbr3", tcp(TcpKind::Bbr3, false)),
    ("tcp-2001", tcp(TcpKind::Y2001, false)),
    ("tcp-reno+rts", tcp(TcpKind::Reno, true)),
    ("tcp-cubic+rts", tcp(TcpKind::Cubic, true)),
    ("tcp-bbr+rts", tcp(TcpKind::Bbr, true)),
    ("tcp-bbr3+rts", tcp(TcpKind::Bbr3, true)),
    ("tcp-2001+rts", tcp(TcpKind::Y2001, true)),
    ("tcp-reno+split", Stack::TcpSplit { kind: TcpKind::Reno }),
    ("tcp-cubic+split", Stack::TcpSplit { kind: TcpKind::Cubic }),
    ("tcp-bbr+split", Stack::TcpSplit { kind: TcpKind::Bbr }),
    ("tcp-bbr3+split", Stack::TcpSplit { kind: TcpKind::Bbr3 }),
    ("tcp-2001+split", Stack::TcpSplit { kind: TcpKind::Y2001 }),
    ("tcp-hop-by-hop", Stack::TcpHopByHop),
    ("udp", Stack::Udp),
    ("hop-2009", Stack::Hop2009),
    ("kcptun", Stack::Kcptun),
    ("kcptun-fast3", Stack::KcptunFast3),
    ("boringtun-cubic", Stack::BoringtunCubic),
    ("boringtun-bbr", Stack::BoringtunBbr),
    ("wireguard-go", Stack::WireguardGo),
    ("hysteria2-brutal", Stack::Hysteria2Brutal),
    ("hysteria2-bbr", Stack::Hysteria2Bbr),
    ("tuic-bbr", Stack::TuicBbr),
    ("mptcp", Stack::Mptcp),
    ("pepsal", Stack::Pepsal),
    ("ns3-debian", Stack::Ns3Debian),
    ("ns3-wheel", Stack::Ns3Wheel),
];

/// Congestion controls that a flow can select.
pub const CONTROLS: &[(&str, TcpKind)] =
    &[("reno", TcpKind::Reno), ("cubic", TcpKind::Cubic), ("bbr", TcpKind::Bbr), ("bbr3", TcpKind::Bbr3)];

/// Every metric a check can name.
pub const METRICS: &[(&str, Metric)] = &[
    ("goodput_bps", Metric::GoodputBps),
    ("duration_ms", Metric::DurationMs),
    ("rtt_p50_ms", Metric::RttP50Ms),
    ("rtt_p95_ms", Metric::RttP95Ms),
    ("rtt_p99_ms", Metric::RttP99Ms),
    ("age_p95_ms", Metric::AgeP95Ms),
    ("lost", Metric::Lost),
    ("bytes", Metric::Bytes),
    ("completed", Metric::Completed),
    ("intact", Metric::Intact),
    ("wire_bytes_per_delivered_byte", Metric::WireBytesPerDeliveredByte),
    ("repair_share", Metric::RepairShare),
];

/// Every application.
pub const APPS: &[(&str, &str)] = &[
    ("download", "download"),
    ("upload", "upload"),
    ("echo", "echo"),
    ("fetch", "fetch"),
    ("quic", "quic"),
    ("cbr", "cbr"),
    ("saturate", "saturate"),
    ("window", "window"),
    ("ping", "ping"),
    ("web", "web"),
    ("voice", "voice"),
    ("on-off", "on-off"),
    ("telnet", "telnet"),
];

/// Every criterion for choosing paths.
pub const ROUTINGS: &[(&str, Routing)] = &[("shortest", Routing::Shortest), ("etx", Routing::Etx)];

/// Every kind of node.
pub const NODE_KINDS: &[(&str, NodeKind)] =
    &[("endpoint", NodeKind::Endpoint), ("gateway", NodeKind::Gateway), ("router", NodeKind::Router)];

impl Stack {
    /// Its word, such as `tcp-bbr`.
    pub fn word(self) -> &'static str {
        word_of(STACKS, &self)
    }
    /// Whether no backend runs it: its word is reserved for the future.
    pub fn runs_nowhere(self) -> bool {
        matches!(self, Self::Pepsal | Self::Ns3Debian | Self::Ns3Wheel)
    }
    /// The stack of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        look_up(STACKS, word).ok()
    }
    /// Whether it uses active gateways.
    pub fn has_gateways(self) -> bool {
        matches!(self, Self::Wavelane | Self::WavelaneUnsplit | Self::Hop2009)
    }
    /// Whether it uses active gateways in the simulator.
    pub fn has_simulated_gateways(self) -> bool {
        matches!(self, Self::Wavelane | Self::WavelaneUnsplit | Self::Hop2009)
    }
    /// The congestion control of its proxies, if gateways are proxies that split TCP in one box.
    pub fn split(self) -> Option<TcpKind> {
        match self {
            Self::TcpSplit { kind } => Some(kind),
            Self::TcpHopByHop => Some(TcpKind::Cubic),
            _ => None,
        }
    }
    /// Whether it is one of the plain `tcp-*` stacks.
    pub fn is_plain_tcp(self) -> bool {
        matches!(self, Self::Tcp { .. })
    }
}

impl core::fmt::Display for Stack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.word())
    }
}

impl Metric {
    /// Its word, the key in the JSON document.
    pub fn word(self) -> &'static str {
        word_of(METRICS, &self)
    }
    /// Whether it belongs to the whole stack, not to one flow.
    pub fn is_of_stack(self) -> bool {
        matches!(self, Self::WireBytesPerDeliveredByte | Self::RepairShare)
    }
}

impl TcpKind {
    /// The kernel's name of it; no kernel has BBR version 3, and that of 2001 has no name.
    pub fn word(self) -> &'static str {
        word_of(CONTROLS, &self)
    }
}

impl Routing {
    /// Its word.
    pub fn word(self) -> &'static str {
        word_of(ROUTINGS, &self)
    }
}

impl NodeKind {
    /// Its word.
    pub fn word(self) -> &'static str {
        word_of(NODE_KINDS, &self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_unique_and_reads_back() {
        for (word, stack) in STACKS {
            assert_eq!(stack.word(), *word);
            assert_eq!(Stack::from_word(word), Some(*stack));
        }
        for (word, metric) in METRICS {
            assert_eq!(metric.word(), *word);
        }
    }
}
