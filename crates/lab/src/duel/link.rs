//! The link's loop: frames between the two ends and the cable, each delivered at its due time.

use super::host::HostSide;
use super::kernel::KernelSide;
use super::{Duel, DuelEnd, EndHost, Load, Shared, Side, lock};
use crate::LabError;
use crate::content::Content;
use crate::driver::MTU;
use crate::lateness::Lateness;
use crate::pcapng::{CaptureFile, PortDirection};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Span};
use wavelane_channel::{Cable, Direction};
use wavelane_host::realtime;

/// The run is inconclusive if 1 % of the frames were later than this.
const LATE_MAX: Span = Span::from_millis(2);
/// Time between building and the first packet.
const LEAD: Span = Span::from_millis(20);
/// Frames taken from one end before the others are served.
const BATCH: usize = 64;
/// The cable's ports, the sender's first.
const PORTS: [PortId; 2] = [PortId(0), PortId(1)];
/// Buffer space for oversized packets, so that they are detected and not truncated.
const BUFFER: usize = 65_536;
/// Longest wait, so that a stop request is noticed in time.
const LONGEST_WAIT: Span = Span::from_millis(20);
/// Least time from the end of one wait to the end of the next: at 1 Gbit/s a frame is due every 12 us, and waking for each costs more
/// processor time than the frame itself. Where frames are further apart, it changes nothing.
const GRAIN: Span = Span::from_micros(40);
/// Iterations between two checks whether the flows are over.
const TURNS_PER_LOOK: u32 = 64;
/// How long the last acknowledgements may take after the flows are over.
const AFTERGLOW_ROUND_TRIPS: u64 = 4;

enum End<G> {
    Kernel(Box<KernelSide>),
    EndHost(Box<HostSide<G>>),
}

/// Both ends, the cable and their clock.
pub(super) struct Link<G> {
    ends: [End<G>; 2],
    cable: Cable,
    /// Start of the cable's and the hosts' clocks, in real time.
    start: Instant,
    latest: Instant,
    /// When the latest wait ended.
    rested: Instant,
    capture: Option<CaptureFile>,
    unix_offset_ns: u64,
    /// Source address of each end's packets; others (a kernel's multicast traffic) are not part of the run.
    sources: [IpAddr; 2],
    lateness: Lateness,
    refused: u64,
    /// Buffers for a packet of a kernel, a packet of a host, and one that leaves the cable.
    input: Vec<u8>,
    host_input: Vec<u8>,
    output: Vec<u8>,
}

impl<G: EndHost> Link<G> {
    pub(super) fn build(duel: &Duel, sides: [Side<G>; 2]) -> Result<Self, LabError> {
        let [first, second] = sides;
        let end = |end: usize, side| -> Result<End<G>, LabError> {
            Ok(match side {
                Side::Kernel(control) => End::Kernel(Box::new(KernelSide::new(duel, end, control)?)),
                Side::EndHost(host) => End::EndHost(Box::new(HostSide::new(host))),
            })
        };
        let refused = |error| LabError::Channel(duel.name.clone(), error);
        let capture = match &duel.capture {
            None => None,
            Some(path) => {
                let what =
                    format!("cannot write {}; use --out with a writable folder that has free space", path.display());
                Some(CaptureFile::create_whole(path, "duel").map_err(LabError::io(what))?)
            }
        };
        Ok(Self {
            ends: [end(0, first)?, end(1, second)?],
            cable: Cable::new(duel.seed, &duel.name, duel.cable.clone()).map_err(refused)?,
            start: Instant::ZERO,
            latest: Instant::ZERO,
            rested: Instant::ZERO,
            capture,
            unix_offset_ns: crate::world::unix_offset_ns(),
            sources: [duel.ip(0), duel.ip(1)],
            lateness: Lateness::default(),
            refused: 0,
            input: vec![0; BUFFER],
            host_input: vec![0; BUFFER],
            output: vec![0; BUFFER],
        })
    }

    /// Runs the flows to their end and collects the results, except the flows' own, which the caller adds.
    pub(super) fn run(
        mut self,
        duel: &Duel,
        bodies: Vec<Content>,
        inboxes: &[Shared],
        cancelled: &AtomicBool,
    ) -> Result<DuelEnd<G>, LabError> {
        self.start = realtime::now() + LEAD;
        let [first, second] = &mut self.ends;
        match second {
            End::Kernel(side) => side.receive(duel, inboxes, self.start)?,
            End::EndHost(side) => side.receive(duel, inboxes)?,
        }
        match first {
            End::Kernel(side) => side.send(duel, bodies, self.start)?,
            End::EndHost(side) => side.send(Instant::ZERO, duel, bodies)?,
        }
        crate::sockets::rest_until(self.start, || false);
        let worked = self.work(duel, inboxes, cancelled);
        self.finish(worked)
    }

