//! A peer that is down: how soon that is known, what becomes of traffic to its networks, and of what began meanwhile.

use crate::common::tunnel::*;
use crate::common::*;
use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

/// The end of a peer whose link was used within 30 s is known within this.
const KNOWN: Duration = Duration::from_secs(5);
/// And its networks are given back, or refused, within this.
const DONE: Duration = Duration::from_secs(1);

/// The gateway `name`, with or without a packet door.
fn gateway(world: &World, name: &str, on_failure: &str, door: bool) -> Daemon {
    let rest = if door { tun(name, "") } else { "[intercept]\ninterfaces = [\"lan0\"]".into() };
    world.start(name, &format!("source = \"keep\"\non_failure = \"{on_failure}\""), &rest)
}

fn both(world: &World, on_failure: &str, doors: (bool, bool)) -> (Daemon, Daemon) {
    let b = gateway(world, "b", on_failure, doors.1);
    let a = gateway(world, "a", on_failure, doors.0);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    (a, b)
}

fn one_ping(world: &World, from: &wavelane_host::netns::Netns, target: &str) -> u32 {
    received(&ping(world, from, &format!("-c 1 -W 1 {target}")))
}

/// Waits until `daemon` knows that its peer is down, and returns how long that took.
fn known_down(daemon: &Daemon, peer: &str) -> Duration {
    let start = now();
    daemon.wait_log(&format!("peer '{peer}' is down"));
    start.elapsed()
}

/// Packets that went into the device and to the peer; the device's own, such as IPv6's of its link, end there.
fn through(daemon: &Daemon) -> u64 {
    daemon.counter("packets_sent")
}

#[test]
fn open_forwards_plainly_both_ways_while_the_peer_is_down() {
    let _alone = alone();
    if !root_or_skip("down_open") || !has("ping", "down_open") {
        return;
    }
    for (tag, doors) in
        [("both", (true, true)), ("far", (false, true)), ("near", (true, false)), ("none", (false, false))]
    {
        let world = World::new(&format!("open-{tag}"));
        for ns in [&world.client, &world.server] {
            let listener = ns.run(|| std::net::TcpListener::bind("[::]:7").unwrap()).unwrap();
            std::thread::spawn(move || {
                while let Ok((stream, from)) = listener.accept() {
                    std::thread::spawn(move || echo(stream, from));
                }
            });
        }
        let (a, mut b) = both(&world, "open", doors);
        let ways = [(&world.client, "10.3.0.2"), (&world.client, "fd00:3::2"), (&world.server, "10.1.0.2")];
        let target = |ip: &str| if ip.contains(':') { format!("[{ip}]:7") } else { format!("{ip}:7") };
        for (from, ip) in ways {
            says(&mut world.connect(from, &target(ip)).unwrap()).unwrap();
            // A packet door needs one at the other side.
            assert!(doors.0 != doors.1 || one_ping(&world, from, ip) == 1, "{tag}: {ip} before");
        }
        b.kill();
        // Who asks before it is known does so once.
        let start = now();
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
        assert!(start.elapsed() <= KNOWN + DONE, "{tag}: {:?}", start.elapsed());
        a.wait_log("peer 'b' is down");
        pause(DONE);
        // New ones cross although the other side's gateway is dead, and so do answers.
        let mut begun = Vec::new();
        for (from, ip) in ways {
            assert_eq!(one_ping(&world, from, ip), 1, "{tag}: ping {ip} while down\n{}", a.log());
            let start = now();
            let mut stream =
                world.connect(from, &target(ip)).unwrap_or_else(|e| panic!("{tag}: {ip}: {e}\n{}", a.log()));
            assert!(start.elapsed() < Duration::from_millis(900), "{tag}: {ip} took {:?}", start.elapsed());
            says(&mut stream).unwrap();
            begun.push(stream);
        }
        // It returns: what began plainly goes on and ends so, what begins now is carried.
        let mut b = gateway(&world, "b", "open", doors.1);
        wait_for("the peer to be up", || a.status().peers[0].up && b.status().peers[0].up);
        pause(DONE);
        let (before, carried) =
            (through(&a) + through(&b), a.counter("connections_taken") + b.counter("connections_taken"));
        for stream in &mut begun {
            for _ in 0..5 {
                says(stream).unwrap();
            }
        }
        assert_eq!(through(&a) + through(&b), before, "{tag}: they stay plain");
        for (from, ip) in ways {
            says(&mut world.connect(from, &target(ip)).unwrap()).unwrap();
        }
        let taken = a.counter("connections_taken") + b.counter("connections_taken") - carried;
        assert_eq!(taken, 3, "{tag}: new ones are carried");
        for mut stream in begun {
            says(&mut stream).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "{tag}: it ends in order");
        }
        assert_eq!(b.stop(), Some(0));
    }
}

