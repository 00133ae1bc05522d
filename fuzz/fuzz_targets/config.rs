//! Arbitrary text as a gateway's configuration.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use wavelane_daemon::config::Config;

fuzz_target!(|text: &str| {
    let _ = Config::parse(text, "fuzz", Path::new("/nonexistent"));
});