    fn work(&mut self, duel: &Duel, inboxes: &[Shared], cancelled: &AtomicBool) -> Result<(), LabError> {
        // Fails without CAP_SYS_NICE; the recorded lateness then shows the effect.
        let _ = realtime::prefer_this_thread();
        let delay = duel.cable.forward.delay + duel.cable.reverse.delay;
        let mut over_at: Option<Instant> = None;
        let mut turns = 0u32;
        loop {
            let busy = self.turn()?;
            turns = turns.wrapping_add(1);
            if busy && !turns.is_multiple_of(TURNS_PER_LOOK) {
                continue;
            }
            let now = self.now();
            if cancelled.load(Ordering::Relaxed) {
                return Err(LabError::Cancelled);
            }
            let over = match duel.load {
                Load::Time(time) => now >= Instant::ZERO + time,
                Load::Octets(_) => inboxes.iter().all(|inbox| lock(inbox).ended),
            };
            match over_at {
                Some(at) if now >= at => return Ok(()),
                None if over && matches!(duel.load, Load::Time(_)) => return Ok(()),
                None if over => over_at = Some(now + delay.times(AFTERGLOW_ROUND_TRIPS) + LONGEST_WAIT),
                None if now >= Instant::ZERO + duel.limit => {
                    let octets: u64 = inboxes.iter().map(|inbox| lock(inbox).received.octets).sum();
                    let limit = duel.limit;
                    return Err(LabError::Late(format!("{}: only {octets} bytes arrived within {limit}", duel.name)));
                }
                _ => {}
            }
            if !busy {
                self.rest()?;
            }
        }
    }

    /// The run's clock.
    fn now(&self) -> Instant {
        Instant::ZERO + realtime::now().since(self.start)
    }

    /// One iteration. Returns whether anything happened.
    fn turn(&mut self) -> Result<bool, LabError> {
        let mut busy = self.serve();
        for end in [0, 1] {
            busy |= match &self.ends[end] {
                End::Kernel(_) => self.take_from_kernel(end)?,
                End::EndHost(_) => self.take_from_host(end)?,
            };
        }
        Ok(busy)
    }

    /// Delivers what is due, each deadline at its exact time.
    fn serve(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..BATCH {
            let now = self.now();
            let Some(due) = self.cable.poll_timeout().map(|wakeup| wakeup.at).filter(|at| *at <= now) else { break };
            self.latest = self.latest.max(due);
            self.cable.handle_timeout(self.latest);
            self.deliver(due);
            busy = true;
        }
        busy
    }

    fn deliver(&mut self, due: Instant) {
        let mut more = true;
        while std::mem::take(&mut more) {
            for end in [0, 1] {
                while let Some(sent) = self.cable.poll_transmit(self.latest, PORTS[end], &mut self.output, 1) {
                    more |= self.hand_over(end, sent.len, due);
                }
            }
        }
        while self.cable.poll_event().is_some() {}
    }

    /// Delivers the packet in `output` to an end. Returns whether that put anything into the cable.
    fn hand_over(&mut self, end: usize, len: usize, due: Instant) -> bool {
        let packet = &mut self.output[..len];
        let now = Instant::ZERO + realtime::now().since(self.start);
        self.lateness.note(now.since(due));
        if let (0, Some(capture)) = (end, &mut self.capture) {
            capture.note(self.start.as_nanos() + now.as_nanos() + self.unix_offset_ns, PortDirection::In, packet);
        }
        match &mut self.ends[end] {
            End::Kernel(side) => {
                self.refused += u64::from(side.tun.write(packet).is_err());
                false
            }
            End::EndHost(side) => {
                let meta = FrameMeta { rx_time: now, ..FrameMeta::default() };
                side.host.handle_frame(now, PortId(0), packet, meta);
                // A kernel acknowledges each segment before it takes the next. An acknowledgement lists only a few out-of-order ranges, so
                // one for several segments would leave some unreported.
                self.take_packets(end)
            }
        }
    }

    /// Puts a host's outgoing packets into the cable, at most one batch. Returns whether there were any.
    fn take_packets(&mut self, end: usize) -> bool {
        for taken in 0..BATCH {
            let now = self.now();
            let End::EndHost(side) = &mut self.ends[end] else { return false };
            let Some(sent) = side.host.poll_transmit(now, PortId(0), &mut self.host_input, 1) else {
                return taken > 0;
            };
            self.offer(end, now, sent.len);
        }
        true
    }

