//! Replays `fuzz/corpus/config`, `proxy_file`, `neighbors` and `named_server`.

use wavelane_daemon::config::Config;

#[path = "../../../../fuzz/shared/neighbors.rs"]
mod neighbors;
#[path = "../../../../fuzz/shared/replay.rs"]
mod replay;

#[test]
fn texts_replay() {
    replay::texts("config", |text, folder| Config::parse(text, "corpus", folder).err());
}

#[test]
fn proxies_files_replay() {
    replay::texts("proxy_file", |text, _| wavelane_daemon::proxy::parse_text(text).err());
}

/// Prefixes and variants are tried at this many places of an input.
const PLACES: usize = 50;

/// Gives `take` every input of a corpus, prefixes of it, and variants with one octet replaced.
fn torment(corpus: &str, take: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3);
    for file in files {
        println!("{}", file.display());
        let input = std::fs::read(file).unwrap();
        take(&input);
        for at in (0..input.len()).step_by(input.len() / PLACES + 1) {
            take(&input[..at]);
            for value in [0, 0x7f, 0xff, input[at] ^ 1] {
                let mut variant = input.clone();
                variant[at] = value;
                take(&variant);
            }
        }
    }
}

#[test]
fn messages_of_neighbors_replay() {
    torment("neighbors", neighbors::drive);
}

#[test]
fn options_that_name_servers_replay() {
    torment("named_server", |head| {
        let _ = wavelane_daemon::proxy::named_server(head);
    });
}
