//! The closed lists of words in files.

use crate::look_up;
use crate::model::{Family, Metric, NodeKind, Routing, Stack, StackOption, TcpKind};
use std::sync::LazyLock;
use wavelane_settings::word_of;

type Words<T> = &'static [(&'static str, T)];
/// How the word begins, of which family, and what it may go on with: a congestion control, then an option.
type FamilyRow = (&'static str, Family, Words<Option<TcpKind>>, Words<StackOption>);

const FREE: Words<Option<TcpKind>> = &[("", None)];
const PLAIN: Words<StackOption> = &[("", StackOption::None)];

#[rustfmt::skip] // A table is read by its rows.
const FAMILIES: &[FamilyRow] = &[
    ("wavelane", Family::Wavelane, FREE, &[("", StackOption::None), ("+unsplit", StackOption::Unsplit)]),
    ("tcp", Family::Tcp, &[
        ("-reno", Some(TcpKind::Reno)), ("-cubic", Some(TcpKind::Cubic)), ("-bbr", Some(TcpKind::Bbr)),
        ("-bbr3", Some(TcpKind::Bbr3)), ("-2001", Some(TcpKind::Y2001)),
    ], &[("", StackOption::None), ("+rts", StackOption::Rts), ("+split", StackOption::Split), ("+snoop", StackOption::Snoop), ("+mirror", StackOption::Mirror)]),
    ("tcp-hop-by-hop", Family::Tcp, &[("", Some(TcpKind::Cubic))], &[("", StackOption::HopByHop)]),
    ("udp", Family::Udp, FREE, PLAIN),
    ("hop-2009", Family::Hop2009, FREE, PLAIN),
    ("kcptun", Family::Kcptun, FREE, &[("", StackOption::None), ("-fast3", StackOption::Fast3)]),
    ("boringtun", Family::Boringtun, &[("-cubic", Some(TcpKind::Cubic)), ("-bbr", Some(TcpKind::Bbr))], PLAIN),
    ("wireguard-go", Family::WireguardGo, FREE, PLAIN),
    ("hysteria2", Family::Hysteria2, FREE, &[("-brutal", StackOption::Brutal)]),
    ("hysteria2", Family::Hysteria2, &[("-bbr", Some(TcpKind::Bbr))], PLAIN),
    ("tuic", Family::Tuic, &[("-bbr", Some(TcpKind::Bbr))], PLAIN),
    ("mptcp", Family::Mptcp, FREE, PLAIN),
    ("pepsal", Family::Pepsal, FREE, PLAIN),
    ("ns3", Family::Ns3, FREE, &[("-debian", StackOption::Debian), ("-wheel", StackOption::Wheel)]),
];

/// Every stack with its word, such as `tcp-bbr+rts`.
pub static STACKS: LazyLock<Vec<(&'static str, Stack)>> = LazyLock::new(|| {
    let mut all: Vec<(&'static str, Stack)> = Vec::new();
    for &(head, family, controls, options) in FAMILIES {
        for &(more, option) in options {
            for &(name, control) in controls {
                all.push((format!("{head}{name}{more}").leak(), Stack { family, control, option }));
            }
        }
    }
    all
});

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
        word_of(&STACKS, &self)
    }
    /// Whether no backend runs it: its word is reserved for the future.
    pub fn runs_nowhere(self) -> bool {
        matches!(self.family, Family::Pepsal | Family::Ns3)
    }
    /// The stack of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        look_up(&STACKS, word).ok()
    }
    /// Whether it uses active gateways.
    pub fn has_gateways(self) -> bool {
        matches!(self.family, Family::Wavelane | Family::Hop2009)
    }
    /// The congestion control of its proxies, if gateways are proxies that split TCP in one box.
    pub fn split(self) -> Option<TcpKind> {
        self.control.filter(|_| matches!(self.option, StackOption::Split | StackOption::HopByHop))
    }
    /// Whether gateways are proxies in one box, that split TCP or leave it end to end.
    pub fn has_proxies(self) -> bool {
        self.split().is_some() || matches!(self.option, StackOption::Snoop | StackOption::Mirror)
    }
    /// Whether it is one of the plain `tcp-*` stacks.
    pub fn is_plain_tcp(self) -> bool {
        self.family == Family::Tcp && !self.has_proxies()
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
        for (word, stack) in STACKS.iter() {
            assert_eq!(stack.word(), *word);
            assert_eq!(Stack::from_word(word), Some(*stack));
        }
        for (word, metric) in METRICS {
            assert_eq!(metric.word(), *word);
        }
    }
}
