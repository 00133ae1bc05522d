//! Keys and identity of neighbours, and the keys that protect their datagrams.
//!
//! [`Sessions`] is the part of a node that owns every key. It is sans-IO and knows nothing of lanes' pacing, of flows or of frames: it
//! turns datagrams into authenticated payloads and payloads into datagrams, and it runs handshakes whenever there is [something to
//! send](Sessions::want). A peer is its static key plus its *boot epoch*; all state that must survive an outage is bound to that pair and
//! never to a session, because sessions end and flows do not.
//!
//! How the owner uses it:
//! 1. every received datagram goes to [`Sessions::handle_datagram`], one at a time (split batches first);
//! 2. in each drain, [`Sessions::poll_handshake`] is asked before anything of the lane is sent;
//! 3. data is sealed in place with [`Sessions::seal`] while [`Sessions::can_seal`];
//! 4. after an [`Established`] with `confirm` set, the owner seals at least one datagram soon (a ping will do): the
//!    other side may not use the new keys before it has seen one;
//! 5. an address changes ([`Sessions::set_address`]) only on an [`Incoming::Data`] that is `newest`, and the owner has
//!    it proven. Sessions themselves return to the configured address when the peer answers a call from there.
//!
//! The format and the rules are in `docs/protocol/session.md`.

mod arrange;
mod calls;
mod handshake;
mod keylog;
mod keys;
mod mac;
mod machine;
pub(crate) mod noise;
mod peer;
mod window;
#[cfg(test)]
#[path = "tests/world.rs"]
mod world;

pub(crate) use handshake::NO_PRESHARED_KEY;
pub use keylog::KEYS_MAX;
pub use keys::{OpenOctets, digest_of};
pub use machine::Sessions;
pub use noise::{Statics, generate, public_key};

use core::ops::Range;
use std::net::IpAddr;
use wavelane_base::{Address, PortId, Span};

/// A session is replaced this long after it was established (by the side that initiated it).
pub const REKEY_AFTER: Span = Span::from_secs(120);
/// The side that did not initiate a session waits this much longer before it initiates the next.
pub const REKEY_RESPONDER_EXTRA: Span = Span::from_secs(15);
/// A session's keys neither seal nor open datagrams this long after it was established.
pub const REJECT_AFTER: Span = Span::from_secs(180);
/// A session is also replaced after this many sealed datagrams.
pub const REKEY_AFTER_PACKETS: u64 = 1 << 40;
/// A session seals no more than this many datagrams.
pub const REJECT_AFTER_PACKETS: u64 = 1 << 41;
/// First wait between two transmissions of a handshake's first message; doubles up to [`RETRY_MAX`].
pub const RETRY_FIRST: Span = Span::from_millis(250);
/// Longest wait between two transmissions of a handshake's first message.
pub const RETRY_MAX: Span = Span::from_secs(1);
/// Shortest wait between two transmissions if the last handshake took that long or longer.
pub const RETRY_SLOW: Span = Span::from_secs(2);
/// A peer that was reached before and left this many transmissions unanswered, for some 17 s, is behind an outage: from then on the wait is
/// the last handshake's duration, within [`RETRY_FIRST`] and [`RETRY_MAX`] ...
pub const OUTAGE_TRIES: u32 = 20;
/// ... until this many were sent, for 9 minutes at the shortest wait: an absent peer is not called four times a second for ever.
pub const OUTAGE_TRIES_END: u32 = 2_500;
/// A first message is retransmitted unchanged for this long, then a new one replaces it. Also the longest round trip over which a handshake
/// completes.
pub const INIT_LIFETIME: Span = Span::from_secs(20);
/// If nothing authenticated was received for this long after we sealed something, a handshake finds out whether the peer has lost its keys.
/// See also [`Sessions::suspect`].
pub const SILENCE_BEFORE_HANDSHAKE: Span = Span::from_secs(5);
/// After answering a peer's handshake we start none of our own for this long.
pub const ANSWERED_WAIT: Span = Span::from_secs(3);
/// After answering a peer's handshake we retransmit the first message of our own handshake in progress only after this time.
pub const CALLED_WAIT: Span = Span::from_millis(1_500);
/// Unanswered first messages before the first notice.
pub const NO_ANSWER_TRIES: u32 = 5;
/// First messages that are sent to an address remembered from before our start: they take 4 s, long enough for a peer that is up, and are
/// too few to notify the operator.
pub const RECALL_CALLS: u32 = 5;
/// A notice follows after each further this many; in an outage after more, in proportion to the higher call rate.
pub const NO_ANSWER_REPEAT: u32 = 60;
/// Lanes per peer and direction. Higher lane numbers are refused.
pub const LANES_MAX: usize = 8;
/// Reordering is accepted up to this many packets below the highest number of a lane.
pub const REPLAY_WINDOW: u64 = 16_384;
/// Replaced sessions per peer whose keys still open late datagrams.
pub const OLD_SESSIONS_MAX: usize = 2;
/// Handshake messages per second and port above which addresses must be proven with a cookie.
pub const HANDSHAKES_PER_SECOND_MAX: u32 = 50;
/// Handshake messages per second with a valid cookie above which the rest is dropped.
pub const PROVEN_HANDSHAKES_PER_SECOND_MAX: u32 = 500;
/// The part of these that may come from one host (of IPv6, from one /64).
pub const PROVEN_HANDSHAKES_PER_HOST_MAX: u32 = 100;
/// How long a cookie is valid; its secret changes as often.
pub const COOKIE_LIFETIME: Span = Span::from_secs(120);
/// Replies to strangers waiting for room on one port; more are dropped.
pub const REPLIES_MAX: usize = 16;
/// Events waiting for [`Sessions::poll_event`]; more are dropped.
pub const EVENTS_MAX: usize = 64;
/// Events per [`NOTICE_WINDOW`] that strangers or broken peers can cause; more are dropped.
pub const NOTICES_PER_WINDOW_MAX: u32 = 4;
/// See [`NOTICES_PER_WINDOW_MAX`].
pub const NOTICE_WINDOW: Span = Span::from_secs(10);

