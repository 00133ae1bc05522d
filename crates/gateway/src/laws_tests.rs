//! The laws of machines for a gateway: without a session, and with one that carries a flow both ways.

use super::*;
use wavelane_base::Transmit;
use wavelane_base::laws::{Script, Stimulus, check, check_memory};

#[test]
fn the_laws_hold_without_answers_and_with_unknown_callers() {
    let open = |g: &mut Gateway, now| {
        g.open(now, PeerId(0), CLIENT, SERVER).unwrap();
    };
    let junk = |n: u64| {
        let mut bytes = vec![0; 120];
        let mut chance = Seed(n).chance("junk");
        bytes.iter_mut().for_each(|b| *b = chance.next_u64() as u8);
        bytes[0] = 1 + (n % 4) as u8;
        Stimulus::Frame(PortId(0), bytes, FrameMeta { from: Some(B), ..FrameMeta::default() })
    };
    let mut steps = vec![(Instant::from_millis(5), Stimulus::Command(open as fn(&mut Gateway, Instant)))];
    steps.extend((0..50).map(|n| (Instant::from_millis(100 + 37 * n), junk(n))));
    let script = Script { steps, ports: vec![PortId(0)], end: Instant::from_secs(20) };
    check(|| gateway(Instant::ZERO, 1, 2, B, 1), &script);
}

/// Per flow, without its bytes.
const FLOW_MEMORY: u64 = 4 << 10;
/// An idle gateway, and the state that strangers may cause.
const IDLE_MEMORY: u64 = 2 << 20;

/// An owner that opens flows and writes as fast as possible, and strangers that send junk.
#[test]
fn a_flooded_gateway_stays_within_its_memory() {
    let small = || Config { flows_max: 200, pool: Octets::new(4 << 20), ..config(1, 2, B) };
    let open: fn(&mut Gateway, Instant) = |gateway, now| {
        if let Ok(flow) = gateway.open(now, PeerId(0), CLIENT, SERVER) {
            gateway.write(now, flow, &[7; 100_000]);
        }
    };
    let junk = |n: u64| {
        let mut chance = Seed(n).chance("junk");
        let mut bytes: Vec<u8> = (0..148).map(|_| chance.next_u64() as u8).collect();
        bytes[0] = 1 + (n % 4) as u8;
        let from = Some(Address::Ip(([198, 51, (n >> 8) as u8, n as u8], 4780).into()));
        Stimulus::Frame(PortId(0), bytes, FrameMeta { from, ..FrameMeta::default() })
    };
    let at = |n: u64| Instant::from_millis(5) + Span::from_micros(200).times(n);
    let steps = (0..20_000).map(|n| (at(n), if n % 2 == 0 { Stimulus::Command(open) } else { junk(n) }));
    let script = Script { steps: steps.collect(), ports: vec![PortId(0)], end: Instant::from_secs(10) };
    let make = || Gateway::new(Instant::ZERO, small(), 1, Seed(1).entropy("gateway")).unwrap();
    // Twice, for tables that grow by doubling.
    let limit = 2 * (small().pool.get() + small().flows_max as u64 * FLOW_MEMORY) + IDLE_MEMORY;
    check_memory(make, &script, limit, |work| allocation_counter::measure(work).bytes_max);
}

/// A gateway and its application with one flow: it writes when told to and reads everything that arrives.
struct Owned {
    gateway: Gateway,
    flow: Option<FlowId>,
    read: usize,
}

impl Owned {
    fn config() -> Config {
        Config { pool: Octets::new(4 << 20), ..config(1, 2, B) }
    }
    fn new() -> Self {
        let gateway = Gateway::new(Instant::ZERO, Self::config(), 1, Seed(1).entropy("gateway")).unwrap();
        Self { gateway, flow: None, read: 0 }
    }
    fn open(&mut self, now: Instant) {
        self.flow = self.gateway.open(now, PeerId(0), CLIENT, SERVER).ok();
    }
    fn write(&mut self, now: Instant) {
        if let Some(flow) = self.flow {
            self.gateway.write(now, flow, &[7; 60_000]);
        }
    }
    fn read(&mut self, now: Instant) {
        let mut buf = [0; 4_096];
        while let Some(ReadOutcome::Data(n)) = self.flow.map(|flow| self.gateway.read(now, flow, &mut buf)) {
            self.read += n;
        }
    }
    fn shutdown(&mut self, now: Instant) {
        if let Some(flow) = self.flow {
            self.gateway.shutdown(now, flow);
        }
    }
}

impl Machine for Owned {
    type Event = GatewayEvent;
    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        self.gateway.handle_frame(now, port, frame, meta);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.gateway.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], segments_max: usize) -> Option<Transmit> {
        self.gateway.poll_transmit(now, port, buf, segments_max)
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.gateway.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<GatewayEvent> {
        self.gateway.poll_event()
    }
}

