//! What an operator can get wrong: one line with a remedy, and exit code 2; a supervisor tries again where it is 1.

use crate::common::*;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use wavelane_host::netns::ChildEnd;

/// A free port of this machine.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn peer_table(key: &KeyPair, name: &str, rest: &str) -> String {
    format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{}\"\n{rest}", key.public)
}

/// Runs wavelaned expecting a refusal; returns its one line.
fn refusal(config: &Path, path: Option<&str>) -> String {
    let mut command = Command::new(DAEMON);
    command.arg("--config").arg(config);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    one_refusal(command)
}

fn one_refusal(command: Command) -> String {
    ended_with(2, command)
}

fn ended_with(code: i32, mut command: Command) -> String {
    let out = command.output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.starts_with("20") && said.contains("Z wavelaned: error: "), "{said}");
    said
}

fn plain(dir: &Path, extra: &str, rest: &str) -> PathBuf {
    let peer = peer_table(&key_pair(), "b", "routes = [\"10.3.0.0/24\"]");
    let listen = format!("listen = \"127.0.0.1:{}\"\n{extra}", free_port());
    write_config(dir, "a", &key_pair(), &listen, &format!("{peer}\n{rest}"))
}

#[test]
fn key_files_and_unknown_keys() {
    let dir = folder("keys");
    let config = plain(&dir, "", "");
    let key = dir.join("a.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&config, None).contains("chmod 600"));
    std::fs::remove_file(&key).unwrap();
    assert!(refusal(&config, None).contains("wavelane keygen"));
    let config = plain(&dir, "bandwidth = 3", "");
    let said = refusal(&config, None);
    assert!(said.contains("unknown key 'bandwidth'") && said.contains("line 6"), "{said}");
    assert!(refusal(&dir.join("none.toml"), None).contains("wavelane init"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn busy_ports_are_named_and_the_start_may_be_tried_again() {
    let dir = folder("busy");
    let refusal = |config: &Path| {
        let mut command = Command::new(DAEMON);
        command.arg("--config").arg(config);
        ended_with(1, command)
    };
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = peer_table(&key_pair(), "b", "");
    let listen = format!("listen = \"{}\"", udp.local_addr().unwrap());
    let said = refusal(&write_config(&dir, "a", &key_pair(), &listen, &peer));
    assert!(said.contains("UDP port") && said.contains("in use") && said.contains("ss -"), "{said}");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = format!("[[forward]]\nlisten = \"{}\"\nto = \"10.3.0.2:80\"\nvia = \"b\"", tcp.local_addr().unwrap());
    let said = refusal(&plain(&dir, "", &forward));
    assert!(said.contains("TCP port") && said.contains("in use"), "{said}");
    assert!(!dir.join("a.sock").exists(), "a refused start leaves no socket behind");
    // Figures are no reason to carry no traffic.
    let at = tcp.local_addr().unwrap();
    let (mut command, log, control) = daemon_command(&plain(&dir, &format!("metrics = \"{at}\""), ""));
    let daemon = Daemon { child: command.spawn().unwrap(), log, control, own_folder: Some(dir) };
    daemon.wait_log(&format!("another program has TCP port {at} (`ss -lptn` names it)"));
    daemon.wait_log("listens on UDP");
    drop(tcp);
    daemon.wait_log(&format!("TCP port {at} is free: figures are served"));
}

#[test]
fn interception_without_capabilities_is_refused() {
    if !root_or_skip("without_capabilities") {
        return;
    }
    let dir = folder("caps");
    for (extra, rest) in [("", "[intercept]\nlocal = true"), ("source = \"keep\"", "")] {
        let config = plain(&dir, extra, rest);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw"]);
        command.arg(DAEMON).arg("--config").arg(config);
        let said = one_refusal(command);
        assert!(said.contains("setcap") && said.contains("AmbientCapabilities"), "{said}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn two_capabilities_are_enough_for_an_ordinary_user() {
    let _alone = alone();
    if !root_or_skip("two_capabilities") {
        return;
    }
    let world = World::new("ambient");
    let before = world.traces(&world.a);
    let dir = folder("ambient-config");
    let config = plain(&dir, "source = \"keep\"", "[intercept]\ninterfaces = [\"lan0\"]\nlocal = true");
    give_to_nobody(&dir);
    let (_, log, control) = daemon_command(&config);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=+net_admin,+net_raw", "--ambient-caps=+net_admin,+net_raw"]);
    command.arg(dir.join("wavelaned")).arg("--config").arg(&config).stderr(std::fs::File::create(&log).unwrap());
    let child = world.a.run(move || command.spawn().unwrap()).unwrap();
    let mut daemon = Daemon { child, log, control, own_folder: Some(dir) };
    daemon.wait_log("listens on UDP");
    assert!(daemon.status().door.honest, "{}", daemon.log());
    assert_eq!(daemon.stop(), Some(0));
    assert_eq!(world.traces(&world.a), before);
}

/// Gives `dir` and what is in it to user nobody, and puts the program there, whose own folder may be closed to others.
fn give_to_nobody(dir: &Path) {
    const NOBODY: u32 = 65_534;
    std::fs::copy(DAEMON, dir.join("wavelaned")).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        std::os::unix::fs::chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// A folder for PATH with the system's network tools, `nft` replaced by `script` or left out.
fn tools(dir: &Path, script: Option<&str>) -> String {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for tool in ["ip", "iptables", "iptables-restore", "sh", "cat", "grep"] {
        let found =
            ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().map(|d| Path::new(d).join(tool)).find(|p| p.exists());
        let _ = std::os::unix::fs::symlink(found.unwrap(), bin.join(tool));
    }
    let nft = bin.join("nft");
    let _ = std::fs::remove_file(&nft);
    if let Some(script) = script {
        std::fs::write(&nft, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&nft, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    bin.display().to_string()
}

#[test]
fn a_missing_nft_or_tproxy_is_explained() {
    let _alone = alone();
    if !root_or_skip("no_nft") {
        return;
    }
    let world = World::new("nonft");
    let before = world.traces(&world.a);
    let run = |path: String| {
        let config = plain(&world.dir, "source = \"keep\"", "[intercept]\nlocal = true");
        world.a.run(move || refusal(&config, Some(&path))).unwrap()
    };
    let said = run(tools(&world.dir, None));
    assert!(said.contains("no `nft` in PATH") && said.contains("install nftables"), "{said}");
    assert_eq!(world.traces(&world.a), before);
    // A kernel without nft_tproxy, in its own words, from the same program as ever.
    let refuses = "read line; case \"$line\" in *tproxy*) echo 'Error: Could not process rule: No such file or directory' >&2;; esac; exit 1";
    let said = run(tools(&world.dir, Some(refuses)));
    assert!(said.contains("Could not process rule: No such file or directory"), "{said}");
    assert!(said.contains("CONFIG_NFT_TPROXY") && said.contains("[[forward]]"), "{said}");
    assert_eq!(world.traces(&world.a), before);
    // One that stays alive after complaining, as `nft -i` does.
    let refuses = "read line; echo 'Error: Could not process rule: No such file or directory' >&2; exec cat >/dev/null";
    assert!(run(tools(&world.dir, Some(refuses))).contains("CONFIG_NFT_TPROXY"));
}

#[test]
fn a_second_daemon_does_not_tear_down_the_firsts_rules() {
    let _alone = alone();
    if !root_or_skip("second_daemon") {
        return;
    }
    let world = World::new("second");
    let _a = world.start("a", "source = \"keep\"", "[intercept]\ninterfaces = [\"lan0\"]");
    let with_one = world.traces(&world.a);
    let elsewhere = world.dir.join("second");
    std::fs::create_dir(&elsewhere).unwrap();
    let config = plain(&elsewhere, "source = \"keep\"", "[intercept]\nlocal = true");
    let said = world.a.run(move || refusal(&config, None)).unwrap();
    assert!(said.contains("another wavelaned already takes traffic"), "{said}");
    assert_eq!(world.traces(&world.a), with_one);
}

/// Any local user may bind the name by which two daemons find each other.
#[test]
fn another_users_process_keeps_no_daemon_from_starting() {
    let _alone = alone();
    if !root_or_skip("squatted name") {
        return;
    }
    // One that another user may run.
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return eprintln!("SKIPPED (1 test): no {python}");
    }
    let world = World::new("squat");
    let mut squatter = Command::new("setpriv");
    squatter.args(["--reuid=65534", "--regid=65534", "--clear-groups", python, "-c"]);
    squatter.arg(
        "import socket,time\ns=[]\nfor n in ['intercept','shaper']:\n for t in [socket.SOCK_STREAM,socket.SOCK_DGRAM]:\n  x=socket.socket(socket.AF_UNIX,t); x.bind('\\0wavelaned-'+n); s.append(x)\n  if t==socket.SOCK_STREAM: x.listen(0)\nprint('held',flush=True)\ntime.sleep(600)",
    );
    squatter.stdout(std::process::Stdio::piped());
    let mut squatter = world.a.spawn(squatter, ChildEnd::Kill).unwrap().unwrap();
    let mut said = [0; 4];
    std::io::Read::read_exact(squatter.stdout.as_mut().unwrap(), &mut said).unwrap();
    let (a, _b) = world.start_both("on_failure = \"closed\"", "interfaces = [\"lan0\"]");
    a.wait_log(&format!("process {} of user 65534", squatter.id()));
    world.serve(7, echo);
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    // And the next one finds the first all the same.
    let elsewhere = world.dir.join("second");
    std::fs::create_dir(&elsewhere).unwrap();
    let config = plain(&elsewhere, "source = \"keep\"", "[intercept]\nlocal = true");
    let said = world.a.run(move || refusal(&config, None)).unwrap();
    assert!(said.contains("another wavelaned already takes traffic"), "{said}");
    let _ = squatter.kill();
    let _ = squatter.wait();
}

/// Starts a daemon as user nobody; everything it needs lies in `dir`.
fn start_as_nobody(config: &Path) -> Daemon {
    let (plain, log, control) = daemon_command(config);
    let dir = config.parent().unwrap();
    let mut command = plain;
    if wavelane_host::is_root() {
        give_to_nobody(dir);
        let program = dir.join("wavelaned");
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
        command.arg(program).arg("--config").arg(config);
        command.stderr(std::fs::File::create(&log).unwrap());
    }
    let daemon = Daemon { child: command.spawn().unwrap(), log, control, own_folder: Some(dir.to_path_buf()) };
    daemon.wait_log("listens on UDP");
    daemon
}

/// Two rootless gateways on loopback, and the address of the near one's forward to `to`.
fn rootless(tag: &str, to: &str, wrong_key: bool) -> (Daemon, Daemon, String) {
    let (near, far) = (folder(&format!("{tag}-near")), folder(&format!("{tag}-far")));
    let (a, b, stranger) = (key_pair(), key_pair(), key_pair());
    let (port_a, port_b) = (free_port(), free_port());
    let forward = format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let peer_b = peer_table(&b, "b", &format!("address = \"127.0.0.1:{port_b}\""));
    let rest = format!("{peer_b}\n[[forward]]\nlisten = \"{forward}\"\nto = \"{to}\"\nvia = \"b\"");
    let config_a = write_config(&near, "a", &a, &format!("listen = \"127.0.0.1:{port_a}\""), &rest);
    let known = if wrong_key { &stranger } else { &a };
    let rest = peer_table(known, "a", "allow_targets = [\"127.0.0.1/32\"]");
    let config_b = write_config(&far, "b", &b, &format!("listen = \"127.0.0.1:{port_b}\""), &rest);
    let far = start_as_nobody(&config_b);
    (start_as_nobody(&config_a), far, forward)
}

#[test]
fn a_plain_forward_works_for_an_ordinary_user() {
    let _alone = alone();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((stream, from)) = server.accept() {
            echo(stream, from);
        }
    });
    let (mut a, mut b, forward) = rootless("plain", &to, false);
    let sent = pattern(500_000, 3);
    let stream = TcpStream::connect(&forward).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let got = there_and_back(stream, &sent);
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    let report = a.status();
    assert!(report.peers[0].up && !report.door.intercepting, "{report}");
    assert_eq!((a.stop(), b.stop()), (Some(0), Some(0)));
}

#[test]
fn a_forward_to_a_closed_port_resets_the_application() {
    let _alone = alone();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (a, b, forward) = rootless("closed", &closed, false);
    let mut stream = TcpStream::connect(&forward).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!((a.counter("connections_refused"), b.counter("dropped_connect_refused")), (1, 1));
}

#[test]
fn a_wrong_key_is_said_at_both_ends() {
    let _alone = alone();
    let (a, b, _forward) = rootless("wrong", "127.0.0.1:1", true);
    let own = a.status().public_key;
    a.wait_log(&format!("does not know our public key: make it the public_key of this gateway there ({own})"));
    b.wait_log(&format!("calls with the key {own}, which no [[peer]] has"));
    // real time: 6 s, in which a second line would be written
    pause(std::time::Duration::from_secs(6));
    assert_eq!(a.log().matches("does not answer").count(), 1, "once and in one text:\n{}", a.log());
    assert_eq!(b.log().matches(&own).count(), 1, "{}", b.log());
    let cause = a.status().peers[0].cause.clone().unwrap();
    assert!(cause.contains("does not know our public key"), "{cause}");
    assert!(!a.status().peers[0].up);
}

#[test]
fn an_unknown_key_at_a_remembered_address_is_reported() {
    let _alone = alone();
    let (dir, there) = (folder("recalled"), folder("stranger"));
    let (a_key, b_key, port) = (key_pair(), key_pair(), free_port());
    let listen = |port| format!("listen = \"127.0.0.1:{port}\"");
    let stranger = peer_table(&key_pair(), "stranger", "");
    let _b = start_as_nobody(&write_config(&there, "b", &b_key, &listen(port), &stranger));
    let config = write_config(&dir, "a", &a_key, &listen(free_port()), &peer_table(&b_key, "b", ""));
    std::fs::write(dir.join("a.epoch.peers"), format!("{} 127.0.0.1:{port}\n", b_key.public)).unwrap();
    let a = start_as_nobody(&config);
    a.wait_log(&format!("the gateway at 127.0.0.1:{port} does not know our public key"));
}

#[test]
fn an_unreachable_peer_is_said_once() {
    let _alone = alone();
    let dir = folder("unreachable");
    let peer = peer_table(&key_pair(), "b", &format!("address = \"127.0.0.1:{}\"", free_port()));
    let config = write_config(&dir, "a", &key_pair(), &format!("listen = \"127.0.0.1:{}\"", free_port()), &peer);
    let a = start_as_nobody(&config);
    a.wait_log("peer 'b' does not answer: the host at 127.0.0.1");
    // real time: 2 s, in which a second line would be written
    pause(std::time::Duration::from_secs(2));
    assert_eq!(a.log().matches("does not answer").count(), 1, "{}", a.log());
    a.wait_log("nothing listens on that UDP port");
}

/// Resident memory in KiB and CPU ticks used so far (proc(5)).
fn usage(pid: u32) -> (u64, u64) {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (pages * 4, fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

/// Rounds of 5,000 datagrams until a million are judged; 200 would do if the socket lost none.
const ROUNDS_MAX: usize = 2_000;

#[test]
fn strangers_get_no_answer_and_no_memory() {
    let _alone = alone();
    let dir = folder("strangers");
    let port = free_port();
    let config = write_config(
        &dir,
        "a",
        &key_pair(),
        &format!("listen = \"127.0.0.1:{port}\""),
        &peer_table(&key_pair(), "b", ""),
    );
    let a = start_as_nobody(&config);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(("127.0.0.1", port)).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let noise = pattern(1 << 16, 11);
    let flood = |count: usize| {
        for i in 0..count {
            // All lengths and all first bytes, so that every kind of datagram is tried with a wrong seal.
            let at = i * 7 % (noise.len() - 1500);
            let mut datagram = noise[at..at + 1 + i % 1400].to_vec();
            datagram[0] = (i / 1400) as u8;
            let _ = stranger.send(&datagram);
        }
    };
    flood(10_000);
    wait_for("the first datagrams to be counted", || a.counter("datagrams_received") + dropped(&a) > 0);
    let (before, _) = usage(a.child.id());
    // What a full socket drops was not judged: go on until a million were.
    let judged_before = dropped(&a);
    let judged = || dropped(&a) - judged_before;
    for _ in 0..ROUNDS_MAX {
        flood(5_000);
        if judged() >= 1_000_000 {
            break;
        }
    }
    let (after, _) = usage(a.child.id());
    assert!(judged() >= 1_000_000, "{}", a.status());
    assert!(after <= before + 1024, "resident memory grew from {before} to {after} KiB");
    let answer = stranger.recv(&mut [0; 1500]).map_err(|e| e.kind());
    assert_eq!(answer, Err(ErrorKind::WouldBlock), "a stranger was answered");
}

/// Everything the gateway dropped.
fn dropped(daemon: &Daemon) -> u64 {
    daemon.status().counters.iter().filter(|c| c.name.starts_with("dropped_")).map(|c| c.value).sum()
}

#[test]
fn an_idle_gateway_sleeps() {
    let _alone = alone();
    let (a, b, forward) = rootless("idle", "127.0.0.1:1", false);
    let mut stream = TcpStream::connect(&forward).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(stream.read(&mut [0; 8]).is_err());
    // real time: 5 s, of which three are measured
    pause(std::time::Duration::from_secs(2));
    let before = usage(a.child.id()).1 + usage(b.child.id()).1;
    pause(std::time::Duration::from_secs(3));
    let ticks = usage(a.child.id()).1 + usage(b.child.id()).1 - before;
    // Ticks are 10 ms: two daemons may use 5 % of one processor together, and a spinning one uses 300 of them.
    assert!(ticks <= 15, "{ticks} ticks in 3 s");
}
