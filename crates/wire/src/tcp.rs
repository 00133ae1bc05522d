//! TCP segments in IPv4 and IPv6 packets, with options and checksum (RFC 9293, section 3.1; RFC 7323; RFC 2018; RFC 3168).
//!
//! Options whose length is impossible end the list, as if it ended there; options of an unknown kind, or of a known
//! kind with a wrong length, are skipped (RFC 9293, section 3.1, MUST-6 and MUST-7, and what Linux does).

use crate::codec::{DecodeError, NoRoom, Reader, Writer};
use crate::ip::{Ip, checksum, finish_ip, pseudo_sum, put_ip};
use core::fmt;
use std::net::SocketAddr;
use wavelane_base::Ecn;

/// The protocol number of TCP (IANA protocol numbers).
pub const PROTOCOL_TCP: u8 = 6;
/// Bytes of a TCP header without options.
pub const TCP_HEADER_LEN: usize = 20;
/// The most bytes of options: the header length field counts up to fifteen 32-bit words.
pub const TCP_OPTIONS_MAX: usize = 40;
/// The most SACK blocks one segment can carry (RFC 2018, section 3).
pub const SACK_BLOCKS_MAX: usize = 4;
/// The largest shift that a window scale option may ask for (RFC 7323, section 2.3); larger ones count as this.
pub const WINDOW_SCALE_MAX: u8 = 14;

/// Kind of an option (IANA, TCP Option Kind Numbers).
pub const KIND_END: u8 = 0;
/// Kind of an option (IANA, TCP Option Kind Numbers).
pub const KIND_NOP: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WINDOW_SCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
/// Kind of an option (IANA, TCP Option Kind Numbers).
pub const KIND_SACK: u8 = 5;
/// Kind of an option (IANA, TCP Option Kind Numbers).
pub const KIND_TIMESTAMPS: u8 = 8;

/// The control bits, a set.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168, section 6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168, section 6.1).
    pub const CWR: Self = Self(0x80);

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// This set without the bits of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Flags {
    /// The letters that tcpdump uses, lowest bit first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = "FSRP.UEW".chars().enumerate();
        f.write_str(&letters.filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, c)| c).collect::<String>())
    }
}

/// Up to [`SACK_BLOCKS_MAX`] blocks of received sequence numbers, `[left, right)`, in the order of the option.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); SACK_BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// Adds a block behind the others. Returns whether there was room.
    pub fn push(&mut self, left: u32, right: u32) -> bool {
        let place = self.blocks.get_mut(usize::from(self.count));
        let fits = place.is_some();
        if let Some(place) = place {
            *place = (left, right);
            self.count += 1;
        }
        fits
    }
    /// The blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// The timestamps option (RFC 7323, section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the latest value received; meaningless without ACK.
    pub echo: u32,
}

/// The options we know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Maximum segment size the sender of a SYN can receive, in bytes of payload and options.
    pub mss: Option<u16>,
    /// Shift that the sender of a SYN will apply to its windows; at most [`WINDOW_SCALE_MAX`].
    pub window_scale: Option<u8>,
    /// The sender of a SYN understands SACK.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgement.
    pub sack: SackBlocks,
}

impl Options {
    /// Bytes these options take, padding included. More than [`TCP_OPTIONS_MAX`] cannot be sent.
    pub fn len(&self) -> usize {
        let sack = self.sack.as_slice().len();
        let fixed = [
            (self.mss.is_some(), 4),
            (self.timestamps.is_some(), 12),
            (self.timestamps.is_none() && self.sack_permitted, 4),
            (self.window_scale.is_some(), 4),
            (sack > 0, 4 + 8 * sack),
        ];
        fixed.into_iter().filter(|(present, _)| *present).map(|(_, len)| len).sum()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut options = Self::default();
        let mut r = Reader::new(bytes);
        while let Ok(kind) = r.u8() {
            match kind {
                KIND_END => break,
                KIND_NOP => continue,
                _ => {}
            }
            let Some(len) = r.u8().ok().and_then(|len| usize::from(len).checked_sub(2)) else { break };
            let Ok(body) = r.take(len) else { break };
            options.note(kind, body);
        }
        options
    }

    fn note(&mut self, kind: u8, body: &[u8]) {
        let mut r = Reader::new(body);
        match (kind, body.len()) {
            (KIND_MSS, 2) => self.mss = r.u16().ok(),
            (KIND_WINDOW_SCALE, 1) => self.window_scale = r.u8().ok().map(|shift| shift.min(WINDOW_SCALE_MAX)),
            (KIND_SACK_PERMITTED, 0) => self.sack_permitted = true,
            (KIND_TIMESTAMPS, 8) => {
                if let (Ok(value), Ok(echo)) = (r.u32(), r.u32()) {
                    self.timestamps = Some(Timestamps { value, echo });
                }
            }
            (KIND_SACK, 8 | 16 | 24 | 32) => {
                self.sack = SackBlocks::default();
                while let (Ok(left), Ok(right)) = (r.u32(), r.u32()) {
                    self.sack.push(left, right);
                }
            }
            _ => {}
        }
    }

