//! Real time for drivers of channel machines: the clock, waiting with nanosecond deadlines, and scheduling priority.
#![allow(unsafe_code, reason = "sched_setscheduler has no safe wrapper")]

use nix::poll::{PollFd, PollFlags};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::io;
use std::os::fd::BorrowedFd;
use wavelane_base::Instant;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> Instant {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .expect("CLOCK_MONOTONIC exists on every Linux (clock_gettime(2))");
    Instant::from_nanos(u64::try_from(time.num_nanoseconds()).unwrap_or(0))
}

/// Waits until one of `fds` is readable or `deadline` is reached, whichever comes first.
///
/// Returns whether something is readable; a signal counts as a time-out, so callers loop.
pub fn wait(fds: &[BorrowedFd<'_>], deadline: Instant) -> io::Result<bool> {
    Ok(wait_each(fds, deadline)?.contains(&true))
}

/// Like [`wait`]; returns which of them are readable.
pub fn wait_each(fds: &[BorrowedFd<'_>], deadline: Instant) -> io::Result<Vec<bool>> {
    poll(fds, PollFlags::POLLIN, deadline)
}

/// Like [`wait`], but until `fd` is writable or, if it is connecting, until that has succeeded or failed.
pub fn wait_writable(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    Ok(poll(&[fd], PollFlags::POLLOUT, deadline)?.contains(&true))
}

fn poll(fds: &[BorrowedFd<'_>], flags: PollFlags, deadline: Instant) -> io::Result<Vec<bool>> {
    let left = deadline.since(now()).as_nanos();
    let timeout = TimeSpec::nanoseconds(i64::try_from(left).unwrap_or(i64::MAX));
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(*fd, flags)).collect();
    match nix::poll::ppoll(&mut polled, Some(timeout), None) {
        Ok(_) => Ok(polled.iter().map(|fd| fd.revents().is_none_or(|found| !found.is_empty())).collect()),
        Err(nix::errno::Errno::EINTR) => Ok(vec![false; fds.len()]),
        Err(e) => Err(e.into()),
    }
}

/// Runs the calling thread before all ordinary ones (SCHED_FIFO, lowest real-time priority) and without timer slack. Only for threads that
/// do little work and sleep often. Fails without CAP_SYS_NICE.
pub fn prefer_this_thread() -> io::Result<()> {
    const LOWEST: libc::c_int = 1;
    nix::sys::prctl::set_timerslack(1).map_err(io::Error::from)?;
    // The kernel's sched_param is this number alone. Not by the C library: musl's refuses, as POSIX means processes where Linux means threads.
    let priority = LOWEST;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: pid 0 is the calling thread, and `priority` outlives the call.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::os::fd::AsFd;
    use wavelane_base::Span;

    #[test]
    fn waiting_ends_at_the_deadline_or_at_input() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let start = now();
        let deadline = start + Span::from_millis(20);
        while now() < deadline {
            assert!(!wait(&[reader.as_fd()], deadline).unwrap());
        }
        assert!(now().since(start) >= Span::from_millis(20));
        std::io::Write::write_all(&mut &writer, b"x").unwrap();
        assert!(wait(&[reader.as_fd()], now() + Span::from_secs(5)).unwrap());
    }
}