#[test]
fn plain_connections_of_a_dead_gateway_stay_plain() {
    let _alone = alone();
    if !root_or_skip("down_near") || !has("ping", "down_near") {
        return;
    }
    let world = World::new("deadnear");
    world.serve(7, echo);
    let (mut a, b) = both(&world, "open", (true, true));
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    // Whose SYN passes while the far gateway's rules change, waits for its repeat.
    wait_for("the far gateway to take connections", || b.status().peers.iter().all(|peer| peer.up && !peer.given_back));
    pause(DONE);
    a.kill();
    // The far gateway does not know yet, and need not.
    assert!(b.stayed_up(), "{}", b.log());
    assert_eq!(one_ping(&world, &world.client, "10.3.0.2"), 1);
    let start = now();
    let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
    says(&mut stream).unwrap();
    known_down(&b, "a");
    says(&mut stream).unwrap();
    let a = gateway(&world, "a", "open", true);
    a.wait_log("peer 'b' is up");
    wait_for("the far gateway to take connections", || b.status().peers.iter().all(|peer| peer.up && !peer.given_back));
    pause(DONE);
    let before = through(&a) + through(&b);
    for _ in 0..5 {
        says(&mut stream).unwrap();
    }
    assert_eq!(through(&a) + through(&b), before);
}

#[test]
fn closed_refuses_the_caller_at_once() {
    let _alone = alone();
    if !root_or_skip("down_closed") || !has("ping", "down_closed") {
        return;
    }
    for door in [false, true] {
        let world = World::new(&format!("closed-{door}"));
        world.serve(7, echo);
        let (a, mut b) = both(&world, "closed", (door, door));
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
        b.kill();
        // Who asks before it is known is told as soon as it is.
        let start = now();
        let early = world.connect(&world.client, "10.3.0.2:7").map(drop).map_err(|e| e.kind());
        assert_eq!(early, Err(ErrorKind::HostUnreachable), "{}", a.log());
        assert!(start.elapsed() <= KNOWN + DONE, "{:?}", start.elapsed());
        for target in ["10.3.0.2:7", "[fd00:3::2]:7"] {
            let start = now();
            let late = world.connect(&world.client, target).map(drop).map_err(|e| e.kind());
            assert_eq!(late, Err(ErrorKind::HostUnreachable), "{target}");
            assert!(start.elapsed() <= DONE, "{target}: {:?}", start.elapsed());
        }
        if door {
            let said = ping(&world, &world.client, "-c 1 -W 2 10.3.0.2");
            assert!(said.contains("Destination Host Unreachable"), "{said}");
        }
        let start = now();
        let said = world.sh(&world.client, "curl -sS -m 5 http://10.3.0.2:7/ 2>&1 || true");
        assert!(said.contains("Failed to connect") && start.elapsed() <= DONE, "{said}");
        let b = gateway(&world, "b", "closed", door);
        b.wait_log("peer 'a' is up");
        wait_for("the next connection", || world.connect(&world.client, "10.3.0.2:7").is_ok());
    }
}

