//! A gateway's configuration. Rate, loss and delay of a link are measured; only the start rate of a slow lane may be configured.

use super::{PeerId, Withholding};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wavelane_base::{Address, Carrier, IpPrefix, LinkAcks, Octets, PortId, Span};
use wavelane_queue::Discipline;
use wavelane_services::arq::Tries;
use wavelane_services::packet::Repairs;
use wavelane_settings::{Backpressure, GATEWAY, GatewayKnobs, LaneKnobs, OrOff, OutOfBounds, Preset, Seal, SentAgain};
use wavelane_transport::session::LANES_MAX;
use wavelane_transport::{Choice, Controller};

impl Config {
    /// The same, with turns by default where medium access sets the pace: of senders that contend at once, collisions keep some silent for a
    /// second (decision 0050). `asked` is what was said of it.
    pub fn with_turns(mut self, asked: Option<u8>) -> Self {
        let paced = |lane: &LaneConfig| lane.carrier.radio.is_some_and(|radio| radio.acks != LinkAcks::Never);
        if asked.is_none() && self.peers.iter().flat_map(|peer| &peer.lanes).any(paced) {
            self.withhold = Some(Withholding::ON_RADIOS);
        }
        self
    }
}

impl LaneConfig {
    /// The controller: for a radio its own.
    pub(crate) fn effective_controller(&self) -> Controller {
        self.carrier.radio.map_or(self.controller, |radio| Controller::Radio(radio.rate))
    }
    /// Whether it is a radio.
    pub(crate) fn is_radio(&self) -> bool {
        self.carrier.radio.is_some()
    }
}

/// One way to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneConfig {
    /// The port by which its datagrams leave.
    pub port: PortId,
    /// Their destination; `None` if the neighbour calls us.
    pub address: Option<Address>,
    /// Whether nothing comes back on it: the peer uses other lanes, and what arrives at the port does not concern this one.
    pub one_way: bool,
    /// What carries its datagrams.
    pub carrier: Carrier,
    /// Its controller.
    pub controller: Controller,
    /// How it is used; its start rate is the controller `delay`'s.
    pub knobs: LaneKnobs,
}

impl LaneConfig {
    /// A lane by `port` to `address`, with the default controller.
    pub fn new(port: PortId, address: Option<Address>) -> Self {
        Self {
            port,
            address,
            one_way: false,
            carrier: Carrier::default(),
            controller: Controller::default(),
            knobs: LaneKnobs::default(),
        }
    }
}

/// One neighbour.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Name for people.
    pub name: String,
    /// Its static public key (X25519).
    pub public_key: [u8; 32],
    /// Optional pre-shared key mixed into the handshake.
    pub preshared_key: Option<[u8; 32]>,
    /// The lanes to it, at least one. A further lane of the peer, whose datagrams come to a port of ours, gets a lane of its own
    /// in return.
    pub lanes: Vec<LaneConfig>,
    /// How they are used.
    pub choice: Choice,
    /// After this long without a datagram to it one is sent, so that middleboxes (NAT, firewalls) keep letting the peer through,
    /// and its silence is noticed. A session is kept all the time.
    pub keepalive: Option<Span>,
    /// Source addresses it may use: for flows these alone, for packets also what its routes cover. Without a list its routes
    /// decide, for flows only if [`Config::keep_sources`] makes the source matter.
    pub allow_sources: Option<Vec<IpPrefix>>,
    /// Targets it may ask us to connect to, here or behind another peer.
    pub allow_targets: Vec<IpPrefix>,
    /// Destinations that flows of other peers and the packet service reach through this peer: the longest matching prefix of all
    /// peers decides.
    pub routes: Vec<IpPrefix>,
}

/// A gateway beyond relays: flows to and from the networks behind it are sealed for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeConfig {
    /// Name for people.
    pub name: String,
    /// Its static public key (X25519).
    pub public_key: [u8; 32],
    /// The networks behind it; the longest matching prefix of all edges decides.
    pub routes: Vec<IpPrefix>,
}

/// An alternative way to addresses that a peer's route covers: used by flows if that peer is down or leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detour {
    /// The addresses it leads to.
    pub prefix: IpPrefix,
    /// The peer, of [`Config::peers`].
    pub peer: PeerId,
    /// The lowest is tried first.
    pub metric: u32,
}

