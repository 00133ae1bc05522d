//! Three namespaces in a row, a - r - b, with the kernel's own TCP at the ends and what happens on the way at r.
#![expect(clippy::disallowed_methods, reason = "the kernels under test run in real time")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wavelane_host::netns::{ChildEnd, Netns, terminate};

/// What distinguishes one capture from another.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) congestion: &'static str,
    /// Octets from a to b.
    pub(crate) octets: usize,
    /// Of the token bucket filter towards b.
    pub(crate) rate: &'static str,
    pub(crate) queue: u32,
    /// Packets from a lost at random, of a thousand.
    pub(crate) loss: u32,
    /// Packets from a that are marked (RFC 3168) where they carry ECT, of a thousand.
    pub(crate) marks: u32,
    /// Packets from a that take a slower way, of a hundred.
    pub(crate) detour: u32,
    pub(crate) six: bool,
    pub(crate) snaplen: u32,
    /// Kernel settings at both ends.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    pub(crate) end: End,
    /// Connections, one after the other.
    pub(crate) connections: usize,
}

/// What the receiver does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Reads to the end and closes.
    Reads,
    /// Does not read for a while: the window closes.
    Pauses,
    /// Closes with data unread: a reset.
    Resets,
    /// Sends as much back at the same time.
    Echoes,
    /// Nobody listens.
    Refuses,
    /// Reads to the end, but nothing passes for a while.
    Outage,
}

impl Case {
    pub(crate) const PLAIN: Self = Self {
        name: "plain",
        congestion: "cubic",
        octets: 1_200_000,
        rate: "10mbit",
        queue: 30_000,
        loss: 0,
        marks: 0,
        detour: 0,
        six: false,
        snaplen: 128,
        settings: &[],
        end: End::Reads,
        connections: 1,
    };
}

/// What the sender's kernel counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) again: u64,
    pub(crate) fast: u64,
    pub(crate) slow_start: u64,
    pub(crate) timeouts: u64,
    /// Timeouts that sent nothing, for the original had not left the host yet.
    pub(crate) held_back: u64,
    pub(crate) dsacks: u64,
    /// Segments with a mark that arrived at the receiver.
    pub(crate) marked: u64,
    /// Segments that arrived, of any kind.
    pub(crate) arrived: u64,
}

/// Octets that wait on the slower way at most, and longer than it takes to send them at 3 Mbit/s. What was sent again meanwhile
/// arrives late and is answered by a D-SACK. The receiver keeps its end open until then: once it is closed, the sender's
/// kernel has a TIME-WAIT socket in place of the connection, and that counts no D-SACKs.
const DETOUR_QUEUE: u32 = 300_000;
const DETOUR_EMPTY: Duration = Duration::from_secs(1);

/// Captures at the sender and at the receiver.
pub(crate) struct Captured {
    pub(crate) sender: PathBuf,
    pub(crate) receiver: PathBuf,
    pub(crate) kernel: Kernel,
}

fn run(ns: &Netns, words: &str) {
    let mut parts = words.split_whitespace();
    let mut command = Command::new(parts.next().expect("a command has a name"));
    command.args(parts).stdout(Stdio::null());
    let child = ns.spawn(command, ChildEnd::Kill).expect("the namespace is there").expect(words);
    let status = child.wait_with_output().expect(words).status;
    assert!(status.success(), "`{words}` ended with {status}");
}

fn rules(ns: &Netns, text: &str) {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped());
    let mut child = ns.spawn(command, ChildEnd::Kill).expect("the namespace is there").expect("nft");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("nft reads");
    assert!(child.wait().expect("nft").success(), "nft refused {text}");
}

