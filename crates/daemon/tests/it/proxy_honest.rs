//! What a split proxy must not change, and what peers must not do to it: client - proxy (a) - router (b) - server.

use crate::common::*;
use crate::proxy::{count, open, report, start};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_host::netns::Netns;
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};

on_both_engines! {
    what_fails_fails_as_without_a_proxy,
    ends_and_resets_cross_from_either_side,
    a_window_of_zero_holds_a_bound,
    #[ignore = "make test-all: 8,800 connections"] eight_thousand_idle_connections_stand_beside_eight_hundred_busy_ones,
    a_client_outlives_an_outage_where_the_timeout_has_a_most,
    data_goes_on_as_soon_as_a_client_is_there_again,
    data_in_a_syn_arrives_once,
    its_own_addresses_are_no_targets,
    forged_resets_and_narrow_ways_break_nothing,
}

/// The server, and the proxy's side towards the client, in both IP versions.
const SERVERS: [&str; 2] = ["10.3.0.2", "[fd00:3::2]"];
/// How long a test waits for a server that never answers.
const NO_ANSWER: Duration = Duration::from_millis(1_500);

/// How a connection attempt ends; a proxy tells of a network without a route as of a host that is not there.
fn attempt(ns: &Netns, target: &str, patience: Duration) -> Result<(), ErrorKind> {
    let target: SocketAddr = target.parse().unwrap();
    let stream = ns.run(move || TcpStream::connect_timeout(&target, patience)).unwrap();
    stream.map(drop).map_err(|error| match error.kind() {
        ErrorKind::NetworkUnreachable => ErrorKind::HostUnreachable,
        kind => kind,
    })
}

/// Servers that are not there, in every way in which they are not, are not there behind a proxy either.
fn what_fails_fails_as_without_a_proxy(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_failures") {
        return;
    }
    let world = World::new("failures");
    world.sh(
        &world.server,
        "nft add table inet t; nft 'add chain inet t i { type filter hook input priority 0; }'; \
         nft add rule inet t i tcp dport 82 reject with icmpx type host-unreachable; \
         nft add rule inet t i tcp dport 83 reject with icmpx type admin-prohibited; \
         nft add rule inet t i tcp dport 84 reject with icmpx type no-route; \
         nft add rule inet t i tcp dport 85 reject with tcp reset; nft add rule inet t i tcp dport 86 drop",
    );
    // A network to which the router has no route, and one that it does not tell of.
    world.sh(&world.a, "ip route add 10.7.0.0/24 via 10.2.0.2; ip route add fd00:7::/64 via fd00:2::2");
    let told = |host: &str| -> Vec<Result<(), ErrorKind>> {
        let ports = [81, 82, 83, 84, 85].map(|port| attempt(&world.client, &format!("{host}:{port}"), PATIENCE));
        // real time: 6 s, four attempts to which nobody answers
        let silent = attempt(&world.client, &format!("{host}:86"), NO_ANSWER);
        let nowhere = host.replace("10.3", "10.7").replace(":3:", ":7:");
        ports.into_iter().chain([silent, attempt(&world.client, &format!("{nowhere}:80"), PATIENCE)]).collect()
    };
    let plain = SERVERS.map(told);
    assert!(plain.iter().flatten().all(Result::is_err), "{plain:?}");
    let proxy = start(&world, engine, "");
    let split = SERVERS.map(told);
    assert_eq!(split, plain, "refused, four kinds of ICMP or reset, silence, no route");
    assert_eq!(count(&proxy, "connections_taken"), 0);
    wait_for("the attempts to be over", || report(&proxy).connections == 0);
}