#[test]
fn closed_refuses_packets_too_whatever_ends_the_gateway() {
    let _alone = alone();
    if !root_or_skip("closed_packets") || !has("ping", "closed_packets") {
        return;
    }
    let world = World::new("closedtun");
    let before = world.traces(&world.a);
    world.serve(7, echo);
    let (mut a, mut b) = both(&world, "closed", (true, true));
    let crosses = |ip: &str| one_ping(&world, &world.client, ip) == 1;
    assert!(crosses("10.3.0.2") && crosses("fd00:3::2"));
    let refused = |when: &str| {
        for (ip, words) in [("10.3.0.2", "Destination Host Unreachable"), ("fd00:3::2", "No route")] {
            let said = ping(&world, &world.client, &format!("-c 1 -W 2 {ip}"));
            assert!(said.contains(words), "{when}: {said}");
        }
        let refused = world.connect(&world.client, "10.3.0.2:7").map(drop).map_err(|e| e.kind());
        assert_eq!(refused, Err(ErrorKind::HostUnreachable), "{when}");
        assert!(one_ping(&world, &world.client, "10.1.0.1") == 1, "what is attached stays reached {when}");
    };
    a.kill();
    refused("after kill -9");
    // While it starts again no packet slips past it: one every two milliseconds is watched.
    world.sh(&world.a, "nft 'table inet watch { chain f { type filter hook forward priority 0; iifname \"lan0\" oifname \"wan0\" counter; }; }'");
    let sender = world.client.run(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&stop);
    let sending = std::thread::spawn(move || {
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            let _ = sender.send_to(b"x", "10.3.0.2:6000");
            pause(Duration::from_millis(2));
        }
    });
    let mut a = gateway(&world, "a", "closed", true);
    a.wait_log("peer 'b' is up");
    assert!(crosses("10.3.0.2") && crosses("fd00:3::2"));
    a.kill();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    sending.join().unwrap();
    let slipped = world.sh(&world.a, "nft list table inet watch");
    assert!(slipped.contains("counter packets 0 "), "{slipped}");
    world.sh(&world.a, "nft delete table inet watch");
    // The kernel told the sender more often than it tells anybody for long (icmp_ratelimit in icmp(7)).
    // real time: 4 s, the kernel's allowance of ICMP messages fills again
    pause(Duration::from_secs(4));
    refused("after the second kill");
    // What the log tells to run opens it, once the other side has no door either.
    assert_eq!(b.stop(), Some(0));
    let lift = a.log().lines().find_map(|l| l.split_once("or you run: ")).unwrap().1.to_owned();
    world.sh(&world.a, &lift);
    assert!(crosses("10.3.0.2") && crosses("fd00:3::2"));
    // And so does an orderly stop, which leaves nothing.
    let mut a = gateway(&world, "a", "closed", true);
    assert_eq!(a.stop(), Some(0));
    assert!(crosses("10.3.0.2"));
    assert_eq!(world.traces(&world.a), before);
}

#[test]
fn tcp_that_is_not_split_begins_plainly_instead_of_being_refused() {
    let _alone = alone();
    if !root_or_skip("down_unsplit") {
        return;
    }
    let world = World::new("unsplit");
    world.serve(7, echo);
    let start = |name: &str| world.start(name, "source = \"keep\"", &format!("split = false\n{}", tun(name, "")));
    let (mut b, a) = (start("b"), start("a"));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    let carry = || {
        let before = through(&a);
        let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
        says(&mut stream).unwrap();
        (through(&a) > before, stream)
    };
    assert!(carry().0, "while both are there it goes through the device");
    // Its end too: a FIN that was lost would be sent again through the device at any later time.
    pause(Duration::from_millis(500));
    b.kill();
    // The first SYNs are lost in the device, a later one goes plainly.
    let (_, mut begun) = carry();
    wait_for("its networks to be given back", || a.status().peers[0].given_back);
    assert!(a.status().to_string().contains("forwarded plainly"));
    assert!(!carry().0);
    let b = start("b");
    wait_for("the peer to be up", || a.status().peers[0].up && b.status().peers[0].up);
    wait_for("its networks", || !a.status().peers[0].given_back);
    let before = through(&a);
    (0..5).for_each(|_| says(&mut begun).unwrap());
    assert_eq!(through(&a), before, "it stays plain");
    assert!(carry().0);
}

/// Two gateways lead to one network: while the first of them is down the other is used, and nothing goes plainly.
#[test]
fn a_peer_with_the_same_networks_stands_in_for_one_that_is_down() {
    let _alone = alone();
    if !root_or_skip("stand_in") || !has("ping", "stand_in") {
        return;
    }
    for on_failure in ["open", "closed"] {
        let world = World::new(&format!("standin-{on_failure}"));
        world.serve(7, echo);
        let b = gateway(&world, "b", on_failure, true);
        let extra = format!("source = \"keep\"\non_failure = \"{on_failure}\"");
        let config = world.write("a", Outside::V4, &extra, &tun("a", ""));
        let gone = format!(
            "[[peer]]\nname = \"gone\"\npublic_key = \"{}\"\naddress = \"10.2.0.77:4780\"\n\
             routes = [\"10.3.0.0/24\", \"fd00:3::/64\"]\n[[peer]]",
            key_pair().public
        );
        edit(&config, "[[peer]]", &gone);
        let a = world.spawn("a", &config);
        a.wait_log("peer 'b' is up");
        known_down(&a, "gone");
        pause(DONE);
        for target in ["10.3.0.2:7", "[fd00:3::2]:7"] {
            says(&mut world.connect(&world.client, target).unwrap()).unwrap();
        }
        assert_eq!(a.counter("connections_taken"), 2, "{on_failure}: {}", a.log());
        // What the stand-in says of a host is believed, although it is not the first to be asked.
        let nobody = world.connect(&world.client, "10.3.0.99:7").unwrap_err();
        assert_eq!(nobody.kind(), ErrorKind::HostUnreachable, "{on_failure}: {nobody}");
        let before = through(&a);
        for target in ["10.3.0.2", "fd00:3::2"] {
            assert_eq!(one_ping(&world, &world.client, target), 1, "{on_failure}: {target}");
        }
        assert_eq!(through(&a) - before, 2, "{on_failure}");
        assert!(a.status().peers.iter().all(|p| !p.given_back), "{}", a.status());
        a.wait_log("peer 'gone' is down: what goes to its networks goes to other peers");
        drop(b);
    }
}

