//! The code recovers what it promises, agrees with a second implementation, and keeps its bounds.

use super::*;
use proptest::prelude::*;
use wavelane_base::{Chance, Seed};

/// `k` datagrams of uneven lengths at uneven numbers.
fn datagrams(k: usize, dice: &mut Chance) -> Vec<(u64, Vec<u8>)> {
    let mut number = dice.below(1 << 40);
    (0..k)
        .map(|_| {
            let bytes = (0..dice.below(60)).map(|_| dice.below(256) as u8).collect();
            number += 1 + u64::from(k < 60 && dice.below(4) == 0);
            (number, bytes)
        })
        .collect()
}

/// Which of `k` datagrams come out of a decoder that gets `repairs` symbols, and those datagrams not in `lost`.
fn recovered(all: &[(u64, Vec<u8>)], repairs: usize, lost: &[usize], dice: &mut Chance) -> Vec<(u64, Vec<u8>)> {
    let mut encoder = Encoder::new(SPAN_MAX as usize);
    all.iter().for_each(|(number, bytes)| encoder.push(*number, bytes));
    let mut arrivals: Vec<Option<usize>> = (0..all.len()).filter(|i| !lost.contains(i)).map(Some).collect();
    arrivals.extend((0..repairs).map(|_| None));
    // Any order of arrival.
    for i in (1..arrivals.len()).rev() {
        arrivals.swap(i, dice.below(i as u64 + 1) as usize);
    }
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for arrival in arrivals {
        match arrival {
            Some(i) => assert!(decoder.source(all[i].0, &all[i].1)),
            None => {
                let repair = encoder.repair().expect("something is covered");
                decoder.repair(repair.key, repair.first, repair.mask, &repair.symbol);
            }
        }
        out.extend(std::iter::from_fn(|| decoder.poll_recovered()));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any `k` of `k + r` suffice, in any order, and what comes out is what went in.
    #[test]
    fn as_many_repairs_as_losses_bring_everything_back(k in 1usize..=120, r in 1usize..=40, seed: u64) {
        let mut dice = Seed(seed).chance("fec");
        let all = datagrams(k, &mut dice);
        let mut lost: Vec<usize> = (0..k).collect();
        while lost.len() > r {
            lost.swap_remove(dice.below(lost.len() as u64) as usize);
        }
        let mut got = recovered(&all, lost.len(), &lost, &mut dice);
        got.sort();
        let mut wanted: Vec<_> = lost.iter().map(|i| all[*i].clone()).collect();
        wanted.sort();
        prop_assert_eq!(got, wanted);
    }

    /// Fewer symbols than losses bring nothing wrong.
    #[test]
    fn too_few_symbols_recover_nothing_wrong(k in 2usize..=60, seed: u64) {
        let mut dice = Seed(seed).chance("fec");
        let all = datagrams(k, &mut dice);
        let lost: Vec<usize> = (0..k).step_by(2).collect();
        let got = recovered(&all, lost.len() - 1, &lost, &mut dice);
        prop_assert!(got.is_empty() || got.iter().all(|g| all.contains(g)), "{:?}", got);
    }

    /// Whatever a neighbour sends: no panic, and the tables keep their bounds.
    #[test]
    fn nonsense_is_survived(seed: u64) {
        let mut dice = Seed(seed).chance("nonsense");
        let mut decoder = Decoder::default();
        for _ in 0..300 {
            let near = if dice.below(8) == 0 { u64::MAX - dice.below(200) } else { dice.below(300) };
            let bytes: Vec<u8> = (0..dice.below(12)).map(|_| dice.below(256) as u8).collect();
            if dice.below(3) == 0 {
                decoder.source(near, &bytes);
            } else {
                let mask = u128::from(dice.below(u64::MAX)) << dice.below(65);
                decoder.repair(dice.below(256) as u8, near, mask, &bytes);
            }
            while decoder.poll_recovered().is_some() {}
            let (sources, equations) = decoder.held();
            prop_assert!(sources <= SOURCES_MAX && equations <= EQUATIONS_MAX);
        }
    }
}

#[test]
fn the_field_is_a_field() {
    for a in 1..=255u8 {
        assert_eq!(multiply(a, inverse(a)), 1, "{a}");
        for b in 0..=255u8 {
            assert_eq!(multiply(a, b), slow_multiply(a, b), "{a} * {b}");
        }
    }
    assert_eq!((inverse(0), multiply(0, 7), multiply(7, 0)), (0, 0, 0));
}

/// Long multiplication and long division by the polynomial, bit by bit.
fn slow_multiply(a: u8, b: u8) -> u8 {
    let mut product = (0..8).filter(|i| b >> i & 1 == 1).fold(0u16, |sum, i| sum ^ u16::from(a) << i);
    for bit in (8..15).rev().filter(|bit| product >> bit & 1 == 1).collect::<Vec<_>>() {
        if product >> bit & 1 == 1 {
            product ^= 0x11d << (bit - 8);
        }
    }
    for bit in (8..15).rev() {
        if product >> bit & 1 == 1 {
            product ^= 0x11d << (bit - 8);
        }
    }
    product as u8
}

#[test]
fn the_fast_kernel_equals_the_tables() {
    let mut dice = Seed(3).chance("kernel");
    for len in (0..100).chain([1_431, 1_472]) {
        let source: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
        let before: Vec<u8> = (0..len + 5).map(|_| dice.below(256) as u8).collect();
        let factor = dice.below(256) as u8;
        let mut sum = before.clone();
        add_multiple(&mut sum, &source, factor);
        let wanted: Vec<u8> =
            (0..len + 5).map(|i| before[i] ^ source.get(i).map_or(0, |s| multiply(*s, factor))).collect();
        assert_eq!(sum, wanted, "length {len}, factor {factor}");
    }
}

#[test]
fn repairs_wanted_follow_loss_and_size() {
    assert_eq!([0.0, 0.01, 0.05, 0.1, 0.2].map(|loss| repairs_for(8, loss, 0.02)), [0, 1, 2, 3, 6]);
    assert_eq!([1, 8, 32, 64].map(|datagrams| repairs_for(datagrams, 0.05, 0.02)), [1, 2, 5, 8]);
    assert_eq!(repairs_for(0, 0.2, 0.02), 0);
    assert_eq!(repairs_for(64, 0.9, 0.02), REPAIRS_MAX, "bounded");
}

#[test]
fn the_encoder_keeps_to_its_span() {
    let mut encoder = Encoder::new(4);
    for number in [10, 11, 12, 13, 14] {
        encoder.push(number, &[number as u8]);
    }
    assert_eq!(encoder.len(), 4);
    encoder.forget(12);
    let repair = encoder.repair().expect("three are left");
    assert_eq!((repair.first, repair.mask), (11, 0b1101));
    encoder.push(17, &[1; 9]);
    assert_eq!((encoder.len(), encoder.symbol_len()), (2, 11), "14 and 17: more would be too wide a span");
}

/// The vectors of `vectors/fec.txt`, which a second implementation in another language checks as well.
#[test]
fn the_vectors_agree() {
    let text = include_str!("../../../../vectors/fec.txt");
    let mut encoder = Encoder::new(SPAN_MAX as usize);
    let hex = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
        digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
    };
    let mut checked = 0;
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<u64>().expect("a number");
        match words[0] {
            "product" => assert_eq!(u64::from(multiply(number(1) as u8, number(2) as u8)), number(3), "{line}"),
            "coefficient" => assert_eq!(u64::from(coefficient(number(1), number(2) as u8)), number(3), "{line}"),
            "datagram" => encoder.push(number(1), &words.get(2).map_or(Vec::new(), |text| hex(text))),
            "repair" => {
                let repair = encoder.repair().expect("datagrams stand above");
                assert_eq!((u64::from(repair.key), repair.first), (number(1), number(2)), "{line}");
                assert_eq!(format!("{:x}", repair.mask), words[3], "{line}");
                assert_eq!(repair.symbol, hex(words[4]), "{line}");
            }
            other => panic!("what is '{other}'?"),
        }
        checked += 1;
    }
    assert!(checked >= 20, "only {checked} vectors");
}

