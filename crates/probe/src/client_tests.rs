#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::limits::Limits;
use crate::packet::Tally;
use crate::server::Server;
use std::collections::BTreeMap;
use wavelane_base::laws::{Script, Stimulus};
use wavelane_base::{Seed, laws};

const PACE: Pace = Pace { interval: Span::from_millis(10), size: 100, seconds: 60 };
const CLIENT: &str = "192.0.2.1:5000";

/// What the path does to the `n`-th datagram (both directions counted on their own): when it arrives after being sent, in
/// milliseconds, once for each copy.
type Path = fn(upward: bool, n: u64, now_ms: u64) -> Vec<u64>;

/// A client, a server and the path between them.
struct World {
    client: Client,
    server: Server,
    now: Instant,
    path: Path,
    counts: [u64; 2],
    /// By time and number: who gets it, and what.
    flying: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    events: Vec<ClientEvent>,
    /// Ours and the server's clock differ by this.
    ahead: Span,
}

impl World {
    fn new(path: Path) -> Self {
        let now = Instant::from_secs(1);
        Self {
            client: Client::new(now, PACE, Seed(1).entropy("client")),
            server: Server::new(Limits::default(), Seed(1).entropy("server")),
            now,
            path,
            counts: [0; 2],
            flying: BTreeMap::new(),
            events: Vec::new(),
            ahead: Span::from_secs(1_000),
        }
    }

    fn launch(&mut self, upward: bool, bytes: &[u8]) {
        let n = self.counts[usize::from(upward)];
        self.counts[usize::from(upward)] += 1;
        for (copy, delay) in (self.path)(upward, n, self.now.as_micros() / 1_000).into_iter().enumerate() {
            let key = (self.now + Span::from_millis(delay), self.flying.len() as u64 * 4 + copy as u64 + n * 1_000);
            self.flying.insert(key, (upward, bytes.to_vec()));
        }
    }

    fn drain(&mut self) {
        let mut buf = [0; 2_000];
        for port in [0, 46] {
            while let Some(transmit) = self.client.poll_transmit(self.now, PortId(port), &mut buf, 1) {
                self.launch(true, &buf[..transmit.len]);
            }
        }
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
    }

    fn run(&mut self, ms: u64) {
        let end = self.now + Span::from_millis(ms);
        loop {
            self.drain();
            let wakeup = self.client.poll_timeout().map(|wakeup| wakeup.at);
            let arrival = self.flying.keys().next().map(|key| key.0);
            let next = wakeup.into_iter().chain(arrival).min().unwrap_or(end).min(end);
            self.now = self.now.max(next);
            if self.now >= end {
                return;
            }
            self.client.handle_timeout(self.now);
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (upward, mut bytes) = entry.remove();
                if upward {
                    let (theirs, mut out) = (self.now + self.ahead, [0; 2_000]);
                    if let Some(a) = self.server.handle(theirs, theirs, CLIENT.parse().unwrap(), &bytes, &mut out) {
                        self.launch(false, &out[..a.len]);
                    }
                } else {
                    let meta = FrameMeta { rx_time: self.now, ..FrameMeta::default() };
                    self.client.handle_frame(self.now, PortId(0), &mut bytes, meta);
                }
            }
        }
    }

    fn measure(&mut self, ms: u64) -> Train {
        self.run(100);
        let now = self.now;
        self.client.begin(now, 1, 0);
        self.run(ms);
        self.client.end(self.now, 1);
        self.run(6_000);
        assert!(self.client.counted());
        self.client.trains()[0].clone()
    }
}

/// The handshake takes two datagrams each way before the first probe.
const BEFORE: u64 = 2;

#[test]
fn probes_leave_every_ten_milliseconds_and_tell_both_ways() {
    let mut world = World::new(|upward, _, _| vec![if upward { 7 } else { 3 }]);
    let train = world.measure(1_000);
    assert_eq!(train.samples.len(), 100);
    assert!(train.samples.windows(2).all(|w| w[1].sent.since(w[0].sent) == Span::from_millis(10)));
    for sample in &train.samples {
        let (told, back) = sample.echo.unwrap();
        assert_eq!(back.since(sample.sent), Span::from_millis(10));
        assert_eq!(told.received - sample.sent.as_nanos(), 1_000_000_000_000 + 7_000_000);
        assert!(sample.reached);
    }
    assert_eq!(train.tally.unwrap().received, 100);
    assert!(matches!(world.events[..], [ClientEvent::Opened { again: false, .. }]), "{:?}", world.events);
}

#[test]
fn loss_copies_and_reordering_are_counted_per_direction() {
    let mut world = World::new(|upward, n, _| match (upward, n.checked_sub(BEFORE)) {
        (_, None) => vec![1],
        // Upwards every tenth is lost, every tenth comes twice, every tenth is overtaken by one.
        (true, Some(n)) if n < 200 => match n % 10 {
            3 => vec![],
            5 => vec![5, 6],
            7 => vec![16],
            _ => vec![5],
        },
        // Downwards the first twenty are lost, and later one is overtaken by two.
        (false, Some(n)) if n < 20 => vec![],
        (false, Some(60)) => vec![24],
        _ => vec![1],
    });
    let train = world.measure(2_000);
    let tally = train.tally.unwrap();
    assert_eq!((train.samples.len(), tally.received, tally.duplicates, tally.reordered), (200, 180, 20, 20));
    let echoed = train.samples.iter().filter(|s| s.echo.is_some()).count();
    assert_eq!((echoed, train.reordered, train.duplicates), (160, 1, 0));
    let reached = train.samples.iter().filter(|s| s.reached).count();
    assert_eq!(reached, 180, "later windows tell of those whose echoes were lost");
}

