//! Drives one channel machine between TUN devices in real time, on its own thread.
//!
//! The machine runs in virtual time: it is woken exactly at the deadlines it requested, in order, and its output is written as soon as the
//! host gets there. The difference is recorded as lateness. Arriving packets are stamped with the time they are read. A run has two phases:
//! during set-up (handshakes, readiness) a machine with its own random numbers carries the packets; at the run's start a fresh machine
//! takes over, whose clock begins at zero, so every stack meets the same bursts however long its set-up took. Packets still held by the
//! first machine are delivered.

use crate::datagrams::Datagrams;
use crate::lateness::Lateness;
use crate::pcapng::{CaptureFile, PortDirection};
use crate::world::unix_offset_ns;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wavelane_base::{Ecn, FrameMeta, Instant, Machine, PortId, Span};
use wavelane_host::port::PacketPort;
use wavelane_host::realtime;
use wavelane_host::tap::Tap;
use wavelane_host::tty::Pty;
use wavelane_host::tun::Tun;
use wavelane_run::RadioRaw;
use wavelane_wire::ip::{IPV4_HEADER_LEN, PROTOCOL_UDP, checksum};
use wavelane_wire::packet::{mark_congestion, queue_meta};

/// Largest packet a port may carry; a longer one shows that an offload is enabled, and fails the run.
pub const MTU: usize = 1500;
/// Buffer space for oversized packets, so that they are detected and not truncated.
const BUFFER: usize = 65_536;
/// Packets read from one port before the machine is served again.
const BATCH: usize = 64;
/// Longest wait, so that a stop request is noticed in time.
const LONGEST_WAIT: Span = Span::from_millis(20);
/// How often ports without a descriptor to wait for are read: a hundredth of the octets of a packet at 115.2 kbit/s.
const LOOK: Span = Span::from_millis(1);
/// Octets that leave a serial port in one piece: they come one by one.
const PIECE: u16 = 8;
/// Deadlines served before the ports are read again.
const DEADLINES_PER_TURN: usize = 256;
/// Number of first packets of each port whose checksums are verified.
const CHECKED_FIRST: u64 = 256;
/// After those, one in this many.
const CHECKED_ONE_IN: u64 = 64;

/// A channel without its thread carries nothing more.
const PANICKED: &str = "a channel's thread panicked; the message is above. This is an error of ours: please report it";

/// A change applied to the machine at a given time of the run.
pub(crate) type ChangeFn<M> = Box<dyn FnOnce(&mut M, Instant) + Send>;

/// What a cell's stations have done, at the time since the run's start.
pub(crate) type RadioFn<M> = Box<dyn Fn(&M, Span) -> RadioRaw + Send>;

/// Whether a machine can accept a packet arriving at an end.
pub(crate) type RoomFn<M> = Box<dyn Fn(&M, usize) -> bool + Send>;

/// A channel's end: where a node's packets come from and go to.
#[derive(Debug)]
pub(crate) enum Port {
    /// The device itself.
    Tun(Tun),
    /// The far end of the node's veth pair.
    Pair(PacketPort),
    /// The same as a radio's ring.
    Ring(Tap),
    /// Octets: the far side of a program's serial port.
    Line(Pty),
    /// The content of UDP datagrams to and from programs elsewhere.
    Datagrams(Datagrams),
}

impl Port {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Tun(tun) => tun.read(buffer),
            Self::Pair(port) => port.read(buffer),
            Self::Ring(tap) => tap.read(buffer),
            Self::Line(pty) => pty.read(buffer),
            Self::Datagrams(end) => end.read(buffer),
        }
    }
    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Tun(tun) => tun.write(packet),
            Self::Pair(port) => port.write(packet),
            Self::Ring(tap) => tap.write(packet),
            Self::Line(pty) => match pty.write(packet)? {
                octets if octets == packet.len() => Ok(()),
                // A program that does not read loses them, as at a port.
                _ => Err(io::ErrorKind::WouldBlock.into()),
            },
            Self::Datagrams(end) => end.write(packet),
        }
    }
    /// Whether what passes is packets.
    fn is_of_packets(&self) -> bool {
        !matches!(self, Self::Line(_))
    }
    /// Packets lost before they were read. A TUN device counts them itself.
    fn dropped(&self) -> u64 {
        match self {
            Self::Tun(_) | Self::Ring(_) | Self::Line(_) | Self::Datagrams(_) => 0,
            Self::Pair(port) => port.dropped(),
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(tun) => tun.as_fd(),
            Self::Pair(port) => port.as_fd(),
            Self::Ring(tap) => tap.as_fd(),
            Self::Line(pty) => pty.as_fd(),
            Self::Datagrams(end) => end.as_fd(),
        }
    }
}

