//! Two real gateways between real Linux TCP stacks, in network namespaces of this process.

use crate::common::*;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::time::Duration;

const INTERCEPT: &str = "interfaces = [\"lan0\"]";

#[test]
fn source_addresses_and_half_close_are_kept() {
    let _alone = alone();
    if !root_or_skip("bytes_cross_both_ways") {
        return;
    }
    let world = World::new("bytes");
    let (a, b) = world.start_both("source = \"keep\"", INTERCEPT);
    let (tell, told) = channel();
    // Answers only after the client's end, so nothing comes back unless half-close is carried.
    world.serve(80, move |mut stream, from| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(&got).unwrap();
        stream.write_all(b"that was all").unwrap();
        tell.send(from.ip().to_string()).unwrap();
    });
    let sent = pattern(3_000_000, 7);
    let stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let got = there_and_back(stream, &sent);
    assert_eq!(got.len(), sent.len() + 12);
    assert!(got.starts_with(&sent) && got.ends_with(b"that was all"));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "10.1.0.2", "source = keep");
    assert_eq!(a.counter("connections_taken"), 1, "{}", a.status());
    assert!(a.status().door.honest);
    wait_for("the orderly end", || a.counter("connections_closed") == 1 && b.counter("connections_closed") == 1);
    assert_eq!(a.counter("connections_reset") + b.counter("connections_reset"), 0);
}

#[test]
fn source_own_connects_from_the_gateway() {
    let _alone = alone();
    if !root_or_skip("source_own") {
        return;
    }
    let world = World::new("own");
    let b = world.start("b", "source = \"own\"", "");
    let a = world.start("a", "source = \"own\"", &format!("[intercept]\n{INTERCEPT}"));
    a.wait_log("peer 'b' is up");
    let (tell, told) = channel();
    world.serve(80, move |stream, from| {
        tell.send(from.ip().to_string()).unwrap();
        drop(stream);
    });
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "10.3.0.1");
    assert!(!b.status().door.intercepting);
}

#[test]
fn refusals_keep_their_kind() {
    let _alone = alone();
    if !root_or_skip("refusals") {
        return;
    }
    let world = World::new("refused");
    let (a, _b) = world.start_both("source = \"keep\"", INTERCEPT);
    // A closed port.
    let error = world.connect(&world.client, "10.3.0.2:81").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    // The server's side says no by ICMP, to the client's address, which the far gateway speaks from.
    world.sh(
        &world.server,
        "nft add table ip t; nft 'add chain ip t i { type filter hook input priority 0; }'; \
         nft add rule ip t i tcp dport 82 reject with icmp type host-unreachable",
    );
    let asked = now();
    let error = world.connect(&world.client, "10.3.0.2:82").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    // Nobody there: the far gateway gives up after ten seconds. The kernel's own word on a failed ARP goes to the
    // client's address and not to us.
    let error = world.connect(&world.client, "10.3.0.77:80").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    // The far gateway's own address is denied unless listed.
    let error = world.connect(&world.client, "10.3.0.1:80").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    assert_eq!(a.counter("connections_taken"), 0);
    // More where a client asked again.
    assert!(a.counter("connections_refused") >= 4, "{}", a.status());
}

#[test]
fn local_traffic_is_taken_without_the_daemons_own() {
    let _alone = alone();
    if !root_or_skip("traffic_born_here") {
        return;
    }
    let world = World::new("local");
    let (a, _b) = world.start_both("source = \"keep\"", "local = true");
    world.serve(80, echo);
    let mut stream = world.connect(&world.a, "10.3.0.2:80").unwrap();
    stream.write_all(b"from the gateway itself").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!(got, "from the gateway itself");
    assert_eq!(a.counter("connections_taken"), 1, "{}", a.status());
    let error = world.connect(&world.a, "10.3.0.2:81").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    // The client's traffic is not taken: only `local` was asked for.
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    assert_eq!(a.counter("connections_taken"), 1);
}

