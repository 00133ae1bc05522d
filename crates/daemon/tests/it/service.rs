//! As a service: what a supervisor hears, what the process may still do, and whether the packaged unit lets it do that.

use crate::common::*;
use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

/// CAP_NET_ADMIN and CAP_NET_RAW.
const TWO: &str = "0000000000003000";
const NONE: &str = "0000000000000000";

fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/wavelaned.service");
    std::fs::read_to_string(path).unwrap()
}

/// A configuration that needs no privilege.
fn plain(dir: &Path) -> PathBuf {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let peer = format!("[[peer]]\nname = \"b\"\npublic_key = \"{}\"", key_pair().public);
    write_config(dir, "a", &key_pair(), &format!("listen = \"127.0.0.1:{port}\""), &peer)
}

/// Who has a port at boot keeps the gateway down for as long, and no longer.
#[test]
fn the_unit_tries_again_unless_the_configuration_is_wrong() {
    let unit = unit();
    for line in ["Restart=on-failure", "RestartPreventExitStatus=2", "StartLimitIntervalSec=0"] {
        assert!(unit.lines().any(|of| of == line), "{line}");
    }
}

#[test]
fn the_supervisor_gets_ready_watchdog_and_stopping() {
    let _alone = alone();
    let dir = folder("supervisor");
    let path = dir.join("notify");
    let ours = UnixDatagram::bind(&path).unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut command, log, control) = daemon_command(&plain(&dir));
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let mut a = Daemon { child: command.spawn().unwrap(), log, control, own_folder: Some(dir) };
    let hear = || {
        let mut buf = [0; 200];
        let n = ours.recv(&mut buf).unwrap();
        String::from_utf8_lossy(&buf[..n]).into_owned()
    };
    let first = hear();
    assert!(first.starts_with("READY=1\nSTATUS=listens on UDP 127.0.0.1:"), "{first}");
    assert!(a.control.exists(), "ready only when it can be asked");
    // The first comes by the time of the program's start.
    assert_eq!(hear(), "WATCHDOG=1");
    let started = now();
    for _ in 0..5 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    let took = started.elapsed();
    assert!((Duration::from_millis(800)..Duration::from_secs(2)).contains(&took), "every 200 ms: {took:?}");
    assert_eq!(a.stop(), Some(0));
    let said: Vec<String> = std::iter::repeat_with(hear).take_while(|s| s != "STOPPING=1").collect();
    assert!(said.iter().all(|s| s == "WATCHDOG=1"), "{said:?}");
}

/// What all threads of a process may do: effective, permitted and bounding capabilities, and whether it may gain any.
fn privileges(pid: u32) -> BTreeSet<[String; 4]> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let one = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).unwrap().trim().to_owned();
        ["CapEff:", "CapPrm:", "CapBnd:", "NoNewPrivs:"].map(field)
    };
    threads.map(|t| one(t.unwrap().path())).collect()
}

#[test]
fn after_the_start_two_capabilities_are_left_or_none() {
    let _alone = alone();
    if !root_or_skip("capabilities_left") {
        return;
    }
    let only = |which: &str| BTreeSet::from([[which, which, which, "1"].map(str::to_owned)]);
    let world = World::new("privileges");
    let a = world.start("a", "source = \"keep\"", "[intercept]\ninterfaces = [\"lan0\"]");
    assert_eq!(privileges(a.child.id()), only(TWO));
    // The program that owns the table is of no more use to whoever takes it over.
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", a.child.id())).unwrap();
    let children: Vec<u32> = children.split_whitespace().map(|c| c.parse().unwrap()).collect();
    assert!(!children.is_empty());
    let bounds = |pid: &u32| privileges(*pid).into_iter().all(|p| p[2] == TWO || p[1] == p[0]);
    assert!(children.iter().all(bounds), "{children:?}");
    // They suffice for a reload and an orderly stop.
    assert_eq!(a.reload(), None);
    let dir = folder("no-privileges");
    let (mut command, log, control) = daemon_command(&plain(&dir));
    let b = Daemon { child: command.spawn().unwrap(), log, control, own_folder: Some(dir) };
    b.wait_log("listens on UDP");
    assert_eq!(privileges(b.child.id()), only(NONE));
    assert_eq!(b.reload(), None);
}

#[test]
fn the_unit_exposes_little() {
    let Ok(there) = Command::new("systemd-analyze").arg("--version").output() else {
        eprintln!("SKIPPED (1 test): the_unit_exposes_little needs systemd-analyze");
        return;
    };
    assert!(there.status.success());
    let dir = folder("exposure");
    let path = dir.join("wavelaned.service");
    std::fs::write(&path, unit().replace("/usr/bin/wavelaned", DAEMON)).unwrap();
    // The scale goes from 0 to 100; a service without any of this has 96.
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--no-pager", "--offline=yes", "--threshold=25"]).arg(&path);
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    std::fs::remove_dir_all(dir).unwrap();
}

