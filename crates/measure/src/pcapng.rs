//! The blocks of pcapng files: nanosecond times, and a direction on each packet where there is one.
//!
//! Format: draft-ietf-opsawg-pcapng. All numbers little-endian.

/// LINKTYPE_RAW: packets begin with the IP header (tcpdump.org/linktypes.html).
pub const LINKTYPE_RAW: u16 = 101;
/// LINKTYPE_WIRESHARK_UPPER_PDU: tags say which dissector reads what follows (the same list, 252).
pub const LINKTYPE_PDU: u16 = 252;
/// The tags of a Wavelane datagram: the dissector's name (tag 12), and the end of tags.
pub const PDU_TAGS: [u8; 16] = *b"\0\x0c\0\x08wavelane\0\0\0\0";
/// The octets that a file begins with.
pub const BEGINNING: [u8; 4] = SECTION_HEADER.to_le_bytes();
/// Section Header Block, section 4.1.
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
/// Interface Description Block, section 4.2.
const INTERFACE: u32 = 1;
/// Enhanced Packet Block, section 4.3.
const ENHANCED_PACKET: u32 = 6;
/// Marks the byte order of a section.
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// Option `opt_endofopt`.
const OPT_END: u16 = 0;
/// Option `if_name` of an interface.
const IF_NAME: u16 = 2;
/// Option `if_tsresol` of an interface.
const IF_TSRESOL: u16 = 9;
/// Option `epb_flags` of a packet; its two lowest bits are the direction, 1 in, 2 out.
const EPB_FLAGS: u16 = 2;

/// Which way a packet passed the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortDirection {
    /// It arrived at the node.
    In,
    /// The node sent it.
    Out,
}

fn put_u16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    put_u16(out, code);
    put_u16(out, u16::try_from(value.len()).unwrap_or(u16::MAX));
    let pad = value.len().next_multiple_of(4) - value.len();
    out.extend_from_slice(&value[..value.len().min(usize::from(u16::MAX))]);
    out.extend_from_slice(&[0; 3][..pad]);
}

/// Appends a block whose body `fill` writes; the length stands at both ends.
fn put_block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_u32(out, kind);
    put_u32(out, 0);
    fill(out);
    let total = u32::try_from(out.len() - start + 4).expect("a block holds one header or one packet, far below 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    put_u32(out, total);
}

/// Appends the head of a file with one interface, whose packets are of `linktype` and at most `snaplen` bytes.
pub fn put_head(out: &mut Vec<u8>, linktype: u16, interface: &str, snaplen: usize) {
    put_block(out, SECTION_HEADER, |b| {
        put_u32(b, BYTE_ORDER);
        put_u16(b, 1); // major version
        put_u16(b, 0); // minor version
        b.extend_from_slice(&u64::MAX.to_le_bytes()); // section length not given
    });
    put_block(out, INTERFACE, |b| {
        put_u16(b, linktype);
        put_u16(b, 0);
        put_u32(b, u32::try_from(snaplen).unwrap_or(0));
        put_option(b, IF_NAME, interface.as_bytes());
        put_option(b, IF_TSRESOL, &[9]); // 10^-9 s
        put_option(b, OPT_END, &[]);
    });
}

/// Appends one packet of `octets` bytes that passed at `unix_ns` (nanoseconds since 1970), of which `kept` are kept.
///
/// # Panics
/// If more is kept than there was.
pub fn put_packet(out: &mut Vec<u8>, unix_ns: u64, way: Option<PortDirection>, kept: &[u8], octets: usize) {
    assert!(kept.len() <= octets, "{} bytes kept of {octets}", kept.len());
    put_block(out, ENHANCED_PACKET, |b| {
        put_u32(b, 0); // interface
        put_u32(b, (unix_ns >> 32) as u32);
        put_u32(b, unix_ns as u32);
        put_u32(b, kept.len() as u32);
        put_u32(b, octets as u32);
        b.extend_from_slice(kept);
        b.extend_from_slice(&[0; 3][..kept.len().next_multiple_of(4) - kept.len()]);
        if let Some(way) = way {
            let direction: u32 = if way == PortDirection::In { 1 } else { 2 };
            put_option(b, EPB_FLAGS, &direction.to_le_bytes());
        }
        put_option(b, OPT_END, &[]);
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn blocks_are_aligned_and_closed_by_their_own_length() {
        let mut out = Vec::new();
        put_head(&mut out, LINKTYPE_RAW, "wl_air", 128);
        for body in 0..8 {
            let way = [None, Some(PortDirection::In), Some(PortDirection::Out)][body % 3];
            put_packet(&mut out, 1 << 40, way, &vec![0; body], 1_500);
        }
        let (mut at, mut blocks) = (0, 0);
        while at < out.len() {
            let word = |i: usize| u32::from_le_bytes(out[i..i + 4].try_into().unwrap()) as usize;
            let len = word(at + 4);
            assert_eq!(len % 4, 0);
            assert_eq!(word(at + len - 4), len);
            at += len;
            blocks += 1;
        }
        assert_eq!((at, blocks), (out.len(), 10));
    }
}
