//! SIGHUP: what changes while connections stand, and what is refused as a whole.

use crate::common::tunnel::{only_the_lane, ping, tun};
use crate::common::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wavelane_host::netns::Netns;

const DOORS: &str = "[intercept]\ninterfaces = [\"lan0\"]\n[tun]\naddresses = [\"10.9.0.1/24\"]";

struct Scene {
    world: World,
    a: Daemon,
    b: Daemon,
    config: [std::path::PathBuf; 2],
}

fn scene(tag: &str) -> Scene {
    let world = World::new(tag);
    let config = [
        world.write("a", Outside::V4, "source = \"keep\"", DOORS),
        world.write("b", Outside::V4, "source = \"keep\"", &DOORS.replace("9.0.1", "9.0.2")),
    ];
    let b = world.spawn("b", &config[1]);
    let a = world.spawn("a", &config[0]);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    Scene { world, a, b, config }
}

#[test]
fn a_transfer_runs_on_while_peers_and_prefixes_change() {
    let _alone = alone();
    if !root_or_skip("reload_transfer") {
        return;
    }
    let Scene { world, a, b, config } = scene("reload");
    world.sh(&world.server, "ip addr add 10.3.0.130/24 dev eth0");
    // What goes there plainly is answered through the far gateway's device.
    edit(&config[0], "[intercept]", "allow_sources = [\"10.3.0.0/24\"]\n[intercept]");
    edit(&config[0], "10.3.0.0/24", "10.3.0.0/25");
    assert_eq!(a.reload(), None);
    world.serve(80, echo);
    let taken = |target: &str| {
        let before = a.counter("connections_taken");
        let mut stream = world.connect(&world.client, target).unwrap();
        stream.write_all(b"x").unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
        a.counter("connections_taken") > before
    };
    assert!(taken("10.3.0.2:80") && !taken("10.3.0.130:80"), "the narrower prefix counts");
    let sent = pattern(20_000_000, 3);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let (mut half, data) = (stream.try_clone().unwrap(), sent.clone());
    let writer = std::thread::spawn(move || {
        half.write_all(&data).unwrap();
        half.shutdown(Shutdown::Write).unwrap();
    });
    // One peer more, before the one that carries the transfer, and another prefix; then again without it.
    let more = format!(
        "[[peer]]\nname = \"c\"\npublic_key = \"{}\"\nroutes = [\"10.77.0.0/16\"]\n[[peer]]",
        key_pair().public
    );
    let (mut got, mut reloads, mut buf) = (Vec::new(), 0, vec![0; 65_536]);
    loop {
        let n = stream.read(&mut buf).unwrap();
        if n == 0 {
            break;
        }
        got.extend_from_slice(&buf[..n]);
        if reloads == 0 && got.len() > 3_000_000 {
            edit(&config[0], "[[peer]]", &more);
            edit(&config[0], "10.3.0.0/25", "10.3.0.0/24");
            assert_eq!(a.reload(), None);
            edit(&config[1], "name = \"a\"\npublic", "name = \"ship\"\npublic");
            assert_eq!(b.reload(), None);
            reloads = 1;
        } else if reloads == 1 && got.len() > 10_000_000 {
            assert!(a.status().peers.len() == 2 && a.status().peers[1].up);
            edit(&config[0], &more, "[[peer]]");
            assert_eq!(a.reload(), None);
            reloads = 2;
        }
    }
    writer.join().unwrap();
    assert_eq!(reloads, 2, "the transfer ended before the reloads");
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    assert!(taken("10.3.0.130:80"), "the wider prefix counts");
    assert_eq!(b.status().peers[0].name, "ship");
    assert_eq!(a.counter("connections_reset") + b.counter("connections_reset"), 0);
    // The kernel has what the last file says, once.
    let traces = world.traces(&world.a);
    assert_eq!(traces.matches("-j WAVELANE").count(), 2, "{traces}");
    assert!(!traces.contains("10.77.0.0/16") && !traces.contains("10.3.0.0/25"), "{traces}");
    assert_eq!(traces.matches("10.3.0.0/24 dev wavelane0 table 4781").count(), 1, "{traces}");
}

