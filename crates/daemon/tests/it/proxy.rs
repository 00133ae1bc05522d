//! A split proxy between real kernels: client - proxy (a) - router (b) - server.

use crate::common::*;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_daemon::commands::{StatusArgs, status};
use wavelane_daemon::proxy::status::Report;
use wavelane_host::netns::{ChildEnd, Netns};

on_both_engines! {
    bodies_half_closes_and_refusals_cross_in_either_version,
    status_shows_both_halves_and_sides_have_their_own_knobs,
    what_is_exempt_or_beyond_the_most_goes_plainly,
    a_crash_resets_what_is_open_and_new_connections_go_plainly_or_are_refused,
    a_flood_of_syns_is_bounded,
}

/// Starts a proxy on `a` for what arrives from the client; `keys` go into `[proxy]`, or begin further tables.
pub(crate) fn start(world: &World, engine: &str, keys: &str) -> Daemon {
    let config = world.dir.join("proxy.toml");
    let control = world.dir.join("proxy.sock");
    let text = format!(
        "[proxy]\nengine = \"{engine}\"\ninterfaces = [\"lan0\"]\ncontrol = \"{}\"\n{keys}\n",
        control.display()
    );
    std::fs::write(&config, text).unwrap();
    spawn(world)
}

pub(crate) fn spawn(world: &World) -> Daemon {
    let (command, log, control) = daemon_command(&world.dir.join("proxy.toml"));
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let daemon = Daemon { child, log, control, own_folder: None };
    daemon.wait_log(" TCP from ");
    daemon
}

