//! The cure as the guide types it, between network namespaces: a line of 6 Mbit/s whose box lets a second wait.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const WAVELANE: &str = env!("CARGO_BIN_EXE_wavelane");

/// A network namespace that ends with the test.
struct Place(Child);

impl Place {
    fn new() -> Option<Self> {
        let holder = Command::new("unshare").args(["-n", "sleep", "600"]).stdin(Stdio::null()).spawn().ok()?;
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let place = Self(holder);
        for _ in 0..200 {
            match std::fs::read_link(format!("/proc/{}/ns/net", place.0.id())) {
                Ok(its) if its != own => return Some(place),
                Ok(_) => pause(10),
                Err(_) => return None,
            }
        }
        None
    }
    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.id().to_string(), "-n"]).args(line).stdin(Stdio::null());
        command
    }
    fn sh(&self, script: &str) -> String {
        let out = self.command(&["sh", "-ec", script]).output().unwrap();
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends what the cure started, should the test fail before that is taken back.
struct Ending(PathBuf);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.join("shaper.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[expect(clippy::disallowed_methods, reason = "a real process is given time")]
fn pause(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

/// The commands of the guide's section, by where they are typed.
fn guide() -> Vec<(String, Vec<String>)> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/home.md")).unwrap();
    let section = page.split("## The cure\n").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let block = |text: &str| {
        let mut lines =
            text.split("```").next().unwrap().lines().map(|l| l.split("  #").next().unwrap().trim().to_owned());
        (lines.next().unwrap(), lines.filter(|l| !l.is_empty()).collect())
    };
    section.split("```sh\n").skip(1).map(block).collect()
}

fn traces(home: &Place) -> String {
    home.sh("iptables -t mangle -S 2>&1; tc qdisc show; nft list ruleset")
}

fn document(o: &Output) -> Value {
    let err = String::from_utf8_lossy(&o.stderr);
    serde_json::from_slice(&o.stdout).unwrap_or_else(|e| panic!("one JSON document on standard output: {e}\n{err}"))
}

/// A home, the box that its line of 6 Mbit/s leads through, and a machine beyond; `None`, with the reason said, if that cannot be had.
fn line() -> Option<[Place; 3]> {
    let daemon = Path::new(WAVELANE).with_file_name("wavelaned");
    let places = || Some([Place::new()?, Place::new()?, Place::new()?]);
    let Some([home, modem, beyond]) = places().filter(|_| daemon.exists()) else {
        eprintln!("SKIPPED (1 test): the cure needs root to make network namespaces, and {}", daemon.display());
        return None;
    };
    let wire = |x: &Place, y: &Place, name: &str, addresses: [&str; 2]| {
        x.sh(&format!(
            "ip link add {name} type veth peer name {name} netns {}; ip addr add {}/24 dev {name}; ip link set {name} up; ip link set lo up",
            y.0.id(),
            addresses[0]
        ));
        y.sh(&format!("ip addr add {}/24 dev {name}; ip link set {name} up; ip link set lo up", addresses[1]));
    };
    wire(&home, &modem, "lan0", ["10.8.0.2", "10.8.0.1"]);
    wire(&modem, &beyond, "line0", ["192.0.2.1", "192.0.2.7"]);
    modem
        .sh("echo 1 > /proc/sys/net/ipv4/ip_forward; tc qdisc add dev line0 root tbf rate 6mbit burst 3200 latency 1s");
    home.sh("ip route add default via 10.8.0.1");
    beyond.sh("ip route add default via 192.0.2.1");
    Some([home, modem, beyond])
}

/// Through a carrier's NAT no ICMP timestamps come back. The probe server's time shows which way the queue is; the rate follows it.
#[test]
fn a_moving_cure_behind_a_carriers_nat_asks_the_probe_server() {
    let Some([home, modem, beyond]) = line() else { return };
    modem
        .sh("nft 'table ip cgnat { chain post { type nat hook postrouting priority 100; oifname line0 masquerade; }; \
         chain f { type filter hook forward priority 0; icmp type { timestamp-request, timestamp-reply } drop; }; }'");
    let folder = std::env::temp_dir().join(format!("wavelane-cure-cgnat-{}", std::process::id()));
    let file: PathBuf = folder.join("shaper.toml");
    let _ending = Ending(folder.clone());
    let mut server = beyond.command(&[WAVELANE, "probe", "serve"]).stderr(Stdio::null()).spawn().unwrap();
    pause(500);
    let cure = |more: &[&str]| {
        let all = [&[WAVELANE, "cure"], more, &["--file", file.to_str().unwrap()]].concat();
        let out = home.command(&all).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        out
    };
    let applied = document(&cure(&["192.0.2.7", "--moving", "--yes", "--seconds", "10", "--json"]));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("reflector = \"192.0.2.7:4783\"\n"), "{text}");
    let log = std::fs::read_to_string(file.with_extension("log")).unwrap();
    assert!(!log.contains("does not answer") && !log.contains("timestamps"), "{log}");
    let rise = |phases: &Value| {
        let up = phases.as_array().unwrap().iter().find(|p| p["phase"] == "up").unwrap();
        (up["rise_ms"].as_f64().unwrap(), up["goodput_bps"].as_f64().unwrap())
    };
    let (before, after) = (rise(&applied["measured"]), rise(&applied["after"]));
    println!("the upload's rise and rate: {before:?} before, {after:?} after");
    assert!(before.0 > 100.0 && after.0 < before.0 / 2.0, "{before:?} before, {after:?} after");
    // A machine whose timestamps come back is asked by them, and needs no server of ours from then on.
    cure(&["--undo"]);
    modem.sh("nft flush chain ip cgnat f");
    let proposed = cure(&["192.0.2.7", "--moving", "--seconds", "5"]);
    let proposed = String::from_utf8_lossy(&proposed.stdout);
    assert!(proposed.contains("reflector = \"192.0.2.7\"\n"), "{proposed}");
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn the_guides_cure_works_as_written() {
    let Some([home, _modem, beyond]) = line() else { return };
    let before = traces(&home);
    let folder = std::env::temp_dir().join(format!("wavelane-cure-cli-{}", std::process::id()));
    let file: PathBuf = folder.join("shaper.toml");
    let _ending = Ending(folder);
    let mut server = None;
    let mut seen = Vec::new();
    for (place, lines) in guide() {
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            assert!(line.starts_with("wavelane "), "the guide uses '{line}', which this test does not know");
            if place.starts_with("# beyond the line") {
                let mut command = beyond.command(&[&[WAVELANE], &words[..]].concat());
                server = Some(command.stderr(Stdio::null()).spawn().unwrap());
                pause(500);
                continue;
            }
            assert!(place.starts_with("# at home"), "a block begins with '{place}', not with where it is typed");
            // The usual place is the machine's own.
            let mut all = [&[WAVELANE], &words[..], &["--json", "--file", file.to_str().unwrap()]].concat();
            if !words.contains(&"--undo") {
                all.extend(["--seconds", "5"]);
            }
            let out = home.command(&all).output().unwrap();
            assert_eq!(out.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&out.stderr));
            seen.push((line, document(&out), traces(&home)));
        }
    }
    let mut server = server.unwrap();
    let _ = server.kill();
    let _ = server.wait();
    let [(_, proposed, untouched), (_, applied, set), (_, undone, after)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((untouched, after), (&before, &before));
    assert_ne!(set, &before);
    assert_eq!((&proposed["format"], &undone["format"]), (&"wavelane-cure/1".into(), &"wavelane-cure/1".into()));
    assert_eq!((&proposed["applied"], &applied["applied"]), (&false.into(), &true.into()));
    let one = &proposed["proposed"][0];
    assert_eq!((&one["interface"], &one["direction"]), (&"lan0".into(), &"up".into()));
    let rate = one["rate_bps"].as_f64().unwrap();
    assert!((4.3e6..5.7e6).contains(&rate), "nine tenths of what 6 Mbit/s of Ethernet carry: {rate}");
    let rise = |phases: &Value| {
        let up = phases.as_array().unwrap().iter().find(|p| p["phase"] == "up").unwrap();
        up["rise_ms"].as_f64().unwrap()
    };
    let (long, short) = (rise(&applied["measured"]), rise(&applied["after"]));
    println!("the upload's rise: {long:.1} ms before, {short:.1} ms after");
    assert!(long > 100.0 && short < 30.0, "{long} ms before, {short} ms after");
    assert!(!file.exists());
}

/// A measurement takes its time, and holds whatever becomes of the shaper.
#[test]
fn a_shaper_that_does_not_start_leaves_the_measurement() {
    let Some(home) = Place::new() else {
        return eprintln!("SKIPPED (1 test): the cure needs root to make network namespaces");
    };
    home.sh("ip link set lo up; tc qdisc add dev lo root tbf rate 6mbit burst 70000 latency 500ms");
    let folder = std::env::temp_dir().join(format!("wavelane-cure-kept-{}", std::process::id()));
    let _ending = Ending(folder.clone());
    let file = folder.join("shaper.toml");
    let mut server = home.command(&[WAVELANE, "probe", "serve"]).stderr(Stdio::null()).spawn().unwrap();
    pause(500);
    let line = [WAVELANE, "cure", "127.0.0.1", "--yes", "--json", "--seconds", "4", "--interface", "lo", "--file"];
    let mut command = home.command(&[&line[..], &[file.to_str().unwrap()]].concat());
    let out = command.env("WAVELANED", "/bin/false").output().unwrap();
    let _ = server.kill();
    let _ = server.wait();
    let (said, kept) = (String::from_utf8_lossy(&out.stderr), document(&out));
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("wavelaned ended and said nothing"), "{said}");
    assert_eq!((&kept["applied"], kept["proposed"][0]["interface"].as_str()), (&false.into(), Some("lo")), "{kept}");
    assert!(!file.exists() && !file.with_extension("log").exists(), "nothing is left of it");
}