#[test]
fn local_traffic_of_a_down_peer_is_plain() {
    let _alone = alone();
    if !root_or_skip("down_local") || !has("ping", "down_local") {
        return;
    }
    let world = World::new("downlocal");
    world.serve(7, echo);
    // The far gateway takes what is born there as well, and has routes to this one's own addresses.
    let start = |name: &str| {
        let table = tun(name, "").replace("interfaces", "local = true\ninterfaces");
        let config = world.write(name, Outside::V4, "source = \"keep\"", &table);
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(
            &config,
            text.replace("routes = [\"10.1.", "routes = [\"10.2.0.1/32\", \"10.9.0.1/32\", \"10.1."),
        )
        .unwrap();
        world.spawn(name, &config)
    };
    let (mut b, a) = (start("b"), start("a"));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    let pings = || received(&ping(&world, &world.a, "-c 2 -i 0.1 -W 2 -I 10.1.0.1 10.3.0.2"));
    assert_eq!(pings(), 2);
    says(&mut world.connect(&world.a, "10.3.0.2:7").unwrap()).unwrap();
    b.kill();
    known_down(&a, "b");
    pause(DONE);
    assert_eq!(pings(), 2, "{}", a.log());
    let mut stream = world.connect(&world.a, "10.3.0.2:7").unwrap();
    says(&mut stream).unwrap();
    let b = start("b");
    wait_for("the peer to be up", || a.status().peers[0].up && b.status().peers[0].up);
    wait_for("its networks", || !a.status().peers[0].given_back);
    let before = through(&a);
    (0..5).for_each(|_| says(&mut stream).unwrap());
    assert_eq!(through(&a), before);
    assert_eq!(pings(), 2);
    assert!(through(&a) > before);
    let taken = a.counter("connections_taken");
    says(&mut world.connect(&world.a, "10.3.0.2:7").unwrap()).unwrap();
    assert_eq!(a.counter("connections_taken"), taken + 1);
}

/// A tool that the kernel turned down once must not leave a peer that is back passed by.
#[test]
fn refused_rules_are_installed_again() {
    let _alone = alone();
    if !root_or_skip("down_again") || !has("ping", "down_again") {
        return;
    }
    let world = World::new("again");
    world.serve(7, echo);
    let (bin, refuses) = (world.dir.join("bin"), world.dir.join("refuses"));
    std::fs::create_dir(&bin).unwrap();
    let ip = bin.join("ip");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *-batch*) [ -e {} ] && {{ echo busy >&2; exit 1; }};; esac\nPATH=/usr/sbin:/sbin:/usr/bin:/bin exec ip \"$@\"\n",
        refuses.display()
    );
    std::fs::write(&ip, script).unwrap();
    std::fs::set_permissions(&ip, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config = world.write("a", Outside::V4, "source = \"keep\"\non_failure = \"open\"", &tun("a", ""));
    let (mut command, log, control) = daemon_command(&config);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let a = Daemon { child, log, control, own_folder: None };
    let mut b = gateway(&world, "b", "open", true);
    a.wait_log("peer 'b' is up");
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    b.kill();
    known_down(&a, "b");
    pause(DONE);
    std::fs::write(&refuses, "").unwrap();
    let _b = gateway(&world, "b", "open", true);
    wait_for("the refusal", || a.counter("dropped_give_back") > 0);
    // Connections that nobody can be told of are answered, or go on plainly.
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    std::fs::remove_file(&refuses).unwrap();
    let before = through(&a);
    wait_for("packets to be carried", || {
        one_ping(&world, &world.client, "10.3.0.2");
        through(&a) > before
    });
}