/// Parameters of a channel's thread.
pub(crate) struct Job<M> {
    /// The channel's name, for messages and the thread's name.
    pub(crate) name: String,
    /// The devices: at the first and second end, or of a cell's pairs of stations two each.
    pub(crate) ends: Vec<End>,
    /// Carries packets until the run starts.
    pub(crate) setup: M,
    /// Carries packets from the run's start.
    pub(crate) run: M,
    /// Changes by time since the run's start, sorted.
    pub(crate) changes: Vec<(Span, ChangeFn<M>)>,
    /// Packets stay in a device's ring until the machine has room for them.
    pub(crate) room: RoomFn<M>,
    /// Offset of CLOCK_REALTIME from CLOCK_MONOTONIC, for the capture timestamps.
    pub(crate) unix_offset_ns: u64,
    /// A line elsewhere damages packets, so that a wrong checksum shows no offload.
    pub(crate) damaged: bool,
    /// Deadlines that are nearer than this are served together: of a cell's most let nothing out.
    pub(crate) rest: Span,
    /// Of a cell.
    pub(crate) radio: Option<RadioFn<M>>,
}

/// A device, and what is known of it.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) port: Port,
    /// The machine's port behind it.
    pub(crate) place: PortId,
    pub(crate) capture: Option<CaptureFile>,
}

impl<M> Job<M> {
    /// A medium of which packets come out as they are due; it takes every packet, and its parameters stay.
    pub(crate) fn new(name: &str, ends: Vec<End>, setup: M, run: M) -> Self {
        Self {
            name: name.to_owned(),
            ends,
            setup,
            run,
            changes: Vec::new(),
            room: Box::new(|_, _| true),
            unix_offset_ns: unix_offset_ns(),
            damaged: false,
            rest: Span::ZERO,
            radio: None,
        }
    }
}

/// The ends of a medium between two ports.
pub(crate) fn two(ports: [Port; 2], captures: [Option<CaptureFile>; 2]) -> Vec<End> {
    let both = ports.into_iter().zip(captures).zip([PortId(0), PortId(1)]);
    both.map(|((port, capture), place)| End { port, place, capture }).collect()
}

/// Switches and counters shared with the thread.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// CLOCK_MONOTONIC of the run's start; zero until it is known.
    start_ns: AtomicU64,
    stop: AtomicBool,
    /// Pass all packets immediately: the run is over and connections are being closed.
    bypass: AtomicBool,
    /// IP bytes offered at each end since the run's start; of a cell, at all ends of either kind.
    offered: [AtomicU64; 2],
    fault: Mutex<Option<String>>,
}

/// Results of a channel's thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Lateness of every delivery since the run's start.
    pub(crate) lateness: Lateness,
    /// Packets that a kernel refused.
    pub(crate) refused: u64,
    /// Packets that the kernel dropped before they were read.
    pub(crate) unread: u64,
    /// Packets missing from the captures.
    pub(crate) uncaptured: u64,
    /// The first error of a capture, as text.
    pub(crate) capture_error: Option<String>,
    /// Whether the thread ran at real-time priority.
    pub(crate) preferred: bool,
    /// What the stations of a cell did from the run's start until its end.
    pub(crate) radio: Option<RadioRaw>,
}

/// A running channel.
#[derive(Debug)]
pub(crate) struct Running {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<Outcome>>,
}

