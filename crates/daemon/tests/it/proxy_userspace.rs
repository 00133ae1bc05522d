//! A split proxy on our own TCP: what only that has, and what its device must not change.

use crate::common::tunnel::{ping, received};
use crate::common::*;
use crate::proxy::{count, open, reload, report, spawn, start};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_host::netns::{ChildEnd, Netns};

/// Octets of Ethernet's header.
const ETHERNET: usize = 14;

/// A capture of the client's TCP in IPv4.
struct Capture(Child, PathBuf);

impl Capture {
    fn start(ns: &Netns, path: &Path) -> Self {
        let mut command = Command::new("tcpdump");
        command
            .args(["-i", "eth0", "-B", "16384", "-U", "-s", "96", "-Z", "root", "-w"])
            .arg(path)
            .args(["ip", "and", "tcp"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        wait_for("the capture to begin", || std::fs::metadata(path).is_ok_and(|about| about.len() >= 24));
        Self(child, path.to_owned())
    }
    /// Of each packet so far: whether the client sent it, its TCP flags, its bytes, and the octet that holds the ECN field.
    fn packets(&self) -> Vec<(bool, u8, usize, u8)> {
        let octets = std::fs::read(&self.1).unwrap();
        let kept = |at: usize| u32::from_le_bytes(octets[at + 8..at + 12].try_into().unwrap()) as usize;
        let (mut at, mut found) = (24, Vec::new());
        while at + 16 <= octets.len() && at + 16 + kept(at) <= octets.len() {
            let packet = &octets[at + 16 + ETHERNET..at + 16 + kept(at)];
            let tcp = &packet[20..];
            let bytes = usize::from(u16::from_be_bytes([packet[2], packet[3]])) - 20 - usize::from(tcp[12] >> 4) * 4;
            found.push((packet[12..16] == [10, 1, 0, 2], tcp[13], bytes, packet[1]));
            at += 16 + kept(at);
        }
        found
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// A side's `ack_every` is what a capture shows: so many segments to an acknowledgement.
#[test]
fn acknowledgements_are_as_rare_as_a_side_says() {
    let _alone = alone();
    if !root_or_skip("proxy_acks") {
        return;
    }
    const SENT: usize = 2_000_000;
    let world = World::new("acks");
    // Segments are counted, not what offload makes of them.
    world.sh(&world.client, "ethtool -K eth0 tso off gso off gro off");
    world.sh(&world.a, "ethtool -K lan0 tso off gso off gro off");
    world.serve(80, |mut stream, _| drop(std::io::copy(&mut stream, &mut std::io::sink())));
    for every in [2, 4, 8] {
        let side = "[[proxy.side]]\nname = \"near\"\nnetworks = [\"10.1.0.0/24\"]\nquick_acks = 0\nack_delay = \"500 ms\"\nbuffer = \"4 MiB\"";
        let mut proxy = start(&world, "userspace", &format!("{side}\nack_every = {every}\n"));
        let capture = Capture::start(&world.client, &world.dir.join(format!("{every}.pcap")));
        let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
        stream.write_all(&vec![7; SENT]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        let of_client = |packets: &[(bool, u8, usize, u8)]| packets.iter().filter(|p| p.0).map(|p| p.2).sum::<usize>();
        wait_for("the capture to hold everything", || of_client(&capture.packets()) >= SENT);
        let packets = capture.packets();
        let segments = packets.iter().filter(|(client, _, bytes, _)| *client && *bytes > 0).count();
        let acks = packets.iter().filter(|(client, flags, bytes, _)| !*client && *bytes == 0 && *flags == 0x10).count();
        let ratio = segments as f64 / acks as f64;
        assert!((0.85..=1.1).contains(&(ratio / f64::from(every))), "{segments} segments, {acks} acknowledgements");
        drop(capture);
        assert_eq!(proxy.stop(), Some(0));
    }
}

/// Congestion marks are agreed and echoed for each half alone, and UDP, ICMP and everything else passes by, with the hops it had.
#[test]
fn marks_belong_to_a_half_and_what_is_no_tcp_passes_by() {
    let _alone = alone();
    if !root_or_skip("proxy_marks") {
        return;
    }
    const ECE: u8 = 0x40;
    let world = World::new("marks");
    // As distributions set it: the device's packets have sources of other interfaces.
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.all.rp_filter=2");
    world.serve(7, echo);
    let ttl = |said: &str| said.split("ttl=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let plainly = ttl(&ping(&world, &world.client, "-c 1 10.3.0.2"));
    world.serve(9, echo);
    // Older than the proxy, and than this host's knowledge of connections: it is none of the proxy's.
    let mut older = open(&world, &world.client, "10.3.0.2:9");
    let proxy = start(&world, "userspace", "exempt = [\"port 9\"]");
    says(&mut older).unwrap();
    let pinged = ping(&world, &world.client, "-c 1 10.3.0.2");
    assert_eq!((received(&pinged), ttl(&pinged)), (1, plainly));
    let socket = world.server.run(|| UdpSocket::bind("0.0.0.0:5000").unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    world.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"udp", "10.3.0.2:5000").unwrap()).unwrap();
    assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 3);
    for asks in [1, 0] {
        world.sh(&world.client, &format!("sysctl -qw net.ipv4.tcp_ecn={asks}"));
        let capture = Capture::start(&world.client, &world.dir.join(format!("{asks}.pcap")));
        let _stream = open(&world, &world.client, "10.3.0.2:7");
        wait_for("the byte in the capture", || {
            capture.packets().iter().any(|(client, _, bytes, _)| !*client && *bytes == 1)
        });
        let answer = capture.packets().into_iter().find(|(client, flags, ..)| !*client && flags & 2 != 0).unwrap();
        assert_eq!(answer.1 & ECE != 0, asks == 1, "the client's half");
    }
    // What is exempt is not even led to the device.
    let before = count(&proxy, "packets_plain");
    let _exempt = open(&world, &world.client, "10.3.0.2:9");
    assert_eq!((count(&proxy, "packets_plain"), count(&proxy, "connections_taken")), (before, 2), "{}", report(&proxy));
}

/// Connections that are older than the proxy, and connections that begin behind it, go through its device as they are.
#[test]
fn what_is_not_split_goes_on_as_it_came() {
    let _alone = alone();
    if !root_or_skip("proxy_foreign") {
        return;
    }
    let world = World::new("foreign");
    world.serve(7, echo);
    let mut older: Vec<TcpStream> = ["10.3.0.2:7", "[fd00:3::2]:7"].map(|to| open(&world, &world.client, to)).into();
    let mut proxy = start(&world, "userspace", "");
    let (tell, told) = channel();
    let listener = world.client.run(|| std::net::TcpListener::bind("10.1.0.2:8").unwrap()).unwrap();
    std::thread::spawn(move || tell.send(listener.accept().unwrap().0).unwrap());
    let mut inward = world.connect(&world.server, "10.1.0.2:8").unwrap();
    let mut accepted = told.recv_timeout(PATIENCE).unwrap();
    inward.write_all(&pattern(300_000, 1)).unwrap();
    let mut got = vec![0; 300_000];
    accepted.read_exact(&mut got).unwrap();
    assert!(got == pattern(300_000, 1));
    older.iter_mut().for_each(|stream| says(stream).unwrap());
    assert_eq!((count(&proxy, "connections_taken"), report(&proxy).connections), (0, 0), "{}", report(&proxy));
    assert!(count(&proxy, "packets_plain") > 20, "{}", report(&proxy));
    // An end in order resets what is split, and leaves the others.
    let mut split = open(&world, &world.client, "10.3.0.2:7");
    assert_eq!(proxy.stop(), Some(0));
    assert_eq!(split.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    older.iter_mut().for_each(|stream| says(stream).unwrap());
}

/// First packets that somebody forges with the addresses and ports of a connection change neither what is split nor what is exempt.
#[test]
fn forged_first_packets_change_no_connection() {
    let _alone = alone();
    if !root_or_skip("proxy_forged_syn") {
        return;
    }
    let world = World::new("forgedsyn");
    let proxy = start(&world, "userspace", "exempt = [\"dscp 46\"]");
    world.serve(7, echo);
    let forge = |ns: &Netns, from: SocketAddr, to: SocketAddr, dscp: u8| {
        let packet = first_packet(from, to, dscp);
        let raw =
            || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(socket2::Protocol::from(RAW)));
        let sent = ns.run(move || raw().unwrap().send_to(&packet, &to.into()));
        assert_eq!(sent.unwrap().unwrap(), 40);
    };
    let mut split = open(&world, &world.client, "10.3.0.2:7");
    assert_eq!(count(&proxy, "connections_taken"), 1);
    let (own, server) = (split.local_addr().unwrap(), split.peer_addr().unwrap());
    for (ns, from, to) in [(&world.client, own, server), (&world.server, server, own)] {
        forge(ns, from, to, 46);
        (0..3).for_each(|_| says(&mut split).unwrap());
    }
    let mut exempt = world.client.run(move || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_tos_v4(46 << 2).unwrap();
        socket.connect(&server.into()).unwrap();
        TcpStream::from(socket)
    });
    let exempt = exempt.as_mut().unwrap();
    says(exempt).unwrap();
    forge(&world.client, exempt.local_addr().unwrap(), server, 0);
    (0..3).for_each(|_| says(exempt).unwrap());
    says(&mut split).unwrap();
    assert_eq!((count(&proxy, "connections_taken"), count(&proxy, "connections_reset")), (1, 0), "{}", report(&proxy));
}

/// The same before the server has answered: the answer goes where the first of them says.
#[test]
fn a_forged_first_packet_before_the_answer_changes_no_connection() {
    let _alone = alone();
    if !root_or_skip("proxy_forged_early") {
        return;
    }
    let world = World::new("forgedearly");
    let proxy = start(&world, "userspace", "exempt = [\"dscp 46\"]");
    world.serve(7, echo);
    world.sh(&world.server, "nft add table inet t; nft 'add chain inet t o { type filter hook output priority 0; }'; nft 'add rule inet t o tcp sport 7 drop'");
    let own: SocketAddr = "10.1.0.2:40999".parse().unwrap();
    let server: SocketAddr = "10.3.0.2:7".parse().unwrap();
    let (tell, told) = channel();
    let socket = world.client.run(|| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap());
    let socket = socket.unwrap();
    std::thread::spawn(move || {
        socket.bind(&own.into()).unwrap();
        tell.send(socket.connect(&server.into()).map(|()| TcpStream::from(socket))).unwrap();
    });
    wait_for("the first packet", || report(&proxy).pending == 1);
    for dscp in [46, 0] {
        let packet = first_packet(own, server, dscp);
        let raw =
            || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(socket2::Protocol::from(RAW)));
        assert_eq!(world.client.run(move || raw().unwrap().send_to(&packet, &server.into())).unwrap().unwrap(), 40);
    }
    world.sh(&world.server, "nft delete table inet t");
    let mut stream = told.recv_timeout(PATIENCE).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    (0..3).for_each(|_| says(&mut stream).unwrap());
    assert_eq!((count(&proxy, "connections_taken"), count(&proxy, "connections_reset")), (1, 0), "{}", report(&proxy));
}

/// Servers that speak first fill no buffers for clients that never complete their handshake.
#[test]
fn what_a_server_says_first_waits_in_it_until_the_client_is_there() {
    let _alone = alone();
    if !root_or_skip("proxy_says_first") {
        return;
    }
    const MANY: u8 = 60;
    let world = World::new("saysfirst");
    let said = std::sync::Arc::new(pattern(1_000_000, 9));
    let served = std::sync::Arc::clone(&said);
    world.serve(80, move |mut stream, _| drop(stream.write_all(&served)));
    let proxy = start(&world, "userspace", "");
    let server: SocketAddr = "10.3.0.2:80".parse().unwrap();
    let raw = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(socket2::Protocol::from(RAW)));
    let raw = world.client.run(move || raw().unwrap()).unwrap();
    for n in 0..MANY {
        // Nobody has these addresses.
        let packet = first_packet(SocketAddr::from(([10, 1, 0, 3 + n], 40_000)), server, 0);
        raw.send_to(&packet, &server.into()).unwrap();
    }
    let mut most = 0;
    wait_for("the servers to have said what they may", || {
        most = most.max(report(&proxy).waiting_bytes);
        most > u64::from(MANY / 2) * 14_000
    });
    let mut got = Vec::new();
    world.connect(&world.client, "10.3.0.2:80").unwrap().read_to_end(&mut got).unwrap();
    assert!(got == *said, "{} bytes", got.len());
    most = most.max(report(&proxy).waiting_bytes);
    // One was there, and had more for a moment.
    assert!(most < u64::from(MANY) * (16 << 10) + (1 << 20), "{most} bytes for {MANY}");
}

/// A proxy that mirrors reads all packets of TCP and changes none: without it the same connections go on.
#[test]
fn mirrored_connections_outlive_the_proxy() {
    let _alone = alone();
    if !root_or_skip("proxy_mirror") {
        return;
    }
    let world = World::new("mirror");
    world.serve(7, echo);
    let mut proxy = start(&world, "userspace", "mode = \"mirror\"");
    let mut streams = ["10.3.0.2:7", "[fd00:3::2]:7"].map(|to| open(&world, &world.client, to));
    for stream in &mut streams {
        let (mut half, data) = (stream.try_clone().unwrap(), pattern(300_000, 3));
        let writer = std::thread::spawn(move || half.write_all(&data).unwrap());
        let mut got = vec![0; 300_000];
        stream.read_exact(&mut got).unwrap();
        writer.join().unwrap();
        assert!(got == pattern(300_000, 3));
    }
    assert!(count(&proxy, "packets_mirrored") > 40, "{}", report(&proxy));
    assert_eq!(count(&proxy, "connections_taken"), 0, "{}", report(&proxy));
    proxy.kill();
    streams.iter_mut().for_each(|stream| says(stream).unwrap());
}

/// Told of a gap, a proxy stops who sends from a side that says so, and has it go on after the gap.
#[test]
fn a_sender_waits_while_a_gap_is_near() {
    let _alone = alone();
    if !root_or_skip("proxy_freeze") {
        return;
    }
    let world = World::new("freeze");
    world.serve(9, |mut stream, _| drop(std::io::copy(&mut stream, &mut std::io::sink())));
    let side = "[[proxy.side]]\nname = \"air\"\nnetworks = [\"10.1.0.0/24\"]\nfreeze = \"three\"\n";
    let proxy = start(&world, "userspace", side);
    let mut stream = world.connect(&world.client, "10.3.0.2:9").unwrap();
    std::thread::spawn(move || while stream.write_all(&[7; 10_000]).is_ok() {});
    let taken = || -> u64 {
        report(&proxy).connection_list.iter().filter_map(|c| c.near.as_ref()).map(|near| near.in_bytes).sum()
    };
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &proxy.child.id().to_string()]).status().unwrap().success());
    };
    for round in 1..=2_u64 {
        let before = taken();
        wait_for("bytes to cross", || taken() > before + 100_000);
        signal("-USR1");
        wait_for("the gap to be known", || count(&proxy, "gaps") == round);
        // Its kernel asks now and then whether the window is open.
        wait_for("the sender to wait", || world.sh(&world.client, "ss -Htno").contains("timer:(persist"));
        let before = taken();
        signal("-USR2");
        wait_for("the sender to go on", || taken() > before + 100_000);
    }
}

