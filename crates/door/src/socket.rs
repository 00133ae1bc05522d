//! The seam between the door and whose TCP it uses: the kernel's, or our own.

use wavelane_base::Span;

/// One TCP connection with an application or a server.
pub trait Socket {
    /// Takes bytes that came, as many as there are and fit.
    fn read(&mut self, into: &mut [u8]) -> Got;
    /// Gives bytes, first those of `front`.
    fn write(&mut self, front: &[u8], back: &[u8]) -> Put;
    /// Ends our direction behind what was given. `false` if the connection was reset.
    fn shutdown(&mut self) -> bool;
    /// From now on dropping the connection ends it in order. Until then it resets: a crash never ends a stream early.
    fn end_orderly(&mut self);
    /// Whether the other end has yet to acknowledge bytes, or the end, that we gave; if so, a number that moves when it
    /// takes some.
    fn undelivered(&self) -> Option<u32>;
    /// Whether bytes wait to be read.
    fn has_bytes(&self) -> bool;
    /// What there is to say of the receiving side, if anything.
    fn receiving(&self) -> Option<Receiving>;
    /// Lets bytes that wait to be read take `octets` of memory, what waits included.
    fn set_receive_room(&mut self, octets: usize);
    /// Memory that bytes waiting to be read may take at first, and at the most.
    fn receive_rooms(&self) -> Rooms;
}

/// What a read came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// So many bytes, at least one.
    Bytes(usize),
    /// None now.
    Blocked,
    /// None ever: the other end has said so.
    End,
    /// Interrupted: read again.
    Again,
    /// The connection was reset or failed.
    Failed,
}

/// What a write came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// So many bytes were taken.
    Bytes(usize),
    /// None now.
    Blocked,
    /// Interrupted: write again.
    Again,
    /// The connection was reset or failed.
    Failed,
}

/// What is known of a socket's receiving side.
#[derive(Clone, Copy, Debug)]
pub struct Receiving {
    /// Smoothed round trip to the other end.
    pub round_trip: Span,
    /// Length of the segments that come.
    pub segment: usize,
    /// Memory that waiting bytes take.
    pub held: usize,
}

/// Bounds of the memory that waiting bytes take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rooms {
    /// Until it is set.
    pub first: usize,
    /// At the most.
    pub most: usize,
}
