//! What a host does with segments without a connection, of old connections and of many: RFC 9293, sections 3.10.7.1 and 3.10.7.2;
//! RFC 6191; RFC 6528.

use super::script::*;
use super::world::{Way, World, address};
use super::*;
use std::net::SocketAddr;
use wavelane_base::{FrameMeta, Machine, PortId, ReadOutcome, Seed, Streams};
use wavelane_wire::icmp::TooBig;
use wavelane_wire::tcp::{Flags, Options, TcpHeader, TcpPacket};

/// A host that listens, and a peer that is this test.
struct Station {
    host: Host,
    now: Instant,
}

impl Station {
    fn new(config: Config) -> Self {
        let mut host = Host::new(config, Seed(1).entropy("host"));
        host.listen(ours());
        Self { host, now: ms(1_000) }
    }
    fn give(&mut self, source: SocketAddr, target: SocketAddr, header: TcpHeader, payload: &[u8]) {
        let packet = TcpPacket { source, target, ecn: Default::default(), header, payload };
        let mut buf = vec![0; PACKET_ROOM];
        let len = packet.emit(&mut buf).unwrap();
        self.host.handle_frame(self.now, PortId(0), &mut buf[..len], FrameMeta::default());
    }
    fn drain(&mut self) -> Vec<(SocketAddr, TcpHeader)> {
        let mut out = Vec::new();
        let mut buf = vec![0; PACKET_ROOM];
        while let Some(sent) = self.host.poll_transmit(self.now, PortId(0), &mut buf, 1) {
            let packet = TcpPacket::parse(&buf[..sent.len]).unwrap();
            out.push((packet.target, packet.header));
        }
        out
    }
    fn one(&mut self) -> TcpHeader {
        let mut out = self.drain();
        assert_eq!(out.len(), 1, "{out:?}");
        out.remove(0).1
    }
    fn events(&mut self) -> Vec<HostEvent> {
        std::iter::from_fn(|| self.host.poll_event()).collect()
    }
    /// A connection from `theirs` that is open; returns our initial sequence number.
    fn open(&mut self, options: Options) -> u32 {
        self.give(theirs(), ours(), TcpHeader { options, ..header(S, 0, 0) }, b"");
        let iss = self.one().seq;
        let ack = TcpHeader { ack: iss.wrapping_add(1), options: echoed(options), ..header(A, 1, 0) };
        self.give(theirs(), ours(), ack, b"");
        iss
    }
    fn pass(&mut self, millis: u64) {
        let until = self.now + Span::from_millis(millis);
        while let Some(at) = self.host.poll_timeout().map(|wakeup| wakeup.at).filter(|at| *at <= until) {
            self.now = at;
            self.host.handle_timeout(at);
            self.drain();
        }
        self.now = until;
    }
}

fn echoed(options: Options) -> Options {
    Options { timestamps: options.timestamps, ..Options::default() }
}
fn closed_port() -> SocketAddr {
    SocketAddr::new(ours().ip(), 9)
}

/// RFC 9293, section 3.10.7.1: the reset has the number that was acknowledged, or acknowledges everything that came, its
/// SYN and FIN counted; a reset is never answered.
#[test]
fn resets_to_strangers_can_be_believed() {
    let mut station = Station::new(plain());
    let mut answer = |h: TcpHeader, payload: &[u8]| {
        station.give(theirs(), closed_port(), h, payload);
        station.drain().pop().map(|(_, h)| (h.flags, h.seq, h.ack))
    };
    assert_eq!(answer(header(A, 5, 77), b"x"), Some((R, ISS.wrapping_add(77), 0)));
    let relative = |n: u32| PEER.wrapping_add(n);
    assert_eq!(answer(header(S, 0, 0), b""), Some((R.with(A), 0, relative(1))));
    assert_eq!(answer(header(S.with(F), 0, 0), b"abc"), Some((R.with(A), 0, relative(5))));
    assert_eq!(answer(header(Flags::default(), 7, 0), b"ab"), Some((R.with(A), 0, relative(9))));
    assert_eq!(answer(header(R, 5, 0), b""), None);
    assert_eq!(answer(header(R.with(A), 5, 77), b""), None);
}

