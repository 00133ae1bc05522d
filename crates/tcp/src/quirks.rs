//! Deviations of other implementations from the standards, only for comparison with them.

/// Deviations, all off by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quirks {
    /// Segments in flight at a timeout give no RTT sample, even if not retransmitted.
    pub unmeasured_after_timeout: bool,
    /// Without SACK, a duplicate acknowledgement in fast recovery is interpreted as the arrival of the next segment beyond
    /// the hole, and the guess is kept after the recovery.
    pub guess_arrivals: bool,
    /// The acknowledgement that ends the recovery from a timeout grows the window only by what it covers beyond the recovery.
    pub no_growth_when_repaired: bool,
    /// Any advancing acknowledgement ends the RTO back-off; RFC 6298, section 5, keeps it until an RTT is measured.
    pub any_ack_ends_backoff: bool,
}

impl Quirks {
    /// Those of ns-3 3.44.
    pub const NS3_3_44: Self = Self {
        // TcpSocketBase::ReTxTimeout empties its history.
        unmeasured_after_timeout: true,
        // TcpTxBuffer::AddRenoSack, and the count of segments in TcpSocketBase::ProcessAck.
        guess_arrivals: true,
        no_growth_when_repaired: true,
        // TcpSocketBase::NewAck recomputes the timeout from the current estimate.
        any_ack_ends_backoff: true,
    };
}
