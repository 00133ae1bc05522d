//! Probes with a limited hop count, to find the hop whose delay rises under load.

use std::net::IpAddr;
use wavelane_base::{Instant, Span};
use wavelane_host::hops::HopSocket;

/// Number of probed hops: own router, the provider's first routers, beyond.
pub const HOPS_MAX: u8 = 5;
/// Interval between two probes of one hop. Routers answer about one a second and host, with a small burst allowance (Linux:
/// `icmp_ratelimit`).
const EVERY: Span = Span::from_millis(500);
/// Payload of a probe, to identify its answers.
const MARK: [u8; 4] = *b"WLHP";
/// UDP's discard port (RFC 863): nothing listens there, and it does not look like a scan of services.
pub const DISCARD_PORT: u16 = 9;

/// One router's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopSample {
    /// Number of hops to the router.
    pub hop: u8,
    /// Its address.
    pub from: IpAddr,
    /// When the probe was sent.
    pub sent: Instant,
    /// When the answer arrived.
    pub back: Instant,
    /// It is the target itself.
    pub target: bool,
}

/// Sends probes to each hop in turn.
#[derive(Debug)]
pub(crate) struct HopProber {
    socket: HopSocket,
    next: Instant,
    hop: u8,
    /// Hops beyond the one at which the target itself answered are not probed.
    last: u8,
    pub(crate) samples: Vec<HopSample>,
}

impl HopProber {
    pub(crate) fn new(socket: HopSocket, now: Instant) -> Self {
        Self { socket, next: now, hop: 1, last: HOPS_MAX, samples: Vec::new() }
    }
    pub(crate) fn next(&self) -> Instant {
        self.next
    }
    pub(crate) fn send(&mut self, now: Instant) {
        if now < self.next {
            return;
        }
        let mut payload = MARK.to_vec();
        payload.push(self.hop);
        payload.extend_from_slice(&now.as_nanos().to_be_bytes());
        // A hop that cannot be probed counts as a hop without an answer.
        let _ = self.socket.send(self.hop, &payload);
        self.hop = if self.hop >= self.last { 1 } else { self.hop + 1 };
        self.next = now + EVERY.scale(1, u64::from(self.last));
    }
    pub(crate) fn receive(&mut self, now: Instant) {
        while let Some(answer) = self.socket.answer() {
            let Some((hop, sent)) = parse(&answer.payload) else { continue };
            let back = now - answer.waited;
            let target = !answer.exceeded;
            if target {
                self.last = self.last.min(hop.max(1));
            }
            if hop <= HOPS_MAX && sent <= back {
                self.samples.push(HopSample { hop, from: answer.from, sent, back, target });
            }
        }
        self.socket.discard();
    }
}

/// The probe's hop and time, as quoted in the answer. Routers that quote less than eight octets of the payload (RFC 792 requires no more
/// than the UDP header) cannot be timed.
fn parse(payload: &[u8]) -> Option<(u8, Instant)> {
    let (mark, rest) = payload.split_first_chunk::<4>()?;
    let (hop, rest) = rest.split_first()?;
    let (time, _) = rest.split_first_chunk::<8>()?;
    (*mark == MARK).then(|| (*hop, Instant::from_nanos(u64::from_be_bytes(*time))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_probes_count() {
        let mut ours = MARK.to_vec();
        ours.push(2);
        ours.extend_from_slice(&77u64.to_be_bytes());
        assert_eq!(parse(&ours), Some((2, Instant::from_nanos(77))));
        assert_eq!(parse(&ours[..12]), None);
        ours[0] = 0;
        assert_eq!(parse(&ours), None);
    }
}
