//! The frames inside a sealed data datagram, wire version 1.
//!
//! A datagram holds frames back to back. Types below [`FIRST_SKIPPABLE`] are those of this version. Types from
//! there on carry their length after the type, so a receiver skips what it does not know.

use crate::codec::{DecodeError, NoRoom, Reader, Writer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Frame types from here on are `type, length, body` and are skipped when unknown.
pub const FIRST_SKIPPABLE: u64 = 0x40;
/// Most ranges a lane ack or receipt may carry: what one 1,200-byte datagram holds.
pub const RANGES_MAX: usize = 256;
/// Most bytes of a parcel before sealing.
pub const PARCEL_MAX: usize = 4096;

mod kind {
    pub(super) const PADDING: u64 = 0x00;
    pub(super) const PING: u64 = 0x01;
    pub(super) const LANE_ACK: u64 = 0x02;
    pub(super) const ACK_WISH: u64 = 0x03;
    pub(super) const OPEN: u64 = 0x04;
    pub(super) const ANSWER: u64 = 0x05;
    pub(super) const OFFER: u64 = 0x06;
    pub(super) const DATA: u64 = 0x07;
    pub(super) const DATA_TO_END: u64 = 0x08;
    pub(super) const RECEIPT: u64 = 0x09;
    pub(super) const FINISH: u64 = 0x0a;
    pub(super) const RESET: u64 = 0x0b;
    pub(super) const FORGET: u64 = 0x0c;
    pub(super) const PROGRESS: u64 = 0x0d;
    pub(super) const CLOSE: u64 = 0x0e;
}

/// A flow as two neighbours name it: numbers are consecutive per opener and boot epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowName {
    /// Whether the sender of this frame opened the flow (otherwise the receiver did).
    pub mine: bool,
    /// The opener's number for it, from 0.
    pub number: u64,
}

/// Inclusive number ranges, newest (highest) first, disjoint and not adjacent. Byte ranges use the same form:
/// `(first, last)`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(pub Vec<(u64, u64)>);

/// Which packets of a lane arrived, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneAck {
    /// The lane of the data sender that this acknowledges.
    pub lane: u8,
    /// Numbers received, newest first; the first range's end is the largest. Truncatable.
    pub ranges: Ranges,
    /// Time between the largest's arrival and this ack leaving, in microseconds.
    pub ack_delay_us: u64,
    /// Arrival of the largest on the **receiver's** clock, microseconds since an arbitrary origin.
    pub arrival_us: u64,
    /// Packets received so far on this lane with ECT(0), ECT(1) and CE.
    pub ecn: [u64; 3],
}

/// What a block service receipt says of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiptState {
    /// Data is welcome up to the credit.
    Accept,
    /// Alive, no credit now; ask again later.
    Wait,
    /// Every byte up to the flow's end is held.
    Complete,
    /// The offered block was already held or passed on.
    AlreadyHave,
    /// The flow is not known here (state lost): offer everything again.
    Unknown,
    /// The flow will not be taken.
    Refuse,
}

/// Why a flow was not opened, or was abandoned. Maps to RST or ICMP at the far edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The target answered with a reset.
    Refused,
    /// No route to the target host or network.
    Unreachable,
    /// The target did not answer in time.
    TimedOut,
    /// A rule of the gateway forbids it.
    Prohibited,
    /// A table or pool is full.
    NoRoom,
    /// The application abandoned the flow.
    Aborted,
    /// The gateway lost its memory of the flow (restart).
    Restarted,
}

/// How an opener classes a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// The flow.
    pub flow: FlowName,
    /// The application's source address, as the opener saw it.
    pub source: SocketAddr,
    /// Where the far gateway shall connect to.
    pub target: SocketAddr,
    /// Bytes the opener is ready to receive before the first receipt.
    pub credit: u64,
}