/// How packets that are not part of a split TCP flow are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// MTU of the inside (the TUN device), in bytes. It is fixed: packets larger than the path carries are fragmented inside the
    /// lane.
    pub inner_mtu: usize,
    /// Our own IPv4 address on the inside: the source of our ICMP errors.
    pub address4: Option<Ipv4Addr>,
    /// Our own IPv6 address on the inside: the source of our ICMPv6 errors.
    pub address6: Option<Ipv6Addr>,
    /// Bytes shared by queues, retransmission copies, reassembly and packets held for order, for all peers together.
    pub pool: usize,
    /// How packets wait for the lane.
    pub discipline: Discipline,
    /// How each class of packets is repaired.
    pub repairs: Repairs,
    /// When a packet is sent again.
    pub tries: Tries,
    /// Whether the owner routes packets for a down peer another way: then no ICMP error is sent.
    pub other_way: bool,
}

/// When packets are sent again, as `tries` of a file has it.
pub fn tries(knobs: &GatewayKnobs) -> Tries {
    match knobs.tries {
        Some(SentAgain::Of1998) => Tries::Of1998,
        _ => Tries::Evidence,
    }
}

impl Default for PacketConfig {
    fn default() -> Self {
        Self {
            inner_mtu: 1400,
            address4: None,
            address6: None,
            pool: 32 << 20,
            discipline: Discipline::default(),
            repairs: Repairs::default(),
            tries: Tries::default(),
            other_way: false,
        }
    }
}

/// Pool size if the machine's memory is unknown: one flow fills 400 Mbit/s x 600 ms with it. Memory is allocated as bytes wait,
/// not before.
pub const POOL_DEFAULT: Octets = Octets::new(256 << 20);
/// Blocks of the preset: 1 MB, as in the work of 2009.
const BLOCK_2009: Octets = Octets::new(1_000_000);
/// A relay's cache of forwarded bytes: a second of 100 Mbit/s. Memory is allocated as bytes pass, not before.
const CACHE_DEFAULT: Octets = Octets::new(16 << 20);
/// TCP keepalives of the applications end at the gateway, so a flow gets as long as Linux's connection tracking gives an
/// established connection (RFC 5382, REQ-5 requires at least 2 h 4 min). A dead application is detected long before: doors probe
/// their applications' kernels every two hours.
const IDLE: Span = Span::from_secs(5 * 24 * 3600);

/// Most detours: a gateway of a mesh of a hundred nodes with ten neighbours has as many.
pub const DETOURS_MAX: usize = 1 << 10;

/// Most next-hop addresses of peers: eight lanes of each of a thousand peers.
pub const NEXT_HOPS_KNOWN_MAX: usize = 1 << 13;

/// Most gateways beyond relays.
pub const EDGES_MAX: usize = 1 << 10;

/// A gateway's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our static private key (X25519).
    pub private_key: [u8; 32],
    /// The neighbours.
    pub peers: Vec<PeerConfig>,
    /// Ways in addition to the peers' routes, at most [`DETOURS_MAX`].
    pub detours: Vec<Detour>,
    /// Whether the table of [`crate::Gateway::set_table`] selects the peer for a target, of those whose routes cover it; detours
    /// are then ignored.
    pub by_table: bool,
    /// Next-hop addresses of peers for that table, in addition to those of their lanes; at most [`NEXT_HOPS_KNOWN_MAX`].
    pub next_hops: Vec<(IpAddr, PeerId)>,
    /// Whether flows across relays are sealed from edge to edge; those that cannot be are refused.
    pub seal: bool,
    /// The gateways they are sealed for, at most [`EDGES_MAX`].
    pub edges: Vec<EdgeConfig>,
    /// The networks on this side. Addresses that they cover by a longer prefix than a peer's route are local: flows to them are
    /// not relayed, and no peer may use them as sources.
    pub serves: Vec<IpPrefix>,
    /// Whether the owner connects from the applications' own addresses.
    pub keep_sources: bool,
    /// Most flows at once, both directions together.
    pub flows_max: usize,
    /// Bytes all flows' buffers share.
    pub pool: Octets,
    /// A flow without any progress for this long is reset; `None` waits for ever.
    pub idle: Option<Span>,
    /// Largest packet ever tried on a lane, if its carrier takes that; path-MTU search stays at or below it.
    pub mtu_max: usize,
    /// Whether this machine has AES instructions; AES-GCM is used if both sides have, ChaCha20-Poly1305 otherwise.
    pub aes_hardware: bool,
    /// Whether [`crate::Gateway::poll_key`] returns the data keys, for decrypting captures.
    pub log_keys: bool,
    /// The packet service; `None` turns it off.
    pub packets: Option<PacketConfig>,
    /// How much of a flow a relay takes before its next hop has it.
    pub backpressure: Backpressure,
    /// Whether small exchanges precede bulk: off only to measure the benefit.
    pub micro_blocks: bool,
    /// The size of blocks; `None` derives it from each path.
    pub block: Option<Octets>,
    /// Whether lost parts of a block are retransmitted only after all of it was sent, instead of at once.
    pub rounds: bool,
    /// How many large blocks are received at once; `None` for no limit.
    pub withhold: Option<Withholding>,
    /// Whether the bytes of sealed flows leave radios openly to peers that take that, and what is overheard of peers' datagrams is used.
    pub overhear: bool,
    /// Whether packets go by what differs from an earlier one's headers on slow links, to peers that take that.
    pub compress_headers: bool,
    /// Bytes of a relay's cache of forwarded data, for blocks that a downstream node loses. If zero, virtual retransmission is
    /// off.
    pub cache: Octets,
}

