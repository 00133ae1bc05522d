//! What crosses, and whether the gateway is of use to it, in words.

use super::{Peer, Traffic};
use std::fmt;

/// Packets each way together, below which nothing is said of a peer's use.
const PACKETS_MIN: u64 = 1_000;
/// Lost share from which TCP over a link suffers: Reno holds 14 packets in flight then, less than most paths have room for.
const LOSS_MIN: f64 = 0.005;
/// Octets of a full TCP segment on Ethernet.
const SEGMENT: f64 = 1_448.0;

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |octets: u64| octets as f64 / 1e6;
        write!(f, "received {:.2} MB, sent {:.2} MB", mb(self.received_bytes), mb(self.sent_bytes))
    }
}

/// What one TCP with Reno's rule gets where packets are lost singly, in bit/s: Mathis et al. 1997, equation 3, every packet acknowledged.
fn reno(loss: f64, rtt_ms: f64) -> f64 {
    SEGMENT * 8.0 / (rtt_ms / 1e3) * (1.5 / loss).sqrt()
}

impl Peer {
    /// Whether the gateway is of use on the way to this peer; nothing while it is down.
    pub fn help(&self) -> Option<String> {
        if !self.up {
            return None;
        }
        let t = &self.traffic;
        if t.sent_packets.saturating_add(t.received_packets) < PACKETS_MIN {
            return Some("helps: not known yet, too little has crossed".into());
        }
        let lost = self.lanes.iter().fold(0_u64, |sum, lane| sum.saturating_add(lane.lost_packets));
        let out = (lost as f64 / t.sent_packets.max(1) as f64).max(self.loss);
        let worst = out.max(self.loss_in);
        let shares = format!(
            "{:.2} % of packets are lost on the way out and {:.2} % on the way in",
            out * 100.0,
            self.loss_in * 100.0
        );
        if worst < LOSS_MIN {
            return Some(format!(
                "helps: little, {shares}, which any TCP stands; what is left is a short queue, and lanes that add up"
            ));
        }
        let plain = self.rtt_ms.filter(|rtt| *rtt > 0.0).map(|rtt| reno(worst, rtt) / 1e6);
        let plain = plain.map_or(String::new(), |mbit| {
            format!(": one plain TCP (Reno) would get some {mbit:.2} Mbit/s, and applications here see no loss")
        });
        Some(format!("helps: yes, {shares}{plain}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::LaneReport;
    use super::*;

    #[test]
    fn a_peer_has_a_line_that_says_whether_the_gateway_is_of_use() {
        let peer = |up, packets, lost_packets, loss_in| {
            let traffic = Traffic { sent_packets: packets, ..Traffic::default() };
            let lanes = vec![LaneReport { lost_packets, ..LaneReport::default() }];
            Peer { up, traffic, lanes, loss_in, rtt_ms: Some(100.0), ..Peer::default() }.help()
        };
        let says =
            |help: Option<String>, part: &str| assert!(help.as_deref().is_some_and(|h| h.contains(part)), "{help:?}");
        assert_eq!(peer(false, 10_000, 500, 0.0), None);
        says(peer(true, 10, 1, 0.0), "not known yet");
        says(peer(true, 10_000, 10, 0.0), "little, 0.10 % of packets are lost on the way out and 0.00 % on the way in");
        // 1,448 octets in 100 ms and 0.015 lost: ten such packets a round.
        says(
            peer(true, 10_000, 150, 0.0),
            "yes, 1.50 % of packets are lost on the way out and 0.00 % on the way in: one plain TCP (Reno) would get some 1.16 Mbit/s",
        );
        says(peer(true, 10_000, 0, 0.06), "yes, 0.00 % of packets are lost on the way out and 6.00 % on the way in");
    }
}
