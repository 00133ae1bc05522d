//! Whatever arrives: no panic, no endless drain, no more memory than configured.

use super::script::*;
use super::*;
use proptest::prelude::*;
use wavelane_base::{FrameMeta, Machine, PortId, Seed, Streams};
use wavelane_wire::tcp::{Flags, Options, SackBlocks, TcpHeader, TcpPacket, Timestamps};

#[derive(Clone, Debug)]
struct Blow {
    header: TcpHeader,
    payload: usize,
    wait: u64,
    write: usize,
    read: usize,
    end: bool,
}

/// Numbers near what is expected, or anything.
fn near() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0..30_000u32,
        2 => (0..3_000u32).prop_map(|n| 0u32.wrapping_sub(n)),
        1 => any::<u32>(),
    ]
}

fn any_blow() -> impl Strategy<Value = Blow> {
    let flags = prop_oneof![4 => Just(A), 2 => Just(A.with(F)), 1 => any::<u8>().prop_map(Flags)];
    let blocks = proptest::collection::vec((near(), near()), 0..4);
    let stamps = proptest::option::of((near(), near()));
    let numbers = (near(), near(), any::<u16>(), flags, blocks, stamps);
    (numbers, 0..1_500usize, 0..3_000u64, 0..5_000usize, 0..5_000usize, proptest::bool::weighted(0.05)).prop_map(
        |((seq, ack, window, flags, blocks, stamps), payload, wait, write, read, end)| {
            let mut sack = SackBlocks::default();
            // Three are the most that fit beside timestamps.
            for (l, r) in blocks {
                sack.push(ISS.wrapping_add(l), ISS.wrapping_add(r));
            }
            let timestamps = stamps.map(|(value, echo)| Timestamps { value, echo });
            let options = Options { sack, timestamps, ..Options::default() };
            let header = TcpHeader {
                seq: PEER.wrapping_add(seq),
                ack: ISS.wrapping_add(ack),
                flags,
                window,
                urgent: 0,
                options,
            };
            Blow { header, payload, wait, write, read, end }
        },
    )
}

