//! Programs that people use, unchanged, through two gateways whose link loses a fiftieth of all packets each way.

use crate::common::{Daemon, World, alone, pattern, root_or_skip, wait_for};
use crate::{proxy, proxy_neighbors, proxy_places, proxy_tunnel};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wavelane_host::netns::{ChildEnd, Netns};

/// An HTTP/1.1 server of Python's own library: port, folder; TLS on port 443.
const HTTP_1_1: &str = r#"
import functools, http.server, ssl, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
port, folder = int(sys.argv[1]), sys.argv[2]
server = http.server.ThreadingHTTPServer(("10.3.0.2", port), functools.partial(Handler, directory=folder))
if port == 443:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder + "/tls.crt", folder + "/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

/// Carries its standard input and output by a connection to a proxy whose option names the server: proxy, port, option.
const NAMES_SERVER: &str = r#"
import os, socket, sys, threading
far = socket.socket()
option = bytes.fromhex(sys.argv[3])
far.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, option + bytes(-len(option) % 4))
far.connect((sys.argv[1], int(sys.argv[2])))
def up():
    while part := os.read(0, 65536):
        far.sendall(part)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while part := far.recv(65536):
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
"#;

/// What a tool needs to be there; without it the test is skipped, loudly.
fn has(test: &str, tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().filter(|tool| find(tool).is_none()).collect();
    if !missing.is_empty() {
        eprintln!(
            "SKIPPED (1 test): {test} needs {missing:?}: apt-get install curl openssl nghttp2-server python3 openssh-client dropbear-bin rsync iperf3"
        );
    }
    missing.is_empty()
}

fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').map(|folder| Path::new(folder).join(tool)).find(|file| file.is_file())
}

/// A server program; killed with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Lossy {
    world: World,
    _daemons: Vec<Daemon>,
}

impl Lossy {
    fn new(tag: &str) -> Self {
        let world = World::new(tag);
        for ns in [&world.a, &world.b] {
            world.sh(
                ns,
                "nft 'add table ip lossy; add chain ip lossy in { type filter hook prerouting priority -400; }; \
                 add rule ip lossy in iifname wan0 udp dport 4780 numgen random mod 50 == 0 drop'",
            );
        }
        let (a, b) = world.start_both("", "interfaces = [\"lan0\"]");
        Self { world, _daemons: vec![a, b] }
    }
    /// A proxy on a bridge in place of the gateways.
    fn bridged(tag: &str) -> Self {
        let world = World::new(tag);
        proxy_places::bridge(&world);
        let proxy = proxy_places::start(&world, "");
        Self { world, _daemons: vec![proxy] }
    }

    /// A proxy to which the client's packets come within packets.
    fn tunnelled(tag: &str) -> (Self, Server) {
        let world = World::new(tag);
        let end = Server(proxy_tunnel::other_end(&world));
        let proxy = proxy_tunnel::start(&world, "kernel");
        (Self { world, _daemons: vec![proxy] }, end)
    }
    /// A proxy that claims the addresses of the client's router, and the client's.
    fn claimed(tag: &str) -> (Self, Netns) {
        let world = World::new(tag);
        let switch = proxy_neighbors::switch(&world);
        let proxy = proxy_neighbors::start(&world, "userspace");
        // Until hosts that ask for the first time have heard the last word, connections go plainly.
        world.sh(&world.client, "ping -c 1 -W 60 10.3.0.2");
        let here = proxy_neighbors::mac(&world, &world.a, "lan0");
        wait_for("both ends to be led here", || {
            let led = |ns, address| proxy_neighbors::believes(&world, ns, address, &here);
            led(&world.client, "10.1.0.254") && led(&world.b, "10.1.0.2")
        });
        (Self { world, _daemons: vec![proxy] }, switch)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.world.dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Starts a server program and waits until it listens on `port`.
    fn serve(&self, program: &str, args: &[&str], port: u16) -> Server {
        let mut command = Command::new(find(program).unwrap());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(self.world.dir.join(format!("{program}.err"))).unwrap());
        let server = Server(self.world.server.spawn(command, ChildEnd::Kill).unwrap().unwrap());
        let said = || std::fs::read_to_string(self.world.dir.join(format!("{program}.err"))).unwrap_or_default();
        wait_for(&format!("{program} to listen: {}", said()), || {
            self.world.sh(&self.world.server, "ss -ltn").contains(&format!(":{port} "))
        });
        server
    }
}

/// Runs a shell script in a namespace; panics with what it said if it fails.
fn run(world: &World, ns: &Netns, script: &str) -> String {
    world.sh(ns, script)
}