/// The system calls that a list of filter words stands for, as this machine's systemd knows them.
fn calls(words: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for word in words.split_whitespace() {
        if !word.starts_with('@') {
            all.insert(word.to_owned());
            continue;
        }
        let out = Command::new("systemd-analyze").args(["--no-pager", "syscall-filter", word]).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && text.lines().count() > 2, "no filter set {word}");
        let lines = text.lines().skip(1).map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        for line in lines {
            all.extend(if line.starts_with('@') { calls(line) } else { BTreeSet::from([line.to_owned()]) });
        }
    }
    all
}

/// What the unit's filter lines allow.
fn allowed() -> BTreeSet<String> {
    let text = unit();
    // Always allowed (systemd.exec(5), SystemCallFilter=).
    let mut set = calls("execve exit exit_group getrlimit rt_sigreturn sigreturn @default");
    for line in text.lines().filter_map(|l| l.strip_prefix("SystemCallFilter=")) {
        match line.strip_prefix('~') {
            Some(less) => set = &set - &calls(less),
            None => set.extend(calls(line)),
        }
    }
    set
}

/// The process that a trace begins with. It outlives a strace that is killed.
struct Traced(PathBuf);

impl Traced {
    fn pid(&self) -> Option<String> {
        Some(std::fs::read_to_string(&self.0).ok()?.split_whitespace().next()?.to_owned())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(pid) = self.pid().filter(|_| std::thread::panicking()) {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
    }
}

#[test]
fn the_unit_allows_every_system_call_of_the_daemon_and_its_tools() {
    let _alone = alone();
    if !root_or_skip("system_calls") {
        return;
    }
    if ["strace", "systemd-analyze"].iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
        eprintln!("SKIPPED (1 test): the_unit_allows_every_system_call needs strace and systemd-analyze");
        return;
    }
    let world = World::new("calls");
    let b = world.start("b", "source = \"keep\"", "");
    let rest = "[intercept]\ninterfaces = [\"lan0\"]\nlocal = true\n[tun]\naddresses = [\"10.9.0.1/24\"]";
    let config = world.write("a", Outside::V4, "source = \"keep\"\non_failure = \"closed\"", rest);
    let lanes = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\n\
                 [[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"wan0\"\naddress = \"02:00:00:00:00:0b\"\n";
    edit(&config, "address = \"10.2.0.2:4780\"\n", "");
    edit(&config, "[intercept]", &format!("{lanes}[intercept]"));
    let trace = world.dir.join("trace");
    let (daemon, log, control) = daemon_command(&config);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&trace);
    command.arg(daemon.get_program()).args(daemon.get_args()).stdin(Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let traced = Traced(trace.clone());
    let mut a = Daemon { child, log, control, own_folder: None };
    // Under strace the start and its tools take many times longer.
    a.wait_log_for("peer 'b' is up", Duration::from_secs(60));
    b.wait_log("peer 'a' is up");
    world.serve(7, echo);
    transfer_during(&world, 200_000, || {});
    let refused = world.connect(&world.client, "10.3.0.2:81").map(drop).map_err(|e| e.kind());
    assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
    let pid = traced.pid().unwrap();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-HUP");
    wait_for("the reload", || a.counter("reloads") == 1);
    signal("-TERM");
    wait_for("the end", || a.child.try_wait().unwrap().is_some());
    let text = std::fs::read_to_string(&trace).unwrap();
    let name = |line: &str| {
        let call = line.split_whitespace().nth(1)?.split('(').next()?.to_owned();
        // The rest are signals, ends and "<... resumed>".
        call.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then_some(call)
    };
    let made: BTreeSet<String> = text.lines().filter_map(name).collect();
    assert!(made.len() > 60 && made.contains("epoll_pwait2"), "{made:?}");
    let allowed = allowed();
    let denied: Vec<&String> = made.difference(&allowed).collect();
    assert!(denied.is_empty(), "the unit's filter lacks {denied:?}");
    let opened = text.lines().filter_map(|line| line.split_once(" socket(")?.1.split(',').next());
    let opened: BTreeSet<&str> = opened.collect();
    assert!(opened.contains("AF_PACKET"), "{opened:?}");
    let unit = unit();
    let families = unit.lines().find_map(|l| l.strip_prefix("RestrictAddressFamilies=")).unwrap();
    let lacking: Vec<_> = opened.iter().filter(|o| !families.split(' ').any(|family| family == **o)).collect();
    assert!(lacking.is_empty(), "the unit's RestrictAddressFamilies= lacks {lacking:?}");
}
