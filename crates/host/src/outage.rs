//! Connections of the kernel's in an outage: which wait for a doubled timeout, and how they try at once.
//!
//! A message that a host is not reached, about the oldest octet on the way, takes back one doubling of the timeout (RFC 6069); with all of
//! them taken back the kernel tries as often as it does first of all. Neither a window that opens nor a duplicate makes it do so.
#![allow(unsafe_code, reason = "SIOCOUTQ is an ioctl")]

use crate::udp::{get_words, set_int};
use socket2::SockRef;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// What the kernel did about octets that nobody answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tries {
    /// Timeouts in a row.
    pub unanswered: u8,
    /// How often it has doubled the timeout since, less what was taken back.
    pub doublings: u8,
}

/// See [`Tries`].
pub fn tries(stream: &TcpStream) -> Tries {
    // Octets 2 and 4 of `struct tcp_info` of linux/tcp.h: tcpi_retransmits, tcpi_backoff.
    let mut info = [0; 2];
    let read = get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    let octets = info.map(u32::to_ne_bytes);
    read.map_or_else(Tries::default, |()| Tries { unanswered: octets[0][2], doublings: octets[1][0] })
}

/// The sequence number of the first octet that is not acknowledged (needs CAP_NET_ADMIN): that of the end of what was written, which only
/// a socket under repair tells, less what is not acknowledged of it.
pub fn oldest_unacknowledged(stream: &TcpStream) -> io::Result<u32> {
    // linux/tcp.h: TCP_SEND_QUEUE, and TCP_REPAIR_OFF_NO_WP, which sends no probe of the window.
    const SEND_QUEUE: libc::c_int = 2;
    const OFF: libc::c_int = -1;
    set_int(stream, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1)?;
    let mut end = [0];
    let read = set_int(stream, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, SEND_QUEUE)
        .map(|()| get_words(stream, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, &mut end));
    set_int(stream, libc::IPPROTO_TCP, libc::TCP_REPAIR, OFF)?;
    // Repair takes the word away by which others may have the same local address.
    SockRef::from(stream).set_reuse_address(true)?;
    read?.ok_or_else(io::Error::last_os_error)?;
    Ok(end[0].wrapping_sub(unacknowledged(stream)?))
}

/// Octets that were written and are not acknowledged.
fn unacknowledged(stream: &TcpStream) -> io::Result<u32> {
    let mut octets: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ (linux/sockios.h), writes one int to `octets`, which outlives the call.
    match unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ as _, &raw mut octets) } {
        0 => Ok(octets.cast_unsigned()),
        _ => Err(io::Error::last_os_error()),
    }
}
