//! Everything that is not split TCP, through the TUN devices of two real gateways, with the system's own programs.

use crate::common::tunnel::*;
use crate::common::*;
use crate::quic;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

#[test]
fn pings_of_both_versions_survive_a_lossy_link() {
    let _alone = alone();
    if !root_or_skip("pings") || !has("ping", "pings") {
        return;
    }
    let world = World::new("ping");
    let (a, b) = start(&world, "", "");
    only_the_lane(&world, 5);
    for target in ["10.3.0.2", "fd00:3::2"] {
        let said = ping(&world, &world.client, &format!("-c 100 -i 0.02 -W 2 {target}"));
        assert!(received(&said) >= 99, "{said}");
        // IPv6 asks the sender to fragment, which it learns from its first large ones, as the server does from its first.
        ping(&world, &world.client, &format!("-c 3 -i 0.1 -W 1 -s 8000 {target}"));
        let said = ping(&world, &world.client, &format!("-c 5 -i 0.1 -W 2 -s 8000 {target}"));
        assert_eq!(received(&said), 5, "fragments of a large one: {said}");
    }
    let said = ping(&world, &world.server, "-c 3 -i 0.1 -W 2 10.1.0.2");
    assert_eq!(received(&said), 3, "the other way: {said}");
    for (name, gateway) in [("a", &a), ("b", &b)] {
        let door = gateway.status().packet_door.unwrap();
        assert!(door.packets_in >= 200 && door.packets_out >= 200, "{name}: {door:?}");
        assert!(gateway.status().to_string().contains("packets through wavelane0 (MTU 1400)"));
    }
}

#[test]
fn errors_come_back_as_a_router_gives_them() {
    let _alone = alone();
    if !root_or_skip("icmp_errors") || !has("ping", "icmp_errors") {
        return;
    }
    let world = World::new("errors");
    let (a, _b) = start(&world, "", "");
    only_the_lane(&world, 0);
    let one = |arguments: &str| ping(&world, &world.client, &format!("-c 1 -W 2 {arguments}"));
    // Too big for the device: the kernel says so, as it does of any interface.
    for (exact, over, said) in [
        ("-M do -s 1372 10.3.0.2", "-M do -s 1373 10.3.0.2", "mtu = 1400"),
        ("-M do -s 1352 fd00:3::2", "-M do -s 1353 fd00:3::2", "mtu=1400"),
    ] {
        let answer = one(exact);
        assert_eq!(received(&answer), 1, "{answer}");
        let answer = one(over);
        assert!(answer.contains(said), "{answer}");
    }
    // As traceroute walks: the near gateway's kernel, the near gateway, the far gateway, its kernel.
    let exceeded = |hops: u8, target: &str| one(&format!("-t {hops} {target}"));
    for (target, first, second, word) in [
        ("10.3.0.2", "From 10.1.0.1", "From 10.9.0.1", "Time to live exceeded"),
        ("fd00:3::2", "From fd00:1::1", "From fd00:9::1", "Time exceeded"),
    ] {
        let said = exceeded(1, target);
        assert!(said.contains(first) && said.contains(word), "{said}");
        let said = exceeded(2, target);
        assert!(said.contains(second) && said.contains(word), "{said}");
        let said = exceeded(6, target);
        assert_eq!(received(&said), 1, "{said}");
    }
    // A network that no peer has: it lies on the device, and nowhere behind it.
    for (target, from) in [("10.9.0.77", "From 10.9.0.1"), ("fd00:9::77", "From fd00:9::1")] {
        let said = one(target);
        assert!(said.contains(from) && said.contains("nreachable"), "{said}");
    }
    // A host that is not there: the far gateway's kernel speaks.
    let said = ping(&world, &world.client, "-c 1 -W 5 10.3.0.77");
    assert!(said.contains("Host Unreachable"), "{said}");
    // The far gateway's own address is not for peers, unless the operator lists it.
    for target in ["10.3.0.1", "fd00:3::1"] {
        let said = one(target);
        assert!(received(&said) == 0 && (said.contains("filtered") || said.contains("prohibited")), "{said}");
    }
    let rule = world.sh(&world.b, "nft list chain inet wavelane guard");
    assert!(rule.contains("counter packets 2 "), "{rule}");
    assert!(a.counter("icmp_errors_sent") >= 4, "{}", a.status());
}

