//! IPv6 inside, outside and both, through two real gateways.

use crate::common::*;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::channel;

const INTERCEPT: &str = "[intercept]\ninterfaces = [\"lan0\"]";

/// Two megabytes there and back between client and server, and a closed port.
fn crosses(tag: &str, outside: Outside, server: &str, client: &str) {
    let world = World::new(tag);
    let b = world.spawn("b", &world.write("b", outside, "source = \"keep\"", ""));
    let a = world.spawn("a", &world.write("a", outside, "source = \"keep\"", INTERCEPT));
    a.wait_log("peer 'b' is up");
    let (tell, told) = channel();
    world.serve(80, move |stream, from| {
        tell.send(from.ip().to_string()).unwrap();
        echo(stream, from);
    });
    let sent = pattern(2_000_000, 5);
    let stream = world.connect(&world.client, &format!("{server}:80")).unwrap();
    let got = there_and_back(stream, &sent);
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), client, "source = keep");
    let error = world.connect(&world.client, &format!("{server}:81")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert_eq!((a.counter("connections_taken"), a.counter("connections_refused")), (1, 1), "{}", a.status());
    let address = a.status().peers[0].address.clone().unwrap();
    assert_eq!(address, if outside == Outside::V4 { "10.2.0.2:4780" } else { "[fd00:2::2]:4780" });
    assert!(a.status().door.honest && b.counter("datagrams_received") > 100);
}

#[test]
fn ipv6_inside_crosses_over_ipv4() {
    let _alone = alone();
    if root_or_skip("ipv6_over_ipv4") {
        crosses("six-four", Outside::V4, "[fd00:3::2]", "fd00:1::2");
    }
}

#[test]
fn ipv4_inside_crosses_over_ipv6() {
    let _alone = alone();
    if root_or_skip("ipv4_over_ipv6") {
        crosses("four-six", Outside::V6, "10.3.0.2", "10.1.0.2");
    }
}

#[test]
fn ipv6_inside_crosses_over_ipv6() {
    let _alone = alone();
    if root_or_skip("ipv6_over_ipv6") {
        crosses("six-six", Outside::V6, "[fd00:3::2]", "fd00:1::2");
    }
}

#[test]
fn refusals_over_ipv6_keep_their_kind() {
    let _alone = alone();
    if !root_or_skip("refusals6") {
        return;
    }
    let world = World::new("refused6");
    let (a, b) = world.start_both("source = \"keep\"", "interfaces = [\"lan0\"]\nlocal = true");
    world.sh(
        &world.server,
        "nft add table ip6 t; nft 'add chain ip6 t i { type filter hook input priority 0; }'; \
         nft add rule ip6 t i tcp dport 82 reject with icmpv6 type addr-unreachable",
    );
    let asked = now();
    let error = world.connect(&world.client, "[fd00:3::2]:82").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    assert!(asked.elapsed() < std::time::Duration::from_secs(3), "{:?}", asked.elapsed());
    // The far gateway's own address is denied unless listed; ICMPv6 has a word for that.
    let error = world.connect(&world.client, "[fd00:3::1]:80").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(b.counter("dropped_target_denied"), 1, "{}", b.status());
    // Born on the gateway itself.
    world.serve(80, echo);
    let mut stream = world.connect(&world.a, "[fd00:3::2]:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    let error = world.connect(&world.a, "[fd00:3::2]:81").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert_eq!(a.counter("connections_taken"), 1);
}

#[test]
fn source_own_and_forwards_work_over_ipv6() {
    let _alone = alone();
    if !root_or_skip("own6") {
        return;
    }
    let world = World::new("own6");
    let b = world.spawn("b", &world.write("b", Outside::V6, "source = \"own\"", ""));
    let forward = "[[forward]]\nlisten = \"[fd00:1::1]:8080\"\nto = \"[fd00:3::2]:80\"\nvia = \"b\"\n\
                   [[forward]]\nlisten = \"10.1.0.1:8081\"\nto = \"[fd00:3::2]:80\"\nvia = \"b\"";
    let a = world.spawn("a", &world.write("a", Outside::V6, "source = \"own\"", &format!("{INTERCEPT}\n{forward}")));
    a.wait_log("peer 'b' is up");
    world.serve(80, |mut stream, from| drop(write!(stream, "{}", from.ip())));
    for target in ["[fd00:3::2]:80", "[fd00:1::1]:8080", "10.1.0.1:8081"] {
        let mut said = String::new();
        world.connect(&world.client, target).unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "fd00:3::1", "{target}");
    }
    assert_eq!(b.counter("connections_made"), 3);
}

#[test]
fn a_clock_set_back_across_a_restart_is_accepted() {
    let _alone = alone();
    if !root_or_skip("clock_back") {
        return;
    }
    let world = World::new("epoch");
    let (mut a, b) = world.start_both("source = \"keep\"", "interfaces = [\"lan0\"]");
    assert_eq!(a.stop(), Some(0));
    // Far in the future: to the next start, the wall clock has gone back.
    let kept = world.dir.join("a.epoch");
    let last: u64 = std::fs::read_to_string(&kept).unwrap().trim().parse().unwrap();
    std::fs::write(&kept, format!("{}\n", last + (1 << 60))).unwrap();
    for _ in 0..2 {
        let mut a = world.start("a", "source = \"keep\"", INTERCEPT);
        a.wait_log("peer 'b' is up");
        assert_eq!(a.stop(), Some(0));
    }
    assert_eq!(b.counter("dropped_not_newer"), 0, "{}", b.log());
    // Without the file the clock alone decides, and the same start is refused: the test can fail.
    std::fs::remove_file(&kept).unwrap();
    let _a = world.start("a", "source = \"keep\"", INTERCEPT);
    b.wait_log("older than");
}