impl Running {
    /// Starts the thread.
    pub(crate) fn start<M: Machine + Send + 'static>(job: Job<M>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("ch-{}", job.name))
            .spawn(move || Pump::new(job, theirs).work())?;
        Ok(Self { shared, thread: Some(thread) })
    }
    /// Sets the run's start; the machine for the run takes over then.
    pub(crate) fn begin(&self, start: Instant) {
        self.shared.start_ns.store(start.as_nanos().max(1), Ordering::Release);
    }
    /// From now on packets pass immediately and unimpaired, so that closing connections takes no time.
    pub(crate) fn bypass(&self) {
        self.shared.bypass.store(true, Ordering::Release);
    }
    /// IP bytes offered at each end so far since the run's start.
    pub(crate) fn offered(&self) -> [u64; 2] {
        self.shared.offered.each_ref().map(|n| n.load(Ordering::Relaxed))
    }
    /// The fault, if any: one line with cause and remedy.
    pub(crate) fn fault(&self) -> Option<String> {
        // Unasked it ends with a fault alone: asked for first, so that one that it writes down meanwhile is found.
        let has_ended = self.thread.as_ref().is_some_and(std::thread::JoinHandle::is_finished);
        let said = self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        said.or_else(|| has_ended.then(|| PANICKED.to_owned()))
    }
    /// Stops the thread and returns its results, or why there are none.
    pub(crate) fn finish(mut self) -> Result<Outcome, String> {
        self.stop().map_or_else(|| Ok(Outcome::default()), |ended| ended.map_err(|_| PANICKED.to_owned()))
    }
    fn stop(&mut self) -> Option<std::thread::Result<Outcome>> {
        self.shared.stop.store(true, Ordering::Release);
        self.thread.take().map(std::thread::JoinHandle::join)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A machine and the time at which its clock began.
struct Placed<M> {
    machine: M,
    epoch: Instant,
    latest: Instant,
    /// Whether its traffic counts as the run's.
    counted: bool,
}

/// Devices, captures and counters: everything around the machines.
struct Ports {
    name: String,
    ends: Vec<End>,
    unix_offset_ns: u64,
    outcome: Outcome,
    /// Packets that came at each end.
    seen: Vec<u64>,
    out: Vec<u8>,
}

impl<M: Machine> Placed<M> {
    /// `real` on the machine's own clock, never before the result of an earlier call.
    fn local(&mut self, real: Instant) -> Instant {
        self.latest = self.latest.max(Instant::ZERO + real.since(self.epoch));
        self.latest
    }

    /// The machine's next deadline in real time.
    fn deadline(&self) -> Option<Instant> {
        self.machine.poll_timeout().map(|wakeup| self.epoch + wakeup.at.since(Instant::ZERO))
    }

    /// Serves what is due up to `now`, each deadline at its exact time.
    fn serve(&mut self, now: Instant, ports: &mut Ports) {
        for _ in 0..DEADLINES_PER_TURN {
            let Some(due) = self.deadline().filter(|d| *d <= now) else { return };
            let local = self.local(due);
            self.machine.handle_timeout(local);
            self.drain(due, ports);
        }
    }

    /// Writes the machine's output at `due`, in real time.
    fn drain(&mut self, due: Instant, ports: &mut Ports) {
        let local = self.local(due);
        for end in 0..ports.ends.len() {
            while let Some(transmit) = self.machine.poll_transmit(local, ports.ends[end].place, &mut ports.out, 1) {
                if transmit.ecn == Ecn::Ce {
                    mark_congestion(&mut ports.out[..transmit.len]);
                }
                ports.deliver(end, transmit.len, due, self.counted);
            }
        }
        while self.machine.poll_event().is_some() {}
    }
}

impl Ports {
    /// Hands the first `len` bytes of the out-buffer, due at `due`, to the kernel at `end`.
    fn deliver(&mut self, end: usize, len: usize, due: Instant, counted: bool) {
        let packet = &self.out[..len];
        let end = &mut self.ends[end];
        if end.port.write(packet).is_err() {
            self.outcome.refused += 1;
        }
        let done = realtime::now();
        if counted {
            self.outcome.lateness.note(done.since(due));
        }
        if let Some(capture) = &mut end.capture {
            capture.note(done.as_nanos() + self.unix_offset_ns, PortDirection::In, packet);
        }
    }
}

struct Pump<M> {
    ports: Ports,
    old: Option<Placed<M>>,
    current: Placed<M>,
    next: Option<M>,
    changes: VecDeque<(Span, ChangeFn<M>)>,
    room: RoomFn<M>,
    radio: Option<RadioFn<M>>,
    shared: Arc<Shared>,
    input: Vec<u8>,
    /// By end: whether packets may wait there.
    ready: Vec<bool>,
    damaged: bool,
    rest: Span,
}

impl<M: Machine> Pump<M> {
    fn new(job: Job<M>, shared: Arc<Shared>) -> Self {
        let ends = job.ends.len();
        let ports = Ports {
            name: job.name,
            ends: job.ends,
            unix_offset_ns: job.unix_offset_ns,
            outcome: Outcome::default(),
            seen: vec![0; ends],
            out: vec![0; BUFFER],
        };
        Self {
            ports,
            old: None,
            current: Placed { machine: job.setup, epoch: realtime::now(), latest: Instant::ZERO, counted: false },
            next: Some(job.run),
            changes: job.changes.into(),
            room: job.room,
            radio: job.radio,
            shared,
            input: vec![0; BUFFER],
            ready: vec![true; ends],
            damaged: job.damaged,
            rest: job.rest,
        }
    }

    fn work(mut self) -> Outcome {
        self.ports.outcome.preferred = realtime::prefer_this_thread().is_ok();
        while !self.shared.stop.load(Ordering::Acquire) {
            if let Err(fault) = self.turn() {
                let mut slot = self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
                slot.get_or_insert(fault);
                break;
            }
        }
        self.note_radio();
        let mut outcome = self.ports.outcome;
        outcome.unread = self.ports.ends.iter().map(|end| end.port.dropped()).sum();
        for capture in self.ports.ends.into_iter().filter_map(|end| end.capture) {
            match capture.finish() {
                Ok(skipped) => outcome.uncaptured += skipped,
                Err(e) => drop(outcome.capture_error.get_or_insert(e.to_string())),
            }
        }
        outcome
    }

    /// Writes down what a cell's stations did until the end of the run.
    fn note_radio(&mut self) {
        if let Some(radio) = self.radio.take_if(|_| self.current.counted) {
            self.ports.outcome.radio = Some(radio(&self.current.machine, realtime::now().since(self.current.epoch)));
        }
    }

    /// One iteration: serve what is due, read what has arrived, wait.
    fn turn(&mut self) -> Result<(), String> {
        let now = realtime::now();
        self.take_over_if_due(now);
        self.serve_all(now);
        if self.shared.bypass.load(Ordering::Relaxed) {
            self.note_radio();
        }
        for end in 0..self.ready.len() {
            if self.ready[end] {
                self.ready[end] = self.read(end)?;
            }
        }
        if self.ready.contains(&true) {
            return Ok(());
        }
        let mut until = realtime::now() + LONGEST_WAIT;
        let start = self.shared.start_ns.load(Ordering::Acquire);
        if self.next.is_some() && start != 0 {
            until = until.min(Instant::from_nanos(start));
        }
        if let (None, Some((at, _))) = (&self.next, self.changes.front()) {
            until = until.min(self.current.epoch + *at);
        }
        let next = self.old.iter().chain([&self.current]).filter_map(Placed::deadline).min();
        until = next.map_or(until, |next| until.min(next.max(realtime::now() + self.rest)));
        // A pseudo-terminal that its program has closed is readable for ever.
        let of_packets = |end: &usize| self.ports.ends[*end].port.is_of_packets();
        let (of_packets, others): (Vec<_>, Vec<_>) = (0..self.ready.len()).partition(of_packets);
        if !others.is_empty() {
            until = until.min(realtime::now() + LOOK);
        }
        let open: Vec<usize> = of_packets.into_iter().filter(|end| self.has_room(*end)).collect();
        let fds: Vec<_> = open.iter().map(|end| self.ports.ends[*end].port.as_fd()).collect();
        let found = realtime::wait_each(&fds, until)
            .map_err(|e| format!("channel '{}' cannot wait for packets: {e}", self.ports.name))?;
        open.into_iter().zip(found).for_each(|(end, found)| self.ready[end] = found);
        others.into_iter().for_each(|end| self.ready[end] = true);
        Ok(())
    }

    fn take_over_if_due(&mut self, now: Instant) {
        let start = self.shared.start_ns.load(Ordering::Acquire);
        if start == 0 || now < Instant::from_nanos(start) {
            return;
        }
        let Some(machine) = self.next.take() else { return };
        let fresh = Placed { machine, epoch: Instant::from_nanos(start), latest: Instant::ZERO, counted: true };
        self.old = Some(std::mem::replace(&mut self.current, fresh));
    }

    /// Serves deadlines and changes up to `now`, each at its exact time, oldest first.
    fn serve_all(&mut self, now: Instant) {
        if let Some(old) = &mut self.old {
            old.serve(now, &mut self.ports);
            if old.machine.poll_timeout().is_none() {
                self.old = None;
            }
        }
        while self.next.is_none() && self.changes.front().is_some_and(|(at, _)| self.current.epoch + *at <= now) {
            let Some((at, change)) = self.changes.pop_front() else { break };
            let real = self.current.epoch + at;
            self.current.serve(real, &mut self.ports);
            let local = self.current.local(real);
            change(&mut self.current.machine, local);
            self.current.drain(real, &mut self.ports);
        }
        self.current.serve(now, &mut self.ports);
    }

    fn has_room(&self, end: usize) -> bool {
        self.shared.bypass.load(Ordering::Relaxed) || (self.room)(&self.current.machine, end)
    }

    /// Takes packets from `end` into the machine; true if there may be more.
    fn read(&mut self, end: usize) -> Result<bool, String> {
        for _ in 0..BATCH {
            if !self.has_room(end) {
                return Ok(false);
            }
            match self.ports.ends[end].port.read(&mut self.input) {
                Ok(Some(len)) => self.accept(end, len)?,
                Ok(None) => return Ok(false),
                Err(e) => return Err(format!("channel '{}' cannot read its device: {e}", self.ports.name)),
            }
        }
        Ok(true)
    }

    fn accept(&mut self, end: usize, len: usize) -> Result<(), String> {
        let real = realtime::now();
        let packet = &mut self.input[..len];
        let nth = self.ports.seen[end];
        self.ports.seen[end] += 1;
        let of_packets = self.ports.ends[end].port.is_of_packets();
        let thorough = !self.damaged && (nth < CHECKED_FIRST || nth.is_multiple_of(CHECKED_ONE_IN));
        let sound = if of_packets { check_packet(packet, thorough) } else { Ok(()) };
        sound.map_err(|what| format!("channel '{}', end {end}: {what}", self.ports.name))?;
        if self.current.counted {
            self.shared.offered[end % 2].fetch_add(len as u64, Ordering::Relaxed);
        }
        if let Some(capture) = &mut self.ports.ends[end].capture {
            capture.note(real.as_nanos() + self.ports.unix_offset_ns, PortDirection::Out, packet);
        }
        if self.shared.bypass.load(Ordering::Relaxed) {
            // The far kernel may already have removed its interface; then the packet is not needed.
            let _ = self.ports.ends[end ^ 1].port.write(packet);
            return Ok(());
        }
        // Packets due before this one arrived leave the machine first, all of them: it takes this one at its own time.
        while self.current.deadline().is_some_and(|due| due <= real) {
            self.current.serve(real, &mut self.ports);
        }
        let local = self.current.local(real);
        // A channel does not parse headers, so the fields its queues use are read here.
        let meta = match of_packets {
            true => FrameMeta { rx_time: local, ..queue_meta(packet) },
            false => FrameMeta { rx_time: local, segment: Some(PIECE), ..FrameMeta::default() },
        };
        self.current.machine.handle_frame(local, self.ports.ends[end].place, packet, meta);
        self.current.drain(real, &mut self.ports);
        Ok(())
    }
}

/// Protocol numbers whose checksum covers the payload (IANA protocol numbers), and the checksum's offset.
const CHECKSUMMED: [(u8, usize); 2] = [(6, 16), (PROTOCOL_UDP, 6)];

/// Rejects packets that a port without offloads cannot have sent: too long, not IPv4, or (if `thorough`) with a wrong checksum.
fn check_packet(packet: &[u8], thorough: bool) -> Result<(), String> {
    if packet.len() > MTU {
        return Err(format!(
            "a packet of {} bytes exceeds the MTU of {MTU}: an offload is on where none may be",
            packet.len()
        ));
    }
    if packet.len() < IPV4_HEADER_LEN || packet[0] >> 4 != 4 {
        return Err("a packet is not IPv4: the lab switches IPv6 off, so something switched it on".into());
    }
    // Fragments carry no checksum of their own; the checksum of an ICMP body is not verified.
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    let covered = CHECKSUMMED.iter().find(|(protocol, _)| *protocol == packet[9]);
    let (Some((protocol, at)), true, false) = (covered, thorough, fragment) else { return Ok(()) };
    // An IHL may point behind the end: a program with a raw socket sends what it likes.
    let body = packet.get(usize::from(packet[0] & 15) * 4..);
    let Some((body, field)) = body.and_then(|body| Some((body, body.get(*at..*at + 2)?))) else {
        return Err("a packet is cut short inside its header: only a raw socket sends such".into());
    };
    if *protocol == PROTOCOL_UDP && field == [0, 0] {
        return Ok(()); // RFC 768: zero means that the sender computed none
    }
    let len = u16::try_from(body.len()).expect("at most MTU, checked above").to_be_bytes();
    match checksum(&[&packet[12..20], &[0, *protocol], &len, body]) {
        0 => Ok(()),
        _ => Err("a packet's checksum is not complete: checksum offload is on where it may not be".into()),
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