/// `IPPROTO_RAW`: what is sent has its own IP header.
const RAW: i32 = 255;

/// A connection's first packet (RFC 791, RFC 9293).
fn first_packet(from: SocketAddr, to: SocketAddr, dscp: u8) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("IPv4") };
    let ends = [from.ip().octets(), to.ip().octets()].concat();
    let mut tcp = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    // Sequence number, no acknowledgement, 20 octets and SYN, window, no checksum yet, no urgent bytes.
    tcp.extend([1, 2, 3, 4, 0, 0, 0, 0, 0x50, 2, 255, 255, 0, 0, 0, 0]);
    let sum = wavelane_wire::ip::checksum(&[&ends, &[0, 6, 0, 20], &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    // The kernel writes the checksum of this header.
    [vec![0x45, dscp << 2, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0], ends, tcp].concat()
}

/// Killed and started again at once: what it had is reset when an end next sends, in either direction, and what began plainly
/// meanwhile goes on through its device.
#[test]
fn started_again_after_a_kill_it_resets_what_it_had() {
    let _alone = alone();
    if !root_or_skip("proxy_again") {
        return;
    }
    let world = World::new("again");
    world.serve(7, echo);
    let (tell, told) = channel();
    // Sends whenever it is told to, and tells how that ended.
    world.serve(8, move |mut stream, _| {
        let (go, when) = channel::<()>();
        stream.write_all(b"x").unwrap();
        tell.send((go, stream.try_clone().unwrap())).unwrap();
        while when.recv().is_ok() {
            let _ = stream.write_all(b"x");
        }
    });
    let mut proxy = start(&world, "userspace", "");
    let mut idle = open(&world, &world.client, "10.3.0.2:7");
    let mut six = open(&world, &world.client, "[fd00:3::2]:7");
    let mut pushed = world.connect(&world.client, "10.3.0.2:8").unwrap();
    pushed.read_exact(&mut [0]).unwrap();
    let (go, mut server_end) = told.recv_timeout(PATIENCE).unwrap();
    proxy.kill();
    // Until then a connection can be made that nobody tracks, as those that the process had are not.
    wait_for("its rules to go", || {
        !world.sh(&world.a, "nft list tables").lines().any(|line| line == "table inet wavelane")
    });
    let mut plain = open(&world, &world.client, "10.3.0.2:7");
    let proxy = spawn(&world);
    for stream in [&mut idle, &mut six] {
        stream.write_all(b"x").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    go.send(()).unwrap();
    assert_eq!(server_end.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "the server's end");
    assert!(count(&proxy, "orphans_reset") >= 3, "{}", report(&proxy));
    says(&mut plain).unwrap();
    assert_eq!(count(&proxy, "connections_taken"), 0, "{}", report(&proxy));
    says(&mut open(&world, &world.client, "10.3.0.2:7")).unwrap();
    assert_eq!(count(&proxy, "connections_taken"), 1);
}

/// By a reload connections come to be exempt, or no targets, and their packets go past the proxy: they end, and others go on.
#[test]
fn what_a_reload_takes_out_ends() {
    let _alone = alone();
    if !root_or_skip("proxy_taken_out") {
        return;
    }
    let world = World::new("takenout");
    for port in [7, 9] {
        world.serve(port, echo);
    }
    let proxy = start(&world, "userspace", "exempt = [\"port 22\"]");
    let mut streams = ["10.3.0.2:7", "10.3.0.2:9", "[fd00:3::2]:7"].map(|to| open(&world, &world.client, to));
    let config = world.dir.join("proxy.toml");
    edit(&config, "exempt = [\"port 22\"]", "exempt = [\"port 9\"]\ntargets = [\"0.0.0.0/0\"]");
    assert_eq!(reload(&proxy), None);
    for stream in &mut streams[1..] {
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    says(&mut streams[0]).unwrap();
    wait_for("both halves to be gone", || report(&proxy).connections == 1);
    says(&mut open(&world, &world.client, "10.3.0.2:9")).unwrap();
    assert_eq!(report(&proxy).connections, 1);
}

/// What another program takes away comes back: the table that resets orphans, and the device's state, MTU and address.
#[test]
fn what_is_taken_away_is_put_back() {
    let _alone = alone();
    if !root_or_skip("proxy_put_back") {
        return;
    }
    let world = World::new("putback");
    world.serve(7, echo);
    let proxy = start(&world, "userspace", "");
    let standing = || {
        world.sh(&world.a, "nft -s list ruleset; ip -d link show dev wavelane-proxy; ip address show dev wavelane-proxy; ip rule; ip route show table 4780")
    };
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.all.rp_filter=0");
    let mut older = open(&world, &world.client, "10.3.0.2:7");
    let whole = standing();
    assert!(whole.contains("wavelane_orphans") && whole.contains("mtu 65535"), "{whole}");
    for damage in [
        "nft delete table inet wavelane_orphans",
        "ip link set wavelane-proxy mtu 1300",
        "ip link set wavelane-proxy down",
        "ip address flush dev wavelane-proxy",
        "ip route flush table 4780",
        // As distributions set it when they are set up.
        "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.wavelane-proxy.rp_filter=1",
    ] {
        let before = count(&proxy, "state_put_back");
        world.sh(&world.a, damage);
        wait_for(damage, || count(&proxy, "state_put_back") > before && standing() == whole);
        says(&mut open(&world, &world.client, "10.3.0.2:7")).unwrap();
    }
    proxy.wait_log("the device wavelane-proxy (`rp_filter` became 1");
    // Without the table that leads packets to it, and while it is busy: what its connections send waits.
    let tell = |signal: &str, process: &str| {
        assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
    };
    let pid = proxy.child.id().to_string();
    let nft = Command::new("pgrep").args(["-P", &pid, "-x", "nft"]).output().unwrap();
    tell("-STOP", &pid);
    tell("-KILL", String::from_utf8(nft.stdout).unwrap().trim());
    wait_for("the table to go", || {
        !world.sh(&world.a, "nft list tables").lines().any(|line| line == "table inet wavelane")
    });
    older.write_all(b"x").unwrap();
    wait_for("the packet to be dropped", || {
        let table = world.sh(&world.a, "nft list table inet wavelane_orphans");
        let count = table.split("counter packets ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        count != "0"
    });
    tell("-CONT", &pid);
    older.read_exact(&mut [0]).unwrap();
    assert_eq!(count(&proxy, "orphans_reset"), 0);
}

/// Segments of one side's size become segments of the other's, and not a full one and a rest each.
#[test]
fn segments_are_filled_where_the_sides_differ() {
    let _alone = alone();
    if !root_or_skip("proxy_filled") {
        return;
    }
    const SENT: usize = 2_000_000;
    let world = World::new("filled");
    world.sh(&world.client, "ethtool -K eth0 tso off gso off gro off");
    world.sh(&world.a, "ethtool -K lan0 tso off gso off gro off");
    world.serve(80, |mut stream, _| stream.write_all(&[7; SENT]).unwrap());
    let _proxy =
        start(&world, "userspace", "[[proxy.side]]\nname = \"near\"\nnetworks = [\"10.1.0.0/24\"]\nmss = 1000\n");
    let capture = Capture::start(&world.client, &world.dir.join("filled.pcap"));
    let mut got = Vec::new();
    world.connect(&world.client, "10.3.0.2:80").unwrap().read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), SENT);
    let to_client = || capture.packets().into_iter().filter(|p| !p.0 && p.2 > 0).map(|p| p.2).collect::<Vec<_>>();
    wait_for("the capture to hold everything", || to_client().iter().sum::<usize>() >= SENT);
    // With timestamps there are 12 bytes less in a segment.
    let (segments, least) = (to_client().len(), SENT / 988);
    assert!(segments * 100 <= least * 105, "{segments} segments, and {least} would do");
}

/// A router before the proxy cuts the server's packets in two: what is split gets them whole, and what is not as they are.
#[test]
fn packets_in_fragments_cross() {
    let _alone = alone();
    if !root_or_skip("proxy_fragments") {
        return;
    }
    let world = World::new("fragments");
    world.sh(&world.server, "sysctl -qw net.ipv4.ip_no_pmtu_disc=1");
    world.sh(&world.b, "ip link set wan0 mtu 1000");
    world.serve(80, |mut stream, _| {
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(&pattern(300_000, 3)).unwrap();
    });
    let mut older = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let proxy = start(&world, "userspace", "");
    let mut split = world.connect(&world.client, "10.3.0.2:80").unwrap();
    for stream in [&mut older, &mut split] {
        stream.write_all(b"x").unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == pattern(300_000, 3), "{} bytes", got.len());
    }
    assert_eq!(count(&proxy, "connections_taken"), 1, "{}", report(&proxy));
    assert!(count(&proxy, "packets_plain") > 200, "the older one's fragments: {}", report(&proxy));
}

/// Readers that stop hold what `pool` says and no more, and another connection goes on beside them.
#[test]
fn stopped_readers_hold_no_more_than_the_pool() {
    let _alone = alone();
    if !root_or_skip("proxy_pool") {
        return;
    }
    const POOL: u64 = 8 << 20;
    let world = World::new("pool");
    world.serve(80, |mut stream, _| drop(stream.write_all(&pattern(4_000_000, 9))));
    let proxy = start(&world, "userspace", "pool = \"8 MiB\"\nconnections_max = 100");
    // Sixty of them would take 40 MB.
    let mut streams: Vec<TcpStream> = (0..60).map(|_| world.connect(&world.client, "10.3.0.2:80").unwrap()).collect();
    let mut last = (0, now());
    wait_for("everybody to stand still", || {
        let held = report(&proxy);
        assert!(held.waiting_bytes <= POOL, "{held}");
        let all: u64 = held.connection_list.iter().filter_map(|c| c.far.as_ref()).map(|far| far.in_bytes).sum();
        if all != last.0 {
            last = (all, now());
        }
        all > 0 && last.1.elapsed() > Duration::from_millis(500)
    });
    assert!(report(&proxy).waiting_bytes > POOL / 2, "{}", report(&proxy));
    for stream in &mut streams[55..] {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == pattern(4_000_000, 9), "{} bytes", got.len());
    }
}