#[test]
fn packets_larger_than_the_path_are_fragmented_inside_the_lane() {
    let _alone = alone();
    if !root_or_skip("inner_fragments") || !has("ping", "inner_fragments") {
        return;
    }
    let world = World::new("inner");
    world.sh(&world.client, "ip link set eth0 mtu 4000");
    world.sh(&world.a, "ip link set lan0 mtu 4000");
    world.sh(&world.b, "ip link set lan0 mtu 4000");
    world.sh(&world.server, "ip link set eth0 mtu 4000");
    let (_a, _b) = start(&world, "", "mtu = 4000\noffload = false");
    only_the_lane(&world, 5);
    for target in ["10.3.0.2", "fd00:3::2"] {
        let said = ping(&world, &world.client, &format!("-c 20 -i 0.05 -W 2 -M do -s 3900 {target}"));
        // A quarter would be lost without repair; one or two may be in the queues of a busy machine.
        assert!(received(&said) >= 18, "{said}");
    }
}

/// Answers every question with one address record (RFC 1035, section 4).
fn name_server(world: &World) {
    let socket = world.server.run(|| UdpSocket::bind("[::]:53").unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 1500];
        while let Ok((n, from)) = socket.recv_from(&mut buf) {
            let question_end = 12 + buf[12..n].iter().position(|b| *b == 0).unwrap() + 5;
            let mut answer = buf[..question_end].to_vec();
            answer[2..12].copy_from_slice(&[0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 53]);
            let _ = socket.send_to(&answer, from);
        }
    });
}

#[test]
fn names_are_resolved_over_udp() {
    let _alone = alone();
    if !root_or_skip("dns") || !has("dig", "dns") {
        return;
    }
    let world = World::new("dns");
    let (a, b) = start(&world, "", "");
    only_the_lane(&world, 5);
    name_server(&world);
    for server in ["10.3.0.2", "fd00:3::2"] {
        for question in 0..5 {
            let ask = format!("dig @{server} +short +tries=1 +time=3 boat.example A 2>&1 || true");
            let said = world.sh(&world.client, &ask);
            assert_eq!(said.trim(), "192.0.2.53", "question {question} to {server}\n{}\n{}", a.status(), b.status());
        }
    }
}