#[test]
fn permissions_change_and_a_removed_peer_loses_its_connections() {
    let _alone = alone();
    if !root_or_skip("reload_permissions") {
        return;
    }
    let Scene { world, a, b, config } = scene("permit");
    world.serve(80, echo);
    world.serve(81, echo);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let says = |stream: &mut std::net::TcpStream| {
        stream.write_all(b"x").unwrap();
        stream.read(&mut [0; 8])
    };
    assert_eq!(says(&mut stream).unwrap(), 1);
    edit(&config[1], "routes", "allow_targets = [\"10.4.0.0/16\"]\nroutes");
    assert_eq!(b.reload(), None);
    let error = world.connect(&world.client, "10.3.0.2:81").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    assert_eq!(says(&mut stream).unwrap(), 1, "a connection that stands is left alone");
    edit(&config[1], "allow_targets = [\"10.4.0.0/16\"]\n", "");
    assert_eq!(b.reload(), None);
    assert!(world.connect(&world.client, "10.3.0.2:81").is_ok());
    // The peer goes, and another takes its place.
    let text = std::fs::read_to_string(&config[0]).unwrap();
    let old = world.keys[1].public.clone();
    edit(&config[0], &old, &key_pair().public);
    assert_eq!(a.reload(), None);
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    // It comes back, and is known again although neither daemon was restarted.
    std::fs::write(&config[0], text).unwrap();
    assert_eq!(a.reload(), None);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    assert_eq!(says(&mut stream).unwrap(), 1);
    assert!(!b.log().contains("has restarted"), "{}", b.log());
}

/// Two gateways with packet doors between which nothing but the lane goes; the far one's `allow_targets` is `targets`.
fn guarded(tag: &str, targets: &str) -> Scene {
    let world = World::new(tag);
    world.sh(&world.server, "ip addr add 10.3.0.130/24 dev eth0; ip addr add fd00:3::130/64 dev eth0 nodad");
    let config = [
        world.write("a", Outside::V4, "source = \"keep\"", &tun("a", "")),
        world.write("b", Outside::V4, "source = \"keep\"", &format!("allow_targets = {targets}\n{}", tun("b", ""))),
    ];
    let b = world.spawn("b", &config[1]);
    let a = world.spawn("a", &config[0]);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    only_the_lane(&world, 0);
    Scene { world, a, b, config }
}

/// The far gateway's `allow_targets` becomes `targets`.
fn allow(scene: &Scene, targets: &str) {
    let text = std::fs::read_to_string(&scene.config[1]).unwrap();
    let line = text.lines().find(|line| line.starts_with("allow_targets")).unwrap();
    edit(&scene.config[1], line, &format!("allow_targets = {targets}"));
    assert_eq!(scene.b.reload(), None);
}

/// What a socket is told of a target that the far gateway may not serve: ICMP code 13, ICMPv6 code 1 (ip(7), ipv6(7)).
fn prohibited(target: &str) -> ErrorKind {
    if target.starts_with('[') { ErrorKind::PermissionDenied } else { ErrorKind::HostUnreachable }
}

const ONE: &str = "[\"10.3.0.2/32\", \"fd00:3::2/128\"]";
const OTHER: &str = "[\"10.3.0.130/32\", \"fd00:3::130/128\"]";