/// One neighbour's keys.
#[derive(Clone)]
pub struct PeerKeys {
    /// Its static public key (X25519).
    pub public_key: [u8; 32],
    /// Optional pre-shared key; both sides need the same.
    pub preshared_key: Option<[u8; 32]>,
    /// The outbound ways to it, at most [`LANES_MAX`]: each belongs to the lane of the same number.
    pub ways: Vec<Way>,
}

/// One way to reach a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The port on which datagrams are sent.
    pub port: PortId,
    /// The destination. Without one we never initiate, until [`Sessions::set_address`] or [`Sessions::recall`] sets one.
    pub address: Option<Address>,
    /// Whether nothing is received on it: datagrams arriving at its port say nothing about its destination.
    pub one_way: bool,
}

/// The configuration of [`Sessions`].
#[derive(Clone)]
pub struct SessionsConfig {
    /// Our static private key (X25519).
    pub private_key: [u8; 32],
    /// Greater than at every earlier start with this key: peers refuse handshakes that are not newer.
    pub boot_epoch: u64,
    /// Whether this machine has AES instructions. AES-256-GCM is used if both sides have them.
    pub aes: bool,
    /// Whether partly open datagrams are taken, and sent to peers that take them too.
    pub overhear: bool,
    /// Whether packets are taken that are told by an earlier one's headers, and sent to peers that take them too.
    pub compress: bool,
    /// The neighbours; elsewhere a peer is identified by its index in this list.
    pub peers: Vec<PeerKeys>,
    /// Whether [`Sessions::poll_key`] returns the data keys, so that captures can be decrypted.
    pub log_keys: bool,
}

/// A session was established, or a newer one replaced it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Established {
    /// Whose.
    pub peer: usize,
    /// The peer's boot epoch.
    pub epoch: u64,
    /// The peer was known under another epoch: it lost its state. Its flow state is void.
    pub restarted: bool,
    /// There was no session just before (a rekey of an existing one has `false`).
    pub fresh: bool,
    /// We initiated: seal something soon, so that the peer may use the keys too.
    pub confirm: bool,
    /// The source of the message that established it. Not proof enough to change an address.
    pub from: Option<Address>,
    /// Upper bound of the time until its message was answered: since it was first sent. Retransmits of it, and the wait for a peer that was
    /// not up yet, are included.
    pub round_trip: Span,
    /// Whether our previous message to that address must have arrived: only its receiver could have made this one.
    pub proven: bool,
}