/// What ends or breaks in one direction does so in that direction, after its last bytes; segments of one byte are a stream too.
fn ends_and_resets_cross_from_either_side(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_ends") {
        return;
    }
    let world = World::new("ends");
    let proxy = start(&world, engine, "");
    let (tell, told) = channel();
    // Ends first, and reads on until the client breaks or ends.
    world.serve(80, move |mut stream, _| {
        stream.write_all(b"early").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        let how = stream.read_to_end(&mut got).map_err(|error| error.kind());
        tell.send((got, how.err())).unwrap();
    });
    for host in SERVERS {
        for resets in [false, true] {
            let mut stream = world.connect(&world.client, &format!("{host}:80")).unwrap();
            let mut early = Vec::new();
            stream.read_to_end(&mut early).unwrap();
            assert_eq!(early, b"early", "the server's end arrives while the client's direction is open");
            let sent = pattern(if resets { 500 } else { 300_000 }, 3);
            stream.set_nodelay(true).unwrap();
            let (bytes, rest) = sent.split_at(500);
            bytes.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
            stream.write_all(rest).unwrap();
            if resets {
                // What is unsent at a reset is lost with it, proxy or not.
                wait_for("the bytes to leave", || {
                    let of = |c: &wavelane_daemon::proxy::status::Connection| c.far.as_ref().map(|far| far.out_bytes);
                    report(&proxy).connection_list.iter().filter_map(of).max() == Some(sent.len() as u64)
                });
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
            drop(stream);
            let (got, how) = told.recv_timeout(PATIENCE).unwrap();
            assert!(got == sent, "{host}: {} of {} bytes", got.len(), sent.len());
            assert_eq!(how, resets.then_some(ErrorKind::ConnectionReset), "{host}");
            wait_for("the connection to be forgotten", || report(&proxy).connections == 0);
        }
    }
}

/// A reader that stops holds a bound, however long it stops, and gets every byte when it goes on.
fn a_window_of_zero_holds_a_bound(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_stopped") {
        return;
    }
    const READERS: usize = 50;
    let world = World::new("stopped");
    let proxy = start(&world, engine, "");
    let body = pattern(8_000_000, 9);
    let copy = body.clone();
    world.serve(80, move |mut stream, _| drop(stream.write_all(&copy)));
    let before = resident(&proxy);
    let streams: Vec<TcpStream> = (0..READERS).map(|_| world.connect(&world.client, "10.3.0.2:80").unwrap()).collect();
    let taken = || -> u64 {
        let all = report(&proxy).connection_list;
        all.iter().filter_map(|c| c.far.as_ref()).map(|far| far.in_bytes).sum()
    };
    let mut last = (0, now());
    wait_for("everybody to stand still", || {
        let all = taken();
        if all != last.0 {
            last = (all, now());
        }
        all > 0 && last.1.elapsed() > Duration::from_millis(500)
    });
    let held = report(&proxy);
    let (own, grown) = (held.waiting_bytes, resident(&proxy).saturating_sub(before));
    assert!(own <= (READERS << 20) as u64, "{own} bytes between the halves");
    assert!(grown <= (READERS << 20) as u64, "{grown} bytes of memory for {READERS} stopped readers");
    assert!(taken() < (READERS * body.len()) as u64 / 2, "{} bytes taken", taken());
    // One of them goes on, beside the others that do not.
    let mut first = streams.into_iter().next().unwrap();
    let mut got = Vec::new();
    first.read_to_end(&mut got).unwrap();
    assert!(got == body, "{} of {} bytes", got.len(), body.len());
}

