//! A small world for the daemon's tests: client - gateway a - gateway b - server, each in a network namespace.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "tests; not every test file uses every part")]

pub mod placement;
pub mod tunnel;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wavelane_daemon::keys;
use wavelane_host::netns::{ChildEnd, Netns, may_administer_network, terminate};

pub const DAEMON: &str = env!("CARGO_BIN_EXE_wavelaned");
/// Longest any single wait of a test takes: on a busy machine a world of daemons takes its time.
pub const PATIENCE: Duration = Duration::from_secs(120);
pub const SERVER: &str = "10.3.0.2";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Real-time tests disturb each other; they run one by one.
pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this test can run; if not, says so where nobody can miss it.
pub fn root_or_skip(test: &str) -> bool {
    let can = may_administer_network();
    if !can {
        eprintln!("SKIPPED (1 test): {test} needs root to make network namespaces");
    }
    can
}

pub fn folder(tag: &str) -> PathBuf {
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("wl{}-{n}-{tag}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Polls until `done`, at most [`PATIENCE`].
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        pause(Duration::from_millis(20));
    }
}

#[expect(clippy::disallowed_methods, reason = "tests measure real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "polling real processes")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A running wavelaned; killed with its test.
pub struct Daemon {
    pub child: Child,
    pub log: PathBuf,
    pub control: PathBuf,
    /// A folder of its own, removed with it.
    pub own_folder: Option<PathBuf>,
}

