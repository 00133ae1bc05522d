//! Arbitrary text as a proxy's file.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = wavelane_daemon::proxy::parse_text(text);
});
