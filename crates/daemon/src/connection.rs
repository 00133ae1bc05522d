//! A connection of the kernel's, and how the door uses it.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use wavelane_base::Span;
use wavelane_door::{Got, Put, Receiving, Rooms, Socket};
use wavelane_host::tcp;

/// A socket that [`tcp::prepare`] has put in order.
#[derive(Debug)]
pub(crate) struct KernelSocket(pub(crate) TcpStream, pub(crate) tcp::Buffers);

/// What a read from a socket that does not block came to.
pub(crate) fn got(read: io::Result<usize>) -> Got {
    match read {
        Ok(0) => Got::End,
        Ok(octets) => Got::Bytes(octets),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Got::Blocked,
        Err(e) if e.kind() == ErrorKind::Interrupted => Got::Again,
        Err(_) => Got::Failed,
    }
}

/// What a write to one came to.
pub(crate) fn put(written: io::Result<usize>) -> Put {
    match written {
        Ok(octets) => Put::Bytes(octets),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Put::Blocked,
        Err(e) if e.kind() == ErrorKind::Interrupted => Put::Again,
        Err(_) => Put::Failed,
    }
}

impl Socket for KernelSocket {
    fn read(&mut self, into: &mut [u8]) -> Got {
        got(self.0.read(into))
    }
    fn write(&mut self, front: &[u8], back: &[u8]) -> Put {
        put(match back {
            [] => self.0.write(front),
            _ => self.0.write_vectored(&[IoSlice::new(front), IoSlice::new(back)]),
        })
    }
    fn shutdown(&mut self) -> bool {
        self.0.shutdown(Shutdown::Write).is_ok()
    }
    fn end_orderly(&mut self) {
        // If this fails, the application sees a reset after all its bytes: impolite, but nothing is lost.
        let _ = tcp::end_orderly(&self.0);
    }
    fn undelivered(&self) -> Option<u32> {
        tcp::undelivered(&self.0)
    }
    fn has_bytes(&self) -> bool {
        self.0.peek(&mut [0]).is_ok_and(|octets| octets > 0)
    }
    fn receiving(&self) -> Option<Receiving> {
        // Without this it does not shrink.
        if !self.1.adapts {
            return None;
        }
        let tcp::Receiving { round_trip, segment, held } = tcp::receiving(&self.0)?;
        let round_trip = Span::from_nanos(round_trip.as_nanos().try_into().unwrap_or(u64::MAX));
        Some(Receiving { round_trip, segment, held })
    }
    fn set_receive_room(&mut self, octets: usize) {
        // If the kernel refuses, bytes wait longer or come slower; none is lost.
        let _ = tcp::set_receive_room(&self.0, octets, self.1);
    }
    fn receive_rooms(&self) -> Rooms {
        let first = if self.1.adapts { tcp::RECEIVE_FIRST.min(self.1.receive_max) } else { self.1.receive_max };
        Rooms { first, most: self.1.receive_max, per_byte: tcp::RECEIVE_PER_BYTE }
    }
}

impl KernelSocket {
    /// What went wrong with it since this was last asked.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.0.take_error().ok().flatten()
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "window_tests.rs"]
mod window_tests;
