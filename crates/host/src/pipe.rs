//! Bytes from one socket to another that no program reads: splice(2), by way of a pipe.
#![allow(unsafe_code, reason = "splice(2) has no safe wrapper without another feature of nix")]

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A pipe whose two ends are ours.
#[derive(Debug)]
pub struct Pipe {
    exit: OwnedFd,
    entrance: OwnedFd,
}

impl Pipe {
    /// An empty one for about so many octets. The kernel counts pages: of small segments it takes fewer octets, and where it grants no such
    /// size the pipe is as small as it makes them.
    pub fn new(octets: usize) -> io::Result<Self> {
        let (exit, entrance) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
        let _ = fcntl(&entrance, FcntlArg::F_SETPIPE_SZ(octets));
        Ok(Self { exit, entrance })
    }
    /// Moves up to `most` received octets into the pipe. An empty pipe that stays empty (`WouldBlock`)
    /// means that nothing was received, or that an urgent octet is next, before which splice(2) stops. 0 means the same where the other end has
    /// ended its direction: what is left is to be read.
    pub fn fill(&self, from: &TcpStream, most: usize) -> io::Result<usize> {
        splice(from.as_raw_fd(), self.entrance.as_raw_fd(), most)
    }
    /// Moves up to `octets` from the pipe to the socket. Fewer: the socket has no room for more.
    pub fn drain(&self, to: &TcpStream, octets: usize) -> io::Result<usize> {
        splice(self.exit.as_raw_fd(), to.as_raw_fd(), octets)
    }
}

fn splice(from: RawFd, to: RawFd, most: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    // SAFETY: both descriptors are open for the call, and without offsets no memory of ours is touched.
    let moved = unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), most, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::tcp;
    use socket2::SockRef;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = tcp::connect(listener.local_addr().unwrap(), None, None).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    #[test]
    fn octets_cross_and_an_end_shows() {
        let ((near, mut client), (far, mut server)) = (connection(), connection());
        let pipe = Pipe::new(1 << 18).unwrap();
        assert_eq!(pipe.fill(&near, 100).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(&[7; 1_000]).unwrap();
        let moved = pipe.fill(&near, 600).unwrap();
        assert_eq!((moved, pipe.drain(&far, moved).unwrap()), (600, 600));
        server.read_exact(&mut [0; 600]).unwrap();
        drop(client);
        assert_eq!((pipe.fill(&near, 600).unwrap(), pipe.fill(&near, 600).unwrap()), (400, 0));
        assert_eq!(pipe.drain(&far, 400).unwrap(), 400);
        server.read_exact(&mut [0; 400]).unwrap();
    }

    /// Why urgent octets are copied.
    #[test]
    fn it_stops_before_an_urgent_octet() {
        let (mut near, client) = connection();
        let pipe = Pipe::new(1 << 16).unwrap();
        SockRef::from(&client).send_out_of_band(b"!").unwrap();
        (&client).write_all(b"more").unwrap();
        assert_eq!(pipe.fill(&near, 100).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        crate::realtime::wait(&[near.as_fd()], crate::realtime::now() + wavelane_base::Span::from_millis(100)).unwrap();
        assert!(pipe.fill(&near, 100).is_ok_and(|moved| moved == 0), "although five octets are left");
        let mut got = [0; 5];
        near.set_nonblocking(false).unwrap();
        near.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"!more");
    }
}