/// RFC 9293, section 3.10.7.2: a port that listens resets what acknowledges something, and drops what neither does nor
/// opens a connection.
#[test]
fn a_port_that_listens() {
    let mut station = Station::new(plain());
    station.give(theirs(), ours(), header(A, 5, 77), b"");
    assert_eq!(station.one().flags, R);
    station.give(theirs(), ours(), header(S.with(A), 5, 77), b"");
    assert_eq!(station.one().flags, R);
    for flags in [Flags::default(), F, P, R] {
        station.give(theirs(), ours(), header(flags, 5, 0), b"");
    }
    assert_eq!((station.drain(), station.host.connection_count()), (vec![], 0));
}

/// RFC 9293, section 3.9.2.3 (MUST-57): nothing that is sent to many, or comes from many, opens a connection.
#[test]
fn only_unicast_addresses_count() {
    let mut host = Host::new(plain(), Seed(1).entropy("host"));
    for (ours, theirs) in [
        ("255.255.255.255:80", "192.0.2.2:80"),
        ("224.0.0.1:80", "192.0.2.2:80"),
        ("192.0.2.1:80", "255.255.255.255:80"),
        ("192.0.2.1:80", "224.0.0.1:80"),
        ("192.0.2.1:80", "0.0.0.0:80"),
        ("[ff02::1]:80", "[2001:db8::1]:80"),
        ("[2001:db8::1]:80", "[::]:80"),
    ] {
        let (target, source) = (ours.parse().unwrap(), theirs.parse().unwrap());
        host.listen(target);
        let packet = TcpPacket { source, target, ecn: Default::default(), header: header(S, 0, 0), payload: &[] };
        let mut buf = vec![0; 200];
        let len = packet.emit(&mut buf).unwrap();
        host.handle_frame(ms(0), PortId(0), &mut buf[..len], FrameMeta::default());
        assert!(host.poll_transmit(ms(0), PortId(0), &mut buf, 1).is_none(), "{target} {source}");
    }
    assert_eq!(host.connection_count(), 0);
}

/// RFC 9293, section 3.10.7.4, fifth step: a half-open connection answers an acknowledgement of what was never sent with a reset; but what
/// lies outside the window is answered by an acknowledgement first of all.
#[test]
fn half_open_connections_reset_wrong_acknowledgements() {
    let mut station = Station::new(plain());
    station.give(theirs(), ours(), header(S, 0, 0), b"");
    let iss = station.one().seq;
    station.give(theirs(), ours(), header(A, 1, 77), b"");
    let reset = station.one();
    assert_eq!((reset.flags, reset.seq), (R, ISS.wrapping_add(77)));
    station.give(theirs(), ours(), header(A, 50_000, 77), b"");
    let answer = station.one();
    assert_eq!((answer.flags, answer.ack), (A, PEER.wrapping_add(1)), "an old segment of another connection");
    station.give(theirs(), ours(), TcpHeader { ack: iss.wrapping_add(1), ..header(A, 1, 0) }, b"");
    assert!(matches!(station.events()[..], [HostEvent::Accepted { .. }]));
}

/// A half-open connection that ends was never told of, and makes room for another.
#[test]
fn half_open_connections_end_silently_and_leave_room() {
    let mut station = Station::new(Config { syn_retries: 1, ..plain() });
    for round in 0..3u32 {
        for n in 0..1_024u32 {
            let source = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 1_000);
            station.give(source, ours(), header(S, round, 0), b"");
        }
        assert_eq!((station.host.connection_count(), station.drain().len()), (1_024, 1_024), "{round}");
        // One more has the place of the oldest, whose end goes untold and whose answer is refused when it comes after all.
        station.give(theirs(), ours(), header(S, 0, 0), b"");
        let answers = station.drain();
        assert!(answers.len() == 1 && answers[0].1.flags == S.with(A), "{answers:?}");
        assert_eq!((station.host.connection_count(), station.host.half_open()), (1_024, (1_024, u64::from(round) + 1)));
        let oldest = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000).into(), 1_000);
        station.give(oldest, ours(), header(A, 1, 1), b"");
        assert_eq!(station.one().flags, R);
        station.give(theirs(), ours(), header(R, 1, 0), b"");
        if round == 0 {
            // All are reset; then all are left alone.
            for n in 0..1_024u32 {
                let source = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 1_000);
                station.give(source, ours(), header(R, 1, 0), b"");
            }
        } else {
            station.pass(10_000);
        }
        station.drain();
        assert_eq!((station.events(), station.host.connection_count()), (vec![], 0), "{round}");
    }
}

