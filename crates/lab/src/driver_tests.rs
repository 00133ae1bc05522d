#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use crate::ONE_AT_A_TIME;
use crate::tools::ip;
use std::net::UdpSocket;
use std::time::Duration;
use wavelane_base::{Transmit, Wakeup};
use wavelane_host::netns::{Netns, may_administer_network};

fn udp_packet() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend_from_slice(&[0x03, 0xe8, 0x07, 0xd0, 0, 12, 0, 0, 1, 2, 3, 4]);
    let sum = checksum(&[&packet[12..20], &[0, 17], &[0, 12], &packet[20..]]);
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn offloads_show_in_the_packets_and_are_refused() {
    let mut packet = udp_packet();
    assert_eq!(check_packet(&packet, true), Ok(()));
    packet[31] ^= 1;
    assert!(check_packet(&packet, true).unwrap_err().contains("checksum"));
    assert_eq!(check_packet(&packet, false), Ok(()));
    // Without a checksum (RFC 768), and as a fragment, there is nothing to verify.
    packet[26..28].copy_from_slice(&[0, 0]);
    assert_eq!(check_packet(&packet, true), Ok(()));
    let long = vec![0x45; MTU + 1];
    assert!(check_packet(&long, false).unwrap_err().contains("MTU"));
    assert!(check_packet(&[0x60; 40], false).unwrap_err().contains("IPv4"));
    // Of a raw socket: options that would begin behind its end.
    let mut short = udp_packet();
    short.truncate(IPV4_HEADER_LEN);
    for (ihl, protocol) in [(15, 6), (15, PROTOCOL_UDP), (5, 6), (6, 6)] {
        short[0] = 0x40 | ihl;
        short[9] = protocol;
        assert!(check_packet(&short, true).unwrap_err().contains("cut short"));
    }
}

/// Delays every frame by `delay` and writes down when its frames came.
struct Delay {
    delay: Span,
    queue: VecDeque<(Instant, PortId, Vec<u8>)>,
    seen: Arc<Mutex<Vec<Instant>>>,
    /// What was read of the latest frame's headers.
    latest: Arc<Mutex<(u64, Ecn)>>,
    /// The mark that frames come out with.
    mark: Ecn,
}

impl Machine for Delay {
    type Event = ();
    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        *self.latest.lock().unwrap() = (meta.flow, meta.ecn);
        self.seen.lock().unwrap().push(now);
        self.queue.push_back((now + self.delay, PortId(1 - port.0), frame.to_vec()));
    }
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _max: usize) -> Option<Transmit> {
        let (at, to, frame) = self.queue.front()?;
        if *at > now || *to != port {
            return None;
        }
        let len = frame.len();
        buf[..len].copy_from_slice(frame);
        self.queue.pop_front();
        Some(Transmit { len, ecn: self.mark, ..Transmit::default() })
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.queue.front().map(|(at, ..)| Wakeup { at: *at, cause: "delay" })
    }
    fn poll_event(&mut self) -> Option<()> {
        None
    }
}

type Seen = Arc<Mutex<Vec<Instant>>>;

fn delay(ms: u64) -> (Delay, Seen) {
    let seen = Seen::default();
    let delay = Span::from_millis(ms);
    let machine =
        Delay { delay, queue: VecDeque::new(), seen: Arc::clone(&seen), latest: Arc::default(), mark: Ecn::NotEct };
    (machine, seen)
}

