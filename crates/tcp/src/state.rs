//! The states of a connection and the transitions between them (RFC 9293, section 3.3.2).

/// A connection's state. LISTEN belongs to the [`Host`](super::Host).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ConnectionState {
    /// We sent a SYN.
    SynSent,
    /// Both SYNs are known; ours is not acknowledged.
    SynReceived,
    /// Both directions are open.
    Established,
    /// We ended our direction.
    FinWait1,
    /// Our end is acknowledged; the peer's direction is open.
    FinWait2,
    /// The peer ended its direction.
    CloseWait,
    /// Both ended at once; ours is not acknowledged.
    Closing,
    /// The peer ended first; our end is not acknowledged.
    LastAck,
    /// Both directions ended; late segments are answered.
    TimeWait,
    /// Gone.
    Closed,
}

/// All transitions except those to [`ConnectionState::Closed`], which are allowed from any state.
pub(super) const TRANSITIONS: &[(ConnectionState, ConnectionState)] = &[
    (ConnectionState::SynSent, ConnectionState::SynReceived),
    (ConnectionState::SynSent, ConnectionState::Established),
    (ConnectionState::SynReceived, ConnectionState::Established),
    (ConnectionState::Established, ConnectionState::FinWait1),
    (ConnectionState::Established, ConnectionState::CloseWait),
    (ConnectionState::FinWait1, ConnectionState::FinWait2),
    (ConnectionState::FinWait1, ConnectionState::Closing),
    (ConnectionState::FinWait1, ConnectionState::TimeWait),
    (ConnectionState::FinWait2, ConnectionState::TimeWait),
    (ConnectionState::CloseWait, ConnectionState::LastAck),
    (ConnectionState::Closing, ConnectionState::TimeWait),
];

impl ConnectionState {
    /// Whether both SYNs are acknowledged.
    pub fn is_synchronised(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }
    /// Whether the peer may still send data.
    pub(super) fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
    /// Whether its SYN is not acknowledged yet.
    pub(super) fn opens(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived)
    }
    /// Whether `to` may follow.
    pub(super) fn may_become(self, to: Self) -> bool {
        to == Self::Closed || TRANSITIONS.contains(&(self, to))
    }
}
