//! However a gateway ends without saying goodbye: `on_failure = "closed"` stays closed, and what reads its log has no part in it.

use crate::common::*;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

const CLOSED: &str = "source = \"keep\"\non_failure = \"closed\"";
const INTERCEPT: &str = "[intercept]\ninterfaces = [\"lan0\"]";

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).status().unwrap();
    assert!(done.success(), "{program} {arguments:?}");
}

/// Makes system calls of the daemon's main thread fail from now on; `None`, said loudly, if this machine does not allow it.
fn inject(daemon: &Daemon, call: &str, fault: &str) -> Option<Child> {
    let pid = daemon.child.id().to_string();
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-p", &pid, "-e", &format!("inject={call}:{fault}")]);
    let mut strace = command.stderr(Stdio::null()).spawn().ok();
    let status = format!("/proc/{pid}/status");
    let traced = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        text.lines().any(|l| l.starts_with("TracerPid:") && !l.ends_with("\t0"))
    };
    let mut ended = || strace.as_mut().is_none_or(|s| s.try_wait().unwrap().is_some());
    wait_for("strace to attach", || traced() || ended());
    if !traced() {
        eprintln!("SKIPPED (1 case): fault '{fault}' in {call} needs strace and ptrace");
        return None;
    }
    strace
}

fn wait_for_death(daemon: &mut Daemon) -> ExitStatus {
    wait_for("the daemon to die", || daemon.child.try_wait().unwrap().is_some());
    daemon.child.wait().unwrap()
}

