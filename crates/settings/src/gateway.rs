//! What gateways are told: `[gateways.NAME]` of scenarios and `[gateway]` of wavelaned's files.

use crate::knob::{Bounds, File, Group, Knob};
use crate::values::{OrOff, Setting};
use wavelane_base::{Octets, Ratio, Span};

/// How much of a flow a relay takes before its next hop has receipted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backpressure {
    /// As much as keeps both hops full, for flows that move.
    #[default]
    Adaptive,
    /// This many blocks of its next hop's block size: Hop's limit on outstanding blocks.
    Blocks(u8),
    /// Everything, as long as the pool has room.
    Off,
}

impl Setting for Backpressure {
    const WORDS: &'static [(&'static str, Self)] =
        &[("adaptive", Self::Adaptive), ("limit-1", Self::Blocks(1)), ("limit-2", Self::Blocks(2)), ("off", Self::Off)];
}

/// Several settings together, before which single ones go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// Block switching as it was published in 2009.
    Hop2009,
}

impl Setting for Preset {
    const WORDS: &'static [(&'static str, Self)] = &[("hop-2009", Self::Hop2009)];
}

/// What lanes in radio cells do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RadioLanes {
    /// Medium access sets the pace. Bulk goes in bursts of which the first frame is acknowledged, or in acknowledged aggregates.
    Paced,
    /// The same without any acknowledgement of bulk by the cell.
    Raw,
    /// The same as on cables: a controller sets the pace, and the cell acknowledges every frame.
    Plain,
}

impl Setting for RadioLanes {
    const WORDS: &'static [(&'static str, Self)] =
        &[("paced", Self::Paced), ("raw", Self::Raw), ("plain", Self::Plain)];
}

/// Whether flows across relays are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Seal {
    /// They are not.
    #[default]
    Off,
    /// From edge to edge; those that cannot be are refused.
    EndToEnd,
}

impl Setting for Seal {
    const WORDS: &'static [(&'static str, Self)] = &[("off", Self::Off), ("end-to-end", Self::EndToEnd)];
}

/// When a packet that is not split is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SentAgain {
    /// On evidence that it is lost.
    #[default]
    Evidence,
    /// By a timer alone, as the acknowledgement layer of 1998 did.
    Of1998,
}

impl Setting for SentAgain {
    const WORDS: &'static [(&'static str, Self)] = &[("evidence", Self::Evidence), ("1998", Self::Of1998)];
}

/// A gateway's settings; what is not set keeps the stack's or the machine's own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of GATEWAY")]
pub struct GatewayKnobs {
    pub pool: Option<Octets>,
    pub flows_max: Option<usize>,
    pub idle: Option<OrOff<Span>>,
    pub seal: Option<Seal>,
    pub preset: Option<Preset>,
    pub backpressure: Option<Backpressure>,
    pub micro_blocks: Option<bool>,
    pub block: Option<Octets>,
    pub rounds: Option<bool>,
    pub withhold: Option<u8>,
    pub cache: Option<Octets>,
    pub radio: Option<RadioLanes>,
    pub overhear: Option<bool>,
    pub tries: Option<SentAgain>,
    pub compress_headers: Option<bool>,
    pub mtu_max: Option<u16>,
    pub block_loss: Option<Ratio>,
    pub corruption: Option<Ratio>,
    pub buffer: Option<Octets>,
}

pub(crate) const SCENARIO: &[File] = &[File::Scenario];
pub(crate) const DAEMON: &[File] = &[File::Daemon];
const BOTH: &[File] = &[File::Scenario, File::Daemon];

