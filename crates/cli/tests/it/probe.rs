//! `wavelane probe` as a user meets it, over loopback: no privileges.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

const WAVELANE: &str = env!("CARGO_BIN_EXE_wavelane");

/// A server that ends with the test.
struct Server {
    child: Child,
    at: String,
}

impl Server {
    fn start(listen: &str) -> Self {
        let mut command = Command::new(WAVELANE);
        command.args(["probe", "serve", "--listen", listen]);
        Self::of(command).0
    }
    /// The server that `command` starts, and what it says after its first line.
    fn of(mut command: Command) -> (Self, BufReader<ChildStderr>) {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        let at = line.strip_prefix("probe server on ").unwrap().split(',').next().unwrap().to_owned();
        (Self { child, at }, said)
    }
    /// Processor time that it has used, in ticks of 10 ms.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after = stat.rsplit_once(')').unwrap().1;
        after.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("wavelane-probe-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn probe(at: &str, out: &str, more: &[&str]) -> Command {
    let mut command = Command::new(WAVELANE);
    command.args(["probe", at, "--out", out, "--json", "--idle-seconds", "1", "--streams", "2"]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn document(o: &Output) -> Value {
    let err = String::from_utf8_lossy(&o.stderr);
    serde_json::from_slice(&o.stdout).unwrap_or_else(|e| panic!("one JSON document on standard output: {e}\n{err}"))
}

#[expect(clippy::disallowed_methods, reason = "a real process is given time")]
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_measurement_prints_one_document_and_keeps_a_record() {
    let server = Server::start("127.0.0.1:0");
    let out = place("whole");
    let o = probe(&server.at, &out.display().to_string(), &["--phases", "down,up", "--seconds", "2", "--dscp", "46"]);
    let o = { o }.output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    let d = document(&o);
    assert_eq!(
        (&d["format"], &d["rpm_draft"]),
        (&"wavelane-probe/1".into(), &"draft-ietf-ippm-responsiveness-09".into())
    );
    let words: Vec<&Value> = d["phases"].as_array().unwrap().iter().map(|p| &p["phase"]).collect();
    assert_eq!(words, ["idle", "down", "up"]);
    for p in &d["phases"].as_array().unwrap()[1..] {
        assert!(p["goodput_bps"].as_f64().unwrap() > 1e6 && p["foreign_p50_ms"].as_f64().unwrap() < 1_000.0, "{p}");
        assert!(p["self_p50_ms"].is_number() && p["classes"][0]["dscp"] == 46, "{p}");
    }
    for key in ["rpm", "grade", "grade_scale", "bloat_ratio", "record"] {
        assert!(!d[key].is_null(), "{key}");
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(out.join("probe.json")).unwrap()).unwrap();
    assert_eq!(kept, d);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.matches("<svg").count() >= 4 && page.contains("Grade ") && page.contains("round trips per minute"));
    for file in ["environment.json", "series/probes.csv", "series/goodput.csv", "plots/latency.png", "probe.flent.gz"] {
        assert!(std::fs::metadata(out.join(file)).unwrap().len() > 0, "{file}");
    }
    let mut import = Command::new(WAVELANE);
    import.arg("import").arg(out.join("probe.flent.gz")).arg("--json").arg("--out").arg(place("imported"));
    let read = document(&import.stdin(Stdio::null()).output().unwrap());
    let ping = read["series"].as_array().unwrap().iter().find(|s| s["name"] == "Ping (ms) ICMP").unwrap();
    assert!(read["tool"] == "flent" && ping["points"].as_u64().unwrap() > 20 && ping["p50"].is_number(), "{read}");
    std::fs::remove_dir_all(place("imported")).unwrap_or_default();
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert!(err.contains("download") && !err.contains('\u{1b}'), "plain lines where there is no terminal: {err}");
    std::fs::remove_dir_all(out).unwrap();
}

/// A certificate that is its own authority, as `openssl req -x509` makes it, for names under which nobody calls it here.
fn self_signed(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::create_dir_all(dir).unwrap();
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-subj", "/CN=probe", "-keyout"]).arg(&key).arg("-out").arg(&cert);
    let made = command.stdin(Stdio::null()).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success()).then_some((cert, key))
}

#[test]
fn a_server_of_ones_own_is_measured_over_tls() {
    let dir = place("tls");
    let Some((cert, key)) = self_signed(&dir) else {
        return eprintln!(
            "SKIPPED (1 test): a_server_of_ones_own_is_measured_over_tls needs openssl: apt-get install openssl"
        );
    };
    let mut command = Command::new(WAVELANE);
    command.args(["probe", "serve", "--listen", "127.0.0.1:0", "--tls-cert"]).arg(&cert).arg("--tls-key").arg(&key);
    let server = Server::of(command).0;
    let (url, out) = (format!("https://{}", server.at), dir.join("record").display().to_string());
    let against = ["--against", "networkquality", "--phases", "down,up", "--seconds", "2"];
    let o = probe(&url, &out, &against).arg("--ca").arg(&cert).output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    let d = document(&o);
    assert_eq!((&d["method"], &d["protocol"]), (&"networkquality".into(), &"HTTP/2 over TLS".into()));
    for p in &d["phases"].as_array().unwrap()[1..] {
        assert!(p["goodput_bps"].as_f64().unwrap() > 1e6 && p["self_p50_ms"].is_number(), "{p}");
        assert_eq!(p["self_failures"], 0, "{p}");
    }
    let requests = std::fs::read_to_string(dir.join("record/series/requests.csv")).unwrap();
    let short = requests.lines().find(|line| line.contains(",short,")).unwrap();
    assert!(short.split(',').nth(4).unwrap().parse::<f64>().unwrap() > 0.0, "TLS has its own time: {short}");
    let page = std::fs::read_to_string(dir.join("record/report.html")).unwrap();
    assert!(page.contains("--against networkquality") && page.contains("--ca"), "the command that repeats it");

    let (other, _) = self_signed(&dir.join("other")).unwrap();
    for (ca, part) in [(None, "--ca FILE"), (Some(&other), "--ca FILE"), (Some(&key), "holds no certificate")] {
        let mut command = probe(&url, &out, &against);
        if let Some(file) = ca {
            command.arg("--ca").arg(file);
        }
        let o = command.output().unwrap();
        let err = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.code() == Some(2) && err.contains(part), "{ca:?}: {err}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_authority_vouches_for_names_alone() {
    let dir = place("authority");
    let Some((cert, key)) = self_signed(&dir) else {
        return eprintln!(
            "SKIPPED (1 test): an_authority_vouches_for_names_alone needs openssl: apt-get install openssl"
        );
    };
    let line = format!(
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=s -keyout server.key -out server.csr && \
         printf 'subjectAltName=DNS:localhost' >server.ext && openssl x509 -req -in server.csr -CA {} -CAkey {} -days 2 \
         -CAcreateserial -extfile server.ext -out server.pem",
        cert.display(),
        key.display()
    );
    let made = Command::new("sh").args(["-c", &line]).current_dir(&dir).stdin(Stdio::null()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Command::new(WAVELANE);
    command.args(["probe", "serve", "--listen", "127.0.0.1:0", "--tls-cert"]).arg(dir.join("server.pem"));
    command.arg("--tls-key").arg(dir.join("server.key"));
    let server = Server::of(command).0;
    let port = server.at.rsplit_once(':').unwrap().1;
    let out = dir.join("record").display().to_string();
    for (host, code) in [("127.0.0.1", 2), ("localhost", 0)] {
        let against = ["--against", "networkquality", "--phases", "down", "--seconds", "1"];
        let o = probe(&format!("https://{host}:{port}"), &out, &against).arg("--ca").arg(&cert).output().unwrap();
        assert_eq!(o.status.code(), Some(code), "{host}: {}", String::from_utf8_lossy(&o.stderr));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_second_vantage_stands_in_the_record() {
    let (server, nearer) = (Server::start("127.0.0.1:0"), Server::start("127.0.0.1:0"));
    let out = place("vantage");
    let more = ["--phases", "down", "--seconds", "1", "--vantage", &nearer.at];
    let o = probe(&server.at, &out.display().to_string(), &more).output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    let d = document(&o);
    assert_eq!(d["vantage"]["target"], *nearer.at);
    assert!(d["vantage"]["phases"].as_array().unwrap().iter().all(|p| p["p50_ms"].is_number()), "{d}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Second vantage") && page.contains("--vantage"));
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let o = probe(&server.at, &out.display().to_string(), &["--vantage", &closed]).output().unwrap();
    let err = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.code() == Some(2) && err.contains(&closed) && err.contains("wavelane probe serve"), "{err}");
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn control_c_keeps_the_measurements() {
    let server = Server::start("127.0.0.1:0");
    let out = place("cut");
    let mut child =
        probe(&server.at, &out.display().to_string(), &["--phases", "down", "--seconds", "60"]).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("download")), "the load never began");
    // real time: 2 s, of the load, so that there is something to keep
    pause(2_000);
    interrupt(&child);
    let o = child.wait_with_output().unwrap();
    assert_eq!(o.status.code(), Some(130));
    let d = document(&o);
    assert_eq!(d["interrupted"], true);
    assert!(d["phases"][1]["goodput_bps"].is_number() && d["phases"][1]["lost_up"] == 0, "{d}");
    std::fs::remove_dir_all(out).unwrap();
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_record_that_cannot_be_written_is_named_nowhere() {
    let (server, out) = (Server::start("127.0.0.1:0"), place("nodisk"));
    let line = format!(
        "ulimit -f 4; exec {WAVELANE} probe {} --out {} --phases up --seconds 1 --idle-seconds 1 --json",
        server.at,
        out.display()
    );
    let o = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().unwrap();
    let err = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.code() == Some(2) && err.contains("--out"), "{err}");
    // The figures are printed all the same.
    let d = document(&o);
    assert!(d["record"] == "" && d["phases"][1]["goodput_bps"].is_number() && !out.exists(), "{d}");
}

#[test]
fn a_server_without_descriptors_rests_and_goes_on() {
    let found = Command::new("sh").args(["-c", "command -v prlimit"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        return eprintln!(
            "SKIPPED (1 test): a_server_without_descriptors_rests_and_goes_on needs prlimit: apt-get install util-linux"
        );
    }
    let mut command = Command::new("prlimit");
    command.args(["--nofile=48:48", WAVELANE, "probe", "serve", "--listen", "127.0.0.1:0"]);
    let (server, mut said) = Server::of(command);
    // Each takes two descriptors until it says what it wants, or its five seconds are over.
    let silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&server.at).unwrap()).collect();
    pause(500);
    let before = server.ticks();
    pause(2_000);
    let used = server.ticks() - before;
    assert!(used < 20, "{used} of 200 ticks: it spins");
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("for want of file descriptors") && line.contains("ulimit -Hn"), "{line}");
    drop(silent);
    pause(1_500);
    let out = place("descriptors");
    let o = probe(&server.at, &out.display().to_string(), &["--phases", "down", "--seconds", "1"]).output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn the_soft_limit_on_descriptors_is_raised() {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -Sn 64; exec {WAVELANE} probe serve --listen 127.0.0.1:0")]);
    let (server, _said) = Server::of(command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words[3] == words[4] && words[3] != "64", "{line}");
}

/// What a server that is not run cannot read is its own loss, and it says so when it ends.
#[test]
fn a_server_tells_what_its_socket_dropped() {
    let mut command = Command::new(WAVELANE);
    command.args(["probe", "serve", "--listen", "127.0.0.1:0"]);
    let (mut server, mut said) = Server::of(command);
    let id = server.child.id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, id.as_str()]).status().unwrap().success();
    assert!(signal("-STOP"));
    let flood = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // 24 MB, three times the largest buffer that it can have.
    for _ in 0..400 {
        flood.send_to(&[7; 60_000], &server.at).unwrap();
    }
    assert!(signal("-CONT") && signal("-INT"));
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    let last = text.lines().last().unwrap();
    let count = last.strip_prefix("dropped since the start: ").and_then(|rest| rest.split(' ').next());
    assert!(count.is_some_and(|n| (200..=400).contains(&n.parse::<u32>().unwrap())), "{text}");
    assert!(last.contains("net.core.rmem_max"), "{text}");
}

