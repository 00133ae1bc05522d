//! Replays `fuzz/corpus/{serial,ppp}` as the fuzz targets do, with prefixes and changed octets, and drives both with random ones.

#[path = "../../../fuzz/shared/serial.rs"]
mod driver;

use proptest::prelude::*;
use std::path::Path;

/// How much more of each input the long edition changes: all of it.
fn stride(len: usize) -> usize {
    if std::env::var_os("WAVELANE_TEST_ALL").is_some() { 1 } else { (len / 16).max(1) }
}

fn replay(target: &str, drive: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).expect("the corpus is committed");
    let mut count = 0;
    for file in files {
        let input = std::fs::read(file.expect("a readable folder").path()).expect("a readable file");
        count += 1;
        drive(&input);
        for at in (0..input.len()).step_by(stride(input.len())) {
            drive(&input[..at]);
            for value in [0x00, 0x7e, 0xc0, 0xff, input[at] ^ 1, input[at].wrapping_add(1)] {
                let mut variant = input.clone();
                variant[at] = value;
                drive(&variant);
            }
        }
    }
    assert!(count >= 3, "{} holds {count} inputs", folder.display());
}

#[test]
fn serial_corpus() {
    replay("serial", driver::decoders);
}

#[test]
fn ppp_corpus() {
    replay("ppp", |input| _ = driver::ppp(input));
    assert!(driver::ppp(include_bytes!("../../../fuzz/corpus/ppp/up")), "the driver finds no way to an open link");
}

proptest! {
    #[test]
    fn any_octets_at_any_framing(input in prop::collection::vec(any::<u8>(), 0..3_000)) {
        driver::decoders(&input);
    }

    #[test]
    fn any_peer_of_ppp(input in prop::collection::vec(any::<u8>(), 0..600)) {
        driver::ppp(&input);
    }
}
