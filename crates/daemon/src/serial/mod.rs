//! IP over a serial line: a TUN device of this machine's whose packets are the line's, as `[serial]` asks. It needs no peer and no gateway,
//! so it has a thread of its own.

mod device;
mod flow;

pub(crate) use device::LineDevice;

use crate::changes::Allowance;
use crate::config::SerialIp;
use crate::log::{Pen, WARNING};
use crate::system::serial::PacedLine;
use device::Loss;
use flow::Waiting;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use wavelane_base::{Entropy, Instant, Span};
use wavelane_host::nft::ToolError;
use wavelane_host::realtime;
use wavelane_host::tun::TunError;
use wavelane_queue::{Discipline, Limits, Queue, Terms, UNLIMITED};
use wavelane_serial::ppp::{Cause, PppEvent};
use wavelane_serial::{Line, LineConfig};

/// Most packets that wait for the line, and their octets: about 10 s of 115.2 kbit/s. The queue's management keeps them few.
const LIMITS: Limits = Limits { items: 256, octets: 128 << 10 };
/// Packets read from the device at once.
const READS: usize = 32;
/// Reads of the port at once.
const PORT_READS: usize = 8;
/// When a port that is not there, or is refused, is tried again.
const AGAIN: Span = Span::from_secs(1);
/// How long an orderly stop waits for the other end's word that the PPP link is over: policy, as the next.
const GOODBYE: Span = Span::from_secs(2);
/// How long it then waits for a modem to hang up: silences around `+++`, `ATH`, and DTR off.
const HANG_UP: Span = Span::from_secs(6);
/// Longest packet.
const PACKET_ROOM: usize = 65_535;
/// CoDel's target is at least the time of so many packets (RFC 8289, section 4.4: one MTU) ...
const TARGET_PACKETS: usize = 2;
/// ... and its interval so many targets.
const INTERVAL_TARGETS: u64 = 20;