/// Two namespaces joined by `job`'s machines, and a socket in each.
fn joined(setup: Delay, run: Delay, changes: Vec<(Span, ChangeFn<Delay>)>) -> (Running, [UdpSocket; 2], [Netns; 2]) {
    let nodes = ["d1", "d2"].map(|name| Netns::new(name).unwrap());
    let ports = [0, 1].map(|end: usize| {
        let node = &nodes[end];
        node.sysctl("net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let tun = node.run(|| Tun::open("wl0")).unwrap().unwrap();
        ip(node, &[format!("addr add 10.9.0.{}/30 dev wl0", end + 1), "link set wl0 up".into()]).unwrap();
        Port::Tun(tun)
    });
    let sockets = [0, 1].map(|end: usize| {
        let address = format!("10.9.0.{}:5000", end + 1);
        let socket = nodes[end].run(move || UdpSocket::bind(address).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    });
    let job = Job { changes, ..Job::new("t", two(ports, [None, None]), setup, run) };
    (Running::start(job).unwrap(), sockets, nodes)
}

#[test]
fn the_run_starts_and_changes_on_time() {
    if !may_administer_network() {
        eprintln!("SKIPPED (needs root): driver test");
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let ((setup, before), (run, during)) = (delay(1), delay(30));
    let changed = Seen::default();
    let noted = Arc::clone(&changed);
    let at = Span::from_millis(200);
    let change: ChangeFn<Delay> = Box::new(move |machine, now| {
        noted.lock().unwrap().push(now);
        machine.delay = Span::from_millis(5);
    });
    let (channel, [near, far], _nodes) = joined(setup, run, vec![(at, change)]);
    let cross = || {
        let sent = realtime::now();
        near.send_to(b"x", "10.9.0.2:5000").unwrap();
        far.recv_from(&mut [0; 8]).unwrap();
        realtime::now().since(sent)
    };
    assert!(cross() >= Span::from_millis(1));
    assert_eq!((before.lock().unwrap().len(), channel.offered()), (1, [0, 0]), "set-up does not count");
    let start = realtime::now() + Span::from_millis(20);
    channel.begin(start);
    crate::sockets::rest_until(start + Span::from_millis(5), || false);
    let took = cross();
    assert!(took >= Span::from_millis(30), "{took}");
    let first = during.lock().unwrap()[0];
    // The machine's clock began at the run's start: its first frame came some 5 ms after that, not after its making.
    assert!(first >= Instant::from_millis(5) && first < Instant::from_millis(150), "{first:?}");
    crate::sockets::rest_until(start + at + Span::from_millis(5), || false);
    assert_eq!(changed.lock().unwrap().len(), 1, "carried out");
    // A busy machine may hold up one of them.
    let mut took = cross();
    let mut crossed = 2;
    while took >= Span::from_millis(25) && crossed < 6 {
        took = cross();
        crossed += 1;
    }
    assert!(took >= Span::from_millis(5) && took < Span::from_millis(25), "{took}");
    assert_eq!(*changed.lock().unwrap(), [Instant::ZERO + at], "at its own time, however late the host was");
    assert_eq!(channel.offered(), [crossed * 29, 0]);
    channel.bypass();
    crate::sockets::rest_until(realtime::now() + Span::from_millis(1), || false);
    cross();
    assert_eq!(channel.fault(), None);
    let outcome = channel.finish().unwrap();
    assert_eq!((outcome.lateness.count(), outcome.refused), (crossed, 0));
    assert!(outcome.lateness.max() > Span::ZERO, "a delivery takes time");
}

/// Packets that the namespace's kernel received with the mark, by its own count (proc(5), `IpExt`).
fn marked_packets(node: &Netns) -> u64 {
    let table = node.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap()).unwrap();
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "InCEPkts").unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

#[test]
fn a_queue_gets_the_flow_hash_and_marks_reach_the_far_kernel() {
    if !may_administer_network() {
        eprintln!("SKIPPED (needs root): driver test");
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (mut setup, _) = delay(1);
    setup.mark = Ecn::Ce;
    let latest = Arc::clone(&setup.latest);
    let (channel, [near, far], nodes) = joined(setup, delay(1).0, vec![]);
    let (plain, capable) = (0, 2);
    let mut flows = Vec::new();
    for (tos, ecn, marked) in [(plain, Ecn::NotEct, 0), (capable, Ecn::Ect0, 1)] {
        socket2::SockRef::from(&near).set_tos_v4(tos).unwrap();
        near.send_to(b"x", "10.9.0.2:5000").unwrap();
        // A wrong header checksum would keep it from arriving.
        far.recv_from(&mut [0; 8]).unwrap();
        let (flow, read) = *latest.lock().unwrap();
        assert_eq!((read, marked_packets(&nodes[1])), (ecn, marked));
        flows.push(flow);
    }
    assert!(flows[0] != 0 && flows[0] == flows[1], "{flows:?}");
    assert_eq!(channel.fault(), None);
    channel.finish().unwrap();
}

#[test]
fn a_packet_that_an_offload_left_unfinished_is_a_fault() {
    if !may_administer_network() {
        eprintln!("SKIPPED (needs root): driver test");
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let ((setup, _), (run, _)) = (delay(1), delay(1));
    let (channel, [near, _far], nodes) = joined(setup, run, Vec::new());
    ip(&nodes[0], &["link set wl0 mtu 3000".into()]).unwrap();
    near.send_to(&[0; 2000], "10.9.0.2:5000").unwrap();
    let deadline = realtime::now() + Span::from_secs(5);
    crate::sockets::rest_until(deadline, || channel.fault().is_some());
    assert!(channel.fault().unwrap().contains("exceeds the MTU"));
}
