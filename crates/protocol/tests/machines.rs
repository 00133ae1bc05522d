//! Replays `fuzz/corpus/{hop,gateway}` as the fuzz targets do: what `fuzz/shared` makes of every committed input, of its
//! prefixes, and of variants with one octet replaced.

use std::path::Path;

#[path = "../../../fuzz/shared/gateway.rs"]
mod gateway;
#[path = "../../../fuzz/shared/hop.rs"]
mod hop;

/// Prefixes and variants are tried at about this many places per input, so that the replay stays quick.
const PLACES: usize = 16;

/// Feeds all of it. Returns what every committed input by itself came to.
fn replay<T>(target: &str, feed: fn(&[u8]) -> T) -> Vec<T> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{} holds only {} inputs", folder.display(), files.len());
    let mut reached = Vec::new();
    for file in files {
        println!("{}", file.display());
        let input = std::fs::read(&file).expect("a readable file");
        reached.push(feed(&input));
        for at in (0..input.len()).step_by(input.len() / PLACES + 1) {
            feed(&input[..at]);
            let mut variant = input.clone();
            variant[at] = input[at].wrapping_add(1);
            feed(&variant);
        }
    }
    reached
}

#[test]
fn the_block_service_survives_its_corpus() {
    let reached = replay("hop", hop::feed);
    // The corpus gets behind the door.
    assert!(reached.iter().any(|r| r.0 > 0) && reached.iter().any(|r| r.1 > 0), "{reached:?}");
}

#[test]
fn the_gateway_survives_its_corpus() {
    let reached = replay("gateway", gateway::feed);
    assert!(reached.iter().any(|r| r.flows > 0) && reached.iter().any(|r| r.octets > 0), "{reached:?}");
    assert!(reached.iter().any(|r| r.packets > 0), "{reached:?}");
}