#[test]
fn connections_are_bounded() {
    let mut host = Host::new(plain(), Seed(1).entropy("host"));
    for n in 0..65_536u32 {
        let remote = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 1_000);
        host.connect(ms(0), ours(), remote).unwrap();
    }
    assert_eq!(host.connect(ms(0), ours(), theirs()), Err(HostError::Full));
    let mut buf = vec![0; 200];
    host.listen(ours());
    let header = header(S, 0, 0);
    let packet = TcpPacket { source: theirs(), target: ours(), ecn: Default::default(), header, payload: &[] };
    let len = packet.emit(&mut buf).unwrap();
    host.handle_frame(ms(0), PortId(0), &mut buf[..len], FrameMeta::default());
    assert_eq!(host.connection_count(), 65_536);
}

/// Our side of the connection of `station` ends first: TIME-WAIT. Returns our initial sequence number.
fn time_wait(station: &mut Station, options: Options) -> u32 {
    let iss = station.open(options);
    let flow = match station.events()[..] {
        [HostEvent::Accepted { flow, .. }] => flow,
        ref other => panic!("{other:?}"),
    };
    station.host.shutdown(station.now, flow);
    station.drain();
    let fin = TcpHeader { ack: iss.wrapping_add(2), options: echoed(options), ..header(A.with(F), 1, 0) };
    station.give(theirs(), ours(), fin, b"");
    station.drain();
    assert_eq!(station.host.read(station.now, flow, &mut [0; 9]), ReadOutcome::End);
    assert_eq!(station.host.status(flow).unwrap().state, ConnectionState::TimeWait);
    station.events();
    iss
}

/// RFC 6191, section 2, and RFC 9293, section 3.6.1 (MAY-2): a newer SYN opens a new connection from TIME-WAIT, an older one
/// is answered like any straggler. Timestamps decide where both have them; numbers do where those are equal or missing.
#[test]
fn connections_that_may_follow_in_time_wait() {
    let stamped = |value| Options { timestamps: stamps(value, 0).timestamps, ..syn_options() };
    let cases = [
        (None, None, 100, true),
        (None, None, 2u32.wrapping_sub(100), false),
        (Some(1_000), Some(1_001), 2u32.wrapping_sub(100), true),
        (Some(1_000), Some(1_000), 100, true),
        (Some(1_000), Some(1_000), 2u32.wrapping_sub(100), false),
        (Some(1_000), Some(999), 100, false),
        (Some(1_000), None, 100, true),
    ];
    for (before, stamp, seq, follows) in cases {
        let mut station = Station::new(Config { timestamps: true, ..plain() });
        let options = |stamp: Option<u32>| stamp.map_or(syn_options(), stamped);
        time_wait(&mut station, options(before));
        station.give(theirs(), ours(), TcpHeader { options: options(stamp), ..header(S, seq, 0) }, b"");
        let answer = station.one();
        let what = format!("{before:?} {stamp:?} {seq}");
        if follows {
            assert_eq!((answer.flags, answer.ack), (S.with(A), PEER.wrapping_add(seq).wrapping_add(1)), "{what}");
            let ack = TcpHeader { ack: answer.seq.wrapping_add(1), ..header(A, seq.wrapping_add(1), 0) };
            station.give(theirs(), ours(), TcpHeader { options: echoed(options(stamp)), ..ack }, b"");
            // The end of the old one is told, and does not take the new one with it.
            station.events();
            station.pass(120_000);
            assert_eq!(station.host.connection_count(), 1, "{what}");
            station.give(theirs(), ours(), TcpHeader { flags: R, ..header(R, seq.wrapping_add(1), 0) }, b"");
            assert!(matches!(station.events()[..], [HostEvent::Connection(_, TcpEvent::Reset)]), "{what}");
        } else {
            assert_eq!((answer.flags, answer.ack), (A, PEER.wrapping_add(2)), "{what}");
        }
    }
}

/// RFC 5961, section 4.2: while a connection is open, no SYN replaces it.
#[test]
fn a_syn_does_not_replace_an_open_connection() {
    let mut station = Station::new(plain());
    station.open(syn_options());
    station.give(theirs(), ours(), header(S, 100_000, 0), b"");
    assert_eq!((station.one().flags, station.host.connection_count()), (A, 1));
}

