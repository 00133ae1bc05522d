//! The frames inside a sealed data datagram, wire version 1.
//!
//! A datagram holds frames back to back. Types below [`FIRST_SKIPPABLE`] are those of this version. Types from
//! there on carry their length after the type, so a receiver skips what it does not know.

mod compressed;
mod emit;
mod field;
mod parse;
mod repair;

pub use compressed::{AHEAD_MAX, CompressedFrame};
pub use emit::emit_data_to_end;
pub(crate) use field::emit_address;
pub use repair::{RepairFrame, repair_head_max};

use crate::codec::{DecodeError, Reader};
use crate::datagram::DIGEST_LEN;
#[cfg(doc)]
use crate::datagram::SHORT_DIGEST_LEN;
use std::net::SocketAddr;

/// Frame types from here on are `type, length, body` and are skipped when unknown.
pub const FIRST_SKIPPABLE: u64 = 0x40;
/// Most ranges a lane ack or receipt may carry: what one 1,200-byte datagram holds.
pub const RANGES_MAX: usize = 256;
/// Most digests in one report of what was overheard.
pub const HEARD_MAX: usize = 64;
/// Most bytes of a whole parcel.
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
    pub(super) const PROTECTED: u64 = 0x0f;
    pub(super) const REPAIR: u64 = 0x10;
    pub(super) const REPAIRED: u64 = 0x11;
    pub(super) const RESET_AFTER: u64 = 0x12;
    pub(super) const PROGRESS_WORD: u64 = 0x13;
    pub(super) const COMPRESSED: u64 = 0x14;
    pub(super) const OPEN_PASSAGE: u64 = 0x18;
    pub(super) const ANSWER_PASSAGE: u64 = 0x19;
    pub(super) const ANSWER_SEALED: u64 = 0x1a;
    /// The first of the skippable types.
    pub(super) const PACKET: u64 = 0x40;
    pub(super) const HEARD: u64 = 0x41;
    pub(super) const DATA_BY_DIGEST: u64 = 0x42;
    pub(super) const PATH_CHALLENGE: u64 = 0x48;
    pub(super) const PATH_RESPONSE: u64 = 0x49;
    pub(super) const LANE_GONE: u64 = 0x4a;
    pub(super) const METERED: u64 = 0x4b;
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

/// The state of a flow in a block service receipt.
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
    /// Complete: both applications have all data.
    Complete,
    /// Data forwarded by a relay is not what the other edge sealed.
    Corrupted,
}

/// Lets a flow survive the failure of a relay: its end-to-end name, and what was received so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Passage {
    /// Drawn at random by the edge that opened the flow. Knowledge of it is the right to resume the flow.
    pub token: [u8; 16],
    /// Relays passed so far.
    pub hops: u8,
    /// On resuming: bytes of the answering edge that the opening edge's application has.
    pub received: Option<u64>,
    /// A node that forwarded it has an alternative path: a failure is to be reported instead of waited out.
    pub choice: bool,
    /// Previous open attempts of the opening edge.
    pub attempt: u64,
    /// Set if the edges seal the flow: the opening edge's half of the keys, or on resuming its word.
    pub seal: Option<Seal<OPEN_KEYS_LEN>>,
}

/// Octets of the opening edge's handshake message.
pub const OPEN_KEYS_LEN: usize = 101;
/// Octets of the answering edge's.
pub const ANSWER_KEYS_LEN: usize = 49;

/// What an edge adds when a sealed flow is opened: its handshake message of `N` octets, or once the keys are agreed on its word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Seal<const N: usize> {
    /// A Noise message.
    Keys([u8; N]),
    /// Proof of what stands beside it.
    Word(Word),
}

/// Proof that what stands beside it was said by the other edge, and after everything with a lower count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Word {
    /// Words that the edge said before.
    pub count: u64,
    /// Under the key of the edge's direction.
    pub tag: [u8; crate::datagram::TAG_LEN],
}

/// What an answering edge says across relays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Answered {
    /// Bytes of the opening edge that its application has.
    pub received: u64,
    /// Set if the edges seal the flow.
    pub seal: Option<Seal<ANSWER_KEYS_LEN>>,
}

/// An edge's receive progress for its peer edge's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Reach {
    /// Bytes handed to the application.
    pub received: u64,
    /// So was the end of the direction.
    pub finished: bool,
}

/// A new flow, as its opener asks for it.
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
    /// Set if the flow may pass relays.
    pub passage: Option<Passage>,
}

