//! Readiness: epoll with nanosecond deadlines.
#![allow(unsafe_code, reason = "epoll_pwait2 has no safe wrapper; epoll_wait rounds to milliseconds")]

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Maximum number of events per call; the rest wait for the next.
const EVENTS_MAX: usize = 256;

/// What a descriptor is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The number it was registered under.
    pub token: u64,
    /// A read will not block (data, end or error).
    pub readable: bool,
    /// A write will not block.
    pub writable: bool,
    /// The descriptor has an error or both directions are closed.
    pub failed: bool,
    /// After what can be read follows an end or an error.
    pub ends: bool,
    /// Among what can be read is an urgent octet.
    pub urgent: bool,
}

/// How a descriptor is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Reported as long as it is readable.
    Readable,
    /// Reported once whenever it becomes readable or writable again.
    Edges,
    /// Reported once whenever something more can be read.
    Arrivals,
}

/// A set of watched descriptors.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// An empty set. Also asks the kernel to wake this thread without timer slack.
    pub fn new() -> io::Result<Self> {
        // If it is refused, only wake-ups are less punctual.
        let _ = nix::sys::prctl::set_timerslack(1);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX] })
    }
    /// Watches `fd` under `token`. Closing the descriptor ends the watch.
    pub fn add(&self, fd: impl AsFd, token: u64, watch: Watch) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(flags(watch), token))?)
    }
    /// Watches `fd` otherwise from now on; what is ready is reported anew.
    pub fn change(&self, fd: impl AsFd, token: u64, watch: Watch) -> io::Result<()> {
        Ok(self.epoll.modify(fd, &mut EpollEvent::new(flags(watch), token))?)
    }
    /// Ends the watch of `fd`.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(fd)?)
    }
    /// Another handle on the same set, to add to it.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { epoll: Epoll(self.epoll.0.try_clone()?), events: Vec::new() })
    }
    /// Waits until something is ready or `timeout` has passed (`None`: indefinitely). A signal ends the wait early.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<Ready>> {
        // The kernel's timespec: seconds and nanoseconds.
        let spec = timeout.map(|t| [i64::try_from(t.as_secs()).unwrap_or(i64::MAX), i64::from(t.subsec_nanos())]);
        let spec_ptr = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (set, events) = (self.epoll.0.as_raw_fd(), self.events.as_mut_ptr());
        let no_mask = std::ptr::null::<libc::sigset_t>();
        let room = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: `events` holds `room` entries and `spec` outlives the call; no signal mask is given. Not by the C library: musl's lacks it.
        let got = unsafe { libc::syscall(libc::SYS_epoll_pwait2, set, events, room, spec_ptr, no_mask, 0_usize) };
        if got < 0 {
            return match Errno::last() {
                Errno::EINTR => Ok(Vec::new()),
                e => Err(e.into()),
            };
        }
        let got = usize::try_from(got).unwrap_or(0);
        Ok(self.events[..got].iter().map(ready).collect())
    }
}

fn flags(watch: Watch) -> EpollFlags {
    let arrivals = EpollFlags::EPOLLIN | EpollFlags::EPOLLPRI | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
    match watch {
        Watch::Readable => EpollFlags::EPOLLIN,
        Watch::Arrivals => arrivals,
        Watch::Edges => arrivals | EpollFlags::EPOLLOUT,
    }
}

fn ready(event: &libc::epoll_event) -> Ready {
    let bits = event.events;
    let has = |mask: i32| bits & mask as u32 != 0;
    let failed = has(libc::EPOLLERR) || has(libc::EPOLLHUP);
    let ends = failed || has(libc::EPOLLRDHUP);
    Ready {
        token: event.u64,
        readable: ends || has(libc::EPOLLIN),
        writable: failed || has(libc::EPOLLOUT),
        failed,
        ends,
        urgent: has(libc::EPOLLPRI),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::realtime;
    use wavelane_base::Span;

    #[test]
    fn waits_to_the_deadline_and_reports_edges_once() {
        let mut poller = Poller::new().unwrap();
        let start = realtime::now();
        assert!(poller.wait(Some(Duration::from_micros(1_500))).unwrap().is_empty());
        let slept = realtime::now().since(start);
        assert!(slept >= Span::from_micros(1_500) && slept < Span::from_millis(500), "{slept}");
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        poller.add(&a, 7, Watch::Edges).unwrap();
        let ready = poller.wait(Some(Duration::ZERO)).unwrap();
        let idle = Ready { token: 7, readable: false, writable: true, failed: false, ends: false, urgent: false };
        assert_eq!(ready, [idle]);
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
        std::io::Write::write_all(&mut &b, b"x").unwrap();
        assert!(poller.wait(None).unwrap()[0].readable);
        poller.change(&a, 8, Watch::Arrivals).unwrap();
        let ready = poller.wait(None).unwrap();
        assert_eq!(ready, [Ready { token: 8, readable: true, writable: false, ..idle }]);
        poller.remove(&a).unwrap();
        drop(b);
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
    }
}
