use crate::{Counters, FRAME_MAX_DEFAULT, FRAME_MAX_LIMIT, Fault, Framer, Framing, IDLE_DEFAULT, idle_at};
use proptest::prelude::*;
use wavelane_base::{Instant, Rate, Seed, Span};

const NOW: Instant = Instant::from_secs(1);
const LATER: Instant = Instant::from_secs(2);

fn framed(framing: Framing, packets: &[&[u8]]) -> Vec<u8> {
    let (mut framer, mut out) = (Framer::new(framing), Vec::new());
    packets.iter().for_each(|packet| framer.frame(NOW, packet, &mut out));
    out
}

fn packets(framer: &mut Framer, octets: &[u8]) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    framer.push(NOW, octets, |packet| got.push(packet.to_vec()));
    framer.handle_timeout(LATER, |packet| got.push(packet.to_vec()));
    got
}

fn read(framing: Framing, octets: &[u8]) -> (Vec<Vec<u8>>, Counters) {
    let mut framer = Framer::new(framing);
    (packets(&mut framer, octets), framer.counters())
}

/// What a lane's datagram looks like to a framing: it never begins with END.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let octet = prop_oneof![any::<u8>(), prop::sample::select(vec![0xc0, 0xdb, 0xdc, 0xdd, 0x7e, 0x7d, 0x11, 0x00])];
    prop::collection::vec(octet, 2..300).prop_map(|mut octets| {
        octets[0] = 4;
        octets
    })
}

proptest! {
    #[test]
    fn what_is_framed_arrives_however_it_is_cut(
        sent in prop::collection::vec(datagram(), 1..6),
        cuts in prop::collection::vec(1_usize..40, 1..8),
    ) {
        for framing in Framing::ALL {
            let octets = framed(framing, &sent.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let (mut framer, mut got, mut rest, mut cut) = (Framer::new(framing), Vec::new(), &octets[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cut.next().expect("endless")).min(rest.len()));
                framer.push(NOW, now, |packet| got.push(packet.to_vec()));
                rest = later;
            }
            framer.handle_timeout(LATER, |packet| got.push(packet.to_vec()));
            prop_assert_eq!(&got, &sent, "{}", framing);
            prop_assert_eq!(framer.counters().bad_total(), 0);
            prop_assert_eq!(framer.counters().octets, octets.len() as u64);
            prop_assert!(framer.poll_timeout().is_none());
        }
    }

    #[test]
    fn after_any_octets_and_silence_whole_frames_decode(noise in prop::collection::vec(any::<u8>(), 0..4000)) {
        for framing in Framing::ALL {
            let mut framer = Framer::new(framing);
            let taken: usize = packets(&mut framer, &noise).iter().map(Vec::len).sum();
            prop_assert!(taken <= noise.len());
            // The first of two may be lost to a half frame before it, the second never.
            let two = framed(framing, &[b"first", b"second"]);
            let last = packets(&mut framer, &two).pop();
            prop_assert_eq!(last, Some(b"second".to_vec()), "{}", framing);
        }
    }
}

#[test]
fn words_are_read_and_printed() {
    for framing in Framing::ALL {
        assert_eq!(framing.to_string().parse(), Ok(framing));
    }
    let error = "SLIP".parse::<Framing>().expect_err("words are lower case");
    assert_eq!(error.to_string(), "no framing is called `SLIP`: use slip-1998, slip, cslip, ppp or kiss");
}

/// Noise of one octet in a hundred: every packet that arrives through a check sequence is one that was sent, and those that
/// met no noise, nor had a neighbour that did, all arrive.
#[test]
fn noise_loses_the_frames_it_hits_and_their_neighbours() {
    for framing in Framing::ALL {
        let (mut sender, mut receiver) = (Framer::new(framing), Framer::new(framing));
        let mut dice = Seed(39).chance("noise");
        let (mut got, mut clean, mut hit_before) = (Vec::new(), Vec::new(), true);
        let mut line = Vec::new();
        for number in 0..4_000_u32 {
            let mut packet = vec![4; 4];
            packet.extend(number.to_be_bytes());
            packet.extend([0xc0, 0xdb, 0x7e, 0x7d, 9, 9]);
            let start = line.len();
            sender.frame(NOW, &packet, &mut line);
            let mut hit = false;
            for octet in &mut line[start..] {
                if dice.below(100) == 0 {
                    *octet ^= 1 << dice.below(8);
                    hit = true;
                }
            }
            if !hit && !hit_before {
                clean.push(packet);
            }
            hit_before = hit;
        }
        // A frame is hurt by the next one's first octets too, with a doubled END.
        receiver.push(NOW, &line, |packet| got.push(packet.to_vec()));
        receiver.handle_timeout(LATER, |packet| got.push(packet.to_vec()));
        let mut arrived = got.iter();
        let found = clean.iter().filter(|packet| arrived.clone().any(|got| got == *packet)).count();
        assert!(clean.len() > 2_000, "{framing}: {}", clean.len());
        if framing == Framing::Slip1998 {
            assert!(found * 100 >= clean.len() * 97, "{framing}: {found} of {}", clean.len());
        } else {
            assert_eq!(found, clean.len(), "{framing}");
        }
        if framing == Framing::Ppp {
            assert!(arrived.all(|packet| packet.len() == 14 && packet[..4] == [4; 4]), "a wrong packet went up");
        }
        assert!(framing == Framing::Slip1998 || receiver.counters().bad_total() > 0, "{framing}");
    }
}

