//! Replays `fuzz/corpus/capture` and `fuzz/corpus/probe`: every committed input, prefixes of it and variants with octets
//! changed; then inputs made from them by chance.
//!
//! `WAVELANE_SOAK_SECONDS` says for how long inputs of each of the three kinds are made (without it a fixed number is),
//! `WAVELANE_SOAK_SEED` with which seed the first is made, `WAVELANE_SOAK_INPUTS` of how many. A failure prints the command that
//! repeats it and leaves the input in a file.

#[path = "../../../../../fuzz/shared/capture.rs"]
mod capture;
#[path = "../../../../../fuzz/shared/probe.rs"]
mod machine;
mod mutation;
mod soak;

use std::path::{Path, PathBuf};

/// Captures and result files are cut and changed at this many places, probe packets at so many.
const CAPTURE_PLACES: usize = 150;
const PROBE_PLACES: usize = 16;

/// The committed inputs of a folder.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{} holds only {} inputs", folder.display(), files.len());
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).expect("a readable file"))).collect()
}

/// Feeds every committed input, prefixes of it, and what `variants` makes of an octet, one at a time.
fn replay<const N: usize>(name: &str, places: usize, variants: impl Fn(u8) -> [u8; N], mut feed: impl FnMut(&[u8])) {
    for (file, input) in corpus(name) {
        println!("{}", file.display());
        feed(&input);
        for at in (0..input.len()).step_by(input.len() / places + 1) {
            feed(&input[..at]);
            for octet in variants(input[at]) {
                let mut variant = input.clone();
                variant[at] = octet;
                feed(&variant);
            }
        }
    }
}

#[test]
fn captures_and_result_files_replay() {
    replay("capture", CAPTURE_PLACES, |_| [0, 0x7F, 0xFF], capture::check);
}

#[test]
fn probe_packets_replay() {
    let mut sent = 0;
    replay(
        "probe",
        PROBE_PLACES,
        |octet| [1, 0x80, 0xff].map(|flip| octet ^ flip),
        |input| sent += machine::feed(input),
    );
    assert!(sent > 50, "the client was brought to send: {sent}");
}

#[test]
fn mutated_captures_are_survived() {
    let captures = mutation::Captures::new(corpus("capture"));
    soak::run("mutated_captures", 500, |chance| captures.make(chance), capture::check);
}

#[test]
fn mutated_result_files_are_survived() {
    let results = mutation::Results::new(corpus("capture"));
    soak::run("mutated_result_files", 500, |chance| results.make(chance), capture::check);
}

#[test]
fn mutated_probe_packets_are_survived() {
    let corpus: Vec<Vec<u8>> = corpus("probe").into_iter().map(|(_, input)| input).collect();
    let feed = |input: &[u8]| {
        machine::feed(input);
    };
    soak::run("mutated_probe_packets", 2_000, |chance| mutation::probe_packets(chance, &corpus), feed);
}
