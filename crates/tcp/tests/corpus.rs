//! Replays `fuzz/corpus/tcp_machine` as the fuzz target does: every committed input, prefixes, and variants with one byte
//! replaced.

#[path = "../../../fuzz/shared/tcp_machine.rs"]
mod machine;

#[test]
fn tcp_machine_corpus_replays() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tcp_machine");
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{} holds only {} inputs", folder.display(), files.len());
    for file in files {
        println!("{}", file.display());
        let input = std::fs::read(&file).expect("a readable file");
        machine::drive(&input);
        for at in (2..input.len()).step_by(16) {
            machine::drive(&input[..at]);
        }
        for at in 0..input.len() {
            let mut variant = input.clone();
            variant[at] ^= 0x81 >> (at % 8);
            machine::drive(&variant);
        }
    }
}