#[test]
fn a_server_that_is_started_again_is_found_again() {
    let server = Server::start("127.0.0.1:0");
    let (at, out) = (server.at.clone(), place("again"));
    let child = probe(&at, &out.display().to_string(), &["--phases", "down", "--seconds", "9"]).spawn().unwrap();
    pause(3_500);
    drop(server);
    let _server = Server::start(&at);
    let o = child.wait_with_output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    let d = document(&o);
    assert!(d["socket_drops"]["server"].is_u64() && d["socket_drops"]["own"].is_u64(), "{d}");
    assert!(d["sessions_reopened"].as_u64().unwrap() >= 1 && d["phases"][1]["goodput_bps"].is_number(), "{d}");
    std::fs::remove_dir_all(out).unwrap();
}

/// Runs a line of shell in a terminal of that kind.
fn in_a_terminal(line: &str, kind: &str) -> Output {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]).env("TERM", kind).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_terminal_is_given_back_by_a_program_that_two_signals_end_at_once() {
    let found = Command::new("sh").args(["-c", "command -v script"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        return eprintln!(
            "SKIPPED (1 test): a_terminal_is_given_back_by_a_program_that_two_signals_end_at_once needs script: apt-get install bsdutils"
        );
    }
    let server = Server::start("127.0.0.1:0");
    let out = place("twice");
    // Both signals are there before the program can do anything about the first.
    let line = format!(
        "{WAVELANE} probe {} --out {} --phases up --seconds 20 & p=$!; sleep 2; \
         kill -STOP $p; kill -TERM $p; kill -HUP $p; kill -CONT $p; wait $p; echo ended $?",
        server.at,
        out.display()
    );
    let o = in_a_terminal(&line, "xterm");
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(text.contains("\u{1b}[?1049h") && text.contains("ended 130"), "{text:?}");
    assert!(text.contains("\u{1b}[?1049l") && text.contains("\u{1b}[?25h"), "{text:?}");
    let o = in_a_terminal(
        &format!("{WAVELANE} probe {} --out {} --phases up --seconds 1 --idle-seconds 1", server.at, out.display()),
        "dumb",
    );
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(o.status.success() && text.contains("upload") && !text.contains('\u{1b}'), "{text:?}");
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_terminal_shows_the_screen_and_is_given_back() {
    let found = Command::new("sh").args(["-c", "command -v script"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        return eprintln!(
            "SKIPPED (1 test): a_terminal_shows_the_screen_and_is_given_back needs script: apt-get install bsdutils"
        );
    }
    let server = Server::start("127.0.0.1:0");
    let out = place("screen");
    let line = format!(
        "stty rows 30 cols 100; {WAVELANE} probe {} --out {} --phases up --seconds 2 --idle-seconds 1",
        server.at,
        out.display()
    );
    let o = in_a_terminal(&line, "xterm");
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(o.status.success(), "{text}");
    let (enter, leave) = (text.find("\u{1b}[?1049h").unwrap(), text.rfind("\u{1b}[?1049l").unwrap());
    let screen = &text[enter..leave];
    // Only cells that change are written, and no blanks: words of the first picture stand whole.
    for part in ["127.0.0.1", "before", "Mbit/s", "Ctrl-C"] {
        assert!(screen.contains(part), "{part} in {screen:?}");
    }
    assert!(text[leave..].contains("Grade ") && text[leave..].contains("report.html"), "{}", &text[leave..]);
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn probe_errors_name_a_remedy() {
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let server = Server::start("127.0.0.1:0");
    for (args, part) in [
        (vec!["probe", closed.as_str()], "wavelane probe serve"),
        (vec!["probe", server.at.as_str(), "--interval", "2", "--dscp", "8,46,10"], "2000: choose a longer --interval"),
        (vec!["probe", "no.such.host.invalid"], "cannot find"),
        (vec!["probe", "127.0.0.1", "--congestion", "no_such"], "tcp_allowed_congestion_control"),
        (vec!["probe", "127.0.0.1", "--phases", "up,up"], "twice"),
        (vec!["probe", "127.0.0.1", "--ca", "/etc/hostname"], "--against networkquality"),
        (vec!["probe", "https://127.0.0.1", "--against", "networkquality", "--ca", "/nowhere.pem"], "/nowhere.pem"),
        (vec!["probe", "https://127.0.0.1"], "--against networkquality"),
        (vec!["probe", "https://127.0.0.1", "--against", "networkquality", "--dscp", "46"], "UDP probes"),
        (vec!["probe", "127.0.0.1", "--out", env!("CARGO_MANIFEST_DIR")], "no probe's record"),
        (vec!["probe", "serve", "--session-seconds", "0"], "1.."),
        (vec!["probe", "serve", "--sessions", "0"], "1.."),
        (vec!["probe"], "TARGET"),
    ] {
        let o = Command::new(WAVELANE).args(&args).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}
