//! Where another implementation departs from the standards: only to compare with it.

/// Departures, all off by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quirks {
    /// What was in flight at a timeout is never measured, not even what was not sent again.
    pub unmeasured_after_timeout: bool,
    /// Without SACK, a duplicate acknowledgement in fast recovery is taken for the arrival of the next segment behind the hole,
    /// and the guess outlives the recovery.
    pub guess_arrivals: bool,
    /// The acknowledgement that ends the repair of a timeout lets the window grow by what it covers beyond the repair only.
    pub no_growth_when_repaired: bool,
    /// Anything new that is acknowledged ends the back-off of the timeout; RFC 6298, section 5, keeps it until a round trip is
    /// measured.
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
        // TcpSocketBase::NewAck sets the timeout anew from what was measured so far.
        any_ack_ends_backoff: true,
    };
}
