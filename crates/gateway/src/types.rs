//! The types a gateway and its owner exchange.

use super::{KnownWay, Reason};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Address, FlowId, Instant, PortId, Rate, Span};

/// One configured neighbour, by its place in [`crate::Config::peers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub usize);

/// Why a flow could not even be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The flow table is at its limit.
    #[error("the flow table is full ({0} flows may go over this peer now): raise `flows_max` or wait")]
    TableFull(usize),
    /// No such peer.
    #[error("no such peer")]
    UnknownPeer,
    /// The routing table names no peer for the target.
    #[error("the routing table names no peer for {0}")]
    NoWay(IpAddr),
}

/// What a gateway tells its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GatewayEvent {
    /// A session with the peer is established; flows move.
    PeerUp(PeerId),
    /// Nothing authenticated was heard from the peer for a while although we asked. Flows are kept.
    PeerSilent(PeerId),
    /// A lane to it drops packets of a size that nearly every path carries, or no longer does.
    PathMtu {
        /// The peer.
        peer: PeerId,
        /// The lane's place in the configuration; `None` for one created for a lane of the peer.
        place: Option<usize>,
        /// The message.
        text: String,
    },
    /// It stayed silent for so long that it counts as down, until [`GatewayEvent::PeerUp`]: traffic should take other ways, and pending
    /// requests can be refused ([`crate::Gateway::refuse_unanswered`]). Established flows are kept.
    PeerDown(PeerId),
    /// The peer restarted (new boot epoch); its flows were reset.
    PeerRestarted(PeerId),
    /// The peer wants us to connect to `target` for an application at `source`. Already checked against the
    /// allowed prefixes. Answer with [`crate::Gateway::accept`] or [`crate::Gateway::refuse`].
    Incoming {
        /// Our name for the flow.
        flow: FlowId,
        /// Who asks.
        peer: PeerId,
        /// The application's address at the far side.
        source: SocketAddr,
        /// The target.
        target: SocketAddr,
    },
    /// The peer asked for a flow and was refused, because it may not use the flow's source or may not reach its target.
    Denied {
        /// Who asked.
        peer: PeerId,
        /// The source or the target.
        address: SocketAddr,
        /// Whether it is the source.
        by_source: bool,
    },
    /// The far server answered; bytes may be written.
    Accepted(FlowId),
    /// The flow was not opened; it is forgotten.
    Refused(FlowId, Reason),
    /// The far side reset the flow after bytes that are still unread; [`GatewayEvent::Reset`] follows once they are read.
    Ending(FlowId),
    /// `Streams::read` has something to return (bytes, end or reset). Edge-triggered: read until `Blocked`.
    Readable(FlowId),
    /// `Streams::write` accepts bytes again after it accepted fewer than offered.
    Writable(FlowId),
    /// The flow was abandoned by the far side or by the link; it is forgotten.
    Reset(FlowId, Reason),
    /// Both directions ended in an orderly way and everything we sent is acknowledged; it is forgotten.
    Closed(FlowId),
    /// Our handshakes get no answer: the peer is unreachable, or we have its key wrong. Repeated every minute.
    Unanswered {
        /// Whom we called.
        peer: PeerId,
        /// Where.
        address: Address,
    },
    /// The peer says that it does not know our key. Rate-limited.
    OwnKeyUnknown(PeerId),
    /// The peer answers, but the answer does not decrypt: the two pre-shared keys differ. Rate-limited.
    Unreadable(PeerId),
    /// What became of an echo that [`crate::Gateway::echo`] sent.
    Echo {
        /// Whom it asked.
        peer: PeerId,
        /// The lane's number.
        lane: usize,
        /// The owner's name for it.
        id: u32,
        /// From its leaving to the answer; `None` if it is taken for lost.
        round_trip: Option<Span>,
    },
    /// A line for the operator's log about something that a peer did, or who knows who. What a peer does is to be rate-limited for each.
    Notice {
        /// The peer that can cause it.
        peer: Option<PeerId>,
        /// The line.
        text: String,
    },
    /// A caller that knows our public key uses a key that is not configured. Rate-limited.
    UnknownCaller {
        /// The caller's public key; its possession is proven.
        public_key: [u8; 32],
        /// From where.
        from: Option<Address>,
    },
}

/// One occasion on which a sealed flow left its way because of what arrived on it, or did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distrust {
    /// How long ago.
    pub ago: Span,
    /// What came.
    pub what: &'static str,
    /// The flow's target.
    pub target: Option<SocketAddr>,
    /// The way that it left, as far as it is known here.
    pub way: Option<KnownWay>,
}