    /// Writes the options in Linux's order, each padded in front so that 32-bit fields are aligned.
    fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        if let Some(mss) = self.mss {
            w.put(&[KIND_MSS, 4])?;
            w.u16(mss)?;
        }
        if let Some(stamps) = self.timestamps {
            // SACK-permitted takes the place of the padding.
            let pad = if self.sack_permitted { [KIND_SACK_PERMITTED, 2] } else { [KIND_NOP, KIND_NOP] };
            w.put(&pad)?;
            w.put(&[KIND_TIMESTAMPS, 10])?;
            w.u32(stamps.value)?;
            w.u32(stamps.echo)?;
        } else if self.sack_permitted {
            w.put(&[KIND_NOP, KIND_NOP, KIND_SACK_PERMITTED, 2])?;
        }
        if let Some(shift) = self.window_scale {
            w.put(&[KIND_NOP, KIND_WINDOW_SCALE, 3, shift])?;
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            w.put(&[KIND_NOP, KIND_NOP, KIND_SACK, 2 + 8 * blocks.len() as u8])?;
            for (left, right) in blocks {
                w.u32(*left)?;
                w.u32(*right)?;
            }
        }
        Ok(())
    }
}

/// The fields of a TCP header besides ports, lengths and checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpHeader {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// The next sequence number expected; meaningless without ACK.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window as in the header, unscaled.
    pub window: u16,
    /// Urgent pointer as in the header.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl TcpHeader {
    /// Reads both ports and a header, and leaves `r` at the payload. The checksum is not judged.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<(u16, u16, Self), DecodeError> {
        let (source, target) = (r.u16()?, r.u16()?);
        let (seq, ack) = (r.u32()?, r.u32()?);
        let (words, flags) = (r.u8()? >> 4, Flags(r.u8()?));
        let (window, _checksum, urgent) = (r.u16()?, r.u16()?, r.u16()?);
        let options = usize::from(words) * 4;
        let options = options.checked_sub(TCP_HEADER_LEN).ok_or(DecodeError::Invalid("TCP header length"))?;
        let options = Options::parse(r.take(options)?);
        Ok((source, target, Self { seq, ack, flags, window, urgent, options }))
    }
}

/// An IP packet that holds a whole TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpPacket<'a> {
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub target: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The TCP header.
    pub header: TcpHeader,
    /// The segment's bytes.
    pub payload: &'a [u8],
}

impl<'a> TcpPacket<'a> {
    /// Reads an IP packet with a TCP segment and verifies both checksums.
    pub fn parse(packet: &'a [u8]) -> Result<Self, DecodeError> {
        let ip = Ip::parse(packet)?;
        if ip.protocol != PROTOCOL_TCP {
            return Err(DecodeError::Invalid("IP protocol"));
        }
        let mut r = Reader::new(ip.payload);
        let (source, target, header) = TcpHeader::read(&mut r)?;
        if checksum(&[&pseudo_sum(ip.source, ip.target, PROTOCOL_TCP, ip.payload.len() as u16), ip.payload]) != 0 {
            return Err(DecodeError::Invalid("TCP checksum"));
        }
        Ok(Self {
            source: SocketAddr::new(ip.source, source),
            target: SocketAddr::new(ip.target, target),
            ecn: ip.ecn,
            header,
            payload: r.take_rest(),
        })
    }

    /// Writes the packet with both checksums into `buf` and returns its length.
    ///
    /// # Errors
    /// [`NoRoom`] if it fits neither `buf` nor an IP packet, its addresses are of two families, or its options take more than [`TCP_OPTIONS_MAX`]
    /// bytes; `buf` is then undefined.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, NoRoom> {
        emit(self.source, self.target, self.ecn, &self.header, [self.payload, &[]], buf)
    }
}

/// Writes a packet as [`TcpPacket::emit`] does, with a payload in two pieces, as a ring buffer holds it.
///
/// # Errors
/// As for [`TcpPacket::emit`].
pub fn emit(
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    header: &TcpHeader,
    payload: [&[u8]; 2],
    buf: &mut [u8],
) -> Result<usize, NoRoom> {
    let options = header.options.len();
    if options > TCP_OPTIONS_MAX {
        return Err(NoRoom);
    }
    let header_len = TCP_HEADER_LEN + options;
    let tcp_len = u16::try_from(header_len + payload[0].len() + payload[1].len()).map_err(|_| NoRoom)?;
    let mut w = Writer::new(buf);
    put_ip(&mut w, source.ip(), target.ip(), PROTOCOL_TCP, ecn, tcp_len)?;
    w.u16(source.port())?;
    w.u16(target.port())?;
    w.u32(header.seq)?;
    w.u32(header.ack)?;
    w.put(&[(header_len as u8 / 4) << 4, header.flags.0])?;
    w.u16(header.window)?;
    w.u16(0)?;
    w.u16(header.urgent)?;
    header.options.emit(&mut w)?;
    w.put(payload[0])?;
    w.put(payload[1])?;
    let len = w.len();
    let segment = finish_ip(&mut buf[..len]);
    let sum = checksum(&[&pseudo_sum(source.ip(), target.ip(), PROTOCOL_TCP, tcp_len), segment]);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    Ok(len)
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