impl Daemon {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
    pub fn wait_log(&self, text: &str) {
        self.wait_log_for(text, PATIENCE);
    }
    pub fn wait_log_for(&self, text: &str, patience: Duration) {
        let start = now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < patience, "no '{text}' in the log:\n{}", self.log());
            pause(Duration::from_millis(20));
        }
        // On a busy machine a peer may count as down first, and then the rules follow its return a moment later.
        if text.ends_with("is up") && self.log().contains("is forwarded plainly until it is back") {
            let plain = || self.status().peers.iter().any(|peer| peer.up && peer.given_back);
            wait_for("the rules to take connections to peers that are up", || !plain());
        }
    }
    /// Whether no peer went down once one was up: on a busy machine the first call may come late.
    pub fn stayed_up(&self) -> bool {
        !self.log().split_once("is up").expect("a peer was up").1.contains("is down")
    }
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    /// SIGTERM; returns the exit code.
    pub fn stop(&mut self) -> Option<i32> {
        terminate(&self.child).unwrap();
        wait_for("the daemon to stop", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
    pub fn status(&self) -> wavelane_daemon::status::Report {
        use wavelane_daemon::commands::{StatusArgs, status};
        let text =
            status(&StatusArgs { json: true, control: Some(self.control.clone()), ..StatusArgs::default() }).unwrap();
        serde_json::from_str(&text).unwrap()
    }
    pub fn hang_up(&self) {
        assert!(Command::new("kill").arg("-HUP").arg(self.child.id().to_string()).status().unwrap().success());
    }
    /// SIGHUP; waits until the daemon has read its configuration again, and returns why it refused that, if it did.
    pub fn reload(&self) -> Option<String> {
        let done = || self.counter("reloads") + self.counter("reloads_refused");
        let before = done();
        self.hang_up();
        wait_for("the reload", || done() > before);
        self.status().reload_refused
    }
    pub fn counter(&self, name: &str) -> u64 {
        self.status().counters.iter().find(|c| c.name == name).map_or(0, |c| c.value)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- {} ---\n{}", self.log.display(), self.log());
        }
        if let Some(folder) = &self.own_folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

pub struct KeyPair {
    pub private: [u8; 32],
    pub public: String,
}

pub fn key_pair() -> KeyPair {
    let private = keys::generate().unwrap();
    KeyPair { public: keys::to_base64(&keys::public_key(&private)), private }
}

/// Writes a key and a configuration into `dir`.
pub fn write_config(dir: &Path, name: &str, key: &KeyPair, gateway: &str, rest: &str) -> PathBuf {
    let key_path = dir.join(format!("{name}.key"));
    let _ = std::fs::remove_file(&key_path);
    keys::write_key(&key_path, &key.private).unwrap();
    let path = dir.join(format!("{name}.toml"));
    let text =
        format!("[gateway]\nname = \"{name}\"\nkey = \"{name}.key\"\ncontrol = \"{name}.sock\"\n{gateway}\n{rest}\n");
    std::fs::write(&path, text).unwrap();
    path
}

/// Replaces a part of a configuration file, which must be there.
pub fn edit(config: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(config).unwrap();
    assert!(text.contains(from), "no '{from}' in:\n{text}");
    std::fs::write(config, text.replacen(from, to, 1)).unwrap();
}

pub fn daemon_command(config: &Path) -> (Command, PathBuf, PathBuf) {
    let log = config.with_extension("log");
    let mut command = Command::new(DAEMON);
    command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    (command, log, config.with_extension("sock"))
}

/// The IP version between the gateways.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    V4,
    V6,
}

pub struct World {
    pub dir: PathBuf,
    pub client: Netns,
    pub a: Netns,
    pub b: Netns,
    pub server: Netns,
    pub keys: [KeyPair; 2],
}

fn sh(ns: &Netns, script: &str) -> String {
    let script = format!("set -e\n{script}");
    let name = ns.name().to_owned();
    let out: Output = ns.run(move || Command::new("sh").arg("-c").arg(script).output().unwrap()).unwrap();
    assert!(out.status.success(), "in {name}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

impl World {
    pub fn new(tag: &str) -> Self {
        let make = |n: &str| Netns::new(&format!("wl{}-{tag}-{n}", std::process::id())).unwrap();
        let world = Self {
            dir: folder(tag),
            client: make("client"),
            a: make("a"),
            b: make("b"),
            server: make("server"),
            keys: [key_pair(), key_pair()],
        };
        // Nobody else is here, so no address needs a second of asking before it may be used.
        for ns in [&world.client, &world.a, &world.b, &world.server] {
            sh(ns, "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
        }
        world.cable(&world.client, "eth0", "1.0.2", &world.a, "lan0", "1.0.1");
        world.cable(&world.a, "wan0", "2.0.1", &world.b, "wan0", "2.0.2");
        world.cable(&world.b, "lan0", "3.0.1", &world.server, "eth0", "3.0.2");
        let host = |net: u8| {
            format!("ip link set lo up; ip route add default via 10.{net}.0.1; ip route add default via fd00:{net}::1")
        };
        sh(&world.client, &host(1));
        sh(&world.server, &host(3));
        let router = |far: u8, next: u8| {
            format!(
                "ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; \
                 ip route add 10.{far}.0.0/24 via 10.2.0.{next}; ip route add fd00:{far}::/64 via fd00:2::{next}"
            )
        };
        sh(&world.a, &router(3, 2));
        sh(&world.b, &router(1, 1));
        world
    }
    /// Joins two namespaces; `1.0.2` stands for 10.1.0.2/24 and fd00:1::2/64.
    pub fn cable(&self, x: &Netns, xi: &str, xa: &str, y: &Netns, yi: &str, ya: &str) {
        let addresses = |interface: &str, short: &str| {
            let (net, host) = (&short[..1], &short[4..]);
            format!(
                "ip addr add 10.{short}/24 dev {interface}; ip addr add fd00:{net}::{host}/64 dev {interface} nodad; \
                 ip link set {interface} up"
            )
        };
        let peer = y.path().display().to_string();
        let temporary = format!("t{yi}");
        sh(x, &format!("ip link add {xi} type veth peer name {temporary} netns {peer}; {}", addresses(xi, xa)));
        sh(y, &format!("ip link set {temporary} name {yi}; {}", addresses(yi, ya)));
    }
    pub fn sh(&self, ns: &Netns, script: &str) -> String {
        sh(ns, script)
    }
    /// Starts a gateway; `extra` goes into `[gateway]`, `rest` behind the peer's table.
    pub fn start(&self, name: &str, extra: &str, rest: &str) -> Daemon {
        self.spawn(name, &self.write(name, Outside::V4, extra, rest))
    }
    /// Writes the configuration that [`World::start`] uses, with the other gateway at its address of `outside`.
    pub fn write(&self, name: &str, outside: Outside, extra: &str, rest: &str) -> PathBuf {
        let (own, other, [near, far], peer, number) = match name {
            "a" => (&self.keys[0], &self.keys[1], [1, 3], "b", 2),
            _ => (&self.keys[1], &self.keys[0], [3, 1], "a", 1),
        };
        let (address, listen) = match outside {
            Outside::V4 => (format!("10.2.0.{number}:4780"), ""),
            Outside::V6 => (format!("[fd00:2::{number}]:4780"), "listen = \"[::]:4780\""),
        };
        let rest = format!(
            "[[peer]]\nname = \"{peer}\"\npublic_key = \"{}\"\naddress = \"{address}\"\n\
             routes = [\"10.{far}.0.0/24\", \"fd00:{far}::/64\"]\n{rest}",
            other.public
        );
        let serves = format!("serves = [\"10.{near}.0.0/24\", \"fd00:{near}::/64\"]");
        write_config(&self.dir, name, own, &format!("{listen}\n{serves}\n{extra}"), &rest)
    }
    /// Starts the gateway `name` with `config`.
    pub fn spawn(&self, name: &str, config: &Path) -> Daemon {
        self.spawn_with(name, config, &[])
    }
    /// The same with more arguments.
    pub fn spawn_with(&self, name: &str, config: &Path, more: &[&str]) -> Daemon {
        let ns = if name == "a" { &self.a } else { &self.b };
        let (mut command, log, control) = daemon_command(config);
        command.args(more);
        let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let daemon = Daemon { child, log, control, own_folder: None };
        daemon.wait_log("listens on UDP");
        daemon
    }
    /// Both gateways in their usual roles, up.
    pub fn start_both(&self, extra: &str, intercept: &str) -> (Daemon, Daemon) {
        // What is born on a gateway comes from its own address, which no network behind it holds.
        let born = "allow_sources = [\"10.1.0.0/24\", \"fd00:1::/64\", \"10.2.0.1/32\", \"fd00:2::1/128\"]";
        let b = self.start("b", "source = \"keep\"", if intercept.contains("local = true") { born } else { "" });
        let a = self.start("a", extra, &format!("[intercept]\n{intercept}"));
        a.wait_log("peer 'b' is up");
        b.wait_log("peer 'a' is up");
        (a, b)
    }
    /// Everything a daemon might leave in a namespace.
    pub fn traces(&self, ns: &Netns) -> String {
        // A cable that was just made comes up in the kernel's own time, and its addresses with it.
        let start = now();
        while sh(ns, "ip -4 route show table all").contains("linkdown") && start.elapsed() < Duration::from_secs(5) {
            pause(Duration::from_millis(200));
        }
        sh(ns, "nft list ruleset; ip rule; ip -4 route show table all | sort; ip -6 rule; ip -6 route show table all | sort; iptables -t raw -S 2>&1; ip6tables -t raw -S 2>&1; iptables -t mangle -S 2>&1; iptables -S 2>&1")
            .lines()
            // Link-local addresses are the kernel's, and come when it likes.
            .filter(|l| !l.contains("expires") && !l.contains("fe80::"))
            // nft names the process that owns a table, if it still finds its name.
            .map(|l| l.split(" # progname").next().unwrap_or(l))
            .collect::<Vec<_>>()
            .join("\n")
    }
    /// A server in the server's namespace: `serve` handles each connection in a thread of its own.
    pub fn serve(&self, port: u16, serve: impl Fn(TcpStream, SocketAddr) + Send + Sync + 'static) {
        // Both IP versions.
        let address = format!("[::]:{port}");
        let listener = self.server.run(move || TcpListener::bind(address).unwrap()).unwrap();
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            while let Ok((stream, from)) = listener.accept() {
                let serve = Arc::clone(&serve);
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                std::thread::spawn(move || serve(stream, from));
            }
        });
    }
    pub fn connect(&self, ns: &Netns, target: &str) -> std::io::Result<TcpStream> {
        let target: SocketAddr = target.parse().unwrap();
        let connect = || ns.run(move || TcpStream::connect_timeout(&target, Duration::from_secs(15))).unwrap();
        // Seldom a refused socket has hung up without an error to read (cause not known): then it asks again.
        let is_wordless = |e: &std::io::Error| e.to_string().contains("no error set after POLLHUP");
        let stream = connect().or_else(|e| if is_wordless(&e) { connect() } else { Err(e) })?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Ok(stream)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Bytes that differ at every place, for telling streams apart.
pub fn pattern(length: usize, seed: u32) -> Vec<u8> {
    let mut x = seed | 1;
    let step = |_| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..length).map(step).collect()
}

/// A server that echoes until the client ends, then ends.
pub fn echo(mut stream: TcpStream, _: SocketAddr) {
    let mut buf = [0; 4096];
    while let Ok(n) = stream.read(&mut buf) {
        if n == 0 || stream.write_all(&buf[..n]).is_err() {
            break;
        }
    }
}

/// One exchange of a byte, each way.
pub fn says(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

/// Sends all and its end, and reads meanwhile to the other side's end: what came.
pub fn there_and_back(mut stream: TcpStream, data: &[u8]) -> Vec<u8> {
    let (mut half, data) = (stream.try_clone().unwrap(), data.to_vec());
    let writer = std::thread::spawn(move || {
        half.write_all(&data).unwrap();
        half.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    got
}

/// Bytes that a server of [`pour`] may have unsent. A thousand that take what the kernel gives them reach its limit for all TCP
/// (`tcp_mem`), from which on it closes and opens windows as memory comes and goes: stopped readers then read.
const POUR_UNSENT: usize = 64 << 10;

/// Sends until it fails or ends.
pub fn pour(mut stream: TcpStream) {
    socket2::SockRef::from(&stream).set_send_buffer_size(POUR_UNSENT).unwrap();
    let block = [7; 16_384];
    while stream.write_all(&block).is_ok() {}
}

/// Resident memory of a process, bytes.
pub fn resident(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Processor time of all threads of a process so far, in seconds.
pub fn processor_s(daemon: &Daemon) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.child.id())).unwrap();
    // One may end meanwhile.
    let told = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
    told.map(|text| text.split(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>() / 1e9
}

/// A transfer of `size` bytes to an echo server and back while `act` happens; every byte must come back.
pub fn transfer_during(world: &World, size: usize, act: impl FnOnce()) {
    let data = pattern(size, 5);
    let stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let copy = data.clone();
    let sender = std::thread::spawn(move || {
        for slice in copy.chunks(50_000) {
            writer.write_all(slice).unwrap();
            pause(Duration::from_millis(10));
        }
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut reader = stream;
    let receiver = std::thread::spawn(move || {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).map(|_| back)
    });
    pause(Duration::from_millis(500));
    act();
    sender.join().unwrap();
    let back = receiver.join().unwrap().unwrap();
    assert!(back == data, "{} of {} bytes came back", back.len(), data.len());
}

/// A daemon's own document, held against the committed schema.
pub fn fits_the_schema(world: &World, text: &str, schema: &str) {
    let document = world.dir.join("status.json");
    std::fs::write(&document, text).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut check = Command::new("python3");
    check.arg(root.join("vectors/check_record.py")).arg(root.join(format!("docs/schema/{schema}.schema.json")));
    match check.arg(&document).output().map(|out| (out.status.code(), out.stderr)) {
        Ok((Some(77), _)) | Err(_) => {
            eprintln!("SKIPPED (the Python module jsonschema is missing): status against its schema")
        }
        Ok((code, said)) => assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&said)),
    }
}