fn wire(case: &Case) -> [Netns; 3] {
    let [a, r, b] = ["a", "r", "b"].map(|n| Netns::new(n).expect("root"));
    let (ra, rb) = (a.path().display().to_string(), b.path().display().to_string());
    run(&r, &format!("ip link add r0 type veth peer name a0 netns {ra}"));
    run(&r, &format!("ip link add r1 type veth peer name b0 netns {rb}"));
    run(&r, &format!("ip link add r2 type veth peer name b1 netns {rb}"));
    for (ns, device, four, six) in [
        (&a, "a0", "10.1.0.1/24", "fd01::1/64"),
        (&r, "r0", "10.1.0.2/24", "fd01::2/64"),
        (&r, "r1", "10.2.0.2/24", "fd02::2/64"),
        (&b, "b0", "10.2.0.1/24", "fd02::1/64"),
        (&r, "r2", "10.3.0.2/24", "fd03::2/64"),
        (&b, "b1", "10.3.0.1/24", "fd03::1/64"),
    ] {
        run(ns, &format!("ip addr add {four} dev {device}"));
        run(ns, &format!("ip addr add {six} dev {device} nodad"));
        run(ns, &format!("ip link set {device} up"));
        run(ns, &format!("ethtool -K {device} tso off gso off gro off tx off"));
    }
    r.sysctl("net/ipv4/ip_forward", "1").expect("a setting");
    r.sysctl("net/ipv6/conf/all/forwarding", "1").expect("a setting");
    for device in ["all", "b0", "b1"] {
        b.sysctl(&format!("net/ipv4/conf/{device}/rp_filter"), "0").expect("a setting");
    }
    for (ns, four, six) in [(&a, "10.1.0.2", "fd01::2"), (&b, "10.2.0.2", "fd02::2")] {
        run(ns, &format!("ip route add default via {four} congctl {}", case.congestion));
        run(ns, &format!("ip -6 route add default via {six} congctl {}", case.congestion));
        for (key, value) in case.settings {
            ns.sysctl(key, value).expect("a setting");
        }
    }
    let (rate, queue) = (case.rate, case.queue);
    run(&r, &format!("tc qdisc replace dev r1 root tbf rate {rate} burst 6000 limit {queue}"));
    if case.loss > 0 {
        // A SYN that is sent again asks for no ECN (RFC 3168, section 6.1.1.1).
        let which = if case.marks > 0 { "tcp flags & syn == 0" } else { "meta l4proto tcp" };
        let drop = format!("iifname r0 {which} numgen random mod 1000 < {} drop", case.loss);
        rules(
            &r,
            &format!("table inet loss {{\n chain f {{\n type filter hook forward priority 0;\n {drop}\n }}\n}}\n"),
        );
    }
    if case.marks > 0 {
        let some = format!("iifname r0 meta l4proto tcp numgen random mod 1000 < {}", case.marks);
        let mark = ["ip", "ip6"].map(|ip| format!("{some} {ip} ecn {{ 1, 2 }} {ip} ecn set ce\n")).concat();
        rules(
            &r,
            &format!("table inet marks {{\n chain f {{\n type filter hook forward priority 0;\n {mark}\n }}\n}}\n"),
        );
    }
    if case.detour > 0 {
        run(&r, &format!("tc qdisc replace dev r2 root tbf rate 3mbit burst 2000 limit {DETOUR_QUEUE}"));
        let mark = format!("iifname r0 meta l4proto tcp numgen random mod 100 < {} meta mark set 1", case.detour);
        rules(
            &r,
            &format!("table inet way {{\n chain p {{\n type filter hook prerouting priority -150;\n {mark}\n }}\n}}\n"),
        );
        run(&r, "ip rule add fwmark 1 table 100");
        run(&r, "ip route add 10.2.0.0/24 via 10.3.0.1 table 100");
        run(&r, "ip -6 rule add fwmark 1 table 100");
        run(&r, "ip -6 route add fd02::/64 via fd03::1 table 100");
    }
    [a, r, b]
}

/// A running tcpdump.
struct Dump {
    child: Child,
    file: PathBuf,
}

/// What ends a capture: sent over UDP, so that it is known when tcpdump has written everything before it.
const LAST: &[u8] = b"wlsent";

