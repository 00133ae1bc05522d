//! Who is reached through the packet door, and what is said to those who ask for somebody who is not.

use crate::common::tunnel::*;
use crate::common::*;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Sends until the socket is told that nobody is there.
fn told_unreachable(world: &World, target: &'static str) {
    let any = if target.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = world.client.run(move || UdpSocket::bind(any).unwrap()).unwrap();
    // Without this Linux keeps what may pass, such as an unreachable host, from the socket (ip(7)).
    if target.starts_with('[') {
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true).unwrap();
    } else {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true).unwrap();
    }
    socket.connect(target).unwrap();
    wait_for("an error at the socket", || {
        pause(Duration::from_millis(100));
        socket.send(b"x").is_err_and(|e| e.kind() == ErrorKind::HostUnreachable)
    });
}

#[test]
fn closed_answers_unreachable_for_a_dead_peer() {
    let _alone = alone();
    if !root_or_skip("gone") || !has("ping", "gone") {
        return;
    }
    let world = World::new("gone");
    let closed = "source = \"keep\"\non_failure = \"closed\"";
    let (mut b, a) = (world.start("b", closed, &tun("b", "")), world.start("a", closed, &tun("a", "")));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    only_the_lane(&world, 0);
    let one = |target: &str| received(&ping(&world, &world.client, &format!("-c 1 -W 2 {target}")));
    assert_eq!((one("10.3.0.2"), one("fd00:3::2")), (1, 1));
    b.kill();
    let cases = [
        ("10.3.0.2", "From 10.9.0.1", "Destination Host Unreachable"),
        ("fd00:3::2", "From fd00:9::1", "Destination unreachable: Address unreachable"),
    ];
    // The first ones leave, and are answered when the gateway is known to be gone; the next ones at once.
    for patience in [20, 2] {
        std::thread::scope(|scope| {
            for (target, from, words) in cases {
                let world = &world;
                scope.spawn(move || {
                    let said = ping(world, &world.client, &format!("-c 1 -W {patience} {target}"));
                    assert!(said.contains(from) && said.contains(words), "within {patience} s: {said}");
                });
            }
        });
    }
    told_unreachable(&world, "10.3.0.2:6000");
    told_unreachable(&world, "[fd00:3::2]:6000");
    assert!(a.counter("dropped_packets_peer_down") > 0, "{}", a.status());
    // It is found again by whoever asks.
    let b = world.start("b", closed, &tun("b", ""));
    b.wait_log("peer 'a' is up");
    wait_for("pings to cross again", || one("10.3.0.2") == 1 && one("fd00:3::2") == 1);
}

#[test]
fn a_peer_that_never_answered_is_unreachable_too() {
    let _alone = alone();
    if !root_or_skip("never") || !has("ping", "never") {
        return;
    }
    let world = World::new("never");
    let _a = world.start("a", "source = \"keep\"\non_failure = \"closed\"", &tun("a", ""));
    only_the_lane(&world, 0);
    let said = ping(&world, &world.client, "-c 1 -W 8 10.3.0.2");
    assert!(said.contains("From 10.9.0.1") && said.contains("Destination Host Unreachable"), "{said}");
}

#[test]
fn spoofed_sources_are_dropped_at_both_ends() {
    let _alone = alone();
    if !root_or_skip("others") {
        return;
    }
    let world = World::new("others");
    // Answers to these would go the same way.
    world.sh(&world.client, "ip addr add 10.7.0.2/32 dev eth0; ip addr add fd00:7::2/128 dev eth0");
    for ns in [&world.a, &world.b] {
        world.sh(ns, "ip route replace 10.7.0.0/24 dev lan0; ip -6 route replace fd00:7::/64 dev lan0");
    }
    world.serve(80, echo);
    let (config, b) = (
        world.write("a", Outside::V4, "source = \"keep\"", &tun("a", "")),
        world.start("b", "source = \"keep\"", &tun("b", "")),
    );
    let mut a = world.spawn("a", &config);
    b.wait_log("peer 'a' is up");
    only_the_lane(&world, 0);
    let ping_from =
        |source: &str, target: &str| ping(&world, &world.client, &format!("-c 2 -W 1 -I {source} {target}"));
    assert_eq!(received(&ping(&world, &world.client, "-c 2 -W 20 -I 10.1.0.2 10.3.0.2")), 2);
    assert_eq!(received(&ping_from("10.7.0.2", "10.3.0.2")) + received(&ping_from("fd00:7::2", "fd00:3::2")), 0);
    wait_for("both to be counted", || a.counter("dropped_packets_source_not_ours") == 4);
    assert_eq!(b.counter("dropped_packets_source_not_allowed"), 0, "it ended at the near gateway");
    // A near gateway that does not say what it serves.
    a.stop();
    edit(&config, "serves = ", "# ");
    let a = world.spawn("a", &config);
    a.wait_log("warning: peer 'b' may reach nothing through this gateway: write gateway.serves");
    a.wait_log("peer 'b' is up");
    assert_eq!(received(&ping_from("10.7.0.2", "10.3.0.2")), 0);
    wait_for("both to be counted", || b.counter("dropped_packets_source_not_allowed") >= 2);
    // Connections are made from their sources.
    let error = |source: &'static str| {
        let socket = world.client.run(move || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None));
        let socket = socket.unwrap().unwrap();
        socket.bind(&SocketAddr::new(source.parse().unwrap(), 0).into()).unwrap();
        socket.connect(&SocketAddr::new([10, 3, 0, 2].into(), 80).into()).err().map(|e| e.kind())
    };
    assert_eq!(error("10.1.0.2"), None);
    assert_eq!(error("10.7.0.2"), Some(ErrorKind::HostUnreachable));
    assert_eq!(b.counter("dropped_source_not_allowed"), 1);
    b.wait_log("peer 'a' may not use the source 10.7.0.2:");
}

