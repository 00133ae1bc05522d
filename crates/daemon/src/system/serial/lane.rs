//! A lane's port over a serial line.

use super::PacedLine;
use crate::config::{LaneSocket, far_end};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::{Address, Carrier, Ecn, Span};
use wavelane_host::media::Medium;
use wavelane_host::realtime;
use wavelane_host::udp::{Datagram, Destination, Sent};
use wavelane_serial::Framer;

/// Reads at once; acknowledgements are due then.
const READS: usize = 16;
/// Octets that have come within this time say that the other end is on.
const HEARD_LATELY: Span = Span::from_secs(30);

/// A port with datagrams in frames.
pub(crate) struct SerialLane {
    line: PacedLine,
    framer: Framer,
    far_end: Address,
    carrier: Carrier,
}

impl SerialLane {
    /// Opens the port of a lane whose medium this is.
    pub(crate) fn open(socket: &LaneSocket) -> io::Result<Self> {
        let (Some(path), Some(settings)) = (&socket.device, &socket.line) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let line = PacedLine::open(path, settings.port, settings.framing, socket.dial.as_ref())?;
        let mut framer = Framer::new(settings.framing);
        framer.set_frame_max(settings.mtu);
        framer.set_idle(wavelane_serial::idle_at(settings.rate()));
        Ok(Self { line, framer, far_end: far_end(path), carrier: socket.carrier() })
    }
}

impl AsFd for SerialLane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Medium for SerialLane {
    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        let Self { line, framer, far_end, .. } = self;
        let mut frames = 0;
        let mut pass = |bytes: &mut [u8]| {
            frames += 1;
            take(Datagram { bytes, segment: None, from: *far_end, at: None, ecn: Ecn::NotEct, waited: Span::ZERO });
        };
        let now = realtime::now();
        framer.handle_timeout(now, &mut pass);
        let mut reads = 0;
        while reads < READS && line.read(now, |octets| framer.push(now, octets, &mut pass)) {
            reads += 1;
        }
        if frames > 0 {
            line.proved(now);
        }
        Ok(reads)
    }
    fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: Destination, _: Ecn) -> Sent {
        let size = segment.map_or(bytes.len(), usize::from).max(1);
        if self.line.is_gone() || to.to != self.far_end {
            return Sent { done: bytes.len(), lost: bytes.chunks(size).count() as u64, ..Sent::default() };
        }
        let mut sent = Sent::default();
        for datagram in bytes.chunks(size) {
            if !self.line.has_room() {
                break;
            }
            let now = realtime::now();
            self.line.put(now, |out| self.framer.frame(now, datagram, out));
            sent.done += datagram.len();
        }
        sent
    }
    fn carrier(&self) -> Carrier {
        self.carrier
    }
    fn why_silent(&self) -> Option<String> {
        let now = realtime::now();
        if !self.line.is_connected() {
            return self.line.call_state().map(Into::into);
        }
        Some(if self.line.is_stopped(now) {
            "the line takes nothing: its other end is off or holds CTS back, or the cable has no such wire (flow_control = \"none\" needs none)".into()
        } else if self.line.heard_within(now, HEARD_LATELY) {
            "octets arrive, and no datagram of the peer's is among them: give both ends the same `rate` and `framing`, or correct public_key".into()
        } else {
            "no octet arrives: the cable is out or not crossed, or the other end is off".into()
        })
    }
    fn has_room(&self) -> bool {
        self.line.has_room()
    }
    fn due_in(&self) -> Option<Span> {
        let frame_end = self.framer.poll_timeout().map(|wakeup| wakeup.at);
        let due = [self.line.deadline(), frame_end].into_iter().flatten().min()?;
        Some(due.since(realtime::now()))
    }
    fn go_on(&mut self) {
        let now = realtime::now();
        self.line.tend(now);
        self.line.flush(now);
    }
    fn is_gone(&self) -> bool {
        self.line.is_gone()
    }
}