/// As many connections as 20,000 descriptors allow: the busy ones carry everything, the idle ones still answer, and all of it is bounded.
fn eight_thousand_idle_connections_stand_beside_eight_hundred_busy_ones(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_many") {
        return;
    }
    const IDLE: usize = 8_000;
    const BUSY: usize = 800;
    // Our own TCP, not optimised as it is for tests, moves some tens of Mbit/s.
    let body = if engine == "userspace" { 64 << 10 } else { 1 << 20 };
    let world = World::new("proxymany");
    wavelane_host::caps::raise_file_limit().unwrap();
    let proxy = start(&world, engine, "connections_max = 9000");
    let listener = world.server.run(|| std::net::TcpListener::bind("0.0.0.0:9").unwrap()).unwrap();
    let before = resident(&proxy);
    let mut pairs: Vec<(TcpStream, TcpStream)> = Vec::new();
    for _ in 0..IDLE + BUSY {
        let near = world.connect(&world.client, "10.3.0.2:9").unwrap();
        pairs.push((near, listener.accept().unwrap().0));
    }
    let busy = pairs.split_off(IDLE);
    assert_eq!(report(&proxy).connections, IDLE + BUSY);
    let threads: Vec<_> = busy
        .into_iter()
        .map(|(mut near, mut far)| {
            let writes = move || far.write_all(&vec![7; body]).unwrap();
            let reads = move || near.read_exact(&mut vec![0; body]).unwrap();
            let start =
                |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap();
            [start(Box::new(writes)), start(Box::new(reads))]
        })
        .collect();
    threads.into_iter().flatten().for_each(|thread| thread.join().unwrap());
    for (near, far) in &mut pairs {
        near.write_all(b"?").unwrap();
        far.read_exact(&mut [0]).unwrap();
    }
    let grown = resident(&proxy).saturating_sub(before);
    // On our own TCP with what the allocator keeps of the busy ones' buffers.
    let each = if engine == "userspace" { 10_500 } else { 9_000 };
    assert!(grown <= ((IDLE + BUSY) * each) as u64, "{grown} bytes of the process");
    let open = std::fs::read_dir(format!("/proc/{}/fd", proxy.child.id())).unwrap().count();
    assert!(open <= 2 * (IDLE + BUSY) + 600, "{open} files open");
    drop(pairs);
    wait_for("all to end", || report(&proxy).connections == 0);
}

/// A server that falls silent is given up, and its client hears of it as of a reset: the client's own timer ends at the proxy.
#[test]
fn a_server_that_is_given_up_resets_its_client() {
    let _alone = alone();
    if !root_or_skip("proxy_silent") {
        return;
    }
    let world = World::new("silent");
    // Two tries instead of fifteen.
    world.sh(&world.a, "sysctl -qw net.ipv4.tcp_retries2=2");
    let proxy = start(&world, "kernel", "");
    world.serve(7, echo);
    let mut stream = open(&world, &world.client, "10.3.0.2:7");
    let mut other = open(&world, &world.client, "10.3.0.2:7");
    world.sh(&world.server, "nft add table inet t; nft 'add chain inet t i { type filter hook input priority 0; }'; nft add rule inet t i drop");
    stream.write_all(b"is anybody there").unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_for("the connection to be forgotten", || report(&proxy).connections == 1);
    world.sh(&world.server, "nft flush ruleset");
    says(&mut other).unwrap();
}

/// Where a client's side has a most of the timeout, its connection outlives an outage that the kernel's count of tries would end.
fn a_client_outlives_an_outage_where_the_timeout_has_a_most(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_outage") {
        return;
    }
    let world = World::new("proxyoutage");
    // Two tries instead of fifteen.
    world.sh(&world.a, "sysctl -qw net.ipv4.tcp_retries2=2");
    let proxy =
        start(&world, engine, "[[proxy.side]]\nname = \"near\"\nnetworks = [\"10.1.0.0/24\"]\nrto_max = \"1 s\"\n");
    world.serve(7, echo);
    let mut stream = open(&world, &world.client, "10.3.0.2:7");
    let drops = "nft add table inet t; nft 'add chain inet t i { type filter hook prerouting priority -400; }'; nft add rule inet t i drop";
    // The request goes, and the answer is what the proxy retransmits.
    world.sh(&world.client, drops);
    stream.write_all(b"?").unwrap();
    // real time: 4 s, an outage of more than two tries (0.2 + 0.4 + 0.8 s)
    pause(Duration::from_secs(4));
    assert_eq!(report(&proxy).connections, 1);
    world.sh(&world.client, "nft flush ruleset");
    stream.read_exact(&mut [0]).unwrap();
    stream.write_all(b"!").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

