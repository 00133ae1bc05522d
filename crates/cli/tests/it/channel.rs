//! `wavelane channel`: datagrams over a scenario's channel.

use crate::common::{Place, WAVELANE, err, scenarios, wavelane};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// Datagrams each way.
const SENT: u32 = 400;

#[expect(clippy::disallowed_methods, reason = "the channel keeps real time")]
fn now() -> Instant {
    Instant::now()
}

/// The program, ended by the test whatever happens.
struct Running(Child, BufReader<ChildStderr>, u16);

impl Running {
    fn start(args: &[&str], to: u16) -> Self {
        Self::start_named(args, to, "air")
    }
    fn start_named(args: &[&str], to: u16, name: &str) -> Self {
        let mut command = Command::new(WAVELANE);
        command.arg("channel").args(args).args(["--listen=127.0.0.1:0", &format!("--to=127.0.0.1:{to}")]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(&format!(" over channel '{name}'")), "{line}");
        let port = line.split_once("127.0.0.1:").unwrap().1.split_once(" -> ").unwrap().0;
        Self(child, said, port.parse().unwrap())
    }
    /// Waits until it has said each of these.
    fn hears(&mut self, wanted: &[&str]) {
        let mut said = String::new();
        while !wanted.iter().all(|words| said.contains(words)) {
            assert!(self.1.read_line(&mut said).unwrap() > 0, "{said}");
        }
    }
    /// What it says when a signal ends it.
    fn end(mut self) -> String {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut said = String::new();
        self.1.read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Which of the datagrams that `from` sends to `to` arrive at `at`, and the shortest time that one takes.
fn cross(from: &UdpSocket, to: std::net::SocketAddr, at: &UdpSocket) -> (Vec<u32>, Duration, std::net::SocketAddr) {
    let (mut came, mut least, mut by) = (Vec::new(), Duration::MAX, to);
    for number in 0..SENT {
        let sent = now();
        from.send_to(&number.to_be_bytes(), to).unwrap();
        // Every tenth is waited for, so that the queue takes them all; the delay is 5 ms.
        at.set_read_timeout(Some(Duration::from_millis(if number % 10 == 9 { 100 } else { 1 }))).unwrap();
        let mut bytes = [0; 16];
        while let Ok((len, from)) = at.recv_from(&mut bytes) {
            assert_eq!(len, 4);
            let got = u32::from_be_bytes(bytes[..4].try_into().unwrap());
            came = [came, vec![got]].concat();
            by = from;
            if got == number {
                least = least.min(now().duration_since(sent));
                break;
            }
        }
    }
    (came, least, by)
}

#[test]
fn datagrams_meet_the_losses_and_the_delay_of_the_channel() {
    let file = scenarios().join("links/loss-20.toml").display().to_string();
    let settings = ["--set", "air.forward.delay=5 ms"];
    let (caller, called) = (socket(), socket());
    let mut running = Running::start(&[&[file.as_str()], &settings[..]].concat(), called.local_addr().unwrap().port());
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], running.2));
    let (there, least, by) = cross(&caller, listen, &called);
    assert!((240..=380).contains(&there.len()), "{} of {SENT} arrive; a fifth is lost", there.len());
    assert!(least >= Duration::from_millis(5), "{least:?}");
    let (back, ..) = cross(&called, by, &caller);
    assert!((240..=380).contains(&back.len()), "{} of {SENT} come back", back.len());
    // More than a packet of 1500 octets has no way; what is no answer of the program called comes from nobody; answers stay the caller's.
    caller.send_to(&[0; 1473], listen).unwrap();
    let stranger = socket();
    stranger.send_to(b"stranger", by).unwrap();
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    other.send_to(b"other", listen).unwrap();
    running.hears(&["a datagram of 1473 octets has no way", "127.0.0.2:"]);
    let said = running.end();
    assert!(
        said.contains("offered: forward 12.") && said.contains(" kB, reverse 12.") && said.contains(" kB, in "),
        "{said}"
    );
    assert!(said.contains("datagrams of other callers: 1\ndropped datagrams of more than 1,472 octets: 1"), "{said}");
    called.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(called.recv_from(&mut [0; 2000]).is_err() && caller.recv_from(&mut [0; 2000]).is_err());
}

/// A mobile's channels are the run's: before it is there nothing crosses the second, and once it left nothing the first.
#[test]
fn channels_of_a_mobile_are_dead_while_it_is_elsewhere() {
    let file = scenarios().join("links/handover.toml").display().to_string();
    let (caller, called) = (socket(), socket());
    let to = called.local_addr().unwrap().port();
    for (name, moves, crosses) in
        [("near", "50 s", true), ("near", "1 ms", false), ("away", "1 ms", true), ("away", "50 s", false)]
    {
        let moves = format!("mobility.m.at={moves}");
        let args = [&file, "--channel", name, "--set", "duration=1 h", "--set", "mobility.m.gap=1 ms", "--set", &moves];
        let running = Running::start_named(&args, to, name);
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], running.2));
        // real time: 0.05 s, long after the first move and long before the second; then 0.4 s where nothing is to come
        called.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(called.recv_from(&mut [0; 16]).is_err());
        let came = (0..20u32).any(|number| {
            caller.send_to(&number.to_be_bytes(), listen).unwrap();
            called.set_read_timeout(Some(Duration::from_millis(if crosses { 500 } else { 20 }))).unwrap();
            called.recv_from(&mut [0; 16]).is_ok()
        });
        assert_eq!(came, crosses, "{name}, {moves}");
        running.end();
        // What is late is no answer of the next.
        called.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        while called.recv_from(&mut [0; 16]).is_ok() {}
    }
}

#[test]
fn what_cannot_be_a_channel_is_refused() {
    let file = scenarios().join("links/loss-20.toml").display().to_string();
    let refused = |more: &[&str], why: &str| {
        let o = wavelane(&[&["channel", file.as_str(), "--listen", "127.0.0.1:0"], more].concat());
        assert!(o.status.code() == Some(2) && err(&o).contains(why), "{}", err(&o));
    };
    refused(&["--to", "127.0.0.1:9", "--channel", "sea"], "no channel 'sea': it has lan_client, air, lan_server");
    refused(&["--to", "127.0.0.1"], "write HOST:PORT");
    refused(&["--to", "127.0.0.1:70000"], "--to 127.0.0.1:70000: invalid port value; write HOST:PORT");
    refused(&["--to", "nowhere.invalid:9"], "; correct the name, or write its address");
    refused(&["--to", "127.0.0.1:0"], "name its host and port");
    let place = Place::new("two-channels");
    let two = place.file("two.toml", &std::fs::read_to_string(&file).unwrap().replace(
        "[channels.lan_server]\npreset = \"ethernet\"", "[channels.lan_server]\nkind = \"cable\"\nreverse = \"same\"\nforward = { rate = \"1 Mbit/s\", delay = \"1 ms\", queue = \"9 kB\" }"));
    let o = wavelane(&["channel", &two, "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"]);
    assert!(err(&o).contains("Say --channel with one of lan_client, air, lan_server"), "{}", err(&o));
}
