//! Serial lanes alone, one way beside a radio, and as one of two.

use super::{Cable, Names, costs_little, of_guide, table, with_lanes};
use crate::common::*;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use wavelane_host::netns::ChildEnd;

/// The guide's two boxes: TCP over a serial line alone, and again after `kill -9` of either end.
#[test]
fn tcp_crosses_a_serial_lane_and_survives_the_death_of_either_end() {
    let _alone = alone();
    if !root_or_skip("serial_lane") {
        return;
    }
    let world = World::new("serial");
    world.serve(7, echo);
    let cable = Cable::new();
    let start = |name: &str, end: usize| world.spawn(name, &with_lanes(&world, name, &of_guide(1, &cable.ports[end])));
    let (mut a, mut b) = (start("a", 0), start("b", 1));
    a.wait_log("peer 'b' is up");
    transfer_during(&world, 20_000, || {});
    let [out, back] = cable.carried();
    assert!(out > 20_000 && back > 20_000, "{out} {back}");
    let lane = &a.status().peers[0].lanes[0];
    assert_eq!((lane.medium.as_str(), lane.path_mtu), ("serial", Some(1_500)), "the MTU is told");
    let line = format!("  lane 1 by {} (serial): in use; received", cable.ports[0]);
    assert!(a.status().to_string().contains(&line), "{}", a.status());
    for name in ["b", "a"] {
        let daemon = if name == "a" { &mut a } else { &mut b };
        daemon.kill();
        *daemon = start(name, usize::from(name == "b"));
        daemon.wait_log("is up");
        transfer_during(&world, 5_000, || {});
    }
}

/// What leaves goes by radio (UDP one way) and what comes back by the line: the network of 1998.
#[test]
fn a_radio_out_and_a_serial_line_back_are_one_link() {
    let _alone = alone();
    if !root_or_skip("serial_back") {
        return;
    }
    let world = World::new("back");
    world.serve(7, echo);
    let cable = Cable::new();
    let b = world.spawn("b", &with_lanes(&world, "b", &of_guide(3, &cable.ports[1])));
    let a = world.spawn("a", &with_lanes(&world, "a", &of_guide(2, &cable.ports[0])));
    a.wait_log("peer 'b' is up");
    let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    let data = pattern(4_000, 3);
    stream.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, data);
    let [out, back] = cable.carried();
    assert!(out == 0 && back > 4_000, "{out} octets by the line out, {back} back");
    let status = a.status().to_string();
    assert!(status.contains("(udp, out): in use") && status.contains("(serial, in): in use; received"), "{status}");
    drop(b);
}

/// The port is pulled out in mid-transfer: what was under way goes by the other lane, and the line is used again once it is back.
#[test]
fn an_unplugged_line_loses_nothing_and_returns() {
    let _alone = alone();
    if !root_or_skip("serial_unplugged") {
        return;
    }
    let world = World::new("unplug");
    world.serve(7, echo);
    let (mut cable, names) = (Cable::new(), Names::new(&world));
    names.point_to(&cable);
    let lanes = |end: usize| {
        let address = format!("[[peer.lane]]\naddress = \"10.2.0.{}:4780\"\nmetered = true\n", 2 - end);
        table(&names.of(end), "rate = \"2 Mbit/s\"") + &address
    };
    let b = world.spawn("b", &with_lanes(&world, "b", &lanes(1)));
    let a = world.spawn("a", &with_lanes(&world, "a", &lanes(0)));
    a.wait_log("peer 'b' is up");
    wait_for("the metered lane to be in reserve", || a.status().peers[0].lanes[1].spare);
    transfer_during(&world, 400_000, || {
        wait_for("traffic by the line", || a.status().peers[0].lanes[0].delivered_bytes > 20_000);
        cable.pull_out();
        for daemon in [&a, &b] {
            daemon.wait_log("is gone: its lane carries nothing until it is back");
        }
        wait_for("the other lane to be used", || !a.status().peers[0].lanes[1].spare);
    });
    let unused = a.status().peers[0].lanes[0].unused.clone().unwrap();
    assert!(unused.contains("port-a is not there"), "{unused}");
    let again = Cable::new();
    names.point_to(&again);
    for daemon in [&a, &b] {
        daemon.wait_log("is there: its lane sends and hears by it");
    }
    wait_for("the line to be used again", || {
        let lanes = a.status().peers[0].lanes.clone();
        lanes[0].unused.is_none() && lanes[1].spare
    });
    transfer_during(&world, 20_000, || {});
    // Some of it may leave by the other lane while this one is still on trial.
    assert!(again.carried()[0] > 5_000, "{:?} octets: {}", again.carried(), a.status());
}

