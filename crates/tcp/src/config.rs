//! Every knob of a connection, and the profiles that set them together.

use crate::quirks::Quirks;
use wavelane_base::{Octets, Span};
use wavelane_settings::{Freeze, TcpKnobs};

/// Which algorithm sets the congestion window. A closed list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CongestionControl {
    /// RFC 5681, with the fast recovery of RFC 2581 where SACK is off: the first new acknowledgement ends it.
    Reno,
    /// RFC 5681 with the recovery of RFC 6582 where SACK is off; what Linux calls "reno".
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr-06).
    Bbr3,
}

/// Lower bound of the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtoFloor {
    /// The whole timeout is at least this (RFC 6298, section 2.4, with 1 s).
    Total(Span),
    /// The margin added to the smoothed RTT is at least this and at least the largest recent deviation (Linux, with 200 ms).
    Variance(Span),
}

/// Keepalive probes of an idle connection (RFC 9293, section 3.8.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Idle time before the first probe.
    pub idle: Span,
    /// Between probes.
    pub interval: Span,
    /// Unanswered probes after which the connection is given up.
    pub probes: u32,
}

/// What ends slow start before a loss. A closed list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlowStartExit {
    /// Nothing does.
    Loss,
    /// An increase of the RTT, confirmed by conservative slow start (RFC 9406).
    #[default]
    HyStartPlusPlus,
    /// A long ACK train, or an increase of the RTT (Ha and Rhee 2011, as Linux's CUBIC has it).
    HyStart,
}