/// An action of the application.
type Act = fn(&mut Owned, Instant);

/// The application's actions and their times: it opens, writes and reads for four seconds, and ends.
fn acts() -> VecDeque<(Instant, Act)> {
    let ms = Instant::from_millis;
    let mut acts = VecDeque::from([(ms(5), Owned::open as Act)]);
    for at in (200..4_000).step_by(25) {
        acts.push_back((ms(at), if at % 50 == 0 { Owned::write } else { Owned::read }));
    }
    acts.extend([(ms(4_000), Owned::shutdown as Act), (ms(6_000), Owned::read)]);
    acts
}

/// The script of a gateway with a session: its application's actions, and the frames of a peer that answers, loses some and
/// echoes what it reads, recorded while [`Owned::new`] was driven as [`check`] drives it. Also how much the application read.
fn in_session(end: Instant) -> (Script<Owned>, usize) {
    let (mut ours, mut peer) = (Owned::new(), gateway(Instant::ZERO, 2, 1, A, 1));
    let (mut acts, mut steps, mut chance) = (acts(), Vec::new(), Seed(3).chance("loss"));
    let mut pipe: VecDeque<(Instant, bool, Vec<u8>)> = VecDeque::new();
    let (mut now, mut buf, mut owed) = (Instant::ZERO, vec![0; 65_535], Vec::new());
    let mut lossy = |now: Instant| now > Instant::from_secs(1) && chance.below(50) == 0;
    loop {
        // Everything sendable is sent, and the peer echoes what it reads.
        for to_peer in [true, false] {
            let node = if to_peer { &mut ours.gateway } else { &mut peer };
            while let Some(out) = node.poll_transmit(now, PortId(0), &mut buf, 1) {
                if !lossy(now) {
                    pipe.push_back((now + DELAY, to_peer, buf[..out.len].to_vec()));
                }
            }
        }
        while ours.gateway.poll_event().is_some() {}
        let mut moved = false;
        while let Some(event) = peer.poll_event() {
            moved = true;
            match event {
                GatewayEvent::Incoming { flow, .. } => peer.accept(now, flow),
                GatewayEvent::Readable(flow) => {
                    while let ReadOutcome::Data(n) = peer.read(now, flow, &mut buf) {
                        owed.extend_from_slice(&buf[..n]);
                    }
                    let written = peer.write(now, flow, &owed);
                    owed.drain(..written);
                }
                GatewayEvent::Writable(flow) => {
                    let written = peer.write(now, flow, &owed);
                    owed.drain(..written);
                }
                _ => {}
            }
        }
        if moved {
            continue;
        }
        if pipe.front().is_some_and(|frame| frame.0 <= now)
            && let Some((_, to_peer, mut bytes)) = pipe.pop_front()
        {
            let from = Some(if to_peer { A } else { B });
            let meta = FrameMeta { rx_time: now, from, ..FrameMeta::default() };
            if to_peer {
                peer.handle_frame(now, PortId(0), &mut bytes, meta);
            } else {
                steps.push((now, Stimulus::Frame(PortId(0), bytes.clone(), meta)));
                ours.handle_frame(now, PortId(0), &mut bytes, meta);
            }
            continue;
        }
        if acts.front().is_some_and(|act| act.0 <= now)
            && let Some((_, act)) = acts.pop_front()
        {
            steps.push((now, Stimulus::Command(act)));
            act(&mut ours, now);
            continue;
        }
        let deadlines = [ours.poll_timeout(), peer.poll_timeout()].into_iter().flatten().map(|wakeup| wakeup.at);
        let waits = pipe.front().map(|frame| frame.0).into_iter().chain(acts.front().map(|act| act.0));
        let next = deadlines.chain(waits).min().unwrap_or(end);
        if next >= end {
            return (Script { steps, ports: vec![PortId(0)], end }, ours.read);
        }
        now = next;
        ours.handle_timeout(now);
        peer.handle_timeout(now);
    }
}

#[test]
fn the_laws_hold_in_a_session_with_a_flow() {
    let (script, read) = in_session(Instant::from_secs(8));
    let frames = script.steps.iter().filter(|(_, step)| matches!(step, Stimulus::Frame(..))).count();
    assert!(read > 1_000_000 && frames > 1_000, "{read} octets read of {frames} frames");
    check(Owned::new, &script);
}

/// Unacknowledged bytes, unread bytes, the session and the gateway itself.
#[test]
fn a_session_with_a_flow_stays_within_its_memory() {
    let (script, _) = in_session(Instant::from_secs(8));
    let limit = 2 * (Owned::config().pool.get() + FLOW_MEMORY) + IDLE_MEMORY;
    check_memory(Owned::new, &script, limit, |work| allocation_counter::measure(work).bytes_max);
}