#[test]
fn curl_speaks_every_version_of_http() {
    let _alone = alone();
    let test = "curl_speaks_every_version_of_http";
    if !root_or_skip(test) || !has(test, &["curl", "nghttpd", "openssl", "python3"]) {
        return;
    }
    speak_http(&Lossy::new("curl"));
}

fn speak_http(lossy: &Lossy) {
    let dir = lossy.world.dir.display().to_string();
    let data = pattern(3_000_000, 11);
    lossy.file("file", &data);
    run(
        &lossy.world,
        &lossy.world.server,
        &format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=10.3.0.2 -keyout {dir}/tls.key -out {dir}/tls.crt 2>/dev/null"
        ),
    );
    let script = lossy.file("serve.py", HTTP_1_1.as_bytes());
    let _plain = lossy.serve("python3", &[script.to_str().unwrap(), "80", &dir], 80);
    let _sealed = lossy.serve("python3", &[script.to_str().unwrap(), "443", &dir], 443);
    let (key, cert) = (format!("{dir}/tls.key"), format!("{dir}/tls.crt"));
    let _second = lossy.serve("nghttpd", &["-a", "10.3.0.2", "-d", &dir, "8443", &key, &cert], 8443);
    for (version, flags, url) in [
        ("1.1", "--http1.1", "http://10.3.0.2/file"),
        ("1.1", "--http1.1 -k", "https://10.3.0.2/file"),
        ("2", "--http2 -k", "https://10.3.0.2:8443/file"),
    ] {
        let got = run(
            &lossy.world,
            &lossy.world.client,
            &format!("curl -sS --max-time 30 {flags} -o {dir}/got -w '%{{http_version}} %{{http_code}}' {url}"),
        );
        assert_eq!(got, format!("{version} 200"), "{flags} {url}");
        assert!(std::fs::read(lossy.world.dir.join("got")).unwrap() == data, "{flags} {url}");
    }
    // Many requests at once over one connection, and one after the other.
    let many = run(
        &lossy.world,
        &lossy.world.client,
        &format!(
            "curl -sS -k --http2 --max-time 30 -Z 'https://10.3.0.2:8443/file?[1-8]' -o '{dir}/part#1' && cat {dir}/part? | sha256sum && for i in 1 2 3 4 5 6 7 8; do cat {dir}/file; done | sha256sum"
        ),
    );
    let sums: Vec<_> = many.lines().collect();
    assert_eq!(sums[0], sums[1]);
}

#[test]
fn ssh_and_rsync_work() {
    let _alone = alone();
    let test = "ssh_and_rsync_work";
    if !root_or_skip(test) || !has(test, &["ssh", "dropbear", "dropbearkey", "rsync", "ssh-keygen", "unshare"]) {
        return;
    }
    copy_files(&Lossy::new("ssh"), "");
}

/// All that the others do, through a proxy on a bridge, which counts their connections.
#[test]
fn programs_cross_a_bridge_that_splits() {
    let _alone = alone();
    let test = "programs_cross_a_bridge_that_splits";
    if !root_or_skip(test) || !has(test, &PROGRAMS) {
        return;
    }
    cross(&Lossy::bridged("bridged"));
}

/// The same in packets of a tunnel.
#[test]
#[ignore = "make test-all: the programs of the bridge by another way"]
fn programs_cross_a_tunnel_to_a_proxy() {
    let _alone = alone();
    let test = "programs_cross_a_tunnel_to_a_proxy";
    if root_or_skip(test) && has(test, &PROGRAMS) {
        cross(&Lossy::tunnelled("tunnelled").0);
    }
}

/// The same where the proxy claims the router's address.
#[test]
#[ignore = "make test-all: the programs of the bridge by another way"]
fn programs_cross_a_proxy_that_claims_addresses() {
    let _alone = alone();
    let test = "programs_cross_a_proxy_that_claims_addresses";
    if root_or_skip(test) && has(test, &PROGRAMS) {
        cross(&Lossy::claimed("claimed").0);
    }
}

/// ssh, rsync and git by a program that names the server in an option, as it does for what cannot.
#[test]
#[ignore = "make test-all: the programs of the bridge by another way"]
fn programs_cross_a_proxy_that_an_option_leads() {
    let _alone = alone();
    let test = "programs_cross_a_proxy_that_an_option_leads";
    if !root_or_skip(test) || !has(test, &PROGRAMS) {
        return;
    }
    let world = World::new("optioned");
    let proxy = proxy_places::start_option(&world, "[\"10.3.0.0/24\"]", "");
    let named = Lossy { world, _daemons: vec![proxy] };
    let script = named.file("named.py", NAMES_SERVER.as_bytes());
    copy_files(&named, &format!("-o ProxyCommand=\"python3 {} 10.1.0.1 22 9e060a030002\"", script.display()));
    assert!(proxy::count(&named._daemons[0], "connections_taken") >= 5, "{}", proxy::report(&named._daemons[0]));
}

