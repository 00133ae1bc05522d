//! What is around the IP packet in a captured frame: link headers, tags, labels, sessions, 802.11.
//!
//! Nothing here allocates, and every loop is bounded by a named number of layers.

use serde::Serialize;

/// Link types by their number in tcpdump.org/linktypes.html.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkType {
    /// 0: BSD loopback, a protocol family in the byte order of the capturing host.
    Null,
    /// 1
    Ethernet,
    /// 9, 50: PPP, perhaps with the address and control octets of HDLC-like framing (RFC 1662).
    Ppp,
    /// 51: PPP over Ethernet, from its session header on.
    PppoE,
    /// 101 and 228, 229; also 12 and 14, which some systems write for it.
    Raw,
    /// 104: Cisco HDLC.
    Hdlc,
    /// 105: 802.11
    Wifi,
    /// 108: OpenBSD loopback, a protocol family in network byte order.
    Loop,
    /// 113
    Sll,
    /// 127: 802.11 behind a radiotap header.
    Radiotap,
    /// 219: MPLS labels first.
    Mpls,
    /// 252: tags say which dissector reads what follows, such as datagrams of serial lanes.
    Pdu,
    /// 276
    Sll2,
}

impl LinkType {
    pub(crate) fn of(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            9 | 50 => Self::Ppp,
            51 => Self::PppoE,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            104 => Self::Hdlc,
            105 => Self::Wifi,
            108 => Self::Loop,
            113 => Self::Sll,
            127 => Self::Radiotap,
            219 => Self::Mpls,
            252 => Self::Pdu,
            276 => Self::Sll2,
            _ => return None,
        })
    }
    /// Names of the link types, for an error's remedy.
    pub(crate) const READ: &str = "Ethernet, raw IP, Linux cooked (SLL, SLL2), loopback, PPP, MPLS and 802.11";
}

/// Why no IP packet was read from a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// Of a protocol that carries none: ARP, spanning tree, 802.11 control and management.
    NoPacket,
    /// A protocol behind the link header that is not read here.
    Protocol,
    /// Encrypted 802.11 frames.
    Encrypted,
    /// Cut off before the IP header's end, or damaged.
    Damaged,
    /// The link type of the interface is not read.
    LinkType,
    /// Its interface is not described.
    Interface,
    /// A Simple Packet Block, which has no time.
    NoTime,
    /// Its block is larger than any packet.
    TooLarge,
}

impl Unread {
    /// All causes, in the order in which they are told.
    pub const ALL: [Self; 8] = [
        Self::NoPacket,
        Self::Protocol,
        Self::Encrypted,
        Self::Damaged,
        Self::LinkType,
        Self::Interface,
        Self::NoTime,
        Self::TooLarge,
    ];
    /// In words, behind a number.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoPacket => "of protocols without IP, such as ARP",
            Self::Protocol => "of another protocol than IP, or in a tunnel that is not read",
            Self::Encrypted => "encrypted by 802.11",
            Self::Damaged => "cut off before the end of their IP header, or damaged",
            Self::LinkType => "of an interface whose link type is not read",
            Self::Interface => "of an interface that the file does not describe",
            Self::NoTime => "without a time (Simple Packet Blocks)",
            Self::TooLarge => "in blocks larger than any packet",
        }
    }
    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::NoPacket => "no_packet",
            Self::Protocol => "protocol",
            Self::Encrypted => "encrypted",
            Self::Damaged => "damaged",
            Self::LinkType => "link_type",
            Self::Interface => "interface",
            Self::NoTime => "no_time",
            Self::TooLarge => "too_large",
        }
    }
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
/// Layers between a link's header and IP: tags, labels, sessions. More than any network stacks.
const LAYERS_MAX: usize = 16;
/// An EtherType is at least this; below it is a length, and LLC follows (IEEE 802.3, clause 3.2.6).
const ETHERTYPE_MIN: u16 = 0x0600;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn rest(bytes: &[u8], at: usize) -> Result<&[u8], Unread> {
    bytes.get(at..).ok_or(Unread::Damaged)
}