/// RFC 6528 and RFC 9293, section 3.4.1 (MUST-8): numbers grow with the time between the same two addresses, so that the next
/// connection is newer than the last; those of other addresses tell nothing. Timestamps likewise (RFC 7323, section 5.4).
#[test]
fn numbers_follow_the_clock_and_the_addresses() {
    let first = |at: Instant, port: u16, seed: u64| {
        let mut host = Host::new(Config::default(), Seed(seed).entropy("host"));
        host.connect(at, ours(), SocketAddr::new(theirs().ip(), port)).unwrap();
        let mut buf = vec![0; 200];
        let sent = host.poll_transmit(at, PortId(0), &mut buf, 1).unwrap();
        let syn = TcpPacket::parse(&buf[..sent.len]).unwrap().header;
        (syn.seq, syn.options.timestamps.unwrap().value)
    };
    let (seq, stamp) = first(ms(1_000), 80, 1);
    let (later, later_stamp) = first(ms(1_500), 80, 1);
    assert_eq!((later.wrapping_sub(seq), later_stamp.wrapping_sub(stamp)), (125_000, 500), "4 us and 1 ms a step");
    for other in [first(ms(1_000), 81, 1), first(ms(1_000), 80, 2)] {
        let near = |a: u32, b: u32| a.wrapping_sub(b).min(b.wrapping_sub(a)) < 1 << 16;
        assert!(!near(other.0, seq) && !near(other.1, stamp), "{other:?}");
    }
}

/// The client opens the same pair of addresses again while the server still lingers: at once, not after a reset and a
/// repeated SYN.
#[test]
fn the_same_addresses_connect_again_at_once() {
    for timestamps in [true, false] {
        let config = Config { timestamps, ..Config::default() };
        for seed in 0..8 {
            let mut world = World::new([config.clone(), config.clone()], [Way::clean(20, 10, 100_000); 2], seed);
            let flows = world.open(ms(10_000));
            let end = world.now + Span::from_millis(200);
            // The server ends first, so it lingers.
            for side in [1, 0] {
                world.hosts[side].shutdown(world.now, flows[side]);
                world.run(world.now + Span::from_millis(100));
                assert_eq!(world.hosts[1 - side].read(world.now, flows[1 - side], &mut [0; 9]), ReadOutcome::End);
                world.drain();
            }
            assert_eq!(world.now, end);
            assert_eq!((world.hosts[0].connection_count(), world.hosts[1].connection_count()), (0, 1));
            let start = world.now;
            world.events[1].clear();
            world.open_between(address(0), address(1), start + Span::from_millis(100));
            assert!(world.now.since(start) < Span::from_millis(35), "seed {seed}");
        }
    }
}

/// A message from a router finds its connection; every packet of a batch is looked at.
#[test]
fn icmp_reaches_the_connection_it_quotes() {
    let mut station = Station::new(plain());
    station.open(syn_options());
    let flow = match station.events()[..] {
        [HostEvent::Accepted { flow, .. }] => flow,
        ref other => panic!("{other:?}"),
    };
    station.host.write(station.now, flow, &[7; 1_000]);
    let mut buf = vec![0; 2_000];
    let sent = station.host.poll_transmit(station.now, PortId(0), &mut buf, 1).unwrap();
    let mut message = vec![0; 576];
    let router = "198.51.100.9".parse().unwrap();
    let len = TooBig::emit(router, 600, &buf[..sent.len], &mut message).unwrap();
    station.host.handle_frame(station.now, PortId(0), &mut message[..len], FrameMeta::default());
    assert_eq!(station.host.status(flow).unwrap().mss, 560);
}