fn torment(mut tcp: Script, blows: &[Blow], config: &Config) {
    let mut buf = vec![0; 5_000];
    for blow in blows {
        tcp.give_header(blow.header, &vec![1; blow.payload]);
        tcp.tcp.write(tcp.now, &buf[..blow.write]);
        tcp.tcp.read(tcp.now, &mut buf[..blow.read]);
        if blow.end {
            tcp.tcp.shutdown(tcp.now);
        }
        tcp.drain();
        tcp.events();
        let wakeup = tcp.tcp.poll_timeout();
        assert!(wakeup.is_none_or(|w| w.at > tcp.now), "stale deadline for {:?} after a drain", wakeup);
        tcp.run(blow.wait);
        assert!(tcp.tcp.receiver.held() <= config.receive_buffer, "{} bytes received", tcp.tcp.receiver.held());
        assert!(tcp.tcp.sender.data.len() <= config.send_buffer);
        // Splitting by reports is bounded by the bytes in flight.
        assert!(tcp.tcp.sender.board.len() as u64 <= tcp.tcp.sender.next - tcp.tcp.sender.una + 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_open_connection_survives_anything(blows in proptest::collection::vec(any_blow(), 1..60), which in 0..8u8) {
        use CongestionControl::{Bbr, Bbr3, Cubic, Reno};
        let congestion = [Reno, Cubic, Bbr, Bbr3][usize::from(which) % 4];
        let config = Config {
            congestion, ecn: true, sack: which < 4, send_buffer: 20_000, data_retries: 30, ..plain()
        };
        torment(Script::established(config.clone()), &blows, &config);
    }

    #[test]
    fn a_half_open_connection_survives_anything(blows in proptest::collection::vec(any_blow(), 1..30), active in any::<bool>()) {
        let config = Config { send_buffer: 20_000, ..plain() };
        let mut tcp = if active { Script::connect(config.clone()) } else { Script::accept(config.clone(), syn_options()) };
        tcp.drain();
        torment(tcp, &blows, &config);
    }

    #[test]
    fn a_host_survives_any_packet(packets in proptest::collection::vec((any_blow(), 0..3u16, any::<bool>()), 1..60)) {
        let mut host = Host::new(plain(), Seed(1).entropy("host"));
        host.listen(ours());
        let mut now = ms(0);
        let mut buf = vec![0; PACKET_ROOM];
        for (blow, port, syn) in packets {
            let source = std::net::SocketAddr::new(theirs().ip(), 80 + port);
            let flags = if syn { S } else { blow.header.flags };
            let header = TcpHeader { flags, ..blow.header };
            let packet = TcpPacket { source, target: ours(), ecn: Default::default(), header, payload: &[] };
            let len = packet.emit(&mut buf).unwrap();
            let mut frame = buf[..len].to_vec();
            host.handle_frame(now, PortId(0), &mut frame, FrameMeta::default());
            now += Span::from_millis(blow.wait);
            host.handle_timeout(now);
            let mut sent = 0;
            while host.poll_transmit(now, PortId(0), &mut buf, 1).is_some() {
                sent += 1;
                prop_assert!(sent < 1_000, "an endless drain");
            }
            while host.poll_event().is_some() {}
            prop_assert!(host.poll_timeout().is_none_or(|w| w.at > now));
            prop_assert!(host.connection_count() <= 3);
        }
    }
}

/// A flood of SYNs from everywhere fills the half-open places and no more; strangers get a bounded number of resets.
#[test]
fn a_flood_of_syns_is_bounded() {
    let mut host = Host::new(plain(), Seed(1).entropy("host"));
    host.listen(ours());
    let mut buf = vec![0; 200];
    for n in 0..5_000u32 {
        let source = std::net::SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 1_000);
        let closed = std::net::SocketAddr::new(ours().ip(), 9);
        for target in [ours(), closed] {
            let packet = TcpPacket { source, target, ecn: Default::default(), header: header(S, 0, 0), payload: &[] };
            let len = packet.emit(&mut buf).unwrap();
            host.handle_frame(ms(0), PortId(0), &mut buf[..len].to_vec(), FrameMeta::default());
        }
    }
    assert_eq!(host.connection_count(), 1_024);
    let mut sent = 0;
    while host.poll_transmit(ms(0), PortId(0), &mut buf, 1).is_some() {
        sent += 1;
    }
    assert_eq!(sent, 1_024 + 64);
}

/// RFC 9293, section 3.10.7.1: a segment without a connection is answered by a reset that the sender must accept.
#[test]
fn a_closed_port_refuses() {
    let mut server = Host::new(plain(), Seed(1).entropy("server"));
    let mut client = Host::new(plain(), Seed(1).entropy("client"));
    let flow = client.connect(ms(0), ours(), theirs()).unwrap();
    assert_eq!(client.connect(ms(0), ours(), theirs()), Err(HostError::InUse));
    let mut buf = vec![0; 200];
    for (from, to) in [(0, 1), (1, 0)] {
        let hosts = [&mut client, &mut server];
        let [client, server] = hosts;
        let (sender, receiver) = if (from, to) == (0, 1) { (client, server) } else { (server, client) };
        let sent = sender.poll_transmit(ms(0), PortId(0), &mut buf, 1).expect("one packet each way");
        receiver.handle_frame(ms(0), PortId(0), &mut buf[..sent.len].to_vec(), FrameMeta::default());
    }
    assert_eq!(client.poll_event(), Some(HostEvent::Connection(flow, TcpEvent::Refused)));
    assert_eq!(client.connection_count(), 1, "until all is drained");
    assert_eq!((client.poll_event(), client.connection_count()), (None, 0));
    assert_eq!(client.write(ms(0), flow, b"x"), 0);
}
