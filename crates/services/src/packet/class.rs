//! How packets are treated: rules on the code point, the protocol and the ports.

use crate::arq::{Ordering, Repair, Treatment};
use wavelane_wire::packet::{PROTOCOL_ICMP, PROTOCOL_ICMP6, Packet};
use wavelane_wire::tcp::Flags;

/// Ports of small exchanges with standalone datagrams: DNS, DHCP, NTP, multicast DNS.
const EXCHANGE_PORTS: [u16; 5] = [53, 67, 68, 123, 5353];
/// Code points of traffic that cannot wait (RFC 4594, figure 3): CS4, AF41-43, CS5, VOICE-ADMIT and EF, which are
/// interactive video, signalling and telephony.
const MEDIA_CODE_POINTS: [u8; 7] = [32, 34, 36, 38, 40, 44, 46];

/// How each class is repaired; `classify` defines the classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repairs {
    /// Telephony and interactive video, by code point.
    pub media: Repair,
    /// Echoes, errors, DNS and their like.
    pub exchange: Repair,
    /// Everything else.
    pub other: Repair,
}

impl Default for Repairs {
    fn default() -> Self {
        Self { media: Repair::Fec, exchange: Repair::Arq, other: Repair::Arq }
    }
}

/// The treatment of a packet.
pub(super) fn classify(packet: &Packet<'_>, repairs: &Repairs) -> Treatment {
    if MEDIA_CODE_POINTS.contains(&packet.dscp) {
        return Treatment { repair: repairs.media, ..Treatment::default() };
    }
    let port = |ports: (u16, u16)| EXCHANGE_PORTS.contains(&ports.0) || EXCHANGE_PORTS.contains(&ports.1);
    let segment = packet.segment();
    if matches!(packet.protocol, PROTOCOL_ICMP | PROTOCOL_ICMP6)
        || segment.is_none() && packet.ports().is_some_and(port)
    {
        return Treatment { repair: repairs.exchange, ..Treatment::default() };
    }
    let repair = repairs.other;
    match segment {
        // An acknowledgement is cumulative; holding it for earlier ones would stall its sender.
        Some(segment) if segment.payload == 0 && segment.flags.0 & !(Flags::ECE.0 | Flags::CWR.0) == Flags::ACK.0 => {
            Treatment { repair, order: Ordering::Free, only_newest: true }
        }
        Some(_) => Treatment { repair, order: Ordering::Strict, only_newest: false },
        None => Treatment { repair, order: Ordering::Dense, only_newest: false },
    }
}

/// 2^64 over the golden ratio: many bits, so that a poor key still mixes.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A keyed hash of addresses, protocol and ports: equal for the packets of a flow, unpredictable without the key.
pub(super) fn flow_hash(packet: &Packet<'_>, key: [u64; 2]) -> u64 {
    use std::net::IpAddr;
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let (source, target) = (wide(packet.source), wide(packet.target));
    let ports = packet.ports().unwrap_or_default();
    let rest = u64::from(packet.protocol) << 32 | u64::from(ports.0) << 16 | u64::from(ports.1);
    let words = [source as u64, (source >> 64) as u64, target as u64, (target >> 64) as u64, rest];
    // Folded multiplication: each word is mixed with the key before it meets what came before.
    let factor = (key[1] ^ GOLDEN) | 1;
    words.iter().fold(key[1], |hash, word| {
        let product = u128::from(hash ^ word ^ key[0]) * u128::from(factor);
        (product as u64) ^ (product >> 64) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_wire::ip::checksum;

    fn v4(dscp: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let total = ((20 + payload.len()) as u16).to_be_bytes();
        let mut out = vec![0x45, dscp << 2, total[0], total[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        out.extend([10, 0, 0, 1, 10, 0, 3, 2]);
        let sum = checksum(&[&out]);
        out[10..12].copy_from_slice(&sum.to_be_bytes());
        out.extend_from_slice(payload);
        out
    }

    fn treatment(bytes: &[u8]) -> Treatment {
        classify(&Packet::parse(bytes).expect("well-formed"), &Repairs::default())
    }

    fn tcp(flags: u8, payload: usize) -> Vec<u8> {
        let mut segment = vec![0; 20 + payload];
        segment[12] = 0x50;
        segment[13] = flags;
        v4(0, 6, &segment)
    }

    #[test]
    fn classes_follow_code_point_protocol_and_ports() {
        let exchange = Treatment { repair: Repair::Arq, ..Treatment::default() };
        assert_eq!(treatment(&v4(46, 17, &[0; 100])), Treatment { repair: Repair::Fec, ..Treatment::default() });
        assert_eq!(treatment(&v4(0, 1, &[8, 0, 0, 0])), exchange);
        assert_eq!(treatment(&v4(0, 17, &[0x80, 0, 0, 53, 0, 8, 0, 0])), exchange);
        assert_eq!(treatment(&v4(0, 17, &[0x80, 0, 1, 187, 0, 8, 0, 0])).order, Ordering::Dense);
        // TCP to port 53 is a transport like any other.
        assert_eq!(treatment(&tcp(0x18, 10)).order, Ordering::Strict);
        assert_eq!(treatment(&tcp(0x02, 0)).order, Ordering::Strict);
        assert!(treatment(&tcp(0x10, 0)).only_newest);
        assert!(!treatment(&tcp(0x11, 0)).only_newest);
    }

    #[test]
    fn flows_spread_over_buckets_and_depend_on_the_key() {
        let mut used = std::collections::BTreeSet::new();
        for port in 0..1_000u16 {
            let [high, low] = port.to_be_bytes();
            let bytes = v4(0, 17, &[high, low, 1, 187, 0, 8, 0, 0]);
            let packet = Packet::parse(&bytes).expect("well-formed");
            used.insert(flow_hash(&packet, [7, 9]) % 1_024);
            assert_ne!(flow_hash(&packet, [7, 9]), flow_hash(&packet, [8, 9]));
        }
        // A thousand balls into 1,024 bins hit 638 of them on average, with a deviation of 10.
        assert!(used.len() > 600, "{}", used.len());
    }
}