/// Ways to end a gateway, and how its end is known.
type Way = (&'static str, fn(&World, &mut Daemon), fn(ExitStatus) -> bool);

const WAYS: [Way; 5] = [
    ("kill -9", |_, a| run("kill", &["-KILL", &a.child.id().to_string()]), |s| s.signal() == Some(9)),
    ("abort", |_, a| run("kill", &["-ABRT", &a.child.id().to_string()]), |s| s.signal() == Some(6)),
    (
        "a panic",
        |world, a| {
            // What the kernel gives from the queue of SYNs is said to be longer than the buffer.
            match inject(a, "recvfrom", "retval=1000000") {
                Some(mut strace) => {
                    let _ = world.connect(&world.client, "10.3.0.2:80");
                    wait_for_death(a);
                    strace.wait().unwrap();
                    assert!(a.log().contains("out of range"), "{}", a.log());
                }
                None => a.kill(),
            }
        },
        |s| s.code() == Some(101) || s.signal() == Some(9),
    ),
    (
        "an error",
        |_, a| match inject(a, "epoll_pwait2", "error=EBADF") {
            Some(mut strace) => {
                wait_for_death(a);
                strace.wait().unwrap();
                assert!(a.log().contains("the system refused waiting for events"), "{}", a.log());
            }
            None => a.kill(),
        },
        |s| s.code() == Some(1) || s.signal() == Some(9),
    ),
    (
        "no memory",
        |world, a| {
            run("prlimit", &["--pid", &a.child.id().to_string(), "--as=1"]);
            // 16 connections' bytes that nobody reads do not fit what the process has already.
            let streams: Vec<_> = (0..16).filter_map(|_| world.connect(&world.client, "10.3.0.2:81").ok()).collect();
            wait_for_death(a);
            drop(streams);
            assert!(a.log().contains("memory allocation"), "{}", a.log());
        },
        |s| s.signal() == Some(6),
    ),
];

#[test]
fn closed_lasts_until_an_orderly_stop() {
    let _alone = alone();
    if !root_or_skip("closed_stays_closed") {
        return;
    }
    let world = World::new("closed");
    let _b = world.start("b", "source = \"keep\"", "");
    world.serve(80, echo);
    world.serve(81, |mut stream, _| while stream.write_all(&[1; 65_536]).is_ok() {});
    let refused = |how: &str| {
        let kind = world.connect(&world.client, "10.3.0.2:80").map(drop).map_err(|e| e.kind());
        assert_eq!(kind, Err(ErrorKind::ConnectionRefused), "after {how}");
    };
    let table_is_gone = || !world.sh(&world.a, "nft list tables").contains("inet wavelane\n");
    for (how, end, as_expected) in WAYS {
        let mut a = world.start("a", CLOSED, INTERCEPT);
        a.wait_log("peer 'b' is up");
        assert!(world.connect(&world.client, "10.3.0.2:80").is_ok(), "before {how}");
        end(&world, &mut a);
        let status = wait_for_death(&mut a);
        assert!(as_expected(status), "{how} ended it with {status}:\n{}", a.log());
        wait_for("the owned table to vanish", table_is_gone);
        refused(how);
    }
    // A start that is refused leaves it closed, too, even the first.
    let lift = "nft delete table inet wavelane_closed";
    world.sh(&world.a, lift);
    let _taken = world.a.run(|| std::net::UdpSocket::bind("0.0.0.0:4780").unwrap()).unwrap();
    let (command, log, _) = daemon_command(&world.write("a", Outside::V4, CLOSED, INTERCEPT));
    let mut refusing = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    assert_eq!(refusing.wait().unwrap().code(), Some(1));
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("in use") && said.contains(lift) && said.lines().count() == 1, "{said}");
    refused("a refused start");
    drop(_taken);
    // Also where it is refused after everything is open, or what it is asked for is nothing to open.
    let config = world.write("a", Outside::V4, CLOSED, INTERCEPT);
    let open_to_all = world.dir.join("open-to-all");
    std::fs::write(&open_to_all, "").unwrap();
    let lock = world.dir.join("a.epoch-lock");
    for (arguments, spoil, cause) in [
        (vec!["--key-log", config.to_str().unwrap()], "true", "this gateway has it"),
        (vec!["--key-log", open_to_all.to_str().unwrap()], "chmod 644 open-to-all", "others may read it"),
        (vec![], "rm -f a.epoch-lock; mkfifo a.epoch-lock", "cannot lock"),
    ] {
        world.sh(&world.a, &format!("{lift} 2>/dev/null; cd {}; {spoil}", world.dir.display()));
        let (mut command, log, _) = daemon_command(&config);
        let mut refusing = world
            .a
            .spawn(
                {
                    command.args(arguments);
                    command
                },
                ChildEnd::Kill,
            )
            .unwrap()
            .unwrap();
        assert_eq!(refusing.wait().unwrap().code(), Some(2), "{cause}");
        let said = std::fs::read_to_string(log).unwrap();
        assert!(said.contains(cause) && said.contains(lift) && said.lines().count() == 1, "{said}");
        refused(cause);
    }
    std::fs::remove_file(lock).unwrap();
    let mut a = world.start("a", CLOSED, INTERCEPT);
    a.wait_log("peer 'b' is up");
    assert_eq!(a.stop(), Some(0));
    assert!(world.connect(&world.client, "10.3.0.2:80").is_ok(), "an orderly stop opens");
}

/// What the daemon says when `a` is refused its start with `config`.
fn refused_start(world: &World, config: &std::path::Path) -> String {
    let (command, log, _) = daemon_command(config);
    let mut refusing = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let (code, said) = (refusing.wait().unwrap().code(), std::fs::read_to_string(log).unwrap());
    // A port may be free later.
    assert_eq!(code, Some(if said.contains("is in use") { 1 } else { 2 }), "{said}");
    said
}