/// An IP packet of the packet service, or a piece of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFrame<'a> {
    /// The packet's number: consecutive per sender and boot epoch, given when it is first sent.
    pub number: u64,
    /// The packet that it must not overtake, if any.
    pub order: Option<Order>,
    /// Where `bytes` stand in the packet if they are not all of it: offset of the first, and the packet's length.
    pub piece: Option<(u16, u16)>,
    /// Later packets may be told by this one's headers: of whole packets only, to neighbours that take [`CompressedFrame`].
    pub keep: bool,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A packet's place behind another one of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The other one's number is smaller by this; at least 1.
    pub back: u64,
    /// How long to wait for it at most, in milliseconds.
    pub hold_ms: u64,
}

/// One frame. `'a` borrows the decrypted datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// One byte of padding, as used in probes.
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
        /// Set if relays lie between the edges.
        edge: Option<Answered>,
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
    /// Both directions are abandoned: at once, or once the sender's has been delivered so far.
    Reset {
        /// The flow.
        flow: FlowName,
        /// Why.
        reason: Reason,
        /// What the receiver's application gets first: this many bytes of the sender's direction, and its end.
        after: Option<Reach>,
    },
    /// The opener has forgotten its flows below `below` and those in `ranges`: drop what is held for them.
    Forget {
        /// All the sender's own flows with smaller numbers are over.
        below: u64,
        /// And these.
        ranges: Ranges,
    },
    /// An edge's word to the other across relays: what its application has, so that it need not be kept any more.
    Progress {
        /// The flow.
        flow: FlowName,
        /// How far.
        reach: Reach,
        /// Of a sealed flow.
        word: Option<Word>,
    },
    /// The sender ends the session in an orderly way.
    Close,
    /// Keep this datagram: repair symbols may cover it. Its first frame.
    Protected,
    /// See [`RepairFrame`].
    Repair(RepairFrame<'a>),
    /// Datagrams of `lane` that were lost and made from repair symbols. Says nothing of the path.
    Repaired {
        /// The lane.
        lane: u8,
        /// Their numbers, newest first.
        numbers: Ranges,
    },
    /// See [`PacketFrame`].
    Packet(PacketFrame<'a>),
    /// See [`CompressedFrame`].
    Compressed(CompressedFrame<'a>),
    /// Open octets of datagrams for the receiver of this frame that its sender has overheard.
    Heard {
        /// Their digests cut to [`SHORT_DIGEST_LEN`] octets each, in the order in which they were heard, back to back.
        digests: &'a [u8],
    },
    /// Bytes of a flow that the receiver has overheard.
    DataByDigest {
        /// The flow.
        flow: FlowName,
        /// Offset of the first byte.
        offset: u64,
        /// How many.
        len: u64,
        /// The first octets of their SHA-256.
        digest: [u8; DIGEST_LEN],
    },
    /// Asks for [`Frame::PathResponse`] with the same octets, which proves that what is sent to the receiver's address
    /// arrives (RFC 9000, section 8.2).
    PathChallenge([u8; 8]),
    /// The answer to [`Frame::PathChallenge`].
    PathResponse([u8; 8]),
    /// The sender no longer sends on one of its lanes, from this number on; the reverse direction is dead.
    LaneGone {
        /// The lane.
        lane: u8,
        /// The number that its next packet would have.
        next: u64,
    },
    /// What the receiver sends back by these lanes of the sender costs money at the sender's end.
    Metered {
        /// A bit for each of the sender's lanes, the lowest for lane 0.
        lanes: u8,
        /// One more (modulo 256) than in the last one that said something else.
        order: u8,
    },
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
        !matches!(
            self,
            Frame::Padding
                | Frame::LaneAck(_)
                | Frame::Close
                | Frame::Protected
                | Frame::Repaired { .. }
                | Frame::Metered { .. }
                | Frame::Unknown { .. }
        )
    }
}

impl Reason {
    const ALL: [Reason; 9] = [
        Reason::Refused,
        Reason::Unreachable,
        Reason::TimedOut,
        Reason::Prohibited,
        Reason::NoRoom,
        Reason::Aborted,
        Reason::Restarted,
        Reason::Complete,
        Reason::Corrupted,
    ];
    const fn code(self) -> u8 {
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
    const fn code(self) -> u8 {
        self as u8
    }
    fn from_code(code: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|s| s.code() == code).ok_or(DecodeError::Invalid("receipt state"))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;