#[test]
fn reload_changes_reachable_targets_and_keeps_connections() {
    let _alone = alone();
    if !root_or_skip("reload_targets") {
        return;
    }
    let scene = guarded("targets", ONE);
    let world = &scene.world;
    world.serve(80, echo);
    let connect = |target: &str| world.connect(&world.client, target);
    let says = |stream: &mut TcpStream| {
        stream.write_all(b"x").unwrap();
        stream.read(&mut [0; 8]).unwrap()
    };
    let refused = |target: &str| {
        let before = scene.b.counter("dropped_target_not_allowed");
        assert_eq!(connect(target).unwrap_err().kind(), prohibited(target), "{target}");
        assert!(scene.b.counter("dropped_target_not_allowed") > before);
    };
    for (one, other) in [("10.3.0.2:80", "10.3.0.130:80"), ("[fd00:3::2]:80", "[fd00:3::130]:80")] {
        let mut old = connect(one).unwrap();
        refused(other);
        allow(&scene, OTHER);
        assert_eq!(says(&mut old), 1, "{one} stands");
        refused(one);
        let mut new = connect(other).unwrap();
        assert_eq!(says(&mut new), 1);
        allow(&scene, ONE);
        refused(other);
        // Both stand, one allowed and one not, and end in order.
        for mut stream in [old, new] {
            assert_eq!(says(&mut stream), 1);
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
        }
    }
    assert_eq!(scene.a.counter("connections_reset") + scene.b.counter("connections_reset"), 0);
}

/// Echoes datagrams at `address` of `ns`.
fn udp_echo(ns: &Netns, address: &str) {
    let address = address.to_owned();
    let socket = ns.run(move || UdpSocket::bind(address).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 100];
        while let Ok((n, from)) = socket.recv_from(&mut buf) {
            let _ = socket.send_to(&buf[..n], from);
        }
    });
}

