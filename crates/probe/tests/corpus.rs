//! Replays `fuzz/corpus/probe`: every committed input, its prefixes and variants with a bit or two flipped, and inputs put
//! together from pieces of them by chance.
//!
//! `WAVELANE_PROBE_INPUTS` says of how many such inputs (`make soak`: a million), `WAVELANE_PROBE_SEED` with which seed the
//! first is made. Each names its own before it is fed, so a failure says how to repeat it.

#[path = "../../../fuzz/shared/probe.rs"]
mod machine;

use std::path::{Path, PathBuf};
use wavelane_base::Seed;

/// Prefixes and variants are tried at this many places per input.
const PLACES: usize = 16;

/// Inputs made by chance unless it is told otherwise.
const INPUTS: u64 = 2_000;
/// Pieces of one such input, and octets changed in each, at the most.
const PIECES_MAX: u64 = 12;
const CHANGES_MAX: u64 = 6;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/probe");
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{} holds only {} inputs", folder.display(), files.len());
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).expect("a readable file"))).collect()
}

#[test]
fn probe_packets_replay() {
    let mut sent = 0;
    for (file, input) in corpus() {
        println!("{}", file.display());
        sent += machine::feed(&input);
        for at in (0..input.len()).step_by(input.len() / PLACES + 1) {
            machine::feed(&input[..at]);
            for flip in [1, 0x80, 0xff] {
                let mut variant = input.clone();
                variant[at] ^= flip;
                machine::feed(&variant);
            }
        }
    }
    assert!(sent > 50, "the client was brought to send: {sent}");
}

#[test]
fn pieces_put_together_by_chance_are_survived() {
    let told = |name, default| std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"));
    let (first, inputs) = (told("WAVELANE_PROBE_SEED", 1), told("WAVELANE_PROBE_INPUTS", INPUTS));
    let corpus: Vec<Vec<u8>> = corpus().into_iter().map(|(_, input)| input).collect();
    for seed in first..first + inputs {
        // Shown only if it fails.
        println!("WAVELANE_PROBE_SEED={seed} WAVELANE_PROBE_INPUTS=1");
        let mut chance = Seed(seed).chance("pieces");
        let mut input = Vec::new();
        for _ in 0..=chance.below(PIECES_MAX) {
            let of = &corpus[chance.below(corpus.len() as u64) as usize];
            let pieces = of.chunks(machine::PIECE).count() as u64;
            let piece = of.chunks(machine::PIECE).nth(chance.below(pieces) as usize).expect("one of them");
            let mut piece = piece.to_vec();
            for _ in 0..chance.below(CHANGES_MAX) {
                let at = chance.below(piece.len() as u64) as usize;
                piece[at] = match chance.below(3) {
                    0 => chance.below(256) as u8,
                    1 => piece[at] ^ 1 << chance.below(8),
                    _ => [0, 1, 0x7f, 0x80, 0xff][chance.below(5) as usize],
                };
            }
            input.extend(piece);
        }
        machine::feed(&input);
    }
}
