//! What TCP is told: `[tcp]` of scenarios and the sides of proxies.

use crate::gateway::SCENARIO;
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
    Knob { name: "quick-acks", stands: SCENARIO, bounds: Bounds::of(0, 1_000), field: |k| &mut k.quick_acks, default: "", says: "segments acknowledged at once when a connection begins (Linux: 16)" },
    Knob { name: "sack", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.sack, default: "", says: "selective acknowledgement" },
    Knob { name: "timestamps", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.timestamps, default: "", says: "RFC 7323" },
    Knob { name: "window-scale", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.window_scale, default: "", says: "RFC 7323" },
    Knob { name: "limited-transmit", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.limited_transmit, default: "", says: "RFC 3042" },
]);
