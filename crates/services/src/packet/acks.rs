//! Acknowledgements that wait and say nothing which a newer one does not: the newer one takes their place (ACK filtering, RFC
//! 3449, section 5.2.1), so that a thin way back carries the newest ones and not all of them.

use wavelane_base::Ecn;
use wavelane_wire::ip::{checksum, pseudo_sum};
use wavelane_wire::packet::Packet;
use wavelane_wire::tcp::{
    Flags, KIND_END, KIND_NOP, KIND_SACK, KIND_TIMESTAMPS, SackBlocks, TCP_HEADER_LEN, TcpHeader,
};

/// What an acknowledgement without payload says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ack {
    header: TcpHeader,
    ecn: Ecn,
}

impl Ack {
    /// Reads one; `None` for every other packet, and for one with options whose meaning nobody here knows.
    pub(super) fn read(packet: &Packet<'_>) -> Option<Self> {
        let header = packet.tcp_header().filter(|(_, payload)| *payload == 0)?.0;
        let sum = pseudo_sum(packet.source, packet.target, packet.protocol, u16::try_from(packet.upper().len()).ok()?);
        // What the other end will drop must not take the place of what it would use.
        if checksum(&[&sum, packet.upper()]) != 0 {
            return None;
        }
        let only_acks = header.flags.without(Flags::ECE).without(Flags::CWR) == Flags::ACK;
        // The low bits of the header's length hold a part of AccECN's counter (RFC 9768, section 3.1).
        let plain = packet.upper().get(12).is_some_and(|octet| octet & 0x0f == 0);
        let options = packet.upper().get(TCP_HEADER_LEN..)?;
        (only_acks && plain && are_known(options)).then_some(Self { header, ecn: packet.ecn })
    }

    /// Whether the sender of the data loses nothing if of `older`, then this, only this arrives.
    pub(super) fn covers(&self, older: &Self) -> bool {
        let (new, old) = (&self.header, &older.header);
        // With another sequence number it is a probe of a window or of life, which its receiver may drop unread (RFC 9293, section 3.10.7.4).
        let same = (new.seq, new.flags, self.ecn, new.options.timestamps.is_some())
            == (old.seq, old.flags, older.ecn, old.options.timestamps.is_some());
        // One that repeats the number is a duplicate, which counts by itself, unless SACK says the same.
        let newer = match distance(old.ack, new.ack) {
            0 => new.options.sack != old.options.sack && !old.options.sack.is_empty(),
            ahead => ahead > 0,
        };
        let (before, now) = (old.options.sack, new.options.sack);
        let held = |(left, right): (u32, u32)| {
            distance(right, new.ack) >= 0
                || now.as_slice().iter().any(|(l, r)| distance(*l, left) >= 0 && distance(right, *r) >= 0)
        };
        let (copies, more_copies) = (reports_a_copy(old.ack, before), reports_a_copy(new.ack, now));
        let before = before.as_slice().get(usize::from(copies)..).unwrap_or_default();
        same && newer && (more_copies || !copies) && before.iter().all(|block| held(*block))
    }
}

/// Whether all options are padding, timestamps and SACK.
fn are_known(mut options: &[u8]) -> bool {
    loop {
        options = match options {
            [] | [KIND_END, ..] => return true,
            [KIND_NOP, rest @ ..] => rest,
            [KIND_SACK | KIND_TIMESTAMPS, len, ..] if (2..=options.len()).contains(&usize::from(*len)) => {
                &options[usize::from(*len)..]
            }
            _ => return false,
        };
    }
}

/// How far `b` is ahead of `a` (RFC 9293, section 3.4).
fn distance(a: u32, b: u32) -> i32 {
    b.wrapping_sub(a) as i32
}

