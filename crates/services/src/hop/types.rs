//! The words the block service and its link exchange.

use std::net::SocketAddr;
use wavelane_base::{Chance, Instant, Octets, Ratio, Span};
use wavelane_transport::Digest;
use wavelane_wire::frame::{Answered, FlowName, Passage, Reach, Reason, Word};

/// A block service's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopConfig {
    /// Most flows at once, both openers together.
    pub flows_max: usize,
    /// Bytes that all flows' buffers share; half for bytes to send, half for received bytes not yet read.
    pub pool: Octets,
    /// A flow without any progress for this long is reported as idle.
    pub idle: Option<Span>,
    /// Whether small exchanges precede bulk; if not, every direction is bulk.
    pub micro_blocks: bool,
    /// The size of blocks; `None` derives it from the path.
    pub block: Option<Octets>,
    /// Whether lost parts of a block are retransmitted only after all of it was sent, instead of at once.
    pub rounds: bool,
    /// Whether the owner decides which large blocks are received at once: see [`super::Hop::grant`].
    pub withhold: bool,
}

/// How far a flow's sender may be ahead of the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Window {
    /// As far as the path needs to stay full.
    #[default]
    Path,
    /// This many bytes.
    Octets(u64),
    /// As far as the pool has room.
    Pool,
}

impl Default for HopConfig {
    fn default() -> Self {
        Self {
            flows_max: 4096,
            pool: Octets::new(64 << 20),
            idle: None,
            micro_blocks: true,
            block: None,
            rounds: false,
            withhold: false,
        }
    }
}

/// A fault, for simulations: on flows across relays a whole receipted block is lost with this probability, before any of it is
/// passed on.
#[derive(Clone, Debug)]
pub struct Losing {
    /// The probability.
    pub p: Ratio,
    /// The dice.
    pub chance: Chance,
}

impl Losing {
    pub(super) fn happens(&mut self) -> bool {
        self.chance.happens(self.p)
    }
}

/// The part of the limits that a block service may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lent {
    pub(super) flows: usize,
    pub(super) pool: Octets,
}

/// What kind of frame a datagram carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// Bytes `offset .. offset + len` of the flow.
    Data {
        /// First byte.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Bytes from `offset` on that were receipted earlier.
    Again {
        /// First byte.
        offset: u64,
    },
    /// The request to open the flow.
    Open,
    /// The answer to it.
    Answer,
    /// A question about a block.
    Offer,
    /// A VTX offer.
    Vtx,
    /// The answer to one.
    AlreadyHave,
    /// A receipt.
    Receipt,
    /// The end of our direction.
    Finish,
    /// The flow's abandonment.
    Reset,
    /// How far an edge has taken the other's bytes.
    Progress,
    /// The opener's statement of which flows are over.
    Forget,
}

/// One thing a datagram carried, handed back to [`super::Hop::delivered`] or [`super::Hop::lost`] once its fate is
/// known. Opaque to the link, which keeps it beside the packet number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The flow; meaningless for [`Item::Forget`].
    pub flow: FlowName,
    /// What it was.
    pub item: Item,
    /// Which transmission of it: grows with every frame written.
    pub serial: u64,
}

/// What the block service tells the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HopEvent {
    /// The peer wants us to connect to `target`. Reply with [`super::Hop::accept`] or [`super::Hop::refuse`].
    Incoming {
        /// The flow; `mine` is false.
        flow: FlowName,
        /// The application's address at the far side.
        source: SocketAddr,
        /// The target.
        target: SocketAddr,
        /// What the opener said about the path behind it.
        passage: Option<Passage>,
    },
    /// The far server answered; with what the other edge says if relays lie between.
    Accepted(FlowName, Option<Answered>),
    /// Across relays: how far the other edge has taken our bytes. The reach only grows, or its word is newer.
    Progress(FlowName, Reach, Option<Word>),
    /// The flow was not opened; it is forgotten. The last word of the other edge where the flow is over there, and it has one.
    Refused(FlowName, Reason, Option<Answered>),
    /// The far side reset the flow after bytes that are still unread; [`HopEvent::Reset`] follows once they are read.
    Ending(FlowName),
    /// `read` has something to return. Edge-triggered: read until `Blocked`.
    Readable(FlowName),
    /// `write` accepts bytes again after it accepted fewer than offered.
    Writable(FlowName),
    /// The peer asks which of these receipted bytes are still held here; reply with [`super::Hop::answer_vtx`].
    Vtx(FlowName, u64, u64),
    /// The peer lacks these of the bytes asked for by [`super::Hop::offer_vtx`]; reply with [`super::Hop::send_again`].
    Lacks(FlowName, Vec<(u64, u64)>),
    /// Received again: bytes that were read here and that our answer reported as no longer held: offset and bytes.
    Again(FlowName, u64, Vec<u8>),
    /// Received from the peer openly, so that others may have overheard them: these bytes (offset and number) have this digest.
    Open(FlowName, (u64, u64), Digest),
    /// The peer names so many bytes at this offset, which we overheard, by their digest; reply with [`super::Hop::take_overheard`].
    ByDigest(FlowName, u64, u64, Digest),
    /// The other edge repeated its progress after we asked for bytes.
    ProgressAgain(FlowName),
    /// The peer has bytes of a withheld flow waiting for [`super::Hop::grant`].
    Asks(FlowName),
    /// All granted bytes of a flow were received.
    Filled(FlowName),
    /// The peer receipted bytes, or gave credit, of a flow whose window is [`Window::Octets`] or that has [`Onward`].
    Receipted(FlowName),
    /// The flow was abandoned by the far side or by its restart; it is forgotten.
    Reset(FlowName, Reason),
    /// The far side withdrew this path of the flow: another may follow. It is forgotten.
    Withdrawn(FlowName),
    /// Nothing of the flow was written, read, received or receipted for [`HopConfig::idle`]; its owner may have ended it already.
    /// Reported again after that time.
    Idle(FlowName),
    /// Both directions ended in an orderly way and everything is acknowledged and read; it is forgotten.
    Closed(FlowName),
}

