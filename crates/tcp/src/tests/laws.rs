//! The contract's laws on a host that sends, receives, loses, is probed and closes.

use super::script::*;
use super::*;
use wavelane_base::laws::{Script as LawScript, Stimulus, check, check_memory};
use wavelane_base::{FlowId, FrameMeta, Instant, Machine, PortId, Seed, Streams};
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};

/// The host's initial sequence number at the time of the script, as its SYN shows it.
fn iss() -> u32 {
    let mut host = Host::new(plain(), Seed(5).entropy("host"));
    host.connect(ms(10), ours(), theirs()).unwrap();
    let mut buf = vec![0; 200];
    let sent = host.poll_transmit(ms(10), PortId(0), &mut buf, 1).unwrap();
    TcpPacket::parse(&buf[..sent.len]).unwrap().header.seq
}

fn frame(flags: Flags, seq: u32, ack: u32, window: u16, payload: &[u8]) -> Stimulus<Host> {
    let ack = if flags.has(A) { iss().wrapping_add(ack) } else { 0 };
    let options = if flags.has(S) { syn_options() } else { Default::default() };
    let header = TcpHeader { seq: PEER.wrapping_add(seq), ack, flags, window, urgent: 0, options };
    let packet = TcpPacket { source: theirs(), target: ours(), ecn: Default::default(), header, payload };
    let mut buf = vec![0; 2_000];
    let len = packet.emit(&mut buf).unwrap();
    Stimulus::Frame(PortId(0), buf[..len].to_vec(), FrameMeta::default())
}

#[test]
fn a_host_keeps_the_laws_of_a_machine() {
    for congestion in [CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::Bbr3] {
        let connect: fn(&mut Host, Instant) = |host, now| {
            host.connect(now, ours(), theirs()).unwrap();
        };
        let write: fn(&mut Host, Instant) = |host, now| {
            host.write(now, FlowId(0), &[1; 30_000]);
        };
        let read: fn(&mut Host, Instant) = |host, now| {
            host.read(now, FlowId(0), &mut [0; 4_000]);
        };
        let shut: fn(&mut Host, Instant) = |host, now| host.shutdown(now, FlowId(0));
        let steps = vec![
            (ms(10), Stimulus::Command(connect)),
            // The first SYN is lost.
            (ms(1_060), frame(S.with(A), 0, 1, 60_000, b"")),
            (ms(1_070), Stimulus::Command(write)),
            (ms(1_120), frame(A, 1, 2_001, 60_000, b"")),
            (ms(1_130), frame(A, 1, 2_001, 60_000, &[3; 700])),
            (ms(1_140), frame(A, 1_401, 2_001, 60_000, &[4; 700])),
            (ms(1_150), Stimulus::Command(read)),
            (ms(1_300), frame(A, 701, 6_001, 60_000, &[5; 700])),
            // Silence: a tail loss probe and timeouts; then a window that shuts.
            (ms(4_000), frame(A, 2_101, 30_001, 0, b"")),
            (ms(4_010), Stimulus::Command(write)),
            (ms(9_000), frame(A, 2_101, 30_001, 5_000, b"")),
            (ms(9_100), Stimulus::Command(read)),
            (ms(9_200), frame(A, 2_101, 60_001, 60_000, b"")),
            (ms(9_300), Stimulus::Command(shut)),
            (ms(9_400), frame(A.with(F), 2_101, 60_002, 60_000, b"")),
        ];
        let make = move || {
            let keepalive = Some(Keepalive { idle: Span::from_secs(2), interval: Span::from_secs(1), probes: 9 });
            Host::new(Config { congestion, pacing: true, keepalive, ..plain() }, Seed(5).entropy("host"))
        };
        check(make, &LawScript { steps, ports: vec![PortId(0)], end: Instant::from_secs(80) });
    }
}

/// Per half-open or open connection, without its buffers.
const CONNECTION_MEMORY: u64 = 8 << 10;

/// 20,000 SYNs from as many ports, then segments far apart in the windows of two connections that nobody reads.
#[test]
fn a_host_that_is_flooded_stays_within_its_memory() {
    let from = |port: u16| std::net::SocketAddr::new(theirs().ip(), port);
    let segment = |port, flags: Flags, seq: u32, ack, payload: &[u8]| {
        let options = if flags.has(S) { syn_options() } else { Default::default() };
        let header = TcpHeader { seq, ack, flags, window: 60_000, urgent: 0, options };
        let packet = TcpPacket { source: from(port), target: ours(), ecn: Default::default(), header, payload };
        let mut buf = vec![0; 2_000];
        let len = packet.emit(&mut buf).unwrap();
        Stimulus::Frame(PortId(0), buf[..len].to_vec(), FrameMeta::default())
    };
    let make = || {
        let mut host = Host::new(plain(), Seed(5).entropy("host"));
        host.listen(ours());
        host
    };
    let mut steps: Vec<(Instant, Stimulus<Host>)> =
        (0..20_000).map(|i| (ms(10) + Span::from_micros(i), segment(20_000 + i as u16, S, PEER, 0, b""))).collect();
    let connect: fn(&mut Host, Instant) = |host, now| {
        host.connect(now, ours(), theirs()).unwrap();
    };
    let write: fn(&mut Host, Instant) = |host, now| {
        host.write(now, FlowId(0), &[1; 1 << 20]);
    };
    steps.push((ms(100), Stimulus::Command(connect)));
    for i in 0..5_000 {
        let at = ms(200) + Span::from_micros(i * 10);
        steps.push((at, segment(80, A, PEER.wrapping_add(2 * i as u32), 0, b"x")));
        steps.push((at, Stimulus::Command(write)));
    }
    let buffers = (plain().send_buffer + plain().receive_buffer) as u64;
    let limit = host::HALF_OPEN_MAX as u64 * CONNECTION_MEMORY + 2 * buffers;
    let script = LawScript { steps, ports: vec![PortId(0)], end: Instant::from_secs(2) };
    check_memory(make, &script, limit, |work| allocation_counter::measure(work).bytes_max);
}