#[test]
fn check_warns_of_a_packet_door_without_ip_forwarding() {
    let _alone = alone();
    if !root_or_skip("check_forwarding") {
        return;
    }
    let world = World::new("checkfwd");
    // Only the device speaks IPv6.
    let table = format!("{INTERCEPT}\n[tun]\naddresses = [\"fd00:9::1/64\"]");
    let config = world.write("a", Outside::V4, "source = \"keep\"", &table);
    edit(&config, "\"fd00:3::/64\"", "");
    let check = || {
        let config = config.clone();
        world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap()
    };
    let remedy = "sysctl -w net.ipv6.conf.all.forwarding=1";
    assert!(!check().contains("forward"), "{}", check());
    world.sh(&world.a, "sysctl -qw net.ipv6.conf.all.forwarding=0");
    let said = refused_start(&world, &config);
    assert!(said.contains(remedy), "{said}");
    let warned = check();
    let warning = warned.lines().find(|l| l.starts_with("warning: ") && l.contains(remedy));
    assert!(warning.is_some_and(|l| l.contains("does not start")), "{warned}");
    assert_eq!(warned.matches(remedy).count(), 1, "{warned}");
    // The far side takes nothing itself, and what goes plainly or through its device has to be forwarded.
    let remedy = "run `sysctl -w net.ipv4.ip_forward=1`";
    let check = |gateway: &str, table: &str| {
        let config = world.write("b", Outside::V4, gateway, table);
        world.b.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap()
    };
    let forward = "[[forward]]\nlisten = \"127.0.0.1:8080\"\nto = \"10.1.0.2:80\"\nvia = \"a\"";
    assert!(!check("", "").contains("warning"), "{}", check("", ""));
    world.sh(&world.b, "sysctl -qw net.ipv4.ip_forward=0");
    for (gateway, table) in [("", ""), ("", INTERCEPT), ("on_failure = \"closed\"", "[intercept]\nlocal = true\n[tun]")]
    {
        let warned = check(gateway, table);
        assert_eq!(warned.lines().filter(|l| l.starts_with("warning: ") && l.contains(remedy)).count(), 1, "{warned}");
    }
    assert!(!check("", forward).contains("ip_forward"), "{}", check("", forward));
}

#[test]
fn a_start_clears_the_routes_of_an_earlier_mode() {
    let _alone = alone();
    if !root_or_skip("leftovers") || !tunnel::has("ping", "leftovers") {
        return;
    }
    let world = World::new("leftovers");
    let before = world.traces(&world.a);
    let table = |end: &str| format!("{INTERCEPT}\n[tun]\n{end}");
    let ours = || world.sh(&world.a, "ip -4 route show table 4781; ip -6 route show table 4781");
    // The peer is down, so its networks are given back; then the gateway dies.
    let mut a = world.start("a", "source = \"keep\"", &table(""));
    let given_back =
        || Some(ours()).is_some_and(|o| o.contains("throw 10.3.0.0/24") && o.contains("throw fd00:3::/64"));
    wait_for("the networks to be given back", given_back);
    a.kill();
    wait_for("only what survives the device", || ours().lines().all(|l| l.starts_with("throw")));
    assert!(given_back(), "{}", ours());
    // A closed start that is refused lets nothing pass all the same.
    // The dead gateway's port is free only once its process is gone.
    let mut taken = None;
    let bind = || std::net::UdpSocket::bind("0.0.0.0:4780").ok();
    wait_for("its port to be free", || {
        taken = world.a.run(bind).unwrap();
        taken.is_some()
    });
    refused_start(&world, &world.write("a", Outside::V4, CLOSED, &table("")));
    assert!(!ours().contains("throw 10.3.0.0/24") && !ours().contains("throw fd00:3::/64"), "{}", ours());
    assert!(ours().contains("unreachable 10.3.0.0/24") && ours().contains("unreachable fd00:3::/64"), "{}", ours());
    let said = tunnel::ping(&world, &world.client, "-c 1 -W 2 10.3.0.2");
    assert!(said.contains("Destination Host Unreachable"), "{said}");
    drop(taken);
    // The operator takes the door away: what is not TCP is no concern of ours any more.
    let mut a = world.start("a", CLOSED, INTERCEPT);
    assert_eq!(ours(), "");
    assert_eq!(a.stop(), Some(0));
    assert_eq!(world.traces(&world.a), before);
}

