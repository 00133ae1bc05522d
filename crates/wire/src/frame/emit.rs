//! Frames to bytes.

use super::field::emit_address;
use super::parse::{FLAG_KEEP, FLAG_ORDER, FLAG_PIECE};
use super::{Answered, FlowName, Frame, Open, PacketFrame, Reason, kind};
use crate::codec::{NoRoom, Writer, varint_len};

impl Frame<'_> {
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
            Frame::Close => w.varint(kind::CLOSE),
            Frame::Protected => w.varint(kind::PROTECTED),
            Frame::Repair(repair) => repair.emit(w),
            Frame::Repaired { lane, numbers } => {
                w.varint(kind::REPAIRED)?;
                w.u8(*lane)?;
                numbers.emit(w)
            }
            Frame::Packet(packet) => packet.emit(w),
            Frame::Compressed(packet) => packet.emit(w),
            Frame::Heard { digests } => {
                w.varint(kind::HEARD)?;
                w.varint(digests.len() as u64)?;
                w.put(digests)
            }
            Frame::DataByDigest { flow, offset, len, digest } => {
                let lens = [flow.number << 1, *offset, *len].map(|n| varint_len(n).unwrap_or(8));
                w.varint(kind::DATA_BY_DIGEST)?;
                w.varint((lens.iter().sum::<usize>() + digest.len()) as u64)?;
                flow.emit(w)?;
                w.varint(*offset)?;
                w.varint(*len)?;
                w.put(digest)
            }
            Frame::PathChallenge(token) => emit_token(kind::PATH_CHALLENGE, token, w),
            Frame::PathResponse(token) => emit_token(kind::PATH_RESPONSE, token, w),
            Frame::LaneGone { lane, next } => {
                w.varint(kind::LANE_GONE)?;
                w.varint(1 + 8)?;
                w.u8(*lane)?;
                w.put(&next.to_be_bytes())
            }
            Frame::Metered { lanes, order } => {
                w.varint(kind::METERED)?;
                w.varint(2)?;
                w.u8(*lanes)?;
                w.u8(*order)
            }
            Frame::Unknown { .. } => Ok(()),
            _ => self.emit_flow_frame(w),
        }
    }

    fn emit_flow_frame(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        match self {
            Frame::Open(open) => open.emit(w),
            Frame::Answer { flow, refusal, credit, edge } => {
                w.varint(match edge {
                    None => kind::ANSWER,
                    Some(Answered { seal: None, .. }) => kind::ANSWER_PASSAGE,
                    Some(Answered { seal: Some(_), .. }) => kind::ANSWER_SEALED,
                })?;
                flow.emit(w)?;
                w.u8(refusal.map_or(0, Reason::code))?;
                w.varint(*credit)?;
                let Some(edge) = edge else { return Ok(()) };
                w.varint(edge.received)?;
                edge.seal.map_or(Ok(()), |seal| seal.emit(w))
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
            Frame::Reset { flow, reason, after } => {
                w.varint(if after.is_some() { kind::RESET_AFTER } else { kind::RESET })?;
                flow.emit(w)?;
                w.u8(reason.code())?;
                let Some(reach) = after else { return Ok(()) };
                w.varint(reach.received)?;
                w.u8(u8::from(reach.finished))
            }
            Frame::Forget { below, ranges } => {
                w.varint(kind::FORGET)?;
                w.varint(*below)?;
                ranges.emit(w)
            }
            Frame::Progress { flow, reach, word } => {
                w.varint(if word.is_some() { kind::PROGRESS_WORD } else { kind::PROGRESS })?;
                flow.emit(w)?;
                w.varint(reach.received)?;
                w.u8(u8::from(reach.finished))?;
                word.map_or(Ok(()), |word| word.emit(w))
            }
            Frame::Padding
            | Frame::Ping
            | Frame::LaneAck(_)
            | Frame::AckWish { .. }
            | Frame::Close
            | Frame::Protected
            | Frame::Repair(_)
            | Frame::Repaired { .. }
            | Frame::Packet(_)
            | Frame::Compressed(_)
            | Frame::Heard { .. }
            | Frame::DataByDigest { .. }
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
            | Frame::LaneGone { .. }
            | Frame::Metered { .. }
            | Frame::Unknown { .. } => Ok(()),
        }
    }
}

fn emit_token(kind: u64, token: &[u8; 8], w: &mut Writer<'_>) -> Result<(), NoRoom> {
    w.varint(kind)?;
    w.varint(token.len() as u64)?;
    w.put(token)
}

impl Open {
    fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(if self.passage.is_some() { kind::OPEN_PASSAGE } else { kind::OPEN })?;
        self.flow.emit(w)?;
        emit_address(self.source, w)?;
        emit_address(self.target, w)?;
        w.varint(self.credit)?;
        self.passage.map_or(Ok(()), |passage| passage.emit(w))
    }
}

impl PacketFrame<'_> {
    /// Octets of the frame before its bytes, the length field at its longest.
    pub fn head_len(&self) -> usize {
        // The type takes two octets, and so does the length of any packet that a datagram carries.
        2 + 4 + self.body_head_len()
    }

    /// Flags, number, order, piece.
    fn body_head_len(&self) -> usize {
        let number = |n| varint_len(n).unwrap_or(8);
        let order = self.order.map_or(0, |order| number(order.back) + number(order.hold_ms));
        1 + number(self.number) + order + if self.piece.is_some() { 4 } else { 0 }
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(kind::PACKET)?;
        w.varint((self.body_head_len() + self.bytes.len()) as u64)?;
        let (order, piece) = (self.order.map_or(0, |_| FLAG_ORDER), self.piece.map_or(0, |_| FLAG_PIECE));
        w.u8(order | piece | if self.keep { FLAG_KEEP } else { 0 })?;
        w.varint(self.number)?;
        if let Some(order) = self.order {
            w.varint(order.back)?;
            w.varint(order.hold_ms)?;
        }
        if let Some((offset, total)) = self.piece {
            w.u16(offset)?;
            w.u16(total)?;
        }
        w.put(self.bytes)
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
