//! Stream verbs: how an owner moves a flow's bytes in and out of a machine.

use crate::Instant;

/// One application exchange, named by the machine that carries it. Unique for the life of that machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u64);

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// This many bytes were written to the start of the buffer (at least one).
    Data(usize),
    /// Nothing yet; a readable event will follow.
    Blocked,
    /// The peer ended its direction in an orderly way, and every byte has been read.
    End,
    /// The flow was reset or is unknown; no more bytes will come.
    Reset,
}

/// Byte streams with partial acceptance. Readiness is reported through the machine's events.
pub trait Streams {
    /// Accepts as many bytes of `data` as there is room for and returns how many; zero means wait for a
    /// writable event.
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize;
    /// Reads into `buf`.
    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome;
    /// Ends our direction in an orderly way, after everything written. The other direction goes on.
    fn shutdown(&mut self, now: Instant, flow: FlowId);
    /// Abandons both directions: the remote application receives the data written, and the end if it was signalled, and then
    /// a reset.
    fn reset(&mut self, now: Instant, flow: FlowId);
}