#[test]
fn a_stream_of_datagrams_arrives_intact_over_a_lossy_link() {
    let _alone = alone();
    if !root_or_skip("udp_stream") {
        return;
    }
    const DATAGRAMS: u32 = 1_875;
    let world = World::new("stream");
    let (_a, _b) = start(&world, "", "");
    only_the_lane(&world, 5);
    let receiver = world.server.run(|| UdpSocket::bind("10.3.0.2:6000").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let sender = world.client.run(|| UdpSocket::bind("10.1.0.2:6000").unwrap()).unwrap();
    // 5 Mbit/s for three seconds.
    std::thread::spawn(move || {
        let start = now();
        for i in 0..DATAGRAMS {
            let mut datagram = pattern(1_000, i + 1);
            datagram[..4].copy_from_slice(&i.to_be_bytes());
            sender.send_to(&datagram, "10.3.0.2:6000").unwrap();
            pause(Duration::from_micros(u64::from(i + 1) * 1_600).saturating_sub(start.elapsed()));
        }
    });
    let (mut seen, mut buf) = (vec![false; DATAGRAMS as usize], [0; 2_000]);
    while let Ok(n) = receiver.recv(&mut buf) {
        let i = u32::from_be_bytes(buf[..4].try_into().unwrap());
        assert_eq!(n, 1_000);
        assert!(buf[4..n] == pattern(1_000, i + 1)[4..], "datagram {i} was damaged");
        assert!(!std::mem::replace(&mut seen[i as usize], true), "datagram {i} came twice");
        if seen.iter().all(|s| *s) {
            break;
        }
    }
    let lost = seen.iter().filter(|s| !**s).count();
    // Some may be lost in the queues of a busy machine.
    assert!(lost * 50 <= DATAGRAMS as usize, "{lost} of {DATAGRAMS} lost where the link loses 5 %");
}

#[test]
fn tcp_that_is_not_split_crosses_whole() {
    let _alone = alone();
    if !root_or_skip("unsplit") {
        return;
    }
    let world = World::new("unsplit");
    let (a, _b) = start(&world, "split = false", "");
    only_the_lane(&world, 2);
    world.serve(80, echo);
    for target in ["10.3.0.2:80", "[fd00:3::2]:80"] {
        let sent = pattern(3_000_000, 9);
        let stream = world.connect(&world.client, target).unwrap();
        let got = there_and_back(stream, &sent);
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }
    let (report, door) = (a.status(), a.status().packet_door.unwrap());
    assert_eq!((a.counter("connections_taken"), report.flows), (0, 0), "{report}");
    // How many come with one read is for the kernel and a busy machine to say.
    assert!(door.packets_in >= 4_000 && door.packets_in > door.reads, "{door:?}");
}

#[test]
fn split_tcp_and_packets_go_their_own_ways_side_by_side() {
    let _alone = alone();
    if !root_or_skip("side_by_side") || !has("ping", "side_by_side") {
        return;
    }
    let world = World::new("side");
    let (a, _b) = start(&world, "", "");
    only_the_lane(&world, 5);
    world.serve(80, echo);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    assert_eq!(received(&ping(&world, &world.client, "-c 5 -i 0.05 -W 2 10.3.0.2")), 5);
    assert_eq!(a.counter("connections_taken"), 1, "{}", a.status());
}

#[test]
fn a_killed_gateway_leaves_no_rules_and_restarts() {
    let _alone = alone();
    if !root_or_skip("tun_restart") || !has("ping", "tun_restart") {
        return;
    }
    let world = World::new("restart");
    let before = world.traces(&world.a);
    let (mut a, _b) = start(&world, "", "");
    let one = |target: &str| received(&ping(&world, &world.client, &format!("-c 1 -W 2 {target}")));
    assert_eq!(one("10.3.0.2"), 1);
    a.kill();
    assert!(!world.sh(&world.a, "ip link").contains("wavelane0"), "the device dies with the process");
    assert!(world.traces(&world.a).contains("lookup 4781"), "rules stay after a crash");
    only_the_lane(&world, 0);
    assert_eq!(one("10.3.0.2"), 0, "nothing carries it now");
    let mut a = world.start("a", "source = \"keep\"", &tun("a", ""));
    a.wait_log("peer 'b' is up");
    // A packet may cross the moment in which the other side takes up the new session.
    wait_for("a packet of each version", || (one("10.3.0.2"), one("fd00:3::2")) == (1, 1));
    // Interface and device, of both versions: once each.
    assert_eq!(world.traces(&world.a).matches("iif lan0 lookup 4781").count(), 2);
    world.sh(&world.a, "nft delete table inet world");
    assert_eq!(a.stop(), Some(0));
    assert_eq!(world.traces(&world.a), before);
}

#[test]
fn local_traffic_enters_the_device_and_lane_datagrams_do_not() {
    let _alone = alone();
    if !root_or_skip("tun_local") || !has("ping", "tun_local") {
        return;
    }
    let world = World::new("tunlocal");
    let b = world.start("b", "source = \"keep\"", &tun("b", ""));
    // A route for everything, which includes the far gateway's own outside address.
    let config = world.write(
        "a",
        Outside::V4,
        "source = \"keep\"",
        &tun("a", "").replace("interfaces", "local = true\ninterfaces"),
    );
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("routes = [\"10.3.0.0/24\"", "routes = [\"0.0.0.0/0\"")).unwrap();
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    only_the_lane(&world, 0);
    world.sh(&world.b, "ip route add 10.9.0.1/32 dev wavelane0 2>/dev/null || true");
    assert_eq!(received(&ping(&world, &world.a, "-c 2 -i 0.1 -W 2 -I 10.1.0.1 10.3.0.2")), 2);
    assert_eq!(received(&ping(&world, &world.client, "-c 2 -i 0.1 -W 2 10.3.0.2")), 2);
    // Attached networks stay attached, although the route for everything covers them.
    assert_eq!(received(&ping(&world, &world.a, "-c 1 -W 2 10.1.0.2")), 1);
    assert!(a.status().packet_door.unwrap().packets_in >= 4);
}

