//! What an operator watches: status and metrics say of a transfer what a capture on the wire says.

use crate::common::*;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use wavelane_daemon::commands::{NetcheckArgs, netcheck, report};
use wavelane_host::netns::{ChildEnd, Netns, terminate};

/// What goes there and comes back: handshakes, which no peer's figures count, are nothing beside it.
const OCTETS: u64 = 6_000_000;
/// Most that two accounts of the same bytes may differ: a handshake, and what is on its way while they are read.
const DIFFERENCE: f64 = 0.01;

/// What a capture ends with; of a datagram it keeps 22 octets.
const LAST: &[u8] = b"the last datagram";

/// A capture of our datagrams in a namespace, as tcpdump writes it.
struct Capture(Child, std::path::PathBuf);

impl Capture {
    fn start(world: &World, ns: &Netns) -> Self {
        let path = world.dir.join("wan0.pcap");
        let mut command = Command::new("tcpdump");
        command.args(["-i", "wan0", "-s", "64", "-B", "16384", "-U", "-Z", "root", "-w"]).arg(&path);
        command.args(["udp", "port", "4780"]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        wait_for("the capture to begin", || std::fs::metadata(&path).is_ok_and(|about| about.len() >= 24));
        Self(child, path)
    }
    /// IP bytes sent and received by the host 10.2.0.1.
    fn end(mut self, ns: &Netns) -> [u64; 2] {
        // tcpdump forgets what it has not read yet when it is told to end, so this tells that it has read everything before.
        ns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap().send_to(LAST, "10.2.0.2:4780").unwrap()).unwrap();
        wait_for("the capture to hold everything", || {
            std::fs::read(&self.1).unwrap().windows(LAST.len()).rev().take(1_000).any(|octets| octets == LAST)
        });
        terminate(&self.0).unwrap();
        wait_for("the capture's end", || self.0.try_wait().unwrap().is_some());
        let octets = std::fs::read(&self.1).unwrap();
        let number = |at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().unwrap());
        assert_eq!(number(0), 0xa1b2_c3d4, "a little-endian pcap file");
        let (mut at, mut sums) = (24, [0; 2]);
        while at + 16 <= octets.len() {
            let (kept, whole) = (number(at + 8) as usize, number(at + 12));
            // Ethernet's header has 14 octets, and the source's address stands at 12 in IPv4's.
            let source = &octets[at + 16 + 26..at + 16 + 30];
            sums[usize::from(source != [10, 2, 0, 1])] += u64::from(whole - 14);
            at += 16 + kept;
        }
        sums
    }
}

