//! What TCP is told: `[tcp]` of scenarios and the sides of proxies.

use crate::gateway::{DAEMON, SCENARIO};
use crate::knob::{Bounds, Group, Knob};
use crate::values::Setting;
use wavelane_base::{Octets, Span};

/// A named set of TCP's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TcpProfile {
    /// The defaults of the stack's name.
    #[default]
    Stack,
    /// NewReno as in ns-3 3.44 with classic recovery; the stack must be `tcp-reno`.
    Ns3,
}

impl Setting for TcpProfile {
    const WORDS: &'static [(&'static str, Self)] = &[("stack", Self::Stack), ("ns3-3.44", Self::Ns3)];
}

/// A TCP's settings; what is not set keeps the profile's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of TCP")]
pub struct TcpKnobs {
    pub profile: Option<TcpProfile>,
    pub segment: Option<Octets>,
    pub window: Option<Octets>,
    pub send_buffer: Option<Octets>,
    pub initial_window: Option<u32>,
    pub ack_every: Option<u32>,
    pub ack_delay: Option<Span>,
    pub rto_min: Option<Span>,
    pub rto_initial: Option<Span>,
    pub rto_max: Option<Span>,
    pub quick_acks: Option<u32>,
    pub probe: Option<Span>,
    pub sack: Option<bool>,
    pub timestamps: Option<bool>,
    pub window_scale: Option<bool>,
    pub limited_transmit: Option<bool>,
}

/// From what every host must accept (RFC 9293, section 3.7.1) to the largest radio frame.
const SEGMENTS: Bounds = Bounds::of(40, 2_200);
/// To the largest window there is with scaling (RFC 7323, section 2.3).
const BUFFERS: Bounds = Bounds::of(40, 1 << 30);
const COUNTS: Bounds = Bounds::of(1, 1_000);
const QUICK: Bounds = Bounds::of(0, 1_000);
/// From one large segment to what one flow needs over a satellite.
const WAITING: Bounds = Bounds::of(16 << 10, 1 << 30);
/// More often than a timeout would be is no probe of an outage.
const PROBES: Bounds = Bounds::times(Span::from_millis(50), Span::from_secs(60));
const TIMERS: Bounds = Bounds::of(1, Span::from_secs(60).as_nanos());

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const TCP: Group<TcpKnobs> = Group(&[
    Knob { name: "profile", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.profile, default: "`stack`",
        says: "`stack`: what the stack's name stands for; `ns3-3.44`: ns-3's NewReno with classic recovery, for `tcp-reno`" },
    Knob { name: "segment", stands: SCENARIO, bounds: SEGMENTS, field: |k| &mut k.segment, default: "", says: "largest segment" },
    Knob { name: "window", stands: SCENARIO, bounds: BUFFERS, field: |k| &mut k.window, default: "below", says: "receive buffer, and so the window" },
    Knob { name: "send-buffer", stands: SCENARIO, bounds: BUFFERS, field: |k| &mut k.send_buffer, default: "below", says: "send buffer" },
    Knob { name: "initial-window", stands: SCENARIO, bounds: COUNTS, field: |k| &mut k.initial_window, default: "", says: "segments at the start" },
    Knob { name: "ack-every", stands: SCENARIO, bounds: COUNTS, field: |k| &mut k.ack_every, default: "", says: "segments acknowledged together" },
    Knob { name: "ack-delay", stands: SCENARIO, bounds: TIMERS, field: |k| &mut k.ack_delay, default: "", says: "how long that may wait" },
    Knob { name: "rto-min", stands: SCENARIO, bounds: TIMERS, field: |k| &mut k.rto_min, default: "", says: "least RTO" },
    Knob { name: "rto-initial", stands: SCENARIO, bounds: TIMERS, field: |k| &mut k.rto_initial, default: "", says: "RTO before the first measurement" },
    Knob { name: "rto-max", stands: SCENARIO, bounds: TIMERS, field: |k| &mut k.rto_max, default: "", says: "most, back-off included" },
    Knob { name: "quick-acks", stands: SCENARIO, bounds: QUICK, field: |k| &mut k.quick_acks, default: "", says: "segments acknowledged at once when a connection begins (Linux: 16)" },
    Knob { name: "probe", stands: SCENARIO, bounds: PROBES, field: |k| &mut k.probe, default: "none", says: "while nothing is heard, how often to try; windows are kept" },
    Knob { name: "sack", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.sack, default: "", says: "selective acknowledgement" },
    Knob { name: "timestamps", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.timestamps, default: "", says: "RFC 7323" },
    Knob { name: "window-scale", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.window_scale, default: "", says: "RFC 7323" },
    Knob { name: "limited-transmit", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.limited_transmit, default: "", says: "RFC 3042" },
]);

