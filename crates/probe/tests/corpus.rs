//! Replays `fuzz/corpus/probe`: every committed input, its prefixes and variants with a bit or two flipped.

#[path = "../../../fuzz/shared/probe.rs"]
mod machine;

use std::path::{Path, PathBuf};

/// Prefixes and variants are tried at this many places per input.
const PLACES: usize = 16;

#[test]
fn probe_packets_replay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/probe");
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{} holds only {} inputs", folder.display(), files.len());
    let mut sent = 0;
    for file in files {
        println!("{}", file.display());
        let input = std::fs::read(&file).expect("a readable file");
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