/// Datagrams, and their octets on the medium: with the headers around them, of IP and UDP where it is IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

impl Traffic {
    pub(super) fn count(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }
}

/// What a gateway knows of one peer, for `status`.
#[derive(Clone, Debug, Default)]
pub struct PeerStatus {
    /// The configured name.
    pub name: String,
    /// Whether a session is established and the peer was heard recently.
    pub up: bool,
    /// Where its datagrams come from.
    pub address: Option<Address>,
    /// Time since the last authenticated datagram.
    pub silence: Option<Span>,
    /// Smoothed round-trip time of the lane.
    pub rtt: Option<Span>,
    /// Lowest round-trip time in the base-delay window.
    pub rtt_min: Option<Span>,
    /// Queueing delay the controller sees now.
    pub queue_delay: Option<Span>,
    /// The controller's rate.
    pub rate: Option<Rate>,
    /// Share of our packets found lost recently.
    pub loss: f64,
    /// Share of its packets missing recently, on the worst of its lanes.
    pub loss_in: f64,
    /// Sent to it, and received from it, since the start.
    pub sent: Traffic,
    /// See `sent`.
    pub received: Traffic,
    /// Losses of ours that copies or repair symbols made good without waiting for a retransmission.
    pub repaired: u64,
    /// Largest IP packet the path is known to carry.
    pub path_mtu: usize,
    /// Why that is below the base that nearly every path carries, if it is.
    pub path_mtu_cause: Option<String>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// How often a flow left this way because a relay on it, the peer or one behind it, changed, forged or withheld something.
    pub distrusted: u64,
    /// The last of them.
    pub distrusted_last: Option<Distrust>,
    /// Its lanes; the values above are those of the preferred one.
    pub lanes: Vec<LaneStatus>,
    /// Its place in the configuration; `None` for one created for a lane of the peer.
    pub preferred: Option<usize>,
}

/// One lane to a neighbour, as the operator sees it.
#[derive(Clone, Debug)]
pub struct LaneStatus {
    /// Its number in datagrams.
    pub number: u8,
    /// Its place in the configuration; `None` for one created for a lane of the peer.
    pub place: Option<usize>,
    /// The port that sends its datagrams.
    pub port: PortId,
    /// Where they go.
    pub address: Option<Address>,
    /// Whether it is used: it is answered, or no other lane is either.
    pub works: bool,
    /// Whether it is a spare: others are preferred, by cost or by the choice of lane.
    pub spare: bool,
    /// Since when it leaves by the socket that it has; `None` since the start.
    pub since: Option<Instant>,
    /// Whether its traffic costs money.
    pub metered: bool,
    /// Whether only the peer says so: of its lane by the same path.
    pub metered_there: bool,
    /// Whether it may carry bulk.
    pub bulk: bool,
    /// Whether it carries small exchanges while others can.
    pub small: bool,
    /// Largest IP packet it is known to carry.
    pub path_mtu: usize,
    /// Why that is below the base that nearly every path carries, if it is.
    pub path_mtu_cause: Option<String>,
    /// Smoothed round-trip time.
    pub rtt: Option<Span>,
    /// The controller's rate.
    pub rate: Option<Rate>,
    /// Share of our packets found lost recently.
    pub loss: f64,
    /// IP bytes delivered since the start.
    pub delivered_bytes: u64,
    /// Packets of ours that were lost since the start.
    pub lost_packets: u64,
    /// Sent on it, and received from where it leads, since it exists.
    pub sent: Traffic,
    /// See `sent`.
    pub received: Traffic,
}

/// Everything `status` shows. Counters only grow.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Per peer, in configuration order.
    pub peers: Vec<PeerStatus>,
    /// Flows open now.
    pub flows: usize,
    /// Of those, flows whose way over a relay was lost and that wait to be resumed.
    pub flows_lost_way: usize,
    /// Flows relayed from one peer to another now.
    pub flows_relayed: usize,
    /// Bytes in flows' buffers now.
    pub buffered: u64,
    /// Bytes the packet service holds now.
    pub packets_buffered: u64,
    /// Overheard octets kept now, with bookkeeping.
    pub overheard: u64,
    /// Named counters, ordered; drops are `dropped_<reason>`.
    pub counters: Vec<(&'static str, u64)>,
}