/// The IP packet in a frame.
pub(super) fn ip_of(link: LinkType, frame: &[u8]) -> Result<&[u8], Unread> {
    let ethertype = |at: usize| u16_at(frame, at).ok_or(Unread::Damaged);
    match link {
        LinkType::Raw => Ok(frame),
        LinkType::Ethernet => behind(ethertype(12)?, rest(frame, 14)?),
        // Families differ between systems (tcpdump.org/linktypes/LINKTYPE_NULL.html); the IP version decides.
        LinkType::Null | LinkType::Loop => rest(frame, 4),
        LinkType::Ppp => ppp(frame),
        LinkType::PppoE => pppoe(frame),
        LinkType::Hdlc => behind(ethertype(2)?, rest(frame, 4)?),
        LinkType::Sll => cooked(ethertype(14)?, rest(frame, 16)?),
        LinkType::Sll2 => cooked(ethertype(0)?, rest(frame, 20)?),
        LinkType::Mpls => mpls(frame),
        LinkType::Pdu => Err(Unread::Protocol),
        LinkType::Wifi => wifi(frame, false),
        LinkType::Radiotap => radiotap(frame),
    }
}

/// The same behind a cooked header, whose protocol may also be Linux's own number (tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html).
fn cooked(kind: u16, payload: &[u8]) -> Result<&[u8], Unread> {
    match kind {
        // Novell 802.3 without LLC; 802.2 LLC; CAN and others.
        4 => llc(payload),
        kind if kind < ETHERTYPE_MIN => Err(Unread::Protocol),
        kind => behind(kind, payload),
    }
}

/// The IP packet in the payload of this EtherType.
fn behind(mut kind: u16, mut payload: &[u8]) -> Result<&[u8], Unread> {
    for _ in 0..LAYERS_MAX {
        // Octets before the next EtherType.
        let skip = match kind {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return Ok(payload),
            // 802.1Q, 802.1ad and older stacked tags.
            0x8100 | 0x88A8 | 0x9100 | 0x9200 | 0x9300 => 2,
            // 802.1ah: a service tag, and the customer's addresses.
            0x88E7 => 4 + 12,
            // 802.1BR.
            0x893F => 6,
            // VN-Tag; Cisco's metadata.
            0x8926 => 4,
            0x8909 => 6,
            0x8847 | 0x8848 => return mpls(payload),
            0x8864 => return pppoe(payload),
            0x880B => return ppp(payload),
            // ARP, RARP, EAPOL, slow protocols, LLDP, connectivity faults, MRP, PTP, loops, wake-on-LAN, PPPoE discovery, HomePlug.
            0x0806 | 0x8035 | 0x888E | 0x8809 | 0x88CC | 0x8902 | 0x88E3 | 0x88F5 | 0x88F6 | 0x88F7 | 0x9000
            | 0x0842 | 0x8863 | 0x88E1 | 0x8912 => return Err(Unread::NoPacket),
            kind if kind < ETHERTYPE_MIN => return llc(payload),
            _ => return Err(Unread::Protocol),
        };
        kind = u16_at(payload, skip).ok_or(Unread::Damaged)?;
        payload = rest(payload, skip + 2)?;
    }
    Err(Unread::Protocol)
}

/// Behind an LLC header: SNAP with an EtherType (IEEE Std 802-2014, clause 9), else spanning tree and its like.
fn llc(payload: &[u8]) -> Result<&[u8], Unread> {
    match payload.get(..3) {
        Some([0xAA, 0xAA, 0x03]) => {
            let kind = u16_at(payload, 6).ok_or(Unread::Damaged)?;
            let payload = rest(payload, 8)?;
            if kind == ETHERTYPE_IPV4 || kind == ETHERTYPE_IPV6 { Ok(payload) } else { tagged(kind, payload) }
        }
        Some(_) => Err(Unread::NoPacket),
        None => Err(Unread::Damaged),
    }
}

/// An EtherType behind SNAP; LLC does not follow a second time.
fn tagged(kind: u16, payload: &[u8]) -> Result<&[u8], Unread> {
    if kind < ETHERTYPE_MIN { Err(Unread::NoPacket) } else { behind(kind, payload) }
}

/// Behind a session header of PPP over Ethernet (RFC 2516, section 4).
fn pppoe(session: &[u8]) -> Result<&[u8], Unread> {
    ppp(rest(session, 6)?)
}