#[test]
fn packet_door_errors_name_the_command() {
    let _alone = alone();
    if !root_or_skip("tun_needs") {
        return;
    }
    let world = World::new("needs");
    let before = world.traces(&world.a);
    let config = world.write("a", Outside::V4, "source = \"keep\"", &tun("a", ""));
    let refusal = || {
        let config = config.clone();
        let out = world.a.run(move || Command::new(DAEMON).arg("--config").arg(config).output().unwrap()).unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!((out.status.code(), said.trim_end().lines().count()), (Some(2), 1), "{said}");
        said
    };
    for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        world.sh(&world.a, &format!("sysctl -qw {setting}=0"));
        let said = refusal();
        assert!(said.contains(&format!("`sysctl -w {setting}=1`")), "{said}");
        world.sh(&world.a, &format!("sysctl -qw {setting}=1"));
    }
    world.sh(&world.a, "ip link add wavelane0 type veth peer name other0");
    let said = refusal();
    assert!(said.contains("TUN interface 'wavelane0'") && said.contains("name"), "{said}");
    world.sh(&world.a, "ip link del wavelane0");
    // IPv6 routes are dropped with forwarding; nothing of ours stays.
    let strip = |text: &str| text.lines().filter(|l| l.contains("478") || l.contains("wavelane")).count();
    assert_eq!((strip(&before), strip(&world.traces(&world.a))), (0, 0));
}

#[test]
fn quic_of_both_versions_crosses_as_packets() {
    let _alone = alone();
    if !root_or_skip("quic") {
        return;
    }
    let world = World::new("quic");
    let (a, b) = start(&world, "", "");
    only_the_lane(&world, 2);
    let data = pattern(1_000_000, 17);
    for (server, any) in [("10.3.0.2:4433", "0.0.0.0:0"), ("[fd00:3::2]:4433", "[::]:0")] {
        let bind = |address: &'static str| move || UdpSocket::bind(address).unwrap();
        let certificate = quic::echo(world.server.run(bind(server)).unwrap());
        let (before, socket) = (a.counter("packets_sent"), world.client.run(bind(any)).unwrap());
        let (back, datagram) = quic::exchange(socket, server.parse().unwrap(), certificate, &data);
        assert!(back == data, "{server}: {} bytes came back", back.len());
        // Found by QUIC's own search: at most what the device's MTU of 1400 leaves beside IP and UDP, and close to it.
        let room = if server.starts_with('[') { 1352 } else { 1372 };
        assert!(datagram <= room && datagram > room - 60, "{server}: datagrams of {datagram} B");
        assert!(a.counter("packets_sent") - before >= 1_000_000 / 1372, "{server}: it did not cross as packets");
    }
    for (name, gateway) in [("a", &a), ("b", &b)] {
        assert!(gateway.counter("packets_repeated") > 0, "{name}: the link lost nothing");
    }
}

