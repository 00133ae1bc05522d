//! Replays a corpus of texts in an ordinary test, for the crates whose files people write.

use std::path::{Path, PathBuf};

/// Prefixes and variants are tried at this many places per text, so that long texts stay quick.
const PLACES: usize = 400;

/// Gives `parse` every text of `corpus`, its prefixes, and variants with one byte replaced, with the folder in which
/// they stand. Nothing may panic, and every refusal is one line.
pub(crate) fn texts<Why: std::fmt::Display>(corpus: &str, parse: impl Fn(&str, &Path) -> Option<Why>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{} holds only {} inputs", folder.display(), files.len());
    let read = |bytes: &[u8]| {
        let Some(why) = parse(&String::from_utf8_lossy(bytes), &folder) else { return };
        let why = why.to_string();
        assert!(!why.trim().is_empty() && !why.contains('\n'), "a refusal is one line: {why:?}");
    };
    for file in files {
        println!("{}", file.display());
        let bytes = std::fs::read(&file).expect("a readable file");
        read(&bytes);
        for at in (0..bytes.len()).step_by(bytes.len() / PLACES + 1) {
            read(&bytes[..at]);
            for value in [0, b'"', b'9', b'-', b'[', 0xff] {
                let mut variant = bytes.clone();
                variant[at] = value;
                read(&variant);
            }
        }
    }
}