const MIB: u64 = 1 << 20;

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const GATEWAY: Group<GatewayKnobs> = Group(&[
    Knob { name: "pool", stands: BOTH, bounds: Bounds::of(MIB, 1 << 36), field: |k| &mut k.pool,
        default: "the less of an eighth of the memory and a quarter of its control group's, within 16 MiB and 1 GiB",
        says: "memory that all flows share; one flow alone gets up to a sixth of it, and needs rate x RTT, more under heavy loss" },
    Knob { name: "flows-max", stands: BOTH, bounds: Bounds::of(1, MIB), field: |k| &mut k.flows_max,
        default: "4096; less below 384 MB of memory, or a limit of 192 MB", says: "most connections at once" },
    Knob { name: "idle", stands: BOTH, bounds: Bounds::times(Span::from_secs(1), Span::from_secs(3_600_000)), field: |k| &mut k.idle,
        default: "`432000 s`: five days", says: "idle time after which a connection is reset at both ends" },
    Knob { name: "seal", stands: BOTH, bounds: Bounds::NONE, field: |k| &mut k.seal, default: "`off`",
        says: "whether flows across relays are sealed from edge to edge; a flow of which only one edge seals is refused" },
    Knob { name: "preset", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.preset, default: "none",
        says: "for experiments, as what follows: `block = \"1 MB\"`, `rounds = true` and `backpressure = \"limit-1\"`, as in 2009; keys beside it go before it" },
    Knob { name: "backpressure", stands: BOTH, bounds: Bounds::NONE, field: |k| &mut k.backpressure, default: "`adaptive`",
        says: "how much of a flow it accepts, as a relay, before its next hop has it: what keeps both hops full, one or two blocks, or anything that fits the pool" },
    Knob { name: "micro-blocks", stands: BOTH, bounds: Bounds::NONE, field: |k| &mut k.micro_blocks, default: "`true`",
        says: "whether small exchanges go ahead of bulk" },
    // A smaller block is all receipts; a larger one is more than a relay's share of the pool.
    Knob { name: "block", stands: BOTH, bounds: Bounds::of(4 << 10, 64 * MIB), field: |k| &mut k.block,
        default: "each path decides: 1.5 BDP, 64 KiB to 4 MiB", says: "the size of its blocks" },
    Knob { name: "rounds", stands: BOTH, bounds: Bounds::NONE, field: |k| &mut k.rounds, default: "`false`",
        says: "whether what is lost of a block is retransmitted once all of the block was sent, instead of at once" },
    Knob { name: "withhold", stands: BOTH, bounds: Bounds::of(1, 255).or_zero(), field: |k| &mut k.withhold,
        default: "0; in radio cells 1 with `radio = \"paced\"` and under `hop-2009`",
        says: "how many large blocks it receives at once by one port or cell, of all senders there together; 0 is no limit. Set it at both ends ([why](gateway.md#senders-that-take-turns))" },
    // Less than two of the smallest blocks is useless.
    Knob { name: "cache", stands: BOTH, bounds: Bounds::of(128 << 10, 1 << 36).or_zero(), field: |k| &mut k.cache, default: "16 MiB",
        says: "how many forwarded bytes it keeps, as a relay, for blocks that a later node loses; `\"0 B\"` turns virtual retransmission off, at the edges as well" },
    Knob { name: "radio", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.radio, default: "`paced`; under `hop-2009` `raw`",
        says: "what its lanes in radio cells do. `paced`: medium access sets the pace instead of a congestion controller; bulk goes in bursts within the TXOP of its category (set `edca`) of which the first frame is acknowledged, control as voice and small exchanges as video; one sender at a time has a turn (`withhold` of 1). `raw`: the same without any link-layer ACK of bulk. In a cell with aggregates every frame is acknowledged, and a long aggregate of bulk follows an RTS. `plain`: as on cables" },
    Knob { name: "overhear", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.overhear, default: "`false`",
        says: "with `seal`, and unless `radio = \"plain\"`: its radios hand up frames for others, and what a neighbour reports to have overheard of a sealed flow is not sent to it. It shows the ciphertext of such flows to everybody in the cell ([hop](../protocol/hop.md#overheard-bytes)). Set it at all gateways of the path. A station overhears what it decodes and is not for it; stations that decode each other are neighbours, so of `a`, `b`, `c` the last decodes the first one way: `hear = \"decode\"` in the `pairs` from `a` to `c`, `\"sense\"` from `c` to `a`" },
    Knob { name: "tries", stands: BOTH, bounds: Bounds::NONE, field: |k| &mut k.tries, default: "`evidence`",
        says: "when a packet that is not split is sent again; `1998`: by a timer alone, at gaps that double from the RTT to 0.1 s, for 1 s" },
    Knob { name: "compress-headers", stands: BOTH, bounds: Bounds::NONE, field: |k| &mut k.compress_headers, default: "`true`",
        says: "whether TCP packets that are not split cross links below some 10 Mbit/s by what differs from an earlier one, if the peer takes that: an acknowledgement of 52 octets in 18" },
    // IPv6 needs the least everywhere (RFC 8200, section 5); no lane carries jumbograms.
    Knob { name: "mtu-max", stands: BOTH, bounds: Bounds::of(1_280, 1_500), field: |k| &mut k.mtu_max, default: "1500",
        says: "the largest packet tried on a lane: less for a path known to be narrow" },
    Knob { name: "block-loss", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.block_loss, default: "0",
        says: "a fault: a block of 64 KiB of a relayed flow is lost once receipted, before any of it is forwarded or read; never a direction's first" },
    Knob { name: "corruption", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.corruption, default: "0",
        says: "a fault: as a relay it changes one bit of a piece (at most 16 KiB) of a flow that it forwards" },
    Knob { name: "buffer", stands: SCENARIO, bounds: Bounds::of(1 << 10, 1 << 30), field: |k| &mut k.buffer, default: "256 KiB",
        says: "as a proxy: bytes that wait in each direction of a connection, besides those in its two sockets" },
]);