impl Dump {
    fn start(ns: &Netns, device: &str, case: &Case, file: PathBuf) -> Self {
        let mut command = Command::new("tcpdump");
        let snaplen = case.snaplen.to_string();
        command.args(["-i", device, "-s", &snaplen, "-B", "8192", "--immediate-mode", "-U", "-Z", "root"]);
        if device == "any" {
            // tcptrace does not know the second version of Linux's cooked header.
            command.args(["-y", "LINUX_SLL"]);
        }
        command.arg("-w").arg(&file).arg("tcp or udp port 9").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = ns.spawn(command, ChildEnd::Kill).expect("the namespace is there").expect("tcpdump");
        let mut said = Vec::new();
        let mut stderr = child.stderr.take().expect("a pipe");
        while !String::from_utf8_lossy(&said).contains("listening on") {
            let mut piece = [0; 256];
            let n = stderr.read(&mut piece).expect("tcpdump speaks");
            assert!(n > 0, "tcpdump ended: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&piece[..n]);
        }
        // It says more at its end.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, file }
    }
    fn stop(mut self) -> PathBuf {
        let has_last = |file: &Path| {
            let mut bytes = Vec::new();
            File::open(file).and_then(|mut f| f.read_to_end(&mut bytes)).is_ok()
                && bytes.windows(LAST.len()).rev().take(2_000).any(|w| w == LAST)
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !has_last(&self.file) {
            assert!(Instant::now() < deadline, "{} never got its last packet", self.file.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        terminate(&self.child).expect("tcpdump is ours");
        self.child.wait().expect("tcpdump");
        self.file
    }
}

fn counters(ns: &Netns) -> Kernel {
    let read = |file: &'static str| {
        let path = format!("/proc/thread-self/net/{file}");
        ns.run(move || std::fs::read_to_string(path)).expect("the namespace is there").expect("counters")
    };
    let (own, extended) = (read("snmp"), read("netstat"));
    let value = |text: &str, group: &str, name: &str| {
        let mut lines = text.lines().filter(|l| l.starts_with(group));
        let (names, values) = (lines.next().expect(group), lines.next().expect(group));
        let found = names.split_whitespace().zip(values.split_whitespace()).find(|(n, _)| *n == name);
        found.map_or(0, |(_, v)| v.parse().expect("a number"))
    };
    let more = |name| value(&extended, "TcpExt:", name);
    Kernel {
        again: value(&own, "Tcp:", "RetransSegs"),
        fast: more("TCPFastRetrans"),
        slow_start: more("TCPSlowStartRetrans"),
        timeouts: more("TCPTimeouts"),
        held_back: more("TCPSpuriousRtxHostQueues"),
        // Of octets below the cumulative acknowledgement, and of octets above it.
        dsacks: more("TCPDSACKRecv") + more("TCPDSACKOfoRecv"),
        marked: 0,
        arrived: value(&own, "Tcp:", "InSegs"),
    }
}

/// Segments that arrived with a mark, by either IP.
fn marked(ns: &Netns) -> u64 {
    let read = |file: &'static str| {
        let path = format!("/proc/thread-self/net/{file}");
        ns.run(move || std::fs::read_to_string(path)).expect("the namespace is there").expect("counters")
    };
    let (four, six) = (read("netstat"), read("snmp6"));
    let mut lines = four.lines().filter(|l| l.starts_with("IpExt:")).map(str::split_whitespace);
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let four = names.zip(values).find(|(name, _)| *name == "InCEPkts").map(|(_, value)| value);
    let six = six.lines().find_map(|line| line.strip_prefix("Ip6InCEPkts")).map(str::trim);
    four.into_iter().chain(six).map(|value| value.parse::<u64>().expect("a number")).sum()
}

fn send(stream: &mut TcpStream, octets: usize) {
    let piece = [b'x'; 16_384];
    let mut left = octets;
    while left > 0 {
        match stream.write(&piece[..left.min(piece.len())]) {
            Ok(n) => left -= n,
            Err(_) => return, // reset
        }
    }
}

fn serve(listener: &TcpListener, case: Case) {
    for _ in 0..case.connections {
        let (mut stream, _) = listener.accept().expect("a connection");
        let back = (case.end == End::Echoes).then(|| {
            let mut other = stream.try_clone().expect("a second handle");
            std::thread::spawn(move || send(&mut other, case.octets))
        });
        if case.end == End::Pauses {
            std::thread::sleep(Duration::from_millis(700));
        }
        if case.end == End::Resets {
            let mut some = [0; 200_000];
            stream.read_exact(&mut some).expect("the beginning");
            continue; // the rest is unread
        }
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        if case.detour > 0 {
            std::thread::sleep(DETOUR_EMPTY);
        }
        if let Some(back) = back {
            back.join().expect("the way back");
        }
    }
}

fn exchange(a: &Netns, b: &Netns, case: Case) {
    let at: SocketAddr =
        if case.six { "[fd02::1]:5001".parse().expect("static") } else { "10.2.0.1:5001".parse().expect("static") };
    if case.end == End::Refuses {
        let refused = a.run(move || TcpStream::connect(at).is_err()).expect("the namespace is there");
        assert!(refused);
        return;
    }
    let listener = b.run(move || TcpListener::bind(at)).expect("the namespace is there").expect("a free port");
    let server = std::thread::spawn(move || serve(&listener, case));
    for _ in 0..case.connections {
        // On a busy machine an address may not be resolved in time (no route to host, after 3 s).
        let connect = || a.run(move || TcpStream::connect(at)).expect("the namespace is there");
        let mut stream = connect().or_else(|_| connect()).expect("a listening server");
        let reader = (case.end == End::Echoes).then(|| {
            let mut other = stream.try_clone().expect("a second handle");
            std::thread::spawn(move || std::io::copy(&mut other, &mut std::io::sink()))
        });
        send(&mut stream, case.octets);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        match reader {
            Some(reader) => drop(reader.join()),
            None => drop(stream.read_to_end(&mut rest)),
        }
    }
    server.join().expect("the server");
}

/// Nothing passes from when some data has arrived until the sender has timed out: told by the kernels' counters, for a busy
/// machine may need longer for `nft` than the transfer takes.
fn outage(r: &Netns, a: &Netns, b: &Netns) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while counters(b).arrived < 100 {
        assert!(Instant::now() < deadline, "no outage: no data arrived");
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = counters(a).timeouts;
    let drop = "iifname r0 meta l4proto tcp drop";
    rules(r, &format!("table inet outage {{\n chain f {{\n type filter hook forward priority 0;\n {drop}\n }}\n}}\n"));
    let timed_out = || counters(a).timeouts > before;
    while !timed_out() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    run(r, "nft delete table inet outage");
    assert!(timed_out(), "no outage: the sender has not timed out");
}

/// Runs a case and captures it at both ends.
pub(crate) fn capture(case: Case, directory: &Path) -> Captured {
    let [a, r, b] = wire(&case);
    let file = |end: &str| directory.join(format!("{}-{end}.pcap", case.name));
    let at_sender = Dump::start(&a, "a0", &case, file("sender"));
    // Packets that take the detour come in by another device.
    let device = if case.detour > 0 { "any" } else { "b0" };
    let at_receiver = Dump::start(&b, device, &case, file("receiver"));
    std::thread::scope(|s| {
        if case.end == End::Outage {
            s.spawn(|| outage(&r, &a, &b));
        }
        exchange(&a, &b, case);
    });
    // A lost acknowledgement of the FIN is repaired within a timeout.
    std::thread::sleep(Duration::from_millis(300));
    let kernel = Kernel { marked: marked(&b), ..counters(&a) };
    a.run(|| UdpSocket::bind("10.1.0.1:0").and_then(|s| s.send_to(LAST, "10.2.0.1:9")))
        .expect("the namespace is there")
        .expect("a datagram");
    let captured = Captured { sender: at_sender.stop(), receiver: at_receiver.stop(), kernel };
    drop(r);
    captured
}