/// What a datagram was found to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// Authenticated data, opened in place.
    Data {
        /// Who sealed it.
        peer: usize,
        /// The sender's lane.
        lane: u8,
        /// The lane's packet number; never delivered before.
        number: u64,
        /// The range of the plaintext in the datagram.
        payload: Range<usize>,
        /// The highest number of its lane so far: it may change an address.
        newest: bool,
        /// This datagram established a new session. Handle that before the payload: after `restarted`, the payload belongs to the new
        /// epoch.
        established: Option<Established>,
        /// Which of its last octets were not encrypted, so that others may have overheard them.
        open: Option<OpenOctets>,
    },
    /// Our handshake was answered; a new session is established.
    Established(Established),
    /// A handshake message that requires nothing of the owner but the next [`Sessions::poll_handshake`].
    Handled,
    /// Nothing was done. Counted under its reason.
    Dropped(DropReason),
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Too short or too long for the kind in its first byte, or no known kind.
    Malformed,
    /// Its first mac is wrong: the sender does not know our public key.
    Mac,
    /// It names an unsupported wire version.
    Version,
    /// Many handshakes are arriving and this one's address is unproven; a cookie was sent.
    CookieNeeded,
    /// Too many handshakes at once, or no room for a cookie reply.
    Overload,
    /// It names a session or handshake that we do not have.
    UnknownSession,
    /// The session's keys are too old.
    Expired,
    /// The lane number is at or above [`LANES_MAX`].
    Lane,
    /// It does not decrypt under the keys it names.
    Forged,
    /// Its number was seen before or is too old to check.
    Replayed,
    /// A handshake from a key that is not configured.
    UnknownPeer,
    /// A handshake that is not newer than one seen before.
    NotNewer,
}

impl DropReason {
    /// Every reason, in order.
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::Mac,
        Self::Version,
        Self::CookieNeeded,
        Self::Overload,
        Self::UnknownSession,
        Self::Expired,
        Self::Lane,
        Self::Forged,
        Self::Replayed,
        Self::UnknownPeer,
        Self::NotNewer,
    ];
    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "dropped_malformed",
            Self::Mac => "dropped_mac",
            Self::Version => "dropped_version",
            Self::CookieNeeded => "dropped_cookie_needed",
            Self::Overload => "dropped_overload",
            Self::UnknownSession => "dropped_unknown_session",
            Self::Expired => "dropped_expired",
            Self::Lane => "dropped_lane",
            Self::Forged => "dropped_forged",
            Self::Replayed => "dropped_replayed",
            Self::UnknownPeer => "dropped_unknown_peer",
            Self::NotNewer => "dropped_not_newer",
        }
    }
}

/// Something the operator should know. The owner formats it; keys are given as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEvent {
    /// Our handshakes get no answer: the peer is unreachable, or it does not know our key, or we have its key wrong. Reported after
    /// [`NO_ANSWER_TRIES`], then every [`NO_ANSWER_REPEAT`].
    NoAnswer {
        /// Whom we called.
        peer: usize,
        /// Where.
        address: Address,
        /// How often, without an answer.
        tries: u32,
    },
    /// The peer answers, but the answer does not decrypt: the two pre-shared keys differ.
    AnswerUnreadable {
        /// Who.
        peer: usize,
        /// From where.
        from: Option<Address>,
    },
    /// An answer, perhaps of the peer's, came after [`INIT_LIFETIME`]: the round trip is longer than that.
    AnswerLate {
        /// Whom we called.
        peer: usize,
        /// How long before.
        took: Span,
    },
    /// A caller that knows our public key uses a key that is not configured.
    UnknownPeer {
        /// The caller's public key; its possession is proven.
        public_key: [u8; 32],
        /// From where.
        from: Option<Address>,
    },
    /// The peer does not know our key: it is not configured there, or wrongly. Has no further effect.
    OwnKeyUnknown {
        /// Who said so.
        peer: usize,
    },
    /// A configured peer calls us under a boot epoch older than its last: its clock went back, or this is a replay.
    EpochWentBack {
        /// Who.
        peer: usize,
        /// The epoch in the message.
        epoch: u64,
        /// The newest epoch known.
        known: u64,
    },
    /// A caller with our public key uses another wire version.
    OtherVersion {
        /// Which.
        version: u8,
        /// From where.
        from: Option<Address>,
    },
    /// The last session with the peer expired before a new one was established. Nothing can be sealed until [`Established`].
    Expired {
        /// Whose.
        peer: usize,
    },
}

/// The source of a datagram, on media that report it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// Who sent it.
    pub from: Option<Address>,
    /// Which of our addresses it was sent to.
    pub at: Option<IpAddr>,
}

impl From<Option<Address>> for Origin {
    fn from(from: Option<Address>) -> Self {
        Self { from, at: None }
    }
}

/// A handshake datagram to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandshakeOut {
    /// Bytes written.
    pub len: usize,
    /// Where to; `None` on media without addresses.
    pub to: Option<Address>,
    /// From which of our addresses: an answer is sent from the one that was called. `None` leaves it to the system.
    pub from: Option<IpAddr>,
    /// For which peer; `None` for a reply to a stranger.
    pub peer: Option<usize>,
}