#[test]
fn split_connections_keep_custody_while_the_way_is_down() {
    let _alone = alone();
    if !root_or_skip("down_custody") {
        return;
    }
    for on_failure in ["open", "closed"] {
        let world = World::new(&format!("custody-{on_failure}"));
        world.serve(7, echo);
        let (a, b) = both(&world, on_failure, (true, true));
        transfer_during(&world, 3_000_000, || {
            for ns in [&world.a, &world.b] {
                world.sh(
                    ns,
                    "nft 'table inet cut { chain i { type filter hook input priority 0; udp dport 4780 drop; }; }'",
                );
            }
            known_down(&a, "b");
            known_down(&b, "a");
            pause(DONE);
            for ns in [&world.a, &world.b] {
                world.sh(ns, "nft delete table inet cut");
            }
        });
        assert_eq!(a.counter("connections_reset") + b.counter("connections_reset"), 0, "{on_failure}");
        assert_eq!(a.counter("connections_taken"), 1);
    }
}

#[test]
fn an_absent_far_host_costs_no_more_than_directly() {
    let _alone = alone();
    if !root_or_skip("absent") {
        return;
    }
    for source in ["keep", "own"] {
        let world = World::new(&format!("absent-{source}"));
        let tried = |target: &str| {
            let start = now();
            let told = world.connect(&world.client, target).map(drop).map_err(|e| e.kind());
            (told, start.elapsed())
        };
        let direct = tried("10.3.0.77:80");
        assert_eq!(direct.0, Err(ErrorKind::HostUnreachable));
        let b = world.start("b", &format!("source = \"{source}\""), "");
        let a = gateway(&world, "a", "open", false);
        a.wait_log("peer 'b' is up");
        for (target, direct) in [("10.3.0.78:80", Some(direct.1)), ("[fd00:3::77]:80", None)] {
            let (told, took) = tried(target);
            assert_eq!(told, Err(ErrorKind::HostUnreachable), "{source}, {target}: {}", b.log());
            let limit = direct.unwrap_or(Duration::from_millis(3_200)) + Duration::from_secs(1);
            assert!(took <= limit, "{source}, {target}: {took:?}, directly {direct:?}");
        }
    }
}

#[test]
fn programs_under_way_cross_a_death_and_a_return() {
    let _alone = alone();
    let found = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !root_or_skip("down_programs") || !found("iperf3") {
        return;
    }
    let world = World::new("programs");
    let (a, mut b) = both(&world, "open", (true, true));
    udp_round_trip(&world);
    b.kill();
    known_down(&a, "b");
    pause(DONE);
    let mut serving = Command::new("iperf3");
    serving.args(["-s", "-1"]).stdout(Stdio::null());
    let mut server = world.server.spawn(serving, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
    wait_for("iperf3 to listen", || world.sh(&world.server, "ss -ltn").contains(":5201 "));
    // Begun plainly, it runs across the return.
    let mut client = Command::new("iperf3");
    client.args(["-c", SERVER, "-t", "6", "-b", "20M", "-J"]).stdout(Stdio::piped());
    let client = world.client.spawn(client, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
    // real time: 7 s, a program of six seconds that runs across the return
    pause(Duration::from_secs(1));
    let b = gateway(&world, "b", "open", true);
    wait_for("the peer to be up", || a.status().peers[0].up && b.status().peers[0].up);
    let out = client.wait_with_output().unwrap();
    let _ = server.wait();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    assert!(rate > 18e6, "{rate}");
    let slowest = report["intervals"].as_array().unwrap().iter();
    let slowest = slowest.map(|i| i["sum"]["bits_per_second"].as_f64().unwrap()).fold(f64::MAX, f64::min);
    assert!(slowest > 10e6, "{slowest}");
    udp_round_trip(&world);
}

/// A datagram there and back.
fn udp_round_trip(world: &World) {
    let server = world.server.run(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let target = (SERVER, server.local_addr().unwrap().port());
    let client = world.client.run(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"x", target).unwrap();
    let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
    server.send_to(b"y", from).unwrap();
    client.recv(&mut [0; 8]).unwrap();
}

#[test]
fn rules_of_a_killed_nft_are_made_anew() {
    let _alone = alone();
    if !root_or_skip("rules_anew") || !has("pkill", "rules_anew") {
        return;
    }
    let world = World::new("anew");
    world.serve(7, echo);
    let (mut a, _b) = both(&world, "open", (false, false));
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    for round in 1..3 {
        world.sh(&world.a, &format!("pkill -KILL -P {} nft", a.child.id()));
        wait_for("the rules", || a.counter("rules_made_anew") == round);
        let taken = a.counter("connections_taken");
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
        assert_eq!(a.counter("connections_taken"), taken + 1);
    }
    a.wait_log("they are made anew");
    assert_eq!(a.stop(), Some(0));
}