pub(crate) fn report(proxy: &Daemon) -> Report {
    let text =
        status(&StatusArgs { json: true, control: Some(proxy.control.clone()), ..StatusArgs::default() }).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn count(proxy: &Daemon, name: &str) -> u64 {
    report(proxy).counters.iter().find(|c| c.name == name).map_or(0, |c| c.value)
}

/// SIGHUP; why it was refused, if it was.
pub(crate) fn reload(proxy: &Daemon) -> Option<String> {
    let done = || count(proxy, "reloads") + count(proxy, "reloads_refused");
    let before = done();
    assert!(
        std::process::Command::new("kill").arg("-HUP").arg(proxy.child.id().to_string()).status().unwrap().success()
    );
    wait_for("the reload", || done() > before);
    report(proxy).reload_refused
}

/// A connection on which a byte went there and back.
pub(crate) fn open(world: &World, ns: &Netns, target: &str) -> TcpStream {
    let mut stream = world.connect(ns, target).unwrap();
    says(&mut stream).unwrap();
    stream
}

fn bodies_half_closes_and_refusals_cross_in_either_version(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_honest") {
        return;
    }
    let world = World::new("proxy");
    let before = world.traces(&world.a);
    let mut proxy = start(&world, engine, "log = \"debug\"");
    let (tell, told) = channel();
    // Answers only after the client's end, so nothing comes back unless half-close is carried.
    world.serve(80, move |mut stream, from| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(&got).unwrap();
        stream.write_all(b"that was all").unwrap();
        tell.send(from).unwrap();
    });
    // The last bytes before a reset arrive, and then the reset.
    world.serve(83, |mut stream, _| {
        stream.write_all(b"last").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    world.sh(
        &world.server,
        "nft add table inet t; nft 'add chain inet t i { type filter hook input priority 0; }'; \
         nft add rule inet t i tcp dport 82 reject with icmpx type host-unreachable",
    );
    for (at, host) in [("10.3.0.2", "10.1.0.2"), ("[fd00:3::2]", "fd00:1::2")] {
        let sent = pattern(3_000_000, 7);
        let stream = world.connect(&world.client, &format!("{at}:80")).unwrap();
        let own: SocketAddr = stream.local_addr().unwrap();
        let got = there_and_back(stream, &sent);
        assert!(got.len() == sent.len() + 12 && got.starts_with(&sent) && got.ends_with(b"that was all"));
        let from = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!((from.ip().to_string().as_str(), from.port()), (host, own.port()), "address and port are kept");

        let error = world.connect(&world.client, &format!("{at}:81")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        proxy.wait_log(&format!("to {at}:81: refused by its server"));
        let error = world.connect(&world.client, &format!("{at}:82")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
        proxy.wait_log(&format!("to {at}:82: refused: there is no way to its server"));

        let mut stream = world.connect(&world.client, &format!("{at}:83")).unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        stream.write_all(b"x").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert!(report(&proxy).honest);
    assert_eq!(count(&proxy, "connections_taken"), 4, "{}", report(&proxy));
    wait_for("the orderly ends", || count(&proxy, "connections_closed") == 2 && report(&proxy).connections == 0);
    assert_eq!(count(&proxy, "connections_reset"), 2, "{}", report(&proxy));
    assert_eq!(proxy.stop(), Some(0));
    assert_eq!(world.traces(&world.a), before, "a stop leaves nothing behind");
}

fn status_shows_both_halves_and_sides_have_their_own_knobs(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_sides") {
        return;
    }
    let world = World::new("sides");
    let near = "[[proxy.side]]\nname = \"near\"\nnetworks = [\"10.1.0.0/24\", \"fd00:1::/64\"]\ncongestion = \"cubic\"\nmss = 1000\n";
    let far =
        "[[proxy.side]]\nname = \"far\"\nnetworks = [\"10.3.0.0/24\"]\ncongestion = \"reno\"\nbuffer = \"2 MiB\"\n";
    let proxy = start(&world, engine, &format!("{near}{far}"));
    world.serve(7, echo);
    let stream = open(&world, &world.client, "10.3.0.2:7");
    let six = open(&world, &world.client, "[fd00:3::2]:7");
    // With timestamps there are 12 bytes less in a segment.
    let mss = |stream: &TcpStream| SockRef::from(stream).tcp_mss().unwrap();
    assert_eq!((mss(&stream), mss(&six)), (988, 968), "what the proxy announces");
    let words = report(&proxy).to_string();
    let json = StatusArgs { json: true, control: Some(proxy.control.clone()), ..StatusArgs::default() };
    fits_the_schema(&world, &status(&json).unwrap(), "wavelane-proxy-status-1");
    let ports = world.sh(&world.a, "ss -Htni");
    let control = |local: &str, remote: &str| {
        let is = |line: &&str| line.split_whitespace().skip(3).take(2).eq([local, remote]);
        let mut lines = ports.lines().skip_while(|line| !is(line));
        lines.nth(1).unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
    };
    let client = stream.local_addr().unwrap().to_string();
    let controls = if engine == "kernel" { ("cubic", "reno") } else { ("", "") };
    assert_eq!((control("10.3.0.2:7", &client).as_str(), control(&client, "10.3.0.2:7").as_str()), controls, "{ports}");
    let shown = report(&proxy).connection_list;
    let shown = shown.iter().find(|c| c.source == client && c.target == "10.3.0.2:7").unwrap();
    let (near, far) = (shown.near.as_ref().unwrap(), shown.far.as_ref().unwrap());
    assert_eq!((near.in_bytes, near.out_bytes, far.in_bytes, far.out_bytes), (1, 1, 1, 1), "{words}");
    let sides = format!(
        "engine {engine}\u{0}side 'near': 10.1.0.0/24, fd00:1::/64; congestion = \"cubic\"; mss = 1000\u{0}side 'far'"
    );
    assert!(sides.split('\u{0}').all(|part| words.contains(part)), "{words}");
    assert!(near.rtt_ms.is_some() && near.retransmits == Some(0) && words.contains("server: open"), "{words}");
    drop((stream, six));
    drop(proxy);
}

fn what_is_exempt_or_beyond_the_most_goes_plainly(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_exempt") {
        return;
    }
    let world = World::new("exempt");
    let proxy = start(
        &world,
        engine,
        "targets = [\"0.0.0.0/0\"]\nexempt = [\"port 22\", \"dscp 46\", \"10.3.0.3/32\"]\nconnections_max = 1\npool = \"1 MiB\"\nlog = \"debug\"",
    );
    world.sh(&world.server, "ip addr add 10.3.0.3/24 dev eth0");
    for port in [7, 22] {
        world.serve(port, echo);
    }
    let taken = || count(&proxy, "connections_taken");
    let _ssh = open(&world, &world.client, "10.3.0.2:22");
    let _other = open(&world, &world.client, "10.3.0.3:7");
    let _six = open(&world, &world.client, "[fd00:3::2]:7");
    let marked = world.client.run(|| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_tos_v4(46 << 2).unwrap();
        let target: SocketAddr = "10.3.0.2:7".parse().unwrap();
        socket.connect(&target.into()).unwrap();
        TcpStream::from(socket)
    });
    let mut marked = marked.unwrap();
    says(&mut marked).unwrap();
    assert_eq!(taken(), 0, "{}", report(&proxy));
    // Its first packet decides.
    let led = count(&proxy, "packets_plain");
    SockRef::from(&marked).set_tos_v4(0).unwrap();
    says(&mut marked).unwrap();
    assert_eq!(count(&proxy, "packets_plain"), led, "{}", report(&proxy));
    let _first = open(&world, &world.client, "10.3.0.2:7");
    assert_eq!((taken(), report(&proxy).connections), (1, 1));
    let _second = open(&world, &world.client, "10.3.0.2:7");
    assert_eq!((taken(), count(&proxy, "connections_passed")), (1, 1), "{}", report(&proxy));

    // Why each was split or not.
    proxy.wait_log("to 10.3.0.2:7: split, for its server has answered");
    proxy.wait_log("to 10.3.0.2:7: goes plainly: as many as `connections_max` are open");

    // Reading the file again: exemptions change, interfaces do not.
    let config = world.dir.join("proxy.toml");
    edit(&config, "\"port 22\", ", "");
    edit(&config, "connections_max = 1", "connections_max = 10");
    edit(&config, "log = \"debug\"", "log = \"error\"");
    assert_eq!(reload(&proxy), None);
    let _ssh = open(&world, &world.client, "10.3.0.2:22");
    assert_eq!(taken(), 2);
    edit(&config, "interfaces = [\"lan0\"]", "interfaces = [\"wan0\"]");
    assert!(reload(&proxy).unwrap().contains("proxy.interfaces"));
    edit(&config, "interfaces = [\"wan0\"]", "colour = 1");
    assert!(reload(&proxy).unwrap().contains("colour"));
    assert!(says(&mut open(&world, &world.client, "10.3.0.2:7")).is_ok());
    // Asked while it is still at it, it does so once more.
    edit(&config, "colour = 1", "interfaces = [\"lan0\"]");
    edit(&config, "\"error\"", "\"warning\"");
    let pid = proxy.child.id().to_string();
    for _ in 0..20 {
        assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }
    wait_for("another reload", || count(&proxy, "reloads") > 1);
    assert_eq!(count(&proxy, "reloads_refused"), 2);
    // What no program of ours may set back is named.
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.lan0.rp_filter=1 net.ipv4.conf.all.src_valid_mark=1");
    proxy.wait_log("net.ipv4.conf.all.src_valid_mark is 1");
    world.sh(&world.a, "sysctl -qw net.ipv4.ip_forward=0");
    proxy.wait_log("net.ipv4.ip_forward is 0");
    // Each reload but those refused had a level of the log above that of its line.
    assert!(!proxy.log().contains("reloaded"), "{}", proxy.log());
}

fn a_crash_resets_what_is_open_and_new_connections_go_plainly_or_are_refused(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_crash") {
        return;
    }
    let world = World::new("proxycrash");
    world.serve(7, echo);
    for closed in [false, true] {
        let mut proxy = start(&world, engine, if closed { "on_failure = \"closed\"" } else { "" });
        let mut stream = open(&world, &world.client, "10.3.0.2:7");
        proxy.kill();
        if engine == "userspace" {
            // Nobody is left who knows the connection: what its ends send next is answered by a reset.
            stream.write_all(b"x").unwrap();
        }
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        if closed {
            let error = world.connect(&world.client, "10.3.0.2:7").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
            let config = world.dir.join("proxy.toml");
            let checked = world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap();
            assert!(checked.contains("table inet wavelane_closed of one that died still refuses"), "{checked}");
        } else {
            // The rules go with the process that held them, a moment later.
            wait_for("plain forwarding", || {
                world.connect(&world.client, "10.3.0.2:7").is_ok_and(|mut stream| says(&mut stream).is_ok())
            });
        }
        let mut again = spawn(&world);
        let _stream = open(&world, &world.client, "10.3.0.2:7");
        assert_eq!(count(&again, "connections_taken"), 1);
        assert_eq!(again.stop(), Some(0));
        assert!(open(&world, &world.client, "10.3.0.2:7").peer_addr().is_ok(), "an orderly stop lets all pass");
    }
}