/// Data in a SYN (RFC 7413) arrives, and arrives once, whether or not the proxy's own TCP took it.
fn data_in_a_syn_arrives_once(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_fast_open") {
        return;
    }
    /// `MSG_FASTOPEN` of Linux.
    const FAST_OPEN: i32 = 0x2000_0000;
    let world = World::new("fastopen");
    // Without cookies: the client sends data in every SYN, the server takes it at every listener.
    world.sh(&world.client, "sysctl -qw net.ipv4.tcp_fastopen=0x5");
    world.sh(&world.server, "sysctl -qw net.ipv4.tcp_fastopen=0x602");
    let (tell, told) = channel();
    world.serve(80, move |mut stream, _| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(&got).unwrap();
        tell.send(got).unwrap();
    });
    let says = |host: &str, text: &'static [u8]| {
        let target: SocketAddr = format!("{host}:80").parse().unwrap();
        let stream = world.client.run(move || {
            let socket = Socket::new(Domain::for_address(target), Type::STREAM, None).unwrap();
            socket.send_to_with_flags(text, &SockAddr::from(target), FAST_OPEN).unwrap();
            TcpStream::from(socket)
        });
        let mut stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b" and more").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        let expected = [text, b" and more"].concat();
        assert_eq!((&told.recv_timeout(PATIENCE).unwrap(), &back), (&expected, &expected), "{host}");
    };
    let passive = || {
        let counters = world.sh(&world.server, "nstat -asz TcpExtTCPFastOpenPassive");
        counters.split_whitespace().nth(2).map(|n| n.parse::<f64>().unwrap()).unwrap()
    };
    says(SERVERS[0], b"in the SYN");
    assert!(passive() >= 1.0, "without a proxy the data is in the SYN");
    let proxy = start(&world, engine, "");
    SERVERS.into_iter().for_each(|host| says(host, b"in the SYN"));
    assert_eq!(count(&proxy, "connections_taken"), 2, "{}", report(&proxy));
}

/// What is sent to the proxy's own addresses is for this machine: nothing is split, and nothing goes round in a circle.
fn its_own_addresses_are_no_targets(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_own") {
        return;
    }
    let world = World::new("own");
    let proxy = start(&world, engine, "");
    let listener = world.a.run(|| std::net::TcpListener::bind("[::]:9").unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, from)) = listener.accept() {
            echo(stream, from);
        }
    });
    let inner = world.sh(&world.a, "ss -Hltn");
    let inner: Vec<u16> = inner
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3)?.rsplit(':').next()?.parse().ok())
        .filter(|port| *port != 9)
        .collect();
    assert_eq!(inner.is_empty(), engine != "kernel", "the proxy listens");
    for own in ["10.1.0.1", "10.2.0.1", "[fd00:1::1]"] {
        says(&mut open(&world, &world.client, &format!("{own}:9"))).unwrap();
        for port in inner.iter().chain([&80]) {
            let how = attempt(&world.client, &format!("{own}:{port}"), PATIENCE);
            assert_eq!(how, Err(ErrorKind::ConnectionRefused), "{own}:{port}");
        }
    }
    assert_eq!((count(&proxy, "connections_taken"), report(&proxy).connections), (0, 0), "{}", report(&proxy));
}