/// A daemon on loopback that needs no privilege, with what it says going to `stderr`.
fn alone_with(tag: &str, stderr: Stdio) -> Daemon {
    let dir = folder(tag);
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let peer = format!("[[peer]]\nname = \"b\"\npublic_key = \"{}\"", key_pair().public);
    let config = write_config(&dir, "a", &key_pair(), &format!("listen = \"127.0.0.1:{port}\""), &peer);
    let (mut command, log, control) = daemon_command(&config);
    let child = command.stderr(stderr).spawn().unwrap();
    wait_for("the control socket", || UnixStream::connect(&control).is_ok());
    Daemon { child, log, control, own_folder: Some(dir) }
}

#[test]
fn a_full_disk_under_the_log_loses_lines_only() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut a = alone_with("full", full.into());
    assert_eq!(a.reload(), None);
    wait_for("lost lines", || a.counter("dropped_log_lines_unwritten") >= 2);
    assert_eq!(a.stop(), Some(0));
}

#[test]
fn a_stopped_log_reader_blocks_nothing() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    // Full but for nothing: the first line already does not fit.
    let mut filler = writer.try_clone().unwrap();
    let filled = std::thread::spawn(move || filler.write_all(&vec![b'\n'; 65_536]));
    filled.join().unwrap().unwrap();
    let mut a = alone_with("stalled", OwnedFd::from(writer).into());
    // As many as a slow machine needs to say more than the queue of lines holds, for the allowance comes back with time.
    let lost = || a.counter("dropped_log_lines_unwritten") + a.counter("dropped_log_lines_rate") > 0;
    for _ in 0..1_000 {
        assert_eq!(a.reload(), None);
        if lost() {
            break;
        }
    }
    assert!(lost(), "{}", a.status());
    // It stops although its last words find no room.
    let stopped = now();
    assert_eq!(a.stop(), Some(0));
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    let mut text = String::new();
    drop(a);
    reader.read_to_string(&mut text).unwrap();
    assert!(text.trim().is_empty(), "{text}");
}

/// A service of the far gateway itself is not for peers, and stays so when nobody can say which addresses are its own.
#[test]
fn without_a_list_of_own_addresses_doubtful_targets_are_refused() {
    let _alone = alone();
    if !root_or_skip("own_addresses") {
        return;
    }
    let world = World::new("ownread");
    world.serve(80, echo);
    let own = world.b.run(|| TcpListener::bind("10.3.0.1:80").unwrap()).unwrap();
    own.set_nonblocking(true).unwrap();
    let (a, b) = world.start_both("source = \"keep\"", "interfaces = [\"lan0\"]");
    let connect = |target: &'static str| {
        let patience = Duration::from_secs(2);
        world.client.run(move || TcpStream::connect_timeout(&target.parse().unwrap(), patience)).unwrap()
    };
    assert!(connect("10.3.0.2:80").is_ok());
    assert!(connect("10.3.0.1:80").is_err());
    assert_eq!(b.counter("dropped_target_denied"), 1);
    // Of the calls that its thread makes only those for the addresses ask for a socket's own name.
    let Some(mut strace) = inject(&b, "getsockname", "error=ENOMEM") else { return };
    // The list is believed for five seconds.
    // real time: 5 s, until the list of addresses is read again
    pause(Duration::from_secs(5));
    assert!(connect("10.3.0.1:80").is_err() && connect("10.3.0.2:80").is_err());
    b.wait_log("cannot read this machine's own addresses");
    assert!(own.accept().is_err(), "the gateway's own service was reached");
    assert!(b.counter("dropped_own_addresses_unknown") >= 2 && b.counter("dropped_target_denied") == 1);
    run("kill", &[&strace.id().to_string()]);
    strace.wait().unwrap();
    assert!(connect("10.3.0.2:80").is_ok(), "the list is there again");
    drop(a);
}