/// A server that is not there holds nothing for ever, and a flood of SYNs to it costs others nothing.
fn a_flood_of_syns_is_bounded(engine: &str) {
    let _alone = alone();
    if !root_or_skip("proxy_flood") {
        return;
    }
    let world = World::new("flood");
    let proxy = start(&world, engine, "");
    world.serve(7, echo);
    // Nobody answers there.
    world.sh(&world.server, "ip addr add 10.3.0.9/32 dev lo; nft add table ip t; nft 'add chain ip t i { type filter hook input priority 0; }'; nft add rule ip t i ip daddr 10.3.0.9 drop");
    let raw = world.client.run(|| wavelane_host::raw::RawSender::open(1).unwrap()).unwrap();
    let target = [10, 3, 0, 9].into();
    for n in 0..20_000_u32 {
        let low = n.to_be_bytes()[3];
        let source = std::net::Ipv4Addr::new(10, 1, 0, 3 + low % 250);
        let _ = raw.send(&syn(source, (n % 60_000) as u16 + 1_024, target, 80), target.into());
    }
    let held = report(&proxy);
    assert!(held.pending <= 2_048 && held.connections <= 2_048, "{held}");
    let mut stream = open(&world, &world.client, "10.3.0.2:7");
    says(&mut stream).unwrap();
    assert!(resident(&proxy) < 100 << 20, "{} bytes", resident(&proxy));
}

