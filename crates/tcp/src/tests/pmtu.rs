//! Path-MTU discovery by ICMP (RFC 1191, RFC 8201), IPv6, and forged messages (RFC 5927).

use super::script::*;
use super::world::{Way, World, address, address_v6};
use super::*;
use wavelane_wire::icmp::TooBig;

/// Ten segments of 1,000 bytes in flight.
fn flying() -> Script {
    let mut tcp = Script::established(plain());
    tcp.write(10_000);
    assert_eq!(tcp.data().len(), 10);
    tcp
}

fn message(mtu: u32, seq: u32) -> TooBig {
    let router = "198.51.100.9".parse().unwrap();
    TooBig { router, mtu, source: ours(), target: theirs(), seq: ISS.wrapping_add(seq) }
}

#[test]
fn segments_too_long_are_cut_without_reducing_the_window() {
    let mut tcp = flying();
    tcp.tcp.handle_too_big(tcp.now, &message(640, 1));
    // 640 less 40 bytes of headers.
    let sent = tcp.data();
    assert_eq!(sent[..4], [(1, 600), (601, 400), (1_001, 600), (1_601, 400)]);
    let status = tcp.tcp.status();
    assert_eq!((status.mss, status.cwnd, status.ssthresh), (600, 10_000, Some(u64::MAX)));
    assert_eq!(tcp.counters().mtu_reductions, 1);
    tcp.wait(100);
    tcp.ack(10_001);
    tcp.write(1_200);
    assert_eq!(tcp.data(), [(10_001, 600), (10_601, 600)]);
    assert!(!tcp.tcp.status().repairing);
}

#[test]
fn forged_messages_change_nothing_or_little() {
    let mut tcp = flying();
    for seq in [0, 10_001, 20_000, 0x8000_0000] {
        tcp.tcp.handle_too_big(tcp.now, &message(640, seq));
    }
    assert_eq!((tcp.tcp.status().mss, tcp.counters().ignored_icmp), (1_000, 4), "nothing of that is in flight");
    tcp.tcp.handle_too_big(tcp.now, &message(9_000, 1));
    assert_eq!(tcp.tcp.status().mss, 1_000, "nobody makes segments longer");
    tcp.tcp.handle_too_big(tcp.now, &message(68, 1));
    assert_eq!(tcp.tcp.status().mss, 552 - 40, "the least we believe");
}

/// RFC 8201, section 4: a claim that an IPv6 path carries less than 1,280 bytes is ignored; so are plateaus
/// guessed there.
#[test]
fn claims_below_the_least_mtu_of_ipv6_are_ignored() {
    let [local, remote] = [address_v6(0), address_v6(1)];
    let mut world = World::new([Config::default(), Config::default()], [Way::clean(20, 10, 100_000); 2], 1);
    let flows = world.open_between(local, remote, ms(1_000));
    wavelane_base::Streams::write(&mut world.hosts[0], world.now, flows[0], &[7; 1_000]);
    let mut packet = vec![0; 2_000];
    let (now, port) = (world.now, wavelane_base::PortId(0));
    let sent = wavelane_base::Machine::poll_transmit(&mut world.hosts[0], now, port, &mut packet, 1).unwrap();
    let before = world.hosts[0].status(flows[0]).unwrap().mss;
    for (mtu, reductions) in [(1_279, 0), (0, 0), (1_280, 1)] {
        let mut buf = vec![0; 576];
        let len = TooBig::emit("2001:db8::99".parse().unwrap(), mtu, &packet[..sent.len], &mut buf).unwrap();
        wavelane_base::Machine::handle_frame(&mut world.hosts[0], now, port, &mut buf[..len], Default::default());
        let status = world.hosts[0].status(flows[0]).unwrap();
        assert_eq!(status.counters.mtu_reductions, reductions, "{mtu}");
        assert_eq!(status.mss, if reductions == 0 { before } else { 1_280 - 60 - 12 });
    }
}

/// RFC 1191, section 5: a router that does not say what fits means the next lower plateau.
#[test]
fn too_big_without_an_mtu_uses_the_next_plateau() {
    let mut tcp = flying();
    tcp.tcp.handle_too_big(tcp.now, &message(0, 1));
    assert_eq!(tcp.tcp.status().mss, 1_006 - 40);
}

#[test]
fn a_transfer_through_a_small_mtu_succeeds() {
    for (mtu, from, to) in
        [(1_400, address(0), address(1)), (600, address(0), address(1)), (1_300, address_v6(0), address_v6(1))]
    {
        let ways = [Way::clean(20, 10, 100_000); 2];
        let mut world = World::new([Config::default(), Config::default()], ways, 1);
        world.mtu = Some(mtu);
        let flows = world.open_between(from, to, ms(10_000));
        let end = world.transfer(flows, 0, 2_000_000, Instant::from_secs(20)).expect("it must not hang");
        let status = world.hosts[0].status(flows[0]).unwrap();
        assert_eq!(status.counters.mtu_reductions, 1);
        assert_eq!(status.counters.timeouts, 0, "{status:?}");
        assert!(status.mss as usize + 20 + 12 + if to.is_ipv6() { 40 } else { 20 } == mtu, "{status:?}");
        // 2 MB take 0.8 s on the line; slow start and the first loss of a window cost some round trips.
        assert!(end < ms(2_000), "{end:?}");
    }
}
