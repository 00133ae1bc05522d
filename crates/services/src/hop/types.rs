//! The words the block service and its link exchange.

use std::net::SocketAddr;
use wavelane_base::{Chance, Instant, Octets, Ratio, Span};
use wavelane_wire::frame::{Answered, FlowName, Passage, Reach, Reason, Word};

/// A block service's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopConfig {
    /// Most flows at once, both openers together.
    pub flows_max: usize,
    /// Bytes that all flows' buffers share; half for bytes to send, half for received bytes not yet read.
    pub pool: Octets,
    /// A flow of which nothing moved for so long is reported as idle.
    pub idle: Option<Span>,
    /// Whether few bytes go ahead of many: without, every direction is bulk.
    pub micro_blocks: bool,
    /// The size of blocks, if the path is not to decide.
    pub block: Option<Octets>,
    /// Whether what is lost of a block is repeated once all of it was sent, instead of at once.
    pub rounds: bool,
    /// Whether the owner decides which large blocks are received at once: see [`super::Hop::grant`].
    pub withhold: bool,
}

/// How far ahead of its reader a flow's sender may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Window {
    /// As far as the path needs to stay full.
    #[default]
    Path,
    /// So many bytes.
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

/// A fault, for simulations: of flows across relays a whole block that was receipted is lost with some chance, before any of
/// it is passed on.
#[derive(Clone, Debug)]
pub struct Losing {
    /// How likely.
    pub p: Ratio,
    /// The dice.
    pub chance: Chance,
}

impl Losing {
    pub(super) fn happens(&mut self) -> bool {
        self.chance.happens(self.p)
    }
}

/// What a block service may use of the limits.
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
    /// Bytes from `offset` on that were receipted before.
    Again {
        /// First byte.
        offset: u64,
    },
    /// The wish to open the flow.
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
    /// The opener's word on flows that are over.
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
    /// Which sending of it: grows with every frame written.
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
        /// What the opener said of the way behind it.
        passage: Option<Passage>,
    },
    /// The far server answered; what the other edge says if relays lie between.
    Accepted(FlowName, Option<Answered>),
    /// Across relays: how far the other edge has taken our bytes. Only ever grows, or with a word has a later one.
    Progress(FlowName, Reach, Option<Word>),
    /// The flow was not opened; it is forgotten.
    Refused(FlowName, Reason),
    /// The far side reset the flow after bytes that are still to be read; [`HopEvent::Reset`] follows once they are.
    Ending(FlowName),
    /// `read` has something to say. Edge-triggered: read until `Blocked`.
    Readable(FlowName),
    /// `write` accepts bytes again after it accepted fewer than offered.
    Writable(FlowName),
    /// The peer asks which of these receipted bytes are here still; reply with [`super::Hop::answer_vtx`].
    Vtx(FlowName, u64, u64),
    /// Of the bytes asked for by [`super::Hop::offer_vtx`] the peer has not these; reply with [`super::Hop::send_again`].
    Lacks(FlowName, Vec<(u64, u64)>),
    /// Bytes came again that were read here and that our answer said are not here any more: offset and bytes.
    Again(FlowName, u64, Vec<u8>),
    /// The other edge said again how far it is, after we asked for bytes.
    ProgressAgain(FlowName),
    /// The peer has bytes of a withheld flow that wait for [`super::Hop::grant`].
    Asks(FlowName),
    /// All that was granted of a flow is here.
    Filled(FlowName),
    /// The peer receipted bytes of a flow whose window is [`Window::Octets`].
    Receipted(FlowName),
    /// The flow was abandoned by the far side or by its restart; it is forgotten.
    Reset(FlowName, Reason),
    /// The far side gave up this way to the flow and says so: another may follow. It is forgotten.
    Withdrawn(FlowName),
    /// Nothing of the flow was written, read, received or receipted for [`HopConfig::idle`]; its owner may have ended it
    /// already. Said again after that time.
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

/// Counters of one block service; they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Payload bytes sent for the first time.
    pub first_octets: u64,
    /// Payload bytes sent again because a sending was lost or a receipt contradicted an acknowledgement.
    pub repair_octets: u64,
    /// Payload bytes sent again as copies of micro-blocks, before anything was known to be lost.
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
    /// Received bytes dropped because the pool had no room for them or for telling them apart; the sender repairs them.
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
    /// Those that came too soon after another of the same flow.
    pub dropped_vtx_often: u64,
    /// Payload bytes sent again because the peer lost them after it had receipted them; part of `repair_octets`.
    pub vtx_octets: u64,
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
        ]
    }
}

/// The block service now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HopStatus {
    /// Flows their owners still know, or whose last bytes are being brought over.
    pub flows: usize,
    /// Flows that are over but whose last word has not provably arrived.
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