/// Why a configuration cannot work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Two peers share a key.
    #[error("peers '{0}' and '{1}' have the same public key: every gateway needs its own (wavelane keygen)")]
    SameKey(String, String),
    /// A peer without a lane, or with too many.
    #[error("peer '{peer}' has {got} lanes: give it 1 to {LANES_MAX}")]
    Lanes {
        /// Which.
        peer: String,
        /// Given.
        got: usize,
    },
    /// No lane may carry bulk.
    #[error("peer '{0}' has no lane for bulk: let one of its lanes carry it (bulk = true)")]
    NoBulk(String),
    /// No lane carries small exchanges.
    #[error("peer '{0}' has no lane for small exchanges: let one of its lanes carry them (small = true)")]
    NoSmall(String),
    /// A policy that chooses between lanes, with only one lane.
    #[error("peer '{0}' chooses by delivery-1998 between two lanes out, and has one: add a lane, or choose bond")]
    NoChoice(String),
    /// A detour by a peer that does not exist.
    #[error("a detour leads through peer number {0}, which does not exist: there are as many as [[peers]] tables")]
    NoSuchPeer(usize),
    /// A next hop for a peer that does not exist.
    #[error("next hop {0} stands for peer number {1}, which does not exist: there are as many as [[peers]] tables")]
    NobodyAt(IpAddr, usize),
    /// A setting is out of its bounds.
    #[error(transparent)]
    Setting(#[from] OutOfBounds),
    /// A limit is out of range.
    #[error("{what} must lie between {low} and {high}, not {got}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// Smallest.
        low: u64,
        /// Largest.
        high: u64,
        /// Given.
        got: u64,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            private_key: [0; 32],
            peers: Vec::new(),
            detours: Vec::new(),
            by_table: false,
            next_hops: Vec::new(),
            seal: false,
            edges: Vec::new(),
            serves: Vec::new(),
            keep_sources: false,
            flows_max: 4096,
            pool: POOL_DEFAULT,
            idle: Some(IDLE),
            mtu_max: 1500,
            aes_hardware: false,
            log_keys: false,
            packets: None,
            backpressure: Backpressure::default(),
            micro_blocks: true,
            block: None,
            rounds: false,
            withhold: None,
            overhear: false,
            compress_headers: true,
            cache: CACHE_DEFAULT,
        }
    }
}

impl Config {
    /// The same with these settings: single ones go before the preset, and the preset before what the configuration has.
    pub fn with(self, knobs: &GatewayKnobs) -> Self {
        let base = match knobs.preset {
            Some(Preset::Hop2009) => of_2009(self),
            None => self,
        };
        Self {
            pool: knobs.pool.unwrap_or(base.pool),
            flows_max: knobs.flows_max.unwrap_or(base.flows_max),
            idle: knobs.idle.map_or(base.idle, |OrOff(idle)| idle),
            seal: knobs.seal.map_or(base.seal, |seal| seal == Seal::EndToEnd),
            backpressure: knobs.backpressure.unwrap_or(base.backpressure),
            micro_blocks: knobs.micro_blocks.unwrap_or(base.micro_blocks),
            block: knobs.block.or(base.block),
            rounds: knobs.rounds.unwrap_or(base.rounds),
            // Whoever asks for it means every carrier, also where access is not contended for.
            withhold: match knobs.withhold {
                None => base.withhold,
                Some(0) => None,
                Some(at_once) => Some(Withholding { at_once, everywhere: true }),
            },
            cache: knobs.cache.unwrap_or(base.cache),
            compress_headers: knobs.compress_headers.unwrap_or(base.compress_headers),
            mtu_max: knobs.mtu_max.map_or(base.mtu_max, usize::from),
            ..base
        }
    }

