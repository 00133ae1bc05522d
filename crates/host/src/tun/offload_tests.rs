#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use crate::netns::{Netns, may_administer_network};
use crate::realtime;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::Span;

const MTU: usize = 1_400;

fn allowed(test: &str) -> bool {
    let yes = may_administer_network();
    if !yes {
        eprintln!("SKIPPED (needs root): {test}");
    }
    yes
}

/// A namespace with an interface in it, `10.9.0.N` and `fd09::N`.
fn end(tag: &str, n: u8, offload: bool) -> (Netns, OffloadTun) {
    let ns = Netns::new(&format!("t-{tag}{n}")).unwrap();
    let tun = ns
        .run(move || {
            let tun = OffloadTun::open("wl0", offload).unwrap();
            let lines = [
                format!("link set wl0 mtu {MTU} up"),
                format!("addr add 10.9.0.{n}/24 dev wl0"),
                format!("addr add fd09::{n}/64 dev wl0 nodad"),
            ];
            for line in lines {
                assert!(Command::new("ip").args(line.split(' ')).status().unwrap().success(), "{line}");
            }
            tun
        })
        .unwrap();
    (ns, tun)
}

/// Carries packets between the two interfaces until `stop`; every packet is given to `seen` too.
fn carry(mut a: OffloadTun, mut b: OffloadTun, stop: &AtomicBool, mut seen: impl FnMut(&[u8])) -> [Counts; 2] {
    while !stop.load(Ordering::Relaxed) {
        let soon = realtime::now() + Span::from_millis(10);
        let _ = realtime::wait(&[a.as_fd(), b.as_fd()], soon).unwrap();
        let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
        a.receive(16, |p| to_b.push(p.to_vec())).unwrap();
        b.receive(16, |p| to_a.push(p.to_vec())).unwrap();
        for (packets, to) in [(&to_b, &mut b), (&to_a, &mut a)] {
            for p in packets {
                assert!(p.len() <= MTU, "{} bytes", p.len());
                seen(p);
                to.queue(p);
            }
            to.flush();
        }
    }
    [a.counts(), b.counts()]
}

/// Four megabytes by TCP and some datagrams across; returns what passed each interface.
fn transfer(tag: &str, offload: bool, six: bool) -> ([Counts; 2], Vec<Vec<u8>>) {
    let (ns_a, a) = end(tag, 1, offload);
    let (ns_b, b) = end(tag, 2, offload);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let carrier = std::thread::spawn(move || {
        let mut sample = Vec::new();
        let counts = carry(a, b, &told, |p| {
            if sample.len() < 2_000 {
                sample.push(p.to_vec());
            }
        });
        (counts, sample)
    });
    let address = if six { "[fd09::2]:54321" } else { "10.9.0.2:54321" };
    let listener = ns_b.run(move || TcpListener::bind(address).unwrap()).unwrap();
    let datagrams = ns_b.run(move || UdpSocket::bind(address).unwrap()).unwrap();
    let sent: Vec<u8> = (0..4_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bytes = sent.clone();
    let writer = std::thread::spawn(move || {
        let mut stream = ns_a.run(move || TcpStream::connect(address).unwrap()).unwrap();
        stream.write_all(&bytes).unwrap();
        let socket = ns_a.run(move || UdpSocket::bind(if six { "[::]:0" } else { "0.0.0.0:0" }).unwrap()).unwrap();
        // UDP_SEGMENT (linux/udp.h): one send, many datagrams.
        crate::udp::set_int(&socket, libc::IPPROTO_UDP, 103, 1_000).unwrap();
        socket.send_to(&bytes[..20_500], address).unwrap();
        ns_a
    });
    let (mut stream, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    datagrams.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let mut at = 0;
    while at < 20_500 {
        let mut buf = [0; 2_000];
        let n = datagrams.recv(&mut buf).unwrap();
        assert_eq!(n, 1_000.min(20_500 - at));
        assert!(buf[..n] == sent[at..at + n]);
        at += n;
    }
    drop(writer.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    carrier.join().unwrap()
}

#[test]
fn offload_exchanges_intact_super_packets() {
    if !allowed("TUN offload") {
        return;
    }
    for six in [false, true] {
        let ([a, b], sample) = transfer(if six { "off6-" } else { "off4-" }, true, six);
        assert!(a.packets_in >= 2_800, "{a:?}");
        assert!(a.packets_in >= 5 * a.reads, "the kernel gave few super-packets: {a:?}");
        assert!(b.packets_out >= 2 * b.writes, "few segments were merged: {b:?}");
        assert_eq!([a.malformed, b.malformed, a.refused, b.refused], [0; 4]);
        judged_by_tshark(&sample);
    }
}

#[test]
fn without_offload_every_packet_is_one_call() {
    if !allowed("TUN without offload") {
        return;
    }
    let ([a, b], _) = transfer("plain-", false, false);
    assert_eq!((a.packets_in, b.packets_out), (a.reads, b.writes));
    assert!(a.packets_in >= 2_800, "{a:?}");
}

/// An independent dissector's reading of our packets: no checksum may be wrong, no length odd.
fn judged_by_tshark(packets: &[Vec<u8>]) {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED (tshark is not installed): checksums of split packets");
        return;
    }
    // libpcap's file format with link type 101, raw IP (tcpdump.org, "Link-Layer Header Types").
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002u32, 0, 0, 65_535, 101] {
        file.extend(word.to_ne_bytes());
    }
    for (i, p) in packets.iter().enumerate() {
        for word in [0, i as u32, p.len() as u32, p.len() as u32] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(p);
    }
    let path = std::env::temp_dir().join(format!("wavelane-split-{}.pcap", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let mut tshark = Command::new("tshark");
    for check in ["ip", "tcp", "udp"] {
        tshark.arg("-o").arg(format!("{check}.check_checksum:TRUE"));
    }
    tshark.arg("-r").arg(&path).args(["-T", "fields"]);
    // Status 0 is bad, 1 good, absent where there is none (an empty field, as is what tshark has no complaint about).
    let fields = ["ip", "tcp", "udp"].map(|layer| format!("{layer}.checksum.status"));
    for field in fields.iter().map(String::as_str).chain(["tcp.analysis.lost_segment", "_ws.malformed"]) {
        tshark.args(["-e", field]);
    }
    let out = tshark.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(rows.len(), packets.len());
    for (i, row) in rows.iter().enumerate() {
        let fine =
            row[..3].iter().all(|status| *status != "0") && row[3..].iter().all(|complaint| complaint.is_empty());
        assert!(fine, "tshark on packet {i}: {row:?}");
    }
    let good = rows.iter().filter(|row| row[1] == "1").count();
    assert!(good > 1_000, "tshark checked only {good} segments");
    std::fs::remove_file(&path).unwrap();
}
