//! Arbitrary heads of packets whose IP option may name a server.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = wavelane_daemon::proxy::named_server(input);
});