/// A link of 20 Mbit/s is offered 30 of UDP. A server of iperf3 takes a datagram of an earlier run that comes late for
/// the first of the next one, which then fails: so what waits must be gone soon after its sender ended.
#[test]
fn iperf3_above_the_links_rate_can_be_run_again_soon() {
    let _alone = alone();
    if !root_or_skip("iperf3_above_the_links_rate") || !has("iperf3", "iperf3_above_the_links_rate") {
        return;
    }
    let world = World::new("deaf");
    for ns in [&world.a, &world.b] {
        world.sh(ns, "tc qdisc add dev wan0 root tbf rate 20mbit burst 20kb limit 200kb");
    }
    let (a, _b) = start(&world, "", "");
    let mut serve = Command::new("iperf3");
    serve.args(["-s", "-B", "10.3.0.2"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = world.server.spawn(serve, ChildEnd::Kill).unwrap().unwrap();
    wait_for("iperf3 to listen", || world.sh(&world.server, "ss -ltn").contains(":5201 "));
    let mut said = Vec::new();
    for _ in 0..3 {
        said.push(world.sh(&world.client, "timeout 20 iperf3 -u -b 30M -l 1200 -c 10.3.0.2 -t 3 -J || true"));
        pause(Duration::from_millis(500));
    }
    let _ = server.kill();
    let _ = server.wait();
    for text in said {
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(json["error"].is_null(), "{}", json["error"]);
        let sum = &json["end"]["sum"];
        let got = sum["bits_per_second"].as_f64().unwrap() * (1.0 - sum["lost_percent"].as_f64().unwrap() / 100.0);
        assert!(got > 1e6, "{sum}");
    }
    assert!(a.counter("dropped_packets_queue_age") > 0, "{}", a.status());
}

#[test]
fn what_leaves_for_the_internet_is_masqueraded_if_asked() {
    let _alone = alone();
    if !root_or_skip("masquerade") || !has("ping", "masquerade") {
        return;
    }
    let world = World::new("masquerade");
    // A public address that answers nobody but the far gateway, as the Internet answers no private address.
    world.sh(
        &world.server,
        "ip addr add 192.0.2.9/32 dev lo; \
         nft 'table ip inet0 { chain i { type filter hook input priority 0; ip daddr 192.0.2.9 ip saddr != 10.3.0.1 drop; }; }'",
    );
    world.sh(&world.b, "ip route add 192.0.2.0/24 via 10.3.0.2");
    world.sh(&world.a, "ip route add 192.0.2.0/24 via 10.2.0.2");
    let start = |masquerade: &str| {
        let b = world.write("b", Outside::V4, "source = \"keep\"", &tun("b", masquerade));
        edit(&b, "serves = [", "serves = [\"192.0.2.0/24\", ");
        let a = world.write("a", Outside::V4, "source = \"keep\"", &tun("a", ""));
        edit(&a, "routes = [", "routes = [\"192.0.2.0/24\", ");
        let (b, a) = (world.spawn("b", &b), world.spawn("a", &a));
        a.wait_log("peer 'b' is up");
        b.wait_log("peer 'a' is up");
        (a, b)
    };
    let (_a, b) = start("masquerade = true");
    let said = ping(&world, &world.client, "-c 2 -i 0.2 -W 3 192.0.2.9");
    assert_eq!(received(&said), 2, "{said}");
    // Within the sites everybody keeps the own address.
    let said = ping(&world, &world.client, "-c 1 -W 3 10.3.0.2");
    assert_eq!(received(&said), 1, "{said}");
    let sources = world.sh(&world.b, "nft list chain inet wavelane masqueraded");
    assert!(sources.contains("masquerade"), "{sources}");
    drop((_a, b));
    let (_a, _b) = start("");
    let said = ping(&world, &world.client, "-c 1 -W 1 192.0.2.9");
    assert_eq!(received(&said), 0, "{said}");
}