/// The knobs of one connection. [`Config::default`] is what Linux does with CUBIC, but with the slow start exit of RFC 9406.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Congestion control.
    pub congestion: CongestionControl,
    /// Largest segment we announce and send, in bytes of payload and options; 1,460 on Ethernet, 20 less over IPv6.
    pub mss: u16,
    /// BBR version 1 keeps to the rate of a policer where a fifth or more of what is delivered is lost at a steady rate (Linux). A medium that
    /// loses as much looks the same.
    pub policers: bool,
    /// Selective acknowledgement (RFC 2018), with duplicate reports (RFC 2883).
    pub sack: bool,
    /// Loss detection by time and tail loss probes (RFC 8985); takes effect where SACK was agreed.
    pub rack_tlp: bool,
    /// Proportional rate reduction (RFC 9937) where SACK was agreed; without it cwnd is reduced at once.
    pub prr: bool,
    /// Undo of spurious reductions: F-RTO (RFC 5682), timestamps (RFC 3522), duplicate reports (RFC 3708).
    pub undo: bool,
    /// What ends the slow start of Reno and CUBIC early.
    pub slow_start_exit: SlowStartExit,
    /// Reno's and CUBIC's windows are whole segments, rounded down wherever they shrink, and CUBIC's growth is the integer
    /// arithmetic of Linux (`net/ipv4/tcp_cubic.c`). Otherwise windows are bytes and CUBIC is RFC 9438 to the letter.
    pub whole_segments: bool,
    /// Slow start counts acknowledged bytes (RFC 3465) instead of acknowledgements.
    pub byte_counting: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323).
    pub window_scale: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Without SACK, a duplicate acknowledgement outside fast recovery also reduces the bytes in flight by a segment, so
    /// that the first two after a loss each release a new segment (RFC 3042).
    pub limited_transmit: bool,
    /// Once cwnd has been filled, treat the flow as cwnd-limited for one RTT (Linux `tcp_cwnd_validate`). Otherwise each
    /// acknowledgement compares cwnd with what was in flight before it.
    pub limited_for_a_round: bool,
    /// With SACK, the timeout runs from the latest retransmission of the first missing segment (Linux); otherwise from the
    /// latest progress.
    pub timer_from_repeat: bool,
    /// A timeout in fast recovery reduces ssthresh again (RFC 5681, section 4.3). Linux does not, as the recovery already
    /// reduced it.
    pub reduce_again: bool,
    /// Deviations from the standards.
    pub quirks: Quirks,
    /// Segments are sent in trains as by segmentation offload, each ending with PSH; a short train waits for an
    /// acknowledgement that lets it grow (Linux).
    pub offload: bool,
    /// Small segments wait while data is unacknowledged (RFC 896).
    pub nagle: bool,
    /// Reno and CUBIC spread a window over its round trip. BBR always does.
    pub pacing: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Timeout before the first round trip was measured (RFC 6298: 1 s).
    pub rto_initial: Span,
    /// Floor of the timeout.
    pub rto_floor: RtoFloor,
    /// Ceiling of the timeout and of probe intervals, back-off included (RFC 6298: at least 60 s).
    pub rto_max: Span,
    /// Round trips are measured, and timeouts set, in whole units of this, rounded up.
    pub rto_tick: Span,
    /// While nothing is heard from a side ([`crate::Host::set_towards`]), how often one connection there retransmits; with the first answer
    /// all go on at once, with the windows they had. `None` treats an outage as congestion.
    pub probe: Option<Span>,
    /// Ahead of a gap ([`crate::Host::freeze`]) the peer is told a window of 0, and after it this. `None` does nothing.
    pub freeze: Option<Freeze>,
    /// Timeouts in a row after which an unanswered SYN is given up.
    pub syn_retries: u32,
    /// Timeouts in a row after which unanswered data is given up. Zero-window probes that are answered never count.
    pub data_retries: u32,
    /// Full segments that are acknowledged together (RFC 9293, section 3.8.6.3: at most 2).
    pub delayed_ack_count: u32,
    /// How long an acknowledgement waits (RFC 9293: less than 500 ms).
    pub delayed_ack_timer: Span,
    /// Data with PSH is acknowledged when all of it was read, unless the connection replies to received data (Linux).
    pub ack_when_read: bool,
    /// Most acknowledgements of segments beyond a hole suppressed in a row, for at most a twentieth of an RTT and 1 ms,
    /// where SACK was agreed; 0 suppresses none (Linux's `tcp_comp_sack_nr`).
    pub compressed_acks: u32,
    /// Segments that are acknowledged at once: at the start of a connection, after an idle time longer than the RTO, and
    /// after a duplicate.
    pub quick_acks: u32,
    /// Most bytes written and not yet acknowledged.
    pub send_buffer: usize,
    /// Most bytes accepted and not yet sent (TCP_NOTSENT_LOWAT); `None` leaves only [`Config::send_buffer`].
    pub unsent_low_water: Option<usize>,
    /// Most bytes received and not yet read, in order or not.
    pub receive_buffer: usize,
    /// Initial announced window; it grows up to the receive buffer while the application keeps reading. `None` announces the
    /// receive buffer from the start.
    pub receive_window_initial: Option<usize>,
    /// Probes of an idle connection; `None` sends none.
    pub keepalive: Option<Keepalive>,
    /// TIME-WAIT duration (Linux: 60 s; RFC 9293: 2 MSL = 4 minutes).
    pub time_wait: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion: CongestionControl::Cubic,
            mss: 1_460,
            policers: true,
            sack: true,
            rack_tlp: true,
            prr: true,
            undo: true,
            slow_start_exit: SlowStartExit::HyStartPlusPlus,
            whole_segments: true,
            byte_counting: true,
            timestamps: true,
            window_scale: true,
            ecn: false,
            limited_transmit: true,
            limited_for_a_round: true,
            timer_from_repeat: true,
            reduce_again: false,
            quirks: Quirks::default(),
            offload: true,
            nagle: true,
            pacing: false,
            initial_window: 10,
            rto_initial: Span::from_secs(1),
            rto_floor: RtoFloor::Variance(Span::from_millis(200)),
            rto_max: Span::from_secs(120),
            rto_tick: Span::from_nanos(1),
            probe: None,
            freeze: None,
            syn_retries: 6,
            data_retries: 15,
            delayed_ack_count: 2,
            delayed_ack_timer: Span::from_millis(40),
            ack_when_read: true,
            compressed_acks: 44,
            quick_acks: 16,
            send_buffer: 4 << 20,
            unsent_low_water: None,
            receive_buffer: 6 << 20,
            receive_window_initial: Some(65_535),
            keepalive: None,
            time_wait: Span::from_secs(60),
        }
    }
}

impl Config {
    /// What Linux does, with another congestion control.
    pub fn linux(congestion: CongestionControl) -> Self {
        // Only Linux's CUBIC exits slow start early; its Reno continues until a loss.
        let cubic = congestion == CongestionControl::Cubic;
        let slow_start_exit = if cubic { SlowStartExit::HyStart } else { SlowStartExit::Loss };
        Self { congestion, slow_start_exit, ..Self::default() }
    }