/// Resets that others forge without knowing where the stream stands change nothing, and a narrower way behind the proxy carries whole
/// bodies: the router's message about it, sent to the client's address, is the proxy's.
fn forged_resets_and_narrow_ways_break_nothing(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_forged") {
        return;
    }
    let world = World::new("forged");
    // Of the route, not of the device: that would drop what comes back in single large packets, without a word.
    world.sh(
        &world.b,
        "ip route replace 10.3.0.0/24 dev lan0 mtu lock 1280; ip -6 route add fd00:3::/64 dev lan0 metric 1 mtu lock 1280",
    );
    let proxy = start(&world, engine, "");
    world.serve(7, echo);
    let mut stream = open(&world, &world.client, "10.3.0.2:7");
    let own = stream.local_addr().unwrap();
    let target: SocketAddr = "10.3.0.2:7".parse().unwrap();
    // From the client to the proxy, and from beyond to either half.
    let places = [(&world.client, own, target), (&world.b, target, own), (&world.server, target, own)];
    for (ns, from, to) in places {
        let raw = ns.run(|| wavelane_host::raw::RawSender::open(1).unwrap()).unwrap();
        for n in 0..1_000_u32 {
            let packet = reset(from, to, n.wrapping_mul(0x0010_0001));
            let _ = raw.send(&packet, to.ip());
        }
    }
    says(&mut stream).unwrap();
    assert_eq!(report(&proxy).connections, 1, "{}", report(&proxy));
    for host in SERVERS {
        let stream = open(&world, &world.client, &format!("{host}:7"));
        let sent = pattern(400_000, 11);
        let got = there_and_back(stream, &sent);
        assert!(got == sent, "{host}: {} of {} bytes", got.len(), sent.len());
        let way = world.sh(&world.a, &format!("ip route get {}", host.trim_matches(['[', ']'])));
        // Our own TCP keeps it for itself.
        assert!(engine != "kernel" || way.contains("mtu 1280"), "{way}");
    }
}

/// A reset whose sequence number is guessed.
fn reset(source: SocketAddr, target: SocketAddr, seq: u32) -> Vec<u8> {
    let header = TcpHeader { flags: Flags::RST, seq, ..TcpHeader::default() };
    let mut packet = vec![0; 100];
    let len = TcpPacket { source, target, ecn: Default::default(), header, payload: &[] }.emit(&mut packet).unwrap();
    packet.truncate(len);
    assert_ne!(source.ip(), Ipv4Addr::UNSPECIFIED);
    packet
}

/// After an outage data goes on at once: by a try every 0.2 s, or with the link that comes up, where back-off would wait for seconds.
fn data_goes_on_as_soon_as_a_client_is_there_again(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_mobile") {
        return;
    }
    let world = World::new("mobile");
    world.serve(80, |stream, _| pour(stream));
    let silent = "nft add table inet t; nft 'add chain inet t i { type filter hook prerouting priority -400; }'; nft add rule inet t i drop";
    let (down, up) = ("ip link set eth0 down", "ip link set eth0 up; ip route replace default via 10.1.0.1");
    // Without its link the client has no address of IPv6.
    for (probe, out, back, servers) in
        [("200 ms", silent, "nft flush ruleset", &SERVERS[..]), ("10 s", down, up, &SERVERS[..1])]
    {
        let side = format!("[[proxy.side]]\nname = \"air\"\nnetworks = [\"10.1.0.0/24\"]\nprobe = \"{probe}\"\n");
        let mut proxy = start(&world, engine, if engine == "kernel" { "" } else { &side });
        let connect = |server: &&str| world.connect(&world.client, &format!("{server}:80")).unwrap();
        let mut streams: Vec<TcpStream> = servers.iter().map(connect).collect();
        let mut buffer = vec![0; 1 << 16];
        streams.iter_mut().for_each(|stream| stream.read_exact(&mut buffer).unwrap());
        world.sh(&world.client, out);
        // What the client's kernel has is read, and then nothing comes.
        for stream in &mut streams {
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            while stream.read(&mut buffer).is_ok() {}
        }
        // real time: 4 s, in which back-off comes to waits of 3 s
        pause(Duration::from_secs(4));
        world.sh(&world.client, back);
        let since = now();
        for stream in &mut streams {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut buffer).unwrap();
            assert!(since.elapsed() < Duration::from_millis(1_200), "{:?} after {out}", since.elapsed());
        }
        drop(streams);
        assert_eq!(proxy.stop(), Some(0));
    }
}