/// One frame. `'a` borrows the decrypted datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// One byte of nothing; probes are padded with it.
    Padding,
    /// Asks for a lane ack.
    Ping,
    /// See [`LaneAck`].
    LaneAck(LaneAck),
    /// The sender's wish: acknowledge `lane` at least every `packets` packets and every `delay_us`.
    AckWish {
        /// The lane whose acks are meant.
        lane: u8,
        /// Packets per ack.
        packets: u64,
        /// Longest delay of an ack in microseconds.
        delay_us: u64,
        /// Acknowledge at once (end of a burst).
        now: bool,
    },
    /// Opens a flow.
    Open(Open),
    /// The far server answered (`None`), or why not.
    Answer {
        /// The flow.
        flow: FlowName,
        /// Why the flow was not taken.
        refusal: Option<Reason>,
        /// Bytes the answerer is ready to receive before its first receipt.
        credit: u64,
    },
    /// Offers a block: a unit of custody starting at byte `start` of the flow (B-SYN).
    Offer {
        /// The flow.
        flow: FlowName,
        /// The block's number, consecutive per flow direction.
        block: u64,
        /// Its first byte's offset.
        start: u64,
        /// Its length once closed; `None` while open-ended.
        length: Option<u64>,
        /// A micro-block: acknowledge it ahead of everything.
        micro: bool,
        /// Virtual retransmission: move data only where the next node lacks it.
        vtx: bool,
        /// The bytes are sealed end-to-end parcels.
        parcels: bool,
    },
    /// Bytes of a flow.
    Data {
        /// The flow.
        flow: FlowName,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The hop's acknowledgement (B-ACK).
    Receipt {
        /// The flow.
        flow: FlowName,
        /// What it says.
        state: ReceiptState,
        /// Every byte below this offset is held.
        cumulative: u64,
        /// The sender may send bytes below this offset.
        credit: u64,
        /// Byte ranges held above `cumulative`, newest first, truncatable.
        ranges: Ranges,
    },
    /// The sender's direction ends at `length` bytes.
    Finish {
        /// The flow.
        flow: FlowName,
        /// Total bytes of this direction.
        length: u64,
    },
    /// Both directions are abandoned.
    Reset {
        /// The flow.
        flow: FlowName,
        /// Why.
        reason: Reason,
    },
    /// The opener has forgotten its flows below `below` and those in `ranges`: drop what is held for them.
    Forget {
        /// All the sender's own flows with smaller numbers are over.
        below: u64,
        /// And these.
        ranges: Ranges,
    },
    /// The egress's sealed word to the ingress across relays: alive, reader stalled or not.
    Progress {
        /// The flow.
        flow: FlowName,
        /// Sealed under the flow's end-to-end key.
        sealed: &'a [u8],
    },
    /// The sender ends the session in an orderly way.
    Close,
    /// A frame of a later version, skipped by its length.
    Unknown {
        /// Its type.
        kind: u64,
    },
}

/// Iterates over the frames of a decrypted payload; ends at the first error.
#[derive(Debug)]
pub struct Frames<'a>(Reader<'a>);

impl<'a> Frames<'a> {
    /// Starts at the beginning of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self(Reader::new(payload))
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, DecodeError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let frame = Frame::parse(&mut self.0);
        if frame.is_err() {
            self.0.take_rest();
        }
        Some(frame)
    }
}