#[test]
fn cloud_metadata_needs_an_exact_prefix() {
    let _alone = alone();
    if !root_or_skip("metadata") {
        return;
    }
    const KEYS: &str = "169.254.169.254:80";
    let world = World::new("metadata");
    world.serve(80, echo);
    world.sh(&world.server, "ip addr add 169.254.169.254/32 dev eth0");
    world.sh(&world.b, "ip route add 169.254.169.254 via 10.3.0.2");
    let doors = "[intercept]\ninterfaces = [\"lan0\"]";
    let config = [
        world.write("a", Outside::V4, "source = \"keep\"", doors),
        world.write("b", Outside::V4, "source = \"keep\"", "allow_targets = [\"0.0.0.0/0\", \"169.254.0.0/16\"]"),
    ];
    edit(&config[0], "routes = [", "routes = [\"169.254.169.254/32\", ");
    let (a, b) = (world.spawn("a", &config[0]), world.spawn("b", &config[1]));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    assert!(world.connect(&world.client, "10.3.0.2:80").is_ok());
    assert_eq!(world.connect(&world.client, KEYS).unwrap_err().kind(), ErrorKind::HostUnreachable);
    assert_eq!((b.counter("dropped_target_denied"), b.counter("connections_made")), (1, 1));
    b.wait_log("may not have us connect to 169.254.169.254:80");
    edit(&config[1], "169.254.0.0/16", "169.254.169.254/32");
    assert_eq!(b.reload(), None);
    assert!(world.connect(&world.client, KEYS).is_ok());
}

/// Echoes datagrams at an address of the far gateway itself.
fn echo_at(world: &World, address: &'static str) {
    let socket = world.b.run(move || UdpSocket::bind(address).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 100];
        while let Ok((n, from)) = socket.recv_from(&mut buf) {
            let _ = socket.send_to(&buf[..n], from);
        }
    });
}

/// Whether a datagram to `target` is echoed; if not, what the socket was told.
fn ask(world: &World, target: &'static str) -> Result<(), ErrorKind> {
    let any = if target.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = world.client.run(move || UdpSocket::bind(any).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.connect(target).unwrap();
    // A datagram may be lost, and so may the answer of a kernel that limits them.
    let mut tries =
        (0..5).map(|_| socket.send(b"hello").and_then(|_| socket.recv(&mut [0; 100])).map(drop).map_err(|e| e.kind()));
    tries.find(|told| *told != Err(ErrorKind::WouldBlock)).unwrap_or(Err(ErrorKind::WouldBlock))
}

/// Addresses of the far gateway: of its device, and of its other side.
const OWN: [&str; 4] = ["10.9.0.2:7000", "[fd00:9::2]:7000", "10.3.0.1:7000", "[fd00:3::1]:7000"];

#[test]
fn a_service_on_the_gateway_is_reached_if_configured() {
    let _alone = alone();
    if !root_or_skip("own") {
        return;
    }
    let world = World::new("own");
    let listed = "allow_targets = [\"10.0.0.0/8\", \"fd00::/16\", \"10.9.0.2/32\", \"fd00:9::2/128\", \"10.3.0.1/32\", \"fd00:3::1/128\"]";
    // What is listed is on the far side; the near one routes the device's network there.
    let routed = "routes = [\"10.3.0.0/24\", \"fd00:3::/64\", \"10.9.0.2/32\", \"fd00:9::2/128\"]";
    for (peer, open) in [("", false), (listed, true)] {
        let b = world.start("b", "source = \"keep\"", &format!("{peer}\n{}", tun("b", "")));
        let config = world.write("a", Outside::V4, "source = \"keep\"", &tun("a", ""));
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("routes = [\"10.3.0.0/24\", \"fd00:3::/64\"]", routed)).unwrap();
        let a = world.spawn("a", &config);
        a.wait_log("peer 'b' is up");
        b.wait_log("peer 'a' is up");
        only_the_lane(&world, 0);
        for target in OWN {
            if open {
                // Nobody listens yet.
                assert_eq!(ask(&world, target), Err(ErrorKind::ConnectionRefused), "{target}");
                echo_at(&world, target);
                assert_eq!(ask(&world, target), Ok(()), "{target}");
            } else {
                let told = ask(&world, target);
                let refused = [ErrorKind::HostUnreachable, ErrorKind::PermissionDenied];
                assert!(told.is_err_and(|kind| refused.contains(&kind)), "{target}: {told:?}");
            }
        }
        world.sh(&world.a, "nft delete table inet world");
        world.sh(&world.b, "nft delete table inet world");
    }
}
