//! Replays `fuzz/corpus/scenario`: every committed text, its prefixes, and variants with one byte replaced. Nothing may
//! panic, and every refusal is one line.

use std::path::{Path, PathBuf};
use wavelane_scenario::Scenario;

/// Prefixes and variants are tried at this many places per text, so that long texts stay quick.
const PLACES: usize = 400;

fn read(text: &str, folder: &Path) {
    if let Err(why) = Scenario::parse(text, folder) {
        let why = why.to_string();
        assert!(!why.trim().is_empty() && !why.contains('\n'), "a refusal is one line: {why:?}");
    }
}

#[test]
fn texts_replay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/scenario");
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{} holds only {} inputs", folder.display(), files.len());
    for file in files {
        println!("{}", file.display());
        let bytes = std::fs::read(&file).expect("a readable file");
        let try_bytes = |bytes: &[u8]| read(&String::from_utf8_lossy(bytes), &folder);
        try_bytes(&bytes);
        for at in (0..bytes.len()).step_by(bytes.len() / PLACES + 1) {
            try_bytes(&bytes[..at]);
            for value in [0, b'"', b'9', b'-', b'[', 0xff] {
                let mut variant = bytes.clone();
                variant[at] = value;
                try_bytes(&variant);
            }
        }
    }
}