    /// Rejects configurations that cannot work.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(detour) = self.detours.iter().find(|detour| detour.peer.0 >= self.peers.len()) {
            return Err(ConfigError::NoSuchPeer(detour.peer.0));
        }
        if let Some((address, peer)) = self.next_hops.iter().find(|(_, peer)| peer.0 >= self.peers.len()) {
            return Err(ConfigError::NobodyAt(*address, peer.0));
        }
        for (i, a) in self.edges.iter().enumerate() {
            if let Some(b) = self.edges[..i].iter().find(|b| b.public_key == a.public_key) {
                return Err(ConfigError::SameKey(b.name.clone(), a.name.clone()));
            }
        }
        for (i, a) in self.peers.iter().enumerate() {
            if let Some(b) = self.peers[..i].iter().find(|b| b.public_key == a.public_key) {
                return Err(ConfigError::SameKey(b.name.clone(), a.name.clone()));
            }
            if !(1..=LANES_MAX).contains(&a.lanes.len()) {
                return Err(ConfigError::Lanes { peer: a.name.clone(), got: a.lanes.len() });
            }
            if !a.lanes.iter().any(|lane| lane.knobs.bulk) {
                return Err(ConfigError::NoBulk(a.name.clone()));
            }
            if !a.lanes.iter().any(|lane| lane.knobs.small) {
                return Err(ConfigError::NoSmall(a.name.clone()));
            }
            if a.choice == Choice::Delivery1998 && a.lanes.len() < 2 {
                return Err(ConfigError::NoChoice(a.name.clone()));
            }
        }
        GATEWAY.check(&GatewayKnobs {
            flows_max: Some(self.flows_max),
            pool: Some(self.pool),
            block: self.block,
            withhold: self.withhold.map(|of| of.at_once),
            cache: Some(self.cache),
            ..GatewayKnobs::default()
        })?;
        let limits = [
            ("mtu_max (bytes)", 1280, 9000, self.mtu_max as u64),
            ("the number of detours", 0, DETOURS_MAX as u64, self.detours.len() as u64),
            ("the number of next hops", 0, NEXT_HOPS_KNOWN_MAX as u64, self.next_hops.len() as u64),
            ("the number of edges", 0, EDGES_MAX as u64, self.edges.len() as u64),
        ];
        let packets = self.packets.map(|packets| {
            [
                ("inner_mtu (bytes)", 1280, 9000, packets.inner_mtu as u64),
                ("packet pool (bytes)", 1 << 20, 1 << 36, packets.pool as u64),
            ]
        });
        let mut limits = limits.into_iter().chain(packets.into_iter().flatten());
        match limits.find(|&(_, low, high, got)| !(low..=high).contains(&got)) {
            Some((what, low, high, got)) => Err(ConfigError::OutOfRange { what, low, high, got }),
            None => Ok(()),
        }
    }
}

/// Block switching as it was published in 2009.
fn of_2009(config: Config) -> Config {
    Config {
        block: Some(BLOCK_2009),
        rounds: true,
        backpressure: Backpressure::Blocks(1),
        withhold: Some(Withholding::ON_RADIOS),
        ..config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_settings_go_before_the_preset() {
        let of = |knobs: GatewayKnobs| {
            let Config { backpressure, block, rounds, withhold, micro_blocks, .. } = Config::default().with(&knobs);
            (backpressure, block.map(Octets::get), rounds, withhold.map(|of| (of.at_once, of.everywhere)), micro_blocks)
        };
        assert_eq!(of(GatewayKnobs::default()), (Backpressure::Adaptive, None, false, None, true));
        let preset = GatewayKnobs { preset: Some(Preset::Hop2009), ..GatewayKnobs::default() };
        assert_eq!(of(preset.clone()), (Backpressure::Blocks(1), Some(1_000_000), true, Some((1, false)), true));
        let other = GatewayKnobs {
            backpressure: Some(Backpressure::Off),
            block: Some(Octets::new(8_192)),
            rounds: Some(false),
            withhold: Some(3),
            micro_blocks: Some(false),
            ..preset.clone()
        };
        assert_eq!(of(other), (Backpressure::Off, Some(8_192), false, Some((3, true)), false));
        assert_eq!(of(GatewayKnobs { withhold: Some(0), ..preset.clone() }).3, None);
    }
}