/// A SYN without options.
fn syn(source: std::net::Ipv4Addr, port: u16, target: std::net::Ipv4Addr, to: u16) -> Vec<u8> {
    use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};
    let header = TcpHeader { flags: Flags::SYN, seq: u32::from(port), window: 1_000, ..TcpHeader::default() };
    let (source, target) = (SocketAddr::from((source, port)), SocketAddr::from((target, to)));
    let mut packet = vec![0; 100];
    let packet_of = TcpPacket { source, target, ecn: Default::default(), header, payload: &[] };
    let len = packet_of.emit(&mut packet).unwrap();
    packet.truncate(len);
    packet
}

/// The gateway's part of the program `wavelane`, from the same argument types.
#[derive(clap::Parser)]
struct Tool {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Init(Box<wavelane_daemon::commands::InitArgs>),
}

/// The page's first commands make a file, its example is one, and its tables have every key that the parser takes.
#[test]
fn the_guide_holds() {
    use clap::Parser;
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/proxy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = |fence: &str| -> Vec<String> {
        page.split(&format!("```{fence}\n")).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
    };
    let parse = wavelane_daemon::proxy::parse_text;
    for example in blocks("toml") {
        parse(&example).unwrap();
    }
    let dir = folder("proxyguide");
    let line = blocks("sh")[0].lines().next().unwrap().replace("/etc/wavelane", dir.to_str().unwrap());
    let Command::Init(args) = Tool::try_parse_from(line.split_whitespace()).unwrap().command;
    let made = wavelane_daemon::commands::init(&args).unwrap();
    let said = wavelane_daemon::commands::check_config(&made.config).unwrap();
    assert!(said.contains("proxy 'edge' is in order") && said.contains("lan0"), "{said}");
    assert!(made.to_string().ends_with(&format!("wavelaned --config {}\n", made.config.display())));
    assert!(Tool::try_parse_from(["wavelane", "init", "--name", "a"]).is_err(), "a gateway needs a peer");
    std::fs::remove_dir_all(&dir).unwrap();

    let documented: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    for table in ["[proxy]\nnonsense = 1\n", "[proxy]\ninterfaces = [\"a\"]\n[[proxy.side]]\nnonsense = 1\n"] {
        let why = parse(table).unwrap_err().to_string();
        let (_, known) = why.split_once("use one of ").unwrap_or_else(|| panic!("{why}"));
        for key in known.split(';').next().unwrap().split(", ") {
            assert!(documented.contains(&key), "'{key}' is not on the page");
        }
    }
}