/// How a sender that was told to stop before a gap is told to go on after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freeze {
    /// By one acknowledgement, with a window: it has the congestion window that it had.
    One,
    /// By that and three more, which it takes for a loss: it retransmits at once what the gap may have taken, with half of that.
    Three,
}

impl Setting for Freeze {
    const WORDS: &'static [(&'static str, Self)] = &[("one", Self::One), ("three", Self::Three)];
}

/// The settings of one side of a proxy; what is not set keeps the engine's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of SIDE")]
pub struct SideKnobs {
    pub congestion: Option<String>,
    pub mss: Option<u16>,
    pub tcp: TcpKnobs,
    pub high: Option<Octets>,
    pub low: Option<Octets>,
    pub freeze: Option<Freeze>,
}

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const SIDE: Group<SideKnobs> = Group(&[
    Knob { name: "congestion", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.congestion, default: "`bbr`", says: "one of the kernel's; in `userspace` `bbr`, `bbr3`, `cubic` or `reno`" },
    // From the least that IPv4 asks of hosts (RFC 9293, section 3.7.1) to a jumbo frame's.
    Knob { name: "mss", stands: DAEMON, bounds: Bounds::of(536, 8_960), field: |k| &mut k.mss, default: "each end's", says: "largest segment, both ways" },
    Knob { name: "buffer", stands: DAEMON, bounds: Bounds::of(16 << 10, 1 << 30), field: |k| &mut k.tcp.window, default: "512 KiB in and 256 KiB out",
        says: "of the socket, each way: at least rate times round trip of that side" },
    // The bounds of the kernel's TCP_RTO_MIN_US and TCP_RTO_MAX_MS.
    Knob { name: "rto-min", stands: DAEMON, bounds: Bounds::times(Span::from_millis(1), Span::from_secs(1)), field: |k| &mut k.tcp.rto_min, default: "the engine's",
        says: "least retransmission timeout (the kernel's from Linux 6.18 on)" },
    Knob { name: "rto-max", stands: DAEMON, bounds: Bounds::times(Span::from_secs(1), Span::from_secs(120)), field: |k| &mut k.tcp.rto_max, default: "the engine's",
        says: "largest retransmission timeout (likewise)" },
    Knob { name: "ack-every", stands: DAEMON, bounds: COUNTS, field: |k| &mut k.tcp.ack_every, default: "2", says: "segments acknowledged together" },
    Knob { name: "ack-delay", stands: DAEMON, bounds: TIMERS, field: |k| &mut k.tcp.ack_delay, default: "40 ms", says: "how long that may wait" },
    Knob { name: "quick-acks", stands: DAEMON, bounds: QUICK, field: |k| &mut k.tcp.quick_acks, default: "16", says: "segments acknowledged at once at the start" },
    Knob { name: "initial-window", stands: DAEMON, bounds: COUNTS, field: |k| &mut k.tcp.initial_window, default: "10", says: "segments at the start" },
    Knob { name: "rto-initial", stands: DAEMON, bounds: Bounds::times(Span::from_millis(1), Span::from_secs(60)), field: |k| &mut k.tcp.rto_initial, default: "1 s", says: "timeout before the first measurement" },
    Knob { name: "probe", stands: DAEMON, bounds: PROBES, field: |k| &mut k.tcp.probe, default: "200 ms", says: "while nothing is heard from there, how often to try; windows are kept" },
    Knob { name: "high", stands: DAEMON, bounds: WAITING, field: |k| &mut k.high, default: "128 KiB", says: "most that waits to be sent there, of a connection" },
    Knob { name: "low", stands: DAEMON, bounds: WAITING, field: |k| &mut k.low, default: "3/4 of `high`", says: "at which more is taken again" },
    Knob { name: "freeze", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.freeze, default: "none",
        says: "who sends from there is told a window of 0 ahead of a gap, and after it one acknowledgement, or `three` more for a loss" },
]);