/// Why the device of `[serial]` cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SerialError {
    #[error(transparent)]
    Device(#[from] TunError),
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// What is known of the line now.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineState {
    /// Why nothing passes, if that is so.
    pub(crate) unused: Option<String>,
    /// Packets and octets of packets from the line, and to it.
    pub(crate) received: (u64, u64),
    pub(crate) sent: (u64, u64),
    /// Frames that held no packet, by cause.
    pub(crate) bad: Vec<(&'static str, u64)>,
    /// Packets dropped to keep the queue short, because it was full, or because the other end takes none such.
    pub(crate) dropped: u64,
    unsent: u64,
    /// Both ends' addresses, as PPP agreed.
    pub(crate) addresses: Option<(String, String)>,
    /// What the device lacks and cannot be given.
    pub(crate) lacking: Option<String>,
    /// How often another program took something of the device away, by what came of it.
    pub(crate) losses: BTreeMap<&'static str, u64>,
}

/// The thread's half of what `status` shows.
type Shared = Arc<Mutex<LineState>>;

/// A port, a device, and what waits between them.
struct IpLine {
    config: SerialIp,
    device: LineDevice,
    line: Option<PacedLine>,
    /// Packets pass the port's ends: its modem has a connection, or needs none.
    joined: bool,
    ip: Line,
    queue: Queue<Waiting>,
    state: LineState,
    shared: Shared,
    pen: Pen,
    /// A modem may have something else to say each time.
    told: Allowance,
    /// Keyed, so that no outsider makes two flows one.
    key: u64,
    try_at: Instant,
    buffer: Vec<u8>,
    /// Ends when the process stops in order.
    bell: UnixStream,
}

impl IpLine {
    fn new(config: SerialIp, device: LineDevice, pen: Pen, bell: UnixStream, mut dice: Entropy) -> Self {
        let mut of_line = LineConfig::new(config.line.framing);
        // The file's bound is far below.
        of_line.mtu = u16::try_from(config.line.mtu).unwrap_or(u16::MAX);
        of_line.rate = Some(config.line.rate());
        let own =
            config.addresses.iter().find_map(|own| if let IpAddr::V4(own) = own.address { Some(own) } else { None });
        of_line.ppp.local = own;
        of_line.ppp.remote = config.peer;
        of_line.ppp.login.clone_from(&config.login);
        // Else slirp on 64 bits loses packets with data; it costs those an octet.
        of_line.names_slot = true;
        of_line.ppp.vj_slots = of_line.ppp.vj_slots.filter(|_| config.compress);
        let mut key = [0; 8];
        dice.fill(&mut key);
        let mut queue = Queue::new(Discipline::FqCoDel, LIMITS);
        let packet = wavelane_host::tty::Pace::new(config.line.port.rate).time_for(config.line.mtu);
        let target = Terms::default().target.max(packet.times(TARGET_PACKETS as u64));
        let interval = Terms::default().interval.max(target.times(INTERVAL_TARGETS));
        queue.set_terms(Terms { target, interval, age: UNLIMITED, ..Terms::default() });
        Self {
            config,
            device,
            line: None,
            joined: false,
            ip: Line::new(&of_line, dice),
            queue,
            state: LineState { unused: Some("its port is not open yet".into()), ..LineState::default() },
            shared: Shared::default(),
            pen,
            told: Allowance::new(realtime::now()),
            key: u64::from_le_bytes(key),
            try_at: Instant::ZERO,
            buffer: vec![0; PACKET_ROOM],
            bell,
        }
    }
    /// Runs for as long as the process does.
    fn run(mut self) {
        loop {
            let now = realtime::now();
            self.tend_port(now);
            let more = self.read_device(now) | self.read_line(now);
            self.look_at_device(now);
            self.hear_of_ppp(now);
            self.write_line(now);
            *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = self.state.clone();
            if more {
                continue;
            }
            let mut fds = vec![self.bell.as_fd()];
            fds.extend(self.device.packets());
            fds.extend(self.line.as_ref().map(AsFd::as_fd));
            if realtime::wait(&fds, self.deadline().min(self.device.deadline())).is_err() {
                return self
                    .pen
                    .put("error: [serial] ended: the system refused to wait for its port; restart wavelaned");
            }
            // Nobody writes to it.
            if matches!((&self.bell).read(&mut [0]), Ok(0)) {
                return self.part();
            }
        }
    }
    /// Puts back what another program took away of the device.
    fn look_at_device(&mut self, now: Instant) {
        let (name, loss) = (&self.config.name, self.device.look(now));
        let (count, said) = match &loss {
            Some(Loss::PutBack(what)) => (
                "state_put_back",
                format!(
                    "{name} lacked {what}: another program took that away (`ip link`, `ip address`, `ip route`), and it is put back"
                ),
            ),
            Some(Loss::Missing(what)) => {
                ("state_missing", format!("{name} lacks, and cannot be given, {what}; restart wavelaned if that stays"))
            }
            None if self.device.lacks() => return,
            None => return self.state.lacking = None,
        };
        *self.state.losses.entry(count).or_default() += 1;
        self.tell(&said);
        self.state.lacking = matches!(loss, Some(Loss::Missing(_))).then_some(said);
    }
    /// Tells the other end that the PPP link is over, then the modem that the call is: neither finds out by itself for a minute or more.
    fn part(mut self) {
        let start = realtime::now();
        self.ip.close(start);
        self.wait_until(start + GOODBYE, |it| !it.joined || it.ip.is_closed());
        let start = realtime::now();
        self.line.iter_mut().for_each(|line| line.hang_up(start, "wavelaned stops"));
        self.wait_until(start + HANG_UP, |it| it.line.as_ref().is_none_or(PacedLine::is_at_rest));
    }
    fn wait_until(&mut self, end: Instant, is_done: impl Fn(&Self) -> bool) {
        loop {
            let now = realtime::now();
            self.line.iter_mut().for_each(|line| line.tend(now));
            self.read_line(now);
            self.write_line(now);
            if now >= end || is_done(self) {
                return;
            }
            let fds: Vec<_> = self.line.iter().map(AsFd::as_fd).collect();
            if realtime::wait(&fds, self.deadline().min(end)).is_err() {
                return;
            }
        }
    }
    fn deadline(&self) -> Instant {
        let frame_end = self.ip.poll_timeout().map(|wakeup| wakeup.at);
        let line = self.line.as_ref().map(PacedLine::deadline);
        let again = self.line.is_none().then_some(self.try_at);
        // A line that takes nothing is looked at again, too.
        let stuck = realtime::now() + AGAIN;
        [frame_end, line.flatten(), again].into_iter().flatten().min().map_or(stuck, |at| at.min(stuck))
    }
    /// Closes a port that ended and opens one that is there.
    fn tend_port(&mut self, now: Instant) {
        let port = self.config.device.clone();
        if self.line.as_ref().is_some_and(PacedLine::is_gone) {
            self.line = None;
            if std::mem::take(&mut self.joined) {
                self.ip.line_down(now);
            }
            self.refuse(format!("port {port} is gone: nothing passes until it is back"));
            self.try_at = now + AGAIN;
        }
        if let Some(line) = &mut self.line {
            line.tend(now);
            return self.join(now);
        }
        if now < self.try_at {
            return;
        }
        self.try_at = now + AGAIN;
        match PacedLine::open(&port, self.config.line.port, self.config.line.framing, self.config.dial.as_ref()) {
            Ok(mut line) => {
                line.tend(now);
                self.line = Some(line);
                self.join(now);
            }
            Err(why) => {
                let remedy = wavelane_host::tty::TtyError::of(&why).map_or("check it", |why| why.remedy());
                self.refuse(format!("port {port} cannot be used: {why}; {remedy}"));
            }
        }
    }
    /// Begins with a port that leads somewhere, at once or when its modem has a connection, and ends with that.
    fn join(&mut self, now: Instant) {
        let Some(line) = &self.line else { return };
        let (connected, state) = (line.is_connected(), line.call_state().map(str::to_owned));
        if std::mem::replace(&mut self.joined, connected) != connected {
            if connected {
                if let Some(state) = &state {
                    self.tell(state);
                }
                self.ip.line_up(now);
                if self.ip.is_up() {
                    self.carries();
                } else {
                    self.state.unused = Some("PPP negotiates".into());
                }
            } else {
                self.ip.line_down(now);
                self.hold(now);
            }
        }
        if let Some(state) = state.filter(|_| !connected) {
            self.refuse(state);
        }
    }
    /// The next call waits for as long as a refused secret does.
    fn hold(&mut self, now: Instant) {
        let (until, line) = (self.ip.not_before(now), self.line.as_mut());
        if let Some((until, line)) = until.zip(line) {
            line.hold(now, until, "PPP is down: the other end refuses our name and secret");
        }
    }
    fn carries(&mut self) {
        self.state.unused = None;
        let (name, port, framing) = (&self.config.name, &self.config.device, self.config.line.framing);
        self.tell(&format!("{name} carries IP by {port} ({framing})"));
    }
    /// What became of a PPP link.
    fn hear_of_ppp(&mut self, now: Instant) {
        while let Some(event) = self.ip.poll_event() {
            match event {
                PppEvent::Up(agreed) => {
                    self.state.addresses = Some((agreed.local.to_string(), agreed.remote.to_string()));
                    if let Err(why) = self.device.agree(&self.config, agreed) {
                        self.tell(&format!("cannot set the address {} or the MTU: {why}", agreed.local));
                    }
                    self.tell(&format!("PPP is up, {} to {}", agreed.local, agreed.remote));
                    self.carries();
                }
                PppEvent::Down(why) if self.joined => {
                    self.refuse(format!("PPP is down: {why}"));
                    // A call without a link costs as much as one with it.
                    if let Some(line) = self.line.as_mut().filter(|_| why != Cause::Renegotiated) {
                        line.hang_up(now, &format!("PPP is down: {why}"));
                    }
                    self.hold(now);
                }
                PppEvent::Down(_) | PppEvent::Uncompressed => {}
            }
        }
    }
    fn tell(&mut self, what: &str) {
        self.tell_as("", what);
    }
    fn tell_as(&mut self, level: &str, what: &str) {
        let unsaid = match self.told.take(realtime::now()) {
            None => return,
            Some(0) => String::new(),
            Some(lines) => format!(" ({lines} lines before were not logged)"),
        };
        self.pen.put(&format!("{level}[serial]: {what}{unsaid}"));
    }
    /// Nothing passes, and why; logged once.
    fn refuse(&mut self, why: String) {
        let is_new = self.state.unused.as_ref() != Some(&why);
        if is_new {
            self.tell_as(WARNING, &why);
        }
        self.state.unused = Some(why);
        // What waited would arrive long after its time.
        self.queue.take_all();
    }
    /// From the device into the queue. Returns whether there may be more.
    fn read_device(&mut self, now: Instant) -> bool {
        for _ in 0..READS {
            let Some(len) = self.device.read(&mut self.buffer) else { return false };
            if self.joined
                && let Some(waiting) = Waiting::new(&self.buffer[..len], self.key)
            {
                self.queue.push(now, waiting);
            }
        }
        true
    }
    /// From the line to the device. Returns whether there may be more.
    fn read_line(&mut self, now: Instant) -> bool {
        let Some(line) = &mut self.line else { return false };
        let (device, ip, received) = (&self.device, &mut self.ip, &mut self.state.received);
        let mut give = |packet: &mut [u8]| {
            if device.write(packet).is_ok() {
                *received = (received.0 + 1, received.1 + packet.len() as u64);
            }
        };
        ip.handle_timeout(now, &mut give);
        let mut reads = 0;
        while reads < PORT_READS && line.read(now, |octets| ip.push(now, octets, &mut give)) {
            reads += 1;
        }
        if ip.is_up() {
            // A PPP link that is up has answered an echo lately; of other framings nothing is asked.
            line.proved(now);
        }
        let counters = ip.counters();
        self.state.bad = counters.bad_by_cause().map(|(fault, count)| (fault.word(), count)).collect();
        reads == PORT_READS
    }
    /// From the queue to the line, as it takes packets.
    fn write_line(&mut self, now: Instant) {
        let Some(line) = &mut self.line else { return };
        line.flush(now);
        let ip = &mut self.ip;
        // PPP's own packets go first: without them nothing goes at all.
        if line.has_room() {
            line.put(now, |out| ip.poll_transmit(now, out));
        }
        while line.has_room() && ip.is_up() {
            let Some(next) = self.queue.pop(now) else { break };
            let packet = next.item.bytes();
            let mut sent = Ok(());
            line.put(now, |out| sent = ip.send(now, packet, out));
            match sent {
                Ok(()) => self.state.sent = (self.state.sent.0 + 1, self.state.sent.1 + packet.len() as u64),
                Err(_) => self.state.unsent += 1,
            }
        }
        let counters = self.queue.counters();
        let dropped = counters.dropped_full + counters.dropped_delay + counters.dropped_age;
        self.state.dropped = dropped + self.state.unsent;
    }
}

/// Starts the thread. It has given up what privileges the process gave up before.
pub(crate) fn start(config: SerialIp, device: LineDevice, pen: Pen, dice: Entropy) -> io::Result<Running> {
    let (bell, ring) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    let line = IpLine::new(config, device, pen, bell, dice);
    let shared = Arc::clone(&line.shared);
    let thread = std::thread::Builder::new().name("serial".into()).spawn(move || line.run())?;
    Ok(Running { shared, ring, thread })
}

/// The thread, as its owner has it.
pub(crate) struct Running {
    shared: Shared,
    ring: UnixStream,
    thread: JoinHandle<()>,
}

impl Running {
    /// What is known of the line now.
    pub(crate) fn state(&self) -> LineState {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// An orderly end: the link is closed, and the modem hangs up. It takes at most [`GOODBYE`] and [`HANG_UP`].
    pub(crate) fn stop(self) {
        drop(self.ring);
        let _ = self.thread.join();
    }
}
