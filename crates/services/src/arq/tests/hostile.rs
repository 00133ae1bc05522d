//! The receiver alone against hostile frames.

use super::*;

#[test]
fn overlapping_pieces_cannot_rewrite_received_bytes() {
    let mut receiver = Receiver::new(LIMITS);
    let piece = |offset, bytes| PacketFrame { number: 0, order: None, piece: Some((offset, 6)), keep: false, bytes };
    receiver.handle(Instant::ZERO, &piece(0, &[1, 2, 3, 4]));
    receiver.handle(Instant::ZERO, &piece(2, &[9, 9, 5, 6]));
    assert_eq!(receiver.poll(), Some(vec![1, 2, 3, 4, 5, 6]));
    receiver.handle(Instant::ZERO, &piece(0, &[1, 2, 3, 4, 5, 6]));
    assert_eq!((receiver.poll(), receiver.counters().duplicates), (None, 1));
}

/// Frames as a hostile but authenticated neighbour may send them, one input after another.
fn torment(receiver: &mut Receiver, input: &[u8]) {
    let mut now = Instant::from_secs(1);
    for chunk in input.chunks(64) {
        now += Span::from_millis(u64::from(chunk[0]));
        receiver.handle_timeout(now);
        for frame in Frames::new(&chunk[1..]).flatten() {
            match frame {
                Frame::Packet(frame) => receiver.handle(now, &frame),
                Frame::Compressed(frame) => receiver.handle_compressed(now, &frame),
                _ => {}
            }
        }
        assert!(receiver.octets() <= LIMITS.octets, "{} octets", receiver.octets());
        assert!(receiver.poll_timeout().is_none_or(|wakeup| wakeup.at > now));
    }
    receiver.handle_timeout(now + Span::from_secs(10));
    assert_eq!(receiver.poll_timeout(), None, "what waits is given up in time");
    while receiver.poll().is_some() {}
    assert_eq!(receiver.octets(), 0, "nothing stays");
}

#[test]
fn reassembly_corpus_replays() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/reassembly");
    let files: BTreeMap<_, _> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    assert!(files.len() >= 4, "{files:?}");
    for (file, input) in files {
        println!("{}", file.display());
        torment(&mut Receiver::new(LIMITS), &input);
        for at in 0..input.len() {
            let mut variant = input.clone();
            for value in [0, 0xff, input[at] ^ 1, input[at].wrapping_add(1)] {
                variant[at] = value;
                torment(&mut Receiver::new(LIMITS), &variant);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_frames_leave_the_receiver_sane(
        frames in proptest::collection::vec(
            (0u64..200_000, 0u64..50, 0u64..3_000, 0u16..9_000, 1u16..3_000, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let mut receiver = Receiver::new(LIMITS);
        let mut now = Instant::from_secs(1);
        let bytes = [7; 3_000];
        for (number, back, hold_ms, offset, len, ordered, cut) in frames {
            now += Span::from_millis(hold_ms % 17);
            let order = (ordered && back > 0 && back <= number).then_some(Order { back, hold_ms });
            let piece = cut.then_some((offset, offset + len));
            receiver.handle_timeout(now);
            receiver.handle(now, &PacketFrame { number, order, piece, keep: false, bytes: &bytes[..len.into()] });
            prop_assert!(receiver.octets() <= LIMITS.octets);
            while number.is_multiple_of(3) && receiver.poll().is_some() {}
        }
        receiver.handle_timeout(now + Span::from_secs(10));
        while receiver.poll().is_some() {}
        prop_assert_eq!((receiver.octets(), receiver.poll_timeout()), (0, None));
    }
}
