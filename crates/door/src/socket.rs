//! The interface between the door and the TCP it uses: the kernel's, or our own.

use wavelane_base::Span;

/// One TCP connection with an application or a server.
pub trait Socket {
    /// Reads received bytes, as many as there are and fit.
    fn read(&mut self, into: &mut [u8]) -> Got;
    /// Writes bytes, first those of `front`.
    fn write(&mut self, front: &[u8], back: &[u8]) -> Put;
    /// Ends our direction after what was written. `false` if the connection was reset.
    fn shutdown(&mut self) -> bool;
    /// From now on dropping the connection ends it in order. Before this, dropping resets it: a crash never looks like an early
    /// end of stream.
    fn end_orderly(&mut self);
    /// Whether the other end has yet to acknowledge bytes, or the end, that we wrote; if so, a number that changes when it takes
    /// some.
    fn undelivered(&self) -> Option<u32>;
    /// Whether bytes wait to be read.
    fn has_bytes(&self) -> bool;
    /// The state of the receiving side, if known.
    fn receiving(&self) -> Option<Receiving>;
    /// Sets the receive buffer to `octets` of memory, including what already waits.
    fn set_receive_room(&mut self, octets: usize);
    /// Initial and maximum memory of the receive buffer.
    fn receive_rooms(&self) -> Rooms;
}

impl<S: Socket> Socket for &mut S {
    fn read(&mut self, into: &mut [u8]) -> Got {
        (**self).read(into)
    }
    fn write(&mut self, front: &[u8], back: &[u8]) -> Put {
        (**self).write(front, back)
    }
    fn shutdown(&mut self) -> bool {
        (**self).shutdown()
    }
    fn end_orderly(&mut self) {
        (**self).end_orderly();
    }
    fn undelivered(&self) -> Option<u32> {
        (**self).undelivered()
    }
    fn has_bytes(&self) -> bool {
        (**self).has_bytes()
    }
    fn receiving(&self) -> Option<Receiving> {
        (**self).receiving()
    }
    fn set_receive_room(&mut self, octets: usize) {
        (**self).set_receive_room(octets);
    }
    fn receive_rooms(&self) -> Rooms {
        (**self).receive_rooms()
    }
}

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// This many bytes, at least one.
    Bytes(usize),
    /// None now.
    Blocked,
    /// No more bytes: the other end has ended its direction.
    End,
    /// Interrupted: read again.
    Again,
    /// The connection was reset or failed.
    Failed,
}

/// The result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// This many bytes were taken.
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
    /// Smoothed RTT to the other end.
    pub round_trip: Span,
    /// Length of received segments.
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
    /// How many times its own length a byte may take of it, as far as is foreseen.
    pub per_byte: usize,
}
