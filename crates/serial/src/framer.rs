//! Opaque packets over a line, as a lane's datagrams are: framed, and taken whole or not at all.

use crate::counters::{Counters, Fault};
use crate::deframer::{Deframer, FIELDS_MAX, LEAD_AFTER, Rules};
use crate::framing::Framing;
use wavelane_base::{Instant, Rate, Span, Wakeup};
use wavelane_wire::serial::hdlc::{self, Style};
use wavelane_wire::serial::{kiss, slip};

/// The largest packet that is taken unless another is set: an Ethernet's, with room for the headers of tunnels.
pub const FRAME_MAX_DEFAULT: usize = 2048;
/// The largest that may be set: IP's own.
pub const FRAME_MAX_LIMIT: usize = 65_535;
/// How long a line is silent after a frame's last END, with the framing of 1998, when its rate is not known.
pub const IDLE_DEFAULT: Span = Span::from_millis(20);
/// The PPP protocol of a lane's datagrams: "vendor-specific network protocol" (RFC 3772, section 4). The registry has no
/// number for experiments, and nothing is negotiated: both ends are told.
pub const LANE_PROTOCOL: u16 = 0x005b;

/// Below this a device's driver hands octets over in bursts, between which the line is not silent: policy.
const IDLE_MIN: Span = Span::from_millis(5);
/// Bits of an octet on an asynchronous line: start, eight, stop.
const CHARACTER_BITS: u64 = 10;
/// For how long a line of this rate is silent when a frame has ended: two characters, or what drivers add.
pub fn idle_at(rate: Rate) -> Span {
    let bits_per_second = rate.as_bps().max(1);
    Span::from_secs(2 * CHARACTER_BITS).scale(1, bits_per_second).max(IDLE_MIN)
}

/// Frames packets for a line, and finds them in the octets that arrive. Both directions are independent.
///
/// It checks nothing above the framing: a lane's datagrams are sealed. TCP headers are not compressed here, so
/// [`Framing::Cslip`] is as [`Framing::Slip`]; PPP is not negotiated, and its frames are [`LANE_PROTOCOL`]'s.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    deframer: Deframer,
    frame_max: usize,
    kiss_port: u8,
    last_sent: Option<Instant>,
}

impl Framer {
    /// A line that has carried nothing.
    pub fn new(framing: Framing) -> Self {
        let rules = match framing {
            Framing::Slip1998 => Rules::Doubled,
            Framing::Slip | Framing::Cslip | Framing::Kiss => Rules::Slip,
            Framing::Ppp => Rules::Hdlc,
        };
        let mut deframer = Deframer::new(rules, FRAME_MAX_DEFAULT + FIELDS_MAX, IDLE_DEFAULT);
        deframer.accm = Style::TRANSPARENT.accm;
        Self { framing, deframer, frame_max: FRAME_MAX_DEFAULT, kiss_port: 0, last_sent: None }
    }

    /// The framing.
    pub const fn framing(&self) -> Framing {
        self.framing
    }
    /// The largest packet that is taken from the line, and that the other end takes if it is set alike.
    pub const fn frame_max(&self) -> usize {
        self.frame_max
    }
    /// Sets the largest packet, up to [`FRAME_MAX_LIMIT`].
    pub fn set_frame_max(&mut self, octets: usize) {
        self.frame_max = octets.min(FRAME_MAX_LIMIT);
        self.deframer.set_limit(self.frame_max + FIELDS_MAX);
    }
    /// Sets how long the line is silent after a frame's last END; only [`Framing::Slip1998`] waits for it.
    pub fn set_idle(&mut self, idle: Span) {
        self.deframer.idle = idle;
    }
    /// Sets the port of a packet-radio modem, 0 to 15.
    pub fn set_kiss_port(&mut self, port: u8) {
        self.kiss_port = port & 0xf;
    }
    /// What the line carried and spoilt.
    pub const fn counters(&self) -> Counters {
        self.deframer.counters
    }

    /// Appends one packet's octets to `out`.
    pub fn frame(&mut self, now: Instant, packet: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        let leads = self.last_sent.is_none_or(|at| now.since(at) > LEAD_AFTER);
        self.last_sent = Some(now);
        match self.framing {
            // An END in front would be half of a literal one.
            Framing::Slip1998 => slip::put_doubled(packet, out),
            Framing::Slip | Framing::Cslip => {
                out.extend(leads.then_some(slip::END));
                slip::put(packet, out);
            }
            Framing::Ppp => {
                out.extend(leads.then_some(hdlc::FLAG));
                hdlc::put(Style::TRANSPARENT, LANE_PROTOCOL, packet, out);
            }
            Framing::Kiss => kiss::put(self.kiss_port, packet, out),
        }
        self.deframer.counters.count_sent(out.len() - before);
    }

    /// Takes octets from the line; `take` is called with each whole packet, which it may change in place.
    pub fn push(&mut self, now: Instant, octets: &[u8], mut take: impl FnMut(&mut [u8])) {
        let unwrap = Unwrap { framing: self.framing, kiss_port: self.kiss_port, frame_max: self.frame_max };
        let mut take = |counters: &mut Counters, frame: &mut [u8]| unwrap.packet(counters, frame, &mut take);
        self.deframer.push(now, octets, &mut take);
    }

    /// Tells that time has passed: silence ends a frame of [`Framing::Slip1998`].
    pub fn handle_timeout(&mut self, now: Instant, mut take: impl FnMut(&mut [u8])) {
        let unwrap = Unwrap { framing: self.framing, kiss_port: self.kiss_port, frame_max: self.frame_max };
        let mut take = |counters: &mut Counters, frame: &mut [u8]| unwrap.packet(counters, frame, &mut take);
        self.deframer.handle_timeout(now, &mut take);
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        self.deframer.poll_timeout().map(|at| Wakeup { at, cause: "end of a frame" })
    }

    /// Forgets a half frame: the device was closed, or the call ended.
    pub fn reset(&mut self) {
        self.deframer.reset();
        self.last_sent = None;
    }
}

/// From a frame to the packet in it.
struct Unwrap {
    framing: Framing,
    kiss_port: u8,
    frame_max: usize,
}

impl Unwrap {
    fn packet(&self, counters: &mut Counters, frame: &mut [u8], take: &mut impl FnMut(&mut [u8])) {
        let start = match self.framing {
            Framing::Slip1998 | Framing::Slip | Framing::Cslip => Ok(0),
            Framing::Ppp => match hdlc::protocol(frame) {
                Ok((LANE_PROTOCOL, start)) => Ok(start),
                _ => Err(Fault::Protocol),
            },
            Framing::Kiss => match kiss::command(frame[0]) {
                (port, kiss::DATA) if port == self.kiss_port => Ok(1),
                _ => Err(Fault::Command),
            },
        };
        match start {
            Ok(start) if frame.len() == start => counters.count_bad(Fault::Short),
            Ok(start) if frame.len() - start > self.frame_max => counters.count_bad(Fault::Long),
            Ok(start) => {
                counters.count_frame();
                take(&mut frame[start..]);
            }
            Err(fault) => counters.count_bad(fault),
        }
    }
}

#[cfg(test)]
impl Framer {
    /// Octets of a half frame that are held.
    pub(crate) fn held(&self) -> usize {
        self.deframer.held()
    }
}