#[test]
fn a_lossy_handshake_and_a_lossy_count_are_repeated() {
    let mut world = World::new(|_, n, _| if n % 3 == 0 { vec![40] } else { vec![] });
    world.run(20_000);
    assert!(matches!(world.events[..], [ClientEvent::Opened { .. }]), "{:?}", world.events);
    let train = world.measure(1_000);
    assert!(train.tally.is_some_and(|tally| tally.received > 20), "{:?}", train.tally);
}

/// What the server's socket dropped is learned from its counts, of the time since the session began.
#[test]
fn drops_of_the_servers_socket_are_told() {
    let mut world = World::new(|_, _, _| vec![5]);
    world.server.note_socket_drops(3);
    world.measure(500);
    assert_eq!(world.client.server_socket_drops(), 0);
    world.server.note_socket_drops(10);
    world.measure(500);
    assert_eq!(world.client.server_socket_drops(), 7);
}

#[test]
fn forged_and_odd_datagrams_change_nothing() {
    let mut world = World::new(|_, _, _| vec![5]);
    world.run(100);
    let ClientEvent::Opened { token, .. } = world.events[0] else { panic!() };
    let now = world.now;
    world.client.begin(now, 1, 46);
    world.run(100);
    let before = world.client.trains().to_vec();
    let sent = before[0].samples[0].sent.as_nanos();
    let probe = Probe { token, train: 0, dscp: 46, number: 0, sent };
    let echo = Echo { probe, received: 0, answered: u64::MAX, order: 1, highest: 0, window: 1, loaded: 0 };
    let with = |probe| Message::Echo(Echo { probe, ..echo });
    let lie = Tally { received: u32::MAX, socket_drops: 9, ..Tally::default() };
    let forged = [
        with(Probe { token: [0; 16], ..probe }),
        with(Probe { sent: sent + 1, ..probe }),
        with(Probe { number: u32::MAX, ..probe }),
        with(Probe { train: 9, ..probe }),
        Message::Counted([1; 16], 0, Tally::default()),
        Message::Counted(token, 0, lie),
        Message::Counted(token, 0, Tally { received: 1, reordered: u32::MAX, ..lie }),
        Message::Counted(token, u16::MAX, lie),
        Message::Welcome([1; 8], [2; 16], Grant::default()),
        Message::Cookie([1; 8], [2; 16]),
        Message::Refused([1; 8], Refusal::Full),
        Message::Hello([1; 8]),
        with(Probe { number: 9_999_999, ..probe }),
    ];
    for message in forged {
        let mut buf = [0; 200];
        let len = message.emit(&mut buf, 0).unwrap();
        let meta = FrameMeta { rx_time: world.now, ..FrameMeta::default() };
        world.client.handle_frame(world.now, PortId(0), &mut buf[..len], meta);
    }
    assert_eq!((world.client.trains(), world.client.server_socket_drops()), (&before[..], 0));
    assert_eq!(world.client.strange(), forged.len() as u64 - 2, "a count too high is known to be one");
    assert_eq!(world.client.poll_event(), None);
}

#[test]
fn a_server_that_restarts_is_found_again_and_probing_goes_on() {
    let mut world = World::new(|_, _, _| vec![5]);
    world.run(100);
    let now = world.now;
    world.client.begin(now, 1, 0);
    world.run(2_000);
    world.server = Server::new(Limits::default(), Seed(2).entropy("server"));
    world.run(6_000);
    world.client.end(world.now, 1);
    world.run(2_000);
    let opened = |again| {
        world.events.iter().filter(|e| matches!(e, ClientEvent::Opened { again: a, .. } if *a == again)).count()
    };
    assert_eq!((opened(false), opened(true)), (1, 1), "{:?}", world.events);
    assert!(world.events.contains(&ClientEvent::Silent));
    let [first, second] = world.client.trains() else { panic!("one train per session") };
    assert_eq!((first.label, second.label), (1, 1));
    let sent = first.samples.len() + second.samples.len();
    assert!((799..=800).contains(&sent), "{sent}: no gap in the probes");
    assert!(first.tally.is_none() && second.tally.unwrap().received as usize == second.samples.len());
}

#[test]
fn probes_missed_during_suspend_are_counted() {
    let mut world = World::new(|_, _, _| vec![5]);
    world.run(100);
    let now = world.now;
    world.client.begin(now, 1, 0);
    world.run(1_000);
    world.now += Span::from_secs(1);
    world.run(1_000);
    let train = &world.client.trains()[0];
    let (sent, skipped) = (train.samples.len() as u64, train.skipped);
    assert!((198..=203).contains(&sent) && (297..=303).contains(&(sent + skipped)), "{sent} sent, {skipped} left out");
}

