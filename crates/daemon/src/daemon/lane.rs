//! Datagrams between the lanes' socket and the gateway.

use super::{Daemon, LANE};
use wavelane_base::{FrameMeta, Machine};
use wavelane_host::udp::Destination;

/// Reads of the lanes' socket per round, and bytes after which a round has read or sent enough: acknowledgements are due
/// then, and what was read is still in the processor's cache.
const READS_PER_ROUND: usize = 8;
const OCTETS_PER_ROUND: usize = 256 << 10;

impl Daemon {
    /// Reads a round's worth of datagrams. Returns whether there may be more.
    pub(super) fn receive(&mut self) -> bool {
        if !self.lane_readable {
            return false;
        }
        let mut octets = 0;
        for _ in 0..READS_PER_ROUND {
            let (clock, gateway) = (&self.clock, &mut self.gateway);
            let mut read_at = None;
            let got = self.lane.receive(|d| {
                // Read once per call and after it: an arrival that seems to lie ahead of `now`, or before it was,
                // would pass for delay on the link.
                let now = *read_at.get_or_insert_with(|| clock.now());
                let rx_time = now - d.waited;
                let meta = FrameMeta { rx_time, ecn: d.ecn, segment: d.segment, from: Some(d.from), at: d.at, flow: 0 };
                octets += d.bytes.len();
                gateway.handle_frame(now, LANE, d.bytes, meta);
            });
            self.now = read_at.unwrap_or(self.now);
            // An error is an ICMP message about an earlier datagram; the next call goes on.
            if matches!(got, Ok(0)) {
                self.lane_readable = false;
                break;
            }
            if octets >= OCTETS_PER_ROUND {
                break;
            }
        }
        true
    }
    /// Sends a round's worth of what may leave. Returns whether there may be more.
    pub(super) fn transmit(&mut self) -> bool {
        let mut octets = 0;
        while self.lane_writable && octets < OCTETS_PER_ROUND {
            let (transmit, at) = match self.stalled.take() {
                Some(stalled) => stalled,
                None => {
                    // A batch takes long to send; the next one's packets leave that much later.
                    self.now = self.clock.now();
                    let segments = self.lane.segments_max();
                    match self.gateway.poll_transmit(self.now, LANE, &mut self.frame, segments) {
                        Some(transmit) => (transmit, 0),
                        None => return false,
                    }
                }
            };
            let Some(to) = transmit.to else {
                self.counters.one("dropped_datagram_unsent");
                continue;
            };
            let rest = &self.frame[at..transmit.len];
            octets += rest.len();
            let to = Destination { to, from: transmit.from };
            let sent = self.lane.send(rest, transmit.segment_size, to, transmit.ecn);
            self.counters.add("dropped_datagram_too_big", sent.too_big);
            self.counters.add("dropped_datagram_unsent", sent.lost);
            if sent.done < rest.len() {
                self.lane_writable = false;
                self.stalled = Some((transmit, at + sent.done));
            }
        }
        self.lane_writable
    }
}