/// Ctrl-C while the shaper starts: that goes on, the second measurement ends at once, and the user learns what stays.
#[test]
fn an_interrupt_during_the_set_up_ends_the_second_measurement() {
    let Some(home) = Place::new() else {
        return eprintln!("SKIPPED (1 test): the cure needs root to make network namespaces");
    };
    home.sh("ip link set lo up; tc qdisc add dev lo root tbf rate 6mbit burst 70000 latency 500ms");
    let folder = std::env::temp_dir().join(format!("wavelane-cure-interrupt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let _ending = Ending(folder.clone());
    let file = folder.join("shaper.toml");
    // In the daemon's place, one that starts when it is told to.
    let program = folder.join("daemon");
    let script = "#!/bin/sh\ncd \"${0%/*}\"\n: > begun\nwhile [ ! -e go ]; do sleep 0.05; done\n\
                  echo 'lo: shaped by a script' >&2\nexec sleep 60\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut server = home.command(&[WAVELANE, "probe", "serve"]).stderr(Stdio::null()).spawn().unwrap();
    pause(500);
    let line = [WAVELANE, "cure", "127.0.0.1", "--yes", "--json", "--seconds", "4", "--interface", "lo", "--file"];
    let mut command = home.command(&[&line[..], &[file.to_str().unwrap()]].concat());
    let mut cure = command.env("WAVELANED", &program).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !folder.join("begun").exists() && cure.try_wait().unwrap().is_none() {
        pause(20);
    }
    let interrupted = Command::new("kill").args(["-INT", &cure.id().to_string()]).status().unwrap();
    std::fs::write(folder.join("go"), "").unwrap();
    let out = cure.wait_with_output().unwrap();
    let _ = server.kill();
    let _ = server.wait();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(interrupted.success(), "it ended by itself: {said}");
    assert_eq!(out.status.code(), Some(130), "{said}");
    assert!(said.contains("what was set up stays") && said.contains("--undo"), "{said}");
    assert!(file.exists());
}

#[test]
fn what_cannot_be_set_up_is_refused_before_anything_is_measured() {
    let folder = std::env::temp_dir().join(format!("wavelane-cure-early-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let there = folder.join("shaper.toml");
    std::fs::write(&there, "").unwrap();
    for (file, part) in [(Path::new("/proc/nowhere/shaper.toml"), "run this as root"), (&there, "--undo")] {
        // Nobody answers at this address, which a measurement would say.
        let mut command = Command::new(WAVELANE);
        command.args(["cure", "192.0.2.7:9", "--yes", "--interface", "lo", "--file"]).arg(file);
        let o = command.stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.code() == Some(2) && err.contains(part), "{err}");
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--", WAVELANE, "cure", "192.0.2.7:9", "--yes"]);
    let o = command
        .args(["--interface", "lo", "--file"])
        .arg(folder.join("free.toml"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.code() == Some(2) && err.contains("setting up takes root"), "{err}");
    for flag in ["--interface", "--inside"] {
        let mut command = Command::new(WAVELANE);
        let o = command.args(["cure", "192.0.2.7:9", flag, "nowhere0"]).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.code() == Some(2) && err.contains("there is no interface nowhere0"), "{err}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