#[test]
fn an_outage_leaves_the_session_as_it_was() {
    let mut world = World::new(|_, _, ms| if (3_000..9_000).contains(&ms) { vec![] } else { vec![5] });
    let train = world.measure(10_000);
    assert_eq!(world.events.iter().filter(|e| matches!(e, ClientEvent::Opened { .. })).count(), 1);
    let tally = train.tally.unwrap();
    assert_eq!((train.samples.len(), tally.received), (1_000, 400), "{tally:?}");
}

/// A client that sends at `pace`, always with the same session.
fn lawful(pace: Pace) -> Client {
    Client::new(Instant::ZERO, pace, Seed(3).entropy("client"))
}

/// The answers of a server to [`lawful`], found by asking one, and the session that they open.
fn welcome(pace: Pace) -> (Vec<Vec<u8>>, Token) {
    let (mut client, mut server) = (lawful(pace), Server::new(Limits::default(), Seed(3).entropy("server")));
    let mut frames = Vec::new();
    let (mut buf, mut out) = ([0; 2_000], [0; 2_000]);
    for _ in 0..2 {
        let sent = client.poll_transmit(Instant::ZERO, PortId(0), &mut buf, 1).unwrap();
        let from = CLIENT.parse().unwrap();
        let answer = server.handle(Instant::ZERO, Instant::ZERO, from, &buf[..sent.len], &mut out).unwrap();
        frames.push(out[..answer.len].to_vec());
        client.handle_frame(Instant::ZERO, PortId(0), &mut out[..answer.len], FrameMeta::default());
    }
    let Some(ClientEvent::Opened { token, .. }) = client.poll_event() else { panic!("no session was opened") };
    (frames, token)
}

fn arrives(bytes: &[u8]) -> Stimulus<Client> {
    Stimulus::Frame(PortId(0), bytes.to_vec(), FrameMeta::default())
}

#[test]
fn the_client_keeps_the_laws_of_machines() {
    fn begin(client: &mut Client, now: Instant) {
        client.begin(now, 1, 0);
        client.begin(now, 1, 46);
    }
    let (frames, _) = welcome(PACE);
    let ms = Instant::from_millis;
    let steps = vec![
        (ms(40), arrives(&frames[0])),
        (ms(80), arrives(&frames[1])),
        (ms(95), Stimulus::Command(begin)),
        (ms(105), arrives(&[0xff; 300])),
        (ms(700), Stimulus::Command(|client, now| client.end(now, 1))),
        (ms(19_000), Stimulus::Command(|client, _| client.close())),
    ];
    laws::check(|| lawful(PACE), &Script { steps, ports: vec![PortId(0), PortId(46)], end: ms(20_000) });
}

/// An owner that begins trains as often as it likes, of which two send until they are full, and a server that answers more than it
/// was asked: trains and samples are bounded, and nothing else is kept.
#[test]
fn a_flooded_client_stays_within_its_memory() {
    const FAST: Pace = Pace { interval: Span::from_millis(1), ..PACE };
    /// What else the client holds: reports that wait, and itself.
    const REST: usize = 64 << 10;
    fn begin(client: &mut Client, now: Instant) {
        client.begin(now, 1, 0);
        client.begin(now, 1, 46);
        (0..TRAINS_MAX).for_each(|_| client.begin(now, 2, 7));
        client.end(now, 2);
    }
    let (frames, token) = welcome(FAST);
    let ms = Instant::from_millis;
    let mut steps = vec![(ms(1), arrives(&frames[0])), (ms(2), arrives(&frames[1])), (ms(3), Stimulus::Command(begin))];
    let mut chance = Seed(5).chance("flood");
    let mut buf = [0; 2_000];
    for n in 0..20_000_u64 {
        let mut any = || chance.next_u64();
        let (train, number) = (any() as u16 % 300, any() as u32 % 400_000);
        let probe = Probe { token, train, dscp: 0, number, sent: ms(3 + u64::from(number)).as_nanos() };
        let (received, answered, loaded, order) = (any(), any(), any(), any() as u32);
        let message = match n % 3 {
            0 => Message::Counted(token, train, Tally { received: any() as u32, ..Tally::default() }),
            _ => Message::Echo(Echo { probe, received, answered, loaded, order, highest: number, window: any() }),
        };
        let len = message.emit(&mut buf, 200).unwrap();
        steps.push((ms(4 + n * 20), arrives(&buf[..len])));
        if n % 100 == 0 {
            steps.push((ms(4 + n * 20), Stimulus::Command(begin)));
        }
    }
    let script = Script { steps, ports: vec![PortId(0), PortId(46)], end: ms(600_000) };
    // As much again for lists that grow by doubling.
    let limit = 2 * (2 * SAMPLES_MAX * size_of::<Sample>() + TRAINS_MAX * size_of::<Train>()) + REST;
    laws::check_memory(|| lawful(FAST), &script, limit as u64, |work| allocation_counter::measure(work).bytes_max);
}