/// Whether the first block tells of octets that arrived twice (RFC 2883, section 4). No other acknowledgement repeats that, so the last
/// one of a kind stays; that there were more copies is lost, and with it only how soon a sender sees that it sent too much again.
fn reports_a_copy(ack: u32, blocks: SackBlocks) -> bool {
    let within = |(left, right): (u32, u32), (l, r): (u32, u32)| distance(l, left) >= 0 && distance(right, r) >= 0;
    match blocks.as_slice() {
        [] => false,
        [first] => distance(first.1, ack) >= 0,
        [first, second, ..] => distance(first.1, ack) >= 0 || within(*first, *second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, SocketAddr};
    use wavelane_wire::tcp::{TcpPacket, Timestamps};

    fn packet(ack: u32, flags: Flags, blocks: &[(u32, u32)], ecn: Ecn, payload: &[u8]) -> Vec<u8> {
        let mut header = TcpHeader { seq: 7, ack, flags, window: 500, ..TcpHeader::default() };
        header.options.timestamps = Some(Timestamps { value: ack, echo: 1 });
        for (left, right) in blocks {
            header.options.sack.push(*left, *right);
        }
        let end = |host: u8| SocketAddr::from(([10, 0, 0, host], 5001));
        let packet = TcpPacket { source: end(1), target: end(2), ecn, header, payload };
        let mut buf = [0; 200];
        let len = packet.emit(&mut buf).expect("fits");
        buf[..len].to_vec()
    }

    fn read(bytes: &[u8]) -> Option<Ack> {
        Ack::read(&Packet::parse(bytes).expect("well-formed"))
    }

    fn ack(number: u32, blocks: &[(u32, u32)]) -> Ack {
        read(&packet(number, Flags::ACK, blocks, Ecn::NotEct, b"")).expect("an acknowledgement")
    }

    #[test]
    fn only_acknowledgements_alone_are_read() {
        for flags in [Flags::SYN, Flags::FIN, Flags::RST, Flags::URG, Flags::PSH] {
            assert_eq!(read(&packet(9, Flags::ACK.with(flags), &[], Ecn::NotEct, b"")), None, "{flags:?}");
        }
        assert_eq!(read(&packet(9, Flags::ACK, &[], Ecn::NotEct, b"x")), None);
        // Multipath TCP's option (kind 30) in place of the padding and the timestamps.
        let mut other = packet(9, Flags::ACK, &[], Ecn::NotEct, b"");
        other[40..52].copy_from_slice(&[30, 12, 0x20, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(read(&other), None);
    }

    #[test]
    fn probes_forgeries_and_accurate_ecn_replace_nothing() {
        let change = |at: usize, octet: u8, mends: bool| {
            let mut bytes = packet(2_000, Flags::ACK, &[], Ecn::NotEct, b"");
            bytes[at] = octet;
            if mends {
                bytes[36..38].fill(0);
                let [source, target] =
                    [12, 16].map(|at| IpAddr::from(*bytes[at..].first_chunk::<4>().expect("an address")));
                let sum = checksum(&[&pseudo_sum(source, target, 6, bytes.len() as u16 - 20), &bytes[20..]]);
                bytes[36..38].copy_from_slice(&sum.to_be_bytes());
            }
            read(&bytes)
        };
        let older = ack(1_000, &[]);
        assert!(change(34, 9, true).is_some_and(|same| same.covers(&older)), "another window");
        assert!(!change(27, 6, true).expect("a probe").covers(&older), "one octet before the sequence number");
        assert_eq!(change(34, 9, false), None, "a wrong checksum");
        assert_eq!(change(32, 0x81, true), None, "the third bit of AccECN's counter");
    }

    #[test]
    fn a_newer_number_covers_an_older_one_also_past_the_wrap() {
        assert!(ack(2_000, &[]).covers(&ack(1_000, &[])));
        assert!(ack(5, &[]).covers(&ack(u32::MAX - 5, &[])));
        assert!(!ack(1_000, &[]).covers(&ack(2_000, &[])));
    }

    #[test]
    fn duplicates_count_by_themselves_and_selective_ones_by_their_blocks() {
        assert!(!ack(1_000, &[]).covers(&ack(1_000, &[])));
        let one = ack(1_000, &[(3_000, 4_000)]);
        assert!(!ack(1_000, &[(3_000, 4_000)]).covers(&one), "the same once more");
        assert!(!one.covers(&ack(1_000, &[])), "the first duplicate");
        assert!(ack(1_000, &[(3_000, 5_000)]).covers(&one));
        assert!(ack(1_000, &[(6_000, 7_000), (3_000, 4_000)]).covers(&one));
        assert!(!ack(1_000, &[(6_000, 7_000)]).covers(&one), "its block is gone");
        assert!(ack(4_000, &[]).covers(&one) && !ack(3_500, &[]).covers(&one));
    }

    #[test]
    fn what_tells_of_copies_or_congestion_stays() {
        assert!(!ack(2_000, &[]).covers(&ack(1_000, &[(500, 600)])), "arrived twice below the number");
        let above = ack(1_000, &[(3_100, 3_200), (3_000, 4_000)]);
        assert!(!ack(9_000, &[]).covers(&above), "arrived twice above it");
        assert!(ack(1_000, &[(3_200, 3_300), (3_000, 4_000)]).covers(&above), "the newer one tells of a copy as well");
        assert!(!ack(1_000, &[(3_200, 3_300), (3_200, 4_000)]).covers(&above), "its other block is gone");
        let marked = |flags: Flags, ecn: Ecn| read(&packet(900, Flags::ACK.with(flags), &[], ecn, b"")).expect("read");
        assert!(!ack(2_000, &[]).covers(&marked(Flags::ECE, Ecn::NotEct)));
        assert!(!ack(2_000, &[]).covers(&marked(Flags::CWR, Ecn::NotEct)));
        assert!(!ack(2_000, &[]).covers(&marked(Flags::default(), Ecn::Ce)));
    }
}