impl<'a> Frame<'a> {
    /// Whether a datagram with this frame asks for a lane ack.
    pub fn is_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding | Frame::LaneAck(_) | Frame::Close | Frame::Unknown { .. })
    }

    /// Reads one frame.
    pub fn parse(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match r.varint()? {
            kind::PADDING => Frame::Padding,
            kind::PING => Frame::Ping,
            kind::LANE_ACK => {
                let lane = r.u8()?;
                let ack_delay_us = r.varint()?;
                let arrival_us = r.varint()?;
                let ecn = [r.varint()?, r.varint()?, r.varint()?];
                let ranges = Ranges::parse(r)?;
                if ranges.0.is_empty() {
                    return Err(DecodeError::Invalid("lane ack without ranges"));
                }
                Frame::LaneAck(LaneAck { lane, ranges, ack_delay_us, arrival_us, ecn })
            }
            kind::ACK_WISH => {
                let (lane, packets, delay_us) = (r.u8()?, r.varint()?, r.varint()?);
                Frame::AckWish { lane, packets, delay_us, now: flag(r.u8()?, "ack wish")? }
            }
            kind::OPEN => Frame::Open(Open {
                flow: FlowName::parse(r)?,
                source: parse_address(r)?,
                target: parse_address(r)?,
                credit: r.varint()?,
            }),
            kind::ANSWER => {
                let flow = FlowName::parse(r)?;
                let refusal = match r.u8()? {
                    0 => None,
                    code => Some(Reason::from_code(code)?),
                };
                Frame::Answer { flow, refusal, credit: r.varint()? }
            }
            kind::OFFER => {
                let (flow, block, start) = (FlowName::parse(r)?, r.varint()?, r.varint()?);
                let flags = r.u8()?;
                if flags & !0x0f != 0 {
                    return Err(DecodeError::Invalid("offer flags"));
                }
                let length = if flags & 1 != 0 { Some(r.varint()?) } else { None };
                let (micro, vtx, parcels) = (flags & 2 != 0, flags & 4 != 0, flags & 8 != 0);
                Frame::Offer { flow, block, start, length, micro, vtx, parcels }
            }
            kind::DATA => {
                let (flow, offset) = (FlowName::parse(r)?, r.varint()?);
                let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
                Frame::Data { flow, offset, bytes: r.take(len)? }
            }
            kind::DATA_TO_END => {
                let (flow, offset) = (FlowName::parse(r)?, r.varint()?);
                Frame::Data { flow, offset, bytes: r.take_rest() }
            }
            kind::RECEIPT => Frame::Receipt {
                flow: FlowName::parse(r)?,
                state: ReceiptState::from_code(r.u8()?)?,
                cumulative: r.varint()?,
                credit: r.varint()?,
                ranges: Ranges::parse(r)?,
            },
            kind::FINISH => Frame::Finish { flow: FlowName::parse(r)?, length: r.varint()? },
            kind::RESET => Frame::Reset { flow: FlowName::parse(r)?, reason: Reason::from_code(r.u8()?)? },
            kind::FORGET => Frame::Forget { below: r.varint()?, ranges: Ranges::parse(r)? },
            kind::PROGRESS => {
                let flow = FlowName::parse(r)?;
                let len = usize::from(r.u8()?);
                Frame::Progress { flow, sealed: r.take(len)? }
            }
            kind::CLOSE => Frame::Close,
            other if other >= FIRST_SKIPPABLE => {
                let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
                r.take(len)?;
                Frame::Unknown { kind: other }
            }
            _ => return Err(DecodeError::Invalid("frame type")),
        })
    }

    /// Appends the frame, whole or not at all.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        let start = w.len();
        let result = self.emit_parts(w);
        if result.is_err() {
            w.truncate(start);
        }
        result
    }

    fn emit_parts(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        match self {
            Frame::Padding => w.varint(kind::PADDING),
            Frame::Ping => w.varint(kind::PING),
            Frame::LaneAck(ack) => {
                w.varint(kind::LANE_ACK)?;
                w.u8(ack.lane)?;
                w.varint(ack.ack_delay_us)?;
                w.varint(ack.arrival_us)?;
                for count in ack.ecn {
                    w.varint(count)?;
                }
                ack.ranges.emit(w)
            }
            Frame::AckWish { lane, packets, delay_us, now } => {
                w.varint(kind::ACK_WISH)?;
                w.u8(*lane)?;
                w.varint(*packets)?;
                w.varint(*delay_us)?;
                w.u8(u8::from(*now))
            }
            Frame::Open(open) => {
                w.varint(kind::OPEN)?;
                open.flow.emit(w)?;
                emit_address(open.source, w)?;
                emit_address(open.target, w)?;
                w.varint(open.credit)
            }
            Frame::Answer { flow, refusal, credit } => {
                w.varint(kind::ANSWER)?;
                flow.emit(w)?;
                w.u8(refusal.map_or(0, Reason::code))?;
                w.varint(*credit)
            }
            Frame::Offer { flow, block, start, length, micro, vtx, parcels } => {
                w.varint(kind::OFFER)?;
                flow.emit(w)?;
                w.varint(*block)?;
                w.varint(*start)?;
                let bits = [length.is_some(), *micro, *vtx, *parcels];
                w.u8(bits.iter().enumerate().fold(0, |flags, (i, set)| flags | u8::from(*set) << i))?;
                length.map_or(Ok(()), |n| w.varint(n))
            }
            Frame::Data { flow, offset, bytes } => {
                w.varint(kind::DATA)?;
                flow.emit(w)?;
                w.varint(*offset)?;
                w.varint(bytes.len() as u64)?;
                w.put(bytes)
            }
            Frame::Receipt { flow, state, cumulative, credit, ranges } => {
                w.varint(kind::RECEIPT)?;
                flow.emit(w)?;
                w.u8(state.code())?;
                w.varint(*cumulative)?;
                w.varint(*credit)?;
                ranges.emit(w)
            }
            Frame::Finish { flow, length } => {
                w.varint(kind::FINISH)?;
                flow.emit(w)?;
                w.varint(*length)
            }
            Frame::Reset { flow, reason } => {
                w.varint(kind::RESET)?;
                flow.emit(w)?;
                w.u8(reason.code())
            }
            Frame::Forget { below, ranges } => {
                w.varint(kind::FORGET)?;
                w.varint(*below)?;
                ranges.emit(w)
            }
            Frame::Progress { flow, sealed } => {
                w.varint(kind::PROGRESS)?;
                flow.emit(w)?;
                w.u8(u8::try_from(sealed.len()).map_err(|_| NoRoom)?)?;
                w.put(sealed)
            }
            Frame::Close => w.varint(kind::CLOSE),
            Frame::Unknown { .. } => Ok(()),
        }
    }
}

