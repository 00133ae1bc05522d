//! Replays `fuzz/corpus/{hop,gateway,hostile_peer}` as the fuzz targets do: what `fuzz/shared` makes of every committed input, of its
//! prefixes, and of variants with one octet replaced.

use std::path::Path;

#[path = "../../../fuzz/shared/gateway.rs"]
mod gateway;
#[path = "../../../fuzz/shared/hop.rs"]
mod hop;
#[path = "../../../fuzz/shared/hostile_peer.rs"]
mod hostile_peer;

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

#[test]
fn a_hub_survives_the_corpus_of_hostile_peers() {
    let reached = replay("hostile_peer", hostile_peer::feed);
    assert!(reached.iter().any(|r| r.datagrams > 3) && reached.iter().all(|r| r.transfer > 0), "{reached:?}");
    assert!(reached.iter().any(|r| r.overheard > 0), "{reached:?}");
}

/// A few episodes of the suite that `wavelane-daemon`'s test `hostile_peer` runs for longer.
#[test]
fn a_hostile_peer_with_valid_keys_does_not_affect_others() {
    let reached: Vec<_> = (0..8).map(|seed| hostile_peer::episode(seed, 300)).collect();
    let sum = |part: fn(&hostile_peer::Reached) -> u64| reached.iter().map(part).sum::<u64>();
    // It gets behind the door.
    assert!(sum(|r| r.flows) > 20 && sum(|r| r.octets) > 1_000, "{reached:?}");
    assert!(sum(|r| r.relayed) > 0 && sum(|r| r.packets) > 20, "{reached:?}");
    assert!(sum(|r| r.overheard) > 0, "{reached:?}");
    assert!(sum(|r| r.datagrams) > 500 && sum(|r| r.transfer) > 1_000_000, "{reached:?}");
}