    /// Puts an end's packet, held in the buffer of its kind, into the cable.
    fn offer(&mut self, end: usize, now: Instant, len: usize) {
        let packet = match &self.ends[end] {
            End::Kernel(_) => &mut self.input[..len],
            End::EndHost(_) => &mut self.host_input[..len],
        };
        if let (0, Some(capture)) = (end, &mut self.capture) {
            capture.note(self.start.as_nanos() + now.as_nanos() + self.unix_offset_ns, PortDirection::Out, packet);
        }
        self.latest = self.latest.max(now);
        let meta = FrameMeta { rx_time: self.latest, ..FrameMeta::default() };
        self.cable.handle_frame(self.latest, PORTS[end], packet, meta);
    }

    fn take_from_kernel(&mut self, end: usize) -> Result<bool, LabError> {
        for taken in 0..BATCH {
            let End::Kernel(side) = &self.ends[end] else { return Ok(false) };
            let read = side.tun.read(&mut self.input).map_err(LabError::io("cannot read a TUN device"))?;
            let Some(len) = read else { return Ok(taken > 0) };
            if len > MTU {
                let said = format!("a packet of {len} bytes exceeds the MTU of {MTU}: an offload is on");
                return Err(LabError::Failed { program: "the duel's device".into(), said });
            }
            if source_of(&self.input[..len]) == Some(self.sources[end]) {
                // Packets due before this one arrived go first.
                self.serve();
                let now = self.now();
                self.offer(end, now, len);
                self.deliver(now);
            }
        }
        Ok(true)
    }

    fn take_from_host(&mut self, end: usize) -> Result<bool, LabError> {
        let now = self.now();
        let End::EndHost(side) = &mut self.ends[end] else { return Ok(false) };
        if side.host.poll_timeout().is_some_and(|wakeup| wakeup.at <= now) {
            side.host.handle_timeout(now);
        }
        let moved = side.pump(now)?;
        let sent = self.take_packets(end);
        if sent {
            self.deliver(now);
        }
        Ok(moved || sent)
    }

    /// Waits for the next deadline or packet.
    fn rest(&mut self) -> Result<(), LabError> {
        let mut until = self.now() + LONGEST_WAIT;
        if let Some(wakeup) = self.cable.poll_timeout() {
            until = until.min(wakeup.at);
        }
        let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
        for end in &self.ends {
            match end {
                End::Kernel(side) => fds.push(side.tun.as_fd()),
                End::EndHost(side) => until = side.host.poll_timeout().map_or(until, |wakeup| until.min(wakeup.at)),
            }
        }
        let until = self.start + until.max(self.rested + GRAIN).since(Instant::ZERO);
        realtime::wait(&fds, until).map_err(LabError::io("cannot wait for packets"))?;
        self.rested = self.now();
        Ok(())
    }

    fn finish(mut self, worked: Result<(), LabError>) -> Result<DuelEnd<G>, LabError> {
        let mut end = DuelEnd {
            flows: Vec::new(),
            hosts: [None, None],
            kernel: [None, None],
            link: Direction::BOTH.map(|way| *self.cable.counters(way)),
            late: self.lateness.per_mille(990),
            inconclusive: None,
        };
        let mut dropped = 0;
        let mut stopped = Ok(());
        for (place, side) in self.ends.into_iter().enumerate() {
            match side {
                End::EndHost(side) => end.hosts[place] = Some(side.host),
                End::Kernel(mut side) => {
                    end.kernel[place] = Some(side.counters()?);
                    dropped += side.dropped()?;
                    stopped = stopped.and(side.stop());
                }
            }
        }
        if let Some(capture) = self.capture.take() {
            let skipped = capture.finish().map_err(LabError::io("cannot write the capture"))?;
            if skipped > 0 {
                end.inconclusive = Some(format!("{skipped} packets are missing in the capture: the disk was too slow"));
            }
        }
        worked.and(stopped)?;
        if dropped + self.refused > 0 {
            let refused = self.refused;
            end.inconclusive =
                Some(format!("{dropped} packets lost before the link and {refused} behind it: too busy"));
        } else if end.late > LATE_MAX {
            end.inconclusive = Some(format!("1 % of the frames came {} or more late: too busy", end.late));
        }
        Ok(end)
    }
}

/// Source address of an IP packet.
fn source_of(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(12..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*packet.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}