/// What a line without an answer shows of the cause.
#[test]
fn the_status_says_why_nothing_comes_by_a_line() {
    let _alone = alone();
    if !root_or_skip("serial_silent") {
        return;
    }
    let world = World::new("silent");
    let cable = Cable::new();
    let start = |name: &str, end: usize, keys: &str| {
        world.spawn(name, &with_lanes(&world, name, &table(&cable.ports[end], keys)))
    };
    let a = start("a", 0, "framing = \"slip\"");
    let why = || a.status().peers[0].lanes[0].unused.clone().unwrap_or_default();
    wait_for("nothing to be heard", || why().starts_with("no answer: no octet arrives: the cable is out"));
    let b = start("b", 1, "framing = \"ppp\"");
    wait_for("octets", || why().starts_with("no answer: octets arrive, and no datagram of the peer's is among them"));
    let config = world.dir.join("b.toml");
    edit(&config, "framing = \"ppp\"", "framing = \"slip\"");
    assert_eq!(b.reload(), None);
    a.wait_log("peer 'b' is up");
    assert!(a.status().peers[0].lanes[0].unused.is_none());
}

/// What is wrong with a port or its other end is said in one line with its remedy.
#[test]
fn a_port_that_cannot_be_used_is_refused_with_the_remedy() {
    let folder = folder("serial-refused");
    let (near, far) = (key_pair(), key_pair());
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = |lane: &str| {
        let peer = format!("[[peer]]\nname = \"b\"\npublic_key = \"{}\"\n{lane}", far.public);
        let config = write_config(&folder, "a", &near, &format!("listen = \"127.0.0.1:{port}\""), &peer);
        let (mut command, log, _) = daemon_command(&config);
        let code = command.spawn().unwrap().wait().unwrap().code();
        (code, std::fs::read_to_string(log).unwrap())
    };
    let cable = Cable::new();
    let settings = wavelane_host::tty::PortSettings { rate: 9_600, hardware_flow: false, carrier: false };
    let owner = wavelane_host::tty::Tty::open(&cable.ports[0], settings).unwrap();
    let free = cable.ports[1].as_str();
    for (port, keys, expected) in [
        (cable.ports[0].as_str(), "", "another program has it open; stop that program"),
        ("/dev/null", "", "it is no serial port; name a serial port, such as /dev/ttyUSB0"),
        (free, "carrier = true", "it has no modem lines; remove `carrier` and hardware flow control"),
        (free, "flow_control = \"software\"", "takes two octets out of the data: use \"hardware\""),
        (free, "mtu = 128", "must lie between 576 and 1500: a lane cuts no packets"),
        (free, "rate = \"115200\"", "'115200' is not a rate, such as \"115.2 kbit/s\""),
        (free, "framing = \"cslip\"", "have no TCP headers to compress: write \"slip\""),
        (free, "chat = 'OK \"ATDT1'", "lane 1: chat: cannot be read: the chat script has a quote that is not closed"),
        (free, "address = \"192.0.2.1:1\"", "a line has one other end, which needs no address: remove it"),
        ("ttyUSB0", "", "'ttyUSB0' is not the path of a serial port, such as /dev/ttyUSB0"),
    ] {
        let (code, said) = refused(&table(port, keys));
        // A port that another program has may be free later.
        let wanted = if expected.starts_with("another program") { 1 } else { 2 };
        assert!(code == Some(wanted) && said.contains(expected) && said.trim().lines().count() == 1, "{port}: {said}");
    }
    drop(owner);
    let (code, said) = refused("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nrate = \"9600 bit/s\"\n");
    assert!(
        code == Some(2) && said.contains("is of serial lanes and radios alone: remove it, or add medium = \"serial\""),
        "{said}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a lane at 115.2 kbit/s costs while it is full both ways.
#[test]
#[ignore = "make test-all: a share of a processor in 2 s, which other load raises"]
fn a_full_line_costs_little_of_a_core() {
    let _alone = alone();
    if !root_or_skip("serial_cost") {
        return;
    }
    let world = World::new("linecost");
    world.serve(7, echo);
    let cable = Cable::new();
    let start = |name: &str, end: usize| world.spawn(name, &with_lanes(&world, name, &table(&cable.ports[end], "")));
    let (a, _b) = (start("a", 0), start("b", 1));
    a.wait_log("peer 'b' is up");
    transfer_during(&world, 120_000, || {
        wait_for("the line to be filled", || cable.carried().iter().all(|octets| *octets > 12_000));
        let (before, from, spent) = (cable.carried(), now(), processor_s(&a));
        // real time: 2 s, in which the line takes 23,040 octets each way
        pause(std::time::Duration::from_secs(2));
        let (after, seconds) = (cable.carried(), from.elapsed().as_secs_f64());
        let of_a_core = (processor_s(&a) - spent) / seconds;
        let moved: u64 = [0, 1].map(|end: usize| after[end] - before[end]).iter().sum();
        costs_little(of_a_core, &format!("{moved} octets"));
        assert!(moved > 20_000, "{moved} octets");
    });
}

/// No other program sees what crosses a line: the daemon captures it, its keys open that, and Wireshark's dissector reads it by its name.
#[test]
fn what_crosses_a_line_is_captured_and_opened() {
    let _alone = alone();
    if !root_or_skip("serial_capture") {
        return;
    }
    let world = World::new("linecap");
    world.serve(7, echo);
    let cable = Cable::new();
    let config = |name: &str, end: usize| with_lanes(&world, name, &of_guide(1, &cable.ports[end]));
    let [keys, sealed, opened] = ["keys", "line.pcapng", "opened.pcapng"].map(|name| world.dir.join(name));
    let _b = world.spawn("b", &config("b", 1));
    let (mut command, log, control) = daemon_command(&config("a", 0));
    command.arg("--key-log").arg(&keys).arg("--line-capture").arg(&sealed);
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let mut a = Daemon { child, log, control, own_folder: None };
    a.wait_log("peer 'b' is up");
    transfer_during(&world, 20_000, || {});
    assert_eq!(a.stop(), Some(0));
    let captured = std::fs::metadata(&sealed).unwrap().len();
    assert!(captured > 2 * 20_000, "{captured} octets of a transfer both ways");
    let tool = Path::new(DAEMON).with_file_name("wavelane");
    if !tool.exists() {
        return eprintln!("SKIPPED (needs `cargo build -p wavelane`): opening the capture of a line");
    }
    let mut command = Command::new(tool);
    command.arg("trace").arg(&sealed).arg("--keys").arg(&keys).arg("--decrypt").arg(&opened);
    let said = command.output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
    let dissector = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/wavelane.lua");
    let frames = |file: &Path, filter: &str| {
        let mut command = Command::new("tshark");
        command.args(["-X", dissector, "-Y", filter, "-T", "fields", "-e", "wavelane.kind", "-r"]).arg(file);
        Some(String::from_utf8(command.output().ok()?.stdout).unwrap())
    };
    let Some(malformed) = frames(&opened, "_ws.malformed || _ws.expert.severity == error") else {
        return eprintln!("SKIPPED (not installed): tshark with the dissector");
    };
    assert_eq!(malformed, "");
    let outside = frames(&sealed, "wavelane").unwrap();
    assert!(
        ["0x01", "0x02", "0x04"].iter().all(|kind| outside.contains(kind)) && !outside.contains("0x84"),
        "{outside}"
    );
    let receipts = frames(&opened, "wavelane.kind == 0x84 && wavelane.frame == 9").unwrap();
    assert!(receipts.contains("0x84"), "no receipt in what was opened");
}