/// A flow of datagrams from the client to `target`.
fn udp_flow(world: &World, target: &str) -> UdpSocket {
    let (any, to) = (if target.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" }, target.to_owned());
    let socket = world.client.run(move || UdpSocket::bind(any).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// Whether a datagram is echoed; if not, what the socket was told.
fn answered(socket: &UdpSocket) -> Result<(), ErrorKind> {
    socket.send(b"hello").unwrap();
    socket.recv(&mut [0; 100]).map(drop).map_err(|e| e.kind())
}

#[test]
fn packets_follow_the_reloaded_lists() {
    let _alone = alone();
    if !root_or_skip("reload_packets") {
        return;
    }
    let scene = guarded("judged", ONE);
    let world = &scene.world;
    // At the server, and at the gateway itself where its firewall has a word.
    let near = ["10.3.0.2:6000", "[fd00:3::2]:6000"];
    let far = ["10.3.0.130:6000", "[fd00:3::130]:6000", "10.3.0.1:6000", "[fd00:3::1]:6000"];
    let flows =
        |targets: &[&'static str]| targets.iter().map(|target| (*target, udp_flow(world, target))).collect::<Vec<_>>();
    for target in near.iter().chain(&far[..2]) {
        udp_echo(&world.server, target);
    }
    far[2..].iter().for_each(|target| udp_echo(&world.b, target));
    let (one, others) = (flows(&near), flows(&far));
    // What is open is answered; the rest is told so, whether it spoke before or not.
    let judge = |open: &[(&str, UdpSocket)], closed: &[(&str, UdpSocket)]| {
        for (target, socket) in open {
            assert_eq!(answered(socket), Ok(()), "{target}");
        }
        for (target, socket) in closed {
            assert_eq!(answered(socket), Err(prohibited(target)), "{target}");
        }
    };
    judge(&one, &others);
    // The side that asks hears of it, too.
    scene.a.wait_log("peer 'b' does not let us reach 10.3.0.130: list its network in gateway.serves");
    assert!(scene.a.counter("refused_by_peer") >= others.len() as u64);
    allow(&scene, &OTHER.replace(']', ", \"10.3.0.1/32\", \"fd00:3::1/128\"]"));
    judge(&others, &one);
    let said = ping(world, &world.client, "-c 1 -W 5 10.3.0.2");
    assert!(said.contains("From 10.9.0.2") && said.contains("Packet filtered"), "{said}");
    // The gateway's own addresses lie in these too, but are not listed exactly.
    allow(&scene, "[\"10.3.0.0/25\", \"fd00:3::/121\"]");
    judge(&one, &others);
}

#[test]
fn a_refused_reload_changes_nothing() {
    let _alone = alone();
    if !root_or_skip("reload_refused") {
        return;
    }
    let Scene { world, a, b: _b, config } = scene("refuse");
    world.serve(80, echo);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let (good, before) = (std::fs::read_to_string(&config[0]).unwrap(), world.traces(&world.a));
    let cases = [
        ("[gateway]", "[gateway]\nspeed = 3", "unknown key 'speed' in [gateway]"),
        ("[\"10.3.0.0/24\"", "[\"10.3.0.1/24\"", "10.3.0.0/24"),
        ("source = \"keep\"", "source = \"own\"", "gateway.source cannot change"),
        ("name = \"a\"", "name = \"ship\"", "gateway.name cannot change"),
        ("\"lan0\"", "\"lan1\"", "[intercept] cannot change"),
        ("[tun]", "[tun]\nmtu = 1300", "[tun] cannot change"),
        ("routes", "controller = \"cubic\"\nroutes", "controller of peer 'b' cannot change"),
        ("10.2.0.2:4780", "[fd00:2::2]:4780", "listen on [::]:4780"),
        ("routes = [", "allow_sources = [\"10.0.0.0/33\"]\nroutes = [", "address block"),
    ];
    for (from, to, part) in cases {
        std::fs::write(&config[0], good.replacen(from, to, 1)).unwrap();
        let why = a.reload().unwrap_or_else(|| panic!("not refused: {to}"));
        assert!(why.contains(part) && !why.contains('\n'), "wanted '{part}' in: {why}");
        assert!(a.status().to_string().contains("the last reload was refused"));
        assert_eq!(world.traces(&world.a), before, "{to}");
    }
    std::fs::remove_file(&config[0]).unwrap();
    assert!(a.reload().unwrap().contains("cannot read"));
    stream.write_all(b"still here").unwrap();
    assert_eq!(stream.read(&mut [0; 32]).unwrap(), 10);
    std::fs::write(&config[0], good).unwrap();
    assert_eq!(a.reload(), None);
    assert!(!a.status().to_string().contains("refused ("));
    // The level of the log is the file's, too.
    edit(&config[0], "[gateway]\n", "[gateway]\nlog = \"debug\"\n");
    assert_eq!(a.reload(), None);
    a.wait_log("Z wavelaned: debug: the configuration comes into force: count it as reloads");
    let told = || a.log().matches("Z wavelaned: info: the configuration was read again and is in force").count();
    wait_for("the lines of both reloads", || told() > 1);
    let before = told();
    edit(&config[0], "\"debug\"", "\"error\"");
    assert_eq!((a.reload(), a.reload()), (None, None));
    assert_eq!(told(), before, "{}", a.log());
}

/// The unit as packaged, with the programs where this test has them.
#[test]
fn systemd_accepts_the_unit() {
    let unit = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/wavelaned.service"),
    );
    let unit = unit.unwrap();
    assert!(unit.contains("ExecReload=/bin/kill -HUP $MAINPID"));
    let Ok(there) = Command::new("systemd-analyze").arg("--version").output() else {
        eprintln!("SKIPPED (1 test): systemd_accepts_the_unit needs systemd-analyze");
        return;
    };
    assert!(there.status.success());
    let dir = folder("unit");
    let path = dir.join("wavelaned.service");
    std::fs::write(&path, unit.replace("/usr/bin/wavelaned", DAEMON)).unwrap();
    let out = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    // Other units of this machine may be complained about; ours must not.
    let ours: Vec<&str> = said.lines().filter(|l| l.contains("wavelaned")).collect();
    assert!(out.status.success() && ours.is_empty(), "{said}");
    std::fs::remove_dir_all(dir).unwrap();
}
