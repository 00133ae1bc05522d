//! Replays `fuzz/corpus/capture`: every committed input, prefixes of it, and variants with one byte replaced.

#[path = "../../../fuzz/shared/capture.rs"]
mod capture;

use std::path::Path;

/// Prefixes and variants are tried at this many places per input.
const PLACES: usize = 150;

#[test]
fn the_corpus_is_read_without_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture");
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{} holds only {} inputs", folder.display(), files.len());
    for file in files {
        println!("{}", file.display());
        let bytes = std::fs::read(&file).expect("a readable file");
        capture::check(&bytes);
        for at in (0..bytes.len()).step_by(bytes.len() / PLACES + 1) {
            capture::check(&bytes[..at]);
            for value in [0, 0x7F, 0xFF] {
                let mut variant = bytes.clone();
                variant[at] = value;
                capture::check(&variant);
            }
        }
    }
}