/// Replays `fuzz/corpus/repair` as the fuzz target does: every input, every prefix, and variants with one byte replaced.
#[test]
fn the_corpus_is_survived() {
    use wavelane_wire::frame::{Frame, Frames};
    fn feed(input: &[u8]) -> usize {
        let (mut decoder, mut recovered) = (Decoder::default(), 0);
        for (number, piece) in (0u64..).zip(input.chunks(48)) {
            match Frames::new(piece).next() {
                Some(Ok(Frame::Protected)) => _ = decoder.source(number, piece),
                Some(Ok(Frame::Repair(r))) => decoder.repair(r.key, r.first, r.mask, r.symbol),
                _ => {}
            }
            recovered += std::iter::from_fn(|| decoder.poll_recovered()).count();
        }
        recovered
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/repair");
    let mut inputs = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is committed") {
        let path = entry.expect("a readable folder").path();
        let input = std::fs::read(&path).expect("a readable file");
        let recovered = feed(&input);
        if path.ends_with("two_symbols_bring_two_back") {
            assert_eq!(recovered, 2);
        }
        (0..input.len()).for_each(|end| _ = feed(&input[..end]));
        let mut variant = input.clone();
        for at in 0..input.len() {
            for value in [0x00, 0x7f, 0x80, 0xff, input[at] ^ 1] {
                variant[at] = value;
                feed(&variant);
            }
            variant[at] = input[at];
        }
        inputs += 1;
    }
    assert!(inputs >= 5, "{} holds only {inputs} inputs", folder.display());
}