/// Why a flow could not be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HopOpenError {
    /// The flow table is at its limit.
    #[error("the flow table is full ({0} flows): raise `flows_max` or wait until some close")]
    TableFull(usize),
}

/// What lies ahead of a flow that a relay sends on by the radio by which it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Onward {
    /// The next hop has everything that came.
    pub drained: bool,
    /// It has also sent that on: neither of the next two hops sends while a turn comes here.
    pub clear: bool,
    /// Bytes that it has.
    pub receipted: u64,
}

/// Counters of one block service; they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Payload bytes sent for the first time.
    pub first_octets: u64,
    /// Payload bytes retransmitted because a transmission was lost or a receipt contradicted an acknowledgement.
    pub repair_octets: u64,
    /// Payload bytes retransmitted as copies of micro-blocks, before any loss was known.
    pub copy_octets: u64,
    /// Small frames sent again as copies.
    pub control_copies: u64,
    /// Received payload bytes that were new.
    pub received_octets: u64,
    /// Received payload bytes that were already held or read.
    pub duplicate_octets: u64,
    /// Receipts written.
    pub receipts: u64,
    /// Offers written.
    pub offers: u64,
    /// Questions asked after a silence or at zero credit.
    pub probes: u64,
    /// Bytes repaired because a receipt contradicted a lane ack.
    pub contradicted_octets: u64,
    /// Flows opened by us.
    pub opened: u64,
    /// Flows opened by the peer.
    pub incoming: u64,
    /// Flows that ended in an orderly way.
    pub closed: u64,
    /// Flows reset, by either side.
    pub resets: u64,
    /// Incoming flows refused because a table was full.
    pub refused_table_full: u64,
    /// Received bytes dropped because the pool had no room for them or for their range bookkeeping; the sender repairs them.
    pub dropped_pool_full: u64,
    /// Received bytes past the credit we gave.
    pub dropped_beyond_credit: u64,
    /// Frames for flows that are over or were never opened.
    pub dropped_unknown_flow: u64,
    /// Frames that contradict what the peer said before or what we sent.
    pub protocol_errors: u64,
    /// Progress frames received.
    pub progress_frames: u64,
    /// VTX offers received and answered.
    pub vtx_offers: u64,
    /// VTX offers that came too soon after another of the same flow.
    pub dropped_vtx_often: u64,
    /// Payload bytes retransmitted because the peer lost them after it had receipted them; part of `repair_octets`.
    pub vtx_octets: u64,
    /// Payload bytes not sent because the peer had overheard them: their digest was.
    pub by_digest_octets: u64,
    /// Payload bytes taken from what was overheard.
    pub overheard_octets: u64,
}

impl Counters {
    /// The counters by name, in a fixed order.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("hop_first_octets", self.first_octets),
            ("hop_repair_octets", self.repair_octets),
            ("hop_copy_octets", self.copy_octets),
            ("hop_control_copies", self.control_copies),
            ("hop_received_octets", self.received_octets),
            ("hop_duplicate_octets", self.duplicate_octets),
            ("hop_receipts", self.receipts),
            ("hop_offers", self.offers),
            ("hop_probes", self.probes),
            ("hop_contradicted_octets", self.contradicted_octets),
            ("hop_flows_opened", self.opened),
            ("hop_flows_incoming", self.incoming),
            ("hop_flows_closed", self.closed),
            ("hop_flows_reset", self.resets),
            ("hop_refused_table_full", self.refused_table_full),
            ("dropped_hop_pool_full", self.dropped_pool_full),
            ("dropped_hop_beyond_credit", self.dropped_beyond_credit),
            ("dropped_hop_unknown_flow", self.dropped_unknown_flow),
            ("hop_protocol_errors", self.protocol_errors),
            ("hop_progress_frames", self.progress_frames),
            ("hop_vtx_offers", self.vtx_offers),
            ("hop_vtx_octets", self.vtx_octets),
            ("dropped_hop_vtx_often", self.dropped_vtx_often),
            ("hop_by_digest_octets", self.by_digest_octets),
            ("hop_overheard_octets", self.overheard_octets),
        ]
    }
}

/// The block service now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HopStatus {
    /// Flows their owners still know, or whose last bytes are still being delivered.
    pub flows: usize,
    /// Flows that are over but whose last word is not known to have arrived.
    pub closing: usize,
    /// Bytes written and not yet receipted.
    pub to_send: u64,
    /// Bytes received and not yet read.
    pub unread: u64,
}

/// The earlier of two optional deadlines.
pub(super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    }
}
