//! Bytes to frames.

use super::field::{flag, parse_address, parse_reach};
use super::{
    Answered, CompressedFrame, FIRST_SKIPPABLE, FlowName, Frame, HEARD_MAX, LaneAck, Open, Order, PacketFrame, Passage,
    Ranges, Reason, ReceiptState, RepairFrame, Seal, Word, kind,
};
use crate::codec::{DecodeError, Reader};
use crate::datagram::SHORT_DIGEST_LEN;

impl<'a> Frame<'a> {
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
                let ranges = Ranges::parse_numbers(r)?;
                Frame::LaneAck(LaneAck { lane, ranges, ack_delay_us, arrival_us, ecn })
            }
            kind::ACK_WISH => {
                let (lane, packets, delay_us) = (r.u8()?, r.varint()?, r.varint()?);
                Frame::AckWish { lane, packets, delay_us, now: flag(r.u8()?, "ack wish")? }
            }
            kind::CLOSE => Frame::Close,
            kind::PROTECTED => Frame::Protected,
            kind::REPAIR => Frame::Repair(RepairFrame::parse(r)?),
            kind::REPAIRED => Frame::Repaired { lane: r.u8()?, numbers: Ranges::parse_numbers(r)? },
            kind::PACKET => {
                let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
                Frame::Packet(PacketFrame::parse(&mut Reader::new(r.take(len)?))?)
            }
            kind::COMPRESSED => Frame::Compressed(CompressedFrame::parse(r)?),
            kind::HEARD => {
                let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
                let digests = r.take(len)?;
                if digests.is_empty() || !len.is_multiple_of(SHORT_DIGEST_LEN) {
                    return Err(DecodeError::Invalid("digests"));
                }
                if len > HEARD_MAX * SHORT_DIGEST_LEN {
                    return Err(DecodeError::TooLong("digests"));
                }
                Frame::Heard { digests }
            }
            kind::DATA_BY_DIGEST => {
                let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
                let mut body = Reader::new(r.take(len)?);
                let (flow, offset, len) = (FlowName::parse(&mut body)?, body.varint()?, body.varint()?);
                let digest = body.array()?;
                // No datagram holds more open octets.
                if !body.is_empty() || len == 0 || len > u64::from(u16::MAX) {
                    return Err(DecodeError::Invalid("data by digest"));
                }
                Frame::DataByDigest { flow, offset, len, digest }
            }
            kind::PATH_CHALLENGE => Frame::PathChallenge(parse_token(r)?),
            kind::PATH_RESPONSE => Frame::PathResponse(parse_token(r)?),
            kind::LANE_GONE => {
                if r.varint()? != 1 + 8 {
                    return Err(DecodeError::Invalid("lane gone"));
                }
                Frame::LaneGone { lane: r.u8()?, next: u64::from_be_bytes(r.array()?) }
            }
            kind::METERED => {
                if r.varint()? != 2 {
                    return Err(DecodeError::Invalid("metered"));
                }
                Frame::Metered { lanes: r.u8()?, order: r.u8()? }
            }
            other if other >= FIRST_SKIPPABLE => {
                let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
                r.take(len)?;
                Frame::Unknown { kind: other }
            }
            other => return Self::parse_flow_frame(other, r),
        })
    }

    fn parse_flow_frame(kind: u64, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match kind {
            kind::OPEN | kind::OPEN_PASSAGE => Frame::Open(Open {
                flow: FlowName::parse(r)?,
                source: parse_address(r)?,
                target: parse_address(r)?,
                credit: r.varint()?,
                passage: if kind == kind::OPEN_PASSAGE { Some(Passage::parse(r)?) } else { None },
            }),
            kind::ANSWER | kind::ANSWER_PASSAGE | kind::ANSWER_SEALED => {
                let flow = FlowName::parse(r)?;
                let refusal = match r.u8()? {
                    0 => None,
                    code => Some(Reason::from_code(code)?),
                };
                let credit = r.varint()?;
                let edge = match kind {
                    kind::ANSWER => None,
                    kind::ANSWER_PASSAGE => Some(Answered { received: r.varint()?, seal: None }),
                    _ => Some(Answered { received: r.varint()?, seal: Some(Seal::parse(r)?) }),
                };
                Frame::Answer { flow, refusal, credit, edge }
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
            kind::RESET | kind::RESET_AFTER => {
                let (flow, reason) = (FlowName::parse(r)?, Reason::from_code(r.u8()?)?);
                let after = if kind == kind::RESET_AFTER { Some(parse_reach(r, "reset")?) } else { None };
                Frame::Reset { flow, reason, after }
            }
            kind::FORGET => Frame::Forget { below: r.varint()?, ranges: Ranges::parse(r)? },
            kind::PROGRESS | kind::PROGRESS_WORD => {
                let (flow, reach) = (FlowName::parse(r)?, parse_reach(r, "progress")?);
                let word = if kind == kind::PROGRESS_WORD { Some(Word::parse(r)?) } else { None };
                Frame::Progress { flow, reach, word }
            }
            _ => return Err(DecodeError::Invalid("frame type")),
        })
    }
}

/// The octets of a path challenge or its response, behind their length.
fn parse_token(r: &mut Reader<'_>) -> Result<[u8; 8], DecodeError> {
    if r.varint()? != 8 {
        return Err(DecodeError::Invalid("path challenge"));
    }
    r.array()
}

/// The packet stands behind another one.
pub(super) const FLAG_ORDER: u8 = 1;
/// The bytes are a piece of the packet.
pub(super) const FLAG_PIECE: u8 = 2;
/// Later packets may be told by the packet's headers.
pub(super) const FLAG_KEEP: u8 = 4;

impl<'a> PacketFrame<'a> {
    /// Reads the frame's body, which ends where `r` does.
    fn parse(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flags = r.u8()?;
        if flags & !(FLAG_ORDER | FLAG_PIECE | FLAG_KEEP) != 0 {
            return Err(DecodeError::Invalid("packet flags"));
        }
        let number = r.varint()?;
        let order = if flags & FLAG_ORDER != 0 {
            let (back, hold_ms) = (r.varint()?, r.varint()?);
            if back == 0 || back > number {
                return Err(DecodeError::Invalid("packet order"));
            }
            Some(Order { back, hold_ms })
        } else {
            None
        };
        let piece = if flags & FLAG_PIECE != 0 { Some((r.u16()?, r.u16()?)) } else { None };
        let keep = flags & FLAG_KEEP != 0;
        if keep && piece.is_some() {
            return Err(DecodeError::Invalid("packet flags"));
        }
        let bytes = r.take_rest();
        let fits = piece.is_none_or(|(offset, total)| usize::from(offset) + bytes.len() <= usize::from(total));
        if bytes.is_empty() || !fits {
            return Err(DecodeError::Invalid("packet length"));
        }
        Ok(Self { number, order, piece, keep, bytes })
    }
}
