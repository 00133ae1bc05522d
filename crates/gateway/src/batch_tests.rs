//! Batches: the same bytes as datagrams taken one by one, within what pacer and lane time allow.

use super::*;
use proptest::prelude::*;
use wavelane_base::Rate;

/// Takes everything that `node` sends now, at most `most` datagrams at once: returns datagrams, and octets per batch.
fn take(node: &mut Gateway, now: Instant, most: usize) -> (Vec<Vec<u8>>, Vec<usize>) {
    let mut buf = vec![0; 65_535];
    let (mut datagrams, mut batches) = (Vec::new(), Vec::new());
    while let Some(out) = node.poll_transmit(now, PortId(0), &mut buf, most) {
        let size = out.segment_size.map_or(out.len, usize::from);
        assert!(out.len.div_ceil(size) <= most && out.to.is_some());
        datagrams.extend(buf[..out.len].chunks(size).map(<[u8]>::to_vec));
        batches.push(out.len);
    }
    (datagrams, batches)
}

/// The record of a run.
struct Driven {
    /// Every datagram, and when it was sent.
    sent: Vec<(Instant, Vec<u8>)>,
    /// What the reader read.
    heard: Vec<u8>,
    /// Octets of each batch and the sender's rate at that time.
    batches: Vec<(usize, Rate)>,
}

/// Runs a pair with batches of at most `most` datagrams each way, on a pipe that loses one in `lost_of`.
fn drive(most: usize, lost_of: u64, octets: usize) -> Driven {
    let mut pair = Pair::new();
    let (ours, theirs) = pair.connect();
    let data: Vec<u8> = (0..octets as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut written, mut heard, mut sent, mut batches) = (0, Vec::new(), Vec::new(), Vec::new());
    let (mut pipe, mut number) = (VecDeque::<(Instant, usize, Vec<u8>)>::new(), 0u64);
    let end = pair.now + Span::from_secs(4);
    while pair.now < end && heard.len() < octets {
        written += pair.nodes[0].write(pair.now, ours, &data[written..]);
        for side in 0..2 {
            let (datagrams, octets) = take(&mut pair.nodes[side], pair.now, most);
            let rate = pair.nodes[side].status(pair.now).peers[0].rate.unwrap_or(Rate::from_bps(0));
            batches.extend(octets.into_iter().map(|n| (n, rate)));
            for datagram in datagrams {
                sent.push((pair.now, datagram.clone()));
                number += 1;
                if lost_of == 0 || !number.is_multiple_of(lost_of) {
                    pipe.push_back((pair.now + DELAY, 1 - side, datagram));
                }
            }
            while pair.nodes[side].poll_event().is_some() {}
        }
        let deadlines = pair.nodes.iter().filter_map(|node| node.poll_timeout().map(|w| w.at));
        pair.now = deadlines.chain(pipe.front().map(|f| f.0)).min().map_or(end, |at| at.max(pair.now).min(end));
        pair.nodes.iter_mut().for_each(|node| node.handle_timeout(pair.now));
        while pipe.front().is_some_and(|f| f.0 <= pair.now) {
            let (_, to, first) = pipe.pop_front().expect("the front was there");
            // Runs of equal-size datagrams arrive as the kernel would join them.
            let (size, mut joined) = (first.len(), first);
            let mut segments = 1;
            while segments < most
                && pipe.front().is_some_and(|(at, side, next)| *at <= pair.now && *side == to && next.len() <= size)
            {
                let (_, _, next) = pipe.pop_front().expect("the front was there");
                segments += 1;
                joined.extend(&next);
                if next.len() < size {
                    break;
                }
            }
            let from = Some(if to == 0 { B } else { A });
            let segment = (segments > 1).then_some(size as u16);
            let meta = FrameMeta { rx_time: pair.now, from, segment, ..FrameMeta::default() };
            pair.nodes[to].handle_frame(pair.now, PortId(0), &mut joined, meta);
        }
        pair.read_all(1, theirs, &mut heard);
    }
    Driven { sent, heard, batches }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn a_batch_is_the_datagrams_it_stands_for(most in 2usize..64, lost_of in 0u64..40, octets in 1usize..3_000_000) {
        let lost_of = if lost_of < 3 { 0 } else { lost_of };
        let single = drive(1, lost_of, octets);
        let batched = drive(most, lost_of, octets);
        prop_assert_eq!(single.sent.len(), batched.sent.len());
        let differs = single.sent.iter().zip(&batched.sent).position(|(a, b)| a != b);
        prop_assert_eq!(differs, None, "a datagram differs");
        prop_assert!(single.heard == batched.heard);
    }
}

#[test]
fn batches_form_at_speed_and_last_a_millisecond_at_most() {
    let Driven { heard, batches, .. } = drive(64, 0, 20_000_000);
    assert!(heard.len() > 5_000_000, "{} octets", heard.len());
    let longest = batches.iter().map(|b| b.0).max().unwrap_or(0);
    assert!(longest > 20_000, "the pipe has no limit, so batches grow: {longest}");
    for (octets, rate) in batches {
        // One datagram may always be sent; headers of a batch count too.
        let bound = rate.octets_in(Span::from_millis(1)).get().max(1500) as usize;
        assert!(octets <= bound, "{octets} octets at once at {rate:?}");
    }
}