/// Writes the header of a data frame that runs to the end of its datagram (no length field), and returns how many
/// bytes of payload still fit. The caller appends them and nothing after.
pub fn emit_data_to_end(w: &mut Writer<'_>, flow: FlowName, offset: u64) -> Result<usize, NoRoom> {
    let start = w.len();
    let result = w.varint(kind::DATA_TO_END).and_then(|()| flow.emit(w)).and_then(|()| w.varint(offset));
    if result.is_err() {
        w.truncate(start);
    }
    result.map(|()| w.room())
}

impl FlowName {
    fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n = r.varint()?;
        Ok(Self { mine: n & 1 == 1, number: n >> 1 })
    }
    fn emit(self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(self.number << 1 | u64::from(self.mine))
    }
    /// The same flow as the other side names it.
    pub fn from_other_side(self) -> Self {
        Self { mine: !self.mine, ..self }
    }
}

impl Ranges {
    /// `count, [last, count_in_range - 1], then per range [gap - 2, count_in_range - 1]` going down, where `gap` is
    /// the distance from one range's first to the next one's last.
    fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.varint()?;
        if count > RANGES_MAX as u64 {
            return Err(DecodeError::TooLong("range list"));
        }
        let mut ranges = Vec::with_capacity(count as usize);
        let mut floor: Option<u64> = None;
        for _ in 0..count {
            let step = r.varint()?;
            let extent = r.varint()?;
            let last = match floor {
                None => Some(step),
                Some(first) => step.checked_add(2).and_then(|gap| first.checked_sub(gap)),
            };
            let last = last.ok_or(DecodeError::Invalid("range"))?;
            let first = last.checked_sub(extent).ok_or(DecodeError::Invalid("range"))?;
            ranges.push((first, last));
            floor = Some(first);
        }
        Ok(Self(ranges))
    }
    fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(self.0.len() as u64)?;
        let mut floor: Option<u64> = None;
        for &(first, last) in &self.0 {
            w.varint(floor.map_or(last, |above| above - last - 2))?;
            w.varint(last - first)?;
            floor = Some(first);
        }
        Ok(())
    }
    /// The most bytes a list of `count` ranges can take.
    pub const fn len_max(count: usize) -> usize {
        2 + 16 * count
    }
}

impl Reason {
    const ALL: [Reason; 7] = [
        Reason::Refused,
        Reason::Unreachable,
        Reason::TimedOut,
        Reason::Prohibited,
        Reason::NoRoom,
        Reason::Aborted,
        Reason::Restarted,
    ];
    fn code(self) -> u8 {
        self as u8 + 1
    }
    fn from_code(code: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|r| r.code() == code).ok_or(DecodeError::Invalid("reason"))
    }
}

impl ReceiptState {
    const ALL: [ReceiptState; 6] = [
        ReceiptState::Accept,
        ReceiptState::Wait,
        ReceiptState::Complete,
        ReceiptState::AlreadyHave,
        ReceiptState::Unknown,
        ReceiptState::Refuse,
    ];
    fn code(self) -> u8 {
        self as u8
    }
    fn from_code(code: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|s| s.code() == code).ok_or(DecodeError::Invalid("receipt state"))
    }
}

fn flag(byte: u8, what: &'static str) -> Result<bool, DecodeError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid(what)),
    }
}

fn parse_address(r: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    let ip = match r.u8()? {
        4 => IpAddr::V4(Ipv4Addr::from(r.array::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(r.array::<16>()?)),
        _ => return Err(DecodeError::Invalid("address family")),
    };
    Ok(SocketAddr::new(ip, r.u16()?))
}

fn emit_address(address: SocketAddr, w: &mut Writer<'_>) -> Result<(), NoRoom> {
    match address.ip() {
        IpAddr::V4(ip) => w.u8(4).and_then(|()| w.put(&ip.octets()))?,
        IpAddr::V6(ip) => w.u8(6).and_then(|()| w.put(&ip.octets()))?,
    }
    w.u16(address.port())
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