/// Behind PPP: address and control octets may precede the protocol, whose first octet may be left out (RFC 1661, section 6.5).
fn ppp(frame: &[u8]) -> Result<&[u8], Unread> {
    let frame = frame.strip_prefix(&[0xFF, 0x03]).unwrap_or(frame);
    let (kind, payload) = match frame {
        [odd, payload @ ..] if odd & 1 == 1 => (u16::from(*odd), payload),
        [high, low, payload @ ..] => (u16::from_be_bytes([*high, *low]), payload),
        _ => return Err(Unread::Damaged),
    };
    match kind {
        0x0021 | 0x0057 => Ok(payload),
        0x0281 | 0x0283 => mpls(payload),
        // From 0x8000 on are control protocols.
        0x8000.. => Err(Unread::NoPacket),
        _ => Err(Unread::Protocol),
    }
}

/// Behind MPLS labels (RFC 3032, section 2.1): IP by its version, or Ethernet behind a control word (RFC 4448, section 4.6).
fn mpls(mut labels: &[u8]) -> Result<&[u8], Unread> {
    for _ in 0..LAYERS_MAX {
        let is_last = labels.get(2).ok_or(Unread::Damaged)? & 1 == 1;
        labels = rest(labels, 4)?;
        if is_last {
            return match labels.first().ok_or(Unread::Damaged)? >> 4 {
                4 | 6 => Ok(labels),
                0 => match u16_at(labels, 16).ok_or(Unread::Damaged)? {
                    ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => rest(labels, 18),
                    0x8100 | 0x88A8 => match u16_at(labels, 20).ok_or(Unread::Damaged)? {
                        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => rest(labels, 22),
                        _ => Err(Unread::Protocol),
                    },
                    _ => Err(Unread::Protocol),
                },
                _ => Err(Unread::Protocol),
            };
        }
    }
    Err(Unread::Protocol)
}

/// Words of a radiotap header that say which fields are present.
const PRESENT_MAX: usize = 16;

/// Behind a radiotap header (radiotap.org): its length, and of its fields the flags.
fn radiotap(frame: &[u8]) -> Result<&[u8], Unread> {
    let word = |at: usize| Some(u32::from_le_bytes(frame.get(at..at + 4)?.try_into().ok()?));
    let length = frame.get(2..4).ok_or(Unread::Damaged)?;
    let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
    let first = word(4).ok_or(Unread::Damaged)?;
    let (mut at, mut present) = (8, first);
    for _ in 0..PRESENT_MAX {
        if present & 1 << 31 == 0 {
            break;
        }
        present = word(at).ok_or(Unread::Damaged)?;
        at += 4;
    }
    // The time comes first, aligned to its size; then the flags.
    if first & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if first & 2 != 0 { *frame.get(at).ok_or(Unread::Damaged)? } else { 0 };
    const BAD_FCS: u8 = 0x40;
    const PADDED: u8 = 0x20;
    let inner = rest(frame, length)?;
    if flags & BAD_FCS != 0 { Err(Unread::Damaged) } else { wifi(inner, flags & PADDED != 0) }
}

/// The IP packet of an 802.11 data frame (IEEE Std 802.11-2016, clause 9.2.4); of an aggregate (A-MSDU) the first.
fn wifi(frame: &[u8], padded: bool) -> Result<&[u8], Unread> {
    let &[control, flags, ..] = frame else { return Err(Unread::Damaged) };
    let (kind, is_empty, is_qos) = (control >> 2 & 3, control & 0x40 != 0, control & 0x80 != 0);
    if control & 3 != 0 {
        return Err(Unread::Damaged);
    }
    if kind != 2 || is_empty {
        return Err(Unread::NoPacket);
    }
    if flags & 0x40 != 0 {
        return Err(Unread::Encrypted);
    }
    let four_addresses = flags & 3 == 3;
    let qos_at = if four_addresses { 30 } else { 24 };
    let mut header = qos_at + if is_qos { 2 } else { 0 };
    // With the Order bit an HT Control field follows.
    if is_qos && flags & 0x80 != 0 {
        header += 4;
    }
    if padded {
        header = usize::next_multiple_of(header, 4);
    }
    let is_aggregate = is_qos && frame.get(qos_at).ok_or(Unread::Damaged)? & 0x80 != 0;
    // Of an A-MSDU: two addresses and a length.
    llc(rest(frame, header + if is_aggregate { 14 } else { 0 })?)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