    /// This with the knobs turned that are set.
    pub fn turned(self, knobs: &TcpKnobs) -> Self {
        let size = |octets: Option<Octets>| octets.map(|o| usize::try_from(o.get()).unwrap_or(usize::MAX));
        let window = size(knobs.window);
        Self {
            mss: knobs.segment.and_then(|s| u16::try_from(s.get()).ok()).unwrap_or(self.mss),
            receive_buffer: window.unwrap_or(self.receive_buffer),
            receive_window_initial: if window.is_some() { None } else { self.receive_window_initial },
            send_buffer: size(knobs.send_buffer).unwrap_or(self.send_buffer),
            initial_window: knobs.initial_window.unwrap_or(self.initial_window),
            delayed_ack_count: knobs.ack_every.unwrap_or(self.delayed_ack_count),
            // An acknowledgement per segment includes those beyond a hole.
            compressed_acks: if knobs.ack_every == Some(1) { 0 } else { self.compressed_acks },
            // As rare as asked for also where each segment is pushed and read at once.
            ack_when_read: self.ack_when_read && knobs.ack_every.is_none_or(|every| every <= 2),
            delayed_ack_timer: knobs.ack_delay.unwrap_or(self.delayed_ack_timer),
            rto_floor: knobs.rto_min.map_or(self.rto_floor, RtoFloor::Total),
            rto_initial: knobs.rto_initial.unwrap_or(self.rto_initial),
            rto_max: knobs.rto_max.unwrap_or(self.rto_max),
            probe: knobs.probe.or(self.probe),
            quick_acks: knobs.quick_acks.unwrap_or(self.quick_acks),
            sack: knobs.sack.unwrap_or(self.sack),
            timestamps: knobs.timestamps.unwrap_or(self.timestamps),
            window_scale: knobs.window_scale.unwrap_or(self.window_scale),
            limited_transmit: knobs.limited_transmit.unwrap_or(self.limited_transmit),
            ..self
        }
    }

    /// NewReno of ns-3 3.44 with classic recovery, as plain as it can be set: no SACK, timestamps, scaling or limited
    /// transmit, a clock of 1 ms, a timeout of 1 s or more that begins at 3 s (`TcpSocket::ConnTimeout`), an initial
    /// window of 1, every segment acknowledged. It never gives up.
    pub fn ns3_3_44() -> Self {
        Self {
            congestion: CongestionControl::NewReno,
            initial_window: 1,
            limited_transmit: false,
            quirks: Quirks::NS3_3_44,
            rto_initial: Span::from_secs(3),
            rto_max: Span::from_secs(60),
            rto_tick: Span::from_nanos(1),
            syn_retries: 1_000_000,
            data_retries: 1_000_000,
            send_buffer: 131_072,
            ..Self::tcp_2001()
        }
    }

    /// The TCP of a network simulator of 2001: Reno without SACK, timestamps or scaling, a clock of 0.1 s, a timeout of
    /// 1 s or more that begins at 6 s, an initial window of 2 (RFC 2581), every segment acknowledged, 64 kB windows.
    pub fn tcp_2001() -> Self {
        Self {
            congestion: CongestionControl::Reno,
            sack: false,
            rack_tlp: false,
            prr: false,
            undo: false,
            slow_start_exit: SlowStartExit::Loss,
            whole_segments: false,
            limited_for_a_round: false,
            timer_from_repeat: false,
            reduce_again: true,
            offload: false,
            ack_when_read: false,
            compressed_acks: 0,
            byte_counting: false,
            timestamps: false,
            window_scale: false,
            initial_window: 2,
            rto_initial: Span::from_secs(6),
            rto_floor: RtoFloor::Total(Span::from_secs(1)),
            rto_max: Span::from_secs(64),
            rto_tick: Span::from_millis(100),
            delayed_ack_count: 1,
            delayed_ack_timer: Span::from_millis(200),
            quick_acks: 0,
            send_buffer: 65_535,
            receive_buffer: 65_535,
            receive_window_initial: None,
            ..Self::default()
        }
    }
}
