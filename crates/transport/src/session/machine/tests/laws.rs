//! The laws of machines, on `Sessions` with a small owner.

use super::*;
use wavelane_base::laws::{self, Script, Stimulus};

/// `Sessions` with a small owner, so that the laws of machines can be checked on it.
struct Law {
    sessions: Sessions,
    next_number: u64,
    queue: usize,
}

fn law(node: usize, peers: usize) -> Law {
    let mut c = config(node, 1);
    for i in 1..peers {
        let public_key = public_key(&private_key(40 + i));
        c.peers.push(PeerKeys { public_key, ways: vec![way(40 + i)], ..c.peers[0].clone() });
    }
    Law { sessions: Sessions::new(Instant::ZERO, c, entropy(node, 5)), next_number: 0, queue: 0 }
}

impl Machine for Law {
    type Event = SessionEvent;
    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        if let Incoming::Established(_) = self.sessions.handle_datagram(now, port, frame, meta.from) {
            self.queue += 1;
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _: usize) -> Option<Transmit> {
        if let Some(out) = self.sessions.poll_handshake(now, port, buf) {
            return Some(Transmit { len: out.len, to: out.to, ..Transmit::default() });
        }
        if self.queue == 0 || !self.sessions.can_seal(now, 0) {
            return None;
        }
        self.queue -= 1;
        let len = self.sessions.seal(now, 0, 0, self.next_number, buf, 20)?;
        self.next_number += 1;
        Some(Transmit { len, ..Transmit::default() })
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.sessions.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<SessionEvent> {
        self.sessions.poll_event()
    }
}

/// What a session machine with one peer may hold: its sessions, one handshake, replies of bounded number and size.
const SESSIONS_MEMORY: u64 = 128 << 10;

/// Copies of a genuine first datagram and noise, from 50,000 addresses.
#[test]
fn sessions_that_are_flooded_stay_within_their_memory() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_secs(1));
    let genuine = w.sent[0].2.clone();
    let step = |i: u32| {
        let mut bytes = genuine.clone();
        if i.is_multiple_of(3) {
            let at = i as usize % bytes.len();
            bytes[at] ^= 1;
        }
        let from = crate::session::world::at((0x0a00_0000 + i).to_be_bytes(), 1_000 + (i % 60_000) as u16);
        let meta = FrameMeta { from: Some(from), ..FrameMeta::default() };
        (Instant::from_secs(2) + Span::from_micros(u64::from(i) * 10), Stimulus::Frame(PORT, bytes, meta))
    };
    let script = Script { steps: (0..50_000).map(step).collect(), ports: vec![PORT], end: Instant::from_secs(10) };
    laws::check_memory(|| law(1, 1), &script, SESSIONS_MEMORY, |work| allocation_counter::measure(work).bytes_max);
}

#[test]
fn the_laws_hold() {
    // What a responder hears from a genuine initiator over three sessions, with an outage in it.
    let mut w = World::with([config(0, 1), config(1, 1)], MS50, 5);
    w.fate = Box::new(|now, _, _| {
        let outage = now > Instant::from_secs(60) && now < Instant::from_secs(64);
        if outage { Vec::new() } else { vec![Span::ZERO] }
    });
    w.want(0);
    for _ in 0..300 {
        w.send(0, b"x");
        w.run(Span::from_secs(1));
    }
    let heard = w.sent.iter().filter(|(_, from, _)| *from == 0);
    let meta = FrameMeta { from: Some(address(0)), ..FrameMeta::default() };
    let mut steps: Vec<(Instant, Stimulus<Law>)> =
        heard.map(|(at, _, bytes)| (*at + MS50, Stimulus::Frame(PORT, bytes.clone(), meta))).collect();
    for (at, command) in [
        (10, (|m, now| m.sessions.want(now, 0, true)) as fn(&mut Law, Instant)),
        (62, |m, now| m.sessions.suspect(now, 0)),
        (70, |m, _| m.queue += 3),
        (200, |m, now| m.sessions.want(now, 0, false)),
        (230, |m, now| m.sessions.want(now, 0, true)),
    ] {
        steps.push((Instant::from_secs(at), Stimulus::Command(command)));
    }
    steps.sort_by_key(|(at, _)| *at);
    laws::check(|| law(1, 1), &Script { steps, ports: vec![PORT], end: Instant::from_secs(320) });

    // An initiator without answers, with two peers.
    let steps = vec![
        (Instant::from_secs(1), Stimulus::Command((|m, now| m.sessions.want(now, 0, true)) as fn(&mut Law, Instant))),
        (Instant::from_secs(2), Stimulus::Command(|m, now| m.sessions.want(now, 1, true))),
        (Instant::from_secs(9), Stimulus::Command(|m, now| m.sessions.want(now, 1, false))),
        (Instant::from_secs(9), Stimulus::Command(|m, now| m.sessions.want(now, 1, true))),
    ];
    laws::check(|| law(0, 2), &Script { steps, ports: vec![PORT], end: Instant::from_secs(100) });
}
