//! What a packet's first octets say: its length, its class, and to which conversation of which hosts it belongs.

/// 2^64 over the golden ratio: many bits, so that a poor key still mixes.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// IPv4's bits for "more fragments" and the offset (RFC 791, section 3.1).
const FRAGMENT: u16 = 0x3fff;

/// What is known of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    /// Its length.
    pub(crate) octets: usize,
    /// A hash of addresses, protocol and ports.
    pub(crate) flow: u64,
    /// Hashes of its source and its destination.
    pub(crate) hosts: (u64, u64),
    /// Its code point.
    pub(crate) dscp: u8,
}

/// Reads a packet's head; hashes are keyed so that no outsider can make two flows collide.
/// Fragments, and IPv6 packets with extension headers, have no ports. `None` for what is no IP packet.
pub(crate) fn look(head: &[u8], key: u64) -> Option<Look> {
    let word = |at: usize| Some(u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let (octets, addresses, protocol, payload, whole, class) = match head.first()? >> 4 {
        4 => {
            let header = usize::from(head[0] & 15) * 4;
            (usize::from(word(2)?), head.get(12..20)?, *head.get(9)?, header, word(6)? & FRAGMENT == 0, *head.get(1)?)
        }
        6 => (usize::from(word(4)?) + 40, head.get(8..40)?, *head.get(6)?, 40, true, (word(0)? >> 4) as u8),
        _ => return None,
    };
    let has_ports = whole && matches!(protocol, TCP | UDP | SCTP);
    let ports = head.get(payload..payload + 4).filter(|_| has_ports).unwrap_or(&[]);
    let mix = |hash: u64, octet: &u8| {
        // Folded multiplication, so that every octet reaches every bit.
        let product = u128::from(hash ^ u64::from(*octet)) * u128::from(key ^ GOLDEN | 1);
        product as u64 ^ (product >> 64) as u64
    };
    let hash = |parts: &[&[u8]]| parts.iter().copied().flatten().fold(key, mix);
    let (source, target) = addresses.split_at(addresses.len() / 2);
    let flow = hash(&[addresses, &[protocol], ports]);
    Some(Look { octets, flow, hosts: (hash(&[source]), hash(&[target])), dscp: class >> 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, fragment: u16, ports: [u8; 4]) -> Vec<u8> {
        let mut head = vec![0x45, 0, 5, 220, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        head[6..8].copy_from_slice(&fragment.to_be_bytes());
        head.extend(ports);
        head
    }

    #[test]
    fn flows_are_told_apart_by_their_ports() {
        let one = look(&v4(TCP, 0, [1, 2, 3, 4]), 7);
        assert_eq!(one.map(|look| look.octets), Some(1_500));
        assert_eq!(one, look(&v4(TCP, 0x4000, [1, 2, 3, 4]), 7), "don't fragment is no fragment");
        assert_ne!(one, look(&v4(TCP, 0, [1, 2, 3, 5]), 7));
        assert_ne!(one, look(&v4(UDP, 0, [1, 2, 3, 4]), 7));
        assert_ne!(one, look(&v4(TCP, 0, [1, 2, 3, 4]), 8), "another key");
        let mut marked = v4(TCP, 0, [1, 2, 3, 4]);
        marked[1] = 46 << 2 | 1;
        marked[15] = 9;
        let (one, other) = (one.expect("whole"), look(&marked, 7).expect("whole"));
        assert_eq!((one.dscp, other.dscp), (0, 46));
        assert!(one.hosts.0 != other.hosts.0 && one.hosts.1 == other.hosts.1, "another source alone");
        // What follows an ICMP or a later fragment's header is no port.
        for (protocol, fragment) in [(1, 0), (UDP, 185)] {
            assert_eq!(look(&v4(protocol, fragment, [1; 4]), 7), look(&v4(protocol, fragment, [9; 4]), 7));
        }
    }

    #[test]
    fn ipv6_is_read_and_nothing_is_read_beyond_the_end() {
        let mut six = vec![0x60, 0, 0, 0, 2, 0, UDP, 64];
        six.extend([1; 32]);
        six.extend([0, 53, 0, 54]);
        let before = look(&six, 7).expect("whole");
        assert_eq!((before.octets, before.dscp), (552, 0));
        six[43] = 55;
        let after = look(&six, 7).expect("whole");
        assert_ne!(after.flow, before.flow);
        assert_eq!(after.hosts, before.hosts, "ports are no hosts");
        // EF, whose six bits lie across two octets.
        six[0] = 0x6b;
        six[1] = 0x80;
        assert_eq!(look(&six, 7).map(|look| look.dscp), Some(46));
        for whole in [six, v4(TCP, 0, [1; 4])] {
            for cut in 0..whole.len() {
                look(&whole[..cut], 7);
            }
        }
        assert_eq!(look(&[0x20; 60], 7), None);
    }

    /// Flows spread over FQ-CoDel's buckets.
    #[test]
    fn hashes_spread() {
        let buckets = (0..=255u8).map(|port| look(&v4(TCP, 0, [80, 1, 200, port]), 99).expect("whole").flow % 1_024);
        let distinct = buckets.collect::<std::collections::BTreeSet<_>>().len();
        // Thrown at random 226 are expected.
        assert!(distinct > 200, "{distinct}");
    }
}