/// All that the others do, and git, through a proxy, which counts their connections.
fn cross(proxied: &Lossy) {
    speak_http(proxied);
    let taken = || proxy::count(&proxied._daemons[0], "connections_taken");
    let of_http = taken();
    copy_files(proxied, "");
    assert!(of_http >= 4 && taken() >= of_http + 3, "{}", proxy::report(&proxied._daemons[0]));
}

const PROGRAMS: [&str; 11] = [
    "curl",
    "nghttpd",
    "openssl",
    "python3",
    "ssh",
    "dropbear",
    "dropbearkey",
    "rsync",
    "ssh-keygen",
    "unshare",
    "git",
];

/// `more` is said to ssh, whose words stand within single quotes.
fn copy_files(lossy: &Lossy, more: &str) {
    let dir = lossy.world.dir.display().to_string();
    // The server sees a home of its own, so that no account of this machine is touched.
    run(
        &lossy.world,
        &lossy.world.server,
        &format!(
            "mkdir -p {dir}/tree/deep {dir}/home/.ssh; dropbearkey -t ed25519 -f {dir}/host >/dev/null 2>&1; \
             ssh-keygen -q -t ed25519 -N '' -f {dir}/user; cp {dir}/user.pub {dir}/home/.ssh/authorized_keys; chmod -R go= {dir}/home"
        ),
    );
    let serve = format!(
        "mount --bind {dir}/home \"$(getent passwd $(id -un) | cut -d: -f6)\" && exec dropbear -F -E -m -s -r {dir}/host -p 10.3.0.2:22 -P {dir}/pid"
    );
    let _server = lossy.serve("unshare", &["--mount", "--propagation", "private", "sh", "-c", &serve], 22);
    let user = run(&lossy.world, &lossy.world.client, "id -un").trim().to_owned();
    let ssh = format!(
        "ssh -F /dev/null -i {dir}/user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR {more}"
    );
    lossy.file("input", &pattern(2_000_000, 3));
    let sums = run(
        &lossy.world,
        &lossy.world.client,
        &format!("{ssh} {user}@10.3.0.2 sha256sum < {dir}/input; sha256sum < {dir}/input"),
    );
    let sums: Vec<_> = sums.lines().collect();
    assert_eq!(sums[0], sums[1], "what ssh carried");

    for n in 0..40 {
        lossy.file(&format!("tree/deep/{n}"), &pattern(20_000 + n, n as u32));
    }
    let copy = format!("rsync -a --timeout=20 -e '{ssh}' {dir}/tree/ {user}@10.3.0.2:{dir}/copy/");
    run(&lossy.world, &lossy.world.client, &copy);
    lossy.file("tree/deep/7", b"changed");
    run(&lossy.world, &lossy.world.client, &format!("{copy}; diff -r {dir}/tree {dir}/copy"));
    if find("git").is_some() {
        let there = format!("{user}@10.3.0.2:{dir}/repo.git");
        let push = format!(
            "export HOME={dir} GIT_CONFIG_GLOBAL=/dev/null GIT_SSH_COMMAND='{ssh}'; git init -q --bare {dir}/repo.git; cd {dir}/tree; \
             git init -q -b main; git add .; git -c user.name=a -c user.email=a@b commit -qm one; git push -q {there} main; \
             git clone -q -b main {there} {dir}/clone; diff -r -x .git {dir}/tree {dir}/clone"
        );
        run(&lossy.world, &lossy.world.client, &push);
    }
}

#[test]
fn eight_iperf3_streams_backwards_share_alike() {
    let _alone = alone();
    let test = "eight_iperf3_streams_backwards_share_alike";
    if !root_or_skip(test) || !has(test, &["iperf3"]) {
        return;
    }
    let lossy = Lossy::new("iperf");
    let _server = lossy.serve("iperf3", &["-s", "-B", "10.3.0.2"], 5201);
    let text = run(&lossy.world, &lossy.world.client, "timeout 30 iperf3 -c 10.3.0.2 -R -P 8 -t 4 -J");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["error"].is_null(), "{}", json["error"]);
    let streams = json["end"]["streams"].as_array().unwrap();
    let rates: Vec<f64> = streams.iter().map(|s| s["receiver"]["bits_per_second"].as_f64().unwrap()).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    let jain = sum * sum / (8.0 * squares);
    assert!(rates.len() == 8 && jain > 0.9, "fairness {jain:.3} of {rates:?}");
}