#[test]
fn sigterm_resets_connections_and_removes_rules() {
    let _alone = alone();
    if !root_or_skip("sigterm") {
        return;
    }
    let world = World::new("term");
    let before = [world.traces(&world.a), world.traces(&world.b)];
    let (mut a, mut b) =
        world.start_both("source = \"keep\"\non_failure = \"closed\"", "interfaces = [\"lan0\"]\nlocal = true");
    world.serve(80, echo);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    let during = world.traces(&world.a);
    for part in ["table inet wavelane ", "table inet wavelane_closed", "WAVELANE", "lookup 4780"] {
        assert!(during.contains(part), "{part} is missing in:\n{during}");
    }
    assert_eq!(a.stop(), Some(0));
    assert_eq!(b.stop(), Some(0));
    assert_eq!(world.traces(&world.a), before[0]);
    assert_eq!(world.traces(&world.b), before[1]);
    assert!(!a.control.exists());
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// `kill -9` in the middle of a download; returns what the client's next connection met.
fn crash(tag: &str, on_failure: &str) -> (World, Daemon, std::io::Result<std::net::TcpStream>) {
    let world = World::new(tag);
    let (mut a, b) = world.start_both(&format!("source = \"keep\"\non_failure = \"{on_failure}\""), INTERCEPT);
    world.serve(80, |mut stream, _| while stream.write_all(&[1; 4096]).is_ok() {});
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let mut buf = [0; 65_536];
    let mut seen = 0;
    while seen < 1_000_000 {
        seen += stream.read(&mut buf).unwrap();
    }
    a.kill();
    let died = now();
    let error = loop {
        match stream.read(&mut buf) {
            Ok(0) => panic!("the stream ended as if it were complete"),
            Ok(_) => assert!(died.elapsed() < PATIENCE),
            Err(e) => break e,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(died.elapsed() < Duration::from_secs(1), "{:?}", died.elapsed());
    wait_for("the owned table to vanish", || !world.sh(&world.a, "nft list tables").contains("inet wavelane\n"));
    let next = world.connect(&world.client, "10.3.0.2:80");
    (world, b, next)
}

#[test]
fn open_forwards_plainly_after_a_crash() {
    let _alone = alone();
    if !root_or_skip("crash_open") {
        return;
    }
    let (world, _b, next) = crash("open", "open");
    let mut buf = [0; 16];
    assert!(next.unwrap().read(&mut buf).unwrap() > 0);
    // The leftovers are there, and the next start clears them: one rule per IP version, not two.
    assert!(world.traces(&world.a).contains("lookup 4780"));
    let mut a = world.start("a", "source = \"keep\"", &format!("[intercept]\n{INTERCEPT}"));
    a.wait_log("peer 'b' is up");
    assert_eq!(world.traces(&world.a).matches("lookup 4780").count(), 2);
    assert_eq!(world.traces(&world.a).matches("-j WAVELANE").count(), 2);
    assert!(world.connect(&world.client, "10.3.0.2:80").unwrap().read(&mut buf).unwrap() > 0);
    assert_eq!(a.counter("connections_taken"), 1);
    assert_eq!(a.stop(), Some(0));
    assert!(!world.traces(&world.a).contains("4780"));
}

#[test]
fn after_a_crash_closed_refuses_until_the_operator_lifts_it() {
    let _alone = alone();
    if !root_or_skip("crash_closed") {
        return;
    }
    let (world, _b, next) = crash("closed", "closed");
    assert_eq!(next.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // A new start takes connections again, and dies again.
    let mut a = world.start("a", "source = \"keep\"\non_failure = \"closed\"", &format!("[intercept]\n{INTERCEPT}"));
    a.wait_log("peer 'b' is up");
    assert!(world.connect(&world.client, "10.3.0.2:80").is_ok());
    a.kill();
    wait_for("the owned table to vanish", || !world.sh(&world.a, "nft list tables").contains("inet wavelane\n"));
    assert_eq!(world.connect(&world.client, "10.3.0.2:80").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let log = std::fs::read_to_string(world.dir.join("a.log")).unwrap();
    let command = log.lines().find_map(|l| l.split_once("or you run: ")).unwrap().1.to_owned();
    world.sh(&world.a, &command);
    assert!(world.connect(&world.client, "10.3.0.2:80").is_ok());
}

#[test]
fn a_flood_towards_a_black_hole_leaves_others_served() {
    let _alone = alone();
    if !root_or_skip("flood") {
        return;
    }
    let world = World::new("flood");
    // Nothing answers there: not even ARP fails, since the far side drops.
    world.sh(
        &world.b,
        "ip route add 10.3.0.128/25 dev lan0; nft add table ip t; \
        nft 'add chain ip t o { type filter hook output priority 0; }'; nft add rule ip t o ip daddr 10.3.0.200 drop",
    );
    let (a, _b) = world.start_both("source = \"keep\"", INTERCEPT);
    world.serve(80, echo);
    let flood = world
        .client
        .run(|| {
            let raw = wavelane_host::raw::RawSender::open(0).unwrap();
            std::thread::spawn(move || {
                for i in 0..100_000u32 {
                    // Refused sends only make the flood smaller; it is counted below.
                    let _ = raw.send(&syn(i), [10, 3, 0, 200].into());
                    if i % 100 == 0 {
                        pause(Duration::from_millis(1));
                    }
                }
            })
        })
        .unwrap();
    let mut served = 0;
    while !flood.is_finished() || served < 5 {
        let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
        stream.write_all(b"x").unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
        served += 1;
        pause(Duration::from_millis(50));
    }
    flood.join().unwrap();
    let report = a.status();
    let dropped = a.counter("dropped_syn_pair_full") + a.counter("dropped_syn_table_full");
    assert!(dropped > 10_000, "{report}");
    assert!(report.door.pending <= 2_048, "{report}");
}

/// The `i`-th SYN of the flood: an IPv4 packet whose source port and address vary.
fn syn(i: u32) -> Vec<u8> {
    let mut p = vec![0u8; 40];
    p[0] = 0x45;
    p[3] = 40;
    p[8] = 64;
    p[9] = 6;
    p[12..16].copy_from_slice(&[10, 1, 0, 10 + (i % 8) as u8]);
    p[16..20].copy_from_slice(&[10, 3, 0, 200]);
    p[20..22].copy_from_slice(&((i / 8) as u16 + 1024).to_be_bytes());
    p[23] = 80;
    p[32] = 5 << 4;
    p[33] = 2;
    p[34] = 0xff;
    let mut sum: u32 = 6 + 20;
    for pair in p[12..].chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    p[36..38].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    p
}

#[test]
fn a_crash_of_the_far_gateway_resets_both_ends() {
    let _alone = alone();
    if !root_or_skip("far_crash") {
        return;
    }
    let world = World::new("far");
    let (a, mut b) = world.start_both("source = \"keep\"", INTERCEPT);
    let (tell, told) = channel();
    world.serve(80, move |mut stream, _| {
        let mut buf = [0; 16];
        loop {
            match stream.read(&mut buf) {
                Ok(n) if n > 0 => stream.write_all(&buf[..n]).unwrap(),
                end => return tell.send(end.map_err(|e| e.kind())).unwrap(),
            }
        }
    });
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    b.kill();
    assert_eq!(told.recv_timeout(Duration::from_secs(1)).unwrap(), Err(ErrorKind::ConnectionReset));
    stream.write_all(b"y").unwrap();
    let _b = world.start("b", "source = \"keep\"", "");
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    a.wait_log("has restarted");
    // And the next connection works.
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"z").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
}

#[test]
fn an_outage_of_the_link_is_survived_without_a_reset() {
    let _alone = alone();
    if !root_or_skip("outage") {
        return;
    }
    let world = World::new("outage");
    let (a, b) = world.start_both("source = \"keep\"", INTERCEPT);
    world.serve(80, echo);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    // Both ends drop everything for five seconds, with data under way.
    for ns in [&world.a, &world.b] {
        world.sh(ns, "nft add table ip t; nft 'add chain ip t i { type filter hook input priority 0; }'; nft add rule ip t i udp dport 4780 drop");
    }
    stream.write_all(b"y").unwrap();
    // real time: 5 s, an outage as long as a user notices
    pause(Duration::from_secs(5));
    for ns in [&world.a, &world.b] {
        world.sh(ns, "nft delete table ip t");
    }
    let back = now();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    assert!(back.elapsed() < Duration::from_millis(1_500), "{:?}", back.elapsed());
    assert_eq!(a.counter("connections_reset") + b.counter("connections_reset"), 0);
}