/// Memory stays within the bound whatever arrives, each cause is counted, and the next whole frame decodes.
#[test]
fn endless_half_and_escaped_frames_are_counted_and_passed() {
    let endless = vec![b'x'; 3 * FRAME_MAX_LIMIT];
    for framing in Framing::ALL {
        let mut framer = Framer::new(framing);
        let lost = packets(&mut framer, &endless);
        assert!(lost.is_empty(), "{framing}: {} octets", lost[0].len());
        assert_eq!(framer.counters().bad(Fault::Long), 1, "{framing}: one frame, one count");
        assert!(framer.held() <= FRAME_MAX_DEFAULT + 6);
        let two = framed(framing, &[b"first", b"second"]);
        assert_eq!(packets(&mut framer, &two).last(), Some(&b"second".to_vec()), "{framing}");
        assert_eq!(framer.counters().octets_since_frame, 0);
    }
    for (framing, octets, fault) in [
        (Framing::Slip, vec![0xdb; 5000], Fault::Escape),
        (Framing::Slip, vec![b'a', 0xdb, 0xc0], Fault::Escape),
        (Framing::Kiss, vec![0xc0, 0x00, 0xdb, b'a', 0xc0], Fault::Escape),
        (Framing::Kiss, vec![0xc0, 0x10, b'a', 0xc0], Fault::Command),
        (Framing::Kiss, vec![0xc0, 0x01, 30, 0xc0], Fault::Command),
        (Framing::Kiss, vec![0xc0, 0x00, 0xc0], Fault::Short),
        (Framing::Ppp, vec![b'a', b'b', 0x7d, 0x7e], Fault::Aborted),
        (Framing::Ppp, vec![b'a', b'b', 0x7e], Fault::Short),
        (Framing::Ppp, b"abcdefgh\x7e".to_vec(), Fault::CheckSum),
    ] {
        let (got, counters) = read(framing, &octets);
        assert!(got.is_empty(), "{framing}: {octets:02x?}");
        assert_eq!(counters.bad_by_cause().collect::<Vec<_>>(), [(fault, 1)], "{framing}: {octets:02x?}");
    }
}

#[test]
fn another_protocols_frame_is_counted() {
    let mut octets = Vec::new();
    wavelane_wire::serial::hdlc::put(
        wavelane_wire::serial::hdlc::Style::UNNEGOTIATED,
        0xc021,
        &[1, 1, 0, 4],
        &mut octets,
    );
    let (got, counters) = read(Framing::Ppp, &octets);
    assert!(got.is_empty());
    assert_eq!(counters.bad(Fault::Protocol), 1);
}

#[test]
fn a_lone_end_of_1998_waits_for_silence() {
    let mut framer = Framer::new(Framing::Slip1998);
    let mut got = Vec::new();
    framer.push(NOW, b"ab\xc0", |packet| got.push(packet.to_vec()));
    assert!(got.is_empty(), "the END may be the first of two");
    let due = framer.poll_timeout().expect("a deadline").at;
    assert_eq!(due, NOW + IDLE_DEFAULT);
    framer.handle_timeout(due - Span::from_nanos(1), |_| panic!("too early"));
    framer.handle_timeout(due, |packet| got.push(packet.to_vec()));
    assert_eq!(got, [b"ab"]);
    // At the second of two in time it is data; what comes late finds the frame ended.
    framer.push(NOW, b"c\xc0", |_| panic!("undecided"));
    framer.push(NOW + Span::from_millis(1), b"\xc0d\xc0e", |packet| got.push(packet.to_vec()));
    assert_eq!(got[1], b"c\xc0d");
    assert_eq!(idle_at(Rate::from_bps(1_200)), Span::from_secs(20).scale(1, 1_200));
    assert_eq!(idle_at(Rate::from_bps(115_200)), Span::from_millis(5));
}

#[test]
fn a_leading_end_only_after_silence_and_packets_of_the_bound() {
    for (framing, first) in [(Framing::Slip, 0xc0), (Framing::Ppp, 0x7e)] {
        let (mut framer, mut out) = (Framer::new(framing), Vec::new());
        framer.frame(NOW, b"abc", &mut out);
        assert_eq!(out[0], first);
        let lone = out.len();
        framer.frame(NOW + Span::from_millis(900), b"abc", &mut out);
        assert_eq!(out.len(), 2 * lone - 1);
        framer.frame(NOW + Span::from_secs(3), b"abc", &mut out);
        assert_eq!((out.len(), out[2 * lone - 1]), (3 * lone - 1, first));
    }
    let mut framer = Framer::new(Framing::Slip);
    framer.set_frame_max(3);
    assert_eq!(packets(&mut framer, &framed(Framing::Slip, &[b"abcd", b"abc"])), [b"abc"]);
    assert_eq!((framer.frame_max(), framer.counters().bad(Fault::Long)), (3, 1));
}

#[test]
fn an_interrupted_frame_is_forgotten() {
    let mut framer = Framer::new(Framing::Slip);
    assert!(packets(&mut framer, b"half").is_empty());
    framer.reset();
    assert_eq!(packets(&mut framer, b"whole\xc0"), [b"whole"]);
}
