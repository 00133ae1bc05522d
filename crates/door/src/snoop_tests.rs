#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::collections::BTreeSet;
use wavelane_base::Ecn;
use wavelane_wire::tcp::{Options, TcpHeader};

const SEGMENT: u32 = 1_000;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

fn ends() -> [SocketAddr; 2] {
    ["10.3.0.2:80", "10.1.0.2:5000"].map(|text| text.parse().unwrap())
}

fn packet(
    [source, target]: [SocketAddr; 2],
    (seq, ack): (u32, u32),
    (flags, window): (Flags, u16),
    len: u32,
) -> Vec<u8> {
    let header = TcpHeader { seq, ack, flags, window, ..TcpHeader::default() };
    let payload = vec![seq as u8; len as usize];
    let mut buf = vec![0; 2_000];
    let len = TcpPacket { source, target, ecn: Ecn::NotEct, header, payload: &payload }.emit(&mut buf).unwrap();
    buf.truncate(len);
    buf
}

fn data(seq: u32) -> Vec<u8> {
    packet(ends(), (seq, 1), (Flags::ACK, 500), SEGMENT)
}

fn ack(ack: u32, window: u16) -> Vec<u8> {
    let [server, client] = ends();
    packet([client, server], (1, ack), (Flags::ACK, window), 0)
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Towards the client alone.
fn handle(snoop: &mut Snoop, now: Instant, packet: &[u8]) -> bool {
    snoop.handle(now, packet, |host| host == ends()[1])
}

#[test]
fn what_was_lost_is_sent_again_from_here_and_its_duplicates_go_no_further() {
    let mut snoop = Snoop::new(10, 1 << 20);
    // Numbers that wrap.
    let first = 0_u32.wrapping_sub(3 * SEGMENT);
    let seq = |n: u32| first.wrapping_add(n * SEGMENT);
    for n in 0..10 {
        assert!(handle(&mut snoop, at(n.into()), &data(seq(n))));
    }
    assert_eq!(snoop.held(), (1, 10 * 1_040));
    assert!(handle(&mut snoop, at(12), &ack(seq(2), 500)));
    assert_eq!(snoop.held().1, 8 * 1_040);
    // The third was lost: seven duplicates, of which one is answered.
    for n in 0..7 {
        assert!(!handle(&mut snoop, at(13 + n), &ack(seq(2), 500)), "{n}");
    }
    let again: Vec<_> = std::iter::from_fn(|| snoop.poll_packet()).collect();
    assert_eq!(again, [data(seq(2)).into_boxed_slice()], "the same octets");
    // A window that moves says something, and so does data.
    assert!(handle(&mut snoop, at(20), &ack(seq(2), 400)));
    let [server, client] = ends();
    let with_data = packet([client, server], (1, seq(2)), (Flags::ACK, 400), 5);
    assert!(handle(&mut snoop, at(20), &with_data));
    // Nobody answers that: by time, each try later than the one before, ten at most.
    let mut tries = 0;
    let mut now = at(20);
    while let Some(due) = snoop.poll_timeout().filter(|due| *due < at(60_000)) {
        assert!(due >= now, "never before");
        now = due;
        snoop.handle_timeout(now);
        while let Some(packet) = snoop.poll_packet() {
            assert_eq!(*packet, data(seq(2)));
            tries += 1;
        }
    }
    assert_eq!(tries, i32::from(TRIES_MAX) - 1);
    // After that its sender must know.
    assert!(handle(&mut snoop, now, &ack(seq(2), 400)));
    assert!(handle(&mut snoop, now, &ack(seq(2), 400)));
    // Its own repeat begins anew.
    handle(&mut snoop, now, &data(seq(2)));
    assert!(!handle(&mut snoop, now, &ack(seq(2), 400)));
    assert!(handle(&mut snoop, now, &ack(seq(10), 400)));
    assert_eq!(snoop.held(), (1, 0));
    snoop.handle_timeout(now + Span::from_secs(130));
    assert_eq!((snoop.held(), snoop.poll_timeout()), ((0, 0), None), "forgotten");
    // Whatever the clock says by then, what is new is due later.
    handle(&mut snoop, now + Span::from_secs(900), &data(0));
    assert!(snoop.poll_timeout() > Some(now + Span::from_secs(900)));
}

#[test]
fn what_has_no_room_is_its_senders() {
    let mut snoop = Snoop::new(1, 1 << 20);
    for n in 0..150 {
        handle(&mut snoop, at(0), &data(n * SEGMENT));
    }
    assert_eq!(snoop.done, Snooped { kept: 100, not_kept: 50, ..Snooped::default() });
    // Another connection, and the way that is not snooped.
    let other = ["10.3.0.2:81", "10.1.0.2:5000"].map(|text| text.parse().unwrap());
    handle(&mut snoop, at(0), &packet(other, (5, 1), (Flags::ACK, 9), 10));
    let [server, client] = ends();
    handle(&mut snoop, at(0), &packet([client, server], (1, 1), (Flags::ACK, 9), 10));
    assert_eq!((snoop.held().0, snoop.done.kept), (1, 100));
    // A duplicate of what is not here goes on; a reset ends all.
    assert!(handle(&mut snoop, at(1), &ack(100 * SEGMENT, 9)));
    assert!(handle(&mut snoop, at(1), &ack(100 * SEGMENT, 9)));
    handle(&mut snoop, at(2), &packet([client, server], (1, 1), (Flags::RST, 0), 0));
    assert_eq!(snoop.held(), (0, 0));
    let mut small = Snoop::new(10, 3_000);
    for n in 0..5 {
        handle(&mut small, at(0), &data(n * SEGMENT));
    }
    assert!(small.held().1 <= 3_000 && small.done.not_kept == 3);
    // Parts, overlaps and probes of one octet are never kept twice.
    let mut snoop = Snoop::new(10, 1 << 20);
    for (seq, len) in [(0, 1), (0, 1_000), (500, 1_000), (1_000, 200), (900, 50), (0, 1)] {
        handle(&mut snoop, at(0), &packet(ends(), (seq, 1), (Flags::ACK, 9), len));
    }
    let held: usize = snoop.ways.values().map(Way::octets).sum();
    assert_eq!(held, snoop.held().1);
    for len in 0..60 {
        handle(&mut snoop, at(0), &data(9)[..len]);
    }
}

/// A segment each millisecond, 5 ms to the host and back; one of `late` comes 1.5 ms late, one of `lost` never. Segments sent again.
fn sent_again(late: &[u32], lost: &[u32], with_sack: bool) -> u64 {
    const ALL: u32 = 5_000;
    let [server, client] = ends();
    let mut snoop = Snoop::new(10, 1 << 20);
    // When, in arrival's order; which segment or acknowledgement, and its first block.
    let mut events = BTreeMap::new();
    let mut count = 0_u64;
    let mut put = |events: &mut BTreeMap<_, _>, us: u64, event: (u8, u32, Option<u32>)| {
        count += 1;
        events.insert((us, count), event);
    };
    (0..ALL).for_each(|n| put(&mut events, u64::from(n) * 1_000, (0, n, None)));
    let (mut next, mut above, mut waits) = (0, BTreeSet::new(), false);
    while let Some(((us, _), (kind, n, block))) = events.pop_first() {
        let now = Instant::from_micros(us);
        snoop.handle_timeout(now);
        match kind {
            0 => {
                handle(&mut snoop, now, &data(n * SEGMENT));
                if !lost.contains(&n) {
                    let late = if late.contains(&n) { 1_500 } else { 0 };
                    put(&mut events, us + 5_000 + late, (1, n, None));
                }
            }
            1 => {
                let in_order = n == next && above.is_empty();
                if n == next {
                    next += 1;
                    while above.remove(&next) {
                        next += 1;
                    }
                } else if n > next {
                    above.insert(n);
                }
                // Every second at once, and whatever is out of order (RFC 9293, RFC 5681).
                waits = in_order && !waits;
                if !waits {
                    put(&mut events, us + 5_000, (2, next, (!in_order).then_some(n)));
                }
            }
            _ => {
                let mut header =
                    TcpHeader { seq: 1, ack: n * SEGMENT, flags: Flags::ACK, window: 500, ..TcpHeader::default() };
                if let Some(block) = block.filter(|_| with_sack) {
                    header.options.sack.push(block * SEGMENT, (block + 1) * SEGMENT);
                }
                let mut buf = [0; 100];
                let packet = TcpPacket { source: client, target: server, ecn: Ecn::NotEct, header, payload: &[] };
                let len = packet.emit(&mut buf).unwrap();
                handle(&mut snoop, now, &buf[..len]);
            }
        }
        while let Some(packet) = snoop.poll_packet() {
            put(&mut events, us + 5_000, (1, TcpPacket::parse(&packet).unwrap().header.seq / SEGMENT, None));
        }
    }
    assert_eq!(next, ALL, "all arrived");
    snoop.done.sent_again
}

#[test]
fn one_late_segment_is_sent_again_once_and_starts_no_chain() {
    for with_sack in [false, true] {
        assert_eq!(sent_again(&[200], &[], with_sack), 1, "{with_sack}");
        // Some are overtaken within what one acknowledgement covers.
        assert!((1..=4).contains(&sent_again(&[200, 1_001, 2_000, 3_003], &[], with_sack)), "{with_sack}");
        assert_eq!(sent_again(&[], &[300, 1_501], with_sack), 2, "{with_sack}");
    }
}

#[test]
fn repeats_measure_nothing_and_what_is_behind_a_hole_waits() {
    let mut snoop = Snoop::new(10, 1 << 20);
    handle(&mut snoop, at(0), &data(0));
    handle(&mut snoop, at(1), &data(SEGMENT));
    handle(&mut snoop, at(11), &ack(SEGMENT, 500));
    // Its sender's repeat, with another acknowledgement, is what is kept.
    let repeat = packet(ends(), (SEGMENT, 9), (Flags::ACK, 500), SEGMENT);
    handle(&mut snoop, at(60), &repeat);
    let way = |snoop: &Snoop| snoop.ways.values().next().unwrap().round_trip;
    assert!(!handle(&mut snoop, at(61), &ack(SEGMENT, 500)));
    assert_eq!(snoop.poll_packet().as_deref(), Some(&*repeat));
    handle(&mut snoop, at(62), &ack(2 * SEGMENT, 500));
    assert_eq!(way(&snoop).map(|(mean, _)| mean), Some(Span::from_millis(11)));
    // The third was never kept: what follows it waits until that is there.
    handle(&mut snoop, at(70), &data(3 * SEGMENT));
    snoop.handle_timeout(at(5_000));
    assert_eq!(snoop.poll_packet(), None);
    handle(&mut snoop, at(5_001), &ack(3 * SEGMENT, 500));
    snoop.handle_timeout(at(5_002));
    assert_eq!(snoop.poll_packet().as_deref(), Some(&*data(3 * SEGMENT)));
}

/// Before the first octet, which is 0; the client's windows have that scale.
fn shake(snoop: &mut Snoop, scale: u8) {
    let [server, client] = ends();
    let mut options = Options { window_scale: Some(scale), ..Options::default() };
    for (ends, seq, flags) in [([client, server], 0, Flags::SYN), ([server, client], u32::MAX, SYN_ACK)] {
        let header = TcpHeader { seq, flags, window: 500, options, ..TcpHeader::default() };
        let mut buf = [0; 100];
        let [source, target] = ends;
        let len = TcpPacket { source, target, ecn: Ecn::NotEct, header, payload: &[] }.emit(&mut buf).unwrap();
        assert!(handle(snoop, at(0), &buf[..len]));
        // Only the client's counts.
        options.window_scale = Some(0);
    }
}

#[test]
fn what_passed_before_we_looked_may_be_acknowledged() {
    // The first segment that is seen is the repeat of a hole; behind it the host has much.
    for far in [2 * SEGMENT, 90 * SEGMENT, 1 << 30] {
        let mut snoop = Snoop::new(10, 1 << 20);
        handle(&mut snoop, at(0), &data(0));
        assert!(handle(&mut snoop, at(20), &ack(far, 500)));
        assert_eq!((snoop.done.beyond, snoop.held()), (0, (1, 0)), "{far}");
        snoop.handle_timeout(at(30_000));
        assert_eq!(snoop.poll_packet(), None, "nothing is lost");
        // What follows is repaired as ever.
        handle(&mut snoop, at(30_001), &data(far));
        assert!(!handle(&mut snoop, at(30_002), &ack(far, 500)));
        assert_eq!(snoop.poll_packet().as_deref(), Some(&*data(far)));
        // Further than any window reaches.
        assert!(handle(&mut snoop, at(30_003), &ack(far + SEGMENT + (1 << 30) + 1, 500)));
        assert_eq!((snoop.done.beyond, snoop.held().1), (1, 1_040), "{far}");
    }
}

/// Whoever guesses the host's numbers acknowledges before it does, and what passed after that would be taken for acknowledged.
#[test]
fn a_forged_first_acknowledgement_costs_as_many_of_the_hosts_own() {
    let mut snoop = Snoop::new(10, 1 << 20);
    handle(&mut snoop, at(0), &data(0));
    assert!(handle(&mut snoop, at(1), &ack(1 << 29, 500)));
    for n in 1..4 {
        handle(&mut snoop, at(n * 20), &data(n as u32 * SEGMENT));
        assert_eq!(snoop.held(), (1, 0));
        assert!(handle(&mut snoop, at(n * 20 + 10), &ack(n as u32 * SEGMENT, 500)));
    }
    assert_eq!(snoop.held(), (0, 0), "it is forgotten");
    // Begun anew, it repairs; and once the host has answered a segment none is believed that goes beyond all that passed.
    for n in 4..6 {
        handle(&mut snoop, at(n * 20), &data(n as u32 * SEGMENT));
    }
    assert!(handle(&mut snoop, at(110), &ack(5 * SEGMENT, 500)));
    assert!(handle(&mut snoop, at(111), &ack(1 << 29, 500)));
    assert!(!handle(&mut snoop, at(112), &ack(5 * SEGMENT, 500)));
    assert_eq!((snoop.poll_packet().as_deref(), snoop.done.beyond), (Some(&*data(5 * SEGMENT)), 1));
    // What overtakes another by fewer is no sign.
    for n in 6..9 {
        handle(&mut snoop, at(120 + n), &data(n as u32 * SEGMENT));
    }
    assert!(handle(&mut snoop, at(130), &ack(8 * SEGMENT, 500)));
    (0..9).for_each(|n| assert!(handle(&mut snoop, at(131 + n), &ack(7 * SEGMENT, 500))));
    assert_eq!(snoop.held(), (1, 1_040));
}

#[test]
fn what_was_blindly_sent_far_ahead_did_not_pass() {
    let blind = |seq| packet(ends(), (seq, 1), (Flags::ACK, 500), 1);
    for (scale, reach) in [(None, 1 << 30), (Some(0), 1 << 20), (Some(7), 1 << 27), (Some(14), 1 << 30)] {
        let mut snoop = Snoop::new(10, 1 << 20);
        if let Some(scale) = scale {
            shake(&mut snoop, scale);
        }
        for n in 0..3 {
            handle(&mut snoop, at(n), &data(n as u32 * SEGMENT));
        }
        assert!(handle(&mut snoop, at(10), &ack(SEGMENT, 500)));
        // An octet too far; with its end, too; then what acknowledges it.
        let far = SEGMENT + reach;
        assert!(handle(&mut snoop, at(11), &blind(far)), "it is the receiver's to judge");
        handle(&mut snoop, at(11), &packet(ends(), (far, 1), (Flags(Flags::ACK.0 | Flags::FIN.0), 500), 0));
        let ahead = if scale.is_some() { far + 1 } else { far + 2 * SEGMENT + 1 };
        assert!(handle(&mut snoop, at(12), &ack(ahead, 500)));
        assert_eq!((snoop.done.beyond, snoop.held()), (1, (1, 2 * 1_040)), "{scale:?}");
        assert!(!handle(&mut snoop, at(13), &ack(SEGMENT, 500)));
        assert_eq!(snoop.poll_packet().as_deref(), Some(&*data(SEGMENT)));
        // As far as a window reaches.
        handle(&mut snoop, at(14), &blind(far - 1));
        assert!(handle(&mut snoop, at(15), &ack(far, 500)));
        assert_eq!((snoop.done.beyond, snoop.held()), (1, (1, 0)), "{scale:?}");
        // If that was blindly sent what the host says is old: the way is forgotten, and begins anew.
        for n in 0..200 {
            let now = at(1_000 * n);
            snoop.handle_timeout(now);
            handle(&mut snoop, now, &data(n as u32 * SEGMENT));
            handle(&mut snoop, now, &ack(n as u32 * SEGMENT, 500));
        }
        assert!(snoop.held().1 > 0, "{scale:?}");
    }
}

#[test]
fn a_repeated_syn_changes_nothing_and_a_new_one_begins_anew() {
    let mut snoop = Snoop::new(10, 1 << 20);
    shake(&mut snoop, 7);
    handle(&mut snoop, at(1), &data(0));
    shake(&mut snoop, 7);
    assert_eq!(snoop.held(), (1, 1_040));
    handle(&mut snoop, at(2), &ack(SEGMENT, 500));
    handle(&mut snoop, at(2), &data(SEGMENT));
    // In the name of one that lives nobody begins anew.
    shake(&mut snoop, 0);
    assert_eq!(snoop.held(), (1, 1_040));
    snoop.ways.values_mut().for_each(|way| way.segments.clear());
    snoop.octets = 0;
    shake(&mut snoop, 0);
    assert_eq!(snoop.held(), (1, 0));
    let way = snoop.ways.values().next().unwrap();
    assert_eq!((way.end, way.scale, way.is_whole), (Some(0), Some(7), true));
    // Without packets it is forgotten, too.
    snoop.handle_timeout(at(130_000));
    assert_eq!((snoop.held(), snoop.poll_timeout()), ((0, 0), None));
    // Where there is no room nothing is noted.
    let mut none = Snoop::new(0, 1 << 20);
    shake(&mut none, 7);
    assert_eq!((none.held(), none.poll_timeout()), ((0, 0), None));
}

/// Who does not see a connection knows neither end's numbers.
#[test]
fn what_is_blindly_sent_ends_no_repairs() {
    let [server, client] = ends();
    let reset = |ends, seq, ack, flags: Flags| packet(ends, (seq, ack), (Flags(Flags::RST.0 | flags.0), 0), 0);
    let (none, with_ack) = (Flags(0), Flags::ACK);
    let up = [client, server];
    let begun = || {
        let mut snoop = Snoop::new(10, 1 << 20);
        for n in 5..8 {
            handle(&mut snoop, at(n.into()), &packet(ends(), (n * SEGMENT, 77), (Flags::ACK, 500), SEGMENT));
        }
        // An acknowledgement of the first.
        handle(&mut snoop, at(8), &packet(up, (77, 6 * SEGMENT), (Flags::ACK, 500), 0));
        assert_eq!(snoop.held(), (1, 2 * 1_040));
        snoop
    };
    let far = 3 << 20;
    let forged = [
        reset(ends(), 6 * SEGMENT + 1, 0, none),
        reset(ends(), far, 77, with_ack),
        reset(up, 78, 0, none),
        reset(up, far, 7 * SEGMENT, with_ack),
        reset(up, 77 + far, 9 * SEGMENT, with_ack),
        // Of what passed before we looked, by somebody who does not know the host's numbers.
        packet(up, (far, 20 * SEGMENT), (Flags::ACK, 500), 0),
        packet(ends(), (far, 0), (SYN_ACK, 500), 0),
        packet(ends(), (far, 0), (Flags::SYN, 500), 0),
    ];
    for (which, forged) in forged.iter().enumerate() {
        let mut snoop = begun();
        assert!(handle(&mut snoop, at(20), forged), "they are the ends' to judge");
        assert_eq!(snoop.held(), (1, 2 * 1_040), "{which}");
    }
    // Nor later, whoever knows them.
    let mut snoop = begun();
    handle(&mut snoop, at(11_000), &packet(up, (77, 20 * SEGMENT), (Flags::ACK, 500), 0));
    assert_eq!((snoop.held(), snoop.done.beyond), ((1, 2 * 1_040), 1));
    for true_one in [
        reset(ends(), 6 * SEGMENT, 0, none),
        reset(ends(), 8 * SEGMENT, 0, with_ack),
        reset(up, 77, 0, none),
        reset(up, 80, 8 * SEGMENT, with_ack),
    ] {
        let mut snoop = begun();
        handle(&mut snoop, at(20), &true_one);
        assert_eq!(snoop.held(), (0, 0));
    }
}

/// Each 50 s octets in the server's name and acknowledgements in the host's, evenly spread, with any other numbers.
#[test]
fn what_is_blindly_sent_again_and_again_keeps_no_repairs_ended() {
    let [server, client] = ends();
    for scale in [None, Some(7)] {
        let mut snoop = Snoop::new(10, 1 << 20);
        if let Some(scale) = scale {
            shake(&mut snoop, scale);
        }
        let (mut other, mut repaired) = (9_u32, 0);
        let mut any = || {
            other = other.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            other
        };
        for n in 0..2_000_u32 {
            let (now, first) = (u64::from(n) * 100, n * 3 * SEGMENT);
            for k in 0..3 {
                handle(&mut snoop, at(now), &data(first + k * SEGMENT));
            }
            if n % 500 == 250 {
                for place in (0..64).map(|place| place << 26) {
                    handle(&mut snoop, at(now), &packet(ends(), (place, any()), (Flags::ACK, 77), 1));
                }
                for place in (0..64).map(|place| place << 26) {
                    handle(&mut snoop, at(now), &packet([client, server], (any(), place), (Flags::ACK, 77), 0));
                }
            }
            for _ in 0..3 {
                handle(&mut snoop, at(now + 20), &ack(first, 500));
            }
            repaired += u32::from(std::iter::from_fn(|| snoop.poll_packet()).count() > 0);
            handle(&mut snoop, at(now + 40), &ack(first + 3 * SEGMENT, 500));
            snoop.handle_timeout(at(now + 50));
        }
        assert!(repaired > 1_990, "{scale:?}: {repaired}");
    }
}

#[test]
fn syns_with_invented_sources_take_no_room() {
    let mut snoop = Snoop::new(100, 1 << 20);
    let mut served = 0;
    for n in 0..1_000_u16 {
        let now = u64::from(n) * 100;
        snoop.handle_timeout(at(now));
        // Three a time at a closed port, then a connection of which a segment is lost.
        for port in 0..3 {
            let flood = [SocketAddr::from(([203, 0, port, 1], 1_024 + n)), ends()[1]];
            handle(&mut snoop, at(now), &packet(flood, (n.into(), 0), (Flags::SYN, 500), 0));
        }
        let both = [SocketAddr::from(([10, 3, 0, 2], 2_000 + n)), ends()[1]];
        let back = [both[1], both[0]];
        handle(&mut snoop, at(now), &packet(both, (99, 1), (SYN_ACK, 500), 0));
        handle(&mut snoop, at(now + 20), &packet(both, (100, 1), (Flags::ACK, 500), 10));
        assert!(handle(&mut snoop, at(now + 30), &packet(back, (1, 110), (Flags::ACK, 500), 0)));
        handle(&mut snoop, at(now + 40), &packet(both, (110, 1), (Flags::ACK, 500), 10));
        handle(&mut snoop, at(now + 50), &packet(back, (1, 110), (Flags::ACK, 500), 0));
        served += u32::from(snoop.poll_packet().is_some());
        let fin = Flags(Flags::FIN.0 | Flags::ACK.0);
        handle(&mut snoop, at(now + 60), &packet(both, (120, 1), (fin, 500), 0));
        handle(&mut snoop, at(now + 70), &packet(back, (1, 121), (Flags::ACK, 500), 0));
        assert!(snoop.held().0 <= 100 && snoop.begun.len() <= 100);
    }
    assert_eq!((served, snoop.held().1), (1_000, 0));
}

#[test]
fn data_with_invented_sources_is_sent_once_and_takes_no_room() {
    let mut snoop = Snoop::new(100, 100 * 1_040);
    let mut served = 0;
    for n in 0..1_000_u16 {
        let now = u64::from(n) * 1_000;
        snoop.handle_timeout(at(now));
        assert_eq!(snoop.poll_packet(), None, "{n}: to nobody");
        // Of connections that nobody has; some begin with what their server would say.
        for port in 0..60 {
            let flood = [SocketAddr::from(([203, 0, port, 1], 1_024 + n)), ends()[1]];
            if port % 2 == 0 {
                handle(&mut snoop, at(now), &packet(flood, (u32::MAX, 1), (SYN_ACK, 500), 0));
            }
            handle(&mut snoop, at(now), &packet(flood, (0, 1), (Flags::ACK, 500), SEGMENT));
        }
        let both = [SocketAddr::from(([10, 3, 0, 2], 2_000 + n)), ends()[1]];
        let back = [both[1], both[0]];
        handle(&mut snoop, at(now + 999), &packet(back, (0, 0), (Flags::SYN, 500), 0));
        handle(&mut snoop, at(now + 999), &packet(both, (99, 1), (SYN_ACK, 500), 0));
        // Its first segment is lost, and what was said of the second asks for it.
        for k in 0..2 {
            let segment = packet(both, (100 + k * SEGMENT, 1), (Flags::ACK, 500), SEGMENT);
            handle(&mut snoop, at(now + 999), &segment);
        }
        handle(&mut snoop, at(now + 999), &packet(back, (1, 100), (Flags::ACK, 500), 0));
        handle(&mut snoop, at(now + 999), &packet(back, (1, 100), (Flags::ACK, 500), 0));
        served += u32::from(snoop.poll_packet().is_some());
        handle(&mut snoop, at(now + 999), &packet(back, (1, 100), (Flags::RST, 0), 0));
        assert!(snoop.held().0 <= 100 && snoop.held().1 <= 100 * 1_040);
    }
    assert!(served >= 990, "{served}");
}

/// More at once than there is room for: a while later those that came first give way.
#[test]
fn a_burst_of_data_with_invented_sources_takes_no_room_for_long() {
    let mut snoop = Snoop::new(100, 100 * 1_040);
    for n in 0..1_000_u16 {
        let flood = [SocketAddr::from(([203, 0, 113, 1], 1_024 + n)), ends()[1]];
        handle(&mut snoop, at(u64::from(n) / 2), &packet(flood, (0, 1), (Flags::ACK, 500), SEGMENT));
    }
    snoop.handle_timeout(at(2_500));
    for n in 0..150_u16 {
        let both = [SocketAddr::from(([10, 3, 0, 2], 2_000 + n)), ends()[1]];
        let back = [both[1], both[0]];
        let now = 2_500 + u64::from(n);
        handle(&mut snoop, at(now), &packet(back, (0, 0), (Flags::SYN, 500), 0));
        handle(&mut snoop, at(now), &packet(both, (99, 1), (SYN_ACK, 500), 0));
        for k in 0..2 {
            let segment = packet(both, (100 + k * SEGMENT, 1), (Flags::ACK, 500), SEGMENT);
            handle(&mut snoop, at(now), &segment);
        }
        for _ in 0..2 {
            handle(&mut snoop, at(now), &packet(back, (1, 100), (Flags::ACK, 500), 0));
        }
        assert!(snoop.poll_packet().is_some(), "{n}");
        handle(&mut snoop, at(now), &packet(back, (1, 100), (Flags::RST, 0), 0));
    }
}

#[test]
fn what_acknowledges_more_than_passed_changes_nothing() {
    let mut snoop = Snoop::new(10, 1 << 20);
    shake(&mut snoop, 7);
    for n in 0..10 {
        handle(&mut snoop, at(n), &data(n as u32 * SEGMENT));
    }
    // Blindly sent: one octet too many, and far ahead.
    for far in [10 * SEGMENT + 1, 1 << 30, (1 << 31) - 1] {
        assert!(handle(&mut snoop, at(11), &ack(far, 500)), "it is the sender's to judge");
    }
    assert_eq!((snoop.done.beyond, snoop.held().1), (3, 10 * 1_040));
    // Repairs go on.
    assert!(handle(&mut snoop, at(12), &ack(SEGMENT, 500)));
    assert!(!handle(&mut snoop, at(13), &ack(SEGMENT, 500)));
    assert_eq!(snoop.poll_packet().as_deref(), Some(&*data(SEGMENT)));
    // What passed without being kept passed; an end counts as an octet.
    let mut small = Snoop::new(1, 2_000);
    shake(&mut small, 7);
    for n in 0..3 {
        handle(&mut small, at(0), &data(n * SEGMENT));
    }
    handle(&mut small, at(0), &packet(ends(), (3 * SEGMENT, 1), (Flags(Flags::ACK.0 | Flags::FIN.0), 500), 0));
    assert!(handle(&mut small, at(1), &ack(3 * SEGMENT + 1, 500)));
    assert_eq!((small.done.beyond, small.held()), (0, (0, 0)));
}

#[test]
fn a_repair_that_is_answered_a_little_sooner_owes_nothing() {
    let mut snoop = Snoop::new(10, 1 << 20);
    // Round trips of 18 to 22 ms.
    for n in 0..40_u32 {
        handle(&mut snoop, at(u64::from(n) * 30), &data(n * SEGMENT));
        handle(&mut snoop, at(u64::from(n) * 30 + 18 + u64::from(n % 5)), &ack((n + 1) * SEGMENT, 500));
    }
    // Two losses, one after the other; the first repeat is heard 18.5 ms later.
    for n in 40..44 {
        handle(&mut snoop, at(1_200), &data(n * SEGMENT));
    }
    assert!(!handle(&mut snoop, at(1_220), &ack(40 * SEGMENT, 500)));
    assert!(snoop.poll_packet().is_some());
    let now = Instant::from_micros(1_238_500);
    assert!(handle(&mut snoop, now, &ack(42 * SEGMENT, 500)));
    assert!(!handle(&mut snoop, now, &ack(42 * SEGMENT, 500)));
    assert_eq!(snoop.poll_packet().as_deref(), Some(&*data(42 * SEGMENT)), "the only duplicate is no copy's");
}

/// Before the first acknowledgement nothing says that a path of 300 ms is one of 100.
#[test]
fn a_long_path_without_losses_has_nothing_sent_again() {
    let mut snoop = Snoop::new(10, 1 << 20);
    for ms in 0..2_000_u32 {
        if ms % 10 == 0 {
            handle(&mut snoop, at(ms.into()), &data(ms / 10 * SEGMENT));
        }
        if ms % 10 == 0 && ms >= 300 {
            handle(&mut snoop, at(ms.into()), &ack((ms / 10 - 29) * SEGMENT, 500));
        }
        snoop.handle_timeout(at(ms.into()));
    }
    assert!(snoop.poll_packet().is_none());
}

#[test]
fn a_direction_whose_fin_is_acknowledged_is_forgotten() {
    let mut snoop = Snoop::new(10, 1 << 20);
    handle(&mut snoop, at(0), &data(0));
    let fin = packet(ends(), (SEGMENT, 1), (Flags(Flags::FIN.0 | Flags::ACK.0), 500), 0);
    handle(&mut snoop, at(1), &fin);
    handle(&mut snoop, at(2), &ack(SEGMENT, 500));
    assert_eq!(snoop.held().0, 1, "its FIN may be lost");
    handle(&mut snoop, at(3), &ack(SEGMENT + 1, 500));
    assert_eq!(snoop.held(), (0, 0));
}