/// The endpoint's answer, without its head.
fn metrics(ns: &Netns) -> String {
    let answer = ns.run(|| {
        let mut stream = TcpStream::connect("127.0.0.1:9478").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let answer = answer.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.trim().parse().unwrap()
}

fn near(what: &str, one: u64, other: u64) {
    let off = one.abs_diff(other) as f64 / other.max(1) as f64;
    assert!(off <= DIFFERENCE, "{what}: {one} and {other} differ by {:.2} %", off * 100.0);
}

#[test]
fn status_and_metrics_agree_with_a_capture() {
    let _alone = alone();
    let missing = ["tcpdump", "ethtool"].into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        eprintln!("SKIPPED ({tool} is missing): status and metrics beside a capture");
        return;
    }
    if !root_or_skip("watch") {
        return;
    }
    let world = World::new("watch");
    for ns in [&world.a, &world.b] {
        // Of a batch that the device would cut, a capture sees one packet with one header.
        world.sh(ns, "ethtool -K wan0 gso off tx-udp-segmentation off >/dev/null");
    }
    world.serve(7, echo);
    let capture = Capture::start(&world, &world.a);
    let (a, b) = world.start_both("source = \"keep\"\nmetrics = \"127.0.0.1:9478\"", "interfaces = [\"lan0\"]");
    transfer_during(&world, OCTETS as usize, || {});
    wait_for("the connection's end", || a.status().door.connections == 0);
    let text = metrics(&world.a);
    let peer = &a.status().peers[0];
    let [sent, received] = capture.end(&world.a);
    let told = peer.traffic;
    let least = sent.min(received).min(told.sent_bytes).min(told.received_bytes);
    assert!(least > OCTETS, "captured {sent} sent and {received} received, {told:?}");
    assert!(told.sent_packets.min(told.received_packets) > OCTETS / 1_500, "{told:?}");
    near("received, status and capture", told.received_bytes, received);
    near("sent, status and capture", told.sent_bytes, sent);
    near(
        "received, metrics and status",
        figure(&text, "wavelane_peer_received_bytes_total{peer=\"b\"}"),
        told.received_bytes,
    );
    near("sent, metrics and status", figure(&text, "wavelane_peer_sent_bytes_total{peer=\"b\"}"), told.sent_bytes);
    near(
        "received, lane and peer",
        figure(&text, "wavelane_lane_received_bytes_total{peer=\"b\",lane=\"lane\"}"),
        told.received_bytes,
    );
    assert_eq!(peer.lanes.len(), 1);
    near("sent, lane and peer", peer.lanes[0].traffic.sent_bytes, told.sent_bytes);
    // What left there came here.
    near("both ends", b.status().peers[0].traffic.sent_bytes, told.received_bytes);
    let said = a.status().to_string();
    assert!(said.contains("MB, sent ") && said.contains("  helps: "), "{said}");
    promtool(&text);
    fits_the_schema(&world, &report(Some(&a.control)).unwrap().0, "wavelane-status-1");
    // The board shows what was compared, and nothing in place of it.
    let board = include_str!("../../../../packaging/grafana/wavelane.json");
    for name in
        ["wavelane_peer_received_bytes_total", "wavelane_lane_received_bytes_total", "wavelane_lane_sent_bytes_total"]
    {
        assert!(board.contains(&format!("rate({name}{{")), "{name}");
    }
    top_shows(&a, [received, sent]);
}

/// `wavelane top` says of the peer, and of its lane, what a capture counted: received and sent.
fn top_shows(a: &Daemon, captured: [u64; 2]) {
    let top = Path::new(DAEMON).with_file_name("wavelane");
    if !top.exists() {
        return eprintln!("SKIPPED ({} is not built): `wavelane top` beside a capture", top.display());
    }
    let out = Command::new(top).args(["top", "--count", "1", "--control"]).arg(&a.control).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let volumes = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let values = words.windows(2).filter(|pair| pair[1] == "MB").map(|pair| pair[0].parse::<f64>().unwrap() * 1e6);
        values.map(|value| value as u64).collect::<Vec<u64>>()
    };
    let mut lines: Vec<Vec<u64>> = said.lines().map(volumes).filter(|of| of.len() == 2).collect();
    // A connection's own octets are fewer.
    lines.retain(|of| of[0].min(of[1]) > OCTETS);
    assert!(!lines.is_empty(), "{said}");
    for of in lines {
        near("received, top and capture", of[0], captured[0]);
        near("sent, top and capture", of[1], captured[1]);
    }
}

/// Prometheus' own judge of a page of metrics, where it is installed.
fn promtool(text: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("SKIPPED (promtool is missing: apt-get install prometheus): promtool check metrics");
        return;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.trim().is_empty(), "{said}");
}

#[test]
fn a_link_that_is_cut_is_not_called_a_wrong_key() {
    let _alone = alone();
    if !root_or_skip("cut") {
        return;
    }
    let world = World::new("cut");
    let (hook, told) = (world.dir.join("hook"), world.dir.join("told"));
    std::fs::write(&hook, format!("#!/bin/sh\necho \"$@\" >>{}\n", told.display())).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (a, _b) = world.start_both("source = \"keep\"\nhook = \"hook\"", "interfaces = [\"lan0\"]");
    let told = || std::fs::read_to_string(&told).unwrap_or_default();
    wait_for("the hook to hear of the peer", || told() == "peer-up b\n");
    let check = || netcheck(&NetcheckArgs { control: Some(a.control.clone()), ..NetcheckArgs::default() }).unwrap();
    assert!(check().sound, "{}", check().text);
    let rule = "chain i { type filter hook input priority 0; iifname wan0 drop; }; chain o { type filter hook output priority 0; oifname wan0 drop; }";
    world.sh(&world.b, &format!("nft 'table ip cut {{ {rule}; }}'"));
    // Something that wants an answer.
    let _waits = world
        .client
        .run(|| TcpStream::connect_timeout(&"10.3.0.2:7".parse().unwrap(), std::time::Duration::from_secs(2)));
    a.wait_log_for("nothing comes back from 10.2.0.2:4780 any more", PATIENCE * 3);
    assert!(!a.log().contains("public_key"), "{}", a.log());
    wait_for("the hook to hear of the cut", || told().ends_with("\npeer-down b\n"));
    let found = check();
    assert!(!found.sound && found.text.contains("wrong it does not answer: nothing comes back"), "{}", found.text);
}