/// Readers that stop hold no more than is given to all, others go on with their own share, and everything arrives.
#[test]
fn what_waits_in_all_connections_has_a_most() {
    const MOST: usize = 1 << 20;
    const FLOWS: u16 = 40;
    const EACH: usize = 200_000;
    let mut world = World::new([Config::default(), Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    world.hosts[1].set_memory_max(MOST);
    let limit = Instant::from_secs(5);
    let mut flows = Vec::new();
    for n in 0..FLOWS {
        world.events[1].clear();
        flows.push(world.open_between(SocketAddr::new(address(0).ip(), 41_000 + n), address(1), limit));
    }
    for [near, _] in &flows {
        let now = world.now;
        assert_eq!(Streams::write(&mut world.hosts[0], now, *near, &[7; EACH]), EACH);
    }
    let mut highest = 0;
    for _ in 0..2_000 {
        let next = world.now + Span::from_millis(5);
        world.run(next);
        highest = highest.max(world.hosts[1].memory());
    }
    assert!(highest > MOST / 2 && highest <= MOST, "{highest} bytes");
    let mut read = vec![0; flows.len()];
    let mut buf = vec![0; 4_096];
    while read.iter().sum::<usize>() < EACH * flows.len() {
        for (place, [_, far]) in flows.iter().enumerate() {
            let now = world.now;
            while let ReadOutcome::Data(n) = Streams::read(&mut world.hosts[1], now, *far, &mut buf) {
                assert!(buf[..n].iter().all(|byte| *byte == 7));
                read[place] += n;
            }
        }
        let next = world.now + Span::from_millis(5);
        assert!(world.now < Instant::from_secs(300), "{read:?}");
        world.run(next);
    }
    assert!(read.iter().all(|n| *n == EACH) && world.hosts[1].memory() < MOST / 8, "{}", world.hosts[1].memory());
}

/// A connection whose reader stopped takes a window or two of what all share, and a lively one what it can use.
#[test]
fn what_a_stopped_reader_will_not_take_is_left_to_others() {
    let mut world = World::new([Config::default(), Config::default()], [Way::clean(100, 20, 1_000_000); 2], 3);
    world.hosts[1].set_memory_max(16 << 20);
    let limit = Instant::from_secs(5);
    let [stopped, lively] = [41_000, 41_001].map(|port| {
        world.events[1].clear();
        world.open_between(SocketAddr::new(address(0).ip(), port), address(1), limit)
    });
    let (mut taken, mut got) = ([0; 2], 0);
    let mut buf = vec![0; 1 << 20];
    for _ in 0..400 {
        let next = world.now + Span::from_millis(5);
        world.run(next);
        let now = world.now;
        for (taken, [_, far]) in taken.iter_mut().zip([stopped, lively]) {
            *taken += Streams::write(&mut world.hosts[1], now, far, &[7; 1 << 20]);
        }
        while let ReadOutcome::Data(n) = Streams::read(&mut world.hosts[0], now, lively[0], &mut buf) {
            got += n;
        }
    }
    // What the other end's buffer takes, and ours.
    assert!(taken[0] <= 65_535 + (64 << 10) + 1_500, "{taken:?}");
    assert!(got >= 18_000_000, "{got} of 25 MB");
}

/// Where all else is taken, connections with long segments still go on: what each holds by itself is two of them.
#[test]
fn long_segments_go_on_without_a_share() {
    let config = Config { mss: 8_960, ..Config::default() };
    assert_eq!(memory_own([&Config::default(), &config]), 17_920);
    let mut world = World::new([config.clone(), config], [Way::clean(100, 5, 1_000_000); 2], 3);
    world.hosts[1].set_memory_max(0);
    let flows = world.open(Instant::from_secs(5));
    let end = world.transfer(flows, 0, 1_000_000, world.now + Span::from_secs(10)).expect("a transfer");
    // A segment or two each 10 ms.
    assert!(end <= Instant::from_secs(2), "{end:?}");
}

/// Readers that stop, and many that are idle, take from the others' windows what is not promised yet, and nothing of what is: whoever
/// reads slowly is sent nothing twice, those that come later included, and has the window of its share all the time.
#[test]
fn stopped_readers_take_nothing_of_what_others_were_promised() {
    const MOST: usize = 2 << 20;
    const STOPPED: usize = 60;
    let mut world = World::new([Config::default(), Config::default()], [Way::clean(100, 5, 4_000_000); 2], 3);
    world.hosts[1].set_memory_max(MOST);
    let open = |world: &mut World, port: usize| {
        world.events[1].clear();
        let from = SocketAddr::new(address(0).ip(), u16::try_from(41_000 + port).unwrap());
        world.open_between(from, address(1), world.now + Span::from_secs(5))
    };
    let mut flows: Vec<_> = (0..STOPPED + 2).map(|port| open(&mut world, port)).collect();
    // As many again say nothing, and one comes when all is taken.
    for port in 0..STOPPED {
        open(&mut world, 1_000 + port);
    }
    let mut buf = vec![0; 64 << 10];
    let mut read = [0; 3];
    let mut highest = 0;
    for turn in 0..3_000 {
        let now = world.now;
        if turn == 500 {
            flows.push(open(&mut world, 2_000));
        }
        for [near, _] in &flows {
            Streams::write(&mut world.hosts[0], now, *near, &buf);
        }
        // 100 kB/s, 50 kB/s, and at once.
        for ((place, [_, far]), (read, piece)) in
            flows.iter().enumerate().skip(STOPPED).zip(read.iter_mut().zip([1_000, 500, buf.len()]))
        {
            if place < flows.len()
                && let ReadOutcome::Data(n) = Streams::read(&mut world.hosts[1], now, *far, &mut buf[..piece])
            {
                *read += n;
            }
        }
        world.run(now + Span::from_millis(10));
        highest = highest.max(world.hosts[1].memory());
    }
    let sent = |place: usize| world.hosts[0].status(flows[place][0]).unwrap().counters;
    for (place, read) in (STOPPED..).zip(read) {
        let counters = sent(place);
        // A probe of a tail whose acknowledgement is delayed is needless, and tells so.
        let lost = counters.retransmits - counters.needless;
        assert_eq!((lost, counters.timeouts), (0, 0), "{place} read {read}: {counters:?}");
    }
    // The slow ones all that they ask for, the last one two segments each 20 ms: a round trip and a turn.
    assert!(read[0] > 2_800_000 && read[1] > 1_450_000 && read[2] > 25 * 50 * 2 * 1_400, "{read:?}");
    assert!(highest > MOST / 2 && highest <= MOST, "{highest} bytes");
}

/// Windows stay counted behind a hole: a FIN that came early, or a single octet, takes no promise out of the pool and keeps none for good.
#[test]
fn what_is_behind_a_hole_is_bounded_and_given_back() {
    const MOST: usize = 4 << 20;
    const CLIENTS: u16 = 100;
    let fin = Flags(Flags::FIN.0 | Flags::ACK.0);
    for early_fin in [true, false] {
        let mut station = Station::new(Config { receive_buffer: 65_535, ..plain() });
        station.host.set_memory_max(MOST);
        let client = |n: u16| SocketAddr::new(theirs().ip(), 20_000 + n);
        let mut opened = Vec::new();
        for n in 0..CLIENTS {
            station.give(client(n), ours(), header(S, 0, 0), b"");
            let answer = station.one();
            let ack = answer.seq.wrapping_add(1);
            station.give(client(n), ours(), TcpHeader { ack, ..header(A, 1, 0) }, b"");
            // Behind a hole, so that its answer tells the window of an open connection.
            station.give(client(n), ours(), TcpHeader { ack, ..header(A, 3, 0) }, b"x");
            let window = u32::from(station.one().window);
            if early_fin {
                station.give(client(n), ours(), TcpHeader { ack, ..header(fin, window - 1, 0) }, b"x");
                station.drain();
            }
            opened.push((window, ack));
        }
        for (n, (window, ack)) in (0..CLIENTS).zip(&opened).filter(|_| early_fin) {
            // All but the first octet.
            for from in (2..*window - 1).step_by(1_000) {
                let octets = vec![1; 1_000.min((*window - 1 - from) as usize)];
                station.give(client(n), ours(), TcpHeader { ack: *ack, ..header(A, from, 0) }, &octets);
                station.drain();
            }
            assert!(station.host.memory() <= MOST, "{} bytes of {n}", station.host.memory());
        }
        if !early_fin {
            station.pass(5_000);
            // Some are looked at with each segment that comes.
            for _ in 0..CLIENTS {
                station.give(theirs(), ours(), header(A, 1, 1), b"");
                station.drain();
            }
            station.give(client(CLIENTS), ours(), header(S, 0, 0), b"");
            let window = station.drain().into_iter().find(|(to, h)| *to == client(CLIENTS) && h.flags.has(Flags::SYN));
            assert!(window.as_ref().is_some_and(|(_, h)| h.window > 6_000), "{window:?}");
        }
    }
}
